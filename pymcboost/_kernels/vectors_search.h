/* Trees with vector leaves: filling and scanning the histograms of a node, for groups of lanes or for sparse cells. */
#ifndef PYMCBOOST_VECTORS_SEARCH_H
#define PYMCBOOST_VECTORS_SEARCH_H

#include "team.h"
#include "vectors_levels.h"

#define PMB_VT_SHARED_WORK                                                                         \
    60000 /* updates of histogram rows below which starting threads costs more than it saves */
#define PMB_VT_CHUNK 8192 /* sparse cells of a node that one thread searches */
#define PMB_VT_FEW                                                                                 \
    4 /* nodes look up their sparse features where at most one in so many is searched */
#define PMB_VT_SHARES 8 /* parts of a node's features that threads look up, each one at a time */
#define PMB_VT_PLACES (2 * PMB_BATCH) /* at least */
#define PMB_VT_LANES 16               /* at most */

typedef struct {
    int32_t take, threads; /* features searched at a node */
    int64_t least;         /* weight in a leaf */
    double min_share;      /* nodes are split only above this share of the root's weight */
    double share;          /* of the rows that a tree is grown on */
    int32_t pool;          /* features that the nodes of a tree draw from */
} pmb_vt_options;

/* What one thread does at a time: PMB_GROUP lanes from `first` on, or a chunk of the node's sparse cells, or sparse
 * features from `first` on that are looked up. */
typedef enum { PMB_VT_OF_LANES, PMB_VT_OF_CELLS, PMB_VT_OF_FEATURES } pmb_vt_what;
typedef struct {
    int32_t place, first;
    pmb_vt_what what;
    int64_t
        entry; /* first of the chunk, or the end of the features; among workers, where it begins in the message */
    int32_t share, n_shares,
        sum; /* of the rows that are filled in, and which of the sums of several shares they go to */
} pmb_vt_task;

/* Histograms of a group of lanes, whose rows several pieces fill in. Between two searches all numbers are 0. */
typedef struct {
    pmb_lock lock;
    int32_t left; /* shares that are missing */
    pmb_sum *hist;
} pmb_vt_sum_of_shares;

/* Rows that have come down to a node. */
typedef struct {
    int32_t node;
    int64_t start, n;
} pmb_vt_waiting;

/* Nodes that may be split, the best one first. */
typedef struct {
    double gain;
    int32_t order, node;
} pmb_vt_leaf;
typedef struct {
    int32_t n;
    pmb_vt_leaf *leaf;
} pmb_vt_heap;

typedef struct {
    pmb_grower g;
    pmb_vt_data d;
    pmb_vt_options o;
    pmb_vt_node *its;  /* by node */
    const int32_t *A;  /* (blocks, m, lanes) gradients of the tree being grown */
    int32_t *gathered; /* those of the nodes' rows; NULL: every search gathers by itself */
    /* Codes and gradients of rows that came down to a node of few rows together, side by side, and which rows they are. */
    pmb_columns moved; /* without codes no node is moved */
    int32_t *
        moved_A; /* of the moved rows themselves where they are not gathered, else of those of nodes below them */
    int32_t *origin; /* (m,) */
    pmb_sum *totals; /* (nodes, blocks, lanes) */
    pmb_vt_scratch *scratch;
    pmb_vt_place *places; /* (n_places,) */
    int32_t n_places;
    pmb_vt_task *tasks;
    const pmb_pool_calls *threads;
    pmb_vt_sum_of_shares *sums; /* (n_sums,) */
    int32_t n_sums;
    int64_t *counts;            /* of pieces of the rows, and of their leaves */
    const int32_t *all_entries; /* sparse entries of all rows, their cells and their numbers */
    const pmb_vt_cell *all_cells;
    int64_t n_entries, n_used_cells;
    int32_t *entries[2]; /* those of the nodes of even and odd depth */
    pmb_vt_cell *cells[2];
    uint8_t *row_side;
    /* (m,) the lowest node without a list of entries that each row has come to, as far as such nodes may be split; -1: a
     * row that is not drawn. NULL: all nodes have lists. */
    int32_t *node_of_row;
    int32_t whole;             /* whether the tree is grown on all rows */
    uint8_t *pool;             /* marks, by feature, of those that its nodes draw from */
    const int64_t *row_number; /* what draws of rows go by; NULL: their places */
    const uint64_t
        *groups; /* bits, by feature, of its groups: those of a path have one in common; or NULL */
    pmb_vt_waiting *waiting;           /* (max_leaves + 1,) */
    int64_t *first_cell, *first_entry; /* of every sparse feature, and the end */
    uint64_t *sets;                    /* (nodes, most_words) levels on the left */
    void *memory[3];                   /* of gathered, of the places, and of the sums */
    /* Where rows are divided among workers: sums n numbers over all of them, or only this worker's part where there are
     * lengths of all parts; not 0 where that fails. */
    int (*sum)(void *workers, pmb_sum *numbers, int64_t n, const int64_t *lengths);
    void *workers;
    int32_t failed;
    pmb_sum *message, *records; /* what is to be summed: histograms, and splits that were found */
    int32_t n_workers, rank;
    char apart[64];
    pmb_lock lock;     /* of what all threads change: leaves that are open, sums of rows */
    int32_t n_waiting; /* threads that wait for a node to be split */
    int32_t n_ordered,
        n_ahead; /* leaves that have been opened, and nodes whose children were searched ahead of their turn */
    pmb_vt_heap open;    /* leaves of the tree, in the order in which they are split */
    pmb_vt_heap offered; /* nodes that nobody splits yet */
    char behind[64];
    int64_t *lengths,
        scattered; /* (n_workers,) parts of a message, and bytes from which on it has parts */
} pmb_vectors;

