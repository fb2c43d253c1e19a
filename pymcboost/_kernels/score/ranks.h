/* ------------------------------------------------------------------------------------------ prepared trees: ranks */

/* Lays prepared trees out in ranks: each value of a row becomes the number of thresholds of its column below it. */

static inline size_t mcb__room(uint64_t count, size_t size) {
    return ((size_t)count * size + 7) / 8 * 8;
}

/* The next part of the memory from `at` on. */
#define MCB__TAKE(pointer, type, count)                                                            \
    pointer = (type *)(void *)at;                                                                  \
    at += mcb__room(count, sizeof(type))

static inline int mcb__can_rank(const mcb_model *m, uint64_t n_blocks, uint64_t n_columns) {
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
    const mcb_section *size = &m->section[MCB_S_TSIZ];
    uint64_t t, S = m->section[MCB_S_FEAT].count;
    if (m->section[MCB_S_LOFF].data) return 0;
    if (mcb__width() < 8 || n_blocks != 1 || n_columns > MCB__R_COLUMNS || S < MCB__R_LEAST ||
        S >= 1u << 29)
        return 0;
    for (t = 0; t < size->count; t++) {
        if (mcb__uint(size, t) > MCB__R_SPLITS) return 0;
    }
    return 1;
#else
    return (void)m, (void)n_blocks, (void)n_columns, 0;
#endif
}

static inline size_t mcb__order_size(uint64_t T) {
    return (2 + MCB__R_TOP) * mcb__room(T + MCB__R_LANES, sizeof(uint32_t)) +
           2 * mcb__room(T, sizeof(uint16_t));
}

/* Trees to descend together from number t on where a row may exit soon: 32, then those up to 128, then 128 each. */
MCB__INLINE uint64_t mcb__ahead(uint64_t t) {
    return t == 0 ? 32 : t == 32 ? 96 : 128;
}

static inline size_t mcb__ranks_size(const mcb_model *m) {
    uint64_t S = m->section[MCB_S_FEAT].count, T = m->section[MCB_S_TSIZ].count;
    return mcb__room(1, sizeof(mcb__ranks)) + mcb__room(S, sizeof(float)) +
           mcb__room(2 * S + T, sizeof(uint32_t)) +
           ((size_t)1 + (m->section[MCB_S_EXIT].data ? 1 : 0) +
            (m->section[MCB_S_PAIR].data ? 1 : 0)) *
               mcb__order_size(T);
}

/* Heap sort. */
static inline void mcb__sort_floats(float *v, size_t n) {
    size_t start = n / 2, end = n, i, child;
    while (end > 1) {
        float moved;
        if (start) {
            moved = v[--start];
        } else {
            moved = v[--end];
            v[end] = v[0];
        }
        for (i = start; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && v[child + 1] > v[child]) child++;
            if (!(v[child] > moved)) break;
            v[i] = v[child];
        }
        v[i] = moved;
    }
}

/* Thresholds of each column, sorted, each once. False if a column has too many. */
static inline int mcb__collect_cuts(const mcb_model *m, const mcb__prepared *p, mcb__ranks *ranks,
                                    float *cut) {
    uint32_t at = 0, c, i, most = 0;
    uint64_t j, S = m->section[MCB_S_FEAT].count;
    for (j = 0; j < S; j++) ranks->end[p->split[j].column / MCB__GROUP]++;
    for (c = 0; c < MCB__R_COLUMNS; c++) {
        ranks->begin[c] = at;
        at += ranks->end[c];
        ranks->end[c] = ranks->begin[c];
    }
    for (j = 0; j < S; j++)
        cut[ranks->end[p->split[j].column / MCB__GROUP]++] = p->split[j].threshold;
    for (c = 0; c < ranks->n_columns; c++) {
        float *mine = cut + ranks->begin[c];
        uint32_t n = ranks->end[c] - ranks->begin[c], distinct = 0;
        mcb__sort_floats(mine, n);
        for (i = 0; i < n; i++) {
            if (!distinct || mine[distinct - 1] < mine[i]) mine[distinct++] = mine[i];
        }
        ranks->end[c] = ranks->begin[c] + distinct;
        if (distinct > most) most = distinct;
    }
    for (ranks->most = 1; ranks->most <= most / 2;) ranks->most *= 2;
    return most <= MCB__R_CUTS;
}

/* Nodes of a tree of n splits in ranks. The other layout's nodes lend 16 bits for their places here. */
static inline void mcb__rank_tree(const mcb__ranks *ranks, mcb__node *from, uint32_t n,
                                  uint32_t *node) {
    uint32_t o, leaf = 0, next = 1;
    from[0].shift = 0;
    for (o = 0; o <= 2 * n; o++) {
        mcb__node *here = from + o, *right = here + here->jump[0] / (sizeof *here / 4);
        uint32_t at = here->shift, low, high;
        if (!here->jump[0]) {
            node[at] = ((MCB__R_CUTS + 1) | leaf++) << 6;
            continue;
        }
        low = ranks->begin[here->column];
        high = ranks->end[here->column] - 1;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (ranks->cut[middle] < here->threshold)
                low = middle + 1;
            else
                high = middle;
        }
        node[at] = here->column | (low - ranks->begin[here->column]) << 6 | (next - at) << 20;
        here[1].shift = (uint16_t)next;
        right->shift = (uint16_t)(next + 1);
        next += 2;
    }
}

