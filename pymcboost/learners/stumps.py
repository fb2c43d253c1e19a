"""Decision stumps: fit binary learners h(x) in {-1, +1} to the gradient of all classes in one scan of the data."""

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from pymcboost._kernels import splits as _splits
from pymcboost._kernels import stumps as _stumps


class StumpFit(NamedTuple):
    """The stump with the largest edge, over all classes or for one class.

    ``polarity`` is +1 when h = +1 means ``x > threshold``; ``h`` (m,) holds its outputs on the training rows; ``edge``
    is positive, in the scale of the gradient. A stump splits on no categories, so ``codes`` is empty.
    """

    feature: int
    threshold: np.float32
    nan_left: bool
    polarity: int
    cls: int
    edge: float
    h: np.ndarray
    gain: None = None
    codes: tuple = ()

    def first_split(self):
        """Feature and threshold, as Python numbers."""
        return self.feature, float(self.threshold)

    def as_tree(self):
        """Return new arrays (feature, threshold, nan_left, right, sign), like `TreeFit.as_tree`."""
        return (
            np.array([self.feature]),
            np.array([self.threshold], dtype=np.float32),
            np.array([self.nan_left]),
            np.array([1]),
            np.array([-1.0, 1.0]) * self.polarity,
        )

    def add_to(self, builder, plus, minus=None):
        """Add it to a builder, with the values (K,) of the classes where h is +1 and -1 (``-plus`` if None)."""
        if self.polarity > 0:
            right = plus
            left = minus
        elif minus is None:
            right = -plus
            left = None
        else:
            right = minus
            left = plus
        builder.add_stump(self.feature, self.threshold, self.nan_left, right=right, left=left)


class _StumpSearch:
    """Search for decision stumps by a scan of all features.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
        Columns of the gradient; one for every class if None.
    """

    # Whether `fit` returns one stump for all columns, instead of a list.
    shared = False

    def __init__(self, data, n_threads, n_columns=None):
        self.data = data
        self.n_threads = n_threads
        self.n_columns = data.n_classes if n_columns is None else n_columns
        self._scan_data = data.scan(data, self.n_columns, n_threads)
        self.tie = self._scan_data.tie
        self._sums = self._scan_data.sums
        # Slots are the features in all stores; each store has those from its first slot on. The list is for look-ups,
        # which take a fifth of the time of an array's.
        n_slots = [len(store.feature) for store in data.stores]
        self._first_slot = np.concatenate(([0], np.cumsum(n_slots))).astype(int)
        self._first_slots = self._first_slot.tolist()
        self._feature = np.concatenate(
            [store.feature for store in data.stores] or [np.empty(0, dtype=np.int32)]
        )
        self._sees_missing = np.concatenate(
            [store.sees_missing for store in data.stores] or [self._feature > 0]
        )
        self._heavier_left = {}

    def _set_result(self, best):
        """Make the scans write into ``best``."""
        self._best = best
        self._targets = [
            _stumps.Target(best, begin, end - begin)
            for begin, end in zip(self._first_slot[:-1], self._first_slot[1:], strict=True)
        ]

    def _lengths(self):
        """Number of thresholds of every slot."""
        return [len(thresholds) for store in self.data.stores for thresholds in store.thresholds]

    def _scan(self, gradient):
        """Scan ``gradient`` (n_blocks, m, lanes) and fill the results."""
        self._scan_data(gradient, self._targets)

    def _slot_of(self, split):
        """Slots of splits of `Totals` or `AllEdges`."""
        return np.searchsorted(self._best.start, split, side="right") - 1

    def _first_best(self, value):
        """Index of the split of `Totals` or `AllEdges` with the largest positive value; -1 if there is none.

        Ties go to the lower feature, then the lower threshold, then missing values right.
        """
        top = value.max(initial=0.0)
        if not top > 0:
            return -1
        ties = np.flatnonzero(value * self.tie >= top)
        return int(ties[np.lexsort((ties, self._feature[self._slot_of(ties)]))[0]])

    def _stump_of_split(self, split, edge, h):
        """Build the stump of a split of `Totals` or `AllEdges`, +1 on its right; write its outputs into ``h``."""
        slot = int(self._slot_of(split))
        code = int(split - self._best.start[slot])
        return self._stump(slot, edge, code >> 1, cls=-1, nan_left=bool(code & 1), h=h)

    def _store_of(self, slot):
        """The store that holds slot ``slot``, and the slot's index there."""
        s = bisect_right(self._first_slots, slot) - 1
        return self.data.stores[s], slot - self._first_slots[s]

    def _side_of_missing(self, slot, pos, nan_left, h):
        """Whether missing values go left at a threshold of slot ``slot``; ``h`` is negative on the left.

        If the column has no missing values in training, they go to the heavier side, or left if both are equal.
        """
        cached = self._heavier_left.get((slot, pos))
        if cached is not None:
            return cached
        if self._sees_missing[slot]:
            return nan_left
        weight = self.data.whole_weight
        is_left = h < 0
        if weight is None:
            left = np.count_nonzero(is_left)
            total = len(h)
        else:
            left = weight[is_left].sum()
            total = weight.sum()
        left, total = self.data.comm.sum(np.array([left, total], dtype=np.float64))
        goes_left = bool(2 * left >= total)
        self._heavier_left[slot, pos] = goes_left
        return goes_left

    def _stump(self, slot, edge, pos, cls, nan_left, h):
        """Build the stump of slot ``slot``, and write its outputs into ``h``."""
        store, slot_in_store = self._store_of(slot)
        store.side(slot_in_store, pos, nan_left, h)
        nan_left = self._side_of_missing(slot, pos, nan_left, h)
        if edge < 0:
            np.negative(h, out=h)
        return StumpFit(
            int(store.feature[slot_in_store]),
            store.thresholds[slot_in_store][pos],
            nan_left,
            polarity=1 if edge > 0 else -1,
            cls=cls,
            edge=abs(edge),
            h=h,
        )

    def _stumps(self, slots, edge, code, columns, h):
        """Build stumps of slots ``slots`` (n,) for these columns; write their outputs to these rows of ``h``.

        A code is twice the position of the threshold, plus 1 if missing values go left.
        """
        threshold = np.empty(len(slots), dtype=np.float32)
        store_number = np.searchsorted(self._first_slot, slots, side="right") - 1
        for s, store in enumerate(self.data.stores):
            in_store = np.flatnonzero(store_number == s)
            if not len(in_store):
                continue
            slots_in_store = slots[in_store] - self._first_slot[s]
            codes = code[in_store]
            places = zip(slots_in_store.tolist(), (codes >> 1).tolist(), strict=True)
            threshold[in_store] = [store.thresholds[slot][pos] for slot, pos in places]
            store.sides(slots_in_store, codes, columns[in_store], h, self.n_threads)
        splits = zip(slots.tolist(), code.tolist(), columns.tolist(), strict=True)
        nan_left = [
            self._side_of_missing(slot, c >> 1, bool(c & 1), h=h[row]) for slot, c, row in splits
        ]
        for row in columns[edge < 0]:
            np.negative(h[row], out=h[row])
        fields = zip(
            self._feature[slots].tolist(),
            threshold,
            nan_left,
            np.where(edge > 0, 1, -1).tolist(),
            columns.tolist(),
            np.abs(edge).tolist(),
            [h[row] for row in columns],
            strict=True,
        )
        return [StumpFit(*stump) for stump in fields]


