/* Trees with vector leaves: growing them, the rows of their leaves, and memory. The files it includes are layers, from
 * what is found in a histogram (vectors_scan.h) to nodes that several threads split (vectors_wide.h, vectors_team.h). A
 * node's random features depend on the tree's key and the node's path from the root alone. */
#ifndef PYMCBOOST_VECTORS_H
#define PYMCBOOST_VECTORS_H

#include "vectors_team.h"

/* Workers: part the nodes of a batch, and search their children. */
PMB_STATIC void pmb_vt_split_batch(pmb_grower *g, const int32_t *batch, int32_t n_batch, int last) {
    pmb_vectors *w = g->payload;
    int64_t rows = 0;
    for (int32_t b = 0; b < n_batch; b++) {
        rows += g->nodes[batch[b]].n;
        if (!last && pmb_vt_is_to_move(w, batch[b])) pmb_vt_move(w, batch[b]);
        pmb_vt_add_children(w, batch[b]);
    }
    int threads = rows * pmb_vt_row_work(w) > PMB_VT_SHARED_WORK ? w->o.threads : 1;
    PMB_SHARED(n_batch > 1 ? threads : 1, n_batch,
               pmb_vt_part(w, batch[t], g->side + t * g->n_side, last));
    if (last) return;
    PMB_SHARED(threads, 2 * n_batch, pmb_vt_prepare_child(w, w->places + t, batch[t / 2], t % 2));
    pmb_vt_evaluate_all(w, 2 * n_batch, threads);
    for (int c = 0; c < 2 * n_batch && !w->failed; c++)
        if (w->places[c].node >= 0) pmb_vt_choose_at(w, w->places + c);
}

/* Workers: how many nodes are parted together, to be in one message, while there is room for those parted in vain. The same
 * for all. */
PMB_STATIC int32_t pmb_vt_ahead(const pmb_grower *g) {
    int32_t room = (g->max_nodes - 2 * g->splits_left - g->n_nodes) / 2,
            limit = pmb_vt_together(g->payload);
    return limit < room ? limit : room;
}

/* Sums of a piece of the rows, which are all rows, and their numbers. */
PMB_STATIC void pmb_vt_root_piece(void *vectors, int64_t piece, int thread) {
    pmb_vectors *w = vectors;
    int64_t m = w->d.c.m, from = piece * PMB_VT_PART,
            to = m - from < PMB_VT_PART ? m : from + PMB_VT_PART;
    int L = w->d.lanes;
    (void)thread;
    for (int64_t i = from; i < to; i++) w->g.rows[i] = (int32_t)i;
    for (int b = 0; b < w->d.blocks; b++) {
        pmb_sum sums[PMB_VT_LANES], *total = pmb_vt_totals(w, 0, b);
        PMB_VT(L, pmb_vt_sum_, w->A + ((int64_t)b * m + from) * L, to - from, sums);
        pmb_lock_it(&w->lock);
        for (int l = 0; l < L; l++) total[l] += sums[l];
        pmb_unlock_it(&w->lock);
    }
}

/* The sums of a root that has all rows. */
PMB_STATIC void pmb_vt_root_of_all(pmb_vectors *w, int threads) {
    memset(pmb_vt_totals(w, 0, 0), 0, sizeof(pmb_sum) * (size_t)(w->d.blocks * w->d.lanes));
    w->threads->run(threads, (w->d.c.m + PMB_VT_PART - 1) / PMB_VT_PART, pmb_vt_root_piece, w);
    if (w->sum) pmb_vt_all(w, pmb_vt_totals(w, 0, 0), w->d.blocks * w->d.lanes, NULL);
}

/* The drawn rows of a root, and their sums; where it is searched, they are marked and gathered at the first place. */
PMB_STATIC void pmb_vt_root_of_drawn(pmb_vectors *w, pmb_vt_rows *rows, int threads) {
    pmb_vt_node *root = w->its;
    int b = w->d.n_classes / w->d.lanes;
    if (w->sum || w->n_entries || w->g.max_leaves < 2) {
        w->threads->run(threads, rows->n_pieces, pmb_vt_place_piece, rows);
        pmb_vt_root_of_part(w, rows->n_left);
        if (w->sum) pmb_vt_all(w, pmb_vt_totals(w, 0, b), w->d.lanes, NULL);
        return;
    }
    root->weight = INT64_MAX; /* which is to come */
    rows->places[0] = w->places;
    pmb_vt_begin_pieces(w, w->places, 0);
    w->threads->run(threads, rows->n_pieces, pmb_vt_place_piece, rows);
}

