"""Class-wise trees on rows that are divided among workers: the model of one worker, byte for byte."""

import numpy as np
import pytest
from contract.variants import as_published
from divided.threads import ThreadWorkers, numbered, one_model, run, sums_of_rounds
from unit.test_workers import more_classes, parts_of, rows

from pymcboost import (
    ABCLogitBoostClassifier,
    ABCMartClassifier,
    LogitBoostClassifier,
    MartClassifier,
)
from pymcboost._kernels import class_loss, pairwise_weights
from pymcboost._kernels.exact import of_parts, units_in_parts
from pymcboost.comm import Alone, WorkerError
from pymcboost.data import tree_data
from pymcboost.learners import class_trees
from pymcboost.learners.sampling import drawn_rows, scrambled

ALL = [LogitBoostClassifier, MartClassifier, ABCLogitBoostClassifier, ABCMartClassifier] = (
    as_published(LogitBoostClassifier, MartClassifier, ABCLogitBoostClassifier, ABCMartClassifier)
)
BASED = ALL[2:]


def by_class(y, size):
    return np.array_split(np.argsort(y, kind="stable"), size)


def check_workers_agree(cls, X, y, parts, weight=None, **params):
    """The workers' models are those of one worker."""
    params = {
        "n_estimators": 4,
        "random_state": 0,
        **({"gap": 2} if cls in BASED else {}),
        **params,
    }
    return one_model(cls, X, y, parts=parts, weight=weight, **params)


