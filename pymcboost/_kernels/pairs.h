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
#define PMB_LOOKED_UP                                                                              \
    8 /* entries of a sparse feature that take as long as one row that is looked up */
#define PMB_SHARED_WORK                                                                            \
    200000 /* row-tile pairs below which one node is not worth several threads */

typedef struct {
    pmb_columns c;
    int32_t n_tiles;
    const void *tiles;         /* (n_tiles, m, 16) */
    const int32_t *tile_lanes; /* lanes in use: the first ones of each tile's 16 */
    const int32_t *tile_rows;  /* codes in use in each tile, the row of missing values included */
    const int32_t *
        tile_missing; /* 1: the last row of the histogram holds the missing values of the plain lanes */
    const int32_t *
        tile_skip; /* 1: rows with every lane in its mode are left out, and make up the rest of the node */
    const int32_t *tile_mode; /* (n_tiles, 16) */
    const uint8_t *
        counted; /* (bytes, m): bit t of a row's bytes says that tile t counts it; NULL: no tile skips */
    const int64_t *
        tile_cell; /* (n_tiles + 2,) first cell of each tile, of the sparse cells, and the number of all */
    const int64_t *row_ptr; /* sparse entries of each row, NULL if there are none */
    const int32_t *row_cell;
    const int64_t *cell_ptr; /* the same by cell: (n_sparse + 1,) */
    const int32_t *cell_row;
    pmb_level_data levels; /* of categorical features */
    int32_t weighted;      /* whether rows have weights that differ */
    const int64_t *
        weight; /* of the rows, in whole units; NULL where they do not differ, or there are no rows */
    int64_t whole; /* sum of these weights */
} pmb_pair_data;

/* What the payload keeps of a node. */
typedef struct {
    pmb_sums sums, left; /* of its rows, and of those left of its best split */
    pmb_sums own;        /* of its rows here, where others have some as well */
    int64_t rows;        /* of all workers */
    int32_t slot;        /* of its histogram in the pool */
    uint64_t key;        /* of its draw of features */
    int32_t unseen;      /* whether it has no missing values of the feature that it is split on */
    int32_t bare;        /* whether its slot holds no histogram, see pairs_drawn.h */
} pmb_pair_node;

/* The nodes whose best splits are sought next, -1: none. Rows are counted of the first alone, where all histograms are kept. */
typedef struct {
    int32_t filled, other, want_filled, want_other;
} pmb_pair_turn;

/* Cuts of a drawn feature between its bins with rows: sums up to them, and scores with missing values on either side. */
typedef struct {
    int64_t *g, *h, *n;
    double *score, *with_missing;
    int32_t *bin;
} pmb_cuts;

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
    int32_t *free_slots, *order; /* order: 12 * max_leaves */
    int64_t *weight;             /* of the rows of each node, once the tree is grown */
    uint8_t *counted;            /* of the gathered rows, (bytes, m) */
    uint8_t *chosen; /* features of two nodes that are searched together, (2, n_features) */
    int32_t *listed; /* how many of them there are, and which, (2, 1 + n_features) */
    uint8_t *marks;  /* by row, where there are sparse features; all 0 between two uses */
    uint64_t *
        sets; /* levels on the left: of all features for two nodes, then of the nodes' best splits */
    pmb_level_scratch scratch;
    int64_t *
        cells; /* of one drawn feature; NULL where these are not looked at one by one. All 0 between two uses */
    uint64_t *occupied; /* bits of the cells with rows */
    int32_t *drawn;     /* numbers of the drawn features */
    pmb_cuts cuts;      /* in the memory of g */
    void *memory;       /* of hist, which is 64-byte aligned */
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
PMB_CLONES PMB_STATIC int64_t pmb_compact(const uint8_t *PMB_RESTRICT counted, int bit,
                                          int64_t start, int64_t n, int32_t *PMB_RESTRICT at) {
    int64_t count = 0;
    for (int64_t i = start; i < start + n; i++) {
        at[count] = (int32_t)i;
        count += counted[i] >> bit & 1;
    }
    for (int j = 0; j < PMB_AHEAD; j++) at[count + j] = 0;
    return count;
}

