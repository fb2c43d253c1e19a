"""Binning of sparse columns whose rows are divided among workers: the bins are the same as for all rows together.

Every worker counts its distinct stored values. Blocks of columns are sent to all workers, one message for each block.
All workers add up the counts and compute the same cuts.
"""

from dataclasses import dataclass

import numpy as np

from pymcboost.data.binning import MOST_CODES, Bins, filled, steps_of_merge
from pymcboost.data.divided import cuts_of, first_of_runs, has_equal_weights

# Number of distinct values of all workers in a message, unless a single column has more.
BLOCK_VALUES = 1 << 21


def bin_sparse_divided(data, max_bins):
    """Columns of X with entries on any worker, and their `Bins` with dense codes of this worker's rows.

    A column has the same bins as in `binning.bin_sparse` for all rows.
    """
    feature, place, entries = _columns(data)
    ones = np.ones((entries.nnz, 1))
    listed = _counts(np.repeat(place, np.diff(entries.indptr)), entries.data, ones)
    cuts, missing, mode = _all_cuts(data, listed, len(feature), max_bins)
    n_bins = np.array([len(column_cuts) + 1 for column_cuts in cuts], dtype=np.int32)
    wide = max([1, *(n_bins + (missing > 0)).tolist()]) > MOST_CODES
    codes = np.empty((len(feature), data.n_rows), dtype=np.uint16 if wide else np.uint8)
    codes[:] = mode[:, None]
    for f, rows, column_bins in _bins_of_entries(place, entries, cuts):
        codes[f, rows] = column_bins
    none = np.zeros(len(feature), dtype=np.int64)
    return feature, Bins(
        codes,
        cuts,
        None,
        high=None,
        n_bins=n_bins,
        distinct=none,
        missing=missing,
        mode=mode,
        mode_rows=none,
    )


@dataclass(frozen=True)
class ListedBins:
    """Sparse columns as bins of the rows that are stored in them.

    Attributes
    ----------
    feature : ndarray of int64 (c,)
        Columns of X that any worker has entries in. What follows is by place among them.
    cuts : list of ndarray of float32
    missing : ndarray of int64 (c,)
        Rows of all workers with missing values.
    missing_weight : ndarray of float64 (c,)
        Their weight.
    usual : ndarray of int32 (c,)
        The bin of 0 if some rows have no entry, else the most frequent bin.
    usual_rows : ndarray of int64 (c,)
        Rows of all workers without an entry, or in that bin.
    entries : list of (place, rows, bins)
        Entries of this worker's rows, for every column that it has any in; missing ones come after the last bin.
    """

    feature: np.ndarray
    cuts: list
    missing: np.ndarray
    missing_weight: np.ndarray
    usual: np.ndarray
    usual_rows: np.ndarray
    entries: list


def list_bins(data, max_bins):
    """`ListedBins` of sparse ``data`` (`TrainingRows`), with the same cuts as for the same rows in dense form."""
    feature, place, entries = _columns(data)
    d = len(feature)
    uniform = has_equal_weights(data)
    sums = np.ones((entries.nnz, 1 if uniform else 2))
    if not uniform:
        sums[:, 1] = data.weight[entries.indices]
    listed = _counts(np.repeat(place, np.diff(entries.indptr)), entries.data, sums)
    cuts = []
    missing, usual, usual_rows = np.zeros((3, d), dtype=np.int64)
    weight = np.zeros(d)
    for f, listed_values in enumerate(_of_all(data, listed, d)):
        value = listed_values[:, 1].astype(np.float32)
        count = listed_values[:, 2]
        mass = listed_values[:, -1].copy()
        n_unlisted = data.total_rows - count.sum()
        if n_unlisted:
            place_of_zero = np.searchsorted(value, 0)
            value = np.insert(value, place_of_zero, 0)
            count = np.insert(count, place_of_zero, n_unlisted)
            if uniform:
                mass = count
            else:
                mass = np.insert(mass, place_of_zero, data.total_weight - mass.sum())
        cuts.append(cuts_of(value, mass, max_bins, least=data.least_weight))
        is_missing = np.isnan(value)
        missing[f] = count[is_missing].sum()
        weight[f] = mass[is_missing].sum()
        code = np.where(is_missing, len(cuts[f]) + 1, np.searchsorted(cuts[f], value))
        rows = np.bincount(code, count)
        usual[f] = np.searchsorted(cuts[f], 0) if n_unlisted else rows.argmax()
        usual_rows[f] = rows[usual[f]]
    entry_bins = list(_bins_of_entries(place, entries, cuts))
    return ListedBins(
        feature,
        cuts,
        missing,
        missing_weight=weight,
        usual=usual.astype(np.int32),
        usual_rows=usual_rows,
        entries=entry_bins,
    )


