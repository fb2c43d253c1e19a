# cython: language_level=3
"""Losses for vector trees, row by row: scores, gradients, their integers, directions and leaf vectors.

Rows have lanes for the classes, in blocks, and one lane for the weight. Sums over rows are of integers, so that nothing
depends on the order of the rows, on their division or on the number of threads. They are in units, see `exact`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from .aligned import aligned_zeros
from .pool cimport pieces_of, run, threads_for
from .leaf_vectors cimport (
    or_null, pmb_signs, pmb_signs_of, pmb_leaf_step, pmb_leaf_steps, pmb_sum, pmb_leaf_values, leaf_step_of,
)

import numpy as np

cdef extern from "draws.h" nogil:
    uint64_t PMB_GOLDEN
    uint64_t pmb_mix(uint64_t z)
    void pmb_sample(uint64_t key, int32_t n, int32_t take, uint8_t *chosen)

cdef extern from "leaf_vectors.h" nogil:
    enum:
        PMB_SOFTMAX
        PMB_LOGISTIC

cdef extern from "left_out.h" nogil:
    ctypedef struct pmb_left_out:
        const pmb_leaf_step *steps
        int64_t n
        float *scratch
        const float *gradient
        const double *weight
        int64_t width
        const float *sums
        const int64_t *count
        const int32_t *leaf
        uint64_t key
        double share
        const int32_t *row
        const int64_t *number
        float *alone
        float *outside
    void pmb_add_left_out(const pmb_left_out *t, int64_t first, int64_t last, float *scratch)

cdef extern from "sign_directions.h" nogil:
    void pmb_project_signs(const float *G, int64_t width, const pmb_signs *signs, const double *weight, int blocks,
                           int64_t frm, int64_t to, double magic, float *scratch, float *out, uint64_t *sums)

cdef extern from "vector_loss_lanes.h" nogil:
    void pmb_vloss_copy(const double *frm, int64_t from_width, double *to, int64_t to_width, int64_t count, int64_t n)
    void pmb_vloss_add(int lanes, double *F, const double *V, const int32_t *leaf, int blocks, int64_t start,
                       int64_t stop)
    void pmb_vloss_gradient(int lanes, int loss, const double *F, const int32_t *y, const double *weight, int blocks,
                            int64_t start, int64_t stop, double magic, float *G, uint64_t *sums)
    void pmb_vloss_quantise(int lanes, const float *G, const double *weight, int blocks, int K, int64_t m,
                            int64_t start, int64_t stop, double scale, double units, int32_t *A)
    void pmb_vloss_tops(int lanes, const float *G, int blocks, const int32_t *rows, int64_t n, double *out)
    void pmb_vloss_leaf(int lanes, const float *G, const double *weight, int blocks, const int32_t *rows, int64_t n,
                        const double *magic, uint64_t *out)
    void pmb_vloss_project(int lanes, const float *G, int64_t width, const float *P, const int32_t *classes,
                           const int64_t *start, const double *weight, int blocks, int64_t frm, int64_t to,
                           double magic, float *out, uint64_t *sums)
    void pmb_vloss_sizes(int lanes, const float *G, const double *weight, int blocks, int64_t start, int64_t stop,
                         double magic, uint64_t *out)
    void pmb_vloss_square(int lanes, const float *G, const double *weight, int blocks, int64_t start, int64_t stop,
                          double magic, uint64_t *out)
    void pmb_vloss_hessian(int lanes, const float *G, const double *weight, const int32_t *y, int blocks, int K,
                           const int32_t *rows, int64_t n, double magic, double *p, uint64_t *out)

cdef enum:
    BLOCK_ROWS = 1024   # of a piece, which a thread does at a time
    FEW_ROWS = 256
    LEAF_ROWS = 8192    # of a leaf, beyond which several threads add it up
    CACHED = 1 << 15    # scores that are still in the cache when their gradients are taken
    # With fewer numbers than this, one thread is faster: with exponentials, and without.
    FEW_SCORES = 1 << 13
    FEW_NUMBERS = 1 << 16

# Losses of `gradient`.
SOFTMAX, LOGISTIC = PMB_SOFTMAX, PMB_LOGISTIC


# Arrays that passes over rows or leaves read and write; each uses some of them.
cdef struct Pass:
    int lanes, blocks, loss, n_classes
    int64_t m, width, stored, rows, few  # rows: of a piece; few: whose scores stay in the cache
    double magic, scale, units
    double *F
    const double *V
    const double *w
    const int32_t *leaf
    const int32_t *y
    const float *G
    float *out
    int32_t *A
    double *scratch  # of each thread
    float *narrow    # likewise
    uint64_t *sums
    const float *P
    const int32_t *classes
    const int64_t *start
    const pmb_signs *signs
    const int32_t *listed   # rows of the leaves
    const int64_t *leaf_start
    const int64_t *part_leaf  # of each part of a large leaf; see `share_large_leaves`
    const int64_t *first_part
    uint64_t *part_sums  # (parts, 2, width)
    int64_t magic_step  # from the magic numbers of a leaf to those of the next one
    const double *magics
    double *table
    uint8_t *small
    const pmb_leaf_step *steps


cdef Pass rows_pass(const float[:, ::1] G, const double[::1] weight, int lanes, double magic):
    """A pass over the rows of gradients."""
    cdef Pass p
    p.lanes, p.blocks, p.magic = lanes, <int> (G.shape[1] // lanes), magic
    p.m, p.width, p.rows, p.G, p.w = G.shape[0], G.shape[1], BLOCK_ROWS, &G[0, 0], or_null(weight)
    return p


cdef Pass leaves_pass(const float[:, ::1] G, const double[::1] weight, int lanes, const int32_t[::1] rows,
                      const int64_t[::1] leaf_start):
    """A pass over leaves, a piece each."""
    cdef Pass p = rows_pass(G, weight, lanes, 0)
    p.listed, p.leaf_start, p.m = &rows[0], &leaf_start[0], rows.shape[0]
    return p


def _scratch(stored, width, rows, n_threads):
    """A row of scores with unused lanes for each thread; empty if scores are stored with unused lanes."""
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
    cdef Pass p
    cdef double[:, ::1] scratch
    p.m, p.stored, p.width, p.lanes, p.blocks = F.shape[0], F.shape[1], V.shape[1], lanes, <int> (V.shape[1] // lanes)
    p.rows = BLOCK_ROWS if p.stored == p.width else FEW_ROWS
    scratch = _scratch(p.stored, p.width, p.rows, n_threads)
    p.F, p.V, p.leaf, p.scratch = &F[0, 0], &V[0, 0], &leaf[0], &scratch[0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_NUMBERS), pieces_of(p.m, p.rows), add_piece, &p)


cdef void add_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = piece * p.rows, n = min(p.rows, p.m - start)
    cdef double *to
    if p.stored == p.width:
        pmb_vloss_add(p.lanes, p.F, p.V, p.leaf, p.blocks, start, start + n)
        return
    to = p.scratch + thread * p.rows * p.width
    pmb_vloss_copy(p.F + start * p.stored, p.stored, to, p.width, p.stored, n)
    pmb_vloss_add(p.lanes, to, p.V, p.leaf + start, p.blocks, 0, n)
    pmb_vloss_copy(to, p.width, p.F + start * p.stored, p.stored, p.stored, n)


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
    cdef Pass p = rows_pass(G, weight, lanes, magic)
    cdef const double[:, ::1] values
    cdef double[:, ::1] scratch
    cdef int64_t[:, ::1] sums
    p.stored, p.loss, p.few = F.shape[1], loss, max(8, CACHED // p.width)
    scratch = _scratch(p.stored, p.width, p.rows, n_threads)
    p.F, p.y, p.out, p.scratch, p.V, p.sums = &F[0, 0], &y[0], &G[0, 0], &scratch[0, 0], NULL, NULL
    if V is not None:
        values = V
        p.V, p.leaf = &values[0, 0], &leaf[0]
    sums_ = None
    if summed or loss != PMB_SOFTMAX or p.w != NULL or p.blocks == 1:
        sums = sums_ = np.zeros((pieces_of(p.m, p.rows), p.width), dtype=np.int64)
        p.sums = <uint64_t *> &sums[0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_SCORES), pieces_of(p.m, p.rows), gradient_piece, &p)
    return None if sums_ is None else sums_.sum(axis=0)


cdef void gradient_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = piece * p.rows, stop = min(p.m, start + p.rows), end
    cdef uint64_t *sums = NULL
    cdef double *to
    if p.sums != NULL:
        sums = p.sums + piece * p.width
    if p.stored == p.width:
        while start < stop:
            end = min(stop, start + p.few)
            if p.V != NULL:
                pmb_vloss_add(p.lanes, p.F, p.V, p.leaf, p.blocks, start, end)
            pmb_vloss_gradient(p.lanes, p.loss, p.F, p.y, p.w, p.blocks, start, end, p.magic, p.out, sums)
            start = end
        return
    to = p.scratch + thread * p.rows * p.width
    pmb_vloss_copy(p.F + start * p.stored, p.stored, to, p.width, p.stored, stop - start)
    if p.V != NULL:
        pmb_vloss_add(p.lanes, to, p.V, p.leaf + start, p.blocks, 0, stop - start)
        pmb_vloss_copy(to, p.width, p.F + start * p.stored, p.stored, p.stored, stop - start)
    pmb_vloss_gradient(p.lanes, p.loss, to, p.y + start, p.w + start if p.w != NULL else NULL, p.blocks, 0,
                       stop - start, p.magic, p.out + start * p.width, sums)


def quantise(const float[:, ::1] G, const double[::1] weight, int n_classes, double scale, double units,
             int32_t[:, :, ::1] A, int n_threads):
    """A = round(w g scale), and max(1, round(w units)) in lane ``n_classes`` (1 where ``weight`` is empty).

    Parameters
    ----------
    G : IN (m, blocks * lanes); A : OUT (blocks, m, lanes)
    """
    cdef Pass p = rows_pass(G, weight, <int> A.shape[2], 0)
    p.blocks, p.n_classes, p.scale, p.units, p.A = <int> A.shape[0], n_classes, scale, units, &A[0, 0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_NUMBERS), pieces_of(p.m, p.rows), quantise_piece, &p)


cdef void quantise_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = piece * p.rows
    pmb_vloss_quantise(p.lanes, p.G, p.w, p.blocks, p.n_classes, p.m, start, min(p.m, start + p.rows), p.scale, p.units,
                       p.A)


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
    """Like `half_signs`, with each sign drawn independently."""
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
    cdef Pass p = rows_pass(G, weight, lanes, magic)
    cdef int64_t n = pieces_of(p.m, p.rows)
    p.blocks, p.width = <int> (out.shape[1] // lanes), G.shape[1]
    classes_, start_ = np.arange(len(P), dtype=np.int32), np.array((0, len(P)), dtype=np.int64)
    if p.blocks > 1:
        used, of_block = np.nonzero(np.asarray(P).reshape(len(P), p.blocks, lanes).any(axis=2).T)
        classes_ = np.append(of_block, 0).astype(np.int32)
        start_ = np.searchsorted(used, np.arange(p.blocks + 1)).astype(np.int64)
    cdef int32_t[::1] classes = classes_
    cdef int64_t[::1] start = start_
    sums_ = np.empty((n, out.shape[1]), dtype=np.int64)
    cdef int64_t[:, ::1] sums = sums_
    cdef float[:, ::1] sign, scratch
    cdef pmb_signs signs
    p.P, p.classes, p.start, p.out, p.sums = &P[0, 0], &classes[0], &start[0], &out[0, 0], <uint64_t *> &sums[0, 0]
    p.signs = NULL
    if lanes == 16:
        sign = np.empty((len(classes_), lanes), dtype=np.float32)
        scratch = np.zeros((n_threads + 1, 8 * G.shape[1]), dtype=np.float32)
        signs = pmb_signs(&sign[0, 0], &scratch[n_threads, 0], &classes[0], &start[0])
        if pmb_signs_of(p.P, p.blocks, p.classes, p.start, &sign[0, 0], &scratch[n_threads, 0]):
            p.signs, p.narrow = &signs, &scratch[0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_NUMBERS), n, project_piece, &p)
    return sums_.sum(axis=0)


cdef void project_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = piece * p.rows, stop = min(p.m, start + p.rows)
    cdef uint64_t *sums = p.sums + piece * p.blocks * p.lanes
    if p.signs != NULL:
        pmb_project_signs(p.G, p.width, p.signs, p.w, p.blocks, start, stop, p.magic, p.narrow + thread * 8 * p.width,
                          p.out, sums)
    else:
        pmb_vloss_project(p.lanes, p.G, p.width, p.P, p.classes, p.start, p.w, p.blocks, start, stop, p.magic, p.out,
                          sums)


def sizes(const float[:, ::1] G, const double[::1] weight, int lanes, double magic, int n_threads):
    """Sums of w |g| by lane in units."""
    cdef Pass p = rows_pass(G, weight, lanes, magic)
    sums_ = np.empty((pieces_of(p.m, p.rows), G.shape[1]), dtype=np.int64)
    cdef int64_t[:, ::1] sums = sums_
    p.sums = <uint64_t *> &sums[0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_NUMBERS), pieces_of(p.m, p.rows), sizes_piece, &p)
    return sums_.sum(axis=0)


cdef void sizes_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = piece * p.rows
    pmb_vloss_sizes(p.lanes, p.G, p.w, p.blocks, start, min(p.m, start + p.rows), p.magic, p.sums + piece * p.width)


def sum_of_squares(const float[:, ::1] G, const double[::1] weight, int lanes, double magic, int n_threads):
    """Sum of w g^2 over rows and lanes in units: (1,)."""
    cdef Pass p = rows_pass(G, weight, lanes, magic)
    sums_ = np.empty(pieces_of(p.m, p.rows), dtype=np.int64)
    cdef int64_t[::1] sums = sums_
    p.sums = <uint64_t *> &sums[0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_NUMBERS), pieces_of(p.m, p.rows), squares_piece, &p)
    return sums_.sum(keepdims=True)


cdef void squares_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = piece * p.rows
    pmb_vloss_square(p.lanes, p.G, p.w, p.blocks, start, min(p.m, start + p.rows), p.magic, p.sums + piece)


def leaf_bounds(const float[:, ::1] G, int lanes, const int32_t[::1] rows, const int64_t[::1] leaf_start,
                int n_threads):
    """Largest |g| over the rows of every leaf, 0 without rows: (n_leaves, blocks * lanes)."""
    cdef const double[::1] no_weight = np.empty(0)
    cdef Pass p = leaves_pass(G, no_weight, lanes, rows, leaf_start)
    cdef int64_t n = leaf_start.shape[0] - 1
    out_ = np.empty((n, G.shape[1]))
    cdef double[:, ::1] out = out_
    p.table = &out[0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_NUMBERS), n, bounds_piece, &p)
    return out_


cdef void bounds_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.leaf_start[j]
    pmb_vloss_tops(p.lanes, p.G, p.blocks, p.listed + start, p.leaf_start[j + 1] - start, p.table + j * p.width)


def leaf_weights(const double[::1] weight, const int32_t[::1] rows, const int64_t[::1] leaf_start):
    """Largest weight of the rows of every leaf, 0 without rows: (n_leaves,)."""
    cdef int64_t i, j
    out_ = np.zeros(leaf_start.shape[0] - 1)
    cdef double[::1] out = out_
    for j in range(out.shape[0]):
        for i in range(leaf_start[j], leaf_start[j + 1]):
            out[j] = max(out[j], weight[rows[i]])
    return out_


cdef tuple parts_of(const int64_t[::1] leaf_start):
    """Divide leaves with many rows: the leaf of each part, and the first part of every leaf (n_leaves + 1,)."""
    count = np.diff(leaf_start) // LEAF_ROWS
    count[count < 2] = 0
    return np.repeat(np.arange(len(count)), count), np.concatenate(([0], np.cumsum(count)))


cdef share_large_leaves(Pass *p, const int64_t[::1] leaf_start, int n_threads):
    """Sums of the parts of large leaves, by all threads: one leaf may have most of the rows.

    Returns the arrays that ``p`` points to, which the caller keeps until the pass is done.
    """
    p.first_part = NULL
    if n_threads == 1 or p.m < 2 * LEAF_ROWS:
        return None
    part_leaf_, first_ = parts_of(leaf_start)
    cdef int64_t n = len(part_leaf_)
    if n == 0:
        return None
    cdef const int64_t[::1] part_leaf = part_leaf_, first = first_
    cdef int64_t[:, :, ::1] sums = np.empty((n, 2, p.width), dtype=np.int64)
    p.part_leaf, p.first_part, p.part_sums = &part_leaf[0], &first[0], <uint64_t *> &sums[0, 0, 0]
    with nogil:
        run(n_threads, n, part_of_leaf, p)
    return part_leaf, first, sums


cdef void part_of_leaf(void *what, int64_t part, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t j = p.part_leaf[part], first = p.first_part[j], n_parts = p.first_part[j + 1] - first
    cdef int64_t n = p.leaf_start[j + 1] - p.leaf_start[j]
    cdef int64_t start = n * (part - first) // n_parts, stop = n * (part - first + 1) // n_parts
    pmb_vloss_leaf(p.lanes, p.G, p.w, p.blocks, p.listed + p.leaf_start[j] + start, stop - start,
                   p.magics + j * p.magic_step, p.part_sums + 2 * part * p.width)


cdef void sums_of_leaf(const Pass *p, int64_t j, uint64_t *out) noexcept nogil:
    """Sums over all rows of a leaf, from its parts or its rows."""
    cdef int64_t start = p.leaf_start[j], part, k
    if p.first_part == NULL or p.first_part[j] == p.first_part[j + 1]:
        pmb_vloss_leaf(p.lanes, p.G, p.w, p.blocks, p.listed + start, p.leaf_start[j + 1] - start,
                       p.magics + j * p.magic_step, out)
        return
    for k in range(2 * p.width):
        out[k] = 0
    for part in range(p.first_part[j], p.first_part[j + 1]):
        for k in range(2 * p.width):
            out[k] += p.part_sums[2 * part * p.width + k]


def leaf_sums(const float[:, ::1] G, const double[::1] weight, int lanes, const int32_t[::1] rows,
              const int64_t[::1] leaf_start, const double[:, ::1] magic, int n_threads):
    """Sums of w g and of w |g| (1 - |g|) over the rows of every leaf, in units: int64 (n_leaves, 2, blocks * lanes)."""
    cdef Pass p = leaves_pass(G, weight, lanes, rows, leaf_start)
    cdef int64_t n = leaf_start.shape[0] - 1
    out_ = np.empty((n, 2, G.shape[1]), dtype=np.int64)
    cdef int64_t[:, :, ::1] out = out_
    p.magics, p.magic_step, p.sums = &magic[0, 0], p.width, <uint64_t *> &out[0, 0, 0]
    n_threads = threads_for(n_threads, p.m * p.width, FEW_NUMBERS)
    _kept_parts = share_large_leaves(&p, leaf_start, n_threads)
    with nogil:
        run(n_threads, n, leaf_piece, &p)
    return out_


cdef void leaf_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    sums_of_leaf(p, j, p.sums + 2 * j * p.width)


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
    """Leaf vectors from steps (n_leaves, K): clipped at +-largest, minus their mean, times the rate, as float32.

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
                   const int64_t[::1] leaf_start, const double[::1] magic, how, int n_threads,
                   float[:, :, ::1] kept=None):
    """Leaf vectors of softmax from sums in one unit, without tables of all leaves in between.

    Parameters
    ----------
    magic : IN (width,), all the same
    how : (n_classes, bits, l2, largest, rate)
    kept : OUT (n_leaves, 2, width), or None
        The sums of w g and w |g| (1 - |g|), 0 in unused lanes.

    Returns
    -------
    value : ndarray of float64 (n_leaves, width)
        As `leaf_values`, of the steps (K - 1) / K sum of g / (sum of |g| (1 - |g|) + l2).
    small : ndarray
        Leaves with sums of fewer than 2^bits units a row, whose values are of no use.
    """
    cdef Pass p = leaves_pass(G, weight, lanes, rows, leaf_start)
    cdef int64_t n = leaf_start.shape[0] - 1, width = G.shape[1]
    cdef pmb_leaf_step s = leaf_step_of(how, width, magic[0])
    value_, small_ = np.empty((n, width)), np.empty(n, dtype=np.uint8)
    cdef double[:, ::1] value = value_, step = np.empty((n_threads, width))
    cdef int64_t[:, ::1] sums = np.empty((n_threads, 2 * width), dtype=np.int64)
    cdef uint8_t[::1] small = small_
    p.magics, p.magic_step, p.sums, p.scratch = &magic[0], 0, <uint64_t *> &sums[0, 0], &step[0, 0]
    p.table, p.small, p.steps, p.out = &value[0, 0], &small[0], &s, NULL
    if kept is not None:
        p.out = &kept[0, 0, 0]
    n_threads = threads_for(n_threads, p.m * p.width, FEW_NUMBERS)
    _kept_parts = share_large_leaves(&p, leaf_start, n_threads)
    with nogil:
        run(n_threads, n, softmax_piece, &p)
    return value_, np.flatnonzero(small_)


