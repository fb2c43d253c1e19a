/* Damages model files and opens them; driven by fuzz.py, which compiles it with the address and undefined-behaviour
 * sanitizers.
 *
 *     fuzz plain|repaired COUNT SEED FILE...
 *     fuzz shapes CORPUS RESULTS SEED
 *
 * plain: every damaged file must be refused. repaired: the checksums are put right again, so that damage reaches the
 * checks behind them; a file that is then accepted must score with finite numbers. shapes: files with their rows from a
 * corpus; status and scores are written to RESULTS. Every accepted file is scored by all builds of mcb.h (FUZZ_BUILDS),
 * which must agree in every bit. Prints "status count" lines; exit code 1 and a message on a failure. */
#include "mcb.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "fuzz_damage.h"
#include "fuzz_exits.h"
#include "fuzz_rows.h"

enum { MAX_BASE = 256, N_STATUS = 200 };

#define DECLARE(name)                                                                              \
    int name(const unsigned char *, size_t, const float *, size_t, size_t, double *, double *);
FUZZ_BUILDS(DECLARE)

/* The other builds give these scores, too. 0 if so. */
static int agree(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                 const double *scores) {
    size_t size = n_rows * m->n_classes * sizeof *scores,
           more = n_rows * (m->n_classes + 2) * sizeof *scores;
    double *other = (double *)malloc(size + 1), *exits = (double *)malloc(more + 1),
           *found = (double *)malloc(more + 1);
    const char *wrong = 0;
    mcb_model copy = *m;
    if (!other || !exits || !found) abort();
    free(exits_of(&copy, x, n_rows, stride, exits));
    (void)x, (void)stride, (void)scores; /* where there are no other builds */
#define COMPARE(name)                                                                              \
    if (name(m->data, (size_t)m->size, x, n_rows, stride, other, found) != MCB_OK ||               \
        memcmp(other, scores, size) != 0)                                                          \
        wrong = #name;                                                                             \
    if (memcmp(found, exits, more) != 0) wrong = "(early exits) " #name;
    FUZZ_BUILDS(COMPARE)
    free(other);
    free(exits);
    free(found);
    if (wrong) printf("failed: the build %s gives other scores\n", wrong);
    return wrong != 0;
}

/* Trees give the same bits prepared, for one row and many, from any learner to any other. */
static int use_prepared(const mcb_model *plain, const float *x, size_t stride,
                        const double *scores) {
    size_t K = plain->n_classes, P = mcb_score_width(plain), need = mcb_prepared_size(plain), i, r;
    double *one = (double *)malloc(ROWS * (K > P ? K : P) * sizeof *one);
    double *two = (double *)malloc(ROWS * P * sizeof *two);
    void *memory = malloc(need ? need : 1);
    mcb_model m = *plain;
    uint64_t from = below(m.n_learners + 1), to = from + below(m.n_learners - from + 1);
    if (!one || !two || !memory) abort();
    if (need) {
        NEED(mcb_prepare(&m, memory, need - 1) == MCB_E_ARGUMENT);
        NEED(mcb_prepare(&m, (char *)memory + 1, need) == MCB_E_ARGUMENT);
        NEED(mcb_prepare(&m, 0, need) == MCB_E_ARGUMENT);
        NEED(!m.prepared);
    }
    NEED(mcb_prepare(&m, memory, need) == MCB_OK);
    NEED(!need == !m.prepared);
    mcb_scores_batch(&m, x, ROWS, stride, one);
    NEED(memcmp(one, scores, ROWS * K * sizeof *one) == 0);
    for (r = 0; r < ROWS; r++) {
        mcb_scores(&m, x + r * stride, one);
        NEED(memcmp(one, scores + r * K, K * sizeof *one) == 0);
    }
    for (r = 1; r <= ROWS; r += ROWS - 1) {
        for (i = 0; i < r * P; i++) one[i] = two[i] = 0;
        NEED(mcb_add_learners(plain, x, r, stride, from, to, one) == MCB_OK);
        NEED(mcb_add_learners(&m, x, r, stride, from, to, two) == MCB_OK);
        NEED(memcmp(one, two, r * P * sizeof *one) == 0);
    }
    free(one);
    free(two);
    free(memory);
    return 0;
}

