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
#define PMB_BLOCK 64  /* rows that are looked at together */

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
    const int64_t *path;
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

/* The same against shares of rows. */
PMB_INLINE void pmb_along(const pmb_background *b, const double *ratio, uint64_t a, int64_t d, double *c) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2;
    double g[PMB_PATH], before[PMB_PATH];
    for (int64_t j = 0; j < d; j++) c[j] = 0.0;
    for (int64_t q = from; q < from + nodes; q++) {
        const double t = b->node[q], s = 1.0 - t;
        double product = b->weight[q];
        for (int64_t j = 0; j < d; j++) g[j] = (double)(a >> j & 1) * t + ratio[j] * s;
        for (int64_t j = 0; j < d; j++) {
            before[j] = product;
            product *= g[j];
        }
        product = 1.0;
        for (int64_t j = d; j-- > 0;) {
            c[j] += before[j] * product;
            product *= g[j];
        }
    }
    for (int64_t j = 0; j < d; j++) c[j] *= (double)(a >> j & 1) - ratio[j];
}

/* Coefficients of all leaves of a tree for n rows: those of row r begin at c[r * width]. kept, keys: room for PMB_KEPT
 * patterns. */
PMB_CLONES PMB_STATIC void pmb_coefficients(const pmb_trees *m, int64_t tree, const pmb_background *b,
                                            const uint64_t *pattern, int64_t n, uint64_t *keys, double *kept, double *c,
                                            int64_t width) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    for (int64_t l = first; l < end; l++) {
        const int64_t d = m->begin[l + 1] - m->begin[l];
        const uint64_t full = pmb_full(d);
        double *to = c + (m->begin[l] - m->begin[first]);
        if (!d) continue;
        /* No pattern of fewer than 64 bits is all ones once the others are cut off; one of 64 is never kept. */
        memset(keys, 255, PMB_KEPT * sizeof *keys);
        for (int64_t r = 0; r < n; r++, to += width) {
            const uint64_t a = pattern[(l - first) * PMB_BLOCK + r] & full;
            const int64_t place = (int64_t)(d <= 8 ? a : a * 0x9e3779b97f4a7c15u >> 56);
            double *own = kept + place * PMB_PATH;
            if (keys[place] != a || a == ~(uint64_t)0) {
                if (b->ratio) pmb_along(b, b->ratio + m->begin[l], a, d, own);
                else pmb_between(b, l, a, d, own);
                keys[place] = a;
            }
            for (int64_t j = 0; j < d; j++) to[j] = own[j];
        }
    }
}

/* out (n, features, K) gets a tree of one value a leaf: to class `cls`, and from class `base` unless negative. */
PMB_STATIC void pmb_add_scalar(const pmb_trees *m, int64_t tree, const float *leaf, const double *c, int64_t width,
                               int64_t n, int64_t K, int64_t cls, int64_t base, const int64_t *column, int64_t stride,
                               double *out) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    const int64_t *path = m->path + m->begin[first];
    for (int64_t r = 0; r < n; r++, out += stride, c += width)
        for (int64_t l = first, i = 0; l < end; l++)
            for (const int64_t stop = m->begin[l + 1] - m->begin[first]; i < stop; i++) {
                double *to = out + column[path[i]] * K;
                const double value = c[i] * leaf[l];
                to[cls] += value;
                if (base >= 0) to[base] -= value;
            }
}

/* The same for a tree of K values a leaf, which `value` has in float64. */
PMB_CLONES PMB_STATIC void pmb_add_vector(const pmb_trees *m, int64_t tree, const double *value, const double *c,
                                          int64_t width, int64_t n, int64_t K, const int64_t *column, int64_t stride,
                                          double *out) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    const int64_t *path = m->path + m->begin[first];
    for (int64_t r = 0; r < n; r++, out += stride, c += width)
        for (int64_t l = first, i = 0; l < end; l++) {
            const double *PMB_RESTRICT v = value + (l - first) * K;
            for (const int64_t stop = m->begin[l + 1] - m->begin[first]; i < stop; i++) {
                double *PMB_RESTRICT to = out + column[path[i]] * K;
                const double factor = c[i];
                for (int64_t k = 0; k < K; k++) to[k] += factor * v[k];
            }
        }
}

#endif
