"""Twin of the contributions: Shapley values straight from their definition, over all subsets of features."""

import itertools
import math

import numpy as np


def goes_left(tree, sets, i, x):
    """Whether a row goes left at split i; ``sets`` are the bits of those on categories."""
    feature, threshold, nan_left = tree[:3]
    value = np.float32(x[feature[i]])
    if i not in sets:
        return nan_left[i] if np.isnan(value) else value <= threshold[i]
    known = value >= 0 and value < 8 * len(sets[i]) and value == int(value)
    return bool(sets[i][int(value) // 8] >> int(value) % 8 & 1) if known else nan_left[i]


def descend(tree, sets, x):
    """Leaf of a row, counted from the left of its tree."""
    right = tree[3]
    i = 0
    end = len(right)
    at = 0
    while i < end:
        if goes_left(tree, sets, i, x=x):
            i, end = i + 1, i + right[i]
        else:
            i, at = i + right[i], at + right[i]
    return at


def added(ensemble, tree, leaf):
    """Scores (K,) that a leaf adds."""
    value = np.asarray(tree[4], dtype=np.float64)[leaf]
    cls = tree[5]
    base = tree[6]
    if cls < 0:
        return value
    if ensemble.code is not None:
        return value * ensemble.code[cls].astype(np.float64)
    scores = np.zeros(ensemble.n_classes)
    scores[cls] = value
    if base >= 0:
        scores[base] = -value
    return scores


def covers(ensemble, X):
    """Rows in each leaf, a list for every tree."""
    trees = zip(ensemble.each_tree(), ensemble.each_sets(), strict=False)
    return [
        np.bincount([descend(t, sets, x) for x in X], minlength=len(t[0]) + 1) for t, sets in trees
    ]


def of_rows(ensemble, x, background):
    """The value of a coalition: the mean score of background rows that take its features from x."""

    trees = list(zip(ensemble.each_tree(), ensemble.each_sets(), strict=False))

    def value(members):
        total = np.zeros(ensemble.n_classes)
        for z in background:
            mixed = np.array(z, dtype=np.float32)
            mixed[list(members)] = x[list(members)]
            total += sum(
                (added(ensemble, tree, descend(tree, sets, mixed)) for tree, sets in trees),
                start=ensemble.bias.astype(np.float64),
            )
        return total / len(background)

    return value


def of_covers(ensemble, x, cover):
    """The value of a coalition: splits on other features are taken both ways, in the shares of their rows."""

    def expected(tree, sets, rows, members, i, end, at):
        if i == end:
            return added(ensemble, tree, at)
        feature, right = tree[0][i], tree[3][i]
        parts = (i + 1, i + right, at), (i + right, end, at + right)
        if feature in members:
            return expected(
                tree, sets, rows, members, *parts[0 if goes_left(tree, sets, i, x=x) else 1]
            )
        counts = [rows[a : a + e - b + 1].sum() for b, e, a in parts]
        shares = [0.5, 0.5] if not sum(counts) else [n / sum(counts) for n in counts]
        both = (expected(tree, sets, rows, members, *part) for part in parts)
        return sum(share * its for share, its in zip(shares, both, strict=True))

    def value(members):
        trees = zip(ensemble.each_tree(), ensemble.each_sets(), cover, strict=False)
        return sum(
            (expected(tree, sets, rows, members, 0, len(tree[0]), 0) for tree, sets, rows in trees),
            start=ensemble.bias.astype(np.float64),
        )

    return value


def shapley(value, n):
    """Shapley values (n, K) of n features, and the value of nobody."""
    known = {
        members: value(members)
        for size in range(n + 1)
        for members in itertools.combinations(range(n), size)
    }
    result = np.zeros((n, len(known[()])))
    for members, with_out in known.items():
        for j in set(range(n)) - set(members):
            weight = (
                math.factorial(len(members))
                * math.factorial(n - len(members) - 1)
                / math.factorial(n)
            )
            result[j] += weight * (known[tuple(sorted((*members, j)))] - with_out)
    return result, known[()]


def interaction(value, n):
    """Shapley interaction values (n, n, K): pairs halved, and on the diagonal what is left of a Shapley value."""
    alone, nobody = shapley(value, n)
    result = np.zeros((n, n, len(nobody)))
    for i, j in itertools.permutations(range(n), 2):
        others = [k for k in range(n) if k not in (i, j)]
        for size in range(n - 1):
            weight = math.factorial(size) * math.factorial(n - size - 2) / math.factorial(n - 1)
            for members in itertools.combinations(others, size):
                both = (*members, i, j)
                first = (*members, i)
                second = (*members, j)
                change = value(both) - value(first) - value(second) + value(members)
                result[i, j] += weight * change / 2
    for i in range(n):
        result[i, i] = alone[i] - result[i].sum(axis=0)
    return result
