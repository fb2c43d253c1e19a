/* Best-first growing of trees with vector leaves on binned columns, in exact integer arithmetic.
 *
 * Problem: given the gradient rows G_i (K numbers) and weights n_i of m rows, split nodes so that
 * sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T) = |G_L - n_L G_T / n_T|^2 n_T / (n_L n_R) is largest, on a fresh
 * random share of the features at every node.
 *
 * G and n are int32, scaled so that no sum overflows: sums are exact, in whatever order and by however many threads
 * they are formed, and a set of rows is empty if and only if its n is 0. Class k is in lane k, n in lane K; more than
 * 15 classes take several blocks of 16 lanes.
 */
#ifndef PYMCBOOST_VTREES_H
#define PYMCBOOST_VTREES_H

#include "lanes.h"
#include <stdlib.h>

#define PMB_GROUP 8          /* columns whose histograms are filled together */
#define PMB_VT_TIE (1 + 1e-10)
#define PMB_VT_NOISE 1.0     /* squared units: below it a difference is rounding of the gradient */
#define PMB_VT_NONE (-1)
#define PMB_VT_REST (-2)
#define PMB_VT_AHEAD 12      /* rows between the prefetched gradient and the current one */
#define PMB_VT_FAR 16        /* the same for codes; `rows` has as many more places */
#define PMB_VT_CELLS 256     /* sparse cells, to the end of a feature, that are searched together */
#define PMB_VT_CHUNK 8192    /* sparse cells of a node that one thread searches */

#if PMB_VECTORS && defined(__has_builtin) && !defined(PMB_SHUFFLES)
#if __has_builtin(__builtin_shufflevector)
#define PMB_SHUFFLES 1
#endif
#endif

/* Sparse columns have entries: the rows with other values than the mode. Those of a cell lie side by side. */
typedef struct {
    int32_t cell, count;
} pmb_vt_cell;

typedef struct {
    int64_t m;
    int32_t n_lanes, n_features, code_bytes, n_classes, lanes, blocks, max_cells;
    const void *codes;           /* (n_lanes, m) */
    const int32_t *lane, *cell0, *n_bins, *has_missing, *mode; /* by feature */
    const int32_t *lane_ptr, *lane_feature, *lane_cells;       /* by lane */
    const int64_t *row_ptr;      /* ends of the rows' sparse entries, NULL if there are none */
    const int32_t *cell_feature; /* of the sparse cells */
    const int32_t *skip;         /* by lane: code of most rows, which need not be counted; -1: none */
    const uint64_t *others;      /* (n_lanes, words of m bits) rows with other codes */
} pmb_vt_data;

typedef struct {
    int64_t start, n, weight;
    const int32_t *entries;  /* rows of the entries, by cell, then by row */
    const pmb_vt_cell *cells; /* those with entries */
    int64_t first_entry, n_entries, n_cells; /* `first_entry` among those of all rows */
    uint64_t key;      /* of its random numbers */
    double gain;       /* < 0: cannot be split */
    int32_t depth, left, right, feature, pos, nan_left, is_split;
} pmb_vt_node;

/* One feature in a group: its occupied value bins in order are steps [first, first + count). */
typedef struct {
    int32_t feature, first, count, gone, mode_at;
    /* gone: cell of the missing rows, NONE: there are none. REST for a cell: the mode, all rows but the others */
    int64_t n_gone;
} pmb_vt_run;

/* One thread's memory. */
typedef struct {
    int32_t *hist;     /* all zero between two searches of lanes */
    uint64_t *bits;
    int32_t *occupied; /* cells in use, ascending; PMB_GROUP lists, or one of sparse cells */
    int32_t *numbers;  /* 0, 1, 2, ... */
    int32_t *its_count;          /* of sparse cells: entries, and where in the node these begin */
    int64_t *its_first;
    int32_t *slot, *bin;
    double *left, *d2, *d2_gone; /* of each step: weight on the left, squares, the same with missing rows on the left */
    pmb_vt_run *runs;
} pmb_vt_scratch;

#if PMB_VECTORS
typedef double pmb_vt_wide __attribute__((vector_size(64)));
typedef double pmb_vt_loose __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t pmb_vt_mask __attribute__((vector_size(64)));
#endif