/* Arguments that make no sense are refused and change nothing. */
static int misuse(const mcb_model *plain, const float *x) {
    mcb_model m = *plain;
    uint64_t n = m.n_learners, rounds = m.n_rounds;
    size_t length = 7;
    uint32_t one = 1;
    double score;
    NEED(mcb_open(0, m.data, 64) == MCB_E_ARGUMENT);
    NEED(mcb_label_int(&m, m.n_classes) == 0);
    NEED(mcb_label_text(&m, m.n_classes, &length) == 0 && length == 0);
    if (mcb_has_learners(&m)) {
        if (m.section[MCB_S_RNDS].data) NEED(mcb_learners(&m, UINT64_MAX) == n);
        NEED(mcb_truncate(&m, n + 1) == MCB_E_ARGUMENT &&
             mcb_truncate_rounds(&m, rounds + 1) == MCB_E_ARGUMENT);
        NEED(mcb_add_learners(&m, x, 1, 1, 1, 0, &score) == MCB_E_ARGUMENT);
        NEED(mcb_add_learners(&m, x, 1, 1, n, n + 1, &score) == MCB_E_ARGUMENT);
        NEED(m.n_learners == n && m.n_rounds == rounds);
    }
    if (is_machine(&m))
        NEED(mcb_scores_sparse(&m, 1, &one, x, &score) == MCB_E_ARGUMENT); /* not prepared */
    if (!mcb_prepared_size(&m)) NEED(mcb_prepare(&m, 0, 0) == MCB_OK && !m.prepared);
    NEED(mcb_open(&m, 0, 0) == MCB_E_SHORT);
    NEED(mcb_open(&m, 0, 64) == MCB_E_ARGUMENT && m.error == MCB_E_ARGUMENT && !m.data);
    return 0;
}

/* The scorer's own functions against those of the C library, for doubles of all sizes; a message for every status. */
static int elementary(void) {
    int i;
    for (i = 0; i < 1000; i++) {
        uint64_t bits = below(8) ? draw() : interesting(0);
        double x, y = (double)(int64_t)draw() / 1e16, own,
                  other; /* up to 922, where exp overflows, or vanishes */
        NEED(*mcb_strerror(i));
        memcpy(&x, &bits, sizeof x);
        own = mcb_sqrt(x);
        other = sqrt(x);
        NEED(memcmp(&own, &other, sizeof own) == 0 || (isnan(own) && isnan(other)));
        own = mcb_exp(x);
        NEED(isnan(x) ? isnan(own) : fabs(own - exp(x)) <= 1e-15 * own + 5e-324 || own == exp(x));
        own = mcb_exp(y);
        NEED(fabs(own - exp(y)) <= 1e-15 * own + 5e-324 || own == exp(y));
        other = fabs(x) + 1e-300;
        if (isfinite(other))
            NEED(fabs(mcb_log(other) - log(other)) <= 1e-15 * fabs(log(other)) + 1e-15);
    }
    return 0;
}

/* Features that rows must have: of many, only what is used need exist. */
static size_t features_needed(const mcb_model *m) {
    const mcb_section *index = &m->section[m->kind == MCB_KIND_INTERVALS ? MCB_S_FIDX : MCB_S_FEAT];
    uint32_t low = index->dtype == MCB_U8 ? 0x7f : index->dtype == MCB_U16 ? 0x7fff : 0x7fffffff;
    uint32_t top = m->kind == MCB_KIND_INTERVALS ? 0xffffffffu : low;
    size_t needed = 1, i;
    mcb__pack pack;
    if (m->kind == MCB_KIND_PACKED) {
        mcb__pack_of(m, &pack);
        index = &pack.feature;
        top = 0xffffffffu;
    }
    if (m->n_features <= 4096 || is_machine(m)) return m->n_features;
    for (i = 0; i < index->count; i++) {
        size_t f = mcb__uint(index, i) & top;
        if (f >= needed) needed = f + 1;
    }
    return needed;
}