/* Start a tree: its rows, their sums, and the best split of the root. */
PMB_STATIC void pmb_vt_root(pmb_vectors *w, uint64_t key) {
    pmb_vt_node *root = w->its;
    int64_t m = w->d.c.m, n = m, pieces = (m + PMB_VT_PART - 1) / PMB_VT_PART;
    int threads = m * pmb_vt_row_work(w) > PMB_VT_SHARED_WORK ? w->o.threads : 1,
        of_weight = w->d.n_classes / w->d.lanes;
    pmb_vt_rows rows = {w, 0, m, pieces, 0, NULL, &w->d.c, key, {NULL, NULL}};
    w->whole = w->o.share >= 1;
    if (!w->whole) {
        w->threads->run(threads, pieces, pmb_vt_part_piece, &rows);
        pmb_vt_add_counts(&rows);
        n = rows.n_left;
        w->whole = !pmb_vt_all_rows(w, n) || (n == m && !w->sum);
        if (w->whole) n = m;
    }
    pmb_grow_root(&w->g, n);
    memset(root, 0, sizeof *root);
    root->key = key;
    root->groups = UINT64_MAX;
    root->n_entries = w->n_entries;
    if (w->node_of_row)
        memset(w->node_of_row, w->whole ? 0 : -1, sizeof(int32_t) * (size_t)m);
    else {
        root->entries = w->all_entries;
        root->cells = w->all_cells;
        root->n_cells = w->n_used_cells;
    }
    if (w->whole)
        pmb_vt_root_of_all(w, threads);
    else
        pmb_vt_root_of_drawn(w, &rows, threads);
    root->weight = pmb_vt_totals(w, 0, of_weight)[w->d.n_classes % w->d.lanes];
    if (rows.places[0] && !w->gathered) /* the search adds up once more */
        memset(pmb_vt_totals(w, 0, 0), 0, sizeof(pmb_sum) * (size_t)(w->d.blocks * w->d.lanes));
    if (w->g.max_leaves < 2) return;
    if (!rows.places[0])
        pmb_vt_prepare(w, w->places, 0, w->scratch);
    else if (!pmb_vt_splittable(w, 0))
        w->places->node = -1;
    if (!w->sum)
        pmb_vt_evaluate(w, 1, threads);
    else {
        pmb_vt_evaluate_all(w, 1, threads);
        if (!w->failed && w->places->node >= 0) pmb_vt_choose_at(w, w->places);
    }
}

/* Grow a tree on gradients A (blocks, m, lanes) of all rows, or of those drawn. Returns the number of splits. */
PMB_STATIC int32_t pmb_vt_grow(pmb_vectors *w, const int32_t *A, uint64_t key) {
    int64_t work = w->d.c.m * pmb_vt_row_work(w);
    w->A = A;
    w->failed = 0;
    if (w->o.pool < w->d.c.n_features)
        pmb_sample(pmb_mix(key + PMB_GOLDEN + 1), w->d.c.n_features, w->o.pool, w->pool);
    pmb_vt_root(w, key);
    return w->sum ? pmb_grow(&w->g) : pmb_vt_grow_by(w, work > PMB_VT_TEAM_WORK ? w->o.threads : 1);
}

/* The leaves of a grown tree. */
typedef struct {
    pmb_vectors *w;
    const int32_t *leaf_node;
    int32_t n_leaves, *leaf_of_row;
    int64_t n_pieces;
} pmb_vt_its_leaves;

