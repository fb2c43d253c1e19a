"""The warning of columns whose distinct values become equal when they are rounded to float32, as all models round them.

It looks at a sample of the rows. Values that come as float32 may have been rounded before; those of LIBSVM text have
been. What tells such a column is that most of its values are neighbours in float32, where float32 misses whole numbers.
"""

import math
from typing import NamedTuple

import numpy as np

from pymcboost._warn import warn

# Rows of dense X: a few of them choose the columns whose values are close to each other; more are compared in these.
SCREENED_ROWS, COMPARED_ROWS = 64, 1024
# Stored entries of sparse X that are compared.
COMPARED_ENTRIES = 1 << 16
# Relative differences: below the first, float64 itself has rounded; above the second, float32 keeps values well apart.
NOISE, CLOSE = 2.0**-42, 2.0**-10
# Share of the distinct values of a column that may become equal without a warning.
HARMLESS = 1 / 16
# From here on float32 misses whole numbers. A column of float32 has been rounded if more than this share of its values
# there are at most so many steps of float32 below the next one.
COARSE, NEIGHBOURS, STEPS = 2.0**24, 0.5, 4
# Columns that one warning names.
NAMED = 5


class MergedColumn(NamedTuple):
    """What a sample of the rows shows of a column: how many values it has, and how many stay distinct in float32."""

    column: int
    n_distinct: int
    n_left: int
    constant: float  # to be subtracted, so that float32 keeps the values apart


def warn_of_merged_values(X, names=None):
    """Warn of the columns of X, as it is before it is rounded, in which values merge; say what to subtract from them.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix (n, d)
    names : list of str, optional
        Of the columns.
    """
    merged = sorted(merged_columns(X), key=lambda found: found.n_left - found.n_distinct)
    if not merged:
        return
    rounded_before = getattr(X, "dtype", None) == np.float32
    if rounded_before:
        sentences = ["values seem to have become equal when they were rounded to float32."]
        when = "before converting to float32 or LIBSVM text, both for fit and for predict"
    else:
        sentences = ["different values become equal when they are rounded to float32."]
        when = "before fit and predict"
    for found in merged[:NAMED]:
        name = "(from 0)" if names is None else f"({names[found.column]!r})"
        effect = "are neighbours" if rounded_before else f"become {found.n_left}"
        sentences.append(
            f"Column {found.column} {name}: {found.n_distinct} distinct values of a sample "
            f"{effect}; subtract {found.constant:.15g} {when}."
        )
    if len(merged) > NAMED:
        sentences.append(f"{len(merged) - NAMED} more columns lose values, too.")
    warn(" ".join(sentences))


def merged_columns(X):
    """The columns in which float32 merges more than a harmless share of the distinct values: list of `MergedColumn`."""
    rounded_before = getattr(X, "dtype", None) == np.float32
    are_merged = _are_neighbours if rounded_before else _are_equal_in_float32
    found = []
    is_sparse = hasattr(X, "tocsr")
    if is_sparse and rounded_before and np.abs(X.data).max(initial=0) < COARSE:
        return []
    for column, values in _entries_by_column(X) if is_sparse else _close_columns(X):
        low, high = values[:-1], values[1:]
        distinct = high - low > NOISE * np.maximum(np.abs(low), np.abs(high))
        merged = distinct & are_merged(low, high)
        n_distinct = 1 + int(distinct.sum())
        n_merged = int(merged.sum())
        if n_merged > (NEIGHBOURS if rounded_before else HARMLESS) * n_distinct:
            constant = _constant_near(low[merged].min(), high[merged].max())
            found.append(MergedColumn(column, n_distinct, n_distinct - n_merged, constant))
    return found


def _are_equal_in_float32(low, high):
    with np.errstate(over="ignore"):
        rounded = low.astype(np.float32)
        return (rounded == high.astype(np.float32)) & np.isfinite(rounded)


def _are_neighbours(low, high):
    largest = np.maximum(np.abs(low), np.abs(high))
    return (largest >= COARSE) & (high - low <= STEPS * np.spacing(largest.astype(np.float32)))


def _constant_near(low, high):
    """The number of fewest digits that is below both, by less than ten times their difference."""
    unit = 10.0 ** math.ceil(math.log10(high - low))
    return float(math.floor(low / unit) * unit)


def _close_columns(X):
    """Yield (column, sorted finite values of a sample) of the columns in which rows have values close to others."""
    few = _rows_of(X, SCREENED_ROWS)
    with np.errstate(invalid="ignore", over="ignore"):
        step = np.abs(np.diff(few, axis=0))
        size = np.abs(few[1:])
        is_close = (step > NOISE * size) & (step < CLOSE * size)
    columns = np.flatnonzero(is_close.sum(axis=0) > HARMLESS * (step > 0).sum(axis=0))
    if not len(columns):
        return
    sample = _rows_of(X, COMPARED_ROWS)
    for column in columns.tolist():
        values = sample[:, column]
        yield column, np.sort(values[np.isfinite(values)])


def _entries_by_column(X):
    """Yield (column, sorted finite values of a sample) of the columns of a sparse matrix that float32 changes."""
    X = X if X.format in ("csr", "csc") else X.tocsr()
    entries = _spread(len(X.data), COMPARED_ENTRIES)
    values = X.data[entries].astype(np.float64)
    column = (
        X.indices[entries]
        if X.format == "csr"
        else np.searchsorted(X.indptr, entries, side="right") - 1
    )
    is_finite = np.isfinite(values)
    if not is_finite.any():
        return
    column, values = column[is_finite], values[is_finite]
    order = np.lexsort((values, column))
    column, values = column[order], values[order]
    begin = np.flatnonzero(np.diff(column, prepend=-1))
    with np.errstate(over="ignore"):
        is_close = np.diff(values) < CLOSE * np.abs(values[1:])
    for first, end in zip(begin.tolist(), [*begin[1:].tolist(), len(values)], strict=True):
        if is_close[first : end - 1].any():
            yield int(column[first]), values[first:end]


def _rows_of(X, n):
    """About n rows as float64, evenly spread."""
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
    """About n of the numbers below ``size``, always the same ones, at no fixed distance: data may have a period."""
    if size <= n:
        return np.arange(size)
    return (np.sort(np.random.default_rng(0).random(n)) * size).astype(np.int64)
