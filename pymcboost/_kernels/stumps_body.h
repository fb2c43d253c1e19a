/* Template body: define REAL (float or double), RTAG (f or d), LANES, and MOST_WIDE, the doubles in a register of the
 * CPU with its tag WTAG and its CLONES, before each inclusion.
 *
 * Problem: A is the m x LANES gradient block of LANES classes (row-major, 64-byte aligned). For every feature find the
 * threshold t and class r with the largest |edge|, edge = sum_i A[i,r] h(x_i), h = -1 if x_i <= t else +1
 * (Paisitkriangkrai, Shen and van den Hengel, eq. 10).
 */
#ifdef REAL
#define FN(name) PMB_CAT2(name, PMB_CAT1(WTAG, RTAG), LANES)
/* Doubles go in PARTS parts of WIDE lanes: gcc keeps vectors that are wider than a register in memory. */
#define WIDE (LANES < MOST_WIDE ? LANES : MOST_WIDE)
#define PARTS (LANES / WIDE)

#if PMB_VECTORS
typedef REAL FN(row_) __attribute__((vector_size(LANES * sizeof(REAL)), may_alias));
typedef REAL FN(half_) __attribute__((vector_size(WIDE * sizeof(REAL)), may_alias));
typedef double FN(wide_) __attribute__((vector_size(WIDE * 8), may_alias));
typedef int64_t FN(mask_) __attribute__((vector_size(WIDE * 8), may_alias));
#define ROW FN(row_)
#define WIDEV FN(wide_)
#define ROW_ADD(q, a) (*(ROW *)(q) += *(const ROW *)(a))
/* to -= 2 * from, for a row of REALs or of doubles and an accumulator of doubles */
#define WIDE_TAKE2(to, from)                                                                       \
    do {                                                                                           \
        for (int p_ = 0; p_ < PARTS; p_++) {                                                       \
            WIDEV v_ = __builtin_convertvector(((const FN(half_) *)(from))[p_], WIDEV);            \
            ((WIDEV *)(to))[p_] -= v_ + v_;                                                        \
        }                                                                                          \
    } while (0)
#define WIDE_ADD(to, from)                                                                         \
    do {                                                                                           \
        for (int p_ = 0; p_ < PARTS; p_++)                                                         \
            ((WIDEV *)(to))[p_] +=                                                                 \
                __builtin_convertvector(((const FN(half_) *)(from))[p_], WIDEV);                   \
    } while (0)
#define DOUBLE_TAKE2(to, from)                                                                     \
    do {                                                                                           \
        for (int p_ = 0; p_ < PARTS; p_++) {                                                       \
            WIDEV v_ = ((const WIDEV *)(from))[p_];                                                \
            ((WIDEV *)(to))[p_] -= v_ + v_;                                                        \
        }                                                                                          \
    } while (0)
#define DOUBLE_ADD(to, from)                                                                       \
    do {                                                                                           \
        for (int p_ = 0; p_ < PARTS; p_++) ((WIDEV *)(to))[p_] += ((const WIDEV *)(from))[p_];     \
    } while (0)
#else
#define ROW_ADD(q, a)                                                                              \
    PMB_LANES(l_, LANES) (q)[l_] += (a)[l_]
#define WIDE_TAKE2(to, from)                                                                       \
    PMB_LANES(l_, LANES) (to)[l_] -= 2 * (double)(from)[l_]
#define WIDE_ADD(to, from)                                                                         \
    PMB_LANES(l_, LANES) (to)[l_] += (double)(from)[l_]
#define DOUBLE_ADD(to, from)                                                                       \
    PMB_LANES(l_, LANES) (to)[l_] += (from)[l_]
#define DOUBLE_TAKE2(to, from)                                                                     \
    PMB_LANES(l_, LANES) (to)[l_] -= 2 * (from)[l_]
#endif

#include "stumps_fill_body.h"

