/* Weights of the pairwise losses, on rows of one class: K x K sums by side of a stump, and updates. Includes
 * pairwise_weights_body.h for all variants. */
#ifndef PYMCBOOST_PAIRWISE_WEIGHTS_H
#define PYMCBOOST_PAIRWISE_WEIGHTS_H

#include "lanes.h"

/* Odds exp(-rho) of the logistic loss stay below this. */
#define PMB_LARGEST 1e30

#if PMB_VECTORS && (defined(__clang__) || __GNUC__ >= 12)
/* Bytes of two vectors in turn: those of their first halves, and of their second ones. */
typedef signed char pmb_bytes __attribute__((vector_size(16), may_alias));
#define PMB_LOW_BYTES(a, b)                                                                        \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define PMB_HIGH_BYTES(a, b)                                                                       \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

#define PMB_BODY "pairwise_weights_body.h"
#include "variants.h"

/* The functions of pairwise_weights_body.h for the type and lanes at hand: their first two arguments. */
#define pmb_side_sums(is_double, lanes, ...)                                                       \
    PMB_DISPATCH(pmb_side_sums_, is_double, lanes, __VA_ARGS__)
#define pmb_side_units(is_double, lanes, ...)                                                      \
    PMB_DISPATCH(pmb_side_units_, is_double, lanes, __VA_ARGS__)
#define pmb_column_units(is_double, lanes, ...)                                                    \
    PMB_DISPATCH(pmb_column_units_, is_double, lanes, __VA_ARGS__)
#define pmb_log_units(is_double, lanes, ...)                                                       \
    PMB_DISPATCH(pmb_log_units_, is_double, lanes, __VA_ARGS__)
#define pmb_exp_update(is_double, lanes, ...)                                                      \
    PMB_DISPATCH(pmb_exp_update_, is_double, lanes, __VA_ARGS__)
#define pmb_log_sums(is_double, lanes, ...)                                                        \
    PMB_DISPATCH(pmb_log_sums_, is_double, lanes, __VA_ARGS__)
#define pmb_log_update(is_double, lanes, ...)                                                      \
    PMB_DISPATCH(pmb_log_update_, is_double, lanes, __VA_ARGS__)
#define pmb_column_sums(is_double, lanes, ...)                                                     \
    PMB_DISPATCH(pmb_column_sums_, is_double, lanes, __VA_ARGS__)
#define pmb_column_update(is_double, lanes, ...)                                                   \
    PMB_DISPATCH(pmb_column_update_, is_double, lanes, __VA_ARGS__)
#define pmb_combine(is_double, lanes, ...) PMB_DISPATCH(pmb_combine_, is_double, lanes, __VA_ARGS__)

/* to[j] = sum of h_j weight over n rows, for P rows h_j of -1 and +1. */
PMB_CLONES PMB_STATIC void pmb_signed_weights(const signed char *PMB_RESTRICT h, int64_t stride,
                                              int64_t n, int64_t P,
                                              const double *PMB_RESTRICT weight,
                                              double *PMB_RESTRICT to) {
    for (int64_t j = 0; j < P; j++) {
        const signed char *of = h + j * stride;
        double lane[8] = {0};
        int64_t i = 0;
        for (; i + 8 <= n; i += 8)
            for (int l = 0; l < 8; l++) lane[l] += weight[i + l] * of[i + l];
        for (int l = 0; i + l < n; l++) lane[l] += weight[i + l] * of[i + l];
        to[j] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    }
}

/* margin += value of the own class - mean of the values of all, on n rows of one class: a value is minus or plus as h
 * says, middle the mean of all their halves of sums, half[] half their differences. */
PMB_CLONES PMB_STATIC void pmb_add_margins(const signed char *PMB_RESTRICT h, int64_t stride,
                                           int64_t n, int K, int own, double minus, double plus,
                                           double middle, const double *PMB_RESTRICT half,
                                           double *PMB_RESTRICT margin) {
    double sum[256];
    for (int64_t start = 0; start < n; start += 256) {
        int rows = (int)(n - start < 256 ? n - start : 256);
        const signed char *mine = h + own * stride + start;
        for (int i = 0; i < rows; i++) sum[i] = middle;
        for (int k = 0; k < K; k++) {
            const signed char *of = h + k * stride + start;
            double by = half[k] / K;
            for (int i = 0; i < rows; i++) sum[i] += by * of[i];
        }
        for (int i = 0; i < rows; i++) margin[start + i] += (mine[i] > 0 ? plus : minus) - sum[i];
    }
}

#endif
