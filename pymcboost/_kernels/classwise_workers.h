/* Class-wise trees on rows that are divided among workers: several trees are grown in step.
 *
 * In every step each tree parts its next node. The workers add up how many rows went left. Each fills the histogram of the
 * smaller child from its own rows, one message adds up the histograms of all trees, and each worker scans the sums. So all
 * find the splits of one worker with all rows: the sums are exact. If the message is large, each worker gets the sums of
 * some tiles only, scans these, and tells all what it found. A tile of a tree stays with one worker, which keeps the sums
 * of the parents and subtracts those of the children.
 *
 * classwise_grow.h scans each part of a histogram right after it has filled it. Here a message for all parts of all trees
 * comes in between, so that this is a second order of the same pieces. */
#ifndef PYMCBOOST_CLASSWISE_WORKERS_H
#define PYMCBOOST_CLASSWISE_WORKERS_H

#include "classwise_trees.h"
#include "workers.h"

#define PMB_STEP_RECORD 5 /* words of what is found in a tile; a set of levels follows them */

/* Where one tree is between two messages. */
typedef struct {
    pmb_cw_search search; /* whose splits are sought; filled < 0: no node's */
    /* sums of the rows that are here, of `filled` and of its sibling, where tiles skip rows */
    pmb_sums filled_here, sibling_here;
    int64_t rows_here;  /* the rows that are here: of the tree; later of the new left child */
    int64_t first_word; /* of its histograms in the message */
    int64_t begin;      /* first of its gathered rows */
    int32_t leaf;       /* place in `open` of the leaf that has just been parted; -1: none */
    int32_t done;       /* 1: no split is left */
    int32_t n_leaves;   /* of the finished tree */
    int32_t first_tile, end_tile; /* tiles that this worker scans: [first_tile, end_tile) */
} pmb_cw_step;

/* The trees that are grown in step, and what workers exchange. All workers have the same trees in the same state, apart from
 * the rows of the nodes, and the histograms of tiles that are others'. */
typedef struct {
    pmb_workers *workers;
    pmb_cw_state *trees; /* (n_trees,), as is `steps` */
    pmb_cw_step *steps;
    int32_t n_trees, threads;
    int32_t scattered;   /* 1: each worker gets the sums of its own tiles only */
    int64_t *histograms; /* of the searched nodes of all trees, 64-byte aligned */
    int64_t *numbers;    /* whatever else is added up: a row for each tree */
    int64_t *cells;      /* (n_trees, n_workers) cells of a histogram that each worker scans */
    int64_t *lengths;    /* (n_workers,) their words in a message */
    void *memory;        /* of histograms */
    /* Of the trees that are begun or finished: their jobs, pmb_softmax_job or pmb_edge_job; where they go; the edges of
     * the latter; numbers of the leaves or nodes of each tree, so many */
    void *jobs;
    pmb_tree_out first;
    double *edge;
    int64_t *of_tree, n_of_tree;
} pmb_cw_steps;

/* The place of tree t. */
PMB_INLINE pmb_tree_out pmb_cw_out(const pmb_cw_steps *all, int64_t t) {
    return pmb_out_of(all->first, t, all->trees->grower.max_leaves, all->trees->data->columns.m);
}

/* Take n jobs, one for each tree, which go to `first` and the places after it. */
PMB_INLINE void pmb_cw_take_jobs(pmb_cw_steps *all, void *jobs, int32_t n, int32_t threads,
                                 pmb_tree_out first) {
    all->n_trees = n;
    all->threads = threads;
    all->jobs = jobs;
    all->first = first;
}

/* do_it for each tree, with `all`; the threads share the trees. */
PMB_STATIC void pmb_cw_for_trees(pmb_cw_steps *all, pmb_piece do_it) {
    all->trees->options->pool->run(all->threads, all->n_trees, do_it, all);
}

