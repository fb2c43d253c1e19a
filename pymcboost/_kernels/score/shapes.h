/* ------------------------------------------------------------------------------------- validation: numbers of items */

/* Checks how many items each section has. */

static inline int mcb__need_count(mcb_model *m, int slot, uint64_t count) {
    const mcb_section *s = &m->section[slot];
    if (s->count == count) return MCB_OK;
    return mcb__fail_numbers(m, MCB_E_SHAPE, mcb__rules[slot].tag, (uint64_t)(s->data - m->data),
                             s->count, count);
}

/* count == a * b without forming the product. */
static inline int mcb__need_product(mcb_model *m, int slot, uint64_t a, uint64_t b) {
    const mcb_section *s = &m->section[slot];
    if (s->count % b == 0 && s->count / b == a) return MCB_OK;
    return mcb__fail_numbers(m, MCB_E_SHAPE, mcb__rules[slot].tag, (uint64_t)(s->data - m->data),
                             s->count, a > UINT64_MAX / b ? UINT64_MAX : a * b);
}

static inline int mcb__check_category_shapes(mcb_model *m, uint64_t S) {
    const mcb_section *s = m->section;
    int slot, status;
    for (slot = MCB_S_CSET; slot <= MCB_S_CATS; slot++) {
        if (!s[slot].data != !s[MCB_S_CSET].data)
            return mcb__fail(m, MCB_E_CATEGORIES, mcb__rules[slot].tag, 64);
    }
    if (!s[MCB_S_CSET].data) return MCB_OK;
    if ((status = mcb__need_count(m, MCB_S_CSET, S))) return status;
    return mcb__need_count(m, MCB_S_CATN, s[MCB_S_CATF].count);
}

/* Sections of the early exit: a threshold for every checkpoint, bounds of all pairs for every other one. */
static inline int mcb__check_exit_shapes(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t n = s[MCB_S_EXIT].count, pairs = (uint64_t)m->n_classes * (m->n_classes - 1), bounds;
    int slot, status;
    for (slot = MCB_S_EXIT; slot <= MCB_S_RJCT; slot++) {
        if (s[slot].data && (m->decoder || !s[MCB_S_EXIT].data))
            return mcb__fail(m, MCB_E_EXIT, mcb__rules[slot].tag, 64);
    }
    bounds = s[MCB_S_PAIR].count / pairs;
    if ((status =
             mcb__need_product(m, MCB_S_PAIR, bounds <= (n + 1) / 2 ? bounds : (n + 1) / 2, pairs)))
        return status;
    for (slot = MCB_S_MARG; slot <= MCB_S_RJCT; slot++) {
        if (s[slot].data && (status = mcb__need_count(m, slot, n + 3))) return status;
    }
    return MCB_OK;
}

