/* Softmax on scores in single precision: some rows at a time are widened, and go through the kernels of vrows.h. */
#ifndef PYMCBOOST_SROWS_H
#define PYMCBOOST_SROWS_H

#include "vrows.h"

/* Room for `few` rows of `width` lanes: scores, gradients, weights, classes, 0 1 2 ...; and three sums by lane. */
typedef struct {
    double *f;
    float *g;
    double *sums, *weight;
    int32_t *y, *order;
} pmb_sr_scratch;

PMB_CLONES PMB_STATIC void pmb_sr_widen(const float *PMB_RESTRICT from, double *PMB_RESTRICT to, int64_t n) {
    for (int64_t l = 0; l < n; l++) to[l] = from[l];
}

PMB_CLONES PMB_STATIC void pmb_sr_sum(const double *PMB_RESTRICT from, double *PMB_RESTRICT to, int64_t n) {
    for (int64_t l = 0; l < n; l++) to[l] += from[l];
}

/* F += the entries of the leaves of the rows [from, to). */
PMB_STATIC void pmb_sr_add(float *F, int64_t width, const int64_t *start, const uint16_t *cls, const float *value,
                           const int32_t *leaf, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        for (int64_t e = start[leaf[i]]; e < start[leaf[i] + 1]; e++) F[i * width + cls[e]] += value[e];
}

/* Rows [from, to) of G P, as pmb_vr_project; sums (2, blocks * lanes): of w |g P| by lane, and room. Adds the sum of
 * w g^2 to square. */
PMB_STATIC void pmb_sr_project(int lanes, const float *F, int64_t width, const int32_t *y, const double *weight,
                               int64_t few, const float *P, const int32_t *classes, const int64_t *start, int blocks,
                               int64_t from, int64_t to, pmb_sr_scratch s, float *out, double *sums, double *square) {
    int64_t L = (int64_t)blocks * lanes, end;
    for (int64_t begin = from; begin < to; begin = end) {
        const double *w = weight ? weight + begin : NULL;
        double here;
        end = begin + few < to ? begin + few : to;
        pmb_sr_widen(F + begin * width, s.f, (end - begin) * width);
        pmb_vr_gradient_r_16(PMB_SOFTMAX, s.f, y + begin, w, (int)(width / 16), 0, end - begin, 0, s.g, s.sums);
        PMB_VR(lanes, pmb_vr_project_, s.g, width, P, classes, start, w, blocks, 0, end - begin, out + begin * L,
               sums + L);
        pmb_sr_sum(sums + L, sums, L);
        pmb_vr_square_r_16(s.g, w, (int)(width / 16), 0, end - begin, &here);
        *square += here;
    }
}

/* Adds w g and w |g| (1 - |g|) of n rows to out (2, width). */
PMB_STATIC void pmb_sr_leaf(const float *F, int64_t width, const int32_t *y, const double *weight, int64_t few,
                            const int32_t *rows, int64_t n, pmb_sr_scratch s, double *out) {
    int blocks = (int)(width / 16);
    for (int64_t begin = 0; begin < n; begin += few) {
        int64_t here = n - begin < few ? n - begin : few;
        for (int64_t i = 0; i < here; i++) {
            int64_t row = rows[begin + i];
            pmb_sr_widen(F + row * width, s.f + i * width, width);
            s.y[i] = y[row];
            if (weight) s.weight[i] = weight[row];
        }
        pmb_vr_gradient_r_16(PMB_SOFTMAX, s.f, s.y, weight ? s.weight : NULL, blocks, 0, here, 0, s.g, s.sums);
        pmb_vr_leaf_r_16(s.g, weight ? s.weight : NULL, blocks, s.order, here, s.sums + width);
        pmb_sr_sum(s.sums + width, out, 2 * width);
    }
}

#endif
