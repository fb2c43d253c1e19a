/* Grows one binary tree best-first, for class-wise trees and for vector trees: its nodes, the order in which leaves are split,
 * the parting of rows, pruning, and the finished tree in preorder. What a cell of a histogram holds, how histograms are
 * filled and how a split is found in them is the payload's job: classwise_histograms.h (one pair of numbers) or vector_trees.h (K numbers). */
#ifndef PYMCBOOST_GROWER_H
#define PYMCBOOST_GROWER_H

#include "lanes.h"
#include <stdlib.h>

#define PMB_BATCH 16 /* most nodes that are parted side by side */

/* The binned columns of the training rows, which nothing changes. A lane is one column of codes: that of a feature, whose
 * code is its bin, or of a bundle of features no two of which leave their most frequent bins in the same row. A sparse
 * feature has no lane (-1) but entries, which the payload knows. */
typedef struct {
    int64_t m; /* rows */
    int32_t n_lanes,
        n_features;             /* features: those in use, numbered in the order of their columns */
    int32_t code_bytes;         /* 1 or 2 */
    const void *codes;          /* (n_lanes, m) */
    const int32_t *column;      /* by feature, as the next five: its column of X */
    const int32_t *lane;        /* -1: sparse */
    const int32_t *cell0;       /* its first code in the lane, or its first sparse cell */
    const int32_t *n_bins;      /* bins of values */
    const int32_t *has_missing; /* 1: bin n_bins holds the missing values */
    const int32_t *mode;        /* the bin that has no code or entries of its own; -1: none */
    /* (n_lanes + 1,) where the features of each lane begin in lane_feature */
    const int32_t *lane_ptr;
    const int32_t *lane_feature; /* (n_features,) features lane by lane, then the sparse ones */
    const int32_t *lane_cells;   /* (n_lanes,) codes of each lane */
} pmb_columns;

/* A node of the tree being grown. Its rows are n numbers in pmb_grower.rows from `start` on; those of its left child come
 * first. */
typedef struct {
    int64_t start, n;
    double gain; /* of its best split; it has none where this is not above 0 */
    int32_t feature, pos,
        nan_left;  /* its best split: bins up to pos go left, missing values where nan_left is 1 */
    int32_t depth; /* the root's is 0 */
    int32_t left, right; /* numbers of its children; -1 as long as its rows have not been parted */
    /* 0: a leaf of the tree, even where its rows were parted ahead of their turn */
    int32_t is_split;
    /* of a categorical feature: bits of the bins on the left, in place of pos */
    const uint64_t *set;
    double subtree_gain; /* of all splits from here down; made by pmb_prune, as is n_splits */
    int32_t n_splits;
} pmb_node;

/* Best-first growth of one tree. Every row of the tree is in exactly one open leaf; children have larger numbers than their
 * parents. */
typedef struct pmb_grower {
    const pmb_columns *columns;
    int32_t max_leaves, max_depth, max_nodes; /* max_depth 0: no bound */
    double min_gain;                          /* only larger gains are splits */
    pmb_node *nodes;                          /* (max_nodes,) */
    int32_t *rows,
        *spare;     /* (m,) rows of the nodes, and scratch; more rows may be read behind the last */
    int32_t *open;  /* (max_leaves + 1,) leaves of the tree, the one made first coming first */
    uint8_t *taken; /* (max_leaves + 1,) scratch of pmb_batch: marks of open leaves */
    int32_t *reached;    /* (2 (max_leaves + 1),) scratch of pmb_batch_beyond */
    uint8_t *side;       /* (batch, n_side) 1 for the codes that go left */
    int64_t n_side;      /* most codes of a lane */
    void *payload;       /* what split and ahead know of the cells */
    int32_t looks_below; /* 1: batches also have leaves below nodes that were parted ahead */
    /* Parts the nodes of a batch and finds the best splits of their children, except where they are the tree's last. */
    void (*split)(struct pmb_grower *, const int32_t *batch, int32_t n_batch, int last);
    /* How many nodes to part together with the one that comes next. */
    int32_t (*ahead)(const struct pmb_grower *);
    char apart[64]; /* what follows changes: no line of the cache holds it and what stays */
    int32_t n_nodes;
    int32_t n_open;      /* open leaves */
    int32_t next_leaf;   /* place in `open` of the leaf that is split next; -1: none can be split */
    int32_t splits_left; /* how many splits the tree may still get */
    char behind[64];
} pmb_grower;

