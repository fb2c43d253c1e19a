"""Coefficients of one new weak learner for very many classes, under the exponential loss, from one K x K table.

Problem
    minimise log(diagonal + sum_cr A[c,r] exp(w_r - w_c)) + nu sum w over 0 <= w <= cap, A = S+ + (S-)^T: the problem
    of `newton.NewtonExp`, whose tables fold into one. The sum is exp(-w) (A exp(w)), so that no other table is needed.
"""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.data.rows import MANY_COLUMNS
from pymcboost.solvers import newton
from pymcboost.solvers.roots import LARGEST_COEFFICIENT, MAX_ITERATIONS

# Rows of a table that are worked on at once.
BLOCK = 256
# Largest slope left.
SLOPE = 1e-6


def folded(tables):
    """The table A (1, K, K) in the place of the first of the side tables (2, K, K)."""
    A, other = tables
    for begin in range(0, len(A), BLOCK):
        A[begin : begin + BLOCK] += other[:, begin : begin + BLOCK].T
    return tables[:1]


def sums(A, w):
    """Rows and columns of A[c,r] exp(w_r - w_c) added up: (K,) each."""
    up, down = elementary.exp(w), elementary.exp(-w)
    return down * np.einsum("cr,r->c", A, up), up * np.einsum("cr,c->r", A, down)


class LargeExp:
    """The same as `newton.NewtonExp` by SciPy's L-BFGS-B."""

    def __init__(self, n_classes, nu, cap=LARGEST_COEFFICIENT):
        from threadpoolctl import ThreadpoolController

        self.nu, self.cap, self._n_classes = nu, cap, n_classes
        self._blas = ThreadpoolController()

    def fit(self, loss, h):
        """Return (w, tables): the minimiser with min(w) = 0 and the folded table of h."""
        from scipy.optimize import minimize

        tables = folded(loss.side_tables(h))
        diagonal = loss.diagonal if self.nu > 0 else 0.0

        def value_and_slopes(w):
            rows, columns = sums(tables[0], w)
            total = diagonal + rows.sum()
            return np.log(total) + self.nu * w.sum(), (columns - rows) / total + self.nu

        # SciPy's own sums must not depend on the number of threads.
        with self._blas.limit(limits=1, user_api="blas"):
            found = minimize(
                value_and_slopes, np.zeros(self._n_classes), jac=True, method="L-BFGS-B",
                bounds=[(0.0, self.cap)] * self._n_classes,
                options={"maxiter": MAX_ITERATIONS, "ftol": newton.TOLERANCE**1.5, "gtol": SLOPE / self._n_classes},
            )  # fmt: skip
        w = loss.data.comm.broadcast(np.clip(found.x, 0.0, self.cap))
        return w - w.min(), tables


def exp_solver(n_classes, nu):
    """The solver for so many classes."""
    return (LargeExp if n_classes > MANY_COLUMNS else newton.NewtonExp)(n_classes, nu)


SOLVERS = {**newton.SOLVERS, "exp": exp_solver}
