/* exp and log in double by the same steps on every CPU: no fused multiply-add, no library. */
#ifndef PYMCBOOST_ELEMENTARY_H
#define PYMCBOOST_ELEMENTARY_H

#include "exp.h"

/* 33 bits: its products with whole numbers up to 2^20 are exact */
#define PMB_LN2_HIGH 6.93147180369123816490e-01
#define PMB_LN2_LOW 1.90821492927058770002e-10
/* 1.5 * 2^52: adding it rounds to a whole number, in the lowest bits */
#define PMB_TO_WHOLE 6755399441055744.0

PMB_INLINE double pmb_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x with an error below 0.7 units in the last place; subnormal results are rounded once more. */
PMB_INLINE double pmb_exp(double x) {
    const double t = x > 710.0 ? 710.0 : x < -746.0 ? -746.0 : x;
    const double shifted = t * 1.4426950408889634 + PMB_TO_WHOLE, n = shifted - PMB_TO_WHOLE;
    const double high = t - n * PMB_LN2_HIGH, low = n * PMB_LN2_LOW;
    const double r = high - low, rest = (high - r) - low, one = 1.0 + r;
    /* n + 2048 is above 0; half of it and what is left keep the two factors in range. */
    const uint64_t whole = pmb_bits(shifted) - pmb_bits(PMB_TO_WHOLE) + 2048, half = whole >> 1;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = r * r * p + rest;
    p = one + (((1.0 - one) + r) + p);
    p = p * pmb_of_bits((half - 1) << 52) * pmb_of_bits((whole - half - 1) << 52);
    return x == x ? p : x;
}

/* log x with an error below 1 unit in the last place. */
PMB_INLINE double pmb_log(double x) {
    const int tiny = x < 2.2250738585072014e-308;
    double r = pmb_log_of(tiny ? x * 18014398509481984.0 : x, tiny ? 54.0 : 0.0); /* 2^54 */
    r = x > 1.7976931348623157e308 ? x : r;
    r = x == 0.0 ? -INFINITY : r;
    return x >= 0.0 ? r : NAN;
}

/* to may be the same array as x. */
PMB_CLONES PMB_STATIC void pmb_exp_all(const double *x, double *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = pmb_exp(x[i]);
}

/* to = sign x as float32, for rows of K numbers, those of `to` `stride` apart. Returns how many are not from `least` on
 * and below `end`. */
PMB_CLONES PMB_STATIC int64_t pmb_store_all(const double *PMB_RESTRICT x, int64_t rows, int64_t K,
                                            double sign, double least, double end,
                                            float *PMB_RESTRICT to, int64_t stride) {
    int64_t outside = 0;
    for (int64_t r = 0; r < rows; r++, x += K, to += stride)
        for (int64_t k = 0; k < K; k++) {
            outside += !((x[k] >= least) & (x[k] < end));
            to[k] = (float)(sign * x[k]);
        }
    return outside;
}

PMB_CLONES PMB_STATIC void pmb_log_all(const double *x, double *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = pmb_log(x[i]);
}

#endif
