/* Vector trees: splits of categorical features, whose levels go to either side in any combination.
 *
 * The levels in a node are put in the order of their mean gradients in a direction, and the order is scanned as values are.
 * The first direction is the leading one, in which the means of the levels are spread most. The next ones lead from the mean
 * of one side to that of the other, as long as the split gains more: the best subset of all is an order of that kind. With
 * two columns of scores the first order has the best subset. Rare levels, whose means are noise, stay together at the place
 * of their common mean. Of many levels some subset fits noise: level_cost is taken off the gain for every level whose rows
 * have been parted before. */
#ifndef PYMCBOOST_VECTOR_CATEGORIES_H
#define PYMCBOOST_VECTOR_CATEGORIES_H

#include "bins.h"
#include "vector_scan.h"

#define PMB_VT_WORDS 1024 /* of most levels */
#define PMB_VT_POWERS 8   /* steps towards the leading direction */
#define PMB_VT_REFINED 4  /* most orders from side to side */
#define PMB_VT_COLUMNS 15 /* most of one block, without that of the weight */

/* The best subset so far: bits of the levels on the left, and whether missing rows are there. */
typedef struct {
    double score, left;
    int32_t side;
    uint64_t *set;
} pmb_vt_subset;

/* Cell of a level in a block of columns. */
PMB_INLINE const pmb_sum *pmb_vt_level(const pmb_vt_data *data, const pmb_vt_scratch *s,
                                       int32_t slot, int b) {
    return s->level_cells + (s->level_block * b + slot) * data->lanes;
}

PMB_INLINE pmb_sum pmb_vt_level_weight(const pmb_vt_data *data, const pmb_vt_scratch *s,
                                       int32_t slot) {
    return pmb_vt_level(data, s, slot,
                        data->n_classes / data->lanes)[data->n_classes % data->lanes];
}

/* Whether a node has too little of a level for a place of its own. */
PMB_INLINE int pmb_vt_rare(const pmb_vt_data *data, const pmb_vt_scratch *s, int f, int32_t slot,
                           int32_t bin) {
    return pmb_vt_level_weight(data, s, slot) <
           data->least_level[(int64_t)data->set_start[f] * 64 + bin];
}

/* A level's sum of gradients less their mean. */
PMB_INLINE void pmb_vt_level_sum(const pmb_vt_data *data, const pmb_vt_scratch *s, int32_t slot,
                                 const double *mean, double *sum) {
    pmb_sum weight = pmb_vt_level_weight(data, s, slot);
    for (int b = 0, k = 0; k < data->n_classes; b++) {
        const pmb_sum *cell = pmb_vt_level(data, s, slot, b);
        for (int l = 0; l < data->lanes && k < data->n_classes; l++, k++)
            sum[k] = cell[l] - weight * mean[k];
    }
}

/* Put the levels of a run in the order that the keys have. */
PMB_STATIC void pmb_vt_lay_out(const pmb_vt_data *data, const pmb_vt_run *run, pmb_vt_scratch *s) {
    double left = 0;
    for (int32_t j = 0, to = run->first; j < run->count; j++, to++) {
        uint32_t level = (uint32_t)s->level_key[j];
        s->slot[to] = s->level_slot[level];
        s->bin[to] = s->level_bin[level];
        left += (double)pmb_vt_level_weight(data, s, s->slot[to]);
        s->left[to] = left;
    }
}

/* Put the levels of a run in the order of their means in direction u, lower bins first among equals. */
PMB_STATIC void pmb_vt_order(const pmb_vt_data *data, const pmb_vt_run *run, const double *mean,
                             const double *u, pmb_vt_scratch *s) {
    int32_t n = run->count;
    double *sum = s->level_vectors, rare = 0, rare_weight = 0;
    for (int32_t j = 0; j < n; j++) {
        pmb_sum weight = pmb_vt_level_weight(data, s, s->level_slot[j]);
        double all = 0;
        pmb_vt_level_sum(data, s, s->level_slot[j], mean, sum);
        for (int k = 0; k < data->n_classes; k++) all += u[k] * sum[k];
        s->level_key[j] = pmb_key((float)(all / weight), (uint32_t)j);
        if (!pmb_vt_rare(data, s, run->feature, s->level_slot[j], s->level_bin[j])) continue;
        rare += all;
        rare_weight += weight;
    }
    for (int32_t j = 0; j < n && rare_weight > 0; j++)
        if (pmb_vt_rare(data, s, run->feature, s->level_slot[j], s->level_bin[j]))
            s->level_key[j] = pmb_key((float)(rare / rare_weight), (uint32_t)j);
    pmb_sort_keys(s->level_key, s->level_key + n, n);
    pmb_vt_lay_out(data, run, s);
}

