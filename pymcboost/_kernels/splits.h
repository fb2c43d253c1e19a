/* Choosing among splits whose edges are all known: by the number of errors, or by a least-squares fit of some classes. */
#ifndef PYMCBOOST_SPLITS_H
#define PYMCBOOST_SPLITS_H

#include "lanes.h"

/* Splits that are worked on together. */
#define PMB_SPLITS 512

/* Weight of the rows that a split gets right when its sides say the two different classes that make it largest; -1 for
 * a code that is no split. edge: right minus left, by class; total: of all rows. */
PMB_INLINE double pmb_right_weight(const double *edge, const double *total, int K) {
    double left1 = -1, left2 = -1, right1 = -1, right2 = -1;
    int l = -1, r = -1;
    if (edge[0] != edge[0]) return -1;
    for (int k = 0; k < K; k++) {
        double left = (total[k] - edge[k]) / 2, right = (total[k] + edge[k]) / 2;
        if (left > left1) {
            left2 = left1;
            left1 = left;
            l = k;
        } else if (left > left2) left2 = left;
        if (right > right1) {
            right2 = right1;
            right1 = right;
            r = k;
        } else if (right > right2) right2 = right;
    }
    if (l != r) return left1 + right1;
    return left1 + right2 > left2 + right1 ? left1 + right2 : left2 + right1;
}

/* Largest zl^2 / wl + zr^2 / wr over n splits, after adding the sums of one class to those of a set; *at: the first split
 * that has it, within the tie tolerance. A side of no weight counts 0. */
PMB_CLONES PMB_STATIC double pmb_joint_gain(const double *PMB_RESTRICT set, const double *PMB_RESTRICT one, int64_t n,
                                            double tie, int64_t *at) {
    double top = -1, gain[PMB_SPLITS];
    for (int64_t start = 0; start < n; start += PMB_SPLITS) {
        int rows = (int)(n - start < PMB_SPLITS ? n - start : PMB_SPLITS);
        double here = -1;
        for (int i = 0; i < rows; i++) {
            int64_t j = start + i;
            double zl = set[j] + one[j], zr = set[n + j] + one[n + j];
            double wl = set[2 * n + j] + one[2 * n + j], wr = set[3 * n + j] + one[3 * n + j];
            gain[i] = zl * zl / (wl > 1e-300 ? wl : 1e-300) + zr * zr / (wr > 1e-300 ? wr : 1e-300);
        }
        for (int i = 0; i < rows; i++) here = gain[i] > here ? gain[i] : here;
        if (here > top * tie) {
            int i = 0;
            while (!(gain[i] * tie >= here)) i++;
            top = here;
            *at = start + i;
        }
    }
    return top;
}

#endif
