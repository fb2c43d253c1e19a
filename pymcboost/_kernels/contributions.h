/* Shapley values of trees, leaf by leaf.
 *
 * The path to a leaf asks about D different features. A coalition S of features reaches the leaf where every feature of
 * S, taken from the row, passes all of its questions (a_j = 1), and every other one, taken from the background, does
 * (b_j = 1). With g_j(t) = a_j t + b_j (1 - t), feature j gets the leaf's value times
 *
 *     (a_j - b_j) * integral over t from 0 to 1 of the product over i != j of g_i(t).
 *
 * Background rows: b_j is 0 or 1, the integral is a quotient of factorials, and rows of equal bits count at once.
 * Covers: b_j is the share of the rows that pass. The integrand has degree D - 1: Gauss's quadrature with D / 2 nodes,
 * rounded up, is exact, and all terms are positive. Neither depends on the leaf's values, which are then added for all
 * classes at once.
 *
 * Interactions of j with a fixed feature q: g_q(t) is a_q - b_q for all t. A leaf that does not ask about q gives
 * none. */
#ifndef PYMCBOOST_CONTRIBUTIONS_H
#define PYMCBOOST_CONTRIBUTIONS_H

#include "lanes.h"

#define PMB_PATH 64   /* most features of a path: bits of a pattern */
#define PMB_BLOCK 256 /* rows that are looked at together, a multiple of PMB_WIDE: their numbers fit a byte */
#define PMB_WIDE 8
#define PMB_STEP (PMB_BLOCK + PMB_WIDE) /* from a coefficient to the next: a power of two would share few cache lines */
#define PMB_NEAR (1 << 17) /* values of leaves that are read anew for each few rows */
#define PMB_SHORT 8   /* paths of so many features have at most PMB_BLOCK patterns */

/* Vectors of one register each: gcc would keep wider ones in memory. Those of classes fill the largest registers. */
#ifdef PMB_VECTORS
#ifdef __x86_64__
#define PMB_LANE 4
#else
#define PMB_LANE 2
#endif
typedef double pmb_lanes __attribute__((vector_size(8 * PMB_LANE)));
typedef double pmb_classes __attribute__((vector_size(8 * PMB_WIDE)));
typedef double pmb_two __attribute__((vector_size(16)));
#else
#define PMB_LANE 1
typedef double pmb_lanes, pmb_classes, pmb_two;
#endif

/* Coefficients of patterns that are kept. */
typedef struct {
    uint64_t keys[PMB_BLOCK];
    double of[PMB_BLOCK][PMB_PATH];
} pmb_kept;

typedef struct {
    int64_t begin, end, at; /* splits of the subtree, its first leaf */
    int64_t parent;         /* the split above, -1 at the root */
    int32_t level, n;       /* splits above, different features above */
    int32_t left, fresh;    /* the side; whether no split further up has the feature of the one above */
} pmb_frame;

/* Trees as pymcboost.model.trees.Trees has them, and what pmb_paths finds. */
typedef struct {
    const int64_t *offset, *feature, *right;
    const int64_t *asked; /* of every split: the row of the features that its threshold is for */
    const float *threshold;
    const uint8_t *nan_left;
    uint8_t *slot;        /* of every split: the place of its feature among those of the path */
    const int64_t *begin, *path; /* path[begin[l]] to path[begin[l + 1]] are the features of leaf l */
    /* A feature of a path has a table of coefficients (pmb_room). table[l] is where those of leaf l begin, of a batch
     * of trees: among the tables of patterns for a short path, of rows for a long one. The batch by features, in
     * groups: group[i] is a feature, its leaves (of the batch) and the places of its tables (less 1 and negative: of
     * rows) are those from start[i] to start[i + 1]; groups[b] to groups[b + 1] are of batch b. value[i] is the number
     * of the values that its coefficients are for: see pmb_heaviest. */
    const int64_t *table, *groups, *group, *start, *leaf, *place, *value;
} pmb_trees;

/* What stands for the background. */
typedef struct {
    const int64_t *first;    /* rows: patterns first[l] to first[l + 1] are those of leaf l ... */
    const uint64_t *pattern;
    const double *share;     /* ... and their shares of the rows. */
    const double *factorial; /* i! j! / (i + j + 1)! at [i * (PMB_PATH + 1) + j] */
    const double *ratio;     /* covers: shares of the rows that pass, along `path`; else NULL */
    const double *node, *weight; /* Gauss's for 1, 2, ... nodes on [0, 1], one after the other */
} pmb_background;

