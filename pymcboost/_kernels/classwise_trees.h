/* The three kinds of class-wise trees: of mart and logitboost (pmb_softmax_job), with leaves -1 and +1 (pmb_edge_job), and on
 * targets that depend on the class only (pmb_class_job). Rounds their gradients, grows, and computes leaf values. */
#ifndef PYMCBOOST_CLASSWISE_TREES_H
#define PYMCBOOST_CLASSWISE_TREES_H

#include "classwise_grow.h"
#include "class_loss.h"

/* units of h per row from which integer sums are as good as the numbers behind them */
#define PMB_RESOLVED 1024

/* Where a grown tree goes: arrays of max_leaves splits in preorder, of max_leaves leaves, and of m rows. */
typedef struct {
    int32_t *feature, *pos, *right; /* by split; right: distance to the right child */
    int32_t *n_splits;
    uint8_t *nan_left;
    double *gain, *value; /* by split; by leaf */
    void *leaf;           /* (m,) leaf of every row */
    int32_t leaf_bytes;   /* of such a number, 1 or 2 */
    /* (max_leaves, set_words) levels on the left of categorical splits; NULL: there are none */
    uint64_t *sets;
    int32_t set_words;
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
    if (out.sets) out.sets += j * max_leaves * out.set_words;
    return out;
}

PMB_STATIC void pmb_set_leaves(void *of_row, int bytes, const int32_t *PMB_RESTRICT rows, int64_t n,
                               int leaf) {
    uint8_t *PMB_RESTRICT of8 = of_row;
    uint16_t *PMB_RESTRICT of16 = of_row;
    if (bytes == 1)
        for (int64_t i = 0; i < n; i++) of8[rows[i]] = (uint8_t)leaf;
    else
        for (int64_t i = 0; i < n; i++) of16[rows[i]] = (uint16_t)leaf;
}

/* Take back splits whose two leaves have the same sign of g, but for that of the root, so that a tree is never without
 * any. Children come after their parents. */
PMB_STATIC void pmb_prune_signs(pmb_cw_state *w) {
    pmb_node *nodes = w->grower.nodes;
    for (int j = w->grower.n_nodes - 1; j > 0; j--) {
        int left = nodes[j].left, right = nodes[j].right;
        if (!nodes[j].is_split || nodes[left].is_split || nodes[right].is_split) continue;
        if ((w->stats[left].sums.g < 0) == (w->stats[right].sums.g < 0)) nodes[j].is_split = 0;
    }
}

/* The rows of the sample (NULL: all) to w->grower.rows; returns how many. */
PMB_STATIC int64_t pmb_take_rows(pmb_cw_state *w, const int32_t *sample, int64_t n_sample) {
    int64_t n = sample ? n_sample : w->data->columns.m;
    for (int64_t i = 0; i < n; i++) w->grower.rows[i] = sample ? sample[i] : (int32_t)i;
    return n;
}

/* Leaves of the rows that took no part in growing, which are parted node by node. number: of each leaf, by node. */
PMB_STATIC void pmb_part_others(pmb_cw_state *w, const int32_t *number, const pmb_tree_out *out) {
    int64_t m = w->data->columns.m, n = w->grower.nodes[0].n, next = n;
    int32_t J = w->grower.max_leaves, *first = w->order + 8 * J, *size = first + 2 * J,
            *rows = w->grower.rows;
    uint8_t *drawn = memset(w->gh, 0, (size_t)m); /* the rows' numbers are not needed any more */
    for (int64_t i = 0; i < n; i++) drawn[rows[i]] = 1;
    for (int64_t i = 0; i < m; i++) {
        rows[next] = (int32_t)i;
        next += !drawn[i];
    }
    memset(size, 0, sizeof(int32_t) * (size_t)w->grower.n_nodes);
    first[0] = (int32_t)n;
    size[0] = (int32_t)(m - n);
    for (int32_t j = 0; j < w->grower.n_nodes; j++) { /* children come after their parents */
        const pmb_node *node = w->grower.nodes + j;
        if (!size[j]) continue;
        if (!node->is_split) {
            pmb_set_leaves(out->leaf, out->leaf_bytes, rows + first[j], size[j], number[j]);
            continue;
        }
        first[node->left] = first[j];
        size[node->left] = (int32_t)pmb_cw_part_rows(w, node, rows + first[j], size[j]);
        first[node->right] = first[j] + size[node->left];
        size[node->right] = size[j] - size[node->left];
    }
}

