"""Vector trees: neither the order nor the division of the rows changes a byte, and exact sums keep their digits."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from divided.threads import numbered
from reference import vtrees as twin

from pymcboost import VectorTreeBoostClassifier
from pymcboost._kernels import exact
from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.comm import ALONE, Alone
from pymcboost.data.rows import TrainingRows
from pymcboost.data.tree_data import TreeData
from pymcboost.learners.vector_trees import VectorTrees
from pymcboost.losses import loss_of
from pymcboost.losses.narrow import NarrowRows
from pymcboost.losses.rows import Rows
from pymcboost.model.temperature import fit_temperature
from pymcboost.training.metrics import LABEL_METRICS, METRICS, ValidationSet

M = 700


def focal(y, scores):
    """A loss in NumPy whose gradients have no bound that is known."""
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return 7 * p, np.abs(p) * (1 - np.abs(p)) + 1e-3


def trees_of(
    rows,
    X,
    y,
    *,
    K=3,
    loss="softmax",
    weight=None,
    labels=None,
    narrow=False,
    n_threads=1,
    **options,
):
    """Bytes of trees grown on these rows, in this order, with their numbers; and the training loss."""
    weight = np.ones(len(y)) if weight is None else weight
    data = TreeData(
        X[rows],
        y[rows],
        K,
        sample_weight=weight[rows],
        n_threads=n_threads,
        comm=numbered(Alone(), rows),
        exact=True,
        categorical=options.pop("categorical", ()),
    )
    if labels is not None:
        data.labels = np.ascontiguousarray(labels[rows][data.rows])
    its = loss_of(loss)
    at = (NarrowRows if narrow else Rows)(its, data, n_threads)
    at.start(its.first(data).astype(np.float32) if its.begins else None)
    settings = {
        "max_leaves": 12, "max_depth": None, "min_samples_leaf": 2, "max_features": 0.7, "leaf_step": "diagonal",
        "learning_rate": 0.3, "subsample": 0.5, "min_relative_gain": 0.1, **options,
    }  # fmt: skip
    grower = VectorTrees(data, at, n_threads=n_threads, **settings)
    trees = []
    for key in range(6):
        tree = grower.fit(key)
        if tree is None:
            break
        at.add(tree.value, tree.leaf)
        arrays = tree.feature, tree.threshold, tree.nan_left, tree.right, tree.gain, tree.value
        trees += [array.tobytes() for array in arrays] + [
            sorted((j, its.tolist()) for j, its in tree.sets.items())
        ]
    return trees, at.value() if isinstance(loss, str) and labels is None and not narrow else None


def blobs(K, m=M, seed=0, d=5):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    X = (rng.normal(size=(m, d)) + 1.5 * rng.normal(size=(K, d))[y]).astype(np.float32)
    X[rng.random((m, d)) < 0.05] = np.nan
    X[:, 0] = np.nan_to_num(np.rint(X[:, 0]))
    return rng, X, y


CASES = {
    "softmax": {},
    "full": {"leaf_step": "full"},
    "own": {"loss": focal},
    "columns": {"split_columns": 2},
    "narrow": {"split_columns": 2, "max_entries": 2, "narrow": True},
    "entries": {"max_entries": 2},
    "ridge": {"leaf_step": "full", "l2": 0.3, "split_columns": 1},
    "categories": {"categorical": (0,), "min_samples_category": 5, "split_columns": 3},
    "threads": {"n_threads": 3},
}


@pytest.mark.parametrize("weighted", ["none", "any", "far"])
@pytest.mark.parametrize(("K", "case"), [
    (K, case) for K in (2, 3, 20) for case in CASES if K > 2 or case not in ("columns", "narrow", "entries", "ridge")
])  # fmt: skip
@pytest.mark.part(4)
def test_numbered_rows_give_the_same_trees_in_any_order(case, K, weighted):
    rng, X, y = blobs(K)
    if case == "categories":
        X[:, 0] = np.abs(X[:, 0])
    weight = {"none": None, "any": rng.random(M) + 0.1, "far": 10.0 ** rng.uniform(-12, 12, M)}[
        weighted
    ]
    if weight is not None:
        weight[rng.random(M) < 0.1] = 0
    orders = np.arange(M), rng.permutation(M)
    first, second = (trees_of(rows, X, y, K=K, weight=weight, **CASES[case]) for rows in orders)
    assert len(first[0]) == 42 and first == second


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("split_columns", [None, 3])
def test_rows_of_labels_in_any_order(weighted, split_columns):
    rng, X, y = blobs(6)
    labels = (rng.random((M, 6)) < 0.2).astype(np.uint8)
    labels[np.arange(M), y] = 1
    weight = rng.random(M) + 0.1 if weighted else None
    options = {
        "K": 6,
        "loss": "logistic",
        "labels": labels,
        "weight": weight,
        "split_columns": split_columns,
    }
    orders = np.arange(M), rng.permutation(M)
    first, second = (trees_of(rows, X, np.zeros(M, dtype=int), **options) for rows in orders)
    assert len(first[0]) == 42 and first == second


def test_without_draws_the_numbers_do_not_matter():
    rng, X, y = blobs(5)
    weight = rng.random(M)
    rows = rng.permutation(M)
    first = trees_of(np.arange(M), X, y, K=5, weight=weight, subsample=1.0)
    assert first == trees_of(
        np.arange(M), X[rows], y[rows], K=5, weight=weight[rows], subsample=1.0
    )
    assert first[0] != trees_of(np.arange(M), X[rows], y[rows], K=5, weight=weight[rows])[0]


@pytest.mark.parametrize("params", [
    {}, {"class_weight": "balanced"}, {"split_columns": 2, "max_leaf_entries": 2},
    {"min_samples_leaf": 3.5}, {"early_stopping": True}, {"monotonic_cst": {1: (2, 1)}},
])  # fmt: skip
def test_models_of_rows_in_any_order(params):
    """Where nothing is drawn, the estimator says the same of shuffled rows and validation rows."""
    rng, X, y = blobs(4)
    weight = rng.random(M)
    models = []
    for rows in np.arange(M), rng.permutation(M):
        model = VectorTreeBoostClassifier(
            n_estimators=8, subsample=1.0, calibrate=None, random_state=0, **params
        )
        model.fit(
            X[rows], y[rows], sample_weight=weight[rows], X_val=X[rows[::3]], y_val=y[rows[::3]]
        )
        models.append(model.model_.with_meta({}).to_bytes())
    assert models[0] == models[1]


class Threads:
    """Communicator of workers that are threads."""

    beside = 1
    row_number = None

    def __init__(self, size):
        self.size = size
        self._all = [None] * size
        self._wait = threading.Barrier(size)
        self._rank = threading.local()

    def run(self, work):
        """What ``work`` gives for every rank."""
        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(lambda rank: self._run(work, rank), range(self.size)))

    def _run(self, work, rank):
        self._rank.number = rank
        try:
            return work(rank)
        except BaseException:
            self._wait.abort()
            raise

    @property
    def rank(self):
        return self._rank.number

    def _exchanged(self, what):
        self._all[self.rank] = what
        self._wait.wait()
        found = list(self._all)
        self._wait.wait()
        return found

    def sum(self, array, sure=False):
        array[...] = sum(part.copy() for part in self._exchanged(array.copy()))
        return array

    def maximum(self, array):
        array[...] = np.max(self._exchanged(array.copy()), axis=0)
        return array

    def concatenate(self, array):
        return np.concatenate(self._exchanged(array.copy()))

    def broadcast(self, what):
        return self._exchanged(what)[0]


class Plain(TreeData):
    """Rows whose features are not looked at."""

    def __init__(self, *args, **options):
        TrainingRows.__init__(self, *args, **options)

    def store_bytes(self, X, n_threads):
        return 0


class Begun:
    """An own loss with a start that sums up."""

    def start(self, y, weight, n_classes):
        return np.log(1 + np.bincount(y, weight, n_classes)) + np.cumsum(weight)[-1] * 1e-3

    def gradient_hessian(self, y, scores):
        return focal(y, scores)

    link = value = None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "full", "columns"), [
    ("softmax", False, None), ("softmax", True, 2), ("logistic", False, None), ("logistic", False, 2),
    (Begun(), False, 2), ("narrow", False, 2),
])  # fmt: skip
def test_workers_have_the_integers_and_leaves_of_one(loss, full, columns, weighted):
    """Also one without rows, one with a row, and one with rows of one class."""
    K = 5
    rng, X, y = blobs(K)
    weight = 10.0 ** rng.uniform(-3, 3, M) if weighted else np.full(M, 3.0)
    labels = (rng.random((M, K)) < 0.3).astype(np.uint8)
    scores = 4 * rng.normal(size=(M, K))
    leaf = np.arange(M) % 7
    scores[leaf == 3, 0] -= 60
    value = rng.normal(size=(7, K)).astype(np.float32)

    def at_work(comm, rows):
        data = Plain(X[rows], y[rows], K, weight[rows], comm=comm, exact=True)
        data.row_number = rows[data.rows]
        if loss == "logistic":
            data.labels = np.ascontiguousarray(labels[rows][data.rows])
        its = loss_of("softmax" if loss == "narrow" else loss)
        at = (NarrowRows if loss == "narrow" else Rows)(its, data, 1)
        first = its.first(data) if its.begins else np.zeros(K)
        at.start(scores[data.row_number] + first)
        new = np.zeros((7, at.width))
        new[:, :K] = value
        at.add(new, leaf[data.row_number].astype(np.int32))
        on = at if columns is None else at.directions(columns)
        A = on.integers(11)
        here = leaf[data.row_number]
        order = np.argsort(here, kind="stable").astype(np.int32)
        start = np.searchsorted(np.sort(here), np.arange(8))
        actual = (
            at.leaf_steps(order, start.astype(np.int64), full, 0.1),
            at.mean_square(),
            on.gain_unit,
            first,
        )
        return (
            data.row_number,
            np.concatenate(list(A), axis=1),
            actual,
            data.least_weight,
            at.least(2.5),
        )

    number, A, actual, *rest = at_work(ALONE, np.arange(M))
    expected = np.empty_like(A)
    expected[number] = A
    place = rng.permutation(M)
    one_class = np.flatnonzero(y == 2)
    others = np.setdiff1d(place, one_class)
    parts = np.zeros(0, dtype=np.int64), one_class, others[:1], others[1:200], others[200:]
    comm = Threads(len(parts))
    for its_number, its_A, its_found, *its_rest in comm.run(
        lambda rank: at_work(comm, parts[rank])
    ):
        np.testing.assert_array_equal(its_A, expected[its_number])
        for one, other in zip(its_found, actual, strict=True):
            np.testing.assert_array_equal(one, other)
        assert its_rest == rest


def test_the_sums_of_parts_are_those_of_all():
    """In kernels: integers by any division of the rows, and the twin's."""
    rng = np.random.default_rng(1)
    m = 5000
    K = 5
    lanes = 8
    width = 8
    G = aligned_zeros((m, width), np.float32)
    G[:, :K] = rng.normal(size=(m, K)) * 10.0 ** rng.uniform(-20, 0, (m, K))
    y = np.sort(rng.integers(0, K, m)).astype(np.int32)
    weight = 10.0 ** rng.uniform(-6, 6, m)
    rows = np.arange(m, dtype=np.int32)
    cut = np.array([0, 17, 17, 900, m])
    whole = np.array([0, m], dtype=np.int64)
    for w in (np.zeros(0), weight):
        its = w[:, None] if len(w) else 1.0
        bounds = _vector_loss.leaf_bounds(G, lanes, rows, leaf_start=whole, n_threads=1)
        np.testing.assert_array_equal(bounds[0], np.abs(G).max(axis=0))
        if len(w):
            actual = _vector_loss.leaf_weights(w, rows, np.array(sorted(cut)))
            np.testing.assert_array_equal(actual, [w[:17].max(), 0, w[17:900].max(), w[900:].max()])
            bounds = 1.001 * bounds * w.max()
        units = exact.units_of(bounds, np.array([[m]]))
        parts = [
            _vector_loss.leaf_sums(
                G,
                w,
                lanes,
                rows=rows,
                leaf_start=np.array([a, b]),
                magic=exact.magic_of(units),
                n_threads=1,
            )[0]
            for a, b in zip(cut[:-1], cut[1:], strict=True)
        ]
        size = np.abs(G)
        curved = (size * (1 - size)).astype(np.float64)
        expected = [twin.in_units(its * x, units[0]) for x in (G.astype(np.float64), curved)]
        np.testing.assert_array_equal(sum(parts)[:, :K], np.array(expected)[:, :K])
        magic = exact.magic_of(exact.unit_of(bounds.max(), m))
        tables = np.zeros((5, K + 1, width), dtype=np.int64)
        for j, (a, b) in enumerate([(0, m), *zip(cut[:-1], cut[1:], strict=True)]):
            _vector_loss.leaf_hessian(
                G, w, y, lanes=lanes, magic=magic, rows=rows, start=a, stop=b, out=tables[j]
            )
        np.testing.assert_array_equal(tables[0], tables[1:].sum(axis=0))