PMB_INLINE pmb_frame pmb_root(const pmb_trees *m, int64_t tree) {
    pmb_frame f = {m->offset[tree], m->offset[tree + 1], m->offset[tree] + tree, -1, 0, 0, 0, 0};
    return f;
}

/* Put the children of the split that a frame begins with on the stack, the left one on top. */
PMB_INLINE pmb_frame *pmb_children(pmb_frame *top, pmb_frame f, int64_t right, int32_t n) {
    const pmb_frame l = {f.begin + 1, f.begin + right, f.at, f.begin, f.level + 1, n, 1, n > f.n};
    const pmb_frame r = {f.begin + right, f.end, f.at + right, f.begin, f.level + 1, n, 0, n > f.n};
    *top++ = r;
    *top++ = l;
    return top;
}

/* Number of different features of the path to every leaf of a tree. Writes m->slot. Returns the depth of the tree, -1
 * where there are too many features, -2 where `right` makes no tree. What a level holds stays as long as subtrees of it are on the stack: deeper ones
 * write behind it. */
PMB_STATIC int32_t pmb_count_paths(const pmb_trees *m, int64_t tree, pmb_frame *stack, int64_t *count) {
    int64_t names[PMB_PATH];
    int32_t deepest = 0;
    pmb_frame *top = stack;
    *top++ = pmb_root(m, tree);
    while (top > stack) {
        const pmb_frame f = *--top;
        int32_t n = f.n, q = 0;
        if (f.begin == f.end) {
            count[f.at] = n;
            if (f.level > deepest) deepest = f.level;
            continue;
        }
        if (m->right[f.begin] < 1 || m->right[f.begin] > f.end - f.begin) return -2;
        while (q < n && names[q] != m->feature[f.begin]) q++;
        if (q == n) {
            if (n == PMB_PATH) return -1;
            names[n++] = m->feature[f.begin];
        }
        m->slot[f.begin] = (uint8_t)q;
        top = pmb_children(top, f, m->right[f.begin], n);
    }
    return deepest;
}

/* The leaf below a split, or itself, that lies where there are more leaves, again and again.
 *
 * The coefficients of a feature for the leaves below the first split on it sum to 0: with equal leaves it would not
 * matter. Thus one of the leaves needs no coefficient where its values are subtracted from the others'. This one is
 * that of many splits, so that there are few differences of leaves. */
PMB_INLINE int64_t pmb_heaviest(const pmb_trees *m, pmb_frame f) {
    while (f.begin < f.end) {
        const int64_t left = m->right[f.begin], right = f.end - f.begin - left + 1;
        if (left >= right) {
            f.end = f.begin + left;
            f.begin++;
        } else {
            f.begin += left;
            f.at += left;
        }
    }
    return f.at;
}

/* The features of the paths of a tree, and the heaviest leaves below the first splits on them. With running sums of the leaves' covers, also the shares of the rows that pass:
 * a split that no row reaches halves them. to_left: one number for every split; levels: PMB_PATH numbers for each. */
PMB_STATIC void pmb_fill_paths(const pmb_trees *m, int64_t tree, pmb_frame *stack, const int64_t *cover,
                               double *to_left, double *levels, int64_t *path, int64_t *heaviest,
                               double *ratio) {
    int64_t names[PMB_PATH], leaves[PMB_PATH];
    pmb_frame *top = stack;
    *top++ = pmb_root(m, tree);
    while (top > stack) {
        const pmb_frame f = *--top;
        const int64_t step = f.begin < f.end ? m->right[f.begin] : 0;
        double *own = levels + (int64_t)f.level * PMB_PATH;
        if (ratio && f.parent >= 0) {
            const int q = m->slot[f.parent];
            const double share = f.left ? to_left[f.parent] : 1.0 - to_left[f.parent];
            memcpy(own, own - PMB_PATH, sizeof *own * (size_t)f.n);
            own[q] = f.fresh ? share : own[q] * share;
        }
        if (!step) {
            const int64_t at = m->begin[f.at];
            memcpy(path + at, names, sizeof *names * (size_t)f.n);
            memcpy(heaviest + at, leaves, sizeof *leaves * (size_t)f.n);
            if (ratio) memcpy(ratio + at, own, sizeof *own * (size_t)f.n);
            continue;
        }
        if (ratio) {
            const int64_t rows = cover[f.at + f.end - f.begin + 1] - cover[f.at];
            to_left[f.begin] = rows ? (double)(cover[f.at + step] - cover[f.at]) / (double)rows : 0.5;
        }
        names[m->slot[f.begin]] = m->feature[f.begin];
        if (m->slot[f.begin] == f.n) leaves[f.n] = pmb_heaviest(m, f);
        top = pmb_children(top, f, step, m->slot[f.begin] == f.n ? f.n + 1 : f.n);
    }
}

