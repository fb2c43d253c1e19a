"""Binning of columns whose rows are divided among workers: the cuts are the same as for all rows together.

Every worker counts the distinct values of some columns. For each of these columns, one worker adds up the counts and
computes the cuts; then all workers assign their own rows to bins. Messages: each distinct value of each worker with
its count, and with its weight if weights differ; and the cuts in return.
"""

import itertools

import numpy as np

from pymcboost._kernels import bins as _bins
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.data.binning import MOST_CODES, Bins, cuts_between

# Number of values that a worker counts at once. Many columns with few rows then share messages.
BLOCK_VALUES = 1 << 21
# Limits of the columns that are read together, and of their values, unless a single column has more.
READ_COLUMNS = 16
READ_VALUES = 1 << 22


def bin_divided(data, max_bins, n_threads=1, small=False, categorical=()):
    """Compute `Bins` of the columns of ``data`` (`TrainingRows`), with the codes of this worker's rows.

    Columns have at most ``max_bins`` bins, as in `bin_dense`. If that merges values, ``categorical`` columns get a
    bin for every distinct value instead, and so do, in ``small`` data, columns with more distinct values than bins.
    Row counts in the result cover all workers.
    """
    comm = data.comm
    _refuse_infinite(data)
    low, high, counts = _ends_of_bins(data, max_bins, small=small, categorical=categorical)
    distinct, missing, n_bins = counts
    cuts = [cuts_between(*ends) for ends in zip(low, high, strict=True)]
    wide = max([1, *(n_bins + (missing > 0)).tolist()]) > MOST_CODES
    codes = aligned_zeros((data.n_features, data.n_rows), np.uint16 if wide else np.uint8)
    rows_of_bins = np.zeros((data.n_features, int((n_bins + 1).max(initial=1))), dtype=np.int64)
    # The kernel needs an array that is not empty, so a value that nobody reads stands at the end.
    flat_cuts = np.concatenate([*cuts, np.zeros(1, dtype=np.float32)])
    first_cut = np.concatenate(([0], np.cumsum(n_bins - 1))).astype(np.int64)
    _bins.code_columns(data.X, data.rows, flat_cuts, first_cut, codes, rows_of_bins, n_threads)
    comm.sum(rows_of_bins)
    return Bins(
        codes,
        cuts,
        low,
        high=high,
        n_bins=n_bins.astype(np.int32),
        distinct=distinct,
        missing=missing,
        mode=rows_of_bins.argmax(axis=1).astype(np.int32),
        mode_rows=rows_of_bins.max(axis=1),
    )


