/* Trees with vector leaves in exact integer arithmetic: histograms whose cells hold K numbers and a weight, and how splits
 * are found in them; vectors.h makes a payload for grower.h of them.
 *
 * Problem: given the gradient rows G_i (K numbers) and weights n_i of m rows, split nodes so that
 * sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T) = |G_L - n_L G_T / n_T|^2 n_T / (n_L n_R) is largest, on a fresh
 * random share of the features at every node.
 *
 * G and n are int32, scaled so that no sum overflows: sums are exact, in whatever order and by however many threads
 * they are formed, and a set of rows is empty if and only if its n is 0. Class k is in lane k, n in lane K; more than
 * 15 classes take several blocks of 16 lanes.
 */
#ifndef PYMCBOOST_VECTORS_SCAN_H
#define PYMCBOOST_VECTORS_SCAN_H

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

/* Sparse columns have entries: the rows with other values than the mode. Those of a cell lie side by side. */
typedef struct {
    int32_t cell, count;
} pmb_vt_cell;

typedef struct {
    pmb_columns c;
    int32_t n_classes, lanes, blocks, max_cells;
    const int64_t *row_ptr;      /* ends of the rows' sparse entries, NULL if there are none */
    const int32_t *row_cell;     /* their cells */
    int32_t most_cell;           /* largest number of a cell */
    const int32_t *cell_feature; /* of the sparse cells */
    const int32_t *skip; /* by lane: code of most rows, which need not be counted; -1: none */
    const uint64_t
        *others; /* (n_lanes, words of m bits) rows with other codes; NULL: no lane skips */
    const int32_t
        *set_at; /* by feature: words of sets before its own, -1: ordered; NULL: all are */
    int32_t set_words, most_words,
        most_levels; /* words of all sets, of the largest one, and its bins */
    int64_t kept;    /* cells of levels that a group has at most, in all blocks of several */
    const int64_t *
        least_level; /* weights of levels in a node below which they go together, from 64 set_at[f] on */
    const int64_t *whole_level; /* likewise: weights below which levels are in parts */
    double level_cost;          /* gain that a set loses for every level in parts but two */
    double
        row_error; /* how far rounding may move a row's gradient less its weight times a mean; 0: nowhere */
    double rows_per_weight;
    const double *worth; /* by feature: factor of its gains; NULL: 1 for all */
    const uint8_t
        *used; /* by feature from used_at on: marks of its thresholds that cost nothing; or NULL */
    const int64_t *used_at;
    double new_worth; /* factor of the gains at other thresholds */
} pmb_vt_data;

/* What the payload keeps of a node. */
typedef struct {
    int64_t weight, left_weight; /* of its rows, and of those left of its best split */
    const int32_t *
        entries; /* rows of the sparse entries, by cell, then by row; NULL: among those of all rows */
    const pmb_vt_cell *cells;                /* those with entries */
    int64_t first_entry, n_entries, n_cells; /* `first_entry` among those of all rows */
    uint64_t key;                            /* of its random numbers */
    uint64_t groups;                         /* bits of those that have all features on its path */
    int32_t late;  /* whether it is never split, as enough others gain more */
    int32_t moved; /* whether its rows are places in the moved columns */
    int32_t
        parted; /* whether its rows are being parted (1), or its children have been searched (2) */
} pmb_vt_node;

/* Searched features of a node, and what is found. */
typedef struct {
    int32_t node, n_features, n_lanes;
    int32_t *features; /* the chosen ones */
    int32_t *lanes;    /* with chosen features */
    uint64_t *in_node; /* room for the bits of its rows, or NULL */
    int32_t has_bits;  /* whether they are set */
    uint8_t *chosen;   /* by feature, as all that follow */
    uint8_t *allowed;
    double *score;  /* of a chosen one; -1: no split */
    int32_t *code;  /* 2 pos + nan_left */
    double *left;   /* weight on the left */
    uint64_t *sets; /* levels on the left of categorical features */
    int32_t n_pieces,
        n_shares; /* pieces of its search that have not been done, and shares of the rows in them */
    char apart[64]; /* two threads do not write to one line of the cache */
} pmb_vt_place;

/* One feature in a group: its occupied value bins in order are steps [first, first + count). */
typedef struct {
    int32_t feature, first, count, missing, mode_at;
    /* missing: cell of the missing rows, NONE: there are none. REST for a cell: the mode, all rows but the others */
    int64_t n_missing;
} pmb_vt_run;

