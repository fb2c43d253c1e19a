"""Pseudo-random numbers from row numbers, by which rows are drawn in the same way on any worker."""

import numpy as np


def scrambled(number, key):
    """Map distinct numbers to distinct, random-looking 64-bit numbers, with the finalizer of splitmix64."""
    z = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
