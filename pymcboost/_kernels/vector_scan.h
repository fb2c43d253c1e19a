/* Vector trees: what a cell of a histogram holds, and the best split that cells give. Ties are decided here: within a feature
 * by pmb_vt_pick, between features by pmb_vt_choose.
 *
 * Problem: given the gradients G_i (K numbers) and weights n_i of m rows, split nodes so that
 * sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T) = |G_L - n_L G_T / n_T|^2 n_T / (n_L n_R) is largest, on features that
 * are drawn anew for every node.
 *
 * G and n are int32, in units in which no sum overflows. So sums are exact in any order and with any number of threads, and a
 * set of rows is empty exactly where its n is 0. A cell is a row of `lanes` sums in each block: class k is in lane k, n in
 * lane K; more than 15 classes take several blocks of 16 lanes. */
#ifndef PYMCBOOST_VECTOR_SCAN_H
#define PYMCBOOST_VECTOR_SCAN_H

#include "draws.h"
#include "grower.h"

#define PMB_GROUP 8 /* columns whose histograms are filled together */
#define PMB_VT_TIE (1 + 1e-10)
#define PMB_VT_NOISE 1.0 /* squared units: below it a difference is rounding of the gradient */
#define PMB_VT_NONE (-1)
#define PMB_VT_REST (-2)
#define PMB_VT_AHEAD 12  /* rows between the prefetched gradient and the current one */
#define PMB_VT_FAR 16    /* the same for codes */
#define PMB_VT_CELLS 256 /* sparse cells, to the end of a feature, that are searched together */
#define PMB_VT_VECTORS 5 /* that the search in levels needs at a time */
#define PMB_VT_ROWS 512  /* rows gathered at a time where the gathered ones are not kept */

/* Sums over rows: of 32 bits, or of 64 in the kernels for more rows. */
#ifdef PMB_WIDE
typedef int64_t pmb_sum;
#undef PMB_VECTORS
#undef PMB_SHUFFLES
#define PMB_VECTORS 0
#else
typedef int32_t pmb_sum;
#endif

/* A sparse cell of a node, and how many entries it has: rows with another value than the mode. Entries of a cell lie side by
 * side. */
typedef struct {
    int32_t cell, count;
} pmb_vt_cell;

/* The training rows and what is asked of their splits, which stay while a tree grows. Either all columns have codes or all
 * are sparse. */
typedef struct {
    pmb_columns columns;
    int32_t n_classes, lanes,
        blocks;        /* the gradient is (blocks, m, lanes); the weight is in lane n_classes */
    int32_t max_cells; /* codes of a lane of columns at most, rounded up to 64 */
    const int64_t *row_ptr;      /* (m + 1,) sparse entries of each row; NULL: there are none */
    const int32_t *row_cell;     /* their cells */
    int32_t most_cell;           /* largest number of a cell */
    const int32_t *cell_feature; /* of the sparse cells */
    /* by lane of columns: code of most rows, which need not be added; -1: none */
    const int32_t *usual_code;
    /* (n_lanes, words of m bits) rows with other codes; NULL: no lane skips any */
    const uint64_t *unusual_rows;
    /* by feature: words of sets before its own, -1: ordered; NULL: all are ordered */
    const int32_t *set_start;
    /* words of all sets, of the largest one, and its bins */
    int32_t set_words, most_words, most_levels;
    /* cells of levels that a group has at most, in all blocks of several */
    int64_t most_kept_cells;
    /* by level, from 64 set_start[f] on: weight in a node below which it is rare */
    const int64_t *least_level;
    const int64_t
        *whole_level;  /* likewise: weight below which only a part of its rows is in the node */
    double level_cost; /* gain that a set loses for every level in parts beyond two */
    /* units by which rounding may move a row's gradient minus its weight times a mean */
    double row_error;
    double rows_per_weight;    /* rows in a weight of 1 unit, on average */
    const double *gain_factor; /* by feature: its gains are multiplied by it; NULL: by 1 */
    /* by feature from used_start on: 1 for thresholds that cost nothing; or NULL */
    const uint8_t *used_threshold;
    const int64_t *used_start;
    double new_threshold_factor; /* gains at all other thresholds are multiplied by it */
} pmb_vt_data;

