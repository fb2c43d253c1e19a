"""Coefficients of single weak learners: each is a root of the slope of the loss."""

import math

import numpy as np

from pymcboost._kernels import newton as _newton

# Maximum coefficient. A weak learner without mistakes on a pair of classes would otherwise get an infinite one.
LARGEST_COEFFICIENT = 10.0
MAX_ITERATIONS = 100


def coded_steps(tables, code, cap=LARGEST_COEFFICIENT):
    """Steps t (P,) that minimize the coded exponential loss along +-1 outputs h, column by column.

    A step is the root of  sum_c C (W-[c] exp(C t) - W+[c] exp(-C t)) = 0, which rises in t. For a class subset of
    PIBoost, with C = K - s on it and -s off it, this is the paper's polynomial (eq. 8) times powers of R = exp(t).

    Parameters
    ----------
    tables : ndarray (2, K, P)
        Weights of the rows of each class with h = +1 and with h = -1.
    code : ndarray (K, P)
        C.
    cap : float
        Largest |C t| of a column.
    """
    out = np.empty(code.shape[1])
    code = np.ascontiguousarray(code, dtype=np.float64)
    _newton.coded_steps(
        code, np.ascontiguousarray(tables, dtype=np.float64), cap, MAX_ITERATIONS, out
    )
    return out


def common_step(edge):
    """AdaBoost's coefficient, 1/2 log((1 + edge) / (1 - edge)), for an edge in (0, 1]; at most 10."""
    return min(math.atanh(min(edge, 1 - 1e-16)), LARGEST_COEFFICIENT)  # NumPy's depends on the CPU