PMB_INLINE uint64_t pmb_vt_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#define PMB_VT_GOLDEN 0x9E3779B97F4A7C15u

PMB_INLINE uint64_t pmb_vt_child_key(uint64_t key, int right) {
    return pmb_vt_mix(key + (right ? 3 : 2) * PMB_VT_GOLDEN + 1);
}

/* Mark `take` of the n features, all sets equally likely (Knuth's selection sampling). */
PMB_CLONES PMB_STATIC void pmb_vt_sample(uint64_t key, int32_t n, int32_t take, uint8_t *PMB_RESTRICT chosen) {
    uint32_t u[64]; /* ahead of the decisions, which wait for each other */
    uint64_t needed = (uint64_t)take;
    for (int32_t from = 0; from < n; from += 64) {
        int32_t count = n - from < 64 ? n - from : 64;
        for (int32_t j = 0; j < 64; j++)
            u[j] = (uint32_t)(pmb_vt_mix(key + ((uint64_t)from + (uint64_t)j + 4) * PMB_VT_GOLDEN) >> 32);
        for (int32_t j = 0; j < count; j++) {
            uint8_t yes = ((uint64_t)u[j] * (uint64_t)(n - from - j)) >> 32 < needed;
            chosen[from + j] = yes;
            needed -= yes;
        }
    }
}

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
#include "vtrees_body.h"
#undef LANES
#define LANES 8
#include "vtrees_body.h"
#undef LANES
#define LANES 16
#include "vtrees_body.h"
#undef LANES

#define PMB_VT(lanes, name, ...)                        \
    do {                                                \
        if ((lanes) == 4) name##i_4(__VA_ARGS__);       \
        else if ((lanes) == 8) name##i_8(__VA_ARGS__);  \
        else name##i_16(__VA_ARGS__);                   \
    } while (0)

/* The block whose lanes include n comes first. */
PMB_INLINE int pmb_vt_block(const pmb_vt_data *d, int turn) {
    int first = d->n_classes / d->lanes;
    return turn == 0 ? first : turn <= first ? turn - 1 : turn;
}

/* Copy the gradient rows of a node side by side, every block, and add them up. A, out: (blocks, m, lanes). */
PMB_STATIC void pmb_vt_gather(const pmb_vt_data *d, const int32_t *A, const int32_t *rows, int64_t start, int64_t n,
                              int32_t *out, int32_t *totals) {
    for (int b = 0; b < d->blocks; b++) {
        int64_t at = (int64_t)b * d->m;
        PMB_VT(d->lanes, pmb_vt_gather_, A + at * d->lanes, rows + start, n, out + (at + start) * d->lanes,
               totals + b * d->lanes);
    }
}

PMB_STATIC void pmb_vt_totals(const pmb_vt_data *d, const int32_t *A, int32_t *totals) {
    for (int b = 0; b < d->blocks; b++)
        PMB_VT(d->lanes, pmb_vt_sum_, A + (int64_t)b * d->m * d->lanes, d->m, totals + b * d->lanes);
}

/* Cells in use, ascending, from the weights in the histogram or from the marks, which are cleared. */
PMB_INLINE int32_t pmb_vt_occupied(const int32_t *hist, int lanes, int n_lane, int64_t base, int64_t cells,
                                   uint64_t *bits, int32_t *out) {
    int32_t count = 0;
    if (!bits) {
        const int32_t *n = hist + base * lanes + n_lane;
        for (int64_t c = 0; c < cells; c++) {
            out[count] = (int32_t)(base + c);
            count += n[c * lanes] != 0;
        }
        return count;
    }
    for (int64_t w = 0; w < (cells + 63) / 64; w++) {
        uint64_t word = bits[w];
        bits[w] = 0;
        for (; word; word &= word - 1) out[count++] = (int32_t)(base + 64 * w + pmb_vt_lowest_bit(word));
    }
    return count;
}

/* Steps of feature f, whose cells in use follow each other in `cells`, and their places in the histogram in `places`;
 * returns 1 if it can be split at all. first: of its cells; mode: bin that was not counted, or -1. */
