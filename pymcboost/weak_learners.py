"""Weak learners: fit one binary learner h(x) in {-1, +1} to the gradient of all classes in one scan of the data."""

from dataclasses import dataclass

import numpy as np

from pymcboost._kernels import stumps as _stumps
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.data import Lists, Tiles

# Edges that differ by less than this, relatively, are ties, so that rounding does not decide between equal splits.
TIE = {np.dtype(np.float32): 1 + 2e-6, np.dtype(np.float64): 1 + 1e-10}


@dataclass(frozen=True)
class StumpFit:
    """The stump with the largest edge.

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


class SharedStump:
    """Decision stumps shared by all classes (eq. 10): the largest |edge| over features, thresholds and classes.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    """

    def __init__(self, data, n_threads):
        self.data = data
        self.n_threads = n_threads
        self._tie = TIE[data.dtype]
        self._scratch = _stumps.new_scratch(data.lanes, n_threads)
        self._sums = np.zeros((data.n_blocks, data.lanes))
        self._needs_sums = any(not isinstance(store, Tiles) for store in data.stores)
        lengths = [len(store.feature) for store in data.stores]
        self._first = np.concatenate(([0], np.cumsum(lengths))).astype(int)
        self._best = _stumps.new_best(int(self._first[-1]))
        self._feature = np.concatenate([store.feature for store in data.stores] or [np.empty(0, dtype=np.int32)])
        self._h = aligned_zeros(data.n_rows, np.int8)

    def fit(self, gradient):
        """Best stump for ``gradient`` (n_blocks, m, lanes), or None where no stump has any edge."""
        if self._needs_sums:
            _stumps.totals(gradient, self._sums)
        for s, store in enumerate(self.data.stores):
            best = self._best[self._first[s] : self._first[s + 1]]
            if isinstance(store, Tiles):
                _stumps.search_tiles(
                    gradient, store.codes, store.byte_cells, store.byte_ptr, store.stride, store.bins, store.missing,
                    self._tie, self._scratch, best, self.n_threads,
                )  # fmt: skip
            elif isinstance(store, Lists):
                _stumps.search_lists(
                    gradient, self._sums, store.ptr, store.rows, store.codes, store.mode, store.bins, store.missing,
                    self._tie, self._scratch, best, self.n_threads,
                )  # fmt: skip
            else:
                _stumps.search_sorted(
                    gradient, self._sums, store.ptr, store.order, store.n_missing, store.default_at,
                    store.split_missing, self._tie, best, self.n_threads,
                )  # fmt: skip
        at = _stumps.pick(self._best, self._feature, self._tie)
        if at < 0:
            return None
        s = int(np.searchsorted(self._first, at, side="right")) - 1
        slot = at - self._first[s]
        store = self.data.stores[s]
        edge, pos, cls, nan_left = self._best[at].item()
        self._sides(store, slot, pos, bool(nan_left))
        if edge < 0:
            np.negative(self._h, out=self._h)
        return StumpFit(
            int(store.feature[slot]),
            store.thresholds[slot][pos],
            bool(nan_left),
            1 if edge > 0 else -1,
            cls,
            abs(edge),
            self._h,
        )

    def _sides(self, store, slot, pos, nan_left):
        if isinstance(store, Tiles):
            byte = int(np.searchsorted(store.byte_ptr, slot, side="right")) - 1
            _stumps.side_tile(
                store.codes[byte // 4],
                byte % 4,
                store.stride[slot],
                store.bins[slot],
                pos,
                nan_left,
                store.missing[slot],
                self._h,
            )
        elif isinstance(store, Lists):
            part = slice(store.ptr[slot], store.ptr[slot + 1])
            _stumps.side_list(
                store.rows[part],
                store.codes[part],
                store.mode[slot],
                store.bins[slot],
                pos,
                nan_left,
                store.missing[slot],
                self._h,
            )
        else:
            part = slice(store.ptr[slot], store.ptr[slot + 1])
            _stumps.side_sorted(
                store.order[part], store.n_missing[slot], store.default_at[slot], pos, nan_left, self._h
            )
