/* Class-wise trees: grows one tree. Decides which histograms are filled and which follow by subtraction, finds the best splits
 * of nodes, and has the memory. */
#ifndef PYMCBOOST_CLASSWISE_GROW_H
#define PYMCBOOST_CLASSWISE_GROW_H

#include "classwise_drawn.h"

/* Gather the rows whose cells are made; returns the first of them. */
PMB_STATIC int64_t pmb_cw_lay_out(pmb_cw_state *w, const pmb_cw_search *search) {
    const pmb_node *filled = w->grower.nodes + search->filled,
                   *sibling = search->sibling >= 0 ? w->grower.nodes + search->sibling : NULL;
    int64_t begin = filled->start, n = filled->n;
    if (sibling && !w->options->keep_histograms) { /* both are filled */
        begin = filled->start < sibling->start ? filled->start : sibling->start;
        n += sibling->n;
    }
    if (filled->n != w->data->columns.m) pmb_cw_gather(w, w->grower.rows + begin, n);
    return begin;
}

/* `pmb_cw_find_splits` where all features are sparse and few are chosen: no cells but theirs are made. */
PMB_STATIC void pmb_cw_find_splits_of_few(pmb_cw_state *w, const pmb_cw_search *search) {
    for (int side = 0; side < 2; side++) {
        int32_t node_index = side ? search->sibling : search->filled;
        if (!(side ? search->want_sibling : search->want_filled)) continue;
        const uint8_t *chosen = pmb_cw_features(w, node_index, side);
        pmb_fill_chosen(w, node_index, side, w->hist);
        pmb_scan_part(w, 0, w->hist, w->stats[node_index].sums, chosen, side, 0,
                      w->best_of_part + side);
        pmb_cw_choose(w, node_index, side, 1);
    }
}

/* A search whose histograms are made tile by tile. */
typedef struct {
    const pmb_cw_state *w;
    const pmb_cw_search *search;
    const uint8_t *of_filled, *of_sibling; /* features that may be split on */
    int64_t begin;                         /* first of the gathered rows */
} pmb_cw_tiles;

/* Fill and scan a tile for both nodes. It is scanned right after it is filled, while it is in the cache. Where histograms are
 * kept, the sibling's slot holds the parent's, and those of `filled` are taken off. */
PMB_STATIC void pmb_cw_tile_piece(void *what, int64_t t, int thread) {
    const pmb_cw_tiles *tiles = what;
    const pmb_cw_state *w = tiles->w;
    const pmb_cw_search *search = tiles->search;
    const pmb_cw_data *data = w->data;
    int32_t filled = search->filled, sibling = search->sibling, tile = (int32_t)t;
    int is_kept = w->options->keep_histograms;
    int64_t words = w->options->cell_words, first_word = words * data->tile_cell[t],
            n_words = words * data->tile_cell[t + 1] - first_word,
            all = words * data->tile_cell[data->n_tiles + 1];
    pmb_split *best = w->best_of_part + 2 * t;
    int64_t *hist = w->hist + (is_kept ? w->stats[filled].slot * all + first_word : first_word);
    pmb_cw_fill(w, tile, filled, w->stats[filled].sums, tiles->begin, hist);
    if (search->want_filled)
        pmb_scan_part(w, tile, hist, w->stats[filled].sums, tiles->of_filled, 0, thread, best);
    if (sibling < 0) return;
    if (is_kept) {
        int64_t *sibling_hist = w->hist + w->stats[sibling].slot * all + first_word;
        pmb_take_off(sibling_hist, hist, n_words);
        hist = sibling_hist;
    } else if (search->want_sibling) {
        pmb_cw_fill(w, tile, sibling, w->stats[sibling].sums, tiles->begin, hist);
    }
    if (search->want_sibling)
        pmb_scan_part(w, tile, hist, w->stats[sibling].sums, tiles->of_sibling, 1, thread,
                      best + 1);
}

/* Find the best splits of node `filled` and, if it is >= 0, of its sibling, whose rows lie beside its own. The cells of
 * `filled` are made from its rows. Where the parent has no histogram, or that is faster, drawn features are looked at one
 * by one. */
