/* Vector trees: small nodes, which several threads split side by side, a node each.
 *
 * A free thread takes the leaf that comes next in best-first order. While another thread splits that one, it takes the best of
 * those that may follow: nodes are split ahead of their turn, and some in vain. A tree keeps only the nodes that best-first
 * order reaches, so it does not depend on which thread was faster. A thread that has lost the CPU holds up the others only
 * once its node is the next, and there is no other to split ahead. */
#ifndef PYMCBOOST_VECTOR_SMALL_NODES_H
#define PYMCBOOST_VECTOR_SMALL_NODES_H

#include "vector_large_nodes.h"

/* updates of histogram rows, of the root, below which one thread grows a tree */
#define PMB_VT_TEAM_WORK 10000
/* updates of histogram rows from which on all threads work on one node */
#define PMB_VT_WIDE 120000
#define PMB_VT_WIDE_EARLY 20000 /* the same while there are fewer leaves than threads */

enum { PMB_VT_WHOLE, PMB_VT_TAKEN, PMB_VT_PARTED }; /* pmb_vt_stats.progress */

/* What a thread is to do. */
typedef struct {
    int32_t node; /* split this node; -1: wait until another thread has split one; -2: leave */
    int last;     /* 1: it is the last split of the tree */
} pmb_vt_assignment;

/* Whether all threads work on a node together. */
PMB_INLINE int pmb_vt_is_wide(const pmb_vt_state *w, int32_t node_index) {
    int64_t work = w->grower.nodes[node_index].n * pmb_vt_row_work(w);
    int32_t n_leaves = pmb_vt_n_leaves(w), threads = w->options.threads;
    if (n_leaves < threads) return work >= PMB_VT_WIDE_EARLY;
    return work >= PMB_VT_WIDE * (n_leaves < threads * 4 ? 1 : 4);
}

/* The best leaf of two: the one made first among equals. */
PMB_INLINE int pmb_vt_before(const pmb_vt_leaf *a, const pmb_vt_leaf *b) {
    return a->gain > b->gain || (a->gain == b->gain && a->order < b->order);
}

PMB_STATIC void pmb_vt_push(pmb_vt_heap *h, pmb_vt_leaf leaf) {
    int32_t place = h->n++;
    for (; place > 0 && pmb_vt_before(&leaf, h->leaf + (place - 1) / 2); place = (place - 1) / 2)
        h->leaf[place] = h->leaf[(place - 1) / 2];
    h->leaf[place] = leaf;
}

PMB_STATIC void pmb_vt_pop(pmb_vt_heap *h) {
    pmb_vt_leaf last = h->leaf[--h->n];
    int32_t place = 0;
    for (int32_t child; (child = 2 * place + 1) < h->n; place = child) {
        child += child + 1 < h->n && pmb_vt_before(h->leaf + child + 1, h->leaf + child);
        if (!pmb_vt_before(h->leaf + child, &last)) break;
        h->leaf[place] = h->leaf[child];
    }
    h->leaf[place] = last;
}

/* A leaf of the tree, which is split when its turn comes. */
PMB_STATIC void pmb_vt_open(pmb_vt_state *w, int32_t node_index) {
    pmb_vt_leaf leaf = {w->grower.nodes[node_index].gain, w->n_ordered++, node_index};
    if (leaf.gain > w->grower.min_gain) pmb_vt_push(&w->open, leaf);
}

/* A node whose best split is known, which some thread may split. */
PMB_STATIC void pmb_vt_offer(pmb_vt_state *w, int32_t node_index) {
    pmb_vt_leaf leaf = {w->grower.nodes[node_index].gain, node_index, node_index};
    if (leaf.gain > w->grower.min_gain) pmb_vt_push(&w->offered, leaf);
}

/* The children of a node have been searched. */
PMB_STATIC void pmb_vt_searched(pmb_vt_state *w, int32_t node_index) {
    const pmb_node *node = w->grower.nodes + node_index;
    w->stats[node_index].progress = PMB_VT_PARTED;
    w->n_ahead++;
    pmb_vt_offer(w, node->left);
    pmb_vt_offer(w, node->right);
}

/* Make those leaves splits whose turn it is, as far as their children have been searched. Returns the leaf whose turn comes
 * then; -1: the tree is complete. */
