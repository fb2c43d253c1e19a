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
 * classes at once. */
#ifndef PYMCBOOST_CONTRIBUTIONS_H
#define PYMCBOOST_CONTRIBUTIONS_H

#include "lanes.h"

#define PMB_PATH 64   /* most features of a path: bits of a pattern */
#define PMB_KEPT 256  /* patterns of a leaf whose coefficients are kept */
#define PMB_BLOCK 256 /* rows that are looked at together, a multiple of PMB_WIDE */
#define PMB_WIDE 8

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
    uint8_t *slot;        /* of every split: the place of its feature among those of the path */
    const int64_t *begin; /* path[begin[l]] to path[begin[l + 1]] are the features of leaf l */
    /* Those of a tree by features, in groups: group[i] is a feature, its leaves (of the tree) and coefficients are those
     * from start[i] to start[i + 1]; groups[t] to groups[t + 1] are of tree t; rank[i] is where path[i] went. */
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

/* Number of different features of the path to every leaf of a tree. Writes m->slot. 0 where there are too many.
 * What a level holds stays as long as subtrees of it are on the stack: deeper ones write behind it. */
PMB_STATIC int pmb_count_paths(const pmb_trees *m, int64_t tree, pmb_frame *stack, int64_t *count) {
    int64_t names[PMB_PATH];
    pmb_frame *top = stack;
    *top++ = pmb_root(m, tree);
    while (top > stack) {
        const pmb_frame f = *--top;
        int32_t n = f.n, q = 0;
        if (f.begin == f.end) {
            count[f.at] = n;
            continue;
        }
        while (q < n && names[q] != m->feature[f.begin]) q++;
        if (q == n) {
            if (n == PMB_PATH) return 0;
            names[n++] = m->feature[f.begin];
        }
        m->slot[f.begin] = (uint8_t)q;
        top = pmb_children(top, f, m->right[f.begin], n);
    }
    return 1;
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

PMB_INLINE uint64_t pmb_full(int64_t d) { return d < 64 ? ((uint64_t)1 << d) - 1 : ~(uint64_t)0; }

PMB_INLINE int pmb_bits(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    return (int)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}

/* Coefficients c of a leaf for rows of pattern a, against the patterns of background rows. */
PMB_INLINE void pmb_between(const pmb_background *b, int64_t leaf, uint64_t a, int64_t d, double *c) {
    const uint64_t full = pmb_full(d);
    for (int64_t j = 0; j < d; j++) c[j] = 0.0;
    for (int64_t i = b->first[leaf]; i < b->first[leaf + 1]; i++) {
        const uint64_t z = b->pattern[i], only_a = a & ~z & full, only_z = z & ~a & full;
        double plus, minus;
        int u, v;
        if (((a | z) & full) != full || a == z) continue;
        u = pmb_bits(only_a);
        v = pmb_bits(only_z);
        plus = u ? b->share[i] * b->factorial[(u - 1) * (PMB_PATH + 1) + v] : 0.0;
        minus = v ? b->share[i] * b->factorial[u * (PMB_PATH + 1) + v - 1] : 0.0;
        for (int64_t j = 0; j < d; j++)
            c[j] += (double)(only_a >> j & 1) * plus - (double)(only_z >> j & 1) * minus;
    }
}

/* The same against shares of rows, for PMB_WIDE patterns at once: c[j][l] is that of feature j for pattern l. */
PMB_INLINE void pmb_along(const pmb_background *b, const double *ratio, const uint64_t *a, int64_t d,
                          double (*PMB_RESTRICT c)[PMB_WIDE]) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2;
    double one[PMB_PATH][PMB_WIDE], g[PMB_PATH][PMB_WIDE], product[PMB_WIDE];
    for (int64_t j = 0; j < d; j++)
        PMB_LANES(l, PMB_WIDE) {
            one[j][l] = a[l] >> j & 1 ? 1.0 : 0.0;
            c[j][l] = 0.0;
        }
    for (int64_t q = from; q < from + nodes; q++) {
        const double t = b->node[q], s = 1.0 - t;
        double before[PMB_PATH][PMB_WIDE];
        PMB_LANES(l, PMB_WIDE) product[l] = b->weight[q];
        for (int64_t j = 0; j < d; j++) {
            const double rest = ratio[j] * s;
            PMB_LANES(l, PMB_WIDE) {
                g[j][l] = one[j][l] * t + rest;
                before[j][l] = product[l];
                product[l] *= g[j][l];
            }
        }
        PMB_LANES(l, PMB_WIDE) product[l] = 1.0;
        for (int64_t j = d; j-- > 0;)
            PMB_LANES(l, PMB_WIDE) {
                c[j][l] += before[j][l] * product[l];
                product[l] *= g[j][l];
            }
    }
    for (int64_t j = 0; j < d; j++)
        PMB_LANES(l, PMB_WIDE) c[j][l] *= one[j][l] - ratio[j];
}

