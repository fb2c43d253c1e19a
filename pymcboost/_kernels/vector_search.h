/* Vector trees: options and state, and the search of a node: fills its histograms and has them scanned, for groups of lanes of
 * columns or for sparse cells. */
#ifndef PYMCBOOST_VECTOR_SEARCH_H
#define PYMCBOOST_VECTOR_SEARCH_H

#include "team.h"
#include "vector_categories.h"
#include "workers.h"

/* updates of histogram rows below which starting threads costs more than it saves */
#define PMB_VT_SHARED_WORK 60000
#define PMB_VT_CHUNK 8192 /* sparse cells of a node that one thread searches */
/* nodes look up their sparse features where at most one in so many is searched */
#define PMB_VT_FEW 4
#define PMB_VT_SHARES 8 /* parts of a node's features that threads look up, each one at a time */
#define PMB_VT_SEARCHES (2 * PMB_BATCH) /* at least */
#define PMB_VT_LANES 16                 /* at most */

/* What a grower is asked for; the same for all trees. */
typedef struct {
    int32_t n_drawn, threads; /* n_drawn: features that each node draws */
    int64_t least_weight;     /* of the rows of a leaf, in units */
    double min_share;         /* nodes are split only above this share of the root's weight */
    double share;             /* probability of a row to be one that a tree is grown on */
    int32_t n_tree_features;  /* features of a tree, which its nodes draw from */
} pmb_vt_options;

/* What is searched by one task: PMB_GROUP lanes of columns, a chunk of the node's sparse cells, or some of the sparse features
 * that are looked up. */
typedef enum { PMB_VT_OF_LANES, PMB_VT_OF_CELLS, PMB_VT_OF_FEATURES } pmb_vt_what;

/* A piece of the search of a node, which one thread does at a time. */
typedef struct {
    int32_t search, first; /* which search; its first lane, chunk or feature */
    pmb_vt_what what;
    /* first entry of the chunk, or the end of the features; place in a message of workers */
    int64_t entry;
    int32_t share, n_shares; /* which share of the rows is filled in, of how many */
    int32_t shared_sum;      /* where the shares are added up */
} pmb_vt_task;

/* Histograms of a group of lanes that several tasks fill from some of the rows each. Between two searches all numbers are 0. */
typedef struct {
    pmb_lock lock;
    int32_t left; /* shares that are missing */
    pmb_sum *hist;
} pmb_vt_sum_of_shares;

/* Rows [start, start + n) that have come down to a node. */
typedef struct {
    int32_t node;
    int64_t start, n;
} pmb_vt_waiting;

/* A node that may be split. Of equal gains the lower order comes first. */
typedef struct {
    double gain;
    int32_t order, node;
} pmb_vt_leaf;

/* A binary heap of n nodes: no node comes before the one at (i - 1) / 2. */
typedef struct {
    int32_t n;
    pmb_vt_leaf *leaf;
} pmb_vt_heap;

/* What workers exchange while a tree grows. */
typedef struct {
    pmb_sum *histograms; /* of the searched nodes, to be added up */
    pmb_sum *records;    /* splits that were found, to be exchanged */
    int64_t *lengths;    /* (n_workers,) parts of the histograms */
} pmb_vt_messages;

