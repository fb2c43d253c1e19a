/* Class-wise trees: what a cell of a histogram holds, and the best split that its cells give, for 16 features at a time or for
 * one. Ties are decided here, by pmb_split_before.
 *
 * A cell sums the pairs (g, h) of its rows in integers, so sums are exact. It has one 64-bit word, g << 32 | h (g signed, h
 * above 0, their sums below 2^31), or two: g, and h << count_bits | n, where n is the weight of the rows. With one word n
 * is h. */
#ifndef PYMCBOOST_CLASSWISE_SCAN_H
#define PYMCBOOST_CLASSWISE_SCAN_H

#include "grower.h"
#include "team.h"

/* Where all features are sparse and the leaves of a tree together draw at most this many times all of them, only the cells of
 * the drawn ones are filled. */
#define PMB_FEW 4

/* What a grower is asked for; the same for all trees of a round. */
typedef struct {
    /* 1: splits of largest |G_L| + |G_R|, leaves -1 and +1; 0: of largest Newton gain */
    int32_t edge;
    int32_t cell_words; /* words of a cell, 1 or 2 */
    /* 1: histograms of all leaves are kept, so that a child's is its parent's minus its sibling's */
    int32_t keep_histograms;
    /* 1: all features are sparse and few are drawn: only their cells are made */
    int32_t few_sparse;
    int32_t threads; /* of a tree */
    const pmb_pool_calls *pool;
    int32_t count_bits; /* of cells of two words: bits of n below h */
    /* weight on either side, in units, at least 1; it bounds h where cells have no count */
    int64_t least_n;
    double min_share; /* nodes are split only above this share of the root's h */
    /* units by which the h of a row may differ from its integer; below 0: gains may be rounding */
    double h_error;
    double l2, min_hessian, min_gain; /* of Newton's trees, as in the estimators */
    const uint8_t *active;            /* by feature: 1 where it may be split on; NULL: all */
    int32_t n_active;                 /* features that may be split on */
    int32_t n_drawn;                  /* how many of them each node draws; 0: it has all */
    uint64_t key;                     /* of the draws of this round */
} pmb_cw_options;

/* Whether cells have a count besides h. */
PMB_INLINE int pmb_is_counted(const pmb_cw_options *options) {
    return options->cell_words == 2;
}

/* What bounds the splits of one tree, in units of its integers. */
typedef struct {
    /* n and h on either side; where h stands for n, least_n is the larger bound */
    int64_t least_n, least_h;
    double l2;         /* added to the h of either side */
    double level_cost; /* gain that a set loses for every level in parts beyond two */
    double h_error;    /* of the options */
    /* with one word: a power of two for h, and l2 times it, so that no score overflows */
    float h_factor, scaled_l2;
    int32_t unbounded;  /* 1: neither l2 nor least_h changes a score or bounds a side */
    int32_t count_bits; /* of the options */
} pmb_limits;

/* l2, least_h: in the units of the tree. */
PMB_STATIC void pmb_set_limits(pmb_limits *q, const pmb_cw_options *options, double l2,
                               double least_h) {
    int one_word = options->cell_words == 1, exponent;
    double largest = one_word ? INT32_MAX : (double)((int64_t)1 << 62);
    frexp(l2, &exponent);
    q->least_n = options->least_n;
    q->least_h = (int64_t)ceil(least_h < largest ? least_h : largest);
    if (!pmb_is_counted(options) && q->least_n < q->least_h) q->least_n = q->least_h;
    q->l2 = l2;
    q->level_cost = 0;
    q->h_error = options->h_error;
    q->count_bits = options->count_bits;
    q->h_factor = exponent > 30 ? (float)ldexp(1, 30 - exponent) : 1;
    q->scaled_l2 = (float)(l2 * q->h_factor);
    q->unbounded = l2 == 0 && (one_word || q->least_h == 0);
}

/* Sums over rows, in units: of g, of h, and of the weight n. h and n are 0 only where there are no rows. */
typedef struct {
    int64_t g, h, n;
} pmb_sums;

/* A split of a node that leaves enough weight on either side, or none. */
typedef struct {
    double score; /* what splits of a node are compared by; below 0: there is none */
    int32_t feature, pos, nan_left; /* as in pmb_node: bins up to pos go left */
    pmb_sums left;                  /* of the rows on the left */
    const uint64_t *set;            /* of a categorical feature: bits of the bins on the left */
    /* 1: the node has no missing values of the feature; their side is decided later */
    int32_t no_missing;
} pmb_split;

/* Bits of the count in the second word of a cell. */
PMB_INLINE int64_t pmb_count_mask(int32_t count_bits) {
    return ((int64_t)1 << count_bits) - 1;
}

/* gap: from one word of a cell to the next, 16 in tiles, 1 in the sparse cells. */
PMB_INLINE pmb_sums pmb_cell(const int64_t *cell, const pmb_cw_options *options, int gap) {
    pmb_sums sums;
    if (options->cell_words == 1) {
        sums.h = sums.n = (int64_t)(cell[0] & 0xFFFFFFFF);
        sums.g = (cell[0] - sums.h) / ((int64_t)1 << 32);
    } else {
        sums.g = cell[0];
        sums.h = cell[gap] >> options->count_bits;
        sums.n = cell[gap] & pmb_count_mask(options->count_bits);
    }
    return sums;
}

