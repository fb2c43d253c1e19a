/* Class-wise trees: fills histograms and parts rows; the data, and the state in which trees grow.
 *
 * Problem: given numbers g_i and h_i > 0 of m rows, split nodes so that G_L^2/H_L + G_R^2/H_R - G_T^2/H_T is largest (Li,
 * Robust LogitBoost, eqs. 7 and 8: h are second derivatives or weights), or |G_L| + |G_R| - |G_T| (trees with leaves -1
 * and +1). With regularisation l2 is added to every H.
 *
 * g and h are rounded to integers in units of (sum of |g|) / 2^31 or finer, so sums are exact: neither the order of
 * summation, nor the subtraction of one histogram from another, nor the number of threads changes a tree, and a side is
 * empty exactly where its h is 0. */
#ifndef PYMCBOOST_CLASSWISE_HISTOGRAMS_H
#define PYMCBOOST_CLASSWISE_HISTOGRAMS_H

#include "draws.h"
#include "classwise_categories.h"

#define PMB_AHEAD 24       /* rows between the prefetched row and the current one */
#define PMB_COMPACTED 4096 /* rows of a node that are listed together where a tile skips rows */
/* entries of a sparse feature that take as long as one row that is looked up */
#define PMB_LOOKED_UP 8
/* pairs of a row and a tile above which several threads fill the histogram of a node */
#define PMB_SHARED_WORK 200000

/* The training rows as class-wise trees read them, which nothing changes. A tile holds 16 lanes, a histogram all cells of the
 * tiles and behind them those of the sparse features. */
typedef struct {
    pmb_columns columns;
    int32_t n_tiles;
    const void *tiles; /* (n_tiles, m, 16) codes */
    /* (n_tiles,), as the next three: lanes in use, the first ones of the 16 */
    const int32_t *tile_lanes;
    const int32_t *tile_rows; /* codes in use, that of missing values included */
    /* 1: the last code holds the missing values of lanes with one feature */
    const int32_t *tile_missing;
    /* 1: rows with every lane in its mode are not added; they are what the node has besides */
    const int32_t *tile_skip;
    const int32_t *tile_mode; /* (n_tiles, 16) codes of the modes */
    /* (bytes, m): bit t of a row's bytes says that tile t adds it; NULL: no tile skips rows */
    const uint8_t *counted;
    /* (n_tiles + 2,) first cell of each tile, of the sparse cells, and number of cells */
    const int64_t *tile_cell;
    const int64_t *row_ptr;  /* (m + 1,) sparse entries of each row; NULL: there are none */
    const int32_t *row_cell; /* their cells, ascending in a row */
    const int64_t *cell_ptr; /* (n_sparse + 1,) the same entries by cell */
    const int32_t *cell_row; /* their rows */
    pmb_level_data levels;   /* of categorical features */
    int32_t weighted;        /* 1: weights of rows differ */
    /* (m,) weights in whole units; NULL where they do not differ, or there are no rows */
    const int64_t *weight;
    int64_t total_weight; /* their sum */
} pmb_cw_data;

/* The statistics of a node: sums over all of its rows, of which only a part may be here (see classwise_workers.h). */
typedef struct {
    pmb_sums sums, left;  /* of its rows, and of those on the left of its best split */
    int64_t rows;         /* how many it has */
    int32_t slot;         /* which of the kept histograms is its own */
    uint64_t key;         /* of its draw of features */
    int32_t no_missing;   /* 1: it has no missing values of the feature that it is split on */
    int32_t no_histogram; /* 1: its slot holds nothing, see classwise_drawn.h */
} pmb_cw_stats;

/* One step of growth: the nodes whose best splits are sought next; -1: none. The histogram of `filled` is made from its rows.
 * Where histograms are kept, its sibling's is their parent's minus this one. */
typedef struct {
    int32_t filled, sibling;
    int32_t want_filled, want_sibling; /* 1: its split is sought, not only its histogram */
} pmb_cw_search;

/* The n cuts of one drawn feature, in the order of its bins, one behind each bin that has rows. */
typedef struct {
    int64_t *g, *h, *n;           /* sums of the rows up to the cut */
    double *score, *with_missing; /* with the missing values on the right, and on the left */
    int32_t *bin;                 /* the bin before the cut */
} pmb_cuts;

/* The memory in which one thread grows one tree after the other: w everywhere below. Between two steps of growth, each open
 * leaf that may still be split has its best split in grower.nodes and `stats`, and, where histograms are kept, its own slot of
 * `hist`. */