/* Labels above their thresholds: 0 or 1 for each, and their number. */
static int use_labels(const mcb_model *m, const double *scores) {
    uint32_t K = m->n_classes, k, n;
    unsigned char *given = (unsigned char *)malloc(K);
    if (!given) abort();
    n = mcb_labels_above(m, scores, given);
    for (k = 0; k < K; n -= given[k++]) NEED(given[k] <= 1);
    NEED(n == 0);
    free(given);
    return 0;
}

#ifndef FUZZ_WIDEST
#define FUZZ_WIDEST (1u << 22)
#endif

/* Scores an accepted file in every way there is. */
static int use(mcb_model *m) {
    size_t K = m->n_classes, stride = features_needed(m), i, r, length;
    volatile unsigned char touched = 0;
    float *x;
    double *scores, *one;
    uint64_t t;
    const unsigned char *first;
    NEED(stride <= m->n_features);
    if (stride > (is_machine(m) ? 1u << 16 : FUZZ_WIDEST))
        return 0; /* a kernel machine may lack support vectors */
    x = (float *)malloc(ROWS * stride * sizeof *x);
    scores = (double *)malloc(ROWS * K * sizeof *scores);
    one = (double *)malloc(K * sizeof *one);
    if (!x || !scores || !one) abort();
    for (i = 0; i < ROWS * stride; i++) x[i] = value();
    for (r = 0; r < ROWS && is_machine(m);
         r += 2) { /* every other row of a machine is finite, if large */
        for (i = 0; i < stride; i++) {
            if (!isfinite(x[r * stride + i])) x[r * stride + i] = 0;
        }
    }
    mcb_scores_batch(m, x, ROWS, stride, scores);
    for (r = 0; r < ROWS; r++) {
        uint32_t k = mcb_predict(m, x + r * stride, one);
        NEED(k < K);
        NEED(memcmp(one, scores + r * K, K * sizeof *one) == 0);
        if (isnan(one[0]) && is_machine(m)) { /* all NaN, where no score can be given */
            NEED(m->kind == MCB_KIND_KERNEL || r % 2);
            for (i = 0; i < K; i++) NEED(isnan(one[i]));
            NEED(k == 0);
            continue;
        }
        for (i = 0; i < K; i++) NEED(isfinite(one[i]));
        if (use_labels(m, one)) return 1;
        if (mcb_has_probabilities(m)) {
            NEED(mcb_probabilities(m, one) == MCB_OK);
            for (i = 0; i < K; i++) NEED(one[i] >= 0 && one[i] <= 1);
        }
        touched ^= (unsigned char)mcb_label_int(m, k);
        {
            const char *text = mcb_label_text(m, k, &length);
            for (i = 0; i < length; i++) touched ^= (unsigned char)text[i];
        }
    }
    {
        const char *text = mcb_meta(m, &length);
        for (i = 0; i < length; i++) touched ^= (unsigned char)text[i];
    }
    if (agree(m, x, ROWS, stride, scores) || misuse(m, x)) return 1;
    if (m->kind == MCB_KIND_TREES && use_prepared(m, x, stride, scores)) return 1;
    if (use_sparse(m, x, stride, scores)) return 1;
    if (m->kind == MCB_KIND_LINEAR && use_planes(m, x, stride, scores)) return 1;
    if (m->kind == MCB_KIND_TREES && use_top(m, x, stride, scores)) return 1;
    if (use_early(m, x, stride) || use_lazy(m, x, stride, scores) || use_integers(m, stride))
        return 1;
    if (mcb_has_learners(m)) {
        double *columns = malloc(mcb_score_width(m) * sizeof *columns);
        t = below(m->n_learners + 1);
        mcb_start_scores(m, 1, columns);
        NEED(mcb_add_learners(m, x, 1, stride, 0, t, columns) == MCB_OK);
        NEED(mcb_add_learners(m, x, 1, stride, t, m->n_learners, columns) == MCB_OK);
        mcb_decode(m, columns, one);
        free(columns);
        NEED(memcmp(one, scores, K * sizeof *one) == 0);
        r = m->n_learners == t;
        NEED(mcb_truncate(m, t) == MCB_OK);
        first = m->section[MCB_S_FCAL].data;
        NEED(r || mcb_calibration(m) == (first ? mcb__f64(first) : 0));
        NEED(r || (!mcb_has_early(m, 0) && !mcb_has_early(m, 1) && !mcb_has_early(m, 2)));
        NEED(m->n_learners == t && mcb_learners(m, m->n_rounds) <= t);
        mcb_scores(m, x, one);
        r = m->n_rounds;
        NEED(mcb_truncate_rounds(m, r) == MCB_OK);
        NEED(m->n_rounds == r && m->n_learners <= t);
        mcb_scores(m, x, one);
    } else {
        NEED(mcb_truncate(m, 0) == MCB_E_TRUNCATE);
        NEED(mcb_truncate_rounds(m, 0) == MCB_E_TRUNCATE);
        NEED(mcb_add_learners(m, x, 1, stride, 0, 0, one) == MCB_E_TRUNCATE);
    }
    free(x);
    free(scores);
    free(one);
    (void)touched;
    return 0;
}

