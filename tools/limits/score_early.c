/* Nanoseconds of a processor per row of scoring rows one at a time, by all learners and by an early exit.
 *
 *     score_early repeat way model.mcb rows.bin
 *
 * way: a number of enum mcb_early. rows.bin (written by tools/bench.py): int32 n, d, then float rows[n,d]. The two take
 * turns on every chunk of CHUNK rows. Prints a line "name best median" for each: best and median of the passes for each
 * chunk, averaged over the chunks. */
#include "timing.h"

int main(int argc, char **argv) {
    static const char *names[] = {"full", "early"};
    double total[2][2] = {{0, 0}, {0, 0}};
    if (argc != 5) return 1;
    int repeat = atoi(argv[1]), way = atoi(argv[2]);
    mcb_model m;
    int32_t rows, width;
    open_model(&m, argv[3]);
    if (!mcb_has_early(&m, way)) return 1;
    const float *x = rows_of(argv[4], &rows, &width);
    size_t n = (size_t)rows, d = (size_t)width;
    double *scores = malloc(m.n_classes * sizeof *scores);
    double *times[2] = {malloc((size_t)repeat * sizeof(double)),
                        malloc((size_t)repeat * sizeof(double))};
    volatile uint32_t sum = 0;
    for (size_t begin = 0; begin < n; begin += CHUNK) {
        size_t end = begin + CHUNK < n ? begin + CHUNK : n;
        for (int pass = 0; pass < 2 * repeat; pass++) {
            double start = now();
            for (size_t i = begin; i < end; i++) {
                uint32_t label = 0;
                uint64_t learners;
                if (pass % 2)
                    mcb_predict_early(&m, way, x + i * d, scores, &label, &learners);
                else
                    label = mcb_predict(&m, x + i * d, scores);
                sum += label;
            }
            times[pass % 2][pass / 2] = now() - start;
        }
        for (int which = 0; which < 2; which++) {
            qsort(times[which], (size_t)repeat, sizeof(double), ascending);
            total[which][0] += times[which][0];
            total[which][1] += times[which][repeat / 2];
        }
    }
    for (int which = 0; which < 2; which++)
        printf("%s %.1f %.1f\n", names[which], total[which][0] / (double)n,
               total[which][1] / (double)n);
    return 0;
}
