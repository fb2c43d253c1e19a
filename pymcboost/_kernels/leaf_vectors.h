/* Leaf vectors of softmax from the sums of a leaf: Newton steps along each score. */
#ifndef PYMCBOOST_LEAF_VECTORS_H
#define PYMCBOOST_LEAF_VECTORS_H

#include "vector_loss.h"

/* As NumPy sums up to 128 numbers: eight at a time, then those in pairs; more in halves. */
PMB_STATIC double pmb_sum(const double *v, int64_t n) {
    double r[8], sum = 0;
    int64_t i = 0, half = n / 2 - n / 2 % 8;
    if (n > 128) return pmb_sum(v, half) + pmb_sum(v + half, n - half);
    if (n >= 8) {
        for (int l = 0; l < 8; l++) r[l] = v[l];
        for (i = 8; i + 8 <= n; i += 8)
            for (int l = 0; l < 8; l++) r[l] += v[i + l];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; i++) sum += v[i];
    return sum;
}

/* How sums over the rows of a leaf become its vector: v_k = share G_k / (H_k + l2), cut at `largest`, minus the mean of all,
 * times the rate. */
typedef struct {
    int64_t n_classes, width; /* width: classes padded to whole blocks */
    int bits;    /* sums of curvatures below 2^bits units a row ask for a smaller unit */
    double unit; /* of the sums */
    double l2, rate;
    double share, largest; /* share: (K - 1) / K */
} pmb_leaf_step;

/* Steps along each score, cut; 1 where a sum of curvatures is small in its unit. sums: (2, width). */
PMB_CLONES PMB_STATIC int pmb_leaf_steps(const pmb_leaf_step *s, const int64_t *PMB_RESTRICT sums,
                                         int64_t n, double *PMB_RESTRICT step) {
    const int64_t *PMB_RESTRICT second = sums + s->width, least = n << s->bits, K = s->n_classes;
    const double unit = s->unit, l2 = s->l2, share = s->share, top = s->largest;
    int64_t small = 0;
    for (int64_t k = 0; k < K; k++) {
        double size = (double)second[k] * unit + l2, v;
        size = size > 1e-30 ? size : 1e-30;
        v = (double)sums[k] * unit * share / size;
        v = v > top ? top : v;
        step[k] = v < -top ? -top : v;
        small |= (int64_t)(second[k] < least);
    }
    return (int)small;
}

/* Steps less their mean, times the rate, as float32; to one of both. */
PMB_CLONES PMB_STATIC void pmb_leaf_values(const pmb_leaf_step *s, const double *PMB_RESTRICT step,
                                           double *PMB_RESTRICT wide, float *PMB_RESTRICT narrow) {
    const int64_t K = s->n_classes;
    const double mean = pmb_sum(step, K) / (double)K, rate = s->rate;
    if (wide) {
        for (int64_t k = 0; k < K; k++) wide[k] = (float)((step[k] - mean) * rate);
        for (int64_t k = K; k < s->width; k++) wide[k] = 0;
    } else {
        for (int64_t k = 0; k < K; k++) narrow[k] = (float)((step[k] - mean) * rate);
        for (int64_t k = K; k < s->width; k++) narrow[k] = 0;
    }
}

#endif