PMB_INLINE pmb_sum *pmb_vt_totals(const pmb_vectors *w, int32_t at, int b) {
    return w->totals + ((int64_t)at * w->d.blocks + b) * w->d.lanes;
}

/* Squares of all runs for one block of classes; after the last one, the best positions. */
PMB_INLINE void pmb_vt_judge(const pmb_vt_data *d, const pmb_vt_node *its, const pmb_sum *total,
                             int turn, int32_t n_runs, int64_t least, pmb_vt_scratch *s,
                             const pmb_vt_place *to) {
    for (int j = 0; j < n_runs; j++)
        if (!d->set_at || d->set_at[s->runs[j].feature] < 0)
            pmb_vt_steps_of(d, s->hist, s, s->runs + j, total, its->weight, turn);
    if (d->set_at) pmb_vt_judge_levels(d, its, total, turn, n_runs, least, s, to);
    if (turn + 1 < d->blocks) return;
    for (int j = 0; j < n_runs; j++) {
        int f = s->runs[j].feature;
        if (d->set_at && d->set_at[f] >= 0) continue;
        pmb_vt_best(d, s->runs + j, s, its->weight, least, to->score + f, to->code + f,
                    to->left + f);
    }
}

/* Columns that the rows of a node are places in. */
PMB_INLINE const pmb_columns *pmb_vt_columns(const pmb_vectors *w, int32_t at) {
    return w->its[at].moved ? &w->moved : &w->d.c;
}

/* Gradients that the rows of a node are places in. */
PMB_INLINE const int32_t *pmb_vt_gradients(const pmb_vectors *w, int32_t at) {
    return !w->its[at].moved ? w->A : w->gathered ? w->gathered : w->moved_A;
}

/* Where the gradients of a node's rows are gathered, or NULL. */
PMB_INLINE int32_t *pmb_vt_gathered(const pmb_vectors *w, int32_t at) {
    return w->gathered && w->its[at].moved ? w->moved_A : w->gathered;
}

/* Gradient rows of one block side by side, and added to `totals`, of n of the rows of a node from `from` on. */
PMB_INLINE void pmb_vt_gather(const pmb_vectors *w, int32_t at, int b, int64_t from, int64_t n,
                              int32_t *out, pmb_sum *totals) {
    PMB_VT(w->d.lanes, pmb_vt_gather_, pmb_vt_gradients(w, at) + (int64_t)b * w->d.c.m * w->d.lanes,
           w->g.rows + w->g.nodes[at].start + from, n, out, totals);
}

