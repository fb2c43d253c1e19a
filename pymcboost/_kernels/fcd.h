/* Fast coordinate descent on the pairwise exponential loss: instantiates fcd_body.h. */
#ifndef PYMCBOOST_FCD_H
#define PYMCBOOST_FCD_H

#include "lanes.h"

/* 0 in the test that compares the functions for CPUs with AVX-512 to the others. */
static int pmb_fcd_allow_512 = 1;

/* Functions for CPUs with AVX-512, chosen when they are called. */
#if PMB_VECTORS && defined(__x86_64__) && !defined(__clang__) && defined(__linux__)
#include <immintrin.h>
#define PMB_FCD_512 __attribute__((target("avx512f,avx512dq")))
PMB_INLINE int pmb_fcd_has_512(void) {
    return pmb_fcd_allow_512 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq");
}
#else
PMB_INLINE int pmb_fcd_has_512(void) {
    return 0 && pmb_fcd_allow_512;
}
#endif

/* Sums over rows are formed in blocks of this many rows, added in order. */
#define PMB_FCD_BLOCK 8192
#define PMB_MARGIN_BLOCK 2048

/* Bits of the rows at, at + 1, ... at + 63 that lie outside [own, own_end). */
PMB_INLINE uint64_t pmb_fcd_others(int64_t at, int64_t own, int64_t own_end) {
    int64_t first = own - at, end = own_end - at;
    uint64_t before = first >= 64 ? UINT64_MAX : first > 0 ? ((uint64_t)1 << first) - 1 : 0;
    uint64_t up_to_end = end >= 64 ? UINT64_MAX : end > 0 ? ((uint64_t)1 << end) - 1 : 0;
    return before | ~up_to_end;
}

#define REAL float
#define INT int32_t
#define RTAG f
#define WIDE 16
#define M512 __m512
#define MASK512 __mmask16
#define LOAD_MASK512 _load_mask16
#define TOTAL512(v)                                                                                \
    _mm512_reduce_add_pd(_mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(v)),                 \
                                       _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))))
#define SET512 _mm512_set1_ps
#define LOAD512 _mm512_load_ps
#define STORE512 _mm512_store_ps
#define MUL512 _mm512_mul_ps
#define PAIRS512(plus, minus) _mm512_mask_blend_ps(0xAAAA, plus, minus)
#define SHIFTS 2
#define SHIFT512(q)                                                                                \
    _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),      \
                     _mm512_set1_epi32(16 * (q)))
#define CHOOSE512(word, shift, pairs)                                                              \
    _mm512_permutevar_ps(pairs, _mm512_srlv_epi32(_mm512_set1_epi32((int)(word)), shift))
#define ADD512 _mm512_mask_add_ps
#include "fcd_body.h"
#define REAL double
#define INT int64_t
#define RTAG d
#define WIDE 8
#define M512 __m512d
#define MASK512 __mmask8
#define LOAD_MASK512 _load_mask8
#define TOTAL512 _mm512_reduce_add_pd
#define SET512 _mm512_set1_pd
#define LOAD512 _mm512_load_pd
#define STORE512 _mm512_store_pd
#define MUL512 _mm512_mul_pd
#define PAIRS512(plus, minus) _mm512_mask_blend_pd(0xAA, plus, minus)
#define SHIFTS 4
#define SHIFT512(q)                                                                                \
    _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(8 * (q)))
#define CHOOSE512(word, shift, pairs)                                                              \
    _mm512_permutevar_pd(pairs, _mm512_srlv_epi64(_mm512_set1_epi64((long long)(word) << 1), shift))
#define ADD512 _mm512_mask_add_pd
#include "fcd_body.h"

/* The functions of fcd_body.h for weights u of either type: the first two arguments. */
#define PMB_FCD(name, is_double, u, ...)                                                           \
    ((is_double) ? name##d_0((void *)(u), __VA_ARGS__) : name##f_0((void *)(u), __VA_ARGS__))
#define pmb_fcd_sums(is_double, u, ...) PMB_FCD(pmb_fcd_sums_, is_double, u, __VA_ARGS__)
#define pmb_fcd_both(is_double, u, ...) PMB_FCD(pmb_fcd_both_, is_double, u, __VA_ARGS__)
#define pmb_fcd_scale(is_double, u, ...) PMB_FCD(pmb_fcd_scale_, is_double, u, __VA_ARGS__)
#define pmb_fcd_own(is_double, u, ...) PMB_FCD(pmb_fcd_own_, is_double, u, __VA_ARGS__)
#define pmb_fcd_leave(is_double, u, ...) PMB_FCD(pmb_fcd_leave_, is_double, u, __VA_ARGS__)
#define pmb_fcd_total(is_double, u, n) PMB_FCD(pmb_fcd_total_, is_double, u, n)

/* F[i] = sum over j of w[j] h_j(x_i), the learners being column[0..n). rows: a multiple of 64. */
PMB_CLONES PMB_STATIC void pmb_margins(const uint32_t *H, int64_t stride, const int32_t *column,
                                       const double *w, int64_t n, int64_t rows, double *F) {
    double total = 0;
    for (int64_t j = 0; j < n; j++) total += w[j];
    for (int64_t start = 0; start < rows; start += PMB_MARGIN_BLOCK) {
        int64_t stop = start + PMB_MARGIN_BLOCK < rows ? start + PMB_MARGIN_BLOCK : rows;
        for (int64_t i = start; i < stop; i++) F[i] = total;
        for (int64_t j = 0; j < n; j++) {
            if (w[j] == 0) continue;
            const uint32_t *h = H + column[j] * stride;
            double twice = 2 * w[j];
#if PMB_VECTORS
            fmask_d_0 bits = (fmask_d_0)((fvec_d_0){0} + twice);
            for (int64_t i = start; i < stop; i += 32)
#pragma GCC unroll 4 /* 8 q is a constant of the shifts then */
                for (int q = 0; q < 4; q++) {
                    fmask_d_0 mask;
                    fcd_mask_d_0(h[i / 32], 8 * q, &mask);
                    *(fvec_d_0 *)(F + i + 8 * q) -= (fvec_d_0)(bits & mask);
                }
#else
            for (int64_t i = start; i < stop; i++)
                if (h[i / 32] >> (i % 32) & 1) F[i] -= twice;
#endif
        }
    }
}

/* The minimiser w over [0, cap] of plus exp(old - w) + minus exp(w - old) + nu w: eq. (12) without its cancellation,
 * rounded to float as models keep it. factor: exp(old - w), from the numbers at hand where it can be. */
PMB_INLINE double pmb_fcd_best(double plus, double minus, double nu, double cap, double old,
                               double *factor) {
    double ratio = plus > 0 ? 2 * plus / (nu + sqrt(nu * nu + 4 * plus * minus)) : 0;
    double exact = old + log(ratio),
           w = exact >= cap ? cap
               : exact > 0  ? (float)exact
                            : 0,
           rounding = w - exact;
    *factor = fabs(rounding) < 1e-5 ? (1 - rounding * (1 - 0.5 * rounding)) / ratio : exp(old - w);
    return w;
}
#endif
