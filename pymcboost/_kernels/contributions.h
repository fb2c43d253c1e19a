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

#define PMB_SHAP_FEATURES 64 /* most features of a path: bits of a pattern */
/* rows that are looked at together, a multiple of PMB_SHAP_WIDE: their numbers fit a byte */
#define PMB_SHAP_ROWS 256
#define PMB_SHAP_WIDE 8
/* from a coefficient to the next: a power of two would share few cache lines */
#define PMB_SHAP_STRIDE (PMB_SHAP_ROWS + PMB_SHAP_WIDE)
#define PMB_SHAP_CACHED (1 << 17) /* values of leaves that are read anew for each few rows */
#define PMB_SHAP_SHORT 8 /* paths of so many features have at most PMB_SHAP_ROWS patterns */

/* Vectors of one register each: gcc would keep wider ones in memory. Those of classes fill the largest registers. */
#ifdef PMB_VECTORS
#ifdef __x86_64__
#define PMB_SHAP_LANES 4
#else
#define PMB_SHAP_LANES 2
#endif
typedef double pmb_shap_lanes __attribute__((vector_size(8 * PMB_SHAP_LANES)));
typedef double pmb_shap_classes __attribute__((vector_size(8 * PMB_SHAP_WIDE)));
typedef double pmb_shap_two __attribute__((vector_size(16)));
#else
#define PMB_SHAP_LANES 1
typedef double pmb_shap_lanes, pmb_shap_classes, pmb_shap_two;
#endif

/* Coefficients of patterns of a row's bits that are kept: those of keys[i] are of[i]. */
typedef struct {
    uint64_t keys[PMB_SHAP_ROWS];
    double of[PMB_SHAP_ROWS][PMB_SHAP_FEATURES];
} pmb_shap_cache;

/* A subtree that a walk through a tree has still to visit. */
typedef struct {
    int64_t begin, end; /* its splits, in preorder */
    int64_t at;         /* its first leaf */
    int64_t parent;     /* the split above; -1: it is the whole tree */
    int32_t level, n;   /* splits above, and different features above */
    int32_t left;       /* 1: it is the left side of the split above */
    int32_t fresh;      /* 1: no split further up has the feature of the split above */
} pmb_shap_subtree;

/* Trees as pymcboost.model.trees.Trees has them, and what pmb_paths finds. */
typedef struct {
    const int64_t *offset, *feature, *right;
    const int64_t *asked; /* of every split: the row of the features that its threshold is for */
    const float *threshold;
    const uint8_t *nan_left;
    uint8_t *slot; /* of every split: the place of its feature among those of the path */
    /* path[begin[l]] to path[begin[l + 1]] are the features of leaf l */
    const int64_t *begin, *path;
    /* A feature of a path has a table of coefficients (pmb_shap_table_size). table[l] is where those of leaf l begin, of a batch
     * of trees: among the tables of patterns for a short path, of rows for a long one. The batch by features, in
     * groups: group[i] is a feature, its leaves (of the batch) and the places of its tables (less 1 and negative: of
     * rows) are those from start[i] to start[i + 1]; groups[b] to groups[b + 1] are of batch b. value[i] is the number
     * of the values that its coefficients are for: see pmb_shap_heaviest_leaf. */
    const int64_t *table, *groups, *group, *start, *leaf, *place, *value;
} pmb_shap_trees;

/* What stands for the background. */
typedef struct {
    const int64_t *first; /* rows: patterns first[l] to first[l + 1] are those of leaf l ... */
    const uint64_t *pattern;
    const double *share;         /* ... and their shares of the rows. */
    const double *factorial;     /* i! j! / (i + j + 1)! at [i * (PMB_SHAP_FEATURES + 1) + j] */
    const double *ratio;         /* covers: shares of the rows that pass, along `path`; else NULL */
    const double *node, *weight; /* Gauss's for 1, 2, ... nodes on [0, 1], one after the other */
} pmb_shap_background;

PMB_INLINE pmb_shap_subtree pmb_shap_root(const pmb_shap_trees *m, int64_t tree) {
    pmb_shap_subtree f = {
        m->offset[tree], m->offset[tree + 1], m->offset[tree] + tree, -1, 0, 0, 0, 0};
    return f;
}

/* Put the children of the split that a frame begins with on the stack, the left one on top. */
PMB_INLINE pmb_shap_subtree *pmb_shap_push_children(pmb_shap_subtree *top, pmb_shap_subtree f,
                                                    int64_t right, int32_t n) {
    const pmb_shap_subtree l = {f.begin + 1, f.begin + right, f.at, f.begin, f.level + 1, n,
                                1,           n > f.n};
    const pmb_shap_subtree r = {f.begin + right, f.end, f.at + right, f.begin, f.level + 1, n, 0,
                                n > f.n};
    *top++ = r;
    *top++ = l;
    return top;
}

/* Number of different features of the path to every leaf of a tree. Writes m->slot. Returns the depth of the tree, -1
 * where there are too many features, -2 where `right` makes no tree. What a level holds stays as long as subtrees of it
 * are on the stack: deeper ones write behind it. */
