/* Trees on one pair of numbers a row, in exact integer arithmetic: the payload of pairs for grower.h.
 *
 * Problem: given g_i and h_i > 0 of the m rows, split nodes so that G_L^2/H_L + G_R^2/H_R - G_T^2/H_T is largest (Li,
 * Robust LogitBoost, eqs. 7 and 8: h are weights or counts), or |G_L| + |G_R| - |G_T| (edges of trees with leaves +-1).
 * Regularised, all H have l2 added, and a node may look at some features only.
 *
 * g and h are rounded to integers in units of (sum of |g|) / 2^31 or finer, so sums are exact: no order of summation, no
 * subtraction of one histogram from another and no number of threads can change a tree, and a side is empty if and only
 * if its h is 0.
 */
#ifndef PYMCBOOST_PAIRS_H
#define PYMCBOOST_PAIRS_H

#include "draws.h"
#include "pairs_levels.h"

#define PMB_AHEAD 24       /* rows between the prefetched row and the current one */
#define PMB_COMPACTED 4096 /* rows of a node that are listed together where a tile skips rows */
#define PMB_SHARED_WORK 200000 /* row-tile pairs below which one node is not worth several threads */

typedef struct {
    pmb_columns c;
    int32_t n_tiles;
    const void *tiles;           /* (n_tiles, m, 16) */
    const int32_t *tile_lanes;   /* lanes in use: the first ones of each tile's 16 */
    const int32_t *tile_rows;    /* codes in use in each tile, the row of missing values included */
    const int32_t *tile_missing; /* 1: the last row of the histogram holds the missing values of the plain lanes */
    const int32_t *tile_skip;    /* 1: rows with every lane in its mode are left out, and make up the rest of the node */
    const int32_t *tile_mode;    /* (n_tiles, 16) */
    const uint8_t *counted;      /* (bytes, m): bit t of a row's bytes says that tile t counts it; NULL: no tile skips */
    const int64_t *tile_cell;    /* (n_tiles + 2,) first cell of each tile, of the sparse cells, and the number of all */
    const int64_t *row_ptr;      /* sparse entries of each row, NULL if there are none */
    const int32_t *row_cell;
    pmb_level_data levels; /* of categorical features */
} pmb_pair_data;

/* What the payload keeps of a node. */
typedef struct {
    pmb_sums sums, left; /* of its rows, and of those left of its best split */
    int32_t slot;        /* of its histogram in the pool */
    uint64_t key;        /* of its draw of features */
} pmb_pair_node;

/* One thread's memory. */
typedef struct {
    pmb_grower g;
    const pmb_pair_data *d;
    const pmb_pair_options *o;
    pmb_limits limits; /* of the tree being grown */
    int32_t take;      /* features that its nodes draw; 0: none is left out */
    uint64_t key;
    pmb_pair_node *its; /* by node */
    int64_t *gh, *gathered, *hist;
    pmb_split *found;
    int32_t *free_slots, *order; /* order: 8 * max_leaves */
    uint8_t *counted;            /* of the gathered rows, (bytes, m) */
    uint8_t *chosen;             /* features of two nodes that are searched together, (2, n_features) */
    uint64_t *sets;              /* levels on the left: of all features for two nodes, then of the nodes' best splits */
    pmb_level_scratch scratch;
    void *memory;                /* of hist, which is 64-byte aligned */
    int32_t n_slots, n_free;
} pmb_pairs;

#define CODE uint8_t
#define CTAG 8
#define WORDS 1
#include "pairs_body.h"
#define CODE uint8_t
#define CTAG 8
#define WORDS 2
#include "pairs_body.h"
#define CODE uint16_t
#define CTAG 16
#define WORDS 2
#include "pairs_body.h"

/* Positions, from `start` on, of those of n rows that count in a tile. */
PMB_CLONES PMB_STATIC int64_t pmb_compact(const uint8_t *PMB_RESTRICT counted, int bit, int64_t start, int64_t n,
                                          int32_t *PMB_RESTRICT at) {
    int64_t count = 0;
    for (int64_t i = start; i < start + n; i++) {
        at[count] = (int32_t)i;
        count += counted[i] >> bit & 1;
    }
    for (int j = 0; j < PMB_AHEAD; j++) at[count + j] = 0;
    return count;
}