/* The statistics of a node: the weight of its rows, and its sparse entries. */
typedef struct {
    /* in units: of its rows, and of those on the left of its best split */
    int64_t weight, left_weight;
    /* rows of its sparse entries, by cell, then by row; NULL: it has no list of them */
    const int32_t *entries;
    const pmb_vt_cell *cells; /* cells with entries */
    int64_t first_entry, n_entries,
        n_cells;         /* first_entry: place of its list in the memory of its depth */
    uint64_t key;        /* of its random numbers */
    uint64_t groups;     /* bits of the interaction groups that all features on its path share */
    int32_t never_split; /* 1: enough others gain more than it can */
    int32_t moved;       /* 1: its rows are numbers of moved rows */
    int32_t progress;    /* PMB_VT_WHOLE, PMB_VT_TAKEN or PMB_VT_PARTED, see vector_small_nodes.h */
} pmb_vt_stats;

/* The search of one node: the features that it has drawn, and the best split of each. p everywhere below. */
typedef struct {
    int32_t node; /* -1: none is searched */
    int32_t n_features, n_lanes;
    int32_t *features; /* those drawn, ascending */
    int32_t *lanes;    /* lanes of columns that hold them */
    uint64_t *in_node; /* room for the bits of the node's rows, or NULL */
    int32_t has_bits;  /* 1: they are set */
    uint8_t *chosen;   /* by feature, as all that follow: 1 if it is drawn */
    uint8_t *allowed;  /* 1 if it may follow the features on the path */
    double *score;     /* gain of its best split over the node's weight; -1: there is none */
    int32_t *code;     /* 2 pos + nan_left */
    double *left;      /* weight on the left, in units */
    uint64_t *sets;    /* levels on the left of categorical features */
    int32_t n_pieces;  /* pieces of the search that have not been done */
    int32_t n_shares;  /* in how many shares the rows are filled in */
    char apart[64];    /* two threads do not write to one line of the cache */
} pmb_vt_node_search;

/* One feature in a group of histograms: its bins with rows, in order, are steps [first, first + count) of the scratch. */
typedef struct {
    int32_t feature, first, count;
    /* cell of the missing values; PMB_VT_NONE: there are none; PMB_VT_REST: all rows but the others */
    int32_t missing;
    /* the bin that was not counted and is the rest of the node; PMB_VT_NONE: there is none */
    int32_t mode_bin;
    int64_t n_missing; /* their weight */
} pmb_vt_run;

/* One thread's scratch: s everywhere below. */
typedef struct {
    /* (PMB_GROUP max_cells, lanes) for one block; all 0 between two searches of lanes */
    pmb_sum *hist;
    int32_t *gathered;       /* (PMB_VT_ROWS, lanes) gradient rows */
    uint64_t *bits;          /* marks of cells in use */
    int32_t *occupied;       /* cells in use, ascending; PMB_GROUP lists, or one of sparse cells */
    int32_t *ordinals;       /* 0, 1, 2, ... */
    int32_t *entry_count;    /* entries of sparse cells */
    int64_t *entry_start;    /* where they begin in the node's list, or in members */
    int32_t *members;        /* (m + 1,) rows of a node among those with the searched features */
    int32_t *slot, *bin;     /* by step, as the next three: its cell, and its bin */
    double *left;            /* weight of the rows up to it */
    double *squares;         /* |G_L - n_L G_T / n_T|^2, which its score then replaces */
    double *squares_missing; /* the same with missing values on the left */
    pmb_vt_run *runs;
    uint64_t *level_key; /* by level of one feature, as the next two */
    int32_t *level_slot, *level_bin;
    const pmb_sum *level_cells; /* cells of its levels */
    int64_t level_block;        /* how many there are from block to block */
    pmb_sum *kept_cells;        /* cells of a group's levels in several blocks */
    pmb_sum *level_total;       /* sums of the node's rows */
    double *level_vectors;      /* (PMB_VT_VECTORS, n_classes) */
    void *level_memory;
    void *memory;
} pmb_vt_scratch;

PMB_INLINE int pmb_vt_lowest_bit(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    int at = 0;
    while (!(word >> at & 1)) at++;
    return at;
#endif
}

