/* Score the rows of rows.h without an operating system, with the model of model.h: the bytes of a file for mcb.h, or, with
 * INTEGER, a scorer in integers that pymcboost has made of packed trees. build.py writes both headers.
 *
 * Prints for each row the label and the bits of the scores, or, with INTEGER, the scores; then how many bytes of stack it took. */
#include "board.h"
#include "model.h"
#include "rows.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern unsigned char stack_low[], stack_top[];

static SCORE scores[N_CLASSES];

#ifdef INTEGER
static uint32_t predict(const FEATURE *row) {
    m_scores(row, scores);
    return (uint32_t)m_predict(row);
}
#else
#include "mcb.h"

static mcb_model model;

static uint32_t predict(const float *row) {
    return mcb_predict(&model, row, scores);
}
#endif

#ifndef INTEGER
static void print_bits(double number) {
    union {
        double number;
        uint64_t bits;
    } both;
    char text[18] = " ";
    both.number = number;
    for (int i = 0; i < 16; i++) text[1 + i] = "0123456789abcdef"[both.bits >> (60 - 4 * i) & 15];
    text[17] = 0;
    board_print(text);
}
#endif

static void print_number(int64_t signed_number) {
    char text[22];
    int negative = signed_number < 0;
    uint64_t number = negative ? 0 - (uint64_t)signed_number : (uint64_t)signed_number;
    int at = 21;
    text[at] = 0;
    do text[--at] = (char)('0' + number % 10);
    while (number /= 10);
    if (negative) text[--at] = '-';
    board_print(text + at);
}

#define PAINT 0x5a

/* The stack below the caller's is painted; what another colour has afterwards was used. */
__attribute__((noinline)) static void paint(void) {
    unsigned char here;
    for (volatile unsigned char *at = stack_low; at < &here - 64; at++) *at = PAINT;
}

static size_t used(void) {
    const unsigned char *at = stack_low;
    while (at < stack_top && *at == PAINT) at++;
    return (size_t)(stack_top - at);
}

int main(void) {
    paint();
#ifndef INTEGER
    int status = mcb_open(&model, model_bytes, sizeof model_bytes);
    if (status != MCB_OK) {
        board_print(mcb_strerror(status));
        return 1;
    }
#endif
    for (size_t r = 0; r < N_ROWS; r++) {
        static FEATURE row[N_FEATURES];
        memcpy(row, rows + r * N_FEATURES, sizeof row);
        uint32_t k = predict(row);
        print_number(labels[k]);
        for (size_t j = 0; j < N_CLASSES; j++) {
#ifdef INTEGER
            board_print(" ");
            print_number(scores[j]);
#else
            print_bits(scores[j]);
#endif
        }
        board_print("\n");
    }
    board_print("stack ");
    print_number((int64_t)used());
    board_print("\n");
    return 0;
}
