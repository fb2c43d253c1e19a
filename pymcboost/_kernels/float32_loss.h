/* Softmax for very many classes, on scores in single precision: gradients of some rows at a time, which are not kept, and sums
 * of gradients that are made again from what is held of each row. The arithmetic is that of vector_loss.h, on rows of blocks of
 * 16 lanes. */
#ifndef PYMCBOOST_FLOAT32_LOSS_H
#define PYMCBOOST_FLOAT32_LOSS_H

#include "sign_directions.h"
#include "vector_loss.h"

#define PMB_F32_SPAN 4 /* blocks whose sums stay in registers */
#define PMB_F32_ROWS 8 /* whose gradients are made together */

/* What is held of a row: its largest score, 1 over the sum of the exponentials, and the gradient of its own class. */
typedef struct {
    float top, factor, own;
} pmb_f32_norm;

/* F += the entries of the leaves of the rows [from, to). */
PMB_STATIC void pmb_f32_add(float *F, int64_t width, const int64_t *start, const uint16_t *cls,
                            const float *value, const int32_t *leaf, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        for (int64_t e = start[leaf[i]]; e < start[leaf[i] + 1]; e++)
            F[i * width + cls[e]] += value[e];
}

/* F += V[leaf] of the rows [from, to). F, V: rows of `width`. */
PMB_CLONES PMB_STATIC void pmb_f32_add_rows(float *PMB_RESTRICT F, int64_t width,
                                            const float *PMB_RESTRICT V,
                                            const int32_t *PMB_RESTRICT leaf, int64_t from,
                                            int64_t to) {
    for (int64_t i = from; i < to; i++) {
        const float *v = V + leaf[i] * width;
        float *f = F + i * width;
        for (int64_t b = 0; b < width; b += 16) {
            PMB_PREFETCH(f + 2 * width + b); /* rows are as long as pages */
            PMB_LANES(l, 16) f[b + l] += v[b + l];
        }
    }
}

/* Largest score of a row, by lane. */
PMB_INLINE void pmb_f32_largest(const float *PMB_RESTRICT f, int64_t width,
                                float *PMB_RESTRICT tops) {
#if PMB_VECTORS
    ints_r_16 top[PMB_F32_SPAN], here,
        larger; /* from arrays gcc makes single numbers; one top would wait for itself */
    int64_t b = 16 * PMB_F32_SPAN;
    for (int c = 0; c < PMB_F32_SPAN; c++)
        memcpy(&top[c], f + (16 * c < width ? 16 * c : 0), sizeof top[c]);
    for (; b < width; b += 16 * PMB_F32_SPAN)
        for (int c = 0; c < PMB_F32_SPAN; c++) {
            memcpy(&here, f + (b + 16 * c < width ? b + 16 * c : b), sizeof here);
            larger = (floats_r_16)here > (floats_r_16)top[c];
            top[c] = (larger & here) | (~larger & top[c]);
        }
    for (int c = 1; c < PMB_F32_SPAN; c++) {
        larger = (floats_r_16)top[c] > (floats_r_16)top[0];
        top[0] = (larger & top[c]) | (~larger & top[0]);
    }
    memcpy(tops, &top[0], sizeof top[0]);
#else
    memcpy(tops, f, 16 * sizeof *tops);
    for (int64_t b = 16; b < width; b += 16)
        PMB_LANES(l, 16) tops[l] = f[b + l] > tops[l] ? f[b + l] : tops[l];
#endif
}

/* sums += x, and sums += x^2, of 16 aligned lanes. */
PMB_INLINE void pmb_f32_plus(float *sums, const float *x) {
#if PMB_VECTORS /* from loops over lanes gcc makes single numbers here and there */
    *(floats_r_16 *)sums += *(const floats_r_16 *)x;
#else
    PMB_LANES(l, 16) sums[l] += x[l];
#endif
}
PMB_INLINE void pmb_f32_plus_squares(float *sums, const float *x) {
#if PMB_VECTORS
    *(floats_r_16 *)sums += *(const floats_r_16 *)x * *(const floats_r_16 *)x;
#else
    PMB_LANES(l, 16) sums[l] += x[l] * x[l];
#endif
}