/* Write the tree that has been grown, without its leaf values. Returns the number of leaves; see `pmb_leaf_node`. */
PMB_STATIC int pmb_write_tree(pmb_cw_state *w, double unit, const pmb_tree_out *out) {
    int32_t J = w->grower.max_leaves, *order = w->order, *right = order + J, *leaves = right + J,
            *stack = leaves + J;
    const pmb_node *nodes = w->grower.nodes;
    int splits = pmb_preorder(nodes, stack, order, right, leaves);
    *out->n_splits = splits;
    for (int j = 0; j < splits; j++) {
        const pmb_node *node = nodes + order[j];
        out->feature[j] = node->feature;
        out->pos[j] = node->pos;
        out->nan_left[j] = (uint8_t)node->nan_left;
        out->right[j] = right[j];
        out->gain[j] = node->gain * unit;
        if (node->set)
            memcpy(out->sets + j * (int64_t)out->set_words, node->set,
                   sizeof(uint64_t) * pmb_set_words(&w->data->columns, node->feature));
    }
    for (int j = 0; j <= splits; j++) {
        const pmb_node *node = nodes + leaves[j];
        pmb_set_leaves(out->leaf, out->leaf_bytes, w->grower.rows + node->start, node->n, j);
    }
    int32_t *number = stack;
    for (int j = 0; j <= splits; j++) number[leaves[j]] = j;
    if (w->grower.nodes[0].n < w->data->columns.m) pmb_part_others(w, number, out);
    return splits + 1;
}

/* Grow on the gradients in w->gh, on the rows of the sample, and write the tree. */
PMB_STATIC int pmb_grow_to(pmb_cw_state *w, const int32_t *sample, int64_t n_sample, double unit,
                           const pmb_tree_out *out) {
    pmb_cw_grow(w, pmb_take_rows(w, sample, n_sample));
    return pmb_write_tree(w, unit, out);
}

/* Node of leaf j of the tree just grown. */
PMB_INLINE int32_t pmb_leaf_node(const pmb_cw_state *w, int j) {
    return w->order[2 * w->grower.max_leaves + j];
}

/* A tree of mart or logitboost for class k, against base class b if it is not -1. */
typedef struct {
    const void *S;              /* (K, m) what is left to learn, see class_loss_body.h */
    const int32_t *y;           /* (m,) classes of the rows */
    const int64_t *class_start; /* (K + 1,) first row of each class */
    const double *weight;       /* (m,); NULL: all are 1 */
    int32_t is_double, K, k, b;
    int32_t counts; /* 1: the gain has weights in place of h (mart) */
    pmb_scale scale;
    double shrinkage, cap; /* leaf value = shrinkage * clip(sum g / (sum h + l2), -cap, cap) */
    double level_cost;     /* gain that a set of levels loses for every level in parts beyond two */
    const double *magic, *unit; /* (PMB_PARTS,) of the sums of leaves */
    const int32_t *sample;      /* (n_sample,) rows to grow on, ascending; NULL: all */
    int64_t n_sample;
} pmb_softmax_job;

/* What a gain in the integers of a job is in gradients. */
PMB_INLINE double pmb_job_unit(const pmb_softmax_job *job) {
    return job->scale.h / (job->scale.g * job->scale.g);
}

/* The row of S of a class. */
PMB_INLINE const void *pmb_row_of(const pmb_cw_state *w, const pmb_softmax_job *job, int cls) {
    return (const char *)job->S +
           cls * w->data->columns.m *
               (job->is_double ? (int64_t)sizeof(double) : (int64_t)sizeof(float));
}

