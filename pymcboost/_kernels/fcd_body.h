/* Template body: define REAL (float or double), INT (the integer as wide), RTAG (f or d), WIDE (values in 64 bytes) and
 * the names of AVX-512's types and functions for REAL (M512...) before each inclusion, which undefines them all.
 *
 * One class c of the pairwise exponential loss: u[i] is the weight of row i in every coordinate of the class; bit i of h
 * is set where the weak learner says -1. Rows of the class itself (own) have delta = h, others -h. Rows are padded to a
 * multiple of 64, padding has weight 0.
 */
#ifdef REAL
#define FN(name) PMB_CAT2(name, RTAG, 0) /* 0: for any number of lanes */
#define UNIT (4 * WIDE)

#if PMB_VECTORS
typedef REAL FN(fvec_) __attribute__((vector_size(64), may_alias));
typedef INT FN(fmask_) __attribute__((vector_size(64), may_alias));
#define VEC FN(fvec_)
#define MASKV FN(fmask_)
#define BITS (8 * (int)sizeof(INT))

/* The sum of the values whose bit is set is one addition a row; that of the others is the difference to all, which is
 * never negative, as the rounding of additions is monotone, and 0 where all bits are set. */
PMB_INLINE void FN(fcd_close_)(const REAL *all, const REAL *set, double *sums) {
    double a[WIDE], s[WIDE];
    for (int l = 0; l < WIDE; l++) {
        a[l] = all[l];
        s[l] = set[l];
    }
    for (int n = WIDE / 2; n; n /= 2)
        for (int l = 0; l < n; l++) {
            a[l] += a[l + n];
            s[l] += s[l + n];
        }
    sums[0] += a[0] - s[0];
    sums[1] += s[0];
}

/* All bits of lane l are bit l + first of the word. */
PMB_INLINE void FN(fcd_mask_)(uint32_t word, int first, MASKV *mask) {
    MASKV shift = {0};
    for (int l = 0; l < WIDE; l++) shift[l] = BITS - 1 - first - l;
    *mask = (((MASKV){0} + (INT)word) << shift) >> (BITS - 1);
}

/* One unit of rows: u *= the factor of prev, then sums of all u and of those where next is set. flip: bits of h to turn
 * over: `first` and `last` in the first and the last unit of a zone, `middle` in all others. */
#define FCD_UNIT(i, flip)                                                                          \
    do {                                                                                           \
        for (int q = 0; q < 4; q++) {                                                              \
            int at = q * WIDE;                                                                     \
            uint32_t turn = (uint32_t)((flip) >> (at / 32 * 32));                                  \
            VEC a = *(VEC *)(u + (i) + at);                                                        \
            if (scales) {                                                                          \
                MASKV s;                                                                           \
                FN(fcd_mask_)(prev[((i) + at) / 32] ^ turn, at % 32, &s);                          \
                a *= (VEC)((s & minus) | (~s & plus));                                             \
                *(VEC *)(u + (i) + at) = a;                                                        \
            }                                                                                      \
            if (adds) {                                                                            \
                MASKV s;                                                                           \
                FN(fcd_mask_)(next[((i) + at) / 32] ^ turn, at % 32, &s);                          \
                all[q] += a;                                                                       \
                set[q] += (VEC)((MASKV)a & s);                                                     \
            }                                                                                      \
        }                                                                                          \
    } while (0)

PMB_INLINE void FN(fcd_zone_)(REAL *PMB_RESTRICT u, const uint32_t *prev, const uint32_t *next,
                              const int scales, const int adds, int64_t begin, int64_t end,
                              uint64_t first, uint64_t middle, uint64_t last, REAL f_plus,
                              REAL f_minus, double *sums) {
    const MASKV plus = (MASKV)((VEC){0} + f_plus), minus = (MASKV)((VEC){0} + f_minus);
    for (int64_t start = begin; start < end; start += PMB_FCD_BLOCK) {
        int64_t stop = start + PMB_FCD_BLOCK < end ? start + PMB_FCD_BLOCK : end;
        VEC all[4] = {{0}}, set[4] = {{0}};
        for (int64_t i = start; i < stop; i += UNIT) {
            uint64_t flip = i == begin ? first : i + UNIT == end ? last : middle;
            FCD_UNIT(i, flip);
        }
        if (adds) {
            for (int q = 1; q < 4; q++) {
                all[0] += all[q];
                set[0] += set[q];
            }
            FN(fcd_close_)((const REAL *)all, (const REAL *)set, sums);
        }
    }
}
#undef FCD_UNIT
#undef VEC
#undef MASKV
#undef BITS
#else
PMB_INLINE void FN(fcd_zone_)(REAL *PMB_RESTRICT u, const uint32_t *prev, const uint32_t *next,
                              const int scales, const int adds, int64_t begin, int64_t end,
                              uint64_t first, uint64_t middle, uint64_t last, REAL f_plus,
                              REAL f_minus, double *sums) {
    for (int64_t start = begin; start < end; start += PMB_FCD_BLOCK) {
        int64_t stop = start + PMB_FCD_BLOCK < end ? start + PMB_FCD_BLOCK : end;
        REAL part[2] = {0, 0};
        for (int64_t i = start; i < stop; i++) {
            uint64_t flip = i < begin + UNIT ? first : i + UNIT >= end ? last : middle;
            if (scales)
                u[i] *= (prev[i / 32] >> (i % 32) ^ flip >> (i % UNIT)) & 1 ? f_minus : f_plus;
            if (adds) part[(next[i / 32] >> (i % 32) ^ flip >> (i % UNIT)) & 1] += u[i];
        }
        if (adds) {
            sums[0] += part[0];
            sums[1] += part[1];
        }
    }
}
#endif