cdef void softmax_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t count = p.leaf_start[j + 1] - p.leaf_start[j], k, K = p.steps.n_classes
    cdef uint64_t *sums = p.sums + 2 * thread * p.width
    cdef double *step = p.scratch + thread * p.width
    cdef float *kept
    sums_of_leaf(p, j, sums)
    p.small[j] = pmb_leaf_steps(p.steps, <const int64_t *> sums, count, step)
    pmb_leaf_values(p.steps, step, p.table + j * p.width, NULL)
    if p.out != NULL:
        kept = p.out + 2 * j * p.width
        for k in range(2 * p.width):
            kept[k] = <float> (<double> (<const int64_t *> sums)[k] * p.steps.unit) if k % p.width < K else 0


def add_left_out(const float[:, ::1] G not None, const double[::1] weight not None, const float[:, :, ::1] sums,
                 count, leaf, rows, numbers, how, key, double share, float[:, ::1] alone, float[:, ::1] outside,
                 int n_threads):
    """Add the leaf values that rows get if they are left out of the sums; see `left_out.h`.

    Parameters
    ----------
    G : IN (m, width) negative gradients of softmax
    weight : IN (m,), or empty for weights of 1
    sums : IN (n_leaves, 2, width) of w g and w |g| (1 - |g|) over the rows of each leaf, 0 in unused lanes
    count : IN int64 (n_leaves,) rows; a row that is alone in its leaf gets nothing
    leaf : IN int32 (m,)
    rows : IN int32 (r,) those that are left out, one at a time
    numbers : IN int64 (r,) numbers by which the key draws rows
    how : (n_classes, bits, l2, largest, rate)
    key, share : those of the tree's draw of rows
    alone : INOUT (r, width)
    outside : INOUT (r, width)
        Only of rows that were not drawn, divided by their share.
    """
    cdef int64_t n = alone.shape[0]
    cdef const int64_t[::1] size = count, number = numbers
    cdef const int32_t[::1] of_row = leaf, row = rows
    cdef pmb_leaf_step s = leaf_step_of(how, sums.shape[2], 1.0)
    cdef float[:, ::1] scratch = np.empty((n_threads, G.shape[1]), dtype=np.float32)
    cdef pmb_left_out t
    if not n:
        return
    t.steps, t.n, t.scratch = &s, n, &scratch[0, 0]
    t.gradient, t.weight, t.width, t.sums, t.count = &G[0, 0], or_null(weight), G.shape[1], &sums[0, 0, 0], &size[0]
    t.leaf, t.key, t.share, t.row, t.number = &of_row[0], key, share, &row[0], &number[0]
    t.alone, t.outside = &alone[0, 0], &outside[0, 0]
    with nogil:
        run(threads_for(n_threads, n * t.width, FEW_NUMBERS), pieces_of(n, FEW_ROWS), left_out_piece, &t)


cdef void left_out_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const pmb_left_out *t = <const pmb_left_out *> what
    cdef int64_t start = piece * FEW_ROWS
    pmb_add_left_out(t, start, min(t.n, start + FEW_ROWS), t.scratch + thread * t.width)


def leaf_hessian(const float[:, ::1] G, const double[::1] weight, const int32_t[::1] y, int lanes, double magic,
                 const int32_t[::1] rows, int64_t start, int64_t stop, int64_t[:, ::1] out):
    """Add to out (n_classes + 1, blocks * lanes) the sums of w (diag p - p p^T), p of softmax, and of w g, in units."""
    cdef const double *w = or_null(weight)
    cdef double[::1] p = np.empty(G.shape[1])
    with nogil:
        pmb_vloss_hessian(lanes, &G[0, 0], w, &y[0], <int> G.shape[1] // lanes, <int> out.shape[0] - 1, &rows[start],
                          stop - start, magic, &p[0], <uint64_t *> &out[0, 0])
