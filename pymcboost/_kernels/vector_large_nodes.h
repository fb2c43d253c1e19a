/* Vector trees: large nodes, which all threads part and search together, piece by piece. */
#ifndef PYMCBOOST_VECTOR_LARGE_NODES_H
#define PYMCBOOST_VECTOR_LARGE_NODES_H

#include "vector_node.h"

#define PMB_VT_PART 8192   /* rows that one thread parts at a time */
#define PMB_VT_SHARE 16384 /* least rows that are filled into histograms by themselves */
#define PMB_VT_PIECES 4    /* of the search, for each thread */

PMB_STATIC void pmb_vt_do_task_piece(void *vectors, int64_t piece, int thread) {
    pmb_vt_state *w = vectors;
    pmb_vt_do_task(w, w->tasks + piece, w->scratch + thread);
}

/* In how many shares the rows of a node are filled in, so that there are some pieces for every thread. */
PMB_STATIC int32_t pmb_vt_shares_of(const pmb_vt_state *w, int32_t node_index, int n_groups,
                                    int threads) {
    int32_t most = (int32_t)(w->grower.nodes[node_index].n / PMB_VT_SHARE),
            n = (PMB_VT_PIECES * threads + n_groups - 1) / n_groups;
    if (w->data.blocks > 1 || n_groups > w->n_sums || most < 2) return 1;
    return n < most ? n : most;
}

/* Best splits of the prepared searches, by several threads. */
PMB_STATIC void pmb_vt_evaluate(pmb_vt_state *w, int n_searches, int threads) {
    int n_tasks = 0, n_groups = 0, most = 1;
    for (int c = 0; c < n_searches; c++) {
        pmb_vt_node_search *p = w->searches + c;
        if (p->node < 0) continue;
        const pmb_vt_stats *stats = w->stats + p->node;
        int64_t entry = 0, cell = 0, n = p->n_features, parts = threads > 1 ? PMB_VT_SHARES : 1;
        int before = n_tasks;
        for (int64_t j = 0; j < parts && stats->n_entries && !stats->entries; j++)
            w->tasks[n_tasks++] = (pmb_vt_task){
                c, (int32_t)(n * j / parts), PMB_VT_OF_FEATURES, n * (j + 1) / parts, 0, 1, 0};
        for (int64_t from = 0; from < stats->n_cells; from += PMB_VT_CHUNK) {
            while (cell < from) entry += stats->cells[cell++].count;
            w->tasks[n_tasks++] =
                (pmb_vt_task){c, (int32_t)(from / PMB_VT_CHUNK), PMB_VT_OF_CELLS, entry, 0, 1, 0};
        }
        n_groups += (p->n_lanes + PMB_GROUP - 1) / PMB_GROUP;
        p->n_pieces = n_tasks - before;
    }
    for (int c = 0; c < n_searches; c++) {
        pmb_vt_node_search *p = w->searches + c;
        if (p->node < 0) continue;
        p->n_shares = n_groups ? pmb_vt_shares_of(w, p->node, n_groups, threads) : 1;
        p->n_pieces += p->n_shares * ((p->n_lanes + PMB_GROUP - 1) / PMB_GROUP);
        most = p->n_shares > most ? p->n_shares : most;
    }
    for (int32_t share = 0; share < most;
         share++) /* a thread takes tasks that lie side by side, and then rows that do */
        for (int c = 0, sum = 0; c < n_searches; c++) {
            const pmb_vt_node_search *p = w->searches + c;
            if (p->node < 0) continue;
            for (int32_t j = 0; j < p->n_lanes; j += PMB_GROUP, sum++) {
                if (share < p->n_shares)
                    w->tasks[n_tasks++] =
                        (pmb_vt_task){c, j, PMB_VT_OF_LANES, 0, share, p->n_shares, sum};
                if (share == 0 && p->n_shares > 1) w->sums[sum].left = p->n_shares;
            }
        }
    w->threads->run(threads, n_tasks, pmb_vt_do_task_piece, w);
}