/* 0 where there is not enough memory; `rows` and `spare` are left to the caller. */
PMB_STATIC int pmb_grower_new(pmb_grower *g, const pmb_columns *c, int32_t max_leaves,
                              int32_t max_depth, int32_t max_nodes, int32_t batch) {
    size_t leaves = (size_t)max_leaves + 1;
    g->columns = c;
    g->max_leaves = max_leaves;
    g->max_depth = max_depth;
    g->max_nodes = max_nodes;
    for (int32_t f = 0; f < c->n_features; f++)
        if (c->n_bins[f] + c->has_missing[f] > g->n_side)
            g->n_side = c->n_bins[f] + c->has_missing[f];
    for (int32_t l = 0; l < c->n_lanes; l++)
        if (c->lane_cells[l] > g->n_side) g->n_side = c->lane_cells[l];
    g->nodes = calloc((size_t)max_nodes, sizeof(pmb_node));
    g->open = malloc(leaves * sizeof(int32_t));
    g->taken = malloc(leaves);
    g->reached = malloc(2 * leaves * sizeof(int32_t));
    g->side = malloc((size_t)(batch * g->n_side + 1));
    return g->nodes && g->open && g->taken && g->reached && g->side;
}

PMB_STATIC void pmb_grower_free(pmb_grower *g) {
    free(g->nodes);
    free(g->open);
    free(g->taken);
    free(g->reached);
    free(g->side);
}

/* Whether a set has a bin. */
PMB_INLINE int pmb_in_set(const uint64_t *set, int bin) {
    return (int)(set[bin >> 6] >> (bin & 63) & 1);
}

/* Words of the sets of a feature. */
PMB_INLINE size_t pmb_set_words(const pmb_columns *c, int f) {
    return ((size_t)c->n_bins[f] + 63) / 64;
}

/* Side of every bin of a node's feature; of every code of its lane, where codes of other features mean its mode. */
PMB_INLINE void pmb_sides(const pmb_columns *c, const pmb_node *node, uint8_t *side) {
    int f = node->feature, bins = c->n_bins[f], mode = c->mode[f];
    if (c->lane[f] >= 0) {
        int rest = mode < 0 ? 0 : mode == bins ? node->nan_left : mode <= node->pos;
        memset(side, rest, (size_t)c->lane_cells[c->lane[f]]);
        side += c->cell0[f];
    }
    if (node->set) {
        for (int b = 0; b < bins; b++) side[b] = (uint8_t)pmb_in_set(node->set, b);
    } else { /* features of few rows may have many bins */
        int left = node->pos + 1 < bins ? node->pos + 1 : bins;
        memset(side, 1, (size_t)left);
        memset(side + left, 0, (size_t)(bins - left));
    }
    if (c->has_missing[f]) side[bins] = (uint8_t)node->nan_left;
}

/* Stable partition of n row numbers by the side of their codes, through `right`. Returns how many are left. */
#define PMB_PART_BY(bits)                                                                          \
    PMB_CLONES PMB_STATIC int64_t pmb_part_by_##bits(                                              \
        const uint##bits##_t *PMB_RESTRICT codes, const uint8_t *PMB_RESTRICT side,                \
        int32_t *PMB_RESTRICT rows, int64_t n, int32_t *PMB_RESTRICT right) {                      \
        int64_t l = 0;                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int32_t row = rows[i];                                                                 \
            rows[l] = right[i - l] = row;                                                          \
            l += side[codes[row]];                                                                 \
        }                                                                                          \
        memcpy(rows + l, right, sizeof(int32_t) * (size_t)(n - l));                                \
        return l;                                                                                  \
    }
