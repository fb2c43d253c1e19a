"""The parts of tools/ that belong to MultiBoost: timers, curves and tables."""

from types import SimpleNamespace

import numpy as np
import pytest
from reproduce import multiboost, multiboost_fcd, multiboost_table4
from shared import internals


def blobs(m=120, K=4, seed=0):
    generator = np.random.default_rng(seed)
    y = generator.integers(0, K, m)
    return (generator.standard_normal((m, 5)) + y[:, None] * np.arange(5) / 3).astype(np.float32), y


def test_inner_calls_count_once(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(internals.time, "process_time", lambda: next(clock))
    owner = SimpleNamespace(inner=lambda: 1)
    owner.outer = lambda: owner.inner() + owner.inner()
    stopwatch = internals.Stopwatch()
    stopwatch.watch(owner, "inner", "outer")
    assert (
        owner.outer() == 2 and stopwatch.seconds == 3
    )  # the clock is read at four begins and ends
    owner.inner()
    assert stopwatch.seconds == 4


@pytest.mark.parametrize("name", [*multiboost_table4.METHODS, *multiboost_fcd.SOLVERS])
def test_time_of_every_solver(name):
    X, y = blobs()
    stopwatch = internals.Stopwatch()
    if name in multiboost_fcd.SOLVERS:
        model = multiboost_fcd.corrective(name, 5, 1e4)
    else:
        model = multiboost_table4.table4_estimator(name, 5, 1e4)
    internals.watch_solver(model, stopwatch).fit(X, y)
    assert stopwatch.seconds > 0


@pytest.mark.parametrize("method", multiboost.METHODS)
def test_curve_of_every_method(monkeypatch, method):
    X, y = blobs()
    monkeypatch.setattr(multiboost, "curve_split", lambda name, repeat: (X, y, X[:40], y[:40]))
    monkeypatch.setattr(multiboost, "CHOICE_C", (1e2, 1e4))
    row = multiboost.fit_curve({"data": "made up", "method": method, "repeat": 0, "rounds": 12})
    rounds, learners, error = multiboost.points_of(row)
    assert rounds.tolist() == [1, 2, 3, 5, 7, 10, 12] and (np.diff(learners) >= 0).all()
    assert error[-1] == pytest.approx(row["error"], abs=0.01)
    assert row["error"] < 40 and (row["choice"] != "") == multiboost.METHODS[method].chosen


def test_errors_along_a_curve():
    row = {"curve": "1:10:50 2:18:40 5:45:30 10:90:20", "rounds_fitted": 10, "rounds": 10}
    at = multiboost.error_at
    assert [at(row, t, 0) for t in (1, 4, 5, 10)] == [50, 40, 30, 20]
    assert np.isnan(at(row, 20, 0)) and np.isnan(at(row, 5, 1))
    assert [at(row, n, 1) for n in (10, 44, 95)] == [50, 40, 20]
    # A training that had nothing left to learn keeps its error.
    assert at({**row, "rounds": 50}, 20, 0) == 20
    rows = [{**row, "data": "usps", "method": "multiboost"}]
    assert multiboost.rounds_to(rows, 30) == 5 and multiboost.rounds_to(rows, 3) is None


def test_choice_of_C():
    rows = [
        {"data": "iris", "method": "multiboost-lbfgs", "C": C, "error": error, "rounds": rounds}
        for C, error, rounds in (
            ("1e+08", "5", "100"),
            ("1000", "4", "100"),
            ("1000", "6", "100"),
            ("200", "7", "100"),
            ("200", "1", "500"),
        )
    ]
    assert multiboost_table4.choose_C(rows, "iris", "multiboost-lbfgs") == "1000"
    assert multiboost_table4.choose_C(rows, "iris", "mcboost-exp") is None


def test_fast_coordinate_descent_also_trains_longer():
    units = multiboost_fcd.fcd_units(["vowel"], 1)
    assert {(u["solver"], u["rounds"]) for u in units} >= {
        ("fcd-5", 100),
        ("fcd-5", 150),
        ("lbfgs", 100),
    }
    assert ("lbfgs", 150) not in {(u["solver"], u["rounds"]) for u in units}