def _columns(data):
    """Columns of X with entries on any worker, the positions of this worker's among them, and its CSC entries."""
    worker_columns, entries = filled(data)
    _refuse_infinite(data, worker_columns, entries)
    feature = np.unique(data.comm.concatenate(worker_columns.astype(np.int64)))
    return feature, np.searchsorted(feature, worker_columns), entries


def _bins_of_entries(place, entries, cuts):
    """Yield the position of every column of this worker, its listed rows, and their bins."""
    for j, f in enumerate(place.tolist()):
        part = slice(entries.indptr[j], entries.indptr[j + 1])
        value = entries.data[part]
        entry_bins = np.searchsorted(cuts[f], value)
        entry_bins[np.isnan(value)] = len(cuts[f]) + 1
        yield f, entries.indices[part], entry_bins


def _refuse_infinite(data, feature, entries):
    """Refuse columns with infinite values in this worker's rows."""
    infinite = np.flatnonzero(np.isinf(entries.data))
    if len(infinite):
        bad = np.full(len(feature), -1, dtype=np.int64)
        column = np.searchsorted(entries.indptr, infinite[0], side="right") - 1
        bad[column] = entries.indices[infinite[0]]
        data.refuse_infinite(bad, feature)


def _counts(column, value, sums):
    """Distinct values of every column, with missing ones last: float64 (n, 2 + s) of columns, values and sums."""
    order = np.lexsort((value, column))
    column = column[order]
    value = value[order]
    sums = sums[order]
    first = first_of_runs(value, column)
    if len(first):
        sums = np.add.reduceat(sums, first)
    return np.column_stack((column[first], value[first], sums)).astype(np.float64)


def _blocks(size):
    """Divide the columns into messages by their numbers of values on all workers."""
    begin = 0
    total = 0
    for f, n in enumerate(size.tolist()):
        if total and total + n > BLOCK_VALUES:
            yield begin, f
            begin = f
            total = 0
        total += n
    if begin < len(size):
        yield begin, len(size)


def _all_cuts(data, listed, d, max_bins):
    """Cuts, missing rows of all workers, and bins of the rows without an entry."""
    cuts = []
    missing = np.zeros(d, dtype=np.int64)
    mode = np.zeros(d, dtype=np.int32)
    for f, listed_values in enumerate(_of_all(data, listed, d)):
        is_missing = np.isnan(listed_values[:, 1])
        missing[f] = listed_values[is_missing, 2].sum()
        has_unlisted = listed_values[:, 2].sum() < data.total_rows
        most = max_bins if data.dtype == np.float32 else None
        column_cuts, mode[f] = _cuts(listed_values[~is_missing, 1:], has_unlisted, most)
        cuts.append(column_cuts)
    return cuts, missing, mode


def _of_all(data, listed, d):
    """Yield the values of each of the d columns on all workers, in the form of `_counts`."""
    comm = data.comm
    size = comm.sum(np.bincount(listed[:, 0].astype(np.int64), minlength=d).astype(np.int64))
    for begin, end in _blocks(size):
        low, high = np.searchsorted(listed[:, 0], (begin, end))
        block = listed[low:high]
        if comm.size > 1:
            block = comm.concatenate(np.ascontiguousarray(block).ravel())
            block = block.reshape(-1, listed.shape[1])
            block = _counts(block[:, 0], block[:, 1], block[:, 2:])
        first_row = np.searchsorted(block[:, 0], np.arange(begin, end + 1))
        for f in range(begin, end):
            yield block[first_row[f - begin] : first_row[f - begin + 1]]


def _cuts(listed, has_unlisted, max_bins):
    """Cuts of a column with these values and counts (n, 2), and the bin of 0 if some rows have no entry, else 0."""
    value = listed[:, 0].astype(np.float32)
    count = listed[:, 1].astype(np.int64)
    mode = 0
    if has_unlisted:
        mode = int(np.searchsorted(value, 0))
        value = np.insert(value, mode, 0)
        count = np.insert(count, mode, 0)
    if len(value) < 2:
        return np.zeros(0, dtype=np.float32), mode
    cuts = cuts_of(value, np.ones(len(value)), None, least=0.0)
    if max_bins is not None and len(value) > max_bins:
        step = steps_of_merge(count, mode, max_bins)
        cuts = cuts[step[1:] > 0]
        mode = int(np.cumsum(step)[mode])
    return cuts, mode
