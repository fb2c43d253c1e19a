/* Softmax on scores in single precision, for many classes: gradients of some rows at a time, and sums of gradients that
 * are made again from what is held of each row. The same arithmetic as in vrows.h, on rows of blocks of 16 lanes. */
#ifndef PYMCBOOST_SROWS_H
#define PYMCBOOST_SROWS_H

#include "vrows.h"

#if PMB_VECTORS
#define PMB_ALIGNED_64 __attribute__((aligned(64)))
#else
#define PMB_ALIGNED_64
#endif
#define PMB_SR_SPAN 4 /* blocks whose sums stay in registers */

/* What is held of a row: its largest score, 1 over the sum of the exponentials, and the gradient of its own class. */
typedef struct {
    float top, factor, own;
} pmb_sr_norm;

/* F += the entries of the leaves of the rows [from, to). */
PMB_STATIC void pmb_sr_add(float *F, int64_t width, const int64_t *start, const uint16_t *cls, const float *value,
                           const int32_t *leaf, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        for (int64_t e = start[leaf[i]]; e < start[leaf[i] + 1]; e++) F[i * width + cls[e]] += value[e];
}

/* Largest score of a row, by lane. */
PMB_INLINE void pmb_sr_largest(const float *PMB_RESTRICT f, int64_t width, float *PMB_RESTRICT tops) {
#if PMB_VECTORS
    ints_r_16 top, here, larger; /* from arrays gcc makes a chain of single numbers */
    memcpy(&top, f, sizeof top);
    for (int64_t b = 16; b < width; b += 16) {
        memcpy(&here, f + b, sizeof here);
        larger = (floats_r_16)here > (floats_r_16)top;
        top = (larger & here) | (~larger & top);
    }
    memcpy(tops, &top, sizeof top);
#else
    memcpy(tops, f, 16 * sizeof *tops);
    for (int64_t b = 16; b < width; b += 16) PMB_LANES(l, 16) tops[l] = f[b + l] > tops[l] ? f[b + l] : tops[l];
#endif
}

/* Negative gradients of n rows to G; adds w g^2 by lane to squares, in units. */
PMB_CLONES PMB_STATIC void pmb_sr_gradient(const float *PMB_RESTRICT F, int64_t width, const int32_t *PMB_RESTRICT y,
                                           const double *PMB_RESTRICT weight, int64_t n, float *PMB_RESTRICT G,
                                           pmb_sr_norm *PMB_RESTRICT norm, double magic,
                                           uint64_t *PMB_RESTRICT squares) {
    for (int64_t i = 0; i < n; i++) {
        const float *f = F + i * width;
        float *g = G + i * width, tops[16] PMB_ALIGNED_64, rest[16] PMB_ALIGNED_64 = {0}, own, others, top;
        double w = weight ? weight[i] : 1;
        float factor;
        pmb_sr_largest(f, width, tops);
        top = tops[0];
        for (int l = 1; l < 16; l++) top = tops[l] > top ? tops[l] : top;
        for (int64_t b = 0; b < width; b += 16) {
            float x[16] PMB_ALIGNED_64, e[16] PMB_ALIGNED_64;
            PMB_LANES(l, 16) x[l] = f[b + l] - top;
            pmb_exp_16(x, e, 1);
            memcpy(g + b, e, sizeof e);
        }
        own = g[y[i]];
        g[y[i]] = 0;
        for (int64_t b = 0; b < width; b += 16) PMB_LANES(l, 16) rest[l] += g[b + l];
        others = pmb_vr_sum_r_16(rest);
        factor = 1 / (others + own);
        for (int64_t k = 0; k < width; k++) g[k] *= -factor;
        g[y[i]] = others * factor;
        for (int64_t b = 0; b < width; b += 16)
            PMB_LANES(l, 16) squares[l] += pmb_bits(w * ((double)g[b + l] * (double)g[b + l]) + magic);
        norm[i].top = top;
        norm[i].factor = factor;
        norm[i].own = g[y[i]];
    }
}

