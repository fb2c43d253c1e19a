/* Other libraries, opened at run time: nothing of them is needed to compile this. */
#include <dlfcn.h>

static void *opened(const char *name) {
    void *library = dlopen(name, RTLD_NOW);
    if (!library) give_up(dlerror());
    return library;
}

/* A function pointer from dlsym, without the cast that ISO C does not know. */
static void find(void *library, const char *name, void *function) {
    void *p = dlsym(library, name);
    if (!p) give_up(name);
    memcpy(function, &p, sizeof p);
}

static int (*light)(void *, const void *, int64_t *, double *);

/* What LightGBM's function for single rows, `light`, needs for a model; from its c_api.h: 1 is raw scores, 0 float32. */
static void *open_lightgbm(const char *name, const char *library_name, int width) {
    void *library = opened(library_name), *booster, *handle;
    int (*create)(const char *, int *, void **);
    int (*init)(void *, int, int, int, int, int32_t, const char *, void **);
    int rounds;
    find(library, "LGBM_BoosterCreateFromModelfile", &create);
    find(library, "LGBM_BoosterPredictForMatSingleRowFastInit", &init);
    find(library, "LGBM_BoosterPredictForMatSingleRowFast", &light);
    if (create(name, &rounds, &booster) ||
        init(booster, 1, 0, -1, 0, width, "num_threads=1", &handle))
        give_up("LightGBM cannot read its model");
    return handle;
}
