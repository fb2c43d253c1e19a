/* Random draws by number: what is drawn depends on the key alone, not on what was drawn before or by which thread. */
#ifndef PYMCBOOST_DRAWS_H
#define PYMCBOOST_DRAWS_H

#include "lanes.h"

#define PMB_GOLDEN 0x9E3779B97F4A7C15u

/* The finaliser of splitmix64. */
PMB_INLINE uint64_t pmb_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Key of a child of a node. */
PMB_INLINE uint64_t pmb_child_key(uint64_t key, int right) {
    return pmb_mix(key + (right ? 3 : 2) * PMB_GOLDEN + 1);
}

/* Which rows a tree is grown on: those of which `pmb_is_drawn` says so by their numbers. */
typedef struct {
    uint64_t key, below;
} pmb_draw;

PMB_INLINE pmb_draw pmb_draw_of(uint64_t tree_key, double share) {
    pmb_draw draw = {pmb_mix(tree_key + 1), (uint64_t)(share * 4294967296.0)};
    return draw;
}

PMB_INLINE int pmb_is_drawn(const pmb_draw *draw, int64_t number) {
    return pmb_mix(draw->key + ((uint64_t)number + 1) * PMB_GOLDEN) >> 32 < draw->below;
}

/* Mark `take` of the n features, all sets equally likely (Knuth's selection sampling). */
PMB_CLONES PMB_STATIC void pmb_sample(uint64_t key, int32_t n, int32_t take,
                                      uint8_t *PMB_RESTRICT chosen) {
    uint32_t place[64]; /* ahead of the decisions, which wait for each other */
    uint32_t needed = (uint32_t)take;
    for (int32_t from = 0; from < n; from += 64) {
        int32_t count = n - from < 64 ? n - from : 64;
        uint8_t any = 0;
        for (int32_t j = 0; j < 64; j++) {
            uint64_t u = pmb_mix(key + ((uint64_t)from + (uint64_t)j + 4) * PMB_GOLDEN) >> 32;
            place[j] = (uint32_t)(u * (uint32_t)(n - from - j) >> 32);
        }
        for (int32_t j = 0; j < count; j++) any |= place[j] < needed;
        if (!any) memset(chosen + from, 0, (size_t)(uint32_t)count);
        for (int32_t j = 0; j < count && any; j++) {
            uint8_t yes = place[j] < needed;
            chosen[from + j] = yes;
            needed -= yes;
        }
    }
}

/* Mark `take` of the n features that are marked in `pool`, by feature up to d; NULL: of all. */
PMB_INLINE void pmb_sample_of(uint64_t key, const uint8_t *pool, int32_t d, int32_t n, int32_t take,
                              uint8_t *chosen) {
    pmb_sample(key, n, take, chosen);
    for (int32_t f = d - 1; pool && f >= 0; f--)
        chosen[f] = pool[f] ? chosen[--n] : 0; /* none moves down */
}

/* Numbers of the n marks that are set, ascending; returns how many. Eight are looked at at once, as mostly none is set. */
PMB_INLINE int32_t pmb_marked(const uint8_t *marks, int32_t n, int32_t *list) {
    int32_t found = 0;
    for (int32_t from = 0; from < n; from += 8) {
        int32_t count = n - from < 8 ? n - from : 8;
        uint64_t some = 1;
        if (count == 8) memcpy(&some, marks + from, 8);
        for (int32_t j = 0; j < count && some; j++) {
            list[found] = from + j;
            found += marks[from + j];
        }
    }
    return found;
}

#endif