/* Rows [from, to) of G P, `few` at a time, as pmb_vr_project; g: their gradients; magic: those of the units
 * of sums and square. sums (2, blocks * lanes): of w |g P| by lane, and room. Adds w g^2 to square. */
PMB_STATIC void pmb_sr_project(int lanes, const float *F, int64_t width, const int32_t *y, const double *weight,
                               int64_t few, const float *P, const int32_t *classes, const int64_t *start, int blocks,
                               int64_t from, int64_t to, const double *magic, float *g, pmb_sr_norm *norm, float *out,
                               uint64_t *sums, uint64_t *square) {
    int64_t L = (int64_t)blocks * lanes, end;
    uint64_t squares[16] PMB_ALIGNED_64 = {0};
    for (int64_t begin = from; begin < to; begin = end) {
        const double *w = weight ? weight + begin : NULL;
        end = begin + few < to ? begin + few : to;
        pmb_sr_gradient(F + begin * width, width, y + begin, w, end - begin, g, norm + begin, magic[1], squares);
        PMB_VR(lanes, pmb_vr_project_, g, width, P, classes, start, w, blocks, 0, end - begin, magic[0], out + begin * L,
               sums + L);
        for (int64_t l = 0; l < L; l++) sums[l] += sums[L + l];
    }
    pmb_less_magic(squares, 16, (to - from) * (width / 16), magic[1]);
    for (int l = 0; l < 16; l++) *square += squares[l];
}

/* Gradients of n rows, of `span` blocks from lane b on, from what is held of them. */
PMB_INLINE void pmb_sr_again(const float *PMB_RESTRICT F, int64_t width, const pmb_sr_norm *PMB_RESTRICT norm,
                             const int32_t *PMB_RESTRICT y, int64_t b, const int span, int64_t i, float *PMB_RESTRICT v) {
    const float *f = F + i * width + b;
    int64_t own = y[i] - b;
    for (int c = 0; c < span; c++) {
        float x[16] PMB_ALIGNED_64, e[16] PMB_ALIGNED_64;
        PMB_LANES(l, 16) x[l] = f[c * 16 + l] - norm[i].top;
        pmb_exp_16(x, e, 1);
        PMB_LANES(l, 16) v[c * 16 + l] = e[l] * -norm[i].factor;
    }
    if (own >= 0 && own < span * 16) v[own] = norm[i].own;
}

/* Of rows by lane, of `span` blocks from lane b on: largest score, less the largest of the row, and largest gradient of
 * the own class: out (2, width). */
PMB_INLINE void pmb_sr_tops_of(const float *PMB_RESTRICT F, int64_t width, const pmb_sr_norm *PMB_RESTRICT norm,
                               const int32_t *PMB_RESTRICT y, int64_t b, const int span,
                               const int32_t *PMB_RESTRICT rows, int64_t n, double *PMB_RESTRICT out) {
    float top[PMB_SR_SPAN * 16] PMB_ALIGNED_64;
    for (int l = 0; l < span * 16; l++) top[l] = -87;
    for (int64_t l = 0; l < span * 16; l++) out[width + b + l] = 0;
    for (int64_t j = 0; j < n; j++) {
        const pmb_sr_norm its = norm[rows[j]];
        int64_t own = y[rows[j]] - b;
        const float *f = F + rows[j] * width + b;
        if (j + 8 < n)
            for (int c = 0; c < span; c++) PMB_PREFETCH(F + rows[j + 8] * width + b + c * 16);
        for (int c = 0; c < span; c++) {
            const float *fc = f + (int64_t)c * 16;
            float *topc = top + (int64_t)c * 16;
            PMB_LANES(l, 16) topc[l] = fc[l] - its.top > topc[l] ? fc[l] - its.top : topc[l];
        }
        if (own >= 0 && own < span * 16 && its.own > out[width + b + own]) out[width + b + own] = its.own;
    }
    for (int64_t l = 0; l < span * 16; l++) out[b + l] = top[l];
}

