# cython: language_level=3
"""Choosing among splits whose edges are all known (`stumps.AllEdges`)."""

from libc.stdint cimport int64_t, uint8_t

from .pool cimport pieces_of, run, threads_for

cdef extern from "splits.h" nogil:
    double pmb_right_weight(const double *edge, const double *total, int K)
    double pmb_joint_gain(const double *set_, const double *one, int64_t n, double tie, int64_t *at)
    void pmb_joint_sums(const double *edge, int64_t width, const int64_t *at, int64_t first, int64_t last, int64_t n,
                        int K, const double *total, double *to)
    void pmb_margin_gains(const double *edge, int64_t width, const int64_t *at, int64_t n, int K, const double *total,
                          double tie, double *gain, int64_t *best)

cdef enum:
    PIECE_SPLITS = 256     # of a piece, which a thread does at a time
    FEW_NUMBERS = 1 << 15  # With fewer numbers than this, one thread is faster.


# Arrays that passes over splits, or over classes, read and write; each uses some of them.
cdef struct Pass:
    int K
    int64_t n, width
    double tie
    const double *edge
    const int64_t *splits
    const double *total
    double *out
    const double *chosen
    const double *sums  # (K, 4, n)
    const uint8_t *open
    double *gain
    int64_t *at


def right_weights(const double[:, ::1] edge, const double[::1] total, double[::1] out, int n_threads):
    """Weight of the rows that each split gets right: O(splits K).

    A side says one class, the other side another; of all pairs the best counts.

    Parameters
    ----------
    edge : IN (n, width) sum of the weights of a class right of the split minus that left of it; NaN: no split
    total : IN (K,) weights of the classes
    out : OUT (n,) -1 where there is no split
    """
    cdef Pass p
    p.n, p.width, p.K = edge.shape[0], edge.shape[1], <int> total.shape[0]
    p.edge, p.total, p.out = &edge[0, 0], &total[0], &out[0]
    with nogil:
        run(threads_for(n_threads, p.n * p.K, FEW_NUMBERS), pieces_of(p.n, PIECE_SPLITS), right_piece, &p)


cdef void right_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t j
    for j in range(piece * PIECE_SPLITS, min(p.n, (piece + 1) * PIECE_SPLITS)):
        p.out[j] = pmb_right_weight(p.edge + j * p.width, p.total, p.K)


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
    cdef Pass p
    p.n, p.width, p.K = splits.shape[0], edge.shape[1], <int> out.shape[0]
    if p.n == 0:
        return
    p.edge, p.splits, p.total, p.out = &edge[0, 0], &splits[0], &total[0], &out[0, 0, 0]
    with nogil:
        run(threads_for(n_threads, p.n * p.K, FEW_NUMBERS), pieces_of(p.n, PIECE_SPLITS), sums_piece, &p)


cdef void sums_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    cdef int64_t first = piece * PIECE_SPLITS
    pmb_joint_sums(p.edge, p.width, p.splits, first, min(p.n, first + PIECE_SPLITS), p.n, p.K, p.total, p.out)


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
    cdef Pass p
    p.n, p.K, p.tie, p.chosen, p.sums = chosen.shape[1], <int> sums.shape[0], tie, &chosen[0, 0], &sums[0, 0, 0]
    p.open, p.gain, p.at = &open_[0], &gain[0], &at[0]
    with nogil:
        run(threads_for(n_threads, p.n * p.K, FEW_NUMBERS), p.K, gain_piece, &p)


cdef void gain_piece(void *what, int64_t c, int thread) noexcept nogil:
    cdef const Pass *p = <const Pass *> what
    if p.open[c]:
        p.gain[c] = pmb_joint_gain(p.chosen, p.sums + 4 * c * p.n, p.n, p.tie, p.at + c)
