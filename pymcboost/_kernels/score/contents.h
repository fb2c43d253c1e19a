/* --------------------------------------------------------------------------------------------- validation: contents */

/* Checks the numbers in the sections: whatever could make scoring unsafe is refused. */

static inline int mcb__finite(mcb_model *m, int slot, int status) {
    uint64_t i = mcb__not_finite(&m->section[slot]);
    return i < m->section[slot].count ? mcb__wrong_item(m, status, slot, i) : MCB_OK;
}

/* Features below d, without the top bit, which says where NaN goes. */
static inline int mcb__check_features(mcb_model *m) {
    const mcb_section *s = &m->section[MCB_S_FEAT];
    uint32_t low = s->dtype == MCB_U8 ? 0x7fu : s->dtype == MCB_U16 ? 0x7fffu : 0x7fffffffu;
    uint64_t i;
    for (i = 0; i < s->count; i++) {
        if ((mcb__uint(s, i) & low) >= m->n_features)
            return mcb__wrong_item(m, MCB_E_FEATURE_INDEX, MCB_S_FEAT, i);
    }
    return MCB_OK;
}

/* The numbers of a section add up to total. */
static inline int mcb__check_sum(mcb_model *m, int slot, uint64_t total, int status) {
    const mcb_section *s = &m->section[slot];
    uint64_t i, left = total;
    for (i = 0; i < s->count; i++) {
        uint64_t n = mcb__uint(s, i);
        if (n > left) return mcb__wrong_item(m, status, slot, i);
        left -= n;
    }
    return left ? mcb__wrong_item(m, status, slot, s->count) : MCB_OK;
}

/* The splits from `begin` to `end` are one tree in preorder: the part [i + 1, i + RGHT[i]) of a split's left side is
 * made of whole subtrees. Seen from the last split to the first, such a part is crossed by jumping along the right
 * children in it; no split is met twice, so the time is linear, and there is no stack. */
static inline int mcb__check_tree(mcb_model *m, uint64_t begin, uint64_t end) {
    const mcb_section *right = &m->section[MCB_S_RGHT];
    uint64_t i = end, k, stop;
    while (i-- > begin) {
        uint64_t r = mcb__uint(right, i);
        if (r < 1 || r > end - i) return mcb__wrong_item(m, MCB_E_RIGHT, MCB_S_RGHT, i);
        stop = i + r;
        for (k = i + 1; k < stop;) k += mcb__uint(right, k);
        if (k != stop) return mcb__wrong_item(m, MCB_E_RIGHT, MCB_S_RGHT, i);
    }
    return MCB_OK;
}

/* Sets of codes, and the splits that ask for them. */
static inline int mcb__check_sets(mcb_model *m) {
    const mcb_section *s = m->section, *offset = &s[MCB_S_COFF];
    uint64_t i, begin = 0;
    for (i = 0; i < offset->count; i++) {
        uint64_t end = mcb__uint(offset, i);
        if (i == 0 ? end != 0
                   : end <= begin || end - begin > (MCB_MAX_LEVELS + 1) / 8 ||
                         end > s[MCB_S_CBIT].count)
            return mcb__wrong_item(m, MCB_E_SET, MCB_S_COFF, i);
        begin = end;
    }
    if (!offset->count || begin != s[MCB_S_CBIT].count)
        return mcb__wrong_item(m, MCB_E_SET, MCB_S_COFF, offset->count);
    for (i = 0; i < s[MCB_S_CSET].count; i++) {
        if (mcb__uint(&s[MCB_S_CSET], i) >= offset->count)
            return mcb__wrong_item(m, MCB_E_SET, MCB_S_CSET, i);
    }
    return MCB_OK;
}

/* The name of a level from `begin` to `end` in CATS, after that of the same feature from `before` on, if that is not
 * `begin`. */
static inline int mcb__check_level(mcb_model *m, uint64_t before, uint64_t begin, uint64_t end) {
    const unsigned char *text = m->section[MCB_S_CATS].data;
    uint64_t a = begin - before, b = end - begin, j;
    if (b > MCB_MAX_LABEL) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATS, begin);
    for (j = begin; j < end; j++) {
        if (!text[j]) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATS, j);
    }
    if (before != begin) {
        int order = memcmp(text + before, text + begin, (size_t)(a < b ? a : b));
        if (order > 0 || (order == 0 && a >= b))
            return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATS, begin);
    }
    return mcb__check_text(m, MCB_S_CATS, begin, end);
}

