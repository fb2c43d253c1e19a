/* Nanoseconds per row of scoring rows one at a time: mcb.h, and LightGBM's C interface for single rows.
 *
 *     score_trees repeat model.mcb rows.bin [lib_lightgbm.so model.txt]
 *
 * rows.bin (written by tools/bench.py): int32 n, d, then float rows[n,d]. Scorers take turns on every chunk of CHUNK rows,
 * so that a change of clock or load meets both. Prints a line "name best median" per scorer, nanoseconds per row: best and
 * median of the passes for each chunk, averaged over the chunks. The library is opened at run time: nothing of it is
 * needed to compile this. */
#define _POSIX_C_SOURCE 200112L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mcb.h"

#define CHUNK 256
/* From LightGBM's c_api.h. */
#define FLOAT32 0
#define RAW_SCORE 1
typedef int (*create_function)(const char *, int *, void **);
typedef int (*init_function)(void *, int, int, int, int, int32_t, const char *, void **);
typedef int (*predict_function)(void *, const void *, int64_t *, double *);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void give_up(const char *words)
{
    fprintf(stderr, "%s\n", words);
    exit(1);
}

static void *whole(const char *name, size_t *size)
{
    FILE *file = fopen(name, "rb");
    if (!file)
        give_up(name);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *p = malloc(*size);
    if (!p || fread(p, 1, *size, file) != *size)
        give_up(name);
    fclose(file);
    return p;
}

/* A function pointer from dlsym, without the cast that ISO C does not know. */
static void find(void *library, const char *name, void *function)
{
    void *p = dlsym(library, name);
    if (!p)
        give_up(name);
    memcpy(function, &p, sizeof p);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6)
        return 1;
    int repeat = atoi(argv[1]), scorers = argc == 6 ? 2 : 1;
    size_t size, rows_size;
    void *bytes = whole(argv[2], &size);
    unsigned char *head = whole(argv[3], &rows_size);
    int32_t n, d;
    memcpy(&n, head, 4);
    memcpy(&d, head + 4, 4);
    if (rows_size != 8 + sizeof(float) * (size_t)n * (size_t)d)
        give_up("rows.bin has another size than it says");
    const float *rows = (const float *)(head + 8);
    mcb_model model;
    int status = mcb_open(&model, bytes, size);
    if (status != MCB_OK)
        give_up(mcb_strerror(status));
    size_t room = mcb_prepared_size(&model);
    void *memory = malloc(room + 1);
    if (!memory || mcb_prepare(&model, memory, room) != MCB_OK)
        give_up("no memory to prepare the trees");
    void *fast = NULL;
    predict_function predict = NULL;
    if (scorers == 2) {
        void *library = dlopen(argv[4], RTLD_NOW), *booster;
        if (!library)
            give_up(dlerror());
        create_function create;
        init_function init;
        find(library, "LGBM_BoosterCreateFromModelfile", &create);
        find(library, "LGBM_BoosterPredictForMatSingleRowFastInit", &init);
        find(library, "LGBM_BoosterPredictForMatSingleRowFast", &predict);
        int rounds;
        if (create(argv[5], &rounds, &booster) ||
            init(booster, RAW_SCORE, 0, -1, FLOAT32, d, "num_threads=1", &fast))
            give_up("LightGBM cannot read its model");
    }
    int chunks = n / CHUNK;
    if (repeat < 1 || chunks < 1)
        return 1;
    double *scores = malloc(sizeof(double) * 65536);
    double *taken = malloc(sizeof(double) * 2 * (size_t)chunks * (size_t)repeat);
    for (int pass = -1; pass < repeat; pass++)
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int which = 0; which < scorers; which++) {
                double start = now();
                for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++) {
                    const float *x = rows + (size_t)i * (size_t)d;
                    int64_t length;
                    if (which)
                        predict(fast, x, &length, scores);
                    else
                        mcb_scores(&model, x, scores);
                }
                if (pass >= 0)
                    taken[(which * chunks + chunk) * repeat + pass] = (now() - start) / CHUNK * 1e9;
            }
    const char *names[2] = {"ours", "LightGBM"};
    for (int which = 0; which < scorers; which++) {
        double best = 0, median = 0;
        for (int chunk = 0; chunk < chunks; chunk++) {
            double *passes = taken + (which * chunks + chunk) * repeat;
            qsort(passes, (size_t)repeat, sizeof(double), ascending);
            best += passes[0] / chunks;
            median += passes[repeat / 2] / chunks;
        }
        printf("%s %.3f %.3f\n", names[which], best, median);
    }
    return 0;
}
