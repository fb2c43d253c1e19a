/* The dual of the margin-rescaled SVM in signed variables: beta_i = s_i alpha_i between lo_i and hi_i (0 and s_i c),
 *     maximise sum_i t_i beta_i - 1/2 sum_ij beta_i beta_j K_ij   subject to   sum_i beta_i = 0,   t_i = s_i d_i.
 * Its gradient without the constraint is E_i = t_i - sum_j K_ij beta_j. It is solved to tol when no beta that may rise
 * has an E more than tol above that of one that may fall: LIBSVM's criterion. */
#ifndef PYMCBOOST_SVMDUAL_H
#define PYMCBOOST_SVMDUAL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

/* Rows are padded to this many: a whole number of lanes, and of searches for the place of a maximum. */
#define PMB_SVM_BLOCK 64
#define PMB_SVM_LANES 8
#define PMB_SVM_TAU 1e-12

/* E -= step (a - b); the largest E + up, and the block of rows it is in. up: 0 where beta may rise, -inf elsewhere. */
PMB_CLONES PMB_STATIC double pmb_svm_move(double *PMB_RESTRICT E, const double *PMB_RESTRICT up,
                                          const float *PMB_RESTRICT a, const float *PMB_RESTRICT b,
                                          double step, int64_t n, int64_t *block) {
    double best = -INFINITY;
    *block = 0;
    for (int64_t at = 0; at < n; at += PMB_SVM_BLOCK) {
        double top[PMB_SVM_LANES], largest;
        PMB_LANES(l, PMB_SVM_LANES) top[l] = -INFINITY;
        for (int64_t k = at; k < at + PMB_SVM_BLOCK; k += PMB_SVM_LANES) {
            PMB_LANES(l, PMB_SVM_LANES) {
                const double e = E[k + l] - step * ((double)a[k + l] - (double)b[k + l]);
                const double v = e + up[k + l];
                E[k + l] = e;
                top[l] = v > top[l] ? v : top[l];
            }
        }
        largest = top[0];
        PMB_LANES(l, PMB_SVM_LANES) largest = top[l] > largest ? top[l] : largest;
        if (largest > best) {
            best = largest;
            *block = at;
        }
    }
    return best;
}

/* The partner of a row with gradient e and kernel row a: the largest gain (e - E)^2 / curvature among the rows below e
 * that may fall; its block, the gain, and the smallest E of all that may fall. down: 0 where beta may fall, inf
 * elsewhere. */
PMB_CLONES PMB_STATIC double
pmb_svm_partner(const double *PMB_RESTRICT E, const double *PMB_RESTRICT down,
                const float *PMB_RESTRICT a, const double *PMB_RESTRICT diagonal, double e,
                double own, int64_t n, int64_t *block, double *smallest) {
    double best = 0.0, low = INFINITY;
    *block = -1;
    for (int64_t at = 0; at < n; at += PMB_SVM_BLOCK) {
        double top[PMB_SVM_LANES], least[PMB_SVM_LANES], largest;
        PMB_LANES(l, PMB_SVM_LANES) {
            top[l] = 0.0;
            least[l] = INFINITY;
        }
        for (int64_t k = at; k < at + PMB_SVM_BLOCK; k += PMB_SVM_LANES) {
            PMB_LANES(l, PMB_SVM_LANES) {
                const double v = E[k + l] + down[k + l];
                const double gap = e - v > 0.0 ? e - v : 0.0;
                const double curve = own + diagonal[k + l] - 2.0 * (double)a[k + l];
                const double gain = gap * gap / (curve > PMB_SVM_TAU ? curve : PMB_SVM_TAU);
                least[l] = v < least[l] ? v : least[l];
                top[l] = gain > top[l] ? gain : top[l];
            }
        }
        largest = top[0];
        PMB_LANES(l, PMB_SVM_LANES) {
            largest = top[l] > largest ? top[l] : largest;
            low = least[l] < low ? least[l] : low;
        }
        if (largest > best) {
            best = largest;
            *block = at;
        }
    }
    *smallest = low;
    return best;
}

