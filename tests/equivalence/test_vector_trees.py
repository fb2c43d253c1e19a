"""Trees with vector leaves: the kernel against its twin bit for bit, losses against numerical derivatives."""

import numpy as np
import pytest
import scipy.sparse
from reference import vtrees as twin

from pymcboost import VectorTreeBoostClassifier
from pymcboost._kernels import exact
from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost._kernels import vector_trees as _vector_trees
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import magic_of, unit_of
from pymcboost.callbacks import Callback
from pymcboost.data import tree_layouts
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import vector_trees
from pymcboost.learners.draws import drawn_of, share_of
from pymcboost.learners.reuse import Reuse
from pymcboost.learners.vector_trees import VectorTrees
from pymcboost.losses import LOSSES
from pymcboost.losses.narrow import NarrowRows
from pymcboost.losses.rows import Directions, row_layout
from pymcboost.training.training_set import TrainingSet


def features(kind, rng, m):
    """Columns of one kind, (m, 5 or more)."""
    return _features(kind, rng, m).astype(np.float64)


def _features(kind, rng, m):
    if kind == "continuous":
        return rng.normal(size=(m, 7))
    if kind == "ties":
        return rng.integers(0, [2, 3, 5, 9, 40], (m, 5))
    if kind == "repeated":  # equal, mirrored and constant columns: their splits tie
        x = rng.integers(0, 6, (m, 2))
        return np.hstack([x, np.full((m, 1), 3), x, -x, 2 * x])
    if kind == "missing":
        X = rng.integers(0, 20, (m, 6)).astype(float)
        X[rng.random((m, 6)) < [0.0, 0.1, 0.5, 0.95, 0.3, 0.3]] = np.nan
        X[:, 5] = np.nan
        return X
    if kind == "exclusive":  # columns that share a lane
        X = np.zeros((m, 12))
        X[np.arange(m), rng.integers(0, 12, m)] = rng.integers(1, 5, m)
        X[rng.random(m) < 0.3] = 0
        X[:, 3] -= 2.0 * (X[:, 3] > 2)  # a mode that is not the lowest value
        X[:, 4] = -X[:, 4]
        X[rng.random(m) < 0.02, 5] = np.nan
        return np.hstack([X, rng.normal(size=(m, 2))])
    if kind == "skewed":
        return np.where(rng.random((m, 6)) < 0.85, 7.0, rng.integers(0, 30, (m, 6)))
    raise AssertionError(kind)


KINDS = ["continuous", "ties", "repeated", "missing", "exclusive", "skewed"]


def bins_of(data, X):
    """Bins of the training rows, for every usable feature, from the thresholds alone."""
    X = (X.toarray() if scipy.sparse.issparse(X) else np.asarray(X))[data.rows].astype(np.float32)
    bins = []
    for f, column in enumerate(data.column):
        cuts = data.columns.threshold[data.columns.threshold_ptr[f] :][: data.columns.n_bins[f] - 1]
        b = np.searchsorted(cuts, X[:, column], side="left")
        bins.append(np.where(np.isnan(X[:, column]), data.columns.n_bins[f], b))
    return np.array(bins).reshape(len(bins), data.n_rows)


def learner(data, name, *, n_threads=1, rng=None, **options):
    loss = LOSSES[name].rows(data, n_threads)
    loss.start(None if rng is None else rng.normal(size=(data.n_rows, data.n_classes)))
    settings = {
        "max_leaves": 12, "max_depth": None, "min_samples_leaf": 2, "max_features": 0.5, "leaf_step": "diagonal",
        "learning_rate": 0.1,
    }  # fmt: skip
    return loss, VectorTrees(data, loss, n_threads=n_threads, **{**settings, **options})


def grown(data, loss, trees, key):
    """(splits as the twin gives them, leaf of every row) and the integers they came from, (m, width)."""
    on = trees._searched
    A = on.integers(key)
    least, mean = (bound / on.gain_unit for bound in trees._gain_bounds())
    cost = trees._level_cost() / on.gain_unit
    tree = trees._grower.grow(A, key, least, cost, on.row_error, on.rows_per_weight, mean)
    feature, pos, nan_left, right, gain, rows, leaf_start, leaf, sets = tree
    pos = [
        frozenset(np.flatnonzero(sets[j]).tolist()) if j in sets else p
        for j, p in enumerate(pos.tolist())
    ]
    splits = list(
        zip(feature.tolist(), pos, nan_left.tolist(), right.tolist(), gain.tolist(), strict=True)
    )
    for j in range(len(leaf_start) - 1):
        np.testing.assert_array_equal(
            rows[leaf_start[j] : leaf_start[j + 1]], np.flatnonzero(leaf == j)
        )
    return splits, leaf.copy(), np.concatenate(list(A), axis=1)


def gain_bounds(loss, settings):
    """What splits must gain, and those of a subtree on average, by the help of the parameters."""
    weight = loss.weight if len(loss.weight) else np.ones(len(loss.gradient))
    gradient = loss.gradient.astype(np.float64)
    mean = (
        weight[:, None] * (gradient - np.average(gradient, axis=0, weights=weight)) ** 2
    ).sum() / len(weight)
    mean *= settings.get("min_relative_gain", 0.0)
    return max(settings.get("min_gain", 0.0), mean / 8), mean


def check_against_twin(
    X, y, K, name="softmax", weight=None, seed=0, n_threads=(1,), categorical=(), **options
):
    data = TreeData(
        X,
        y,
        K,
        sample_weight=np.ones(len(y)) if weight is None else weight,
        categorical=categorical,
    )
    if name == "logistic":
        more = np.random.default_rng(seed).random((data.n_rows, K)) < 0.1
        data.labels = np.eye(K, dtype=np.uint8)[data.y] | more.astype(np.uint8)
    learners = [
        learner(data, name, n_threads=n, rng=np.random.default_rng(seed), **options)
        for n in n_threads
    ]
    loss = learners[0][0]
    settings = {
        "max_leaves": 12,
        "max_depth": None,
        "min_samples_leaf": 2,
        "max_features": 0.5,
        **options,
    }
    bins = bins_of(data, X)
    pool = max(1, round(settings.get("max_features_tree", 1.0) * len(bins)))
    draws = settings["max_features"] < 1 or pool < len(bins) or settings.get("subsample", 1.0) < 1
    for key in (seed, 2**63 + 17 * seed)[: 1 + draws]:
        results = [grown(data, loss, trees, key=key) for loss, trees in learners]
        A, trees = results[0][2], learners[0][1]
        on = trees._searched
        take = max(1, round(settings["max_features"] * pool))
        least, mean = gain_bounds(loss, settings)
        expected, expected_leaf = twin.grow(
            bins,
            data.columns.n_bins,
            data.columns.has_missing,
            A=A,
            lanes=on.lanes,
            n_classes=on.n_columns,
            key=key,
            take=take,
            max_leaves=settings["max_leaves"],
            max_depth=settings["max_depth"],
            least=loss.least(settings["min_samples_leaf"]),
            share=settings.get("subsample", 1.0),
            pool=pool,
            min_gain=least / on.gain_unit,
            least_levels=learners[0][1]._least_levels,
            number=data.row_number,
            level_cost=learners[0][1]._level_cost() / on.gain_unit,
            row_error=on.row_error,
            rows_per_weight=on.rows_per_weight,
            min_subtree_gain=mean / on.gain_unit,
        )
        for splits, leaf, _ in results:
            assert splits == expected
            np.testing.assert_array_equal(leaf, expected_leaf)
    return data, splits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "K"), [(40, 2), (600, 3), (900, 7), (700, 10), (500, 20), (300, 40)])
