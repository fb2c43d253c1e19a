/* Scanner of LIBSVM text: `label index:value index:value ... # comment`, one row per line.

   The text of one call is whole lines: its last byte is '\n' and SVM_PADDING readable bytes follow it. Every token ends
   at a separator or at '\n', so no loop needs the end of the buffer. Carriage returns stand before '\n' only: files with
   no other line ends would become one row, or one comment. The scanner allocates nothing and knows no locale.
   Rows are appended to compressed sparse rows; the caller provides room for length / 4 entries and length / 2 rows. */
#ifndef PYMCBOOST_SVMTEXT_H
#define PYMCBOOST_SVMTEXT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SVM_PADDING 16
#define SVM_MAX_INDEX INT64_C(2147483647)
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
    /* set by the caller */
    svm_to_double to_double;
    int64_t min_index; /* smallest index allowed: 0, or 1 for one-based files */
    int64_t shift;     /* subtracted from each stored index */
    int32_t *indices;  /* OUT (capacity) */
    float *values;     /* OUT (capacity) */
    int64_t *indptr;   /* OUT (rows + 1), indptr[0] = 0 */
    double *labels;    /* OUT (rows), 0 where there was none */
    uint8_t *labelled; /* OUT (rows) */
    /* running totals, zero at the start (max_index: -1) */
    int64_t line, rows, nnz;
    int64_t max_index, max_line, max_column; /* largest index so far and its first place */
    int64_t zero_line, qid_line;             /* first line with index 0, with a qid; 0 when none */
    int64_t fractions;                       /* rows whose label is not an integer */
    /* first error: its token starts at byte offset, column counts bytes from 1 */
    int64_t error_offset, error_column, error_previous;
} svm_state;

typedef struct {
    uint64_t mantissa; /* the first 19 significant digits */
    int64_t exponent;  /* value = mantissa * 10^exponent */
    int truncated;     /* digits beyond the 19 that were not all zero */
    int negative, is_nan, is_inf;
} svm_number;

static const double svm_power10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

SVM_INLINE int svm_is_digit(unsigned char c) { return (unsigned)c - '0' <= 9; }
SVM_INLINE int svm_is_space(unsigned char c) { return c == ' ' || c == '\t'; }
SVM_INLINE int svm_is_end(unsigned char c) { return c == '\n' || c == '#' || c == '\r'; }
SVM_INLINE int svm_is_stop(unsigned char c) { return svm_is_space(c) || svm_is_end(c); }

/* Value and number (at most 8) of the decimal digits at p; reads 8 bytes. */
SVM_INLINE int svm_digits(const unsigned char *p, uint64_t *value)
{
#if SVM_SWAR
    uint64_t x, other;
    int n;
    memcpy(&x, p, 8);
    x ^= UINT64_C(0x3030303030303030);
    other = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);
    n = other ? __builtin_ctzll(other) >> 3 : 8;
    if (n == 0)
        return 0;
    x <<= 64 - 8 * n; /* as if padded with leading zeros to 8 digits */
    x = (x * 2561) >> 8 & UINT64_C(0x00ff00ff00ff00ff);
    x = (x * 6553601) >> 16 & UINT64_C(0x0000ffff0000ffff);
    *value = (x * UINT64_C(42949672960001)) >> 32;
    return n;
#else
    uint64_t v = 0;
    int n = 0;
    while (n < 8 && svm_is_digit(p[n]))
        v = v * 10 + (uint64_t)(p[n++] - '0');
    *value = v;
    return n;
#endif
}

/* Whether the bytes from p to stop spell word (lower case), in any case. */
static int svm_spells(const unsigned char *p, const unsigned char *stop, const char *word)
{
    for (; p < stop && *word; p++, word++)
        if ((*p | 0x20) != (unsigned char)*word)
            return 0;
    return p == stop && !*word;
}

