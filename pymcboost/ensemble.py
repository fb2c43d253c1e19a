"""Ensembles of stumps: a builder that grows during training and the frozen arrays that are saved and scored.

F(x) = bias + sum over the stumps, in order, of  left  if x[feature] <= threshold, or x[feature] is NaN and nan_left
                                                 right otherwise
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Stumps:
    """A frozen list of M stumps with one value per class on each side.

    Attributes
    ----------
    feature : ndarray of int64 (M,)
    threshold : ndarray of float32 (M,)
    nan_left : ndarray of bool (M,)
    right : ndarray of float32 (M, K)
        Values where ``x > threshold``.
    left : ndarray of float32 (M, K) or None
        Values where ``x <= threshold``; None means ``-right``.
    bias : ndarray of float32 (K,)
    n_features : int
    """

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    left: np.ndarray | None
    bias: np.ndarray
    n_features: int

    def __len__(self):
        return len(self.feature)

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.bias)

    def truncate(self, n):
        """The first ``n`` stumps, as views of these arrays."""
        if not 0 <= n <= len(self):
            raise ValueError(f"cannot keep {n} of {len(self)} stumps; give a number from 0 to {len(self)}")
        left = None if self.left is None else self.left[:n]
        return Stumps(
            self.feature[:n], self.threshold[:n], self.nan_left[:n], self.right[:n], left, self.bias, self.n_features
        )

    def each(self):
        """Yield (feature, threshold, nan_left, right, left) of every stump, ``left`` always given."""
        for t in range(len(self)):
            right = self.right[t]
            left = -right if self.left is None else self.left[t]
            yield int(self.feature[t]), self.threshold[t], bool(self.nan_left[t]), right, left

    def canonical(self):
        """The same model in the one form that is saved, after checking it.

        Contiguous arrays of the documented types; no negative zeros (they change no score, as sums begin at +0 or at a
        bias); ``left`` None if it is the negative of ``right``.

        Raises
        ------
        ValueError
            If shapes disagree, a feature is out of range, or a number is not finite in float32.
        """
        bias = _finite("bias", self.bias, (np.size(self.bias),))
        m, k = np.size(self.feature), len(bias)
        if k < 2:
            raise ValueError(f"an ensemble needs 2 classes or more, its bias has {k}")
        feature = np.asarray(self.feature)
        if m and (feature.dtype.kind not in "iu" or feature.min() < 0 or feature.max() >= self.n_features):
            raise ValueError(f"feature indices must be integers from 0 to {self.n_features - 1}")
        feature = np.ascontiguousarray(feature, dtype=np.int64)
        nan_left = np.ascontiguousarray(self.nan_left, dtype=bool)
        if feature.shape != (m,) or nan_left.shape != (m,):
            raise ValueError(f"feature and nan_left must have shape ({m},)")
        threshold = _finite("threshold", self.threshold, (m,))
        right = _finite("right", self.right, (m, k))
        left = None if self.left is None else _finite("left", self.left, (m, k))
        if left is not None and np.array_equal(left, -right):
            left = None
        return Stumps(feature, threshold, nan_left, right, left, bias, int(self.n_features))

    def merge(self):
        """The same function as a table of intervals per feature (see `Intervals`)."""
        return _merge(self.canonical())


@dataclass(frozen=True, eq=False)
class Intervals:
    """Stumps merged per feature: one binary search and one table row per feature that occurs.

    With ``begin, end = offset[i], offset[i + 1]``, feature ``feature[i]`` has the increasing thresholds
    ``threshold[begin:end]`` and the table rows from ``begin + 2 * i`` on: one for each of its ``end - begin + 1``
    intervals from low to high (upper end included), then one for NaN.

    Attributes
    ----------
    feature : ndarray of int64 (n_used,)
        Increasing.
    offset : ndarray of int64 (n_used + 1,)
    threshold : ndarray of float32 (D,)
    table : ndarray of float64 (D + 2 * n_used, K)
    bias : ndarray of float32 (K,)
    n_features : int
    """

    feature: np.ndarray
    offset: np.ndarray
    threshold: np.ndarray
    table: np.ndarray
    bias: np.ndarray
    n_features: int

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.bias)


class EnsembleBuilder:
    """Stumps that are added one at a time; the arrays behind them double when full.

    Parameters
    ----------
    n_classes, n_features : int
    """

    def __init__(self, n_classes, n_features):
        self.n_classes = int(n_classes)
        self.n_features = int(n_features)
        self.bias = np.zeros(self.n_classes, dtype=np.float32)
        self._n = 0
        self._feature = np.empty(16, dtype=np.int64)
        self._threshold = np.empty(16, dtype=np.float32)
        self._nan_left = np.empty(16, dtype=bool)
        self._right = np.empty((16, self.n_classes), dtype=np.float32)
        self._left = None

    def __len__(self):
        return self._n

    def add_stump(self, feature, threshold, nan_left, right, left=None):
        """Append a stump.

        Parameters
        ----------
        feature : int
        threshold : float
        nan_left : bool
        right : array-like (K,)
            Rounded to float32.
        left : array-like (K,), optional
            ``-right`` if None.
        """
        n = self._n
        if n == len(self._feature):
            for name in ("_feature", "_threshold", "_nan_left", "_right", "_left"):
                old = getattr(self, name)
                if old is not None:
                    new = np.empty((2 * n, *old.shape[1:]), dtype=old.dtype)
                    new[:n] = old
                    setattr(self, name, new)
        self._feature[n] = feature
        self._threshold[n] = threshold
        self._nan_left[n] = nan_left
        self._right[n] = right
        if left is not None and self._left is None:
            self._left = -self._right
        if self._left is not None:
            self._left[n] = -self._right[n] if left is None else left
        self._n = n + 1

    def extend(self, stumps):
        """Append all stumps of a frozen list."""
        for stump in stumps.each():
            self.add_stump(*stump)

    def tail(self, start):
        """The stumps from ``start`` on, as views that the next call of `add_stump` may outdate."""
        part = slice(start, self._n)
        left = None if self._left is None else self._left[part]
        return Stumps(
            self._feature[part],
            self._threshold[part],
            self._nan_left[part],
            self._right[part],
            left,
            self.bias,
            self.n_features,
        )

    def truncate(self, n):
        """Keep the first ``n`` stumps."""
        if not 0 <= n <= self._n:
            raise ValueError(f"cannot keep {n} of {self._n} stumps; give a number from 0 to {self._n}")
        self._n = n

    def freeze(self):
        """The stumps so far as read-only copies; the builder can go on growing.

        Returns
        -------
        Stumps
        """
        n = self._n
        arrays = [self._feature[:n], self._threshold[:n], self._nan_left[:n], self._right[:n], self._left, self.bias]
        if self._left is not None:
            arrays[4] = self._left[:n]
        arrays = [None if array is None else array.copy() for array in arrays]
        for array in arrays:
            if array is not None:
                array.flags.writeable = False
        return Stumps(*arrays, self.n_features)


def _finite(name, values, shape):
    values = np.asarray(values)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, but must have {shape}")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds a number that is not finite in float32 (magnitude up to 3.4e38)")
    return values + np.float32(0)  # turns -0 into +0


def _add(high, low, value):
    """Add ``value`` to the unevaluated sum ``high + low`` (Knuth's two-sum): 106 bits, the same on every machine."""
    total = high + value
    part = total - high
    low = low + ((high - (total - part)) + (value - part))
    high = total + low
    return high, low - (high - total)


def _merge(stumps):
    right = stumps.right.astype(np.float64)
    left = -right if stumps.left is None else stumps.left.astype(np.float64)
    order = np.lexsort((stumps.threshold, stumps.feature))
    features, first = np.unique(stumps.feature[order], return_index=True)
    first = np.append(first, len(order))
    offset, thresholds, rows = [0], [], []
    for i in range(len(features)):
        mine = order[first[i] : first[i + 1]]
        zero = np.zeros(stumps.n_classes)
        total, nan = (zero, zero), (zero, zero)
        for j in mine:
            total = _add(*total, left[j])
            nan = _add(*nan, left[j] if stumps.nan_left[j] else right[j])
        rows.append(total[0])
        cuts, begin = np.unique(stumps.threshold[mine], return_index=True)
        begin = np.append(begin, len(mine))
        for c in range(len(cuts)):
            for j in mine[begin[c] : begin[c + 1]]:
                total = _add(*_add(*total, right[j]), -left[j])
            rows.append(total[0])
        rows.append(nan[0])
        thresholds.append(cuts)
        offset.append(offset[-1] + len(cuts))
    threshold = np.concatenate(thresholds) if thresholds else np.zeros(0, dtype=np.float32)
    table = np.array(rows) + 0.0 if rows else np.zeros((0, stumps.n_classes))
    return Intervals(features, np.array(offset, dtype=np.int64), threshold, table, stumps.bias, stumps.n_features)
