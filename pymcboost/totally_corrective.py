"""Solvers that optimise the coefficients of all weak learners at once, for the pairwise losses.

Problem
    minimise over 0 <= w <= cap  sum over rows i and classes y != y_i of s_i L(F[y_i](x_i) - F[y](x_i))  +  nu sum(w),
    F[c](x) = sum of w h(x) over the coordinates of class c, L exponential or logistic, s_i the weights of the rows.

Papers: G. Lin, C. Shen, A. van den Hengel and D. Suter, Fast training of effective multi-class boosting using
coordinate descent optimization (FCD); C. Shen and Z. Hao, A direct formulation for totally-corrective multi-class
boosting.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController

from pymcboost._kernels import elementary
from pymcboost._kernels import fcd as _fcd
from pymcboost._kernels.aligned import aligned_zeros

# Largest coefficient. With nu > 0 the best one is below log(1 / nu) of the loss that the learner mends, so that this
# binds only for a learner without mistakes and C beyond 4e8, or where nu = 0.
LARGEST_COEFFICIENT = 20.0
# Rows above which weights are kept in float32.
LARGE_DATA = 10_000
# Added to the weights, far below what a sum can see, far above denormal numbers.
SMALLEST = {np.dtype(np.float32): 1e-30, np.dtype(np.float64): 1e-200}
# Updates after which weights in float32 are computed anew from the coefficients.
REFRESH = 1000
# exp() of more than this is not formed; odds beyond it are those of a lost case anyway.
LARGEST_EXPONENT = {np.dtype(np.float32): 60.0, np.dtype(np.float64): 600.0}
BLOCK_ROWS = 4096
LBFGS_ITERATIONS = 100
LBFGS_MEMORY = 10
# A cold start ends where the objective, as a mean over all pairs, changes by no more than this or has no larger slope.
COLD_CHANGE, COLD_SLOPE = 1e-9, 1e-5


def padded(n_rows):
    """Rows, rounded up to what the kernels take at a time."""
    return -(-n_rows // 64) * 64


def pack(h):
    """Outputs (n, m) of +-1 as bits, set where -1: (n, padded(m) / 32) words, the first row in the lowest bit."""
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
        Coordinates of class c are ``ptr[c]..ptr[c + 1]``.
    column : ndarray of int32 (n_coordinates,)
        Their learners.
    w : ndarray of float64 (n_coordinates,)
    """

    H: np.ndarray
    ptr: np.ndarray
    column: np.ndarray
    w: np.ndarray

    @classmethod
    def shared(cls, H, coef):
        """Every learner has a coefficient in every class: coef (n, K)."""
        n, K = coef.shape
        column = np.tile(np.arange(n, dtype=np.int32), K)
        return cls(H, np.arange(K + 1, dtype=np.int64) * n, column, np.ascontiguousarray(coef.T).ravel())

    @classmethod
    def of_classes(cls, H, coef, owner, n_classes):
        """Every learner belongs to one class: coef, owner (n,)."""
        order = np.argsort(owner, kind="stable")
        ptr = np.searchsorted(owner[order], np.arange(n_classes + 1)).astype(np.int64)
        return cls(H, ptr, order.astype(np.int32), coef[order])

    def scores(self, F, n_threads=1):
        """Scores of the rows into F (K, stride), float64 on a 64-byte boundary."""
        _fcd.margins(self.H, self.ptr, self.column, self.w, F, n_threads)

    def spread(self, flags):
        """One flag for each learner as one for each coordinate."""
        return np.ascontiguousarray(flags[self.column])

    def coefficients(self, n_classes=None):
        """Coefficients by learner: (n,), or (n, K) where learners are shared by K classes."""
        if n_classes is not None:
            return self.w.reshape(n_classes, -1).T.copy()
        coef = np.empty(len(self.w))
        coef[self.column] = self.w
        return coef


@dataclass
class Solved:
    """How a solver ended: the objective, the violation it met last, relative to the first, passes and updates."""

    objective: float
    violation: float
    passes: int
    updates: int


