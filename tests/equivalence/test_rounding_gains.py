"""Gains that are only rounding make no splits, and leaves of equal rows do not depend on how the rows are given."""

import numpy as np
import pytest

from pymcboost import GentleBoostClassifier
from pymcboost.data.tree_data import TreeData
from pymcboost.learners.class_trees import ClassTrees
from pymcboost.learners.edge_trees import EdgeTrees
from pymcboost.registry import get_class

SEEDS = range(12)
# Algorithms whose trees have a gain in the kernel, and whether a tree is about one class against the others.
TREES = {
    "gentleboost": True,
    "samme": False,
    "adaboost-m1": False,
    "adaboost-m2": False,
    "adaboost-ml": False,
    "vector-tree": False,
}
TAKEN_BACK = (
    "adaboost-mh",
    "adaboost-mo",
    "piboost",
)  # of which splits without another sign are taken back


def drawn(seed):
    """X, y and whole weights: columns of few values, in which many splits tie, or of many."""
    rng = np.random.default_rng([53, seed])
    K, m = int(rng.integers(2, 5)), int(rng.integers(40, 100))
    y = np.r_[np.arange(K), rng.integers(0, K, m - K)]
    X = rng.normal(size=(m, 4)) + 0.7 * y[:, None] * rng.normal(size=4)
    if seed % 2:
        X = rng.integers(0, 3, (m, 4)).astype(float)
    return X, y, rng.integers(1, 60 if seed % 4 < 2 else 4, m)


def fitted(algorithm, X, y, weight=None, n_estimators=2):
    params = {
        "n_estimators": n_estimators,
        "weak_learner": "tree",
        "max_leaf_nodes": 30,
        "random_state": 0,
    }
    params |= {
        "learning_rate": 0.1,
        "min_relative_gain": 0.0,
        "subsample": 1.0,
        "max_features": 1.0,
        "calibrate": None,
    }
    cls = get_class(algorithm)
    known = cls().get_params()
    return cls(**{name: value for name, value in params.items() if name in known}).fit(
        X, y, sample_weight=weight
    )


def nodes(tree, X):
    """Rows of every node that a tree splits."""
    column, threshold, _, right, *_ = tree

    def walk(rows, at, end):
        if at == end:
            return
        yield rows
        left = X[rows, column[at]].astype(np.float32) <= threshold[at]
        yield from walk(rows[left], at + 1, at + right[at])
        yield from walk(rows[~left], at + right[at], end)

    yield from walk(np.arange(len(X)), 0, len(column))


@pytest.mark.parametrize("weights", ["none", "whole", "any"])
@pytest.mark.parametrize("algorithm", TREES)
@pytest.mark.part(2)
def test_pure_nodes_are_not_split(algorithm, weights):
    n_splits = 0
    for seed in SEEDS:
        X, y, times = drawn(seed)
        weight = {
            "none": None,
            "whole": times,
            "any": times * np.random.default_rng(seed).uniform(0.5, 1, len(y)),
        }
        # Later rounds of some have other gradients in rows of one class.
        model = fitted(algorithm, X, y, weight=weight[weights], n_estimators=1).model_
        for tree in model.ensemble.each():
            of = (y == tree[5]).astype(int) if TREES[algorithm] else y
            for rows in nodes(tree, X):
                assert len(np.unique(of[rows])) > 1, seed
                n_splits += 1
    assert n_splits > 100


@pytest.mark.parametrize("algorithm", [*TREES, *TAKEN_BACK])
def test_whole_weights_are_repeated_rows(algorithm):
    """The same scores; and the same number of splits where no split is taken back."""
    # With columns of few values, splits of vector trees tie: weights that are moved by 1e-7 change the trees.
    for seed in SEEDS[::2]:
        X, y, times = drawn(seed)
        weighted = fitted(algorithm, X, y, weight=times).model_
        repeated = fitted(algorithm, np.repeat(X, times, axis=0), np.repeat(y, times)).model_
        scores = weighted.raw_scores(X)
        np.testing.assert_allclose(
            repeated.raw_scores(X), scores, rtol=0, atol=1e-6 * np.abs(scores).max(), err_msg=seed
        )
        if algorithm in TREES:
            assert len(repeated.ensemble.feature) == len(weighted.ensemble.feature), seed