#define LANES 4
#include "vector_fill_body.h"
#undef LANES
#define LANES 8
#include "vector_fill_body.h"
#undef LANES
#define LANES 16
#include "vector_fill_body.h"
#undef LANES

#define PMB_VT(lanes, name, ...) PMB_BY_LANES(name##i_, lanes, __VA_ARGS__)

/* The block whose lanes include n comes first. */
PMB_INLINE int pmb_vt_block(const pmb_vt_data *data, int pass) {
    int first = data->n_classes / data->lanes;
    return pass == 0 ? first : pass <= first ? pass - 1 : pass;
}

/* Cells in use, ascending, from the weights in the histogram or from the marks, which are cleared. */
PMB_INLINE int32_t pmb_vt_occupied(const pmb_sum *hist, int lanes, int n_lane, int64_t base,
                                   int64_t cells, uint64_t *bits, int32_t *out) {
    int32_t count = 0;
    if (!bits) {
        const pmb_sum *n = hist + base * lanes + n_lane;
        for (int64_t c = 0; c < cells; c++) {
            out[count] = (int32_t)(base + c);
            count += n[c * lanes] != 0;
        }
        return count;
    }
    for (int64_t w = 0; w < (cells + 63) / 64; w++) {
        uint64_t word = bits[w];
        bits[w] = 0;
        for (; word; word &= word - 1)
            out[count++] = (int32_t)(base + 64 * w + pmb_vt_lowest_bit(word));
    }
    return count;
}

/* Steps of feature f, whose cells in use follow each other in `cells`, and their places in the histogram in `places`;
 * cells of sparse columns whose rows all weigh nothing are left out, as those of dense ones are. Returns 1 if the feature
 * can be split at all. first: of its cells; mode: bin that was not counted, or -1. */
PMB_INLINE int pmb_vt_make_run(const pmb_vt_data *data, int f, const pmb_sum *hist, int n_lane,
                               int64_t first, const int32_t *cells, const int32_t *places,
                               int32_t n_cells, int mode, int64_t weight, pmb_vt_scratch *s,
                               int32_t *next, pmb_vt_run *run) {
    int lanes = data->lanes, bins = data->columns.n_bins[f];
    int32_t step = *next, *slot = s->slot, *bin = s->bin;
    int64_t left = 0, rest = weight;
    run->feature = f;
    run->first = step;
    run->missing = run->mode_bin = PMB_VT_NONE;
    run->n_missing = 0;
    if (mode >= 0) {
        for (int32_t j = 0; j < n_cells; j++) rest -= hist[(int64_t)places[j] * lanes + n_lane];
        if (rest == 0) mode = -1;
    }
    if (mode < 0) {
        if (n_cells && cells[n_cells - 1] == first + bins) {
            run->missing = places[--n_cells];
            run->n_missing = hist[(int64_t)run->missing * lanes + n_lane];
            if (run->n_missing == 0) run->missing = PMB_VT_NONE;
        }
        for (int32_t j = 0; j < n_cells; j++) {
            int64_t n = hist[(int64_t)places[j] * lanes + n_lane];
            left += n;
            slot[step] = places[j];
            bin[step] = (int32_t)(cells[j] - first);
            s->left[step] = (double)left;
            step += n != 0;
        }
    } else
        for (int32_t j = 0; j <= n_cells; j++) {
            int b = j < n_cells ? (int)(cells[j] - first) : bins + 1;
            if (mode >= 0 && mode < b) {
                if (mode == bins) {
                    run->missing = PMB_VT_REST;
                    run->n_missing = rest;
                } else {
                    left += rest;
                    slot[step] = PMB_VT_REST;
                    bin[step] = mode;
                    s->left[step++] = (double)left;
                }
                run->mode_bin = mode;
                mode = -1;
            }
            if (j == n_cells) break;
            int64_t n = hist[(int64_t)places[j] * lanes + n_lane];
            if (n == 0) continue;
            if (b == bins) {
                run->missing = places[j];
                run->n_missing = n;
            } else {
                left += n;
                slot[step] = places[j];
                bin[step] = b;
                s->left[step++] = (double)left;
            }
        }
    run->count = step - run->first;
    if (run->count + (run->missing != PMB_VT_NONE) < 2) return 0;
    *next = step;
    return 1;
}