/* Column sums of A, in blocks of PMB_BLOCK_ROWS rows. totals: LANES doubles. */
CLONES PMB_STATIC void FN(pmb_totals_)(const void *A_, int64_t m, double *totals) {
    const REAL *A = (const REAL *)A_;
    PMB_LANES(l, LANES) totals[l] = 0;
    for (int64_t start = 0; start < m; start += PMB_BLOCK_ROWS) {
        int64_t stop = start + PMB_BLOCK_ROWS < m ? start + PMB_BLOCK_ROWS : m;
        REAL s0[LANES] ALIGNED_LANES = {0}, s1[LANES] ALIGNED_LANES = {0};
        REAL s2[LANES] ALIGNED_LANES = {0}, s3[LANES] ALIGNED_LANES = {0};
        int64_t i = start;
        for (; i + 4 <= stop; i += 4) {
            const REAL *a = A + i * LANES;
            ROW_ADD(s0, a);
            ROW_ADD(s1, a + LANES);
            ROW_ADD(s2, a + 2 * LANES);
            ROW_ADD(s3, a + 3 * LANES);
        }
        for (; i < stop; i++) ROW_ADD(s0, A + i * LANES);
        PMB_LANES(l, LANES) totals[l] += (((double)s0[l] + s1[l]) + ((double)s2[l] + s3[l]));
    }
}

/* Sums of the |A| of the columns over n rows in units of 1.5 * 2^52 / magic, rounded row by row: added to sums. */
CLONES PMB_STATIC void FN(pmb_sizes_)(const void *A_, int64_t n, double magic, int64_t *sums) {
    const REAL *A = (const REAL *)A_;
    uint64_t found[LANES] ALIGNED_LANES = {0};
    for (int64_t i = 0; i < n; i++)
        PMB_LANES(l, LANES) {
            double x = (double)A[i * LANES + l];
            found[l] += pmb_bits((x < 0 ? -x : x) + magic);
        }
    PMB_LANES(l, LANES) sums[l] += (int64_t)(found[l] - (uint64_t)n * pmb_bits(magic));
}

/* Running best of every lane during a scan over thresholds. bar = |best| * tie: what the next one must exceed. */
#if PMB_VECTORS
typedef WIDEV FN(lanes_)[PARTS];
#define COPY_LANES(to, from)                                                                       \
    do {                                                                                           \
        for (int p_ = 0; p_ < PARTS; p_++) ((WIDEV *)(to))[p_] = ((const WIDEV *)(from))[p_];      \
    } while (0)
#define CLEAR_LANES(x)                                                                             \
    do {                                                                                           \
        for (int p_ = 0; p_ < PARTS; p_++) ((WIDEV *)(x))[p_] = (WIDEV){0};                        \
    } while (0)
#else
typedef double FN(lanes_)[LANES];
#define COPY_LANES(to, from) memcpy(to, from, sizeof(double) * LANES)
#define CLEAR_LANES(x) memset(x, 0, sizeof(double) * LANES)
#endif

typedef struct {
    FN(lanes_) bar, edge, code;
    /* where the first split of the slot goes, if every split has a number of its own */
    double *total;
    int64_t width;
    int mode;
} FN(scan_);

/* Take down the edges of a split without comparing. Inline, as a call from code with AVX to code without stalls the CPU. */
PMB_INLINE void FN(note_)(const FN(scan_) * s, const FN(lanes_) * e, int64_t code) {
    double edge[LANES] ALIGNED_LANES;
    COPY_LANES(edge, *e);
    if (s->mode == PMB_FIND_ALL) {
        memcpy(s->total + code * s->width, edge, sizeof edge);
        return;
    }
    PMB_LANES(l, LANES) edge[l] = s->mode == PMB_FIND_ABS ? fabs(edge[l]) : edge[l] * edge[l];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) edge[l] += edge[l + width];
    s->total[code] += edge[0];
}

PMB_INLINE void FN(consider_)(FN(scan_) * s, const FN(lanes_) * e, double code, double tie) {
    if (s->total) {
        FN(note_)(s, e, (int64_t)code);
        return;
    }
#if PMB_VECTORS
    for (int p = 0; p < PARTS; p++) {
        WIDEV v = (*e)[p], size = (WIDEV)((FN(mask_))v & INT64_MAX), raised = size * tie,
              here = (WIDEV){0} + code;
        FN(mask_) better = size > s->bar[p];
        s->bar[p] = (WIDEV)((better & (FN(mask_))raised) | (~better & (FN(mask_))s->bar[p]));
        s->edge[p] = (WIDEV)((better & (FN(mask_))v) | (~better & (FN(mask_))s->edge[p]));
        s->code[p] = (WIDEV)((better & (FN(mask_))here) | (~better & (FN(mask_))s->code[p]));
    }
#else
    PMB_LANES(l, LANES) {
        double size = fabs((*e)[l]);
        if (size > s->bar[l]) {
            s->bar[l] = size * tie;
            s->edge[l] = (*e)[l];
            s->code[l] = code;
        }
    }
#endif
}

