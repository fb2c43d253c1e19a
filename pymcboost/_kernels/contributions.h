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
#define PMB_KEPT 256  /* patterns of a leaf whose coefficients are kept */
#define PMB_BLOCK 256 /* rows that are looked at together, a multiple of PMB_WIDE */
#define PMB_WIDE 8
#define PMB_STEP (PMB_BLOCK + PMB_WIDE) /* from a coefficient to the next: a power of two would share few cache lines */
#define PMB_SHORT 8   /* paths of so many features have at most PMB_KEPT patterns */

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

typedef struct {
    uint64_t keys[PMB_KEPT];
    double kept[PMB_KEPT][PMB_PATH], table[PMB_SHORT][PMB_KEPT];
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
    const float *threshold;
    const uint8_t *nan_left;
    /* Sets of codes: subset[i] is that of split i, from 1 on, 0 where it has a threshold; NULL without any. Set q has
     * the bits from set_start[q - 1] to set_start[q]. */
    const int64_t *subset, *set_start;
    const uint8_t *set_bits;
    uint8_t *slot;        /* of every split: the place of its feature among those of the path */
    const int64_t *begin, *path; /* path[begin[l]] to path[begin[l + 1]] are the features of leaf l */
    /* Those of a batch of trees by features, in groups: group[i] is a feature, its leaves (of the batch) and
     * coefficients are those from start[i] to start[i + 1]; groups[b] to groups[b + 1] are of batch b; rank[i] is where
     * path[i] went. */
    const int64_t *groups, *group, *start, *leaf, *rank;
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

/* The features of the paths of a tree. With running sums of the leaves' covers, also the shares of the rows that pass:
 * a split that no row reaches halves them. to_left: one number for every split; levels: PMB_PATH numbers for each. */
PMB_STATIC void pmb_fill_paths(const pmb_trees *m, int64_t tree, pmb_frame *stack, const int64_t *cover,
                               double *to_left, double *levels, int64_t *path, double *ratio) {
    int64_t names[PMB_PATH];
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
            if (ratio) memcpy(ratio + at, own, sizeof *own * (size_t)f.n);
            continue;
        }
        if (ratio) {
            const int64_t rows = cover[f.at + f.end - f.begin + 1] - cover[f.at];
            to_left[f.begin] = rows ? (double)(cover[f.at + step] - cover[f.at]) / (double)rows : 0.5;
        }
        names[m->slot[f.begin]] = m->feature[f.begin];
        top = pmb_children(top, f, step, m->slot[f.begin] == f.n ? f.n + 1 : f.n);
    }
}

/* Whether a row stays on a path whose split i asks for a set of codes. What is no code of the set goes where missing
 * values go. */
PMB_INLINE int pmb_stays(const pmb_trees *m, int64_t i, float x, int left) {
    const int64_t begin = m->set_start[m->subset[i] - 1], bytes = m->set_start[m->subset[i]] - begin;
    int inside = m->nan_left[i] != 0;
    if (x >= 0.0f && x < 8.0f * (float)bytes && (float)(uint32_t)x == x)
        inside = m->set_bits[begin + ((uint32_t)x >> 3)] >> ((uint32_t)x & 7) & 1;
    return inside == left;
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
            const float *PMB_RESTRICT x = xt + m->feature[f.parent] * stride;
            const float t = m->threshold[f.parent];
            const uint64_t bit = (uint64_t)1 << m->slot[f.parent];
            const int in_set = m->subset && m->subset[f.parent];
            const int missing_passes = !in_set && (m->nan_left[f.parent] != 0) == f.left;
            if (in_set)
                for (int64_t r = 0; r < n; r++)
                    own[r] = above[r] & (pmb_stays(m, f.parent, x[r], f.left) ? ~(uint64_t)0 : ~bit);
            else if (f.left)
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

/* The same for all patterns: table[j][p] is that of feature j for pattern p. Products and sums have the same order. */
PMB_INLINE void pmb_all_patterns(const pmb_background *b, const double *ratio, int64_t d, int64_t fixed,
                                 double (*PMB_RESTRICT table)[PMB_KEPT]) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2, n = d > 3 ? (int64_t)1 << d : PMB_WIDE;
    double product[PMB_KEPT] = {0.0}, give[PMB_SHORT][2], of[PMB_SHORT][2], part[2][PMB_WIDE];
    for (int64_t j = 0; j < d; j++) memset(table[j], 0, sizeof **table * (size_t)n);
    for (int64_t q = from; q < from + nodes; q++) {
        pmb_factors(b, ratio, d, fixed, q, give, of);
        pmb_of_patterns(b->weight[q], (const double (*)[2])give, d, product);
        for (int64_t j = 0; j < d; j++) {
            for (int l = 0; l < PMB_WIDE; l++) {
                part[0][l] = j < 3 ? of[j][l >> j & 1] : of[j][0];
                part[1][l] = of[j][1]; /* of the blocks of patterns with bit j, if that is not within a block */
            }
            for (int64_t p = 0; p < n; p += PMB_WIDE)
                pmb_add_product(table[j] + p, product + p, part[j < 3 ? 0 : p >> j & 1]);
        }
    }
}

