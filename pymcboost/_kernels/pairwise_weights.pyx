# cython: language_level=3
"""The m x K weights of the pairwise losses (MCBoost, eq. 12): K x K sums by class and side of a stump, and updates.

Rows are sorted by class and cut into chunks (at most 4,096 rows, one class each); every chunk is summed by one thread
and chunks are added in order, so results do not depend on the number of threads.
"""

from libc.stdint cimport int32_t, int64_t

from .pool cimport pieces_of, pmb_piece, run

import numpy as np

cdef extern from "pairwise_weights.h" nogil:
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

cdef enum:
    COMBINED_ROWS = 4096  # of a piece of `combine`

# Arrays that passes over chunks of rows read and write; each uses some of them. Blocks are block_size numbers apart.
cdef struct Pass:
    int is_double, lanes, n_blocks, last, K, out_step
    int64_t item, block_size, m, stride, P
    char *A
    char *Q
    const signed char *h
    const double *weight
    const int64_t *starts
    const int32_t *classes
    const char *table   # (3, K, n_blocks * lanes)
    int64_t row_size    # bytes of a row of the table
    int64_t table_size  # bytes of one of its three parts
    double by, middle
    char *partial       # of each chunk
    int64_t part_size   # numbers of 8 bytes of a chunk
    double *margin
    const double *minus
    const double *plus
    const double *half


cdef Pass pass_over(const real[:, :, ::1] A, const int64_t[::1] starts, const int32_t[::1] classes):
    """A pass over chunks of blocks of columns."""
    cdef Pass p
    p.is_double, p.lanes, p.n_blocks, p.item = real is double, <int> A.shape[2], <int> A.shape[0], sizeof(real)
    p.m, p.block_size, p.A, p.starts, p.stride = A.shape[1], A.shape[1] * A.shape[2], <char *> &A[0, 0, 0], NULL, 0
    if classes.shape[0]:
        p.starts, p.classes = &starts[0], &classes[0]
    return p


cdef void set_table(Pass *p, const real[:, :, ::1] table):
    """Factors by class of the row, and the number added."""
    p.table, p.row_size = <const char *> &table[0, 0, 0], table.shape[2] * sizeof(real)
    p.table_size = table.shape[1] * p.row_size


cdef void set_sides(Pass *p, const signed char[:, ::1] h):
    """Sides of the rows: common to all columns, or one array for each column."""
    p.h, p.stride = &h[0, 0], h.shape[1] if h.shape[0] > 1 else 0


cdef inline char *rows_at(const Pass *p, char *base, int64_t block, int64_t row) noexcept nogil:
    """Values of a row in a block."""
    return base + (block * p.block_size + row * p.lanes) * p.item


cdef inline const char *factors_at(const Pass *p, int part, int cls, int block) noexcept nogil:
    """Factors of a class for the columns of a block."""
    return p.table + part * p.table_size + cls * p.row_size + block * p.lanes * p.item


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
    cdef Pass p = pass_over(A, starts, classes)
    p.h = &h[0]
    set_table(&p, table)
    with nogil:
        run(n_threads, classes.shape[0], exp_update_piece, &p)


cdef void exp_update_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j]
    cdef int cls = p.classes[j]
    pmb_exp_update(p.is_double, p.lanes, rows_at(p, p.A, 0, start), p.block_size, p.n_blocks, p.h + start,
                   p.starts[j + 1] - start, factors_at(p, 0, cls, 0), factors_at(p, 1, cls, 0),
                   factors_at(p, 2, cls, 0), cls)


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
    cdef int c, r, k, K = <int> out.shape[1], lanes = <int> Q.shape[2]
    cdef int64_t j
    partial[:] = 0
    log_pass(Q, h, weight, starts, classes, table, 0, <char *> &partial[0, 0, 0, 0], log_sums_piece, n_threads)
    out[:] = 0
    with nogil:
        for j in range(classes.shape[0]):
            c = classes[j]
            for k in range(4):
                for r in range(K):
                    if r != c:
                        out[k, c, r] += partial[j, r // lanes, k, r % lanes]


cdef void log_pass(const real[:, :, ::1] Q, const signed char[::1] h, const double[::1] weight,
                   const int64_t[::1] starts, const int32_t[::1] classes, const real[:, :, ::1] table, double by,
                   char *partial, pmb_piece do_it, int n_threads):
    """Sums of the logistic loss of every chunk."""
    cdef Pass p = pass_over(Q, starts, classes)
    p.Q, p.h, p.weight, p.by, p.partial, p.part_size = p.A, &h[0], &weight[0], by, partial, 4 * p.n_blocks * p.lanes
    set_table(&p, table)
    with nogil:
        run(n_threads, classes.shape[0], do_it, &p)


cdef void log_sums_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j], n = p.starts[j + 1] - start
    cdef double *out = <double *> p.partial + j * p.part_size
    cdef int b, cls = p.classes[j]
    for b in range(p.n_blocks):
        pmb_log_sums(p.is_double, p.lanes, rows_at(p, p.Q, b, start), p.h + start, p.weight + start, n,
                     factors_at(p, 0, cls, b), factors_at(p, 1, cls, b), out + 4 * b * p.lanes)


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
    cdef Pass p = pass_over(A, starts, classes)
    p.Q, p.h, p.weight = <char *> &Q[0, 0, 0], &h[0], &weight[0]
    set_table(&p, table)
    with nogil:
        run(n_threads, classes.shape[0], log_update_piece, &p)


