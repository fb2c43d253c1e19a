"""Trainings of several processes, with mpiexec."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cli.programs import call

from pymcboost import (
    ABCLogitBoostClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
    load_svmlight,
)
from pymcboost.comm import Alone, MPIWorkers, WorkerError
from pymcboost.data import svmlight

MPIEXEC = Path(sys.executable).with_name("mpiexec")
PROGRAM = Path(__file__).parents[1] / "divided" / "mpi_fit.py"
pytest.importorskip("mpi4py")
if not MPIEXEC.exists():
    pytest.skip("no mpiexec beside Python: pip install mpich", allow_module_level=True)


def mpiexec(n, *command, seconds=60):
    return subprocess.run(
        [str(MPIEXEC), "-n", str(n), sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_three_processes_have_the_models_of_one():
    from divided.mpi_fit import MORE, ROUNDS, rows

    X, y = rows()
    every = VectorTreeBoostClassifier, ABCLogitBoostClassifier, MCBoostClassifier
    plain = {"n_estimators": ROUNDS, "random_state": 0, "calibrate": None}
    params = [{**plain, **MORE.get(cls.__name__, {})} for cls in every]
    models = [
        cls(**its).fit(X, y, comm=Alone()).model_.to_bytes()
        for cls, its in zip(every, params, strict=True)
    ]
    want = hashlib.sha256(b"".join(models)).hexdigest()
    completed = mpiexec(3, str(PROGRAM), "none", *(cls.__name__ for cls in every))
    assert sorted(completed.stdout.splitlines()) == [f"worker {r}: {want}" for r in range(3)], (
        completed.stderr
    )


MISMATCH = """
import numpy as np
from mpi4py import MPI
from pymcboost.comm import MPIWorkers
workers = MPIWorkers(MPI.COMM_WORLD, timeout=20)
assert workers.sum(np.arange(2)).tolist() == [0, 3]
assert workers.concatenate(np.zeros(workers.rank)).shape == (3,)
try:
    workers.sum(np.zeros(3, dtype="if"[workers.rank == 1]))
except ConnectionError as error:
    print(f"{error}\\n", end="", flush=True)  # in one piece: the lines of the workers come beside each other
"""


def test_processes_whose_sums_have_other_types_say_so():
    completed = mpiexec(3, "-c", MISMATCH)
    said = completed.stdout.splitlines()
    assert len(said) == 3, completed.stderr
    words = (
        "worker 0 has the sum of int32 (3,) in __main__.<module>, worker 1 the sum of float32 (3,)"
    )
    assert all(words in line for line in said)


@pytest.mark.part(4)
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ("late", "ZeroDivisionError: after five rounds"),
        ("raise", "ValueError: column 2: inf is infinite"),
        ("exit", "SystemExit: after five rounds"),
        ("interrupt", "KeyboardInterrupt"),
    ],
)
def test_error_in_one_process_is_an_error_in_all(trouble, told):
    completed = mpiexec(2, str(PROGRAM), trouble)
    lines = sorted(completed.stdout.splitlines())
    assert lines[0].startswith(f"worker 0: WorkerError: worker 1 of 2 failed: {told}"), (
        completed.stderr
    )
    assert lines[1].startswith(f"worker 1: {told}")


@pytest.mark.parametrize(
    "cls", [VectorTreeBoostClassifier, ABCLogitBoostClassifier, MCBoostClassifier]
)
@pytest.mark.part(3)
def test_interrupt_within_a_tree_ends_all(cls):
    completed = mpiexec(2, str(PROGRAM), "interrupt-tree", cls.__name__)
    first, second = sorted(completed.stdout.splitlines())
    assert first == "worker 0: WorkerError: worker 1 of 2 failed: KeyboardInterrupt", (
        completed.stderr
    )
    assert second == "worker 1: KeyboardInterrupt: ", completed.stderr


def test_pressed_twice_it_is_raised_at_once():
    workers = object.__new__(MPIWorkers)
    workers._failed = workers._interrupted = False
    workers._defer()
    with pytest.raises(KeyboardInterrupt) as pressed:
        workers._defer()
    workers.fail(pressed.value)  # does not wait to tell the others
    with pytest.raises(WorkerError, match="start again"):
        workers.check()


def test_trainings_leave_no_communicators():
    """MPICH has 2,048 of them for a process."""
    completed = mpiexec(1, str(PROGRAM.with_name("mpi_many.py")), "2100")
    assert completed.stdout == "True\n", completed.stderr


@pytest.mark.part(2)
@pytest.mark.parametrize("trouble", ["stop", "kill"])
def test_process_that_stops_ends_all(trouble):
    start = time.monotonic()
    completed = mpiexec(2, str(PROGRAM), trouble)
    assert completed.returncode != 0
    assert time.monotonic() - start < 30
    assert "worker 1" not in completed.stdout
    if trouble == "stop":
        assert "worker 0 of 2 has waited 0.5 s for the others" in completed.stderr


INTERRUPTED = """
import signal, sys, threading, time
from mpi4py import MPI
from pymcboost.cli.train import main

