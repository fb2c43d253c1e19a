"""Values that differ in float64 and are equal in float32: looked for in a sample of the rows, before a training."""

import warnings

import numpy as np

# Rows of a first look and of a second one at the columns that it leaves; entries of sparse rows.
FIRST, SECOND = 64, 1024
FIRST_ENTRIES, SECOND_ENTRIES = 1024, 1 << 16
# Values nearer than NOISE, relatively, differ by rounding of float64 alone; others than NEAR lose nothing that matters.
NOISE, NEAR = 2.0**-42, 2.0**-10
# Share of the different values that may merge, and of the neighbours that may be near.
HARMLESS = 1 / 16
# Integers and floats of at most so many bytes are numbers of float32.
EXACT_BYTES = {"i": 2, "u": 2, "f": 4, "b": 1}


def warn_of_merged(X, names, stacklevel):
    """Warn of the columns of X, not yet rounded to float32, in which that merges values that differ."""
    dtype = getattr(X, "dtype", None)
    if dtype is not None and EXACT_BYTES.get(dtype.kind, 0) >= dtype.itemsize:
        return
    found = list(_merged_entries(X) if hasattr(X, "tocsr") else _merged(X))
    if not found:
        return
    column, distinct, left, offset = max(found, key=lambda one: one[1] - one[2])
    others = f" {len(found) - 1} more columns lose values, too." if len(found) > 1 else ""
    warnings.warn(
        f"column {column if names is None else repr(names[column])}: {distinct} different values of a sample become "
        f"{left} when they are rounded to float32, as models take them. Subtract a constant from the column, such as "
        f"{offset:.10g}, in training and prediction alike.{others}",
        stacklevel=stacklevel + 1,
    )


def _merged(X):
    """(column, different values, those left in float32, one of them) of every column that loses values."""
    few = _sample(X, FIRST)
    low, high = few[:-1], few[1:]
    with np.errstate(invalid="ignore", over="ignore"):
        step, size = np.abs(high - low), np.abs(high)
        near = (step < NEAR * size) & (step > NOISE * size)
        near = np.flatnonzero(near.sum(axis=0) > HARMLESS * (step > 0).sum(axis=0))
    if not len(near):
        return
    values = np.sort(_sample(X, SECOND)[:, near].T, axis=1)
    apart, merged = _steps(values[:, :-1], values[:, 1:])
    distinct, lost = 1 + apart.sum(axis=1), merged.sum(axis=1)
    for j in np.flatnonzero(lost > HARMLESS * distinct):
        yield int(near[j]), int(distinct[j]), int(distinct[j] - lost[j]), values[j, 0]


def _sample(X, n):
    """About n rows as float64, evenly spread."""
    step = max(1, -(-len(X) // n))
    if hasattr(X, "iloc"):
        return X.iloc[::step].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(X[::step], dtype=np.float64)


def _merged_entries(X):
    """As `_merged`, for the stored entries of a sparse matrix."""
    X = X if X.format in ("csr", "csc") else X.tocsr()
    for n in (FIRST_ENTRIES, SECOND_ENTRIES):
        step = max(1, -(-len(X.data) // n))
        values = X.data[::step].astype(np.float64)
        if (_rounded(values) == values).all():
            return
        at = np.arange(0, len(X.data), step)
        column = X.indices[::step] if X.format == "csr" else np.searchsorted(X.indptr, at, side="right") - 1
        order = np.lexsort((values, column))
        column, values = column[order], values[order]
        apart, merged = _steps(values[:-1], values[1:])
        same = column[1:] == column[:-1]
        if not (merged & same).any():
            return
    at, first, place = np.unique(column, return_index=True, return_inverse=True)
    distinct = 1 + np.bincount(place[1:], apart & same, minlength=len(at)).astype(int)
    lost = np.bincount(place[1:], merged & same, minlength=len(at)).astype(int)
    for j in np.flatnonzero(lost > HARMLESS * distinct):
        yield int(at[j]), int(distinct[j]), int(distinct[j] - lost[j]), values[first[j]]


def _steps(low, high):
    """Where neighbours differ, and where float32 makes them equal."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = high - low > NOISE * np.maximum(np.abs(low), np.abs(high))
    return apart, apart & (_rounded(low) == _rounded(high))


def _rounded(values):
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
