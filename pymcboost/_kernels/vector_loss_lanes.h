/* Calls the variants of vector_loss_body.h by the number of lanes. */
#ifndef PYMCBOOST_VECTOR_LOSS_LANES_H
#define PYMCBOOST_VECTOR_LOSS_LANES_H

#include "vector_loss.h"

/* n rows of `count` numbers, `from_width` and `to_width` apart. */
PMB_STATIC void pmb_vloss_copy(const double *from, int64_t from_width, double *to, int64_t to_width,
                               int64_t count, int64_t n) {
    for (int64_t i = 0; i < n; i++, from += from_width, to += to_width) {
        int64_t l = 0;
        for (; l + 4 <= count; l += 4) memcpy(to + l, from + l, 4 * sizeof(double));
        for (; l < count; l++) to[l] = from[l];
    }
}

#define pmb_vloss_add(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_add_, __VA_ARGS__)
#define pmb_vloss_gradient(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_gradient_, __VA_ARGS__)
#define pmb_vloss_quantise(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_quantise_, __VA_ARGS__)
#define pmb_vloss_tops(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_tops_, __VA_ARGS__)
#define pmb_vloss_leaf(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_leaf_, __VA_ARGS__)
#define pmb_vloss_project(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_project_, __VA_ARGS__)
#define pmb_vloss_sizes(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_sizes_, __VA_ARGS__)
#define pmb_vloss_square(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_square_, __VA_ARGS__)
#define pmb_vloss_hessian(lanes, ...) PMB_VLOSS(lanes, pmb_vloss_hessian_, __VA_ARGS__)

#endif
