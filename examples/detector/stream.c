/* A real-time scorer: rows of float32 come in on standard input, labels go out, and times are measured.
 *
 *     stream MODEL.mcb <rows
 *
 * All memory is static, so nothing is allocated after the start. Each line of output has the label of a row and the
 * number of trees that were needed. The times go to standard error. */
#include "mcb.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_BYTES (4u << 20) /* of the model file */
#define MAX_FEATURES 256
#define MAX_CLASSES 64
#define MAX_ROWS 100000

static unsigned char bytes[MAX_BYTES];
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

int main(int argc, char **argv) {
    if (argc != 2) return fail("usage", "stream MODEL.mcb <rows");
    FILE *file = fopen(argv[1], "rb");
    if (!file) return fail(argv[1], "cannot be opened");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);

    mcb_model model;
    int status = mcb_open(&model, bytes, size);
    if (status != MCB_OK) return fail(argv[1], mcb_strerror(status));
    if (model.n_features > MAX_FEATURES || model.n_classes > MAX_CLASSES)
        return fail(argv[1], "too many features or classes for this program");
    if (!mcb_has_early(&model, MCB_EARLY_CALIBRATED))
        return fail(argv[1], "the model has no calibrated early exit");

    size_t n = 0;
    while (n < MAX_ROWS && fread(row, sizeof *row, model.n_features, stdin) == model.n_features) {
        uint32_t k;
        uint64_t trees;
        double start = microseconds();
        status = mcb_predict_early(&model, MCB_EARLY_CALIBRATED, row, scores, &k, &trees);
        times[n++] = microseconds() - start;
        if (status != MCB_OK) return fail("row", mcb_strerror(status));
        printf("%lld %llu\n", (long long)mcb_label_int(&model, k), (unsigned long long)trees);
    }
    if (!n) return fail("standard input", "has no rows");
    qsort(times, n, sizeof *times, compare);
    fprintf(stderr, "%zu rows, median %.1f us, 99%% below %.1f us\n", n, times[n / 2],
            times[n * 99 / 100]);
    return 0;
}
