/* The softmax loss of class-wise trees: what is left to learn, its gradients as integers, and the losses with every base class.
 * Includes class_loss_body.h for float and double. */
#ifndef PYMCBOOST_CLASS_LOSS_H
#define PYMCBOOST_CLASS_LOSS_H

#include "exact.h"
#include "exp.h"
#include "classwise_histograms.h"

/* Units per 1 of g, of h and of the weight n. */
typedef struct {
    double g, h, n;
} pmb_scale;

/* Round to integers in two words: h and n at least 1, so that a set of rows is empty if and only if they are 0. */
PMB_INLINE void pmb_pack_2(double g, double h, double n, int count_bits, int64_t *gh) {
    int64_t hq = (int64_t)(h + 0.5), nq = (int64_t)(n + 0.5);
    hq = hq < 1 ? 1 : hq;
    nq = nq < 1 ? 1 : nq;
    gh[0] = (int64_t)(g + (g < 0 ? -0.5 : 0.5));
    gh[1] = (hq << count_bits) + nq;
}

#define PMB_TRY_ROWS 128   /* rows whose losses with all base classes are summed up together */
#define PMB_LEAF_ROWS 64   /* rows of a leaf whose gradients are summed up together */
#define PMB_MOST_ODDS 1e75 /* of the other classes, in the losses: their logarithm is below 173 */

/* x becomes log(1 + x), for x from 0 on. */
PMB_CLONES PMB_STATIC void pmb_log_odds(double *PMB_RESTRICT x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        /* where 1 + x has lost digits of x, the series is exact to 1e-16 */
        double small =
            x[i] * (1 - x[i] * (0.5 - x[i] * (1.0 / 3 - x[i] * (0.25 - x[i] * (0.2 - x[i] / 6)))));
        double large = pmb_log_of(1 + x[i], 0);
        x[i] = x[i] < 0.003 ? small : large;
    }
}

/* Tables of 32 numbers are looked up in registers where the machine can; clang takes no variable permutation. */
#if PMB_VECTORS && defined(__x86_64__) && !defined(__clang__)
#define PMB_PERMUTES 1
typedef int32_t pmb_v16n __attribute__((vector_size(64)));
typedef float pmb_v16u __attribute__((vector_size(64), aligned(4), may_alias));

/* What pmb_try_pair_of_ does on n rows, a multiple of 16, the tables of up to 32 leaves in registers. own: 0 if the rows are of
 * class k, 1 if of class b, 2 if of others. to_b, to_k: where the classes without the base are summed up. */
PMB_INLINE void pmb_try_pair_32(const float *PMB_RESTRICT p, const float *PMB_RESTRICT q, int own,
                                int n, const uint8_t *PMB_RESTRICT leaf,
                                const float *PMB_RESTRICT factor, const float *PMB_RESTRICT inverse,
                                float *PMB_RESTRICT to_b, float *PMB_RESTRICT to_k,
                                float *PMB_RESTRICT of_b, float *PMB_RESTRICT of_k) {
    const pmb_v16u f0 = *(const pmb_v16u *)factor, f1 = *(const pmb_v16u *)(factor + 16);
    const pmb_v16u g0 = *(const pmb_v16u *)inverse, g1 = *(const pmb_v16u *)(inverse + 16);
    int32_t code[PMB_TRY_ROWS]; /* gcc widens bytes well in a loop of their own */
    for (int i = 0; i < n; i++) code[i] = leaf[i];
    for (int i = 0; i < n; i += 16) {
        pmb_v16n at;
        memcpy(&at, code + i, sizeof at);
        const pmb_v16u up = __builtin_shuffle(f0, f1, at), down = __builtin_shuffle(g0, g1, at);
        const pmb_v16u by_b = *(const pmb_v16u *)(p + i), by_k = *(const pmb_v16u *)(q + i);
        pmb_v16u *b = (pmb_v16u *)(to_b + i), *k = (pmb_v16u *)(to_k + i);
        *b = own == 0 ? (1 - by_b) * up : *b + by_b * up;
        *k = own == 1 ? (1 - by_k) * down : *k + by_k * down;
        *(pmb_v16u *)(of_b + i) *= down;
        *(pmb_v16u *)(of_k + i) *= up;
    }
}
#endif

#define REAL float
#define RTAG f
#include "class_loss_body.h"
#define REAL double
#define RTAG d
#include "class_loss_body.h"

/* Call the instance of a function for the type at hand. */
#define PMB_REAL(name, is_double, ...)                                                             \
    do {                                                                                           \
        if (is_double)                                                                             \
            name##d_0(__VA_ARGS__);                                                                \
        else                                                                                       \
            name##f_0(__VA_ARGS__);                                                                \
    } while (0)
#define pmb_softmax(is_double, ...) PMB_REAL(pmb_softmax_, is_double, __VA_ARGS__)
#define pmb_try_bases(is_double, ...) PMB_REAL(pmb_try_bases_, is_double, __VA_ARGS__)

/* Add the leaf values of one tree to the scores of n rows. leaf: numbers of 1 or 2 bytes. */
PMB_CLONES PMB_STATIC void pmb_add_leaves(const void *leaf, int bytes,
                                          const double *PMB_RESTRICT value, int64_t n,
                                          double *PMB_RESTRICT to, double *PMB_RESTRICT from) {
#define ADD_LEAVES(type)                                                                           \
    do {                                                                                           \
        const type *PMB_RESTRICT l = leaf;                                                         \
        if (from)                                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                      \
                double v = value[l[i]];                                                            \
                to[i] += v;                                                                        \
                from[i] -= v;                                                                      \
            }                                                                                      \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i] += value[l[i]];                                  \
    } while (0)
    if (bytes == 1)
        ADD_LEAVES(uint8_t);
    else
        ADD_LEAVES(uint16_t);
#undef ADD_LEAVES
}

#endif