@pytest.mark.part(5)
def test_trees(kind, m, K):
    rng = np.random.default_rng(m + K)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    _, splits = check_against_twin(features(kind, rng, m), y, K, seed=K)
    assert splits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [3, 20])
def test_sparse_trees(kind, K):
    rng = np.random.default_rng(K)
    m = 400
    X = features(kind, rng, m)
    X[rng.random(X.shape) < 0.6] = 0
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    _, splits = check_against_twin(scipy.sparse.csr_matrix(X), y, K, seed=K)
    assert splits


@pytest.mark.parametrize(
    ("values", "max_features"),
    [(3, 0.3), pytest.param(60, 1.0, marks=pytest.mark.slow), (2000, 0.6)],
)
def test_many_sparse_cells(values, max_features):
    """More cells in a node than one task searches, of features of few and of many cells, with missing values."""
    rng = np.random.default_rng(values)
    m, d, K = 300, 400, 3
    X = scipy.sparse.random(m, d, density=0.3, format="csr", random_state=values, dtype=np.float32)
    X.data = rng.integers(1, values + 1, X.nnz).astype(np.float32)
    X.data[rng.random(X.nnz) < 0.02] = np.nan
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    data, _ = check_against_twin(
        X, y, K, seed=1, n_threads=(1, 3), max_features=max_features, max_leaves=6
    )
    assert values < 60 or np.count_nonzero(np.diff(data.columns.by_cell()[0])) > 2 * 8192


@pytest.mark.parametrize("values", [1, 4, 300])
@pytest.mark.parametrize("options", [
    {"max_features": 0.24}, {"max_features": 0.03, "max_leaves": 100, "min_samples_leaf": 1},
    {"max_features": 0.1, "subsample": 0.6, "max_leaves": 30}, {"max_features": 0.1, "max_features_tree": 0.5},
])  # fmt: skip
@pytest.mark.part(3)
def test_few_sparse_features_are_looked_up(options, values):
    """Where few features are searched, nodes with many entries have no list of them; those below have."""
    rng = np.random.default_rng(values)
    for m, d, K, share, n_threads in (
        (300, 72, 3, 0.1, (1,)),
        (4500, 40, 20, 0.3, (1, 3)),
        (60, 400, 2, 0.01, (1,)),
    ):
        X = scipy.sparse.random(
            m, d, density=share, format="csr", random_state=rng, dtype=np.float32
        )
        X.data = rng.integers(1, values + 1, X.nnz).astype(np.float32)
        X.data[rng.random(X.nnz) < 0.05] = np.nan
        y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
        data, splits = check_against_twin(
            X, y, K, seed=m, n_threads=n_threads, **{"max_leaves": 12, **options}
        )
        assert 4 * round(options["max_features"] * len(data.column)) <= len(data.column)
        assert splits or m < 300


def test_sparse_features_across_tasks():
    """Features of thousands of cells, so that those of one lie in several tasks, and early splits of each matter."""
    rng = np.random.default_rng(0)
    m, d = 5000, 3
    X = np.column_stack([rng.permutation(m) for _ in range(d)]).astype(np.float64)
    X[rng.random(X.shape) < 0.02] = 0
    y = (X > [4500, 500, 500]).sum(axis=1) % 3
    data, splits = check_against_twin(
        scipy.sparse.csr_matrix(X), y, 3, max_features=1.0, max_leaves=6
    )
    assert data.columns.n_bins.max() > 4096
    assert len(splits) == 5


@pytest.mark.parametrize("kind", ["ties", pytest.param("missing", marks=pytest.mark.slow)])
def test_many_leaves_with_threads(kind):
    """Enough work for threads, nodes that are split ahead, and histograms that large nodes keep."""
    rng = np.random.default_rng(5)
    m, K = 20000, 3
    X = np.hstack([features(kind, rng, m) for _ in range(3)])
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    X[:60, 0] = 99  # a few rows to be split off, again and again
    check_against_twin(X, y, K, seed=3, n_threads=(1, 2, 8), max_leaves=40, max_features=0.9)


@pytest.mark.parametrize("options", [
    {"max_depth": 2}, {"max_leaves": 2}, {"min_samples_leaf": 30}, {"min_samples_leaf": 0}, {"max_features": 1e-9},
    {"max_features": 1.0}, {"max_leaves": 5000},
])  # fmt: skip
def test_options(options):
    rng = np.random.default_rng(1)
    y = np.concatenate([np.arange(4), rng.integers(0, 4, 196)])
    check_against_twin(features("continuous", rng, 200), y, 4, **options)


def some_rows(kind, K, sparse):
    """300 rows, with weights where K = 3."""
    rng, m = np.random.default_rng(K), 300
    X = features(kind, rng, m)
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0
        X = scipy.sparse.csr_matrix(X)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    return X, y, rng.random(m) + 0.1 if K == 3 else None


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [
    {"subsample": 0.5}, {"subsample": 0.3, "max_features": 1.0, "max_leaves": 40}, {"max_features_tree": 0.5},
    {"subsample": 0.7, "max_features_tree": 0.6, "max_features": 0.7}, {"subsample": 1e-9}, {"min_gain": 2.0},
    {"max_features_tree": 1e-9}, {"min_relative_gain": 3.0}, {"min_relative_gain": 1.5},
    {"min_relative_gain": 0.5, "min_gain": 1e-3},
])  # fmt: skip
@pytest.mark.part(11)
def test_parts_of_rows_and_features(kind, options, sparse):
    for K, n_threads in ((3, (1,)), (20, (1, 2))):
        X, y, weight = some_rows(kind, K, sparse)
        check_against_twin(X, y, K, weight=weight, seed=K, n_threads=n_threads, **options)