PMB_INLINE void pmb_sums_add(pmb_sums *to, pmb_sums from, int sign) {
    to->g += sign * from.g;
    to->h += sign * from.h;
    to->n += sign * from.n;
}

/* (G_L H_R - G_R H_L)^2 / (H_L H_R): H_T times the Newton gain, without its cancellation. H_L and H_R include l2: the
 * score then orders the splits of a node as the gain with l2 does. */
PMB_INLINE float pmb_score_1(pmb_sums l, pmb_sums r, int edge, const pmb_limits *q) {
    float gl = (float)(int32_t)l.g, gr = (float)(int32_t)r.g, hl = (float)(int32_t)l.h,
          hr = (float)(int32_t)r.h, d;
    if (edge) return fabsf(gl) + fabsf(gr);
    hl = hl * q->h_factor + q->scaled_l2;
    hr = hr * q->h_factor + q->scaled_l2;
    d = gl * hr - gr * hl;
    return d * d / (hl * hr);
}

PMB_INLINE double pmb_score_2(pmb_sums l, pmb_sums r, int edge, const pmb_limits *q) {
    double gl = (double)l.g, gr = (double)r.g, hl = (double)l.h + q->l2, hr = (double)r.h + q->l2,
           d;
    if (edge) return fabs(gl) + fabs(gr);
    d = gl * hr - gr * hl;
    return d * d / (hl * hr);
}

PMB_INLINE double pmb_score(pmb_sums l, pmb_sums r, int words, int edge, const pmb_limits *q) {
    return words == 1 ? (double)pmb_score_1(l, r, edge, q) : pmb_score_2(l, r, edge, q);
}

PMB_INLINE int pmb_too_small(pmb_sums side, const pmb_limits *q) {
    return side.n < q->least_n || side.h < q->least_h;
}

/* Better, or equal and first: lower column, then lower threshold, then missing values to the right. */
PMB_INLINE int pmb_split_before(const pmb_columns *c, const pmb_split *a, const pmb_split *b) {
    if (a->score != b->score) return a->score > b->score;
    if (a->score < 0) return 0;
    if (a->feature != b->feature) return c->column[a->feature] < c->column[b->feature];
    return 2 * a->pos + a->nan_left < 2 * b->pos + b->nan_left;
}

/* The best threshold of each of the 16 lanes of a tile, as if each had one ordered feature. */
typedef struct {
    double score[16]; /* below 0: there is none */
    int32_t code[16]; /* 2 * pos + nan_left */
} pmb_lane_best;

#if PMB_VECTORS
#define LANES 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#include "classwise_scan_body.h"
#define LANES 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#include "classwise_scan_body.h"
#define LANES 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#include "classwise_scan_body.h"

/* Best threshold of each of 16 lanes; see classwise_scan_body.h. */
#define PMB_SCAN(words)                                                                            \
    PMB_CLONES PMB_STATIC void pmb_scan_##words(const int64_t *hist, int rows, int has_missing,    \
                                                pmb_sums total, const pmb_limits *q, int edge,     \
                                                pmb_lane_best *out) {                              \
        if (PMB_HAS_512)                                                                           \
            pmb_scan_##words##_v_16(hist, rows, has_missing, total, q, edge, out);                 \
        else if (PMB_HAS_256)                                                                      \
            pmb_scan_##words##_v_8(hist, rows, has_missing, total, q, edge, out);                  \
        else                                                                                       \
            pmb_scan_##words##_v_4(hist, rows, has_missing, total, q, edge, out);                  \
    }
PMB_SCAN(1)
PMB_SCAN(2)

PMB_INLINE void pmb_scan_lanes(const int64_t *hist, int rows, int has_missing, pmb_sums total,
                               const pmb_cw_options *options, const pmb_limits *q,
                               pmb_lane_best *out) {
    if (options->cell_words == 1)
        pmb_scan_1(hist, rows, has_missing, total, q, options->edge, out);
    else
        pmb_scan_2(hist, rows, has_missing, total, q, options->edge, out);
}
#else
PMB_INLINE void pmb_scan_lanes(const int64_t *hist, int rows, int has_missing, pmb_sums total,
                               const pmb_cw_options *options, const pmb_limits *q,
                               pmb_lane_best *out) {
    for (int k = 0; k < 16; k++) {
        pmb_sums left = {0, 0, 0}, missing = {0, 0, 0};
        if (has_missing)
            missing = pmb_cell(hist + (int64_t)rows * 16 * options->cell_words + k, options, 16);
        out->score[k] = -1;
        for (int b = 0; b < rows; b++) {
            pmb_sums_add(
                &left, pmb_cell(hist + (int64_t)b * 16 * options->cell_words + k, options, 16), 1);
            for (int side = 0; side <= has_missing; side++) {
                pmb_sums left_side = left, right = total;
                if (side) pmb_sums_add(&left_side, missing, 1);
                pmb_sums_add(&right, left_side, -1);
                if (pmb_too_small(left_side, q) || pmb_too_small(right, q)) continue;
                double score = pmb_score(left_side, right, options->cell_words, options->edge, q);
                if (score > out->score[k]) {
                    out->score[k] = score;
                    out->code[k] = 2 * b + side;
                }
            }
        }
    }
}
#endif

