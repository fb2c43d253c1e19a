"""Margin-rescaled support vector machines: the weak learners of HingeBoost.OC.

Problem (eq. 15)
    minimise over w, b: 1/2 |w|^2 + c sum_i max(0, d_i - s_i f(x_i)),  f(x) = w.phi(x) + b,  s_i = +-1, any d_i.
Dual (eq. 16), in beta_i = s_i alpha_i
    maximise sum_i s_i d_i beta_i - 1/2 sum_ij beta_i beta_j K_ij with beta_i between 0 and s_i c, sum_i beta_i = 0.
Solvers
    `LibsvmKernel`: LIBSVM's C-SVC on a precomputed kernel with two more points, the anchors, that turn its linear term
    from 1 into d_i; `DenseKernel`: pairwise steps on a kernel in memory; `LinearRows`: coordinate steps on the rows.
    All stop by LIBSVM's criterion: no beta that may rise has a gradient more than ``tol`` above one that may fall.
    Rows with s_i = 0 take no part.

Sources: T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding; C.-C. Chang and C.-J. Lin,
LIBSVM: a library for support vector machines.
"""

import ctypes
import warnings
from dataclasses import dataclass, replace

import numpy as np

from pymcboost._kernels import elementary, svmdual
from pymcboost._kernels import products as _products
from pymcboost.threads import available_memory, in_words

KERNELS = ("linear", "poly", "rbf", "perceptron")
# Kernel rows made at once.
BLOCK = 256
# Bytes per kernel entry: LIBSVM's nodes, and what it caches of them at most.
NODE, CACHED = 16, 4
LARGEST_CACHE = 2 << 30
# The anchors' own entries are this many times what the gradient of an anchor can otherwise reach.
ANCHOR_MARGIN = 10.0
# What rounding to float32, in LIBSVM's cache and in kernels in memory, may add to a violation, relative to the sums.
ROUNDING = 1e-5
# Epochs of coordinate steps before the free variables are solved for at once, if there are at most so many, with this
# share of their mean diagonal added.
EPOCHS, MOST_FREE, NEWTON_STEPS, RIDGE = 300, 500, 200, 1e-10
# Entries of X that a solve may visit, each row with these more: a second or two. A step on the free variables counts as
# many as take its time.
MAX_VISITS, VISIT, NEWTON_VISIT = 2_000_000_000, 32, 1 / 16
# Features are not scaled where one has a mean of so many of its deviations, or so many times the least deviation.
FAR, WIDE = 1e3, 1e5
# Pairwise steps of a solve.
MAX_STEPS = 10_000_000


@dataclass
class Solution:
    """An optimum: signed dual variables ``beta`` (m,), ``bias``, scores ``f`` (m,) of the rows, and ``norm2`` = |w|^2.

    ``weights`` (d,) is w where rows were given in place of a kernel, else None; ``violation`` of the optimality
    conditions; ``n_iter`` pairwise steps (rows visited, for coordinate steps).
    """

    beta: np.ndarray
    bias: float
    f: np.ndarray
    norm2: float
    weights: np.ndarray | None
    violation: float
    n_iter: int

    def times(self, step):
        """The same function times a number."""
        if step == 1:
            return self
        weights = None if self.weights is None else step * self.weights
        return replace(
            self,
            beta=step * self.beta,
            bias=step * self.bias,
            f=step * self.f,
            norm2=step**2 * self.norm2,
            weights=weights,
        )


def kernel_block(X, Z, kernel, gamma, coef0, degree):
    """Values of a kernel between the rows of X and of Z.

    Parameters
    ----------
    X, Z : ndarray (n, d), (m, d)
    kernel : {"linear", "poly", "rbf", "perceptron"} or callable
        x.z, (gamma x.z + coef0)^degree, exp(-gamma |x - z|^2), -|x - z|, or any ``kernel(X, Z) -> (n, m)``.

    Returns
    -------
    ndarray of float64 (n, m)
    """
    if callable(kernel):
        values = np.asarray(kernel(X, Z), dtype=np.float64)
        if values.shape != (len(X), len(Z)) or not np.isfinite(values).all():
            raise ValueError(
                f"the callable kernel must return finite values of shape {(len(X), len(Z))}; it returned shape "
                f"{values.shape}"
            )
        return values
    X, Z = np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(Z, dtype=np.float64)
    # Not by BLAS: its sums depend on the CPU.
    products = np.empty((len(X), len(Z)))
    _products.products(X, Z, products)
    if kernel == "linear":
        return products
    if kernel == "poly":
        return _power(gamma * products + coef0, degree)
    distance2 = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Z, Z) - 2 * products
    np.maximum(distance2, 0, out=distance2)
    return elementary.exp(-gamma * distance2, out=distance2) if kernel == "rbf" else -np.sqrt(distance2)


