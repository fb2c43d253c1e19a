/* A model over the features that it uses, numbered 0, 1, ... in the order in which they occur. Sparse rows of very many
 * features are filled up in these numbers, so that memory does not depend on how many features there are. */
#ifndef NARROW_H
#define NARROW_H

#include "mcb.h"

#include <stdlib.h>

#define NARROW_EMPTY 0xffffffffu

typedef struct {
    mcb_model model;   /* the same learners over columns in place of features */
    uint32_t *index;   /* its FEAT or FIDX */
    uint32_t *feature; /* hash table: a feature, or NARROW_EMPTY */
    uint32_t *column;  /* hash table: the column of the feature */
    uint32_t bits;     /* of the number of places in the hash table */
    void *memory;      /* of mcb_prepare */
} narrow_model;

/* Where a feature is in the hash table, or where it would be. */
static inline uint32_t narrow_place(const narrow_model *narrow, uint32_t feature) {
    uint32_t at = (feature * 0x9e3779b1u) >> (32 - narrow->bits);
    while (narrow->feature[at] != feature && narrow->feature[at] != NARROW_EMPTY)
        at = (at + 1) & ((1u << narrow->bits) - 1);
    return at;
}

/* Add an entry of a sparse row to the columns of the row. Features that the model does not use have none. */
static inline void narrow_add(const narrow_model *narrow, uint32_t feature, float value, float *row) {
    uint32_t at = narrow_place(narrow, feature);
    if (narrow->feature[at] != NARROW_EMPTY) row[narrow->column[at]] += value;
}

static inline void narrow_free(narrow_model *narrow) {
    if (!narrow) return;
    free(narrow->index);
    free(narrow->feature);
    free(narrow->column);
    free(narrow->memory);
    free(narrow);
}

/* Whether a model can be narrowed. Linear machines and kernel machines hold a number for every feature, but for a kernel
 * machine without support vectors. */
static inline int narrow_can(const mcb_model *wide) {
    if (wide->kind == MCB_KIND_LINEAR) return 0;
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
    narrow->model.n_features = used ? used : 1;
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
