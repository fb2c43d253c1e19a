"""Losses: what each says against numerical derivatives, a loss written in NumPy, and the limits of the kernels."""

import numpy as np
import pytest
from reference import vtrees as twin

from pymcboost._kernels import class_loss
from pymcboost._kernels import pairwise_weights as weight_kernel
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import PARTS, of_parts, units_in_parts
from pymcboost.data.stump_data import TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import EdgeStumps, SharedStump
from pymcboost.learners.class_trees import ClassTrees
from pymcboost.learners.vector_trees import LARGEST_STEP, VectorTrees
from pymcboost.losses import LOSSES, Loss


class NumPySoftmax(Loss):
    """The softmax loss as a user writes it."""

    def value(self, F, y):
        return -np.log(twin.softmax(F)[np.arange(len(y)), y])

    def gradient(self, F, y):
        return np.eye(F.shape[1])[y] - twin.softmax(F)

    def curvature(self, F, y):
        p = twin.softmax(F)
        return p * (1 - p)


class NumPyGradients(NumPySoftmax):
    """The same without curvature."""

    curvature = Loss.curvature


def blobs(m, d, K, seed):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    return rng.normal(size=(m, d)) + rng.normal(size=(K, d))[y], y


def vector_trees(data, rows, leaf_step="diagonal", max_leaves=8):
    return VectorTrees(
        data,
        rows,
        max_leaves=max_leaves,
        max_depth=None,
        min_samples_leaf=2,
        max_features=1.0,
        leaf_step=leaf_step,
        learning_rate=0.3,
        n_threads=1,
    )


@pytest.mark.parametrize("K", [2, 5, 20])
def test_gradients_are_derivatives_of_the_value(K):
    loss = LOSSES["softmax"]
    rng = np.random.default_rng(K)
    e = 1e-5
    F = rng.normal(size=(30, K))
    y = rng.integers(0, K, 30)
    np.testing.assert_allclose(loss.value(F, y).sum(), twin.loss_of(F, y, np.ones(30)), rtol=1e-12)
    for r in range(K):
        up, down = F.copy(), F.copy()
        up[:, r] += e
        down[:, r] -= e
        slope = (loss.value(down, y) - loss.value(up, y)) / (2 * e)
        np.testing.assert_allclose(loss.gradient(F, y)[:, r], slope, rtol=1e-5, atol=1e-7)
        second = (loss.gradient(down, y)[:, r] - loss.gradient(up, y)[:, r]) / (2 * e)
        np.testing.assert_allclose(loss.curvature(F, y)[:, r], second, atol=0.02)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [2, 3, 11, 20])
def test_a_loss_written_in_numpy_grows_the_same_trees(K, weighted):
    m = 400
    X, y = blobs(m, 5, K, seed=K)
    weight = np.random.default_rng(0).uniform(0.5, 2, m) if weighted else np.ones(m)
    data = TreeData(X, y, K, sample_weight=weight)
    built_in = LOSSES["softmax"].rows(data)
    written = NumPySoftmax().rows(data)
    learners = [vector_trees(data, rows) for rows in (built_in, written)]
    for rows in (built_in, written):
        rows.start()
    for t in range(8):
        one, other = (learner.fit(t) for learner in learners)
        np.testing.assert_array_equal(one.feature, other.feature)
        np.testing.assert_array_equal(one.threshold, other.threshold)
        np.testing.assert_allclose(one.value, other.value, rtol=1e-4, atol=1e-6)
        built_in.add(one.value, one.leaf)
        written.add(other.value, other.leaf)
    np.testing.assert_allclose(built_in.value(), written.value(), rtol=1e-5)
    assert written.value() < 0.8 * data.weight.sum() * np.log(K)


def test_a_loss_without_curvature_steps_along_the_mean_gradient():
    X, y = blobs(200, 4, 3, seed=0)
    data = TreeData(X, y, 3, sample_weight=np.random.default_rng(1).uniform(0.5, 2, 200))
    rows = NumPyGradients().rows(data)
    rows.start()
    before = rows.value()
    tree = vector_trees(data, rows).fit(0)
    g = NumPyGradients().gradient(np.zeros((200, 3)), data.y)
    for j in range(len(tree.feature) + 1):
        here = tree.leaf == j
        expected = 0.3 * 2 / 3 * np.average(g[here], axis=0, weights=data.weight[here])
        np.testing.assert_allclose(tree.value[j, :3], expected, atol=1e-6)
    rows.add(tree.value, tree.leaf)
    assert rows.value() < before


