/* Gradients in directions of signs, on CPUs with AVX-512: all numbers of a block of directions have one size but for
 * their signs, or are 0. Gradients are multiplied by it once; the product with a sign is then exact, so that a fused
 * multiply-add rounds as a product and a sum do. */
#ifndef PYMCBOOST_SIGN_DIRECTIONS_H
#define PYMCBOOST_SIGN_DIRECTIONS_H

#include "vector_loss.h"

#define PMB_SIGN_LANES 16
#define PMB_SIGN_ROWS 8 /* rows whose sums stay in registers */

/* Directions in which gradients are added up, all of whose numbers are a sign times the size of the class. */
typedef struct {
    const float *sign; /* (sum of the counts, 16) signs of the classes of block after block */
    const float *size; /* by class */
    /* those of block b are classes[start[b]] to classes[start[b + 1]], see pmb_vloss_project_ */
    const int32_t *classes;
    const int64_t *start;
} pmb_signs;

#if PMB_VECTORS && defined(__x86_64__) && !defined(__clang__) && defined(__linux__)
#include <immintrin.h>

PMB_INLINE int pmb_has_signs(void) {
    return PMB_HAS_512 && __builtin_cpu_supports("avx512f");
}

/* Sums of t[k] sign[k] over n classes, class after class, of 8 rows. */
__attribute__((target("avx512f"))) PMB_STATIC void
pmb_signed_sums(const float *const *t, const float *sign, const int32_t *classes, int64_t n,
                float (*sums)[PMB_SIGN_LANES]) {
    const float *t0 = t[0], *t1 = t[1], *t2 = t[2], *t3 = t[3], *t4 = t[4], *t5 = t[5], *t6 = t[6],
                *t7 = t[7];
    __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int64_t j = 0; j < n; j++) {
        const __m512 p = _mm512_loadu_ps(sign + PMB_SIGN_LANES * j);
        const int64_t k = classes[j];
        s0 = _mm512_fmadd_ps(_mm512_set1_ps(t0[k]), p, s0);
        s1 = _mm512_fmadd_ps(_mm512_set1_ps(t1[k]), p, s1);
        s2 = _mm512_fmadd_ps(_mm512_set1_ps(t2[k]), p, s2);
        s3 = _mm512_fmadd_ps(_mm512_set1_ps(t3[k]), p, s3);
        s4 = _mm512_fmadd_ps(_mm512_set1_ps(t4[k]), p, s4);
        s5 = _mm512_fmadd_ps(_mm512_set1_ps(t5[k]), p, s5);
        s6 = _mm512_fmadd_ps(_mm512_set1_ps(t6[k]), p, s6);
        s7 = _mm512_fmadd_ps(_mm512_set1_ps(t7[k]), p, s7);
    }
    _mm512_storeu_ps(sums[0], s0);
    _mm512_storeu_ps(sums[1], s1);
    _mm512_storeu_ps(sums[2], s2);
    _mm512_storeu_ps(sums[3], s3);
    _mm512_storeu_ps(sums[4], s4);
    _mm512_storeu_ps(sums[5], s5);
    _mm512_storeu_ps(sums[6], s6);
    _mm512_storeu_ps(sums[7], s7);
}
#else
PMB_INLINE int pmb_has_signs(void) {
    return 0;
}
PMB_STATIC void pmb_signed_sums(const float *const *t, const float *sign, const int32_t *classes,
                                int64_t n, float (*sums)[PMB_SIGN_LANES]) {
    (void)t, (void)sign, (void)classes, (void)n, (void)sums;
}
#endif

/* Signs and sizes of P (K, blocks * 16); 0 where a block has numbers of other sizes, or the CPU has no AVX-512.
 * size: `width` numbers, from 0. */
PMB_STATIC int pmb_signs_of(const float *P, int blocks, const int32_t *classes,
                            const int64_t *start, float *sign, float *size) {
    int64_t L = (int64_t)blocks * PMB_SIGN_LANES;
    if (!pmb_has_signs()) return 0;
    for (int b = 0; b < blocks; b++) {
        const float class_size =
            start[b] < start[b + 1] ? fabsf(P[classes[start[b]] * L + b * PMB_SIGN_LANES]) : 0;
        for (int64_t j = start[b]; j < start[b + 1]; j++) {
            const float *p = P + classes[j] * L + b * PMB_SIGN_LANES;
            if (size[classes[j]] != 0 && size[classes[j]] != class_size)
                return 0; /* in another block */
            size[classes[j]] = class_size;
            PMB_LANES(l, PMB_SIGN_LANES) {
                if (p[l] != 0 && fabsf(p[l]) != class_size) return 0;
                sign[j * PMB_SIGN_LANES + l] = p[l] > 0 ? 1.0f : p[l] < 0 ? -1.0f : 0.0f;
            }
        }
    }
    return 1;
}

/* As pmb_vloss_project_r_16, from signs. scratch: 8 rows of `width`, NULL where G has been multiplied by the sizes. */
PMB_CLONES PMB_STATIC void pmb_project_signs(const float *PMB_RESTRICT G, int64_t width,
                                             const pmb_signs *signs,
                                             const double *PMB_RESTRICT weight, int blocks,
                                             int64_t from, int64_t to, double magic,
                                             float *PMB_RESTRICT scratch, float *PMB_RESTRICT out,
                                             uint64_t *PMB_RESTRICT sums) {
    const int64_t L = (int64_t)blocks * PMB_SIGN_LANES, *start = signs->start;
    const float *PMB_RESTRICT size = signs->size;
    double each[PMB_SIGN_LANES] ALIGNED_LANES;
    float acc[PMB_SIGN_ROWS][PMB_SIGN_LANES] ALIGNED_LANES;
    PMB_LANES(l, PMB_SIGN_LANES) each[l] = magic;
    for (int64_t l = 0; l < L; l++) sums[l] = 0;
    for (int64_t first = from; first < to; first += PMB_SIGN_ROWS) {
        int n = to - first < PMB_SIGN_ROWS ? (int)(to - first) : PMB_SIGN_ROWS;
        const float *t[PMB_SIGN_ROWS];
        for (int r = 0; r < PMB_SIGN_ROWS; r++) {
            const float *PMB_RESTRICT g = G + (first + (r < n ? r : 0)) * width;
            t[r] = g;
            if (!scratch) continue;
            float *PMB_RESTRICT scaled = scratch + r * width;
            for (int64_t l = 0; l < width; l++) scaled[l] = g[l] * size[l];
            t[r] = scaled;
        }
        for (int b = 0; b < blocks; b++) {
            counts_r_16 part;
            pmb_signed_sums(t, signs->sign + start[b] * PMB_SIGN_LANES, signs->classes + start[b],
                            start[b + 1] - start[b], acc);
            memcpy(&part, sums + b * PMB_SIGN_LANES, sizeof part);
            for (int r = 0; r < n; r++) {
                memcpy(out + (first + r) * L + b * PMB_SIGN_LANES, acc[r], sizeof acc[r]);
                pmb_vloss_size_r_16(&part, acc[r], weight ? weight[first + r] : 1, each);
            }
            memcpy(sums + b * PMB_SIGN_LANES, &part, sizeof part);
        }
    }
    pmb_less_magic(sums, L, to - from, magic);
}

#endif
