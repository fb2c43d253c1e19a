# cython: language_level=3
"""Choosing among splits whose edges are all known (`stumps.AllEdges`)."""

import numpy as np

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "splits.h" nogil:
    double pmb_right_weight(const double *edge, const double *total, int K)
    double pmb_joint_gain(const double *set_, const double *one, int64_t n, double tie, int64_t *at)
    void pmb_joint_sums(const double *edge, int64_t width, const int64_t *at, int64_t first, int64_t last, int64_t n,
                        int K, const double *total, double *to)
    void pmb_margin_gains(const double *edge, int64_t width, const int64_t *at, int64_t n, int K, const double *total,
                          double tie, double *gain, int64_t *best)

cdef extern from "splits_levels.h" nogil:
    ctypedef struct pmb_joint_cells:
        int32_t n
        const double *weight
        const uint8_t *rare
        double least

    ctypedef struct pmb_joint_set:
        double gain
        double z[2]
        double w[2]
        int32_t count
        int32_t side
        int32_t turned

    pmb_joint_set pmb_joint_levels(const pmb_joint_cells *c, const double *set_, const double *one, int64_t stride,
                                   double tie, double *sum, uint64_t *key)

ctypedef fused real:
    float
    double


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
    """What `joint_gains` needs of every class: O(splits K).

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


cdef class Levels:
    """Levels of categorical features, and splits on them that classes share: the best of all sets of levels.

    Features have cells: one for each level, and behind them one for the rows where the feature is missing.

    Parameters
    ----------
    start : IN int64 (F + 1,) first cell of every feature
    weight : IN (cells,) sample weight of the rows of every cell
    rare : IN uint8 (cells,) which levels stay together
    least : least sample weight on either side of a split
    tie : gains that differ by less than this factor are equal
    """

    cdef const int64_t[::1] start
    cdef const double[::1] weight
    cdef const uint8_t[::1] rare
    cdef double least, tie
    cdef double[:, ::1] sums
    cdef uint64_t[:, ::1] keys

    def __init__(self, start, weight, rare, least, tie, n_threads):
        self.start, self.weight, self.rare, self.least, self.tie = start, weight, rare, least, tie
        most = int(np.diff(start).max())
        self.sums, self.keys = np.empty((n_threads, 5 * most)), np.empty((n_threads, 2 * most), dtype=np.uint64)

    cdef pmb_joint_set _best(self, int64_t f, const double *chosen, const double *one, int thread) noexcept nogil:
        cdef int64_t at = self.start[f]
        cdef pmb_joint_cells cells
        cells.n, cells.least = <int32_t> (self.start[f + 1] - at - 1), self.least
        cells.weight, cells.rare = &self.weight[at], &self.rare[at]
        return pmb_joint_levels(&cells, chosen + at, one + at if one != NULL else NULL, self.weight.shape[0], self.tie,
                                &self.sums[thread, 0], &self.keys[thread, 0])

    def gains(self, const double[:, ::1] chosen, const double[:, :, ::1] sums, const uint8_t[::1] open_,
              double[:, ::1] gain, int n_threads):
        """What the best split explains when a class joins a set that shares it: O(K levels log levels).

        Parameters
        ----------
        chosen : IN (2, cells) sums of w z of the classes in the set, and of w
        sums : IN (K, 2, cells) those of every class
        open_ : IN (K,) which classes to try
        gain : OUT (K, F) largest sum over the two sides of (sum w z)^2 / sum w; -1 where there is no split
        """
        cdef int64_t j, F = gain.shape[1]
        for j in prange(gain.shape[0] * F, nogil=True, num_threads=n_threads, schedule="dynamic"):
            if open_[j // F]:
                gain[j // F, j % F] = self._best(j % F, &chosen[0, 0], &sums[j // F, 0, 0], threadid()).gain

    def split(self, int64_t f, const double[:, ::1] chosen, uint8_t[::1] left):
        """The split of a feature that classes share, as `gains` found it.

        Parameters
        ----------
        chosen : IN (2, cells) sums of the classes
        left : OUT uint8 (cells of the feature,) which go left

        Returns
        -------
        gain : float
        z, w : list of float
            Sums of w z and of w, left and right.
        """
        cdef pmb_joint_set best = self._best(f, &chosen[0, 0], NULL, 0)
        cdef int32_t j
        left[:] = best.turned
        for j in range(best.count):
            left[<uint32_t> self.keys[0, j]] = not best.turned
        left[left.shape[0] - 1] = (best.side != best.turned) if self.weight[self.start[f + 1] - 1] > 0 else 0
        return best.gain, best.z, best.w


def level_sums(const real[:, :, ::1] A, const uint16_t[:, ::1] codes, const int64_t[::1] start, double[:, :, ::1] out,
               int n_threads):
    """Sums of a gradient's columns by the cells of features: O(rows F columns).

    Parameters
    ----------
    A : IN (n_blocks, m, lanes)
    codes : IN uint16 (F, m) cell of every row, of those of the feature
    start : IN (F + 1,) first cell of every feature
    out : OUT (n_blocks, cells, lanes)
    """
    cdef int64_t j, i, at, F = codes.shape[0]
    cdef int lane, lanes = <int> A.shape[2]
    out[...] = 0
    for j in prange(A.shape[0] * F, nogil=True, num_threads=n_threads, schedule="dynamic"):
        for i in range(A.shape[1]):
            at = start[j % F] + codes[j % F, i]
            for lane in range(lanes):
                out[j // F, at, lane] += A[j // F, i, lane]
