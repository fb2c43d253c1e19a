"""What happens at every kind of path, cell by cell of the table in docs/files.md."""

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from cli.programs import call, command, environment, run_python, write_svm

from pymcboost import Checkpoint, MartClassifier, load_model, load_svmlight

PAGE = Path(__file__).parents[2] / "docs" / "files.md"
HEAD, *TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and not line.startswith("|--")
]
ROUNDS = 4


class Case:
    """One cell: a folder with inputs, a path with something at it, and what was there before."""

    def __init__(self, folder, files):
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        shutil.copy(files / "train.svm", self.work)
        shutil.copy(files / "test.svm", self.work)
        shutil.copy(files / "model.mcb", self.work / "known.mcb")
        self.path = folder / "place" / "out"
        self.path.parent.mkdir()
        self.real = self.path  # the file behind the path
        self.received = b""
        self.inputs = {"train.svm", "test.svm", "known.mcb"}

    def train(self, *more, model=None):
        arguments = [
            "-a",
            "mart",
            "-n",
            ROUNDS,
            "--min-samples-leaf",
            1,
            *more,
            "train.svm",
            model or self.path,
        ]
        return call("train", *arguments, cwd=self.work)

    def new(self):
        """Names in the working folder that were not there."""
        return {path.name for path in self.work.iterdir()} - self.inputs


def mcboost_train(case):
    completed = case.train()
    return completed.returncode, completed.stderr


def mcboost_predict(case):
    completed = call("predict", "test.svm", "known.mcb", case.path, cwd=case.work)
    return completed.returncode, completed.stderr


def save(case):
    try:
        load_model(case.work / "known.mcb").save(case.path)
    except OSError as error:
        return "OSError", str(error)
    return 0, ""


def checkpoint(case):
    completed = case.train("--checkpoint", case.path, "--checkpoint-every", 0, model="m.mcb")
    return completed.returncode, completed.stderr


COLUMNS = {
    "`mcboost-train`": mcboost_train,
    "`mcboost-predict`": mcboost_predict,
    "`save`": save,
    "`--checkpoint`": checkpoint,
}


# -- what is at the path -----------------------------------------------------------------------------------------------


def old_content(case, column):
    """A file that the column would replace: a model of one round, a checkpoint, an old text."""
    if column == "`mcboost-predict`":
        return b"old\n"
    data = load_svmlight(case.work / "train.svm")
    estimator = MartClassifier(n_estimators=1, min_samples_leaf=1, random_state=0)
    old = case.folder / "old"
    if column == "`--checkpoint`":
        Checkpoint(old, 0).fit(estimator, data.X, data.y)
    else:
        estimator.fit(data.X, data.y).save(old)
    return old.read_bytes()


@contextlib.contextmanager
def regular_file(case, column):
    case.path.write_bytes(old_content(case, column))
    yield


@contextlib.contextmanager
def read_only_file(case, column):
    case.path.write_bytes(old_content(case, column))
    case.path.chmod(0o444)
    yield
    if column != "`--checkpoint`":  # removed at the end
        assert stat.S_IMODE(case.path.stat().st_mode) == 0o444


@contextlib.contextmanager
def symbolic_link(case, column):
    case.real = case.folder / "behind"
    case.real.write_bytes(old_content(case, column))
    case.path.symlink_to(case.real)
    yield


