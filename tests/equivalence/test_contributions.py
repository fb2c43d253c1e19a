"""Contributions: equal to Shapley values by their definition, on small trees of every form."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from reference import contributions as twin

from pymcboost import MartClassifier, MCBoostClassifier, VectorTreeBoostClassifier
from pymcboost.inspection import contributions, interactions, shapley, to_shap
from pymcboost.model import covers
from pymcboost.model.model import Model
from pymcboost.model.stumps import Stumps
from pymcboost.model.trees import Trees

D = 4
K = 3


def shape(rng, splits):
    """Offsets to the right children of a random tree in preorder."""
    if not splits:
        return []
    left = int(rng.integers(0, splits))
    return [left + 1, *shape(rng, left), *shape(rng, splits - 1 - left)]


def random_trees(rng, form, sizes=(0, 1, 2, 3, 5, 8)):
    sizes = sizes if form != "class stumps" else [1, 0, 1, 1]
    t = len(sizes)
    s = sum(sizes)
    vector = form == "vector"
    code = rng.normal(size=(2, K)).astype(np.float32) if form == "code" else None
    cls = None if vector else rng.integers(0, 2 if form == "code" else K, t)
    base = (cls + 1) % K if form == "base" else None
    if base is not None:
        base[0] = -1
    return Trees(
        np.cumsum([0, *sizes]),
        rng.integers(0, D, s),
        rng.integers(-1, 2, s).astype(np.float32),
        rng.random(s) < 0.5,
        np.array([step for size in sizes for step in shape(rng, size)], dtype=np.int64),
        rng.normal(size=(s + t, K) if vector else s + t).astype(np.float32),
        cls,
        base,
        np.array([0, 2, t]),
        rng.normal(size=K).astype(np.float32),
        D,
        code,
    )


def random_stumps(rng, n=6):
    left = rng.normal(size=(n, K)).astype(np.float32) if n > 3 else None
    return Stumps(
        rng.integers(0, D, n),
        rng.integers(-1, 2, n).astype(np.float32),
        rng.random(n) < 0.5,
        right=rng.normal(size=(n, K)).astype(np.float32),
        left=left,
        bias=rng.normal(size=K).astype(np.float32),
        n_features=D,
    )


def rows(rng, m):
    X = rng.integers(-2, 3, (m, D)).astype(np.float32)
    X[rng.random((m, D)) < 0.2] = np.nan
    return X


FORMS = [
    "vector",
    "class",
    "base",
    "code",
    "class stumps",
    "stumps",
    "symmetric stumps",
    "interval",
]


def ensembles(rng, form):
    if "stumps" in form and form != "class stumps":
        return random_stumps(rng, 3 if "symmetric" in form else 6), {}
    if form == "interval":
        return random_stumps(rng), {"layout": "interval"}
    return random_trees(rng, form), {}


def tolerance(form):
    """What contributions may differ by from those of the learners: tables are rounded to float32."""
    return 1e-6 if form == "interval" else 1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.part(3)
def test_background_rows(form, seed):
    rng = np.random.default_rng(seed)
    ensemble, options = ensembles(rng, form)
    model = Model.from_ensemble(ensemble, range(K), **options)
    X, background = rows(rng, 5), rows(rng, 6)
    shapley = contributions(model, X, background)
    assert np.abs(shapley.base + shapley.values.sum(axis=1) - model.raw_scores(X)).max() < 1e-12
    for x, values in zip(X, shapley.values, strict=True):
        expected, base = twin.shapley(twin.of_rows(ensemble, x, background), D)
        np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance(form))
        np.testing.assert_allclose(shapley.base, base, rtol=0, atol=tolerance(form))


@pytest.mark.parametrize("form", FORMS[:-1])
@pytest.mark.parametrize("seed", range(3))
def test_covers(form, seed):
    rng = np.random.default_rng(seed)
    ensemble, _ = ensembles(rng, form)
    X, seen = rows(rng, 5), rows(rng, 9)
    cover = twin.covers(ensemble, seen)
    model = Model.from_ensemble(ensemble, range(K)).with_covers(seen)
    assert np.array_equal(model.ensemble.cover, np.concatenate(cover))
    shapley = contributions(model, X)
    assert np.abs(shapley.base + shapley.values.sum(axis=1) - model.raw_scores(X)).max() < 1e-12
    for x, values in zip(X, shapley.values, strict=True):
        expected, base = twin.shapley(twin.of_covers(ensemble, x, cover), D)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(shapley.base, base, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_interactions(form):
    rng = np.random.default_rng(8)
    ensemble, options = ensembles(rng, form)
    model = Model.from_ensemble(ensemble, range(K), **options)
    X, seen = rows(rng, 2), rows(rng, 4)
    ways = [(model, seen, lambda x: twin.of_rows(ensemble, x, seen))]
    if form != "interval":
        cover = twin.covers(ensemble, seen)
        ways.append((model.with_covers(seen), None, lambda x: twin.of_covers(ensemble, x, cover)))
    for held, background, value in ways:
        shapley = interactions(held, X, background)
        alone = contributions(held, X, background)
        np.testing.assert_allclose(shapley.values.sum(axis=2), alone.values, rtol=0, atol=1e-12)
        assert np.array_equal(shapley.base, alone.base)
        for x, values in zip(X, shapley.values, strict=True):
            np.testing.assert_allclose(
                values, twin.interaction(value(x), D), rtol=0, atol=tolerance(form)
            )


@pytest.mark.parametrize("d", [3, 10, 64])
def test_interactions_along_long_paths(d):
    """Of a chain: short and long paths, more rows than patterns, and no more than some."""
    rng = np.random.default_rng(d)
    model = Model.from_ensemble(chain(d, rng), range(2))
    X = np.where(rng.random((70, d)) < 0.9, 1.0, -1.0)
    for held, background in ((model, X[:20]), (model.with_covers(X), None)):
        shapley = interactions(held, X, background, n_jobs=2)
        np.testing.assert_allclose(shapley.values, shapley.values.swapaxes(1, 2), rtol=0, atol=1e-9)
        one = interactions(held, X[7:8], background).values
        assert np.array_equal(one, shapley.values[7:8])
        assert len(shapley.features) == d


@pytest.mark.parametrize("k", [2, 4, 5, 39, 71])
def test_classes_do_not_depend_on_each_other(k):
    """Classes are added in blocks of 32, 4, 2 and 1."""
    rng = np.random.default_rng(k)
    few = random_trees(rng, "vector")
    leaf = rng.normal(size=(len(few.leaf), k)).astype(np.float32)
    many = replace(few, leaf=leaf, bias=np.zeros(k, dtype=np.float32))
    X = rows(rng, 20)
    shapley = contributions(Model.from_ensemble(many, range(k)).with_covers(X), X)
    for begin in range(0, k - 1, 2):
        pair = replace(many, leaf=leaf[:, begin : begin + 2], bias=np.zeros(2, dtype=np.float32))
        alone = contributions(Model.from_ensemble(pair, range(2)).with_covers(X), X)
        assert alone.values.tobytes() == shapley.values[:, :, begin : begin + 2].tobytes()
    last = replace(many, leaf=leaf[:, -2:], bias=np.zeros(2, dtype=np.float32))
    alone = contributions(Model.from_ensemble(last, range(2)).with_covers(X), X)
    assert alone.values.tobytes() == shapley.values[:, :, -2:].tobytes()


def part_of(e, begin, end):
    """Some of the trees, without the bias."""
    splits = slice(e.offset[begin], e.offset[end])
    leaves = slice(e.offset[begin] + begin, e.offset[end] + end)
    return Trees(
        e.offset[begin : end + 1] - e.offset[begin],
        e.feature[splits],
        e.threshold[splits],
        e.nan_left[splits],
        e.right[splits],
        e.leaf[leaves],
        *(None if a is None else a[begin:end] for a in (e.cls, e.base)),
        np.arange(end - begin + 1),
        np.zeros(K, dtype=np.float32),
        D,
        e.code,
    )


@pytest.mark.parametrize("form", FORMS[:4])
def test_many_trees_are_the_sum_of_few(form):
    """Trees are taken in batches of a class; rows of short paths in another way than a row alone."""
    rng = np.random.default_rng(6)
    many = part_of(random_trees(rng, form, rng.integers(0, 12, 200).tolist()), 0, 200)
    X = rows(rng, 300)
    model = Model.from_ensemble(many, range(K)).with_covers(X)
    parts = [
        Model.from_ensemble(part_of(many, t, t + 8), range(K)).with_covers(X)
        for t in range(0, 200, 8)
    ]
    for background in (None, X[:20]):
        shapley = contributions(model, X, background).values
        total = sum(contributions(part, X, background).values for part in parts)
        np.testing.assert_allclose(shapley, total, rtol=0, atol=1e-11)
        assert contributions(model, X[7:8], background).values.tobytes() == shapley[7:8].tobytes()


def chain(d, rng):
    """One tree that is a chain: a path of d different features."""
    return Trees(
        np.array([0, d]),
        rng.permutation(d),
        np.zeros(d, dtype=np.float32),
        np.zeros(d, dtype=bool),
        np.ones(d, dtype=np.int64),
        rng.normal(size=(d + 1, 2)).astype(np.float32),
        None,
        None,
        np.array([0, 1]),
        np.zeros(2, dtype=np.float32),
        d,
    )


def test_long_paths_by_their_definition():
    rng = np.random.default_rng(3)
    ensemble = chain(10, rng)
    model = Model.from_ensemble(ensemble, range(2))
    X = np.where(rng.random((20, 10)) < 0.8, 1.0, -1.0).astype(np.float32)
    between = contributions(model, X, X[:3]).values
    along = contributions(model.with_covers(X), X).values
    cover = twin.covers(ensemble, X)
    for r in (0, 11, 19):
        values = twin.of_rows(ensemble, X[r], X[:3]), twin.of_covers(ensemble, X[r], cover)
        for found, value in zip((between, along), values, strict=True):
            np.testing.assert_allclose(found[r], twin.shapley(value, 10)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [9, 20, 63, 64])
def test_long_paths_add_up(d):
    rng = np.random.default_rng(d)
    model = Model.from_ensemble(chain(d, rng), range(2))
    X = np.where(rng.random((70, d)) < 0.9, 1.0, -1.0)
    for held, background in ((model, X[:40]), (model.with_covers(X), None)):
        shapley = contributions(held, X, background)
        assert np.abs(shapley.base + shapley.values.sum(axis=1) - model.raw_scores(X)).max() < 1e-9


def test_longer_paths_are_refused():
    model = Model.from_ensemble(chain(65, np.random.default_rng(0)), range(2))
    with pytest.raises(ValueError, match="more than 64 different features"):
        contributions(model, np.zeros((1, 65)), np.zeros((1, 65)))


@pytest.mark.parametrize("form", ["vector", "class", "stumps"])
def test_threads_sparse_rows_and_order_change_nothing(form):
    rng = np.random.default_rng(5)
    model = Model.from_ensemble(ensembles(rng, form)[0], range(K))
    X = np.nan_to_num(rows(rng, 1100))
    shapley = contributions(model, X, X[:50], n_jobs=1)
    assert contributions(model, X, X[:50], n_jobs=3).values.tobytes() == shapley.values.tobytes()
    sparse = contributions(model, scipy.sparse.csr_matrix(X), scipy.sparse.csc_matrix(X[:50]))
    assert sparse.values.tobytes() == shapley.values.tobytes()
    for part in (slice(0, 1), slice(7, 600)):
        assert (
            contributions(model, X[part], X[:50]).values.tobytes() == shapley.values[part].tobytes()
        )
    held = model.with_covers(scipy.sparse.csr_matrix(X))
    assert held.to_bytes() == model.with_covers(X).to_bytes()
    alone = contributions(held, X, n_jobs=1).values
    assert contributions(held, X, n_jobs=3).values.tobytes() == alone.tobytes()
    for part in (slice(7, 600), slice(5, 6), slice(3, 40), slice(0, 256)):
        assert contributions(held, X[part]).values.tobytes() == alone[part].tobytes()


@pytest.mark.parametrize("n_classes", [2, 9, 14, 22, 30])
@pytest.mark.parametrize("splits", [6, 40])
@pytest.mark.part(2)
def test_tables_made_once_and_batches_change_nothing(monkeypatch, n_classes, splits):
    """Paths of up to 12 features, so that some have no table of patterns; values of classes fill no whole tile."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(700, 12))
    y = np.arange(700) % n_classes
    model = VectorTreeBoostClassifier(
        n_estimators=8,
        max_leaf_nodes=splits + 1,
        min_samples_leaf=1,
        split_columns=None,
        calibrate=None,
    )
    held = model.fit(X, y).model_.with_covers(X)
    once = contributions(held, X, n_jobs=1).values
    assert (
        np.abs(held.raw_scores(X) - once.sum(axis=1) - contributions(held, X[:1]).base).max() < 1e-9
    )
    pairs = interactions(held, X[:300]).values
    monkeypatch.setattr("pymcboost._kernels.contributions.MOST_KEPT", 0)
    assert contributions(held, X, n_jobs=2).values.tobytes() == once.tobytes()
    assert interactions(held, X[:300]).values.tobytes() == pairs.tobytes()
    for i, most in enumerate((1, 1 << 10)):
        monkeypatch.setattr("pymcboost._kernels.contributions.MOST_IN_BATCH", most)
        monkeypatch.setattr("pymcboost._kernels.contributions.MOST_KEPT", i << 21)
        assert np.abs(contributions(held, X).values - once).max() < 1e-12 * max(
            1, np.abs(once).max()
        )


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="sizes of processes are Linux's")
def test_where_memory_ends_none_is_lost(monkeypatch):
    trees = covers.explainer(random_trees(np.random.default_rng(0), "vector"))
    background = np.zeros(
        (D, 1 << 20), dtype=np.float32
    )  # malloc takes room for its patterns from the system

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(
        "pymcboost._kernels.contributions.np", SimpleNamespace(diff=np.diff, zeros=no_memory)
    )
    before = int(Path("/proc/self/statm").read_text().split()[0])
    with pytest.raises(MemoryError):
        trees.by_rows(background)
    assert int(Path("/proc/self/statm").read_text().split()[0]) < before + (1 << 13)


