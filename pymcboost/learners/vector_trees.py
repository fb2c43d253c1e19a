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
# root of the number of classes, up to half a block of lanes minus the one for the weight. With more classes, whole
# blocks and later two blocks gave less log loss in cross-validation.
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

    ``sets``: codes that go left at splits on categorical features, by split number. ``shared``: the value that all
    classes of a leaf without an entry share, see `shared_leaves`; or None. ``rows``, ``leaf_start``: the rows of every
    leaf, valid until the next tree.
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
        Directions of the classes that splits are found in; None: the classes themselves.
    min_share : float, default=0.0
        Only nodes with more than this share of the weight are split.
    min_samples_category : float, default=15
        Categories of less weight in a node go with others of that kind.
    l2, min_gain, min_relative_gain, subsample, max_features_tree : float, optional
        As in the estimators.
    groups : ndarray of uint64 (n_features,), optional
        Columns on one path have a bit in common.
    ordered : Ordered, optional
        Moves the leaf vectors to where constraints hold.
    max_entries : int, optional
        Most classes that have a number in a leaf, see `sparse_leaves`.
    reuse : Reuse, optional
        Lowers the gains of features and thresholds that are new in the model.
    leaf_levels : int, optional
        Numbers of leaves are these multiples of a step, see `on_grid`.

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
        self._max_entries = max_entries
        self.reuse = reuse
        self._levels = leaf_levels
        self.keeps_sums = False
        self.sums = None
        self.data = data
        self.loss = loss
        self._min_share = min_share
        self._changes_values = any(
            option is not None for option in (max_entries, leaf_levels, ordered)
        )
        self.subsample = subsample = share_of(subsample, data.total_rows)
        self.leaf_step = leaf_step
        self.learning_rate = learning_rate
        self.n_threads = n_threads
        self._l2 = l2
        self._min_gain = min_gain
        self.min_relative_gain = min_relative_gain
        max_leaves = leaves_for(data.total_rows) if max_leaves == "auto" else max_leaves
        self._limits = (
            min(max_leaves, data.total_rows),
            max_depth or 0,
            loss.least(min_samples_leaf),
        )
        self._n_used = len(data.columns.column)
        self.ordered = ordered
        self._groups = None if groups is None else groups[data.columns.column]
        self._pool = max(1, round(max_features_tree * self._n_used))
        self._n_drawn = drawn_of(max_features, self._pool, data.total_rows)
        self._least_levels = levels.least_levels(
            data,
            loss.weight,
            subsample,
            units=loss.units,
            most=min_samples_category,
            bound_scale=loss.bound_scale,
        )
        n_columns = columns_for(split_columns, data.n_classes, data.is_sparse)
        self._searched = loss if n_columns is None else loss.directions(n_columns)
        self._grower = (
            self._new_grower(self._n_drawn, self._pool, subsample) if self._n_used else None
        )

    def _new_grower(self, n_drawn, pool, subsample):
        """Create a kernel that draws rows and features for every tree, and some of these features for every node."""
        on = self._searched
        kernel = _vector_trees64 if is_wide(self.data.total_rows) else _vector_trees
        grower = kernel.Grower(
            self.data.columns,
            on.n_columns,
            on.lanes,
            on.blocks,
            *self._limits,
            n_drawn,
            self.n_threads,
            self._min_share,
            subsample,
            pool,
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
        A = self._searched.integers(key)
        if A is None:
            return None
        unit = self._searched.gain_unit
        least, mean_gain = self._gain_bounds()
        of = self.subsample if subsample is None else subsample
        grower = (
            self._grower
            if of == self.subsample
            else self._new_grower(self._n_drawn, self._pool, of)
        )
        searched = self._searched
        arguments = (
            A,
            key,
            least / unit,
            self._level_cost() / unit,
            searched.row_error,
            searched.rows_per_weight,
            mean_gain / unit,
        )
        grown = grower.grow(*arguments)
        if not len(grown[0]) and self._n_drawn < self._n_used:
            grown = self._new_grower(self._n_used, self._n_used, of).grow(*arguments)
        feature, pos, nan_left, right, gain, rows, leaf_start, leaf, sets = grown
        if not len(feature):
            return None
        self.sums = None
        value = self.leaf_vectors(rows, leaf_start)
        if self._changes_values:
            value = value.astype(np.float64, copy=False)
        threshold = self.data.threshold_of(feature, pos)
        column = self.data.columns.column[feature]
        sets = {j: self.data.columns.levels[feature[j]][bins] for j, bins in sets.items()}
        shared = self._few_entries(value[:, : self.data.n_classes], rows, leaf_start)
        if self.ordered is not None:
            K = self.data.n_classes
            count = self.data.comm.sum(np.diff(leaf_start))
            value[:, :K] = self.ordered(value[:, :K], column, right, count)
        if self._levels is not None:
            on_grid(value[:, : self.data.n_classes], self._levels, self.learning_rate)
        return VectorTree(
            column,
            threshold,
            nan_left,
            right=right,
            gain=gain * unit,
            value=value,
            leaf=leaf,
            rows=rows,
            leaf_start=leaf_start,
            sets=sets,
            shared=shared,
        )

    def _few_entries(self, value, rows, leaf_start):
        """Set most numbers of each leaf to 0, or to a shared number, which is returned."""
        if self._max_entries is None:
            return None
        if self.loss.shift_invariant or self._levels is not None:
            return sparse_leaves(value, self._max_entries, self.loss.shift_invariant)
        return shared_leaves(
            value, self._max_entries, self.loss.leaf_curvature(rows, leaf_start, self._l2)
        )

    def _gain_bounds(self):
        """Minimum gain of a split while the tree grows, and minimum mean gain of splits in a subtree that is kept."""
        mean_gain = self.min_relative_gain * self.loss.variance() if self.min_relative_gain else 0.0
        return max(self._min_gain, GROWN_SHARE * mean_gain), mean_gain

    def _level_cost(self):
        # By chance, a level gains the mean square of a row.
        return levels.PER_LEVEL * self.loss.mean_square() if self._least_levels else 0.0

    def leaf_vectors(self, rows, leaf_start):
        """Values to add to the scores of the rows of each leaf, ``rows[leaf_start[j]:leaf_start[j + 1]]``."""
        step_options = self.leaf_step == "full", self._l2, LARGEST_STEP, self.learning_rate
        if self.keeps_sums and self.data.comm.size == 1:
            self.sums = np.empty((len(leaf_start) - 1, 2, self.loss.width), dtype=np.float32)
        return self.loss.leaf_values(rows, leaf_start, *step_options, self.sums)


def sparse_leaves(value, most, invariant):
    """Keep the ``most`` relevant numbers of each leaf vector (n_leaves, K), and set the others to 0, in place.

    If the loss is ``invariant`` to a shift of all scores, most classes do not occur in a leaf and have about the same
    negative value. Those that differ most from the mean of the negative values are kept, and each vector is shifted
    so that the mean of the others is 0. Otherwise, the largest absolute values are kept. Ties go to the lower class.
    """
    K = value.shape[1]
    for begin in range(0, len(value) if most < K else 0, FEW_LEAVES):
        part = value[begin : begin + FEW_LEAVES]
        common = np.zeros((len(part), 1))
        if invariant:
            below = part < 0
            common = (
                np.where(below, part, 0).sum(axis=1, keepdims=True)
                / np.maximum(below.sum(axis=1), 1)[:, None]
            )
        keep = largest(np.abs(part - common), most)
        if invariant:
            common = np.where(keep, 0, part).sum(axis=1, keepdims=True) / (K - most)
        part[:] = np.where(keep, part - common, 0).astype(np.float32)


def largest(size, most):
    """Mark the ``most`` largest numbers of each row; ties go to the lower class."""
    least = np.partition(size, -most, axis=1)[:, [-most]]
    keep = size > least
    ties = size == least
    return keep | (ties & (np.cumsum(ties, axis=1) <= most - keep.sum(axis=1)[:, None]))


def shared_leaves(value, most, curvature):
    """Replace all but ``most`` numbers of each leaf vector (n_leaves, K) by a shared one, and return it (n_leaves,).

    The numbers are steps, and ``curvature`` (n_leaves, K) is what gradients were divided by. Replacing a step v by c
    costs h (v - c)^2 / 2 of the loss. The numbers whose replacement by the mean of the negative ones would cost most
    are kept. The others get their mean, weighted by the curvatures. All numbers become multiples of `GRID`.
    """
    shared = np.empty(len(value), dtype=np.float32)
    K = value.shape[1]
    for begin in range(0, len(value), FEW_LEAVES):
        part, h = value[begin : begin + FEW_LEAVES], curvature[begin : begin + FEW_LEAVES]
        part[:] = rounded(np.clip(part, -LARGEST_STEP, LARGEST_STEP))
        common = _mean(part, np.where(part < 0, h, 0))
        rest = np.ones(part.shape, dtype=bool)
        if most < K:
            rest = ~largest(h * (part - common) ** 2, most)
        shared[begin : begin + FEW_LEAVES] = rounded(
            _mean(part, np.where(rest, h, 0))[:, 0] if most < K else 0
        )
        if most < K:
            part[:] = np.where(rest, shared[begin : begin + FEW_LEAVES, None], part)
    return shared


def _mean(part, weight):
    return (weight * part).sum(axis=1, keepdims=True) / np.maximum(
        weight.sum(axis=1, keepdims=True), 1e-300
    )


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
        """See `VectorTrees`."""
        K = self.data.n_classes
        y = self.data.y
        weight = self.loss.counts
        votes = np.zeros((len(leaf_start) - 1, self.loss.width))
        for j in range(len(votes)):
            part = rows[leaf_start[j] : leaf_start[j + 1]]
            votes[j, np.bincount(y[part], weights=weight[part], minlength=K).argmax()] = 1.0
        return votes
