/* Class-wise trees on rows that are divided among workers: several trees are grown in step.
 *
 * In every step each tree parts its next node. The workers add up how many rows went left. Each fills the histogram of the
 * smaller child from its own rows, one message adds up the histograms of all trees, and each worker scans the sums. So all
 * find the splits of one worker with all rows: the sums are exact. If the message is large, each worker gets the sums of
 * some tiles only, scans these, and tells all what it found. A tile of a tree stays with one worker, which keeps the sums
 * of the parents and subtracts those of the children. */
#ifndef PYMCBOOST_CLASSWISE_WORKERS_H
#define PYMCBOOST_CLASSWISE_WORKERS_H

#include "classwise_grow.h"

#define PMB_STEP_RECORD 5 /* words of what is found in a tile; a set of levels follows them */

/* Where one tree is between two messages. */
typedef struct {
    pmb_cw_search search; /* whose splits are sought; filled < 0: no node's */
    int64_t place;        /* of its histograms in the message */
    int64_t begin;        /* first of its gathered rows */
    int32_t leaf;         /* place in `open` of the leaf that has just been parted; -1: none */
    int32_t done;         /* 1: no split is left */
    int32_t first_tile, end_tile; /* tiles that this worker scans: [first_tile, end_tile) */
} pmb_cw_step;

/* Begin with the n rows in w->grower.rows: their sums, and their number, to be added up (4,). */
PMB_STATIC void pmb_cw_step_begin(const pmb_cw_state *w, int64_t n, int64_t *sums) {
    pmb_sums own = pmb_cw_sums_of_rows(w, n);
    sums[0] = own.g;
    sums[1] = own.h;
    sums[2] = own.n;
    sums[3] = n;
}

/* Ask for the split of the root. */
PMB_INLINE void pmb_cw_step_again(pmb_cw_state *w, pmb_cw_step *s, int64_t n) {
    const pmb_cw_search root = {0, -1, 1, 0}, none = {-1, -1, 0, 0};
    s->search = pmb_cw_begin_tree(w, n) ? root : none;
    s->leaf = -1;
    s->done = 0;
}

/* Ask for the split of the root, n rows of which are here, with the sums of all. */
PMB_STATIC void pmb_cw_step_root(pmb_cw_state *w, pmb_cw_step *s, int64_t n, const int64_t *sums) {
    pmb_sums all = {sums[0], sums[1], sums[2]};
    pmb_cw_root(w, all, sums[3]);
    s->first_tile = 0;
    s->end_tile = w->data->n_tiles;
    pmb_cw_step_again(w, s, n);
}

/* Share the tiles of n trees among workers; cells: (n, workers), what each scans of every tree. */
PMB_STATIC void pmb_cw_step_share(const pmb_cw_state *w, pmb_cw_step *step, int n, int workers,
                                  int rank, int64_t *cells) {
    const int64_t *first = w->data->tile_cell, all = first[w->data->n_tiles];
    memset(cells, 0, sizeof(int64_t) * (size_t)n * (size_t)workers);
    for (int j = 0; j < n; j++) {
        step[j].first_tile = step[j].end_tile = 0;
        for (int t = 0; t < w->data->n_tiles; t++) {
            int64_t n_cells = first[t + 1] - first[t];
            int owner = pmb_owner(j * all + first[t], n_cells, n * all, workers);
            cells[j * workers + owner] += n_cells;
            step[j].first_tile += owner < rank;
            step[j].end_tile += owner <= rank;
        }
    }
}

/* Part the next node; how many of its rows here go left. */
PMB_STATIC int64_t pmb_cw_step_part(pmb_cw_state *w, pmb_cw_step *s) {
    s->search.filled = -1;
    s->leaf = -1;
    if (s->done) return 0;
    if (w->grower.splits_left > 0) s->leaf = w->grower.next_leaf = pmb_best_open(&w->grower, NULL);
    /* what was drawn for the root cannot split it */
    if (s->leaf < 0 && w->grower.splits_left == w->grower.max_leaves - 1 && w->n_drawn) {
        w->n_drawn = 0;
        pmb_cw_step_again(w, s, w->grower.nodes[0].n);
    } else if (s->leaf < 0) {
        s->done = 1;
    } else {
        pmb_node *node = w->grower.nodes + w->grower.open[s->leaf];
        pmb_cw_add_children(w, node);
        return w->grower.nodes[node->left].n;
    }
    return 0;
}