PMB_PART_BY(8)
PMB_PART_BY(16)

/* Part n rows by a node whose feature has a lane; those of the left child come first. */
PMB_STATIC int64_t pmb_part_rows(const pmb_columns *c, const pmb_node *node, uint8_t *side,
                                 int32_t *rows, int64_t n, int32_t *right) {
    int64_t first = c->lane[node->feature] * c->m;
    pmb_sides(c, node, side);
    if (c->code_bytes == 2)
        return pmb_part_by_16((const uint16_t *)c->codes + first, side, rows, n, right);
    return pmb_part_by_8((const uint8_t *)c->codes + first, side, rows, n, right);
}

PMB_INLINE void pmb_node_start(pmb_node *node, int64_t start, int64_t n, int32_t depth) {
    memset(node, 0, sizeof *node);
    node->start = start;
    node->n = n;
    node->depth = depth;
    node->left = node->right = -1;
}

/* Places for the two children of a node, without their rows. */
PMB_INLINE void pmb_add_children(pmb_grower *g, pmb_node *node) {
    node->left = g->n_nodes++;
    node->right = g->n_nodes++;
    pmb_node_start(g->nodes + node->left, node->start, 0, node->depth + 1);
    pmb_node_start(g->nodes + node->right, node->start, 0, node->depth + 1);
}

PMB_INLINE void pmb_set_rows(pmb_grower *g, const pmb_node *node, int64_t n_left) {
    g->nodes[node->left].n = n_left;
    g->nodes[node->right].start = node->start + n_left;
    g->nodes[node->right].n = node->n - n_left;
}

/* The open leaf with the largest gain, the one made first among equals; -1: none can be split. */
PMB_INLINE int32_t pmb_best_open(const pmb_grower *g, const uint8_t *excluded) {
    int32_t best = -1;
    double top = g->min_gain;
    for (int32_t j = 0; j < g->n_open; j++) {
        double gain = g->nodes[g->open[j]].gain;
        if (gain > top && !(excluded && excluded[j])) {
            top = gain;
            best = j;
        }
    }
    return best;
}

/* The open leaf that comes next and those likely to follow it, as far as they have not been parted: to `batch`. */
PMB_STATIC int32_t pmb_batch(const pmb_grower *g, int32_t *batch) {
    int32_t n = 1, limit = g->ahead(g);
    batch[0] = g->open[g->next_leaf];
    if (limit <= 1) return 1;
    memset(g->taken, 0, (size_t)g->n_open);
    g->taken[g->next_leaf] = 1;
    /* A leaf far behind is overtaken by children of those before it: it would be parted in vain. */
    for (int32_t rank = 1;
         n < (limit < PMB_BATCH ? limit : PMB_BATCH) && rank < (g->splits_left + 3) / 4; rank++) {
        int32_t j = pmb_best_open(g, g->taken);
        if (j < 0) break;
        g->taken[j] = 1;
        if (g->nodes[g->open[j]].left < 0) batch[n++] = g->open[j];
    }
    return n;
}

/* The leaves without parted rows that best-first order reaches next, also below nodes that have been parted ahead, as far
 * as it is known: to `batch`. */
PMB_STATIC int32_t pmb_batch_beyond(const pmb_grower *g, int32_t *batch) {
    int32_t n = 0, n_open = g->n_open, limit = g->ahead(g), *reached = g->reached;
    memcpy(reached, g->open, sizeof(int32_t) * (size_t)n_open);
    for (int32_t rank = 0;
         n < (limit < PMB_BATCH ? limit : PMB_BATCH) && rank < (g->splits_left + 1) / 2; rank++) {
        int32_t best = -1;
        double top = g->min_gain;
        for (int32_t j = 0; j < n_open; j++)
            if (g->nodes[reached[j]].gain > top) top = g->nodes[reached[best = j]].gain;
        if (best < 0) break;
        const pmb_node *node = g->nodes + reached[best];
        if (node->left < 0) {
            batch[n++] = reached[best];
            reached[best] = reached[--n_open]; /* what its children gain is not known */
        } else {
            reached[best] = node->left;
            reached[n_open++] = node->right;
        }
    }
    if (n) return n;
    batch[0] = g->open[g->next_leaf];
    return 1;
}

