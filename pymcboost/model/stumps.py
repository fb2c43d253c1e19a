"""Stumps: the frozen arrays that are saved and scored.

F(x) = bias + sum over the stumps, in order, of  left  if x[feature] <= threshold, or x[feature] is NaN and nan_left
                                                 right otherwise
"""

from dataclasses import dataclass

import numpy as np

from pymcboost.model.checks import bias_of, feature_columns, finite
from pymcboost.model.intervals import merged


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

    @property
    def n_rounds(self):
        """Number of rounds: every stump is one."""
        return len(self)

    def truncate_rounds(self, n):
        """The same as `truncate`."""
        return self.truncate(n)

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
        bias = bias_of(self.bias)
        m, k = np.size(self.feature), len(bias)
        feature, nan_left = feature_columns(self.feature, self.nan_left, self.n_features)
        threshold = finite("threshold", self.threshold, (m,))
        right = finite("right", self.right, (m, k))
        left = None if self.left is None else finite("left", self.left, (m, k))
        if left is not None and np.array_equal(left, -right):
            left = None
        return Stumps(feature, threshold, nan_left, right, left, bias, int(self.n_features))

    def merge(self):
        """The same function as a table of intervals per feature (see `Intervals`)."""
        return merged(self.canonical())
