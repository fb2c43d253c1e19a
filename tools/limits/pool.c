/* What the pool of threads costs: jobs of pieces that do nothing, and jobs whose pieces meet.
 *
 * Built by tools/bench.py as a shared library. Each function writes the nanoseconds of every job to `ns`. */
#define _POSIX_C_SOURCE 200112L
#include "pool.h"
#include <time.h>

static void nothing(void *what, int64_t piece, int thread) {
    (void)what;
    (void)piece;
    (void)thread;
}

/* Pieces that wait until all of them have begun. */
static void meet(void *what, int64_t piece, int thread) {
    int64_t *missing = what;
    (void)piece;
    (void)thread;
    __atomic_sub_fetch(missing, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(missing, __ATOMIC_ACQUIRE) > 0) PMB_PAUSE();
}

/* Jobs of so many pieces by two threads, which nobody waits for. */
void pool_empty(long pieces, long jobs, double *ns) {
    for (long j = 0; j < jobs; j++) {
        int64_t start = pmb_now_ns();
        pmb_the_pool.run(2, pieces, nothing, NULL);
        ns[j] = (double)(pmb_now_ns() - start);
    }
}

/* Jobs of two pieces that begin when both threads are there, each after a pause of so many nanoseconds. */
void pool_meet(long pause, long jobs, double *ns) {
    struct timespec rest = {0, pause};
    for (long j = 0; j < jobs; j++) {
        int64_t missing = 2, start;
        if (pause) nanosleep(&rest, NULL);
        start = pmb_now_ns();
        pmb_the_pool.run(2, 2, meet, &missing);
        ns[j] = (double)(pmb_now_ns() - start);
    }
}

/* Two threads that take turns. */
typedef struct {
    int64_t missing, n;
    char apart[64];
    int64_t turn;
    char behind[56];
} turns;

static void take_turns(void *what, int64_t piece, int thread) {
    turns *t = what;
    meet(&t->missing, piece, thread);
    for (int64_t turn = piece; turn < 2 * t->n; turn += 2) {
        while (__atomic_load_n(&t->turn, __ATOMIC_ACQUIRE) != turn) PMB_PAUSE();
        __atomic_store_n(&t->turn, turn + 1, __ATOMIC_RELEASE);
    }
}

/* Jobs of two threads that have n turns each: a cache line moves back and forth between them. */
void pool_turns(long n, long jobs, double *ns) {
    for (long j = 0; j < jobs; j++) {
        turns t = {2, n, {0}, 0, {0}};
        int64_t start = pmb_now_ns();
        pmb_the_pool.run(2, 2, take_turns, &t);
        ns[j] = (double)(pmb_now_ns() - start);
    }
}

/* Sums of n numbers that are taken from one table to another, as shares of a histogram are. */
void pool_merge(long n, long jobs, double *ns) {
    static int32_t to[1 << 16], from[1 << 16];
    for (long j = 0; j < jobs; j++) {
        int64_t start = pmb_now_ns();
        for (long i = 0; i < n; i++) {
            to[i] += from[i];
            from[i] = 0;
        }
        __asm__ volatile("" ::: "memory");
        ns[j] = (double)(pmb_now_ns() - start);
    }
}