static inline int mcb__check_shapes(mcb_model *m) {
    uint64_t K = m->n_classes;
    const mcb_section *s = m->section;
    int status = mcb__need_count(m, MCB_S_BIAS, K);
    if (status) return status;
    if (m->kind == MCB_KIND_STUMPS) {
        uint64_t M = s[MCB_S_FEAT].count;
        if ((status = mcb__need_count(m, MCB_S_THRS, M))) return status;
        if ((status = mcb__need_product(m, MCB_S_COEF, M, K))) return status;
        if (s[MCB_S_COEL].data && (status = mcb__need_product(m, MCB_S_COEL, M, K))) return status;
        m->n_learners = m->n_rounds = M;
    } else if (m->kind == MCB_KIND_TREES) {
        uint64_t S = s[MCB_S_FEAT].count, T = s[MCB_S_TSIZ].count, P = s[MCB_S_CODE].count / K;
        if ((status = mcb__need_count(m, MCB_S_THRS, S))) return status;
        if ((status = mcb__need_count(m, MCB_S_RGHT, S))) return status;
        if (s[MCB_S_TBAS].data && !s[MCB_S_TCLS].data)
            return mcb__fail(m, MCB_E_BASE_ALONE, mcb__rules[MCB_S_TBAS].tag, 64);
        if (s[MCB_S_CODE].data && (!s[MCB_S_TCLS].data || s[MCB_S_TBAS].data))
            return mcb__fail(m, MCB_E_CODE_ALONE, mcb__rules[MCB_S_CODE].tag, 64);
        if (m->decoder && !s[MCB_S_CODE].data)
            return mcb__fail(m, MCB_E_DECODER, mcb__rules[MCB_S_CODE].tag, 48);
        if (s[MCB_S_CODE].data && (P == 0 || (m->decoder && P > MCB_MAX_COLUMNS)))
            return mcb__fail_numbers(m, MCB_E_CODE_COLUMNS, mcb__rules[MCB_S_CODE].tag,
                                     (uint64_t)(s[MCB_S_CODE].data - m->data), P,
                                     P ? MCB_MAX_COLUMNS : 1);
        if ((status = mcb__need_product(m, MCB_S_CODE, P, K))) return status;
        if (s[MCB_S_TCLS].data && (status = mcb__need_count(m, MCB_S_TCLS, T))) return status;
        if (s[MCB_S_TBAS].data && (status = mcb__need_count(m, MCB_S_TBAS, T))) return status;
        if ((status = mcb__check_category_shapes(m, S))) return status;
        if (!s[MCB_S_LOFF].data != !s[MCB_S_LCLS].data ||
            (s[MCB_S_LOFF].data && s[MCB_S_TCLS].data))
            return mcb__fail(m, MCB_E_ENTRIES,
                             mcb__rules[s[MCB_S_LOFF].data ? MCB_S_LOFF : MCB_S_LCLS].tag, 64);
        if (s[MCB_S_LOFF].data) {
            if ((status = mcb__need_count(m, MCB_S_LOFF, S + T + 1))) return status;
            if ((status = mcb__need_count(m, MCB_S_LCLS, s[MCB_S_LEAF].count))) return status;
        } else if ((status = mcb__need_product(m, MCB_S_LEAF, S + T, s[MCB_S_TCLS].data ? 1 : K))) {
            return status;
        }
        if (s[MCB_S_LALL].data) {
            if (!s[MCB_S_LOFF].data || s[MCB_S_LALL].dtype != s[MCB_S_LEAF].dtype ||
                s[MCB_S_EXIT].data)
                return mcb__fail(m, MCB_E_SHARED, mcb__rules[MCB_S_LALL].tag, 64);
            if ((status = mcb__need_count(m, MCB_S_LALL, S + T))) return status;
        }
        m->n_learners = T;
        m->n_rounds = s[MCB_S_RNDS].count;
    } else if (m->kind == MCB_KIND_PACKED) {
        if ((status = mcb__check_pack_shape(m))) return status;
    } else if (m->kind == MCB_KIND_LINEAR) {
        if ((status = mcb__need_product(m, MCB_S_WMAT, K, m->n_features))) return status;
    } else if (m->kind == MCB_KIND_KERNEL) {
        uint64_t n = s[MCB_S_DUAL].count / K;
        if ((status = mcb__need_count(m, MCB_S_KPAR, 4))) return status;
        if ((status = mcb__need_product(m, MCB_S_DUAL, n, K))) return status;
        if ((status = mcb__need_product(m, MCB_S_SVEC, n, m->n_features))) return status;
        if (s[MCB_S_SCAL].data && (status = mcb__need_product(m, MCB_S_SCAL, 2, m->n_features)))
            return status;
    } else {
        uint64_t used = s[MCB_S_FIDX].count;
        if ((status = mcb__need_count(m, MCB_S_IOFF, used + 1))) return status;
        if ((status = mcb__need_product(m, MCB_S_TABL, s[MCB_S_THRS].count + 2 * used, K)))
            return status;
    }
    if (s[MCB_S_CALB].data && (status = mcb__need_count(m, MCB_S_CALB, 1))) return status;
    if (s[MCB_S_FCAL].data && (status = mcb__need_count(m, MCB_S_FCAL, 1))) return status;
    if ((status = mcb__check_exit_shapes(m))) return status;
    if (s[MCB_S_ABOV].data && (status = mcb__need_count(m, MCB_S_ABOV, K))) return status;
    if (s[MCB_S_LABI].data) return mcb__need_count(m, MCB_S_LABI, K);
    return mcb__need_count(m, MCB_S_LABO, K + 1);
}
