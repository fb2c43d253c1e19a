/* Nanoseconds per row of scoring rows one at a time: mcb.h, and LightGBM's C interface for single rows.
 *
 *     score_trees repeat model.mcb rows.bin [lib_lightgbm.so model.txt]
 *
 * Prints a line "name best median" per scorer, see take_turns. */
#define CLOCK CLOCK_MONOTONIC
#include "timing.h"

#include "libraries.h"

static mcb_model model;
static void *fast;
static int32_t n, d;
static const float *rows;
static double scores[65536];

static void by_ours(size_t row) {
    mcb_scores(&model, rows + row * (size_t)d, scores);
}

static void by_lightgbm(size_t row) {
    int64_t length;
    light(fast, rows + row * (size_t)d, &length, scores);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"ours", "LightGBM"};
    static void (*const score[])(size_t) = {by_ours, by_lightgbm};
    if (argc != 4 && argc != 6) return 1;
    open_model(&model, argv[2]);
    rows = rows_of(argv[3], &n, &d);
    if (argc == 6) fast = open_lightgbm(argv[5], argv[4], d);
    take_turns(names, score, argc == 6 ? 2 : 1, (size_t)n, atoi(argv[1]));
    return 0;
}
