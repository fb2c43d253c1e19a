"""Columns whose values become equal in float32: offsets before a training where that helps, else a warning."""

from pymcboost._warn import warn
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
