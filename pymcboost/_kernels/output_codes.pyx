# cython: language_level=3
"""Columns of HingeBoost.OC's output code, which colour the classes: margins, costs, single changes, residuals.

A column mu in {-1, 0, +1}^K and a function g give h(x, y) = mu_y g(x). With residuals rho (m, K) (eq. 9):
    margins:  d_i = max over y of the other colour of rho_iy - max over y of the same colour
    cost:     sum_i max_y (rho_iy + mu_y g_i) - mu_{y_i} g_i (eq. 17)
    update:   rho_iy += mu_y g_i - mu_{y_i} g_i
Buffers
    rho : (m, K) float64; y : (m,) int32 class codes; mu : (K,) int8; g, d : (m,) float64.
"""

from libc.stdint cimport int8_t, int32_t, int64_t
from libc.stdlib cimport free, malloc

cdef extern from "output_codes.h" nogil:
    double pmb_colour_changes(const double *rho, const int32_t *y, const double *colour, const double *g, int64_t m,
                              int64_t K, const double *moved, int n, double *total, double *own)
    void pmb_colour_margins(const double *rho, const int32_t *y, const double *colour, int64_t m, int64_t K, double *d)
    double pmb_colour_update(double *rho, const int32_t *y, const double *colour, const double *g, int64_t m, int64_t K,
                             double *largest)
    void pmb_colour_best(const double *draws, const int64_t *fix, int64_t n, int64_t K, const double *W, double *x,
                         double *sum)
    void pmb_colour_sums(const double *rho, const int32_t *y, int64_t m, int64_t K, double *sums)

# A change of colour must lower the cost by at least this share; less is rounding.
cdef double LEAST = 1e-12


cdef int check(const double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu, int64_t entries) except -1:
    cdef int64_t i, m = rho.shape[0]
    cdef int k, K = rho.shape[1]
    cdef int32_t low = 0, high = 0
    if not m or K < 2 or y.shape[0] != m or mu.shape[0] != K:
        raise ValueError("rho, y and mu do not fit each other")
    for i in range(m):
        low = y[i] if y[i] < low else low
        high = y[i] if y[i] > high else high
    if low < 0 or high >= K:
        raise ValueError("y must hold codes of classes")
    for k in range(K):
        if not -1 <= mu[k] <= 1:
            raise ValueError("mu must hold -1, 0 and 1")
    if entries != m:
        raise ValueError("g and d must have an entry for every row")
    return 0


cdef double *colours_of(const int8_t[::1] mu, int64_t more) except NULL:
    """mu as numbers, with room for ``more`` of them after it; to be freed."""
    cdef int64_t k, K = mu.shape[0]
    cdef double *colour = <double *> malloc((K + more) * sizeof(double))
    if colour == NULL:
        raise MemoryError()
    for k in range(K):
        colour[k] = mu[k]
    return colour


def margins(const double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu, double[::1] d):
    """Write the margins that a column asks for to d: 0 for rows whose class has no colour. O(m K)."""
    check(rho, y, mu, d.shape[0])
    cdef double *colour = colours_of(mu, 0)
    with nogil:
        pmb_colour_margins(&rho[0, 0], &y[0], colour, rho.shape[0], rho.shape[1], &d[0])
        free(colour)


def cost(const double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu, const double[::1] g):
    """Cost (17) of a column with g: the sum over rows of the largest residual after the update. O(m K)."""
    cdef double total, own
    check(rho, y, mu, g.shape[0])
    cdef double *colour = colours_of(mu, 0)
    with nogil:
        total = pmb_colour_changes(&rho[0, 0], &y[0], colour, &g[0], rho.shape[0], rho.shape[1], NULL, 0, NULL, &own)
        free(colour)
    return total


cdef inline void paint(double *colour, double *moved, int k, int new, int n) noexcept nogil:
    """Give class k a colour, and where a change is one to the opposite colour (n = 1) that as its change."""
    colour[k] = new
    if n == 1:
        moved[k] = -colour[k]


