/* Sorting one feature column and cutting it into bins. */
#ifndef PYMCBOOST_BINS_H
#define PYMCBOOST_BINS_H

#include "lanes.h"

#include <float.h>

/* Order-preserving key of a float in the high half, the row in the low half. Missing values sort last. -0 equals +0. */
PMB_INLINE uint64_t pmb_key(float x, uint32_t row) {
    uint32_t u;
    if (x == 0) x = 0;
    memcpy(&u, &x, 4);
    if (x != x)
        u = 0xFFFFFFFFu;
    else
        u = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (uint64_t)u << 32 | row;
}

PMB_INLINE float pmb_key_value(uint64_t key) {
    uint32_t u = (uint32_t)(key >> 32);
    float x;
    u = u & 0x80000000u ? u & 0x7FFFFFFFu : ~u;
    memcpy(&x, &u, 4);
    return x;
}

PMB_INLINE int pmb_key_missing(uint64_t key) {
    return key >> 32 == 0xFFFFFFFFu;
}

/* Sort n keys by their high half, stably; spare: n more. Radix sort (3 x 11 bits), insertion sort when short. */
PMB_STATIC void pmb_sort_keys(uint64_t *keys, uint64_t *spare, int64_t n) {
    if (n < 64) {
        for (int64_t i = 1; i < n; i++) {
            uint64_t k = keys[i];
            int64_t j = i;
            for (; j > 0 && keys[j - 1] >> 32 > k >> 32; j--) keys[j] = keys[j - 1];
            keys[j] = k;
        }
        return;
    }
    uint64_t *from = keys, *to = spare;
    int64_t counts[3][2048];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++) {
        uint64_t k = from[i];
        counts[0][k >> 32 & 2047]++;
        counts[1][k >> 43 & 2047]++;
        counts[2][k >> 54]++;
    }
    for (int pass = 0; pass < 3; pass++) {
        int shift = 32 + 11 * pass;
        int64_t at = 0, *count = counts[pass];
        if (count[from[0] >> shift & 2047] == n) continue;
        for (int b = 0; b < 2048; b++) {
            int64_t c = count[b];
            count[b] = at;
            at += c;
        }
        for (int64_t i = 0; i < n; i++) to[count[from[i] >> shift & 2047]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys) memcpy(keys, from, sizeof(uint64_t) * n);
}

/* The float32 threshold between neighbouring values: their midpoint, never as large as the upper one. A midpoint that is
 * subnormal and below 0 counts as 0 in some processes, where 0 would go left: FLT_MIN below 0 serves as well, unless the
 * lower value is subnormal, too. */
PMB_INLINE float pmb_between(float low, float high) {
    float mid = (float)(low + ((double)high - low) / 2);
    if (low <= -FLT_MIN && mid < 0 && mid > -FLT_MIN) return -FLT_MIN;
    return mid < high && mid >= low ? mid : low;
}

/* Bins of one sorted column.
 * keys: n sorted keys; weight: by row, or NULL where all are 1; max_bins: bins for values (missing ones get one more); least: weight that the
 * values on either side of every cut must have (bins are merged until they do).
 * codes (by row), low, high (max_bins, the least and the largest value of every bin): OUT. Returns the number of value
 * bins; *distinct, *missing (rows), *mode (the bin with most rows), *mode_rows: OUT. Bins are exact when there are no more distinct values than
 * max_bins, else close to equal in weight, a value never being split. */
PMB_STATIC int pmb_cut_column(const uint64_t *keys, int64_t n, const double *weight, int max_bins,
                              double least, uint8_t *codes, float *low, float *high,
                              int64_t *distinct, int64_t *missing, int *mode, int64_t *mode_rows) {
    int64_t values = n, kinds = 0;
    while (values > 0 && pmb_key_missing(keys[values - 1])) values--;
    *missing = n - values;
    double left = 0, before = 0;
    for (int64_t i = 0; i < values; i++) {
        kinds += i == 0 || keys[i] >> 32 != keys[i - 1] >> 32;
        left += weight ? weight[(uint32_t)keys[i]] : 1;
    }
    *distinct = kinds;
    int bins = 0, exact = kinds <= max_bins;
    int64_t start = 0;
    *mode = 0;
    *mode_rows = 0;
    while (start < values) {
        int64_t stop = start;
        double mass = 0, share = left / (max_bins - bins);
        do { /* add whole runs of equal values until the bin has its share */
            do {
                mass += weight ? weight[(uint32_t)keys[stop]] : 1;
                stop++;
            } while (stop < values && keys[stop] >> 32 == keys[stop - 1] >> 32);
        } while (stop < values && ((!exact && (bins == max_bins - 1 || mass < share)) ||
                                   (least > 0 && (before + mass < least || left - mass < least))));
        for (int64_t i = start; i < stop; i++) codes[(uint32_t)keys[i]] = (uint8_t)bins;
        if (stop - start > *mode_rows) {
            *mode_rows = stop - start;
            *mode = bins;
        }
        low[bins] = pmb_key_value(keys[start]);
        high[bins] = pmb_key_value(keys[stop - 1]);
        left -= mass;
        before += mass;
        start = stop;
        bins++;
    }
    for (int64_t i = values; i < n; i++) codes[(uint32_t)keys[i]] = (uint8_t)bins;
    if (*missing > *mode_rows) {
        *mode_rows = *missing;
        *mode = bins;
    }
    return bins;
}

#endif