/* The memory in which trees grow one after the other, by all threads: w everywhere below. */
typedef struct {
    pmb_grower grower;
    pmb_vt_data data;
    pmb_vt_options options;
    pmb_vt_stats *stats; /* by node */
    const int32_t *A;    /* (blocks, m, lanes) gradients of the tree being grown, in units */
    /* the same of the nodes' rows, side by side; NULL: every search gathers by itself */
    int32_t *gathered;
    /* Codes and gradients of rows that came down to a small node together, side by side, and which rows they are. */
    pmb_columns moved; /* codes NULL: no node is moved */
    /* gradients of the moved rows; where rows are gathered, of those of nodes below moved ones */
    int32_t *moved_A;
    int32_t *origin;              /* (m,) */
    pmb_sum *totals;              /* (nodes, blocks, lanes) sums of the rows of each node */
    pmb_vt_scratch *scratch;      /* of each thread */
    pmb_vt_node_search *searches; /* (n_searches,) of the nodes that are searched together */
    int32_t n_searches;
    pmb_vt_task *tasks;
    const pmb_pool_calls *threads;
    pmb_vt_sum_of_shares *sums; /* (n_sums,) */
    int32_t n_sums;
    int64_t *counts;            /* of pieces of the rows, and of their leaves */
    const int32_t *all_entries; /* sparse entries of all rows, cell after cell */
    const pmb_vt_cell *all_cells;
    int64_t n_entries, n_used_cells;
    int32_t *entries[2]; /* lists of entries of nodes of even and of odd depth, and their cells */
    pmb_vt_cell *cells[2];
    uint8_t *row_side; /* (m,) 1 for rows that go left at a sparse feature */
    /* (m,) the lowest node without a list of entries that each row has come to, as far as such nodes may be split; -1: a
     * row that is not drawn. NULL: all nodes have lists. */
    int32_t *node_of_row;
    int32_t grown_on_all;      /* 1: the tree is grown on all rows */
    uint8_t *tree_features;    /* by feature: 1 for those that the nodes of the tree draw from */
    const int64_t *row_number; /* what draws of rows go by; NULL: their places */
    /* by feature, bits of its interaction groups: a path has one in common; or NULL */
    const uint64_t *groups;
    pmb_vt_waiting *waiting;           /* (threads, max_leaves + 1) */
    int64_t *first_cell, *first_entry; /* of every sparse feature, and the end */
    uint64_t *sets;           /* (nodes, most_words) levels on the left of the best splits */
    void *memory[3];          /* of gathered, of the searches, and of the sums */
    pmb_workers *workers;     /* that the rows are divided among; NULL: there is one worker */
    pmb_vt_messages messages; /* what they exchange, where there are several */
    char apart[64];
    pmb_lock lock;       /* of what all threads change: open leaves, sums of rows */
    int32_t n_waiting;   /* threads that wait for a node to be split */
    int32_t n_ordered;   /* leaves that have been opened */
    int32_t n_ahead;     /* nodes whose children were searched ahead of their turn */
    pmb_vt_heap open;    /* leaves of the tree, in the order in which they are split */
    pmb_vt_heap offered; /* nodes that no thread splits yet */
    char behind[64];
} pmb_vt_state;

PMB_INLINE pmb_sum *pmb_vt_totals(const pmb_vt_state *w, int32_t node_index, int b) {
    return w->totals + ((int64_t)node_index * w->data.blocks + b) * w->data.lanes;
}

/* Squares of all runs for one block of classes; after the last one, the best positions. */
PMB_INLINE void pmb_vt_score_runs(const pmb_vt_data *data, const pmb_vt_stats *stats,
                                  const pmb_sum *total, int pass, int32_t n_runs, int64_t least,
                                  pmb_vt_scratch *s, const pmb_vt_node_search *to) {
    for (int j = 0; j < n_runs; j++)
        if (!data->set_start || data->set_start[s->runs[j].feature] < 0)
            pmb_vt_add_squares(data, s->hist, s, s->runs + j, total, stats->weight, pass);
    if (data->set_start) pmb_vt_score_levels(data, stats, total, pass, n_runs, least, s, to);
    if (pass + 1 < data->blocks) return;
    for (int j = 0; j < n_runs; j++) {
        int f = s->runs[j].feature;
        if (data->set_start && data->set_start[f] >= 0) continue;
        pmb_vt_best_threshold(data, s->runs + j, s, stats->weight, least, to->score + f,
                              to->code + f, to->left + f);
    }
}

/* Columns that the rows of a node are places in. */
PMB_INLINE const pmb_columns *pmb_vt_columns(const pmb_vt_state *w, int32_t node_index) {
    return w->stats[node_index].moved ? &w->moved : &w->data.columns;
}