/* exp(f - top) of the lanes [from, to) of a row to e; their sums are added to rest, by lane. The next row is fetched:
 * rows are as long as pages, beyond which the machine does not look ahead by itself. */
PMB_INLINE void pmb_f32_exps(const float *PMB_RESTRICT f, int64_t width, float top, int64_t from,
                             int64_t to, float *PMB_RESTRICT e, float *PMB_RESTRICT rest) {
    for (int64_t b = from; b < to; b += 16) {
        float x[16] ALIGNED_LANES, values[16] ALIGNED_LANES;
        PMB_PREFETCH(f + width + b);
        PMB_LANES(l, 16) x[l] = f[b + l] - top;
        pmb_exp_16(x, values, 1);
        memcpy(e + b, values, sizeof values);
        pmb_f32_plus(rest, values);
    }
}

/* Negative gradients of n rows to G, multiplied by `size` of their classes if that is not NULL; returns the sum of
 * w |g|^2 in units, with the magic numbers. */
PMB_CLONES PMB_STATIC uint64_t pmb_f32_gradient(const float *PMB_RESTRICT F, int64_t width,
                                                const int32_t *PMB_RESTRICT y,
                                                const double *PMB_RESTRICT weight,
                                                const float *PMB_RESTRICT size, int64_t n,
                                                float *PMB_RESTRICT G,
                                                pmb_f32_norm *PMB_RESTRICT norm, double magic) {
    uint64_t square = 0;
    for (int64_t i = 0; i < n; i++) {
        const float *f = F + i * width;
        float *g = G + i * width, x[16] ALIGNED_LANES, rest[16] ALIGNED_LANES = {0}, own, others,
              top, factor;
        int64_t block = y[i] / 16 * 16;
        pmb_f32_largest(f, width, x);
        top = x[0];
        for (int l = 1; l < 16; l++) top = x[l] > top ? x[l] : top;
        pmb_f32_exps(f, width, top, 0, block, g, rest);
        PMB_LANES(l, 16) x[l] = f[block + l] - top;
        pmb_exp_16(x, g + block, 1);
        own = g[y[i]];
        g[y[i]] = 0;
        pmb_f32_plus(rest, g + block);
        pmb_f32_exps(f, width, top, block + 16, width, g, rest);
        others = pmb_vloss_sum_r_16(rest);
        factor = 1 / (others + own);
        g[y[i]] = -others;
        norm[i].own = g[y[i]] * -factor;
        memset(rest, 0, sizeof rest);
        for (int64_t b = 0; b < width; b += 16) {
            float values[16] ALIGNED_LANES;
            PMB_LANES(l, 16) values[l] = g[b + l] * -factor;
            pmb_f32_plus_squares(rest, values);
            if (size)
                PMB_LANES(l, 16) values[l] *= size[b + l];
            memcpy(g + b, values, sizeof values);
        }
        square += pmb_bits((weight ? weight[i] : 1) * (double)pmb_vloss_sum_r_16(rest) + magic);
        norm[i].top = top;
        norm[i].factor = factor;
    }
    return square;
}

/* F += V[leaf] (V NULL: F stays), and rows [from, to) of G P, `few` at a time, as pmb_vloss_project, or from signs; g:
 * their gradients; magic: those of the units of sums and square. sums (2, blocks * lanes): of w |g P| by lane, and
 * room. Adds w |g|^2 to square. */
