# cython: language_level=3
"""Passes over the m x K weights of the pairwise losses: class-by-class sums and updates.

Rows are sorted by class and cut into chunks (at most 4,096 rows, one class each); every chunk is summed by one thread
and chunks are added in order, so results do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef extern from "weights.h" nogil:
    void pmb_side_sums(int is_double, int lanes, const void *A, const signed char *h, int64_t n, double *plus,
                       double *minus)
    void pmb_side_units(int is_double, int lanes, const void *A, const signed char *h, int64_t n, double by,
                        int64_t *plus, int64_t *minus)
    void pmb_column_units(int is_double, int lanes, const void *A, const signed char *h, int64_t stride, int last,
                          int64_t n, double by, int64_t *plus, int64_t *minus)
    void pmb_log_units(int is_double, int lanes, const void *Q, const signed char *h, const double *weight, int64_t n,
                       const void *plus, const void *minus, double by, int64_t *out)
    void pmb_exp_update(int is_double, int lanes, void *A, int64_t block_size, int n_blocks, const signed char *h,
                        int64_t n, const void *plus, const void *minus, const void *smallest, int cls)
    void pmb_log_sums(int is_double, int lanes, const void *Q, const signed char *h, const double *weight, int64_t n,
                      const void *plus, const void *minus, double *out)
    void pmb_log_update(int is_double, int lanes, void *Q, void *A, int64_t block_size, int n_blocks,
                        const signed char *h, const double *weight, int64_t n, const void *plus, const void *minus,
                        const void *smallest, int cls)
    void pmb_column_sums(int is_double, int lanes, const void *A, const signed char *h, int64_t stride, int last,
                         int64_t n, double *plus, double *minus)
    void pmb_column_update(int is_double, int lanes, void *A, const signed char *h, int64_t stride, int last,
                           int64_t n, const void *plus, const void *minus, const void *least)
    void pmb_combine(int is_double, int lanes, const void *A, int64_t block_size, int n_blocks, const void *mu,
                     int64_t n, void *out, int out_step)

    void pmb_signed_weights(const signed char *h, int64_t stride, int64_t n, int64_t P, const double *weight,
                            double *to)
    void pmb_add_margins(const signed char *h, int64_t stride, int64_t n, int K, int own, double minus, double plus,
                         double middle, const double *half, double *margin)

ctypedef fused real:
    float
    double

cdef int aligned(const void *p, str name) except -1:
    if <size_t> p % 64:
        raise ValueError(name + " must start on a 64-byte boundary; make it with aligned_zeros")
    return 0


def chunks(class_start, int64_t size=4096):
    """Cut the rows of each class into chunks: (starts (n + 1,) int64, class of each chunk (n,) int32)."""
    starts, classes = [], []
    for c in range(len(class_start) - 1):
        for start in range(class_start[c], class_start[c + 1], size):
            starts.append(start)
            classes.append(c)
    return (np.array(starts + [class_start[len(class_start) - 1]], dtype=np.int64), np.array(classes, dtype=np.int32))


cdef int spread(const double[:, ::1] plus, const double[:, ::1] minus, double added,
                real[:, :, ::1] factors) except -1:
    """K x K tables of factors, and what is then added, by class of the row; 0 for the own class."""
    cdef int c, r, K = <int> plus.shape[0]
    aligned(&factors[0, 0, 0], "factors")
    for c in range(K):
        for r in range(K):
            factors[0, c, r] = <real> plus[c, r] if r != c else 0
            factors[1, c, r] = <real> minus[c, r] if r != c else 0
            factors[2, c, r] = <real> added if r != c else 0
    return 0


def exp_update(real[:, :, ::1] A, const signed char[::1] h, const int64_t[::1] starts, const int32_t[::1] classes,
               const double[:, ::1] plus, const double[:, ::1] minus, double smallest, factors, int n_threads):
    """Exponential loss: multiply u[i, r] by plus or minus[y_i, r] as h_i says and rebuild the gradient A.

    Parameters
    ----------
    A : INOUT (n_blocks, m, lanes), -u off the row's class
    h : IN (m,) +1 or -1
    starts, classes : IN, from `chunks`
    plus, minus : IN (K, K) factors; None: ``factors`` has them, and what is added
    smallest : added to every weight, keeps denormal numbers away
    factors : scratch (3, K, n_blocks * lanes) of A's dtype, aligned, zeros in the padding
    """
    aligned(&A[0, 0, 0], "A")
    cdef real[:, :, ::1] table = factors
    if plus is not None:
        spread(plus, minus, -smallest, table)
    cdef int lanes = <int> A.shape[2], n_blocks = <int> A.shape[0], is_double = real is double
    cdef int64_t j, block_size = A.shape[1] * A.shape[2]
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        pmb_exp_update(is_double, lanes, &A[0, starts[j], 0], block_size, n_blocks, &h[starts[j]],
                       starts[j + 1] - starts[j], &table[0, classes[j], 0], &table[1, classes[j], 0],
                       &table[2, classes[j], 0], classes[j])


def log_sums(const real[:, :, ::1] Q, const signed char[::1] h, const double[::1] weight, const int64_t[::1] starts,
             const int32_t[::1] classes, const double[:, ::1] plus, const double[:, ::1] minus, factors,
             double[:, :, :, ::1] partial, double[:, :, ::1] out, int n_threads):
    """Logistic loss: first and second derivatives per class pair and side of h at trial coefficients.

    With q = Q[i, r] * (plus or minus)[y_i, r] and p = q / (1 + q), out holds the sums of weight p for h = +1 and -1
    and of weight p (1 - p) for h = +1 and -1: (4, K, K), diagonal 0.

    Parameters
    ----------
    factors : scratch as in `exp_update`; partial : scratch (n_chunks, n_blocks, 4, lanes)
    """
    aligned(&Q[0, 0, 0], "Q")
    cdef real[:, :, ::1] table = factors
    spread(plus, minus, 0, table)
    cdef int b, c, r, k, K = <int> out.shape[1], lanes = <int> Q.shape[2], is_double = real is double
    cdef int64_t j
    partial[:] = 0
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        for b in range(Q.shape[0]):
            pmb_log_sums(is_double, lanes, &Q[b, starts[j], 0], &h[starts[j]], &weight[starts[j]],
                         starts[j + 1] - starts[j], &table[0, classes[j], b * lanes],
                         &table[1, classes[j], b * lanes], &partial[j, b, 0, 0])
    out[:] = 0
    with nogil:
        for j in range(classes.shape[0]):
            c = classes[j]
            for k in range(4):
                for r in range(K):
                    if r != c:
                        out[k, c, r] += partial[j, r // lanes, k, r % lanes]


def log_update(real[:, :, ::1] Q, real[:, :, ::1] A, const signed char[::1] h, const double[::1] weight,
               const int64_t[::1] starts, const int32_t[::1] classes, const double[:, ::1] plus,
               const double[:, ::1] minus, double smallest, factors, int n_threads):
    """Logistic loss: multiply the odds Q[i, r] = exp(-rho_ir) as h says; rebuild A from p = Q / (1 + Q).

    plus, minus, factors : as in `exp_update`
    """
    aligned(&Q[0, 0, 0], "Q")
    aligned(&A[0, 0, 0], "A")
    cdef real[:, :, ::1] table = factors
    if plus is not None:
        spread(plus, minus, smallest, table)
    cdef int lanes = <int> A.shape[2], n_blocks = <int> A.shape[0], is_double = real is double
    cdef int64_t j, block_size = A.shape[1] * A.shape[2]
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        pmb_log_update(is_double, lanes, &Q[0, starts[j], 0], &A[0, starts[j], 0], block_size, n_blocks,
                       &h[starts[j]], &weight[starts[j]], starts[j + 1] - starts[j], &table[0, classes[j], 0],
                       &table[1, classes[j], 0], &table[2, classes[j], 0], classes[j])


def column_sums(const real[:, :, ::1] A, const signed char[:, ::1] h, const int64_t[::1] starts,
                const int32_t[::1] classes, double[:, :, :, ::1] partial, double[:, :, ::1] out, int n_threads):
    """Sum the columns of A over the rows of each class on each side of h: K x P tables.

    Parameters
    ----------
    A : IN (n_blocks, m, lanes) of P columns
    h : IN (1, m) +1 or -1, shared by all columns, or (P, m), one row for each of them
    starts, classes : IN, from `chunks`
    partial : scratch (n_chunks, 2, n_blocks, lanes)
    out : OUT (2, K, P); [0] rows with h = +1, [1] rows with h = -1
    """
    cdef int64_t j, n = classes.shape[0], stride = h.shape[1] if h.shape[0] > 1 else 0
    cdef int b, c, p, side, lanes = <int> A.shape[2], is_double = real is double, P = <int> out.shape[2]
    aligned(&A[0, 0, 0], "A")
    partial[:] = 0
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        for b in range(A.shape[0]):
            if stride:
                pmb_column_sums(is_double, lanes, &A[b, starts[j], 0], &h[0, starts[j]] + b * lanes * stride, stride,
                                P - 1 - b * lanes, starts[j + 1] - starts[j], &partial[j, 0, b, 0],
                                &partial[j, 1, b, 0])
            else:
                pmb_side_sums(is_double, lanes, &A[b, starts[j], 0], &h[0, starts[j]], starts[j + 1] - starts[j],
                              &partial[j, 0, b, 0], &partial[j, 1, b, 0])
    out[:] = 0
    with nogil:
        for j in range(n):
            c = classes[j]
            for side in range(2):
                for p in range(P):
                    out[side, c, p] += partial[j, side, p // lanes, p % lanes]


cdef void add_up(const int64_t[:, :, :, ::1] partial, const int32_t[::1] classes, int lanes,
                 int64_t[:, :, ::1] out) noexcept:
    """Sums of the chunks (n_chunks, n_blocks, n, lanes) by class: (n, K, P)."""
    cdef int64_t j, k, p
    out[:] = 0
    for j in range(classes.shape[0]):
        for k in range(out.shape[0]):
            for p in range(out.shape[2]):
                out[k, classes[j], p] += partial[j, p // lanes, k, p % lanes]


def column_units(const real[:, :, ::1] A, const signed char[:, ::1] h, const int64_t[::1] starts,
                 const int32_t[::1] classes, double by, int64_t[:, :, :, ::1] partial, int64_t[:, :, ::1] out,
                 int n_threads):
    """As `column_sums`, in whole numbers: terms times ``by`` without their fractions.

    Parameters
    ----------
    partial : scratch (n_chunks, n_blocks, 2, lanes)
    """
    cdef int64_t j, stride = h.shape[1] if h.shape[0] > 1 else 0
    cdef int b, lanes = <int> A.shape[2], is_double = real is double, P = <int> out.shape[2]
    partial[:] = 0
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        for b in range(A.shape[0]):
            if stride:
                pmb_column_units(is_double, lanes, &A[b, starts[j], 0], &h[0, starts[j]] + b * lanes * stride, stride,
                                 P - 1 - b * lanes, starts[j + 1] - starts[j], by, &partial[j, b, 0, 0],
                                 &partial[j, b, 1, 0])
            else:
                pmb_side_units(is_double, lanes, &A[b, starts[j], 0], &h[0, starts[j]], starts[j + 1] - starts[j], by,
                               &partial[j, b, 0, 0], &partial[j, b, 1, 0])
    add_up(partial, classes, lanes, out)


def log_units(const real[:, :, ::1] Q, const signed char[::1] h, const double[::1] weight, const int64_t[::1] starts,
              const int32_t[::1] classes, const double[:, ::1] plus, const double[:, ::1] minus, factors, double by,
              int64_t[:, :, :, ::1] partial, int64_t[:, :, ::1] out, int n_threads):
    """As `log_sums`, in whole numbers: terms times ``by`` without their fractions; the diagonal is not 0.

    Parameters
    ----------
    partial : scratch (n_chunks, n_blocks, 4, lanes)
    """
    aligned(&Q[0, 0, 0], "Q")
    cdef real[:, :, ::1] table = factors
    spread(plus, minus, 0, table)
    cdef int64_t j
    cdef int b, lanes = <int> Q.shape[2], is_double = real is double
    partial[:] = 0
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        for b in range(Q.shape[0]):
            pmb_log_units(is_double, lanes, &Q[b, starts[j], 0], &h[starts[j]], &weight[starts[j]],
                          starts[j + 1] - starts[j], &table[0, classes[j], b * lanes],
                          &table[1, classes[j], b * lanes], by, &partial[j, b, 0, 0])
    add_up(partial, classes, lanes, out)


def column_update(real[:, :, ::1] A, const signed char[:, ::1] h, const int64_t[::1] starts, const int32_t[::1] classes,
                  const real[:, :, ::1] factors, int n_threads):
    """Multiply A[i, j] by a factor of class y_i and column j as h says, and add a little of its own sign.

    Parameters
    ----------
    A : INOUT (n_blocks, m, lanes) of P columns
    h : IN as in `column_sums`
    factors : IN (3, K, n_blocks * lanes), aligned, 0 in the padding
        Factors where h = +1 and where h = -1, and what is then added to A: it keeps denormal numbers away.
    """
    aligned(&A[0, 0, 0], "A")
    aligned(&factors[0, 0, 0], "factors")
    cdef int64_t j, stride = h.shape[1] if h.shape[0] > 1 else 0
    cdef int b, lanes = <int> A.shape[2], is_double = real is double, last = <int> h.shape[0] - 1
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        for b in range(A.shape[0]):
            pmb_column_update(is_double, lanes, &A[b, starts[j], 0], &h[0, starts[j]] + b * lanes * stride, stride,
                              last - b * lanes, starts[j + 1] - starts[j], &factors[0, classes[j], b * lanes],
                              &factors[1, classes[j], b * lanes], &factors[2, classes[j], b * lanes])


def signed_weights(const signed char[:, ::1] h, const double[::1] weight, const int64_t[::1] starts,
                   const int32_t[::1] classes, double[:, ::1] partial, double[:, ::1] out, int n_threads):
    """Sum h weight over the rows of each class.

    Parameters
    ----------
    h : IN (P, m) -1 or +1
    weight : IN (m,)
    starts, classes : IN, from `chunks`
    partial : scratch (n_chunks, P)
    out : OUT (K, P)
    """
    cdef int64_t j, p, P = h.shape[0], m = h.shape[1]
    if weight.shape[0] != m or partial.shape[0] != classes.shape[0] or partial.shape[1] != P or out.shape[1] != P:
        raise ValueError("the arrays do not fit each other")
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        pmb_signed_weights(&h[0, starts[j]], m, starts[j + 1] - starts[j], P, &weight[starts[j]], &partial[j, 0])
    out[:] = 0
    for j in range(classes.shape[0]):
        for p in range(P):
            out[classes[j], p] += partial[j, p]


def add_margins(const signed char[:, ::1] h, const double[::1] minus, const double[::1] plus,
                const int64_t[::1] starts, const int32_t[::1] classes, double[::1] margin, int n_threads):
    """Add to the margin of every row the value of its own class less the mean of the values of all classes.

    Parameters
    ----------
    h : IN (K, m) -1 or +1
    minus, plus : IN (K,) values where a class's h is -1 and +1
    starts, classes : IN, from `chunks`
    margin : INOUT (m,)
    """
    cdef int64_t j, m = h.shape[1]
    cdef int K = <int> h.shape[0]
    cdef double middle = 0
    cdef double[::1] half = (np.asarray(plus) - np.asarray(minus)) / 2
    for j in range(K):
        middle += (minus[j] + plus[j]) / (2 * K)
    for j in prange(classes.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        pmb_add_margins(&h[0, starts[j]], m, starts[j + 1] - starts[j], K, classes[j], minus[classes[j]],
                        plus[classes[j]], middle, &half[0], &margin[starts[j]])


def combine(const real[:, :, ::1] A, mu, real[:, :, ::1] out, int n_threads):
    """One column for the learner from all of A: out[0, i, 0] = sum_r A[i, r] mu[r].

    Parameters
    ----------
    A : IN (n_blocks, m, lanes)
    mu : IN aligned (n_blocks * lanes,) of A's dtype, zeros in the padding
    out : OUT (1, m, lanes)
    """
    cdef real[::1] weights = mu
    cdef int64_t j, m = A.shape[1], size = 4096, block_size = A.shape[1] * A.shape[2]
    cdef int lanes = <int> A.shape[2], is_double = real is double, n_blocks = <int> A.shape[0]
    aligned(&A[0, 0, 0], "A")
    for j in prange((m + size - 1) // size, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_combine(is_double, lanes, &A[0, j * size, 0], block_size, n_blocks, &weights[0], min(size, m - j * size),
                    &out[0, j * size, 0], <int> out.shape[2])
