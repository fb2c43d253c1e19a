/* Coefficients of the leaves of trees (contributions.h), in tables by the patterns of rows or by rows. */
#ifndef PYMCBOOST_CONTRIBUTIONS_TABLES_H
#define PYMCBOOST_CONTRIBUTIONS_TABLES_H

#include "contributions.h"

/* Coefficients of the leaves of a batch for a block of rows. */
typedef struct {
    double *patterns, *rows; /* tables of short paths, of long ones */
    uint8_t
        *at; /* of each leaf and row: the place in the leaf's tables, PMB_SHAP_ROWS for each leaf */
    int made; /* whether `patterns` has been written before */
} pmb_shap_tables;

/* Columns of the results that no tree of a batch adds to. */
typedef struct {
    const int64_t *columns;
    int64_t n;
} pmb_shap_untouched;

/* Numbers in the table of a feature, on a path of d of them: one for each pattern, or for each row of a block. */
PMB_INLINE int64_t pmb_shap_table_size(int64_t d) {
    return d > PMB_SHAP_SHORT ? PMB_SHAP_ROWS : d > 3 ? (int64_t)1 << d : PMB_SHAP_WIDE;
}

PMB_INLINE uint64_t pmb_shap_all_bits(int64_t d) {
    return d < 64 ? ((uint64_t)1 << d) - 1 : ~(uint64_t)0;
}

PMB_INLINE int pmb_shap_count_bits(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    return (int)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}

/* Place of a fixed feature among those of a leaf, -1 without one. 0 if the leaf does not ask about it. */
PMB_INLINE int pmb_shap_place_of_fixed(const pmb_shap_trees *m, int64_t leaf, int64_t fixed,
                                       int64_t *place) {
    const int64_t d = m->begin[leaf + 1] - m->begin[leaf], *path = m->path + m->begin[leaf];
    *place = -1;
    if (fixed < 0) return 1;
    for (int64_t j = 0; j < d; j++)
        if (path[j] == fixed) *place = j;
    return *place >= 0;
}

/* Coefficients c of a leaf for rows of pattern a, against the patterns of background rows; q: see pmb_shap_place_of_fixed. */
PMB_INLINE void pmb_shap_against_rows(const pmb_shap_background *b, int64_t leaf, uint64_t a,
                                      int64_t d, int64_t q, double *c) {
    const uint64_t full = pmb_shap_all_bits(d), fixed = q < 0 ? 0 : (uint64_t)1 << q;
    for (int64_t j = 0; j < d; j++) c[j] = 0.0;
    for (int64_t i = b->first[leaf]; i < b->first[leaf + 1]; i++) {
        const uint64_t z = b->pattern[i], only_a = a & ~z & full & ~fixed,
                       only_z = z & ~a & full & ~fixed;
        const double share = a & fixed || !fixed ? b->share[i] : -b->share[i];
        double plus, minus;
        int u, v;
        if (((a | z) & full) != full || a == z || (fixed && !((a ^ z) & fixed))) continue;
        u = pmb_shap_count_bits(only_a);
        v = pmb_shap_count_bits(only_z);
        plus = u ? share * b->factorial[(u - 1) * (PMB_SHAP_FEATURES + 1) + v] : 0.0;
        minus = v ? share * b->factorial[u * (PMB_SHAP_FEATURES + 1) + v - 1] : 0.0;
        for (int64_t j = 0; j < d; j++)
            c[j] += (double)(only_a >> j & 1) * plus - (double)(only_z >> j & 1) * minus;
    }
}

