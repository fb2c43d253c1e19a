/* ------------------------------------------------------------------------------------------------- features in use */

/* Which features a model uses. */

/* Set the bit of a feature; 1 if it was not set before. */
static inline uint32_t mcb__use(unsigned char *used, uint32_t f) {
    unsigned char bit = (unsigned char)(1u << (f & 7));
    if (used[f >> 3] & bit) return 0;
    used[f >> 3] = (unsigned char)(used[f >> 3] | bit);
    return 1;
}

/* Features of the splits of the first trees of a packed model. */
static inline uint32_t mcb__used_packed(const mcb_model *m, unsigned char *used) {
    uint64_t i, t, end = 0;
    uint32_t count = 0;
    mcb__pack p;
    mcb__pack_of(m, &p);
    for (t = 0; t < m->n_learners; t++) end += mcb__pack_size(&p, t);
    for (i = 0; i < end; i++) {
        uint32_t f = mcb__bits(p.split, i * p.split_bits, p.feature_bits);
        count += mcb__use(used, mcb__uint(&p.feature, f));
    }
    return count;
}

/* Features of a machine that have a number other than 0 in some hyperplane or support vector; all of them where the
 * kernel takes distances, to which every feature adds. Not those that a scale makes 0. */
static inline uint32_t mcb__used_machine(const mcb_model *m, unsigned char *used) {
    const mcb_section *s = &m->section[m->kind == MCB_KIND_LINEAR ? MCB_S_WMAT : MCB_S_SVEC];
    const unsigned char *scale = m->section[MCB_S_SCAL].data, *kpar = m->section[MCB_S_KPAR].data;
    int kernel = m->kind == MCB_KIND_LINEAR ? MCB_KERNEL_LINEAR : (int)mcb__f32(kpar);
    int all = kernel == MCB_KERNEL_RBF || kernel == MCB_KERNEL_PERCEPTRON;
    uint64_t i, d = m->n_features;
    uint32_t count = 0;
    for (i = 0; i < s->count; i++) {
        uint32_t f = (uint32_t)(i % d);
        if (scale && mcb__f32(scale + 4 * (size_t)(d + f)) == 0) continue;
        if (all || mcb__f32(s->data + 4 * (size_t)i) != 0) count += mcb__use(used, f);
    }
    return count;
}

/* Which features can matter to the learners in use. used has room for (n_features + 7) / 8 bytes: bit f mod 8 of byte
 * f / 8 says that feature f occurs in a learner, or in a machine moves a product or a distance; the others may hold
 * anything that stays finite in float32 after the machine's scaling. Returns how many they are. Reads the whole model:
 * not for every row. */
MCB_API uint32_t mcb_used_features(const mcb_model *m, unsigned char *used) {
    const mcb_section *s = &m->section[m->kind == MCB_KIND_INTERVALS ? MCB_S_FIDX : MCB_S_FEAT];
    uint64_t i, end = m->kind == MCB_KIND_INTERVALS ? s->count : m->n_learners;
    uint32_t count = 0, mask = UINT32_MAX;
    memset(used, 0, ((size_t)m->n_features + 7) / 8);
    if (m->kind == MCB_KIND_PACKED) return mcb__used_packed(m, used);
    if (m->kind == MCB_KIND_LINEAR || m->kind == MCB_KIND_KERNEL) return mcb__used_machine(m, used);
    if (m->kind == MCB_KIND_TREES) end = mcb__tree_begin(m, m->n_learners);
    if (m->kind != MCB_KIND_INTERVALS)
        mask = s->dtype == MCB_U8 ? 0x7fu : s->dtype == MCB_U16 ? 0x7fffu : 0x7fffffffu;
    for (i = 0; i < end; i++) count += mcb__use(used, mcb__uint(s, i) & mask);
    return count;
}
