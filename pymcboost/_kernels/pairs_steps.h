/* Trees on pairs (g, h) of rows that are divided among workers, several of them grown in step.
 *
 * In every step each tree parts its next node, the workers add up how many rows went left, each fills the histogram of
 * the smaller child from its own rows, one message adds up those of all trees, and each worker scans the sums. So all
 * find the same splits, those of one worker with all rows: the sums are exact. Of large messages each gets the sums of
 * some tiles, scans them, and all get what it finds. A tile of a tree stays with one worker, which keeps the sums of the
 * parents there and takes off those of the children.
 */
#ifndef PYMCBOOST_PAIRS_STEPS_H
#define PYMCBOOST_PAIRS_STEPS_H

#include "pairs_grow.h"

#define PMB_STEP_RECORD 5 /* words of what is found in a tile; a set of levels follows them */

/* Where one tree is. */
typedef struct {
    pmb_pair_turn turn;   /* whose splits are sought; filled < 0: none */
    int64_t place, begin; /* of its histograms in the message; first of the gathered rows */
    int32_t at, done;     /* at: the open leaf that has just been parted, -1: none */
    int32_t from, to;     /* tiles that this worker scans, from the first to before the last */
} pmb_step;

/* Begin with the n rows in w->g.rows: their sums, and their number, to be added up (4,). */
PMB_STATIC void pmb_step_begin(const pmb_pairs *w, int64_t n, int64_t *sums) {
    pmb_sums own = pmb_pairs_sums(w, n);
    sums[0] = own.g;
    sums[1] = own.h;
    sums[2] = own.n;
    sums[3] = n;
}

/* Ask for the split of the root. */
PMB_INLINE void pmb_step_again(pmb_pairs *w, pmb_step *s, int64_t n) {
    const pmb_pair_turn root = {0, -1, 1, 0}, none = {-1, -1, 0, 0};
    s->turn = pmb_pairs_begin(w, n) ? root : none;
    s->at = -1;
    s->done = 0;
}

/* Ask for the split of the root, n rows of which are here, with the sums of all. */
PMB_STATIC void pmb_step_root(pmb_pairs *w, pmb_step *s, int64_t n, const int64_t *sums) {
    pmb_sums all = {sums[0], sums[1], sums[2]};
    pmb_pairs_root(w, all, sums[3]);
    s->from = 0;
    s->to = w->d->n_tiles;
    pmb_step_again(w, s, n);
}

/* Share the tiles of n trees among workers; cells: (n, workers), what each scans of every tree. */
PMB_STATIC void pmb_step_share(const pmb_pairs *w, pmb_step *step, int n, int workers, int rank,
                               int64_t *cells) {
    const int64_t *first = w->d->tile_cell, all = first[w->d->n_tiles];
    memset(cells, 0, sizeof(int64_t) * (size_t)n * (size_t)workers);
    for (int j = 0; j < n; j++) {
        step[j].from = step[j].to = 0;
        for (int t = 0; t < w->d->n_tiles; t++) {
            int64_t its = first[t + 1] - first[t];
            int owner = pmb_owner(j * all + first[t], its, n * all, workers);
            cells[j * workers + owner] += its;
            step[j].from += owner < rank;
            step[j].to += owner <= rank;
        }
    }
}

/* Part the next node; how many of its rows here go left. */
PMB_STATIC int64_t pmb_step_part(pmb_pairs *w, pmb_step *s) {
    s->turn.filled = -1;
    s->at = -1;
    if (s->done) return 0;
    if (w->g.n_left > 0) s->at = w->g.at = pmb_best_open(&w->g, NULL);
    if (s->at < 0 && w->g.n_left == w->g.max_leaves - 1 &&
        w->take) { /* what was drawn for the root cannot split it */
        w->take = 0;
        pmb_step_again(w, s, w->g.nodes[0].n);
    } else if (s->at < 0) {
        s->done = 1;
    } else {
        pmb_node *node = w->g.nodes + w->g.open[s->at];
        pmb_pairs_open(w, node);
        return w->g.nodes[node->left].n;
    }
    return 0;
}