/* The same against shares of rows, for PMB_SHAP_WIDE patterns at once: c[j][l] is that of feature j for pattern l. */
PMB_INLINE void pmb_shap_against_covers(const pmb_shap_background *b, const double *ratio,
                                        const uint64_t *a, int64_t d, int64_t fixed,
                                        double (*PMB_RESTRICT c)[PMB_SHAP_WIDE]) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2;
    for (int part = 0; part < PMB_SHAP_WIDE; part += PMB_SHAP_LANES, a += PMB_SHAP_LANES) {
        pmb_shap_lanes zero, row[PMB_SHAP_FEATURES], other[PMB_SHAP_FEATURES], g[PMB_SHAP_FEATURES],
            before[PMB_SHAP_FEATURES], sum[PMB_SHAP_FEATURES];
        memset(&zero, 0, sizeof zero);
        for (int64_t j = 0; j < d; j++) {
            double bits[PMB_SHAP_LANES];
            PMB_LANES(l, PMB_SHAP_LANES) bits[l] = (double)(int64_t)(a[l] >> j & 1);
            memcpy(row + j, bits, sizeof bits);
            sum[j] = zero;
            other[j] = sum[j] + ratio[j];
            if (j == fixed) other[j] = row[j] = row[j] - ratio[j];
        }
        for (int64_t q = from; q < from + nodes; q++) {
            const double t = b->node[q], s = 1.0 - t;
            pmb_shap_lanes product = zero + b->weight[q];
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
            const pmb_shap_lanes found = sum[j] * (row[j] - other[j]);
            memcpy(c[j] + part, &found, sizeof found);
        }
    }
}

/* product[p] = start times what the features of a path give, for all patterns p of their bits; give: of bits 0, 1. */
PMB_INLINE void pmb_shap_products(double start, const double (*give)[2], int64_t d,
                                  double *PMB_RESTRICT product) {
    product[0] = start;
    for (int64_t j = 0; j < d; j++) {
        const int64_t n = (int64_t)1 << j;
        for (int64_t p = 0; p < n; p++) product[n + p] = product[p] * give[j][1];
        for (int64_t p = 0; p < n; p++) product[p] *= give[j][0];
    }
}

/* sum += a b, for PMB_SHAP_WIDE numbers. */
PMB_INLINE void pmb_shap_add_product(double *sum, const double *a, const double *b) {
#ifdef PMB_VECTORS
    pmb_shap_classes s, x, y;
    memcpy(&s, sum, sizeof s);
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    s += x * y;
    memcpy(sum, &s, sizeof s);
#else
    for (int l = 0; l < PMB_SHAP_WIDE; l++) sum[l] += a[l] * b[l];
#endif
}

/* What each feature of a short path gives to the product at node q of the quadrature, and what turns the product over
 * all i into a_j - b_j times that over i != j, for bits 0 and 1. Where g_j is 0, a_j - b_j is 0 too. */
PMB_INLINE void pmb_shap_factors(const pmb_shap_background *b, const double *ratio, int64_t d,
                                 int64_t fixed, int64_t q, double (*give)[2], double (*of)[2]) {
    const double t = b->node[q], s = 1.0 - t;
    for (int64_t j = 0; j < d; j++) {
        give[j][0] = j == fixed ? -ratio[j] : ratio[j] * s;
        give[j][1] = j == fixed ? 1.0 - ratio[j] : t + ratio[j] * s;
        of[j][0] = j != fixed && ratio[j] > 0.0 ? -1.0 / s : 0.0;
        of[j][1] = j != fixed ? (1.0 - ratio[j]) / give[j][1] : 0.0;
    }
}

/* The coefficients of PMB_SHAP_WIDE patterns of a short path: c[j][l] is that of feature j for pattern l. */
PMB_INLINE void pmb_shap_some_patterns(const pmb_shap_background *b, const double *ratio,
                                       const uint64_t *a, int64_t d, int64_t fixed,
                                       double (*PMB_RESTRICT c)[PMB_SHAP_WIDE]) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2;
    double give[PMB_SHAP_SHORT][2], of[PMB_SHAP_SHORT][2];
    memset(c, 0, sizeof *c * (size_t)d);
    for (int64_t q = from; q < from + nodes; q++) {
        double product[PMB_SHAP_WIDE];
        pmb_shap_factors(b, ratio, d, fixed, q, give, of);
        for (int l = 0; l < PMB_SHAP_WIDE; l++) product[l] = b->weight[q];
        for (int64_t j = 0; j < d; j++)
            for (int l = 0; l < PMB_SHAP_WIDE; l++) product[l] *= give[j][a[l] >> j & 1];
        for (int64_t j = 0; j < d; j++)
            for (int l = 0; l < PMB_SHAP_WIDE; l++) c[j][l] += product[l] * of[j][a[l] >> j & 1];
    }
}

