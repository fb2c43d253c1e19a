/* Objects of several classes in grey frames: integral channels over a scale pyramid, a soft cascade in every window.
 *
 * A frame is halved, then reduced by 4/5 again and again. Every level has 8 channels: gradient magnitude, its parts in
 * 6 orientations, and grey. A feature is the sum of one channel over a rectangle of the window, in units of all
 * magnitude in the window, so that contrast does not matter. Rectangles follow from the number of the feature. */
#ifndef DETECT_H
#define DETECT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mcb.h"

enum { CHANNELS = 8, GREY = 7, WINDOW = 24, STEP = 4, N_FEATURES = 2048, MAX_LEVELS = 24 };
/* Windows with less magnitude than this in a pixel are flat: nothing is in them. */
enum { FLAT = 10 };
/* Hits that share more than this part of the smaller one are one object: a 0 in a 9 is none. */
#define SAME_OBJECT 0.6
/* Hits of one label that share more than NEAR of their union support each other: the best of them gets SUPPORT of what
 * the others lead the background by. False hits seldom have others beside them. */
#define NEAR 0.6
#define SUPPORT 0.5

typedef struct {
    int width, height;
    double scale; /* pixels of the frame in one of the level */
    uint8_t *grey;
    int32_t (*corner)
        [5]; /* of every feature's rectangle: places in sum behind that of the window, and its area */
} level;

typedef struct {
    int width, height, n_levels;
    level levels[MAX_LEVELS];
    uint32_t *
        sum; /* (height + 1, width + 1, CHANNELS) of one level: sums of all pixels above and left, modulo 2^32 */
    int *row; /* magnitudes and orientations of a row, places and weights of a reduction */
} pyramid;

typedef struct {
    float x, y, size, score; /* in pixels of the frame */
    uint32_t label;
} hit;

typedef struct {
    int level, x, y;
} place;

typedef struct {
    const uint32_t *sum;
    const int32_t (*corner)[5];
    float unit, mean;
} window;

typedef struct {
    const mcb_model *model;
    uint32_t background;
    int early;        /* windows of the background are left early */
    double threshold; /* least lead over the background */
    double *scores;
    float row[N_FEATURES];
    unsigned char known[(N_FEATURES + 7) / 8];
    hit *hits;
    place *places;
    size_t n_hits, room;
    uint64_t n_windows, n_learners; /* that were looked at, all in all */
} detector;

/* Numbers for the rectangle of a feature: the same on every machine. */
static uint32_t scrambled(uint32_t v) {
    v = (v ^ (v >> 16)) * 0x7feb352dU;
    v = (v ^ (v >> 15)) * 0x846ca68bU;
    return v ^ (v >> 16);
}

/* The rectangle (left, top, right, bottom) of a feature. Its channel is its number modulo CHANNELS. */
static void rectangle_of(uint32_t feature, int r[4]) {
    uint32_t n = scrambled(feature + 1);
    int i, w[2];
    for (i = 0; i < 2; i++) {
        w[i] = 2 + (int)(n % 11);
        n = scrambled(n + 1);
        r[i] = (int)(n % (uint32_t)(WINDOW + 1 - w[i]));
        r[2 + i] = r[i] + w[i];
        n = scrambled(n + 1);
    }
}

static void pyramid_free(pyramid *p) {
    int i;
    for (i = 0; i < p->n_levels; i++) {
        free(p->levels[i].grey);
        free(p->levels[i].corner);
    }
    free(p->sum);
    free(p->row);
    memset(p, 0, sizeof *p);
}

static int level_make(level *l, int width, int height, double scale) {
    size_t stride = (size_t)(width + 1) * CHANNELS, f;
    l->width = width;
    l->height = height;
    l->scale = scale;
    l->grey = malloc((size_t)width * height);
    l->corner = malloc(N_FEATURES * sizeof *l->corner);
    if (!l->grey || !l->corner) return 0;
    for (f = 0; f < N_FEATURES; f++) {
        int r[4], i;
        rectangle_of((uint32_t)f, r);
        for (i = 0; i < 4; i++)
            l->corner[f][i] = (int32_t)(r[i & 2 ? 3 : 1] * stride +
                                        (size_t)r[i & 1 ? 2 : 0] * CHANNELS + f % CHANNELS);
        l->corner[f][4] = (r[2] - r[0]) * (r[3] - r[1]);
    }
    return 1;
}

