/* A part of prepared.c: scores of rows in a process that takes subnormal numbers for 0, as every library built with
 * -ffast-math may switch on, row by row and in one batch, as the model lies in the file and prepared. Prints the scores of
 * each way as hexadecimal numbers, one way a line; exit code 3 where the processor has no such switch. */

#if defined(__SSE2__)
#include <xmmintrin.h>
static int flush_subnormals(void) {
    _mm_setcsr(_mm_getcsr() | 0x8040); /* DAZ and FTZ */
    return 1;
}
#elif defined(__aarch64__)
static int flush_subnormals(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (uint64_t)1 << 24));
    return 1;
}
#else
static int flush_subnormals(void) {
    return 0;
}
#endif

static void print(const double *scores, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) printf("%a ", scores[i]);
    printf("\n");
}

static int flushed(const char *model, const char *x) {
    mcb_model m;
    unsigned char *bytes = (unsigned char *)malloc(ROOM);
    float *rows = (float *)malloc(ROOM);
    volatile float smallest = FLT_MIN;
    double *scores;
    size_t n, r, room;
    int prepared;
    if (!flush_subnormals() || smallest / 2 != 0) return 3;
    if (!bytes || !rows || mcb_open(&m, bytes, read_file(model, bytes, ROOM))) return 1;
    n = read_file(x, rows, ROOM) / (4 * m.n_features);
    scores = (double *)malloc(n * m.n_classes * sizeof *scores);
    for (prepared = 0; prepared < 2; prepared++) {
        for (r = 0; r < n; r++) mcb_scores(&m, rows + r * m.n_features, scores + r * m.n_classes);
        print(scores, n * m.n_classes);
        mcb_scores_batch(&m, rows, n, m.n_features, scores);
        print(scores, n * m.n_classes);
        room = mcb_prepared_size(&m);
        if (!prepared && room && mcb_prepare(&m, malloc(room), room)) return 2;
    }
    return 0;
}
