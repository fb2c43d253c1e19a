/* Score one row with a saved model, in C99 or C++.
 *
 *     score MODEL.mcb
 *
 * The row has 64 features, as the digits in data/ have. Put your own data there. */
#include "mcb.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_FEATURES 64

static unsigned char *bytes; /* the file as it is: the model points into it */
static size_t size;

/* Read a whole file; 0 if that fails, and errno says why. */
static int read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    size_t room = 0, n = 1;
    if (!f) return 0;
    while (n) {
        if (size == room) {
            unsigned char *more = (unsigned char *)realloc(bytes, room = 2 * room + 65536);
            if (!more) return 0;
            bytes = more;
        }
        n = fread(bytes + size, 1, room - size, f);
        size += n;
    }
    if (ferror(f)) return 0;
    fclose(f);
    return 1;
}

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) return fail("usage", "score MODEL.mcb");
    const char *path = argv[1];
    float row[N_FEATURES] = {0}; /* your data */
    row[42] = 9;

    if (!read_file(path)) return fail(path, strerror(errno));
    mcb_model model;
    int status = mcb_open(&model, bytes, size);
    if (status != MCB_OK) return fail(path, mcb_strerror(status));
    if (model.n_features != N_FEATURES) return fail(path, "the model does not have 64 features");

    double *scores = (double *)malloc(model.n_classes * sizeof *scores);
    if (!scores) return fail("scores", strerror(errno));
    uint32_t k = mcb_predict(&model, row, scores);
    size_t length;
    const char *text = mcb_label_text(&model, k, &length); /* null if labels are integers */
    if (text)
        printf("class %.*s\n", (int)length, text);
    else
        printf("class %" PRId64 "\n", mcb_label_int(&model, k));
    free(scores);
    free(bytes);
    return 0;
}
