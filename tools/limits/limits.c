/* How fast this machine is while a benchmark runs: each function returns the seconds that its loop took.
 *
 * Built by tools/bench.py as a shared library with the widest vectors of the CPU. */
#define _POSIX_C_SOURCE 200112L
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef float v64 __attribute__((vector_size(64)));

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* n dependent register additions, one cycle each; -1 where the instruction is not written down here. */
double lim_clock(long n) {
#if defined(__x86_64__) || defined(__aarch64__)
    uint64_t x = 1, one = 1;
    double start = now();
    for (long i = 0; i < n; i += 8) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
#if defined(__x86_64__)
            __asm__ volatile("add %1, %0" : "+r"(x) : "r"(one));
#else
            __asm__ volatile("add %0, %0, %1" : "+r"(x) : "r"(one));
#endif
        }
    }
    return now() - start;
#else
    (void)n;
    return -1.0;
#endif
}

enum { ROWS = 256, DRAWS = 4096 };

/* Read-modify-write of DRAWS random rows of 64 bytes in a table of ROWS rows, repeated `passes` times: the update of a
 * histogram over classes with nothing around it. */
double lim_rows(long passes) {
    static v64 table[ROWS];
    static uint16_t row[DRAWS];
    uint64_t x = 88172645463325252u;
    v64 step;
    for (int i = 0; i < DRAWS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        row[i] = (uint16_t)((x >> 32) % ROWS);
    }
    for (int j = 0; j < 16; j++) step[j] = 1;
    double start = now();
    for (long pass = 0; pass < passes; pass++) {
#pragma GCC unroll 8
        for (int i = 0; i < DRAWS; i++) table[row[i]] += step;
        __asm__ volatile("" ::: "memory");
    }
    return now() - start;
}