/* Scan the order that is there; returns whether its best subset is better than the one before. */
PMB_STATIC int pmb_vt_try_order(const pmb_vt_data *data, const pmb_vt_stats *stats,
                                const pmb_sum *total, const pmb_vt_run *run, int64_t least,
                                pmb_vt_scratch *s, pmb_vt_subset *best) {
    const int32_t *bin = s->bin + run->first;
    double score;
    int32_t step, side;
    for (int pass = 0; pass < data->blocks; pass++) {
        int b = pmb_vt_block(data, pass);
        pmb_vt_add_squares(data, pmb_vt_level(data, s, 0, b), s, run, total + b * data->lanes,
                           stats->weight, pass);
    }
    for (int32_t j = 0, rare = 0, next; j < run->count; j++, rare = next) {
        next = pmb_vt_rare(data, s, run->feature, s->slot[run->first + j], bin[j]);
        if (j && rare && next)
            s->squares[run->first + j - 1] = s->squares_missing[run->first + j - 1] = 0;
    }
    step = pmb_vt_pick(NULL, run, s, stats->weight, least, &score, &side);
    if (step < 0 || score <= best->score * PMB_VT_TIE) return 0;
    best->score = score;
    best->side = side;
    best->left = s->left[run->first + step] + (side ? (double)run->n_missing : 0);
    memset(best->set, 0,
           sizeof(uint64_t) * (size_t)((data->columns.n_bins[run->feature] + 63) / 64));
    for (int32_t j = 0; j <= step; j++) best->set[bin[j] >> 6] |= (uint64_t)1 << (bin[j] & 63);
    return 1;
}

/* Direction in which the means of the levels, by their weights, are spread most: by the power method from the column
 * that varies most. */
PMB_STATIC void pmb_vt_leading(const pmb_vt_data *data, int32_t n, const double *mean,
                               const pmb_vt_scratch *s, double *u) {
    double all[PMB_VT_COLUMNS][PMB_VT_COLUMNS], next[PMB_VT_COLUMNS], sum[PMB_VT_COLUMNS];
    int K = data->n_classes, first = 0;
    memset(all, 0, sizeof all);
    for (int32_t j = 0; j < n; j++) {
        double one = 1.0 / pmb_vt_level_weight(data, s, s->level_slot[j]);
        pmb_vt_level_sum(data, s, s->level_slot[j], mean, sum);
        for (int k = 0; k < K; k++)
            for (int l = 0; l <= k; l++) all[k][l] += sum[k] * sum[l] * one;
    }
    for (int k = 0; k < K; k++) {
        u[k] = 0;
        if (all[k][k] > all[first][first]) first = k;
    }
    u[first] = 1;
    for (int step = 0; step < PMB_VT_POWERS; step++) {
        double top = 0;
        for (int k = 0; k < K; k++) {
            next[k] = 0;
            for (int l = 0; l < K; l++) next[k] += (l <= k ? all[k][l] : all[l][k]) * u[l];
            top = fabs(next[k]) > top ? fabs(next[k]) : top;
        }
        if (!(top > 0)) return;
        for (int k = 0; k < K; k++) u[k] = next[k] / top;
    }
}

