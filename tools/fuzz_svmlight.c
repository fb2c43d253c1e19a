/* Texts for the reader of LIBSVM files that libFuzzer makes; driven by fuzz_guided.py. */
#include "svmtext_room.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    unsigned char *lines = room(size + 1);
    memcpy(lines, data, size);
    lines[size] = '\n'; /* the reader is given whole lines */
    scan_text(lines, size + 1);
    free(lines);
    return 0;
}