PMB_INLINE int pmb_vt_steps(const pmb_vt_data *d, int f, const int32_t *hist, int n_lane, int64_t first,
                            const int32_t *cells, const int32_t *places, int32_t n_cells, int mode, int64_t weight,
                            pmb_vt_scratch *s, int32_t *next, pmb_vt_run *run) {
    int lanes = d->lanes, bins = d->n_bins[f];
    int32_t at = *next, *slot = s->slot, *bin = s->bin;
    int64_t left = 0, rest = weight;
    run->feature = f;
    run->first = at;
    run->gone = run->mode_at = PMB_VT_NONE;
    run->n_gone = 0;
    if (mode >= 0) {
        for (int32_t j = 0; j < n_cells; j++) rest -= hist[(int64_t)places[j] * lanes + n_lane];
        if (rest == 0) mode = -1;
    }
    if (mode < 0) {
        if (n_cells && cells[n_cells - 1] == first + bins) {
            run->gone = places[--n_cells];
            run->n_gone = hist[(int64_t)run->gone * lanes + n_lane];
        }
        for (int32_t j = 0; j < n_cells; j++, at++) {
            left += hist[(int64_t)places[j] * lanes + n_lane];
            slot[at] = places[j];
            bin[at] = (int32_t)(cells[j] - first);
            s->left[at] = (double)left;
        }
    } else
        for (int32_t j = 0; j <= n_cells; j++) {
            int b = j < n_cells ? (int)(cells[j] - first) : bins + 1;
            if (mode >= 0 && mode < b) {
                if (mode == bins) {
                    run->gone = PMB_VT_REST;
                    run->n_gone = rest;
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
            if (b == bins) {
                run->gone = places[j];
                run->n_gone = n;
            } else {
                left += n;
                slot[at] = places[j];
                bin[at] = b;
                s->left[at++] = (double)left;
            }
        }
    run->count = at - run->first;
    if (run->count + (run->gone != PMB_VT_NONE) < 2) return 0;
    *next = at;
    return 1;
}

/* Scores of n steps, in place of their squares: -1 where a side is too light or the squares are noise. Returns the
 * largest, or -1. */
PMB_CLONES PMB_STATIC double pmb_vt_scores(const double *PMB_RESTRICT left, double *PMB_RESTRICT d2, int n, double more,
                                           double total, double low) {
    double top = -1;
    int j = 0;
#if PMB_VECTORS
    pmb_vt_wide best = (pmb_vt_wide){0} - 1, none = best;
    for (; j + 8 <= n; j += 8) {
        pmb_vt_wide l = *(const pmb_vt_loose *)(left + j) + more, r = total - l, q = *(pmb_vt_loose *)(d2 + j);
        pmb_vt_mask ok = (l >= low) & (r >= low) & (q > PMB_VT_NOISE), better;
        q = q / (l * r);
        q = (pmb_vt_wide)((ok & (pmb_vt_mask)q) | (~ok & (pmb_vt_mask)none));
        *(pmb_vt_loose *)(d2 + j) = q;
        better = q > best;
        best = (pmb_vt_wide)((better & (pmb_vt_mask)q) | (~better & (pmb_vt_mask)best));
    }
    for (int l = 0; l < 8; l++) top = best[l] > top ? best[l] : top;
#endif
    for (; j < n; j++) {
        double l = left[j] + more, r = total - l;
        d2[j] = l >= low && r >= low && d2[j] > PMB_VT_NOISE ? d2[j] / (l * r) : -1;
        top = d2[j] > top ? d2[j] : top;
    }
    return top;
}

/* Best position of a run: first of equals, missing values to the right before left. */
PMB_INLINE void pmb_vt_best(const pmb_vt_data *d, const pmb_vt_run *run, const pmb_vt_scratch *s, int64_t weight,
                            int64_t least, int middle, double *score, int32_t *code) {
    const double *left = s->left + run->first;
    double *d2 = s->d2 + run->first, *d2_gone = s->d2_gone + run->first, top;
    double total = (double)weight, low = (double)least;
    const int32_t *bin = s->bin + run->first;
    int any_gone = run->gone != PMB_VT_NONE, cuts = run->count - !any_gone, turned = any_gone ? run->count - 1 : 0;
    top = pmb_vt_scores(left, d2, cuts, 0, total, low);
    if (turned) {
        double other = pmb_vt_scores(left, d2_gone, turned, (double)run->n_gone, total, low);
        top = other > top ? other : top;
    }
    if (top < 0) return;
    for (int j = 0; j < cuts; j++) {
        int side = d2[j] * PMB_VT_TIE < top, b = bin[j];
        if (side && (j >= turned || d2_gone[j] * PMB_VT_TIE < top)) continue;
        if (j + 1 == run->count) b = d->n_bins[run->feature] - 1;
        else if (middle) b = (b + bin[j + 1] - 1) / 2;
        *score = side ? d2_gone[j] : d2[j];
        *code = 2 * b + side;
        return;
    }
}

/* Squares of all runs for one block of classes; after the last one, the best positions. */
PMB_INLINE void pmb_vt_judge(const pmb_vt_data *d, const pmb_vt_node *node, const int32_t *total, int turn,
                             int32_t n_runs, int64_t least, int middle, pmb_vt_scratch *s, double *score,
                             int32_t *code) {
    for (int j = 0; j < n_runs; j++)
        PMB_VT(d->lanes, pmb_vt_squares_, s->hist, s, s->runs + j, total, node->weight, turn > 0);
    if (turn + 1 < d->blocks) return;
    for (int j = 0; j < n_runs; j++) {
        int f = s->runs[j].feature;
        pmb_vt_best(d, s->runs + j, s, node->weight, least, middle, score + f, code + f);
    }
}

/* Fill the histograms of a group of lanes, and search their chosen features.
 * A: gradients in the order of `rows`, all_A in that of the data; in_node: bits of the node's rows, or NULL. */
PMB_STATIC void pmb_vt_search(const pmb_vt_data *d, const pmb_vt_node *node, const int32_t *totals,
                              const uint8_t *chosen, const int32_t *group, int n_group, const int32_t *rows,
                              const int32_t *A, const uint64_t *in_node, const int32_t *all_A, int64_t least,
                              int middle, pmb_vt_scratch *s, double *score, int32_t *code) {
    const void *cols[PMB_GROUP];
    const int32_t *its_rows = rows + node->start;
    int64_t n = node->n, base[PMB_GROUP], cap = d->max_cells, words = (cap + 63) / 64;
    int L = d->lanes, n_lane = d->n_classes % L, n_runs = 0, marked = n < d->max_cells;
    int32_t n_occupied[PMB_GROUP] = {0}, next = 0, n_counted = 0;
    int64_t counted_at[PMB_GROUP];
    int skipped[PMB_GROUP] = {0};
    for (int q = 0; q < n_group; q++) {
        base[q] = q * cap;
        skipped[q] = !marked && in_node && d->skip[group[q]] >= 0;
        if (skipped[q]) continue;
        cols[n_counted] = (const char *)d->codes + (int64_t)group[q] * d->m * d->code_bytes;
        counted_at[n_counted++] = base[q];
    }
    for (int turn = 0; turn < d->blocks; turn++) {
        int b = pmb_vt_block(d, turn);
        const int32_t *a = A + ((int64_t)b * d->m + node->start) * L;
        int32_t *hist = s->hist;
        uint64_t *bits = marked && turn == 0 ? s->bits : NULL;
        if (n_counted && d->code_bytes == 1)
            PMB_VT(L, pmb_vt_fill_8_, cols, n_counted, its_rows, n, a, hist, counted_at, bits, words);
        else if (n_counted)
            PMB_VT(L, pmb_vt_fill_16_, cols, n_counted, its_rows, n, a, hist, counted_at, bits, words);
        for (int q = 0; q < n_group; q++)
            if (skipped[q])
                PMB_VT(L, pmb_vt_fill_others_, (const uint8_t *)d->codes + (int64_t)group[q] * d->m,
                       d->others + group[q] * ((d->m + 63) / 64), in_node, (d->m + 63) / 64,
                       all_A + (int64_t)b * d->m * L, hist + base[q] * L);
        for (int q = 0; q < n_group && turn == 0; q++) {
            int32_t *cells = s->occupied + q * cap, from = 0, to, count;
            count = pmb_vt_occupied(hist, L, n_lane, base[q], d->lane_cells[group[q]], bits ? bits + q * words : NULL,
                                    cells);
            n_occupied[q] = count;
            for (int j = d->lane_ptr[group[q]]; j < d->lane_ptr[group[q] + 1]; j++) {
                int f = d->lane_feature[j];
                if (!chosen[f]) continue;
                int64_t first = base[q] + d->cell0[f], end = first + d->n_bins[f] + d->has_missing[f];
                to = count;
                if (d->mode[f] >= 0) {
                    while (from < count && cells[from] < first) from++;
                    for (to = from; to < count && cells[to] < end; to++) {}
                }
                n_runs += pmb_vt_steps(d, f, hist, n_lane, first, cells + from, cells + from, to - from,
                                       d->mode[f] < 0 && skipped[q] ? d->skip[group[q]] : d->mode[f], node->weight, s,
                                       &next, s->runs + n_runs);
                from = to;
            }
        }
        pmb_vt_judge(d, node, totals + b * L, turn, n_runs, least, middle, s, score, code);
        for (int q = 0; q < n_group; q++) PMB_VT(L, pmb_vt_clear_, hist, s->occupied + q * cap, n_occupied[q]);
    }
}

/* Search the chosen sparse features whose first cell in the node is one of [from, to) of its cells; entry: the first of
 * cell `from`. A few features at a time: their histogram stays in the fastest cache. A: in the data's order. */
PMB_STATIC void pmb_vt_search_sparse(const pmb_vt_data *d, const pmb_vt_node *node, const int32_t *totals,
                                     const uint8_t *chosen, int64_t from, int64_t to, int64_t entry, const int32_t *A,
                                     int64_t least, int middle, pmb_vt_scratch *s, double *score, int32_t *code) {
    const pmb_vt_cell *cell = node->cells;
    int64_t c = from, e = entry, end = node->n_cells;
    int L = d->lanes, n_lane = d->n_classes % L;
    int32_t *PMB_RESTRICT cells = s->occupied, *PMB_RESTRICT its_count = s->its_count;
    int64_t *PMB_RESTRICT its_first = s->its_first;
    if (to > end) to = end;
    for (int f = from ? d->cell_feature[cell[from - 1].cell] : -1; c < end && d->cell_feature[cell[c].cell] == f; c++)
        e += cell[c].count;
    while (c < to) {
        int32_t n = 0, next = 0, n_runs = 0;
        while (c < to && n < PMB_VT_CELLS) {
            int f = d->cell_feature[cell[c].cell];
            int32_t stop = d->cell0[f] + d->n_bins[f] + d->has_missing[f];
            if (!chosen[f]) {
                for (; c < end && cell[c].cell < stop; c++) e += cell[c].count;
                continue;
            }
            for (; c < end && cell[c].cell < stop; c++, n++) {
                cells[n] = cell[c].cell;
                its_count[n] = cell[c].count;
                its_first[n] = e;
                e += cell[c].count;
            }
        }
        for (int turn = 0; turn < d->blocks; turn++) {
            int b = pmb_vt_block(d, turn);
            PMB_VT(L, pmb_vt_fill_sparse_, node->entries, its_first, its_count, n,
                   A + (int64_t)b * d->m * L, s->hist);
            for (int32_t j = 0, next_j; j < n && turn == 0; j = next_j) {
                int f = d->cell_feature[cells[j]];
                for (next_j = j; next_j < n && d->cell_feature[cells[next_j]] == f; next_j++) {}
                n_runs += pmb_vt_steps(d, f, s->hist, n_lane, d->cell0[f], cells + j, s->numbers + j, next_j - j,
                                       d->mode[f], node->weight, s, &next, s->runs + n_runs);
            }
            pmb_vt_judge(d, node, totals + b * L, turn, n_runs, least, middle, s, score, code);
        }
    }
}

/* Best of the features: those within the tie tolerance of the best are equal, and the first column wins. */
PMB_STATIC void pmb_vt_choose(const pmb_vt_data *d, const double *score, const int32_t *code, pmb_vt_node *node) {
    double top = -1;
    for (int f = 0; f < d->n_features; f++) top = score[f] > top ? score[f] : top;
    node->gain = -1;
    if (top < 0) return;
    for (int f = 0; f < d->n_features; f++)
        if (score[f] * PMB_VT_TIE >= top) {
            node->feature = f;
            node->pos = code[f] >> 1;
            node->nan_left = code[f] & 1;
            node->gain = score[f] * (double)node->weight;
            return;
        }
}

/* Stable partition of n row numbers by the side of their codes: left ones to `at`, right ones to `right`. */
#define PMB_VT_PART(bits)                                                                                  \
    PMB_STATIC int64_t pmb_vt_part_##bits(const uint##bits##_t *PMB_RESTRICT codes,                        \
                                          const uint8_t *PMB_RESTRICT side, int32_t *PMB_RESTRICT at,      \
                                          int64_t n, int32_t *PMB_RESTRICT right) {                        \
        int64_t l = 0;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                  \
            int32_t row = at[i];                                                                           \
            at[l] = right[i - l] = row;                                                                    \
            l += side[codes[row]];                                                                         \
        }                                                                                                  \
        return l;                                                                                          \
    }
