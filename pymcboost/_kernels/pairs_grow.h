/* Growing a tree on pairs (g, h), see pairs.h: which histograms are filled and which follow from them, the best splits of
 * nodes, memory. */
#ifndef PYMCBOOST_PAIRS_GROW_H
#define PYMCBOOST_PAIRS_GROW_H

#include "pairs_drawn.h"

/* Gather the rows whose cells are made; returns the first of them. */
PMB_STATIC int64_t pmb_pairs_lay_out(pmb_pairs *w, const pmb_pair_turn *turn) {
    const pmb_node *fill = w->g.nodes + turn->filled,
                   *rest = turn->other >= 0 ? w->g.nodes + turn->other : NULL;
    int64_t begin = fill->start, n = fill->n;
    if (rest && !w->o->pool) { /* both are filled */
        begin = fill->start < rest->start ? fill->start : rest->start;
        n += rest->n;
    }
    if (fill->n != w->d->c.m) pmb_pairs_gather(w, w->g.rows + begin, n);
    return begin;
}

/* `pmb_pairs_evaluate` where all features are sparse and few are chosen: no cells but theirs are made. */
PMB_STATIC void pmb_pairs_evaluate_few(pmb_pairs *w, const pmb_pair_turn *turn) {
    for (int side = 0; side < 2; side++) {
        int32_t at = side ? turn->other : turn->filled;
        if (!(side ? turn->want_other : turn->want_filled)) continue;
        const uint8_t *chosen = pmb_pairs_features(w, at, side);
        pmb_fill_chosen(w, at, side, w->hist);
        pmb_scan_part(w, 0, w->hist, w->its[at].sums, chosen, side, w->found + side);
        pmb_pairs_choose(w, at, side, 1);
    }
}

/* Find the best splits of node `filled` and, if it is >= 0, of `other`, whose rows lie beside each other. The cells of
 * `filled` are made from its rows; with a pool, the other's are its parent's, in the slot of the other, minus those.
 * Fill and scan of a part follow each other, while it is in the cache. Where the parent has no histogram, or that is faster,
 * drawn features are looked at one by one. */
PMB_STATIC void pmb_pairs_evaluate(pmb_pairs *w, const pmb_pair_turn *turn, int parent_is_bare) {
    const pmb_pair_data *d = w->d;
    const pmb_pair_options *o = w->o;
    int32_t filled = turn->filled, other = turn->other;
    if (o->few && w->take) {
        pmb_pairs_evaluate_few(w, turn);
        return;
    }
    if (parent_is_bare || pmb_drawn_pays(w, turn)) {
        pmb_evaluate_drawn(w, turn);
        return;
    }
    int parts = d->n_tiles + (d->row_ptr != NULL), words = o->cell_words,
        pooled = o->pool && other >= 0;
    int64_t all = (int64_t)words * d->tile_cell[d->n_tiles + 1], begin = pmb_pairs_lay_out(w, turn);
    const uint8_t *of_filled = turn->want_filled ? pmb_pairs_features(w, filled, 0) : NULL;
    const uint8_t *of_other = turn->want_other ? pmb_pairs_features(w, other, 1) : NULL;
    int threads =
        o->threads > 1 && w->g.nodes[filled].n * d->n_tiles > PMB_SHARED_WORK ? o->threads : 1;
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
#endif
    for (int t = 0; t < parts; t++) {
        int64_t at = words * d->tile_cell[t], n_words = words * d->tile_cell[t + 1] - at;
        int64_t *hist = w->hist + (o->pool ? w->its[filled].slot * all + at : at);
        pmb_pairs_fill(w, t, filled, begin, hist);
        if (turn->want_filled)
            pmb_scan_part(w, t, hist, w->its[filled].sums, of_filled, 0, w->found + 2 * t);
        if (other < 0) continue;
        if (pooled) {
            int64_t *big = w->hist + w->its[other].slot * all + at;
            pmb_take_off(big, hist, n_words);
            hist = big;
        } else if (turn->want_other) {
            pmb_pairs_fill(w, t, other, begin, hist);
        }
        if (turn->want_other)
            pmb_scan_part(w, t, hist, w->its[other].sums, of_other, 1, w->found + 2 * t + 1);
    }
    if (turn->want_filled) pmb_pairs_choose(w, filled, 0, parts);
    if (turn->want_other) pmb_pairs_choose(w, other, 1, parts);
}

PMB_INLINE int pmb_pairs_splittable(const pmb_pairs *w, int32_t at) {
    const pmb_pair_node *its = w->its + at;
    return its->rows > 1 && its->sums.n / 2 >= w->limits.least_n &&
           its->sums.h / 2 >= w->limits.least_h &&
           (w->g.max_depth == 0 || w->g.nodes[at].depth < w->g.max_depth) &&
           (double)its->sums.h > w->o->min_share * (double)w->its[0].sums.h;
}

