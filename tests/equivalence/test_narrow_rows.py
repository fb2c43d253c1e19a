"""Softmax on scores in single precision: the kernels against those that hold all gradients, and whole trainings."""

import numpy as np
import pytest

from pymcboost import VectorTreeBoostClassifier
from pymcboost._kernels import srows as _srows
from pymcboost._kernels import vrows as _vrows
from pymcboost._kernels.aligned import aligned_zeros
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
    narrow[:, :K], narrow[:, K:] = 3 * rng.normal(size=(m, K)), UNUSED
    narrow[: m // 3, 0] += 40  # probabilities of 0 and 1
    F[:] = narrow
    y, none = rng.integers(0, K, m).astype(np.int32), np.zeros(0, dtype=np.int32)
    P = aligned_zeros((K, lanes * blocks), np.float32)
    P[:] = rng.choice([-0.5, 0, 0.5], P.shape)
    order, cut = rng.permutation(m).astype(np.int32), np.array([0, m // 3, m // 3, m], dtype=np.int64)
    for weight in (np.zeros(0), rng.random(m) + 0.1):
        G = aligned_zeros((m, width), np.float32)
        _vrows.gradient(F, None, none, y, weight, _vrows.LOSS_CODES["softmax"], 0.0, 16, G, 1)
        out, expected = (aligned_zeros((m, lanes * blocks), np.float32) for _ in range(2))
        norm = np.empty((m, 3), dtype=np.float32)
        sums = _vrows.project(G, P, weight, lanes, expected, 1)
        for n_threads in (1, 3):
            found, square = _srows.project(narrow, y, weight, P, lanes, out, norm, n_threads)
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_allclose(found, sums, rtol=1e-12)
            np.testing.assert_allclose(square, _vrows.sum_of_squares(G, weight, 16, 1), rtol=1e-12)
            leaf = _srows.leaf_sums(narrow, norm, y, weight, order, cut, n_threads)[:, :, :K]
            np.testing.assert_array_equal(leaf, _vrows.leaf_sums(G, weight, 16, order, cut, 1)[:, :, :K])


def test_entries_are_added():
    rng = np.random.default_rng(0)
    m, K = 5000, 40
    rows = NarrowRows(LOSSES["softmax"], TreeData(np.zeros((m, 1)), rng.integers(0, K, m), K, np.ones(m)), 3)
    rows.start()
    value, leaf = np.zeros((7, rows.width)), rng.integers(0, 7, m).astype(np.int32)
    value[:, :K] = np.where(rng.random((7, K)) < 0.2, rng.normal(size=(7, K)).astype(np.float32), 0)
    for _ in range(2):
        rows.add(value, leaf)
    np.testing.assert_array_equal(rows.F[:, :K], 2 * value[leaf, :K].astype(np.float32))
    assert (rows.F[:, K:] == np.float32(UNUSED)).all()
    rows.add(np.zeros_like(value), leaf)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_training_is_that_with_scores_in_double_precision(monkeypatch, weighted):
    """Up to rounding, which a first tree does not have."""
    rng = np.random.default_rng(1)
    y = np.arange(900) % 30
    X = 2 * rng.normal(size=(30, 6))[y] + rng.normal(size=(900, 6))
    weight = rng.random(900) + 0.5 if weighted else None
    params = {"max_leaf_entries": 5, "random_state": 0, "calibrate": None}
    narrow, wide = [], []
    for found in (narrow, wide):
        for n in (1, 10):
            found.append(VectorTreeBoostClassifier(n_estimators=n, **params).fit(X, y, sample_weight=weight).model_)
        monkeypatch.setattr(VectorTreeBoost, "narrow", False)
    assert narrow[0].to_bytes() == wide[0].to_bytes()
    np.testing.assert_allclose(narrow[1].raw_scores(X), wide[1].raw_scores(X), atol=1e-4)
    assert narrow[1].to_bytes() != wide[1].to_bytes()  # two ways indeed