@pytest.mark.parametrize("K", [3, 20])
def test_ridge_of_the_full_leaf_step(K):
    """Newton's step with one twentieth of the mean curvature added to every class's own."""
    m = 300
    X, y = blobs(m, 4, K, seed=3)
    data = TreeData(X, y, K, sample_weight=np.ones(m))
    F = np.random.default_rng(2).normal(size=(m, K)) / 2
    rows = LOSSES["softmax"].rows(data)
    rows.start(F)
    tree = vector_trees(data, rows, "full", max_leaves=5).fit(0)
    for j in range(len(tree.feature) + 1):
        here = np.flatnonzero(tree.leaf == j)
        g = twin.gradient_of(F[here], data.y[here]).sum(axis=0)
        H = twin.hessian_of(F[here], np.ones(len(here)))
        step = np.linalg.solve(H + 0.05 * np.trace(H) / K * np.eye(K), g)
        step = np.clip(step, -LARGEST_STEP, LARGEST_STEP)
        np.testing.assert_allclose(
            tree.value[j, :K], 0.3 * (step - step.mean()), rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [3, 7, 20])
def test_odds_of_the_logistic_loss_are_capped(dtype, K):
    """Odds stop at 1e30, so that they come back from there; smaller ones are exact multiples."""
    m = 40
    lanes = 4 if K <= 4 else 8 if K <= 8 else 16
    blocks = -(-K // lanes)
    Q, A = aligned_zeros((blocks, m, lanes), dtype), aligned_zeros((blocks, m, lanes), dtype)
    of_class = np.ones(blocks * lanes, dtype=bool)
    of_class[0] = of_class[K:] = False  # rows of class 0, and the padding
    for b in range(blocks):
        Q[b, :, of_class[b * lanes : (b + 1) * lanes]] = 1e20
    h = np.where(np.arange(m) % 2, 1, -1).astype(np.int8)
    starts, classes = weight_kernel.chunks(np.array([0, m] + [m] * (K - 1)))
    factors = aligned_zeros((3, K, blocks * lanes), dtype)

    def move(plus, minus):
        tables = np.full((K, K), plus), np.full((K, K), minus)
        weight_kernel.log_update(
            Q, A, h, np.full(m, 2.0), starts, classes, *tables, 1e-30, factors, 1
        )
        found = np.concatenate(list(Q), axis=1)
        assert (found[:, ~of_class] == 0).all()
        gradient = np.concatenate(list(A), axis=1)
        np.testing.assert_allclose(gradient[:, of_class], -2.0, rtol=1e-6)  # -weight q / (1 + q)
        np.testing.assert_allclose(gradient[:, 0], 2.0 * (K - 1), rtol=1e-6)
        return found[1::2, of_class], found[::2, of_class]

    up, down = move(1e9, 1e11)
    np.testing.assert_allclose(up, 1e29, rtol=1e-6)
    assert (down == dtype(1e30)).all()
    up, down = move(1e15, 1e-10)
    assert (up == dtype(1e30)).all()
    np.testing.assert_allclose(down, 1e20, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 128])
def test_losses_of_base_classes_keep_their_digits(n, weighted):
    """log(1 + x) of the smallest x is x: a sum of losses far below the rounding of 1 is exact to 1e-14."""
    leaf = np.zeros((1, n), dtype=np.uint8)
    own = np.zeros(1, dtype=np.int32)
    factor = np.ones((2, 1, 32))
    weight = np.full(n, 0.75) if weighted else np.zeros(0)
    units = units_in_parts(173.0, n)
    for x in 10.0 ** np.linspace(-25, -0.5, 60):
        S = np.full((2, n), x / (1 + x))
        loss = np.empty((1, 2, PARTS), dtype=np.int64)
        class_loss.try_bases(
            S,
            np.array([0, n]),
            own,
            leaf=leaf,
            factor=factor,
            pair=np.array([[0, 1]], dtype=np.int32),
            tried=np.ones(2, dtype=np.uint8),
            weight=weight,
            magic=units[1],
            loss=loss,
            n_threads=1,
        )
        expected = n * (0.75 if weighted else 1) * np.log1p(x)
        # Beyond 0.003 the logarithm of the sum is taken, whose rounding is that of 1.
        rounding = 3e-16 / x if x > 0.0029 else 0
        np.testing.assert_allclose(of_parts(loss, units)[0], expected, rtol=1e-13 + rounding)


