/* Shapley values of trees: the coefficients of leaves (contributions.h) times the leaves' values, for all classes. */
#ifndef PYMCBOOST_CONTRIBUTIONS_SUMS_H
#define PYMCBOOST_CONTRIBUTIONS_SUMS_H

#include "contributions_tables.h"

/* Contributions are for reading: in their sums a fifth of the time is worth more than equal last bits on all CPUs. */
#if defined(__GNUC__) && !defined(__clang__)
#define PMB_FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define PMB_FUSED
#endif

/* sum[k * R + r] = the sum of c[i][r] value[leaf[i]][k], for R rows and W values k. */
#define PMB_SUM_LEAVES(W, R)                                                                       \
    PMB_INLINE void pmb_sum_leaves_##W(double *sum, const double *c, const double *value,          \
                                       const int64_t *leaf, int64_t n, int64_t K) {                \
        pmb_shap_lanes s[W][R / PMB_SHAP_LANES] = {{{0.0}}};                                       \
        for (int64_t i = 0; i < n; i++, c += PMB_SHAP_STRIDE) {                                    \
            const double *v = value + leaf[i] * K;                                                 \
            for (int q = 0; q < R / PMB_SHAP_LANES; q++) {                                         \
                pmb_shap_lanes rows;                                                               \
                memcpy(&rows, c + q * PMB_SHAP_LANES, sizeof rows);                                \
                PMB_LANES(k, W) s[k][q] += rows * v[k];                                            \
            }                                                                                      \
        }                                                                                          \
        memcpy(sum, s, sizeof s);                                                                  \
    }
PMB_SUM_LEAVES(4, 8)
PMB_SUM_LEAVES(2, 16)
PMB_SUM_LEAVES(1, 32)

/* Add the sums of one feature for n rows to to + r stride, for K classes. */
PMB_INLINE void pmb_shap_add_few(const double *c, const double *value, const int64_t *leaf,
                                 int64_t leaves, int64_t K, int64_t n, int64_t stride, double *to,
                                 double *base) {
    double sum[32];
    for (int64_t k = 0, w; k < K; k += w) {
        w = K - k >= 4 ? 4 : K - k >= 2 ? 2 : 1;
        const int64_t R = 32 / w;
        for (int64_t r = 0; r < n; r += R) {
            const int64_t rows = n - r < R ? n - r : R;
            if (w == 4)
                pmb_sum_leaves_4(sum, c + r, value + k, leaf, leaves, K);
            else if (w == 2)
                pmb_sum_leaves_2(sum, c + r, value + k, leaf, leaves, K);
            else
                pmb_sum_leaves_1(sum, c + r, value + k, leaf, leaves, K);
            for (int64_t i = 0; i < rows; i++) {
                double *own = to + (r + i) * stride + k;
                for (int64_t q = 0; q < w; q++) own[q] += sum[q * R + i];
                if (base)
                    for (int64_t q = 0; q < w; q++)
                        base[(r + i) * stride + k + q] -= sum[q * R + i];
            }
        }
    }
}

/* Keeps a number in a register of its own. gcc would put indices into vectors and take them out again one by one, and
 * would keep a pointer for each row. */
#ifdef PMB_VECTORS
#define PMB_SCALAR(x) __asm__("" : "+r"(x))
#else
#define PMB_SCALAR(x) ((void)0)
#endif

/* The table at a place (see pmb_shap_trees). */
PMB_INLINE const double *pmb_shap_table(const pmb_shap_tables *from, int64_t place) {
    return place < 0 ? from->rows + ~place : from->patterns + place;
}

/* c[i * step + r] = the coefficient of row r0 + r for the i-th leaf of a group, for R rows. */
PMB_INLINE void pmb_shap_look_up(const pmb_shap_tables *from, const int64_t *place,
                                 const int64_t *leaf, int64_t leaves, int64_t r0, int64_t R,
                                 int64_t step, double *PMB_RESTRICT c) {
    for (int64_t i = 0; i < leaves; i++, c += step) {
        const double *own = pmb_shap_table(from, place[i]);
        const uint8_t *at = from->at + leaf[i] * PMB_SHAP_ROWS + r0;
        for (int64_t r = 0; r < R; r++) {
            uint64_t of = at[r];
            PMB_SCALAR(of);
            c[r] = own[of];
        }
    }
}