PMB_VT_PART(8)
PMB_VT_PART(16)

/* Rows of a node to its children, those of each in order. Returns the number on the left.
 * row_side: sides of rows, set where the feature is sparse. */
PMB_STATIC int64_t pmb_vt_partition(const pmb_vt_data *d, const pmb_vt_node *node, int32_t *rows, int32_t *spare,
                                    uint8_t *side, uint8_t *row_side) {
    static const uint8_t same[2] = {0, 1};
    int f = node->feature, bins = d->n_bins[f], mode = d->mode[f], lane = d->lane[f];
    int32_t cell0 = d->cell0[f], *at = rows + node->start, *right = spare + node->start;
    int cells = bins + d->has_missing[f];
    int64_t l;
    uint8_t rest = mode < 0 ? 0 : mode == bins ? (uint8_t)node->nan_left : mode <= node->pos, *its_side = side;
    if (lane >= 0) { /* side of every code of the lane */
        memset(side, rest, (size_t)d->lane_cells[lane]);
        its_side += cell0;
    }
    for (int b = 0; b < cells; b++) its_side[b] = b == bins ? (uint8_t)node->nan_left : b <= node->pos;
    if (lane >= 0) {
        const char *codes = (const char *)d->codes + (int64_t)lane * d->m * d->code_bytes;
        if (d->code_bytes == 1) l = pmb_vt_part_8((const uint8_t *)codes, side, at, node->n, right);
        else l = pmb_vt_part_16((const uint16_t *)codes, side, at, node->n, right);
    } else {
        for (int64_t i = 0; i < node->n; i++) row_side[at[i]] = rest;
        int64_t c = 0, e = 0;
        for (; c < node->n_cells && node->cells[c].cell < cell0; c++) e += node->cells[c].count;
        for (; c < node->n_cells && node->cells[c].cell < cell0 + cells; c++)
            for (int32_t j = 0; j < node->cells[c].count; j++)
                row_side[node->entries[e++]] = side[node->cells[c].cell - cell0];
        l = pmb_vt_part_8(row_side, same, at, node->n, right);
    }
    memcpy(at + l, right, sizeof(int32_t) * (size_t)(node->n - l));
    return l;
}

