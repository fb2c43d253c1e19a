/* ----------------------------------------------------------------------------------------------------- packed trees */

/* Reads and checks packed trees, whose numbers have few bits each. */

/* What the section PACK holds: 32 bytes, tables of features, thresholds and values of leaves, then numbers of few bits. */
typedef struct {
    uint64_t n_trees, n_splits, n_features, n_thresholds, n_values, least,
        columns; /* columns: numbers of a leaf */
    uint32_t flags, size_bits, feature_bits, threshold_bits, right_bits, leaf_bits, class_bits,
        split_bits;
    mcb_section feature, first, threshold,
        value; /* first: where the thresholds of each feature begin, and the count */
    const unsigned char *size, *cls, *split, *leaf;
} mcb__pack;

enum { MCB__PACK_CLASSES = 1, MCB__PACK_MISSING = 2, MCB__PACK_HALF = 4, MCB__PACK_LEAF_HALF = 8 };
/* Number of `width` bits, at most 32, that begins at a bit. The lowest bit comes first. */
MCB__INLINE uint32_t mcb__bits(const unsigned char *p, uint64_t bit, uint32_t width) {
    uint32_t shift = (uint32_t)(bit & 7), n;
    uint64_t v = 0;
    p += bit >> 3;
    for (n = 0; n < shift + width; n += 8) v |= (uint64_t)*p++ << n;
    return (uint32_t)(v >> shift & ((UINT64_C(1) << width) - 1));
}

/* Numbers of few bits begin at *at of PACK, which moves behind them. */
static inline const unsigned char *mcb__pack_part(const mcb_section *pack, uint64_t *at,
                                                  uint64_t count, uint32_t width) {
    const unsigned char *begin = pack->data + (*at < pack->count ? (size_t)*at : 0);
    *at += (count * width + 7) / 8;
    return begin;
}

/* The same of a table of numbers. */
static inline mcb_section mcb__pack_table(const mcb_section *pack, uint64_t *at, uint64_t count,
                                          uint32_t dtype) {
    mcb_section s;
    s.data = mcb__pack_part(pack, at, count, 8 * mcb__dtype_size(dtype));
    s.count = count;
    s.dtype = dtype;
    return s;
}

/* Find the parts of PACK, which has 32 bytes or more. Returns the bytes that they take. */
static inline uint64_t mcb__pack_of(const mcb_model *m, mcb__pack *p) {
    const mcb_section *s = &m->section[MCB_S_PACK];
    const unsigned char *h = s->data;
    uint64_t at = 32;
    p->n_trees = mcb__u32(h);
    p->n_splits = mcb__u32(h + 4);
    p->n_thresholds = mcb__u32(h + 8);
    p->n_features = mcb__u32(h + 12);
    p->least = mcb__u32(h + 16);
    p->n_values = mcb__u16(h + 20);
    p->flags = h[22];
    p->size_bits = h[23];
    p->feature_bits = h[24];
    p->threshold_bits = h[25];
    p->right_bits = h[26];
    p->leaf_bits = h[27];
    p->class_bits = p->flags & MCB__PACK_CLASSES ? h[28] : 0;
    p->split_bits = p->feature_bits + p->threshold_bits + p->right_bits +
                    (p->flags & MCB__PACK_MISSING ? 1 : 0);
    p->columns = p->flags & MCB__PACK_CLASSES ? 1 : m->n_classes;
    p->feature = mcb__pack_table(s, &at, p->n_features, h[29]);
    p->first = mcb__pack_table(s, &at, p->n_features + 1, h[30]);
    p->threshold =
        mcb__pack_table(s, &at, p->n_thresholds, p->flags & MCB__PACK_HALF ? MCB_F16 : MCB_F32);
    p->value =
        mcb__pack_table(s, &at, p->n_values, p->flags & MCB__PACK_LEAF_HALF ? MCB_F16 : MCB_F32);
    p->size = mcb__pack_part(s, &at, p->n_trees, p->size_bits);
    p->cls = mcb__pack_part(s, &at, p->n_trees, p->class_bits);
    p->split = mcb__pack_part(s, &at, p->n_splits, p->split_bits);
    p->leaf = mcb__pack_part(s, &at, (p->n_splits + p->n_trees) * p->columns, p->leaf_bits);
    return at;
}

