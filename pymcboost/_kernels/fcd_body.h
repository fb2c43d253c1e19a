/* Template body: define REAL (float or double), INT (the integer as wide), RTAG (f or d) and WIDE (values in 64 bytes)
 * before each inclusion.
 *
 * One class c of the pairwise exponential loss: u[i] is the weight of row i in every coordinate of the class; bit i of h
 * is set where the weak learner says -1. Rows of the class itself (own) have delta = h, others -h. Rows are padded to a
 * multiple of 32, padding has weight 0.
 */
#ifdef REAL
#define FN(name) PMB_CAT2(name, RTAG, 0)

#if PMB_VECTORS
typedef REAL FN(fvec_) __attribute__((vector_size(64), may_alias));
typedef INT FN(fmask_) __attribute__((vector_size(64), may_alias));
#define VEC FN(fvec_)
#define MASKV FN(fmask_)
#define PARTS (32 / WIDE)
#define BITS (8 * (int)sizeof(INT))

/* All bits of lane l are bit l + first of the word. */
PMB_INLINE void FN(fcd_mask_)(uint32_t word, int first, MASKV *mask) {
    MASKV shift = {0};
    for (int l = 0; l < WIDE; l++) shift[l] = BITS - 1 - first - l;
    *mask = (((MASKV){0} + (INT)word) << shift) >> (BITS - 1);
}

/* 32 rows: u *= the factor of prev, then sums of u on both sides of next. flip: bits of the rows of other classes, whose
 * side is the opposite. */
#define FCD_WORD(i, flip)                                                     \
    do {                                                                      \
        uint32_t was = prev ? prev[(i) / 32] ^ (flip) : 0;                    \
        uint32_t is = next ? next[(i) / 32] ^ (flip) : 0;                     \
        for (int q = 0; q < PARTS; q++) {                                     \
            VEC a = *(VEC *)(u + (i) + q * WIDE);                             \
            if (prev) {                                                       \
                MASKV s;                                                      \
                FN(fcd_mask_)(was, q * WIDE, &s);                             \
                a *= (VEC)((s & minus) | (~s & plus));                        \
                *(VEC *)(u + (i) + q * WIDE) = a;                             \
            }                                                                 \
            if (next) {                                                       \
                MASKV s;                                                      \
                FN(fcd_mask_)(is, q * WIDE, &s);                              \
                low[q] += (VEC)((MASKV)a & s);                                \
                high[q] += (VEC)((MASKV)a & ~s);                              \
            }                                                                 \
        }                                                                     \
    } while (0)

PMB_INLINE void FN(fcd_zone_)(REAL *PMB_RESTRICT u, const uint32_t *prev, const uint32_t *next, int64_t begin, int64_t end,
                              uint32_t flip, REAL f_plus, REAL f_minus, double *sums) {
    const MASKV plus = (MASKV)((VEC){0} + f_plus), minus = (MASKV)((VEC){0} + f_minus);
    for (int64_t start = begin; start < end; start += PMB_FCD_BLOCK) {
        int64_t stop = start + PMB_FCD_BLOCK < end ? start + PMB_FCD_BLOCK : end;
        VEC high[PARTS] = {{0}}, low[PARTS] = {{0}};
        for (int64_t i = start; i < stop; i += 32) FCD_WORD(i, flip);
        if (next) {
            for (int q = 1; q < PARTS; q++) {
                high[0] += high[q];
                low[0] += low[q];
            }
            double p = 0, m = 0;
            for (int l = 0; l < WIDE; l++) {
                p += high[0][l];
                m += low[0][l];
            }
            sums[0] += p;
            sums[1] += m;
        }
    }
}
#undef FCD_WORD
#undef VEC
#undef MASKV
#undef PARTS
#undef BITS
#else
PMB_INLINE void FN(fcd_zone_)(REAL *PMB_RESTRICT u, const uint32_t *prev, const uint32_t *next, int64_t begin, int64_t end,
                              uint32_t flip, REAL f_plus, REAL f_minus, double *sums) {
    for (int64_t start = begin; start < end; start += PMB_FCD_BLOCK) {
        int64_t stop = start + PMB_FCD_BLOCK < end ? start + PMB_FCD_BLOCK : end;
        REAL part[2] = {0, 0};
        for (int64_t i = start; i < stop; i++) {
            if (prev) u[i] *= (prev[i / 32] ^ flip) >> (i % 32) & 1 ? f_minus : f_plus;
            if (next) part[(next[i / 32] ^ flip) >> (i % 32) & 1] += u[i];
        }
        if (next) {
            sums[0] += part[0];
            sums[1] += part[1];
        }
    }
}
#endif

