"""Twin of the contributions: Shapley values straight from their definition, over all subsets of features."""

import itertools
import math

import numpy as np


def trees_of(ensemble):
    """The trees as `Trees.each_tree` has them, and as last item the sets of their splits: codes by the split."""
    for tree, sets in zip(ensemble.each_tree(), ensemble.each_sets(), strict=False):
        yield (*tree, {j: np.unpackbits(bits, bitorder="little").tolist() for j, bits in sets.items()})


def goes_left(tree, i, value):
    """Whether a value goes left at a split."""
    feature, threshold, nan_left = (part[i] for part in tree[:3])
    if i in tree[7]:
        inside = not np.isnan(value) and value == int(value) and 0 <= value < len(tree[7][i])
        return tree[7][i][int(value)] if inside else nan_left
    return nan_left if np.isnan(value) else np.float32(value) <= threshold


def descend(tree, x):
    """Leaf of a row, counted from the left of its tree."""
    feature, right = tree[0], tree[3]
    i, end, at = 0, len(feature), 0
    while i < end:
        if goes_left(tree, i, x[feature[i]]):
            i, end = i + 1, i + right[i]
        else:
            i, at = i + right[i], at + right[i]
    return at


def added(ensemble, tree, leaf):
    """Scores (K,) that a leaf adds."""
    value, cls, base = np.asarray(tree[4], dtype=np.float64)[leaf], tree[5], tree[6]
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
    return [np.bincount([descend(t, x) for x in X], minlength=len(t[0]) + 1) for t in trees_of(ensemble)]


def of_rows(ensemble, x, background):
    """The value of a coalition: the mean score of background rows that take its features from x."""

    def value(members):
        total = np.zeros(ensemble.n_classes)
        for z in background:
            mixed = np.array(z, dtype=np.float32)
            mixed[list(members)] = x[list(members)]
            total += sum(
                (added(ensemble, tree, descend(tree, mixed)) for tree in trees_of(ensemble)),
                start=ensemble.bias.astype(np.float64),
            )
        return total / len(background)

    return value


def of_covers(ensemble, x, cover):
    """The value of a coalition: splits on other features are taken both ways, in the shares of their rows."""

    def expected(tree, rows, members, i, end, at):
        if i == end:
            return added(ensemble, tree, at)
        feature, right = tree[0][i], tree[3][i]
        parts = (i + 1, i + right, at), (i + right, end, at + right)
        if feature in members:
            return expected(tree, rows, members, *parts[0 if goes_left(tree, i, x[feature]) else 1])
        counts = [rows[a : a + e - b + 1].sum() for b, e, a in parts]
        shares = [0.5, 0.5] if not sum(counts) else [n / sum(counts) for n in counts]
        return sum(share * expected(tree, rows, members, *part) for share, part in zip(shares, parts, strict=True))

    def value(members):
        trees = zip(trees_of(ensemble), cover, strict=True)
        return sum(
            (expected(tree, rows, members, 0, len(tree[0]), 0) for tree, rows in trees),
            start=ensemble.bias.astype(np.float64),
        )

    return value


def shapley(value, n):
    """Shapley values (n, K) of n features, and the value of nobody."""
    known = {
        members: value(members) for size in range(n + 1) for members in itertools.combinations(range(n), size)
    }
    result = np.zeros((n, len(known[()])))
    for members, with_out in known.items():
        for j in set(range(n)) - set(members):
            weight = math.factorial(len(members)) * math.factorial(n - len(members) - 1) / math.factorial(n)
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
                both, first, second = ((*members, i, j), (*members, i), (*members, j))
                change = value(both) - value(first) - value(second) + value(members)
                result[i, j] += weight * change / 2
    for i in range(n):
        result[i, i] = alone[i] - result[i].sum(axis=0)
    return result