PMB_STATIC int32_t pmb_vt_close(pmb_vt_state *w) {
    while (w->grower.splits_left > 0 && w->open.n > 0) {
        int32_t node_index = w->open.leaf[0].node;
        if (w->stats[node_index].progress != PMB_VT_PARTED) return node_index;
        pmb_node *node = w->grower.nodes + node_index;
        node->is_split = 1;
        w->grower.splits_left--;
        w->n_ahead--;
        pmb_vt_pop(&w->open);
        pmb_vt_open(w, node->left);
        pmb_vt_open(w, node->right);
    }
    return -1;
}

/* The best node that may be split ahead of its turn; -1: there is none. */
PMB_STATIC int32_t pmb_vt_ahead_of_turn(pmb_vt_state *w) {
    pmb_vt_heap *h = &w->offered;
    if (w->n_ahead >= (w->grower.splits_left + 1) / 2 ||
        w->grower.max_nodes - 2 * w->grower.splits_left - w->grower.n_nodes < 2)
        return -1;
    while (h->n > 0 && w->stats[h->leaf[0].node].progress != PMB_VT_WHOLE) pmb_vt_pop(h);
    return h->n > 0 && !pmb_vt_is_wide(w, h->leaf[0].node) ? h->leaf[0].node : -1;
}

/* Take a node: the next one, or one ahead of its turn. */
PMB_STATIC pmb_vt_assignment pmb_vt_take(pmb_vt_state *w) {
    pmb_vt_assignment todo = {-2, 0};
    int32_t next = pmb_vt_close(w);
    if (next < 0) return todo;
    int is_whole = w->stats[next].progress == PMB_VT_WHOLE;
    if (is_whole && pmb_vt_is_wide(w, next)) return todo;
    todo.node = is_whole ? next : pmb_vt_ahead_of_turn(w);
    todo.last = todo.node == next && w->grower.splits_left == 1;
    if (todo.node < 0) return todo;
    pmb_vt_add_children(w, todo.node);
    w->stats[todo.node].progress = PMB_VT_TAKEN;
    return todo;
}

/* Split nodes until the tree is complete, or all threads are to work on the next one. */
PMB_STATIC void pmb_vt_split_some(void *vectors, int64_t piece, int thread) {
    pmb_vt_state *w = vectors;
    pmb_vt_assignment todo = {-1, 0};
    (void)piece;
    do {
        int64_t seen = 0;
        int32_t before = todo.node;
        pmb_lock_it(&w->lock);
        if (before >= 0) pmb_vt_searched(w, before);
        todo = pmb_vt_take(w);
        int wakes = w->n_waiting > 0 && (before >= 0 || todo.node == -2);
        if (todo.node == -1) {
            w->n_waiting++;
            seen = w->threads->seen();
        }
        pmb_unlock_it(&w->lock);
        if (wakes) w->threads->tell();
        if (todo.node >= 0) pmb_vt_split_alone(w, todo.node, todo.last, thread);
        if (todo.node == -1) {
            w->threads->wait(seen);
            pmb_lock_it(&w->lock);
            w->n_waiting--;
            pmb_unlock_it(&w->lock);
        }
    } while (todo.node != -2);
}

/* Grow a tree from the root, whose best split is known. Returns the number of splits. */
PMB_STATIC int32_t pmb_vt_grow_by(pmb_vt_state *w, int threads) {
    w->open.n = w->offered.n = w->n_ordered = w->n_ahead = 0;
    pmb_vt_open(w, 0);
    for (int32_t node_index; (node_index = pmb_vt_close(w)) >= 0;) {
        int is_wide = threads > 1 && pmb_vt_is_wide(w, node_index),
            last = w->grower.splits_left == 1;
        if (threads > 1 && !is_wide && !last) {
            w->threads->run(threads, threads, pmb_vt_split_some, w);
            continue;
        }
        pmb_vt_add_children(w, node_index);
        if (is_wide)
            pmb_vt_split_wide(w, node_index, last);
        else
            pmb_vt_split_alone(w, node_index, last, 0);
        pmb_vt_searched(w, node_index);
    }
    return w->grower.max_leaves - 1 - w->grower.splits_left;
}

#endif