typedef struct {
    pmb_grower grower;
    const pmb_cw_data *data;
    const pmb_cw_options *options;
    pmb_limits limits;   /* of the tree being grown */
    int32_t n_drawn;     /* features that its nodes draw; 0: they have all */
    uint64_t key;        /* of its draws */
    pmb_cw_stats *stats; /* by node */
    int64_t *gh;         /* (m, cell_words) g and h of every row, packed as in a cell */
    /* the same of the rows of the searched nodes, side by side; else scratch of the grower */
    int64_t *gathered;
    int64_t *hist; /* (slots, cells cell_words), 64-byte aligned; pmb_cell knows a cell's words */
    /* (n_tiles + 1, 2) what was found in each tile for `filled` and for its sibling */
    pmb_split *best_of_part;
    int32_t *free_slots; /* slots of `hist` that no node needs any more */
    int32_t *order;      /* (12 max_leaves,) scratch for writing the tree */
    int64_t *weight;     /* of the rows of each node, once the tree is grown */
    uint8_t *counted;    /* bits as in the data, of the gathered rows */
    uint8_t *chosen;     /* (2, n_features) marks of the features that two nodes draw */
    /* (2, 1 + n_features) how many they are, and which, where features are sparse */
    int32_t *listed;
    uint8_t *marks; /* (m,) by row, where there are sparse features; all 0 between two uses */
    /* levels on the left: of all features for two nodes, then of the best split of each node */
    uint64_t *sets;
    pmb_level_scratch scratch;
    /* of one drawn feature, all 0 between two uses; NULL where these are not looked at one by one */
    int64_t *cells;
    uint64_t *occupied;      /* bits of the cells with rows */
    int32_t *drawn;          /* numbers of the drawn features */
    pmb_cuts cuts;           /* in the memory of cuts.g */
    void *memory;            /* of hist */
    int32_t n_slots, n_free; /* slots that have been in use, and free ones */
} pmb_cw_state;

#define CODE uint8_t
#define CTAG 8
#define WORDS 1
#include "classwise_fill_body.h"
#define CODE uint8_t
#define CTAG 8
#define WORDS 2
#include "classwise_fill_body.h"
#define CODE uint16_t
#define CTAG 16
#define WORDS 2
#include "classwise_fill_body.h"

/* Positions, from `start` on, of those of n rows that count in a tile. */
PMB_CLONES PMB_STATIC int64_t pmb_compact(const uint8_t *PMB_RESTRICT counted, int bit,
                                          int64_t start, int64_t n, int32_t *PMB_RESTRICT picked) {
    int64_t count = 0;
    for (int64_t i = start; i < start + n; i++) {
        picked[count] = (int32_t)i;
        count += counted[i] >> bit & 1;
    }
    for (int j = 0; j < PMB_AHEAD; j++) picked[count + j] = 0;
    return count;
}

/* Histograms of the lanes of tile t over n rows; see classwise_fill_body.h. */
PMB_INLINE void pmb_fill_tile(const pmb_cw_data *data, int words, int t, const int32_t *rows,
                              const int32_t *picked, int64_t n, const int64_t *gh, int64_t *hist,
                              int64_t *done) {
    int lanes = data->tile_lanes[t];
    int64_t first = (int64_t)t * data->columns.m * 16;
    const uint16_t *tile16 = (const uint16_t *)data->tiles + first;
    const uint8_t *tile8 = (const uint8_t *)data->tiles + first;
    if (data->columns.code_bytes == 2)
        pmb_fill_16_2(tile16, rows, picked, n, lanes, gh, hist, done);
    else if (words == 2)
        pmb_fill_8_2(tile8, rows, picked, n, lanes, gh, hist, done);
    else
        pmb_fill_8_1(tile8, rows, picked, n, lanes, gh, hist, done);
}

/* Histogram of one tile (or of the sparse cells, tile == n_tiles) over the n rows of a node with these sums; rows NULL:
 * the first n. counted: the bits of these rows, byte by byte, `stride` apart. */
