"""Stumps: the frozen arrays that are saved and scored.

F(x) = bias + sum over the stumps, in order, of  left  if x[feature] <= threshold, or x[feature] is NaN and nan_left
                                                 right otherwise
"""

from dataclasses import dataclass, replace

import numpy as np

from pymcboost.model.arrays import (
    check_rounds,
    covers,
    feature_columns,
    finite,
    narrow,
    per_class,
    without_flags,
)
from pymcboost.model.intervals import merged
from pymcboost.model.kind import Kind
from pymcboost.threads import counted


@dataclass(frozen=True, eq=False)
class Stumps(Kind):
    """List of M stumps with one value per class on each side.

    Attributes
    ----------
    feature : ndarray of int64 of shape (M,)
        Column number of each split.
    threshold : ndarray of float32 of shape (M,)
        Threshold of each split.
    nan_left : ndarray of bool of shape (M,)
        Whether missing values go left.
    right : ndarray of float32 of shape (M, K)
        Values of the classes if ``x > threshold``.
    left : ndarray of float32 of shape (M, K) or None
        Values of the classes if ``x <= threshold``. None means ``-right``.
    bias : ndarray of float32 of shape (K,)
        Initial scores of the classes.
    n_features : int
        Number of features.
    cover : ndarray of int of shape (2 M,) or None
        Number of rows on the left and the right of each stump; see `Model.with_covers`.
    """

    KIND = 1
    NAME = "list of stumps"
    additive = True
    # As for trees with one value per class in their leaves, see `Trees`.
    cls = None
    base = None

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    left: np.ndarray | None
    bias: np.ndarray
    n_features: int
    cover: np.ndarray | None = None

    def __len__(self):
        return len(self.feature)

    @property
    def n_rounds(self):
        """Number of rounds: every stump is one."""
        return len(self)

    def truncate_rounds(self, n):
        """The first ``n`` stumps, as views of these arrays."""
        check_rounds(n, len(self), "stump")
        cover = None if self.cover is None else self.cover[: 2 * n]
        return replace(self._selected(slice(n)), cover=cover)

    def _selected(self, index):
        """The stumps that an index selects, without covers."""
        return replace(
            self,
            feature=self.feature[index],
            threshold=self.threshold[index],
            nan_left=self.nan_left[index],
            right=self.right[index],
            left=None if self.left is None else self.left[index],
            cover=None,
        )

    def each(self):
        """Yield (feature, threshold, nan_left, right, left) of every stump; ``left`` is never None."""
        for t in range(len(self)):
            right = self.right[t]
            left = -right if self.left is None else self.left[t]
            yield int(self.feature[t]), self.threshold[t], bool(self.nan_left[t]), right, left

    def each_tree(self):
        """Yield (feature, threshold, nan_left, right, leaf, cls, base) of every stump, see `Trees.each_tree`."""
        for feature, threshold, nan_left, right, left in self.each():
            yield [feature], [threshold], [nan_left], [1], np.stack((left, right)), -1, -1

    def splits(self):
        n = len(self)
        return (
            np.arange(n + 1),
            self.feature,
            self.threshold,
            self.nan_left,
            np.ones(n, dtype=np.int64),
        )

    def depths(self):
        """Depth of each stump: int64 (M,)."""
        return np.ones(len(self), dtype=np.int64)

    def leaves(self):
        """Values of the left and the right side, alternating: float32 (2 M, K)."""
        values = np.empty((2 * len(self), self.n_classes), dtype=np.float32)
        values[1::2] = self.right
        values[::2] = -self.right if self.left is None else self.left
        return values

    def about(self, feature):
        """The stumps on a feature."""
        return self._selected(np.asarray(self.feature) == feature)

    def round_ends(self):
        return np.arange(len(self) + 1)

    def add_scores_to(self, sums, X):
        """Add the stumps one by one, as the scorer does."""
        if self.bias.any():
            sums += self.bias
        for feature, threshold, nan_left, right, left in self.each():
            column = X[:, [feature]].toarray().ravel() if hasattr(X, "tocsc") else X[:, feature]
            column = column.astype(np.float32)
            goes_left = column <= threshold
            if nan_left:
                goes_left |= np.isnan(column)
            sums += np.array((right, left), dtype=np.float64).take(goes_left.view(np.int8), axis=0)

    def canonical(self):
        """Check the model and return it in the canonical form in which it is saved.

        Arrays are contiguous and have the documented types, without negative zeros, which change no score, because sums
        start at +0 or at a bias. ``left`` is None if it is the negative of ``right``.

        Raises
        ------
        ValueError
            If shapes disagree, a feature is out of range, or a number is not finite in float32.
        """
        bias = per_class("bias", self.bias)
        m = np.size(self.feature)
        k = len(bias)
        feature, nan_left = feature_columns(self.feature, self.nan_left, self.n_features)
        threshold = finite("threshold", self.threshold, (m,))
        right = finite("right", self.right, (m, k))
        left = None if self.left is None else finite("left", self.left, (m, k))
        if left is not None and np.array_equal(left, -right):
            left = None
        cover = covers(self.cover, 2 * m)
        return Stumps(feature, threshold, nan_left, right, left, bias, int(self.n_features), cover)

    def merge(self):
        """Convert to a table of intervals per feature (see `Intervals`)."""
        return merged(self.canonical())

    def sections(self):
        sections = [
            ("FEAT", narrow(self.feature, self.nan_left)),
            ("THRS", self.threshold),
            ("COEF", self.right),
        ]
        if self.left is not None:
            sections.append(("COEL", self.left))
        if self.cover is not None:
            sections.append(("covr", narrow(self.cover)))
        return sections

    @classmethod
    def from_sections(cls, sections, header):
        feature, nan_left = without_flags(sections["FEAT"])
        shape = (len(feature), header.n_classes)
        left = sections["COEL"].reshape(shape) if "COEL" in sections else None
        right = sections["COEF"].reshape(shape)
        cover = covers(sections.get("covr"), 2 * len(feature))
        return cls(
            feature,
            sections["THRS"],
            nan_left,
            right,
            left,
            sections["BIAS"],
            header.n_features,
            cover,
        )

    def used_features(self):
        """Features, and the sum of ``|right - left|`` over the classes and the stumps of each."""
        right = self.right.astype(np.float64)
        left = -right if self.left is None else self.left
        feature, index = np.unique(self.feature, return_inverse=True)
        return feature, np.bincount(index, np.abs(right - left).sum(axis=1), len(feature))

    def summary(self, staged):
        return counted(len(self), "stump")