/* After so many rows of all workers went left: whose splits are sought next. */
PMB_STATIC void pmb_cw_step_next_search(pmb_cw_state *w, pmb_cw_step *s, int64_t n_left) {
    if (s->leaf < 0) return;
    int32_t node_index = w->grower.open[s->leaf];
    const pmb_node *node = w->grower.nodes + node_index;
    w->stats[node->left].rows = n_left;
    w->stats[node->right].rows = w->stats[node_index].rows - n_left;
    pmb_close(&w->grower);
    if (w->grower.splits_left > 0) s->search = pmb_cw_next_search(w, node);
}

/* Words of so many cells of the tree in the message; of two nodes, those of a tile lie beside each other. */
PMB_INLINE int64_t pmb_cw_step_words(const pmb_cw_state *w, const pmb_cw_step *s, int64_t cells) {
    int64_t all = w->options->cell_words * cells;
    return s->search.filled < 0                                     ? 0
           : s->search.want_sibling && !w->options->keep_histograms ? 2 * all
                                                                    : all;
}

/* Sums of a node's rows here, which parts that skip some of them need. */
PMB_STATIC void pmb_cw_step_own(pmb_cw_state *w, int32_t node_index, int64_t begin) {
    const pmb_node *node = w->grower.nodes + node_index;
    int words = w->options->cell_words;
    const int64_t *gh =
        node->n == w->data->columns.m ? w->gh : w->gathered + words * (node->start - begin);
    int64_t sum[2] = {0, 0};
    for (int64_t i = 0; i < node->n && w->data->counted; i++)
        for (int j = 0; j < words; j++) sum[j] += gh[words * i + j];
    w->stats[node_index].local = pmb_cell(sum, w->options, 1);
}

/* Fill one part of the histograms. */
PMB_STATIC void pmb_cw_step_fill_part(const pmb_cw_state *w, const pmb_cw_step *s, int part,
                                      int64_t *message) {
    const int64_t *first = w->data->tile_cell + part;
    int64_t *to = message + s->place + pmb_cw_step_words(w, s, first[0]);
    pmb_cw_fill(w, part, s->search.filled, s->begin, to);
    if (s->search.want_sibling && !w->options->keep_histograms)
        pmb_cw_fill(w, part, s->search.sibling, s->begin,
                    to + w->options->cell_words * (first[1] - first[0]));
}

/* Histograms of the rows here, to the message. */
PMB_STATIC void pmb_cw_step_fill(pmb_cw_state *w, pmb_cw_step *s, int64_t *message) {
    if (s->search.filled < 0) return;
    s->begin = pmb_cw_lay_out(w, &s->search);
    pmb_cw_step_own(w, s->search.filled, s->begin);
    if (s->search.want_sibling && !w->options->keep_histograms)
        pmb_cw_step_own(w, s->search.sibling, s->begin);
    PMB_SHARED(w->options->threads, w->data->n_tiles, pmb_cw_step_fill_part(w, s, t, message));
}

/* Scan one part of the sums. */
PMB_STATIC void pmb_cw_step_scan_part(const pmb_cw_state *w, const pmb_cw_step *s, int part,
                                      const uint8_t *of_filled, const uint8_t *of_sibling,
                                      int64_t *message) {
    const pmb_cw_search *search = &s->search;
    const int64_t words = w->options->cell_words, *cell = w->data->tile_cell;
    int64_t first = words * cell[part], n = words * cell[part + 1] - first,
            all = words * cell[w->data->n_tiles + 1];
    int64_t *sums = message + (s->place + pmb_cw_step_words(w, s, cell[part]));
    if (search->want_filled)
        pmb_scan_part(w, part, sums, w->stats[search->filled].sums, of_filled, 0,
                      w->best_of_part + 2 * part);
    if (w->options->keep_histograms)
        memcpy(w->hist + w->stats[search->filled].slot * all + first, sums,
               sizeof(int64_t) * (size_t)n);
    if (!search->want_sibling) return;
    if (w->options->keep_histograms) {
        int64_t *big = w->hist + w->stats[search->sibling].slot * all + first;
        pmb_take_off(big, sums, n);
        sums = big;
    } else {
        sums += n;
    }
    pmb_scan_part(w, part, sums, w->stats[search->sibling].sums, of_sibling, 1,
                  w->best_of_part + 2 * part + 1);
}

