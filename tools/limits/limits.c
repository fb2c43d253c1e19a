/* What this machine can do at best: every function returns the seconds that its loop took.
 *
 * Built by tools/bench.py as a shared library with the widest vectors of the CPU, so these are limits of the machine and
 * not of the flags that pymcboost ships with. GNU vector types keep the row width explicit: a 64-byte row is one
 * AVX-512 operation, two AVX ones or four NEON ones. */
#define _POSIX_C_SOURCE 200112L
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef float v64 __attribute__((vector_size(64)));
typedef float v32 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(16)));

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *aligned(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, bytes))
        return NULL;
    memset(p, 0, bytes);
    return p;
}

/* n dependent register additions, one cycle each; -1 where the instruction is not written down here. */
double lim_clock(long n)
{
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

/* n additions of one value to each of eight accumulators in turn; the sums are handed out so that they are computed. */
#define ADD(name, type)                                                                     \
    double name(long n, float *out)                                                         \
    {                                                                                       \
        type step, a0, a1, a2, a3, a4, a5, a6, a7;                                          \
        for (size_t j = 0; j < sizeof step / sizeof(float); j++)                            \
            ((float *)&step)[j] = out[j];                                                   \
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = step;                                       \
        double start = now();                                                               \
        for (long i = 0; i < n; i += 8) {                                                   \
            ONE(a0) ONE(a1) ONE(a2) ONE(a3) ONE(a4) ONE(a5) ONE(a6) ONE(a7)                 \
        }                                                                                   \
        double seconds = now() - start;                                                     \
        a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7;                                             \
        memcpy(out, &a0, sizeof step);                                                      \
        return seconds;                                                                     \
    }
#define ONE(a) a += step; __asm__ volatile("" : REG(a));
/* Pinning the accumulator to a register keeps the compiler from vectorising the scalar loop; wider types than the CPU
 * has cannot be pinned and are not measured (see WIDEST). */
#if defined(__x86_64__)
#define REG(x) "+x"(x)
#elif defined(__aarch64__)
#define REG(x) "+w"(x)
#else
#define REG(x) "+m"(x)
#endif
#if defined(__AVX512F__)
#define WIDEST 64
#elif defined(__AVX__)
#define WIDEST 32
#else
#define WIDEST 16
#endif

long lim_widest(void) { return WIDEST; }
ADD(lim_add_4, float)
ADD(lim_add_16, v16)
#if WIDEST >= 32
ADD(lim_add_32, v32)
#endif
#if WIDEST >= 64
ADD(lim_add_64, v64)
#endif

/* Read `bytes` bytes `passes` times. */
double lim_read(long bytes, long passes, float *out)
{
    v64 *p = aligned((size_t)bytes);
    long n = bytes / 64;
    v64 a[8];
    if (!p)
        return -1.0;
    memset(a, 0, sizeof a);
    double start = now();
    for (long pass = 0; pass < passes; pass++) {
        for (long i = 0; i + 8 <= n; i += 8)
            for (int j = 0; j < 8; j++)
                a[j] += p[i + j];
        __asm__ volatile("" ::: "memory");
    }
    double seconds = now() - start;
    for (int j = 1; j < 8; j++)
        a[0] += a[j];
    memcpy(out, &a[0], 4);
    free(p);
    return seconds;
}

/* Read-modify-write of random rows (draw = 1), or of all `rows` rows in a shuffled order again and again (0), `n` of them
 * repeated `passes` times: the histogram update with nothing around it. */
#define RMW(name, type)                                                                     \
    double name(long rows, long n, long passes, long draw, float *out)                      \
    {                                                                                       \
        type *table = aligned((size_t)rows * sizeof(type)), step;                           \
        uint16_t *row = aligned((size_t)n * sizeof(uint16_t));                              \
        uint64_t x = 88172645463325252u;                                                    \
        if (!table || !row)                                                                 \
            return -1.0;                                                                    \
        for (long i = 0; i < n; i++) {                                                      \
            x ^= x << 13;                                                                   \
            x ^= x >> 7;                                                                    \
            x ^= x << 17;                                                                   \
            row[i] = (uint16_t)((draw ? x >> 32 : 37 * (uint64_t)i) % (uint64_t)rows);      \
        }                                                                                   \
        for (size_t j = 0; j < sizeof step / sizeof(float); j++)                            \
            ((float *)&step)[j] = out[j];                                                   \
        double start = now();                                                               \
        for (long pass = 0; pass < passes; pass++) {                                        \
            for (long i = 0; i < n; i += 8) {                                               \
                table[row[i]] += step;                                                      \
                table[row[i + 1]] += step;                                                  \
                table[row[i + 2]] += step;                                                  \
                table[row[i + 3]] += step;                                                  \
                table[row[i + 4]] += step;                                                  \
                table[row[i + 5]] += step;                                                  \
                table[row[i + 6]] += step;                                                  \
                table[row[i + 7]] += step;                                                  \
            }                                                                               \
            __asm__ volatile("" ::: "memory");                                              \
        }                                                                                   \
        double seconds = now() - start;                                                     \
        memcpy(out, &table[0], sizeof(type));                                               \
        free(table);                                                                        \
        free(row);                                                                          \
        return seconds;                                                                     \
    }
RMW(lim_rmw_64, v64)
RMW(lim_rmw_32, v32)
RMW(lim_rmw_16, v16)
RMW(lim_rmw_8, int64_t)

/* One pass that reads and writes m numbers, repeated. */
#define PASS(name, type)                                                                                               \
    double name(long m, long passes, float *out)                                                                       \
    {                                                                                                                  \
        type *x = aligned((size_t)m * sizeof(type)), factor = (type)out[0];                                            \
        if (!x)                                                                                                        \
            return -1.0;                                                                                               \
        for (long i = 0; i < m; i++)                                                                                   \
            x[i] = 1;                                                                                                  \
        double start = now();                                                                                          \
        for (long pass = 0; pass < passes; pass++) {                                                                   \
            for (long i = 0; i < m; i++)                                                                               \
                x[i] *= factor;                                                                                        \
            __asm__ volatile("" ::: "memory");                                                                         \
        }                                                                                                              \
        double seconds = now() - start;                                                                                \
        out[0] = (float)x[m / 2];                                                                                      \
        free(x);                                                                                                       \
        return seconds;                                                                                                \
    }

PASS(lim_pass, float)
PASS(lim_pass_double, double)
