/* Template body: histograms of stumps. The file that includes it defines FN, REAL, LANES, ROW_ADD and CLONES. */

#define ADD_ROW(k, cell) ROW_ADD(hist + ((k) * 256 + (cell)) * LANES, a)

/* Histograms of one tile (up to 4 code bytes per row) over rows [0, m). */
CLONES PMB_STATIC void FN(pmb_fill_tile_)(const uint8_t *PMB_RESTRICT codes, int64_t m,
                                          const REAL *PMB_RESTRICT A, int bytes,
                                          REAL *PMB_RESTRICT hist) {
    if (bytes == 4) {
        for (int64_t i = 0; i < m; i++) {
            uint32_t c;
            memcpy(&c, codes + 4 * i, 4);
            const REAL *a = A + i * LANES;
            ADD_ROW(0, c & 255);
            ADD_ROW(1, c >> 8 & 255);
            ADD_ROW(2, c >> 16 & 255);
            ADD_ROW(3, c >> 24);
        }
        return;
    }
    for (int k = 0; k < bytes; k++)
        for (int64_t i = 0; i < m; i++) {
            const REAL *a = A + i * LANES;
            ADD_ROW(k, codes[4 * i + k]);
        }
}
#undef ADD_ROW

/* Histogram of the n rows that a skewed feature lists. */
PMB_INLINE void FN(pmb_fill_list_)(const int32_t *PMB_RESTRICT rows,
                                   const uint8_t *PMB_RESTRICT codes, int64_t n,
                                   const REAL *PMB_RESTRICT A, REAL *PMB_RESTRICT hist) {
    for (int64_t i = 0; i < n; i++) {
        const REAL *a = A + (int64_t)rows[i] * LANES;
        ROW_ADD(hist + codes[i] * LANES, a);
    }
}
