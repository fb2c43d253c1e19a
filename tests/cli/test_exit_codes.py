"""Every exit status of every program, with one line on standard error that says why."""

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys

import pytest
from cli.programs import (
    call,
    command,
    environment,
    run,
    run_python,
    start,
    until_it_waits,
    write_svm,
)

from pymcboost import Checkpoint, MartClassifier, __version__, load_model, load_svmlight
from pymcboost.cli.console import run as run_body
from pymcboost.cli.train import main as train


def check_exit(done, status, *messages):
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    for message in messages:
        assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["train", "predict", "info", "convert"])
def test_0_help_and_version(program):
    completed = run(program, "--version")
    assert (completed.returncode, completed.stdout, completed.stderr) == (
        0,
        f"mcboost-{program} {__version__}\n",
        "",
    )
    completed = call(program, "--help")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout.startswith(f"usage: mcboost-{program} [options] ")
    assert call(program, "-h").stdout == completed.stdout


@pytest.mark.parametrize("program", ["train", "predict", "info", "convert"])
def test_1_usage(program):
    completed = call(program, "--nonsense", "a", "b", "c")
    check_exit(completed, 1, f"mcboost-{program}: error: ", f"Try 'mcboost-{program} --help'.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "-n auto -E 10",
            "-n auto finds the number of rounds itself; set --no-early-stopping",
        ),
        ("-a multiboost --solver fcd -l log", "supports only --loss exp"),
        (
            "-a vector-tree --decision-threshold f1",
            "decision_threshold applies only to --loss logistic",
        ),
        (
            "-a vector-tree --loss logistic --class-weight balanced",
            "class_weight needs one class per row",
        ),
        (
            "-a adaboost-mh --decision-threshold 0.4",
            "decision_threshold applies only to multi-label rows",
        ),
        (
            "-a adaboost-mh --multilabel --calibrate temperature",
            "no temperature for multi-label rows",
        ),
        ("-a hingeboost --metric log_loss -P none.svm", "needs probabilities"),
        (
            "-a vector-tree --multilabel",
            "--multilabel works with -a adaboost-mh and -a vector-tree",
        ),
        ("-a mart --layout interval", "--layout interval works only with stumps"),
        ("-w1 0", "argument -w1: '0' is not a finite number > 0"),
    ],
)
def test_1_options_that_exclude_each_other(tmp_path, options, message):
    """Said before the rows are read, with the usage; in searches, too."""
    check_exit(
        call("train", *options.split(), "none.svm", cwd=tmp_path),
        1,
        message,
        "\nusage: mcboost-train [options] ",
    )
    if "-P" not in options and "--layout" not in options:
        search = call("tune", *options.split(), "--max-bins", "8,9", "none.svm", cwd=tmp_path)
        check_exit(search, 1, message, "\nusage: mcboost-tune [options] ")


def test_2_data(files, tmp_path):
    (tmp_path / "bad.svm").write_text("1 1:2 2:3\n2 1:2 1:5\n")
    check_exit(call("train", "bad.svm", cwd=tmp_path), 2, "mcboost-train: error: bad.svm:2:")
    check_exit(
        call("predict", "bad.svm", files / "model.mcb", "out", cwd=tmp_path),
        2,
        "mcboost-predict: error: bad.svm:2:",
    )
    (tmp_path / "inf.svm").write_text("1 1:2\n2 1:inf\n")
    check_exit(call("train", "inf.svm", cwd=tmp_path), 2, "inf")
    (tmp_path / "cut.svm.gz").write_bytes(b"\x1f\x8b\x08\x00")
    check_exit(call("train", "cut.svm.gz", cwd=tmp_path), 2, "cut.svm.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.svm", "cut.svm.gz", "inf.svm"]