/* The same in several blocks of columns, whose products would be many: the levels are gone through at each step. */
PMB_STATIC void pmb_vt_leading_of_many(const pmb_vt_data *data, int32_t n, const double *mean,
                                       const pmb_vt_scratch *s, double *u) {
    int K = data->n_classes, first = 0;
    double *sum = s->level_vectors, *next = sum + K, top = 1;
    for (int step = 0; step <= PMB_VT_POWERS && top > 0; step++) {
        memset(next, 0, sizeof(double) * (size_t)K);
        for (int32_t j = 0; j < n; j++) {
            double one = 1.0 / pmb_vt_level_weight(data, s, s->level_slot[j]), all = 0;
            pmb_vt_level_sum(data, s, s->level_slot[j], mean, sum);
            for (int k = 0; step > 0 && k < K; k++) all += u[k] * sum[k];
            for (int k = 0; k < K; k++) next[k] += one * (step > 0 ? all : sum[k]) * sum[k];
        }
        top = 0;
        for (int k = 0; k < K; k++) {
            top = fabs(next[k]) > top ? fabs(next[k]) : top;
            if (step == 0 && next[k] > next[first]) first = k;
        }
        for (int k = 0; k < K && step == 0; k++) u[k] = k == first;
        for (int k = 0; k < K && step > 0 && top > 0; k++) u[k] = next[k] / top;
    }
}

/* From the mean of one side of a subset to that of the other, without missing rows; 0 where a side is empty. */
PMB_STATIC int pmb_vt_direction_across(const pmb_vt_data *data, int32_t n, const double *mean,
                                       const uint64_t *set, const pmb_vt_scratch *s, double *u) {
    int K = data->n_classes;
    double *one = s->level_vectors, *sum[2] = {one + K, one + 2 * K}, weight[2] = {0, 0};
    memset(sum[0], 0, 2 * sizeof(double) * (size_t)K);
    for (int32_t j = 0; j < n; j++) {
        int bin = s->level_bin[j], left = (int)(set[bin >> 6] >> (bin & 63) & 1);
        pmb_vt_level_sum(data, s, s->level_slot[j], mean, one);
        for (int k = 0; k < K; k++) sum[left][k] += one[k];
        weight[left] += pmb_vt_level_weight(data, s, s->level_slot[j]);
    }
    if (!(weight[0] > 0 && weight[1] > 0)) return 0;
    for (int k = 0; k < K; k++) u[k] = sum[0][k] / weight[0] - sum[1][k] / weight[1];
    return 1;
}

/* What chance gains with the levels of a run that are in parts. */
PMB_STATIC double pmb_vt_chance(const pmb_vt_data *data, const pmb_vt_run *run,
                                const pmb_vt_scratch *s) {
    const int64_t *whole = data->whole_level + 64 * (int64_t)data->set_start[run->feature];
    int32_t n = 0;
    for (int32_t j = 0; j < run->count && data->level_cost > 0; j++)
        if (!pmb_vt_rare(data, s, run->feature, s->level_slot[j], s->level_bin[j]))
            n += pmb_vt_level_weight(data, s, s->level_slot[j]) < whole[s->level_bin[j]];
    return n > 2 ? data->level_cost * (n - 2) : 0;
}

/* The heavier side of a subset becomes the right one, where levels and missing values go that the node does not have. */
PMB_STATIC void pmb_vt_heavier_right(const pmb_vt_data *data, const pmb_vt_stats *stats,
                                     const pmb_vt_run *run, const pmb_vt_scratch *s,
                                     pmb_vt_subset *best) {
    uint64_t present[PMB_VT_WORDS];
    int32_t words = (data->columns.n_bins[run->feature] + 63) / 64;
    if (2 * best->left <= (double)stats->weight) return;
    memset(present, 0, sizeof(uint64_t) * (size_t)words);
    for (int32_t j = 0; j < run->count; j++)
        present[s->level_bin[j] >> 6] |= (uint64_t)1 << (s->level_bin[j] & 63);
    for (int32_t w = 0; w < words; w++) best->set[w] = present[w] & ~best->set[w];
    best->left = (double)stats->weight - best->left;
    best->side = run->missing != PMB_VT_NONE && !best->side;
}