def _power(base, degree):
    """base^degree by squaring: NumPy's power depends on the CPU."""
    result = None
    with np.errstate(over="ignore", invalid="ignore"):
        while degree:
            if degree & 1:
                result = base.copy() if result is None else np.multiply(result, base, out=result)
            degree >>= 1
            if degree:
                base = base * base
    return result


def _dot(a, b):
    """Inner product, not by BLAS: its sums depend on the CPU."""
    return float(np.einsum("i,i->", a, b))


def _refuse_memory(needed, m, per_entry, remedy):
    room = available_memory()
    if room is not None and needed > room:
        raise MemoryError(
            f"a kernel of {m} x {m} entries needs about {in_words(needed)} ({per_entry} bytes per entry); "
            f"{in_words(room)} are free. Use {remedy}"
        )


def violation_of(beta, E, lo, hi):
    """By how much a feasible beta with gradient E misses the optimality conditions, and the interval of the bias."""
    low = E[beta < hi].max(initial=-np.inf)
    high = E[beta > lo].min(initial=np.inf)
    return max(0.0, float(low - high)), float(low), float(high)


def bias_of(beta, E, lo, hi):
    """LIBSVM's bias: the mean gradient of the free variables, else the middle of what the others allow."""
    free = (beta > lo) & (beta < hi)
    if free.any():
        return float(E[free].mean())
    _, low, high = violation_of(beta, E, lo, hi)
    if np.isinf(low) or np.isinf(high):
        return 0.0 if np.isinf(low) and np.isinf(high) else float(high if np.isinf(low) else low)
    return (low + high) / 2


def _bounds(sign, c):
    return np.where(sign < 0, -c, 0.0), np.where(sign > 0, c, 0.0)


def _restart(start, lo, hi):
    """Bring the multipliers of another problem on the same rows within these bounds and into balance."""
    alpha = np.minimum(np.abs(start), hi - lo)
    beta = np.where(hi > 0, alpha, -alpha)
    up, down = beta[beta > 0].sum(), -beta[beta < 0].sum()
    if not up or not down:
        return None
    beta[beta > 0] *= min(1.0, down / up)
    beta[beta < 0] *= min(1.0, up / down)
    return beta


def _warn_violation(violation, tol, f, what):
    if violation > tol + ROUNDING * (1 + np.abs(f).max(initial=0)):
        warnings.warn(
            f"{what} has not converged: the optimality conditions are violated by {violation:.3g}, tol={tol:g}. "
            "Scale the features (scale=True), or use a smaller C or a larger tol",
            stacklevel=2,
        )


