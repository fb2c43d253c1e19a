/* ------------------------------------------------------------------------------------------- prepared trees: scores */

/* Descends prepared trees, and adds the values of their leaves. */

/* Copy the columns of a block of n_rows rows, `step` apart in v. */
MCB__INLINE void mcb__copy_columns(const mcb__prepared *p, const mcb__block *block, const void *x,
                                   int values, size_t n_rows, size_t stride, size_t step,
                                   float *v) {
    size_t n = (size_t)(block[1].column - block->column), c, r;
    const mcb__column *column = p->column + block->column;
    if (p->question) {
        mcb__copy_words(p, block, x, values, n_rows, stride, step, v);
        return;
    }
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
#define MCB__EACH(X)                                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define MCB__STEP(i)                                                                               \
    {                                                                                              \
        uint32_t jump = p##i->jump[mcb__left(v + MCB__PLACE(i, p##i->column), p##i, sets)];        \
        p##i = (const mcb__node *)(const void *)((const char *)p##i + 4 * (size_t)jump);           \
        MCB__HIDE(p##i); /* gcc would gather the pointers in a vector */                           \
    }
#define MCB__KEEP(i) node[i] = p##i;
#define MCB__MORE(i) p##i->jump[0] |
/* How many steps there are does not depend on the rows, so that jumps are foreseen; only deep trees are left early. */
#define MCB__DESCEND(BEGIN)                                                                        \
    MCB__EACH(BEGIN)                                                                               \
    for (;;) {                                                                                     \
        uint32_t n = depth < 12 ? depth : 12;                                                      \
        depth -= n;                                                                                \
        for (; n; n--) {                                                                           \
            MCB__EACH(MCB__STEP)                                                                   \
        }                                                                                          \
        if (!depth || !(MCB__EACH(MCB__MORE) 0)) break;                                            \
    }                                                                                              \
    MCB__EACH(MCB__KEEP)

/* Leaves of 16 trees for one row. node: their roots, then the leaves. */
MCB__INLINE void mcb__descend_trees(const mcb__node **node, uint32_t depth, const float *v,
                                    int sets) {
#define MCB__BEGIN(i) const mcb__node *p##i = node[i];
#define MCB__PLACE(i, column) column
    MCB__DESCEND(MCB__BEGIN)
#undef MCB__BEGIN
#undef MCB__PLACE
}

/* Leaves of one tree for the rows of a group. node[0]: its root. */
MCB__INLINE void mcb__descend_rows(const mcb__node **node, uint32_t depth, const float *v,
                                   int sets) {
#define MCB__BEGIN(i) const mcb__node *p##i = node[0];
#define MCB__PLACE(i, column) MCB__GROUP *(size_t)column + i
    MCB__DESCEND(MCB__BEGIN)
#undef MCB__BEGIN
#undef MCB__PLACE
}

/* What the leaves of one row have for a threshold, for the trees from t on up to `end`, or to the last one that was
 * sorted together with t; returns how many. */
MCB__INLINE size_t mcb__find_leaves(const mcb__prepared *p, const mcb__block *block, uint64_t t,
                                    uint64_t end, const float *v, float *found) {
    size_t before = (size_t)((t - block->tree) % MCB__SORTED), n = MCB__SORTED - before, i, j,
           all = n + before;
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
        if (p->question)
            mcb__descend_trees(node, walk[i + most - 1].depth, v, 1);
        else
            mcb__descend_trees(node, walk[i + most - 1].depth, v, 0);
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

/* Add the vectors of n leaves one after the other to the scores of a row. */
MCB__INLINE void mcb__add_rows_plain(const mcb__prepared *p, const size_t *row, size_t n, size_t K,
                                     double *scores) {
    size_t i, k;
    for (i = 0; i < n; i++) {
        const float *value = p->leaf + row[i] * p->step;
        for (k = 0; k < K; k++) scores[k] += (double)value[k];
    }
}

#if MCB__VECTOR
/* gcc would widen halves and put them together; clang takes wide operands only in functions that are for AVX themselves. */
#if defined(__x86_64__) && !defined(__clang__)
#define MCB__WIDEN_4(wide, p) __asm__("vcvtps2pd %1, %0" : "=v"(wide) : "m"(*(const mcb__fm4 *)(p)))
#define MCB__WIDEN_8(wide, p) __asm__("vcvtps2pd %1, %0" : "=v"(wide) : "m"(*(const mcb__fm8 *)(p)))
#else
#define MCB__WIDEN_8(wide, p) wide = __builtin_convertvector(*(const mcb__fm8 *)(p), mcb__d8)
#define MCB__WIDEN_4(wide, p) wide = __builtin_convertvector(*(const mcb__fm4 *)(p), mcb__d4)
#endif
#if defined(__x86_64__) && !defined(__AVX__) && !defined(__clang__)
#define MCB__WIDEN_2(wide, p) __asm__("cvtps2pd %1, %0" : "=x"(wide) : "m"(*(const mcb__fm2 *)(p)))
#else
#define MCB__WIDEN_2(wide, p) wide = __builtin_convertvector(*(const mcb__fm2 *)(p), mcb__d2)
#endif

/* The same with sums in registers, of up to 12 W classes at a time. */
#define MCB__SUM_BEGIN(v, W)                                                                       \
    if (v < nv) sum[v] = *(const mcb__dm##W *)(all + W * v);
#define MCB__SUM_ADD(v, W)                                                                         \
    if (v < nv) {                                                                                  \
        mcb__d##W wide;                                                                            \
        MCB__WIDEN_##W(wide, value + W * v);                                                       \
        sum[v] += wide;                                                                            \
    }
#define MCB__SUM_END(v, W)                                                                         \
    if (v < nv) *(mcb__dm##W *)(all + W * v) = sum[v];
#define MCB__SUM_CASE_2(nv)                                                                        \
    case nv:                                                                                       \
        mcb__sum_rows_2(p, row, n, first, nv, all);                                                \
        break;
#define MCB__SUM_CASE_4(nv)                                                                        \
    case nv:                                                                                       \
        mcb__sum_rows_4(p, row, n, first, nv, all);                                                \
        break;
#define MCB__DEFINE_ADD_ROWS(W)                                                                    \
    MCB__INLINE void mcb__sum_rows_##W(const mcb__prepared *p, const size_t *row, size_t n,        \
                                       size_t first, size_t nv, double *all) {                     \
        mcb__d##W sum[12];                                                                         \
        size_t i;                                                                                  \
        MCB__EACH12(MCB__SUM_BEGIN, W)                                                             \
        for (i = 0; i < n; i++) {                                                                  \
            const float *value = p->leaf + row[i] * p->step + first;                               \
            MCB__EACH12(MCB__SUM_ADD, W)                                                           \
        }                                                                                          \
        MCB__EACH12(MCB__SUM_END, W)                                                               \
    }                                                                                              \
    MCB__INLINE void mcb__add_rows_##W(const mcb__prepared *p, const size_t *row, size_t n,        \
                                       size_t K, double *scores) {                                 \
        double all[12 * W];                                                                        \
        size_t first, k, nv;                                                                       \
        if (p->step % W) {                                                                         \
            mcb__add_rows_plain(p, row, n, K, scores);                                             \
            return;                                                                                \
        }                                                                                          \
        for (first = 0; first < K; first += nv * W) {                                              \
            nv = (p->step - first) / W < 12 ? (p->step - first) / W : 12;                          \
            for (k = 0; k < nv * W; k++) all[k] = first + k < K ? scores[first + k] : 0;           \
            switch (nv) { MCB__CASES12(MCB__SUM_CASE_##W) }                                        \
            for (k = 0; k < nv * W && first + k < K; k++) scores[first + k] = all[k];              \
        }                                                                                          \
    }
MCB__DEFINE_ADD_ROWS(2)
MCB__DEFINE_ADD_ROWS(4)
#define mcb__add_rows_8 mcb__add_rows_4

#define MCB__DEFINE_ADD_VECTOR(W)                                                                  \
    MCB__INLINE void mcb__add_vector_##W(const float *value, size_t K, double *scores) {           \
        size_t k;                                                                                  \
        for (k = 0; k + W <= K; k += W) {                                                          \
            mcb__d##W wide;                                                                        \
            MCB__WIDEN_##W(wide, value + k);                                                       \
            *(mcb__dm##W *)(scores + k) += wide;                                                   \
        }                                                                                          \
        for (; k < K; k++) scores[k] += (double)value[k];                                          \
    }
MCB__DEFINE_ADD_VECTOR(4)
MCB__DEFINE_ADD_VECTOR(8)

/* Leaf numbers of a tree of up to 32 leaves for a group of rows, in vectors of 2 W rows: every split is asked. */
#define MCB__LEAF_TYPES(W)                                                                         \
    typedef uint32_t mcb__ru##W __attribute__((vector_size(8 * W), may_alias));                    \
    typedef int32_t mcb__ri##W __attribute__((vector_size(8 * W), may_alias));                     \
    typedef float mcb__rf##W __attribute__((vector_size(8 * W), may_alias));
MCB__LEAF_TYPES(2)
MCB__LEAF_TYPES(4)
MCB__LEAF_TYPES(8)

#define MCB__SPREAD2(v) {v, v, v, v}
#define MCB__SPREAD4(v) {v, v, v, v, v, v, v, v}
#define MCB__SPREAD8(v) {v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}

#define MCB__ROWS_BEGIN(q, W) mcb__ru##W s##q = ones;
#define MCB__ROWS_SPLIT(q, W)                                                                      \
    if (2 * W * q < MCB__GROUP)                                                                    \
        s##q &= (mcb__ru##W)(*(const mcb__rf##W *)(column + 2 * W * q) <= threshold) | keep;
#define MCB__WORDS_SPLIT(q, W)                                                                     \
    if (2 * W * q < MCB__GROUP)                                                                    \
        s##q &= (mcb__ru##W)((mcb__ri##W)(*(const mcb__ru##W *)(column + 2 * W * q) << shift) <=   \
                             order) |                                                              \
                keep;
/* The place of the lowest 1 is the exponent of the float that it becomes. */
#define MCB__ROWS_END(q, W)                                                                        \
    if (2 * W * q < MCB__GROUP) {                                                                  \
        mcb__rf##W lowest = __builtin_convertvector((mcb__ri##W)(s##q & (0 - s##q)), mcb__rf##W);  \
        *(mcb__ru##W *)(leaf + 2 * W * q) = (((mcb__ru##W)lowest >> 23) & 255) - 127;              \
    }
#define MCB__DEFINE_LEAVES(W)                                                                      \
    MCB__INLINE int mcb__ask_all_##W(const mcb__split *split, const mcb__split *end,               \
                                     const float *v, int sets, uint32_t *leaf) {                   \
        const mcb__ru##W ones = MCB__SPREAD##W(0xffffffffu);                                       \
        MCB__EACH4(MCB__ROWS_BEGIN, W)                                                             \
        for (; sets && split < end; split++) {                                                     \
            const float *column = v + (split->column & 0xfffffu);                                  \
            const uint32_t shift = split->column >> 20;                                            \
            mcb__ri##W order = MCB__SPREAD##W(mcb__order_of(split->threshold));                    \
            mcb__ru##W keep = MCB__SPREAD##W(split->keep);                                         \
            MCB__EACH4(MCB__WORDS_SPLIT, W)                                                        \
        }                                                                                          \
        for (; split < end; split++) {                                                             \
            const float *column = v + split->column;                                               \
            mcb__rf##W threshold = MCB__SPREAD##W(split->threshold);                               \
            mcb__ru##W keep = MCB__SPREAD##W(split->keep);                                         \
            MCB__EACH4(MCB__ROWS_SPLIT, W)                                                         \
        }                                                                                          \
        MCB__EACH4(MCB__ROWS_END, W)                                                               \
        return 1;                                                                                  \
    }
MCB__DEFINE_LEAVES(2)
MCB__DEFINE_LEAVES(4)
MCB__DEFINE_LEAVES(8)
#define MCB__ASK_ALL(W, p, t, v, leaf)                                                             \
    ((p)->tree[t + 1].split - (p)->tree[t].split < MCB__FEW &&                                     \
     mcb__ask_all_##W((p)->split + (p)->tree[t].split, (p)->split + (p)->tree[t + 1].split, v,     \
                      (p)->question != 0, leaf))
#else
#define mcb__add_rows_2 mcb__add_rows_plain
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
MCB__INLINE void mcb__fetch_entries(const mcb__prepared *p, uint64_t t, const float *found,
                                    size_t n) {
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

/* What leaves add to all classes. */
MCB__INLINE void mcb__add_to_all(double all, size_t K, double *scores) {
    size_t k;
    for (k = 0; k < K && all != 0; k++) scores[k] += all;
}

/* Add the values of the leaves of n trees from t on. */
MCB__INLINE void mcb__add_values(const mcb__prepared *p, uint64_t t, const float *value, size_t n,
                                 size_t K, double *scores) {
    const mcb__tree *tree = p->tree + t, *end = tree + n;
    if (p->code) {
        for (; tree < end; tree++)
            mcb__add_code(p->code + tree->cls * K, (double)*value++, K, scores);
        return;
    }
    for (; tree < end; tree++, value++) {
        scores[tree->cls] += (double)*value;
        if (tree->base < K) scores[tree->base] -= (double)*value;
    }
}
