"""Class-wise regression trees under the softmax loss: scores, probabilities and the trees grown on their gradients."""

import math
from dataclasses import dataclass

import numpy as np

from pymcboost._kernels import trees as _trees

# A leaf's Newton step before shrinkage: where a few wrong rows fill a leaf it would be 1 / p, without bound.
LARGEST_STEP = 50.0
# Histograms of all leaves are kept, for subtraction, while they take no more than this per thread.
POOL_BYTES = 1 << 30
# Training is over when the probability missing from the true classes is rounding, on average.
MACHINE_ACCURACY = np.finfo(np.float64).eps
LARGEST_SCALE = 1e30


@dataclass
class Grown:
    """Trees of one round: n arrays of up to J leaves."""

    feature: np.ndarray
    pos: np.ndarray
    right: np.ndarray
    n_splits: np.ndarray
    nan_left: np.ndarray
    gain: np.ndarray
    value: np.ndarray
    leaf: np.ndarray

    @classmethod
    def empty(cls, n, max_leaves, n_rows):
        """Room for ``n`` trees."""
        ints = (np.zeros((n, max_leaves), dtype=np.int32) for _ in range(3))
        floats = (np.zeros((n, max_leaves)) for _ in range(2))
        return cls(
            *ints,
            np.zeros(n, dtype=np.int32),
            np.zeros((n, max_leaves), dtype=np.uint8),
            *floats,
            np.zeros((n, n_rows), dtype=np.uint16),
        )