/* Sums of the rows of a node, without keeping the rows. */
PMB_STATIC void pmb_vt_sum_up(const pmb_vectors *w, int32_t at, int b, int32_t *out) {
    const pmb_node *node = w->g.nodes + at;
    for (int64_t i = 0; i < node->n; i += PMB_VT_ROWS)
        pmb_vt_gather(w, at, b, i, node->n - i < PMB_VT_ROWS ? node->n - i : PMB_VT_ROWS, out,
                      pmb_vt_totals(w, at, b));
}

/* Lanes of a group: those that are counted row by row, and those of which a large node counts the rows outside the usual
 * code alone. */
typedef struct {
    const int32_t *lanes;
    int32_t n, n_counted;
    const void *cols[PMB_GROUP]; /* of the counted ones */
    int64_t base[PMB_GROUP], counted_at[PMB_GROUP];
    int skipped[PMB_GROUP];
} pmb_vt_group;

PMB_STATIC void pmb_vt_group_of(const pmb_vectors *w, const pmb_vt_place *p, int32_t first,
                                int marked, pmb_vt_group *q) {
    const pmb_columns *c = pmb_vt_columns(w, p->node);
    q->lanes = p->lanes + first;
    q->n = p->n_lanes - first < PMB_GROUP ? p->n_lanes - first : PMB_GROUP;
    q->n_counted = 0;
    for (int j = 0; j < q->n; j++) {
        q->base[j] = (int64_t)j * w->d.max_cells;
        q->skipped[j] = !marked && p->has_bits && w->d.skip[q->lanes[j]] >= 0;
        if (q->skipped[j]) continue;
        q->cols[q->n_counted] =
            (const char *)c->codes + (int64_t)q->lanes[j] * c->m * c->code_bytes;
        q->counted_at[q->n_counted++] = q->base[j];
    }
}

/* Add n gradient rows to the histograms of a group. */
PMB_INLINE void pmb_vt_fill_rows(const pmb_vectors *w, const pmb_vt_group *q, const int32_t *rows,
                                 int64_t n, const int32_t *a, pmb_sum *hist, uint64_t *bits) {
    int64_t words = (w->d.max_cells + 63) / 64;
    if (q->n_counted && w->d.c.code_bytes == 1)
        PMB_VT(w->d.lanes, pmb_vt_fill_8_, q->cols, q->n_counted, rows, n, a, hist, q->counted_at,
               bits, words);
    else if (q->n_counted)
        PMB_VT(w->d.lanes, pmb_vt_fill_16_, q->cols, q->n_counted, rows, n, a, hist, q->counted_at,
               bits, words);
}

/* Fill a share of the rows of a node into the histograms of a group for one block of classes. bits: cells in use are
 * marked, or NULL. Rows that are not kept side by side are added up to `totals`. */
