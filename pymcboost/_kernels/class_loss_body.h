/* Template body of class_loss.h: define REAL (float or double) and RTAG (f or d) before each inclusion.
 *
 * S (K, m), class-major, rows sorted by class: what is left to learn, s_k = p_k on the rows of other classes and 1 - p_k
 * on those of class k, as the sum of the others, without cancellation. With r_k = 1 on the rows of class k, else 0:
 * no base class: g = r_k - p_k, h = p_k (1 - p_k);
 * base class b:  g = (r_k - p_k) - (r_b - p_b), h = p_b (1 - p_b) + p_k (1 - p_k) + 2 p_b p_k (Li, eqs. 15 and 16).
 */
#ifdef REAL
#define FN(name) PMB_CAT2(name, RTAG, 0) /* 0: for any number of lanes */

/* r = r_k - r_b; s, t: what is left of k and b. */
PMB_INLINE void FN(pmb_gh_)(REAL s, REAL t, const int based, const int r, REAL *g, REAL *h) {
    *g = r > 0 ? s : -s;
    *h = s * (1 - s);
    if (based) {
        *g += r < 0 ? -t : t;
        *h += t * (1 - t) + 2 * (r > 0 ? t * (1 - s) : r < 0 ? s * (1 - t) : s * t);
    }
}

PMB_INLINE void FN(pmb_quantise_1_of_)(const REAL *PMB_RESTRICT p, const REAL *PMB_RESTRICT q,
                                       int64_t from, int64_t to, const int based, const int r,
                                       const double *PMB_RESTRICT weight, const int counts,
                                       pmb_scale s, int64_t *PMB_RESTRICT gh) {
    REAL sg = (REAL)s.g, sh = (REAL)s.h;
    for (int64_t i = from; i < to; i++) {
        REAL g, h, w = weight ? (REAL)weight[i] : 1;
        FN(pmb_gh_)(p[i], q[i], based, r, &g, &h);
        if (counts) h = 1;
        g *= w * sg;
        h = h * w * sh + (REAL)0.5;
        int32_t hq = (int32_t)h, gq = (int32_t)(g + (g < 0 ? (REAL)-0.5 : (REAL)0.5));
        hq = hq < 1 ? 1 : hq;
        gh[i] = (int64_t)((uint64_t)(uint32_t)gq << 32 | (uint32_t)hq);
    }
}

/* gh of rows [from, to), all of one class. p, q: rows k and b of S, the same one for no base class. counts: h is the
 * weight (mart). */
PMB_CLONES PMB_STATIC void FN(pmb_quantise_1_)(const REAL *PMB_RESTRICT p,
                                               const REAL *PMB_RESTRICT q, int64_t from, int64_t to,
                                               int r, const double *PMB_RESTRICT weight, int counts,
                                               pmb_scale s, int64_t *PMB_RESTRICT gh) {
#define QUANTISE(based, r, weight, counts)                                                         \
    FN(pmb_quantise_1_of_)(p, q, from, to, based, r, weight, counts, s, gh)
    if (weight || counts)
        QUANTISE(p != q, r, weight, counts);
    else if (p == q && r)
        QUANTISE(0, 1, NULL, 0);
    else if (p == q)
        QUANTISE(0, 0, NULL, 0);
    else if (r > 0)
        QUANTISE(1, 1, NULL, 0);
    else if (r < 0)
        QUANTISE(1, -1, NULL, 0);
    else
        QUANTISE(1, 0, NULL, 0);
#undef QUANTISE
}

PMB_STATIC void FN(pmb_quantise_2_)(const REAL *p, const REAL *q, int64_t from, int64_t to, int r,
                                    const double *weight, int counts, pmb_scale s, int count_bits,
                                    int64_t *gh) {
    for (int64_t i = from; i < to; i++) {
        REAL g, h;
        double w = weight ? weight[i] : 1;
        FN(pmb_gh_)(p[i], q[i], q != p, r, &g, &h);
        pmb_pack_2((double)g * w * s.g, (counts ? 1 : (double)h) * w * s.h, w * s.n, count_bits,
                   gh + 2 * i);
    }
}

