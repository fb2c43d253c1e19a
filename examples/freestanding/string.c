/* Compile with -fno-builtin, lest a compiler make a call of memcpy of the loop in memcpy. */
#include "string.h"

void *memcpy(void *to, const void *from, size_t n) {
    unsigned char *target = to;
    const unsigned char *source = from;
    while (n--) *target++ = *source++;
    return to;
}

void *memset(void *to, int byte, size_t n) {
    unsigned char *target = to;
    while (n--) *target++ = (unsigned char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *left = a, *right = b;
    for (; n--; left++, right++)
        if (*left != *right) return *left < *right ? -1 : 1;
    return 0;
}