/* Room for n trees; 0 if there is not enough. What is not used of it is never touched. */
PMB_STATIC int pmb_cw_steps_new(pmb_cw_steps *all, pmb_workers *workers, pmb_cw_state *trees,
                                int32_t n_trees) {
    const pmb_cw_data *data = trees->data;
    const pmb_cw_options *options = trees->options;
    size_t n = (size_t)n_trees, leaves = (size_t)trees->grower.max_leaves,
           n_workers = (size_t)workers->n_workers,
           words = (size_t)options->cell_words * (size_t)data->tile_cell[data->n_tiles + 1] *
                   (options->keep_histograms ? 1 : 2),
           records =
               2 * (size_t)data->n_tiles * (PMB_STEP_RECORD + (size_t)data->levels.most_words),
           sums = 2 * PMB_PARTS * leaves, most = records > sums ? records : sums;
    all->workers = workers;
    all->trees = trees;
    all->memory = malloc(sizeof(int64_t) * n * words + 64);
    all->histograms = (int64_t *)(((uintptr_t)all->memory + 63) / 64 * 64);
    all->steps = malloc(sizeof(pmb_cw_step) * n);
    all->numbers = malloc(sizeof(int64_t) * n * most);
    all->cells = malloc(sizeof(int64_t) * n * n_workers);
    all->lengths = malloc(sizeof(int64_t) * n_workers);
    return all->memory && all->steps && all->numbers && all->cells && all->lengths;
}

PMB_STATIC void pmb_cw_steps_free(pmb_cw_steps *all) {
    free(all->memory);
    free(all->steps);
    free(all->numbers);
    free(all->cells);
    free(all->lengths);
    memset(all, 0, sizeof *all);
}

/* Add up n of the numbers. */
PMB_INLINE void pmb_cw_add_numbers(pmb_cw_steps *all, int64_t n) {
    pmb_add_up(all->workers, all->numbers, n, (int)sizeof(int64_t), NULL);
}

/* n of the numbers, as zeros. */
PMB_INLINE int64_t *pmb_cw_no_numbers(pmb_cw_steps *all, int64_t n) {
    return memset(all->numbers, 0, sizeof(int64_t) * (size_t)n);
}

/* The sums of the rows in w->grower.rows, and their number, to be added up (4,). */
PMB_STATIC void pmb_cw_step_begin(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    pmb_sums here = pmb_cw_sums_of_rows(all->trees + t, all->steps[t].rows_here);
    int64_t *sums = all->numbers + 4 * t;
    (void)thread;
    sums[0] = here.g;
    sums[1] = here.h;
    sums[2] = here.n;
    sums[3] = all->steps[t].rows_here;
}

/* Ask for the split of the root, n rows of which are here. */
PMB_INLINE void pmb_cw_step_again(pmb_cw_state *w, pmb_cw_step *step, int64_t n) {
    const pmb_cw_search root = {0, -1, 1, 0}, none = {-1, -1, 0, 0};
    step->search = pmb_cw_begin_tree(w, n) ? root : none;
    step->leaf = -1;
    step->done = 0;
}

/* Ask for the split of the root, with the sums of all. */
PMB_STATIC void pmb_cw_step_root(pmb_cw_state *w, pmb_cw_step *step, const int64_t *sums) {
    pmb_sums total = {sums[0], sums[1], sums[2]};
    pmb_cw_root(w, total, sums[3]);
    step->first_tile = 0;
    step->end_tile = w->data->n_tiles;
    pmb_cw_step_again(w, step, step->rows_here);
}

/* Share the tiles of the trees among workers. */
PMB_STATIC void pmb_cw_share_tiles(pmb_cw_steps *all) {
    const pmb_cw_data *data = all->trees->data;
    const int64_t *first = data->tile_cell, n_all = first[data->n_tiles];
    int n_workers = all->workers->n_workers, rank = all->workers->rank;
    memset(all->cells, 0, sizeof(int64_t) * (size_t)all->n_trees * (size_t)n_workers);
    for (int j = 0; j < all->n_trees; j++) {
        pmb_cw_step *step = all->steps + j;
        step->first_tile = step->end_tile = 0;
        for (int t = 0; t < data->n_tiles; t++) {
            int64_t n_cells = first[t + 1] - first[t];
            int owner = pmb_owner(j * n_all + first[t], n_cells, all->n_trees * n_all, n_workers);
            all->cells[j * n_workers + owner] += n_cells;
            step->first_tile += owner < rank;
            step->end_tile += owner <= rank;
        }
    }
}

