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
# Maximum number of entries of X that a solve may visit, where each row counts VISIT more: a second or two. A step on
# the free variables counts by the time it takes.
MAX_VISITS = 2_000_000_000
VISIT = 32
NEWTON_VISIT = 1 / 16
# Features count as not scaled if a mean is above FAR times its deviation, or a deviation above WIDE times the
# smallest.
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
        beta = np.zeros(n)
        E = target.copy()
        if start is not None:
            padded = np.zeros(n)
            padded[:m] = start
            tried = restart(padded, lo, hi)
            if tried is not None:
                sums = self._sums(tried)
                gain, curve = dot(target, tried), dot(tried, sums)
                scale = min(1.0, gain / curve) if curve > 0 else 1.0
                if scale > 0:
                    beta = scale * tried
                    E = target - scale * sums
        up, down = np.empty(n), np.empty(n)
        steps = 0
        left = MAX_STEPS
        while True:
            n_steps, _ = svmdual.smo(
                self._K, self._diagonal, lo, hi, beta, E, up, down, tol, left, max(1, PORTION // n)
            )
            steps = steps + n_steps
            left = left - n_steps
            sums = self._sums(beta)
            E = target - sums
            violation, _, _ = violation_of(beta[:m], E[:m], lo[:m], hi=hi[:m])
            if violation <= tol or not n_steps or not left:
                break
        bias = bias_of(beta, E, lo, hi)
        short = is_short(violation, tol, sums[:m])
        return Solution(
            beta[:m].copy(),
            bias,
            sums[:m] + bias,
            norm2=dot(beta, sums),
            weights=None,
            violation=violation,
            n_iter=steps,
            short=short,
        )


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
        self._row = VISIT + (X.nnz if hasattr(X, "indptr") else X.size) / self.m
        self._most = max(EPOCHS * self.m * self._row, MAX_VISITS)
        self._warned = False
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
        tried = None if start is None else restart(start, lo, hi)
        if tried is not None:
            self._rows.add(tried, w)
            gain, curve = dot(target, tried), dot(w, w)
            scale = max(0.0, min(1.0, gain / curve) if curve > 0 else 1.0)
            beta, w = scale * tried, scale * w
            bias = bias_of(beta, target - self._scores(w), lo, hi)
        active = np.empty(self.m, dtype=np.int32)
        portion = max(1, int(PORTION / self._row))
        inner = tol / 2
        steps = 0
        seed = self._seed
        rounding = 1e-14 * (1 + float(np.abs(d).max(initial=0)))
        work = 0.0
        while True:
            n_steps, left, residual, bias = self._rows.solve(
                self._norm,
                target,
                lo,
                hi,
                beta,
                w,
                bias,
                self._rho,
                inner,
                EPOCHS,
                seed,
                active,
                portion,
            )
            steps = steps + n_steps
            seed = seed + 1
            work = work + n_steps * self._row
            _balance(beta, target - self._scores(w), lo, hi)
            if max(left, residual) > inner:
                self._warn_unscaled()
                bias, taken = self._newton(
                    beta, target, lo, hi=hi, bias=bias, most=self._most - work
                )
                work += taken
            w = np.zeros(self.d)  # recomputed, without the rounding errors of all steps
            self._rows.add(beta, w)
            sums = self._scores(w)
            E = target - sums
            violation, _, _ = violation_of(beta, E, lo, hi)
            if violation <= tol or inner < rounding:
                break
            if work >= self._most:
                self._most = EPOCHS * self.m * self._row  # further solves would need as long
                break
            if max(left, residual) <= inner:
                inner /= 4
        bias = bias_of(beta, E, lo, hi)
        return Solution(
            beta,
            bias,
            sums + bias,
            norm2=dot(w, w),
            weights=w,
            violation=violation,
            n_iter=steps,
            short=is_short(violation, tol, sums),
        )

    def _warn_unscaled(self):
        """Warn as soon as a solve converges slowly because features are not scaled."""
        if self._warned:
            return
        self._warned = True
        j, why = unscaled(self._X)
        if j is not None:
            warn(
                f"the SVM converges slowly and may stop before it has converged: {why} "
                f"(feature {j}). Use scale=True, or scale the features"
            )

    def _newton(self, beta, target, lo, hi, bias, most):
        """Solve for the free variables at once, up to the first bound, again and again.

        Returns the bias, and the work done, which ends soon after ``most``.

        Single coordinates are slow where the free rows are many for their dimensions, or nearly parallel.
        """
        work = 0.0
        row = np.empty(self.m, dtype=np.int32)
        for _ in range(NEWTON_STEPS):
            if work >= most:
                break
            n, moved, is_full_step, bias_of_step = self._rows.free_step(
                target, lo, hi, beta, row, MOST_FREE, RIDGE
            )
            if 2 <= n <= MOST_FREE:
                work += NEWTON_VISIT * n**2 * (n + self.d) + self.m * self._row
            if is_full_step:
                return bias_of_step, work
            if not moved:
                break
        return bias, work


def unscaled(X):
    """Find and describe a feature whose mean is large for its spread, or whose spread is far larger than others'."""
    sparse = hasattr(X, "indptr")
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    square = X.astype(np.float64).power(2) if sparse else np.square(X, dtype=np.float64)
    square = np.asarray(square.mean(axis=0)).ravel()
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    varies = spread > 1e-7 * np.abs(mean)
    if not varies.any():
        return None, ""
    j = int(np.where(varies, np.abs(mean) / np.where(varies, spread, 1), 0).argmax())
    if abs(mean[j]) > FAR * spread[j]:
        return (
            j,
            f"a feature has a mean of {mean[j]:.3g} but deviates from it by only {spread[j]:.3g}",
        )
    j = int(np.where(varies, spread, 0).argmax())
    least = spread[varies].min()
    if spread[j] > WIDE * least:
        return (
            j,
            f"a feature has a standard deviation of {spread[j]:.3g}, another one of {least:.3g}",
        )
    return None, ""


def _balance(beta, E, lo, hi):
    """Make the sum of beta 0 at the lowest cost, by changing beta where the gradient shows that it matters least."""
    excess = float(beta.sum())
    if excess > 0:
        order = np.argsort(E, kind="stable")
        room = (beta - lo)[order]
    else:
        order = np.argsort(-E, kind="stable")
        room = (hi - beta)[order]
    taken = np.diff(np.minimum(np.cumsum(room), abs(excess)), prepend=0.0)
    beta[order] -= np.sign(excess) * taken
    np.clip(beta, lo, hi, out=beta)
