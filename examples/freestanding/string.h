/* The part of <string.h> that mcb.h calls, for targets without a C library; the compiler has the functions. */
#ifndef MCB_EXAMPLE_STRING_H
#define MCB_EXAMPLE_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);

#endif
