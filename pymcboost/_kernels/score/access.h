/* ----------------------------------------------------------------------------------------- labels, truncation, text */

/* Labels of classes, the number of learners, and models with fewer learners. */

/* Label of class k of a model with integer labels (LABI); 0 for a model with text labels. */
MCB_API int64_t mcb_label_int(const mcb_model *m, uint32_t k) {
    const mcb_section *s = &m->section[MCB_S_LABI];
    return s->data && k < m->n_classes ? (int64_t)mcb__u64(s->data + 8 * (size_t)k) : 0;
}

/* Label of class k of a model with text labels: UTF-8, *length bytes, not ended by a zero. Null for
 * integer labels. */
MCB_API const char *mcb_label_text(const mcb_model *m, uint32_t k, size_t *length) {
    const mcb_section *s = &m->section[MCB_S_LABO];
    uint32_t begin;
    *length = 0;
    if (!s->data || k >= m->n_classes) return 0;
    begin = mcb__uint(s, k);
    *length = mcb__uint(s, (uint64_t)k + 1) - begin;
    return (const char *)m->section[MCB_S_LABS].data + begin;
}

/* The JSON text of the section meta, *length bytes of UTF-8; null if there is none. Its syntax has not been checked. */
MCB_API const char *mcb_meta(const mcb_model *m, size_t *length) {
    *length = (size_t)m->section[MCB_S_META].count;
    return (const char *)m->section[MCB_S_META].data;
}

/* Whether the model is a list of learners: stumps or trees. An interval table and machines have no stages. */
MCB_API int mcb_has_learners(const mcb_model *m) {
    return m->kind == MCB_KIND_STUMPS || m->kind == MCB_KIND_TREES || m->kind == MCB_KIND_PACKED;
}

/* Learners in the first n_rounds rounds: where stages begin and end. n_rounds may be anything up to model->n_rounds. */
MCB_API uint64_t mcb_learners(const mcb_model *m, uint64_t n_rounds) {
    uint64_t r, n = 0;
    if (!m->section[MCB_S_RNDS].data) return n_rounds;
    for (r = 0; r < n_rounds && r < m->section[MCB_S_RNDS].count; r++)
        n += mcb__uint(&m->section[MCB_S_RNDS], r);
    return n;
}

/* Use only the first n_learners learners (stumps or trees) from now on. MCB_E_TRUNCATE for an interval table, whose
 * learners are merged, and for linear and kernel machines; MCB_E_ARGUMENT if the file has fewer.
 * A calibration is left aside, as mcb_calibration says. The bias, the thresholds of labels and the leaves stay as they
 * are. What restore_priors gave the bias of a calibrated model is multiplied by its temperature: cut such a model by
 * Model.truncate in Python or mcboost-convert --rounds, which divide it again. */
MCB_API int mcb_truncate(mcb_model *m, uint64_t n_learners) {
    const mcb_section *rounds = &m->section[MCB_S_RNDS];
    uint64_t r, n = 0;
    if (!mcb_has_learners(m)) return MCB_E_TRUNCATE;
    if (n_learners > mcb__all_learners(m)) return MCB_E_ARGUMENT;
    for (r = 0; r < rounds->count && n + mcb__uint(rounds, r) <= n_learners; r++)
        n += mcb__uint(rounds, r);
    m->n_learners = n_learners;
    m->n_rounds = rounds->data ? r : n_learners;
    return MCB_OK;
}

/* Use only the first n_rounds rounds from now on; otherwise as mcb_truncate. */
MCB_API int mcb_truncate_rounds(mcb_model *m, uint64_t n_rounds) {
    if (!m->section[MCB_S_RNDS].data) return mcb_truncate(m, n_rounds);
    if (n_rounds > m->section[MCB_S_RNDS].count) return MCB_E_ARGUMENT;
    m->n_learners = mcb_learners(m, n_rounds);
    m->n_rounds = n_rounds;
    return MCB_OK;
}

/* Numbers that a row's learners add to: one for every class, or for every column of a code that is decoded later. */
MCB_API uint32_t mcb_score_width(const mcb_model *m) {
    return m->decoder ? (uint32_t)(m->section[MCB_S_CODE].count / m->n_classes) : m->n_classes;
}
