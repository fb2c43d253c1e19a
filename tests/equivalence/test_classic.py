"""The classic boosters, their losses, steps and kernels against naive twins, and the identities between them."""

import functools
import itertools
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from equivalence.test_trees import KINDS as EVERY_KIND
from reference import classic as twin
from reference import trees as tree_twin
from reference.scoring import decoded, leaf_number
from reference.stumps import outputs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state

from pymcboost import (
    AdaBoostECCClassifier,
    AdaBoostERPClassifier,
    AdaBoostM1Classifier,
    AdaBoostM2Classifier,
    AdaBoostMHClassifier,
    AdaBoostMLClassifier,
    AdaBoostMOClassifier,
    AdaBoostOCClassifier,
    GentleBoostClassifier,
    GradBoostClassifier,
    JointBoostClassifier,
    MCBoostClassifier,
    PIBoostClassifier,
    SAMMEClassifier,
)
from pymcboost._kernels import classwise_trees as tree_kernel
from pymcboost._kernels import pairwise_weights as weight_kernel
from pymcboost._kernels import splits as split_kernel
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import units_in_parts
from pymcboost.algorithms.papers.adaboost_ml import logistic_step, own_slopes
from pymcboost.data.rows import LARGEST_THRESHOLD
from pymcboost.data.stump_data import TrainingData, layout
from pymcboost.data.tree_data import Grown, TreeData
from pymcboost.learners import (
    ClassStump,
    EdgeStumps,
    EdgeTrees,
    Resampled,
    TotalStump,
    draw,
    draw_distinct,
)
from pymcboost.losses import PAIRWISE, ClassWeights, CodedExp
from pymcboost.losses.codes import all_pairs, exhaustive, one_vs_all, random_half, separators
from pymcboost.solvers.roots import LARGEST_COEFFICIENT, coded_steps, common_step

KINDS = {
    name: kind
    for name, kind in EVERY_KIND.items()
    if name not in ("one value or missing", "signed zero")
}


def mixture(m, rng):
    return np.column_stack([np.asarray(kind(rng, m), dtype=float) for kind in KINDS.values()])


def blobs(m, d, K, seed=0, spread=3.0):
    """Classes that overlap; continuous features without ties."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    X = rng.normal(size=(m, d)) * spread + rng.normal(size=(K, d))[y] * 2
    return X.astype(np.float32), y


def packed(A, dtype):
    """Columns (m, P) in blocks of lanes."""
    lanes, n_blocks = layout(A.shape[1])
    blocks = aligned_zeros((n_blocks, len(A), lanes), dtype)
    for j, column in enumerate(A.T):
        blocks[j // lanes, :, j % lanes] = column
    return blocks


def unpacked(blocks, P):
    return np.concatenate(list(blocks), axis=1)[:, :P].astype(np.float64)


def nasty_weights(m, rng):
    """Some rows of weight 0, the others over twelve orders of magnitude."""
    return np.where(rng.random(m) < 0.2, 0.0, 10.0 ** rng.integers(-6, 6, m))


def classes(m, K, rng):
    """Labels; where there are more than two classes, class 1 is missing."""
    return rng.choice(np.delete(np.arange(K), 1) if K > 2 else np.arange(2), m)


# -- kernels ---------------------------------------------------------------------------------------------------------

SHAPES = [
    (1, 2, 1),
    (5, 2, 2),
    (63, 3, 7),
    (300, 17, 17),
    (700, 100, 100),
    (9500, 5, 5),
    (8300, 3, 21),
]
PRECISION = {np.float32: 1e-6, np.float64: 1e-14}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("m", "K", "P"), SHAPES)
@pytest.mark.part(3)
def test_column_sums_and_updates(m, K, P, own, dtype):
    rng = np.random.default_rng(m + P)
    y = np.sort(classes(m, K, rng)).astype(np.int32)
    start = np.searchsorted(y, np.arange(K + 1)).astype(np.int64)
    A = packed(rng.normal(size=(m, P)) * 10.0 ** rng.integers(-6, 6, (m, P)), dtype)
    h = rng.choice([-1, 1], (P if own else 1, m)).astype(np.int8)
    starts, of_chunk = weight_kernel.chunks(start)
    lanes = A.shape[2]
    before = unpacked(A, P)
    side = h.T > 0
    expected, size = np.zeros((2, K, P)), np.zeros((2, K, P))
    for c in range(K):
        for s, rows in enumerate((side & (y == c)[:, None], ~side & (y == c)[:, None])):
            expected[s, c], size[s, c] = (
                (before * rows).sum(axis=0),
                (np.abs(before) * rows).sum(axis=0),
            )
    plus, minus = rng.exponential(size=(K, P)), rng.exponential(size=(K, P))
    least = rng.choice([-1e-30, 0.0, 1e-30], (K, P))
    after = before * np.where(side, plus[y], minus[y]) + least[y]
    seen = []
    for n_threads in (1, 3):
        B = A.copy()
        out = np.full((2, K, P), np.nan)
        B = packed(before, dtype)
        partial = np.full((len(of_chunk), 2, len(A), lanes), np.nan)
        weight_kernel.column_sums(
            B, h, starts, classes=of_chunk, partial=partial, out=out, n_threads=n_threads
        )
        assert (np.abs(out - expected) <= 30 * PRECISION[dtype] * size).all()
        rows = aligned_zeros((3, K, len(A) * lanes), dtype)
        rows[:, :, :P] = plus, minus, least
        weight_kernel.column_update(
            B, h, starts, classes=of_chunk, factors=rows, n_threads=n_threads
        )
        np.testing.assert_allclose(unpacked(B, P), after, rtol=PRECISION[dtype], atol=1e-36)
        assert (np.concatenate(list(B), axis=1)[:, P:] == 0).all()
        seen.append(out.tobytes() + B.tobytes())
    assert seen[0] == seen[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "K"), [(1, 2), (5, 3), (4097, 5), (300, 17), (200, 100)])
def test_combine(m, K, dtype):
    rng = np.random.default_rng(m)
    A = packed(rng.normal(size=(m, K)), dtype)
    weights = aligned_zeros(A.shape[0] * A.shape[2], dtype)
    weights[:K] = rng.normal(size=K)
    for n_threads in (1, 2):
        out = aligned_zeros((1, m, 4), dtype)
        weight_kernel.combine(A, weights, out, n_threads=n_threads)
        terms = unpacked(A, K) * weights[:K].astype(float)
        assert (
            np.abs(out[0, :, 0] - terms.sum(axis=1))
            <= 10 * PRECISION[dtype] * np.abs(terms).sum(axis=1)
        ).all()
        assert (out[0, :, 1:] == 0).all()


def searched(X, y, K, weight=None, **options):
    """Training data and the used rows of X as they are compared."""
    data = TrainingData(
        X, y, K, sample_weight=np.ones(len(y)) if weight is None else weight, **options
    )
    return data, (X.toarray() if scipy.sparse.issparse(X) else X)[data.rows].astype(np.float32)


def every_edge(search, data, X, A):
    """Edges of all codes of all slots (codes, P) in the search's order, NaN where a code is no split."""
    rows = []
    for store in data.stores:
        for feature, thresholds in zip(store.feature, store.thresholds, strict=True):
            gone = np.isnan(X[:, feature]).any()
            for threshold in thresholds:
                rows.append(outputs(X[:, feature], threshold, False) @ A)
                nan_left = gone and threshold != LARGEST_THRESHOLD
                rows.append(
                    outputs(X[:, feature], threshold, True) @ A
                    if nan_left
                    else np.full(A.shape[1], np.nan)
                )
    assert len(rows) == search._best.start[-1]
    return np.array(rows).reshape(-1, A.shape[1])


SEARCHES = [
    (1, 2, 2, False),
    (40, 2, 2, False),
    (700, 5, 9, False),
    (300, 5, 40, True),
    (300, 17, 17, False),
]
SEARCHES += [(9000, 3, 5, False), (2500, 100, 100, False), (120, 4, 130, False)]