/* Coefficients of all leaves of a tree for n rows: those of row r begin at c[r * width], in the order of the groups. */
PMB_CLONES PMB_STATIC void pmb_by_covers(const pmb_trees *m, int64_t tree, const pmb_background *b,
                                         const uint64_t *pattern, int64_t n, double *PMB_RESTRICT c, int64_t width) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    double found[PMB_PATH][PMB_WIDE];
    for (int64_t l = first; l < end; l++, pattern += PMB_BLOCK) {
        const int64_t d = m->begin[l + 1] - m->begin[l], *rank = m->rank + m->begin[l];
        for (int64_t r = 0; r < n; r += PMB_WIDE) { /* a block has PMB_BLOCK patterns, however many rows */
            const int64_t rows = n - r < PMB_WIDE ? n - r : PMB_WIDE;
            pmb_along(b, b->ratio + m->begin[l], pattern + r, d, found);
            for (int64_t j = 0; j < d; j++)
                for (int64_t i = 0; i < rows; i++) c[(r + i) * width + rank[j]] = found[j][i];
        }
    }
}

/* The same against rows. Coefficients of PMB_KEPT patterns of a leaf are kept: keys, kept. */
PMB_STATIC void pmb_by_rows(const pmb_trees *m, int64_t tree, const pmb_background *b, const uint64_t *pattern,
                            int64_t n, uint64_t *keys, double *kept, double *c, int64_t width) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    for (int64_t l = first; l < end; l++, pattern += PMB_BLOCK) {
        const int64_t d = m->begin[l + 1] - m->begin[l], *rank = m->rank + m->begin[l];
        const uint64_t full = pmb_full(d);
        /* No pattern of fewer than 64 bits is all ones once the others are cut off; one of 64 is never kept. */
        memset(keys, 255, PMB_KEPT * sizeof *keys);
        for (int64_t r = 0; r < n; r++) {
            const uint64_t a = pattern[r] & full;
            const int64_t place = (int64_t)(d <= 8 ? a : a * 0x9e3779b97f4a7c15u >> 56);
            double *own = kept + place * PMB_PATH;
            if (keys[place] != a || a == ~(uint64_t)0) pmb_between(b, l, a, d, own);
            keys[place] = a;
            for (int64_t j = 0; j < d; j++) c[r * width + rank[j]] = own[j];
        }
    }
}

/* out (n, features, K) gets a tree of one value a leaf: to class `cls`, and from class `base` unless negative. */
PMB_STATIC void pmb_add_scalar(const pmb_trees *m, int64_t tree, const float *value, const double *c, int64_t width,
                               int64_t n, int64_t K, int64_t cls, int64_t base, const int64_t *column, int64_t stride,
                               double *out) {
    for (int64_t r = 0; r < n; r++, out += stride, c += width)
        for (int64_t g = m->groups[tree], i = 0; g < m->groups[tree + 1]; g++) {
            double *to = out + column[m->group[g]] * K, sum = 0.0;
            for (const int64_t *leaf = m->leaf + m->start[g]; leaf < m->leaf + m->start[g + 1]; leaf++)
                sum += c[i++] * value[*leaf];
            to[cls] += sum;
            if (base >= 0) to[base] -= sum;
        }
}

#if PMB_VECTORS
/* Vectors of one register each: wider ones would be kept in memory. */
typedef double pmb_four __attribute__((vector_size(32)));
typedef double pmb_two __attribute__((vector_size(16)));

PMB_INLINE void pmb_add_four(pmb_four *sum, double factor, const double *value) {
    pmb_four v;
    memcpy(&v, value, sizeof v);
    *sum += factor * v;
}