/* One thread's memory. */
typedef struct {
    pmb_sum *hist;     /* all zero between two searches of lanes */
    int32_t *gathered; /* PMB_VT_ROWS gradient rows */
    uint64_t *bits;
    int32_t *occupied; /* cells in use, ascending; PMB_GROUP lists, or one of sparse cells */
    int32_t *numbers;  /* 0, 1, 2, ... */
    int32_t *
        its_count; /* of sparse cells: entries, and where these begin in the node's, or in `members` */
    int64_t *its_first;
    int32_t *members; /* (m + 1,) rows of a node among those with the searched features */
    int32_t *slot, *bin;
    double *left, *d2,
        *d2_missing; /* of each step: weight on the left, squares, the same with missing rows on the left */
    pmb_vt_run *runs;
    uint64_t *level_key; /* of the levels of one feature, as the next two */
    int32_t *level_slot, *level_bin;
    const pmb_sum *level_cells; /* those of a feature, and how many there are from block to block */
    int64_t level_block;
    pmb_sum *kept,
        *level_total; /* cells of a group's levels in several blocks, and sums of the node's rows */
    double *level_vectors; /* PMB_VT_VECTORS, each with a number for each column */
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
#include "vectors_body.h"
#undef LANES
#define LANES 8
#include "vectors_body.h"
#undef LANES
#define LANES 16
#include "vectors_body.h"
#undef LANES

#define PMB_VT(lanes, name, ...) PMB_BY_LANES(name##i_, lanes, __VA_ARGS__)

/* The block whose lanes include n comes first. */
PMB_INLINE int pmb_vt_block(const pmb_vt_data *d, int turn) {
    int first = d->n_classes / d->lanes;
    return turn == 0 ? first : turn <= first ? turn - 1 : turn;
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
PMB_INLINE int pmb_vt_steps(const pmb_vt_data *d, int f, const pmb_sum *hist, int n_lane,
                            int64_t first, const int32_t *cells, const int32_t *places,
                            int32_t n_cells, int mode, int64_t weight, pmb_vt_scratch *s,
                            int32_t *next, pmb_vt_run *run) {
    int lanes = d->lanes, bins = d->c.n_bins[f];
    int32_t at = *next, *slot = s->slot, *bin = s->bin;
    int64_t left = 0, rest = weight;
    run->feature = f;
    run->first = at;
    run->missing = run->mode_at = PMB_VT_NONE;
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
            slot[at] = places[j];
            bin[at] = (int32_t)(cells[j] - first);
            s->left[at] = (double)left;
            at += n != 0;
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
                    slot[at] = PMB_VT_REST;
                    bin[at] = mode;
                    s->left[at++] = (double)left;
                }
                run->mode_at = mode;
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
                slot[at] = places[j];
                bin[at] = b;
                s->left[at++] = (double)left;
            }
        }
    run->count = at - run->first;
    if (run->count + (run->missing != PMB_VT_NONE) < 2) return 0;
    *next = at;
    return 1;
}

/* Scores of up to eight steps, in place of their squares, of which `in` are to be scored; best: the largest so far. Lane by
 * lane: vectors that are compared as such become scalars in gcc 12. */
PMB_INLINE void pmb_vt_scores_of_8(const double *PMB_RESTRICT left, double *PMB_RESTRICT d2, int in,
                                   double more, double total, double low,
                                   double *PMB_RESTRICT best) {
    PMB_LANES(k, 8) {
        const double l = left[k] + more, r = total - l, old = d2[k], q = old / (l * r);
        const double score = ((l >= low) & (r >= low) & (old > PMB_VT_NOISE)) ? q : -1,
                     own = k < in ? score : -1;
        d2[k] = k < in ? score : old;
        best[k] = own > best[k] ? own : best[k];
    }
}

/* Scores of n steps, in place of their squares: -1 where a side is too light or the squares are noise. Returns the
 * largest, or -1. Steps behind the last one stay; there is room for eight. */
