/* ------------------------------------------------------------------------------------- prepared trees: the whole */

/* Prepares a model for fast scoring: plans the blocks of trees, and fills the memory. */

/* Divide the trees into blocks. With split, column and block, write the columns of splits, the columns and the blocks;
 * without, count. False if a tree has too many columns or splits. */
static inline int mcb__plan(const mcb_model *m, uint64_t *n_blocks, uint64_t *n_columns,
                            mcb__split *split, mcb__column *column, mcb__block *block) {
    const mcb_section *feat = &m->section[MCB_S_FEAT], *size = &m->section[MCB_S_TSIZ];
    uint32_t top = feat->dtype == MCB_U8    ? 7
                   : feat->dtype == MCB_U16 ? 15
                                            : 31,
             key[MCB__COLUMNS], used = 0, i;
    uint16_t slot[4 * MCB__COLUMNS]; /* hash table: number of a column plus 1 */
    uint64_t t = 0, begin = 0, first = 0, leaves = feat->count + size->count;
    memset(slot, 0, sizeof slot);
    *n_blocks = *n_columns = 0;
    if (leaves >= UINT64_C(1) << 31 || leaves >= SIZE_MAX / 64 / (m->n_classes + (size_t)1))
        return 0;
    while (t < size->count) {
        uint32_t n = mcb__uint(size, t), before = used;
        if (n > MCB__SPLITS) return 0;
        for (i = 0; i < n; i++) {
            uint32_t f = mcb__uint(feat, begin + i), k = (f & ((1u << top) - 1)) << 1 | f >> top;
            uint32_t at = k * 0x9e3779b1u >> 20;
            while (slot[at] && key[slot[at] - 1] != k) at = (at + 1) & (4 * MCB__COLUMNS - 1);
            if (!slot[at]) {
                if (used == MCB__COLUMNS) break;
                key[used] = k;
                slot[at] = (uint16_t)++used;
            }
            if (split) split[begin + i].column = slot[at] - 1u;
        }
        if (i < n) { /* a new block begins with this tree */
            if (t == first) return 0;
            used = before;
        } else {
            begin += n;
            if (++t < size->count) continue;
        }
        if (block) {
            block[*n_blocks].tree = first;
            block[*n_blocks].column = *n_columns;
            for (i = 0; i < used; i++) {
                column[*n_columns + i].feature = key[i] >> 1;
                column[*n_columns + i].missing = key[i] & 1 ? -FLT_MAX * 2 : FLT_MAX * 2;
            }
        }
        ++*n_blocks;
        *n_columns += used;
        first = t;
        used = 0;
        memset(slot, 0, sizeof slot);
    }
    if (block) {
        block[*n_blocks].tree = t;
        block[*n_blocks].column = *n_columns;
    }
    return 1;
}

/* Nodes of a tree of n splits, of which `column` is known, and their `keep`; returns the depth. */
static inline uint32_t mcb__build_tree(const mcb_model *m, uint64_t begin, uint32_t n,
                                       const float *leaf_value, mcb__split *split,
                                       mcb__node *node) {
    const mcb_section *right = &m->section[MCB_S_RGHT];
    uint32_t i, leaf, unset = 0xffffffffu, depth = 0;
    /* keep and column of a node: for now the number of leaves before the split, and its depth. A split's parent comes
     * before all others that may take it for their child: those for which a leaf lies between. */
    for (i = 0; i < n; i++) split[i].keep = i ? unset : 0;
    node->column = 1;
    for (i = 0; i < n; i++) {
        uint32_t r = mcb__uint(right, begin + i), below = node[i].column + 1u;
        if (below > depth + 1) depth = below - 1;
        if (r > 1) {
            split[i + 1].keep = split[i].keep;
            node[i + 1].column = (uint16_t)below;
        }
        if (i + r < n && split[i + r].keep == unset) {
            split[i + r].keep = split[i].keep + r;
            node[i + r].column = (uint16_t)below;
        }
    }
    for (i = leaf = 0; i + leaf <= 2 * n;) {
        mcb__node *here = node + i + leaf;
        memset(here, 0, sizeof *here);
        if (i < n && split[i].keep == leaf) {
            uint32_t r = mcb__uint(right, begin + i);
            here->threshold = split[i].threshold =
                mcb__f32(m->section[MCB_S_THRS].data + 4 * (begin + i));
            here->column = (uint16_t)split[i].column;
            here->jump[0] = (uint16_t)(2 * r * (sizeof *here / 4));
            here->jump[1] = sizeof *here / 4;
            split[i].column *= MCB__GROUP;
            split[i].keep = n < MCB__FEW ? ~(((1u << r) - 1) << leaf) : 0;
            i++;
        } else {
            uint32_t bits = 0x3f800000u + leaf;
            if (m->section[MCB_S_TCLS].data)
                here->threshold = leaf_value[leaf];
            else
                memcpy(&here->threshold, &bits, sizeof bits);
            leaf++;
        }
    }
    return depth;
}

