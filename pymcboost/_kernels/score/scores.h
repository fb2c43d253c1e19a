/* ----------------------------------------------------------------------------------------------------------- scores */

/* Scores of any model, for one row or for many, and predictions from them. */

/* Scores before any learner, for n_rows rows of mcb_score_width scores: the biases, or 0 where there is a decoder. */
MCB_API void mcb_start_scores(const mcb_model *m, size_t n_rows, double *scores) {
    size_t r, k, K = mcb_score_width(m);
    for (r = 0; r < n_rows; r++) {
        for (k = 0; k < K; k++)
            scores[r * K + k] =
                m->decoder ? 0.0 : (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * k);
    }
}

/* Scores of the classes of one row from those that the learners have been added to (mcb_score_width of them). Without
 * a decoder they are the same. Hamming: minus the number of columns on whose other side the class stands, one half for
 * those that say nothing; exp: minus the logarithm of the sum of exp(-code * score). */
MCB_API void mcb_decode(const mcb_model *m, const double *columns, double *scores) {
    uint32_t j, k, K = m->n_classes, P = mcb_score_width(m);
    const unsigned char *code = m->section[MCB_S_CODE].data;
    for (k = 0; k < K; k++) {
        double bias = (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * k), sum = 0, top = 0;
        if (!m->decoder) {
            scores[k] = columns[k];
            continue;
        }
        for (j = 0; j < P; j++) {
            double margin = (double)mcb__f32(code + 4 * ((uint64_t)j * K + k)) * columns[j];
            if (m->decoder == MCB_DECODER_HAMMING)
                sum += margin > 0 ? 0.0 : margin < 0 ? 1.0 : 0.5;
            else if (j == 0 || -margin > top)
                top = -margin;
        }
        if (m->decoder == MCB_DECODER_EXP) {
            for (j = 0; j < P; j++) {
                volatile double margin =
                    (double)mcb__f32(code + 4 * ((uint64_t)j * K + k)) * columns[j];
                sum += mcb_exp(-margin - top);
            }
            sum = top + mcb_log(sum);
        }
        scores[k] = bias - sum;
    }
}

/* Add the learners from <= j < to to the scores of n_rows rows (of mcb_score_width each, for mcb_decode), for staged
 * scores. Adding 0 to 5 and then 5 to n gives
 * the bits of 0 to n. MCB_E_TRUNCATE unless mcb_has_learners; MCB_E_ARGUMENT unless from <= to <= n_learners. */
MCB_API int mcb_add_learners(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                             uint64_t from, uint64_t to, double *scores) {
    if (!mcb_has_learners(m)) return MCB_E_TRUNCATE;
    if (from > to || to > m->n_learners) return MCB_E_ARGUMENT;
    if (m->kind == MCB_KIND_TREES)
        mcb__add_trees(m, x, MCB_VALUES_F32, n_rows, stride, from, to, scores);
    else if (m->kind == MCB_KIND_PACKED)
        mcb__add_packed(m, x, MCB_VALUES_F32, n_rows, stride, from, to, scores);
    else if (from < to)
        mcb__add_stumps_batch(m, x, n_rows, stride, from, to, scores);
    return MCB_OK;
}

/* Groups of rows whose scores of columns fit on the stack: 32 KB. */
MCB__APART void mcb__scores_decoded(const mcb_model *m, const void *x, int values, size_t n_rows,
                                    size_t stride, double *scores) {
    double columns[MCB_MAX_COLUMNS];
    size_t r, n, P = mcb_score_width(m);
    for (; n_rows; n_rows -= n, x = mcb__later(x, values, n * stride), scores += n * m->n_classes) {
        n = MCB_MAX_COLUMNS / P < n_rows ? MCB_MAX_COLUMNS / P : n_rows;
        if (n > 16) n = 16;
        mcb_start_scores(m, n, columns);
        mcb__add_trees(m, x, values, n, stride, 0, m->n_learners, columns);
        for (r = 0; r < n; r++) mcb_decode(m, columns + r * P, scores + r * m->n_classes);
    }
}

