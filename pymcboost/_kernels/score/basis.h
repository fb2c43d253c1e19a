/* ------------------------------------------------------------------------------------- hyperplanes that are left out */

/* Prepares linear machines whose hyperplanes are left out where they cannot win. */

/* Certified exits of linear machines. The hyperplanes of a few classes, the basis, may give those of all others but for
 * a small rest: w_k = sum_p share_kp w_p + rest_k. So it is after fewer rounds than classes, and with fewer features than
 * classes. The products of a row with the basis then say what class k gets but for bound_k |x|, and only classes that
 * this leaves a chance to win need hyperplanes of their own. Classes that no round has told apart are twins: the first
 * of them stands for all.
 *
 * |x|^2 = sum_j (unit_j x_j)^2; unit_j, a power of 2, is about the largest coefficient of feature j, so that the units of
 * the features do not matter. Factors are rounded so that products are exact: no build has other bits. */
enum { MCB__BASIS = 256, MCB__SKETCH = 1024 };

typedef struct {
    size_t n;            /* hyperplanes in the basis; 0 if nothing can be left out */
    const uint32_t *cls; /* their classes */
    const float *share;  /* n x n_classes */
    const float *bound;  /* of each class, 0 in the basis */
    const float *slack;  /* to be added to the bound times |x|: 0 in the basis alone */
    const float *unit;   /* of each feature */
    const float *plane;  /* coefficients of the basis, n x n_features */
    const float *column; /* the same, n_features x n, for sparse rows */
    const uint32_t *
        twin; /* of each class, the first one that has the same hyperplane and bias: maybe itself */
} mcb__basis;

/* Hyperplanes in a basis at most: with more of them, little is left out. */
static inline size_t mcb__most_basis(const mcb_model *m) {
    size_t K = m->n_classes, most = K - (K + 3) / 4;
    if (most > m->n_features) most = m->n_features;
    return most < MCB__BASIS ? most : (size_t)MCB__BASIS;
}

/* Bytes that mcb_prepare_early needs; 0 unless the model is a linear machine, and one that leaves room in memory. */
MCB_API size_t mcb_early_size(const mcb_model *m) {
    size_t K = m->n_classes, d = m->n_features, n,
           width = d < MCB__SKETCH ? d : (size_t)MCB__SKETCH;
    if (m->kind != MCB_KIND_LINEAR || m->section[MCB_S_WMAT].count >= SIZE_MAX / 64) return 0;
    n = mcb__most_basis(m);
    return mcb__room(1, sizeof(mcb__basis)) + mcb__room(n + K, sizeof(uint32_t)) +
           mcb__room(n * K, sizeof(float)) + 2 * mcb__room(K, sizeof(float)) +
           mcb__room(d, sizeof(float)) + 2 * mcb__room(n * d, sizeof(float)) +
           mcb__room(K * width, sizeof(double)) + mcb__room(K * n, sizeof(double)) +
           2 * mcb__room(K, sizeof(double));
}

static inline float mcb__coefficient(const mcb_model *m, size_t k, size_t j) {
    return mcb__f32(m->section[MCB_S_WMAT].data + 4 * (k * m->n_features + j));
}

/* The first class with the same bytes as each. spare: room for a number of each class. */
static inline void mcb__find_twins(const mcb_model *m, double *spare, uint32_t *twin) {
    const unsigned char *w = m->section[MCB_S_WMAT].data, *bias = m->section[MCB_S_BIAS].data;
    size_t K = m->n_classes, size = 4 * (size_t)m->n_features, k, i;
    for (k = 0; k < K; k++) {
        spare[k] = (double)mcb_crc32c(0, w + k * size, size);
        for (i = 0; i < k; i++) {
            if (spare[i] == spare[k] && memcmp(bias + 4 * i, bias + 4 * k, 4) == 0 &&
                memcmp(w + i * size, w + k * size, size) == 0)
                break;
        }
        twin[k] = (uint32_t)i;
    }
}