/* Categorical features and the names of their levels. A name is never empty but where it comes first. */
static inline int mcb__check_categories(mcb_model *m) {
    const mcb_section *f = &m->section[MCB_S_CATF], *levels = &m->section[MCB_S_CATN],
                      *names = &m->section[MCB_S_CATO];
    uint32_t top = f->dtype == MCB_U8 ? 7 : f->dtype == MCB_U16 ? 15 : 31, before = 0, n, l;
    uint64_t c, at = 0, begin = 0, end;
    int status;
    if (!names->count || mcb__uint(names, 0))
        return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, 0);
    for (c = 0; c < f->count; c++) {
        uint32_t feature = mcb__uint(f, c) & ((1u << top) - 1);
        uint64_t last;
        if (feature >= m->n_features || (c > 0 && feature <= before))
            return mcb__wrong_item(m, MCB_E_FEATURE_INDEX, MCB_S_CATF, c);
        before = feature;
        n = mcb__uint(levels, c);
        if (n < 1 || n > MCB_MAX_LEVELS) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATN, c);
        if (!(mcb__uint(f, c) >> top)) continue;
        for (l = 0, last = begin; l < n; l++, last = begin, begin = end) {
            if (++at >= names->count) return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, at);
            end = mcb__uint(names, at);
            if (end < begin || end > m->section[MCB_S_CATS].count || (l > 0 && end == begin))
                return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, at);
            if ((status = mcb__check_level(m, l ? last : begin, begin, end))) return status;
        }
    }
    if (at + 1 != names->count || begin != m->section[MCB_S_CATS].count)
        return mcb__wrong_item(m, MCB_E_LEVELS, MCB_S_CATO, at);
    return MCB_OK;
}

/* Entries of leaves: where those of each begin, and their classes. */
static inline int mcb__check_entries(mcb_model *m) {
    const mcb_section *first = &m->section[MCB_S_LOFF], *cls = &m->section[MCB_S_LCLS];
    uint64_t leaf, e, begin = 0;
    if (mcb__uint(first, 0) != 0) return mcb__wrong_item(m, MCB_E_ENTRY_OFFSETS, MCB_S_LOFF, 0);
    for (leaf = 1; leaf < first->count; leaf++) {
        uint64_t end = mcb__uint(first, leaf);
        if (end < begin || end > cls->count)
            return mcb__wrong_item(m, MCB_E_ENTRY_OFFSETS, MCB_S_LOFF, leaf);
        for (e = begin; e < end; e++) {
            uint32_t k = mcb__uint(cls, e);
            if (k >= m->n_classes || (e > begin && k <= mcb__uint(cls, e - 1)))
                return mcb__wrong_item(m, MCB_E_ENTRY_CLASS, MCB_S_LCLS, e);
        }
        begin = end;
    }
    if (begin != cls->count)
        return mcb__wrong_item(m, MCB_E_ENTRY_OFFSETS, MCB_S_LOFF, first->count - 1);
    return MCB_OK;
}

/* Numbers of a section are multiples of 2^-20 up to a limit and not minus zero: their sums are exact, in any order. */
static inline int mcb__check_grid(mcb_model *m, int slot, double limit) {
    const mcb_section *s = &m->section[slot];
    uint64_t i, bits;
    for (i = 0; i < s->count; i++) {
        double v = mcb__real(s, i), steps = v * 1048576.0;
        memcpy(&bits, &v, sizeof bits);
        if (!(v >= -limit && v <= limit) || steps != (double)(int64_t)steps ||
            bits == UINT64_C(1) << 63)
            return mcb__wrong_item(m, MCB_E_SHARED, slot, i);
    }
    return MCB_OK;
}

static inline int mcb__check_shared(mcb_model *m) {
    int status;
    if ((status = mcb__check_grid(m, MCB_S_LALL, 8))) return status;
    if ((status = mcb__check_grid(m, MCB_S_LEAF, 8))) return status;
    return mcb__check_grid(m, MCB_S_BIAS, 1048576);
}

