/* detector: finds objects in PGM or PPM pictures, or in a stream of raw grey frames.
 *
 *     detector [--full] [--threshold T] [--png FILE] MODEL PICTURE
 *     detector [--full] [--threshold T] [--every] --live WIDTHxHEIGHT MODEL < frames
 *
 * With --help it prints its options.
 *
 * It prints a line of JSON for every frame: its number, the milliseconds it took, and its boxes. The live mode takes
 * the newest frame; one that another has followed before its turn is dropped, and counted. --every takes all of them.
 * Its last line has the counts, and percentiles of the time that frames take and of that from their arrival to their
 * boxes. --full leaves no window early.
 *
 *     cc -std=c99 -O3 -D_POSIX_C_SOURCE=200809L -I FOLDER_OF_MCB_H detector.c -o detector -lpthread
 */

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "detect.h"
#include "image.h"

#define SIZES "frames are smaller than a window, 48 x 48 pixels, or there is no memory"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int fail(const char *what, const char *why) {
    fprintf(stderr, "detector: %s: %s\n", what, why);
    return 1;
}

/* The whole file, which may be a pipe, to be freed. */
static char *read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    char *bytes = NULL, *more = NULL;
    size_t room = 0, n = 0, got = 1;
    int cause;
    if (!f) return NULL;
    while (got) {
        if (n == room && !(more = realloc(bytes, room = 2 * room + 65536))) break;
        bytes = more;
        got = fread(bytes + n, 1, room - n, f);
        n += got;
    }
    cause = errno;
    if (got || ferror(f)) {
        free(bytes);
        bytes = NULL;
    }
    fclose(f);
    errno = cause;
    *size = n;
    return bytes;
}

static void print_label(const mcb_model *m, uint32_t k) {
    size_t length = 0, i;
    const char *text = mcb_label_text(m, k, &length);
    putchar('"');
    for (i = 0; text && i < length; i++) {
        if ((unsigned char)text[i] < ' ') {
            printf("\\u%04x", (unsigned)text[i]);
            continue;
        }
        if (text[i] == '"' || text[i] == '\\') putchar('\\');
        putchar(text[i]);
    }
    putchar('"');
}

static void print_boxes(const detector *d, uint64_t number, double ms) {
    size_t i;
    printf("{\"frame\": %llu, \"ms\": %.3f, \"boxes\": [", (unsigned long long)number, ms);
    for (i = 0; i < d->n_hits; i++) {
        const hit *h = &d->hits[i];
        printf("%s{\"label\": ", i ? ", " : "");
        print_label(d->model, h->label);
        printf(", \"score\": %.4f, \"x\": %.1f, \"y\": %.1f, \"size\": %.1f}", (double)h->score,
               (double)h->x, (double)h->y, (double)h->size);
    }
    printf("]}\n");
}

/* All boxes of a frame. */
static int detect(detector *d, pyramid *p, const uint8_t *frame) {
    if (!scan(d, p, frame)) return 0;
    suppress(d);
    return 1;
}

static int draw(const detector *d, const uint8_t *grey, int width, int height, const char *path) {
    size_t n = (size_t)width * height, i;
    uint8_t *rgb = malloc(3 * n);
    int ok;
    if (!rgb) return 0;
    for (i = 0; i < 3 * n; i++) rgb[i] = grey[i / 3];
    for (i = 0; i < d->n_hits; i++) {
        const hit *h = &d->hits[i];
        size_t length;
        const char *text = mcb_label_text(d->model, h->label, &length);
        int digit = text && length == 1 && *text >= '0' && *text <= '9' ? *text - '0' : -1;
        draw_box(rgb, width, height, (int)h->x, (int)h->y, (int)h->size, h->label, digit);
    }
    ok = write_png(path, rgb, width, height);
    free(rgb);
    return ok;
}

static int one_picture(detector *d, const char *path, const char *png_path) {
    const char *why;
    int width, height, ok;
    uint8_t *grey = read_grey(path, &width, &height, &why);
    pyramid p;
    double begin;
    if (!grey) return fail(path, why);
    ok = pyramid_make(&p, width, height);
    if (!ok) why = SIZES;
    begin = now();
    if (ok && !detect(d, &p, grey)) {
        ok = 0;
        why = "there is no memory";
    }
    if (ok) print_boxes(d, 0, now() - begin);
    if (ok && png_path && !draw(d, grey, width, height, png_path)) {
        ok = 0;
        why = "the PNG cannot be written";
    }
    pyramid_free(&p);
    free(grey);
    return ok ? 0 : fail(path, why);
}

/* ---------------------------------------------------------------------------------------------------- live mode */

/* Frames in flight: a thread reads into `filling`, and hands it over as `ready`. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t size;
    uint8_t *filling, *ready, *used;
    double arrived;             /* of `ready` */
    uint64_t n_read, n_dropped; /* whole frames */
    int fresh, ended, every;
    size_t rest; /* bytes of a last frame that is not whole */
} stream;

