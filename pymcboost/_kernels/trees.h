/* Best-first growing of binary trees on binned columns, in exact integer arithmetic.
 *
 * Problem: given g_i and h_i > 0 of the m rows, split nodes so that G_L^2/H_L + G_R^2/H_R - G_T^2/H_T is largest (Li,
 * Robust LogitBoost, eqs. 7 and 8: h are weights or counts), or |G_L| + |G_R| - |G_T| (edges of trees with leaves +-1).
 *
 * g and h are rounded to integers in units of (sum of |g|) / 2^31 or finer, so sums are exact: no order of summation, no
 * subtraction of one histogram from another and no number of threads can change a tree, and a side is empty if and only
 * if its h is 0.
 */
#ifndef PYMCBOOST_TREES_H
#define PYMCBOOST_TREES_H

#include "lanes.h"
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define PMB_AHEAD 24       /* rows between the prefetched row and the current one */
#define PMB_COMPACTED 4096 /* rows of a node that are listed together where a tile skips rows */
#define PMB_COUNT_BITS 24  /* PLANES 2: bits of the weight count below h */
#define PMB_COUNT_MASK ((1 << PMB_COUNT_BITS) - 1)
#define PMB_RESOLVED 1024  /* units of h per row from which integer sums are as good as the numbers behind them */
#define PMB_SHARED_WORK 200000 /* row-tile pairs below which one node is not worth several threads */

typedef struct {
    int64_t m;
    int32_t n_tiles, n_lanes, n_features, code_bytes;
    const void *codes;          /* (n_lanes, m) */
    const void *tiles;          /* (n_tiles, m, 16) */
    const int32_t *tile_lanes;  /* lanes in use: the first ones of each tile's 16 */
    const int32_t *tile_rows;   /* codes in use in each tile, the row of missing values included */
    const int32_t *tile_missing; /* 1: the last row of the histogram holds the missing values of the plain lanes */
    const int32_t *tile_skip;   /* 1: rows with every lane in its mode are left out, and make up the rest of the node */
    const int32_t *tile_mode;   /* (n_tiles, 16) */
    const uint8_t *busy;        /* (bytes, m): bit t of a row's bytes says that tile t counts it; NULL: no such tile */
    const int64_t *tile_cell;   /* (n_tiles + 2,) first cell of each tile, of the sparse cells, and the number of all */
    const int32_t *column, *lane, *cell0, *n_bins, *has_missing, *mode; /* by feature */
    const int32_t *lane_ptr, *lane_feature;                             /* features of each lane, then the sparse ones */
    const int64_t *row_ptr;     /* sparse entries of each row, NULL if there are none */
    const int32_t *row_cell;
} pmb_tree_data;

typedef struct {
    int32_t max_leaves, max_depth; /* max_depth 0: no bound */
    int32_t edge;                  /* 1: |G_L| + |G_R|; 0: Newton gain */
    int32_t planes, pool, threads;
    int64_t min_h;                 /* least h (planes 1) or n (planes 2) on either side, at least 1 */
    double min_share;              /* nodes are split only above this share of the root's h */
    const uint8_t *active;         /* by feature; NULL: all */
} pmb_grow_options;

/* g, h and n of a set of rows */
typedef struct {
    int64_t g, h, n;
} pmb_sums;

typedef struct {
    double score; /* what the scan compares; < 0: no split */
    int32_t feature, pos, nan_left;
    pmb_sums left;
} pmb_split;

typedef struct {
    int64_t start, n;
    pmb_sums sums;
    pmb_split best;
    double gain;
    int32_t depth, slot, left, right; /* children, or left = -1 */
} pmb_node;

/* One thread's memory. */
typedef struct {
    int64_t *gh, *gathered, *hist; /* `gathered` is scratch while rows are parted */
    int32_t *rows, *free_slots;
    pmb_node *nodes;
    pmb_split *found;
    uint8_t *goes_left; /* 65536 */
    int32_t *order;     /* 8 * max_leaves */
    uint8_t *busy;      /* of the gathered rows, (bytes, m) */
    void *memory;       /* of hist, which is 64-byte aligned */
} pmb_grow_work;

