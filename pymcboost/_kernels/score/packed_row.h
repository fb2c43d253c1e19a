/* ------------------------------------------------------------------------------------------- scores of packed trees */

/* Scores of packed trees. */

/* Leaf of a tree whose splits are those from i to end. values is a constant where rows are floats. */
MCB__INLINE uint64_t mcb__pack_leaf(const mcb__pack *p, const void *x, int values, uint64_t i,
                                    uint64_t end, uint64_t leaf) {
    while (i < end) {
        uint64_t bit = i * p->split_bits, right = mcb__pack_right(p, i);
        uint32_t f = mcb__bits(p->split, bit, p->feature_bits);
        uint64_t c = mcb__bits(p->split, bit + p->feature_bits, p->threshold_bits) +
                     (uint64_t)mcb__uint(&p->first, f);
        float v = mcb__value(x, values, mcb__uint(&p->feature, f));
        if (v <= (float)mcb__real(&p->threshold, c) ||
            (v != v && p->flags & MCB__PACK_MISSING &&
             mcb__bits(p->split, bit + p->split_bits - 1, 1))) {
            end = i + right;
            i++;
        } else {
            leaf += right;
            i += right;
        }
    }
    return leaf;
}

/* Add the trees from <= t < to to the scores of a row. */
MCB__INLINE void mcb__add_packed_inner(const mcb_model *m, const mcb__pack *p, const void *x,
                                       int values, uint64_t from, uint64_t to, double *scores) {
    uint64_t t, begin = 0;
    for (t = 0; t < to; t++) {
        uint64_t end = begin + mcb__pack_size(p, t);
        if (t >= from) {
            uint64_t leaf = mcb__pack_leaf(p, x, values, begin, end, begin + t);
            if (p->flags & MCB__PACK_CLASSES) {
                uint32_t k = mcb__bits(p->cls, t * p->class_bits, p->class_bits);
                scores[k] +=
                    mcb__real(&p->value, mcb__bits(p->leaf, leaf * p->leaf_bits, p->leaf_bits));
            } else {
                uint64_t bit = leaf * m->n_classes * p->leaf_bits;
                uint32_t k;
                for (k = 0; k < m->n_classes; k++, bit += p->leaf_bits)
                    scores[k] += mcb__real(&p->value, mcb__bits(p->leaf, bit, p->leaf_bits));
            }
        }
        begin = end;
    }
}

static inline void mcb__add_packed(const mcb_model *m, const void *x, int values, size_t n_rows,
                                   size_t stride, uint64_t from, uint64_t to, double *scores) {
    mcb__pack p;
    size_t r;
    mcb__pack_of(m, &p);
    for (r = 0; r < n_rows; r++, scores += m->n_classes) {
        const void *row = mcb__later(x, values, r * stride);
        if (values == MCB_VALUES_F32)
            mcb__add_packed_inner(m, &p, row, MCB_VALUES_F32, from, to, scores);
        else
            mcb__add_packed_inner(m, &p, row, values, from, to, scores);
    }
}
