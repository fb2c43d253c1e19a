/* Pictures: PGM and PPM are read, PNG is written (uncompressed). */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of a PGM or PPM header; -1 if there is none. Comments run from # to the end of the line. */
static int header_number(FILE *f) {
    int c = getc(f), v = 0, digits = 0;
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '#') {
        if (c == '#')
            while (c != '\n' && c != EOF) c = getc(f);
        c = getc(f);
    }
    for (; c >= '0' && c <= '9' && digits < 6; digits++, c = getc(f)) v = 10 * v + (c - '0');
    return digits ? v : -1;
}

/* Grey pixels of a binary PGM or PPM with 255 as white, to be freed; null, and why, where it is none. */
static uint8_t *read_grey(const char *path, int *width, int *height, const char **why) {
    FILE *f = fopen(path, "rb");
    uint8_t *grey = NULL, *line = NULL;
    int kind, w, h, most, x, y, depth;
    *why = "cannot be read";
    if (!f) return NULL;
    *why = "is not a binary PGM (P5) or PPM (P6) of 8 bits";
    if (getc(f) != 'P' || ((kind = getc(f)) != '5' && kind != '6')) goto done;
    w = header_number(f);
    h = header_number(f);
    most = header_number(f);
    if (w < 1 || h < 1 || w > 32767 || h > 32767 || most != 255) goto done;
    depth = kind == '6' ? 3 : 1;
    *why = "is too large for the memory";
    grey = malloc((size_t)w * h);
    line = malloc((size_t)w * depth);
    if (!grey || !line) goto failed;
    *why = "ends too early";
    for (y = 0; y < h; y++) {
        uint8_t *out = grey + (size_t)y * w;
        if (fread(line, depth, w, f) != (size_t)w) goto failed;
        for (x = 0; x < w; x++) {
            const uint8_t *p = line + (size_t)x * depth;
            out[x] = depth == 1 ? p[0] : (uint8_t)((77 * p[0] + 150 * p[1] + 29 * p[2] + 128) >> 8);
        }
    }
    *width = w;
    *height = h;
    *why = NULL;
    goto done;
failed:
    free(grey);
    grey = NULL;
done:
    free(line);
    fclose(f);
    return grey;
}

typedef struct {
    FILE *file;
    uint32_t crc, a, b; /* of the chunk; Adler's sums of the pixels */
} png;

static void put(png *p, const void *bytes, size_t n) {
    const uint8_t *v = bytes;
    size_t i;
    int bit;
    for (i = 0; i < n; i++) {
        p->crc ^= v[i];
        for (bit = 0; bit < 8; bit++) p->crc = (p->crc >> 1) ^ (p->crc & 1 ? 0xedb88320U : 0);
    }
    fwrite(bytes, 1, n, p->file);
}

static void put_32(png *p, uint32_t v) {
    uint8_t b[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    put(p, b, 4);
}

static void chunk_begin(png *p, uint32_t size, const char *tag) {
    put_32(p, size);
    p->crc = 0xffffffffU;
    put(p, tag, 4);
}

static void chunk_end(png *p) {
    put_32(p, ~p->crc);
}

static void put_pixels(png *p, const uint8_t *bytes, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) {
        p->a = (p->a + bytes[i]) % 65521;
        p->b = (p->b + p->a) % 65521;
    }
    put(p, bytes, n);
}

/* An RGB picture. Every line is a stored block of its own. 0 where it cannot be written. */
static int write_png(const char *path, const uint8_t *rgb, int width, int height) {
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const uint8_t rest[5] = {8, 2, 0, 0, 0}, zlib[2] = {0x78, 0x01}, no_filter = 0;
    uint32_t line = 3 * (uint32_t)width + 1;
    png p = {NULL, 0, 1, 0};
    int y, failed;
    if (line > 65535 || !(p.file = fopen(path, "wb"))) return 0;
    put(&p, signature, 8);
    chunk_begin(&p, 13, "IHDR");
    put_32(&p, (uint32_t)width);
    put_32(&p, (uint32_t)height);
    put(&p, rest, 5);
    chunk_end(&p);
    chunk_begin(&p, 2 + (uint32_t)height * (5 + line) + 4, "IDAT");
    put(&p, zlib, 2);
    for (y = 0; y < height; y++) {
        uint8_t head[5] = {(uint8_t)(y == height - 1), (uint8_t)line, (uint8_t)(line >> 8),
                           (uint8_t)~line, (uint8_t)(~line >> 8)};
        put(&p, head, 5);
        put_pixels(&p, &no_filter, 1);
        put_pixels(&p, rgb + (size_t)y * width * 3, (size_t)width * 3);
    }
    put_32(&p, p.b << 16 | p.a);
    chunk_end(&p);
    chunk_begin(&p, 0, "IEND");
    chunk_end(&p);
    failed = ferror(p.file);
    return !fclose(p.file) && !failed;
}

static const uint8_t COLOURS[6][3] = {{255, 64, 64}, {64, 220, 64},  {80, 140, 255},
                                      {255, 200, 0}, {255, 80, 255}, {0, 220, 220}};
/* Digits, 3 x 5 bits each from the upper left. */
static const uint16_t DIGITS[10] = {0x7b6f, 0x2c97, 0x73e7, 0x73cf, 0x5bc9,
                                    0x79cf, 0x79ef, 0x7292, 0x7bef, 0x7bcf};

static void dot(uint8_t *rgb, int width, int height, int x, int y, const uint8_t *colour) {
    if (x >= 0 && y >= 0 && x < width && y < height)
        memcpy(rgb + 3 * ((size_t)y * width + x), colour, 3);
}

/* A box, and in its corner the label if it is a digit. */
static void draw_box(uint8_t *rgb, int width, int height, int left, int top, int size,
                     uint32_t number, int digit) {
    const uint8_t *colour = COLOURS[number % 6];
    int i, j;
    for (i = 0; i < size; i++)
        for (j = 0; j < 2; j++) {
            dot(rgb, width, height, left + i, top + j, colour);
            dot(rgb, width, height, left + i, top + size - 1 - j, colour);
            dot(rgb, width, height, left + j, top + i, colour);
            dot(rgb, width, height, left + size - 1 - j, top + i, colour);
        }
    for (i = 0; digit >= 0 && i < 60; i++)
        if (DIGITS[digit] >> (14 - i / 12 * 3 - i % 6 / 2) & 1)
            dot(rgb, width, height, left + 4 + i % 6, top + 4 + i / 6, colour);
}

#endif
