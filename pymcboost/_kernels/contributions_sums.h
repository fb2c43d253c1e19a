/* Shapley values of trees: the coefficients of leaves (contributions.h) times the leaves' values, for all classes. */
#ifndef PYMCBOOST_CONTRIBUTIONS_SUMS_H
#define PYMCBOOST_CONTRIBUTIONS_SUMS_H

#include "contributions.h"

#define PMB_TILE 8 /* rows whose classes are summed together */

/* sum[k * R + r] = the sum of c[i][r] value[leaf[i]][k], for R rows and W values k. */
#define PMB_SUM_LEAVES(W, R)                                                                                          \
    PMB_INLINE void pmb_sum_leaves_##W(double *sum, const double *c, const double *value, const int64_t *leaf,        \
                                       int64_t n, int64_t K) {                                                        \
        pmb_lanes s[W][R / PMB_LANE] = {{{0.0}}};                                                                     \
        for (int64_t i = 0; i < n; i++, c += PMB_STEP) {                                                             \
            const double *v = value + leaf[i] * K;                                                                    \
            for (int q = 0; q < R / PMB_LANE; q++) {                                                                  \
                pmb_lanes rows;                                                                                       \
                memcpy(&rows, c + q * PMB_LANE, sizeof rows);                                                         \
                PMB_LANES(k, W) s[k][q] += rows * v[k];                                                               \
            }                                                                                                         \
        }                                                                                                             \
        memcpy(sum, s, sizeof s);                                                                                     \
    }
PMB_SUM_LEAVES(4, 8)
PMB_SUM_LEAVES(2, 16)
PMB_SUM_LEAVES(1, 32)

/* Add the sums of one feature for n rows to to + r stride, for the classes from k to K. */
PMB_INLINE void pmb_add_few(const double *c, const double *value, const int64_t *leaf, int64_t leaves, int64_t k,
                            int64_t K, int64_t n, int64_t stride, double *to, double *base) {
    double sum[32];
    for (int64_t w; k < K; k += w) {
        w = K - k >= 4 ? 4 : K - k >= 2 ? 2 : 1;
        const int64_t R = 32 / w;
        for (int64_t r = 0; r < n; r += R) {
            const int64_t rows = n - r < R ? n - r : R;
            if (w == 4) pmb_sum_leaves_4(sum, c + r, value + k, leaf, leaves, K);
            else if (w == 2) pmb_sum_leaves_2(sum, c + r, value + k, leaf, leaves, K);
            else pmb_sum_leaves_1(sum, c + r, value + k, leaf, leaves, K);
            for (int64_t i = 0; i < rows; i++) {
                double *own = to + (r + i) * stride + k;
                for (int64_t q = 0; q < w; q++) own[q] += sum[q * R + i];
                if (base)
                    for (int64_t q = 0; q < w; q++) base[(r + i) * stride + k + q] -= sum[q * R + i];
            }
        }
    }
}

/* sum[r][k] = the sum of c[i][r] value[leaf[i]][k], for PMB_TILE rows and PMB_WIDE classes. */
PMB_INLINE void pmb_sum_classes(double (*sum)[PMB_WIDE], const double *c, const double *value, const int64_t *leaf,
                                int64_t n, int64_t K) {
#ifdef PMB_VECTORS
    pmb_classes s[PMB_TILE], v;
    PMB_LANES(r, PMB_TILE) s[r] = (pmb_classes){0.0};
    for (int64_t i = 0; i < n; i++, c += PMB_STEP) {
        memcpy(&v, value + leaf[i] * K, sizeof v);
        PMB_LANES(r, PMB_TILE) s[r] += c[r] * v;
    }
    PMB_LANES(r, PMB_TILE) memcpy(sum[r], &s[r], sizeof v);
#else
    memset(sum, 0, sizeof(double[PMB_TILE][PMB_WIDE]));
    for (int64_t i = 0; i < n; i++, c += PMB_STEP)
        for (int r = 0; r < PMB_TILE; r++)
            for (int k = 0; k < PMB_WIDE; k++) sum[r][k] += c[r] * value[leaf[i] * K + k];
#endif
}

/* The same as pmb_add_few for a multiple of PMB_WIDE classes. A tile of coefficients stays in the first cache. */
PMB_INLINE void pmb_add_wide(const double *c, const double *value, const int64_t *leaf, int64_t leaves, int64_t K,
                             int64_t classes, int64_t n, int64_t stride, double *to) {
    double sum[PMB_TILE][PMB_WIDE];
    for (int64_t r = 0; r < n; r += PMB_TILE) {
        const int64_t rows = n - r < PMB_TILE ? n - r : PMB_TILE;
        for (int64_t k = 0; k < classes; k += PMB_WIDE) {
            pmb_sum_classes(sum, c + r, value + k, leaf, leaves, K);
            for (int64_t i = 0; i < rows; i++) PMB_LANES(q, PMB_WIDE) to[(r + i) * stride + k + q] += sum[i][q];
        }
    }
}

/* Add what a batch of trees gives: out (n, features, stride / features) gets the K values from `to` on; with a `base`,
 * of K < PMB_WIDE, what is added there is subtracted here. */
PMB_CLONES PMB_STATIC void pmb_add_batch(const pmb_trees *m, int64_t batch, const double *value, int64_t K,
                                         const double *c, int64_t n, const int64_t *column, int64_t classes,
                                         int64_t stride, double *to, double *base) {
    const int64_t zero = m->start[m->groups[batch]];
    for (int64_t g = m->groups[batch]; g < m->groups[batch + 1]; g++) {
        const int64_t leaves = m->start[g + 1] - m->start[g], *leaf = m->leaf + m->start[g];
        const double *own = c + (m->start[g] - zero) * PMB_STEP;
        const int64_t at = column[m->group[g]] * classes;
        const int64_t wide = K / PMB_WIDE * PMB_WIDE;
        pmb_add_wide(own, value, leaf, leaves, K, wide, n, stride, to + at);
        pmb_add_few(own, value, leaf, leaves, wide, K, n, stride, to + at, base ? base + at : NULL);
    }
}

#endif