/* Rows [start, start + n) that are divided between two nodes, or drawn for the first one. */
typedef struct {
    pmb_vt_state *w;
    int64_t start, n, n_pieces,
        n_left;           /* n_left: rows of the first node, once all pieces are counted */
    const pmb_node *node; /* the parent; NULL: rows are drawn */
    const pmb_columns *columns;
    uint64_t key;
    pmb_vt_node_search *searches[2]; /* of the children; NULL: it is not searched */
} pmb_vt_rows;

/* Divide a piece in itself. Both parts are copied to `spare`, from where they go to their places. */
PMB_STATIC void pmb_vt_part_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_rows *r = of;
    pmb_vt_state *w = r->w;
    int64_t from = piece * PMB_VT_PART, n = r->n - from < PMB_VT_PART ? r->n - from : PMB_VT_PART;
    int32_t *rows = w->grower.rows + r->start + from, *spare = w->grower.spare + r->start + from;
    (void)thread;
    if (!r->node)
        w->counts[piece] =
            pmb_vt_draw_some(r->key, w->options.share, from, n, w->row_number, rows, spare);
    else {
        const pmb_columns *c = r->columns;
        int64_t first = c->lane[r->node->feature] * c->m;
        if (c->code_bytes == 2)
            w->counts[piece] =
                pmb_part_by_16((const uint16_t *)c->codes + first, w->grower.side, rows, n, spare);
        else
            w->counts[piece] =
                pmb_part_by_8((const uint8_t *)c->codes + first, w->grower.side, rows, n, spare);
    }
    memcpy(spare, rows, sizeof(int32_t) * (size_t)n);
}

/* Bits of ascending rows, where others set bits in the same words. */
PMB_STATIC void pmb_vt_mark_some(const int32_t *rows, int64_t n, uint64_t *bits) {
    for (int64_t i = 0; i < n;) {
        int64_t word = rows[i] >> 6;
        uint64_t all = 0;
        for (; i < n && rows[i] >> 6 == word; i++) all |= (uint64_t)1 << (rows[i] & 63);
        PMB_SET_BITS(bits + word, all);
    }
}

/* Put the parts of a piece where they belong, and mark and gather them. */
PMB_STATIC void pmb_vt_place_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_rows *r = of;
    pmb_vt_state *w = r->w;
    int64_t from = piece * PMB_VT_PART, n = r->n - from < PMB_VT_PART ? r->n - from : PMB_VT_PART;
    int64_t n_left = w->counts[piece + 1] - w->counts[piece], L = w->data.lanes;
    const int32_t *spare = w->grower.spare + r->start + from;
    for (int c = 0; c < 2; c++) {
        int64_t to = c ? r->n_left + from - w->counts[piece] : w->counts[piece],
                count = c ? n - n_left : n_left;
        memcpy(w->grower.rows + r->start + to, spare + (c ? n_left : 0),
               sizeof(int32_t) * (size_t)count);
        const pmb_vt_node_search *p = r->searches[c];
        if (!p || p->node < 0) continue;
        const pmb_node *node = w->grower.nodes + p->node;
        if (p->has_bits) pmb_vt_mark_some(w->grower.rows + r->start + to, count, p->in_node);
        if (!w->gathered && p->node > 0) continue; /* the search adds up */
        for (int b = 0; b < w->data.blocks; b++) {
            pmb_sum sums[PMB_VT_LANES] = {0}, *total = pmb_vt_totals(w, p->node, b);
            int64_t first = r->start + to;
            if (w->gathered)
                pmb_vt_gather(w, p->node, b, first - node->start, count,
                              pmb_vt_gathered(w, p->node) +
                                  ((int64_t)b * w->data.columns.m + first) * L,
                              sums);
            else
                for (int64_t i = 0; i < count; i += PMB_VT_ROWS)
                    pmb_vt_gather(w, p->node, b, first - node->start + i,
                                  count - i < PMB_VT_ROWS ? count - i : PMB_VT_ROWS,
                                  w->scratch[thread].gathered, sums);
            pmb_lock_it(&w->lock);
            for (int l = 0; l < L; l++) total[l] += sums[l];
            pmb_unlock_it(&w->lock);
        }
    }
}

