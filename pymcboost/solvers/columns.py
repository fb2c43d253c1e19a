"""Outputs of weak learners on the training rows, and the coordinates that solvers change."""

from dataclasses import dataclass

import numpy as np

from pymcboost._kernels import fcd as _fcd


def padded(n_rows):
    """Number of rows, rounded up to the step of the kernels."""
    return -(-n_rows // 64) * 64


def pack(h):
    """Pack outputs +-1 (n, m) into bits, set for -1: (n, padded(m) / 32) words, the first row in the lowest bit."""
    bits = np.packbits(h < 0, axis=1, bitorder="little")
    out = np.zeros((len(h), padded(h.shape[1]) // 8), dtype=np.uint8)
    out[:, : bits.shape[1]] = bits
    return out.view(np.uint32)


@dataclass
class Columns:
    """Weak learners on the training rows, and the coordinates (class, learner) that have coefficients.

    Attributes
    ----------
    H : ndarray of uint32 (n, stride / 32)
        See `pack`.
    ptr : ndarray of int64 (K + 1,)
        The coordinates of class c are ``ptr[c] <= i < ptr[c + 1]``.
    column : ndarray of int32 (n_coordinates,)
        Learners of the coordinates.
    w : ndarray of float64 (n_coordinates,)
        Coefficients.
    """

    H: np.ndarray
    ptr: np.ndarray
    column: np.ndarray
    w: np.ndarray

    @classmethod
    def shared(cls, H, coef):
        """Create the coordinates of learners that have a coefficient in every class: coef (n, K)."""
        n, K = coef.shape
        ptr = np.arange(K + 1, dtype=np.int64) * n
        column = np.tile(np.arange(n, dtype=np.int32), K)
        return cls(H, ptr, column, np.ascontiguousarray(coef.T).ravel())

    @classmethod
    def of_classes(cls, H, coef, owner, n_classes):
        """Create the coordinates of learners that belong to one class each: coef, owner (n,)."""
        order = np.argsort(owner, kind="stable")
        ptr = np.searchsorted(owner[order], np.arange(n_classes + 1)).astype(np.int64)
        return cls(H, ptr, order.astype(np.int32), coef[order])

    def scores(self, F, n_threads=1):
        """Compute the scores of the rows into F (K, stride), float64 on a 64-byte boundary."""
        _fcd.margins(self.H, self.ptr, self.column, self.w, F, n_threads)

    def spread(self, flags):
        """Expand one flag per learner to one flag per coordinate."""
        return np.ascontiguousarray(flags[self.column])

    def coefficients(self, n_classes=None):
        """Coefficients by learner: (n,), or (n, K) if learners are shared by K classes."""
        if n_classes is not None:
            return self.w.reshape(n_classes, -1).T.copy()
        coef = np.empty(len(self.w))
        coef[self.column] = self.w
        return coef


@dataclass
class Solved:
    """Result of a solver: the objective, the last violation relative to the first, passes and updates."""

    objective: float
    violation: float
    passes: int
    updates: int
