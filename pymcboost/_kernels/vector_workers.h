/* Vector trees on rows that are divided among workers: each worker fills the histograms of a node from its rows, one message
 * adds them up, and each scans the sums, so that all find the same split. If the message is large, each worker gets the sums
 * of a part only, scans these, and tells all what it found. */
#ifndef PYMCBOOST_VECTOR_WORKERS_H
#define PYMCBOOST_VECTOR_WORKERS_H

#include "vector_small_nodes.h"

/* Most nodes that are parted together are PMB_BATCH: fewer messages, and some splits in vain. They are fewer where a message
 * would have more bytes than these, but PMB_VT_TOGETHER at least. */
#define PMB_VT_MESSAGE (1 << 26)
#define PMB_VT_TOGETHER 4
/* Numbers of what is found for a feature: those of its score, its threshold and side, and the weight on the left; a set of
 * levels follows them. */
#define PMB_VT_SCORE ((int)(sizeof(double) / sizeof(pmb_sum)))
#define PMB_VT_RECORD (PMB_VT_SCORE + 2)

/* Add up n numbers of all workers, see pmb_add_up. */
PMB_INLINE void pmb_vt_add_up(pmb_vt_state *w, pmb_sum *numbers, int64_t n,
                              const int64_t *lengths) {
    pmb_add_up(w->workers, numbers, n, (int)sizeof(pmb_sum), lengths);
}

/* Rows of all workers. */
PMB_STATIC int64_t pmb_vt_all_rows(pmb_vt_state *w, int64_t n) {
    pmb_sum all = (pmb_sum)n;
    if (!w->workers) return n;
    pmb_vt_add_up(w, &all, 1, NULL);
    return all;
}

/* Numbers of a block of the lanes of a search from the first to before the last. */
PMB_INLINE int64_t pmb_vt_sent(const pmb_vt_state *w, const pmb_vt_node_search *p, int32_t first,
                               int32_t last) {
    int64_t n = 0;
    for (int32_t j = first; j < last; j++) n += w->data.columns.lane_cells[p->lanes[j]];
    return n * w->data.lanes;
}

/* Fill the histograms of a task, to its part of the message. */
PMB_STATIC void pmb_vt_fill_sent(const pmb_vt_state *w, const pmb_vt_task *task,
                                 pmb_vt_scratch *s) {
    const pmb_vt_node_search *p = w->searches + task->search;
    pmb_sum *to = w->messages.histograms + task->entry;
    pmb_vt_group q;
    pmb_vt_group_of(w, p, task->first, 0, &q);
    for (int b = 0; b < w->data.blocks; b++) {
        pmb_vt_fill(w, p, &q, b, 0, 1, pmb_vt_totals(w, p->node, b), s, NULL);
        for (int j = 0; j < q.n; j++) {
            size_t size = sizeof(pmb_sum) * (size_t)w->data.columns.lane_cells[q.lanes[j]] *
                          (size_t)w->data.lanes;
            memcpy(to, s->hist + q.base[j] * w->data.lanes, size);
            memset(s->hist + q.base[j] * w->data.lanes, 0, size);
            to += size / sizeof(pmb_sum);
        }
    }
}

/* Scan the sums of a task. */
PMB_STATIC void pmb_vt_scan_sent(const pmb_vt_state *w, const pmb_vt_task *task,
                                 pmb_vt_scratch *s) {
    const pmb_vt_data *data = &w->data;
    const pmb_vt_node_search *p = w->searches + task->search;
    int32_t n_occupied[PMB_GROUP] = {0};
    pmb_sum total[PMB_VT_LANES];
    int n_runs = 0;
    pmb_vt_group q;
    pmb_vt_group_of(w, p, task->first, 0, &q);
    int64_t of_block = pmb_vt_sent(w, p, task->first, task->first + q.n);
    for (int pass = 0; pass < data->blocks; pass++) {
        int b = pmb_vt_block(data, pass);
        const pmb_sum *from = w->messages.histograms + task->entry + b * of_block;
        for (int j = 0; j < q.n; j++) {
            int64_t n = (int64_t)data->columns.lane_cells[q.lanes[j]] * data->lanes;
            memcpy(s->hist + q.base[j] * data->lanes, from, sizeof(pmb_sum) * (size_t)n);
            from += n;
        }
        if (pass == 0) n_runs = pmb_vt_make_runs(w, p, &q, s, NULL, n_occupied);
        /* Each row of the node is in a cell of every lane. */
        PMB_VT(data->lanes, pmb_vt_sum_cells_, s->hist + q.base[0] * data->lanes,
               data->columns.lane_cells[q.lanes[0]], total);
        pmb_vt_score_runs(data, w->stats + p->node, total, pass, n_runs, w->options.least_weight, s,
                          p);
        for (int j = 0; j < q.n; j++)
            PMB_VT(data->lanes, pmb_vt_clear_, s->hist, s->occupied + j * data->max_cells,
                   n_occupied[j]);
    }
}

