/* Certified exits of a linear machine: class and hyperplanes of each row, dense, sparse and lazy, which must agree.
 *
 *     planes MODEL.mcb ROWS     ROWS holds float32 numbers, n_features for each row */
#include "mcb.h"
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 1 << 20 };

static float feature(void *row, uint32_t j) {
    return ((const float *)row)[j];
}

int main(int argc, char **argv) {
    unsigned char *bytes = (unsigned char *)malloc(ROOM);
    float *rows = (float *)malloc(ROOM), *value, *row;
    uint32_t *index, k[3], j;
    unsigned char *known;
    double *scores;
    uint64_t n[3];
    size_t size, d, r, used;
    void *memory;
    mcb_model m;
    if (argc != 3 || !bytes || !rows || mcb_open(&m, bytes, read_file(argv[1], bytes, ROOM)))
        return 1;
    size = read_file(argv[2], rows, ROOM) / 4;
    d = m.n_features;
    if (mcb_has_early(&m, MCB_EARLY_CERTIFIED)) return 2;
    memory = malloc(mcb_early_size(&m));
    value = (float *)malloc(d * sizeof *value);
    row = (float *)malloc(d * sizeof *row);
    index = (uint32_t *)malloc(d * sizeof *index);
    known = (unsigned char *)malloc((d + 7) / 8);
    scores = (double *)malloc(m.n_classes * sizeof *scores);
    if (!memory || !value || !row || !index || !known || !scores) return 1;
    if (mcb_prepare_early(&m, memory, mcb_early_size(&m))) return 3;
    for (r = 0; r < size / d; r++) {
        float *x = rows + r * d;
        for (j = 0, used = 0; j < d; j++) {
            index[used] = j;
            value[used] = x[j];
            used += x[j] != 0;
        }
        memset(known, 0, (d + 7) / 8);
        if (mcb_predict_early(&m, MCB_EARLY_CERTIFIED, x, scores, k, n)) return 4;
        if (mcb_predict_early_sparse(&m, used, index, value, scores, k + 1, n + 1)) return 5;
        if (mcb_predict_early_lazy(&m, MCB_EARLY_CERTIFIED, feature, x, row, known, scores, k + 2,
                                   n + 2))
            return 6;
        if (k[0] != k[1] || k[0] != k[2] || n[0] != n[1] || n[0] != n[2]) return 7;
        printf("%u %u\n", k[0], (unsigned)n[0]);
    }
    free(bytes);
    free(rows);
    free(value);
    free(row);
    free(index);
    free(known);
    free(scores);
    free(memory);
    return 0;
}
