"""Bins that trainings share: what one gets of its own rows, and that class weights and folds leave cuts alone."""

from types import SimpleNamespace

import numpy as np
import pytest
from divided.threads import run

from pymcboost import MCBoostClassifier, VectorTreeBoostClassifier
from pymcboost.comm import ALONE
from pymcboost.data import shared_bins
from pymcboost.data.shared_bins import SharedBins, bin_rows

CATEGORICAL = [3]


def columns(m, rng):
    """Few values, many values, missing ones, categories, a constant, and rare values next to a common one."""
    X = np.column_stack(
        [
            rng.integers(0, 40, m),
            rng.normal(size=m),
            np.where(rng.random(m) < 0.2, np.nan, rng.integers(-5, 6, m)),
            rng.integers(0, 30, m),
            np.full(m, 3.0),
            np.where(rng.random(m) < 0.99, 0.0, rng.normal(size=m).round(1)),
            np.where(rng.random(m) < 0.995, np.nan, 1.0),
        ]
    )
    return X.astype(np.float32)


def rows_of(X, rows, weight=None, comm=ALONE):
    """What bins are made of, as `TrainingRows` have it."""
    weight = np.ones(len(rows)) if weight is None else weight[rows]
    total = int(comm.sum(np.array([len(rows)]))[0])
    return SimpleNamespace(
        X=X,
        rows=rows,
        n_rows=len(rows),
        total_rows=total,
        n_features=X.shape[1],
        weight=weight,
        least_weight=0.0,
        comm=comm,
        refuse_infinite=lambda bad, features=None: None,
    )


def shared(X, weight=None, max_bins=64, comm=ALONE, categorical=CATEGORICAL):
    weight = np.ones(len(X)) if weight is None else weight
    y = np.zeros(len(X), dtype=int)
    return SharedBins(
        X, y, weight, max_bins=max_bins, n_threads=2, categorical=categorical, comm=comm
    )


def check_against_values(bins, X, rows):
    """Codes, counts and cuts follow from the values."""
    for f, code in enumerate(bins.codes):
        value = X[rows, f]
        cuts = bins.cuts[f]
        n = bins.n_bins[f]
        missing = np.isnan(value)
        np.testing.assert_array_equal(code, np.where(missing, n, np.searchsorted(cuts, value)))
        assert bins.missing[f] == missing.sum() and len(cuts) == max(n - 1, 0)
        count = np.bincount(code, minlength=n + 1)
        assert (count[:n] > 0).all()
        assert bins.mode[f] == count.argmax() and bins.mode_rows[f] == count.max()
        if f in bins.levels:
            np.testing.assert_array_equal(bins.levels[f], np.unique(value[~missing]))


@pytest.mark.parametrize("seed", range(4))
def test_bins_of_some_rows(seed):
    """Columns with a bin for every value have the bins of these rows alone, bit for bit; others have cuts that fit."""
    rng = np.random.default_rng(seed)
    X = columns(3000, rng)
    every = shared(X)
    for share in (1.0, 0.5, 0.01):
        rows = np.sort(rng.choice(3000, int(3000 * share), replace=False))
        bins = every.of(rows_of(X, rows), 2)
        check_against_values(bins, X, rows)
        alone = bin_rows(rows_of(X, rows), 64, 1, categorical=CATEGORICAL)
        few = [f for f in range(X.shape[1]) if f != 1]
        for f in few:
            np.testing.assert_array_equal(bins.cuts[f], alone.cuts[f])
            np.testing.assert_array_equal(bins.codes[f], alone.codes[f])
        assert share < 1 or bins.cuts[1].tobytes() == alone.cuts[1].tobytes()


def test_rows_of_no_sample_weight_take_no_part():
    rng = np.random.default_rng(0)
    X = columns(2000, rng)
    weight = np.repeat([1.0, 0.0], 1000)
    X[1000:, 0] += 0.5
    bins = shared(X, weight).of(rows_of(X, np.arange(1000)), 1)
    check_against_values(bins, X, np.arange(1000))
    assert bins.n_bins[0] == 40