/* Entries of a node to its children's, which begin at the same place of `entries` and `cells` as the node's own.
 * row_side: as `pmb_vt_partition` has set it, which it does where no feature has a lane. */
PMB_STATIC void pmb_vt_part_entries(const pmb_vt_data *d, const pmb_vt_node *node, const int32_t *left_rows,
                                    const uint8_t *PMB_RESTRICT row_side, int32_t *PMB_RESTRICT entries,
                                    pmb_vt_cell *PMB_RESTRICT cells, pmb_vt_node *left, pmb_vt_node *right) {
    int64_t n = 0, l = 0, r, n_left = 0, n_right = 0;
    const int32_t *PMB_RESTRICT row = node->entries;
    const pmb_vt_cell *PMB_RESTRICT cell = node->cells;
    for (int64_t i = 0; i < left->n; i++) n += d->row_ptr[left_rows[i] + 1] - d->row_ptr[left_rows[i]];
    pmb_vt_cell *right_cells = cells + n;
    r = n;
    for (int64_t c = 0; c < node->n_cells; c++) {
        int32_t count = cell[c].count, on_left;
        int64_t before = l;
        for (int32_t j = 0; j < count; j++) {
            int32_t it = *row++;
            int64_t yes = row_side[it];
            entries[yes ? l : r] = it;
            l += yes;
            r += 1 - yes;
        }
        on_left = (int32_t)(l - before);
        if (on_left) cells[n_left++] = (pmb_vt_cell){cell[c].cell, on_left};
        if (on_left < count) right_cells[n_right++] = (pmb_vt_cell){cell[c].cell, count - on_left};
    }
    left->entries = entries;
    left->cells = cells;
    left->first_entry = node->first_entry;
    left->n_entries = n;
    left->n_cells = n_left;
    right->entries = entries + n;
    right->cells = right_cells;
    right->first_entry = node->first_entry + n;
    right->n_entries = node->n_entries - n;
    right->n_cells = n_right;
}

