/* -------------------------------------------------------------------------------------- validation: labels and text */

/* Checks that labels and names are valid UTF-8. */

/* Bytes of the valid UTF-8 character at p, or 0. Refuses overlong forms, surrogates and anything above U+10FFFF. */
static inline int mcb__utf8(const unsigned char *p, uint64_t left) {
    uint32_t c = p[0], n, i, value;
    if (c < 0x80) return 1;
    if (c < 0xc2 || c > 0xf4) return 0;
    n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (left < n) return 0;
    value = c & (0xffu >> (n + 1));
    for (i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (p[i] & 0x3fu);
    }
    if ((n == 3 && value < 0x800) || (n == 4 && value < 0x10000) || value > 0x10ffff) return 0;
    return value >= 0xd800 && value < 0xe000 ? 0 : (int)n;
}

static inline int mcb__check_text(mcb_model *m, int slot, uint64_t begin, uint64_t end) {
    const mcb_section *s = &m->section[slot];
    while (begin < end) {
        int n = mcb__utf8(s->data + begin, end - begin);
        if (n == 0) return mcb__wrong_item(m, MCB_E_UTF8, slot, begin);
        begin += (uint64_t)n;
    }
    return MCB_OK;
}

static inline int mcb__check_labels(mcb_model *m) {
    const mcb_section *ints = &m->section[MCB_S_LABI], *offsets = &m->section[MCB_S_LABO];
    const mcb_section *text = &m->section[MCB_S_LABS];
    uint64_t i, before = 0, begin = 0;
    int status;
    if (ints->data) {
        for (i = 1; i < ints->count; i++) {
            if ((int64_t)mcb__u64(ints->data + 8 * i - 8) >= (int64_t)mcb__u64(ints->data + 8 * i))
                return mcb__wrong_item(m, MCB_E_LABEL_ORDER, MCB_S_LABI, i);
        }
        return MCB_OK;
    }
    for (i = 0; i < offsets->count; i++) {
        uint64_t end = mcb__uint(offsets, i);
        if ((i == 0 && end != 0) || end < begin || end > text->count ||
            (i + 1 == offsets->count && end != text->count))
            return mcb__wrong_item(m, MCB_E_LABEL_OFFSETS, MCB_S_LABO, i);
        if (end - begin > MCB_MAX_LABEL)
            return mcb__wrong_item(m, MCB_E_LABEL_TEXT, MCB_S_LABS, begin);
        if ((status = mcb__check_text(m, MCB_S_LABS, begin, end))) return status;
        {
            uint64_t j;
            for (j = begin; j < end; j++) {
                if (text->data[j] == 0) return mcb__wrong_item(m, MCB_E_LABEL_TEXT, MCB_S_LABS, j);
            }
        }
        if (i >= 2) {
            /* UTF-8 sorts by bytes as it does by characters. */
            uint64_t a = begin - before, b = end - begin;
            int order = memcmp(text->data + before, text->data + begin, (size_t)(a < b ? a : b));
            if (order > 0 || (order == 0 && a >= b))
                return mcb__wrong_item(m, MCB_E_LABEL_ORDER, MCB_S_LABS, begin);
        }
        before = begin;
        begin = end;
    }
    return MCB_OK;
}