/* Part the next node. */
PMB_STATIC void pmb_cw_step_part(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    pmb_cw_state *w = all->trees + t;
    pmb_cw_step *step = all->steps + t;
    (void)thread;
    step->search.filled = -1;
    step->leaf = -1;
    step->rows_here = 0;
    if (step->done) return;
    if (w->grower.splits_left > 0)
        step->leaf = w->grower.next_leaf = pmb_best_open(&w->grower, NULL);
    /* what was drawn for the root cannot split it */
    if (step->leaf < 0 && w->grower.splits_left == w->grower.max_leaves - 1 && w->n_drawn) {
        w->n_drawn = 0;
        pmb_cw_step_again(w, step, w->grower.nodes[0].n);
    } else if (step->leaf < 0) {
        step->done = 1;
    } else {
        pmb_node *node = w->grower.nodes + w->grower.open[step->leaf];
        pmb_cw_add_children(w, node);
        step->rows_here = w->grower.nodes[node->left].n;
    }
}

/* After so many rows of all workers went left: whose splits are sought next. */
PMB_STATIC void pmb_cw_step_next_search(pmb_cw_state *w, pmb_cw_step *step, int64_t n_left) {
    if (step->leaf < 0) return;
    int32_t node_index = w->grower.open[step->leaf];
    const pmb_node *node = w->grower.nodes + node_index;
    w->stats[node->left].rows = n_left;
    w->stats[node->right].rows = w->stats[node_index].rows - n_left;
    pmb_close(&w->grower);
    if (w->grower.splits_left > 0) step->search = pmb_cw_next_search(w, node);
}

/* Words of so many cells of the tree in the message; of two nodes, those of a tile lie beside each other. */
PMB_INLINE int64_t pmb_cw_step_words(const pmb_cw_state *w, const pmb_cw_step *step,
                                     int64_t cells) {
    int64_t words = w->options->cell_words * cells;
    if (step->search.filled < 0) return 0;
    return step->search.want_sibling && !w->options->keep_histograms ? 2 * words : words;
}

/* Sums of a node's rows here, where tiles skip some of them. */
PMB_STATIC pmb_sums pmb_cw_sums_here(const pmb_cw_state *w, int32_t node_index, int64_t begin) {
    const pmb_node *node = w->grower.nodes + node_index;
    int words = w->options->cell_words;
    const int64_t *gh =
        node->n == w->data->columns.m ? w->gh : w->gathered + words * (node->start - begin);
    int64_t sum[2] = {0, 0};
    for (int64_t i = 0; i < node->n && w->data->counted; i++)
        for (int j = 0; j < words; j++) sum[j] += gh[words * i + j];
    return pmb_cell(sum, w->options, 1);
}

/* A tree whose tiles threads share. */
typedef struct {
    const pmb_cw_state *w;
    const pmb_cw_step *step;
    int64_t *message;
    const uint8_t *of_filled, *of_sibling; /* features that may be split on */
} pmb_cw_step_tiles;

/* Fill one tile of the histograms. */
PMB_STATIC void pmb_cw_step_fill_tile(void *what, int64_t tile, int thread) {
    const pmb_cw_step_tiles *tiles = what;
    const pmb_cw_state *w = tiles->w;
    const pmb_cw_step *step = tiles->step;
    int part = (int)tile;
    (void)thread;
    const int64_t *first = w->data->tile_cell + part;
    int64_t *to = tiles->message + step->first_word + pmb_cw_step_words(w, step, first[0]);
    pmb_cw_fill(w, part, step->search.filled, step->filled_here, step->begin, to);
    if (step->search.want_sibling && !w->options->keep_histograms)
        pmb_cw_fill(w, part, step->search.sibling, step->sibling_here, step->begin,
                    to + w->options->cell_words * (first[1] - first[0]));
}