/* pattern[l * PMB_BLOCK + r]: bit j says that row r passes all questions about feature j on the path to leaf l of the
 * tree. Bits from D on are 1. levels: PMB_BLOCK numbers for each. */
PMB_CLONES PMB_STATIC void pmb_patterns(const pmb_trees *m, int64_t tree, const float *xt, int64_t stride, int64_t n,
                                        pmb_frame *stack, uint64_t *levels, uint64_t *pattern) {
    pmb_frame *top = stack;
    *top++ = pmb_root(m, tree);
    while (top > stack) {
        const pmb_frame f = *--top;
        const int leaf = f.begin == f.end;
        uint64_t *PMB_RESTRICT own = leaf ? pattern + (f.at - m->offset[tree] - tree) * PMB_BLOCK
                                          : levels + (int64_t)f.level * PMB_BLOCK;
        if (f.parent < 0) {
            for (int64_t r = 0; r < n; r++) own[r] = ~(uint64_t)0;
        } else {
            const uint64_t *PMB_RESTRICT above = levels + (int64_t)(f.level - 1) * PMB_BLOCK;
            const float *PMB_RESTRICT x = xt + m->asked[f.parent] * stride;
            const float t = m->threshold[f.parent];
            const uint64_t bit = (uint64_t)1 << m->slot[f.parent];
            const int missing_passes = (m->nan_left[f.parent] != 0) == f.left;
            if (f.left)
                for (int64_t r = 0; r < n; r++) own[r] = above[r] & (x[r] <= t ? ~(uint64_t)0 : ~bit);
            else
                for (int64_t r = 0; r < n; r++) own[r] = above[r] & (x[r] > t ? ~(uint64_t)0 : ~bit);
            if (missing_passes)
                for (int64_t r = 0; r < n; r++) own[r] |= x[r] != x[r] ? above[r] & bit : 0;
        }
        if (!leaf)
            top = pmb_children(top, f, m->right[f.begin], m->slot[f.begin] == f.n ? f.n + 1 : f.n);
    }
}

/* Coefficients of the leaves of a batch for a block of rows. */
typedef struct {
    double *patterns, *rows; /* tables of short paths, of long ones */
    uint8_t *at;             /* of each leaf and row: the place in the leaf's tables, PMB_BLOCK for each leaf */
    int made;                /* whether `patterns` has been written before */
} pmb_tables;

/* Columns of the results that no tree of a batch adds to. */
typedef struct {
    const int64_t *columns;
    int64_t n;
} pmb_rest;

/* Numbers in the table of a feature, on a path of d of them: one for each pattern, or for each row of a block. */
PMB_INLINE int64_t pmb_room(int64_t d) {
    return d > PMB_SHORT ? PMB_BLOCK : d > 3 ? (int64_t)1 << d : PMB_WIDE;
}

PMB_INLINE uint64_t pmb_full(int64_t d) { return d < 64 ? ((uint64_t)1 << d) - 1 : ~(uint64_t)0; }

PMB_INLINE int pmb_bits(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    return (int)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}

/* Place of a fixed feature among those of a leaf, -1 without one. 0 if the leaf does not ask about it. */
PMB_INLINE int pmb_place(const pmb_trees *m, int64_t leaf, int64_t fixed, int64_t *place) {
    const int64_t d = m->begin[leaf + 1] - m->begin[leaf], *path = m->path + m->begin[leaf];
    *place = -1;
    if (fixed < 0) return 1;
    for (int64_t j = 0; j < d; j++)
        if (path[j] == fixed) *place = j;
    return *place >= 0;
}