PMB_INLINE void FN(start_)(FN(scan_) * s, int cls0, const pmb_stump_results *results,
                           int64_t slot) {
    s->mode = results->mode;
    s->width = results->width;
    s->total = NULL;
    if (results->mode >= PMB_FIND_ABS)
        s->total = results->mode == PMB_FIND_ALL
                       ? results->total + results->at[slot] * results->width + cls0
                       : results->total + results->at[slot];
    CLEAR_LANES(s->bar);
    CLEAR_LANES(s->edge);
    CLEAR_LANES(s->code);
}

PMB_INLINE void FN(finish_)(const FN(scan_) * s, int cls0, double tie,
                            const pmb_stump_results *results, int64_t slot) {
    double edge[LANES] ALIGNED_LANES, at[LANES] ALIGNED_LANES, top = 0;
    if (s->total) return;
    COPY_LANES(edge, s->edge);
    COPY_LANES(at, s->code);
    if (results->mode == PMB_FIND_EACH) {
        for (int l = 0; l < LANES; l++) {
            results->edge[slot * results->width + cls0 + l] = edge[l];
            results->code[slot * results->width + cls0 + l] = (int32_t)at[l];
        }
        return;
    }
    for (int l = 0; l < LANES; l++)
        if (fabs(edge[l]) > top) top = fabs(edge[l]);
    if (!(top > 0)) return;
    int lane = -1;
    for (int l = 0; l < LANES; l++)
        if (fabs(edge[l]) * tie >= top && (lane < 0 || at[l] < at[lane])) lane = l;
    int32_t code = (int32_t)at[lane];
    pmb_offer(results->best + slot, edge[lane], code >> 1, code & 1, cls0 + lane, tie);
}

/* Scan the sums G[bins][LANES] of a feature's bins in order of value. missing: 0, or the last bin holds the missing
 * values, which may (1) or may not (2) be split from all others. */
PMB_INLINE void FN(scan_bins_)(const double *PMB_RESTRICT G, int bins, int missing, int cls0,
                               double tie, const pmb_stump_results *results, int64_t slot) {
    FN(scan_) s;
    FN(lanes_) e, left;
    int values = bins - (missing != 0), cuts = missing == 1 ? values : values - 1;
    FN(start_)(&s, cls0, results, slot);
    CLEAR_LANES(e);
    for (int b = 0; b < bins; b++) DOUBLE_ADD(e, G + b * LANES);
    for (int b = 0; b < cuts; b++) {
        DOUBLE_TAKE2(e, G + b * LANES);
        FN(consider_)(&s, (const FN(lanes_) *)&e, 2.0 * b, tie);
        if (missing && b + 1 < values) {
            COPY_LANES(left, e);
            DOUBLE_TAKE2(left, G + values * LANES);
            FN(consider_)(&s, (const FN(lanes_) *)&left, 2.0 * b + 1, tie);
        }
    }
    FN(finish_)(&s, cls0, tie, results, slot);
}

/* Scan the sums of a slot that are whole numbers of units in rows of `width` columns, of which those from cls0 on are
 * looked at. room: bins x LANES doubles. */
CLONES PMB_STATIC void FN(pmb_scan_cells_)(int is_narrow, const void *cells, int64_t width,
                                           int bins, int missing, double unit, int cls0, double tie,
                                           double *PMB_RESTRICT room,
                                           const pmb_stump_results *results, int64_t slot) {
    int n = width - cls0 < LANES ? (int)(width - cls0) : LANES;
    memset(room, 0, sizeof(double) * LANES * bins);
    for (int64_t b = 0; b < bins; b++)
        for (int64_t l = 0, at = b * width + cls0; l < n; l++)
            room[b * LANES + l] = (is_narrow ? (double)((const int32_t *)cells)[at + l]
                                             : ((const double *)cells)[at + l]) *
                                  unit;
    FN(scan_bins_)(room, bins, missing, cls0, tie, results, slot);
}