/* After so many rows of all workers went left: whose splits are sought next. */
PMB_STATIC void pmb_step_turn(pmb_pairs *w, pmb_step *s, int64_t n_left) {
    if (s->at < 0) return;
    int32_t at = w->g.open[s->at];
    const pmb_node *node = w->g.nodes + at;
    w->its[node->left].rows = n_left;
    w->its[node->right].rows = w->its[at].rows - n_left;
    pmb_close(&w->g);
    if (w->g.n_left > 0) s->turn = pmb_pairs_turn(w, node);
}

/* Words of so many cells of the tree in the message; of two nodes, those of a tile lie beside each other. */
PMB_INLINE int64_t pmb_step_words(const pmb_pairs *w, const pmb_step *s, int64_t cells) {
    int64_t all = w->o->cell_words * cells;
    return s->turn.filled < 0 ? 0 : s->turn.want_other && !w->o->pool ? 2 * all : all;
}

/* Sums of a node's rows here, which parts that skip some of them need. */
PMB_STATIC void pmb_step_own(pmb_pairs *w, int32_t at, int64_t begin) {
    const pmb_node *node = w->g.nodes + at;
    int words = w->o->cell_words;
    const int64_t *gh = node->n == w->d->c.m ? w->gh : w->gathered + words * (node->start - begin);
    int64_t sum[2] = {0, 0};
    for (int64_t i = 0; i < node->n && w->d->counted; i++)
        for (int j = 0; j < words; j++) sum[j] += gh[words * i + j];
    w->its[at].own = pmb_cell(sum, w->o, 1);
}

/* Fill one part of the histograms. */
PMB_STATIC void pmb_step_fill_part(const pmb_pairs *w, const pmb_step *s, int part,
                                   int64_t *message) {
    const int64_t *first = w->d->tile_cell + part;
    int64_t *to = message + s->place + pmb_step_words(w, s, first[0]);
    pmb_pairs_fill(w, part, s->turn.filled, s->begin, to);
    if (s->turn.want_other && !w->o->pool)
        pmb_pairs_fill(w, part, s->turn.other, s->begin,
                       to + w->o->cell_words * (first[1] - first[0]));
}

/* Histograms of the rows here, to the message. */
PMB_STATIC void pmb_step_fill(pmb_pairs *w, pmb_step *s, int64_t *message) {
    if (s->turn.filled < 0) return;
    s->begin = pmb_pairs_lay_out(w, &s->turn);
    pmb_step_own(w, s->turn.filled, s->begin);
    if (s->turn.want_other && !w->o->pool) pmb_step_own(w, s->turn.other, s->begin);
    PMB_SHARED(w->o->threads, w->d->n_tiles, pmb_step_fill_part(w, s, t, message));
}

/* Scan one part of the sums. */
PMB_STATIC void pmb_step_scan_part(const pmb_pairs *w, const pmb_step *s, int part,
                                   const uint8_t *of_filled, const uint8_t *of_other,
                                   int64_t *message) {
    const pmb_pair_turn *turn = &s->turn;
    const int64_t words = w->o->cell_words, *cell = w->d->tile_cell;
    int64_t first = words * cell[part], n = words * cell[part + 1] - first,
            all = words * cell[w->d->n_tiles + 1];
    int64_t *sums = message + (s->place + pmb_step_words(w, s, cell[part]));
    if (turn->want_filled)
        pmb_scan_part(w, part, sums, w->its[turn->filled].sums, of_filled, 0, w->found + 2 * part);
    if (w->o->pool)
        memcpy(w->hist + w->its[turn->filled].slot * all + first, sums,
               sizeof(int64_t) * (size_t)n);
    if (!turn->want_other) return;
    if (w->o->pool) {
        int64_t *big = w->hist + w->its[turn->other].slot * all + first;
        pmb_take_off(big, sums, n);
        sums = big;
    } else {
        sums += n;
    }
    pmb_scan_part(w, part, sums, w->its[turn->other].sums, of_other, 1, w->found + 2 * part + 1);
}