/* Coefficients c of a leaf for rows of pattern a, against the patterns of background rows; q: see pmb_place. */
PMB_INLINE void pmb_between(const pmb_background *b, int64_t leaf, uint64_t a, int64_t d, int64_t q, double *c) {
    const uint64_t full = pmb_full(d), fixed = q < 0 ? 0 : (uint64_t)1 << q;
    for (int64_t j = 0; j < d; j++) c[j] = 0.0;
    for (int64_t i = b->first[leaf]; i < b->first[leaf + 1]; i++) {
        const uint64_t z = b->pattern[i], only_a = a & ~z & full & ~fixed, only_z = z & ~a & full & ~fixed;
        const double share = a & fixed || !fixed ? b->share[i] : -b->share[i];
        double plus, minus;
        int u, v;
        if (((a | z) & full) != full || a == z || (fixed && !((a ^ z) & fixed))) continue;
        u = pmb_bits(only_a);
        v = pmb_bits(only_z);
        plus = u ? share * b->factorial[(u - 1) * (PMB_PATH + 1) + v] : 0.0;
        minus = v ? share * b->factorial[u * (PMB_PATH + 1) + v - 1] : 0.0;
        for (int64_t j = 0; j < d; j++)
            c[j] += (double)(only_a >> j & 1) * plus - (double)(only_z >> j & 1) * minus;
    }
}

/* The same against shares of rows, for PMB_WIDE patterns at once: c[j][l] is that of feature j for pattern l. */
PMB_INLINE void pmb_along(const pmb_background *b, const double *ratio, const uint64_t *a, int64_t d, int64_t fixed,
                          double (*PMB_RESTRICT c)[PMB_WIDE]) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2;
    for (int part = 0; part < PMB_WIDE; part += PMB_LANE, a += PMB_LANE) {
        pmb_lanes zero, row[PMB_PATH], other[PMB_PATH], g[PMB_PATH], before[PMB_PATH], sum[PMB_PATH];
        memset(&zero, 0, sizeof zero);
        for (int64_t j = 0; j < d; j++) {
            double bits[PMB_LANE];
            PMB_LANES(l, PMB_LANE) bits[l] = (double)(int64_t)(a[l] >> j & 1);
            memcpy(row + j, bits, sizeof bits);
            sum[j] = zero;
            other[j] = sum[j] + ratio[j];
            if (j == fixed) other[j] = row[j] = row[j] - ratio[j];
        }
        for (int64_t q = from; q < from + nodes; q++) {
            const double t = b->node[q], s = 1.0 - t;
            pmb_lanes product = zero + b->weight[q];
            for (int64_t j = 0; j < d; j++) {
                g[j] = row[j] * t + other[j] * s;
                before[j] = product;
                product *= g[j];
            }
            product = zero + 1.0;
            for (int64_t j = d; j-- > 0;) {
                sum[j] += before[j] * product;
                product *= g[j];
            }
        }
        for (int64_t j = 0; j < d; j++) {
            const pmb_lanes found = sum[j] * (row[j] - other[j]);
            memcpy(c[j] + part, &found, sizeof found);
        }
    }
}

/* product[p] = start times what the features of a path give, for all patterns p of their bits; give: of bits 0, 1. */
PMB_INLINE void pmb_of_patterns(double start, const double (*give)[2], int64_t d, double *PMB_RESTRICT product) {
    product[0] = start;
    for (int64_t j = 0; j < d; j++) {
        const int64_t n = (int64_t)1 << j;
        for (int64_t p = 0; p < n; p++) product[n + p] = product[p] * give[j][1];
        for (int64_t p = 0; p < n; p++) product[p] *= give[j][0];
    }
}

/* sum += a b, for PMB_WIDE numbers. */
PMB_INLINE void pmb_add_product(double *sum, const double *a, const double *b) {
#ifdef PMB_VECTORS
    pmb_classes s, x, y;
    memcpy(&s, sum, sizeof s);
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    s += x * y;
    memcpy(sum, &s, sizeof s);
#else
    for (int l = 0; l < PMB_WIDE; l++) sum[l] += a[l] * b[l];
#endif
}

/* What each feature of a short path gives to the product at node q of the quadrature, and what turns the product over
 * all i into a_j - b_j times that over i != j, for bits 0 and 1. Where g_j is 0, a_j - b_j is 0 too. */