/* All rows: those before the units with rows of the class, these, those after them. own_flip, other_flip: bits of h to
 * turn over on rows of the class and on all others. */
#define FCD_ROWS(zone, scales, adds, own_flip, other_flip, own_sums, other_sums)                   \
    do {                                                                                           \
        const int64_t begin = own / UNIT * UNIT, end = (own_end + UNIT - 1) / UNIT * UNIT;         \
        const uint64_t first = (own_flip) ^ pmb_fcd_others(begin, own, own_end);                   \
        const uint64_t last = (own_flip) ^ pmb_fcd_others(end - UNIT, own, own_end);               \
        const REAL plus = (REAL)f_plus, minus = (REAL)f_minus;                                     \
        zone(u, prev, next, scales, adds, 0, begin, other_flip, other_flip, other_flip, minus,     \
             plus, other_sums);                                                                    \
        zone(u, prev, next, scales, adds, begin, end, first, own_flip, last, plus, minus,          \
             own_sums);                                                                            \
        zone(u, prev, next, scales, adds, end, rows, other_flip, other_flip, other_flip, minus,    \
             plus, other_sums);                                                                    \
    } while (0)

/* Other rows have the opposite sides: their factors and sums are exchanged in place of their bits. */
#define FCD_ZONES(zone, scales, adds)                                                              \
    do {                                                                                           \
        double turned[2] = {0, 0};                                                                 \
        FCD_ROWS(zone, scales, adds, 0, 0, sums, turned);                                          \
        sums[0] += turned[1];                                                                      \
        sums[1] += turned[0];                                                                      \
    } while (0)

/* The same sums without differences: each side is added up by itself. */
#define FCD_SIDES(zone)                                                                            \
    do {                                                                                           \
        for (int side = 0; side < 2; side++) {                                                     \
            const uint64_t flip = side ? 0 : UINT64_MAX;                                           \
            double both[2] = {0, 0};                                                               \
            FCD_ROWS(zone, 0, 1, flip, ~flip, both, both);                                         \
            sums[side] = both[1];                                                                  \
        }                                                                                          \
    } while (0)

#define FCD_ARGUMENTS                                                                              \
    REAL *u, const uint32_t *prev, const uint32_t *next, int64_t rows, int64_t own,                \
        int64_t own_end, double f_plus, double f_minus, double *sums

/* What is done to the rows of a class, by this function for zones; attributes: those of the functions. */
#define FCD_FOUR(how, attributes, zone)                                                            \
    attributes PMB_STATIC void FN(fcd_sums_##how##_)(FCD_ARGUMENTS) {                              \
        FCD_ZONES(zone, 0, 1);                                                                     \
    }                                                                                              \
    attributes PMB_STATIC void FN(fcd_sides_##how##_)(FCD_ARGUMENTS) {                             \
        FCD_SIDES(zone);                                                                           \
    }                                                                                              \
    attributes PMB_STATIC void FN(fcd_both_##how##_)(FCD_ARGUMENTS) {                              \
        FCD_ZONES(zone, 1, 1);                                                                     \
    }                                                                                              \
    attributes PMB_STATIC void FN(fcd_scale_##how##_)(FCD_ARGUMENTS) {                             \
        FCD_ZONES(zone, 1, 0);                                                                     \
    }

FCD_FOUR(any, PMB_CLONES, FN(fcd_zone_))

