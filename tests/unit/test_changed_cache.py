"""A cache that others change or cut off while a training uses it: one error in words, and no end by a signal."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cli.programs import write_svm
from divided.threads import run
from unit.test_chunks import made
from unit.test_divided_chunks import ESTIMATORS, model_of, one_alone, write_cache

from pymcboost import VectorTreeBoostClassifier
from pymcboost.cli import train
from pymcboost.data import cached

WORDS = "was changed while it was in use"


def truncate(path):
    os.truncate(path, os.path.getsize(path) // 3)


def overwrite(path):
    with open(path, "r+b") as file:
        file.seek(cached.START + 40)
        file.write(b"\xff")
    os.utime(path, ns=(1, 1))  # where clocks are coarse


CHANGES = {"cut off": truncate, "empty": lambda path: os.truncate(path, 0), "overwritten": overwrite}


@pytest.fixture
def opened(tmp_path):
    X, y, _ = made(9000)
    X, y = np.ascontiguousarray(X, dtype=np.float32), np.unique(y, return_inverse=True)[1]
    write_cache(tmp_path / "c", X, y)
    X, codes, _ = cached.opened(tmp_path / "c")
    return tmp_path / "c", cached.CachedRows(X, codes.astype(np.int64))


class After:
    """Does something to a file after the second round."""

    def __init__(self, change, path):
        self.change, self.path = change, path

    def after_round(self, state):
        if state.n_rounds == 2:
            self.change(self.path)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_in_a_round(cls, change, opened):
    path, rows = opened
    with pytest.raises(cached.ChangedCache, match=WORDS):
        model_of(cls).fit(rows, callbacks=[After(CHANGES[change], path)])


@pytest.mark.parametrize("change", CHANGES)
def test_before_the_first_round(change, opened):
    path, rows = opened
    CHANGES[change](path)
    with pytest.raises(cached.ChangedCache, match=WORDS):
        model_of(VectorTreeBoostClassifier).fit(rows)


@pytest.mark.parametrize("change", CHANGES)
def test_while_bins_are_made(change, opened, monkeypatch):
    path, rows = opened
    booster = VectorTreeBoostClassifier.booster
    make = booster.rows
    monkeypatch.setattr(booster, "rows", lambda self, X, *rest: CHANGES[change](path) or make(self, X, *rest))
    monkeypatch.setattr(booster, "start", None)  # not come to
    with pytest.raises(cached.ChangedCache, match=WORDS):
        model_of(VectorTreeBoostClassifier).fit(rows)


def test_in_the_folds_of_the_temperature(opened, monkeypatch):
    path, rows = opened
    monkeypatch.setattr(
        "pymcboost.training.calibration.temperature_of_folds", lambda *its, **more: truncate(path) or 1.0
    )
    with pytest.raises(cached.ChangedCache, match=WORDS):
        VectorTreeBoostClassifier(n_estimators=3, random_state=0, calibrate="temperature").fit(rows)


def test_on_one_worker(tmp_path):
    X, y, _ = made(3000)
    X, y = np.ascontiguousarray(X, dtype=np.float32), np.unique(y, return_inverse=True)[1]

    def task(workers):
        path = tmp_path / str(workers.rank)
        write_cache(path, X, y)
        X_, codes, _ = cached.opened(path)
        callbacks = [After(truncate, path)] if workers.rank == 1 else []
        return model_of(ESTIMATORS[0]).fit(
            cached.CachedRows(X_, codes.astype(np.int64)), comm=workers, callbacks=callbacks
        )

    one_alone(run(3, task), 1, cached.ChangedCache, WORDS)


def python(text, *arguments):
    """A process, which may end by a signal."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


SHIELDED = """
    import mmap, os, signal, sys
    import numpy as np
    from pymcboost._kernels.shield import Shield

    def mapped(path):
        with open(path, "r+b") as file:
            file.write(b"\\1" * 100_000)
            file.flush()
            memory = mmap.mmap(file.fileno(), 100_000, access=mmap.ACCESS_COPY)
            os.truncate(path, 5000)
        return memory

    memory = mapped(sys.argv[1])
    shield = Shield(memory)
    """


@pytest.mark.skipif(sys.platform == "win32", reason="files in memory cannot be made shorter")
def test_pages_that_are_gone_are_zeros(tmp_path):
    (tmp_path / "file").touch()
    text = """
    assert not shield.lost
    found = np.frombuffer(memory, np.uint8)
    assert found[:5000].all() and not shield.lost
    assert not found[8192:].any() and shield.lost
    print("alive")
    """
    done = python(SHIELDED + text, tmp_path / "file")
    assert done.stdout == "alive\n", (done.returncode, done.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
@pytest.mark.parametrize(
    "text",
    [
        "print(mapped(sys.argv[1])[9000:9010])",  # in memory without a shield
        "os.kill(os.getpid(), signal.SIGBUS)",
        "del shield; print(memory[9000:9010])",
    ],
)
def test_other_faults_end_the_process_as_before(tmp_path, text):
    (tmp_path / "file").touch()
    done = python(SHIELDED + text, tmp_path / "file")
    assert done.returncode == -7, (done.stdout, done.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
def test_many_shields_and_signals_of_the_program(tmp_path):
    (tmp_path / "file").touch()
    text = """
    many = [Shield(memory) for _ in range(200)]
    assert not np.frombuffer(memory, np.uint8)[8192:].any() and shield.lost
    del many, shield
    assert signal.getsignal(signal.SIGBUS) == signal.SIG_DFL
    os.kill(os.getpid(), signal.SIGBUS)
    """
    assert python(SHIELDED + text, tmp_path / "file").returncode == -7


def cut_off_at_some_time(path, seconds):
    def work():
        end = time.monotonic() + 20
        while not os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(seconds)
        truncate(path)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("seconds", np.linspace(0, 0.6, 20).round(2).tolist())
@pytest.mark.part(11)
def test_command_line_at_any_time(tmp_path, monkeypatch, capsys, seconds, again):
    """Trained, refused in words, or found to be damaged and written anew; in this process, which a signal would end."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)).round(3).astype(np.float32)
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)
    write_svm("all.svm", X, y)
    command = ["-a", "vector-tree", "-n", "40", "--calibrate", "none", "--cache", "c", "all.svm", "m.mcb"]
    if again:
        assert train.main([*command[:3], "1", *command[4:]]) == 0
    capsys.readouterr()
    thread = cut_off_at_some_time("c", seconds)
    status = train.main(command)
    thread.join()
    told = capsys.readouterr().err
    assert status in (0, 2), told
    if status:
        assert WORDS in told or "c was changed since it was written" in told, told
    assert train.main(command) == 0
    assert Path("m.mcb").stat().st_size


def test_a_file_cut_off_between_its_size_and_its_mapping(tmp_path, monkeypatch):
    path = tmp_path / "c"
    cached.write(path, 3, 2, lambda X, codes: None, dict)
    size = os.path.getsize(path)
    os.truncate(path, size // 2)
    monkeypatch.setattr(cached.os, "fstat", lambda file: SimpleNamespace(st_size=size, st_mtime_ns=0))
    with pytest.raises(cached.DamagedCache, match="it was cut off while it was opened"):
        cached.opened(path)