def test_2_checkpoint_of_another_training(files, tmp_path, blobs):
    """What differs is named, and nothing is written or removed."""
    shutil.copy(files / "train.svm", tmp_path)
    options = ["-q", "-a", "mart", "--checkpoint", "part"]
    checkpoint = Checkpoint(tmp_path / "part", 0)
    data = load_svmlight(tmp_path / "train.svm")
    checkpoint.fit(MartClassifier(n_estimators=3, random_state=0), data.X, data.y)
    before = (tmp_path / "part").read_bytes()
    X, y = blobs
    write_svm(tmp_path / "other.svm", X[:180] + 1, y[:180])
    remedy = "remove the file, or name another one, to start again"
    for more, message in [
        (["-r", "0.2", "train.svm"], "learning_rate was 0.1, now it is 0.2"),
        (["-a", "logitboost", "train.svm"], "the algorithm was mart, now it is logitboost"),
        (
            ["--calibrate", "none", "train.svm"],
            "training: calibrate was the default, now it is None",
        ),
        (["-n", "2", "train.svm"], "part has 3 rounds, more than -n 2"),
        (["other.svm"], "part is the checkpoint of a different training: the features differ"),
        (["-w2", "3", "train.svm"], "class_weight was None"),
        (["-P", "other.svm", "train.svm"], "the validation set differ"),
    ]:
        check_exit(call("train", *options, *more, "m.mcb", cwd=tmp_path), 2, message, remedy)
    check_exit(
        call(
            "train", "-q", "--checkpoint", files / "model.mcb", "train.svm", "m.mcb", cwd=tmp_path
        ),
        2,
        "is a model, but not a checkpoint",
        remedy,
    )
    assert (tmp_path / "part").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.svm", "part", "train.svm"]
    check_exit(call("train", *options, "train.svm", "m.mcb", cwd=tmp_path), 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.mcb", "other.svm", "train.svm"]


def test_other_checkpoint_errors(files, tmp_path):
    train = files / "train.svm"
    (tmp_path / "notes").write_text("keep me")
    (tmp_path / "cut").write_bytes((files / "model.mcb").read_bytes()[:-1])
    check_exit(
        call("train", "--checkpoint", "notes", train, "m", cwd=tmp_path),
        1,
        "checkpoint notes already exists and is not a model",
    )
    check_exit(call("train", "-q", "--checkpoint", "cut", train, "m", cwd=tmp_path), 3, "cut: ")
    check_exit(
        call("train", "--checkpoint", "no/part", train, "m", cwd=tmp_path),
        4,
        "no: the folder for the checkpoint",
    )
    check_exit(
        call("train", "--checkpoint", tmp_path, train, "m", cwd=tmp_path),
        4,
        "is a folder, not a checkpoint",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "notes"]


def test_3_model(files, tmp_path):
    good = (files / "model.mcb").read_bytes()
    bad = {
        "empty.mcb": b"",
        "text.mcb": b"svm_type c_svc\n" * 9,
        "cut.mcb": good[:-1],
        "long.mcb": good + b"\0",
        "flip.mcb": good[:-5] + bytes([good[-5] ^ 1]) + good[-4:],
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        check_exit(call("info", name, cwd=tmp_path), 3, f"mcboost-info: error: {name}: ")
        check_exit(
            call("predict", files / "test.svm", name, "out", cwd=tmp_path),
            3,
            f"mcboost-predict: error: {name}: ",
        )
        assert not (tmp_path / "out").exists()
    check_exit(run("info", "cut.mcb", cwd=tmp_path), 3, "mcboost-info: error: cut.mcb: ")


MISSING = "No such file or directory; name a model file that mcboost-train has written\n"


def test_4_missing_and_unwritable(files, tmp_path):
    train, test, model = files / "train.svm", files / "test.svm", files / "model.mcb"
    check_exit(
        call("train", "none.svm", cwd=tmp_path),
        4,
        "mcboost-train: error: none.svm: No such file or directory",
    )
    check_exit(call("train", tmp_path, "m.mcb", cwd=tmp_path), 4, "directory")
    check_exit(
        call("train", train, "no/folder/m.mcb", cwd=tmp_path),
        4,
        "no/folder: the folder for the model file no/folder/m.mcb does not exist; create it first",
    )
    check_exit(call("train", train, tmp_path), 4, "is a folder, not a model file")
    check_exit(
        call("train", "-P", "none.svm", train, cwd=tmp_path),
        4,
        "none.svm: No such file or directory",
    )
    check_exit(
        run("predict", "none.svm", model, "out", cwd=tmp_path),
        4,
        "none.svm: No such file or directory",
    )
    check_exit(call("predict", test, "none.mcb", "out", cwd=tmp_path), 4, f"none.mcb: {MISSING}")
    completed = call("predict", test, model, "no/out", cwd=tmp_path)
    check_exit(
        completed,
        4,
        "error: no: the folder for the output file no/out does not exist; create it first\n",
    )
    # said before the rows are read
    completed = call("predict", "none.svm", "none.mcb", "no/out", cwd=tmp_path)
    check_exit(
        completed,
        4,
        "error: no: the folder for the output file no/out does not exist; create it first\n",
    )
    check_exit(call("predict", test, model, tmp_path), 4, "is a folder, not an output file")
    check_exit(
        call("info", "none.mcb", cwd=tmp_path), 4, f"mcboost-info: error: none.mcb: {MISSING}"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_4_forbidden_folder(files, tmp_path):
    tmp_path.chmod(0o500)
    check_exit(
        call("train", files / "train.svm", "m.mcb", cwd=tmp_path),
        4,
        "cannot write the model file into this folder",
    )
    check_exit(
        call("predict", files / "test.svm", files / "model.mcb", "out", cwd=tmp_path),
        4,
        "Permission denied",
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's full device")
def test_4_disk_full(files):
    check_exit(
        call("predict", files / "test.svm", files / "model.mcb", "/dev/full"),
        4,
        "/dev/full: No space left on device",
    )
    check_exit(
        call("convert", files / "model.mcb", "/dev/full"), 4, "/dev/full: No space left on device"
    )
    for program, arguments in [
        ("info", [files / "model.mcb"]),
        ("info", ["--help"]),
        ("predict", [files / "test.svm", files / "model.mcb", "-"]),
    ]:
        with open("/dev/full", "w") as full:
            completed = run(program, *arguments, stdout=full)
        assert completed.returncode == 4, completed.stderr
        assert "No space left on device" in completed.stderr
        assert "Exception ignored" not in completed.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the size of files")
def test_4_no_room_keeps_the_old_files(files, tmp_path):
    old = {"m.mcb": (files / "model.mcb").read_bytes(), "out": b"old"}
    for name, content in old.items():
        (tmp_path / name).write_bytes(content)
    for program, arguments in [
        ("train", [str(files / "train.svm"), "m.mcb"]),
        ("predict", ["-b", "1", str(files / "test.svm"), "m.mcb", "out"]),
    ]:
        code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        code += f"sys.argv[1:] = {arguments}; from pymcboost.cli.{program} import main; sys.exit(main())"
        check_exit(run_python(code, cwd=tmp_path), 4, "File too large")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


def test_5_memory(files, tmp_path, monkeypatch):
    (tmp_path / "t.svm").write_text("".join(f"{i % 2} 1:{i}\n" for i in range(9)))
    monkeypatch.setattr("pymcboost.data.svmlight.available_memory", lambda: 10)
    for program, arguments in [
        ("train", ["t.svm"]),
        ("predict", ["t.svm", files / "model.mcb", "out"]),
    ]:
        check_exit(
            call(program, *arguments, cwd=tmp_path),
            5,
            f"mcboost-{program}: error: not enough memory: t.svm: ",
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.svm"]


def test_141_reader_went_away(files):
    model = files / "model.mcb"
    for arguments in (
        ["info", "--json", model],
        ["predict", "-d", 1, files / "test.svm", model, "-"],
    ):
        reader, writer = os.pipe()
        os.close(reader)
        completed = run(*arguments, stdout=writer)
        os.close(writer)
        assert completed.returncode == 141
        assert "Traceback" not in completed.stderr
        assert "Broken" not in completed.stderr


def test_closed_streams_do_not_mix(files, tmp_path):
    (tmp_path / "t.svm").write_text("99 1:1\n")
    line = shlex.join([*command("predict"), "t.svm", str(files / "model.mcb"), "-"])
    for closing in ("2>&-", ">&-"):
        completed = subprocess.run(
            ["sh", "-c", f"{line} {closing}"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert completed.returncode == 0
        assert ("Accuracy" in completed.stderr, "Accuracy" in completed.stdout) == (
            closing == ">&-",
            False,
        )
        assert (len(completed.stdout.splitlines()) == 1) == (closing == "2>&-")


def test_4_closed_standard_input(files, tmp_path):
    for program, rest in (("train", "m.mcb"), ("predict", f"{files / 'model.mcb'} out")):
        line = f"{shlex.join(command(program))} - {rest} <&-"
        completed = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True
        )
        check_exit(completed, 4, f"mcboost-{program}: error: <stdin>: standard input is closed ")
        assert len(completed.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def gone():
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def full():
    return open("/dev/full", "w")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's full device")
@pytest.mark.parametrize("stream", [gone, full])
def test_standard_error_that_fails_costs_the_messages_only(files, tmp_path, stream):
    shutil.copy(files / "train.svm", tmp_path)
    lines = ("train", "-n 3 train.svm m.mcb"), ("predict", "train.svm m.mcb -")
    for program, arguments in lines[: 2 if stream is gone else 1]:
        with stream() as err:
            line = [*command(program), *arguments.split()]
            completed = subprocess.run(
                line, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=err, text=True
            )
        assert completed.returncode == 0
    assert len(completed.stdout.splitlines()) == (180 if stream is gone else 0)
    with stream() as err:
        line = [*command("train"), "none.svm"]
        assert subprocess.run(line, cwd=tmp_path, env=environment(), stderr=err).returncode == 4


def test_a_terminal_that_went_away_costs_the_progress_bar_only(files, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        tries = 0

        def isatty(self):
            return True

        def write(self, text):
            Terminal.tries += 1
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.chdir(tmp_path)
    assert train(["-n", "30", str(files / "train.svm"), "m.mcb"]) == 0
    assert Terminal.tries > 5
    assert load_model(tmp_path / "m.mcb").n_learners == 30
    assert type(sys.stderr) is Terminal


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the size of files")
def test_4_a_model_that_can_be_saved_nowhere_leaves_the_checkpoint(files, tmp_path):
    """A small checkpoint fits where the model does not; the same command then needs no training."""
    shutil.copy(files / "train.svm", tmp_path)
    (tmp_path / "tmp").mkdir()
    arguments = [
        "-a",
        "mart",
        "-n",
        "5",
        "--checkpoint",
        "part",
        "--checkpoint-every",
        "0",
        "train.svm",
        "m.mcb",
    ]
    code = (
        "import resource, sys\n"
        "import pymcboost.cli.train as train\n"
        "made = train.model_bytes\n"
        "def limited(*arguments):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "    return made(*arguments)\n"
        "train.model_bytes = limited\n"
        f"sys.argv[1:] = {arguments}; sys.exit(train.main())\n"
    )
    completed = run_python(code, cwd=tmp_path)
    check_exit(
        completed,
        4,
        "m.mcb: File too large; the model could not be written to another folder either",
    )
    assert (
        "mcboost-train: run the same command again to continue from the checkpoint part\n"
        in completed.stderr
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part", "tmp", "train.svm"]
    completed = call("train", *arguments, cwd=tmp_path)
    assert "continuing from the 5 rounds in part" in completed.stderr
    assert load_model(tmp_path / "m.mcb").n_rounds == 5


def test_4_a_checkpoint_that_cannot_be_removed_is_said(files, tmp_path, monkeypatch):
    def stuck(self):
        raise PermissionError(13, "Permission denied", "part")

    monkeypatch.setattr(Checkpoint, "remove", stuck)
    options = ["-a", "mart", "-n", 2, "--checkpoint", "part", "--checkpoint-every", 0]
    completed = call("train", *options, files / "train.svm", "m.mcb", cwd=tmp_path)
    check_exit(
        completed,
        4,
        "the model is saved, but its checkpoint could not be removed: part: Permission denied",
    )
    assert load_model(tmp_path / "m.mcb").n_rounds == 2


@pytest.mark.parametrize(
    ("module", "line"),
    [("numpy", "train train.svm m"), ("numpy", "info model.mcb"),
     ("pymcboost.training.strata", "train -v 3 train.svm"),
     ("sklearn", "train --metric f1_macro -P test.svm train.svm m"),
     ("numpy", "predict test.svm model.mcb out"), ("sklearn.model_selection", "train -E 3 train.svm m")],
)  # fmt: skip
@pytest.mark.part(2)
def test_130_interrupted_while_modules_are_imported(files, tmp_path, module, line):
    """Also where a module that is imported takes the exception for a failure of its own."""
    program, *arguments = line.split()
    code = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass
sys.meta_path.insert(0, Interrupting())
from pymcboost.cli.{program} import main
sys.argv[1:] = {arguments}
sys.exit(main({"" if module == "numpy" else "sys.argv[1:]"}))  # without arguments scikit-learn is not loaded
"""
    for name in ("train.svm", "test.svm", "model.mcb"):
        shutil.copy(files / name, tmp_path)
    completed = run_python(code, cwd=tmp_path)
    assert (completed.returncode, completed.stdout, completed.stderr) == (
        130,
        "",
        f"mcboost-{program}: interrupted\n",
    )
    assert sorted(os.listdir(tmp_path)) == ["model.mcb", "test.svm", "train.svm"]


def test_130_interrupted_prediction_leaves_no_file(files, tmp_path):
    process = start("predict", "-", files / "model.mcb", "out", cwd=tmp_path)
    process.stdin.write("1 1:2\n")
    process.stdin.flush()
    until_it_waits(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "mcboost-predict: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (MemoryError(), 5, "error: not enough memory"),
        (MemoryError("3 TiB"), 5, "error: not enough memory: 3 TiB"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (FileNotFoundError(2, "No such file", "a.txt"), 4, "error: a.txt: No such file"),
        (OSError("odd"), 4, "error: odd"),
        (ValueError("bad rows"), 2, "error: bad rows"),
        (SystemExit(0), 0, None),
    ],
)
def test_exceptions_become_statuses(capsys, error, status, message):
    def body(argv):
        raise error

    assert run_body("prog", body, []) == status
    assert capsys.readouterr().err == ("" if message is None else f"prog: {message}\n")


def test_standard_output_takes_what_a_file_takes(files, tmp_path):
    """Labels, and names that are no UTF-8, whatever the locale."""
    model = MartClassifier(n_estimators=2, min_samples_leaf=1, subsample=1.0, calibrate=None)
    model.fit([[0], [1]] * 3, ["\u00e9", "\u4e2d"] * 3)
    model.save(os.path.join(os.fsencode(tmp_path), b"\xff.mcb"))
    write_svm(tmp_path / "t.svm", [[0], [1]], [0, 1])
    assert run("predict", "t.svm", "\udcff.mcb", "out", cwd=tmp_path).returncode == 0
    text = (tmp_path / "out").read_bytes()
    assert text == "\u00e9\n\u4e2d\n".encode()
    labels, named = "predict t.svm \udcff.mcb -", "info \udcff.mcb"
    head = b"file          \xff.mcb: "
    for line, expected, encoding in (
        (labels, text, "ascii"),
        (labels, text, "latin-1"),
        (named, head, "latin-1"),
        (named, head, "utf-8:strict"),
    ):
        program, *arguments = line.split()
        more = environment(PYTHONIOENCODING=encoding)
        completed = subprocess.run(
            [*command(program), *arguments], cwd=tmp_path, env=more, capture_output=True
        )
        assert (completed.returncode, completed.stdout[: len(expected)]) == (0, expected), (
            completed.stderr
        )


def test_warnings_end_no_training(files, tmp_path):
    write_svm(tmp_path / "t.svm", [[1]] * 4, [0, 1] * 2)
    completed = run("train", "-n", 2, "t.svm", "m.mcb", cwd=tmp_path, PYTHONWARNINGS="error")
    assert completed.returncode == 0, completed.stderr
    assert "warning: no weak learner separates the classes" in completed.stderr


def test_a_defect_is_not_hidden():
    def body(argv):
        raise TypeError("a bug")

    with pytest.raises(TypeError):
        run_body("prog", body, [])
