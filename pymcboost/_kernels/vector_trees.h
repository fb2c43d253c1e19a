/* Vector trees: grows a tree, lists the rows of its leaves, and has the memory. The headers of vector trees are layers, from
 * what is found in a histogram (vector_scan.h) to nodes that several threads split (vector_large_nodes.h, vector_small_nodes.h). The
 * random features of a node depend only on the tree's key and on the node's path from the root. */
#ifndef PYMCBOOST_VECTOR_TREES_H
#define PYMCBOOST_VECTOR_TREES_H

#include "vector_workers.h"

/* Sums of a piece of the rows, which are all rows, and their numbers. */
PMB_STATIC void pmb_vt_root_piece(void *vectors, int64_t piece, int thread) {
    pmb_vt_state *w = vectors;
    int64_t m = w->data.columns.m, from = piece * PMB_VT_PART,
            to = m - from < PMB_VT_PART ? m : from + PMB_VT_PART;
    int L = w->data.lanes;
    (void)thread;
    for (int64_t i = from; i < to; i++) w->grower.rows[i] = (int32_t)i;
    for (int b = 0; b < w->data.blocks; b++) {
        pmb_sum sums[PMB_VT_LANES], *total = pmb_vt_totals(w, 0, b);
        PMB_VT(L, pmb_vt_sum_, w->A + ((int64_t)b * m + from) * L, to - from, sums);
        pmb_lock_it(&w->lock);
        for (int l = 0; l < L; l++) total[l] += sums[l];
        pmb_unlock_it(&w->lock);
    }
}

/* The sums of a root that has all rows. */
PMB_STATIC void pmb_vt_root_of_all(pmb_vt_state *w, int threads) {
    memset(pmb_vt_totals(w, 0, 0), 0, sizeof(pmb_sum) * (size_t)(w->data.blocks * w->data.lanes));
    w->threads->run(threads, (w->data.columns.m + PMB_VT_PART - 1) / PMB_VT_PART, pmb_vt_root_piece,
                    w);
    pmb_vt_add_up(w, pmb_vt_totals(w, 0, 0), w->data.blocks * w->data.lanes, NULL);
}

/* The drawn rows of a root, and their sums; where it is searched, they are marked and gathered at the first search space. */
PMB_STATIC void pmb_vt_root_of_drawn(pmb_vt_state *w, pmb_vt_rows *rows, int threads) {
    pmb_vt_stats *root = w->stats;
    int b = w->data.n_classes / w->data.lanes;
    if (w->workers || w->n_entries || w->grower.max_leaves < 2) {
        w->threads->run(threads, rows->n_pieces, pmb_vt_place_piece, rows);
        pmb_vt_root_of_part(w, rows->n_left);
        pmb_vt_add_up(w, pmb_vt_totals(w, 0, b), w->data.lanes, NULL);
        return;
    }
    root->weight = INT64_MAX; /* which is to come */
    rows->searches[0] = w->searches;
    pmb_vt_begin_pieces(w, w->searches, 0);
    w->threads->run(threads, rows->n_pieces, pmb_vt_place_piece, rows);
}