/* Histograms of the lanes of tile t over n rows; see pairs_body.h. */
PMB_INLINE void pmb_fill_tile(const pmb_pair_data *d, int words, int t, const int32_t *rows,
                              const int32_t *at, int64_t n, const int64_t *gh, int64_t *hist,
                              int64_t *done) {
    int lanes = d->tile_lanes[t];
    int64_t first = (int64_t)t * d->c.m * 16;
    const uint16_t *tile16 = (const uint16_t *)d->tiles + first;
    const uint8_t *tile8 = (const uint8_t *)d->tiles + first;
    if (d->c.code_bytes == 2)
        pmb_fill_16_2(tile16, rows, at, n, lanes, gh, hist, done);
    else if (words == 2)
        pmb_fill_8_2(tile8, rows, at, n, lanes, gh, hist, done);
    else
        pmb_fill_8_1(tile8, rows, at, n, lanes, gh, hist, done);
}

/* Histogram of one tile (or of the sparse cells, tile == n_tiles) over the n rows of a node with these sums; rows NULL:
 * the first n. counted: the bits of these rows, byte by byte, `stride` apart. */
PMB_INLINE void pmb_fill_part(const pmb_pair_data *d, const pmb_pair_options *o, int tile,
                              const int32_t *rows, int64_t n, const int64_t *gh, pmb_sums sums,
                              const uint8_t *counted, int64_t stride, int64_t *hist) {
    int words = o->cell_words;
    memset(hist, 0,
           sizeof(int64_t) * (size_t)words * (size_t)(d->tile_cell[tile + 1] - d->tile_cell[tile]));
    if (tile == d->n_tiles) {
        for (int64_t i = 0; i < n; i++) {
            int64_t row = rows ? rows[i] : i;
            for (int64_t e = d->row_ptr[row]; e < d->row_ptr[row + 1]; e++) {
                int64_t *cell = hist + (int64_t)words * d->row_cell[e];
                for (int j = 0; j < words; j++) cell[j] += gh[words * i + j];
            }
        }
        return;
    }
    int64_t done[2] = {0, 0}, part[2];
    if (!d->tile_skip[tile]) {
        pmb_fill_tile(d, words, tile, rows, NULL, n, gh, hist, part);
        return;
    }
    for (int64_t start = 0; start < n; start += PMB_COMPACTED) {
        int32_t at[PMB_COMPACTED + PMB_AHEAD];
        int64_t count = pmb_compact(counted + tile / 8 * stride, tile % 8, start,
                                    n - start < PMB_COMPACTED ? n - start : PMB_COMPACTED, at);
        pmb_fill_tile(d, words, tile, rows, at, count, gh, hist, part);
        for (int j = 0; j < words; j++) done[j] += part[j];
    }
    for (int k = 0; k < d->tile_lanes[tile]; k++) {
        int64_t *cell = hist + (int64_t)d->tile_mode[16 * tile + k] * 16 * words + k;
        if (words == 1) {
            cell[0] += (int64_t)((uint64_t)sums.g << 32) + sums.h - done[0];
        } else {
            cell[0] += sums.g - done[0];
            cell[16] += (sums.h << o->count_bits) + sums.n - done[1];
        }
    }
}

/* Best split on the features of one tile, or on the sparse ones. active: by feature, NULL for all; side: which of the two
 * nodes that are searched together it is. */
PMB_STATIC void pmb_scan_part(const pmb_pairs *w, int tile, int64_t *hist, pmb_sums total,
                              const uint8_t *active, int side, pmb_split *best) {
    const pmb_pair_data *d = w->d;
    const pmb_pair_options *o = w->o;
    const pmb_limits *q = &w->limits;
    best->score = -1;
    if (tile == d->n_tiles) {
        const int32_t *listed = w->listed + side * (int64_t)(1 + d->c.n_features),
                      *all = d->c.lane_feature;
        const int32_t *f = w->take ? listed + 1 : all + d->c.lane_ptr[d->c.n_lanes];
        const int32_t *end = w->take ? f + listed[0] : all + d->c.n_features;
        for (; f < end; f++)
            if (d->c.lane[*f] < 0 && (!active || active[*f]))
                pmb_scan_feature(&d->c, *f, hist + (int64_t)d->c.cell0[*f] * o->cell_words,
                                 o->cell_words, 1, total, o, q, best);
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
                pmb_split here = pmb_scan_levels(&d->c, &d->levels, f, hist + k, rows, total, o, q,
                                                 &w->scratch, set);
                if (!pmb_split_before(&d->c, &here, best)) continue;
                *best = here;
                won = -1;
            } else if (d->c.mode[f] >= 0) {
                const int64_t *cells = hist + (int64_t)d->c.cell0[f] * 16 * o->cell_words + k;
                if (pmb_scan_feature(&d->c, f, cells, 16 * o->cell_words, 16, total, o, q, best))
                    won = -1;
            } else {
                pmb_split here = {by_lane.score[k],
                                  f,
                                  by_lane.code[k] >> 1,
                                  by_lane.code[k] & 1,
                                  {0, 0, 0},
                                  NULL,
                                  0};
                if (pmb_split_before(&d->c, &here, best)) {
                    *best = here;
                    won = k;
                }
            }
        }
    }
    if (won >= 0) {
        int next = best->pos + 1;
        best->left = pmb_prefix(hist + won, o, best->pos, best->nan_left, rows);
        best->unseen =
            !missing || pmb_cell(hist + won + (int64_t)rows * 16 * o->cell_words, o, 16).h == 0;
        while (next < rows &&
               pmb_cell(hist + won + (int64_t)next * 16 * o->cell_words, o, 16).h == 0)
            next++;
        if (next < rows) best->pos = (best->pos + next - 1) / 2;
    }
}