/* Whether the bytes from p to stop are one number: decimal, nan, inf or infinity, with an optional sign. */
static int svm_scan_number(const unsigned char *p, const unsigned char *stop, svm_number *out)
{
    int digits = 0, kept = 0, point = 0;
    memset(out, 0, sizeof *out);
    if (p < stop && (*p == '+' || *p == '-'))
        out->negative = *p++ == '-';
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
        if (point)
            return 0;
        out->is_nan = svm_spells(p, stop, "nan");
        out->is_inf = svm_spells(p, stop, "inf") || svm_spells(p, stop, "infinity");
        return out->is_nan || out->is_inf;
    }
    if (p < stop && (*p | 0x20) == 'e') {
        int64_t exponent = 0;
        int negative = 0;
        p++;
        if (p < stop && (*p == '+' || *p == '-'))
            negative = *p++ == '-';
        if (p == stop)
            return 0;
        for (; p < stop && svm_is_digit(*p); p++)
            if (exponent < INT64_C(100000000000000000))
                exponent = exponent * 10 + (*p - '0');
        out->exponent += negative ? -exponent : exponent;
    }
    return p == stop;
}

/* Whether mantissa and power of ten are both exact doubles, so that one operation rounds correctly. */
static int svm_exact(const svm_number *n, double *out)
{
    double value = (double)n->mantissa;
    if (n->mantissa != 0) {
        if (n->truncated || n->mantissa > (UINT64_C(1) << 53) || n->exponent < -22 || n->exponent > 22)
            return 0;
        value = n->exponent < 0 ? value / svm_power10[-n->exponent] : value * svm_power10[n->exponent];
    }
    *out = n->negative ? -value : value;
    return 1;
}

/* The double nearest to the number at text, rounded to float; an SVM error code. */
static int svm_to_float(const svm_number *n, const unsigned char *text, svm_to_double to_double, float *out)
{
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
            double first = svm_power10[e > 22 ? 22 : e], second = svm_power10[e > 22 ? e - 22 : 0], low, high;
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
        if (value != value)
            return SVM_CONVERSION_FAILED;
    }
    if (value >= limit || value <= -limit)
        return SVM_VALUE_OVERFLOW;
    *out = (float)value;
    return SVM_OK;
}

static const unsigned char *svm_token_stop(const unsigned char *p)
{
    while (!svm_is_stop(*p))
        p++;
    return p;
}

static int svm_is_integer(const unsigned char *p, const unsigned char *stop)
{
    if (p < stop && *p == '-')
        p++;
    if (p == stop)
        return 0;
    while (p < stop && svm_is_digit(*p))
        p++;
    return p == stop;
}

/* Whether the number, of size value, is an integer; then *out has its size, where value is no more than 2^53. */
static int svm_whole(const svm_number *n, double value, uint64_t *out)
{
    uint64_t mantissa = n->mantissa;
    int64_t exponent = n->exponent;
    if (n->truncated) /* its 19 digits alone are beyond 2^53, or others stand behind the point */
        return 0;
    for (; exponent < 0 && mantissa != 0; exponent++, mantissa /= 10)
        if (mantissa % 10 != 0)
            return 0;
    if (mantissa != 0 && value <= (double)SVM_MAX_LABEL)
        for (; exponent > 0; exponent--)
            mantissa *= 10;
    *out = mantissa;
    return 1;
}

/* Label token from p to stop: a double that stands for no other integer than the text. */
static int svm_label(svm_state *s, const unsigned char *p, const unsigned char *stop)
{
    svm_number number;
    double value;
    uint64_t whole = 0;
    if (!svm_scan_number(p, stop, &number)) {
        const void *comma = memchr(p, ',', (size_t)(stop - p));
        return comma ? SVM_MULTI_LABEL : SVM_LABEL_NOT_NUMBER;
    }
    if (number.is_nan || number.is_inf)
        return SVM_LABEL_RANGE;
    if (!svm_exact(&number, &value)) {
        value = s->to_double((const char *)p);
        if (value != value)
            return SVM_CONVERSION_FAILED;
    }
    if (fabs(value) > (double)SVM_MAX_LABEL)
        return SVM_LABEL_RANGE;
    if (value == floor(value)) {
        if (!svm_whole(&number, fabs(value), &whole))
            return SVM_LABEL_DIGITS;
        if (whole > SVM_MAX_LABEL)
            return SVM_LABEL_RANGE;
    } else {
        s->fractions++;
    }
    s->labels[s->rows] = value;
    s->labelled[s->rows] = 1;
    return SVM_OK;
}

