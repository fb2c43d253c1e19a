/* ---------------------------------------------------------------------------------------------------------- offsets */

/* Whether columns of doubles have offsets, which mcb_features subtracts. Rows of floats are those that it gives. */
MCB_API int mcb_has_offsets(const mcb_model *m) { return m->section[MCB_S_OFFS].data != 0; }

/* The floats of a row of doubles, which may not overlap: every value rounded to float, in a column with an offset after
 * the offset is subtracted. NaN stays NaN, and infinities stay. Both have n_features numbers. */
MCB_API void mcb_features(const mcb_model *m, const double *in, float *out) {
    const mcb_section *s = &m->section[MCB_S_OFFS];
    uint64_t i, n = s->count / 2;
    uint32_t f;
    for (f = 0; f < m->n_features; f++) out[f] = (float)in[f];
    for (i = 0; i < n; i++) {
        f = (uint32_t)mcb__f64(s->data + 8 * i);
        out[f] = (float)(in[f] - mcb__f64(s->data + 8 * (n + i)));
    }
}
