/* Percentiles of the time that rows take: mcb_scores of one row, and mcb_scores_batch of a few.
 *
 *     score_latency passes model.mcb rows.bin rows_a_call cold
 *
 * rows.bin (written by tools/bench.py): int32 n, d, then float rows[n,d]. With cold not 0, 8 MB of other memory are written
 * before each call. Prints "ns p50 p99 p99.9 least", nanoseconds a row: least is the median of the least time of each
 * row; all calls count in the others. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mcb.h"

enum { COLD = 8 << 20 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *whole(const char *name, size_t *size)
{
    FILE *file = fopen(name, "rb");
    if (!file)
        exit(2);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *p = malloc(*size);
    if (!p || fread(p, 1, *size, file) != *size)
        exit(2);
    fclose(file);
    return p;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 1;
    size_t passes = (size_t)atoi(argv[1]), group = (size_t)atoi(argv[4]), size, rows_size, p, r;
    int cold = atoi(argv[5]);
    void *bytes = whole(argv[2], &size);
    unsigned char *head = whole(argv[3], &rows_size), *other = malloc(COLD);
    int32_t n, d;
    memcpy(&n, head, 4);
    memcpy(&d, head + 4, 4);
    const float *rows = (const float *)(head + 8);
    mcb_model model;
    if (mcb_open(&model, bytes, size) != MCB_OK)
        return 2;
    void *memory = malloc(mcb_prepared_size(&model) + 1);
    if (!memory || mcb_prepare(&model, memory, mcb_prepared_size(&model)) != MCB_OK)
        return 2;
    size_t calls = (size_t)n / group;
    double *times = malloc(calls * passes * sizeof *times), *best = malloc(calls * sizeof *best);
    double *scores = malloc(group * model.n_classes * sizeof *scores);
    for (p = 0; p < passes; p++) {
        for (r = 0; r < calls; r++) {
            const float *x = rows + r * group * (size_t)d;
            if (cold)
                memset(other, (int)p, COLD);
            double start = now();
            if (group == 1)
                mcb_scores(&model, x, scores);
            else
                mcb_scores_batch(&model, x, group, (size_t)d, scores);
            double taken = (now() - start) / (double)group;
            times[p * calls + r] = taken;
            if (p == 0 || taken < best[r])
                best[r] = taken;
        }
    }
    qsort(times, calls * passes, sizeof *times, ascending);
    qsort(best, calls, sizeof *best, ascending);
    printf("ns %.1f %.1f %.1f %.1f\n", times[calls * passes / 2], times[calls * passes * 99 / 100],
           times[calls * passes * 999 / 1000], best[calls / 2]);
    return 0;
}
