# cython: language_level=3
"""Choosing among splits whose edges are all known (`stumps.AllEdges`)."""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint8_t

cdef extern from "splits.h" nogil:
    double pmb_right_weight(const double *edge, const double *total, int K)
    double pmb_joint_gain(const double *set_, const double *one, int64_t n, double tie, int64_t *at)
    void pmb_joint_sums(const double *edge, int64_t width, const int64_t *at, int64_t first, int64_t last, int64_t n,
                        int K, const double *total, double *to)
    void pmb_margin_gains(const double *edge, int64_t width, const int64_t *at, int64_t n, int K, const double *total,
                          double tie, double *gain, int64_t *best)


def right_weights(const double[:, ::1] edge, const double[::1] total, double[::1] out, int n_threads):
    """Weight of the rows that each split gets right: O(splits K).

    A side says one class, the other side another; of all pairs the best counts.

    Parameters
    ----------
    edge : IN (n, width) sum of the weights of a class right of the split minus that left of it; NaN: no split
    total : IN (K,) weights of the classes
    out : OUT (n,) -1 where there is no split
    """
    cdef int64_t j
    cdef int K = <int> total.shape[0]
    for j in prange(edge.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
        out[j] = pmb_right_weight(&edge[j, 0], &total[0], K)


def joint_sums(const double[:, ::1] edge, const int64_t[::1] splits, const double[::1] total, double[:, :, ::1] out,
               int n_threads):
    """Sums that `joint_gains` needs for every class: O(splits K).

    Parameters
    ----------
    edge : IN (n_all, width) right minus left: of w z of K classes, then of w
    splits : IN (n,) rows of edge
    total : IN (2 K,) sums of all rows
    out : OUT (K, 4, n) sums of w z left and right of every split, and of w left and right
    """
    cdef int64_t b, n = splits.shape[0], size = 256
    if n == 0:
        return
    for b in prange((n + size - 1) // size, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_joint_sums(&edge[0, 0], edge.shape[1], &splits[0], b * size, min(n, (b + 1) * size), n,
                       <int> out.shape[0], &total[0], &out[0, 0, 0])


def margin_gains(const double[:, ::1] edge, const int64_t[::1] splits, const double[::1] total, double tie,
                 double[::1] gain, int64_t[::1] at):
    """What every class's best split explains of margin vectors z = [own class] - 1/K: O(splits K).

    Parameters
    ----------
    edge : IN (n_all, width) right minus left of the weights of the classes
    splits : IN (n,) rows of edge
    total : IN (K,) weights of the classes
    tie : gains that differ by less than this factor are equal
    gain, at : OUT (K,) largest sum over the two sides of (sum w z)^2 / sum w z^2, and the first of the splits that has
        it; -1 where there is none
    """
    at[:] = -1
    gain[:] = 0
    if splits.shape[0]:
        with nogil:
            pmb_margin_gains(&edge[0, 0], edge.shape[1], &splits[0], splits.shape[0], <int> total.shape[0], &total[0],
                             tie, &gain[0], &at[0])


def joint_gains(const double[:, ::1] chosen, const double[:, :, ::1] sums, const uint8_t[::1] open_, double tie,
                double[::1] gain, int64_t[::1] at, int n_threads):
    """What the best split explains when a class joins a set that shares it, for every class: O(splits K).

    Parameters
    ----------
    chosen : IN (4, n) sums of the classes in the set: of w z left and right of every split, and of w left and right
    sums : IN (K, 4, n) those of every class
    open_ : IN (K,) which classes to try
    tie : gains that differ by less than this factor are equal
    gain, at : OUT (K,) largest sum over the two sides of (sum w z)^2 / sum w, and the first split that has it
    """
    cdef int64_t c, n = chosen.shape[1]
    for c in prange(sums.shape[0], nogil=True, num_threads=n_threads, schedule="dynamic"):
        if open_[c]:
            gain[c] = pmb_joint_gain(&chosen[0, 0], &sums[c, 0, 0], n, tie, &at[c])
