"""Trees with vector leaves: one tree for all classes, grown on the gradient of all classes at once."""

import math
from dataclasses import dataclass

import numpy as np

from pymcboost._kernels import vector_trees as _vector_trees
from pymcboost._kernels import vector_trees64 as _vector_trees64
from pymcboost._kernels.exact import is_wide
from pymcboost.learners import levels
from pymcboost.learners.draws import drawn_of, leaves_of, share_of
from pymcboost.learners.reuse import on_grid
from pymcboost.model.entries import rounded

# Largest entry of a leaf vector before shrinkage.
LARGEST_STEP = 4.0
# While trees grow, a split needs only this share of the relative gain that subtrees must have on average. A split
# that gains little can lead to others that gain much.
GROWN_SHARE = 1 / 8
# "auto": number of rows per leaf, and bounds on the number of leaves. Chosen by cross-validation on training parts,
# see docs/results/choices.md.
ROWS_PER_LEAF = 25
FEWEST_LEAVES = 31
MOST_LEAVES = 500
# "auto": with more than FEW_CLASSES classes, splits are searched in random directions. Their number is the square
# root of the number of classes, up to half a block of lanes minus the one for the weight. With many classes, a whole
# block gave less log loss in cross-validation, and with even more, two blocks.
FEW_CLASSES = 4
HALF_BLOCK = 7
SEVERAL_CLASSES = 225
ONE_BLOCK = 15
MANY_CLASSES = 484
TWO_BLOCKS = 31
# On sparse rows, directions save little time and increase the error: none up to this many classes, two blocks above.
FEW_SPARSE = 32
# Number of leaves whose entries are chosen at once, so that they stay in the cache.
FEW_LEAVES = 16


def leaves_for(n_rows):
    """Number of leaves of a tree for "auto"."""
    return leaves_of(n_rows, ROWS_PER_LEAF, FEWEST_LEAVES, most=MOST_LEAVES)


def columns_for(split_columns, n_classes, sparse=False):
    """Number of directions in which splits are searched; None to use the classes themselves."""
    if split_columns == "auto":
        if n_classes <= (FEW_SPARSE if sparse else FEW_CLASSES):
            return None
        split_columns = min(math.ceil(math.sqrt(n_classes)), HALF_BLOCK)
        if n_classes > SEVERAL_CLASSES:
            split_columns = ONE_BLOCK
        if sparse or n_classes > MANY_CLASSES:
            split_columns = TWO_BLOCKS
    return split_columns if split_columns is not None and split_columns < n_classes else None


@dataclass(frozen=True)
class VectorTree:
    """One tree: splits in preorder, leaf vectors (see `model.trees.Trees`), and the leaf of every training row.

    ``sets`` holds the codes that go left at splits on categorical features, by split number. ``shared`` holds the value
    of each leaf for all classes without an entry, see `shared_leaves`, or is None. ``rows`` and ``leaf_start`` give the
    rows of every leaf, and are valid until the next tree.
    """

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    gain: np.ndarray
    value: np.ndarray
    leaf: np.ndarray
    rows: np.ndarray
    leaf_start: np.ndarray
    sets: dict
    shared: np.ndarray | None = None


