/* A caller whose helpers are slow works alone for a while, and then tries them again. Prints 1 for each. */
#define PMB_TRIAL_NS 1000000
#include "pool.h"
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 2, PIECES = 8, MOST_TRIALS = 200 };

static int of_helpers;

/* A helper sleeps as if other processes had the CPU. */
static void slow(void *of, int64_t piece, int thread) {
    (void)of, (void)piece;
    if (thread) __atomic_add_fetch(&of_helpers, 1, __ATOMIC_RELAXED);
    usleep(thread ? 20000 : 100);
}

static int helpers_of_a_job(void) {
    of_helpers = 0;
    pmb_the_pool.run(THREADS, PIECES, slow, NULL);
    return of_helpers;
}

int main(void) {
    int alone = 0, again = 0;
    /* Until a helper has come and was found too slow. */
    for (int j = 0; j < MOST_TRIALS && !alone; j++)
        if (helpers_of_a_job()) alone = !helpers_of_a_job();
    for (int j = 0; j < MOST_TRIALS && !again; j++) {
        usleep(20000);
        again = helpers_of_a_job() > 0;
    }
    printf("%d %d\n", alone, again);
    return !(alone && again);
}
