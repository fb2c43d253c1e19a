/* ----------------------------------------------------------------------------------------------- vectors of doubles */

/* Vector types for doubles, and the choice of their width. */

#if MCB__VECTOR

/* Additions with vectors of 2, 4 or 8 doubles: over the classes of one row, or over rows. A chain is one lane. */

/* d, i, f, h: what is computed with; the others lie in memory at any address (gcc copies wide vectors in pieces if
 * memcpy is used, which is many times slower). */
#define MCB__TYPES(W)                                                                              \
    typedef double mcb__d##W __attribute__((vector_size(8 * W)));                                  \
    typedef int64_t mcb__i##W __attribute__((vector_size(8 * W)));                                 \
    typedef float mcb__f##W __attribute__((vector_size(4 * W)));                                   \
    typedef int32_t mcb__h##W __attribute__((vector_size(4 * W)));                                 \
    typedef double mcb__dm##W __attribute__((vector_size(8 * W), aligned(1), may_alias));          \
    typedef int64_t mcb__im##W __attribute__((vector_size(8 * W), aligned(1), may_alias));         \
    typedef float mcb__fm##W __attribute__((vector_size(4 * W), aligned(1), may_alias));
MCB__TYPES(2)
MCB__TYPES(4)
MCB__TYPES(8)
#undef MCB__TYPES

/* Loops whose sums must stay in registers are written out; nv and nk are constants, so the tests go away. */
#define MCB__EACH8(X, W) X(0, W) X(1, W) X(2, W) X(3, W) X(4, W) X(5, W) X(6, W) X(7, W)
#define MCB__EACH12(X, W) MCB__EACH8(X, W) X(8, W) X(9, W) X(10, W) X(11, W)
#define MCB__EACH4(X, W) X(0, W) X(1, W) X(2, W) X(3, W)

#define MCB__SPLAT2(v) {v, v}
#define MCB__SPLAT4(v) {v, v, v, v}
#define MCB__SPLAT8(v) {v, v, v, v, v, v, v, v}

#define MCB__CASES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define MCB__CASES12(X) MCB__CASES(X) X(9) X(10) X(11) X(12)

#if defined(MCB_SIMD) && defined(__x86_64__)
#define MCB__CHOOSE 1
#define MCB__AVX2 __attribute__((target("avx2,fma")))
#define MCB__AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#else
#define MCB__CHOOSE 0
#define MCB__AVX2
#define MCB__AVX512
#endif

/* Doubles in the widest vector to use: 8, 4 or 2. */
MCB__INLINE int mcb__width(void) {
#if MCB__CHOOSE
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return 8;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 4 : 2;
#elif defined(__AVX512F__)
    return 8;
#elif defined(__AVX2__)
    return 4;
#else
    return 2;
#endif
}

#if MCB__CHOOSE || defined(__AVX512F__)
#define MCB__DISPATCH(row_8, row_4, row_2)                                                         \
    do {                                                                                           \
        int width = mcb__width();                                                                  \
        if (width == 8)                                                                            \
            row_8;                                                                                 \
        else if (width == 4)                                                                       \
            row_4;                                                                                 \
        else                                                                                       \
            row_2;                                                                                 \
    } while (0)
#elif defined(__AVX2__)
#define MCB__DISPATCH(row_8, row_4, row_2) row_4
#else
#define MCB__DISPATCH(row_8, row_4, row_2) row_2
#endif

#endif /* MCB__VECTOR */
