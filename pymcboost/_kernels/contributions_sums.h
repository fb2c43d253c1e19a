/* Shapley values of trees: the coefficients of leaves (contributions.h) times the leaves' values, for all classes. */
#ifndef PYMCBOOST_CONTRIBUTIONS_SUMS_H
#define PYMCBOOST_CONTRIBUTIONS_SUMS_H

#include "contributions.h"

/* Contributions are for reading: in their sums a fifth of the time is worth more than equal last bits on all CPUs. */
#if defined(__GNUC__) && !defined(__clang__)
#define PMB_FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define PMB_FUSED
#endif

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

/* Add the sums of one feature for n rows to to + r stride, for K classes. */
PMB_INLINE void pmb_add_few(const double *c, const double *value, const int64_t *leaf, int64_t leaves, int64_t K,
                            int64_t n, int64_t stride, double *to, double *base) {
    double sum[32];
    for (int64_t k = 0, w; k < K; k += w) {
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

/* sum[r][k] = the sum of c[i][r] value[leaf[i]][k], for R rows and PMB_WIDE classes in vectors that fill registers. */
#define PMB_SUM_CLASSES(name, vector, R)                                                                              \
    PMB_INLINE void pmb_sum_classes_##name(double (*sum)[PMB_WIDE], const double *c, const double *value,             \
                                           const int64_t *leaf, int64_t n) {                                          \
        enum { PARTS = PMB_WIDE * sizeof(double) / sizeof(vector) };                                                  \
        vector s[R][PARTS];                                                                                           \
        PMB_LANES(r, R) PMB_LANES(p, PARTS) s[r][p] = (vector){0.0};                                                  \
        for (int64_t i = 0; i < n; i++, c += PMB_STEP)                                                                \
            PMB_LANES(p, PARTS) {                                                                                     \
                vector v;                                                                                             \
                memcpy(&v, value + leaf[i] * PMB_WIDE + p * (PMB_WIDE / PARTS), sizeof v);                            \
                PMB_LANES(r, R) s[r][p] += c[r] * v;                                                                  \
            }                                                                                                         \
        PMB_LANES(r, R) PMB_LANES(p, PARTS) memcpy(sum[r] + p * (PMB_WIDE / PARTS), &s[r][p], sizeof s[r][p]);        \
    }
PMB_SUM_CLASSES(256, pmb_lanes, 4)
PMB_SUM_CLASSES(128, pmb_two, 2)

/* Add to the first `rows` of PMB_WIDE rows the sums of c[i][r] value[leaf[i]][k], for W tiles of PMB_WIDE classes that
 * lie `tile` apart. A leaf is W + PMB_WIDE loads for W PMB_WIDE products. */
#ifdef PMB_VECTORS
#define PMB_EIGHT(x) {x, x, x, x, x, x, x, x}
#define PMB_ADD_TILES(W)                                                                                              \
    PMB_INLINE void pmb_add_tiles_##W(const double *c, const double *value, int64_t tile, const int64_t *leaf,        \
                                      int64_t n, int64_t rows, int64_t stride, double *to) {                          \
        pmb_classes s[PMB_WIDE][W];                                                                                   \
        PMB_LANES(r, PMB_WIDE) PMB_LANES(p, W) {                                                                      \
            if (r < rows) PMB_PREFETCH(to + r * stride + p * PMB_WIDE);                                               \
            s[r][p] = (pmb_classes){0.0};                                                                             \
        }                                                                                                             \
        for (int64_t i = 0; i < n; i++, c += PMB_STEP) {                                                              \
            pmb_classes v[W];                                                                                         \
            PMB_PREFETCH(c + 16 * PMB_STEP); /* too far apart for the CPU's own */                                    \
            PMB_LANES(p, W) memcpy(v + p, value + p * tile + leaf[i] * PMB_WIDE, sizeof *v);                          \
            PMB_LANES(r, PMB_WIDE) {                                                                                  \
                const pmb_classes own = PMB_EIGHT(c[r]);                                                              \
                PMB_LANES(p, W) s[r][p] += own * v[p];                                                                \
            }                                                                                                         \
        }                                                                                                             \
        PMB_LANES(r, PMB_WIDE) PMB_LANES(p, W)                                                                        \
            if (r < rows) {                                                                                           \
                pmb_classes own;                                                                                      \
                memcpy(&own, to + r * stride + p * PMB_WIDE, sizeof own);                                             \
                own += s[r][p];                                                                                       \
                memcpy(to + r * stride + p * PMB_WIDE, &own, sizeof own);                                             \
            }                                                                                                         \
    }
