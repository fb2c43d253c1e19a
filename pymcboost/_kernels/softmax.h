/* What is left to learn under the softmax loss, and its integer gradients; instantiates softmax_body.h for float and double. */
#ifndef PYMCBOOST_SOFTMAX_H
#define PYMCBOOST_SOFTMAX_H

#include "exp.h"
#include "trees.h"

/* Units per 1 of g, h and n. */
typedef struct {
    double g, h, n;
} pmb_scale;

/* Round to integers: h and n at least 1, so that a set of rows is empty if and only if they are 0. */
PMB_INLINE void pmb_pack_2(double g, double h, double n, int64_t *gh) {
    int64_t hq = (int64_t)(h + 0.5), nq = (int64_t)(n + 0.5);
    gh[0] = (int64_t)(g + (g < 0 ? -0.5 : 0.5));
    gh[1] = ((hq < 1 ? 1 : hq) << PMB_COUNT_BITS) + (nq < 1 ? 1 : nq);
}

#define PMB_TRY_ROWS 128 /* rows whose losses with all base classes are summed up together */

/* Tables of 32 numbers are looked up in registers where the machine can; clang takes no variable permutation. */
#if PMB_VECTORS && defined(__x86_64__) && !defined(__clang__)
#define PMB_PERMUTES 1
typedef int32_t pmb_v16n __attribute__((vector_size(64)));
typedef float pmb_v16u __attribute__((vector_size(64), aligned(4), may_alias));

/* What pmb_try_pair_of_ does on n rows, a multiple of 16, the tables of up to 32 leaves in registers. own: 0 if the rows are of
 * class k, 1 if of class b, 2 if of others. to_b, to_k: where the classes without the base are summed up. */