PMB_STATIC void pmb_cw_find_splits(pmb_cw_state *w, const pmb_cw_search *search,
                                   int parent_has_none) {
    const pmb_cw_data *data = w->data;
    const pmb_cw_options *options = w->options;
    int32_t filled = search->filled, sibling = search->sibling;
    if (options->few_sparse && w->n_drawn) {
        pmb_cw_find_splits_of_few(w, search);
        return;
    }
    if (parent_has_none || pmb_drawn_pays(w, search)) {
        pmb_cw_find_splits_of_drawn(w, search);
        return;
    }
    int parts = data->n_tiles + (data->row_ptr != NULL);
    pmb_cw_tiles tiles = {w, search, NULL, NULL, pmb_cw_lay_out(w, search)};
    if (search->want_filled) tiles.of_filled = pmb_cw_features(w, filled, 0);
    if (search->want_sibling) tiles.of_sibling = pmb_cw_features(w, sibling, 1);
    int is_large = w->grower.nodes[filled].n * data->n_tiles > PMB_SHARED_WORK;
    options->pool->run(is_large ? options->threads : 1, parts, pmb_cw_tile_piece, &tiles);
    if (search->want_filled) pmb_cw_choose(w, filled, 0, parts);
    if (search->want_sibling) pmb_cw_choose(w, sibling, 1, parts);
}

PMB_INLINE int pmb_cw_splittable(const pmb_cw_state *w, int32_t node_index) {
    const pmb_cw_stats *stats = w->stats + node_index;
    return stats->rows > 1 && stats->sums.n / 2 >= w->limits.least_n &&
           stats->sums.h / 2 >= w->limits.least_h &&
           (w->grower.max_depth == 0 || w->grower.nodes[node_index].depth < w->grower.max_depth) &&
           (double)stats->sums.h > w->options->min_share * (double)w->stats[0].sums.h;
}

/* Part the rows of a node, as far as they are here. */
PMB_STATIC void pmb_cw_add_children(pmb_cw_state *w, pmb_node *node) {
    pmb_cw_stats *stats = w->stats + (node - w->grower.nodes);
    pmb_add_children(&w->grower, node);
    pmb_set_rows(&w->grower, node,
                 pmb_cw_part_rows(w, node, w->grower.rows + node->start, node->n));
    int32_t left = node->left, right = node->right;
    w->stats[left].sums = stats->left;
    w->stats[right].sums = stats->sums;
    pmb_sums_add(&w->stats[right].sums, stats->left, -1);
    w->stats[left].key = pmb_child_key(stats->key, 0);
    w->stats[right].key = pmb_child_key(stats->key, 1);
    w->stats[left].rows = w->grower.nodes[left].n;
    w->stats[right].rows = w->grower.nodes[right].n;
    w->stats[left].no_histogram = w->stats[right].no_histogram = 0;
}

/* Whose splits are sought among the children of a node, and where their histograms go. */
PMB_STATIC pmb_cw_search pmb_cw_next_search(pmb_cw_state *w, const pmb_node *node) {
    pmb_cw_stats *stats = w->stats + (node - w->grower.nodes);
    int32_t left = node->left, right = node->right;
    int32_t small = w->stats[left].rows <= w->stats[right].rows ? left : right,
            big = small == left ? right : left;
    pmb_cw_search search = {small, big, pmb_cw_splittable(w, small), pmb_cw_splittable(w, big)};
    if (!search.want_filled && !search.want_sibling) {
        w->free_slots[w->n_free++] = stats->slot;
        search.filled = -1;
        return search;
    }
    w->stats[big].slot = stats->slot;
    w->stats[small].slot = w->n_free ? w->free_slots[--w->n_free] : w->n_slots++;
    /* only the small one counts, and it can have the slot of its parent */
    if (!search.want_sibling) {
        w->free_slots[w->n_free++] = w->stats[big].slot;
        search.sibling = -1;
    } else if (!search.want_filled) {
        w->free_slots[w->n_free++] = w->stats[small].slot;
    }
    return search;
}

PMB_STATIC void pmb_cw_split_node(pmb_grower *g, const int32_t *batch, int32_t n_batch, int last) {
    pmb_cw_state *w = g->payload;
    pmb_node *node = g->nodes + batch[0];
    (void)n_batch; /* one */
    pmb_cw_add_children(w, node);
    if (last) return;
    pmb_cw_search search = pmb_cw_next_search(w, node);
    if (search.filled >= 0) pmb_cw_find_splits(w, &search, w->stats[batch[0]].no_histogram);
}