/* The tasks of the prepared searches, each with where its part of the message begins; returns the number of tasks. */
PMB_STATIC int pmb_vt_divide(pmb_vt_state *w, int n_searches, int64_t *size) {
    int n_tasks = 0;
    for (int c = 0; c < n_searches; c++) {
        const pmb_vt_node_search *p = w->searches + c;
        if (p->node < 0) continue;
        for (int32_t j = 0; j < p->n_lanes; j += PMB_GROUP) {
            int32_t last = p->n_lanes < j + PMB_GROUP ? p->n_lanes : j + PMB_GROUP;
            w->tasks[n_tasks++] = (pmb_vt_task){c, j, PMB_VT_OF_LANES, *size, 0, 1, 0};
            *size += w->data.blocks * pmb_vt_sent(w, p, j, last);
        }
    }
    return n_tasks;
}

/* Numbers of both children of a node: as many histograms as there may be. */
PMB_STATIC int64_t pmb_vt_children_size(const pmb_vt_state *w) {
    int64_t n = w->options.n_drawn < w->data.columns.n_lanes ? w->options.n_drawn
                                                             : w->data.columns.n_lanes,
            most = (n + PMB_GROUP) * w->data.max_cells + 1;
    return 2 * most * w->data.blocks * w->data.lanes;
}

/* How many nodes are parted together. */
PMB_STATIC int32_t pmb_vt_together(const pmb_vt_state *w) {
    int64_t n = PMB_VT_MESSAGE / (int64_t)sizeof(pmb_sum) / pmb_vt_children_size(w);
    return n > PMB_BATCH ? PMB_BATCH : n < PMB_VT_TOGETHER ? PMB_VT_TOGETHER : (int32_t)n;
}

/* Parts of a message of so many numbers for all workers, in whole tasks; [first, last) are those of this one. */
PMB_STATIC void pmb_vt_share(pmb_vt_state *w, int n_tasks, int64_t size, int *first, int *last) {
    int64_t begin = 0;
    memset(w->messages.lengths, 0, sizeof(int64_t) * (size_t)w->workers->n_workers);
    for (int t = 0; t < n_tasks; t++) {
        int64_t count = (t + 1 < n_tasks ? w->tasks[t + 1].entry : size) - w->tasks[t].entry;
        int owner = pmb_owner(w->tasks[t].entry, count, size, w->workers->n_workers);
        w->messages.lengths[owner] += count;
        *first += owner < w->workers->rank;
        *last = owner <= w->workers->rank ? t + 1 : *last;
        begin += owner < w->workers->rank ? count : 0;
    }
    for (int t = *first; t < *last; t++) w->tasks[t].entry -= begin;
}

/* Copy what is found for the features of the prepared searches to the records or from them; returns the number of numbers. A
 * feature that nobody has found a split for, or that another worker scans, has zeros. */
PMB_STATIC int64_t pmb_vt_record(const pmb_vt_state *w, int n_searches, int back) {
    const pmb_vt_data *data = &w->data;
    pmb_sum *to = w->messages.records;
    for (int c = 0; c < n_searches; c++) {
        const pmb_vt_node_search *p = w->searches + c;
        for (int32_t j = 0; p->node >= 0 && j < p->n_features; j++) {
            int32_t f = p->features[j];
            int32_t set_start = data->set_start ? data->set_start[f] : -1;
            size_t size = set_start < 0 ? 0 : sizeof(uint64_t) * pmb_set_words(&data->columns, f);
            if (back) {
                memcpy(p->score + f, to, sizeof(double));
                if (!(p->score[f] > 0)) p->score[f] = -1;
                p->code[f] = (int32_t)to[PMB_VT_SCORE];
                p->left[f] = (double)to[PMB_VT_SCORE + 1];
                if (size) memcpy(p->sets + set_start, to + PMB_VT_RECORD, size);
            } else if (p->score[f] > 0) {
                memcpy(to, p->score + f, sizeof(double));
                to[PMB_VT_SCORE] = p->code[f];
                to[PMB_VT_SCORE + 1] = (pmb_sum)p->left[f];
                if (size) memcpy(to + PMB_VT_RECORD, p->sets + set_start, size);
            } else
                memset(to, 0, PMB_VT_RECORD * sizeof(pmb_sum) + size);
            to += PMB_VT_RECORD + size / sizeof(pmb_sum);
        }
    }
    return to - w->messages.records;
}

/* What threads share of a batch: its nodes, or its tasks from the first on. */
typedef struct {
    pmb_vt_state *w;
    const int32_t *nodes;
    int last; /* 1: the nodes are the last that are split */
    int first_task;
} pmb_vt_batch;

PMB_STATIC void pmb_vt_fill_piece(void *what, int64_t t, int thread) {
    pmb_vt_state *w = ((pmb_vt_batch *)what)->w;
    pmb_vt_fill_sent(w, w->tasks + t, w->scratch + thread);
}