/* gap: words between the two planes of a cell, 16 in tiles, 1 in the sparse cells. */
PMB_INLINE pmb_sums pmb_cell(const int64_t *cell, int planes, int gap) {
    pmb_sums s;
    if (planes == 1) {
        s.h = s.n = (int64_t)(cell[0] & 0xFFFFFFFF);
        s.g = (cell[0] - s.h) / ((int64_t)1 << 32);
    } else {
        s.g = cell[0];
        s.h = cell[gap] >> PMB_COUNT_BITS;
        s.n = cell[gap] & PMB_COUNT_MASK;
    }
    return s;
}

PMB_INLINE void pmb_sums_add(pmb_sums *to, pmb_sums from, int sign) {
    to->g += sign * from.g;
    to->h += sign * from.h;
    to->n += sign * from.n;
}

/* (G_L H_R - G_R H_L)^2 / (H_L H_R): H_T times the Newton gain, without its cancellation. */
PMB_INLINE float pmb_score_1(pmb_sums l, pmb_sums r, int edge) {
    float gl = (float)(int32_t)l.g, gr = (float)(int32_t)r.g, hl = (float)(int32_t)l.h, hr = (float)(int32_t)r.h, d;
    if (edge) return fabsf(gl) + fabsf(gr);
    d = gl * hr - gr * hl;
    return d * d / (hl * hr);
}

PMB_INLINE double pmb_score_2(pmb_sums l, pmb_sums r, int edge) {
    double gl = (double)l.g, gr = (double)r.g, hl = (double)l.h, hr = (double)r.h, d;
    if (edge) return fabs(gl) + fabs(gr);
    d = gl * hr - gr * hl;
    return d * d / (hl * hr);
}

PMB_INLINE double pmb_score(pmb_sums l, pmb_sums r, int planes, int edge) {
    return planes == 1 ? (double)pmb_score_1(l, r, edge) : pmb_score_2(l, r, edge);
}

/* Better, or equal and first: lower column, then lower threshold, then missing values to the right. */
PMB_INLINE int pmb_split_before(const pmb_tree_data *d, const pmb_split *a, const pmb_split *b) {
    if (a->score != b->score) return a->score > b->score;
    if (a->score < 0) return 0;
    if (a->feature != b->feature) return d->column[a->feature] < d->column[b->feature];
    return 2 * a->pos + a->nan_left < 2 * b->pos + b->nan_left;
}

typedef struct {
    double score[16];
    int32_t code[16]; /* 2 * pos + nan_left */
} pmb_lane_best;

#if PMB_VECTORS
typedef int64_t pmb_v8l __attribute__((vector_size(64), may_alias));
typedef double pmb_v8d __attribute__((vector_size(64), may_alias));
typedef int32_t pmb_v16i __attribute__((vector_size(64), may_alias));
typedef float pmb_v16f __attribute__((vector_size(64), may_alias));

/* gcc takes vector comparisons apart; signs do instead, as bits of positive floats are ordered like integers. A score
 * is NaN only where a side is empty, which `bad_` covers. */
#define PMB_CONSIDER_1(a0, a1, code_)                                                                        \
    do {                                                                                                     \
        pmb_v16i x_ = (pmb_v16i)(a0), y_ = (pmb_v16i)(a1);                                                   \
        pmb_v16i gl_ = __builtin_shufflevector(x_, y_, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31); \
        pmb_v16i hl_ = __builtin_shufflevector(x_, y_, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30); \
        pmb_v16i gr_ = gt - gl_, hr_ = ht - hl_;                                                             \
        pmb_v16f fgl_ = __builtin_convertvector(gl_, pmb_v16f), fgr_ = __builtin_convertvector(gr_, pmb_v16f); \
        pmb_v16f fhl_ = __builtin_convertvector(hl_, pmb_v16f), fhr_ = __builtin_convertvector(hr_, pmb_v16f); \
        pmb_v16f s_;                                                                                         \
        if (edge) {                                                                                          \
            s_ = (pmb_v16f)((pmb_v16i)fgl_ & 0x7fffffff) + (pmb_v16f)((pmb_v16i)fgr_ & 0x7fffffff);          \
        } else {                                                                                             \
            pmb_v16f d_ = fgl_ * fhr_ - fgr_ * fhl_;                                                         \
            s_ = d_ * d_ / (fhl_ * fhr_);                                                                    \
        }                                                                                                    \
        pmb_v16i bad_ = ((hl_ - least) | (hr_ - least)) >> 31, now_ = (pmb_v16i)s_ | bad_;                   \
        pmb_v16i better_ = (best - now_) >> 31, here_ = (pmb_v16i){0} + (code_);                             \
        best = (better_ & now_) | (~better_ & best);                                                         \
        at = (better_ & here_) | (~better_ & at);                                                            \
    } while (0)