static void swap(uint8_t **a, uint8_t **b) {
    uint8_t *t = *a;
    *a = *b;
    *b = t;
}

static void *read_frames(void *argument) {
    stream *s = argument;
    for (;;) {
        size_t n = fread(s->filling, 1, s->size, stdin);
        pthread_mutex_lock(&s->lock);
        if (n == s->size) {
            while (s->every && s->fresh) pthread_cond_wait(&s->changed, &s->lock);
            s->n_read++;
            s->n_dropped += s->fresh != 0;
            swap(&s->filling, &s->ready);
            s->arrived = now();
            s->fresh = 1;
        } else {
            s->rest = n;
            s->ended = 1;
        }
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
        if (n != s->size) return NULL;
    }
}

/* The next frame into s->used: its number from 1, or 0 at the end. */
static uint64_t next_frame(stream *s, double *arrived) {
    uint64_t number = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->fresh && !s->ended) pthread_cond_wait(&s->changed, &s->lock);
    if (s->fresh) {
        swap(&s->used, &s->ready);
        *arrived = s->arrived;
        number = s->n_read;
        s->fresh = 0;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return number;
}

/* Times in steps of 1%: those of any number of frames in the same memory. */
enum { BUCKETS = 2048 };
typedef struct {
    uint64_t count[BUCKETS], n;
    double largest;
} times;

static void add_time(times *t, double ms) {
    double bucket = log(1e3 * ms + 1e-9) / log(1.01);
    t->count[bucket < 0 ? 0 : bucket < BUCKETS - 1 ? (int)bucket : BUCKETS - 1]++;
    t->n++;
    t->largest = ms > t->largest ? ms : t->largest;
}

static double percentile(const times *t, double share) {
    uint64_t sum = 0;
    int i = 0;
    while (i < BUCKETS - 1 && (double)(sum += t->count[i]) < share * (double)t->n) i++;
    return t->n ? 1e-3 * pow(1.01, i + 1) : 0;
}

static void print_times(const char *name, const times *t) {
    printf("\"%s\": {\"p1\": %.2f, \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"max\": %.2f}, ",
           name, percentile(t, 0.01), percentile(t, 0.5), percentile(t, 0.9), percentile(t, 0.99),
           t->largest);
}

static int live(detector *d, int width, int height, int every) {
    static times taken, latency;
    stream s;
    pyramid p;
    pthread_t reader;
    uint64_t number;
    double arrived = 0;
    int ok = 1;
    memset(&s, 0, sizeof s);
    s.size = (size_t)width * height;
    s.every = every;
    s.filling = malloc(s.size);
    s.ready = malloc(s.size);
    s.used = malloc(s.size);
    if (!pyramid_make(&p, width, height) || !s.filling || !s.ready || !s.used)
        return fail("--live", SIZES);
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.changed, NULL);
    if (pthread_create(&reader, NULL, read_frames, &s))
        return fail("--live", "no thread can be started");
    while (ok && (number = next_frame(&s, &arrived))) {
        double begin = now(), end;
        ok = detect(d, &p, s.used);
        end = now();
        if (!ok) break;
        print_boxes(d, number, end - begin);
        if (fflush(stdout)) return fail("standard output", strerror(errno));
        add_time(&taken, end - begin);
        add_time(&latency, end - arrived);
    }
    if (!ok)
        return fail("--live", "there is no memory"); /* the process ends, and the reader with it */
    pthread_join(reader, NULL);
    printf("{\"frames\": %llu, \"done\": %llu, \"dropped\": %llu, \"rest_bytes\": %llu, ",
           (unsigned long long)s.n_read, (unsigned long long)taken.n,
           (unsigned long long)s.n_dropped, (unsigned long long)s.rest);
    print_times("ms", &taken);
    print_times("latency_ms", &latency);
    printf("\"windows\": %llu, \"learners_per_window\": %.2f}\n", (unsigned long long)d->n_windows,
           d->n_windows ? (double)d->n_learners / (double)d->n_windows : 0);
    pyramid_free(&p);
    free(s.filling);
    free(s.ready);
    free(s.used);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ for the trainer */

/* Features (n, N_FEATURES) of windows, given as level, x, y; filled is 0 for a flat one. -1 for a small frame. */
int frame_features(const uint8_t *frame, int width, int height, int n, const int *places,
                   float *features, uint8_t *filled) {
    pyramid p;
    int i, j;
    uint32_t f;
    if (!pyramid_make(&p, width, height)) {
        pyramid_free(&p);
        return -1;
    }
    for (j = 0; j < p.n_levels; j++) {
        const level *l = level_fill(&p, j, frame);
        for (i = 0; i < n; i++) {
            const int *at = places + 3 * (size_t)i;
            window w;
            if (at[0] != j) continue;
            filled[i] = (uint8_t)window_at(&w, &p, l, at[1], at[2]);
            for (f = 0; f < N_FEATURES; f++)
                features[(size_t)i * N_FEATURES + f] = filled[i] ? feature_of(&w, f) : 0;
        }
    }
    pyramid_free(&p);
    return 1;
}

