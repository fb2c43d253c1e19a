"""The margin-rescaled SVM, solved by an unmodified LIBSVM as a C-SVC."""

import _thread
import ctypes
import os
import threading

import numpy as np

from pymcboost._kernels import svmdual
from pymcboost.hinge.dual import BLOCK, Solution, bounds, dot, is_short, violation_of

# Bytes per kernel entry: LIBSVM's nodes, and the maximum in its cache.
NODE = 16
CACHED = 4
LARGEST_CACHE = 2 << 30
# The anchors' own entries are this many times the largest value that an anchor's gradient can otherwise reach.
ANCHOR_MARGIN = 10.0
# LIBSVM adds in float32. If that may change a gradient by more than this, its steps stop only at its own limit,
# without a useful result.
HOPELESS = 1e9
ROUNDED = 2.0**-24
# Solves with at most FEW rows, in which no gradient changes by more than EASY, take well below a second, so Ctrl-C
# waits for them. Other solves run in a thread, which costs a tenth of such a short solve.
FEW = 2000
EASY = 1e3
# Seconds between checks for Ctrl-C, on systems where it does not end the wait.
LOOK = 0.1


def is_installed():
    """Whether the package libsvm-official is installed and its library can be loaded."""
    try:
        import_svm()
    except ImportError:
        return False
    return True


def import_svm():
    """Import LIBSVM's module; ImportError if the module, or the library that it loads, is missing."""
    try:
        from libsvm import svm
    except ImportError:
        raise
    except Exception as error:  # it raises another error if there is no library
        raise ImportError(str(error)) from None
    return svm


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class _Worker:
    """A thread for solves, which is reused, because starting it and its OpenMP threads takes as long as some solves."""

    def __init__(self):
        self.process = os.getpid()
        self.is_left = False
        self._task = None
        self._has_task = _thread.allocate_lock()
        self._has_task.acquire()
        # The low-level module starts threads without waiting, and they do not delay the exit of the process.
        _thread.start_new_thread(self._run, ())

    def _run(self):
        while not self.is_left:
            self._has_task.acquire()
            (work, arguments, results, done), self._task = self._task, None
            try:
                results.append((work(*arguments), None))
            except BaseException as error:
                results.append((None, error))
            finally:
                done.release()
            del work, arguments, results, done

    def do(self, *task):
        """Call ``work(*arguments)``, append its result and error to a list, and release a lock."""
        self._task = task
        self._has_task.release()


_worker = None


def _interruptible(work, *arguments):
    """Call ``work(*arguments)`` so that Ctrl-C returns at once; the call then finishes in an abandoned thread.

    Signals reach only the main thread, so in other threads, and if no thread can be started, it is called directly.
    """
    global _worker
    if threading.current_thread() is not threading.main_thread():
        return work(*arguments)
    worker, _worker = _worker, None  # after Ctrl-C, it is not used again
    try:
        worker = worker if worker is not None and worker.process == os.getpid() else _Worker()
    except RuntimeError:
        return work(*arguments)
    results = []
    done = _thread.allocate_lock()
    done.acquire()
    try:
        worker.do(work, arguments, results, done)
        while not done.acquire(timeout=LOOK):
            pass
    except BaseException:
        worker.is_left = True
        raise
    _worker = worker
    result, error = results.pop()
    try:
        if error is not None:
            raise error
        return result
    finally:
        del error  # it refers to this frame


