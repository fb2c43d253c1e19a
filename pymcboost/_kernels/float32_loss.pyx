# cython: language_level=3
"""Softmax on scores in single precision, for many classes: gradients are made for some rows at a time and not kept.

Rows of scores F (m, blocks * 16) have -1e30 in the lanes of no class. The arithmetic is that of `vector_loss`. Sums
over rows are of integers, in units, see `exact`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from .aligned import aligned_zeros
from .pool cimport pieces_of, run, threads_for
from .leaf_vectors cimport (
    or_null, pmb_signs, pmb_signs_of, pmb_leaf_step, pmb_leaf_steps, pmb_leaf_values, leaf_step_of,
)

import numpy as np

cdef extern from "float32_loss.h" nogil:
    ctypedef struct pmb_f32_norm:
        float top, factor, own
    void pmb_f32_add(float *F, int64_t width, const int64_t *start, const uint16_t *cls, const float *value,
                     const int32_t *leaf, int64_t begin, int64_t end)
    void pmb_f32_add_rows(float *F, int64_t width, const float *V, const int32_t *leaf, int64_t begin, int64_t end)
    void pmb_f32_project(int lanes, float *F, int64_t width, const float *V, const int32_t *leaf, const int32_t *y,
                         const double *weight, int64_t few, const float *P, const pmb_signs *signs, int blocks,
                         int64_t begin, int64_t end, const double *magic, float *g, pmb_f32_norm *norm, float *out,
                         uint64_t *sums, uint64_t *square)
    void pmb_f32_tops(const float *F, int64_t width, const pmb_f32_norm *norm, const int32_t *y, const int32_t *rows,
                      int64_t n, double *out)
    void pmb_f32_leaf(const float *F, int64_t width, const pmb_f32_norm *norm, const int32_t *y, const double *weight,
                      const int32_t *rows, int64_t n, const double *magic, uint64_t *out)

cdef enum:
    BLOCK_ROWS = 4096   # of a piece, which a thread does at a time
    CACHED = 1 << 16    # gradients that are held at once
    FEW_SCORES = 1 << 13  # With fewer scores in all leaves than this, one thread is faster.


# Arrays that passes over rows or leaves read and write; each uses some of them.
cdef struct Pass:
    int64_t m, width
    float *F
    const float *V
    const int32_t *leaf
    const int64_t *start  # entries of the leaves
    const uint16_t *cls
    const float *value
    const int32_t *y
    const double *w
    pmb_f32_norm *norm
    int lanes, blocks
    int64_t few  # rows whose gradients are held at once
    const float *P
    const pmb_signs *signs
    const double *magic
    int64_t magic_step  # from the magic numbers of a leaf to those of the next one
    float *g            # of each thread, (few, width)
    float *out
    uint64_t *sums
    uint64_t *squares
    const int32_t *rows  # of the leaves
    const int64_t *leaf_start
    const pmb_leaf_step *steps
    double *step  # of each thread
    double *tops
    uint8_t *small


cdef Pass leaves_pass(const float[:, ::1] F, const float[:, ::1] norm, const int32_t[::1] y, const int32_t[::1] rows,
                      const int64_t[::1] leaf_start):
    """A pass over leaves, a piece each."""
    cdef Pass p
    p.m, p.width, p.F, p.norm, p.y = rows.shape[0], F.shape[1], <float *> &F[0, 0], <pmb_f32_norm *> &norm[0, 0], &y[0]
    p.rows, p.leaf_start = &rows[0], &leaf_start[0]
    return p


def add_entries(float[:, ::1] F, const int64_t[::1] start, const uint16_t[::1] cls, const float[::1] value,
                const int32_t[::1] leaf, int n_threads):
    """F += the entries of the rows' leaves; those of leaf j are start[j] <= e < start[j + 1]."""
    cdef Pass p
    if not cls.shape[0]:
        return
    p.m, p.width, p.F, p.leaf = F.shape[0], F.shape[1], &F[0, 0], &leaf[0]
    p.start, p.cls, p.value = &start[0], &cls[0], &value[0]
    with nogil:
        run(n_threads, pieces_of(p.m, BLOCK_ROWS), entries_piece, &p)


