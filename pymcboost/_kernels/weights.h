/* Weight updates and K x K sums for the pairwise losses: instantiates weights_body.h. */
#ifndef PYMCBOOST_WEIGHTS_H
#define PYMCBOOST_WEIGHTS_H

#include "lanes.h"

/* Odds exp(-rho) of the logistic loss stay below this. */
#define PMB_LARGEST 1e30

#define REAL float
#define RTAG f
#define LANES 4
#include "weights_body.h"
#undef LANES
#define LANES 8
#include "weights_body.h"
#undef LANES
#define LANES 16
#include "weights_body.h"
#undef LANES
#undef REAL
#undef RTAG

#define REAL double
#define RTAG d
#define LANES 4
#include "weights_body.h"
#undef LANES
#define LANES 8
#include "weights_body.h"
#undef LANES
#define LANES 16
#include "weights_body.h"
#undef LANES
#undef REAL
#undef RTAG

#define PMB_DISPATCH_W(name, is_double, lanes, ...)                                            \
    do {                                                                                       \
        if (is_double) {                                                                       \
            if ((lanes) == 4) name##d_4(__VA_ARGS__);                                          \
            else if ((lanes) == 8) name##d_8(__VA_ARGS__);                                     \
            else name##d_16(__VA_ARGS__);                                                      \
        } else {                                                                               \
            if ((lanes) == 4) name##f_4(__VA_ARGS__);                                          \
            else if ((lanes) == 8) name##f_8(__VA_ARGS__);                                     \
            else name##f_16(__VA_ARGS__);                                                      \
        }                                                                                      \
    } while (0)

PMB_INLINE void pmb_side_sums(int is_double, int lanes, const void *A, const signed char *h, int64_t n, double *plus,
                              double *minus) {
    PMB_DISPATCH_W(pmb_side_sums_, is_double, lanes, A, h, n, plus, minus);
}

PMB_INLINE void pmb_exp_update(int is_double, int lanes, void *A, int64_t block_size, int n_blocks,
                               const signed char *h, int64_t n, const void *plus, const void *minus,
                               const void *smallest, int cls) {
    PMB_DISPATCH_W(pmb_exp_update_, is_double, lanes, A, block_size, n_blocks, h, n, plus, minus, smallest, cls);
}

PMB_INLINE void pmb_log_sums(int is_double, int lanes, const void *Q, const signed char *h, const double *weight,
                             int64_t n, const void *plus, const void *minus, double *out) {
    PMB_DISPATCH_W(pmb_log_sums_, is_double, lanes, Q, h, weight, n, plus, minus, out);
}

PMB_INLINE void pmb_log_update(int is_double, int lanes, void *Q, void *A, int64_t block_size, int n_blocks,
                               const signed char *h, const double *weight, int64_t n, const void *plus,
                               const void *minus, const void *smallest, int cls) {
    PMB_DISPATCH_W(pmb_log_update_, is_double, lanes, Q, A, block_size, n_blocks, h, weight, n, plus, minus, smallest,
                   cls);
}

#endif
