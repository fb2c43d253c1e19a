# cython: language_level=3
"""Class-wise trees: each fits one class, best-first on binned columns. Several trees grow at a time, or parts of one.

Gradients are rounded to integers and summed exactly (see ``classwise_histograms.h``), so a tree depends neither on the
number of threads nor on the order of summation. The C functions are declared in ``classwise_trees.pxd``.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

from pymcboost._kernels.columns cimport address, columns_of
from pymcboost._kernels.pool cimport run, the_pool
from pymcboost._kernels.workers cimport Workers

ctypedef fused real:
    float
    double

cdef pmb_tree_out outputs(out, int n, int64_t J, const pmb_cw_data *data) except *:
    """Output arrays of n trees, from the first on; the caller keeps the `Grown` alive."""
    cdef pmb_tree_out first
    cdef int64_t m = data.columns.m
    if out.leaf.shape[1] != m or out.feature.shape[1] != J or len(out.leaf) < n or out.leaf.dtype.itemsize > 2:
        raise ValueError("the arrays do not fit the data")
    if J > 1 << 8 * out.leaf.dtype.itemsize:
        raise ValueError("leaf has too few bytes for so many leaves")
    first.feature, first.pos = <int32_t *> address(out.feature), <int32_t *> address(out.pos)
    first.right, first.n_splits = <int32_t *> address(out.right), <int32_t *> address(out.n_splits)
    first.nan_left = <uint8_t *> address(out.nan_left)
    first.gain, first.value = <double *> address(out.gain), <double *> address(out.value)
    first.leaf, first.leaf_bytes = <void *> address(out.leaf), out.leaf.dtype.itemsize
    if out.sets.shape[2] != data.levels.most_words or len(out.sets) < n or out.sets.shape[1] != J:
        raise ValueError("sets do not fit the data")
    first.sets, first.set_words = <uint64_t *> address(out.sets), data.levels.most_words
    return first


# Trees that grow in parallel, one piece each. job: of the kind that the function needs.
cdef struct Trees:
    pmb_cw_state *work      # of each thread
    void *job
    pmb_tree_out first
    int64_t max_leaves, m
    double *edge


cdef Trees trees_of(pmb_cw_state *work, void *job, pmb_tree_out first, int max_leaves, int64_t m) noexcept nogil:
    cdef Trees t
    t.work, t.job, t.first, t.max_leaves, t.m, t.edge = work, job, first, max_leaves, m, NULL
    return t


cdef void softmax_tree(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Trees *t = <const Trees *> what
    pmb_softmax_tree(t.work + thread, <pmb_softmax_job *> t.job + piece,
                     pmb_out_of(t.first, <int> piece, t.max_leaves, t.m))


cdef void edge_tree(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Trees *t = <const Trees *> what
    t.edge[piece] = pmb_edge_tree(t.work + thread, <pmb_edge_job *> t.job + piece,
                                  pmb_out_of(t.first, <int> piece, t.max_leaves, t.m))


cdef void class_tree(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Trees *t = <const Trees *> what
    pmb_class_tree(t.work + thread, <pmb_class_job *> t.job + piece,
                   pmb_out_of(t.first, <int> piece, t.max_leaves, t.m))


cdef class Grower:
    """Grows trees on `Tiled` columns.

    Parameters
    ----------
    data : Tiled
    max_leaves, max_depth : int
        At most 65,536 leaves; depth 0 means no bound.
    least_n : int
        Least n, or h where there is no count, in units, on either side of a split; at least 1.
    cell_words : 1 or 2
        Words of a histogram cell: one with 31 bits for each of g and h, or two, one for g and one for h and a count.
    edge : bool
        Whether to maximise ``|G_L| + |G_R|`` in place of the Newton gain.
    keep_histograms : bool
        Keep those of all leaves, to subtract a child's from its parent's.
    n_threads : int
    min_share : float
        A node is split only when its h is above this share of the root's.
    l2, min_hessian, min_gain : float
        Of the trees of `grow_softmax`, as in the estimators.
    least_levels : dict, optional
        By categorical feature, (2, levels): weights in a node below which they go together, and are in parts.
    count_bits : int
        Bits of the count in a cell of two words; 0 with one word.
    h_error : float
        How far the h of a row may be from its integer: gains within the rounding of their sums are 0. All workers must
        have the same. Below 0, gains are not compared with rounding.
    weight : ndarray of int64 (m,), optional
        Weights of the rows in whole units, where they differ: missing values that a node has not seen go to the side of
        its rows with more of it.
    comm, together : optional
        Communicator of the workers among which the rows are divided, or None, and how many trees are then grown in
        step.
    """

    cdef pmb_cw_data data
    cdef pmb_cw_options options
    cdef pmb_cw_state *work
    cdef pmb_cw_steps steps
    cdef Workers workers
    cdef int n_work, n_threads, threads_of_work, keep_histograms, max_leaves, max_depth, together
    cdef object kept

    def __cinit__(self, data, int max_leaves, int max_depth, int64_t least_n, int cell_words, bint edge,
                  bint keep_histograms, int n_threads, double min_share=0, double l2=0, double min_hessian=0,
                  double min_gain=0, least_levels=None, int count_bits=0, double h_error=-1, weight=None, comm=None,
                  int together=1):
        if not 1 <= max_leaves <= 65536 or cell_words not in (1, 2) or least_n < 1 or n_threads < 1:
            raise ValueError("max_leaves, cell_words, least_n or n_threads out of range")
        if (count_bits > 0) != (cell_words == 2):
            raise ValueError("cells of two words, and no others, have count_bits above 0")
        if data.code_bytes == 2 and cell_words == 1:
            raise ValueError("codes of two bytes need cell_words=2")
        if data.levels and cell_words == 1:
            raise ValueError("categories need cell_words=2")
        cdef pmb_level_data *levels = &self.data.levels
        set_at, levels.set_words, levels.most_words, levels.most_levels, least = data.sets(least_levels)
        levels.set_start = <const int32_t *> address(set_at)
        if least is not None:
            levels.least_level = <const int64_t *> address(least[0])
            levels.whole_level = <const int64_t *> address(least[1])
        cell_ptr, cell_row = data.by_cell()
        self.kept = data, set_at, least, cell_ptr, cell_row, weight
        if weight is not None and (weight.shape != (data.n_rows,) or weight.dtype != np.int64):
            raise ValueError("the weights do not fit the data")
        self.data.weighted, self.data.weight = weight is not None, <const int64_t *> address(weight)
        self.data.total_weight = 0 if weight is None else weight.sum()
        self.data.columns = columns_of(data)
        self.data.n_tiles, self.data.tiles = data.n_tiles, address(data.tiles)
        self.data.tile_lanes = <const int32_t *> address(data.tile_lanes)
        self.data.tile_rows = <const int32_t *> address(data.tile_rows)
        self.data.tile_missing = <const int32_t *> address(data.tile_missing)
        self.data.tile_skip = <const int32_t *> address(data.tile_skip)
        self.data.tile_mode = <const int32_t *> address(data.tile_mode)
        self.data.counted = <const uint8_t *> address(data.counted)
        self.data.tile_cell = <const int64_t *> address(data.tile_cell)
        self.data.row_ptr = <const int64_t *> address(data.row_ptr)
        self.data.row_cell = <const int32_t *> address(data.row_cell)
        self.data.cell_ptr = <const int64_t *> address(cell_ptr)
        self.data.cell_row = <const int32_t *> address(cell_row)
        self.max_leaves, self.max_depth, self.keep_histograms = max_leaves, max_depth, keep_histograms
        self.options.least_n, self.options.cell_words, self.options.edge = least_n, cell_words, edge
        self.options.keep_histograms, self.options.min_share = keep_histograms, min_share
        self.options.count_bits, self.options.h_error = count_bits, h_error
        self.options.l2, self.options.min_hessian, self.options.min_gain = l2, min_hessian, min_gain
        self.n_threads = n_threads
        self.options.pool = the_pool()
        self.together = together
        if comm is not None:
            self.workers = Workers(comm)

    def __dealloc__(self):
        self.release()

    cdef void release(self):
        cdef int t
        pmb_cw_steps_free(&self.steps)
        if self.work != NULL:
            for t in range(self.n_work):
                pmb_cw_state_free(&self.work[t])
            free(self.work)
            self.work = NULL
            self.n_work = 0

    cdef int prepare(self, int n) except -1:
        """Allocate work space for n trees, which share the threads."""
        cdef int t
        self.options.threads = max(1, self.n_threads // max(1, n))
        if self.n_work >= n and self.threads_of_work == self.options.threads:
            return 0
        self.release()
        self.threads_of_work = self.options.threads
        self.work = <pmb_cw_state *> calloc(n, sizeof(pmb_cw_state))
        if self.work == NULL:
            raise MemoryError("no memory for growing trees")
        for t in range(n):
            if not pmb_cw_state_new(&self.work[t], &self.data, &self.options, self.max_leaves, self.max_depth):
                self.release()
                raise MemoryError("no memory for growing trees; use fewer threads, bins or leaves")
            self.n_work = t + 1
        if self.workers is not None and not pmb_cw_steps_new(&self.steps, &self.workers.calls, self.work, n):
            self.release()
            raise MemoryError("no memory for growing trees; use fewer bins or leaves")
        return 0

    cdef object draw(self, const uint8_t[::1] active, double share, key):
        """Set what the nodes of the next trees draw."""
        cdef int n_active = np.count_nonzero(active) if active.shape[0] else self.data.columns.n_features
        self.options.active = &active[0] if active.shape[0] else NULL
        self.options.n_active, self.options.key = n_active, key
        self.options.n_drawn = max(1, round(share * n_active)) if share < 1 else 0
        cdef int64_t searched = <int64_t> self.options.n_drawn * self.max_leaves
        cdef bint few = 0 < searched <= PMB_FEW * <int64_t> self.data.columns.n_features
        if self.data.row_ptr == NULL or self.data.n_tiles or self.workers is not None:
            few = False
        if few != self.options.few_sparse:
            self.options.few_sparse, self.options.keep_histograms = few, self.keep_histograms and not few
            self.release()

    cdef object softmax_jobs(self, const void *S, int is_double, int K, const int32_t[:, ::1] jobs,
                             const int32_t[::1] y, const int64_t[::1] class_start, const double[::1] weight,
                             bint counts, const double[:, ::1] scale, const double[:, ::1] units,
                             const int32_t[::1] sample, double shrinkage, double cap, const double[::1] level_cost):
        """`pmb_softmax_job` of every tree, in an array of bytes."""
        cdef int64_t j, n = jobs.shape[0]
        room = np.zeros(max(1, n) * sizeof(pmb_softmax_job), dtype=np.uint8)
        cdef pmb_softmax_job *job = <pmb_softmax_job *> address(room)
        if is_double and self.options.cell_words == 1:
            raise ValueError("double precision needs cell_words=2")
        if y.shape[0] != self.data.columns.m or units.shape[1] != PMB_PARTS:
            raise ValueError("the arrays do not fit the data")
        for j in range(n):
            job[j].S, job[j].is_double, job[j].K, job[j].counts = S, is_double, K, counts
            job[j].k, job[j].b = jobs[j, 0], jobs[j, 1]
            job[j].y, job[j].class_start = &y[0], &class_start[0]
            job[j].weight = &weight[0] if weight.shape[0] else NULL
            job[j].scale = (<const pmb_scale *> &scale[j, 0])[0]
            job[j].shrinkage, job[j].cap, job[j].unit, job[j].magic = shrinkage, cap, &units[0, 0], &units[1, 0]
            if level_cost is not None:
                job[j].level_cost = level_cost[j]
            if sample is not None:
                job[j].sample, job[j].n_sample = &sample[0], sample.shape[0]
        return room

    def grow_softmax(self, const real[:, ::1] S, const int32_t[:, ::1] jobs, const int32_t[::1] y,
                     const int64_t[::1] class_start, const double[::1] weight, bint counts, const double[:, ::1] scale,
                     const double[:, ::1] units, const int32_t[::1] sample, const uint8_t[::1] active, double share,
                     key, double shrinkage, double cap, out, const double[::1] level_cost=None):
        """Grow one tree for every job.

        Parameters
        ----------
        S : IN (K, m), see `softmax`
        jobs : IN (n, 2) class and base class (-1: none)
        y, class_start : IN
        weight : IN (m,), or empty where all are 1
        counts : whether the gain has the weights in place of h (mart)
        scale : IN (n, 3) units per 1 of g, h and n
        units : IN (2, PARTS) of the sums of leaves, see `exact.units_in_parts`
        sample : IN rows to grow on, ascending, or None for all
        active : IN (n_features,) features that may be split on, or empty for all
        share : of the active features that a node may be split on, at least one; drawn at every node
        key : 64 bits that decide about these draws
        shrinkage, cap : leaf value = shrinkage * clip(sum g / (sum h + l2), -cap, cap), rounded to float32
        out : Grown
        level_cost : IN (n,) or None, gain that a set of levels loses for every level in parts but two
        """
        cdef int j, n = jobs.shape[0], outer = min(n, self.n_threads), J = self.max_leaves
        cdef pmb_tree_out first = outputs(out, n, J, &self.data)
        room = self.softmax_jobs(&S[0, 0], real is double, <int> S.shape[0], jobs, y, class_start, weight, counts,
                                 scale, units, sample, shrinkage, cap, level_cost)
        cdef pmb_softmax_job *job = <pmb_softmax_job *> address(room)
        if S.shape[1] != self.data.columns.m:
            raise ValueError("the arrays do not fit the data")
        self.draw(active, share, key)
        if self.workers is not None:
            for j in range(0, n, self.together):
                self.softmax_in_step(job + j, min(self.together, n - j), pmb_out_of(first, j, J, self.data.columns.m))
            return
        self.prepare(outer)
        cdef Trees trees = trees_of(self.work, job, first, J, self.data.columns.m)
        with nogil:
            run(outer, n, softmax_tree, &trees)

    cdef object softmax_in_step(self, pmb_softmax_job *job, int n, pmb_tree_out first):
        """Grow n trees in step on rows that are divided among workers, see ``classwise_workers.h``."""
        cdef int outer = min(n, self.n_threads)
        self.prepare(n)
        self.workers.begin()
        with nogil:
            pmb_softmax_trees_in_step(&self.steps, job, n, outer, first)
        self.workers.check()

    def grow_edges(self, const real[:, :, ::1] A, int n_classes, const double[::1] weight, double limit,
                   double unit, double per_count, double[::1] edge, out, const double[::1] size=None,
                   const int64_t[::1] there=None):
        """Grow a tree with leaves +-1 for every class.

        Parameters
        ----------
        A : IN (n_blocks, m, lanes) gradient
        weight : IN (m,), or empty where all are 1
        limit, per_count : units of the sum of abs(a), and of a weight of 1
        unit : what the gradients are whole multiples of at the start of a training, as far as they are
        edge : OUT (n_classes,)
        out : Grown
        size, there : IN (n_classes,) or None, bounds of the sums of abs(a) of all workers, and their rows with a != 0
        """
        cdef int r, n = n_classes, outer = min(n, self.n_threads), J = self.max_leaves
        cdef pmb_tree_out out_of_r, first = outputs(out, n, J, &self.data)
        if A.shape[1] != self.data.columns.m or edge.shape[0] != n or A.shape[0] * A.shape[2] < n:
            raise ValueError("the arrays do not fit the data")
        if self.workers is not None and size is None or (size is None) != (there is None):
            raise ValueError("the arrays do not fit the data")
        room = edge_jobs(A, n)
        cdef pmb_edge_job *job = <pmb_edge_job *> address(room)
        for r in range(n):
            job[r].weight = &weight[0] if weight.shape[0] else NULL
            job[r].limit, job[r].unit, job[r].per_count, job[r].size = limit, unit, per_count, -1
            if size is not None:
                job[r].size, job[r].n_all = size[r], there[r]
        self.options.active = NULL
        if self.workers is not None:
            for r in range(0, n, self.together):
                out_of_r = pmb_out_of(first, r, J, self.data.columns.m)
                self.edges_in_step(job + r, min(self.together, n - r), out_of_r, &edge[r])
            return
        self.prepare(outer)
        cdef Trees trees = trees_of(self.work, job, first, J, self.data.columns.m)
        trees.edge = &edge[0]
        with nogil:
            run(outer, n, edge_tree, &trees)

    cdef object edges_in_step(self, pmb_edge_job *job, int n, pmb_tree_out first, double *edge):
        """Like `softmax_in_step`, for trees with leaves +-1."""
        cdef int outer = min(n, self.n_threads)
        self.prepare(n)
        self.workers.begin()
        with nogil:
            pmb_edge_trees_in_step(&self.steps, job, n, outer, first, edge)
        self.workers.check()

    def grow_classes(self, const double[:, ::1] weight, const int32_t[::1] y, const double[:, ::1] g_of,
                     const double[:, ::1] h_of, const double[:, ::1] scale, const double[:, ::1] units, out):
        """Grow regression trees on targets that depend only on a row's class.

        Tree j has g = weight * g_of[j, y] and h = weight * h_of[j, y]; its leaf values are sum g / sum h, in float32.

        Parameters
        ----------
        weight : IN (1, m), or (n, m) with a row for every tree
        y : IN (m,)
        g_of, h_of : IN (n, K)
        scale : IN (n, 3) units per 1 of g and h, and of every row's n
        units : IN (2, PARTS) of the sums of leaves, see `exact.units_in_parts`
        out : Grown
        """
        cdef int j, n = <int> g_of.shape[0], outer = min(n, self.n_threads), J = self.max_leaves
        cdef int own = weight.shape[0] > 1
        cdef pmb_tree_out first = outputs(out, n, J, &self.data)
        if weight.shape[1] != self.data.columns.m or weight.shape[0] != (n if own else 1):
            raise ValueError("the arrays do not fit the data")
        if y.shape[0] != self.data.columns.m:
            raise ValueError("the arrays do not fit the data")
        if units.shape[1] != PMB_PARTS:
            raise ValueError("the arrays do not fit the data")
        room = np.zeros(max(1, n) * sizeof(pmb_class_job), dtype=np.uint8)
        cdef pmb_class_job *job = <pmb_class_job *> address(room)
        for j in range(n):
            job[j].weight, job[j].y = &weight[own * j, 0], &y[0]
            job[j].g_of, job[j].h_of = &g_of[j, 0], &h_of[j, 0]
            job[j].scale = (<const pmb_scale *> &scale[j, 0])[0]
            job[j].unit, job[j].magic = &units[0, 0], &units[1, 0]
        self.options.active = NULL
        self.prepare(outer)
        cdef Trees trees = trees_of(self.work, job, first, J, self.data.columns.m)
        with nogil:
            run(outer, n, class_tree, &trees)


cdef object edge_jobs(const real[:, :, ::1] A, int n):
    """`pmb_edge_job` of the first n columns of a gradient, in an array of bytes."""
    cdef int r, lanes = <int> A.shape[2]
    room = np.zeros(max(1, n) * sizeof(pmb_edge_job), dtype=np.uint8)
    cdef pmb_edge_job *job = <pmb_edge_job *> address(room)
    for r in range(n):
        job[r].A, job[r].is_double, job[r].stride = &A[r // lanes, 0, r % lanes], real is double, lanes
    return room


# Columns of a gradient with m rows. edge_top_piece sets values, edge_size_piece sums in units: OUT (n,) of the columns.
cdef struct Edges:
    pmb_edge_job *job
    int64_t m, n
    const double *units
    double *top
    int64_t *sums  # (2, n)


cdef void edge_top_piece(void *what, int64_t r, int thread) noexcept nogil:
    cdef const Edges *p = <const Edges *> what
    p.top[r] = pmb_edge_top(p.job + r, p.m)


cdef void edge_size_piece(void *what, int64_t r, int thread) noexcept nogil:
    cdef const Edges *p = <const Edges *> what
    p.sums[p.n + r] = 0
    p.sums[r] = pmb_edge_size(p.job + r, p.m, 1 / p.units[r], &p.sums[p.n + r])


def edge_tops(const real[:, :, ::1] A, double[::1] top, int n_threads):
    """Largest abs(a) of the columns (n,) of a gradient (n_blocks, m, lanes)."""
    cdef Edges p
    room = edge_jobs(A, <int> top.shape[0])
    p.job, p.m, p.n, p.top = <pmb_edge_job *> address(room), A.shape[1], top.shape[0], &top[0]
    with nogil:
        run(n_threads, p.n, edge_top_piece, &p)


def edge_sizes(const real[:, :, ::1] A, const double[::1] unit, int64_t[:, ::1] sums, int n_threads):
    """Sums of abs(a) of the columns in their units, row by row rounded, and their rows with a != 0: sums (2, n)."""
    cdef Edges p
    room = edge_jobs(A, <int> unit.shape[0])
    p.job, p.m, p.n, p.units, p.sums = <pmb_edge_job *> address(room), A.shape[1], unit.shape[0], &unit[0], &sums[0, 0]
    with nogil:
        run(n_threads, p.n, edge_size_piece, &p)