/* Part the rows of a node, as far as they are here. */
PMB_STATIC void pmb_pairs_open(pmb_pairs *w, pmb_node *node) {
    pmb_pair_node *its = w->its + (node - w->g.nodes);
    pmb_add_children(&w->g, node);
    pmb_set_rows(&w->g, node, pmb_pairs_part(w, node, w->g.rows + node->start, node->n));
    int32_t l = node->left, r = node->right;
    w->its[l].sums = its->left;
    w->its[r].sums = its->sums;
    pmb_sums_add(&w->its[r].sums, its->left, -1);
    w->its[l].key = pmb_child_key(its->key, 0);
    w->its[r].key = pmb_child_key(its->key, 1);
    w->its[l].rows = w->g.nodes[l].n;
    w->its[r].rows = w->g.nodes[r].n;
    w->its[l].bare = w->its[r].bare = 0;
}

/* Whose splits are sought among the children of a node, and where their histograms go. */
PMB_STATIC pmb_pair_turn pmb_pairs_turn(pmb_pairs *w, const pmb_node *node) {
    pmb_pair_node *its = w->its + (node - w->g.nodes);
    int32_t l = node->left, r = node->right;
    int32_t small = w->its[l].rows <= w->its[r].rows ? l : r, big = small == l ? r : l;
    pmb_pair_turn turn = {small, big, pmb_pairs_splittable(w, small), pmb_pairs_splittable(w, big)};
    if (!turn.want_filled && !turn.want_other) {
        w->free_slots[w->n_free++] = its->slot;
        turn.filled = -1;
        return turn;
    }
    w->its[big].slot = its->slot;
    w->its[small].slot = w->n_free ? w->free_slots[--w->n_free] : w->n_slots++;
    if (!turn.want_other) { /* only the small one counts, and it can have the slot of its parent */
        w->free_slots[w->n_free++] = w->its[big].slot;
        turn.other = -1;
    } else if (!turn.want_filled) {
        w->free_slots[w->n_free++] = w->its[small].slot;
    }
    return turn;
}

PMB_STATIC void pmb_pairs_split(pmb_grower *g, const int32_t *batch, int32_t n_batch, int last) {
    pmb_pairs *w = g->payload;
    pmb_node *node = g->nodes + batch[0];
    (void)n_batch; /* one */
    pmb_pairs_open(w, node);
    if (last) return;
    pmb_pair_turn turn = pmb_pairs_turn(w, node);
    if (turn.filled >= 0) pmb_pairs_evaluate(w, &turn, w->its[batch[0]].bare);
}

PMB_STATIC int32_t pmb_pairs_ahead(const pmb_grower *g) {
    (void)g;
    return 1;
}

/* Sums of the first n of w->g.rows; words add up as in the cells of a histogram. */
PMB_STATIC pmb_sums pmb_pairs_sums(const pmb_pairs *w, int64_t n) {
    const int32_t *rows = w->g.rows;
    const int64_t *gh = w->gh;
    int64_t sum[2] = {0, 0};
    int words = w->o->cell_words;
    for (int64_t i = 0; i < n && words == 1; i++) sum[0] += gh[rows[i]];
    for (int64_t i = 0; i < n && words == 2; i++)
        for (int j = 0; j < 2; j++) sum[j] += gh[2 * (int64_t)rows[i] + j];
    return pmb_cell(sum, w->o, 1);
}

/* The root, of rows with these sums. */
PMB_STATIC void pmb_pairs_root(pmb_pairs *w, pmb_sums sums, int64_t rows) {
    pmb_pair_node *root = w->its;
    memset(root, 0, sizeof *root);
    root->key = w->key;
    root->sums = sums;
    root->rows = rows;
    w->take = w->o->take;
}

