"""The Pareto report: its frontier, its table, and going on after a stop."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from bench import pareto
from shared.frontiers import frontier


def test_frontier_holds_what_nothing_betters():
    points = [(3, 1), (1, 5), (2, 5), (2, 3), (4, 1), (5, 0.5)]
    assert frontier(points) == [1, 3, 0, 5]
    assert frontier([]) == []


def test_frontier_of_equal_points_holds_the_first():
    assert frontier([(1, 1), (1, 1)]) == [0]


def test_shares_name_the_points_of_others():
    columns = ["data", "library", "algorithm", "setting", "size", "error", "us", "bytes", "log_loss"]
    rows = [
        ["a", "pymcboost", "mart", "default", 1, 9.0, 1.0, 10.0, 0.3],
        ["a", "LightGBM", "scalar", "8 leaves", 3, 5.0, 4.0, 2e5, 0.4],
        ["a", "LIBSVM", "rbf", "default", 1, 8.0, 9.0, 2e4, np.nan],
    ]
    fast, likely, small, known = pareto.shares(pd.DataFrame(rows, columns=columns))
    assert fast[1:4] == ["below 5 us", "test error in percent", "1 of 2"]
    assert fast[4].startswith("LightGBM scalar, 8 leaves, size 3")
    assert likely == ["a", "below 5 us", "log loss", "1 of 1", "-"]
    assert small[1:4] == ["below 100 kB", "test error in percent", "1 of 2"] and small[4].startswith("LIBSVM rbf")
    assert known == ["a", "below 100 kB", "log loss", "1 of 1", "-"]


def test_libraries_that_are_absent_are_missed_and_named(monkeypatch):
    monkeypatch.setattr(pareto.pareto_models, "present", lambda module: module != "catboost")
    assert pareto.absent() == ["CatBoost"]
    assert {fit[0] for fit in pareto.grid()} - {fit[0] for fit in pareto.grid(pareto.absent())} == {"CatBoost"}


@pytest.fixture
def quick(monkeypatch):
    """A grid of one fit, counted, whose models are made at once."""
    made = []

    class Model:
        rounds, way = 3, "none"

        def __init__(self, X, y, rounds, algorithm, leaves):
            made.append(rounds)

        def evaluate(self, n, X, folder):
            return np.zeros(len(X), int), None, 10 * n, None

    timer = SimpleNamespace(microseconds=lambda model, way: 1.0)
    monkeypatch.setattr(pareto, "grid", lambda left_out=(): [("peer", "a", "b", (1, 3, 10), Model, None)])
    monkeypatch.setattr(pareto, "sampled_parts", lambda name: (None, None, np.zeros((2, 1)), np.array([0, 1])))
    monkeypatch.setattr(pareto, "Timer", lambda folder, X: timer)
    return made


def test_a_row_of_a_class_that_was_not_trained_on(tmp_path, quick):
    """It has probability 0 of its class, not that of the last one."""
    its = np.zeros(2, int), np.array([[0.5, 0.5], [0.0, 1.0]]), 1, None
    model = SimpleNamespace(rounds=1, way="none", evaluate=lambda *_: its)
    fit = "peer", "a", "b", (1,), lambda *_: model, None
    journal = pareto.Journal(tmp_path / "pareto.csv", pareto.KEY, pareto.FIGURES)
    parts = None, None, np.zeros((2, 1)), np.array([0, -1])
    pareto.run_fit(fit, pareto.units_of("a", fit), parts, pareto.Timer(tmp_path, None), tmp_path, 1, journal)
    assert float(journal.rows[0]["log_loss"]) == pytest.approx(-np.log([0.5, 1e-15]).mean())


def test_a_killed_run_goes_on(tmp_path, quick):
    options = SimpleNamespace(left=lambda: None, seconds=1)

    def journal():
        return pareto.Journal(tmp_path / "pareto.csv", pareto.KEY, pareto.FIGURES)

    pareto.run_set("digits", journal(), options)
    path = tmp_path / "pareto.csv"
    whole = path.read_text().splitlines()
    assert len(whole) == 4 and "ended after 3 rounds" in whole[3]
    pareto.run_set("digits", journal(), options)
    assert quick == [10]
    path.write_text("\n".join([*whole[:2], whole[2][:20]]))
    pareto.run_set("digits", journal(), options)
    assert quick == [10, 10] and len(path.read_text().splitlines()) == 4
