/* ---------------------------------------------------------------------------------- prepared trees: descents in ranks */

/* Descends trees that are laid out in ranks, 16 descents at a time, with AVX-512. */

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
MCB__AVX512 MCB__INLINE void mcb__values_of(const mcb__ranks *p, const void *x, int values,
                                            uint32_t c, mcb__f16x *out) {
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
#define MCB__R_VALUES(i)                                                                           \
    mcb__u16x from##i = *(const mcb__um16x *)(p->begin + 16 * i), found##i = from##i;              \
    mcb__u16x to##i = *(const mcb__um16x *)(p->end + 16 * i);                                      \
    mcb__f16x value##i = (mcb__f16x)from##i;                                                       \
    if (16 * i < p->n_columns) mcb__values_of(p, x, values, 16 * i, &value##i);
#define MCB__R_SEARCH(i)                                                                           \
    if (16 * i < p->n_columns) {                                                                   \
        mcb__u16x middle = found##i + (half - 1), inside = (mcb__u16x)(middle < to##i), cut;       \
        middle &= inside;                                                                          \
        MCB__GATHER(cut, p->cut, middle);                                                          \
        found##i += ((mcb__u16x)((mcb__f16x)cut < value##i) & inside) & half;                      \
    }
#define MCB__R_FOUND(i)                                                                            \
    *(mcb__wm16x *)(void *)(rank + 16 * i) = __builtin_convertvector(found##i - from##i, mcb__w16x);
#define MCB__R_EACH1(X) X(0)
#define MCB__R_EACH2(X) X(0) X(1)
#define MCB__R_EACH3(X) MCB__R_EACH2(X) X(2)
#define MCB__R_EACH4(X) MCB__R_EACH3(X) X(3)
#define MCB__R_EACH5(X) MCB__R_EACH4(X) X(4)
#define MCB__R_EACH6(X) MCB__R_EACH5(X) X(5)
#define MCB__R_EACH7(X) MCB__R_EACH6(X) X(6)
#define MCB__R_EACH8(X) MCB__R_EACH7(X) X(7)
MCB__AVX512 MCB__INLINE void mcb__rank_row(const mcb__ranks *p, const void *x, int values,
                                           uint16_t *rank) {
    uint32_t half;
    MCB__R_EACH4(MCB__R_VALUES)
    for (half = p->most; half; half >>= 1) {
        MCB__R_EACH4(MCB__R_SEARCH)
    }
    MCB__R_EACH4(MCB__R_FOUND)
}

/* All ones in `right` where 16 descents go right: a node's column is its lowest 6 bits, and chooses among 64 ranks. */
#define MCB__R_RIGHT(right, node)                                                                  \
    mcb__u16x right = node;                                                                        \
    __asm__("vpermi2w %2, %1, %0" : "+v"(right) : "v"(low), "v"(high));                            \
    right = (mcb__u16x)((right & 0xffffu) > ((node >> 6) & 0x3fffu));
#define MCB__R_CHOOSE(right, yes, no) (((yes) & right) | ((no) & ~right))
#define MCB__R_FROM(array, i) *(const mcb__um16x *)(const void *)((array) + 16 * i)
/* The first three splits: the nodes that they may lead to lie side by side for all trees. */
#define MCB__R_BEGIN(i)                                                                            \
    mcb__u16x at##i = MCB__R_FROM(order->root + t, i),                                             \
              node##i = MCB__R_FROM(order->top[0] + t, i);                                         \
    {                                                                                              \
        MCB__R_RIGHT(one, node##i)                                                                 \
        mcb__u16x left = MCB__R_CHOOSE(one, MCB__R_FROM(order->top[5] + t, i),                     \
                                       MCB__R_FROM(order->top[3] + t, i));                         \
        mcb__u16x right = MCB__R_CHOOSE(one, MCB__R_FROM(order->top[6] + t, i),                    \
                                        MCB__R_FROM(order->top[4] + t, i));                        \
        at##i += (node##i >> 20) - one;                                                            \
        node##i = MCB__R_CHOOSE(one, MCB__R_FROM(order->top[2] + t, i),                            \
                                MCB__R_FROM(order->top[1] + t, i));                                \
        MCB__R_RIGHT(two, node##i)                                                                 \
        at##i += (node##i >> 20) - two;                                                            \
        node##i = MCB__R_CHOOSE(two, right, left);                                                 \
        MCB__R_STEP(i)                                                                             \
    }
#define MCB__R_STEP(i)                                                                             \
    {                                                                                              \
        MCB__R_RIGHT(side, node##i)                                                                \
        at##i += (node##i >> 20) - side;                                                           \
        MCB__GATHER(node##i, p->node, at##i);                                                      \
    }
#define MCB__R_MORE(i) more |= node##i;
#define MCB__R_END(i)                                                                              \
    *(mcb__um16x *)(leaf + 16 * i) =                                                               \
        MCB__R_FROM(order->first + t, i) + ((node##i >> 6) & (uint32_t)MCB__R_CUTS);
/* Descents that have not come to a leaf are put together. */
#define MCB__R_REST(i)                                                                             \
    {                                                                                              \
        uint16_t open;                                                                             \
        mcb__u16x packed, number = lane + (first + 16 * i);                                        \
        __asm__("vptestmd %1, %2, %0" : "=Yk"(open) : "v"(node##i), "v"(ways));                    \
        __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(packed) : "v"(at##i), "Yk"(open));          \
        *(mcb__um16x *)(rest->at + rest->n) = packed;                                              \
        __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(packed) : "v"(node##i), "Yk"(open));        \
        *(mcb__um16x *)(rest->node + rest->n) = packed;                                            \
        __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(packed) : "v"(number), "Yk"(open));         \
        *(mcb__um16x *)(rest->tree + rest->n) = packed;                                            \
        rest->n += (uint32_t)__builtin_popcount(open);                                             \
    }
/* Leaves of 16 n trees from number t of those sorted on, after `steps` splits below the first three; the others are put
 * into `rest`, with their numbers from `first` on. */
#define MCB__DEFINE_RANKED(n)                                                                      \
    MCB__AVX512 MCB__APART void mcb__ranked_##n(const mcb__ranks *p, const mcb__sorted *order,     \
                                                uint64_t t, uint32_t steps, const uint16_t *rank,  \
                                                uint32_t first, uint32_t *leaf, mcb__rest *rest) { \
        const mcb__u16x lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};             \
        const mcb__u16x ways = MCB__ALL16(0xfff00000u);                                            \
        mcb__u16x low = *(const mcb__um16x *)(const void *)rank;                                   \
        mcb__u16x high = *(const mcb__um16x *)(const void *)(rank + MCB__R_COLUMNS / 2);           \
        MCB__R_EACH##n(MCB__R_BEGIN) for (; steps; steps--){                                       \
            MCB__R_EACH##n(MCB__R_STEP)} MCB__R_EACH##n(MCB__R_END) if (rest) {                    \
            MCB__R_EACH##n(MCB__R_REST)                                                            \
        }                                                                                          \
    }
MCB__DEFINE_RANKED(2)
MCB__DEFINE_RANKED(3)
MCB__DEFINE_RANKED(4)
MCB__DEFINE_RANKED(5)
MCB__DEFINE_RANKED(6)
MCB__DEFINE_RANKED(7)
MCB__DEFINE_RANKED(8)

#define MCB__R_AGAIN(i)                                                                            \
    mcb__u16x at##i = MCB__R_FROM(rest->at + from, i), node##i = MCB__R_FROM(rest->node + from, i);
#define MCB__R_KEEP(i) *(mcb__um16x *)(rest->node + from + 16 * i) = node##i;
/* The rest of 16 n descents from number `from` on. */
#define MCB__DEFINE_REST(n)                                                                        \
    MCB__AVX512 MCB__APART void mcb__rest_##n(const mcb__ranks *p, const uint16_t *rank,           \
                                              uint32_t from, mcb__rest *rest) {                    \
        mcb__u16x low = *(const mcb__um16x *)(const void *)rank, more;                             \
        mcb__u16x high = *(const mcb__um16x *)(const void *)(rank + MCB__R_COLUMNS / 2);           \
        uint16_t open;                                                                             \
        MCB__R_EACH##n(MCB__R_AGAIN) do {                                                          \
            MCB__R_EACH##n(MCB__R_STEP) MCB__R_EACH##n(MCB__R_STEP) more = node0;                  \
            MCB__R_EACH##n(MCB__R_MORE) more >>= 20;                                               \
            __asm__("vptestmd %1, %1, %0" : "=Yk"(open) : "v"(more));                              \
        }                                                                                          \
        while (open);                                                                              \
        MCB__R_EACH##n(MCB__R_KEEP)                                                                \
    }
MCB__DEFINE_REST(1)
MCB__DEFINE_REST(2)
MCB__DEFINE_REST(3)
MCB__DEFINE_REST(4)
MCB__DEFINE_REST(5)
MCB__DEFINE_REST(6)
MCB__DEFINE_REST(7)
MCB__DEFINE_REST(8)

/* Leaves of the descents that were put together. */
MCB__AVX512 MCB__INLINE void mcb__descend_rest(const mcb__ranks *p, const mcb__sorted *order,
                                               uint64_t t, const uint16_t *rank, mcb__rest *rest,
                                               uint32_t *leaf) {
    uint32_t i, n = rest->n;
    const mcb__u16x one = MCB__ALL16(1);
    if (!n) return;
    *(mcb__um16x *)(rest->at + n) = one * rest->at[0]; /* more of the first fill the last vector */
    *(mcb__um16x *)(rest->node + n) = one * rest->node[0];
    for (i = 0; i < n; i += 128) {
        switch (n - i > 112 ? 8 : (n - i + 15) / 16) {
        case 1:
            mcb__rest_1(p, rank, i, rest);
            break;
        case 2:
            mcb__rest_2(p, rank, i, rest);
            break;
        case 3:
            mcb__rest_3(p, rank, i, rest);
            break;
        case 4:
            mcb__rest_4(p, rank, i, rest);
            break;
        case 5:
            mcb__rest_5(p, rank, i, rest);
            break;
        case 6:
            mcb__rest_6(p, rank, i, rest);
            break;
        case 7:
            mcb__rest_7(p, rank, i, rest);
            break;
        default:
            mcb__rest_8(p, rank, i, rest);
            break;
        }
    }
    for (i = 0; i < n; i++)
        leaf[rest->tree[i]] =
            order->first[t + rest->tree[i]] + ((rest->node[i] >> 6) & (uint32_t)MCB__R_CUTS);
}

#define MCB__RANKED(n)                                                                             \
    mcb__ranked_##n(p, order, t + i, steps, rank, (uint32_t)i, leaf + i,                           \
                    depth > steps ? &rest : 0);                                                    \
    break;

/* Leaves of a row in trees t to t + n, which were sorted together, in the order of sorting. leaf: MCB__R_LEAVES. */
MCB__AVX512 MCB__APART void mcb__sorted_leaves(const mcb__ranks *p, const mcb__sorted *order,
                                               uint64_t t, size_t n, const uint16_t *rank,
                                               uint32_t *leaf) {
    uint32_t depth, steps;
    size_t i, vectors, parts, last;
    mcb__rest rest;
    rest.n = 0;
    for (i = 0; i < n; i += 16 * vectors) { /* parts of equal size */
        vectors = (n - i + 15) / 16;
        parts = (vectors + 7) / 8;
        vectors = (vectors + parts - 1) / parts;
        if (vectors < 2) vectors = 2;
        last = i + 16 * vectors < n ? i + 16 * vectors : n;
        depth = order->depth[t + last - 1];
        depth = depth > 3 ? depth - 3 : 0;
        steps = depth < MCB__R_STEPS ? depth : (uint32_t)MCB__R_STEPS;
        switch (vectors) {
        case 3:
            MCB__RANKED(3)
        case 4:
            MCB__RANKED(4)
        case 5:
            MCB__RANKED(5)
        case 6:
            MCB__RANKED(6)
        case 7:
            MCB__RANKED(7)
        case 8:
            MCB__RANKED(8)
        default:
            MCB__RANKED(2)
        }
    }
    mcb__descend_rest(p, order, t, rank, &rest, leaf);
}

/* The same in the order of the trees. */
MCB__AVX512 MCB__INLINE void mcb__find_ranked(const mcb__ranks *p, const mcb__sorted *order,
                                              uint64_t t, size_t n, const uint16_t *rank,
                                              size_t *row) {
    const uint16_t *place = order->place + t;
    MCB__ALIGNED uint32_t leaf[MCB__R_LEAVES];
    size_t i;
    mcb__sorted_leaves(p, order, t, n, rank, leaf);
    for (i = 0; i < n; i++) row[i] = leaf[place[i]];
}

#endif