class _Weights:
    """Weights u of all (row, other class) pairs, class by class: (K, stride)."""

    def __init__(self, data, nu, cap=LARGEST_COEFFICIENT, n_threads=1, dtype=np.float64):
        self.data, self.nu, self.cap, self.n_threads = data, nu, cap, n_threads
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
        return self.restart(self.scores(columns)) + self.nu * float(columns.w.sum())

    def slopes(self, columns):
        """Derivative of the objective by every coefficient."""
        sums = np.zeros((len(columns.w), 2))
        _fcd.coordinate_sums(
            self.U, self.data.class_start, columns.H, columns.ptr, columns.column, sums, self.n_threads
        )
        return self.nu + sums[:, 1] - sums[:, 0]

    def violations(self, columns):
        """By how much every coordinate misses the optimality conditions (eq. 16, times nu)."""
        out = np.empty(len(columns.w))
        _fcd.violations(self.slopes(columns), columns.w, self.cap, out)
        return out

    def _set(self, F, keep):
        """Weights (and the loss) from scores F (K, m), or from zero scores; ``keep(exponents, weight)`` gives both."""
        data = self.data
        start = data.class_start
        value = 0.0
        blocks = (
            (c, slice(at, min(at + BLOCK_ROWS, start[c + 1])))
            for c in range(data.n_classes)
            for at in range(start[c], start[c + 1], BLOCK_ROWS)
        )
        for c, rows in blocks:
            minus = np.zeros((data.n_classes, rows.stop - rows.start)) if F is None else F[:, rows] - F[c, rows]
            part, u = keep(minus, data.weight[rows])
            u[c] = 0.0
            part[c] = 0.0
            value += float(part.sum())
            self.U[:, rows] = u
        return value


class ExpWeights(_Weights):
    """Exponential loss: u = s exp(-margin)."""

    link = "softmax2"

    def restart(self, F=None):
        """Weights of scores F (K, m), or of zeros; returns the loss."""

        def keep(minus, weight):
            u = elementary.exp(np.minimum(minus, LARGEST_EXPONENT[self.dtype], out=minus), out=minus)
            u *= weight
            return u, u + SMALLEST[self.dtype]

        return self._set(F, keep)

    def loss(self):
        """Sum of the weights."""
        return _fcd.total(self.U, self.data.class_start)


class LogWeights(_Weights):
    """Logistic loss: u = s / (1 + exp(margin))."""

    link = "softmax"

    def restart(self, F=None):
        """Weights of scores F (K, m), or of zeros; returns the loss."""

        def keep(minus, weight):
            value = np.logaddexp(0.0, minus)
            return weight * value, weight * np.exp(minus - value)

        self._loss = self._set(F, keep)
        return self._loss

    def loss(self):
        """Loss of the last `restart`."""
        return self._loss


