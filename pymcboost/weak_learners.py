"""Weak learners: fit binary learners h(x) in {-1, +1} to the gradient of all classes in one scan of the data."""

from typing import NamedTuple

import numpy as np

from pymcboost._kernels import splits as _splits
from pymcboost._kernels import stumps as _stumps
from pymcboost._kernels import trees as _trees
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.data import Lists, Tiles, layout
from pymcboost.threads import available_memory, in_words
from pymcboost.tree_data import Grown, Units

# Edges that differ by less than this, relatively, are ties, so that rounding does not decide between equal splits.
TIE = {np.dtype(np.float32): 1 + 2e-6, np.dtype(np.float64): 1 + 1e-10}


class StumpFit(NamedTuple):
    """The stump with the largest edge, of all classes or of one.

    ``polarity`` is +1 when h = +1 means ``x > threshold``; ``h`` (m,) holds its outputs on the training rows; ``edge``
    is positive, in the scale of the gradient.
    """

    feature: int
    threshold: np.float32
    nan_left: bool
    polarity: int
    cls: int
    edge: float
    h: np.ndarray
    gain: None = None

    def first_split(self):
        """Its feature and threshold, as Python numbers."""
        return self.feature, float(self.threshold)

    def as_tree(self):
        """Arrays of its own: (feature, threshold, nan_left, right, sign), as those of a `TreeFit`."""
        return (
            np.array([self.feature]), np.array([self.threshold], dtype=np.float32), np.array([self.nan_left]),
            np.array([1]), np.array([-1.0, 1.0]) * self.polarity,
        )  # fmt: skip

    def add_to(self, builder, plus, minus=None):
        """Append it to a builder, with the values (K,) of the classes where h is +1 and -1 (``-plus`` if None)."""
        if self.polarity < 0:
            plus, minus = -plus if minus is None else minus, None if minus is None else plus
        builder.add_stump(self.feature, self.threshold, self.nan_left, plus, minus)


