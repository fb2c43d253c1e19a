/* What a leaf would have given to a row without that row: leave-one-out leaf vectors of the softmax loss in closed form.
 *
 * With the sums G of the gradients and H of the curvatures of a leaf, and g and h of one of its rows, the step of class k is
 * (K - 1) / K (G_k - g_k) / (H_k - h_k + l2), cut at the largest step, less the mean of all steps, times the learning rate.
 */
#ifndef PYMCBOOST_LEFT_OUT_H
#define PYMCBOOST_LEFT_OUT_H

#include "draws.h"
#include "leaf_vectors.h"

/* Other rows of a leaf with less than this part of its curvature are rounding: their step is 0. */
#define PMB_LEFT_OUT_LEAST 1e-4f

/* One tree, and the rows that are followed. Rows of numbers have `width` lanes, a multiple of 4; those of no class are 0. */
typedef struct {
    const pmb_leaf_step *steps;
    int64_t n;             /* rows that are followed */
    float *scratch;        /* (threads, width) */
    const float *gradient; /* (m, width) */
    const double *weight;  /* (m,), NULL for 1 */
    int64_t width;
    const float *sums;    /* (n_leaves, 2, width) of w g and w |g| (1 - |g|) */
    const int64_t *count; /* (n_leaves,) rows of the leaves */
    const int32_t *leaf;  /* (m,) of the rows */
    uint64_t key;         /* which draws this share of the rows for the tree's structure */
    double share;
    const int32_t *row;     /* (r,) rows that are followed */
    const int64_t *number;  /* (r,) by which the key draws them */
    float *alone, *outside; /* (r, width) leave-one-out and out-of-bag scores */
} pmb_left_out;

/* Add the tree to the scores of the followed rows from a first to before a last one. scratch: (width,). A row that is
 * alone in its leaf gets nothing. */
PMB_CLONES PMB_STATIC void pmb_add_left_out(const pmb_left_out *t, int64_t first, int64_t last,
                                            float *PMB_RESTRICT scratch) {
    const pmb_leaf_step *s = t->steps;
    const int64_t K = t->width / 4 * 4; /* which the compiler then knows to be a multiple */
    const float n_classes = (float)s->n_classes;
    const float l2 = (float)s->l2, share = (float)s->share, top = (float)s->largest,
                rate = (float)s->rate;
    const float times = (float)(s->rate / (1 - t->share));
    const pmb_draw draw = pmb_draw_of(t->key, t->share);
    for (int64_t i = first; i < last; i++) {
        int64_t row = t->row[i], leaf = t->leaf[row];
        const float *PMB_RESTRICT gradient = t->gradient + row * t->width;
        const float *PMB_RESTRICT G = t->sums + 2 * leaf * K, *PMB_RESTRICT H = G + K;
        float *PMB_RESTRICT alone = t->alone + i * K, *PMB_RESTRICT outside = t->outside + i * K;
        float weight = t->weight ? (float)t->weight[row] : 1.0f, part[4] = {0}, mean;
        if (t->count[leaf] < 2) continue;
        for (int64_t k = 0; k < K; k++) {
            float g = gradient[k], a = g < 0 ? -g : g, others = H[k] - weight * a * (1 - a);
            float size = others > PMB_LEFT_OUT_LEAST * H[k] ? others + l2 : 1e30f;
            float v = (G[k] - weight * g) * share / (size > 1e-30f ? size : 1e30f);
            v = v > top ? top : v;
            scratch[k] = v < -top ? -top : v;
        }
        for (int64_t k = 0; k < K; k += 4)
            for (int l = 0; l < 4; l++) part[l] += scratch[k + l];
        mean = ((part[0] + part[1]) + (part[2] + part[3])) / n_classes;
        for (int64_t k = 0; k < K; k++) alone[k] += (scratch[k] - mean) * rate;
        if (!pmb_is_drawn(&draw, t->number[i]))
            for (int64_t k = 0; k < K; k++) outside[k] += (scratch[k] - mean) * times;
    }
}

#endif
