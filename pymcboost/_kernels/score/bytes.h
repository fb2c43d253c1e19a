/* ---------------------------------------------------------------------------------------------- little-endian loads */

/* Reads numbers of the file, which are little-endian and may lie at any address. */

#define MCB__SIGN UINT64_C(0x8000000000000000)

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
static inline uint64_t mcb__bytes(const unsigned char *p, int n) {
    uint64_t v = 0;
    while (n-- > 0) v = v << 8 | p[n];
    return v;
}
static inline uint16_t mcb__u16(const unsigned char *p) {
    return (uint16_t)mcb__bytes(p, 2);
}
static inline uint32_t mcb__u32(const unsigned char *p) {
    return (uint32_t)mcb__bytes(p, 4);
}
static inline uint64_t mcb__u64(const unsigned char *p) {
    return mcb__bytes(p, 8);
}
#else
static inline uint16_t mcb__u16(const unsigned char *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t mcb__u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t mcb__u64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
#endif

static inline float mcb__f32(const unsigned char *p) {
    uint32_t bits = mcb__u32(p);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Half precision, exactly: 1 sign bit, 5 of exponent, 10 of mantissa. */
static inline float mcb__f16(const unsigned char *p) {
    uint32_t half = mcb__u16(p), magnitude = half & 0x7fffu,
             bits = (magnitude << 13) + (112u << 23);
    float v;
    memcpy(&v, &bits, sizeof v);
    if (magnitude < 0x400u) v = (float)magnitude * (1.0f / 16777216.0f);
    return half >> 15 ? -v : v;
}

static inline double mcb__f64_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint64_t mcb__bits_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline double mcb__f64(const unsigned char *p) {
    return mcb__f64_of(mcb__u64(p));
}

static inline uint32_t mcb__dtype_size(uint32_t dtype) {
    switch (dtype) {
    case MCB_U8:
        return 1;
    case MCB_U16:
    case MCB_F16:
        return 2;
    case MCB_U32:
    case MCB_F32:
        return 4;
    case MCB_I64:
    case MCB_F64:
        return 8;
    default:
        return 0;
    }
}

/* Item of a section of f32 or f16. */
MCB__INLINE double mcb__real(const mcb_section *s, uint64_t i) {
    return (double)(s->dtype == MCB_F16 ? mcb__f16(s->data + 2 * i) : mcb__f32(s->data + 4 * i));
}

/* The first number of a section of f32 or f16 that is not finite; their count if all are. */
static inline uint64_t mcb__not_finite(const mcb_section *s) {
    uint64_t i = 0;
    if (s->dtype == MCB_F16) {
        while (i < s->count && (mcb__u16(s->data + 2 * i) & 0x7c00u) != 0x7c00u) i++;
    } else {
        while (i < s->count && (mcb__u32(s->data + 4 * i) & 0x7f800000u) != 0x7f800000u) i++;
    }
    return i;
}

/* The same as mcb__real where infinities may occur, which mcb__f16 does not know. */
MCB__INLINE double mcb__bound(const mcb_section *s, uint64_t i) {
    uint32_t half = s->dtype == MCB_F16 ? mcb__u16(s->data + 2 * i) : 0;
    if ((half & 0x7c00u) != 0x7c00u) return mcb__real(s, i);
    return mcb__f64_of((uint64_t)(half >> 15) << 63 | UINT64_C(0x7ff0000000000000) |
                       (half & 0x3ffu));
}

/* Item of a section of unsigned integers. */
static inline uint32_t mcb__uint(const mcb_section *s, uint64_t i) {
    if (s->dtype == MCB_U8) return s->data[i];
    if (s->dtype == MCB_U16) return mcb__u16(s->data + 2 * i);
    return mcb__u32(s->data + 4 * i);
}
