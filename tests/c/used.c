/* Which features can matter.
 *
 *     used MODEL.mcb
 *
 * How many there are and their numbers, for each number of rounds that is in use, from 0 on. */
#include "mcb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 18 };

static unsigned char bytes[ROOM];

static int print(const mcb_model *model) {
    size_t room = ((size_t)model->n_features + 7) / 8;
    unsigned char *used = (unsigned char *)malloc(room);
    uint32_t f;
    if (!used) return 1;
    memset(used, 0xaa, room);
    printf("%lu", (unsigned long)mcb_used_features(model, used));
    for (f = 0; f < model->n_features; f++)
        if (used[f / 8] >> (f % 8) & 1) printf(" %lu", (unsigned long)f);
    printf("\n");
    free(used);
    return 0;
}

int main(int argc, char **argv) {
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    size_t size = file ? fread(bytes, 1, ROOM, file) : 0;
    mcb_model model;
    uint64_t rounds, r;
    if (file) fclose(file);
    if (mcb_open(&model, bytes, size) != MCB_OK) return 1;
    if (!mcb_has_learners(&model)) return print(&model);
    for (r = 0, rounds = model.n_rounds; r <= rounds; r++)
        if (mcb_truncate_rounds(&model, r) != MCB_OK || print(&model)) return 1;
    return 0;
}
