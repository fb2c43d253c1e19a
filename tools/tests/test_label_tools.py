"""Tools about labels and many classes: benchmarks on small data, and the kinds of columns that splits are found on."""

import numpy as np
import pytest
from bench import labels, round_parts, thousand, top
from bench.report import Options, Report
from reproduce import columns, kinds
from reproduce.experiment import cross
from shared import internals

from pymcboost import VectorTreeBoostClassifier
from pymcboost.data.tree_data import TreeData
from pymcboost.losses import LOSSES


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


@pytest.mark.parametrize("kind", internals.KINDS)
def test_kinds_of_columns(kind):
    """Every kind has the mean squares of all classes, and is gone afterwards."""
    X, y = blobs(8, 300)
    fit = lambda: VectorTreeBoostClassifier(n_estimators=3, calibrate=None, random_state=0).fit(X, y)  # noqa: E731
    before = fit().model_.to_bytes()
    with internals.split_directions(kind):
        inside = fit()
    assert inside.score(X, y) > 0.7 and inside.model_.to_bytes() != before == fit().model_.to_bytes()
    rows = LOSSES["softmax"].rows(TreeData(X, y, 8, np.ones(300), n_threads=1), 1)
    rows.start()
    with internals.split_directions(kind):
        drawn = rows.directions(3).draw(0)
        assert rows.directions(3).unit(drawn) == rows.unit(8 * float(np.abs(drawn).max()))
    G = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    size = np.square(G, dtype=float).sum(axis=0)
    P = internals.KINDS[kind](np.random.default_rng(1), size, 3, G)
    assert P.shape == (8, 3) and np.isfinite(P).all()
    if kind == "largest":
        assert set(P.argmax(axis=0)) == set(np.argsort(size)[-3:])
    if kind == "leading":
        np.testing.assert_allclose(P.T @ P, np.eye(3), atol=1e-12)


def test_table_of_kinds(monkeypatch):
    monkeypatch.setattr(kinds, "parts_of", lambda data, seed: (*blobs(6, 120), None, None))
    monkeypatch.setitem(kinds.PARAMS, "n_estimators", 2)
    units = cross(data=["leaf"], kind=kinds.KINDS, columns=["auto", "5"], fold=range(3))
    import pandas as pd

    text = kinds.text_of(pd.DataFrame([kinds.fit_fold(unit) for unit in units]))
    assert text.count("| auto |") == 5 and "random signed sums" in text and "nan" not in text


def test_parts_of_a_round_add_up(monkeypatch):
    monkeypatch.setitem(columns.GENERATED, "generated-355", (12, 20))
    report = round_parts.bench_round_parts(Options(quick=True, repeat=2, data=["generated-355"]))
    for row in report.rows[:2]:
        parts = [value for name, value in row.items() if name not in ("what", "best", "unit")]
        assert len(parts) == 5 and min(parts) >= 0
        np.testing.assert_allclose(sum(parts), row["best"])
    assert "12 classes, columns: auto" in report.rows[1]["what"] and len(report.targets) == 1


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
