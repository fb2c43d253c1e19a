"""The writer of whole files: names, locks, signals, and what it leaves alone."""

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import threading

import pytest

import pymcboost
from pymcboost import MartClassifier, files, load_model
from pymcboost.model.model import Model

ROOT = os.path.dirname(os.path.dirname(pymcboost.__file__))


@pytest.fixture
def model():
    return (
        MartClassifier(n_estimators=2, min_samples_leaf=1)
        .fit([[0], [1], [0], [1]], [0, 1, 0, 1])
        .model_
    )


def test_leftovers_of_long_names(tmp_path):
    path = tmp_path / ("x" * 255)
    with contextlib.suppress(KeyboardInterrupt), files.replacing(path):
        (name,) = os.listdir(tmp_path)
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    assert re.fullmatch("x{238}[.]tmp-[0-9a-f]{12}", name)
    (tmp_path / name).write_bytes(b"")
    os.utime(tmp_path / name, (0, 0))
    files.write(path, b"new")
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.posix
def test_a_file_system_without_locks(tmp_path, model, monkeypatch):
    def flock(file, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", flock)
    left = tmp_path / "m.mcb.tmp-0123456789ab"
    left.write_bytes(b"")
    model.save(tmp_path / "m.mcb")
    assert sorted(os.listdir(tmp_path)) == ["m.mcb", left.name], (
        "without locks nobody knows what is in use"
    )


def test_without_locks_leftovers_are_old_files_that_nobody_has_open(tmp_path, model, monkeypatch):
    """As on Windows: the name is there for a moment after the writer has closed the file."""
    monkeypatch.setattr(files, "fcntl", None)
    old, new, other = (tmp_path / f"m.mcb.tmp-{end * 12}" for end in "012")
    for path in (old, new, other.with_suffix(".tmp-mine")):
        path.write_bytes(b"")
    other.symlink_to(old)
    for path in (old, other.with_suffix(".tmp-mine")):
        os.utime(path, (0, 0))
    model.save(tmp_path / "m.mcb")
    assert sorted(os.listdir(tmp_path)) == ["m.mcb", new.name, other.name, "m.mcb.tmp-mine"]


def test_saves_at_once(tmp_path, model):
    path = tmp_path / "m.mcb"
    errors = []

    def work():
        try:
            for _ in range(25):
                model.save(path)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["m.mcb"]
    assert path.read_bytes() == model.to_bytes()


CHILD = """
import os, signal, sys
from pymcboost import files
if sys.argv[2] == "handled":
    signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
if sys.argv[2] == "ignored":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with files.replacing(sys.argv[1]) as file:
    os.write(file, b"new")
    os.kill(os.getpid(), {"handled": signal.SIGTERM, "ignored": signal.SIGHUP}.get(sys.argv[2]) or int(sys.argv[2]))
print("done")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def child(path, how):
    """A process whose signals are as usual, also where the tests run as a job that ignores some."""
    command = [sys.executable, "-c", CHILD, str(path), str(how)]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        preexec_fn=usual_signals,
    )


def usual_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_the_process_leaves_nothing(tmp_path, name):
    number = getattr(signal, name)
    path = tmp_path / "out"
    path.write_text("old")
    done = child(path, int(number))
    assert (done.returncode, done.stdout, done.stderr) == (-number, "", "")
    assert (os.listdir(tmp_path), path.read_text()) == (["out"], "old")


@pytest.mark.posix
@pytest.mark.parametrize(("how", "output"), [("handled", "told\ndone\n"), ("ignored", "done\n")])
def test_signals_that_somebody_handles_are_theirs(tmp_path, how, output):
    done = child(tmp_path / "out", how)
    assert (done.returncode, done.stdout) == (0, output)
    assert (tmp_path / "out").read_text() == "new"


def test_no_handler_stays(tmp_path):
    before = [signal.getsignal(number) for number in files.SIGNALS]
    files.write(tmp_path / "a", b"1")
    with contextlib.suppress(ZeroDivisionError), files.replacing(tmp_path / "a"):
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in files.SIGNALS] == before
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_of_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    """A planted link or file of the name that is drawn: another name is drawn, and neither is touched."""
    names = iter(["0" * 12, "1" * 12, "2" * 12])
    monkeypatch.setattr("os.urandom", lambda n: bytes.fromhex(next(names)))
    (tmp_path / "victim").write_text("keep")
    (tmp_path / f"out.tmp-{'0' * 12}").symlink_to("victim")
    (tmp_path / f"out.tmp-{'1' * 12}").symlink_to("missing")
    files.write(tmp_path / "out", b"new")
    assert (tmp_path / "victim").read_text() == "keep"
    assert sorted(os.listdir(tmp_path)) == [
        "out",
        f"out.tmp-{'0' * 12}",
        f"out.tmp-{'1' * 12}",
        "victim",
    ]
    assert next(names, None) is None


@pytest.mark.posix
def test_permissions_stay(tmp_path):
    path = tmp_path / "out"
    for mode in (0o600, 0o444, 0o755):
        path.write_bytes(b"")
        path.chmod(mode)
        files.write(path, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.unlink()


@pytest.mark.posix
def test_same_file(tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("1")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    (tmp_path / "soft").symlink_to("a")
    (tmp_path / "dangling").symlink_to("new")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    same = lambda one, other: files.same_file(tmp_path / one, tmp_path / other)  # noqa: E731
    assert (
        same("a", "a") and same("a", "hard") and same("soft", "hard") and same("folder/../a", "a")
    )
    assert same("dangling", "new") and same("new", "folder/../new")
    assert not (
        same("a", "b")
        or same("a", "new")
        or same("new", "a")
        or same("pipe", "pipe")
        or same("new", "newer")
    )


@pytest.mark.posix
def test_paths_of_bytes(tmp_path, model):
    path = os.path.join(os.fsencode(tmp_path), b"\xff.mcb")
    model.save(path)
    assert isinstance(load_model(path), Model)
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff.mcb"]
