# cython: language_level=3
"""Trees whose leaves are vectors, one per class: growing them on integer gradients, and row-major losses.

A `Grower` splits nodes best-first so that sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T) is largest. All sums are
sums of integers; every node's random features depend on the tree's key and the node's path from the root alone; nodes
may be split ahead of their turn by several threads, but a tree keeps only those that best-first order reaches. So
nothing depends on the number of threads. Ties (within a relative 1e-10) go to the lower column, then the lower
threshold, then missing values right; among leaves, the one made first is split first.
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from .aligned import aligned_zeros

import numpy as np

cdef extern from "vtrees.h" nogil:
    enum:
        PMB_GROUP
        PMB_VT_CELLS
        PMB_VT_CHUNK
    ctypedef struct pmb_vt_cell:
        int32_t cell, count
    ctypedef struct pmb_vt_data:
        int64_t m
        int32_t n_lanes, n_features, code_bytes, n_classes, lanes, blocks, max_cells
        const void *codes
        const int32_t *lane
        const int32_t *cell0
        const int32_t *n_bins
        const int32_t *has_missing
        const int32_t *mode
        const int32_t *lane_ptr
        const int32_t *lane_feature
        const int32_t *lane_cells
        const int64_t *row_ptr
        const int32_t *cell_feature
        const int32_t *skip
        const uint64_t *others
    ctypedef struct pmb_vt_node:
        int64_t start, n, weight, first_entry, n_entries, n_cells
        const int32_t *entries
        const pmb_vt_cell *cells
        uint64_t key
        double gain
        int32_t depth, left, right, feature, pos, nan_left, is_split
    ctypedef struct pmb_vt_scratch:
        pass
    uint64_t pmb_vt_child_key(uint64_t key, int right)
    void pmb_vt_sample(uint64_t key, int32_t n, int32_t take, uint8_t *chosen)
    void pmb_vt_gather(const pmb_vt_data *d, const int32_t *A, const int32_t *rows, int64_t start, int64_t n,
                       int32_t *out, int32_t *totals)
    void pmb_vt_totals(const pmb_vt_data *d, const int32_t *A, int32_t *totals)
    void pmb_vt_search(const pmb_vt_data *d, const pmb_vt_node *node, const int32_t *totals,
                       const uint8_t *chosen, const int32_t *group, int n_group, const int32_t *rows, const int32_t *A,
                       const uint64_t *in_node, const int32_t *all_A, int64_t least, int middle,
                       pmb_vt_scratch *s, double *score, int32_t *code)
    void pmb_vt_search_sparse(const pmb_vt_data *d, const pmb_vt_node *node, const int32_t *totals,
                              const uint8_t *chosen, int64_t start, int64_t stop, int64_t entry, const int32_t *A,
                              int64_t least, int middle, pmb_vt_scratch *s, double *score, int32_t *code)
    void pmb_vt_mark(const int32_t *rows, int64_t n, int64_t m, uint64_t *bits)
    int64_t pmb_vt_others(const uint8_t *codes, int64_t m, int code, uint64_t *bits)
    void pmb_vt_choose(const pmb_vt_data *d, const double *score, const int32_t *code, pmb_vt_node *node)
    int64_t pmb_vt_partition(const pmb_vt_data *d, const pmb_vt_node *node, int32_t *rows, int32_t *spare,
                             uint8_t *side, uint8_t *row_side)
    void pmb_vt_part_entries(const pmb_vt_data *d, const pmb_vt_node *node, const int32_t *left_rows,
                             const uint8_t *row_side, int32_t *entries, pmb_vt_cell *cells, pmb_vt_node *left,
                             pmb_vt_node *right)
    void pmb_vt_merge(int32_t *rows, int64_t n_left, int64_t n, int32_t *spare)
    void pmb_vt_scratch_free(pmb_vt_scratch *s)
    int pmb_vt_scratch_new(pmb_vt_scratch *s, int64_t cells, int64_t n_features, int32_t *hist)

cdef extern from "vrows.h" nogil:
    enum:
        PMB_SOFTMAX
        PMB_EXP
        PMB_LOG

cdef extern from * nogil:
    """
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
    static void pmb_vr_pairs(int lanes, const float *G, const double *weight, const int32_t *y, int blocks,
                             const int32_t *rows, int64_t n, double *out) {
        PMB_VR(lanes, pmb_vr_pairs_, G, weight, y, blocks, rows, n, out);
    }
    static void pmb_vr_hessian(int lanes, const float *G, const double *weight, const int32_t *y, int blocks, int K,
                               const int32_t *rows, int64_t n, double *p, double *out) {
        PMB_VR(lanes, pmb_vr_hessian_, G, weight, y, blocks, K, rows, n, p, out);
    }
    """
    void pmb_vr_add(int lanes, double *F, const double *V, const int32_t *leaf, const int32_t *y, int blocks,
                    int64_t start, int64_t stop, double *largest)
    void pmb_vr_gradient(int lanes, int loss, const double *F, const int32_t *y, const double *weight, int blocks,
                         int64_t start, int64_t stop, double shift, float *G, double *sums)
    void pmb_vr_quantise(int lanes, const float *G, const double *weight, int blocks, int K, int64_t m, int64_t start,
                         int64_t stop, double scale, double units, int32_t *A)
    void pmb_vr_leaf(int lanes, const float *G, const double *weight, int blocks, const int32_t *rows, int64_t n,
                     double *out)
    void pmb_vr_pairs(int lanes, const float *G, const double *weight, const int32_t *y, int blocks,
                      const int32_t *rows, int64_t n, double *out)
    void pmb_vr_hessian(int lanes, const float *G, const double *weight, const int32_t *y, int blocks, int K,
                        const int32_t *rows, int64_t n, double *p, double *out)

cdef enum:
    BATCH = 16          # most nodes split side by side
    SHARED_WORK = 60000  # updates of histogram rows below which starting threads costs more than it saves
    BLOCK_ROWS = 4096
    SKIP_ROWS = 4096    # in data of at least so many rows, large nodes count only the rows outside the usual code

LOSS_CODES = {"softmax": PMB_SOFTMAX, "exp": PMB_EXP, "log": PMB_LOG}


cdef const double *or_null(const double[::1] weight) noexcept:
    return &weight[0] if weight.shape[0] else NULL


cdef class Grower:
    """Grows trees on binned columns (see `TreeData`), one after the other.

    Parameters
    ----------
    codes : IN (n_lanes, m) uint8 or uint16
    lane, cell0, n_bins, has_missing, mode : IN (n_features,) int32
    lane_ptr, lane_feature : IN int32
    row_ptr, entries, cells : IN sparse entries, see `TreeData.by_cell`, all empty if there are none; n_sparse_cells
    n_classes, lanes, blocks : of the gradient
    max_leaves, max_depth : max_depth 0: no bound
    least : least weight in a leaf, in the units of the gradient's weight lane
    take : features searched at every node
    middle : whether thresholds lie in the middle of the bins that are empty in a node, or directly above the left rows
    min_share : nodes are split only above this share of the root's weight
    """

    cdef pmb_vt_data d
    cdef pmb_vt_node *nodes
    cdef pmb_vt_scratch *scratch
    cdef int32_t max_leaves, max_depth, take, n_threads, n_nodes, room, entries_of_row
    cdef int64_t least
    cdef double min_share
    cdef bint middle
    cdef object kept
    cdef int32_t[::1] rows, spare, totals, open_, leaf_of_row
    cdef int32_t[:, :, ::1] gathered
    cdef uint8_t[:, ::1] chosen
    cdef uint8_t[:, ::1] side
    cdef double[:, ::1] score
    cdef int32_t[:, ::1] codes_found, lanes_used
    cdef int32_t[::1] task_child, task_first, n_used
    cdef uint64_t[:, ::1] in_node
    cdef uint8_t[::1] marked, row_side
    cdef const int32_t[::1] all_entries
    cdef const int32_t[:, ::1] all_cells
    cdef int32_t[:, ::1] entries
    cdef int32_t[:, :, ::1] cells
    cdef int64_t n_entries, n_used_cells
    cdef int64_t[::1] task_entry
    cdef const int32_t *all_A

    def __cinit__(self, codes, const int32_t[::1] lane, const int32_t[::1] cell0, const int32_t[::1] n_bins,
                  const int32_t[::1] has_missing, const int32_t[::1] mode, const int32_t[::1] lane_ptr,
                  const int32_t[::1] lane_feature, const int64_t[::1] row_ptr, const int32_t[::1] entries,
                  const int32_t[:, ::1] cells, int64_t n_sparse_cells, int n_classes, int lanes, int blocks,
                  int max_leaves, int max_depth, int64_t least, int take, bint middle, int n_threads,
                  double min_share=0):
        cdef const uint8_t[:, ::1] codes8
        cdef const int32_t[::1] words_
        cdef int64_t n_lanes = codes.shape[0], m = codes.shape[1], cap
        cdef pmb_vt_data *d = &self.d
        n_features = lane.shape[0]
        lane_cells = np.zeros(n_lanes + 1, dtype=np.int32)
        ends = np.asarray(cell0) + np.asarray(n_bins) + np.asarray(has_missing)
        dense = np.flatnonzero(np.asarray(lane) >= 0)
        np.maximum.at(lane_cells, np.asarray(lane)[dense], ends[dense])
        sparse = np.flatnonzero(np.asarray(lane) < 0)
        # +1: memoryviews of nothing have no address.
        cell_feature = np.zeros(n_sparse_cells + 1, dtype=np.int32)
        sizes = (ends - np.asarray(cell0))[sparse]
        if len(sparse):
            cell_feature[: n_sparse_cells] = np.repeat(sparse, sizes)
        d.m = m
        d.n_lanes, d.n_features, d.code_bytes = <int32_t> n_lanes, <int32_t> n_features, codes.dtype.itemsize
        d.n_classes, d.lanes, d.blocks = n_classes, lanes, blocks
        d.max_cells = (int(lane_cells.max()) + 63) // 64 * 64
        codes8 = codes.view(np.uint8)
        d.codes = &codes8[0, 0] if n_lanes else NULL
        d.lane, d.cell0, d.n_bins, d.has_missing, d.mode = &lane[0], &cell0[0], &n_bins[0], &has_missing[0], &mode[0]
        d.lane_ptr, d.lane_feature = &lane_ptr[0], &lane_feature[0]
        words_ = lane_cells
        d.lane_cells = &words_[0]
        if row_ptr.shape[0]:
            d.row_ptr = &row_ptr[0]
        # Rows outside the code that most rows of a lane have, as bits.
        words = (m + 63) // 64
        skip_ = np.full(n_lanes + 1, -1, dtype=np.int32)
        others_ = np.zeros((n_lanes if d.code_bytes == 1 and m >= SKIP_ROWS else 0, words), dtype=np.uint64)
        cdef uint64_t[:, ::1] others = others_
        cdef int32_t[::1] skip = skip_
        cdef int64_t lane_
        for lane_ in range(others.shape[0]):
            if lane_ptr[lane_ + 1] > lane_ptr[lane_]:
                skip[lane_] = np.bincount(codes[lane_], minlength=1).argmax()
                if 2 * pmb_vt_others(&codes8[lane_, 0], m, skip[lane_], &others[lane_, 0]) > m:
                    skip[lane_] = -1
        any_skip = bool((skip_ >= 0).any())
        d.skip = &skip[0]
        d.others = &others[0, 0] if any_skip else NULL
        self.in_node = np.zeros((2 * BATCH, words if any_skip else 0), dtype=np.uint64)
        self.marked = np.zeros(2 * BATCH, dtype=np.uint8)
        self.kept = [skip_, others_, codes, lane, cell0, n_bins, has_missing, mode, lane_ptr, lane_feature,
                     row_ptr, lane_cells, cell_feature]
        words_ = cell_feature
        d.cell_feature = &words_[0]
        # Sparse entries by cell, and room for those of the nodes of odd depth, and of even depth.
        self.n_entries, self.n_used_cells = entries.shape[0], cells.shape[0]
        if n_lanes and self.n_entries:
            raise ValueError("columns have codes or sparse entries, not some of them one and some the other")
        self.all_entries, self.all_cells = entries, cells
        self.entries = np.zeros((2, self.n_entries + 1), dtype=np.int32)
        self.cells = np.zeros((2, self.n_entries + 1, 2), dtype=np.int32)
        self.row_side = np.zeros(m if self.n_entries else 1, dtype=np.uint8)
        self.max_leaves, self.max_depth, self.least, self.take = max_leaves, max_depth, least, take
        self.middle, self.n_threads, self.min_share = middle, n_threads, min_share
        self.entries_of_row = <int32_t> (self.n_entries // max(m, 1))
        # Room for as many nodes again that were split ahead in vain.
        self.room = 4 * max_leaves + 4 * BATCH
        self.nodes = <pmb_vt_node *> calloc(self.room, sizeof(pmb_vt_node))
        self.scratch = <pmb_vt_scratch *> calloc(n_threads, sizeof(pmb_vt_scratch))
        if self.nodes == NULL or self.scratch == NULL:
            raise MemoryError()
        cap = max(<int64_t> PMB_GROUP * d.max_cells, PMB_VT_CELLS + int(sizes.max(initial=0)))
        for t in range(n_threads):
            one = aligned_zeros((cap + 1) * lanes, np.int32)
            self.kept.append(one)
            self.rows = one
            if not pmb_vt_scratch_new(&self.scratch[t], cap, n_features, &self.rows[0]):
                raise MemoryError()
        self.rows = np.zeros(m + 16, dtype=np.int32)
        self.spare = np.empty(m, dtype=np.int32)
        self.leaf_of_row = np.empty(m, dtype=np.int32)
        self.gathered = aligned_zeros((blocks, m, lanes), np.int32)
        self.totals = aligned_zeros(self.room * blocks * lanes, np.int32)
        self.chosen = np.empty((2 * BATCH, n_features), dtype=np.uint8)
        self.side = np.empty((BATCH, max(256, int(lane_cells.max()), int((ends - np.asarray(cell0)).max()))),
                             dtype=np.uint8)
        self.score = np.empty((2 * BATCH, n_features), dtype=np.float64)
        self.codes_found = np.empty((2 * BATCH, n_features), dtype=np.int32)
        self.lanes_used = np.empty((2 * BATCH, n_lanes + 1), dtype=np.int32)
        self.n_used = np.empty(2 * BATCH, dtype=np.int32)
        n_tasks = 2 * BATCH * (n_lanes // PMB_GROUP + 2) + self.n_entries // PMB_VT_CHUNK + 1
        self.task_child = np.empty(n_tasks, dtype=np.int32)
        self.task_first = np.empty(n_tasks, dtype=np.int32)
        self.task_entry = np.empty(n_tasks, dtype=np.int64)
        self.open_ = np.empty(max_leaves + 1, dtype=np.int32)

    def __dealloc__(self):
        cdef int t
        if self.scratch != NULL:
            for t in range(self.n_threads):
                pmb_vt_scratch_free(&self.scratch[t])
        free(self.scratch)
        free(self.nodes)

    cdef int32_t *totals_of(self, int32_t node) noexcept nogil:
        return &self.totals[<int64_t> node * self.d.blocks * self.d.lanes]

    cdef bint worth(self, const pmb_vt_node *node) noexcept nogil:
        """Whether a node can have children at all."""
        return node.n > 1 and node.weight >= 2 * self.least and (
            self.max_depth == 0 or node.depth < self.max_depth) and (
            node.weight > self.min_share * self.nodes[0].weight)

    cdef void prepare(self, int32_t place, int32_t at) noexcept nogil:
        """Choose the features of node `at` and list their lanes."""
        cdef pmb_vt_data *d = &self.d
        cdef int32_t lane, j, n = 0
        cdef uint8_t *chosen = &self.chosen[place, 0]
        pmb_vt_sample(self.nodes[at].key, d.n_features, self.take, chosen)
        for lane in range(d.n_lanes):
            for j in range(d.lane_ptr[lane], d.lane_ptr[lane + 1]):
                if chosen[d.lane_feature[j]]:
                    self.lanes_used[place, n] = lane
                    n = n + 1
                    break
        self.n_used[place] = n
        self.marked[place] = 0
        if d.others != NULL and self.nodes[at].n * 64 >= d.m:
            pmb_vt_mark(&self.rows[self.nodes[at].start], self.nodes[at].n, d.m, &self.in_node[place, 0])
            self.marked[place] = 1
        for j in range(d.n_features):
            self.score[place, j] = -1

    cdef void search(self, const int32_t *A, int32_t place, int32_t at, int32_t first, int64_t entry,
                     int thread) noexcept nogil:
        """One task: PMB_GROUP lanes from `first` on, or chunk -1 - first of the sparse cells, from `entry` on."""
        cdef int32_t n_group = min(<int32_t> PMB_GROUP, self.n_used[place] - first)
        cdef int64_t start = <int64_t> PMB_VT_CHUNK * (-1 - first)
        if first < 0:
            pmb_vt_search_sparse(&self.d, &self.nodes[at], self.totals_of(at), &self.chosen[place, 0], start,
                                 start + PMB_VT_CHUNK, entry, self.all_A, self.least, self.middle,
                                 &self.scratch[thread], &self.score[place, 0], &self.codes_found[place, 0])
            return
        pmb_vt_search(&self.d, &self.nodes[at], self.totals_of(at), &self.chosen[place, 0],
                      &self.lanes_used[place, first], n_group, &self.rows[0], A,
                      &self.in_node[place, 0] if self.marked[place] else NULL, self.all_A,
                      self.least, self.middle, &self.scratch[thread], &self.score[place, 0],
                      &self.codes_found[place, 0])

    cdef void evaluate(self, const int32_t *A, const int32_t *children, int32_t n_children, int threads) noexcept nogil:
        """Best splits of prepared nodes."""
        cdef int32_t c, j, t, n_tasks = 0
        cdef int64_t entry, cell
        cdef pmb_vt_node *node
        for c in range(n_children):
            if children[c] < 0:
                continue
            node = &self.nodes[children[c]]
            entry, cell = 0, 0
            for j in range(<int32_t> ((node.n_cells + PMB_VT_CHUNK - 1) // PMB_VT_CHUNK)):
                while cell < <int64_t> PMB_VT_CHUNK * j:
                    entry = entry + node.cells[cell].count
                    cell = cell + 1
                self.task_child[n_tasks] = c
                self.task_first[n_tasks] = -1 - j
                self.task_entry[n_tasks] = entry
                n_tasks = n_tasks + 1
            j = 0
            while j < self.n_used[c]:
                self.task_child[n_tasks] = c
                self.task_first[n_tasks] = j
                n_tasks = n_tasks + 1
                j = j + PMB_GROUP
        if threads == 1:
            for t in range(n_tasks):
                self.search(A, self.task_child[t], children[self.task_child[t]], self.task_first[t],
                            self.task_entry[t], 0)
        else:
            for t in prange(n_tasks, num_threads=threads, schedule="dynamic"):
                self.search(A, self.task_child[t], children[self.task_child[t]], self.task_first[t], self.task_entry[t],
                            threadid())
        for c in range(n_children):
            if children[c] >= 0:
                pmb_vt_choose(&self.d, &self.score[c, 0], &self.codes_found[c, 0], &self.nodes[children[c]])

    cdef void part(self, int32_t place, int32_t at, bint last) noexcept nogil:
        """Rows of a node to its two children, whose places were taken before."""
        cdef pmb_vt_node *node = &self.nodes[at]
        cdef pmb_vt_node *left = &self.nodes[node.left]
        cdef pmb_vt_node *right = &self.nodes[node.right]
        cdef int32_t to = node.depth % 2
        left.n = pmb_vt_partition(&self.d, node, &self.rows[0], &self.spare[0], &self.side[place, 0],
                                  &self.row_side[0])
        left.start = node.start
        right.start = node.start + left.n
        right.n = node.n - left.n
        if node.n_entries and not last:
            pmb_vt_part_entries(&self.d, node, &self.rows[left.start], &self.row_side[0],
                                &self.entries[to, node.first_entry],
                                <pmb_vt_cell *> &self.cells[to, node.first_entry, 0], left, right)

    cdef int32_t collect(self, const int32_t *A, int32_t place, int32_t at) noexcept nogil:
        """Gather a child's gradient rows and choose its features; -1 if it need not be searched."""
        cdef pmb_vt_node *node = &self.nodes[at]
        cdef int32_t *totals = self.totals_of(at)
        pmb_vt_gather(&self.d, A, &self.rows[0], node.start, node.n, &self.gathered[0, 0, 0], totals)
        node.weight = totals[self.d.n_classes]
        if not self.worth(node):
            return -1
        self.prepare(place, at)
        return at

    cdef void split(self, const int32_t *A, const int32_t *batch, int32_t n_batch, bint last) noexcept nogil:
        """Split the nodes of a batch and, unless they are the last of the tree, search their children."""
        cdef int32_t b, c, at, threads = 1
        cdef int32_t[2 * BATCH] children
        cdef int64_t work = 0
        cdef pmb_vt_node *node
        for b in range(n_batch):
            node = &self.nodes[batch[b]]
            work = work + node.n
            for c in range(2):
                at = self.n_nodes
                self.n_nodes = self.n_nodes + 1
                memset(&self.nodes[at], 0, sizeof(pmb_vt_node))
                self.nodes[at].key = pmb_vt_child_key(node.key, c)
                self.nodes[at].depth = node.depth + 1
                self.nodes[at].left = self.nodes[at].right = -1
                self.nodes[at].gain = -1
                if c:
                    node.right = at
                else:
                    node.left = at
                children[2 * b + c] = at
        if work * self.take_work() > SHARED_WORK:
            threads = self.n_threads
        if threads == 1 or n_batch == 1:
            for b in range(n_batch):
                self.part(b, batch[b], last)
        else:
            for b in prange(n_batch, num_threads=threads, schedule="dynamic"):
                self.part(b, batch[b], last)
        if last:
            return
        if threads == 1:
            for c in range(2 * n_batch):
                children[c] = self.collect(A, c, children[c])
        else:
            for c in prange(2 * n_batch, num_threads=threads, schedule="dynamic"):
                children[c] = self.collect(A, c, children[c])
        self.evaluate(&self.gathered[0, 0, 0], children, 2 * n_batch, threads)

    cdef int64_t take_work(self) noexcept nogil:
        """Histogram updates per row of a node."""
        if self.n_entries:
            return (self.entries_of_row + 1) * self.d.blocks
        return <int64_t> self.take * self.d.blocks

    cdef int32_t best_open(self, int32_t n_open, const uint8_t *but) noexcept nogil:
        """The open leaf with the largest gain, the one made first among equals; -1: none can be split."""
        cdef int32_t j, at = -1
        cdef double top = -1
        for j in range(n_open):
            if but != NULL and but[j]:
                continue
            if self.nodes[self.open_[j]].gain > top:
                top = self.nodes[self.open_[j]].gain
                at = j
        return at

    cdef int32_t ahead(self, int32_t n_open, int32_t at, int32_t limit, uint8_t *taken, int32_t *batch) noexcept nogil:
        """The leaf at `at` of the open list and those likely to follow it, all not yet parted: to `batch`."""
        cdef int32_t n = 1, j
        batch[0] = self.open_[at]
        if limit > BATCH:
            limit = BATCH
        memset(taken, 0, n_open)
        taken[at] = 1
        while n < limit:
            j = self.best_open(n_open, taken)
            if j < 0:
                break
            taken[j] = 1
            if self.nodes[self.open_[j]].left < 0:
                batch[n] = self.open_[j]
                n = n + 1
        return n

    cdef int32_t run(self, const int32_t *A, uint64_t key, uint8_t *taken) noexcept nogil:
        """Grow; returns the number of splits."""
        cdef int32_t[BATCH] batch
        cdef int32_t[1] root
        cdef int32_t n_open = 1, n_splits = 0, at, limit, node, left_over, n_batch, b
        cdef int64_t i
        cdef pmb_vt_node *top = &self.nodes[0]
        for i in range(self.d.m):
            self.rows[i] = <int32_t> i
        self.all_A = A
        self.n_nodes = 1
        memset(top, 0, sizeof(pmb_vt_node))
        top.n = self.d.m
        top.key = key
        if self.n_entries:
            top.entries, top.n_entries = &self.all_entries[0], self.n_entries
            top.cells, top.n_cells = <const pmb_vt_cell *> &self.all_cells[0, 0], self.n_used_cells
        top.left = top.right = -1
        top.gain = -1
        pmb_vt_totals(&self.d, A, self.totals_of(0))
        top.weight = self.totals_of(0)[self.d.n_classes]
        root[0] = 0
        self.open_[0] = 0
        if self.max_leaves > 1 and self.worth(top):
            self.prepare(0, 0)
            self.evaluate(A, root, 1, self.n_threads if self.d.m * self.take_work() > SHARED_WORK else 1)
        while n_splits < self.max_leaves - 1:
            at = self.best_open(n_open, NULL)
            if at < 0:
                break
            node = self.open_[at]
            left_over = self.max_leaves - 1 - n_splits
            if self.nodes[node].left < 0:
                limit = 1
                if self.n_threads > 1 and self.nodes[node].n * self.take_work() < 8 * SHARED_WORK:
                    limit = (left_over + 3) / 4
                    limit = min(limit, (self.room - 2 * left_over - self.n_nodes) / 2)
                    limit = max(limit, 1)
                n_batch = self.ahead(n_open, at, limit, taken, batch)
                self.split(A, batch, n_batch, left_over == 1)
            self.nodes[node].is_split = 1
            # The order of the open list is the order in which the leaves were made.
            for b in range(at, n_open - 1):
                self.open_[b] = self.open_[b + 1]
            self.open_[n_open - 1] = self.nodes[node].left
            self.open_[n_open] = self.nodes[node].right
            n_open = n_open + 1
            n_splits = n_splits + 1
        return n_splits

    def grow(self, const int32_t[:, :, ::1] A not None, key):
        """Grow one tree on integer gradients A (blocks, m, lanes).

        Returns
        -------
        feature, pos, nan_left, right : ndarray (n_splits,)
            In preorder; ``right`` as in `Trees`.
        gain : ndarray (n_splits,)
        rows : ndarray of int32 (m,)
            The rows of leaf after leaf, ascending in each. Valid until the next tree.
        leaf_start : ndarray of int64 (n_splits + 2,)
        leaf : ndarray of int32 (m,)
            Leaf of every row. Valid until the next tree.
        """
        cdef uint64_t root_key = key
        cdef const int32_t *data = &A[0, 0, 0]
        cdef int32_t n_splits, at, leaf = 0, n_stack = 1, s = 0
        cdef int64_t i
        cdef pmb_vt_node *node
        if <size_t> data % 64:
            raise ValueError("A must start on a 64-byte boundary; make it with aligned_zeros")
        taken_ = np.empty(self.max_leaves + 1, dtype=np.uint8)
        cdef uint8_t[::1] taken = taken_
        with nogil:
            n_splits = self.run(data, root_key, &taken[0])
        feature, pos, right = (np.empty(n_splits, dtype=np.int32) for _ in range(3))
        nan_left, gain = np.empty(n_splits, dtype=bool), np.empty(n_splits)
        leaf_start = np.zeros(n_splits + 2, dtype=np.int64)
        cdef int32_t[::1] to_feature = feature, to_pos = pos, to_right = right
        cdef uint8_t[::1] to_nan_left = nan_left.view(np.uint8)
        cdef double[::1] to_gain = gain
        cdef int64_t[::1] to_start = leaf_start
        stack_ = np.zeros(n_splits + 2, dtype=np.int32)
        parent_ = np.full(n_splits + 2, -1, dtype=np.int32)
        cdef int32_t[::1] stack = stack_, parent = parent_
        with nogil:
            while n_stack:
                n_stack = n_stack - 1
                at = stack[n_stack]
                if parent[n_stack] >= 0:
                    to_right[parent[n_stack]] = s - parent[n_stack]
                node = &self.nodes[at]
                if node.is_split:
                    to_feature[s] = node.feature
                    to_pos[s] = node.pos
                    to_nan_left[s] = <uint8_t> node.nan_left
                    to_gain[s] = node.gain
                    stack[n_stack] = node.right
                    parent[n_stack] = s
                    stack[n_stack + 1] = node.left
                    parent[n_stack + 1] = -1
                    n_stack = n_stack + 2
                    s = s + 1
                else:
                    if node.left >= 0:
                        pmb_vt_merge(&self.rows[node.start], self.nodes[node.left].n, node.n, &self.spare[0])
                    for i in range(node.start, node.start + node.n):
                        self.leaf_of_row[self.rows[i]] = leaf
                    leaf = leaf + 1
                    to_start[leaf] = node.start + node.n
        rows = np.asarray(self.rows)[: self.d.m]
        return feature, pos, nan_left, right, gain, rows, leaf_start, np.asarray(self.leaf_of_row)


