"""Fits all coefficients at once with SciPy's L-BFGS-B, for either pairwise loss.

Problem
    minimise over 0 <= w <= cap  sum over rows i and classes y != y_i of s_i L(F[y_i](x_i) - F[y](x_i))  +  nu sum(w),
    F[c](x) = sum of w h(x) over the coordinates of class c, L exponential or logistic, s_i the weights of the rows.

Paper: C. Shen and Z. Hao, A direct formulation for totally-corrective multi-class boosting.
"""

import numpy as np
from threadpoolctl import ThreadpoolController

from pymcboost.solvers.columns import Columns, Solved

LBFGS_ITERATIONS = 100
LBFGS_MEMORY = 10
# A cold start ends if the objective, as a mean over all pairs, changes by at most this, or has no larger slope.
COLD_CHANGE = 1e-9
COLD_SLOPE = 1e-5


class LBFGS:
    """Fits all coefficients with SciPy's L-BFGS-B, for either loss.

    Parameters
    ----------
    weights : PairWeights
        In float64. Afterwards they belong to the solution.
    max_iterations : int, default=LBFGS_ITERATIONS
    cold : bool, default=False
        Start at 0, and stop at a small change or slope of the mean objective. If the objective has practically no
        minimum, as for separable data, the coefficients then usually stay near 0 and spread over many learners. At the
        minimum, few learners would have coefficients.
    """

    def __init__(self, weights, max_iterations=LBFGS_ITERATIONS, cold=False):
        self.weights = weights
        self.max_iterations = max_iterations
        self.cold = cold
        self._thread_pools = ThreadpoolController()

    def solve(self, columns, tol=1e-3, **_):
        """Minimize the objective from the coefficients in ``columns``, whose ``w`` is updated.

        Parameters
        ----------
        columns : Columns
        tol : float
            Largest violation left, relative to that at the start. A cold start ignores it.

        Returns
        -------
        Solved
        """
        from scipy.optimize import minimize

        weights = self.weights
        if self.cold:
            columns.w[:] = 0.0
        trial = Columns(columns.H, columns.ptr, columns.column, columns.w)

        def value_and_slopes(w):
            trial.w = np.ascontiguousarray(w)
            return weights.refresh(trial) / scale, weights.slopes(trial) / scale

        weights.refresh(columns)
        first = float(weights.violations(columns).max(initial=0.0))
        scale = first if first > 0 else 1.0
        change = 0.0
        if self.cold:
            data = weights.data
            scale = float(data.weight.sum()) * (data.n_classes - 1)
            tol = COLD_SLOPE
            change = COLD_CHANGE
        # More threads would only spin, because the vectors have a few thousand numbers.
        with self._thread_pools.limit(limits=1, user_api="blas"):
            result = minimize(
                value_and_slopes,
                columns.w,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, weights.cap)] * len(columns.w),
                options={
                    "maxiter": self.max_iterations,
                    "maxcor": LBFGS_MEMORY,
                    "gtol": tol,
                    "ftol": change,
                    "maxls": 50,
                },
            )
        columns.w[:] = np.clip(result.x, 0.0, weights.cap).astype(np.float32)
        value = weights.refresh(columns)
        last = float(weights.violations(columns).max(initial=0.0))
        return Solved(
            objective=value,
            violation=last / first if first > 0 else 0.0,
            passes=int(result.nit),
            updates=int(result.nfev),
        )
