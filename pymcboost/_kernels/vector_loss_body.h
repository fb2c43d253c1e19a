/* Template body of vector_loss.h: define LANES (4, 8 or 16) before each inclusion. Its parts are vector_loss_pieces.h and
 * vector_loss_sums.h. */
#ifdef LANES
#define FN(name) PMB_CAT2(name, r, LANES)
#define GROUP 8 /* rows */
#define SPAN 4  /* blocks */
#define EXP PMB_CAT1(pmb_exp_, LANES)

#if PMB_VECTORS
typedef float FN(floats_) __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t FN(ints_) __attribute__((vector_size(LANES * 4), may_alias));
#define VPICK(mask, a, b) (FN(floats_))(((mask) & (FN(ints_))(a)) | (~(mask) & (FN(ints_))(b)))
#endif

/* Sums of a block's lanes in units, see pmb_bits. */
#if PMB_SHUFFLES
#if LANES == 4
typedef pmb_vloss_4d FN(wide_);
typedef pmb_vloss_4u FN(many_);
#define PARTS 1
#else
typedef pmb_vloss_8d FN(wide_);
typedef pmb_vloss_8u FN(many_);
#define PARTS (LANES / 8)
#endif
typedef struct {
    FN(many_) v[PARTS];
} FN(counts_);
#if LANES == 16
#define LOW(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define HIGH(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define WIDEN(v, p) __builtin_convertvector(p ? HIGH(v) : LOW(v), FN(wide_))
#else
#define WIDEN(v, p) __builtin_convertvector(v, FN(wide_))
#endif
#else
typedef struct {
    uint64_t v[LANES];
} FN(counts_);
#endif

/* sums += w x, by lane. magic: one for each lane. */
PMB_INLINE void FN(pmb_vloss_count_)(FN(counts_) * sums, const float *x, double w,
                                     const double *magic) {
#if PMB_SHUFFLES
    FN(floats_) v;
    FN(wide_) magics[PARTS];
    memcpy(&v, x, sizeof v);
    memcpy(magics, magic, sizeof magics);
    for (int p = 0; p < PARTS; p++) sums->v[p] += (FN(many_))(WIDEN(v, p) * w + magics[p]);
#else
    PMB_LANES(l, LANES) sums->v[l] += pmb_bits((double)x[l] * w + magic[l]);
#endif
}

/* sums += w |x|. */
PMB_INLINE void FN(pmb_vloss_size_)(FN(counts_) * sums, const float *x, double w,
                                    const double *magic) {
    float size[LANES] ALIGNED_LANES;
    PMB_LANES(l, LANES) size[l] = fabsf(x[l]);
    FN(pmb_vloss_count_)(sums, size, w, magic);
}

/* Sum and largest of a block's lanes, pairwise. */
PMB_INLINE float FN(pmb_vloss_sum_)(const float *from) {
#if PMB_SHUFFLES
    FN(floats_) v = *(const FN(floats_) *)from;
#if LANES == 16
    pmb_vloss_8 e = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    pmb_vloss_4 q =
        __builtin_shufflevector(e, e, 0, 1, 2, 3) + __builtin_shufflevector(e, e, 4, 5, 6, 7);
#elif LANES == 8
    pmb_vloss_4 q =
        __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
    pmb_vloss_4 q = v;
#endif
    return (q[0] + q[2]) + (q[1] + q[3]);
#else
    float v[LANES];
    memcpy(v, from, sizeof v);
    for (int n = LANES / 2; n >= 1; n /= 2)
        for (int l = 0; l < n; l++) v[l] += v[l + n];
    return v[0];
#endif
}

/* F += V[leaf] of the rows [from, to). F, V: rows of blocks * LANES. */
PMB_CLONES PMB_STATIC void FN(pmb_vloss_add_)(double *PMB_RESTRICT F, const double *PMB_RESTRICT V,
                                              const int32_t *PMB_RESTRICT leaf, int blocks,
                                              int64_t from, int64_t to) {
    int64_t L = (int64_t)blocks * LANES;
    for (int64_t i = from; i < to; i++) {
        double *f = F + i * L;
        const double *v = V + (int64_t)leaf[i] * L;
        for (int64_t l = 0; l < L; l++) f[l] += v[l];
    }
}

