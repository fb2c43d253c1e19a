/* ------------------------------------------------------------------------------------------------------ sparse rows */

/* Scores of sparse rows by linear and kernel machines. */

/* Add x * coefficients of n classes to sums of 8 x MCB__T_CLASSES. */
#define MCB__DEFINE_SPARSE(W, ATTRIBUTE)                                                           \
    ATTRIBUTE MCB__APART void mcb__sparse_##W(const float *column, size_t K, size_t nk, size_t n,  \
                                              const uint32_t *index, const float *value,           \
                                              double *sum) {                                       \
        size_t i, k;                                                                               \
        for (i = 0; i < n; i++) {                                                                  \
            const float *w = column + (size_t)index[i] * K;                                        \
            double x = (double)value[i], *s = sum + index[i] % MCB__SUMS * MCB__T_CLASSES;         \
            for (k = 0; k < nk; k++) s[k] += x * (double)w[k];                                     \
        }                                                                                          \
    }
MCB__DEFINE_SPARSE(2, )
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
MCB__DEFINE_SPARSE(4, MCB__AVX2)
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
MCB__DEFINE_SPARSE(8, MCB__AVX512)
#endif

static inline void mcb__add_sparse(const float *column, size_t K, size_t nk, size_t n,
                                   const uint32_t *index, const float *value, double *sum) {
#if MCB__VECTOR
    MCB__DISPATCH(mcb__sparse_8(column, K, nk, n, index, value, sum),
                  mcb__sparse_4(column, K, nk, n, index, value, sum),
                  mcb__sparse_2(column, K, nk, n, index, value, sum));
#else
    mcb__sparse_2(column, K, nk, n, index, value, sum);
#endif
}

/* What is wrong with the indices of n features that are not 0: each below n_features, strictly increasing. */
static inline int mcb__check_index(const mcb_model *m, size_t n, const uint32_t *index) {
    size_t i;
    for (i = 0; i < n; i++) {
        if (index[i] >= m->n_features || (i > 0 && index[i] <= index[i - 1])) return MCB_E_ARGUMENT;
    }
    return MCB_OK;
}

/* Products of n features that are not 0 with K hyperplanes, to which the biases are added if they are not null. column:
 * feature after feature, K coefficients each. */
MCB__APART void mcb__sparse_products(const float *column, size_t K, const unsigned char *bias,
                                     size_t n, const uint32_t *index, const float *value,
                                     double *product) {
    double sum[MCB__SUMS * MCB__T_CLASSES];
    size_t first, nk, k, c;
    for (first = 0; first < K; first += nk) {
        nk = K - first < MCB__T_CLASSES ? K - first : (size_t)MCB__T_CLASSES;
        for (c = 0; c < MCB__SUMS; c++) {
            for (k = 0; k < nk; k++) sum[c * MCB__T_CLASSES + k] = 0;
        }
        mcb__add_sparse(column + first, K, nk, n, index, value, sum);
        for (k = 0; k < nk; k++) {
            const double *s = sum + k;
#define MCB__PAIR(c) (s[c * MCB__T_CLASSES] + s[(c + 4) * MCB__T_CLASSES])
            product[first + k] = (bias ? (double)mcb__f32(bias + 4 * (first + k)) : 0) +
                                 ((MCB__PAIR(0) + MCB__PAIR(2)) + (MCB__PAIR(1) + MCB__PAIR(3)));
#undef MCB__PAIR
        }
    }
}

/* mcb_scores_sparse of a linear machine, for checked indices. */
static inline void mcb__linear_sparse(const mcb_model *m, size_t n, const uint32_t *index,
                                      const float *value, double *scores) {
    size_t K = m->n_classes, k;
    int finite;
    mcb__sparse_products((const float *)m->prepared, K, m->section[MCB_S_BIAS].data, n, index,
                         value, scores);
    finite = scores[0] - scores[0] == 0;
    for (k = 0; k < K && !finite; k++) scores[k] = mcb__f64_of(UINT64_C(0x7ff8000000000000));
}
