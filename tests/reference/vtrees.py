"""Twin of trees with vector leaves: every node, feature, threshold and direction one after the other, in NumPy.

It knows the rows' bins, not the lanes and cells that the kernel counts in.
"""

import math

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
TIE = 1 + 1e-10


def mix(z):
    """splitmix64's finaliser."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def child_key(key, right):
    return mix((key + (3 if right else 2) * GOLDEN + 1) & MASK)


def sample(key, n, take):
    """Indices of `take` of n features, drawn one by one without replacement (selection sampling)."""
    chosen = []
    for f in range(n):
        u = mix((key + (f + 4) * GOLDEN) & MASK) >> 32
        if (u * (n - f)) >> 32 < take - len(chosen):
            chosen.append(f)
    return chosen


def half_signs(key, K, n, width):
    """Directions (K, width): +1 for a random half of the classes and -1 for the others, by 1 / sqrt(n)."""
    signs = np.zeros((K, width), dtype=np.float32)
    signs[:, :n] = -1 / np.sqrt(n)
    for j in range(n):
        signs[sample(mix((key - (j + 1) * GOLDEN) & MASK), K, K // 2), j] *= -1
    return signs


def any_signs(key, K, n, width):
    """Directions (K, width): +1 or -1 for each class by itself, by 1 / sqrt(n)."""
    signs = np.zeros((K, width), dtype=np.float32)
    for j in range(n):
        of_column = mix((key - (j + 1) * GOLDEN) & MASK)
        for k in range(K):
            signs[k, j] = (1 if mix((of_column + (k + 4) * GOLDEN) & MASK) >> 63 else -1) / np.sqrt(
                n
            )
    return signs


def directions(key, K, n, width, lanes):
    """Half signs; of more than one block of lanes, each class keeps those of one block."""
    signs = half_signs(key, K, n, width=width)
    for k in range(K if n > lanes else 0):
        mine = (mix((mix(key & MASK) + (k + 4) * GOLDEN) & MASK) >> 32) * n >> 32
        block = range(mine // lanes * lanes, min(mine // lanes * lanes + lanes, n))
        kept = signs[k, block] * np.sqrt(np.float32(n / len(block)))
        signs[k] = 0
        signs[k, block] = kept
    return signs


def drawn_rows(key, share, number):
    """Rows of these numbers that the splits of a tree are found on."""
    key = mix((key + 1) & MASK)
    below = int(share * 2.0**32)
    rows = [
        i for i, its in enumerate(number) if mix((key + (its + 1) * GOLDEN) & MASK) >> 32 < below
    ]
    return np.array(rows if rows and share < 1 else range(len(number)))


def in_units(terms, unit):
    """Sums over the first axis of terms that are rounded to multiples of a unit, one for all or for each column."""
    return np.rint(np.asarray(terms, dtype=np.float64) / unit).astype(np.int64).sum(axis=0)


def pairwise(squares):
    """Row sums, adding the second half of the columns to the first until one is left."""
    while squares.shape[1] > 1:
        half = squares.shape[1] // 2
        squares = squares[:, :half] + squares[:, half:]
    return squares[:, 0]


def squares_of(G, lanes, n_classes, mean, left):
    """|G - left mean|^2 per row, block after block, the one with the weights first."""
    first = n_classes // lanes
    total = None
    blocks = [first] + [b for b in range(G.shape[1] // lanes) if b != first]
    for b in blocks:
        part = slice(b * lanes, (b + 1) * lanes)
        d = G[:, part].astype(np.float64) - left[:, None] * mean[part]
        here = pairwise(d * d)
        total = here if total is None else total + here
    return total


def by_bin(bins, gone, sums):
    """Bins that the rows have, and the sums over the rows of each; ``gone``: rows that are missing, left out."""
    there = np.flatnonzero(~gone)
    there = there[np.argsort(bins[there], kind="stable")]
    its = bins[there]
    starts = np.flatnonzero(np.diff(its, prepend=-1))
    return its[starts], np.add.reduceat(sums[there], starts, axis=0)


def best_of_feature(
    bins, n_bins, has_missing, A, lanes, n_classes, least, used=None, new_worth=1.0
):
    """(score, position, nan_left) of one feature at a node, or None. bins: of the node's rows; A: their integers.

    Scores at positions that are not in ``used`` are multiplied by ``new_worth``.
    """
    total = A.sum(axis=0)
    weight = float(total[n_classes])
    gone = bins == n_bins if has_missing else np.zeros(len(bins), dtype=bool)
    values, cells = by_bin(bins, gone, A)
    sides = 1 + bool(gone.any())
    missing = A[gone].sum(axis=0)
    n = len(values) - (not gone.any())
    if n < 1:
        return None
    position = np.append((values[:-1] + values[1:] - 1) // 2, n_bins - 1)[
        :n
    ]  # the last is before missing rows
    worth = np.append(np.full(len(values) - 1, new_worth), 1.0)[:n]
    for j in range(len(values) - 1) if used is not None else ():
        marked = sorted(set(range(values[j], values[j + 1])) & used)
        if marked:
            position[j] = min(marked, key=lambda at, middle=position[j]: (abs(at - middle), at))
            worth[j] = 1.0
    at, nan_left = np.divmod(np.arange(sides * n - (sides > 1)), sides)
    L = np.cumsum(cells, axis=0)[at] + nan_left[:, None] * missing
    left = L[:, n_classes].astype(np.float64)
    d2 = squares_of(L, lanes, n_classes, mean=total / weight, left=left)
    right = weight - left
    fine = (left >= least) & (right >= least) & (d2 > 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.where(fine, d2 / (left * right), -1)
    score = np.where(score > 0, score * worth[at], score)
    top = score.max()
    if top < 0:
        return None
    best = int(np.flatnonzero(score * TIE >= top)[0])
    heavier = left[best] >= right[best]
    return (
        score[best],
        int(position[at[best]]),
        bool(nan_left[best]) if gone.any() else bool(heavier),
    )


def leading(sums, weights):
    """Direction in which the means of levels, sums (n, K) over weights (n,), are spread most."""
    n, K = sums.shape
    spread = [[0.0] * K for _ in range(K)]
    for row, weight in zip(sums.tolist(), weights.tolist(), strict=True):
        one = 1.0 / weight
        for k in range(K):
            for j in range(k + 1):
                spread[k][j] += row[k] * row[j] * one
                spread[j][k] = spread[k][j]
    u = [0.0] * K
    u[max(range(K), key=lambda k: (spread[k][k], -k))] = 1.0
    for _ in range(8):
        following = []
        for k in range(K):
            total = 0.0
            for j in range(K):
                total += spread[k][j] * u[j]
            following.append(total)
        top = max(map(abs, following))
        if not top > 0:
            break
        u = [value / top for value in following]
    return u


def leading_of_many(sums, weights):
    """The same in more than one block of lanes: products with the levels in place of their matrix."""
    K = sums.shape[1]

    def product(u):
        following = np.zeros(K)
        for row, weight in zip(sums, weights.tolist(), strict=True):
            along = 0.0
            for a, b in zip(u, row.tolist(), strict=True):
                along += a * b
            following += 1.0 / weight * along * row
        return following.tolist()

    spread = np.zeros(K)
    for row, weight in zip(sums, weights.tolist(), strict=True):
        spread += 1.0 / weight * row * row
    u = [0.0] * K
    u[int(np.argmax(spread))] = 1.0
    for _ in range(8):
        following = product(u)
        top = max(map(abs, following))
        if not top > 0:
            break
        u = [value / top for value in following]
    return u


def order_of(sums, weights, u, rare):
    """Levels by their means in direction u, those that are rare by their common one."""
    key = []
    together = 0.0
    weight = 0
    for row, n, alone in zip(sums.tolist(), weights.tolist(), (~rare).tolist(), strict=True):
        total = 0.0
        for k, value in enumerate(row):
            total += u[k] * value
        key.append(np.float32(total / n))
        if not alone:
            together, weight = together + total, weight + n
    if rare.any():
        key = [
            np.float32(together / weight) if few else one
            for one, few in zip(key, rare, strict=True)
        ]
    return sorted(range(len(key)), key=lambda j: (key[j], j))


def best_subset(
    bins, n_bins, has_missing, A, lanes, n_classes, least, least_levels, level_cost=0.0
):
    """(score, bins on the left, nan_left) of one categorical feature at a node, or None.

    least_levels: (2, n) weights below which levels go together, and are in parts.
    """
    total = A.sum(axis=0)
    weight = float(total[n_classes])
    mean = total / weight
    gone = bins == n_bins if has_missing else np.zeros(len(bins), dtype=bool)
    levels, cells = by_bin(bins, gone, A)
    missing = A[gone].sum(axis=0)
    if len(levels) + gone.any() < 2:
        return None
    weights = cells[:, n_classes]
    sums = cells[:, :n_classes] - weights[:, None] * mean[:n_classes]
    rare, in_parts = weights < least_levels[0][levels], weights < least_levels[1][levels]
    direction = leading_of_many if A.shape[1] > lanes else leading
    u = direction(sums, weights)
    best = None
    for _ in range(5):
        order = order_of(sums, weights, u, rare=rare)
        L = np.cumsum(cells[order], axis=0)
        tries = []
        for j in range(len(order) - (not gone.any())):
            inside = j + 1 < len(order) and rare[order[j]] and rare[order[j + 1]]
            for side in (False, True) if gone.any() and j + 1 < len(order) else (False,):
                tries.append((L[j] + side * missing, j, side, inside))
        sides = np.array([one[0] for one in tries]).reshape(-1, len(total))
        left = sides[:, n_classes].astype(np.float64)
        d2 = squares_of(sides, lanes, n_classes, mean=mean, left=left)
        right = weight - left
        fine = (
            (left >= least)
            & (right >= least)
            & (d2 > 1)
            & ~np.array([one[3] for one in tries], dtype=bool)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(fine, d2 / (left * right), -1)
        top = score.max(initial=-1)
        at = int(np.flatnonzero(score * TIE >= top)[0]) if top >= 0 else -1
        if top < 0 or (best is not None and score[at] <= best[0] * TIE):
            break
        best = (
            score[at],
            {int(levels[j]) for j in order[: tries[at][1] + 1]},
            tries[at][2],
            left[at],
        )
        inside = np.isin(levels, list(best[1]))
        if len(levels) < 3 or inside.all():
            break
        u = _across(sums, weights, inside)
    if best is None:
        return None
    score, subset, side, left = best
    score -= level_cost * max(int((in_parts & ~rare).sum()) - 2, 0) / weight
    if score <= 0:
        return None
    if 2 * left > weight:
        subset = set(levels.tolist()) - subset
        side = bool(gone.any()) and not side
    return score, frozenset(subset), bool(side)


def _across(sums, weights, inside):
    """From the mean of the levels inside a set to that of the others."""
    across = []
    for k in range(sums.shape[1]):
        means = []
        for side in (False, True):
            total = 0.0
            for value in sums[inside == side, k].tolist():
                total += value
            means.append(total / float(weights[inside == side].sum()))
        across.append(means[0] - means[1])
    return across


def grow(
    bins,
    n_bins,
    has_missing,
    A,
    lanes,
    n_classes,
    key,
    take,
    max_leaves,
    max_depth,
    least,
    share=1.0,
    pool=None,
    min_gain=0.0,
    least_levels=None,
    number=None,
    worth=None,
    used=None,
    new_worth=1.0,
    level_cost=0.0,
    row_error=0.0,
    rows_per_weight=0.0,
    min_subtree_gain=0.0,
):
    """One tree on integers A (m, width): (splits in preorder, leaf of every row).

    Subtrees whose splits gain less than ``min_subtree_gain`` on average become leaves, from the bottom up.
    A split gains nothing where rounding alone may part the means: each row's vector is off by ``row_error`` at most.

    bins: (d, m), n_bins for missing rows. A split is (feature, position, nan_left, right, gain). Gains are
    multiplied by ``worth`` of the feature, and by ``new_worth`` at positions that are not in ``used`` of the feature.
    """
    m, d = len(A), len(bins)
    features = (
        list(range(d)) if pool in (None, d) else sample(mix((key + GOLDEN + 1) & MASK), d, pool)
    )

    def node(rows, key, depth):
        found = {"rows": rows, "key": key, "depth": depth, "gain": -1.0, "children": None}
        weight = float(A[rows, n_classes].sum())
        if len(rows) < 2 or weight < 2 * least or (max_depth and depth >= max_depth):
            return found
        best = []
        mine = A[rows]
        for f in (features[j] for j in sample(key, len(features), take)):
            part = bins[f][rows], n_bins[f], has_missing[f], mine, lanes, n_classes, least
            paid = (None, 1.0) if used is None else (used[f], new_worth)
            if f in (least_levels or ()):
                split = best_subset(*part, least_levels[f], level_cost)
            else:
                split = best_of_feature(*part, *paid)
            if split is not None:
                best.append((f, split[0] * (1.0 if worth is None else worth[f]), *split[1:]))
        if best:
            top = max(b[1] for b in best)
            f, score, position, nan_left = next(b for b in best if b[1] * TIE >= top)
            found.update(gain=score * weight, split=(f, position, nan_left))
            goes_left = is_left(found, rows)
            left, right = (
                float(A[rows[side], n_classes].sum()) for side in (goes_left, ~goes_left)
            )
            if (
                score * left * right
                <= (row_error * (2 * rows_per_weight * left * right / weight + 1)) ** 2
            ):
                found["gain"] = 0.0
        return found

    def is_left(at, rows):
        f, position, nan_left = at["split"]
        b = bins[f][rows]
        missing = (b == n_bins[f]) & bool(has_missing[f])
        left = np.isin(b, list(position)) if isinstance(position, frozenset) else b <= position
        return np.where(missing, nan_left, left)

    root = node(drawn_rows(key, share, range(m) if number is None else number.tolist()), key, 0)
    leaves = [root]
    n_splits = 0
    while n_splits < max_leaves - 1:
        gains = [leaf["gain"] for leaf in leaves]
        at = int(np.argmax(gains))
        if gains[at] <= min_gain:
            break
        leaf = leaves.pop(at)
        left = is_left(leaf, leaf["rows"])
        leaf["children"] = [
            node(leaf["rows"][left], child_key(leaf["key"], 0), leaf["depth"] + 1),
            node(leaf["rows"][~left], child_key(leaf["key"], 1), leaf["depth"] + 1),
        ]
        leaves += leaf["children"]
        n_splits += 1

    def gains_of(at):
        """Gains of the splits of a subtree that is pruned."""
        if at["children"] is None:
            return []
        left, right = (gains_of(child) for child in at["children"])
        gains = [at["gain"] + sum(left) + sum(right)]
        if gains[0] < min_subtree_gain * (1 + len(left) + len(right)):
            at["children"] = None
            return []
        return gains + [0.0] * (len(left) + len(right))

    if min_subtree_gain > 0:
        gains_of(root)
    splits = []
    leaf_of_row = np.empty(m, dtype=np.int64)

    def walk(at, rows, n_leaves):
        if at["children"] is None:
            leaf_of_row[rows] = n_leaves
            return n_leaves + 1
        left = is_left(at, rows)
        here = len(splits)
        splits.append([*at["split"], 0, at["gain"]])
        n_leaves = walk(at["children"][0], rows[left], n_leaves)
        splits[here][3] = len(splits) - here
        return walk(at["children"][1], rows[~left], n_leaves)

    walk(root, np.arange(m), 0)
    return [tuple(s) for s in splits], leaf_of_row


def softmax(F):
    e = np.exp(F - F.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def loss_of(F, y, weight):
    """Training loss of scores F (m, K) under softmax."""
    own = F[np.arange(len(y)), y]
    top = F.max(axis=1)
    return float(weight @ (np.log(np.exp(F - top[:, None]).sum(axis=1)) + top - own))


def gradient_of(F, y):
    """Negative gradient of the loss of every row."""
    return (np.arange(F.shape[1]) == y[:, None]) - softmax(F)


def hessian_of(F, weight):
    """Hessian of the loss with respect to a vector added to all rows."""
    K = F.shape[1]
    H = np.zeros((K, K))
    for f, w in zip(F, weight, strict=True):
        p = softmax(f[None])[0]
        H += w * (np.diag(p) - np.outer(p, p))
    return H


def sparse_leaf(vector, most, invariant):
    """A leaf vector of which the ``most`` numbers that matter are kept, one class after the other."""
    K = len(vector)
    vector = [float(v) for v in vector]
    if most >= K:
        return vector
    below = [v for v in vector if v < 0]
    common = math.fsum(below) / max(len(below), 1) if invariant else 0.0
    kept = sorted(range(K), key=lambda k: (-abs(vector[k] - common), k))[:most]
    rest = [vector[k] for k in range(K) if k not in kept]
    common = math.fsum(rest) / len(rest) if invariant else 0.0
    return [np.float32(vector[k] - common) if k in kept else 0.0 for k in range(K)]


def shared_leaf(vector, curvature, most):
    """A leaf vector with one number for all but ``most`` of its classes, and this number."""
    K = len(vector)
    step = 2.0**-20
    vector = [round(min(max(float(v), -4.0), 4.0) / step) * step for v in vector]
    if most >= K:
        return vector, 0.0

    def mean(where):
        weight = math.fsum(curvature[k] for k in where)
        return math.fsum(curvature[k] * vector[k] for k in where) / max(weight, 1e-300)

    common = mean([k for k in range(K) if vector[k] < 0])
    kept = sorted(range(K), key=lambda k: (-curvature[k] * (vector[k] - common) ** 2, k))[:most]
    shared = round(mean([k for k in range(K) if k not in kept]) / step) * step
    return [vector[k] if k in kept else shared for k in range(K)], shared
