# cython: language_level=3
"""Softmax on scores in single precision, for many classes: gradients are made for some rows at a time and not kept.

Rows of scores F (m, blocks * 16) have -1e30 in the lanes of no class. The arithmetic is that of `vector_loss`. Sums
over rows are of integers, in units, see `exact`.
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from .aligned import aligned_zeros
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
    BLOCK_ROWS = 4096
    CACHED = 1 << 16    # gradients that are held at once


def add_entries(float[:, ::1] F, const int64_t[::1] start, const uint16_t[::1] cls, const float[::1] value,
                const int32_t[::1] leaf, int n_threads):
    """F += the entries of the rows' leaves; those of leaf j are start[j] <= e < start[j + 1]."""
    cdef int64_t b, m = F.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    if not cls.shape[0]:
        return
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_f32_add(&F[0, 0], F.shape[1], &start[0], &cls[0], &value[0], &leaf[0], b * BLOCK_ROWS,
                    min(m, (b + 1) * BLOCK_ROWS))


def add_rows(float[:, ::1] F, const float[:, ::1] V, const int32_t[::1] leaf, int n_threads):
    """F += V[leaf], by rows."""
    cdef int64_t b, m = F.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_f32_add_rows(&F[0, 0], F.shape[1], &V[0, 0], &leaf[0], b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS))


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
    cdef int64_t b, m = F.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS, few = max(8, CACHED // F.shape[1] // 8 * 8)
    cdef int blocks = <int> out.shape[1] // lanes
    cdef const double *w = or_null(weight)
    cdef const float[:, ::1] values
    cdef const float *v = NULL
    if V is not None:
        values = V
        v = &values[0, 0]
    cdef float[:, ::1] g = aligned_zeros((n_threads, few * F.shape[1]), np.float32)
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
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_f32_project(
            lanes, &F[0, 0], F.shape[1], v, &leaf[0], &y[0], w, few, &P[0, 0], &signs, blocks, b * BLOCK_ROWS,
            min(m, (b + 1) * BLOCK_ROWS), &magic[0], &g[threadid(), 0],
            <pmb_f32_norm *> &norm[0, 0], &out[0, 0], <uint64_t *> &sums[b, 0, 0], <uint64_t *> &squares[b])
    return sums_[:, 0].sum(axis=0), squares_.sum(keepdims=True)


def leaf_bounds(const float[:, ::1] F, const float[:, ::1] norm, const int32_t[::1] y, const int32_t[::1] rows,
                const int64_t[::1] leaf_start, int n_threads):
    """Bounds of |g| over the rows of every leaf: (n_leaves, 2, width).

    No logarithm of a probability is above the first, but for rounding; they are -87 at least. The second are the
    largest gradients of own classes, 0 of none.
    """
    cdef int64_t j, n = leaf_start.shape[0] - 1
    out_ = np.empty((n, 2, F.shape[1]))
    cdef double[:, :, ::1] out = out_
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic"):
        pmb_f32_tops(&F[0, 0], F.shape[1], <const pmb_f32_norm *> &norm[0, 0], &y[0], &rows[leaf_start[j]],
                     leaf_start[j + 1] - leaf_start[j], &out[j, 0, 0])
    return out_


def leaf_sums(const float[:, ::1] F, const float[:, ::1] norm, const int32_t[::1] y, const double[::1] weight,
              const int32_t[::1] rows, const int64_t[::1] leaf_start, const double[:, ::1] magic,
              int n_threads):
    """See `vector_loss.leaf_sums`."""
    cdef int64_t j, n = leaf_start.shape[0] - 1
    cdef const double *w = or_null(weight)
    out_ = np.empty((n, 2, F.shape[1]), dtype=np.int64)
    cdef int64_t[:, :, ::1] out = out_
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic"):
        pmb_f32_leaf(&F[0, 0], F.shape[1], <const pmb_f32_norm *> &norm[0, 0], &y[0], w, &rows[leaf_start[j]],
                     leaf_start[j + 1] - leaf_start[j], &magic[j, 0], <uint64_t *> &out[j, 0, 0])
    return out_


def softmax_values(const float[:, ::1] F, const float[:, ::1] norm, const int32_t[::1] y, const double[::1] weight,
                   const int32_t[::1] rows, const int64_t[::1] leaf_start, const double[::1] magic, how,
                   int n_threads):
    """Like `vector_loss.softmax_values`, in float32."""
    cdef int64_t j, t, count, n = leaf_start.shape[0] - 1, width = F.shape[1]
    cdef const double *w = or_null(weight)
    cdef pmb_leaf_step s = leaf_step_of(how, width, magic[0])
    value_, small_ = np.empty((n, width), dtype=np.float32), np.empty(n, dtype=np.uint8)
    cdef float[:, ::1] value = value_
    cdef double[:, ::1] step = np.empty((n_threads, width))
    cdef int64_t[:, ::1] sums = np.empty((n_threads, 2 * width), dtype=np.int64)
    cdef uint8_t[::1] small = small_
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic"):
        t, count = threadid(), leaf_start[j + 1] - leaf_start[j]
        pmb_f32_leaf(&F[0, 0], width, <const pmb_f32_norm *> &norm[0, 0], &y[0], w, &rows[leaf_start[j]], count,
                     &magic[0], <uint64_t *> &sums[t, 0])
        small[j] = pmb_leaf_steps(&s, &sums[t, 0], count, &step[t, 0])
        pmb_leaf_values(&s, &step[t, 0], NULL, &value[j, 0])
    return value_, np.flatnonzero(small_)