@pytest.mark.parametrize("how", ["even", "random", "by class", "empty", "one row"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(9)
def test_division_of_the_rows_does_not_change_the_model(cls, how, size):
    rng = np.random.default_rng(0)
    for m, threads in ((300, 1), (8200, 2)):  # in double precision, and in single
        X, y = rows(m)
        parts = by_class(y, size) if how == "by class" else parts_of(m, size, how, rng=rng)
        single_model = check_workers_agree(cls, X, y, parts=parts, threads=threads, n_estimators=3)
        assert len(single_model.model_.ensemble) >= 9


@pytest.mark.parametrize("how", ["bounded", "categories"])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(5)
def test_more_rows_than_counts_of_24_bits_take(cls, how, monkeypatch):
    X, y = rows(6000)
    weight = np.random.default_rng(3).uniform(0.2, 3, len(y))
    params = {"min_samples_leaf": 5.0, "n_jobs": 1}
    if how == "categories":
        X[:, 2] = np.arange(len(y)) % 40
        params["categorical_features"] = [2]
    params["n_estimators"] = 2
    fewer = cls(random_state=0, **({"gap": 2} if cls in BASED else {}), **params).fit(X, y, weight)
    monkeypatch.setattr(tree_data, "MANY_ROWS", 0)
    del params["n_jobs"]
    single_model = check_workers_agree(
        cls,
        X,
        y,
        parts=parts_of(len(y), 3, "random", rng=np.random.default_rng(1)),
        weight=weight,
        **params,
    )
    np.testing.assert_allclose(
        single_model.decision_function(X), fewer.decision_function(X), atol=5e-3
    )


OPTIONS = {
    "draws": {"subsample": 0.5, "max_features": 0.5, "max_features_tree": 0.7},
    "few rows": {"subsample": 0.002},
    "balanced": {"class_weight": "balanced"},
    "leaves": {"min_samples_leaf": 20, "max_leaf_nodes": 300, "max_depth": 5},
    "regularised": {"l2_regularization": 1.0, "min_gain": 0.1},
    "few bins": {"max_bins": 8},
    "stumps": {"max_leaf_nodes": 2},
    "defaults": {"max_leaf_nodes": "auto", "max_features": "auto", "subsample": "auto"},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(5)
def test_options(cls, name):
    X, y = rows(8200)
    X[: len(X) // 2, 5] = np.nan
    check_workers_agree(
        cls,
        X,
        y,
        parts=parts_of(len(y), 3, "random", rng=np.random.default_rng(1)),
        **OPTIONS[name],
    )


@pytest.mark.parametrize(
    ("K", "params"), [(2, {}), (20, {}), (20, {"n_candidates": 2, "gap": 1, "warmup_rounds": 1})]
)
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(5)
def test_numbers_of_classes(cls, K, params):
    X, y = rows(2500)
    params = params if cls in BASED else {}
    check_workers_agree(
        cls,
        X,
        more_classes(y, K),
        parts=parts_of(len(y), 3, "random", rng=np.random.default_rng(2)),
        **params,
    )


@pytest.mark.parametrize("kind", ["with zeros", "huge"])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(5)
def test_weights(cls, kind):
    X, y = rows(2500)
    rng = np.random.default_rng(4)
    weight = (
        rng.uniform(0, 5, len(y)) * (rng.random(len(y)) < 0.8)
        if kind == "with zeros"
        else np.exp(rng.normal(0, 8, len(y)))
    )
    parts = parts_of(len(y), 3, "random", rng=rng)
    weight[parts[2]] *= kind == "huge"  # or one worker has no row in use
    check_workers_agree(cls, X, y, parts=parts, weight=weight)


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
def test_columns_of_many_kinds(cls):
    """Tiles that skip rows on one worker and not on another, bundles of one worker alone, all bins and missing ones."""
    rng = np.random.default_rng(5)
    m = 12_000
    away = rng.random(m) < np.where(np.arange(m) < 8000, 0.1, 0.9)
    X = np.where(away[:, None], rng.integers(0, 40, (m, 20)), 3).astype(np.float32)
    X[:, 18], X[:, 19] = (
        rng.normal(size=m),
        np.where(rng.random(m) < 0.2, np.nan, rng.normal(size=m)),
    )
    X = np.hstack(
        [X, np.arange(12) == rng.integers(0, 30, m)[:, None], np.ones((m, 1), dtype=np.float32)]
    )
    y = (X[:, 0] > 9).astype(int) + (X[:, 18] > 0.5) + (X[:, 25] > 0)
    check_workers_agree(cls, X, y, parts=[np.arange(8000), np.arange(8000, m)], max_leaf_nodes=10)


@pytest.mark.parametrize("cls", [MartClassifier, ABCLogitBoostClassifier])
def test_little_memory(cls, monkeypatch):
    """Without histograms to subtract from, and with few trees in step."""
    X, y = rows(8200)
    parts = parts_of(len(y), 2, "random", rng=np.random.default_rng(6))
    monkeypatch.setattr(tree_data, "POOL_BYTES", 0)
    monkeypatch.setattr(class_trees, "POOL_BYTES", 0)
    check_workers_agree(cls, X, y, parts=parts, n_estimators=2)
    monkeypatch.setattr(class_trees, "STEP_BYTES", 1)
    check_workers_agree(cls, X, y, parts=parts, n_estimators=2)


@pytest.mark.parametrize(
    "params", [{}, {"subsample": 0.5, "max_features": 0.5}, {"min_samples_category": 1.0}]
)
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(4)
def test_categories(cls, params):
    """Levels that only one worker has, rare ones, and missing values."""
    rng = np.random.default_rng(3)
    X, y = rows(8200)
    X[:, 1] = rng.integers(0, 70, len(y)) * (rng.random(len(y)) < 0.9)
    X[:, 2] = (y + rng.integers(0, 3, len(y))) % 5
    X[rng.random(len(y)) < 0.1, 2] = np.nan
    single_model = check_workers_agree(
        cls, X, y, parts=by_class(X[:, 1], 3), categorical_features=[1, 2], **params
    )
    assert single_model.model_.ensemble.subset.any()


@pytest.mark.parametrize("cls", [MartClassifier, ABCLogitBoostClassifier])
def test_weights_and_categories_where_a_worker_has_no_rows(cls):
    """It knows as well as the others whether rows have weights."""
    rng = np.random.default_rng(0)
    X, y = rows(300)
    X[:, 1] = (y + rng.integers(0, 3, len(y))) % 5
    weight = np.exp(2 * rng.normal(size=len(y)))
    params = {
        "n_estimators": 6,
        "random_state": 0,
        "categorical_features": [1],
        "max_leaf_nodes": 6,
    }
    parts = [np.arange(len(y)), np.arange(0)]
    one = one_model(cls, X, y, parts=parts, weight=weight, **params)

    def task(workers):
        its = parts[workers.rank]
        model = cls(**params, n_jobs=1).fit(X[its], y[its], weight[its], comm=workers)
        return model.history_["missing"].tolist()

    assert run(2, task) == [one.history_["missing"].tolist()] * 2


def test_features_drawn_that_cannot_split_the_root():
    X, y = rows(8200)
    X[:, 1:] = 0
    X[0, 1:] = 1
    parts = parts_of(len(y), 2, "random", rng=np.random.default_rng(7))
    single_model = check_workers_agree(
        LogitBoostClassifier, X, y, parts=parts, max_features=0.2, min_samples_leaf=5
    )
    assert single_model.gain_[0] > 0


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
def test_validation_rows_of_one_worker(cls):
    X, y = rows(900)
    held = {"X_val": X[:200], "y_val": y[:200]}
    params = {
        "early_stopping": True,
        "calibrate": "temperature",
        "n_estimators": 12,
        "n_iter_no_change": 2,
    }
    check_workers_agree(
        cls,
        X[200:],
        y[200:],
        parts=parts_of(700, 3, "random", rng=np.random.default_rng(7)),
        held=held,
        **params,
    )


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
def test_trainings_that_end_at_machine_accuracy(cls):
    """Gradients far below the first units of the sums; all workers end in the same round."""
    X, y = rows(300)
    single_model = check_workers_agree(
        cls,
        X,
        y,
        parts=parts_of(300, 2, "even", rng=None),
        n_estimators=60,
        learning_rate=1.0,
        max_leaf_nodes=50,
    )
    assert single_model.n_estimators_ < 60


def test_rows_are_drawn_by_their_numbers():
    """The share asked for, whatever the order and division of the rows."""

    class Data:
        def __init__(self, number, comm):
            self.row_number = number
            self.comm = comm

    rng = np.random.default_rng(8)
    number = rng.permutation(10_000)[:3000]
    parts = parts_of(3000, 3, "random", rng=rng)
    for n in (1, 7, 1500, 3000):
        order = np.argsort(scrambled(number, 5), kind="stable")
        expected = np.sort(order[:n])
        by_worker = run(
            3, lambda w, n=n: parts[w.rank][drawn_rows(Data(number[parts[w.rank]], w), n, 5)]
        )
        assert np.array_equal(np.sort(np.concatenate(by_worker)), expected)
    assert len(np.unique(scrambled(np.arange(1 << 16), 3) >> np.uint64(60))) == 16


@pytest.mark.parametrize("params", [{}, {"subsample": 0.5, "min_samples_leaf": 3}], ids=str)
@pytest.mark.parametrize("m", [300, 9000])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(3)
def test_numbered_rows_give_the_same_model_in_any_order(cls, m, params):
    X, y = rows(m)
    rng = np.random.default_rng(9)
    weight = None if params else rng.exponential(size=m)
    order = rng.permutation(m)
    params = {"n_estimators": 3, "random_state": 0, **params}
    first = cls(**params).fit(X, y, weight, comm=Alone())
    its = None if weight is None else weight[order]
    other = cls(**params).fit(X[order], y[order], its, comm=numbered(Alone(), order))
    assert first.model_.to_bytes() == other.model_.to_bytes()


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_in_parts_are_those_of_the_twin(weighted, real):
    """Each term is cut into whole numbers by itself."""
    rng = np.random.default_rng(10)
    m = 5000
    K = 3
    weight = 10.0 ** rng.uniform(-9, 0, m) if weighted else np.zeros(0)
    starts, own = pairwise_weights.chunks(np.array([0, 7, 7, m]), class_loss.ROWS)
    F = rng.normal(size=(K, m)) * 10.0 ** rng.uniform(-1, 1.5, m)
    S = np.empty((K, m), dtype=real)
    units = units_in_parts(1.001, m)
    sums = np.empty((len(own), K, 2, 2), dtype=np.int64)
    class_loss.softmax(F, starts, own, weight=weight, S=S, magic=units[1], sums=sums, n_threads=2)
    s = S.astype(np.float64)
    x = s * weight if weighted else s
    expected = np.empty((K, 2, 2), dtype=np.int64)
    for j, terms in enumerate((x, x * (1 - s))):
        first = np.rint(terms / units[0, 0])
        second = np.rint((terms - first * units[0, 0]) / units[0, 1])
        expected[:, j, 0], expected[:, j, 1] = (
            first.astype(np.int64).sum(axis=1),
            second.astype(np.int64).sum(axis=1),
        )
    assert np.array_equal(sums.sum(axis=0), expected)
    np.testing.assert_allclose(of_parts(sums.sum(axis=0), units)[:, 0], x.sum(axis=1), rtol=1e-12)


def test_models_that_rounds_are_added_to():
    X, y = rows(900)
    parts = parts_of(len(y), 3, "empty", rng=None)
    params = {"n_estimators": 3, "random_state": 0}
    begun = LogitBoostClassifier(**params).fit(X, y)
    single_model = LogitBoostClassifier(**params).fit(X, y, init_model=begun)

    def task(workers):
        part = parts[workers.rank]
        return (
            LogitBoostClassifier(**params)
            .fit(X[part], y[part], comm=workers, init_model=begun)
            .model_.to_bytes()
        )

    assert set(run(3, task)) == {single_model.model_.to_bytes()}


WIDE = {
    "plain": {},
    "ties in one tile": {"max_leaf_nodes": 20},
    "draws": {"subsample": 0.7, "max_features": 0.3, "max_features_tree": 0.7},
    "bounded": {"min_samples_leaf": 20, "max_leaf_nodes": 20},
    "bundles": {"max_leaf_nodes": 10},
    "categories": {"categorical_features": [0, 18, 19, 37], "min_samples_category": 3},
    "not kept": {"max_leaf_nodes": 10},
    "three trees in step": {"max_leaf_nodes": 10},
}


def wide_rows(how, m=8200):
    """Rows with 44 columns, in three tiles or more. Equal ones are a tie, within a tile or in several."""
    X, y = rows(m)
    rng = np.random.default_rng(1)
    X = np.hstack(
        [
            X[:, [j % 6]] if how == "ties in one tile" else X[:, [j // 8]] + (j % 3)
            for j in range(44)
        ]
    )
    if how == "bundles":
        X = np.hstack([X, np.arange(30) == rng.integers(0, 40, (m, 1))])
    if how == "categories":
        X[:, [0, 18, 19, 37]] = rng.integers(0, [3, 70, 200, 9], (m, 4)) + 2 * y[:, None] * (
            rng.random((m, 1)) < 0.3
        )
    return X.astype(np.float32), y


@pytest.mark.parametrize("how", WIDE)
@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(19)
def test_shares_of_the_features_do_not_change_the_model(cls, size, how, monkeypatch):
    """Eight workers have fewer tiles in a tree than workers."""
    monkeypatch.setattr(ThreadWorkers, "scattered", 0)
    X, y = wide_rows(how)
    if how == "not kept":
        monkeypatch.setattr(tree_data, "POOL_BYTES", 0)
    if how == "three trees in step":
        monkeypatch.setattr(class_trees, "TOGETHER", 3)
    parts = parts_of(len(y), size, "random", rng=np.random.default_rng(2))
    single_model = check_workers_agree(
        cls, X, y, parts=parts, n_estimators=2, threads=1 + size % 2, **WIDE[how]
    )
    assert not WIDE[how].get("categorical_features") or single_model.model_.ensemble.subset.any()


def test_more_workers_than_shares():
    """One tree on one column: one worker scans, and seven have no share."""
    X, y = rows(8200)
    parts = parts_of(len(y), 8, "one row", rng=np.random.default_rng(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadWorkers, "scattered", 0)
        patch.setattr(class_trees, "TOGETHER", 1)
        check_workers_agree(LogitBoostClassifier, X[:, :1], y, parts=parts, max_leaf_nodes=20)


@pytest.mark.parametrize("columns", [6, 40])
@pytest.mark.parametrize("scattered", [False, True])
def test_sums_are_those_of_the_formulas(scattered, columns, monkeypatch):
    """See docs/scaling.md."""
    X = np.random.default_rng(0).normal(size=(12_000, columns)).astype(np.float32)
    y = more_classes(np.zeros(len(X), dtype=int), 4)  # every tree has all leaves
    J = 16
    K = 4
    tiles = -(-columns // 16)
    C = 16 * 256 * tiles
    monkeypatch.setattr(ThreadWorkers, "scattered", 8 * C * K + (not scattered))

    model = LogitBoostClassifier(n_estimators=4, max_leaf_nodes=J, random_state=0, n_jobs=1)
    sums, sent = sums_of_rounds(model, X, y)[0].T
    assert (sums == (3 * J if scattered else 2 * J + 1)).all()
    own = 32 * K + 8 * K * (J - 1) + 48 * K * J + 32 * (K + 1)
    histograms = 8 * C * K * (J - 1)
    if not scattered:
        assert (sent == histograms + own).all()
    else:  # the last two children are not searched, nor are those too small to be split
        assert (sent <= histograms // 2 + 80 * tiles * K * (J - 1) + own).all()
        assert (sent > histograms // 2 + 40 * tiles * K * (J - 1) + own).all()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"warm_start": True}, "warm_start works only with one worker"),
    ],
)
def test_what_is_refused(params, words):
    X, y = rows(200)
    by_worker = run(2, lambda w: ABCLogitBoostClassifier(**params).fit(X, y, comm=w))
    error = min(by_worker, key=lambda one: isinstance(one, WorkerError))
    with pytest.raises(ValueError, match=words):
        raise error


def test_error_of_one_worker_is_one_of_all():
    X, y = rows(200)

    def task(workers):
        own = X.copy()
        own[3, 2] = np.inf if workers.rank else 0
        LogitBoostClassifier().fit(own, y, comm=workers)

    first, second = run(2, task)
    assert isinstance(first, WorkerError)
    assert "column 2: inf is infinite" in str(first)
    assert isinstance(second, ValueError)
