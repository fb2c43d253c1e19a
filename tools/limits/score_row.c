/* Nanoseconds per row of scoring rows one at a time: mcb.h on a stump list and on an interval table, and a plain loop.
 *
 *     score_row stumps.bin list.mcb interval.mcb repeat
 *
 * stumps.bin (written by tools/bench.py): int32 M, K, d, n; then feature int32[M], threshold float[M], right float[M,K]
 * (left is its negative), bias float[K], rows float[n,d]. Prints a line "name best median" per scorer, see take_turns;
 * then the largest difference between the scores. */
#define CLOCK CLOCK_MONOTONIC
#include "timing.h"

#include <math.h>

static int32_t M, K, d, n;
static const int32_t *feature;
static const float *threshold, *right, *bias, *rows;
static mcb_model model[2];
static double *scores[3];

/* What anyone would write first. */
static void naive(size_t row) {
    const float *x = rows + row * (size_t)d;
    double *its = scores[0] + row * (size_t)K;
    for (int k = 0; k < K; k++) its[k] = bias[k];
    for (int t = 0; t < M; t++) {
        float h = x[feature[t]] <= threshold[t] ? -1.0f : 1.0f;
        for (int k = 0; k < K; k++) its[k] += h * right[(size_t)t * (size_t)K + (size_t)k];
    }
}

static void by_list(size_t row) {
    mcb_scores(&model[0], rows + row * (size_t)d, scores[1] + row * (size_t)K);
}

static void by_table(size_t row) {
    mcb_scores(&model[1], rows + row * (size_t)d, scores[2] + row * (size_t)K);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"naive", "list", "interval"};
    static void (*const score[])(size_t) = {naive, by_list, by_table};
    size_t size;
    double worst = 0;
    if (argc != 5) return 1;
    const int32_t *head = whole(argv[1], &size);
    M = head[0], K = head[1], d = head[2], n = head[3];
    feature = head + 4;
    threshold = (const float *)(feature + M);
    right = threshold + M;
    bias = right + (size_t)M * (size_t)K;
    rows = bias + K;
    if ((const char *)(rows + (size_t)n * (size_t)d) != (const char *)head + size)
        give_up("stumps.bin has another size than it says");
    for (int which = 0; which < 3; which++) {
        if (which) open_model(&model[which - 1], argv[1 + which]);
        scores[which] = malloc(sizeof(double) * (size_t)n * (size_t)K);
    }
    take_turns(names, score, 3, (size_t)n, atoi(argv[4]));
    for (size_t j = 0; j < (size_t)(n / CHUNK * CHUNK * K); j++)
        for (int which = 1; which < 3; which++)
            if (!(fabs(scores[which][j] - scores[0][j]) <= worst))
                worst = fabs(scores[which][j] - scores[0][j]);
    printf("difference %.3g\n", worst);
    return 0;
}