PMB_STATIC void pmb_vt_fill(const pmb_vectors *w, const pmb_vt_place *p, const pmb_vt_group *q,
                            int b, int share, int n_shares, pmb_sum *totals, pmb_vt_scratch *s,
                            uint64_t *bits) {
    const pmb_vt_data *d = &w->d;
    const pmb_node *node = w->g.nodes + p->node;
    int64_t m = d->c.m, words = (m + 63) / 64, at = (int64_t)b * m * d->lanes;
    int64_t from = node->n * share / n_shares, to = node->n * (share + 1) / n_shares;
    int64_t word = words * share / n_shares, n_words = words * (share + 1) / n_shares - word;
    const int32_t *rows = w->g.rows + node->start;
    if (p->node == 0 && w->whole) {
        pmb_vt_fill_rows(w, q, rows + from, to - from, w->A + at + from * d->lanes, s->hist, bits);
    } else if (w->gathered) {
        pmb_vt_fill_rows(w, q, rows + from, to - from,
                         pmb_vt_gathered(w, p->node) + at + (node->start + from) * d->lanes,
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
            PMB_VT(d->lanes, pmb_vt_fill_others_,
                   (const uint8_t *)d->c.codes + (int64_t)q->lanes[j] * m + 64 * word,
                   d->others + q->lanes[j] * words + word, p->in_node + word, n_words,
                   w->A + at + 64 * word * d->lanes, s->hist + q->base[j] * d->lanes);
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
PMB_STATIC int pmb_vt_add_share(const pmb_vectors *w, const pmb_vt_task *task,
                                const pmb_vt_group *q, const pmb_sum *totals, pmb_vt_scratch *s) {
    pmb_vt_sum_of_shares *all = w->sums + task->sum;
    pmb_sum *sums = pmb_vt_totals(w, w->places[task->place].node, 0);
    pmb_lock_it(&all->lock);
    int last = --all->left == 0;
    for (int j = 0; j < q->n; j++) {
        int64_t at = q->base[j] * w->d.lanes,
                n = (int64_t)w->d.c.lane_cells[q->lanes[j]] * w->d.lanes;
        if (last)
            pmb_vt_take_sums(s->hist + at, all->hist + at, n);
        else
            pmb_vt_take_sums(all->hist + at, s->hist + at, n);
    }
    for (int l = 0; l < w->d.lanes; l++) sums[l] += totals[l];
    pmb_unlock_it(&all->lock);
    return last;
}

/* Steps of the chosen features of a group, from the cells in use; returns the number of runs. */
PMB_STATIC int pmb_vt_list_steps(const pmb_vectors *w, const pmb_vt_place *p, const pmb_vt_group *q,
                                 pmb_vt_scratch *s, uint64_t *bits, int32_t *n_occupied) {
    const pmb_vt_data *d = &w->d;
    int n_lane = d->n_classes % d->lanes, n_runs = 0;
    int32_t next = 0;
    int64_t cap = d->max_cells, words = (cap + 63) / 64, weight = w->its[p->node].weight;
    for (int j = 0; j < q->n; j++) {
        int lane = q->lanes[j];
        int32_t *cells = s->occupied + j * cap, from = 0, to, count;
        count = pmb_vt_occupied(s->hist, d->lanes, n_lane, q->base[j], d->c.lane_cells[lane],
                                bits ? bits + j * words : NULL, cells);
        n_occupied[j] = count;
        for (int k = d->c.lane_ptr[lane]; k < d->c.lane_ptr[lane + 1]; k++) {
            int f = d->c.lane_feature[k], mode = d->c.mode[f];
            if (!p->chosen[f]) continue;
            int64_t first = q->base[j] + d->c.cell0[f],
                    end = first + d->c.n_bins[f] + d->c.has_missing[f];
            to = count;
            if (mode >= 0) {
                while (from < count && cells[from] < first) from++;
                for (to = from; to < count && cells[to] < end; to++) {
                }
            }
            n_runs += pmb_vt_steps(d, f, s->hist, n_lane, first, cells + from, cells + from,
                                   to - from, mode < 0 && q->skipped[j] ? d->skip[lane] : mode,
                                   weight, s, &next, s->runs + n_runs);
            from = to;
        }
    }
    return n_runs;
}

/* Fill the histograms of a group of lanes and scan its chosen features, one block of classes after the other. Of several
 * shares of the rows, the last one that is filled scans. */
PMB_STATIC void pmb_vt_search(const pmb_vectors *w, const pmb_vt_task *task, pmb_vt_scratch *s) {
    const pmb_vt_data *d = &w->d;
    const pmb_vt_place *p = w->places + task->place;
    int marked = w->g.nodes[p->node].n < d->max_cells, n_runs = 0;
    int32_t n_occupied[PMB_GROUP] = {0};
    pmb_vt_group q;
    pmb_vt_group_of(w, p, task->first, marked, &q);
    for (int turn = 0; turn < d->blocks; turn++) {
        int b = pmb_vt_block(d, turn);
        uint64_t *bits = marked && turn == 0 ? s->bits : NULL;
        if (task->n_shares > 1) { /* of one block */
            pmb_sum totals[PMB_VT_LANES] = {0};
            pmb_vt_fill(w, p, &q, b, task->share, task->n_shares, totals, s, bits);
            if (!pmb_vt_add_share(w, task, &q, totals, s)) return;
        } else
            pmb_vt_fill(w, p, &q, b, 0, 1, pmb_vt_totals(w, p->node, b), s, bits);
        if (turn == 0) n_runs = pmb_vt_list_steps(w, p, &q, s, bits, n_occupied);
        pmb_vt_judge(d, w->its + p->node, pmb_vt_totals(w, p->node, b), turn, n_runs, w->o.least, s,
                     p);
        for (int j = 0; j < q.n; j++)
            PMB_VT(d->lanes, pmb_vt_clear_, s->hist, s->occupied + j * d->max_cells, n_occupied[j]);
    }
}

/* Fill the histograms of n cells, in scratch, and scan their features, one block of classes after the other. */
PMB_STATIC void pmb_vt_judge_cells(const pmb_vectors *w, const pmb_vt_place *p,
                                   const int32_t *entries, int32_t n, pmb_vt_scratch *s) {
    const pmb_vt_data *d = &w->d;
    const pmb_vt_node *its = w->its + p->node;
    const int32_t *cells = s->occupied;
    int32_t next = 0, n_runs = 0;
    int L = d->lanes;
    for (int turn = 0; turn < d->blocks; turn++) {
        int b = pmb_vt_block(d, turn);
        PMB_VT(L, pmb_vt_fill_sparse_, entries, s->its_first, s->its_count, n,
               w->A + (int64_t)b * d->c.m * L, s->hist);
        for (int32_t j = 0, next_j; j < n && turn == 0; j = next_j) {
            int f = d->cell_feature[cells[j]];
            for (next_j = j; next_j < n && d->cell_feature[cells[next_j]] == f; next_j++) {
            }
            n_runs += pmb_vt_steps(d, f, s->hist, d->n_classes % L, d->c.cell0[f], cells + j,
                                   s->numbers + j, next_j - j, d->c.mode[f], its->weight, s, &next,
                                   s->runs + n_runs);
        }
        pmb_vt_judge(d, its, pmb_vt_totals(w, p->node, b), turn, n_runs, w->o.least, s, p);
    }
}

/* Search the sparse ones of the features [from, to) of a node without a list: its rows are looked up among those with each
 * feature. */
PMB_STATIC void pmb_vt_search_all(const pmb_vectors *w, const pmb_vt_place *p, int32_t from,
                                  int32_t to, pmb_vt_scratch *s) {
    const pmb_vt_cell *all = w->all_cells;
    const int32_t at = p->node, *node_of_row = w->node_of_row;
    const int64_t m = w->d.c.m;
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
                    found += PMB_READ(node_of_row + row) == at;
                }
                s->occupied[n] = all[c].cell;
                s->its_count[n] = (int32_t)(found - before);
                s->its_first[n] = before;
                n += found > before;
            }
        }
        if (n) pmb_vt_judge_cells(w, p, members, n, s);
    }
}

