/* What the programs that time rows chunk by chunk share: the clock of the processor, files, sorting. Include it first. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mcb.h"

#define CHUNK 256

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void *whole(const char *name, size_t *size)
{
    FILE *file = fopen(name, "rb");
    void *p = 0;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        *size = (size_t)ftell(file);
        rewind(file);
        p = malloc(*size);
        if (p && fread(p, 1, *size, file) != *size)
            p = 0;
        fclose(file);
    }
    if (!p) {
        perror(name);
        exit(1);
    }
    return p;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
