"""Benchmarks of labels and many classes, on small data."""

import numpy as np
import pytest
from bench import labels, thousand, top
from bench.report import Options, Report

from pymcboost import VectorTreeBoostClassifier


def blobs(n_classes, rows, seed=0):
    rng = np.random.default_rng([n_classes, seed])
    y = rng.permutation(np.arange(rows) % n_classes)
    return (3 * rng.normal(size=(n_classes, 5))[y] + rng.normal(size=(rows, 5))).astype(np.float32), y


def test_figures_of_labels():
    Y, P = np.array([[1, 0, 1], [0, 0, 1]]), np.array([[0.5, 0.25, 0.9], [0.5, 0.75, 0.1]])
    found = labels.figures(Y, P, (1, 3))
    expected = -np.log([0.5, 0.75, 0.9, 0.5, 0.25, 0.1]).mean()
    assert found == {"cross_entropy": pytest.approx(expected), "precision_at_1": 0.5, "precision_at_3": 0.5}


def test_small_sets_have_several_labels():
    for _, X, Y in labels.bundled():
        assert len(X) == len(Y) and Y.shape[1] >= 4 and set(np.unique(Y)) == {0, 1}
        assert (Y.sum(axis=1) > 1).any()


def test_files_and_rows_of_many_classes(monkeypatch):
    """Others' models are of equal log loss; the first of ours that reaches it is compared."""

    class Model:
        def __init__(self, X, y, rounds, algorithm, leaves, threads):
            pass

        def evaluate(self, n, X, folder):
            return None, np.full((len(X), 9), 1 / 9), 5000, None

    monkeypatch.setattr(thousand, "PEERS", {"made up": (Model, {}, 2)})
    monkeypatch.setattr(thousand, "generate", blobs)
    monkeypatch.setattr(thousand, "CLASSES", 9)
    monkeypatch.setattr(thousand, "row_times", lambda *_: 1.0)
    monkeypatch.setattr(thousand, "VARIANTS", {"few": ({"max_leaf_entries": 3}, "float16")})
    options = Options(quick=True, repeat=1)
    monkeypatch.setattr(Options, "size", lambda self, quick, full: (9, 200, 50) if isinstance(quick, tuple) else quick)
    report = thousand.bench_thousand(options)
    assert isinstance(report, Report) and not report.notes
    row, times = report.targets
    assert row["reached"] == 1.0 and times["what"] == "few: bytes of made up / ours" and times["reached"] > 0
    first = next(entry for entry in report.rows if "at the log loss" in entry["what"])
    assert "after 1 rounds" in first["what"]


def test_entries_that_a_row_comes_to():
    X, y = blobs(30, 300)
    for entries in (4, None):
        model = VectorTreeBoostClassifier(n_estimators=3, max_leaf_entries=entries, calibrate=None).fit(X, y).model_
        trees = model.ensemble
        leaf = np.asarray(trees.leaf)[trees.offset[:-1] + np.arange(3) + model.apply(X[:9])]
        assert top.stored(model, X[:9]) == pytest.approx((leaf != 0).sum(axis=(1, 2)).mean())


def test_top_scores_are_timed():
    report = top.bench_top(Options(quick=True, repeat=1))
    kinds = [row["what"].partition(": ")[2] for row in report.rows]
    every = ["all scores", "all scores, then their top 5"]
    assert kinds == [*every, "top 5", *every, *every]
    assert all(row["best"] > 0 for row in report.rows)