/* Scores of up to eight steps, in place of their squares, of which `in` are to be scored; best: the largest so far. Lane by
 * lane: vectors that are compared as such become scalars in gcc 12. */
PMB_INLINE void pmb_vt_scores_of_8(const double *PMB_RESTRICT left, double *PMB_RESTRICT squares,
                                   int in, double more, double total, double low,
                                   double *PMB_RESTRICT best) {
    PMB_LANES(k, 8) {
        const double l = left[k] + more, r = total - l, old = squares[k], q = old / (l * r);
        const double score = ((l >= low) & (r >= low) & (old > PMB_VT_NOISE)) ? q : -1,
                     own = k < in ? score : -1;
        squares[k] = k < in ? score : old;
        best[k] = own > best[k] ? own : best[k];
    }
}

/* Scores of n steps, in place of their squares: -1 where a side is too light or the squares are noise. Returns the
 * largest, or -1. Steps behind the last one stay; there is room for eight. */
PMB_CLONES PMB_STATIC double pmb_vt_scores(const double *PMB_RESTRICT left,
                                           double *PMB_RESTRICT squares, int n, double more,
                                           double total, double low) {
    double best[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    int j = 0;
    for (; j + 8 <= n; j += 8) pmb_vt_scores_of_8(left + j, squares + j, 8, more, total, low, best);
    if (j < n) pmb_vt_scores_of_8(left + j, squares + j, n - j, more, total, low, best);
    for (int half = 4; half; half /= 2)
        for (int l = 0; l < half; l++)
            best[l] = best[l + half] > best[l] ? best[l + half] : best[l];
    return best[0];
}

/* What a block adds to the squares of a run. */
PMB_INLINE void pmb_vt_add_squares(const pmb_vt_data *data, const pmb_sum *hist, pmb_vt_scratch *s,
                                   const pmb_vt_run *run, const pmb_sum *total, int64_t weight,
                                   int pass) {
    PMB_VT(data->lanes, pmb_vt_squares_, hist, s, run, total, weight, pass > 0);
}

/* Threshold of a step of a run, of those that part the rows alike the one that is marked and nearest to the middle, or -1. */
PMB_INLINE int32_t pmb_vt_marked(const pmb_vt_data *data, const pmb_vt_run *run, const int32_t *bin,
                                 int32_t j) {
    const uint8_t *used = data->used_threshold + data->used_start[run->feature];
    int32_t low = bin[j], high = bin[j + 1] - 1, middle = (low + high) / 2;
    for (int32_t far = 0; middle - far >= low || middle + far <= high; far++) {
        if (middle - far >= low && used[middle - far]) return middle - far;
        if (middle + far <= high && used[middle + far]) return middle + far;
    }
    return -1;
}

/* Lower the scores of steps without a marked threshold; returns the largest. The last step of all, between values and
 * missing ones, has no threshold of its own. */
PMB_STATIC double pmb_vt_charge_new(const pmb_vt_data *data, const pmb_vt_run *run,
                                    const int32_t *bin, double *squares, int n) {
    double top = -1;
    for (int j = 0; j < n; j++) {
        if (squares[j] > 0 && j + 1 < run->count && pmb_vt_marked(data, run, bin, j) < 0)
            squares[j] *= data->new_threshold_factor;
        top = squares[j] > top ? squares[j] : top;
    }
    return top;
}

/* Number of the best step of a run: first of equals, missing values to the right before left (side 1). -1: none. Without
 * data all steps are worth the same. Ties within a feature are decided here. */
PMB_INLINE int32_t pmb_vt_pick(const pmb_vt_data *data, const pmb_vt_run *run,
                               const pmb_vt_scratch *s, int64_t weight, int64_t least,
                               double *score, int32_t *side) {
    const double *left = s->left + run->first;
    double *squares = s->squares + run->first, *squares_missing = s->squares_missing + run->first,
           top;
    double total = (double)weight, low = (double)least;
    int any_missing = run->missing != PMB_VT_NONE, cuts = run->count - !any_missing,
        missing_cuts = any_missing ? run->count - 1 : 0;
    top = pmb_vt_scores(left, squares, cuts, 0, total, low);
    if (data && data->used_threshold)
        top = pmb_vt_charge_new(data, run, s->bin + run->first, squares, cuts);
    if (missing_cuts) {
        double other =
            pmb_vt_scores(left, squares_missing, missing_cuts, (double)run->n_missing, total, low);
        if (data && data->used_threshold)
            other =
                pmb_vt_charge_new(data, run, s->bin + run->first, squares_missing, missing_cuts);
        top = other > top ? other : top;
    }
    if (top < 0) return -1;
    for (int j = 0; j < cuts; j++) {
        int missing_left = squares[j] * PMB_VT_TIE < top;
        if (missing_left && (j >= missing_cuts || squares_missing[j] * PMB_VT_TIE < top)) continue;
        *score = missing_left ? squares_missing[j] : squares[j];
        *side = missing_left;
        return j;
    }
    return -1;
}

/* Best position of an ordered run. Where the node has no missing rows, those to come go to its heavier side. */
PMB_INLINE void pmb_vt_best_threshold(const pmb_vt_data *data, const pmb_vt_run *run,
                                      const pmb_vt_scratch *s, int64_t weight, int64_t least,
                                      double *score, int32_t *code, double *on_left) {
    const int32_t *bin = s->bin + run->first;
    int32_t side, j = pmb_vt_pick(data, run, s, weight, least, score, &side), b;
    if (j < 0) return;
    int32_t marked =
        data->used_threshold && j + 1 < run->count ? pmb_vt_marked(data, run, bin, j) : -1;
    b = bin[j];
    if (j + 1 == run->count)
        b = data->columns.n_bins[run->feature] - 1;
    else if (marked >= 0)
        b = marked;
    else
        b = (b + bin[j + 1] - 1) / 2;
    if (run->missing == PMB_VT_NONE) side = 2 * s->left[run->first + j] >= (double)weight;
    *code = 2 * b + side;
    *on_left = s->left[run->first + j] + (side ? (double)run->n_missing : 0);
}

/* Whether rounding alone may make a score: of means that are equal. Where it moves the vector of a row by row_error at most,
 * it moves G_L - G_T n_L / n_T by so many times (rows_L n_R + rows_R n_L) / n_T. Rows are not counted: a side is taken to have
 * its share of them by weight, and one more. */
PMB_INLINE int pmb_vt_is_rounding(const pmb_vt_data *data, double score, double left,
                                  double right) {
    const double most =
        data->row_error * (2 * data->rows_per_weight * left * right / (left + right) + 1);
    return score * left * right <= most * most;
}

/* The best split of a node. Features within the tie tolerance of the best are equal, and the first one wins: p->features is
 * ascending, so that is the lower column. set: room for the levels on the left. */
PMB_STATIC void pmb_vt_choose(const pmb_vt_data *data, const pmb_vt_node_search *p, pmb_node *node,
                              pmb_vt_stats *stats, uint64_t *set) {
    double top = -1;
    for (int32_t j = 0; j < p->n_features; j++) {
        int32_t f = p->features[j];
        if (data->gain_factor && p->score[f] > 0) p->score[f] *= data->gain_factor[f];
        top = p->score[f] > top ? p->score[f] : top;
    }
    if (top < 0) return;
    for (int32_t j = 0; j < p->n_features; j++) {
        int32_t f = p->features[j];
        if (p->score[f] * PMB_VT_TIE >= top) {
            node->feature = f;
            node->pos = p->code[f] >> 1;
            node->nan_left = p->code[f] & 1;
            node->gain = p->score[f] * (double)stats->weight;
            if (pmb_vt_is_rounding(data, p->score[f], p->left[f],
                                   (double)stats->weight - p->left[f]))
                node->gain = 0;
            stats->left_weight = (int64_t)p->left[f];
            if (data->set_start && data->set_start[f] >= 0) {
                memcpy(set, p->sets + data->set_start[f],
                       sizeof(uint64_t) * (size_t)((data->columns.n_bins[f] + 63) / 64));
                node->set = set;
            }
            return;
        }
    }
}

#endif
