/* Template body: define REAL (float or double) and RTAG (f or d) before each inclusion.
 *
 * Class-major probabilities P (K, m) of the rows sorted by class. With r_k = 1 on the rows of class k,
 * no base class: g = r_k - p_k, h = p_k (1 - p_k);
 * base class b:  g = (r_k - p_k) - (r_b - p_b), h = p_b (1 - p_b) + p_k (1 - p_k) + 2 p_b p_k (Li, eqs. 15 and 16).
 */
#ifdef REAL
#define FN(name) PMB_CAT2(name, RTAG, 0)

PMB_INLINE void FN(pmb_gh_)(REAL p, REAL q, int based, REAL r, REAL *g, REAL *h) {
    *g = r - p;
    *h = p * (1 - p);
    if (based) {
        *g += q;
        *h += q * (1 - q) + 2 * p * q;
    }
}

/* gh of rows [from, to), all of one class; r = r_k - r_b. counts: h is the weight (mart). */
PMB_CLONES PMB_STATIC void FN(pmb_quantise_1_)(const REAL *PMB_RESTRICT p, const REAL *PMB_RESTRICT q, int64_t from,
                                               int64_t to, REAL r, const double *PMB_RESTRICT weight, int counts,
                                               pmb_scale s, int64_t *PMB_RESTRICT gh) {
    REAL sg = (REAL)s.g, sh = (REAL)s.h;
    for (int64_t i = from; i < to; i++) {
        REAL g, h, w = weight ? (REAL)weight[i] : 1;
        FN(pmb_gh_)(p[i], q[i], q != p, r, &g, &h);
        if (counts) h = 1;
        g *= w * sg;
        h = h * w * sh + (REAL)0.5;
        int32_t hq = (int32_t)h, gq = (int32_t)(g + (g < 0 ? (REAL)-0.5 : (REAL)0.5));
        hq = hq < 1 ? 1 : hq;
        gh[i] = (int64_t)((uint64_t)(int64_t)gq << 32) + hq;
    }
}

PMB_STATIC void FN(pmb_quantise_2_)(const REAL *p, const REAL *q, int64_t from, int64_t to, REAL r,
                                    const double *weight, int counts, pmb_scale s, int64_t *gh) {
    for (int64_t i = from; i < to; i++) {
        REAL g, h;
        double w = weight ? weight[i] : 1;
        FN(pmb_gh_)(p[i], q[i], q != p, r, &g, &h);
        pmb_pack_2((double)g * w * s.g, (counts ? 1 : (double)h) * w * s.h, w * s.n, gh + 2 * i);
    }
}

/* Sums of g and h (never counts) over the listed rows, in double. */
PMB_STATIC void FN(pmb_leaf_sums_)(const REAL *p, const REAL *q, const int32_t *y, int cls, int base,
                                   const int32_t *rows, int64_t n, const double *weight, double *sums) {
    double G = 0, H = 0;
    for (int64_t j = 0; j < n; j++) {
        int64_t i = rows[j];
        REAL g, h;
        double w = weight ? weight[i] : 1;
        FN(pmb_gh_)(p[i], q[i], q != p, (REAL)((y[i] == cls) - (y[i] == base)), &g, &h);
        G += w * (double)g;
        H += w * (double)h;
    }
    sums[0] = G;
    sums[1] = H;
}

/* Sums of w p, w (1 - p) and w p (1 - p), in 8 parts added in a fixed order, to sums[0], sums[K] and sums[2 K]. */
PMB_INLINE void FN(pmb_three_sums_)(const REAL *PMB_RESTRICT p, const double *PMB_RESTRICT weight, int64_t n, int K,
                                    double *PMB_RESTRICT sums) {
    double part[3][8] = {{0}};
    int64_t i = 0;
#if PMB_VECTORS
    typedef REAL reals __attribute__((vector_size(8 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
    typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));
    doubles one = {0}, rest = {0}, both = {0};
    for (; i + 8 <= n; i += 8) {
        doubles v = __builtin_convertvector(*(const reals *)(p + i), doubles), wv = v, wr = 1 - v;
        if (weight) {
            wv *= *(const doubles *)(weight + i);
            wr *= *(const doubles *)(weight + i);
        }
        one += wv;
        rest += wr;
        both += wv * (1 - v);
    }
    memcpy(part[0], &one, sizeof one);
    memcpy(part[1], &rest, sizeof rest);
    memcpy(part[2], &both, sizeof both);
#else
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) {
            double v = (double)p[i + l], w = weight ? weight[i + l] : 1;
            part[0][l] += w * v;
            part[1][l] += w * (1 - v);
            part[2][l] += w * v * (1 - v);
        }
#endif
    for (; i < n; i++) {
        double v = (double)p[i], w = weight ? weight[i] : 1;
        part[0][0] += w * v;
        part[1][0] += w * (1 - v);
        part[2][0] += w * v * (1 - v);
    }
    for (int j = 0; j < 3; j++) {
        const double *s = part[j];
        sums[j * K] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    }
}

