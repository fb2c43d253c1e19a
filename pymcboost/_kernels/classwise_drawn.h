/* Class-wise trees: the best splits of small nodes on the features that they draw, without histograms of the others. For each
 * drawn feature only the cells of the node's rows are filled, looked at in order and emptied again. This is many times faster
 * where a node has few rows beside the bins of all features. The splits are the same, as sums are exact. Twin:
 * `best_threshold` in tests/reference/trees.py. */
#ifndef PYMCBOOST_CLASSWISE_DRAWN_H
#define PYMCBOOST_CLASSWISE_DRAWN_H

#include "classwise_histograms.h"

/* How long work takes, measured by that on a cell of a histogram, which is cleared, subtracted and scanned for two nodes: one
 * row of a node at a drawn feature takes PMB_DRAWN_ROW times as long, and PMB_FILLED_ROWS rows added to a histogram as long. */
#define PMB_DRAWN_ROW 3
#define PMB_FILLED_ROWS 8

/* Room for so many cuts; 0 if there is not enough. */
PMB_STATIC int pmb_cuts_new(pmb_cuts *cuts, size_t n) {
    cuts->g = malloc(n * (5 * sizeof(int64_t) + sizeof(int32_t)));
    if (!cuts->g) return 0;
    cuts->h = cuts->g + n;
    cuts->n = cuts->h + n;
    cuts->score = (double *)(cuts->n + n);
    cuts->with_missing = cuts->score + n;
    cuts->bin = (int32_t *)(cuts->with_missing + n);
    return 1;
}

/* Whether each feature has a lane of its own and is ordered. */
PMB_STATIC int pmb_has_ordered_lanes_only(const pmb_cw_data *data) {
    if (data->row_ptr || data->levels.set_start) return 0;
    for (int32_t f = 0; f < data->columns.n_features; f++)
        if (data->columns.mode[f] >= 0) return 0;
    return 1;
}

/* Whether it is faster to look at drawn features one by one. */
PMB_INLINE int pmb_drawn_pays(const pmb_cw_state *w, const pmb_cw_search *search) {
    const pmb_cw_data *data = w->data;
    int64_t n_filled = w->grower.nodes[search->filled].n,
            filled = n_filled * data->columns.n_lanes / PMB_FILLED_ROWS;
    int64_t n = n_filled + (search->sibling < 0 ? 0 : w->grower.nodes[search->sibling].n);
    return w->cells && w->n_drawn && !w->options->edge &&
           PMB_DRAWN_ROW * n * w->n_drawn < data->tile_cell[data->n_tiles + 1] + filled;
}

PMB_INLINE int pmb_lowest(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    int n = 0;
    for (; !(word & 1); word >>= 1) n++;
    return n;
#endif
}

/* Scores of n cuts, -1 where a side is too small, and the largest of them; g, h and count: sums of the rows on the left, to
 * which `more` are added. Scores that are not -1 are 0 or more, so that their bits have their order. */
#define PMB_CUT_SCORES(words, real, integer)                                                       \
    PMB_CLONES PMB_STATIC double pmb_cut_scores_##words(                                           \
        const int64_t *PMB_RESTRICT g, const int64_t *PMB_RESTRICT h,                              \
        const int64_t *PMB_RESTRICT count, int32_t n, pmb_sums more, pmb_sums total, pmb_limits q, \
        real h_factor, real l2, double *PMB_RESTRICT score) {                                      \
        int64_t largest_bits = INT64_MIN;                                                          \
        double largest = -1;                                                                       \
        for (int32_t i = 0; i < n; i++) {                                                          \
            const int64_t gl = g[i] + more.g, hl = h[i] + more.h, nl = count[i] + more.n;          \
            const int64_t gr = total.g - gl, hr = total.h - hl, nr = total.n - nl;                 \
            const int64_t too_small =                                                              \
                (nl - q.least_n) | (nr - q.least_n) | (hl - q.least_h) | (hr - q.least_h);         \
            const real fgl = (real)(integer)gl, fgr = (real)(integer)gr;                           \
            const real fhl = (real)(integer)hl * h_factor + l2,                                    \
                       fhr = (real)(integer)hr * h_factor + l2;                                    \
            const real d = fgl * fhr - fgr * fhl;                                                  \
            const double of_cut = (double)(d * d / (fhl * fhr));                                   \
            score[i] = too_small < 0 ? -1.0 : of_cut;                                              \
        }                                                                                          \
        for (int32_t i = 0; i < n; i++) {                                                          \
            int64_t bits;                                                                          \
            memcpy(&bits, score + i, sizeof bits);                                                 \
            largest_bits = bits > largest_bits ? bits : largest_bits;                              \
        }                                                                                          \
        if (largest_bits >= 0) memcpy(&largest, &largest_bits, sizeof largest_bits);               \
        return largest;                                                                            \
    }
