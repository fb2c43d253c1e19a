/* One build of mcb.h for fuzz.c, which compares several: FUZZ_SCORER is its name. */
#include "mcb.h"

#include "fuzz_exits.h"

int FUZZ_SCORER(const unsigned char *bytes, size_t size, const float *x, size_t n_rows,
                size_t stride, double *scores, double *exits);

/* Scores of rows, as mcb_scores_batch gives them before and after mcb_prepare, and mcb_scores row by row; exits as
 * exits_of gives them. The status of mcb_open, or -1 if these three differ. */
int FUZZ_SCORER(const unsigned char *bytes, size_t size, const float *x, size_t n_rows,
                size_t stride, double *scores, double *exits) {
    mcb_model m;
    int status = mcb_open(&m, bytes, size);
    size_t r, n, need;
    double *other;
    void *memory;
    if (status) return status;
    n = n_rows * m.n_classes;
    need = mcb_prepared_size(&m);
    other = (double *)malloc((n + 1) * sizeof *other);
    memory = malloc(need + 1);
    if (!other || !memory) abort();
    mcb_scores_batch(&m, x, n_rows, stride, scores);
    for (r = 0; r < n_rows; r++) mcb_scores(&m, x + r * stride, other + r * m.n_classes);
    if (memcmp(other, scores, n * sizeof *other)) status = -1;
    mcb_prepare(&m, memory, need);
    mcb_scores_batch(&m, x, n_rows, stride, other);
    if (memcmp(other, scores, n * sizeof *other)) status = -1;
    free(memory);
    free(other);
    free(exits_of(&m, x, n_rows, stride, exits));
    return status;
}