/* Sort trees t to t + n from shallow to deep. */
static inline void mcb__order_trees(const mcb__tree *tree, const uint32_t *node, uint64_t t,
                                    uint64_t n, const mcb__sorted *out) {
    uint64_t i, j;
    uint32_t at[MCB__R_TOP];
    for (i = 0; i < n; i++) { /* root holds the trees' numbers for now */
        uint32_t *number = out->root + t;
        for (j = i; j && tree[number[j - 1]].depth > tree[t + i].depth; j--)
            number[j] = number[j - 1];
        number[j] = (uint32_t)(t + i);
    }
    for (i = t; i < t + n; i++) {
        uint32_t number = out->root[i];
        out->place[number] = (uint16_t)(i - t);
        out->depth[i] = (uint16_t)tree[number].depth;
        out->first[i] = tree[number].split + number;
        out->root[i] = at[0] = 2 * tree[number].split + number;
        for (j = 0; j < MCB__R_TOP; j++) {
            out->top[j][i] = node[at[j]];
            if (2 * j + 1 >= MCB__R_TOP) continue;
            at[2 * j + 1] = at[j] + (node[at[j]] >> 20);
            at[2 * j + 2] = at[2 * j + 1] + (node[at[j]] >> 20 ? 1 : 0);
        }
    }
}

static inline unsigned char *mcb__place_order(unsigned char *at, uint64_t T, mcb__sorted *out) {
    size_t i;
    MCB__TAKE(out->root, uint32_t, T + MCB__R_LANES);
    MCB__TAKE(out->first, uint32_t, T + MCB__R_LANES);
    for (i = 0; i < MCB__R_TOP; i++) {
        MCB__TAKE(out->top[i], uint32_t, T + MCB__R_LANES);
        memset(out->top[i] + T, 0, MCB__R_LANES * sizeof *out->root);
    }
    MCB__TAKE(out->depth, uint16_t, T);
    MCB__TAKE(out->place, uint16_t, T);
    memset(out->root + T, 0, MCB__R_LANES * sizeof *out->root);
    memset(out->first + T, 0, MCB__R_LANES * sizeof *out->first);
    return at;
}

/* Lay trees out in ranks, behind `ranks`. */
static inline int mcb__fill_ranks(const mcb_model *m, const mcb__prepared *p, mcb__node *from,
                                  mcb__ranks *ranks) {
    uint64_t S = m->section[MCB_S_FEAT].count, T = m->section[MCB_S_TSIZ].count, t, n, exit;
    unsigned char *at = (unsigned char *)ranks + mcb__room(1, sizeof *ranks);
    float *cut;
    uint32_t *node, c;
    MCB__TAKE(cut, float, S);
    MCB__TAKE(node, uint32_t, 2 * S + T);
    memset(ranks, 0, sizeof *ranks);
    at = mcb__place_order(at, T, &ranks->all);
    if (m->section[MCB_S_EXIT].data) at = mcb__place_order(at, T, &ranks->early[0]);
    if (m->section[MCB_S_PAIR].data) mcb__place_order(at, T, &ranks->early[1]);
    ranks->n_columns = (uint32_t)p->block[1].column;
    ranks->cut = cut;
    ranks->node = node;
    for (c = 0; c < MCB__R_COLUMNS; c++) {
        ranks->feature[c] = p->column[c < ranks->n_columns ? c : 0].feature;
        ranks->missing[c] = p->column[c < ranks->n_columns ? c : 0].missing;
    }
    if (!mcb__collect_cuts(m, p, ranks, cut)) return 0;
    for (t = 0; t < T; t++) {
        size_t begin = 2 * (size_t)p->tree[t].split + t;
        mcb__rank_tree(ranks, from + begin, p->tree[t + 1].split - p->tree[t].split, node + begin);
    }
    for (t = 0; t < T; t += n) {
        n = T - t < MCB__SORTED ? T - t : (uint64_t)MCB__SORTED;
        mcb__order_trees(p->tree, node, t, n, &ranks->all);
    }
    for (t = 0; t < T && m->section[MCB_S_EXIT].data; t += n) {
        n = T - t < mcb__ahead(t) ? T - t : mcb__ahead(t);
        mcb__order_trees(p->tree, node, t, n, &ranks->early[0]);
    }
    exit = mcb__first_exit(m, 1);
    for (t = 0; t < T && m->section[MCB_S_PAIR].data; t += n) {
        n = mcb__part_end(m, 1, t, &exit) - t;
        if (n > MCB__SORTED) n = MCB__SORTED;
        mcb__order_trees(p->tree, node, t, n, &ranks->early[1]);
    }
    return 1;
}
