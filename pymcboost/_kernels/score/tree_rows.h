/* ------------------------------------------------------------------------------- prepared trees: one row, or many */

/* Scores of prepared trees, for one row or for many. */

/* Whether trees from <= t < to can be descended in ranks. */
MCB__INLINE int mcb__all_ranked(const mcb__prepared *p, uint64_t from, uint64_t to) {
    return p->ranks && from == 0 && to == p->block[1].tree;
}

/* Rows to score together where none go side by side in ranks. Trees that ask all splits gain from 4 rows on, others from as
 * many as fill most of a group; large ones in ranks do not, if they fill the lanes of a row. */
MCB__INLINE size_t mcb__at_a_time(const mcb__prepared *p, int ranked, size_t n_rows) {
    if (n_rows < (p->large ? 13 : ranked ? 6 : 4)) return 1;
    if (ranked && p->large && p->block[1].tree >= MCB__R_LANES) return 1;
    return n_rows < MCB__GROUP ? n_rows : (size_t)MCB__GROUP;
}

/* Sums of one row wait for each other; those of four rows, of up to 16 classes, go on side by side. */
enum { MCB__R_ROWS = 4, MCB__R_SUMS = 16 };

#define MCB__RANKED_2 0
#define MCB__RANKED_4 0
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
#define MCB__RANKED_8 1
MCB__AVX512 MCB__APART void mcb__row_of_ranks(const mcb__prepared *p, size_t K, int vector,
                                              const void *x, int values, double *scores) {
    uint64_t t, end = p->block[1].tree;
    uint16_t rank[MCB__R_COLUMNS];
    size_t i, n;
    mcb__rank_row(p->ranks, x, values, rank);
    for (t = 0; t < end; t += n) {
        size_t row[MCB__SORTED];
        float value[MCB__SORTED];
        n = end - t < MCB__SORTED ? (size_t)(end - t) : (size_t)MCB__SORTED;
        mcb__find_ranked(p->ranks, &p->ranks->all, t, n, rank, row);
        for (i = 0; i < n && !vector; i++) value[i] = p->leaf[row[i]];
        if (vector)
            mcb__add_rows_8(p, row, n, K, scores);
        else
            mcb__add_values(p, t, value, n, K, scores);
    }
}

/* Sums of 4 nv numbers: in vectors of 8, and one of 4 where their number is odd. */
#define MCB__FOUR(X) X(0, 8, nv > 1, 0) X(1, 8, nv > 3, 8) X(2, 4, nv & 1, nv > 1 ? 8 : 0)
#define MCB__FOUR_BEGIN(v, W, used, from)                                                          \
    mcb__d##W a##v = MCB__SPLAT##W(0), b##v = a##v, c##v = a##v, d##v = a##v;                      \
    if (used) {                                                                                    \
        a##v = *(const mcb__dm##W *)(all + (from));                                                \
        b##v = *(const mcb__dm##W *)(all + MCB__R_SUMS + (from));                                  \
        c##v = *(const mcb__dm##W *)(all + 2 * MCB__R_SUMS + (from));                              \
        d##v = *(const mcb__dm##W *)(all + 3 * MCB__R_SUMS + (from));                              \
    }
#define MCB__FOUR_ADD(v, W, used, from)                                                            \
    if (used) {                                                                                    \
        mcb__d##W wide;                                                                            \
        MCB__WIDEN_##W(wide, first + (from));                                                      \
        a##v += wide;                                                                              \
        MCB__WIDEN_##W(wide, second + (from));                                                     \
        b##v += wide;                                                                              \
        MCB__WIDEN_##W(wide, third + (from));                                                      \
        c##v += wide;                                                                              \
        MCB__WIDEN_##W(wide, fourth + (from));                                                     \
        d##v += wide;                                                                              \
    }
