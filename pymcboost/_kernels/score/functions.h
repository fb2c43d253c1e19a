/* ------------------------------------------------------------------------------------------------ exp, log and sqrt */

/* exp, log and square root with the same bits on every machine. */

static inline uint64_t mcb__mul_high(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 mcb__u128;
    return (uint64_t)((mcb__u128)a * b >> 64);
#else
    uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
    return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}

/* e^x in integer arithmetic, so that every compiler and processor gives the same bits.
 * Error below 0.65 units in the last place (of the smallest number where the result is subnormal);
 * 0 below -745.14, infinity above 709.79, NaN for NaN. */
MCB_API double mcb_exp(double x) {
    /* 2^(i/16) * 2^63 */
    static const uint64_t power[16] = {
        UINT64_C(0x8000000000000000), UINT64_C(0x85aac367cc487b15), UINT64_C(0x8b95c1e3ea8bd6e7),
        UINT64_C(0x91c3d373ab11c336), UINT64_C(0x9837f0518db8a96f), UINT64_C(0x9ef5326091a111ae),
        UINT64_C(0xa5fed6a9b15138ea), UINT64_C(0xad583eea42a14ac6), UINT64_C(0xb504f333f9de6484),
        UINT64_C(0xbd08a39f580c36bf), UINT64_C(0xc5672a115506dadd), UINT64_C(0xce248c151f8480e4),
        UINT64_C(0xd744fccad69d6af4), UINT64_C(0xe0ccdeec2a94e111), UINT64_C(0xeac0c6e7dd24392f),
        UINT64_C(0xf5257d152486cc2c)};
    /* 2^62 / n! for n = 9 down to 0 */
    static const uint64_t term[10] = {UINT64_C(0x00000b8ef1d2ab64), UINT64_C(0x0000680680680680),
                                      UINT64_C(0x0003403403403403), UINT64_C(0x0016c16c16c16c17),
                                      UINT64_C(0x0088888888888889), UINT64_C(0x02aaaaaaaaaaaaab),
                                      UINT64_C(0x0aaaaaaaaaaaaaab), UINT64_C(0x2000000000000000),
                                      UINT64_C(0x4000000000000000), UINT64_C(0x4000000000000000)};
    const uint64_t log2_e = UINT64_C(0xb8aa3b295c17f0bc),
                   ln_2 = UINT64_C(0xb17217f7d1cf79ac); /* * 2^63, * 2^64 */
    uint64_t bits = mcb__bits_of(x), mantissa, high, low, fraction, z, p;
    int exponent = (int)(bits >> 52 & 0x7ff), negative = (int)(bits >> 63), shift, whole, i;
    if (exponent >= 1023 + 10) {
        if (x != x) return x;
        return negative ? 0.0 : mcb__f64_of(UINT64_C(0x7ff0000000000000));
    }
    if (exponent < 1023 - 54) return 1.0;
    /* |x| / ln 2 = whole + fraction / 2^64 */
    mantissa = (bits & ((MCB__SIGN >> 11) - 1)) | MCB__SIGN >> 11;
    high = mcb__mul_high(mantissa, log2_e);
    low = mantissa * log2_e;
    shift = 1023 + 51 - exponent; /* 42 to 105 */
    if (shift < 64) {
        whole = (int)(high >> shift);
        fraction = low >> shift | high << (64 - shift);
    } else {
        whole = 0;
        fraction = high >> (shift - 64);
    }
    if (negative) {
        whole = fraction ? -whole - 1 : -whole;
        fraction = 0 - fraction;
    }
    z = mcb__mul_high(fraction << 4, ln_2) >> 4;
    p = term[0];
    for (i = 1; i < 10; i++) p = term[i] + mcb__mul_high(p, z);
    p = mcb__mul_high(
        p, power[fraction >> 60]); /* 2^61 to 2^62 - 1, which the largest fraction gives */
    if (whole > 1023) return mcb__f64_of(UINT64_C(0x7ff0000000000000));
    if (whole >= -1022) return mcb__f64_of(((uint64_t)(whole + 1022) << 52) + ((p + 256) >> 9));
    shift = 9 - 1022 - whole;
    return shift > 63 ? 0.0 : mcb__f64_of((p + (UINT64_C(1) << (shift - 1))) >> shift);
}

/* Natural logarithm of a normal number above 0, with an error of a few units in the last place (next to 1, of 1e-16).
 * Products are stored before they are added, so that no compiler fuses the two and all give the same bits. */
MCB_API double mcb_log(double x) {
    uint64_t bits = mcb__bits_of(x), mantissa = bits & ((MCB__SIGN >> 11) - 1);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023, i;
    volatile double product;
    double m, s, square, sum = 0;
    if (mantissa >= UINT64_C(0x6a09e667f3bcd)) exponent++; /* from sqrt(2) on */
    m = mcb__f64_of(mantissa | (uint64_t)(mantissa >= UINT64_C(0x6a09e667f3bcd) ? 1022 : 1023)
                                   << 52);
    s = (m - 1) / (m + 1); /* log m = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172 */
    product = s * s;
    square = product;
    for (i = 21; i >= 3; i -= 2) {
        sum += 1.0 / i;
        product = sum * square;
        sum = product;
    }
    product = sum * s;
    sum = product;
    product = (double)exponent * 0.693147180559945286;
    return product + 2 * (s + sum);
}

/* Square root, correctly rounded, in integer arithmetic; NaN below zero. */
MCB_API double mcb_sqrt(double x) {
    uint64_t bits = mcb__bits_of(x), mantissa, rest = 0, root = 0;
    int exponent = (int)(bits >> 52 & 0x7ff), i;
    if (bits << 1 == 0 || x != x || bits == UINT64_C(0x7ff0000000000000)) return x;
    if (bits >> 63) return mcb__f64_of(UINT64_C(0x7ff8000000000000));
    mantissa = bits & ((MCB__SIGN >> 11) - 1);
    if (exponent == 0) {
        exponent = 1;
        while (mantissa < MCB__SIGN >> 11) {
            mantissa <<= 1;
            exponent--;
        }
    } else {
        mantissa |= MCB__SIGN >> 11;
    }
    exponent -= 1023;
    if (exponent & 1) mantissa <<= 1;
    exponent = (exponent - (exponent & 1)) / 2;
    /* 54 binary digits of the root of mantissa * 2^54, one after the other; the last one rounds. */
    for (i = 53; i >= 0; i--) {
        uint64_t two = i >= 27 ? mantissa >> (2 * (i - 27)) & 3 : 0, trial = root << 2 | 1;
        rest = rest << 2 | two;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    }
    return mcb__f64_of(((uint64_t)(exponent + 1022) << 52) + (root >> 1) + (root & 1));
}