# -- LIBSVM --------------------------------------------------------------------------------------------------------


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class LibsvmKernel:
    """LIBSVM on one kernel, for any number of problems: the kernel is written once, each solve rewrites the anchors.

    LIBSVM is used as it is. Two points at the end, a+ (label +1) and a- (label -1), have with row i the kernel values
    +-s_i (1 - d_i) / 2c and among themselves a matrix with a negative eigenvalue, so that both multipliers go to their
    bound c at once and stay there: they cancel in the equality constraint and add 1 - d_i to the gradient of row i.

    Parameters
    ----------
    m : int
        Number of rows.
    block : callable
        ``block(begin, end)`` gives rows of the kernel, (end - begin, m).
    n_threads : int, default=1
    """

    def __init__(self, m, block, n_threads=1):
        size = (m + 2) * (m + 4) * NODE
        self._cache = min(CACHED * (m + 2) ** 2 + (1 << 20), LARGEST_CACHE)
        _refuse_memory(
            size + self._cache, m, NODE,
            'solver="coordinate", which takes 4 bytes per entry and none for a linear kernel, or fewer rows',
        )  # fmt: skip
        from libsvm import svm
        from threadpoolctl import ThreadpoolController

        self._svm = svm
        self._threads, self._n_threads = ThreadpoolController(), n_threads
        self.m = m
        nodes = np.zeros((m + 2, m + 4), dtype=np.dtype([("index", "i4"), ("value", "f8")], align=True))
        assert nodes.itemsize == NODE == ctypes.sizeof(svm.svm_node)
        nodes["index"] = np.arange(m + 4)
        nodes["index"][:, -1] = -1
        nodes["value"][:, 0] = np.arange(1, m + 3)
        self._largest = 0.0
        for begin in range(0, m, BLOCK):
            end = min(begin + BLOCK, m)
            rows = block(begin, end)
            nodes["value"][begin:end, 1 : m + 1] = rows
            self._largest = max(self._largest, float(np.abs(rows).sum(axis=1).max()))
        self._nodes = nodes
        self._address = nodes.ctypes.data + np.arange(m + 2, dtype=np.uint64) * np.uint64(nodes.strides[0])

    def _train(self, labels, address, c, tol):
        """Multipliers with signs at the places of the problem's rows, the threshold and the number of steps."""
        svm = self._svm
        # Not by the constructors: they convert data in Python, and set the output of the whole process.
        problem, parameter = svm.svm_problem.__new__(svm.svm_problem), svm.svm_parameter.__new__(svm.svm_parameter)
        parameter.set_to_default_values()
        parameter.svm_type, parameter.kernel_type = int(svm.svm_forms.C_SVC), int(svm.kernel_names.PRECOMPUTED)
        parameter.C, parameter.eps, parameter.cache_size = c, tol, self._cache / (1 << 20)
        problem.l = len(labels)
        problem.y = labels.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        problem.x = ctypes.cast(address.ctypes.data, ctypes.POINTER(ctypes.POINTER(svm.svm_node)))
        refused = svm.libsvm.svm_check_parameter(ctypes.byref(problem), ctypes.byref(parameter))
        if refused:
            raise ValueError(f"LIBSVM refuses the problem: {refused.decode()}")
        functions = (_address(svm.libsvm.svm_train), _address(svm.libsvm.svm_set_print_string_function))
        with self._threads.limit(limits=self._n_threads, user_api="openmp"):
            # A Ctrl-C meanwhile is raised here, after the solve: LIBSVM cannot be stopped.
            trained, n_iter = svmdual.libsvm_train(*functions, ctypes.addressof(problem), ctypes.addressof(parameter))
        if not trained:
            raise MemoryError("LIBSVM returned no model; it may have run out of memory")
        trained = ctypes.cast(trained, ctypes.POINTER(svm.svm_model))
        model = trained.contents
        flip = 1.0 if model.label[0] > 0 else -1.0
        beta = np.zeros(len(labels))
        if model.l:
            at = np.ctypeslib.as_array(model.sv_indices, (model.l,)) - 1
            beta[at] = flip * np.ctypeslib.as_array(model.sv_coef[0], (model.l,))
        bias = -flip * model.rho[0]
        svm.libsvm.svm_free_and_destroy_model(ctypes.byref(trained))
        return beta, bias, n_iter

    def solve(self, sign, d, c, tol, start=None):
        """Solve one problem.

        Parameters
        ----------
        sign : ndarray of int8 (m,)
            s, 0 for rows that take no part; both signs must occur.
        d : ndarray of float64 (m,)
        c : float
        tol : float
        start : ignored
            LIBSVM always starts from 0.

        Returns
        -------
        Solution
        """
        m, nodes = self.m, self._nodes
        used = np.flatnonzero(sign)
        # LIBSVM keeps 1 - d_i in float32: the problem is solved for d / unit, which has w / unit and c / unit.
        unit = float(np.abs(d[used]).max()) or 1.0
        bound = c / unit
        s, d_used = sign[used].astype(np.float64), d[used] / unit
        tilt = np.zeros(m)
        tilt[used] = s * (1 - d_used) / (2 * bound)
        reach = 2 + 0.5 * np.abs(1 - d_used).sum() + bound * self._largest
        high = ANCHOR_MARGIN * reach / bound
        values = nodes["value"]
        values[m, 1 : m + 1], values[m + 1, 1 : m + 1] = tilt, -tilt
        values[:m, m + 1 : m + 3] = np.column_stack((tilt, -tilt))
        values[m, m + 1] = values[m + 1, m + 2] = -high
        values[m, m + 2] = values[m + 1, m + 1] = high
        labels = np.concatenate((s, [1.0, -1.0]))
        address = self._address[np.concatenate((used, [m, m + 1]))]
        # From a violation of 2 on LIBSVM would not take a step, and not even bring the anchors to their bound.
        found, bias, n_iter = self._train(labels, address, bound, min(tol / unit, 1.0))
        if found[-2] != bound or found[-1] != -bound:
            raise AssertionError(
                f"the anchors have the multipliers {found[-2]!r} and {found[-1]!r}, not +-{bound!r}: LIBSVM has solved "
                "another problem. Please report this with your data and parameters"
            )
        found[:-2] = np.where(np.abs(found[:-2]) == bound, s * c, unit * found[:-2])
        bias *= unit
        beta = np.zeros(m)
        beta[used] = found[:-2]
        sums = np.empty(m)
        svmdual.node_sums(values[:m, 1:], beta, sums)
        lo, hi = _bounds(sign, c)
        violation, _, _ = violation_of(beta[used], (sign * d - sums)[used], lo[used], hi[used])
        _warn_violation(violation, tol, sums, "LIBSVM")
        return Solution(beta, bias, sums + bias, _dot(beta, sums), None, violation, n_iter)