@pytest.mark.parametrize(("m", "K", "P", "sparse"), SEARCHES)
def test_searches_for_all_columns(m, K, P, sparse):
    """Totals and AllEdges: numbers of every split, in the second round as in the first; the chosen stump."""
    rng = np.random.default_rng(m + P)
    X = mixture(m, rng)
    y = classes(m, K, rng)
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0
        X = scipy.sparse.csr_matrix(X)
    data, used = searched(X, y, K)
    tolerance = 1e-11 if data.dtype == np.float64 else 2e-5
    each = EdgeStumps(data, 1, P)
    n_threads = 2
    totals = [TotalStump(data, n_threads, P, squares=squares) for squares in (False, True)]
    for integers in (True, False):
        A = (
            rng.integers(-9, 10, (data.n_rows, P))
            if integers
            else rng.normal(size=(data.n_rows, P))
        )
        blocks = packed(A, data.dtype)
        A = unpacked(blocks, P)
        edges = every_edge(totals[0], data, used, A=A)
        nothing = not len(edges) or not (np.abs(np.nan_to_num(edges)) > 0).any()
        size = np.abs(A).sum(axis=0)
        for search, total, bound in zip(
            totals,
            (np.abs(edges).sum(axis=1), (edges**2).sum(axis=1)),
            (size.sum(), (size**2).sum()),
            strict=True,
        ):
            fit = search.fit(blocks)
            found = search._best.total
            assert (found[np.isnan(total)] == 0).all()
            assert (np.abs(found - np.nan_to_num(total)) <= tolerance * bound).all()
            if nothing:
                assert fit is None
                continue
            h = outputs(used[:, fit.feature], fit.threshold, fit.nan_left)
            np.testing.assert_array_equal(fit.h, h)
            mine = np.abs(h @ A).sum() if not search._best.squares else ((h @ A) ** 2).sum()
            assert fit.edge == pytest.approx(mine, abs=tolerance * bound)
            assert mine >= np.nanmax(total) - tolerance * bound
            if integers and not sparse:
                ties = np.flatnonzero(np.nan_to_num(total, nan=-1) >= np.nanmax(total))
                slot = np.searchsorted(search._best.start, ties, side="right") - 1
                assert fit.feature == search._feature[slot].min()
        every = ClassStump(data, 1) if P == K else None
        if every is not None:
            every._scan(blocks)
            found = every._best.edge[:, :P]
            assert (np.isnan(found) == np.isnan(edges)).all()
            assert (np.abs(np.nan_to_num(found - edges)) <= tolerance * size).all()
        found = {one.cls: one for one in each.fit(blocks)}
        best = np.nanmax(np.abs(edges), axis=0) if len(edges) else np.zeros(P)
        assert set(found) == set(np.flatnonzero(best > 0))
        for j, one in found.items():
            h = outputs(used[:, one.feature], one.threshold, one.nan_left) * one.polarity
            np.testing.assert_array_equal(one.h, h)
            np.testing.assert_array_equal(each.outputs[j], h)
            assert h @ A[:, j] >= best[j] - tolerance * size[j]


def test_ties_go_to_the_lower_feature_and_threshold_and_missing_right():
    X = np.array([[3, 0, 0], [3, 1, 1], [3, 1, 1], [3, 2, 2], [3, np.nan, np.nan]])
    data, _ = searched(X, np.array([0, 0, 1, 1, 1]), 2)
    A = packed(np.array([[1.0, 0], [0, 0], [0, 0], [-1, 0], [0, 0]]), data.dtype)
    fit = TotalStump(data, 1).fit(A)
    assert (fit.feature, fit.threshold, fit.nan_left) == (1, 0.5, False)
    stump, said = ClassStump(data, 1).fit(np.array([1.0, 0, 0, 1, 0]))
    assert (stump.feature, stump.threshold, stump.nan_left, said) == (1, 0.5, False, (0, 1))


def right_weight(edge, total):
    """Of all pairs of different classes, the weight that they get right."""
    if np.isnan(edge[0]):
        return -1.0
    left = (total - edge) / 2
    right = (total + edge) / 2
    return max(left[a] + right[b] for a, b in itertools.permutations(range(len(total)), 2))