class FCD(ExpWeights):
    """Fast coordinate descent for the exponential loss (Algorithm 2).

    The first pass updates the new coordinates in order. Later ones visit all, class after class, both in random order,
    and update those that violate the optimality conditions. (The paper picks at random among the coordinates that did
    so before the pass. To stay in one class is what makes an update cost one pass over the rows; and that pass measures
    the violation, too, so that no working set has to be found before.)

    Parameters
    ----------
    data : TrainingData
    nu : float
    cap : float, default=LARGEST_COEFFICIENT
    n_threads : int, default=1
    dtype : numpy dtype, optional
        float32 for more than 10,000 rows, else float64.
    """

    def __init__(self, data, nu, cap=LARGEST_COEFFICIENT, n_threads=1, dtype=None):
        if dtype is None:
            dtype = np.float32 if data.n_rows > LARGE_DATA else np.float64
        super().__init__(data, nu, cap, n_threads, dtype)
        self._before = np.zeros(data.n_rows, dtype=self.dtype)
        self._order = np.zeros(data.n_classes, dtype=np.int32)
        self._since = 0
        self.refresh_every = REFRESH

    def restart(self, F=None):
        """Weights of scores F (K, m), or of zeros; returns the loss."""
        self._since = 0
        return super().restart(F)

    def descend(self, columns, listed=None, tol=0.0, seed=0):
        """One pass; ``listed`` (n_coordinates,) are the coordinates to update, or all that violate by more than tol.

        Returns
        -------
        (int, float)
            Updates, and the largest violation met.
        """
        n = len(columns.w)
        listed = np.zeros(0, dtype=np.uint8) if listed is None else listed.astype(np.uint8)
        updates, largest = _fcd.descend(
            self.U, self.data.class_start, columns.H, columns.ptr, columns.column, columns.w, listed, self.nu, self.cap,
            tol, SMALLEST[self.dtype], seed, self._before, self._order, np.empty(n, dtype=np.int32),
        )  # fmt: skip
        self._since += updates
        return updates, largest

    def objective(self, columns):
        """Loss and penalty, by the weights at hand."""
        return self.loss() + self.nu * float(columns.w.sum())

    def solve(self, columns, fresh=None, max_passes=1000, tol=1e-3, first=None, seed=0):
        """Minimise the objective from the coefficients in ``columns``, to which the weights must belong.

        Parameters
        ----------
        columns : Columns
            Its ``w`` is updated.
        fresh : ndarray of bool (n_coordinates,), optional
            Coordinates that the first pass updates; without it every pass picks its own.
        max_passes : int
        tol : float
            Largest violation left, relative to that at the start.
        first : float, optional
            The violation at the start, where it is known.
        seed : int

        Returns
        -------
        Solved
        """
        if first is None:
            first = float(self.violations(columns).max(initial=0.0))
        updates, largest, passes = 0, first, 0
        while passes < max_passes and first > 0:
            if passes and self.dtype == np.float32 and self._since >= self.refresh_every:
                self.refresh(columns)
            listed = fresh if passes == 0 else None
            n, largest = self.descend(columns, listed, tol * first, seed + passes)
            updates += n
            passes += 1
            if listed is None and largest <= tol * first:
                break
        return Solved(self.objective(columns), largest / first if first > 0 else 0.0, passes, updates)


class LBFGS:
    """All coefficients by SciPy's L-BFGS-B, for either loss.

    Parameters
    ----------
    weights : ExpWeights or LogWeights
        In float64; takes over the weights of the solution.
    max_iterations : int, default=LBFGS_ITERATIONS
    cold : bool, default=False
        Begin at 0, and end at a small change or slope of the mean objective. Where it has no minimum to speak of, as on
        data that can be separated, the coefficients are then usually those of a short way from 0, spread over many
        learners, and not the few at the minimum.
    """

    def __init__(self, weights, max_iterations=LBFGS_ITERATIONS, cold=False):
        self.weights, self.max_iterations, self.cold = weights, max_iterations, cold
        self._blas = ThreadpoolController()

    def solve(self, columns, tol=1e-3, **_):
        """Minimise the objective from the coefficients in ``columns``, whose ``w`` is updated.

        Parameters
        ----------
        columns : Columns
        tol : float
            Largest violation left, relative to that at the start. A cold start takes no notice.

        Returns
        -------
        Solved
        """
        weights = self.weights
        if self.cold:
            columns.w[:] = 0.0
        at = Columns(columns.H, columns.ptr, columns.column, columns.w)

        def value_and_slopes(w):
            at.w = np.ascontiguousarray(w)
            return weights.refresh(at) / scale, weights.slopes(at) / scale

        weights.refresh(columns)
        first = float(weights.violations(columns).max(initial=0.0))
        scale, change = first if first > 0 else 1.0, 0.0
        if self.cold:
            data = weights.data
            scale, tol, change = float(data.weight.sum()) * (data.n_classes - 1), COLD_SLOPE, COLD_CHANGE
        with self._blas.limit(limits=1, user_api="blas"):  # more would spin over vectors of a few thousand numbers
            found = minimize(
                value_and_slopes, columns.w, jac=True, method="L-BFGS-B", bounds=[(0.0, weights.cap)] * len(columns.w),
                options={
                    "maxiter": self.max_iterations, "maxcor": LBFGS_MEMORY, "gtol": tol, "ftol": change, "maxls": 50,
                },
            )  # fmt: skip
        columns.w[:] = np.clip(found.x, 0.0, weights.cap).astype(np.float32)
        value = weights.refresh(columns)
        left = float(weights.violations(columns).max(initial=0.0))
        return Solved(value, left / first if first > 0 else 0.0, int(found.nit), int(found.nfev))
