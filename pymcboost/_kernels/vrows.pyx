# cython: language_level=3
"""Row after row: scores, gradients, integers and leaf vectors of losses for trees with vector leaves.

Rows have lanes for the classes, in blocks, and one lane for the weight. Sums over rows are of integers, so that nothing
depends on the order of the rows, on their division or on the number of threads. They are in units, see `exact`.
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from .aligned import aligned_zeros
from .vrows_values cimport (
    or_null, pmb_signs, pmb_signs_of, pmb_steps, pmb_steps_of, pmb_sum, pmb_values_of, steps_of,
)

import numpy as np

cdef extern from "draws.h" nogil:
    uint64_t PMB_GOLDEN
    uint64_t pmb_mix(uint64_t z)
    void pmb_sample(uint64_t key, int32_t n, int32_t take, uint8_t *chosen)

cdef extern from "vrows_values.h" nogil:
    enum:
        PMB_SOFTMAX
        PMB_LOGISTIC

cdef extern from "signs.h" nogil:
    void pmb_project_signs(const float *G, int64_t width, const pmb_signs *signs, const double *weight, int blocks,
                           int64_t frm, int64_t to, double magic, float *scratch, float *out, uint64_t *sums)

cdef extern from "vrows_lanes.h" nogil:
    void pmb_vr_copy(const double *frm, int64_t from_width, double *to, int64_t to_width, int64_t count, int64_t n)
    void pmb_vr_add(int lanes, double *F, const double *V, const int32_t *leaf, int blocks, int64_t start, int64_t stop)
    void pmb_vr_gradient(int lanes, int loss, const double *F, const int32_t *y, const double *weight, int blocks,
                         int64_t start, int64_t stop, double magic, float *G, uint64_t *sums)
    void pmb_vr_quantise(int lanes, const float *G, const double *weight, int blocks, int K, int64_t m, int64_t start,
                         int64_t stop, double scale, double units, int32_t *A)
    void pmb_vr_tops(int lanes, const float *G, int blocks, const int32_t *rows, int64_t n, double *out)
    void pmb_vr_leaf(int lanes, const float *G, const double *weight, int blocks, const int32_t *rows, int64_t n,
                     const double *magic, uint64_t *out)
    void pmb_vr_project(int lanes, const float *G, int64_t width, const float *P, const int32_t *classes,
                        const int64_t *start, const double *weight, int blocks, int64_t frm, int64_t to, double magic,
                        float *out, uint64_t *sums)
    void pmb_vr_sizes(int lanes, const float *G, const double *weight, int blocks, int64_t start, int64_t stop,
                      double magic, uint64_t *out)
    void pmb_vr_square(int lanes, const float *G, const double *weight, int blocks, int64_t start, int64_t stop,
                       double magic, uint64_t *out)
    void pmb_vr_hessian(int lanes, const float *G, const double *weight, const int32_t *y, int blocks, int K,
                        const int32_t *rows, int64_t n, double magic, double *p, uint64_t *out)

cdef enum:
    BLOCK_ROWS = 4096
    FEW_ROWS = 256
    CACHED = 1 << 15    # scores that are still in the cache when their gradients are taken

# Losses of `gradient`.
SOFTMAX, LOGISTIC = PMB_SOFTMAX, PMB_LOGISTIC


def _scratch(stored, width, rows, n_threads):
    """Rows of scores with unused lanes, for each thread; none where scores are stored with them."""
    if stored == width:
        return np.empty((n_threads, 1))
    scratch = aligned_zeros((n_threads, rows * width), np.float64)
    scratch.fill(-1e30)
    return scratch


def add_leaves(double[:, ::1] F not None, const double[:, ::1] V not None, const int32_t[::1] leaf, int lanes,
               int n_threads):
    """F += V[leaf], by rows.

    Parameters
    ----------
    F : INOUT (m, blocks * lanes), or (m, K) without unused lanes
    V : IN (n_leaves, blocks * lanes)
    """
    cdef int64_t b, start, m = F.shape[0], stored = F.shape[1], width = V.shape[1], rows = BLOCK_ROWS
    cdef int blocks = <int> (width // lanes)
    cdef bint whole = stored == width
    if not whole:
        rows = FEW_ROWS
    cdef int64_t n = (m + rows - 1) // rows
    cdef double[:, ::1] scratch = _scratch(stored, width, rows, n_threads)
    cdef double *to
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        start = b * rows
        if whole:
            pmb_vr_add(lanes, &F[0, 0], &V[0, 0], &leaf[0], blocks, start, min(m, start + rows))
        else:
            to = &scratch[threadid(), 0]
            pmb_vr_copy(&F[start, 0], stored, to, width, stored, min(rows, m - start))
            pmb_vr_add(lanes, to, &V[0, 0], &leaf[start], blocks, 0, min(rows, m - start))
            pmb_vr_copy(to, width, &F[start, 0], stored, stored, min(rows, m - start))


def gradient(double[:, ::1] F, V, const int32_t[::1] leaf, const int32_t[::1] y, const double[::1] weight, int loss,
             int lanes, double magic, float[:, ::1] G, int n_threads, bint summed=True):
    """F += V[leaf], by rows (V None: F stays), and the negative gradients; returns the sums of w |g| by lane in units.

    Without ``summed``, softmax of several blocks without weights has no sums: None.

    Parameters
    ----------
    F : INOUT (m, blocks * lanes) scores, -1e30 in unused lanes, or (m, K) without these
    V : IN (n_leaves, blocks * lanes) or None
    weight : IN (m,), or empty for weights of 1
    loss : SOFTMAX, or LOGISTIC: the sigmoid of what each score is above that of the own class
    G : OUT (m, blocks * lanes)
    """
    cdef int64_t b, start, stop, end, m = F.shape[0], stored = F.shape[1], width = G.shape[1], rows = BLOCK_ROWS
    cdef int blocks = <int> (width // lanes)
    cdef bint whole = stored == width
    cdef const double *w = or_null(weight)
    cdef const double[:, ::1] values
    cdef const double *v = NULL
    if V is not None:
        values = V
        v = &values[0, 0]
    cdef int64_t n = (m + rows - 1) // rows, few = max(8, CACHED // width)
    cdef double[:, ::1] scratch = _scratch(stored, width, rows, n_threads)
    cdef double *to
    summed = summed or loss != PMB_SOFTMAX or w != NULL or blocks == 1
    sums_ = np.zeros((n if summed else 0, width), dtype=np.int64)
    cdef int64_t[:, ::1] sums = sums_
    cdef uint64_t *its
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        start, stop = b * rows, min(m, (b + 1) * rows)
        its = <uint64_t *> &sums[b, 0] if summed else NULL
        if whole:
            while start < stop:
                end = min(stop, start + few)
                if v != NULL:
                    pmb_vr_add(lanes, &F[0, 0], v, &leaf[0], blocks, start, end)
                pmb_vr_gradient(lanes, loss, &F[0, 0], &y[0], w, blocks, start, end, magic, &G[0, 0], its)
                start = end
        else:
            to = &scratch[threadid(), 0]
            pmb_vr_copy(&F[start, 0], stored, to, width, stored, stop - start)
            if v != NULL:
                pmb_vr_add(lanes, to, v, &leaf[start], blocks, 0, stop - start)
                pmb_vr_copy(to, width, &F[start, 0], stored, stored, stop - start)
            pmb_vr_gradient(lanes, loss, to, &y[start], w + start if w != NULL else NULL, blocks, 0, stop - start,
                            magic, &G[start, 0], its)
    return sums_.sum(axis=0) if summed else None


def quantise(const float[:, ::1] G, const double[::1] weight, int n_classes, double scale, double units,
             int32_t[:, :, ::1] A, int n_threads):
    """A = round(w g scale), and max(1, round(w units)) in lane ``n_classes`` (1 where ``weight`` is empty).

    Parameters
    ----------
    G : IN (m, blocks * lanes); A : OUT (blocks, m, lanes)
    """
    cdef int64_t b, m = G.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef int blocks = <int> A.shape[0], lanes = <int> A.shape[2]
    cdef const double *w = or_null(weight)
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_quantise(lanes, &G[0, 0], w, blocks, n_classes, m, b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS), scale,
                        units, &A[0, 0, 0])


def half_signs(key, int32_t n_classes, int32_t n, int width):
    """n directions of signs, +1 for a random half of the classes and -1 for the others, by 1 / sqrt(n).

    Returns
    -------
    ndarray of float32 (n_classes, width)
        0 in unused lanes.
    """
    cdef uint64_t number = key
    cdef int32_t j, k
    cdef uint8_t[::1] chosen = np.empty(n_classes, dtype=np.uint8)
    signs_ = np.zeros((n_classes, width), dtype=np.float32)
    cdef float[:, ::1] signs = signs_
    cdef float size = <float> (1 / np.sqrt(n))
    for j in range(n):
        pmb_sample(pmb_mix(number - (<uint64_t> j + 1) * PMB_GOLDEN), n_classes, n_classes // 2, &chosen[0])
        for k in range(n_classes):
            signs[k, j] = size if chosen[k] else -size
    return signs_


def any_signs(key, int32_t n_classes, int32_t n, int width):
    """As `half_signs`, each sign drawn by itself."""
    cdef uint64_t number = key, of_column
    cdef int32_t j, k
    signs_ = np.zeros((n_classes, width), dtype=np.float32)
    cdef float[:, ::1] signs = signs_
    cdef float size = <float> (1 / np.sqrt(n))
    for j in range(n):
        of_column = pmb_mix(number - (<uint64_t> j + 1) * PMB_GOLDEN)
        for k in range(n_classes):
            signs[k, j] = size if pmb_mix(of_column + (<uint64_t> k + 4) * PMB_GOLDEN) >> 63 else -size
    return signs_


def blocks_of(key, int32_t n_classes, int32_t n, int lanes):
    """For each class a block of those that n directions fill, drawn by the number of directions in it."""
    cdef uint64_t number = key, of_class
    cdef int32_t k
    block_ = np.empty(n_classes, dtype=np.int32)
    cdef int32_t[::1] block = block_
    number = pmb_mix(number)
    for k in range(n_classes):
        of_class = pmb_mix(number + (<uint64_t> k + 4) * PMB_GOLDEN) >> 32
        block[k] = <int32_t> ((of_class * <uint64_t> n) >> 32) // lanes
    return block_


def project(const float[:, ::1] G, const float[:, ::1] P, const double[::1] weight, int lanes, double magic,
            float[:, ::1] out, int n_threads):
    """out = G P; returns the sums of w |out| by lane in units.

    Parameters
    ----------
    G : IN (m, at least K); P : IN (K, blocks * lanes), 0 in unused lanes; out : OUT (m, blocks * lanes)
        Blocks of a row of P that are 0 cost nothing, where there are several.
    """
    cdef int64_t b, m = G.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef int blocks = <int> out.shape[1] // lanes
    cdef const double *w = or_null(weight)
    classes_, start_ = np.arange(len(P), dtype=np.int32), np.array((0, len(P)), dtype=np.int64)
    if blocks > 1:
        used, of_block = np.nonzero(np.asarray(P).reshape(len(P), blocks, lanes).any(axis=2).T)
        classes_ = np.append(of_block, 0).astype(np.int32)
        start_ = np.searchsorted(used, np.arange(blocks + 1)).astype(np.int64)
    cdef int32_t[::1] classes = classes_
    cdef int64_t[::1] start = start_
    sums_ = np.empty((n, out.shape[1]), dtype=np.int64)
    cdef int64_t[:, ::1] sums = sums_
    cdef float[:, ::1] sign, scratch
    cdef pmb_signs signs
    if lanes == 16:
        sign = np.empty((len(classes_), lanes), dtype=np.float32)
        scratch = np.zeros((n_threads + 1, 8 * G.shape[1]), dtype=np.float32)
        signs = pmb_signs(&sign[0, 0], &scratch[n_threads, 0], &classes[0], &start[0])
        if pmb_signs_of(&P[0, 0], blocks, &classes[0], &start[0], &sign[0, 0], &scratch[n_threads, 0]):
            for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
                pmb_project_signs(&G[0, 0], G.shape[1], &signs, w, blocks, b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS),
                                  magic, &scratch[threadid(), 0], &out[0, 0], <uint64_t *> &sums[b, 0])
            return sums_.sum(axis=0)
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_project(lanes, &G[0, 0], G.shape[1], &P[0, 0], &classes[0], &start[0], w, blocks, b * BLOCK_ROWS,
                       min(m, (b + 1) * BLOCK_ROWS), magic, &out[0, 0], <uint64_t *> &sums[b, 0])
    return sums_.sum(axis=0)


def sizes(const float[:, ::1] G, const double[::1] weight, int lanes, double magic, int n_threads):
    """Sums of w |g| by lane in units."""
    cdef int64_t b, m = G.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef int blocks = <int> G.shape[1] // lanes
    cdef const double *w = or_null(weight)
    sums_ = np.empty((n, G.shape[1]), dtype=np.int64)
    cdef int64_t[:, ::1] sums = sums_
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_sizes(lanes, &G[0, 0], w, blocks, b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS), magic,
                     <uint64_t *> &sums[b, 0])
    return sums_.sum(axis=0)


def sum_of_squares(const float[:, ::1] G, const double[::1] weight, int lanes, double magic, int n_threads):
    """Sum of w g^2 over rows and lanes in units: (1,)."""
    cdef int64_t b, m = G.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef int blocks = <int> G.shape[1] // lanes
    cdef const double *w = or_null(weight)
    sums_ = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] sums = sums_
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_square(lanes, &G[0, 0], w, blocks, b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS), magic,
                      <uint64_t *> &sums[b])
    return sums_.sum(keepdims=True)


def leaf_bounds(const float[:, ::1] G, int lanes, const int32_t[::1] rows, const int64_t[::1] leaf_start,
                int n_threads):
    """Largest |g| of the rows of every leaf, 0 of none: (n_leaves, blocks * lanes)."""
    cdef int64_t j, n = leaf_start.shape[0] - 1
    cdef int blocks = <int> G.shape[1] // lanes
    out_ = np.empty((n, G.shape[1]))
    cdef double[:, ::1] out = out_
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic"):
        pmb_vr_tops(lanes, &G[0, 0], blocks, &rows[leaf_start[j]], leaf_start[j + 1] - leaf_start[j], &out[j, 0])
    return out_


def leaf_weights(const double[::1] weight, const int32_t[::1] rows, const int64_t[::1] leaf_start):
    """Largest weight of the rows of every leaf, 0 of none: (n_leaves,)."""
    cdef int64_t i, j
    out_ = np.zeros(leaf_start.shape[0] - 1)
    cdef double[::1] out = out_
    for j in range(out.shape[0]):
        for i in range(leaf_start[j], leaf_start[j + 1]):
            out[j] = max(out[j], weight[rows[i]])
    return out_


def leaf_sums(const float[:, ::1] G, const double[::1] weight, int lanes, const int32_t[::1] rows,
              const int64_t[::1] leaf_start, const double[:, ::1] magic, int n_threads):
    """Sums of w g and of w |g| (1 - |g|) over the rows of every leaf, in units: int64 (n_leaves, 2, blocks * lanes)."""
    cdef int64_t j, n = leaf_start.shape[0] - 1
    cdef int blocks = <int> G.shape[1] // lanes
    cdef const double *w = or_null(weight)
    out_ = np.empty((n, 2, G.shape[1]), dtype=np.int64)
    cdef int64_t[:, :, ::1] out = out_
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic"):
        pmb_vr_leaf(lanes, &G[0, 0], w, blocks, &rows[leaf_start[j]], leaf_start[j + 1] - leaf_start[j], &magic[j, 0],
                    <uint64_t *> &out[j, 0, 0])
    return out_


def in_ones(const int64_t[:, :, ::1] sums, const double[:, ::1] magic, int n_classes, const int64_t[::1] least):
    """Sums (n_leaves, 2, width) in units of these magic numbers (n_leaves, width) as floats (n_leaves, 2, n_classes).

    Returns them, and the leaves with a second sum below the ``least`` (n_leaves,).
    """
    cdef int64_t j, n = sums.shape[0], k
    cdef double unit
    cdef bint few
    out_, low_ = np.empty((n, 2, n_classes)), np.zeros(n, dtype=np.uint8)
    cdef double[:, :, ::1] out = out_
    cdef uint8_t[::1] low = low_
    for j in range(n):
        few = False
        for k in range(n_classes):
            unit = magic[j, k] / 6755399441055744.0  # 1.5 * 2^52
            out[j, 0, k] = <double> sums[j, 0, k] * unit
            out[j, 1, k] = <double> sums[j, 1, k] * unit
            few |= sums[j, 1, k] < least[j]
        low[j] = few
    return out_, np.flatnonzero(low_)


def leaf_values(const double[:, ::1] step, double largest, double rate, int width, bint centred=True):
    """Leaf vectors of the steps (n_leaves, K): cut at +-largest, less their mean, times the rate, as float32.

    Without ``centred`` the mean stays.

    Returns
    -------
    value : ndarray of float64 (n_leaves, width)
        0 in unused lanes.
    """
    cdef int64_t j, k, n = step.shape[0], K = step.shape[1]
    cdef double v, mean
    value_ = np.zeros((n, width))
    cdef double[:, ::1] value = value_
    for j in range(n):
        for k in range(K):
            v = step[j, k]
            value[j, k] = largest if v > largest else -largest if v < -largest else v
        mean = pmb_sum(&value[j, 0], K) / K if centred else 0
        for k in range(K):
            value[j, k] = <float> ((value[j, k] - mean) * rate)
    return value_


def softmax_values(const float[:, ::1] G, const double[::1] weight, int lanes, const int32_t[::1] rows,
                   const int64_t[::1] leaf_start, const double[::1] magic, how, int n_threads):
    """Leaf vectors of softmax from sums in one unit, without tables of all leaves in between.

    Parameters
    ----------
    magic : IN (width,), all the same
    how : (n_classes, bits, l2, largest, rate)

    Returns
    -------
    value : ndarray of float64 (n_leaves, width)
        As `leaf_values`, of the steps (K - 1) / K sum of g / (sum of |g| (1 - |g|) + l2).
    small : ndarray
        Leaves with sums of fewer than 2^bits units a row, whose values are of no use.
    """
    cdef int64_t j, t, count, n = leaf_start.shape[0] - 1, width = G.shape[1]
    cdef int blocks = <int> width // lanes
    cdef const double *w = or_null(weight)
    cdef pmb_steps s = steps_of(how, width, magic[0])
    value_, small_ = np.empty((n, width)), np.empty(n, dtype=np.uint8)
    cdef double[:, ::1] value = value_, step = np.empty((n_threads, width))
    cdef int64_t[:, ::1] sums = np.empty((n_threads, 2 * width), dtype=np.int64)
    cdef uint8_t[::1] small = small_
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic"):
        t, count = threadid(), leaf_start[j + 1] - leaf_start[j]
        pmb_vr_leaf(lanes, &G[0, 0], w, blocks, &rows[leaf_start[j]], count, &magic[0], <uint64_t *> &sums[t, 0])
        small[j] = pmb_steps_of(&s, &sums[t, 0], count, &step[t, 0])
        pmb_values_of(&s, &step[t, 0], &value[j, 0], NULL)
    return value_, np.flatnonzero(small_)


def leaf_hessian(const float[:, ::1] G, const double[::1] weight, const int32_t[::1] y, int lanes, double magic,
                 const int32_t[::1] rows, int64_t start, int64_t stop, int64_t[:, ::1] out):
    """Add to out (n_classes + 1, blocks * lanes) the sums of w (diag p - p p^T), p of softmax, and of w g, in units."""
    cdef const double *w = or_null(weight)
    cdef double[::1] p = np.empty(G.shape[1])
    with nogil:
        pmb_vr_hessian(lanes, &G[0, 0], w, &y[0], <int> G.shape[1] // lanes, <int> out.shape[0] - 1, &rows[start],
                       stop - start, magic, &p[0], <uint64_t *> &out[0, 0])
