/* Score one row with a saved model.
 *
 *     score [MODEL.mcb]
 *
 * The row has 64 features, as the digits in data/ have. Put your own data there. */
#include "mcb.h"
#include <stdio.h>
#include <stdlib.h>

static unsigned char *bytes; /* the file as it is: the model points into it */
static size_t size;

static int read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    size_t room = 0, n = 1;
    if (!f) return 0;
    while (n) {
        if (size == room) {
            unsigned char *more = realloc(bytes, room = 2 * room + 65536);
            if (!more) break;
            bytes = more;
        }
        n = fread(bytes + size, 1, room - size, f);
        size += n;
    }
    if (n || ferror(f)) return 0; /* no memory, or the file cannot be read: perror says which */
    fclose(f);
    return 1;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "digits.mcb";
    float row[64] = {0}; /* your data */
    row[42] = 9;

    if (!read_file(path)) return perror(path), 1;
    mcb_model model;
    int status = mcb_open(&model, bytes, size);
    if (status != MCB_OK) return fprintf(stderr, "%s: %s\n", path, mcb_strerror(status)), 1;
    if (model.n_features != sizeof row / sizeof *row)
        return fprintf(stderr, "%s: the model has %lu features, not 64\n", path, (unsigned long)model.n_features), 1;

    double *scores = malloc(model.n_classes * sizeof *scores);
    if (!scores) return perror("scores"), 1;
    uint32_t k = mcb_predict(&model, row, scores);
    size_t length;
    const char *text = mcb_label_text(&model, k, &length); /* null if labels are integers */
    if (text) printf("class %.*s\n", (int)length, text);
    else printf("class %ld\n", (long)mcb_label_int(&model, k));
    free(scores);
    free(bytes);
    return 0;
}