/* sum[r][k] = the sum of c[i R + r] value[leaf[i]][k], for R rows and PMB_SHAP_WIDE classes in vectors that fill registers.
 */
#define PMB_SUM_CLASSES(name, vector, R)                                                           \
    PMB_INLINE void pmb_sum_classes_##name(double (*sum)[PMB_SHAP_WIDE], const double *c,          \
                                           const double *value, const int64_t *leaf, int64_t n) {  \
        enum { PARTS = PMB_SHAP_WIDE * sizeof(double) / sizeof(vector) };                          \
        vector s[R][PARTS];                                                                        \
        PMB_LANES(r, R)                                                                            \
            PMB_LANES(p, PARTS) s[r][p] = (vector){0.0};                                           \
        for (int64_t i = 0; i < n; i++, c += R)                                                    \
            PMB_LANES(p, PARTS) {                                                                  \
                vector v;                                                                          \
                memcpy(&v, value + leaf[i] * PMB_SHAP_WIDE + p * (PMB_SHAP_WIDE / PARTS),          \
                       sizeof v);                                                                  \
                PMB_LANES(r, R) s[r][p] += c[r] * v;                                               \
            }                                                                                      \
        PMB_LANES(r, R)                                                                            \
            PMB_LANES(p, PARTS)                                                                    \
                memcpy(sum[r] + p * (PMB_SHAP_WIDE / PARTS), &s[r][p], sizeof s[r][p]);            \
    }
PMB_SUM_CLASSES(256, pmb_shap_lanes, 4)
PMB_SUM_CLASSES(128, pmb_shap_two, 2)

/* The same for PMB_SHAP_WIDE rows and W tiles of PMB_SHAP_WIDE classes that lie `tile` apart, added to the first `rows` rows, the
 * first `classes` of the last tile, or put there without `add`. of[i] is the number of the i-th leaf's values. A leaf
 * is W + PMB_SHAP_WIDE loads for W PMB_SHAP_WIDE products. With `look`, c is looked up for rows from r0 on, and written: that
 * takes the CPU no longer. */
#ifdef PMB_VECTORS
#define PMB_EIGHT(x) {x, x, x, x, x, x, x, x}
#define PMB_ADD_TILES(W)                                                                           \
    PMB_INLINE void pmb_add_tiles_##W(int look, const pmb_shap_tables *from, const int64_t *place, \
                                      int64_t r0, double *c, const double *value, int64_t tile,    \
                                      const int64_t *leaf, const int64_t *of, int64_t n, int add,  \
                                      int64_t rows, int64_t classes, int64_t stride, double *to) { \
        pmb_shap_classes s[PMB_SHAP_WIDE][W];                                                      \
        PMB_LANES(r, PMB_SHAP_WIDE)                                                                \
            PMB_LANES(p, W) {                                                                      \
                if (r < rows) PMB_PREFETCH(to + r * stride + p * PMB_SHAP_WIDE);                   \
                if (r < rows && p == W - 1) PMB_PREFETCH(to + r * stride + W * PMB_SHAP_WIDE - 1); \
                s[r][p] = (pmb_shap_classes){0.0};                                                 \
            }                                                                                      \
        for (int64_t i = 0; i < n; i++, c += PMB_SHAP_WIDE) {                                      \
            pmb_shap_classes v[W];                                                                 \
            const double *own = look ? pmb_shap_table(from, place[i]) : c;                         \
            const uint8_t *at = from->at + leaf[i] * PMB_SHAP_ROWS + r0;                           \
            PMB_SCALAR(own);                                                                       \
            PMB_SCALAR(at);                                                                        \
            PMB_LANES(p, W) memcpy(v + p, value + p * tile + of[i] * PMB_SHAP_WIDE, sizeof *v);    \
            PMB_LANES(r, PMB_SHAP_WIDE) {                                                          \
                const double x = look ? own[at[r]] : own[r];                                       \
                const pmb_shap_classes each = PMB_EIGHT(x);                                        \
                if (look) c[r] = x;                                                                \
                PMB_LANES(p, W) s[r][p] += each * v[p];                                            \
            }                                                                                      \
        }                                                                                          \
        PMB_LANES(r, PMB_SHAP_WIDE)                                                                \
            PMB_LANES(p, W) {                                                                      \
                double *out = to + r * stride + p * PMB_SHAP_WIDE;                                 \
                pmb_shap_classes sum;                                                              \
                if (r >= rows) continue;                                                           \
                if (p == W - 1 && classes < PMB_SHAP_WIDE) {                                       \
                    double some[PMB_SHAP_WIDE];                                                    \
                    memcpy(some, &s[r][p], sizeof some);                                           \
                    for (int64_t k = 0; k < classes; k++)                                          \
                        out[k] = add ? out[k] + some[k] : some[k];                                 \
                    continue;                                                                      \
                }                                                                                  \
                sum = s[r][p];                                                                     \
                if (add) {                                                                         \
                    memcpy(&sum, out, sizeof sum);                                                 \
                    sum += s[r][p];                                                                \
                }                                                                                  \
                memcpy(out, &sum, sizeof sum);                                                     \
            }                                                                                      \
    }
