/* Vector trees: what one thread does with a node. It parts its rows, draws the features of its children, and searches them. */
#ifndef PYMCBOOST_VECTOR_NODE_H
#define PYMCBOOST_VECTOR_NODE_H

#include "vector_move.h"

/* Rows of a node whose feature is sparse to its children. Returns the number on the left. */
PMB_STATIC int64_t pmb_vt_part_sparse(pmb_vt_state *w, int32_t node_index, uint8_t *side) {
    static const uint8_t same[2] = {0, 1};
    const pmb_node *node = w->grower.nodes + node_index;
    const pmb_vt_stats *stats = w->stats + node_index;
    int32_t *rows = w->grower.rows + node->start;
    pmb_sides(&w->data.columns, node, side);
    if (!stats->entries)
        pmb_vt_look_up_sides(w, node->feature, side, rows, node->n, w->node_of_row, node_index,
                             w->row_side);
    else
        pmb_vt_side_of_rows(&w->data.columns, node->feature, side, rows, node->n, stats->cells,
                            stats->cells + stats->n_cells, stats->entries, NULL, node_index,
                            w->row_side);
    return pmb_part_by_8(w->row_side, same, rows, node->n, w->grower.spare + node->start);
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

/* No split of a node gains more: the squares of its rows about their mean. */
PMB_STATIC double pmb_vt_gain_bound(const pmb_vt_state *w, int32_t node_index) {
    const pmb_node *node = w->grower.nodes + node_index;
    int L = w->data.lanes, last = w->data.n_classes / L, lane = w->data.n_classes % L;
    const int32_t *A = pmb_vt_gradients(w, node_index);
    int64_t block = w->data.columns.m * L;
    double all = 0, of_sum = 0;
    for (int b = 0; b < w->data.blocks; b++)
        PMB_VT(L, pmb_vt_spread_, A + b * block, A + last * block + lane, b == last ? lane : -1,
               w->grower.rows + node->start, node->n, &all, &of_sum);
    /* Rounding, which grows with the rows that are added up, does not bring it below a gain. */
    return all * (1 + 1e-9 + 1e-15 * (double)node->n) -
           of_sum / (double)w->stats[node_index].weight;
}

PMB_INLINE int pmb_vt_splittable(const pmb_vt_state *w, int32_t node_index) {
    const pmb_node *node = w->grower.nodes + node_index;
    const pmb_vt_stats *stats = w->stats + node_index;
    return !stats->never_split && (node->n > 1 || w->workers) &&
           stats->weight >= 2 * w->options.least_weight &&
           (w->grower.max_depth == 0 || node->depth < w->grower.max_depth) &&
           (double)stats->weight > w->options.min_share * (double)w->stats[0].weight;
}

/* Draw the features of a node, of those of the tree that may follow the ones on its path; no split of them is known. */
PMB_STATIC void pmb_vt_draw(const pmb_vt_state *w, pmb_vt_node_search *p,
                            const pmb_vt_stats *stats) {
    const uint8_t *pool =
        w->options.n_tree_features < w->data.columns.n_features ? w->tree_features : NULL;
    int32_t d = w->data.columns.n_features, n = w->options.n_tree_features,
            take = w->options.n_drawn;
    if (w->groups) {
        n = 0;
        for (int32_t f = 0; f < d; f++)
            n += p->allowed[f] = (!pool || pool[f]) && (w->groups[f] & stats->groups);
        pool = p->allowed;
        take = take < n ? take : n;
    }
    pmb_sample_of(stats->key, pool, d, n, take, p->chosen);
    p->n_features = pmb_marked(p->chosen, d, p->features);
    for (int32_t j = 0; j < p->n_features; j++) p->score[p->features[j]] = -1;
}

/* A list for a node of few entries whose parent has none, or marks of its rows. */
PMB_STATIC void pmb_vt_find_entries(pmb_vt_state *w, int32_t node_index) {
    const pmb_node *node = w->grower.nodes + node_index;
    const int32_t *rows = w->grower.rows + node->start;
    if (pmb_vt_has_list(w, w->stats[node_index].n_entries))
        pmb_vt_list_entries(w, node_index);
    else
        for (int64_t i = 0; i < node->n; i++) PMB_WRITE(w->node_of_row + rows[i], node_index);
}

/* Begin the search of a node, if it may be split: choose its features, and list their lanes. */
PMB_STATIC int pmb_vt_begin(pmb_vt_state *w, pmb_vt_node_search *p, int32_t node_index) {
    const pmb_columns *c = &w->data.columns;
    const pmb_node *node = w->grower.nodes + node_index;
    p->node = -1;
    if (!pmb_vt_splittable(w, node_index)) return 0;
    p->node = node_index;
    p->n_lanes = 0;
    if (w->node_of_row && node_index > 0 && !w->stats[node_index].entries)
        pmb_vt_find_entries(w, node_index);
    pmb_vt_draw(w, p, w->stats + node_index);
    /* without a branch, which would be guessed wrongly */
    for (int32_t lane = 0; lane < c->n_lanes; lane++) {
        uint8_t any = 0;
        for (int32_t j = c->lane_ptr[lane]; j < c->lane_ptr[lane + 1]; j++)
            any |= p->chosen[c->lane_feature[j]];
        p->lanes[p->n_lanes] = lane;
        p->n_lanes += any;
    }
    p->has_bits = p->in_node && node->n * 64 >= c->m;
    return 1;
}

/* Get a node ready to be searched: begin, and mark, sum up or gather its rows where the search will not. */
PMB_STATIC void pmb_vt_prepare(pmb_vt_state *w, pmb_vt_node_search *p, int32_t node_index,
                               pmb_vt_scratch *s) {
    const pmb_node *node = w->grower.nodes + node_index;
    int64_t m = w->data.columns.m;
    if (!pmb_vt_begin(w, p, node_index)) return;
    if (p->has_bits) pmb_vt_mark(w->grower.rows + node->start, node->n, m, p->in_node);
    for (int b = 0; (node_index > 0 || !w->grown_on_all) && b < w->data.blocks; b++) {
        pmb_sum *total = pmb_vt_totals(w, node_index, b);
        memset(total, 0, sizeof(pmb_sum) * (size_t)w->data.lanes);
        if (w->gathered)
            pmb_vt_gather(w, node_index, b, 0, node->n,
                          pmb_vt_gathered(w, node_index) +
                              ((int64_t)b * m + node->start) * w->data.lanes,
                          total);
        else if (w->n_entries)
            pmb_vt_sum_up(w, node_index, b, s->gathered);
    }
}

PMB_STATIC void pmb_vt_choose_at(pmb_vt_state *w, const pmb_vt_node_search *p) {
    pmb_vt_choose(&w->data, p, w->grower.nodes + p->node, w->stats + p->node,
                  w->sets + (size_t)p->node * (size_t)w->data.most_words);
}

/* Do a piece of the search of a node; after the last one its split is chosen. */
PMB_STATIC void pmb_vt_do_task(pmb_vt_state *w, const pmb_vt_task *task, pmb_vt_scratch *s) {
    pmb_vt_node_search *p = w->searches + task->search;
    int64_t from = (int64_t)PMB_VT_CHUNK * task->first;
    if (task->what == PMB_VT_OF_CELLS)
        pmb_vt_search_sparse(w, p, from, from + PMB_VT_CHUNK, task->entry, s);
    else if (task->what == PMB_VT_OF_FEATURES)
        pmb_vt_search_all(w, p, task->first, (int32_t)task->entry, s);
    else
        pmb_vt_search(w, task, s);
    if (PMB_COUNT_DOWN(&p->n_pieces) == 0) pmb_vt_choose_at(w, p);
}

/* Search a node that has been prepared. */
PMB_STATIC void pmb_vt_search_alone(pmb_vt_state *w, int search, pmb_vt_scratch *s) {
    const pmb_vt_node_search *p = w->searches + search;
    if (p->node < 0) return;
    const pmb_vt_stats *stats = w->stats + p->node;
    if (stats->n_entries && !stats->entries)
        pmb_vt_search_all(w, p, 0, p->n_features, s);
    else if (stats->n_cells)
        pmb_vt_search_sparse(w, p, 0, stats->n_cells, 0, s);
    for (int32_t j = 0; j < p->n_lanes; j += PMB_GROUP) {
        pmb_vt_task task = {search, j, PMB_VT_OF_LANES, 0, 0, 1, 0};
        pmb_vt_search(w, &task, s);
    }
    pmb_vt_choose_at(w, p);
}

/* The children of a node, without their rows. */
PMB_STATIC void pmb_vt_add_children(pmb_vt_state *w, int32_t node_index) {
    pmb_node *node = w->grower.nodes + node_index;
    pmb_add_children(&w->grower, node);
    for (int c = 0; c < 2; c++) {
        pmb_vt_stats *child = w->stats + (c ? node->right : node->left);
        memset(child, 0, sizeof *child);
        child->key = pmb_child_key(w->stats[node_index].key, c);
        child->groups = w->groups ? w->stats[node_index].groups & w->groups[node->feature] : 0;
    }
}

/* The numbers of the rows of a node's children, and their weights. */
PMB_STATIC void pmb_vt_set_rows(pmb_vt_state *w, int32_t node_index, int64_t n_left) {
    const pmb_node *node = w->grower.nodes + node_index;
    const pmb_vt_stats *stats = w->stats + node_index;
    pmb_vt_stats *left = w->stats + node->left, *right = w->stats + node->right;
    pmb_set_rows(&w->grower, node, n_left);
    left->weight = stats->left_weight;
    right->weight = stats->weight - stats->left_weight;
    left->moved = right->moved = stats->moved;
}

/* Leaves so far. */
PMB_INLINE int32_t pmb_vt_n_leaves(const pmb_vt_state *w) {
    return w->grower.max_leaves - w->grower.splits_left;
}

/* Whether a leaf to come, below one that is open, is never split, as it gains `most` at most: that many splits are not
 * left. */
PMB_INLINE int pmb_vt_is_never_split(const pmb_vt_state *w, double most) {
    int32_t n = 0;
    for (int32_t j = 0; j < w->open.n; j++) n += w->open.leaf[j].gain >= most;
    return n >= w->grower.splits_left;
}

/* Whether children of a node that is being parted are never split: then they need not be searched. */
PMB_STATIC void pmb_vt_mark_never_split(pmb_vt_state *w, int32_t node_index) {
    const pmb_node *node = w->grower.nodes + node_index;
    pmb_lock_it(&w->lock);
    int may_be = pmb_vt_n_leaves(w) >= w->grower.splits_left;
    pmb_unlock_it(&w->lock);
    for (int c = 0; c < 2 && may_be; c++) {
        int32_t child = c ? node->right : node->left;
        if (!pmb_vt_splittable(w, child)) continue;
        double most = pmb_vt_gain_bound(w, child);
        pmb_lock_it(&w->lock);
        w->stats[child].never_split = pmb_vt_is_never_split(w, most);
        pmb_unlock_it(&w->lock);
    }
}

/* Rows and sparse entries of a node to its two children. */
PMB_STATIC void pmb_vt_part(pmb_vt_state *w, int32_t node_index, uint8_t *side, int last) {
    const pmb_node *node = w->grower.nodes + node_index;
    const pmb_vt_stats *stats = w->stats + node_index;
    pmb_vt_stats *left = w->stats + node->left, *right = w->stats + node->right;
    int to = node->depth % 2, sparse = w->data.columns.lane[node->feature] < 0;
    int64_t n_left = sparse ? pmb_vt_part_sparse(w, node_index, side)
                            : pmb_part_rows(pmb_vt_columns(w, node_index), node, side,
                                            w->grower.rows + node->start, node->n,
                                            w->grower.spare + node->start);
    pmb_vt_set_rows(w, node_index, n_left);
    if (!last && !w->workers) pmb_vt_mark_never_split(w, node_index);
    if (!stats->n_entries || last) return;
    /* marks of the rows are made later, as other threads look at them here */
    if (!stats->entries) {
        left->first_entry = stats->first_entry;
        left->n_entries = pmb_vt_count_entries(&w->data, w->grower.rows + node->start, n_left);
        right->first_entry = stats->first_entry + left->n_entries;
        right->n_entries = stats->n_entries - left->n_entries;
    } else if (pmb_vt_splittable(w, node->left) || pmb_vt_splittable(w, node->right))
        pmb_vt_part_entries(&w->data, stats, w->grower.rows + node->start, n_left, w->row_side,
                            w->entries[to] + stats->first_entry, w->cells[to] + stats->first_entry,
                            left, right);
}

/* Part a node and search its children, unless it is the last one that is split. */
PMB_STATIC void pmb_vt_split_alone(pmb_vt_state *w, int32_t node_index, int last, int thread) {
    const pmb_node *node = w->grower.nodes + node_index;
    if (!last && pmb_vt_is_to_move(w, node_index)) pmb_vt_move(w, node_index);
    pmb_vt_part(w, node_index, w->grower.side + thread * w->grower.n_side, last);
    if (last) return;
    for (int c = 0; c < 2; c++) {
        int search = 2 * thread + c;
        pmb_vt_prepare(w, w->searches + search, c ? node->right : node->left, w->scratch + thread);
        pmb_vt_search_alone(w, search, w->scratch + thread);
    }
}

/* Histogram updates per row of a node. */
PMB_INLINE int64_t pmb_vt_row_work(const pmb_vt_state *w) {
    return (w->n_entries ? w->n_entries / w->data.columns.m + 1 : w->options.n_drawn) *
           w->data.blocks;
}

#endif
