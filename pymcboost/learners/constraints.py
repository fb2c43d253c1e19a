"""Constraints on trees with vector leaves: which features may meet on a path, and where scores must rise or fall.

A monotonic constraint (f, k, +1) means that d_j = F_k - F_j does not fall in feature f, for every class j. It holds if,
for each split on f, d_j of every leaf on the left is at most d_j of every leaf on the right. So every such split has a
number for each j, and d_j of all leaves below it stays on the right side of this number. This is sufficient, because
two rows that differ only in f are separated by a single split, which is on f.
"""

from collections.abc import Mapping
from numbers import Integral

import numpy as np

MOST_GROUPS = 64
# Leaf values are whole multiples of 2^-DIGITS times the largest one, or of 2^-LEAST. So their differences are exact.
DIGITS = 21
LEAST = 40
# A leaf vector that breaks a bound is tried again at these shares of the way from a feasible vector.
STEPS = (1, 0.75, 0.5, 0.25, 0)


def group_bits(groups, n_features, names=None):
    """Bit masks of the groups of each feature, uint64 (n_features,); features without a group form one of their own.

    ``names``: names of the columns, or None.
    """
    bits = np.zeros(n_features, dtype=np.uint64)
    if isinstance(groups, str) or not all(hasattr(group, "__len__") for group in groups):
        raise ValueError(
            f"interaction_cst={groups!r} is not allowed; it must be a list of groups, as in "
            "[[0, 1], [2, 3]]"
        )
    for number, group in enumerate(groups):
        if not len(group):
            raise ValueError(
                f"interaction_cst: group {number} is empty; list the columns that may be used "
                "together"
            )
        for column in group:
            column = _column("interaction_cst", column, n_features, names)
            bits[column] |= np.uint64(1 << number) if number < MOST_GROUPS else np.uint64(0)
    n_groups = len(groups) + int((bits == 0).any())
    if n_groups > MOST_GROUPS:
        raise ValueError(
            f"interaction_cst has {n_groups} groups, including one for the columns in no other "
            f"group; give at most {MOST_GROUPS}"
        )
    bits[bits == 0] = np.uint64(1 << len(groups) % MOST_GROUPS)
    return bits


def _column(name, column, n_features, names):
    """Number of a column, which is given by its number or its name."""
    if isinstance(column, str) and column in (names or ()):
        return names.index(column)
    is_integer = isinstance(column, Integral) and not isinstance(column, bool)
    if is_integer and 0 <= column < n_features:
        return int(column)
    remedy = ""
    if names is not None:
        remedy = f", or names: {', '.join(map(repr, names[:10]))}"
    elif isinstance(column, str):
        remedy = ", because X has no names"
    raise ValueError(
        f"{name}: {column!r} is not a column; columns are numbers from 0 to {n_features - 1}{remedy}"
    )


def signs_of(monotonic_cst, classes, n_features, categorical=(), names=None):
    """Constraints by column: a dict of int to (class code, sign). ``categorical``: columns without an order.

    ``names``: names of the columns, or None.
    """
    signs = {}
    labels = classes.tolist()
    if not isinstance(monotonic_cst, Mapping):
        raise ValueError(
            f"monotonic_cst={monotonic_cst!r} is not allowed; it must be {{column: (class label, +1 or "
            "-1)}, because a sign alone does not say which class's probability rises"
        )
    for column, constraint in monotonic_cst.items():
        number = _column("monotonic_cst", column, n_features, names)
        if number in categorical:
            raise ValueError(
                f"monotonic_cst: column {column!r} is categorical, so it has no order; remove "
                "it from monotonic_cst or from categorical_features"
            )
        if isinstance(constraint, Integral):
            label = labels[-1]
            sign = constraint
        elif isinstance(constraint, (tuple, list)) and len(constraint) == 2:
            label, sign = constraint
        else:
            label = None
            sign = None
        shown = f"monotonic_cst={{{column!r}: {constraint!r}}}"
        if isinstance(constraint, Integral) and len(labels) > 2:
            raise ValueError(
                f"{shown}: with {len(labels)} classes, a sign is not enough, because not all "
                "probabilities can rise; name the class whose probability rises or falls: "
                f"{{{column!r}: ({labels[-1]!r}, {constraint!r})}}"
            )
        if label not in labels or sign not in (1, -1):
            raise ValueError(
                f"{shown} is not allowed; it must be {{column: (class label, +1 or -1)}}"
            )
        if number in signs:
            raise ValueError(
                f"monotonic_cst gives column {number} twice, by number and by name; give it once"
            )
        signs[number] = labels.index(label), int(sign)
    return signs


