/* Calls the variants of vector_loss_body.h by the number of lanes. */
#ifndef PYMCBOOST_VECTOR_LOSS_LANES_H
#define PYMCBOOST_VECTOR_LOSS_LANES_H

#include "vector_loss.h"

/* n rows of `count` numbers, `from_width` and `to_width` apart. */
PMB_STATIC void pmb_vr_copy(const double *from, int64_t from_width, double *to, int64_t to_width,
                            int64_t count, int64_t n) {
    for (int64_t i = 0; i < n; i++, from += from_width, to += to_width) {
        int64_t l = 0;
        for (; l + 4 <= count; l += 4) memcpy(to + l, from + l, 4 * sizeof(double));
        for (; l < count; l++) to[l] = from[l];
    }
}

#define pmb_vr_add(lanes, ...) PMB_VR(lanes, pmb_vr_add_, __VA_ARGS__)
#define pmb_vr_gradient(lanes, ...) PMB_VR(lanes, pmb_vr_gradient_, __VA_ARGS__)
#define pmb_vr_quantise(lanes, ...) PMB_VR(lanes, pmb_vr_quantise_, __VA_ARGS__)
#define pmb_vr_tops(lanes, ...) PMB_VR(lanes, pmb_vr_tops_, __VA_ARGS__)
#define pmb_vr_leaf(lanes, ...) PMB_VR(lanes, pmb_vr_leaf_, __VA_ARGS__)
#define pmb_vr_project(lanes, ...) PMB_VR(lanes, pmb_vr_project_, __VA_ARGS__)
#define pmb_vr_sizes(lanes, ...) PMB_VR(lanes, pmb_vr_sizes_, __VA_ARGS__)
#define pmb_vr_square(lanes, ...) PMB_VR(lanes, pmb_vr_square_, __VA_ARGS__)
#define pmb_vr_hessian(lanes, ...) PMB_VR(lanes, pmb_vr_hessian_, __VA_ARGS__)

#endif