def recolour(const double[:, ::1] rho, const int32_t[::1] y, int8_t[::1] mu, const double[::1] g, bint allow_zero):
    """Single changes of colour that lower the cost, classes in order, until none does; both signs stay in use.

    mu : IN/OUT. O(m K) for every change. Returns (changes, cost before, cost after). Costs that differ by rounding, as
    differences of sums that g is in, are equal.
    """
    cdef int64_t i, m = rho.shape[0]
    cdef int k, K = rho.shape[1], old, new, chosen, changes = 0, unchanged = 0, n
    cdef int count[3]
    cdef double now, before, found, own, value, size = 0
    check(rho, y, mu, g.shape[0])
    # The column, the sum of g over the rows of each class, and the costs of all changes, which are to the opposite
    # colour, or to -1, 0 and 1 where there are zeros.
    cdef double *colour = colours_of(mu, 7 * K)
    cdef double *of_class = colour + K
    cdef double *total = colour + 2 * K
    cdef double *moved = colour + 5 * K
    with nogil:
        count[0] = count[1] = count[2] = 0
        for k in range(K):
            count[mu[k] + 1] += 1
            of_class[k] = 0
        n = 3 if allow_zero or count[1] else 1
        for k in range(n * K):
            moved[k] = k // K - 1 if n == 3 else -colour[k]
        for i in range(m):
            of_class[y[i]] += g[i]
            size += g[i] if g[i] > 0 else -g[i]
        before = now = pmb_colour_changes(&rho[0, 0], &y[0], colour, &g[0], m, K, moved, n, total, &own)
        k = 0
        while unchanged < K:
            old = mu[k] + 1
            chosen = -1
            found = now - LEAST * ((now if now > 0 else -now) + size)
            if old == 1 or count[old] > 1:
                for new in range(3):
                    if new == old or (new == 1 and not allow_zero):
                        continue
                    value = total[new * K + k if n == 3 else k] - own - (new - old) * of_class[k]
                    if value < found:
                        found = value
                        chosen = new
            if chosen >= 0:
                paint(colour, moved, k, chosen - 1, n)
                found = pmb_colour_changes(&rho[0, 0], &y[0], colour, &g[0], m, K, moved, n, total, &own)
                if found < now:
                    now = found
                    mu[k] = <int8_t> (chosen - 1)
                    count[old] -= 1
                    count[chosen] += 1
                    changes += 1
                    unchanged = 0
                else:  # it was rounding
                    paint(colour, moved, k, old - 1, n)
                    pmb_colour_changes(&rho[0, 0], &y[0], colour, &g[0], m, K, moved, n, total, &own)
            unchanged += 1
            k = k + 1 if k + 1 < K else 0
        free(colour)
    return changes, before, now


def update(double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu, const double[::1] g):
    """Residuals of the next round, in place: O(m K). Returns the sum of the rows' largest and the largest of all."""
    cdef double total, largest
    check(rho, y, mu, g.shape[0])
    cdef double *colour = colours_of(mu, 0)
    with nogil:
        total = pmb_colour_update(&rho[0, 0], &y[0], colour, &g[0], rho.shape[0], rho.shape[1], &largest)
        free(colour)
    return total, largest


def class_sums(const double[:, ::1] rho, const int32_t[::1] y, double[:, ::1] sums):
    """Write the sum of the residuals over the rows of each class to sums (K, K), C-contiguous. O(m K)."""
    cdef int64_t i, m = rho.shape[0], K = rho.shape[1]
    if not m or y.shape[0] != m or sums.shape[0] != K or sums.shape[1] != K:
        raise ValueError("rho, y and sums do not fit each other")
    for i in range(m):
        if not 0 <= y[i] < K:
            raise ValueError("y must hold codes of classes")
    sums[:] = 0
    with nogil:
        pmb_colour_sums(&rho[0, 0], &y[0], m, K, &sums[0, 0])


def best_column(const double[:, ::1] draws, const int64_t[::1] fix, const double[:, ::1] weights, int8_t[::1] mu):
    """Write the column that cuts most of those that draws (n, K) make to mu: +1 where a draw is below 1/2, else -1.

    fix : (n,) classes; the j-th column of one colour has the colour of class fix[j] changed.
    weights : (K, K) symmetric with zero diagonal. O(n K^2).
    """
    cdef int64_t j, n = draws.shape[0], K = mu.shape[0]
    if not n or K < 2 or draws.shape[1] != K or fix.shape[0] < n or weights.shape[0] != K or weights.shape[1] != K:
        raise ValueError("draws, fix, weights and mu do not fit each other")
    for j in range(n):
        if not 0 <= fix[j] < K:
            raise ValueError("fix must hold codes of classes")
    cdef double *x = <double *> malloc(2 * K * sizeof(double))
    if x == NULL:
        raise MemoryError()
    with nogil:
        pmb_colour_best(&draws[0, 0], &fix[0], n, K, &weights[0, 0], x, x + K)
    for j in range(K):
        mu[j] = <int8_t> x[j]
    free(x)
