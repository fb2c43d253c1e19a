"""Offsets of columns whose values differ in float64 and are equal in float32: chosen from the values alone."""

from typing import NamedTuple

import numpy as np

from pymcboost.data.rows import LARGEST_THRESHOLD

# Values nearer than this, relatively, differ by rounding of float64 alone.
NOISE = 2.0**-42
# An offset is a multiple of the power of two at or below this share of the range of the middle half of the values.
ROUND = 1 / 8


class Offset(NamedTuple):
    """What a column gets.

    Attributes
    ----------
    value : float
        0.0 where no offset helps.
    distinct : int
        Different values of the column.
    left : int
        How many of them differ in float32, after the offset.
    """

    value: float
    distinct: int
    left: int


def offset_of(column):
    """The offset of a column: its median, rounded to few bits, if fewer values are then equal in float32.

    Of the different values: repeated rows do not count. Differences from a number of few bits next to them are exact,
    as a value and an offset within a factor of two of each other have an exact difference.

    Parameters
    ----------
    column : ndarray of float64 (m,)
        NaN where values are missing.

    Returns
    -------
    Offset
    """
    values = np.unique(column[np.isfinite(column)])
    apart = np.diff(values) > NOISE * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    distinct, before = 1 + int(apart.sum()), _merged(values, apart, 0.0)
    n = len(values)
    if n < 2 or not before or np.abs(values[[0, -1]]).max() > LARGEST_THRESHOLD:
        return Offset(0.0, distinct, distinct - before)
    spread = values[(3 * n) // 4] - values[n // 4]
    unit = np.ldexp(1.0, int(np.frexp(spread * ROUND)[1]) - 1)
    offset = float(np.rint(values[n // 2] / unit) * unit) if 0 < unit < np.inf else 0.0
    after = _merged(values, apart, offset)
    if not np.isfinite(offset) or after >= before:
        return Offset(0.0, distinct, distinct - before)
    return Offset(offset, distinct, distinct - after)


def _merged(values, apart, offset):
    """How many neighbours are apart and become equal."""
    with np.errstate(over="ignore"):
        found = (values - offset).astype(np.float32)
    # What leaves float32 is no better than what is equal.
    return int((apart & ((found[1:] == found[:-1]) | np.isinf(found[1:]) | np.isinf(found[:-1]))).sum())
