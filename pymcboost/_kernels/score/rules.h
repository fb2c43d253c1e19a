/* --------------------------------------------------------------------------------------------- validation: sections */

/* Which sections each kind of model has, and how a refusal is reported. */

static inline int mcb__fail(mcb_model *m, int status, const unsigned char *tag, uint64_t offset) {
    uint64_t found = m->error_found, expected = m->error_expected;
    int numbers = m->error_has_numbers;
    memset(m, 0, sizeof *m);
    m->error = status;
    m->error_offset = offset;
    m->error_found = found;
    m->error_expected = expected;
    m->error_has_numbers = numbers;
    if (tag) {
        int i;
        for (i = 0; i < 4; i++)
            m->error_tag[i] = (char)(tag[i] >= 33 && tag[i] < 127 ? tag[i] : '?');
    }
    return status;
}

static inline int mcb__fail_numbers(mcb_model *m, int status, const unsigned char *tag,
                                    uint64_t offset, uint64_t found, uint64_t expected) {
    m->error_has_numbers = 1;
    m->error_found = found;
    m->error_expected = expected;
    return mcb__fail(m, status, tag, offset);
}

/* One row per section: allowed types (bit 1 << dtype), kinds that need it and kinds that may have it (bit 1 << kind).
 * A new kind of model is a column of bits here, its shapes in mcb__check_shapes and its contents in
 * mcb__check_contents. */
typedef struct {
    unsigned char tag[5];
    uint32_t dtypes, needed, allowed;
} mcb__rule;

#define MCB__UINTS (1u << MCB_U8 | 1u << MCB_U16 | 1u << MCB_U32)
#define MCB__STUMPS (1u << MCB_KIND_STUMPS)
#define MCB__INTERVALS (1u << MCB_KIND_INTERVALS)
#define MCB__TREES (1u << MCB_KIND_TREES)
#define MCB__LINEAR (1u << MCB_KIND_LINEAR)
#define MCB__KERNEL (1u << MCB_KIND_KERNEL)
#define MCB__PACKED (1u << MCB_KIND_PACKED)
#define MCB__KINDS                                                                                 \
    (MCB__STUMPS | MCB__INTERVALS | MCB__TREES | MCB__LINEAR | MCB__KERNEL | MCB__PACKED)

static const mcb__rule mcb__rules[MCB_N_SLOTS] = {
    {"FEAT", MCB__UINTS, MCB__STUMPS | MCB__TREES, MCB__STUMPS | MCB__TREES},
    {"THRS", 1u << MCB_F32, MCB__STUMPS | MCB__INTERVALS | MCB__TREES,
     MCB__STUMPS | MCB__INTERVALS | MCB__TREES},
    {"COEF", 1u << MCB_F32, MCB__STUMPS, MCB__STUMPS},
    {"COEL", 1u << MCB_F32, 0, MCB__STUMPS},
    {"BIAS", 1u << MCB_F32, MCB__KINDS, MCB__KINDS},
    {"FIDX", MCB__UINTS, MCB__INTERVALS, MCB__INTERVALS},
    {"IOFF", MCB__UINTS, MCB__INTERVALS, MCB__INTERVALS},
    {"TABL", 1u << MCB_F32, MCB__INTERVALS, MCB__INTERVALS},
    {"LABI", 1u << MCB_I64, 0, MCB__KINDS},
    {"LABO", MCB__UINTS, 0, MCB__KINDS},
    {"LABS", 1u << MCB_U8, 0, MCB__KINDS},
    {"meta", 1u << MCB_U8, 0, MCB__KINDS},
    {"TSIZ", MCB__UINTS, MCB__TREES, MCB__TREES},
    {"RGHT", MCB__UINTS, MCB__TREES, MCB__TREES},
    {"LEAF", 1u << MCB_F32 | 1u << MCB_F16, MCB__TREES, MCB__TREES},
    {"TCLS", MCB__UINTS, 0, MCB__TREES},
    {"TBAS", MCB__UINTS, 0, MCB__TREES},
    {"RNDS", MCB__UINTS, MCB__TREES, MCB__TREES | MCB__PACKED},
    {"WMAT", 1u << MCB_F32, MCB__LINEAR, MCB__LINEAR},
    {"SVEC", 1u << MCB_F32, MCB__KERNEL, MCB__KERNEL},
    {"DUAL", 1u << MCB_F32, MCB__KERNEL, MCB__KERNEL},
    {"KPAR", 1u << MCB_F32, MCB__KERNEL, MCB__KERNEL},
    {"SCAL", 1u << MCB_F32, 0, MCB__KERNEL},
    {"CODE", 1u << MCB_F32, 0, MCB__TREES},
    {"CALB", 1u << MCB_F64, 0, MCB__KINDS},
    {"CSET", MCB__UINTS, 0, MCB__TREES},
    {"COFF", MCB__UINTS, 0, MCB__TREES},
    {"CBIT", 1u << MCB_U8, 0, MCB__TREES},
    {"CATF", MCB__UINTS, 0, MCB__TREES},
    {"CATN", MCB__UINTS, 0, MCB__TREES},
    {"CATO", MCB__UINTS, 0, MCB__TREES},
    {"CATS", 1u << MCB_U8, 0, MCB__TREES},
    {"exit", MCB__UINTS, 0, MCB__STUMPS | MCB__TREES},
    {"pair", 1u << MCB_F32 | 1u << MCB_F16, 0, MCB__STUMPS | MCB__TREES},
    {"marg", 1u << MCB_F64, 0, MCB__STUMPS | MCB__TREES},
    {"rjct", 1u << MCB_F64, 0, MCB__STUMPS | MCB__TREES},
    {"ABOV", 1u << MCB_F64, 0, MCB__KINDS},
    {"LOFF", MCB__UINTS, 0, MCB__TREES},
    {"LCLS", MCB__UINTS, 0, MCB__TREES},
    {"PACK", 1u << MCB_U8, MCB__PACKED, MCB__PACKED},
    {"LALL", 1u << MCB_F32 | 1u << MCB_F16, 0, MCB__TREES},
    {"calb", 1u << MCB_F64, 0, MCB__KINDS},
};

static inline int mcb__wrong_item(mcb_model *m, int status, int slot, uint64_t item) {
    const mcb_section *s = &m->section[slot];
    return mcb__fail(m, status, mcb__rules[slot].tag,
                     (uint64_t)(s->data - m->data) + item * mcb__dtype_size(s->dtype));
}
