/* Score rows with a saved model: the whole of what a C program needs.
 *
 *     example MODEL.mcb ROWS [ROUNDS]
 *
 * ROWS holds float32 numbers, n_features for each row. Prints for each row the label, the scores and, if the model has
 * a link, the probabilities, as hexadecimal floating-point numbers, which lose no bit. */
#include "mcb.h"

#include <stdio.h>
#include <stdlib.h>

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = 0;
    long end;
    if (file && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) >= 0) {
        rewind(file);
        bytes = (unsigned char *)malloc((size_t)end + 1);
        *size = bytes ? fread(bytes, 1, (size_t)end, file) : 0;
    }
    if (file) fclose(file);
    return bytes;
}

/* A linear model gives the same scores for the features that are not 0: 0 if so. */
static int same_without_zeros(const mcb_model *model, const float *row, const double *scores) {
    uint32_t *index = (uint32_t *)malloc(model->n_features * sizeof *index), j;
    float *value = (float *)malloc(model->n_features * sizeof *value);
    double *sparse = (double *)malloc(model->n_classes * sizeof *sparse);
    size_t n = 0;
    int differ = 1;
    if (index && value && sparse) {
        for (j = 0; j < model->n_features; j++) {
            if (row[j] == 0) continue;
            index[n] = j;
            value[n++] = row[j];
        }
        differ = mcb_scores_sparse(model, n, index, value, sparse) != MCB_OK ||
                 memcmp(sparse, scores, model->n_classes * sizeof *sparse) != 0;
    }
    free(index);
    free(value);
    free(sparse);
    return differ;
}

int main(int argc, char **argv) {
    mcb_model model;
    size_t size = 0, rows_size = 0, n_rows, r, k, length;
    void *bytes;
    float *rows;
    double *scores, *one;
    void *memory;
    int status;
    if (argc < 3) {
        fprintf(stderr, "usage: example MODEL.mcb ROWS [ROUNDS]\n");
        return 1;
    }
    bytes = read_file(argv[1], &size);
    rows = (float *)read_file(argv[2], &rows_size);
    if (!bytes || !rows) {
        fprintf(stderr, "cannot read the files\n");
        return 1;
    }
    status = mcb_open(&model, bytes, size);
    if (status == MCB_OK && argc > 3) status = mcb_truncate_rounds(&model, (uint64_t)atol(argv[3]));
    if (status != MCB_OK) {
        fprintf(stderr, "%s: %s (section %s, byte %lu)\n", argv[1], mcb_strerror(status),
                model.error_tag, (unsigned long)model.error_offset);
        return 1;
    }
    memory = malloc(mcb_prepared_size(&model) +
                    1); /* one more, since malloc(0) may give a null pointer */
    if (!memory || mcb_prepare(&model, memory, mcb_prepared_size(&model)) != MCB_OK) return 1;
    n_rows = rows_size / (sizeof(float) * model.n_features);
    scores = (double *)malloc((n_rows + 1) * model.n_classes * sizeof *scores);
    one = (double *)malloc(model.n_classes * sizeof *one);
    if (!scores || !one) return 1;
    mcb_scores_batch(&model, rows, n_rows, model.n_features, scores);
    for (r = 0; r < n_rows; r++) {
        uint32_t best = mcb_predict(&model, rows + r * model.n_features, one);
        const char *text = mcb_label_text(&model, best, &length);
        if (memcmp(one, scores + r * model.n_classes, model.n_classes * sizeof *one) != 0) {
            fprintf(stderr, "row %lu: one row and many rows differ\n", (unsigned long)r);
            return 1;
        }
        if (model.kind == MCB_KIND_LINEAR &&
            same_without_zeros(&model, rows + r * model.n_features, one)) {
            fprintf(stderr, "row %lu: with and without its zeros differ\n", (unsigned long)r);
            return 1;
        }
        if (text)
            printf("%.*s", (int)length, text);
        else
            printf("%lld", (long long)mcb_label_int(&model, best));
        for (k = 0; k < model.n_classes; k++) printf(" %a", one[k]);
        if (mcb_has_probabilities(&model)) {
            mcb_probabilities(&model, one);
            for (k = 0; k < model.n_classes; k++) printf(" %a", one[k]);
        }
        printf("\n");
    }
    free(memory);
    free(bytes);
    free(rows);
    free(scores);
    free(one);
    return 0;
}
