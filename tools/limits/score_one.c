/* CPU nanoseconds of one row, by one library's C interface: mcb.h, LightGBM or XGBoost, or by compiled code.
 *
 *     score_one repeat rows.bin ours model.mcb
 *     score_one repeat rows.bin top model.mcb 5       (the classes of the five highest scores alone)
 *     score_one repeat rows.bin all model.mcb 5       (all scores, and the classes of the five highest among them)
 *     score_one repeat rows.bin lightgbm model.txt lib_lightgbm.so
 *     score_one repeat rows.bin xgboost model.ubj libxgboost.so
 *     score_one repeat rows.bin compiled model score.so     (a function score_row(const float *row, double *scores))
 *
 * rows.bin: int32 n, d, then float rows[n,d]. Prints "ns" and the time of the best pass over all rows, divided by n. It is
 * CPU time of the process: others' work on the machine lengthens it least. */
#include "timing.h"

#include <stdint.h>

#include "libraries.h"

static mcb_model model;
static void *handle;
static int width;
static uint32_t highest, classes[65536];
static void *tops;
static double scores[65536];
static void (*compiled)(const float *, double *);
static int (*boost)(void *, const char *, const char *, void *, const uint64_t **, uint64_t *, const float **);

static void by_ours(const float *x)
{
    mcb_scores(&model, x, scores);
}

static void by_top(const float *x)
{
    mcb_top_scores(&model, tops, x, highest, classes, scores);
}

static void by_all(const float *x)
{
    mcb_scores(&model, x, scores);
    mcb_top(&model, scores, highest, classes);
}

static void by_lightgbm(const float *x)
{
    int64_t length;
    light(handle, x, &length, scores);
}

static void by_compiled(const float *x)
{
    compiled(x, scores);
}

static void by_xgboost(const float *x)
{
    static const char config[] = "{\"type\":1,\"training\":false,\"iteration_begin\":0,\"iteration_end\":0,"
                                 "\"strict_shape\":false,\"missing\":NaN,\"cache_id\":0}";
    char row[160];
    const uint64_t *shape;
    uint64_t dimension;
    const float *result;
    snprintf(row, sizeof row, "{\"data\":[%llu,true],\"shape\":[1,%d],\"typestr\":\"<f4\",\"version\":3}",
             (unsigned long long)(uintptr_t)x, width);
    if (boost(handle, row, config, NULL, &shape, &dimension, &result))
        give_up("XGBoost cannot predict");
}

static void open_highest(const char *name, const char *count)
{
    open_model(&model, name);
    highest = (uint32_t)atoi(count);
    if (highest < 1 || highest > model.n_classes)
        give_up("the number of highest scores is out of range");
}

static void open_top(const char *name, const char *count)
{
    open_highest(name, count);
    size_t size = mcb_top_size(&model);
    tops = malloc(size + 1);
    if (!tops || mcb_top_begin(&model, tops, size) != MCB_OK)
        give_up("the leaves of this model have numbers for all classes");
}

static void open_xgboost(const char *name, const char *library_name)
{
    void *library = opened(library_name);
    int (*create)(const void **, uint64_t, void **);
    int (*load)(void *, const char *);
    int (*set)(void *, const char *, const char *);
    find(library, "XGBoosterCreate", &create);
    find(library, "XGBoosterLoadModel", &load);
    find(library, "XGBoosterSetParam", &set);
    find(library, "XGBoosterPredictFromDense", &boost);
    if (create(NULL, 0, &handle) || load(handle, name) || set(handle, "nthread", "1"))
        give_up("XGBoost cannot read its model");
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 6)
        return 1;
    int repeat = atoi(argv[1]);
    int32_t n, d;
    const float *rows = rows_of(argv[2], &n, &d);
    if (repeat < 1)
        return 1;
    width = d;
    void (*score)(const float *) = by_ours;
    if (argc == 5)
        open_model(&model, argv[4]);
    else if (!strcmp(argv[3], "top")) {
        open_top(argv[4], argv[5]);
        score = by_top;
    } else if (!strcmp(argv[3], "all")) {
        open_highest(argv[4], argv[5]);
        score = by_all;
    } else if (!strcmp(argv[3], "lightgbm")) {
        handle = open_lightgbm(argv[4], argv[5], width);
        score = by_lightgbm;
    } else if (!strcmp(argv[3], "compiled")) {
        find(opened(argv[5]), "score_row", &compiled);
        score = by_compiled;
    } else {
        open_xgboost(argv[4], argv[5]);
        score = by_xgboost;
    }
    double best = 1e300;
    for (int pass = -1; pass < repeat; pass++) {
        double start = now();
        for (int i = 0; i < n; i++)
            score(rows + (size_t)i * (size_t)d);
        double taken = (now() - start) / n;
        if (pass >= 0 && taken < best)
            best = taken;
    }
    printf("ns %.3f\n", best);
    return 0;
}
