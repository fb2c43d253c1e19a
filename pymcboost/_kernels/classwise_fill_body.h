/* Template body: define CODE (uint8_t or uint16_t), CTAG (8 or 16) and WORDS (1 or 2) before each inclusion.
 *
 * A tile holds 16 lanes (columns of codes) row by row, its histogram 16 cells per code, so that one pass over the rows
 * fills 16 histograms and one vector operation serves 16 features. Cells are exact integer sums:
 *   WORDS 1: g << 32 | h in one word (g signed, 0 < h summed below 2^31);
 *   WORDS 2: a word for g, and 16 words further one for h << count_bits | n.
 */
#ifdef CODE
#define FN(name) PMB_CAT2(name, CTAG, WORDS)

/* hist += the rows' values. rows: row numbers, NULL for the first n; picked: which of them, NULL for all n. gh: WORDS words
 * per row, in the order of rows. Returns nothing for picked == NULL, else the sums of what was added in done. */
#if WORDS == 1
#define ADD_LANE(k)                                                                                \
    if (lanes > k) hist[c[k] * 16 + k] += g;
#else
#define ADD_LANE(k)                                                                                \
    if (lanes > k) {                                                                               \
        hist[c[k] * 32 + k] += g;                                                                  \
        hist[c[k] * 32 + 16 + k] += h;                                                             \
    }
#endif
PMB_INLINE void FN(pmb_fill_lanes_)(const CODE *PMB_RESTRICT tile, const int32_t *PMB_RESTRICT rows,
                                    const int32_t *PMB_RESTRICT picked, int64_t n, int lanes,
                                    const int64_t *PMB_RESTRICT gh, int64_t *PMB_RESTRICT hist,
                                    int64_t *done) {
    int64_t done_g = 0, done_h = 0;
    for (int64_t j = 0; j < n; j++) {
        CODE c[16];
        int64_t i = picked ? picked[j] : j;
        if (rows)
            PMB_PREFETCH(tile + 16 * (int64_t)rows[picked ? picked[j + PMB_AHEAD] : j + PMB_AHEAD]);
        memcpy(c, tile + 16 * (rows ? (int64_t)rows[i] : i), sizeof c);
        int64_t g = gh[WORDS * i];
        if (picked) done_g += g;
#if WORDS > 1
        int64_t h = gh[WORDS * i + 1];
        if (picked) done_h += h;
#endif
        ADD_LANE(0);
        ADD_LANE(1);
        ADD_LANE(2);
        ADD_LANE(3);
        ADD_LANE(4);
        ADD_LANE(5);
        ADD_LANE(6);
        ADD_LANE(7);
        ADD_LANE(8);
        ADD_LANE(9);
        ADD_LANE(10);
        ADD_LANE(11);
        ADD_LANE(12);
        ADD_LANE(13);
        ADD_LANE(14);
        ADD_LANE(15);
    }
    done[0] = done_g;
    done[1] = done_h;
}
#undef ADD_LANE

PMB_STATIC void FN(pmb_fill_)(const CODE *tile, const int32_t *rows, const int32_t *picked,
                              int64_t n, int lanes, const int64_t *gh, int64_t *hist,
                              int64_t *done) {
#define FILL(lanes_)                                                                               \
    do {                                                                                           \
        if (rows)                                                                                  \
            FN(pmb_fill_lanes_)(tile, rows, NULL, n, lanes_, gh, hist, done);                      \
        else                                                                                       \
            FN(pmb_fill_lanes_)(tile, NULL, NULL, n, lanes_, gh, hist, done);                      \
    } while (0)
    if (picked) {
        if (rows)
            FN(pmb_fill_lanes_)(tile, rows, picked, n, 16, gh, hist, done);
        else
            FN(pmb_fill_lanes_)(tile, NULL, picked, n, 16, gh, hist, done);
        return;
    }
    switch ((lanes + 1) / 2) {
    case 1:
        FILL(2);
        break;
    case 2:
        FILL(4);
        break;
    case 3:
        FILL(6);
        break;
    case 4:
        FILL(8);
        break;
    case 5:
        FILL(10);
        break;
    case 6:
        FILL(12);
        break;
    case 7:
        FILL(14);
        break;
    default:
        FILL(16);
    }
#undef FILL
}

#undef FN
#undef CODE
#undef CTAG
#undef WORDS
#endif