@pytest.mark.parametrize("n_classes", [2, 9, 14, 22, 30])
def test_nothing_is_written_behind_the_classes(n_classes):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(270, 3))
    y = np.arange(270) % n_classes
    held = VectorTreeBoostClassifier(n_estimators=2, calibrate=None).fit(X, y).model_.with_covers(X)
    used, compact = held.ensemble.compact()
    trees, _ = shapley.explained(held, used, compact, background=None, n_threads=1)
    room = np.full(270 * 3 * n_classes + 32, -0.0)
    out = room[:-32].reshape(270, 3, n_classes)
    out[:] = 0
    for rows, xt in covers.blocks(X.astype(np.float32), used, compact):
        trees.add(xt, used, out[rows], 1)
    assert np.signbit(room[-32:]).all()
    assert out.tobytes() == contributions(held, X).values.tobytes()


@pytest.mark.filterwarnings("ignore:no weak learner:UserWarning")
@pytest.mark.parametrize("most", [1, 1 << 17])
@pytest.mark.parametrize("n_classes", [2, 9, 30])
@pytest.mark.parametrize("algorithm", [VectorTreeBoostClassifier, MartClassifier])
def test_fresh_results_may_hold_anything(monkeypatch, algorithm, n_classes, most):
    """With columns that no tree asks about, that only later batches ask about, and a model without a split."""
    monkeypatch.setattr("pymcboost._kernels.contributions.MOST_IN_BATCH", most)
    rng = np.random.default_rng(13)
    X = rng.normal(size=(600, 9)).astype(np.float32)
    y = np.arange(600) % n_classes
    X[:, 2] = 1.0
    for leaves in (1, 4):
        model = algorithm(
            n_estimators=3, max_leaf_nodes=max(2, leaves), calibrate=None, random_state=0
        )
        held = model.fit(np.zeros_like(X) if leaves == 1 else X, y).model_.with_covers(X)
        used, compact = held.ensemble.compact()
        trees, _ = shapley.explained(held, used, compact, background=None, n_threads=1)
        zeros = np.zeros((600, 9, n_classes))
        full = np.full((600, 9, n_classes), np.nan)
        for rows, xt in covers.blocks(X, used, compact):
            trees.add(xt, used, zeros[rows], 1)
            trees.add(xt, used, full[rows], 2, fresh=True)
        assert zeros.tobytes() == full.tobytes()
        assert zeros.any() == (leaves > 1)
        assert not zeros[:, 2].any()