#ifndef FUZZ_GUIDED /* fuzz_guided.c has another loop */
static void print_seen(const unsigned long *seen) {
    int i;
    for (i = 0; i < N_STATUS; i++) {
        if (seen[i]) printf("%d %lu %s\n", i, seen[i], mcb_strerror(i));
    }
}

/* Classes and numbers of learners of rows by each early exit that the file has. */
static int write_early(const mcb_model *m, const float *x, size_t n_rows, size_t stride,
                       FILE *results) {
    double *scores = (double *)malloc(m->n_classes * sizeof *scores), pair[2];
    uint64_t learners;
    uint32_t label;
    size_t r;
    int way;
    if (!scores) abort();
    for (way = 0; way < 3; way++) {
        for (r = 0; r < n_rows && mcb_has_early(m, way); r++) {
            NEED(mcb_predict_early(m, way, x + r * stride, scores, &label, &learners) == MCB_OK);
            pair[0] = label;
            pair[1] = (double)learners;
            fwrite(pair, sizeof pair, 1, results);
        }
    }
    free(scores);
    return 0;
}

/* One file of a corpus, of which copies lie at odd addresses; its scores and probabilities go to `results`. */
static int shape(const unsigned char *bytes, size_t size, const float *x, size_t n_rows,
                 size_t stride, FILE *results, unsigned long *seen) {
    mcb_model m;
    int32_t status = mcb_open(&m, bytes, size);
    double *scores;
    size_t n, r;
    NEED(status >= 0 && status < 100);
    seen[status]++;
    fwrite(&status, sizeof status, 1, results);
    if (status) return 0;
    n = n_rows * m.n_classes;
    scores = (double *)malloc((n + 1) * sizeof *scores);
    if (!scores) abort();
    if (n_rows) mcb_scores_batch(&m, x, n_rows, stride, scores);
    fwrite(scores, sizeof *scores, n, results);
    if (n_rows && agree(&m, x, n_rows, stride, scores)) return 1;
    if (write_early(&m, x, n_rows, stride, results)) return 1;
    for (r = 0; r < n_rows; r++) mcb_probabilities(&m, scores + r * m.n_classes);
    fwrite(scores, sizeof *scores, n, results);
    free(scores);
    return use(&m);
}

static unsigned long number; /* of the file in its corpus */

/* A hang ends the process: a minute of the CPU, whatever runs beside. */
static void limit(void) {
    static const struct itimerval minute = {{0, 0}, {60, 0}};
    setitimer(ITIMER_PROF, &minute, 0);
}

static void stopped(int by) {
    printf("failed: signal %d at file number %lu of the corpus\n", by, number);
    fflush(stdout);
    _exit(1);
}