/* Room for all levels of frames of this size. 0 where there is no memory, or where no window fits. */
static int pyramid_make(pyramid *p, int width, int height) {
    double scale = 2;
    memset(p, 0, sizeof *p);
    p->width = width;
    p->height = height;
    if (width < 2 * WINDOW || height < 2 * WINDOW) return 0;
    p->row = malloc((size_t)width * 2 * sizeof *p->row);
    p->sum = malloc((size_t)(width / 2 + 1) * (height / 2 + 1) * CHANNELS * sizeof *p->sum);
    for (; p->row && p->sum && p->n_levels < MAX_LEVELS; scale *= 1.25) {
        int w = (int)(width / scale), h = (int)(height / scale);
        if (w < WINDOW || h < WINDOW) return 1;
        if (!level_make(&p->levels[p->n_levels++], w, h, scale)) return 0;
    }
    return p->row && p->sum;
}

static void halve(const uint8_t *frame, int width, level *to) {
    int x, y;
    for (y = 0; y < to->height; y++) {
        const uint8_t *a = frame + (size_t)2 * y * width, *b = a + width;
        uint8_t *out = to->grey + (size_t)y * to->width;
        for (x = 0; x < to->width; x++, a += 2, b += 2)
            out[x] = (uint8_t)((a[0] + a[1] + b[0] + b[1] + 2) >> 2);
    }
}

/* A level from the one before: bilinear, in 1/16 of a pixel. */
static void reduce(const level *from, level *to, int *row) {
    double ratio = to->scale / from->scale;
    int x, y, most = 16 * (from->width - 1), *at = row, *part = row + to->width;
    for (x = 0; x < to->width; x++) {
        int v = (int)(16 * ((x + 0.5) * ratio - 0.5));
        v = v < most ? v : most - 1;
        at[x] = v >> 4;
        part[x] = v & 15;
    }
    for (y = 0; y < to->height; y++) {
        int v = (int)(16 * ((y + 0.5) * ratio - 0.5)), low = v & 15;
        const uint8_t *a = from->grey + (size_t)(v >> 4) * from->width;
        const uint8_t *b = (v >> 4) + 1 < from->height ? a + from->width : a;
        uint8_t *out = to->grey + (size_t)y * to->width;
        for (x = 0; x < to->width; x++) {
            int i = at[x], w = part[x];
            int up = a[i] * (16 - w) + a[i + 1] * w, down = b[i] * (16 - w) + b[i + 1] * w;
            out[x] = (uint8_t)((up * (16 - low) + down * low + 128) >> 8);
        }
    }
}

/* Which channels a pixel's magnitude goes to, by its orientation. */
static const int32_t GOES_TO[6][CHANNELS] = {
    {-1, -1, 0, 0, 0, 0, 0, 0}, {-1, 0, -1, 0, 0, 0, 0, 0}, {-1, 0, 0, -1, 0, 0, 0, 0},
    {-1, 0, 0, 0, -1, 0, 0, 0}, {-1, 0, 0, 0, 0, -1, 0, 0}, {-1, 0, 0, 0, 0, 0, -1, 0},
};

