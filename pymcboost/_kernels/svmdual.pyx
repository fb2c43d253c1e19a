# cython: language_level=3
"""Solvers of the margin-rescaled SVM's dual (HingeBoost.OC, eq. 16) and its sums over rows of a kernel.

Problem
    minimise over w, b: 1/2 |w|^2 + sum_i cap_i max(0, d_i - s_i (w.phi(x_i) + b)); dual in beta_i = s_i alpha_i:
    maximise sum_i s_i d_i beta_i - 1/2 sum_ij beta_i beta_j K_ij, lo_i <= beta_i <= hi_i, sum_i beta_i = 0.
Solvers
    smo: pairwise steps on a kernel in memory, two passes over n numbers each.
    linear: coordinate steps on dense or CSR rows, one row each; the constraint by an augmented Lagrangian.
    free_step: a step on all free variables of the same, from the system of n of them: O(n^2 (n + d)).
    smo and linear run in portions of steps, between which Python hears signals. The bits are those of one portion.
Buffers
    K : (n, n) float32, symmetric, rows and columns padded to a multiple of BLOCK with 0; diagonal, lo, hi, beta, E :
    (n,) float64 likewise.
    X : dense (m, d) float32, or data float32, ptr int64 and column int32 of a CSR matrix; norm, target, lo, hi, beta :
    (m,) float64; w : (d,) float64; active : (m,) int32 scratch.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t

cdef extern from "svmdual.h" nogil:
    const int PMB_SVM_BLOCK
    ctypedef struct pmb_svm_rows:
        const float *data
        const int64_t *ptr
        const int32_t *column
        int64_t n
        int64_t d
    int64_t pmb_svm_smo(const float *K, int64_t n, const double *diagonal, const double *lo, const double *hi,
                        double *beta, double *E, double *up, double *down, double tol, int64_t max_steps,
                        double *violation)
    void pmb_svm_add(double *to, const float *a, double scale, int64_t n)
    void pmb_svm_add_nodes(double *to, const double *const *row, const double *scale, int64_t n)
    double pmb_svm_row_dot(const pmb_svm_rows *X, int64_t i, const double *w)
    void pmb_svm_row_add(const pmb_svm_rows *X, int64_t i, double scale, double *w)
    ctypedef struct pmb_svm_walk:
        double b
    pmb_svm_walk pmb_svm_begin(int64_t n, const double *lo, const double *hi, const double *beta, double bias,
                               uint64_t seed, int32_t *active)
    int64_t pmb_svm_linear(const pmb_svm_rows *X, const double *norm, const double *target, const double *lo,
                           const double *hi, double *beta, double *w, double rho, double tol, int64_t max_epochs,
                           int64_t most_steps, pmb_svm_walk *walk, int32_t *active, double *violation,
                           double *residual, int *done)
    void *pmb_libsvm_solve(uintptr_t train, uintptr_t set_print, uintptr_t problem, uintptr_t parameter, int64_t *steps)

cdef extern from "svmnewton.h" nogil:
    ctypedef enum pmb_free_state:
        PMB_FREE_NONE
        PMB_FREE_SINGULAR
        PMB_FREE_BOUND
        PMB_FREE_DONE
        PMB_FREE_MEMORY
    pmb_free_state pmb_free_step(const pmb_svm_rows *X, const double *target, const double *lo, const double *hi,
                                 double *beta, int32_t *row, int64_t most, double ridge, int64_t *n, double *bias)

# Kernels are padded to a multiple of this many rows.
BLOCK = PMB_SVM_BLOCK


def smo(const float[:, ::1] K, const double[::1] diagonal, const double[::1] lo, const double[::1] hi,
        double[::1] beta, double[::1] E, double[::1] up, double[::1] down, double tol, int64_t max_steps,
        int64_t portion):
    """Pairwise steps from a feasible beta and its E to the optimum within tol.

    beta, E : IN/OUT; up, down : scratch (n,); portion : steps from one look for signals to the next.
    Returns (steps, violation).
    """
    cdef int64_t n = K.shape[0], steps = 0, most, more
    cdef double violation = 0
    if n == 0 or n % PMB_SVM_BLOCK or K.shape[1] != n:
        raise ValueError(f"K must be square with a multiple of {PMB_SVM_BLOCK} rows")
    if min(diagonal.shape[0], lo.shape[0], hi.shape[0], beta.shape[0], E.shape[0], up.shape[0], down.shape[0]) < n:
        raise ValueError("the arrays must have an entry for every row of K")
    if portion < 1:
        raise ValueError("a portion must have steps")
    while True:
        most = min(portion, max_steps - steps)
        with nogil:
            more = pmb_svm_smo(&K[0, 0], n, &diagonal[0], &lo[0], &hi[0], &beta[0], &E[0], &up[0], &down[0], tol,
                               most, &violation)
        steps += more
        if more < portion:
            return steps, violation
        PyErr_CheckSignals()


def kernel_sums(const float[:, ::1] K, const double[::1] beta, double[::1] out):
    """out_i = sum_j K_ji beta_j, over the rows j with beta_j != 0 in order: O(n) for each of them."""
    cdef int64_t j
    if beta.shape[0] > K.shape[0] or out.shape[0] > K.shape[1]:
        raise ValueError("beta and out must fit the kernel")
    out[:] = 0
    with nogil:
        for j in range(beta.shape[0]):
            if beta[j] != 0:
                pmb_svm_add(&out[0], &K[j, 0], beta[j], out.shape[0])


def node_sums(const double[:, :] values, const double[::1] beta, double[::1] out):
    """`kernel_sums` of a kernel in LIBSVM's nodes: values of rows in memory, 16 bytes apart."""
    cdef int64_t j, n = out.shape[0]
    cdef int filled = 0
    cdef const double *row[4]
    cdef double scale[4]
    if not n or beta.shape[0] > values.shape[0] or n > values.shape[1] or values.strides[1] != 2 * sizeof(double):
        raise ValueError("beta and out must fit the kernel, whose values are 16 bytes apart")
    out[:] = 0
    with nogil:
        for j in range(beta.shape[0]):
            if beta[j] != 0:
                row[filled] = &values[j, 0]
                scale[filled] = beta[j]
                filled += 1
                if filled == 4:
                    pmb_svm_add_nodes(&out[0], row, scale, n)
                    filled = 0
        if filled:
            for j in range(filled, 4):
                row[j] = row[0]
                scale[j] = 0
            pmb_svm_add_nodes(&out[0], row, scale, n)