/* Start a tree: its rows, their sums, and the best split of the root. */
PMB_STATIC void pmb_vt_root(pmb_vt_state *w, uint64_t key) {
    pmb_vt_stats *root = w->stats;
    int64_t m = w->data.columns.m, n = m, pieces = (m + PMB_VT_PART - 1) / PMB_VT_PART;
    int threads = m * pmb_vt_row_work(w) > PMB_VT_SHARED_WORK ? w->options.threads : 1,
        of_weight = w->data.n_classes / w->data.lanes;
    pmb_vt_rows rows = {w, 0, m, pieces, 0, NULL, &w->data.columns, key, {NULL, NULL}};
    w->grown_on_all = w->options.share >= 1;
    if (!w->grown_on_all) {
        w->threads->run(threads, pieces, pmb_vt_part_piece, &rows);
        pmb_vt_add_counts(&rows);
        n = rows.n_left;
        w->grown_on_all = !pmb_vt_all_rows(w, n) || (n == m && !w->workers);
        if (w->grown_on_all) n = m;
    }
    pmb_grow_root(&w->grower, n);
    memset(root, 0, sizeof *root);
    root->key = key;
    root->groups = UINT64_MAX;
    root->n_entries = w->n_entries;
    if (w->node_of_row)
        memset(w->node_of_row, w->grown_on_all ? 0 : -1, sizeof(int32_t) * (size_t)m);
    else {
        root->entries = w->all_entries;
        root->cells = w->all_cells;
        root->n_cells = w->n_used_cells;
    }
    if (w->grown_on_all)
        pmb_vt_root_of_all(w, threads);
    else
        pmb_vt_root_of_drawn(w, &rows, threads);
    root->weight = pmb_vt_totals(w, 0, of_weight)[w->data.n_classes % w->data.lanes];
    if (rows.searches[0] && !w->gathered) /* the search adds up once more */
        memset(pmb_vt_totals(w, 0, 0), 0,
               sizeof(pmb_sum) * (size_t)(w->data.blocks * w->data.lanes));
    if (w->grower.max_leaves < 2) return;
    if (!rows.searches[0])
        pmb_vt_prepare(w, w->searches, 0, w->scratch);
    else if (!pmb_vt_splittable(w, 0))
        w->searches->node = -1;
    if (!w->workers)
        pmb_vt_evaluate(w, 1, threads);
    else
        pmb_vt_split_of_all(w, 1, threads);
}

/* Grow a tree on gradients A (blocks, m, lanes) of all rows, or of those drawn. Returns the number of splits. */
PMB_STATIC int32_t pmb_vt_grow(pmb_vt_state *w, const int32_t *A, uint64_t key) {
    int64_t work = w->data.columns.m * pmb_vt_row_work(w);
    w->A = A;
    if (w->options.n_tree_features < w->data.columns.n_features)
        pmb_sample(pmb_mix(key + PMB_GOLDEN + 1), w->data.columns.n_features,
                   w->options.n_tree_features, w->tree_features);
    pmb_vt_root(w, key);
    return w->workers ? pmb_grow(&w->grower)
                      : pmb_vt_grow_by(w, work > PMB_VT_TEAM_WORK ? w->options.threads : 1);
}

/* The leaves of a grown tree. */
typedef struct {
    pmb_vt_state *w;
    const int32_t *leaf_node;
    int32_t n_leaves, *leaf_of_row;
    int64_t n_pieces;
} pmb_vt_leaf_job;

/* A row has its own number in some nodes, and in others its place among the moved ones. */
PMB_STATIC void pmb_vt_leaf_of_rows(pmb_vt_state *w, int32_t node_index, int32_t leaf,
                                    int32_t *leaf_of_row) {
    const pmb_node *node = w->grower.nodes + node_index;
    const int32_t *rows = w->grower.rows + node->start,
                  *origin = w->stats[node_index].moved ? w->origin : NULL;
    if (node->left >= 0) {
        pmb_vt_leaf_of_rows(w, node->left, leaf, leaf_of_row);
        pmb_vt_leaf_of_rows(w, node->right, leaf, leaf_of_row);
    } else
        for (int64_t i = 0; i < node->n; i++)
            leaf_of_row[origin ? origin[rows[i]] : rows[i]] = leaf;
}

/* Rows of a piece of the leaves. Where the tree has not been grown on all, the others will be put among them. */
PMB_STATIC void pmb_vt_leaves_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_leaf_job *l = of;
    pmb_vt_state *w = l->w;
    (void)thread;
    for (int64_t j = l->n_leaves * piece / l->n_pieces; j < l->n_leaves * (piece + 1) / l->n_pieces;
         j++) {
        const pmb_node *node = w->grower.nodes + l->leaf_node[j];
        if (!w->grown_on_all) {
            pmb_vt_leaf_of_rows(w, l->leaf_node[j], (int32_t)j, l->leaf_of_row);
            continue;
        }
        pmb_vt_rows_of_leaf(w, l->leaf_node[j]);
        for (int64_t i = node->start; i < node->start + node->n; i++)
            l->leaf_of_row[w->grower.rows[i]] = (int32_t)j;
    }
}