PMB_CLONES PMB_STATIC double pmb_vt_scores(const double *PMB_RESTRICT left, double *PMB_RESTRICT d2,
                                           int n, double more, double total, double low) {
    double best[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    int j = 0;
    for (; j + 8 <= n; j += 8) pmb_vt_scores_of_8(left + j, d2 + j, 8, more, total, low, best);
    if (j < n) pmb_vt_scores_of_8(left + j, d2 + j, n - j, more, total, low, best);
    for (int half = 4; half; half /= 2)
        for (int l = 0; l < half; l++)
            best[l] = best[l + half] > best[l] ? best[l + half] : best[l];
    return best[0];
}

/* What a block adds to the squares of a run. */
PMB_INLINE void pmb_vt_steps_of(const pmb_vt_data *d, const pmb_sum *hist, pmb_vt_scratch *s,
                                const pmb_vt_run *run, const pmb_sum *total, int64_t weight,
                                int turn) {
    PMB_VT(d->lanes, pmb_vt_squares_, hist, s, run, total, weight, turn > 0);
}

/* Threshold of a step of a run, of those that part the rows alike the one that is marked and nearest to the middle, or -1. */
PMB_INLINE int32_t pmb_vt_marked(const pmb_vt_data *d, const pmb_vt_run *run, const int32_t *bin,
                                 int32_t j) {
    const uint8_t *used = d->used + d->used_at[run->feature];
    int32_t low = bin[j], high = bin[j + 1] - 1, middle = (low + high) / 2;
    for (int32_t far = 0; middle - far >= low || middle + far <= high; far++) {
        if (middle - far >= low && used[middle - far]) return middle - far;
        if (middle + far <= high && used[middle + far]) return middle + far;
    }
    return -1;
}

/* Lower the scores of steps without a marked threshold; returns the largest. The last step of all, between values and
 * missing ones, has no threshold of its own. */
PMB_STATIC double pmb_vt_pay(const pmb_vt_data *d, const pmb_vt_run *run, const int32_t *bin,
                             double *d2, int n) {
    double top = -1;
    for (int j = 0; j < n; j++) {
        if (d2[j] > 0 && j + 1 < run->count && pmb_vt_marked(d, run, bin, j) < 0)
            d2[j] *= d->new_worth;
        top = d2[j] > top ? d2[j] : top;
    }
    return top;
}

/* Number of the best step of a run: first of equals, missing values to the right before left (side 1). -1: none. Without
 * d all steps are worth the same. */
PMB_INLINE int32_t pmb_vt_pick(const pmb_vt_data *d, const pmb_vt_run *run, const pmb_vt_scratch *s,
                               int64_t weight, int64_t least, double *score, int32_t *side) {
    const double *left = s->left + run->first;
    double *d2 = s->d2 + run->first, *d2_missing = s->d2_missing + run->first, top;
    double total = (double)weight, low = (double)least;
    int any_missing = run->missing != PMB_VT_NONE, cuts = run->count - !any_missing,
        turned = any_missing ? run->count - 1 : 0;
    top = pmb_vt_scores(left, d2, cuts, 0, total, low);
    if (d && d->used) top = pmb_vt_pay(d, run, s->bin + run->first, d2, cuts);
    if (turned) {
        double other = pmb_vt_scores(left, d2_missing, turned, (double)run->n_missing, total, low);
        if (d && d->used) other = pmb_vt_pay(d, run, s->bin + run->first, d2_missing, turned);
        top = other > top ? other : top;
    }
    if (top < 0) return -1;
    for (int j = 0; j < cuts; j++) {
        int missing_left = d2[j] * PMB_VT_TIE < top;
        if (missing_left && (j >= turned || d2_missing[j] * PMB_VT_TIE < top)) continue;
        *score = missing_left ? d2_missing[j] : d2[j];
        *side = missing_left;
        return j;
    }
    return -1;
}

/* Best position of an ordered run. Where the node has no missing rows, those to come go to its heavier side. */
PMB_INLINE void pmb_vt_best(const pmb_vt_data *d, const pmb_vt_run *run, const pmb_vt_scratch *s,
                            int64_t weight, int64_t least, double *score, int32_t *code,
                            double *on_left) {
    const int32_t *bin = s->bin + run->first;
    int32_t side, j = pmb_vt_pick(d, run, s, weight, least, score, &side), b;
    if (j < 0) return;
    int32_t marked = d->used && j + 1 < run->count ? pmb_vt_marked(d, run, bin, j) : -1;
    b = bin[j];
    if (j + 1 == run->count)
        b = d->c.n_bins[run->feature] - 1;
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
PMB_INLINE int pmb_vt_is_rounding(const pmb_vt_data *d, double score, double left, double right) {
    const double most = d->row_error * (2 * d->rows_per_weight * left * right / (left + right) + 1);
    return score * left * right <= most * most;
}

/* Best of the features: those within the tie tolerance of the best are equal, and the first column wins. set: room for
 * the levels on the left. */
PMB_STATIC void pmb_vt_choose(const pmb_vt_data *d, const pmb_vt_place *p, pmb_node *node,
                              pmb_vt_node *its, uint64_t *set) {
    double top = -1;
    for (int32_t j = 0; j < p->n_features; j++) {
        int32_t f = p->features[j];
        if (d->worth && p->score[f] > 0) p->score[f] *= d->worth[f];
        top = p->score[f] > top ? p->score[f] : top;
    }
    if (top < 0) return;
    for (int32_t j = 0; j < p->n_features; j++) {
        int32_t f = p->features[j];
        if (p->score[f] * PMB_VT_TIE >= top) {
            node->feature = f;
            node->pos = p->code[f] >> 1;
            node->nan_left = p->code[f] & 1;
            node->gain = p->score[f] * (double)its->weight;
            if (pmb_vt_is_rounding(d, p->score[f], p->left[f], (double)its->weight - p->left[f]))
                node->gain = 0;
            its->left_weight = (int64_t)p->left[f];
            if (d->set_at && d->set_at[f] >= 0) {
                memcpy(set, p->sets + d->set_at[f],
                       sizeof(uint64_t) * (size_t)((d->c.n_bins[f] + 63) / 64));
                node->set = set;
            }
            return;
        }
    }
}

#endif