/* Entry token from p to stop by the full rules; *at is where an error lies, *previous the last index of this row. */
static int svm_entry(svm_state *s, const unsigned char *p, const unsigned char *stop, int64_t *previous,
                     const unsigned char **at)
{
    const unsigned char *colon = memchr(p, ':', (size_t)(stop - p)), *q = p;
    int64_t index = 0;
    svm_number number;
    int code;
    *at = p;
    if (colon == NULL)
        return SVM_NO_COLON;
    if (!svm_is_integer(p, colon))
        return SVM_INDEX_NOT_NUMBER;
    if (*q == '-')
        return SVM_INDEX_NEGATIVE;
    for (; q < colon && index <= SVM_MAX_INDEX; q++)
        index = index * 10 + (*q - '0');
    if (index > SVM_MAX_INDEX)
        return SVM_INDEX_HUGE;
    if (index < s->min_index)
        return SVM_INDEX_ZERO;
    if (index <= *previous) {
        s->error_previous = *previous;
        return SVM_INDEX_ORDER;
    }
    if (index == 0 && s->zero_line == 0)
        s->zero_line = s->line + 1;
    *at = colon + 1;
    if (colon + 1 == stop)
        return SVM_NO_VALUE;
    if (!svm_scan_number(colon + 1, stop, &number))
        return SVM_VALUE_NOT_NUMBER;
    code = svm_to_float(&number, colon + 1, s->to_double, &s->values[s->nnz]);
    if (code != SVM_OK)
        return code;
    s->indices[s->nnz++] = (int32_t)(index - s->shift);
    *previous = index;
    return SVM_OK;
}

/* qid:number from p to stop. */
static int svm_qid(svm_state *s, const unsigned char *p, const unsigned char *stop, const unsigned char **at)
{
    *at = p + 4;
    if (!svm_is_integer(p + 4, stop))
        return SVM_QID_NOT_NUMBER;
    if (s->qid_line == 0)
        s->qid_line = s->line + 1;
    return SVM_OK;
}