/* Histograms of the rows here of tree t, to the message. */
PMB_STATIC void pmb_cw_step_fill(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    pmb_cw_state *w = all->trees + t;
    pmb_cw_step *step = all->steps + t;
    (void)thread;
    if (step->search.filled < 0) return;
    step->begin = pmb_cw_lay_out(w, &step->search);
    step->filled_here = pmb_cw_sums_here(w, step->search.filled, step->begin);
    if (step->search.want_sibling && !w->options->keep_histograms)
        step->sibling_here = pmb_cw_sums_here(w, step->search.sibling, step->begin);
    pmb_cw_step_tiles tiles = {w, step, all->histograms, NULL, NULL};
    w->options->pool->run(w->options->threads, w->data->n_tiles, pmb_cw_step_fill_tile, &tiles);
}

/* Scan one of the tiles that are this worker's, the first of which is tile 0 here. */
PMB_STATIC void pmb_cw_step_scan_tile(void *what, int64_t tile, int thread) {
    const pmb_cw_step_tiles *tiles = what;
    const pmb_cw_state *w = tiles->w;
    const pmb_cw_step *step = tiles->step;
    const pmb_cw_search *search = &step->search;
    int part = step->first_tile + (int)tile;
    const int64_t words = w->options->cell_words, *cell = w->data->tile_cell;
    int64_t first = words * cell[part], n = words * cell[part + 1] - first,
            n_all = words * cell[w->data->n_tiles + 1];
    int64_t *sums = tiles->message + (step->first_word + pmb_cw_step_words(w, step, cell[part]));
    if (search->want_filled)
        pmb_scan_part(w, part, sums, w->stats[search->filled].sums, tiles->of_filled, 0, thread,
                      w->best_of_part + 2 * part);
    if (w->options->keep_histograms)
        memcpy(w->hist + w->stats[search->filled].slot * n_all + first, sums,
               sizeof(int64_t) * (size_t)n);
    if (!search->want_sibling) return;
    if (w->options->keep_histograms) {
        int64_t *sibling_hist = w->hist + w->stats[search->sibling].slot * n_all + first;
        pmb_take_off(sibling_hist, sums, n);
        sums = sibling_hist;
    } else {
        sums += n;
    }
    pmb_scan_part(w, part, sums, w->stats[search->sibling].sums, tiles->of_sibling, 1, thread,
                  w->best_of_part + 2 * part + 1);
}

/* Scan the tiles of tree t that are this worker's, by the sums of all workers in the message. */
PMB_STATIC void pmb_cw_step_scan(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    pmb_cw_state *w = all->trees + t;
    const pmb_cw_step *step = all->steps + t;
    const pmb_cw_search *search = &step->search;
    pmb_cw_step_tiles tiles = {w, step, all->histograms, NULL, NULL};
    (void)thread;
    if (search->filled < 0) return;
    if (search->want_filled) tiles.of_filled = pmb_cw_features(w, search->filled, 0);
    if (search->want_sibling) tiles.of_sibling = pmb_cw_features(w, search->sibling, 1);
    w->options->pool->run(w->options->threads, step->end_tile - step->first_tile,
                          pmb_cw_step_scan_tile, &tiles);
}

