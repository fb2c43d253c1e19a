/* A real-time scorer: rows of float32 come in on standard input, labels go out, and times are measured.
 *
 *     stream MODEL.mcb early <rows      stop as soon as the early exit allows
 *     stream MODEL.mcb all <rows        score all trees
 *
 * All memory is static. Each line of output has the label of a row and the number of trees that were used. The times go
 * to standard error. */
#include "mcb.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BYTES (4u << 20)    /* of the model file */
#define MAX_PREPARED (8u << 20) /* about twice the size of the file */
#define MAX_FEATURES 256
#define MAX_CLASSES 64
#define MAX_ROWS 100000

static unsigned char bytes[MAX_BYTES];
static union {
    double align;
    unsigned char bytes[MAX_PREPARED];
} prepared;
static float row[MAX_FEATURES];
static double scores[MAX_CLASSES];
static double times[MAX_ROWS];

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

static double microseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_label(const mcb_model *model, uint32_t k, uint64_t trees) {
    size_t length;
    const char *text = mcb_label_text(model, k, &length); /* null if labels are integers */
    if (text)
        printf("%.*s", (int)length, text);
    else
        printf("%lld", (long long)mcb_label_int(model, k));
    printf(" %llu\n", (unsigned long long)trees);
}

int main(int argc, char **argv) {
    if (argc != 3) return fail("usage", "stream MODEL.mcb early|all <rows");
    int early = strcmp(argv[2], "early") == 0;
    FILE *file = fopen(argv[1], "rb");
    if (!file) return fail(argv[1], "cannot be opened");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    int is_larger = fgetc(file) != EOF;
    fclose(file);
    if (is_larger) return fail(argv[1], "is larger than MAX_BYTES");

    mcb_model model;
    int status = mcb_open(&model, bytes, size);
    if (status != MCB_OK) return fail(argv[1], mcb_strerror(status));
    if (model.n_features > MAX_FEATURES || model.n_classes > MAX_CLASSES)
        return fail(argv[1], "too many features or classes for this program");
    if (early && !mcb_has_early(&model, MCB_EARLY_CALIBRATED))
        return fail(argv[1], "the model has no calibrated early exit");
    if (mcb_prepared_size(&model) > sizeof prepared.bytes)
        return fail(argv[1], "needs more than MAX_PREPARED");
    mcb_prepare(&model, prepared.bytes, sizeof prepared.bytes);

    size_t n = 0;
    while (n < MAX_ROWS && fread(row, sizeof *row, model.n_features, stdin) == model.n_features) {
        uint32_t k = 0;
        uint64_t trees = model.n_learners;
        double start = microseconds();
        if (early)
            mcb_predict_early(&model, MCB_EARLY_CALIBRATED, row, scores, &k, &trees);
        else
            k = mcb_predict(&model, row, scores);
        times[n++] = microseconds() - start;
        print_label(&model, k, trees);
    }
    if (!n) return fail("standard input", "has no rows");
    qsort(times, n, sizeof *times, compare);
    fprintf(stderr, "%zu rows: median %.1f us, 99%% below %.1f us, maximum %.1f us\n", n,
            times[n / 2], times[n * 99 / 100], times[n - 1]);
    return 0;
}