PMB_INLINE void pmb_factors(const pmb_background *b, const double *ratio, int64_t d, int64_t fixed, int64_t q,
                            double (*give)[2], double (*of)[2]) {
    const double t = b->node[q], s = 1.0 - t;
    for (int64_t j = 0; j < d; j++) {
        give[j][0] = j == fixed ? -ratio[j] : ratio[j] * s;
        give[j][1] = j == fixed ? 1.0 - ratio[j] : t + ratio[j] * s;
        of[j][0] = j != fixed && ratio[j] > 0.0 ? -1.0 / s : 0.0;
        of[j][1] = j != fixed ? (1.0 - ratio[j]) / give[j][1] : 0.0;
    }
}

/* The coefficients of PMB_WIDE patterns of a short path: c[j][l] is that of feature j for pattern l. */
PMB_INLINE void pmb_some_patterns(const pmb_background *b, const double *ratio, const uint64_t *a, int64_t d,
                                  int64_t fixed, double (*PMB_RESTRICT c)[PMB_WIDE]) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2;
    double give[PMB_SHORT][2], of[PMB_SHORT][2];
    memset(c, 0, sizeof *c * (size_t)d);
    for (int64_t q = from; q < from + nodes; q++) {
        double product[PMB_WIDE];
        pmb_factors(b, ratio, d, fixed, q, give, of);
        for (int l = 0; l < PMB_WIDE; l++) product[l] = b->weight[q];
        for (int64_t j = 0; j < d; j++)
            for (int l = 0; l < PMB_WIDE; l++) product[l] *= give[j][a[l] >> j & 1];
        for (int64_t j = 0; j < d; j++)
            for (int l = 0; l < PMB_WIDE; l++) c[j][l] += product[l] * of[j][a[l] >> j & 1];
    }
}

/* The same for all patterns: that of feature j for pattern p is table[j * pmb_room(d) + p]. Products and sums have the
 * same order. */
PMB_INLINE void pmb_all_patterns(const pmb_background *b, const double *ratio, int64_t d, int64_t fixed,
                                 double *PMB_RESTRICT table) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2, n = pmb_room(d);
    double product[PMB_BLOCK] = {0.0}, give[PMB_SHORT][2], of[PMB_SHORT][2], part[2][PMB_WIDE];
    memset(table, 0, sizeof *table * (size_t)(n * d));
    for (int64_t q = from; q < from + nodes; q++) {
        pmb_factors(b, ratio, d, fixed, q, give, of);
        pmb_of_patterns(b->weight[q], (const double (*)[2])give, d, product);
        for (int64_t j = 0; j < d; j++) {
            for (int l = 0; l < PMB_WIDE; l++) {
                part[0][l] = j < 3 ? of[j][l >> j & 1] : of[j][0];
                part[1][l] = of[j][1]; /* of the blocks of patterns with bit j, if that is not within a block */
            }
            for (int64_t p = 0; p < n; p += PMB_WIDE)
                pmb_add_product(table + j * n + p, product + p, part[j < 3 ? 0 : p >> j & 1]);
        }
    }
}

/* The place of each row in the tables of a leaf: its pattern, or its own number. The last ones fill up a vector. */
PMB_INLINE void pmb_at_patterns(const uint64_t *pattern, int64_t n, int64_t d, uint8_t *PMB_RESTRICT at) {
    const uint64_t full = pmb_full(d);
    for (int64_t r = 0; r < n; r += PMB_WIDE) PMB_LANES(l, PMB_WIDE) at[r + l] = (uint8_t)(pattern[r + l] & full);
}

PMB_INLINE void pmb_at_rows(int64_t n, uint8_t *at) {
    for (int64_t r = 0; r < n; r += PMB_WIDE) PMB_LANES(l, PMB_WIDE) at[r + l] = (uint8_t)(r + l);
}

PMB_INLINE void pmb_none(int64_t n, int64_t d, double *table, uint8_t *at) {
    for (int64_t j = 0; j < d; j++) table[j * pmb_room(d)] = 0.0;
    memset(at, 0, (size_t)(n + PMB_WIDE - 1) / PMB_WIDE * PMB_WIDE);
}