def test_splits_by_edges_part_both_signs():
    """Sums are integers, and two sides of one sign gain exactly 0: trees of MCBoost and others need no bound."""
    for seed in SEEDS:
        X, y, _ = drawn(seed)
        rng = np.random.default_rng(seed)
        data = TreeData(X, y, 2, sample_weight=np.ones(len(y)))
        a = rng.normal(size=len(y)) * np.exp(rng.normal(size=len(y)) * 5)
        gradient = data.gradient_buffer(1)
        gradient[0, :, 0] = a
        (tree,) = EdgeTrees(data, 30, None, n_threads=1, n_columns=1).fit(gradient)
        splits = list(nodes(tree, X[data.rows]))
        assert len(splits) == len(tree.feature) > 0
        assert all(a[rows].min() < 0 < a[rows].max() for rows in splits)


def test_leaves_of_gentleboost_do_not_depend_on_the_order_of_the_rows():
    """Also where the sum of a leaf cancels: sums in the order of the rows were up to 1e-17 apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 17, 170)
    y[:17] = np.arange(17)
    X = np.where(rng.random((170, 2)) < 0.3, rng.normal(size=(170, 2)), 0)
    weight = rng.integers(1, 4, 170).astype(float)
    params = {"n_estimators": 5, "weak_learner": "tree", "max_leaf_nodes": 6}
    first = GentleBoostClassifier(**params).fit(X, y, sample_weight=weight).model_.to_bytes()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(170)
        other = GentleBoostClassifier(**params).fit(X[order], y[order], sample_weight=weight[order])
        assert other.model_.to_bytes() == first


@pytest.mark.parametrize("smallest", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("largest", [0.4, 0.49, 1.4])
def test_rows_that_are_learnt_are_not_split_by_their_least_unit(smallest, largest):
    """Rows of one class with second derivatives of so many units, which become one: g / h is -1 in all of them."""
    y = np.r_[np.arange(40) % 2, np.ones(100, dtype=int)]
    X = np.r_[np.zeros(40), np.repeat([0.0, 1.0], 50)][:, None]
    data = TreeData(X, y, 2, sample_weight=np.ones(140))
    trees = ClassTrees(
        data, max_leaves=8, max_depth=None, min_samples_leaf=0.0, h_is_weight=False, n_threads=1
    )
    p = np.repeat([smallest, largest], 50) * (
        40 * 0.25 / trees.units.limit_h
    )  # others have p = 1/2
    F = np.zeros((140, 2))
    F[40:, 1] = np.log((1 - p) / p)
    trees.restart(F[data.rows])
    learnt = np.flatnonzero(data.rows >= 40).astype(np.int32)
    grown = trees.grow([(0, -1)], 0.1, learnt, np.zeros(0, dtype=np.uint8))
    assert grown.n_splits[0] == 0


def first_columns(repeat):
    """Columns of the first splits where two columns part all rows alike but for two that are learnt to 80 digits.

    Weights of these two are 1 and 3, then 3 and 1; ``repeat``: as rows.
    """
    found = []
    for times in ([1, 3], [3, 1]):
        times = np.r_[np.ones(40, dtype=int), times]
        y = np.r_[np.arange(40) < 25, 0, 0].astype(int)
        X = np.column_stack([np.r_[y[:40], 0, 1], np.r_[y[:40], 1, 0]]).astype(float)
        F = np.r_[np.zeros((40, 2)), [[200.0, 0.0]] * 2]
        weight = times.astype(float)
        if repeat:
            X, y, F, weight = (np.repeat(of, times, axis=0) for of in (X, y, F, np.ones(len(y))))
        data = TreeData(X, y, 2, sample_weight=weight)
        trees = ClassTrees(
            data,
            max_leaves=2,
            max_depth=None,
            min_samples_leaf=0.0,
            h_is_weight=False,
            n_threads=1,
            l2=1.0,
        )
        trees.restart(F[data.rows])
        nothing = np.zeros(0, dtype=np.uint8)
        found.append(int(data.column[trees.grow([(0, 1)], 0.1, None, nothing).feature[0, 0]]))
    return found


def test_rows_without_a_gradient_count_one_unit_each():
    """Why scores of whole weights and of repeated rows may differ: splits that tie but for rows that are learnt.

    The second derivative of a row is a unit at least, so that a cell with rows is never empty. A weight of 3 has one
    unit, and three rows have three. These decide between splits whose gains agree to 40 digits.
    """
    assert first_columns(repeat=False) == [0, 0]
    assert sorted(first_columns(repeat=True)) == [0, 1], (
        "no unit for each row any more: mend the docs"
    )
