/* Vector trees on many rows: the rows of a small node lie scattered among all, and so do those of the nodes below it. Before
 * such a node is parted its rows are moved side by side. From then on a row's number is its place there. */
#ifndef PYMCBOOST_VECTOR_MOVE_H
#define PYMCBOOST_VECTOR_MOVE_H

#include "vector_sample.h"

#define PMB_VT_PIECE 4096  /* rows that one thread moves at a time */
#define PMB_VT_SCATTERED 4 /* rows are moved where they are this part of all, or less */
#define PMB_VT_BRANCHING 8 /* and as many as this number of leaves have on average */

/* Whether the rows of a node that is to be parted are moved first. */
PMB_INLINE int pmb_vt_is_to_move(const pmb_vt_state *w, int32_t node_index) {
    int64_t n = w->grower.nodes[node_index].n, m = w->data.columns.m;
    return w->moved.codes && !w->stats[node_index].moved && n > 0 && n * PMB_VT_SCATTERED <= m &&
           n * w->grower.max_leaves >= m * PMB_VT_BRANCHING;
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
PMB_STATIC void pmb_vt_move_piece(pmb_vt_state *w, int32_t node_index, int64_t piece) {
    const pmb_columns *c = &w->data.columns;
    const pmb_node *node = w->grower.nodes + node_index;
    int64_t from = piece * PMB_VT_PIECE,
            n = node->n - from < PMB_VT_PIECE ? node->n - from : PMB_VT_PIECE;
    int64_t first = node->start + from, L = w->data.lanes;
    int32_t *rows = w->grower.rows + first, numbers[PMB_VT_PIECE + PMB_VT_FAR];
    pmb_sum unused[PMB_VT_LANES] = {0};
    memcpy(numbers, rows, sizeof(int32_t) * (size_t)n);
    for (int j = 0; j < PMB_VT_FAR; j++) numbers[n + j] = numbers[n - 1];
    for (int32_t l = 0; l < c->n_lanes; l++) {
        int64_t lane = l * c->m;
        if (c->code_bytes == 2)
            pmb_move_by_16((const uint16_t *)c->codes + lane, numbers, n,
                           (uint16_t *)w->moved.codes + lane + first);
        else
            pmb_move_by_8((const uint8_t *)c->codes + lane, numbers, n,
                          (uint8_t *)w->moved.codes + lane + first);
    }
    for (int b = 0; b < w->data.blocks && !w->gathered; b++)
        PMB_VT(w->data.lanes, pmb_vt_gather_, w->A + b * c->m * L, numbers, n,
               w->moved_A + (b * c->m + first) * L, unused);
    memcpy(w->origin + first, numbers, sizeof(int32_t) * (size_t)n);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)(first + i);
}

/* Move the rows of a node. */
PMB_STATIC void pmb_vt_move(pmb_vt_state *w, int32_t node_index) {
    for (int64_t piece = 0; piece * PMB_VT_PIECE < w->grower.nodes[node_index].n; piece++)
        pmb_vt_move_piece(w, node_index, piece);
    w->stats[node_index].moved = 1;
}

/* Two ascending runs of rows, next to each other, become one. */
PMB_STATIC void pmb_vt_merge(int32_t *rows, int64_t n_left, int64_t n, int32_t *spare) {
    int64_t i = 0, j = n_left;
    memcpy(spare, rows, sizeof(int32_t) * (size_t)n);
    for (int64_t k = 0; k < n; k++)
        rows[k] = j == n || (i < n_left && spare[i] < spare[j]) ? spare[i++] : spare[j++];
}

/* The rows of a leaf by their own numbers in ascending order, also where it has been parted in vain. */
PMB_STATIC void pmb_vt_rows_of_leaf(pmb_vt_state *w, int32_t node_index) {
    const pmb_node *node = w->grower.nodes + node_index;
    int32_t *rows = w->grower.rows + node->start;
    if (node->left >= 0) {
        pmb_vt_rows_of_leaf(w, node->left);
        pmb_vt_rows_of_leaf(w, node->right);
        pmb_vt_merge(rows, w->grower.nodes[node->left].n, node->n, w->grower.spare + node->start);
    } else if (w->stats[node_index].moved)
        for (int64_t i = 0; i < node->n; i++) rows[i] = w->origin[rows[i]];
}

#endif
