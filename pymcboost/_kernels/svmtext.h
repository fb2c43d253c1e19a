/* Scanner of LIBSVM text: `label index:value index:value ... # comment`, one row per line.

   The text of one call is whole lines: its last byte is '\n' and SVM_PADDING readable bytes follow it. Every token ends
   at a separator or at '\n', so no loop needs the end of the buffer. Carriage returns stand before '\n' only: files with
   no other line ends would become one row, or one comment. The scanner allocates nothing and knows no locale.
   Rows are appended to compressed sparse rows; the caller provides room for length / 4 entries and length / 2 rows. */
#ifndef PYMCBOOST_SVMTEXT_H
#define PYMCBOOST_SVMTEXT_H

#include "svmnumber.h"

#define SVM_PADDING 16
#define SVM_MAX_INDEX INT64_C(2147483647)

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

static const unsigned char *svm_token_stop(const unsigned char *p) {
    while (!svm_is_stop(*p)) p++;
    return p;
}

static int svm_is_integer(const unsigned char *p, const unsigned char *stop) {
    if (p < stop && *p == '-') p++;
    if (p == stop) return 0;
    while (p < stop && svm_is_digit(*p)) p++;
    return p == stop;
}

/* Label token from p to stop: a double that stands for no other integer than the text. */
static int svm_label(svm_state *s, const unsigned char *p, const unsigned char *stop) {
    svm_number number;
    double value;
    uint64_t whole = 0;
    if (!svm_scan_number(p, stop, &number)) {
        const void *comma = memchr(p, ',', (size_t)(stop - p));
        return comma ? SVM_MULTI_LABEL : SVM_LABEL_NOT_NUMBER;
    }
    if (number.is_nan || number.is_inf) return SVM_LABEL_RANGE;
    if (!svm_exact(&number, &value)) {
        value = s->to_double((const char *)p);
        if (value != value) return SVM_CONVERSION_FAILED;
    }
    if (fabs(value) > (double)SVM_MAX_LABEL) return SVM_LABEL_RANGE;
    if (value == floor(value)) {
        if (!svm_whole(&number, fabs(value), &whole)) return SVM_LABEL_DIGITS;
        if (whole > SVM_MAX_LABEL) return SVM_LABEL_RANGE;
    } else {
        s->fractions++;
    }
    s->labels[s->rows] = value;
    s->labelled[s->rows] = 1;
    return SVM_OK;
}

/* Entry token from p to stop by the full rules; *at is where an error lies, *previous the last index of this row. */
static int svm_entry(svm_state *s, const unsigned char *p, const unsigned char *stop,
                     int64_t *previous, const unsigned char **at) {
    const unsigned char *colon = memchr(p, ':', (size_t)(stop - p)), *q = p;
    int64_t index = 0;
    svm_number number;
    int code;
    *at = p;
    if (colon == NULL) return SVM_NO_COLON;
    if (!svm_is_integer(p, colon)) return SVM_INDEX_NOT_NUMBER;
    if (*q == '-') return SVM_INDEX_NEGATIVE;
    for (; q < colon && index <= SVM_MAX_INDEX; q++) index = index * 10 + (*q - '0');
    if (index > SVM_MAX_INDEX) return SVM_INDEX_HUGE;
    if (index < s->min_index) return SVM_INDEX_ZERO;
    if (index <= *previous) {
        s->error_previous = *previous;
        return SVM_INDEX_ORDER;
    }
    if (index == 0 && s->zero_line == 0) s->zero_line = s->line + 1;
    *at = colon + 1;
    if (colon + 1 == stop) return SVM_NO_VALUE;
    if (!svm_scan_number(colon + 1, stop, &number)) return SVM_VALUE_NOT_NUMBER;
    code = svm_to_float(&number, colon + 1, s->to_double, &s->values[s->nnz]);
    if (code != SVM_OK) return code;
    s->indices[s->nnz++] = (int32_t)(index - s->shift);
    *previous = index;
    return SVM_OK;
}

/* qid:number from p to stop. */
static int svm_qid(svm_state *s, const unsigned char *p, const unsigned char *stop,
                   const unsigned char **at) {
    *at = p + 4;
    if (!svm_is_integer(p + 4, stop)) return SVM_QID_NOT_NUMBER;
    if (s->qid_line == 0) s->qid_line = s->line + 1;
    return SVM_OK;
}

/* The common entries at p: an index of at most 8 digits and an integer or a short decimal value. Where they end, or NULL
   for all others and all errors, with nothing stored. */