PMB_ADD_TILES(3)
PMB_ADD_TILES(2)
PMB_ADD_TILES(1)

/* The same for w classes of the `classes` that are left, in tiles of `all` leaves. */
PMB_INLINE void pmb_shap_add_some(int look, int64_t w, const pmb_shap_tables *from,
                                  const int64_t *place, int64_t r0, double *c, const double *value,
                                  int64_t all, const int64_t *leaf, const int64_t *of, int64_t n,
                                  int add, int64_t rows, int64_t classes, int64_t stride,
                                  double *to) {
    const int64_t tile = PMB_SHAP_WIDE * all, last = classes - w + PMB_SHAP_WIDE;
    if (w == 3 * PMB_SHAP_WIDE)
        pmb_add_tiles_3(look, from, place, r0, c, value, tile, leaf, of, n, add, rows, last, stride,
                        to);
    else if (w == 2 * PMB_SHAP_WIDE)
        pmb_add_tiles_2(look, from, place, r0, c, value, tile, leaf, of, n, add, rows, last, stride,
                        to);
    else
        pmb_add_tiles_1(look, from, place, r0, c, value, tile, leaf, of, n, add, rows, last, stride,
                        to);
}
#endif

/* The same as pmb_shap_add_few for PMB_SHAP_WIDE classes or more, whose values lie in tiles of so many, one after the other with
 * those of all leaves; the last one is filled up with zeros. c: room for PMB_SHAP_WIDE coefficients of each leaf. Those of a
 * few rows stay in the first cache. */
PMB_INLINE void pmb_shap_add_wide(const pmb_shap_trees *m, int64_t batch,
                                  const pmb_shap_tables *from, const double *value, int64_t all,
                                  int64_t K, int64_t n, const int64_t *column, int64_t classes,
                                  int64_t stride, double *out, const pmb_shap_untouched *rest,
                                  double *c) {
    const int has_512 = PMB_HAS_512, has_256 = PMB_HAS_256;
    const int64_t R = has_512 ? PMB_SHAP_WIDE : has_256 ? 4 : 2, first = m->groups[batch];
    const int64_t groups = m->groups[batch + 1] - first;
    const int64_t parts = (n + R - 1) / R, by_rows = all * K <= PMB_SHAP_CACHED;
    double sum[4][PMB_SHAP_WIDE];
    for (int64_t i = 0; rest && i < n * rest->n; i++)
        memset(out + i / rest->n * stride + rest->columns[i % rest->n] * classes, 0,
               sizeof *out * (size_t)K);
    for (int64_t i = 0; i < parts * groups; i++) {
        const int64_t r = (by_rows ? i / groups : i % parts) * R, rows = n - r < R ? n - r : R;
        const int64_t g = first + (by_rows ? i % groups : i / parts), start = m->start[g];
        const int64_t leaves = m->start[g + 1] - start, *leaf = m->leaf + start,
                      *place = m->place + start;
        const int64_t *of = m->value + start;
        double *to = out + column[m->group[g]] * classes;
        if (!has_512) pmb_shap_look_up(from, place, leaf, leaves, r, R, R, c);
        for (int64_t k = 0, w; k < K; k += w) {
            const int64_t left = K - k;
            const double *v = value + k * all;
            double *own = to + r * stride + k;
            w = PMB_SHAP_WIDE;
#ifdef PMB_VECTORS
            if (has_512) {
                w = left > 4 * PMB_SHAP_WIDE ||
                            (left > 2 * PMB_SHAP_WIDE && left <= 3 * PMB_SHAP_WIDE)
                        ? 3 * PMB_SHAP_WIDE
                    : left > PMB_SHAP_WIDE ? 2 * PMB_SHAP_WIDE
                                           : PMB_SHAP_WIDE;
                if (!k)
                    pmb_shap_add_some(1, w, from, place, r, c, v, all, leaf, of, leaves, !rest,
                                      rows, left, stride, own);
                else
                    pmb_shap_add_some(0, w, from, place, r, c, v, all, leaf, of, leaves, !rest,
                                      rows, left, stride, own);
                continue;
            }
#endif
            for (int64_t i = 0; i < rows; i++)
                PMB_PREFETCH(own + i * stride); /* rows lie far apart */
            if (has_256)
                pmb_sum_classes_256(sum, c, v, of, leaves);
            else
                pmb_sum_classes_128(sum, c, v, of, leaves);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t q = 0; q < (left < PMB_SHAP_WIDE ? left : PMB_SHAP_WIDE); q++)
                    own[i * stride + q] = rest ? sum[i][q] : own[i * stride + q] + sum[i][q];
        }
    }
}

