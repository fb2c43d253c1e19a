"""Softmax on scores in single precision: the kernels against those that hold all gradients, and whole trainings."""

import numpy as np
import pytest

from pymcboost import VectorTreeBoostClassifier
from pymcboost._kernels import float32_loss as _float32_loss
from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import magic_of, unit_of, units_of
from pymcboost.algorithms import vector_tree
from pymcboost.algorithms.vector_tree import VectorTreeBoost
from pymcboost.data.tree_data import TreeData
from pymcboost.losses import LOSSES
from pymcboost.losses.narrow import NarrowRows
from pymcboost.losses.rows import UNUSED


@pytest.mark.parametrize(("lanes", "blocks"), [(4, 1), (8, 1), (16, 2)])
@pytest.mark.parametrize(("m", "K"), [(1, 3), (70, 16), (9001, 5), (5000, 100)])
def test_kernels_give_the_bits_of_those_that_hold_gradients(m, K, lanes, blocks):
    rng = np.random.default_rng(m)
    width = 16 * (K // 16 + 1)
    narrow, F = aligned_zeros((m, width), np.float32), aligned_zeros((m, width), np.float64)
    narrow[:, :K] = 3 * rng.normal(size=(m, K))
    narrow[:, K:] = UNUSED
    narrow[: m // 3, 0] += 40  # probabilities of 0 and 1
    F[:] = narrow
    y = rng.integers(0, K, m).astype(np.int32)
    none = np.zeros(0, dtype=np.int32)
    P = aligned_zeros((K, lanes * blocks), np.float32)
    P[:] = rng.choice([-0.5, 0, 0.5], P.shape)
    order = rng.permutation(m).astype(np.int32)
    cut = np.array([0, m // 3, m // 3, m], dtype=np.int64)
    for weight in (np.zeros(0), rng.random(m) + 0.1):
        G = aligned_zeros((m, width), np.float32)
        _vector_loss.gradient(
            F,
            None,
            none,
            y=y,
            weight=weight,
            loss=_vector_loss.SOFTMAX,
            lanes=16,
            magic=1.0,
            G=G,
            n_threads=1,
        )
        out, expected = (aligned_zeros((m, lanes * blocks), np.float32) for _ in range(2))
        norm = np.empty((m, 3), dtype=np.float32)
        magic = magic_of(unit_of(1.1 * K / 2, m * width)), magic_of(unit_of(1.2, m * width))
        sums = _vector_loss.project(
            G, P, weight, lanes=lanes, magic=magic[0], out=expected, n_threads=1
        )
        count = np.diff(cut)
        for n_threads in (1, 3):
            actual, square = _float32_loss.project(
                narrow,
                None,
                y,
                y=y,
                weight=weight,
                P=P,
                lanes=lanes,
                magic=np.array(magic),
                out=out,
                norm=norm,
                n_threads=n_threads,
            )
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(actual, sums)
            assert_adds_a_tree(
                rng, narrow, (y, weight, P, lanes, np.array(magic)), out=out, n_threads=n_threads
            )
            np.testing.assert_allclose(
                square,
                _vector_loss.sum_of_squares(G, weight, 16, magic=magic[1], n_threads=1),
                rtol=1e-6,
            )
            tops = _vector_loss.leaf_bounds(G, 16, order, leaf_start=cut, n_threads=1)
            others, own = np.moveaxis(
                _float32_loss.leaf_bounds(
                    narrow, norm, y, rows=order, leaf_start=cut, n_threads=n_threads
                ),
                1,
                0,
            )
            bounds = np.maximum(np.exp(others), own)
            assert (tops <= 1.0001 * bounds).all()
            assert (bounds[count > 0, :K] <= 1.001 * K * tops[count > 0, :K]).all()
            units = magic_of(units_of(1.001 * weight.max(initial=1) * bounds, count[:, None]))
            leaf = _float32_loss.leaf_sums(
                narrow,
                norm,
                y,
                weight=weight,
                rows=order,
                leaf_start=cut,
                magic=units,
                n_threads=n_threads,
            )[:, :, :K]
            np.testing.assert_array_equal(
                leaf,
                _vector_loss.leaf_sums(
                    G, weight, 16, rows=order, leaf_start=cut, magic=units, n_threads=1
                )[:, :, :K],
            )


def assert_adds_a_tree(rng, F, params, out, n_threads):
    """A tree that is added on the way: the bits of adding it before."""
    vectors = rng.normal(size=(7, F.shape[1])).astype(np.float32)
    leaf = rng.integers(0, 7, len(F)).astype(np.int32)
    here = F.copy()
    there = F.copy()
    found = np.empty_like(out)
    norm = np.empty((len(F), 3), dtype=np.float32)
    expected = np.empty_like(out)
    _float32_loss.add_rows(there, vectors, leaf, n_threads=1)
    _float32_loss.project(there, None, leaf, *params, expected, norm, 1)
    _float32_loss.project(here, vectors, leaf, *params, found, norm, n_threads)
    np.testing.assert_array_equal(here, F + vectors[leaf])
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(found, expected)


def test_sums_of_leaves_of_one_row_are_its_gradients():
    """Also where exponentials end."""
    rng = np.random.default_rng(2)
    m = 90
    K = 30
    width = 32
    narrow, F, G = (
        aligned_zeros((m, width), dtype) for dtype in (np.float32, np.float64, np.float32)
    )
    narrow[:, :K] = rng.uniform(0, 10.0 ** rng.uniform(0, 3, (m, 1)), (m, K))
    narrow[:, K:] = UNUSED
    F[:] = narrow
    y = rng.integers(0, K, m).astype(np.int32)
    none = np.zeros(0)
    all_rows = np.arange(m, dtype=np.int32)
    _vector_loss.gradient(
        F,
        None,
        y[:0],
        y=y,
        weight=none,
        loss=_vector_loss.SOFTMAX,
        lanes=16,
        magic=1.0,
        G=G,
        n_threads=1,
    )
    data = TreeData(np.zeros((m, 1)), y.astype(np.int64), K, sample_weight=np.ones(m))
    rows = NarrowRows(LOSSES["softmax"], data, 1)
    rows.start(narrow[data.rows, :K])
    rows.directions(3).integers(0)
    G = G[data.rows, :K]
    y = y[data.rows]
    found = rows._sums(None, all_rows, np.arange(m + 1))[:, 0]
    bounds = rows._bounds(None, all_rows, np.arange(m + 1))[:, :K]
    assert (np.abs(G) <= 1.001 * bounds).all()
    G[np.arange(m), y] = found[np.arange(m), y] = 0
    np.testing.assert_allclose(found, G, rtol=2.0**-16)


def test_entries_are_added():
    rng = np.random.default_rng(0)
    m = 5000
    K = 40
    rows = NarrowRows(
        LOSSES["softmax"],
        TreeData(np.zeros((m, 1)), rng.integers(0, K, m), K, sample_weight=np.ones(m)),
        3,
    )
    rows.start()
    value = np.zeros((7, rows.width))
    leaf = rng.integers(0, 7, m).astype(np.int32)
    value[:, :K] = np.where(rng.random((7, K)) < 0.2, rng.normal(size=(7, K)).astype(np.float32), 0)
    for _ in range(2):
        rows.add(value, leaf)
    np.testing.assert_array_equal(rows.F[:, :K], 2 * value[leaf, :K].astype(np.float32))
    assert (rows.F[:, K:] == np.float32(UNUSED)).all()
    rows.add(np.zeros_like(value), leaf)


@pytest.mark.parametrize("entries", [5, None])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_training_is_that_with_scores_in_double_precision(monkeypatch, weighted, entries):
    """Up to rounding, which a first tree does not have."""
    rng = np.random.default_rng(1)
    y = np.arange(900) % 30
    X = 2 * rng.normal(size=(30, 6))[y] + rng.normal(size=(900, 6))
    weight = rng.random(900) + 0.5 if weighted else None
    params = {"max_leaf_entries": entries, "split_columns": 7, "random_state": 0, "calibrate": None}
    monkeypatch.setattr(vector_tree, "MANY_CLASSES", 0)
    monkeypatch.setattr(vector_tree, "MOST_WIDE_SCORES", 0)
    narrow = []
    wide = []
    for found in (narrow, wide):
        for n in (1, 10):
            found.append(
                VectorTreeBoostClassifier(n_estimators=n, **params)
                .fit(X, y, sample_weight=weight)
                .model_
            )
        monkeypatch.setattr(VectorTreeBoost, "narrow", False)
    assert narrow[0].to_bytes() == wide[0].to_bytes()
    np.testing.assert_allclose(narrow[1].raw_scores(X), wide[1].raw_scores(X), atol=1e-4)
    assert narrow[1].to_bytes() != wide[1].to_bytes()  # two ways indeed


def many(monkeypatch, **options):
    """An estimator, not fitted, that holds scores alone, and 900 rows of 30 classes."""
    rng = np.random.default_rng(1)
    y = np.arange(900) % 30
    X = 2 * rng.normal(size=(30, 6))[y] + rng.normal(size=(900, 6))
    monkeypatch.setattr(vector_tree, "MANY_CLASSES", 0)
    monkeypatch.setattr(vector_tree, "MOST_WIDE_SCORES", 0)
    return (
        VectorTreeBoostClassifier(split_columns=7, random_state=0, calibrate=None, **options),
        X,
        y,
    )


def test_all_entries_of_a_training_that_goes_on(monkeypatch):
    whole, X, y = many(monkeypatch, n_estimators=8)
    parts = many(monkeypatch, n_estimators=3, warm_start=True)[0]
    assert (
        parts.fit(X, y).set_params(n_estimators=8).fit(X, y).model_.to_bytes()
        == whole.fit(X, y).model_.to_bytes()
    )
    assert (
        many(monkeypatch, n_estimators=8, n_jobs=2)[0].fit(X, y).model_.to_bytes()
        == whole.model_.to_bytes()
    )


def test_refitted_leaves_are_those_of_scores_in_double_precision(monkeypatch):
    found = []
    for narrow in (True, False):
        model, X, y = many(monkeypatch, n_estimators=4)
        model.fit(X, y)
        monkeypatch.setattr(vector_tree, "MOST_WIDE_SCORES", 0 if narrow else 1 << 24)
        found.append(model.refit_leaves(X[::2], y[::2], decay=0.3).model_.raw_scores(X))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)


def test_whole_leaves_are_added():
    rng = np.random.default_rng(0)
    m = 5000
    K = 40
    rows = NarrowRows(
        LOSSES["softmax"],
        TreeData(np.zeros((m, 1)), rng.integers(0, K, m), K, sample_weight=np.ones(m)),
        3,
    )
    rows.start()
    value = np.zeros((7, rows.width))
    leaf = rng.integers(0, 7, m).astype(np.int32)
    value[:, :K] = rng.normal(size=(7, K)).astype(np.float32)
    for _ in range(2):
        rows.add(value, leaf)
    np.testing.assert_array_equal(rows.F[:, :K], 2 * value[leaf, :K].astype(np.float32))
    assert (rows.F[:, K:] == np.float32(UNUSED)).all()
