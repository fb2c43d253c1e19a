/* Part of vector_loss_body.h: sums over the rows of a leaf, and over all rows, in units (see pmb_bits). */
#ifdef LANES
/* Largest |g| of rows, by lane, of `span` blocks from block b on. */
PMB_INLINE void FN(pmb_vloss_tops_of_)(const float *PMB_RESTRICT G, int64_t L, int b,
                                       const int span, const int32_t *PMB_RESTRICT rows, int64_t n,
                                       double *PMB_RESTRICT out) {
    float top[SPAN][LANES] ALIGNED_LANES = {{0}};
    for (int64_t j = 0; j < n; j++) {
        const float *g = G + rows[j] * L + b * LANES;
        if (j + 8 < n)
            for (int c = 0; c < span; c++) PMB_PREFETCH(G + rows[j + 8] * L + (b + c) * LANES);
        for (int c = 0; c < span; c++) {
            const float *gc = g + (int64_t)c * LANES;
            float *topc = top[c];
            PMB_LANES(l, LANES) topc[l] = fabsf(gc[l]) > topc[l] ? fabsf(gc[l]) : topc[l];
        }
    }
    for (int c = 0; c < span; c++)
        PMB_LANES(l, LANES) out[(b + c) * LANES + l] = top[c][l];
}

/* The same of all blocks: out (blocks * LANES). */
PMB_CLONES PMB_STATIC void FN(pmb_vloss_tops_)(const float *PMB_RESTRICT G, int blocks,
                                               const int32_t *PMB_RESTRICT rows, int64_t n,
                                               double *PMB_RESTRICT out) {
    int64_t L = (int64_t)blocks * LANES;
    int b = 0;
    for (; b + SPAN <= blocks; b += SPAN) FN(pmb_vloss_tops_of_)(G, L, b, SPAN, rows, n, out);
    for (; b < blocks; b++) FN(pmb_vloss_tops_of_)(G, L, b, 1, rows, n, out);
}

/* Sums over rows, in units: w g, and w |g| (1 - |g|): softmax's p (1 - p), of `span` blocks from block b on. */
PMB_INLINE void FN(pmb_vloss_leaf_of_)(const float *PMB_RESTRICT G,
                                       const double *PMB_RESTRICT weight, int64_t L, int b,
                                       const int span, const int32_t *PMB_RESTRICT rows, int64_t n,
                                       const double *PMB_RESTRICT magic,
                                       uint64_t *PMB_RESTRICT out) {
    uint64_t one[SPAN][LANES] ALIGNED_LANES = {{0}}, two[SPAN][LANES] ALIGNED_LANES = {{0}};
    double magics[SPAN][LANES] ALIGNED_LANES;
    memcpy(magics, magic + b * LANES, (size_t)span * sizeof magics[0]);
    for (int64_t j = 0; j < n; j++) {
        const float *g = G + rows[j] * L + b * LANES;
        if (j + 8 < n)
            for (int c = 0; c < span; c++) PMB_PREFETCH(G + rows[j + 8] * L + (b + c) * LANES);
        double w = weight ? weight[rows[j]] : 1;
        for (int c = 0; c < span; c++) { /* gcc -fwrapv needs these pointers */
            const float *gc = g + (int64_t)c * LANES;
            const double *magic_c = magics[c];
            uint64_t *onec = one[c], *twoc = two[c];
            PMB_LANES(l, LANES) {
                float size = fabsf(gc[l]);
                onec[l] += pmb_bits(w * (double)gc[l] + magic_c[l]);
                twoc[l] += pmb_bits(w * (double)(size * (1 - size)) + magic_c[l]);
            }
        }
    }
    memcpy(out + b * LANES, one, span * sizeof one[0]);
    memcpy(out + L + b * LANES, two, span * sizeof two[0]);
}

/* The same of all blocks, out (2, blocks * LANES), with one magic number for each lane. Long rows are read in pieces of
 * several blocks. */
