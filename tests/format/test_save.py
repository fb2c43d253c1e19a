"""A save that is killed or fails leaves the old model or the new one, never a broken one."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time

import pytest
from reference.scoring import random_stumps

from pymcboost.model.model import Model, load_model

# Saves argv[1] over argv[2]. At the point named argv[3] the process kills itself from inside a function of os that the
# writer calls; nothing of this is in the package.
CHILD = """
import os, signal, stat, sys
from pymcboost.model.model import load_model
new, target, point = sys.argv[1:]
model = load_model(new)
real = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace")}

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def open_(path, flags, *rest, **more):
    file = real["open"](path, flags, *rest, **more)
    if point == "after open" and flags & os.O_CREAT:
        die()
    return file

def write(file, data):
    if point == "mid write":
        real["write"](file, data[:len(data) // 2])
        die()
    n = real["write"](file, data[:len(data) // 3 + 1])
    if point == "after write" and n == len(data):
        die()
    return n

def fsync(file):
    real["fsync"](file)
    folder = stat.S_ISDIR(os.fstat(file).st_mode)
    if point == ("after folder fsync" if folder else "after fsync"):
        die()

def replace(a, b):
    real["replace"](a, b)
    if point == "after rename":
        die()

os.open, os.write, os.fsync, os.replace = open_, write, fsync, replace
print("ready", flush=True)
if point == "loop":
    while True:
        model.save(target)
model.save(target)
print("done")
"""
POINTS = {
    "after open": "old",
    "mid write": "old",
    "after write": "old",
    "after fsync": "old",
    "after rename": "new",
    "after folder fsync": "new",
}


@pytest.fixture
def models(tmp_path):
    old = Model.from_ensemble(random_stumps(300, 5, 3, seed=1), range(3))
    new = Model.from_ensemble(random_stumps(3000, 5, 3, seed=2), range(3))
    folder = tmp_path / "models"
    folder.mkdir()
    old.save(folder / "model.mcb")
    new.save(tmp_path / "new.mcb")
    return old, new, folder / "model.mcb", tmp_path / "new.mcb"


def start(new, target, point):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(new), str(target), point],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.posix
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(point, models):
    old, new, path, source = models
    child = start(source, path, point)
    output = child.communicate(timeout=60)[0]
    assert child.returncode == -signal.SIGKILL
    assert output == "ready\n"
    expected = {"old": old, "new": new}[POINTS[point]]
    assert load_model(path).to_bytes() == expected.to_bytes()
    left = [name for name in os.listdir(path.parent) if name != path.name]
    assert len(left) == (POINTS[point] == "old")
    old.save(path)
    assert os.listdir(path.parent) == [path.name]
    assert load_model(path).to_bytes() == old.to_bytes()


def test_no_kill_means_no_leftovers(models):
    _, new, path, source = models
    child = start(source, path, "never")
    assert child.communicate(timeout=60)[0] == "ready\ndone\n"
    assert load_model(path).to_bytes() == new.to_bytes()
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.posix
def test_killed_at_random(models):
    old, new, path, source = models
    rng = random.Random(5)
    kinds = set()
    for _ in range(5):
        old.save(path)
        child = start(source, path, "loop")
        assert child.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.02)
        child.kill()
        child.wait(timeout=60)
        child.stdout.close()
        data = load_model(path).to_bytes()
        assert data in (old.to_bytes(), new.to_bytes())
        kinds.add(data == new.to_bytes())
    old.save(path)
    assert os.listdir(path.parent) == [path.name]
    assert True in kinds


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_failure_leaves_the_old_model(name, models, monkeypatch):
    old, new, path, _ = models

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, full)
    with pytest.raises(OSError, match="No space left"):
        new.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == old.to_bytes()
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.posix
def test_another_save_in_progress_is_left_alone(models):
    fcntl = pytest.importorskip("fcntl")
    old, _, path, _ = models
    other = path.with_name(path.name + ".tmp-0123456789ab")
    unrelated = path.with_name(path.name + ".tmp-mine")
    unrelated.write_bytes(b"")
    with open(other, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        old.save(path)
        assert other.exists()
    old.save(path)
    assert not other.exists()
    assert unrelated.exists()


@pytest.mark.posix
def test_permissions_links_and_special_files(models, tmp_path):
    _, new, path, _ = models
    path.chmod(0o640)
    link = tmp_path / "link.mcb"
    link.symlink_to(path)
    new.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_bytes() == new.to_bytes()
    os.mkfifo(tmp_path / "pipe")
    for special, words in (
        (tmp_path, "is a folder, not a model"),
        (tmp_path / "pipe", "not a regular file"),
    ):
        with pytest.raises(OSError, match=words):
            new.save(special)
    mask = os.umask(0o027)
    try:
        new.save(tmp_path / "fresh.mcb")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "fresh.mcb").stat().st_mode) == 0o640


def test_missing_folder_is_named(models, tmp_path, monkeypatch):
    _, new, _, _ = models
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.mcb").symlink_to(tmp_path / "gone" / "x.mcb")
    for path, folder in [("no/x.mcb", "no"), ("link.mcb", str(tmp_path.resolve() / "gone"))]:
        with pytest.raises(FileNotFoundError) as caught:
            new.save(path)
        assert caught.value.filename == folder
        assert (
            caught.value.strerror
            == f"the folder for the model {path} does not exist; create it first"
        )
