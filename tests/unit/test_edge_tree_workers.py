"""Trees of outputs -1 and +1 on rows that are divided: the model of one worker."""

import numpy as np
import pytest
from divided.threads import ThreadWorkers, numbered, one_model, run, sums_of_rounds
from unit.test_class_workers import by_class, wide_rows
from unit.test_divided_checkpoints import divided, killed
from unit.test_sparse_workers import sparse_rows
from unit.test_stump_workers import ALL
from unit.test_workers import more_classes, parts_of, rows

from pymcboost import Dataset, MCBoostClassifier, VectorTreeBoostClassifier
from pymcboost._kernels import classwise_trees as _trees
from pymcboost.comm import Alone
from pymcboost.data import tree_data
from pymcboost.learners import class_trees
from pymcboost.learners.edge_trees import _EdgeTrees, sizes_of

TREES = {"weak_learner": "tree", "max_leaf_nodes": 7}
KINDS = {
    "trees": TREES,
    "categories": {"categorical_features": [1, 2]},
    "trees on categories": {"categorical_features": [1, 2], **TREES},
}


def coded_rows(m, seed=0):
    """Columns 1 and 2 can be categories."""
    X, y = rows(m, seed=seed)
    X[:, 1] = np.abs(X[:, 1])
    X[:, 2] = np.random.default_rng(seed).integers(0, 12, m)
    y[X[:, 2] == 7] = 0
    return X, y


def division(y, size, how, seed=0):
    return (
        by_class(y, size)
        if how == "by class"
        else parts_of(len(y), size, how, rng=np.random.default_rng(seed))
    )


def check_workers_agree(X, y, parts, weight=None, name="mcboost", **params):
    """The workers' models are those of one worker."""
    cls, options = ALL[name]
    params = {"n_estimators": 5, "random_state": 0, **options, **params}
    return one_model(cls, X, y, parts=parts, weight=weight, comm=Alone(), **params)