/* Leaves of a piece of the rows that the tree has not been grown on. */
PMB_STATIC void pmb_vt_route_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_leaf_job *l = of;
    pmb_vt_state *w = l->w;
    int64_t first = w->grower.nodes[0].n, n = w->data.columns.m - first,
            from = n * piece / l->n_pieces;
    pmb_vt_route(w, first + from, n * (piece + 1) / l->n_pieces - from,
                 w->waiting + thread * (w->grower.max_leaves + 1),
                 w->grower.side + thread * w->grower.n_side, l->leaf_of_row);
}

/* How many rows of a piece of all rows each leaf has. */
PMB_STATIC void pmb_vt_count_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_leaf_job *l = of;
    int64_t m = l->w->data.columns.m, *counts = l->w->counts + piece * l->n_leaves;
    (void)thread;
    memset(counts, 0, sizeof(int64_t) * (size_t)l->n_leaves);
    for (int64_t i = m * piece / l->n_pieces; i < m * (piece + 1) / l->n_pieces; i++)
        counts[l->leaf_of_row[i]]++;
}

/* Put them into the list of all leaves' rows. */
PMB_STATIC void pmb_vt_list_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_leaf_job *l = of;
    int64_t m = l->w->data.columns.m, *next = l->w->counts + piece * l->n_leaves;
    (void)thread;
    for (int64_t i = m * piece / l->n_pieces; i < m * (piece + 1) / l->n_pieces; i++)
        l->w->grower.rows[next[l->leaf_of_row[i]]++] = (int32_t)i;
}

/* Rows of the leaves in ascending order, leaf after leaf, and the leaf of every row: also of those that the tree has not
 * been grown on, as a leaf's vector is that of all its rows. */
PMB_STATIC void pmb_vt_leaves(pmb_vt_state *w, const int32_t *leaf_node, int32_t n_leaves,
                              int64_t *leaf_start, int32_t *leaf_of_row) {
    int64_t m = w->data.columns.m, start = 0;
    int threads = m < PMB_VT_PART ? 1 : w->options.threads, searched = w->n_entries ? 1 : threads;
    pmb_vt_leaf_job l = {w, leaf_node, n_leaves, leaf_of_row, threads};
    l.n_pieces = n_leaves < 16 * threads ? n_leaves : 16 * threads;
    w->threads->run(threads, l.n_pieces, pmb_vt_leaves_piece, &l);
    leaf_start[n_leaves] = m;
    for (int32_t j = 0; j < n_leaves; j++) leaf_start[j] = w->grower.nodes[leaf_node[j]].start;
    if (w->grown_on_all) return;
    l.n_pieces = searched; /* sparse features' sides are looked up for all rows at a time */
    w->threads->run(searched, l.n_pieces, pmb_vt_route_piece, &l);
    l.n_pieces = threads;
    w->threads->run(threads, l.n_pieces, pmb_vt_count_piece, &l);
    for (int32_t j = 0; j < n_leaves; j++) {
        leaf_start[j] = start;
        for (int64_t piece = 0; piece < l.n_pieces; piece++) {
            int64_t *count = w->counts + piece * n_leaves + j, n = *count;
            *count = start;
            start += n;
        }
    }
    w->threads->run(threads, l.n_pieces, pmb_vt_list_piece, &l);
}

#define PMB_ALIGNED(p) ((void *)(((uintptr_t)(p) + 63) / 64 * 64))

PMB_STATIC void pmb_vt_scratch_free(pmb_vt_scratch *s) {
    free(s->memory);
    free(s->bits);
    free(s->occupied);
    free(s->ordinals);
    free(s->entry_count);
    free(s->entry_start);
    free(s->members);
    free(s->slot);
    free(s->bin);
    free(s->left);
    free(s->squares);
    free(s->squares_missing);
    free(s->runs);
    free(s->level_key);
    free(s->level_slot);
    free(s->level_vectors);
    free(s->level_memory);
}