class VectorTrees:
    """Grows trees with vector leaves for a loss (see `losses.Loss.rows`).

    Parameters
    ----------
    data : TreeData
    loss : losses.rows.Rows
    max_leaves : int or "auto"
    max_depth : int or None
    min_samples_leaf : float
        Minimum sum of weights in a leaf; rows are counted if all weights are equal.
    max_features : float or "auto"
        Share of the usable features that is drawn at every node, at least one.
    leaf_step : {"diagonal", "full"}
        Curvature of softmax in the leaves: only the diagonal, or the full matrix.
    learning_rate : float
    n_threads : int
    split_columns : int, "auto" or None, default=None
        Number of directions in which splits are searched; None for the classes themselves.
    min_share : float, default=0.0
        Only nodes with more than this share of the weight are split.
    min_samples_category : float, default=15
        Categories with less weight in a node are pooled, see `levels.least_levels`.
    l2, min_gain, min_relative_gain, subsample, max_features_tree : float, optional
        As in the estimators.
    groups : ndarray of uint64 (n_features,), optional
        Columns on one path have a bit in common.
    ordered : Ordered, optional
        Moves the leaf vectors to where constraints hold.
    max_entries : int, optional
        Maximum number of classes that have a number in a leaf, see `sparse_leaves`.
    reuse : Reuse, optional
        Lowers the gains of features and thresholds that are new in the model.
    leaf_levels : int, optional
        Leaf values are rounded to up to this many multiples of a step, see `on_grid`.

    Attributes
    ----------
    keeps_sums : bool
        Whether the sums over the rows of the last tree's leaves are kept.
    sums : ndarray of float32 (n_leaves, 2, width), or None
    """

    def __init__(
        self,
        data,
        loss,
        *,
        max_leaves,
        max_depth,
        min_samples_leaf,
        max_features,
        leaf_step,
        learning_rate,
        n_threads,
        split_columns=None,
        min_share=0.0,
        l2=0.0,
        min_gain=0.0,
        min_relative_gain=0.0,
        subsample=1.0,
        max_features_tree=1.0,
        groups=None,
        ordered=None,
        min_samples_category=15.0,
        max_entries=None,
        reuse=None,
        leaf_levels=None,
    ):
        self.data = data
        self.loss = loss
        self.n_threads = n_threads
        # Limits of the trees.
        if max_leaves == "auto":
            max_leaves = leaves_for(data.total_rows)
        self._max_leaves = min(max_leaves, data.total_rows)
        self._max_depth = max_depth or 0
        self._least_leaf = loss.least(min_samples_leaf)
        self._min_share = min_share
        self._min_gain = min_gain
        self.min_relative_gain = min_relative_gain
        # Leaves.
        self.leaf_step = leaf_step
        self.learning_rate = learning_rate
        self._l2 = l2
        self._max_entries = max_entries
        self._leaf_levels = leaf_levels
        self.ordered = ordered
        self._changes_values = any(
            option is not None for option in (max_entries, leaf_levels, ordered)
        )
        self.keeps_sums = False
        self.sums = None
        # Rows and features that are drawn, for a tree and for a node.
        self.subsample = share_of(subsample, data.total_rows)
        self._n_used = len(data.columns.column)
        self._n_pool = max(1, round(max_features_tree * self._n_used))
        self._n_drawn = drawn_of(max_features, self._n_pool, data.total_rows)
        # What restricts splits, or changes their gains.
        self.reuse = reuse
        self._groups = None if groups is None else groups[data.columns.column]
        self._least_levels = levels.least_levels(
            data,
            loss.weight,
            self.subsample,
            units=loss.units,
            enough=min_samples_category,
            bound_scale=loss.bound_scale,
        )
        n_columns = columns_for(split_columns, data.n_classes, data.is_sparse)
        self._searched = loss if n_columns is None else loss.directions(n_columns)
        self._grower = None
        if self._n_used:
            self._grower = self._new_grower(self._n_drawn, self._n_pool, self.subsample)

    def _new_grower(self, n_drawn, n_pool, subsample):
        """Create a kernel that draws rows and features for every tree, and some of these features for every node."""
        searched = self._searched
        kernel = _vector_trees64 if is_wide(self.data.total_rows) else _vector_trees
        grower = kernel.Grower(
            self.data.columns,
            searched.n_columns,
            searched.lanes,
            searched.blocks,
            self._max_leaves,
            self._max_depth,
            self._least_leaf,
            n_drawn,
            self.n_threads,
            self._min_share,
            subsample,
            n_pool,
            self._groups,
            self._least_levels,
            self.data.row_number if subsample < 1 else None,
            self.data.comm if self.data.comm.size > 1 else None,
        )
        if self.reuse is not None:
            self.reuse.set_penalties(grower)
        return grower

    def next(self, seed, t):
        """Grow the tree of round ``t``; None if no split is left or all leaf values are 0.

        If the drawn rows allow no split, the tree is grown on all rows, so that an unlucky draw does not end the
        training.
        """
        K = self.data.n_classes
        key = _vector_trees.round_key(seed, t)
        for subsample in sorted({self.subsample, 1.0}):
            tree = self.fit(key, subsample)
            if tree is not None and tree.value[:, :K].astype(np.float32, copy=False).any():
                return tree
        return None

    def fit(self, key, subsample=None):
        """Grow the next tree; None if no split is left. ``key``: 64 bits that determine the random rows and features.

        If the features drawn for the root cannot split it, the tree uses all features.
        """
        if self._grower is None:
            return None
        gradient = self._searched.integers(key)
        if gradient is None:
            return None
        grown = self._grow(gradient, key, self.subsample if subsample is None else subsample)
        feature, pos, nan_left, right, gain, rows, leaf_start, leaf, sets = grown
        if not len(feature):
            return None
        column = self.data.columns.column[feature]
        value, shared = self._leaf_values(column, right, rows, leaf_start)
        return VectorTree(
            column,
            self.data.threshold_of(feature, pos),
            nan_left,
            right=right,
            gain=gain * self._searched.gain_unit,
            value=value,
            leaf=leaf,
            rows=rows,
            leaf_start=leaf_start,
            sets={j: self.data.columns.levels[feature[j]][bins] for j, bins in sets.items()},
            shared=shared,
        )

    def _grow(self, gradient, key, subsample):
        """Grow a tree on integer gradients; return what the kernel returns."""
        searched = self._searched
        min_gain, mean_gain = self._gain_bounds()
        arguments = (
            gradient,
            key,
            min_gain / searched.gain_unit,
            self._level_cost() / searched.gain_unit,
            searched.row_error,
            searched.rows_per_weight,
            mean_gain / searched.gain_unit,
        )
        grower = self._grower
        if subsample != self.subsample:
            grower = self._new_grower(self._n_drawn, self._n_pool, subsample)
        grown = grower.grow(*arguments)
        has_splits = len(grown[0]) > 0
        if not has_splits and self._n_drawn < self._n_used:
            grower = self._new_grower(self._n_used, self._n_used, subsample)
            grown = grower.grow(*arguments)
        return grown

    def _leaf_values(self, column, right, rows, leaf_start):
        """Leaf vectors (n_leaves, width) with all options applied, and what the classes of a leaf share, or None."""
        self.sums = None
        value = self.leaf_vectors(rows, leaf_start)
        if not self._changes_values:
            return value, None
        value = value.astype(np.float64, copy=False)
        values_of_classes = value[:, : self.data.n_classes]
        shared = self._keep_few_entries(values_of_classes, rows, leaf_start)
        if self.ordered is not None:
            count = self.data.comm.sum(np.diff(leaf_start))
            values_of_classes[...] = self.ordered(values_of_classes, column, right, count)
        if self._leaf_levels is not None:
            on_grid(values_of_classes, self._leaf_levels, self.learning_rate)
        return value, shared

    def _keep_few_entries(self, value, rows, leaf_start):
        """Set most numbers of each leaf to 0, or to a shared number, which is returned."""
        if self._max_entries is None:
            return None
        if self.loss.shift_invariant or self._leaf_levels is not None:
            return sparse_leaves(value, self._max_entries, self.loss.shift_invariant)
        return shared_leaves(
            value, self._max_entries, self.loss.leaf_curvature(rows, leaf_start, self._l2)
        )

    def _gain_bounds(self):
        """Minimum gain of a split while the tree grows, and minimum mean gain of splits in a subtree that is kept."""
        mean_gain = self.min_relative_gain * self.loss.variance() if self.min_relative_gain else 0.0
        return max(self._min_gain, GROWN_SHARE * mean_gain), mean_gain

    def _level_cost(self):
        """Additional gain that a split needs for each level in parts; by chance, one gains the mean square of a row."""
        return levels.PER_LEVEL * self.loss.mean_square() if self._least_levels else 0.0

    def leaf_vectors(self, rows, leaf_start):
        """Values to add to the scores of the rows of each leaf, ``rows[leaf_start[j]:leaf_start[j + 1]]``."""
        if self.keeps_sums and self.data.comm.size == 1:
            self.sums = np.empty((len(leaf_start) - 1, 2, self.loss.width), dtype=np.float32)
        return self.loss.leaf_values(
            rows,
            leaf_start,
            full=self.leaf_step == "full",
            l2=self._l2,
            largest=LARGEST_STEP,
            rate=self.learning_rate,
            kept=self.sums,
        )


