/* exp and log by the same steps on every machine, for numbers and for vectors of them. */
#ifndef PYMCBOOST_EXP_H
#define PYMCBOOST_EXP_H

#include "lanes.h"

/* f = exp(r), r = t - whole log(2): the float polynomial, for numbers or vectors. */
#define PMB_EXP_POLYNOMIAL(t, whole, r, f)                                                         \
    do {                                                                                           \
        r = t - whole * 0.693359375f;                                                              \
        r = r + whole * 2.12194440e-4f;                                                            \
        f = 1.9875691e-4f * r + 1.3981999e-3f;                                                     \
        f = f * r + 8.3334519e-3f;                                                                 \
        f = f * r + 4.1665796e-2f;                                                                 \
        f = f * r + 1.6666665e-1f;                                                                 \
        f = f * r + 5.0000001e-1f;                                                                 \
        f = f * (r * r) + r + 1.0f;                                                                \
    } while (0)

/* exp(x), relative error below 1e-7, arguments cut at -87 and 87: 0 is never returned. */
PMB_INLINE float pmb_exp_f_0(float x) {
    float t = x < -87.0f ? -87.0f : x > 87.0f ? 87.0f : x, r, f;
    int32_t n = (int32_t)(t * 1.44269504f + (t < 0 ? -0.5f : 0.5f)), bits = (n + 127) << 23;
    float whole = (float)n, scale;
    PMB_EXP_POLYNOMIAL(t, whole, r, f);
    memcpy(&scale, &bits, sizeof scale);
    return f * scale;
}

/* pmb_exp_4, pmb_exp_8, pmb_exp_16: pmb_exp_f_0 of so many aligned numbers. low: none is above 0. */
#if PMB_VECTORS
#define PMB_EXP_OF(lanes)                                                                          \
    typedef float pmb_floats_##lanes __attribute__((vector_size(4 * lanes), may_alias));           \
    typedef int32_t pmb_ints_##lanes __attribute__((vector_size(4 * lanes), may_alias));           \
    PMB_INLINE void pmb_exp_##lanes(const float *x, float *e, const int low) {                     \
        pmb_floats_##lanes t = *(const pmb_floats_##lanes *)x, r, f;                               \
        pmb_floats_##lanes least = (pmb_floats_##lanes){0} - 87.0f,                                \
                           half = (pmb_floats_##lanes){0} + 0.5f;                                  \
        t = PMB_PICK(lanes, t < least, least, t);                                                  \
        if (!low) t = PMB_PICK(lanes, t > -least, -least, t);                                      \
        half = low ? -half                                                                         \
                   : (pmb_floats_##lanes)((pmb_ints_##lanes)half |                                 \
                                          ((pmb_ints_##lanes)t & INT32_MIN));                      \
        pmb_ints_##lanes n = __builtin_convertvector(t * 1.44269504f + half, pmb_ints_##lanes);    \
        pmb_floats_##lanes whole = __builtin_convertvector(n, pmb_floats_##lanes);                 \
        PMB_EXP_POLYNOMIAL(t, whole, r, f);                                                        \
        *(pmb_floats_##lanes *)e = f * (pmb_floats_##lanes)((n + 127) << 23);                      \
    }
#define PMB_PICK(lanes, mask, a, b)                                                                \
    (pmb_floats_##lanes)(((mask) & (pmb_ints_##lanes)(a)) | (~(mask) & (pmb_ints_##lanes)(b)))
#else
#define PMB_EXP_OF(lanes)                                                                          \
    PMB_INLINE void pmb_exp_##lanes(const float *x, float *e, const int low) {                     \
        (void)low;                                                                                 \
        PMB_LANES(l, lanes) e[l] = pmb_exp_f_0(x[l]);                                              \
    }
#endif
PMB_EXP_OF(4)
PMB_EXP_OF(8)
PMB_EXP_OF(16)
#undef PMB_EXP_OF

/* exp(x), relative error below 1e-14, arguments cut at -700 and 700. */
PMB_INLINE double pmb_exp_d_0(double x) {
    double t = x < -700 ? -700 : x > 700 ? 700 : x, r, f = 1.0 / 479001600;
    int32_t n = (int32_t)(t * 1.4426950408889634 + (t < 0 ? -0.5 : 0.5));
    int64_t bits = (int64_t)(n + 1023) << 52;
    r = t - n * 6.93145751953125e-1;
    r = r - n * 1.42860682030941723212e-6;
    f = f * r + 1.0 / 39916800;
    f = f * r + 1.0 / 3628800;
    f = f * r + 1.0 / 362880;
    f = f * r + 1.0 / 40320;
    f = f * r + 1.0 / 5040;
    f = f * r + 1.0 / 720;
    f = f * r + 1.0 / 120;
    f = f * r + 1.0 / 24;
    f = f * r + 1.0 / 6;
    f = f * r + 0.5;
    f = f * r + 1.0;
    f = f * r + 1.0;
    memcpy(&r, &bits, sizeof r);
    return f * r;
}

/* log(x / 2^less) for normal numbers x above 0, error below 1 unit in the last place, by the same steps on every machine
 * and without branches (after fdlibm: x = 2^e m, log m = 2 atanh((m - 1) / (m + 1))). */
PMB_INLINE double pmb_log_of(double x, double less) {
    uint64_t bits = pmb_bits(x), mantissa, exponent;
    double m, e, f, s, z, r, half;
    mantissa = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    exponent = (bits >> 52) | 0x4330000000000000u; /* the number 2^52 + exponent */
    memcpy(&m, &mantissa, sizeof m);
    memcpy(&e, &exponent, sizeof e);
    e -= 4503599627370496.0 + 1023;
    e -= less;
    e = m > 1.4142135623730951 ? e + 1 : e;
    m = m > 1.4142135623730951 ? m * 0.5 : m;
    f = m - 1;
    s = f / (2 + f);
    z = s * s;
    r = 1.479819860511658591e-01;
    r = r * z + 1.531383769920937332e-01;
    r = r * z + 1.818357216161805012e-01;
    r = r * z + 2.222219843214978396e-01;
    r = r * z + 2.857142874366239149e-01;
    r = r * z + 3.999999999940941908e-01;
    r = r * z + 6.666666666666735130e-01;
    r = r * z;
    half = 0.5 * f * f;
    return e * 6.93147180369123816490e-01 -
           ((half - (s * (half + r) + e * 1.90821492927058770002e-10)) - f);
}

#endif