/* Walks through n trees from number t on. */
static inline void mcb__sort_trees(const mcb__tree *tree, uint64_t t, uint32_t n, mcb__walk *walk) {
    uint32_t i, j;
    for (i = 0; i < n; i++) {
        for (j = i; j && walk[j - 1].depth > tree[i].depth; j--) walk[j] = walk[j - 1];
        walk[j].root = (uint32_t)(2 * (uint64_t)tree[i].split + t + i);
        walk[j].number = (uint16_t)i;
        walk[j].depth = (uint16_t)tree[i].depth;
    }
}

/* Walks through the trees of every part between two checkpoints, and the columns that trees use. */
static inline void mcb__sort_parts(const mcb_model *m, const mcb__prepared *p,
                                   mcb__walk *const walk[2], uint16_t *used) {
    uint64_t T = m->section[MCB_S_TSIZ].count, t, c, b, n, stop;
    int certified;
    for (certified = 0; certified < 2; certified++) {
        c = mcb__first_exit(m, certified);
        for (t = b = 0; t < T; t += n) {
            for (; p->block[b + 1].tree <= t; b++) {
            }
            stop = mcb__part_end(m, certified, t, &c);
            n = (stop < p->block[b + 1].tree ? stop : p->block[b + 1].tree) - t;
            if (n > MCB__SORTED) n = MCB__SORTED;
            mcb__sort_trees(p->tree + t, t, (uint32_t)n, walk[certified] + t);
        }
    }
    for (t = b = 0; t < T; t++) {
        const mcb__split *split = p->split + p->tree[t].split,
                         *end = p->split + p->tree[t + 1].split;
        for (; p->block[b + 1].tree <= t; b++) {
        }
        for (used[t] = t > p->block[b].tree ? used[t - 1] : 0; split < end; split++) {
            if (split->column / MCB__GROUP >= used[t])
                used[t] = (uint16_t)(split->column / MCB__GROUP + 1);
        }
    }
}

/* Room between leaves: enough for whole vectors of up to 4, where there are not many of them. */
static inline size_t mcb__leaf_step(const mcb_model *m) {
    size_t K = m->section[MCB_S_TCLS].data || m->section[MCB_S_LOFF].data ? 1 : m->n_classes, W = 1;
#if MCB__VECTOR
    W = mcb__width() < 4 ? 2 : 4;
#endif
    return K > 2 && K <= 48 ? (K + W - 1) / W * W : K;
}

static inline uint64_t mcb__n_leaf_values(const mcb_model *m) {
    if (m->section[MCB_S_LOFF].data) return m->section[MCB_S_LEAF].count;
    return (m->section[MCB_S_FEAT].count + m->section[MCB_S_TSIZ].count) * mcb__leaf_step(m);
}

/* What leaves add: values, the code, where entries begin and their classes, and numbers for all classes. */
static inline void mcb__copy_leaves(const mcb_model *m, mcb__prepared *p, float *leaf, float *code,
                                    uint32_t *first, uint16_t *entry, float *all) {
    const mcb_section *s = m->section;
    uint64_t i;
    size_t step = mcb__leaf_step(m), K = step > 1 ? m->n_classes : 1, k;
    for (i = 0; i < mcb__n_leaf_values(m) / step; i++) {
        for (k = 0; k < step; k++)
            leaf[i * step + k] = k < K ? (float)mcb__real(&s[MCB_S_LEAF], i * K + k) : 0;
    }
    for (i = 0; i < s[MCB_S_CODE].count; i++) code[i] = mcb__f32(s[MCB_S_CODE].data + 4 * i);
    for (i = 0; i < s[MCB_S_LOFF].count; i++) first[i] = mcb__uint(&s[MCB_S_LOFF], i);
    for (i = 0; i < s[MCB_S_LCLS].count; i++) entry[i] = (uint16_t)mcb__uint(&s[MCB_S_LCLS], i);
    for (i = 0; i < s[MCB_S_LALL].count; i++) all[i] = (float)mcb__real(&s[MCB_S_LALL], i);
    p->first = s[MCB_S_LOFF].data ? first : 0;
    p->entry = entry;
    p->all = s[MCB_S_LALL].data ? all : 0;
}