/* Pairwise steps (SMO with second-order selection: Fan, Chen and Lin 2005) on a kernel in memory, float32, n rows with
 * n a multiple of PMB_SVM_BLOCK; padding has lo = hi = 0. beta and E: IN a feasible start, OUT. Returns the steps; where
 * they are max_steps, another call goes on with the same bits. */
PMB_STATIC int64_t pmb_svm_smo(const float *K, int64_t n, const double *diagonal, const double *lo,
                               const double *hi, double *beta, double *E, double *up, double *down,
                               double tol, int64_t max_steps, double *violation) {
    int64_t steps = 0, block, i, j;
    double step = 0.0, low = 0.0;
    for (i = 0; i < n; i++) {
        up[i] = beta[i] < hi[i] ? 0.0 : -INFINITY;
        down[i] = beta[i] > lo[i] ? 0.0 : INFINITY;
    }
    i = j = 0;
    for (;;) {
        const double e = pmb_svm_move(E, up, K + i * n, K + j * n, step, n, &block);
        const float *row;
        double gain, gap, curve;
        for (i = block; i < block + PMB_SVM_BLOCK - 1 && E[i] + up[i] != e; i++) {
        }
        row = K + i * n;
        gain = pmb_svm_partner(E, down, row, diagonal, e, diagonal[i], n, &block, &low);
        *violation = e - low > 0.0 ? e - low : 0.0;
        if (e - low <= tol || gain <= 0.0 || steps == max_steps) return steps;
        for (j = block; j < block + PMB_SVM_BLOCK - 1; j++) {
            const double v = E[j] + down[j];
            gap = e - v > 0.0 ? e - v : 0.0;
            curve = diagonal[i] + diagonal[j] - 2.0 * (double)row[j];
            if (gap * gap / (curve > PMB_SVM_TAU ? curve : PMB_SVM_TAU) == gain) break;
        }
        curve = diagonal[i] + diagonal[j] - 2.0 * (double)row[j];
        step = (e - E[j]) / (curve > PMB_SVM_TAU ? curve : PMB_SVM_TAU);
        if (step >= hi[i] - beta[i] || step >= beta[j] - lo[j]) {
            const double room_i = hi[i] - beta[i], room_j = beta[j] - lo[j];
            step = room_i < room_j ? room_i : room_j;
            beta[i] = room_i <= room_j ? hi[i] : beta[i] + step;
            beta[j] = room_j <= room_i ? lo[j] : beta[j] - step;
        } else {
            beta[i] += step;
            beta[j] -= step;
        }
        up[i] = beta[i] < hi[i] ? 0.0 : -INFINITY;
        up[j] = beta[j] < hi[j] ? 0.0 : -INFINITY;
        down[i] = beta[i] > lo[i] ? 0.0 : INFINITY;
        down[j] = beta[j] > lo[j] ? 0.0 : INFINITY;
        steps++;
    }
}

/* to += scale * a, over floats. */
PMB_CLONES PMB_STATIC void pmb_svm_add(double *PMB_RESTRICT to, const float *PMB_RESTRICT a,
                                       double scale, int64_t n) {
    for (int64_t k = 0; k < n; k++) to[k] += scale * (double)a[k];
}

/* to += scale[0] * row[0] + ... + scale[3] * row[3], one after another; entries stand two doubles apart (LIBSVM's nodes of
 * 16 bytes). */
PMB_CLONES PMB_STATIC void pmb_svm_add_nodes(double *PMB_RESTRICT to, const double *const *row,
                                             const double *scale, int64_t n) {
    const double *a = row[0], *b = row[1], *c = row[2], *d = row[3];
    const double p = scale[0], q = scale[1], r = scale[2], s = scale[3];
    for (int64_t k = 0; k < n; k++)
        to[k] = (((to[k] + p * a[2 * k]) + q * b[2 * k]) + r * c[2 * k]) + s * d[2 * k];
}

