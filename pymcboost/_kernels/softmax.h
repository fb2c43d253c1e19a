/* What is left to learn under the softmax loss, and its integer gradients; instantiates softmax_body.h for float and double. */
#ifndef PYMCBOOST_SOFTMAX_H
#define PYMCBOOST_SOFTMAX_H

#include "lanes.h"
#include "pairs.h"

/* Units per 1 of g, h and n. */
typedef struct {
    double g, h, n;
} pmb_scale;

/* Round to integers: h and n at least 1, so that a set of rows is empty if and only if they are 0. */
PMB_INLINE void pmb_pack_2(double g, double h, double n, int64_t *gh) {
    int64_t hq = (int64_t)(h + 0.5), nq = (int64_t)(n + 0.5);
    gh[0] = (int64_t)(g + (g < 0 ? -0.5 : 0.5));
    gh[1] = ((hq < 1 ? 1 : hq) << PMB_COUNT_BITS) + (nq < 1 ? 1 : nq);
}

/* exp(x) for x <= 0, relative error below 1e-7; 0 is never returned. */
PMB_INLINE float pmb_exp_f_0(float x) {
    float t = x < -87.0f ? -87.0f : x, r, f;
    int32_t n = (int32_t)(t * 1.44269504f - 0.5f), bits;
    r = t - (float)n * 0.693359375f;
    r = r + (float)n * 2.12194440e-4f;
    f = 1.9875691e-4f;
    f = f * r + 1.3981999e-3f;
    f = f * r + 8.3334519e-3f;
    f = f * r + 4.1665796e-2f;
    f = f * r + 1.6666665e-1f;
    f = f * r + 5.0000001e-1f;
    f = f * (r * r) + r + 1.0f;
    bits = (n + 127) << 23;
    memcpy(&r, &bits, sizeof r);
    return f * r;
}

/* exp(t) for |t| <= 700, relative error below 1e-14, by the same steps on every machine. */
PMB_INLINE double pmb_exp_within(double t) {
    double r, f = 1.0 / 479001600;
    int32_t n = (int32_t)(t * 1.4426950408889634 + (t < 0 ? -0.5 : 0.5));
    int64_t bits;
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
    bits = (int64_t)(n + 1023) << 52;
    memcpy(&r, &bits, sizeof r);
    return f * r;
}

PMB_INLINE double pmb_exp_d_0(double x) { return pmb_exp_within(x < -700 ? -700 : x > 700 ? 700 : x); }

/* log(x) for x >= 1, relative error below 1e-15, by the same steps on every machine and without branches (after
 * fdlibm: x = 2^e m, log m = 2 atanh((m - 1) / (m + 1))). */
PMB_INLINE double pmb_log(double x) {
    uint64_t bits, mantissa, exponent;
    double m, e, f, s, z, r, half;
    memcpy(&bits, &x, sizeof x);
    mantissa = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    exponent = (bits >> 52) | 0x4330000000000000u; /* the number 2^52 + exponent */
    memcpy(&m, &mantissa, sizeof m);
    memcpy(&e, &exponent, sizeof e);
    e -= 4503599627370496.0 + 1023;
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
    return e * 6.93147180369123816490e-01 - ((half - (s * (half + r) + e * 1.90821492927058770002e-10)) - f);
}

#define PMB_TRY_ROWS 128 /* rows whose losses with all base classes are summed up together */

/* Tables of 32 numbers are looked up in registers where the machine can; clang takes no variable permutation. */
#if PMB_VECTORS && defined(__x86_64__) && !defined(__clang__)
#define PMB_PERMUTES 1
typedef int32_t pmb_v16n __attribute__((vector_size(64)));
typedef float pmb_v16u __attribute__((vector_size(64), aligned(4), may_alias));

/* What pmb_try_pair_of_ does on n rows, a multiple of 16, the tables of up to 32 leaves in registers. own: 0 if the rows are of
 * class k, 1 if of class b, 2 if of others. to_b, to_k: where the classes without the base are summed up. */