/* Bytes that mcb_prepare needs; 0 if there is nothing to prepare: the model is neither a linear machine nor made of
 * trees, or has a tree with over 10,000 splits, or one with over 1024 different features. Where splits ask for
 * sets of categories, a tree may have about 500 features and 16,000 sets. A linear machine takes a copy of its
 * coefficients, which only mcb_scores_sparse reads. */
MCB_API size_t mcb_prepared_size(const mcb_model *m) {
    uint64_t n_blocks, n_columns, n_words = 0, S = m->section[MCB_S_FEAT].count,
                                  T = m->section[MCB_S_TSIZ].count;
    int sets = mcb__has_sets(m);
    if (m->kind == MCB_KIND_LINEAR) return mcb__room(m->section[MCB_S_WMAT].count, sizeof(float));
    if (m->kind != MCB_KIND_TREES) return 0;
    if (!(sets ? mcb__plan_sets(m, &n_blocks, &n_columns, &n_words, 0, 0)
               : mcb__plan(m, &n_blocks, &n_columns, 0, 0, 0)))
        return 0;
    return mcb__room(1, sizeof(mcb__prepared)) + mcb__room(n_blocks + 1, sizeof(mcb__block)) +
           mcb__room(n_columns, sets ? sizeof(mcb__question) : sizeof(mcb__column)) +
           mcb__room(n_words, sizeof(uint32_t)) + mcb__room(T + 1, sizeof(mcb__tree)) +
           mcb__room(T, sizeof(mcb__walk)) + mcb__room(S, sizeof(mcb__split)) +
           mcb__room(2 * S + T, sizeof(mcb__node)) +
           mcb__room(mcb__n_leaf_values(m), sizeof(float)) +
           (!sets && mcb__can_rank(m, n_blocks, n_columns) ? mcb__ranks_size(m) : 0) +
           mcb__room(m->section[MCB_S_CODE].count, sizeof(float)) +
           mcb__room(m->section[MCB_S_LOFF].count, sizeof(uint32_t)) +
           mcb__room(m->section[MCB_S_LCLS].count, sizeof(uint16_t)) +
           mcb__room(m->section[MCB_S_LALL].count, sizeof(float)) +
           (m->section[MCB_S_EXIT].data
                ? 2 * mcb__room(T, sizeof(mcb__walk)) + mcb__room(T, sizeof(uint16_t))
                : 0);
}

static inline int mcb__prepare_linear(mcb_model *m, float *out) {
    size_t k, j, K = m->n_classes, d = m->n_features;
    for (j = 0; j < d; j++) {
        for (k = 0; k < K; k++)
            out[j * K + k] = mcb__f32(m->section[MCB_S_WMAT].data + 4 * (k * d + j));
    }
    m->prepared = out;
    return MCB_OK;
}

/* Lay trees out for speed, in the caller's memory; scores keep their bits and come several times as fast. Linear
 * machines are laid out for mcb_scores_sparse; the other functions do not need that.
 *
 * The memory is aligned as malloc does (to 8 bytes) and has mcb_prepared_size(model) bytes or more. It must stay there,
 * unchanged, while the model or a copy of it is used; there is nothing to undo. Without this call, or where there is
 * nothing to prepare, trees are scored from the bytes of the file. MCB_E_ARGUMENT if the memory is too small or misaligned. */
