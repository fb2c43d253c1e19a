# cython: language_level=3
"""The softmax loss for class-wise boosting: what is left to learn, losses with several bases, leaves added."""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from pymcboost._kernels.classwise_trees cimport (
    PMB_TRY_ROWS,
    pmb_add_leaves,
    pmb_add_parts,
    pmb_log_odds,
    pmb_softmax,
    pmb_try_bases,
)
from pymcboost._kernels.pool cimport pieces_of, run

ctypedef fused real:
    float
    double

cdef enum:
    CHUNK = 2048  # rows of one class that are worked on together

ROWS = CHUNK  # of `weights.chunks`


# Arrays that passes over chunks of rows read and write; each pass uses some of them.
cdef struct Pass:
    int K, is_double, n_pairs, n_trees, leaf_bytes
    int64_t m, stride, S_bytes, scratch_bytes
    const int64_t *starts
    const int32_t *own
    const double *weight
    const double *magic
    double *F
    char *S
    char *scratch       # of each thread
    double *top         # likewise, CHUNK
    int64_t *sums       # of each chunk
    int64_t sums_width
    const uint8_t *leaves
    const double *value
    int64_t n_values    # of a tree
    const int32_t *tree
    const int32_t *cls
    const int32_t *base
    const uint8_t *tried
    const int32_t *pair
    const void *up
    const void *down


cdef inline const double *from_row(const double *weight, int64_t row) noexcept nogil:
    """The weights from a row on; NULL if all are 1."""
    return weight + row if weight != NULL else NULL


def softmax(const double[:, ::1] F, const int64_t[::1] starts, const int32_t[::1] own, const double[::1] weight,
            real[:, ::1] S, const double[::1] magic, int64_t[:, :, :, ::1] sums, int n_threads):
    """What is left to learn: S[k] = p_k on the rows of other classes and 1 - p_k on those of class k, p = softmax(F).

    Parameters
    ----------
    F : IN (K, m)
    starts, own : IN (n_chunks + 1,) and (n_chunks,) chunks of rows and their classes
    weight : IN (m,), or empty where all are 1
    S : OUT (K, m)
    magic : IN (PARTS,) of the units of the sums
    sums : OUT (n_chunks, K, 2, 2) sums of w s and w s (1 - s) in every chunk, each in two parts
    """
    cdef Pass p
    cdef double[:, ::1] top = np.empty((n_threads, CHUNK))
    cdef real[:, ::1] total = np.empty((n_threads, CHUNK), dtype=np.float32 if real is float else np.float64)
    if not own.shape[0]:
        return
    p.m, p.K, p.is_double, p.S_bytes = F.shape[1], <int> F.shape[0], real is double, sizeof(real)
    p.starts, p.own, p.weight, p.magic = &starts[0], &own[0], &weight[0] if weight.shape[0] else NULL, &magic[0]
    p.F, p.S, p.top, p.scratch = <double *> &F[0, 0], <char *> &S[0, 0], &top[0, 0], <char *> &total[0, 0]
    p.sums, p.sums_width, p.scratch_bytes = &sums[0, 0, 0, 0], 4 * p.K, CHUNK * sizeof(real)
    with nogil:
        run(n_threads, own.shape[0], softmax_piece, &p)


cdef void softmax_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[piece]
    pmb_softmax(p.is_double, p.F + start, p.m, p.K, p.own[piece], p.starts[piece + 1] - start,
                from_row(p.weight, start), p.top + thread * CHUNK, <void *> (p.scratch + thread * p.scratch_bytes),
                <void *> (p.S + start * p.S_bytes), p.magic, p.sums + piece * p.sums_width)


def losses(double[::1] odds, const int64_t[::1] starts, const int32_t[::1] own, const double[::1] weight,
           const double[::1] magic, int64_t[:, ::1] sums):
    """Sums of w log(1 + odds) over the rows of every class.

    Parameters
    ----------
    odds : IN/OUT (m,) of the other classes; overwritten
    starts, own, weight : IN as in `softmax`
    magic : IN (PARTS,) of the units of the sums
    sums : OUT (K, PARTS)
    """
    cdef int64_t c, i
    with nogil:
        sums[:, :] = 0
        pmb_log_odds(&odds[0], odds.shape[0])
        for i in range(weight.shape[0]):
            odds[i] *= weight[i]
        for c in range(own.shape[0]):
            pmb_add_parts(&odds[starts[c]], starts[c + 1] - starts[c], &magic[0], &sums[own[c], 0])


