/* What the programs that time rows share: a clock, files, models, and turns by chunks of rows. Include it first. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mcb.h"

#define CHUNK 256
#ifndef CLOCK
#define CLOCK CLOCK_PROCESS_CPUTIME_ID
#endif

/* Nanoseconds. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void give_up(const char *words) {
    fprintf(stderr, "%s\n", words);
    exit(1);
}

static void *whole(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    void *p = 0;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        *size = (size_t)ftell(file);
        rewind(file);
        p = malloc(*size);
        if (p && fread(p, 1, *size, file) != *size) p = 0;
        fclose(file);
    }
    if (!p) {
        perror(name);
        exit(1);
    }
    return p;
}

/* Rows of a file that tools/bench.py writes: int32 n, d, then float rows[n,d]. */
static const float *rows_of(const char *name, int32_t *n, int32_t *d) {
    size_t size;
    int32_t *head = whole(name, &size);
    *n = head[0];
    *d = head[1];
    if (*n < 1 || size != 8 + sizeof(float) * (size_t)*n * (size_t)*d)
        give_up("rows.bin has another size than it says");
    return (const float *)(head + 2);
}

/* Opens a model, and prepares it. */
static void open_model(mcb_model *model, const char *name) {
    size_t size, room;
    void *bytes = whole(name, &size), *memory;
    int status = mcb_open(model, bytes, size);
    if (status != MCB_OK) give_up(mcb_strerror(status));
    room = mcb_prepared_size(model);
    memory = malloc(room + 1);
    if (!memory || mcb_prepare(model, memory, room) != MCB_OK)
        give_up("no memory to prepare the model");
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Scorers take turns on every chunk of rows, so that a change of clock or load meets all of them. Prints a line "name
 * best median" for each, nanoseconds a row: best and median of the passes for each chunk, averaged over the chunks. */
static void take_turns(const char *const *names, void (*const *score)(size_t), size_t scorers,
                       size_t n, int repeat) {
    size_t chunks = n / CHUNK, passes = (size_t)repeat;
    double *taken = malloc(sizeof(double) * scorers * chunks * passes);
    if (repeat < 1 || chunks < 1 || !taken) exit(1);
    for (int pass = -1; pass < repeat; pass++)
        for (size_t chunk = 0; chunk < chunks; chunk++)
            for (size_t which = 0; which < scorers; which++) {
                double start = now();
                for (size_t i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++) score[which](i);
                if (pass >= 0)
                    taken[(which * chunks + chunk) * passes + (size_t)pass] =
                        (now() - start) / CHUNK;
            }
    for (size_t which = 0; which < scorers; which++) {
        double best = 0, median = 0;
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            double *its = taken + (which * chunks + chunk) * passes;
            qsort(its, passes, sizeof(double), ascending);
            best += its[0] / (double)chunks;
            median += its[passes / 2] / (double)chunks;
        }
        printf("%s %.3f %.3f\n", names[which], best, median);
    }
}