#define MCB__FOUR_END(v, W, used, from)                                                            \
    if (used) {                                                                                    \
        *(mcb__dm##W *)(all + (from)) = a##v;                                                      \
        *(mcb__dm##W *)(all + MCB__R_SUMS + (from)) = b##v;                                        \
        *(mcb__dm##W *)(all + 2 * MCB__R_SUMS + (from)) = c##v;                                    \
        *(mcb__dm##W *)(all + 3 * MCB__R_SUMS + (from)) = d##v;                                    \
    }
MCB__AVX512 MCB__INLINE void mcb__sum_four(const mcb__prepared *p, uint32_t (*leaf)[MCB__R_LEAVES],
                                           const uint16_t *place, size_t n, size_t nv,
                                           double *all) {
    size_t i;
    MCB__FOUR(MCB__FOUR_BEGIN)
    for (i = 0; i < n; i++) {
        size_t at = place[i];
        const float *first = p->leaf + leaf[0][at] * p->step,
                    *second = p->leaf + leaf[1][at] * p->step;
        const float *third = p->leaf + leaf[2][at] * p->step,
                    *fourth = p->leaf + leaf[3][at] * p->step;
        MCB__FOUR(MCB__FOUR_ADD)
    }
    MCB__FOUR(MCB__FOUR_END)
}

/* Scores of 3 or 4 rows of trees with vectors of up to 16 numbers. */
MCB__AVX512 MCB__APART void mcb__rows_of_ranks(const mcb__prepared *p, size_t K, const void *x,
                                               int values, size_t n_rows, size_t stride,
                                               double *scores) {
    uint64_t t, end = p->block[1].tree;
    uint16_t rank[MCB__R_ROWS][MCB__R_COLUMNS];
    MCB__ALIGNED uint32_t leaf[MCB__R_ROWS][MCB__R_LEAVES];
    size_t r, k, n;
    double all[MCB__R_ROWS * MCB__R_SUMS];
    if (n_rows < MCB__R_ROWS)
        memset(leaf[MCB__R_ROWS - 1], 0, sizeof leaf[0]); /* its sums are thrown away */
    for (r = 0; r < MCB__R_ROWS; r++) {
        if (r < n_rows) mcb__rank_row(p->ranks, mcb__later(x, values, r * stride), values, rank[r]);
        for (k = 0; k < MCB__R_SUMS; k++)
            all[r * MCB__R_SUMS + k] = r < n_rows && k < K ? scores[r * K + k] : 0;
    }
    for (t = 0; t < end; t += n) {
        n = end - t < MCB__SORTED ? (size_t)(end - t) : (size_t)MCB__SORTED;
        for (r = 0; r < n_rows; r++)
            mcb__sorted_leaves(p->ranks, &p->ranks->all, t, n, rank[r], leaf[r]);
        switch (p->step / 4) {
        case 1:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 1, all);
            break;
        case 2:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 2, all);
            break;
        case 3:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 3, all);
            break;
        default:
            mcb__sum_four(p, leaf, p->ranks->all.place + t, n, 4, all);
            break;
        }
    }
    for (r = 0; r < n_rows; r++) {
        for (k = 0; k < K; k++) scores[r * K + k] = all[r * MCB__R_SUMS + k];
    }
}

/* How many rows go side by side; 1 where they do not: two rows would save less than they throw away. Groups of rows are
 * faster where trees do not fill the lanes of a row, or ask all splits. */
MCB__INLINE size_t mcb__side_by_side(const mcb__prepared *p, int vector, size_t n_rows) {
    if (!vector || n_rows < 3 || p->step % 4 || p->step > MCB__R_SUMS) return 1;
    if (n_rows > (p->large ? 12 : 7) && (!p->large || p->block[1].tree < MCB__R_LANES)) return 1;
    return n_rows < MCB__R_ROWS ? n_rows : (size_t)MCB__R_ROWS;
}
#else
#define mcb__row_of_ranks(p, K, vector, x, values, scores) (void)0
#define mcb__rows_of_ranks(p, K, x, values, n_rows, stride, scores) (void)0
#define mcb__side_by_side(p, vector, n_rows) 1
#endif

#define MCB__GROUP_2
#define MCB__GROUP_4
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
#define MCB__GROUP_8                                                                               \
    else if (mcb__sums_of_group(p, vector, n))                                                     \
        mcb__group_of_rows(p, K, x, values, n, stride, from, to, scores);

/* Numbers of a leaf whose sums for a group of rows take 6 KB, so that the stack is as large as mcb.h says. */
enum { MCB__G_SUMS = 48 };

/* Whether a group of rows has its sums side by side: trees of one block, with few numbers in a leaf. What is missing in
 * a group is added all the same, so that 4 and 5 rows are slower. */
MCB__INLINE int mcb__sums_of_group(const mcb__prepared *p, int vector, size_t n_rows) {
    return vector && !p->first && (p->n_blocks == 1 || p->question) && p->step % 4 == 0 &&
           p->step <= MCB__G_SUMS && n_rows > 5;
}

/* Leaves of a tree for a group of rows. */
MCB__AVX512 MCB__INLINE void mcb__group_leaves(const mcb__prepared *p, uint64_t t, const float *v,
                                               uint32_t *leaf) {
    const mcb__node *node[MCB__GROUP] = {mcb__root(p, t)};
    size_t r;
    if (MCB__ASK_ALL(8, p, t, v, leaf)) return;
    if (p->question)
        mcb__descend_rows(node, p->tree[t].depth, v, 1);
    else
        mcb__descend_rows(node, p->tree[t].depth, v, 0);
    for (r = 0; r < MCB__GROUP; r++) leaf[r] = mcb__leaf_number(node[r]->threshold);
}

#define MCB__GROUP_ADD(v, W, used, from)                                                           \
    if (used) {                                                                                    \
        mcb__d##W wide;                                                                            \
        MCB__WIDEN_##W(wide, one + (from));                                                        \
        *(mcb__dm##W *)(sum + (from)) += wide;                                                     \
    }
#define MCB__GROUP_ROW(r)                                                                          \
    {                                                                                              \
        const float *one = value + leaf[i][r] * p->step;                                           \
        double *sum = all + (r) * MCB__R_SUMS;                                                     \
        MCB__FOUR(MCB__GROUP_ADD)                                                                  \
    }
/* Add 4 nv numbers of the leaves of n trees from t on, which begin at `leaves`, to the sums of a group of rows. */
MCB__AVX512 MCB__INLINE void mcb__group_sums(const mcb__prepared *p, uint64_t t, size_t n,
                                             const float *leaves, size_t nv,
                                             uint32_t (*leaf)[MCB__GROUP], double *all) {
    size_t i;
    for (i = 0; i < n; i++) {
        const float *value = leaves + (p->tree[t + i].split + (size_t)(t + i)) * p->step;
        MCB__EACH(MCB__GROUP_ROW)
    }
}

/* Scores of a group of rows. Some trees are descended before the first of them is added, so that no addition waits. */
MCB__AVX512 MCB__APART void mcb__group_of_rows(const mcb__prepared *p, size_t K, const void *x,
                                               int values, size_t n_rows, size_t stride,
                                               uint64_t from, uint64_t to, double *scores) {
    MCB__ALIGNED float v[MCB__COLUMNS * MCB__GROUP];
    MCB__ALIGNED uint32_t leaf[MCB__GROUP][MCB__GROUP];
    MCB__ALIGNED double sums[(size_t)MCB__GROUP * MCB__G_SUMS];
    uint64_t t, end = from;
    const mcb__block *block = p->block;
    size_t r, k, n, i;
#define MCB__GROUP_SUM(r, k)                                                                       \
    sums[((k) / MCB__R_SUMS * MCB__GROUP + (r)) * MCB__R_SUMS + (k) % MCB__R_SUMS]
    for (r = 0; r < MCB__GROUP; r++) {
        for (k = 0; k < p->step; k++)
            MCB__GROUP_SUM(r, k) = r < n_rows && k < K ? scores[r * K + k] : 0;
    }
    for (t = from; t < to; t += n) {
        if (t == end) { /* the next block */
            for (; block[1].tree <= t; block++) {
            }
            end = to < block[1].tree ? to : block[1].tree;
            mcb__copy_columns(p, block, x, values, n_rows, stride, MCB__GROUP, v);
        }
        n = end - t < MCB__GROUP ? (size_t)(end - t) : (size_t)MCB__GROUP;
        for (i = 0; i < n; i++) mcb__group_leaves(p, t + i, v, leaf[i]);
        for (k = 0; k < p->step; k += MCB__R_SUMS) {
            double *all = sums + k * MCB__GROUP;
            switch ((p->step - k) / 4) {
            case 1:
                mcb__group_sums(p, t, n, p->leaf + k, 1, leaf, all);
                break;
            case 2:
                mcb__group_sums(p, t, n, p->leaf + k, 2, leaf, all);
                break;
            case 3:
                mcb__group_sums(p, t, n, p->leaf + k, 3, leaf, all);
                break;
            default:
                mcb__group_sums(p, t, n, p->leaf + k, 4, leaf, all);
                break;
            }
        }
    }
    for (r = 0; r < n_rows; r++) {
        for (k = 0; k < K; k++) scores[r * K + k] = MCB__GROUP_SUM(r, k);
    }
#undef MCB__GROUP_SUM
}
#endif

#define MCB__DEFINE_TREES(W, ATTRIBUTE)                                                            \
    MCB__INLINE void mcb__row_of_trees_##W(const mcb__prepared *p, size_t K, int vector,           \
                                           const void *x, int values, uint64_t from, uint64_t to,  \
                                           double *scores) {                                       \
        float v[MCB__COLUMNS];                                                                     \
        double all = 0;                                                                            \
        uint64_t b;                                                                                \
        size_t i, n;                                                                               \
        if (MCB__RANKED_##W && mcb__all_ranked(p, from, to)) {                                     \
            mcb__row_of_ranks(p, K, vector, x, values, scores);                                    \
            return;                                                                                \
        }                                                                                          \
        for (b = 0; b < p->n_blocks; b++) {                                                        \
            const mcb__block *block = p->block + b;                                                \
            uint64_t t = from > block->tree ? from : block->tree,                                  \
                     end = to < block[1].tree ? to : block[1].tree;                                \
            if (t >= end) continue;                                                                \
            mcb__copy_columns(p, block, x, values, 1, 0, 1, v);                                    \
            for (; t < end; t += n) {                                                              \
                float found[MCB__SORTED];                                                          \
                size_t row[MCB__SORTED];                                                           \
                n = mcb__find_leaves(p, block, t, end, v, found);                                  \
                for (i = 0; i < n && p->first; i++) {                                              \
                    mcb__fetch_entries(p, t + i, found + i, n - i);                                \
                    mcb__add_entries(p, mcb__leaf_of(p, t + i, found[i]), scores);                 \
                    if (p->all) all += (double)p->all[mcb__leaf_of(p, t + i, found[i])];           \
                }                                                                                  \
                if (p->first) continue;                                                            \
                for (i = 0; i < n && vector; i++) row[i] = mcb__leaf_of(p, t + i, found[i]);       \
                if (vector)                                                                        \
                    mcb__add_rows_##W(p, row, n, K, scores);                                       \
                else                                                                               \
                    mcb__add_values(p, t, found, n, K, scores);                                    \
            }                                                                                      \
        }                                                                                          \
        mcb__add_to_all(all, K, scores);                                                           \
    }                                                                                              \
    ATTRIBUTE MCB__APART void mcb__rows_of_trees_##W(                                              \
        const mcb__prepared *p, size_t K, int vector, const void *x, int values, size_t n_rows,    \
        size_t stride, uint64_t from, uint64_t to, double *scores) {                               \
        MCB__ALIGNED float v[MCB__COLUMNS * MCB__GROUP];                                           \
        MCB__ALIGNED uint32_t leaf[MCB__GROUP];                                                    \
        float own[MCB__GROUP];                                                                     \
        double all[MCB__GROUP] = {0};                                                              \
        uint64_t b;                                                                                \
        size_t r, step = p->step;                                                                  \
        for (b = 0; b < p->n_blocks; b++) {                                                        \
            const mcb__block *block = p->block + b;                                                \
            uint64_t t = from > block->tree ? from : block->tree,                                  \
                     end = to < block[1].tree ? to : block[1].tree;                                \
            if (t >= end) continue;                                                                \
            mcb__copy_columns(p, block, x, values, n_rows, stride, MCB__GROUP, v);                 \
            for (; t < end; t++) {                                                                 \
                const mcb__tree *tree = p->tree + t;                                               \
                const float *value = p->leaf;                                                      \
                size_t cls = tree->cls, base = tree->base;                                         \
                if (!p->first) value += (tree->split + (size_t)t) * step;                          \
                if (!MCB__ASK_ALL(W, p, t, v, leaf)) {                                             \
                    const mcb__node *node[MCB__GROUP] = {mcb__root(p, t)};                         \
                    if (p->question)                                                               \
                        mcb__descend_rows(node, tree->depth, v, 1);                                \
                    else                                                                           \
                        mcb__descend_rows(node, tree->depth, v, 0);                                \
                    for (r = 0; r < n_rows; r++) {                                                 \
                        leaf[r] = vector ? mcb__leaf_number(node[r]->threshold) : (uint32_t)r;     \
                        own[r] = node[r]->threshold;                                               \
                    }                                                                              \
                    if (!vector) value = own;                                                      \
                }                                                                                  \
                if (p->first) {                                                                    \
                    for (r = 0; r < n_rows; r++)                                                   \
                        mcb__add_entries(p, tree->split + (size_t)t + leaf[r], scores + r * K);    \
                    for (r = 0; r < n_rows && p->all; r++)                                         \
                        all[r] += (double)p->all[tree->split + (size_t)t + leaf[r]];               \
                } else if (vector) {                                                               \
                    for (r = 0; r < n_rows; r++)                                                   \
                        mcb__add_vector_##W(value + leaf[r] * step, K, scores + r * K);            \
                } else if (p->code) {                                                              \
                    for (r = 0; r < n_rows; r++)                                                   \
                        mcb__add_code(p->code + cls * K, (double)value[leaf[r]], K,                \
                                      scores + r * K);                                             \
                } else {                                                                           \
                    for (r = 0; r < n_rows; r++) scores[r * K + cls] += (double)value[leaf[r]];    \
                    if (base < K) {                                                                \
                        for (r = 0; r < n_rows; r++)                                               \
                            scores[r * K + base] -= (double)value[leaf[r]];                        \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (r = 0; r < n_rows; r++) mcb__add_to_all(all[r], K, scores + r * K);                   \
    }                                                                                              \
    ATTRIBUTE MCB__APART void mcb__add_prepared_##W(const mcb_model *m, const void *x, int values, \
                                                    size_t n_rows, size_t stride, uint64_t from,   \
                                                    uint64_t to, double *scores) {                 \
        const mcb__prepared *p = (const mcb__prepared *)m->prepared;                               \
        size_t K = mcb_score_width(m), n;                                                          \
        int vector = !m->section[MCB_S_TCLS].data;                                                 \
        int ranked = MCB__RANKED_##W && mcb__all_ranked(p, from, to);                              \
        for (; n_rows; n_rows -= n, x = mcb__later(x, values, n * stride), scores += n * K) {      \
            n = ranked ? mcb__side_by_side(p, vector, n_rows) : 1;                                 \
            if (n > 1) {                                                                           \
                mcb__rows_of_ranks(p, K, x, values, n, stride, scores);                            \
                continue;                                                                          \
            }                                                                                      \
            n = mcb__at_a_time(p, ranked, n_rows);                                                 \
            if (n == 1) mcb__row_of_trees_##W(p, K, vector, x, values, from, to, scores);          \
            MCB__GROUP_##W else mcb__rows_of_trees_##W(p, K, vector, x, values, n, stride, from,   \
                                                       to, scores);                                \
        }                                                                                          \
    }

MCB__DEFINE_TREES(2, )
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
MCB__DEFINE_TREES(4, MCB__AVX2)
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
MCB__DEFINE_TREES(8, MCB__AVX512)
#endif

static inline void mcb__add_trees(const mcb_model *m, const void *x, int values, size_t n_rows,
                                  size_t stride, uint64_t from, uint64_t to, double *scores) {
    uint64_t begin;
    size_t r;
    if (m->prepared && values != MCB__VALUES_LAZY) {
#if MCB__VECTOR
        MCB__DISPATCH(mcb__add_prepared_8(m, x, values, n_rows, stride, from, to, scores),
                      mcb__add_prepared_4(m, x, values, n_rows, stride, from, to, scores),
                      mcb__add_prepared_2(m, x, values, n_rows, stride, from, to, scores));
#else
        mcb__add_prepared_2(m, x, values, n_rows, stride, from, to, scores);
#endif
        return;
    }
    begin = mcb__tree_begin(m, from);
    for (r = 0; r < n_rows; r++)
        mcb__add_trees_row(m, mcb__later(x, values, r * stride), values, from, to, begin,
                           scores + r * (size_t)mcb_score_width(m));
}