/* Sums of g and h (never counts) over the listed rows, in parts: added to sums (2, PMB_PARTS). */
PMB_STATIC void FN(pmb_leaf_sums_)(const REAL *p, const REAL *q, const int32_t *y, int cls,
                                   int base, const int32_t *rows, int64_t n, const double *weight,
                                   const double *magic, int64_t *sums) {
    double G[PMB_LEAF_ROWS], H[PMB_LEAF_ROWS];
    for (int64_t start = 0; start < n; start += PMB_LEAF_ROWS) {
        int here = n - start < PMB_LEAF_ROWS ? (int)(n - start) : PMB_LEAF_ROWS;
        for (int j = 0; j < here; j++) {
            int64_t i = rows[start + j];
            REAL g, h;
            double w = weight ? weight[i] : 1;
            FN(pmb_gh_)(p[i], q[i], q != p, (y[i] == cls) - (y[i] == base), &g, &h);
            G[j] = w * (double)g;
            H[j] = w * (double)h;
        }
        pmb_add_parts(G, here, magic, sums);
        pmb_add_parts(H, here, magic, sums + PMB_PARTS);
    }
}

/* Sums of w p and w p (1 - p), each in the first two parts: to one and two (2,). */
PMB_INLINE void FN(pmb_two_sums_)(const REAL *PMB_RESTRICT p, const double *PMB_RESTRICT weight,
                                  int64_t n, const double *magic, uint64_t *one, uint64_t *two) {
    const double m0 = magic[0], m1 = magic[1];
    uint64_t a0 = 0, a1 = 0, b0 = 0, b1 = 0;
    int64_t i = 0;
#if PMB_VECTORS
    typedef REAL reals
        __attribute__((vector_size(8 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
    typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));
    typedef uint64_t words __attribute__((vector_size(64), aligned(8), may_alias));
    words a0_8 = {0}, a1_8 = {0}, b0_8 = {0}, b1_8 = {0};
    for (; i + 8 <= n; i += 8) {
        doubles v = __builtin_convertvector(*(const reals *)(p + i), doubles), x = v, t;
        if (weight) x *= *(const doubles *)(weight + i);
        doubles y = x * (1 - v);
        t = x + m0;
        a0_8 += (words)t;
        a1_8 += (words)((x - (t - m0)) + m1);
        t = y + m0;
        b0_8 += (words)t;
        b1_8 += (words)((y - (t - m0)) + m1);
    }
    for (int l = 0; l < 8; l++) {
        a0 += a0_8[l];
        a1 += a1_8[l];
        b0 += b0_8[l];
        b1 += b1_8[l];
    }
#endif
    for (; i < n; i++) {
        double v = (double)p[i], x = (weight ? weight[i] : 1) * v, y = x * (1 - v), t = x + m0;
        a0 += pmb_bits(t);
        a1 += pmb_bits((x - (t - m0)) + m1);
        t = y + m0;
        b0 += pmb_bits(t);
        b1 += pmb_bits((y - (t - m0)) + m1);
    }
    one[0] = a0 - (uint64_t)n * pmb_bits(m0);
    one[1] = a1 - (uint64_t)n * pmb_bits(m1);
    two[0] = b0 - (uint64_t)n * pmb_bits(m0);
    two[1] = b1 - (uint64_t)n * pmb_bits(m1);
}

/* P = exp(F - top) of n rows, added to total; P may be NULL. */
PMB_INLINE void FN(pmb_exps_)(const double *PMB_RESTRICT F, const double *PMB_RESTRICT top,
                              int64_t n, REAL *PMB_RESTRICT P, REAL *PMB_RESTRICT total) {
    int64_t i = 0;
#if PMB_VECTORS
    typedef REAL reals
        __attribute__((vector_size(8 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
    typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));
    for (; sizeof(REAL) == 4 && i + 8 <= n; i += 8) {
        pmb_floats_8 x = __builtin_convertvector(
                         *(const doubles *)(F + i) - *(const doubles *)(top + i), pmb_floats_8),
                     e;
        pmb_exp_8((const float *)&x, (float *)&e, 1);
        if (P) *(reals *)(P + i) = __builtin_convertvector(e, reals);
        *(reals *)(total + i) += __builtin_convertvector(e, reals);
    }
#endif
    for (; i < n; i++) {
        REAL e = FN(pmb_exp_)((REAL)(F[i] - top[i]));
        if (P) P[i] = e;
        total[i] += e;
    }
}

/* S of n rows of class own from their scores F, and the sums of w s and w s (1 - s), in two parts each, for every class to
 * sums (K, 2, 2). F, S: (K, m) at the first row. top, total: scratch of n. */
PMB_CLONES PMB_STATIC void FN(pmb_softmax_)(const double *PMB_RESTRICT F, int64_t m, int K, int own,
                                            int64_t n, const double *PMB_RESTRICT weight,
                                            double *PMB_RESTRICT top, REAL *PMB_RESTRICT total,
                                            REAL *PMB_RESTRICT S, const double *magic,
                                            int64_t *PMB_RESTRICT sums) {
    REAL *PMB_RESTRICT mine = S + own * m;
    for (int64_t i = 0; i < n; i++) top[i] = F[i];
    for (int k = 1; k < K; k++)
        for (int64_t i = 0; i < n; i++) top[i] = F[k * m + i] > top[i] ? F[k * m + i] : top[i];
    for (int64_t i = 0; i < n; i++) total[i] = 0;
    for (int k = 0; k < K; k++)
        if (k != own) FN(pmb_exps_)(F + k * m, top, n, S + k * m, total);
    for (int64_t i = 0; i < n; i++) mine[i] = total[i]; /* of the others */
    FN(pmb_exps_)(F + own * m, top, n, NULL, total);
    for (int64_t i = 0; i < n; i++) total[i] = 1 / total[i];
    for (int k = 0; k < K; k++) {
        REAL *PMB_RESTRICT s = S + k * m;
        for (int64_t i = 0; i < n; i++) s[i] *= total[i];
        uint64_t one[2], two[2];
        FN(pmb_two_sums_)(s, weight, n, magic, one, two);
        for (int j = 0; j < 2; j++) {
            sums[4 * k + j] = (int64_t)one[j];
            sums[4 * k + 2 + j] = (int64_t)two[j];
        }
    }
}

/* Scores of n rows of class own, as exponentials, were the steps of the tree of (k, b) added to k and taken from b:
 * factor is the exponential of each leaf's step, inverse that of its negative. S: (K, m) at the first row. For either
 * class as the base: others and mine sum up the classes without the base, those of other classes and own; lost: the
 * product of the factors that the base loses. PMB_TRY_ROWS apart for every class. up, down: factor and inverse of the
 * rows' leaves. */
PMB_INLINE void FN(pmb_try_pair_of_)(const REAL *PMB_RESTRICT S, int64_t m, int k, int b, int own,
                                     int n, const REAL *PMB_RESTRICT up,
                                     const REAL *PMB_RESTRICT down, REAL *PMB_RESTRICT others,
                                     REAL *PMB_RESTRICT mine, REAL *PMB_RESTRICT lost) {
    const REAL *PMB_RESTRICT p = S + k * m, *PMB_RESTRICT q = S + b * m;
    REAL *PMB_RESTRICT with_b = others + (int64_t)b * PMB_TRY_ROWS,
                       *PMB_RESTRICT with_k = others + (int64_t)k * PMB_TRY_ROWS;
    REAL *PMB_RESTRICT of_b = lost + (int64_t)b * PMB_TRY_ROWS,
                       *PMB_RESTRICT of_k = lost + (int64_t)k * PMB_TRY_ROWS;
    REAL *PMB_RESTRICT own_b = mine + (int64_t)b * PMB_TRY_ROWS,
                       *PMB_RESTRICT own_k = mine + (int64_t)k * PMB_TRY_ROWS;
    if (k == own)
        for (int i = 0; i < n; i++) {
            own_b[i] = (1 - p[i]) * up[i];
            with_k[i] += q[i] * down[i];
            of_b[i] *= down[i];
            of_k[i] *= up[i];
        }
    else if (b == own)
        for (int i = 0; i < n; i++) {
            with_b[i] += p[i] * up[i];
            own_k[i] = (1 - q[i]) * down[i];
            of_b[i] *= down[i];
            of_k[i] *= up[i];
        }
    else
        for (int i = 0; i < n; i++) {
            with_b[i] += p[i] * up[i];
            with_k[i] += q[i] * down[i];
            of_b[i] *= down[i];
            of_k[i] *= up[i];
        }
}

/* factor and inverse of the leaves of n rows; n is at most PMB_TRY_ROWS. */
PMB_INLINE void FN(pmb_look_up_)(const void *leaf, int bytes, int n,
                                 const REAL *PMB_RESTRICT factor, const REAL *PMB_RESTRICT inverse,
                                 REAL *PMB_RESTRICT up, REAL *PMB_RESTRICT down) {
    if (bytes == 1) {
        const uint8_t *PMB_RESTRICT l = leaf;
        for (int i = 0; i < n; i++) {
            up[i] = factor[l[i]];
            down[i] = inverse[l[i]];
        }
    } else {
        const uint16_t *PMB_RESTRICT l = leaf;
        for (int i = 0; i < n; i++) {
            up[i] = factor[l[i]];
            down[i] = inverse[l[i]];
        }
    }
}

PMB_CLONES PMB_STATIC void FN(pmb_try_pair_)(const REAL *S, int64_t m, int k, int b, int own, int n,
                                             const void *leaf, int bytes, int64_t J,
                                             const REAL *factor, const REAL *inverse, REAL *others,
                                             REAL *mine, REAL *lost) {
    REAL up[PMB_TRY_ROWS], down[PMB_TRY_ROWS];
    int done = 0;
#if PMB_PERMUTES
    if (sizeof(REAL) == 4 && bytes == 1 && J <= 32) {
        const float *p = (const float *)(S + k * m), *q = (const float *)(S + b * m);
        float *to_b = (float *)(k == own ? mine : others) + (int64_t)b * PMB_TRY_ROWS;
        float *to_k = (float *)(b == own ? mine : others) + (int64_t)k * PMB_TRY_ROWS;
        float *of_b = (float *)lost + (int64_t)b * PMB_TRY_ROWS,
              *of_k = (float *)lost + (int64_t)k * PMB_TRY_ROWS;
        const float *f = (const float *)factor, *g = (const float *)inverse;
        done = n / 16 * 16;
        if (k == own)
            pmb_try_pair_32(p, q, 0, done, leaf, f, g, to_b, to_k, of_b, of_k);
        else if (b == own)
            pmb_try_pair_32(p, q, 1, done, leaf, f, g, to_b, to_k, of_b, of_k);
        else
            pmb_try_pair_32(p, q, 2, done, leaf, f, g, to_b, to_k, of_b, of_k);
        if (done == n) return;
    }
#endif
    (void)J;
    leaf = (const char *)leaf + done * bytes;
    FN(pmb_look_up_)(leaf, bytes, n - done, factor, inverse, up, down);
    FN(pmb_try_pair_of_)(S + done, m, k, b, own, n - done, up, down, others + done, mine + done,
                         lost + done);
}

/* Losses w_i log(1 / p_own) of n rows with one base class, from what `pmb_try_pair_` summed up, p: row `base` of S.
 * log(1 / p_own) = log(1 + sum of p_k exp(step_k) over the others / (p_own exp(step_own))). */
PMB_CLONES PMB_STATIC void FN(pmb_try_loss_)(const REAL *PMB_RESTRICT p, int is_own, int n,
                                             const double *PMB_RESTRICT weight,
                                             REAL *PMB_RESTRICT others, REAL *PMB_RESTRICT mine,
                                             REAL *PMB_RESTRICT lost, double *PMB_RESTRICT loss) {
    const REAL most = sizeof(REAL) == 4 ? (REAL)1e37 : (REAL)1e300;
    for (int i = 0; i < n; i++) {
        REAL e = lost[i] > most ? most : lost[i];
        lost[i] = e < 1 / most ? 1 / most : e;
    }
    if (is_own)
        for (int i = 0; i < n; i++) mine[i] = (1 - p[i]) * lost[i];
    else
        for (int i = 0; i < n; i++) others[i] += p[i] * lost[i];
    for (int i = 0; i < n; i++) {
        double x = (double)(others[i] / (mine[i] > 1 / most ? mine[i] : 1 / most));
        loss[i] = x > PMB_MOST_ODDS ? PMB_MOST_ODDS : x;
    }
    pmb_log_odds(loss, n);
    if (weight)
        for (int i = 0; i < n; i++) loss[i] *= weight[i];
}

/* Losses of n rows of class own with each of the base classes in `tried` (K flags), to loss (K, PMB_PARTS). pair: (n_pairs,
 * 2) classes (k, b), k < b, in ascending order, and their trees: leaf (n_pairs, m) of 1 or 2 bytes, exponentials of the
 * steps and of their negatives, factor and inverse (n_pairs, stride), stride at least 32. work: (3, K, PMB_TRY_ROWS). */
PMB_STATIC void FN(pmb_try_bases_)(const REAL *S, int64_t m, int K, const uint8_t *tried,
                                   int n_pairs, const int32_t *pair, int own, int64_t n,
                                   const void *leaf, int bytes, int64_t stride, const REAL *factor,
                                   const REAL *inverse, const double *weight, REAL *work,
                                   const double *magic, int64_t *loss) {
    double row_loss[PMB_TRY_ROWS];
    int64_t part = (int64_t)K * PMB_TRY_ROWS;
    REAL *others = work, *mine = work + part, *lost = work + 2 * part;
    for (int k = 0; k < PMB_PARTS * K; k++) loss[k] = 0;
    for (int64_t start = 0; start < n; start += PMB_TRY_ROWS) {
        int here = n - start < PMB_TRY_ROWS ? (int)(n - start) : PMB_TRY_ROWS;
        memset(work, 0, sizeof(REAL) * 2 * (size_t)part);
        for (int64_t i = 0; i < part; i++) lost[i] = 1;
        for (int k = 0; k < K && n - start > PMB_TRY_ROWS; k++)
            for (int at = PMB_TRY_ROWS; at < 2 * PMB_TRY_ROWS; at += 64 / (int)sizeof(REAL))
                PMB_PREFETCH(S + k * m + start + at);
        for (int j = 0; j < n_pairs; j++) {
            const char *leaf_of_row = (const char *)leaf + (j * m + start) * bytes;
            for (int at = 0; at < PMB_TRY_ROWS * bytes; at += 64)
                PMB_PREFETCH(leaf_of_row + PMB_TRY_ROWS * bytes + at);
            FN(pmb_try_pair_)(S + start, m, pair[2 * j], pair[2 * j + 1], own, here, leaf_of_row,
                              bytes, stride, factor + j * stride, inverse + j * stride, others,
                              mine, lost);
        }
        for (int b = 0; b < K; b++) {
            if (!tried[b]) continue;
            FN(pmb_try_loss_)(S + b * m + start, b == own, here, weight ? weight + start : NULL,
                              others + (int64_t)b * PMB_TRY_ROWS, mine + (int64_t)b * PMB_TRY_ROWS,
                              lost + (int64_t)b * PMB_TRY_ROWS, row_loss);
            pmb_add_parts(row_loss, here, magic, loss + PMB_PARTS * b);
        }
    }
}

#undef FN
#undef REAL
#undef RTAG
#endif
