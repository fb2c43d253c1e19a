"""Contributions: equal to Shapley values by their definition, on small trees of every form."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from reference import contributions as twin

from pymcboost.inspection import contributions
from pymcboost.model.model import Model
from pymcboost.model.stumps import Stumps
from pymcboost.model.trees import Trees

D, K = 4, 3


def shape(rng, splits):
    """Offsets to the right children of a random tree in preorder."""
    if not splits:
        return []
    left = int(rng.integers(0, splits))
    return [left + 1, *shape(rng, left), *shape(rng, splits - 1 - left)]


def random_trees(rng, form):
    sizes = [0, 1, 2, 3, 5, 8] if form != "class stumps" else [1, 0, 1, 1]
    t, s = len(sizes), sum(sizes)
    vector = form == "vector"
    code = rng.normal(size=(2, K)).astype(np.float32) if form == "code" else None
    cls = None if vector else rng.integers(0, 2 if form == "code" else K, t)
    base = (cls + 1) % K if form == "base" else None
    if base is not None:
        base[0] = -1
    return Trees(
        np.cumsum([0, *sizes]), rng.integers(0, D, s), rng.integers(-1, 2, s).astype(np.float32), rng.random(s) < 0.5,
        np.array([step for size in sizes for step in shape(rng, size)], dtype=np.int64),
        rng.normal(size=(s + t, K) if vector else s + t).astype(np.float32), cls, base, np.array([0, 2, t]),
        rng.normal(size=K).astype(np.float32), D, code,
    )  # fmt: skip


def random_stumps(rng, n=6):
    left = rng.normal(size=(n, K)).astype(np.float32) if n > 3 else None
    return Stumps(
        rng.integers(0, D, n), rng.integers(-1, 2, n).astype(np.float32), rng.random(n) < 0.5,
        rng.normal(size=(n, K)).astype(np.float32), left, rng.normal(size=K).astype(np.float32), D,
    )  # fmt: skip


def rows(rng, m):
    X = rng.integers(-2, 3, (m, D)).astype(np.float32)
    X[rng.random((m, D)) < 0.2] = np.nan
    return X


FORMS = ["vector", "class", "base", "code", "class stumps", "stumps", "symmetric stumps", "interval"]


def ensembles(rng, form):
    if "stumps" in form and form != "class stumps":
        return random_stumps(rng, 3 if "symmetric" in form else 6), {}
    if form == "interval":
        return random_stumps(rng), {"layout": "interval"}
    return random_trees(rng, form), {}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_background_rows(form, seed):
    rng = np.random.default_rng(seed)
    ensemble, options = ensembles(rng, form)
    model = Model.from_ensemble(ensemble, range(K), **options)
    X, background = rows(rng, 5), rows(rng, 6)
    found = contributions(model, X, background)
    assert np.abs(found.base + found.values.sum(axis=1) - model.raw_scores(X)).max() < 1e-12
    for x, values in zip(X, found.values, strict=True):
        expected, base = twin.shapley(twin.of_rows(ensemble, x, background), D)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.base, base, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS[:-1])
@pytest.mark.parametrize("seed", range(3))
def test_covers(form, seed):
    rng = np.random.default_rng(seed)
    ensemble, _ = ensembles(rng, form)
    X, seen = rows(rng, 5), rows(rng, 9)
    cover = twin.covers(ensemble, seen)
    model = Model.from_ensemble(ensemble, range(K)).with_covers(seen)
    assert np.array_equal(model.ensemble.cover, np.concatenate(cover))
    found = contributions(model, X)
    assert np.abs(found.base + found.values.sum(axis=1) - model.raw_scores(X)).max() < 1e-12
    for x, values in zip(X, found.values, strict=True):
        expected, base = twin.shapley(twin.of_covers(ensemble, x, cover), D)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.base, base, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [2, 4, 5, 39, 71])
def test_classes_do_not_depend_on_each_other(k):
    """Classes are added in blocks of 32, 4, 2 and 1."""
    rng = np.random.default_rng(k)
    few = random_trees(rng, "vector")
    leaf = rng.normal(size=(len(few.leaf), k)).astype(np.float32)
    many = replace(few, leaf=leaf, bias=np.zeros(k, dtype=np.float32))
    X = rows(rng, 20)
    found = contributions(Model.from_ensemble(many, range(k)).with_covers(X), X)
    for begin in range(0, k - 1, 2):
        pair = replace(many, leaf=leaf[:, begin : begin + 2], bias=np.zeros(2, dtype=np.float32))
        alone = contributions(Model.from_ensemble(pair, range(2)).with_covers(X), X)
        assert alone.values.tobytes() == found.values[:, :, begin : begin + 2].tobytes()
    last = replace(many, leaf=leaf[:, -2:], bias=np.zeros(2, dtype=np.float32))
    alone = contributions(Model.from_ensemble(last, range(2)).with_covers(X), X)
    assert alone.values.tobytes() == found.values[:, :, -2:].tobytes()


def chain(d, rng):
    """One tree that is a chain: a path of d different features."""
    return Trees(
        np.array([0, d]), rng.permutation(d), np.zeros(d, dtype=np.float32), np.zeros(d, dtype=bool),
        np.ones(d, dtype=np.int64), rng.normal(size=(d + 1, 2)).astype(np.float32), None, None, np.array([0, 1]),
        np.zeros(2, dtype=np.float32), d,
    )  # fmt: skip


def test_long_paths_by_their_definition():
    rng = np.random.default_rng(3)
    ensemble = chain(10, rng)
    model = Model.from_ensemble(ensemble, range(2))
    X = np.where(rng.random((20, 10)) < 0.8, 1.0, -1.0).astype(np.float32)
    between, along = contributions(model, X, X[:3]).values, contributions(model.with_covers(X), X).values
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
        found = contributions(held, X, background)
        assert np.abs(found.base + found.values.sum(axis=1) - model.raw_scores(X)).max() < 1e-9


def test_longer_paths_are_refused():
    model = Model.from_ensemble(chain(65, np.random.default_rng(0)), range(2))
    with pytest.raises(ValueError, match="more than 64 different features"):
        contributions(model, np.zeros((1, 65)), np.zeros((1, 65)))


@pytest.mark.parametrize("form", ["vector", "class", "stumps"])
def test_threads_sparse_rows_and_order_change_nothing(form):
    rng = np.random.default_rng(5)
    model = Model.from_ensemble(ensembles(rng, form)[0], range(K))
    X = np.nan_to_num(rows(rng, 1100))
    found = contributions(model, X, X[:50], n_jobs=1)
    assert contributions(model, X, X[:50], n_jobs=3).values.tobytes() == found.values.tobytes()
    sparse = contributions(model, scipy.sparse.csr_matrix(X), scipy.sparse.csc_matrix(X[:50]))
    assert sparse.values.tobytes() == found.values.tobytes()
    for part in (slice(0, 1), slice(7, 600)):
        assert contributions(model, X[part], X[:50]).values.tobytes() == found.values[part].tobytes()
    held = model.with_covers(scipy.sparse.csr_matrix(X))
    assert held.to_bytes() == model.with_covers(X).to_bytes()
    alone = contributions(held, X, n_jobs=1).values
    assert contributions(held, X, n_jobs=3).values.tobytes() == alone.tobytes()
    assert contributions(held, X[7:600]).values.tobytes() == alone[7:600].tobytes()
