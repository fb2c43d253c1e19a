/* One step on all free variables of the SVM's dual (see svmdual.h) for a linear kernel: the system of their optimality
 * and of the constraint is solved, and the step goes to the first bound that it meets. */
#ifndef PYMCBOOST_SVMNEWTON_H
#define PYMCBOOST_SVMNEWTON_H

#include "products.h"
#include "svmdual.h"

/* Terms that are added in eight chains, before longer sums are halved: the order of NumPy's sums. */
#define PMB_SUM_TERMS 128

typedef enum {
    PMB_FREE_NONE,
    PMB_FREE_SINGULAR,
    PMB_FREE_BOUND,
    PMB_FREE_DONE,
    PMB_FREE_MEMORY
} pmb_free_state;

/* Sum of n numbers that stand `stride` apart. */
PMB_STATIC double pmb_pairwise_sum(const double *a, int64_t n, int64_t stride) {
    if (n < 8) {
        double sum = 0.0;
        for (int64_t k = 0; k < n; k++) sum += a[k * stride];
        return sum;
    }
    if (n <= PMB_SUM_TERMS) {
        double r[8], sum;
        int64_t k = 8;
        for (int j = 0; j < 8; j++) r[j] = a[j * stride];
        for (; k < n - n % 8; k += 8)
            for (int j = 0; j < 8; j++) r[j] += a[(k + j) * stride];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for (; k < n; k++) sum += a[k * stride];
        return sum;
    }
    {
        const int64_t half = n / 2 - n / 2 % 8;
        return pmb_pairwise_sum(a, half, stride) +
               pmb_pairwise_sum(a + half * stride, n - half, stride);
    }
}

/* Buffers of a step: w (d,), and of n free rows their float32 values (n, d), the same in float64, the system
 * (n + 1, n + 1), K (n, n), and the right side, which becomes the step (n + 1,). */
typedef struct {
    double *w, *Z, *system, *K, *step;
    float *rows;
} pmb_free_work;

PMB_INLINE int pmb_free_take(pmb_free_work *work, int64_t n, int64_t d) {
    const size_t size = (size_t)n * (size_t)d, edge = (size_t)n + 1;
    double *at = malloc((d + size + edge * edge + (size_t)n * n + edge) * sizeof(double) +
                        size * sizeof(float));
    work->w = at;
    if (at == NULL) return 0;
    work->Z = at + d;
    work->system = work->Z + size;
    work->K = work->system + edge * edge;
    work->step = work->K + (size_t)n * n;
    work->rows = (float *)(work->step + edge);
    return 1;
}

/* Fill the system of the free rows and its right side. */
PMB_INLINE void pmb_free_system(const pmb_svm_rows *X, const pmb_free_work *work,
                                const int32_t *row, int64_t n, const double *target,
                                const double *beta, double ridge) {
    const int64_t d = X->d, edge = n + 1;
    double added;
    memset(work->w, 0, (size_t)d * sizeof(double));
    for (int64_t i = 0; i < X->n; i++)
        if (beta[i] != 0.0) pmb_svm_row_add(X, i, beta[i], work->w);
    for (int64_t i = 0; i < n; i++) {
        float *values = work->rows + i * d;
        if (X->ptr == NULL) {
            memcpy(values, X->data + row[i] * d, (size_t)d * sizeof(float));
        } else {
            memset(values, 0, (size_t)d * sizeof(float));
            for (int64_t k = X->ptr[row[i]]; k < X->ptr[row[i] + 1]; k++)
                values[X->column[k]] += X->data[k];
        }
        for (int64_t j = 0; j < d; j++) work->Z[i * d + j] = (double)values[j];
        work->step[i] = target[row[i]] - pmb_svm_dot(work->w, values, d);
    }
    work->step[n] = 0.0;
    pmb_products(work->Z, work->Z, n, n, d, work->K);
    added = ridge * (pmb_pairwise_sum(work->K, n, edge) / (double)n);
    for (int64_t i = 0; i < n; i++) {
        memcpy(work->system + i * edge, work->K + i * n, (size_t)n * sizeof(double));
        work->system[i * edge + i] += added;
        work->system[i * edge + n] = work->system[n * edge + i] = 1.0;
    }
    work->system[n * edge + n] = 0.0;
}

/* A step; row: (m,) scratch, beta: IN/OUT, n: OUT the free rows, bias: OUT where the step is whole. NONE where fewer
 * than 2 or more than `most` rows are free. */
PMB_STATIC pmb_free_state pmb_free_step(const pmb_svm_rows *X, const double *target,
                                        const double *lo, const double *hi, double *beta,
                                        int32_t *row, int64_t most, double ridge, int64_t *n,
                                        double *bias) {
    pmb_free_work work;
    pmb_free_state state = PMB_FREE_SINGULAR;
    int64_t free_rows = 0, first = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < X->n; i++)
        if (beta[i] > lo[i] && beta[i] < hi[i]) row[free_rows++] = (int32_t)i;
    *n = free_rows;
    if (free_rows < 2 || free_rows > most) return PMB_FREE_NONE;
    if (!pmb_free_take(&work, free_rows, X->d)) return PMB_FREE_MEMORY;
    pmb_free_system(X, &work, row, free_rows, target, beta, ridge);
    if (!pmb_solve(work.system, work.step, free_rows + 1)) goto end;
    for (int64_t k = 0; k <= free_rows; k++)
        if (work.step[k] - work.step[k] != 0.0) goto end;
    for (int64_t k = 0; k < free_rows; k++) {
        const int32_t i = row[k];
        const double step = work.step[k], room = step > 0.0 ? hi[i] - beta[i] : beta[i] - lo[i];
        const double share = step != 0.0 ? room / fabs(step) : INFINITY;
        if (share < least) {
            least = share;
            first = k;
        }
    }
    if (least >= 1.0) {
        for (int64_t k = 0; k < free_rows; k++) beta[row[k]] += work.step[k];
        *bias = work.step[free_rows];
        state = PMB_FREE_DONE;
        goto end;
    }
    for (int64_t k = 0; k < free_rows; k++) beta[row[k]] += least * work.step[k];
    beta[row[first]] = work.step[first] > 0.0 ? hi[row[first]] : lo[row[first]];
    for (int64_t i = 0; i < X->n; i++) {
        beta[i] = beta[i] > lo[i] ? beta[i] : lo[i];
        beta[i] = beta[i] < hi[i] ? beta[i] : hi[i];
    }
    state = PMB_FREE_BOUND;
end:
    free(work.w);
    return state;
}

#endif