def interrupt(path):
    with open(path, "wb"):  # the reader is there
        time.sleep(0.3)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(5)

path = sys.argv.pop()
if MPI.COMM_WORLD.rank:
    threading.Thread(target=interrupt, args=[path], daemon=True).start()
sys.exit(main())
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO")
def test_interrupt_while_rows_are_read_ends_all(tmp_path):
    (tmp_path / "part-0.svm").write_text("0 1:1\n1 1:2\n")
    os.mkfifo(tmp_path / "part-1.svm")
    options = trained(tmp_path / "part-%r.svm", tmp_path / "m.mcb", "--mpi")[2:]
    completed = mpiexec(2, "-c", INTERRUPTED, *options, str(tmp_path / "part-1.svm"))
    assert completed.returncode != 0
    assert "mcboost-train: interrupted" in completed.stderr
    assert "worker 1 of 2 failed: KeyboardInterrupt" in completed.stderr


@pytest.fixture
def one_file(tmp_path):
    """Rows that are sorted by class, in one file."""
    rng, path = np.random.default_rng(2), tmp_path / "all.svm"
    X = rng.normal(size=(3000, 6))
    y = (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0.3)
    order = np.argsort(y, kind="stable")
    lines = (
        f"{y[i]} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(X[i]))
        for i in order.tolist()
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def trained(path, model, *options, algorithm="vector-tree"):
    return ["-m", "pymcboost.cli.train", *arguments(path, model, *options, algorithm=algorithm)]


def arguments(path, model, *options, algorithm="vector-tree"):
    """Arguments of mcboost-train."""
    plain = ["-q", "-a", algorithm, "--calibrate", "none", "-S", "1", *map(str, options)]
    return [*plain, str(path), str(model)]


def alone(*arguments):
    completed = call("train", *arguments)
    assert completed.returncode == 0, completed.stderr


# -- Commands that two processes run one after the other ---------------------------------------------------------------

ROWS = "0 1:1 2:3\n1 1:2\n" * 10


def parted(folder, *parts):
    """Files of these texts, one for each process; the name that stands for them."""
    for r, text in enumerate(parts):
        (folder / f"part-{r}.svm").write_text(text)
    return folder / "part-%r.svm"


def rows_in_parts(cls, options, folder):
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(200):
        x = rng.normal(size=4)
        label = int(x[0] > 0) + 2 * int(x[1] > 0.3)
        features = " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x) if j < 3 or x[0] < 1)
        lines.append(f"{label} {features}\n")
    (folder / "all.svm").write_text("".join(lines))
    where = parted(folder, "".join(lines[:40]), "".join(lines[40:]))
    return arguments(where, folder / "m.mcb", "-n", "5", *options, "--mpi", algorithm=cls.algorithm)


def lists_of_labels(folder):
    """As many labels in each file, but not the same."""
    rng = np.random.default_rng(4)
    parts = []
    for names in ((1, 2, 3), (1, 2, 9)):
        lines = []
        for x in rng.normal(size=(80, 4)):
            labels = [str(name) for name, v in zip(names, x, strict=False) if v > 0.4]
            features = " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x))
            lines.append(f"{','.join(labels)} {features}\n")
        parts.append("".join(lines))
    (folder / "all.svm").write_text("".join(parts))
    return arguments(parted(folder, *parts), folder / "m.mcb", *LABELS, "--mpi")


def random_labels(first, folder):
    """Most rows of the second process have labels at random."""
    rng = np.random.default_rng(0)
    x, flipped = rng.integers(0, 9, 60), rng.random(60) < 0.4
    lines = [
        f"{int((v > 4) ^ (flip and i >= 20))} 1:{v}\n"
        for i, (v, flip) in enumerate(zip(x, flipped, strict=True))
    ]
    (folder / "all.svm").write_text("".join(lines))
    where = parted(folder, "".join(lines[:first]), "".join(lines[first:]))
    for r, part in enumerate((lines[:10], lines[30:])):
        (folder / f"v-{r}.svm").write_text("".join(part))
    (folder / "v.svm").write_text("".join(lines[:10] + lines[30:]))
    options = ["-n", "3", "--mpi", "-P", folder / "v-%r.svm", "--metric", "error"]
    return arguments(where, folder / "m.mcb", *options)[1:]  # without -q


def few_rows_or_features(parts, folder):
    (folder / "all.svm").write_text("".join(parts))
    return arguments(parted(folder, *parts), folder / "m.mcb", *FEW, "--mpi")


def what_is_ignored(name, folder):
    """In lines of the second half, of one file or two."""
    folder = folder / "my (data)"
    folder.mkdir()
    ignored = ROWS.replace("1:2", "qid:1 1:2 9:1")
    (folder / "all.svm").write_text(ROWS + ignored)
    parted(folder, ROWS, "\n" * 20 + ignored)
    options = ["-n", "3", "--n-features", "2", "--mpi"]
    return arguments(folder / name, folder / "m.mcb", *options)[1:]


def written_zeros(kind, folder):
    """Zeros that are written in 20 of the 40 rows, of which the second process reads none."""
    ones = " ".join(f"{feature}:1" for feature in range(3, 21))
    zeros = " ".join(f"{feature}:0" for feature in range(3, 21))
    endings = [ones] + 19 * [zeros] + 20 * [""]
    lines = [f"{i % 2} 1:{i % 2} 2:{i} {ending}\n" for i, ending in enumerate(endings)]
    (folder / "all.svm").write_text("".join(lines))
    where = parted(folder, "".join(lines[:30]), "".join(lines[30:]))
    where = where if kind == "parts" else folder / "all.svm"
    return ["sparse", *arguments(where, folder / "m.mcb", "-n", "1", "--mpi")[1:]]


ZEROS = "parts", "a file"
LABELS = ["-n", "5", "--loss", "logistic"]
FEW = ["-n", "3", "--min-samples-leaf", "1"]
TRAINED = {
    "split columns": (VectorTreeBoostClassifier, ["--split-columns", "auto"]),
    "base classes": (ABCLogitBoostClassifier, ["--gap", "10"]),
    "trees of codes": (MCBoostClassifier, ["--weak-learner", "tree"]),
}
WITHOUT = {
    "no row first": ("", ROWS),
    "no row last": (ROWS, "# no row\n"),
    "no feature last": (ROWS, "0\n1\n"),
    "no feature first": ("0\n1\n", ROWS),
}
# Each writes files into a folder, and gives the arguments of mcboost-train.
COMMANDS = {name: partial(rows_in_parts, *case) for name, case in TRAINED.items()}
COMMANDS |= {name: partial(few_rows_or_features, parts) for name, parts in WITHOUT.items()}
COMMANDS |= {first: partial(random_labels, first) for first in (20, 0)}
COMMANDS |= {name: partial(what_is_ignored, name) for name in ("all.svm", "part-%r.svm")}
COMMANDS["labels"] = lists_of_labels
COMMANDS |= {f"zeros in {where}": partial(written_zeros, where) for where in ZEROS}
COMMANDS["nothing"] = partial(few_rows_or_features, ("", "# none\n"))


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What the commands have left and said: (folder, messages) by name. Most time goes to the start of processes."""
    folders = {name: tmp_path_factory.mktemp("mpi") for name in COMMANDS}
    commands = [prepare(folders[name]) for name, prepare in COMMANDS.items()]
    completed = mpiexec(2, str(PROGRAM.with_name("mpi_train.py")), json.dumps(commands))
    assert completed.returncode == 0, completed.stderr
    results = {}
    for name, (statuses, messages) in zip(COMMANDS, json.loads(completed.stdout), strict=True):
        assert all(statuses) if name == "nothing" else not any(statuses), messages
        results[name] = folders[name], "".join(messages)
    return results


@pytest.mark.parametrize("name", TRAINED)
def test_command_line_trains_on_parts(ran, name):
    folder, _ = ran[name]
    cls, _ = TRAINED[name]
    data = load_svmlight(folder / "all.svm")
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    more = {"weak_learner": "tree"} if cls is MCBoostClassifier else {}
    in_one_process = cls(n_estimators=5, random_state=1, calibrate=None, **more).fit(
        X, data.y, comm=Alone()
    )
    assert np.array_equal(
        load_model(folder / "m.mcb").decision_function(X), in_one_process.decision_function(X)
    )


def test_labels_are_those_of_all_processes(ran):
    folder, _ = ran["labels"]
    alone(*arguments(folder / "all.svm", folder / "1.mcb", *LABELS))
    assert load_model(folder / "m.mcb").classes_.tolist() == [1, 2, 3, 9]
    assert (folder / "m.mcb").read_bytes() == (folder / "1.mcb").read_bytes()


@pytest.mark.parametrize("first", [20, 0])
def test_errors_are_those_of_all_rows(ran, first):
    folder, messages = ran[first]
    model = load_model(folder / "m.mcb")
    for what, name in {"training": "all.svm", "validation": "v.svm"}.items():
        data = load_svmlight(folder / name)
        error = (model.predict(data.X) != data.y).mean()
        assert error > 0.1
        assert f"{what} error {100 * error:.4g}%\n" in messages


@pytest.mark.parametrize("name", WITHOUT)
def test_process_may_have_no_rows_or_no_features(ran, name):
    folder, _ = ran[name]
    alone(*arguments(folder / "all.svm", folder / "1.mcb", *FEW))
    assert (folder / "m.mcb").read_bytes() == (folder / "1.mcb").read_bytes()


@pytest.mark.parametrize("name", ["all.svm", "part-%r.svm"])
def test_first_process_says_the_notices_of_all(ran, name):
    """With the line's number in the file."""
    folder, messages = ran[name]
    shown = str(folder / "my (data)" / name).replace("%r", "1")
    beyond = "ignoring features beyond --n-features 2 (index 9 at line 22)"
    assert messages.count(f"{shown}: ignoring qid (first at line 22)") == 1
    assert messages.count(f"{shown}: {beyond}") == 1


@pytest.mark.parametrize("where", ZEROS)
def test_zeros_in_the_text_count_as_in_one_process(ran, where, monkeypatch):
    """They make the rows dense, also where one worker reads none of these zeros."""
    folder, messages = ran[f"zeros in {where}"]
    monkeypatch.setattr(svmlight, "SMALL_DENSE", 0)
    alone(*arguments(folder / "all.svm", folder / "1.mcb", "-n", "1"))
    assert "20 features, held densely" in messages
    assert (folder / "m.mcb").read_bytes() == (folder / "1.mcb").read_bytes()


def test_rows_of_no_process_are_refused(ran):
    folder, messages = ran["nothing"]
    assert "part-0.svm: no row of data" in messages
    assert not (folder / "m.mcb").exists()


# -- Commands of their own ---------------------------------------------------------------------------------------------


def test_nothing_waits_while_the_model_is_written(tmp_path):
    """The others have ended before: a pipe may have a late reader."""
    script = (
        "import sys, time\nfrom pymcboost.cli import train\nfrom pymcboost.comm import mpi\n"
        "mpi.MPIWorkers.__init__.__defaults__ = (1.0,)\nsave = train.save_anywhere\n"
        "train.save_anywhere = lambda *given: time.sleep(1.3) or save(*given)\n"
    )
    options = trained(parted(tmp_path, ROWS, ROWS), tmp_path / "m.mcb", "-n", "3", "--mpi")[2:]
    completed = mpiexec(2, "-c", script + "sys.exit(train.main())", *options)
    assert completed.returncode == 0, completed.stderr
    assert load_model(tmp_path / "m.mcb").n_rounds == 3


@pytest.mark.part(2)
@pytest.mark.parametrize("error", ["ZeroDivisionError", "KeyboardInterrupt"])
def test_model_is_written_where_its_errors_cannot_be_counted(error, tmp_path):
    """By one process: the other does not wait for it."""
    script = (
        "import sys; from mpi4py import MPI; from pymcboost.cli import train\n"
        "def mistakes(*_):\n"
        f"    if MPI.COMM_WORLD.rank == 0: raise {error}\n"
        "    return 0, 1\n"
        "train.mistakes = mistakes\n"
    )
    options = trained(parted(tmp_path, ROWS, ROWS), tmp_path / "m.mcb", "-n", "3", "--mpi")[2:]
    completed = mpiexec(2, "-c", script + "sys.exit(train.main())", *options)
    assert completed.returncode != 0 and load_model(tmp_path / "m.mcb").n_rounds == 3


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--loss", "logistic"]])
def test_process_may_have_no_rows_of_validation(more, tmp_path):
    rows = ROWS.replace("\n1", "\n0,1") if more else ROWS
    options = ["-n", "3", "--mpi", *more, "-P", str(tmp_path / "v-%r.svm")]
    command = trained(parted(tmp_path, "", rows), tmp_path / "m.mcb", *options)
    (tmp_path / "v-0.svm").write_text(rows)
    for text in ("", "# no row\n"):
        (tmp_path / "v-1.svm").write_text(text)
        completed = mpiexec(2, *command)
        assert completed.returncode == 0, completed.stderr
    (tmp_path / "v-0.svm").write_text("")
    completed = mpiexec(2, *command)
    assert completed.returncode != 0
    assert "v-0.svm: no row of data" in completed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["vector-tree", "abc-logitboost"])
