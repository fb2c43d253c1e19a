# cython: language_level=3
"""Class colourings of HingeBoost.OC: margins that a column asks for, its cost, recolouring and the residuals' update.

A column mu in {-1, 0, +1}^K and a function g give h(x, y) = mu_y g(x). With residuals rho (m, K) (eq. 9):
    margins:  d_i = max over y of the other colour of rho_iy - max over y of the same colour
    cost:     sum_i max_y (rho_iy + mu_y g_i) - mu_{y_i} g_i (eq. 17)
    update:   rho_iy += mu_y g_i - mu_{y_i} g_i
Buffers
    rho : (m, K) float64; y : (m,) int32 class codes; mu : (K,) int8; g, d : (m,) float64.
    top : (m, 3, 2) float64 and best : (m, 3) int32 scratch of `recolour`: per colour the two largest residuals.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int32_t, int64_t

# A flip must lower the cost by this share of it: less is rounding.
cdef double LEAST = 1e-12


cdef int check(int64_t m, int K, const double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu) except -1:
    cdef int64_t i
    cdef int k
    if not m or K < 2 or y.shape[0] != m or mu.shape[0] != K:
        raise ValueError("rho, y and mu do not fit each other")
    for i in range(m):
        if not 0 <= y[i] < K:
            raise ValueError("y must hold codes of classes")
    for k in range(K):
        if not -1 <= mu[k] <= 1:
            raise ValueError("mu must hold -1, 0 and 1")
    return 0


def margins(const double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu, double[::1] d):
    """Write the margins that a column asks for to d: 0 for rows whose class has no colour. O(m K)."""
    cdef int64_t i, m = rho.shape[0]
    cdef int k, K = rho.shape[1], own
    cdef double same, other
    check(m, K, rho, y, mu)
    if d.shape[0] != m:
        raise ValueError("d must have an entry for every row")
    with nogil:
        for i in range(m):
            own = mu[y[i]]
            if own == 0:
                d[i] = 0
                continue
            same = other = -INFINITY
            for k in range(K):
                if mu[k] == own:
                    same = rho[i, k] if rho[i, k] > same else same
                elif mu[k] == -own:
                    other = rho[i, k] if rho[i, k] > other else other
            d[i] = other - same


cdef double cost_of(const double[:, ::1] rho, const int32_t[::1] y, const int8_t *mu,
                    const double[::1] g) noexcept nogil:
    cdef int64_t i
    cdef int k, K = rho.shape[1]
    cdef double total = 0, most, value
    for i in range(rho.shape[0]):
        most = -INFINITY
        for k in range(K):
            value = rho[i, k] + mu[k] * g[i]
            most = value if value > most else most
        total += most - mu[y[i]] * g[i]
    return total


def cost(const double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu, const double[::1] g):
    """Cost (17) of a column with g: the sum over rows of the largest residual after the update. O(m K)."""
    cdef double total
    check(rho.shape[0], rho.shape[1], rho, y, mu)
    if g.shape[0] != rho.shape[0]:
        raise ValueError("g must have an entry for every row")
    with nogil:
        total = cost_of(rho, y, &mu[0], g)
    return total


cdef void tops(const double[:, ::1] rho, const int8_t *mu, double[:, :, ::1] top, int32_t[:, ::1] best) noexcept nogil:
    cdef int64_t i
    cdef int k, c, K = rho.shape[1]
    cdef double value
    for i in range(rho.shape[0]):
        for c in range(3):
            top[i, c, 0] = top[i, c, 1] = -INFINITY
            best[i, c] = -1
        for k in range(K):
            c = mu[k] + 1
            value = rho[i, k]
            if value > top[i, c, 0]:
                top[i, c, 1] = top[i, c, 0]
                top[i, c, 0] = value
                best[i, c] = k
            elif value > top[i, c, 1]:
                top[i, c, 1] = value


cdef double cost_of_flip(const double[:, ::1] rho, const double[::1] g, const double[:, :, ::1] top,
                         const int32_t[:, ::1] best, int k, int old, int new) noexcept nogil:
    """Sum over rows of max_y (rho + mu g) with class k moved from colour old to new."""
    cdef int64_t i
    cdef int c
    cdef double total = 0, most, value
    for i in range(rho.shape[0]):
        most = -INFINITY
        for c in range(3):
            value = top[i, c, 1] if c == old and best[i, c] == k else top[i, c, 0]
            if c == new and rho[i, k] > value:
                value = rho[i, k]
            value += (c - 1) * g[i]
            most = value if value > most else most
        total += most
    return total


def recolour(const double[:, ::1] rho, const int32_t[::1] y, int8_t[::1] mu, const double[::1] g, bint allow_zero,
             double[:, :, ::1] top, int32_t[:, ::1] best):
    """Single changes of colour that lower the cost, classes in order, until none does; both signs stay in use.

    mu : IN/OUT. O(m K) per pass over the classes and per change. Returns (changes, cost).
    """
    cdef int64_t i, m = rho.shape[0]
    cdef int k, K = rho.shape[1], old, new, chosen, changes = 0, unchanged = 0
    cdef int count[3]
    cdef double now, found, tried, own, value
    check(m, K, rho, y, mu)
    if g.shape[0] != m or top.shape[0] < m or best.shape[0] < m or top.shape[1] != 3 or top.shape[2] != 2 \
            or best.shape[1] != 3:
        raise ValueError("g, top and best must have an entry for every row")
    with nogil:
        count[0] = count[1] = count[2] = 0
        for k in range(K):
            count[mu[k] + 1] += 1
        tops(rho, &mu[0], top, best)
        now = cost_of(rho, y, &mu[0], g)
        own = 0  # the part of the cost that the rows' own classes make
        for i in range(m):
            own += mu[y[i]] * g[i]
        k = 0
        while unchanged < K:
            old = mu[k] + 1
            chosen = -1
            found = now - LEAST * (now if now > 0 else -now)
            if old == 1 or count[old] > 1:
                tried = 0
                for i in range(m):
                    if y[i] == k:
                        tried += g[i]
                for new in range(3):
                    if new == old or (new == 1 and not allow_zero):
                        continue
                    value = cost_of_flip(rho, g, top, best, k, old, new) - own - (new - old) * tried
                    if value < found:
                        found = value
                        chosen = new
            if chosen >= 0:
                count[old] -= 1
                count[chosen] += 1
                mu[k] = <int8_t> (chosen - 1)
                changes += 1
                unchanged = 0
                tops(rho, &mu[0], top, best)
                now = cost_of(rho, y, &mu[0], g)
                own = 0
                for i in range(m):
                    own += mu[y[i]] * g[i]
            unchanged += 1
            k = k + 1 if k + 1 < K else 0
    return changes, now


def update(double[:, ::1] rho, const int32_t[::1] y, const int8_t[::1] mu, const double[::1] g):
    """Residuals of the next round, in place. O(m K)."""
    cdef int64_t i
    cdef int k, K = rho.shape[1]
    check(rho.shape[0], K, rho, y, mu)
    if g.shape[0] != rho.shape[0]:
        raise ValueError("g must have an entry for every row")
    with nogil:
        for i in range(rho.shape[0]):
            for k in range(K):
                if k != y[i]:
                    rho[i, k] += (mu[k] - mu[y[i]]) * g[i]
