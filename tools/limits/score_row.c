/* Nanoseconds per row of scoring rows one at a time: mcb.h on a stump list and on an interval table, and a plain loop.
 *
 *     score_row stumps.bin list.mcb interval.mcb repeat
 *
 * stumps.bin (written by tools/bench.py): int32 M, K, d, n; then feature int32[M], threshold float[M], right float[M,K]
 * (left is its negative), bias float[K], rows float[n,d]. Scorers take turns on every chunk of CHUNK rows, so that a change
 * of clock or load meets all of them. Prints a line "name best median" per scorer, nanoseconds per row: best and median of
 * the passes for each chunk, averaged over the chunks; then the largest difference between the scores. */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mcb.h"

#define CHUNK 256

static int32_t M, K, d, n;
static int32_t *feature;
static float *threshold, *right, *bias, *rows;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(FILE *file, size_t count, size_t size)
{
    void *p = malloc(count * size);
    if (!p || fread(p, size, count, file) != count) {
        fprintf(stderr, "stumps.bin is too short\n");
        exit(1);
    }
    return p;
}

static void *whole(const char *name, size_t *size)
{
    FILE *file = fopen(name, "rb");
    if (!file) {
        perror(name);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *p = take(file, *size, 1);
    fclose(file);
    return p;
}

/* What anyone would write first. */
static void naive(const float *x, double *scores)
{
    for (int k = 0; k < K; k++)
        scores[k] = bias[k];
    for (int t = 0; t < M; t++) {
        float h = x[feature[t]] <= threshold[t] ? -1.0f : 1.0f;
        for (int k = 0; k < K; k++)
            scores[k] += h * right[(size_t)t * K + k];
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 1;
    FILE *file = fopen(argv[1], "rb");
    if (!file)
        return 1;
    int32_t *head = take(file, 4, 4);
    M = head[0];
    K = head[1];
    d = head[2];
    n = head[3];
    feature = take(file, (size_t)M, 4);
    threshold = take(file, (size_t)M, 4);
    right = take(file, (size_t)M * K, 4);
    bias = take(file, (size_t)K, 4);
    rows = take(file, (size_t)n * d, 4);
    fclose(file);
    mcb_model model[2];
    for (int which = 0; which < 2; which++) {
        size_t size;
        void *bytes = whole(argv[2 + which], &size);
        int status = mcb_open(&model[which], bytes, size);
        if (status != MCB_OK) {
            fprintf(stderr, "%s: %s\n", argv[2 + which], mcb_strerror(status));
            return 1;
        }
    }
    int repeat = atoi(argv[4]);
    int chunks = n / CHUNK;
    if (repeat < 1 || chunks < 1)
        return 1;
    const char *names[3] = {"naive", "list", "interval"};
    double *scores[3], *taken = malloc(sizeof(double) * 3 * (size_t)chunks * (size_t)repeat);
    for (int which = 0; which < 3; which++)
        scores[which] = malloc(sizeof(double) * (size_t)n * K);
    for (int pass = -1; pass < repeat; pass++)
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int which = 0; which < 3; which++) {
                double start = now();
                for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++) {
                    const float *x = rows + (size_t)i * d;
                    double *F = scores[which] + (size_t)i * K;
                    if (which)
                        mcb_scores(&model[which - 1], x, F);
                    else
                        naive(x, F);
                }
                if (pass >= 0)
                    taken[(which * chunks + chunk) * repeat + pass] = (now() - start) / CHUNK * 1e9;
            }
    double worst = 0;
    for (int which = 0; which < 3; which++) {
        double best = 0, median = 0;
        for (int chunk = 0; chunk < chunks; chunk++) {
            double *passes = taken + (which * chunks + chunk) * repeat;
            qsort(passes, (size_t)repeat, sizeof(double), ascending);
            best += passes[0] / chunks;
            median += passes[repeat / 2] / chunks;
        }
        printf("%s %.3f %.3f\n", names[which], best, median);
        for (int j = 0; j < chunks * CHUNK * K; j++)
            if (!(fabs(scores[which][j] - scores[0][j]) <= worst))
                worst = fabs(scores[which][j] - scores[0][j]);
    }
    printf("difference %.3g\n", worst);
    return 0;
}