PMB_CLONES PMB_STATIC void FN(pmb_vloss_leaf_)(const float *PMB_RESTRICT G,
                                               const double *PMB_RESTRICT weight, int blocks,
                                               const int32_t *PMB_RESTRICT rows, int64_t n,
                                               const double *PMB_RESTRICT magic,
                                               uint64_t *PMB_RESTRICT out) {
    int64_t L = (int64_t)blocks * LANES;
    int b = 0;
    for (; b + SPAN <= blocks; b += SPAN)
        FN(pmb_vloss_leaf_of_)(G, weight, L, b, SPAN, rows, n, magic, out);
    for (; b < blocks; b++) FN(pmb_vloss_leaf_of_)(G, weight, L, b, 1, rows, n, magic, out);
    for (int64_t l = 0; l < L; l++) {
        uint64_t off = (uint64_t)n * pmb_bits(magic[l]);
        out[l] -= off;
        out[L + l] -= off;
    }
}

/* Sums of w |g| by lane over the rows [from, to), in units: out (blocks * LANES). */
PMB_CLONES PMB_STATIC void FN(pmb_vloss_sizes_)(const float *PMB_RESTRICT G,
                                                const double *PMB_RESTRICT weight, int blocks,
                                                int64_t from, int64_t to, double magic,
                                                uint64_t *PMB_RESTRICT out) {
    int64_t L = (int64_t)blocks * LANES;
    double each[LANES] ALIGNED_LANES;
    PMB_LANES(l, LANES) each[l] = magic;
    memset(out, 0, (size_t)L * sizeof *out);
    for (int64_t i = from; i < to; i++)
        for (int b = 0; b < blocks; b++) {
            FN(counts_) part;
            memcpy(&part, out + b * LANES, sizeof part);
            FN(pmb_vloss_size_)(&part, G + i * L + b * LANES, weight ? weight[i] : 1, each);
            memcpy(out + b * LANES, &part, sizeof part);
        }
    pmb_less_magic(out, L, to - from, magic);
}

/* Sum of w g^2 over all lanes of the rows [from, to), in units. */
PMB_CLONES PMB_STATIC void FN(pmb_vloss_square_)(const float *PMB_RESTRICT G,
                                                 const double *PMB_RESTRICT weight, int blocks,
                                                 int64_t from, int64_t to, double magic,
                                                 uint64_t *out) {
    uint64_t sums[LANES] ALIGNED_LANES = {0};
    *out = 0;
    for (int64_t i = from; i < to; i++) {
        double w = weight ? weight[i] : 1;
        for (int b = 0; b < blocks; b++) {
            const float *g = G + (i * blocks + b) * LANES;
            PMB_LANES(l, LANES) sums[l] += pmb_bits(w * ((double)g[l] * (double)g[l]) + magic);
        }
    }
    pmb_less_magic(sums, LANES, (to - from) * blocks, magic);
    for (int l = 0; l < LANES; l++) *out += sums[l];
}

/* Sums over rows in units: w (diag p - p p^T), p of softmax, and under it w g: out (K + 1, blocks * LANES), from 0. */
PMB_CLONES PMB_STATIC void FN(pmb_vloss_hessian_)(const float *PMB_RESTRICT G,
                                                  const double *PMB_RESTRICT weight,
                                                  const int32_t *PMB_RESTRICT y, int blocks, int K,
                                                  const int32_t *PMB_RESTRICT rows, int64_t n,
                                                  double magic, double *PMB_RESTRICT p,
                                                  uint64_t *PMB_RESTRICT out) {
    int64_t L = (int64_t)blocks * LANES;
    for (int64_t j = 0; j < n; j++) {
        const float *g = G + rows[j] * L;
        int32_t own = y[rows[j]];
        double w = weight ? weight[rows[j]] : 1;
        for (int64_t l = 0; l < L; l++) p[l] = fabs((double)g[l]);
        p[own] = 1 - p[own];
        for (int k = 0; k < K; k++) {
            uint64_t *to = out + k * L, before = to[k];
            double q = w * p[k];
            for (int64_t l = 0; l < L; l++) to[l] += pmb_bits(magic - q * p[l]);
            to[k] = before +
                    pmb_bits(magic + q * (1 - p[k])); /* one term, below w |g| of the own class */
        }
        for (int64_t l = 0; l < L; l++) out[K * L + l] += pmb_bits(magic + w * (double)g[l]);
    }
    pmb_less_magic(out, (K + 1) * L, n, magic);
}
#endif