/* A row has its own number in some nodes, and in others its place among the moved ones. */
PMB_STATIC void pmb_vt_leaf_of_rows(pmb_vectors *w, int32_t at, int32_t leaf,
                                    int32_t *leaf_of_row) {
    const pmb_node *node = w->g.nodes + at;
    const int32_t *rows = w->g.rows + node->start, *origin = w->its[at].moved ? w->origin : NULL;
    if (node->left >= 0) {
        pmb_vt_leaf_of_rows(w, node->left, leaf, leaf_of_row);
        pmb_vt_leaf_of_rows(w, node->right, leaf, leaf_of_row);
    } else
        for (int64_t i = 0; i < node->n; i++)
            leaf_of_row[origin ? origin[rows[i]] : rows[i]] = leaf;
}

/* Rows of a piece of the leaves. Where the tree has not been grown on all, the others will be put among them. */
PMB_STATIC void pmb_vt_leaves_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_its_leaves *l = of;
    pmb_vectors *w = l->w;
    (void)thread;
    for (int64_t j = l->n_leaves * piece / l->n_pieces; j < l->n_leaves * (piece + 1) / l->n_pieces;
         j++) {
        const pmb_node *node = w->g.nodes + l->leaf_node[j];
        if (!w->whole) {
            pmb_vt_leaf_of_rows(w, l->leaf_node[j], (int32_t)j, l->leaf_of_row);
            continue;
        }
        pmb_vt_rows_of_leaf(w, l->leaf_node[j]);
        for (int64_t i = node->start; i < node->start + node->n; i++)
            l->leaf_of_row[w->g.rows[i]] = (int32_t)j;
    }
}

/* Leaves of a piece of the rows that the tree has not been grown on. */
PMB_STATIC void pmb_vt_route_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_its_leaves *l = of;
    pmb_vectors *w = l->w;
    int64_t first = w->g.nodes[0].n, n = w->d.c.m - first, from = n * piece / l->n_pieces;
    pmb_vt_route(w, first + from, n * (piece + 1) / l->n_pieces - from,
                 w->waiting + thread * (w->g.max_leaves + 1), w->g.side + thread * w->g.n_side,
                 l->leaf_of_row);
}

/* How many rows of a piece of all rows each leaf has. */
PMB_STATIC void pmb_vt_count_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_its_leaves *l = of;
    int64_t m = l->w->d.c.m, *counts = l->w->counts + piece * l->n_leaves;
    (void)thread;
    memset(counts, 0, sizeof(int64_t) * (size_t)l->n_leaves);
    for (int64_t i = m * piece / l->n_pieces; i < m * (piece + 1) / l->n_pieces; i++)
        counts[l->leaf_of_row[i]]++;
}

/* Put them into the list of all leaves' rows. */
PMB_STATIC void pmb_vt_list_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_its_leaves *l = of;
    int64_t m = l->w->d.c.m, *next = l->w->counts + piece * l->n_leaves;
    (void)thread;
    for (int64_t i = m * piece / l->n_pieces; i < m * (piece + 1) / l->n_pieces; i++)
        l->w->g.rows[next[l->leaf_of_row[i]]++] = (int32_t)i;
}

/* Rows of the leaves in ascending order, leaf after leaf, and the leaf of every row: also of those that the tree has not
 * been grown on, as a leaf's vector is that of all its rows. */