/* The powers of 2 below the largest coefficients; 0 for features without any. */
static inline void mcb__units(const mcb_model *m, float *unit) {
    size_t K = m->n_classes, d = m->n_features, j, k;
    for (j = 0; j < d; j++) unit[j] = 0;
    for (k = 0; k < K; k++) {
        for (j = 0; j < d; j++) {
            float w = mcb__coefficient(m, k, j);
            w = w < 0 ? -w : w;
            if (w > unit[j]) unit[j] = w;
        }
    }
    for (j = 0; j < d; j++) {
        uint32_t bits;
        memcpy(&bits, unit + j, sizeof bits);
        bits = bits & 0x7f800000u ? bits & 0x7f800000u : (uint32_t)(bits > 0);
        memcpy(unit + j, &bits, sizeof bits);
    }
}

/* Hyperplanes in units, with the features of many added up at random, with either sign: as many of these are independent. */
static inline void mcb__sketch(const mcb_model *m, const float *unit, size_t width,
                               double *sketch) {
    size_t K = m->n_classes, d = m->n_features, j, k;
    for (j = 0; j < K * width; j++) sketch[j] = 0;
    for (k = 0; k < K; k++) {
        double *mine = sketch + k * width;
        for (j = 0; j < d; j++) {
            uint32_t hash = (uint32_t)j * 0x9e3779b1u;
            double w = unit[j] > 0 ? (double)mcb__coefficient(m, k, j) / (double)unit[j] : 0;
            if (width == d)
                mine[j] = w;
            else
                mine[hash >> 22] += hash >> 21 & 1 ? w : -w; /* MCB__SKETCH of them */
        }
        for (j = 0; j < width; j++) mine[j] = mcb__shortened(mine[j]);
    }
}

/* Sum of products of numbers with 29 bits and floats, in 8 chains. */
static inline double mcb__inner(const double *v, const float *w, size_t n) {
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t i, j;
    for (j = 0; j + MCB__SUMS <= n; j += MCB__SUMS) {
        for (i = 0; i < MCB__SUMS; i++) sum[i] += v[j + i] * (double)w[j + i];
    }
    for (i = 0; i < n - j; i++) sum[i] += v[j + i] * (double)w[j + i];
    return mcb__total(sum);
}

/* Sum of squares of numbers rounded to float. */
static inline double mcb__square(const double *v, size_t n) {
    double sum[MCB__SUMS] = {0, 0, 0, 0, 0, 0, 0, 0};
    size_t i, j;
    for (j = 0; j + MCB__SUMS <= n; j += MCB__SUMS) {
        for (i = 0; i < MCB__SUMS; i++) sum[i] += (double)(float)v[j + i] * (double)(float)v[j + i];
    }
    for (i = 0; i < n - j; i++) sum[i] += (double)(float)v[j + i] * (double)(float)v[j + i];
    return mcb__total(sum);
}

/* Choose a basis by Gram and Schmidt, the hyperplane with the largest rest next; triangle receives the parts of all
 * hyperplanes, n_classes x most. Returns how many it has, 0 if they are not enough. */
static inline size_t mcb__choose_basis(size_t K, size_t width, size_t most, double *sketch,
                                       double *triangle, double *whole, double *rest,
                                       const uint32_t *twin, uint32_t *cls) {
    float way[MCB__SKETCH];
    size_t n, k, j, next;
    for (n = 0;; n++) {
        double largest = 0, length;
        for (k = 0, next = K; k < K; k++) {
            rest[k] = twin[k] == k ? mcb__square(sketch + k * width, width) : 0;
            if (!n) whole[k] = rest[k];
            /* Rounded coefficients leave squares of about 2^-48: less than 2^-36 is nothing. */
            if (rest[k] * 68719476736.0 <= whole[k] || rest[k] / whole[k] <= largest) continue;
            largest = rest[k] / whole[k];
            next = k;
        }
        if (next == K) return n;
        if (n == most) return 0;
        cls[n] = (uint32_t)next;
        length = mcb__quick_sqrt(rest[next]);
        for (j = 0; j < width; j++) way[j] = (float)(sketch[next * width + j] / length);
        for (k = 0; k < K; k++) {
            double *mine = sketch + k * width, part = mcb__shortened(mcb__inner(mine, way, width));
            triangle[k * most + n] = part;
            for (j = 0; j < width; j++) mine[j] = mcb__shortened(mine[j] - part * (double)way[j]);
            if (k == next) {
                for (j = 0; j < width; j++) mine[j] = 0;
            }
        }
    }
}