PMB_INLINE void pmb_try_pair_32(const float *PMB_RESTRICT p, const float *PMB_RESTRICT q, int own, int n,
                                const uint8_t *PMB_RESTRICT leaf, const float *PMB_RESTRICT factor,
                                const float *PMB_RESTRICT inverse, float *PMB_RESTRICT to_b, float *PMB_RESTRICT to_k,
                                float *PMB_RESTRICT of_b, float *PMB_RESTRICT of_k) {
    const pmb_v16u f0 = *(const pmb_v16u *)factor, f1 = *(const pmb_v16u *)(factor + 16);
    const pmb_v16u g0 = *(const pmb_v16u *)inverse, g1 = *(const pmb_v16u *)(inverse + 16);
    int32_t code[PMB_TRY_ROWS]; /* gcc widens bytes well in a loop of their own */
    for (int i = 0; i < n; i++) code[i] = leaf[i];
    for (int i = 0; i < n; i += 16) {
        pmb_v16n at;
        memcpy(&at, code + i, sizeof at);
        const pmb_v16u up = __builtin_shuffle(f0, f1, at), down = __builtin_shuffle(g0, g1, at);
        const pmb_v16u by_b = *(const pmb_v16u *)(p + i), by_k = *(const pmb_v16u *)(q + i);
        pmb_v16u *b = (pmb_v16u *)(to_b + i), *k = (pmb_v16u *)(to_k + i);
        *b = own == 0 ? (1 - by_b) * up : *b + by_b * up;
        *k = own == 1 ? (1 - by_k) * down : *k + by_k * down;
        *(pmb_v16u *)(of_b + i) *= down;
        *(pmb_v16u *)(of_k + i) *= up;
    }
}
#endif

/* P = exp(F - top) of n rows, added to total; P may be NULL. */
PMB_INLINE void pmb_exps_f_0(const double *PMB_RESTRICT F, const double *PMB_RESTRICT top, int64_t n,
                             float *PMB_RESTRICT P, float *PMB_RESTRICT total) {
    int64_t i = 0;
#if PMB_VECTORS
    /* pmb_exp_f_0, step by step, for 8 rows; bits of positive floats are ordered like integers */
    typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
    typedef int32_t ints __attribute__((vector_size(32), aligned(4), may_alias));
    typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));
    const float most = 87.0f;
    int32_t limit;
    memcpy(&limit, &most, sizeof limit);
    for (; i + 8 <= n; i += 8) {
        floats x = __builtin_convertvector(*(const doubles *)(F + i) - *(const doubles *)(top + i), floats);
        ints size = (ints)x & INT32_MAX, small = (size - limit) >> 31;
        size = (size & small) | (limit & ~small);
        floats t = -(floats)size;
        ints k = __builtin_convertvector(t * 1.44269504f - 0.5f, ints);
        floats whole = __builtin_convertvector(k, floats), r = t - whole * 0.693359375f;
        r = r + whole * 2.12194440e-4f;
        floats f = 1.9875691e-4f * r + 1.3981999e-3f;
        f = f * r + 8.3334519e-3f;
        f = f * r + 4.1665796e-2f;
        f = f * r + 1.6666665e-1f;
        f = f * r + 5.0000001e-1f;
        f = f * (r * r) + r + 1.0f;
        f = f * (floats)((k + 127) << 23);
        if (P) *(floats *)(P + i) = f;
        *(floats *)(total + i) += f;
    }
#endif
    for (; i < n; i++) {
        float e = pmb_exp_f_0((float)(F[i] - top[i]));
        if (P) P[i] = e;
        total[i] += e;
    }
}

PMB_INLINE void pmb_exps_d_0(const double *PMB_RESTRICT F, const double *PMB_RESTRICT top, int64_t n,
                             double *PMB_RESTRICT P, double *PMB_RESTRICT total) {
    for (int64_t i = 0; i < n; i++) {
        double e = pmb_exp_d_0(F[i] - top[i]);
        if (P) P[i] = e;
        total[i] += e;
    }
}

#define REAL float
#define RTAG f
#include "softmax_body.h"
#define REAL double
#define RTAG d
#include "softmax_body.h"

/* Add the leaf values of one tree to the scores of n rows. leaf: numbers of 1 or 2 bytes. */
PMB_CLONES PMB_STATIC void pmb_add_leaves(const void *leaf, int bytes, const double *PMB_RESTRICT value, int64_t n,
                                          double *PMB_RESTRICT to, double *PMB_RESTRICT from) {
#define ADD_LEAVES(type)                                         \
    do {                                                         \
        const type *PMB_RESTRICT l = leaf;                       \
        if (from)                                                \
            for (int64_t i = 0; i < n; i++) {                    \
                double v = value[l[i]];                          \
                to[i] += v;                                      \
                from[i] -= v;                                    \
            }                                                    \
        else                                                     \
            for (int64_t i = 0; i < n; i++) to[i] += value[l[i]]; \
    } while (0)
    if (bytes == 1) ADD_LEAVES(uint8_t);
    else ADD_LEAVES(uint16_t);
#undef ADD_LEAVES
}

#endif