class SharedStump(_StumpSearch):
    """Decision stumps shared by all classes (eq. 10): the largest |edge| over features, thresholds and classes.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    """

    shared = True

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self._set_result(_stumps.Best(len(self._feature)))
        self._h = data.zeros(data.n_rows, np.int8)

    def fit(self, gradient):
        """Find the best stump for ``gradient`` (n_blocks, m, lanes); None if no stump has a positive edge."""
        self._scan(gradient)
        slot = _stumps.pick(self._best, self._feature, self.tie)
        if slot < 0:
            return None
        edge, pos, cls, nan_left = self._best.records[slot].item()
        return self._stump(slot, edge, pos, cls=cls, nan_left=bool(nan_left), h=self._h)


class TotalStump(_StumpSearch):
    """Decision stumps shared by all classes, which use them with either sign.

    The stump with the largest sum over the classes of |edge|, or of its square.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
    squares : bool, default=False
    """

    shared = True

    def __init__(self, data, n_threads, n_columns=None, squares=False):
        super().__init__(data, n_threads, n_columns)
        self._set_result(_stumps.Totals(self._lengths(), squares))
        self._h = data.zeros(data.n_rows, np.int8)

    def fit(self, gradient):
        """Find the best stump for ``gradient`` (n_blocks, m, lanes); None if no stump has a positive edge.

        Its ``edge`` is the sum that was maximized; its ``cls`` is -1.
        """
        self._best.total[:] = 0  # totals add up over blocks of columns
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
        self._set_result(_stumps.AllEdges(lengths, self._sums.size))
        self._h = data.zeros(data.n_rows, np.int8)
        self._splits = None
        self.outputs = None

    def edges(self, gradient):
        """Sums right minus left of all candidates, the indices of actual splits among them, and the total sums.

        Returns
        -------
        edge : ndarray (n_all, width)
            Overwritten by the next call.
        splits : ndarray (n,)
            Rows of ``edge``, ordered by feature and then by threshold.
        total : ndarray (P,)
        """
        self._scan(gradient)
        if not self._scan_data.needs_sums:
            _stumps.totals(gradient, self._sums)
        edge = self._best.edge
        if self._splits is None:
            splits = np.zeros(0, dtype=np.int64)
            if len(edge):
                splits = np.flatnonzero(~np.isnan(edge[:, 0]))
            self._splits = splits[np.lexsort((splits, self._feature[self._slot_of(splits)]))]
        return edge, self._splits, self._sums.ravel()[: self.n_columns]

    def stump(self, split_index):
        """Return the stump of split ``split_index``, +1 on its right; its outputs are overwritten by the next call."""
        return self._stump_of_split(int(self._splits[split_index]), 1.0, self._h)

    def stumps(self, split_indices):
        """Return one stump for each column, of the splits ``split_indices`` (P,), +1 on the right.

        Their outputs, which are also the rows of ``outputs`` (P, m), are overwritten by the next call.
        """
        if self.outputs is None:
            self.outputs = self.data.zeros((len(split_indices), self.data.n_rows), np.int8)
        split = self._splits[split_indices]
        slot = self._slot_of(split)
        code = (split - self._best.start[slot]).astype(np.int32)
        return self._stumps(
            slot,
            np.ones(len(split_indices)),
            code,
            columns=np.arange(len(split_indices)),
            h=self.outputs,
        )