/* The integers of a tree, its limits and its draws. */
PMB_STATIC void pmb_softmax_begin(pmb_cw_state *w, const pmb_softmax_job *job) {
    const pmb_cw_options *options = w->options;
    int k = job->k, b = job->b, K = job->K, counts = job->counts, of_b = b < 0 ? k : b;
    int low = k < of_b ? k : of_b, high = k + of_b - low; /* (k, b) draws what (b, k) does */
    const pmb_scale scale = job->scale;
    const void *S_k = pmb_row_of(w, job, k), *S_b = pmb_row_of(w, job, of_b);
    for (int c = 0; c < K; c++) {
        int64_t from = job->class_start[c], to = job->class_start[c + 1];
        int target = (c == k) - (c == b);
        if (options->cell_words == 1)
            pmb_quantise_1_f_0(S_k, S_b, from, to, target, job->weight, counts, scale, w->gh);
        else
            PMB_REAL(pmb_quantise_2_, job->is_double, S_k, S_b, from, to, target, job->weight,
                     counts, scale, options->count_bits, w->gh);
    }
    pmb_set_limits(&w->limits, options, counts ? 0 : options->l2 * scale.h,
                   options->min_hessian * scale.h * (1 - 1e-9));
    w->limits.level_cost = job->level_cost / pmb_job_unit(job);
    w->grower.min_gain = options->min_gain / pmb_job_unit(job);
    w->key =
        pmb_mix(options->key + ((uint64_t)low * (uint64_t)K + (uint64_t)high + 1) * PMB_GOLDEN);
}

/* Sums of g and h of the rows of leaf j that are here, where its integers do not resolve them: to sums (2, PMB_PARTS). */
PMB_STATIC void pmb_softmax_sums(const pmb_cw_state *w, const pmb_softmax_job *job, int j,
                                 int64_t *sums) {
    int32_t node_index = pmb_leaf_node(w, j);
    const pmb_node *node = w->grower.nodes + node_index;
    const int32_t *rows = w->grower.rows + node->start;
    int of_b = job->b < 0 ? job->k : job->b;
    memset(sums, 0, sizeof(int64_t) * 2 * PMB_PARTS);
    if (!job->counts && w->stats[node_index].sums.h >= PMB_RESOLVED * w->stats[node_index].rows)
        return;
    PMB_REAL(pmb_leaf_sums_, job->is_double, pmb_row_of(w, job, job->k), pmb_row_of(w, job, of_b),
             job->y, job->k, job->b, rows, node->n, job->weight, job->magic, sums);
}

/* Value of leaf j, from the `pmb_softmax_sums` of the rows of all workers. */
PMB_STATIC double pmb_softmax_value(const pmb_cw_state *w, const pmb_softmax_job *job, int j,
                                    const int64_t *sums) {
    int32_t node_index = pmb_leaf_node(w, j);
    const pmb_sums *total = &w->stats[node_index].sums;
    double g = (double)total->g / job->scale.g, h = (double)total->h / job->scale.h, value;
    if (job->counts || total->h < PMB_RESOLVED * w->stats[node_index].rows) {
        g = pmb_of_parts(sums, job->unit);
        h = pmb_of_parts(sums + PMB_PARTS, job->unit);
    }
    h += w->options->l2;
    value = g / (h > 1e-300 ? h : 1e-300);
    value = value > job->cap ? job->cap : value < -job->cap ? -job->cap : value;
    return (double)(float)(value * job->shrinkage);
}

/* One tree. */
PMB_STATIC void pmb_softmax_tree(pmb_cw_state *w, const pmb_softmax_job *job, pmb_tree_out out) {
    pmb_softmax_begin(w, job);
    int n_leaves = pmb_grow_to(w, job->sample, job->n_sample, pmb_job_unit(job), &out);
    for (int j = 0; j < n_leaves; j++) {
        int64_t sums[2 * PMB_PARTS];
        pmb_softmax_sums(w, job, j, sums);
        out.value[j] = pmb_softmax_value(w, job, j, sums);
    }
}

