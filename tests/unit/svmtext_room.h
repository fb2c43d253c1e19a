/* One text through the reader of LIBSVM files, in buffers of exactly the size that the reader promises to need at most.
 * What it breaks ends the process. */
#include <stdlib.h>
#include <string.h>

#include "svmtext.h"

static double to_double(const char *text) {
    return strtod(text, NULL);
}

static void *room(size_t size) {
    void *p = malloc(size ? size : 1);
    if (!p) abort();
    return p;
}

/* The code of whole lines, whose bytes are copied. */
static int scan_text(const unsigned char *lines, size_t length) {
    size_t entries = length / 4, rows = length / 2;
    unsigned char *text = (unsigned char *)room(length + SVM_PADDING);
    svm_state s;
    int64_t i;
    int code;
    memcpy(text, lines, length);
    memset(text + length, '7', SVM_PADDING);
    memset(&s, 0, sizeof s);
    s.to_double = to_double;
    s.max_index = -1;
    s.indices = room(entries * sizeof *s.indices);
    s.values = room(entries * sizeof *s.values);
    s.indptr = room((rows + 1) * sizeof *s.indptr);
    s.labels = room(rows * sizeof *s.labels);
    s.labelled = room(rows);
    s.indptr[0] = 0;
    code = svm_scan(&s, text, (int64_t)length);
    if (code == SVM_OK) {
        float *dense = calloc((size_t)s.rows * 3 + 1, sizeof *dense);
        if (!dense || s.rows < 0 || (size_t)s.rows > rows) abort();
        for (i = 0; i < s.rows; i++)
            if (s.indptr[i] > s.indptr[i + 1]) abort();
        svm_fill_dense(s.indptr, s.indices, s.values, s.rows, 3, dense);
        if (svm_drop(s.indptr, s.indices, s.values, s.rows, 3) > s.rows * 3) abort();
        free(dense);
    }
    free(s.indices);
    free(s.values);
    free(s.indptr);
    free(s.labels);
    free(s.labelled);
    free(text);
    return code;
}