/* What each hyperplane of the basis has in class k, by substitution. False if a share is out of all proportion. */
static inline int mcb__shares(const mcb_model *m, size_t n, size_t most, const uint32_t *cls,
                              const double *triangle, size_t k, float *share) {
    size_t K = m->n_classes, i, j;
    for (i = n; i-- > 0;) {
        double v = triangle[k * most + i];
        float part;
        for (j = i + 1; j < n; j++) v -= (double)share[j * K + k] * triangle[cls[j] * most + i];
        v /= triangle[cls[i] * most + i];
        if (!(v < 1e12 && v > -1e12)) return 0;
        part = (float)v;
        share[i * K + k] = part;
    }
    return 1;
}

/* Norms in units of the hyperplane of class k, and of what is left of it without its shares of the basis. */
static inline void mcb__norms(const mcb_model *m, const mcb__basis *b, size_t k, double *whole,
                              double *rest) {
    double left[MCB__T_FEATURES];
    size_t K = m->n_classes, d = m->n_features, j, i, p, n;
    int shared;
    for (shared = 0; shared < (rest ? 2 : 1); shared++) {
        double sum = 0;
        for (j = 0; j < d; j += n) {
            n = d - j < MCB__T_FEATURES ? d - j : (size_t)MCB__T_FEATURES;
            for (i = 0; i < n; i++) left[i] = (double)mcb__coefficient(m, k, j + i);
            for (p = 0; p < b->n && shared; p++) {
                const unsigned char *w =
                    m->section[MCB_S_WMAT].data + 4 * ((size_t)b->cls[p] * d + j);
                double part = (double)b->share[p * K + k];
                for (i = 0; i < n; i++) left[i] -= part * (double)mcb__f32(w + 4 * i);
            }
            for (i = 0; i < n; i++)
                left[i] = b->unit[j + i] > 0 ? left[i] / (double)b->unit[j + i] : 0;
            sum += mcb__square(left, n);
        }
        /* Somewhat more than its rounding errors; numbers too small for a float are below 2^-149. */
        sum = mcb__shortened((mcb__quick_sqrt(sum) + 1e-38) * (1 + 1 / 1048576.0));
        *(shared ? rest : whole) = sum;
    }
}

/* The least power of 2 that is n or more, times 2^-53. */
static inline double mcb__rounding(size_t n) {
    double power = DBL_EPSILON / 2;
    for (; n > 1; n = (n + 1) / 2) power *= 2;
    return power;
}

/* Bounds of class k times |x|: the rest; 2^-28 of the shares, whose products have 29 bits; the rounding errors of sums
 * over the features, of this hyperplane and of those it has shares of. */
static inline float mcb__bound_of(const mcb_model *m, const mcb__basis *b, size_t k,
                                  const double *whole) {
    double mine = 0, rest = 0, shares = 0, bound,
           rounding = mcb__rounding((size_t)m->n_features + 300);
    size_t p;
    float up;
    mcb__norms(m, b, k, &mine, &rest);
    for (p = 0; p < b->n; p++) {
        float share = b->share[p * m->n_classes + k];
        shares += (double)(share < 0 ? -share : share) * whole[p];
    }
    shares = mcb__shortened(shares * (1 + 1 / 1048576.0));
    bound = rest + (rounding * mine + (rounding * shares + shares / 268435456.0));
    up = (float)(bound * (1 + 1 / 1048576.0));
    return up;
}