def test_a_hessian_is_that_of_the_twin():
    rng = np.random.default_rng(2)
    m = 60
    K = 3
    width = 4
    p = rng.dirichlet(np.ones(K), m).astype(np.float32)
    y = np.sort(rng.integers(0, K, m)).astype(np.int32)
    G = aligned_zeros((m, width), np.float32)
    G[:, :K] = -p
    G[np.arange(m), y] = 1 - p[np.arange(m), y]
    unit = exact.unit_of(1.001, m)
    out = np.zeros((K + 1, width), dtype=np.int64)
    _vector_loss.leaf_hessian(
        G,
        np.zeros(0),
        y,
        lanes=width,
        magic=exact.magic_of(unit),
        rows=np.arange(m, dtype=np.int32),
        start=0,
        stop=m,
        out=out,
    )
    q = np.abs(G[:, :K], dtype=np.float64)
    q[np.arange(m), y] = 1 - q[np.arange(m), y]
    terms = -q[:, :, None] * q[:, None, :]
    terms[:, np.arange(K), np.arange(K)] = q * (1 - q)
    np.testing.assert_array_equal(out[:K, :K], twin.in_units(terms, unit))
    np.testing.assert_array_equal(out[K, :K], twin.in_units(G[:, :K], unit))


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e-30])
def test_small_gradients_keep_their_digits(size):
    """Sums of leaves and of squares, whatever the size of the gradients next to their bound."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 400)
    data = TreeData(rng.normal(size=(400, 1)), y, 3, sample_weight=np.ones(400), exact=True)
    rows = loss_of("softmax").rows(data, 1)
    rows.start()
    rows.gradient[:, :3] = size * rng.uniform(0.1, 0.5, (400, 3))
    order = np.arange(400, dtype=np.int32)
    start = np.array([0, 1, 150, 400])
    G = rows.gradient[:, :3].astype(np.float64)
    expected = np.add.reduceat(G, start[:-1]), np.add.reduceat(G * (1 - G), start[:-1])
    actual = rows.leaf_sums(order, start)
    digits = (
        2.0**-16 if size == 1e-9 else 1e-12
    )  # sums in the units of the bound are just good enough
    np.testing.assert_allclose(actual[:, 0], expected[0], rtol=digits)
    np.testing.assert_allclose(actual[:, 1], expected[1], rtol=max(digits, 1e-6))
    np.testing.assert_allclose(rows.mean_square(), (G**2).sum() / 400, rtol=1e-3)


def test_weights_far_apart_leave_something_to_learn():
    """One row of most of the weight, learnt long ago: the sums of the others are not rounded away."""
    rng = np.random.default_rng(4)
    m = 3000
    K = 3
    y = rng.integers(0, K, m)
    weight = np.ones(m)
    weight[0] = 2.0**38
    data = TreeData(rng.normal(size=(m, 1)), y, K, sample_weight=weight, exact=True)
    rows = loss_of("softmax").rows(data, 1)
    scores = np.zeros((m, K))
    heavy = int(data.weight.argmax())
    scores[heavy, data.y[heavy]] = 200.0
    rows.start(scores)
    A = rows.integers()
    top = np.abs(np.concatenate(list(A), axis=1)[:, :K].astype(np.int64)).sum(axis=0).max()
    assert 2.0**29 < top < 2.0**31
    assert heavy == np.flatnonzero(data.weight > 1)[0]


@pytest.mark.parametrize("spread", [0, 3, 300])
@pytest.mark.parametrize("m", [1, 2, 1000])
def test_weights_on_a_grid(m, spread):
    rng = np.random.default_rng(m)
    weight = 10.0 ** rng.uniform(-spread, spread / 2, m)
    data = TreeData(np.zeros((m, 1)), np.arange(m) % 2, 2, sample_weight=weight, exact=True)
    its = data.weight
    total = its.sum()
    for _ in range(3):
        assert rng.permutation(its).sum() == total == np.cumsum(rng.permutation(its))[-1]
    assert (its > 0).all() and 2.0**-11 < its.mean() < 2.0**11
    near = weight > weight.max() * 1e-6
    np.testing.assert_allclose(
        its[near[data.rows]] / data.weight_unit, weight[data.rows][near[data.rows]], rtol=1e-5
    )


def test_whole_weights_stay():
    times = np.arange(1, 50)
    np.testing.assert_array_equal(
        TreeData(
            np.zeros((49, 1)), times % 2, 2, sample_weight=times * 1.0, exact=True
        ).weight.sum(),
        1225,
    )
    with pytest.raises(ValueError, match="overflows"):
        TreeData(
            np.zeros((2, 1)), np.arange(2), 2, sample_weight=np.array([1.0, np.inf]), exact=True
        )


def test_units():
    for bound in (1e-300, 0.3, 1.0, 1.5, 1e200):
        for n in (1, 2047, 2048, 10**6, 10**10):
            unit = exact.unit_of(bound, n)
            assert bound / unit < 2.0**51 and n * (bound / unit) < 2.0**62
            assert bound / unit >= 2.0**50 or n * (bound / unit) >= 2.0**60
            assert unit == exact.units_of(np.array([bound]), np.array([n]))[0]
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * 10.0 ** rng.uniform(-12, 12, 1000)
    assert exact.total(values) == exact.total(values[::-1]) == exact.total(rng.permutation(values))
    np.testing.assert_allclose(exact.total(values), values.sum(), rtol=1e-12)
    assert exact.total([]) == exact.total(np.zeros(3)) == 0
    top, error = exact.refined(ALONE, lambda magic: np.zeros(2, dtype=np.int64), 10, unit=1.0)
    assert top == 0 and error <= 1e-300


@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_and_the_temperature_do_not_depend_on_the_order(weighted):
    rng = np.random.default_rng(5)
    m = 997
    K = 4
    scores = 3 * rng.normal(size=(m, K))
    codes = rng.integers(-1, K, m)
    labels = (rng.random((m, K)) < 0.3).astype(np.uint8)
    weight = rng.random(m) if weighted else np.ones(m)
    found = []
    for order in (np.arange(m), rng.permutation(m), np.arange(m)[::-1]):
        one = ValidationSet.of("val", None, codes[order], codes[order], weight[order])
        some = ValidationSet.of("val", None, labels[order], labels[order], weight[order])
        values = [metric(scores[order], one, "softmax") for metric in METRICS.values()]
        values += [metric(scores[order], some, "sigmoid") for metric in LABEL_METRICS.values()]
        inside = order[codes[order] >= 0]
        values.append(fit_temperature(scores[inside], codes[inside], weight[inside]))
        found.append(values)
    assert found[0] == found[1] == found[2]