PMB_STATIC int32_t pmb_shap_count_paths(const pmb_shap_trees *m, int64_t tree,
                                        pmb_shap_subtree *stack, int64_t *count) {
    int64_t names[PMB_SHAP_FEATURES];
    int32_t deepest = 0;
    pmb_shap_subtree *top = stack;
    *top++ = pmb_shap_root(m, tree);
    while (top > stack) {
        const pmb_shap_subtree f = *--top;
        int32_t n = f.n, q = 0;
        if (f.begin == f.end) {
            count[f.at] = n;
            if (f.level > deepest) deepest = f.level;
            continue;
        }
        if (m->right[f.begin] < 1 || m->right[f.begin] > f.end - f.begin) return -2;
        while (q < n && names[q] != m->feature[f.begin]) q++;
        if (q == n) {
            if (n == PMB_SHAP_FEATURES) return -1;
            names[n++] = m->feature[f.begin];
        }
        m->slot[f.begin] = (uint8_t)q;
        top = pmb_shap_push_children(top, f, m->right[f.begin], n);
    }
    return deepest;
}

/* The leaf below a split that is found by going to the side of more leaves, again and again.
 *
 * The coefficients of a feature for the leaves below the first split on it sum to 0: if these leaves were equal, the
 * feature would not matter. Thus one of the leaves needs no coefficient, if its values are subtracted from those of the
 * others. Splits along a path mostly share this leaf, so that there are few differences of leaves. */
PMB_INLINE int64_t pmb_shap_heaviest_leaf(const pmb_shap_trees *m, pmb_shap_subtree f) {
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

/* The features of the paths of a tree, and the heaviest leaves below the first splits on them. With running sums of the
 * leaves' covers, also the shares of the rows that pass: a split that no row reaches halves them. to_left: one number
 * for every split; levels: PMB_SHAP_FEATURES numbers for each. */
PMB_STATIC void pmb_shap_fill_paths(const pmb_shap_trees *m, int64_t tree, pmb_shap_subtree *stack,
                                    const int64_t *cover, double *to_left, double *levels,
                                    int64_t *path, int64_t *heaviest, double *ratio) {
    int64_t names[PMB_SHAP_FEATURES], leaves[PMB_SHAP_FEATURES];
    pmb_shap_subtree *top = stack;
    *top++ = pmb_shap_root(m, tree);
    while (top > stack) {
        const pmb_shap_subtree f = *--top;
        const int64_t step = f.begin < f.end ? m->right[f.begin] : 0;
        double *own = levels + (int64_t)f.level * PMB_SHAP_FEATURES;
        if (ratio && f.parent >= 0) {
            const int q = m->slot[f.parent];
            const double share = f.left ? to_left[f.parent] : 1.0 - to_left[f.parent];
            memcpy(own, own - PMB_SHAP_FEATURES, sizeof *own * (size_t)f.n);
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
            to_left[f.begin] =
                rows ? (double)(cover[f.at + step] - cover[f.at]) / (double)rows : 0.5;
        }
        names[m->slot[f.begin]] = m->feature[f.begin];
        if (m->slot[f.begin] == f.n) leaves[f.n] = pmb_shap_heaviest_leaf(m, f);
        top = pmb_shap_push_children(top, f, step, m->slot[f.begin] == f.n ? f.n + 1 : f.n);
    }
}

/* pattern[l * PMB_SHAP_ROWS + r]: bit j says that row r passes all questions about feature j on the path to leaf l of the
 * tree. Bits from D on are 1. levels: PMB_SHAP_ROWS numbers for each. */
PMB_CLONES PMB_STATIC void pmb_shap_row_patterns(const pmb_shap_trees *m, int64_t tree,
                                                 const float *xt, int64_t stride, int64_t n,
                                                 pmb_shap_subtree *stack, uint64_t *levels,
                                                 uint64_t *pattern) {
    pmb_shap_subtree *top = stack;
    *top++ = pmb_shap_root(m, tree);
    while (top > stack) {
        const pmb_shap_subtree f = *--top;
        const int leaf = f.begin == f.end;
        uint64_t *PMB_RESTRICT own = leaf
                                         ? pattern + (f.at - m->offset[tree] - tree) * PMB_SHAP_ROWS
                                         : levels + (int64_t)f.level * PMB_SHAP_ROWS;
        if (f.parent < 0) {
            for (int64_t r = 0; r < n; r++) own[r] = ~(uint64_t)0;
        } else {
            const uint64_t *PMB_RESTRICT above = levels + (int64_t)(f.level - 1) * PMB_SHAP_ROWS;
            const float *PMB_RESTRICT x = xt + m->asked[f.parent] * stride;
            const float t = m->threshold[f.parent];
            const uint64_t bit = (uint64_t)1 << m->slot[f.parent];
            const int missing_passes = (m->nan_left[f.parent] != 0) == f.left;
            if (f.left)
                for (int64_t r = 0; r < n; r++)
                    own[r] = above[r] & (x[r] <= t ? ~(uint64_t)0 : ~bit);
            else
                for (int64_t r = 0; r < n; r++)
                    own[r] = above[r] & (x[r] > t ? ~(uint64_t)0 : ~bit);
            if (missing_passes)
                for (int64_t r = 0; r < n; r++) own[r] |= x[r] != x[r] ? above[r] & bit : 0;
        }
        if (!leaf)
            top = pmb_shap_push_children(top, f, m->right[f.begin],
                                         m->slot[f.begin] == f.n ? f.n + 1 : f.n);
    }
}

#endif
