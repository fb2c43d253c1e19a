"""Regression stumps and trees of the classes on margin vectors.

For class j the target is 1 / z with the weights w z^2, z = [own class] - 1/K, so that a leaf has the value
sum w z / sum w z^2.
"""

import numpy as np

from pymcboost._kernels import class_loss as _class_loss
from pymcboost._kernels import classwise_trees as _trees
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost._kernels import splits as _splits
from pymcboost._kernels.exact import total, units_in_parts
from pymcboost.data.tree_data import Grown, Quantiser
from pymcboost.learners.sampling import draw_distinct
from pymcboost.learners.stumps import EveryStump, add_stumps, fill_by_class


class MarginStumps:
    """Regression stumps of all classes from one scan of the class weights.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    """

    def __init__(self, data, n_threads):
        K = data.n_classes
        self.data = data
        self._n_threads = n_threads
        self._search = EveryStump(data, n_threads)
        self._gradient = data.gradient_buffer()
        self._starts, self._class_of_chunk = _weights.chunks(data.class_start)
        self._gain = np.empty(K)
        self._split_of_class = np.empty(K, dtype=np.int64)
        self._partial = np.empty((len(self._class_of_chunk), K))
        self._signed = np.empty((K, K))

    def fit(self, weight):
        """Fit stumps of all classes for the weights (m,); None if no split explains anything of any class."""
        K = self.data.n_classes
        class_weight = fill_by_class(self._gradient, self.data.class_start, weight)
        edge, splits, total = self._search.edges(self._gradient)
        split_of_class = self._split_of_class
        _splits.margin_gains(
            edge,
            splits,
            np.ascontiguousarray(total),
            self._search.tie,
            self._gain,
            split_of_class,
        )
        # A class that no split separates gets the split of another class.
        split_of_class[split_of_class < 0] = split_of_class[np.argmax(self._gain)]
        if (split_of_class < 0).any():
            return None
        stumps = self._search.stumps(split_of_class)
        # Leaf values come from sums of the weights themselves. Differences of edges would only be rounding errors if a
        # side has little weight.
        _weights.signed_weights(
            self._search.outputs,
            weight,
            self._starts,
            self._class_of_chunk,
            self._partial,
            self._signed,
            self._n_threads,
        )
        self._leaf = np.empty((K, 2), dtype=np.float32)
        for side, sign in enumerate((-1, 1)):
            own_weight = (class_weight + sign * self._signed.diagonal()) / 2
            mean_weight = (class_weight.sum() + sign * self._signed.sum(axis=0)) / (2 * K)
            wz = own_weight - mean_weight
            wz2 = own_weight * (1 - 2 / K) + mean_weight / K
            self._leaf[:, side] = wz / wz2
        return stumps if self._leaf.any() else None

    def add_to(self, margin):
        """Add the last stumps' values on the training rows to the margins (m,).

        A row gets the value of its class minus the mean over all classes.
        """
        minus, plus = np.ascontiguousarray(self._leaf.T, dtype=np.float64)
        outputs = self._search.outputs
        _weights.add_margins(
            outputs, minus, plus, self._starts, self._class_of_chunk, margin, self._n_threads
        )

    def add_round(self, builder, stumps, gain):
        """Add the stumps to a TreesBuilder; ``gain`` is used only by trees."""
        add_stumps(builder, stumps, self._leaf, cls=np.arange(len(stumps)))


def counts_for(data):
    """Whether histogram cells store a count of rows."""
    return bool(data.dtype == np.float64)


class MarginTrees:
    """Regression trees of the classes.

    Parameters
    ----------
    data : TreeData
    max_leaves : int
    max_depth : int or None
    n_threads : int
    subsample : float, default=1.0
        Share of the rows that a tree is grown on. Below 1, they are drawn by the tree's weights w z^2, without
        replacement, because leaf values come only from the drawn rows, and a row drawn often would dominate them.
    min_share : float, default=0.0
        Only nodes with more than this share of the weight are split.
    """

    def __init__(self, data, max_leaves, max_depth, n_threads, subsample=1.0, min_share=0.0):
        self.data = data
        self._n_threads = n_threads
        self._subsample = subsample
        K = data.n_classes
        units = Quantiser(data, counts_for(data))
        self._units = units
        self._grower = _trees.Grower(
            data.tiles,
            max_leaves,
            max_depth or 0,
            units.least,
            units.cell_words,
            False,
            data.pools(units.cell_words, max_leaves),
            n_threads,
            min_share,
            count_bits=units.count_bits,
            h_error=1.0,
            weight=data.whole_weight,
        )
        self._z = np.eye(K) - 1 / K
        self._grown = Grown.empty(K, max_leaves, data.n_rows, data.set_words)
        self._values = np.zeros((K, data.n_rows))

    def fit(self, weight, generator=None):
        """Fit trees of all classes for the weights (m,): (column, threshold, nan_left, right, value, gain).

        None if nothing can be learned. With ``subsample`` below 1, rows are drawn by ``generator``.
        """
        data = self.data
        units = self._units
        K = data.n_classes
        # g and h of a row of weight 1, by the class of the tree and the class of the row.
        g = self._z
        h = self._z**2
        weights = weight[None, :]  # of the rows, for all trees or for each
        if self._subsample < 1:
            n = max(1, round(self._subsample * data.n_rows))
            weights = np.array([draw_distinct(weight * row[data.y], n, generator) for row in h])
            g = 1 / self._z
            h = np.ones((K, K))
        class_weights = np.array(
            [[total(part) for part in np.split(row, data.class_start[1:-1])] for row in weights]
        )
        largest = weights.max() * max(np.abs(g).max(), h.max())
        scale = np.empty((K, 3))
        scale[:, 0] = units.limit_g / (np.abs(g) * class_weights).sum(axis=1)
        scale[:, 1] = units.limit_h / (h * class_weights).sum(axis=1)
        # Rows are counted without their weights, because the units of all weights may not fit.
        scale[:, 2] = 1
        leaf_units = units_in_parts(largest, data.n_rows)
        self._grower.grow_classes(weights, data.y, g, h, scale, leaf_units, self._grown)
        trees = self._grown.trees(np.arange(K), data)
        *_, value, gain = trees
        return trees if len(gain) and value.any() else None

    def add_to(self, margin):
        """Add the last trees' values on the training rows to the margins (m,), see `MarginStumps.add_to`."""
        K = self.data.n_classes
        y = self.data.y
        classes = np.arange(K, dtype=np.int32)
        no_base = np.full(K, -1, dtype=np.int32)
        values = self._values
        values[...] = 0
        _class_loss.add_trees(
            self._grown.leaf, self._grown.value, classes, classes, no_base, values, self._n_threads
        )
        margin += values[y, np.arange(len(y))] - values.mean(axis=0)

    def add_round(self, builder, trees_and_gains, gain):
        """Add the trees to a TreesBuilder, and record the gains of their splits."""
        *trees, gain_of_splits = trees_and_gains
        builder.add_trees(*trees, np.arange(self.data.n_classes))
        column = trees[1]
        gain.add(column, gain_of_splits)