/* Gradients of rows [from, to), all from scores F whose unused lanes are -1e30. Adds w |g| by lane to sums,
 * in units, see pmb_bits; NULL: none. */
#if PMB_SHUFFLES
#define DOUBLES(f, p) (((const WIDE *)(f))[p])
#if LANES == 16 /* two vectors of doubles */
#define WIDE pmb_vloss_8d
#define TOP(f) pmb_vloss_top8(DOUBLES(f, 0), DOUBLES(f, 1))
#define HALF(f, top, p) __builtin_convertvector(DOUBLES(f, p) - (top), pmb_vloss_8)
#define NARROW(f, top)                                                                             \
    __builtin_shufflevector(HALF(f, top, 0), HALF(f, top, 1), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,    \
                            11, 12, 13, 14, 15)
#else
#if LANES == 8
#define WIDE pmb_vloss_8d
#define TOP(f) pmb_vloss_top8(DOUBLES(f, 0), DOUBLES(f, 0))
#else
#define WIDE pmb_vloss_4d
#define TOP(f) pmb_vloss_top4(DOUBLES(f, 0))
#endif
#define NARROW(f, top) __builtin_convertvector(DOUBLES(f, 0) - (top), FN(floats_))
#endif
/* Rows go in groups, stage by stage: the stages of one row wait for each other, those of several do not. */
PMB_INLINE void FN(pmb_vloss_gradient_of_)(const int loss, const int summed,
                                           const double *PMB_RESTRICT F,
                                           const int32_t *PMB_RESTRICT y,
                                           const double *PMB_RESTRICT weight, const int blocks,
                                           int64_t from, int64_t to, double magic,
                                           float *PMB_RESTRICT G, uint64_t *PMB_RESTRICT sums) {
    static const float iota[16] ALIGNED_LANES = {0, 1, 2,  3,  4,  5,  6,  7,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
    int64_t L = (int64_t)blocks * LANES;
    const FN(floats_) lanes = *(const FN(floats_) *)iota;
    for (int64_t start = from; start < to; start += GROUP) {
        int n = to - start < GROUP ? (int)(to - start) : GROUP;
        double top[GROUP];
        float rest[GROUP][LANES] ALIGNED_LANES, others[GROUP], factor[GROUP];
        for (int r = 0; r < n; r++) {
            const double *f = F + (start + r) * L;
            if (loss == PMB_SOFTMAX) {
                top[r] = TOP(f);
                for (int b = 1; b < blocks; b++) {
                    double here = TOP(f + b * LANES);
                    top[r] = here > top[r] ? here : top[r];
                }
            } else
                top[r] = f[y[start + r]];
        }
        for (int r = 0; r < n; r++) {
            const double *f = F + (start + r) * L;
            float *g = G + (start + r) * L;
            FN(floats_) sum = {0};
            for (int b = 0; b < blocks; b++) {
                FN(floats_) x = NARROW(f + b * LANES, top[r]), e;
                FN(ints_) used = x > -1e29f, mine = lanes == (float)(y[start + r] - b * LANES);
                if (loss == PMB_LOGISTIC) x = -x;
                EXP((const float *)&x, (float *)&e, loss == PMB_SOFTMAX);
                if (loss == PMB_LOGISTIC) e = 1 / (1 + e);
                e = (FN(floats_))((FN(ints_))e & used);
                ((FN(floats_) *)g)[b] = e;
                sum += (FN(floats_))((FN(ints_))e & ~mine);
            }
            *(FN(floats_) *)rest[r] = sum;
        }
        for (int r = 0; r < n; r++) {
            others[r] = FN(pmb_vloss_sum_)(rest[r]);
            factor[r] =
                loss == PMB_SOFTMAX ? 1 / (others[r] + G[(start + r) * L + y[start + r]]) : 1;
        }
        for (int b = 0; b < blocks; b++) {
            FN(counts_) part;
            if (summed) memcpy(&part, sums + b * LANES, sizeof part);
            for (int r = 0; r < n; r++) {
                FN(floats_) *g = (FN(floats_) *)(G + (start + r) * L) + b, size;
                FN(floats_) v = *g * -factor[r], self = (FN(floats_)){0} + others[r] * factor[r];
                v = VPICK(lanes == (float)(y[start + r] - b * LANES), self, v);
                *g = v;
                if (!summed) continue;
                size = (FN(floats_))((FN(ints_))v & 0x7fffffff);
                for (int p = 0; p < PARTS; p++) {
                    WIDE wide = WIDEN(size, p);
                    if (weight) wide *= weight[start + r];
                    part.v[p] += (FN(many_))(wide + magic);
                }
            }
            if (summed) memcpy(sums + b * LANES, &part, sizeof part);
        }
    }
}

#if LANES > 4
#include "vector_loss_pieces.h"
#endif

#define GRADIENT(how, loss, summed, weight, blocks)                                                \
    FN(pmb_vloss_gradient_##how##_)(loss, summed, F, y, weight, blocks, from, to, magic, G, sums)
/* All losses by one of the ways above. sums is NULL for softmax of several blocks without weights, which need 16 lanes each. */
#define GRADIENTS(clones, name, how)                                                               \
    clones PMB_STATIC void FN(pmb_vloss_gradients_##name##_)(                                      \
        int loss, const double *PMB_RESTRICT F, const int32_t *PMB_RESTRICT y,                     \
        const double *PMB_RESTRICT weight, int blocks, int64_t from, int64_t to, double magic,     \
        float *PMB_RESTRICT G, uint64_t *PMB_RESTRICT sums) {                                      \
        if (LANES == 16 && !sums)                                                                  \
            GRADIENT(how, PMB_SOFTMAX, 0, NULL, blocks);                                           \
        else if (loss == PMB_LOGISTIC)                                                             \
            GRADIENT(how, PMB_LOGISTIC, 1, weight, blocks);                                        \
        else if (weight)                                                                           \
            GRADIENT(how, PMB_SOFTMAX, 1, weight, blocks);                                         \
        else if (blocks == 1)                                                                      \
            GRADIENT(how, PMB_SOFTMAX, 1, NULL, 1);                                                \
        else                                                                                       \
            GRADIENT(how, PMB_SOFTMAX, 1, NULL, blocks);                                           \
    }
#if LANES > 4
GRADIENTS(PMB_ONLY_512, 512, of)
GRADIENTS(PMB_ONLY_256, 256, by_8)
GRADIENTS(PMB_BELOW_256, 128, by_4)
#else
GRADIENTS(PMB_CLONES, any, of)
#endif

PMB_STATIC void FN(pmb_vloss_gradient_)(int loss, const double *F, const int32_t *y,
                                        const double *weight, int blocks, int64_t from, int64_t to,
                                        double magic, float *G, uint64_t *sums) {
#define BY(name)                                                                                   \
    FN(pmb_vloss_gradients_##name##_)(loss, F, y, weight, blocks, from, to, magic, G, sums)
#if LANES > 4
    if (PMB_RUNS_512)
        BY(512);
    else if (PMB_HAS_256)
        BY(256);
    else
        BY(128);
#else
    BY(any);
#endif
    if (sums) pmb_less_magic(sums, blocks * LANES, to - from, magic);
}
#undef BY
#undef GRADIENTS
#undef GRADIENT
#undef DOUBLES
#undef WIDE
#undef TOP
#undef HALF
#undef NARROW
#else
PMB_STATIC void FN(pmb_vloss_gradient_)(int loss, const double *F, const int32_t *y,
                                        const double *weight, int blocks, int64_t from, int64_t to,
                                        double magic, float *G, uint64_t *sums) {
    int64_t L = (int64_t)blocks * LANES;
    for (int64_t i = from; i < to; i++) {
        const double *f = F + i * L;
        float *g = G + i * L, rest[LANES] = {0}, own, others, factor;
        double top = f[y[i]], w = weight ? weight[i] : 1;
        if (loss == PMB_SOFTMAX)
            for (int64_t l = 0; l < L; l++) top = f[l] > top ? f[l] : top;
        for (int b = 0; b < blocks; b++) {
            float x[LANES], *e = g + b * LANES;
            PMB_LANES(l, LANES)
                x[l] = (float)(f[b * LANES + l] - top) * (loss == PMB_LOGISTIC ? -1 : 1);
            EXP(x, e, 0);
            PMB_LANES(l, LANES)
                e[l] = fabsf(x[l]) > 1e29f ? 0 : loss == PMB_LOGISTIC ? 1 / (1 + e[l]) : e[l];
        }
        own = g[y[i]];
        g[y[i]] = 0;
        for (int64_t l = 0; l < L; l++) rest[l % LANES] += g[l];
        others = FN(pmb_vloss_sum_)(rest);
        factor = loss == PMB_SOFTMAX ? 1 / (others + own) : 1;
        for (int64_t l = 0; l < L; l++) g[l] *= -factor;
        g[y[i]] = others * factor;
        for (int64_t l = 0; l < L && sums; l++) sums[l] += pmb_bits(w * fabs((double)g[l]) + magic);
    }
    if (sums) pmb_less_magic(sums, L, to - from, magic);
}
#endif

/* Integers for the trees: A (blocks, m, LANES) = round(w g scale), lane K holds max(1, round(w units)), or 1. */
PMB_CLONES PMB_STATIC void FN(pmb_vloss_quantise_)(const float *PMB_RESTRICT G,
                                                   const double *PMB_RESTRICT weight, int blocks,
                                                   int K, int64_t m, int64_t from, int64_t to,
                                                   double scale, double units,
                                                   int32_t *PMB_RESTRICT A) {
    for (int b = 0; b < blocks; b++) {
        int32_t *to_b = A + (int64_t)b * m * LANES, counts = b == K / LANES;
#if PMB_VECTORS
        FN(ints_) own = {0};
        if (counts) own[K % LANES] = -1;
#endif
        for (int64_t i = from; i < to; i++) {
            const float *g = G + (i * blocks + b) * LANES;
            int32_t *a = to_b + i * LANES;
            float s = (float)(weight ? weight[i] * scale : scale);
            double n = weight ? floor(weight[i] * units + 0.5) : 1;
            int32_t count = n < 1 ? 1 : (int32_t)n;
#if PMB_VECTORS
            FN(floats_) v = *(const FN(floats_) *)g * s, half = (FN(floats_)){0} + 0.5f;
            FN(ints_)
            rounded = __builtin_convertvector(
                v + (FN(floats_))((FN(ints_))half | ((FN(ints_))v & INT32_MIN)), FN(ints_));
            *(FN(ints_) *)a = (rounded & ~own) | (count & own);
#else
            PMB_LANES(l, LANES) {
                float v = g[l] * s;
                a[l] = (int32_t)(v + (v < 0 ? -0.5f : 0.5f));
            }
            if (counts) a[K % LANES] = count;
#endif
        }
    }
}

#if PMB_VECTORS
/* Sums of g[k] P[k] over n classes, class after class, of GROUP rows; vectors of some bytes, or of a block if that is
 * shorter. Sums in an array of numbers would go through memory. */
#define PRODUCTS(bytes)                                                                            \
    PMB_INLINE void FN(pmb_vloss_products_##bytes##_)(const float *const *g, const float *P,       \
                                                      int64_t L, const int32_t *classes,           \
                                                      int64_t n, float (*acc)[LANES]) {            \
        typedef float part                                                                         \
            __attribute__((vector_size((bytes) < 4 * LANES ? (bytes) : 4 * LANES), may_alias));    \
        for (int at = 0; at < LANES; at += (int)(sizeof(part) / 4)) {                              \
            part sum[GROUP];                                                                       \
            PMB_LANES(r, GROUP) sum[r] = (part){0};                                                \
            for (int64_t j = 0; j < n; j++) {                                                      \
                part p;                                                                            \
                memcpy(&p, P + classes[j] * L + at, sizeof p);                                     \
                PMB_LANES(r, GROUP) sum[r] += g[r][classes[j]] * p;                                \
            }                                                                                      \
            PMB_LANES(r, GROUP) memcpy(acc[r] + at, &sum[r], sizeof sum[r]);                       \
        }                                                                                          \
    }
PRODUCTS(64)
PRODUCTS(32)
PRODUCTS(16)
#undef PRODUCTS
#endif

PMB_INLINE void FN(pmb_vloss_products_)(const float *const *g, const float *PMB_RESTRICT P,
                                        int64_t L, const int32_t *PMB_RESTRICT classes, int64_t n,
                                        float (*PMB_RESTRICT acc)[LANES]) {
#if PMB_VECTORS
    if (PMB_HAS_512)
        FN(pmb_vloss_products_64_)(g, P, L, classes, n, acc);
    else if (PMB_HAS_256)
        FN(pmb_vloss_products_32_)(g, P, L, classes, n, acc);
    else
        FN(pmb_vloss_products_16_)(g, P, L, classes, n, acc);
#else
    for (int r = 0; r < GROUP; r++)
        PMB_LANES(l, LANES) acc[r][l] = 0;
    for (int64_t j = 0; j < n; j++)
        for (int r = 0; r < GROUP; r++)
            PMB_LANES(l, LANES) acc[r][l] += g[r][classes[j]] * P[classes[j] * L + l];
#endif
}

/* Rows [from, to) of G P: P (K, blocks * LANES), added class after class; sums: of w |g| by lane of the result, in
 * units. Block b of P is 0 but for the classes from classes[start[b]] to before classes[start[b + 1]]. */
PMB_CLONES PMB_STATIC void
FN(pmb_vloss_project_)(const float *PMB_RESTRICT G, int64_t width, const float *PMB_RESTRICT P,
                       const int32_t *PMB_RESTRICT classes, const int64_t *PMB_RESTRICT start,
                       const double *PMB_RESTRICT weight, int blocks, int64_t from, int64_t to,
                       double magic, float *PMB_RESTRICT out, uint64_t *PMB_RESTRICT sums) {
    int64_t L = (int64_t)blocks * LANES;
    double each[LANES] ALIGNED_LANES;
    PMB_LANES(l, LANES) each[l] = magic;
    for (int64_t l = 0; l < L; l++) sums[l] = 0;
    for (int64_t first = from; first < to; first += GROUP) {
        int n = to - first < GROUP ? (int)(to - first) : GROUP;
        const float *g[GROUP];
        for (int r = 0; r < GROUP; r++) g[r] = G + (first + (r < n ? r : 0)) * width;
        for (int b = 0; b < blocks; b++) {
            float acc[GROUP][LANES] ALIGNED_LANES;
            FN(pmb_vloss_products_)(g, P + b * LANES, L, classes + start[b],
                                    start[b + 1] - start[b], acc);
            FN(counts_) part;
            memcpy(&part, sums + b * LANES, sizeof part);
            for (int r = 0; r < n; r++) {
                memcpy(out + (first + r) * L + b * LANES, acc[r], sizeof acc[r]);
                FN(pmb_vloss_size_)(&part, acc[r], weight ? weight[first + r] : 1, each);
            }
            memcpy(sums + b * LANES, &part, sizeof part);
        }
    }
    pmb_less_magic(sums, L, to - from, magic);
}

#include "vector_loss_sums.h"

#if PMB_SHUFFLES
#undef PARTS
#undef WIDEN
#if LANES == 16
#undef LOW
#undef HIGH
#endif
#endif
#undef FN
#undef GROUP
#undef SPAN
#undef EXP
#undef VPICK
#endif