def libsvm_train(uintptr_t train, uintptr_t set_print, uintptr_t problem, uintptr_t parameter):
    """LIBSVM's svm_train, without output and without running Python, so signals wait until it returns.

    Arguments are addresses: of svm_train, of svm_set_print_string_function, and what svm_train takes.
    Returns (address of the model, steps); the address is 0 where there is no memory.
    """
    cdef int64_t steps
    cdef void *model
    with nogil:
        model = pmb_libsvm_solve(train, set_print, problem, parameter, &steps)
    return <uintptr_t> model, steps


cdef class Rows:
    """Rows of a dense (m, d) float32 array or of a CSR matrix (data, ptr, column), held for `linear`."""

    cdef pmb_svm_rows c
    cdef object _keep

    def __init__(self, const float[:, ::1] dense=None, const float[::1] data=None, const int64_t[::1] ptr=None,
                 const int32_t[::1] column=None, int64_t d=0):
        cdef int64_t i
        if dense is not None:
            if not dense.shape[0] or not dense.shape[1]:
                raise ValueError("X has no rows or no columns")
            self.c.data, self.c.n, self.c.d = &dense[0, 0], dense.shape[0], dense.shape[1]
            self.c.ptr, self.c.column = NULL, NULL
            self._keep = dense
            return
        if ptr.shape[0] < 2 or ptr[0] != 0 or ptr[ptr.shape[0] - 1] > min(data.shape[0], column.shape[0]):
            raise ValueError("ptr does not fit data and column")
        for i in range(ptr.shape[0] - 1):
            if ptr[i] > ptr[i + 1]:
                raise ValueError("ptr must not fall")
        for i in range(ptr[ptr.shape[0] - 1]):
            if not 0 <= column[i] < d:
                raise ValueError("column must be below d")
        self.c.n, self.c.d = ptr.shape[0] - 1, d
        self.c.ptr = &ptr[0]
        self.c.data = &data[0] if data.shape[0] else NULL
        self.c.column = &column[0] if column.shape[0] else NULL
        self._keep = (data, ptr, column)

    def dots(self, const double[::1] w, double[::1] out):
        """out = X w."""
        cdef int64_t i
        if w.shape[0] != self.c.d or out.shape[0] != self.c.n:
            raise ValueError("w and out must fit X")
        with nogil:
            for i in range(self.c.n):
                out[i] = pmb_svm_row_dot(&self.c, i, &w[0])

    def add(self, const double[::1] beta, double[::1] w):
        """w += X' beta."""
        cdef int64_t i
        if w.shape[0] != self.c.d or beta.shape[0] != self.c.n:
            raise ValueError("w and beta must fit X")
        with nogil:
            for i in range(self.c.n):
                if beta[i] != 0:
                    pmb_svm_row_add(&self.c, i, beta[i], &w[0])

    def solve(self, const double[::1] norm, const double[::1] target, const double[::1] lo, const double[::1] hi,
              double[::1] beta, double[::1] w, double bias, double rho, double tol, int64_t max_epochs, uint64_t seed,
              int32_t[::1] active, int64_t portion):
        """Coordinate steps until both the coordinates and the constraint are optimal within tol.

        beta and w = X' beta : IN/OUT; portion : steps from one look for signals to the next.
        Returns (steps, violation, residual, bias).
        """
        cdef int64_t n = self.c.n, steps = 0
        cdef double violation = INFINITY, residual = INFINITY
        cdef pmb_svm_walk walk
        cdef int done = 0
        if min(norm.shape[0], target.shape[0], lo.shape[0], hi.shape[0], beta.shape[0], active.shape[0]) < n:
            raise ValueError("the arrays must have an entry for every row")
        if w.shape[0] != self.c.d or rho <= 0:
            raise ValueError("w must fit X and rho be above 0")
        if portion < 1:
            raise ValueError("a portion must have steps")
        walk = pmb_svm_begin(n, &lo[0], &hi[0], &beta[0], bias, seed, &active[0])
        while True:
            with nogil:
                steps += pmb_svm_linear(&self.c, &norm[0], &target[0], &lo[0], &hi[0], &beta[0], &w[0], rho, tol,
                                        max_epochs, portion, &walk, &active[0], &violation, &residual, &done)
            if done:
                return steps, violation, residual, walk.b
            PyErr_CheckSignals()

    def free_step(self, const double[::1] target, const double[::1] lo, const double[::1] hi, double[::1] beta,
                  int32_t[::1] row, int64_t most, double ridge):
        """Take a step on all free variables up to the first bound, if there are 2 to ``most``.

        beta : IN/OUT; row : scratch (m,); ridge : share of the mean diagonal that is added to it.
        Returns (free variables, whether a step was taken, whether it met no bound, the bias then).
        """
        cdef int64_t m = self.c.n, n = 0
        cdef double bias = 0
        cdef pmb_free_state state
        if min(target.shape[0], lo.shape[0], hi.shape[0], beta.shape[0], row.shape[0]) < m:
            raise ValueError("the arrays must have an entry for every row")
        with nogil:
            state = pmb_free_step(&self.c, &target[0], &lo[0], &hi[0], &beta[0], &row[0], most, ridge, &n, &bias)
        if state == PMB_FREE_MEMORY:
            raise MemoryError(f"no memory for the system of {n} free rows of {self.c.d} features")
        return n, state == PMB_FREE_BOUND or state == PMB_FREE_DONE, state == PMB_FREE_DONE, bias
