/* Least-squares fits of some classes that share a split on a categorical feature, whose levels go to either side.
 *
 * The levels are put in the order of their weighted means of z over the classes, and the order is scanned as that of
 * values is: the best of all sets is one of its beginnings. Rare levels stay together and take the place of their common
 * mean.
 */
#ifndef PYMCBOOST_SPLITS_LEVELS_H
#define PYMCBOOST_SPLITS_LEVELS_H

#include "bins.h"

/* Cells of a feature: its n levels, and behind them the rows where it is missing. */
typedef struct {
    int32_t n;
    const double *weight; /* sample weight of every cell; 0: no row is there */
    const uint8_t *rare;
    double least; /* sample weight on either side */
} pmb_joint_cells;

/* What a split explains, -1 where there is none; sums of w z and w left and right, and how many levels of the order and
 * whether missing rows are on its first side. The heavier side is the right one: turned where that is the first. */
typedef struct {
    double gain, z[2], w[2];
    int32_t count, side, turned;
} pmb_joint_set;

PMB_INLINE double pmb_joint_score(double z, double w) { return z * z / (w > 1e-300 ? w : 1e-300); }

/* Best split of the classes of a set and one more (NULL: none), each with its sums of w z in all cells, and of w from
 * `stride` on. sum: room for (5, n + 1), key for (2, n + 1), in which the order is left. Of splits that differ by less
 * than the tie tolerance the first one counts. */
PMB_STATIC pmb_joint_set pmb_joint_levels(const pmb_joint_cells *c, const double *set, const double *one, int64_t stride,
                                          double tie, double *sum, uint64_t *key) {
    const int32_t n = c->n, size = n + 1;
    double *z = sum, *w = z + size, *after_z = w + size, *after_w = after_z + size, *after = after_w + size;
    double rare_z = 0, rare_w = 0, left_z = 0, left_w = 0, left = 0, missing = c->weight[n];
    pmb_joint_set best = {-1, {0, 0}, {0, 0}, 0, 0, 0};
    for (int32_t j = 0; j <= n; j++) {
        z[j] = one ? set[j] + one[j] : set[j];
        w[j] = one ? set[stride + j] + one[stride + j] : set[stride + j];
        if (j == n || !c->rare[j]) continue;
        rare_z += z[j];
        rare_w += w[j];
    }
    int32_t at = 0;
    for (int rare = 1; rare >= 0; rare--) /* rare ones first, so that others of their mean do not part them */
        for (int32_t j = 0; j < n; j++) {
            if (c->rare[j] != rare) continue;
            double of = rare ? rare_z : z[j], by = rare ? rare_w : w[j];
            key[at++] = pmb_key((float)(of / (by > 1e-300 ? by : 1e-300)), (uint32_t)j);
        }
    pmb_sort_keys(key, key + size, n);
    for (int32_t j = n - 1; j >= 0; j--) { /* sums, as differences from all would be rounding for light sides */
        int32_t next = j + 1 < n ? (int32_t)(uint32_t)key[j + 1] : -1;
        after_z[j] = next < 0 ? 0 : after_z[j + 1] + z[next];
        after_w[j] = next < 0 ? 0 : after_w[j + 1] + w[next];
        after[j] = next < 0 ? 0 : after[j + 1] + c->weight[next];
    }
    for (int32_t j = 0; j < n; j++) {
        uint32_t level = (uint32_t)key[j];
        left_z += z[level];
        left_w += w[level];
        left += c->weight[level];
        if (c->rare[level] && j + 1 < n && c->rare[(uint32_t)key[j + 1]]) continue;
        for (int side = 0; side <= (missing > 0); side++) {
            double first = side ? left + missing : left, second = side ? after[j] : after[j] + missing;
            if (!(first > 0 && second > 0 && first >= c->least && second >= c->least)) continue;
            double zl = side ? left_z + z[n] : left_z, zr = side ? after_z[j] : after_z[j] + z[n];
            double wl = side ? left_w + w[n] : left_w, wr = side ? after_w[j] : after_w[j] + w[n];
            double gain = pmb_joint_score(zl, wl) + pmb_joint_score(zr, wr);
            if (!(gain > best.gain * tie)) continue;
            int turned = first > second;
            best = (pmb_joint_set){gain, {turned ? zr : zl, turned ? zl : zr}, {turned ? wr : wl, turned ? wl : wr},
                                   j + 1, side, turned};
        }
    }
    return best;
}

#endif
