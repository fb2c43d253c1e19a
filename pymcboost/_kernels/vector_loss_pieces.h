/* Part of vector_loss_body.h: gradients on CPUs whose registers are shorter than a block of lanes. */
#ifdef LANES
/* Largest of a block's lanes, in vectors of four. */
PMB_INLINE double FN(pmb_vloss_top_fours_)(const double *f) {
    pmb_vloss_4d top = ((const pmb_vloss_4d *)f)[0];
    for (int q = 1; q < LANES / 4; q++) {
        pmb_vloss_4d here = ((const pmb_vloss_4d *)f)[q];
        top = PMB_VLOSS_MAX(pmb_vloss_4d, pmb_vloss_4l, here, top);
    }
    return pmb_vloss_top4(top);
}

#define EIGHT(v, p)                                                                                \
    (p ? __builtin_shufflevector(v, v, 4, 5, 6, 7) : __builtin_shufflevector(v, v, 0, 1, 2, 3))
#define NARROW_8(f, top)                                                                           \
    __builtin_shufflevector(HALF(f, top, 0), HALF(f, top, 1), 0, 1, 2, 3, 4, 5, 6, 7)
#define WIDEN_8(v, p) __builtin_convertvector(EIGHT(v, p), pmb_vloss_4d)
#define NARROW_4(f, top) HALF(f, top, 0)
#define WIDEN_4(v, p) __builtin_convertvector(v, pmb_vloss_4d)

/* pmb_vloss_gradient_of where registers are shorter than a block: in pieces of as many lanes as they have. */
#define IN_PIECES(size)                                                                            \
    PMB_INLINE void FN(pmb_vloss_gradient_by_##size##_)(                                           \
        const int loss, const int summed, const double *PMB_RESTRICT F,                            \
        const int32_t *PMB_RESTRICT y, const double *PMB_RESTRICT weight, const int blocks,        \
        int64_t from, int64_t to, double magic, float *PMB_RESTRICT G,                             \
        uint64_t *PMB_RESTRICT sums) {                                                             \
        typedef float floats __attribute__((vector_size(4 * size), may_alias));                    \
        typedef int32_t ints __attribute__((vector_size(4 * size), may_alias));                    \
        static const float iota[8] ALIGNED_LANES = {0, 1, 2, 3, 4, 5, 6, 7};                       \
        const int64_t L = (int64_t)blocks * LANES;                                                 \
        const floats lanes = *(const floats *)iota;                                                \
        for (int64_t start = from; start < to; start += GROUP) {                                   \
            int n = to - start < GROUP ? (int)(to - start) : GROUP;                                \
            double top[GROUP];                                                                     \
            float rest[GROUP][LANES] ALIGNED_LANES, others[GROUP], factor[GROUP];                  \
            for (int r = 0; r < n; r++) {                                                          \
                const double *f = F + (start + r) * L;                                             \
                if (loss == PMB_SOFTMAX) {                                                         \
                    top[r] = FN(pmb_vloss_top_fours_)(f);                                          \
                    for (int b = 1; b < blocks; b++) {                                             \
                        double here = FN(pmb_vloss_top_fours_)(f + b * LANES);                     \
                        top[r] = here > top[r] ? here : top[r];                                    \
                    }                                                                              \
                } else                                                                             \
                    top[r] = f[y[start + r]];                                                      \
            }                                                                                      \
            for (int r = 0; r < n; r++)                                                            \
                for (int at = 0; at < LANES; at += size) {                                         \
                    floats sum = {0};                                                              \
                    for (int64_t l = at; l < L; l += LANES) {                                      \
                        const double *f = F + (start + r) * L + l;                                 \
                        floats x = NARROW_##size(f, top[r]), e;                                    \
                        ints used = x > -1e29f, mine = lanes == (float)(y[start + r] - l);         \
                        if (loss == PMB_LOGISTIC) x = -x;                                          \
                        PMB_CAT1(pmb_exp_, size)((const float *)&x, (float *)&e,                   \
                                                 loss == PMB_SOFTMAX);                             \
                        if (loss == PMB_LOGISTIC) e = 1 / (1 + e);                                 \
                        e = (floats)((ints)e & used);                                              \
                        *(floats *)(G + (start + r) * L + l) = e;                                  \
                        sum += (floats)((ints)e & ~mine);                                          \
                    }                                                                              \
                    *(floats *)(rest[r] + at) = sum;                                               \
                }                                                                                  \
            for (int r = 0; r < n; r++) {                                                          \
                others[r] = FN(pmb_vloss_sum_)(rest[r]);                                           \
                factor[r] =                                                                        \
                    loss == PMB_SOFTMAX ? 1 / (others[r] + G[(start + r) * L + y[start + r]]) : 1; \
            }                                                                                      \
            for (int64_t l = 0; l < L; l += size) {                                                \
                pmb_vloss_4u part[size / 4];                                                       \
                if (summed) memcpy(part, sums + l, sizeof part);                                   \
                for (int r = 0; r < n; r++) {                                                      \
                    floats *g = (floats *)(G + (start + r) * L + l), v = *g * -factor[r], sizes;   \
                    const ints mine = lanes == (float)(y[start + r] - l);                          \
                    const floats self = (floats){0} + others[r] * factor[r];                       \
                    v = (floats)((mine & (ints)self) | (~mine & (ints)v));                         \
                    *g = v;                                                                        \
                    if (!summed) continue;                                                         \
                    sizes = (floats)((ints)v & 0x7fffffff);                                        \
                    for (int p = 0; p < size / 4; p++) {                                           \
                        pmb_vloss_4d wide = WIDEN_##size(sizes, p);                                \
                        if (weight) wide *= weight[start + r];                                     \
                        part[p] += (pmb_vloss_4u)(wide + magic);                                   \
                    }                                                                              \
                }                                                                                  \
                if (summed) memcpy(sums + l, part, sizeof part);                                   \
            }                                                                                      \
        }                                                                                          \
    }
#undef HALF
#define HALF(f, top, p) __builtin_convertvector(((const pmb_vloss_4d *)(f))[p] - (top), pmb_vloss_4)
IN_PIECES(8)
IN_PIECES(4)
#undef IN_PIECES
#undef EIGHT
#undef NARROW_8
#undef NARROW_4
#undef WIDEN_8
#undef WIDEN_4
#endif