MCB_API int mcb_prepare(mcb_model *m, void *memory, size_t size) {
    uint64_t n_blocks, n_columns, n_words = 0, t, i, begin = 0, large = 0,
                                  S = m->section[MCB_S_FEAT].count;
    uint64_t T = m->section[MCB_S_TSIZ].count;
    unsigned char *at = (unsigned char *)memory;
    const mcb_section *s = m->section;
    mcb__prepared *p;
    mcb__block *block;
    mcb__column *column;
    mcb__question *question;
    mcb__tree *tree;
    mcb__walk *walk;
    mcb__split *split;
    mcb__node *node;
    float *leaf, *code, *all;
    mcb__walk *early[2];
    uint32_t *first, *table;
    uint16_t *used, *entry;
    mcb__ranks *ranks;
    int sets = mcb__has_sets(m);
    size_t needed = mcb_prepared_size(m);
    if (!needed) return MCB_OK;
    if (!memory || size < needed || (uintptr_t)memory % 8) return MCB_E_ARGUMENT;
    if (m->kind == MCB_KIND_LINEAR) return mcb__prepare_linear(m, (float *)memory);
    if (sets)
        mcb__plan_sets(m, &n_blocks, &n_columns, &n_words, 0, 0);
    else
        mcb__plan(m, &n_blocks, &n_columns, 0, 0, 0);
    MCB__TAKE(p, mcb__prepared, 1);
    MCB__TAKE(block, mcb__block, n_blocks + 1);
    MCB__TAKE(column, mcb__column, sets ? 0 : n_columns);
    MCB__TAKE(question, mcb__question, sets ? n_columns : 0);
    MCB__TAKE(table, uint32_t, n_words);
    MCB__TAKE(tree, mcb__tree, T + 1);
    MCB__TAKE(walk, mcb__walk, T);
    MCB__TAKE(split, mcb__split, S);
    MCB__TAKE(node, mcb__node, 2 * S + T);
    MCB__TAKE(leaf, float, mcb__n_leaf_values(m));
    MCB__TAKE(code, float, s[MCB_S_CODE].count);
    MCB__TAKE(first, uint32_t, s[MCB_S_LOFF].count);
    MCB__TAKE(entry, uint16_t, s[MCB_S_LCLS].count);
    MCB__TAKE(all, float, s[MCB_S_LALL].count);
    MCB__TAKE(early[0], mcb__walk, s[MCB_S_EXIT].data ? T : 0);
    MCB__TAKE(early[1], mcb__walk, s[MCB_S_EXIT].data ? T : 0);
    MCB__TAKE(used, uint16_t, s[MCB_S_EXIT].data ? T : 0);
    ranks = !sets && mcb__can_rank(m, n_blocks, n_columns) ? (mcb__ranks *)(void *)at : 0;
    if (sets)
        mcb__prepare_sets(m, split, question, block, table);
    else
        mcb__plan(m, &n_blocks, &n_columns, split, column, block);
    mcb__copy_leaves(m, p, leaf, code, first, entry, all);
    for (t = 0; t < T; t++) {
        uint32_t n = mcb__uint(&s[MCB_S_TSIZ], t);
        tree[t].split = (uint32_t)begin;
        tree[t].cls = (uint16_t)(s[MCB_S_TCLS].data ? mcb__uint(&s[MCB_S_TCLS], t) : 0);
        tree[t].base =
            (uint16_t)(s[MCB_S_TBAS].data ? mcb__uint(&s[MCB_S_TBAS], t) : mcb_score_width(m));
        tree[t].depth = mcb__build_tree(m, begin, n, s[MCB_S_TCLS].data ? leaf + begin + t : leaf,
                                        split + begin, node + 2 * begin + t);
        if (sets) mcb__set_nodes(m, begin, n, split + begin, node + 2 * begin + t);
        begin += n;
        large += n < MCB__FEW ? 0 : n;
    }
    tree[T].split = (uint32_t)begin;
    tree[T].depth = tree[T].cls = tree[T].base = 0;
    for (i = 0; i < n_blocks; i++) {
        for (t = block[i].tree; t < block[i + 1].tree; t += MCB__SORTED) {
            uint64_t n = block[i + 1].tree - t;
            mcb__sort_trees(tree + t, t, n < MCB__SORTED ? (uint32_t)n : (uint32_t)MCB__SORTED,
                            walk + t);
        }
    }
    p->n_blocks = n_blocks;
    p->large = large > S / 2;
    p->block = block;
    p->column = column;
    p->question = sets ? question : 0;
    p->table = table;
    p->tree = tree;
    p->walk = walk;
    p->split = split;
    p->node = node;
    p->leaf = leaf;
    p->step = mcb__leaf_step(m);
    p->ranks = 0;
    p->code = s[MCB_S_CODE].data && !m->decoder ? code : 0;
    p->early[0] = early[0];
    p->early[1] = early[1];
    p->used = used;
    if (s[MCB_S_EXIT].data && !sets) mcb__sort_parts(m, p, early, used);
    if (ranks && mcb__fill_ranks(m, p, node, ranks)) p->ranks = ranks;
    m->prepared = p;
    return MCB_OK;
}
