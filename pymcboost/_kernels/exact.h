/* Sums of numbers of very different sizes that depend neither on the order of the terms nor on how rows are divided: every term
 * is cut into PMB_PARTS whole numbers, each in finer units than the one before, and these are added as integers.
 *
 * The units are powers of two that follow from a bound of the terms and from the number of rows (`exact.units_in_parts`), so
 * that the sums fit in 64 bits. Adding a magic number, 1.5 * 2^52 units, rounds to units, in the lowest bits. */
#ifndef PYMCBOOST_EXACT_H
#define PYMCBOOST_EXACT_H

#include "lanes.h"

#define PMB_PARTS 3

/* The parts of n terms, added to sums (PMB_PARTS,). */
PMB_CLONES PMB_STATIC void pmb_add_parts(const double *PMB_RESTRICT x, int64_t n,
                                         const double *magic, int64_t *PMB_RESTRICT sums) {
    const double m0 = magic[0], m1 = magic[1], m2 = magic[2];
    uint64_t sum0 = 0, sum1 = 0, sum2 = 0;
    for (int64_t i = 0; i < n; i++) {
        const double t0 = x[i] + m0, r0 = x[i] - (t0 - m0), t1 = r0 + m1,
                     t2 = (r0 - (t1 - m1)) + m2;
        sum0 += pmb_bits(t0);
        sum1 += pmb_bits(t1);
        sum2 += pmb_bits(t2);
    }
    sums[0] += (int64_t)(sum0 - (uint64_t)n * pmb_bits(m0));
    sums[1] += (int64_t)(sum1 - (uint64_t)n * pmb_bits(m1));
    sums[2] += (int64_t)(sum2 - (uint64_t)n * pmb_bits(m2));
}

/* What the parts of a sum are together. */
PMB_INLINE double pmb_of_parts(const int64_t *sums, const double *unit) {
    return ((double)sums[2] * unit[2] + (double)sums[1] * unit[1]) + (double)sums[0] * unit[0];
}

#endif