@pytest.mark.parametrize("K", [2, 3, 17, 100])
def test_right_weights(K):
    rng = np.random.default_rng(K)
    total = rng.exponential(size=K) * 10.0 ** rng.integers(-6, 6, K)
    total[K // 2] = 0.0
    share = rng.random((60, K)) * (rng.random((60, K)) < 0.8)
    edge = np.zeros((60, layout(K)[0] * layout(K)[1]))
    edge[:, :K] = total * (2 * share - 1)
    edge[::7] = np.nan
    edge[3, :K] = total
    edge[4, :K] = -total
    edge[5, :K] = np.where(np.arange(K) == 0, 0.0, -1e-9 * total)  # class 0 is best on both sides
    for n_threads in (1, 2):
        out = np.full(60, np.nan)
        split_kernel.right_weights(edge, total, out, n_threads=n_threads)
        np.testing.assert_allclose(out, [right_weight(e[:K], total) for e in edge], rtol=1e-14)


@pytest.mark.parametrize(("K", "n"), [(2, 1), (3, 511), (5, 512), (17, 1300), (100, 40)])
def test_joint_gains(K, n):
    rng = np.random.default_rng(n)
    sums = rng.normal(size=(K, 4, n))
    sums[:, 2:] = rng.exponential(size=(K, 2, n)) * 10.0 ** rng.integers(-9, 9, (K, 2, 1))
    chosen = np.zeros((4, n)) if n % 2 else sums[0] * 2
    sums[:, :, : n // 4] = 0  # nothing on either side
    if not n % 2:
        chosen[[0, 2], : n // 3] = 0
    is_open = (rng.random(K) < 0.8).astype(np.uint8)
    is_open[0] = 1
    expected = np.zeros((K, n))
    for k in range(K):
        for side in (0, 1):
            z = chosen[side] + sums[k, side]
            w = chosen[2 + side] + sums[k, 2 + side]
            expected[k] += np.where(w > 0, z**2 / np.where(w > 0, w, 1), 0)
    for n_threads in (1, 2):
        gain = np.full(K, -7.0)
        at = np.full(K, -7)
        split_kernel.joint_gains(
            chosen, sums, is_open, tie=twin.TIE, gain=gain, at=at, n_threads=n_threads
        )
        for k in range(K):
            if not is_open[k]:
                assert (gain[k], at[k]) == (-7, -7)
                continue
            assert gain[k] == pytest.approx(expected[k].max(), rel=1e-12)
            assert expected[k, at[k]] == pytest.approx(gain[k], rel=1e-12)
    # The first of equals, across the blocks in which splits are looked at.
    sums[:] = 1.0
    sums += rng.uniform(0, 1e-13, sums.shape)
    split_kernel.joint_gains(
        np.zeros((4, n)),
        sums,
        np.ones(K, dtype=np.uint8),
        tie=twin.TIE,
        gain=gain,
        at=at,
        n_threads=1,
    )
    assert (at == 0).all()


@pytest.mark.parametrize(("m", "K"), [(2, 2), (60, 2), (90, 5), (70, 17), (120, 100), (5000, 4)])
@pytest.mark.parametrize("integers", [True, False])
def test_stump_with_the_fewest_errors(m, K, integers):
    rng = np.random.default_rng(m + K)
    X = mixture(m, rng)
    y = classes(m, K, rng)
    if m == 2:
        X = np.array([[1.0], [2.0]])
        y = np.array([1, 0])
    if m > 1000:
        X = X[:, [0, 4, 5]]
    data, used = searched(X, y, K)
    weight = (
        rng.integers(0, 9, data.n_rows).astype(float)
        if integers
        else rng.exponential(size=data.n_rows)
    )
    if m == 2:
        weight[:] = 1
    fit, (left, right) = ClassStump(data, 1).fit(weight)
    stumps = twin.AllStumps(used)
    j, twin_left, twin_right = twin.fewest_errors(stumps, data.y, K, w=weight)
    said = np.where(fit.h > 0, right, left)
    good = weight[said == data.y].sum()
    twins = np.where(stumps.h[j] > 0, twin_right, twin_left)
    tolerance = 1e-11 if data.dtype == np.float64 else 1e-5
    assert good == pytest.approx(weight[twins == data.y].sum(), rel=tolerance)
    assert fit.edge == pytest.approx(good, rel=tolerance)
    if integers:
        assert ((fit.feature, fit.threshold, fit.nan_left), left, right) == (
            stumps.splits[j],
            twin_left,
            twin_right,
        )


def test_classes_that_tie_in_a_stump_are_the_lower_ones():
    """Rows of classes 1 and 2, and of 0 and 3, are the same, in another order: rounding must not decide."""
    rng = np.random.default_rng(3)
    for seed in range(30):
        one, other = rng.normal(size=(2, 25, 2)) + [[[0.0]], [[1.5]]]
        w1, w2 = rng.exponential(size=(2, 25))
        order = rng.permutation(25)
        X = np.concatenate([other[order], one, one[order], other])
        weight = np.concatenate([w2[order], w1, w1[order], w2])
        y = np.repeat(np.arange(4), 25)
        data, _ = searched(X, y, 4)
        fit, said = ClassStump(data, 1).fit(weight[data.rows])
        assert set(said) == {0, 1}, seed


def brute_tree(data, X, g, h, n, max_leaves, cell_words, least, share=0.0):
    view = tree_twin.View(data, X)
    real = np.float32 if cell_words == 1 else np.float64
    return tree_twin.grow(
        view, g, h, n=n, least=least, max_leaves=max_leaves, real=real, share=share
    )


@pytest.mark.parametrize(("m", "K", "cell_words", "sparse"), [
    (1, 2, 2, False), (30, 2, 2, False), (300, 5, 2, False), (400, 17, 2, True), (140, 100, 2, False),
    (9000, 8, 1, False), (6000, 17, 1, False),
])  # fmt: skip
def test_regression_trees_of_classes(m, K, cell_words, sparse):
    """Targets g / h that depend on the class: every split of every node, and leaves sum g / sum h."""
    rng = np.random.default_rng(m)
    X = mixture(m, rng)
    y = classes(m, K, rng)
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0
        X = scipy.sparse.csr_matrix(X)
    data = TreeData(X, y, K, sample_weight=np.ones(m))
    assert cell_words > 1 or data.dtype == np.float32
    n_trees = 3
    J = 7
    g_of = rng.integers(-7, 8, (n_trees, K)).astype(float)
    h_of = rng.integers(1, 4, (n_trees, K)).astype(float)
    for least, pool, n_threads, share in (
        (1, True, 1, 0.0),
        (1, False, 2, 0.3),
        (20, True, 3, 0.1),
    ):
        weights = rng.integers(1, 6, (1 if n_threads == 1 else n_trees, m)).astype(float)
        bits = 24 if cell_words == 2 else 0
        grower = tree_kernel.Grower(
            data.tiles, J, 0, least, cell_words, False, pool, n_threads, share, count_bits=bits
        )
        grown = Grown.empty(n_trees, J, m)
        grower.grow_classes(
            weights, data.y, g_of, h_of, np.ones((n_trees, 3)), units_in_parts(50.0, m), grown
        )
        for j in range(n_trees):
            weight = weights[j % len(weights)]
            g, h = (
                (weight * g_of[j][data.y]).astype(np.int64),
                (weight * h_of[j][data.y]).astype(np.int64),
            )
            n = h if cell_words == 1 else np.ones(m, dtype=np.int64)
            tree = brute_tree(
                data, X, g, h=h, n=n, max_leaves=J, cell_words=cell_words, least=least, share=share
            )
            column, threshold, nan_left, right, value, gain = grown.tree(j, data)
            assert column.tolist() == tree.column
            np.testing.assert_array_equal(threshold, np.array(tree.threshold, dtype=np.float32))
            assert nan_left.astype(bool).tolist() == [bool(left) for left in tree.nan_left]
            assert right.tolist() == tree.right
            np.testing.assert_allclose(gain, tree.gain, rtol=1e-5)
            for leaf, rows in enumerate(tree.leaf_rows):
                assert (grown.leaf[j, rows] == leaf).all()
                assert value[leaf] == np.float64(np.float32(g[rows].sum() / h[rows].sum()))


def test_regression_tree_explains_most_by_its_first_split():
    """Against the sum of squares itself, with no formula of the gain: two leaves, real-valued weights."""
    rng = np.random.default_rng(0)
    X, y = blobs(80, 3, 4)
    data = TreeData(X, y, 4, sample_weight=np.ones(80))
    weight = rng.exponential(size=80)
    target = rng.normal(size=4)
    cost = rng.exponential(size=4)
    w = weight * cost[data.y]
    z = target[data.y]
    grown = Grown.empty(1, 2, 80)
    grower = tree_kernel.Grower(data.tiles, 2, 0, 1, 2, False, True, 1, count_bits=24)
    scale = np.array([[2.0**40, 2.0**30, 2.0**10]])
    units = units_in_parts(50.0, 80)
    grower.grow_classes(
        weight[None, :], data.y, (target * cost)[None, :], cost[None, :], scale, units, grown
    )
    best = (np.inf, None)
    stumps = twin.AllStumps(X[data.rows])
    for split, h in zip(stumps.splits, stumps.h, strict=True):
        mean = np.where(
            h > 0, *(np.average(z[h == side], weights=w[h == side]) for side in (1, -1))
        )
        error = (w * (z - mean) ** 2).sum()
        if error < best[0]:
            best = (error, split)
    column, threshold, _, _, value, _ = grown.tree(0, data)
    assert (column[0], threshold[0]) == best[1][:2]
    fitted = value[grown.leaf[0]]
    assert (w * (z - fitted) ** 2).sum() == pytest.approx(best[0], rel=1e-6)


def test_trees_of_one_sign_beside_each_other_are_merged():
    """Classification trees by the Gini impurity: the function of the unpruned tree, without splits that say nothing."""
    X, y = blobs(300, 4, 3)
    data = TreeData(X, y, 3, sample_weight=np.ones(300))
    merged = 0
    for seed in range(8):
        a = np.random.default_rng(seed).integers(-9, 10, 300).astype(float)
        a[a == 0] = 1
        (actual,) = EdgeTrees(data, 12, None, n_threads=1, n_columns=1, gini=True).fit(
            packed(a[:, None], data.dtype)
        )
        tree = tree_twin.grow(
            tree_twin.View(data, X), a, np.abs(a), n=np.ones(300, dtype=int), max_leaves=12
        )
        expected = np.empty(300)
        for rows in tree.leaf_rows:
            expected[rows] = 1 if a[rows].sum() >= 0 else -1
        np.testing.assert_array_equal(actual.h, expected)
        beside = np.flatnonzero(actual.right == 1)  # splits whose left child is a leaf
        leaf = leaves_before(actual.right)
        for at in beside:
            if leaf[at][1] is not None and at > 0:
                assert actual.sign[leaf[at][0]] != actual.sign[leaf[at][1]]
        merged += len(actual.feature) < len(tree.column)
    assert merged >= 2


def leaves_before(right):
    """For every split in preorder the numbers of the leaves that are its left and right child, None for splits."""
    result = [[None, None] for _ in right]
    leaves = 0

    def visit(at, parent, side, n):
        nonlocal leaves
        if n == 0:
            result[parent][side] = leaves
            leaves += 1
            return
        visit(at + 1, at, 0, right[at] - 1)
        visit(at + right[at], at, 1, n - right[at])

    visit(0, None, None, len(right))
    return result


@pytest.mark.parametrize("K", [2, 3, 17])
def test_margin_gains(K):
    """Of the weights of the classes on either side of all splits: each class's best split, and the first of equals."""
    rng = np.random.default_rng(K)
    total = rng.exponential(size=K)
    total[K // 2] = 0.0
    edge = np.zeros((70, K + 3))
    edge[:, :K] = total * (2 * rng.random((70, K)) - 1)
    edge[40] = edge[12]
    edge[5, :K] = total  # nothing on the left
    splits = np.array([j for j in range(70) if j % 9], dtype=np.int64)
    expected = np.zeros((len(splits), K))
    for j, e in enumerate(edge[splits, :K]):
        for w in ((total - e) / 2, (total + e) / 2):
            if min((total - e).sum(), (total + e).sum()) <= 0:
                continue
            for k in range(K):
                z = (np.arange(K) == k) - 1 / K
                expected[j, k] += (w * z).sum() ** 2 / (w * z**2).sum()
    gain = np.empty(K)
    at = np.empty(K, dtype=np.int64)
    split_kernel.margin_gains(edge, splits, total, tie=twin.TIE, gain=gain, at=at)
    np.testing.assert_allclose(gain, expected.max(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(
        at, [np.flatnonzero(e * twin.TIE >= e.max())[0] for e in expected.T]
    )
    split_kernel.margin_gains(edge, splits[:0], total, tie=twin.TIE, gain=gain, at=at)
    assert (at == -1).all()


@pytest.mark.parametrize(("m", "K"), [(1, 2), (700, 3), (5000, 17)])
def test_margins(m, K):
    """What a round adds: the value of the own class, less the mean over the classes."""
    rng = np.random.default_rng(m)
    y = np.sort(rng.integers(0, K, m))
    starts, own = weight_kernel.chunks(np.searchsorted(y, np.arange(K + 1)))
    h = rng.choice([-1, 1], (K, m)).astype(np.int8)
    minus = rng.normal(size=K)
    plus = rng.normal(size=K)
    margin = rng.normal(size=m)
    value = np.where(h > 0, plus[:, None], minus[:, None])
    expected = margin + value[y, np.arange(m)] - value.mean(axis=0)
    for n_threads in (1, 2):
        actual = margin.copy()
        weight_kernel.add_margins(
            h, minus, plus, starts=starts, classes=own, margin=actual, n_threads=n_threads
        )
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


class Number:
    """A generator whose random number is known."""

    def __init__(self, value):
        self.value = value

    def random(self):
        return self.value


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_drawn_by_their_weights(dtype):
    rng = np.random.default_rng(0)
    for m, n in ((1, 1), (2, 3), (50, 200), (1000, 100)):
        weight = (rng.exponential(size=m) * (rng.random(m) < 0.7)).astype(dtype)
        weight[m // 2] = 1e3
        ends = np.cumsum(weight.astype(np.float64))
        for u in (0.0, rng.random(), np.nextafter(1.0, 0.0)):
            expected = np.zeros(m, dtype=int)
            for k in range(n):
                point = (u + k) * (ends[-1] / n)
                expected[
                    next((i for i in range(m) if ends[i] > point), np.flatnonzero(weight)[-1])
                ] += 1
            actual = draw(weight, n, Number(u))
            np.testing.assert_array_equal(actual, expected)
            assert actual.sum() == n
            assert (actual[weight == 0] == 0).all()
            assert (np.abs(actual - n * weight / weight.sum(dtype=np.float64)) < 1 + 1e-9).all()
    rng = np.random.default_rng(1)
    counts = sum(draw(np.array([1.0, 0.0, 3.0, 6.0]), 7, rng) for _ in range(5000))
    np.testing.assert_allclose(counts / 35_000, [0.1, 0, 0.3, 0.6], atol=0.006)


def test_distinct_rows_are_drawn_one_after_the_other_by_their_weights():
    weight = np.array([1.0, 0.0, 2.0, 5.0])
    rng = np.random.default_rng(0)
    pairs = np.zeros((4, 4))
    for _ in range(5000):
        drawn = draw_distinct(weight, 2, rng)
        assert sorted(drawn) == [0, 0, 1, 1]
        pairs[tuple(np.flatnonzero(drawn))] += 1
    share = weight / weight.sum()
    for i, j in ((0, 2), (0, 3), (2, 3)):
        expected = share[i] * share[j] / (1 - share[i]) + share[j] * share[i] / (1 - share[j])
        assert pairs[i, j] / 5000 == pytest.approx(expected, abs=0.03)
    assert pairs[1].sum() == pairs[:, 1].sum() == 0
    for n in (3, 4, 9):
        np.testing.assert_array_equal(draw_distinct(weight, n, rng), [1, 0, 1, 1])
    assert draw_distinct(np.array([1e-300, 1e300]), 1, rng).tolist() == [0, 1]


def test_rows_of_one_sign_give_a_constant_and_no_standstill():
    """A column whose other sign is too light to be drawn is learnt on as soon as a constant has raised it again."""
    X, y = blobs(200, 4, 5)
    data = TreeData(X, y, 5, sample_weight=np.ones(200))
    A = np.random.default_rng(0).normal(size=(200, 3))
    A[:, 1] = np.where(np.arange(200) < 3, 1e-9, -1.0)
    learner = Resampled(
        EdgeTrees(data, 5, None, n_threads=1, n_columns=3, gini=True), 0.2, constants=True
    )
    model = learner.fit(packed(A, data.dtype), np.random.default_rng(0))
    assert [one.cls for one in model] == [0, 1, 2]
    constant = model[1]
    assert (constant.h == -1).all() and (learner.outputs[1] == -1).all()
    assert [len(part) for part in constant.as_tree()] == [0, 0, 0, 0, 1]
    assert constant.edge == pytest.approx(197.0, rel=1e-6)
    plain = Resampled(EdgeTrees(data, 5, None, n_threads=1, n_columns=3, gini=True), 0.2).fit(
        packed(A, data.dtype), np.random.default_rng(0)
    )
    assert [one.cls for one in plain] == [0, 2]


@pytest.mark.parametrize("kind", ["stumps", "trees"])
def test_learners_of_drawn_rows_are_those_of_repeated_rows(kind):
    """A learner of the rows drawn for a column is the learner of integer weights, and says something of all rows."""
    X, y = blobs(200, 4, 5)
    P = 5
    share = 0.3
    data = (TrainingData if kind == "stumps" else TreeData)(X, y, 5, np.ones(200))
    make = (
        (lambda: EdgeStumps(data, 1, P))
        if kind == "stumps"
        else (lambda: EdgeTrees(data, 5, None, n_threads=1, n_columns=P, gini=True))
    )
    A = np.random.default_rng(0).normal(size=(200, P))
    resampled = Resampled(make(), share)
    for seed in (1, 2):
        model = resampled.fit(packed(A, data.dtype), np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        drawn = np.column_stack(
            [draw(np.abs(A[:, j]), 60, rng) * np.sign(A[:, j]) for j in range(P)]
        )
        assert (np.abs(drawn).sum(axis=0) == 60).all()
        plain = make()
        expected = plain.fit(packed(drawn, data.dtype))
        np.testing.assert_array_equal(resampled.outputs, plain.outputs)
        for one, other in zip(model, expected, strict=True):
            assert [a.tolist() for a in one.as_tree()] == [a.tolist() for a in other.as_tree()]


# -- losses and steps ------------------------------------------------------------------------------------------------

CODES = {
    "one-vs-all": one_vs_all(4),
    "all-pairs": all_pairs(4),
    "exhaustive": exhaustive(4),
    "pairs": separators("pairs", 4),
    "singles of 2": separators("singles", 2),
    "singles of 17": separators("singles", 17),
    "singles of 100": separators("singles", 100),
}


def objective(f, code, y, weight):
    """Sums of the coded exponential losses of the columns, the rows that take no part left out: (P,)."""
    return (weight[:, None] * np.exp(-code[y] * f) * (code[y] != 0)).sum(axis=0)


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("apart", [False, True])
def test_gradient_of_coded_losses(name, apart):
    code = CODES[name]
    K, P = code.shape
    rng = np.random.default_rng(K)
    X, y = blobs(4 * K, 2, K)
    data = TrainingData(X, y, K, sample_weight=rng.exponential(size=len(y)) + 0.1)
    loss = CodedExp(data, code, 1, apart=apart)
    f = rng.normal(size=(len(y), P)) / np.abs(code).max()
    loss.start(f)
    found = unpacked(loss.gradient, P)
    masses = objective(f, code, data.y, weight=data.weight)
    scale = loss.mass / masses
    if not apart:
        np.testing.assert_allclose(scale, scale[0], rtol=1e-12)
    step = 1e-6 / np.abs(code).max()
    for i in range(0, len(y), 3):
        moved = [f.copy(), f.copy()]
        moved[0][i] += step
        moved[1][i] -= step
        slope = np.subtract(
            *(objective(one, code, data.y, weight=data.weight) for one in moved)
        ) / (2 * step)
        np.testing.assert_allclose(found[i] / scale, -slope, rtol=1e-4, atol=1e-7 * masses.max())


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("m", [150, 9000])
@pytest.mark.part(9)
def test_multiplied_weights_are_those_of_the_scores(name, apart, signs, m):
    """Shared and own outputs, one step for both sides or two; then the same from the scores at once."""
    code = CODES[name]
    K, P = code.shape
    if m > 1000:
        m = m if P < 10 else 40_000 // P  # float32, and chunks of several classes' rows
    rng = np.random.default_rng(m + K)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    data = TrainingData(rng.normal(size=(m, 1)), y, K, sample_weight=10.0 ** rng.uniform(-2, 2, m))
    unit = np.sign(code) if signs else code
    loss = CodedExp(data, code, 1, apart=apart, unit=unit)
    loss.start()
    f = np.zeros((m, P))
    tolerance = 1e-11 if data.dtype == np.float64 else 2e-5
    used = code[data.y] != 0

    def check():
        w = data.weight[:, None] * np.exp(-code[data.y] * f) * used
        total = w.sum(axis=0) / loss._start_mass if apart else w.sum() / loss._start_mass.sum()
        expected = w / total
        np.testing.assert_allclose(loss.mass, expected.sum(axis=0), rtol=max(1e-9, tolerance))
        np.testing.assert_allclose(
            unpacked(loss.gradient, P),
            expected * unit[data.y],
            rtol=tolerance,
            atol=tolerance * expected.mean(),
        )
        return expected

    check()
    for step in range(8):
        h = rng.choice([-1, 1], (P if step % 2 else 1, m)).astype(np.int8)
        plus, minus = rng.normal(size=(2, P)) / np.abs(code).max()
        tables = loss.tables(h)
        w = check()
        for c in range(0, K, 3):
            for s in (0, 1):
                rows = (data.y == c)[:, None] & ((h.T > 0) == (s == 0))
                np.testing.assert_allclose(
                    tables[s, c], (w * rows).sum(axis=0), rtol=10 * tolerance, atol=10 * tolerance
                )
        edges = (np.sign(code)[data.y] * w * h.T).sum(axis=0)
        np.testing.assert_allclose(
            loss.edges(tables), edges, atol=20 * tolerance * w.sum(axis=0).max()
        )
        loss.update(h, plus, tables, minus if step > 3 else None)
        f += np.where(h.T > 0, plus, minus if step > 3 else -plus)
        check()
    again = CodedExp(data, code, 1, apart=apart, unit=unit)
    again.start(np.hstack([f, np.ones((m, 3))]))  # scores may have columns more
    np.testing.assert_allclose(again.mass, loss.mass, rtol=max(1e-9, tolerance))
    np.testing.assert_allclose(
        again.gradient,
        loss.gradient,
        rtol=3 * tolerance,
        atol=tolerance * np.abs(loss.gradient).mean(),
    )


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("margin", [-1e4, -800.0, 800.0, 1e4])
def test_restart_from_large_margins(name, apart, margin):
    """No weight is lost altogether or overflows, in rows that take no part, neither."""
    code = CODES[name]
    K, P = code.shape
    X, y = blobs(3 * K, 1, K)
    data = TrainingData(X, y, K, sample_weight=np.ones(len(y)))
    f = margin * np.sign(code[data.y]) + np.random.default_rng(0).normal(size=(len(y), P))
    loss = CodedExp(data, code, 1, apart=apart)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        loss.start(f)
    assert np.isfinite(loss.gradient).all()
    log_w = np.where(code[data.y] != 0, -code[data.y] * f, -np.inf)
    w = np.exp(log_w - (log_w.max(axis=0) if apart else log_w.max()))
    w = w / w.sum(axis=0) * loss._start_mass if apart else w / w.sum() * loss._start_mass.sum()
    np.testing.assert_allclose(unpacked(loss.gradient, P), w * code[data.y], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(loss.mass, w.sum(axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["one-vs-all", "all-pairs", "pairs"])
@pytest.mark.parametrize("apart", [False, True])
def test_classes_without_rows_do_no_harm(name, apart):
    """Two classes without any weight: a column of just these has no rows at all."""
    code = CODES[name]
    rng = np.random.default_rng(0)
    X, y = blobs(60, 2, 4)
    data = TrainingData(X, y, 4, sample_weight=np.where(y < 2, 1.0, 0.0))
    loss = CodedExp(data, code, 1, apart=apart)
    f = rng.normal(size=(data.n_rows, code.shape[1]))
    for scores in (None, f):
        with np.errstate(invalid="raise", divide="raise"):
            loss.start(scores)
            h = rng.choice([-1, 1], (1, data.n_rows)).astype(np.int8)
            tables = loss.tables(h)
            loss.update(h, coded_steps(tables, code), tables)
        assert np.isfinite(loss.gradient).all()
        assert np.isfinite(loss.mass).all()
        assert loss.mass.sum() > 0


@pytest.mark.parametrize(("m", "K"), [(50, 2), (300, 5), (9000, 4), (300, 17)])
def test_pairwise_updates_with_two_sides(m, K):
    rng = np.random.default_rng(m)
    X, y = blobs(m, 2, K)
    data = TrainingData(X, y, K, sample_weight=rng.exponential(size=m) + 0.1)
    loss, again = PAIRWISE["exp"].blocks(data), PAIRWISE["exp"].blocks(data)
    loss.start()
    F = np.zeros((m, K))
    for _ in range(6):
        h = rng.choice([-1, 1], m).astype(np.int8)
        plus, minus = rng.normal(size=(2, K))
        loss.update(h, plus, loss.side_tables(h), minus)
        F += np.where(h[:, None] > 0, plus, minus)
    again.start(F)
    tolerance = 1e-11 if data.dtype == np.float64 else 3e-5
    assert loss.mass == pytest.approx(again.mass)
    assert loss.log_scale == pytest.approx(again.log_scale, rel=tolerance, abs=tolerance)
    np.testing.assert_allclose(
        loss.gradient,
        again.gradient,
        rtol=tolerance,
        atol=tolerance * np.abs(again.gradient).mean(),
    )


@pytest.mark.parametrize(("m", "K"), [(1, 2), (40, 2), (60, 3), (50, 7), (90, 17), (300, 100)])
def test_integers_of_class_weights(m, K):
    rng = np.random.default_rng(m)
    data = TreeData(rng.normal(size=(m, 1)), rng.integers(0, K, m), K, sample_weight=np.ones(m))
    state = ClassWeights(data, 1)
    some = rng.exponential(size=m)
    for weight in (np.ones(m), some, some * 10.0 ** rng.integers(-9, 9, m), some * 1e-200):
        state.weight = weight
        found = np.concatenate(list(state.integers()), axis=1)
        own = np.zeros((m, K))
        own[np.arange(m), data.y] = weight
        unit = found.sum(dtype=np.float64) / 2 / weight.sum()
        assert 2.0**28 < unit * weight.sum() < 2.0**31
        np.testing.assert_allclose(found[:, :K], own * unit, atol=1.01, rtol=1e-6)
        np.testing.assert_allclose(found[:, K], weight * unit, atol=1.01, rtol=1e-6)
        assert (found[:, K + 1 :] == 0).all()


def slope(tables, code, t):
    """(8) before any power of R is taken out: the derivative and the sum of its absolute terms, in long double."""
    tables, code, t = (np.asarray(a, dtype=np.longdouble) for a in (tables, code, t))
    up = code * tables[1] * np.exp(code * t)
    down = code * tables[0] * np.exp(-code * t)
    return (up - down).sum(axis=0), (np.abs(up) + np.abs(down)).sum(axis=0)


def tables_of(K, subset, A1, A2, eps1, eps2):
    """Tables in which the first class on either side has all the weight: (2, K, 1)."""
    tables = np.zeros((2, K, 1))
    outside = min(set(range(K)) - set(subset))
    tables[:, subset[0], 0] = A1 - eps1, eps1
    tables[:, outside, 0] = eps2, A2 - eps2
    return tables


@pytest.mark.parametrize(
    ("K", "s"), [(2, 1), (3, 1), (4, 2), (5, 2), (17, 1), (17, 8), (100, 1), (100, 20), (100, 50)]
)
def test_steps_solve_the_polynomial(K, s):
    rng = np.random.default_rng(K + s)
    subset = list(range(s))
    code = separators([subset], K)
    size = np.abs(code).max()
    inside = 0
    for trial in range(60):
        if trial < 20:
            # Failures and successes of the kind that training meets: some classes all right, or all wrong.
            tables = rng.exponential(size=(2, K, 1)) * 10.0 ** rng.uniform(-6, 0, (2, K, 1))
            tables *= rng.random((2, K, 1)) < 0.7
        else:
            A1 = rng.uniform(0.01, 0.99)
            eps1 = A1 * rng.random() ** 4
            eps2 = (1 - A1) * rng.random() ** 4
            if trial >= 40:
                eps1 = A1  # every row of S wrong: still a finite root
            if trial >= 50:
                eps1 = A1 - eps1
                eps2 = (1 - A1) * (1 - 1e-6)
            tables = tables_of(K, subset, A1, A2=1 - A1, eps1=eps1, eps2=eps2)
        if not (tables[0] * (code > 0) + tables[1] * (code < 0)).any():
            continue
        if not (tables[1] * (code > 0) + tables[0] * (code < 0)).any():
            continue
        t = coded_steps(tables, code)
        residual, terms = slope(tables, code, t)
        if abs(t[0]) * size >= LARGEST_COEFFICIENT * (1 - 1e-9):  # the root lies beyond
            assert residual[0] * t[0] < 0
            continue
        inside += 1
        assert abs(residual[0]) <= 1e-12 * terms[0], (trial, t)
    assert inside >= 40


def test_steps_are_the_roots_of_the_papers_polynomial():
    rng = np.random.default_rng(5)
    negative = 0
    for K, s in [(2, 1), (3, 1), (4, 1), (4, 2), (6, 2), (6, 3), (9, 3)]:
        for _ in range(20):
            A1 = rng.uniform(0.05, 0.95)
            eps1 = A1 * rng.random()
            eps2 = (1 - A1) * rng.random()
            R = twin.polynomial_root(K, s, A1, A2=1 - A1, eps1=eps1, eps2=eps2)
            code = separators([list(range(s))], K)
            t = coded_steps(
                tables_of(K, list(range(s)), A1, A2=1 - A1, eps1=eps1, eps2=eps2), code
            )[0]
            assert np.exp(t) == pytest.approx(R, rel=1e-7)
            negative += R < 1
    assert 20 < negative < 120


@pytest.mark.parametrize(("K", "s"), [(2, 1), (5, 1), (5, 2), (100, 50), (100, 1)])
def test_steps_without_a_finite_root_are_capped(K, s):
    subset = list(range(s))
    code = separators([subset], K)
    size = np.abs(code).max()
    for cap in (LARGEST_COEFFICIENT, 3.0):
        steps = [
            coded_steps(tables_of(K, subset, 0.3, 0.7, *eps), code, cap)[0]
            for eps in ((0.0, 0.0), (0.3, 0.7), (0.3, 0.0), (0.0, 0.7))
        ]
        np.testing.assert_allclose(np.array(steps[:2]) * size, [cap, -cap], rtol=1e-9)
        # All of one side wrong and all of the other right: learners that say always the same; a finite optimum.
        for t, eps in zip(steps[2:], ((0.3, 0.0), (0.0, 0.7)), strict=True):
            if cap < LARGEST_COEFFICIENT and abs(t) * size > 0.99 * cap:
                continue
            residual, terms = slope(tables_of(K, subset, 0.3, 0.7, *eps), code, t)
            assert abs(residual[0]) <= 1e-12 * terms[0]
    assert coded_steps(np.zeros((2, K, 1)), code)[0] == 0


@pytest.mark.parametrize("K", [2, 4, 17, 100])
def test_steps_minimise_lemma_1(K):
    """Of several columns at once, each its own; against a search that has no derivatives."""
    rng = np.random.default_rng(K)
    subsets = [[0], list(range(max(1, K // 2)))] + ([[1, 2]] if K > 3 else [])
    code = separators(subsets, K)
    tables = rng.exponential(size=(2, K, code.shape[1])) ** 3
    t = coded_steps(tables, code)
    for j in range(code.shape[1]):
        c = code[:, j]
        size = np.abs(code[:, j]).max()

        def value(x, c=c, size=size, j=j):
            return np.log(
                (
                    tables[0, :, j] * np.exp(-c * x / size) + tables[1, :, j] * np.exp(c * x / size)
                ).sum()
            )

        best = scipy.optimize.minimize_scalar(
            value, bounds=(-10, 10), method="bounded", options={"xatol": 1e-9}
        )
        assert value(t[j] * size) <= best.fun + 1e-13
        for delta in (1e-3, 1e-2, 0.5):
            assert value(t[j] * size) < min(value(t[j] * size - delta), value(t[j] * size + delta))


def test_common_step():
    for edge in (1e-9, 0.1, 0.9, 1 - 1e-8):
        assert common_step(edge) == pytest.approx(0.5 * np.log((1 + edge) / (1 - edge)), rel=1e-7)
    assert common_step(1.0) == common_step(1.0 + 1e-9) == LARGEST_COEFFICIENT


# -- two classes: AdaBoost -------------------------------------------------------------------------------------------


def splits_of(model):
    """(feature, threshold, nan_left) of the stumps of a model, of the one tree of every round."""
    e = model.model_.ensemble
    return list(zip(e.feature.tolist(), e.threshold.tolist(), e.nan_left.tolist(), strict=True))


def two_classes(seed, gaps=False):
    X, y = blobs(160, 4, 2, seed=seed)
    if gaps:
        X[np.random.default_rng(seed).random(X.shape) < 0.15] = np.nan
    return X, y


ADABOOST = [
    (SAMMEClassifier, {}, 2),
    (PIBoostClassifier, {}, 2),
    (PIBoostClassifier, {"separators": [[0]]}, 2),
    (PIBoostClassifier, {"separators": "pairs", "cost_sensitive": False}, 2),
    (AdaBoostMHClassifier, {}, 2),
    (AdaBoostM1Classifier, {"weak_learner": "stump"}, 2),
    (MCBoostClassifier, {"learning_rate": 1.0, "nu": 0.0}, 1),
    (AdaBoostOCClassifier, {}, 1),
]


@functools.cache
def adaboost_of_the_twin(seed, gaps):
    return twin.adaboost(*two_classes(seed, gaps), 20)


@pytest.mark.parametrize(("cls", "options", "constant"), ADABOOST)
@pytest.mark.parametrize("gaps", [False, True])
def test_two_classes_are_adaboost(cls, options, constant, gaps):
    for seed in range(2):
        X, y = two_classes(seed, gaps)
        expected, F = adaboost_of_the_twin(seed, gaps)
        model = cls(n_estimators=20, **options).fit(X, y)
        assert splits_of(model) == [(f, float(t), n) for (f, t, n), _ in expected]
        scores = model.model_.raw_scores(X)
        np.testing.assert_allclose(scores[:, 0] - scores[:, 1], constant * F, atol=2e-4)
        for t, stage in enumerate(model.staged_decision_function(X)):
            if t == 0:
                (f, threshold, nan_left), alpha = expected[0]
                np.testing.assert_allclose(
                    -stage, constant * alpha * outputs(X[:, f], threshold, nan_left), rtol=1e-5
                )


@pytest.mark.parametrize("cls", [AdaBoostECCClassifier, AdaBoostERPClassifier])
@pytest.mark.parametrize("gaps", [False, True])
def test_two_classes_are_adaboost_with_confidences(cls, gaps):
    for seed in range(3):
        X, y = two_classes(seed, gaps)
        splits, F = twin.confidence_adaboost(X, y, 30)
        model = cls(n_estimators=30, random_state=seed).fit(X, y)
        assert splits_of(model) == [(f, float(t), n) for f, t, n in splits]
        scores = model.model_.raw_scores(X)
        np.testing.assert_allclose(scores[:, 0] - scores[:, 1], F, atol=2e-4)


# -- many classes: the papers' formulas ------------------------------------------------------------------------------


def several(K, seed):
    X, y = blobs(40 * K, 4, K, seed=seed)
    if seed:
        X[np.random.default_rng(seed).random(X.shape) < 0.1] = np.nan
        X[:, 3] = np.round(X[:, 3])
    return X, y


def as_float(splits):
    return [(f, float(t), bool(n)) for f, t, n in splits]


@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_samme(K, seed):
    X, y = several(K, seed)
    expected, F = twin.samme(X, y, K, rounds=25)
    model = SAMMEClassifier(n_estimators=25).fit(X, y)
    assert splits_of(model) == as_float([one[0] for one in expected])
    np.testing.assert_allclose(model.model_.raw_scores(X), F, atol=1e-4)


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_adaboost_ml(K, seed):
    X, y = several(K, seed)
    expected, F = twin.adaboost_ml(X, y, K, rounds=25)
    model = AdaBoostMLClassifier(n_estimators=25).fit(X, y)
    assert splits_of(model) == as_float([one[0] for one in expected])
    np.testing.assert_allclose(2 * model.model_.raw_scores(X), F, atol=1e-4)
    if K == 2:  # the softmax of half margin vectors is then the source's 1 + exp(F), in proportion
        exact = (1 + np.exp(F)) / (1 + np.exp(F)).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(X), exact, atol=1e-4)


@pytest.mark.parametrize("K", [2, 3, 17])
@pytest.mark.parametrize("far", [0.0, 30.0, 2000.0, -2000.0])
def test_logistic_steps_are_where_the_slope_is_0(K, far):
    rng = np.random.default_rng(K)
    margin = far + rng.normal(size=400)
    weight = rng.random(400)
    wrong = rng.random(400) < 0.1
    of_class = np.where(wrong, -1 / (K - 1), 1.0)
    step = logistic_step(margin, weight, wrong, K=K, cap=20.0)

    def slope(t):
        w = own_slopes(margin + t * of_class) * weight
        return (w * of_class).sum() / w.sum()

    assert 0 < step <= 20
    assert abs(slope(step)) < 1e-6 or (step > 20 * (1 - 1e-6) and slope(20.0) > 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_of_rows_are_copies_of_them_in_adaboost_ml(seed):
    X, y = several(3, seed)
    copies = np.random.default_rng(seed).integers(1, 4, len(y))
    weighted = AdaBoostMLClassifier(n_estimators=10).fit(X, y, sample_weight=copies)
    repeated = AdaBoostMLClassifier(n_estimators=10).fit(
        np.repeat(X, copies, axis=0), np.repeat(y, copies)
    )
    assert splits_of(weighted) == splits_of(repeated)
    np.testing.assert_allclose(
        weighted.model_.raw_scores(X), repeated.model_.raw_scores(X), atol=1e-5
    )


@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_adaboost_mh(K, seed):
    X, y = several(K, seed)
    splits, F = twin.mh(X, y, K, rounds=25)
    model = AdaBoostMHClassifier(n_estimators=25).fit(X, y)
    assert splits_of(model) == as_float(splits)
    np.testing.assert_allclose(model.model_.raw_scores(X), F, atol=1e-4)


def colourings(K, rounds, random_state):
    """Those that the estimators draw."""
    seed = int(check_random_state(random_state).randint(2**31))
    return [random_half(K, np.random.default_rng([seed, t, 0])) for t in range(rounds)]


def from_first(F):
    """Scores up to a constant of the row."""
    return F - F[:, :1]


@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_adaboost_oc(K, seed):
    X, y = several(K, seed)
    splits, F = twin.oc(X, y, K, colourings=colourings(K, 25, seed))
    model = AdaBoostOCClassifier(n_estimators=25, random_state=seed).fit(X, y)
    assert splits_of(model) == as_float(splits)
    np.testing.assert_allclose(from_first(model.model_.raw_scores(X)), from_first(F), atol=1e-4)


@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("repartitions", [0, 1, 3])
@pytest.mark.part(3)
def test_adaboost_ecc_and_erp(K, seed, repartitions):
    X, y = several(K, seed)
    splits, F, used = twin.ecc(
        X, y, K, colourings=colourings(K, 25, seed), repartitions=repartitions
    )
    options = {"n_estimators": 25, "random_state": seed}
    model = AdaBoostERPClassifier(n_repartitions=repartitions, **options).fit(X, y)
    assert splits_of(model) == as_float(splits)
    np.testing.assert_allclose(model.model_.raw_scores(X), F / 2, atol=1e-4)
    changed = sum(
        (mu != start).any() for mu, start in zip(used, colourings(K, 25, seed), strict=True)
    )
    assert (changed > 2) == (repartitions > 0)
    if repartitions == 0:
        ecc = AdaBoostECCClassifier(**options).fit(X, y)
        np.testing.assert_array_equal(ecc.model_.raw_scores(X), model.model_.raw_scores(X))


PIBOOSTS = [
    ("singles", 3),
    ("singles", 5),
    ("pairs", 4),
    ([[0, 1], [2], [3, 1, 0]], 5),
    ([[0, 1, 2]], 5),
]


def subsets_in(spec, K):
    if spec == "singles":
        return [[k] for k in range(K)]
    if spec == "pairs":
        return [[k] for k in range(4)] + [[0, 1], [0, 2], [0, 3]]
    return [sorted(s if len(s) * 2 <= K else set(range(K)) - set(s)) for s in spec]


@pytest.mark.parametrize(("spec", "K"), PIBOOSTS, ids=str)
@pytest.mark.parametrize("cost_sensitive", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.part(4)
def test_piboost(spec, K, cost_sensitive, seed):
    X, y = several(K, seed)
    expected, F = twin.piboost(
        X, y, K, subsets=subsets_in(spec, K), rounds=20, cost_sensitive=cost_sensitive
    )
    model = PIBoostClassifier(n_estimators=20, separators=spec, cost_sensitive=cost_sensitive).fit(
        X, y
    )
    trees = model.model_.ensemble
    np.testing.assert_array_equal(trees.code, separators(spec, K).T)
    actual = []
    for begin, end in itertools.pairwise(trees.rounds.tolist()):
        one = [None] * len(trees.code)
        for feature, threshold, nan_left, _, _, column, _ in list(trees.each())[begin:end]:
            one[column] = (int(feature[0]), float(threshold[0]), bool(nan_left[0]))
        actual.append(one)
    wanted = [
        [None if one is None else (one[0], float(one[1]), one[2]) for one in chosen]
        for chosen in expected
    ]
    if cost_sensitive:
        assert None not in sum(wanted, [])
    while wanted and not any(wanted[-1]):
        wanted.pop()
    assert actual == wanted
    np.testing.assert_allclose(model.model_.raw_scores(X), F / (K - 1), atol=2e-4 * K)


def columns_of(model):
    """(feature, threshold, nan_left) of the stumps of every round, by the columns or classes of their trees."""
    trees = model.model_.ensemble
    found = []
    every = list(trees.each())
    for begin, end in itertools.pairwise(trees.rounds.tolist()):
        one = {}
        for feature, threshold, nan_left, _, _, column, _ in every[begin:end]:
            one[column] = (int(feature[0]), float(threshold[0]), bool(nan_left[0]))
        found.append([one.get(j) for j in range(len(one))])
    return found


@pytest.mark.parametrize("code", ["one-vs-all", "all-pairs", "exhaustive", "dense"])
@pytest.mark.parametrize("seed", [0, 1])
def test_adaboost_mo(code, seed):
    X, y = several(4, seed)
    model = AdaBoostMOClassifier(
        n_estimators=20, code=code, decoder="linear", random_state=seed
    ).fit(X, y)
    matrix = model.model_.ensemble.code.T
    if code != "dense":
        np.testing.assert_array_equal(matrix, CODES[code])
    splits, f = twin.coded(X, y, matrix, rounds=20)
    assert columns_of(model) == [as_float(split) for split in splits]
    np.testing.assert_allclose(model.model_.raw_scores(X), f @ matrix.T, atol=3e-4)


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.part(2)
def test_gentleboost(K, seed):
    X, y = several(K, seed)
    X, y = X[:80], y[:80]
    splits, F = twin.gentleboost(X, y, K, rounds=4)
    model = GentleBoostClassifier(n_estimators=4).fit(X, y)
    assert [[(f, n) for f, _, n in one] for one in columns_of(model)] == [
        [(f, n) for f, _, n in one] for one in splits
    ]
    scores = model.model_.raw_scores(X)
    np.testing.assert_allclose(scores - scores.mean(axis=1, keepdims=True), F, atol=1e-4)


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.part(2)
def test_jointboost(K, seed):
    X, y = several(K, seed)
    X = X[::2, :3]
    y = y[::2]
    chosen, F = twin.jointboost(X, y, K, rounds=6)
    model = JointBoostClassifier(n_estimators=6).fit(X, y)
    assert splits_of(model) == as_float([one[0] for one in chosen])
    assert model.history_["n_shared"].tolist() == [len(one[1]) for one in chosen]
    np.testing.assert_allclose(model.model_.raw_scores(X), F, atol=1e-4)


@pytest.mark.parametrize("l1", [1e-6, 0.1])
@pytest.mark.parametrize("K", [2, 5])
def test_gradboost(K, l1):
    """Every round's stump has the largest gradient, its coefficients are the step's; at the end none exceeds l1."""
    X, y = several(K, 1)
    X, y = X[:100], y[:100]
    model = GradBoostClassifier(n_estimators=60 if l1 < 0.1 else 1000, l1=l1).fit(X, y)
    stumps = twin.AllStumps(X)
    F = np.zeros((len(y), K))
    rows = {}
    e = model.model_.ensemble
    where = {(f, float(t), n): j for j, (f, t, n) in enumerate(stumps.splits)}
    own = np.eye(K)[y]

    def gradients():
        P = np.exp(F - F.max(axis=1, keepdims=True))
        return stumps.h @ (own - P / P.sum(axis=1, keepdims=True)) / len(y)

    for split, right in zip(splits_of(model), e.right.astype(float), strict=True):
        g = gradients()
        j = where[split]
        size = np.linalg.norm(g, axis=1)
        assert size[j] >= size.max() * (1 - 1e-6)
        assert size[j] > l1 * (1 - 1e-6)
        before = rows.get(j, np.zeros(K))
        u = before + 2 * g[j]
        after = u * max(0.0, 1 - 2 * l1 / np.linalg.norm(u))
        np.testing.assert_allclose(before + right, after, atol=1e-6)
        rows[j] = before + right
        F += stumps.h[j][:, None] * right
    assert len(rows) < len(e)  # some come again
    np.testing.assert_allclose(model.model_.raw_scores(X), F, atol=1e-9)
    if l1 > 1e-3:
        assert 20 < model.n_estimators_ < 1000
        assert np.linalg.norm(gradients(), axis=1).max() <= l1 * (1 + 1e-5)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_trees_of_columns_are_scikit_learns(K):
    """PIBoost, OC, ECC, MH and MO with classification trees grown by the Gini impurity."""
    X, y = blobs(500, 4, K, seed=K)
    options = {"weak_learner": "tree", "max_leaf_nodes": 5}
    trees = twin.GiniTrees(X, 5)
    subsets = [[k] for k in range(K if K > 2 else 1)]
    _, F = twin.piboost(X, y, K, subsets=subsets, rounds=6, cost_sensitive=True, learners=trees)
    scores = PIBoostClassifier(n_estimators=6, **options).fit(X, y).model_.raw_scores(X)
    np.testing.assert_allclose(scores, F / (K - 1), atol=2e-4 * K)
    _, F = twin.oc(X, y, K, colourings=colourings(K, 10, 0), learners=trees)
    scores = (
        AdaBoostOCClassifier(n_estimators=10, random_state=0, **options)
        .fit(X, y)
        .model_.raw_scores(X)
    )
    np.testing.assert_allclose(from_first(scores), from_first(F), atol=1e-4)
    _, F, _ = twin.ecc(X, y, K, colourings=colourings(K, 10, 0), repartitions=0, learners=trees)
    scores = (
        AdaBoostECCClassifier(n_estimators=10, random_state=0, **options)
        .fit(X, y)
        .model_.raw_scores(X)
    )
    np.testing.assert_allclose(scores, F / 2, atol=1e-4)
    code = one_vs_all(K)
    _, f = twin.coded(X, y, code, rounds=6, learners=trees)
    scores = AdaBoostMHClassifier(n_estimators=6, **options).fit(X, y).model_.raw_scores(X)
    np.testing.assert_allclose(scores, f, atol=1e-4)
    model = AdaBoostMOClassifier(
        n_estimators=6, code="one-vs-all", decoder="linear", **options
    ).fit(X, y)
    np.testing.assert_allclose(model.model_.raw_scores(X), f @ code.T, atol=3e-4)


# -- scikit-learn ----------------------------------------------------------------------------------------------------


class FewestErrors(ClassifierMixin, BaseEstimator):
    """The stump with the fewest errors, as scikit-learn takes it."""

    def fit(self, X, y, sample_weight=None):
        self.classes_, codes = np.unique(y, return_inverse=True)
        stumps = twin.AllStumps(X)
        j, self.left_, self.right_ = twin.fewest_errors(
            stumps, codes, len(self.classes_), w=sample_weight
        )
        self.split_ = stumps.splits[j]
        return self

    def predict(self, X):
        feature, threshold, nan_left = self.split_
        above = outputs(np.asarray(X)[:, feature], threshold, nan_left) > 0
        return self.classes_[np.where(above, self.right_, self.left_)]


@pytest.mark.parametrize("K", [2, 3, 6])
def test_samme_with_stumps_is_scikit_learns(K):
    X, y = blobs(150, 3, K, seed=K)
    theirs = AdaBoostClassifier(FewestErrors(), n_estimators=15, learning_rate=1.0).fit(X, y)
    model = SAMMEClassifier(n_estimators=15).fit(X, y)
    assert splits_of(model) == as_float([estimator.split_ for estimator in theirs.estimators_])
    e = model.model_.ensemble
    np.testing.assert_allclose(e.right.max(axis=1), theirs.estimator_weights_, rtol=2e-6)
    np.testing.assert_allclose(model.history_["error"], theirs.estimator_errors_, rtol=1e-5)
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))


def parts_of(leaf):
    return {frozenset(np.flatnonzero(leaf == j).tolist()) for j in np.unique(leaf)}


@pytest.mark.parametrize(("K", "J"), [(2, 2), (3, 2), (2, 6), (3, 6), (6, 10)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.part(3)
def test_samme_with_trees_is_scikit_learns(K, J, weighted):
    X, y = blobs(600, 4, K, seed=J)
    weight = np.random.default_rng(J).integers(1, 2**10, 600) / 2.0**7 if weighted else np.ones(600)
    tree = DecisionTreeClassifier(max_leaf_nodes=J, random_state=0)
    theirs = AdaBoostClassifier(tree, n_estimators=12, learning_rate=1.0).fit(X, y, weight)
    model = SAMMEClassifier(n_estimators=12, weak_learner="tree", max_leaf_nodes=J).fit(
        X, y, weight
    )
    trees = list(model.model_.ensemble.each())
    assert len(trees) == len(theirs.estimators_)
    for one, other in zip(trees, theirs.estimators_, strict=True):
        # Thresholds of ours are those of all rows, theirs those of the node's: what counts is which rows part.
        leaf = np.array([leaf_number(one, row) for row in X])
        assert parts_of(leaf) == parts_of(other.apply(X))
    alphas = [one[4].max() for one in trees]
    np.testing.assert_allclose(alphas, theirs.estimator_weights_, rtol=5e-6)
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))


# -- whole trainings -------------------------------------------------------------------------------------------------

VARIANTS = [
    (cls, {"weak_learner": learner, "subsample": share})
    for cls in (
        SAMMEClassifier,
        AdaBoostM2Classifier,
        AdaBoostMHClassifier,
        GentleBoostClassifier,
        PIBoostClassifier,
    )
    for learner in ("stump", "tree")
    for share in (1.0, 0.3)
]
VARIANTS += [
    (cls, {"weak_learner": learner})
    for cls in (
        AdaBoostMLClassifier,
        AdaBoostECCClassifier,
        AdaBoostERPClassifier,
        AdaBoostOCClassifier,
        AdaBoostMOClassifier,
    )
    for learner in ("stump", "tree")
]
VARIANTS += [
    (PIBoostClassifier, {"separators": "pairs", "cost_sensitive": False, "weak_learner": "tree"}),
    (PIBoostClassifier, {"separators": [[0, 1], [2]]}),
    (AdaBoostMOClassifier, {"code": "all-pairs"}),
    (AdaBoostMOClassifier, {"code": "dense", "weak_learner": "tree"}),
    (GradBoostClassifier, {}),
    (GradBoostClassifier, {"weak_learner": "tree"}),
    (JointBoostClassifier, {}),
]


def whole(cls, n, options, **more):
    small = {} if cls is JointBoostClassifier else {"max_leaf_nodes": 5}
    return cls(n_estimators=n, random_state=3, **small, **options, **more)


@pytest.mark.parametrize(("cls", "options"), VARIANTS)
@pytest.mark.part(2)
def test_any_number_of_threads_gives_the_same_bytes(cls, options, monkeypatch):
    """More rows than a chunk has, float32, columns of every kind of store."""
    monkeypatch.setattr("pymcboost.threads.SMALL_WORK", 0)
    X, y = blobs(7000, 3, 5)
    X = np.hstack(
        [
            X,
            np.where(np.abs(X[:, :1]) < 3, 0, X[:, :1].round()),
            np.where(X[:, 1:2] > 2, np.nan, X[:, 2:]),
        ]
    )
    models = [whole(cls, 3, options, n_jobs=n).fit(X, y).model_.to_bytes() for n in (1, 2, 8)]
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize(("cls", "options"), VARIANTS)
@pytest.mark.parametrize("repeats", [1, 14])
@pytest.mark.part(5)
def test_ten_rounds_and_ten_more(cls, options, repeats):
    """A training that goes on does what it would have done, random draws included; float64 and float32."""
    X, y = blobs(300, 4, 5)
    X = np.repeat(X, repeats, axis=0)
    y = np.repeat(y, repeats)
    if repeats > 1:
        X = X + np.random.default_rng(0).normal(size=X.shape)
    once = whole(cls, 20, options).fit(X, y)
    parts = whole(cls, 10, options, warm_start=True).fit(X, y)
    first = parts.model_.ensemble.threshold.copy()
    parts.set_params(n_estimators=20).fit(X, y)
    assert parts.n_estimators_ == once.n_estimators_ == 20
    np.testing.assert_array_equal(parts.model_.ensemble.threshold[: len(first)], first)
    if repeats == 1:
        np.testing.assert_array_equal(
            parts.model_.ensemble.threshold, once.model_.ensemble.threshold
        )
        np.testing.assert_allclose(
            parts.decision_function(X), once.decision_function(X), rtol=1e-5, atol=1e-5
        )
    else:  # in float32 weights from scores are not those that were multiplied, and near ties go the other way
        assert abs(parts.score(X, y) - once.score(X, y)) < 0.02


@pytest.mark.parametrize(
    ("cls", "options"), [variant for variant in VARIANTS if variant[0].booster.restart_every]
)
@pytest.mark.part(3)
def test_restarts_change_nothing(cls, options, monkeypatch):
    X, y = blobs(300, 4, 5)
    plain = whole(cls, 25, options).fit(X, y)
    monkeypatch.setattr(cls.booster, "restart_every", 4)
    often = whole(cls, 25, options).fit(X, y)
    np.testing.assert_array_equal(often.model_.ensemble.threshold, plain.model_.ensemble.threshold)
    np.testing.assert_allclose(
        often.decision_function(X), plain.decision_function(X), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("cls", "options"), VARIANTS)
@pytest.mark.part(3)
def test_stages_and_cut_models(cls, options):
    X, y = blobs(200, 3, 4)
    if options.get("separators") == [[0, 1], [2]]:
        y = np.minimum(y, 2)
    model = whole(cls, 9, options).fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == model.n_estimators_ == 9
    for n in (1, 4, 9):
        np.testing.assert_array_equal(model.model_.truncate(n).decision_function(X), stages[n - 1])
        shorter = whole(cls, n, options).fit(X, y)
        np.testing.assert_array_equal(shorter.decision_function(X), stages[n - 1])


@pytest.mark.parametrize(("cls", "options"), VARIANTS[::3])
def test_early_stopping_keeps_the_best_round(cls, options):
    X, y = blobs(400, 3, 4)
    options = {**options, "scoring": "error"}
    model = whole(
        cls, 60, options, early_stopping=True, n_iter_no_change=8, validation_fraction=0.3
    ).fit(X, y)
    errors = model.history_["val_error"]
    assert len(errors) == model.n_estimators_ <= 60
    assert int(np.argmin(errors)) == model.n_estimators_ - 1
    X_val, y_val = blobs(400, 3, 4)
    told = whole(cls, 12, options).fit(X[:250], y[:250], X_val=X_val[250:], y_val=y_val[250:])
    expected = [np.mean(said != y_val[250:]) for said in told.staged_predict(X_val[250:])]
    np.testing.assert_allclose(told.history_["val_error"], expected, atol=1e-12)


@pytest.mark.parametrize("decoder", ["exp", "hamming"])
def test_decoders_of_output_codes(decoder):
    X, y = blobs(300, 4, 5)
    model = AdaBoostMOClassifier(n_estimators=20, code="all-pairs", decoder=decoder).fit(X, y)
    linear = (
        AdaBoostMOClassifier(n_estimators=20, code="all-pairs", decoder="linear")
        .fit(X, y)
        .model_.ensemble
    )
    trees = model.model_.ensemble
    np.testing.assert_array_equal(trees.leaf, linear.leaf)
    columns = (
        type(model.model_).from_ensemble(trees.columns(), np.arange(len(trees.code))).raw_scores(X)
    )
    naive = decoded(columns, trees)
    np.testing.assert_allclose(model.decision_function(X), naive, rtol=1e-12)
    with pytest.raises(ValueError, match="needs layout='list'"):
        type(model.model_).from_ensemble(trees, model.model_.classes_, layout="interval")


@pytest.mark.parametrize(
    "estimator",
    [PIBoostClassifier(n_estimators=40), AdaBoostMOClassifier(n_estimators=40, decoder="linear")],
    ids=str,
)
def test_interval_table_of_trained_stumps(estimator):
    X, y = blobs(300, 4, 5)
    X[::7, 0] = np.nan
    model = estimator.fit(X, y).model_
    table = type(model).from_ensemble(model.ensemble, model.classes_, layout="interval")
    size = np.abs(model.ensemble.leaf).sum() * np.abs(model.ensemble.code).max()
    np.testing.assert_allclose(
        table.raw_scores(X), model.raw_scores(X), rtol=1e-7, atol=1e-7 * size
    )


def test_classes_that_no_separator_tells_apart_are_a_warning():
    X = np.eye(4).repeat(5, axis=0)
    y = np.array(list("abcd")).repeat(5)
    message = "^PIBoostClassifier: no separator tells class 'b' from class 'd'.* codes 1 and 3, .* separators='singles'"
    with pytest.warns(UserWarning, match=message) as caught:
        model = PIBoostClassifier(n_estimators=3, separators=[[0], [2], [0, 2]]).fit(X, y)
    assert caught[0].filename == __file__
    scores = model.decision_function(X)
    assert np.array_equal(scores[:, 1], scores[:, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PIBoostClassifier(n_estimators=3, separators=[[0], [2], [0, 1]]).fit(X, y)


def test_labels_are_no_separators():
    X = np.eye(4).repeat(5, axis=0)
    y = np.array(list("abcd")).repeat(5)
    with pytest.raises(ValueError, match="list of lists of class codes: integers from 0 to K - 1"):
        PIBoostClassifier(separators=[["a"], ["b"]]).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*no separator tells")
def test_separators_of_a_model_that_goes_on_stay():
    X, y = blobs(200, 3, 4)
    for before, after in (
        ([[0], [1]], [[0], [2]]),
        ("singles", "pairs"),
        ("singles", [[0], [1], [2]]),
    ):
        model = PIBoostClassifier(n_estimators=4, separators=before, warm_start=True).fit(X, y)
        with pytest.raises(ValueError, match="separators.*warm_start|warm_start.*separators"):
            model.set_params(n_estimators=8, separators=after).fit(X, y)
        assert model.n_estimators_ == 4
        model.set_params(separators=before).fit(X, y)
        assert model.n_estimators_ == 8


def test_code_of_a_model_that_goes_on_stays():
    """A random one, too, when no seed makes it the same again."""
    X, y = blobs(400, 5, 9)
    model = AdaBoostMOClassifier(n_estimators=5, code="dense", warm_start=True).fit(X, y)
    code = model.model_.ensemble.code.copy()
    model.set_params(n_estimators=40).fit(X, y)
    np.testing.assert_array_equal(model.model_.ensemble.code, code)
    losses = [
        np.exp(-code.T[y] * f).sum()
        for f in (
            type(model.model_).from_ensemble(cut.columns(), range(code.shape[0])).raw_scores(X)
            for cut in (model.model_.ensemble.truncate_rounds(n) for n in (1, 5, 6, 10, 40))
        )
    ]
    assert (np.diff(losses) < 0).all()
    with pytest.raises(ValueError, match="warm_start.*code"):
        model.set_params(n_estimators=50, code="one-vs-all").fit(X, y)


def test_learners_without_mistakes_are_capped():
    """Separable classes: training ends or goes on, with finite scores and the right labels."""
    X = np.repeat(np.arange(4.0), 20)[:, None]
    y = np.repeat([0, 1, 2, 3], 20)
    for cls, options in VARIANTS:
        if (
            options.get("separators") in ("singles", [[0, 1], [2]])
            or options.get("subsample", 1) < 1
        ):
            continue
        model = whole(cls, 40, options).fit(X, y)
        scores = model.model_.raw_scores(X)
        assert np.isfinite(scores).all()
        if options.get("weak_learner") == "tree":
            assert model.score(X, y) == 1, cls
    two = np.repeat([0, 1], 40)
    for cls, options, constant in ADABOOST:
        model = cls(n_estimators=3, **options).fit(X, two)
        scores = model.model_.truncate(1).raw_scores(X)
        found = scores[:, 0] - scores[:, 1]
        np.testing.assert_allclose(np.abs(found), constant * LARGEST_COEFFICIENT, rtol=1e-5)
        assert ((found > 0) == (two == 0)).all()
