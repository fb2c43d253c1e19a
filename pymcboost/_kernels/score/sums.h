/* ------------------------------------------------------------------------------------------------- sums of products */

/* Products of rows with vectors of the file, and squared distances, with the same bits in every build. */

/* Products x . z of rows with vectors of the file, or squared distances |x - z|^2. Feature j is added to sum number
 * j mod 8, in ascending order; mcb__total adds the 8 sums. A term is a product of two float32 numbers, which is exact in
 * double, so that fusing it with the addition changes nothing; and a sum that begins at +0 is never -0, so that leaving
 * out or adding features of 0 changes nothing either. Tiles of up to 8 rows with 64 vectors go through the features
 * in steps of 512. */
enum {
    MCB__SUMS = 8,
    MCB__T_ROWS = 8,
    MCB__T_VECTORS = 64,
    MCB__T_FEATURES = 512,
    MCB__T_CLASSES = 32
};

MCB__INLINE double mcb__total(const double *s) {
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The totals of n_rows rows with n_vectors vectors: [row][MCB__T_VECTORS]. */
static inline void mcb__totals_2(const double *sum, size_t n_rows, size_t n_vectors,
                                 double *total) {
    size_t r, v;
    for (r = 0; r < n_rows; r++) {
        for (v = 0; v < n_vectors; v++)
            total[r * MCB__T_VECTORS + v] = mcb__total(sum + (r * MCB__T_VECTORS + v) * MCB__SUMS);
    }
}

#if !MCB__VECTOR

/* Sums of n_rows rows, x_stride floats apart, with n_vectors vectors that begin at w, w_stride floats apart, in a section
 * that ends at `end`, over n features; sum is [row][MCB__T_VECTORS][MCB__SUMS]. fresh: begin with zeros. */
static inline void mcb__sums(const float *x, size_t n_rows, size_t x_stride, const unsigned char *w,
                             const unsigned char *end, size_t n_vectors, size_t w_stride, size_t n,
                             int distance, int fresh, double *sum) {
    size_t r, v, j;
    (void)end;
    for (r = 0; r < n_rows; r++) {
        for (v = 0; v < n_vectors; v++) {
            const float *a = x + r * x_stride;
            const unsigned char *b = w + 4 * v * w_stride;
            double *s = sum + (r * MCB__T_VECTORS + v) * MCB__SUMS;
            for (j = 0; j < MCB__SUMS && fresh; j++) s[j] = 0;
            if (distance) {
                for (j = 0; j < n; j++) {
                    float difference = (float)(a[j] - mcb__f32(b + 4 * j));
                    s[j % MCB__SUMS] += (double)difference * (double)difference;
                }
            } else {
                for (j = 0; j < n; j++)
                    s[j % MCB__SUMS] += (double)a[j] * (double)mcb__f32(b + 4 * j);
            }
        }
    }
}

#define mcb__totals mcb__totals_2

#else

/* The same with W of the 8 sums in a vector, for up to 4 rows and 4 vectors of the file at a time; n is a multiple of
 * 8. nr and nv are constants, so that the tests go away and the sums stay in registers. */
#define MCB__GRID_ROWS_2 2 /* 16 registers do not hold the sums of 4 rows */
#define MCB__GRID_ROWS_4 2
#define MCB__GRID_ROWS_8 4
#define MCB__GRID_ROW(X, r, W) X(r, 0, W) X(r, 1, W) X(r, 2, W) X(r, 3, W)
#define MCB__GRID(X, W)                                                                            \
    MCB__GRID_ROW(X, 0, W) MCB__GRID_ROW(X, 1, W) MCB__GRID_ROW(X, 2, W) MCB__GRID_ROW(X, 3, W)

#define MCB__GRID_BEGIN(r, v, W)                                                                   \
    if (r < nr && v < nv) {                                                                        \
        s[4 * r + v] = zero;                                                                       \
        if (!fresh)                                                                                \
            s[4 * r + v] = *(const mcb__dm##W *)(at + (r * MCB__T_VECTORS + v) * MCB__SUMS);       \
    }
#define MCB__GRID_END(r, v, W)                                                                     \
    if (r < nr && v < nv) *(mcb__dm##W *)(at + (r * MCB__T_VECTORS + v) * MCB__SUMS) = s[4 * r + v];
#define MCB__GRID_X(r, W)                                                                          \
    if (r < nr) {                                                                                  \
        single[r] = *(const mcb__fm##W *)(x + r * x_stride + j);                                   \
        if (!distance) a[r] = __builtin_convertvector(single[r], mcb__d##W);                       \
    }
#define MCB__GRID_W(v, W)                                                                          \
    if (v < nv) {                                                                                  \
        other[v] = *(const mcb__fm##W *)(w + 4 * (v * w_stride + j));                              \
        if (!distance) b[v] = __builtin_convertvector(other[v], mcb__d##W);                        \
    }
#define MCB__GRID_ADD(r, v, W)                                                                     \
    if (r < nr && v < nv) {                                                                        \
        if (distance) {                                                                            \
            mcb__d##W c = __builtin_convertvector(single[r] - other[v], mcb__d##W);                \
            s[4 * r + v] += c * c;                                                                 \
        } else {                                                                                   \
            s[4 * r + v] += a[r] * b[v];                                                           \
        }                                                                                          \
    }
#define MCB__SUMS_CASE(W, nr, nv, distance)                                                        \
    mcb__grid_##W(x, x_stride, w, w_stride, n, nr, nv, distance, fresh, sum)
#define MCB__SUMS_ROWS(W, nr)                                                                      \
    do {                                                                                           \
        if (distance) {                                                                            \
            if (nv == 4)                                                                           \
                MCB__SUMS_CASE(W, nr, 4, 1);                                                       \
            else if (nv == 2)                                                                      \
                MCB__SUMS_CASE(W, nr, 2, 1);                                                       \
            else                                                                                   \
                MCB__SUMS_CASE(W, nr, 1, 1);                                                       \
        } else {                                                                                   \
            if (nv == 4)                                                                           \
                MCB__SUMS_CASE(W, nr, 4, 0);                                                       \
            else if (nv == 2)                                                                      \
                MCB__SUMS_CASE(W, nr, 2, 0);                                                       \
            else                                                                                   \
                MCB__SUMS_CASE(W, nr, 1, 0);                                                       \
        }                                                                                          \
    } while (0)

#define MCB__DEFINE_SUMS(W, ATTRIBUTE)                                                             \
    MCB__INLINE void mcb__grid_##W(const float *x, size_t x_stride, const unsigned char *w,        \
                                   size_t w_stride, size_t n, size_t nr, size_t nv, int distance,  \
                                   int fresh, double *sum) {                                       \
        size_t lane, j;                                                                            \
        for (lane = 0; lane < MCB__SUMS; lane += W) {                                              \
            double *at = sum + lane;                                                               \
            mcb__d##W s[16], a[4], b[4], zero = MCB__SPLAT##W(0);                                  \
            mcb__f##W single[4], other[4];                                                         \
            MCB__GRID(MCB__GRID_BEGIN, W)                                                          \
            for (j = lane; j < n; j += MCB__SUMS) {                                                \
                MCB__EACH4(MCB__GRID_X, W)                                                         \
                MCB__EACH4(MCB__GRID_W, W)                                                         \
                MCB__GRID(MCB__GRID_ADD, W)                                                        \
            }                                                                                      \
            MCB__GRID(MCB__GRID_END, W)                                                            \
        }                                                                                          \
    }                                                                                              \
    ATTRIBUTE MCB__APART void mcb__sums_##W(                                                       \
        const float *x, size_t n_rows, size_t x_stride, const unsigned char *w, size_t n_vectors,  \
        size_t w_stride, size_t n, int distance, int fresh, double *sum) {                         \
        for (; n_vectors;) {                                                                       \
            size_t nv = n_vectors < 2 ? 1 : n_vectors < 4 ? 2 : 4, r = 0;                          \
            const float *row = x;                                                                  \
            double *first = sum;                                                                   \
            for (; r + MCB__GRID_ROWS_##W <= n_rows; r += MCB__GRID_ROWS_##W) {                    \
                MCB__SUMS_ROWS(W, MCB__GRID_ROWS_##W);                                             \
                x += MCB__GRID_ROWS_##W * x_stride;                                                \
                sum += MCB__GRID_ROWS_##W * MCB__T_VECTORS * MCB__SUMS;                            \
            }                                                                                      \
            for (; r < n_rows; r++) {                                                              \
                MCB__SUMS_ROWS(W, 1);                                                              \
                x += x_stride;                                                                     \
                sum += MCB__T_VECTORS * MCB__SUMS;                                                 \
            }                                                                                      \
            x = row;                                                                               \
            sum = first + nv * MCB__SUMS;                                                          \
            w += 4 * nv * w_stride;                                                                \
            n_vectors -= nv;                                                                       \
        }                                                                                          \
    }

MCB__DEFINE_SUMS(2, )
#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
MCB__DEFINE_SUMS(4, MCB__AVX2)
#endif
#if MCB__CHOOSE || defined(__AVX512F__)
MCB__DEFINE_SUMS(8, MCB__AVX512)
#endif

#if MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__)
#if defined(__clang__)
#define MCB__SHUFFLE(to, a, b, i, j, k, l) to = __builtin_shufflevector(a, b, i, j, k, l)
#else
#define MCB__SHUFFLE(to, a, b, i, j, k, l)                                                         \
    do {                                                                                           \
        const mcb__i4 order = {i, j, k, l};                                                        \
        to = __builtin_shuffle(a, b, order);                                                       \
    } while (0)
#endif
/* Four vectors at a time, the same additions. */
MCB__AVX2 MCB__APART void mcb__totals_4(const double *sum, size_t n_rows, size_t n_vectors,
                                        double *total) {
    size_t r, v, i;
    for (r = 0; r < n_rows; r++, sum += MCB__T_VECTORS * MCB__SUMS, total += MCB__T_VECTORS) {
        for (v = 0; v + 4 <= n_vectors; v += 4) {
            mcb__d4 half[4], low, high, ac, bd;
            for (i = 0; i < 4; i++) {
                const double *s = sum + (v + i) * MCB__SUMS;
                half[i] = *(const mcb__dm4 *)s + *(const mcb__dm4 *)(s + 4);
            }
            MCB__SHUFFLE(low, half[0], half[2], 0, 1, 4, 5);
            MCB__SHUFFLE(high, half[0], half[2], 2, 3, 6, 7);
            ac = low + high;
            MCB__SHUFFLE(low, half[1], half[3], 0, 1, 4, 5);
            MCB__SHUFFLE(high, half[1], half[3], 2, 3, 6, 7);
            bd = low + high;
            MCB__SHUFFLE(low, ac, bd, 0, 4, 2, 6);
            MCB__SHUFFLE(high, ac, bd, 1, 5, 3, 7);
            *(mcb__dm4 *)(total + v) = low + high;
        }
        for (; v < n_vectors; v++) total[v] = mcb__total(sum + v * MCB__SUMS);
    }
}
#undef MCB__SHUFFLE
#endif

static inline void mcb__totals(const double *sum, size_t n_rows, size_t n_vectors, double *total) {
    MCB__DISPATCH(mcb__totals_4(sum, n_rows, n_vectors, total),
                  mcb__totals_4(sum, n_rows, n_vectors, total),
                  mcb__totals_2(sum, n_rows, n_vectors, total));
}

static inline void mcb__sums_of_8(const float *x, size_t n_rows, size_t x_stride,
                                  const unsigned char *w, size_t n_vectors, size_t w_stride,
                                  size_t n, int distance, int fresh, double *sum) {
    MCB__DISPATCH(
        mcb__sums_8(x, n_rows, x_stride, w, n_vectors, w_stride, n, distance, fresh, sum),
        mcb__sums_4(x, n_rows, x_stride, w, n_vectors, w_stride, n, distance, fresh, sum),
        mcb__sums_2(x, n_rows, x_stride, w, n_vectors, w_stride, n, distance, fresh, sum));
}

/* The features that are left over, at most 7, filled up with zeros to 8. */
MCB__INLINE void mcb__fill_up(const unsigned char *from, size_t rest, float *to) {
    size_t i = 0;
    if (rest & 4) {
        memcpy(to, from, 4 * sizeof *to);
        i = 4;
    }
    if (rest & 2) {
        memcpy(to + i, from + 4 * i, 2 * sizeof *to);
        i += 2;
    }
    if (rest & 1) {
        memcpy(to + i, from + 4 * i, sizeof *to);
        i++;
    }
    for (; i < MCB__SUMS; i++) to[i] = 0;
}

MCB__APART void mcb__sums_of_rest(const float *x, size_t n_rows, size_t x_stride,
                                  const unsigned char *w, const unsigned char *end,
                                  size_t n_vectors, size_t w_stride, size_t rest, int distance,
                                  int fresh, double *sum) {
    float rows[MCB__T_ROWS * MCB__SUMS], vectors[MCB__T_VECTORS * MCB__SUMS];
    size_t i, direct = 0;
    for (i = 0; i < n_rows; i++)
        mcb__fill_up((const unsigned char *)(x + i * x_stride), rest, rows + i * MCB__SUMS);
    /* What follows a vector is finite, too, and a product with 0 changes no sum. */
    if (!distance) {
        direct = n_vectors;
        while (direct && (size_t)(end - w) < 4 * ((direct - 1) * w_stride + MCB__SUMS)) direct--;
        if (direct)
            mcb__sums_of_8(rows, n_rows, MCB__SUMS, w, direct, w_stride, MCB__SUMS, 0, fresh, sum);
    }
    for (i = direct; i < n_vectors; i++)
        mcb__fill_up(w + 4 * i * w_stride, rest, vectors + i * MCB__SUMS);
    if (direct < n_vectors)
        mcb__sums_of_8(rows, n_rows, MCB__SUMS,
                       (const unsigned char *)(vectors + direct * MCB__SUMS), n_vectors - direct,
                       MCB__SUMS, MCB__SUMS, distance, fresh, sum + direct * MCB__SUMS);
}

static inline void mcb__sums(const float *x, size_t n_rows, size_t x_stride, const unsigned char *w,
                             const unsigned char *end, size_t n_vectors, size_t w_stride, size_t n,
                             int distance, int fresh, double *sum) {
    size_t rest = n % MCB__SUMS, whole = n - rest;
    if (whole)
        mcb__sums_of_8(x, n_rows, x_stride, w, n_vectors, w_stride, whole, distance, fresh, sum);
    if (rest)
        mcb__sums_of_rest(x + whole, n_rows, x_stride, w + 4 * whole, end, n_vectors, w_stride,
                          rest, distance, fresh && !whole, sum);
}

#endif