/* Copy what is found in a tile for one of the two nodes to a record of zeros, or from it. */
PMB_STATIC void pmb_cw_step_copy(const pmb_cw_state *w, pmb_split *split, int side, int64_t *record,
                                 int back) {
    const pmb_level_data *levels = &w->data->levels;
    if (!back) { /* 0: no split */
        if (split->score < 0) return;
        record[0] = ((int64_t)split->feature + 1) * ((int64_t)1 << 32) + 4 * (int64_t)split->pos +
                    2 * split->nan_left + split->no_missing;
        memcpy(record + 1, &split->score, sizeof(double));
        memcpy(record + 2, &split->left, sizeof(pmb_sums));
    } else {
        memset(split, 0, sizeof *split);
        split->score = -1;
        if (!record[0]) return;
        split->feature = (int32_t)(record[0] >> 32) - 1;
        split->pos = (int32_t)((record[0] & 0xFFFFFFFF) >> 2);
        split->nan_left = (int32_t)(record[0] >> 1 & 1);
        split->no_missing = (int32_t)(record[0] & 1);
        memcpy(&split->score, record + 1, sizeof(double));
        memcpy(&split->left, record + 2, sizeof(pmb_sums));
    }
    if (!levels->set_start || levels->set_start[split->feature] < 0) return;
    uint64_t *set = w->sets + side * (int64_t)levels->set_words + levels->set_start[split->feature];
    size_t size = sizeof(uint64_t) * pmb_set_words(&w->data->columns, split->feature);
    if (back)
        memcpy(set, record + PMB_STEP_RECORD, size);
    else
        memcpy(record + PMB_STEP_RECORD, set, size);
    split->set = set;
}

/* Copy what is found in this worker's tiles to records of zeros, or in all tiles from them; returns their words. */
PMB_STATIC int64_t pmb_cw_step_records(pmb_cw_state *w, const pmb_cw_step *step, int64_t *records,
                                       int back) {
    int64_t n = 0;
    for (int side = 0; side < 2 && step->search.filled >= 0; side++) {
        if (!(side ? step->search.want_sibling : step->search.want_filled)) continue;
        for (int t = 0; t < w->data->n_tiles; t++) {
            if (back || (t >= step->first_tile && t < step->end_tile))
                pmb_cw_step_copy(w, w->best_of_part + 2 * t + side, side, records + n, back);
            n += PMB_STEP_RECORD + w->data->levels.most_words;
        }
    }
    return n;
}

/* The best splits, of what has been found in all tiles. */
PMB_STATIC void pmb_cw_step_choose(pmb_cw_state *w, const pmb_cw_step *step) {
    if (step->search.filled < 0) return;
    if (step->search.want_filled) pmb_cw_choose(w, step->search.filled, 0, w->data->n_tiles);
    if (step->search.want_sibling) pmb_cw_choose(w, step->search.sibling, 1, w->data->n_tiles);
}

/* Copy what is found in the tiles of all trees to the numbers, or from them; returns how many there are. */
PMB_STATIC int64_t pmb_cw_copy_records(pmb_cw_steps *all, int back) {
    int64_t n = 0;
    for (int j = 0; j < all->n_trees; j++)
        n += pmb_cw_step_records(all->trees + j, all->steps + j, all->numbers + n, back);
    return n;
}

/* Where the histograms of each tree begin in the message; returns its words. */
PMB_STATIC int64_t pmb_cw_lay_message(pmb_cw_steps *all) {
    const pmb_cw_data *data = all->trees->data;
    int64_t size = 0;
    for (int j = 0; j < all->n_trees; j++) {
        all->steps[j].first_word = size;
        size +=
            pmb_cw_step_words(all->trees + j, all->steps + j, data->tile_cell[data->n_tiles + 1]);
    }
    return size;
}

/* Add up the histograms; where they are scattered, this worker's part of the sums then begins the message. */
PMB_STATIC void pmb_cw_add_histograms(pmb_cw_steps *all, int64_t size) {
    int n_workers = all->workers->n_workers;
    int64_t before = 0;
    for (int r = 0; r < n_workers && all->scattered; r++) {
        all->lengths[r] = 0;
        for (int j = 0; j < all->n_trees; j++)
            all->lengths[r] +=
                pmb_cw_step_words(all->trees + j, all->steps + j, all->cells[j * n_workers + r]);
        before += r < all->workers->rank ? all->lengths[r] : 0;
    }
    for (int j = 0; j < all->n_trees; j++) all->steps[j].first_word -= before;
    pmb_add_up(all->workers, all->histograms, size, (int)sizeof(int64_t),
               all->scattered ? all->lengths : NULL);
}

