/* Characters and numbers of LIBSVM text, and the scanner's error codes. No locale, no allocation. */
#ifndef PYMCBOOST_SVMNUMBER_H
#define PYMCBOOST_SVMNUMBER_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SVM_MAX_LABEL (UINT64_C(1) << 53) /* beyond it a double no longer holds every integer */

#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SVM_SWAR 1
#define SVM_INLINE static inline __attribute__((always_inline))
#define SVM_LIKELY(x) __builtin_expect(!!(x), 1)
#else
#define SVM_SWAR 0
#define SVM_INLINE static
#define SVM_LIKELY(x) (x)
#endif

enum {
    SVM_OK = 0,
    SVM_LABEL_NOT_NUMBER,
    SVM_LABEL_RANGE,
    SVM_MULTI_LABEL,
    SVM_NO_COLON,
    SVM_INDEX_NOT_NUMBER,
    SVM_INDEX_NEGATIVE,
    SVM_INDEX_ZERO,
    SVM_INDEX_HUGE,
    SVM_INDEX_ORDER,
    SVM_NO_VALUE,
    SVM_VALUE_NOT_NUMBER,
    SVM_VALUE_OVERFLOW,
    SVM_QID_NOT_NUMBER,
    SVM_QID_PLACE,
    SVM_LABEL_DIGITS,
    SVM_LONE_CR,
    SVM_CONVERSION_FAILED
};

/* Correctly rounded double of the decimal number that begins at text; NaN when it could not be converted. */
typedef double (*svm_to_double)(const char *text);

typedef struct {
    uint64_t mantissa; /* the first 19 significant digits */
    int64_t exponent;  /* value = mantissa * 10^exponent */
    int truncated;     /* digits beyond the 19 that were not all zero */
    int negative, is_nan, is_inf;
} svm_number;

static const double svm_power10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

SVM_INLINE int svm_is_digit(unsigned char c) {
    return (unsigned)c - '0' <= 9;
}
SVM_INLINE int svm_is_space(unsigned char c) {
    return c == ' ' || c == '\t';
}
SVM_INLINE int svm_is_end(unsigned char c) {
    return c == '\n' || c == '#' || c == '\r';
}
SVM_INLINE int svm_is_stop(unsigned char c) {
    return svm_is_space(c) || svm_is_end(c);
}

/* Value and number (at most 8) of the decimal digits at p; reads 8 bytes. */
SVM_INLINE int svm_digits(const unsigned char *p, uint64_t *value) {
#if SVM_SWAR
    uint64_t x, other;
    int n;
    memcpy(&x, p, 8);
    x ^= UINT64_C(0x3030303030303030);
    other = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);
    n = other ? __builtin_ctzll(other) >> 3 : 8;
    if (n == 0) return 0;
    x <<= 64 - 8 * n; /* as if padded with leading zeros to 8 digits */
    x = (x * 2561) >> 8 & UINT64_C(0x00ff00ff00ff00ff);
    x = (x * 6553601) >> 16 & UINT64_C(0x0000ffff0000ffff);
    *value = (x * UINT64_C(42949672960001)) >> 32;
    return n;
#else
    uint64_t v = 0;
    int n = 0;
    while (n < 8 && svm_is_digit(p[n])) v = v * 10 + (uint64_t)(p[n++] - '0');
    *value = v;
    return n;
#endif
}

/* Whether the bytes from p to stop spell word (lower case), in any case. */
static int svm_spells(const unsigned char *p, const unsigned char *stop, const char *word) {
    for (; p < stop && *word; p++, word++)
        if ((*p | 0x20) != (unsigned char)*word) return 0;
    return p == stop && !*word;
}