/* Sums of all channels, in integers: tangents of 30 and 60 degrees are 37/64 and 111/64. */
static void integrate(const level *l, uint32_t *sum, int *row) {
    int w = l->width, x, y, c;
    int *magnitude = row, *orientation = row + w;
    size_t stride = (size_t)(w + 1) * CHANNELS;
    memset(sum, 0, stride * sizeof *sum);
    for (y = 0; y < l->height; y++) {
        const uint8_t *g = l->grey + (size_t)y * w, *up = y ? g - w : g,
                      *down = y + 1 < l->height ? g + w : g;
        const uint32_t *above = sum + stride * y + CHANNELS;
        uint32_t *out = sum + stride * (y + 1) + CHANNELS, s[CHANNELS] = {0};
        memset(out - CHANNELS, 0, CHANNELS * sizeof *out);
        magnitude[0] = magnitude[w - 1] = orientation[0] = orientation[w - 1] = 0;
        for (x = 1; x < w - 1; x++) {
            int dx = g[x + 1] - g[x - 1], dy = down[x] - up[x];
            int a = dx < 0 ? -dx : dx, b = dy < 0 ? -dy : dy;
            int big = a > b ? a : b, small = a > b ? b : a;
            int steep = (64 * b >= 37 * a) + (64 * b >= 111 * a);
            magnitude[x] = big + (3 * small >> 3);
            orientation[x] = (dx ^ dy) >= 0 ? steep : 5 - steep;
        }
        for (x = 0; x < w; x++, above += CHANNELS, out += CHANNELS) {
            const int32_t *to = GOES_TO[orientation[x]];
            for (c = 0; c < CHANNELS; c++) s[c] += (uint32_t)(magnitude[x] & to[c]);
            s[GREY] += g[x];
            for (c = 0; c < CHANNELS; c++) out[c] = above[c] + s[c];
        }
    }
}

/* Pixels and sums of a level of the frame. Levels come one after the other: their sums share their memory. */
static const level *level_fill(pyramid *p, int i, const uint8_t *frame) {
    level *l = &p->levels[i];
    if (i == 0)
        halve(frame, p->width, l);
    else
        reduce(l - 1, l, p->row);
    integrate(l, p->sum, p->row);
    return l;
}

/* The window at a place of the last level that was filled; 0 if it is flat. */
static int window_at(window *w, const pyramid *p, const level *l, int x, int y) {
    size_t stride = (size_t)(l->width + 1) * CHANNELS;
    const uint32_t *a = p->sum + stride * y + (size_t)x * CHANNELS, *b = a + stride * WINDOW;
    int right = WINDOW * CHANNELS, total = (int)(b[right] - b[0] - a[right] + a[0]);
    w->sum = a;
    w->corner = (const int32_t (*)[5])l->corner;
    w->unit = 1024.0f / (float)(total + 1);
    w->mean =
        (float)(int)(b[right + GREY] - b[GREY] - a[right + GREY] + a[GREY]) / (WINDOW * WINDOW);
    return total >= FLAT * WINDOW * WINDOW;
}

/* The value of a feature: what mcb.h asks for. */
static float feature_of(void *context, uint32_t feature) {
    const window *w = (const window *)context;
    const uint32_t *s = w->sum;
    const int32_t *at = w->corner[feature];
    float sum = (float)(int)(s[at[3]] - s[at[2]] - s[at[1]] + s[at[0]]);
    if (feature % CHANNELS == GREY) sum -= w->mean * (float)at[4];
    return sum * w->unit;
}

static int keep(detector *d, const level *l, place at, uint32_t label, double score) {
    hit *h;
    if (d->n_hits == d->room) {
        size_t room = d->room ? 2 * d->room : 256;
        hit *hits = realloc(d->hits, room * sizeof *hits);
        place *places;
        if (hits) d->hits = hits;
        places = realloc(d->places, room * sizeof *places);
        if (places) d->places = places;
        if (!hits || !places) return 0;
        d->room = room;
    }
    h = &d->hits[d->n_hits];
    h->x = (float)(at.x * l->scale);
    h->y = (float)(at.y * l->scale);
    h->size = (float)(WINDOW * l->scale);
    h->score = (float)score;
    h->label = label;
    d->places[d->n_hits++] = at;
    return 1;
}