/* Hits (x, y, size, score, label, level, column, row) of a frame, at most `room`: how many there are; -1 for an error.
 * All of them, or with `single` those that suppression keeps, without level, column and row. */
int frame_hits(const void *model, size_t size, const uint8_t *frame, int width, int height,
               int early, int single, double threshold, float *hits, int room, double *learners) {
    mcb_model m;
    detector d;
    static pyramid p; /* kept for the next frame */
    int i, n = -1, kept = p.width == width && p.height == height;
    if (mcb_open(&m, model, size) != MCB_OK || !detector_make(&d, &m, early, threshold)) return -1;
    if (!kept) {
        pyramid_free(&p);
        kept = pyramid_make(&p, width, height);
    }
    if (kept && scan(&d, &p, frame)) {
        if (single) suppress(&d);
        n = (int)d.n_hits;
    }
    for (i = 0; i < n && i < room; i++, hits += 8) {
        const hit *h = &d.hits[i];
        hits[0] = h->x, hits[1] = h->y, hits[2] = h->size, hits[3] = h->score,
        hits[4] = (float)h->label;
        hits[5] = (float)d.places[i].level, hits[6] = (float)d.places[i].x,
        hits[7] = (float)d.places[i].y;
    }
    learners[0] += (double)d.n_windows;
    learners[1] += (double)d.n_learners;
    if (!kept) pyramid_free(&p);
    detector_free(&d);
    return n;
}

static const char usage[] =
    "usage: detector [options] MODEL PICTURE, or [options] --live WIDTHxHEIGHT MODEL < frames\n"
    "MODEL: what train.py wrote; PICTURE: a PGM or PPM file; frames: raw, a byte for a pixel\n"
    "--threshold T         boxes with a score of T or more (default: 0)\n"
    "--png FILE            the picture with its boxes\n"
    "--full                all trees for every window: no early exit\n"
    "--live WIDTHxHEIGHT   frames of this size; the newest is next, those before it are dropped\n"
    "--every               of --live: no frame is dropped";

int main(int argc, char **argv) {
    const char *png_path = NULL, *model_path = NULL, *picture = NULL;
    int early = 1, every = 0, width = 0, height = 0, i, status;
    double threshold = 0;
    size_t size = 0;
    void *bytes;
    mcb_model model;
    detector d;
    for (i = 1; i < argc; i++) {
        char rest;
        if (!strcmp(argv[i], "--help")) return puts(usage) < 0;
        if (!strcmp(argv[i], "--full"))
            early = 0;
        else if (!strcmp(argv[i], "--every"))
            every = 1;
        else if (!strcmp(argv[i], "--png") && i + 1 < argc)
            png_path = argv[++i];
        else if (!strcmp(argv[i], "--threshold") && i + 1 < argc &&
                 sscanf(argv[i + 1], "%lf%c", &threshold, &rest) == 1 && threshold - threshold == 0)
            i++;
        else if (!strcmp(argv[i], "--live") && i + 1 < argc &&
                 sscanf(argv[i + 1], "%dx%d%c", &width, &height, &rest) == 2 && width > 0 &&
                 width < 32768 && height > 0 && height < 32768)
            i++;
        else if (argv[i][0] != '-' && !model_path)
            model_path = argv[i];
        else if (argv[i][0] != '-' && !picture)
            picture = argv[i];
        else if (!strcmp(argv[i], "--png"))
            return fail(argv[i], "takes the name of a file");
        else if (!strcmp(argv[i], "--threshold"))
            return fail(argv[i], "takes a number");
        else if (!strcmp(argv[i], "--live"))
            return fail(argv[i], "takes WIDTHxHEIGHT, each from 1 to 32767");
        else if (argv[i][0] == '-')
            return fail(argv[i], "no such option; --help prints all");
        else
            return fail(argv[i], "is a third file; there is one MODEL and one PICTURE");
    }
    if (!model_path || !picture == !width)
        return fail(
            "usage",
            "detector [options] MODEL PICTURE, or --live WIDTHxHEIGHT MODEL; --help says more");
    if (png_path && width) return fail("--png", "is for a picture, not for --live");
    if (every && !width) return fail("--every", "is for --live");
    bytes = read_file(model_path, &size);
    if (!bytes) return fail(model_path, strerror(errno));
    status = mcb_open(&model, bytes, size);
    if (status != MCB_OK) return fail(model_path, mcb_strerror(status));
    if (!detector_make(&d, &model, early, threshold))
        return fail(
            model_path,
            "is not a detector: 2048 features, a class \"background\", an early exit by rejection");
    status = width ? live(&d, width, height, every) : one_picture(&d, picture, png_path);
    if (!status && fflush(stdout)) status = fail("standard output", strerror(errno));
    detector_free(&d);
    free(bytes);
    return status;
}
