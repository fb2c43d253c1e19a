"""Values that differ in float64 and are equal in float32: looked for in a sample of the rows.

Values that come in float32 may have been rounded before. Those of LIBSVM text have been. They show it where most of
them are the next ones to others, at magnitudes where not even whole numbers are all there.
"""

from functools import cache

import numpy as np

from pymcboost._warn import warn
from pymcboost.data.offsets import NOISE

# Rows of a first look and of a second one at the columns that it leaves; entries of sparse rows.
FIRST, SECOND = 64, 1024
FIRST_ENTRIES, SECOND_ENTRIES = 512, 1 << 16
# Values that are not nearer than this, relatively, lose nothing that matters.
NEAR = 2.0**-10
# Share of the different values that may merge, and of the neighbours that may be near.
HARMLESS = 1 / 16
# Most bytes of integers that are all numbers of float32.
EXACT_BYTES = {"i": 2, "u": 2, "b": 1}
# From here on float32 misses whole numbers; neighbours are at most so many of its steps apart, as a share of all.
COARSE, STEPS, NEIGHBOURS = 2.0**24, 4, 0.5


def merging(X, rows=None):
    """The columns of X, not yet rounded to float32, in which that merges values that differ.

    Parameters
    ----------
    X : array-like, frame or sparse matrix (n, d)
    rows : ndarray of int, optional
        Those that count, of dense X.

    Returns
    -------
    list of (column, different values of a sample, those left in float32, one of them)
    """
    dtype = getattr(X, "dtype", None)
    if dtype is not None and EXACT_BYTES.get(dtype.kind, 0) >= dtype.itemsize:
        return []
    narrow = dtype == np.float32
    return list(_merged_entries(X, narrow) if hasattr(X, "tocsr") else _merged(X, narrow, rows))


class RowSample:
    """Rows of dense blocks: all, or `SECOND` of them, spread over what has passed.

    Attributes
    ----------
    rows : ndarray (n, d) or None
    """

    def __init__(self):
        self.rows, self._keys, self._random = None, np.empty(0), np.random.default_rng(0)

    def take(self, X):
        """Let the rows of a block pass."""
        keys = self._random.random(len(X))  # the rows with the smallest are kept
        at = _smallest(keys)
        rows, keys = X[at], np.append(self._keys, keys[at])
        at = _smallest(keys)
        self._keys, self.rows = keys[at], (rows if self.rows is None else np.concatenate([self.rows, rows]))[at]


def _smallest(keys):
    return np.sort(np.argpartition(keys, SECOND)[:SECOND]) if len(keys) > SECOND else np.arange(len(keys))


def warn_of(found, names, narrow, offsets=()):
    """Warn of columns that `merging` has found; those with offsets merge values in spite of these."""
    if not found:
        return
    column, distinct, left, one = max(found, key=lambda one: one[1] - one[2])
    others = f" {len(found) - 1} more columns lose values, too." if len(found) > 1 else ""
    before, place = "", f"{column} (from 0)" if names is None else repr(names[column])
    what = f"{distinct} different values of a sample become {left} when they are rounded to float32, as for all models"
    remedy = f"Subtract a constant from the column, such as {one:.10g},"
    if narrow:
        what = f"its {distinct} different values in a sample lie next to each other in float32: they seem to be rounded"
        before = " before it is rounded (or written as LIBSVM text)"
    if column in offsets:
        what = f"{distinct} different values become {left} in float32, even less the offset {offsets[column]:.10g}"
        remedy = "Give it as two columns, such as the day and the second of the day,"
    warn(f"column {place}: {what}. {remedy}{before} in training and prediction alike.{others}")


def _merged(X, narrow, rows):
    """(column, different values, those left in float32, one of them) of every column that loses values."""
    few = _sample(X, FIRST, rows)
    low, high = few[:-1], few[1:]
    with np.errstate(invalid="ignore", over="ignore"):
        step, size = np.abs(high - low), np.abs(high)
        near = (step < NEAR * size) & (step > NOISE * size)
        near = np.flatnonzero(near.sum(axis=0) > HARMLESS * (step > 0).sum(axis=0))
    if not len(near):
        return
    values = np.sort(_sample(X, SECOND, rows)[:, near].T, axis=1)
    apart, merged = _steps(values[:, :-1], values[:, 1:], narrow)
    distinct, lost = 1 + apart.sum(axis=1), merged.sum(axis=1)
    for j in np.flatnonzero(lost > (NEIGHBOURS if narrow else HARMLESS) * distinct):
        yield int(near[j]), int(distinct[j]), int(distinct[j] - lost[j]), values[j, 0]


def _sample(X, n, rows):
    """About n of the rows that count as float64, evenly spread."""
    at = _spread(len(X), n) if rows is None else rows[_spread(len(rows), n)]
    if hasattr(X, "iloc"):
        return X.iloc[at].to_numpy(dtype=np.float64, na_value=np.nan)
    X = [X[i] for i in at] if isinstance(X, (list, tuple)) else X.take(at) if hasattr(X, "column_names") else X[at]
    return np.asarray(X, dtype=np.float64)


def _spread(size, n):
    """About n of the numbers below ``size``, always the same, at no fixed distance, which data may have, too."""
    return np.arange(size) if size <= n else (_fractions(n) * size).astype(np.int64)


@cache
def _fractions(n):
    return np.sort(np.random.default_rng(0).random(n))


def _merged_entries(X, narrow):
    """As `_merged`, for the stored entries of a sparse matrix."""
    X = X if X.format in ("csr", "csc") else X.tocsr()
    for n in (FIRST_ENTRIES, SECOND_ENTRIES):
        at = _spread(len(X.data), n)
        values = X.data[at].astype(np.float64)
        if not narrow and (_rounded(values) == values).all():
            return
        column = X.indices[at] if X.format == "csr" else np.searchsorted(X.indptr, at, side="right") - 1
        order = np.lexsort((values, column))
        column, values = column[order], values[order]
        apart, merged = _steps(values[:-1], values[1:], narrow)
        same = column[1:] == column[:-1]
        if not (merged & same).any():
            return
    at, first, place = np.unique(column, return_index=True, return_inverse=True)
    distinct = 1 + np.bincount(place[1:], apart & same, minlength=len(at)).astype(int)
    lost = np.bincount(place[1:], merged & same, minlength=len(at)).astype(int)
    for j in np.flatnonzero(lost > (NEIGHBOURS if narrow else HARMLESS) * distinct):
        yield int(at[j]), int(distinct[j]), int(distinct[j] - lost[j]), values[first[j]]


def _steps(low, high, narrow):
    """Where neighbours differ, and where float32 makes them equal, or has done so with others between them."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(low), np.abs(high))
        apart = high - low > NOISE * size
        if narrow:
            return apart, apart & (size >= COARSE) & (high - low <= STEPS * np.spacing(_rounded(size)))
    return apart, apart & (_rounded(low) == _rounded(high))


def _rounded(values):
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