MCB__INLINE uint64_t mcb__pack_size(const mcb__pack *p, uint64_t tree) {
    return p->least + mcb__bits(p->size, tree * p->size_bits, p->size_bits);
}

/* From a split to its right child. */
MCB__INLINE uint64_t mcb__pack_right(const mcb__pack *p, uint64_t split) {
    uint64_t bit = split * p->split_bits + p->feature_bits + p->threshold_bits;
    return 1 + (uint64_t)mcb__bits(p->split, bit, p->right_bits);
}

/* Learners of the whole file. */
static inline uint64_t mcb__all_learners(const mcb_model *m) {
    if (m->kind == MCB_KIND_PACKED) return mcb__u32(m->section[MCB_S_PACK].data);
    return m->section[m->kind == MCB_KIND_TREES ? MCB_S_TSIZ : MCB_S_FEAT].count;
}

/* --------------------------------------------------------------------------------------- validation: packed trees */

/* The parts fill PACK. A leaf takes a bit or more, so that the numbers of trees and splits are in proportion to the file. */
static inline int mcb__check_pack_shape(mcb_model *m) {
    const mcb_section *s = &m->section[MCB_S_PACK];
    const unsigned char *h = s->data;
    uint64_t end;
    mcb__pack p;
    int i;
    if (s->count < 32)
        return mcb__fail_numbers(m, MCB_E_PACK, mcb__rules[MCB_S_PACK].tag, (uint64_t)(h - m->data),
                                 s->count, 32);
    if (h[22] > 15) return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, 22);
    if (h[31]) return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, 31);
    end = mcb__pack_of(m, &p);
    for (i = 23; i < 29; i++) {
        if (h[i] > 32 || (i == 27 && (h[i] < 1 || h[i] > 8)) ||
            (i == 28 && !(h[22] & MCB__PACK_CLASSES) && h[i]))
            return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, (uint64_t)i);
    }
    for (i = 29; i < 31; i++) {
        if (h[i] < MCB_U8 || h[i] > MCB_U32)
            return mcb__wrong_item(m, MCB_E_PACK, MCB_S_PACK, (uint64_t)i);
    }
    if (end != s->count)
        return mcb__fail_numbers(m, MCB_E_PACK_SIZE, mcb__rules[MCB_S_PACK].tag,
                                 (uint64_t)(h - m->data), s->count, end);
    m->n_learners = p.n_trees;
    m->n_rounds = m->section[MCB_S_RNDS].data ? m->section[MCB_S_RNDS].count : p.n_trees;
    return MCB_OK;
}

static inline int mcb__pack_wrong(mcb_model *m, int status, const unsigned char *at) {
    return mcb__wrong_item(m, status, MCB_S_PACK, (uint64_t)(at - m->section[MCB_S_PACK].data));
}