def test_large_nodes_of_drawn_rows_count_the_unusual_codes():
    """Lanes with a usual code, of which a root of drawn rows counts the others alone; and threads."""
    rng = np.random.default_rng(0)
    m = 9000
    X = np.where(rng.random((m, 12)) < 0.85, 7.0, rng.integers(0, 30, (m, 12)))
    y = (X[:, :2] > 7).sum(axis=1)
    for take in (0.4, 1.0):
        check_against_twin(
            X, y, 3, n_threads=(1, 3), subsample=0.6, max_features=take, max_leaves=20
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "K", "options"), [
    (600, 3, {}), (700, 2, {"subsample": 0.6, "max_features": 1.0}), (500, 20, {"max_features": 1.0}),
    (6000, 3, {"max_features": 1.0, "max_leaves": 40}),
])  # fmt: skip
@pytest.mark.part(5)
def test_moved_rows(kind, m, K, options, moved):
    """Few and many columns of a node, whose gradients are gathered or not; codes of two bytes; blocks; drawn rows."""
    rng = np.random.default_rng(m)
    X = np.hstack([features(kind, rng, m) for _ in range(2)])
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    weight = rng.integers(0, 4, m).astype(float)
    weight[:K] = 1
    settings = {"max_leaves": 150 if m == 600 else 60, "min_samples_leaf": 1, **options}
    moved_places = moved()
    check_against_twin(X, y, K, weight=weight, seed=2, n_threads=(1, 3), **settings)
    # In large data usual codes are not counted, and rows stay where they are.
    stay = m >= 4096 and kind in ("repeated", "missing", "exclusive", "skewed")
    assert [places is None or not places[2].any() for places in moved_places] == [stay] * len(
        moved_places
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "K", "options"), [
    (600, 3, {}), (500, 7, {"subsample": 0.6, "max_features": 1.0}), (400, 20, {}), (5000, 4, {"max_leaves": 30}),
])  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.part(7)
def test_sums_of_64_bits(kind, m, K, options, sparse, monkeypatch):
    """The kernels for more rows than 32 bits have room for, and integers beyond them."""
    monkeypatch.setattr(exact, "WIDE_ROWS", 0)
    rng = np.random.default_rng(m)
    X = features(kind, rng, m)
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0
        X = scipy.sparse.csr_matrix(X)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    weight = rng.random(m) * 10.0 ** rng.integers(-3, 3, m)
    data, splits = check_against_twin(X, y, K, weight=weight, seed=K, n_threads=(1, 3), **options)
    assert splits
    loss, trees = learner(data, "softmax", n_threads=1, rng=np.random.default_rng(0), **options)
    assert type(trees._grower) is not _vector_trees.Grower
    assert np.abs(trees._searched.integers(1).astype(np.int64)).sum() > 2**32


def test_categories_in_sums_of_64_bits(monkeypatch):
    monkeypatch.setattr(exact, "WIDE_ROWS", 0)
    rng = np.random.default_rng(0)
    for K in (2, 6, 20):
        X = rng.integers(0, [4, 30, 200], (900, 3)).astype(float)
        y = np.concatenate([np.arange(K), rng.integers(0, K, 900 - K)])
        check_against_twin(X, y, K, seed=K, categorical=(1, 2), max_features=1.0)


def test_rows_are_moved_where_it_pays(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2000)
    columns = TreeData(rng.normal(size=(2000, 17)), y, 3, sample_weight=np.ones(2000)).columns
    size, numbers = columns.codes.nbytes, 2000 * 4 * 5
    assert columns.places(17, 255, 4) is None
    monkeypatch.setattr(tree_layouts, "MOVED_BYTES", size)
    codes, gradient, origin = columns.places(17, 255, 4)
    assert (codes.nbytes, gradient.nbytes + origin.nbytes) == (size, numbers)
    assert columns.places(2, 255, 4) is None and columns.places(3, 255, 4)
    assert columns.places(17, 31, 4) is None and columns.places(17, 32, 4)
    room = 4 * (size + numbers)
    monkeypatch.setattr(tree_layouts, "available_memory", lambda: room - 1)
    assert columns.places(17, 255, 4) is None
    monkeypatch.setattr(tree_layouts, "available_memory", lambda: room)
    assert columns.places(17, 255, 4)
    monkeypatch.setattr(tree_layouts, "available_memory", lambda: None)
    assert columns.places(17, 255, 4)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["continuous", "ties", "missing", "exclusive"])
def test_new_features_and_thresholds_lower_gains(kind, sparse):
    rng = np.random.default_rng(3)
    m, K = 300, 5
    X, y = features(kind, rng, m), np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    X[(rng.random(X.shape) < 0.5) & sparse] = 0
    data = TreeData(scipy.sparse.csr_matrix(X) if sparse else X, y, K, sample_weight=np.ones(m))
    columns, bins, first = data.columns, bins_of(data, X), data.columns.threshold_ptr
    marked = rng.random(len(columns.threshold)) < 0.1
    feature = np.repeat(columns.column, np.diff(first))[marked]
    on = feature % 2 == 0  # the other features are new
    reuse = Reuse(columns, 0.3, 0.4)
    reuse.mark(feature[on], columns.threshold[marked][on])
    loss, trees = learner(data, "softmax", rng=rng, reuse=reuse)
    splits, leaf, A = grown(data, loss, trees, key=7)
    used = [
        set(np.flatnonzero(reuse._used[a:b]).tolist())
        for a, b in zip(first, first[1:], strict=False)
    ]
    expected, expected_leaf = twin.grow(
        bins,
        columns.n_bins,
        columns.has_missing,
        A=A,
        lanes=trees._searched.lanes,
        n_classes=trees._searched.n_columns,
        key=7,
        take=max(1, round(0.5 * len(bins))),
        max_leaves=12,
        max_depth=None,
        least=loss.least(2),
        worth=reuse._worth,
        used=used,
        new_worth=0.6,
    )
    assert splits == expected
    np.testing.assert_array_equal(leaf, expected_leaf)
    plain = grown(data, *learner(data, "softmax", rng=np.random.default_rng(3)), 7)[0]
    assert splits != plain


@pytest.mark.parametrize("spread", [0, 3, 300])
def test_weights(spread):
    """Also weights 10^-300 and 10^300 times others, and zero."""
    rng = np.random.default_rng(spread)
    m, K = 300, 5
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    weight = 10.0 ** rng.uniform(-spread, 1, m)
    weight[rng.random(m) < 0.1] = 0
    weight[:K] = 1
    data, _ = check_against_twin(features("ties", rng, m), y, K, weight=weight, min_samples_leaf=1)
    assert data.n_rows == (weight > 0).sum()


@pytest.mark.parametrize("least", [1, 20])
def test_the_bound_of_a_leaf_has_the_scale_of_the_weights(least):
    """Also where their mean is 1024 or more, and they are divided by a power of two."""
    rng = np.random.default_rng(0)
    X, y, weight = (
        rng.normal(size=(300, 3)),
        np.arange(300) % 3,
        np.where(np.arange(300) % 2, 1.0, 3.0),
    )
    scores = []
    for scale in (2.0**3, 2.0**9, 2.0**30):
        params = {
            "n_estimators": 3,
            "min_samples_leaf": least * scale,
            "calibrate": None,
            "random_state": 0,
        }
        model = VectorTreeBoostClassifier(**params)
        scores.append(model.fit(X, y, sample_weight=scale * weight).decision_function(X))
    assert scores[0].any()
    assert all((score == scores[0]).all() for score in scores)


def test_weights_are_repetitions():
    """Integer weights give the tree of the rows repeated that often."""
    rng = np.random.default_rng(2)
    m, K = 200, 3
    X, y = features("continuous", rng, m), rng.integers(0, K, m)
    times = rng.integers(1, 4, m)
    params = {
        "n_estimators": 1,
        "max_leaf_nodes": 8,
        "min_samples_leaf": 2,
        "subsample": 1.0,
        "random_state": 0,
    }
    models = [
        VectorTreeBoostClassifier(**params).fit(X, y, sample_weight=times),
        VectorTreeBoostClassifier(**params).fit(np.repeat(X, times, axis=0), np.repeat(y, times)),
    ]
    trees = [model.model_.ensemble for model in models]
    np.testing.assert_array_equal(trees[0].feature, trees[1].feature)
    np.testing.assert_array_equal(trees[0].threshold, trees[1].threshold)
    np.testing.assert_allclose(trees[0].leaf, trees[1].leaf, rtol=1e-6)


