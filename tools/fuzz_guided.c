/* Model files that libFuzzer makes, guided by the branches of mcb.h that they reach; driven by fuzz_guided.py.
 *
 * Checksums of most files are put right, so that damage reaches the checks behind them. A file that is accepted is used
 * in every way that fuzz.c knows. */
#define FUZZ_GUIDED
#include "fuzz.c"

size_t LLVMFuzzerMutate(unsigned char *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t most, unsigned int seed);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t size, size_t most, unsigned int seed) {
    state = seed;
    if (below(2) || size + 512 > most)
        size = LLVMFuzzerMutate(data, size, most);
    else
        size = damage(data, size);
    if (below(8)) repair(data, size);
    return size;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    /* Just this size, at an odd address: reads outside are caught, and nothing may need alignment. */
    unsigned char *exact = (unsigned char *)malloc(size + 1);
    mcb_model m;
    int status;
    if (!exact) abort();
    memcpy(exact + 1, data, size);
    state =
        mcb_crc32c(0, data, size); /* the rows follow from the file, so that a finding repeats */
    status = mcb_open(&m, exact + 1, size);
    if (status < 0 || status >= 100 || (status && m.error != status)) abort();
    if (status == MCB_OK ? use(&m) : m.data != 0 || m.n_classes != 0) abort();
    free(exact);
    return 0;
}
