/* Losses on row-major scores F (m, blocks * lanes): gradients of whole rows, and sums over the rows of a leaf.
 *
 * A gradient row has its own class positive, the others negative, and sums to zero. softmax: y - p. Pairwise losses,
 * with margins rho_r = F_y - F_r: -u_r, u = exp(-rho) or 1 / (1 + exp(rho)), and the sum of the u for the own class.
 */
#ifndef PYMCBOOST_VROWS_H
#define PYMCBOOST_VROWS_H

#include "lanes.h"

enum { PMB_SOFTMAX, PMB_EXP, PMB_LOG };

#define PMB_LN2_HIGH 0.693359375f
#define PMB_LN2_LOW 2.12194440e-4f

#define LANES 4
#include "vrows_body.h"
#undef LANES
#define LANES 8
#include "vrows_body.h"
#undef LANES
#define LANES 16
#include "vrows_body.h"
#undef LANES

#define PMB_VR(lanes, name, ...)                       \
    do {                                               \
        if ((lanes) == 4) name##r_4(__VA_ARGS__);      \
        else if ((lanes) == 8) name##r_8(__VA_ARGS__); \
        else name##r_16(__VA_ARGS__);                  \
    } while (0)

#endif
