"""Coefficients of one new weak learner: the K-vector w >= 0 that minimizes the loss of F + h w.

If rows are divided among workers, worker 0 computes the solutions, because CPUs may differ.
"""

import numpy as np

from pymcboost._kernels import newton as _newton
from pymcboost.solvers.roots import LARGEST_COEFFICIENT, MAX_ITERATIONS

# Maximum projected gradient relative to the mass of the weights: for the K x K problems, and for passes over the
# data.
TOLERANCE = 1e-9
DATA_TOLERANCE = 1e-6
MAX_PASSES = 12


class _Newton:
    """Parameters and work space of both solvers."""

    def __init__(self, n_classes, nu, cap=LARGEST_COEFFICIENT):
        self.nu = nu
        self.cap = cap
        self._work = _newton.new_work(n_classes)
        self._n_classes = n_classes


class NewtonExp(_Newton):
    """Exponential loss (eq. 13): the data enter through two K x K tables, summed once.

    Minimises log(diagonal + sum_cr S+[c,r] exp(w_r - w_c) + S-[c,r] exp(w_c - w_r)) + nu sum w over 0 <= w <= cap.
    """

    def fit(self, loss, h):
        """Return (w, tables): the minimizer with min(w) = 0, and the side tables of h."""
        tables = loss.side_tables(h)
        w = np.zeros(self._n_classes)
        # Without a penalty, the diagonal does not change the minimizer, but would distort the relative tolerance.
        diagonal = loss.diagonal if self.nu > 0 else 0.0
        _newton.solve_exp(
            tables[0],
            tables[1],
            diagonal,
            self.nu,
            self.cap,
            TOLERANCE,
            MAX_ITERATIONS,
            w,
            self._work,
        )
        w = loss.data.comm.broadcast(w)
        return w - w.min(), tables


class NewtonLog(_Newton):
    """Logistic loss (eq. 14): few passes over the data, each giving K x K tables of first and second derivatives.

    Between passes, every class pair and side of h is replaced by one logistic term with the same two derivatives, and
    their sum is minimized exactly. This converges faster than Newton steps on the data, because the terms curve like
    the loss.
    """

    def fit(self, loss, h):
        """Return (w, None): the minimizer with min(w) = 0; updating the weights needs no tables."""
        w = np.zeros(self._n_classes)
        step = np.empty(self._n_classes)
        best = w
        best_violation = np.inf
        for _ in range(MAX_PASSES):
            tables = loss.trial_tables(h, w)
            violation = _newton.log_step(
                tables, w, self.nu, self.cap, DATA_TOLERANCE, MAX_ITERATIONS, step, self._work
            )
            violation, next_w = loss.data.comm.broadcast((violation, step.copy()))
            if violation < best_violation:
                best = w
                best_violation = violation
                if violation <= DATA_TOLERANCE:
                    break
                w = next_w
            else:  # overshot: go back halfway
                w = (best + w) / 2
        return best - best.min(), None


SOLVERS = {"exp": NewtonExp, "log": NewtonLog}
