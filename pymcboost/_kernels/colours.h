/* Rows of residuals rho (m, K) under a column mu in {-1, 0, +1}^K and a function g: v_ik = rho_ik + mu_k g_i.
 * Largest values of a row are found for PMB_COLOUR_ROWS rows at once, a lane each; sums over the rows are taken row by
 * row, a lane for each class, so that they do not depend on the number of lanes. */
#ifndef PYMCBOOST_COLOURS_H
#define PYMCBOOST_COLOURS_H

#include <math.h>
#include <stdint.h>

#include "lanes.h"

#define PMB_COLOUR_ROWS 8

/* The largest and the second largest v_ik of `rows` rows from row i on. colour: mu as numbers. */
PMB_INLINE void pmb_colour_tops(const double *PMB_RESTRICT rho, const double *PMB_RESTRICT colour,
                                const double *PMB_RESTRICT g, int64_t K, int64_t rows, double *PMB_RESTRICT first,
                                double *PMB_RESTRICT second) {
    PMB_LANES(l, PMB_COLOUR_ROWS) first[l] = second[l] = -INFINITY;
    if (rows < PMB_COLOUR_ROWS) {
        for (int64_t l = 0; l < rows; l++) {
            for (int64_t k = 0; k < K; k++) {
                const double v = rho[l * K + k] + colour[k] * g[l];
                const double less = v < first[l] ? v : first[l];
                second[l] = less > second[l] ? less : second[l];
                first[l] = v > first[l] ? v : first[l];
            }
        }
        return;
    }
    for (int64_t k = 0; k < K; k++) {
        PMB_LANES(l, PMB_COLOUR_ROWS) {
            const double v = rho[l * K + k] + colour[k] * g[l];
            const double less = v < first[l] ? v : first[l];
            second[l] = less > second[l] ? less : second[l];
            first[l] = v > first[l] ? v : first[l];
        }
    }
}

/* sum_i max_k v_ik - colour[y_i] g_i */
PMB_CLONES PMB_STATIC double pmb_colour_cost(const double *PMB_RESTRICT rho, const int32_t *PMB_RESTRICT y,
                                             const double *PMB_RESTRICT colour, const double *PMB_RESTRICT g, int64_t m,
                                             int64_t K) {
    double total = 0.0;
    for (int64_t i = 0; i < m; i += PMB_COLOUR_ROWS) {
        const int64_t rows = m - i < PMB_COLOUR_ROWS ? m - i : PMB_COLOUR_ROWS;
        double first[PMB_COLOUR_ROWS], second[PMB_COLOUR_ROWS];
        pmb_colour_tops(rho + i * K, colour, g + i, K, rows, first, second);
        for (int64_t l = 0; l < rows; l++) total += first[l] - colour[y[i + l]] * g[i + l];
    }
    return total;
}

/* total_k += the largest v_iy of the row with class k in another colour: (-1) times its own, or all of -1, 0 and 1 one
 * after another (total is then (3, K)). */
PMB_INLINE void pmb_colour_other(const double *PMB_RESTRICT rho, const double *PMB_RESTRICT colour, double g,
                                 double first, double second, int64_t K, int zeros, double *PMB_RESTRICT total) {
    if (!zeros) {
        for (int64_t k = 0; k < K; k++) {
            const double moved = rho[k] - colour[k] * g;
            const double rest = rho[k] + colour[k] * g == first ? second : first;
            total[k] += moved > rest ? moved : rest;
        }
        return;
    }
    for (int c = -1; c <= 1; c++) {
        double *to = total + (c + 1) * K;
        for (int64_t k = 0; k < K; k++) {
            const double moved = rho[k] + c * g;
            const double rest = rho[k] + colour[k] * g == first ? second : first;
            to[k] += moved > rest ? moved : rest;
        }
    }
}

/* The cost of a column, and the first part of what each single change of colour would make of it (see
 * `pmb_colour_other`); *own: sum_i colour[y_i] g_i. */
PMB_CLONES PMB_STATIC double pmb_colour_changes(const double *PMB_RESTRICT rho, const int32_t *PMB_RESTRICT y,
                                                const double *PMB_RESTRICT colour, const double *PMB_RESTRICT g,
                                                int64_t m, int64_t K, int zeros, double *PMB_RESTRICT total,
                                                double *own) {
    double cost = 0.0, sum = 0.0;
    for (int64_t k = 0; k < (zeros ? 3 * K : K); k++) total[k] = 0.0;
    for (int64_t i = 0; i < m; i += PMB_COLOUR_ROWS) {
        const int64_t rows = m - i < PMB_COLOUR_ROWS ? m - i : PMB_COLOUR_ROWS;
        double first[PMB_COLOUR_ROWS], second[PMB_COLOUR_ROWS];
        pmb_colour_tops(rho + i * K, colour, g + i, K, rows, first, second);
        for (int64_t l = 0; l < rows; l++) {
            const double part = colour[y[i + l]] * g[i + l];
            cost += first[l] - part;
            sum += part;
            pmb_colour_other(rho + (i + l) * K, colour, g[i + l], first[l], second[l], K, zeros, total);
        }
    }
    *own = sum;
    return cost;
}

