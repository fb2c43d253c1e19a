/* ------------------------------------------------------------------------------------------- prepared trees: scores */

/* Copy the columns of a block of n_rows rows, `step` apart in v. */
MCB__INLINE void mcb__copy_columns(const mcb__prepared *p, const mcb__block *block, const void *x, int values,
                                   size_t n_rows, size_t stride, size_t step, float *v) {
    size_t n = (size_t)(block[1].column - block->column), c, r;
    const mcb__column *column = p->column + block->column;
    for (r = 0; r < step; r++) {
        const void *from = mcb__later(x, values, (r < n_rows ? r : n_rows - 1) * stride);
        const float *row = (const float *)from;
        if (values != MCB_VALUES_F32) {
            for (c = 0; c < n; c++) v[c * step + r] = mcb__value(from, values, column[c].feature);
            continue;
        }
        for (c = 0; c < n; c++) {
            float value = row[column[c].feature];
            v[c * step + r] = value != value ? column[c].missing : value;
        }
    }
}

/* One step of 16 descents at a time, so that they do not wait for each other's loads; a descent that has come to its
 * leaf stays there. Where to go is looked up, as half of all jumps would be mispredicted. */
#define MCB__EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define MCB__STEP(i)                                                                         \
    {                                                                                        \
        uint32_t jump = p##i->jump[v[MCB__PLACE(i, p##i->column)] <= p##i->threshold];       \
        p##i = (const mcb__node *)(const void *)((const char *)p##i + 4 * (size_t)jump);     \
        MCB__HIDE(p##i); /* gcc would gather the pointers in a vector */                     \
    }
#define MCB__KEEP(i) node[i] = p##i;
#define MCB__MORE(i) p##i->jump[0] |
/* How many steps there are does not depend on the rows, so that jumps are foreseen; only deep trees are left early. */
#define MCB__DESCEND(BEGIN)                \
    MCB__EACH(BEGIN)                       \
    for (;;) {                             \
        uint32_t n = depth < 12 ? depth : 12;  \
        depth -= n;                        \
        for (; n; n--) {                   \
            MCB__EACH(MCB__STEP)           \
        }                                  \
        if (!depth || !(MCB__EACH(MCB__MORE) 0)) break; \
    }                                      \
    MCB__EACH(MCB__KEEP)

/* Leaves of 16 trees for one row. node: their roots, then the leaves. */
MCB__INLINE void mcb__descend_trees(const mcb__node **node, uint32_t depth, const float *v) {
#define MCB__BEGIN(i) const mcb__node *p##i = node[i];
#define MCB__PLACE(i, column) column
    MCB__DESCEND(MCB__BEGIN)
#undef MCB__BEGIN
#undef MCB__PLACE
}

/* Leaves of one tree for the rows of a group. node[0]: its root. */
MCB__INLINE void mcb__descend_rows(const mcb__node **node, uint32_t depth, const float *v) {
#define MCB__BEGIN(i) const mcb__node *p##i = node[0];
#define MCB__PLACE(i, column) MCB__GROUP * (size_t)column + i
    MCB__DESCEND(MCB__BEGIN)
#undef MCB__BEGIN
#undef MCB__PLACE
}

/* What the leaves of one row have for a threshold, for the trees from t on up to `end`, or to the last one that was
 * sorted together with t; returns how many. */
MCB__INLINE size_t mcb__find_leaves(const mcb__prepared *p, const mcb__block *block, uint64_t t, uint64_t end,
                                    const float *v, float *found) {
    size_t before = (size_t)((t - block->tree) % MCB__SORTED), n = MCB__SORTED - before, i, j, all = n + before;
    const mcb__walk *walk = p->walk + t - before;
    mcb__walk some[MCB__SORTED];
    if (n > end - t) n = (size_t)(end - t);
    if (all > block[1].tree - t + before) all = (size_t)(block[1].tree - t) + before;
    if (n < all) { /* only some of those sorted */
        for (i = j = 0; i < all; i++) {
            some[j] = walk[i];
            some[j].number = (uint16_t)(walk[i].number - before);
            j += some[j].number < n;
        }
        walk = some;
    }
    for (i = 0; i < n; i += MCB__GROUP) {
        const mcb__node *node[MCB__GROUP];
        size_t most = n - i < MCB__GROUP ? n - i : (size_t)MCB__GROUP;
        for (j = 0; j < MCB__GROUP; j++) node[j] = p->node + walk[i + (j < most ? j : 0)].root;
        mcb__descend_trees(node, walk[i + most - 1].depth, v);
        for (j = 0; j < most; j++) found[walk[i + j].number] = node[j]->threshold;
    }
    return n;
}

MCB__INLINE uint32_t mcb__leaf_number(float threshold) {
    uint32_t bits;
    memcpy(&bits, &threshold, sizeof bits);
    return bits - 0x3f800000u;
}

MCB__INLINE const mcb__node *mcb__root(const mcb__prepared *p, uint64_t t) {
    return p->node + 2 * (size_t)p->tree[t].split + t;
}

MCB__INLINE void mcb__add_vector_2(const float *value, size_t K, double *scores) {
    size_t k;
    for (k = 0; k < K; k++) scores[k] += (double)value[k];
}

#if MCB__VECTOR
#define MCB__DEFINE_ADD_VECTOR(W)                                                                            \
    MCB__INLINE void mcb__add_vector_##W(const float *value, size_t K, double *scores) {                     \
        size_t k;                                                                                            \
        for (k = 0; k + W <= K; k += W)                                                                      \
            *(mcb__dm##W *)(scores + k) += __builtin_convertvector(*(const mcb__fm##W *)(value + k), mcb__d##W); \
        for (; k < K; k++) scores[k] += (double)value[k];                                                    \
    }
MCB__DEFINE_ADD_VECTOR(4)
MCB__DEFINE_ADD_VECTOR(8)

/* Leaf numbers of a tree of up to 32 leaves for a group of rows, in vectors of 2 W rows: every split is asked. */
#define MCB__LEAF_TYPES(W)                                                               \
    typedef uint32_t mcb__ru##W __attribute__((vector_size(8 * W), may_alias));          \
    typedef int32_t mcb__ri##W __attribute__((vector_size(8 * W), may_alias));           \
    typedef float mcb__rf##W __attribute__((vector_size(8 * W), may_alias));
MCB__LEAF_TYPES(2)
MCB__LEAF_TYPES(4)
MCB__LEAF_TYPES(8)

#define MCB__SPREAD2(v) {v, v, v, v}
#define MCB__SPREAD4(v) {v, v, v, v, v, v, v, v}
#define MCB__SPREAD8(v) {v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}

#define MCB__ROWS_BEGIN(q, W) mcb__ru##W s##q = ones;
#define MCB__ROWS_SPLIT(q, W) \
    if (2 * W * q < MCB__GROUP) s##q &= (mcb__ru##W)(*(const mcb__rf##W *)(column + 2 * W * q) <= threshold) | keep;
/* The place of the lowest 1 is the exponent of the float that it becomes. */
#define MCB__ROWS_END(q, W)                                                                               \
    if (2 * W * q < MCB__GROUP) {                                                                         \
        mcb__rf##W lowest = __builtin_convertvector((mcb__ri##W)(s##q & (0 - s##q)), mcb__rf##W);         \
        *(mcb__ru##W *)(leaf + 2 * W * q) = (((mcb__ru##W)lowest >> 23) & 255) - 127;                     \
    }
#define MCB__DEFINE_LEAVES(W)                                                                             \
    MCB__INLINE int mcb__ask_all_##W(const mcb__split *split, const mcb__split *end, const float *v,      \
                                     uint32_t *leaf) {                                                    \
        const mcb__ru##W ones = MCB__SPREAD##W(0xffffffffu);                                              \
        MCB__EACH4(MCB__ROWS_BEGIN, W)                                                                    \
        for (; split < end; split++) {                                                                    \
            const float *column = v + split->column;                                                      \
            mcb__rf##W threshold = MCB__SPREAD##W(split->threshold);                                      \
            mcb__ru##W keep = MCB__SPREAD##W(split->keep);                                                \
            MCB__EACH4(MCB__ROWS_SPLIT, W)                                                                \
        }                                                                                                 \
        MCB__EACH4(MCB__ROWS_END, W)                                                                      \
        return 1;                                                                                         \
    }
MCB__DEFINE_LEAVES(2)
MCB__DEFINE_LEAVES(4)
MCB__DEFINE_LEAVES(8)
#define MCB__ASK_ALL(W, p, t, v, leaf)                                                                       \
    ((p)->tree[t + 1].split - (p)->tree[t].split < MCB__FEW &&                                               \
     mcb__ask_all_##W((p)->split + (p)->tree[t].split, (p)->split + (p)->tree[t + 1].split, v, leaf))
#else
#define MCB__ASK_ALL(W, p, t, v, leaf) 0
#endif

/* A leaf's value times the code of its column; the products of two float32 numbers are exact. */
MCB__INLINE void mcb__add_code(const float *code, double value, size_t K, double *scores) {
    size_t k;
    for (k = 0; k < K; k++) scores[k] += value * (double)code[k];
}

MCB__INLINE size_t mcb__leaf_of(const mcb__prepared *p, uint64_t t, float found) {
    return p->tree[t].split + (size_t)t + mcb__leaf_number(found);
}

/* Bring the entries of a leaf nearer, some of the n trees before they are added, and before that where they begin. */
enum { MCB__AHEAD = 8 };
MCB__INLINE void mcb__fetch_entries(const mcb__prepared *p, uint64_t t, const float *found, size_t n) {
#if MCB__VECTOR
    if (n > 2 * MCB__AHEAD)
        __builtin_prefetch(p->first + mcb__leaf_of(p, t + 2 * MCB__AHEAD, found[2 * MCB__AHEAD]));
    if (n > MCB__AHEAD) {
        size_t leaf = mcb__leaf_of(p, t + MCB__AHEAD, found[MCB__AHEAD]);
        uint32_t e, end = p->first[leaf + 1];
        for (e = p->first[leaf]; e < end; e += 16) __builtin_prefetch(p->leaf + e);
        for (e = p->first[leaf]; e < end; e += 32) __builtin_prefetch(p->entry + e);
    }
#else
    (void)p;
    (void)t;
    (void)found;
    (void)n;
#endif
}

/* The entries of a leaf. */
MCB__INLINE void mcb__add_entries(const mcb__prepared *p, size_t leaf, double *scores) {
    uint32_t e, end = p->first[leaf + 1];
    for (e = p->first[leaf]; e < end; e++) scores[p->entry[e]] += (double)p->leaf[e];
}

#define MCB__DEFINE_TREES(W, ATTRIBUTE)                                                                   \
    MCB__INLINE void mcb__row_of_trees_##W(const mcb__prepared *p, size_t K, int vector, const void *x,   \
                                           int values, uint64_t from, uint64_t to, double *scores) {                  \
        float v[MCB__COLUMNS];                                                                            \
        uint64_t b;                                                                                       \
        size_t i, n;                                                                                      \
        for (b = 0; b < p->n_blocks; b++) {                                                               \
            const mcb__block *block = p->block + b;                                                       \
            uint64_t t = from > block->tree ? from : block->tree, end = to < block[1].tree ? to : block[1].tree; \
            if (t >= end) continue;                                                                       \
            mcb__copy_columns(p, block, x, values, 1, 0, 1, v);                                           \
            for (; t < end; t += n) {                                                                     \
                float found[MCB__SORTED];                                                                 \
                n = mcb__find_leaves(p, block, t, end, v, found);                                         \
                for (i = 0; i < n; i++) {                                                                 \
                    const mcb__tree *tree = p->tree + t + i;                                              \
                    if (p->first) mcb__fetch_entries(p, t + i, found + i, n - i);                         \
                    if (vector) {                                                                         \
                        size_t leaf = tree->split + (size_t)t + i + mcb__leaf_number(found[i]);           \
                        if (p->first)                                                                     \
                            mcb__add_entries(p, leaf, scores);                                            \
                        else                                                                              \
                            mcb__add_vector_##W(p->leaf + leaf * K, K, scores);                           \
                    } else if (p->code) {                                                                 \
                        mcb__add_code(p->code + tree->cls * K, (double)found[i], K, scores);              \
                    } else {                                                                              \
                        scores[tree->cls] += (double)found[i];                                            \
                        if (tree->base < K) scores[tree->base] -= (double)found[i];                       \
                    }                                                                                     \
                }                                                                                         \
            }                                                                                             \
        }                                                                                                 \
    }                                                                                                     \
    ATTRIBUTE MCB__APART void mcb__rows_of_trees_##W(const mcb__prepared *p, size_t K, int vector,        \
                                                     const void *x, int values, size_t n_rows, size_t stride, \
                                                     uint64_t from, uint64_t to, double *scores) {        \
        MCB__ALIGNED float v[MCB__COLUMNS * MCB__GROUP];                                                  \
        MCB__ALIGNED uint32_t leaf[MCB__GROUP];                                                           \
        float own[MCB__GROUP];                                                                            \
        uint64_t b;                                                                                       \
        size_t r;                                                                                         \
        for (b = 0; b < p->n_blocks; b++) {                                                               \
            const mcb__block *block = p->block + b;                                                       \
            uint64_t t = from > block->tree ? from : block->tree, end = to < block[1].tree ? to : block[1].tree; \
            if (t >= end) continue;                                                                       \
            mcb__copy_columns(p, block, x, values, n_rows, stride, MCB__GROUP, v);                        \
            for (; t < end; t++) {                                                                        \
                const mcb__tree *tree = p->tree + t;                                                      \
                const float *value = p->leaf;                                                             \
                size_t cls = tree->cls, base = tree->base;                                                \
                if (!p->first) value += (tree->split + (size_t)t) * (vector ? K : 1);                     \
                if (!MCB__ASK_ALL(W, p, t, v, leaf)) {                                                    \
                    const mcb__node *node[MCB__GROUP] = {mcb__root(p, t)};                                \
                    mcb__descend_rows(node, tree->depth, v);                                              \
                    for (r = 0; r < n_rows; r++) {                                                        \
                        leaf[r] = vector ? mcb__leaf_number(node[r]->threshold) : (uint32_t)r;                       \
                        own[r] = node[r]->threshold;                                                      \
                    }                                                                                     \
                    if (!vector) value = own;                                                             \
                }                                                                                         \
                if (p->first) {                                                                           \
                    for (r = 0; r < n_rows; r++)                                                          \
                        mcb__add_entries(p, tree->split + (size_t)t + leaf[r], scores + r * K);           \
                } else if (vector) {                                                                      \
                    for (r = 0; r < n_rows; r++)                                                          \
                        mcb__add_vector_##W(value + leaf[r] * K, K, scores + r * K);                      \
                } else if (p->code) {                                                                     \
                    for (r = 0; r < n_rows; r++)                                                          \
                        mcb__add_code(p->code + cls * K, (double)value[leaf[r]], K, scores + r * K);      \
                } else {                                                                                  \
                    for (r = 0; r < n_rows; r++) scores[r * K + cls] += (double)value[leaf[r]];           \
                    if (base < K) {                                                                       \
                        for (r = 0; r < n_rows; r++) scores[r * K + base] -= (double)value[leaf[r]];      \
                    }                                                                                     \
                }                                                                                         \
            }                                                                                             \
        }                                                                                                 \
    }                                                                                                     \
    ATTRIBUTE static inline MCB__UNUSED void mcb__add_prepared_##W(const mcb_model *m, const void *x, int values,     \
                                                                   size_t n_rows, size_t stride, uint64_t from, uint64_t to, \
                                                                   double *scores) {                      \
        const mcb__prepared *p = (const mcb__prepared *)m->prepared;                                      \
        size_t K = mcb_score_width(m), n;                                                                 \
        int vector = !m->section[MCB_S_TCLS].data;                                                        \
        for (; n_rows; n_rows -= n, x = mcb__later(x, values, n * stride), scores += n * K) {             \
            n = n_rows < 4 ? 1 : n_rows < MCB__GROUP ? n_rows : (size_t)MCB__GROUP;                       \
            if (n == 1)                                                                                   \
                mcb__row_of_trees_##W(p, K, vector, x, values, from, to, scores);                         \
            else                                                                                          \
                mcb__rows_of_trees_##W(p, K, vector, x, values, n, stride, from, to, scores);             \
        }                                                                                                 \
    }

MCB__DEFINE_TREES(2, )
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
MCB__DEFINE_TREES(4, MCB__AVX2)
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
MCB__DEFINE_TREES(8, MCB__AVX512)
#endif

static inline void mcb__add_trees(const mcb_model *m, const void *x, int values, size_t n_rows, size_t stride,
                                  uint64_t from, uint64_t to, double *scores) {
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