/* Histogram of one tile (or of the sparse cells, tile == n_tiles) over the n rows of a node with these sums; rows NULL:
 * the first n. counted: the bits of these rows, byte by byte, `stride` apart. */
PMB_INLINE void pmb_fill_part(const pmb_pair_data *d, int words, int tile, const int32_t *rows, int64_t n,
                              const int64_t *gh, pmb_sums sums, const uint8_t *counted, int64_t stride,
                              int64_t *hist) {
    memset(hist, 0, sizeof(int64_t) * (size_t)words * (size_t)(d->tile_cell[tile + 1] - d->tile_cell[tile]));
    if (tile == d->n_tiles) {
        for (int64_t i = 0; i < n; i++) {
            int64_t row = rows ? rows[i] : i;
            for (int64_t e = d->row_ptr[row]; e < d->row_ptr[row + 1]; e++) {
                int64_t *cell = hist + (int64_t)words * d->row_cell[e];
                cell[0] += gh[words * i];
                if (words == 2) cell[1] += gh[2 * i + 1];
            }
        }
        return;
    }
    int lanes = d->tile_lanes[tile];
    int64_t first = (int64_t)tile * d->c.m * 16, done[2] = {0, 0}, part[2];
    const uint16_t *tile16 = (const uint16_t *)d->tiles + first;
    const uint8_t *tile8 = (const uint8_t *)d->tiles + first;
    if (!d->tile_skip[tile]) {
        if (d->c.code_bytes == 2) pmb_fill_16_2(tile16, rows, NULL, n, lanes, gh, hist, part);
        else if (words == 2) pmb_fill_8_2(tile8, rows, NULL, n, lanes, gh, hist, part);
        else pmb_fill_8_1(tile8, rows, NULL, n, lanes, gh, hist, part);
        return;
    }
    for (int64_t start = 0; start < n; start += PMB_COMPACTED) {
        int32_t at[PMB_COMPACTED + PMB_AHEAD];
        int64_t count = pmb_compact(counted + tile / 8 * stride, tile % 8, start,
                                    n - start < PMB_COMPACTED ? n - start : PMB_COMPACTED, at);
        if (d->c.code_bytes == 2) pmb_fill_16_2(tile16, rows, at, count, lanes, gh, hist, part);
        else if (words == 2) pmb_fill_8_2(tile8, rows, at, count, lanes, gh, hist, part);
        else pmb_fill_8_1(tile8, rows, at, count, lanes, gh, hist, part);
        done[0] += part[0];
        done[1] += part[1];
    }
    for (int k = 0; k < lanes; k++) {
        int64_t *cell = hist + (int64_t)d->tile_mode[16 * tile + k] * 16 * words + k;
        if (words == 1) {
            cell[0] += (int64_t)((uint64_t)sums.g << 32) + sums.h - done[0];
        } else {
            cell[0] += sums.g - done[0];
            cell[16] += (sums.h << PMB_COUNT_BITS) + sums.n - done[1];
        }
    }
}

/* Best split on the features of one tile, or on the sparse ones. active: by feature, NULL for all; side: which of the two
 * nodes that are searched together it is. */