PMB_CUT_SCORES(1, float, int32_t)
PMB_CUT_SCORES(2, double, int64_t)

/* The same, of one or two words. */
PMB_INLINE double pmb_cut_scores(const pmb_cw_state *w, const pmb_cuts *cuts, int32_t n,
                                 pmb_sums more, pmb_sums total, double *score) {
    const pmb_limits *q = &w->limits;
    if (w->options->cell_words == 1)
        return pmb_cut_scores_1(cuts->g, cuts->h, cuts->n, n, more, total, *q, q->h_factor,
                                q->scaled_l2, score);
    return pmb_cut_scores_2(cuts->g, cuts->h, cuts->n, n, more, total, *q, 1.0, q->l2, score);
}

/* List the cells with rows of `bins` bins, with the sums up to them, and empty them; returns how many there are. */
PMB_INLINE int32_t pmb_list_cells(const pmb_cw_state *w, int32_t bins, int words,
                                  const pmb_cuts *cuts) {
    pmb_sums left = {0, 0, 0};
    int32_t n = 0;
    for (int32_t word = 0; word <= bins >> 6; word++) {
        for (uint64_t bits = w->occupied[word]; bits; bits &= bits - 1) {
            int32_t b = 64 * word + pmb_lowest(bits);
            int64_t *cell = w->cells + words * b;
            pmb_sums_add(&left, pmb_cell(cell, w->options, 1), 1);
            for (int k = 0; k < words; k++) cell[k] = 0;
            cuts->bin[n] = b;
            cuts->g[n] = left.g;
            cuts->h[n] = left.h;
            cuts->n[n++] = left.n;
        }
        w->occupied[word] = 0;
    }
    return n;
}

