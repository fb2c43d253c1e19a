"""The built-in solver of the margin-rescaled SVM: pairwise steps on a kernel in memory, or coordinate steps on rows."""

import numpy as np

from pymcboost._kernels import svmdual
from pymcboost._warn import warn
from pymcboost.hinge.dual import (
    BLOCK,
    Solution,
    bias_of,
    bounds,
    dot,
    is_short,
    restart,
    violation_of,
)

# After this many epochs of coordinate steps, the free variables are solved for together, if there are at most
# MOST_FREE, with this share of their mean diagonal added.
EPOCHS = 300
MOST_FREE = 500
NEWTON_STEPS = 200
RIDGE = 1e-10
# Maximum work of a solve, which takes a second or two. A visit of a row counts as its number of entries plus VISIT. A
# step on n free variables counts as NEWTON_VISIT times the number of its operations.
MAX_VISITS = 2_000_000_000
VISIT = 32
NEWTON_VISIT = 1 / 16
# Features count as not scaled if a mean is above FAR times the feature's standard deviation, or a standard deviation is
# above WIDE times the smallest one.
FAR = 1e3
WIDE = 1e5
# Maximum number of pairwise steps of a solve.
MAX_STEPS = 10_000_000
# Number of entries of K or X between two checks for Ctrl-C: about 50 ms.
PORTION = 20_000_000


