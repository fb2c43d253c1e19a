/* What fuzz.c draws: damage to the bytes of a model file, and features. Include mcb.h first. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint64_t state;

static uint64_t draw(void) { /* splitmix64 */
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t below(uint64_t n) {
    return n ? draw() % n : 0;
}

static void put(unsigned char *p, uint64_t value, size_t bytes) {
    size_t i;
    for (i = 0; i < bytes; i++) p[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t interesting(size_t size) {
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      3,
                                      63,
                                      64,
                                      65,
                                      127,
                                      128,
                                      255,
                                      256,
                                      65535,
                                      65536,
                                      0x7f800000,
                                      0x7fc00000,
                                      0x80000000,
                                      0x7fffffff,
                                      0xffffffff,
                                      UINT64_C(0x7ff0000000000000),
                                      UINT64_C(0x7fffffffffffffff),
                                      UINT64_C(0x4bf0000000000000),
                                      UINT64_C(0xffffffffffffffff),
                                      UINT64_C(0xffffffffffffffc0)};
    uint64_t v = values[below(sizeof values / sizeof *values)];
    switch (below(4)) {
    case 0:
        return size + below(129) - 64;
    case 1:
        return draw();
    case 2:
        return v + below(3) - 1;
    default:
        return v;
    }
}

/* A place to damage: anywhere, or more likely in the header and the section table. */
static size_t place(size_t size, size_t width) {
    size_t table = 64 + 32 * 18;
    size_t limit = below(2) && size > table ? table : size;
    size_t at = (size_t)below(limit);
    if (below(4)) at -= at % width;
    return at + width <= size ? at : 0;
}

/* Damages the bytes, which have room for 256 more; returns the new size. */
static size_t damage(unsigned char *p, size_t size) {
    size_t n = 1 + (size_t)below(3), width, a, b, i;
    while (n--) {
        if (size < 16) return size;
        width = (size_t)1 << below(4);
        a = place(size, width);
        b = place(size, width);
        switch (below(8)) {
        case 0:
            if (below(4) == 0) size = (size_t)below(size);
            break;
        case 1:
            if (below(4) == 0) {
                size_t more = 1 + (size_t)below(128);
                for (i = 0; i < more; i++) p[size + i] = (unsigned char)(below(2) ? draw() : 0);
                size += more;
                if (size > 100000) return size;
            }
            break;
        case 2:
        case 3:
            p[a] ^= (unsigned char)(1u << below(8));
            break;
        case 4:
            put(p + a, interesting(size), width);
            break;
        case 5: {
            unsigned char t[8];
            memcpy(t, p + a, width);
            memmove(p + a, p + b, width);
            memcpy(p + b, t, width);
            break;
        }
        case 6:
            for (i = 0; i < width; i++) p[a + i] = (unsigned char)draw();
            break;
        default: { /* a small step, which often stays nearly valid */
            uint64_t v = 0;
            for (i = width; i--;) v = v << 8 | p[a + i];
            put(p + a, v + below(5) - 2, width);
        }
        }
    }
    return size;
}

static void repair(unsigned char *p, size_t size) {
    uint64_t end;
    uint32_t n, i;
    if (size < 64) return;
    if (below(32)) memcpy(p, "\x89MCB\r\n\x1a\n\1\0\0\0\0\0\0\0", 16);
    if (below(32)) put(p + 16, size, 8);
    if (below(32)) put(p + 60, 0, 4);
    n = mcb__u32(p + 24);
    if (n > 64 || 64 + 32 * (size_t)n > size) return;
    end = 64 + 32 * (uint64_t)n;
    for (i = 0; i < n; i++) {
        unsigned char *entry = p + 64 + 32 * i;
        uint64_t offset = mcb__u64(entry + 8), count = mcb__u64(entry + 16),
                 width = mcb__dtype_size(entry[4]);
        if (width && offset <= size && count <= (size - offset) / width)
            put(entry + 24, mcb_crc32c(0, p + offset, (size_t)(count * width)), 4);
        else
            break;
        if (offset > end && offset - end < 64 && below(16))
            memset(p + end, 0, (size_t)(offset - end));
        end = offset + count * width;
    }
    put(p + 56, mcb_crc32c(mcb_crc32c(0, p, 56), p + 64, 32 * (size_t)n), 4);
}

static float value(void) {
    static const float odd[] = {0.0f, -0.0f, 1e-45f, -3.4e38f, 3.4e38f, 1.0f, -1.0f};
    uint64_t which = below(12);
    if (which == 0) return NAN;
    if (which == 1) return INFINITY;
    if (which == 2) return -INFINITY;
    if (which < 5) return odd[below(sizeof odd / sizeof *odd)];
    return (float)((double)(int64_t)draw() / 4e18);
}

#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("failed: %s (line %d)\n", #condition, __LINE__);                                \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)