/* Scan the tiles that are this worker's, by the sums of all workers in the message. */
PMB_STATIC void pmb_cw_step_scan(pmb_cw_state *w, const pmb_cw_step *s, int64_t *message) {
    const pmb_cw_search *search = &s->search;
    if (search->filled < 0) return;
    const uint8_t *of_filled = search->want_filled ? pmb_cw_features(w, search->filled, 0) : NULL;
    const uint8_t *of_sibling =
        search->want_sibling ? pmb_cw_features(w, search->sibling, 1) : NULL;
    int threads = w->options->threads;
    (void)threads;
#ifdef _OPENMP /* a team of one, too: threads are numbered from 0 in it */
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
#endif
    for (int t = s->first_tile; t < s->end_tile; t++)
        pmb_cw_step_scan_part(w, s, t, of_filled, of_sibling, message);
}

/* Copy what is found in a tile for one of the two nodes to a record of zeros, or from it. */
PMB_STATIC void pmb_cw_step_copy(const pmb_cw_state *w, pmb_split *found, int side, int64_t *record,
                                 int back) {
    const pmb_level_data *l = &w->data->levels;
    if (!back) { /* 0: no split */
        if (found->score < 0) return;
        record[0] = ((int64_t)found->feature + 1) * ((int64_t)1 << 32) + 4 * (int64_t)found->pos +
                    2 * found->nan_left + found->no_missing;
        memcpy(record + 1, &found->score, sizeof(double));
        memcpy(record + 2, &found->left, sizeof(pmb_sums));
    } else {
        memset(found, 0, sizeof *found);
        found->score = -1;
        if (!record[0]) return;
        found->feature = (int32_t)(record[0] >> 32) - 1;
        found->pos = (int32_t)((record[0] & 0xFFFFFFFF) >> 2);
        found->nan_left = (int32_t)(record[0] >> 1 & 1);
        found->no_missing = (int32_t)(record[0] & 1);
        memcpy(&found->score, record + 1, sizeof(double));
        memcpy(&found->left, record + 2, sizeof(pmb_sums));
    }
    if (!l->set_start || l->set_start[found->feature] < 0) return;
    uint64_t *set = w->sets + side * (int64_t)l->set_words + l->set_start[found->feature];
    size_t size = sizeof(uint64_t) * pmb_set_words(&w->data->columns, found->feature);
    if (back)
        memcpy(set, record + PMB_STEP_RECORD, size);
    else
        memcpy(record + PMB_STEP_RECORD, set, size);
    found->set = set;
}

/* Copy what is found in this worker's tiles to records of zeros, or in all tiles from them; returns their words. */
PMB_STATIC int64_t pmb_cw_step_records(pmb_cw_state *w, const pmb_cw_step *s, int64_t *records,
                                       int back) {
    int64_t n = 0;
    for (int side = 0; side < 2 && s->search.filled >= 0; side++) {
        if (!(side ? s->search.want_sibling : s->search.want_filled)) continue;
        for (int t = 0; t < w->data->n_tiles; t++) {
            if (back || (t >= s->first_tile && t < s->end_tile))
                pmb_cw_step_copy(w, w->best_of_part + 2 * t + side, side, records + n, back);
            n += PMB_STEP_RECORD + w->data->levels.most_words;
        }
    }
    return n;
}

/* The best splits, of what has been found in all tiles. */
PMB_STATIC void pmb_cw_step_choose(pmb_cw_state *w, const pmb_cw_step *s) {
    if (s->search.filled < 0) return;
    if (s->search.want_filled) pmb_cw_choose(w, s->search.filled, 0, w->data->n_tiles);
    if (s->search.want_sibling) pmb_cw_choose(w, s->search.sibling, 1, w->data->n_tiles);
}

#endif
