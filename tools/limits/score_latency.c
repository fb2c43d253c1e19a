/* Percentiles of the time that rows take: mcb_scores of one row, and mcb_scores_batch of a few.
 *
 *     score_latency passes model.mcb rows.bin rows_a_call cold threads
 *
 * rows.bin (written by tools/bench.py): int32 n, d, then float rows[n,d]. With cold not 0, 8 MB of other memory are
 * written before each call; otherwise one pass goes before, untimed. Prints "ns p50 p99 p99.9 least over", nanoseconds a
 * row: least is the median of the least time of each row; over is the share of calls that took more than 3 times p50; all
 * calls of all threads count. "empty" has the same numbers of a loop that takes about as long as a call and needs no
 * memory, after each call: what is over there, too, is the machine's. */
#define CLOCK CLOCK_MONOTONIC
#include "timing.h"

#include <pthread.h>

enum { COLD = 8 << 20, MOST_COLD = 256, MOST = 64 };

/* What a thread times: its own calls, with its own scores and its own memory to write to. */
typedef struct {
    const mcb_model *model;
    const float *rows;
    size_t calls, passes, group, d;
    int cold;
    double *times, *empty; /* (passes, calls) */
} job;

/* About 1 ns a step or more, and no memory but a word on the stack. */
static void spin(size_t steps) {
    volatile size_t step;
    for (step = 0; step < steps; step++) {
    }
}

/* Steps of a loop that takes as long as a call: from the least of some runs of both. */
static size_t steps_of(const mcb_model *model, const float *x, size_t group, size_t d,
                       double *scores) {
    double call = 1e18, loop = 1e18, start, took;
    enum { STEPS = 10000, TIMES = 200 };
    for (int i = 0; i < TIMES; i++) {
        start = now();
        mcb_scores_batch(model, x, group, d, scores);
        took = now() - start;
        call = took < call ? took : call;
        start = now();
        spin(STEPS);
        took = now() - start;
        loop = took < loop ? took : loop;
    }
    return (size_t)(call / loop * STEPS) + 1;
}

static void *timed(void *argument) {
    const job *j = argument;
    unsigned char *other = malloc(COLD);
    double *scores = malloc(j->group * j->model->n_classes * sizeof *scores);
    if (!other || !scores) exit(2);
    size_t steps = steps_of(j->model, j->rows, j->group, j->d, scores), before = j->cold ? 0 : 1;
    for (size_t p = 0; p < j->passes + before; p++) {
        for (size_t r = 0; r < j->calls; r++) {
            size_t at = (p < before ? 0 : p - before) * j->calls + r;
            const float *x = j->rows + r * j->group * j->d;
            if (j->cold) memset(other, (int)p, COLD);
            double start = now();
            if (j->group == 1)
                mcb_scores(j->model, x, scores);
            else
                mcb_scores_batch(j->model, x, j->group, j->d, scores);
            j->times[at] = (now() - start) / (double)j->group;
            start = now();
            spin(steps);
            j->empty[at] = (now() - start) / (double)j->group;
        }
    }
    free(other);
    free(scores);
    return NULL;
}

/* A line of percentiles of (passes, calls) times. */
static void print(const char *name, double *times, double *best, size_t calls, size_t passes) {
    size_t all = passes * calls, over = all;
    for (size_t r = 0; r < calls; r++) {
        best[r] = times[r];
        for (size_t p = 1; p < passes; p++)
            if (times[p * calls + r] < best[r]) best[r] = times[p * calls + r];
    }
    qsort(times, all, sizeof *times, ascending);
    qsort(best, calls, sizeof *best, ascending);
    while (over && times[over - 1] > 3 * times[all / 2]) over--;
    printf("%s %.1f %.1f %.1f %.1f %.6f\n", name, times[all / 2], times[all * 99 / 100],
           times[all * 999 / 1000], best[calls / 2], (double)(all - over) / (double)all);
}

int main(int argc, char **argv) {
    if (argc != 7) return 1;
    size_t passes = (size_t)atoi(argv[1]), group = (size_t)atoi(argv[4]),
           threads = (size_t)atoi(argv[6]);
    int32_t n, d;
    const float *rows = rows_of(argv[3], &n, &d);
    mcb_model model;
    if (threads < 1 || threads > MOST) return 2;
    open_model(&model, argv[2]);
    size_t calls = (size_t)n / group, all;
    int cold = atoi(argv[5]);
    if (cold && calls > MOST_COLD) calls = MOST_COLD;
    all = calls * passes * threads;
    double *times = malloc(all * sizeof *times), *empty = malloc(all * sizeof *empty);
    double *best = malloc(calls * sizeof *best);
    if (!times || !empty || !best) return 2;
    job one = {&model, rows, calls, passes, group, (size_t)d, cold, times, empty};
    job jobs[MOST];
    pthread_t started[MOST];
    for (size_t t = 0; t < threads; t++) {
        jobs[t] = one;
        jobs[t].times = times + t * calls * passes;
        jobs[t].empty = empty + t * calls * passes;
        if (t && pthread_create(&started[t], NULL, timed, &jobs[t])) return 2;
    }
    timed(&jobs[0]);
    for (size_t t = 1; t < threads; t++) pthread_join(started[t], NULL);
    print("ns", times, best, calls, passes * threads);
    print("empty", empty, best, calls, passes * threads);
    return 0;
}
