/* ----------------------------------------------------------------------------------------- lazy features, integers */

/* Scores of rows that are not floats. */
static inline void mcb__scores_of(const mcb_model *m, const void *x, int values, size_t n_rows, size_t stride,
                                  double *scores) {
    size_t r, K = m->n_classes;
    if (m->decoder) {
        mcb__scores_decoded(m, x, values, n_rows, stride, scores);
        return;
    }
    mcb_start_scores(m, n_rows, scores);
    if (m->kind == MCB_KIND_TREES) {
        mcb__add_trees(m, x, values, n_rows, stride, 0, m->n_learners, scores);
        return;
    }
    if (m->kind == MCB_KIND_PACKED) {
        mcb__add_packed(m, x, values, n_rows, stride, 0, m->n_learners, scores);
        return;
    }
    for (r = 0; r < n_rows; r++) {
        const void *row = mcb__later(x, values, r * stride);
        if (m->kind == MCB_KIND_STUMPS)
            mcb__add_stumps_plain(m, row, values, 0, m->n_learners, scores + r * K);
        else
            mcb__add_intervals_plain(m, row, values, scores + r * K);
    }
}

/* Scores of one row whose features are computed when a learner asks for them, each at most once. get(context, feature)
 * gives the value of one, NaN if it is missing.
 *
 * row has room for n_features floats and known for (n_features + 7) / 8 bytes: bit f mod 8 of byte f / 8 says that row
 * has feature f. Clear them before a row, but for features that are there already; afterwards they say what was
 * computed. The same bits as mcb_scores gives for the whole row. Linear and kernel machines ask for everything. */
MCB_API void mcb_scores_lazy(const mcb_model *m, mcb_feature get, void *context, float *row, unsigned char *known,
                             double *scores) {
    mcb__lazy s;
    uint32_t f;
    s.get = get;
    s.context = context;
    s.row = row;
    s.known = known;
    if (m->kind != MCB_KIND_LINEAR && m->kind != MCB_KIND_KERNEL) {
        mcb__scores_of(m, &s, MCB__VALUES_LAZY, 1, 0, scores);
        return;
    }
    for (f = 0; f < m->n_features; f++) mcb__ask(&s, f);
    mcb_scores(m, row, scores);
}

/* mcb_predict_early with features that are computed as for mcb_scores_lazy: those of learners that are left out are not. */
MCB_API int mcb_predict_early_lazy(const mcb_model *m, int way, mcb_feature get, void *context, float *row,
                                   unsigned char *known, double *scores, uint32_t *label, uint64_t *n_learners) {
    mcb__lazy s;
    uint32_t f;
    s.get = get;
    s.context = context;
    s.row = row;
    s.known = known;
    if (m->kind == MCB_KIND_LINEAR && mcb_has_early(m, way)) { /* every hyperplane asks for everything */
        for (f = 0; f < m->n_features; f++) mcb__ask(&s, f);
        return mcb_predict_early(m, way, row, scores, label, n_learners);
    }
    return mcb__predict_early(m, way, &s, MCB__VALUES_LAZY, scores, label, n_learners);
}

/* Scores of rows of uint8_t, int16_t or float (enum mcb_values), without a converted copy. Rows begin stride numbers
 * apart, which may be fewer than n_features: windows of a signal. The same bits as for the same numbers in float32.
 * MCB_E_ARGUMENT for other values, and for integers with a linear or kernel machine. */
MCB_API int mcb_scores_values(const mcb_model *m, int values, const void *x, size_t n_rows, size_t stride,
                              double *scores) {
    if (values == MCB_VALUES_F32) {
        mcb_scores_batch(m, (const float *)x, n_rows, stride, scores);
        return MCB_OK;
    }
    if ((values != MCB_VALUES_U8 && values != MCB_VALUES_I16) || m->kind == MCB_KIND_LINEAR ||
        m->kind == MCB_KIND_KERNEL)
        return MCB_E_ARGUMENT;
    mcb__scores_of(m, x, values, n_rows, stride, scores);
    return MCB_OK;
}