PMB_INLINE int pmb_sparse_left(const pmb_pair_data *d, const pmb_node *s, int64_t row) {
    int f = s->feature, bins = d->c.n_bins[f], bin = d->c.mode[f];
    int64_t low = d->row_ptr[row], high = d->row_ptr[row + 1], stop = high;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (d->row_cell[mid] < d->c.cell0[f])
            low = mid + 1;
        else
            high = mid;
    }
    if (low < stop && d->row_cell[low] < d->c.cell0[f] + bins + d->c.has_missing[f])
        bin = d->row_cell[low] - d->c.cell0[f];
    return bin == bins ? s->nan_left : bin <= s->pos;
}

/* Part n rows by the split of a node; returns how many are on the left. Of a sparse feature either the rows are marked
 * whose entry sends them to the other side than rows without one, or each row is looked up. */
PMB_STATIC int64_t pmb_pairs_part(pmb_pairs *w, const pmb_node *s, int32_t *PMB_RESTRICT rows,
                                  int64_t n) {
    const pmb_pair_data *d = w->d;
    int f = s->feature, bins = d->c.n_bins[f], mode = d->c.mode[f];
    int32_t *PMB_RESTRICT spare = w->g.spare;
    uint8_t *PMB_RESTRICT marks = w->marks;
    if (d->c.lane[f] >= 0) return pmb_part_rows(&d->c, s, w->g.side, rows, n, spare);
    uint8_t usual = (uint8_t)(mode == bins ? s->nan_left : mode <= s->pos);
    const int64_t *cell = d->cell_ptr + d->c.cell0[f];
    int64_t left = 0, right = 0, from = cell[usual ? s->pos + 1 : 0],
            to = cell[usual ? bins : s->pos + 1];
    int64_t missing = cell[bins],
            end = d->c.has_missing[f] && s->nan_left != usual ? cell[bins + 1] : missing;
    int looked_up = to - from + end - missing > PMB_LOOKED_UP * n;
    for (int64_t e = from; e < to && !looked_up; e++) marks[d->cell_row[e]] = 1;
    for (int64_t e = missing; e < end && !looked_up; e++) marks[d->cell_row[e]] = 1;
    for (int64_t i = 0; i < n; i++) {
        int32_t row = rows[i];
        uint8_t on_left = looked_up ? (uint8_t)pmb_sparse_left(d, s, row) : marks[row] ^ usual;
        rows[left] = spare[right] = row;
        left += on_left;
        right += !on_left;
    }
    memcpy(rows + left, spare, sizeof(int32_t) * (size_t)right);
    for (int64_t e = from; e < to && !looked_up; e++) marks[d->cell_row[e]] = 0;
    for (int64_t e = missing; e < end && !looked_up; e++) marks[d->cell_row[e]] = 0;
    return left;
}

/* The words of n rows side by side. */
PMB_INLINE void pmb_gather_words(const int64_t *gh, const int32_t *rows, int64_t n, int words,
                                 int64_t *to) {
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < words; j++) to[words * i + j] = gh[words * (int64_t)rows[i] + j];
}