/* Best threshold of each of 16 lanes. rows: value rows; missing: 1 if the next row holds the missing values. */
PMB_CLONES PMB_STATIC void pmb_scan_1(const int64_t *hist, int rows, int missing, pmb_sums total, int64_t min_h,
                                      int edge, pmb_lane_best *out) {
    pmb_v8l a0 = {0}, a1 = {0};
    pmb_v16i best = (pmb_v16i){0} - 1, at = {0}, gt = at + (int32_t)total.g, ht = at + (int32_t)total.h, least = at + (int32_t)min_h;
    const pmb_v8l *row = (const pmb_v8l *)hist, *gone = row + 2 * rows;
    for (int b = 0; b < rows; b++) {
        a0 += row[2 * b];
        a1 += row[2 * b + 1];
        PMB_CONSIDER_1(a0, a1, 2 * b);
        if (missing) PMB_CONSIDER_1(a0 + gone[0], a1 + gone[1], 2 * b + 1);
    }
    for (int k = 0; k < 16; k++) {
        out->score[k] = best[k] < 0 ? -1 : (double)((pmb_v16f)best)[k];
        out->code[k] = at[k];
    }
}

#define PMB_CONSIDER_2(ag, ah, code_)                                                                        \
    do {                                                                                                     \
        pmb_v8l gl_ = ag, hl_ = (ah) >> PMB_COUNT_BITS, nl_ = (ah) & PMB_COUNT_MASK;                         \
        pmb_v8l gr_ = gt - gl_, hr_ = ht - hl_, nr_ = nt - nl_;                                              \
        pmb_v8d fgl_ = __builtin_convertvector(gl_, pmb_v8d), fgr_ = __builtin_convertvector(gr_, pmb_v8d);  \
        pmb_v8d fhl_ = __builtin_convertvector(hl_, pmb_v8d), fhr_ = __builtin_convertvector(hr_, pmb_v8d);  \
        pmb_v8d s_;                                                                                          \
        if (edge) {                                                                                          \
            s_ = (pmb_v8d)((pmb_v8l)fgl_ & INT64_MAX) + (pmb_v8d)((pmb_v8l)fgr_ & INT64_MAX);                \
        } else {                                                                                             \
            pmb_v8d d_ = fgl_ * fhr_ - fgr_ * fhl_;                                                          \
            s_ = d_ * d_ / (fhl_ * fhr_);                                                                    \
        }                                                                                                    \
        pmb_v8l bad_ = ((nl_ - least) | (nr_ - least)) >> 63, now_ = (pmb_v8l)s_ | bad_;                     \
        pmb_v8l better_ = (best - now_) >> 63, here_ = (pmb_v8l){0} + (code_);                               \
        best = (better_ & now_) | (~better_ & best);                                                         \
        at = (better_ & here_) | (~better_ & at);                                                            \
    } while (0)

PMB_CLONES PMB_STATIC void pmb_scan_2(const int64_t *hist, int rows, int missing, pmb_sums total, int64_t min_n,
                                      int edge, pmb_lane_best *out) {
    for (int half = 0; half < 2; half++) {
        pmb_v8l zero = {0}, ag = zero, ah = zero, at = zero;
        pmb_v8l gt = zero + total.g, ht = zero + total.h, nt = zero + total.n, least = zero + min_n;
        pmb_v8l best = zero - 1;
        const pmb_v8l *row = (const pmb_v8l *)hist + half, *gone = row + 4 * (int64_t)rows;
        for (int64_t b = 0; b < rows; b++) {
            ag += row[4 * b];
            ah += row[4 * b + 2];
            PMB_CONSIDER_2(ag, ah, 2 * b);
            if (missing) PMB_CONSIDER_2(ag + gone[0], ah + gone[2], 2 * b + 1);
        }
        for (int k = 0; k < 8; k++) {
            out->score[8 * half + k] = best[k] < 0 ? -1 : ((pmb_v8d)best)[k];
            out->code[8 * half + k] = (int32_t)at[k];
        }
    }
}