/* The tables of all patterns of a tree's short paths. */
PMB_CLONES PMB_STATIC void pmb_make_tables(const pmb_trees *m, int64_t tree, const pmb_background *b, int64_t fixed,
                                           double *patterns) {
    for (int64_t l = m->offset[tree] + tree; l < m->offset[tree + 1] + tree + 1; l++) {
        const int64_t d = m->begin[l + 1] - m->begin[l];
        int64_t q;
        if (d > PMB_SHORT) continue;
        if (pmb_place(m, l, fixed, &q)) pmb_all_patterns(b, b->ratio + m->begin[l], d, q, patterns + m->table[l]);
        else memset(patterns + m->table[l], 0, sizeof *patterns * (size_t)(d * pmb_room(d)));
    }
}

/* Coefficients of all leaves of a tree, of which `before` come before it in its batch, for n rows: that of row r and
 * feature j of leaf l is the one at m->table[l] + j pmb_room(d) + at[r]. A short path has those of all patterns where
 * they are made already, or are fewer than the rows. */
PMB_CLONES PMB_STATIC void pmb_by_covers(const pmb_trees *m, int64_t tree, const pmb_background *b,
                                         const uint64_t *pattern, int64_t n, int64_t fixed, int64_t before,
                                         const pmb_tables *to) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    uint8_t *at = to->at + before * PMB_BLOCK;
    double found[PMB_PATH][PMB_WIDE];
    for (int64_t l = first; l < end; l++, pattern += PMB_BLOCK, at += PMB_BLOCK) {
        const int64_t d = m->begin[l + 1] - m->begin[l], room = pmb_room(d);
        const double *ratio = b->ratio + m->begin[l];
        double *own = (d > PMB_SHORT ? to->rows : to->patterns) + m->table[l];
        int64_t q;
        if (d <= PMB_SHORT && to->made) {
            pmb_at_patterns(pattern, n, d, at);
            continue;
        }
        if (!pmb_place(m, l, fixed, &q)) {
            pmb_none(n, d, own, at);
            continue;
        }
        if (d <= PMB_SHORT && (int64_t)1 << d < n) {
            pmb_all_patterns(b, ratio, d, q, own);
            pmb_at_patterns(pattern, n, d, at);
            continue;
        }
        for (int64_t r = 0; r < n; r += PMB_WIDE) { /* a block has PMB_BLOCK patterns, however many rows */
            if (d <= PMB_SHORT) pmb_some_patterns(b, ratio, pattern + r, d, q, found);
            else pmb_along(b, ratio, pattern + r, d, q, found);
            for (int64_t j = 0; j < d; j++) memcpy(own + j * room + r, found[j], sizeof found[j]);
        }
        pmb_at_rows(n, at);
    }
}

/* The same against rows. The coefficients of a pattern are kept: in its table, or in s where that is one of rows. */
PMB_CLONES PMB_STATIC void pmb_by_rows(const pmb_trees *m, int64_t tree, const pmb_background *b,
                                       const uint64_t *pattern, int64_t n, int64_t fixed, int64_t before,
                                       const pmb_tables *to, pmb_kept *s) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    uint8_t *at = to->at + before * PMB_BLOCK;
    for (int64_t l = first; l < end; l++, pattern += PMB_BLOCK, at += PMB_BLOCK) {
        const int64_t d = m->begin[l + 1] - m->begin[l], room = pmb_room(d);
        const uint64_t full = pmb_full(d);
        double *own = (d > PMB_SHORT ? to->rows : to->patterns) + m->table[l];
        int64_t q;
        if (!pmb_place(m, l, fixed, &q)) {
            pmb_none(n, d, own, at);
            continue;
        }
        /* No pattern of fewer than 64 bits is all ones once the others are cut off; one of 64 is never kept. */
        memset(s->keys, 255, sizeof s->keys);
        for (int64_t r = 0; r < n; r++) {
            const uint64_t a = pattern[r] & full;
            const uint8_t place = (uint8_t)(d <= PMB_SHORT ? a : a * 0x9e3779b97f4a7c15u >> 56);
            const int64_t as = d <= PMB_SHORT ? place : r;
            const int known = s->keys[place] == a && a != ~(uint64_t)0;
            if (!known) pmb_between(b, l, a, d, q, s->of[place]);
            s->keys[place] = a;
            if (!known || d > PMB_SHORT)
                for (int64_t j = 0; j < d; j++) own[j * room + as] = s->of[place][j];
        }
        if (d <= PMB_SHORT) pmb_at_patterns(pattern, n, d, at);
        else pmb_at_rows(n, at);
    }
}

#endif