/* Memory of the search in levels; 0 where there is not enough. */
PMB_STATIC int pmb_vt_levels_new(pmb_vt_scratch *s, const pmb_vt_data *data) {
    size_t n = (size_t)data->most_levels + 1, lanes = (size_t)data->lanes,
           all = (size_t)data->blocks * lanes;
    s->level_key = malloc(2 * n * sizeof(uint64_t));
    s->level_slot = malloc(2 * n * sizeof(int32_t));
    s->level_vectors = malloc(PMB_VT_VECTORS * (size_t)data->n_classes * sizeof(double));
    s->level_memory = malloc(((size_t)data->most_kept_cells * lanes + all) * sizeof(pmb_sum) + 64);
    s->kept_cells = PMB_ALIGNED(s->level_memory);
    s->level_total = s->kept_cells + (size_t)data->most_kept_cells * lanes;
    s->level_bin = s->level_slot + n;
    return s->level_key && s->level_slot && s->level_vectors && s->level_memory;
}

/* 0 where there is not enough memory. */
PMB_STATIC int pmb_vt_scratch_new(pmb_vt_scratch *s, int64_t cells, int64_t n_features,
                                  size_t members, const pmb_vt_data *data) {
    size_t steps = (size_t)(cells + n_features + 1);
    int lanes = data->lanes;
    s->memory = calloc((size_t)((cells + 1) * lanes) * sizeof(pmb_sum) +
                           (size_t)(PMB_VT_ROWS * lanes) * sizeof(int32_t) + 64,
                       1);
    s->gathered = PMB_ALIGNED(s->memory);
    s->hist = (pmb_sum *)(s->gathered + PMB_VT_ROWS * lanes);
    s->bits = calloc((size_t)cells / 64 + PMB_GROUP + 1, sizeof(uint64_t));
    s->occupied = malloc(steps * sizeof(int32_t));
    s->ordinals = malloc(steps * sizeof(int32_t));
    s->entry_count = malloc(steps * sizeof(int32_t));
    s->entry_start = malloc(steps * sizeof(int64_t));
    s->members = malloc(members * sizeof(int32_t));
    s->slot = malloc(steps * sizeof(int32_t));
    s->bin = malloc(steps * sizeof(int32_t));
    s->left = calloc(steps + 8, sizeof(double)); /* some are read behind the last */
    s->squares = calloc(steps + 8, sizeof(double));
    s->squares_missing = calloc(steps + 8, sizeof(double));
    s->runs = malloc((size_t)(n_features + 1) * sizeof(pmb_vt_run));
    if (!(s->memory && s->bits && s->occupied && s->ordinals && s->entry_count && s->entry_start &&
          s->members && s->slot && s->bin && s->left && s->squares && s->squares_missing &&
          s->runs && pmb_vt_levels_new(s, data)))
        return 0;
    for (size_t j = 0; j < steps; j++) s->ordinals[j] = (int32_t)j;
    return 1;
}

PMB_STATIC void pmb_vt_state_free(pmb_vt_state *w) {
    for (int t = 0; w->scratch && t < w->options.threads; t++) pmb_vt_scratch_free(w->scratch + t);
    free(w->scratch);
    free(w->grower.spare);
    pmb_grower_free(&w->grower);
    free(w->stats);
    free(w->sets);
    free(w->totals);
    free(w->tasks);
    for (int j = 0; j < 2; j++) {
        free(w->entries[j]);
        free(w->cells[j]);
    }
    for (int j = 0; j < 3; j++) free(w->memory[j]);
    free(w->searches);
    free(w->sums);
    free(w->counts);
    free(w->open.leaf);
    free(w->row_side);
    free(w->node_of_row);
    free(w->tree_features);
    free(w->waiting);
    free(w->first_cell);
    pmb_vt_messages_free(&w->messages);
}