def test_head_room_of_second_derivatives():
    """The sum of the second derivatives of two classes is at most the units there are, and not far below."""
    m = 500
    K = 3
    X, y = blobs(m, 3, K, seed=5)
    y[y == 2] = y[2] = 0
    y[2] = 2
    data = TreeData(X, y, K, sample_weight=np.ones(m))
    trees = ClassTrees(
        data, max_leaves=4, max_depth=None, min_samples_leaf=1, h_is_weight=False, n_threads=1
    )
    F = np.zeros((m, K))
    F[:, 2] = -20  # two classes share all of the probability: the bound is met
    F[:, :2] = np.random.default_rng(0).normal(size=(m, 2)) / 4
    trees.restart(F)
    p = twin.softmax(F)
    seen = []
    real = trees._grower

    class Noting:
        def grow_softmax(self, *arguments, **options):
            seen.append(next(a for a in arguments if getattr(a, "shape", None) == (1, 3)))
            return real.grow_softmax(*arguments, **options)

    trees._grower = Noting()
    trees.grow([(0, 1)], 0.1, None, np.zeros(0, dtype=np.uint8))
    h = p[:, 0] * (1 - p[:, 0]) + p[:, 1] * (1 - p[:, 1]) + 2 * p[:, 0] * p[:, 1]
    needed = h.sum() * seen[0][0, 1] + m  # each rounds up by one at most
    assert 0.9 * trees.units.limit_h < needed <= trees.units.limit_h + 2 * m


@pytest.mark.parametrize("K", [3, 8, 20, 40])
@pytest.mark.parametrize("kind", ["few", "skewed", "continuous"])
def test_ties_between_classes_go_to_the_lower_one(kind, K):
    """Also those in different blocks of lanes, whatever the signs of the edges."""
    rng = np.random.default_rng(K)
    m = 300
    x = {"few": rng.integers(0, 4, m), "continuous": rng.normal(size=m)}.get(kind)
    x = np.where(rng.random(m) < 0.9, 7.0, rng.integers(0, 300, m)) if x is None else x
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    data = TrainingData(x[:, None].astype(float), y, K, sample_weight=np.ones(m))
    column = rng.integers(-9, 10, m)
    for low, high in [(0, 1), (1, 2), (0, K - 1), (K // 2 - 1, K - 1), (K - 2, K - 1)]:
        for sign in (1, -1):
            gradient = data.gradient_buffer()
            for r, value in ((low, column), (high, sign * column)):
                gradient[r // data.lanes, :, r % data.lanes] = value
            assert SharedStump(data, 1).fit(gradient).cls == low


@pytest.mark.parametrize("kind", ["few", "skewed"])
def test_long_sums_of_floats_are_those_of_doubles(kind):
    """Sums beyond 2^24 of odd numbers, exact only where parts of them are added in double."""
    m = {"few": 70_000, "skewed": 400_000}[kind]
    K = 2
    x = np.arange(m) % (2 if kind == "few" else 8) == 1  # one row in 8: only these are listed
    data = TrainingData(x[:, None].astype(float), np.arange(m) % K, K, sample_weight=np.ones(m))
    assert data.dtype == np.float32
    gradient = data.gradient_buffer()
    left = data.X[data.rows, 0] == 0
    gradient[0, :, 0] = np.where(left, -1023, 1021)
    (found,) = [one for one in EdgeStumps(data, 1).fit(gradient) if one.cls == 0]
    assert found.edge == 1023 * left.sum() + 1021 * (~left).sum()