/* The best cut of feature f for n rows with these words. Cells are empty before and after. */
PMB_INLINE void pmb_drawn_cut(const pmb_cw_state *w, int32_t f, const int32_t *PMB_RESTRICT rows,
                              int64_t n, const int64_t *PMB_RESTRICT gh, pmb_sums total, int wide,
                              int words, pmb_split *best) {
    const pmb_columns *c = &w->data->columns;
    const pmb_cuts *cuts = &w->cuts;
    int64_t *PMB_RESTRICT cells = w->cells;
    uint64_t *PMB_RESTRICT occupied = w->occupied;
    const uint8_t *codes8 = (const uint8_t *)c->codes + c->lane[f] * c->m;
    const uint16_t *codes16 = (const uint16_t *)c->codes + c->lane[f] * c->m;
    int32_t bins = c->n_bins[f], chosen = -1;
    for (int64_t i = 0; i < n; i++) {
        uint32_t code = wide ? codes16[rows[i]] : codes8[rows[i]];
        occupied[code >> 6] |= (uint64_t)1 << (code & 63);
        for (int k = 0; k < words; k++) cells[words * code + k] += gh[words * i + k];
    }
    pmb_split candidate = {-1, f, 0, 0, {0, 0, 0}, NULL, 1};
    const pmb_sums none = {0, 0, 0};
    pmb_sums missing = none;
    if (occupied[bins >> 6] >> (bins & 63) & 1) {
        missing = pmb_cell(cells + words * bins, w->options, 1);
        for (int k = 0; k < words; k++) cells[words * bins + k] = 0;
        occupied[bins >> 6] &= ~((uint64_t)1 << (bins & 63));
        candidate.no_missing = 0;
    }
    int32_t n_cuts = pmb_list_cells(w, bins, words, cuts);
    double largest = pmb_cut_scores(w, cuts, n_cuts, none, total, cuts->score);
    if (!candidate.no_missing) {
        double largest_with_missing =
            pmb_cut_scores(w, cuts, n_cuts, missing, total, cuts->with_missing);
        largest = largest_with_missing > largest ? largest_with_missing : largest;
        pmb_sums right = total;
        pmb_sums_add(&right, missing, -1);
        if (n_cuts && cuts->bin[0] > 0 && !pmb_too_small(missing, &w->limits) &&
            !pmb_too_small(right, &w->limits)) {
            candidate.score =
                pmb_score(missing, right, words, 0,
                          &w->limits); /* the empty bins below, with the missing values */
            candidate.nan_left = 1;
        }
    }
    if (largest > candidate.score) { /* the first of equal ones */
        candidate.score = largest;
        chosen = 0;
        while (cuts->score[chosen] != largest &&
               (candidate.no_missing || cuts->with_missing[chosen] != largest))
            chosen++;
        candidate.nan_left = cuts->score[chosen] != largest;
    }
    if (candidate.score < 0) return;
    if (chosen >= 0) {
        const pmb_sums left = {cuts->g[chosen], cuts->h[chosen], cuts->n[chosen]};
        candidate.left = left;
        candidate.pos = cuts->bin[chosen];
    }
    if (candidate.nan_left) pmb_sums_add(&candidate.left, missing, 1);
    if (chosen + 1 < n_cuts)
        candidate.pos =
            (candidate.pos + cuts->bin[chosen + 1] - 1) / 2; /* the middle of the empty bins */
    if (pmb_split_before(c, &candidate, best)) *best = candidate;
}

/* The best split of a node, whose gathered rows begin at `begin`. */
PMB_STATIC void pmb_drawn_split(pmb_cw_state *w, int32_t node_index, int side, int64_t begin) {
    const pmb_node *node = w->grower.nodes + node_index;
    const uint8_t *chosen = pmb_cw_features(w, node_index, side);
    const int32_t *rows = w->grower.rows + node->start;
    const int words = w->options->cell_words, wide = w->data->columns.code_bytes == 2;
    const int64_t *gh =
        node->n == w->data->columns.m ? w->gh : w->gathered + words * (node->start - begin);
    const pmb_sums total = w->stats[node_index].sums;
    pmb_split *best = w->best_of_part + side;
    int32_t n = pmb_marked(chosen, w->data->columns.n_features, w->drawn);
    best->score = -1;
    for (int32_t j = 0; j < n; j++) {
        if (wide)
            pmb_drawn_cut(w, w->drawn[j], rows, node->n, gh, total, 1, 2, best);
        else if (words == 2)
            pmb_drawn_cut(w, w->drawn[j], rows, node->n, gh, total, 0, 2, best);
        else
            pmb_drawn_cut(w, w->drawn[j], rows, node->n, gh, total, 0, 1, best);
    }
    pmb_cw_choose(w, node_index, side, 1);
}

/* `pmb_cw_find_splits` on the drawn features alone; the children of its nodes have no histogram of theirs to begin with. */
PMB_STATIC void pmb_cw_find_splits_of_drawn(pmb_cw_state *w, const pmb_cw_search *search) {
    const pmb_node *filled = w->grower.nodes + search->filled,
                   *sibling = search->sibling >= 0 ? w->grower.nodes + search->sibling : NULL;
    int64_t begin = filled->start, n = filled->n;
    if (sibling) {
        begin = filled->start < sibling->start ? filled->start : sibling->start;
        n += sibling->n;
        w->stats[search->sibling].no_histogram = 1;
    }
    w->stats[search->filled].no_histogram = 1;
    if (filled->n != w->data->columns.m) pmb_cw_gather(w, w->grower.rows + begin, n);
    if (search->want_filled) pmb_drawn_split(w, search->filled, 0, begin);
    if (search->want_sibling) pmb_drawn_split(w, search->sibling, 1, begin);
}

#endif