PMB_STATIC void pmb_vt_scan_piece(void *what, int64_t t, int thread) {
    const pmb_vt_batch *batch = what;
    pmb_vt_scan_sent(batch->w, batch->w->tasks + batch->first_task + t, batch->w->scratch + thread);
}

PMB_STATIC void pmb_vt_part_batch_node(void *what, int64_t t, int thread) {
    const pmb_vt_batch *batch = what;
    pmb_vt_state *w = batch->w;
    (void)thread;
    pmb_vt_part(w, batch->nodes[t], w->grower.side + t * w->grower.n_side, batch->last);
}

/* Prepare the searches of the children, two for each node. */
PMB_STATIC void pmb_vt_prepare_piece(void *what, int64_t t, int thread) {
    const pmb_vt_batch *batch = what;
    pmb_vt_state *w = batch->w;
    const pmb_node *node = w->grower.nodes + batch->nodes[t / 2];
    pmb_vt_prepare(w, w->searches + t, t % 2 ? node->right : node->left, w->scratch + thread);
}

/* Histograms of the prepared searches, of the rows of all workers, and their best splits. */
PMB_STATIC void pmb_vt_evaluate_all(pmb_vt_state *w, int n_searches, int threads) {
    int64_t size = 0;
    int n_tasks = pmb_vt_divide(w, n_searches, &size), first = 0, last = 0;
    int shared = size > 0 && size * (int64_t)sizeof(pmb_sum) >= w->workers->scattered;
    pmb_vt_batch batch = {w, NULL, 0, 0};
    w->threads->run(threads, n_tasks, pmb_vt_fill_piece, &batch);
    if (shared)
        pmb_vt_share(w, n_tasks, size, &first, &last);
    else
        last = n_tasks;
    pmb_vt_add_up(w, w->messages.histograms, size, shared ? w->messages.lengths : NULL);
    if (w->workers->failed) return;
    batch.first_task = first;
    w->threads->run(threads, last - first, pmb_vt_scan_piece, &batch);
    if (!shared) return;
    pmb_vt_add_up(w, w->messages.records, pmb_vt_record(w, n_searches, 0), NULL);
    if (!w->workers->failed) pmb_vt_record(w, n_searches, 1);
}

/* Choose the splits of the prepared searches by the rows of all workers. */
PMB_STATIC void pmb_vt_split_of_all(pmb_vt_state *w, int n_searches, int threads) {
    pmb_vt_evaluate_all(w, n_searches, threads);
    for (int c = 0; c < n_searches && !w->workers->failed; c++)
        if (w->searches[c].node >= 0) pmb_vt_choose_at(w, w->searches + c);
}

/* Part the nodes of a batch, and search their children. */
PMB_STATIC void pmb_vt_split_batch(pmb_grower *g, const int32_t *nodes, int32_t n_nodes, int last) {
    pmb_vt_state *w = g->payload;
    pmb_vt_batch batch = {w, nodes, last, 0};
    int64_t rows = 0;
    for (int32_t j = 0; j < n_nodes; j++) {
        rows += g->nodes[nodes[j]].n;
        if (!last && pmb_vt_is_to_move(w, nodes[j])) pmb_vt_move(w, nodes[j]);
        pmb_vt_add_children(w, nodes[j]);
    }
    int threads = rows * pmb_vt_row_work(w) > PMB_VT_SHARED_WORK ? w->options.threads : 1;
    w->threads->run(threads, n_nodes, pmb_vt_part_batch_node, &batch);
    if (last) return;
    w->threads->run(threads, 2 * n_nodes, pmb_vt_prepare_piece, &batch);
    pmb_vt_split_of_all(w, 2 * n_nodes, threads);
}

/* How many nodes are parted together, to be in one message, while there is room for those parted in vain. The same
 * for all. */
PMB_STATIC int32_t pmb_vt_ahead(const pmb_grower *g) {
    int32_t room = (g->max_nodes - 2 * g->splits_left - g->n_nodes) / 2,
            limit = pmb_vt_together(g->payload);
    return limit < room ? limit : room;
}

/* Memory for messages; 0 where there is not enough. */
PMB_STATIC int pmb_vt_messages_new(pmb_vt_state *w) {
    size_t d = (size_t)w->data.columns.n_features,
           take = (size_t)w->options.n_drawn < d ? (size_t)w->options.n_drawn : d;
    size_t places = 2 * (size_t)pmb_vt_together(w);
    w->messages.histograms =
        malloc(sizeof(pmb_sum) * (size_t)(pmb_vt_together(w) * pmb_vt_children_size(w)));
    w->messages.records = malloc(
        sizeof(pmb_sum) * (places * (PMB_VT_RECORD * take + 2 * (size_t)w->data.set_words) + 1));
    w->messages.lengths = malloc(sizeof(int64_t) * (size_t)w->workers->n_workers);
    return w->messages.histograms && w->messages.records && w->messages.lengths;
}

PMB_STATIC void pmb_vt_messages_free(pmb_vt_messages *messages) {
    free(messages->histograms);
    free(messages->records);
    free(messages->lengths);
}

#endif