cdef void log_update_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j]
    cdef int cls = p.classes[j]
    pmb_log_update(p.is_double, p.lanes, rows_at(p, p.Q, 0, start), rows_at(p, p.A, 0, start), p.block_size,
                   p.n_blocks, p.h + start, p.weight + start, p.starts[j + 1] - start, factors_at(p, 0, cls, 0),
                   factors_at(p, 1, cls, 0), factors_at(p, 2, cls, 0), cls)


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
    cdef int64_t j
    cdef int c, column, side, lanes = <int> A.shape[2], P = <int> out.shape[2]
    cdef Pass p
    aligned(&A[0, 0, 0], "A")
    partial[:] = 0
    p = pass_over(A, starts, classes)
    set_sides(&p, h)
    p.last, p.partial, p.part_size = P - 1, <char *> &partial[0, 0, 0, 0], 2 * p.n_blocks * lanes
    with nogil:
        run(n_threads, classes.shape[0], column_sums_piece, &p)
    out[:] = 0
    with nogil:
        for j in range(classes.shape[0]):
            c = classes[j]
            for side in range(2):
                for column in range(P):
                    out[side, c, column] += partial[j, side, column // lanes, column % lanes]


cdef void column_sums_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j], n = p.starts[j + 1] - start
    cdef double *plus = <double *> p.partial + j * p.part_size
    cdef double *minus = plus + p.n_blocks * p.lanes
    cdef int b, column
    for b in range(p.n_blocks):
        column = b * p.lanes
        if p.stride:
            pmb_column_sums(p.is_double, p.lanes, rows_at(p, p.A, b, start), p.h + start + column * p.stride, p.stride,
                            p.last - column, n, plus + column, minus + column)
        else:
            pmb_side_sums(p.is_double, p.lanes, rows_at(p, p.A, b, start), p.h + start, n, plus + column,
                          minus + column)


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
    """Like `column_sums`, in integers: terms times ``by``, without their fractions.

    Parameters
    ----------
    partial : scratch (n_chunks, n_blocks, 2, lanes)
    """
    cdef Pass p = pass_over(A, starts, classes)
    partial[:] = 0
    set_sides(&p, h)
    p.last, p.by, p.partial = <int> out.shape[2] - 1, by, <char *> &partial[0, 0, 0, 0]
    p.part_size = 2 * p.n_blocks * p.lanes
    with nogil:
        run(n_threads, classes.shape[0], column_units_piece, &p)
    add_up(partial, classes, p.lanes, out)


cdef void column_units_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j], n = p.starts[j + 1] - start
    cdef int64_t *plus = <int64_t *> p.partial + j * p.part_size
    cdef int b, column
    for b in range(p.n_blocks):
        column = b * p.lanes
        if p.stride:
            pmb_column_units(p.is_double, p.lanes, rows_at(p, p.A, b, start), p.h + start + column * p.stride,
                             p.stride, p.last - column, n, p.by, plus, plus + p.lanes)
        else:
            pmb_side_units(p.is_double, p.lanes, rows_at(p, p.A, b, start), p.h + start, n, p.by, plus, plus + p.lanes)
        plus += 2 * p.lanes


def log_units(const real[:, :, ::1] Q, const signed char[::1] h, const double[::1] weight, const int64_t[::1] starts,
              const int32_t[::1] classes, const double[:, ::1] plus, const double[:, ::1] minus, factors, double by,
              int64_t[:, :, :, ::1] partial, int64_t[:, :, ::1] out, int n_threads):
    """Like `log_sums`, in integers: terms times ``by``, without their fractions; the diagonal is not 0.

    Parameters
    ----------
    partial : scratch (n_chunks, n_blocks, 4, lanes)
    """
    aligned(&Q[0, 0, 0], "Q")
    cdef real[:, :, ::1] table = factors
    spread(plus, minus, 0, table)
    partial[:] = 0
    log_pass(Q, h, weight, starts, classes, table, by, <char *> &partial[0, 0, 0, 0], log_units_piece, n_threads)
    add_up(partial, classes, <int> Q.shape[2], out)