class DenseKernel:
    """Pairwise steps on a float32 kernel in memory, started from the multipliers of an earlier problem if that helps.

    Parameters
    ----------
    m, block
        As for `libsvm.LibsvmKernel`.
    n_threads : ignored
    """

    name = "the pairwise solver"

    @staticmethod
    def bytes_of(m):
        """Memory for m rows, in bytes."""
        return 4 * m * m + 80 * m

    def __init__(self, m, block, n_threads=1):
        n = -(-m // svmdual.BLOCK) * svmdual.BLOCK
        self.m = m
        self.n = n
        self._K = np.zeros((n, n), dtype=np.float32)
        for begin in range(0, m, BLOCK):
            end = min(begin + BLOCK, m)
            self._K[begin:end, :m] = block(begin, end)
        self._diagonal = np.ascontiguousarray(self._K.diagonal(), dtype=np.float64)

    def _sums(self, beta):
        sums = np.empty(self.n)
        svmdual.kernel_sums(self._K, beta, sums)
        return sums

    def solve(self, sign, d, c, tol, start=None):
        """Solve one problem; see `libsvm.LibsvmKernel.solve`. ``start``: beta (m,) of an earlier problem, or None."""
        m = self.m
        n = self.n
        target = np.zeros(n)
        lo = np.zeros(n)
        hi = np.zeros(n)
        target[:m] = sign * d
        lo[:m], hi[:m] = bounds(sign, c)
        beta, E = self._start(start, target, lo, hi)
        up = np.empty(n)
        down = np.empty(n)
        n_steps = 0
        while True:
            steps_left = MAX_STEPS - n_steps
            new_steps, _ = svmdual.smo(
                self._K,
                self._diagonal,
                lo,
                hi,
                beta,
                E,
                up,
                down,
                tol,
                steps_left,
                max(1, PORTION // n),
            )
            n_steps += new_steps
            # Computed anew, without the rounding errors of all steps.
            sums = self._sums(beta)
            E = target - sums
            violation, _, _ = violation_of(beta[:m], E[:m], lo[:m], hi=hi[:m])
            if violation <= tol or not new_steps or n_steps >= MAX_STEPS:
                break
        bias = bias_of(beta, E, lo, hi)
        return Solution(
            beta[:m].copy(),
            bias,
            sums[:m] + bias,
            norm2=dot(beta, sums),
            weights=None,
            violation=violation,
            n_iter=n_steps,
            short=is_short(violation, tol, sums[:m]),
        )

    def _start(self, start, target, lo, hi):
        """Multipliers to start from, and their gradients: those of an earlier problem if that helps, else 0."""
        if start is not None:
            earlier = np.zeros(self.n)
            earlier[: self.m] = start
            beta = restart(earlier, lo, hi)
            if beta is not None:
                sums = self._sums(beta)
                scale = _best_scale(dot(target, beta), dot(beta, sums))
                if scale > 0:
                    return scale * beta, target - scale * sums
        return np.zeros(self.n), target.copy()


class LinearRows:
    """Coordinate steps on the rows of X, without a kernel: O(d) memory besides X, one row per step.

    Parameters
    ----------
    X : ndarray of float32 (m, d) or CSR matrix of float32
    seed : int
        Seed of the order in which rows are visited.
    """

    name = "the coordinate solver"

    def __init__(self, X, seed=0):
        self.m, self.d = X.shape
        self._X = X
        if hasattr(X, "indptr"):
            data = np.ascontiguousarray(X.data, dtype=np.float32)
            self._rows = svmdual.Rows(
                None,
                data,
                X.indptr.astype(np.int64),
                X.indices.astype(np.int32, copy=False),
                self.d,
            )
            self._norm = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
        else:
            X = np.ascontiguousarray(X, dtype=np.float32)
            self._rows = svmdual.Rows(X)
            self._norm = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        self._row_work = VISIT + (X.nnz if hasattr(X, "indptr") else X.size) / self.m
        self._max_work = max(EPOCHS * self.m * self._row_work, MAX_VISITS)
        self._has_warned = False
        self._rho = max(float(self._norm.mean()), 1e-6)
        self._seed = seed

    def _scores(self, w):
        sums = np.empty(self.m)
        self._rows.dots(w, sums)
        return sums

    def solve(self, sign, d, c, tol, start=None):
        """Solve one problem; see `libsvm.LibsvmKernel.solve`. ``start``: beta (m,) of an earlier problem, or None."""
        target = sign * d
        lo, hi = bounds(sign, c)
        beta = np.zeros(self.m)
        w = np.zeros(self.d)
        bias = 0.0
        earlier = None if start is None else restart(start, lo, hi)
        if earlier is not None:
            self._rows.add(earlier, w)
            scale = max(0.0, _best_scale(dot(target, earlier), dot(w, w)))
            beta = scale * earlier
            w = scale * w
            bias = bias_of(beta, target - self._scores(w), lo, hi)
        active = np.empty(self.m, dtype=np.int32)
        portion = max(1, int(PORTION / self._row_work))
        inner_tol = tol / 2
        rounding = 1e-14 * (1 + float(np.abs(d).max(initial=0)))
        seed = self._seed
        n_visits = 0
        work = 0.0
        while True:
            new_visits, violation_left, residual, bias = self._rows.solve(
                self._norm,
                target,
                lo,
                hi,
                beta,
                w,
                bias,
                self._rho,
                inner_tol,
                EPOCHS,
                seed,
                active,
                portion,
            )
            n_visits += new_visits
            seed += 1
            work += new_visits * self._row_work
            _balance(beta, target - self._scores(w), lo, hi)
            has_converged = max(violation_left, residual) <= inner_tol
            if not has_converged:
                self._warn_unscaled()
                bias, newton_work = self._newton(
                    beta, target, lo, hi=hi, bias=bias, max_work=self._max_work - work
                )
                work += newton_work
            # Computed anew, without the rounding errors of all steps.
            w = np.zeros(self.d)
            self._rows.add(beta, w)
            sums = self._scores(w)
            E = target - sums
            violation, _, _ = violation_of(beta, E, lo, hi)
            if violation <= tol or inner_tol < rounding:
                break
            if work >= self._max_work:
                # Further solves would need as long.
                self._max_work = EPOCHS * self.m * self._row_work
                break
            if has_converged:
                inner_tol /= 4
        bias = bias_of(beta, E, lo, hi)
        return Solution(
            beta,
            bias,
            sums + bias,
            norm2=dot(w, w),
            weights=w,
            violation=violation,
            n_iter=n_visits,
            short=is_short(violation, tol, sums),
        )

    def _warn_unscaled(self):
        """Warn as soon as a solve converges slowly because features are not scaled."""
        if self._has_warned:
            return
        self._has_warned = True
        j, reason = unscaled(self._X)
        if j is not None:
            warn(
                f"the SVM converges slowly and may stop before it has converged: {reason} "
                f"(feature {j}). Use scale=True, or scale the features"
            )

    def _newton(self, beta, target, lo, hi, bias, max_work):
        """Solve for the free variables at once, up to the first bound, again and again.

        Returns the bias, and the work done, which may exceed ``max_work`` by one step.

        Single coordinates are slow if the number of free rows is large for their dimension, or rows are nearly
        parallel.
        """
        work = 0.0
        row = np.empty(self.m, dtype=np.int32)
        for _ in range(NEWTON_STEPS):
            if work >= max_work:
                break
            n, moved, is_full_step, bias_of_step = self._rows.free_step(
                target, lo, hi, beta, row, MOST_FREE, RIDGE
            )
            if 2 <= n <= MOST_FREE:
                work += NEWTON_VISIT * n**2 * (n + self.d) + self.m * self._row_work
            if is_full_step:
                return bias_of_step, work
            if not moved:
                break
        return bias, work


def unscaled(X):
    """Find and describe a feature whose mean is large for its deviation, or whose deviation is far above others'.

    Return its number, or None, and the description.
    """
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    if hasattr(X, "indptr"):
        squares = X.astype(np.float64).power(2)
    else:
        squares = np.square(X, dtype=np.float64)
    mean_square = np.asarray(squares.mean(axis=0)).ravel()
    deviation = np.sqrt(np.maximum(mean_square - mean**2, 0))
    varies = deviation > 1e-7 * np.abs(mean)
    if not varies.any():
        return None, ""
    relative_mean = np.where(varies, np.abs(mean) / np.where(varies, deviation, 1), 0)
    j = int(relative_mean.argmax())
    if abs(mean[j]) > FAR * deviation[j]:
        return j, (
            f"a feature has a mean of {mean[j]:.3g} but deviates from it by only {deviation[j]:.3g}"
        )
    j = int(np.where(varies, deviation, 0).argmax())
    smallest = deviation[varies].min()
    if deviation[j] > WIDE * smallest:
        return j, (
            f"a feature has a standard deviation of {deviation[j]:.3g}, another one of {smallest:.3g}"
        )
    return None, ""


def _best_scale(gain, curvature):
    """Factor, at most 1, of multipliers that maximizes the dual along them."""
    return min(1.0, gain / curvature) if curvature > 0 else 1.0


def _balance(beta, E, lo, hi):
    """Make the sum of beta 0 at the lowest cost, by changing beta where the gradient shows that it matters least."""
    excess = float(beta.sum())
    if excess > 0:
        order = np.argsort(E, kind="stable")
        largest_change = (beta - lo)[order]
    else:
        order = np.argsort(-E, kind="stable")
        largest_change = (hi - beta)[order]
    change = np.diff(np.minimum(np.cumsum(largest_change), abs(excess)), prepend=0.0)
    beta[order] -= np.sign(excess) * change
    np.clip(beta, lo, hi, out=beta)