/* All features of one tile. A byte may hold several features in mixed radix (slot: one feature of one byte); its
 * histogram is summed down to each of them. Per row and byte one read-modify-write of LANES REALs. */
CLONES PMB_STATIC void FN(pmb_search_tile_)(const uint8_t *codes, int64_t m, const void *A_,
                                            const int32_t *byte_cells, const int32_t *byte_ptr,
                                            const int32_t *slot_stride, const int32_t *slot_bins,
                                            const uint8_t *slot_missing, int cls0, double tie,
                                            void *scratch, const pmb_stump_results *results) {
    const REAL *A = (const REAL *)A_;
    REAL *hist = (REAL *)scratch;
    double *sums = (double *)((char *)scratch + 4 * 256 * LANES * sizeof(double));
    double *bins = sums + 4 * 256 * LANES;
    int bytes = 0;
    while (bytes < 4 && byte_ptr[bytes + 1] > byte_ptr[bytes]) bytes++;
    for (int k = 0; k < bytes; k++)
        memset(sums + (int64_t)k * 256 * LANES, 0, sizeof(double) * LANES * byte_cells[k]);
    for (int64_t start = 0; start < m; start += PMB_FLUSH_ROWS) {
        int64_t rows = m - start < PMB_FLUSH_ROWS ? m - start : PMB_FLUSH_ROWS;
        for (int k = 0; k < bytes; k++)
            memset(hist + (int64_t)k * 256 * LANES, 0, sizeof(REAL) * LANES * byte_cells[k]);
        FN(pmb_fill_tile_)(codes + 4 * start, rows, A + start * LANES, bytes, hist);
        for (int k = 0; k < bytes; k++) {
            const REAL *PMB_RESTRICT from = hist + (int64_t)k * 256 * LANES;
            double *PMB_RESTRICT to = sums + (int64_t)k * 256 * LANES;
            int n = byte_cells[k] * LANES;
            for (int j = 0; j < n; j++) to[j] += from[j];
        }
    }
    for (int k = 0; k < bytes; k++) {
        double *cells = sums + (int64_t)k * 256 * LANES;
        int n_cells = byte_cells[k];
        for (int slot = byte_ptr[k + 1] - 1; slot >= byte_ptr[k]; slot--) {
            int stride = slot_stride[slot], n = slot_bins[slot];
            if (stride == 1) { /* the lowest digit: every higher one has been summed out */
                FN(scan_bins_)(cells, n, slot_missing[slot], cls0, tie, results, slot);
                break;
            }
            memset(bins, 0, sizeof(double) * LANES * n);
            for (int b = 0; b < n; b++)
                for (int c = 0; c < stride; c++)
                    PMB_LANES(l, LANES) bins[b * LANES + l] += cells[(b * stride + c) * LANES + l];
            FN(scan_bins_)(bins, n, slot_missing[slot], cls0, tie, results, slot);
            for (int c = stride; c < n_cells; c++)
                PMB_LANES(l, LANES) cells[(c % stride) * LANES + l] += cells[c * LANES + l];
            n_cells = stride;
        }
    }
}

/* A skewed feature: only the n rows outside its most frequent bin are listed, that bin is the total minus the rest. */
CLONES PMB_STATIC void FN(pmb_search_list_)(const int32_t *PMB_RESTRICT rows,
                                            const uint8_t *PMB_RESTRICT codes, int64_t n,
                                            const void *A_, const double *totals, int mode,
                                            int bins, int missing, int cls0, double tie,
                                            void *scratch, const pmb_stump_results *results,
                                            int64_t slot) {
    const REAL *A = (const REAL *)A_;
    REAL *hist = (REAL *)scratch;
    double *sums = (double *)((char *)scratch + 4 * 256 * LANES * sizeof(double));
    memset(sums, 0, sizeof(double) * LANES * bins);
    for (int64_t start = 0; start < n; start += PMB_FLUSH_ROWS) {
        int64_t stop = start + PMB_FLUSH_ROWS < n ? start + PMB_FLUSH_ROWS : n;
        memset(hist, 0, sizeof(REAL) * LANES * bins);
        FN(pmb_fill_list_)(rows + start, codes + start, stop - start, A, hist);
        for (int j = 0; j < bins * LANES; j++) sums[j] += hist[j];
    }
    double rest[LANES] = {0};
    for (int b = 0; b < bins; b++)
        PMB_LANES(l, LANES) rest[l] += sums[b * LANES + l];
    PMB_LANES(l, LANES) sums[mode * LANES + l] = totals[l] - rest[l];
    FN(scan_bins_)(sums, bins, missing, cls0, tie, results, slot);
}

