"""Assignment of values to bins: cut points and codes of columns, for all layouts."""

from dataclasses import dataclass, field, replace

import numpy as np

from pymcboost._kernels import bins as _bins
from pymcboost._kernels.aligned import aligned_zeros

MOST_CODES = 256  # codes of one byte


@dataclass(frozen=True)
class Bins:
    """Dense columns as bins.

    Attributes
    ----------
    codes : ndarray of uint8 or uint16 (d, m)
        Bin of every row; missing values have the bin after the last value's.
    cuts : list of ndarray of float32
        Ascending cuts between the bins of each column.
    low, high : list of ndarray of float32, or None
        Least and largest value of each bin, by column. None of sparse columns.
    n_bins : ndarray of int32 (d,)
        Bins of values.
    distinct, missing : ndarray of int64 (d,)
        Distinct values, and rows with missing ones.
    mode, mode_rows : ndarray (d,)
        Most frequent bin and its rows.
    levels : dict of int to ndarray of int64
        For categorical columns, the codes of the bins.
    """

    codes: np.ndarray
    cuts: list
    low: list | None
    high: list | None
    n_bins: np.ndarray
    distinct: np.ndarray
    missing: np.ndarray
    mode: np.ndarray
    mode_rows: np.ndarray
    levels: dict = field(default_factory=dict)

    def lossy(self, max_bins):
        """Columns with more distinct values than bins."""
        return self.distinct > max_bins - (self.missing > 0)

    def with_levels(self, levels):
        """Return these bins with the levels of categorical columns."""
        return replace(self, levels=levels)

    def taken(self, rows, comm, n_threads):
        """Return the bins of these rows, without bins that are empty on all workers of ``comm``.

        A cut between two bins is the midpoint of their nearest values. If each bin holds one distinct value, the cuts
        are the same as if the bins were made from these rows.
        """
        codes = aligned_zeros((len(self.codes), len(rows)), self.codes.dtype)
        counts = np.zeros((len(codes), int(self.n_bins.max(initial=0)) + 1), dtype=np.int64)
        _bins.take_columns(self.codes, rows, codes, counts, n_threads)
        comm.sum(counts)
        columns = np.arange(len(codes))
        missing = counts[columns, self.n_bins]
        mode = counts.argmax(axis=1)
        mode_rows = counts.max(axis=1)
        cuts = [*self.cuts]
        low = [*self.low]
        high = [*self.high]
        n_bins = self.n_bins.copy()
        levels = {**self.levels}
        is_bin = np.arange(counts.shape[1]) < self.n_bins[:, None]
        for f in np.flatnonzero((is_bin & (counts == 0)).any(axis=1)).tolist():
            n = self.n_bins[f]
            occupied = np.flatnonzero(counts[f, :n])
            new_bin = np.zeros(n + 1, dtype=codes.dtype)
            new_bin[occupied] = np.arange(len(occupied))
            new_bin[n] = len(occupied)
            codes[f] = new_bin[codes[f]]
            mode[f] = new_bin[mode[f]]
            n_bins[f] = len(occupied)
            low[f] = low[f][occupied]
            high[f] = high[f][occupied]
            cuts[f] = cuts_between(low[f], high[f])
            if f in levels:
                levels[f] = levels[f][occupied]
        if codes.itemsize > 1 and (n_bins + (missing > 0)).max(initial=0) <= MOST_CODES:
            codes = codes.astype(np.uint8)
        return Bins(
            codes,
            cuts,
            low,
            high=high,
            n_bins=n_bins,
            distinct=self.distinct,
            missing=missing,
            mode=mode.astype(np.int32),
            mode_rows=mode_rows,
            levels=levels,
        )

    def bounded(self, weight, least, comm):
        """Merge outer bins until the values on each side of every cut have a weight of at least ``least``."""
        codes = self.codes.copy()
        cuts = [*self.cuts]
        low = [*self.low]
        high = [*self.high]
        n_bins = self.n_bins.copy()
        shape = len(codes), int(n_bins.max(initial=0)) + 1
        mass = np.zeros(shape)
        for f, column in enumerate(codes):
            mass[f] = np.bincount(column, weight, shape[1])
        comm.sum(mass)
        for f in np.flatnonzero(n_bins > 1).tolist():
            n = n_bins[f]
            left = np.cumsum(mass[f, :n])
            kept = np.flatnonzero((left[:-1] >= least) & (left[-1] - left[:-1] >= least))
            if len(kept) < n - 1:
                new_bin = np.searchsorted(kept, np.arange(n))
                new_bin = np.append(new_bin, len(kept) + 1).astype(codes.dtype)
                codes[f] = new_bin[codes[f]]
                cuts[f] = cuts[f][kept]
                n_bins[f] = len(kept) + 1
                low[f] = low[f][np.append(0, kept + 1)]
                high[f] = high[f][np.append(kept, n - 1)]
        counts = np.zeros(shape, dtype=np.int64)
        for f, column in enumerate(codes):
            counts[f] = np.bincount(column, minlength=shape[1])
        comm.sum(counts)
        mode = counts.argmax(axis=1).astype(np.int32)
        mode_rows = counts.max(axis=1)
        return replace(
            self,
            codes=codes,
            cuts=cuts,
            low=low,
            high=high,
            n_bins=n_bins,
            mode=mode,
            mode_rows=mode_rows,
        )


