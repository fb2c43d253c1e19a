"""Twin of the stump search: every feature, threshold, direction of missing values and class, one after the other."""

import math

import numpy as np


def whole_weights(weight):
    """Weights as integers, in units of which all of them have at most 2^52."""
    size = 52 - len(weight).bit_length() - math.frexp(max(weight))[1]
    return np.rint(np.ldexp(np.asarray(weight, dtype=np.float64), size)).astype(np.int64)


def side_of_missing(weight, left, missing, nan_left):
    """Whether missing values go left at a split of rows of these whole weights.

    Where no row is missing, that is the side of more weight, the left one of equals.
    """
    return nan_left if missing.any() else bool(2 * weight[left].sum() >= weight.sum())


def gradient_of(u, y):
    """a_ir = [r = y_i] sum over l != y_i of u_il, minus u_ir elsewhere (float64)."""
    a = -np.asarray(u, dtype=np.float64).copy()
    own = np.arange(len(y)), y
    a[own] = 0
    a[own] = -a.sum(axis=1)
    return a


def candidates(column):
    """All (threshold, nan_left) of a float32 column: midpoints of neighbouring distinct values, then the NaN split."""
    column = np.asarray(column, dtype=np.float32)
    values = np.unique(column[~np.isnan(column)])
    has_nan = np.isnan(column).any()
    thresholds = []
    for low, high in zip(values[:-1], values[1:], strict=True):
        middle = np.float32(np.float64(low) + (np.float64(high) - np.float64(low)) / 2)
        if not low <= middle < high:
            middle = low
        thresholds.append((middle, False))
        if has_nan:
            thresholds.append((middle, True))
    if has_nan and len(values):
        thresholds.append((np.finfo(np.float32).max, False))
    return thresholds


def outputs(column, threshold, nan_left):
    """h = -1 where x <= threshold, or x is missing and nan_left; +1 elsewhere."""
    column = np.asarray(column, dtype=np.float32)
    left = (column <= threshold) | (np.isnan(column) & nan_left)
    return np.where(left, -1, 1)


def best_stump(X, a, allowed=None, weight=None):
    """(|edge|, feature, threshold, nan_left, class, signed edge) with the largest |edge|; first of exact ties.

    ``allowed``: feature -> thresholds, where only those of lossy bins are to be tried; ``weight`` of the rows: 1 each.
    """
    best = (0.0, None, None, None, None, 0.0)
    for f in range(X.shape[1]):
        for threshold, nan_left in candidates(X[:, f]):
            if allowed is not None and threshold not in allowed.get(f, ()):
                continue
            edges = outputs(X[:, f], threshold, nan_left) @ a
            r = int(np.argmax(np.abs(edges)))
            if abs(edges[r]) > best[0]:
                best = (abs(edges[r]), f, threshold, nan_left, r, edges[r])
    if best[1] is not None:
        column = X[:, best[1]]
        whole = whole_weights(np.ones(len(X)) if weight is None else weight)
        side = side_of_missing(
            whole, outputs(column, *best[2:4]) < 0, np.isnan(column), nan_left=best[3]
        )
        best = (*best[:3], side, *best[4:])
    return best
