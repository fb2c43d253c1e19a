/* Several callers at a time have jobs done by the pool of the kernels, and wait inside of some. Prints the sums of all
 * pieces. */
#define PMB_TRIAL_NS (INT64_MAX / 2) /* nobody works alone: some pieces wait for others */
#include "pool.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 5, CALLERS = 3, JOBS = 300, PIECES = 40 };

typedef struct {
    int64_t sum, done;
    int busy[THREADS]; /* by thread: nobody else has its number at the same time */
} work;

static int failed;

static void piece(void *of, int64_t at, int thread) {
    work *w = of;
    if (thread < 0 || thread >= THREADS ||
        __atomic_exchange_n(w->busy + thread, 1, __ATOMIC_ACQ_REL))
        failed = 1;
    __atomic_add_fetch(&w->sum, at, __ATOMIC_RELAXED);
    __atomic_store_n(w->busy + thread, 0, __ATOMIC_RELEASE);
}

/* Even pieces wait until an odd one has been done. */
static void waiting(void *of, int64_t at, int thread) {
    work *w = of;
    if (at % 2 == 0) {
        for (int64_t seen = pmb_the_pool.seen(); !__atomic_load_n(&w->done, __ATOMIC_ACQUIRE);
             seen = pmb_the_pool.seen())
            pmb_the_pool.wait(seen);
    } else {
        __atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
        pmb_the_pool.tell();
    }
    piece(of, at, thread);
}

/* Whether there are helpers: nobody else would do what a piece waits for. */
static int pmb_helps(void) {
    return __atomic_load_n(&pmb_pool.helpers, __ATOMIC_RELAXED) > 0;
}

static void *call(void *seed) {
    int64_t *sum = seed;
    *sum = 0;
    for (int j = 0; j < JOBS; j++) {
        work w = {0, 0, {0}};
        int plain = j % 7 > 0;
        if (j % 50 == 0) usleep(300); /* the helpers go to sleep */
        if (plain)
            pmb_the_pool.run(1 + j % THREADS, PIECES, piece, &w);
        else {
            w.done = j % 2; /* else the first piece waits for a helper to do the second one */
            if (!pmb_helps()) w.done = 1;
            pmb_the_pool.run(2, 2, waiting, &w);
        }
        int64_t expected = plain ? PIECES * (PIECES - 1) / 2 : 1;
        if (w.sum != expected) failed = 1;
        *sum += w.sum;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[CALLERS];
    int64_t sums[CALLERS];
    int status = 1;
    for (int j = 0; j < CALLERS; j++) pthread_create(threads + j, NULL, call, sums + j);
    for (int j = 0; j < CALLERS; j++) pthread_join(threads[j], NULL);
    pid_t child = fork(); /* which begins without helpers */
    if (child == 0) {
        call(sums);
        _exit(failed);
    }
    waitpid(child, &status, 0);
    printf("%lld %lld %lld %d %d\n", (long long)sums[0], (long long)sums[1], (long long)sums[2],
           failed, status);
    return failed;
}