PMB_INLINE void FN(fcd_zones_)(REAL *u, const uint32_t *prev, const uint32_t *next, int64_t rows, int64_t own,
                               int64_t own_end, double f_plus, double f_minus, double *sums) {
    int64_t a0 = own / 32 * 32, a1 = (own + 31) / 32 * 32, b0 = own_end / 32 * 32, b1 = (own_end + 31) / 32 * 32;
#define ZONE(begin, end, flip) FN(fcd_zone_)(u, prev, next, begin, end, flip, (REAL)f_plus, (REAL)f_minus, sums)
    ZONE(0, a0, UINT32_MAX);
    if (a0 < a1) ZONE(a0, a1, pmb_fcd_others(a0, own, own_end));
    ZONE(a1, b0, 0);
    if (b0 < b1 && b0 >= a1) ZONE(b0, b1, pmb_fcd_others(b0, own, own_end));
    ZONE(a1 > b1 ? a1 : b1, rows, UINT32_MAX);
#undef ZONE
}

PMB_CLONES PMB_STATIC void FN(pmb_fcd_sums_)(const REAL *u, const uint32_t *next, int64_t rows, int64_t own,
                                             int64_t own_end, double *sums) {
    sums[0] = sums[1] = 0;
    FN(fcd_zones_)((REAL *)u, NULL, next, rows, own, own_end, 1, 1, sums);
}

PMB_CLONES PMB_STATIC void FN(pmb_fcd_both_)(REAL *u, const uint32_t *prev, const uint32_t *next, int64_t rows, int64_t own,
                                             int64_t own_end, double f_plus, double f_minus, double *sums) {
    sums[0] = sums[1] = 0;
    FN(fcd_zones_)(u, prev, next, rows, own, own_end, f_plus, f_minus, sums);
}

PMB_CLONES PMB_STATIC void FN(pmb_fcd_scale_)(REAL *u, const uint32_t *prev, int64_t rows, int64_t own, int64_t own_end,
                                              double f_plus, double f_minus) {
    FN(fcd_zones_)(u, prev, NULL, rows, own, own_end, f_plus, f_minus, NULL);
}

/* Weights of the rows [own, own_end) of class c in its own coordinates: their sums over the other classes. */
PMB_CLONES PMB_STATIC void FN(pmb_fcd_own_)(const REAL *U, int64_t stride, int n_classes, int c, int64_t own,
                                            int64_t own_end, REAL *PMB_RESTRICT to) {
    int64_t n = own_end - own;
    for (int64_t i = 0; i < n; i++) to[i] = 0;
    for (int y = 0; y < n_classes; y++) {
        if (y == c) continue;
        const REAL *PMB_RESTRICT from = U + y * stride + own;
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
    }
}

/* After the coordinates of class c have moved: bring its rows' weights of the other classes up to date (those have all
 * changed by the factor now / before), and keep all weights positive. */
PMB_CLONES PMB_STATIC void FN(pmb_fcd_leave_)(REAL *U, int64_t stride, int n_classes, int c, int64_t n_rows, int64_t own,
                                              int64_t own_end, REAL smallest, REAL *PMB_RESTRICT before) {
    int64_t n = own_end - own;
    REAL *u = U + c * stride;
    for (int64_t i = 0; i < n; i++) before[i] = u[own + i] / before[i];
    for (int y = 0; y < n_classes; y++) {
        if (y == c) continue;
        REAL *PMB_RESTRICT to = U + y * stride + own;
        for (int64_t i = 0; i < n; i++) to[i] = to[i] * before[i] + smallest;
    }
    for (int64_t i = 0; i < own; i++) u[i] += smallest;
    for (int64_t i = own_end; i < n_rows; i++) u[i] += smallest;
}

/* Sum of u in blocks added in order. */
PMB_CLONES PMB_STATIC double FN(pmb_fcd_total_)(const REAL *u, int64_t n) {
    double total = 0;
    for (int64_t start = 0; start < n; start += PMB_FCD_BLOCK) {
        int64_t stop = start + PMB_FCD_BLOCK < n ? start + PMB_FCD_BLOCK : n;
        double part[8] = {0};
        int64_t i = start;
        for (; i + 8 <= stop; i += 8)
            for (int l = 0; l < 8; l++) part[l] += u[i + l];
        for (; i < stop; i++) part[0] += u[i];
        total += ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
    }
    return total;
}
#undef FN
#endif