class LibsvmKernel:
    """LIBSVM on one kernel, for any number of problems.

    The kernel is written once, and each solve rewrites the anchors.

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

    name = "LIBSVM"

    @staticmethod
    def bytes_of(m):
        """Memory for m rows, in bytes."""
        return (m + 2) * (m + 4) * NODE + min(CACHED * (m + 2) ** 2 + (1 << 20), LARGEST_CACHE)

    def __init__(self, m, block, n_threads=1):
        self._cache = min(CACHED * (m + 2) ** 2 + (1 << 20), LARGEST_CACHE)
        try:
            svm = import_svm()
        except ImportError as error:
            raise ValueError(
                f"LIBSVM cannot be loaded ({error}); install it with python -m pip install "
                "libsvm-official, which needs a C++ compiler, or set solver='coordinate', "
                "which needs no package"
            ) from None
        from threadpoolctl import ThreadpoolController

        self._svm = svm
        self._threads = ThreadpoolController()
        self._n_threads = n_threads
        self.m = m
        nodes = np.zeros(
            (m + 2, m + 4), dtype=np.dtype([("index", "i4"), ("value", "f8")], align=True)
        )
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
        self._address = nodes.ctypes.data + np.arange(m + 2, dtype=np.uint64) * np.uint64(
            nodes.strides[0]
        )

    def _train(self, labels, address, c, tol):
        """Signed multipliers at the positions of the problem's rows, the threshold and the number of steps.

        This call keeps alive all data that LIBSVM reads, because it may continue after Ctrl-C.
        """
        svm = self._svm
        # Without the constructors, which convert data in Python and set the output of the whole process.
        problem, parameter = (
            svm.svm_problem.__new__(svm.svm_problem),
            svm.svm_parameter.__new__(svm.svm_parameter),
        )
        parameter.set_to_default_values()
        parameter.svm_type, parameter.kernel_type = (
            int(svm.svm_forms.C_SVC),
            int(svm.kernel_names.PRECOMPUTED),
        )
        parameter.C = c
        parameter.eps = tol
        parameter.cache_size = self._cache / (1 << 20)
        problem.l = len(labels)
        problem.y = labels.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        problem.x = ctypes.cast(address.ctypes.data, ctypes.POINTER(ctypes.POINTER(svm.svm_node)))
        refused = svm.libsvm.svm_check_parameter(ctypes.byref(problem), ctypes.byref(parameter))
        if refused:
            raise ValueError(f"LIBSVM rejects the problem: {refused.decode()}")
        functions = (
            _address(svm.libsvm.svm_train),
            _address(svm.libsvm.svm_set_print_string_function),
        )
        with self._threads.limit(limits=self._n_threads, user_api="openmp"):
            trained, n_iter = svmdual.libsvm_train(
                *functions, ctypes.addressof(problem), ctypes.addressof(parameter)
            )
        if not trained:
            raise MemoryError("LIBSVM returned no model; it may have run out of memory")
        trained = ctypes.cast(trained, ctypes.POINTER(svm.svm_model))
        model = trained.contents
        flip = 1.0 if model.label[0] > 0 else -1.0
        beta = np.zeros(len(labels))
        if model.l:
            places = np.ctypeslib.as_array(model.sv_indices, (model.l,)) - 1
            beta[places] = flip * np.ctypeslib.as_array(model.sv_coef[0], (model.l,))
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
        m = self.m
        nodes = self._nodes
        used = np.flatnonzero(sign)
        # LIBSVM stores 1 - d_i in float32, so the problem is solved for d / unit, with the solution w / unit and c /
        # unit.
        unit = float(np.abs(d[used]).max()) or 1.0
        bound = c / unit
        s = sign[used].astype(np.float64)
        d_used = d[used] / unit
        tilt = np.zeros(m)
        tilt[used] = s * (1 - d_used) / (2 * bound)
        reach = 2 + 0.5 * np.abs(1 - d_used).sum() + bound * self._largest
        high = ANCHOR_MARGIN * reach / bound
        values = nodes["value"]
        values[m, 1 : m + 1] = tilt
        values[m + 1, 1 : m + 1] = -tilt
        values[:m, m + 1 : m + 3] = np.column_stack((tilt, -tilt))
        values[m, m + 1] = values[m + 1, m + 2] = -high
        values[m, m + 2] = values[m + 1, m + 1] = high
        labels = np.concatenate((s, [1.0, -1.0]))
        address = self._address[np.concatenate((used, [m, m + 1]))]
        # With a tolerance of 2 or more, LIBSVM would take no step, and not even move the anchors to their bound.
        if ROUNDED * bound * self._largest > HOPELESS:
            multipliers = np.append(np.zeros(len(s)), (bound, -bound))
            bias = 0.0
            n_iter = 0
        else:
            problem = labels, address, bound, min(tol / unit, 1.0)
            short = len(used) <= FEW and bound * self._largest <= EASY
            multipliers, bias, n_iter = (
                self._train(*problem) if short else _interruptible(self._train, *problem)
            )
        if multipliers[-2] != bound or multipliers[-1] != -bound:
            raise AssertionError(
                f"the anchors have the multipliers {multipliers[-2]!r} and {multipliers[-1]!r} instead of "
                f"+-{bound!r}, so LIBSVM has solved a different problem. Please report this "
                "with your data and parameters"
            )
        multipliers[:-2] = np.where(
            np.abs(multipliers[:-2]) == bound, s * c, unit * multipliers[:-2]
        )
        bias *= unit
        beta = np.zeros(m)
        beta[used] = multipliers[:-2]
        sums = np.empty(m)
        svmdual.node_sums(values[:m, 1:], beta, sums)
        lo, hi = bounds(sign, c)
        violation, _, _ = violation_of(beta[used], (sign * d - sums)[used], lo[used], hi=hi[used])
        short = is_short(violation, tol, sums)
        return Solution(
            beta,
            bias,
            sums + bias,
            norm2=dot(beta, sums),
            weights=None,
            violation=violation,
            n_iter=n_iter,
            short=short,
        )