def cuts_between(low, high):
    """Cuts between bins, given their smallest and largest values."""
    return _bins.between(high[:-1], low[1:])


@dataclass(frozen=True)
class Cuts:
    """Cuts of many columns, found by lookup instead of a list: of millions of columns, most may have none."""

    flat: np.ndarray
    start: np.ndarray
    count: np.ndarray

    def __len__(self):
        return len(self.count)

    def __getitem__(self, f):
        return self.flat[self.start[f] : self.start[f] + self.count[f]]


@dataclass(frozen=True)
class SortedColumns:
    """Columns sorted by value, one after the other; see `_kernels.bins.sort_columns`.

    ``ptr`` (d + 1,) holds the positions of the columns. ``default_at`` is -1 if a column lists every row, otherwise the
    number of entries below the value of the unlisted rows. ``rows`` and ``values`` are the entries of sparse columns in
    their own order, None for dense columns.
    """

    ptr: np.ndarray
    order: np.ndarray
    cuts: Cuts | list
    n_missing: np.ndarray
    default_at: np.ndarray
    rows: np.ndarray | None = None
    values: np.ndarray | None = None

    def of(self, columns):
        """Return only these columns, in ascending order."""
        lengths = np.diff(self.ptr)
        used = np.zeros(len(lengths), dtype=bool)
        used[columns] = True
        order = self.order if used.all() else self.order[np.repeat(used, lengths)]
        ptr = np.concatenate(([0], np.cumsum(lengths[columns]))).astype(np.int64)
        cuts = [self.cuts[f] for f in columns]
        return SortedColumns(
            ptr, order, cuts, n_missing=self.n_missing[columns], default_at=self.default_at[columns]
        )

    def missing_rows(self, f):
        """Training rows in which the sparse column f is missing."""
        part = slice(self.ptr[f], self.ptr[f + 1])
        return self.rows[part][np.isnan(self.values[part])]


@dataclass(frozen=True)
class SparseBins:
    """Sparse columns as bins: only entries outside the mode of each column are stored.

    ``feature`` lists the columns of X that have entries. ``column`` (an index into it), ``row`` and ``bin`` describe
    the entries, column by column; ``cuts``, ``n_bins``, ``n_missing`` and ``mode`` have one element per column.
    """

    feature: np.ndarray
    column: np.ndarray
    row: np.ndarray
    bin: np.ndarray
    cuts: list
    n_bins: np.ndarray
    n_missing: np.ndarray
    mode: np.ndarray