/* Write the coefficients of a leaf for n rows, from those of its patterns: feature j of pattern p is table[j][p]. */
PMB_INLINE void pmb_spread(const double (*table)[PMB_KEPT], const uint64_t *pattern, int64_t n, int64_t d,
                           const int64_t *rank, double *PMB_RESTRICT c) {
    const uint64_t full = pmb_full(d);
    int32_t place[PMB_BLOCK];
    for (int64_t r = 0; r < n; r++) place[r] = (int32_t)(pattern[r] & full);
    for (int64_t j = 0; j < d; j++) {
        double *PMB_RESTRICT own = c + rank[j] * PMB_STEP;
        for (int64_t r = 0; r < n; r++) own[r] = table[j][place[r]];
    }
}

PMB_INLINE void pmb_none(int64_t n, int64_t d, const int64_t *rank, double *c) {
    for (int64_t j = 0; j < d; j++) memset(c + rank[j] * PMB_STEP, 0, sizeof *c * (size_t)n);
}

/* Coefficients of all leaves of a tree for n rows: that of row r is at c[rank * PMB_STEP + r], rank the place of its
 * feature and leaf in the order of the groups. Where a path has fewer patterns than there are rows, these are made. */
PMB_CLONES PMB_STATIC void pmb_by_covers(const pmb_trees *m, int64_t tree, const pmb_background *b,
                                         const uint64_t *pattern, int64_t n, int64_t fixed,
                                         double *PMB_RESTRICT c) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    double found[PMB_PATH][PMB_WIDE], table[PMB_SHORT][PMB_KEPT];
    for (int64_t l = first; l < end; l++, pattern += PMB_BLOCK) {
        const int64_t d = m->begin[l + 1] - m->begin[l], *rank = m->rank + m->begin[l];
        const double *ratio = b->ratio + m->begin[l];
        int64_t q;
        if (!pmb_place(m, l, fixed, &q)) {
            pmb_none(n, d, rank, c);
            continue;
        }
        if (d <= PMB_SHORT && (int64_t)1 << d < n) {
            pmb_all_patterns(b, ratio, d, q, table);
            pmb_spread(table, pattern, n, d, rank, c);
            continue;
        }
        for (int64_t r = 0; r < n; r += PMB_WIDE) { /* a block has PMB_BLOCK patterns, however many rows */
            if (d <= PMB_SHORT) pmb_some_patterns(b, ratio, pattern + r, d, q, found);
            else pmb_along(b, ratio, pattern + r, d, q, found);
            for (int64_t j = 0; j < d; j++) memcpy(c + rank[j] * PMB_STEP + r, found[j], sizeof found[j]);
        }
    }
}

/* The same against rows. The coefficients of a pattern are kept. */
PMB_CLONES PMB_STATIC void pmb_by_rows(const pmb_trees *m, int64_t tree, const pmb_background *b,
                                       const uint64_t *pattern, int64_t n, int64_t fixed, pmb_kept *s,
                                       double *c) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    for (int64_t l = first; l < end; l++, pattern += PMB_BLOCK) {
        const int64_t d = m->begin[l + 1] - m->begin[l], *rank = m->rank + m->begin[l];
        const uint64_t full = pmb_full(d);
        int64_t q;
        if (!pmb_place(m, l, fixed, &q)) {
            pmb_none(n, d, rank, c);
            continue;
        }
        /* No pattern of fewer than 64 bits is all ones once the others are cut off; one of 64 is never kept. */
        memset(s->keys, 255, sizeof s->keys);
        for (int64_t r = 0; r < n; r++) {
            const uint64_t a = pattern[r] & full;
            const int64_t place = (int64_t)(d <= PMB_SHORT ? a : a * 0x9e3779b97f4a7c15u >> 56);
            double *own = s->kept[place];
            if (s->keys[place] != a || a == ~(uint64_t)0) {
                pmb_between(b, l, a, d, q, own);
                if (d <= PMB_SHORT)
                    for (int64_t j = 0; j < d; j++) s->table[j][place] = own[j];
            }
            s->keys[place] = a;
            if (d > PMB_SHORT)
                for (int64_t j = 0; j < d; j++) c[rank[j] * PMB_STEP + r] = own[j];
        }
        if (d <= PMB_SHORT) pmb_spread(s->table, pattern, n, d, rank, c);
    }
}

#endif
