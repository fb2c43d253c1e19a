/* ---------------------------------------------------------------------------- rows of machines that leave some out */

/* Predicts rows by a linear machine whose hyperplanes are left out where they cannot win. */

/* A row of a linear machine: all its features, or n that are not 0. */
typedef struct {
    const float *x;
    const uint32_t *index; /* null for all features */
    size_t n;
} mcb__row;

/* The product of a row with a hyperplane, with the bits that it has among all of them. */
static inline double mcb__product(const mcb_model *m, const mcb__row *row, size_t k) {
    const mcb_section *s = &m->section[MCB_S_WMAT];
    const unsigned char *w = s->data + 4 * k * m->n_features;
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t i;
    if (!row->index) {
        mcb__sums(row->x, 1, 0, w, s->data + 4 * s->count, 1, m->n_features, m->n_features, 0, 1,
                  sum);
    } else {
        for (i = 0; i < row->n; i++)
            sum[row->index[i] % MCB__SUMS] +=
                (double)row->x[i] * (double)mcb__f32(w + 4 * (size_t)row->index[i]);
    }
    return mcb__total(sum);
}

/* The products of a row with the basis. */
MCB__APART void mcb__dense_products(const mcb__basis *b, const float *x, size_t d,
                                    double *product) {
    double sum[MCB__SUMS * MCB__T_VECTORS];
    const unsigned char *w = (const unsigned char *)b->plane, *end = w + 4 * b->n * d;
    size_t first, n;
    for (first = 0; first < b->n && d; first += n) {
        n = b->n - first < MCB__T_VECTORS ? b->n - first : (size_t)MCB__T_VECTORS;
        mcb__sums(x, 1, 0, w + 4 * first * d, end, n, d, d, 0, 1, sum);
        mcb__totals(sum, 1, n, product + first);
    }
}

/* At least the length of a row in units, with 29 bits; not finite where a feature is not. */
static inline double mcb__length(const mcb__basis *b, const mcb__row *row) {
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0}, v;
    size_t i, j;
    for (j = 0; !row->index && j + MCB__SUMS <= row->n; j += MCB__SUMS) {
        for (i = 0; i < MCB__SUMS; i++) {
            v = (double)b->unit[j + i] * (double)row->x[j + i]; /* a float, but for its exponent */
            sum[i] += v * v;
        }
    }
    for (; j < row->n; j++) {
        v = (double)b->unit[row->index ? row->index[j] : j] * (double)row->x[j];
        sum[j % MCB__SUMS] += v * v;
    }
    return mcb__shortened(mcb__quick_sqrt(mcb__total(sum)) * (1 + 1 / 1048576.0));
}

/* Add what products with the basis say of the classes from k on to their scores. */
static inline void mcb__spread_rest(const mcb__basis *b, size_t k, size_t K, const double *v,
                                    double *scores) {
    size_t p;
    for (; k < K; k++) {
        for (p = 0; p < b->n; p++) scores[k] += v[p] * (double)b->share[p * K + k];
    }
}