def _ends_of_bins(data, max_bins, small, categorical):
    """Least and largest value of every bin by column, and (3, d) numbers: distinct values, missing rows, bins.

    Each worker cuts some of the columns, and all get the results.
    """
    comm = data.comm
    d = data.n_features
    weight = None if has_equal_weights(data) else data.weight
    ends_of_columns = {}
    counts = np.zeros((3, d), dtype=np.int64)
    most_rows = int(comm.maximum(np.array([data.n_rows]))[0])
    step = max(comm.size, BLOCK_VALUES // max(1, most_rows))
    for begin in range(0, d, step):
        columns = range(begin, min(d, begin + step))
        for f, value, count, mass in _own_columns(data, columns, weight):
            is_missing = np.isnan(value)
            n_distinct = len(value) - is_missing.sum()
            exact = small and n_distinct > max_bins - is_missing.any()
            cuts = cuts_of(value, mass, None if exact else max_bins, least=data.least_weight)
            if f in categorical and len(cuts) + 1 < n_distinct:
                cuts = cuts_of(value, mass, None, least=0.0)
            ends_of_columns[f] = _ends(value[:n_distinct], cuts)
            counts[:, f] = n_distinct, count[is_missing].sum(), len(cuts) + 1
    comm.sum(counts)
    start = np.concatenate(([0], np.cumsum(counts[2])))
    flat_ends = np.zeros((2, start[-1]))
    for f, ends in ends_of_columns.items():
        flat_ends[:, start[f] : start[f + 1]] = ends
    comm.sum(flat_ends)
    flat_low, flat_high = flat_ends.astype(np.float32)
    return np.split(flat_low, start[1:-1]), np.split(flat_high, start[1:-1]), counts


def has_equal_weights(data):
    """Whether all rows of all workers have the weight 1."""
    return not data.comm.maximum(np.array([int((data.weight != 1).any())]))[0]


def _ends(value, cuts):
    """Smallest and largest of these ascending values in every bin; zeros if there are no values."""
    if not len(value):
        return np.zeros((2, 1))
    first = np.searchsorted(value, cuts, side="right")
    return value[np.append(0, first)], value[np.append(first - 1, len(value) - 1)]


def _columns(data, columns):
    """Yield columns of the training rows as float32.

    Several are read together, because they are adjacent in row-major X.
    """
    step = max(1, min(READ_COLUMNS, READ_VALUES // max(1, data.n_rows)))
    for begin in columns[::step]:
        part = np.empty((min(step, columns.stop - begin), data.n_rows), dtype=np.float32)
        _bins.read_columns(data.X, data.rows, begin, part)
        yield from part


def _refuse_infinite(data):
    """Refuse columns with infinite values in this worker's rows."""
    X = data.X
    step = 1 << 16
    pieces = (X[i : i + step] for i in range(0, len(X), step))
    if X.dtype == np.float32 and not any(np.isinf(piece).any() for piece in pieces):
        return
    bad = np.full(data.n_features, -1, dtype=np.int64)
    for f, column in enumerate(_columns(data, range(data.n_features))):
        infinite = np.isinf(column)
        bad[f] = infinite.argmax() if infinite.any() else -1
    data.refuse_infinite(bad)


def _counts(column, weight):
    """Distinct values of a column, ascending, missing ones last: arrays (n,) of values, counts and any weights."""
    column = column + np.float32(0)  # -0 is 0
    if weight is None:
        column.sort()
        first = first_of_runs(column)
        return column[first], np.diff(first, append=len(column))
    order = np.argsort(column, kind="stable")
    return _merged(column[order], np.ones(len(column), dtype=np.int64), weight[order])


def first_of_runs(value, column=None):
    """Start of each run of equal values in a column; missing values are equal, and come last."""
    is_first = np.ones(len(value), dtype=bool)
    is_first[1:] = (value[1:] != value[:-1]) & ~np.isnan(value[:-1])
    if column is not None:
        is_first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_first)


def _merged(value, *arrays):
    """Merge equal values that are adjacent, and add up what belongs to them in the other arrays."""
    first = first_of_runs(value)
    if not len(first):
        return value, *arrays
    return value[first], *[np.add.reduceat(array, first) for array in arrays]


def _own_columns(data, columns, weight):
    """Yield the columns that this worker cuts, with the values, counts and weights of all workers.

    Every worker cuts a share of the columns. The arrays of all columns of a share are sent to its worker together.
    """
    comm = data.comm
    counts_of_columns = [_counts(column, weight) for column in _columns(data, columns)]
    n_distinct = np.zeros((comm.size, len(columns)), dtype=np.int64)
    n_distinct[comm.rank] = [len(value) for value, *_ in counts_of_columns]
    comm.sum(n_distinct)
    bounds = np.arange(comm.size + 1) * len(columns) // comm.size
    for owner, (low, high) in enumerate(itertools.pairwise(bounds.tolist())):
        if low == high:
            continue
        n_of_share = n_distinct[:, low:high]
        arrays = [
            comm.gather(np.concatenate(of_columns), n_of_share.sum(axis=1), owner)
            for of_columns in zip(*counts_of_columns[low:high], strict=True)
        ]
        if owner != comm.rank:
            continue
        # By worker, then by column.
        pieces = [np.split(array, n_of_share.ravel().cumsum()[:-1]) for array in arrays]
        for j, f in enumerate(columns[low:high]):
            value, *sums = [np.concatenate(by_column[j :: high - low]) for by_column in pieces]
            order = np.argsort(value, kind="stable")
            value, count, *mass = _merged(value[order], *[array[order] for array in sums])
            yield f, value, count, mass[0] if mass else count.astype(np.float64)


def cuts_of(value, mass, max_bins, least):
    """Cuts of a column with these distinct values, of which the last may be missing.

    ``max_bins`` None means all cuts.
    """
    n = len(value)
    column = value[:, None]
    rows = np.arange(n)
    if max_bins is None:
        order = np.empty((1, n), dtype=np.int32)
        cuts = np.empty((1, n), dtype=np.float32)
        n_cuts, n_missing = np.empty((2, 1), dtype=np.int64)
        _bins.sort_columns(
            column, rows, np.zeros(1, dtype=np.int64), mass, 0.0, order, cuts, n_cuts, n_missing, 1
        )
        return cuts[0, : n_cuts[0]]
    codes = np.empty((1, n), dtype=np.uint8)
    low, high = np.empty((2, 1, MOST_CODES), dtype=np.float32)
    n_bins, mode = np.empty((2, 1), dtype=np.int32)
    distinct, missing, mode_rows, bad = np.empty((4, 1), dtype=np.int64)
    _bins.bin_columns(
        column,
        rows,
        mass,
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
        1,
    )
    return cuts_between(low[0, : n_bins[0]], high[0, : n_bins[0]])