#ifdef PMB_FCD_512
/* The same with AVX-512's masked instructions, bit for bit: the bits of h are masks as they are. */
PMB_INLINE PMB_FCD_512 void FN(fcd_zone_512_)(REAL *PMB_RESTRICT u, const uint32_t *prev,
                                              const uint32_t *next, const int scales,
                                              const int adds, int64_t begin, int64_t end,
                                              uint64_t first, uint64_t middle, uint64_t last,
                                              REAL f_plus, REAL f_minus, double *sums) {
    /* Bits of prev, moved to where a permutation looks, choose between pairs of factors: masks are dear to load. */
    const M512 pairs = PAIRS512(SET512(f_plus), SET512(f_minus));
    __m512i shift[SHIFTS];
    for (int q = 0; q < SHIFTS; q++) shift[q] = SHIFT512(q);
    for (int64_t start = begin; start < end; start += PMB_FCD_BLOCK) {
        int64_t stop = start + PMB_FCD_BLOCK < end ? start + PMB_FCD_BLOCK : end;
        M512 all[4], set[4];
        for (int q = 0; q < 4; q++) all[q] = set[q] = SET512(0);
        const uint32_t *p = scales ? prev + start / 32 : NULL;
        const MASK512 *x = adds ? (const MASK512 *)next + start / WIDE : NULL;
        REAL *at = u + start;
        for (int64_t i = start; i < stop;
             i += UNIT, at += UNIT, p += scales ? UNIT / 32 : 0, x += adds ? 4 : 0) {
            const uint64_t flip = i == begin ? first : i + UNIT == end ? last : middle;
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) {
                const MASK512 turn = (MASK512)(flip >> (q * WIDE));
                M512 a = LOAD512(at + q * WIDE);
                if (scales) {
                    const uint32_t word = p[q / SHIFTS] ^ (uint32_t)(flip >> (q / SHIFTS * 32));
                    a = MUL512(a, CHOOSE512(word, shift[q % SHIFTS], pairs));
                    STORE512(at + q * WIDE, a);
                }
                if (adds) {
                    all[q] += a;
                    set[q] = ADD512(set[q], (MASK512)(LOAD_MASK512((MASK512 *)(x + q)) ^ turn),
                                    set[q], a);
                }
            }
        }
        if (adds) {
            for (int q = 1; q < 4; q++) {
                all[0] += all[q];
                set[0] += set[q];
            }
            double those_set = TOTAL512(set[0]);
            sums[0] += TOTAL512(all[0]) - those_set;
            sums[1] += those_set;
        }
    }
}

FCD_FOUR(512, PMB_FCD_512, FN(fcd_zone_512_))

#define FCD_RUN(what, ...)                                                                         \
    do {                                                                                           \
        if (pmb_fcd_has_512())                                                                     \
            FN(fcd_##what##_512_)(__VA_ARGS__);                                                    \
        else                                                                                       \
            FN(fcd_##what##_any_)(__VA_ARGS__);                                                    \
    } while (0)
#else
#define FCD_RUN(what, ...) FN(fcd_##what##_any_)(__VA_ARGS__)
#endif

/* Where one side is so small that the difference has lost digits of it, both are added up anew. */
PMB_INLINE void FN(fcd_sharpen_)(const REAL *u, const uint32_t *next, int64_t rows, int64_t own,
                                 int64_t own_end, double *sums) {
    double low = sums[0] < sums[1] ? sums[0] : sums[1],
           high = sums[0] < sums[1] ? sums[1] : sums[0];
    if (low < (sizeof(REAL) == 4 ? 1e-3 : 1e-10) * high)
        FCD_RUN(sides, (REAL *)u, NULL, next, rows, own, own_end, 1, 1, sums);
}

PMB_STATIC void FN(pmb_fcd_sums_)(const REAL *u, const uint32_t *next, int64_t rows, int64_t own,
                                  int64_t own_end, double *sums) {
    sums[0] = sums[1] = 0;
    FCD_RUN(sums, (REAL *)u, NULL, next, rows, own, own_end, 1, 1, sums);
    FN(fcd_sharpen_)(u, next, rows, own, own_end, sums);
}

PMB_STATIC void FN(pmb_fcd_both_)(REAL *u, const uint32_t *prev, const uint32_t *next, int64_t rows,
                                  int64_t own, int64_t own_end, double f_plus, double f_minus,
                                  double *sums) {
    sums[0] = sums[1] = 0;
    FCD_RUN(both, u, prev, next, rows, own, own_end, f_plus, f_minus, sums);
    FN(fcd_sharpen_)(u, next, rows, own, own_end, sums);
}

PMB_STATIC void FN(pmb_fcd_scale_)(REAL *u, const uint32_t *prev, int64_t rows, int64_t own,
                                   int64_t own_end, double f_plus, double f_minus) {
    double sums[2] = {0, 0};
    FCD_RUN(scale, u, prev, NULL, rows, own, own_end, f_plus, f_minus, sums);
}
#undef FCD_RUN
#undef FCD_FOUR
#undef FCD_SIDES
#undef FCD_ZONES
#undef FCD_ROWS
#undef FCD_ARGUMENTS

/* Weights of the rows [own, own_end) of class c in its own coordinates: their sums over the other classes. */
PMB_CLONES PMB_STATIC void FN(pmb_fcd_own_)(const REAL *U, int64_t stride, int n_classes, int c,
                                            int64_t own, int64_t own_end, REAL *PMB_RESTRICT to) {
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
PMB_CLONES PMB_STATIC void FN(pmb_fcd_leave_)(REAL *U, int64_t stride, int n_classes, int c,
                                              int64_t n_rows, int64_t own, int64_t own_end,
                                              REAL smallest, REAL *PMB_RESTRICT before) {
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
        total += ((part[0] + part[4]) + (part[1] + part[5])) +
                 ((part[2] + part[6]) + (part[3] + part[7]));
    }
    return total;
}
#undef UNIT
#undef FN
#undef REAL
#undef INT
#undef RTAG
#undef WIDE
#undef M512
#undef MASK512
#undef LOAD_MASK512
#undef TOTAL512
#undef SET512
#undef LOAD512
#undef STORE512
#undef MUL512
#undef PAIRS512
#undef SHIFTS
#undef SHIFT512
#undef CHOOSE512
#undef ADD512
#endif
