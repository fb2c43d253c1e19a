/* ---------------------------------------------------------------------------------------------------- probabilities */

/* Probabilities from scores, and sets of labels. */

/* The factor by which scores are multiplied on their way to probabilities, 1 / temperature, of a model that is
 * calibrated or whose loss asks for one; 0 for others. A calibration is one of all learners: where mcb_truncate has left
 * some out, it is the factor that the loss asks for, or 0. */
MCB_API double mcb_calibration(const mcb_model *m) {
    int all = m->n_learners == mcb__all_learners(m);
    const unsigned char *factor = m->section[all ? MCB_S_CALB : MCB_S_FCAL].data;
    return factor ? mcb__f64(factor) : 0.0;
}

MCB_API int mcb_has_probabilities(const mcb_model *m) {
    return m->link != MCB_LINK_NONE || mcb_calibration(m) > 0;
}

/* Sum of the exponentials of a softmax, each from 0 to 1, in whole numbers of 2^-52 (fewer digits from 1,024 classes on).
 * Such a sum does not depend on the order of the classes: rows with the same scores in another order have equal
 * probabilities, so that they tie in a ranking. The error is below K / 2 units, and the sum is at least 1. */
static double mcb__sum_of_exponentials(const double *e, uint32_t K) {
    double unit = 4503599627370496.0; /* 2^52 */
    int64_t sum = 0;
    uint32_t k;
    while (unit * K > 4611686018427387904.0) unit /= 2; /* 2^62 */
    for (k = 0; k < K; k++)
        if (e[k] > 0)
            sum += (int64_t)(e[k] * unit + 0.5); /* NaN is above nothing; the product is exact */
    return (double)sum / unit;
}

/* The softmax of the scores of one row, or of twice the scores, times the factor, in place. */
static void mcb__softmax(double *scores, uint32_t K, int doubled, double factor) {
    double top = scores[0], sum;
    uint32_t k;
    for (k = 1; k < K; k++)
        if (scores[k] > top) top = scores[k];
    for (k = 0; k < K; k++) {
        double below = scores[k] - top;
        if (doubled) below += below;
        scores[k] =
            mcb_exp(below * factor); /* the doubling is exact, so that there is nothing to fuse */
    }
    sum = mcb__sum_of_exponentials(scores, K);
    for (k = 0; k < K; k++) scores[k] /= sum;
}

/* The share of every class in the sum of the scores of one row, in place. Scores below 0 count as 0; where none is above
 * 0, all shares are equal. */
static void mcb__share_out(double *scores, uint32_t K) {
    double top = scores[0], sum;
    uint32_t k;
    for (k = 1; k < K; k++)
        if (scores[k] > top) top = scores[k];
    if (top <= 0) {
        for (k = 0; k < K; k++) scores[k] = 1.0 / K;
        return;
    }
    for (k = 0; k < K; k++) scores[k] = scores[k] > 0 ? scores[k] / top : 0.0;
    sum = mcb__sum_of_exponentials(scores, K); /* they are from 0 to 1, too */
    for (k = 0; k < K; k++) scores[k] /= sum;
}

/* Turn the scores of one row into probabilities, in place: softmax of the scores, or of twice the scores (link 2), times
 * the factor of a calibrated model; 1 / (1 + exp(-score)) of each label (link 3); shares in the sum of the scores (link
 * 4). MCB_E_NO_LINK, and scores untouched, if the model has neither link nor factor. */
MCB_API int mcb_probabilities(const mcb_model *m, double *scores) {
    uint32_t k;
    double factor = mcb_calibration(m);
    if (m->link == MCB_LINK_SHARES) {
        mcb__share_out(scores, m->n_classes);
        return MCB_OK;
    }
    if (!(factor > 0)) {
        if (m->link == MCB_LINK_NONE) return MCB_E_NO_LINK;
        factor = 1;
    }
    if (m->link != MCB_LINK_SIGMOID) {
        mcb__softmax(scores, m->n_classes, m->link == MCB_LINK_SOFTMAX2, factor);
        return MCB_OK;
    }
    for (k = 0; k < m->n_classes; k++) {
        double x = scores[k] * factor, e = mcb_exp(x < 0 ? x : -x);
        scores[k] = (x < 0 ? e : 1.0) / (1.0 + e);
    }
    return MCB_OK;
}

/* Labels of one row from its scores, of a model with link 3: given[k] is 1 where the score is above that label's
 * threshold, else 0. Returns how many there are. Scores, not probabilities. */
MCB_API uint32_t mcb_labels_above(const mcb_model *m, const double *scores, unsigned char *given) {
    const unsigned char *above = m->section[MCB_S_ABOV].data;
    uint32_t k, n = 0;
    for (k = 0; k < m->n_classes; k++) {
        given[k] = (unsigned char)(scores[k] > (above ? mcb__f64(above + 8 * (size_t)k) : 0.0));
        n += given[k];
    }
    return n;
}