/* Where the parts of all pieces begin. */
PMB_STATIC void pmb_vt_add_counts(pmb_vt_rows *r) {
    int64_t *counts = r->w->counts, start = 0;
    for (int64_t j = 0; j <= r->n_pieces; j++) {
        int64_t count = j < r->n_pieces ? counts[j] : 0;
        counts[j] = start;
        start += count;
    }
    r->n_left = start;
}

/* Begin at a search space what the pieces go on with. */
PMB_STATIC void pmb_vt_begin_pieces(pmb_vt_state *w, pmb_vt_node_search *p, int32_t node_index) {
    int64_t m = w->data.columns.m;
    if (!pmb_vt_begin(w, p, node_index)) return;
    if (p->has_bits) memset(p->in_node, 0, sizeof(uint64_t) * (size_t)((m + 63) / 64));
    memset(pmb_vt_totals(w, node_index, 0), 0,
           sizeof(pmb_sum) * (size_t)(w->data.blocks * w->data.lanes));
}

/* A node that all threads work on. */
typedef struct {
    pmb_vt_state *w;
    int32_t node_index;
} pmb_vt_node_job;

PMB_STATIC void pmb_vt_move_job_piece(void *of, int64_t piece, int thread) {
    const pmb_vt_node_job *one = of;
    (void)thread;
    pmb_vt_move_piece(one->w, one->node_index, piece);
}

PMB_STATIC void pmb_vt_prepare_job_child(void *of, int64_t piece, int thread) {
    const pmb_vt_node_job *one = of;
    const pmb_node *node = one->w->grower.nodes + one->node_index;
    pmb_vt_prepare(one->w, one->w->searches + piece, piece ? node->right : node->left,
                   one->w->scratch + thread);
}

/* Part a node and search its children, unless it is the last one that is split. */
PMB_STATIC void pmb_vt_split_wide(pmb_vt_state *w, int32_t node_index, int last) {
    const pmb_node *node = w->grower.nodes + node_index;
    pmb_vt_node_job one = {w, node_index};
    int threads = w->options.threads,
        in_pieces = w->data.columns.lane[node->feature] >= 0 && node->n >= 2 * PMB_VT_PART;
    if (!last && pmb_vt_is_to_move(w, node_index)) {
        w->threads->run(threads, (node->n + PMB_VT_PIECE - 1) / PMB_VT_PIECE, pmb_vt_move_job_piece,
                        &one);
        w->stats[node_index].moved = 1;
    }
    if (in_pieces) {
        pmb_vt_rows rows = {w,
                            node->start,
                            node->n,
                            (node->n + PMB_VT_PART - 1) / PMB_VT_PART,
                            0,
                            node,
                            pmb_vt_columns(w, node_index),
                            0,
                            {NULL, NULL}};
        pmb_sides(rows.columns, node, w->grower.side);
        w->threads->run(threads, rows.n_pieces, pmb_vt_part_piece, &rows);
        pmb_vt_add_counts(&rows);
        pmb_vt_set_rows(w, node_index, rows.n_left);
        for (int c = 0; c < 2 && !last; c++) {
            rows.searches[c] = w->searches + c;
            pmb_vt_begin_pieces(w, rows.searches[c], c ? node->right : node->left);
        }
        w->threads->run(threads, rows.n_pieces, pmb_vt_place_piece, &rows);
    } else {
        pmb_vt_part(w, node_index, w->grower.side, last);
        if (!last) w->threads->run(threads, 2, pmb_vt_prepare_job_child, &one);
    }
    if (!last) pmb_vt_evaluate(w, 2, threads);
}

#endif