/* The same of all blocks. */
PMB_CLONES PMB_STATIC void pmb_sr_tops(const float *PMB_RESTRICT F, int64_t width, const pmb_sr_norm *PMB_RESTRICT norm,
                                       const int32_t *PMB_RESTRICT y, const int32_t *PMB_RESTRICT rows, int64_t n,
                                       double *PMB_RESTRICT out) {
    int64_t b = 0;
    for (; b + 16 * PMB_SR_SPAN <= width; b += 16 * PMB_SR_SPAN)
        pmb_sr_tops_of(F, width, norm, y, b, PMB_SR_SPAN, rows, n, out);
    for (; b < width; b += 16) pmb_sr_tops_of(F, width, norm, y, b, 1, rows, n, out);
}

/* Sums over rows, in units: w g, and w |g| (1 - |g|), of `span` blocks from lane b on. */
PMB_INLINE void pmb_sr_leaf_of(const float *PMB_RESTRICT F, int64_t width, const pmb_sr_norm *PMB_RESTRICT norm,
                               const int32_t *PMB_RESTRICT y, const double *PMB_RESTRICT weight, int64_t b,
                               const int span, const int32_t *PMB_RESTRICT rows, int64_t n,
                               const double *PMB_RESTRICT magic, uint64_t *PMB_RESTRICT out) {
    uint64_t one[PMB_SR_SPAN][16] PMB_ALIGNED_64 = {{0}}, two[PMB_SR_SPAN][16] PMB_ALIGNED_64 = {{0}};
    double its[PMB_SR_SPAN][16] PMB_ALIGNED_64;
    memcpy(its, magic + b, (size_t)span * sizeof its[0]);
    for (int64_t j = 0; j < n; j++) {
        float v[PMB_SR_SPAN * 16] PMB_ALIGNED_64;
        double w = weight ? weight[rows[j]] : 1;
        if (j + 8 < n)
            for (int c = 0; c < span; c++) PMB_PREFETCH(F + rows[j + 8] * width + b + c * 16);
        pmb_sr_again(F, width, norm, y, b, span, rows[j], v);
        for (int c = 0; c < span; c++) { /* as in vrows_body.h */
            const float *vc = v + (int64_t)c * 16;
            const double *itsc = its[c];
            uint64_t *onec = one[c], *twoc = two[c];
            PMB_LANES(l, 16) {
                float size = fabsf(vc[l]);
                onec[l] += pmb_bits(w * (double)vc[l] + itsc[l]);
                twoc[l] += pmb_bits(w * (double)(size * (1 - size)) + itsc[l]);
            }
        }
    }
    memcpy(out + b, one, (size_t)span * sizeof one[0]);
    memcpy(out + width + b, two, (size_t)span * sizeof two[0]);
}

/* The same of all blocks: out (2, width), with one magic number for each lane. */
PMB_CLONES PMB_STATIC void pmb_sr_leaf(const float *PMB_RESTRICT F, int64_t width, const pmb_sr_norm *PMB_RESTRICT norm,
                                       const int32_t *PMB_RESTRICT y, const double *PMB_RESTRICT weight,
                                       const int32_t *PMB_RESTRICT rows, int64_t n, const double *PMB_RESTRICT magic,
                                       uint64_t *PMB_RESTRICT out) {
    int64_t b = 0;
    for (; b + 16 * PMB_SR_SPAN <= width; b += 16 * PMB_SR_SPAN)
        pmb_sr_leaf_of(F, width, norm, y, weight, b, PMB_SR_SPAN, rows, n, magic, out);
    for (; b < width; b += 16) pmb_sr_leaf_of(F, width, norm, y, weight, b, 1, rows, n, magic, out);
    for (int64_t l = 0; l < width; l++) {
        uint64_t off = (uint64_t)n * pmb_bits(magic[l]);
        out[l] -= off;
        out[width + l] -= off;
    }
}

#endif
