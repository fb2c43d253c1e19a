# cython: language_level=3
"""Trees whose leaves are vectors, one per class: growing them on integer gradients, and row-major losses.

A `Grower` splits nodes best-first so that sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T) is largest. All sums are
sums of integers; every node's random features depend on the tree's key and the node's path from the root alone; nodes
may be split ahead of their turn by several threads, but a tree keeps only those that best-first order reaches. So
nothing depends on the number of threads. Ties (within a relative 1e-10) go to the lower column, then the lower
threshold, then missing values right; among leaves, the one made first is split first.
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from .aligned import aligned_zeros

import numpy as np

cdef extern from "vectors.h" nogil:
    enum:
        PMB_VT_FAR
    ctypedef struct pmb_columns:
        int64_t m
        int32_t n_lanes, n_features, code_bytes
        const void *codes
        const int32_t *column
        const int32_t *lane
        const int32_t *cell0
        const int32_t *n_bins
        const int32_t *has_missing
        const int32_t *mode
        const int32_t *lane_ptr
        const int32_t *lane_feature
        const int32_t *lane_cells
    ctypedef struct pmb_node:
        int32_t feature, pos, nan_left
        double gain
    ctypedef struct pmb_grower:
        double min_gain
        pmb_node *nodes
        int32_t *rows
    ctypedef struct pmb_vt_cell:
        pass
    ctypedef struct pmb_vt_data:
        pmb_columns c
        int32_t n_classes, lanes, blocks, max_cells
        const int64_t *row_ptr
        const int32_t *cell_feature
        const int32_t *skip
        const uint64_t *others
    ctypedef struct pmb_vt_options:
        int32_t take, middle, threads
        int64_t least
        double min_share, share
        int32_t pool
    ctypedef struct pmb_vectors:
        pmb_grower g
        pmb_vt_data d
        pmb_vt_options o
        const int32_t *all_entries
        const pmb_vt_cell *all_cells
        int64_t n_entries, n_used_cells
    int64_t pmb_vt_others(const uint8_t *codes, int64_t m, int code, uint64_t *bits)
    int pmb_vectors_new(pmb_vectors *w, int32_t max_leaves, int32_t max_depth, int64_t most_sparse_cells)
    void pmb_vectors_free(pmb_vectors *w)
    int32_t pmb_vt_grow(pmb_vectors *w, const int32_t *A, uint64_t key)
    void pmb_vt_leaves(pmb_vectors *w, const int32_t *leaf_node, int32_t n_leaves, int64_t *leaf_start,
                       int32_t *leaf_of_row)
    int pmb_preorder(const pmb_node *nodes, int32_t *stack, int32_t *order, int32_t *right, int32_t *leaf_node)

cdef extern from "roundkey.h" nogil:
    uint64_t pmb_round_key(uint32_t seed, uint32_t n)

cdef extern from "vrows.h" nogil:
    enum:
        PMB_SOFTMAX
        PMB_EXP
        PMB_LOG

cdef extern from * nogil:
    """
    /* As NumPy sums up to 128 numbers: eight at a time, then those in pairs; more in halves. */
    static double pmb_sum(const double *v, int64_t n) {
        double r[8], sum = 0;
        int64_t i = 0, half = n / 2 - n / 2 % 8;
        if (n > 128) return pmb_sum(v, half) + pmb_sum(v + half, n - half);
        if (n >= 8) {
            for (int l = 0; l < 8; l++) r[l] = v[l];
            for (i = 8; i + 8 <= n; i += 8)
                for (int l = 0; l < 8; l++) r[l] += v[i + l];
            sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        }
        for (; i < n; i++) sum += v[i];
        return sum;
    }
    /* n rows of `count` numbers, `from_width` and `to_width` apart. */
    static void pmb_vr_copy(const double *from, int64_t from_width, double *to, int64_t to_width, int64_t count,
                            int64_t n) {
        for (int64_t i = 0; i < n; i++, from += from_width, to += to_width) {
            int64_t l = 0;
            for (; l + 4 <= count; l += 4) memcpy(to + l, from + l, 4 * sizeof(double));
            for (; l < count; l++) to[l] = from[l];
        }
    }
    static void pmb_vr_add(int lanes, double *F, const double *V, const int32_t *leaf, const int32_t *y, int blocks,
                           int64_t from, int64_t to, double *largest) {
        PMB_VR(lanes, pmb_vr_add_, F, V, leaf, y, blocks, from, to, largest);
    }
    static void pmb_vr_gradient(int lanes, int loss, const double *F, const int32_t *y, const double *weight,
                                int blocks, int64_t from, int64_t to, double shift, float *G, double *sums) {
        PMB_VR(lanes, pmb_vr_gradient_, loss, F, y, weight, blocks, from, to, shift, G, sums);
    }
    static void pmb_vr_quantise(int lanes, const float *G, const double *weight, int blocks, int K, int64_t m,
                                int64_t from, int64_t to, double scale, double units, int32_t *A) {
        PMB_VR(lanes, pmb_vr_quantise_, G, weight, blocks, K, m, from, to, scale, units, A);
    }
    static void pmb_vr_leaf(int lanes, const float *G, const double *weight, int blocks, const int32_t *rows,
                            int64_t n, double *out) {
        PMB_VR(lanes, pmb_vr_leaf_, G, weight, blocks, rows, n, out);
    }
    static void pmb_vr_project(int lanes, const float *G, int64_t width, const float *P, int K, const double *weight,
                               int blocks, int64_t from, int64_t to, float *out, double *sums) {
        PMB_VR(lanes, pmb_vr_project_, G, width, P, K, weight, blocks, from, to, out, sums);
    }
    static void pmb_vr_square(int lanes, const float *G, const double *weight, int blocks, int64_t from, int64_t to,
                              double *out) {
        PMB_VR(lanes, pmb_vr_square_, G, weight, blocks, from, to, out);
    }
    static void pmb_vr_pairs(int lanes, const float *G, const double *weight, const int32_t *y, int blocks,
                             const int32_t *rows, int64_t n, double *out) {
        PMB_VR(lanes, pmb_vr_pairs_, G, weight, y, blocks, rows, n, out);
    }
    static void pmb_vr_hessian(int lanes, const float *G, const double *weight, const int32_t *y, int blocks, int K,
                               const int32_t *rows, int64_t n, double *p, double *out) {
        PMB_VR(lanes, pmb_vr_hessian_, G, weight, y, blocks, K, rows, n, p, out);
    }
    """
    double pmb_sum(const double *v, int64_t n)
    void pmb_vr_copy(const double *frm, int64_t from_width, double *to, int64_t to_width, int64_t count, int64_t n)
    void pmb_vr_add(int lanes, double *F, const double *V, const int32_t *leaf, const int32_t *y, int blocks,
                    int64_t start, int64_t stop, double *largest)
    void pmb_vr_gradient(int lanes, int loss, const double *F, const int32_t *y, const double *weight, int blocks,
                         int64_t start, int64_t stop, double shift, float *G, double *sums)
    void pmb_vr_quantise(int lanes, const float *G, const double *weight, int blocks, int K, int64_t m, int64_t start,
                         int64_t stop, double scale, double units, int32_t *A)
    void pmb_vr_leaf(int lanes, const float *G, const double *weight, int blocks, const int32_t *rows, int64_t n,
                     double *out)
    void pmb_vr_project(int lanes, const float *G, int64_t width, const float *P, int K, const double *weight, int blocks,
                        int64_t start, int64_t stop, float *out, double *sums)
    void pmb_vr_square(int lanes, const float *G, const double *weight, int blocks, int64_t start, int64_t stop,
                       double *out)
    void pmb_vr_pairs(int lanes, const float *G, const double *weight, const int32_t *y, int blocks,
                      const int32_t *rows, int64_t n, double *out)
    void pmb_vr_hessian(int lanes, const float *G, const double *weight, const int32_t *y, int blocks, int K,
                        const int32_t *rows, int64_t n, double *p, double *out)

cdef enum:
    BLOCK_ROWS = 4096
    FEW_ROWS = 256
    SKIP_ROWS = 4096    # in data of at least so many rows, large nodes count only the rows outside the usual code

LOSS_CODES = {"softmax": PMB_SOFTMAX, "exp": PMB_EXP, "log": PMB_LOG}


cdef const double *or_null(const double[::1] weight) noexcept:
    return &weight[0] if weight.shape[0] else NULL


cdef const void *address(array):
    """Where the array's numbers are; the caller keeps it alive."""
    cdef const uint8_t[::1] view
    if array is None or array.size == 0:
        return NULL
    view = array.reshape(-1).view(np.uint8)
    return <const void *> &view[0]