/* Gradients that the rows of a node are places in. */
PMB_INLINE const int32_t *pmb_vt_gradients(const pmb_vt_state *w, int32_t node_index) {
    return !w->stats[node_index].moved ? w->A : w->gathered ? w->gathered : w->moved_A;
}

/* Where the gradients of a node's rows are gathered, or NULL. */
PMB_INLINE int32_t *pmb_vt_gathered(const pmb_vt_state *w, int32_t node_index) {
    return w->gathered && w->stats[node_index].moved ? w->moved_A : w->gathered;
}

/* Gradient rows of one block side by side, and added to `totals`, of n of the rows of a node from `from` on. */
PMB_INLINE void pmb_vt_gather(const pmb_vt_state *w, int32_t node_index, int b, int64_t from,
                              int64_t n, int32_t *out, pmb_sum *totals) {
    PMB_VT(w->data.lanes, pmb_vt_gather_,
           pmb_vt_gradients(w, node_index) + (int64_t)b * w->data.columns.m * w->data.lanes,
           w->grower.rows + w->grower.nodes[node_index].start + from, n, out, totals);
}

/* Sums of the rows of a node, without keeping the rows. */
PMB_STATIC void pmb_vt_sum_up(const pmb_vt_state *w, int32_t node_index, int b, int32_t *out) {
    const pmb_node *node = w->grower.nodes + node_index;
    for (int64_t i = 0; i < node->n; i += PMB_VT_ROWS)
        pmb_vt_gather(w, node_index, b, i, node->n - i < PMB_VT_ROWS ? node->n - i : PMB_VT_ROWS,
                      out, pmb_vt_totals(w, node_index, b));
}

/* Up to PMB_GROUP lanes of columns whose histograms are filled together. Counted ones are filled row by row; of skipped ones
 * only the rows outside the usual code are. */
typedef struct {
    const int32_t *lanes;
    int32_t n, n_counted;
    const void *cols[PMB_GROUP]; /* of the counted ones */
    int64_t base[PMB_GROUP], counted_at[PMB_GROUP];
    int skipped[PMB_GROUP];
} pmb_vt_group;

PMB_STATIC void pmb_vt_group_of(const pmb_vt_state *w, const pmb_vt_node_search *p, int32_t first,
                                int marked, pmb_vt_group *q) {
    const pmb_columns *c = pmb_vt_columns(w, p->node);
    q->lanes = p->lanes + first;
    q->n = p->n_lanes - first < PMB_GROUP ? p->n_lanes - first : PMB_GROUP;
    q->n_counted = 0;
    for (int j = 0; j < q->n; j++) {
        q->base[j] = (int64_t)j * w->data.max_cells;
        q->skipped[j] = !marked && p->has_bits && w->data.usual_code[q->lanes[j]] >= 0;
        if (q->skipped[j]) continue;
        q->cols[q->n_counted] =
            (const char *)c->codes + (int64_t)q->lanes[j] * c->m * c->code_bytes;
        q->counted_at[q->n_counted++] = q->base[j];
    }
}

/* Add n gradient rows to the histograms of a group. */
PMB_INLINE void pmb_vt_fill_rows(const pmb_vt_state *w, const pmb_vt_group *q, const int32_t *rows,
                                 int64_t n, const int32_t *a, pmb_sum *hist, uint64_t *bits) {
    int64_t words = (w->data.max_cells + 63) / 64;
    if (q->n_counted && w->data.columns.code_bytes == 1)
        PMB_VT(w->data.lanes, pmb_vt_fill_8_, q->cols, q->n_counted, rows, n, a, hist,
               q->counted_at, bits, words);
    else if (q->n_counted)
        PMB_VT(w->data.lanes, pmb_vt_fill_16_, q->cols, q->n_counted, rows, n, a, hist,
               q->counted_at, bits, words);
}

/* Fill a share of the rows of a node into the histograms of a group for one block of classes. bits: cells in use are
 * marked, or NULL. Rows that are not kept side by side are added up to `totals`. */