#define ROW_OF(entry) ((entry) < 0 ? ~(entry) : (entry))
/* Offer the split after the run of equal values that just ended; last: no value comes after it. */
#define CLOSE_RUN(last)                                                                            \
    do {                                                                                           \
        if (!(last) || split_missing) {                                                            \
            FN(consider_)(&s, (const FN(lanes_) *)&e, 2.0 * group, tie);                           \
            if (missing && !(last)) {                                                              \
                COPY_LANES(left, e);                                                               \
                DOUBLE_TAKE2(left, of_missing);                                                    \
                FN(consider_)(&s, (const FN(lanes_) *)&left, 2.0 * group + 1, tie);                \
            }                                                                                      \
        }                                                                                          \
        group++;                                                                                   \
    } while (0)

/* Exact search: the edges begin as totals, and fall by 2 A[i,r] when the threshold passes row i. rows: by value, missing
 * values last; the last row of equal values is a complement (< 0). default_at >= 0: rows not listed share a value (0 in
 * sparse columns) that comes after so many entries. split_missing: missing values may be split from all others. */
CLONES PMB_STATIC void FN(pmb_search_sorted_)(const int32_t *PMB_RESTRICT rows, int64_t n,
                                              int64_t n_missing, int64_t default_at,
                                              int split_missing, const void *A_,
                                              const double *totals, int cls0, double tie,
                                              const pmb_stump_results *results, int64_t slot) {
    const REAL *A = (const REAL *)A_;
    FN(scan_) s;
    FN(lanes_) e, of_missing, rest, left;
    int64_t values = n - n_missing, ahead = 8;
    double whole[LANES] ALIGNED_LANES;
    memcpy(whole, totals, sizeof whole);
    FN(start_)(&s, cls0, results, slot);
    CLEAR_LANES(of_missing);
    CLEAR_LANES(rest);
    COPY_LANES(e, whole);
    for (int64_t j = values; j < n; j++) WIDE_ADD(of_missing, A + (int64_t)rows[j] * LANES);
    if (default_at >= 0) { /* the unlisted rows are the total minus the listed ones */
        CLEAR_LANES(left);
        for (int64_t j = 0; j < values; j++) {
            if (j + ahead < values) PMB_PREFETCH(A + (int64_t)ROW_OF(rows[j + ahead]) * LANES);
            WIDE_ADD(left, A + (int64_t)ROW_OF(rows[j]) * LANES);
        }
        DOUBLE_ADD(left, of_missing);
        COPY_LANES(rest, whole);
        for (int p = 0; p < (int)(sizeof rest / sizeof rest[0]); p++) rest[p] -= left[p];
    }
    int missing = n_missing > 0;
    int32_t group = 0;
    for (int64_t j = 0; j <= values; j++) {
        if (j == default_at) {
            DOUBLE_TAKE2(e, rest);
            CLOSE_RUN(j == values);
        }
        if (j == values) break;
        if (j + ahead < values) PMB_PREFETCH(A + (int64_t)ROW_OF(rows[j + ahead]) * LANES);
        WIDE_TAKE2(e, A + (int64_t)ROW_OF(rows[j]) * LANES);
        if (rows[j] < 0) CLOSE_RUN(j + 1 == values && default_at != values);
    }
#undef CLOSE_RUN
#undef ROW_OF
    FN(finish_)(&s, cls0, tie, results, slot);
}

#undef FN
#undef WIDE
#undef PARTS
#undef ROW
#undef WIDEV
#undef ROW_ADD
#undef WIDE_TAKE2
#undef WIDE_ADD
#undef DOUBLE_TAKE2
#undef DOUBLE_ADD
#undef COPY_LANES
#undef CLEAR_LANES
#endif
