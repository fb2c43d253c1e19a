/* ----------------------------------------------------------------------------------------- lazy features, integers */

/* Rows that ask for their features one by one, and sparse rows and rows of integers. */

/* Scores of rows that are not floats. */
static inline void mcb__scores_of(const mcb_model *m, const void *x, int values, size_t n_rows,
                                  size_t stride, double *scores) {
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
MCB_API void mcb_scores_lazy(const mcb_model *m, mcb_feature get, void *context, float *row,
                             unsigned char *known, double *scores) {
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
MCB_API int mcb_predict_early_lazy(const mcb_model *m, int way, mcb_feature get, void *context,
                                   float *row, unsigned char *known, double *scores,
                                   uint32_t *label, uint64_t *n_learners) {
    mcb__lazy s;
    uint32_t f;
    s.get = get;
    s.context = context;
    s.row = row;
    s.known = known;
    if (m->kind == MCB_KIND_LINEAR &&
        mcb_has_early(m, way)) { /* every hyperplane asks for everything */
        for (f = 0; f < m->n_features; f++) mcb__ask(&s, f);
        return mcb_predict_early(m, way, row, scores, label, n_learners);
    }
    return mcb__predict_early(m, way, &s, MCB__VALUES_LAZY, scores, label, n_learners);
}

/* A feature of a row given by those that are not 0. */
static inline float mcb__entry(void *context, uint32_t feature) {
    const mcb__row *row = (const mcb__row *)context;
    size_t first = 0, n = row->n;
    while (n) {
        size_t half = n / 2;
        if (row->index[first + half] < feature) {
            first += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return first < row->n && row->index[first] == feature ? row->x[first] : 0;
}

static inline mcb__lazy mcb__entries(mcb__row *row, size_t n, const uint32_t *index,
                                     const float *value) {
    static const uint32_t none = 0; /* a null index would mean all features */
    mcb__lazy s;
    row->x = value;
    row->index = n ? index : &none;
    row->n = n;
    s.get = mcb__entry;
    s.context = row;
    s.row = 0;
    s.known = 0;
    return s;
}

/* Scores of one row given by its n features that are not 0: index strictly increasing. The same bits as mcb_scores gives
 * for the whole row, in time and memory that do not depend on n_features: lists of stumps and trees look up the features
 * that their splits ask about, as they are in the file, and a linear machine must have been prepared (mcb_prepare).
 * MCB_E_ARGUMENT for a linear machine that is not, for a kernel machine, whose support vectors ask for every feature, and
 * for a wrong index. */
MCB_API int mcb_scores_sparse(const mcb_model *m, size_t n, const uint32_t *index,
                              const float *value, double *scores) {
    mcb__row row;
    mcb__lazy s;
    if (m->kind == MCB_KIND_KERNEL || (m->kind == MCB_KIND_LINEAR && !m->prepared))
        return MCB_E_ARGUMENT;
    if (mcb__check_index(m, n, index)) return MCB_E_ARGUMENT;
    if (m->kind == MCB_KIND_LINEAR) {
        mcb__linear_sparse(m, n, index, value, scores);
        return MCB_OK;
    }
    s = mcb__entries(&row, n, index, value);
    mcb__scores_of(m, &s, MCB__VALUES_LAZY, 1, 0, scores);
    return MCB_OK;
}

/* mcb_predict_early with MCB_EARLY_CERTIFIED for a row given by its n features that are not 0: index strictly increasing.
 * MCB_E_EARLY unless mcb_has_early; MCB_E_ARGUMENT for a wrong index. */
MCB_API int mcb_predict_early_sparse(const mcb_model *m, size_t n, const uint32_t *index,
                                     const float *value, double *scores, uint32_t *label,
                                     uint64_t *n_learners) {
    mcb__row row;
    mcb__lazy s;
    if (!mcb_has_early(m, MCB_EARLY_CERTIFIED)) return MCB_E_EARLY;
    if (mcb__check_index(m, n, index)) return MCB_E_ARGUMENT;
    s = mcb__entries(&row, n, index, value);
    if (m->kind == MCB_KIND_LINEAR) return mcb__predict_linear(m, &row, scores, label, n_learners);
    return mcb__predict_early(m, MCB_EARLY_CERTIFIED, &s, MCB__VALUES_LAZY, scores, label,
                              n_learners);
}

/* Scores of rows of uint8_t, int16_t or float (enum mcb_values), without a converted copy. Rows begin stride numbers
 * apart, which may be fewer than n_features: windows of a signal. The same bits as for the same numbers in float32.
 * MCB_E_ARGUMENT for other values, and for integers with a linear or kernel machine. */
MCB_API int mcb_scores_values(const mcb_model *m, int values, const void *x, size_t n_rows,
                              size_t stride, double *scores) {
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