/* Whether the bytes from p to stop are one number: decimal, nan, inf or infinity, with an optional sign. */
static int svm_scan_number(const unsigned char *p, const unsigned char *stop, svm_number *out) {
    int digits = 0, kept = 0, point = 0;
    memset(out, 0, sizeof *out);
    if (p < stop && (*p == '+' || *p == '-')) out->negative = *p++ == '-';
    for (; p < stop && (svm_is_digit(*p) || (*p == '.' && !point)); p++) {
        if (*p == '.') {
            point = 1;
            continue;
        }
        digits = 1;
        if (kept < 19) {
            out->mantissa = out->mantissa * 10 + (uint64_t)(*p - '0');
            kept += out->mantissa != 0;
            out->exponent -= point;
        } else {
            out->truncated |= *p != '0';
            out->exponent += !point;
        }
    }
    if (!digits) {
        if (point) return 0;
        out->is_nan = svm_spells(p, stop, "nan");
        out->is_inf = svm_spells(p, stop, "inf") || svm_spells(p, stop, "infinity");
        return out->is_nan || out->is_inf;
    }
    if (p < stop && (*p | 0x20) == 'e') {
        int64_t exponent = 0;
        int negative = 0;
        p++;
        if (p < stop && (*p == '+' || *p == '-')) negative = *p++ == '-';
        if (p == stop) return 0;
        for (; p < stop && svm_is_digit(*p); p++)
            if (exponent < INT64_C(100000000000000000)) exponent = exponent * 10 + (*p - '0');
        out->exponent += negative ? -exponent : exponent;
    }
    return p == stop;
}

/* Whether mantissa and power of ten are both exact doubles, so that one operation rounds correctly. */
static int svm_exact(const svm_number *n, double *out) {
    double value = (double)n->mantissa;
    if (n->mantissa != 0) {
        if (n->truncated || n->mantissa > (UINT64_C(1) << 53) || n->exponent < -22 ||
            n->exponent > 22)
            return 0;
        value =
            n->exponent < 0 ? value / svm_power10[-n->exponent] : value * svm_power10[n->exponent];
    }
    *out = n->negative ? -value : value;
    return 1;
}

/* The double nearest to the number at text, rounded to float; an SVM error code. */
static int svm_to_float(const svm_number *n, const unsigned char *text, svm_to_double to_double,
                        float *out) {
    const double limit = 3.4028235677973366e38; /* (2 - 2^-24) 2^127 and above round to infinity */
    double value;
    if (n->is_nan || n->is_inf) {
        *out = n->is_nan ? NAN : n->negative ? -INFINITY : INFINITY;
        return SVM_OK;
    }
    if (!svm_exact(n, &value)) {
        if (n->exponent >= -44 && n->exponent <= 44) {
            /* At most four roundings and the cut digits: the relative error is far below 2^-49. Where that interval
               lies between two float rounding boundaries the result is certain without big-integer arithmetic. */
            int64_t e = n->exponent < 0 ? -n->exponent : n->exponent;
            double first = svm_power10[e > 22 ? 22 : e], second = svm_power10[e > 22 ? e - 22 : 0],
                   low, high;
            value = (double)n->mantissa;
            value = n->exponent < 0 ? value / first / second : value * first * second;
            low = value * (1 - 0x1p-49);
            high = value * (1 + 0x1p-49);
            if (high < limit && (float)low == (float)high) {
                *out = n->negative ? -(float)low : (float)low;
                return SVM_OK;
            }
        }
        value = to_double((const char *)text);
        if (value != value) return SVM_CONVERSION_FAILED;
    }
    if (value >= limit || value <= -limit) return SVM_VALUE_OVERFLOW;
    *out = (float)value;
    return SVM_OK;
}

/* Whether the number, of size value, is an integer; then *out has its size, where value is no more than 2^53. */
static int svm_whole(const svm_number *n, double value, uint64_t *out) {
    uint64_t mantissa = n->mantissa;
    int64_t exponent = n->exponent;
    if (n->truncated) /* its 19 digits alone are beyond 2^53, or others stand behind the point */
        return 0;
    for (; exponent < 0 && mantissa != 0; exponent++, mantissa /= 10)
        if (mantissa % 10 != 0) return 0;
    if (mantissa != 0 && value <= (double)SVM_MAX_LABEL)
        for (; exponent > 0; exponent--) mantissa *= 10;
    *out = mantissa;
    return 1;
}

#endif
