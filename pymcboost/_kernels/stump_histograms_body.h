/* Template body: define REAL (int32_t or double, both hold whole numbers), RTAG (i or d) and LANES before each inclusion. */
#ifdef REAL
#define FN(name) PMB_CAT2(name, RTAG, LANES)
#if PMB_VECTORS
typedef REAL FN(cell_row_) __attribute__((vector_size(LANES * sizeof(REAL)), may_alias));
#define ROW_ADD(q, a) (*(FN(cell_row_) *)(q) += *(const FN(cell_row_) *)(a))
#else
#define ROW_ADD(q, a)                                                                              \
    PMB_LANES(l_, LANES) (q)[l_] += (a)[l_]
#endif

#define CLONES PMB_CLONES
#include "stumps_fill_body.h"
#undef CLONES

/* Sums of the columns of G (m, LANES). */
PMB_CLONES PMB_STATIC void FN(pmb_total_cells_)(const void *G_, int64_t m, void *totals_) {
    const REAL *G = (const REAL *)G_;
    REAL *totals = (REAL *)totals_;
    memset(totals, 0, sizeof(REAL) * LANES);
    for (int64_t i = 0; i < m; i++)
        PMB_LANES(l, LANES) totals[l] += G[i * LANES + l];
}

/* Histograms of the slots of one tile: those of slot s from row at[s] of `out` on, whose rows have `width` columns, in
 * the columns from cls0 on. A byte that holds several slots is summed down to each. */
PMB_CLONES PMB_STATIC void FN(pmb_tile_cells_)(const uint8_t *codes, int64_t m, const void *G_,
                                               const int32_t *byte_cells, const int32_t *byte_ptr,
                                               const int32_t *slot_stride, const int32_t *slot_bins,
                                               const int64_t *at, int64_t width, int cls0,
                                               void *scratch, void *out_) {
    REAL *hist = (REAL *)scratch, *out = (REAL *)out_;
    int bytes = 0, n = width - cls0 < LANES ? (int)(width - cls0) : LANES;
    while (bytes < 4 && byte_ptr[bytes + 1] > byte_ptr[bytes]) bytes++;
    for (int k = 0; k < bytes; k++)
        memset(hist + (int64_t)k * 256 * LANES, 0, sizeof(REAL) * LANES * byte_cells[k]);
    FN(pmb_fill_tile_)(codes, m, (const REAL *)G_, bytes, hist);
    for (int k = 0; k < bytes; k++)
        for (int slot = byte_ptr[k]; slot < byte_ptr[k + 1]; slot++) {
            REAL *to = out + at[slot] * width + cls0;
            for (int64_t b = 0; b < slot_bins[slot]; b++)
                memset(to + b * width, 0, sizeof(REAL) * n);
            for (int c = 0; c < byte_cells[k]; c++) {
                const REAL *from = hist + ((int64_t)k * 256 + c) * LANES;
                REAL *row = to + (int64_t)(c / slot_stride[slot] % slot_bins[slot]) * width;
                for (int l = 0; l < n; l++) row[l] += from[l];
            }
        }
}

/* Histogram of a skewed feature, whose most frequent bin is the totals of G's columns less its n listed rows; `out` as
 * above, from the first row of the slot on. */
PMB_CLONES PMB_STATIC void FN(pmb_list_cells_)(const int32_t *PMB_RESTRICT rows,
                                               const uint8_t *PMB_RESTRICT codes, int64_t m,
                                               const void *G_, const void *totals, int mode,
                                               int bins, int64_t width, int cls0, void *scratch,
                                               void *out_) {
    REAL *hist = (REAL *)scratch, *rest = hist + (int64_t)mode * LANES, *out = (REAL *)out_ + cls0;
    int n = width - cls0 < LANES ? (int)(width - cls0) : LANES;
    REAL sum[LANES] = {0};
    memset(hist, 0, sizeof(REAL) * LANES * bins);
    FN(pmb_fill_list_)(rows, codes, m, (const REAL *)G_, hist);
    for (int b = 0; b < bins; b++)
        PMB_LANES(l, LANES) sum[l] += hist[b * LANES + l];
    PMB_LANES(l, LANES) rest[l] = ((const REAL *)totals)[l] - sum[l];
    for (int b = 0; b < bins; b++)
        memcpy(out + (int64_t)b * width, hist + b * LANES, sizeof(REAL) * n);
}

#undef FN
#undef ROW_ADD
#endif
