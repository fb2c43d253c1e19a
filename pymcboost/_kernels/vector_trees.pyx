# cython: language_level=3
"""Trees whose leaves are vectors, one per class: growing them on integer gradients.

A `Grower` splits nodes best-first so that sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T) is largest. All sums are
sums of integers; every node's random features depend on the tree's key and the node's path from the root alone; nodes
may be split ahead of their turn by several threads, but a tree keeps only those that best-first order reaches. So
nothing depends on the number of threads. Ties (within a relative 1e-10) go to the lower column, then the lower
threshold, then missing values right; among leaves, the one made first is split first.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from pymcboost._kernels.columns cimport address, columns_of, pmb_columns
from pymcboost._kernels.pool cimport pmb_pool_calls, the_pool
from pymcboost._kernels.workers cimport Workers, pmb_workers

cdef extern from "vector_trees.h" nogil:
    enum:
        PMB_VT_FAR
        PMB_GROUP
        PMB_VT_FEW
        PMB_VT_SHARE
        PMB_VT_PIECES
    ctypedef int32_t pmb_sum  # or int64_t
    ctypedef struct pmb_node:
        int32_t feature, pos, nan_left
        double gain
        const uint64_t *set
    ctypedef struct pmb_grower:
        double min_gain
        pmb_node *nodes
        int32_t *rows
    ctypedef struct pmb_vt_cell:
        pass
    ctypedef struct pmb_vt_data:
        pmb_columns columns
        int32_t n_classes, lanes, blocks, max_cells
        const int64_t *row_ptr
        const int32_t *row_cell
        int32_t most_cell
        const int32_t *cell_feature
        const int32_t *usual_code
        const uint64_t *unusual_rows
        const int32_t *set_start
        int32_t set_words, most_words, most_levels
        int64_t most_kept_cells
        const int64_t *least_level
        const int64_t *whole_level
        double level_cost, row_error, rows_per_weight
        const double *gain_factor
        const uint8_t *used_threshold
        const int64_t *used_start
        double new_threshold_factor
    ctypedef struct pmb_vt_options:
        int32_t n_drawn, threads
        int64_t least_weight
        double min_share, share
        int32_t n_tree_features
    ctypedef struct pmb_vt_state:
        pmb_grower grower
        pmb_vt_data data
        pmb_vt_options options
        const pmb_pool_calls *threads
        const uint64_t *groups
        pmb_workers *workers
        const int64_t *row_number
        const int32_t *all_entries
        const pmb_vt_cell *all_cells
        int64_t n_entries, n_used_cells
        pmb_columns moved
        int32_t *moved_A
        int32_t *origin
    int64_t pmb_vt_others(const uint8_t *codes, int64_t m, int code, uint64_t *bits)
    int pmb_vt_state_new(pmb_vt_state *w, int32_t max_leaves, int32_t max_depth, int64_t most_sparse_cells)
    void pmb_vt_state_free(pmb_vt_state *w)
    int32_t pmb_vt_grow(pmb_vt_state *w, const int32_t *A, uint64_t key)
    void pmb_vt_leaves(pmb_vt_state *w, const int32_t *leaf_node, int32_t n_leaves, int64_t *leaf_start,
                       int32_t *leaf_of_row)
    int32_t pmb_prune(pmb_grower *g, double least_mean_gain)
    int pmb_preorder(const pmb_node *nodes, int32_t *stack, int32_t *order, int32_t *right, int32_t *leaf_node)

cdef extern from "round_key.h" nogil:
    uint64_t pmb_round_key(uint32_t seed, uint32_t n)

# Number of columns whose histograms are filled together. Sparse features are looked up if at most 1 in FEW is searched.
GROUP, FEW = PMB_GROUP, PMB_VT_FEW
# Minimum number of rows for which threads fill the histograms of a node together, and sums of shares for each thread.
SHARED_ROWS, SUMS = 2 * PMB_VT_SHARE, PMB_VT_PIECES

cdef enum:
    SKIP_ROWS = 4096    # in data of at least so many rows, large nodes count only the rows outside the usual code


def _usual_codes(data, bint divided):
    """Lanes with a code that most rows have: that code (-1: none), and the bits of the rows with other codes."""
    cdef const uint8_t[:, ::1] codes
    cdef uint64_t[:, ::1] bits
    cdef int64_t lane, m = data.n_rows
    usual_code = np.full(data.n_lanes, -1, dtype=np.int32)
    if data.code_bytes > 1 or m < SKIP_ROWS or divided:
        return usual_code, None
    unusual_rows = data.zeros((data.n_lanes, (m + 63) // 64), np.uint64)
    whole = {int(data.lane[f]) for f in data.levels}  # all levels of a category are counted
    codes = data.codes
    bits = unusual_rows
    for lane in range(data.n_lanes):
        if data.lane_cells[lane] and lane not in whole:
            usual = np.bincount(data.codes[lane]).argmax()
            if 2 * pmb_vt_others(&codes[lane, 0], m, usual, &bits[lane, 0]) <= m:
                usual_code[lane] = usual
    return usual_code, unusual_rows if (usual_code >= 0).any() else None


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
    min_share : nodes are split only above this share of the root's weight
    groups : uint64 (features,) or None; the features of a path have a bit in common
    least_levels : by categorical feature, (2, levels): weights in a node below which they go together, and are in parts
    row_number : int64 (m,) or None; what draws of rows go by, their places by default
    comm : communicator of the workers among which the rows are divided, or None
    """

    cdef pmb_vt_state w
    cdef Workers workers
    cdef object kept, rows, leaf_of_row, set_start, least, paid, places

    def __cinit__(self, data, int n_classes, int lanes, int blocks, int max_leaves, int max_depth, int64_t least,
                  int take, int n_threads, double min_share=0, double share=1, pool=None,
                  groups=None, least_levels=None, row_number=None, comm=None):
        cdef pmb_vt_state *w = &self.w
        w.threads = the_pool()
        w.data.columns = columns_of(data)
        w.data.n_classes, w.data.lanes, w.data.blocks = n_classes, lanes, blocks
        w.data.max_cells = (int(data.lane_cells.max(initial=0)) + 63) // 64 * 64
        cell_ptr, entries = data.by_cell()
        used = np.flatnonzero(np.diff(cell_ptr))
        cells = np.column_stack((used, np.diff(cell_ptr)[used])).astype(np.int32)
        if data.n_lanes and len(entries):
            raise ValueError("columns have codes or sparse entries, not some of them one and some the other")
        if comm is not None:
            self.workers = Workers(comm)
            w.workers = &self.workers.calls
        sizes = np.where(data.lane < 0, data.n_bins + data.has_missing, 0)
        cell_feature = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        usual_code, unusual_rows = _usual_codes(data, comm is not None)
        self.kept = data, entries, cells, cell_feature, usual_code, unusual_rows, groups, row_number
        w.row_number = <const int64_t *> address(row_number)
        w.groups = <const uint64_t *> address(groups)
        w.data.row_ptr = <const int64_t *> address(data.row_ptr)
        w.data.row_cell = <const int32_t *> address(data.row_cell)
        w.data.most_cell = len(cell_feature) - 1
        w.data.cell_feature = <const int32_t *> address(cell_feature)
        w.data.usual_code = <const int32_t *> address(usual_code)
        w.data.unusual_rows = <const uint64_t *> address(unusual_rows)
        w.all_entries, w.all_cells = <const int32_t *> address(entries), <const pmb_vt_cell *> address(cells)
        w.n_entries, w.n_used_cells = len(entries), len(cells)
        w.options.n_drawn = take
        w.options.threads = n_threads
        w.options.least_weight = least
        w.options.min_share = min_share
        self.set_sets(data, least_levels)
        w.options.share = share
        w.options.n_tree_features = len(data.column) if pool is None else pool
        self.rows = np.zeros(data.n_rows + PMB_VT_FAR, dtype=np.int32)
        w.grower.rows = <int32_t *> address(self.rows)
        self.move(data.places(take, max_leaves, lanes * blocks) if unusual_rows is None else None)
        if not pmb_vt_state_new(w, max_leaves, max_depth, sizes.max(initial=0)):
            raise MemoryError("no memory for growing trees; use fewer threads, bins or leaves")
        self.leaf_of_row = np.empty(data.n_rows, dtype=np.int32)

    def __dealloc__(self):
        pmb_vt_state_free(&self.w)

    cdef move(self, places):
        """Copy rows of small nodes to ``places``, see `Columns.places`."""
        if places is not None:
            self.places = codes, gradient, origin = places
            self.w.moved, self.w.moved.codes = self.w.data.columns, address(codes)
            self.w.moved_A, self.w.origin = <int32_t *> address(gradient), <int32_t *> address(origin)

    cdef set_sets(self, data, least_levels):
        """Allocate room for the levels of categorical features."""
        cdef pmb_vt_data *d = &self.w.data
        self.set_start, d.set_words, d.most_words, d.most_levels, self.least = data.sets(least_levels)
        d.most_kept_cells = data.most_level_cells(PMB_GROUP) * d.blocks if d.blocks > 1 else 0
        d.set_start = <const int32_t *> address(self.set_start)
        if self.least is not None:
            d.least_level = <const int64_t *> address(self.least[0])
            d.whole_level = <const int64_t *> address(self.least[1])

    def pay(self, worth, used, used_start, double new_worth):
        """Multiply gains by ``worth`` of the feature, and by ``new_worth`` at thresholds that are not marked as used.

        worth : ndarray of float64 (features,)
        used : ndarray of uint8 (thresholds,); read anew for every tree, like ``worth``
        used_start : ndarray of int64 (features,); where the marks of each feature begin
        """
        cdef const double[::1] checked = worth
        cdef const uint8_t[::1] marks = used
        cdef const int64_t[::1] first = used_start
        if not len(checked) == len(first) == self.w.data.columns.n_features or not len(marks):
            raise ValueError("gains are multiplied by a number for each feature, at marks of each threshold")
        self.paid = worth, used, used_start
        self.w.data.gain_factor = <const double *> address(worth)
        self.w.data.used_threshold = <const uint8_t *> address(used)
        self.w.data.used_start = <const int64_t *> address(used_start)
        self.w.data.new_threshold_factor = new_worth

    def grow(self, const int32_t[:, :, ::1] A not None, key, double min_gain=0, double level_cost=0,
             double row_error=0, double rows_per_weight=0, double min_subtree_gain=0):
        """Grow one tree on integer gradients A (blocks, m, lanes), by splits of more than the least gain.

        Sets of levels lose ``level_cost`` for every level in parts but two. Gains that are within the rounding of their
        sums are 0, where the vector of a row is moved by ``row_error`` and the weights of all rows make their number
        times ``rows_per_weight``. Subtrees whose splits gain less than ``min_subtree_gain`` on average become leaves.

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
        sets : dict of int to ndarray of bool
            Bins on the left of the splits of categorical features.
        """
        cdef const int32_t *data = &A[0, 0, 0]
        cdef uint64_t root_key = key
        cdef int32_t n_splits, j
        cdef const pmb_node *node
        if A.shape[1] and <size_t> data % 64:
            raise ValueError("A must start on a 64-byte boundary; make it with aligned_zeros")
        if A.shape[0] != self.w.data.blocks:
            raise ValueError(f"A has {A.shape[0]} blocks of gradients; this grower needs {self.w.data.blocks}")
        self.w.grower.min_gain, self.w.data.level_cost = min_gain, level_cost
        self.w.data.row_error, self.w.data.rows_per_weight = row_error, rows_per_weight
        if self.workers is not None:
            self.workers.begin()
        with nogil:
            n_splits = pmb_vt_grow(&self.w, data, root_key)
            if n_splits and min_subtree_gain > 0:
                n_splits = pmb_prune(&self.w.grower, min_subtree_gain)
        if self.workers is not None:
            self.workers.check()
        cdef int32_t[:, ::1] lists = np.empty((3, 2 * n_splits + 2), dtype=np.int32)
        right = np.empty(n_splits + 1, dtype=np.int32)
        leaf_start = np.empty(n_splits + 2, dtype=np.int64)
        cdef int32_t[::1] to_right = right, leaf = self.leaf_of_row
        cdef int64_t[::1] starts = leaf_start
        with nogil:
            pmb_preorder(self.w.grower.nodes, &lists[0, 0], &lists[1, 0], &to_right[0], &lists[2, 0])
            pmb_vt_leaves(&self.w, &lists[2, 0], n_splits + 1, &starts[0], &leaf[0])
        splits = np.empty((3, n_splits), dtype=np.int32)
        gain = np.empty(n_splits)
        cdef int32_t[:, ::1] to = splits
        cdef double[::1] to_gain = gain
        for j in range(n_splits):
            node = &self.w.grower.nodes[lists[1, j]]
            to[0, j], to[1, j], to[2, j], to_gain[j] = node.feature, node.pos, node.nan_left, node.gain
        rows = self.rows[: leaf.shape[0]]
        return (splits[0], splits[1], splits[2] > 0, right[:n_splits], gain, rows, leaf_start, self.leaf_of_row,
                self.sets_of(splits[0], lists))

    cdef sets_of(self, feature, const int32_t[:, ::1] lists):
        """Bins on the left of the categorical splits among those in preorder."""
        cdef int32_t f, n_bins
        cdef const uint64_t *bits
        sets = {}
        if self.set_start is None:
            return sets
        for j in np.flatnonzero(self.set_start[feature] >= 0).tolist():
            f = feature[j]
            bits = self.w.grower.nodes[lists[1, j]].set
            n_bins = self.w.data.columns.n_bins[f]
            words = np.array([bits[w] for w in range((n_bins + 63) // 64)], dtype="<u8")
            sets[j] = np.unpackbits(words.view(np.uint8), bitorder="little")[:n_bins].astype(bool)
        return sets


def round_key(uint32_t seed, uint32_t n):
    """The 64 bits that decide about the draws of round ``n``: ``PCG64([seed, n]).random_raw()`` in a tenth of a us."""
    return pmb_round_key(seed, n)
