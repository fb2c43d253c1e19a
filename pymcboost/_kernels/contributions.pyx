# cython: language_level=3
"""Shapley values of trees for all classes at once; contributions.h has the formulas.

A row costs the leaves of a tree times the features of their paths times the classes. What does not depend on the
classes, the coefficients, is computed for many rows at once.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memset

from .contributions_trees cimport (PMB_SHAP_ROWS, PMB_SHAP_FEATURES, PMB_SHAP_SHORT, PMB_SHAP_STRIDE, Scratch,
                                   free_scratch, make_scratch, pmb_shap_add_batch, pmb_shap_background,
                                   pmb_shap_by_covers, pmb_shap_by_rows, pmb_shap_count_paths, pmb_shap_fill_paths,
                                   pmb_shap_subtree, pmb_shap_all_bits, pmb_shap_in_tiles, pmb_shap_make_tables,
                                   pmb_shap_row_patterns, pmb_shap_put_values, pmb_shap_untouched, pmb_shap_table_size,
                                   pmb_shap_tables, pmb_shap_trees,)
from .pool cimport pieces_of, run, threads_for

import math

import numpy as np

MOST_FEATURES = int(PMB_SHAP_FEATURES)
# Numbers in the tables of a batch's trees, if it has more than one: they stay in the cache. Twice as many where that
# leaves one batch: the results are then written once.
MOST_IN_BATCH = 1 << 17
# Numbers in the tables of patterns that are made once for all rows (16 MiB). Larger ones are made for each block.
MOST_KEPT = 1 << 21
# With fewer numbers than this in the tables, or in the sums over leaves, features and classes, one thread is faster.
FEW_NUMBERS = 1 << 15


# Rows that are explained; a piece is a block of them.
cdef struct Rows:
    void *explainer      # the Explainer, which outlives the call
    const float *xt      # (features and what else is asked, m)
    Py_ssize_t m
    const int64_t *column
    double *out          # (m, n_columns, K)
    Py_ssize_t n_columns
    Py_ssize_t fixed
    const pmb_shap_untouched *rest
    double *kept
    Scratch **scratch    # of each thread


# Tables that are made for all rows; a piece is a batch of trees.
cdef struct Tables:
    void *explainer
    Py_ssize_t fixed
    double *patterns


cdef int compare(const void *a, const void *b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t *> a)[0], y = (<const uint64_t *> b)[0]
    return (x > y) - (x < y)


cdef class Explainer:
    """The trees of a model (see `Trees`), and what stands for the background.

    Parameters
    ----------
    offset, feature, right : IN, int64; threshold : IN, float32; nan_left : IN, uint8
        As `Trees` has them.
    asked : IN, int64 (S,)
        Rows of the arrays ``xt`` below that thresholds are for; the first ones are those of the features.
    leaf : IN, float32 (S + T, 1 or K)
    cls, base : IN, int64 (T,), where leaves have one value
    code : IN, float32 (P, K), or (0, K) without a code
    n_classes : int
    """

    cdef:
        pmb_shap_trees trees
        pmb_shap_background back
        const int64_t[::1] offset, feature, asked, right, cls, base
        const float[::1] threshold
        const uint8_t[::1] nan_left
        const float[:, ::1] leaf, code
        Py_ssize_t depth, K, T, n_features, n_asked
        Py_ssize_t widest, longest, largest, most_leaves, most_values, most_splits, width
        uint8_t[::1] slot
        int64_t[::1] begin, path, first, table, groups, group, start, place, leaf_of, order, batches, kept_from
        int64_t[::1] heaviest, value_of, values_from, of_leaf, less, tree_of
        uint64_t[::1] pattern
        double[::1] share, ratio, node, weight
        double[:, ::1] factorial

    def __cinit__(self, const int64_t[::1] offset, const int64_t[::1] feature, const int64_t[::1] right,
                  const int64_t[::1] asked, const float[::1] threshold, const uint8_t[::1] nan_left,
                  const float[:, ::1] leaf, const int64_t[::1] cls, const int64_t[::1] base, const float[:, ::1] code,
                  Py_ssize_t n_classes):
        cdef Py_ssize_t S = feature.shape[0], T = offset.shape[0] - 1
        if offset[T] != S or right.shape[0] != S or threshold.shape[0] != S or nan_left.shape[0] != S or (
                asked.shape[0] != S or leaf.shape[0] != S + T or cls.shape[0] != T or base.shape[0] != T
                or code.shape[1] != n_classes):
            raise ValueError("the arrays do not make trees")
        self.offset, self.feature, self.right, self.cls, self.base = offset, feature, right, cls, base
        self.asked, self.n_features = asked, 1 + np.max(feature, initial=-1)
        self.n_asked = 1 + np.max(asked, initial=-1)
        self.threshold, self.nan_left, self.leaf, self.code = threshold, nan_left, leaf, code
        self.K, self.T = n_classes, T
        self.width = n_classes if leaf.shape[1] == n_classes or code.shape[0] else 1
        self.most_splits = np.diff(offset).max(initial=0)
        # One extra element, so that all arrays have an address.
        self.slot = np.zeros(S + 1, dtype=np.uint8)
        self.begin = np.zeros(S + T + 1, dtype=np.int64)
        self.trees.offset, self.trees.slot, self.trees.begin = &offset[0], &self.slot[0], &self.begin[0]
        if S:
            self.trees.feature, self.trees.right = &feature[0], &right[0]
            self.trees.threshold, self.trees.nan_left, self.trees.asked = &threshold[0], &nan_left[0], &asked[0]
        self.count_paths()

    cdef pmb_shap_subtree *new_stack(self) except NULL:
        cdef pmb_shap_subtree *stack = <pmb_shap_subtree *> malloc((self.most_splits + 2) * sizeof(pmb_shap_subtree))
        if stack == NULL:
            raise MemoryError("no memory for the paths of the trees")
        return stack

    cdef count_paths(self):
        cdef:
            pmb_shap_subtree *stack = self.new_stack()
            Py_ssize_t t
            int32_t depth = 0
        self.depth = 0
        for t in range(self.T):
            depth = pmb_shap_count_paths(&self.trees, t, stack, &self.begin[1])
            if depth < 0:
                break
            self.depth = max(self.depth, depth)
        free(stack)
        if depth == -2:
            raise ValueError(f"right does not describe tree {t}")
        if depth < 0:
            raise ValueError(f"tree {t} has a path whose splits are on more than {PMB_SHAP_FEATURES} different "
                             "features, which contributions cannot take; train with a smaller max_depth or "
                             "fewer leaves")
        np.cumsum(self.begin, out=np.asarray(self.begin))
        self.path = np.zeros(self.begin[self.begin.shape[0] - 1] + 1, dtype=np.int64)
        self.heaviest = np.zeros(self.path.shape[0], dtype=np.int64)
        self.trees.path = &self.path[0]

    cdef fill_paths(self, const int64_t[::1] cover):
        cdef:
            double *ratio = NULL
            double[::1] to_left = np.zeros(self.slot.shape[0])
            double[::1] levels = np.zeros((self.depth + 1) * PMB_SHAP_FEATURES)
            const int64_t *covers = NULL
            pmb_shap_subtree *stack = self.new_stack()  # last: what fails above would lose it
            Py_ssize_t t
        if cover is not None:
            ratio, covers = &self.ratio[0], &cover[0]
        with nogil:
            for t in range(self.T):
                pmb_shap_fill_paths(&self.trees, t, stack, covers, &to_left[0], &levels[0], &self.path[0],
                                    &self.heaviest[0], ratio)
        free(stack)
        self.group_paths()

    cdef rooms(self):
        """Number of values in the tables of every leaf."""
        lengths = np.diff(self.begin)
        return lengths * np.array([pmb_shap_table_size(d) for d in range(PMB_SHAP_FEATURES + 1)])[lengths]

    cdef find_batches(self):
        """Put trees that add to the same classes together while they are small."""
        ends, size = np.concatenate([[0], np.cumsum(self.rooms())]), 0
        sizes = np.diff(ends[np.asarray(self.offset) + np.arange(self.T + 1)])
        coded = self.code.shape[0] > 0
        order = np.arange(self.T) if coded else np.lexsort((self.base, self.cls))
        keys = np.zeros((self.T, 2)) if coded else np.stack([self.cls, self.base], axis=1)[order]
        fresh = np.ones(self.T, dtype=bool)
        fresh[1:] = (np.diff(keys, axis=0) != 0).any(axis=1)
        most = MOST_IN_BATCH if sizes.sum() > 2 * MOST_IN_BATCH else 2 * MOST_IN_BATCH
        for i, own in enumerate(sizes[order].tolist()):
            fresh[i] |= size + own > most
            size = own if fresh[i] else size + own
        self.order, self.batches = order, np.append(np.flatnonzero(fresh), self.T)

    cdef make_room(self):
        """Allocate arrays for the paths, leaves and batches."""
        cdef Py_ssize_t n = self.path.shape[0], n_batches = self.batches.shape[0]
        self.start, self.group = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.place, self.leaf_of = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.value_of, self.tree_of = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.of_leaf, self.less = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.table, self.groups = np.zeros(self.begin.shape[0], dtype=np.int64), np.zeros(n_batches, dtype=np.int64)
        self.kept_from, self.values_from = np.zeros(n_batches, dtype=np.int64), np.zeros(n_batches, dtype=np.int64)
        self.widest, self.longest, self.largest, self.most_leaves, self.most_values = 0, 0, 0, 1, 0

    cdef group_paths(self):
        """Place the tables of the batches one after the other, and index them by feature."""
        cdef:
            Py_ssize_t b, i, t, at_leaf, p, f, at = 0, group = 0, leaf, end, room
            Py_ssize_t patterns, rows, values = 0
            bint is_long
            int64_t[::1] next_of = np.zeros(1 + np.asarray(self.path).max(), dtype=np.int64)
            int64_t own, other
        self.find_batches()
        self.make_room()
        for b in range(self.batches.shape[0] - 1):
            patterns, rows, leaf = 0, 0, 0
            next_of[:] = 0
            for i in range(self.batches[b], self.batches[b + 1]):
                t = self.order[i]
                at_leaf, end = self.offset[t] + t, self.offset[t + 1] + t + 1
                for at_leaf in range(at_leaf, end):
                    for p in range(self.begin[at_leaf], self.begin[at_leaf + 1]):
                        next_of[self.path[p]] += self.heaviest[p] != at_leaf
            for f in range(next_of.shape[0]):
                own = next_of[f]
                if own:
                    self.group[group], self.start[group] = f, at
                    next_of[f] = at
                    at += own
                    group += 1
                    self.largest = max(self.largest, own)
            for i in range(self.batches[b], self.batches[b + 1]):
                t = self.order[i]
                at_leaf, end = self.offset[t] + t, self.offset[t + 1] + t + 1
                for at_leaf in range(at_leaf, end):
                    own = self.begin[at_leaf + 1] - self.begin[at_leaf]
                    room, is_long = pmb_shap_table_size(own), own > PMB_SHAP_SHORT
                    self.table[at_leaf] = rows if is_long else patterns
                    other = -1
                    for p in range(self.begin[at_leaf], self.begin[at_leaf + 1]):
                        if self.heaviest[p] != at_leaf:
                            if self.heaviest[p] != other:
                                other = self.heaviest[p]
                                self.of_leaf[values], self.less[values], self.tree_of[values] = at_leaf, other, t
                                values += 1
                            own = next_of[self.path[p]]
                            self.leaf_of[own], self.place[own] = leaf, ~rows if is_long else patterns
                            self.value_of[own] = values - 1 - self.values_from[b]
                            next_of[self.path[p]] += 1
                        if is_long:
                            rows += room
                        else:
                            patterns += room
                    leaf += 1
            self.groups[b + 1], self.kept_from[b + 1] = group, self.kept_from[b] + patterns
            self.values_from[b + 1] = values
            self.most_values = max(self.most_values, values - self.values_from[b])
            self.widest, self.longest = max(self.widest, patterns), max(self.longest, rows)
            self.most_leaves = max(self.most_leaves, leaf)
        self.start[group] = at
        self.trees.groups, self.trees.group, self.trees.start = &self.groups[0], &self.group[0], &self.start[0]
        self.trees.value = &self.value_of[0]
        self.trees.leaf, self.trees.place, self.trees.table = &self.leaf_of[0], &self.place[0], &self.table[0]

    def by_covers(self, const int64_t[::1] cover, const double[::1] node, const double[::1] weight):
        """Use covers as the background.

        cover : IN (S + T + 1,), running sums of the rows of the leaves; node, weight : IN, Gauss's for 1, 2, ... nodes
        """
        cdef Py_ssize_t most = (PMB_SHAP_FEATURES + 1) // 2 * ((PMB_SHAP_FEATURES + 1) // 2 + 1) // 2
        if cover.shape[0] != self.begin.shape[0] or node.shape[0] < most or weight.shape[0] != node.shape[0]:
            raise ValueError("the covers do not fit the trees")
        self.ratio = np.zeros(self.path.shape[0])
        self.node, self.weight = np.array(node), np.array(weight)
        self.fill_paths(cover)
        self.back.ratio, self.back.node, self.back.weight = &self.ratio[0], &self.node[0], &self.weight[0]

    def by_rows(self, const float[:, ::1] xt):
        """Use rows as the background: xt : IN (features, rows), at least one row."""
        cdef:
            Py_ssize_t n = xt.shape[1], t, count = PMB_SHAP_FEATURES + 1
            Py_ssize_t leaves = 1 + int(np.diff(self.offset).max(initial=0))
            Scratch *s = self.new_scratch()
            uint64_t *seen = <uint64_t *> malloc(leaves * n * sizeof(uint64_t))
            bint fill
        if s == NULL or seen == NULL:
            free_scratch(s)
            free(seen)
            raise MemoryError("no memory for the patterns of the background; give fewer rows")
        try:
            self.fill_paths(None)
            self.first = np.zeros(self.begin.shape[0], dtype=np.int64)
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
            rows = min(n - row, <Py_ssize_t> PMB_SHAP_ROWS)
            pmb_shap_row_patterns(&self.trees, t, &xt[0, row], n, rows, s.stack, s.levels, s.pattern)
            for at in range(leaves):
                full = pmb_shap_all_bits(self.begin[first + at + 1] - self.begin[first + at])
                for r in range(rows):
                    seen[at * n + row + r] = s.pattern[at * PMB_SHAP_ROWS + r] & full
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
        if cover.shape[0] != self.leaf.shape[0] or xt.shape[0] < self.n_asked or s == NULL:
            free_scratch(s)
            raise ValueError("the covers do not fit the trees") if s != NULL else MemoryError()
        with nogil:
            for t in range(self.T):
                first, leaves = self.offset[t] + t, self.offset[t + 1] - self.offset[t] + 1
                row = 0
                while row < n:
                    rows = min(n - row, <Py_ssize_t> PMB_SHAP_ROWS)
                    pmb_shap_row_patterns(&self.trees, t, &xt[0, row], n, rows, s.stack, s.levels, s.pattern)
                    for at in range(leaves):
                        for r in range(rows):
                            cover[first + at] += s.pattern[at * PMB_SHAP_ROWS + r] == pmb_shap_all_bits(64)
                    row += rows
        free_scratch(s)

    cdef Scratch *new_scratch(self) noexcept nogil:
        return make_scratch(self.most_splits + 1, self.depth + 1, self.most_leaves, self.largest * PMB_SHAP_STRIDE,
                            self.widest, self.longest, self.most_values * pmb_shap_in_tiles(self.K))

    cdef void explain(self, const Rows *rows, Py_ssize_t row, Py_ssize_t n, Scratch *s) noexcept nogil:
        """Add the Shapley values of the n rows from ``row`` on."""
        cdef:
            Py_ssize_t b, i, t, leaves, before, all, K = self.K, width = self.width, step = rows.n_columns * K
            double *out = rows.out + row * step
            double *to
            double *base
            const pmb_shap_untouched *rest = rows.rest
            double *kept = rows.kept
            Py_ssize_t fixed = rows.fixed
            pmb_shap_tables tables = s.tables
        if rest != NULL and width < K:
            memset(out, 0, n * step * sizeof(double))
        for b in range(self.batches.shape[0] - 1):
            tables.made = kept != NULL
            if kept != NULL:
                tables.patterns = kept + self.kept_from[b]
            before, all = 0, self.values_from[b + 1] - self.values_from[b]
            if s.valued != b:
                self.put_values(b, s.value)
                s.valued = b
            for i in range(self.batches[b], self.batches[b + 1]):
                t = self.order[i]
                leaves = self.offset[t + 1] - self.offset[t] + 1
                before += leaves
                if leaves == 1:
                    continue
                pmb_shap_row_patterns(&self.trees, t, rows.xt + row, rows.m, n, s.stack, s.levels, s.pattern)
                if self.back.ratio != NULL:
                    pmb_shap_by_covers(&self.trees, t, &self.back, s.pattern, n, fixed, before - leaves, &tables)
                else:
                    pmb_shap_by_rows(&self.trees, t, &self.back, s.pattern, n, fixed, before - leaves, &tables, s.kept)
            t = self.order[self.batches[b]]
            to, base = out, NULL
            if width < K:
                if self.base[t] >= 0:
                    base = to + self.base[t]
                to += self.cls[t]
            pmb_shap_add_batch(&self.trees, b, s.value, all, width, &tables, n, rows.column, K, step, to, base,
                               rest if width == K and b == 0 else NULL, s.coefficients)

    cdef void put_values(self, Py_ssize_t batch, double *value) noexcept nogil:
        """Factors of the coefficients of a batch: the values of a leaf minus those of another."""
        cdef:
            Py_ssize_t i, first = self.values_from[batch], all = self.values_from[batch + 1] - first, K = self.width
            const float *code = NULL
        for i in range(first, first + all):
            if self.code.shape[0]:
                code = &self.code[self.cls[self.tree_of[i]], 0]
            pmb_shap_put_values(&self.leaf[self.of_leaf[i], 0], &self.leaf[self.less[i], 0], code,
                                self.leaf.shape[1] == K, i - first, all, K, value)

    cdef double[::1] keep(self, Py_ssize_t fixed, Py_ssize_t blocks, int n_threads):
        """Tables of all patterns, at least one number; None if they are too large, or for a single block of rows."""
        cdef:
            Py_ssize_t n_batches = self.batches.shape[0] - 1, size = self.kept_from[n_batches]
            double[::1] kept
            Tables tables
            int most = threads_for(n_threads, size, FEW_NUMBERS)
        if self.back.ratio == NULL or blocks < 2 or size > MOST_KEPT:
            return None
        kept = np.empty(size + 1)
        tables.explainer, tables.fixed, tables.patterns = <void *> self, fixed, &kept[0]
        with nogil:
            run(most, n_batches, tables_piece, &tables)
        return kept

    cdef void make_tables(self, Py_ssize_t batch, Py_ssize_t fixed, double *kept) noexcept nogil:
        """Make the tables of a batch, in their place in ``kept``."""
        cdef:
            Py_ssize_t i
            double *patterns = kept + self.kept_from[batch]
        for i in range(self.batches[batch], self.batches[batch + 1]):
            pmb_shap_make_tables(&self.trees, self.order[i], &self.back, fixed, patterns)

    def add(self, const float[:, ::1] xt, const int64_t[::1] column, double[:, :, ::1] out, int n_threads,
            Py_ssize_t fixed=-1, bint fresh=False):
        """Add the Shapley values of rows, or what they change by when one feature is given rather than left out.

        Parameters
        ----------
        xt : IN, (features and what else is asked, rows), C order
        column : IN, (features,): where they go in ``out``
        out : IN/OUT, (rows, columns, K)
        n_threads : at least 1
        fixed : that feature, a row of ``xt``; -1: none
        fresh : whether ``out`` holds nothing yet, and counts as zeros
        """
        cdef:
            Py_ssize_t m = xt.shape[1], blocks = pieces_of(m, PMB_SHAP_ROWS), b
            Rows rows
            Scratch **scratch
            double[::1] kept
            int64_t[::1] others
            pmb_shap_untouched rest
            bint good
        if self.back.first == NULL and self.back.ratio == NULL:
            raise ValueError("there is no background yet")
        if out.shape[0] != m or out.shape[2] != self.K or column.shape[0] < self.n_features or (
                xt.shape[0] < self.n_asked or np.max(column, initial=-1) >= out.shape[1]):
            raise ValueError("the arrays do not fit the trees")
        if not m or not self.offset[self.T]:
            if fresh:
                out[:] = 0.0
            return
        n_threads = max(1, min(n_threads, blocks))
        if m * self.path.shape[0] * self.width < FEW_NUMBERS:
            n_threads = 1
        used = np.asarray(column)[np.asarray(self.group)[:self.groups[1]]]
        others = np.append(np.setdiff1d(np.arange(out.shape[1]), used), 0)  # one more, so that they have an address
        rest.columns, rest.n = &others[0], others.shape[0] - 1
        kept = self.keep(fixed, blocks, n_threads)
        rows.explainer, rows.xt, rows.m, rows.column = <void *> self, &xt[0, 0], m, &column[0]
        rows.out, rows.n_columns, rows.fixed = &out[0, 0, 0], out.shape[1], fixed
        rows.rest = &rest if fresh else NULL
        rows.kept = NULL if kept is None else &kept[0]
        scratch = <Scratch **> calloc(n_threads, sizeof(Scratch *))
        good = scratch != NULL
        for b in range(n_threads if good else 0):
            scratch[b] = self.new_scratch()
            good = good and scratch[b] != NULL
        if good:
            rows.scratch = scratch
            with nogil:
                run(n_threads, blocks, rows_piece, &rows)
        for b in range(n_threads if scratch != NULL else 0):
            free_scratch(scratch[b])
        free(scratch)
        if not good:
            raise MemoryError("no memory for the paths of the trees; use fewer threads (n_jobs=1)")


cdef void rows_piece(void *what, int64_t b, int thread) noexcept nogil:
    cdef const Rows *rows = <const Rows *> what
    cdef Py_ssize_t first = b * PMB_SHAP_ROWS
    (<Explainer> rows.explainer).explain(rows, first, min(rows.m - first, <Py_ssize_t> PMB_SHAP_ROWS),
                                         rows.scratch[thread])


cdef void tables_piece(void *what, int64_t b, int thread) noexcept nogil:
    cdef const Tables *p = <const Tables *> what
    (<Explainer> p.explainer).make_tables(b, p.fixed, p.patterns)