cdef pmb_columns columns_of(data):
    """Where `Columns` are, which the caller keeps alive."""
    cdef pmb_columns c
    c.m, c.n_lanes, c.n_features, c.code_bytes = data.n_rows, data.n_lanes, len(data.column), data.code_bytes
    c.codes = address(data.codes)
    c.column, c.lane = <const int32_t *> address(data.column), <const int32_t *> address(data.lane)
    c.cell0, c.n_bins = <const int32_t *> address(data.cell0), <const int32_t *> address(data.n_bins)
    c.has_missing, c.mode = <const int32_t *> address(data.has_missing), <const int32_t *> address(data.mode)
    c.lane_ptr = <const int32_t *> address(data.lane_ptr)
    c.lane_feature = <const int32_t *> address(data.lane_feature)
    c.lane_cells = <const int32_t *> address(data.lane_cells)
    return c


def _others(data):
    """Lanes with a code that most rows have: that code (-1: none), and the bits of the rows with other codes."""
    cdef const uint8_t[:, ::1] codes
    cdef uint64_t[:, ::1] bits
    cdef int64_t lane, m = data.n_rows
    skip = np.full(data.n_lanes, -1, dtype=np.int32)
    if data.code_bytes > 1 or m < SKIP_ROWS:
        return skip, None
    others = np.zeros((data.n_lanes, (m + 63) // 64), dtype=np.uint64)
    codes, bits = data.codes, others
    for lane in range(data.n_lanes):
        if data.lane_cells[lane]:
            usual = np.bincount(data.codes[lane]).argmax()
            if 2 * pmb_vt_others(&codes[lane, 0], m, usual, &bits[lane, 0]) <= m:
                skip[lane] = usual
    return skip, others if (skip >= 0).any() else None


cdef class Grower:
    """Grows trees on `Columns`, one after the other.

    Parameters
    ----------
    data : Columns
    n_classes, lanes, blocks : of the gradient
    max_leaves, max_depth : max_depth 0: no bound
    least : least weight in a leaf, in the units of the gradient's weight lane
    take : features searched at every node
    pool : features of a tree, which its nodes draw from
    share : probability of a row to be among those that a tree is grown on
    middle : whether thresholds lie in the middle of the bins that are empty in a node, or directly above the left rows
    min_share : nodes are split only above this share of the root's weight
    """

    cdef pmb_vectors w
    cdef object kept, rows, leaf_of_row

    def __cinit__(self, data, int n_classes, int lanes, int blocks, int max_leaves, int max_depth, int64_t least,
                  int take, bint middle, int n_threads, double min_share=0, double share=1, pool=None):
        cdef pmb_vectors *w = &self.w
        w.d.c = columns_of(data)
        w.d.n_classes, w.d.lanes, w.d.blocks = n_classes, lanes, blocks
        w.d.max_cells = (int(data.lane_cells.max(initial=0)) + 63) // 64 * 64
        entries, cells = data.by_cell()
        if data.n_lanes and len(entries):
            raise ValueError("columns have codes or sparse entries, not some of them one and some the other")
        sizes = np.where(data.lane < 0, data.n_bins + data.has_missing, 0)
        cell_feature = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        skip, others = _others(data)
        self.kept = data, entries, cells, cell_feature, skip, others
        w.d.row_ptr = <const int64_t *> address(data.row_ptr)
        w.d.cell_feature = <const int32_t *> address(cell_feature)
        w.d.skip, w.d.others = <const int32_t *> address(skip), <const uint64_t *> address(others)
        w.all_entries, w.all_cells = <const int32_t *> address(entries), <const pmb_vt_cell *> address(cells)
        w.n_entries, w.n_used_cells = len(entries), len(cells)
        w.o.take, w.o.middle, w.o.threads, w.o.least, w.o.min_share = take, middle, n_threads, least, min_share
        w.o.share, w.o.pool = share, len(data.column) if pool is None else pool
        self.rows = np.zeros(data.n_rows + PMB_VT_FAR, dtype=np.int32)
        w.g.rows = <int32_t *> address(self.rows)
        if not pmb_vectors_new(w, max_leaves, max_depth, sizes.max(initial=0)):
            raise MemoryError("no memory for growing trees; use fewer threads, bins or leaves")
        self.leaf_of_row = np.empty(data.n_rows, dtype=np.int32)

    def __dealloc__(self):
        pmb_vectors_free(&self.w)

    def grow(self, const int32_t[:, :, ::1] A not None, key, double min_gain=0):
        """Grow one tree on integer gradients A (blocks, m, lanes), by splits of more than the least gain.

        Returns
        -------
        feature, pos, nan_left, right : ndarray (n_splits,)
            In preorder; ``right`` as in `Trees`.
        gain : ndarray (n_splits,)
        rows : ndarray of int32 (m,)
            The rows of leaf after leaf, ascending in each, drawn or not. Valid until the next tree.
        leaf_start : ndarray of int64 (n_splits + 2,)
        leaf : ndarray of int32 (m,)
            Leaf of every row. Valid until the next tree.
        """
        cdef const int32_t *data = &A[0, 0, 0]
        cdef uint64_t root_key = key
        cdef int32_t n_splits, j
        cdef const pmb_node *node
        if <size_t> data % 64:
            raise ValueError("A must start on a 64-byte boundary; make it with aligned_zeros")
        self.w.g.min_gain = min_gain
        with nogil:
            n_splits = pmb_vt_grow(&self.w, data, root_key)
        cdef int32_t[:, ::1] lists = np.empty((3, 2 * n_splits + 2), dtype=np.int32)
        right = np.empty(n_splits + 1, dtype=np.int32)
        leaf_start = np.empty(n_splits + 2, dtype=np.int64)
        cdef int32_t[::1] to_right = right, leaf = self.leaf_of_row
        cdef int64_t[::1] starts = leaf_start
        with nogil:
            pmb_preorder(self.w.g.nodes, &lists[0, 0], &lists[1, 0], &to_right[0], &lists[2, 0])
            pmb_vt_leaves(&self.w, &lists[2, 0], n_splits + 1, &starts[0], &leaf[0])
        splits = np.empty((3, n_splits), dtype=np.int32)
        gain = np.empty(n_splits)
        cdef int32_t[:, ::1] to = splits
        cdef double[::1] to_gain = gain
        for j in range(n_splits):
            node = &self.w.g.nodes[lists[1, j]]
            to[0, j], to[1, j], to[2, j], to_gain[j] = node.feature, node.pos, node.nan_left, node.gain
        rows = self.rows[: leaf.shape[0]]
        return splits[0], splits[1], splits[2] > 0, right[:n_splits], gain, rows, leaf_start, self.leaf_of_row


def round_key(uint32_t seed, uint32_t n):
    """The 64 bits that decide about the draws of round ``n``: ``PCG64([seed, n]).random_raw()`` in a tenth of a us."""
    return pmb_round_key(seed, n)


def _scratch(stored, width, rows, n_threads):
    """Rows of scores with unused lanes, for each thread; none where scores are stored with them."""
    if stored == width:
        return np.empty((n_threads, 1))
    scratch = aligned_zeros((n_threads, rows * width), np.float64)
    scratch.fill(-1e30)
    return scratch


def add_leaves(double[:, ::1] F, V, const int32_t[::1] leaf, const int32_t[::1] y, int lanes, bint largest,
               int n_threads):
    """F += V[leaf], by rows (V None: F stays). With ``largest``, returns the largest F_r - F_y, r != y.

    Parameters
    ----------
    F : INOUT (m, blocks * lanes), or (m, K) without unused lanes
    V : IN (n_leaves, blocks * lanes) or None
    """
    cdef int64_t b, start, m = F.shape[0], stored = F.shape[1], rows = BLOCK_ROWS
    cdef int blocks = <int> ((stored + lanes - 1) // lanes)
    cdef int64_t width = blocks * lanes
    cdef const double[:, ::1] values
    cdef const double *v = NULL
    cdef bint whole = stored == width
    if V is None and not largest:
        return None
    if V is not None:
        values = V
        v = &values[0, 0]
        blocks, width = <int> (values.shape[1] // lanes), values.shape[1]
        whole = stored == width
    if not whole:
        rows = FEW_ROWS
    cdef int64_t n = (m + rows - 1) // rows
    cdef double[:, ::1] scratch = _scratch(stored, width, rows, n_threads)
    cdef double *to
    tops_ = np.empty(n)
    cdef double[::1] tops = tops_
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        start = b * rows
        if whole:
            pmb_vr_add(lanes, &F[0, 0], v, &leaf[0], &y[0], blocks, start, min(m, start + rows),
                       &tops[b] if largest else NULL)
        else:
            to = &scratch[threadid(), 0]
            pmb_vr_copy(&F[start, 0], stored, to, width, stored, min(rows, m - start))
            pmb_vr_add(lanes, to, v, &leaf[start], &y[start], blocks, 0, min(rows, m - start),
                       &tops[b] if largest else NULL)
            pmb_vr_copy(to, width, &F[start, 0], stored, stored, min(rows, m - start))
    return float(tops_.max()) if largest else None


def gradient(double[:, ::1] F, V, const int32_t[::1] leaf, const int32_t[::1] y, const double[::1] weight, int loss,
             double shift, int lanes, float[:, ::1] G, int n_threads):
    """F += V[leaf], by rows (V None: F stays), and the negative gradients; returns the sums of w |g| by lane.

    Parameters
    ----------
    F : INOUT (m, blocks * lanes) scores, -1e30 in unused lanes, or (m, K) without these
    V : IN (n_leaves, blocks * lanes) or None
    weight : IN (m,), or empty for weights of 1
    loss : of LOSS_CODES; shift : what is taken off the exponents of the exponential loss
    G : OUT (m, blocks * lanes)
    """
    cdef int64_t b, start, stop, m = F.shape[0], stored = F.shape[1], width = G.shape[1], rows = BLOCK_ROWS
    cdef int blocks = <int> (width // lanes)
    cdef bint whole = stored == width
    cdef const double *w = or_null(weight)
    cdef const double[:, ::1] values
    cdef const double *v = NULL
    if V is not None:
        values = V
        v = &values[0, 0]
    cdef int64_t n = (m + rows - 1) // rows
    cdef double[:, ::1] scratch = _scratch(stored, width, rows, n_threads)
    cdef double *to
    sums_ = np.empty((n, width))
    cdef double[:, ::1] sums = sums_
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        start, stop = b * rows, min(m, (b + 1) * rows)
        if whole:
            if v != NULL:
                pmb_vr_add(lanes, &F[0, 0], v, &leaf[0], &y[0], blocks, start, stop, NULL)
            pmb_vr_gradient(lanes, loss, &F[0, 0], &y[0], w, blocks, start, stop, shift, &G[0, 0], &sums[b, 0])
        else:
            to = &scratch[threadid(), 0]
            pmb_vr_copy(&F[start, 0], stored, to, width, stored, stop - start)
            if v != NULL:
                pmb_vr_add(lanes, to, v, &leaf[start], &y[start], blocks, 0, stop - start, NULL)
                pmb_vr_copy(to, width, &F[start, 0], stored, stored, stop - start)
            pmb_vr_gradient(lanes, loss, to, &y[start], w + start if w != NULL else NULL, blocks, 0, stop - start,
                            shift, &G[start, 0], &sums[b, 0])
    return sums_.sum(axis=0)


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


def project(const float[:, ::1] G, const float[:, ::1] P, const double[::1] weight, int lanes, float[:, ::1] out,
            int n_threads):
    """out = G P; returns the sums of w |out| by lane.

    Parameters
    ----------
    G : IN (m, at least K); P : IN (K, blocks * lanes), 0 in unused lanes; out : OUT (m, blocks * lanes)
    """
    cdef int64_t b, m = G.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef const double *w = or_null(weight)
    sums_ = np.empty((n, out.shape[1]))
    cdef double[:, ::1] sums = sums_
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_project(lanes, &G[0, 0], G.shape[1], &P[0, 0], <int> P.shape[0], w, <int> out.shape[1] // lanes,
                       b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS), &out[0, 0], &sums[b, 0])
    return sums_.sum(axis=0)


def sum_of_squares(const float[:, ::1] G, const double[::1] weight, int lanes, int n_threads):
    """Sum of w g^2 over rows and lanes, the same for any number of threads.

    Parameters
    ----------
    G : IN (m, blocks * lanes)
    """
    cdef int64_t b, m = G.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef int blocks = <int> G.shape[1] // lanes
    cdef const double *w = or_null(weight)
    cdef double all_rows
    cdef double[::1] parts
    if n == 1:
        pmb_vr_square(lanes, &G[0, 0], w, blocks, 0, m, &all_rows)
        return all_rows
    parts = np.empty(n)
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_square(lanes, &G[0, 0], w, blocks, b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS), &parts[b])
    return pmb_sum(&parts[0], n)


def leaf_sums(const float[:, ::1] G, const double[::1] weight, int lanes, const int32_t[::1] rows,
              const int64_t[::1] leaf_start, int n_threads):
    """Sums of w g and of w |g| (1 - |g|) over the rows of every leaf: (n_leaves, 2, blocks * lanes)."""
    cdef int64_t j, n = leaf_start.shape[0] - 1
    cdef int blocks = <int> G.shape[1] // lanes
    cdef const double *w = or_null(weight)
    out_ = np.zeros((n, 2, G.shape[1]))
    cdef double[:, :, ::1] out = out_
    for j in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic"):
        pmb_vr_leaf(lanes, &G[0, 0], w, blocks, &rows[leaf_start[j]], leaf_start[j + 1] - leaf_start[j],
                    &out[j, 0, 0])
    return out_


def leaf_values(const double[:, ::1] step, double largest, double rate, int width):
    """Leaf vectors of the steps (n_leaves, K): cut at +-largest, less their mean, times the rate, as float32.

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
        mean = pmb_sum(&value[j, 0], K) / K
        for k in range(K):
            value[j, k] = <float> ((value[j, k] - mean) * rate)
    return value_


def leaf_pairs(const float[:, ::1] G, const double[::1] weight, const int32_t[::1] y, int n_classes, int lanes,
               const int32_t[::1] rows, int64_t start, int64_t stop):
    """As `leaf_sums` for one leaf, by class of the rows (sorted): (n_classes, 2, blocks * lanes)."""
    out_ = np.zeros((n_classes, 2, G.shape[1]))
    cdef const double *w = or_null(weight)
    cdef double[:, :, ::1] out = out_
    with nogil:
        pmb_vr_pairs(lanes, &G[0, 0], w, &y[0], <int> G.shape[1] // lanes,
                     &rows[start], stop - start, &out[0, 0, 0])
    return out_


def leaf_hessian(const float[:, ::1] G, const double[::1] weight, const int32_t[::1] y, int n_classes, int lanes,
                 const int32_t[::1] rows, int64_t start, int64_t stop):
    """Sum of w (diag p - p p^T) over the rows of one leaf, p of softmax: (n_classes, blocks * lanes)."""
    out_ = np.zeros((n_classes, G.shape[1]))
    p_ = np.empty(G.shape[1])
    cdef double[:, ::1] out = out_
    cdef double[::1] p = p_
    cdef const double *w = or_null(weight)
    with nogil:
        pmb_vr_hessian(lanes, &G[0, 0], w, &y[0],
                       <int> G.shape[1] // lanes, n_classes, &rows[start], stop - start, &p[0], &out[0, 0])
    return out_