/* The same for all patterns: that of feature j for pattern p is table[j * pmb_shap_table_size(d) + p]. Products and sums have the
 * same order. */
PMB_INLINE void pmb_shap_all_patterns(const pmb_shap_background *b, const double *ratio, int64_t d,
                                      int64_t fixed, double *PMB_RESTRICT table) {
    const int64_t nodes = (d + 1) / 2, from = nodes * (nodes - 1) / 2, n = pmb_shap_table_size(d);
    double product[PMB_SHAP_ROWS] = {0.0}, give[PMB_SHAP_SHORT][2], of[PMB_SHAP_SHORT][2],
           part[2][PMB_SHAP_WIDE];
    memset(table, 0, sizeof *table * (size_t)(n * d));
    for (int64_t q = from; q < from + nodes; q++) {
        pmb_shap_factors(b, ratio, d, fixed, q, give, of);
        pmb_shap_products(b->weight[q], (const double (*)[2])give, d, product);
        for (int64_t j = 0; j < d; j++) {
            for (int l = 0; l < PMB_SHAP_WIDE; l++) {
                part[0][l] = j < 3 ? of[j][l >> j & 1] : of[j][0];
                part[1][l] =
                    of[j]
                      [1]; /* of the blocks of patterns with bit j, if that is not within a block */
            }
            for (int64_t p = 0; p < n; p += PMB_SHAP_WIDE)
                pmb_shap_add_product(table + j * n + p, product + p, part[j < 3 ? 0 : p >> j & 1]);
        }
    }
}

/* The place of each row in the tables of a leaf: its pattern, or its own number. The last ones fill up a vector. */
PMB_INLINE void pmb_shap_at_patterns(const uint64_t *pattern, int64_t n, int64_t d,
                                     uint8_t *PMB_RESTRICT at) {
    const uint64_t full = pmb_shap_all_bits(d);
    for (int64_t r = 0; r < n; r += PMB_SHAP_WIDE)
        PMB_LANES(l, PMB_SHAP_WIDE) at[r + l] = (uint8_t)(pattern[r + l] & full);
}

PMB_INLINE void pmb_shap_at_rows(int64_t n, uint8_t *at) {
    for (int64_t r = 0; r < n; r += PMB_SHAP_WIDE)
        PMB_LANES(l, PMB_SHAP_WIDE) at[r + l] = (uint8_t)(r + l);
}

PMB_INLINE void pmb_shap_none(int64_t n, int64_t d, double *table, uint8_t *at) {
    for (int64_t j = 0; j < d; j++) table[j * pmb_shap_table_size(d)] = 0.0;
    memset(at, 0, (size_t)(n + PMB_SHAP_WIDE - 1) / PMB_SHAP_WIDE * PMB_SHAP_WIDE);
}

/* The tables of all patterns of a tree's short paths. */
PMB_CLONES PMB_STATIC void pmb_shap_make_tables(const pmb_shap_trees *m, int64_t tree,
                                                const pmb_shap_background *b, int64_t fixed,
                                                double *patterns) {
    for (int64_t l = m->offset[tree] + tree; l < m->offset[tree + 1] + tree + 1; l++) {
        const int64_t d = m->begin[l + 1] - m->begin[l];
        int64_t q;
        if (d > PMB_SHAP_SHORT) continue;
        if (pmb_shap_place_of_fixed(m, l, fixed, &q))
            pmb_shap_all_patterns(b, b->ratio + m->begin[l], d, q, patterns + m->table[l]);
        else
            memset(patterns + m->table[l], 0,
                   sizeof *patterns * (size_t)(d * pmb_shap_table_size(d)));
    }
}

/* Coefficients of all leaves of a tree, of which `before` come before it in its batch, for n rows: that of row r and
 * feature j of leaf l is the one at m->table[l] + j pmb_shap_table_size(d) + at[r]. A short path has those of all patterns where
 * they are made already, or are fewer than the rows. */