@contextlib.contextmanager
def device(case, column):
    """A device of our own that swallows everything, never one of the system's."""
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(case.path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    try:
        os.close(os.open(case.path, os.O_WRONLY))
    except OSError as error:
        pytest.skip(f"devices cannot be opened in this folder: {error}")
    yield


@contextlib.contextmanager
def disk_device(case, column):
    """A disk that is not there: what opened it would fail otherwise."""
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(case.path, stat.S_IFBLK | 0o666, os.makedev(240, 255))
    yield


@contextlib.contextmanager
def fifo(case, column):
    os.mkfifo(case.path)
    reader = os.open(case.path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
        with contextlib.suppress(BlockingIOError):
            case.received = os.read(reader, 1 << 16)
    finally:
        os.close(reader)


@contextlib.contextmanager
def directory(case, column):
    case.path.mkdir()
    yield


@contextlib.contextmanager
def mounted(folder, options):
    if os.geteuid():
        pytest.skip("only root mounts a small file system")
    completed = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True
    )
    if completed.returncode:
        pytest.skip(f"no file system can be mounted here: {completed.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def full_disk(case, column):
    """A file system of 64 KiB in memory, filled to the last byte."""
    with mounted(case.path.parent, "size=64k"):
        if column != "`--checkpoint`":  # there, an old one would be gone on from
            case.path.write_bytes(old_content(case, column)[:4])
            case.path.write_bytes(old_content(case, column))
        with (
            contextlib.suppress(OSError),
            open(case.path.parent / "ballast", "wb", buffering=0) as file,
        ):
            while True:
                file.write(bytes(1 << 10))
        yield


@contextlib.contextmanager
def read_only_folder(case, column):
    if os.geteuid():
        case.path.parent.chmod(0o500)
        yield
        case.path.parent.chmod(0o700)
        return
    with mounted(case.path.parent, "size=64k"):
        subprocess.run(["mount", "-o", "remount,ro", case.path.parent], check=True)
        yield


@contextlib.contextmanager
def same_as_input(case, column):
    """A hard link to a file that the column reads; other links are below."""
    name = {"`mcboost-predict`": "test.svm", "`save`": "known.mcb"}.get(column, "train.svm")
    case.path.hardlink_to(case.work / name)
    yield


ROWS = {
    "regular file": regular_file,
    "read-only file": read_only_file,
    "symbolic link": symbolic_link,
    "device": device,
    "disk device": disk_device,
    "FIFO": fifo,
    "directory": directory,
    "full disk": full_disk,
    "read-only folder": read_only_folder,
    "same as input": same_as_input,
}


# -- what happens ------------------------------------------------------------------------------------------------------


def snapshot(case):
    """Everything at the path: kind, identity and bytes."""
    content_of_name = {}
    for path in (*case.path.parent.iterdir(), case.real):
        with contextlib.suppress(FileNotFoundError):
            info = os.lstat(path)
            content = path.read_bytes() if stat.S_ISREG(info.st_mode) else None
            content_of_name[path.name] = (stat.S_IFMT(info.st_mode), info.st_ino, content)
    return content_of_name


def is_new(case, column):
    """Whether the file behind the path is what the column writes."""
    if column == "`mcboost-predict`":
        predicted = load_model(case.work / "known.mcb").predict(
            load_svmlight(case.work / "test.svm").X
        )
        return case.real.read_text() == "".join(f"{label}\n" for label in predicted)
    expected = load_model(case.work / "known.mcb").n_learners if column == "`save`" else 3 * ROUNDS
    return load_model(case.real).n_learners == expected


def replaced(case, column, status, message, before):
    assert status == 0, message
    assert is_new(case, column)
    assert set(snapshot(case)) == set(before), "nothing is left beside it"
    assert case.path.is_symlink() == (case.path != case.real)


def unchanged(case, column, status, message, before):
    assert snapshot(case) == before
    assert case.new() == set()
    assert "rows, " not in message, "the refusal came after the rows had been read"
    assert "Traceback" not in message


def refused_1(case, column, status, message, before):
    unchanged(case, column, status, message=message, before=before)
    assert status == 1, message


def refused_4(case, column, status, message, before):
    unchanged(case, column, status, message=message, before=before)
    assert status == 4, message


def os_error(case, column, status, message, before):
    assert status == "OSError"
    unchanged(case, column, status, message=message, before=before)


def written_to(case, column, status, message, before):
    assert status == 0, message
    assert snapshot(case) == before
    if not stat.S_ISFIFO(os.stat(case.path).st_mode):
        return
    if column == "`mcboost-train`":
        assert case.train(model="same.mcb").returncode == 0
        assert case.received == (case.work / "same.mcb").read_bytes()
    else:
        predicted = load_model(case.work / "known.mcb").predict(
            load_svmlight(case.work / "test.svm").X
        )
        assert case.received.decode() == "".join(f"{label}\n" for label in predicted)


def error_4(case, column, status, message, before):
    assert status == 4
    assert "No space left on device" in message
    assert snapshot(case) == before


def replaced_if_a_model(case, column, status, message, before):
    replaced(case, column, status, message=message, before=before)
    case.path.write_text("keep me")
    refused_1(case, column, *mcboost_train(case), snapshot(case))


def gone_on_from(case, column, status, message, before):
    assert status == 0, message
    assert "continuing from the 1 round in " in message
    assert case.new() == {"m.mcb"}
    assert list(case.path.parent.iterdir()) == []
    (case.work / "m.mcb").unlink()
    case.path.write_text("keep me")
    refused_1(case, column, *checkpoint(case), snapshot(case))
    shutil.copy(case.work / "known.mcb", case.path)
    status, message = checkpoint(case)
    assert status == 2 and "is a model, but not a checkpoint" in message


def removed_behind_the_link(case, column, status, message, before):
    assert status == 0, message
    assert "continuing from the 1 round in " in message
    assert case.path.is_symlink()
    assert not case.real.exists()
    assert case.new() == {"m.mcb"}


def saved_in_another_folder(case, column, status, message, before):
    assert status == 4
    assert snapshot(case) == before
    assert len(case.new()) == 1, "no model was saved"
    (name,) = case.new()
    assert (
        f"{case.path}: No space left on device; the model was saved as {case.work / name} instead\n"
        in message
    )
    case.real = case.work / name
    assert is_new(case, column)


def trained_without(case, column, status, message, before):
    assert status == 0, message
    assert "warning: could not write a checkpoint after round 1: " in message
    assert "No space left on device" in message
    assert snapshot(case) == before
    assert load_model(case.work / "m.mcb").n_rounds == ROUNDS


OUTCOMES = {
    "replaced": replaced,
    "its file is replaced": replaced,
    "its file is removed at the end": removed_behind_the_link,
    "replaced if a model, else refused (1)": replaced_if_a_model,
    "continued if a checkpoint, else refused (1, 2)": gone_on_from,
    "refused (1)": refused_1,
    "refused (4)": refused_4,
    "OSError": os_error,
    "written to": written_to,
    "error (4)": error_4,
    "saved in another folder (4)": saved_in_another_folder,
    "trained without (0)": trained_without,
}
CELLS = [
    (row[0], column, text) for row in TABLE for column, text in zip(HEAD[1:], row[1:], strict=True)
]


def test_the_table_is_whole():
    assert HEAD[1:] == list(COLUMNS)
    assert [row[0] for row in TABLE] == list(ROWS)
    assert {text for _, _, text in CELLS} == set(OUTCOMES)


@pytest.mark.parametrize(
    ("row", "column", "text"),
    [
        pytest.param(
            *cell,
            id=f"{cell[0]} x {cell[1]}",
            marks=pytest.mark.posix if cell[0] == "read-only file" else (),  # Windows refuses
        )
        for cell in CELLS
    ],
)
def test_cell(tmp_path, files, row, column, text):
    case = Case(tmp_path, files)
    with ROWS[row](case, column):
        before = snapshot(case)
        status, message = COLUMNS[column](case)
        if row != "FIFO":  # what that received is read when the block ends
            OUTCOMES[text](case, column, status, message, before)
    if row == "FIFO":
        OUTCOMES[text](case, column, status, message, before)


# -- one file under two names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["name", "symbolic", "hard", "dotted"])
@pytest.mark.parametrize(
    ("line", "same", "words"),
    [
        ("train train.svm other", "train.svm", "the model file other is also the training file"),
        (
            "train -P test.svm train.svm other",
            "test.svm",
            "the model file other is also the validation file",
        ),
        (
            "train --checkpoint other train.svm m.mcb",
            "train.svm",
            "the checkpoint other is also the training file",
        ),
        (
            "train --checkpoint other -P test.svm train.svm m",
            "test.svm",
            "is also the validation file",
        ),
        (
            "train --checkpoint known.mcb train.svm other",
            "known.mcb",
            "--checkpoint names the model file",
        ),
        (
            "predict test.svm known.mcb other",
            "test.svm",
            "the output file other is also the test file",
        ),
        (
            "predict test.svm known.mcb other",
            "known.mcb",
            "the output file other is also the model file",
        ),
    ],
)
def test_outputs_that_are_inputs(tmp_path, files, line, same, words, link):
    work = Case(tmp_path, files).work
    other = {"name": same, "dotted": f"./../work/{same}"}.get(link, "other")
    if link == "symbolic":
        (work / "other").symlink_to(same)
    elif link == "hard":
        (work / "other").hardlink_to(work / same)
    before = {path: path.read_bytes() for path in work.iterdir()}
    program, *arguments = [other if argument == "other" else argument for argument in line.split()]
    completed = call(program, *arguments, cwd=work)
    assert completed.returncode == 1, completed.stderr
    assert words.replace("other", other) in completed.stderr
    assert "rows, " not in completed.stderr
    assert {path: path.read_bytes() for path in work.iterdir()} == before


def test_new_files_of_one_name_and_streams(tmp_path, files):
    work = Case(tmp_path, files).work
    completed = call("train", "--checkpoint", "./m.mcb", "train.svm", "m.mcb", cwd=work)
    assert (completed.returncode, "--checkpoint names the model file" in completed.stderr) == (
        1,
        True,
    )
    text = (work / "test.svm").read_text()
    with open(work / "test.svm") as stdin:
        line = [*command("predict"), "-", "known.mcb", "test.svm"]
        completed = subprocess.run(
            line, cwd=work, stdin=stdin, capture_output=True, text=True, env=environment()
        )
    assert completed.returncode == 1
    assert "the output file test.svm is also the test file" in completed.stderr
    assert (work / "test.svm").read_text() == text


# -- while the output is written ---------------------------------------------------------------------------------------


def test_a_planted_link_is_not_followed(files, tmp_path):
    """A link or a file of the name that the output had while it was written is the user's own."""
    (tmp_path / "victim").write_text("keep")
    (tmp_path / f"out.tmp{os.getpid()}").symlink_to("victim")
    (tmp_path / f"other.tmp{os.getpid()}").write_text("keep")
    for name in ("out", "other"):
        assert (
            call("predict", files / "test.svm", files / "model.mcb", name, cwd=tmp_path).returncode
            == 0
        )
    assert (tmp_path / "victim").read_text() == "keep"
    assert (tmp_path / f"out.tmp{os.getpid()}").is_symlink()
    assert (tmp_path / f"other.tmp{os.getpid()}").read_text() == "keep"


def test_sigterm_while_writing_leaves_nothing(files, tmp_path):
    (tmp_path / "out").write_text("old")
    code = (
        "import os, signal, sys\n"
        "from pymcboost.cli.predict import main\n"
        "os.replace = lambda *arguments: os.kill(os.getpid(), signal.SIGTERM)\n"
        f"main([{str(files / 'test.svm')!r}, {str(files / 'model.mcb')!r}, 'out'])\n"
    )
    assert run_python(code, cwd=tmp_path).returncode == -signal.SIGTERM
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "old")]


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "letter"), [(238, "x"), (239, "x"), (255, "x"), (127, "é"), (256, "x"), (128, "é")]
)
def test_long_names(tmp_path, files, n, letter):
    """Names as long as the file system takes are written; longer ones are refused before training."""
    case = Case(tmp_path, files)
    limit = os.pathconf(tmp_path, "PC_NAME_MAX")
    if limit != 255:
        pytest.skip(f"this file system takes names of {limit} bytes")
    name, second, third = (letter * (n - 1) + end for end in ("xyz" if letter == "x" else "éàö"))
    for done in (
        case.train(model=name),
        call("predict", "test.svm", "known.mcb", second, cwd=case.work),
        case.train("--checkpoint", third, "--checkpoint-every", 0, model="m.mcb"),
    ):
        if n in (256, 128):
            assert done.returncode == 4
            assert re.search(
                r"the name of the (model file|output file|checkpoint) is too long", done.stderr
            )
            assert "rows, " not in done.stderr
        else:
            assert done.returncode == 0, done.stderr
            assert "warning" not in done.stderr
    assert case.new() == (set() if n in (256, 128) else {name, second, "m.mcb"})


def test_a_folder_of_no_name(tmp_path, files):
    case = Case(tmp_path, files)
    completed = case.train(model="new/")
    assert (completed.returncode, case.new()) == (4, set())
    assert "new/: the name of the model file is empty or ends in a slash" in completed.stderr


def test_checkpoint_of_python_removes_files_of_ours_only(tmp_path, files):
    write_svm(tmp_path / "text", [[1]], [1])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("text", "pipe", "folder"):
        with pytest.raises(OSError, match=f"not .*: '{tmp_path / name}'"):
            Checkpoint(tmp_path / name).remove()
        assert (tmp_path / name).exists()
    (tmp_path / "empty").write_bytes(b"")
    Checkpoint(tmp_path / "empty").remove()
    Checkpoint(tmp_path / "missing").remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe", "text"]