class _StumpSearch:
    """Scan of all features for decision stumps.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
        Columns of the gradient; one for every class if None.
    """

    def __init__(self, data, n_threads, n_columns=None):
        self.data = data
        self.n_threads = n_threads
        self.n_columns = data.n_classes if n_columns is None else n_columns
        lanes, n_blocks = layout(self.n_columns)
        self.tie = TIE[data.dtype]
        self._scratch = _stumps.new_scratch(lanes, n_threads)
        self._sums = np.zeros((n_blocks, lanes))
        self._needs_sums = any(not isinstance(store, Tiles) for store in data.stores)
        lengths = [len(store.feature) for store in data.stores]
        self._first = np.concatenate(([0], np.cumsum(lengths))).astype(int)
        self._byte_of = [
            np.repeat(np.arange(len(store.byte_ptr) - 1, dtype=np.int32), np.diff(store.byte_ptr))
            if isinstance(store, Tiles) else None
            for store in data.stores
        ]  # fmt: skip
        self._feature = np.concatenate([store.feature for store in data.stores] or [np.empty(0, dtype=np.int32)])

    def _aim(self, best):
        """Have the scans fill ``best``."""
        self._best = best
        self._targets = [
            _stumps.Target(best, self._first[s], self._first[s + 1] - self._first[s])
            for s in range(len(self._first) - 1)
        ]

    def _lengths(self):
        """Number of thresholds of every slot."""
        return [len(thresholds) for store in self.data.stores for thresholds in store.thresholds]

    def _scan(self, gradient):
        """Fill the results with what ``gradient`` (n_blocks, m, lanes) gives."""
        if self._needs_sums:
            _stumps.totals(gradient, self._sums)
        for store, target in zip(self.data.stores, self._targets, strict=True):
            if isinstance(store, Tiles):
                _stumps.search_tiles(
                    gradient, store.codes, store.byte_cells, store.byte_ptr, store.stride, store.bins, store.missing,
                    self.tie, self._scratch, target, self.n_threads,
                )  # fmt: skip
            elif isinstance(store, Lists):
                _stumps.search_lists(
                    gradient, self._sums, store.ptr, store.rows, store.codes, store.mode, store.bins, store.missing,
                    self.tie, self._scratch, target, self.n_threads,
                )  # fmt: skip
            else:
                _stumps.search_sorted(
                    gradient, self._sums, store.ptr, store.order, store.n_missing, store.default_at,
                    store.split_missing, self.tie, target, self.n_threads,
                )  # fmt: skip

    def _first_best(self, value):
        """Number of the split with the largest value > 0, of those listed by `Totals` or `AllEdges`; -1 if none is.

        Ties go to the lower feature, then the lower threshold, then missing values right.
        """
        top = value.max(initial=0.0)
        if not top > 0:
            return -1
        near = np.flatnonzero(value * self.tie >= top)
        slot = np.searchsorted(self._best.start, near, side="right") - 1
        return int(near[np.lexsort((near, self._feature[slot]))[0]])

    def _stump_of_split(self, split, edge, h):
        """The stump of a split of `Totals` or `AllEdges`, +1 on its right side; its outputs go into ``h``."""
        slot = int(np.searchsorted(self._best.start, split, side="right")) - 1
        code = int(split - self._best.start[slot])
        return self._stump(slot, edge, code >> 1, -1, bool(code & 1), h)

    def _stump(self, at, edge, pos, cls, nan_left, h):
        """The stump of slot ``at``; its outputs go into ``h``."""
        s = int(np.searchsorted(self._first, at, side="right")) - 1
        slot = at - self._first[s]
        store = self.data.stores[s]
        self._sides(s, slot, pos, nan_left, h)
        if edge < 0:
            np.negative(h, out=h)
        polarity = 1 if edge > 0 else -1
        return StumpFit(int(store.feature[slot]), store.thresholds[slot][pos], nan_left, polarity, cls, abs(edge), h)

    def _stumps(self, at, edge, code, columns, h):
        """The stumps of the slots ``at`` (n,), for these columns; their outputs go into those rows of ``h``."""
        threshold = np.empty(len(at), dtype=np.float32)
        of_store = np.searchsorted(self._first, at, side="right") - 1
        for s, store in enumerate(self.data.stores):
            mine = np.flatnonzero(of_store == s)
            if not len(mine):
                continue
            slots, codes, to = at[mine] - self._first[s], code[mine], columns[mine]
            threshold[mine] = [
                store.thresholds[j][p] for j, p in zip(slots.tolist(), (codes >> 1).tolist(), strict=True)
            ]
            if isinstance(store, Tiles):
                _stumps.side_tiles(
                    store.codes, self._byte_of[s], store.stride, store.bins, store.missing, slots, codes, to, h,
                    self.n_threads,
                )  # fmt: skip
            else:
                for slot, pos, row in zip(slots, codes, to, strict=True):
                    self._sides(s, slot, pos >> 1, bool(pos & 1), h[row])
        for row in columns[edge < 0]:
            np.negative(h[row], out=h[row])
        rows = zip(
            self._feature[at].tolist(), threshold, (code & 1).astype(bool).tolist(),
            np.where(edge > 0, 1, -1).tolist(), columns.tolist(), np.abs(edge).tolist(), [h[row] for row in columns],
            strict=True,
        )  # fmt: skip
        return [StumpFit(*row) for row in rows]

    def _sides(self, s, slot, pos, nan_left, h):
        """Outputs of the split of a slot of store ``s``."""
        store = self.data.stores[s]
        if isinstance(store, Tiles):
            byte = self._byte_of[s][slot]
            _stumps.side_tile(
                store.codes[byte // 4], byte % 4, store.stride[slot], store.bins[slot], pos, nan_left,
                store.missing[slot], h,
            )  # fmt: skip
            return
        part = slice(store.ptr[slot], store.ptr[slot + 1])
        if isinstance(store, Lists):
            _stumps.side_list(
                store.rows[part], store.codes[part], store.mode[slot], store.bins[slot], pos, nan_left,
                store.missing[slot], h,
            )  # fmt: skip
        else:
            _stumps.side_sorted(store.order[part], store.n_missing[slot], store.default_at[slot], pos, nan_left, h)


class SharedStump(_StumpSearch):
    """Decision stumps shared by all classes (eq. 10): the largest |edge| over features, thresholds and classes.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    """

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self._aim(_stumps.Best(len(self._feature)))
        self._h = aligned_zeros(data.n_rows, np.int8)

    def fit(self, gradient):
        """Best stump for ``gradient`` (n_blocks, m, lanes), or None where no stump has any edge."""
        self._scan(gradient)
        at = _stumps.pick(self._best, self._feature, self.tie)
        if at < 0:
            return None
        edge, pos, cls, nan_left = self._best.records[at].item()
        return self._stump(at, edge, pos, cls, bool(nan_left), self._h)


class TotalStump(_StumpSearch):
    """Decision stumps shared by all classes, which take them with either sign.

    The stump with the largest sum over the classes of |edge|, or of its square.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
    squares : bool, default=False
    """

    def __init__(self, data, n_threads, n_columns=None, squares=False):
        super().__init__(data, n_threads, n_columns)
        self._aim(_stumps.Totals(self._lengths(), squares))
        self._h = aligned_zeros(data.n_rows, np.int8)

    def fit(self, gradient):
        """Best stump for ``gradient`` (n_blocks, m, lanes), or None where no stump has any edge.

        Its ``edge`` is the sum that was maximised, its ``cls`` is -1.
        """
        self._best.total[:] = 0  # blocks of columns are added up
        self._scan(gradient)
        split = self._first_best(self._best.total)
        if split < 0:
            return None
        return self._stump_of_split(split, float(self._best.total[split]), self._h)


class EveryStump(_StumpSearch):
    """All decision stumps and their edges.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
    """

    def __init__(self, data, n_threads, n_columns=None):
        super().__init__(data, n_threads, n_columns)
        lengths = self._lengths()
        refuse_edges(lengths, self._sums.size)
        self._aim(_stumps.AllEdges(lengths, self._sums.size))
        self._h = aligned_zeros(data.n_rows, np.int8)
        self._splits = self.outputs = None

    def edges(self, gradient):
        """Sums right minus left, the numbers of the splits among them, and the sums of all rows.

        Returns
        -------
        edge : ndarray (n_all, width)
            Overwritten by the next call.
        splits : ndarray (n,)
            Rows of ``edge``: those of lower features come first, and then those at lower thresholds.
        total : ndarray (P,)
        """
        self._scan(gradient)
        if not self._needs_sums:
            _stumps.totals(gradient, self._sums)
        edge = self._best.edge
        if self._splits is None:
            there = np.flatnonzero(~np.isnan(edge[:, 0])) if len(edge) else np.zeros(0, dtype=np.int64)
            slot = np.searchsorted(self._best.start, there, side="right") - 1
            self._splits = there[np.lexsort((there, self._feature[slot]))]
        return edge, self._splits, self._sums.ravel()[: self.n_columns]

    def stump(self, at):
        """The stump of split number ``at``, +1 on its right side; its outputs are overwritten by the next call."""
        return self._stump_of_split(int(self._splits[at]), 1.0, self._h)

    def stumps(self, at):
        """The stumps of splits number ``at`` (P,), +1 on their right sides: one for each column.

        Their outputs, also the rows of ``outputs`` (P, m), are overwritten by the next call.
        """
        if self.outputs is None:
            self.outputs = aligned_zeros((len(at), self.data.n_rows), np.int8)
        split = self._splits[at]
        slot = np.searchsorted(self._best.start, split, side="right") - 1
        code = (split - self._best.start[slot]).astype(np.int32)
        return self._stumps(slot, np.ones(len(at)), code, np.arange(len(at)), self.outputs)


class ClassStump(_StumpSearch):
    """Decision stumps that say one class on the left and another on the right: those with the fewest errors.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    """

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        lengths = self._lengths()
        refuse_edges(lengths, self._sums.size)
        self._aim(_stumps.AllEdges(lengths, self._sums.size))
        self._right = np.zeros(len(self._best.edge))
        self._gradient = data.gradient_buffer()
        self._h = aligned_zeros(data.n_rows, np.int8)

    def fit(self, weight):
        """Best stump for ``weight`` (m,) and the classes (left, right) that it says; None where nothing can be split.

        Its ``edge`` is the weight of the rows of which it says the right class.
        """
        start, lanes = self.data.class_start, self._gradient.shape[2]
        for c in range(self.data.n_classes):
            rows = slice(start[c], start[c + 1])
            self._gradient[c // lanes, rows, c % lanes] = weight[rows]
        total = np.array([part.sum() for part in np.split(weight, start[1:-1])])
        self._scan(self._gradient)
        _splits.right_weights(self._best.edge, total, self._right, self.n_threads)
        split = self._first_best(self._right)
        if split < 0:
            return None
        edge = self._best.edge[split, : len(total)]
        right_if = (total - edge)[:, None] + (total + edge)[None, :]
        np.fill_diagonal(right_if, -np.inf)
        classes = np.unravel_index((right_if * self.tie >= right_if.max()).argmax(), right_if.shape)
        return self._stump_of_split(split, float(self._right[split]), self._h), (int(classes[0]), int(classes[1]))


def refuse_edges(lengths, width):
    """Say so before any of it is taken where the edges of all splits (`AllEdges`) do not fit."""
    n, room = 2 * sum(lengths), available_memory()
    if room is not None and 8 * n * width > room:
        raise MemoryError(
            f"the edges of {n} splits in {width} columns need about {in_words(8 * n * width)}; {in_words(room)} are "
            "free. Use a smaller max_bins, fewer features, or a machine with more memory"
        )


class EdgeStumps(_StumpSearch):
    """Decision stumps of the columns: for each the largest |edge| over features and thresholds, all from one scan.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
    """

    def __init__(self, data, n_threads, n_columns=None):
        super().__init__(data, n_threads, n_columns)
        self._aim(_stumps.BestOfEach(len(self._feature), self._sums.size))
        self._at = np.zeros(self.n_columns, dtype=np.int64)
        self.outputs = aligned_zeros((self.n_columns, data.n_rows), np.int8)

    def fit(self, gradient):
        """Best stump of every column of ``gradient`` (n_blocks, m, lanes), in order; columns without any are left out.

        Their outputs, also the rows of ``outputs``, are overwritten by the next call.
        """
        self._scan(gradient)
        _stumps.pick_classes(self._best, self._feature, self.tie, self._at)
        columns = np.flatnonzero(self._at >= 0)
        at = self._at[columns]
        return self._stumps(at, self._best.edge[at, columns], self._best.code[at, columns], columns, self.outputs)


class TreeFit(NamedTuple):
    """A tree with leaves +-1, in the arrays that `TreesBuilder.add_tree` takes.

    ``sign`` holds the output of every leaf, ``h`` (m,) those on the training rows; ``gain`` the gains of the splits.
    """

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    sign: np.ndarray
    gain: np.ndarray
    cls: int
    edge: float
    h: np.ndarray

    def first_split(self):
        """Feature and threshold of the root, as Python numbers."""
        return int(self.feature[0]), float(self.threshold[0])

    def as_tree(self):
        """Arrays of its own: (feature, threshold, nan_left, right, sign)."""
        parts = (self.feature, self.threshold, self.nan_left, self.right, self.sign)
        return tuple(part.copy() for part in parts)  # the next tree is grown in the same arrays

    def add_to(self, builder, plus, minus=None):
        """Append it to a builder, with the values (K,) of the classes where h is +1 and -1 (``-plus`` if None)."""
        leaf = np.where(self.sign[:, None] > 0, plus, -plus if minus is None else minus)
        builder.add_tree(self.feature, self.threshold, self.nan_left, self.right, leaf)


def add_stumps(builder, found, leaf, cls):
    """Append stumps to a TreesBuilder as trees, with their values (n, 2) on the left and right and classes (n,)."""
    splits = zip(*((one.feature, one.threshold, one.nan_left) for one in found), strict=True)
    builder.add_trees(np.ones(len(found), dtype=np.int64), *splits, 1, np.ravel(leaf), cls)


class _EdgeTrees:
    """Binary classification trees, one for every class r against the rest, weighted by ``|a_ir|``.

    They are split by their edges, or with ``gini`` by the Gini impurity. This also serves where no single split of the
    root has an edge for any class, so that nothing would be learnt at all. On either side of every split, the rows with
    a gradient have the sample weight ``data.least_weight`` at least, or the part ``drawn`` of it.
    """

    def __init__(self, data, max_leaves, max_depth, n_threads, n_columns=None, gini=False, min_share=0.0, drawn=1.0):
        self.data = data
        self.n_columns = data.n_classes if n_columns is None else n_columns
        # One plane has no sums of the sample weights, which a bound is about.
        cell_words = 2 if data.dtype == np.float64 or data.least_weight > 0 else 1
        self._units = Units(data, cell_words, 0.0, data.least_weight * drawn)
        self._limits = max_leaves, max_depth or 0, n_threads, min_share
        self._grower, self._by_gini = self._new_grower(gini), None
        self._grown = Grown.empty(self.n_columns, max_leaves, data.n_rows)
        self._edges = np.zeros(self.n_columns)
        # Of what the gradients are whole multiples at first, as long as weights are not too far apart.
        self._unit = float(max(data.weight.min(), 1e-9 * data.weight.mean()))

    def _new_grower(self, gini):
        max_leaves, max_depth, n_threads, min_share = self._limits
        return _trees.Grower(
            self.data, max_leaves, max_depth, self._units.least, self._units.cell_words, not gini,
            self.data.pools(self._units.cell_words, max_leaves), n_threads, min_share,
        )  # fmt: skip

    def _grow(self, gradient):
        units = self._units
        rest = (
            gradient, self.n_columns, units.weight, units.limit_g, self._unit, units.per_count, self._edges,
            self._grown,
        )  # fmt: skip
        self._grower.grow_edges(*rest)
        if not self._grown.n_splits.any():
            if self._by_gini is None:
                self._by_gini = self._new_grower(True)
            self._by_gini.grow_edges(*rest)

    def _tree(self, c, h):
        """The tree of class c; its outputs go into ``h``."""
        column, threshold, nan_left, right, sign, gain = self._grown.tree(c, self.data)
        np.take(sign.astype(np.int8), self._grown.leaf[c], out=h)
        return TreeFit(column, threshold, nan_left, right, sign, gain, c, float(self._edges[c]), h)


class SharedTree(_EdgeTrees):
    """Binary classification trees shared by all classes: that of the class with the largest edge (eq. 10).

    Parameters
    ----------
    data : TreeData
    max_leaves : int
    max_depth : int or None
    n_threads : int
    """

    def __init__(self, data, max_leaves, max_depth, n_threads):
        super().__init__(data, max_leaves, max_depth, n_threads)
        self._h = aligned_zeros(data.n_rows, np.int8)

    def fit(self, gradient):
        """Best tree for ``gradient`` (n_blocks, m, lanes), or None where none has any edge."""
        self._grow(gradient)
        edges = np.where(self._grown.n_splits > 0, self._edges, 0.0)
        best = int(np.argmax(edges >= edges.max() / TIE[self.data.dtype]))
        return self._tree(best, self._h) if self._grown.n_splits[best] else None


class EdgeTrees(_EdgeTrees):
    """Binary classification trees of the columns: one for each.

    Parameters
    ----------
    data : TreeData
    max_leaves : int
    max_depth : int or None
    n_threads : int
    n_columns : int, optional
    gini : bool, default=False
        Split by the Gini impurity, which also goes on where no single split changes the number of errors; leaves beside
        each other with the same output are then merged.
    min_share : float, default=0.0
        Only nodes with more than this share of the weight are split.
    drawn : float, default=1.0
        Share of the rows that gradients have: so much of ``data.least_weight`` lies on either side of a split.
    """

    def __init__(self, data, max_leaves, max_depth, n_threads, n_columns=None, gini=False, min_share=0.0, drawn=1.0):
        super().__init__(data, max_leaves, max_depth, n_threads, n_columns, gini, min_share, drawn)
        self.outputs = aligned_zeros((self.n_columns, data.n_rows), np.int8)

    def fit(self, gradient):
        """Tree of every column of ``gradient`` (n_blocks, m, lanes), in order; columns without any are left out.

        Their outputs, also the rows of ``outputs``, are overwritten by the next call.
        """
        self._grow(gradient)
        return [self._tree(c, self.outputs[c]) for c in range(self.n_columns) if self._grown.n_splits[c]]


class Resampled:
    """Fits weak learners to rows drawn by their weights, see `draw`; edges are those on all rows.

    Parameters
    ----------
    learner : EdgeStumps, EdgeTrees or TotalStump
    share : float
        How many rows are drawn for a column, of all: on average, where one learner serves all columns.
    constants : bool, default=False
        A column whose drawn rows all have the same sign, so that no tree can be grown on them, gets that sign as a tree
        without splits. This brings back the rows of the other sign, which had too little weight to be drawn.
    """

    def __init__(self, learner, share, constants=False):
        self._learner, self._share, self._drawn, self._constants = learner, share, None, constants

    @property
    def outputs(self):
        """Those of the learner, on all rows."""
        return self._learner.outputs

    def fit(self, gradient, generator):
        """As the learner's ``fit``."""
        lanes, P = gradient.shape[2], self._learner.n_columns
        if self._drawn is None:
            self._drawn = aligned_zeros(gradient.shape, gradient.dtype)
        columns = [gradient[j // lanes, :, j % lanes] for j in range(P)]
        n = np.full(P, self._share * gradient.shape[1])
        if not hasattr(self._learner, "outputs"):
            mass = np.array([np.abs(column).sum(dtype=np.float64) for column in columns])
            n *= mass / mass.mean()
        for j, column in enumerate(columns):
            counts = draw(np.abs(column), max(1, round(n[j])), generator)
            self._drawn[j // lanes, :, j % lanes] = counts * np.sign(column)
        found = self._learner.fit(self._drawn)
        if not isinstance(found, list):
            return found
        if self._constants and len(found) < P:
            there = {one.cls for one in found}
            found = sorted([*found, *(self._constant(j) for j in range(P) if j not in there)], key=lambda one: one.cls)
        edges = [float(np.sum(columns[one.cls] * one.h, dtype=np.float64)) for one in found]
        return [one._replace(edge=edge) for one, edge in zip(found, edges, strict=True)]

    def _constant(self, column):
        lanes, none = self._drawn.shape[2], np.zeros(0)
        sign = 1 if self._drawn[column // lanes, :, column % lanes].sum() > 0 else -1
        h = self._learner.outputs[column]
        h[:] = sign
        splits = none.astype(np.int64), none.astype(np.float32), none.astype(bool), none.astype(np.int64)
        return TreeFit(*splits, np.array([float(sign)]), none, column, 0.0, h)


def draw(weight, n, generator):
    """How often each row comes among n that are drawn by their weights: (m,).

    Systematic sampling: n points at equal distances, from a random one on, on the weights laid end to end. A row comes
    n w / sum w times, rounded up or down; independent draws would have the same mean and more variance.
    """
    ends = np.cumsum(weight, dtype=np.float64)
    at = np.searchsorted(ends, (generator.random() + np.arange(n)) * (ends[-1] / n), side="right")
    last = np.searchsorted(ends, ends[-1])  # of the rows with any weight
    return np.bincount(np.minimum(at, last), minlength=len(weight))


def draw_distinct(weight, n, generator):
    """Which n rows are drawn one after the other by their weights, without replacement: (m,) 0 or 1.

    Fewer where fewer have a weight above 0. The n smallest of exponential numbers with the weights as rates (Efraimidis
    and Spirakis).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.where(weight > 0, generator.exponential(size=len(weight)) / weight, np.inf)
    drawn = np.zeros(len(weight))
    drawn[np.argpartition(key, min(n, len(key)) - 1)[:n]] = 1.0
    return drawn * (weight > 0)