/* Margins: the largest residual of the other colour less that of the same one; 0 for rows whose class has none. */
PMB_CLONES PMB_STATIC void pmb_colour_margins(const double *PMB_RESTRICT rho, const int32_t *PMB_RESTRICT y,
                                              const double *PMB_RESTRICT colour, int64_t m, int64_t K,
                                              double *PMB_RESTRICT d) {
    for (int64_t i = 0; i < m; i += PMB_COLOUR_ROWS) {
        const int64_t rows = m - i < PMB_COLOUR_ROWS ? m - i : PMB_COLOUR_ROWS;
        const double *at = rho + i * K;
        double plus[PMB_COLOUR_ROWS], minus[PMB_COLOUR_ROWS];
        PMB_LANES(l, PMB_COLOUR_ROWS) plus[l] = minus[l] = -INFINITY;
        for (int64_t k = 0; k < K; k++) {
            double *top = colour[k] > 0.0 ? plus : minus;
            if (colour[k] == 0.0) continue;
            if (rows == PMB_COLOUR_ROWS) {
                PMB_LANES(l, PMB_COLOUR_ROWS) top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
            } else {
                for (int64_t l = 0; l < rows; l++) top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
            }
        }
        for (int64_t l = 0; l < rows; l++) {
            const double own = colour[y[i + l]];
            d[i + l] = own > 0.0 ? minus[l] - plus[l] : own < 0.0 ? plus[l] - minus[l] : 0.0;
        }
    }
}

/* rho_ik += (mu_k - mu_{y_i}) g_i; the sum of the rows' largest residuals after it, and the *largest of all. */
PMB_CLONES PMB_STATIC double pmb_colour_update(double *PMB_RESTRICT rho, const int32_t *PMB_RESTRICT y,
                                               const double *PMB_RESTRICT colour, const double *PMB_RESTRICT g,
                                               int64_t m, int64_t K, double *largest) {
    double total = 0.0, most = -INFINITY;
    for (int64_t i = 0; i < m; i += PMB_COLOUR_ROWS) {
        const int64_t rows = m - i < PMB_COLOUR_ROWS ? m - i : PMB_COLOUR_ROWS;
        double *at = rho + i * K, top[PMB_COLOUR_ROWS];
        for (int64_t l = 0; l < rows; l++) {
            const double own = colour[y[i + l]], step = g[i + l];
            for (int64_t k = 0; k < K; k++) at[l * K + k] += (colour[k] - own) * step;
        }
        PMB_LANES(l, PMB_COLOUR_ROWS) top[l] = -INFINITY;
        if (rows == PMB_COLOUR_ROWS) {
            for (int64_t k = 0; k < K; k++)
                PMB_LANES(l, PMB_COLOUR_ROWS) top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
        } else {
            for (int64_t l = 0; l < rows; l++)
                for (int64_t k = 0; k < K; k++) top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
        }
        for (int64_t l = 0; l < rows; l++) {
            total += top[l];
            most = top[l] > most ? top[l] : most;
        }
    }
    *largest = most;
    return total;
}

/* The row of draws (n, K), +1 below 1/2 and -1 elsewhere, of the smallest x' W x, the first one where they tie; W
 * symmetric with zero diagonal. A row of one colour, the j-th of them, has its entry fix[j] changed. x, sum: (K,) scratch,
 * x OUT: the row. */
PMB_CLONES PMB_STATIC void pmb_colour_best(const double *PMB_RESTRICT draws, const int64_t *PMB_RESTRICT fix, int64_t n,
                                           int64_t K, const double *PMB_RESTRICT W, double *PMB_RESTRICT x,
                                           double *PMB_RESTRICT sum) {
    double least = INFINITY;
    int64_t best = 0, fixed = -1, lone = 0;
    for (int64_t r = 0; r <= n; r++) {
        const double *draw = draws + (r < n ? r : best) * K;
        double count = 0.0, value = 0.0;
        for (int64_t k = 0; k < K; k++) {
            x[k] = draw[k] < 0.5 ? 1.0 : -1.0;
            count += x[k];
            sum[k] = 0.0;
        }
        if (r == n) {
            if (fixed >= 0) x[fixed] = -x[fixed];
            return;
        }
        if (count == (double)K || count == -(double)K) x[fix[lone++]] *= -1.0;
        else count = 0.0;
        for (int64_t a = 0; a < K; a++)
            for (int64_t k = 0; k < K; k++) sum[k] += x[a] * W[a * K + k];
        for (int64_t k = 0; k < K; k++) value += x[k] * sum[k];
        if (value < least) {
            least = value;
            best = r;
            fixed = count != 0.0 ? fix[lone - 1] : -1;
        }
    }
}

/* sums[y_i] += rho_i, row after row: (K, K). */
PMB_CLONES PMB_STATIC void pmb_colour_sums(const double *PMB_RESTRICT rho, const int32_t *PMB_RESTRICT y, int64_t m,
                                           int64_t K, double *PMB_RESTRICT sums) {
    for (int64_t i = 0; i < m; i++) {
        const double *from = rho + i * K;
        double *to = sums + y[i] * K;
        for (int64_t k = 0; k < K; k++) to[k] += from[k];
    }
}

#endif