/* Two ascending runs of rows, next to each other, become one. */
PMB_STATIC void pmb_vt_merge(int32_t *rows, int64_t n_left, int64_t n, int32_t *spare) {
    int64_t i = 0, j = n_left;
    memcpy(spare, rows, sizeof(int32_t) * (size_t)n);
    for (int64_t k = 0; k < n; k++) rows[k] = j == n || (i < n_left && spare[i] < spare[j]) ? spare[i++] : spare[j++];
}

PMB_STATIC void pmb_vt_scratch_free(pmb_vt_scratch *s) {
    free(s->bits);
    free(s->occupied);
    free(s->numbers);
    free(s->its_count);
    free(s->its_first);
    free(s->slot);
    free(s->bin);
    free(s->left);
    free(s->d2);
    free(s->d2_gone);
    free(s->runs);
}

/* hist: cells * lanes, zero, 64-byte aligned. 0 where there is not enough memory. */
PMB_STATIC int pmb_vt_scratch_new(pmb_vt_scratch *s, int64_t cells, int64_t n_features, int32_t *hist) {
    size_t steps = (size_t)(cells + n_features + 1);
    s->hist = hist;
    s->bits = calloc((size_t)cells / 64 + PMB_GROUP + 1, sizeof(uint64_t));
    s->occupied = malloc(steps * sizeof(int32_t));
    s->numbers = malloc(steps * sizeof(int32_t));
    s->its_count = malloc(steps * sizeof(int32_t));
    s->its_first = malloc(steps * sizeof(int64_t));
    s->slot = malloc(steps * sizeof(int32_t));
    s->bin = malloc(steps * sizeof(int32_t));
    s->left = malloc(steps * sizeof(double));
    s->d2 = malloc(steps * sizeof(double));
    s->d2_gone = malloc(steps * sizeof(double));
    s->runs = malloc((size_t)(n_features + 1) * sizeof(pmb_vt_run));
    if (!(s->bits && s->occupied && s->numbers && s->its_count && s->its_first && s->slot && s->bin && s->left && s->d2 &&
          s->d2_gone && s->runs))
        return 0;
    for (size_t j = 0; j < steps; j++) s->numbers[j] = (int32_t)j;
    return 1;
}

/* Bits of the rows of a node. */
PMB_STATIC void pmb_vt_mark(const int32_t *rows, int64_t n, int64_t m, uint64_t *bits) {
    memset(bits, 0, sizeof(uint64_t) * (size_t)((m + 63) / 64));
    for (int64_t i = 0; i < n; i++) bits[rows[i] >> 6] |= (uint64_t)1 << (rows[i] & 63);
}

/* Bits of the rows of a lane with other codes than the given one; returns their number. */
PMB_STATIC int64_t pmb_vt_others(const uint8_t *codes, int64_t m, int code, uint64_t *bits) {
    int64_t n = 0;
    for (int64_t w = 0; w < (m + 63) / 64; w++) {
        uint64_t word = 0;
        int64_t last = m - 64 * w < 64 ? m - 64 * w : 64;
        for (int64_t i = 0; i < last; i++) word |= (uint64_t)(codes[64 * w + i] != code) << i;
        bits[w] = word;
        for (; word; word &= word - 1) n++;
    }
    return n;
}

#endif
