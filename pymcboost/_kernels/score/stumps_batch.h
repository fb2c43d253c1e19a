/* ------------------------------------------------------------------------------------------------ stumps: many rows */

/* Scores of stumps for many rows. */

#if MCB__VECTOR

#define MCB__TILE_BEGIN(k, W)                                                                      \
    if (k < nk) sum[k] = *(const mcb__dm##W *)(tile + k * MCB__TILE_ROWS);
#define MCB__TILE_END(k, W)                                                                        \
    if (k < nk) *(mcb__dm##W *)(tile + k * MCB__TILE_ROWS) = sum[k];
#define MCB__TILE_ADD(k, W)                                                                        \
    if (k < nk) {                                                                                  \
        mcb__i##W value = MCB__SPLAT##W(right[k]);                                                 \
        value ^= side;                                                                             \
        sum[k] += (mcb__d##W)value;                                                                \
    }
#define MCB__TILE_ADD_LEFT(k, W)                                                                   \
    if (k < nk) {                                                                                  \
        mcb__i##W value = MCB__SPLAT##W(right[k]);                                                 \
        mcb__i##W other = MCB__SPLAT##W(change[k]);                                                \
        value ^= other & side;                                                                     \
        sum[k] += (mcb__d##W)value;                                                                \
    }

/* What the batch needs of up to 64 learners, decoded once for up to 64 rows. */
typedef struct {
    uint32_t feature[MCB__TILE_CHUNK];
    int32_t nan_left[MCB__TILE_CHUNK]; /* 0 or -1 */
    float threshold[MCB__TILE_CHUNK];
    int64_t right[MCB__TILE_CHUNK * MCB__PASS];  /* bits of doubles, a row per learner */
    int64_t change[MCB__TILE_CHUNK * MCB__PASS]; /* right xor left; only with COEL */
} mcb__chunk;

MCB__INLINE MCB__UNUSED void mcb__decode(const mcb_model *m, uint64_t j, size_t n, size_t first,
                                         size_t nk, mcb__chunk *c) {
    const mcb_section *feat = &m->section[MCB_S_FEAT];
    const unsigned char *coef = m->section[MCB_S_COEF].data, *coel = m->section[MCB_S_COEL].data;
    uint32_t top = feat->dtype == MCB_U8 ? 7 : feat->dtype == MCB_U16 ? 15 : 31;
    size_t i, k, K = m->n_classes;
    for (i = 0; i < n; i++) {
        size_t at = 4 * ((size_t)(j + i) * K + first);
        uint32_t f = mcb__uint(feat, j + i);
        c->feature[i] = f & ((1u << top) - 1);
        c->nan_left[i] = -(int32_t)(f >> top);
        c->threshold[i] = mcb__f32(m->section[MCB_S_THRS].data + 4 * (j + i));
        for (k = 0; k < nk; k++)
            c->right[i * nk + k] = (int64_t)mcb__bits_of((double)mcb__f32(coef + at + 4 * k));
        if (coel) {
            for (k = 0; k < nk; k++) {
                int64_t left = (int64_t)mcb__bits_of((double)mcb__f32(coel + at + 4 * k));
                c->change[i * nk + k] = c->right[i * nk + k] ^ left;
            }
        }
    }
}

/* Rows in groups of 16, features transposed; one vector is one class of W rows. */
#define MCB__DEFINE_BATCH(W, ATTRIBUTE)                                                            \
    MCB__INLINE void mcb__masks_##W(const mcb__chunk *c, size_t n, const float *x, size_t step,    \
                                    int gathered, uint64_t left, uint64_t *mask) {                 \
        size_t j, r;                                                                               \
        for (j = 0; j < n; j++) {                                                                  \
            const float *column = x + (gathered ? j : (size_t)c->feature[j]) * step;               \
            mcb__f##W t = MCB__SPLAT##W(c->threshold[j]);                                          \
            mcb__h##W nan_left = MCB__SPLAT##W(c->nan_left[j]);                                    \
            mcb__i##W keep = MCB__SPLAT##W((int64_t)left);                                         \
            for (r = 0; r < 16; r += W) {                                                          \
                mcb__f##W value = *(const mcb__fm##W *)(column + r);                               \
                mcb__i##W wide;                                                                    \
                wide = __builtin_convertvector((value <= t) | ((value != value) & nan_left),       \
                                               mcb__i##W) &                                        \
                       keep;                                                                       \
                *(mcb__im##W *)(mask + 16 * j + r) = wide;                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    MCB__INLINE void mcb__tile_pass_##W(const mcb__chunk *c, const uint64_t *mask, size_t n,       \
                                        size_t nk, int two_sided, double *tile) {                  \
        mcb__d##W sum[12];                                                                         \
        size_t j;                                                                                  \
        MCB__EACH12(MCB__TILE_BEGIN, W)                                                            \
        for (j = 0; j < n; j++) {                                                                  \
            const int64_t *right = c->right + j * nk, *change = c->change + j * nk;                \
            mcb__i##W side = *(const mcb__im##W *)(mask + 16 * j);                                 \
            if (two_sided) {                                                                       \
                MCB__EACH12(MCB__TILE_ADD_LEFT, W)                                                 \
            } else {                                                                               \
                MCB__EACH12(MCB__TILE_ADD, W)                                                      \
            }                                                                                      \
        }                                                                                          \
        MCB__EACH12(MCB__TILE_END, W)                                                              \
    }                                                                                              \
    ATTRIBUTE static inline MCB__UNUSED void mcb__add_stumps_batch_##W(                            \
        const mcb_model *m, const float *x, size_t n_rows, size_t stride, uint64_t from,           \
        uint64_t to, double *scores) {                                                             \
        size_t K = m->n_classes, d = m->n_features, passes = (K + MCB__PASS - 1) / MCB__PASS;      \
        size_t rows_max = MCB__TILE_ROWS, done, rows, padded, r, f, k, n, g, w, pass;              \
        int two_sided = m->section[MCB_S_COEL].data != 0, gather;                                  \
        uint64_t j, mask[16 * MCB__TILE_CHUNK];                                                    \
        float block[MCB__TILE_FLOATS];                                                             \
        double tile[MCB__PASS * MCB__TILE_ROWS];                                                   \
        mcb__chunk chunk;                                                                          \
        gather = d > MCB__TILE_FLOATS / 16 || to - from < d / 4;                                   \
        if (!gather) rows_max = MCB__TILE_FLOATS / d / 16 * 16;                                    \
        if (rows_max > MCB__TILE_ROWS) rows_max = MCB__TILE_ROWS;                                  \
        for (done = 0; done < n_rows; done += rows) {                                              \
            const float *row = x + done * stride;                                                  \
            double *out = scores + done * K;                                                       \
            rows = n_rows - done < rows_max ? n_rows - done : rows_max;                            \
            if (rows < 4) {                                                                        \
                for (r = 0; r < rows; r++)                                                         \
                    mcb__row_##W(m, row + r * stride, from, to, out + r * K);                      \
                continue;                                                                          \
            }                                                                                      \
            padded = (rows + 15) / 16 * 16; /* the last row fills up its group */                  \
            if (!gather) {                                                                         \
                for (r = 0; r < padded; r++) {                                                     \
                    const float *source = row + (r < rows ? r : rows - 1) * stride;                \
                    for (f = 0; f < d; f++) block[f * padded + r] = source[f];                     \
                }                                                                                  \
            }                                                                                      \
            for (pass = 0; pass < passes; pass++) {                                                \
                size_t first = pass * K / passes, nk = (pass + 1) * K / passes - first;            \
                for (k = 0; k < nk; k++) {                                                         \
                    for (r = 0; r < padded; r++)                                                   \
                        tile[k * MCB__TILE_ROWS + r] =                                             \
                            out[(r < rows ? r : rows - 1) * K + first + k];                        \
                }                                                                                  \
                for (j = from; j < to; j += n) {                                                   \
                    n = to - j < MCB__TILE_CHUNK ? (size_t)(to - j) : (size_t)MCB__TILE_CHUNK;     \
                    mcb__decode(m, j, n, first, nk, &chunk);                                       \
                    for (g = 0; g < padded; g += 16) {                                             \
                        const float *columns = block + g;                                          \
                        if (gather) {                                                              \
                            columns = block;                                                       \
                            for (r = 0; r < 16; r++) {                                             \
                                const float *source =                                              \
                                    row + (g + r < rows ? g + r : rows - 1) * stride;              \
                                for (f = 0; f < n; f++)                                            \
                                    block[f * 16 + r] = source[chunk.feature[f]];                  \
                            }                                                                      \
                        }                                                                          \
                        mcb__masks_##W(&chunk, n, columns, gather ? 16 : padded, gather,           \
                                       two_sided ? ~UINT64_C(0) : MCB__SIGN, mask);                \
                        for (w = 0; w < 16; w += W) {                                              \
                            const uint64_t *side = mask + w;                                       \
                            double *lanes = tile + g + w;                                          \
                            if (two_sided) {                                                       \
                                switch (nk) { MCB__CASES12(MCB__TILE_CASE_LEFT_##W) }              \
                            } else {                                                               \
                                switch (nk) { MCB__CASES12(MCB__TILE_CASE_##W) }                   \
                            }                                                                      \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
                for (k = 0; k < nk; k++) {                                                         \
                    for (r = 0; r < rows; r++)                                                     \
                        out[r * K + first + k] = tile[k * MCB__TILE_ROWS + r];                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define MCB__TILE_CASE_4(nk)                                                                       \
    case nk:                                                                                       \
        mcb__tile_pass_4(&chunk, side, n, nk, 0, lanes);                                           \
        break;
#define MCB__TILE_CASE_8(nk)                                                                       \
    case nk:                                                                                       \
        mcb__tile_pass_8(&chunk, side, n, nk, 0, lanes);                                           \
        break;
#define MCB__TILE_CASE_LEFT_4(nk)                                                                  \
    case nk:                                                                                       \
        mcb__tile_pass_4(&chunk, side, n, nk, 1, lanes);                                           \
        break;
#define MCB__TILE_CASE_LEFT_8(nk)                                                                  \
    case nk:                                                                                       \
        mcb__tile_pass_8(&chunk, side, n, nk, 1, lanes);                                           \
        break;

/* Tiles of rows do not pay with vectors of two: spreading a coefficient over the lanes costs more than the addition. */
static inline MCB__UNUSED void mcb__add_stumps_batch_2(const mcb_model *m, const float *x,
                                                       size_t n_rows, size_t stride, uint64_t from,
                                                       uint64_t to, double *scores) {
    size_t r;
    for (r = 0; r < n_rows; r++)
        mcb__add_stumps_row_2(m, x + r * stride, from, to, scores + r * m->n_classes);
}

#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_BATCH(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_BATCH(8, MCB__AVX512)
#endif

static inline void mcb__add_stumps_batch(const mcb_model *m, const float *x, size_t n_rows,
                                         size_t stride, uint64_t from, uint64_t to,
                                         double *scores) {
    MCB__DISPATCH(mcb__add_stumps_batch_8(m, x, n_rows, stride, from, to, scores),
                  mcb__add_stumps_batch_4(m, x, n_rows, stride, from, to, scores),
                  mcb__add_stumps_batch_2(m, x, n_rows, stride, from, to, scores));
}

#endif /* MCB__VECTOR */