PMB_STATIC void pmb_f32_project(int lanes, float *F, int64_t width, const float *V,
                                const int32_t *leaf, const int32_t *y, const double *weight,
                                int64_t few, const float *P, const pmb_signs *signs, int blocks,
                                int64_t from, int64_t to, const double *magic, float *g,
                                pmb_f32_norm *norm, float *out, uint64_t *sums, uint64_t *square) {
    int64_t L = (int64_t)blocks * lanes, end;
    for (int64_t begin = from; begin < to; begin = end) {
        const double *w = weight ? weight + begin : NULL;
        end = begin + few < to ? begin + few : to;
        if (V) pmb_f32_add_rows(F, width, V, leaf, begin, end);
        *square += pmb_f32_gradient(F + begin * width, width, y + begin, w, signs->size,
                                    end - begin, g, norm + begin, magic[1]);
        if (signs->size)
            pmb_project_signs(g, width, signs, w, blocks, 0, end - begin, magic[0], NULL,
                              out + begin * L, sums + L);
        else
            PMB_VLOSS(lanes, pmb_vloss_project_, g, width, P, signs->classes, signs->start, w,
                      blocks, 0, end - begin, magic[0], out + begin * L, sums + L);
        for (int64_t l = 0; l < L; l++) sums[l] += sums[L + l];
    }
    pmb_less_magic(square, 1, to - from, magic[1]);
}

/* Gradients of n rows, of `span` blocks from lane b on, from what is held of them. */
PMB_INLINE void pmb_f32_again(const float *PMB_RESTRICT F, int64_t width,
                              const pmb_f32_norm *PMB_RESTRICT norm, const int32_t *PMB_RESTRICT y,
                              int64_t b, const int span, int64_t i, float *PMB_RESTRICT v) {
    const float *f = F + i * width + b;
    int64_t own = y[i] - b;
    for (int c = 0; c < span; c++) {
        float x[16] ALIGNED_LANES, e[16] ALIGNED_LANES;
        PMB_LANES(l, 16) x[l] = f[c * 16 + l] - norm[i].top;
        pmb_exp_16(x, e, 1);
        PMB_LANES(l, 16) v[c * 16 + l] = e[l] * -norm[i].factor;
    }
    if (own >= 0 && own < span * 16) v[own] = norm[i].own;
}

/* Of rows by lane, of `span` blocks from lane b on: largest score, less the largest of the row, and largest gradient of
 * the own class: out (2, width). */
PMB_INLINE void pmb_f32_tops_of(const float *PMB_RESTRICT F, int64_t width,
                                const pmb_f32_norm *PMB_RESTRICT norm,
                                const int32_t *PMB_RESTRICT y, int64_t b, const int span,
                                const int32_t *PMB_RESTRICT rows, int64_t n,
                                double *PMB_RESTRICT out) {
    float top[PMB_F32_SPAN * 16] ALIGNED_LANES;
    for (int l = 0; l < span * 16; l++) top[l] = -87;
    for (int64_t l = 0; l < span * 16; l++) out[width + b + l] = 0;
    for (int64_t j = 0; j < n; j++) {
        const pmb_f32_norm held = norm[rows[j]];
        int64_t own = y[rows[j]] - b;
        const float *f = F + rows[j] * width + b;
        if (j + 8 < n)
            for (int c = 0; c < span; c++) PMB_PREFETCH(F + rows[j + 8] * width + b + c * 16);
        for (int c = 0; c < span; c++) {
            const float *fc = f + (int64_t)c * 16;
            float *topc = top + (int64_t)c * 16;
            PMB_LANES(l, 16) topc[l] = fc[l] - held.top > topc[l] ? fc[l] - held.top : topc[l];
        }
        if (own >= 0 && own < span * 16 && held.own > out[width + b + own])
            out[width + b + own] = held.own;
    }
    for (int64_t l = 0; l < span * 16; l++) out[b + l] = top[l];
}

/* The same of all blocks. */
PMB_CLONES PMB_STATIC void pmb_f32_tops(const float *PMB_RESTRICT F, int64_t width,
                                        const pmb_f32_norm *PMB_RESTRICT norm,
                                        const int32_t *PMB_RESTRICT y,
                                        const int32_t *PMB_RESTRICT rows, int64_t n,
                                        double *PMB_RESTRICT out) {
    int64_t b = 0;
    for (; b + 16 * PMB_F32_SPAN <= width; b += 16 * PMB_F32_SPAN)
        pmb_f32_tops_of(F, width, norm, y, b, PMB_F32_SPAN, rows, n, out);
    for (; b < width; b += 16) pmb_f32_tops_of(F, width, norm, y, b, 1, rows, n, out);
}