/* Scores of one row: x has n_features floats, scores room for n_classes doubles. */
MCB_API void mcb_scores(const mcb_model *m, const float *x, double *scores) {
    if (m->decoder) {
        mcb__scores_decoded(m, x, MCB_VALUES_F32, 1, 0, scores);
        return;
    }
    mcb_start_scores(m, 1, scores);
    if (m->kind == MCB_KIND_STUMPS)
        mcb__add_stumps_row(m, x, 0, m->n_learners, scores);
    else if (m->kind == MCB_KIND_TREES)
        mcb__add_trees(m, x, MCB_VALUES_F32, 1, 0, 0, m->n_learners, scores);
    else if (m->kind == MCB_KIND_PACKED)
        mcb__add_packed(m, x, MCB_VALUES_F32, 1, 0, 0, m->n_learners, scores);
    else if (m->kind == MCB_KIND_LINEAR || m->kind == MCB_KIND_KERNEL)
        mcb__add_machine(m, x, 1, 0, scores);
    else
        mcb__add_intervals_row(m, x, scores);
}

/* Scores of n_rows rows that begin stride floats apart (stride >= n_features); scores is n_rows x n_classes, row after
 * row. The same bits as mcb_scores gives row by row. */
MCB_API void mcb_scores_batch(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                              double *scores) {
    size_t r;
    if (m->decoder) {
        mcb__scores_decoded(m, x, MCB_VALUES_F32, n_rows, stride, scores);
        return;
    }
    mcb_start_scores(m, n_rows, scores);
    if (m->kind == MCB_KIND_STUMPS) {
        if (m->n_learners) mcb__add_stumps_batch(m, x, n_rows, stride, 0, m->n_learners, scores);
    } else if (m->kind == MCB_KIND_TREES) {
        mcb__add_trees(m, x, MCB_VALUES_F32, n_rows, stride, 0, m->n_learners, scores);
    } else if (m->kind == MCB_KIND_PACKED) {
        mcb__add_packed(m, x, MCB_VALUES_F32, n_rows, stride, 0, m->n_learners, scores);
    } else if (m->kind == MCB_KIND_LINEAR || m->kind == MCB_KIND_KERNEL) {
        mcb__add_machine(m, x, n_rows, stride, scores);
    } else {
        for (r = 0; r < n_rows; r++)
            mcb__add_intervals_row(m, x + r * stride, scores + r * (size_t)m->n_classes);
    }
}

MCB__INLINE int mcb__before(const double *scores, uint32_t a, uint32_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

/* Where class k belongs in a heap of n without its top. */
static inline uint32_t mcb__sift(const double *scores, uint32_t *heap, uint32_t n, uint32_t k) {
    uint32_t i = 0, child;
    for (; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && mcb__before(scores, heap[child], heap[child + 1])) child++;
        if (!mcb__before(scores, k, heap[child])) break;
        heap[i] = heap[child];
    }
    return i;
}

/* Class with the highest score; ties go to the lowest index. */
MCB_API uint32_t mcb_argmax(const mcb_model *m, const double *scores) {
    uint32_t k, best = 0;
    for (k = 1; k < m->n_classes; k++) {
        if (scores[k] > scores[best]) best = k;
    }
    return best;
}

/* Add a class to a heap of up to n of those with the highest scores, its last in order on top. */
static inline void mcb__keep(const double *scores, uint32_t k, uint32_t n, uint32_t *kept,
                             uint32_t *heap) {
    uint32_t i;
    if (*kept < n) {
        for (i = (*kept)++; i && mcb__before(scores, heap[(i - 1) / 2], k); i = (i - 1) / 2)
            heap[i] = heap[(i - 1) / 2];
    } else {
        if (!mcb__before(scores, k, heap[0])) return;
        i = mcb__sift(scores, heap, n, k);
    }
    heap[i] = k;
}

/* A heap of n classes in order, from the highest score on. */
static inline void mcb__in_order(const double *scores, uint32_t n, uint32_t *heap) {
    while (n > 1) { /* the last goes to the end */
        uint32_t child = heap[--n], k = heap[0];
        heap[mcb__sift(scores, heap, n, child)] = child;
        heap[n] = k;
    }
}

/* The n classes with the highest scores, from the highest on; of equal scores the lowest class comes first. n is from 1 to
 * n_classes; top has room for n numbers. Takes n_classes steps, and about n log(n) more for each new one among the n. */
MCB_API void mcb_top(const mcb_model *m, const double *scores, uint32_t n, uint32_t *top) {
    uint32_t k, kept = 0;
    for (k = 0; k < m->n_classes; k++) mcb__keep(scores, k, n, &kept, top);
    mcb__in_order(scores, kept, top);
}

/* Class of one row; scores (room for n_classes doubles) receives its scores. */
MCB_API uint32_t mcb_predict(const mcb_model *m, const float *x, double *scores) {
    mcb_scores(m, x, scores);
    return mcb_argmax(m, scores);
}