/* Find the best splits of the searched nodes of all trees by the rows of all workers. */
PMB_STATIC void pmb_cw_find_splits_in_step(pmb_cw_steps *all) {
    int64_t size = pmb_cw_lay_message(all);
    if (!size) return;
    pmb_cw_for_trees(all, pmb_cw_step_fill);
    pmb_cw_add_histograms(all, size);
    if (all->workers->failed) return;
    pmb_cw_for_trees(all, pmb_cw_step_scan);
    if (all->scattered) {
        int64_t words = PMB_STEP_RECORD + all->trees->data->levels.most_words;
        pmb_cw_no_numbers(all, 2 * all->n_trees * all->trees->data->n_tiles * words);
        pmb_cw_add_numbers(all, pmb_cw_copy_records(all, 0));
        if (all->workers->failed) return;
        pmb_cw_copy_records(all, 1);
    }
    for (int j = 0; j < all->n_trees; j++) pmb_cw_step_choose(all->trees + j, all->steps + j);
}

/* Part the next node of each tree; returns whether any tree is not finished. */
PMB_STATIC int pmb_cw_part_in_step(pmb_cw_steps *all) {
    int any_parted = 0, all_done = 1;
    pmb_cw_for_trees(all, pmb_cw_step_part);
    for (int j = 0; j < all->n_trees; j++) {
        const pmb_cw_step *step = all->steps + j;
        all->numbers[j] = step->rows_here;
        any_parted |= step->leaf >= 0;
        all_done &= step->done;
    }
    if (any_parted) pmb_cw_add_numbers(all, all->n_trees);
    if (all->workers->failed) return 0;
    for (int j = 0; j < all->n_trees; j++)
        pmb_cw_step_next_search(all->trees + j, all->steps + j, all->numbers[j]);
    return !all_done;
}

/* Start with the rows in the growers, rows_here of each. */
PMB_STATIC void pmb_cw_begin_in_step(pmb_cw_steps *all) {
    const pmb_cw_data *data = all->trees->data;
    int64_t cells = data->tile_cell[data->n_tiles + 1],
            bytes = (int64_t)sizeof(int64_t) * all->trees->options->cell_words * cells;
    pmb_cw_for_trees(all, pmb_cw_step_begin);
    pmb_cw_add_numbers(all, 4 * all->n_trees);
    if (all->workers->failed) return;
    for (int j = 0; j < all->n_trees; j++)
        pmb_cw_step_root(all->trees + j, all->steps + j, all->numbers + 4 * j);
    all->scattered = cells && bytes * all->n_trees >= all->workers->scattered;
    if (all->scattered) pmb_cw_share_tiles(all);
}

PMB_STATIC void pmb_cw_step_weigh(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    (void)thread;
    pmb_cw_weigh_nodes(all->trees + t, all->of_tree + t * all->n_of_tree);
}

/* Choose sides for missing values that nodes have not seen, by the weights of all workers. */
PMB_STATIC void pmb_cw_weigh_in_step(pmb_cw_steps *all) {
    int64_t nodes = 2 * (int64_t)all->trees->grower.max_leaves, n = all->n_trees * nodes;
    int64_t *weights = all->of_tree = pmb_cw_no_numbers(all, n);
    all->n_of_tree = nodes;
    pmb_cw_for_trees(all, pmb_cw_step_weigh);
    if (all->trees->data->weighted) pmb_cw_add_numbers(all, n);
    if (all->workers->failed) return;
    for (int j = 0; j < all->n_trees; j++)
        pmb_cw_missing_sides(all->trees + j, weights + j * nodes);
}