def bin_dense(data, max_bins, n_threads):
    """Bin the columns of ``data`` (`TrainingRows`) into at most ``max_bins`` bins each, including missing values."""
    X = data.X
    m = data.n_rows
    d = data.n_features
    codes = aligned_zeros((d, m), np.uint8)
    low, high = np.empty((2, d, MOST_CODES), dtype=np.float32)
    n_bins, mode = np.empty((2, d), dtype=np.int32)
    distinct, missing, mode_rows, bad = np.empty((4, d), dtype=np.int64)
    weight = data.weight
    least = data.least_weight
    if (weight == weight[0]).all():  # the kernel counts rows
        least /= weight[0]
        weight = weight[:0]
    _bins.bin_columns(
        X,
        data.rows,
        weight,
        max_bins,
        least,
        codes,
        low,
        high,
        n_bins,
        distinct,
        missing,
        mode,
        mode_rows,
        bad,
        n_threads,
    )
    data.refuse_infinite(bad)
    low = [low[f, : n_bins[f]] for f in range(d)]
    high = [high[f, : n_bins[f]] for f in range(d)]
    cuts = [cuts_between(*ends) for ends in zip(low, high, strict=True)]
    return Bins(
        codes,
        cuts,
        low,
        high=high,
        n_bins=n_bins,
        distinct=distinct,
        missing=missing,
        mode=mode,
        mode_rows=mode_rows,
    )


def bin_exactly(data, bins, columns, n_threads):
    """Give each distinct value of these columns its own bin; codes then take two bytes."""
    codes = aligned_zeros(bins.codes.shape, np.uint16)
    codes[:] = bins.codes
    cuts = list(bins.cuts)
    n_bins = bins.n_bins.copy()
    low = list(bins.low)
    high = list(bins.high)
    for f in columns:
        presorted = sort_dense(data, np.array([f]), 0.0, n_threads)
        is_end = presorted.order < 0  # the last row of a value is stored as ~row
        rows = np.where(is_end, ~presorted.order, presorted.order)
        codes[f, rows] = np.cumsum(is_end) - is_end
        cuts[f] = presorted.cuts[0]
        n_bins[f] = len(cuts[f]) + 1
        value = np.unique(np.asarray(data.X[data.rows, f], dtype=np.float32))
        low[f] = value[~np.isnan(value)]
        high[f] = low[f]
    return replace(bins, codes=codes, cuts=cuts, low=low, high=high, n_bins=n_bins)


def sort_dense(data, columns, least, n_threads):
    """Sort these columns; the values on each side of a cut have a weight of at least ``least``."""
    m = data.n_rows
    c = len(columns)
    order = np.empty((c, m), dtype=np.int32)
    cuts = np.empty((c, m), dtype=np.float32)
    n_cuts, n_missing = np.empty((2, c), dtype=np.int64)
    _bins.sort_columns(
        data.X,
        data.rows,
        columns.astype(np.int64),
        data.weight,
        least,
        order,
        cuts,
        n_cuts,
        n_missing,
        n_threads,
    )
    ptr = np.arange(c + 1, dtype=np.int64) * m
    cuts = [cuts[s, : n_cuts[s]].copy() for s in range(c)]
    return SortedColumns(
        ptr, order.ravel(), cuts, n_missing=n_missing, default_at=np.full(c, -1, dtype=np.int64)
    )


def sort_sparse(data, least, n_threads):
    """Sort the sparse columns that have entries, like `sort_dense`; return their numbers and the sorted columns."""
    feature, columns = filled(data)
    d = len(feature)
    nnz = columns.nnz
    order = np.empty(nnz, dtype=np.int32)
    cuts = np.empty(nnz + d, dtype=np.float32)
    n_cuts, n_missing, default_at, bad = np.empty((4, d), dtype=np.int64)
    ptr = columns.indptr.astype(np.int64)
    _bins.sort_sparse_columns(
        ptr,
        columns.indices.astype(np.int32, copy=False),
        columns.data,
        data.weight,
        least,
        order,
        cuts,
        n_cuts,
        n_missing,
        default_at,
        bad,
        n_threads,
    )
    data.refuse_infinite(bad, feature)
    cuts = Cuts(cuts, ptr[:-1] + np.arange(d), n_cuts)
    return feature, SortedColumns(
        ptr,
        order,
        cuts,
        n_missing=n_missing,
        default_at=default_at,
        rows=columns.indices,
        values=columns.data,
    )