/* Where the value of class k of a leaf lies, of `all` leaves: in tiles of PMB_SHAP_WIDE classes, if there are so many. */
PMB_INLINE int64_t pmb_shap_tiled(int64_t leaf, int64_t all, int64_t k, int64_t K) {
    return K < PMB_SHAP_WIDE
               ? leaf * K + k
               : k / PMB_SHAP_WIDE * PMB_SHAP_WIDE * all + leaf * PMB_SHAP_WIDE + k % PMB_SHAP_WIDE;
}

/* Values of a leaf in tiles, with the zeros that fill up the last one. */
PMB_INLINE int64_t pmb_shap_in_tiles(int64_t K) {
    return K < PMB_SHAP_WIDE ? K : (K + PMB_SHAP_WIDE - 1) / PMB_SHAP_WIDE * PMB_SHAP_WIDE;
}

/* The values of a leaf, less those of another one, times a code if one is given: the values `to` of `all`. step: 0
 * where a leaf has one value for all. */
PMB_INLINE void pmb_shap_put_values(const float *leaf, const float *less, const float *code,
                                    int64_t step, int64_t to, int64_t all, int64_t K,
                                    double *value) {
    for (int64_t tile = 0; tile < K; tile += PMB_SHAP_WIDE) {
        double *own = value + pmb_shap_tiled(to, all, tile, K);
        const int64_t n = K - tile < PMB_SHAP_WIDE ? K - tile : PMB_SHAP_WIDE;
        for (int64_t k = tile; k < tile + n; k++, own++) {
            *own = (double)leaf[step * k] - (double)less[step * k];
            if (code) *own *= (double)code[k];
        }
        for (int64_t k = n; k < PMB_SHAP_WIDE && K > PMB_SHAP_WIDE; k++) *own++ = 0.0;
    }
}

/* Add what a batch of trees gives, with `all` values of leaves that are tiled: out (n, features, stride / features)
 * gets the K values from `to` on; with a `base`, of K < PMB_SHAP_WIDE, what is added there is subtracted here. With `rest`,
 * out holds nothing yet. */
PMB_CLONES PMB_FUSED PMB_STATIC void pmb_shap_add_batch(const pmb_shap_trees *m, int64_t batch,
                                                        const double *value, int64_t all, int64_t K,
                                                        const pmb_shap_tables *from, int64_t n,
                                                        const int64_t *column, int64_t classes,
                                                        int64_t stride, double *to, double *base,
                                                        const pmb_shap_untouched *rest, double *c) {
    if (K >= PMB_SHAP_WIDE) {
        pmb_shap_add_wide(m, batch, from, value, all, K, n, column, classes, stride, to, rest, c);
        return;
    }
    if (rest) memset(to, 0, sizeof *to * (size_t)(n * stride));
    for (int64_t g = m->groups[batch]; g < m->groups[batch + 1]; g++) {
        const int64_t leaves = m->start[g + 1] - m->start[g], *leaf = m->leaf + m->start[g];
        const int64_t *place = m->place + m->start[g], out = column[m->group[g]] * classes;
        pmb_shap_look_up(from, place, leaf, leaves, 0, n, PMB_SHAP_STRIDE, c);
        pmb_shap_add_few(c, value, m->value + m->start[g], leaves, K, n, stride, to + out,
                         base ? base + out : NULL);
    }
}

#endif