def test_a_class_without_rows_and_a_thousand_classes():
    rng = np.random.default_rng(3)
    X = features("ties", rng, 60)
    check_against_twin(X, rng.choice([0, 2, 5], 60), 7)
    check_against_twin(X, rng.integers(0, 1000, 60), 1000, max_leaves=4)


def test_nothing_to_split():
    rng = np.random.default_rng(4)
    data = TreeData(np.ones((5, 2)), np.arange(5) % 2, 2, sample_weight=np.ones(5))
    loss, trees = learner(data, "softmax")
    assert trees.fit(1) is None
    data = TreeData(np.array([[1.0]]), np.array([0]), 2, sample_weight=np.ones(1))
    assert learner(data, "softmax")[1].fit(1) is None
    y = rng.integers(0, 2, 30)
    check_against_twin(np.repeat(y[:, None], 2, axis=1).astype(float), y, 2)  # pure after one split


def test_two_classes_are_a_binary_mart_tree():
    """The splits maximise G_L^2/n_L + G_R^2/n_R of one class: that of both is twice as much."""
    rng = np.random.default_rng(6)
    m = 300
    X, y = features("continuous", rng, m), rng.integers(0, 2, m)
    data = TreeData(X, y, 2, sample_weight=np.ones(m))
    loss, trees = learner(data, "softmax", rng=rng, max_features=1.0)
    splits, leaf, A = grown(data, loss, trees, key=1)
    one_class = aligned_zeros((m, 4), np.int64)
    one_class[:, 1:3] = A[:, 1:3]
    expected, expected_leaf = twin.grow(
        bins_of(data, X),
        data.columns.n_bins,
        data.columns.has_missing,
        A=one_class,
        lanes=4,
        n_classes=2,
        key=1,
        take=data.n_features,
        max_leaves=12,
        max_depth=None,
        least=2,
    )
    assert [s[:4] for s in splits] == [s[:4] for s in expected]
    np.testing.assert_array_equal(leaf, expected_leaf)
    np.testing.assert_allclose([s[4] for s in splits], [2 * s[4] for s in expected], rtol=1e-6)


@pytest.mark.parametrize(
    ("m", "K"), [(200, 2), (5000, 3), (300, 7), (200, 10), (300, 16), (100, 40)]
)
def test_gradients(m, K):
    """Of the twin, those of numerical differences; of the kernel, those of the twin; with restarts and steps."""
    rng = np.random.default_rng(m + K)
    y = rng.integers(0, K, m)
    data = TreeData(rng.normal(size=(m, 1)), y, K, sample_weight=10.0 ** rng.uniform(-1, 1, m))
    loss = LOSSES["softmax"].rows(data, 1)
    F = 2 * rng.normal(size=(m, K))
    loss.start(F)
    value = np.zeros((3, loss.width))
    value[:, :K] = rng.normal(size=(3, K))
    leaf = rng.integers(0, 3, m).astype(np.int32)
    loss.add(value, leaf)
    F += value[leaf, :K]
    np.testing.assert_array_equal(loss.F[:, :K], F)
    expected = twin.gradient_of(F, data.y)
    np.testing.assert_allclose(
        loss.gradient[:, :K], expected, rtol=3e-6, atol=1e-9 * np.abs(expected).max()
    )
    assert not loss.gradient[:, K:].any()
    step, i = 1e-5, np.arange(min(m, 20))
    for r in range(min(K, 12)):
        up, down = F[i].copy(), F[i].copy()
        up[:, r] += step
        down[:, r] -= step
        slope = [
            (
                twin.loss_of(down[j : j + 1], data.y[j : j + 1], np.ones(1))
                - twin.loss_of(up[j : j + 1], data.y[j : j + 1], np.ones(1))
            )
            / (2 * step)
            for j in i
        ]
        np.testing.assert_allclose(
            slope, expected[i, r], rtol=1e-4, atol=1e-6 * np.abs(expected).max()
        )


@pytest.mark.parametrize("K", [2, 5, 20])
def test_leaf_steps(K):
    """Gradient and Hessian of a leaf against the twin's, and the vectors made of them."""
    rng = np.random.default_rng(K)
    m = 150
    X, y = features("continuous", rng, m), np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    data = TreeData(X, y, K, sample_weight=10.0 ** rng.uniform(-1, 1, m))
    loss, trees = learner(data, "softmax", max_leaves=5, leaf_step="full")
    F = rng.normal(size=(m, K))
    loss.start(F)
    tree = trees.fit(3)
    rows = np.argsort(tree.leaf, kind="stable").astype(np.int32)
    start = np.searchsorted(tree.leaf[rows], np.arange(6)).astype(np.int64)
    for j, (g, H) in enumerate(loss.leaf_newton(rows, start)):
        here = rows[start[j] : start[j + 1]]
        expected = data.weight[here] @ twin.gradient_of(F[here], data.y[here])
        expected_H = twin.hessian_of(F[here], data.weight[here])
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
        np.testing.assert_allclose(H, expected_H, rtol=1e-5, atol=1e-6 * np.abs(expected_H).max())
        np.testing.assert_allclose(tree.value[j].sum(), 0, atol=1e-6)
    sums = loss.leaf_sums(rows, start)
    p = twin.softmax(F)
    for j in range(5):
        here = rows[start[j] : start[j + 1]]
        np.testing.assert_allclose(sums[j, 1], data.weight[here] @ (p * (1 - p))[here], rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [
    {"split_columns": 1}, {"split_columns": 3}, {"split_columns": 9, "subsample": 0.6}, {"split_columns": "auto"},
    {"split_columns": 19, "min_relative_gain": 0.5}, {"split_columns": 20}, {"split_columns": 10**6},
])  # fmt: skip
@pytest.mark.part(5)
def test_splits_in_directions(kind, options):
    rng = np.random.default_rng(9)
    y = np.concatenate([np.arange(20), rng.integers(0, 20, 380)])
    weight = rng.random(400) + 0.1
    for name in ("softmax", "logistic"):
        check_against_twin(
            features(kind, rng, 400), y, 20, name=name, weight=weight, n_threads=(1, 2), **options
        )