PMB_STATIC void pmb_scan_part(const pmb_pairs *w, int tile, int64_t *hist, pmb_sums total, const uint8_t *active,
                              int side, pmb_split *best) {
    const pmb_pair_data *d = w->d;
    const pmb_pair_options *o = w->o;
    const pmb_limits *q = &w->limits;
    best->score = -1;
    if (tile == d->n_tiles) {
        for (int j = d->c.lane_ptr[d->c.n_lanes]; j < d->c.n_features; j++) {
            int f = d->c.lane_feature[j];
            if (active && !active[f]) continue;
            pmb_scan_feature(&d->c, f, hist + (int64_t)d->c.cell0[f] * o->cell_words, o->cell_words, 1, total, o, q, best);
        }
        return;
    }
    pmb_lane_best by_lane;
    int missing = d->tile_missing[tile], rows = d->tile_rows[tile] - missing, won = -1;
    pmb_scan_lanes(hist, rows, missing, total, o, q, &by_lane);
    for (int k = 0; k < d->tile_lanes[tile]; k++) {
        const int32_t *lane = d->c.lane_ptr + 16 * tile + k;
        for (int j = lane[0]; j < lane[1]; j++) {
            int f = d->c.lane_feature[j];
            if (active && !active[f]) continue;
            if (d->levels.set_at && d->levels.set_at[f] >= 0) {
                uint64_t *set = w->sets + side * (int64_t)d->levels.set_words + d->levels.set_at[f];
                pmb_split here = pmb_scan_levels(&d->c, &d->levels, f, hist + k, rows, total, o, q, &w->scratch, set);
                if (!pmb_split_before(&d->c, &here, best)) continue;
                *best = here;
                won = -1;
            } else if (d->c.mode[f] >= 0) {
                const int64_t *cells = hist + (int64_t)d->c.cell0[f] * 16 * o->cell_words + k;
                if (pmb_scan_feature(&d->c, f, cells, 16 * o->cell_words, 16, total, o, q, best)) won = -1;
            } else {
                pmb_split here = {by_lane.score[k], f, by_lane.code[k] >> 1, by_lane.code[k] & 1, {0, 0, 0}, NULL};
                if (pmb_split_before(&d->c, &here, best)) {
                    *best = here;
                    won = k;
                }
            }
        }
    }
    if (won >= 0) {
        int next = best->pos + 1;
        best->left = pmb_prefix(hist + won, o->cell_words, best->pos, best->nan_left, rows);
        while (next < rows && pmb_cell(hist + won + (int64_t)next * 16 * o->cell_words, o->cell_words, 16).h == 0) next++;
        if (next < rows) best->pos = (best->pos + next - 1) / 2;
    }
}
PMB_INLINE int pmb_sparse_left(const pmb_pair_data *d, const pmb_node *s, int64_t row) {
    int f = s->feature, bins = d->c.n_bins[f], bin = d->c.mode[f];
    int64_t low = d->row_ptr[row], high = d->row_ptr[row + 1], stop = high;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (d->row_cell[mid] < d->c.cell0[f]) low = mid + 1;
        else high = mid;
    }
    if (low < stop && d->row_cell[low] < d->c.cell0[f] + bins + d->c.has_missing[f])
        bin = d->row_cell[low] - d->c.cell0[f];
    return bin == bins ? s->nan_left : bin <= s->pos;
}

PMB_STATIC int64_t pmb_pairs_part(pmb_pairs *w, const pmb_node *node) {
    int64_t left = 0, right = 0;
    int32_t *rows = w->g.rows + node->start, *spare = w->g.spare;
    if (w->d->c.lane[node->feature] >= 0) return pmb_part(&w->g, node, w->g.side);
    for (int64_t i = 0; i < node->n; i++) {
        int32_t row = rows[i];
        if (pmb_sparse_left(w->d, node, row)) rows[left++] = row;
        else spare[right++] = row;
    }
    memcpy(rows + left, spare, sizeof(int32_t) * (size_t)right);
    return left;
}

/* g, h and the tiles' bits of n rows side by side. */
PMB_STATIC void pmb_pairs_gather(pmb_pairs *w, const int32_t *rows, int64_t n) {
    const pmb_pair_data *d = w->d;
    const int64_t *gh = w->gh;
    int64_t *to = w->gathered, m = d->c.m;
    if (w->o->cell_words == 1)
        for (int64_t i = 0; i < n; i++) to[i] = gh[rows[i]];
    else
        for (int64_t i = 0; i < n; i++) {
            to[2 * i] = gh[2 * (int64_t)rows[i]];
            to[2 * i + 1] = gh[2 * (int64_t)rows[i] + 1];
        }
    for (int byte = 0; d->counted && byte <= (d->n_tiles - 1) / 8; byte++)
        for (int64_t i = 0; i < n; i++) w->counted[byte * m + i] = d->counted[byte * m + rows[i]];
}

