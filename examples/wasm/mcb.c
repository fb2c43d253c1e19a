/* mcb.h for WebAssembly: one model at a time, in the memory that follows the program's own. mcb.js calls this.
 *
 *     python -m ziglang cc -target wasm32-freestanding -Os -s -I../freestanding -I"$(python -m pymcboost --include)" \
 *         -Wl,--no-entry mcb.c -o mcb.wasm
 *
 * It runs in this folder, after `pip install ziglang`. */
#include "mcb.h"

#define EXPORT(name) __attribute__((export_name(#name)))
#define PAGE 65536u

extern unsigned char __heap_base; /* the linker's: where free memory begins */

static mcb_model model;
static size_t used; /* where the memory that is taken ends */

/* Memory that is never given back; a null pointer where there is no more. */
static void *take(size_t size) {
    size_t start = (used + 15) & ~(size_t)15, pages = __builtin_wasm_memory_size(0);
    if (size > SIZE_MAX - PAGE - start) return 0;
    size_t wanted = (start + size + PAGE - 1) / PAGE;
    if (wanted > pages && __builtin_wasm_memory_grow(0, wanted - pages) == SIZE_MAX) return 0;
    used = start + size;
    return (void *)start;
}

/* Room for a model file, which takes the place of an earlier one. */
EXPORT(mcb_room) void *room(size_t size) {
    used = (size_t)&__heap_base;
    return take(size);
}

/* Room for rows and scores, beside the model. */
EXPORT(mcb_take) void *more(size_t size) {
    return take(size);
}

/* A status of mcb.h. */
EXPORT(mcb_open) int open_model(const void *bytes, size_t size) {
    int status = mcb_open(&model, bytes, size);
    if (status != MCB_OK) return status;
    /* A linear machine would only be prepared for mcb_scores_sparse. */
    size_t wanted = model.kind != MCB_KIND_LINEAR ? mcb_prepared_size(&model) : 0;
    void *memory = wanted ? take(wanted) : 0;
    return memory ? mcb_prepare(&model, memory, wanted) : MCB_OK;
}

EXPORT(mcb_strerror) const char *message(int status) {
    return mcb_strerror(status);
}
EXPORT(mcb_n_features) uint32_t n_features(void) {
    return model.n_features;
}
EXPORT(mcb_n_classes) uint32_t n_classes(void) {
    return model.n_classes;
}

/* Class of a row, and its scores. */
EXPORT(mcb_predict) uint32_t predict(const float *row, double *scores) {
    return mcb_predict(&model, row, scores);
}

/* Scores become probabilities: a status. */
EXPORT(mcb_probabilities) int probabilities(double *scores) {
    return mcb_probabilities(&model, scores);
}

/* Label of a class: its text and length, or a null pointer where labels are integers. */
EXPORT(mcb_label_text) const char *label_text(uint32_t k, size_t *length) {
    return mcb_label_text(&model, k, length);
}
EXPORT(mcb_label_int) int64_t label_int(uint32_t k) {
    return mcb_label_int(&model, k);
}