/* Inner product in eight chains, the same on every CPU. */
PMB_CLONES PMB_STATIC double pmb_svm_dot(const double *PMB_RESTRICT w, const float *PMB_RESTRICT a,
                                         int64_t n) {
    double sum[PMB_SVM_LANES], rest = 0.0;
    int64_t k = 0;
    PMB_LANES(l, PMB_SVM_LANES) sum[l] = 0.0;
    for (; k + PMB_SVM_LANES <= n; k += PMB_SVM_LANES)
        PMB_LANES(l, PMB_SVM_LANES) sum[l] += w[k + l] * (double)a[k + l];
    for (; k < n; k++) rest += w[k] * (double)a[k];
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7])) + rest;
}

/* Rows of a linear kernel: dense (n, d) where ptr is NULL, else compressed sparse rows. */
typedef struct {
    const float *data;
    const int64_t *ptr;
    const int32_t *column;
    int64_t n, d;
} pmb_svm_rows;

PMB_INLINE double pmb_svm_row_dot(const pmb_svm_rows *X, int64_t i, const double *w) {
    if (X->ptr == NULL) return pmb_svm_dot(w, X->data + i * X->d, X->d);
    {
        double even = 0.0, odd = 0.0;
        int64_t k = X->ptr[i];
        const int64_t end = X->ptr[i + 1];
        for (; k + 2 <= end; k += 2) {
            even += w[X->column[k]] * (double)X->data[k];
            odd += w[X->column[k + 1]] * (double)X->data[k + 1];
        }
        if (k < end) even += w[X->column[k]] * (double)X->data[k];
        return even + odd;
    }
}

PMB_INLINE void pmb_svm_row_add(const pmb_svm_rows *X, int64_t i, double scale, double *w) {
    if (X->ptr == NULL) {
        pmb_svm_add(w, X->data + i * X->d, scale, X->d);
        return;
    }
    for (int64_t k = X->ptr[i]; k < X->ptr[i + 1]; k++)
        w[X->column[k]] += scale * (double)X->data[k];
}

/* Where the coordinate steps are between two calls. */
typedef struct {
    int64_t n;           /* rows that may move */
    int64_t size;        /* the first so many of `active` are walked; the others have been shrunk */
    int64_t epoch, at;   /* the epoch, and its next row */
    double sum, b;       /* sum_i beta_i, and the bias */
    double upper, lower; /* bounds on E from which on rows are shrunk */
    double most, least;  /* the largest and the smallest E of the epoch so far */
    uint64_t random;     /* state of the random numbers */
} pmb_svm_walk;

/* active: (n,) scratch. The bias given is that which goes with the beta given: the centre is what is left. */
PMB_STATIC pmb_svm_walk pmb_svm_begin(int64_t n, const double *lo, const double *hi,
                                      const double *beta, double bias, uint64_t seed,
                                      int32_t *active) {
    pmb_svm_walk walk = {0, 0, 0, 0, 0.0, bias, INFINITY, -INFINITY, -INFINITY, INFINITY, 0};
    walk.random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (int64_t i = 0; i < n; i++) {
        walk.sum += beta[i];
        if (lo[i] < hi[i]) active[walk.n++] = (int32_t)i;
    }
    walk.size = walk.n;
    return walk;
}

/* Coordinate steps on the same dual for a linear kernel, w = sum_i beta_i x_i kept. The equality constraint is held by
 * an augmented Lagrangian: b = centre + rho sum_i beta_i is the bias, and the centre moves to b whenever the coordinates
 * are optimal for it within the violation of the constraint (LIBLINEAR's steps and shrinking: Hsieh et al. 2008).
 * norm: |x_i|^2. walk, active, beta, w: IN/OUT. Returns the steps tried, at most `most_steps`; *done becomes 1 at the
 * end, else another call goes on. *residual is |rho sum beta| after the last epoch that is whole. */
