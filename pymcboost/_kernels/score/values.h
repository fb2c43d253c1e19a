/* ------------------------------------------------------------------------------------------------ values of features */

/* Reads features of a row, of whatever type it stores them in. */

/* What the features of a row are stored as. Integers of 8 and 16 bits are exact in float32, so that x <= threshold has the
 * same answer for them. */
enum mcb_values { MCB_VALUES_F32 = 0, MCB_VALUES_U8 = 1, MCB_VALUES_I16 = 2, MCB__VALUES_LAZY = 3 };

/* The value of a feature (counted from 0) of the row that the context stands for; NaN if it is missing. */
typedef float (*mcb_feature)(void *context, uint32_t feature);

typedef struct {
    mcb_feature get;
    void *context;
    float *row; /* null where a feature may be asked for again */
    unsigned char *known;
} mcb__lazy;

MCB__INLINE float mcb__ask(const mcb__lazy *s, uint32_t f) {
    unsigned char bit = (unsigned char)(1u << (f & 7));
    if (!s->row) return s->get(s->context, f);
    if (!(s->known[f >> 3] & bit)) {
        s->row[f] = s->get(s->context, f);
        s->known[f >> 3] = (unsigned char)(s->known[f >> 3] | bit);
    }
    return s->row[f];
}

/* Feature f of a row. values (enum mcb_values) is a constant in loops. */
MCB__INLINE float mcb__value(const void *x, int values, size_t f) {
    if (values == MCB_VALUES_U8) return (float)((const uint8_t *)x)[f];
    if (values == MCB_VALUES_I16) return (float)((const int16_t *)x)[f];
    if (values == MCB__VALUES_LAZY) return mcb__ask((const mcb__lazy *)x, (uint32_t)f);
    return ((const float *)x)[f];
}

/* Where a later row begins, `items` features behind x. */
MCB__INLINE const void *mcb__later(const void *x, int values, size_t items) {
    return (const unsigned char *)x + items * (values == MCB_VALUES_U8    ? 1
                                               : values == MCB_VALUES_I16 ? 2
                                                                          : sizeof(float));
}
