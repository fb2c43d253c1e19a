/* Portability shims for the vector kernels: compile-time clones per CPU generation, restrict, lane loops.
 * A "lane" is one class; kernels work on rows padded to 4, 8 or 16 lanes. And what several kernels need. */
#ifndef PYMCBOOST_LANES_H
#define PYMCBOOST_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(PMB_CLONES) /* given by the build: see PYMCBOOST_CLONES in setup.py */
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__) &&         \
    defined(__linux__) && defined(__GLIBC__)
#define PMB_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#define PMB_HAS_CLONES 1
/* Asked when a clone runs, which cannot ask the preprocessor: gcc keeps vectors wider than registers in memory. */
#define PMB_HAS_256 __builtin_cpu_supports("avx2")
#define PMB_HAS_512 __builtin_cpu_supports("avx512vl")
#else
#define PMB_CLONES
#endif
#ifndef PMB_HAS_256
#define PMB_HAS_256 0
#define PMB_HAS_512 0
#endif

#if defined(__GNUC__)
#define PMB_INLINE static inline __attribute__((always_inline, unused))
#define PMB_STATIC static __attribute__((unused))
#define PMB_PREFETCH(p) __builtin_prefetch(p)
#define PMB_RESTRICT __restrict__
/* vector_size types: gcc leaves constant-length loops over rows in memory half vectorised */
#define PMB_VECTORS 1
#define ALIGNED_LANES __attribute__((aligned(64)))
#else
#define PMB_INLINE static inline
#define PMB_STATIC static
#define PMB_PREFETCH(p) ((void)0)
#define PMB_RESTRICT
#define ALIGNED_LANES
#endif

/* The bits of a number. Exact sums are of them: a term is rounded to a multiple of a unit, a power of two, by adding it to
 * the magic number 1.5 * 2^52 units. The bits of the result are those of the magic number plus the term in units, if that
 * is below 2^51. They are added up as integers, and the magic numbers taken off at the end, so that the order of the terms
 * does not matter. */
PMB_INLINE uint64_t pmb_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Marsaglia's xorshift64 with a multiplier: the next number of a state, which is not 0. */
PMB_INLINE uint64_t pmb_random(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(2685821657736338717);
}

#if PMB_VECTORS && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PMB_SHUFFLES 1
#endif
#endif

#define PMB_LANES(l, n) for (int l = 0; l < (n); l++)

#define PMB_CAT0(a, b) a##b
#define PMB_CAT1(a, b) PMB_CAT0(a, b)
#define PMB_CAT3(a, b, c) a##b##_##c
#define PMB_CAT2(a, b, c) PMB_CAT3(a, b, c)

/* Call the instance of a function for the lanes at hand. */
#define PMB_BY_LANES(name, lanes, ...)                                                             \
    do {                                                                                           \
        if ((lanes) == 4)                                                                          \
            name##4(__VA_ARGS__);                                                                  \
        else if ((lanes) == 8)                                                                     \
            name##8(__VA_ARGS__);                                                                  \
        else                                                                                       \
            name##16(__VA_ARGS__);                                                                 \
    } while (0)

/* The same of those made by variants.h, for the type at hand as well. */
#define PMB_DISPATCH(name, is_double, lanes, ...)                                                  \
    do {                                                                                           \
        if (is_double)                                                                             \
            PMB_BY_LANES(name##d_, lanes, __VA_ARGS__);                                            \
        else                                                                                       \
            PMB_BY_LANES(name##f_, lanes, __VA_ARGS__);                                            \
    } while (0)

#endif
