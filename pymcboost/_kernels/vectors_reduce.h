/* Trees with vector leaves on rows that are divided among workers: the histograms of nodes are filled here, summed up by
 * all, and scanned by each, who then finds the same split. */
#ifndef PYMCBOOST_VECTORS_REDUCE_H
#define PYMCBOOST_VECTORS_REDUCE_H

#include "vectors_sample.h"

/* Most nodes that are parted together are PMB_BATCH: fewer messages, and some splits in vain. They are fewer where a message
 * would have more numbers than these, but PMB_VT_TOGETHER at least. */
#define PMB_VT_MESSAGE (1 << 24)
#define PMB_VT_TOGETHER 4

/* Sums over all workers of n numbers, in place. Where that fails, nothing is split any more. */
PMB_STATIC void pmb_vt_all(pmb_vectors *w, int32_t *numbers, int64_t n) {
    if (n && !w->failed) w->failed = w->sum(w->workers, numbers, n);
}

/* Rows of all workers. */
PMB_STATIC int64_t pmb_vt_all_rows(pmb_vectors *w, int64_t n) {
    int32_t all = (int32_t)n;
    if (!w->sum) return n;
    pmb_vt_all(w, &all, 1);
    return all;
}

/* Numbers of a block of the lanes of a place from the first to before the last. */
PMB_INLINE int64_t pmb_vt_sent(const pmb_vectors *w, const pmb_vt_place *p, int32_t first, int32_t last) {
    int64_t n = 0;
    for (int32_t j = first; j < last; j++) n += w->d.c.lane_cells[p->lanes[j]];
    return n * w->d.lanes;
}

/* Fill the histograms of a task, to its part of the message. */
PMB_STATIC void pmb_vt_fill_sent(const pmb_vectors *w, const pmb_vt_task *task, pmb_vt_scratch *s) {
    const pmb_vt_place *p = w->places + task->place;
    int32_t *to = w->message + task->entry;
    pmb_vt_group q;
    pmb_vt_group_of(w, p, task->first, 0, &q);
    for (int b = 0; b < w->d.blocks; b++) {
        pmb_vt_fill(w, p, &q, b, s, NULL);
        for (int j = 0; j < q.n; j++) {
            size_t size = sizeof(int32_t) * (size_t)w->d.c.lane_cells[q.lanes[j]] * (size_t)w->d.lanes;
            memcpy(to, s->hist + q.base[j] * w->d.lanes, size);
            memset(s->hist + q.base[j] * w->d.lanes, 0, size);
            to += size / sizeof(int32_t);
        }
    }
}

/* Scan the sums of a task. */
PMB_STATIC void pmb_vt_scan_sent(const pmb_vectors *w, const pmb_vt_task *task, pmb_vt_scratch *s) {
    const pmb_vt_data *d = &w->d;
    const pmb_vt_place *p = w->places + task->place;
    int32_t n_occupied[PMB_GROUP] = {0};
    int n_runs = 0;
    pmb_vt_group q;
    pmb_vt_group_of(w, p, task->first, 0, &q);
    int64_t of_block = pmb_vt_sent(w, p, task->first, task->first + q.n);
    for (int turn = 0; turn < d->blocks; turn++) {
        int b = pmb_vt_block(d, turn);
        const int32_t *from = w->message + task->entry + b * of_block;
        for (int j = 0; j < q.n; j++) {
            int64_t n = (int64_t)d->c.lane_cells[q.lanes[j]] * d->lanes;
            memcpy(s->hist + q.base[j] * d->lanes, from, sizeof(int32_t) * (size_t)n);
            from += n;
        }
        if (turn == 0) n_runs = pmb_vt_list_steps(w, p, &q, s, NULL, n_occupied);
        pmb_vt_judge(d, w->its + p->node, pmb_vt_totals(w, p->node, b), turn, n_runs, w->o.least, w->o.middle, s, p);
        for (int j = 0; j < q.n; j++)
            PMB_VT(d->lanes, pmb_vt_clear_, s->hist, s->occupied + j * d->max_cells, n_occupied[j]);
    }
}

/* Sum up the totals of the prepared places, before the message's histograms or after them. */
PMB_STATIC int32_t *pmb_vt_send_totals(pmb_vectors *w, int n_places, int32_t *message, int back) {
    size_t n = (size_t)(w->d.blocks * w->d.lanes);
    for (int c = 0; c < n_places; c++) {
        int32_t node = w->places[c].node;
        if (node < 0 || (node == 0 && w->whole)) continue; /* those of the whole root are known */
        if (back) memcpy(pmb_vt_totals(w, node, 0), message, n * sizeof(int32_t));
        else memcpy(message, pmb_vt_totals(w, node, 0), n * sizeof(int32_t));
        message += n;
    }
    return message;
}

/* The tasks of the prepared places, each with where its part of the message begins; returns the number of tasks. */
PMB_STATIC int pmb_vt_divide(pmb_vectors *w, int n_places, int64_t *size) {
    int n_tasks = 0;
    for (int c = 0; c < n_places; c++) {
        const pmb_vt_place *p = w->places + c;
        if (p->node < 0) continue;
        for (int32_t j = 0; j < p->n_lanes; j += PMB_GROUP) {
            int32_t last = p->n_lanes < j + PMB_GROUP ? p->n_lanes : j + PMB_GROUP;
            w->tasks[n_tasks++] = (pmb_vt_task){c, j, 0, *size};
            *size += w->d.blocks * pmb_vt_sent(w, p, j, last);
        }
    }
    return n_tasks;
}

/* Numbers of both children of a node: as many histograms as there may be, and the totals. */
PMB_STATIC int64_t pmb_vt_children_size(const pmb_vectors *w) {
    int64_t n = w->o.take < w->d.c.n_lanes ? w->o.take : w->d.c.n_lanes, most = (n + PMB_GROUP) * w->d.max_cells + 1;
    return 2 * most * w->d.blocks * w->d.lanes;
}

/* How many nodes are parted together. */
PMB_STATIC int32_t pmb_vt_together(const pmb_vectors *w) {
    int64_t n = PMB_VT_MESSAGE / pmb_vt_children_size(w);
    return n > PMB_BATCH ? PMB_BATCH : n < PMB_VT_TOGETHER ? PMB_VT_TOGETHER : (int32_t)n;
}

/* Numbers of a message. */
PMB_STATIC int64_t pmb_vt_message_size(const pmb_vectors *w) { return pmb_vt_together(w) * pmb_vt_children_size(w); }

/* Histograms of the prepared places, of the rows of all workers, and their best splits. */
PMB_STATIC void pmb_vt_evaluate_all(pmb_vectors *w, int n_places, int threads) {
    int64_t size = 0;
    int n_tasks = pmb_vt_divide(w, n_places, &size);
    int32_t *totals = w->message + size;
    PMB_SHARED(threads, n_tasks, pmb_vt_fill_sent(w, w->tasks + t, w->scratch + PMB_THREAD()));
    size = pmb_vt_send_totals(w, n_places, totals, 0) - w->message;
    pmb_vt_all(w, w->message, size);
    if (w->failed) return;
    pmb_vt_send_totals(w, n_places, totals, 1);
    PMB_SHARED(threads, n_tasks, pmb_vt_scan_sent(w, w->tasks + t, w->scratch + PMB_THREAD()));
}

#endif
