# cython: language_level=3
"""Fast coordinate descent (FCD) on the pairwise exponential loss with binary weak learners.

Problem
    minimise over 0 <= w <= cap the sum over rows i and classes y != y_i of
    U[y, i] = s_i exp(-(F[y_i](x_i) - F[y](x_i))), plus nu sum(w),
    F[c](x) = sum over the coordinates (c, j) of w[c, j] h_j(x).
A coordinate of class c sees one number per row, u_i: U[c, i], or for rows of class c the sum of U[y, i] over y != c.
With delta = h on the rows of class c and -h elsewhere, V+ and V- are the sums of u where delta = +1 and -1 (without
the coordinate's own part), and its minimiser is in closed form (MultiBoost-cw, eq. 12). All coordinates of a class are
visited together: a visit costs O(m) once and one pass over u and h for each update, whatever the number of classes.

Buffers
    U : (K, stride) float32 or float64, rows sorted by class, stride a multiple of 64, padding 0. What U[c] holds on the
    rows of class c itself is scratch.
    H : (n, stride / 32) uint32, bit i % 32 of word i / 32 is set where the learner says -1 on row i; padding 0.
    ptr : (K + 1,) int64; coordinates of class c are ptr[c]..ptr[c + 1]; column : (n_coordinates,) int32 row of H.
"""

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from .pool cimport pieces_of, run, threads_for

cdef extern from "fcd.h" nogil:
    int pmb_fcd_allow_512
    int pmb_fcd_has_512()
    void pmb_fcd_sums(int is_double, const void *u, const uint32_t *next, int64_t rows, int64_t own, int64_t own_end,
                      double *sums)
    void pmb_fcd_both(int is_double, void *u, const uint32_t *prev, const uint32_t *next, int64_t rows, int64_t own,
                      int64_t own_end, double f_plus, double f_minus, double *sums)
    void pmb_fcd_scale(int is_double, void *u, const uint32_t *prev, int64_t rows, int64_t own, int64_t own_end,
                       double f_plus, double f_minus)
    void pmb_fcd_own(int is_double, const void *U, int64_t stride, int n_classes, int c, int64_t own, int64_t own_end,
                     void *to)
    void pmb_fcd_leave(int is_double, void *U, int64_t stride, int n_classes, int c, int64_t n_rows, int64_t own,
                       int64_t own_end, double smallest, void *before)
    double pmb_fcd_total(int is_double, const void *u, int64_t n)
    void pmb_margins(const uint32_t *H, int64_t stride, const int32_t *column, const double *w, int64_t n, int64_t rows,
                     double *F)
    double pmb_fcd_best(double plus, double minus, double nu, double cap, double old, double *factor)
    void PMB_PREFETCH(const void *p)
    uint64_t pmb_random(uint64_t *state)

cdef enum:
    AHEAD = 1024  # words of the next learner's bits that are called into the cache; the rest follows of itself
    PIECE_ROWS = 1024        # of a gradient, which a thread writes at a time
    PIECE_NUMBERS = 1 << 14  # weights that a thread adds up at a time, at least
    FEW_NUMBERS = 1 << 16    # With fewer numbers than this, one thread is faster.

ctypedef fused real:
    float
    double

ctypedef fused other:
    float
    double


# Arrays that threads share; each loop uses some of them. A piece is some coordinates, a class or some rows.
cdef struct Shared:
    int is_double, other_is_double, K, lanes
    int64_t stride, m
    int64_t n, size         # coordinates of the class, and of a piece
    const void *U           # all weights, or those of one class
    int64_t own, own_end    # rows of that class
    const int64_t *class_start
    const uint32_t *H
    const int64_t *ptr
    const int32_t *column
    const double *w
    double *out             # the sums, or margins
    void *A                 # (n_blocks, m, lanes)
    int64_t block_size      # numbers of a block of A


def allow_512(bint allowed):
    """Allow or forbid AVX-512 on CPUs that have it: for the test that results do not depend on it.

    Returns whether it will be.
    """
    global pmb_fcd_allow_512
    pmb_fcd_allow_512 = allowed
    return bool(pmb_fcd_has_512())


cdef inline void shuffle(int32_t *a, int64_t n, uint64_t *state) noexcept nogil:
    cdef int64_t i, j
    cdef int32_t t
    for i in range(n - 1, 0, -1):
        j = <int64_t> (pmb_random(state) % <uint64_t> (i + 1))
        t = a[i]
        a[i] = a[j]
        a[j] = t