/* Room for the searched features of as many nodes as are searched at a time. */
PMB_STATIC int pmb_vt_searches_new(pmb_vt_state *w) {
    size_t d = (size_t)w->data.columns.n_features, lanes = (size_t)w->data.columns.n_lanes,
           words = w->data.unusual_rows ? ((size_t)w->data.columns.m + 63) / 64 : 0;
    size_t one = d * (2 * sizeof(double) + 2 * sizeof(int32_t) + 2) + lanes * sizeof(int32_t) +
                 words * sizeof(uint64_t);
    size_t sets = (size_t)w->data.set_words;
    one += sets * sizeof(uint64_t);
    one = (one + 63) / 64 * 64;
    w->searches = calloc((size_t)w->n_searches, sizeof(pmb_vt_node_search));
    char *room = w->memory[1] = w->searches ? malloc((size_t)w->n_searches * one) : NULL;
    for (int j = 0; room && j < w->n_searches; j++, room += one) {
        pmb_vt_node_search *p = w->searches + j;
        p->score = (double *)room;
        p->left = p->score + d;
        p->in_node = words ? (uint64_t *)(p->left + d) : NULL;
        p->sets = (uint64_t *)(p->left + d) + words;
        p->code = (int32_t *)(p->sets + sets);
        p->features = p->code + d;
        p->lanes = p->features + d;
        p->chosen = (uint8_t *)(p->lanes + lanes);
        p->allowed = p->chosen + d;
    }
    return room != NULL;
}

/* Room for histograms whose rows are filled in in shares, and for counts of pieces; 0 where there is not enough memory. */
PMB_STATIC int pmb_vt_sums_new(pmb_vt_state *w) {
    size_t size = (size_t)PMB_GROUP * (size_t)w->data.max_cells * (size_t)w->data.lanes;
    size_t pieces = (size_t)(w->data.columns.m / PMB_VT_PART) + 2,
           leaves = (size_t)w->options.threads * ((size_t)w->grower.max_leaves + 1);
    w->n_sums = w->options.threads > 1 && w->data.blocks == 1 &&
                        w->data.columns.m >= 2 * PMB_VT_SHARE && !w->n_entries && !w->workers
                    ? PMB_VT_PIECES * w->options.threads
                    : 0;
    w->counts = malloc((pieces > leaves ? pieces : leaves) * sizeof(int64_t));
    w->sums = calloc((size_t)w->n_sums + 1, sizeof(pmb_vt_sum_of_shares));
    w->memory[2] = calloc((size_t)w->n_sums * size * sizeof(pmb_sum) + 64, 1);
    w->open.leaf = malloc(2 * (size_t)w->grower.max_nodes * sizeof(pmb_vt_leaf));
    if (!w->counts || !w->sums || !w->memory[2] || !w->open.leaf) return 0;
    w->offered.leaf = w->open.leaf + w->grower.max_nodes;
    for (int j = 0; j < w->n_sums; j++)
        w->sums[j].hist = (pmb_sum *)PMB_ALIGNED(w->memory[2]) + (size_t)j * size;
    return 1;
}

/* Where the cells and entries of every sparse feature begin; 0 where there is not enough memory. */
PMB_STATIC int pmb_vt_index(pmb_vt_state *w) {
    size_t d = (size_t)w->data.columns.n_features;
    int64_t cell = 0, entry = 0;
    if (!w->n_entries) return 1;
    w->first_cell = malloc(2 * (d + 1) * sizeof(int64_t));
    if (!w->first_cell) return 0;
    w->first_entry = w->first_cell + d + 1;
    for (size_t f = 0; f < d; f++) {
        while (cell < w->n_used_cells && w->all_cells[cell].cell < w->data.columns.cell0[f])
            entry += w->all_cells[cell++].count;
        w->first_cell[f] = cell;
        w->first_entry[f] = entry;
    }
    w->first_cell[d] = w->n_used_cells;
    w->first_entry[d] = w->n_entries;
    return 1;
}

