/* -------------------------------------------------------------------------------------------------- interval tables */

/* Scores of interval tables: for each feature, what all its stumps together add in each interval of its values. */

/* Integers that are ordered like the finite floats whose bits they are made of; -0 comes just below +0. */
MCB__INLINE int64_t mcb__order(uint32_t bits) {
    return (int32_t)(bits ^ ((0 - (bits >> 31)) & 0x7fffffffu));
}

/* Offsets in TABL, in rows, of the features i to i + n (at most 32) of an interval table.
 * The interval of x is the number of thresholds below it. All searches of a call take the same number of steps and are
 * done with integers, without comparisons: a mispredicted jump costs more than the rest of a search. */
MCB__INLINE void mcb__table_rows(const mcb_model *m, const void *x, int values, uint64_t i,
                                 size_t n, uint64_t *at) {
    const mcb_section *fidx = &m->section[MCB_S_FIDX], *ioff = &m->section[MCB_S_IOFF];
    const unsigned char *thrs = m->section[MCB_S_THRS].data;
    uint64_t end[MCB__ROW_CHUNK + 1], most = 1;
    size_t j, steps = 0, k;
    for (j = 0; j <= n; j++) end[j] = mcb__uint(ioff, i + j);
    for (j = 0; j < n; j++) most |= end[j + 1] - end[j];
    while (most >> steps > 1) steps++;
    for (j = 0; j < n; j++) {
        const unsigned char *mine = thrs + 4 * end[j];
        size_t left = (size_t)(end[j + 1] - end[j]), below = 0, row = left + 1;
        float value = mcb__value(x, values, mcb__uint(fidx, i + j));
        uint32_t bits;
        int64_t order;
        memcpy(&bits, &value, sizeof bits);
        order = mcb__order(value == 0 ? 0x80000000u
                                      : bits); /* thresholds of +0 and -0 are both not below 0 */
        for (k = 0; k <= steps; k++) {
            /* In the last rounds half may be 0; what lies before the thresholds is read then, but has no effect. */
            size_t half = left / 2;
            int64_t before = (mcb__order(mcb__u32(mine + 4 * (below + half) - 4)) - order) >> 63;
            MCB__HIDE(before);
            below += half & (size_t)before;
            left -= half;
        }
        below += (size_t)((mcb__order(mcb__u32(mine + 4 * below)) - order) >> 63) & 1;
        at[j] = end[j] + 2 * (i + j) + (value != value ? row : below);
    }
}

/* One row without vectors. */
static inline void mcb__add_intervals_plain(const mcb_model *m, const void *x, int values,
                                            double *scores) {
    const unsigned char *table = m->section[MCB_S_TABL].data;
    size_t K = m->n_classes, k;
    uint64_t at, i;
    for (i = 0; i < m->section[MCB_S_FIDX].count; i++) {
        mcb__table_rows(m, x, values, i, 1, &at);
        for (k = 0; k < K; k++) scores[k] += mcb__f32(table + 4 * ((size_t)at * K + k));
    }
}

#if !MCB__VECTOR

static inline void mcb__add_intervals_row(const mcb_model *m, const float *x, double *scores) {
    mcb__add_intervals_plain(m, x, MCB_VALUES_F32, scores);
}

#else

#define MCB__TABLE_ADD(v, W)                                                                       \
    if (v < nv) {                                                                                  \
        mcb__f##W single = *(const mcb__fm##W *)(value + 4 * at[v]);                               \
        sum[v] += __builtin_convertvector(single, mcb__d##W);                                      \
    }

/* One row, nv vectors of classes from class `first` on. */
#define MCB__DEFINE_TABLE_ROW(W, ATTRIBUTE)                                                        \
    MCB__INLINE void mcb__table_pass_##W(const unsigned char *table, const uint64_t *row,          \
                                         size_t n, size_t K, size_t first, size_t nv,              \
                                         double *scores) {                                         \
        mcb__d##W sum[8];                                                                          \
        size_t at[8], j;                                                                           \
        MCB__EACH8(MCB__ROW_BEGIN, W)                                                              \
        for (j = 0; j < n; j++) {                                                                  \
            const unsigned char *value = table + 4 * (size_t)row[j] * K;                           \
            MCB__EACH8(MCB__TABLE_ADD, W)                                                          \
        }                                                                                          \
        MCB__EACH8(MCB__ROW_END, W)                                                                \
    }                                                                                              \
    ATTRIBUTE static inline MCB__UNUSED void mcb__add_intervals_row_##W(                           \
        const mcb_model *m, const float *x, double *scores) {                                      \
        const unsigned char *table = m->section[MCB_S_TABL].data;                                  \
        size_t K = m->n_classes, vectors = (K + W - 1) / W, passes = (vectors + 7) / 8, pass, n;   \
        uint64_t row[MCB__ROW_CHUNK], i, used = m->section[MCB_S_FIDX].count;                      \
        for (i = 0; i < used; i += n) {                                                            \
            n = used - i < MCB__ROW_CHUNK ? (size_t)(used - i) : (size_t)MCB__ROW_CHUNK;           \
            mcb__table_rows(m, x, MCB_VALUES_F32, i, n, row);                                      \
            for (pass = 0; pass < passes; pass++) {                                                \
                size_t first = pass * vectors / passes,                                            \
                       nv = (pass + 1) * vectors / passes - first;                                 \
                first *= W;                                                                        \
                switch (nv) { MCB__CASES(MCB__TABLE_CASE_##W) }                                    \
            }                                                                                      \
        }                                                                                          \
    }

#define MCB__TABLE_CASE_2(nv)                                                                      \
    case nv:                                                                                       \
        mcb__table_pass_2(table, row, n, K, first, nv, scores);                                    \
        break;
#define MCB__TABLE_CASE_4(nv)                                                                      \
    case nv:                                                                                       \
        mcb__table_pass_4(table, row, n, K, first, nv, scores);                                    \
        break;
#define MCB__TABLE_CASE_8(nv)                                                                      \
    case nv:                                                                                       \
        mcb__table_pass_8(table, row, n, K, first, nv, scores);                                    \
        break;

MCB__DEFINE_TABLE_ROW(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_TABLE_ROW(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_TABLE_ROW(8, MCB__AVX512)
#endif

static inline void mcb__add_intervals_row(const mcb_model *m, const float *x, double *scores) {
    if (m->n_classes >= 8)
        MCB__DISPATCH(mcb__add_intervals_row_8(m, x, scores),
                      mcb__add_intervals_row_4(m, x, scores),
                      mcb__add_intervals_row_2(m, x, scores));
    else if (m->n_classes >= 4)
        MCB__DISPATCH(mcb__add_intervals_row_4(m, x, scores),
                      mcb__add_intervals_row_4(m, x, scores),
                      mcb__add_intervals_row_2(m, x, scores));
    else
        mcb__add_intervals_row_2(m, x, scores);
}

#endif /* MCB__VECTOR */
