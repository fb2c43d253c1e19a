/* Weight updates and K x K sums for the pairwise losses: instantiates weights_body.h. */
#ifndef PYMCBOOST_WEIGHTS_H
#define PYMCBOOST_WEIGHTS_H

#include "lanes.h"

/* Odds exp(-rho) of the logistic loss stay below this. */
#define PMB_LARGEST 1e30

#define PMB_BODY "weights_body.h"
#include "widths.h"

PMB_INLINE void pmb_side_sums(int is_double, int lanes, const void *A, const signed char *h, int64_t n, double *plus,
                              double *minus) {
    PMB_DISPATCH(pmb_side_sums_, is_double, lanes, A, h, n, plus, minus);
}

PMB_INLINE void pmb_exp_update(int is_double, int lanes, void *A, int64_t block_size, int n_blocks,
                               const signed char *h, int64_t n, const void *plus, const void *minus,
                               const void *smallest, int cls) {
    PMB_DISPATCH(pmb_exp_update_, is_double, lanes, A, block_size, n_blocks, h, n, plus, minus, smallest, cls);
}

PMB_INLINE void pmb_log_sums(int is_double, int lanes, const void *Q, const signed char *h, const double *weight,
                             int64_t n, const void *plus, const void *minus, double *out) {
    PMB_DISPATCH(pmb_log_sums_, is_double, lanes, Q, h, weight, n, plus, minus, out);
}

PMB_INLINE void pmb_log_update(int is_double, int lanes, void *Q, void *A, int64_t block_size, int n_blocks,
                               const signed char *h, const double *weight, int64_t n, const void *plus,
                               const void *minus, const void *smallest, int cls) {
    PMB_DISPATCH(pmb_log_update_, is_double, lanes, Q, A, block_size, n_blocks, h, weight, n, plus, minus, smallest,
                   cls);
}

PMB_INLINE void pmb_column_sums(int is_double, int lanes, const void *A, const signed char *h, int64_t stride,
                                int last, int64_t n, double *plus, double *minus) {
    if (stride) PMB_DISPATCH(pmb_column_sums_, is_double, lanes, A, h, stride, last, n, plus, minus);
    else PMB_DISPATCH(pmb_side_sums_, is_double, lanes, A, h, n, plus, minus);
}

PMB_INLINE void pmb_column_update(int is_double, int lanes, void *A, const signed char *h, int64_t stride, int last,
                                  int64_t n, const void *plus, const void *minus, const void *least) {
    PMB_DISPATCH(pmb_column_update_, is_double, lanes, A, h, stride, last, n, plus, minus, least);
}

PMB_INLINE void pmb_combine(int is_double, int lanes, const void *A, int64_t block_size, int n_blocks, const void *mu,
                            int64_t n, void *out, int out_step) {
    PMB_DISPATCH(pmb_combine_, is_double, lanes, A, block_size, n_blocks, mu, n, out, out_step);
}

#endif
