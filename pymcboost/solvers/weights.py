"""Weights of the pairwise losses, class by class, for totally corrective solvers."""

import numpy as np

from pymcboost._kernels import fcd as _fcd
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.solvers.columns import padded

# Maximum coefficient. With nu > 0, the best one is below log(1 / nu) of the loss that the learner corrects, so this
# limit only matters for a learner without mistakes and C above 4e8, or for nu = 0.
LARGEST_COEFFICIENT = 20.0
# Added to the weights: too small to affect sums, but large enough to avoid denormal numbers.
SMALLEST = {np.dtype(np.float32): 1e-30, np.dtype(np.float64): 1e-200}
# Exponents above this are clipped; such rows are misclassified anyway.
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
        """Negative gradient of the loss, in the layout for weak learners: (n_blocks, m, lanes)."""
        _fcd.gradient(self.U, self.data.class_start, self._A, self.n_threads)
        return self._A

    def scores(self, columns):
        """Scores F (K, m) of the training rows, overwritten by the next call."""
        if self._F is None:
            self._F = aligned_zeros((self.data.n_classes, self.stride), np.float64)
        columns.scores(self._F, self.n_threads)
        return self._F[:, : self.data.n_rows]

    def refresh(self, columns):
        """Recompute the weights from the coefficients; return the objective, loss plus penalty."""
        return self.start(self.scores(columns)) + self.nu * float(columns.w.sum())

    def slopes(self, columns):
        """Derivative of the objective with respect to every coefficient."""
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
        """Violation of the optimality conditions by every coordinate (eq. 16, times nu)."""
        out = np.empty(len(columns.w))
        _fcd.violations(self.slopes(columns), columns.w, self.cap, out)
        return out

    def start(self, F=None):
        """Compute the weights for scores F (K, m), or for zeros; return the loss."""
        K = self.data.n_classes
        start = self.data.class_start
        largest = LARGEST_EXPONENT[self.dtype]
        smallest = SMALLEST[self.dtype]
        self._loss = 0.0
        for c in range(K):
            for first_row in range(start[c], start[c + 1], BLOCK_ROWS):
                rows = slice(first_row, min(first_row + BLOCK_ROWS, start[c + 1]))
                if F is None:
                    terms = np.zeros((K, rows.stop - rows.start))
                else:
                    terms = F[:, rows] - F[c, rows]
                u = self.U[:, rows]
                weight = self.data.weight[rows]
                # Scores may be the transpose of a table. Then parts of the terms would not be contiguous, and the own
                # class is computed, too.
                class_parts = [slice(K)]
                if terms.flags.c_contiguous:
                    class_parts = [slice(c), slice(c + 1, K)]
                for classes in class_parts:
                    self._terms(terms[classes], weight, largest, smallest, u[classes])
                u[c] = 0.0
                terms[c] = 0.0
                self._loss += float(terms.sum())
        return self._loss

    def loss(self):
        """Loss of the last `start`."""
        return self._loss
