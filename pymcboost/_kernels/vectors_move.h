/* Trees with vector leaves on many rows: the rows of a node of few among them lie scattered, and so do those of all nodes
 * below it. Before such a node is parted its rows are moved side by side. From then on a row's number is its place there. */
#ifndef PYMCBOOST_VECTORS_MOVE_H
#define PYMCBOOST_VECTORS_MOVE_H

#include "vectors_reduce.h"

#define PMB_VT_PIECE 4096  /* rows that one thread moves at a time */
#define PMB_VT_SCATTERED 4 /* rows are moved where they are this part of all, or less */
#define PMB_VT_BRANCHING 8 /* and as many as this number of leaves have on average */

/* Whether the rows of a node that is to be parted are moved first. */
PMB_INLINE int pmb_vt_is_to_move(const pmb_vectors *w, int32_t at) {
    int64_t n = w->g.nodes[at].n, m = w->d.c.m;
    return w->moved.codes && !w->its[at].moved && n > 0 && n * PMB_VT_SCATTERED <= m &&
           n * w->g.max_leaves >= m * PMB_VT_BRANCHING;
}

#define PMB_MOVE_BY(bits)                                                                          \
    PMB_STATIC void pmb_move_by_##bits(const uint##bits##_t *PMB_RESTRICT codes,                   \
                                       const int32_t *PMB_RESTRICT rows, int64_t n,                \
                                       uint##bits##_t *PMB_RESTRICT out) {                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            PMB_PREFETCH(codes + rows[i + PMB_VT_FAR]);                                            \
            out[i] = codes[rows[i]];                                                               \
        }                                                                                          \
    }
PMB_MOVE_BY(8)
PMB_MOVE_BY(16)

/* Move a piece of the rows of a node. Their gradients need not be moved where they have been gathered. */
PMB_STATIC void pmb_vt_move_piece(pmb_vectors *w, int32_t at, int64_t piece) {
    const pmb_columns *c = &w->d.c;
    const pmb_node *node = w->g.nodes + at;
    int64_t from = piece * PMB_VT_PIECE,
            n = node->n - from < PMB_VT_PIECE ? node->n - from : PMB_VT_PIECE;
    int64_t first = node->start + from, L = w->d.lanes;
    int32_t *rows = w->g.rows + first, its[PMB_VT_PIECE + PMB_VT_FAR];
    pmb_sum unused[PMB_VT_LANES] = {0};
    memcpy(its, rows, sizeof(int32_t) * (size_t)n);
    for (int j = 0; j < PMB_VT_FAR; j++) its[n + j] = its[n - 1];
    for (int32_t l = 0; l < c->n_lanes; l++) {
        int64_t lane = l * c->m;
        if (c->code_bytes == 2)
            pmb_move_by_16((const uint16_t *)c->codes + lane, its, n,
                           (uint16_t *)w->moved.codes + lane + first);
        else
            pmb_move_by_8((const uint8_t *)c->codes + lane, its, n,
                          (uint8_t *)w->moved.codes + lane + first);
    }
    for (int b = 0; b < w->d.blocks && !w->gathered; b++)
        PMB_VT(w->d.lanes, pmb_vt_gather_, w->A + b * c->m * L, its, n,
               w->moved_A + (b * c->m + first) * L, unused);
    memcpy(w->origin + first, its, sizeof(int32_t) * (size_t)n);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)(first + i);
}

/* Move the rows of a node. */
PMB_STATIC void pmb_vt_move(pmb_vectors *w, int32_t at) {
    for (int64_t piece = 0; piece * PMB_VT_PIECE < w->g.nodes[at].n; piece++)
        pmb_vt_move_piece(w, at, piece);
    w->its[at].moved = 1;
}

/* Two ascending runs of rows, next to each other, become one. */
PMB_STATIC void pmb_vt_merge(int32_t *rows, int64_t n_left, int64_t n, int32_t *spare) {
    int64_t i = 0, j = n_left;
    memcpy(spare, rows, sizeof(int32_t) * (size_t)n);
    for (int64_t k = 0; k < n; k++)
        rows[k] = j == n || (i < n_left && spare[i] < spare[j]) ? spare[i++] : spare[j++];
}

/* The rows of a leaf by their own numbers in ascending order, also where it has been parted in vain. */
PMB_STATIC void pmb_vt_rows_of_leaf(pmb_vectors *w, int32_t at) {
    const pmb_node *node = w->g.nodes + at;
    int32_t *rows = w->g.rows + node->start;
    if (node->left >= 0) {
        pmb_vt_rows_of_leaf(w, node->left);
        pmb_vt_rows_of_leaf(w, node->right);
        pmb_vt_merge(rows, w->g.nodes[node->left].n, node->n, w->g.spare + node->start);
    } else if (w->its[at].moved)
        for (int64_t i = 0; i < node->n; i++) rows[i] = w->origin[rows[i]];
}

#endif