PMB_STATIC void pmb_vt_fill(const pmb_vt_state *w, const pmb_vt_node_search *p,
                            const pmb_vt_group *q, int b, int share, int n_shares, pmb_sum *totals,
                            pmb_vt_scratch *s, uint64_t *bits) {
    const pmb_vt_data *data = &w->data;
    const pmb_node *node = w->grower.nodes + p->node;
    int64_t m = data->columns.m, words = (m + 63) / 64, block_start = (int64_t)b * m * data->lanes;
    int64_t from = node->n * share / n_shares, to = node->n * (share + 1) / n_shares;
    int64_t word = words * share / n_shares, n_words = words * (share + 1) / n_shares - word;
    const int32_t *rows = w->grower.rows + node->start;
    if (p->node == 0 && w->grown_on_all) {
        pmb_vt_fill_rows(w, q, rows + from, to - from, w->A + block_start + from * data->lanes,
                         s->hist, bits);
    } else if (w->gathered) {
        pmb_vt_fill_rows(w, q, rows + from, to - from,
                         pmb_vt_gathered(w, p->node) + block_start +
                             (node->start + from) * data->lanes,
                         s->hist, bits);
    } else {
        for (int64_t i = from; i < to; i += PMB_VT_ROWS) {
            int64_t n = to - i < PMB_VT_ROWS ? to - i : PMB_VT_ROWS;
            pmb_vt_gather(w, p->node, b, i, n, s->gathered, totals);
            pmb_vt_fill_rows(w, q, rows + i, n, s->gathered, s->hist, bits);
        }
    }
    for (int j = 0; j < q->n; j++)
        if (q->skipped[j])
            PMB_VT(data->lanes, pmb_vt_fill_others_,
                   (const uint8_t *)data->columns.codes + (int64_t)q->lanes[j] * m + 64 * word,
                   data->unusual_rows + q->lanes[j] * words + word, p->in_node + word, n_words,
                   w->A + block_start + 64 * word * data->lanes,
                   s->hist + q->base[j] * data->lanes);
}

/* Take n numbers to others, and leave 0. */
PMB_CLONES PMB_STATIC void pmb_vt_take_sums(pmb_sum *PMB_RESTRICT to, pmb_sum *PMB_RESTRICT from,
                                            int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        to[i] += from[i];
        from[i] = 0;
    }
}

/* Add the share of a task, in scratch, to the others; whether it is the last one, which then has the sums in scratch. */
PMB_STATIC int pmb_vt_add_share(const pmb_vt_state *w, const pmb_vt_task *task,
                                const pmb_vt_group *q, const pmb_sum *totals, pmb_vt_scratch *s) {
    pmb_vt_sum_of_shares *all = w->sums + task->shared_sum;
    pmb_sum *sums = pmb_vt_totals(w, w->searches[task->search].node, 0);
    pmb_lock_it(&all->lock);
    int last = --all->left == 0;
    for (int j = 0; j < q->n; j++) {
        int64_t start = q->base[j] * w->data.lanes,
                n = (int64_t)w->data.columns.lane_cells[q->lanes[j]] * w->data.lanes;
        if (last)
            pmb_vt_take_sums(s->hist + start, all->hist + start, n);
        else
            pmb_vt_take_sums(all->hist + start, s->hist + start, n);
    }
    /* Where rows are gathered, the sums are known, and other groups, which have locks of their own, read them. */
    for (int l = 0; l < w->data.lanes && !w->gathered; l++) sums[l] += totals[l];
    pmb_unlock_it(&all->lock);
    return last;
}

