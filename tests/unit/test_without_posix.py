"""Systems without what Linux has: a branch for every name, in this process and in one from which all are hidden."""

import errno
import os
import subprocess
import sys
from pathlib import Path

from cli.programs import environment

from pymcboost import threads, versions

TESTS = Path(__file__).parents[1]


def missing(path):
    raise FileNotFoundError(errno.ENOENT, "as on macOS", path)


def test_cpus_without_an_affinity_mask_and_control_groups(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(threads, "_read", missing)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.available_cpus() == os.cpu_count()


def test_memory_without_proc(monkeypatch):
    monkeypatch.setattr(threads, "_read", missing)
    monkeypatch.setattr(
        os, "sysconf", {"SC_PHYS_PAGES": 3, "SC_PAGE_SIZE": 1000}.__getitem__, raising=False
    )
    assert threads._read_memory() == 3000
    monkeypatch.delattr(os, "sysconf")
    assert threads._read_memory() is None


def test_a_processor_without_proc(monkeypatch):
    monkeypatch.setattr("builtins.open", lambda path, *_, **__: missing(path))
    monkeypatch.setattr(versions.platform, "processor", lambda: "arm")
    assert versions._processor() == f"arm ({versions.platform.machine()})"


WORK = """
import numpy as np
from pymcboost import Dataset, dump_svmlight, files, load_model, threads
from pymcboost.algorithms.abcboost import LogitBoostClassifier  # without scikit-learn
from pymcboost.cli import predict, train

assert files.fcntl is None and files.os.name == "nt" and len(files.SIGNALS) == 1
assert threads.available_memory() is None
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3)).astype(np.float32)
y = np.digitize(X[:, 0], [-0.5, 0.5])
dump_svmlight("t.svm", X, y)
assert train.main(["-q", "-n", "5", "--checkpoint", "m.part", "--checkpoint-every", "0", "t.svm", "m.mcb"]) == 0
assert predict.main(["-q", "t.svm", "m.mcb", "out"]) == 0
load_model("m.mcb").save("m.mcb")
blocks = Dataset.from_blocks(lambda: iter([(X[:120], y[:120]), (X[120:], y[120:])]))
new = LogitBoostClassifier(n_estimators=2, calibrate=None, random_state=0)
assert new.fit(blocks).model_.to_bytes() == new.fit(X, y).model_.to_bytes()
"""


def test_a_process_without_these_names_trains_and_predicts(tmp_path):
    path = os.pathsep.join([str(TESTS / "without_posix"), environment()["PYTHONPATH"]])
    completed = subprocess.run(
        [sys.executable, "-c", WORK],
        cwd=tmp_path,
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stderr
    assert sorted(os.listdir(tmp_path)) == ["m.mcb", "out", "t.svm"]
    assert len((tmp_path / "out").read_bytes().split(b"\n")) == 201
