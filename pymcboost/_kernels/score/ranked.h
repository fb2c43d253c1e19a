/* ---------------------------------------------------------------------------------- prepared trees: descents in ranks */

#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))

typedef uint32_t mcb__u16x __attribute__((vector_size(64)));
typedef int32_t mcb__s16x __attribute__((vector_size(64)));
typedef uint16_t mcb__w16x __attribute__((vector_size(32)));
typedef uint16_t mcb__wm16x __attribute__((vector_size(32), aligned(1), may_alias));
typedef float mcb__f16x __attribute__((vector_size(64)));
typedef uint32_t mcb__um16x __attribute__((vector_size(64), aligned(1), may_alias));
typedef float mcb__fm16x __attribute__((vector_size(64), aligned(1), may_alias));
#define MCB__ALL16(v) {v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}

/* 16 numbers of 4 bytes from the places in `at`. */
#define MCB__GATHER(result, base, at)                                                              \
    do {                                                                                           \
        uint16_t all16;                                                                            \
        __asm__ volatile("kxnorw %1, %1, %1\n\tvpgatherdd (%2,%3,4), %0%{%1%}"                     \
                         : "=&v"(result), "=&Yk"(all16)                                            \
                         : "r"(base), "v"(at)                                                      \
                         : "memory");                                                              \
    } while (0)

/* Values of 16 columns of a row, with infinities for NaN. */
MCB__AVX512 MCB__INLINE void mcb__values_of(const mcb__ranks *p, const void *x, int values, uint32_t c, mcb__f16x *out) {
    mcb__u16x bits, missing = *(const mcb__um16x *)(p->missing + c);
    mcb__f16x value;
    uint32_t i;
    if (values == MCB_VALUES_F32) {
        mcb__u16x feature = *(const mcb__um16x *)(p->feature + c);
        MCB__GATHER(bits, x, feature);
        value = (mcb__f16x)bits;
    } else {
        for (i = 0; i < 16; i++) value[i] = mcb__value(x, values, p->feature[c + i]);
    }
    bits = (mcb__u16x)(value != value);
    *out = (mcb__f16x)(((mcb__u16x)value & ~bits) | (missing & bits));
}