/* Whether the best split of the root is to be sought. */
PMB_STATIC int pmb_pairs_begin(pmb_pairs *w, int64_t n) {
    pmb_grow_root(&w->g, n);
    w->n_slots = 1;
    w->n_free = 0;
    return w->d->n_tiles + (w->d->row_ptr != NULL) > 0 && w->g.max_leaves > 1 &&
           pmb_pairs_splittable(w, 0);
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
PMB_STATIC void pmb_pairs_weigh(pmb_pairs *w, int64_t *weight) {
    const pmb_node *nodes = w->g.nodes;
    int32_t n = w->g.n_nodes, most = -1;
    int64_t rest = w->d->whole;
    for (int32_t j = 0; w->d->weighted && nodes[0].n == w->d->c.m && j < n; j++)
        if (!nodes[j].is_split && (most < 0 || nodes[j].n > nodes[most].n)) most = j;
    for (int32_t j = 0; j < n; j++) {
        if (nodes[j].is_split || j == most) continue;
        if (w->d->weighted)
            weight[j] = pmb_weight_of(w->d->weight, w->g.rows + nodes[j].start, nodes[j].n);
        else
            weight[j] = w->its[j].rows;
        rest -= weight[j];
    }
    if (most >= 0) weight[most] = rest;
    for (int32_t j = n - 1; j >= 0; j--)
        if (nodes[j].is_split) weight[j] = weight[nodes[j].left] + weight[nodes[j].right];
}

/* Missing values that a node has not seen go to its heavier side, the left one of equals. No row that the tree was grown
 * on moves. */
PMB_STATIC void pmb_pairs_sides(pmb_pairs *w, const int64_t *weight) {
    for (int32_t j = 0; j < w->g.n_nodes; j++) {
        pmb_node *node = w->g.nodes + j;
        if (node->is_split && w->its[j].unseen)
            node->nan_left = weight[node->left] >= weight[node->right];
    }
}

/* Grow a tree on the n rows in w->g.rows (ascending) with the values w->gh of all rows. Where the features drawn for the
 * root cannot split it, no node draws. */
PMB_STATIC void pmb_pairs_grow(pmb_pairs *w, int64_t n) {
    const pmb_pair_turn root = {0, -1, 1, 0};
    pmb_pairs_root(w, pmb_pairs_sums(w, n), n);
    for (;; w->take = 0) {
        w->its->bare = 0;
        if (pmb_pairs_begin(w, n)) pmb_pairs_evaluate(w, &root, 0);
        if (pmb_grow(&w->g) || !w->take) break;
    }
    pmb_pairs_weigh(w, w->weight);
    pmb_pairs_sides(w, w->weight);
}

/* Memory for growing trees one after the other; 0 if there is not enough (then nothing is held). */
PMB_STATIC int pmb_pairs_new(pmb_pairs *w, const pmb_pair_data *d, const pmb_pair_options *o,
                             int32_t max_leaves, int32_t max_depth) {
    size_t m = (size_t)d->c.m, J = (size_t)max_leaves, parts = (size_t)d->n_tiles + 1;
    size_t words = (size_t)o->cell_words * (size_t)d->tile_cell[d->n_tiles + 1] * (o->pool ? J : 1);
    memset(w, 0, sizeof *w);
    int there = pmb_grower_new(&w->g, &d->c, max_leaves, max_depth, 2 * max_leaves, 1);
    w->d = d;
    w->o = o;
    w->g.rows = calloc(m + PMB_AHEAD, sizeof(int32_t));
    w->its = malloc(sizeof(pmb_pair_node) * 2 * J);
    w->gh = malloc(sizeof(int64_t) * (size_t)o->cell_words * m);
    w->gathered = malloc(sizeof(int64_t) * (size_t)o->cell_words * m);
    w->memory = malloc(sizeof(int64_t) * words + 64);
    w->found = malloc(sizeof(pmb_split) * 2 * parts);
    w->free_slots = malloc(sizeof(int32_t) * (J + 1));
    w->order = malloc(sizeof(int32_t) * 12 * J);
    w->weight = malloc(sizeof(int64_t) * 2 * J);
    w->counted = malloc(d->counted ? ((size_t)d->n_tiles + 7) / 8 * m : 1);
    w->chosen = malloc(2 * (size_t)d->c.n_features + 1);
    w->listed = d->row_ptr ? malloc(2 * (1 + (size_t)d->c.n_features) * sizeof(int32_t)) : NULL;
    w->marks = d->row_ptr ? calloc(m, 1) : NULL;
    there = there && (!d->row_ptr || (w->listed && w->marks));
    w->sets = calloc(2 * ((size_t)d->levels.set_words + J * (size_t)d->levels.most_words) + 1,
                     sizeof(uint64_t));
    if (pmb_is_plain(d)) {
        w->cells = calloc((size_t)o->cell_words * (size_t)(w->g.n_side + 1), sizeof(int64_t));
        w->occupied = calloc((size_t)w->g.n_side / 64 + 1, sizeof(uint64_t));
        w->drawn = malloc(sizeof(int32_t) * ((size_t)d->c.n_features + 1));
        there = there && w->cells && w->occupied && w->drawn &&
                pmb_cuts_new(&w->cuts, (size_t)w->g.n_side + 1);
    }
    if (!there || !w->g.rows || !w->its || !w->gh || !w->gathered || !w->memory || !w->found ||
        !w->free_slots || !w->order || !w->weight || !w->counted || !w->chosen || !w->sets ||
        !pmb_level_scratch_new(&w->scratch, d->levels.most_levels, o->threads)) {
        pmb_pairs_free(w);
        return 0;
    }
    w->hist = (int64_t *)(((uintptr_t)w->memory + 63) / 64 * 64);
    w->g.spare = (int32_t *)w->gathered; /* which is made anew after rows are parted */
    w->g.payload = w;
    w->g.split = pmb_pairs_split;
    w->g.ahead = pmb_pairs_ahead;
    pmb_set_limits(&w->limits, o, 0, 0);
    return 1;
}

#endif
