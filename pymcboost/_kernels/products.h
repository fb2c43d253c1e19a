/* Products of matrices and systems of equations whose sums are added in one order on every CPU, as those of a BLAS are
 * not: each entry is one chain of multiplications and additions, in the order of k. */
#ifndef PYMCBOOST_PRODUCTS_H
#define PYMCBOOST_PRODUCTS_H

#include "lanes.h"

#define PMB_PRODUCT_LANES 8
#define PMB_PRODUCT_ROWS 4
/* Terms that are added before the next rows are taken: eight rows of so many doubles fit the first cache. */
#define PMB_PRODUCT_TERMS 256
/* Rows of the product that stay in the second cache. */
#define PMB_PRODUCT_BAND 128
/* Columns that are eliminated before the rest of the matrix is brought up to date. */
#define PMB_PIVOTS 8

#if PMB_VECTORS
typedef double pmb_product_v __attribute__((vector_size(8 * PMB_PRODUCT_LANES)));

/* sum[r][l] += sum over k of a[r][k] panel[k][l], for PMB_PRODUCT_ROWS rows. */
PMB_INLINE void pmb_product_rows(const double *a, int64_t d, const double *panel, int64_t terms,
                                 double (*sum)[PMB_PRODUCT_LANES]) {
    const double *b = a + d, *c = b + d, *e = c + d;
    pmb_product_v s0, s1, s2, s3, p;
    memcpy(&s0, sum[0], sizeof s0);
    memcpy(&s1, sum[1], sizeof s1);
    memcpy(&s2, sum[2], sizeof s2);
    memcpy(&s3, sum[3], sizeof s3);
    for (int64_t k = 0; k < terms; k++) {
        memcpy(&p, panel + k * PMB_PRODUCT_LANES, sizeof p);
        s0 += a[k] * p;
        s1 += b[k] * p;
        s2 += c[k] * p;
        s3 += e[k] * p;
    }
    memcpy(sum[0], &s0, sizeof s0);
    memcpy(sum[1], &s1, sizeof s1);
    memcpy(sum[2], &s2, sizeof s2);
    memcpy(sum[3], &s3, sizeof s3);
}
#else
PMB_INLINE void pmb_product_rows(const double *a, int64_t d, const double *panel, int64_t terms,
                                 double (*sum)[PMB_PRODUCT_LANES]) {
    for (int64_t k = 0; k < terms; k++)
        for (int r = 0; r < PMB_PRODUCT_ROWS; r++)
            PMB_LANES(l, PMB_PRODUCT_LANES)
                sum[r][l] += a[r * d + k] * panel[k * PMB_PRODUCT_LANES + l];
}
#endif

/* to[r][l] += sum over k of a[r][k] panel[k][l]; up to PMB_PRODUCT_ROWS rows, and PMB_PRODUCT_LANES columns of `to`. */
PMB_INLINE void pmb_product_tile(const double *a, int64_t d, const double *panel, int64_t terms,
                                 double *to, int64_t stride, int64_t rows, int64_t columns) {
    double sum[PMB_PRODUCT_ROWS][PMB_PRODUCT_LANES];
    if (rows == PMB_PRODUCT_ROWS && columns == PMB_PRODUCT_LANES) {
        for (int r = 0; r < PMB_PRODUCT_ROWS; r++) memcpy(sum[r], to + r * stride, sizeof sum[r]);
        pmb_product_rows(a, d, panel, terms, sum);
        for (int r = 0; r < PMB_PRODUCT_ROWS; r++) memcpy(to + r * stride, sum[r], sizeof sum[r]);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t l = 0; l < columns; l++)
            for (int64_t k = 0; k < terms; k++)
                to[r * stride + l] += a[r * d + k] * panel[k * PMB_PRODUCT_LANES + l];
}