PMB_STATIC int64_t pmb_svm_linear(const pmb_svm_rows *X, const double *norm, const double *target,
                                  const double *lo, const double *hi, double *beta, double *w,
                                  double rho, double tol, int64_t max_epochs, int64_t most_steps,
                                  pmb_svm_walk *walk, int32_t *active, double *violation,
                                  double *residual, int *done) {
    int64_t n = walk->n, size = walk->size, steps = 0, epoch, first = walk->at;
    double sum = walk->sum, b = walk->b, upper = walk->upper, lower = walk->lower;
    uint64_t state = walk->random;
    for (epoch = walk->epoch; epoch < max_epochs; epoch++) {
        double most = first ? walk->most : -INFINITY, least = first ? walk->least : INFINITY,
               spread, off;
        for (int64_t k = first; k < size; k++) {
            int64_t other;
            int32_t i;
            double e, now;
            if (steps == most_steps) {
                const pmb_svm_walk here = {n,     size,  epoch, k,     sum,  b,
                                           upper, lower, most,  least, state};
                *walk = here;
                return steps;
            }
            other = k + (int64_t)(pmb_random(&state) % (uint64_t)(size - k));
            i = active[other];
            active[other] = active[k];
            active[k] = i;
            e = target[i] - pmb_svm_row_dot(X, i, w) - b;
            steps++;
            if (beta[i] <= lo[i]) {
                if (e < lower) {
                    active[k--] = active[--size];
                    active[size] = i;
                    continue;
                }
                if (e <= 0.0) {
                    most = most > 0.0 ? most : 0.0;
                    least = least < 0.0 ? least : 0.0;
                    continue;
                }
            } else if (beta[i] >= hi[i]) {
                if (e > upper) {
                    active[k--] = active[--size];
                    active[size] = i;
                    continue;
                }
                if (e >= 0.0) {
                    most = most > 0.0 ? most : 0.0;
                    least = least < 0.0 ? least : 0.0;
                    continue;
                }
            }
            most = e > most ? e : most;
            least = e < least ? e : least;
            now = beta[i] + e / (norm[i] + rho);
            now = now < lo[i] ? lo[i] : now > hi[i] ? hi[i] : now;
            if (now != beta[i]) {
                const double step = now - beta[i];
                beta[i] = now;
                pmb_svm_row_add(X, i, step, w);
                sum += step;
                b += rho * step;
            }
        }
        first = 0;
        spread = most > least ? most - least : 0.0;
        off = rho * fabs(sum);
        *violation = spread;
        *residual = off;
        if (spread <= tol && off <= tol) {
            if (size == n) break;
            size = n;
            upper = INFINITY;
            lower = -INFINITY;
            continue;
        }
        if (off > tol && spread <= (off > tol ? off : tol)) b += rho * sum;
        if (spread <= tol) {
            size = n; /* shrunk for another bias */
            upper = INFINITY;
            lower = -INFINITY;
        } else {
            upper = most > 0.0 ? most + off : INFINITY;
            lower = least < 0.0 ? least - off : -INFINITY;
        }
    }
    walk->b = b;
    *done = 1;
    return steps;
}

/* -- LIBSVM ---------------------------------------------------------------------------------------------------------- */

#if defined(_MSC_VER)
#define PMB_PER_THREAD static __declspec(thread)
#else
#define PMB_PER_THREAD static __thread
#endif

/* Steps of the last solve of this thread; -1 outside of one. */
PMB_PER_THREAD int64_t pmb_libsvm_steps = -1;

/* What LIBSVM prints with: solves of ours keep the number of steps, those of others write as LIBSVM does by itself. It
 * runs no Python, in which Ctrl-C would be raised and lost. */
PMB_STATIC void pmb_libsvm_print(const char *text) {
    const char *at = strstr(text, "#iter = ");
    if (pmb_libsvm_steps < 0) {
        fputs(text, stdout);
        fflush(stdout);
    } else if (at != NULL) {
        pmb_libsvm_steps = strtoll(at + 8, NULL, 10);
    }
}

typedef void *(*pmb_libsvm_train)(const void *problem, const void *parameter);
typedef void (*pmb_libsvm_set_print)(void (*print)(const char *));

/* svm_train, in silence. */
PMB_STATIC void *pmb_libsvm_solve(uintptr_t train, uintptr_t set_print, uintptr_t problem,
                                  uintptr_t parameter, int64_t *steps) {
    void *model;
    pmb_libsvm_steps = 0;
    ((pmb_libsvm_set_print)set_print)(pmb_libsvm_print);
    model = ((pmb_libsvm_train)train)((const void *)problem, (const void *)parameter);
    *steps = pmb_libsvm_steps;
    pmb_libsvm_steps = -1;
    return model;
}

#endif