def leaf_of(tree, x):
    """Node of the leaf that a row comes to, and the nodes before it."""
    at = 0
    passed = []
    while tree["children_left"][at] >= 0:
        passed.append(at)
        value = np.float32(x[tree["features"][at]])
        left = tree["children_left"][at]
        side = left if value <= tree["thresholds"][at] else tree["children_right"][at]
        at = int(tree["children_default"][at] if np.isnan(value) else side)
    return at, passed


@pytest.mark.parametrize("form", FORMS[:-1])
def test_trees_for_shap(form):
    rng = np.random.default_rng(9)
    X = rows(rng, 40)
    model = Model.from_ensemble(ensembles(rng, form)[0], range(K)).with_covers(X)
    given = to_shap(model)
    scores = np.tile(given["base_offset"], (40, 1))
    for tree in given["trees"]:
        weight = np.zeros(len(tree["features"]))
        for r, x in enumerate(X):
            leaf, passed = leaf_of(tree, x)
            scores[r] += tree["values"][leaf]
            weight[[*passed, leaf]] += 1
        assert np.array_equal(weight, tree["node_sample_weight"])
    np.testing.assert_allclose(scores, model.raw_scores(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS[:-1])
def test_shap_has_the_same_values(form):
    shap = pytest.importorskip("shap")
    X = np.random.default_rng(10).integers(-2, 3, (400, D)).astype(np.float32)
    tried = (ensembles(np.random.default_rng(seed), form)[0] for seed in range(1000))
    models = (Model.from_ensemble(one, range(K)).with_covers(X) for one in tried)
    model = next(
        one for one in models if one.ensemble.cover.min() > 0
    )  # shap refuses leaves without rows
    shapley = contributions(model, X[:30])
    explainer = shap.TreeExplainer(to_shap(model), feature_perturbation="tree_path_dependent")
    np.testing.assert_allclose(explainer.shap_values(X[:30]), shapley.values, rtol=0, atol=1e-6)
    np.testing.assert_allclose(explainer.expected_value, shapley.base, rtol=0, atol=1e-6)
    explainer = shap.TreeExplainer(to_shap(model), X[:20], feature_perturbation="interventional")
    between = contributions(model, X[:30], X[:20])
    np.testing.assert_allclose(explainer.shap_values(X[:30]), between.values, rtol=0, atol=1e-6)


def with_categories(cls, **options):
    """Rows of codes, numbers and codes, some of them missing or unknown, and a model of them with covers."""
    rng = np.random.default_rng(0)
    X = np.column_stack(
        (rng.integers(0, 20, 300), rng.normal(size=300), rng.integers(0, 4, 300))
    ).astype(float)
    X[::17, 0] = np.nan
    y = (X[:, 0] % 3 == 1) * 1 + (X[:, 1] > 0) + (X[:, 2] == 2) * (X[:, 1] > 0.5)
    fitted = cls(categorical_features=[0, 2], random_state=0, **options).fit(X, y)
    return fitted.model_.with_covers(X), X


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, MartClassifier, MCBoostClassifier])
def test_sets_of_levels_for_shap(cls):
    """The copies of a leaf have its value and its rows together; the scores of rows stay as they are."""
    model, X = with_categories(cls, n_estimators=4, min_samples_category=0)
    given = to_shap(model)
    scores = np.tile(model.ensemble.bias.astype(np.float64), (300, 1))
    cover = model.ensemble.cover
    first = model.ensemble.splits()[0] + np.arange(len(model.ensemble) + 1)
    for t, tree in enumerate(given["trees"]):
        ends = tree["children_left"] < 0
        weight = tree["node_sample_weight"]
        assert weight[ends].sum() == pytest.approx(cover[first[t] : first[t + 1]].sum())
        for side in (~ends).nonzero()[0]:
            below = sum(weight[tree[name][side]] for name in ("children_left", "children_right"))
            assert weight[side] == pytest.approx(below)
        for r, x in enumerate(X):
            scores[r] += tree["values"][leaf_of(tree, x)[0]]
    assert (
        max(len(tree["features"]) for tree in given["trees"]) > 2 * np.diff(first).max()
    )  # some were repeated
    np.testing.assert_allclose(scores, model.raw_scores(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, MartClassifier, MCBoostClassifier])