static inline int mcb__check_trees(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t T = s[MCB_S_TSIZ].count, t, begin = 0;
    uint64_t n_columns = s[MCB_S_CODE].data ? s[MCB_S_CODE].count / m->n_classes : m->n_classes;
    int status;
    if ((status = mcb__check_sum(m, MCB_S_TSIZ, s[MCB_S_FEAT].count, MCB_E_TREE_SIZES)))
        return status;
    if ((status = mcb__check_sum(m, MCB_S_RNDS, T, MCB_E_ROUNDS))) return status;
    if ((status = mcb__check_features(m))) return status;
    if ((status = mcb__finite(m, MCB_S_THRS, MCB_E_THRESHOLD))) return status;
    for (t = 0; t < T; t++) {
        uint64_t end = begin + mcb__uint(&s[MCB_S_TSIZ], t);
        if ((status = mcb__check_tree(m, begin, end))) return status;
        begin = end;
    }
    if (s[MCB_S_CSET].data) {
        if ((status = mcb__check_sets(m))) return status;
        if ((status = mcb__check_categories(m))) return status;
    }
    for (t = 0; t < s[MCB_S_TCLS].count; t++) {
        uint32_t column = mcb__uint(&s[MCB_S_TCLS], t);
        if (column >= n_columns || column > UINT16_MAX)
            return mcb__wrong_item(m, MCB_E_TREE_CLASS, MCB_S_TCLS, t);
    }
    for (t = 0; t < s[MCB_S_TBAS].count; t++) {
        uint32_t base = mcb__uint(&s[MCB_S_TBAS], t);
        if (base > m->n_classes || base == mcb__uint(&s[MCB_S_TCLS], t))
            return mcb__wrong_item(m, MCB_E_TREE_BASE, MCB_S_TBAS, t);
    }
    if ((status = mcb__finite(m, MCB_S_CODE, MCB_E_CODE))) return status;
    if (s[MCB_S_LOFF].data && (status = mcb__check_entries(m))) return status;
    if (s[MCB_S_LALL].data && (status = mcb__check_shared(m))) return status;
    return mcb__finite(m, MCB_S_LEAF, MCB_E_LEAF);
}

/* A kernel's number and parameters; those that it does not have must be 0. */
static inline int mcb__check_kernel(mcb_model *m) {
    const unsigned char *p = m->section[MCB_S_KPAR].data;
    float kernel = mcb__f32(p), gamma = mcb__f32(p + 4), coef0 = mcb__f32(p + 8),
          degree = mcb__f32(p + 12);
    int poly = kernel == (float)MCB_KERNEL_POLY, rbf = kernel == (float)MCB_KERNEL_RBF;
    if (!(kernel == (float)MCB_KERNEL_LINEAR || poly || rbf ||
          kernel == (float)MCB_KERNEL_PERCEPTRON))
        return mcb__wrong_item(m, MCB_E_KERNEL, MCB_S_KPAR, 0);
    if (!(poly || rbf ? gamma > 0 && gamma <= FLT_MAX : gamma == 0))
        return mcb__wrong_item(m, MCB_E_KERNEL_PARAMETER, MCB_S_KPAR, 1);
    if (!(poly ? coef0 >= -FLT_MAX && coef0 <= FLT_MAX : coef0 == 0))
        return mcb__wrong_item(m, MCB_E_KERNEL_PARAMETER, MCB_S_KPAR, 2);
    if (!(poly ? degree >= 0 && degree <= MCB_MAX_DEGREE && degree == (float)(int)degree
               : degree == 0))
        return mcb__wrong_item(m, MCB_E_KERNEL_PARAMETER, MCB_S_KPAR, 3);
    return MCB_OK;
}

static inline int mcb__check_exit(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t i, before = 0;
    int slot;
    for (i = 0; i < s[MCB_S_EXIT].count; i++) {
        uint64_t n = mcb__uint(&s[MCB_S_EXIT], i);
        if (n <= before || n >= m->n_learners)
            return mcb__wrong_item(m, MCB_E_CHECKPOINT, MCB_S_EXIT, i);
        before = n;
    }
    for (i = 0; i < s[MCB_S_PAIR].count; i++) { /* infinity: no bound is known */
        double bound = mcb__bound(&s[MCB_S_PAIR], i);
        if (!(bound >= -FLT_MAX)) return mcb__wrong_item(m, MCB_E_BOUND, MCB_S_PAIR, i);
    }
    for (slot = MCB_S_MARG; slot <= MCB_S_RJCT; slot++) {
        for (i = 0; i < s[slot].count; i++) {
            double v = mcb__f64(s[slot].data + 8 * i),
                   top = slot == MCB_S_RJCT ? m->n_classes - 1.0 : 4294967295.0;
            int good = i == 0   ? v > 0 && v < 1
                       : i == 1 ? v >= 1 && v <= 4294967295.0 && v == (double)(uint32_t)v
                       : i == 2 ? v >= 0 && v <= top && v == (double)(uint32_t)v
                                : v >= -DBL_MAX; /* infinity: no exit here */
            if (!good) return mcb__wrong_item(m, MCB_E_EXIT_NUMBER, slot, i);
        }
    }
    return MCB_OK;
}

static inline int mcb__check_factor(mcb_model *m, int slot) {
    const unsigned char *factor = m->section[slot].data;
    if (!factor || (mcb__f64(factor) > 0 && mcb__f64(factor) <= DBL_MAX)) return MCB_OK;
    return mcb__wrong_item(m, MCB_E_CALIBRATION, slot, 0);
}