PMB_INLINE void pmb_scan_lanes(const int64_t *hist, int rows, int missing, pmb_sums total,
                               const pmb_grow_options *o, pmb_lane_best *out) {
    if (o->planes == 1) pmb_scan_1(hist, rows, missing, total, o->min_h, o->edge, out);
    else pmb_scan_2(hist, rows, missing, total, o->min_h, o->edge, out);
}
#else
PMB_INLINE void pmb_scan_lanes(const int64_t *hist, int rows, int missing, pmb_sums total,
                               const pmb_grow_options *o, pmb_lane_best *out) {
    for (int k = 0; k < 16; k++) {
        pmb_sums left = {0, 0, 0}, gone = {0, 0, 0};
        if (missing) gone = pmb_cell(hist + (int64_t)rows * 16 * o->planes + k, o->planes, 16);
        out->score[k] = -1;
        for (int b = 0; b < rows; b++) {
            pmb_sums_add(&left, pmb_cell(hist + (int64_t)b * 16 * o->planes + k, o->planes, 16), 1);
            for (int side = 0; side <= missing; side++) {
                pmb_sums l = left, r = total;
                if (side) pmb_sums_add(&l, gone, 1);
                pmb_sums_add(&r, l, -1);
                if (l.n < o->min_h || r.n < o->min_h) continue;
                double s = pmb_score(l, r, o->planes, o->edge);
                if (s > out->score[k]) {
                    out->score[k] = s;
                    out->code[k] = 2 * b + side;
                }
            }
        }
    }
}
#endif

/* A feature whose mode bin has no cell of its own, its cells `stride` words apart. Returns whether *best changed. */
PMB_STATIC int pmb_scan_feature(const pmb_tree_data *d, int f, const int64_t *cells, int64_t stride, int gap,
                                 pmb_sums total, const pmb_grow_options *o, pmb_split *best) {
    int bins = d->n_bins[f], missing = d->has_missing[f], mode = d->mode[f], found = 0;
    pmb_sums rest = total, left = {0, 0, 0}, gone = {0, 0, 0};
    for (int b = 0; b < bins + missing; b++)
        if (b != mode) pmb_sums_add(&rest, pmb_cell(cells + b * stride, o->planes, gap), -1);
    if (missing) gone = mode == bins ? rest : pmb_cell(cells + bins * stride, o->planes, gap);
    for (int b = 0; b < bins - !missing; b++) {
        pmb_sums_add(&left, b == mode ? rest : pmb_cell(cells + b * stride, o->planes, gap), 1);
        for (int side = 0; side <= missing; side++) {
            pmb_split here = {0, f, b, side, left};
            pmb_sums right = total;
            if (side) pmb_sums_add(&here.left, gone, 1);
            pmb_sums_add(&right, here.left, -1);
            if (here.left.n < o->min_h || right.n < o->min_h) continue;
            here.score = pmb_score(here.left, right, o->planes, o->edge);
            if (pmb_split_before(d, &here, best)) {
                *best = here;
                found = 1;
            }
        }
    }
    if (found) { /* the middle of the empty bins */
        int next = best->pos + 1;
        while (next < bins && (next == mode ? rest : pmb_cell(cells + next * stride, o->planes, gap)).h == 0) next++;
        if (next < bins) best->pos = (best->pos + next - 1) / 2;
    }
    return found;
}

#define CODE uint8_t
#define CTAG 8
#define PLANES 1
#include "trees_body.h"
#define CODE uint8_t
#define CTAG 8
#define PLANES 2
#include "trees_body.h"
#define CODE uint16_t
#define CTAG 16
#define PLANES 2
#include "trees_body.h"

/* Positions, from `start` on, of those of n rows that count in a tile. */
PMB_CLONES PMB_STATIC int64_t pmb_compact(const uint8_t *PMB_RESTRICT busy, int bit, int64_t start, int64_t n,
                                          int32_t *PMB_RESTRICT at) {
    int64_t count = 0;
    for (int64_t i = start; i < start + n; i++) {
        at[count] = (int32_t)i;
        count += busy[i] >> bit & 1;
    }
    for (int j = 0; j < PMB_AHEAD; j++) at[count + j] = 0;
    return count;
}

/* Histogram of one tile (or of the sparse cells, tile == n_tiles) over the n rows of a node with these sums; rows NULL:
 * the first n. busy: the bits of these rows, byte by byte, `stride` apart. */
