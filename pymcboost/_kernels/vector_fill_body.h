/* Template body of vector trees: fills histograms, and scores the steps of a feature. Define LANES (4, 8 or 16) before each
 * inclusion. */
#ifdef LANES
#define FN(name) PMB_CAT2(name, i, LANES)
#define WIDE (LANES < 8 ? LANES : 8)
#define PARTS (LANES / WIDE)

#if PMB_VECTORS
typedef int32_t FN(row_) __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t FN(part_) __attribute__((vector_size(WIDE * 4), may_alias));
typedef double FN(wide_) __attribute__((vector_size(WIDE * 8), may_alias));
typedef double FN(four_) __attribute__((vector_size(32)));
typedef double FN(two_) __attribute__((vector_size(16)));
#define ROW_ADD(to, from) (*(FN(row_) *)(to) += *(const FN(row_) *)(from))
#define ROW_TAKE(to, from) (*(FN(row_) *)(to) -= *(const FN(row_) *)(from))
#define ROW_COPY(to, from) (*(FN(row_) *)(to) = *(const FN(row_) *)(from))
#else
#define ROW_ADD(to, from)                                                                          \
    PMB_LANES(l_, LANES) (to)[l_] += (from)[l_]
#define ROW_TAKE(to, from)                                                                         \
    PMB_LANES(l_, LANES) (to)[l_] -= (from)[l_]
#define ROW_COPY(to, from) memcpy(to, from, sizeof *(to) * LANES)
#endif

PMB_CLONES PMB_STATIC void FN(pmb_vt_gather_)(const int32_t *PMB_RESTRICT A,
                                              const int32_t *PMB_RESTRICT rows, int64_t n,
                                              int32_t *PMB_RESTRICT out, pmb_sum *totals) {
    pmb_sum sum[LANES] ALIGNED_LANES = {0};
    for (int64_t i = 0; i < n; i++) {
        const int32_t *a = A + (int64_t)rows[i] * LANES;
        PMB_PREFETCH(A + (int64_t)rows[i + PMB_VT_AHEAD] * LANES);
        ROW_COPY(out + i * LANES, a);
        ROW_ADD(sum, a);
    }
    PMB_LANES(l, LANES) totals[l] += sum[l];
}

PMB_CLONES PMB_STATIC void FN(pmb_vt_sum_)(const int32_t *A, int64_t n, pmb_sum *totals) {
    pmb_sum sum[LANES] ALIGNED_LANES = {0};
    for (int64_t i = 0; i < n; i++) ROW_ADD(sum, A + i * LANES);
    memcpy(totals, sum, sizeof sum);
}

PMB_CLONES PMB_STATIC void FN(pmb_vt_sum_cells_)(const pmb_sum *cells, int64_t n, pmb_sum *totals) {
    pmb_sum sum[LANES] ALIGNED_LANES = {0};
    for (int64_t i = 0; i < n; i++) ROW_ADD(sum, cells + i * LANES);
    memcpy(totals, sum, sizeof sum);
}

/* What n gradient rows of one block add to `pmb_vt_gain_bound`. weights: of the rows, LANES apart; own: their lane, or -1. */
PMB_CLONES PMB_STATIC void FN(pmb_vt_spread_)(const int32_t *PMB_RESTRICT A,
                                              const int32_t *PMB_RESTRICT weights, int own,
                                              const int32_t *PMB_RESTRICT rows, int64_t n,
                                              double *all, double *of_sum) {
    pmb_sum sum[LANES] ALIGNED_LANES = {0};
    double squares[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        const int32_t *a = A + (int64_t)rows[i] * LANES;
        double one = 1.0 / weights[(int64_t)rows[i] * LANES];
        PMB_LANES(l, LANES) squares[l] += (double)a[l] * a[l] * one;
        ROW_ADD(sum, a);
    }
    PMB_LANES(l, LANES) {
        if (l == own) continue;
        *all += squares[l];
        *of_sum += (double)sum[l] * sum[l];
    }
}

/* Cells are added to in parts of 32 bytes: a wider one waits longer for the last row that went to the same cell. */
#if PMB_VECTORS && LANES == 16
#define FILL_LOAD FN(part_) low = ((const FN(part_) *)a)[0], high = ((const FN(part_) *)a)[1];
#define FILL_ADD(to)                                                                               \
    {                                                                                              \
        FN(part_) *to_ = (FN(part_) *)(to);                                                        \
        to_[0] += low;                                                                             \
        to_[1] += high;                                                                            \
    }