/* g, h and the tiles' bits of n rows side by side. */
PMB_STATIC void pmb_pairs_gather(pmb_pairs *w, const int32_t *rows, int64_t n) {
    const pmb_pair_data *d = w->d;
    int64_t m = d->c.m;
    if (w->o->cell_words == 1)
        pmb_gather_words(w->gh, rows, n, 1, w->gathered);
    else
        pmb_gather_words(w->gh, rows, n, 2, w->gathered);
    for (int byte = 0; d->counted && byte <= (d->n_tiles - 1) / 8; byte++)
        for (int64_t i = 0; i < n; i++) w->counted[byte * m + i] = d->counted[byte * m + rows[i]];
}

/* Cells of one part (a tile, or the sparse features) for the rows of a node; `begin`: first of the gathered rows. */
PMB_INLINE void pmb_pairs_fill(const pmb_pairs *w, int part, int32_t at, int64_t begin,
                               int64_t *hist) {
    const pmb_node *node = w->g.nodes + at;
    const pmb_pair_data *d = w->d;
    const pmb_sums sums = w->o->divided ? w->its[at].own : w->its[at].sums;
    int64_t first = node->start - begin;
    if (node->n == d->c.m)
        pmb_fill_part(d, w->o, part, NULL, node->n, w->gh, sums, d->counted, d->c.m, hist);
    else
        pmb_fill_part(d, w->o, part, w->g.rows + node->start, node->n,
                      w->gathered + w->o->cell_words * first, sums,
                      d->counted ? w->counted + first : NULL, d->c.m, hist);
}

/* Cells of the chosen sparse features: their entries are looked up among the rows of a node. */
PMB_INLINE void pmb_fill_words(const pmb_pairs *w, const int32_t *listed, int words,
                               int64_t *hist) {
    const pmb_pair_data *d = w->d;
    for (int32_t j = 1; j <= listed[0]; j++) {
        int32_t f = listed[j], cell = d->c.cell0[f],
                end = cell + d->c.n_bins[f] + d->c.has_missing[f];
        for (; cell < end; cell++) {
            int64_t sum[2] = {0, 0};
            for (int64_t e = d->cell_ptr[cell]; e < d->cell_ptr[cell + 1]; e++) {
                int64_t row = d->cell_row[e];
                for (int k = 0; k < words && w->marks[row]; k++) sum[k] += w->gh[words * row + k];
            }
            for (int k = 0; k < words; k++) hist[words * (int64_t)cell + k] = sum[k];
        }
    }
}

PMB_STATIC void pmb_fill_chosen(const pmb_pairs *w, int32_t at, int side, int64_t *hist) {
    const int32_t *rows = w->g.rows + w->g.nodes[at].start;
    const int32_t *listed = w->listed + side * (int64_t)(1 + w->d->c.n_features);
    for (int64_t i = 0; i < w->g.nodes[at].n; i++) w->marks[rows[i]] = 1;
    if (w->o->cell_words == 1)
        pmb_fill_words(w, listed, 1, hist);
    else
        pmb_fill_words(w, listed, 2, hist);
    for (int64_t i = 0; i < w->g.nodes[at].n; i++) w->marks[rows[i]] = 0;
}

/* The best of what the parts found for a node; side: 0 for the node that was filled, 1 for the other. */
PMB_STATIC void pmb_pairs_choose(pmb_pairs *w, int32_t at, int side, int parts) {
    pmb_node *node = w->g.nodes + at;
    const pmb_split *best = w->found + side;
    for (int t = 1; t < parts; t++)
        if (pmb_split_before(&w->d->c, &w->found[2 * t + side], best))
            best = w->found + 2 * t + side;
    node->feature = best->feature;
    node->pos = best->pos;
    node->nan_left = best->nan_left;
    node->gain = pmb_gain(w->its[at].sums, best, w->o->edge, &w->limits, w->its[at].rows);
    w->its[at].left = best->left;
    w->its[at].unseen = best->unseen;
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
    int32_t *listed = w->listed + side * (int64_t)(1 + d);
    if (w->marks) listed[0] = pmb_marked(chosen, d, listed + 1);
    return chosen;
}

/* One histogram less another. */
PMB_CLONES PMB_STATIC void pmb_take_off(int64_t *PMB_RESTRICT from,
                                        const int64_t *PMB_RESTRICT what, int64_t n) {
    for (int64_t j = 0; j < n; j++) from[j] -= what[j];
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
    free(w->weight);
    free(w->counted);
    free(w->chosen);
    free(w->listed);
    free(w->marks);
    free(w->sets);
    free(w->cells);
    free(w->occupied);
    free(w->drawn);
    free(w->cuts.g);
    pmb_level_scratch_free(&w->scratch);
    memset(w, 0, sizeof *w);
}

#endif
