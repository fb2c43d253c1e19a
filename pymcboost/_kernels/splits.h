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
        } else if (left > left2)
            left2 = left;
        if (right > right1) {
            right2 = right1;
            right1 = right;
            r = k;
        } else if (right > right2)
            right2 = right;
    }
    if (l != r) return left1 + right1;
    return left1 + right2 > left2 + right1 ? left1 + right2 : left2 + right1;
}

/* Largest zl^2 / wl + zr^2 / wr over n splits, after adding the sums of one class to those of a set; *at: the first split
 * that has it, within the tie tolerance. A side of no weight counts 0. */
PMB_CLONES PMB_STATIC double pmb_joint_gain(const double *PMB_RESTRICT set,
                                            const double *PMB_RESTRICT one, int64_t n, double tie,
                                            int64_t *at) {
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

/* Sums of w z and w left and right of n splits for K classes: to[class][wz left, wz right, w left, w right][split]. edge:
 * right minus left, `width` numbers for each of the splits at[]: K of w z, then K of w; total: of all rows. */
PMB_CLONES PMB_STATIC void pmb_joint_sums(const double *PMB_RESTRICT edge, int64_t width,
                                          const int64_t *PMB_RESTRICT at, int64_t first,
                                          int64_t last, int64_t n, int K,
                                          const double *PMB_RESTRICT total,
                                          double *PMB_RESTRICT to) {
    for (int k = 0; k < K; k++) {
        double *PMB_RESTRICT of = to + 4 * n * k;
        double z = total[k], w = total[K + k];
        for (int64_t j = first; j < last; j++) {
            double ez = edge[at[j] * width + k], ew = edge[at[j] * width + K + k];
            double zl = (z - ez) / 2, zr = (z + ez) / 2, wl = (w - ew) / 2, wr = (w + ew) / 2;
            of[j] = zl;
            of[n + j] = zr;
            of[2 * n + j] =
                wl > fabs(zl)
                    ? wl
                    : fabs(zl); /* as it must be, whatever rounding leaves next to no weight */
            of[3 * n + j] = wr > fabs(zr) ? wr : fabs(zr);
        }
    }
}

/* For every class the split whose two sides explain the most of z = [own class] - 1/K under the weights w z^2, that is
 * (sum w z)^2 / sum w z^2, summed over the sides; the first one within the tie tolerance. edge: right minus left of the
 * weights of the classes; total: of all rows. A side of next to no weight, which rounding would decide, is not split
 * off. */
PMB_CLONES PMB_STATIC void pmb_margin_gains(const double *PMB_RESTRICT edge, int64_t width,
                                            const int64_t *PMB_RESTRICT at, int64_t n, int K,
                                            const double *PMB_RESTRICT total, double tie,
                                            double *PMB_RESTRICT gain, int64_t *PMB_RESTRICT best) {
    double all = 0, mean = 1.0 / K, slope = 1 - 2 * mean, least;
    for (int k = 0; k < K; k++) {
        all += total[k];
        gain[k] = 0;
        best[k] = -1;
    }
    least = 4 * (tie - 1) * all * mean;
    for (int64_t j = 0; j < n; j++) {
        const double *e = edge + at[j] * width;
        double d = 0, left, right;
        for (int k = 0; k < K; k++) d += e[k];
        left = (all - d) / 2 * mean;
        right = (all + d) / 2 * mean;
        if (!(left > least && right > least)) continue;
        for (int k = 0; k < K; k++) {
            double l = (total[k] - e[k]) / 2, r = (total[k] + e[k]) / 2;
            l = l > 0 ? l : 0;
            r = r > 0 ? r : 0;
            double zl = l - left, zr = r - right;
            double here =
                zl * zl / (l * slope + left * mean) + zr * zr / (r * slope + right * mean);
            int better = here > gain[k] * tie;
            gain[k] = better ? here : gain[k];
            best[k] = better ? j : best[k];
        }
    }
}

#endif
