/* ---------------------------------------------------------------------------------------------------- probabilities */

MCB_API int mcb_has_probabilities(const mcb_model *m) { return m->link != MCB_LINK_NONE; }

/* Turn the scores of one row into probabilities, in place: softmax of the scores (link 1) or of twice the scores (link
 * 2). MCB_E_NO_LINK, and scores untouched, if the model has no link. */
MCB_API int mcb_probabilities(const mcb_model *m, double *scores) {
    uint32_t k, K = m->n_classes;
    double top = scores[mcb_argmax(m, scores)], sum = 0;
    if (m->link == MCB_LINK_NONE) return MCB_E_NO_LINK;
    for (k = 0; k < K; k++) {
        double below = scores[k] - top;
        scores[k] = mcb_exp(m->link == MCB_LINK_SOFTMAX2 ? below + below : below);
        sum += scores[k];
    }
    for (k = 0; k < K; k++) scores[k] /= sum;
    return MCB_OK;
}