def test_command_line_trains_on_ranges_of_a_file(algorithm, one_file, tmp_path):
    more = ["-n", "10", "-w1", "2"]
    alone(*trained(one_file, tmp_path / "1.mcb", *more, algorithm=algorithm)[2:])
    for n in (2, 4):
        model = tmp_path / f"{n}.mcb"
        completed = mpiexec(n, *trained(one_file, model, *more, "--mpi", algorithm=algorithm))
        assert completed.returncode == 0, completed.stderr
        assert model.read_bytes() == (tmp_path / "1.mcb").read_bytes()


@pytest.mark.slow
def test_wrong_line_of_a_range_has_its_number_in_the_file(one_file, tmp_path):
    lines = one_file.read_text().splitlines()
    lines[2500] = "1 3:x"
    one_file.write_text("\n".join(lines))
    completed = mpiexec(3, *trained(one_file, tmp_path / "m.mcb", "--mpi"))
    assert completed.returncode != 0
    assert "all.svm:2501:5: value 'x' is not a number" in completed.stderr
    assert not (tmp_path / "m.mcb").exists()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["vector-tree", "abc-logitboost"])
def test_killed_processes_go_on_to_the_same_bytes(algorithm, one_file, tmp_path):
    """Kill -9 of one process at random times; the next training has another number of them."""
    seed = time.time_ns()
    rng, part, model = np.random.default_rng(seed), tmp_path / "part", tmp_path / "model.mcb"
    more = ["-n", "30", "--checkpoint", part, "--checkpoint-every", "0"]
    alone(*trained(one_file, tmp_path / "whole.mcb", "-n", "30", algorithm=algorithm)[2:])
    killed, rounds = 0, [0]
    for _ in range(40):
        n = int(rng.integers(2, 5))
        command = [
            str(MPIEXEC),
            "-n",
            str(n),
            sys.executable,
            *trained(one_file, model, *more, "--mpi"),
        ]
        command[command.index("-a") + 1] = algorithm
        with subprocess.Popen(
            command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
        ) as run:
            until = time.monotonic() + 30
            while (
                run.poll() is None and time.monotonic() < until and rounds_in(part) < rounds[-1] + 2
            ):
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.05))
            children = processes_below(run.pid)
            if run.poll() is None and children:
                try:
                    os.kill(int(rng.choice(children)), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            assert run.wait(60) is not None
            killed += run.returncode != 0
            if run.returncode == 0:
                break
        if model.exists():  # all rounds were done, but for the end of the other processes
            break
        rounds.append(rounds_in(part))
    else:
        mpiexec(3, *trained(one_file, model, *more, "--mpi", algorithm=algorithm))
    assert killed, f"seed {seed}"
    assert rounds == sorted(rounds), f"seed {seed}"
    assert model.read_bytes() == (tmp_path / "whole.mcb").read_bytes(), f"seed {seed}"
    part.unlink(missing_ok=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.svm", "model.mcb", "whole.mcb"]


def rounds_in(path):
    return load_model(path).meta["checkpoint"]["rounds"] if path.exists() else 0


def processes_below(pid):
    """Processes of Python that a process of mpiexec has started, on Linux."""
    children, left = [], [pid]
    while left:
        at = left.pop()
        try:
            its = [int(one) for one in Path(f"/proc/{at}/task/{at}/children").read_text().split()]
            children += [
                one
                for one in its
                if b"pymcboost.cli.train" in Path(f"/proc/{one}/cmdline").read_bytes()
            ]
        except OSError:
            continue
        left += its
    return [
        one
        for one in children
        if not Path(f"/proc/{one}/cmdline").read_bytes().startswith(b"/bin/sh")
    ]


@pytest.mark.slow
def test_command_line_names_the_missing_file(tmp_path):
    (tmp_path / "part-0.svm").write_text("0 1:1\n1 1:2\n")
    completed = mpiexec(
        2,
        "-m",
        "pymcboost.cli.train",
        "-a",
        "vector-tree",
        "--mpi",
        str(tmp_path / "part-%r.svm"),
        str(tmp_path / "model.mcb"),
    )
    assert completed.returncode != 0
    assert "part-1.svm: No such file" in completed.stderr
    assert "worker 1 of 2 failed" in completed.stderr
    assert not (tmp_path / "model.mcb").exists()