PMB_INLINE void pmb_fill_part(const pmb_tree_data *d, int planes, int tile, const int32_t *rows, int64_t n,
                              const int64_t *gh, pmb_sums sums, const uint8_t *busy, int64_t stride,
                              int64_t *hist) {
    memset(hist, 0, sizeof(int64_t) * (size_t)planes * (size_t)(d->tile_cell[tile + 1] - d->tile_cell[tile]));
    if (tile == d->n_tiles) {
        for (int64_t i = 0; i < n; i++) {
            int64_t row = rows ? rows[i] : i;
            for (int64_t e = d->row_ptr[row]; e < d->row_ptr[row + 1]; e++) {
                int64_t *cell = hist + (int64_t)planes * d->row_cell[e];
                cell[0] += gh[planes * i];
                if (planes == 2) cell[1] += gh[2 * i + 1];
            }
        }
        return;
    }
    int lanes = d->tile_lanes[tile];
    int64_t first = (int64_t)tile * d->m * 16, done[2] = {0, 0}, part[2];
    const uint16_t *tile16 = (const uint16_t *)d->tiles + first;
    const uint8_t *tile8 = (const uint8_t *)d->tiles + first;
    if (!d->tile_skip[tile]) {
        if (d->code_bytes == 2) pmb_fill_16_2(tile16, rows, NULL, n, lanes, gh, hist, part);
        else if (planes == 2) pmb_fill_8_2(tile8, rows, NULL, n, lanes, gh, hist, part);
        else pmb_fill_8_1(tile8, rows, NULL, n, lanes, gh, hist, part);
        return;
    }
    for (int64_t start = 0; start < n; start += PMB_COMPACTED) {
        int32_t at[PMB_COMPACTED + PMB_AHEAD];
        int64_t count = pmb_compact(busy + tile / 8 * stride, tile % 8, start,
                                    n - start < PMB_COMPACTED ? n - start : PMB_COMPACTED, at);
        if (d->code_bytes == 2) pmb_fill_16_2(tile16, rows, at, count, lanes, gh, hist, part);
        else if (planes == 2) pmb_fill_8_2(tile8, rows, at, count, lanes, gh, hist, part);
        else pmb_fill_8_1(tile8, rows, at, count, lanes, gh, hist, part);
        done[0] += part[0];
        done[1] += part[1];
    }
    for (int k = 0; k < lanes; k++) {
        int64_t *cell = hist + (int64_t)d->tile_mode[16 * tile + k] * 16 * planes + k;
        if (planes == 1) {
            cell[0] += (int64_t)((uint64_t)sums.g << 32) + sums.h - done[0];
        } else {
            cell[0] += sums.g - done[0];
            cell[16] += (sums.h << PMB_COUNT_BITS) + sums.n - done[1];
        }
    }
}

/* Sums of the rows left of a split of a plain lane. */
PMB_INLINE pmb_sums pmb_prefix(const int64_t *cells, int planes, int pos, int nan_left, int rows) {
    pmb_sums s = {0, 0, 0};
    for (int b = 0; b <= pos; b++) pmb_sums_add(&s, pmb_cell(cells + (int64_t)b * 16 * planes, planes, 16), 1);
    if (nan_left) pmb_sums_add(&s, pmb_cell(cells + (int64_t)rows * 16 * planes, planes, 16), 1);
    return s;
}