def add_trees(leaf, const double[:, ::1] value, const int32_t[::1] tree,
              const int32_t[::1] cls, const int32_t[::1] base, double[:, ::1] F, int n_threads):
    """F += the leaf values of the listed trees, in order.

    Parameters
    ----------
    leaf : IN (n, m) uint8 or uint16, leaf of every row in every tree
    value : IN (n, J)
    tree, cls, base : IN (t,) trees to add, the class that receives the value, and that from which it is taken (or -1)
    F : IN/OUT (K, m)
    """
    cdef Pass p
    cdef const uint8_t[:, ::1] leaves = leaf.view(np.uint8)
    p.m, p.n_trees, p.leaf_bytes, p.n_values = F.shape[1], <int> tree.shape[0], leaf.dtype.itemsize, value.shape[1]
    if not p.m or not p.n_trees:
        return
    p.F, p.leaves, p.value, p.stride = &F[0, 0], &leaves[0, 0], &value[0, 0], leaves.shape[1]
    p.tree, p.cls, p.base = &tree[0], &cls[0], &base[0]
    with nogil:
        run(n_threads, pieces_of(p.m, CHUNK), add_piece, &p)


cdef void add_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = piece * CHUNK, n = min(<int64_t> CHUNK, p.m - start)
    cdef int j, t
    for j in range(p.n_trees):
        t = p.tree[j]
        pmb_add_leaves(p.leaves + t * p.stride + start * p.leaf_bytes, p.leaf_bytes, p.value + t * p.n_values, n,
                       p.F + p.cls[j] * p.m + start, p.F + p.base[j] * p.m + start if p.base[j] >= 0 else NULL)


def try_bases(const real[:, ::1] S, const int64_t[::1] starts, const int32_t[::1] own, leaf,
              const real[:, :, ::1] factor, const int32_t[:, ::1] pair, const uint8_t[::1] tried,
              const double[::1] weight, const double[::1] magic, int64_t[:, :, ::1] loss, int n_threads):
    """Training losses with several base classes, chunk by chunk, without changing the scores.

    Parameters
    ----------
    S, starts, own, weight : IN as in `softmax`
    leaf : IN as in `add_trees`
    factor : IN (2, n, at least 32) exp(value) and exp(-value) of the leaves
    pair : IN (n, 2) classes of the trees: the first receives the value, the second loses it; ascending
    tried : IN (K,) whether a class is tried as the base; all of its pairs must be there
    magic : IN (PARTS,) of the units of the sums
    loss : OUT (n_chunks, K, PARTS), 0 for classes that are not tried
    """
    cdef Pass p
    cdef int64_t work_size = 3 * S.shape[0] * PMB_TRY_ROWS
    cdef real[:, ::1] work = np.empty((n_threads, work_size), dtype=np.float32 if real is float else np.float64)
    cdef const uint8_t[:, ::1] leaves = leaf.view(np.uint8)
    if factor.shape[2] < 32 or factor.shape[1] < pair.shape[0]:
        raise ValueError("the arrays do not fit each other")
    if not own.shape[0]:
        return
    p.m, p.K, p.is_double, p.S_bytes = S.shape[1], <int> S.shape[0], real is double, sizeof(real)
    p.starts, p.own, p.weight, p.magic = &starts[0], &own[0], &weight[0] if weight.shape[0] else NULL, &magic[0]
    p.S, p.tried, p.n_pairs, p.pair = <char *> &S[0, 0], &tried[0], <int> pair.shape[0], &pair[0, 0]
    p.leaves, p.leaf_bytes, p.stride = &leaves[0, 0], leaf.dtype.itemsize, factor.shape[2]
    p.up, p.down = <const void *> &factor[0, 0, 0], <const void *> &factor[1, 0, 0]
    p.scratch, p.scratch_bytes = <char *> &work[0, 0], work_size * sizeof(real)
    p.sums, p.sums_width = &loss[0, 0, 0], loss.shape[1] * loss.shape[2]
    with nogil:
        run(n_threads, own.shape[0], bases_piece, &p)


cdef void bases_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t start = p.starts[piece]
    pmb_try_bases(p.is_double, <const void *> (p.S + start * p.S_bytes), p.m, p.K, p.tried, p.n_pairs, p.pair,
                  p.own[piece], p.starts[piece + 1] - start, p.leaves + start * p.leaf_bytes, p.leaf_bytes, p.stride,
                  p.up, p.down, from_row(p.weight, start), <void *> (p.scratch + thread * p.scratch_bytes), p.magic,
                  p.sums + piece * p.sums_width)
