/* Template body: define REAL (float or double), RTAG (f or d) and LANES before each inclusion.
 *
 * All functions work on n consecutive rows of one class and one sign vector h. The gradient of a row of class c is
 * A[r] = -u[r] for r != c and A[c] = sum of the u[r]; since h takes two values, an update multiplies by one of two
 * constant rows.
 */
#ifdef REAL
#define FN(name) PMB_CAT2(name, RTAG, LANES)

#if PMB_VECTORS
typedef REAL FN(wrow_) __attribute__((vector_size(LANES * sizeof(REAL)), may_alias));
typedef __typeof__((FN(wrow_)){0} < (FN(wrow_)){0}) FN(wmask_);
typedef signed char FN(wsigns_) __attribute__((vector_size(LANES), may_alias));
typedef REAL FN(whalf_) __attribute__((vector_size(8 * sizeof(REAL)), may_alias));
typedef REAL FN(wquarter_) __attribute__((vector_size(4 * sizeof(REAL)), may_alias));
#define ROW FN(wrow_)
#define MASK FN(wmask_)
#define V(p) (*(ROW *)(p))
#define CV(p) (*(const ROW *)(p))
#endif

/* Sum of a row in a fixed order: halves are added until one number is left. */
PMB_INLINE REAL FN(row_sum_)(const REAL *a) {
#if PMB_VECTORS
#if LANES == 16
    FN(whalf_) half = ((const FN(whalf_) *)a)[0] + ((const FN(whalf_) *)a)[1];
    FN(wquarter_) t = ((FN(wquarter_) *)&half)[0] + ((FN(wquarter_) *)&half)[1];
#elif LANES == 8
    FN(wquarter_) t = ((const FN(wquarter_) *)a)[0] + ((const FN(wquarter_) *)a)[1];
#else
    FN(wquarter_) t = *(const FN(wquarter_) *)a;
#endif
    return (t[0] + t[2]) + (t[1] + t[3]);
#else
    REAL t[LANES / 2];
    for (int l = 0; l < LANES / 2; l++) t[l] = a[l] + a[l + LANES / 2];
    for (int width = LANES / 4; width > 0; width /= 2)
        for (int l = 0; l < width; l++) t[l] += t[l + width];
    return t[0];
#endif
}

/* plus += sum of rows with h = +1, minus += sum of rows with h = -1 (LANES doubles each); n <= PMB_BLOCK_ROWS. */
PMB_CLONES PMB_STATIC void FN(pmb_side_sums_)(const void *A_, const signed char *h, int64_t n,
                                              double *plus, double *minus) {
    const REAL *A = (const REAL *)A_;
    REAL up[2][LANES] ALIGNED_LANES = {{0}}, down[2][LANES] ALIGNED_LANES = {{0}};
#if PMB_VECTORS
    ROW u0 = {0}, u1 = {0}, d0 = {0}, d1 = {0};
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) {
        REAL p0 = h[i] > 0, p1 = h[i + 1] > 0;
        ROW a0 = CV(A + i * LANES), a1 = CV(A + (i + 1) * LANES);
        u0 += a0 * p0;
        d0 += a0 * (1 - p0);
        u1 += a1 * p1;
        d1 += a1 * (1 - p1);
    }
    if (i < n) {
        REAL p0 = h[i] > 0;
        ROW a0 = CV(A + i * LANES);
        u0 += a0 * p0;
        d0 += a0 * (1 - p0);
    }
    V(up[0]) = u0;
    V(up[1]) = u1;
    V(down[0]) = d0;
    V(down[1]) = d1;
#else
    for (int64_t i = 0; i < n; i++) {
        REAL *to = h[i] > 0 ? up[i & 1] : down[i & 1];
        PMB_LANES(l, LANES) to[l] += A[i * LANES + l];
    }
#endif
    PMB_LANES(l, LANES) plus[l] += (double)up[0][l] + up[1][l];
    PMB_LANES(l, LANES) minus[l] += (double)down[0][l] + down[1][l];
}