def sparse_leaves(value, n_entries, invariant):
    """Keep the ``n_entries`` most relevant numbers of each leaf vector (n_leaves, K); set the others to 0, in place.

    If the loss is ``invariant`` to a shift of all scores, most classes do not occur in a leaf and have about the same
    negative value. Those that differ most from the mean of the negative values are kept, and each vector is shifted
    so that the mean of the others is 0. Otherwise, the largest absolute values are kept. Ties go to the lower class.
    """
    K = value.shape[1]
    if n_entries >= K:
        return
    for begin in range(0, len(value), FEW_LEAVES):
        leaves = value[begin : begin + FEW_LEAVES]
        common = np.zeros((len(leaves), 1))
        if invariant:
            negative = leaves < 0
            sums = np.where(negative, leaves, 0).sum(axis=1, keepdims=True)
            common = sums / np.maximum(negative.sum(axis=1), 1)[:, None]
        keep = largest(np.abs(leaves - common), n_entries)
        if invariant:
            common = np.where(keep, 0, leaves).sum(axis=1, keepdims=True) / (K - n_entries)
        leaves[:] = np.where(keep, leaves - common, 0).astype(np.float32)


def largest(size, n):
    """Mark the n largest numbers of each row; ties go to the lower class."""
    nth_largest = np.partition(size, -n, axis=1)[:, [-n]]
    is_larger = size > nth_largest
    is_tied = size == nth_largest
    n_ties = n - is_larger.sum(axis=1)[:, None]
    return is_larger | (is_tied & (np.cumsum(is_tied, axis=1) <= n_ties))