# -- Our own steps ---------------------------------------------------------------------------------------------------


class DenseKernel:
    """Pairwise steps on a kernel in memory (float32), from the multipliers of an earlier problem where that helps.

    Parameters
    ----------
    m, block
        As for `LibsvmKernel`.
    n_threads : ignored
    """

    def __init__(self, m, block, n_threads=1):
        n = -(-m // svmdual.BLOCK) * svmdual.BLOCK
        _refuse_memory(4 * n * n + 80 * n, m, 4, "fewer rows, or a linear kernel, which needs none")
        self.m, self.n = m, n
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
        """Solve one problem; see `LibsvmKernel.solve`. ``start``: beta (m,) of an earlier one, or None."""
        m, n = self.m, self.n
        target, lo, hi = np.zeros(n), np.zeros(n), np.zeros(n)
        target[:m] = sign * d
        lo[:m], hi[:m] = _bounds(sign, c)
        beta, E = np.zeros(n), target.copy()
        if start is not None:
            padded = np.zeros(n)
            padded[:m] = start
            tried = _restart(padded, lo, hi)
            if tried is not None:
                sums = self._sums(tried)
                gain, curve = _dot(target, tried), _dot(tried, sums)
                scale = min(1.0, gain / curve) if curve > 0 else 1.0
                if scale > 0:
                    beta, E = scale * tried, target - scale * sums
        up, down = np.empty(n), np.empty(n)
        steps, left = 0, MAX_STEPS
        while True:
            more, _ = svmdual.smo(self._K, self._diagonal, lo, hi, beta, E, up, down, tol, left)
            steps, left = steps + more, left - more
            sums = self._sums(beta)
            E = target - sums
            violation, _, _ = violation_of(beta[:m], E[:m], lo[:m], hi[:m])
            if violation <= tol or not more or not left:
                break
        _warn_violation(violation, tol, sums[:m], "the pairwise solver")
        bias = bias_of(beta, E, lo, hi)
        return Solution(beta[:m].copy(), bias, sums[:m] + bias, _dot(beta, sums), None, violation, steps)


class LinearRows:
    """Coordinate steps on the rows of X, without a kernel: O(d) memory besides X, a row per step.

    Parameters
    ----------
    X : ndarray of float32 (m, d) or CSR matrix of float32
    seed : int
        Of the order in which rows are visited.
    """

    def __init__(self, X, seed=0):
        self.m, self.d = X.shape
        self._X = X
        if hasattr(X, "indptr"):
            data = np.ascontiguousarray(X.data, dtype=np.float32)
            self._rows = svmdual.Rows(
                None, data, X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), self.d
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
        """Solve one problem; see `LibsvmKernel.solve`. ``start``: beta (m,) of an earlier one, or None."""
        target = sign * d
        lo, hi = _bounds(sign, c)
        beta, w, bias = np.zeros(self.m), np.zeros(self.d), 0.0
        tried = None if start is None else _restart(start, lo, hi)
        if tried is not None:
            self._rows.add(tried, w)
            gain, curve = _dot(target, tried), _dot(w, w)
            scale = max(0.0, min(1.0, gain / curve) if curve > 0 else 1.0)
            beta, w = scale * tried, scale * w
            bias = bias_of(beta, target - self._scores(w), lo, hi)
        active = np.empty(self.m, dtype=np.int32)
        inner, steps, seed = tol / 2, 0, self._seed
        rounding, work = 1e-14 * (1 + float(np.abs(d).max(initial=0))), 0.0
        while True:
            more, left, residual, bias = self._rows.solve(
                self._norm, target, lo, hi, beta, w, bias, self._rho, inner, EPOCHS, seed, active
            )
            steps, seed, work = steps + more, seed + 1, work + more * self._row
            _balance(beta, target - self._scores(w), lo, hi)
            if max(left, residual) > inner:
                self._warn_unscaled()
                bias, taken = self._newton(beta, target, lo, hi, bias, self._most - work)
                work += taken
            w = np.zeros(self.d)  # anew, without the rounding of all steps
            self._rows.add(beta, w)
            sums = self._scores(w)
            E = target - sums
            violation, _, _ = violation_of(beta, E, lo, hi)
            if violation <= tol or inner < rounding:
                break
            if work >= self._most:
                self._most = EPOCHS * self.m * self._row  # the next ones would go the same way
                break
            if max(left, residual) <= inner:
                inner /= 4
        _warn_violation(violation, tol, sums, "the coordinate solver")
        bias = bias_of(beta, E, lo, hi)
        return Solution(beta, bias, sums + bias, _dot(w, w), w, violation, steps)

    def _warn_unscaled(self):
        """Say it at once when a solve does not converge soon and the features are the reason."""
        if self._warned:
            return
        self._warned = True
        j, why = unscaled(self._X)
        if j is not None:
            warnings.warn(
                f"the SVM converges slowly and may end before it has: {why} (feature {j}). Use scale=True, or scale "
                "the features",
                stacklevel=2,
            )

    def _newton(self, beta, target, lo, hi, bias, most):
        """Solve for the free variables at once, up to the first bound, again and again.

        Returns the bias, and the work done, which ends soon after ``most``.

        Single coordinates are slow where the free rows are many for their dimensions, or nearly parallel.
        """
        work = 0.0
        for _ in range(NEWTON_STEPS):
            free = np.flatnonzero((beta > lo) & (beta < hi))
            if not 2 <= len(free) <= MOST_FREE or work >= most:
                return bias, work
            work += NEWTON_VISIT * len(free) ** 2 * (len(free) + self.d) + self.m * self._row
            w = np.zeros(self.d)
            self._rows.add(beta, w)
            X = self._X[free]
            X = X.toarray() if hasattr(X, "toarray") else X
            K, sums, Z = np.empty((len(free), len(free))), np.empty(len(free)), X.astype(np.float64)
            _products.products(Z, Z, K)
            svmdual.Rows(X).dots(w, sums)
            system = np.ones((len(free) + 1, len(free) + 1))
            system[:-1, :-1] = K + RIDGE * K.diagonal().mean() * np.eye(len(free))
            system[-1, -1] = 0.0
            step = np.append(target[free] - sums, 0.0)
            # Not by LAPACK, which is built on BLAS.
            if not _products.solve(system, step) or not np.isfinite(step).all():
                return bias, work
            step, found = step[:-1], step[-1]
            room = np.where(step > 0, hi[free] - beta[free], beta[free] - lo[free])
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(step != 0, room / np.abs(step), np.inf)
            first = int(share.argmin())
            if share[first] >= 1:
                beta[free] += step
                return float(found), work
            beta[free] += share[first] * step
            beta[free[first]] = hi[free[first]] if step[first] > 0 else lo[free[first]]
            np.clip(beta, lo, hi, out=beta)
        return bias, work


def unscaled(X):
    """A feature whose numbers are far from 0 for their spread, or spread far wider than others, and words for it."""
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
        return j, f"a feature has a mean of {mean[j]:.3g}, and deviates from it by {spread[j]:.3g}"
    j, least = int(np.where(varies, spread, 0).argmax()), spread[varies].min()
    if spread[j] > WIDE * least:
        return j, f"a feature has a standard deviation of {spread[j]:.3g}, another one of {least:.3g}"
    return None, ""


def _balance(beta, E, lo, hi):
    """Make the sum of beta vanish at the least cost: where the gradient says that beta matters least."""
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