/* Adds w g and w |g| (1 - |g|) of few rows, of 16 lanes, in units. g: each row of them SPAN blocks after the last. */
PMB_INLINE void pmb_f32_count(const float *PMB_RESTRICT g, const double *PMB_RESTRICT w,
                              const int weighted, int few, const double *PMB_RESTRICT magic,
                              uint64_t *PMB_RESTRICT one, uint64_t *PMB_RESTRICT two) {
    uint64_t ones[16] ALIGNED_LANES, twos[16] ALIGNED_LANES; /* in registers */
    memcpy(ones, one, sizeof ones);
    memcpy(twos, two, sizeof twos);
    for (int j = 0; j < few; j++) {
        const float *v = g + j * PMB_F32_SPAN * 16;
        PMB_LANES(l, 16) {
            float size = fabsf(v[l]);
            ones[l] += pmb_bits((weighted ? w[j] : 1) * (double)v[l] + magic[l]);
            twos[l] += pmb_bits((weighted ? w[j] : 1) * (double)(size * (1 - size)) + magic[l]);
        }
    }
    memcpy(one, ones, sizeof ones);
    memcpy(two, twos, sizeof twos);
}

/* Sums over rows, in units: w g, and w |g| (1 - |g|), of `span` blocks from lane b on, to out from 0. */
PMB_INLINE void pmb_f32_leaf_of(const float *PMB_RESTRICT F, int64_t width,
                                const pmb_f32_norm *PMB_RESTRICT norm,
                                const int32_t *PMB_RESTRICT y, const double *PMB_RESTRICT weight,
                                int64_t b, const int span, const int32_t *PMB_RESTRICT rows,
                                int64_t n, const double *PMB_RESTRICT magic,
                                uint64_t *PMB_RESTRICT out) {
    float v[PMB_F32_ROWS * PMB_F32_SPAN * 16] ALIGNED_LANES;
    for (int64_t from = 0; from < n; from += PMB_F32_ROWS) {
        int few = n - from < PMB_F32_ROWS ? (int)(n - from) : PMB_F32_ROWS;
        double w[PMB_F32_ROWS];
        for (int j = 0; j < few; j++) {
            int64_t i = rows[from + j];
            int64_t next = from + j + PMB_F32_ROWS, lane = b;
            if (next >= n)
                next -= n, lane += 16 * span; /* the first rows of the lanes that follow */
            if (next < n && lane < width)
                for (int c = 0; c < span; c++) PMB_PREFETCH(F + rows[next] * width + lane + c * 16);
            w[j] = weight ? weight[i] : 1;
            pmb_f32_again(F, width, norm, y, b, span, i, v + j * PMB_F32_SPAN * 16);
        }
        for (int64_t c = 0, at = b; c < span; c++, at += 16) {
            if (weight)
                pmb_f32_count(v + 16 * c, w, 1, few, magic + at, out + at, out + width + at);
            else
                pmb_f32_count(v + 16 * c, w, 0, few, magic + at, out + at, out + width + at);
        }
    }
}

/* The same of all blocks: out (2, width), with one magic number for each lane. */
PMB_CLONES PMB_STATIC void
pmb_f32_leaf(const float *PMB_RESTRICT F, int64_t width, const pmb_f32_norm *PMB_RESTRICT norm,
             const int32_t *PMB_RESTRICT y, const double *PMB_RESTRICT weight,
             const int32_t *PMB_RESTRICT rows, int64_t n, const double *PMB_RESTRICT magic,
             uint64_t *PMB_RESTRICT out) {
    int64_t b = 0;
    memset(out, 0, 2 * (size_t)width * sizeof *out);
    for (; b + 16 * PMB_F32_SPAN <= width; b += 16 * PMB_F32_SPAN)
        pmb_f32_leaf_of(F, width, norm, y, weight, b, PMB_F32_SPAN, rows, n, magic, out);
    for (; b < width; b += 16)
        pmb_f32_leaf_of(F, width, norm, y, weight, b, 1, rows, n, magic, out);
    for (int64_t l = 0; l < width; l++) {
        uint64_t off = (uint64_t)n * pmb_bits(magic[l]);
        out[l] -= off;
        out[width + l] -= off;
    }
}

#endif
