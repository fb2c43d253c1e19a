/* The search for decision stumps. Includes stumps_body.h for float and double weights, 4, 8 and 16 lanes, and vectors of 64 and
 * 32 bytes. */
#ifndef PYMCBOOST_STUMPS_H
#define PYMCBOOST_STUMPS_H

#include "widths.h"

/* Rows after which a float histogram is flushed into its double counterpart (keeps sums to 3e-7). */
#define PMB_FLUSH_ROWS 16384
/* Sums over rows are formed in blocks of this many rows, added in order. */
#define PMB_BLOCK_ROWS 4096

/* Best split so far of one slot, a feature in a byte of codes. */
typedef struct {
    double edge; /* sum right minus sum left of the gradients of class cls; 0: there is none */
    int32_t pos; /* number of the threshold */
    int32_t cls;
    int32_t nan_left;
} pmb_best_stump;

/* A candidate replaces the best only if it is better by more than the tie tolerance, or ties and comes first: ties within a
 * slot are decided here. */
PMB_INLINE void pmb_offer(pmb_best_stump *best, double edge, int32_t pos, int32_t nan_left,
                          int32_t cls, double tie) {
    double now = fabs(edge), old = fabs(best->edge);
    int first = pos < best->pos ||
                (pos == best->pos &&
                 (nan_left < best->nan_left || (nan_left == best->nan_left && cls < best->cls)));
    if (now > old * tie || (first && now * tie >= old && now > 0)) {
        best->edge = edge;
        best->pos = pos;
        best->nan_left = nan_left;
        best->cls = cls;
    }
}

/* What becomes of the edges of every split. The code of a split is 2 pos + nan_left. */
enum { PMB_FIND_BEST, PMB_FIND_EACH, PMB_FIND_ABS, PMB_FIND_SQUARES, PMB_FIND_ALL };

/* Where results go, of one mode. BEST: the best of all classes of every slot; EACH: that of each class. For every split: ABS
 * the sum of the classes' |edge|, SQUARES that of their squares, ALL every edge. */
typedef struct {
    int mode;
    pmb_best_stump *best; /* BEST: (slots,) */
    double *edge;         /* EACH: (slots, width) */
    int32_t *code;        /* EACH: (slots, width) */
    double *total;        /* ABS, SQUARES: (splits,), zeros; ALL: (splits, width) */
    const int64_t *at;    /* (slots,) first split of each slot in total */
    int64_t width;        /* classes, padded */
} pmb_stump_results;

/* h = -1 on the left of a split of a slot of a tiled byte, +1 on the right. Its bin is code / stride % bins; missing: the
 * bin that goes left besides those up to pos, or -1. Division by multiplication: exact for bytes and divisors up to 256. */
PMB_CLONES PMB_STATIC void pmb_side_tile(const uint8_t *PMB_RESTRICT tile, int byte, int64_t m,
                                         int stride, int bins, int pos, int missing,
                                         signed char *PMB_RESTRICT h) {
    uint32_t by_stride = (65536 + (uint32_t)stride - 1) / (uint32_t)stride,
             by_bins = (65536 + (uint32_t)bins - 1) / (uint32_t)bins;
    for (int64_t i = 0; i < m; i++) {
        uint32_t q = tile[4 * i + byte] * by_stride >> 16,
                 bin = q - (q * by_bins >> 16) * (uint32_t)bins;
        h[i] = (int32_t)bin <= pos || (int32_t)bin == missing ? -1 : 1;
    }
}

#define PMB_BODY "stumps_body.h"
#define MOST_WIDE 8
#define WTAG w
#define CLONES PMB_ONLY_512
#include "variants.h"
#undef MOST_WIDE
#undef WTAG
#undef CLONES
#define PMB_BODY "stumps_body.h"
#define MOST_WIDE 4
#define WTAG n
#define CLONES PMB_BELOW_512
#include "variants.h"
#undef MOST_WIDE
#undef WTAG
#undef CLONES

/* The instance for the registers at hand. */
#define PMB_BY_WIDTH(name, ...)                                                                    \
    do {                                                                                           \
        if (PMB_RUNS_512)                                                                          \
            PMB_DISPATCH(name##w, __VA_ARGS__);                                                    \
        else                                                                                       \
            PMB_DISPATCH(name##n, __VA_ARGS__);                                                    \
    } while (0)

/* Bytes of scratch one thread needs for any of the searches. */
PMB_INLINE int64_t pmb_stump_scratch_bytes(int lanes) {
    return (int64_t)lanes * 256 * (4 * 8 + 4 * 8 + 8 + 8) + 64;
}

/* The functions of stumps_body.h for the type and lanes at hand: their first two arguments. */
#define pmb_totals(is_double, lanes, ...) PMB_BY_WIDTH(pmb_totals_, is_double, lanes, __VA_ARGS__)
#define pmb_sizes(is_double, lanes, ...) PMB_BY_WIDTH(pmb_sizes_, is_double, lanes, __VA_ARGS__)
#define pmb_search_tile(is_double, lanes, ...)                                                     \
    PMB_BY_WIDTH(pmb_search_tile_, is_double, lanes, __VA_ARGS__)
#define pmb_search_list(is_double, lanes, ...)                                                     \
    PMB_BY_WIDTH(pmb_search_list_, is_double, lanes, __VA_ARGS__)
#define pmb_search_sorted(is_double, lanes, ...)                                                   \
    PMB_BY_WIDTH(pmb_search_sorted_, is_double, lanes, __VA_ARGS__)
#define pmb_scan_cells(is_narrow, lanes, ...)                                                      \
    PMB_BY_WIDTH(pmb_scan_cells_, 1, lanes, is_narrow, __VA_ARGS__)

#endif