/* Round the pair of one row; n is taken by cells with a count. */
PMB_INLINE void pmb_pack(pmb_cw_state *w, int64_t row, double g, double h, double n) {
    if (w->options->cell_words == 2) {
        pmb_pack_2(g, h, n, w->options->count_bits, w->gh + 2 * row);
    } else {
        int32_t whole_g = (int32_t)(g + (g < 0 ? -0.5 : 0.5)), whole_h = (int32_t)(h + 0.5);
        w->gh[row] = (int64_t)((uint64_t)(int64_t)whole_g << 32) + (whole_h < 1 ? 1 : whole_h);
    }
}

/* A tree with leaves -1 and +1 for one class: g = a and h = |a|, where a is every stride-th number of A. */
typedef struct {
    const void *A;
    const double *weight; /* (m,); NULL: all are 1 */
    double limit;         /* units that the sum of |a| may have */
    double unit;          /* what all a are whole multiples of, as far as they are */
    double per_count;     /* units of a weight of 1 */
    double size;  /* a bound of the sum of |a| of all workers; below 0: the sum of the rows here */
    double scale; /* OUT units per 1 of a */
    int32_t is_double, stride;
    int64_t n, n_all; /* rows with a != 0: here, and of all workers */
} pmb_edge_job;

PMB_INLINE double pmb_edge_a(const pmb_edge_job *job, int64_t i) {
    return job->is_double ? ((const double *)job->A)[i * job->stride]
                          : (double)((const float *)job->A)[i * job->stride];
}

/* Largest |a| of m rows. */
PMB_STATIC double pmb_edge_top(const pmb_edge_job *job, int64_t m) {
    double top = 0;
    for (int64_t i = 0; i < m; i++) top = fmax(top, fabs(pmb_edge_a(job, i)));
    return top;
}

/* Sum of |a| of m rows, each rounded to so many units by 1; the rows with a != 0 are counted. */
PMB_STATIC int64_t pmb_edge_size(const pmb_edge_job *job, int64_t m, double scale, int64_t *count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < m; i++) {
        double a = fabs(pmb_edge_a(job, i));
        sum += (int64_t)(a * scale + 0.5);
        *count += a != 0;
    }
    return sum;
}

/* List the rows with a != 0 and round all.
 * Rows with a = 0 take no part: in a leaf of their own they would get a sign that nothing speaks for.
 * The integers are a / unit times a power of two: as long as all a are whole multiples of the unit, ties are ties. */
PMB_STATIC void pmb_edge_begin(pmb_cw_state *w, pmb_edge_job *job) {
    double sum = 0, limit = job->limit, unit = job->unit;
    int64_t n = 0, m = w->data->columns.m;
    for (int64_t i = 0; i < m; i++) {
        double a = pmb_edge_a(job, i);
        sum += fabs(a);
        if (a != 0) w->grower.rows[n++] = (int32_t)i;
    }
    if (job->size >= 0)
        sum = job->size;
    else
        job->n_all = n;
    job->n = n;
    int exponent;
    frexp(limit * (unit / (sum > 1e-250 * unit ? sum : 1e-250 * unit)), &exponent);
    double scale = job->scale = ldexp(0.5, exponent) / unit,
           h_factor = w->options->count_bits ? ldexp(1, 16 - w->options->count_bits) : 1;
    for (int64_t i = 0; i < m; i++) {
        double g = pmb_edge_a(job, i) * scale;
        pmb_pack(w, i, g, fabs(g) * h_factor,
                 job->weight ? job->weight[i] * job->per_count : job->per_count);
    }
}

/* The rows that the tree is grown on, NULL: all; they stand in w->grower.rows. Where no row has a gradient, all take part. */
PMB_INLINE const int32_t *pmb_edge_sample(const pmb_cw_state *w, const pmb_edge_job *job) {
    return job->n < w->data->columns.m && job->n_all > 0 ? w->grower.rows : NULL;
}