/* Search the chosen sparse features whose first cell in the node is one of [from, to) of its cells; entry: the first of
 * cell `from`. A few features at a time: their histogram stays in the fastest cache. */
PMB_STATIC void pmb_vt_search_sparse(const pmb_vectors *w, const pmb_vt_place *p, int64_t from,
                                     int64_t to, int64_t entry, pmb_vt_scratch *s) {
    const pmb_vt_data *d = &w->d;
    const pmb_vt_node *its = w->its + p->node;
    const pmb_vt_cell *cell = its->cells;
    int64_t c = from, e = entry, end = its->n_cells;
    int32_t *PMB_RESTRICT cells = s->occupied, *PMB_RESTRICT its_count = s->its_count;
    int64_t *PMB_RESTRICT its_first = s->its_first;
    if (to > end) to = end;
    for (int f = from ? d->cell_feature[cell[from - 1].cell] : -1;
         c < end && d->cell_feature[cell[c].cell] == f; c++)
        e += cell[c].count;
    while (c < to) {
        int32_t n = 0;
        while (c < to && n < PMB_VT_CELLS) {
            int f = d->cell_feature[cell[c].cell];
            int32_t stop = d->c.cell0[f] + d->c.n_bins[f] + d->c.has_missing[f];
            if (!p->chosen[f]) {
                for (; c < end && cell[c].cell < stop; c++) e += cell[c].count;
                continue;
            }
            for (; c < end && cell[c].cell < stop; c++, n++) {
                cells[n] = cell[c].cell;
                its_count[n] = cell[c].count;
                its_first[n] = e;
                e += cell[c].count;
            }
        }
        pmb_vt_judge_cells(w, p, its->entries, n, s);
    }
}

#endif
