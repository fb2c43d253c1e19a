"""The margin-rescaled SVM, solved by an unmodified LIBSVM as a C-SVC."""

import _thread
import ctypes
import os
import threading

import numpy as np

from pymcboost._kernels import svmdual
from pymcboost.hinge.dual import BLOCK, Solution, bounds, dot, is_short, violation_of

# Bytes per kernel entry: of LIBSVM's nodes, and in its cache, whose size is limited.
NODE = 16
CACHED = 4
LARGEST_CACHE = 2 << 30
# The anchors' own entries are this many times the largest value that an anchor's gradient can otherwise reach.
ANCHOR_MARGIN = 10.0
# LIBSVM adds in float32. If that may change a gradient by more than this, its steps stop only at its own limit,
# without a useful result.
HOPELESS = 1e9
FLOAT32_ROUNDING = 2.0**-24
# Solves with at most FEW rows, in which no gradient changes by more than EASY, take well below a second, so Ctrl-C
# waits for them. Other solves run in a thread, which costs a tenth of such a short solve.
FEW = 2000
EASY = 1e3
# Seconds between checks for Ctrl-C, on systems where it does not end the wait.
CHECK_INTERVAL = 0.1


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
        """Do one task after the other, until the worker is abandoned."""
        while not self.is_left:
            self._has_task.acquire()
            work, arguments, results, done = self._task
            self._task = None
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
    worker = _worker
    _worker = None  # after Ctrl-C, it is not used again
    if worker is None or worker.process != os.getpid():
        try:
            worker = _Worker()
        except RuntimeError:
            return work(*arguments)
    results = []
    done = _thread.allocate_lock()
    done.acquire()
    try:
        worker.do(work, arguments, results, done)
        while not done.acquire(timeout=CHECK_INTERVAL):
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

    LIBSVM is not modified. Two points are added at the end, the anchors a+ (label +1) and a- (label -1). Their kernel
    values with row i are +-s_i (1 - d_i) / 2c. Among themselves they have a matrix with a negative eigenvalue, so both
    multipliers go to their bound c at once and stay there. Then they cancel in the equality constraint, and add
    1 - d_i to the gradient of row i.

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
        return (m + 2) * (m + 4) * NODE + cache_bytes(m)

    def __init__(self, m, block, n_threads=1):
        self._cache_bytes = cache_bytes(m)
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
        self._thread_pools = ThreadpoolController()
        self._n_threads = n_threads
        self.m = m
        # A row of nodes has its own number first, then its kernel values, and a node that ends it.
        node = np.dtype([("index", "i4"), ("value", "f8")], align=True)
        nodes = np.zeros((m + 2, m + 4), dtype=node)
        assert nodes.itemsize == NODE == ctypes.sizeof(svm.svm_node)
        nodes["index"] = np.arange(m + 4)
        nodes["index"][:, -1] = -1
        nodes["value"][:, 0] = np.arange(1, m + 3)
        self._largest_sum = 0.0  # of the absolute kernel values of a row
        for begin in range(0, m, BLOCK):
            end = min(begin + BLOCK, m)
            rows = block(begin, end)
            nodes["value"][begin:end, 1 : m + 1] = rows
            self._largest_sum = max(self._largest_sum, float(np.abs(rows).sum(axis=1).max()))
        self._nodes = nodes
        row_bytes = np.uint64(nodes.strides[0])
        self._address = nodes.ctypes.data + np.arange(m + 2, dtype=np.uint64) * row_bytes

    def _train(self, labels, address, c, tol):
        """Signed multipliers at the positions of the problem's rows, the threshold and the number of steps.

        This call keeps alive all data that LIBSVM reads, because it may continue after Ctrl-C.
        """
        svm = self._svm
        # Without the constructors, which convert data in Python and set the output of the whole process.
        parameter = svm.svm_parameter.__new__(svm.svm_parameter)
        parameter.set_to_default_values()
        parameter.svm_type = int(svm.svm_forms.C_SVC)
        parameter.kernel_type = int(svm.kernel_names.PRECOMPUTED)
        parameter.C = c
        parameter.eps = tol
        parameter.cache_size = self._cache_bytes / (1 << 20)
        problem = svm.svm_problem.__new__(svm.svm_problem)
        problem.l = len(labels)
        problem.y = labels.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        problem.x = ctypes.cast(address.ctypes.data, ctypes.POINTER(ctypes.POINTER(svm.svm_node)))
        refused = svm.libsvm.svm_check_parameter(ctypes.byref(problem), ctypes.byref(parameter))
        if refused:
            raise ValueError(f"LIBSVM rejects the problem: {refused.decode()}")
        with self._thread_pools.limit(limits=self._n_threads, user_api="openmp"):
            model_address, n_iter = svmdual.libsvm_train(
                _address(svm.libsvm.svm_train),
                _address(svm.libsvm.svm_set_print_string_function),
                ctypes.addressof(problem),
                ctypes.addressof(parameter),
            )
        if not model_address:
            raise MemoryError("LIBSVM returned no model; it may have run out of memory")
        model_pointer = ctypes.cast(model_address, ctypes.POINTER(svm.svm_model))
        model = model_pointer.contents
        flip = 1.0 if model.label[0] > 0 else -1.0
        beta = np.zeros(len(labels))
        if model.l:
            support = np.ctypeslib.as_array(model.sv_indices, (model.l,)) - 1
            beta[support] = flip * np.ctypeslib.as_array(model.sv_coef[0], (model.l,))
        bias = -flip * model.rho[0]
        svm.libsvm.svm_free_and_destroy_model(ctypes.byref(model_pointer))
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
        used = np.flatnonzero(sign)
        # LIBSVM stores 1 - d_i in float32, so the problem is solved for d / unit, with the solution w / unit and
        # c / unit.
        unit = float(np.abs(d[used]).max()) or 1.0
        bound = c / unit
        s = sign[used].astype(np.float64)
        self._write_anchors(used, s, d[used] / unit, bound)
        if FLOAT32_ROUNDING * bound * self._largest_sum > HOPELESS:
            multipliers = np.append(np.zeros(len(s)), (bound, -bound))
            bias = 0.0
            n_iter = 0
        else:
            labels = np.concatenate((s, [1.0, -1.0]))
            address = self._address[np.concatenate((used, [m, m + 1]))]
            # With a tolerance of 2 or more, LIBSVM would take no step, and not even move the anchors to their bound.
            problem = labels, address, bound, min(tol / unit, 1.0)
            if len(used) <= FEW and bound * self._largest_sum <= EASY:
                multipliers, bias, n_iter = self._train(*problem)
            else:
                multipliers, bias, n_iter = _interruptible(self._train, *problem)
        if multipliers[-2] != bound or multipliers[-1] != -bound:
            raise AssertionError(
                f"the anchors have the multipliers {multipliers[-2]!r} and {multipliers[-1]!r} instead of "
                f"+-{bound!r}, so LIBSVM has solved a different problem. Please report this "
                "with your data and parameters"
            )
        multipliers = multipliers[:-2]
        bias *= unit
        beta = np.zeros(m)
        beta[used] = np.where(np.abs(multipliers) == bound, s * c, unit * multipliers)
        sums = np.empty(m)
        svmdual.node_sums(self._nodes["value"][:m, 1:], beta, sums)
        lo, hi = bounds(sign, c)
        violation, _, _ = violation_of(beta[used], (sign * d - sums)[used], lo[used], hi=hi[used])
        return Solution(
            beta,
            bias,
            sums + bias,
            norm2=dot(beta, sums),
            weights=None,
            violation=violation,
            n_iter=n_iter,
            short=is_short(violation, tol, sums),
        )

    def _write_anchors(self, used, s, d, bound):
        """Write the kernel values of the anchors for the used rows, with signs s and margins d."""
        m = self.m
        tilt = np.zeros(m)
        tilt[used] = s * (1 - d) / (2 * bound)
        reach = 2 + 0.5 * np.abs(1 - d).sum() + bound * self._largest_sum
        high = ANCHOR_MARGIN * reach / bound
        values = self._nodes["value"]
        values[m, 1 : m + 1] = tilt
        values[m + 1, 1 : m + 1] = -tilt
        values[:m, m + 1 : m + 3] = np.column_stack((tilt, -tilt))
        values[m, m + 1] = -high
        values[m, m + 2] = high
        values[m + 1, m + 1] = high
        values[m + 1, m + 2] = -high


def cache_bytes(m):
    """Size of LIBSVM's cache for m rows and the anchors, in bytes."""
    return min(CACHED * (m + 2) ** 2 + (1 << 20), LARGEST_CACHE)
