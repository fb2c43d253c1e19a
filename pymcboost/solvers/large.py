"""Coefficients of one new weak learner for very many classes: from a K x K table, or from passes over the rows.

Exponential loss
    minimise log(diagonal + sum_cr A[c,r] exp(w_r - w_c)) + nu sum w over 0 <= w <= cap, A = S+ + (S-)^T: the problem
    of `newton.NewtonExp`, whose tables fold into one. The sum is exp(-w) (A exp(w)), so no other table is needed.
Logistic loss
    minimise sum_ir log(1 + q_ir exp(h_i (w_r - w_y))) + nu sum w over the same w, for odds q: the problem of
    `newton.NewtonLog`. The terms of a pair of classes cannot be merged, so each step is a pass over all rows.
"""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.solvers import newton
from pymcboost.solvers.roots import LARGEST_COEFFICIENT, MAX_ITERATIONS

# Number of table rows that are processed at once.
BLOCK = 256
# Maximum slope at the solution.
SLOPE = 1e-6


def folded(tables):
    """Fold the side tables (2, K, K) into the table A (1, K, K), which replaces the first."""
    A, minus = tables
    for begin in range(0, len(A), BLOCK):
        A[begin : begin + BLOCK] += minus[:, begin : begin + BLOCK].T
    return tables[:1]


def sums(A, w):
    """Row and column sums of A[c,r] exp(w_r - w_c): (K,) each."""
    exp_w = elementary.exp(w)
    exp_minus_w = elementary.exp(-w)
    row_sums = exp_minus_w * np.einsum("cr,r->c", A, exp_w)
    column_sums = exp_w * np.einsum("cr,c->r", A, exp_minus_w)
    return row_sums, column_sums


class _Large:
    """Base class of both: SciPy's L-BFGS-B."""

    def __init__(self, n_classes, nu, cap=LARGEST_COEFFICIENT):
        from threadpoolctl import ThreadpoolController

        self.nu = nu
        self.cap = cap
        self._n_classes = n_classes
        self._thread_pools = ThreadpoolController()

    def _minimise(self, value_and_slopes, slope):
        """Minimize a function of w (K,) within the bounds, starting at 0, to this slope."""
        from scipy.optimize import minimize

        # The sums of SciPy must not depend on the number of threads.
        with self._thread_pools.limit(limits=1, user_api="blas"):
            result = minimize(
                value_and_slopes,
                np.zeros(self._n_classes),
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, self.cap)] * self._n_classes,
                options={"maxiter": MAX_ITERATIONS, "ftol": newton.TOLERANCE**1.5, "gtol": slope},
            )
        return np.clip(result.x, 0.0, self.cap)


class LargeExp(_Large):
    """Solves the same problem as `newton.NewtonExp`."""

    def fit(self, loss, h):
        """Return (w, tables): the minimizer with min(w) = 0, and the folded table of h."""
        tables = folded(loss.side_tables(h))
        diagonal = loss.diagonal if self.nu > 0 else 0.0

        def value_and_slopes(w):
            row_sums, column_sums = sums(tables[0], w)
            total = diagonal + row_sums.sum()
            slopes = (column_sums - row_sums) / total + self.nu
            return np.log(total) + self.nu * w.sum(), slopes

        w = loss.data.comm.broadcast(self._minimise(value_and_slopes, SLOPE / self._n_classes))
        return w - w.min(), tables


class LargeLog(_Large):
    """Solves the same problem as `newton.NewtonLog`."""

    def fit(self, loss, h):
        """Return (w, None): the minimizer with min(w) = 0."""

        def value_and_slopes(w):
            value, slopes = loss.value_and_slopes(h, w)
            return (value + self.nu * w.sum()) / loss.mass, (slopes + self.nu) / loss.mass

        w = self._minimise(value_and_slopes, SLOPE / np.sqrt(self._n_classes))
        return w - w.min(), None


LARGE = {"exp": LargeExp, "log": LargeLog}


def solver_of(name, n_classes, nu, large):
    """Return the solver for a loss; ``large``: see `losses.pairwise.PairwiseBlocks`."""
    return (LARGE if large else newton.SOLVERS)[name](n_classes, nu)
