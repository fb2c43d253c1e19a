/* Scans texts from standard input (32-bit length, then bytes) in buffers of exactly the promised size; prints codes. */
#include <stdio.h>
#include <stdlib.h>

#include "svmtext.h"

static double to_double(const char *text) { return strtod(text, NULL); }

static void *room(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (p == NULL)
        exit(3);
    return p;
}

int main(void)
{
    uint32_t length;
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        unsigned char *text = room(length + SVM_PADDING);
        size_t entries = length / 4, rows = length / 2;
        svm_state s;
        float *dense;
        int code;
        if (fread(text, 1, length, stdin) != length)
            return 2;
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
        code = svm_scan(&s, text, length);
        printf("%d\n", code);
        if (code == SVM_OK) {
            dense = calloc((size_t)s.rows * 3 + 1, sizeof *dense);
            if (dense == NULL)
                return 3;
            svm_fill_dense(s.indptr, s.indices, s.values, s.rows, 3, dense);
            if (svm_drop(s.indptr, s.indices, s.values, s.rows, 3) > s.rows * 3)
                return 4;
            free(dense);
        }
        free(s.indices);
        free(s.values);
        free(s.indptr);
        free(s.labels);
        free(s.labelled);
        free(text);
    }
    return 0;
}