class ClassTrees:
    """Scores F (K, m) of the training rows, P = softmax(F), and regression trees on its gradients.

    Parameters
    ----------
    data : TreeData
    max_leaves : int
    max_depth : int or None
    min_samples_leaf : float
        Least sum of sample weights in a leaf.
    counts : bool
        mart: the gain divides by weights rather than by second derivatives.
    n_threads : int
    """

    def __init__(self, data, *, max_leaves, max_depth, min_samples_leaf, counts, n_threads):
        self.data, self.max_leaves, self.counts, self.n_threads = data, max_leaves, counts, n_threads
        small = data.dtype == np.float64
        self._planes = 2 if small or (min_samples_leaf > 1 and not counts) else 1
        self._set_weights(min_samples_leaf)
        pool = 8 * self._planes * data.n_cells * max_leaves <= POOL_BYTES
        self._grower = _trees.Grower(
            data, max_leaves, max_depth or 0, self._least, self._planes, False, pool, n_threads
        )
        K, m = data.n_classes, data.n_rows
        self.F = np.zeros((K, m))
        self.P = np.zeros((K, m), dtype=data.dtype)
        self._starts, self._own = _trees.chunks(data.class_start)
        self._sums = np.zeros((len(self._own), 2, K))
        self._grown = None

    def _set_weights(self, min_samples_leaf):
        """Units of the counts: exact where all weights are equal."""
        weight = self.data.weight
        uniform = bool((weight == weight[0]).all())
        self.weight = np.ones(0) if uniform else weight
        self.n_of_class = np.diff(self.data.class_start).astype(np.float64)
        least = min_samples_leaf * self.data.weight_unit / (weight[0] if uniform else 1.0)
        if not uniform:
            self.n_of_class = np.array([w.sum() for w in np.split(weight, self.data.class_start[1:-1])])
        m, total = self.data.n_rows, self.n_of_class.sum()
        # Rounding adds at most one unit a row.
        limit = 2.0**31 if self._planes == 1 else 2.0**24
        self._per_count = 1.0 if uniform else (limit - 2 * m - 4096) / total
        self._least = max(1, math.ceil(least * self._per_count * (1 - 1e-9)))
        self._limit_g = 2.0**31 - 2 * m - 4096 if self._planes == 1 else 2.0**46
        self._limit_h = 2.0**31 - 2 * m - 4096 if self._planes == 1 else 2.0**38

    def restart(self, scores):
        """Take over raw scores (m, K), or zeros."""
        self.F[...] = 0 if scores is None else scores.T
        self.refresh()

    def refresh(self):
        """Probabilities, and what the scales of the gradients need, from the scores."""
        _trees.softmax(self.F, self._starts, self.weight, self.P, self._sums, self.n_threads)
        one, two = self._sums.sum(axis=0)
        own = np.bincount(self._own, self._sums[np.arange(len(self._own)), 0, self._own], self.data.n_classes)
        # What is missing from the own class, as the probability of the others: no cancellation.
        self.missing = float((one - own).sum())
        self._abs_g = (one - own) + np.maximum(self.n_of_class - own, 0)
        self._sum_h = np.maximum(one - two, 0)

    @property
    def finished(self):
        """Whether the training loss has reached machine accuracy."""
        return self.missing <= MACHINE_ACCURACY * self.n_of_class.sum()

    def class_losses(self):
        """Sum of the weighted losses -log p of the rows of every class."""
        start = self.data.class_start
        result = np.zeros(self.data.n_classes)
        for c in range(self.data.n_classes):
            rows = slice(start[c], start[c + 1])
            loss = -np.log(np.maximum(self.P[c, rows], 1e-300 if self.P.dtype == np.float64 else 1e-38))
            result[c] = (loss * self.weight[rows] if len(self.weight) else loss).sum()
        return result

    def grow(self, jobs, learning_rate, sample, active):
        """Grow trees for (class, base class or -1) pairs on the present probabilities.

        Without a base class, leaf values have the factor (K - 1) / K.

        Returns
        -------
        Grown
            Overwritten by the next call.
        """
        jobs = np.asarray(jobs, dtype=np.int32).reshape(-1, 2)
        if self._grown is None or len(self._grown.n_splits) < len(jobs):
            self._grown = Grown.empty(len(jobs), self.max_leaves, self.data.n_rows)
        k, b = jobs.T
        based = b >= 0
        abs_g = np.where(based, self._abs_g[k] + self._abs_g[b], self._abs_g[k])
        sum_h = np.where(based, 2 * (self._sum_h[k] + self._sum_h[b]), self._sum_h[k])
        scale = np.empty((len(jobs), 3))
        scale[:, 0] = np.minimum(self._limit_g / np.maximum(abs_g, 1 / LARGEST_SCALE), LARGEST_SCALE)
        scale[:, 1] = np.minimum(self._limit_h / np.maximum(sum_h, 1 / LARGEST_SCALE), LARGEST_SCALE)
        scale[:, 2] = self._per_count
        if self.counts:
            scale[:, 1] = self._per_count
        K = self.data.n_classes
        factor = learning_rate * (1.0 if based.all() else (K - 1) / K)
        self._grower.grow_softmax(
            self.P, jobs, self.data.y, self.data.class_start, self.weight, self.counts, scale,
            sample, active, factor, LARGEST_STEP, self._grown,
        )  # fmt: skip
        return self._grown

    def add(self, tree, cls, base):
        """Add the listed trees of the last `grow` to the scores; the bases lose what the classes gain."""
        tree, cls, base = (np.asarray(a, dtype=np.int32) for a in (tree, cls, base))
        _trees.add_trees(self._grown.leaf, self._grown.value, tree, cls, base, self.F, self.n_threads)

    def base_losses(self, bases, trees_of):
        """Change of the training loss with each base class; ``trees_of(b)`` gives (cls, tree, sign)."""
        value = self._grown.value
        with np.errstate(over="ignore"):
            factor = np.exp(np.stack([value, -value], axis=1))
        loss = np.empty(len(self._own))
        result = []
        for b in bases:
            cls, tree, sign = trees_of(b)
            _trees.try_base(
                self.P, self._starts, self._own, self._grown.leaf, value, factor,
                np.asarray(cls, dtype=np.int32), np.asarray(tree, dtype=np.int32), np.asarray(sign, dtype=np.float64),
                int(b), self.weight, loss, self.n_threads,
            )  # fmt: skip
            result.append(loss.sum())
        return np.array(result)

    def tree(self, j, sign=1.0):
        """Arrays of tree j of the last `grow` as `TreesBuilder.add_tree` takes them, and its (column, gain) pairs."""
        grown, data = self._grown, self.data
        s = int(grown.n_splits[j])
        feature, pos = grown.feature[j, :s], grown.pos[j, :s]
        column = data.column[feature]
        threshold = data.threshold[data.threshold_ptr[feature] + pos]
        leaf = sign * grown.value[j, : s + 1]
        return (column, threshold, grown.nan_left[j, :s], grown.right[j, :s], leaf), (column, grown.gain[j, :s])