#else
#define FILL_LOAD
#define FILL_ADD(to) ROW_ADD(to, a);
#endif
#define FILL_ONE(q)                                                                                \
    {                                                                                              \
        size_t c_ = c##q[row];                                                                     \
        PMB_PREFETCH(c##q + rows[i + PMB_VT_FAR]);                                                 \
        FILL_ADD(h##q + c_ * LANES)                                                                \
        if (marks) bits[(q) * words + (c_ >> 6)] |= (uint64_t)1 << (c_ & 63);                      \
    }
#define FILL_ROWS(body)                                                                            \
    for (int64_t i = 0; i < n; i++, a += LANES) {                                                  \
        size_t row = (size_t)rows[i];                                                              \
        FILL_LOAD                                                                                  \
        body                                                                                       \
    }
#define COL(CODE, q) ((const CODE *)cols[n_cols > (q) ? (q) : 0])
#define HIST(q) (hist + base[n_cols > (q) ? (q) : 0] * LANES)

/* Histograms of one to eight columns, side by side: a chain of additions to one cell is as slow as several. */
#define DEFINE_FILL(bytes, CODE)                                                                   \
    PMB_INLINE void FN(pmb_vt_fill_inner_##bytes##_)(                                              \
        const void *const *cols, int n_cols, const int32_t *PMB_RESTRICT rows, int64_t n,          \
        const int32_t *PMB_RESTRICT A, pmb_sum *hist, const int64_t *base, uint64_t *bits,         \
        int64_t words, const int marks) {                                                          \
        const CODE *c0 = (const CODE *)cols[0], *c1 = COL(CODE, 1), *c2 = COL(CODE, 2),            \
                   *c3 = COL(CODE, 3);                                                             \
        const CODE *c4 = COL(CODE, 4), *c5 = COL(CODE, 5), *c6 = COL(CODE, 6), *c7 = COL(CODE, 7); \
        pmb_sum *h0 = hist + base[0] * LANES, *h1 = HIST(1), *h2 = HIST(2), *h3 = HIST(3),         \
                *h4 = HIST(4);                                                                     \
        pmb_sum *h5 = HIST(5), *h6 = HIST(6), *h7 = HIST(7);                                       \
        const int32_t *a = A;                                                                      \
        if (n_cols == 8)                                                                           \
            FILL_ROWS(FILL_ONE(0) FILL_ONE(1) FILL_ONE(2) FILL_ONE(3) FILL_ONE(4) FILL_ONE(5)      \
                          FILL_ONE(6) FILL_ONE(7))                                                 \
        else if (n_cols == 7)                                                                      \
            FILL_ROWS(FILL_ONE(0) FILL_ONE(1) FILL_ONE(2) FILL_ONE(3) FILL_ONE(4) FILL_ONE(5)      \
                          FILL_ONE(6))                                                             \
        else if (n_cols == 6)                                                                      \
            FILL_ROWS(FILL_ONE(0) FILL_ONE(1) FILL_ONE(2) FILL_ONE(3) FILL_ONE(4) FILL_ONE(5))     \
        else if (n_cols == 5)                                                                      \
            FILL_ROWS(FILL_ONE(0) FILL_ONE(1) FILL_ONE(2) FILL_ONE(3) FILL_ONE(4))                 \
        else if (n_cols == 4)                                                                      \
            FILL_ROWS(FILL_ONE(0) FILL_ONE(1) FILL_ONE(2) FILL_ONE(3))                             \
        else if (n_cols == 3)                                                                      \
            FILL_ROWS(FILL_ONE(0) FILL_ONE(1) FILL_ONE(2))                                         \
        else if (n_cols == 2)                                                                      \
            FILL_ROWS(FILL_ONE(0) FILL_ONE(1))                                                     \
        else                                                                                       \
            FILL_ROWS(FILL_ONE(0))                                                                 \
    }                                                                                              \
    PMB_CLONES PMB_STATIC void FN(pmb_vt_fill_##bytes##_)(                                         \
        const void *const *cols, int n_cols, const int32_t *rows, int64_t n, const int32_t *A,     \
        pmb_sum *hist, const int64_t *base, uint64_t *bits, int64_t words) {                       \
        if (bits)                                                                                  \
            FN(pmb_vt_fill_inner_##bytes##_)(cols, n_cols, rows, n, A, hist, base, bits, words,    \
                                             1);                                                   \
        else                                                                                       \
            FN(pmb_vt_fill_inner_##bytes##_)(cols, n_cols, rows, n, A, hist, base, bits, words,    \
                                             0);                                                   \
    }

DEFINE_FILL(8, uint8_t)
DEFINE_FILL(16, uint16_t)
#undef DEFINE_FILL
#undef FILL_ONE
#undef FILL_LOAD
#undef FILL_ADD
#undef FILL_ROWS
#undef COL
#undef HIST

/* Histogram of one lane over the rows whose bits are set in both sets. */
PMB_CLONES PMB_STATIC void FN(pmb_vt_fill_others_)(const uint8_t *PMB_RESTRICT codes,
                                                   const uint64_t *others, const uint64_t *in_node,
                                                   int64_t words, const int32_t *PMB_RESTRICT A,
                                                   pmb_sum *PMB_RESTRICT hist) {
    int32_t rows[64 * 8];
    for (int64_t start = 0; start < words; start += 8) {
        int n = 0, end = (int)(words - start < 8 ? words - start : 8);
        for (int w = 0; w < end; w++)
            for (uint64_t word = others[start + w] & in_node[start + w]; word; word &= word - 1) {
                rows[n] = (int32_t)(64 * (start + w) + pmb_vt_lowest_bit(word));
                PMB_PREFETCH(codes + rows[n]);
                PMB_PREFETCH(A + (int64_t)rows[n] * LANES);
                n++;
            }
        for (int j = 0; j < n; j++)
            ROW_ADD(hist + (size_t)codes[rows[j]] * LANES, A + (int64_t)rows[j] * LANES);
    }
}

/* Sums of n cells, each over `count` entries from `first` on. */
PMB_CLONES PMB_STATIC void FN(pmb_vt_fill_sparse_)(const int32_t *PMB_RESTRICT entries,
                                                   const int64_t *PMB_RESTRICT first,
                                                   const int32_t *PMB_RESTRICT count, int32_t n,
                                                   const int32_t *PMB_RESTRICT A,
                                                   pmb_sum *PMB_RESTRICT hist) {
    for (int32_t c = 0; c < n; c++) {
        const int32_t *row = entries + first[c];
#if PMB_VECTORS
        FN(part_)
        sum[PARTS],
            *to = (FN(part_) *)(hist + (int64_t)c * LANES); /* no part is wider than a register */
        const FN(part_) *from = (const FN(part_) *)(A + (int64_t)row[0] * LANES);
        PMB_LANES(p, PARTS) sum[p] = from[p];
        for (int32_t j = 1; j < count[c]; j++) {
            from = (const FN(part_) *)(A + (int64_t)row[j] * LANES);
            PMB_LANES(p, PARTS) sum[p] += from[p];
        }
        PMB_LANES(p, PARTS) to[p] = sum[p];
#else
        pmb_sum *sum = hist + (int64_t)c * LANES;
        memset(sum, 0, sizeof *sum * LANES);
        for (int32_t j = 0; j < count[c]; j++) ROW_ADD(sum, A + (int64_t)row[j] * LANES);
#endif
    }
}

PMB_CLONES PMB_STATIC void FN(pmb_vt_clear_)(pmb_sum *hist, const int32_t *cells, int32_t n) {
    static const pmb_sum zero[LANES] ALIGNED_LANES = {0};
    for (int32_t j = 0; j < n; j++) ROW_COPY(hist + (int64_t)cells[j] * LANES, zero);
}

/* Sums of the first n numbers of v, pairwise: (v0 + v4) + (v2 + v6), ... */
PMB_INLINE double FN(pmb_vt_add_up_)(double *v, int n) {
    while (n > 1) {
        n /= 2;
        for (int l = 0; l < n; l++) v[l] += v[l + n];
    }
    return v[0];
}

#if PMB_SHUFFLES && LANES > 4
/* pmb_vt_walk in vectors of four numbers, for registers of 256 bits. */
PMB_INLINE void FN(pmb_vt_walk_fours_)(const pmb_sum *hist, const pmb_sum *rest,
                                       const int32_t *slot, int count, const pmb_sum *start,
                                       const double *left, double more, const double *mean,
                                       double *squares, int add) {
    enum { FOURS = LANES / 4 };
    typedef int32_t ints __attribute__((vector_size(16), may_alias));
    ints g[FOURS];
    FN(four_) mu[FOURS], v[FOURS];
    memcpy(g, start, sizeof g);
    memcpy(mu, mean, sizeof mu);
    for (int j = 0; j < count; j++) {
        const ints *cell =
            (const ints *)(slot[j] == PMB_VT_REST ? rest : hist + (int64_t)slot[j] * LANES);
        const double l = left[j] + more;
        for (int p = 0; p < FOURS; p++) {
            g[p] += cell[p];
            v[p] = __builtin_convertvector(g[p], FN(four_)) - l * mu[p];
            v[p] *= v[p];
        }
        for (int n = FOURS / 2; n >= 1; n /= 2)
            for (int p = 0; p < n; p++) v[p] += v[p + n];
        FN(two_)
        t = __builtin_shufflevector(v[0], v[0], 0, 1) + __builtin_shufflevector(v[0], v[0], 2, 3);
        squares[j] = add ? squares[j] + (t[0] + t[1]) : t[0] + t[1];
    }
}
#endif

/* |G_L - n_L mean|^2 after every step of the run, from cells added to the sums at `start`. */
PMB_INLINE void FN(pmb_vt_walk_)(const pmb_sum *hist, const pmb_sum *rest, const int32_t *slot,
                                 int count, const pmb_sum *start, const double *left, double more,
                                 const double *mean, double *squares, int add) {
    pmb_sum sum[LANES] ALIGNED_LANES;
#if PMB_SHUFFLES && LANES > 4
    if (!PMB_HAS_512) {
        FN(pmb_vt_walk_fours_)(hist, rest, slot, count, start, left, more, mean, squares, add);
        return;
    }
#endif
    memcpy(sum, start, sizeof sum);
#if PMB_SHUFFLES
    FN(row_) g = *(const FN(row_) *)sum;
    FN(wide_) mu[PARTS];
    for (int p = 0; p < PARTS; p++) mu[p] = ((const FN(wide_) *)mean)[p];
    for (int j = 0; j < count; j++) {
        const pmb_sum *cell = slot[j] == PMB_VT_REST ? rest : hist + (int64_t)slot[j] * LANES;
        g += *(const FN(row_) *)cell;
        double l = left[j] + more, all;
#if LANES == 16
        FN(part_) a = __builtin_shufflevector(g, g, 0, 1, 2, 3, 4, 5, 6, 7);
        FN(part_) b = __builtin_shufflevector(g, g, 8, 9, 10, 11, 12, 13, 14, 15);
        FN(wide_) lo = __builtin_convertvector(a, FN(wide_)) - l * mu[0];
        FN(wide_) hi = __builtin_convertvector(b, FN(wide_)) - l * mu[1];
        FN(wide_) v = lo * lo + hi * hi;
#else
        FN(wide_) v = __builtin_convertvector(g, FN(wide_)) - l * mu[0];
        v *= v;
#endif
#if LANES == 4
        FN(four_) f = v;
#else
        FN(four_)
        f = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#endif
        FN(two_) t = __builtin_shufflevector(f, f, 0, 1) + __builtin_shufflevector(f, f, 2, 3);
        all = t[0] + t[1];
        squares[j] = add ? squares[j] + all : all;
    }
#else
    for (int j = 0; j < count; j++) {
        const pmb_sum *cell = slot[j] == PMB_VT_REST ? rest : hist + (int64_t)slot[j] * LANES;
        double v[LANES], l = left[j] + more, all;
        for (int k = 0; k < LANES; k++) {
            sum[k] += cell[k];
            v[k] = sum[k] - l * mean[k];
            v[k] *= v[k];
        }
        all = FN(pmb_vt_add_up_)(v, LANES);
        squares[j] = add ? squares[j] + all : all;
    }
#endif
}

/* Squares of one run for one block of classes. */
PMB_CLONES PMB_STATIC void FN(pmb_vt_squares_)(const pmb_sum *hist, pmb_vt_scratch *s,
                                               const pmb_vt_run *run, const pmb_sum *total,
                                               int64_t weight, int add) {
    static const pmb_sum zero[LANES] ALIGNED_LANES = {0};
    pmb_sum rest[LANES] ALIGNED_LANES;
    const int32_t *slot = s->slot + run->first;
    const pmb_sum *missing = hist + (int64_t)run->missing * LANES;
    double mean[LANES] ALIGNED_LANES;
    PMB_LANES(k, LANES) mean[k] = (double)total[k] / (double)weight;
    if (run->mode_bin >= 0) {
        memcpy(rest, total, sizeof rest);
        for (int j = 0; j < run->count; j++)
            if (slot[j] != PMB_VT_REST) ROW_TAKE(rest, hist + (int64_t)slot[j] * LANES);
        if (run->missing >= 0) ROW_TAKE(rest, missing);
        if (run->missing == PMB_VT_REST) missing = rest;
    }
    FN(pmb_vt_walk_)(hist, rest, slot, run->count, zero, s->left + run->first, 0, mean,
                     s->squares + run->first, add);
    if (run->missing != PMB_VT_NONE)
        FN(pmb_vt_walk_)(hist, rest, slot, run->count, missing, s->left + run->first,
                         (double)run->n_missing, mean, s->squares_missing + run->first, add);
}

#undef FN
#undef WIDE
#undef PARTS
#undef ROW_ADD
#undef ROW_TAKE
#undef ROW_COPY
#endif
