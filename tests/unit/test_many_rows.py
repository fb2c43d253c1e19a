"""Ten thousand million rows, whose sums have 64 bits. Few rows stand for so many: each sum is a multiple of theirs."""

import sys

import numpy as np
import pytest
from divided import threads
from divided.threads import ThreadWorkers, numbered, run

from pymcboost import (
    ABCLogitBoostClassifier,
    Dataset,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost._kernels import exact
from pymcboost.comm import Alone

M = 1000
TIMES = 10**7


class Crowd(ThreadWorkers):
    """Workers with some copies of their rows, in all sums but those that columns are cut by."""

    copies = 1
    in_shares = False

    def sum(self, array, sure=False):
        asked = sys._getframe(1).f_code.co_filename.replace("\\", "/")
        array = super().sum(array, sure)
        if not asked.endswith(("data/divided.py", "comm/several.py")) and not self.in_shares:
            array *= self.copies
        self.in_shares = False
        return array

    def sum_scatter(self, array, lengths, sure=False):
        """What a worker finds in its share of the sums is told by the next sum, which has no copies."""
        own = super().sum_scatter(array, lengths, sure)
        self.in_shares = True
        return own


def rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, (M, 6)).astype(float)
    X[:, 3] %= 3  # many rows have the same level
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, (np.nan_to_num(X[:, 0]) > 25).astype(int) + (X[:, 1] + rng.normal(0, 10, M) > 30)


def scores(cls, copies, monkeypatch, **options):
    """Scores of the rows after a training of two workers with so many copies of them."""
    X, y = rows()
    monkeypatch.setattr(Crowd, "copies", copies)
    monkeypatch.setattr(threads, "ThreadWorkers", Crowd)

    def task(workers):
        part = np.array_split(np.arange(M), 2)[workers.rank]
        model = cls(n_estimators=8, random_state=0, n_jobs=1, **options).fit(
            X[part], y[part], comm=workers
        )
        return model.decision_function(X)

    by_worker = run(2, task)
    for its in by_worker:
        if isinstance(its, Exception):
            raise its
    np.testing.assert_array_equal(*by_worker)
    return by_worker[0]


@pytest.mark.parametrize(("cls", "options", "tolerance"), [
    (VectorTreeBoostClassifier, {"max_leaf_nodes": 16, "min_samples_leaf": 5}, 1e-5),
    (VectorTreeBoostClassifier, {"max_leaf_nodes": 9, "min_samples_leaf": 5, "split_columns": None}, 1e-5),
    (VectorTreeBoostClassifier, {
        "max_leaf_nodes": 9, "min_samples_leaf": 5, "categorical_features": [2, 3], "min_samples_category": 15,
    }, 1e-5),
    (MCBoostClassifier, {}, 1e-6),
])  # fmt: skip
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.part(3)
def test_ten_thousand_million_rows(cls, options, tolerance, shares, monkeypatch):
    """As many copies of each row have the model of sums of 64 bits of fewer copies, but where splits nearly tie."""
    monkeypatch.setattr(Crowd, "scattered", 0 if shares else Crowd.scattered)

    def fitted(copies):
        its = {"calibrate": None, "subsample": 1.0} if cls is VectorTreeBoostClassifier else {}
        weights = {"min_samples_leaf", "min_samples_category"} & set(options)
        its |= {name: copies * options[name] for name in weights}
        return scores(cls, copies, monkeypatch, **{**options, **its})

    found = fitted(TIMES)
    monkeypatch.setattr(exact, "WIDE_ROWS", 0)
    assert (np.abs(found - fitted(1000)) <= tolerance).mean() >= 0.99
    assert np.abs(found).max() > 0.5


def test_more_rows_are_refused(monkeypatch):
    monkeypatch.setattr("pymcboost.training.divided.MOST_ROWS", 2 * M - 1)
    with pytest.raises(
        ValueError, match="the workers have 2000 rows, but training supports at most 1999"
    ):
        X, y = rows()
        for its in run(2, lambda comm: MCBoostClassifier(n_estimators=1).fit(X, y, comm=comm)):
            raise its
    monkeypatch.setattr("pymcboost.training.divided.OWN_ROWS", M - 1)
    with pytest.raises(
        ValueError,
        match="X has 1000 rows, more than the 999 that one worker supports; divide them among workers",
    ):
        MCBoostClassifier(n_estimators=1).fit(X, y)
    with pytest.raises(ValueError, match="worker 0 has 1000 rows, more than 999; .* more workers"):
        for its in run(2, lambda comm: MCBoostClassifier(n_estimators=1).fit(X, y, comm=comm)):
            raise its


@pytest.mark.parametrize("cls", [LogitBoostClassifier, MartClassifier, ABCLogitBoostClassifier])
def test_class_wise_trees_refuse_more_rows_than_their_cells_hold(cls, monkeypatch):
    monkeypatch.setattr(exact, "WIDE_ROWS", 999)
    monkeypatch.setattr("pymcboost.data.tree_data.WIDE_ROWS", 999)
    X, y = rows()
    with pytest.raises(
        ValueError, match=r"X has 1000 rows; .* at most 999.*VectorTreeBoostClassifier"
    ):
        cls(n_estimators=2).fit(X, y)


@pytest.mark.parametrize(("cls", "options"), [
    (VectorTreeBoostClassifier, {"calibrate": None}),
    (VectorTreeBoostClassifier, {"calibrate": None, "categorical_features": [2, 3], "subsample": 0.6}),
    (MCBoostClassifier, {}),
])  # fmt: skip
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.part(2)
def test_workers_threads_and_blocks_agree(cls, options, small, monkeypatch):
    monkeypatch.setattr(exact, "WIDE_ROWS", 0)
    if not small:  # single precision
        monkeypatch.setattr("pymcboost.data.rows.SMALL_DATA", 0)
    X, y = rows()
    weight = np.random.default_rng(1).random(M) + 0.1
    words = {"n_estimators": 4, "random_state": 0, **options}
    if "categorical_features" in options:
        X = np.nan_to_num(X)
    expected = cls(**words, n_jobs=1).fit(X, y, weight, comm=Alone()).model_.to_bytes()
    assert cls(**words, n_jobs=3).fit(X, y, weight, comm=Alone()).model_.to_bytes() == expected
    if cls is VectorTreeBoostClassifier:
        parts = [(X[:300], y[:300], weight[:300]), (X[300:], y[300:], weight[300:])]
        blocks = Dataset.from_blocks(
            parts, categorical_features=options.get("categorical_features")
        )
        assert cls(**words).fit(blocks).model_.to_bytes() == expected

    def task(workers):
        part = np.arange(workers.rank, M, workers.size)
        fit = cls(**words, n_jobs=1).fit
        return fit(X[part], y[part], weight[part], comm=numbered(workers, part)).model_.to_bytes()

    assert set(run(3, task)) == {expected}