/* Steps of the chosen features of a group, from the cells in use; returns the number of runs. */
PMB_STATIC int pmb_vt_make_runs(const pmb_vt_state *w, const pmb_vt_node_search *p,
                                const pmb_vt_group *q, pmb_vt_scratch *s, uint64_t *bits,
                                int32_t *n_occupied) {
    const pmb_vt_data *data = &w->data;
    int n_lane = data->n_classes % data->lanes, n_runs = 0;
    int32_t next = 0;
    int64_t cap = data->max_cells, words = (cap + 63) / 64, weight = w->stats[p->node].weight;
    for (int j = 0; j < q->n; j++) {
        int lane = q->lanes[j];
        int32_t *cells = s->occupied + j * cap, from = 0, to, count;
        count =
            pmb_vt_occupied(s->hist, data->lanes, n_lane, q->base[j],
                            data->columns.lane_cells[lane], bits ? bits + j * words : NULL, cells);
        n_occupied[j] = count;
        for (int k = data->columns.lane_ptr[lane]; k < data->columns.lane_ptr[lane + 1]; k++) {
            int f = data->columns.lane_feature[k], mode = data->columns.mode[f];
            if (!p->chosen[f]) continue;
            int64_t first = q->base[j] + data->columns.cell0[f],
                    end = first + data->columns.n_bins[f] + data->columns.has_missing[f];
            to = count;
            if (mode >= 0) {
                while (from < count && cells[from] < first) from++;
                for (to = from; to < count && cells[to] < end; to++) {
                }
            }
            n_runs += pmb_vt_make_run(data, f, s->hist, n_lane, first, cells + from, cells + from,
                                      to - from,
                                      mode < 0 && q->skipped[j] ? data->usual_code[lane] : mode,
                                      weight, s, &next, s->runs + n_runs);
            from = to;
        }
    }
    return n_runs;
}

/* Fill the histograms of a group of lanes and scan its chosen features, one block of classes after the other. Of several
 * shares of the rows, the last one that is filled scans. */
PMB_STATIC void pmb_vt_search(const pmb_vt_state *w, const pmb_vt_task *task, pmb_vt_scratch *s) {
    const pmb_vt_data *data = &w->data;
    const pmb_vt_node_search *p = w->searches + task->search;
    int marked = w->grower.nodes[p->node].n < data->max_cells, n_runs = 0;
    int32_t n_occupied[PMB_GROUP] = {0};
    pmb_vt_group q;
    pmb_vt_group_of(w, p, task->first, marked, &q);
    for (int pass = 0; pass < data->blocks; pass++) {
        int b = pmb_vt_block(data, pass);
        uint64_t *bits = marked && pass == 0 ? s->bits : NULL;
        if (task->n_shares > 1) { /* of one block */
            pmb_sum totals[PMB_VT_LANES] = {0};
            pmb_vt_fill(w, p, &q, b, task->share, task->n_shares, totals, s, bits);
            if (!pmb_vt_add_share(w, task, &q, totals, s)) return;
        } else
            pmb_vt_fill(w, p, &q, b, 0, 1, pmb_vt_totals(w, p->node, b), s, bits);
        if (pass == 0) n_runs = pmb_vt_make_runs(w, p, &q, s, bits, n_occupied);
        pmb_vt_score_runs(data, w->stats + p->node, pmb_vt_totals(w, p->node, b), pass, n_runs,
                          w->options.least_weight, s, p);
        for (int j = 0; j < q.n; j++)
            PMB_VT(data->lanes, pmb_vt_clear_, s->hist, s->occupied + j * data->max_cells,
                   n_occupied[j]);
    }
}

/* Fill the histograms of n cells, in scratch, and scan their features, one block of classes after the other. */
PMB_STATIC void pmb_vt_search_cells(const pmb_vt_state *w, const pmb_vt_node_search *p,
                                    const int32_t *entries, int32_t n, pmb_vt_scratch *s) {
    const pmb_vt_data *data = &w->data;
    const pmb_vt_stats *stats = w->stats + p->node;
    const int32_t *cells = s->occupied;
    int32_t next = 0, n_runs = 0;
    int L = data->lanes;
    for (int pass = 0; pass < data->blocks; pass++) {
        int b = pmb_vt_block(data, pass);
        PMB_VT(L, pmb_vt_fill_sparse_, entries, s->entry_start, s->entry_count, n,
               w->A + (int64_t)b * data->columns.m * L, s->hist);
        for (int32_t j = 0, next_j; j < n && pass == 0; j = next_j) {
            int f = data->cell_feature[cells[j]];
            for (next_j = j; next_j < n && data->cell_feature[cells[next_j]] == f; next_j++) {
            }
            n_runs += pmb_vt_make_run(data, f, s->hist, data->n_classes % L, data->columns.cell0[f],
                                      cells + j, s->ordinals + j, next_j - j, data->columns.mode[f],
                                      stats->weight, s, &next, s->runs + n_runs);
        }
        pmb_vt_score_runs(data, stats, pmb_vt_totals(w, p->node, b), pass, n_runs,
                          w->options.least_weight, s, p);
    }
}