PMB_INLINE void pmb_fill_part(const pmb_cw_data *data, const pmb_cw_options *options, int tile,
                              const int32_t *rows, int64_t n, const int64_t *gh, pmb_sums sums,
                              const uint8_t *counted, int64_t stride, int64_t *hist) {
    int words = options->cell_words;
    memset(hist, 0,
           sizeof(int64_t) * (size_t)words *
               (size_t)(data->tile_cell[tile + 1] - data->tile_cell[tile]));
    if (tile == data->n_tiles) {
        for (int64_t i = 0; i < n; i++) {
            int64_t row = rows ? rows[i] : i;
            for (int64_t e = data->row_ptr[row]; e < data->row_ptr[row + 1]; e++) {
                int64_t *cell = hist + (int64_t)words * data->row_cell[e];
                for (int j = 0; j < words; j++) cell[j] += gh[words * i + j];
            }
        }
        return;
    }
    int64_t done[2] = {0, 0}, part[2];
    if (!data->tile_skip[tile]) {
        pmb_fill_tile(data, words, tile, rows, NULL, n, gh, hist, part);
        return;
    }
    for (int64_t start = 0; start < n; start += PMB_COMPACTED) {
        int32_t picked[PMB_COMPACTED + PMB_AHEAD];
        int64_t count = pmb_compact(counted + tile / 8 * stride, tile % 8, start,
                                    n - start < PMB_COMPACTED ? n - start : PMB_COMPACTED, picked);
        pmb_fill_tile(data, words, tile, rows, picked, count, gh, hist, part);
        for (int j = 0; j < words; j++) done[j] += part[j];
    }
    for (int k = 0; k < data->tile_lanes[tile]; k++) {
        int64_t *cell = hist + (int64_t)data->tile_mode[16 * tile + k] * 16 * words + k;
        if (words == 1) {
            cell[0] += (int64_t)((uint64_t)sums.g << 32) + sums.h - done[0];
        } else {
            cell[0] += sums.g - done[0];
            cell[16] += (sums.h << options->count_bits) + sums.n - done[1];
        }
    }
}

/* Best split on the features of one tile, or on the sparse ones. active: by feature, NULL for all; side: which of the two
 * nodes that are searched together it is. thread: of those of the tree. */
PMB_STATIC void pmb_scan_part(const pmb_cw_state *w, int tile, int64_t *hist, pmb_sums total,
                              const uint8_t *active, int side, int thread, pmb_split *best) {
    const pmb_cw_data *data = w->data;
    const pmb_cw_options *options = w->options;
    const pmb_limits *q = &w->limits;
    best->score = -1;
    if (tile == data->n_tiles) {
        const int32_t *listed = w->listed + side * (int64_t)(1 + data->columns.n_features),
                      *all = data->columns.lane_feature;
        const int32_t *f =
            w->n_drawn ? listed + 1 : all + data->columns.lane_ptr[data->columns.n_lanes];
        const int32_t *end = w->n_drawn ? f + listed[0] : all + data->columns.n_features;
        for (; f < end; f++)
            if (data->columns.lane[*f] < 0 && (!active || active[*f]))
                pmb_scan_feature(&data->columns, *f,
                                 hist + (int64_t)data->columns.cell0[*f] * options->cell_words,
                                 options->cell_words, 1, total, options, q, best);
        return;
    }
    pmb_lane_best by_lane;
    int missing = data->tile_missing[tile], rows = data->tile_rows[tile] - missing, best_lane = -1;
    pmb_scan_lanes(hist, rows, missing, total, options, q, &by_lane);
    for (int k = 0; k < data->tile_lanes[tile]; k++) {
        const int32_t *lane = data->columns.lane_ptr + 16 * tile + k;
        for (int j = lane[0]; j < lane[1]; j++) {
            int f = data->columns.lane_feature[j];
            if (active && !active[f]) continue;
            if (data->levels.set_start && data->levels.set_start[f] >= 0) {
                uint64_t *set =
                    w->sets + side * (int64_t)data->levels.set_words + data->levels.set_start[f];
                pmb_split candidate =
                    pmb_scan_levels(&data->columns, &data->levels, f, hist + k, rows, total,
                                    options, q, &w->scratch, thread, set);
                if (!pmb_split_before(&data->columns, &candidate, best)) continue;
                *best = candidate;
                best_lane = -1;
            } else if (data->columns.mode[f] >= 0) {
                const int64_t *cells =
                    hist + (int64_t)data->columns.cell0[f] * 16 * options->cell_words + k;
                if (pmb_scan_feature(&data->columns, f, cells, 16 * options->cell_words, 16, total,
                                     options, q, best))
                    best_lane = -1;
            } else {
                pmb_split candidate = {by_lane.score[k],
                                       f,
                                       by_lane.code[k] >> 1,
                                       by_lane.code[k] & 1,
                                       {0, 0, 0},
                                       NULL,
                                       0};
                if (pmb_split_before(&data->columns, &candidate, best)) {
                    *best = candidate;
                    best_lane = k;
                }
            }
        }
    }
    if (best_lane >= 0) {
        int next = best->pos + 1;
        best->left = pmb_prefix(hist + best_lane, options, best->pos, best->nan_left, rows);
        best->no_missing =
            !missing ||
            pmb_cell(hist + best_lane + (int64_t)rows * 16 * options->cell_words, options, 16).h ==
                0;
        while (
            next < rows &&
            pmb_cell(hist + best_lane + (int64_t)next * 16 * options->cell_words, options, 16).h ==
                0)
            next++;
        if (next < rows) best->pos = (best->pos + next - 1) / 2;
    }
}