def narrowed(X):
    """Drop columns without entries from a CSR matrix if it has fewer entries than columns; return both."""
    if X.nnz >= X.shape[1]:
        return np.arange(X.shape[1]), X
    feature = np.unique(X.indices)
    place = np.searchsorted(feature, X.indices).astype(X.indices.dtype, copy=False)
    return feature, type(X)((X.data, place, X.indptr), shape=(X.shape[0], len(feature)))


def filled(data):
    """Columns of sparse training rows with nonzero entries, and their CSC matrix without explicit zeros."""
    with np.errstate(over="ignore"):  # overflowing entries are refused later, with their columns
        X = data.X.tocsr()[data.rows].astype(np.float32, copy=False)
    feature, X = narrowed(X)
    columns = X.tocsc()
    columns.sum_duplicates()
    columns.eliminate_zeros()
    count = np.diff(columns.indptr)
    if count.all():
        return feature, columns
    indptr = np.append(columns.indptr[:-1][count > 0], columns.nnz)
    shape = X.shape[0], len(indptr) - 1
    return feature[count > 0], type(columns)((columns.data, columns.indices, indptr), shape=shape)


def bin_sparse(data, max_bins, n_threads):
    """Bin the columns of sparse data; in small data, every distinct value gets a bin."""
    feature, presorted = sort_sparse(data, 0.0, n_threads)
    ptr = presorted.ptr
    order = presorted.order
    default_at = presorted.default_at
    cuts = [*presorted.cuts]
    d = len(feature)
    is_end = order < 0  # the last row of a value is stored as ~row
    column = np.repeat(np.arange(d), np.diff(ptr))
    place = np.arange(len(order)) - ptr[column]
    n_ended = np.concatenate(([0], np.cumsum(is_end)))  # values that end before each entry
    bins = n_ended[:-1] - n_ended[ptr[column]]
    bins += (default_at[column] >= 0) & (place >= default_at[column])
    missing_entry = place >= (np.diff(ptr) - presorted.n_missing)[column]
    n_bins = presorted.cuts.count + 1
    # The mode is the bin of the unlisted rows, if there are any.
    first_above = ptr[:-1] + np.maximum(default_at, 0)
    mode = np.where(default_at >= 0, n_ended[first_above] - n_ended[ptr[:-1]], 0)
    lossy = n_bins > max_bins if data.dtype == np.float32 else np.zeros(d, dtype=bool)
    for f in np.flatnonzero(lossy):
        part = slice(ptr[f], ptr[f + 1])
        values = ~missing_entry[part]
        bins[part], cuts[f], mode[f] = _merge_bins(
            bins[part], values, cuts[f], mode=mode[f], max_bins=max_bins
        )
        n_bins[f] = len(cuts[f]) + 1
    bins[missing_entry] = n_bins[column[missing_entry]]
    row = np.where(is_end, ~order, order)
    outside = bins != mode[column]
    return SparseBins(
        feature,
        column[outside],
        row[outside],
        bin=bins[outside],
        cuts=cuts,
        n_bins=n_bins,
        n_missing=presorted.n_missing,
        mode=mode,
    )


def _merge_bins(bins, values, cuts, mode, max_bins):
    """Merge the bins of a sparse column to at most ``max_bins``, with about equal numbers of entries.

    The mode keeps a bin of its own.
    """
    n = len(cuts) + 1
    step = steps_of_merge(np.bincount(bins[values], minlength=n), mode, max_bins)
    new = np.cumsum(step)
    result = bins.copy()
    result[values] = new[bins[values]]
    return result, cuts[step[1:] > 0], int(new[mode])


def steps_of_merge(count, mode, max_bins):
    """Mark with 1 where `_merge_bins` starts a new bin, given the numbers of entries by bin. Changes ``count``."""
    n = len(count)
    count[mode] = 0
    share = np.minimum(
        (np.cumsum(count) - count) * (max_bins - 3) // max(count.sum(), 1), max_bins - 4
    )
    step = np.zeros(n, dtype=np.int64)
    step[1:] = share[1:] != share[:-1]
    step[mode] = mode > 0
    if mode + 1 < n:
        step[mode + 1] = 1
    return step