/* Start with the rows in g->rows, ascending; the payload then finds the best split of node 0. */
PMB_INLINE void pmb_grow_root(pmb_grower *g, int64_t n) {
    g->n_nodes = g->n_open = 1;
    g->splits_left = g->max_leaves - 1;
    g->open[0] = 0;
    pmb_node_start(g->nodes, 0, n, 0);
}

/* Make the open leaf that comes next, whose rows are parted, a split. */
PMB_INLINE void pmb_close(pmb_grower *g) {
    int32_t *leaf = g->open + g->next_leaf;
    pmb_node *node = g->nodes + *leaf;
    node->is_split = 1;
    memmove(leaf, leaf + 1, sizeof(int32_t) * (size_t)(g->n_open - g->next_leaf - 1));
    g->open[g->n_open - 1] = node->left;
    g->open[g->n_open++] = node->right;
    g->splits_left--;
}

/* Grow from the root, whose best split is known. Returns the number of splits. */
PMB_STATIC int32_t pmb_grow(pmb_grower *g) {
    int32_t batch[PMB_BATCH];
    while (g->splits_left > 0 && (g->next_leaf = pmb_best_open(g, NULL)) >= 0) {
        if (g->nodes[g->open[g->next_leaf]].left < 0) {
            int32_t n = (g->looks_below ? pmb_batch_beyond : pmb_batch)(g, batch);
            g->split(g, batch, n, g->splits_left == 1);
        }
        pmb_close(g);
    }
    return g->max_leaves - 1 - g->splits_left;
}

/* Cost-complexity pruning: from the bottom up, a subtree whose splits gain less than this on average becomes a leaf. A split
 * that gains little stays where those below it gain much. Returns the number of splits that are left. */
PMB_STATIC int32_t pmb_prune(pmb_grower *g, double least_mean_gain) {
    /* children come after their parents */
    for (int32_t node_index = g->n_nodes - 1; node_index >= 0; node_index--) {
        pmb_node *node = g->nodes + node_index;
        if (!node->is_split) continue;
        const pmb_node *left = g->nodes + node->left, *right = g->nodes + node->right;
        node->n_splits =
            1 + (left->is_split ? left->n_splits : 0) + (right->is_split ? right->n_splits : 0);
        node->subtree_gain = node->gain + (left->is_split ? left->subtree_gain : 0.0);
        node->subtree_gain += right->is_split ? right->subtree_gain : 0.0;
        node->is_split = node->subtree_gain >= least_mean_gain * node->n_splits;
    }
    return g->nodes->is_split ? g->nodes->n_splits : 0;
}

/* A grown tree in preorder: splits only, right = distance to the right child; leaf_node: node of each leaf from left to
 * right. Returns the number of splits. */
PMB_STATIC int pmb_preorder(const pmb_node *nodes, int32_t *stack, int32_t *order, int32_t *right,
                            int32_t *leaf_node) {
    int n = 0, leaves = 0, top = 0;
    stack[top++] = 0;
    while (top) {
        int node_index = stack[--top];
        if (node_index < 0) { /* back from the left subtree of split ~node_index */
            right[~node_index] = n - ~node_index;
            continue;
        }
        if (!nodes[node_index].is_split) {
            leaf_node[leaves++] = node_index;
            continue;
        }
        order[n] = node_index;
        stack[top++] = nodes[node_index].right;
        stack[top++] = ~n;
        stack[top++] = nodes[node_index].left;
        n++;
    }
    return n;
}

#endif