cdef void entries_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t begin = piece * BLOCK_ROWS
    pmb_f32_add(p.F, p.width, p.start, p.cls, p.value, p.leaf, begin, min(p.m, begin + BLOCK_ROWS))


def add_rows(float[:, ::1] F, const float[:, ::1] V, const int32_t[::1] leaf, int n_threads):
    """F += V[leaf], by rows."""
    cdef Pass p
    p.m, p.width, p.F, p.V, p.leaf = F.shape[0], F.shape[1], &F[0, 0], &V[0, 0], &leaf[0]
    with nogil:
        run(n_threads, pieces_of(p.m, BLOCK_ROWS), rows_piece, &p)


cdef void rows_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t begin = piece * BLOCK_ROWS
    pmb_f32_add_rows(p.F, p.width, p.V, p.leaf, begin, min(p.m, begin + BLOCK_ROWS))


def project(float[:, ::1] F, V, const int32_t[::1] leaf, const int32_t[::1] y, const double[::1] weight,
            const float[:, ::1] P, int lanes, const double[::1] magic, float[:, ::1] out, float[:, ::1] norm,
            int n_threads):
    """F += V[leaf], and out = G P of the negative gradients G; returns the sums of w |out| by lane, and of w |g|^2.

    They are in two units, those of the two magic numbers. The squares of a row are summed in single precision.

    Parameters
    ----------
    F : INOUT (m, width)
    V : IN (n_leaves, width) float32, or None: F stays
    P : IN (K, blocks * lanes), 0 in unused lanes; out : OUT (m, blocks * lanes)
        Blocks of a row of P that are 0 cost nothing.
    norm : OUT (m, 3)
        What `leaf_sums` needs of the rows.
    """
    cdef Pass p
    p.m, p.width, p.few = F.shape[0], F.shape[1], max(8, CACHED // F.shape[1] // 8 * 8)
    p.lanes, p.blocks = lanes, <int> out.shape[1] // lanes
    cdef const float[:, ::1] values
    p.V = NULL
    if V is not None:
        values = V
        p.V = &values[0, 0]
    cdef int64_t n = pieces_of(p.m, BLOCK_ROWS)
    cdef int blocks = p.blocks
    cdef float[:, ::1] g = aligned_zeros((n_threads, p.few * p.width), np.float32)
    used, of_block = np.nonzero(np.asarray(P).reshape(len(P), blocks, lanes).any(axis=2).T)
    cdef int32_t[::1] classes = np.append(of_block, 0).astype(np.int32)
    cdef int64_t[::1] start = np.searchsorted(used, np.arange(blocks + 1)).astype(np.int64)
    sums_, squares_ = np.zeros((n, 2, out.shape[1]), dtype=np.int64), np.zeros(n, dtype=np.int64)
    cdef int64_t[:, :, ::1] sums = sums_
    cdef int64_t[::1] squares = squares_
    cdef float[:, ::1] sign = np.empty((len(of_block) + 1, 16), dtype=np.float32)
    cdef float[::1] size = np.zeros(F.shape[1], dtype=np.float32)
    cdef pmb_signs signs = pmb_signs(&sign[0, 0], &size[0], &classes[0], &start[0])
    if lanes != 16 or not pmb_signs_of(&P[0, 0], blocks, &classes[0], &start[0], &sign[0, 0], &size[0]):
        signs.sign = signs.size = NULL
    p.F, p.leaf, p.y, p.w, p.P, p.signs = &F[0, 0], &leaf[0], &y[0], or_null(weight), &P[0, 0], &signs
    p.magic, p.g, p.norm, p.out = &magic[0], &g[0, 0], <pmb_f32_norm *> &norm[0, 0], &out[0, 0]
    p.sums, p.squares = <uint64_t *> &sums[0, 0, 0], <uint64_t *> &squares[0]
    with nogil:
        run(n_threads, n, project_piece, &p)
    return sums_[:, 0].sum(axis=0), squares_.sum(keepdims=True)


cdef void project_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t begin = piece * BLOCK_ROWS
    pmb_f32_project(p.lanes, p.F, p.width, p.V, p.leaf, p.y, p.w, p.few, p.P, p.signs, p.blocks, begin,
                    min(p.m, begin + BLOCK_ROWS), p.magic, p.g + thread * p.few * p.width, p.norm, p.out,
                    p.sums + 2 * piece * p.blocks * p.lanes, p.squares + piece)


def leaf_bounds(const float[:, ::1] F, const float[:, ::1] norm, const int32_t[::1] y, const int32_t[::1] rows,
                const int64_t[::1] leaf_start, int n_threads):
    """Bounds of |g| over the rows of every leaf: (n_leaves, 2, width).

    No logarithm of a probability is above the first, but for rounding; they are -87 at least. The second are the
    largest gradients of own classes, 0 of none.
    """
    cdef Pass p = leaves_pass(F, norm, y, rows, leaf_start)
    cdef int64_t n = leaf_start.shape[0] - 1
    out_ = np.empty((n, 2, F.shape[1]))
    cdef double[:, :, ::1] out = out_
    p.tops = &out[0, 0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_SCORES), n, bounds_piece, &p)
    return out_


