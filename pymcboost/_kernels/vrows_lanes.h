/* The functions of vrows.h by their number of lanes. */
#ifndef PYMCBOOST_VROWS_LANES_H
#define PYMCBOOST_VROWS_LANES_H

#include "vrows.h"

/* n rows of `count` numbers, `from_width` and `to_width` apart. */
PMB_STATIC void pmb_vr_copy(const double *from, int64_t from_width, double *to, int64_t to_width, int64_t count,
                            int64_t n) {
    for (int64_t i = 0; i < n; i++, from += from_width, to += to_width) {
        int64_t l = 0;
        for (; l + 4 <= count; l += 4) memcpy(to + l, from + l, 4 * sizeof(double));
        for (; l < count; l++) to[l] = from[l];
    }
}
PMB_STATIC void pmb_vr_add(int lanes, double *F, const double *V, const int32_t *leaf, const int32_t *y, int blocks,
                           int64_t from, int64_t to, double *largest) {
    PMB_VR(lanes, pmb_vr_add_, F, V, leaf, y, blocks, from, to, largest);
}
PMB_STATIC void pmb_vr_gradient(int lanes, int loss, const double *F, const int32_t *y, const double *weight,
                                int blocks, int64_t from, int64_t to, double shift, double magic, float *G,
                                uint64_t *sums) {
    PMB_VR(lanes, pmb_vr_gradient_, loss, F, y, weight, blocks, from, to, shift, magic, G, sums);
}
PMB_STATIC void pmb_vr_quantise(int lanes, const float *G, const double *weight, int blocks, int K, int64_t m,
                                int64_t from, int64_t to, double scale, double units, int32_t *A) {
    PMB_VR(lanes, pmb_vr_quantise_, G, weight, blocks, K, m, from, to, scale, units, A);
}
PMB_STATIC void pmb_vr_tops(int lanes, const float *G, int blocks, const int32_t *rows, int64_t n, double *out) {
    PMB_VR(lanes, pmb_vr_tops_, G, blocks, rows, n, out);
}
PMB_STATIC void pmb_vr_leaf(int lanes, const float *G, const double *weight, int blocks, const int32_t *rows,
                            int64_t n, const double *magic, uint64_t *out) {
    PMB_VR(lanes, pmb_vr_leaf_, G, weight, blocks, rows, n, magic, out);
}
PMB_STATIC void pmb_vr_project(int lanes, const float *G, int64_t width, const float *P, const int32_t *classes,
                               const int64_t *start, const double *weight, int blocks, int64_t from, int64_t to,
                               double magic, float *out, uint64_t *sums) {
    PMB_VR(lanes, pmb_vr_project_, G, width, P, classes, start, weight, blocks, from, to, magic, out, sums);
}
PMB_STATIC void pmb_vr_sizes(int lanes, const float *G, const double *weight, int blocks, int64_t from, int64_t to,
                             double magic, uint64_t *out) {
    PMB_VR(lanes, pmb_vr_sizes_, G, weight, blocks, from, to, magic, out);
}
PMB_STATIC void pmb_vr_square(int lanes, const float *G, const double *weight, int blocks, int64_t from, int64_t to,
                              double magic, uint64_t *out) {
    PMB_VR(lanes, pmb_vr_square_, G, weight, blocks, from, to, magic, out);
}
PMB_STATIC void pmb_vr_pairs(int lanes, const float *G, const double *weight, const int32_t *y, int blocks,
                             const int32_t *rows, int64_t n, const double *magic, uint64_t *out) {
    PMB_VR(lanes, pmb_vr_pairs_, G, weight, y, blocks, rows, n, magic, out);
}
PMB_STATIC void pmb_vr_hessian(int lanes, const float *G, const double *weight, const int32_t *y, int blocks, int K,
                               const int32_t *rows, int64_t n, double magic, double *p, uint64_t *out) {
    PMB_VR(lanes, pmb_vr_hessian_, G, weight, y, blocks, K, rows, n, magic, p, out);
}

#endif