/* Scan the tiles that are this worker's, by the sums of all workers in the message. */
PMB_STATIC void pmb_step_scan(pmb_pairs *w, const pmb_step *s, int64_t *message) {
    const pmb_pair_turn *turn = &s->turn;
    if (turn->filled < 0) return;
    const uint8_t *of_filled = turn->want_filled ? pmb_pairs_features(w, turn->filled, 0) : NULL;
    const uint8_t *of_other = turn->want_other ? pmb_pairs_features(w, turn->other, 1) : NULL;
    int threads = w->o->threads;
    (void)threads;
#ifdef _OPENMP /* a team of one, too: threads are numbered from 0 in it */
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
#endif
    for (int t = s->from; t < s->to; t++) pmb_step_scan_part(w, s, t, of_filled, of_other, message);
}

/* Copy what is found in a tile for one of the two nodes to a record of zeros, or from it. */
PMB_STATIC void pmb_step_copy(const pmb_pairs *w, pmb_split *found, int side, int64_t *record,
                              int back) {
    const pmb_level_data *l = &w->d->levels;
    if (!back) { /* 0: no split */
        if (found->score < 0) return;
        record[0] = ((int64_t)found->feature + 1) * ((int64_t)1 << 32) + 4 * (int64_t)found->pos +
                    2 * found->nan_left + found->unseen;
        memcpy(record + 1, &found->score, sizeof(double));
        memcpy(record + 2, &found->left, sizeof(pmb_sums));
    } else {
        memset(found, 0, sizeof *found);
        found->score = -1;
        if (!record[0]) return;
        found->feature = (int32_t)(record[0] >> 32) - 1;
        found->pos = (int32_t)((record[0] & 0xFFFFFFFF) >> 2);
        found->nan_left = (int32_t)(record[0] >> 1 & 1);
        found->unseen = (int32_t)(record[0] & 1);
        memcpy(&found->score, record + 1, sizeof(double));
        memcpy(&found->left, record + 2, sizeof(pmb_sums));
    }
    if (!l->set_at || l->set_at[found->feature] < 0) return;
    uint64_t *set = w->sets + side * (int64_t)l->set_words + l->set_at[found->feature];
    size_t size = sizeof(uint64_t) * pmb_set_words(&w->d->c, found->feature);
    if (back)
        memcpy(set, record + PMB_STEP_RECORD, size);
    else
        memcpy(record + PMB_STEP_RECORD, set, size);
    found->set = set;
}

/* Copy what is found in this worker's tiles to records of zeros, or in all tiles from them; returns their words. */
PMB_STATIC int64_t pmb_step_records(pmb_pairs *w, const pmb_step *s, int64_t *records, int back) {
    int64_t n = 0;
    for (int side = 0; side < 2 && s->turn.filled >= 0; side++) {
        if (!(side ? s->turn.want_other : s->turn.want_filled)) continue;
        for (int t = 0; t < w->d->n_tiles; t++) {
            if (back || (t >= s->from && t < s->to))
                pmb_step_copy(w, w->found + 2 * t + side, side, records + n, back);
            n += PMB_STEP_RECORD + w->d->levels.most_words;
        }
    }
    return n;
}

/* The best splits, of what has been found in all tiles. */
PMB_STATIC void pmb_step_choose(pmb_pairs *w, const pmb_step *s) {
    if (s->turn.filled < 0) return;
    if (s->turn.want_filled) pmb_pairs_choose(w, s->turn.filled, 0, w->d->n_tiles);
    if (s->turn.want_other) pmb_pairs_choose(w, s->turn.other, 1, w->d->n_tiles);
}

#endif