/* Keep the cells of a block of a run's levels, and behind them that of its missing rows, from `at` on. */
PMB_STATIC void pmb_vt_keep(const pmb_vt_data *data, const pmb_vt_run *run, int b,
                            pmb_vt_scratch *s, int64_t kept_start) {
    size_t one = sizeof(pmb_sum) * (size_t)data->lanes;
    pmb_sum *to = s->kept_cells + (kept_start + b * (int64_t)(run->count + 1)) * data->lanes;
    for (int32_t j = 0; j <= run->count; j++, to += data->lanes) {
        int32_t slot = j < run->count ? s->slot[run->first + j] : run->missing;
        if (slot >= 0) memcpy(to, s->hist + (int64_t)slot * data->lanes, one);
    }
}

/* The cells of a run's levels in all blocks. at: of the kept ones, where there are several blocks. */
PMB_STATIC void pmb_vt_take_levels(const pmb_vt_data *data, pmb_vt_run *run, pmb_vt_scratch *s,
                                   int64_t kept_start) {
    memcpy(s->level_bin, s->bin + run->first, sizeof(int32_t) * (size_t)run->count);
    s->level_cells = s->hist;
    s->level_block = 0;
    if (data->blocks == 1) {
        memcpy(s->level_slot, s->slot + run->first, sizeof(int32_t) * (size_t)run->count);
        return;
    }
    s->level_cells = s->kept_cells + kept_start * data->lanes;
    s->level_block = run->count + 1;
    for (int32_t j = 0; j < run->count; j++) s->level_slot[j] = j;
    if (run->missing >= 0) run->missing = run->count;
}

/* The best subset that is found of a run's levels. total: (blocks, lanes). */
PMB_STATIC void pmb_vt_levels(const pmb_vt_data *data, const pmb_vt_stats *stats,
                              const pmb_sum *total, pmb_vt_run *run, int64_t least,
                              pmb_vt_scratch *s, const pmb_vt_node_search *to, int64_t kept_start) {
    int f = run->feature, K = data->n_classes;
    double *mean = s->level_vectors + 3 * K, *u = mean + K;
    pmb_vt_subset best = {-1, 0, 0, to->sets + data->set_start[f]};
    for (int k = 0; k < K; k++) mean[k] = (double)total[k] / (double)stats->weight;
    pmb_vt_take_levels(data, run, s, kept_start);
    if (data->blocks > 1)
        pmb_vt_leading_of_many(data, run->count, mean, s, u);
    else
        pmb_vt_leading(data, run->count, mean, s, u);
    for (int j = 0; j <= PMB_VT_REFINED; j++) {
        pmb_vt_order(data, run, mean, u, s);
        if (!pmb_vt_try_order(data, stats, total, run, least, s, &best) || run->count < 3) break;
        if (!pmb_vt_direction_across(data, run->count, mean, best.set, s, u)) break;
    }
    if (best.score < 0) return;
    best.score -= pmb_vt_chance(data, run, s) / (double)stats->weight;
    if (best.score <= 0) return;
    pmb_vt_heavier_right(data, stats, run, s, &best);
    to->score[f] = best.score;
    to->code[f] = best.side;
    to->left[f] = best.left;
}

/* The runs of categorical features in a block of columns; after the last one, their best subsets. */
PMB_STATIC void pmb_vt_score_levels(const pmb_vt_data *data, const pmb_vt_stats *stats,
                                    const pmb_sum *total, int pass, int32_t n_runs, int64_t least,
                                    pmb_vt_scratch *s, const pmb_vt_node_search *to) {
    int b = pmb_vt_block(data, pass);
    int64_t kept_start = 0;
    memcpy(s->level_total + b * data->lanes, total, sizeof(pmb_sum) * (size_t)data->lanes);
    for (int j = 0; j < n_runs; j++) {
        pmb_vt_run *run = s->runs + j;
        if (data->set_start[run->feature] < 0) continue;
        if (data->blocks > 1) pmb_vt_keep(data, run, b, s, kept_start);
        if (pass + 1 == data->blocks)
            pmb_vt_levels(data, stats, s->level_total, run, least, s, to, kept_start);
        kept_start += data->blocks * (int64_t)(run->count + 1);
    }
}

#endif