/* Scan whole lines, appending rows to *state; 0 or the code of the first error. Linear time, no allocation. */
static int svm_scan(svm_state *state, const unsigned char *text, int64_t length)
{
    svm_state s = *state; /* a local copy: stores through the array pointers cannot alias its fields */
    const unsigned char *p = text, *end = text + length, *line = p, *stop, *at = p, *last;
    int code = SVM_OK;
    while (p < end) {
        int64_t previous = -1;
        int unlabelled;
        line = p;
        while (svm_is_space(*p))
            p++;
        if (svm_is_end(*p))
            goto next_line;
        stop = svm_token_stop(p);
        unlabelled = memchr(p, ':', (size_t)(stop - p)) != NULL;
        s.labels[s.rows] = 0;
        s.labelled[s.rows] = 0;
        if (!unlabelled) {
            at = p;
            code = svm_label(&s, p, stop);
            if (code != SVM_OK)
                goto failed;
            p = stop;
            while (svm_is_space(*p))
                p++;
        }
        if (memcmp(p, "qid:", 4) == 0) {
            stop = svm_token_stop(p);
            code = svm_qid(&s, p, stop, &at);
            if (code != SVM_OK)
                goto failed;
            p = stop;
        }
        last = p;
        previous = s.min_index - 1;
        for (;;) {
            uint64_t index, whole;
            int n;
            while (svm_is_space(*p))
                p++;
            if (svm_is_end(*p))
                break;
            last = p;
            /* The common entries first: an index of at most 8 digits and an integer or a short decimal value. */
            n = svm_digits(p, &index);
            if (SVM_LIKELY(n > 0 && p[n] == ':' && index != 0 && (int64_t)index > previous)) {
                const unsigned char *q = p + n + 1;
                int negative = *q == '-';
                int64_t number;
                q += negative;
                n = svm_digits(q, &whole);
                if (SVM_LIKELY(n > 0)) {
                    q += n;
                    number = (int64_t)whole;
                    if (svm_is_stop(*q)) {
                        float value = (float)number;
                        s.values[s.nnz] = negative ? -value : value;
                        s.indices[s.nnz++] = (int32_t)((int64_t)index - s.shift);
                        previous = (int64_t)index;
                        p = q;
                        continue;
                    }
                    if (*q == '.' && n <= 7) {
                        uint64_t part = 0, more = 0;
                        int places = svm_digits(q + 1, &part);
                        if (places == 8) {
                            int extra = svm_digits(q + 9, &more);
                            number = number * 100000000 + (int64_t)part;
                            if (n + 8 + extra > 15) {
                                number = -1;
                            } else {
                                number = number * (int64_t)svm_power10[extra] + (extra ? (int64_t)more : 0);
                                places += extra;
                            }
                        } else {
                            number = number * (int64_t)svm_power10[places] + (int64_t)part;
                        }
                        if (number >= 0 && svm_is_stop(q[1 + places])) {
                            float value = (float)((double)number / svm_power10[places]);
                            s.values[s.nnz] = negative ? -value : value;
                            s.indices[s.nnz++] = (int32_t)((int64_t)index - s.shift);
                            previous = (int64_t)index;
                            p = q + 1 + places;
                            continue;
                        }
                    }
                }
            }
            stop = svm_token_stop(p);
            if (memcmp(p, "qid:", 4) == 0) {
                at = p;
                code = SVM_QID_PLACE;
                goto failed;
            }
            code = svm_entry(&s, p, stop, &previous, &at);
            if (code != SVM_OK)
                goto failed;
            p = stop;
        }
        s.rows++;
        s.indptr[s.rows] = s.nnz;
        if (previous > s.max_index && previous >= s.min_index) {
            s.max_index = previous;
            s.max_line = s.line + 1;
            s.max_column = last - line + 1;
        }
    next_line:
        if (*p == '#') {
            const unsigned char *begin = p;
            p = memchr(p, '\n', (size_t)(end - p));
            last = memchr(begin, '\r', (size_t)(p - begin));
            if (last != NULL)
                p = last;
        }
        if (*p == '\r') {
            at = p;
            while (*p == '\r')
                p++;
            if (*p != '\n') {
                code = SVM_LONE_CR;
                goto failed;
            }
        }
        p++;
        s.line++;
    }
    *state = s;
    return SVM_OK;
failed:
    s.error_offset = at - text;
    s.error_column = at - line + 1;
    *state = s;
    return code;
}

/* Dense rows from compressed ones; entries at or beyond width are dropped. out (rows, width) holds zeros. */
static void svm_fill_dense(const int64_t *indptr, const int32_t *indices, const float *values, int64_t rows,
                           int64_t width, float *out)
{
    int64_t i, j;
    for (i = 0; i < rows; i++, out += width)
        for (j = indptr[i]; j < indptr[i + 1]; j++)
            if (indices[j] < width)
                out[indices[j]] = values[j];
}

/* Drop entries at or beyond width, in place; the new number of entries. */
static int64_t svm_drop(int64_t *indptr, int32_t *indices, float *values, int64_t rows, int64_t width)
{
    int64_t i, j = 0, kept = 0;
    for (i = 0; i < rows; i++) {
        int64_t stop = indptr[i + 1];
        for (; j < stop && indices[j] < width; j++, kept++) {
            indices[kept] = indices[j];
            values[kept] = values[j];
        }
        j = stop;
        indptr[i + 1] = kept;
    }
    return kept;
}

#endif