/* out += A B' for the terms from `at` on. */
PMB_INLINE void pmb_product_terms(const double *A, const double *B, int64_t n, int64_t m, int64_t d,
                                  int64_t at, double *out) {
    double panel[PMB_PRODUCT_TERMS * PMB_PRODUCT_LANES];
    const int64_t terms = d - at < PMB_PRODUCT_TERMS ? d - at : PMB_PRODUCT_TERMS;
    for (int64_t j = 0; j < m; j += PMB_PRODUCT_LANES) {
        const int64_t columns = m - j < PMB_PRODUCT_LANES ? m - j : PMB_PRODUCT_LANES;
        for (int64_t k = 0; k < terms; k++)
            for (int64_t l = 0; l < columns; l++)
                panel[k * PMB_PRODUCT_LANES + l] = B[(j + l) * d + at + k];
        for (int64_t i = 0; i < n; i += PMB_PRODUCT_ROWS)
            pmb_product_tile(A + i * d + at, d, panel, terms, out + i * m + j, m,
                             n - i < PMB_PRODUCT_ROWS ? n - i : PMB_PRODUCT_ROWS, columns);
    }
}

/* out = A B', A (n, d), B (m, d), out (n, m). */
PMB_CLONES PMB_STATIC void pmb_products(const double *A, const double *B, int64_t n, int64_t m,
                                        int64_t d, double *out) {
    for (int64_t i = 0; i < n; i += PMB_PRODUCT_BAND) {
        const int64_t rows = n - i < PMB_PRODUCT_BAND ? n - i : PMB_PRODUCT_BAND;
        for (int64_t k = 0; k < rows * m; k++) out[i * m + k] = 0.0;
        for (int64_t at = 0; at < d; at += PMB_PRODUCT_TERMS)
            pmb_product_terms(A + i * d, B, rows, m, d, at, out + i * m);
    }
}

/* The columns k <= j < end of the rows from k on become those of L and U; rows are swapped whole, with b. 0 where a
 * pivot is 0 or not finite. */
PMB_INLINE int pmb_pivots(double *A, double *b, int64_t n, int64_t k, int64_t end) {
    for (int64_t j = k; j < end; j++) {
        int64_t best = j;
        double *own = A + j * n;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs(A[i * n + j]) > fabs(A[best * n + j])) best = i;
        if (!(fabs(A[best * n + j]) > 0.0) || A[best * n + j] - A[best * n + j] != 0.0) return 0;
        if (best != j) {
            double *other = A + best * n, kept = b[j];
            for (int64_t c = 0; c < n; c++) {
                const double value = own[c];
                own[c] = other[c];
                other[c] = value;
            }
            b[j] = b[best];
            b[best] = kept;
        }
        for (int64_t i = j + 1; i < n; i++) {
            double *row = A + i * n;
            const double factor = row[j] / own[j];
            row[j] = factor;
            for (int64_t c = j + 1; c < end; c++) row[c] -= factor * own[c];
        }
    }
    return 1;
}

/* Solve A x = b by Gaussian elimination with row pivots; A (n, n) and b (n,) are overwritten, b by x. 0 where A is
 * singular. */
PMB_CLONES PMB_STATIC int pmb_solve(double *A, double *b, int64_t n) {
    for (int64_t k = 0; k < n; k += PMB_PIVOTS) {
        const int64_t end = n - k < PMB_PIVOTS ? n : k + PMB_PIVOTS;
        if (!pmb_pivots(A, b, n, k, end)) return 0;
        for (int64_t i = k + 1; i < n; i++) {
            double *PMB_RESTRICT row = A + i * n;
            if (end - k == PMB_PIVOTS && i >= end) {
                const double *PMB_RESTRICT p = A + k * n;
                for (int64_t c = end; c < n; c++) {
                    double value = row[c];
                    for (int q = 0; q < PMB_PIVOTS; q++) value -= row[k + q] * p[q * n + c];
                    row[c] = value;
                }
                continue;
            }
            for (int64_t j = k; j < (i < end ? i : end); j++)
                for (int64_t c = end; c < n; c++) row[c] -= row[j] * A[j * n + c];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) b[i] -= A[i * n + j] * b[j];
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < n; j++) b[i] -= A[i * n + j] * b[j];
        b[i] /= A[i * n + i];
    }
    return 1;
}

#endif
