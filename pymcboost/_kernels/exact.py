"""Sums that depend neither on the order of their terms nor on how these are divided: of integers.

Terms are rounded to multiples of a unit, a power of two that follows from a bound of their sizes and from their number.
"""

import math
from functools import lru_cache

import numpy as np

# Integer sums over more rows than this, of all workers, have 64 bits instead of 32.
WIDE_ROWS = 1 << 27
# Sums whose rounding is below this share of them are good enough to scale others by.
GOOD = 2.0**-10


def is_wide(n_rows):
    """Whether sums over this many rows, of all workers, have 64 bits."""
    return n_rows > WIDE_ROWS


@lru_cache(maxsize=128)
def unit_of(bound, n):
    """Unit in which n terms of sizes up to ``bound`` are integers below 2^51 each, and below 2^62 together."""
    return math.ldexp(1.0, math.frexp(bound)[1] + max(-51, int(n).bit_length() - 62))


def units_of(bounds, counts):
    """`unit_of`, of arrays."""
    return np.ldexp(1.0, np.frexp(bounds)[1] + np.maximum(-51, np.frexp(counts)[1] - 62))


# Whole numbers that a term is cut into where sums need many digits, see ``exact.h``.
PARTS = 3


def units_in_parts(bound, n):
    """Units of the parts of n terms of sizes up to ``bound``, and their magic numbers: (2, PARTS)."""
    bits = min(51, 62 - int(n).bit_length())
    units = np.ldexp(1.0, int(np.frexp(bound)[1]) - bits * np.arange(1, PARTS + 1))
    return np.stack((units, magic_of(units)))


def of_parts(sums, units):
    """What sums (..., parts) are together."""
    total = np.zeros(sums.shape[:-1])
    for j in range(sums.shape[-1])[::-1]:
        total += sums[..., j] * units[0, j]
    return total


def magic_of(unit):
    """What terms are added to in a kernel: the low bits of the sums are then the terms in units, rounded."""
    return 1.5 * 2.0**52 * unit


def refined(comm, take, n, unit, sums=None, least=1e-300):
    """Largest of some sums of n terms from 0 on each, and a bound of its error.

    They are taken in smaller units until the error is a small share, or both together are at most ``least``.

    Parameters
    ----------
    take : callable
        Sums in units (any shape) of the rows of this worker, by the magic number of the unit.
    sums : ndarray of int64, optional
        Sums in ``unit``, if they are known.
    """
    while True:
        sums = comm.sum(take(magic_of(unit)) if sums is None else sums)
        top = int(sums.max()) * unit
        error = n * unit / 2
        if error <= GOOD * top or top + error <= least:
            return top, error
        smaller = unit_of(top + error, n)
        if (
            smaller >= unit
        ):  # very many terms leave it few digits; what holds their sum holds them all
            smaller = unit_of(top + error, 1)
            if smaller > unit / 16:
                return top, error
        unit = smaller
        sums = None


def total(values):
    """Sum of finite numbers."""
    values = np.asarray(values, dtype=np.float64)
    unit = unit_of(np.abs(values).max(initial=0.0), values.size)
    return int(np.rint(values / unit).astype(np.int64).sum()) * unit


def on_grid(weight, largest, n):
    """Weights above 0 as multiples of a power of two whose sums, of n weights up to ``largest``, are exact."""
    unit = np.ldexp(1.0, int(np.frexp(largest)[1]) + int(n).bit_length() - 52)
    return np.maximum(np.rint(weight / unit), 1) * unit
