/* Class-wise trees: splits of categorical features, whose levels go to either side in any combination.
 *
 * The levels in a node are put in the order of g / h, and the order is scanned as values are: the best subset of all is one
 * of its beginnings. Rare levels, whose g / h is noise, stay together at the place of their common g / h. Of many levels
 * some subset fits noise: level_cost is taken off the gain for every level whose rows have been parted before, as in
 * vector_categories.h. */
#ifndef PYMCBOOST_CLASSWISE_CATEGORIES_H
#define PYMCBOOST_CLASSWISE_CATEGORIES_H

#include "bins.h"
#include "classwise_scan.h"

/* Where the sets of categorical features lie, and which of their levels are rare; a set has a bit for each bin. */
typedef struct {
    /* by feature: words of sets before its own, -1: ordered; NULL: all are ordered */
    const int32_t *set_start;
    /* words of all sets, of the largest one, and its bins */
    int32_t set_words, most_words, most_levels;
    /* by level, from 64 set_start[f] on: weight in a node below which it is rare */
    const int64_t *least_level;
    /* likewise: weight below which only a part of its rows is in the node */
    const int64_t *whole_level;
} pmb_level_data;

/* A level that some rows of a node have. */
typedef struct {
    pmb_sums sums;
    int32_t bin;
    int32_t rare;     /* 1: it stays with the other rare ones */
    int32_t in_parts; /* 1: an earlier split has parted its rows */
} pmb_level;

/* Room for the levels of one feature, for each thread. */
typedef struct {
    int64_t most;     /* levels of a feature */
    uint64_t *key;    /* (threads, 2, most) their order, and scratch for sorting */
    pmb_level *level; /* (threads, most) */
} pmb_level_scratch;

PMB_STATIC int pmb_level_scratch_new(pmb_level_scratch *scratch, int32_t most_levels,
                                     int32_t threads) {
    size_t n = (size_t)most_levels * (size_t)(threads > 1 ? threads : 1);
    scratch->most = most_levels;
    scratch->key = malloc(sizeof(uint64_t) * 2 * n + 1);
    scratch->level = malloc(sizeof(pmb_level) * n + 1);
    return scratch->key && scratch->level;
}

PMB_STATIC void pmb_level_scratch_free(pmb_level_scratch *scratch) {
    free(scratch->key);
    free(scratch->level);
}

/* The levels that a node has, in `level`, and in `key` their order: by g / h, lower bins first among equals. */
PMB_STATIC int32_t pmb_order_levels(const pmb_columns *c, const pmb_level_data *data, int f,
                                    const int64_t *cells, const pmb_cw_options *options,
                                    pmb_level *level, uint64_t *key) {
    const int64_t *least = data->least_level + 64 * (int64_t)data->set_start[f];
    const int64_t *whole = data->whole_level + 64 * (int64_t)data->set_start[f];
    pmb_sums together = {0, 0, 0};
    int32_t n = 0, words = options->cell_words;
    for (int32_t b = 0; b < c->n_bins[f]; b++) {
        pmb_level entry = {pmb_cell(cells + (int64_t)b * 16 * words, options, 16), b, 0, 0};
        if (entry.sums.h == 0) continue;
        entry.rare = entry.sums.n < least[b];
        entry.in_parts = !entry.rare && entry.sums.n < whole[b];
        if (entry.rare) pmb_sums_add(&together, entry.sums, 1);
        level[n++] = entry;
    }
    for (int32_t j = 0; j < n; j++) {
        const pmb_sums *sums = level[j].rare ? &together : &level[j].sums;
        key[j] = pmb_key((float)((double)sums->g / (double)sums->h), (uint32_t)j);
    }
    pmb_sort_keys(key, key + n, n);
    return n;
}

/* The best set of levels of a feature that has a lane of its own, `cells` of one tile; missing values are in row `rows`. The heavier side is the
 * right one, where levels and missing values go that the node does not have. set: room for its bits. */
PMB_STATIC pmb_split pmb_scan_levels(const pmb_columns *c, const pmb_level_data *data, int f,
                                     const int64_t *cells, int rows, pmb_sums total,
                                     const pmb_cw_options *options, const pmb_limits *q,
                                     const pmb_level_scratch *scratch, int thread, uint64_t *set) {
    int words = options->cell_words;
    pmb_level *level = scratch->level + thread * scratch->most;
    uint64_t *key = scratch->key + thread * 2 * scratch->most;
    pmb_split best = {-1, f, 0, 0, {0, 0, 0}, set, 0};
    pmb_sums left = {0, 0, 0}, missing = {0, 0, 0};
    int32_t n = pmb_order_levels(c, data, f, cells, options, level, key), cut = -1, n_in_parts = 0;
    if (c->has_missing[f]) missing = pmb_cell(cells + (int64_t)rows * 16 * words, options, 16);
    for (int32_t j = 0; j < n; j++) {
        const pmb_level *last = level + (uint32_t)key[j];
        pmb_sums_add(&left, last->sums, 1);
        n_in_parts += last->in_parts;
        if (last->rare && j + 1 < n && level[(uint32_t)key[j + 1]].rare) continue;
        for (int side = 0; side <= (missing.h > 0); side++) {
            pmb_sums left_side = left, right = total;
            if (side) pmb_sums_add(&left_side, missing, 1);
            pmb_sums_add(&right, left_side, -1);
            if (pmb_too_small(left_side, q) || pmb_too_small(right, q)) continue;
            double score = pmb_score(left_side, right, words, options->edge, q);
            if (!(score > best.score)) continue;
            best.score = score;
            best.nan_left = side;
            best.left = left_side;
            cut = j;
        }
    }
    if (n_in_parts > 2 && q->level_cost > 0)
        best.score -= q->level_cost * (n_in_parts - 2) * (double)total.h;
    if (best.score <= 0) cut = -1;
    if (cut < 0) best.score = -1;
    if (cut < 0) return best;
    int is_turned = 2 * best.left.n > total.n;
    memset(set, 0, sizeof(uint64_t) * pmb_set_words(c, f));
    for (int32_t j = is_turned ? cut + 1 : 0; j < (is_turned ? n : cut + 1); j++) {
        int32_t bin = level[(uint32_t)key[j]].bin;
        set[bin >> 6] |= (uint64_t)1 << (bin & 63);
    }
    if (is_turned) {
        pmb_sums right = total;
        pmb_sums_add(&right, best.left, -1);
        best.left = right;
        best.nan_left = missing.h > 0 && !best.nan_left;
    }
    return best;
}

#endif
