"""Twin of the trees: every split of every node tried from the raw features, and rounds as in the papers.

Thresholds come from the training data's lists; bins, integers, sums, ties and partitions are worked out here again.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from .stumps import side_of_missing, whole_weights
from .vtrees import GOLDEN, MASK, child_key, mix, sample

LARGEST_STEP = 50.0
CLOSE = 1e-3  # gains within this share of the best are looked at as its rivals


class View:
    """Features of the training rows: values, thresholds by column and the number of thresholds below every value.

    ``least``: of the columns of categories, weights of their levels in a node below which these go together, and are in
    parts; ``level_cost``: gain in integers that a set loses for each of the latter but two.
    """

    def __init__(self, data, X, least=None, level_cost=0.0):
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        self.X = X[data.rows].astype(np.float32)
        self.weight = whole_weights(data.weight)
        self.cuts = {}
        self.bins = {}
        self.least = least or {}
        self.levels = {}
        self.level_cost = level_cost
        for f, column in enumerate(data.column):
            cuts = data.columns.threshold[
                data.columns.threshold_ptr[f] : data.columns.threshold_ptr[f + 1]
            ]
            values = self.X[:, column]
            self.cuts[int(column)] = cuts
            self.bins[int(column)] = np.where(
                np.isnan(values), -1, (values[:, None] > cuts).sum(axis=1)
            )
            if int(column) in self.least:
                self.levels[int(column)] = levels = np.unique(values[~np.isnan(values)])
                self.bins[int(column)] = np.where(
                    np.isnan(values), -1, np.searchsorted(levels, values)
                )
        self.sides = {column: 1 + bool((bins < 0).any()) for column, bins in self.bins.items()}

    def side_of_missing(self, rows, split):
        """Whether missing values go left at a split of these rows. Of categories the heavier side is the right one."""
        missing = np.isnan(self.X[rows, split.column])
        if split.subset is not None:
            return split.nan_left
        return side_of_missing(
            self.weight[rows], self.goes_left(rows, split), missing, split.nan_left
        )

    def goes_left(self, rows, split):
        values = self.X[rows, split.column]
        if split.subset is not None:
            return np.isin(values, split.subset) | (np.isnan(values) & split.nan_left)
        return (values <= split.threshold) | (np.isnan(values) & split.nan_left)


@dataclass
class Split:
    """One split of one node; ``runner_up`` is the gain of the next best partition of its rows, 0 if far below."""

    score: float
    column: int
    pos: int
    nan_left: bool
    threshold: float
    gain: float = 0.0
    runner_up: float = 0.0
    subset: tuple | None = None


@dataclass
class Node:
    rows: np.ndarray
    depth: int
    best: Split | None
    key: int = 0
    left: "Node | None" = None
    right: "Node | None" = None


@dataclass
class Tree:
    """Splits in preorder and leaves from left to right, as `pymcboost.model.trees.Trees` has them."""

    column: list = field(default_factory=list)
    threshold: list = field(default_factory=list)
    nan_left: list = field(default_factory=list)
    right: list = field(default_factory=list)
    gain: list = field(default_factory=list)
    leaf_rows: list = field(default_factory=list)
    splits: list = field(default_factory=list)
    subsets: dict = field(default_factory=dict)
    root: Node | None = None

    def leaf_of(self, view, rows):
        """Leaf of each of the rows."""
        leaf = np.empty(len(rows), dtype=int)
        number = iter(range(len(self.leaf_rows)))

        def descend(node, places):
            if node.left is None:
                leaf[places] = next(number)
                return
            left = view.goes_left(rows[places], node.best)
            descend(node.left, places[left])
            descend(node.right, places[~left])

        descend(self.root, np.arange(len(rows)))
        return leaf


def score(left, right, real, l2=0.0):
    """(G_L H_R - G_R H_L)^2 / (H_L H_R) in the arithmetic of the kernel: float32 for one plane, float64 for two.

    H has l2 added; in float32, both are first divided by a power of two that brings l2 below 2^30.
    """
    gl, hl, gr, hr = (a.astype(real) for a in (left[0], left[1], right[0], right[1]))
    factor = 2.0 ** min(0, 30 - math.frexp(l2)[1]) if real is np.float32 else 1.0
    hl, hr = (h * real(factor) + real(l2 * factor) for h in (hl, hr))
    with np.errstate(all="ignore"):
        d = gl * hr - gr * hl
        return d * d / (hl * hr)


def gain_of(left, right, l2=0.0):
    """G_L^2/H_L + G_R^2/H_R - G_T^2/H_T, where all H have l2 added."""
    gl, hl, gr, hr = (a.astype(float) for a in (left[0], left[1], right[0], right[1]))
    g = gl + gr
    h = hl + hr + l2
    hl, hr = hl + l2, hr + l2
    with np.errstate(all="ignore"):
        d = gl * hr - gr * hl
        return d / hl * (d / hr) / (hl + hr) - g / (hl + hr) * (g / h) * l2


def is_rounding(left, right, n_rows, l2=0.0, h_error=1.0):
    """Whether half a unit in the g of every row, and h_error in its h, may part G_L/H_L from G_R/H_R.

    A side is taken to have its share of n among the rows, and one more.
    """
    (gl, hl, nl), (gr, hr, nr) = left.astype(float).tolist(), right.astype(float).tolist()
    hl = hl + l2
    hr = hr + l2
    share = n_rows / (nl + nr)
    of_left = (1 + share * nl) * (0.5 * hr + h_error * abs(gr))
    of_right = (1 + share * nr) * (0.5 * hl + h_error * abs(gl))
    return abs(gl * hr - gr * hl) <= of_left + of_right


def allowed_of(left, right, least, least_h):
    """Whether both sides have the least n and the least h."""
    low = [np.minimum(one, other) for one, other in zip(left, right, strict=True)]
    return (low[2] >= least) & (low[1] >= least_h)


def best_subset(view, rows, values, column, least, real, l2=0.0, least_h=0):
    """The best set of levels of a column as a `Split`, or None.

    Levels are ordered by g / h, rare ones by their common g / h. Every beginning of the order is tried, with missing
    rows right, then left; the first of equals is taken. The heavier side is the right one.
    """
    bins = view.bins[column][rows]
    n_levels = len(view.levels[column])
    by_bin = np.array([np.bincount(bins + 1, v, n_levels + 1) for v in values]).astype(np.int64)
    gone = by_bin[:, 0]
    cells = by_bin[:, 1:]
    total = by_bin.sum(axis=1)
    there = np.flatnonzero(cells[1])
    rare = cells[2, there] < view.least[column][0][there]
    together = cells[:, there[rare]].sum(axis=1)
    sums = np.where(rare, together[:, None], cells[:, there])
    key = (sums[0] / sums[1]).astype(np.float32)
    order = sorted(range(len(there)), key=lambda j: (key[j], j))
    sides = 1 + bool(gone[1])
    inside = rare[order] & np.append(rare[order][1:], False)
    left = cells[:, there[order]].cumsum(axis=1)
    left = np.stack([left, left + gone[:, None]][:sides], axis=2).reshape(len(values), -1)
    right = total[:, None] - left
    allowed = allowed_of(left, right, least, least_h=least_h) & ~np.repeat(inside, sides)
    if not allowed.any():
        return None
    scores = np.where(allowed, score(left, right, real, l2=l2), -1)
    index = int(np.argmax(scores))
    best_score = float(scores[index])
    own = left[:, index]
    place, nan_left = divmod(index, sides)
    in_parts = ~rare & (cells[2, there] < view.least[column][1][there])
    best_score -= view.level_cost * max(int(in_parts.sum()) - 2, 0) * float(total[1])
    if best_score <= 0:
        return None
    subset = {int(there[j]) for j in order[: place + 1]}
    gain = float(gain_of(own, total - own, l2))
    if 2 * own[2] > total[2]:
        subset = set(there.tolist()) - subset
        nan_left = bool(gone[1]) and not nan_left
    values = tuple(float(view.levels[column][b]) for b in sorted(subset))
    return Split(
        best_score, column, 0, nan_left=bool(nan_left), threshold=0.0, gain=gain, subset=values
    )


def sums_below(view, rows, values, columns):
    """Candidates of the columns: which column, position and side, and the sums (n, candidates) on the left.

    The order is that of the columns, positions and sides; a column has both sides where training rows miss it. The
    last are the sums of h by bin, those of missing rows first, of each column after the other.
    """
    n_cuts, sides = np.array([(len(view.cuts[column]), view.sides[column]) for column in columns]).T
    starts = np.r_[0, np.cumsum(n_cuts + 2)]
    where = (
        np.array([view.bins[column][rows] for column in columns]) + 1 + starts[:-1, None]
    ).ravel()
    # Sums below 2^53 are exact in float64.
    by_bin = [np.bincount(where, np.tile(v, len(columns)), starts[-1]) for v in values]
    by_bin = np.array(by_bin).astype(np.int64)
    up_to = by_bin.cumsum(axis=1)
    which = np.repeat(np.arange(len(columns)), n_cuts * sides)
    place = np.arange(len(which)) - (np.cumsum(n_cuts * sides) - n_cuts * sides)[which]
    pos, side = np.divmod(place, sides[which])
    first = starts[which]
    return (
        which,
        pos,
        side,
        up_to[:, first + 1 + pos] - up_to[:, first] + side * by_bin[:, first],
        by_bin[1],
        starts,
    )


def best_threshold(view, rows, values, least, real, columns, l2=0.0, least_h=0):
    """The best split of a node at a threshold of one of the columns, or None."""
    which, pos, side, left, h, starts = sums_below(view, rows, values, columns=columns)
    right = values.sum(axis=1)[:, None] - left
    allowed = allowed_of(left, right, least, least_h=least_h)
    if not allowed.any():
        return None
    scores = np.where(allowed, score(left, right, real, l2=l2), -1)
    index = int(np.argmax(scores))
    column = columns[which[index]]
    pos = int(pos[index])
    of_bins = h[starts[which[index]] + 1 : starts[which[index] + 1]]
    empty = pos + 1
    while empty < len(of_bins) and of_bins[empty] == 0:
        empty += 1
    if empty < len(of_bins):
        pos = (pos + empty - 1) // 2
    best = Split(
        float(scores[index]),
        column,
        pos,
        nan_left=bool(side[index]),
        threshold=float(view.cuts[column][pos]),
        gain=float(gain_of(left[:, index], right[:, index], l2)),
    )
    # Each partition once, from whatever side or column it is seen. Without l2, scores are in proportion to the gains.
    close = scores >= (1 - 2 * CLOSE) * scores[index]
    left, right = left[:, close], right[:, close]
    gain = gain_of(left, right, l2)
    sides = zip(left.T.tolist(), right.T.tolist(), gain.tolist(), strict=True)
    gains = {
        tuple(min(own, other)): its for own, other, its in sides if its >= (1 - CLOSE) * best.gain
    }
    best.runner_up = max(sorted(gains.values())[:-1], default=0.0)
    return best


def best_split(view, rows, values, least, real, columns, l2=0.0, least_h=0):
    """The best split of a node: lower columns, thresholds and missing right first among equals; or None."""
    values = np.array([v[rows] for v in values])
    columns = [column for column in view.cuts if columns is None or column in columns]
    ordered = [column for column in columns if column not in view.levels]
    splits = [
        best_subset(view, rows, values, column=c, least=least, real=real, l2=l2, least_h=least_h)
        for c in columns
        if c in view.levels
    ]
    if ordered:
        splits.append(
            best_threshold(
                view, rows, values, least=least, real=real, columns=ordered, l2=l2, least_h=least_h
            )
        )
    splits = [split for split in splits if split is not None]
    return min(splits, key=lambda split: (-split.score, columns.index(split.column)), default=None)


def job_key(key, k, b, n_classes):
    """Key of the tree of class k and base class b: the same for (b, k)."""
    low, high = sorted((k, k if b < 0 else b))
    return mix((key + (low * n_classes + high + 1) * GOLDEN) & MASK)


def grow(
    view,
    g,
    h,
    n,
    *,
    least=1,
    max_leaves=20,
    max_depth=0,
    real=np.float64,
    rows=None,
    columns=None,
    share=0.0,
    l2=0.0,
    least_h=0,
    min_gain=0.0,
    take=0,
    key=0,
    h_error=-1.0,
):
    """The tree grown best-first on the integers g, h and n of the rows; among equal gains the older node is split.

    Only nodes with more than the ``share`` of the h of all rows are split. ``take``: features that a node draws, 0 for
    all; where those of the root cannot split it, all nodes have all.
    """
    options = {
        name: value
        for name, value in locals().items()
        if name not in ("view", "g", "h", "n", "take")
    }
    values = [np.asarray(v, dtype=np.int64) for v in (g, h, n)]
    bound = share * values[1][slice(None) if rows is None else rows].sum()

    pool = [column for column in view.cuts if columns is None or column in columns]

    def node(rows, depth, key):
        deep = (max_depth and depth >= max_depth) or not values[1][rows].sum() > bound
        drawn = {pool[j] for j in sample(key, len(pool), take)} if take else columns
        best = (
            None
            if deep
            else best_split(
                view, rows, values, least=least, real=real, columns=drawn, l2=l2, least_h=least_h
            )
        )
        if best is not None:
            best.nan_left = view.side_of_missing(rows, best)
        if best is not None and h_error >= 0:
            goes_left = view.goes_left(rows, best)
            left, right = (
                np.array([v[rows[side]].sum() for v in values]) for side in (goes_left, ~goes_left)
            )
            if is_rounding(left, right, len(rows), l2=l2, h_error=h_error):
                best.gain = 0.0
        return Node(
            rows, depth, best if best is not None and best.gain > min_gain else None, key=key
        )

    nodes = [node(np.arange(len(g)) if rows is None else np.asarray(rows), 0, key)]
    if take and nodes[0].best is None:
        return grow(view, g, h, n=n, **options)
    tree = Tree(root=nodes[0])
    for _ in range(max_leaves - 1):
        leaves = [a for a in nodes if a.left is None and a.best is not None]
        if not leaves:
            break
        at = max(leaves, key=lambda a: a.best.gain)
        left = view.goes_left(at.rows, at.best)
        tree.splits.append((at, sorted((a.best.gain for a in leaves), reverse=True)[1:2]))
        at.left = node(at.rows[left], at.depth + 1, child_key(at.key, 0))
        at.right = node(at.rows[~left], at.depth + 1, child_key(at.key, 1))
        nodes += [at.left, at.right]
    _preorder(tree.root, tree)
    return tree


def _preorder(node, tree):
    if node.left is None:
        tree.leaf_rows.append(node.rows)
        return
    at = len(tree.column)
    tree.column.append(node.best.column)
    tree.threshold.append(node.best.threshold)
    tree.nan_left.append(node.best.nan_left)
    tree.gain.append(node.best.gain)
    tree.right.append(0)
    if node.best.subset is not None:
        tree.subsets[at] = node.best.subset
    _preorder(node.left, tree)
    tree.right[at] = len(tree.column) - at
    _preorder(node.right, tree)


# -- gradients -----------------------------------------------------------------------------------------------------


def remaining(P, y):
    """What is left to learn: P (K, m), but 1 - p of the own class, as the sum of the others."""
    S = P.copy()
    own = (y, np.arange(len(y)))
    S[own] = 0
    S[own] = S.sum(axis=0)
    return S


def gradients(S, y, k, b=-1):
    """g and h of class k against base class b (-1: none), in the type of S (K, m) and in steps that cancel nothing.

    That is (r_k - p_k) - (r_b - p_b) and p_k (1 - p_k) + p_b (1 - p_b) + 2 p_k p_b, or the parts without b.
    """
    one = S.dtype.type(1)
    s = S[k]
    g = np.where(y == k, s, -s)
    h = s * (one - s)
    if b >= 0:
        t = S[b]
        both = np.where(y == k, t * (one - s), np.where(y == b, s * (one - t), s * t))
        g = g + np.where(y == b, -t, t)
        h = h + (t * (one - t) + (both + both))
    return g, h


def rounded(g, h, weight, counts, scale, cell_words):
    """Integers g, h and n in units of 1 / scale; h and n at least 1. One plane: in float32, and h is n."""
    real = g.dtype.type if cell_words == 1 else np.float64
    g, h, weight = (np.asarray(a, dtype=real) for a in (g, h, weight))
    sg, sh, sn = (real(s) for s in scale)
    if counts:
        h = np.ones_like(h)
    g = g * (weight * sg) if cell_words == 1 else g * weight * sg
    h = h * weight * sh
    half = real(0.5)
    g = (g + np.where(g < 0, -half, half)).astype(np.int64)
    h = np.maximum((h + half).astype(np.int64), 1)
    return g, h, h if cell_words == 1 else np.maximum((weight * sn + half).astype(np.int64), 1)


def leaf_values(tree, g, h, weight, shrinkage, l2=0.0):
    """Shrunken Newton steps of the leaves, rounded to float32."""
    G = np.array([(weight[rows] * g[rows].astype(float)).sum() for rows in tree.leaf_rows])
    H = np.array([(weight[rows] * h[rows].astype(float)).sum() for rows in tree.leaf_rows])
    step = np.clip(G / np.maximum(H + l2, 1e-300), -LARGEST_STEP, LARGEST_STEP)
    return (step * shrinkage).astype(np.float32).astype(np.float64)


# -- rounds, in float64 --------------------------------------------------------------------------------------------


def softmax(F):
    e = np.exp(F - F.max(axis=0))
    return e / e.sum(axis=0)


def loss(F, y, weight):
    """Sum of the weighted -log p of the true classes, for scores F (K, m)."""
    top = F.max(axis=0)
    log_p = F - top - np.log(np.exp(F - top).sum(axis=0))
    return float(-(weight * log_p[y, np.arange(len(y))]).sum())


@dataclass
class Step:
    """One tree of a round: F[cls] += value of the leaf, F[base] -= it."""

    cls: int
    base: int
    tree: Tree
    value: np.ndarray
    leaf: np.ndarray


class Boosting:
    """mart, logitboost, abc-mart and abc-logitboost, one tree after the other.

    Parameters
    ----------
    view, y, weight, n_classes
        Training rows, sorted by class or not.
    counts : bool
        mart.
    shrinkage : float
    options : dict
        ``max_leaves``, ``max_depth``, ``least`` (in weight) of `grow`.
    """

    def __init__(
        self,
        view,
        y,
        weight,
        n_classes,
        *,
        counts,
        shrinkage=0.1,
        least=1.0,
        l2_regularization=0.0,
        min_gain=0.0,
        min_hessian_leaf=0.0,
        **options,
    ):
        self.view = view
        self.y = y
        self.weight = np.asarray(weight, dtype=float)
        self.K = n_classes
        self.counts = counts
        self.shrinkage = shrinkage
        self.least = least
        self.options = options
        self.l2 = l2_regularization
        self.min_gain = min_gain
        self.min_hessian = min_hessian_leaf
        self.F = np.zeros((n_classes, len(y)))

    def step(self, k, b):
        """Fit a tree to class k against base class b (-1: none) on the present scores."""
        g, h = gradients(remaining(softmax(self.F), self.y), self.y, k, b=b)
        wg = np.abs(self.weight * g).sum()
        wh = (self.weight * (1 if self.counts else h)).sum()
        unit = 2.0**23 / 2 ** np.ceil(np.log2(self.weight.sum()))
        of_g, of_h = 2.0**45 / wg, 2.0**37 / wh
        ints = rounded(
            g, h, self.weight, counts=self.counts, scale=(of_g, of_h, unit), cell_words=2
        )
        tree = grow(
            self.view,
            *ints,
            least=max(1, self.least * unit),
            l2=0.0 if self.counts else self.l2 * of_h,
            least_h=self.min_hessian * of_h,
            min_gain=self.min_gain * of_g**2 / of_h,
            h_error=0.0 if self.counts and (self.weight == 1).all() else 1.0,
            **self.options,
        )
        factor = self.shrinkage * (1 if b >= 0 else (self.K - 1) / self.K)
        leaf = np.empty(len(self.y), dtype=int)
        for j, rows in enumerate(tree.leaf_rows):
            leaf[rows] = j
        return Step(
            k,
            b,
            tree,
            value=leaf_values(tree, g, h, weight=self.weight, shrinkage=factor, l2=self.l2),
            leaf=leaf,
        )

    def after(self, steps):
        F = self.F.copy()
        for step in steps:
            F[step.cls] += step.value[step.leaf]
            if step.base >= 0:
                F[step.base] -= step.value[step.leaf]
        return F

    def plain_round(self):
        """A tree for every class; returns the steps."""
        steps = [self.step(k, -1) for k in range(self.K)]
        self.F = self.after(steps)
        return steps

    def base_round(self, bases):
        """Try the base classes, each on a copy of the scores; keep the one with the smallest loss, the first of equals.

        Returns
        -------
        base, steps, losses
        """
        tried = {b: [self.step(k, b) for k in range(self.K) if k != b] for b in bases}
        losses = {b: loss(self.after(steps), self.y, self.weight) for b, steps in tried.items()}
        base = min(losses, key=losses.get)
        self.F = self.after(tried[base])
        return base, tried[base], losses

    def worst(self, s):
        """The s classes with the largest summed loss, lower codes first among equals."""
        P = softmax(self.F)
        own = -self.weight * np.log(P[self.y, np.arange(len(self.y))])
        sums = np.bincount(self.y, own, self.K)
        return sorted(sorted(range(self.K), key=lambda k: (-sums[k], k))[:s])
