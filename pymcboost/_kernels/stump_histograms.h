/* Histograms of stumps in whole numbers of units, whose sums do not depend on the order of the rows or on how they are divided
 * among workers. Includes stump_histograms_body.h for int32 and double, 4, 8 and 16 lanes. */
#ifndef PYMCBOOST_STUMP_HISTOGRAMS_H
#define PYMCBOOST_STUMP_HISTOGRAMS_H

#include "lanes.h"

#define PMB_NARROW int32_t
#define PMB_NARROW_TAG i
#define PMB_BODY "stump_histograms_body.h"
#include "variants.h"

/* Call the instance for the type and lanes at hand. */
#define PMB_CELLS(name, is_narrow, lanes, ...)                                                     \
    do {                                                                                           \
        if (is_narrow)                                                                             \
            PMB_BY_LANES(name##i_, lanes, __VA_ARGS__);                                            \
        else                                                                                       \
            PMB_BY_LANES(name##d_, lanes, __VA_ARGS__);                                            \
    } while (0)
#define pmb_total_cells(is_narrow, lanes, ...)                                                     \
    PMB_CELLS(pmb_total_cells_, is_narrow, lanes, __VA_ARGS__)
#define pmb_tile_cells(is_narrow, lanes, ...)                                                      \
    PMB_CELLS(pmb_tile_cells_, is_narrow, lanes, __VA_ARGS__)
#define pmb_list_cells(is_narrow, lanes, ...)                                                      \
    PMB_CELLS(pmb_list_cells_, is_narrow, lanes, __VA_ARGS__)

/* n numbers times `by`, rounded to the nearest whole ones: less than 2^51 in size. */
#define PMB_ROUNDED(name, FROM, TO)                                                                \
    PMB_CLONES PMB_STATIC void name(const FROM *PMB_RESTRICT from, int64_t n, double by,           \
                                    TO *PMB_RESTRICT to) {                                         \
        const double magic = 6755399441055744.0; /* 1.5 * 2^52 */                                  \
        for (int64_t i = 0; i < n; i++) to[i] = (TO)((double)from[i] * by + magic - magic);        \
    }
PMB_ROUNDED(pmb_rounded_fi, float, int32_t)
PMB_ROUNDED(pmb_rounded_fd, float, double)
PMB_ROUNDED(pmb_rounded_di, double, int32_t)
PMB_ROUNDED(pmb_rounded_dd, double, double)

PMB_INLINE void pmb_rounded(int is_double, int is_narrow, const void *from, int64_t n, double by,
                            void *to) {
    if (is_double && is_narrow)
        pmb_rounded_di((const double *)from, n, by, (int32_t *)to);
    else if (is_double)
        pmb_rounded_dd((const double *)from, n, by, (double *)to);
    else if (is_narrow)
        pmb_rounded_fi((const float *)from, n, by, (int32_t *)to);
    else
        pmb_rounded_fd((const float *)from, n, by, (double *)to);
}

#endif