SVM_INLINE const unsigned char *svm_common_entry(svm_state *s, const unsigned char *p,
                                                 int64_t *previous) {
    uint64_t index, whole, part = 0, more = 0;
    int64_t number;
    int places, extra, negative, n = svm_digits(p, &index);
    double value;
    if (!SVM_LIKELY(n > 0 && p[n] == ':' && index != 0 && (int64_t)index > *previous)) return NULL;
    p += n + 1;
    negative = *p == '-';
    p += negative;
    n = svm_digits(p, &whole);
    if (!SVM_LIKELY(n > 0)) return NULL;
    p += n;
    number = (int64_t)whole;
    if (svm_is_stop(*p)) {
        value = (double)number;
    } else {
        if (*p != '.' || n > 7) return NULL;
        places = svm_digits(p + 1, &part);
        if (places == 8) {
            extra = svm_digits(p + 9, &more);
            if (n + 8 + extra > 15) return NULL;
            number = number * 100000000 + (int64_t)part;
            number = number * (int64_t)svm_power10[extra] + (extra ? (int64_t)more : 0);
            places += extra;
        } else {
            number = number * (int64_t)svm_power10[places] + (int64_t)part;
        }
        p += 1 + places;
        if (!svm_is_stop(*p)) return NULL;
        value = (double)number / svm_power10[places];
    }
    s->values[s->nnz] = (float)(negative ? -value : value);
    s->indices[s->nnz++] = (int32_t)((int64_t)index - s->shift);
    *previous = (int64_t)index;
    return p;
}

/* What stands before the entries of a row at *p: a label, a qid. *at is where an error lies. */
static int svm_row_head(svm_state *s, const unsigned char **p, const unsigned char **at) {
    const unsigned char *stop = svm_token_stop(*p);
    int code;
    s->labels[s->rows] = 0;
    s->labelled[s->rows] = 0;
    if (memchr(*p, ':', (size_t)(stop - *p)) == NULL) {
        *at = *p;
        code = svm_label(s, *p, stop);
        if (code != SVM_OK) return code;
        *p = stop;
        while (svm_is_space(**p)) (*p)++;
    }
    if (memcmp(*p, "qid:", 4) == 0) {
        stop = svm_token_stop(*p);
        code = svm_qid(s, *p, stop, at);
        if (code != SVM_OK) return code;
        *p = stop;
    }
    return SVM_OK;
}

/* The '\n' of the line whose content ends at *p; *at is where a carriage return stands that is not before it. */
static int svm_line_end(const unsigned char **p, const unsigned char *end,
                        const unsigned char **at) {
    const unsigned char *begin = *p, *lone;
    if (**p == '#') {
        *p = memchr(begin, '\n', (size_t)(end - begin));
        lone = memchr(begin, '\r', (size_t)(*p - begin));
        if (lone != NULL) *p = lone;
    }
    *at = *p;
    while (**p == '\r') (*p)++;
    return **p == '\n' ? SVM_OK : SVM_LONE_CR;
}

/* Scan whole lines, appending rows to *state; 0 or the code of the first error. Linear time, no allocation. */
static int svm_scan(svm_state *state, const unsigned char *text, int64_t length) {
    svm_state s =
        *state; /* a local copy: stores through the array pointers cannot alias its fields */
    const unsigned char *p = text, *end = text + length, *line = p, *stop, *at = p, *last;
    int code = SVM_OK;
    while (p < end) {
        int64_t previous = s.min_index - 1;
        line = p;
        while (svm_is_space(*p)) p++;
        if (!svm_is_end(*p)) {
            code = svm_row_head(&s, &p, &at);
            if (code != SVM_OK) goto failed;
            last = p;
            for (;;) {
                while (svm_is_space(*p)) p++;
                if (svm_is_end(*p)) break;
                last = p;
                stop = svm_common_entry(&s, p, &previous);
                if (SVM_LIKELY(stop != NULL)) {
                    p = stop;
                    continue;
                }
                stop = svm_token_stop(p);
                at = p;
                code = memcmp(p, "qid:", 4) == 0 ? SVM_QID_PLACE
                                                 : svm_entry(&s, p, stop, &previous, &at);
                if (code != SVM_OK) goto failed;
                p = stop;
            }
            s.rows++;
            s.indptr[s.rows] = s.nnz;
            if (previous > s.max_index && previous >= s.min_index) {
                s.max_index = previous;
                s.max_line = s.line + 1;
                s.max_column = last - line + 1;
            }
        }
        if (SVM_LIKELY(*p == '\n')) {
            p++;
        } else {
            code = svm_line_end(&p, end, &at);
            if (code != SVM_OK) goto failed;
            p++;
        }
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
static void svm_fill_dense(const int64_t *indptr, const int32_t *indices, const float *values,
                           int64_t rows, int64_t width, float *out) {
    int64_t i, j;
    for (i = 0; i < rows; i++, out += width)
        for (j = indptr[i]; j < indptr[i + 1]; j++)
            if (indices[j] < width) out[indices[j]] = values[j];
}

/* Drop entries at or beyond width, in place; the new number of entries. */
static int64_t svm_drop(int64_t *indptr, int32_t *indices, float *values, int64_t rows,
                        int64_t width) {
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
