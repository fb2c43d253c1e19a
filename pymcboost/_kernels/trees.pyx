# cython: language_level=3
"""Trees for class-wise boosting: grown best-first on binned columns, several trees or several parts of one in parallel.

The numbers behind a tree are rounded to integers and summed exactly (see ``pairs.h``), so a tree depends neither on the
number of threads nor on the order of summation.
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

from pymcboost._kernels.columns cimport address, columns_of, pmb_columns

cdef extern from "class_trees.h" nogil:
    ctypedef struct pmb_level_data:
        const int32_t *set_at
        int32_t set_words, most_words, most_levels
        const int64_t *least_level
        const int64_t *whole_level
    ctypedef struct pmb_pair_data:
        pmb_columns c
        int32_t n_tiles
        const void *tiles
        const int32_t *tile_lanes
        const int32_t *tile_rows
        const int32_t *tile_missing
        const int32_t *tile_skip
        const int32_t *tile_mode
        const uint8_t *counted
        const int64_t *tile_cell
        const int64_t *row_ptr
        const int32_t *row_cell
        pmb_level_data levels
    ctypedef struct pmb_pair_options:
        int32_t edge, cell_words, pool, threads
        int64_t min_h
        double min_share, l2, min_hessian, min_gain
        const uint8_t *active
        int32_t n_active, take
        uint64_t key
    ctypedef struct pmb_pairs:
        pass
    ctypedef struct pmb_scale:
        double g, h, n
    ctypedef struct pmb_tree_out:
        int32_t *feature
        int32_t *pos
        int32_t *right
        int32_t *n_splits
        uint8_t *nan_left
        double *gain
        double *value
        void *leaf
        int32_t leaf_bytes
        uint64_t *sets
        int32_t set_words
    pmb_tree_out pmb_out_of(pmb_tree_out out, int64_t j, int64_t max_leaves, int64_t m)
    int pmb_pairs_new(pmb_pairs *w, const pmb_pair_data *d, const pmb_pair_options *o, int32_t max_leaves,
                      int32_t max_depth)
    void pmb_pairs_free(pmb_pairs *w)
    void pmb_softmax_tree(pmb_pairs *w, const void *S, int is_double, int K, int k, int b, const int32_t *y,
                          const int64_t *class_start, const double *weight, int counts, pmb_scale scale,
                          const int32_t *sample, int64_t n_sample, double shrinkage, double cap,
                          double level_cost, pmb_tree_out out)
    double pmb_edge_tree(pmb_pairs *w, const void *A, int is_double, int stride, const double *weight, double limit,
                         double unit, double per_count, pmb_tree_out out)
    void pmb_class_tree(pmb_pairs *w, const double *weight, const int32_t *y, const double *g_of, const double *h_of,
                        pmb_scale scale, pmb_tree_out out)
    void pmb_softmax_f_0(const double *F, int64_t m, int K, int own, int64_t n, const double *weight, double *top,
                         float *total, float *S, double *sums)
    void pmb_softmax_d_0(const double *F, int64_t m, int K, int own, int64_t n, const double *weight, double *top,
                         double *total, double *P, double *sums)
    enum:
        PMB_TRY_ROWS
    void pmb_try_bases_f_0(const float *S, int64_t m, int K, const uint8_t *tried, int n_pairs, const int32_t *pair,
                           int own, int64_t n, const void *leaf, int bytes, int64_t stride, const float *factor,
                           const float *inverse, const double *weight, float *work, double *loss)
    void pmb_try_bases_d_0(const double *S, int64_t m, int K, const uint8_t *tried, int n_pairs, const int32_t *pair,
                           int own, int64_t n, const void *leaf, int bytes, int64_t stride, const double *factor,
                           const double *inverse, const double *weight, double *work, double *loss)
    void pmb_add_leaves(const void *leaf, int bytes, const double *value, int64_t n, double *to, double *frm)

ctypedef fused real:
    float
    double

cdef enum:
    CHUNK = 2048  # rows of one class that are worked on together


def chunks(const int64_t[::1] class_start):
    """Rows cut into pieces of one class each: (starts, classes), with the number of rows at the end of ``starts``."""
    starts, classes = [], []
    for c in range(class_start.shape[0] - 1):
        for start in range(class_start[c], class_start[c + 1], CHUNK):
            starts.append(start)
            classes.append(c)
    starts.append(class_start[class_start.shape[0] - 1])
    return np.array(starts, dtype=np.int64), np.array(classes, dtype=np.int32)


cdef pmb_tree_out outputs(out, int n, int64_t J, const pmb_pair_data *data) except *:
    """Where the first of n trees goes; the caller keeps the `Grown` alive."""
    cdef pmb_tree_out first
    cdef int64_t m = data.c.m
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


cdef class Grower:
    """Grows trees on `Tiled` columns.

    Parameters
    ----------
    data : Tiled
    max_leaves, max_depth : int
        At most 65,536 leaves; depth 0 means no bound.
    min_h : int
        Least h (one word) or n (two words), in units, on either side of a split; at least 1.
    cell_words : 1 or 2
        Words of a histogram cell: 31 bits for each of g and h, or 63 and 39 bits and a count.
    edge : bool
        Whether to maximise ``|G_L| + |G_R|`` in place of the Newton gain.
    pool : bool
        Keep the histograms of all leaves, to subtract a child's from its parent's.
    n_threads : int
    min_share : float
        A node is split only when its h is above this share of the root's.
    l2, min_hessian, min_gain : float
        Of the trees of `grow_softmax`, as in the estimators.
    least_levels : dict, optional
        By categorical feature, (2, levels): weights in a node below which they go together, and are in parts.
    """

    cdef pmb_pair_data data
    cdef pmb_pair_options options
    cdef pmb_pairs *work
    cdef int n_work, n_threads, prepared, max_leaves, max_depth
    cdef object keep

    def __cinit__(self, data, int max_leaves, int max_depth, int64_t min_h, int cell_words, bint edge, bint pool,
                  int n_threads, double min_share=0, double l2=0, double min_hessian=0, double min_gain=0,
                  least_levels=None):
        if not 1 <= max_leaves <= 65536 or cell_words not in (1, 2) or min_h < 1 or n_threads < 1:
            raise ValueError("max_leaves, cell_words, min_h or n_threads out of range")
        if data.code_bytes == 2 and cell_words == 1:
            raise ValueError("codes of two bytes need cell_words=2")
        if data.levels and cell_words == 1:
            raise ValueError("categories need cell_words=2")
        cdef pmb_level_data *levels = &self.data.levels
        set_at, levels.set_words, levels.most_words, levels.most_levels, least = data.sets(least_levels)
        levels.set_at = <const int32_t *> address(set_at)
        if least is not None:
            levels.least_level = <const int64_t *> address(least[0])
            levels.whole_level = <const int64_t *> address(least[1])
        self.keep = data, set_at, least
        self.data.c = columns_of(data)
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
        self.max_leaves, self.max_depth = max_leaves, max_depth
        self.options.min_h, self.options.cell_words, self.options.edge = min_h, cell_words, edge
        self.options.pool, self.options.min_share = pool, min_share
        self.options.l2, self.options.min_hessian, self.options.min_gain = l2, min_hessian, min_gain
        self.n_threads = n_threads

    def __dealloc__(self):
        self.release()

    cdef void release(self):
        cdef int t
        if self.work != NULL:
            for t in range(self.n_work):
                pmb_pairs_free(&self.work[t])
            free(self.work)
            self.work = NULL
            self.n_work = 0

    cdef int prepare(self, int n) except -1:
        """Work space for n threads."""
        cdef int t
        if self.n_work >= n and self.prepared == self.options.threads:
            return 0
        self.release()
        self.prepared = self.options.threads
        self.work = <pmb_pairs *> calloc(n, sizeof(pmb_pairs))
        if self.work == NULL:
            raise MemoryError("no memory for growing trees")
        for t in range(n):
            if not pmb_pairs_new(&self.work[t], &self.data, &self.options, self.max_leaves, self.max_depth):
                self.release()
                raise MemoryError("no memory for growing trees; use fewer threads, bins or leaves")
            self.n_work = t + 1
        return 0

    def grow_softmax(self, const real[:, ::1] S, const int32_t[:, ::1] jobs, const int32_t[::1] y,
                     const int64_t[::1] class_start, const double[::1] weight, bint counts, const double[:, ::1] scale,
                     const int32_t[::1] sample, const uint8_t[::1] active, double share, key, double shrinkage,
                     double cap, out, const double[::1] level_cost=None):
        """Grow one tree for every job.

        Parameters
        ----------
        S : IN (K, m), see `softmax`
        jobs : IN (n, 2) class and base class (-1: none)
        y, class_start : IN
        weight : IN (m,), or empty where all are 1
        counts : whether the gain has the weights in place of h (mart)
        scale : IN (n, 3) units per 1 of g, h and n
        sample : IN rows to grow on, ascending, or empty for all
        active : IN (n_features,) features that may be split on, or empty for all
        share : of the active features that a node may be split on, at least one; drawn at every node
        key : 64 bits that decide about these draws
        shrinkage, cap : leaf value = shrinkage * clip(sum g / (sum h + l2), -cap, cap), rounded to float32
        out : Grown
        level_cost : IN (n,) or None, gain that a set of levels loses for every level in parts but two
        """
        cdef int j, n = jobs.shape[0], outer = min(n, self.n_threads), K = S.shape[0], J = self.max_leaves
        cdef int is_double = real is double
        cdef pmb_tree_out first = outputs(out, n, J, &self.data)
        cdef const double *weights = &weight[0] if weight.shape[0] else NULL
        cdef const int32_t *rows = &sample[0] if sample.shape[0] else NULL
        cdef int64_t n_sample = sample.shape[0]
        cdef const double *cost = NULL
        if level_cost is not None:
            cost = &level_cost[0]
        if is_double and self.options.cell_words != 2:
            raise ValueError("double precision needs cell_words=2")
        if S.shape[1] != self.data.c.m:
            raise ValueError("the arrays do not fit the data")
        cdef int n_active = np.count_nonzero(active) if active.shape[0] else self.data.c.n_features
        self.options.active = &active[0] if active.shape[0] else NULL
        self.options.n_active, self.options.key = n_active, key
        self.options.take = max(1, round(share * n_active)) if share < 1 else 0
        self.options.threads = self.n_threads // outer
        self.prepare(outer)
        for j in prange(n, nogil=True, num_threads=outer, schedule="dynamic", chunksize=1):
            pmb_softmax_tree(&self.work[threadid()], &S[0, 0], is_double, K, jobs[j, 0], jobs[j, 1], &y[0],
                             &class_start[0], weights, counts, (<const pmb_scale *> &scale[j, 0])[0], rows, n_sample,
                             shrinkage, cap, cost[j] if cost != NULL else 0, pmb_out_of(first, j, J, self.data.c.m))

    def grow_edges(self, const real[:, :, ::1] A, int n_classes, const double[::1] weight, double limit,
                   double unit, double per_count, double[::1] edge, out):
        """Grow a tree with leaves +-1 for every class.

        Parameters
        ----------
        A : IN (n_blocks, m, lanes) gradient
        weight : IN (m,), or empty where all are 1
        limit, per_count : units of the sum of abs(a), and of a weight of 1
        unit : what the gradients are whole multiples of at the start of a training, as far as they are
        edge : OUT (n_classes,)
        out : Grown
        """
        cdef int r, n = n_classes, outer = min(n, self.n_threads), lanes = A.shape[2], J = self.max_leaves
        cdef int is_double = real is double
        cdef pmb_tree_out first = outputs(out, n, J, &self.data)
        cdef const double *weights = &weight[0] if weight.shape[0] else NULL
        if A.shape[1] != self.data.c.m or edge.shape[0] != n or A.shape[0] * lanes < n:
            raise ValueError("the arrays do not fit the data")
        self.options.active = NULL
        self.options.threads = self.n_threads // outer
        self.prepare(outer)
        for r in prange(n, nogil=True, num_threads=outer, schedule="dynamic", chunksize=1):
            edge[r] = pmb_edge_tree(&self.work[threadid()], &A[r // lanes, 0, r % lanes], is_double, lanes, weights,
                                    limit, unit, per_count, pmb_out_of(first, r, J, self.data.c.m))

    def grow_classes(self, const double[:, ::1] weight, const int32_t[::1] y, const double[:, ::1] g_of,
                     const double[:, ::1] h_of, const double[:, ::1] scale, out):
        """Grow regression trees on targets that depend on a row's class alone.

        Tree j has g = weight * g_of[j, y] and h = weight * h_of[j, y]; its leaf values are sum g / sum h, in float32.

        Parameters
        ----------
        weight : IN (1, m), or (n, m) with a row for every tree
        y : IN (m,)
        g_of, h_of : IN (n, K)
        scale : IN (n, 3) units per 1 of g and h, and of every row's n
        out : Grown
        """
        cdef int j, n = <int> g_of.shape[0], outer = min(n, self.n_threads), J = self.max_leaves
        cdef int own = weight.shape[0] > 1
        cdef pmb_tree_out first = outputs(out, n, J, &self.data)
        if weight.shape[1] != self.data.c.m or y.shape[0] != self.data.c.m or weight.shape[0] != (n if own else 1):
            raise ValueError("the arrays do not fit the data")
        self.options.active = NULL
        self.options.threads = self.n_threads // outer
        self.prepare(outer)
        for j in prange(n, nogil=True, num_threads=outer, schedule="dynamic", chunksize=1):
            pmb_class_tree(&self.work[threadid()], &weight[own * j, 0], &y[0], &g_of[j, 0], &h_of[j, 0],
                           (<const pmb_scale *> &scale[j, 0])[0], pmb_out_of(first, j, J, self.data.c.m))


def softmax(const double[:, ::1] F, const int64_t[::1] starts, const int32_t[::1] own, const double[::1] weight,
            real[:, ::1] S, double[:, :, ::1] sums, int n_threads):
    """What is left to learn: S[k] = p_k on the rows of other classes and 1 - p_k on those of class k, p = softmax(F).

    Parameters
    ----------
    F : IN (K, m)
    starts, own : IN (n_chunks + 1,) and (n_chunks,) chunks of rows and their classes
    weight : IN (m,), or empty where all are 1
    S : OUT (K, m)
    sums : OUT (n_chunks, 2, K) sums of w s and w s (1 - s) in every chunk
    """
    cdef int64_t c, n_chunks = starts.shape[0] - 1, m = F.shape[1]
    cdef int K = F.shape[0]
    cdef double[:, ::1] top = np.empty((n_threads, CHUNK))
    cdef real[:, ::1] total = np.empty((n_threads, CHUNK), dtype=np.float32 if real is float else np.float64)
    cdef const double *weights = &weight[0] if weight.shape[0] else NULL
    for c in prange(n_chunks, nogil=True, num_threads=n_threads, schedule="static"):
        if real is float:
            pmb_softmax_f_0(&F[0, starts[c]], m, K, own[c], starts[c + 1] - starts[c],
                            weights + starts[c] if weights != NULL else NULL, &top[threadid(), 0],
                            &total[threadid(), 0], &S[0, starts[c]], &sums[c, 0, 0])
        else:
            pmb_softmax_d_0(&F[0, starts[c]], m, K, own[c], starts[c + 1] - starts[c],
                            weights + starts[c] if weights != NULL else NULL, &top[threadid(), 0],
                            &total[threadid(), 0], &S[0, starts[c]], &sums[c, 0, 0])


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
              const double[::1] weight, double[:, ::1] loss, int n_threads):
    """The training losses with several base classes, chunk by chunk, without touching the scores.

    Parameters
    ----------
    S, starts, own, weight : IN as in `softmax`
    leaf : IN as in `add_trees`
    factor : IN (2, n, at least 32) exp(value) and exp(-value) of the leaves
    pair : IN (n, 2) classes of the trees: the first receives the value, the second loses it; ascending
    tried : IN (K,) whether a class is tried as the base; all of its pairs must be there
    loss : OUT (n_chunks, K), 0 for classes that are not tried
    """
    cdef int64_t c, n_chunks = starts.shape[0] - 1, m = S.shape[1], stride = factor.shape[2]
    cdef int n_pairs = pair.shape[0], K = S.shape[0]
    cdef real[:, ::1] work = np.empty((n_threads, 3 * K * PMB_TRY_ROWS),
                                      dtype=np.float32 if real is float else np.float64)
    cdef const double *weights = &weight[0] if weight.shape[0] else NULL
    cdef int bytes_ = leaf.dtype.itemsize
    cdef const uint8_t[:, ::1] leaves = leaf.view(np.uint8)
    if stride < 32 or factor.shape[1] < n_pairs:
        raise ValueError("the arrays do not fit each other")
    for c in prange(n_chunks, nogil=True, num_threads=n_threads, schedule="static"):
        if real is float:
            pmb_try_bases_f_0(&S[0, starts[c]], m, K, &tried[0], n_pairs, &pair[0, 0], own[c],
                              starts[c + 1] - starts[c], &leaves[0, starts[c] * bytes_], bytes_, stride,
                              &factor[0, 0, 0], &factor[1, 0, 0], weights + starts[c] if weights != NULL else NULL,
                              &work[threadid(), 0], &loss[c, 0])
        else:
            pmb_try_bases_d_0(&S[0, starts[c]], m, K, &tried[0], n_pairs, &pair[0, 0], own[c],
                              starts[c + 1] - starts[c], &leaves[0, starts[c] * bytes_], bytes_, stride,
                              &factor[0, 0, 0], &factor[1, 0, 0], weights + starts[c] if weights != NULL else NULL,
                              &work[threadid(), 0], &loss[c, 0])