cdef void bounds_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.leaf_start[j]
    pmb_f32_tops(p.F, p.width, p.norm, p.y, p.rows + start, p.leaf_start[j + 1] - start, p.tops + 2 * j * p.width)


def leaf_sums(const float[:, ::1] F, const float[:, ::1] norm, const int32_t[::1] y, const double[::1] weight,
              const int32_t[::1] rows, const int64_t[::1] leaf_start, const double[:, ::1] magic,
              int n_threads):
    """See `vector_loss.leaf_sums`."""
    cdef Pass p = leaves_pass(F, norm, y, rows, leaf_start)
    cdef int64_t n = leaf_start.shape[0] - 1
    out_ = np.empty((n, 2, F.shape[1]), dtype=np.int64)
    cdef int64_t[:, :, ::1] out = out_
    p.w, p.magic, p.magic_step, p.sums = or_null(weight), &magic[0, 0], p.width, <uint64_t *> &out[0, 0, 0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_SCORES), n, leaf_piece, &p)
    return out_


cdef inline void sums_of_leaf(const Pass *p, int64_t j, uint64_t *out) noexcept nogil:
    cdef int64_t start = p.leaf_start[j]
    pmb_f32_leaf(p.F, p.width, p.norm, p.y, p.w, p.rows + start, p.leaf_start[j + 1] - start,
                 p.magic + j * p.magic_step, out)


cdef void leaf_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    sums_of_leaf(p, j, p.sums + 2 * j * p.width)


def softmax_values(const float[:, ::1] F, const float[:, ::1] norm, const int32_t[::1] y, const double[::1] weight,
                   const int32_t[::1] rows, const int64_t[::1] leaf_start, const double[::1] magic, how,
                   int n_threads):
    """Like `vector_loss.softmax_values`, in float32."""
    cdef Pass p = leaves_pass(F, norm, y, rows, leaf_start)
    cdef int64_t n = leaf_start.shape[0] - 1, width = F.shape[1]
    cdef pmb_leaf_step s = leaf_step_of(how, width, magic[0])
    value_, small_ = np.empty((n, width), dtype=np.float32), np.empty(n, dtype=np.uint8)
    cdef float[:, ::1] value = value_
    cdef double[:, ::1] step = np.empty((n_threads, width))
    cdef int64_t[:, ::1] sums = np.empty((n_threads, 2 * width), dtype=np.int64)
    cdef uint8_t[::1] small = small_
    p.w, p.magic, p.magic_step, p.steps = or_null(weight), &magic[0], 0, &s
    p.sums, p.step, p.out, p.small = <uint64_t *> &sums[0, 0], &step[0, 0], &value[0, 0], &small[0]
    with nogil:
        run(threads_for(n_threads, p.m * p.width, FEW_SCORES), n, softmax_piece, &p)
    return value_, np.flatnonzero(small_)


cdef void softmax_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef uint64_t *sums = p.sums + 2 * thread * p.width
    cdef double *step = p.step + thread * p.width
    sums_of_leaf(p, j, sums)
    p.small[j] = pmb_leaf_steps(p.steps, <const int64_t *> sums, p.leaf_start[j + 1] - p.leaf_start[j], step)
    pmb_leaf_values(p.steps, step, NULL, p.out + j * p.width)