PMB_STATIC int32_t pmb_cw_nodes_ahead(const pmb_grower *g) {
    (void)g;
    return 1;
}

/* Sums of the first n of w->grower.rows; words add up as in the cells of a histogram. */
PMB_STATIC pmb_sums pmb_cw_sums_of_rows(const pmb_cw_state *w, int64_t n) {
    const int32_t *rows = w->grower.rows;
    const int64_t *gh = w->gh;
    int64_t sum[2] = {0, 0};
    int words = w->options->cell_words;
    for (int64_t i = 0; i < n && words == 1; i++) sum[0] += gh[rows[i]];
    for (int64_t i = 0; i < n && words == 2; i++)
        for (int j = 0; j < 2; j++) sum[j] += gh[2 * (int64_t)rows[i] + j];
    return pmb_cell(sum, w->options, 1);
}

/* The root, of rows with these sums. */
PMB_STATIC void pmb_cw_root(pmb_cw_state *w, pmb_sums sums, int64_t rows) {
    pmb_cw_stats *root = w->stats;
    memset(root, 0, sizeof *root);
    root->key = w->key;
    root->sums = sums;
    root->rows = rows;
    w->n_drawn = w->options->n_drawn;
}

/* Whether the best split of the root is to be sought. */
PMB_STATIC int pmb_cw_begin_tree(pmb_cw_state *w, int64_t n) {
    pmb_grow_root(&w->grower, n);
    w->n_slots = 1;
    w->n_free = 0;
    return w->data->n_tiles + (w->data->row_ptr != NULL) > 0 && w->grower.max_leaves > 1 &&
           pmb_cw_splittable(w, 0);
}

/* Sum of the weights of n rows; four sums, which do not wait for each other. */
PMB_CLONES PMB_STATIC int64_t pmb_weight_of(const int64_t *PMB_RESTRICT weight,
                                            const int32_t *PMB_RESTRICT rows, int64_t n) {
    int64_t sum[4] = {0, 0, 0, 0}, i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++) sum[j] += weight[rows[i + j]];
    for (; i < n; i++) sum[0] += weight[rows[i]];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Weights of the rows of each node of a grown tree: of the rows here, or their numbers, of all workers, where weights do
 * not differ. The leaf with most rows has what the others leave. Children come after their parents. */
PMB_STATIC void pmb_cw_weigh_nodes(pmb_cw_state *w, int64_t *weight) {
    const pmb_node *nodes = w->grower.nodes;
    int32_t n = w->grower.n_nodes, largest_leaf = -1;
    int64_t rest = w->data->total_weight;
    for (int32_t j = 0; w->data->weighted && nodes[0].n == w->data->columns.m && j < n; j++)
        if (!nodes[j].is_split && (largest_leaf < 0 || nodes[j].n > nodes[largest_leaf].n))
            largest_leaf = j;
    for (int32_t j = 0; j < n; j++) {
        if (nodes[j].is_split || j == largest_leaf) continue;
        if (w->data->weighted)
            weight[j] = pmb_weight_of(w->data->weight, w->grower.rows + nodes[j].start, nodes[j].n);
        else
            weight[j] = w->stats[j].rows;
        rest -= weight[j];
    }
    if (largest_leaf >= 0) weight[largest_leaf] = rest;
    for (int32_t j = n - 1; j >= 0; j--)
        if (nodes[j].is_split) weight[j] = weight[nodes[j].left] + weight[nodes[j].right];
}

/* Missing values that a node has not seen go to its heavier side, the left one of equals. No row that the tree was grown
 * on moves. */
PMB_STATIC void pmb_cw_missing_sides(pmb_cw_state *w, const int64_t *weight) {
    for (int32_t j = 0; j < w->grower.n_nodes; j++) {
        pmb_node *node = w->grower.nodes + j;
        if (node->is_split && w->stats[j].no_missing)
            node->nan_left = weight[node->left] >= weight[node->right];
    }
}

/* Grow a tree on the n rows in w->grower.rows (ascending) with the values w->gh of all rows. Where the features drawn for the
 * root cannot split it, no node draws. */
