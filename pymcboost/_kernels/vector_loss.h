/* Losses of vector trees on scores F (m, blocks * lanes): gradients of rows, and sums over the rows of a leaf. Includes
 * vector_loss_body.h for 4, 8 and 16 lanes.
 *
 * A gradient row has its own class positive, the others negative, and sums to zero. softmax: y - p. logistic: minus the
 * sigmoid of F_r - F_y for every other class r, and their sum for the own class y. */
#ifndef PYMCBOOST_VECTOR_LOSS_H
#define PYMCBOOST_VECTOR_LOSS_H

#include "exp.h"
#include "widths.h"

enum { PMB_SOFTMAX, PMB_LOGISTIC };

#if PMB_VECTORS
typedef float pmb_vloss_8 __attribute__((vector_size(32)));
typedef float pmb_vloss_4 __attribute__((vector_size(16)));
typedef double pmb_vloss_8d __attribute__((vector_size(64), may_alias));
typedef double pmb_vloss_4d __attribute__((vector_size(32), may_alias));
typedef double pmb_vloss_2d __attribute__((vector_size(16)));
typedef int64_t pmb_vloss_8l __attribute__((vector_size(64)));
typedef int64_t pmb_vloss_4l __attribute__((vector_size(32)));
typedef int64_t pmb_vloss_2l __attribute__((vector_size(16)));
typedef uint64_t pmb_vloss_8u __attribute__((vector_size(64), may_alias));
typedef uint64_t pmb_vloss_4u __attribute__((vector_size(32), may_alias));
#endif

/* Take the magic number off sums of n terms. */
PMB_STATIC void pmb_less_magic(uint64_t *sums, int64_t n_sums, int64_t n, double magic) {
    for (int64_t l = 0; l < n_sums; l++) sums[l] -= (uint64_t)n * pmb_bits(magic);
}

#if PMB_SHUFFLES
/* Larger of two vectors, by lane */
#define PMB_VLOSS_MAX(T, I, a, b) ((T)((((a) > (b)) & (I)(a)) | (~((a) > (b)) & (I)(b))))
#define pmb_vloss_top4(v4)                                                                         \
    ({                                                                                             \
        pmb_vloss_4d v4_ = (v4);                                                                   \
        pmb_vloss_2d a_ = __builtin_shufflevector(v4_, v4_, 0, 1),                                 \
                     b_ = __builtin_shufflevector(v4_, v4_, 2, 3);                                 \
        pmb_vloss_2d t_ = PMB_VLOSS_MAX(pmb_vloss_2d, pmb_vloss_2l, a_, b_);                       \
        t_[0] > t_[1] ? t_[0] : t_[1];                                                             \
    })
#define pmb_vloss_top8(x8, y8)                                                                     \
    ({                                                                                             \
        pmb_vloss_8d x_ = (x8), y_ = (y8), z_ = PMB_VLOSS_MAX(pmb_vloss_8d, pmb_vloss_8l, x_, y_); \
        pmb_vloss_4d p_ = __builtin_shufflevector(z_, z_, 0, 1, 2, 3);                             \
        pmb_vloss_4d q_ = __builtin_shufflevector(z_, z_, 4, 5, 6, 7);                             \
        pmb_vloss_top4(PMB_VLOSS_MAX(pmb_vloss_4d, pmb_vloss_4l, p_, q_));                         \
    })
#endif

#define LANES 4
#include "vector_loss_body.h"
#undef LANES
#define LANES 8
#include "vector_loss_body.h"
#undef LANES
#define LANES 16
#include "vector_loss_body.h"
#undef LANES

#define PMB_VLOSS(lanes, name, ...) PMB_BY_LANES(name##r_, lanes, __VA_ARGS__)

#endif
