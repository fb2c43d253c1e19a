# cython: language_level=3
"""Shapley values of trees for all classes at once; contributions.h has the formulas.

A row costs the leaves of a tree times the features of their paths times the classes. What does not depend on the
classes, the coefficients, is computed for many rows at once.
"""

from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, qsort

import math

import numpy as np

cdef extern from "contributions_sums.h" nogil:
    enum:
        PMB_PATH
        PMB_BLOCK
        PMB_STEP
        PMB_WIDE
    ctypedef struct pmb_frame:
        pass
    ctypedef struct pmb_kept:
        pass
    ctypedef struct pmb_trees:
        const int64_t *offset
        const int64_t *feature
        const int64_t *right
        const float *threshold
        const uint8_t *nan_left
        const int64_t *subset
        const int64_t *set_start
        const uint8_t *set_bits
        uint8_t *slot
        const int64_t *begin
        const int64_t *path
        const int64_t *groups
        const int64_t *group
        const int64_t *start
        const int64_t *leaf
        const int64_t *rank
    ctypedef struct pmb_background:
        const int64_t *first
        const uint64_t *pattern
        const double *share
        const double *factorial
        const double *ratio
        const double *node
        const double *weight
    int32_t pmb_count_paths(const pmb_trees *m, int64_t tree, pmb_frame *stack, int64_t *count)
    void pmb_fill_paths(const pmb_trees *m, int64_t tree, pmb_frame *stack, const int64_t *cover, double *to_left,
                        double *levels, int64_t *path, double *ratio)
    void pmb_patterns(const pmb_trees *m, int64_t tree, const float *xt, int64_t stride, int64_t n, pmb_frame *stack,
                      uint64_t *levels, uint64_t *pattern)
    uint64_t pmb_full(int64_t d)
    void pmb_by_covers(const pmb_trees *m, int64_t tree, const pmb_background *b, const uint64_t *pattern, int64_t n,
                       int64_t fixed, double *c)
    void pmb_by_rows(const pmb_trees *m, int64_t tree, const pmb_background *b, const uint64_t *pattern, int64_t n,
                     int64_t fixed, pmb_kept *s, double *c)
    int64_t pmb_tiled(int64_t leaf, int64_t all, int64_t k, int64_t K)
    void pmb_add_batch(const pmb_trees *m, int64_t batch, const double *value, int64_t all, int64_t K, const double *c,
                       int64_t n, const int64_t *column, int64_t classes, int64_t stride, double *to, double *base)

MOST_FEATURES = int(PMB_PATH)
# Coefficients of the trees of a batch, if it has more than one: those of a block of rows stay in the cache.
MOST_IN_BATCH = 2048


cdef int compare(const void *a, const void *b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t *> a)[0], y = (<const uint64_t *> b)[0]
    return (x > y) - (x < y)


cdef struct Scratch:
    # What a thread needs for a batch of trees.
    pmb_frame *stack
    uint64_t *levels
    uint64_t *pattern
    pmb_kept *kept
    double *taken  # room of the next two, which begin with a line of the cache
    double *coefficients
    double *value