/* Best split on the features of one tile, or on the sparse ones. */
PMB_STATIC void pmb_scan_part(const pmb_tree_data *d, const pmb_grow_options *o, int tile, int64_t *hist,
                              pmb_sums total, pmb_split *best) {
    best->score = -1;
    if (tile == d->n_tiles) {
        for (int j = d->lane_ptr[d->n_lanes]; j < d->n_features; j++) {
            int f = d->lane_feature[j];
            if (o->active && !o->active[f]) continue;
            pmb_scan_feature(d, f, hist + (int64_t)d->cell0[f] * o->planes, o->planes, 1, total, o, best);
        }
        return;
    }
    pmb_lane_best by_lane;
    int missing = d->tile_missing[tile], rows = d->tile_rows[tile] - missing, won = -1;
    pmb_scan_lanes(hist, rows, missing, total, o, &by_lane);
    for (int k = 0; k < d->tile_lanes[tile]; k++) {
        const int32_t *lane = d->lane_ptr + 16 * tile + k;
        for (int j = lane[0]; j < lane[1]; j++) {
            int f = d->lane_feature[j];
            if (o->active && !o->active[f]) continue;
            if (d->mode[f] >= 0) {
                const int64_t *cells = hist + (int64_t)d->cell0[f] * 16 * o->planes + k;
                if (pmb_scan_feature(d, f, cells, 16 * o->planes, 16, total, o, best)) won = -1;
            } else {
                pmb_split here = {by_lane.score[k], f, by_lane.code[k] >> 1, by_lane.code[k] & 1, {0, 0, 0}};
                if (pmb_split_before(d, &here, best)) {
                    *best = here;
                    won = k;
                }
            }
        }
    }
    if (won >= 0) {
        int next = best->pos + 1;
        best->left = pmb_prefix(hist + won, o->planes, best->pos, best->nan_left, rows);
        while (next < rows && pmb_cell(hist + won + (int64_t)next * 16 * o->planes, o->planes, 16).h == 0) next++;
        if (next < rows) best->pos = (best->pos + next - 1) / 2;
    }
}
/* Which way the codes of a dense lane go. Codes of a bundle that belong to other features mean this one's mode bin. */
PMB_STATIC void pmb_directions(const pmb_tree_data *d, const pmb_split *s, uint8_t *goes_left) {
    int f = s->feature, bins = d->n_bins[f], all = bins + d->has_missing[f], cell0 = d->cell0[f];
    if (d->mode[f] >= 0)
        memset(goes_left, d->mode[f] == bins ? s->nan_left : d->mode[f] <= s->pos, (size_t)1 << (8 * d->code_bytes));
    for (int b = 0; b < all; b++) goes_left[cell0 + b] = (uint8_t)(b == bins ? s->nan_left : b <= s->pos);
}

PMB_INLINE int pmb_sparse_left(const pmb_tree_data *d, const pmb_split *s, int64_t row) {
    int f = s->feature, bins = d->n_bins[f], bin = d->mode[f];
    int64_t low = d->row_ptr[row], high = d->row_ptr[row + 1], stop = high;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (d->row_cell[mid] < d->cell0[f]) low = mid + 1;
        else high = mid;
    }
    if (low < stop && d->row_cell[low] < d->cell0[f] + bins + d->has_missing[f]) bin = d->row_cell[low] - d->cell0[f];
    return bin == bins ? s->nan_left : bin <= s->pos;
}

PMB_STATIC int64_t pmb_partition(const pmb_tree_data *d, const pmb_split *s, int32_t *rows, int64_t n,
                                 pmb_grow_work *w) {
    int lane = d->lane[s->feature];
    int32_t *spare = (int32_t *)w->gathered;
    if (lane < 0) {
        int64_t left = 0, right = 0;
        for (int64_t i = 0; i < n; i++) {
            int32_t row = rows[i];
            if (pmb_sparse_left(d, s, row)) rows[left++] = row;
            else spare[right++] = row;
        }
        memcpy(rows + left, spare, sizeof(int32_t) * (size_t)right);
        return left;
    }
    pmb_directions(d, s, w->goes_left);
    if (d->code_bytes == 2)
        return pmb_part_16_2((const uint16_t *)d->codes + lane * d->m, w->goes_left, rows, n, spare);
    return pmb_part_8_1((const uint8_t *)d->codes + lane * d->m, w->goes_left, rows, n, spare);
}

PMB_INLINE double pmb_gain(pmb_sums total, const pmb_split *s, int edge) {
    pmb_sums r = total;
    if (s->score < 0) return 0;
    pmb_sums_add(&r, s->left, -1);
    double gl = (double)s->left.g, gr = (double)r.g, hl = (double)s->left.h, hr = (double)r.h, d;
    if (edge) return fabs(gl) + fabs(gr) - fabs((double)total.g);
    d = gl * hr - gr * hl;
    return d / hl * (d / hr) / (double)total.h;
}

/* Find the best splits of nodes a and, if b >= 0, of b too, whose rows lie beside each other. The histogram of `filled`
 * (a or b) is made from its rows; with a pool, the other's is its parent's, in the slot of the other, minus that. */
