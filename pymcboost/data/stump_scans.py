"""Scans of all columns for stumps: of this worker's rows in floating point, or of all workers' rows in integers."""

import numpy as np

from pymcboost._kernels import stump_histograms as _histograms
from pymcboost._kernels import stumps as _stumps
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import magic_of, unit_of
from pymcboost.comm import shares
from pymcboost.data.rows import TIE, layout

# Up to this many rows over all workers, histograms are 32-bit integers: a row with the mean weight of its class's
# column then has 13 bits or more, and the total has 30. With more rows, they are integers in float64, and the total
# has 50 bits.
NARROW_ROWS = 1 << 17
NARROW_BITS = 30
WIDE_BITS = 50
# Number of parts of the rows that are summed separately.
PARTS = 64


class Scan:
    """Scan of this worker's rows.

    Parameters
    ----------
    data : TrainingData
    n_columns : int
        Columns of the gradient.
    n_threads : int

    Attributes
    ----------
    sums : ndarray (n_blocks, lanes)
        Sums of the gradient's columns, if a layout needs them.
    """

    def __init__(self, data, n_columns, n_threads):
        self.stores = data.stores
        self.tie = TIE[data.dtype]
        self.n_threads = n_threads
        lanes, n_blocks = layout(n_columns)
        self.scratch = _stumps.new_scratch(lanes, n_threads)
        self.sums = np.zeros((n_blocks, lanes))
        self.needs_sums = any(store.needs_sums for store in data.stores)

    def __call__(self, gradient, targets):
        """Fill the targets of the layouts with the results for ``gradient`` (n_blocks, m, lanes)."""
        if self.needs_sums:
            _stumps.totals(gradient, self.sums)
        for store, target in zip(self.stores, targets, strict=True):
            store.search(gradient, self.sums, self.tie, self.scratch, target, self.n_threads)


class SummedScan:
    """Scan of all workers' rows: integer histograms are filled, added up, and scanned by every worker.

    Large histograms are scattered: a worker gets the sums of a share of the slots and scans it, and all get what it
    finds, where that is less than half of the histograms.

    The gradient is rounded to a unit that follows from the largest of the sums of its columns' sizes, and from the
    number of rows. So neither the order of the rows nor their division changes a bit.

    Parameters
    ----------
    data : DividedData
    n_columns : int
    n_threads : int
    """

    def __init__(self, data, n_columns, n_threads):
        self.stores = data.stores
        self.tie = TIE[data.dtype]
        self.n_threads = n_threads
        self.comm = data.comm
        self.total_rows = data.total_rows
        self.lanes, n_blocks = layout(n_columns)
        if data.total_rows <= NARROW_ROWS:
            self.bits = NARROW_BITS
            kind = np.int32
        else:
            self.bits = WIDE_BITS
            kind = np.float64
        self.rounded = data.zeros((n_blocks, data.n_rows, self.lanes), kind)
        self.sums = aligned_zeros((n_blocks, self.lanes), kind)
        self.scratch = _stumps.new_scratch(self.lanes, n_threads)
        bins = np.array([n for store in self.stores for n in store.bins], dtype=np.int64)
        ends = np.concatenate(([0], np.cumsum(bins)))
        self.cells = np.zeros((ends[-1], n_columns), dtype=kind)
        self.first = np.cumsum([0, *(len(store.bins) for store in self.stores)])
        self.cell_rows = np.split(ends[:-1], self.first[1:-1]) if self.stores else []
        scattered = self.cells.nbytes >= self.comm.scattered
        self._slots = shares(bins, self.comm.size) if scattered else None
        self._rows = ends[self._slots] if scattered else None
        self._partial = np.zeros((PARTS, n_blocks, self.lanes), dtype=np.int64)

    def __call__(self, gradient, targets):
        """Fill the targets of the layouts with the results for ``gradient`` (n_blocks, m, lanes)."""
        unit = self._unit(gradient)
        _histograms.rounded(gradient, 1 / unit, self.rounded, self.n_threads)
        _histograms.totals(self.rounded, self.sums)
        for store, cell_rows in zip(self.stores, self.cell_rows, strict=True):
            store.fill(self.rounded, self.sums, cell_rows, self.scratch, self.cells, self.n_threads)
        if self._slots is not None and 2 * targets[0].result.bits.nbytes < self.cells.nbytes:
            self._scan_share(targets[0].result, unit)
            return
        self.comm.sum(self.cells, sure=True)
        for store, cell_rows, target in zip(self.stores, self.cell_rows, targets, strict=True):
            self._scan(store, slice(None), cell_rows, unit, target)

    def _scan(self, store, slots, cell_rows, unit, target):
        """Scan the summed histograms of some slots of a layout."""
        _stumps.scan_cells(
            self.cells,
            cell_rows,
            store.bins[slots],
            store.missing[slots],
            unit,
            self.lanes,
            self.tie,
            self.scratch,
            target,
            self.n_threads,
        )

    def _scan_share(self, result, unit):
        """Scan this worker's share of the slots; the bits of the others are 0, so that the sum is the result of all."""
        rank = self.comm.rank
        begin, end = self._slots[rank : rank + 2]
        self.comm.sum_scatter(self.cells, np.diff(self._rows), sure=True)
        result.bits[...] = 0
        for store, cell_rows, first in zip(
            self.stores, self.cell_rows, self.first[:-1].tolist(), strict=True
        ):
            share = slice(max(begin - first, 0), max(end - first, 0))
            rows_of_share = cell_rows[share] - self._rows[rank]
            if len(rows_of_share):
                target = _stumps.Target(result, first + share.start, len(rows_of_share))
                self._scan(store, share, rows_of_share, unit, target)
        self.comm.sum(result.bits, sure=True)

    def _unit(self, gradient):
        """Unit of the histograms, a power of two; no sum of a column's absolute values then exceeds `bits` bits."""
        n = self.total_rows
        ends = np.array([gradient.max(initial=0.0), -gradient.min(initial=0.0)], dtype=np.float64)
        top = float(self.comm.maximum(ends).max())
        if not top > 0:
            return 1.0
        unit = unit_of(top, n)
        self._partial[...] = 0
        _stumps.sizes(gradient, magic_of(unit), self._partial, self.n_threads)
        sizes = self.comm.sum(self._partial.sum(axis=0), sure=True)
        bound = (int(sizes.max()) + n / 2) * unit
        return float(np.ldexp(1.0, int(np.frexp(bound)[1]) - self.bits))
