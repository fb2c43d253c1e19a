/* ------------------------------------------------------------------------------------------------------- prototypes */

/* Take the distance sum_j |x_j - prototype_kj| off the score of each class: one chain of additions. Features that are
 * missing or infinite count nothing. */
static inline void mcb__add_prototypes(const mcb_model *m, const float *x, size_t n_rows,
                                       size_t stride, double *scores) {
    const unsigned char *prototype = m->section[MCB_S_PROT].data;
    size_t K = m->n_classes, d = m->n_features, r, k, j;
    for (r = 0; r < n_rows; r++) {
        for (k = 0; k < K; k++) {
            double distance = 0;
            for (j = 0; j < d; j++) {
                double gap =
                    (double)x[r * stride + j] - (double)mcb__f32(prototype + 4 * (k * d + j));
                if (gap - gap == 0) distance += gap < 0 ? -gap : gap;
            }
            scores[r * K + k] -= distance;
        }
    }
}
