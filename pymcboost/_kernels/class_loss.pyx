# cython: language_level=3
"""The softmax loss for class-wise boosting: what is left to learn, losses with several bases, leaves added."""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from pymcboost._kernels.class_trees cimport (
    PMB_TRY_ROWS,
    pmb_add_leaves,
    pmb_add_parts,
    pmb_log_odds,
    pmb_softmax,
    pmb_try_bases,
)

ctypedef fused real:
    float
    double

cdef enum:
    CHUNK = 2048  # rows of one class that are worked on together

ROWS = CHUNK  # of `weights.chunks`


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
    cdef int64_t c, n_chunks = starts.shape[0] - 1, m = F.shape[1]
    cdef int K = F.shape[0], is_double = real is double
    cdef double[:, ::1] top = np.empty((n_threads, CHUNK))
    cdef real[:, ::1] total = np.empty((n_threads, CHUNK), dtype=np.float32 if real is float else np.float64)
    cdef const double *weights = &weight[0] if weight.shape[0] else NULL
    for c in prange(n_chunks, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_softmax(is_double, &F[0, starts[c]], m, K, own[c], starts[c + 1] - starts[c],
                    weights + starts[c] if weights != NULL else NULL, &top[threadid(), 0],
                    <void *> &total[threadid(), 0], <void *> &S[0, starts[c]], &magic[0], &sums[c, 0, 0, 0])


def losses(double[::1] odds, const int64_t[::1] starts, const int32_t[::1] own, const double[::1] weight,
           const double[::1] magic, int64_t[:, ::1] sums):
    """Sums of w log(1 + odds) of the rows of every class.

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
    cdef int64_t m = F.shape[1], c, start, n
    cdef int j, t, T = tree.shape[0], bytes_ = leaf.dtype.itemsize
    cdef const uint8_t[:, ::1] leaves = leaf.view(np.uint8)
    for c in prange((m + CHUNK - 1) // CHUNK, nogil=True, num_threads=n_threads, schedule="static"):
        start = c * CHUNK
        n = min(<int64_t> CHUNK, m - start)
        for j in range(T):
            t = tree[j]
            pmb_add_leaves(&leaves[t, start * bytes_], bytes_, &value[t, 0], n, &F[cls[j], start],
                           &F[base[j], start] if base[j] >= 0 else NULL)


def try_bases(const real[:, ::1] S, const int64_t[::1] starts, const int32_t[::1] own, leaf,
              const real[:, :, ::1] factor, const int32_t[:, ::1] pair, const uint8_t[::1] tried,
              const double[::1] weight, const double[::1] magic, int64_t[:, :, ::1] loss, int n_threads):
    """The training losses with several base classes, chunk by chunk, without touching the scores.

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
    cdef int64_t c, n_chunks = starts.shape[0] - 1, m = S.shape[1], stride = factor.shape[2]
    cdef int n_pairs = pair.shape[0], K = S.shape[0], is_double = real is double
    cdef real[:, ::1] work = np.empty((n_threads, 3 * K * PMB_TRY_ROWS),
                                      dtype=np.float32 if real is float else np.float64)
    cdef const double *weights = &weight[0] if weight.shape[0] else NULL
    cdef int bytes_ = leaf.dtype.itemsize
    cdef const uint8_t[:, ::1] leaves = leaf.view(np.uint8)
    if stride < 32 or factor.shape[1] < n_pairs:
        raise ValueError("the arrays do not fit each other")
    for c in prange(n_chunks, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_try_bases(is_double, <const void *> &S[0, starts[c]], m, K, &tried[0], n_pairs, &pair[0, 0], own[c],
                      starts[c + 1] - starts[c], &leaves[0, starts[c] * bytes_], bytes_, stride,
                      <const void *> &factor[0, 0, 0], <const void *> &factor[1, 0, 0],
                      weights + starts[c] if weights != NULL else NULL, <void *> &work[threadid(), 0], &magic[0],
                      &loss[c, 0, 0])