/* Ranks of a row, 16 bits each: of columns 0 to 31, and of the others. Searches of all columns go on side by side. */
#define MCB__R_VALUES(i)                                                                      \
    mcb__u16x from##i = *(const mcb__um16x *)(p->begin + 16 * i), found##i = from##i;         \
    mcb__u16x to##i = *(const mcb__um16x *)(p->end + 16 * i);                                 \
    mcb__f16x value##i = (mcb__f16x)from##i;                                                  \
    if (16 * i < p->n_columns) mcb__values_of(p, x, values, 16 * i, &value##i);
#define MCB__R_SEARCH(i)                                                                      \
    if (16 * i < p->n_columns) {                                                              \
        mcb__u16x middle = found##i + (half - 1), inside = (mcb__u16x)(middle < to##i), cut;  \
        middle &= inside;                                                                     \
        MCB__GATHER(cut, p->cut, middle);                                                     \
        found##i += ((mcb__u16x)((mcb__f16x)cut < value##i) & inside) & half;                 \
    }
#define MCB__R_FOUND(i) *(mcb__wm16x *)(void *)(rank + 16 * i) = __builtin_convertvector(found##i - from##i, mcb__w16x);
#define MCB__R_EACH2(X) X(0) X(1)
#define MCB__R_EACH3(X) MCB__R_EACH2(X) X(2)
#define MCB__R_EACH4(X) MCB__R_EACH3(X) X(3)
#define MCB__R_EACH5(X) MCB__R_EACH4(X) X(4)
#define MCB__R_EACH6(X) MCB__R_EACH5(X) X(5)
#define MCB__R_EACH7(X) MCB__R_EACH6(X) X(6)
#define MCB__R_EACH8(X) MCB__R_EACH7(X) X(7)
MCB__AVX512 MCB__INLINE void mcb__rank_row(const mcb__ranks *p, const void *x, int values, uint16_t *rank) {
    uint32_t half;
    MCB__R_EACH4(MCB__R_VALUES)
    for (half = p->most; half; half >>= 1) {
        MCB__R_EACH4(MCB__R_SEARCH)
    }
    MCB__R_EACH4(MCB__R_FOUND)
}

/* One step of 16 descents: a node's column is its lowest 6 bits, and chooses among 64 ranks. */
#define MCB__R_BEGIN(i) mcb__u16x at##i = *(const mcb__um16x *)(root + 16 * i), node##i;
#define MCB__R_LOAD(i) MCB__GATHER(node##i, p->node, at##i);
#define MCB__R_STEP(i)                                                                             \
    {                                                                                              \
        mcb__u16x mine = node##i;                                                                  \
        __asm__("vpermi2w %2, %1, %0" : "+v"(mine) : "v"(low), "v"(high));                         \
        mine &= 0xffffu;                                                                           \
        at##i += (node##i >> 20) - (mcb__u16x)(mine > ((node##i >> 6) & 0x3fffu));                 \
        MCB__R_LOAD(i)                                                                             \
    }
#define MCB__R_MORE(i) more |= node##i;
#define MCB__R_END(i) \
    *(mcb__um16x *)(leaf + 16 * i) = *(const mcb__um16x *)(first + 16 * i) + ((node##i >> 6) & (uint32_t)MCB__R_CUTS);
/* Leaves of 16 n trees from number t of those sorted on, of which the deepest has `depth` splits. */
#define MCB__DEFINE_RANKED(n)                                                                                   \
    MCB__AVX512 MCB__APART void mcb__ranked_##n(const mcb__ranks *p, const mcb__sorted *order, uint64_t t,       \
                                                uint32_t depth, const uint16_t *rank, uint32_t *leaf) {         \
        const uint32_t *root = order->root + t, *first = order->first + t;                                      \
        mcb__u16x low = *(const mcb__um16x *)(const void *)rank, more;                                          \
        mcb__u16x high = *(const mcb__um16x *)(const void *)(rank + MCB__R_COLUMNS / 2);                        \
        uint32_t steps, i;                                                                                      \
        MCB__R_EACH##n(MCB__R_BEGIN)                                                                            \
        MCB__R_EACH##n(MCB__R_LOAD)                                                                             \
        while (depth) {                                                                                         \
            for (steps = depth < 12 ? depth : 12, depth -= steps; steps; steps--) {                             \
                MCB__R_EACH##n(MCB__R_STEP)                                                                     \
            }                                                                                                   \
            if (!depth) break;                                                                                  \
            more = node0;                                                                                       \
            MCB__R_EACH##n(MCB__R_MORE)                                                                         \
            for (steps = i = 0; i < 16; i++) steps |= more[i];                                                  \
            if (!(steps >> 20)) break;                                                                          \
        }                                                                                                       \
        MCB__R_EACH##n(MCB__R_END)                                                                              \
    }
MCB__DEFINE_RANKED(2)
MCB__DEFINE_RANKED(3)
MCB__DEFINE_RANKED(4)
MCB__DEFINE_RANKED(5)
MCB__DEFINE_RANKED(6)
MCB__DEFINE_RANKED(7)
MCB__DEFINE_RANKED(8)

#define MCB__RANKED(n) mcb__ranked_##n(p, order, t + i, order->depth[t + last - 1], rank, leaf + i); break;

/* Leaves of a row in trees t to t + n, which were sorted together. */
MCB__AVX512 MCB__APART void mcb__find_ranked(const mcb__ranks *p, const mcb__sorted *order, uint64_t t, size_t n,
                                             const uint16_t *rank, size_t *row) {
    const uint16_t *place = order->place + t;
    uint32_t leaf[MCB__SORTED + 2 * 16];
    size_t i, vectors, parts, last;
    for (i = 0; i < n; i += 16 * vectors) { /* parts of equal size */
        vectors = (n - i + 15) / 16;
        parts = (vectors + 7) / 8;
        vectors = (vectors + parts - 1) / parts;
        if (vectors < 2) vectors = 2;
        last = i + 16 * vectors < n ? i + 16 * vectors : n;
        switch (vectors) {
            case 3: MCB__RANKED(3)
            case 4: MCB__RANKED(4)
            case 5: MCB__RANKED(5)
            case 6: MCB__RANKED(6)
            case 7: MCB__RANKED(7)
            case 8: MCB__RANKED(8)
            default: MCB__RANKED(2)
        }
    }
    for (i = 0; i < n; i++) row[i] = leaf[place[i]];
}

#endif