PMB_CLONES PMB_STATIC void pmb_shap_by_covers(const pmb_shap_trees *m, int64_t tree,
                                              const pmb_shap_background *b, const uint64_t *pattern,
                                              int64_t n, int64_t fixed, int64_t before,
                                              const pmb_shap_tables *to) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    uint8_t *at = to->at + before * PMB_SHAP_ROWS;
    double found[PMB_SHAP_FEATURES][PMB_SHAP_WIDE];
    for (int64_t l = first; l < end; l++, pattern += PMB_SHAP_ROWS, at += PMB_SHAP_ROWS) {
        const int64_t d = m->begin[l + 1] - m->begin[l], room = pmb_shap_table_size(d);
        const double *ratio = b->ratio + m->begin[l];
        double *own = (d > PMB_SHAP_SHORT ? to->rows : to->patterns) + m->table[l];
        int64_t q;
        if (d <= PMB_SHAP_SHORT && to->made) {
            pmb_shap_at_patterns(pattern, n, d, at);
            continue;
        }
        if (!pmb_shap_place_of_fixed(m, l, fixed, &q)) {
            pmb_shap_none(n, d, own, at);
            continue;
        }
        if (d <= PMB_SHAP_SHORT && (int64_t)1 << d < n) {
            pmb_shap_all_patterns(b, ratio, d, q, own);
            pmb_shap_at_patterns(pattern, n, d, at);
            continue;
        }
        /* a block has PMB_SHAP_ROWS patterns, however many rows */
        for (int64_t r = 0; r < n; r += PMB_SHAP_WIDE) {
            if (d <= PMB_SHAP_SHORT)
                pmb_shap_some_patterns(b, ratio, pattern + r, d, q, found);
            else
                pmb_shap_against_covers(b, ratio, pattern + r, d, q, found);
            for (int64_t j = 0; j < d; j++) memcpy(own + j * room + r, found[j], sizeof found[j]);
        }
        pmb_shap_at_rows(n, at);
    }
}

/* The same against rows. The coefficients of a pattern are kept: in its table, or in s where that is one of rows. */
PMB_CLONES PMB_STATIC void pmb_shap_by_rows(const pmb_shap_trees *m, int64_t tree,
                                            const pmb_shap_background *b, const uint64_t *pattern,
                                            int64_t n, int64_t fixed, int64_t before,
                                            const pmb_shap_tables *to, pmb_shap_cache *s) {
    const int64_t first = m->offset[tree] + tree, end = m->offset[tree + 1] + tree + 1;
    uint8_t *at = to->at + before * PMB_SHAP_ROWS;
    for (int64_t l = first; l < end; l++, pattern += PMB_SHAP_ROWS, at += PMB_SHAP_ROWS) {
        const int64_t d = m->begin[l + 1] - m->begin[l], room = pmb_shap_table_size(d);
        const uint64_t full = pmb_shap_all_bits(d);
        double *own = (d > PMB_SHAP_SHORT ? to->rows : to->patterns) + m->table[l];
        int64_t q;
        if (!pmb_shap_place_of_fixed(m, l, fixed, &q)) {
            pmb_shap_none(n, d, own, at);
            continue;
        }
        /* No pattern of fewer than 64 bits is all ones once the others are cut off; one of 64 is never kept. */
        memset(s->keys, 255, sizeof s->keys);
        for (int64_t r = 0; r < n; r++) {
            const uint64_t a = pattern[r] & full;
            const uint8_t place =
                (uint8_t)(d <= PMB_SHAP_SHORT ? a : a * 0x9e3779b97f4a7c15u >> 56);
            const int64_t as = d <= PMB_SHAP_SHORT ? place : r;
            const int known = s->keys[place] == a && a != ~(uint64_t)0;
            if (!known) pmb_shap_against_rows(b, l, a, d, q, s->of[place]);
            s->keys[place] = a;
            if (!known || d > PMB_SHAP_SHORT)
                for (int64_t j = 0; j < d; j++) own[j * room + as] = s->of[place][j];
        }
        if (d <= PMB_SHAP_SHORT)
            pmb_shap_at_patterns(pattern, n, d, at);
        else
            pmb_shap_at_rows(n, at);
    }
}

#endif