PMB_INLINE void pmb_try_pair_32(const float *PMB_RESTRICT p, const float *PMB_RESTRICT q, int own, int n,
                                const uint8_t *PMB_RESTRICT leaf, const float *PMB_RESTRICT factor,
                                const float *PMB_RESTRICT inverse, float *PMB_RESTRICT to_b, float *PMB_RESTRICT to_k,
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
#include "softmax_body.h"
#define REAL double
#define RTAG d
#include "softmax_body.h"

/* Add the leaf values of one tree to the scores of n rows. leaf: numbers of 1 or 2 bytes. */
PMB_CLONES PMB_STATIC void pmb_add_leaves(const void *leaf, int bytes, const double *PMB_RESTRICT value, int64_t n,
                                          double *PMB_RESTRICT to, double *PMB_RESTRICT from) {
#define ADD_LEAVES(type)                                         \
    do {                                                         \
        const type *PMB_RESTRICT l = leaf;                       \
        if (from)                                                \
            for (int64_t i = 0; i < n; i++) {                    \
                double v = value[l[i]];                          \
                to[i] += v;                                      \
                from[i] -= v;                                    \
            }                                                    \
        else                                                     \
            for (int64_t i = 0; i < n; i++) to[i] += value[l[i]]; \
    } while (0)
    if (bytes == 1) ADD_LEAVES(uint8_t);
    else ADD_LEAVES(uint16_t);
#undef ADD_LEAVES
}

/* Where a grown tree goes: arrays of max_leaves splits, max_leaves leaves and m rows, whose leaves take 1 or 2 bytes. */
typedef struct {
    int32_t *feature, *pos, *right, *n_splits;
    uint8_t *nan_left;
    double *gain, *value;
    void *leaf;
    int32_t leaf_bytes;
} pmb_tree_out;

/* The place of tree j, from that of tree 0. */
PMB_INLINE pmb_tree_out pmb_out_of(pmb_tree_out out, int64_t j, int64_t max_leaves, int64_t m) {
    out.feature += j * max_leaves;
    out.pos += j * max_leaves;
    out.right += j * max_leaves;
    out.n_splits += j;
    out.nan_left += j * max_leaves;
    out.gain += j * max_leaves;
    out.value += j * max_leaves;
    out.leaf = (char *)out.leaf + j * m * out.leaf_bytes;
    return out;
}

PMB_INLINE void pmb_set_leaf(const pmb_tree_out *out, int64_t row, int leaf) {
    if (out->leaf_bytes == 1) ((uint8_t *)out->leaf)[row] = (uint8_t)leaf;
    else ((uint16_t *)out->leaf)[row] = (uint16_t)leaf;
}

PMB_STATIC void pmb_work_free(pmb_grow_work *w) {
    free(w->gh);
    free(w->gathered);
    free(w->memory);
    free(w->rows);
    free(w->free_slots);
    free(w->nodes);
    free(w->found);
    free(w->goes_left);
    free(w->order);
    free(w->busy);
    memset(w, 0, sizeof *w);
}

/* Memory for growing trees one after the other; 0 if there is not enough (then nothing is held). */
PMB_STATIC int pmb_work_new(pmb_grow_work *w, const pmb_tree_data *d, const pmb_grow_options *o) {
    size_t m = (size_t)d->m, J = (size_t)o->max_leaves, parts = (size_t)d->n_tiles + 1;
    size_t words = (size_t)o->planes * (size_t)d->tile_cell[d->n_tiles + 1] * (o->pool ? J : 1);
    memset(w, 0, sizeof *w);
    w->gh = malloc(sizeof(int64_t) * (size_t)o->planes * m);
    w->gathered = malloc(sizeof(int64_t) * (size_t)o->planes * m);
    w->memory = malloc(sizeof(int64_t) * words + 64);
    w->rows = calloc(m + PMB_AHEAD, sizeof(int32_t));
    w->free_slots = malloc(sizeof(int32_t) * (J + 1));
    w->nodes = malloc(sizeof(pmb_node) * 2 * J);
    w->found = malloc(sizeof(pmb_split) * 2 * parts);
    w->goes_left = malloc(65536);
    w->order = malloc(sizeof(int32_t) * 8 * J);
    w->busy = malloc(d->busy ? ((size_t)d->n_tiles + 7) / 8 * m : 1);
    if (!w->gh || !w->gathered || !w->memory || !w->rows || !w->free_slots || !w->nodes || !w->found ||
        !w->goes_left || !w->order || !w->busy) {
        pmb_work_free(w);
        return 0;
    }
    w->hist = (int64_t *)(((uintptr_t)w->memory + 63) / 64 * 64);
    return 1;
}

/* Take back splits whose two leaves have the same sign of g, but for that of the root, so that a tree is never without
 * any. Children come after their parents. */
PMB_STATIC void pmb_prune_signs(pmb_node *nodes, int n_nodes) {
    for (int j = n_nodes - 1; j > 0; j--) {
        if (nodes[j].left < 0) continue;
        const pmb_node *l = nodes + nodes[j].left, *r = nodes + nodes[j].right;
        if (l->left < 0 && r->left < 0 && (l->sums.g < 0) == (r->sums.g < 0)) nodes[j].left = -1;
    }
}

/* Grow on the gradients in w->gh, on the rows of the sample (NULL: all), and write the tree without its leaf values;
 * w->order + 2 * max_leaves then lists the node of each leaf. Returns the number of leaves. */
PMB_STATIC int pmb_grow_to(const pmb_tree_data *d, const pmb_grow_options *o, pmb_grow_work *w, const int32_t *sample,
                           int64_t n_sample, double unit, int prune, const pmb_tree_out *out) {
    int J = o->max_leaves;
    int32_t *order = w->order, *right = order + J, *leaves = right + J, *stack = leaves + J;
    int64_t n = sample ? n_sample : d->m;
    for (int64_t i = 0; i < n; i++) w->rows[i] = sample ? sample[i] : (int32_t)i;
    int n_nodes = pmb_grow(d, o, w, n);
    if (prune) pmb_prune_signs(w->nodes, n_nodes);
    const pmb_node *nodes = w->nodes;
    int splits = pmb_preorder(nodes, stack, order, right, leaves);
    *out->n_splits = splits;
    for (int j = 0; j < splits; j++) {
        const pmb_node *node = nodes + order[j];
        out->feature[j] = node->best.feature;
        out->pos[j] = node->best.pos;
        out->nan_left[j] = (uint8_t)node->best.nan_left;
        out->right[j] = right[j];
        out->gain[j] = node->gain * unit;
    }
    for (int j = 0; j <= splits; j++) {
        const pmb_node *node = nodes + leaves[j];
        for (int64_t i = node->start; i < node->start + node->n; i++) pmb_set_leaf(out, w->rows[i], j);
    }
    if (sample) { /* the others go down the tree; where the sample was w->rows itself, some of it goes once more */
        int32_t *number = stack;
        int64_t next = 0;
        for (int j = 0; j <= splits; j++) number[leaves[j]] = j;
        for (int64_t i = 0; i < d->m; i++) {
            if (next < n_sample && sample[next] == i) next++;
            else pmb_set_leaf(out, i, number[pmb_leaf_of(d, nodes, i)]);
        }
    }
    return splits + 1;
}

/* One tree of mart or logitboost for class k against base class b (-1: none). S: see softmax_body.h. */
PMB_STATIC void pmb_softmax_tree(const pmb_tree_data *d, const pmb_grow_options *o, pmb_grow_work *w, const void *S,
                                 int is_double, int K, int k, int b, const int32_t *y, const int64_t *class_start,
                                 const double *weight, int counts, pmb_scale scale, const int32_t *sample,
                                 int64_t n_sample, double shrinkage, double cap, const pmb_tree_out *out) {
    int64_t m = d->m;
    const float *pf = (const float *)S + k * m, *qf = b < 0 ? pf : (const float *)S + b * m;
    const double *pd = (const double *)S + k * m, *qd = b < 0 ? pd : (const double *)S + b * m;
    for (int c = 0; c < K; c++) {
        int64_t from = class_start[c], to = class_start[c + 1];
        int r = (c == k) - (c == b);
        if (is_double) pmb_quantise_2_d_0(pd, qd, from, to, r, weight, counts, scale, w->gh);
        else if (o->planes == 2) pmb_quantise_2_f_0(pf, qf, from, to, r, weight, counts, scale, w->gh);
        else pmb_quantise_1_f_0(pf, qf, from, to, r, weight, counts, scale, w->gh);
    }
    int n_leaves = pmb_grow_to(d, o, w, sample, n_sample, scale.h / (scale.g * scale.g), 0, out);
    const int32_t *leaves = w->order + 2 * o->max_leaves;
    for (int j = 0; j < n_leaves; j++) {
        const pmb_node *node = w->nodes + leaves[j];
        double sums[2] = {(double)node->sums.g / scale.g, (double)node->sums.h / scale.h}, v;
        if (counts || node->sums.h < PMB_RESOLVED * node->n) {
            const int32_t *rows = w->rows + node->start;
            if (is_double) pmb_leaf_sums_d_0(pd, qd, y, k, b, rows, node->n, weight, sums);
            else pmb_leaf_sums_f_0(pf, qf, y, k, b, rows, node->n, weight, sums);
        }
        v = sums[0] / (sums[1] > 1e-300 ? sums[1] : 1e-300);
        v = v > cap ? cap : v < -cap ? -cap : v;
        out->value[j] = (double)(float)(v * shrinkage);
    }
}

/* One binary tree with leaves +-1 for one class: g = a, h = |a|, a being every stride-th number of A. Its leaves are the
 * signs of their sums of a; where it is grown by the Newton gain, which here is Gini's, leaves of one sign that lie beside
 * each other are pruned. Returns its edge, the sum of a_i h(x_i).
 * Rows with a = 0 take no part: in a leaf of their own they would get a sign that nothing speaks for.
 * The integers are a / unit times a power of two: as long as all a are whole multiples of the unit, ties are ties. */
PMB_STATIC double pmb_edge_tree(const pmb_tree_data *d, const pmb_grow_options *o, pmb_grow_work *w, const void *A,
                                int is_double, int stride, const double *weight, double limit, double unit,
                                double per_count, const pmb_tree_out *out) {
    double sum = 0, edge = 0;
    int64_t n_drawn = 0;
#define A_OF(i) (is_double ? ((const double *)A)[(i) * stride] : (double)((const float *)A)[(i) * stride])
    for (int64_t i = 0; i < d->m; i++) {
        sum += fabs(A_OF(i));
        if (A_OF(i) != 0) w->rows[n_drawn++] = (int32_t)i;
    }
    int exponent;
    frexp(limit * (unit / (sum > 1e-250 * unit ? sum : 1e-250 * unit)), &exponent);
    double scale = ldexp(0.5, exponent) / unit;
    for (int64_t i = 0; i < d->m; i++) {
        double g = A_OF(i) * scale;
        if (o->planes == 2) {
            pmb_pack_2(g, fabs(g) / 256, weight ? weight[i] * per_count : per_count, w->gh + 2 * i);
        } else {
            int32_t gq = (int32_t)(g + (g < 0 ? -0.5 : 0.5)), hq = gq < 0 ? -gq : gq;
            w->gh[i] = (int64_t)((uint64_t)(int64_t)gq << 32) + (hq < 1 ? 1 : hq);
        }
    }
#undef A_OF
    const int32_t *sample = n_drawn < d->m && n_drawn > 0 ? w->rows : NULL;
    int n_leaves = pmb_grow_to(d, o, w, sample, n_drawn, 1 / scale, !o->edge, out);
    const int32_t *leaves = w->order + 2 * o->max_leaves;
    for (int j = 0; j < n_leaves; j++) {
        int64_t g = w->nodes[leaves[j]].sums.g;
        out->value[j] = g < 0 ? -1 : 1;
        edge += fabs((double)g);
    }
    return edge / scale;
}

/* One regression tree on targets that depend on a row's class alone: g = weight * g_of[class], h = weight * h_of[class].
 * Leaf values are sum g / sum h, summed row by row. Rows of weight 0 take no part. */
PMB_STATIC void pmb_class_tree(const pmb_tree_data *d, const pmb_grow_options *o, pmb_grow_work *w,
                               const double *weight, const int32_t *y, const double *g_of, const double *h_of,
                               pmb_scale scale, const pmb_tree_out *out) {
    int64_t n_drawn = 0;
    for (int64_t i = 0; i < d->m; i++) {
        double g = weight[i] * g_of[y[i]] * scale.g, h = weight[i] * h_of[y[i]] * scale.h;
        if (weight[i] > 0) w->rows[n_drawn++] = (int32_t)i;
        if (o->planes == 2) {
            pmb_pack_2(g, h, scale.n, w->gh + 2 * i);
        } else {
            int32_t gq = (int32_t)(g + (g < 0 ? -0.5 : 0.5)), hq = (int32_t)(h + 0.5);
            w->gh[i] = (int64_t)((uint64_t)(int64_t)gq << 32) + (hq < 1 ? 1 : hq);
        }
    }
    const int32_t *sample = n_drawn < d->m && n_drawn > 0 ? w->rows : NULL;
    int n_leaves = pmb_grow_to(d, o, w, sample, n_drawn, scale.h / (scale.g * scale.g), 0, out);
    const int32_t *leaves = w->order + 2 * o->max_leaves;
    for (int j = 0; j < n_leaves; j++) {
        const pmb_node *node = w->nodes + leaves[j];
        double g = 0, h = 0;
        for (int64_t i = node->start; i < node->start + node->n; i++) {
            int32_t row = w->rows[i];
            g += weight[row] * g_of[y[row]];
            h += weight[row] * h_of[y[row]];
        }
        out->value[j] = (double)(float)(g / (h > 1e-300 ? h : 1e-300));
    }
}

#endif
