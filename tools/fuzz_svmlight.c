/* Texts for the reader of LIBSVM files that libFuzzer makes; driven by fuzz_guided.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "svmtext.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static double to_double(const char *text) { return strtod(text, NULL); }

static void *room(size_t size) {
    void *p = malloc(size ? size : 1);
    if (!p) abort();
    return p;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    size_t length = size + 1, entries = length / 4, rows = length / 2; /* what the reader promises to need at most */
    unsigned char *text = room(length + SVM_PADDING);
    svm_state s;
    int64_t i;
    memcpy(text, data, size);
    text[size] = '\n'; /* the reader is given whole lines */
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
    if (svm_scan(&s, text, (int64_t)length) == SVM_OK) {
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
    return 0;
}
