/* --------------------------------------------------------------------------------------------------------- platform */

/* Limits of the format, and what depends on the compiler: vectors, inlining, floating-point contraction. */

#define MCB_FORMAT_MAJOR 1
#define MCB_FORMAT_MINOR 12
#define MCB_MAX_CLASSES 65535u
#define MCB_MAX_FEATURES 2147483647u
#define MCB_MAX_SECTIONS 64u
#define MCB_MAX_META (16u << 20)
#define MCB_MAX_LABEL 4096u
#define MCB_MAX_LEVELS 65535u /* of a categorical feature */
#define MCB_MAX_DEGREE 1000
#define MCB_MAX_COLUMNS 4096 /* of a code with a decoder other than linear */

/* 1 when double arithmetic is evaluated in double, as the bit identity of scores needs. */
#if defined(FLT_EVAL_METHOD) && (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1)
#define MCB_EXACT 0
#elif defined(__FAST_MATH__)
#define MCB_EXACT 0
#else
#define MCB_EXACT 1
#endif

#ifndef MCB_API
#define MCB_API static inline
#endif

/* Vectors of 32-bit ARM take subnormal numbers for 0: their scores could have other bits than those of single rows. */
#if !defined(MCB_NO_VECTOR) && !defined(__arm__) &&                                                \
    (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && defined(__BYTE_ORDER__) &&     \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define MCB__VECTOR 1
#else
#define MCB__VECTOR 0
#endif

/* gcc takes no notice of this pragma; the score chain does not depend on it (see above). */
#if defined(__clang__) || (defined(__STDC_VERSION__) && !defined(__GNUC__) && !defined(_MSC_VER))
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__GNUC__)
#define MCB__INLINE static inline __attribute__((always_inline))
#define MCB__UNUSED __attribute__((unused))
#define MCB__ALIGNED __attribute__((aligned(64)))
#define MCB__APART                                                                                 \
    static __attribute__((noinline, unused)) /* keeps its arrays off the stack of others */
#else
#define MCB__ALIGNED
#define MCB__APART static inline
#define MCB__INLINE static inline
#define MCB__UNUSED
#endif

/* Keeps a compiler from finding out that an integer is a yes or no and making a jump of it. */
#if defined(__GNUC__)
#define MCB__HIDE(v) __asm__("" : "+r"(v))
#else
#define MCB__HIDE(v) (void)0
#endif
