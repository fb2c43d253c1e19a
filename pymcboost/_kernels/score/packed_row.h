/* ------------------------------------------------------------------------------------------- scores of packed trees */

/* Leaf of a tree whose splits are those from i to end. values is a constant where rows are floats. */
MCB__INLINE uint64_t mcb__pack_leaf(const mcb__pack *p, const void *x, int values, uint64_t i, uint64_t end,
                                    uint64_t leaf) {
    while (i < end) {
        uint64_t bit = i * p->split_bits, right = mcb__pack_right(p, i);
        uint32_t f = mcb__bits(p->split, bit, p->feature_bits);
        uint64_t c = mcb__bits(p->split, bit + p->feature_bits, p->threshold_bits) + (uint64_t)mcb__uint(&p->first, f);
        float v = mcb__value(x, values, mcb__uint(&p->feature, f));
        if (v <= (float)mcb__real(&p->threshold, c) ||
            (v != v && p->flags & MCB__PACK_MISSING && mcb__bits(p->split, bit + p->split_bits - 1, 1))) {
            end = i + right;
            i++;
        } else {
            leaf += right;
            i += right;
        }
    }
    return leaf;
}

/* The same of a tight tree of `size` splits, the first of which is i. */
static inline uint64_t mcb__pack_leaf_tight(const mcb__pack *p, const void *x, int values, uint64_t i, uint64_t size,
                                            uint64_t leaf) {
    uint64_t end = i + size, more = size > 0, behind;
    while (more) {
        uint64_t bit = i * p->split_bits, c = mcb__bits(p->split, bit + p->feature_bits, p->threshold_bits);
        uint32_t f = p->flags & MCB__PACK_CELLS ? mcb__pack_feature(p, c) : mcb__bits(p->split, bit, p->feature_bits);
        float v = mcb__value(x, values, mcb__uint(&p->feature, f));
        if (!(p->flags & MCB__PACK_CELLS)) c += mcb__uint(&p->first, f);
        if (v <= mcb__pack_threshold(p, c) ||
            (v != v && p->flags & MCB__PACK_MISSING && mcb__bits(p->split, bit + p->split_bits - 1, 1))) {
            if (p->flags & MCB__PACK_SHAPE) {
                more = mcb__pack_side(p, i) & 1;
            } else {
                end = i + mcb__pack_right(p, i);
                more = end > i + 1;
            }
            i++;
        } else {
            behind = p->flags & MCB__PACK_SHAPE ? mcb__pack_behind(p, i) : i + mcb__pack_right(p, i);
            more = p->flags & MCB__PACK_SHAPE ? mcb__pack_side(p, i) >> 1 : behind < end;
            leaf += behind - i;
            i = behind;
        }
    }
    return leaf;
}

/* Add a leaf: its number is that of the set of classes, and its values, the first one highest, times the number of
 * sets. Sets come in lexicographic order. */
static inline void mcb__add_pack_entries(const mcb__pack *p, uint64_t K, uint64_t number, double *scores) {
    uint64_t sets = p->sets, set = number % sets, values = number / sets, unit = p->most / sets, left = p->columns, with;
    for (; left; K--, scores++) {
        with = left == K ? sets : sets * left / K; /* sets that have this class */
        if (set < with) {
            unit /= p->n_values;
            *scores += mcb__real(&p->value, values / unit);
            values %= unit;
            sets = with;
            left--;
        } else {
            set -= with;
            sets -= with;
        }
    }
}

/* Add the trees from <= t < to to the scores of a row. */
MCB__INLINE void mcb__add_packed_inner(const mcb_model *m, const mcb__pack *p, const void *x, int values, uint64_t from,
                                       uint64_t to, double *scores) {
    uint64_t t, begin = 0;
    for (t = 0; t < to; t++) {
        uint64_t end = begin + mcb__pack_size(p, t), leaf;
        if (t >= from) {
            if (p->flags & (MCB__PACK_CELLS | MCB__PACK_GRID | MCB__PACK_SHAPE))
                leaf = mcb__pack_leaf_tight(p, x, values, begin, end - begin, begin + t);
            else
                leaf = mcb__pack_leaf(p, x, values, begin, end, begin + t);
            if (p->flags & MCB__PACK_CLASSES) {
                uint32_t k = mcb__bits(p->cls, t * p->class_bits, p->class_bits);
                scores[k] += mcb__real(&p->value, mcb__bits(p->leaf, leaf * p->leaf_bits, p->leaf_bits));
            } else if (p->flags & MCB__PACK_ENTRIES) {
                mcb__add_pack_entries(p, m->n_classes, mcb__bits(p->leaf, leaf * p->leaf_bits, p->leaf_bits), scores);
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

static inline void mcb__add_packed(const mcb_model *m, const void *x, int values, size_t n_rows, size_t stride,
                                   uint64_t from, uint64_t to, double *scores) {
    mcb__pack p;
    size_t r;
    mcb__pack_of(m, &p);
    for (r = 0; r < n_rows; r++, scores += m->n_classes) {
        const void *row = mcb__later(x, values, r * stride);
        if (values == MCB_VALUES_F32) mcb__add_packed_inner(m, &p, row, MCB_VALUES_F32, from, to, scores);
        else mcb__add_packed_inner(m, &p, row, values, from, to, scores);
    }
}