PMB_INLINE int pmb_sparse_left(const pmb_cw_data *data, const pmb_node *node, int64_t row) {
    int f = node->feature, bins = data->columns.n_bins[f], bin = data->columns.mode[f];
    int64_t low = data->row_ptr[row], high = data->row_ptr[row + 1], stop = high;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (data->row_cell[mid] < data->columns.cell0[f])
            low = mid + 1;
        else
            high = mid;
    }
    if (low < stop &&
        data->row_cell[low] < data->columns.cell0[f] + bins + data->columns.has_missing[f])
        bin = data->row_cell[low] - data->columns.cell0[f];
    return bin == bins ? node->nan_left : bin <= node->pos;
}

/* Part n rows by the split of a node; returns how many are on the left. Of a sparse feature either the rows are marked
 * whose entry sends them to the other side than rows without one, or each row is looked up. */
PMB_STATIC int64_t pmb_cw_part_rows(pmb_cw_state *w, const pmb_node *node,
                                    int32_t *PMB_RESTRICT rows, int64_t n) {
    const pmb_cw_data *data = w->data;
    int f = node->feature, bins = data->columns.n_bins[f], mode = data->columns.mode[f];
    int32_t *PMB_RESTRICT spare = w->grower.spare;
    uint8_t *PMB_RESTRICT marks = w->marks;
    if (data->columns.lane[f] >= 0)
        return pmb_part_rows(&data->columns, node, w->grower.side, rows, n, spare);
    uint8_t usual = (uint8_t)(mode == bins ? node->nan_left : mode <= node->pos);
    const int64_t *cell = data->cell_ptr + data->columns.cell0[f];
    int64_t left = 0, right = 0, from = cell[usual ? node->pos + 1 : 0],
            to = cell[usual ? bins : node->pos + 1];
    int64_t missing = cell[bins], end = data->columns.has_missing[f] && node->nan_left != usual
                                            ? cell[bins + 1]
                                            : missing;
    int looked_up = to - from + end - missing > PMB_LOOKED_UP * n;
    for (int64_t e = from; e < to && !looked_up; e++) marks[data->cell_row[e]] = 1;
    for (int64_t e = missing; e < end && !looked_up; e++) marks[data->cell_row[e]] = 1;
    for (int64_t i = 0; i < n; i++) {
        int32_t row = rows[i];
        uint8_t on_left =
            looked_up ? (uint8_t)pmb_sparse_left(data, node, row) : marks[row] ^ usual;
        rows[left] = spare[right] = row;
        left += on_left;
        right += !on_left;
    }
    memcpy(rows + left, spare, sizeof(int32_t) * (size_t)right);
    for (int64_t e = from; e < to && !looked_up; e++) marks[data->cell_row[e]] = 0;
    for (int64_t e = missing; e < end && !looked_up; e++) marks[data->cell_row[e]] = 0;
    return left;
}

/* The words of n rows side by side. */
PMB_INLINE void pmb_gather_words(const int64_t *gh, const int32_t *rows, int64_t n, int words,
                                 int64_t *to) {
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < words; j++) to[words * i + j] = gh[words * (int64_t)rows[i] + j];
}

/* g, h and the tiles' bits of n rows side by side. */
PMB_STATIC void pmb_cw_gather(pmb_cw_state *w, const int32_t *rows, int64_t n) {
    const pmb_cw_data *data = w->data;
    int64_t m = data->columns.m;
    if (w->options->cell_words == 1)
        pmb_gather_words(w->gh, rows, n, 1, w->gathered);
    else
        pmb_gather_words(w->gh, rows, n, 2, w->gathered);
    for (int byte = 0; data->counted && byte <= (data->n_tiles - 1) / 8; byte++)
        for (int64_t i = 0; i < n; i++)
            w->counted[byte * m + i] = data->counted[byte * m + rows[i]];
}

/* Cells of one part (a tile, or the sparse features) for the rows of a node that are here, and have these sums; `begin`: first
 * of the gathered rows. */