/* Grow the trees whose rows have been taken; all of this ends early where the hook fails. */
PMB_STATIC void pmb_cw_grow_in_step(pmb_cw_steps *all) {
    int more;
    pmb_cw_begin_in_step(all);
    if (all->workers->failed) return;
    do {
        pmb_cw_find_splits_in_step(all);
        more = !all->workers->failed && pmb_cw_part_in_step(all);
    } while (more);
    if (!all->workers->failed) pmb_cw_weigh_in_step(all);
}

PMB_STATIC void pmb_softmax_step_begin(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    const pmb_softmax_job *job = (const pmb_softmax_job *)all->jobs + t;
    (void)thread;
    pmb_softmax_begin(all->trees + t, job);
    all->steps[t].rows_here = pmb_take_rows(all->trees + t, job->sample, job->n_sample);
}

PMB_STATIC void pmb_softmax_step_write(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    const pmb_softmax_job *job = (const pmb_softmax_job *)all->jobs + t;
    pmb_tree_out out = pmb_cw_out(all, t);
    (void)thread;
    all->steps[t].n_leaves = pmb_write_tree(all->trees + t, pmb_job_unit(job), &out);
}

/* Sums of the leaves of one tree. */
PMB_STATIC void pmb_softmax_step_sums(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    const pmb_softmax_job *job = (const pmb_softmax_job *)all->jobs + t;
    int64_t *sums = all->of_tree + t * all->n_of_tree;
    (void)thread;
    for (int i = 0; i < all->steps[t].n_leaves; i++)
        pmb_softmax_sums(all->trees + t, job, i, sums + (int64_t)i * 2 * PMB_PARTS);
}

/* n trees of mart or logitboost. */
PMB_STATIC void pmb_softmax_trees_in_step(pmb_cw_steps *all, pmb_softmax_job *job, int32_t n,
                                          int32_t threads, pmb_tree_out first) {
    int64_t J = all->trees->grower.max_leaves, most = 0;
    pmb_cw_take_jobs(all, job, n, threads, first);
    pmb_cw_for_trees(all, pmb_softmax_step_begin);
    pmb_cw_grow_in_step(all);
    if (all->workers->failed) return;
    pmb_cw_for_trees(all, pmb_softmax_step_write);
    for (int j = 0; j < n; j++)
        if (all->steps[j].n_leaves > most) most = all->steps[j].n_leaves;
    all->n_of_tree = most * 2 * PMB_PARTS;
    int64_t *sums = all->of_tree = pmb_cw_no_numbers(all, n * all->n_of_tree);
    pmb_cw_for_trees(all, pmb_softmax_step_sums);
    pmb_cw_add_numbers(all, n * all->n_of_tree);
    if (all->workers->failed) return;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < all->steps[j].n_leaves; i++)
            first.value[j * J + i] = pmb_softmax_value(all->trees + j, job + j, i,
                                                       sums + (j * most + i) * 2 * PMB_PARTS);
}

PMB_STATIC void pmb_edge_step_begin(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    pmb_edge_job *job = (pmb_edge_job *)all->jobs + t;
    (void)thread;
    pmb_edge_begin(all->trees + t, job);
    all->steps[t].rows_here =
        pmb_take_rows(all->trees + t, pmb_edge_sample(all->trees + t, job), job->n);
}

PMB_STATIC void pmb_edge_step_write(void *what, int64_t t, int thread) {
    const pmb_cw_steps *all = what;
    (void)thread;
    all->edge[t] =
        pmb_edge_write(all->trees + t, (pmb_edge_job *)all->jobs + t, pmb_cw_out(all, t));
}

/* n trees with leaves -1 and +1; edge: (n,) their edges. */
PMB_STATIC void pmb_edge_trees_in_step(pmb_cw_steps *all, pmb_edge_job *job, int32_t n,
                                       int32_t threads, pmb_tree_out first, double *edge) {
    pmb_cw_take_jobs(all, job, n, threads, first);
    all->edge = edge;
    pmb_cw_for_trees(all, pmb_edge_step_begin);
    pmb_cw_grow_in_step(all);
    if (all->workers->failed) return;
    pmb_cw_for_trees(all, pmb_edge_step_write);
}

#endif