PMB_ADD_TILES(3)
PMB_ADD_TILES(2)
PMB_ADD_TILES(1)
#endif

/* The same as pmb_add_few for a multiple of PMB_WIDE classes, whose values lie in tiles of so many, one after the other
 * with those of all leaves. The coefficients of a few rows stay in the first cache. */
PMB_INLINE void pmb_add_wide(const double *c, const double *value, const int64_t *leaf, int64_t leaves, int64_t all,
                             int64_t classes, int64_t n, int64_t stride, double *to) {
    const int has_512 = PMB_HAS_512, has_256 = PMB_HAS_256;
    const int64_t tile = has_512 ? PMB_WIDE : has_256 ? 4 : 2;
    double sum[4][PMB_WIDE];
    for (int64_t r = 0; r < n; r += tile) {
        const int64_t rows = n - r < tile ? n - r : tile;
        double *own = to + r * stride;
        int64_t k = 0;
#ifdef PMB_VECTORS
        if (has_512) {
            for (; k + 3 * PMB_WIDE <= classes; k += 3 * PMB_WIDE)
                pmb_add_tiles_3(c + r, value + k * all, PMB_WIDE * all, leaf, leaves, rows, stride, own + k);
            if (k + 2 * PMB_WIDE <= classes)
                pmb_add_tiles_2(c + r, value + k * all, PMB_WIDE * all, leaf, leaves, rows, stride, own + k);
            else if (k < classes)
                pmb_add_tiles_1(c + r, value + k * all, PMB_WIDE * all, leaf, leaves, rows, stride, own + k);
            continue;
        }
#endif
        for (; k < classes; k += PMB_WIDE) {
            for (int64_t i = 0; i < rows; i++) PMB_PREFETCH(own + i * stride + k); /* rows lie far apart */
            if (has_256) pmb_sum_classes_256(sum, c + r, value + k * all, leaf, leaves);
            else pmb_sum_classes_128(sum, c + r, value + k * all, leaf, leaves);
            for (int64_t i = 0; i < rows; i++) PMB_LANES(q, PMB_WIDE) own[i * stride + k + q] += sum[i][q];
        }
    }
}

/* Where the value of class k of a leaf lies, of `all` leaves: in tiles of PMB_WIDE classes, then the remaining ones. */
PMB_INLINE int64_t pmb_tiled(int64_t leaf, int64_t all, int64_t k, int64_t K) {
    const int64_t wide = K / PMB_WIDE * PMB_WIDE;
    return k < wide ? k / PMB_WIDE * PMB_WIDE * all + leaf * PMB_WIDE + k % PMB_WIDE
                    : wide * all + leaf * (K - wide) + k - wide;
}

/* Add what a batch of trees gives, with `all` leaves whose values are tiled: out (n, features, stride / features) gets
 * the K values from `to` on; with a `base`, of K < PMB_WIDE, what is added there is subtracted here. */
PMB_CLONES PMB_FUSED PMB_STATIC void pmb_add_batch(const pmb_trees *m, int64_t batch, const double *value, int64_t all,
                                                   int64_t K, const double *c, int64_t n, const int64_t *column,
                                                   int64_t classes, int64_t stride, double *to, double *base) {
    const int64_t zero = m->start[m->groups[batch]], wide = K / PMB_WIDE * PMB_WIDE;
    for (int64_t g = m->groups[batch]; g < m->groups[batch + 1]; g++) {
        const int64_t leaves = m->start[g + 1] - m->start[g], *leaf = m->leaf + m->start[g];
        const double *own = c + (m->start[g] - zero) * PMB_STEP;
        const int64_t at = column[m->group[g]] * classes;
        pmb_add_wide(own, value, leaf, leaves, all, wide, n, stride, to + at);
        pmb_add_few(own, value + wide * all, leaf, leaves, K - wide, n, stride, to + at + wide, base ? base + at : NULL);
    }
}

#endif