def add_leaves(double[:, ::1] F, V, const int32_t[::1] leaf, const int32_t[::1] y, int lanes, bint largest,
               int n_threads):
    """F += V[leaf], by rows (V None: F stays). With ``largest``, returns the largest F_r - F_y, r != y.

    Parameters
    ----------
    F : INOUT (m, blocks * lanes); V : IN (n_leaves, blocks * lanes) or None
    """
    cdef int64_t b, m = F.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef int blocks = <int> F.shape[1] // lanes
    cdef const double[:, ::1] values
    cdef const double *v = NULL
    tops_ = np.empty(n)
    cdef double[::1] tops = tops_
    if V is not None:
        values = V
        v = &values[0, 0]
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_add(lanes, &F[0, 0], v, &leaf[0], &y[0], blocks, b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS),
                   &tops[b] if largest else NULL)
    return float(tops_.max()) if largest else None


def gradient(const double[:, ::1] F, const int32_t[::1] y, const double[::1] weight, int loss, double shift, int lanes,
             float[:, ::1] G, int n_threads):
    """Negative gradients of all rows; returns the sums of w |g| by lane.

    Parameters
    ----------
    F : IN (m, blocks * lanes) scores, -1e30 in unused lanes; weight : IN (m,), or empty for weights of 1
    loss : of LOSS_CODES; shift : what is taken off the exponents of the exponential loss
    G : OUT (m, blocks * lanes)
    """
    cdef int64_t b, m = F.shape[0], n = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    cdef int blocks = <int> F.shape[1] // lanes
    cdef const double *w = or_null(weight)
    sums_ = np.empty((n, F.shape[1]))
    cdef double[:, ::1] sums = sums_
    for b in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_vr_gradient(lanes, loss, &F[0, 0], &y[0], w, blocks, b * BLOCK_ROWS, min(m, (b + 1) * BLOCK_ROWS), shift,
                        &G[0, 0], &sums[b, 0])
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