PMB_STATIC void pmb_evaluate(const pmb_tree_data *d, const pmb_grow_options *o, pmb_grow_work *w, int filled, int other,
                             int want_filled, int want_other) {
    int parts = d->n_tiles + (d->row_ptr != NULL), planes = o->planes;
    const pmb_node *fill = w->nodes + filled, *rest = other >= 0 ? w->nodes + other : NULL;
    int whole = fill->n == d->m;
    const int64_t *gh = w->gh;
    int64_t words = (int64_t)planes * d->tile_cell[d->n_tiles + 1];
    int pooled = o->pool && other >= 0;
    if (!whole) {
        int64_t *to = w->gathered;
        /* both children, when there is nothing to subtract from; their rows are neighbours */
        int64_t begin = fill->start, n = fill->n;
        if (!pooled && rest) {
            begin = fill->start < rest->start ? fill->start : rest->start;
            n = fill->n + rest->n;
        }
        const int32_t *rows = w->rows + begin;
        if (planes == 1)
            for (int64_t i = 0; i < n; i++) to[i] = gh[rows[i]];
        else
            for (int64_t i = 0; i < n; i++) {
                to[2 * i] = gh[2 * (int64_t)rows[i]];
                to[2 * i + 1] = gh[2 * (int64_t)rows[i] + 1];
            }
        for (int byte = 0; d->busy && byte <= (d->n_tiles - 1) / 8; byte++)
            for (int64_t i = 0; i < n; i++) w->busy[byte * d->m + i] = d->busy[byte * d->m + rows[i]];
    }
    const uint8_t *busy = whole ? d->busy : w->busy;
    int64_t begin = !pooled && rest && rest->start < fill->start ? rest->start : fill->start;
    int threads = o->threads > 1 && fill->n * d->n_tiles > PMB_SHARED_WORK ? o->threads : 1;
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
#endif
    for (int t = 0; t < parts; t++) {
        int64_t at = planes * d->tile_cell[t], n_words = planes * d->tile_cell[t + 1] - at;
        int64_t *hist = w->hist + (o->pool ? fill->slot * words + at : at);
        pmb_fill_part(d, planes, t, whole ? NULL : w->rows + fill->start, fill->n,
                      whole ? gh : w->gathered + planes * (fill->start - begin), fill->sums,
                      busy ? busy + (fill->start - begin) : NULL, d->m, hist);
        if (want_filled) pmb_scan_part(d, o, t, hist, fill->sums, w->found + 2 * t);
        if (!rest) continue;
        if (pooled) {
            int64_t *big = w->hist + rest->slot * words + at;
            for (int64_t j = 0; j < n_words; j++) big[j] -= hist[j];
            if (want_other) pmb_scan_part(d, o, t, big, rest->sums, w->found + 2 * t + 1);
        } else if (want_other) {
            pmb_fill_part(d, planes, t, w->rows + rest->start, rest->n,
                          w->gathered + planes * (rest->start - begin), rest->sums,
                          busy ? busy + (rest->start - begin) : NULL, d->m, hist);
            pmb_scan_part(d, o, t, hist, rest->sums, w->found + 2 * t + 1);
        }
    }
    for (int side = 0; side < 2; side++) {
        int node = side ? other : filled;
        if (side ? !want_other : !want_filled) continue;
        pmb_split *best = &w->nodes[node].best;
        *best = w->found[side];
        for (int t = 1; t < parts; t++)
            if (pmb_split_before(d, &w->found[2 * t + side], best)) *best = w->found[2 * t + side];
        w->nodes[node].gain = pmb_gain(w->nodes[node].sums, best, o->edge);
    }
}

PMB_INLINE int pmb_splittable(const pmb_node *node, const pmb_node *root, const pmb_grow_options *o) {
    return node->n > 1 && node->sums.n >= 2 * o->min_h && (o->max_depth == 0 || node->depth < o->max_depth) &&
           (double)node->sums.h > o->min_share * (double)root->sums.h;
}

/* Grow a tree on the n rows in w->rows (ascending) with the values w->gh of all rows. w->nodes[0] is then the
 * root; leaves are nodes with left == -1, their rows in w->rows. Returns the number of nodes. */