PMB_STATIC void pmb_vt_leaves(pmb_vectors *w, const int32_t *leaf_node, int32_t n_leaves,
                              int64_t *leaf_start, int32_t *leaf_of_row) {
    int64_t m = w->d.c.m, at = 0;
    int threads = m < 2 * PMB_VT_PART ? 1 : w->o.threads, searched = w->n_entries ? 1 : threads;
    pmb_vt_its_leaves l = {w, leaf_node, n_leaves, leaf_of_row, threads};
    l.n_pieces = n_leaves < 16 * threads ? n_leaves : 16 * threads;
    w->threads->run(threads, l.n_pieces, pmb_vt_leaves_piece, &l);
    leaf_start[n_leaves] = m;
    for (int32_t j = 0; j < n_leaves; j++) leaf_start[j] = w->g.nodes[leaf_node[j]].start;
    if (w->whole) return;
    l.n_pieces = searched; /* sparse features' sides are looked up for all rows at a time */
    w->threads->run(searched, l.n_pieces, pmb_vt_route_piece, &l);
    l.n_pieces = threads;
    w->threads->run(threads, l.n_pieces, pmb_vt_count_piece, &l);
    for (int32_t j = 0; j < n_leaves; j++) {
        leaf_start[j] = at;
        for (int64_t piece = 0; piece < l.n_pieces; piece++) {
            int64_t *its = w->counts + piece * n_leaves + j, n = *its;
            *its = at;
            at += n;
        }
    }
    w->threads->run(threads, l.n_pieces, pmb_vt_list_piece, &l);
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
    size_t n = (size_t)d->most_levels + 1, lanes = (size_t)d->lanes,
           all = (size_t)d->blocks * lanes;
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
PMB_STATIC int pmb_vt_scratch_new(pmb_vt_scratch *s, int64_t cells, int64_t n_features,
                                  size_t members, const pmb_vt_data *d) {
    size_t steps = (size_t)(cells + n_features + 1);
    int lanes = d->lanes;
    s->memory = calloc((size_t)((cells + 1) * lanes) * sizeof(pmb_sum) +
                           (size_t)(PMB_VT_ROWS * lanes) * sizeof(int32_t) + 64,
                       1);
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
    if (!(s->memory && s->bits && s->occupied && s->numbers && s->its_count && s->its_first &&
          s->members && s->slot && s->bin && s->left && s->d2 && s->d2_missing && s->runs &&
          pmb_vt_levels_new(s, d)))
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
    }
    for (int j = 0; j < 3; j++) free(w->memory[j]);
    free(w->places);
    free(w->sums);
    free(w->counts);
    free(w->open.leaf);
    free(w->row_side);
    free(w->node_of_row);
    free(w->pool);
    free(w->waiting);
    free(w->first_cell);
    free(w->message);
    free(w->records);
    free(w->lengths);
}

