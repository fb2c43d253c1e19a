/* Score rows of double.
 *
 *     offsets MODEL.mcb ROWS             ROWS holds doubles, n_features for each row
 *
 * First whether the model has offsets; then of each row its floats and its scores as hexadecimal numbers. */
#include "mcb.h"
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 1 << 16 };

static unsigned char bytes[ROOM];
static double rows[ROOM / 8];

int main(int argc, char **argv) {
    mcb_model model;
    size_t size, n, r;
    uint32_t j;
    float *row;
    double *scores;
    if (argc != 3) return 1;
    size = read_file(argv[1], bytes, ROOM);
    n = read_file(argv[2], rows, ROOM) / sizeof rows[0];
    if (mcb_open(&model, bytes, size) != MCB_OK) return 1;
    row = (float *)malloc(model.n_features * sizeof *row);
    scores = (double *)malloc(model.n_classes * sizeof *scores);
    if (!row || !scores) return 1;
    printf("%d\n", mcb_has_offsets(&model));
    for (r = 0; r + model.n_features <= n; r += model.n_features) {
        mcb_features(&model, rows + r, row);
        mcb_scores(&model, row, scores);
        for (j = 0; j < model.n_features; j++) printf("%a ", (double)row[j]);
        for (j = 0; j < model.n_classes; j++) printf("%a ", scores[j]);
        printf("\n");
    }
    free(row);
    free(scores);
    return 0;
}