static int shapes(const char *corpus, const char *results, unsigned long *seen) {
    FILE *in = fopen(corpus, "rb"), *out = fopen(results, "wb");
    uint64_t head[3]; /* bytes of the file, rows, floats between rows */
    NEED(in && out);
    signal(SIGFPE, stopped);
    signal(SIGPROF, stopped);
    for (number = 0; fread(head, sizeof head, 1, in) == 1; number++) {
        size_t n = (size_t)(head[1] * head[2]);
        unsigned char *bytes = (unsigned char *)malloc((size_t)head[0] + 1);
        float *x = (float *)malloc((n + 1) * sizeof *x);
        if (!bytes || !x) abort();
        NEED(fread(bytes + 1, 1, (size_t)head[0], in) == head[0] &&
             fread(x, sizeof *x, n, in) == n);
        limit();
        if (shape(bytes + 1, (size_t)head[0], x, (size_t)head[1], (size_t)head[2], out, seen)) {
            printf("file number %lu of the corpus\n", number);
            return 1;
        }
        free(bytes);
        free(x);
    }
    fclose(in);
    NEED(fclose(out) == 0);
    return 0;
}

int main(int argc, char **argv) {
    static unsigned char *base[MAX_BASE];
    static size_t size[MAX_BASE];
    static unsigned long seen[N_STATUS];
    int n_base = argc - 4, repaired, i;
    unsigned long count, done;
    if (argc < 5 || n_base > MAX_BASE) return 2;
    if (strcmp(argv[1], "shapes") == 0) {
        state = strtoull(argv[4], 0, 10);
        if (elementary()) return 1;
        if (shapes(argv[2], argv[3], seen)) return 1;
        print_seen(seen);
        return 0;
    }
    repaired = strcmp(argv[1], "repaired") == 0;
    count = strtoul(argv[2], 0, 10);
    state = strtoull(argv[3], 0, 10);
    for (i = 0; i < n_base; i++) {
        mcb_model m;
        FILE *file = fopen(argv[4 + i], "rb");
        base[i] = (unsigned char *)malloc(1 << 20);
        if (!file || !base[i]) return 2;
        size[i] = fread(base[i], 1, 1 << 20, file);
        fclose(file);
        base[i] = (unsigned char *)realloc(base[i], size[i]); /* so that reads outside are caught */
        if (!base[i]) return 2;
        NEED(mcb_open(&m, base[i], size[i]) == MCB_OK);
        if (use(&m)) return 1;
    }
    for (done = 0; done < count;) {
        int b = (int)below((uint64_t)n_base), status;
        unsigned char *work = (unsigned char *)malloc(size[b] + 512), *exact;
        size_t n;
        mcb_model m;
        if (!work) abort();
        if (done % 256 == 0) limit();
        memcpy(work, base[b], size[b]);
        n = damage(work, size[b]);
        if (repaired) repair(work, n);
        if (n == size[b] && memcmp(work, base[b], n) == 0) {
            free(work);
            continue;
        }
        /* Just this size, at an odd address: reads outside are caught, and nothing may need alignment. */
        exact = (unsigned char *)malloc(n + 1);
        if (!exact) abort();
        memcpy(exact + 1, work, n);
        free(work);
        status = mcb_open(&m, exact + 1, n);
        NEED(status >= 0 && status < 100);
        NEED(m.error == status || status == MCB_OK);
        seen[status]++;
        if (status == MCB_OK) {
            if (!repaired) {
                FILE *file = fopen("accepted.mcb", "wb");
                if (file) {
                    fwrite(exact + 1, 1, n, file);
                    fclose(file);
                }
                printf("failed: a damaged file was accepted (number %lu), see accepted.mcb\n",
                       done);
                return 1;
            }
            if (use(&m)) return 1;
        } else {
            NEED(m.data == 0 && m.n_classes == 0);
        }
        free(exact);
        done++;
    }
    print_seen(seen);
    return 0;
}
#endif
