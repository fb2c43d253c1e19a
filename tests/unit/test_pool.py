"""The threads of the kernels: every piece is done once, for several callers, in children of fork, without a race."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from c.build import build

import pymcboost
from pymcboost._kernels import exact

SOURCE = Path(__file__).resolve().parents[1] / "c" / "pool.c"
KERNELS = SOURCE.parents[2] / "pymcboost" / "_kernels"
COMMAND = [
    "gcc",
    "-std=gnu11",
    "-O1",
    "-g",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Wno-unused",
    f"-I{KERNELS}",
]
PLAIN, WAITING = 40 * 39 // 2, 1
SUM = sum(PLAIN if j % 7 else WAITING for j in range(300))


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_every_piece_is_done_once_and_without_a_race(sanitizer, tmp_path):
    program = build(SOURCE, [*COMMAND, f"-fsanitize={sanitizer}"])
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    environment = {**os.environ, "TSAN_OPTIONS": "die_after_fork=0"}
    completed = subprocess.run(
        [*fixed, str(program)], capture_output=True, text=True, timeout=120, env=environment
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
    assert completed.stdout.split() == [str(SUM)] * 3 + ["0", "0"]
    assert "WARNING" not in completed.stderr


def test_a_caller_with_slow_helpers_works_alone_for_a_while(tmp_path):
    program = build(SOURCE.with_name("pool_alone.c"), COMMAND)
    completed = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    assert completed.stdout.split() == ["1", "1"]


def nasty(m, seed):
    """Rows of every kind: constant, rare and missing values, categories, columns that exclude each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 12)).astype(np.float32)
    X[:, 1] = 0
    X[:, 2] = rng.random(m) < 0.001
    X[:, 3] = np.round(X[:, 3])
    X[rng.random(m) < 0.3, 4] = np.nan
    X[rng.random(m) < 0.9, 5] = 0
    X[:, 6] = rng.integers(0, 40, m)
    only = rng.integers(0, 4, m)
    X[:, 7:10] = only[:, None] == np.arange(3)
    y = (X[:, 0] > 0) + 2 * (X[:, 3] > 0) + (X[:, 6] % 3 == 0) + (rng.random(m) < 0.1)
    return X, y.astype(int), rng.random(m).astype(np.float32)


@pytest.mark.parametrize(
    "case",
    ["drawn", "all", "few columns", "weights", "categories", "sparse", "constraint", "many rows"],
)
def test_large_nodes_and_small_ones_have_the_bytes_of_one_thread(case, monkeypatch):
    """As many rows as nodes need that all threads part, fill in shares, move, and split side by side."""
    monkeypatch.setattr("pymcboost.threads.SMALL_WORK", 0)
    X, y, weight = nasty(40_000, 3)
    options = {
        "drawn": {},
        "all": {"subsample": 1.0, "max_features": 1.0},
        "few columns": {"max_features": 0.3},
        "weights": {},
        "categories": {"categorical_features": [6]},
        "sparse": {},
        "constraint": {"monotonic_cst": {0: (1, 1)}},
        "many rows": {},
    }[case]
    if case == "many rows":  # sums of 64 bits
        monkeypatch.setattr(exact, "WIDE_ROWS", 0)
    if case == "constraint":
        y = (y > 1).astype(int)
    if case == "sparse":
        X = sp.csr_matrix(np.nan_to_num(np.tile(np.where(np.abs(X) > 1.5, X, 0), 4)))
    scores = set()
    for n_jobs in (1, 5):
        model = pymcboost.VectorTreeBoostClassifier(
            n_estimators=2, n_jobs=n_jobs, random_state=0, calibrate=None, **options
        )
        model.fit(X, y, sample_weight=weight if case == "weights" else None)
        scores.add(model.decision_function(X[:5000]).tobytes())
    assert len(scores) == 1
