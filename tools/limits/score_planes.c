/* Nanoseconds of a processor per row of labels of a linear machine, by all hyperplanes and by its certified exits.
 *
 *     score_planes repeat sparse model.mcb rows.bin
 *
 * sparse: 1 for the functions of sparse rows. rows.bin (written by tools/bench.py): int32 n, entries, then int32
 * begin[n + 1], uint32 index[entries], float value[entries]. The two take turns on every chunk of CHUNK rows. Prints a
 * line "name best median" for each: best and median of the passes for each chunk, averaged over the chunks; then the
 * hyperplanes evaluated, and the labels that differ. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mcb.h"

#define CHUNK 256

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void *whole(const char *name, size_t *size)
{
    FILE *file = fopen(name, "rb");
    void *p = 0;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        *size = (size_t)ftell(file);
        rewind(file);
        p = malloc(*size);
        if (p && fread(p, 1, *size, file) != *size)
            p = 0;
        fclose(file);
    }
    if (!p) {
        perror(name);
        exit(1);
    }
    return p;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static mcb_model m;
static const int32_t *begin;
static const uint32_t *place;
static const float *value;
static float *dense; /* null for sparse rows */
static double *scores;

static uint32_t label(size_t row, int early, uint64_t *planes)
{
    size_t first = (size_t)begin[row], n = (size_t)begin[row + 1] - first, d = m.n_features;
    uint32_t k;
    if (early && dense)
        mcb_predict_early(&m, MCB_EARLY_CERTIFIED, dense + row * d, scores, &k, planes);
    else if (early)
        mcb_predict_early_sparse(&m, n, place + first, value + first, scores, &k, planes);
    else if (dense)
        k = mcb_predict(&m, dense + row * d, scores);
    else
        mcb_scores_sparse(&m, n, place + first, value + first, scores), k = mcb_argmax(&m, scores);
    return k;
}

int main(int argc, char **argv)
{
    static const char *names[] = {"full", "early"};
    double total[2][2] = {{0, 0}, {0, 0}}, start, all = 0, prepared;
    if (argc != 5)
        return 1;
    int repeat = atoi(argv[1]), changed = 0;
    size_t size, bytes;
    void *file = whole(argv[3], &size);
    if (mcb_open(&m, file, size) || m.kind != MCB_KIND_LINEAR)
        return 1;
    int32_t *head = whole(argv[4], &bytes);
    size_t n = (size_t)head[0], entries = (size_t)head[1], d = m.n_features;
    begin = head + 2;
    place = (const uint32_t *)(begin + n + 1);
    value = (const float *)(place + entries);
    if (atoi(argv[2])) {
        mcb_prepare(&m, malloc(mcb_prepared_size(&m)), mcb_prepared_size(&m));
    } else {
        dense = calloc(n * d, sizeof *dense);
        for (size_t i = 0; i < n; i++) {
            for (int32_t e = begin[i]; e < begin[i + 1]; e++)
                dense[i * d + place[e]] = value[e];
        }
    }
    start = now();
    if (mcb_prepare_early(&m, malloc(mcb_early_size(&m)), mcb_early_size(&m)))
        return 1;
    prepared = now() - start;
    scores = malloc(m.n_classes * sizeof *scores);
    double *times[2] = {malloc((size_t)repeat * sizeof(double)), malloc((size_t)repeat * sizeof(double))};
    volatile uint32_t sum = 0;
    uint64_t planes = 0;
    for (size_t from = 0; from < n; from += CHUNK) {
        size_t end = from + CHUNK < n ? from + CHUNK : n;
        for (int pass = 0; pass < 2 * repeat; pass++) {
            start = now();
            for (size_t i = from; i < end; i++)
                sum += label(i, pass % 2, &planes);
            times[pass % 2][pass / 2] = now() - start;
        }
        for (size_t i = from; i < end; i++) {
            changed += label(i, 0, &planes) != label(i, 1, &planes);
            all += (double)planes;
        }
        for (int which = 0; which < 2; which++) {
            qsort(times[which], (size_t)repeat, sizeof(double), ascending);
            total[which][0] += times[which][0];
            total[which][1] += times[which][repeat / 2];
        }
    }
    for (int which = 0; which < 2; which++)
        printf("%s %.1f %.1f\n", names[which], total[which][0] / (double)n, total[which][1] / (double)n);
    printf("prepare %.1f\nplanes %.17g\nchanged %d\n", prepared, all / (double)n, changed);
    return 0;
}
