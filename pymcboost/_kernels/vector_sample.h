/* Vector trees on a part of the rows: draws rows by their numbers, parts sparse entries, and finds the leaves of the rows that
 * were left out. */
#ifndef PYMCBOOST_VECTOR_SAMPLE_H
#define PYMCBOOST_VECTOR_SAMPLE_H

#include "vector_search.h"

/* Rows of a node whose feature is sparse, by side: 1 for the left. cells, entries: those of the feature among others.
 * node_of_row: NULL, or only entries of rows where it is `node_index` count. */
PMB_STATIC void pmb_vt_side_of_rows(const pmb_columns *c, int f, const uint8_t *side,
                                    const int32_t *rows, int64_t n, const pmb_vt_cell *cell,
                                    const pmb_vt_cell *end, const int32_t *entry,
                                    const int32_t *node_of_row, int32_t node_index,
                                    uint8_t *row_side) {
    int32_t first = c->cell0[f], last = first + c->n_bins[f] + c->has_missing[f];
    for (int64_t i = 0; i < n; i++) row_side[rows[i]] = side[c->mode[f]];
    for (; cell < end && cell->cell < first; cell++) entry += cell->count;
    for (; cell < end && cell->cell < last; cell++)
        for (int32_t k = 0; k < cell->count; k++, entry++)
            if (!node_of_row || PMB_READ(node_of_row + *entry) == node_index)
                row_side[*entry] = side[cell->cell - first];
}

/* The same of a feature whose entries are looked up among those of all rows. */
PMB_INLINE void pmb_vt_look_up_sides(const pmb_vt_state *w, int f, const uint8_t *side,
                                     const int32_t *rows, int64_t n, const int32_t *node_of_row,
                                     int32_t node_index, uint8_t *row_side) {
    pmb_vt_side_of_rows(&w->data.columns, f, side, rows, n, w->all_cells + w->first_cell[f],
                        w->all_cells + w->n_used_cells, w->all_entries + w->first_entry[f],
                        node_of_row, node_index, row_side);
}

/* Sparse entries of rows. */
PMB_STATIC int64_t pmb_vt_count_entries(const pmb_vt_data *data, const int32_t *rows, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += data->row_ptr[rows[i] + 1] - data->row_ptr[rows[i]];
    return count;
}

/* Entries of a node to its children's, which begin at the same place of `entries` and `cells` as the node's own.
 * row_side: 1 for the rows on the left. */
PMB_STATIC void pmb_vt_part_entries(const pmb_vt_data *data, const pmb_vt_stats *stats,
                                    const int32_t *left_rows, int64_t n_left_rows,
                                    const uint8_t *PMB_RESTRICT row_side,
                                    int32_t *PMB_RESTRICT entries, pmb_vt_cell *PMB_RESTRICT cells,
                                    pmb_vt_stats *left, pmb_vt_stats *right) {
    int64_t n = pmb_vt_count_entries(data, left_rows, n_left_rows), l = 0, r = n, n_left = 0,
            n_right = 0;
    const int32_t *PMB_RESTRICT row = stats->entries;
    const pmb_vt_cell *PMB_RESTRICT cell = stats->cells;
    pmb_vt_cell *right_cells = cells + n;
    for (int64_t c = 0; c < stats->n_cells; c++) {
        int32_t count = cell[c].count, on_left;
        int64_t before = l;
        for (int32_t j = 0; j < count; j++) {
            int32_t it = *row++;
            int64_t yes = row_side[it];
            entries[yes ? l : r] = it;
            l += yes;
            r += 1 - yes;
        }
        on_left = (int32_t)(l - before);
        if (on_left) cells[n_left++] = (pmb_vt_cell){cell[c].cell, on_left};
        if (on_left < count) right_cells[n_right++] = (pmb_vt_cell){cell[c].cell, count - on_left};
    }
    left->entries = entries;
    left->cells = cells;
    left->first_entry = stats->first_entry;
    left->n_entries = n;
    left->n_cells = n_left;
    right->entries = entries + n;
    right->cells = right_cells;
    right->first_entry = stats->first_entry + n;
    right->n_entries = stats->n_entries - n;
    right->n_cells = n_right;
}

/* Sort n entries, with rows in place of counts, by their cells up to `most`; those of a cell keep their order. Returns where
 * they are then. */
PMB_STATIC pmb_vt_cell *pmb_vt_sort_entries(pmb_vt_cell *entry, pmb_vt_cell *spare, int64_t n,
                                            int32_t most) {
    for (int shift = 0; shift < 31 && most >> shift > 0; shift += 8) {
        int64_t count[257] = {0};
        pmb_vt_cell *sorted = spare;
        for (int64_t i = 0; i < n; i++) count[(entry[i].cell >> shift & 255) + 1]++;
        for (int j = 0; j < 256; j++) count[j + 1] += count[j];
        for (int64_t i = 0; i < n; i++) sorted[count[entry[i].cell >> shift & 255]++] = entry[i];
        spare = entry;
        entry = sorted;
    }
    return entry;
}

