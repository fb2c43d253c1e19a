"""Binning sparse columns whose rows are divided among workers: the bins are those of all rows together.

Every worker counts its distinct stored values. Blocks of columns go to all workers, one message for each block; all of
them add up the counts and cut alike.
"""

import numpy as np

from pymcboost.data.binning import Bins, filled, steps_of_merge
from pymcboost.data.divided import cuts_of, first_of_runs

# Distinct values of all workers in a message, but for columns that have more by themselves.
BLOCK_VALUES = 1 << 21
MOST_CODES = 256  # of one byte


def bin_sparse_divided(data, max_bins):
    """Columns of X that any worker has entries in, and their `Bins`, whose codes are dense ones of this worker's rows.

    A column has the bins that `binning.bin_sparse` gives it on all rows.
    """
    own, entries = filled(data)
    _refuse_infinite(data, own, entries)
    feature = np.unique(data.comm.concatenate(own.astype(np.int64)))
    place = np.searchsorted(feature, own)
    column = np.repeat(place, np.diff(entries.indptr))
    listed = _counts(column, entries.data)
    cuts, missing, mode = _all_cuts(data, listed, len(feature), max_bins)
    n_bins = np.array([len(its) + 1 for its in cuts], dtype=np.int32)
    wide = max([1, *(n_bins + (missing > 0)).tolist()]) > MOST_CODES
    codes = np.empty((len(feature), data.n_rows), dtype=np.uint16 if wide else np.uint8)
    codes[:] = mode[:, None]
    for j, f in enumerate(place.tolist()):
        part = slice(entries.indptr[j], entries.indptr[j + 1])
        value = entries.data[part]
        its = np.searchsorted(cuts[f], value)
        its[np.isnan(value)] = n_bins[f]
        codes[f, entries.indices[part]] = its
    none = np.zeros(len(feature), dtype=np.int64)
    return feature, Bins(codes, cuts, n_bins, none, missing, mode, none)


def _refuse_infinite(data, feature, entries):
    """Refuse columns of this worker's rows with infinite values."""
    at = np.flatnonzero(np.isinf(entries.data))
    if len(at):
        bad = np.full(len(feature), -1, dtype=np.int64)
        bad[np.searchsorted(entries.indptr, at[0], side="right") - 1] = entries.indices[at[0]]
        data.refuse_infinite(bad, feature)


def _counts(column, value, count=None):
    """Distinct values of every column, ascending, missing ones last: float64 (n, 3) of columns, values and counts."""
    order = np.lexsort((value, column))
    column, value = column[order], value[order]
    first = first_of_runs(value, column)
    if count is None:
        count = np.diff(first, append=len(value))
    elif len(first):
        count = np.add.reduceat(count[order], first)
    return np.column_stack((column[first], value[first], count)).astype(np.float64)


def _blocks(size):
    """Columns of one message after the other, from the numbers of values that they have on all workers."""
    begin, total = 0, 0
    for f, n in enumerate(size.tolist()):
        if total and total + n > BLOCK_VALUES:
            yield begin, f
            begin, total = f, 0
        total += n
    if begin < len(size):
        yield begin, len(size)


def _all_cuts(data, listed, d, max_bins):
    """Cuts, missing rows of all workers, and bins of the rows without an entry."""
    comm, total = data.comm, data.total_rows
    size = comm.sum(np.bincount(listed[:, 0].astype(np.int64), minlength=d).astype(np.int64))
    cuts, missing, mode = [], np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int32)
    for begin, end in _blocks(size):
        low, high = np.searchsorted(listed[:, 0], (begin, end))
        every = comm.concatenate(np.ascontiguousarray(listed[low:high]).ravel()).reshape(-1, 3)
        every = _counts(every[:, 0], every[:, 1], every[:, 2])
        at = np.searchsorted(every[:, 0], np.arange(begin, end + 1))
        for f in range(begin, end):
            its = every[at[f - begin] : at[f - begin + 1]]
            gone = np.isnan(its[:, 1])
            missing[f] = its[gone, 2].sum()
            most = max_bins if data.dtype == np.float32 else None
            its_cuts, mode[f] = _cuts(its[~gone, 1:], its[:, 2].sum() < total, most)
            cuts.append(its_cuts)
    return cuts, missing, mode


def _cuts(listed, is_zero_there, max_bins):
    """Cuts of a column with these values and counts (n, 2), and the bin of 0 where rows have no entry, else 0."""
    value, count, mode = listed[:, 0].astype(np.float32), listed[:, 1].astype(np.int64), 0
    if is_zero_there:
        mode = int(np.searchsorted(value, 0))
        value, count = np.insert(value, mode, 0), np.insert(count, mode, 0)
    if len(value) < 2:
        return np.zeros(0, dtype=np.float32), mode
    cuts = cuts_of(value, np.ones(len(value)), None, 0.0)
    if max_bins is not None and len(value) > max_bins:
        step = steps_of_merge(count, mode, max_bins)
        cuts, mode = cuts[step[1:] > 0], int(np.cumsum(step)[mode])
    return cuts, mode
