/* Trees with vector leaves: the payload of vectors for grower.h. Nodes may be parted ahead of their turn by several
 * threads; a tree keeps only those that best-first order reaches. A node's random features depend on the tree's key and
 * the node's path from the root alone. */
#ifndef PYMCBOOST_VECTORS_H
#define PYMCBOOST_VECTORS_H

#include "vectors_move.h"

/* Rows of a node whose feature is sparse to its children. Returns the number on the left. */
PMB_STATIC int64_t pmb_vt_part_sparse(pmb_vectors *w, int32_t at, uint8_t *side) {
    static const uint8_t same[2] = {0, 1};
    const pmb_node *node = w->g.nodes + at;
    const pmb_vt_node *its = w->its + at;
    int32_t *rows = w->g.rows + node->start;
    pmb_sides(&w->d.c, node, side);
    if (!its->entries) pmb_vt_look_up_sides(w, node->feature, side, rows, node->n, w->node_of_row, at, w->row_side);
    else pmb_vt_side_of_rows(&w->d.c, node->feature, side, rows, node->n, its->cells, its->cells + its->n_cells,
                             its->entries, NULL, at, w->row_side);
    return pmb_part_by_8(w->row_side, same, rows, node->n, w->g.spare + node->start);
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
PMB_STATIC double pmb_vt_most(const pmb_vectors *w, int32_t at) {
    const pmb_node *node = w->g.nodes + at;
    int L = w->d.lanes, last = w->d.n_classes / L, lane = w->d.n_classes % L;
    const int32_t *A = pmb_vt_gradients(w, at);
    int64_t block = w->d.c.m * L;
    double all = 0, of_sum = 0;
    for (int b = 0; b < w->d.blocks; b++)
        PMB_VT(L, pmb_vt_spread_, A + b * block, A + last * block + lane, b == last ? lane : -1,
               w->g.rows + node->start, node->n, &all, &of_sum);
    /* Rounding, which grows with the rows that are added up, does not bring it below a gain. */
    return all * (1 + 1e-9 + 1e-15 * (double)node->n) - of_sum / (double)w->its[at].weight;
}

PMB_INLINE int pmb_vt_splittable(const pmb_vectors *w, int32_t at) {
    const pmb_node *node = w->g.nodes + at;
    const pmb_vt_node *its = w->its + at;
    return !its->late && (node->n > 1 || w->sum) && its->weight >= 2 * w->o.least &&
           (w->g.max_depth == 0 || node->depth < w->g.max_depth) &&
           (double)its->weight > w->o.min_share * (double)w->its[0].weight;
}

/* Draw the features of a node, of those of the tree that may follow the ones on its path; no split of them is known. */
PMB_STATIC void pmb_vt_draw(const pmb_vectors *w, pmb_vt_place *p, const pmb_vt_node *its) {
    const uint8_t *pool = w->o.pool < w->d.c.n_features ? w->pool : NULL;
    int32_t d = w->d.c.n_features, n = w->o.pool, take = w->o.take;
    if (w->groups) {
        n = 0;
        for (int32_t f = 0; f < d; f++) n += p->allowed[f] = (!pool || pool[f]) && (w->groups[f] & its->groups);
        pool = p->allowed;
        take = take < n ? take : n;
    }
    pmb_sample_of(its->key, pool, d, n, take, p->chosen);
    p->n_features = pmb_marked(p->chosen, d, p->features);
    for (int32_t j = 0; j < p->n_features; j++) p->score[p->features[j]] = -1;
}

/* A list for a node of few entries whose parent has none, or marks of its rows. */
PMB_STATIC void pmb_vt_find_entries(pmb_vectors *w, int32_t at) {
    const pmb_node *node = w->g.nodes + at;
    const int32_t *rows = w->g.rows + node->start;
    if (pmb_vt_has_list(w, w->its[at].n_entries)) pmb_vt_list_entries(w, at);
    else
        for (int64_t i = 0; i < node->n; i++) w->node_of_row[rows[i]] = at;
}

/* Get node `at` ready to be searched at a place: choose its features, list their lanes, and sum up or gather its rows
 * where the search will not. */
PMB_STATIC void pmb_vt_prepare(pmb_vectors *w, pmb_vt_place *p, int32_t at, pmb_vt_scratch *s) {
    const pmb_columns *c = &w->d.c;
    const pmb_node *node = w->g.nodes + at;
    p->node = -1;
    if (!pmb_vt_splittable(w, at)) return;
    p->node = at;
    p->n_lanes = 0;
    if (w->node_of_row && at > 0 && !w->its[at].entries) pmb_vt_find_entries(w, at);
    pmb_vt_draw(w, p, w->its + at);
    for (int32_t lane = 0; lane < c->n_lanes; lane++) { /* without a branch, which would be guessed wrongly */
        uint8_t any = 0;
        for (int32_t j = c->lane_ptr[lane]; j < c->lane_ptr[lane + 1]; j++) any |= p->chosen[c->lane_feature[j]];
        p->lanes[p->n_lanes] = lane;
        p->n_lanes += any;
    }
    p->has_bits = p->in_node && node->n * 64 >= c->m;
    if (p->has_bits) pmb_vt_mark(w->g.rows + node->start, node->n, c->m, p->in_node);
    for (int b = 0; (at > 0 || !w->whole) && b < w->d.blocks; b++) {
        pmb_sum *total = pmb_vt_totals(w, at, b);
        memset(total, 0, sizeof(pmb_sum) * (size_t)w->d.lanes);
        if (w->gathered)
            pmb_vt_gather(w, at, b, 0, node->n,
                          pmb_vt_gathered(w, at) + ((int64_t)b * c->m + node->start) * w->d.lanes, total);
        else if (w->n_entries)
            pmb_vt_sum_up(w, at, b, s->gathered);
    }
}

PMB_STATIC void pmb_vt_do(const pmb_vectors *w, const pmb_vt_task *task, pmb_vt_scratch *s) {
    const pmb_vt_place *p = w->places + task->place;
    int64_t from = (int64_t)PMB_VT_CHUNK * task->first;
    if (task->what == PMB_VT_OF_CELLS) pmb_vt_search_sparse(w, p, from, from + PMB_VT_CHUNK, task->entry, s);
    else if (task->what == PMB_VT_OF_FEATURES) pmb_vt_search_all(w, p, task->first, (int32_t)task->entry, s);
    else pmb_vt_search(w, p, task->first, s);
}

/* Best splits of the prepared places. */
PMB_STATIC void pmb_vt_evaluate(pmb_vectors *w, int n_places, int threads) {
    int n_tasks = 0;
    if (w->sum) pmb_vt_evaluate_all(w, n_places, threads);
    for (int c = 0; c < n_places && !w->sum; c++) {
        const pmb_vt_place *p = w->places + c;
        if (p->node < 0) continue;
        const pmb_vt_node *its = w->its + p->node;
        int64_t entry = 0, cell = 0, n = p->n_features, shares = threads > 1 ? PMB_VT_SHARES : 1;
        for (int64_t j = 0; j < shares && its->n_entries && !its->entries; j++)
            w->tasks[n_tasks++] = (pmb_vt_task){c, (int32_t)(n * j / shares), PMB_VT_OF_FEATURES, n * (j + 1) / shares};
        for (int64_t from = 0; from < its->n_cells; from += PMB_VT_CHUNK) {
            while (cell < from) entry += its->cells[cell++].count;
            w->tasks[n_tasks++] = (pmb_vt_task){c, (int32_t)(from / PMB_VT_CHUNK), PMB_VT_OF_CELLS, entry};
        }
        for (int32_t j = 0; j < p->n_lanes; j += PMB_GROUP)
            w->tasks[n_tasks++] = (pmb_vt_task){c, j, PMB_VT_OF_LANES, 0};
    }
    PMB_SHARED(threads, n_tasks, pmb_vt_do(w, w->tasks + t, w->scratch + PMB_THREAD()));
    for (int c = 0; c < n_places && !w->failed; c++)
        if (w->places[c].node >= 0)
            pmb_vt_choose(&w->d, w->places + c, w->g.nodes + w->places[c].node, w->its + w->places[c].node,
                          w->sets + (size_t)w->places[c].node * (size_t)w->d.most_words);
}

/* Rows and sparse entries of a node to its two children, whose places were taken before. */
PMB_STATIC void pmb_vt_part(pmb_vectors *w, int32_t at, uint8_t *side, int last) {
    const pmb_node *node = w->g.nodes + at;
    const pmb_vt_node *its = w->its + at;
    pmb_vt_node *left = w->its + node->left, *right = w->its + node->right;
    int to = node->depth % 2, sparse = w->d.c.lane[node->feature] < 0;
    int64_t n_left = sparse ? pmb_vt_part_sparse(w, at, side)
                            : pmb_part_rows(pmb_vt_columns(w, at), node, side, w->g.rows + node->start, node->n,
                                            w->g.spare + node->start);
    pmb_set_rows(&w->g, node, n_left);
    left->weight = its->left_weight;
    right->weight = its->weight - its->left_weight;
    for (int c = 0; c < 2 && !last && !w->sum && w->g.n_open >= w->g.n_left; c++) {
        int32_t child = c ? node->right : node->left;
        w->its[child].late = pmb_vt_splittable(w, child) && pmb_comes_too_late(&w->g, pmb_vt_most(w, child));
    }
    if (!its->n_entries || last) return;
    if (!its->entries) { /* marks of the rows are made later, as other threads look at them here */
        left->first_entry = its->first_entry;
        left->n_entries = pmb_vt_count_entries(&w->d, w->g.rows + node->start, n_left);
        right->first_entry = its->first_entry + left->n_entries;
        right->n_entries = its->n_entries - left->n_entries;
    } else if (pmb_vt_splittable(w, node->left) || pmb_vt_splittable(w, node->right))
        pmb_vt_part_entries(&w->d, its, w->g.rows + node->start, n_left, w->row_side,
                            w->entries[to] + its->first_entry, w->cells[to] + its->first_entry, left, right);
}

PMB_STATIC void pmb_vt_prepare_child(pmb_vectors *w, pmb_vt_place *p, int32_t at, int is_right) {
    const pmb_node *node = w->g.nodes + at;
    pmb_vt_prepare(w, p, is_right ? node->right : node->left, w->scratch + PMB_THREAD());
}

/* Histogram updates per row of a node. */
PMB_INLINE int64_t pmb_vt_row_work(const pmb_vectors *w) {
    return (w->n_entries ? w->n_entries / w->d.c.m + 1 : w->o.take) * w->d.blocks;
}

PMB_STATIC void pmb_vt_split(pmb_grower *g, const int32_t *batch, int32_t n_batch, int last) {
    pmb_vectors *w = g->payload;
    int64_t rows = 0;
    for (int32_t b = 0; b < n_batch; b++) {
        pmb_node *node = g->nodes + batch[b];
        rows += node->n;
        if (!last && pmb_vt_is_to_move(w, batch[b])) pmb_vt_move(w, batch[b]);
        pmb_add_children(g, node);
        for (int c = 0; c < 2; c++) {
            pmb_vt_node *child = w->its + (c ? node->right : node->left);
            memset(child, 0, sizeof *child);
            child->key = pmb_child_key(w->its[batch[b]].key, c);
            child->moved = w->its[batch[b]].moved;
            child->groups = w->groups ? w->its[batch[b]].groups & w->groups[node->feature] : 0;
        }
    }
    int threads = rows * pmb_vt_row_work(w) > PMB_VT_SHARED_WORK ? w->o.threads : 1;
    PMB_SHARED(n_batch > 1 ? threads : 1, n_batch, pmb_vt_part(w, batch[t], g->side + t * g->n_side, last));
    if (last) return;
    PMB_SHARED(threads, 2 * n_batch, pmb_vt_prepare_child(w, w->places + t, batch[t / 2], t % 2));
    pmb_vt_evaluate(w, 2 * n_batch, threads);
}

/* Small nodes are parted several at a time, one by each thread, or to be in one message, while there is room for those
 * parted in vain. */
PMB_STATIC int32_t pmb_vt_ahead(const pmb_grower *g) {
    const pmb_vectors *w = g->payload;
    int32_t room = (g->max_nodes - 2 * g->n_left - g->n_nodes) / 2;
    int32_t limit = w->sum ? pmb_vt_together(w) : PMB_BATCH; /* the same for all workers */
    int64_t rows = g->nodes[g->open[g->at]].n;
    if (!w->sum && (w->o.threads == 1 || rows * pmb_vt_row_work(w) >= 8 * PMB_VT_SHARED_WORK)) return 1;
    return limit < room ? limit : room;
}

/* Grow a tree on gradients A (blocks, m, lanes) of all rows, or of those drawn. Returns the number of splits. */
PMB_STATIC int32_t pmb_vt_grow(pmb_vectors *w, const int32_t *A, uint64_t key) {
    pmb_vt_node *root = w->its;
    int64_t m = w->d.c.m, n = pmb_vt_draw_rows(key, w->o.share, m, w->row_number, w->g.rows, w->g.spare);
    int L = w->d.lanes;
    w->A = A;
    w->failed = 0;
    if (w->o.share >= 1 || !pmb_vt_all_rows(w, n))
        for (n = 0; n < m; n++) w->g.rows[n] = (int32_t)n;
    w->whole = w->o.share >= 1 || (n == m && !w->sum);
    if (w->o.pool < w->d.c.n_features) pmb_sample(pmb_mix(key + PMB_GOLDEN + 1), w->d.c.n_features, w->o.pool, w->pool);
    pmb_grow_root(&w->g, n);
    memset(root, 0, sizeof *root);
    root->key = key;
    root->groups = UINT64_MAX;
    root->n_entries = w->n_entries;
    if (w->node_of_row) memset(w->node_of_row, w->whole ? 0 : -1, sizeof(int32_t) * (size_t)m);
    else {
        root->entries = w->all_entries;
        root->cells = w->all_cells;
        root->n_cells = w->n_used_cells;
    }
    if (w->whole)
        for (int b = 0; b < w->d.blocks; b++) PMB_VT(L, pmb_vt_sum_, A + (int64_t)b * m * L, m, pmb_vt_totals(w, 0, b));
    else pmb_vt_root_of_part(w, n);
    if (w->sum) pmb_vt_all(w, pmb_vt_totals(w, 0, w->whole ? 0 : w->d.n_classes / L), (w->whole ? w->d.blocks : 1) * L, NULL);
    root->weight = pmb_vt_totals(w, 0, w->d.n_classes / L)[w->d.n_classes % L];
    if (w->g.max_leaves > 1) {
        pmb_vt_prepare(w, w->places, 0, w->scratch);
        pmb_vt_evaluate(w, 1, n * pmb_vt_row_work(w) > PMB_VT_SHARED_WORK ? w->o.threads : 1);
    }
    return pmb_grow(&w->g);
}

/* Rows of the leaves in ascending order, leaf after leaf, and the leaf of every row. */
PMB_STATIC void pmb_vt_leaves(pmb_vectors *w, const int32_t *leaf_node, int32_t n_leaves, int64_t *leaf_start,
                              int32_t *leaf_of_row) {
    for (int32_t j = 0; j < n_leaves; j++) {
        const pmb_node *node = w->g.nodes + leaf_node[j];
        pmb_vt_rows_of_leaf(w, leaf_node[j]);
        for (int64_t i = node->start; i < node->start + node->n; i++) leaf_of_row[w->g.rows[i]] = j;
        leaf_start[j] = node->start;
    }
    leaf_start[n_leaves] = w->d.c.m;
    if (!w->whole) pmb_vt_add_rows(w, w->g.nodes[0].n, n_leaves, leaf_start, leaf_of_row);
}

#define PMB_ALIGNED(p) ((void *)(((uintptr_t)(p) + 63) / 64 * 64))

PMB_STATIC void pmb_vt_scratch_free(pmb_vt_scratch *s) {
    free(s->memory);
    free(s->bits);
    free(s->occupied);
    free(s->numbers);
    free(s->its_count);
    free(s->its_first);
    free(s->members);
    free(s->slot);
    free(s->bin);
    free(s->left);
    free(s->d2);
    free(s->d2_missing);
    free(s->runs);
    free(s->level_key);
    free(s->level_slot);
    free(s->level_vectors);
    free(s->level_memory);
}

/* Memory of the search in levels; 0 where there is not enough. */
PMB_STATIC int pmb_vt_levels_new(pmb_vt_scratch *s, const pmb_vt_data *d) {
    size_t n = (size_t)d->most_levels + 1, lanes = (size_t)d->lanes, all = (size_t)d->blocks * lanes;
    s->level_key = malloc(2 * n * sizeof(uint64_t));
    s->level_slot = malloc(2 * n * sizeof(int32_t));
    s->level_vectors = malloc(PMB_VT_VECTORS * (size_t)d->n_classes * sizeof(double));
    s->level_memory = malloc(((size_t)d->kept * lanes + all) * sizeof(pmb_sum) + 64);
    s->kept = PMB_ALIGNED(s->level_memory);
    s->level_total = s->kept + (size_t)d->kept * lanes;
    s->level_bin = s->level_slot + n;
    return s->level_key && s->level_slot && s->level_vectors && s->level_memory;
}

/* 0 where there is not enough memory. */
PMB_STATIC int pmb_vt_scratch_new(pmb_vt_scratch *s, int64_t cells, int64_t n_features, size_t members,
                                  const pmb_vt_data *d) {
    size_t steps = (size_t)(cells + n_features + 1);
    int lanes = d->lanes;
    s->memory = calloc((size_t)((cells + 1) * lanes) * sizeof(pmb_sum) + (size_t)(PMB_VT_ROWS * lanes) * sizeof(int32_t) + 64, 1);
    s->gathered = PMB_ALIGNED(s->memory);
    s->hist = (pmb_sum *)(s->gathered + PMB_VT_ROWS * lanes);
    s->bits = calloc((size_t)cells / 64 + PMB_GROUP + 1, sizeof(uint64_t));
    s->occupied = malloc(steps * sizeof(int32_t));
    s->numbers = malloc(steps * sizeof(int32_t));
    s->its_count = malloc(steps * sizeof(int32_t));
    s->its_first = malloc(steps * sizeof(int64_t));
    s->members = malloc(members * sizeof(int32_t));
    s->slot = malloc(steps * sizeof(int32_t));
    s->bin = malloc(steps * sizeof(int32_t));
    s->left = calloc(steps + 8, sizeof(double)); /* some are read behind the last */
    s->d2 = calloc(steps + 8, sizeof(double));
    s->d2_missing = calloc(steps + 8, sizeof(double));
    s->runs = malloc((size_t)(n_features + 1) * sizeof(pmb_vt_run));
    if (!(s->memory && s->bits && s->occupied && s->numbers && s->its_count && s->its_first && s->members && s->slot &&
          s->bin && s->left && s->d2 && s->d2_missing && s->runs && pmb_vt_levels_new(s, d)))
        return 0;
    for (size_t j = 0; j < steps; j++) s->numbers[j] = (int32_t)j;
    return 1;
}

PMB_STATIC void pmb_vectors_free(pmb_vectors *w) {
    for (int t = 0; w->scratch && t < w->o.threads; t++) pmb_vt_scratch_free(w->scratch + t);
    free(w->scratch);
    free(w->g.spare);
    pmb_grower_free(&w->g);
    free(w->its);
    free(w->sets);
    free(w->totals);
    free(w->tasks);
    for (int j = 0; j < 2; j++) {
        free(w->entries[j]);
        free(w->cells[j]);
        free(w->memory[j]);
    }
    free(w->row_side);
    free(w->node_of_row);
    free(w->pool);
    free(w->waiting);
    free(w->first_cell);
    free(w->message);
    free(w->records);
    free(w->lengths);
}

/* The searched features of a node take room for at most so many places at a time. */
PMB_STATIC int pmb_vt_places_new(pmb_vectors *w) {
    size_t d = (size_t)w->d.c.n_features, lanes = (size_t)w->d.c.n_lanes, words = w->d.others ? ((size_t)w->d.c.m + 63) / 64 : 0;
    size_t one = d * (2 * sizeof(double) + 2 * sizeof(int32_t) + 2) + lanes * sizeof(int32_t) + words * sizeof(uint64_t);
    size_t sets = (size_t)w->d.set_words;
    one += sets * sizeof(uint64_t);
    one = (one + 63) / 64 * 64;
    char *at = w->memory[1] = malloc(PMB_VT_PLACES * one);
    for (int j = 0; at && j < PMB_VT_PLACES; j++, at += one) {
        pmb_vt_place *p = w->places + j;
        p->score = (double *)at;
        p->left = p->score + d;
        p->in_node = words ? (uint64_t *)(p->left + d) : NULL;
        p->sets = (uint64_t *)(p->left + d) + words;
        p->code = (int32_t *)(p->sets + sets);
        p->features = p->code + d;
        p->lanes = p->features + d;
        p->chosen = (uint8_t *)(p->lanes + lanes);
        p->allowed = p->chosen + d;
    }
    return at != NULL;
}

/* Where the cells and entries of every sparse feature begin; 0 where there is not enough memory. */
PMB_STATIC int pmb_vt_index(pmb_vectors *w) {
    size_t d = (size_t)w->d.c.n_features;
    int64_t cell = 0, entry = 0;
    if (!w->n_entries) return 1;
    w->first_cell = malloc(2 * (d + 1) * sizeof(int64_t));
    if (!w->first_cell) return 0;
    w->first_entry = w->first_cell + d + 1;
    for (size_t f = 0; f < d; f++) {
        while (cell < w->n_used_cells && w->all_cells[cell].cell < w->d.c.cell0[f]) entry += w->all_cells[cell++].count;
        w->first_cell[f] = cell;
        w->first_entry[f] = entry;
    }
    w->first_cell[d] = w->n_used_cells;
    w->first_entry[d] = w->n_entries;
    return 1;
}

/* Memory for growing trees one after the other, for the data, options and rows (m + PMB_VT_FAR) in w; 0 where there is not enough. */
PMB_STATIC int pmb_vectors_new(pmb_vectors *w, int32_t max_leaves, int32_t max_depth, int64_t most_sparse_cells) {
    const pmb_columns *c = &w->d.c;
    /* Room for as many nodes again that were split ahead in vain. */
    size_t m = (size_t)c->m, nodes = 4 * (size_t)max_leaves + 4 * PMB_BATCH, lanes = (size_t)w->d.lanes;
    size_t n = (size_t)w->n_entries + 1;
    int64_t cells = (int64_t)PMB_GROUP * w->d.max_cells, sparse = PMB_VT_CELLS + most_sparse_cells;
    int there = pmb_grower_new(&w->g, c, max_leaves, max_depth, (int32_t)nodes, PMB_BATCH);
    w->g.payload = w;
    w->g.split = pmb_vt_split;
    w->g.ahead = pmb_vt_ahead;
    w->g.beyond = w->sum != NULL;
    w->g.spare = malloc(m * sizeof(int32_t));
    w->its = malloc(nodes * sizeof(pmb_vt_node));
    w->sets = malloc((nodes * (size_t)w->d.most_words + 1) * sizeof(uint64_t));
    w->totals = malloc(nodes * (size_t)w->d.blocks * lanes * sizeof(pmb_sum));
    w->tasks = malloc(sizeof(pmb_vt_task) * (PMB_VT_PLACES * ((size_t)c->n_lanes / PMB_GROUP + 2 + PMB_VT_SHARES) + n / PMB_VT_CHUNK + 1));
    w->row_side = malloc(w->n_entries ? m : 1);
    int looked_up = w->n_entries && (int64_t)w->o.take * PMB_VT_FEW <= c->n_features;
    if (looked_up) w->node_of_row = malloc(m * sizeof(int32_t));
    there = there && (!looked_up || w->node_of_row);
    w->pool = malloc((size_t)c->n_features + 1);
    w->waiting = malloc(((size_t)max_leaves + 1) * sizeof(pmb_vt_waiting));
    there = there && w->pool && w->waiting && pmb_vt_index(w);
    for (int j = 0; j < 2; j++) {
        w->entries[j] = malloc(n * sizeof(int32_t));
        w->cells[j] = malloc(n * sizeof(pmb_vt_cell));
        there = there && w->entries[j] && w->cells[j];
    }
    w->scratch = calloc((size_t)w->o.threads, sizeof(pmb_vt_scratch));
    for (int t = 0; w->scratch && t < w->o.threads; t++)
        there = pmb_vt_scratch_new(w->scratch + t, cells > sparse ? cells : sparse, c->n_features, looked_up ? m + 1 : 1, &w->d) && there;
    if (!w->n_entries && w->o.take > PMB_GROUP) { /* several groups read the rows of a node */
        w->memory[0] = malloc((size_t)w->d.blocks * m * lanes * sizeof(int32_t) + 64);
        w->gathered = PMB_ALIGNED(w->memory[0]);
        there = there && w->memory[0];
    }
    there = (!w->sum || pmb_vt_messages_new(w)) && there;
    return pmb_vt_places_new(w) && there && w->g.spare && w->its && w->sets && w->totals && w->tasks && w->row_side && w->scratch;
}

#endif