/* Room for the searched features of as many nodes as are searched at a time. */
PMB_STATIC int pmb_vt_places_new(pmb_vectors *w) {
    size_t d = (size_t)w->d.c.n_features, lanes = (size_t)w->d.c.n_lanes,
           words = w->d.others ? ((size_t)w->d.c.m + 63) / 64 : 0;
    size_t one = d * (2 * sizeof(double) + 2 * sizeof(int32_t) + 2) + lanes * sizeof(int32_t) +
                 words * sizeof(uint64_t);
    size_t sets = (size_t)w->d.set_words;
    one += sets * sizeof(uint64_t);
    one = (one + 63) / 64 * 64;
    w->places = calloc((size_t)w->n_places, sizeof(pmb_vt_place));
    char *at = w->memory[1] = w->places ? malloc((size_t)w->n_places * one) : NULL;
    for (int j = 0; at && j < w->n_places; j++, at += one) {
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

/* Room for histograms whose rows are filled in in shares, and for counts of pieces; 0 where there is not enough memory. */
PMB_STATIC int pmb_vt_sums_new(pmb_vectors *w) {
    size_t size = (size_t)PMB_GROUP * (size_t)w->d.max_cells * (size_t)w->d.lanes;
    size_t pieces = (size_t)(w->d.c.m / PMB_VT_PART) + 2,
           leaves = (size_t)w->o.threads * ((size_t)w->g.max_leaves + 1);
    w->n_sums = w->o.threads > 1 && w->d.blocks == 1 && w->d.c.m >= 2 * PMB_VT_SHARE &&
                        !w->n_entries && !w->sum
                    ? PMB_VT_PIECES * w->o.threads
                    : 0;
    w->counts = malloc((pieces > leaves ? pieces : leaves) * sizeof(int64_t));
    w->sums = calloc((size_t)w->n_sums + 1, sizeof(pmb_vt_sum_of_shares));
    w->memory[2] = calloc((size_t)w->n_sums * size * sizeof(pmb_sum) + 64, 1);
    w->open.leaf = malloc(2 * (size_t)w->g.max_nodes * sizeof(pmb_vt_leaf));
    if (!w->counts || !w->sums || !w->memory[2] || !w->open.leaf) return 0;
    w->offered.leaf = w->open.leaf + w->g.max_nodes;
    for (int j = 0; j < w->n_sums; j++)
        w->sums[j].hist = (pmb_sum *)PMB_ALIGNED(w->memory[2]) + (size_t)j * size;
    return 1;
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
        while (cell < w->n_used_cells && w->all_cells[cell].cell < w->d.c.cell0[f])
            entry += w->all_cells[cell++].count;
        w->first_cell[f] = cell;
        w->first_entry[f] = entry;
    }
    w->first_cell[d] = w->n_used_cells;
    w->first_entry[d] = w->n_entries;
    return 1;
}

/* Memory for growing trees one after the other, for the data, options and rows (m + PMB_VT_FAR) in w; 0 where there is not enough. */
PMB_STATIC int pmb_vectors_new(pmb_vectors *w, int32_t max_leaves, int32_t max_depth,
                               int64_t most_sparse_cells) {
    const pmb_columns *c = &w->d.c;
    /* Room for as many nodes again that were split ahead in vain. */
    size_t m = (size_t)c->m,
           nodes = 4 * (size_t)max_leaves + 4 * PMB_BATCH + 2 * (size_t)w->o.threads,
           lanes = (size_t)w->d.lanes;
    size_t n = (size_t)w->n_entries + 1;
    int64_t cells = (int64_t)PMB_GROUP * w->d.max_cells, sparse = PMB_VT_CELLS + most_sparse_cells;
    int batch = w->o.threads > PMB_BATCH ? w->o.threads : PMB_BATCH; /* a node for every thread */
    int there = pmb_grower_new(&w->g, c, max_leaves, max_depth, (int32_t)nodes, batch);
    w->n_places = 2 * batch;
    w->g.payload = w;
    w->g.split = pmb_vt_split_batch;
    w->g.ahead = pmb_vt_ahead;
    w->g.looks_below = w->sum != NULL;
    w->g.spare = malloc(m * sizeof(int32_t));
    w->its = malloc(nodes * sizeof(pmb_vt_node));
    w->sets = malloc((nodes * (size_t)w->d.most_words + 1) * sizeof(uint64_t));
    w->totals = malloc(nodes * (size_t)w->d.blocks * lanes * sizeof(pmb_sum));
    size_t most_groups = (size_t)c->n_lanes / PMB_GROUP + 2 + PMB_VT_SHARES;
    w->tasks = malloc(sizeof(pmb_vt_task) * ((size_t)(2 * PMB_VT_PIECES * w->o.threads) +
                                             PMB_VT_PLACES * most_groups + n / PMB_VT_CHUNK + 1));
    w->row_side = malloc(w->n_entries ? m : 1);
    int looked_up = w->n_entries && (int64_t)w->o.take * PMB_VT_FEW <= c->n_features;
    if (looked_up) w->node_of_row = malloc(m * sizeof(int32_t));
    there = there && (!looked_up || w->node_of_row);
    w->pool = malloc((size_t)c->n_features + 1);
    w->waiting = malloc((size_t)w->o.threads * ((size_t)max_leaves + 1) * sizeof(pmb_vt_waiting));
    there = there && w->pool && w->waiting && pmb_vt_index(w);
    for (int j = 0; j < 2; j++) {
        w->entries[j] = malloc(n * sizeof(int32_t));
        w->cells[j] = malloc(n * sizeof(pmb_vt_cell));
        there = there && w->entries[j] && w->cells[j];
    }
    w->scratch = calloc((size_t)w->o.threads, sizeof(pmb_vt_scratch));
    for (int t = 0; w->scratch && t < w->o.threads; t++)
        there = pmb_vt_scratch_new(w->scratch + t, cells > sparse ? cells : sparse, c->n_features,
                                   looked_up ? m + 1 : 1, &w->d) &&
                there;
    if (!w->n_entries && w->o.take > PMB_GROUP) { /* several groups read the rows of a node */
        w->memory[0] = malloc((size_t)w->d.blocks * m * lanes * sizeof(int32_t) + 64);
        w->gathered = PMB_ALIGNED(w->memory[0]);
        there = there && w->memory[0];
    }
    there = (!w->sum || pmb_vt_messages_new(w)) && pmb_vt_sums_new(w) && there;
    return pmb_vt_places_new(w) && there && w->g.spare && w->its && w->sets && w->totals &&
           w->tasks && w->row_side && w->scratch;
}

#endif
