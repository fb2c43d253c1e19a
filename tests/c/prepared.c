/* Score rows with trees as they lie in the file, and prepared: one row, and groups of all sizes up to 40, of floats and of
 * integers, all learners or some. Prints whether they were laid out in ranks (for AVX-512) and the scores as hexadecimal
 * numbers; exit code 4 where bits differ.
 *
 *     prepared MODEL.mcb ROWS           ROWS holds float32 numbers, n_features for each row
 *     prepared flushed MODEL.mcb ROWS   the program of flush.h
 */
#include "mcb.h"
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 1 << 23, MOST = 40 };

#include "flush.h"

/* Whether both models give the same bits for n rows and the learners from <= j < to. */
static int same(const mcb_model *m, const mcb_model *q, const float *x, size_t n, uint64_t from,
                uint64_t to) {
    size_t size = n * mcb_score_width(m), i;
    double *one = (double *)malloc(2 * size * sizeof *one), *two = one + size;
    int equal;
    if (!one) return 0;
    for (i = 0; i < size; i++) one[i] = two[i] = (double)i / 7;
    if (mcb_add_learners(m, x, n, m->n_features, from, to, one)) return 0;
    if (mcb_add_learners(q, x, n, m->n_features, from, to, two)) return 0;
    equal = memcmp(one, two, size * sizeof *one) == 0;
    free(one);
    return equal;
}

int main(int argc, char **argv) {
    mcb_model m, q;
    unsigned char *bytes = (unsigned char *)malloc(ROOM);
    float *rows = (float *)malloc(ROOM);
    double *scores, *other;
    uint8_t *small;
    void *memory;
    size_t n_rows, n, d, i, k, r;
    if (argc == 4) return flushed(argv[2], argv[3]);
    if (argc != 3 || !bytes || !rows || mcb_open(&m, bytes, read_file(argv[1], bytes, ROOM)))
        return 1;
    d = m.n_features;
    n_rows = read_file(argv[2], rows, ROOM) / (4 * d);
    q = m;
    memory = malloc(mcb_prepared_size(&q));
    scores = (double *)malloc(2 * MOST * m.n_classes * sizeof *scores);
    other = scores + MOST * m.n_classes;
    small = (uint8_t *)malloc(MOST * d);
    if (n_rows < MOST || !memory || !scores || !small ||
        mcb_prepare(&q, memory, mcb_prepared_size(&q)))
        return 2;
    printf("%d\n", ((const mcb__prepared *)q.prepared)->ranks != 0);
    for (r = 0; r < n_rows; r++) {
        mcb_scores(&m, rows + r * d, scores);
        mcb_scores(&q, rows + r * d, other);
        if (memcmp(scores, other, m.n_classes * sizeof *scores)) return 4;
        for (k = 0; k < m.n_classes; k++) printf("%a ", scores[k]);
        printf("\n");
    }
    for (n = 1; n <= MOST; n++) {
        uint64_t T = m.n_learners, from = n % 3 ? 0 : T / n;
        if (!same(&m, &q, rows, n, from, n % 2 ? T : T - T / (n + 1))) return 4;
        for (i = 0; i < n * d; i++) small[i] = (uint8_t)(i * n * 37);
        if (mcb_scores_values(&m, MCB_VALUES_U8, small, n, d, scores)) return 5;
        if (mcb_scores_values(&q, MCB_VALUES_U8, small, n, d, other)) return 5;
        if (memcmp(scores, other, n * m.n_classes * sizeof *scores)) return 4;
    }
    free(small);
    free(scores);
    free(memory);
    free(rows);
    free(bytes);
    return 0;
}