cdef void log_units_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j], n = p.starts[j + 1] - start
    cdef int64_t *out = <int64_t *> p.partial + j * p.part_size
    cdef int b, cls = p.classes[j]
    for b in range(p.n_blocks):
        pmb_log_units(p.is_double, p.lanes, rows_at(p, p.Q, b, start), p.h + start, p.weight + start, n,
                      factors_at(p, 0, cls, b), factors_at(p, 1, cls, b), p.by, out + 4 * b * p.lanes)


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
    cdef Pass p = pass_over(A, starts, classes)
    set_sides(&p, h)
    set_table(&p, factors)
    p.last = <int> h.shape[0] - 1
    with nogil:
        run(n_threads, classes.shape[0], column_update_piece, &p)


cdef void column_update_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j], n = p.starts[j + 1] - start
    cdef int b, column, cls = p.classes[j]
    for b in range(p.n_blocks):
        column = b * p.lanes
        pmb_column_update(p.is_double, p.lanes, rows_at(p, p.A, b, start), p.h + start + column * p.stride, p.stride,
                          p.last - column, n, factors_at(p, 0, cls, b), factors_at(p, 1, cls, b),
                          factors_at(p, 2, cls, b))


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
    cdef int64_t j, column, P = h.shape[0], m = h.shape[1]
    if weight.shape[0] != m or partial.shape[0] != classes.shape[0] or partial.shape[1] != P or out.shape[1] != P:
        raise ValueError("the arrays do not fit each other")
    out[:] = 0
    if not classes.shape[0]:
        return
    cdef Pass p
    p.h, p.m, p.P, p.weight, p.starts = &h[0, 0], m, P, &weight[0], &starts[0]
    p.partial = <char *> &partial[0, 0]
    with nogil:
        run(n_threads, classes.shape[0], signed_weights_piece, &p)
    for j in range(classes.shape[0]):
        for column in range(P):
            out[classes[j], column] += partial[j, column]


cdef void signed_weights_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j]
    pmb_signed_weights(p.h + start, p.m, p.starts[j + 1] - start, p.P, p.weight + start,
                       <double *> p.partial + j * p.P)


def add_margins(const signed char[:, ::1] h, const double[::1] minus, const double[::1] plus,
                const int64_t[::1] starts, const int32_t[::1] classes, double[::1] margin, int n_threads):
    """Add to the margin of every row the value of its class minus the mean of the values of all classes.

    Parameters
    ----------
    h : IN (K, m) -1 or +1
    minus, plus : IN (K,) values where a class's h is -1 and +1
    starts, classes : IN, from `chunks`
    margin : INOUT (m,)
    """
    cdef int64_t j
    cdef int K = <int> h.shape[0]
    cdef double middle = 0
    cdef double[::1] half = (np.asarray(plus) - np.asarray(minus)) / 2
    cdef Pass p
    for j in range(K):
        middle += (minus[j] + plus[j]) / (2 * K)
    if not classes.shape[0]:
        return
    p.h, p.m, p.K, p.starts, p.classes = &h[0, 0], h.shape[1], K, &starts[0], &classes[0]
    p.minus, p.plus, p.middle, p.half, p.margin = &minus[0], &plus[0], middle, &half[0], &margin[0]
    with nogil:
        run(n_threads, classes.shape[0], add_margins_piece, &p)


cdef void add_margins_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[j]
    cdef int cls = p.classes[j]
    pmb_add_margins(p.h + start, p.m, p.starts[j + 1] - start, p.K, cls, p.minus[cls], p.plus[cls], p.middle, p.half,
                    p.margin + start)


def combine(const real[:, :, ::1] A, mu, real[:, :, ::1] out, int n_threads):
    """One column for the learner from all of A: out[0, i, 0] = sum_r A[i, r] mu[r].

    Parameters
    ----------
    A : IN (n_blocks, m, lanes)
    mu : IN aligned (n_blocks * lanes,) of A's dtype, zeros in the padding
    out : OUT (1, m, lanes)
    """
    cdef real[::1] weights = mu
    cdef Pass p
    aligned(&A[0, 0, 0], "A")
    p.is_double, p.lanes, p.n_blocks, p.item = real is double, <int> A.shape[2], <int> A.shape[0], sizeof(real)
    p.m, p.block_size, p.A, p.table = A.shape[1], A.shape[1] * A.shape[2], <char *> &A[0, 0, 0], <char *> &weights[0]
    p.Q, p.out_step = <char *> &out[0, 0, 0], <int> out.shape[2]
    with nogil:
        run(n_threads, pieces_of(p.m, COMBINED_ROWS), combine_piece, &p)


cdef void combine_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = j * COMBINED_ROWS
    pmb_combine(p.is_double, p.lanes, rows_at(p, p.A, 0, start), p.block_size, p.n_blocks, p.table,
                min(<int64_t> COMBINED_ROWS, p.m - start), p.Q + start * p.out_step * p.item, p.out_step)