def test_shap_has_the_same_values_of_categories(cls):
    shap = pytest.importorskip("shap")
    model, X = with_categories(cls, n_estimators=4, min_samples_category=0)
    assert model.ensemble.cover.min() > 0
    shapley = contributions(model, X[:60])
    explainer = shap.TreeExplainer(to_shap(model), feature_perturbation="tree_path_dependent")
    np.testing.assert_allclose(explainer.shap_values(X[:60]), shapley.values, rtol=0, atol=1e-6)
    explainer = shap.TreeExplainer(to_shap(model), X[:20], feature_perturbation="interventional")
    between = contributions(model, X[:60], X[:20])
    np.testing.assert_allclose(explainer.shap_values(X[:60]), between.values, rtol=0, atol=1e-6)


def test_too_many_copies_for_shap(monkeypatch):
    model, _ = with_categories(MartClassifier, n_estimators=1, min_samples_category=0)
    monkeypatch.setattr("pymcboost.inspection.shap_trees.MOST_NODES", 8)
    with pytest.raises(
        ValueError, match=r"tree 0 would need more than 8 nodes for shap.*use contributions"
    ):
        to_shap(model)


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, MartClassifier, MCBoostClassifier])
def test_categories(cls):
    """Splits on sets ask about codes; missing ones, and those that the training did not have, go to their own side."""
    model, X = with_categories(cls, n_estimators=3)
    X[:3, 0] = 21, 0.5, -1
    model = model.with_covers(X)
    ensemble = model.ensemble
    cover = twin.covers(model.ensemble, X)
    assert (
        ensemble.sets() is not None
        and model.ensemble.cover.tolist() == np.concatenate(cover).tolist()
    )
    between = contributions(model, X[:8], X[40:45])
    along = contributions(model, X[:8])
    pairs = interactions(model, X[:2], X[40:45])
    for i, x in enumerate(X[:8].astype(np.float32)):
        for actual, value in (
            (between, twin.of_rows(ensemble, x, X[40:45])),
            (along, twin.of_covers(ensemble, x, cover)),
        ):
            expected, base = twin.shapley(value, 3)
            np.testing.assert_allclose(actual.values[i], expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(actual.base, base, rtol=0, atol=1e-12)
    for i, x in enumerate(X[:2].astype(np.float32)):
        expected = twin.interaction(twin.of_rows(ensemble, x, X[40:45]), 3)
        np.testing.assert_allclose(pairs.values[i], expected, rtol=0, atol=1e-12)
