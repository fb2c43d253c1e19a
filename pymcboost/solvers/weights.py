"""Weights of the pairwise losses, class by class, as totally corrective solvers read them."""

import numpy as np

from pymcboost._kernels import fcd as _fcd
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.solvers.columns import padded

# Largest coefficient. With nu > 0 the best one is below log(1 / nu) of the loss that the learner mends, so that this
# binds only for a learner without mistakes and C beyond 4e8, or where nu = 0.
LARGEST_COEFFICIENT = 20.0
# Added to the weights, far below what a sum can see, far above denormal numbers.
SMALLEST = {np.dtype(np.float32): 1e-30, np.dtype(np.float64): 1e-200}
# exp() of more than this is not formed; odds beyond it are those of a lost case anyway.
LARGEST_EXPONENT = {np.dtype(np.float32): 60.0, np.dtype(np.float64): 600.0}
BLOCK_ROWS = 4096


class PairWeights:
    """Weights u of all (row, other class) pairs, class by class: (K, stride).

    Parameters
    ----------
    loss : losses.Pairwise
    data : TrainingData
    nu : float
    cap : float, default=LARGEST_COEFFICIENT
    n_threads : int, default=1
    dtype : numpy dtype, default=float64
    """

    def __init__(self, loss, data, nu, cap=LARGEST_COEFFICIENT, n_threads=1, dtype=np.float64):
        self._terms = loss.terms
        self.link = loss.link
        self.data = data
        self.nu = nu
        self.cap = cap
        self.n_threads = n_threads
        self.dtype = np.dtype(dtype)
        self.stride = padded(data.n_rows)
        self.U = aligned_zeros((data.n_classes, self.stride), self.dtype)
        self._A = data.gradient_buffer()
        self._F = None

    def gradient(self):
        """Negative gradient of the loss as the weak learners take it: (n_blocks, m, lanes)."""
        _fcd.gradient(self.U, self.data.class_start, self._A, self.n_threads)
        return self._A

    def scores(self, columns):
        """Scores F (K, m) of the training rows, overwritten by the next call."""
        if self._F is None:
            self._F = aligned_zeros((self.data.n_classes, self.stride), np.float64)
        columns.scores(self._F, self.n_threads)
        return self._F[:, : self.data.n_rows]

    def refresh(self, columns):
        """Compute the weights anew from the coefficients; returns the objective, loss and penalty."""
        return self.start(self.scores(columns)) + self.nu * float(columns.w.sum())

    def slopes(self, columns):
        """Derivative of the objective by every coefficient."""
        sums = np.zeros((len(columns.w), 2))
        _fcd.coordinate_sums(
            self.U,
            self.data.class_start,
            columns.H,
            columns.ptr,
            columns.column,
            sums,
            self.n_threads,
        )
        return self.nu + sums[:, 1] - sums[:, 0]

    def violations(self, columns):
        """By how much every coordinate misses the optimality conditions (eq. 16, times nu)."""
        out = np.empty(len(columns.w))
        _fcd.violations(self.slopes(columns), columns.w, self.cap, out)
        return out

    def start(self, F=None):
        """Weights of scores F (K, m), or of zeros; returns the loss."""
        K = self.data.n_classes
        start = self.data.class_start
        largest, smallest = LARGEST_EXPONENT[self.dtype], SMALLEST[self.dtype]
        self._loss = 0.0
        for c in range(K):
            for first_row in range(start[c], start[c + 1], BLOCK_ROWS):
                rows = slice(first_row, min(first_row + BLOCK_ROWS, start[c + 1]))
                minus = (
                    np.zeros((K, rows.stop - rows.start)) if F is None else F[:, rows] - F[c, rows]
                )
                u = self.U[:, rows]
                weight = self.data.weight[rows]
                # Scores may be the transpose of a table: its parts would not be contiguous.
                for others in (
                    (slice(c), slice(c + 1, K)) if minus.flags.c_contiguous else (slice(K),)
                ):
                    self._terms(minus[others], weight, largest, smallest, u[others])
                u[c] = minus[c] = 0.0
                self._loss += float(minus.sum())
        return self._loss

    def loss(self):
        """Loss of the last `start`."""
        return self._loss