/* Cells of one part (a tile, or the sparse features) for the rows of a node; `begin`: first of the gathered rows. */
PMB_INLINE void pmb_pairs_fill(const pmb_pairs *w, int part, int32_t at, int64_t begin, int64_t *hist) {
    const pmb_node *node = w->g.nodes + at;
    const pmb_pair_data *d = w->d;
    int64_t first = node->start - begin;
    if (node->n == d->c.m)
        pmb_fill_part(d, w->o->cell_words, part, NULL, node->n, w->gh, w->its[at].sums, d->counted, d->c.m, hist);
    else
        pmb_fill_part(d, w->o->cell_words, part, w->g.rows + node->start, node->n,
                      w->gathered + w->o->cell_words * first, w->its[at].sums,
                      d->counted ? w->counted + first : NULL, d->c.m, hist);
}

/* The best of what the parts found for a node; side: 0 for the node that was filled, 1 for the other. */
PMB_STATIC void pmb_pairs_choose(pmb_pairs *w, int32_t at, int side, int parts) {
    pmb_node *node = w->g.nodes + at;
    const pmb_split *best = w->found + side;
    for (int t = 1; t < parts; t++)
        if (pmb_split_before(&w->d->c, &w->found[2 * t + side], best)) best = w->found + 2 * t + side;
    node->feature = best->feature;
    node->pos = best->pos;
    node->nan_left = best->nan_left;
    node->gain = pmb_gain(w->its[at].sums, best, w->o->edge, w->limits.l2);
    w->its[at].left = best->left;
    if (best->score >= 0 && best->set) {
        const pmb_level_data *l = &w->d->levels;
        uint64_t *own = w->sets + 2 * (int64_t)l->set_words + at * (int64_t)l->most_words;
        memcpy(own, best->set, sizeof(uint64_t) * pmb_set_words(&w->d->c, node->feature));
        node->set = own;
    }
}

/* Features that a node may be split on, by feature; NULL: all. */
PMB_INLINE const uint8_t *pmb_pairs_features(const pmb_pairs *w, int32_t at, int side) {
    int32_t d = w->d->c.n_features;
    uint8_t *chosen = w->chosen + (int64_t)side * d;
    if (!w->take) return w->o->active;
    pmb_sample_of(w->its[at].key, w->o->active, d, w->o->n_active, w->take, chosen);
    return chosen;
}

/* One histogram less another. */
PMB_CLONES PMB_STATIC void pmb_take_off(int64_t *PMB_RESTRICT from, const int64_t *PMB_RESTRICT what, int64_t n) {
    for (int64_t j = 0; j < n; j++) from[j] -= what[j];
}

/* Find the best splits of node `filled` and, if it is >= 0, of `other`, whose rows lie beside each other. The cells of
 * `filled` are made from its rows; with a pool, the other's are its parent's, in the slot of the other, minus those.
 * Fill and scan of a part follow each other, while it is in the cache. */
