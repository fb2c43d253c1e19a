/* How much stack functions take: bytes that a call changes in the painted stack of a thread, less those of a call that does
 * nothing. Lines of a function, 1 for a prepared model, and the bytes.
 *
 *     stack MODEL.mcb     for a model of up to 64 features and 4096 classes
 *
 * -std=c99 hides the functions of POSIX. */
#define _GNU_SOURCE
#include "mcb.h"
#include "reading.h"

#include <pthread.h>
#include <stdlib.h>

enum { ROOM = 1 << 23, STACK = 1 << 19, N = 40, D = 64, K = 4096 };

static mcb_model m;
static size_t size;
static unsigned char *bytes, known[D];
static float row[D], x[N * D];
static uint8_t small[N * D];
static uint32_t index_[D], k[2];
static uint64_t n;
static double *scores;
static void *memory, *basis, *tops;

static float feature(void *context, uint32_t j) {
    return ((const float *)context)[j];
}
static void early(int way) {
    if (mcb_has_early(&m, way)) mcb_predict_early(&m, way, x, scores, k, &n);
}

static void nothing(void) {}
static void open(void) {
    mcb_open(&m, bytes, size);
}
static void predict(void) {
    *k = mcb_predict(&m, x, scores);
}
static void batch(void) {
    mcb_scores_batch(&m, x, N, m.n_features, scores);
}
static void add(void) {
    mcb_add_learners(&m, x, N, m.n_features, 0, m.n_learners, scores);
}
static void values(void) {
    mcb_scores_values(&m, MCB_VALUES_U8, small, N, m.n_features, scores);
}
static void lazy(void) {
    mcb_scores_lazy(&m, feature, x, row, known, scores);
}
static void sparse(void) {
    mcb_scores_sparse(&m, m.n_features, index_, x, scores);
}
static void certified(void) {
    early(MCB_EARLY_CERTIFIED);
}
static void calibrated(void) {
    early(MCB_EARLY_CALIBRATED);
}
static void early_lazy(void) {
    if (mcb_has_early(&m, 0)) mcb_predict_early_lazy(&m, 0, feature, x, row, known, scores, k, &n);
}
static void early_sparse(void) {
    if (mcb_has_early(&m, 0)) mcb_predict_early_sparse(&m, m.n_features, index_, x, scores, k, &n);
}
static void top_begin(void) {
    if (!(tops = malloc(mcb_top_size(&m) + 1)) || mcb_top_begin(&m, tops, mcb_top_size(&m)))
        tops = 0;
}
static void top(void) {
    if (tops) mcb_top_scores(&m, tops, x, 2, k, scores);
}
static void prepare(void) {
    mcb_prepare(&m, memory, mcb_prepared_size(&m));
}
static void prepare_early(void) {
    mcb_prepare_early(&m, basis, mcb_early_size(&m));
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {{"open", open},
             {"prepare", prepare}, /* these three only where the model is to be prepared */
             {"prepare_early", prepare_early},
             {"top_begin", top_begin},
             {"predict", predict},
             {"batch", batch},
             {"add", add},
             {"values", values},
             {"lazy", lazy},
             {"sparse", sparse},
             {"certified", certified},
             {"calibrated", calibrated},
             {"early_lazy", early_lazy},
             {"early_sparse", early_sparse},
             {"top", top}};

static void *thread(void *call) {
    (*(void (**)(void))call)();
    return 0;
}

/* Bytes of a call, 0 if there is no thread. */
static size_t taken(void (*call)(void)) {
    unsigned char *stack = (unsigned char *)aligned_alloc(4096, STACK);
    pthread_attr_t how;
    pthread_t id;
    size_t i = 0;
    if (!stack) return 0;
    memset(stack, 0xa5, STACK);
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, stack, STACK);
    if (pthread_create(&id, &how, thread, &call) || pthread_join(id, 0)) return 0;
    while (stack[i] == 0xa5) i++;
    free(stack);
    return STACK - i;
}

int main(int argc, char **argv) {
    size_t least = taken(nothing), i;
    int prepared;
    bytes = (unsigned char *)malloc(ROOM);
    scores = (double *)malloc(sizeof *scores * N * K);
    if (argc != 2 || !bytes || !scores || !least) return 1;
    size = read_file(argv[1], bytes, ROOM);
    if (mcb_open(&m, bytes, size) || m.n_features > D || m.n_classes > K) return 2;
    for (i = 0; i < m.n_features; i++) index_[i] = (uint32_t)i;
    memory = malloc(mcb_prepared_size(&m) + 1);
    basis = malloc(mcb_early_size(&m) + 1);
    for (prepared = 0; prepared < 2; prepared++) {
        for (i = 0; i < sizeof calls / sizeof *calls; i++) {
            if (!prepared && i >= 1 && i < 4) continue;
            printf("%s %d %lu\n", calls[i].name, prepared,
                   (unsigned long)(taken(calls[i].call) - least));
        }
    }
    return 0;
}
