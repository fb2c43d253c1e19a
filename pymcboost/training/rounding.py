"""Columns whose values become equal in float32 get offsets before a training."""

from pymcboost.data.merging import HARMLESS
from pymcboost.data.offsets import offset_of
from pymcboost.model.offsets import with_offsets


def with_own_offsets(X, columns, rows=None):
    """X less the offsets that these columns get, the offsets, and what still merges then, as in `merging`.

    Parameters
    ----------
    X : ndarray of float64 (n, d)
    columns : list of (column, ...)
    rows : ndarray of int, optional
        Those that count.
    """
    offsets, rest, whole = {}, [], slice(None) if rows is None else rows
    for column, *_, one in columns:
        found = offset_of(X[whole, column])
        if found.value:
            offsets[column] = found.value
        if found.distinct - found.left > HARMLESS * found.distinct:
            rest.append((column, found.distinct, found.left, one))
    return with_offsets(X, offsets), offsets, rest