/* As pmb_side_sums, in whole numbers: a row's term is its number times `by` without its fraction. */
PMB_CLONES PMB_STATIC void FN(pmb_side_units_)(const void *A_, const signed char *h, int64_t n,
                                               double by, int64_t *PMB_RESTRICT plus,
                                               int64_t *PMB_RESTRICT minus) {
    const REAL *A = (const REAL *)A_;
    for (int64_t i = 0; i < n; i++) {
        int64_t *to = h[i] > 0 ? plus : minus;
        PMB_LANES(l, LANES) to[l] += (int64_t)((double)A[i * LANES + l] * by);
    }
}

/* Exponential loss: u *= factor[h], gradient rebuilt. plus, minus, smallest: n_blocks x LANES; their lane of the own
 * class and the padding are 0. Adding the smallest weight keeps every u away from denormal numbers. */
PMB_CLONES PMB_STATIC void FN(pmb_exp_update_)(void *A_, int64_t block_size, int n_blocks,
                                               const signed char *h, int64_t n, const void *plus_,
                                               const void *minus_, const void *smallest_, int cls) {
    const REAL *plus = (const REAL *)plus_, *minus = (const REAL *)minus_,
               *smallest = (const REAL *)smallest_;
    REAL *A = (REAL *)A_, *own = A + (cls / LANES) * block_size + cls % LANES;
    for (int64_t i = 0; i < n; i++) {
        REAL total = 0;
        for (int b = 0; b < n_blocks; b++) {
            REAL *a = A + b * block_size + i * LANES;
            const REAL *factor = (h[i] > 0 ? plus : minus) + b * LANES,
                       *least = smallest + b * LANES;
#if PMB_VECTORS
            ROW v = CV(a) * CV(factor) + CV(least);
            V(a) = v;
            REAL row[LANES] ALIGNED_LANES;
            V(row) = v;
            total += FN(row_sum_)(row);
#else
            PMB_LANES(l, LANES) {
                REAL v = a[l] * factor[l];
                a[l] = v + least[l];
            }
            total += FN(row_sum_)(a);
#endif
        }
        own[i * LANES] = -total;
    }
}

#if PMB_VECTORS
/* Parts of the logistic loss for vectors of some bytes, or of a row if that is shorter: sums over n rows, and a row's new
 * values, q, and gradients, a. */