cdef class Explainer:
    """The trees of a model (see `Trees`), and what stands for the background.

    Parameters
    ----------
    offset, feature, right : IN, int64; threshold : IN, float32; nan_left : IN, uint8
        As `Trees` has them; features are rows of the arrays ``xt`` below.
    leaf : IN, float32 (S + T, 1 or K)
    cls, base : IN, int64 (T,), where leaves have one value
    code : IN, float32 (P, K), or (0, K) without a code
    n_classes : int
    subset, set_start : IN, int64 (S,) and (n_sets + 1,); set_bits : IN, uint8
        The sets of codes, see `Trees`; None where all splits have thresholds.
    """

    cdef:
        pmb_trees trees
        pmb_background back
        const int64_t[::1] offset, feature, right, cls, base, subset, set_start
        const uint8_t[::1] set_bits
        const float[::1] threshold
        const uint8_t[::1] nan_left
        const float[:, ::1] leaf, code
        Py_ssize_t depth, K, T
        Py_ssize_t widest, most_leaves, most_splits
        uint8_t[::1] slot
        int64_t[::1] begin, path, first, groups, group, start, place, rank, order, batches
        uint64_t[::1] pattern
        double[::1] share, ratio, node, weight
        double[:, ::1] factorial

    def __cinit__(self, const int64_t[::1] offset, const int64_t[::1] feature, const int64_t[::1] right,
                  const float[::1] threshold, const uint8_t[::1] nan_left, const float[:, ::1] leaf,
                  const int64_t[::1] cls, const int64_t[::1] base, const float[:, ::1] code, Py_ssize_t n_classes,
                  const int64_t[::1] subset=None, const int64_t[::1] set_start=None,
                  const uint8_t[::1] set_bits=None):
        cdef Py_ssize_t S = feature.shape[0], T = offset.shape[0] - 1
        if offset[T] != S or right.shape[0] != S or threshold.shape[0] != S or nan_left.shape[0] != S or (
                leaf.shape[0] != S + T or cls.shape[0] != T or base.shape[0] != T or code.shape[1] != n_classes):
            raise ValueError("the arrays do not make trees")
        self.offset, self.feature, self.right, self.cls, self.base = offset, feature, right, cls, base
        self.threshold, self.nan_left, self.leaf, self.code = threshold, nan_left, leaf, code
        self.K, self.T = n_classes, T
        self.most_splits = np.diff(offset).max(initial=0)
        # One more, so that all arrays have an address.
        self.slot = np.zeros(S + 1, dtype=np.uint8)
        self.begin = np.zeros(S + T + 1, dtype=np.int64)
        self.trees.offset, self.trees.slot, self.trees.begin = &offset[0], &self.slot[0], &self.begin[0]
        if S:
            self.trees.feature, self.trees.right = &feature[0], &right[0]
            self.trees.threshold, self.trees.nan_left = &threshold[0], &nan_left[0]
        if subset is not None and set_bits.shape[0]:
            if subset.shape[0] != S or set_start[set_start.shape[0] - 1] != set_bits.shape[0] or (
                    np.asarray(subset).max() != set_start.shape[0] - 1):
                raise ValueError("the sets do not fit the trees")
            self.subset, self.set_start, self.set_bits = subset, set_start, set_bits
            self.trees.subset, self.trees.set_start = &subset[0], &set_start[0]
            self.trees.set_bits = &set_bits[0]
        self.count_paths()

    cdef pmb_frame *new_stack(self) except NULL:
        cdef pmb_frame *stack = <pmb_frame *> malloc((self.most_splits + 2) * sizeof(pmb_frame))
        if stack == NULL:
            raise MemoryError("no memory for the paths of the trees")
        return stack

    cdef count_paths(self):
        cdef:
            pmb_frame *stack = self.new_stack()
            Py_ssize_t t
            int32_t depth = 0
        self.depth = 0
        for t in range(self.T):
            depth = pmb_count_paths(&self.trees, t, stack, &self.begin[1])
            if depth < 0:
                break
            self.depth = max(self.depth, depth)
        free(stack)
        if depth == -2:
            raise ValueError(f"right does not describe tree {t}")
        if depth < 0:
            raise ValueError(f"tree {t} has a path whose splits are on more than {PMB_PATH} different features, which "
                             "contributions cannot take; train with a smaller max_depth or fewer leaves")
        np.cumsum(self.begin, out=np.asarray(self.begin))
        self.path = np.zeros(self.begin[self.begin.shape[0] - 1] + 1, dtype=np.int64)
        self.trees.path = &self.path[0]

    cdef fill_paths(self, const int64_t[::1] cover):
        cdef:
            double *ratio = NULL
            double[::1] to_left = np.zeros(self.slot.shape[0])
            double[::1] levels = np.zeros((self.depth + 1) * PMB_PATH)
            const int64_t *covers = NULL
            pmb_frame *stack = self.new_stack()  # last: what fails above would lose it
            Py_ssize_t t
        if cover is not None:
            ratio, covers = &self.ratio[0], &cover[0]
        with nogil:
            for t in range(self.T):
                pmb_fill_paths(&self.trees, t, stack, covers, &to_left[0], &levels[0], &self.path[0], ratio)
        free(stack)
        self.group_paths()

    cdef find_batches(self):
        """Put trees that add to the same classes together while they are small."""
        sizes, size = np.diff(np.asarray(self.begin)[np.asarray(self.offset) + np.arange(self.T + 1)]), 0
        coded = self.code.shape[0] > 0
        order = np.arange(self.T) if coded else np.lexsort((self.base, self.cls))
        keys = np.zeros((self.T, 2)) if coded else np.stack([self.cls, self.base], axis=1)[order]
        fresh = np.ones(self.T, dtype=bool)
        fresh[1:] = (np.diff(keys, axis=0) != 0).any(axis=1)
        for i, own in enumerate(sizes[order].tolist()):
            fresh[i] |= size + own > MOST_IN_BATCH
            size = own if fresh[i] else size + own
        self.order, self.batches = order, np.append(np.flatnonzero(fresh), self.T)

    cdef group_paths(self):
        """Put the coefficients of every batch of trees in the order of their features."""
        cdef:
            Py_ssize_t n = self.path.shape[0], b, i, t, at_leaf, p, f, at = 0, group = 0, zero, leaf, end
            int64_t[::1] next_of = np.zeros(1 + np.asarray(self.path).max(), dtype=np.int64)
            int64_t own
        self.find_batches()
        self.start, self.group = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.place, self.rank = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.groups = np.zeros(self.batches.shape[0], dtype=np.int64)
        self.widest, self.most_leaves = 0, 1
        for b in range(self.batches.shape[0] - 1):
            zero, leaf = at, 0
            next_of[:] = 0
            for i in range(self.batches[b], self.batches[b + 1]):
                t = self.order[i]
                at_leaf, end = self.offset[t] + t, self.offset[t + 1] + t + 1
                for p in range(self.begin[at_leaf], self.begin[end]):
                    next_of[self.path[p]] += 1
            for f in range(next_of.shape[0]):
                own = next_of[f]
                if own:
                    self.group[group], self.start[group] = f, at
                    next_of[f] = at
                    at += own
                    group += 1
            for i in range(self.batches[b], self.batches[b + 1]):
                t = self.order[i]
                at_leaf, end = self.offset[t] + t, self.offset[t + 1] + t + 1
                for at_leaf in range(at_leaf, end):
                    for p in range(self.begin[at_leaf], self.begin[at_leaf + 1]):
                        own = next_of[self.path[p]]
                        self.place[own], self.rank[p] = leaf, own - zero
                        next_of[self.path[p]] += 1
                    leaf += 1
            self.groups[b + 1] = group
            self.widest, self.most_leaves = max(self.widest, at - zero), max(self.most_leaves, leaf)
        self.start[group] = at
        self.trees.groups, self.trees.group, self.trees.start = &self.groups[0], &self.group[0], &self.start[0]
        self.trees.leaf, self.trees.rank = &self.place[0], &self.rank[0]

    def by_covers(self, const int64_t[::1] cover, const double[::1] node, const double[::1] weight):
        """Take covers as the background.

        cover : IN (S + T + 1,), running sums of the rows of the leaves; node, weight : IN, Gauss's for 1, 2, ... nodes
        """
        cdef Py_ssize_t most = (PMB_PATH + 1) // 2 * ((PMB_PATH + 1) // 2 + 1) // 2
        if cover.shape[0] != self.begin.shape[0] or node.shape[0] < most or weight.shape[0] != node.shape[0]:
            raise ValueError("the covers do not fit the trees")
        self.ratio = np.zeros(self.path.shape[0])
        self.node, self.weight = np.array(node), np.array(weight)
        self.fill_paths(cover)
        self.back.ratio, self.back.node, self.back.weight = &self.ratio[0], &self.node[0], &self.weight[0]

    def by_rows(self, const float[:, ::1] xt):
        """Take rows as the background: xt : IN (features, rows), a row or more."""
        cdef:
            Py_ssize_t n = xt.shape[1], t, count = PMB_PATH + 1, leaves = 1 + int(np.diff(self.offset).max(initial=0))
            Scratch *s = self.new_scratch()
            uint64_t *seen = <uint64_t *> malloc(leaves * n * sizeof(uint64_t))
            bint fill
        if s == NULL or seen == NULL:
            free_scratch(s)
            free(seen)
            raise MemoryError("no memory for the patterns of the background; give fewer rows")
        self.fill_paths(None)
        self.first = np.zeros(self.begin.shape[0], dtype=np.int64)
        try:
            for fill in range(2):
                if fill:
                    np.cumsum(self.first, out=np.asarray(self.first))
                    size = self.first[self.first.shape[0] - 1] + 1
                    self.pattern, self.share = np.zeros(size, dtype=np.uint64), np.zeros(size)
                with nogil:
                    for t in range(self.T):
                        self.collect(t, xt, s, seen, fill)
        finally:
            free_scratch(s)
            free(seen)
        self.factorial = np.array(
            [[1 / ((i + j + 1) * math.comb(i + j, i)) for j in range(count)] for i in range(count)])
        self.back.first, self.back.pattern, self.back.share = &self.first[0], &self.pattern[0], &self.share[0]
        self.back.factorial = &self.factorial[0, 0]

    cdef void collect(self, Py_ssize_t t, const float[:, ::1] xt, Scratch *s, uint64_t *seen, bint fill) noexcept nogil:
        """Count the different patterns of the background at the leaves of a tree, then write them and their shares."""
        cdef:
            Py_ssize_t n = xt.shape[1], first = self.offset[t] + t, leaves = self.offset[t + 1] - self.offset[t] + 1
            Py_ssize_t row = 0, rows, r, at, to
            uint64_t full
        while row < n:
            rows = min(n - row, <Py_ssize_t> PMB_BLOCK)
            pmb_patterns(&self.trees, t, &xt[0, row], n, rows, s.stack, s.levels, s.pattern)
            for at in range(leaves):
                full = pmb_full(self.begin[first + at + 1] - self.begin[first + at])
                for r in range(rows):
                    seen[at * n + row + r] = s.pattern[at * PMB_BLOCK + r] & full
            row += rows
        for at in range(leaves):
            qsort(&seen[at * n], n, sizeof(uint64_t), &compare)
            to = self.first[first + at] - 1
            for r in range(n):
                if r and seen[at * n + r] == seen[at * n + r - 1]:
                    if fill:
                        self.share[to] += 1
                    continue
                to += 1
                if fill:
                    self.pattern[to] = seen[at * n + r]
                    self.share[to] = 1
                else:
                    self.first[first + at + 1] += 1
            if fill:
                for r in range(self.first[first + at], self.first[first + at + 1]):
                    self.share[r] /= n

    def count(self, const float[:, ::1] xt, int64_t[::1] cover):
        """Add the rows that fall into each leaf: xt : IN (features, rows); cover : IN/OUT (S + T,)."""
        cdef:
            Py_ssize_t n = xt.shape[1], t, at, r, row, rows, first, leaves
            Scratch *s = self.new_scratch()
        if cover.shape[0] != self.leaf.shape[0] or s == NULL:
            free_scratch(s)
            raise ValueError("the covers do not fit the trees") if s != NULL else MemoryError()
        with nogil:
            for t in range(self.T):
                first, leaves = self.offset[t] + t, self.offset[t + 1] - self.offset[t] + 1
                row = 0
                while row < n:
                    rows = min(n - row, <Py_ssize_t> PMB_BLOCK)
                    pmb_patterns(&self.trees, t, &xt[0, row], n, rows, s.stack, s.levels, s.pattern)
                    for at in range(leaves):
                        for r in range(rows):
                            cover[first + at] += s.pattern[at * PMB_BLOCK + r] == pmb_full(64)
                    row += rows
        free_scratch(s)

    cdef Scratch *new_scratch(self) noexcept nogil:
        cdef:
            Py_ssize_t leaves = 1, t
            Scratch *s = <Scratch *> malloc(sizeof(Scratch))
        if s == NULL:
            return NULL
        for t in range(self.T):
            leaves = max(leaves, self.offset[t + 1] - self.offset[t] + 1)
        s.stack = <pmb_frame *> malloc((self.depth + 2) * sizeof(pmb_frame))
        s.levels = <uint64_t *> malloc((self.depth + 1) * PMB_BLOCK * sizeof(uint64_t))
        s.pattern = <uint64_t *> malloc(leaves * PMB_BLOCK * sizeof(uint64_t))
        s.kept = <pmb_kept *> malloc(sizeof(pmb_kept))
        s.taken = <double *> calloc(self.widest * PMB_STEP + self.most_leaves * self.K + 2 * PMB_WIDE, sizeof(double))
        s.coefficients = s.taken + PMB_WIDE - (<uintptr_t> s.taken // sizeof(double)) % PMB_WIDE
        s.value = s.coefficients + self.widest * PMB_STEP
        if s.stack == NULL or s.levels == NULL or s.pattern == NULL or s.kept == NULL or s.taken == NULL:
            free_scratch(s)
            return NULL
        return s

    cdef void explain(self, const float[:, ::1] xt, Py_ssize_t row, Py_ssize_t n, const int64_t[::1] column,
                      double[:, :, ::1] out, Py_ssize_t fixed, Scratch *s) noexcept nogil:
        cdef:
            Py_ssize_t b, i, t, at, k, first, leaves, before, all, K = self.K
            bint coded = self.code.shape[0] > 0, vector = self.leaf.shape[1] == K
            Py_ssize_t width = K if vector or coded else 1
            double *to
            double *base
        for b in range(self.batches.shape[0] - 1):
            before, all = 0, 0
            for i in range(self.batches[b], self.batches[b + 1]):
                all += self.offset[self.order[i] + 1] - self.offset[self.order[i]] + 1
            for i in range(self.batches[b], self.batches[b + 1]):
                t = self.order[i]
                first, leaves = self.offset[t] + t, self.offset[t + 1] - self.offset[t] + 1
                for at in range(leaves):
                    for k in range(width):
                        s.value[pmb_tiled(before + at, all, k, width)] = self.leaf[first + at, k if vector else 0] * (
                            <double> self.code[self.cls[t], k] if coded else 1.0)
                before += leaves
                if leaves == 1:
                    continue
                pmb_patterns(&self.trees, t, &xt[0, row], xt.shape[1], n, s.stack, s.levels, s.pattern)
                if self.back.ratio != NULL:
                    pmb_by_covers(&self.trees, t, &self.back, s.pattern, n, fixed, s.coefficients)
                else:
                    pmb_by_rows(&self.trees, t, &self.back, s.pattern, n, fixed, s.kept,
                                s.coefficients)
            t = self.order[self.batches[b]]
            to, base = &out[row, 0, 0], NULL
            if width < K:
                if self.base[t] >= 0:
                    base = to + self.base[t]
                to += self.cls[t]
            pmb_add_batch(&self.trees, b, s.value, all, width, s.coefficients, n, &column[0], K, out.shape[1] * K, to,
                          base)

    def add(self, const float[:, ::1] xt, const int64_t[::1] column, double[:, :, ::1] out, int n_threads,
            Py_ssize_t fixed=-1):
        """Add the Shapley values of rows, or what they change by when one feature is given rather than left out.

        Parameters
        ----------
        xt : IN, (features, rows), C order
        column : IN, (features,): where they go in ``out``
        out : IN/OUT, (rows, columns, K)
        n_threads : at least 1
        fixed : that feature, a row of ``xt``; -1: none
        """
        cdef:
            Py_ssize_t m = xt.shape[1], blocks = (m + PMB_BLOCK - 1) // PMB_BLOCK, b
            Scratch **scratch
            bint good
            int t = 0
        if self.back.first == NULL and self.back.ratio == NULL:
            raise ValueError("there is no background yet")
        if out.shape[0] != m or out.shape[2] != self.K or column.shape[0] != xt.shape[0] or (
                xt.shape[0] and np.asarray(column).max() >= out.shape[1]):
            raise ValueError("the arrays do not fit the trees")
        if not m or not self.offset[self.T]:
            return
        n_threads = max(1, min(n_threads, blocks))
        scratch = <Scratch **> calloc(n_threads, sizeof(Scratch *))
        good = scratch != NULL
        for b in range(n_threads if good else 0):
            scratch[b] = self.new_scratch()
            good = good and scratch[b] != NULL
        if good:
            with nogil, parallel(num_threads=n_threads):
                t = threadid()
                for b in prange(blocks, schedule="static"):
                    self.explain(xt, b * PMB_BLOCK, min(m - b * PMB_BLOCK, <Py_ssize_t> PMB_BLOCK), column, out,
                                 fixed, scratch[t])
        for b in range(n_threads if scratch != NULL else 0):
            free_scratch(scratch[b])
        free(scratch)
        if not good:
            raise MemoryError("no memory for the paths of the trees; use fewer threads (n_jobs=1)")


cdef void free_scratch(Scratch *s) noexcept nogil:
    if s == NULL:
        return
    free(s.stack)
    free(s.levels)
    free(s.pattern)
    free(s.kept)
    free(s.taken)
    free(s)
