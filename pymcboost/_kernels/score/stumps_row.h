/* -------------------------------------------------------------------------------------------------- stumps: one row */

/* Scores of stumps for one row. */

/* A learner's side is held as a mask: 0 for right; for left the sign bit when the left value is minus the right one,
 * and all ones when the file has left values of its own. */

enum {
    MCB__ROW_CHUNK = 32,
    MCB__TILE_CHUNK = 64,
    MCB__TILE_ROWS = 64,
    MCB__TILE_FLOATS = 8192,
    MCB__PASS = 12
};

/* Masks of n learners from learner j on, for one row. */
MCB__INLINE void mcb__row_masks(const mcb_model *m, const float *x, uint64_t j, size_t n,
                                uint64_t left, uint64_t *mask) {
    const unsigned char *feat = m->section[MCB_S_FEAT].data,
                        *thrs = m->section[MCB_S_THRS].data + 4 * j;
    size_t i;
/* One & and |, not && and ||: the comparisons must not become jumps. */
#define MCB__MASKS(bits, load)                                                                     \
    for (i = 0; i < n; i++) {                                                                      \
        uint32_t f = load;                                                                         \
        float v = x[f & ((1u << (bits - 1)) - 1)], t = mcb__f32(thrs + 4 * i);                     \
        uint64_t goes_left = (uint64_t)(v <= t) | ((uint64_t)(v != v) & (f >> (bits - 1)));        \
        mask[i] = (0 - goes_left) & left;                                                          \
    }
    switch (m->section[MCB_S_FEAT].dtype) {
    case MCB_U8:
        MCB__MASKS(8, feat[j + i])
        break;
    case MCB_U16:
        MCB__MASKS(16, mcb__u16(feat + 2 * (j + i)))
        break;
    default:
        MCB__MASKS(32, mcb__u32(feat + 4 * (j + i)))
        break;
    }
#undef MCB__MASKS
}

/* One row without vectors. */
static inline void mcb__add_stumps_plain(const mcb_model *m, const void *x, int values,
                                         uint64_t from, uint64_t to, double *scores) {
    const mcb_section *feat = &m->section[MCB_S_FEAT];
    const unsigned char *coef = m->section[MCB_S_COEF].data, *coel = m->section[MCB_S_COEL].data;
    uint32_t top = feat->dtype == MCB_U8 ? 7 : feat->dtype == MCB_U16 ? 15 : 31;
    size_t K = m->n_classes, k;
    uint64_t j;
    for (j = from; j < to; j++) {
        uint32_t f = mcb__uint(feat, j);
        float v = mcb__value(x, values, f & ((1u << top) - 1));
        int left = v <= mcb__f32(m->section[MCB_S_THRS].data + 4 * j) || (v != v && f >> top);
        const unsigned char *value = (left && coel ? coel : coef) + 4 * (size_t)j * K;
        for (k = 0; k < K; k++) {
            double add = (double)mcb__f32(value + 4 * k);
            scores[k] += left && !coel ? -add : add;
        }
    }
}

#if !MCB__VECTOR

static inline void mcb__add_stumps_row(const mcb_model *m, const float *x, uint64_t from,
                                       uint64_t to, double *scores) {
    const unsigned char *coef = m->section[MCB_S_COEF].data, *coel = m->section[MCB_S_COEL].data;
    size_t K = m->n_classes, i, k, n;
    uint64_t mask[MCB__ROW_CHUNK], j;
    for (j = from; j < to; j += n) {
        n = to - j < MCB__ROW_CHUNK ? (size_t)(to - j) : (size_t)MCB__ROW_CHUNK;
        mcb__row_masks(m, x, j, n, 1, mask);
        for (i = 0; i < n; i++) {
            const unsigned char *value = (mask[i] && coel ? coel : coef) + 4 * (size_t)(j + i) * K;
            if (mask[i] && !coel) {
                for (k = 0; k < K; k++) scores[k] -= mcb__f32(value + 4 * k);
            } else {
                for (k = 0; k < K; k++) scores[k] += mcb__f32(value + 4 * k);
            }
        }
    }
}

static inline void mcb__add_stumps_batch(const mcb_model *m, const float *x, size_t n_rows,
                                         size_t stride, uint64_t from, uint64_t to,
                                         double *scores) {
    size_t r;
    for (r = 0; r < n_rows; r++)
        mcb__add_stumps_row(m, x + r * stride, from, to, scores + r * m->n_classes);
}

#else