static inline void mcb__fill_basis(const mcb_model *m, mcb__basis *b, float *share, float *bound,
                                   float *slack, float *plane, float *column,
                                   const double *triangle, size_t most, double *whole) {
    size_t K = m->n_classes, d = m->n_features, k, j, p;
    for (k = 0; k < K && b->n; k++) {
        /* The bias is what the shares are added to, 256 of them at most; 1e-37 is more than what is too small to tell. */
        float bias = mcb__f32(m->section[MCB_S_BIAS].data + 4 * k);
        slack[k] = (bias < 0 ? -bias : bias) / 8796093022208.0f + 1e-37f; /* 2^43 */
        if (!mcb__shares(m, b->n, most, b->cls, triangle, k, share)) b->n = 0;
    }
    for (p = 0; p < b->n; p++) {
        bound[b->cls[p]] = slack[b->cls[p]] = 0;
        for (k = 0; k < b->n; k++) share[k * K + b->cls[p]] = 0;
        mcb__norms(m, b, b->cls[p], whole + p, 0);
    }
    for (k = 0; k < K && b->n; k++) {
        if (!(slack[k] > 0)) continue;
        bound[k] = mcb__bound_of(m, b, k, whole);
        if (!(bound[k] <= FLT_MAX)) b->n = 0;
    }
    for (p = 0; p < b->n; p++) {
        for (j = 0; j < d; j++)
            column[j * b->n + p] = plane[p * d + j] = mcb__coefficient(m, b->cls[p], j);
    }
}

/* Find out which hyperplanes of a linear machine its certified exits can leave out; mcb_has_early is then true. The
 * memory is as for mcb_prepare, and has mcb_early_size(model) bytes or more. Models of other kinds stay as they are.
 * MCB_E_ARGUMENT if the memory is too small or misaligned. */
MCB_API int mcb_prepare_early(mcb_model *m, void *memory, size_t size) {
    size_t K = m->n_classes, d = m->n_features, most,
           width = d < MCB__SKETCH ? d : (size_t)MCB__SKETCH;
    size_t needed = mcb_early_size(m);
    unsigned char *at = (unsigned char *)memory;
    mcb__basis *b;
    uint32_t *cls;
    float *share, *bound, *slack, *unit, *plane, *column;
    double *sketch, *triangle, *whole, *rest;
    if (!needed) return MCB_OK;
    if (!memory || size < needed || (uintptr_t)memory % 8) return MCB_E_ARGUMENT;
    most = mcb__most_basis(m);
    MCB__TAKE(b, mcb__basis, 1);
    MCB__TAKE(cls, uint32_t, most + K);
    MCB__TAKE(share, float, most *K);
    MCB__TAKE(bound, float, K);
    MCB__TAKE(slack, float, K);
    MCB__TAKE(unit, float, d);
    MCB__TAKE(plane, float, most *d);
    MCB__TAKE(column, float, most *d);
    MCB__TAKE(sketch, double, K *width);
    MCB__TAKE(triangle, double, K *most);
    MCB__TAKE(whole, double, K);
    MCB__TAKE(rest, double, K);
    mcb__find_twins(m, sketch, cls + most);
    mcb__units(m, unit);
    mcb__sketch(m, unit, width, sketch);
    b->cls = cls;
    b->share = share;
    b->bound = bound;
    b->slack = slack;
    b->unit = unit;
    b->plane = plane;
    b->column = column;
    b->twin = cls + most;
    b->n = mcb__choose_basis(K, width, most, sketch, triangle, whole, rest, b->twin, cls);
    mcb__fill_basis(m, b, share, bound, slack, plane, column, triangle, most, whole);
    m->basis = b;
    return MCB_OK;
}