cdef inline void enter(real *U, int64_t stride, int K, int c, int64_t own, int64_t own_end) noexcept nogil:
    """Update U[c] on the rows of class c."""
    pmb_fcd_own(real is double, U, stride, K, c, own, own_end, <void *> (U + c * stride + own))


cdef void sums_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Shared *p = <const Shared *> what
    cdef int64_t j
    for j in range(piece * p.size, min(p.n, (piece + 1) * p.size)):
        pmb_fcd_sums(p.is_double, p.U, p.H + p.column[j] * (p.stride // 32), p.stride, p.own, p.own_end, p.out + 2 * j)


cdef double violation(double slope, double w, double cap) noexcept nogil:
    """Violation of the optimality conditions (eq. 16) by a coordinate with this derivative of the objective."""
    if w <= 0:
        return -slope if slope < 0 else 0
    if w >= cap:
        return slope if slope > 0 else 0
    return fabs(slope)


def violations(const double[::1] slope, const double[::1] w, double cap, double[::1] out):
    """Violations of the optimality conditions by the coordinates (eq. 16, times nu).

    Parameters
    ----------
    slope, w : IN (n_coordinates,)
        Derivatives of the objective, and coefficients.
    out : OUT (n_coordinates,)
    """
    cdef int64_t j
    if slope.shape[0] != w.shape[0] or out.shape[0] != w.shape[0]:
        raise ValueError("slope, w and out do not fit each other")
    for j in range(w.shape[0]):
        out[j] = violation(slope[j], w[j], cap)


cdef int check(int64_t stride, int64_t m, int64_t h_stride, const void *U) except -1:
    if stride % 64 or 32 * h_stride != stride or m > stride:
        raise ValueError("U and H must have room for the same rows, a multiple of 64 and at least those there are")
    if <size_t> U % 64:
        raise ValueError("U must start on a 64-byte boundary; make it with aligned_zeros")
    return 0


cdef int check_coordinates(int64_t n, const int64_t[::1] ptr, const int32_t[::1] column, int64_t n_w,
                           int K) except -1:
    """Refuse coordinates that lie outside of H or outside of each other's arrays."""
    cdef int64_t j
    cdef int c
    if ptr.shape[0] != K + 1 or ptr[0] != 0 or ptr[K] != column.shape[0] or n_w != column.shape[0]:
        raise ValueError("ptr, column and w do not fit each other")
    for c in range(K):
        if ptr[c] > ptr[c + 1]:
            raise ValueError("ptr must not fall")
    for j in range(column.shape[0]):
        if not 0 <= column[j] < n:
            raise ValueError("column must hold rows of H")
    return 0


def coordinate_sums(real[:, ::1] U, const int64_t[::1] class_start, const uint32_t[:, ::1] H, const int64_t[::1] ptr,
                    const int32_t[::1] column, double[:, ::1] out, int n_threads):
    """Sums of the weights on both sides of every coordinate, its own part included.

    Parameters
    ----------
    out : OUT (n_coordinates, 2)
        Sums of u where delta = +1 and -1: the loss has the derivative out[:, 1] - out[:, 0].
    """
    cdef int c, K = U.shape[0]
    cdef Shared p
    p.is_double, p.stride, p.H = real is double, U.shape[1], &H[0, 0]
    p.size = PIECE_NUMBERS // (p.stride + 1) + 1
    check(p.stride, class_start[K], H.shape[1], &U[0, 0])
    check_coordinates(H.shape[0], ptr, column, out.shape[0], K)
    for c in range(K):
        if ptr[c] == ptr[c + 1]:
            continue
        p.own, p.own_end, p.n = class_start[c], class_start[c + 1], ptr[c + 1] - ptr[c]
        p.U, p.column, p.out = &U[c, 0], &column[ptr[c]], &out[ptr[c], 0]
        with nogil:
            enter(&U[0, 0], p.stride, K, c, p.own, p.own_end)
            run(threads_for(n_threads, p.n * p.stride, FEW_NUMBERS), pieces_of(p.n, p.size), sums_piece, &p)


cdef int64_t pick(const uint8_t[::1] listed, int64_t begin, int64_t end, int32_t[::1] picks, uint64_t *state) noexcept:
    """The coordinates of a class to visit, in order: those listed, or all of them shuffled. Returns how many."""
    cdef int64_t j, n = 0
    for j in range(begin, end):
        if listed.shape[0] == 0 or listed[j]:
            picks[n] = <int32_t> j
            n += 1
    if listed.shape[0] == 0:
        shuffle(&picks[0], n, state)
    return n


ctypedef struct pass_t:
    int64_t stride, own, own_end, updates
    double nu, cap, tol, largest


cdef bint visit(real *u, const uint32_t *H, const int32_t *column, const int32_t *picks, int64_t n, bint chosen,
                double *w, pass_t *p) noexcept nogil:
    """Visit the picked coordinates of one class, whose weights are u. Returns whether one of them has moved."""
    cdef int64_t a, j, k, words = p.stride // 32
    cdef double size, old, new, f_plus = 1, f_minus = 1
    cdef double[2] V
    cdef const uint32_t *h
    cdef const uint32_t *prev = NULL
    cdef bint moved = False
    for k in range(n):
        j = picks[k]
        h = H + column[j] * words
        if k + 1 < n:
            for a in range(0, min(words, <int64_t> AHEAD), 16):
                PMB_PREFETCH(H + column[picks[k + 1]] * words + a)
        if prev == NULL:
            pmb_fcd_sums(real is double, u, h, p.stride, p.own, p.own_end, V)
        else:
            pmb_fcd_both(real is double, u, prev, h, p.stride, p.own, p.own_end, f_plus, f_minus, V)
        old = w[j]
        prev = NULL
        size = violation(p.nu + V[1] - V[0], old, p.cap)
        p.largest = max(p.largest, size)
        if size <= p.tol and not chosen:
            continue
        p.updates += 1
        new = pmb_fcd_best(V[0], V[1], p.nu, p.cap, old, &f_plus)
        if new != old:
            w[j] = new
            moved = True
            prev = h
            f_minus = 1 / f_plus
    if prev != NULL:
        pmb_fcd_scale(real is double, u, prev, p.stride, p.own, p.own_end, f_plus, f_minus)
    return moved


def descend(real[:, ::1] U, const int64_t[::1] class_start, const uint32_t[:, ::1] H, const int64_t[::1] ptr,
            const int32_t[::1] column, double[::1] w, const uint8_t[::1] listed, double nu, double cap, double tol,
            double smallest, uint64_t seed, real[::1] before, int32_t[::1] order, int32_t[::1] picks):
    """One pass of FCD over the coordinates, class by class.

    Parameters
    ----------
    w : INOUT (n_coordinates,)
    listed : IN (n_coordinates,), or empty
        The coordinates to update, in their order. If empty: those that violate the optimality conditions by more than
        ``tol`` when their turn comes; classes, and coordinates within a class, in an order drawn from the seed.
    smallest : added to every weight of a class that has been visited; keeps denormal numbers away
    before : scratch (m,); order : scratch (K,); picks : scratch (n_coordinates,)

    Returns
    -------
    (int, float)
        Updates made, and the largest violation met.
    """
    cdef int c, K = U.shape[0]
    cdef int64_t a, j, n
    cdef uint64_t state = seed * <uint64_t> 2 + 1
    cdef bint chosen = listed.shape[0] > 0
    cdef pass_t p
    p.stride, p.updates, p.nu, p.cap, p.tol, p.largest = U.shape[1], 0, nu, cap, tol, 0
    check(p.stride, class_start[K], H.shape[1], &U[0, 0])
    check_coordinates(H.shape[0], ptr, column, w.shape[0], K)
    if (chosen and listed.shape[0] != w.shape[0]) or picks.shape[0] < w.shape[0] or order.shape[0] < K \
            or before.shape[0] < class_start[K]:
        raise ValueError("listed, picks, order and before do not fit the coordinates and rows")
    for _ in range(8):
        pmb_random(&state)
    for c in range(K):
        order[c] = c
    if not chosen:
        shuffle(&order[0], K, &state)
    for a in range(K):
        c = order[a]
        if ptr[c] == ptr[c + 1]:
            continue
        p.own, p.own_end = class_start[c], class_start[c + 1]
        enter(&U[0, 0], p.stride, K, c, p.own, p.own_end)
        n = pick(listed, ptr[c], ptr[c + 1], picks, &state)
        if n == 0:
            continue
        with nogil:
            for j in range(p.own_end - p.own):
                before[j] = U[c, p.own + j]
            if visit(&U[c, 0], &H[0, 0], &column[0], &picks[0], n, chosen, &w[0], &p):
                pmb_fcd_leave(real is double, &U[0, 0], p.stride, K, c, class_start[K], p.own, p.own_end, smallest,
                              <void *> &before[0])
    return p.updates, p.largest


def total(const real[:, ::1] U, const int64_t[::1] class_start):
    """Sum of all U[y, i] with y other than the class of i."""
    cdef int c, K = U.shape[0]
    cdef double result = 0
    for c in range(K):
        result += pmb_fcd_total(real is double, &U[c, 0], class_start[c])
        result += pmb_fcd_total(real is double, &U[c, 0] + class_start[c + 1], class_start[K] - class_start[c + 1])
    return result


def margins(const uint32_t[:, ::1] H, const int64_t[::1] ptr, const int32_t[::1] column, const double[::1] w,
            double[:, ::1] F, int n_threads):
    """F[c] = sum over the coordinates of class c of w h: OUT (K, stride), 64-byte aligned."""
    cdef Shared p
    p.stride, p.out, p.ptr = F.shape[1], &F[0, 0], &ptr[0]
    check(p.stride, 0, H.shape[1], &F[0, 0])
    check_coordinates(H.shape[0], ptr, column, w.shape[0], F.shape[0])
    p.H = &H[0, 0] if H.shape[0] else NULL
    p.column = &column[0] if column.shape[0] else NULL
    p.w = &w[0] if w.shape[0] else NULL
    with nogil:
        run(threads_for(n_threads, column.shape[0] * p.stride, FEW_NUMBERS), F.shape[0], margins_piece, &p)


cdef void margins_piece(void *what, int64_t c, int thread) noexcept nogil:
    cdef const Shared *p = <const Shared *> what
    cdef int64_t first = p.ptr[c]
    pmb_margins(p.H, p.stride // 32, p.column + first, p.w + first, p.ptr[c + 1] - first, p.stride,
                p.out + c * p.stride)


def gradient(real[:, ::1] U, const int64_t[::1] class_start, A, int n_threads):
    """The negative gradient in the layout of the weak learners: A = -U off the class, the row's sum on it.

    Parameters
    ----------
    A : OUT (n_blocks, m, lanes) of float32 or float64; lanes beyond the classes are left as they are
    """
    if A.dtype == "float32":
        gradient_as[real, float](U, class_start, A, n_threads)
    else:
        gradient_as[real, double](U, class_start, A, n_threads)


cdef inline other narrow(real value, other like) noexcept nogil:
    """Convert a weight to the type of the gradient; the largest ones stay finite."""
    if other is float and real is double:
        return <float> 1e30 if value > 1e30 else <float> value
    else:
        return <other> value


cdef gradient_as(real[:, ::1] U, const int64_t[::1] class_start, other[:, :, ::1] A, int n_threads):
    cdef int c, K = U.shape[0]
    cdef Shared p
    p.K, p.lanes, p.m, p.stride, p.class_start = K, A.shape[2], class_start[K], U.shape[1], &class_start[0]
    p.U, p.is_double, p.A, p.other_is_double = &U[0, 0], real is double, &A[0, 0, 0], other is double
    p.block_size = A.shape[1] * A.shape[2]
    for c in range(K):
        enter(&U[0, 0], p.stride, K, c, class_start[c], class_start[c + 1])
    with nogil:
        run(threads_for(n_threads, p.m * K, FEW_NUMBERS), pieces_of(p.m, PIECE_ROWS), gradient_piece, &p)


cdef void gradient_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Shared *p = <const Shared *> what
    if p.is_double and p.other_is_double:
        gradient_rows(p, piece, <const double *> p.U, <double *> p.A)
    elif p.is_double:
        gradient_rows(p, piece, <const double *> p.U, <float *> p.A)
    elif p.other_is_double:
        gradient_rows(p, piece, <const float *> p.U, <double *> p.A)
    else:
        gradient_rows(p, piece, <const float *> p.U, <float *> p.A)


cdef inline void gradient_rows(const Shared *p, int64_t piece, const real *U, other *A) noexcept nogil:
    cdef int64_t i, begin = piece * PIECE_ROWS, end = min(p.m, begin + PIECE_ROWS)
    cdef int c
    cdef const real *u
    cdef other *a
    for c in range(p.K):
        u = U + c * p.stride
        a = A + (c // p.lanes) * p.block_size + c % p.lanes
        for i in range(begin, end):
            a[i * p.lanes] = -narrow(u[i], <other> 0)
        for i in range(max(begin, p.class_start[c]), min(end, p.class_start[c + 1])):
            a[i * p.lanes] = narrow(u[i], <other> 0)