PMB_STATIC void pmb_cw_grow(pmb_cw_state *w, int64_t n) {
    const pmb_cw_search root = {0, -1, 1, 0};
    pmb_cw_root(w, pmb_cw_sums_of_rows(w, n), n);
    for (;; w->n_drawn = 0) {
        w->stats->no_histogram = 0;
        if (pmb_cw_begin_tree(w, n)) pmb_cw_find_splits(w, &root, 0);
        if (pmb_grow(&w->grower) || !w->n_drawn) break;
    }
    pmb_cw_weigh_nodes(w, w->weight);
    pmb_cw_missing_sides(w, w->weight);
}

/* Memory for growing trees one after the other; 0 if there is not enough (then nothing is held). */
PMB_STATIC int pmb_cw_state_new(pmb_cw_state *w, const pmb_cw_data *data,
                                const pmb_cw_options *options, int32_t max_leaves,
                                int32_t max_depth) {
    size_t m = (size_t)data->columns.m, J = (size_t)max_leaves, parts = (size_t)data->n_tiles + 1;
    size_t words = (size_t)options->cell_words * (size_t)data->tile_cell[data->n_tiles + 1] *
                   (options->keep_histograms ? J : 1);
    memset(w, 0, sizeof *w);
    int is_complete =
        pmb_grower_new(&w->grower, &data->columns, max_leaves, max_depth, 2 * max_leaves, 1);
    w->data = data;
    w->options = options;
    w->grower.rows = calloc(m + PMB_AHEAD, sizeof(int32_t));
    w->stats = malloc(sizeof(pmb_cw_stats) * 2 * J);
    w->gh = malloc(sizeof(int64_t) * (size_t)options->cell_words * m);
    w->gathered = malloc(sizeof(int64_t) * (size_t)options->cell_words * m);
    w->memory = malloc(sizeof(int64_t) * words + 64);
    w->best_of_part = malloc(sizeof(pmb_split) * 2 * parts);
    w->free_slots = malloc(sizeof(int32_t) * (J + 1));
    w->order = malloc(sizeof(int32_t) * 12 * J);
    w->weight = malloc(sizeof(int64_t) * 2 * J);
    w->counted = malloc(data->counted ? ((size_t)data->n_tiles + 7) / 8 * m : 1);
    w->chosen = malloc(2 * (size_t)data->columns.n_features + 1);
    w->listed =
        data->row_ptr ? malloc(2 * (1 + (size_t)data->columns.n_features) * sizeof(int32_t)) : NULL;
    w->marks = data->row_ptr ? calloc(m, 1) : NULL;
    is_complete = is_complete && (!data->row_ptr || (w->listed && w->marks));
    w->sets = calloc(2 * ((size_t)data->levels.set_words + J * (size_t)data->levels.most_words) + 1,
                     sizeof(uint64_t));
    if (pmb_has_ordered_lanes_only(data)) {
        w->cells =
            calloc((size_t)options->cell_words * (size_t)(w->grower.n_side + 1), sizeof(int64_t));
        w->occupied = calloc((size_t)w->grower.n_side / 64 + 1, sizeof(uint64_t));
        w->drawn = malloc(sizeof(int32_t) * ((size_t)data->columns.n_features + 1));
        is_complete = is_complete && w->cells && w->occupied && w->drawn &&
                      pmb_cuts_new(&w->cuts, (size_t)w->grower.n_side + 1);
    }
    if (!is_complete || !w->grower.rows || !w->stats || !w->gh || !w->gathered || !w->memory ||
        !w->best_of_part || !w->free_slots || !w->order || !w->weight || !w->counted ||
        !w->chosen || !w->sets ||
        !pmb_level_scratch_new(&w->scratch, data->levels.most_levels, options->threads)) {
        pmb_cw_state_free(w);
        return 0;
    }
    w->hist = (int64_t *)(((uintptr_t)w->memory + 63) / 64 * 64);
    w->grower.spare = (int32_t *)w->gathered; /* which is made anew after rows are parted */
    w->grower.payload = w;
    w->grower.split = pmb_cw_split_node;
    w->grower.ahead = pmb_cw_nodes_ahead;
    pmb_set_limits(&w->limits, options, 0, 0);
    return 1;
}

#endif
