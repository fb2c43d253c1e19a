/* --------------------------------------------------------------------------------------- linear and kernel machines */

/* Scores of linear and kernel machines. */

/* Rounded to 29 significant bits, halves away from 0; 0 below 2^-700; NaN unless finite. Its products with float32
 * numbers are exact. */
static inline double mcb__shortened(double v) {
    uint64_t bits = mcb__bits_of(v), exponent = bits >> 52 & 0x7ff;
    if (exponent < 1023 - 700) return 0.0;
    if (exponent == 0x7ff) return mcb__f64_of(UINT64_C(0x7ff8000000000000));
    return mcb__f64_of((bits + 0x800000) & ~UINT64_C(0xffffff));
}

/* mcb_sqrt by the processor where that is known to round correctly without a call of the C library. */
static inline double mcb__quick_sqrt(double v) {
#if MCB__VECTOR && defined(__x86_64__) && defined(__AVX__)
    double root;
    __asm__("vsqrtsd %1, %1, %0" : "=x"(root) : "x"(v));
    return root;
#elif MCB__VECTOR && defined(__x86_64__)
    double root;
    __asm__("sqrtsd %1, %0" : "=x"(root) : "x"(v));
    return root;
#elif MCB__VECTOR && defined(__aarch64__)
    double root;
    __asm__("fsqrt %d0, %d1" : "=w"(root) : "w"(v));
    return root;
#else
    return mcb_sqrt(v);
#endif
}

typedef struct {
    double gamma, coef0;
    int kernel, degree;
} mcb__kernel;

/* Values of the kernel in place of n products x . z or squared distances |x - z|^2. */
static inline void mcb__kernel_values(const mcb__kernel *k, size_t n, double *v) {
    size_t i;
    switch (k->kernel) {
    case MCB_KERNEL_POLY:
        for (i = 0; i < n; i++) {
            double base = k->gamma * mcb__shortened(v[i]) + k->coef0,
                   power = 1; /* the product is exact */
            int left;
            for (left = k->degree; left > 0; left >>= 1) {
                if (left & 1) power *= base;
                base *= base;
            }
            v[i] = mcb__shortened(power);
        }
        break;
    case MCB_KERNEL_RBF:
        for (i = 0; i < n; i++)
            v[i] = mcb__shortened(v[i] <= DBL_MAX ? mcb_exp(-(k->gamma * v[i])) : v[i]);
        break;
    case MCB_KERNEL_PERCEPTRON:
        for (i = 0; i < n; i++) v[i] = mcb__shortened(-mcb__quick_sqrt(v[i]));
        break;
    default:
        for (i = 0; i < n; i++) v[i] = mcb__shortened(v[i]);
    }
}

/* n features from j on of n_rows rows, scaled, as rows of MCB__T_FEATURES floats. */
static inline void mcb__scale_rows(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                                   size_t j, size_t n, float *scaled) {
    const unsigned char *offset = m->section[MCB_S_SCAL].data + 4 * j,
                        *factor = offset + 4 * (size_t)m->n_features;
    size_t r, i;
    for (r = 0; r < n_rows; r++) {
        for (i = 0; i < n; i++) {
            double shifted = (double)x[r * stride + j + i] - (double)mcb__f32(offset + 4 * i);
            scaled[r * MCB__T_FEATURES + i] = (float)(shifted * (double)mcb__f32(factor + 4 * i));
        }
    }
}

