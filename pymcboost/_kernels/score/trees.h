/* ------------------------------------------------------------------------------------ trees as they are in the file */

/* Scores of trees as they lie in the file, without preparation. */

/* First split of a tree. */
static inline uint64_t mcb__tree_begin(const mcb_model *m, uint64_t tree) {
    uint64_t t, begin = 0;
    for (t = 0; t < tree; t++) begin += mcb__uint(&m->section[MCB_S_TSIZ], t);
    return begin;
}

/* Add the trees from <= t < to, the first of which begins at split `begin`, to the scores of a row. values and sets,
 * whether splits may ask for sets, are constants where rows are floats. */
MCB__INLINE void mcb__add_trees_inner(const mcb_model *m, const void *x, int values, uint64_t from,
                                      uint64_t to, uint64_t begin, int sets, double *scores) {
    const mcb_section *feat = &m->section[MCB_S_FEAT], *right = &m->section[MCB_S_RGHT],
                      *cls = &m->section[MCB_S_TCLS];
    const mcb_section *base = &m->section[MCB_S_TBAS], *leaf = &m->section[MCB_S_LEAF];
    const mcb_section *first = &m->section[MCB_S_LOFF], *shared = &m->section[MCB_S_LALL];
    const mcb_section *code =
        m->decoder ? base : &m->section[MCB_S_CODE]; /* there is no base beside a code */
    const unsigned char *thrs = m->section[MCB_S_THRS].data;
    uint32_t top = feat->dtype == MCB_U8    ? 7
                   : feat->dtype == MCB_U16 ? 15
                                            : 31,
             k, K = m->n_classes;
    double all =
        0; /* for all classes; with it sums are exact, so that their order does not matter */
    uint64_t t;
    for (t = from; t < to; t++) {
        uint64_t i = begin, end = begin + mcb__uint(&m->section[MCB_S_TSIZ], t), at = begin + t;
        begin = end;
        while (i < end) {
            uint32_t f = mcb__uint(feat, i), r = mcb__uint(right, i);
            uint32_t q = sets ? mcb__uint(&m->section[MCB_S_CSET], i) : 0;
            float v = mcb__value(x, values, f & ((1u << top) - 1));
            if (q ? mcb__in_set(&m->section[MCB_S_COFF], m->section[MCB_S_CBIT].data, q, v,
                                (int)(f >> top))
                  : v <= mcb__f32(thrs + 4 * i) || (v != v && f >> top)) {
                end = i + r;
                i++;
            } else {
                at += r;
                i += r;
            }
        }
        if (first->data) {
            uint32_t e, stop = mcb__uint(first, at + 1);
            for (e = mcb__uint(first, at); e < stop; e++)
                scores[mcb__uint(&m->section[MCB_S_LCLS], e)] += mcb__real(leaf, e);
            if (shared->data) all += mcb__real(shared, at);
        } else if (!cls->data) {
            for (k = 0; k < K; k++) scores[k] += mcb__real(leaf, at * K + k);
        } else if (code->data) {
            uint64_t row = (uint64_t)mcb__uint(cls, t) * K;
            double value = mcb__real(leaf, at); /* the products are exact */
            for (k = 0; k < K; k++)
                scores[k] += value * (double)mcb__f32(code->data + 4 * (row + k));
        } else {
            double value = mcb__real(leaf, at);
            scores[mcb__uint(cls, t)] += value;
            if (base->data && mcb__uint(base, t) < K) scores[mcb__uint(base, t)] -= value;
        }
    }
    for (k = 0; k < K && all != 0; k++) scores[k] += all;
}

MCB__APART void mcb__add_trees_row(const mcb_model *m, const void *x, int values, uint64_t from,
                                   uint64_t to, uint64_t begin, double *scores) {
    int sets = m->section[MCB_S_CSET].data != 0;
    if (values != MCB_VALUES_F32)
        mcb__add_trees_inner(m, x, values, from, to, begin, sets, scores);
    else if (sets)
        mcb__add_trees_inner(m, x, MCB_VALUES_F32, from, to, begin, 1, scores);
    else
        mcb__add_trees_inner(m, x, MCB_VALUES_F32, from, to, begin, 0, scores);
}