/* Features increase and are below d, each has a threshold or more, and all numbers are finite. */
static inline int mcb__check_pack_tables(mcb_model *m, const mcb__pack *p) {
    uint64_t i;
    for (i = 0; i < p->n_features; i++) {
        uint32_t f = mcb__uint(&p->feature, i);
        if (f >= m->n_features || (i > 0 && f <= mcb__uint(&p->feature, i - 1)))
            return mcb__pack_wrong(m, MCB_E_FEATURE_INDEX,
                                   p->feature.data + i * mcb__dtype_size(p->feature.dtype));
    }
    for (i = 0; i <= p->n_features; i++) {
        uint32_t first = mcb__uint(&p->first, i);
        if (i == 0 ? first != 0 : first <= mcb__uint(&p->first, i - 1) || first > p->n_thresholds)
            return mcb__pack_wrong(m, MCB_E_OFFSETS,
                                   p->first.data + i * mcb__dtype_size(p->first.dtype));
    }
    if (mcb__uint(&p->first, p->n_features) != p->n_thresholds)
        return mcb__pack_wrong(m, MCB_E_OFFSETS, p->threshold.data);
    i = mcb__not_finite(&p->threshold);
    if (i < p->n_thresholds)
        return mcb__pack_wrong(m, MCB_E_THRESHOLD,
                               p->threshold.data + i * mcb__dtype_size(p->threshold.dtype));
    i = mcb__not_finite(&p->value);
    if (i < p->n_values)
        return mcb__pack_wrong(m, MCB_E_LEAF, p->value.data + i * mcb__dtype_size(p->value.dtype));
    return MCB_OK;
}

/* A split has a threshold, and it is one of its feature. */
static inline int mcb__pack_split_is_good(const mcb__pack *p, uint64_t split) {
    uint64_t bit = split * p->split_bits;
    uint32_t f = mcb__bits(p->split, bit, p->feature_bits);
    uint32_t c = mcb__bits(p->split, bit + p->feature_bits, p->threshold_bits);
    return f < p->n_features && c < mcb__uint(&p->first, (uint64_t)f + 1) - mcb__uint(&p->first, f);
}

/* The splits from `begin` to `end` are one tree; as mcb__check_tree. */
static inline int mcb__check_pack_tree(mcb_model *m, const mcb__pack *p, uint64_t begin,
                                       uint64_t end) {
    uint64_t i = end, k, stop;
    while (i-- > begin) {
        if (!mcb__pack_split_is_good(p, i))
            return mcb__pack_wrong(m, MCB_E_PACK_SPLIT, p->split + i * p->split_bits / 8);
    }
    for (i = end; i-- > begin;) {
        uint64_t r = mcb__pack_right(p, i);
        stop = i + r;
        for (k = i + 1; r <= end - i && k < stop;) k += mcb__pack_right(p, k);
        if (r > end - i || k != stop)
            return mcb__pack_wrong(m, MCB_E_RIGHT, p->split + i * p->split_bits / 8);
    }
    return MCB_OK;
}

/* Numbers of leaves are in the table. */
static inline int mcb__check_pack_leaves(mcb_model *m, const mcb__pack *p) {
    uint64_t i, count = (p->n_splits + p->n_trees) * p->columns;
    for (i = 0; i < count; i++) {
        if (mcb__bits(p->leaf, i * p->leaf_bits, p->leaf_bits) >= p->n_values)
            return mcb__pack_wrong(m, MCB_E_PACK_LEAF, p->leaf + i * p->leaf_bits / 8);
    }
    return MCB_OK;
}

static inline int mcb__check_pack(mcb_model *m) {
    mcb__pack p;
    uint64_t i, begin = 0;
    int status;
    mcb__pack_of(m, &p);
    if ((status = mcb__check_pack_tables(m, &p))) return status;
    for (i = 0; i < p.n_trees; i++) {
        uint64_t size = mcb__pack_size(&p, i);
        if (size > p.n_splits - begin)
            return mcb__pack_wrong(m, MCB_E_TREE_SIZES, p.size + i * p.size_bits / 8);
        begin += size;
    }
    if (begin != p.n_splits) return mcb__pack_wrong(m, MCB_E_TREE_SIZES, p.size);
    for (i = begin = 0; i < p.n_trees; i++) {
        uint64_t size = mcb__pack_size(&p, i);
        if ((status = mcb__check_pack_tree(m, &p, begin, begin + size))) return status;
        begin += size;
        if (mcb__bits(p.cls, i * p.class_bits, p.class_bits) >= m->n_classes)
            return mcb__pack_wrong(m, MCB_E_TREE_CLASS, p.cls + i * p.class_bits / 8);
    }
    return mcb__check_pack_leaves(m, &p);
}
