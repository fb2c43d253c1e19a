"""Regression stumps and trees for labels of which a row may have any number: a problem of its own for each label.

For label k the target is z, +1 on the rows that have it and -1 on the others, with the weights w = exp(-z F_k) of the
rows, so that a leaf has the value sum w z / sum w.
"""

import numpy as np

from pymcboost._kernels import class_loss as _class_loss
from pymcboost._kernels import elementary
from pymcboost._kernels import splits as _splits
from pymcboost._kernels.exact import total as sum_of
from pymcboost.data.tree_data import Grown
from pymcboost.learners.margin import grower_of
from pymcboost.learners.stumps import EveryStump, add_stumps

# What a split explains beyond a constant, by the weights: below this share there is nothing to learn.
SMALLEST_GAIN = 1e-14
# A score for the sigmoid is so many times F.
TIMES = np.float32(2)


class LabelWeights:
    """Scores F (K, m) of the labels and the weights that follow from them.

    Parameters
    ----------
    data : TrainingRows
    code : ndarray (S, K)
        Signs of the labels in each class of the data, which is a set of labels.
    """

    def __init__(self, data, code):
        self.data = data
        self.z = np.ascontiguousarray(code[data.y].T, dtype=np.int8)
        self.F = np.zeros(self.z.shape)

    def start(self, scores):
        """Take over scores (m, K) of the sigmoids, or zeros."""
        self.F[...] = 0.0 if scores is None else scores.T / TIMES

    def weights(self):
        """Weights (K, m), in a scale of its own for each label."""
        W = -self.z * self.F
        W -= W.max(axis=1, keepdims=True)
        elementary.exp(W, out=W)
        W *= self.data.weight
        return W


class LabelStumps(LabelWeights):
    """Regression stumps of all labels from one scan of two columns for each: w z, and w.

    Parameters
    ----------
    data : TrainingData
    code : ndarray (S, K)
    n_threads : int
    """

    def __init__(self, data, code, n_threads):
        super().__init__(data, code)
        K = len(self.z)
        self._n_threads = n_threads
        self._search = EveryStump(data, n_threads, 2 * K)
        self._gradient = data.gradient_buffer(2 * K)
        self._sums, self._none = None, np.ones(K, dtype=np.uint8)
        self._gain, self._at = np.zeros(K), np.zeros(K, dtype=np.int64)

    def fit(self):
        """Stumps of all labels; None where no split explains anything of any label."""
        W, K, lanes = self.weights(), len(self.z), self._gradient.shape[2]
        for k in range(K):
            for column, values in ((k, W[k] * self.z[k]), (K + k, W[k])):
                self._gradient[column // lanes, :, column % lanes] = values
        edge, splits, total = self._search.edges(self._gradient)
        if not len(splits):
            return None
        if self._sums is None:
            self._sums = np.empty((K, 4, len(splits)))
        _splits.joint_sums(edge, splits, total, self._sums, self._n_threads)
        alone = np.zeros(self._sums.shape[1:])
        _splits.joint_gains(alone, self._sums, self._none, self._search.tie, self._gain, self._at, self._n_threads)
        z_of, w_of = total[:K], np.maximum(total[K:], 1e-300)
        if not (self._gain - z_of**2 / w_of > SMALLEST_GAIN * w_of).any():
            return None
        found = self._search.stumps(np.maximum(self._at, 0))
        self._leaf = np.empty((K, 2), dtype=np.float32)
        for k, h in enumerate(self._search.outputs):
            for side, rows in enumerate((h < 0, h > 0)):
                w = W[k, rows]
                self._leaf[k, side] = sum_of(w * self.z[k, rows]) / max(sum_of(w), 1e-300)
        return found

    def add_to_scores(self):
        """Add the last stumps' values on the training rows."""
        for k, h in enumerate(self._search.outputs):
            self.F[k] += self._leaf[k].astype(np.float64)[(h > 0).astype(np.intp)]

    def add_round(self, builder, found, gain):
        """Append the stumps to a TreesBuilder; ``gain`` is that of trees."""
        add_stumps(builder, found, TIMES * self._leaf, np.arange(len(found)))


class LabelTrees(LabelWeights):
    """Regression trees of the labels.

    Parameters
    ----------
    data : TreeData
    code : ndarray (S, K)
    max_leaves : int
    max_depth : int or None
    n_threads : int
    min_share : float, default=0.0
        Only nodes with more than this share of the weight are split.
    """

    def __init__(self, data, code, max_leaves, max_depth, n_threads, min_share=0.0):
        super().__init__(data, code)
        self._n_threads = n_threads
        self._units, self._grower = grower_of(data, max_leaves, max_depth, n_threads, min_share)
        self._signs = np.ascontiguousarray(code.T, dtype=np.float64)
        self._grown = Grown.empty(len(self.z), max_leaves, data.n_rows, data.set_words)

    def fit(self):
        """Trees of all labels as `MarginTrees.fit` gives them; None where nothing can be learnt."""
        W, K = self.weights(), len(self.z)
        total = np.array([sum_of(w) for w in W])
        scale = np.stack((self._units.limit_g / total, self._units.limit_h / total, np.ones(K)), axis=1)
        ones = np.ones_like(self._signs)
        self._grower.grow_classes(W, self.data.y, self._signs, ones, np.ascontiguousarray(scale), self._grown)
        found = self._grown.trees(np.arange(K), self.data)
        *_, value, gain = found
        return found if len(gain) and value.any() else None

    def add_to_scores(self):
        """Add the last trees' values on the training rows."""
        every, none = np.arange(len(self.z), dtype=np.int32), np.full(len(self.z), -1, dtype=np.int32)
        _class_loss.add_trees(self._grown.leaf, self._grown.value, every, every, none, self.F, self._n_threads)

    def add_round(self, builder, found, gain):
        """Append the trees to a TreesBuilder, and count the gains of their splits."""
        *trees, value, gains = found
        builder.add_trees(*trees, TIMES * value, np.arange(len(self.z)))
        gain.add(trees[1], gains)