@pytest.mark.parametrize("how", ["even", "random", "by class", "empty", "one row"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(7)
def test_division_of_the_rows_does_not_change_the_model(name, kind, how):
    for m, size, threads in ((300, 2, 1), (8200, 3, 2)):  # in double precision, and in single
        X, y = coded_rows(m)
        single_model = check_workers_agree(
            X, y, division(y, size, how), threads=threads, name=name, **KINDS[kind]
        )
        assert single_model.n_estimators_ > 3


@pytest.mark.parametrize("name", ALL)
def test_order_of_the_rows_does_not_change_the_model(name):
    X, y = coded_rows(3000)
    order = np.random.default_rng(0).permutation(len(y))
    cls, params = ALL[name]
    params = {"n_estimators": 5, "random_state": 0, **params, **KINDS["trees on categories"]}
    one, other = (
        cls(**params).fit(X[its], y[its], comm=numbered(Alone(), its))
        for its in (np.arange(len(y)), order)
    )
    assert one.model_.to_bytes() == other.model_.to_bytes()


@pytest.mark.parametrize("name", ALL)
def test_model_differs_from_that_without_a_communicator_in_rounding_alone(name):
    X, y = coded_rows(9000)
    X = np.nan_to_num(X)
    cls, params = ALL[name]
    params = {"n_estimators": 5, "random_state": 0, **params, **KINDS["trees on categories"]}
    one, other = (cls(**params).fit(X, y, comm=comm) for comm in (Alone(), None))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(2)
def test_more_rows_than_counts_of_24_bits_take(name, monkeypatch):
    X, y = coded_rows(3000)
    weight = np.random.default_rng(3).uniform(0.2, 3, len(y))
    cls, options = ALL[name]
    params = {**KINDS["trees on categories"], "min_weight_fraction_leaf": 0.01}
    fewer = cls(n_estimators=5, random_state=0, **options, **params).fit(X, y, weight, comm=Alone())
    monkeypatch.setattr(tree_data, "MANY_ROWS", 0)
    single_model = check_workers_agree(
        X, y, division(y, 3, "random"), weight=weight, name=name, **params
    )
    assert (single_model.predict(X) == fewer.predict(X)).mean() > 0.99


OPTIONS = {
    "loss": {"loss": "log"},
    "balanced": {"class_weight": "balanced"},
    "few bins": {"max_bins": 8, "max_depth": 2},
    "heavy sides": {"min_weight_fraction_leaf": 0.02},
    "all levels": {"categorical_features": [1, 2], "min_samples_category": 0},
    "wide codes": {"categorical_features": [3], "min_samples_category": 3},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    X, y = coded_rows(1400)
    X[:, 3] = np.arange(len(y)) % 500
    X[: len(X) // 2, 5] = np.nan
    check_workers_agree(X, y, division(y, 3, "random"), **TREES, **OPTIONS[name])


@pytest.mark.parametrize(
    "seeds", [range(6), pytest.param(range(6, 30), marks=pytest.mark.slow)], ids=["few", "more"]
)
@pytest.mark.parametrize("name", ALL)
def test_light_bins_of_few_rows_are_joined(name, seeds):
    X = np.array([[0, 0], [np.nan, np.nan], [1, 2], [1, 0], [0, 1], [3, 1], [2, 2]])
    y = np.array([0, 1, 0, 0, 1, 1, 0])
    weight = np.array([7, 7, 1, 7, 2, 0.3, 7])
    heavy = {
        "weak_learner": "tree",
        "n_estimators": 1,
        "min_weight_fraction_leaf": 0.01,
        "max_leaf_nodes": 2,
    }
    check_workers_agree(X, y, np.array_split(np.arange(7), 2), weight=weight, name=name, **heavy)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 8, (40, 2)).astype(float)
        y = rng.integers(0, 3, 40)
        weight = rng.choice([0.1, 1, 2, 7], 40)
        X[rng.random((40, 2)) < 0.1], y[:3] = np.nan, range(3)
        options = ({}, {"categorical_features": [1]}, {"max_bins": 5})[seed % 3]
        parts = np.array_split(np.arange(40), 2)
        check_workers_agree(
            X,
            y,
            parts,
            weight=weight,
            name=name,
            **{**heavy, "n_estimators": 2, "min_weight_fraction_leaf": 0.05},
            **options,
        )


@pytest.mark.parametrize("K", [2, 20])
def test_numbers_of_classes(K):
    X, y = coded_rows(2000)
    check_workers_agree(X, more_classes(y, K), division(y, 3, "random"), n_estimators=3, **TREES)


@pytest.mark.parametrize("kind", ["with zeros", "huge"])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(2)
def test_weights(name, kind):
    X, y = coded_rows(2500)
    rng = np.random.default_rng(4)
    weight = (
        rng.uniform(0, 5, len(y)) * (rng.random(len(y)) < 0.8)
        if kind == "with zeros"
        else np.exp(rng.normal(0, 8, len(y)))
    )
    parts = division(y, 3, "random")
    weight[parts[2]] *= kind == "huge"  # or one worker has no row in use
    check_workers_agree(X, y, parts, weight=weight, name=name, **KINDS["trees on categories"])


def test_trees_that_no_single_split_begins(monkeypatch):
    """One class has most rows on either side of every split: trees are split by the Gini impurity."""
    begun = []
    new = _EdgeTrees._new_grower
    monkeypatch.setattr(
        _EdgeTrees, "_new_grower", lambda self, gini: begun.append(gini) or new(self, gini)
    )
    X = np.random.default_rng(0).integers(0, 4, (900, 2)).astype(float)
    y = ((X[:, 0] > 1) & (X[:, 1] > 1) & (np.arange(900) % 5 > 1)).astype(int)
    check_workers_agree(
        X, y, division(y, 3, "random"), n_estimators=1, weak_learner="tree", max_leaf_nodes=2
    )
    assert True in begun


@pytest.mark.parametrize("bound", ["STEP_BYTES", "TOGETHER"])
def test_few_trees_at_a_time(bound, monkeypatch):
    monkeypatch.setattr(class_trees, bound, {"STEP_BYTES": 1, "TOGETHER": 3}[bound])
    X, y = coded_rows(2000)
    check_workers_agree(X, more_classes(y, 7), division(y, 2, "even"), n_estimators=2, **TREES)


def test_histograms_that_are_not_kept(monkeypatch):
    monkeypatch.setattr("pymcboost.data.tree_data.POOL_BYTES", 1)
    X, y = coded_rows(2000)
    check_workers_agree(X, y, division(y, 3, "random"), **TREES)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(2)
def test_sparse_rows(name):
    for m in (300, 8200):
        X, y = sparse_rows(m)
        check_workers_agree(X, y, division(y, 3, "random"), name=name, **TREES)


def test_rows_in_blocks():
    X, y = coded_rows(3000)
    X = X.astype(np.float32)
    params = {"n_estimators": 4, "random_state": 0, "categorical_features": [2], **TREES}

    def task(workers):
        own = slice(workers.rank, None, workers.size)
        blocks = [
            (X[own][at : at + 400], y[own][at : at + 400]) for at in range(0, len(y[own]), 400)
        ]
        comm = numbered(workers, np.arange(len(y))[own])
        data = Dataset.from_blocks(blocks, categorical_features=[2], comm=comm)
        return MCBoostClassifier(**params).fit(data).model_.to_bytes()

    assert {*run(3, task), task(Alone())} == {
        MCBoostClassifier(**params).fit(X, y, comm=Alone()).model_.to_bytes()
    }


def test_checkpoints_go_on_with_other_workers(tmp_path, monkeypatch):
    cls = MCBoostClassifier
    monkeypatch.setattr(cls.booster, "restart_every", 2)  # its checkpoints are written there
    X, y = coded_rows(900)
    options = {"categorical_features": [1], **TREES}
    params = {"n_estimators": 9, "random_state": 0, "n_jobs": 1, **options}
    uninterrupted_bytes = cls(**params).fit(X, y, comm=Alone()).model_.to_bytes()
    killed(tmp_path / "m.part", cls, X, y=y, parts=division(y, 3, "random"), **options)
    resumed = divided(tmp_path / "m.part", cls, X, y=y, parts=division(y, 2, "by class"), **options)
    assert [its for its, _ in resumed] == [uninterrupted_bytes] * 2
    assert {rounds for _, rounds in resumed} in (
        {2},
        {4},
    )  # the first worker may not have come to the second


@pytest.mark.parametrize("how", ["plain", "ties in one tile", "bundles", "categories"])
@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(9)
def test_shares_of_the_features_do_not_change_the_model(name, size, how, monkeypatch):
    monkeypatch.setattr(ThreadWorkers, "scattered", 0)
    X, y = wide_rows(how, 1500)
    categories = {"categorical_features": [0, 18, 19, 37]} if how == "categories" else {}
    check_workers_agree(
        X, y, division(y, size, "random"), name=name, n_estimators=2, **TREES, **categories
    )


@pytest.mark.parametrize("scattered", [False, True])
def test_sums_are_those_of_the_formulas(scattered, monkeypatch):
    """See docs/scaling.md."""
    X, y = rows(12_000)
    X[np.isnan(X)] = 0
    y = more_classes(y, 4)  # every tree has all leaves
    J = 16
    K = 4
    d = 6
    B = 256
    monkeypatch.setattr(ThreadWorkers, "scattered", 0 if scattered else np.inf)

    model = MCBoostClassifier(n_estimators=4, weak_learner="tree", max_leaf_nodes=J, n_jobs=1)
    sums, sent = sums_of_rounds(model, X, y)[0].T
    assert (sums == 2 + 1 + (2 + scattered) * (J - 1) + 1).all()
    own = 24 * K + 32 * K + 8 * K * (J - 1) + 16 * K * K + 80 * scattered * K * (J - 1)
    assert (sent <= K * (J - 1) * (8 >> scattered) * 16 * B + own).all()
    assert (sent >= K * (J - 1) * (8 >> scattered) * d * B).all()


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_sizes_of_columns(real):
    """Against NumPy: largest sizes, sums in units, rows with any."""
    rng = np.random.default_rng(0)
    P = 6
    lanes = 4
    m = 3000
    A = (rng.normal(size=(2, m, lanes)) * 10.0 ** rng.uniform(-8, 3, (2, 1, lanes))).astype(real)
    A[:, rng.random(m) < 0.3] = 0
    A[0, :, 2] = 0
    columns = np.abs(A.transpose(0, 2, 1).reshape(2 * lanes, m)[:P]).astype(np.float64)
    top = np.zeros(P)
    sums = np.zeros((2, P), dtype=np.int64)
    _trees.edge_tops(A, top, 2)
    assert np.array_equal(top, columns.max(axis=1))
    unit = 2.0 ** np.arange(-30, -30 + P)
    _trees.edge_sizes(A, unit, sums, n_threads=2)
    assert np.array_equal(
        sums[0], np.floor(columns / unit[:, None] + 0.5).astype(np.int64).sum(axis=1)
    )
    assert np.array_equal(sums[1], (columns > 0).sum(axis=1))

    class Data:
        comm = Alone()
        total_rows = m

    size, bound, there = sizes_of(Data, A, P, n_threads=1)
    np.testing.assert_allclose(size, columns.sum(axis=1), rtol=1e-12)
    assert (bound >= columns.sum(axis=1)).all()
    assert np.array_equal(there, sums[1])


LABELS = {
    "an indicator": lambda Y: Y,
    "lists of text": lambda Y: [tuple("abcde"[k] for k in np.flatnonzero(row)) for row in Y],
    "lists of numbers": lambda Y: [tuple((7 * np.flatnonzero(row) - 3).tolist()) for row in Y],
}


def labelled(m=600, seed=0):
    """Rows with none to five labels; the last label and some sets of labels are those of the last rows alone."""
    X, _ = coded_rows(m)
    Y = (np.nan_to_num(X[:, [0, 3, 4, 5, 3]]) > [0.3, 0.5, 0.8, -0.3, 1]).astype(int)
    Y[: 2 * m // 3, 4] = 0
    return X, Y


@pytest.mark.parametrize("form", LABELS)
def test_any_number_of_labels(form):
    X, Y = labelled()
    make = LABELS[form]
    params = {"n_estimators": 5, "random_state": 0, "n_jobs": 1, "decision_threshold": "f1"}
    params |= {"loss": "logistic", "calibrate": None}
    held = {"X_val": X[::9], "y_val": make(Y[::9])}

    def fit(part, comm):
        options = held if comm.rank == 0 else {}
        model = VectorTreeBoostClassifier(**params).fit(
            X[part], make(Y[part]), comm=numbered(comm, part), **options
        )
        return model.model_.to_bytes(), model.classes_.tolist()

    single_model = fit(np.arange(len(X)), Alone())
    for how in ("by class", "empty"):
        parts = division(Y[:, 0], 3, how)
        assert run(len(parts), lambda workers, parts=parts: fit(parts[workers.rank], workers)) == [
            single_model
        ] * len(parts)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ("an indicator", "lists of labels on some workers and an indicator"),
        ("lists of numbers", "text labels"),
    ],
)
def test_labels_of_different_forms_are_refused(others, words):
    X, Y = labelled()

    def task(workers):
        y = LABELS["lists of text" if workers.rank else others](Y)
        return VectorTreeBoostClassifier(loss="logistic", calibrate=None).fit(X, y, comm=workers)

    assert all(words in str(one) for one in run(2, task))