#define MCB__ROW_BEGIN(v, W)                                                                       \
    if (v < nv) {                                                                                  \
        at[v] = mcb__lane(first, v, W, K);                                                         \
        sum[v] = *(const mcb__dm##W *)(scores + at[v]);                                            \
    }
#define MCB__ROW_END(v, W)                                                                         \
    if (v < nv) *(mcb__dm##W *)(scores + at[v]) = sum[v];
#define MCB__ROW_ADD(v, W)                                                                         \
    if (v < nv) {                                                                                  \
        mcb__f##W single = *(const mcb__fm##W *)(value + 4 * at[v]);                               \
        sum[v] += (mcb__d##W)((mcb__i##W) __builtin_convertvector(single, mcb__d##W) ^ signs);     \
    }

/* Where the nv vectors of pass number `pass` begin: the last one is moved back to end at K, so that it shares lanes
 * with the one before it (they then hold equal numbers). Passes are of even size, so a moved vector is never alone in
 * one. */
MCB__INLINE size_t mcb__lane(size_t first, size_t v, size_t W, size_t K) {
    return first + v * W + W <= K ? first + v * W : K - W;
}

/* One row, nv vectors of classes from class `first` on. */
#define MCB__DEFINE_STUMPS_ROW(W, ATTRIBUTE)                                                       \
    MCB__INLINE void mcb__row_pass_##W(const unsigned char *coef, const unsigned char *coel,       \
                                       const uint64_t *mask, size_t n, size_t K, size_t first,     \
                                       size_t nv, double *scores) {                                \
        mcb__d##W sum[8];                                                                          \
        size_t at[8], j;                                                                           \
        MCB__EACH8(MCB__ROW_BEGIN, W)                                                              \
        for (j = 0; j < n; j++) {                                                                  \
            const unsigned char *value = (coel && mask[j] ? coel : coef) + 4 * j * K;              \
            int64_t sign = coel ? 0 : (int64_t)mask[j];                                            \
            mcb__i##W signs = MCB__SPLAT##W(sign);                                                 \
            MCB__EACH8(MCB__ROW_ADD, W)                                                            \
        }                                                                                          \
        MCB__EACH8(MCB__ROW_END, W)                                                                \
    }                                                                                              \
    ATTRIBUTE static inline MCB__UNUSED void mcb__add_stumps_row_##W(                              \
        const mcb_model *m, const float *x, uint64_t from, uint64_t to, double *scores) {          \
        const unsigned char *coef = m->section[MCB_S_COEF].data,                                   \
                            *coel = m->section[MCB_S_COEL].data;                                   \
        size_t K = m->n_classes, vectors = (K + W - 1) / W, passes = (vectors + 7) / 8, pass, n;   \
        uint64_t mask[MCB__ROW_CHUNK], j;                                                          \
        for (j = from; j < to; j += n) {                                                           \
            const unsigned char *right = coef + 4 * (size_t)j * K,                                 \
                                *left = coel ? coel + 4 * (size_t)j * K : 0;                       \
            n = to - j < MCB__ROW_CHUNK ? (size_t)(to - j) : (size_t)MCB__ROW_CHUNK;               \
            mcb__row_masks(m, x, j, n, MCB__SIGN, mask);                                           \
            for (pass = 0; pass < passes; pass++) {                                                \
                size_t first = pass * vectors / passes,                                            \
                       nv = (pass + 1) * vectors / passes - first;                                 \
                first *= W;                                                                        \
                if (left) {                                                                        \
                    switch (nv) { MCB__CASES(MCB__ROW_CASE_LEFT_##W) }                             \
                } else {                                                                           \
                    switch (nv) { MCB__CASES(MCB__ROW_CASE_##W) }                                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define MCB__ROW_CASE_2(nv)                                                                        \
    case nv:                                                                                       \
        mcb__row_pass_2(right, 0, mask, n, K, first, nv, scores);                                  \
        break;
#define MCB__ROW_CASE_4(nv)                                                                        \
    case nv:                                                                                       \
        mcb__row_pass_4(right, 0, mask, n, K, first, nv, scores);                                  \
        break;
#define MCB__ROW_CASE_8(nv)                                                                        \
    case nv:                                                                                       \
        mcb__row_pass_8(right, 0, mask, n, K, first, nv, scores);                                  \
        break;
#define MCB__ROW_CASE_LEFT_2(nv)                                                                   \
    case nv:                                                                                       \
        mcb__row_pass_2(right, left, mask, n, K, first, nv, scores);                               \
        break;
#define MCB__ROW_CASE_LEFT_4(nv)                                                                   \
    case nv:                                                                                       \
        mcb__row_pass_4(right, left, mask, n, K, first, nv, scores);                               \
        break;
#define MCB__ROW_CASE_LEFT_8(nv)                                                                   \
    case nv:                                                                                       \
        mcb__row_pass_8(right, left, mask, n, K, first, nv, scores);                               \
        break;

MCB__DEFINE_STUMPS_ROW(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
/* A vector wider than a row of classes would read beyond it: narrow rows take narrow vectors. */
MCB__DEFINE_STUMPS_ROW(4, MCB__AVX2)
MCB__AVX2 static inline MCB__UNUSED void mcb__row_4(const mcb_model *m, const float *x,
                                                    uint64_t from, uint64_t to, double *scores) {
    if (m->n_classes < 4)
        mcb__add_stumps_row_2(m, x, from, to, scores);
    else
        mcb__add_stumps_row_4(m, x, from, to, scores);
}
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_STUMPS_ROW(8, MCB__AVX512)
MCB__AVX512 static inline MCB__UNUSED void mcb__row_8(const mcb_model *m, const float *x,
                                                      uint64_t from, uint64_t to, double *scores) {
    if (m->n_classes < 8)
        mcb__row_4(m, x, from, to, scores);
    else
        mcb__add_stumps_row_8(m, x, from, to, scores);
}
#endif

static inline void mcb__add_stumps_row(const mcb_model *m, const float *x, uint64_t from,
                                       uint64_t to, double *scores) {
    MCB__DISPATCH(mcb__row_8(m, x, from, to, scores), mcb__row_4(m, x, from, to, scores),
                  mcb__add_stumps_row_2(m, x, from, to, scores));
}

#endif /* MCB__VECTOR */