/* to[k] += the sum of c[i] value[leaf[i]][k], for 32 values k. */
PMB_INLINE void pmb_add_leaves_32(double *to, const double *c, const double *value, const int64_t *leaf, int64_t n,
                                  int64_t K) {
    pmb_four s0 = {0.0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int64_t i = 0; i < n; i++) {
        const double factor = c[i], *v = value + leaf[i] * K;
        pmb_add_four(&s0, factor, v);
        pmb_add_four(&s1, factor, v + 4);
        pmb_add_four(&s2, factor, v + 8);
        pmb_add_four(&s3, factor, v + 12);
        pmb_add_four(&s4, factor, v + 16);
        pmb_add_four(&s5, factor, v + 20);
        pmb_add_four(&s6, factor, v + 24);
        pmb_add_four(&s7, factor, v + 28);
    }
    pmb_add_four(&s0, 1.0, to);
    pmb_add_four(&s1, 1.0, to + 4);
    pmb_add_four(&s2, 1.0, to + 8);
    pmb_add_four(&s3, 1.0, to + 12);
    pmb_add_four(&s4, 1.0, to + 16);
    pmb_add_four(&s5, 1.0, to + 20);
    pmb_add_four(&s6, 1.0, to + 24);
    pmb_add_four(&s7, 1.0, to + 28);
    memcpy(to, &s0, sizeof s0);
    memcpy(to + 4, &s1, sizeof s1);
    memcpy(to + 8, &s2, sizeof s2);
    memcpy(to + 12, &s3, sizeof s3);
    memcpy(to + 16, &s4, sizeof s4);
    memcpy(to + 20, &s5, sizeof s5);
    memcpy(to + 24, &s6, sizeof s6);
    memcpy(to + 28, &s7, sizeof s7);
}

#define PMB_ADD_LEAVES(W, vector)                                                                                     \
    PMB_INLINE void pmb_add_leaves_##W(double *to, const double *c, const double *value, const int64_t *leaf,         \
                                       int64_t n, int64_t K) {                                                        \
        vector sum = {0.0}, v;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            memcpy(&v, value + leaf[i] * K, sizeof v);                                                                \
            sum += c[i] * v;                                                                                          \
        }                                                                                                             \
        memcpy(&v, to, sizeof v);                                                                                     \
        v += sum;                                                                                                     \
        memcpy(to, &v, sizeof v);                                                                                     \
    }
PMB_ADD_LEAVES(4, pmb_four)
PMB_ADD_LEAVES(2, pmb_two)
#else
#define PMB_ADD_LEAVES(W)                                                                                             \
    PMB_INLINE void pmb_add_leaves_##W(double *to, const double *c, const double *value, const int64_t *leaf,         \
                                       int64_t n, int64_t K) {                                                        \
        double sum[W] = {0.0};                                                                                        \
        for (int64_t i = 0; i < n; i++) PMB_LANES(l, W) sum[l] += c[i] * value[leaf[i] * K + l];                      \
        PMB_LANES(l, W) to[l] += sum[l];                                                                              \
    }
PMB_ADD_LEAVES(32)
PMB_ADD_LEAVES(4)
PMB_ADD_LEAVES(2)
#endif

/* The same as pmb_add_scalar for a tree of K values a leaf. */
PMB_CLONES PMB_STATIC void pmb_add_vector(const pmb_trees *m, int64_t tree, const double *value, const double *c,
                                          int64_t width, int64_t n, int64_t K, const int64_t *column, int64_t stride,
                                          double *out) {
    for (int64_t r = 0; r < n; r++, out += stride, c += width)
        for (int64_t g = m->groups[tree]; g < m->groups[tree + 1]; g++) {
            const int64_t at = m->start[g] - m->start[m->groups[tree]], leaves = m->start[g + 1] - m->start[g];
            const int64_t *leaf = m->leaf + m->start[g];
            double *to = out + column[m->group[g]] * K;
            int64_t k = 0;
            for (; k + 32 <= K; k += 32) pmb_add_leaves_32(to + k, c + at, value + k, leaf, leaves, K);
            for (; k + 4 <= K; k += 4) pmb_add_leaves_4(to + k, c + at, value + k, leaf, leaves, K);
            for (; k + 2 <= K; k += 2) pmb_add_leaves_2(to + k, c + at, value + k, leaf, leaves, K);
            for (; k < K; k++) {
                double sum = 0.0;
                for (int64_t i = 0; i < leaves; i++) sum += c[at + i] * value[leaf[i] * K + k];
                to[k] += sum;
            }
        }
}

#endif