class Ordered:
    """Moves the leaf vectors of trees so that the constraints hold.

    Parameters
    ----------
    signs : dict of int to (int, int)
        See `signs_of`.
    centred : bool, default=True
        Whether vectors have mean 0, because the loss does not change with a shift of all scores.
    """

    def __init__(self, signs, centred=True):
        self.signs = signs
        self._centred = centred
        # Classes with a constraint.
        self.bounded = sorted({k for k, _ in signs.values()})

    def __call__(self, value, feature, right, count):
        """Change the leaf vectors (n_leaves, K) of a tree to satisfy the constraints; float32 holds them exactly.

        Parameters
        ----------
        value : ndarray (n_leaves, K)
            Leaf vectors without constraints.
        feature, right : ndarray (n_splits,)
            Columns of the splits in preorder, and distances to the right child; leaves are in order.
        count : ndarray (n_leaves,)
            Their rows.
        """
        if not self.signs.keys() & set(feature.tolist()):
            return value
        exponent = np.frexp(np.abs(value).max())[1]
        unit = 2.0 ** max(exponent - DIGITS, -LEAST)
        self._unit = unit
        value = np.rint(value / unit) * unit
        K = value.shape[1]
        sums = np.concatenate((np.zeros((1, K)), np.cumsum(value * count[:, None], axis=0)))
        rows = np.concatenate(([0], np.cumsum(count)))

        def mean_of_leaves(first, end):
            return (sums[end] - sums[first]) / (rows[end] - rows[first])

        unbounded = np.full((len(self.bounded), K), np.inf)
        out = np.empty_like(value)
        # Subtrees that are still to be done: their splits from begin to end, their first leaf, the bounds of their
        # leaves, and a vector within the bounds.
        waiting = [(0, len(feature), 0, -unbounded, unbounded, np.zeros(K))]
        while waiting:
            begin, end, first_leaf, low, high, feasible = waiting.pop()
            if begin == end:
                out[first_leaf] = self._moved(value[first_leaf], low, high, feasible)
                continue
            middle = begin + int(right[begin])
            middle_leaf = first_leaf + middle - begin
            end_leaf = first_leaf + end - begin + 1
            k, sign = self.signs.get(int(feature[begin]), (None, 0))
            left_low = low
            left_high = high
            right_low = low
            right_high = high
            if sign:
                left_mean = mean_of_leaves(first_leaf, middle_leaf)
                right_mean = mean_of_leaves(middle_leaf, end_leaf)
                feasible = self._moved((left_mean + right_mean) / 2, low, high, feasible)
                number = self.bounded.index(k)
                between = self._gaps(feasible, k)
                lowered = high.copy()
                lowered[number] = np.minimum(high[number], between)
                raised = low.copy()
                raised[number] = np.maximum(low[number], between)
                if sign > 0:
                    left_high = lowered
                    right_low = raised
                else:
                    left_low = raised
                    right_high = lowered
            waiting.append((begin + 1, middle, first_leaf, left_low, left_high, feasible))
            waiting.append((middle, end, middle_leaf, right_low, right_high, feasible))
        return out

    def _gaps(self, vector, k):
        """Differences (K,) between class k and the other classes, which the constraints bound."""
        return vector[k] - vector

    def _moved(self, target, low, high, feasible):
        """Find a vector near ``target`` whose differences are within bounds, given a ``feasible`` vector."""
        clipped = np.rint(target / self._unit) * self._unit
        for number, k in enumerate(self.bounded):
            clipped = clipped[k] - np.clip(self._gaps(clipped, k), low[number], high[number])
        if not self._centred:
            clipped += np.rint((target.mean() - clipped.mean()) / self._unit) * self._unit
        for step in STEPS:
            moved = np.rint((feasible + step * (clipped - feasible)) / self._unit) * self._unit
            if self._centred:
                moved -= np.rint(moved.mean() / self._unit) * self._unit
            gaps = np.array([self._gaps(moved, k) for k in self.bounded])
            if (
                (low <= gaps).all()
                and (gaps <= high).all()
                and (moved.astype(np.float32) == moved).all()
            ):
                return moved
        raise AssertionError("a vector that keeps the bounds does not")


class OrderedLabels(Ordered):
    """Monotonic scores of multi-label data: the score of a label itself is bounded, independent of the others."""

    def _gaps(self, vector, k):
        return np.full_like(vector, vector[k])

    def _moved(self, target, low, high, feasible):
        moved = np.rint(target / self._unit) * self._unit
        moved[self.bounded] = np.clip(moved[self.bounded], low[:, 0], high[:, 0])
        return moved