#if MCB__VECTOR
#define MCB__SPREAD_BEGIN(i, W) s[i] = *(const mcb__dm##W *)(scores + k + W * i);
#define MCB__SPREAD_ADD(i, W)                                                                      \
    s[i] += factor * __builtin_convertvector(*(const mcb__fm##W *)(share + W * i), mcb__d##W);
#define MCB__SPREAD_END(i, W) *(mcb__dm##W *)(scores + k + W * i) = s[i];
#define MCB__DEFINE_SPREAD(W, ATTRIBUTE)                                                           \
    ATTRIBUTE MCB__APART void mcb__spread_##W(const mcb__basis *b, size_t K, const double *v,      \
                                              double *scores) {                                    \
        size_t p, k;                                                                               \
        for (k = 0; k + 4 * W <= K; k += 4 * W) {                                                  \
            mcb__d##W s[4];                                                                        \
            MCB__EACH4(MCB__SPREAD_BEGIN, W)                                                       \
            for (p = 0; p < b->n; p++) {                                                           \
                const float *share = b->share + p * K + k;                                         \
                const mcb__d##W factor = MCB__SPLAT##W(v[p]);                                      \
                MCB__EACH4(MCB__SPREAD_ADD, W)                                                     \
            }                                                                                      \
            MCB__EACH4(MCB__SPREAD_END, W)                                                         \
        }                                                                                          \
        for (; k + W <= K; k += W) {                                                               \
            mcb__d##W s[1];                                                                        \
            MCB__SPREAD_BEGIN(0, W)                                                                \
            for (p = 0; p < b->n; p++) {                                                           \
                const float *share = b->share + p * K + k;                                         \
                const mcb__d##W factor = MCB__SPLAT##W(v[p]);                                      \
                MCB__SPREAD_ADD(0, W)                                                              \
            }                                                                                      \
            MCB__SPREAD_END(0, W)                                                                  \
        }                                                                                          \
        mcb__spread_rest(b, k, K, v, scores);                                                      \
    }
MCB__DEFINE_SPREAD(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_SPREAD(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_SPREAD(8, MCB__AVX512)
#endif
#endif

static inline void mcb__spread(const mcb__basis *b, size_t K, const double *v, double *scores) {
#if MCB__VECTOR
    MCB__DISPATCH(mcb__spread_8(b, K, v, scores), mcb__spread_4(b, K, v, scores),
                  mcb__spread_2(b, K, v, scores));
#else
    mcb__spread_rest(b, 0, K, v, scores);
#endif
}

/* Scores of the basis, what they say of the other classes, and scores of those classes that may still win. Returns how
 * many hyperplanes have been evaluated; 0, and nothing is known, if a feature is not finite. */
static inline size_t mcb__leave_out(const mcb_model *m, const mcb__basis *b, const mcb__row *row,
                                    double *scores) {
    const unsigned char *bias = m->section[MCB_S_BIAS].data;
    size_t K = m->n_classes, p, k, n = b->n, left = 0;
    double product[MCB__BASIS], length = mcb__length(b, row), best = 0;
    if (!(length <= DBL_MAX)) return 0;
    if (row->index)
        mcb__sparse_products(b->column, b->n, 0, row->n, row->index, row->x, product);
    else
        mcb__dense_products(b, row->x, m->n_features, product);
    for (k = 0; k < K; k++) scores[k] = (double)mcb__f32(bias + 4 * k);
    for (p = 0; p < b->n; p++) { /* classes of the basis have no shares */
        scores[b->cls[p]] += product[p];
        product[p] = mcb__shortened(product[p]);
    }
    mcb__spread(b, K, product, scores);
    for (k = 0; k < K; k++) {
        double low = scores[k] - ((double)b->bound[k] * length + (double)b->slack[k]);
        if (!k || low > best) best = low;
    }
#define MCB__HIGH(k) (scores[k] + ((double)b->bound[k] * length + (double)b->slack[k]))
    for (k = 0; k < K; k++) left += MCB__HIGH(k) >= best && b->twin[k] == k;
    for (k = 0; k < K && left > 1; k++) {
        if (!(b->slack[k] > 0 && b->twin[k] == k && MCB__HIGH(k) >= best)) continue;
        scores[k] = (double)mcb__f32(bias + 4 * k) + mcb__product(m, row, k);
        if (scores[k] > best) best = scores[k];
        n++;
    }
#undef MCB__HIGH
    for (k = 0; k < K; k++) scores[k] = scores[b->twin[k]];
    return n;
}

static inline int mcb__predict_linear(const mcb_model *m, const mcb__row *row, double *scores,
                                      uint32_t *label, uint64_t *n_learners) {
    const mcb__basis *b = (const mcb__basis *)m->basis;
    size_t k, n = b->n ? mcb__leave_out(m, b, row, scores) : 0;
    if (!n && !row->index) mcb_scores(m, row->x, scores);
    if (!n && row->index && m->prepared) mcb__linear_sparse(m, row->n, row->index, row->x, scores);
    for (k = 0; k < m->n_classes && !n && row->index && !m->prepared; k++) {
        scores[k] = (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * k) + mcb__product(m, row, k);
        if (scores[k] - scores[k] != 0) scores[k] = mcb__f64_of(UINT64_C(0x7ff8000000000000));
    }
    *label = mcb_argmax(m, scores);
    *n_learners = n ? n : m->n_classes;
    return MCB_OK;
}