def shared_leaves(value, n_entries, curvature):
    """Replace all but ``n_entries`` numbers of each leaf vector (n_leaves, K) by a shared one; return it (n_leaves,).

    The numbers are steps, and ``curvature`` (n_leaves, K) is what gradients were divided by. Replacing a step v by c
    costs h (v - c)^2 / 2 of the loss. The numbers whose replacement by the mean of the negative ones would cost most
    are kept. The others get their mean, weighted by the curvatures. All numbers become multiples of `GRID`.
    """
    shared = np.empty(len(value), dtype=np.float32)
    K = value.shape[1]
    for begin in range(0, len(value), FEW_LEAVES):
        part = slice(begin, begin + FEW_LEAVES)
        leaves = value[part]
        h = curvature[part]
        leaves[:] = rounded(np.clip(leaves, -LARGEST_STEP, LARGEST_STEP))
        if n_entries >= K:
            shared[part] = 0
            continue
        common = _weighted_means(leaves, np.where(leaves < 0, h, 0))
        is_replaced = ~largest(h * (leaves - common) ** 2, n_entries)
        means = _weighted_means(leaves, np.where(is_replaced, h, 0))
        shared[part] = rounded(means[:, 0])
        leaves[:] = np.where(is_replaced, shared[part, None], leaves)
    return shared


def _weighted_means(values, weight):
    """Weighted mean of each row: (n, 1)."""
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    return (weight * values).sum(axis=1, keepdims=True) / total


class ClassificationTrees(VectorTrees):
    """Grows classification trees by the Gini impurity; leaf vectors are 1 for the heaviest class, else 0.

    Parameters
    ----------
    data : TreeData
    loss : ClassWeights
    max_leaves : int
    max_depth : int or None
    n_threads : int
    min_share : float, default=0.0
        Only nodes with more than this share of the weight are split.
    """

    def __init__(self, data, loss, max_leaves, max_depth, n_threads, min_share=0.0):
        super().__init__(
            data,
            loss,
            max_leaves=max_leaves,
            max_depth=max_depth,
            min_samples_leaf=0.0,
            max_features=1.0,
            leaf_step=None,
            learning_rate=1.0,
            n_threads=n_threads,
            min_share=min_share,
        )

    def fit(self, weight):
        """Grow a tree for the weights (m,) of the rows; None if no split is left."""
        self.loss.weight = weight
        return super().fit(0)

    def _level_cost(self):
        return 0.0

    def leaf_vectors(self, rows, leaf_start):
        """Vectors with 1 for the heaviest class of each leaf, and 0 for the others."""
        K = self.data.n_classes
        votes = np.zeros((len(leaf_start) - 1, self.loss.width))
        for j in range(len(votes)):
            leaf_rows = rows[leaf_start[j] : leaf_start[j + 1]]
            class_weight = np.bincount(
                self.data.y[leaf_rows], weights=self.loss.counts[leaf_rows], minlength=K
            )
            votes[j, class_weight.argmax()] = 1.0
        return votes