/* A feature whose mode bin has no cell of its own, its cells `stride` words apart. Returns whether *best changed. */
PMB_STATIC int pmb_scan_feature(const pmb_columns *c, int f, const int64_t *cells, int64_t stride,
                                int gap, pmb_sums total, const pmb_cw_options *options,
                                const pmb_limits *q, pmb_split *best) {
    int bins = c->n_bins[f], has_missing = c->has_missing[f], mode = c->mode[f], is_better = 0;
    pmb_sums rest = total, left = {0, 0, 0}, missing = {0, 0, 0};
    for (int b = 0; b < bins + has_missing; b++)
        if (b != mode) pmb_sums_add(&rest, pmb_cell(cells + b * stride, options, gap), -1);
    if (has_missing) missing = mode == bins ? rest : pmb_cell(cells + bins * stride, options, gap);
    for (int b = 0; b < bins - !has_missing; b++) {
        pmb_sums_add(&left, b == mode ? rest : pmb_cell(cells + b * stride, options, gap), 1);
        for (int side = 0; side <= has_missing; side++) {
            pmb_split candidate = {0, f, b, side, left, NULL, missing.h == 0};
            pmb_sums right = total;
            if (side) pmb_sums_add(&candidate.left, missing, 1);
            pmb_sums_add(&right, candidate.left, -1);
            if (pmb_too_small(candidate.left, q) || pmb_too_small(right, q)) continue;
            candidate.score =
                pmb_score(candidate.left, right, options->cell_words, options->edge, q);
            if (pmb_split_before(c, &candidate, best)) {
                *best = candidate;
                is_better = 1;
            }
        }
    }
    if (is_better) { /* the middle of the empty bins */
        int next = best->pos + 1;
        while (next < bins &&
               (next == mode ? rest : pmb_cell(cells + next * stride, options, gap)).h == 0)
            next++;
        if (next < bins) best->pos = (best->pos + next - 1) / 2;
    }
    return is_better;
}

/* Sums of the rows left of a split of a lane that has one ordered feature. */
PMB_INLINE pmb_sums pmb_prefix(const int64_t *cells, const pmb_cw_options *options, int pos,
                               int nan_left, int rows) {
    pmb_sums sums = {0, 0, 0};
    int words = options->cell_words;
    for (int b = 0; b <= pos; b++)
        pmb_sums_add(&sums, pmb_cell(cells + (int64_t)b * 16 * words, options, 16), 1);
    if (nan_left) pmb_sums_add(&sums, pmb_cell(cells + (int64_t)rows * 16 * words, options, 16), 1);
    return sums;
}

/* How far rounding may move G_L H_R - G_R H_L, where H_L and H_R include l2: it moves the g of a row by half a unit, the h by
 * h_error. Cells do not count rows. A side is taken to have its share of the weight in the rows of the node, and one more. */
PMB_INLINE double pmb_rounding(pmb_sums l, pmb_sums r, double hl, double hr, double h_error,
                               int64_t rows) {
    double share = (double)rows / (double)(l.n + r.n);
    double rows_l = 1 + share * (double)l.n, rows_r = 1 + share * (double)r.n;
    return rows_l * (0.5 * hr + h_error * fabs((double)r.g)) +
           rows_r * (0.5 * hl + h_error * fabs((double)l.g));
}

/* With l2: G_L^2/(H_L + l2) + G_R^2/(H_R + l2) - G_T^2/(H_T + l2), the cancellation taken out of the first two. 0 where
 * rounding alone may part G_L/H_L from G_R/H_R, as in a node of equal rows: such a split tells nothing of the rows, and
 * yet the tree would change with the units, or where a row of weight 2 is given as two rows. */
PMB_INLINE double pmb_gain(pmb_sums total, const pmb_split *split, int edge, const pmb_limits *q,
                           int64_t rows) {
    pmb_sums right = total;
    if (split->score < 0) return 0;
    pmb_sums_add(&right, split->left, -1);
    double gl = (double)split->left.g, gr = (double)right.g, g = (double)total.g, l2 = q->l2, d;
    double hl = (double)split->left.h + l2, hr = (double)right.h + l2;
    if (edge) return fabs(gl) + fabs(gr) - fabs(g);
    d = gl * hr - gr * hl;
    if (q->h_error >= 0 && fabs(d) <= pmb_rounding(split->left, right, hl, hr, q->h_error, rows))
        return 0;
    return d / hl * (d / hr) / (hl + hr) - g / (hl + hr) * (g / ((double)total.h + l2)) * l2;
}

#endif