/* Leaves of the tree that was grown: the signs of their sums of a. Returns its edge, the sum of a_i h(x_i). */
PMB_STATIC double pmb_edge_leaves(const pmb_cw_state *w, const pmb_edge_job *job, int n_leaves,
                                  double *value) {
    double edge = 0;
    for (int j = 0; j < n_leaves; j++) {
        int64_t g = w->stats[pmb_leaf_node(w, j)].sums.g;
        value[j] = g < 0 ? -1 : 1;
        edge += fabs((double)g);
    }
    return edge / job->scale;
}

/* Write the tree that was grown; its edge. Where it was grown by the Newton gain, which here is Gini's, leaves of one sign
 * that lie beside each other are pruned. */
PMB_STATIC double pmb_edge_write(pmb_cw_state *w, const pmb_edge_job *job, pmb_tree_out out) {
    if (!w->options->edge) pmb_prune_signs(w);
    int n_leaves = pmb_write_tree(w, 1 / job->scale, &out);
    return pmb_edge_leaves(w, job, n_leaves, out.value);
}

/* One tree; its edge. */
PMB_STATIC double pmb_edge_tree(pmb_cw_state *w, pmb_edge_job *job, pmb_tree_out out) {
    pmb_edge_begin(w, job);
    pmb_cw_grow(w, pmb_take_rows(w, pmb_edge_sample(w, job), job->n));
    return pmb_edge_write(w, job, out);
}

/* A regression tree on targets that depend only on a row's class: g = weight * g_of[class], h = weight * h_of[class]. Leaf
 * values are sum g / sum h, of sums in parts, so the order of the rows does not matter. Rows of weight 0 take no part. */
typedef struct {
    const double *weight;      /* (m,) */
    const int32_t *y;          /* (m,) classes of the rows */
    const double *g_of, *h_of; /* (K,) */
    pmb_scale scale;
    const double *unit, *magic; /* (PMB_PARTS,) of the sums of leaves */
} pmb_class_job;

/* Sum g / sum h of n rows. */
PMB_STATIC double pmb_class_value(const pmb_class_job *job, const int32_t *rows, int64_t n) {
    double G[PMB_LEAF_ROWS], H[PMB_LEAF_ROWS];
    int64_t sums[2][PMB_PARTS] = {{0}, {0}};
    for (int64_t start = 0; start < n; start += PMB_LEAF_ROWS) {
        int here = n - start < PMB_LEAF_ROWS ? (int)(n - start) : PMB_LEAF_ROWS;
        for (int j = 0; j < here; j++) {
            int32_t row = rows[start + j];
            G[j] = job->weight[row] * job->g_of[job->y[row]];
            H[j] = job->weight[row] * job->h_of[job->y[row]];
        }
        pmb_add_parts(G, here, job->magic, sums[0]);
        pmb_add_parts(H, here, job->magic, sums[1]);
    }
    double h = pmb_of_parts(sums[1], job->unit);
    return (double)(float)(pmb_of_parts(sums[0], job->unit) / (h > 1e-300 ? h : 1e-300));
}

PMB_STATIC void pmb_class_tree(pmb_cw_state *w, const pmb_class_job *job, pmb_tree_out out) {
    const double *weight = job->weight;
    const pmb_scale scale = job->scale;
    int64_t n_drawn = 0, m = w->data->columns.m;
    for (int64_t i = 0; i < m; i++) {
        int32_t c = job->y[i];
        if (weight[i] > 0) w->grower.rows[n_drawn++] = (int32_t)i;
        pmb_pack(w, i, weight[i] * job->g_of[c] * scale.g, weight[i] * job->h_of[c] * scale.h,
                 scale.n);
    }
    const int32_t *sample = n_drawn < m && n_drawn > 0 ? w->grower.rows : NULL;
    int n_leaves = pmb_grow_to(w, sample, n_drawn, scale.h / (scale.g * scale.g), &out);
    for (int j = 0; j < n_leaves; j++) {
        const pmb_node *node = w->grower.nodes + pmb_leaf_node(w, j);
        out.value[j] = pmb_class_value(job, w->grower.rows + node->start, node->n);
    }
}

#endif