/* Search the sparse ones of the features [from, to) of a node without a list: its rows are looked up among those with each
 * feature. */
PMB_STATIC void pmb_vt_search_all(const pmb_vt_state *w, const pmb_vt_node_search *p, int32_t from,
                                  int32_t to, pmb_vt_scratch *s) {
    const pmb_vt_cell *all = w->all_cells;
    const int32_t node_index = p->node, *node_of_row = w->node_of_row;
    const int64_t m = w->data.columns.m;
    int32_t *PMB_RESTRICT members = s->members;
    for (int32_t next = from; next < to;) {
        int32_t n = 0;
        int64_t found = 0;
        for (; next < to && n < PMB_VT_CELLS; next++) {
            int32_t f = p->features[next];
            const int32_t *entry = w->all_entries + w->first_entry[f];
            if (found + w->first_entry[f + 1] - w->first_entry[f] > m)
                break; /* of one feature there are m at most */
            for (int64_t c = w->first_cell[f]; c < w->first_cell[f + 1]; c++) {
                int64_t before = found;
                for (int32_t j = 0; j < all[c].count; j++) {
                    int32_t row = *entry++;
                    members[found] = row;
                    found += PMB_READ(node_of_row + row) == node_index;
                }
                s->occupied[n] = all[c].cell;
                s->entry_count[n] = (int32_t)(found - before);
                s->entry_start[n] = before;
                n += found > before;
            }
        }
        if (n) pmb_vt_search_cells(w, p, members, n, s);
    }
}

/* Search the chosen sparse features whose first cell in the node is one of [from, to) of its cells; entry: the first of
 * cell `from`. A few features at a time: their histogram stays in the fastest cache. */
PMB_STATIC void pmb_vt_search_sparse(const pmb_vt_state *w, const pmb_vt_node_search *p,
                                     int64_t from, int64_t to, int64_t entry, pmb_vt_scratch *s) {
    const pmb_vt_data *data = &w->data;
    const pmb_vt_stats *stats = w->stats + p->node;
    const pmb_vt_cell *cell = stats->cells;
    int64_t c = from, e = entry, end = stats->n_cells;
    int32_t *PMB_RESTRICT cells = s->occupied, *PMB_RESTRICT entry_count = s->entry_count;
    int64_t *PMB_RESTRICT entry_start = s->entry_start;
    if (to > end) to = end;
    for (int f = from ? data->cell_feature[cell[from - 1].cell] : -1;
         c < end && data->cell_feature[cell[c].cell] == f; c++)
        e += cell[c].count;
    while (c < to) {
        int32_t n = 0;
        while (c < to && n < PMB_VT_CELLS) {
            int f = data->cell_feature[cell[c].cell];
            int32_t stop =
                data->columns.cell0[f] + data->columns.n_bins[f] + data->columns.has_missing[f];
            if (!p->chosen[f]) {
                for (; c < end && cell[c].cell < stop; c++) e += cell[c].count;
                continue;
            }
            for (; c < end && cell[c].cell < stop; c++, n++) {
                cells[n] = cell[c].cell;
                entry_count[n] = cell[c].count;
                entry_start[n] = e;
                e += cell[c].count;
            }
        }
        pmb_vt_search_cells(w, p, stats->entries, n, s);
    }
}

#endif