class ClassStump(_StumpSearch):
    """Decision stumps that predict one class on the left and another on the right, chosen for the fewest errors.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    """

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        lengths = self._lengths()
        self._set_result(_stumps.AllEdges(lengths, self._sums.size))
        self._right = np.zeros(len(self._best.edge))
        self._gradient = data.gradient_buffer()
        self._h = data.zeros(data.n_rows, np.int8)

    def fit(self, weight):
        """Find the best stump for ``weight`` (m,) and the classes (left, right) that it predicts; None without a split.

        Its ``edge`` is the weight of the rows that it predicts correctly.
        """
        class_weight = fill_by_class(self._gradient, self.data.class_start, weight)
        self._scan(self._gradient)
        _splits.right_weights(self._best.edge, class_weight, self._right, self.n_threads)
        split = self._first_best(self._right)
        if split < 0:
            return None
        # Twice the weight that is right if the left side predicts one class and the right side another.
        edge = self._best.edge[split, : len(class_weight)]
        right_if = (class_weight - edge)[:, None] + (class_weight + edge)[None, :]
        np.fill_diagonal(right_if, -np.inf)
        best = (right_if * self.tie >= right_if.max()).argmax()
        left, right = np.unravel_index(best, right_if.shape)
        stump = self._stump_of_split(split, float(self._right[split]), self._h)
        return stump, (int(left), int(right))


class EdgeStumps(_StumpSearch):
    """Decision stumps, one for each column: the largest |edge| over features and thresholds, from a single scan.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
    """

    def __init__(self, data, n_threads, n_columns=None):
        super().__init__(data, n_threads, n_columns)
        self._set_result(_stumps.BestOfEach(len(self._feature), self._sums.size))
        self._best_slots = np.zeros(self.n_columns, dtype=np.int64)
        self.outputs = data.zeros((self.n_columns, data.n_rows), np.int8)

    def fit(self, gradient):
        """Find the best stump for every column of ``gradient`` (n_blocks, m, lanes), in order.

        Columns without an edge are left out. The outputs, which are also the rows of ``outputs``, are overwritten by
        the next call.
        """
        self._scan(gradient)
        _stumps.pick_classes(self._best, self._feature, self.tie, self._best_slots)
        columns = np.flatnonzero(self._best_slots >= 0)
        slots = self._best_slots[columns]
        return self._stumps(
            slots,
            self._best.edge[slots, columns],
            self._best.code[slots, columns],
            columns=columns,
            h=self.outputs,
        )


def fill_by_class(gradient, class_start, weight):
    """Write the weights (m,) of the rows, which are sorted by class, into the columns of their classes.

    Return the sum of the weights of each class.
    """
    lanes = gradient.shape[2]
    class_weight = np.empty(len(class_start) - 1)
    for c in range(len(class_weight)):
        rows = slice(class_start[c], class_start[c + 1])
        gradient[c // lanes, rows, c % lanes] = weight[rows]
        class_weight[c] = weight[rows].sum()
    return class_weight


def add_stumps(builder, stumps, leaf, cls):
    """Add stumps to a TreesBuilder as trees, with their values (n, 2) on the left and right, and classes (n,)."""
    splits = zip(
        *((stump.feature, stump.threshold, stump.nan_left) for stump in stumps), strict=True
    )
    builder.add_trees(np.ones(len(stumps), dtype=np.int64), *splits, 1, np.ravel(leaf), cls)