PMB_STATIC int pmb_grow(const pmb_tree_data *d, const pmb_grow_options *o, pmb_grow_work *w, int64_t n) {
    int n_nodes = 1, n_leaves = 1, n_slots = 1, n_free = 0, parts = d->n_tiles + (d->row_ptr != NULL);
    pmb_node *nodes = w->nodes;
    memset(nodes, 0, sizeof *nodes);
    nodes[0].n = n;
    nodes[0].left = -1;
    nodes[0].best.score = -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t *v = w->gh + o->planes * (int64_t)w->rows[i];
        pmb_sums_add(&nodes[0].sums, pmb_cell(v, o->planes, 1), 1);
    }
    if (parts == 0) return 1;
    if (o->max_leaves > 1 && pmb_splittable(nodes, nodes, o)) pmb_evaluate(d, o, w, 0, -1, 1, 0);
    while (n_leaves < o->max_leaves) {
        int at = -1;
        for (int j = 0; j < n_nodes; j++)
            if (nodes[j].left < 0 && nodes[j].gain > 0 && (at < 0 || nodes[j].gain > nodes[at].gain)) at = j;
        if (at < 0) break;
        int l = n_nodes, r = n_nodes + 1;
        pmb_node *node = nodes + at;
        int64_t n_left = pmb_partition(d, &node->best, w->rows + node->start, node->n, w);
        for (int c = l; c <= r; c++) {
            nodes[c] = *node;
            nodes[c].left = -1;
            nodes[c].gain = 0;
            nodes[c].best.score = -1;
            nodes[c].depth = node->depth + 1;
        }
        nodes[l].n = n_left;
        nodes[l].sums = node->best.left;
        nodes[r].start += n_left;
        nodes[r].n -= n_left;
        pmb_sums_add(&nodes[r].sums, node->best.left, -1);
        node->left = l;
        node->right = r;
        n_nodes += 2;
        n_leaves++;
        if (n_leaves == o->max_leaves) break; /* no split will follow: nothing to look for */
        int small = nodes[l].n <= nodes[r].n ? l : r, big = small == l ? r : l;
        int want_small = pmb_splittable(nodes + small, nodes, o), want_big = pmb_splittable(nodes + big, nodes, o);
        if (!want_small && !want_big) {
            w->free_slots[n_free++] = node->slot;
            continue;
        }
        nodes[big].slot = node->slot;
        nodes[small].slot = n_free ? w->free_slots[--n_free] : n_slots++;
        if (!want_big) { /* only the small one counts, and it can have the slot of its parent */
            pmb_evaluate(d, o, w, small, -1, 1, 0);
            w->free_slots[n_free++] = nodes[big].slot;
        } else {
            pmb_evaluate(d, o, w, small, big, want_small, 1);
            if (!want_small) w->free_slots[n_free++] = nodes[small].slot;
        }
    }
    return n_nodes;
}

/* A grown tree in preorder: splits only, right = distance to the right child; leaf_node: node of each leaf from left to
 * right. Returns the number of splits. */
PMB_STATIC int pmb_preorder(const pmb_node *nodes, int32_t *stack, int32_t *order, int32_t *right, int32_t *leaf_node) {
    int n = 0, leaves = 0, top = 0;
    stack[top++] = 0;
    while (top) {
        int at = stack[--top];
        if (at < 0) { /* back from the left subtree of split ~at */
            right[~at] = n - ~at;
            continue;
        }
        if (nodes[at].left < 0) {
            leaf_node[leaves++] = at;
            continue;
        }
        order[n] = at;
        stack[top++] = nodes[at].right;
        stack[top++] = ~n;
        stack[top++] = nodes[at].left;
        n++;
    }
    return n;
}

/* Leaf of a row that took no part in growing. */
PMB_STATIC int pmb_leaf_of(const pmb_tree_data *d, const pmb_node *nodes, int64_t row) {
    int at = 0;
    while (nodes[at].left >= 0) {
        const pmb_split *s = &nodes[at].best;
        int f = s->feature, lane = d->lane[f], left;
        if (lane < 0) {
            left = pmb_sparse_left(d, s, row);
        } else {
            int64_t i = lane * d->m + row;
            int code = d->code_bytes == 2 ? ((const uint16_t *)d->codes)[i] : ((const uint8_t *)d->codes)[i];
            int bins = d->n_bins[f], bin = code - d->cell0[f];
            if (bin < 0 || bin >= bins + d->has_missing[f]) bin = d->mode[f];
            left = bin == bins ? s->nan_left : bin <= s->pos;
        }
        at = left ? nodes[at].left : nodes[at].right;
    }
    return at;
}

#endif
