/* A model over the features that it uses, numbered 0, 1, ... in the order in which they occur. Sparse rows of many features
 * are filled up in these numbers: they stay in the cache, and memory does not depend on how many features there are. */
#ifndef NARROW_H
#define NARROW_H

#include "mcb.h"

#include <stdlib.h>

#define NARROW_EMPTY 0xffffffffu
/* features that have a table of their columns; more are looked up by their hash */
#define NARROW_TABLE 1048576

typedef struct {
    mcb_model model;   /* the same learners over columns in place of features */
    uint32_t *index;   /* its FEAT or FIDX */
    uint32_t *feature; /* hash table: a feature, or NARROW_EMPTY */
    uint32_t *column;  /* hash table: the column of the feature */
    uint32_t bits;     /* of the number of places in the hash table */
    /* column of each feature, the last one for all that are not used; or null */
    uint32_t *by_feature;
    void *memory; /* of mcb_prepare */
} narrow_model;

/* Where a feature is in the hash table, or where it would be. */
static inline uint32_t narrow_place(const narrow_model *narrow, uint32_t feature) {
    uint32_t at = (feature * 0x9e3779b1u) >> (32 - narrow->bits);
    while (narrow->feature[at] != feature && narrow->feature[at] != NARROW_EMPTY)
        at = (at + 1) & ((1u << narrow->bits) - 1);
    return at;
}

/* Column of a feature; that of all features which the model does not use is the last one, which no learner asks about. */
static inline uint32_t narrow_column(const narrow_model *narrow, uint32_t feature) {
    if (narrow->by_feature) return narrow->by_feature[feature];
    uint32_t at = narrow_place(narrow, feature);
    return narrow->feature[at] != NARROW_EMPTY ? narrow->column[at] : narrow->model.n_features - 1;
}

static inline void narrow_free(narrow_model *narrow) {
    if (!narrow) return;
    free(narrow->index);
    free(narrow->feature);
    free(narrow->column);
    free(narrow->by_feature);
    free(narrow->memory);
    free(narrow);
}

/* Whether a model can be narrowed. Linear machines and kernel machines hold a number for every feature, but for a kernel
 * machine without support vectors; packed trees have their features in bits. */
static inline int narrow_can(const mcb_model *wide) {
    if (wide->kind == MCB_KIND_LINEAR || wide->kind == MCB_KIND_PACKED) return 0;
    return !wide->section[MCB_S_SVEC].count && !wide->section[MCB_S_SCAL].count;
}

/* The narrow form of a model, to be freed with narrow_free; null if there is no memory. */
static inline narrow_model *narrow_new(const mcb_model *wide) {
    narrow_model *narrow = (narrow_model *)calloc(1, sizeof *narrow);
    int slot = wide->kind == MCB_KIND_INTERVALS ? MCB_S_FIDX : MCB_S_FEAT;
    const mcb_section *section = &wide->section[slot];
    uint32_t top = section->dtype == MCB_U8 ? 7 : section->dtype == MCB_U16 ? 15 : 31, used = 0;
    uint64_t i;
    size_t size;
    if (!narrow) return 0;
    narrow->bits = 1;
    while (narrow->bits < 31 && UINT64_C(1) << narrow->bits < 2 * section->count) narrow->bits++;
    size = (size_t)1 << narrow->bits;
    narrow->index = (uint32_t *)malloc(((size_t)section->count + 1) * sizeof *narrow->index);
    narrow->feature = (uint32_t *)malloc(size * sizeof *narrow->feature);
    narrow->column = (uint32_t *)malloc(size * sizeof *narrow->column);
    if (!narrow->index || !narrow->feature || !narrow->column || section->count >= size) {
        narrow_free(narrow);
        return 0;
    }
    memset(narrow->feature, 0xff, size * sizeof *narrow->feature);
    for (i = 0; i < section->count; i++) {
        uint32_t item = mcb__uint(section, i), flag = slot == MCB_S_FEAT ? item >> top : 0, at;
        item -= flag << top;
        at = narrow_place(narrow, item);
        if (narrow->feature[at] == NARROW_EMPTY) {
            narrow->feature[at] = item;
            narrow->column[at] = used++;
        }
        narrow->index[i] = narrow->column[at] | flag << 31;
    }
    narrow->model = *wide;
    narrow->model.prepared = 0;
    narrow->model.n_features = used + 1;
    if (wide->n_features <= NARROW_TABLE) { /* without it, too, all is right */
        uint32_t *table = (uint32_t *)malloc((size_t)wide->n_features * sizeof *table), f;
        for (f = 0; table && f < wide->n_features; f++) table[f] = narrow_column(narrow, f);
        narrow->by_feature = table;
    }
    if (section->data) {
        narrow->model.section[slot].data = (const unsigned char *)narrow->index;
        narrow->model.section[slot].dtype = MCB_U32;
    }
    size = mcb_prepared_size(&narrow->model);
    if (size) narrow->memory = malloc(size);
    if (narrow->memory) mcb_prepare(&narrow->model, narrow->memory, size);
    return narrow;
}

#endif