def test_wide_categories_keep_a_bin_each():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(4000, 3)), rng.integers(0, 900, 4000)]).astype(np.float32)
    every = shared(X)
    whole = every.of(rows_of(X, np.arange(4000)), 1)
    assert whole.codes.dtype == np.uint16 and whole.n_bins[3] == len(np.unique(X[:, 3]))
    few = np.arange(100)
    bins = every.of(rows_of(X, few), 1)
    assert bins.codes.dtype == np.uint8
    check_against_values(bins, X, few)


@pytest.mark.parametrize("least", [0.001, 0.05, 0.4, 0.6])
def test_bounded_bins(least):
    """The cuts that stay are those with enough weight on either side."""
    rng = np.random.default_rng(2)
    X = columns(3000, rng)
    weight = rng.integers(1, 4, 3000).astype(float)
    rows = np.arange(0, 3000, 2)
    bins = shared(X).of(rows_of(X, rows), 1)
    least = least * weight[rows].sum()
    found = bins.bounded(weight[rows], least, ALONE)
    for f, cuts in enumerate(bins.cuts):
        value = X[rows, f]
        left = np.array([weight[rows][value <= cut].sum() for cut in cuts])
        right = np.array([weight[rows][value > cut].sum() for cut in cuts])
        np.testing.assert_array_equal(
            found.cuts[f], cuts[(left >= least) & (right >= least)] if len(cuts) else cuts
        )
    check_against_values(found, X, rows)


def test_workers_share_the_bins_of_all_rows():
    rng = np.random.default_rng(3)
    X = columns(3000, rng)
    taken = np.flatnonzero(rng.random(3000) < 0.1)
    one = shared(X).of(rows_of(X, taken), 1)
    parts = np.split(rng.permutation(3000), [700, 700])  # one has no rows

    def bins(comm):
        part = np.sort(parts[comm.rank])
        own = np.flatnonzero(np.isin(part, taken))
        return part[own], shared(X[part], comm=comm).of(rows_of(X[part], own, comm=comm), 1)

    for part, found in run(3, bins):
        np.testing.assert_array_equal(found.codes, one.codes[:, np.searchsorted(taken, part)])
        np.testing.assert_array_equal(found.missing, one.missing)
        np.testing.assert_array_equal(found.mode, one.mode)
        for mine, theirs in zip(found.cuts, one.cuts, strict=True):
            assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("estimator", [VectorTreeBoostClassifier, MCBoostClassifier])
def test_folds_bin_no_more_than_once(estimator, monkeypatch):
    """The rounds, the temperature and the training itself take their bins from the same place."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(9000, 3))
    y = (X[:, 0] + rng.normal(size=9000) > 0).astype(int)
    made = []
    monkeypatch.setattr(
        shared_bins, "bin_rows", lambda *args, **how: made.append(1) or bin_rows(*args, **how)
    )
    estimator(
        n_estimators="auto", n_iter_no_change=2, cv=2, calibrate="temperature", random_state=0
    ).fit(X, y)
    assert len(made) == 1


@pytest.mark.parametrize("how", [{"class_weight": {0: 5.0, 1: 0.2}}, {"early_stopping": True}])
def test_cuts_are_those_of_all_rows(how):
    """Neither class weights nor rows that are held out move the cuts of a column with more values than bins."""
    rng = np.random.default_rng(5)
    X = rng.exponential(size=(12000, 2)).astype(np.float32)
    y = (X[:, 0] > 1).astype(int) ^ (rng.random(12000) < 0.2)
    bins = shared(X, max_bins=256, categorical=()).of(rows_of(X, np.arange(12000)), 1)
    params = {"n_estimators": 20, "calibrate": None, "random_state": 0, **how}
    ensemble = VectorTreeBoostClassifier(**params).fit(X, y).model_.ensemble
    for f in range(2):
        used = ensemble.threshold[ensemble.feature == f]
        assert len(used) > 20 and np.isin(used, bins.cuts[f]).all()
