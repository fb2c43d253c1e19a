"""Stumps on rows that are divided among workers: the model of a communicator of one worker, byte for byte."""

import numpy as np
import pytest
from divided.threads import ThreadWorkers, one_model, run, sums_of_rounds
from unit.test_class_workers import by_class
from unit.test_workers import more_classes, parts_of, rows

from pymcboost import MCBoostClassifier
from pymcboost.comm import Alone
from pymcboost.data import stump_scans

LOSSES = ["exp", "log"]
ALL = {
    "mcboost": (MCBoostClassifier, {}),
    "mcboost, log": (MCBoostClassifier, {"loss": "log"}),
}


def check_workers_agree(X, y, parts, weight=None, name="mcboost", **params):
    """The workers' models are those of one worker."""
    cls, options = ALL[name]
    params = {"n_estimators": 12, "random_state": 0, **options, **params}
    return one_model(cls, X, y, parts=parts, weight=weight, comm=Alone(), **params)


@pytest.mark.parametrize("how", ["even", "random", "by class", "empty", "one row"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(7)
def test_division_of_the_rows_does_not_change_the_model(name, how, size):
    rng = np.random.default_rng(0)
    for m, threads in ((300, 1), (9000, 2)):  # in double precision, and in single
        X, y = rows(m)
        parts = by_class(y, size) if how == "by class" else parts_of(m, size, how, rng=rng)
        single_model = check_workers_agree(X, y, parts, threads=threads, name=name)
        assert single_model.n_estimators_ > 3


@pytest.mark.parametrize("name", ALL)
def test_order_of_the_rows_does_not_change_the_model(name):
    X, y = rows(9000)
    order = np.random.default_rng(0).permutation(len(y))
    cls, params = ALL[name]
    one, other = (
        cls(n_estimators=12, random_state=0, **params).fit(X[its], y[its], comm=Alone())
        for its in (np.arange(len(y)), order)
    )
    assert one.model_.to_bytes() == other.model_.to_bytes()


@pytest.mark.parametrize("name", ALL)
def test_more_rows_than_narrow_histograms_take(name, monkeypatch):
    X, y = rows(9000)
    monkeypatch.setattr(stump_scans, "NARROW_ROWS", 8999)
    check_workers_agree(
        X, y, parts_of(len(y), 3, "random", rng=np.random.default_rng(0)), name=name
    )


@pytest.mark.parametrize("name", ALL)
def test_model_differs_from_that_without_a_communicator_in_rounding_alone(name):
    X, y = rows(9000)
    X = np.nan_to_num(X)
    cls, params = ALL[name]
    one, other = (
        cls(n_estimators=12, random_state=0, **params).fit(X, y, comm=comm)
        for comm in (Alone(), None)
    )
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=2e-3)


OPTIONS = {
    "balanced": {"class_weight": "balanced"},
    "few bins": {"max_bins": 8},
    "heavy sides": {"min_weight_fraction_leaf": 0.2},
    "bounded": {"max_step": 0.1, "nu": 1e-3},
    "fixed": {"fixed_step": 0.05},
    "ends by itself": {"nu": 0.2, "n_estimators": 300},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_options(loss, name):
    X, y = rows(2500)
    X[: len(X) // 2, 5] = np.nan
    check_workers_agree(
        X,
        y,
        parts_of(len(y), 3, "random", rng=np.random.default_rng(1)),
        loss=loss,
        **OPTIONS[name],
    )


@pytest.mark.parametrize("K", [2, 8, 20])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(3)
def test_numbers_of_classes(name, K):
    X, y = rows(2500)
    check_workers_agree(
        X,
        more_classes(y, K),
        parts_of(len(y), 3, "random", rng=np.random.default_rng(2)),
        name=name,
        n_estimators=6,
    )


@pytest.mark.parametrize("kind", ["with zeros", "huge"])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(2)
def test_weights(name, kind):
    X, y = rows(2500)
    rng = np.random.default_rng(4)
    weight = (
        rng.uniform(0, 5, len(y)) * (rng.random(len(y)) < 0.8)
        if kind == "with zeros"
        else np.exp(rng.normal(0, 8, len(y)))
    )
    parts = parts_of(len(y), 3, "random", rng=rng)
    weight[parts[2]] *= kind == "huge"  # or one worker has no row in use
    check_workers_agree(X, y, parts, weight=weight, name=name, min_weight_fraction_leaf=0.01)


def test_columns_of_many_kinds():
    """Columns that are skewed on one worker and not on another, several in a byte, all bins and missing ones."""
    rng = np.random.default_rng(5)
    m = 12_000
    away = rng.random(m) < np.where(np.arange(m) < 8000, 0.1, 0.9)
    X = np.where(away[:, None], rng.integers(0, 40, (m, 20)), 3).astype(np.float64)
    X[:, 18], X[:, 19] = (
        rng.normal(size=m),
        np.where(rng.random(m) < 0.2, np.nan, rng.normal(size=m)),
    )
    X = np.hstack([X, np.arange(12) == rng.integers(0, 30, m)[:, None], np.ones((m, 1))])
    y = (X[:, 0] > 9).astype(int) + (X[:, 18] > 0.5) + (X[:, 25] > 0)
    single_model = check_workers_agree(X, y, [np.arange(8000), np.arange(8000, m)], n_estimators=30)
    assert len(set(single_model.history_["feature"])) > 3


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(5)
def test_shares_of_the_features_do_not_change_the_model(name, size, narrow, monkeypatch):
    """Eight workers have fewer features than workers, and some of them none."""
    monkeypatch.setattr(ThreadWorkers, "scattered", 0)
    monkeypatch.setattr(stump_scans, "NARROW_ROWS", 0 if not narrow else stump_scans.NARROW_ROWS)
    X, y = rows(9000)
    X = np.hstack([X, X[:, :2] == X[:, :2].round(), X[:, :1]])[
        :, : 9 if size < 8 else 5
    ]  # equal columns are a tie
    check_workers_agree(
        X, y, parts_of(len(y), size, "random", rng=np.random.default_rng(7)), name=name, threads=2
    )


def test_columns_without_any_split():
    X, y = rows(300)
    X[:] = 1
    with pytest.warns(UserWarning, match="the model is constant"):
        single_model = MCBoostClassifier().fit(X, y, comm=Alone())
        by_worker = run(
            2,
            lambda w: (
                MCBoostClassifier().fit(X[w.rank :: 2], y[w.rank :: 2], comm=w).model_.to_bytes()
            ),
        )
    assert set(by_worker) == {single_model.model_.to_bytes()}


@pytest.mark.parametrize("name", ALL)
def test_weights_are_rebuilt_from_scores(name, monkeypatch):
    monkeypatch.setattr(ALL[name][0].booster, "restart_every", 5)
    X, y = rows(2500)
    parts = parts_of(len(y), 3, "empty", rng=np.random.default_rng(6))
    check_workers_agree(X, y, parts, name=name)
    check_workers_agree(X, y, by_class(y, 3), name=name)


@pytest.mark.parametrize("loss", LOSSES)
def test_rounds_of_a_model_are_gone_on_from(loss):
    X, y = rows(2500)
    first = MCBoostClassifier(n_estimators=5, loss=loss).fit(X, y, comm=Alone())
    parts = by_class(y, 3)

    def task(workers):
        model = MCBoostClassifier(n_estimators=5, loss=loss)
        its = (X, y) if workers.size == 1 else (X[parts[workers.rank]], y[parts[workers.rank]])
        return model.fit(*its, comm=workers, init_model=first).model_.to_bytes()

    assert set(run(3, task)) == {task(Alone())}


def test_validation_rows_of_one_worker():
    X, y = rows(900)
    held = {"X_val": X[:200], "y_val": y[:200]}
    params = {
        "early_stopping": True,
        "calibrate": "temperature",
        "n_estimators": 60,
        "n_iter_no_change": 3,
    }
    check_workers_agree(
        X[200:],
        y[200:],
        parts_of(700, 3, "random", rng=np.random.default_rng(7)),
        held=held,
        **params,
    )


def test_rounds_send_what_the_page_says():
    X, y = rows(2500)

    bins = sum(min(256, len(np.unique(column))) for column in X.T)  # missing ones are alike
    for sums_of_round in sums_of_rounds(MCBoostClassifier(n_estimators=6), X, y):
        assert (sums_of_round[:, 0] == 4).all()
        assert (sums_of_round[:, 1] == 16 + 8 * 4 + 4 * 4 * bins + 16 * 4**2).all()


def test_scattered_rounds_send_what_the_page_says(monkeypatch):
    X, y = rows(2500)
    X = np.nan_to_num(X[:, np.arange(20) % 6])
    y = more_classes(y, 9)
    bins = sum(min(256, len(np.unique(column))) for column in X.T)
    model = MCBoostClassifier(n_estimators=4, random_state=0)
    size = 4 * 9 * bins
    monkeypatch.setattr(ThreadWorkers, "scattered", size + 1)
    counts = sums_of_rounds(model, X, y)[0]
    monkeypatch.setattr(ThreadWorkers, "scattered", size)
    more = sums_of_rounds(model, X, y)[0] - counts
    assert (more == [1, 24 * 20 - size // 2]).all(), more