PMB_INLINE void pmb_cw_fill(const pmb_cw_state *w, int part, int32_t node_index, pmb_sums sums,
                            int64_t begin, int64_t *hist) {
    const pmb_node *node = w->grower.nodes + node_index;
    const pmb_cw_data *data = w->data;
    int64_t first = node->start - begin;
    if (node->n == data->columns.m)
        pmb_fill_part(data, w->options, part, NULL, node->n, w->gh, sums, data->counted,
                      data->columns.m, hist);
    else
        pmb_fill_part(data, w->options, part, w->grower.rows + node->start, node->n,
                      w->gathered + w->options->cell_words * first, sums,
                      data->counted ? w->counted + first : NULL, data->columns.m, hist);
}

/* Cells of the chosen sparse features: their entries are looked up among the rows of a node. */
PMB_INLINE void pmb_fill_words(const pmb_cw_state *w, const int32_t *listed, int words,
                               int64_t *hist) {
    const pmb_cw_data *data = w->data;
    for (int32_t j = 1; j <= listed[0]; j++) {
        int32_t f = listed[j], cell = data->columns.cell0[f],
                end = cell + data->columns.n_bins[f] + data->columns.has_missing[f];
        for (; cell < end; cell++) {
            int64_t sum[2] = {0, 0};
            for (int64_t e = data->cell_ptr[cell]; e < data->cell_ptr[cell + 1]; e++) {
                int64_t row = data->cell_row[e];
                for (int k = 0; k < words && w->marks[row]; k++) sum[k] += w->gh[words * row + k];
            }
            for (int k = 0; k < words; k++) hist[words * (int64_t)cell + k] = sum[k];
        }
    }
}

PMB_STATIC void pmb_fill_chosen(const pmb_cw_state *w, int32_t node_index, int side,
                                int64_t *hist) {
    const int32_t *rows = w->grower.rows + w->grower.nodes[node_index].start;
    const int32_t *listed = w->listed + side * (int64_t)(1 + w->data->columns.n_features);
    for (int64_t i = 0; i < w->grower.nodes[node_index].n; i++) w->marks[rows[i]] = 1;
    if (w->options->cell_words == 1)
        pmb_fill_words(w, listed, 1, hist);
    else
        pmb_fill_words(w, listed, 2, hist);
    for (int64_t i = 0; i < w->grower.nodes[node_index].n; i++) w->marks[rows[i]] = 0;
}

/* The best of what the parts found for a node; side: 0 for the node that was filled, 1 for the other. */
PMB_STATIC void pmb_cw_choose(pmb_cw_state *w, int32_t node_index, int side, int parts) {
    pmb_node *node = w->grower.nodes + node_index;
    const pmb_split *best = w->best_of_part + side;
    for (int t = 1; t < parts; t++)
        if (pmb_split_before(&w->data->columns, &w->best_of_part[2 * t + side], best))
            best = w->best_of_part + 2 * t + side;
    node->feature = best->feature;
    node->pos = best->pos;
    node->nan_left = best->nan_left;
    node->gain = pmb_gain(w->stats[node_index].sums, best, w->options->edge, &w->limits,
                          w->stats[node_index].rows);
    w->stats[node_index].left = best->left;
    w->stats[node_index].no_missing = best->no_missing;
    if (best->score >= 0 && best->set) {
        const pmb_level_data *levels = &w->data->levels;
        uint64_t *of_node =
            w->sets + 2 * (int64_t)levels->set_words + node_index * (int64_t)levels->most_words;
        memcpy(of_node, best->set,
               sizeof(uint64_t) * pmb_set_words(&w->data->columns, node->feature));
        node->set = of_node;
    }
}

/* Features that a node may be split on, by feature; NULL: all. */
PMB_INLINE const uint8_t *pmb_cw_features(const pmb_cw_state *w, int32_t node_index, int side) {
    int32_t d = w->data->columns.n_features;
    uint8_t *chosen = w->chosen + (int64_t)side * d;
    if (!w->n_drawn) return w->options->active;
    pmb_sample_of(w->stats[node_index].key, w->options->active, d, w->options->n_active, w->n_drawn,
                  chosen);
    int32_t *listed = w->listed + side * (int64_t)(1 + d);
    if (w->marks) listed[0] = pmb_marked(chosen, d, listed + 1);
    return chosen;
}

/* One histogram minus another. */
PMB_CLONES PMB_STATIC void pmb_take_off(int64_t *PMB_RESTRICT from,
                                        const int64_t *PMB_RESTRICT subtracted, int64_t n) {
    for (int64_t j = 0; j < n; j++) from[j] -= subtracted[j];
}

PMB_STATIC void pmb_cw_state_free(pmb_cw_state *w) {
    pmb_grower_free(&w->grower);
    free(w->grower.rows);
    free(w->stats);
    free(w->gh);
    free(w->gathered);
    free(w->memory);
    free(w->best_of_part);
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
