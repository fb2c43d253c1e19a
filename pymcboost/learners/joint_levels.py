"""Stumps on categorical features that several classes share: for these classes the best of all sets of levels."""

import numpy as np

from pymcboost._kernels import splits as _splits
from pymcboost.learners.edge_trees import TreeFit
from pymcboost.learners.levels import rare_at_root


class JointLevels:
    """Levels of all categorical features, and a set of classes that grows.

    Parameters
    ----------
    data : LevelledData
    tie : float
        Gains that differ by less than this factor are equal.
    n_threads : int
    min_samples_category : float
        As in the estimators.
    """

    def __init__(self, data, tie, n_threads, min_samples_category):
        self.data, self._tie, self._n_threads = data, tie, n_threads
        self._start = np.concatenate(([0], np.cumsum([len(its) + 1 for its in data.levels])))
        cells = int(self._start[-1])
        at = (data.codes + self._start[:-1, None]).ravel()
        weight = np.bincount(at, np.tile(data.weight, len(data.levels)), cells)
        rare = rare_at_root(weight / data.bound_scale, min_samples_category).astype(np.uint8)
        self._kernel = _splits.Levels(self._start, weight, rare, data.least_weight, tie, n_threads)
        self._gain = np.full((data.n_classes, len(data.levels)), -1.0)
        self._set = np.zeros((2, cells))

    def begin(self, gradient):
        """Sums of a gradient (n_blocks, m, lanes) by level: of w z of all classes, then of w; and no class yet."""
        K, cells = self.data.n_classes, self._set.shape[1]
        sums = np.empty((len(gradient), cells, gradient.shape[2]))
        _splits.level_sums(gradient, self.data.codes, self._start, sums, self._n_threads)
        sums = np.ascontiguousarray(sums.transpose(0, 2, 1).reshape(-1, cells)[: 2 * K].reshape(2, K, cells))
        np.maximum(sums[1], np.abs(sums[0]), out=sums[1])  # as it must be, whatever rounding leaves next to no weight
        self._sums = np.ascontiguousarray(sums.transpose(1, 0, 2))
        self._set[...] = 0

    def gains(self, is_open):
        """What the best set of levels of any feature explains when a class joins, for every class that may: (K,)."""
        self._kernel.gains(self._set, self._sums, is_open, self._gain, self._n_threads)
        return self._gain.max(axis=1)

    def join(self, k):
        """Class k joins."""
        self._set += self._sums[k]

    def split(self, k, gain, feature):
        """The best split of the classes, of which k came last, if it is better than one of ``gain`` on ``feature``.

        Of equal ones that of the lower feature counts.

        Returns
        -------
        tuple or None
            Place of the feature, whether the cells go left, and the sums of w z and of w left and right.
        """
        every = self._gain[k]
        top = max(gain, every.max())
        near = np.flatnonzero(every * self._tie >= top)
        if not len(near) or (gain * self._tie >= top and feature < self.data.categorical[near[0]]):
            return None
        f = int(near[0])
        left = np.empty(self._start[f + 1] - self._start[f], dtype=np.uint8)
        _, z, w = self._kernel.split(f, self._set, left)
        return f, left, np.array(z), np.array(w)

    def tree(self, split, gain):
        """The tree of two leaves of a `split`, -1 on its left side."""
        f, left, *_ = split
        h = np.where(left, -1, 1).astype(np.int8)[self.data.codes[f]]
        feature, codes = self.data.categorical[f : f + 1], {0: self.data.levels[f][left[:-1] > 0]}
        return two_leaves(feature, np.zeros(1, dtype=np.float32), left[-1:] > 0, gain, h, codes)


def two_leaves(feature, threshold, nan_left, gain, h, codes):
    """A tree of one split, -1 on its left side."""
    right, sign = np.array([1]), np.array([-1.0, 1.0])
    return TreeFit(feature, threshold, nan_left, right, sign, np.array([gain]), -1, 1.0, h, codes)
