/* Template body: define LANES (numbers of 32 bits in a register of the CPU), EVEN and ODD before each inclusion.
 *
 * Best threshold of each of the 16 lanes of a histogram, LANES of them at a time. gcc takes vector comparisons apart;
 * signs do instead, as bits of positive floats are ordered like integers. A score is NaN only where a side is empty,
 * which `too_small` covers.
 *
 * g, h and n are sums, fg and fh the same as floats; an l behind them means the left side, r the right one, t all rows. A code is
 * 2 * pos + nan_left, as in pmb_lane_best. */
#ifdef LANES
#define FN(name) PMB_CAT2(name, v, LANES)
typedef int32_t FN(ints_) __attribute__((vector_size(4 * LANES), may_alias));
typedef float FN(floats_) __attribute__((vector_size(4 * LANES), may_alias));
typedef int64_t FN(longs_) __attribute__((vector_size(4 * LANES), may_alias));
typedef double FN(doubles_) __attribute__((vector_size(4 * LANES), may_alias));

/* Cells of one word: the low half is h, the high one g. first_cells, last_cells: sums of the cells up to the threshold, of the
 * first and of the last half of the lanes. */
PMB_INLINE void FN(pmb_consider_1_)(FN(longs_) first_cells, FN(longs_) last_cells, FN(ints_) gt,
                                    FN(ints_) ht, FN(ints_) least, const pmb_limits *q, int edge,
                                    int unbounded, int32_t code, FN(ints_) * best,
                                    FN(ints_) * best_code) {
    const FN(ints_) x = (FN(ints_))first_cells, y = (FN(ints_))last_cells;
    const FN(ints_) gl = __builtin_shufflevector(x, y, ODD),
                    hl = __builtin_shufflevector(x, y, EVEN);
    const FN(ints_) gr = gt - gl, hr = ht - hl;
    const FN(floats_) fgl = __builtin_convertvector(gl, FN(floats_)),
                      fgr = __builtin_convertvector(gr, FN(floats_));
    FN(floats_)
    fhl = __builtin_convertvector(hl, FN(floats_)), fhr = __builtin_convertvector(hr, FN(floats_)),
    score;
    if (edge) {
        score =
            (FN(floats_))((FN(ints_))fgl & 0x7fffffff) + (FN(floats_))((FN(ints_))fgr & 0x7fffffff);
    } else {
        if (!unbounded) {
            fhl = fhl * q->h_factor + q->scaled_l2;
            fhr = fhr * q->h_factor + q->scaled_l2;
        }
        const FN(floats_) d = fgl * fhr - fgr * fhl;
        score = d * d / (fhl * fhr);
    }
    const FN(ints_) too_small = ((hl - least) | (hr - least)) >> 31,
                    masked_score = (FN(ints_))score | too_small;
    const FN(ints_) better = (*best - masked_score) >> 31, code_of_all = (FN(ints_)){0} + code;
    *best = (better & masked_score) | (~better & *best);
    *best_code = (better & code_of_all) | (~better & *best_code);
}

/* rows: value rows; has_missing: 1 if the next row holds the missing values. */
PMB_INLINE void FN(pmb_scan_1_)(const int64_t *hist, int rows, int has_missing, pmb_sums total,
                                const pmb_limits *q, int edge, pmb_lane_best *out) {
    const FN(ints_) zero = {0};
    const int unbounded = q->unbounded;
    for (int part = 0; part < 16; part += LANES, hist += LANES) {
        FN(longs_) first_cells = {0}, last_cells = {0};
        const FN(ints_) gt = zero + (int32_t)total.g, ht = zero + (int32_t)total.h;
        const FN(ints_) least = zero + (int32_t)q->least_n;
        FN(ints_) best = ~zero, best_code = zero;
        const FN(longs_) *row = (const FN(longs_) *)hist,
                         *missing = row + (int64_t)rows * (32 / LANES);
        for (int b = 0; b < rows; b++, row += 32 / LANES) {
            first_cells += row[0];
            last_cells += row[1];
            FN(pmb_consider_1_)(first_cells, last_cells, gt, ht, least, q, edge, unbounded, 2 * b,
                                &best, &best_code);
            if (has_missing)
                FN(pmb_consider_1_)(first_cells + missing[0], last_cells + missing[1], gt, ht,
                                    least, q, edge, unbounded, 2 * b + 1, &best, &best_code);
        }
        for (int k = 0; k < LANES; k++) {
            out->score[part + k] = best[k] < 0 ? -1 : (double)((FN(floats_))best)[k];
            out->code[part + k] = best_code[k];
        }
    }
}

