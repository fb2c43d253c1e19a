/* The first number of NumPy's PCG64 seeded with [seed, round], without the objects that NumPy makes for it.
 *
 * Sources: M. O'Neill, "PCG" (2014), XSL-RR 128/64 and her seed_seq hash, as numpy.random.SeedSequence states it.
 */
#ifndef PYMCBOOST_ROUND_KEY_H
#define PYMCBOOST_ROUND_KEY_H

#include "lanes.h"

typedef struct {
    uint64_t high, low;
} pmb_128;

PMB_INLINE pmb_128 pmb_128_add(pmb_128 a, pmb_128 b) {
    pmb_128 sum = {a.high + b.high, a.low + b.low};
    sum.high += sum.low < a.low;
    return sum;
}

/* a b modulo 2^128 */
PMB_INLINE pmb_128 pmb_128_times(pmb_128 a, pmb_128 b) {
    uint64_t a0 = (uint32_t)a.low, a1 = a.low >> 32, b0 = (uint32_t)b.low, b1 = b.low >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
    pmb_128 product = {a1 * b1 + (middle >> 32) + (other >> 32) + a.high * b.low + a.low * b.high,
                       a.low * b.low};
    return product;
}

/* One number of the hash: scrambled by a constant that moves on. */
PMB_INLINE uint32_t pmb_hashed(uint32_t value, uint32_t *constant, uint32_t times) {
    value ^= *constant;
    *constant *= times;
    value *= *constant;
    return value ^ value >> 16;
}

PMB_STATIC uint64_t pmb_round_key(uint32_t seed, uint32_t n) {
    const pmb_128 step = {0x2360ED051FC65DA4u, 0x4385DF649FCCF645u};
    uint32_t pool[4] = {seed, n, 0, 0}, constant = 0x43B0D7E5u;
    uint64_t words[4];
    for (int i = 0; i < 4; i++) pool[i] = pmb_hashed(pool[i], &constant, 0x931E8875u);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            if (from == to) continue;
            uint32_t mixed = 0xCA01F9DDu * pool[to] -
                             0x4973F715u * pmb_hashed(pool[from], &constant, 0x931E8875u);
            pool[to] = mixed ^ mixed >> 16;
        }
    constant = 0x8B51F9DDu;
    for (int i = 0; i < 4; i++) {
        words[i] = pmb_hashed(pool[2 * i % 4], &constant, 0x58F38DEDu);
        words[i] |= (uint64_t)pmb_hashed(pool[(2 * i + 1) % 4], &constant, 0x58F38DEDu) << 32;
    }
    pmb_128 odd = {words[2] << 1 | words[3] >> 63, words[3] << 1 | 1}, start = {words[0], words[1]};
    pmb_128 state = pmb_128_add(odd, start); /* one step from 0, and the seed */
    for (int i = 0; i < 2; i++) state = pmb_128_add(pmb_128_times(state, step), odd);
    uint64_t all = state.high ^ state.low;
    int turn = (int)(state.high >> 58);
    return all >> turn | all << (-turn & 63);
}

#endif