#define LOGISTIC(bytes)                                                                            \
    typedef REAL FN(part_##bytes##_) __attribute__((                                               \
        vector_size((bytes) < LANES * sizeof(REAL) ? (bytes) : LANES * sizeof(REAL)), may_alias)); \
    PMB_INLINE void FN(log_sums_##bytes##_)(const REAL *Q, const signed char *h,                   \
                                            const double *weight, int64_t n, const REAL *plus,     \
                                            const REAL *minus, REAL(*sums)[LANES]) {               \
        typedef FN(part_##bytes##_) part;                                                          \
        for (int at = 0; at < LANES; at += (int)(sizeof(part) / sizeof(REAL))) {                   \
            part gp = *(part *)(sums[0] + at), gm = *(part *)(sums[1] + at);                       \
            part hp = *(part *)(sums[2] + at), hm = *(part *)(sums[3] + at);                       \
            for (int64_t i = 0; i < n; i++) {                                                      \
                REAL s = (REAL)weight[i], side = h[i] > 0, up = s * side, down = s - up;           \
                part q = *(const part *)(Q + i * LANES + at) *                                     \
                         *(const part *)((h[i] > 0 ? plus : minus) + at);                          \
                part rest = 1 / (1 + q), p = q * rest, curve = p * rest;                           \
                gp += p * up;                                                                      \
                gm += p * down;                                                                    \
                hp += curve * up;                                                                  \
                hm += curve * down;                                                                \
            }                                                                                      \
            *(part *)(sums[0] + at) = gp;                                                          \
            *(part *)(sums[1] + at) = gm;                                                          \
            *(part *)(sums[2] + at) = hp;                                                          \
            *(part *)(sums[3] + at) = hm;                                                          \
        }                                                                                          \
    }                                                                                              \
    PMB_INLINE void FN(log_row_##bytes##_)(REAL * q, const REAL *factor, const REAL *least,        \
                                           REAL s, REAL *a) {                                      \
        typedef FN(part_##bytes##_) part;                                                          \
        typedef __typeof__((part){0} < (part){0}) mask;                                            \
        for (int at = 0; at < LANES; at += (int)(sizeof(part) / sizeof(REAL))) {                   \
            part v = *(part *)(q + at) * *(const part *)(factor + at),                             \
                 high = (part){0} + (REAL)PMB_LARGEST;                                             \
            v += *(const part *)(least + at);                                                      \
            mask fits = v < high;                                                                  \
            v = (part)((fits & (mask)v) | (~fits & (mask)high));                                   \
            *(part *)(q + at) = v;                                                                 \
            *(part *)(a + at) = v / (1 + v) * -s;                                                  \
        }                                                                                          \
    }
LOGISTIC(64)
LOGISTIC(32)
LOGISTIC(16)
#undef LOGISTIC
#define ROWS_AT_ONCE 256 /* whose parts stay in the first cache */
#endif

/* Logistic loss at trial coefficients: with q = Q * factor[h] and p = q / (1 + q) adds, for the rows of each sign,
 * weight * p and weight * p (1 - p). out: 4 x LANES doubles (p plus, p minus, p(1-p) plus, p(1-p) minus). */
PMB_CLONES PMB_STATIC void FN(pmb_log_sums_)(const void *Q_, const signed char *h,
                                             const double *weight, int64_t n, const void *plus_,
                                             const void *minus_, double *out) {
    const REAL *Q = (const REAL *)Q_, *plus = (const REAL *)plus_, *minus = (const REAL *)minus_;
    REAL sums[4][LANES] ALIGNED_LANES = {{0}};
#if PMB_VECTORS
    for (int64_t i = 0; i < n; i += ROWS_AT_ONCE) {
        const int64_t rows = n - i < ROWS_AT_ONCE ? n - i : ROWS_AT_ONCE;
        const REAL *own = Q + i * LANES;
        if (PMB_HAS_512)
            FN(log_sums_64_)(own, h + i, weight + i, rows, plus, minus, sums);
        else if (PMB_HAS_256)
            FN(log_sums_32_)(own, h + i, weight + i, rows, plus, minus, sums);
        else
            FN(log_sums_16_)(own, h + i, weight + i, rows, plus, minus, sums);
    }
#else
    for (int64_t i = 0; i < n; i++) {
        int down = h[i] <= 0;
        const REAL *factor = down ? minus : plus;
        REAL s = (REAL)weight[i];
        PMB_LANES(l, LANES) {
            REAL q = Q[i * LANES + l] * factor[l], rest = 1 / (1 + q), p = q * rest;
            sums[down][l] += s * p;
            sums[2 + down][l] += s * p * rest;
        }
    }
#endif
    for (int k = 0; k < 4; k++)
        PMB_LANES(l, LANES) out[k * LANES + l] += sums[k][l];
}

/* As pmb_log_sums, in whole numbers: a row's term is its number times `by` without its fraction. */
PMB_CLONES PMB_STATIC void FN(pmb_log_units_)(const void *Q_, const signed char *h,
                                              const double *weight, int64_t n, const void *plus_,
                                              const void *minus_, double by, int64_t *out) {
    const REAL *Q = (const REAL *)Q_, *plus = (const REAL *)plus_, *minus = (const REAL *)minus_;
    for (int64_t i = 0; i < n; i++) {
        int down = h[i] <= 0;
        const REAL *factor = down ? minus : plus;
        int64_t *PMB_RESTRICT first = out + down * LANES,
                              *PMB_RESTRICT second = out + (2 + down) * LANES;
        double s = weight[i] * by;
        PMB_LANES(l, LANES) {
            REAL q = Q[i * LANES + l] * factor[l], rest = 1 / (1 + q), p = q * rest;
            first[l] += (int64_t)(s * (double)p);
            second[l] += (int64_t)(s * (double)(p * rest));
        }
    }
}

/* Logistic loss: Q *= factor[h], gradient rebuilt from p = Q / (1 + Q). */
PMB_CLONES PMB_STATIC void FN(pmb_log_update_)(void *Q_, void *A_, int64_t block_size, int n_blocks,
                                               const signed char *h, const double *weight,
                                               int64_t n, const void *plus_, const void *minus_,
                                               const void *smallest_, int cls) {
    const REAL *plus = (const REAL *)plus_, *minus = (const REAL *)minus_,
               *smallest = (const REAL *)smallest_;
    REAL *Q = (REAL *)Q_, *A = (REAL *)A_, *own = A + (cls / LANES) * block_size + cls % LANES;
    for (int64_t i = 0; i < n; i++) {
        REAL total = 0, s = (REAL)weight[i];
        for (int b = 0; b < n_blocks; b++) {
            REAL *a = A + b * block_size + i * LANES, *q = Q + b * block_size + i * LANES;
            const REAL *factor = (h[i] > 0 ? plus : minus) + b * LANES,
                       *least = smallest + b * LANES;
#if PMB_VECTORS
            REAL row[LANES] ALIGNED_LANES;
            if (PMB_HAS_512)
                FN(log_row_64_)(q, factor, least, s, row);
            else if (PMB_HAS_256)
                FN(log_row_32_)(q, factor, least, s, row);
            else
                FN(log_row_16_)(q, factor, least, s, row);
            memcpy(a, row, sizeof row);
            total += FN(row_sum_)(row);
#else
            PMB_LANES(l, LANES) {
                REAL v = q[l] * factor[l];
                v += least[l];
                v = v < (REAL)PMB_LARGEST ? v : (REAL)PMB_LARGEST;
                q[l] = v;
                a[l] = v / (1 + v) * -s;
            }
            total += FN(row_sum_)(a);
#endif
        }
        own[i * LANES] = -total;
    }
}

/* Rows whose signs are transposed together. */
#define SIGN_ROWS 64

/* Columns that each have signs of their own, those of column l at h + l * stride: side[i][l] = 1 where they are +1.
 * Columns from the last one on share its signs. */
PMB_INLINE void FN(transpose_)(const signed char *h, int64_t stride, int last, int64_t n,
                               signed char side[][LANES]) {
    int64_t i = 0;
#ifdef PMB_LOW_BYTES
    for (; i + 16 <= n; i += 16) { /* rounds of interleaving columns that lie LANES / 2 apart */
        pmb_bytes a[LANES], b[LANES];
        PMB_LANES(l, LANES) {
            memcpy(&a[l], h + (l < last ? l : last) * stride + i, 16);
            a[l] = (pmb_bytes)(a[l] > 0) & 1;
        }
        for (int width = LANES; width > 1; width /= 2) {
            PMB_LANES(l, LANES / 2) {
                b[2 * l] = PMB_LOW_BYTES(a[l], a[l + LANES / 2]);
                b[2 * l + 1] = PMB_HIGH_BYTES(a[l], a[l + LANES / 2]);
            }
            memcpy(a, b, sizeof a);
        }
        memcpy(side[i], a, sizeof a);
    }
#endif
    PMB_LANES(l, LANES) {
        const signed char *from = h + (l < last ? l : last) * stride;
        for (int64_t j = i; j < n; j++) side[j][l] = from[j] > 0;
    }
}

/* As pmb_side_sums, for columns with signs of their own. */
PMB_CLONES PMB_STATIC void FN(pmb_column_sums_)(const void *A_, const signed char *h,
                                                int64_t stride, int last, int64_t n, double *plus,
                                                double *minus) {
    const REAL *A = (const REAL *)A_;
    signed char side[SIGN_ROWS][LANES] ALIGNED_LANES;
    REAL up[LANES] ALIGNED_LANES = {0}, down[LANES] ALIGNED_LANES = {0};
    for (int64_t start = 0; start < n; start += SIGN_ROWS) {
        int64_t rows = n - start < SIGN_ROWS ? n - start : SIGN_ROWS;
        FN(transpose_)(h + start, stride, last, rows, side);
#if PMB_VECTORS
        ROW u = V(up), d = V(down);
        for (int64_t i = 0; i < rows; i++) {
            ROW a = CV(A + (start + i) * LANES),
                p = __builtin_convertvector(*(const FN(wsigns_) *)side[i], ROW);
            u += a * p;
            d += a * (1 - p);
        }
        V(up) = u;
        V(down) = d;
#else
        for (int64_t i = 0; i < rows; i++)
            PMB_LANES(l, LANES) (side[i][l] ? up : down)[l] += A[(start + i) * LANES + l];
#endif
    }
    PMB_LANES(l, LANES) plus[l] += (double)up[l];
    PMB_LANES(l, LANES) minus[l] += (double)down[l];
}

/* As pmb_column_sums, in whole numbers: a row's term is its number times `by` without its fraction. */
PMB_CLONES PMB_STATIC void FN(pmb_column_units_)(const void *A_, const signed char *h,
                                                 int64_t stride, int last, int64_t n, double by,
                                                 int64_t *plus, int64_t *minus) {
    const REAL *A = (const REAL *)A_;
    signed char side[SIGN_ROWS][LANES] ALIGNED_LANES;
    int64_t up[LANES] = {0}, all[LANES] = {0};
    for (int64_t start = 0; start < n; start += SIGN_ROWS) {
        int64_t rows = n - start < SIGN_ROWS ? n - start : SIGN_ROWS;
        FN(transpose_)(h + start, stride, last, rows, side);
        for (int64_t i = 0; i < rows; i++)
            PMB_LANES(l, LANES) {
                int64_t term = (int64_t)((double)A[(start + i) * LANES + l] * by);
                all[l] += term;
                up[l] += term & -(int64_t)side[i][l];
            }
    }
    PMB_LANES(l, LANES) plus[l] += up[l];
    PMB_LANES(l, LANES) minus[l] += all[l] - up[l];
}

/* A = A * factor + least, factor being plus or minus as the signs of the row say, or of row and column if stride > 0. */
PMB_CLONES PMB_STATIC void FN(pmb_column_update_)(void *A_, const signed char *h, int64_t stride,
                                                  int last, int64_t n, const void *plus_,
                                                  const void *minus_, const void *least_) {
    REAL *A = (REAL *)A_;
    const REAL *plus = (const REAL *)plus_, *minus = (const REAL *)minus_,
               *least = (const REAL *)least_;
    signed char side[SIGN_ROWS][LANES] ALIGNED_LANES;
    for (int64_t start = 0; start < n; start += SIGN_ROWS) {
        int64_t rows = n - start < SIGN_ROWS ? n - start : SIGN_ROWS;
        REAL *a = A + start * LANES;
        if (stride) FN(transpose_)(h + start, stride, last, rows, side);
#if PMB_VECTORS
        ROW up = CV(plus), down = CV(minus), low = CV(least);
        if (stride) {
            for (int64_t i = 0; i < rows; i++) {
                ROW p = __builtin_convertvector(*(const FN(wsigns_) *)side[i], ROW);
                V(a + i * LANES) = CV(a + i * LANES) * (up * p + down * (1 - p)) + low;
            }
        } else {
            for (int64_t i = 0; i < rows; i++)
                V(a + i * LANES) = CV(a + i * LANES) * CV(h[start + i] > 0 ? plus : minus) + low;
        }
#else
        for (int64_t i = 0; i < rows; i++)
            PMB_LANES(l, LANES) {
                int up = stride ? side[i][l] : h[start + i] > 0;
                a[i * LANES + l] = a[i * LANES + l] * (up ? plus : minus)[l] + least[l];
            }
#endif
    }
}

/* out = sum of the row times mu, over all blocks. */
PMB_CLONES PMB_STATIC void FN(pmb_combine_)(const void *A_, int64_t block_size, int n_blocks,
                                            const void *mu_, int64_t n, void *out_, int out_step) {
    const REAL *A = (const REAL *)A_, *mu = (const REAL *)mu_;
    REAL *out = (REAL *)out_;
    for (int64_t i = 0; i < n; i++) {
        REAL total = 0;
        for (int b = 0; b < n_blocks; b++) {
            const REAL *a = A + b * block_size + i * LANES;
            REAL row[LANES] ALIGNED_LANES;
            PMB_LANES(l, LANES) row[l] = a[l] * mu[b * LANES + l];
            total += FN(row_sum_)(row);
        }
        out[i * out_step] = total;
    }
}
#undef SIGN_ROWS

#undef FN
#undef ROW
#undef MASK
#undef V
#undef CV
#undef ROWS_AT_ONCE
#endif