static inline int mcb__check_contents(mcb_model *m) {
    const mcb_section *s = m->section;
    uint64_t i;
    int status;
    if (m->kind == MCB_KIND_STUMPS) {
        if ((status = mcb__check_features(m))) return status;
        if ((status = mcb__finite(m, MCB_S_THRS, MCB_E_THRESHOLD))) return status;
        if ((status = mcb__finite(m, MCB_S_COEF, MCB_E_COEFFICIENT))) return status;
        if (s[MCB_S_COEL].data && (status = mcb__finite(m, MCB_S_COEL, MCB_E_COEFFICIENT)))
            return status;
    } else if (m->kind == MCB_KIND_TREES) {
        if ((status = mcb__check_trees(m))) return status;
    } else if (m->kind == MCB_KIND_PACKED) {
        if ((status = mcb__check_pack(m))) return status;
        if (s[MCB_S_RNDS].data &&
            (status = mcb__check_sum(m, MCB_S_RNDS, m->n_learners, MCB_E_ROUNDS)))
            return status;
    } else if (m->kind == MCB_KIND_LINEAR) {
        if ((status = mcb__finite(m, MCB_S_WMAT, MCB_E_COEFFICIENT))) return status;
    } else if (m->kind == MCB_KIND_KERNEL) {
        if ((status = mcb__check_kernel(m))) return status;
        if ((status = mcb__finite(m, MCB_S_SCAL, MCB_E_SCALE))) return status;
        if ((status = mcb__finite(m, MCB_S_SVEC, MCB_E_SUPPORT))) return status;
        if ((status = mcb__finite(m, MCB_S_DUAL, MCB_E_COEFFICIENT))) return status;
    } else {
        uint64_t j, used = s[MCB_S_FIDX].count, begin = 0;
        for (i = 0; i < used; i++) {
            uint32_t f = mcb__uint(&s[MCB_S_FIDX], i);
            if (f >= m->n_features || (i > 0 && f <= mcb__uint(&s[MCB_S_FIDX], i - 1)))
                return mcb__wrong_item(m, MCB_E_FEATURE_INDEX, MCB_S_FIDX, i);
        }
        if (mcb__uint(&s[MCB_S_IOFF], 0) != 0)
            return mcb__wrong_item(m, MCB_E_OFFSETS, MCB_S_IOFF, 0);
        if ((status = mcb__finite(m, MCB_S_THRS, MCB_E_THRESHOLD))) return status;
        for (i = 1; i <= used; i++) {
            uint64_t end = mcb__uint(&s[MCB_S_IOFF], i);
            if (end <= begin || end > s[MCB_S_THRS].count)
                return mcb__wrong_item(m, MCB_E_OFFSETS, MCB_S_IOFF, i);
            for (j = begin + 1; j < end; j++) {
                if (!(mcb__f32(s[MCB_S_THRS].data + 4 * j - 4) <
                      mcb__f32(s[MCB_S_THRS].data + 4 * j)))
                    return mcb__wrong_item(m, MCB_E_THRESHOLD_ORDER, MCB_S_THRS, j);
            }
            begin = end;
        }
        if (begin != s[MCB_S_THRS].count)
            return mcb__wrong_item(m, MCB_E_OFFSETS, MCB_S_IOFF, used);
        if ((status = mcb__finite(m, MCB_S_TABL, MCB_E_TABLE))) return status;
    }
    if ((status = mcb__finite(m, MCB_S_BIAS, MCB_E_BIAS))) return status;
    if ((status = mcb__check_factor(m, MCB_S_CALB)) || (status = mcb__check_factor(m, MCB_S_FCAL)))
        return status;
    if (m->link == MCB_LINK_SHARES && (s[MCB_S_CALB].data || s[MCB_S_FCAL].data))
        return mcb__fail(m, MCB_E_CALIBRATION,
                         mcb__rules[s[MCB_S_CALB].data ? MCB_S_CALB : MCB_S_FCAL].tag, 44);
    if ((status = mcb__check_exit(m))) return status;
    if (s[MCB_S_ABOV].data && m->link != MCB_LINK_SIGMOID)
        return mcb__fail(m, MCB_E_ABOVE, mcb__rules[MCB_S_ABOV].tag, 44);
    for (i = 0; i < s[MCB_S_ABOV].count; i++) {
        double above = mcb__f64(s[MCB_S_ABOV].data + 8 * i);
        if (!(above >= -DBL_MAX && above <= DBL_MAX))
            return mcb__wrong_item(m, MCB_E_ABOVE, MCB_S_ABOV, i);
    }
    if ((status = mcb__check_labels(m))) return status;
    return mcb__check_text(m, MCB_S_META, 0, s[MCB_S_META].count);
}