PMB_STATIC void pmb_pairs_evaluate(pmb_pairs *w, int32_t filled, int32_t other, int want_filled, int want_other) {
    const pmb_pair_data *d = w->d;
    const pmb_pair_options *o = w->o;
    const pmb_node *fill = w->g.nodes + filled, *rest = other >= 0 ? w->g.nodes + other : NULL;
    int parts = d->n_tiles + (d->row_ptr != NULL), words = o->cell_words, pooled = o->pool && rest;
    int64_t all = (int64_t)words * d->tile_cell[d->n_tiles + 1], begin = fill->start, n = fill->n;
    if (rest && !pooled) { /* both are filled */
        begin = fill->start < rest->start ? fill->start : rest->start;
        n += rest->n;
    }
    if (fill->n != d->c.m) pmb_pairs_gather(w, w->g.rows + begin, n);
    const uint8_t *of_filled = want_filled ? pmb_pairs_features(w, filled, 0) : NULL;
    const uint8_t *of_other = want_other ? pmb_pairs_features(w, other, 1) : NULL;
    int threads = o->threads > 1 && fill->n * d->n_tiles > PMB_SHARED_WORK ? o->threads : 1;
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
#endif
    for (int t = 0; t < parts; t++) {
        int64_t at = words * d->tile_cell[t], n_words = words * d->tile_cell[t + 1] - at;
        int64_t *hist = w->hist + (o->pool ? w->its[filled].slot * all + at : at);
        pmb_pairs_fill(w, t, filled, begin, hist);
        if (want_filled) pmb_scan_part(w, t, hist, w->its[filled].sums, of_filled, 0, w->found + 2 * t);
        if (!rest) continue;
        if (pooled) {
            int64_t *big = w->hist + w->its[other].slot * all + at;
            pmb_take_off(big, hist, n_words);
            hist = big;
        } else if (want_other) {
            pmb_pairs_fill(w, t, other, begin, hist);
        }
        if (want_other) pmb_scan_part(w, t, hist, w->its[other].sums, of_other, 1, w->found + 2 * t + 1);
    }
    if (want_filled) pmb_pairs_choose(w, filled, 0, parts);
    if (want_other) pmb_pairs_choose(w, other, 1, parts);
}

PMB_INLINE int pmb_pairs_splittable(const pmb_pairs *w, int32_t at) {
    const pmb_node *node = w->g.nodes + at;
    return node->n > 1 && w->its[at].sums.n >= 2 * w->limits.least_n &&
           (w->g.max_depth == 0 || node->depth < w->g.max_depth) &&
           (double)w->its[at].sums.h > w->o->min_share * (double)w->its[0].sums.h;
}

PMB_STATIC void pmb_pairs_split(pmb_grower *g, const int32_t *batch, int32_t n_batch, int last) {
    pmb_pairs *w = g->payload;
    (void)n_batch; /* one */
    pmb_node *node = g->nodes + batch[0];
    pmb_pair_node *its = w->its + batch[0];
    pmb_add_children(g, node);
    pmb_set_rows(g, node, pmb_pairs_part(w, node));
    int32_t l = node->left, r = node->right;
    w->its[l].sums = its->left;
    w->its[r].sums = its->sums;
    pmb_sums_add(&w->its[r].sums, its->left, -1);
    w->its[l].key = pmb_child_key(its->key, 0);
    w->its[r].key = pmb_child_key(its->key, 1);
    if (last) return;
    int32_t small = g->nodes[l].n <= g->nodes[r].n ? l : r, big = small == l ? r : l;
    int want_small = pmb_pairs_splittable(w, small), want_big = pmb_pairs_splittable(w, big);
    if (!want_small && !want_big) {
        w->free_slots[w->n_free++] = its->slot;
        return;
    }
    w->its[big].slot = its->slot;
    w->its[small].slot = w->n_free ? w->free_slots[--w->n_free] : w->n_slots++;
    if (!want_big) { /* only the small one counts, and it can have the slot of its parent */
        pmb_pairs_evaluate(w, small, -1, 1, 0);
        w->free_slots[w->n_free++] = w->its[big].slot;
    } else {
        pmb_pairs_evaluate(w, small, big, want_small, 1);
        if (!want_small) w->free_slots[w->n_free++] = w->its[small].slot;
    }
}

PMB_STATIC int32_t pmb_pairs_ahead(const pmb_grower *g, int32_t at, int32_t n_left) {
    (void)g, (void)at, (void)n_left;
    return 1;
}

/* Sums of the first n of w->g.rows; words add up as in the cells of a histogram. */
PMB_STATIC pmb_sums pmb_pairs_sums(const pmb_pairs *w, int64_t n) {
    const int32_t *rows = w->g.rows;
    const int64_t *gh = w->gh;
    int64_t sum[2] = {0, 0};
    int words = w->o->cell_words;
    for (int64_t i = 0; i < n && words == 1; i++) sum[0] += gh[rows[i]];
    for (int64_t i = 0; i < n && words == 2; i++) {
        sum[0] += gh[2 * (int64_t)rows[i]];
        sum[1] += gh[2 * (int64_t)rows[i] + 1];
    }
    return pmb_cell(sum, words, 1);
}