/* P = softmax(F) of n rows; their sums of w p, w (1 - p) and w p (1 - p) for every class to sums (3, K). F, P: (K, m),
 * at the first row. top, total: scratch of n. */
PMB_CLONES PMB_STATIC void FN(pmb_softmax_)(const double *PMB_RESTRICT F, int64_t m, int K, int64_t n,
                                            const double *PMB_RESTRICT weight, double *PMB_RESTRICT top,
                                            REAL *PMB_RESTRICT total, REAL *PMB_RESTRICT P, double *PMB_RESTRICT sums) {
    for (int64_t i = 0; i < n; i++) top[i] = F[i];
    for (int k = 1; k < K; k++)
        for (int64_t i = 0; i < n; i++) top[i] = F[k * m + i] > top[i] ? F[k * m + i] : top[i];
    for (int64_t i = 0; i < n; i++) total[i] = 0;
    for (int k = 0; k < K; k++) FN(pmb_exps_)(F + k * m, top, n, P + k * m, total);
    for (int64_t i = 0; i < n; i++) total[i] = 1 / total[i];
    for (int k = 0; k < K; k++) {
        REAL *PMB_RESTRICT p = P + k * m;
        for (int64_t i = 0; i < n; i++) p[i] *= total[i];
        FN(pmb_three_sums_)(p, weight, n, K, sums + k);
    }
}

/* Change of the loss sum_i w_i log(1 / p_own) over n rows of class own, were the steps of n_steps trees added to their
 * classes and taken from the base class: log sum_k p_k exp(step_k) - step_own. value: the step of each leaf;
 * factor: its exp; leaf: (n_steps, m) at the first row; total, taken: scratch of n. */
PMB_CLONES PMB_STATIC double FN(pmb_try_base_)(const REAL *PMB_RESTRICT P, int64_t m, int n_steps, const int32_t *cls,
                                               const int32_t *tree, const double *sign, int base, int own, int64_t n,
                                               const uint16_t *PMB_RESTRICT leaf, int J,
                                               const double *PMB_RESTRICT value, const double *PMB_RESTRICT factor,
                                               const double *PMB_RESTRICT weight, double *PMB_RESTRICT total,
                                               double *PMB_RESTRICT taken) {
    double loss = 0;
    for (int64_t i = 0; i < n; i++) total[i] = taken[i] = 0;
    for (int j = 0; j < n_steps; j++) {
        const uint16_t *PMB_RESTRICT l = leaf + tree[j] * m;
        const double *PMB_RESTRICT v = value + (int64_t)tree[j] * J;
        const double *PMB_RESTRICT e = factor + 2 * (int64_t)tree[j] * J + (sign[j] < 0 ? J : 0);
        const REAL *PMB_RESTRICT p = P + cls[j] * m;
        double s = sign[j];
        for (int64_t i = 0; i < n; i++) {
            total[i] += (double)p[i] * e[l[i]];
            taken[i] += s * v[l[i]];
        }
        if (cls[j] == own)
            for (int64_t i = 0; i < n; i++) loss -= (weight ? weight[i] : 1) * s * v[l[i]];
    }
    for (int64_t i = 0; i < n; i++) {
        double step = taken[i] > 600 ? 600 : taken[i] < -600 ? -600 : taken[i];
        total[i] += (double)P[base * m + i] * pmb_exp_d_0(-step);
        if (own == base) loss += (weight ? weight[i] : 1) * taken[i];
    }
    for (int64_t i = 0; i < n; i++) loss += (weight ? weight[i] : 1) * log(total[i]);
    return loss;
}

#undef FN
#undef REAL
#undef RTAG
#endif
