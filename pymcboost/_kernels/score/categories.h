/* ------------------------------------------------------------------------------------------------------- categories */

/* Names and codes of categories, and on which side of a split they go. */

/* Place of a feature among the categorical ones; their number if it is none of them. */
static inline uint64_t mcb__category(const mcb_model *m, uint32_t feature) {
    const mcb_section *s = &m->section[MCB_S_CATF];
    uint32_t low = s->dtype == MCB_U8 ? 0x7fu : s->dtype == MCB_U16 ? 0x7fffu : 0x7fffffffu;
    uint64_t from = 0, to = s->count;
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if ((mcb__uint(s, middle) & low) < feature)
            from = middle + 1;
        else
            to = middle;
    }
    return from < s->count && (mcb__uint(s, from) & low) == feature ? from : s->count;
}

/* Whether the levels of a category have names, which are the numbers from *first on in CATO. */
static inline int mcb__named(const mcb_model *m, uint64_t category, uint64_t *first) {
    const mcb_section *s = &m->section[MCB_S_CATF];
    uint32_t top = s->dtype == MCB_U8 ? 7 : s->dtype == MCB_U16 ? 15 : 31;
    uint64_t c;
    *first = 0;
    if (category >= s->count) return 0;
    for (c = 0; c < category; c++) {
        if (mcb__uint(s, c) >> top) *first += mcb__uint(&m->section[MCB_S_CATN], c);
    }
    return (int)(mcb__uint(s, category) >> top);
}

/* Number of levels of a categorical feature, whose values in a row are their codes 0, 1, ...; 0 for any other feature. A
 * code that is not one of them counts as missing. */
MCB_API uint32_t mcb_levels(const mcb_model *m, uint32_t feature) {
    uint64_t c = mcb__category(m, feature);
    return c < m->section[MCB_S_CATF].count ? mcb__uint(&m->section[MCB_S_CATN], c) : 0;
}

/* Name of a level: UTF-8, *length bytes, not ended by a zero. Null if there is none: the feature's values are its codes. */
MCB_API const char *mcb_level_text(const mcb_model *m, uint32_t feature, uint32_t code,
                                   size_t *length) {
    const mcb_section *s = &m->section[MCB_S_CATO];
    uint64_t first;
    uint32_t begin;
    *length = 0;
    if (!mcb__named(m, mcb__category(m, feature), &first) || code >= mcb_levels(m, feature))
        return 0;
    begin = mcb__uint(s, first + code);
    *length = mcb__uint(s, first + code + 1) - begin;
    return (const char *)m->section[MCB_S_CATS].data + begin;
}

/* Value in a row of a categorical feature that the text, of `length` bytes in UTF-8, names: its code, or NaN for a text
 * that the training did not have. */
MCB_API float mcb_level_code(const mcb_model *m, uint32_t feature, const char *text,
                             size_t length) {
    uint32_t from = 0, to = mcb_levels(m, feature);
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        size_t n;
        const char *name = mcb_level_text(m, feature, middle, &n);
        int order;
        if (!name) break;
        order = memcmp(name, text, n < length ? n : length);
        if (order == 0 && n == length) return (float)middle;
        if (order < 0 || (order == 0 && n < length))
            from = middle + 1;
        else
            to = middle;
    }
    return (float)mcb__f64_of(UINT64_C(0x7ff8000000000000));
}

/* Whether a code is among the first `codes`, of which those with a bit go left; another one is missing. */
MCB__INLINE int mcb__goes_left(const unsigned char *bits, float codes, float code, int missing) {
    uint32_t c;
    if (!(code >= 0 && code < codes)) return missing;
    c = (uint32_t)code;
    return (float)c == code ? bits[c >> 3] >> (c & 7) & 1 : missing;
}

/* Bits of set number q, counted from 1, and the number of codes that they cover. */
MCB__INLINE const unsigned char *mcb__set(const mcb_section *offset, const unsigned char *bits,
                                          uint32_t q, float *codes) {
    uint32_t begin = mcb__uint(offset, q - 1);
    *codes = 8.0f * (float)(mcb__uint(offset, q) - begin);
    return bits + begin;
}

static inline int mcb__in_set(const mcb_section *offset, const unsigned char *bits, uint32_t q,
                              float code, int missing) {
    float codes;
    bits = mcb__set(offset, bits, q, &codes);
    return mcb__goes_left(bits, codes, code, missing);
}
