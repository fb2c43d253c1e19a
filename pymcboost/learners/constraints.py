"""Constraints on trees with vector leaves: which features may meet on a path, and where scores must rise or fall.

Monotone: a constraint (f, k, +1) means that d_j = F_k - F_j does not fall in feature f, for every class j. It holds if,
for each split on f, d_j of every leaf on the left is at most d_j of every leaf on the right. So every such split has,
for each j, a number between its sides, which all leaves below it respect. This is sufficient, because two rows that
differ only in f are separated by a single split, which is on f.
"""

from collections.abc import Mapping
from numbers import Integral

import numpy as np

MOST_GROUPS = 64
# Leaf values are whole multiples of 2^-DIGITS times the largest one, or of 2^-LEAST. So their differences are exact.
DIGITS = 21
LEAST = 40
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
    if not is_integer or not 0 <= column < n_features:
        named = "" if names is None else f", or names: {', '.join(map(repr, names[:10]))}"
        none = ", because X has no names" if names is None and isinstance(column, str) else ""
        raise ValueError(
            f"{name}: {column!r} is not a column; columns are numbers from 0 to "
            f"{n_features - 1}{named}{none}"
        )
    return int(column)


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
        label, sign = (
            (labels[-1], constraint)
            if isinstance(constraint, Integral)
            else constraint
            if _is_pair(constraint)
            else (None, None)
        )
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


def _is_pair(value):
    return isinstance(value, (tuple, list)) and len(value) == 2


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
        self._unit = unit = 2.0 ** max(exponent - DIGITS, -LEAST)
        value, n, K = np.rint(value / unit) * unit, len(feature), value.shape[1]
        sums = np.concatenate((np.zeros((1, K)), np.cumsum(value * count[:, None], axis=0)))
        rows = np.concatenate(([0], np.cumsum(count)))
        free = np.full((len(self.bounded), K), np.inf)
        out = np.empty_like(value)
        waiting = [(0, n, 0, -free, free, np.zeros(K))]
        while waiting:
            begin, end, leaf, low, high, inside = (
                waiting.pop()
            )  # the splits of a subtree, and its first leaf
            if begin == end:
                out[leaf] = self._moved(value[leaf], low, high, inside)
                continue
            middle = begin + int(right[begin])
            parts = (
                leaf,
                leaf + middle - begin,
                leaf + end - begin + 1,
            )  # leaves on the left, and on the right
            k, sign = self.signs.get(int(feature[begin]), (None, 0))
            left_low = low
            left_high = high
            right_low = low
            right_high = high
            if sign:
                means = [
                    (sums[b] - sums[a]) / (rows[b] - rows[a]) for a, b in (parts[:2], parts[1:])
                ]
                inside = self._moved((means[0] + means[1]) / 2, low, high, inside)
                number = self.bounded.index(k)
                between = self._gaps(inside, k)
                below, above = high.copy(), low.copy()
                below[number], above[number] = (
                    np.minimum(high[number], between),
                    np.maximum(low[number], between),
                )
                if sign > 0:
                    left_high = below
                    right_low = above
                else:
                    left_low = above
                    right_high = below
            waiting.append((begin + 1, middle, leaf, left_low, left_high, inside))
            waiting.append((middle, end, parts[1], right_low, right_high, inside))
        return out

    def _gaps(self, vector, k):
        """Differences (K,) between class k and the other classes, which the constraints bound."""
        return vector[k] - vector

    def _moved(self, target, low, high, inside):
        """Find a vector near the wanted one whose differences are within bounds; ``inside`` is a feasible vector."""
        near = np.rint(target / self._unit) * self._unit
        for number, k in enumerate(self.bounded):
            near = near[k] - np.clip(self._gaps(near, k), low[number], high[number])
        if not self._centred:
            near += np.rint((target.mean() - near.mean()) / self._unit) * self._unit
        for step in STEPS:
            moved = np.rint((inside + step * (near - inside)) / self._unit) * self._unit
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
    """Monotonic scores of multi-label data: the score of a label itself is bounded, and the others are left alone."""

    def _gaps(self, vector, k):
        return np.full_like(vector, vector[k])

    def _moved(self, target, low, high, inside):
        moved = np.rint(target / self._unit) * self._unit
        moved[self.bounded] = np.clip(moved[self.bounded], low[:, 0], high[:, 0])
        return moved