/* Memory for growing trees one after the other, for the data, options and rows (m + PMB_VT_FAR) in w; 0 where there is not enough. */
PMB_STATIC int pmb_vt_state_new(pmb_vt_state *w, int32_t max_leaves, int32_t max_depth,
                                int64_t most_sparse_cells) {
    const pmb_columns *c = &w->data.columns;
    /* Room for as many nodes again that were split ahead in vain. */
    size_t m = (size_t)c->m,
           nodes = 4 * (size_t)max_leaves + 4 * PMB_BATCH + 2 * (size_t)w->options.threads,
           lanes = (size_t)w->data.lanes;
    size_t n = (size_t)w->n_entries + 1;
    int64_t cells = (int64_t)PMB_GROUP * w->data.max_cells,
            sparse = PMB_VT_CELLS + most_sparse_cells;
    int batch = w->options.threads > PMB_BATCH ? w->options.threads
                                               : PMB_BATCH; /* a node for every thread */
    int there = pmb_grower_new(&w->grower, c, max_leaves, max_depth, (int32_t)nodes, batch);
    w->n_searches = 2 * batch;
    w->grower.payload = w;
    w->grower.split = pmb_vt_split_batch;
    w->grower.ahead = pmb_vt_ahead;
    w->grower.looks_below = w->workers != NULL;
    w->grower.spare = malloc(m * sizeof(int32_t));
    w->stats = malloc(nodes * sizeof(pmb_vt_stats));
    w->sets = malloc((nodes * (size_t)w->data.most_words + 1) * sizeof(uint64_t));
    w->totals = malloc(nodes * (size_t)w->data.blocks * lanes * sizeof(pmb_sum));
    size_t most_groups = (size_t)c->n_lanes / PMB_GROUP + 2 + PMB_VT_SHARES;
    w->tasks = malloc(sizeof(pmb_vt_task) * ((size_t)(2 * PMB_VT_PIECES * w->options.threads) +
                                             PMB_VT_SEARCHES * most_groups + n / PMB_VT_CHUNK + 1));
    w->row_side = malloc(w->n_entries ? m : 1);
    int looked_up = w->n_entries && (int64_t)w->options.n_drawn * PMB_VT_FEW <= c->n_features;
    if (looked_up) w->node_of_row = malloc(m * sizeof(int32_t));
    there = there && (!looked_up || w->node_of_row);
    w->tree_features = malloc((size_t)c->n_features + 1);
    w->waiting =
        malloc((size_t)w->options.threads * ((size_t)max_leaves + 1) * sizeof(pmb_vt_waiting));
    there = there && w->tree_features && w->waiting && pmb_vt_index(w);
    for (int j = 0; j < 2; j++) {
        w->entries[j] = malloc(n * sizeof(int32_t));
        w->cells[j] = malloc(n * sizeof(pmb_vt_cell));
        there = there && w->entries[j] && w->cells[j];
    }
    w->scratch = calloc((size_t)w->options.threads, sizeof(pmb_vt_scratch));
    for (int t = 0; w->scratch && t < w->options.threads; t++)
        there = pmb_vt_scratch_new(w->scratch + t, cells > sparse ? cells : sparse, c->n_features,
                                   looked_up ? m + 1 : 1, &w->data) &&
                there;
    /* several groups read the rows of a node */
    if (!w->n_entries && w->options.n_drawn > PMB_GROUP) {
        w->memory[0] = malloc((size_t)w->data.blocks * m * lanes * sizeof(int32_t) + 64);
        w->gathered = PMB_ALIGNED(w->memory[0]);
        there = there && w->memory[0];
    }
    there = (!w->workers || pmb_vt_messages_new(w)) && pmb_vt_sums_new(w) && there;
    return pmb_vt_searches_new(w) && there && w->grower.spare && w->stats && w->sets && w->totals &&
           w->tasks && w->row_side && w->scratch;
}

#endif
