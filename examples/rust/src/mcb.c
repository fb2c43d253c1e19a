/* mcb.h as functions that Rust links; a model lies in memory of MCBR_SIZE bytes, `Room` of lib.rs. */
#include "mcb.h"

#define MCBR_SIZE 1536

/* An array of negative size where the room is too small. */
typedef char mcbr_fits[sizeof(mcb_model) <= MCBR_SIZE ? 1 : -1];

int mcbr_open(mcb_model *m, const void *bytes, size_t size) {
    return mcb_open(m, bytes, size);
}
/* A linear machine would only be prepared for mcb_scores_sparse. */
size_t mcbr_prepared_size(const mcb_model *m) {
    return m->kind != MCB_KIND_LINEAR ? mcb_prepared_size(m) : 0;
}
int mcbr_prepare(mcb_model *m, void *memory, size_t size) {
    return m->kind != MCB_KIND_LINEAR ? mcb_prepare(m, memory, size) : MCB_OK;
}
const char *mcbr_strerror(int status) {
    return mcb_strerror(status);
}
uint32_t mcbr_n_features(const mcb_model *m) {
    return m->n_features;
}
uint32_t mcbr_n_classes(const mcb_model *m) {
    return m->n_classes;
}
uint64_t mcbr_error_offset(const mcb_model *m) {
    return m->error_offset;
}
const char *mcbr_error_tag(const mcb_model *m) {
    return m->error_tag;
}
uint32_t mcbr_predict(const mcb_model *m, const float *row, double *scores) {
    return mcb_predict(m, row, scores);
}
int mcbr_probabilities(const mcb_model *m, double *scores) {
    return mcb_probabilities(m, scores);
}
const char *mcbr_label_text(const mcb_model *m, uint32_t k, size_t *length) {
    return mcb_label_text(m, k, length);
}
int64_t mcbr_label_int(const mcb_model *m, uint32_t k) {
    return mcb_label_int(m, k);
}
