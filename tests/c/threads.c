/* Open, prepare and score one model in many threads at once. Exit code 4 where a thread has other bits than the first.
 *
 *     threads MODEL.mcb THREADS
 */
#include "mcb.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 1 << 23, ROWS = 24, MOST = 64 };

typedef struct {
    const unsigned char *bytes;
    size_t size;
    const mcb_model *shared; /* opened and prepared once, read by all */
    const float *rows;
    double *scores; /* (ROWS, width), its own */
    uint32_t label[ROWS];
    int status;
} task;

static void *work(void *argument) {
    task *t = (task *)argument;
    const mcb_model *m = t->shared;
    size_t width = mcb_score_width(m), r;
    mcb_model own;
    uint64_t learners;
    t->status = mcb_open(&own, t->bytes, t->size);
    for (r = 0; r < ROWS && !t->status; r++) {
        const float *row = t->rows + r * m->n_features;
        double *scores = t->scores + r * width;
        mcb_scores(r % 2 ? m : &own, row, scores);
        t->label[r] = mcb_argmax(m, scores);
        if (mcb_has_early(m, MCB_EARLY_CERTIFIED))
            t->status =
                mcb_predict_early(m, MCB_EARLY_CERTIFIED, row, scores, t->label + r, &learners);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static task tasks[MOST];
    pthread_t threads[MOST];
    unsigned char *bytes = (unsigned char *)malloc(ROOM);
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    size_t size = file && bytes ? fread(bytes, 1, ROOM, file) : 0, room, width, i, n;
    void *memory = NULL;
    float *rows;
    mcb_model m;
    if (!size || fclose(file) || mcb_open(&m, bytes, size)) return 1;
    n = (size_t)atoi(argv[2]);
    room = mcb_prepared_size(&m);
    if (n > MOST || (room && !(memory = malloc(room)))) return 2;
    if (memory && mcb_prepare(&m, memory, room)) return 2;
    width = mcb_score_width(&m);
    rows = (float *)malloc((ROWS * (size_t)m.n_features + 1) * sizeof *rows);
    if (!rows) return 2;
    for (i = 0; i < ROWS * (size_t)m.n_features; i++)
        rows[i] = (float)((i * 2654435761u) % 4001) / 1000 - 2;
    for (i = 0; i < n; i++) {
        tasks[i].bytes = bytes;
        tasks[i].size = size;
        tasks[i].shared = &m;
        tasks[i].rows = rows;
        if (!(tasks[i].scores = (double *)calloc(ROWS * width, sizeof(double)))) return 2;
    }
    for (i = 0; i < n; i++)
        if (pthread_create(threads + i, NULL, work, tasks + i)) return 3;
    for (i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < n; i++) {
        if (tasks[i].status) return 5;
        if (memcmp(tasks[i].scores, tasks[0].scores, ROWS * width * sizeof(double))) return 4;
        if (memcmp(tasks[i].label, tasks[0].label, sizeof tasks[i].label)) return 4;
        if (i) free(tasks[i].scores);
    }
    free(tasks[0].scores);
    free(rows);
    free(memory);
    free(bytes);
    return 0;
}