@pytest.mark.parametrize(("K", "n"), [(2, 1), (3, 2), (11, 4), (40, 16), (1000, 33)])
def test_directions_are_half_of_one_sign_and_half_of_the_other(K, n):
    for key in (0, 5, 2**64 - 1):
        signs = _vector_loss.half_signs(key, K, n, width=n + 3)
        np.testing.assert_array_equal(signs, twin.half_signs(key, K, n, width=n + 3))
        assert ((signs > 0).sum(axis=0)[:n] == K // 2).all() and not signs[:, n:].any()
    assert (
        _vector_loss.half_signs(1, K, n, width=n) != _vector_loss.half_signs(2, K, n, width=n)
    ).any() or K == 2


@pytest.mark.parametrize(("K", "n"), [(2, 1), (3, 2), (40, 16), (1000, 33)])
def test_directions_of_any_signs(K, n):
    for key in (0, 5, 2**64 - 1):
        signs = _vector_loss.any_signs(key, K, n, width=n + 3)
        np.testing.assert_array_equal(signs, twin.any_signs(key, K, n, width=n + 3))
    if K == 1000:
        shares = (signs[:, :n] > 0).mean(axis=0)
        assert (np.abs(shares - 0.5) < 0.07).all() and len(set(shares)) > 10


@pytest.mark.parametrize(("K", "n"), [(5, 2), (20, 16), (20, 17), (20, 19), (300, 31), (1000, 40)])
def test_a_class_has_directions_in_one_block(K, n):
    rng = np.random.default_rng(0)
    data = TreeData(rng.normal(size=(K, 1)), np.arange(K), K, sample_weight=np.ones(K), n_threads=1)
    directions = LOSSES["softmax"].rows(data, 1).directions(n)
    for key in (0, 2**64 - 1):
        P = directions.draw(key)
        np.testing.assert_array_equal(
            P, twin.directions(key, K, n, width=directions.width, lanes=directions.lanes)
        )
        used = (P.reshape(K, -1, directions.lanes) != 0).any(axis=2)
        assert (used.sum(axis=1) == 1).all()
        assert used[:, -(-n // directions.lanes) :].sum() == 0


@pytest.mark.parametrize(("lanes", "blocks"), [(4, 1), (8, 1), (16, 1), (16, 2)])
@pytest.mark.parametrize(("m", "K"), [(1, 2), (4097, 5), (9001, 70)])
@pytest.mark.parametrize("sizes", [None, (0.37, 0.37), (0.37, 0.71)])
@pytest.mark.part(3)
def test_gradients_in_directions(m, K, lanes, blocks, sizes):
    """Bit for bit the sums of the twin, class after class; also where directions are signs times a size."""
    rng = np.random.default_rng(m)
    G, P = (aligned_zeros(shape, np.float32) for shape in ((m, K + 5), (K, lanes * blocks)))
    G[:], P[:] = rng.normal(size=G.shape), rng.normal(size=P.shape)
    if sizes is not None:
        P[:] = np.sign(P) * np.repeat(np.array(sizes, dtype=np.float32), lanes)[: P.shape[1]]
        P[rng.random(K) < 0.5, :lanes] = 0
        P[
            (P[:, :lanes] != 0).any(axis=1) & (rng.random(K) < 0.5 + (sizes[0] != sizes[1])), lanes:
        ] = 0
    P[rng.random(K) < 0.3, :lanes] = 0
    P[rng.random(K) < 0.3, -lanes:] = 0
    expected = np.zeros((m, lanes * blocks), dtype=np.float32)
    for k in range(K):
        expected += G[:, k : k + 1] * P[k]
    for weight in (np.zeros(0), 10.0 ** rng.uniform(-9, 9, m)):
        out = [aligned_zeros(expected.shape, np.float32) for _ in range(2)]
        unit = unit_of(200 * weight.max(initial=1), m)
        sums = [
            _vector_loss.project(
                G, P, weight, lanes=lanes, magic=magic_of(unit), out=to, n_threads=n
            )
            for to, n in zip(out, (1, 3), strict=True)
        ]
        np.testing.assert_array_equal(out[0], expected)
        np.testing.assert_array_equal(out[1], expected)
        np.testing.assert_array_equal(sums[0], sums[1])
        w = weight[:, None] if len(weight) else 1
        np.testing.assert_array_equal(
            sums[0], twin.in_units(w * np.abs(expected, dtype=np.float64), unit)
        )


def test_the_classes_as_directions_give_the_trees_of_the_classes(monkeypatch):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 12, 600)
    X = rng.normal(size=(600, 6)) + rng.normal(size=(12, 6))[y]
    monkeypatch.setattr(
        Directions, "draw", lambda self, key: np.eye(12, self.width, dtype=np.float32)
    )
    monkeypatch.setattr(
        vector_trees, "columns_for", lambda wanted, K, sparse: K if wanted == "auto" else None
    )
    params = {"n_estimators": 8, "random_state": 0, "calibrate": None}
    lists = np.eye(12, dtype=int)[y] | (rng.random((600, 12)) < 0.1)
    cases = ({}, y), ({"subsample": 1.0}, y), ({"loss": "logistic"}, lists)
    for options, of_rows in cases:
        models = [
            VectorTreeBoostClassifier(**params, **options, split_columns=n)
            .fit(X, of_rows)
            .model_.with_meta({})
            for n in ("auto", None)
        ]
        assert models[0].to_bytes() == models[1].to_bytes()


@pytest.mark.parametrize(("lanes", "blocks"), [(4, 1), (8, 1), (16, 1), (16, 3)])
@pytest.mark.parametrize("m", [1, 4096, 4097, 30000])
def test_sum_of_squares(lanes, blocks, m):
    """And of sizes: the integers of the twin for any number of threads, with weights far apart and without any."""
    rng = np.random.default_rng(m)
    G = aligned_zeros((m, lanes * blocks), np.float32)
    G[:] = rng.normal(size=G.shape) * 10.0 ** rng.uniform(-18, 0, (m, 1))
    for weight in (np.zeros(0), 10.0 ** rng.uniform(-300, 280, m), np.zeros(m)):
        w = weight[:, None] if len(weight) else 1
        terms = w * np.abs(G, dtype=np.float64), w * (G.astype(np.float64) ** 2)
        for take, its in zip((_vector_loss.sizes, _vector_loss.sum_of_squares), terms, strict=True):
            unit = unit_of(its.max(), G.size)
            expected = twin.in_units(its, unit)
            expected = expected if take is _vector_loss.sizes else expected.sum(keepdims=True)
            for n_threads in (1, 2, 8):
                np.testing.assert_array_equal(
                    take(G, weight, lanes, magic_of(unit), n_threads), expected
                )


@pytest.mark.parametrize("weighted", [False, True])
def test_leaf_sums_of_large_leaves(weighted):
    """Threads share the rows of a large leaf; the sums are the integers of the twin for any number of threads."""
    rng = np.random.default_rng(0)
    m, K, lanes = 60_000, 5, 8
    G = aligned_zeros((m, lanes), np.float32)
    G[:, :K] = rng.uniform(-0.9, 0.9, (m, K))
    weight = rng.uniform(0.5, 2, m) if weighted else np.zeros(0)
    rows = rng.permutation(m).astype(np.int32)
    start = np.array([0, 3, 16_383, 16_383, 53_000, m])  # none, one and several parts
    magic, scale = magic_of(unit_of(2.002, m)), 1 / unit_of(2.002, m)
    how = K, 0, 0.5, 4.0, 0.1
    expected = np.zeros((5, 2, lanes), dtype=np.int64)
    w = weight[:, None] if weighted else 1.0
    size = np.abs(G)
    for j, its in enumerate(np.split(rows, start[1:-1])):
        for k, terms in enumerate(
            (w * G.astype(np.float64), w * (size * (1 - size)).astype(np.float64))
        ):
            expected[j, k] = np.rint(terms[its] * scale).astype(np.int64).sum(axis=0)
    magics = np.full((5, lanes), magic)
    kept = [np.empty((5, 2, lanes), dtype=np.float32) for _ in range(3)]
    values = []
    for n_threads, sums in zip((1, 2, 8), kept, strict=True):
        actual = _vector_loss.leaf_sums(
            G, weight, lanes, rows=rows, leaf_start=start, magic=magics, n_threads=n_threads
        )
        np.testing.assert_array_equal(actual, expected)
        values += _vector_loss.softmax_values(
            G,
            weight,
            lanes,
            rows=rows,
            leaf_start=start,
            magic=magics[0],
            how=how,
            n_threads=n_threads,
            kept=sums,
        )
        np.testing.assert_array_equal(
            sums[:, :, :K], (expected[:, :, :K] / scale).astype(np.float32)
        )
    for value in values[2::2]:
        np.testing.assert_array_equal(value, values[0])


def test_relative_gain_prunes_where_most_rows_are_right():
    """Trees of separable rows stay small once a few rows hold most of the gradient."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    params = {"n_estimators": 200, "random_state": 0, "calibrate": None}
    unpruned = VectorTreeBoostClassifier(**params, min_relative_gain=0.0).fit(X, y)
    small = VectorTreeBoostClassifier(**params).fit(X, y)
    assert (
        small.history_["n_leaves"][-50:].mean() < 0.7 * unpruned.history_["n_leaves"][-50:].mean()
    )
    assert (small.predict(X) == y).all()


@pytest.mark.parametrize("leaf_step", ["diagonal", "full"])
def test_training_lowers_the_loss(leaf_step):
    rng = np.random.default_rng(0)
    m, K = 500, 6
    y = rng.integers(0, K, m)
    X = rng.normal(size=(m, 5)) + rng.normal(size=(K, 5))[y]
    losses = []
    for rounds in (1, 5, 20):
        model = VectorTreeBoostClassifier(
            n_estimators=rounds,
            max_leaf_nodes=10,
            leaf_step=leaf_step,
            learning_rate=0.2,
            random_state=0,
        ).fit(X, y)
        losses.append(twin.loss_of(model.decision_function(X), y, np.ones(m)))
    assert losses[0] > 1.2 * losses[1] > 1.2 * losses[2]


def test_threads_and_resumption_change_nothing():
    rng = np.random.default_rng(0)
    m, K = 9000, 4
    y = rng.integers(0, K, m)
    X = rng.normal(size=(m, 20)) + rng.normal(size=(K, 20))[y]
    X[rng.random(X.shape) < 0.05] = np.nan

    def model(n_jobs, rounds=(6,)):
        found = VectorTreeBoostClassifier(random_state=1, n_jobs=n_jobs, warm_start=True)
        for n in rounds:
            found.set_params(n_estimators=n).fit(X, y)
        return found.model_.ensemble

    one = model(1)
    for other in (model(2), model(8), model(2, (2, 3, 6))):
        for field in ("offset", "feature", "threshold", "nan_left", "right", "leaf"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def test_a_root_that_drew_useless_features_draws_again():
    rng = np.random.default_rng(3)
    X = np.zeros((300, 6))
    X[:, 0] = rng.normal(size=300)
    X[np.arange(5), np.arange(1, 6)] = 1  # one row each: too few for a leaf
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = VectorTreeBoostClassifier(
        n_estimators=30, max_features=0.2, min_samples_leaf=2, random_state=0
    ).fit(X, y)
    assert model.n_estimators_ == 30
    assert model.score(X, y) == 1


@pytest.mark.parametrize(
    "m, d, leaves, drawn",
    [
        (60, 1, 31, 1), (60, 2, 31, 2), (799, 5, 31, 4), (800, 16, 32, 6), (1274, 9, 50, 5), (10000, 16, 400, 6),
        (10001, 16, 400, 9), (13000, 3, 500, 3),
    ],
)  # fmt: skip
def test_automatic_sizes_of_trees(m, d, leaves, drawn):
    """A leaf for every 25 rows, from 31 to 500; 2 d^0.4 of the features that vary, above 10,000 rows 3 d^0.4."""
    rng = np.random.default_rng(m)
    X, y = rng.integers(0, 40, (m, d + 1)).astype(float), rng.integers(0, 3, m)
    X[:, 0] = 7.0
    how = {"n_estimators": 2, "calibrate": None, "random_state": 0, "min_relative_gain": 0.0}
    auto = VectorTreeBoostClassifier(**how).fit(X, y)
    given = VectorTreeBoostClassifier(**how, max_leaf_nodes=leaves, max_features=drawn / d).fit(
        X, y
    )
    np.testing.assert_array_equal(auto.decision_function(X[:500]), given.decision_function(X[:500]))
    assert np.diff(auto.model_.ensemble.offset).max() <= leaves - 1
    other = VectorTreeBoostClassifier(**how, max_leaf_nodes=leaves - 1, max_features=drawn / d).fit(
        X, y
    )
    if m > 60:
        assert not np.array_equal(auto.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize(
    "K, columns",
    [
        (2, None),
        (4, None),
        (5, 3),
        (9, 3),
        (10, 4),
        (26, 6),
        (49, 7),
        (50, 7),
        (225, 7),
        (226, 15),
        (257, 15),
        (484, 15),
        (485, 31),
        (1000, 31),
        (65535, 31),
    ],
)
def test_automatic_columns(K, columns):
    """The root of the classes above 4, at most 7, above 225 15, above 484 31; never as many as there are classes."""
    assert vector_trees.columns_for("auto", K) == columns
    assert [vector_trees.columns_for(n, K) for n in (1, K - 1, K, K + 1, None)] == [
        1,
        K - 1,
        None,
        None,
        None,
    ]


def test_automatic_columns_on_sparse_rows():
    found = {
        K: vector_trees.columns_for("auto", K, sparse=True) for K in (4, 9, 20, 32, 33, 105, 1000)
    }
    assert found == {4: None, 9: None, 20: None, 32: None, 33: 31, 105: 31, 1000: 31}


@pytest.mark.parametrize("K", [2, 5, 8, 10, 11, 16, 20])
def test_scores_without_unused_lanes_give_the_same_bytes(K, monkeypatch):
    rng = np.random.default_rng(K)
    y = rng.integers(0, K, 400)
    X = rng.normal(size=(400, 6)) + y[:, None] * rng.normal(size=6)
    models = []
    for large in (0, 1 << 60):
        monkeypatch.setattr("pymcboost.losses.rows.LARGE_SCORES", large)
        model = VectorTreeBoostClassifier(n_estimators=6, max_leaf_nodes=9, random_state=0).fit(
            X, y
        )
        models.append(model.model_.to_bytes())
    assert models[0] == models[1]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (10, 18)), 12]
)
def test_an_unlucky_draw_of_rows_ends_no_training(seed):
    X = np.c_[[0.0, 0.1, 1.0, 1.1], np.random.default_rng(seed).normal(size=(4, 3))]
    first, second = (
        VectorTreeBoostClassifier(calibrate=None, random_state=seed, n_jobs=n).fit(X, [0, 0, 1, 1])
        for n in (1, 2)
    )
    assert first.score(X, [0, 0, 1, 1]) == 1
    assert first.model_.to_bytes() == second.model_.to_bytes()


def test_a_rare_class_does_not_end_a_training():
    """Some draws have so few of its rows that no split of theirs gains enough."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)).round(1)
    risk = X[:, 0] / 2 + rng.logistic(size=500)
    y = (risk > np.sort(risk)[-8]).astype(int)
    options = {"n_estimators": 80, "calibrate": None, "random_state": 0}
    first, second = (VectorTreeBoostClassifier(**options, n_jobs=n).fit(X, y) for n in (1, 2))
    assert first.n_estimators_ == 80
    assert first.predict_proba(X)[:, 1].mean() < 2 * y.mean()
    assert first.model_.to_bytes() == second.model_.to_bytes()


def test_draws_without_a_split_leave_all_rows():
    """A row or two are drawn, and mostly of one class."""
    X, y = np.random.default_rng(1).normal(size=(40, 3)), np.arange(40) // 20
    X[:, 0] += y
    options = {"n_estimators": 5, "calibrate": None, "random_state": 3, "max_leaf_nodes": 4}
    assert VectorTreeBoostClassifier(**options, subsample=0.03).fit(X, y).n_estimators_ == 5


def test_a_constant_model_names_the_share_of_rows_where_some_are_drawn():
    X, y = np.zeros((6, 1)), np.arange(6) % 2
    with pytest.warns(UserWarning, match=r"\(subsample=0.5\): set subsample=1$"):
        VectorTreeBoostClassifier(calibrate=None, subsample=0.5).fit(X, y)
    with pytest.warns(UserWarning, match=r"too strict$"):
        VectorTreeBoostClassifier(calibrate=None, subsample=1).fit(X, y)


def test_round_keys_are_numpys():
    rng = np.random.default_rng(0)
    pairs = [
        (0, 0),
        (0, 1),
        (1, 0),
        (2**31 - 1, 2**32 - 1),
        *rng.integers(0, 2**31, (300, 2)).tolist(),
    ]
    assert [_vector_trees.round_key(*pair) for pair in pairs] == [
        np.random.PCG64(pair).random_raw() for pair in pairs
    ]


@pytest.mark.parametrize("K", [2, 3, 7, 8, 9, 16, 65, 128, 129, 300, 1000])
def test_leaf_values(K):
    rng = np.random.default_rng(K)
    step = rng.standard_normal((5, K)) * 10.0 ** rng.integers(-9, 9, (5, 1))
    step[4] = 0
    value = _vector_loss.leaf_values(step, 4.0, 0.15, width=K + 3)
    cut = np.minimum(np.maximum(step, -4.0), 4.0)
    expected = ((cut - cut.sum(axis=1, keepdims=True) / K) * 0.15).astype(np.float32)
    np.testing.assert_array_equal(value[:, :K], expected)
    assert not value[:, K:].any()
    value = _vector_loss.leaf_values(step, 4.0, 0.15, width=K + 3, centred=False)
    np.testing.assert_array_equal(value[:, :K], (cut * 0.15).astype(np.float32))


@pytest.mark.parametrize(("m", "K"), [(500, 3), (500, 9), (3000, 99), (900, 300)])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaf_values_of_softmax_in_one_pass(m, K, weighted):
    """Sums, steps and values of leaf after leaf are those of all leaves; small sums are found, and taken again."""
    rng = np.random.default_rng(K)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    weight = rng.uniform(0.5, 2, m) if weighted else np.ones(m)
    data = TreeData(rng.normal(size=(m, 2)), y, K, sample_weight=weight, n_threads=1)
    order, cut = (
        rng.permutation(m).astype(np.int32),
        np.array([0, m // 3, m // 3 + 1, m], dtype=np.int64),
    )
    certain = order[: m // 3]  # of a leaf whose rows are all but right
    for rows in (NarrowRows, LOSSES["softmax"].rows):
        at = rows(LOSSES["softmax"], data, 1) if rows is NarrowRows else rows(data, 2)
        F = rng.normal(size=(m, K))
        F[certain, data.y[certain]] += 60
        at.start(F)
        for l2 in (0.0, 0.3):
            found = at.leaf_values(order, cut, False, l2, 4.0, 0.1)
            step = at.leaf_steps(order, cut, False, l2)
            np.testing.assert_array_equal(
                found, _vector_loss.leaf_values(step, 4.0, 0.1, width=at.width)
            )
            value, again = at._values_in_unit(
                order, cut, np.full(at.width, magic_of(2.0**-50)), (K, 16, l2, 4.0, 0.1)
            )
            assert 0 in again and 2 not in again
            np.testing.assert_array_equal(value[2], found[2])


@pytest.mark.parametrize("weighted", [0, 1])
@pytest.mark.parametrize(
    ("loss", "K"),
    [(_vector_loss.SOFTMAX, 99), (_vector_loss.SOFTMAX, 9), (_vector_loss.LOGISTIC, 99)],
)
def test_gradients_without_their_sums(loss, K, weighted):
    rng = np.random.default_rng(K)
    lanes, _, width = row_layout(K)
    y, weight = rng.integers(0, K, 50).astype(np.int32), rng.random(50 * weighted)
    F = aligned_zeros((50, width), np.float64)
    F[:, :K], F[:, K:] = rng.normal(size=(50, K)), -1e30
    G = [aligned_zeros((50, width), np.float32) for _ in range(2)]
    how = y, y, weight, loss, lanes, magic_of(unit_of(K, 50))
    sums = [
        _vector_loss.gradient(F, None, *how, to, 1, summed)
        for to, summed in zip(G, (True, False), strict=True)
    ]
    np.testing.assert_array_equal(*G)
    assert G[0].any()
    assert (sums[1] is None) == (loss == _vector_loss.SOFTMAX and K == 99 and not weighted)


@pytest.mark.parametrize("loss", [_vector_loss.SOFTMAX, _vector_loss.LOGISTIC])
@pytest.mark.parametrize(
    ("m", "K", "compact"), [(1, 2, False), (300, 5, False), (9000, 9, True), (5000, 20, False)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_and_gradients_in_one_pass(loss, m, K, compact, weighted):
    """Adding leaves and taking gradients together is what both are one after the other."""
    rng = np.random.default_rng(m + K)
    lanes, _, width = row_layout(K)
    y, leaf = rng.integers(0, K, m).astype(np.int32), rng.integers(0, 7, m).astype(np.int32)
    weight = rng.random(m) if weighted else np.zeros(0)
    value = np.zeros((7, width))
    value[:, :K] = rng.standard_normal((7, K))
    found = []
    for together in (True, False):
        F = aligned_zeros((m, K if compact else width), np.float64)
        F[:, K:], F[:, :K] = -1e30, np.random.default_rng(1).standard_normal((m, K))
        G = aligned_zeros((m, width), np.float32)
        if not together:
            F[:, :K] += value[leaf, :K]
        unit = unit_of(K, m)
        sums = _vector_loss.gradient(
            F,
            value if together else None,
            leaf,
            y=y,
            weight=weight,
            loss=loss,
            lanes=lanes,
            magic=magic_of(unit),
            G=G,
            n_threads=2,
        )
        found.append((F, G, sums))
        terms = np.abs(G, dtype=np.float64) * (weight[:, None] if weighted else 1)
        np.testing.assert_array_equal(sums, twin.in_units(terms, unit))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("few", [0, 15, 1e9, None])
@pytest.mark.parametrize(
    ("K", "n_levels"), [(2, 9), (3, 4), (5, 300), (12, 40), (15, 40), (16, 9), (20, 300), (47, 40)]
)
@pytest.mark.part(5)
def test_sets_of_categories(K, n_levels, few):
    options = {"subsample": 0.6} if few is None else {"min_samples_category": few}
    rng = np.random.default_rng(K + n_levels)
    X = rng.integers(0, [n_levels, 2, n_levels, 7], (600, 4)).astype(np.float64)
    X[rng.random(X.shape) < [0.1, 0, 0, 0.3]] = np.nan
    y = (np.nan_to_num(X[:, 0], nan=3) * 7 % K + rng.integers(0, 2, 600)).astype(int) % K
    weight = rng.integers(1, 4, 600) / 2.0 if n_levels == 40 else None
    _, splits = check_against_twin(
        X, y, K, weight=weight, categorical=(0, 1, 2), n_threads=(1, 3), max_features=1.0, **options
    )
    assert any(isinstance(split[1], frozenset) for split in splits)


def test_the_best_of_all_sets_of_two_classes():
    rng = np.random.default_rng(5)
    for n_levels in range(2, 11):
        X, y = rng.integers(0, n_levels, (400, 1)).astype(np.float64), rng.integers(0, 2, 400)
        data = TreeData(X, y, 2, sample_weight=np.ones(400), categorical=(0,))
        loss, trees = learner(
            data, "softmax", max_leaves=2, max_features=1.0, min_samples_category=0, rng=rng
        )
        splits, _, A = grown(data, loss, trees, key=1)
        cells = np.array(
            [A[data.columns.codes[0] == b].sum(axis=0) for b in range(n_levels)], dtype=np.float64
        )
        n, best = cells[:, 2], 0.0
        for bits in range(1, 1 << (n_levels - 1)):
            left = np.array([bits >> b & 1 for b in range(n_levels)], dtype=bool)
            if min(n[left].sum(), n[~left].sum()) >= loss.least(2):
                sums = [
                    cells[side].sum(axis=0) for side in (left, ~left, np.ones(n_levels, dtype=bool))
                ]
                gains = [(one[:2] ** 2).sum() / one[2] for one in sums]
                best = max(best, gains[0] + gains[1] - gains[2])
        assert splits[0][4] == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("columns", [None, "auto", 17])
def test_categories_of_many_classes(columns):
    X, y = np.arange(200.0).reshape(-1, 1) % 20, np.arange(200) % 20
    model = VectorTreeBoostClassifier(
        n_estimators=20,
        categorical_features=[0],
        split_columns=columns,
        calibrate=None,
        random_state=0,
    )
    assert model.fit(X, y).score(X, y) == 1


@pytest.mark.parametrize(
    ("rate", "rounds", "late"), [(0.1, 310, 300), (0.05, 605, 600), (0.5, 304, 300)]
)
def test_the_least_gain_rises_late(rate, rounds, late):
    """With the fourth power of the rounds, after 300 of them, or 30 over the learning rate."""
    seen = []

    class Watch(Callback):
        def after_round(self, state):
            seen.append(state.booster.learner.min_relative_gain)

    rows = np.random.default_rng(0).normal(size=(40, 2))
    params = {
        "learning_rate": rate,
        "max_leaf_nodes": 2,
        "min_relative_gain": 1e-9,
        "calibrate": None,
    }
    VectorTreeBoostClassifier(n_estimators=rounds, **params).fit(
        rows, np.arange(40) % 3, callbacks=[Watch()]
    )
    assert len(seen) == rounds
    expected = [1e-9 * max(1, t / late) ** 4 for t in range(rounds)]
    np.testing.assert_allclose(seen, expected, rtol=1e-12)
    assert expected[late] == 1e-9 < expected[late + 1]


@pytest.mark.parametrize(("rate", "late"), [(0.1, 150), (0.05, 300), (0.5, 300)])
def test_the_least_gain_rises_earlier_in_folds_with_larger_steps(rate, late):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    estimator = VectorTreeBoostClassifier(
        learning_rate=rate, max_leaf_nodes=2, min_relative_gain=1e-9
    )
    booster = estimator._booster(lambda: 0)
    booster.speed_up(2 * late)
    dataset = TrainingSet(rows, np.arange(3), np.arange(40) % 3, weight=np.ones(40))
    booster.lay_out(dataset, 1).start(2 * late)
    seen = []
    for booster.n_rounds in range(late + 3):
        booster.round()
        seen.append(booster.learner.min_relative_gain)
    np.testing.assert_allclose(
        seen, [1e-9 * max(1, t / late) ** 4 for t in range(late + 3)], rtol=1e-12
    )


def test_more_rows_of_a_tree_where_there_are_many():
    assert [share_of("auto", n) for n in (1, 10_000, 10_001)] == [0.5, 0.5, 0.7]
    assert share_of(0.3, 20_000) == 0.3


def test_more_features_of_a_node_where_there_are_many_rows():
    drawn = {
        n: [drawn_of("auto", n, rows) for rows in (10_000, 10_001)]
        for n in (3, 54, 300, 784, 2000, 7000)
    }
    assert drawn == {
        3: [3, 3],
        54: [10, 15],
        300: [20, 30],
        784: [29, 78],
        2000: [42, 100],
        7000: [69, 104],
    }
    few = {
        n: [drawn_of("auto", n, rows) for rows in (1, 100, 1000)] for n in (3, 300, 2000, 20_000)
    }
    assert few == {3: [3, 3, 3], 300: [30, 30, 20], 2000: [200, 200, 42], 20_000: [2000, 2000, 200]}
    assert drawn_of(0.5, 784, 20_000) == 392
    assert drawn_of(1e-9, 784, 20_000) == 1


def test_gains_of_all_rounds_have_one_unit():
    """What `gain_` gets in a round is the gain of its split, found from the scores before it."""
    rng = np.random.default_rng(0)
    X, y, K = rng.integers(0, 12, (80, 3)).astype(float), rng.integers(0, 3, 80), 3
    whole = {
        "max_leaf_nodes": 2,
        "max_features": 1.0,
        "subsample": 1.0,
        "split_columns": None,
        "calibrate": None,
    }
    several = {
        "n_estimators": 40,
        "min_relative_gain": 0.0,
        "learning_rate": 0.5,
        "random_state": 0,
        **whole,
    }
    model = VectorTreeBoostClassifier(warm_start=True, **several)
    own, gain = np.eye(K)[y], 0.0
    for n in (1, 2, 10, 11, 39, 40):
        model.set_params(n_estimators=n).fit(X, y)
        found, gain = model.gain_.sum() - gain, model.gain_.sum()
        if n not in (2, 11, 40):
            before = model.decision_function(X)
            continue
        e = np.exp(before - before.max(axis=1, keepdims=True))
        g = own - e / e.sum(axis=1, keepdims=True)
        cuts = [x <= cut for x in X.T for cut in np.unique(x)[:-1]]
        best = max(
            sum((g[side].sum(axis=0) ** 2).sum() / side.sum() for side in (left, ~left))
            for left in cuts
        )
        assert found == pytest.approx(best - (g.sum(axis=0) ** 2).sum() / 80, rel=1e-4)