/* Make the list of a node whose parent has none, from its rows. Its part of the cells of even and of odd depth is free. */
PMB_STATIC void pmb_vt_list_entries(pmb_vt_state *w, int32_t node_index) {
    const pmb_vt_data *data = &w->data;
    const pmb_node *node = w->grower.nodes + node_index;
    pmb_vt_stats *stats = w->stats + node_index;
    const int32_t *rows = w->grower.rows + node->start;
    int to = node->depth % 2 == 0;
    pmb_vt_cell *cells = w->cells[to] + stats->first_entry,
                *found = w->cells[1 - to] + stats->first_entry;
    int32_t *entries = w->entries[to] + stats->first_entry, last = -1;
    int64_t count = 0, n_cells = 0;
    for (int64_t i = 0; i < node->n; i++)
        for (int64_t e = data->row_ptr[rows[i]]; e < data->row_ptr[rows[i] + 1]; e++)
            found[count++] = (pmb_vt_cell){data->row_cell[e], rows[i]};
    found = pmb_vt_sort_entries(found, cells, count, data->most_cell);
    /* found may be `cells`: at most i of these are written before entry i is read */
    for (int64_t i = 0; i < count; i++) {
        pmb_vt_cell one = found[i];
        entries[i] = one.count;
        if (one.cell != last) cells[n_cells++] = (pmb_vt_cell){one.cell, 0};
        cells[n_cells - 1].count++;
        last = one.cell;
    }
    stats->entries = entries;
    stats->cells = cells;
    stats->n_cells = n_cells;
}

/* Whether so many entries are fewer than those of the features that a node searches, in all rows: then it has a list. */
PMB_INLINE int pmb_vt_has_list(const pmb_vt_state *w, int64_t n_entries) {
    return n_entries * w->data.columns.n_features < w->n_entries * w->options.n_drawn;
}

/* Of n rows from the first on, those whose numbers the key draws with the given probability to the front of `rows`, the
 * others behind, both ascending. number: NULL for those from 0 on. Returns how many are drawn. */
PMB_STATIC int64_t pmb_vt_draw_some(uint64_t key, double share, int64_t first, int64_t n,
                                    const int64_t *PMB_RESTRICT number, int32_t *PMB_RESTRICT rows,
                                    int32_t *PMB_RESTRICT others) {
    const pmb_draw draw = pmb_draw_of(key, share);
    int64_t drawn = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = first + i;
        rows[drawn] = others[i - drawn] = (int32_t)row;
        drawn += pmb_is_drawn(&draw, number ? number[row] : row);
    }
    memcpy(rows + drawn, others, sizeof(int32_t) * (size_t)(n - drawn));
    return drawn;
}

/* Start a tree with the first n of the rows: their sparse entries and their sums. */
PMB_STATIC void pmb_vt_root_of_part(pmb_vt_state *w, int64_t n) {
    pmb_vt_stats *root = w->stats, none;
    const pmb_vt_data *data = &w->data;
    int b = data->n_classes / data->lanes;
    if (w->node_of_row) {
        for (int64_t i = 0; i < n; i++) w->node_of_row[w->grower.rows[i]] = 0;
        root->n_entries = pmb_vt_count_entries(data, w->grower.rows, n);
    } else if (w->n_entries) {
        memset(w->row_side, 0, (size_t)data->columns.m);
        for (int64_t i = 0; i < n; i++) w->row_side[w->grower.rows[i]] = 1;
        pmb_vt_part_entries(data, root, w->grower.rows, n, w->row_side, w->entries[1], w->cells[1],
                            root, &none);
    }
    memset(pmb_vt_totals(w, 0, b), 0, sizeof(pmb_sum) * (size_t)data->lanes);
    pmb_vt_sum_up(w, 0, b, w->scratch->gathered);
}

/* Leaves of n rows from `start` on, which go down the grown tree together. waiting, side: of a thread. */
PMB_STATIC void pmb_vt_route(pmb_vt_state *w, int64_t start, int64_t n, pmb_vt_waiting *waiting,
                             uint8_t *side, int32_t *leaf_of_row) {
    static const uint8_t same[2] = {0, 1};
    const pmb_columns *c = &w->data.columns;
    int32_t leaf = 0, top = 0;
    waiting[top++] = (pmb_vt_waiting){0, start, n};
    while (top) {
        pmb_vt_waiting group = waiting[--top];
        const pmb_node *node = w->grower.nodes + group.node;
        int32_t *rows = w->grower.rows + group.start, *spare = w->grower.spare + group.start;
        int64_t n_left = 0;
        if (!node->is_split) {
            for (int64_t i = 0; i < group.n; i++) leaf_of_row[rows[i]] = leaf;
            leaf++;
            continue;
        }
        if (group.n && c->lane[node->feature] < 0) {
            pmb_sides(c, node, side);
            pmb_vt_look_up_sides(w, node->feature, side, rows, group.n, NULL, 0, w->row_side);
            n_left = pmb_part_by_8(w->row_side, same, rows, group.n, spare);
        } else if (group.n)
            n_left = pmb_part_rows(c, node, side, rows, group.n, spare);
        waiting[top++] = (pmb_vt_waiting){node->right, group.start + n_left, group.n - n_left};
        waiting[top++] = (pmb_vt_waiting){node->left, group.start, n_left};
    }
}

#endif
