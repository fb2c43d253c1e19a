"""Fast coordinate descent (FCD): coefficients of many weak learners one after the other, for the exponential loss.

Problem
    minimise over 0 <= w <= cap  sum over rows i and classes y != y_i of s_i exp(F[y](x_i) - F[y_i](x_i))  +  nu sum(w),
    F[c](x) = sum of w h(x) over the coordinates of class c, s_i the weights of the rows.

Paper: G. Lin, C. Shen, A. van den Hengel and D. Suter, Fast training of effective multi-class boosting using coordinate
descent optimization.
"""

import numpy as np

from pymcboost._kernels import fcd as _fcd
from pymcboost.solvers.columns import Solved
from pymcboost.solvers.weights import LARGEST_COEFFICIENT, SMALLEST, PairWeights

# With more rows than this, weights are float32.
LARGE_DATA = 10_000
# Number of updates after which float32 weights are recomputed from the coefficients.
REFRESH = 1000


class FCD(PairWeights):
    """Fast coordinate descent for the exponential loss (Algorithm 2).

    The first pass updates the new coordinates in order. Later passes visit all coordinates, class after class, with
    classes and coordinates in random order, and update those that violate the optimality conditions.

    The paper picks at random among the coordinates that violated the conditions before the pass. Here an update costs
    one pass over the rows, because consecutive updates stay in one class. The same pass measures the violation, so no
    working set has to be found first.

    Parameters
    ----------
    loss : losses.PairwiseExp
    data : TrainingData
    nu : float
    cap : float, default=LARGEST_COEFFICIENT
    n_threads : int, default=1
    dtype : numpy dtype, optional
        float32 for more than 10,000 rows, else float64.
    """

    def __init__(self, loss, data, nu, cap=LARGEST_COEFFICIENT, n_threads=1, dtype=None):
        if dtype is None:
            dtype = np.float32 if data.n_rows > LARGE_DATA else np.float64
        super().__init__(loss, data, nu, cap, n_threads, dtype)
        self._work = np.zeros(data.n_rows, dtype=self.dtype)
        self._class_order = np.zeros(data.n_classes, dtype=np.int32)
        self._n_updates = 0  # since the weights were computed
        self.refresh_every = REFRESH

    def start(self, F=None):
        """Compute the weights for scores F (K, m), or for zeros; return the loss."""
        self._n_updates = 0
        return super().start(F)

    def loss(self):
        """Sum of the weights."""
        return _fcd.total(self.U, self.data.class_start)

    def descend(self, columns, listed=None, tol=0.0, seed=0):
        """Make one pass over the coordinates in ``listed`` (n_coordinates,), or all that violate by more than tol.

        Returns
        -------
        (int, float)
            Updates, and the largest violation met.
        """
        n = len(columns.w)
        listed = np.zeros(0, dtype=np.uint8) if listed is None else listed.astype(np.uint8)
        updates, largest = _fcd.descend(
            self.U,
            self.data.class_start,
            columns.H,
            columns.ptr,
            columns.column,
            columns.w,
            listed,
            self.nu,
            self.cap,
            tol,
            SMALLEST[self.dtype],
            seed,
            self._work,
            self._class_order,
            np.empty(n, dtype=np.int32),
        )
        self._n_updates += updates
        return updates, largest

    def objective(self, columns):
        """Loss and penalty, computed from the current weights."""
        return self.loss() + self.nu * float(columns.w.sum())

    def solve(self, columns, fresh=None, max_passes=1000, tol=1e-3, first=None, seed=0):
        """Minimize the objective from the coefficients in ``columns``, to which the weights must belong.

        Parameters
        ----------
        columns : Columns
            Its ``w`` is updated.
        fresh : ndarray of bool (n_coordinates,), optional
            Coordinates that the first pass updates; if None, every pass chooses its coordinates.
        max_passes : int
        tol : float
            Largest violation left, relative to that at the start.
        first : float, optional
            The violation at the start, if it is known.
        seed : int

        Returns
        -------
        Solved
        """
        if first is None:
            first = float(self.violations(columns).max(initial=0.0))
        updates = 0
        largest = first
        passes = 0
        while passes < max_passes and first > 0:
            if passes and self.dtype == np.float32 and self._n_updates >= self.refresh_every:
                self.refresh(columns)
            listed = fresh if passes == 0 else None
            n, largest = self.descend(columns, listed, tol * first, seed + passes)
            updates += n
            passes += 1
            if listed is None and largest <= tol * first:
                break
        violation = largest / first if first > 0 else 0.0
        return Solved(self.objective(columns), violation, passes, updates)