/* All windows of a frame whose class leads the background by the threshold. 0 where there is no memory. */
static int scan(detector *d, pyramid *p, const uint8_t *frame) {
    const mcb_model *m = d->model;
    place at;
    d->n_hits = 0;
    for (at.level = 0; at.level < p->n_levels; at.level++) {
        const level *l = level_fill(p, at.level, frame);
        for (at.y = 0; at.y + WINDOW <= l->height; at.y += STEP) {
            for (at.x = 0; at.x + WINDOW <= l->width; at.x += STEP) {
                window w;
                uint32_t label, k;
                uint64_t n = m->n_learners;
                double best;
                if (!window_at(&w, p, l, at.x, at.y)) continue;
                memset(d->known, 0, sizeof d->known);
                if (d->early) {
                    mcb_predict_early_lazy(m, MCB_EARLY_REJECTION, feature_of, &w, d->row, d->known,
                                           d->scores, &label, &n);
                } else {
                    mcb_scores_lazy(m, feature_of, &w, d->row, d->known, d->scores);
                }
                d->n_windows++;
                d->n_learners += n;
                if (n < m->n_learners) continue;
                label = d->background ? 0 : 1;
                for (k = 0; k < m->n_classes; k++)
                    if (k != d->background && d->scores[k] > d->scores[label]) label = k;
                best = d->scores[label] - d->scores[d->background];
                if (best >= d->threshold && !keep(d, l, at, label, best)) return 0;
            }
        }
    }
    return 1;
}

static int by_score(const void *a, const void *b) {
    const hit *s = (const hit *)a, *t = (const hit *)b;
    if (s->score != t->score) return s->score < t->score ? 1 : -1;
    if (s->y != t->y) return s->y < t->y ? -1 : 1;
    return s->x < t->x ? -1 : s->x > t->x;
}

/* What two hits share, as a part of the smaller one. */
static double shared(const hit *a, const hit *b) {
    double left = a->x > b->x ? a->x : b->x, top = a->y > b->y ? a->y : b->y;
    double w = (a->x + a->size < b->x + b->size ? a->x + a->size : b->x + b->size) - left;
    double h = (a->y + a->size < b->y + b->size ? a->y + a->size : b->y + b->size) - top;
    double least = a->size < b->size ? a->size : b->size;
    return w > 0 && h > 0 ? w * h / (least * least) : 0;
}

/* The best hit of every object, with the support of others: non-maximum suppression over all classes. */
static void suppress(detector *d) {
    size_t i, j, n = 0;
    if (d->n_hits) qsort(d->hits, d->n_hits, sizeof *d->hits, by_score);
    for (i = 0; i < d->n_hits; i++) {
        const hit one = d->hits[i];
        int alone = 1;
        for (j = 0; j < n; j++) {
            hit *best = &d->hits[j];
            double least = one.size < best->size ? one.size : best->size;
            double part = shared(&one, best), area = part * least * least;
            double both = (double)one.size * one.size + (double)best->size * best->size - area;
            if (part > SAME_OBJECT) alone = 0;
            if (one.score > 0 && one.label == best->label && area > NEAR * both)
                best->score += (float)(SUPPORT * one.score);
        }
        if (alone) d->hits[n++] = one;
    }
    d->n_hits = n;
    if (n) qsort(d->hits, n, sizeof *d->hits, by_score);
}

/* The class that is called "background", or the number of classes. */
static uint32_t background_of(const mcb_model *m) {
    uint32_t k;
    for (k = 0; k < m->n_classes; k++) {
        size_t length;
        const char *text = mcb_label_text(m, k, &length);
        if (text && length == 10 && !memcmp(text, "background", 10)) break;
    }
    return k;
}

/* A detector with this model; 0 if the model has other features, no background, or no early exit though it should. */
static int detector_make(detector *d, const mcb_model *m, int early, double threshold) {
    memset(d, 0, sizeof *d);
    d->model = m;
    d->background = background_of(m);
    d->early = early;
    d->threshold = threshold;
    if (m->n_features != N_FEATURES || d->background == m->n_classes) return 0;
    if (early && !mcb_has_early(m, MCB_EARLY_REJECTION)) return 0;
    d->scores = malloc(mcb_score_width(m) * sizeof *d->scores);
    return d->scores != NULL;
}

static void detector_free(detector *d) {
    free(d->scores);
    free(d->hits);
    free(d->places);
}

#endif
