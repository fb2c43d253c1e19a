/* Columns of HingeBoost.OC's output code, which colour the classes: costs and margins of rows of residuals.
 *
 * rho (m, K) are the residuals, mu in {-1, 0, +1}^K a column ("colour" below), g a function: v_ik = rho_ik + mu_k g_i.
 * Largest values of a row are found for PMB_COLOUR_ROWS rows at once, a lane each. Sums over the rows are taken row by row, a
 * lane for each class, so that they do not depend on the number of lanes. */
#ifndef PYMCBOOST_OUTPUT_CODES_H
#define PYMCBOOST_OUTPUT_CODES_H

#include <math.h>
#include <stdint.h>

#include "lanes.h"

#define PMB_COLOUR_ROWS 8
/* Rows that are read for their largest values and once more for the sums, before the next ones. */
#define PMB_COLOUR_BLOCK 64

/* The largest and the second largest v_ik of `rows` rows from row i on. colour: mu as numbers. */
PMB_INLINE void pmb_colour_tops(const double *PMB_RESTRICT rho, const double *PMB_RESTRICT colour,
                                const double *PMB_RESTRICT g, int64_t K, int64_t rows,
                                double *PMB_RESTRICT first, double *PMB_RESTRICT second) {
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

#if PMB_VECTORS
#define PMB_COLOUR_LANES 4
typedef double pmb_colour_v __attribute__((vector_size(8 * PMB_COLOUR_LANES)));
typedef int64_t pmb_colour_mask __attribute__((vector_size(8 * PMB_COLOUR_LANES)));

/* `pmb_colour_moved` for 4 to 16 classes, in n vectors; the lanes of the last one may overlap those before. */
PMB_INLINE void pmb_colour_few(const double *PMB_RESTRICT rho, const double *PMB_RESTRICT colour,
                               const double *PMB_RESTRICT moved, const double *PMB_RESTRICT g,
                               const double *PMB_RESTRICT first, const double *PMB_RESTRICT second,
                               int64_t rows, int64_t K, const int n, double *PMB_RESTRICT total) {
    pmb_colour_v now[4], then[4], sum[4];
    int64_t at[4];
    for (int q = 0; q < n; q++) {
        at[q] = q + 1 < n ? q * PMB_COLOUR_LANES : K - PMB_COLOUR_LANES;
        memcpy(&now[q], colour + at[q], sizeof now[q]);
        memcpy(&then[q], moved + at[q], sizeof then[q]);
        memcpy(&sum[q], total + at[q], sizeof sum[q]);
    }
    for (int64_t i = 0; i < rows; i++) {
        const pmb_colour_v top = first[i] - (pmb_colour_v){0}, next = second[i] - (pmb_colour_v){0};
        for (int q = 0; q < n; q++) {
            pmb_colour_v v, rest;
            pmb_colour_mask same, more;
            memcpy(&v, rho + i * K + at[q], sizeof v);
            same = v + now[q] * g[i] == top;
            rest = (pmb_colour_v)(((pmb_colour_mask)next & same) | ((pmb_colour_mask)top & ~same));
            v += then[q] * g[i];
            more = v > rest;
            sum[q] += (pmb_colour_v)(((pmb_colour_mask)v & more) | ((pmb_colour_mask)rest & ~more));
        }
    }
    for (int q = 0; q < n; q++) memcpy(total + at[q], &sum[q], sizeof sum[q]);
}
#endif

/* total_k += over `rows` rows the largest v_iy with class k in the colour moved_k. first, second: of the rows' v. */
PMB_INLINE void pmb_colour_moved(const double *PMB_RESTRICT rho, const double *PMB_RESTRICT colour,
                                 const double *PMB_RESTRICT moved, const double *PMB_RESTRICT g,
                                 const double *PMB_RESTRICT first,
                                 const double *PMB_RESTRICT second, int64_t rows, int64_t K,
                                 double *PMB_RESTRICT total) {
#if PMB_VECTORS
    switch (K < PMB_COLOUR_LANES ? 0 : (K + PMB_COLOUR_LANES - 1) / PMB_COLOUR_LANES) {
    case 1:
        pmb_colour_few(rho, colour, moved, g, first, second, rows, K, 1, total);
        return;
    case 2:
        pmb_colour_few(rho, colour, moved, g, first, second, rows, K, 2, total);
        return;
    case 3:
        pmb_colour_few(rho, colour, moved, g, first, second, rows, K, 3, total);
        return;
    case 4:
        pmb_colour_few(rho, colour, moved, g, first, second, rows, K, 4, total);
        return;
    default:
        break;
    }
#endif
    for (int64_t i = 0; i < rows; i++) {
        const double *at = rho + i * K;
        for (int64_t k = 0; k < K; k++) {
            const double v = at[k] + moved[k] * g[i];
            const double rest = at[k] + colour[k] * g[i] == first[i] ? second[i] : first[i];
            total[k] += v > rest ? v : rest;
        }
    }
}

/* The cost of a column, sum_i max_k v_ik - colour[y_i] g_i; *own: sum_i colour[y_i] g_i; and total_k = sum_i max_y v_iy
 * with class k in the colour that moved has for it, for each of the n columns of moved: (n, K). */
PMB_CLONES PMB_STATIC double pmb_colour_changes(const double *PMB_RESTRICT rho,
                                                const int32_t *PMB_RESTRICT y,
                                                const double *PMB_RESTRICT colour,
                                                const double *PMB_RESTRICT g, int64_t m, int64_t K,
                                                const double *PMB_RESTRICT moved, int n,
                                                double *PMB_RESTRICT total, double *own) {
    double cost = 0.0, sum = 0.0;
    for (int64_t k = 0; k < n * K; k++) total[k] = 0.0;
    for (int64_t i = 0; i < m; i += PMB_COLOUR_BLOCK) {
        const int64_t rows = m - i < PMB_COLOUR_BLOCK ? m - i : PMB_COLOUR_BLOCK;
        double first[PMB_COLOUR_BLOCK], second[PMB_COLOUR_BLOCK];
        for (int64_t l = 0; l < rows; l += PMB_COLOUR_ROWS)
            pmb_colour_tops(rho + (i + l) * K, colour, g + i + l, K,
                            rows - l < PMB_COLOUR_ROWS ? rows - l : PMB_COLOUR_ROWS, first + l,
                            second + l);
        for (int64_t l = 0; l < rows; l++) {
            const double part = colour[y[i + l]] * g[i + l];
            cost += first[l] - part;
            sum += part;
        }
        for (int c = 0; c < n; c++)
            pmb_colour_moved(rho + i * K, colour, moved + c * K, g + i, first, second, rows, K,
                             total + c * K);
    }
    *own = sum;
    return cost;
}

/* Margins: the largest residual of the other colour less that of the same one; 0 for rows whose class has none. */
PMB_CLONES PMB_STATIC void pmb_colour_margins(const double *PMB_RESTRICT rho,
                                              const int32_t *PMB_RESTRICT y,
                                              const double *PMB_RESTRICT colour, int64_t m,
                                              int64_t K, double *PMB_RESTRICT d) {
    for (int64_t i = 0; i < m; i += PMB_COLOUR_ROWS) {
        const int64_t rows = m - i < PMB_COLOUR_ROWS ? m - i : PMB_COLOUR_ROWS;
        const double *at = rho + i * K;
        double plus[PMB_COLOUR_ROWS], minus[PMB_COLOUR_ROWS];
        PMB_LANES(l, PMB_COLOUR_ROWS) plus[l] = minus[l] = -INFINITY;
        for (int64_t k = 0; k < K; k++) {
            double *top = colour[k] > 0.0 ? plus : minus;
            if (colour[k] == 0.0) continue;
            if (rows == PMB_COLOUR_ROWS) {
                PMB_LANES(l, PMB_COLOUR_ROWS)
                    top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
            } else {
                for (int64_t l = 0; l < rows; l++)
                    top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
            }
        }
        for (int64_t l = 0; l < rows; l++) {
            const double own = colour[y[i + l]];
            d[i + l] = own > 0.0 ? minus[l] - plus[l] : own < 0.0 ? plus[l] - minus[l] : 0.0;
        }
    }
}

/* rho_ik += (mu_k - mu_{y_i}) g_i; the sum of the rows' largest residuals after it, and the *largest of all. */
PMB_CLONES PMB_STATIC double pmb_colour_update(double *PMB_RESTRICT rho,
                                               const int32_t *PMB_RESTRICT y,
                                               const double *PMB_RESTRICT colour,
                                               const double *PMB_RESTRICT g, int64_t m, int64_t K,
                                               double *largest) {
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
                PMB_LANES(l, PMB_COLOUR_ROWS)
                    top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
        } else {
            for (int64_t l = 0; l < rows; l++)
                for (int64_t k = 0; k < K; k++)
                    top[l] = at[l * K + k] > top[l] ? at[l * K + k] : top[l];
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
PMB_CLONES PMB_STATIC void pmb_colour_best(const double *PMB_RESTRICT draws,
                                           const int64_t *PMB_RESTRICT fix, int64_t n, int64_t K,
                                           const double *PMB_RESTRICT W, double *PMB_RESTRICT x,
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
        if (count == (double)K || count == -(double)K)
            x[fix[lone++]] *= -1.0;
        else
            count = 0.0;
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
PMB_CLONES PMB_STATIC void pmb_colour_sums(const double *PMB_RESTRICT rho,
                                           const int32_t *PMB_RESTRICT y, int64_t m, int64_t K,
                                           double *PMB_RESTRICT sums) {
    for (int64_t i = 0; i < m; i++) {
        const double *from = rho + i * K;
        double *to = sums + y[i] * K;
        for (int64_t k = 0; k < K; k++) to[k] += from[k];
    }
}

#endif