/* Cells of two words: g, and h with the count. */
PMB_INLINE void FN(pmb_consider_2_)(FN(longs_) gl, FN(longs_) counted_h, FN(longs_) gt,
                                    FN(longs_) ht, FN(longs_) nt, FN(longs_) least,
                                    const pmb_limits *q, int edge, int unbounded, int64_t code,
                                    FN(longs_) * best, FN(longs_) * best_code) {
    const FN(longs_) hl = counted_h >> (int64_t)q->count_bits,
                     nl = counted_h & pmb_count_mask(q->count_bits);
    const FN(longs_) gr = gt - gl, hr = ht - hl, nr = nt - nl;
    const FN(doubles_) fgl = __builtin_convertvector(gl, FN(doubles_)),
                       fgr = __builtin_convertvector(gr, FN(doubles_));
    FN(doubles_)
    fhl = __builtin_convertvector(hl, FN(doubles_)),
    fhr = __builtin_convertvector(hr, FN(doubles_)), score;
    FN(longs_) too_small = (nl - least) | (nr - least);
    if (edge) {
        score = (FN(doubles_))((FN(longs_))fgl & INT64_MAX) +
                (FN(doubles_))((FN(longs_))fgr & INT64_MAX);
    } else {
        if (!unbounded) {
            too_small |= (hl - q->least_h) | (hr - q->least_h);
            fhl += q->l2;
            fhr += q->l2;
        }
        const FN(doubles_) d = fgl * fhr - fgr * fhl;
        score = d * d / (fhl * fhr);
    }
    const FN(longs_) masked_score = (FN(longs_))score | too_small >> 63,
                     better = (*best - masked_score) >> 63, code_of_all = (FN(longs_)){0} + code;
    *best = (better & masked_score) | (~better & *best);
    *best_code = (better & code_of_all) | (~better & *best_code);
}

PMB_INLINE void FN(pmb_scan_2_)(const int64_t *hist, int rows, int has_missing, pmb_sums total,
                                const pmb_limits *q, int edge, pmb_lane_best *out) {
    const FN(longs_) zero = {0};
    const int unbounded = q->unbounded, word = 32 / LANES, cell = 2 * word;
    for (int part = 0; part < 16; part += LANES / 2, hist += LANES / 2) {
        FN(longs_) g = zero, counted_h = zero;
        const FN(longs_) gt = zero + total.g, ht = zero + total.h, nt = zero + total.n,
                         least = zero + q->least_n;
        FN(longs_) best = ~zero, best_code = zero;
        const FN(longs_) *row = (const FN(longs_) *)hist, *missing = row + (int64_t)rows * cell;
        for (int64_t b = 0; b < rows; b++, row += cell) {
            g += row[0];
            counted_h += row[word];
            FN(pmb_consider_2_)(g, counted_h, gt, ht, nt, least, q, edge, unbounded, 2 * b, &best,
                                &best_code);
            if (has_missing)
                FN(pmb_consider_2_)(g + missing[0], counted_h + missing[word], gt, ht, nt, least, q,
                                    edge, unbounded, 2 * b + 1, &best, &best_code);
        }
        for (int k = 0; k < LANES / 2; k++) {
            out->score[part + k] = best[k] < 0 ? -1 : ((FN(doubles_))best)[k];
            out->code[part + k] = (int32_t)best_code[k];
        }
    }
}
#undef FN
#undef LANES
#undef EVEN
#undef ODD
#endif