/* Grow a tree on the n rows in w->g.rows (ascending) with the values w->gh of all rows. Where the features drawn for the
 * root cannot split it, no node draws. */
PMB_STATIC void pmb_pairs_grow(pmb_pairs *w, int64_t n) {
    int parts = w->d->n_tiles + (w->d->row_ptr != NULL);
    pmb_pair_node *root = w->its;
    memset(root, 0, sizeof *root);
    root->key = w->key;
    w->take = w->o->take;
    root->sums = pmb_pairs_sums(w, n);
    for (;; w->take = 0) {
        pmb_grow_root(&w->g, n);
        w->n_slots = 1;
        w->n_free = 0;
        if (parts == 0) return;
        if (w->g.max_leaves > 1 && pmb_pairs_splittable(w, 0)) pmb_pairs_evaluate(w, 0, -1, 1, 0);
        if (pmb_grow(&w->g) || !w->take) return;
    }
}

PMB_STATIC void pmb_pairs_free(pmb_pairs *w) {
    pmb_grower_free(&w->g);
    free(w->g.rows);
    free(w->its);
    free(w->gh);
    free(w->gathered);
    free(w->memory);
    free(w->found);
    free(w->free_slots);
    free(w->order);
    free(w->counted);
    free(w->chosen);
    free(w->sets);
    pmb_level_scratch_free(&w->scratch);
    memset(w, 0, sizeof *w);
}

/* Memory for growing trees one after the other; 0 if there is not enough (then nothing is held). */
PMB_STATIC int pmb_pairs_new(pmb_pairs *w, const pmb_pair_data *d, const pmb_pair_options *o, int32_t max_leaves,
                             int32_t max_depth) {
    size_t m = (size_t)d->c.m, J = (size_t)max_leaves, parts = (size_t)d->n_tiles + 1;
    size_t words = (size_t)o->cell_words * (size_t)d->tile_cell[d->n_tiles + 1] * (o->pool ? J : 1);
    memset(w, 0, sizeof *w);
    int there = pmb_grower_new(&w->g, &d->c, max_leaves, max_depth, 2 * max_leaves, 1);
    w->d = d;
    w->o = o;
    w->g.rows = calloc(m + PMB_AHEAD, sizeof(int32_t));
    w->its = malloc(sizeof(pmb_pair_node) * 2 * J);
    w->gh = malloc(sizeof(int64_t) * (size_t)o->cell_words * m);
    w->gathered = malloc(sizeof(int64_t) * (size_t)o->cell_words * m);
    w->memory = malloc(sizeof(int64_t) * words + 64);
    w->found = malloc(sizeof(pmb_split) * 2 * parts);
    w->free_slots = malloc(sizeof(int32_t) * (J + 1));
    w->order = malloc(sizeof(int32_t) * 8 * J);
    w->counted = malloc(d->counted ? ((size_t)d->n_tiles + 7) / 8 * m : 1);
    w->chosen = malloc(2 * (size_t)d->c.n_features + 1);
    w->sets = calloc(2 * ((size_t)d->levels.set_words + J * (size_t)d->levels.most_words) + 1, sizeof(uint64_t));
    if (!there || !w->g.rows || !w->its || !w->gh || !w->gathered || !w->memory || !w->found || !w->free_slots || !w->order ||
        !w->counted || !w->chosen || !w->sets || !pmb_level_scratch_new(&w->scratch, d->levels.most_levels, o->threads)) {
        pmb_pairs_free(w);
        return 0;
    }
    w->hist = (int64_t *)(((uintptr_t)w->memory + 63) / 64 * 64);
    w->g.spare = (int32_t *)w->gathered; /* which is made anew after rows are parted */
    w->g.payload = w;
    w->g.split = pmb_pairs_split;
    w->g.ahead = pmb_pairs_ahead;
    pmb_set_limits(&w->limits, o, 0, 0);
    return 1;
}

#endif
