"""Warning about columns whose distinct values become equal in float32, to which all models round.

It checks a sample of the rows. Values given as float32 may have been rounded earlier; those of LIBSVM text always
have been. Such a column is recognized by most of its values being float32 neighbors, in the range where float32
misses whole numbers.
"""

import math
from typing import NamedTuple

import numpy as np

from pymcboost._warn import warn

# Numbers of rows of dense X: a few select the columns with close values, and more are compared in these.
SCREENED_ROWS = 64
COMPARED_ROWS = 1024
# Number of stored entries of sparse X that are compared.
COMPARED_ENTRIES = 1 << 16
# Relative differences: below NOISE, float64 itself has rounded; above CLOSE, float32 separates values well.
NOISE = 2.0**-42
CLOSE = 2.0**-10
# Share of the distinct values of a column that may become equal without a warning.
HARMLESS = 1 / 16
# From COARSE on, float32 misses whole numbers. A float32 column has been rounded if more than the share NEIGHBOURS of
# its values there are at most STEPS steps of float32 below the next one.
COARSE = 2.0**24
NEIGHBOURS = 0.5
STEPS = 4
# Maximum number of columns that a warning names.
NAMED = 5


class MergedColumn(NamedTuple):
    """Result of the check of a column: its number of distinct values, and how many stay distinct in float32."""

    column: int
    n_distinct: int
    n_left: int
    constant: float  # constant to subtract, so that float32 keeps the values apart


def warn_of_merged_values(X, names=None):
    """Warn about columns of X in which rounding would merge values, and say what to subtract from them.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix (n, d)
    names : list of str, optional
        Of the columns.
    """
    merged = sorted(merged_columns(X), key=lambda column: column.n_left - column.n_distinct)
    if not merged:
        return
    rounded_before = getattr(X, "dtype", None) == np.float32
    if rounded_before:
        sentences = ["values seem to have become equal when they were rounded to float32."]
        when = "before converting to float32 or LIBSVM text, both for fit and for predict"
    else:
        sentences = ["different values become equal when they are rounded to float32."]
        when = "before fit and predict"
    for merged_column in merged[:NAMED]:
        name = "(from 0)" if names is None else f"({names[merged_column.column]!r})"
        effect = "are neighbours" if rounded_before else f"become {merged_column.n_left}"
        sentences.append(
            f"Column {merged_column.column} {name}: {merged_column.n_distinct} distinct values of a sample "
            f"{effect}; subtract {merged_column.constant:.15g} {when}."
        )
    if len(merged) > NAMED:
        sentences.append(f"{len(merged) - NAMED} more columns lose values, too.")
    warn(" ".join(sentences))


def merged_columns(X):
    """Columns in which float32 merges more than a harmless share of the distinct values: list of `MergedColumn`."""
    rounded_before = getattr(X, "dtype", None) == np.float32
    are_merged = _are_neighbours if rounded_before else _are_equal_in_float32
    columns = []
    is_sparse = hasattr(X, "tocsr")
    if is_sparse and rounded_before and np.abs(X.data).max(initial=0) < COARSE:
        return []
    for column, values in _entries_by_column(X) if is_sparse else _close_columns(X):
        low = values[:-1]
        high = values[1:]
        distinct = high - low > NOISE * np.maximum(np.abs(low), np.abs(high))
        merged = distinct & are_merged(low, high)
        n_distinct = 1 + int(distinct.sum())
        n_merged = int(merged.sum())
        if n_merged > (NEIGHBOURS if rounded_before else HARMLESS) * n_distinct:
            constant = _constant_near(low[merged].min(), high[merged].max())
            columns.append(MergedColumn(column, n_distinct, n_distinct - n_merged, constant))
    return columns


def _are_equal_in_float32(low, high):
    with np.errstate(over="ignore"):
        rounded = low.astype(np.float32)
        return (rounded == high.astype(np.float32)) & np.isfinite(rounded)


def _are_neighbours(low, high):
    largest = np.maximum(np.abs(low), np.abs(high))
    return (largest >= COARSE) & (high - low <= STEPS * np.spacing(largest.astype(np.float32)))


def _constant_near(low, high):
    """The number with the fewest digits that is below both by less than ten times their difference."""
    unit = 10.0 ** math.ceil(math.log10(high - low))
    return float(math.floor(low / unit) * unit)


def _close_columns(X):
    """Yield (column, sorted finite values of a sample) for the columns in which adjacent rows have close values."""
    screened = _rows_of(X, SCREENED_ROWS)
    with np.errstate(invalid="ignore", over="ignore"):
        step = np.abs(np.diff(screened, axis=0))
        size = np.abs(screened[1:])
        is_close = (step > NOISE * size) & (step < CLOSE * size)
    columns = np.flatnonzero(is_close.sum(axis=0) > HARMLESS * (step > 0).sum(axis=0))
    if not len(columns):
        return
    sample = _rows_of(X, COMPARED_ROWS)
    for column in columns.tolist():
        values = sample[:, column]
        yield column, np.sort(values[np.isfinite(values)])


def _entries_by_column(X):
    """Yield (column, sorted finite values of a sample) for the columns of a sparse matrix that float32 changes."""
    X = X if X.format in ("csr", "csc") else X.tocsr()
    entries = _spread(len(X.data), COMPARED_ENTRIES)
    values = X.data[entries].astype(np.float64)
    if X.format == "csr":
        column = X.indices[entries]
    else:
        column = np.searchsorted(X.indptr, entries, side="right") - 1
    is_finite = np.isfinite(values)
    if not is_finite.any():
        return
    column = column[is_finite]
    values = values[is_finite]
    order = np.lexsort((values, column))
    column = column[order]
    values = values[order]
    begin = np.flatnonzero(np.diff(column, prepend=-1))
    with np.errstate(over="ignore"):
        is_close = np.diff(values) < CLOSE * np.abs(values[1:])
    for first, end in zip(begin.tolist(), [*begin[1:].tolist(), len(values)], strict=True):
        if is_close[first : end - 1].any():
            yield int(column[first]), values[first:end]


def _rows_of(X, n):
    """Take about n evenly spread rows, as float64."""
    rows = _spread(len(X), n)
    if hasattr(X, "iloc"):
        return X.iloc[rows].to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(X, (list, tuple)):
        X = [X[row] for row in rows]
    elif hasattr(X, "column_names"):
        X = X.take(rows)
    else:
        X = X[rows]
    return np.asarray(X, dtype=np.float64)


def _spread(size, n):
    """About n fixed numbers below ``size``, at irregular distances because the data may be periodic."""
    if size <= n:
        return np.arange(size)
    return (np.sort(np.random.default_rng(0).random(n)) * size).astype(np.int64)