/* Add to the scores of at most MCB__T_ROWS rows; sum, product and scaled have room for as many. */
MCB__INLINE void mcb__tile_of_rows(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                                   double *sum, double *product, float *scaled, double *scores) {
    int linear = m->kind == MCB_KIND_LINEAR;
    const mcb_section *section = &m->section[linear ? MCB_S_WMAT : MCB_S_SVEC];
    const unsigned char *kpar = m->section[MCB_S_KPAR].data, *dual = m->section[MCB_S_DUAL].data;
    const unsigned char *end = section->data + 4 * section->count;
    size_t K = m->n_classes, d = m->n_features, total = (size_t)(section->count / d), first, n, r,
           v, k, j;
    int scale = m->section[MCB_S_SCAL].data != 0, distance = 0;
    mcb__kernel kernel = {0, 0, 0, 0};
    if (!linear) {
        kernel.kernel = (int)mcb__f32(kpar);
        kernel.gamma = (double)mcb__f32(kpar + 4);
        kernel.coef0 = (double)mcb__f32(kpar + 8);
        kernel.degree = (int)mcb__f32(kpar + 12);
        distance = kernel.kernel == MCB_KERNEL_RBF || kernel.kernel == MCB_KERNEL_PERCEPTRON;
    }
    if (scale && d <= MCB__T_FEATURES) {
        mcb__scale_rows(m, x, n_rows, stride, 0, d, scaled);
        x = scaled;
        stride = MCB__T_FEATURES;
        scale = 0;
    }
    for (first = 0; first < total; first += n) {
        const unsigned char *vectors = section->data + 4 * first * d;
        n = total - first < MCB__T_VECTORS ? total - first : (size_t)MCB__T_VECTORS;
        for (j = 0; j < d; j += MCB__T_FEATURES) {
            size_t features = d - j < MCB__T_FEATURES ? d - j : (size_t)MCB__T_FEATURES;
            const float *rows = x + j;
            size_t step = stride;
            if (scale) {
                mcb__scale_rows(m, x, n_rows, stride, j, features, scaled);
                rows = scaled;
                step = MCB__T_FEATURES;
            }
            mcb__sums(rows, n_rows, step, vectors + 4 * j, end, n, d, features, distance, j == 0,
                      sum);
        }
        mcb__totals(sum, n_rows, n, product);
        for (r = 0; r < n_rows; r++) {
            double *mine = product + r * MCB__T_VECTORS;
            double *score = scores + r * K;
            if (linear) {
                for (v = 0; v < n; v++) score[first + v] += mine[v];
                continue;
            }
            mcb__kernel_values(&kernel, n, mine);
            for (v = 0; v < n; v++) {
                const unsigned char *coef = dual + 4 * (first + v) * K;
                double value = mine[v];
                for (k = 0; k < K; k++) score[k] += (double)mcb__f32(coef + 4 * k) * value;
            }
        }
    }
    for (r = 0; r < n_rows; r++) {
        /* Every coefficient of a linear machine meets every feature, so that one class tells of all. */
        int finite = 1;
        for (k = 0; k < (linear ? 1 : K); k++) finite &= scores[r * K + k] - scores[r * K + k] == 0;
        for (k = 0; k < K && !finite; k++)
            scores[r * K + k] = mcb__f64_of(UINT64_C(0x7ff8000000000000));
    }
}

/* One row needs less room on the stack than several. */
MCB__APART void mcb__machine_row(const mcb_model *m, const float *x, double *scores) {
    double sum[MCB__T_VECTORS * MCB__SUMS], product[MCB__T_VECTORS];
    float scaled[MCB__T_FEATURES];
    mcb__tile_of_rows(m, x, 1, 0, sum, product, scaled, scores);
}

MCB__APART void mcb__machine_rows(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                                  double *scores) {
    double sum[MCB__T_ROWS * MCB__T_VECTORS * MCB__SUMS], product[MCB__T_ROWS * MCB__T_VECTORS];
    float scaled[MCB__T_ROWS * MCB__T_FEATURES];
    size_t n;
    for (; n_rows; n_rows -= n, x += n * stride, scores += n * m->n_classes) {
        n = n_rows < MCB__T_ROWS ? n_rows : (size_t)MCB__T_ROWS;
        mcb__tile_of_rows(m, x, n, stride, sum, product, scaled, scores);
    }
}

static inline void mcb__add_machine(const mcb_model *m, const float *x, size_t n_rows,
                                    size_t stride, double *scores) {
    if (n_rows == 1)
        mcb__machine_row(m, x, scores);
    else
        mcb__machine_rows(m, x, n_rows, stride, scores);
}
