/* ------------------------------------------------------------------------------------------------------------- open */

/* Opens a file: its header, its table of sections, and all checks. */

static inline int mcb__letter(unsigned char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Read and check one entry of the section table. *end is where the previous section ended. */
static inline int mcb__open_section(mcb_model *m, uint64_t entry, uint64_t *end) {
    const unsigned char *p = m->data + entry;
    uint64_t offset = mcb__u64(p + 8), count = mcb__u64(p + 16), room, i;
    uint32_t dtype = p[4], size = mcb__dtype_size(dtype);
    int slot;
    for (i = 0; i < 4; i++) {
        if (!mcb__letter(p[i]) && (i == 0 || p[i] < '0' || p[i] > '9'))
            return mcb__fail(m, MCB_E_TAG, p, entry);
    }
    if (size == 0) return mcb__fail_numbers(m, MCB_E_DTYPE, p, entry + 4, dtype, MCB_F16);
    if (p[5] | p[6] | p[7] | (int)(mcb__u32(p + 28) != 0))
        return mcb__fail(m, MCB_E_SECTION_RESERVED, p, entry);
    if (offset % 64) return mcb__fail(m, MCB_E_ALIGNMENT, p, entry + 8);
    if (offset < *end) return mcb__fail_numbers(m, MCB_E_ORDER, p, entry + 8, offset, *end);
    if (offset - *end >= 64) return mcb__fail(m, MCB_E_GAP, p, entry + 8);
    room = offset > m->size ? 0 : (m->size - offset) / size;
    if (offset > m->size || count > room)
        return mcb__fail_numbers(m, MCB_E_COUNT, p, entry + 16, count, room);
    for (i = *end; i < offset; i++) {
        if (m->data[i]) return mcb__fail(m, MCB_E_PADDING, p, i);
    }
    *end = offset + count * size;
    for (slot = 0; slot < MCB_N_SLOTS; slot++) {
        if (memcmp(p, mcb__rules[slot].tag, 4) == 0) break;
    }
    if (slot == MCB_N_SLOTS) {
        if (p[0] >= 'a') return MCB_OK;
        return mcb__fail(m, MCB_E_UNKNOWN, p, entry);
    }
    if (!(mcb__rules[slot].allowed >> m->kind & 1)) return mcb__fail(m, MCB_E_MISPLACED, p, entry);
    if (!(mcb__rules[slot].dtypes >> dtype & 1)) return mcb__fail(m, MCB_E_DTYPE, p, entry + 4);
    if (slot == MCB_S_META && count > MCB_MAX_META)
        return mcb__fail_numbers(m, MCB_E_META_SIZE, p, entry + 16, count, MCB_MAX_META);
    m->section[slot].data = m->data + offset;
    m->section[slot].count = count;
    m->section[slot].dtype = dtype;
    return MCB_OK;
}

/* Check a whole file that lies in memory and prepare it for scoring.
 *
 * Returns MCB_OK, or why the file is refused; model->error_* then say where. Time is linear in size; nothing is
 * allocated. The bytes are borrowed: keep them unchanged while the model is in use. There is nothing to close. */
MCB_API int mcb_open(mcb_model *model, const void *bytes, size_t size) {
    static const unsigned char magic[8] = {0x89, 'M', 'C', 'B', 0x0d, 0x0a, 0x1a, 0x0a};
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t end, i, j;
    uint32_t n_sections, crc;
    int status, slot;
    if (!model) return MCB_E_ARGUMENT;
    memset(model, 0, sizeof *model);
    if (!p && size) return mcb__fail(model, MCB_E_ARGUMENT, 0, 0);
    if (size < 64) return mcb__fail_numbers(model, MCB_E_SHORT, 0, size, size, 64);
    if (memcmp(p, magic, 8) != 0) return mcb__fail(model, MCB_E_MAGIC, 0, 0);
    if (mcb__u16(p + 8) != MCB_FORMAT_MAJOR)
        return mcb__fail_numbers(model, MCB_E_MAJOR, 0, 8, mcb__u16(p + 8), MCB_FORMAT_MAJOR);
    if (mcb__u32(p + 12) & 0xffff) return mcb__fail(model, MCB_E_FLAGS, 0, 12);
    if (mcb__u64(p + 16) != size)
        return mcb__fail_numbers(model, MCB_E_FILE_SIZE, 0, 16, size, mcb__u64(p + 16));
    n_sections = mcb__u32(p + 24);
    if (n_sections < 1 || n_sections > MCB_MAX_SECTIONS || n_sections > (size - 64) / 32)
        return mcb__fail_numbers(model, MCB_E_SECTION_COUNT, 0, 24, n_sections, MCB_MAX_SECTIONS);
    crc = mcb_crc32c(mcb_crc32c(0, p, 56), p + 64, 32 * (size_t)n_sections);
    if (crc != mcb__u32(p + 56)) return mcb__fail(model, MCB_E_HEADER_CRC, 0, 56);
    for (i = 28; i < 64; i += i == 28 ? 24 : 8) {
        if (mcb__u32(p + i)) return mcb__fail(model, MCB_E_HEADER_RESERVED, 0, i);
    }
    model->data = p;
    model->size = size;
    model->format_minor = mcb__u16(p + 10);
    model->n_classes = mcb__u32(p + 32);
    model->n_features = mcb__u32(p + 36);
    model->kind = mcb__u32(p + 40);
    model->link = mcb__u32(p + 44);
    model->decoder = mcb__u32(p + 48);
    if (model->n_classes < 2 || model->n_classes > MCB_MAX_CLASSES)
        return mcb__fail_numbers(model, MCB_E_CLASSES, 0, 32, model->n_classes, MCB_MAX_CLASSES);
    if (model->n_features < 1 || model->n_features > MCB_MAX_FEATURES)
        return mcb__fail_numbers(model, MCB_E_FEATURES, 0, 36, model->n_features, MCB_MAX_FEATURES);
    if (model->kind > 31 || !(MCB__KINDS >> model->kind & 1))
        return mcb__fail(model, MCB_E_KIND, 0, 40);
    if (model->link > MCB_LINK_SHARES) return mcb__fail(model, MCB_E_LINK, 0, 44);
    if (model->decoder != MCB_DECODER_LINEAR &&
        (model->kind != MCB_KIND_TREES || model->decoder > MCB_DECODER_EXP))
        return mcb__fail(model, MCB_E_DECODER, 0, 48);

    end = 64 + 32 * (uint64_t)n_sections;
    for (i = 0; i < n_sections; i++) {
        uint64_t entry = 64 + 32 * i;
        for (j = 0; j < i; j++) {
            if (memcmp(p + entry, p + 64 + 32 * j, 4) == 0)
                return mcb__fail(model, MCB_E_DUPLICATE, p + entry, entry);
        }
        if ((status = mcb__open_section(model, entry, &end))) return status;
    }
    if (end != size) return mcb__fail_numbers(model, MCB_E_END, 0, end, end, size);

    for (slot = 0; slot < MCB_N_SLOTS; slot++) {
        if (mcb__rules[slot].needed >> model->kind & 1 && !model->section[slot].data)
            return mcb__fail(model, MCB_E_MISSING, mcb__rules[slot].tag, 64);
    }
    {
        int ints = model->section[MCB_S_LABI].data != 0,
            offsets = model->section[MCB_S_LABO].data != 0,
            text = model->section[MCB_S_LABS].data != 0;
        if (offsets != text || ints == text) return mcb__fail(model, MCB_E_LABEL_KIND, 0, 64);
    }
    if ((status = mcb__check_shapes(model))) return status;
    for (i = 0; i < n_sections; i++) {
        const unsigned char *entry = p + 64 + 32 * i;
        uint64_t offset = mcb__u64(entry + 8),
                 length = mcb__u64(entry + 16) * mcb__dtype_size(entry[4]);
        if (mcb_crc32c(0, p + offset, (size_t)length) != mcb__u32(entry + 24))
            return mcb__fail(model, MCB_E_SECTION_CRC, entry, offset);
    }
    return mcb__check_contents(model);
}
