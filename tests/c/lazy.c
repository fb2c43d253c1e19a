/* Score rows whose features are computed when asked for, and rows of integers.
 *
 *     lazy MODEL.mcb ROWS             ROWS holds float32 numbers, n_features for each row
 *     lazy MODEL.mcb ROWS VALUES STRIDE   numbers of another type (enum mcb_values), rows STRIDE numbers apart
 *
 * Of each row: its scores as hexadecimal numbers; where features are lazy, those that were asked for, in order, before
 * them. Then, for each early exit that the model has, class, number of learners and what was asked for. */
#include "mcb.h"
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 1 << 22 };

typedef struct {
    const float *row;
    uint32_t n, *asked;
} context;

static float feature(void *where, uint32_t f) {
    context *c = (context *)where;
    c->asked[c->n++] = f;
    return c->row[f];
}

static void print_scores(const mcb_model *m, const double *scores) {
    uint32_t k;
    for (k = 0; k < m->n_classes; k++) printf(" %a", scores[k]);
    printf("\n");
}

/* Whether a row given by its n features that are not 0 has these scores, and the certified label of the whole row. */
static int sparse_row(const mcb_model *m, const float *row, const double *scores) {
    size_t d = m->n_features, size = m->n_classes * sizeof *scores, n = 0, j;
    uint32_t *index = (uint32_t *)malloc((d + 2) * sizeof *index), k = 0, other = 1;
    float *value = (float *)malloc((d + 2) * sizeof *value);
    double *found = (double *)malloc(size), *whole = (double *)malloc(size);
    uint64_t learners = 0, others = 1;
    int bad = 0, certified = mcb_has_early(m, MCB_EARLY_CERTIFIED);
    int none = m->kind == MCB_KIND_KERNEL || (m->kind == MCB_KIND_LINEAR && !m->prepared);
    if (!index || !value || !found || !whole) return 1;
    for (j = 0; j < d; j++) {
        if (row[j] == 0) continue;
        index[n] = (uint32_t)j;
        value[n++] = row[j];
    }
    bad |= mcb_scores_sparse(m, n, index, value, found) != (none ? MCB_E_ARGUMENT : MCB_OK);
    bad |= !none && memcmp(found, scores, size) != 0;
    bad |= mcb_predict_early_sparse(m, n, index, value, found, &k, &learners) !=
           (certified ? MCB_OK : MCB_E_EARLY);
    if (certified) {
        bad |= mcb_predict_early(m, MCB_EARLY_CERTIFIED, row, whole, &other, &others) != MCB_OK;
        bad |= k != other || learners != others || memcmp(found, whole, size) != 0;
    }
    memset(value, 0, d * sizeof *value); /* a row of zeros */
    if (!none) {
        mcb_scores(m, value, whole);
        bad |=
            mcb_scores_sparse(m, 0, NULL, NULL, found) != MCB_OK || memcmp(found, whole, size) != 0;
    }
    if (certified) {
        bad |= mcb_predict_early(m, MCB_EARLY_CERTIFIED, value, whole, &other, &others) != MCB_OK;
        bad |= mcb_predict_early_sparse(m, 0, NULL, NULL, found, &k, &learners) != MCB_OK;
        bad |= k != other || learners != others || memcmp(found, whole, size) != 0;
    }
    index[0] = (uint32_t)d;
    bad |= mcb_scores_sparse(m, 1, index, value, found) != MCB_E_ARGUMENT;
    index[0] = index[1] = 0;
    bad |= mcb_scores_sparse(m, 2, index, value, found) != MCB_E_ARGUMENT;
    bad |= certified &&
           mcb_predict_early_sparse(m, 2, index, value, found, &k, &learners) != MCB_E_ARGUMENT;
    free(index);
    free(value);
    free(found);
    free(whole);
    return bad;
}

static int lazy_rows(const mcb_model *m, const float *rows, size_t n_rows, double *scores) {
    size_t d = m->n_features, r, bits = (d + 7) / 8;
    float *row = (float *)malloc(d * sizeof *row);
    unsigned char *known = (unsigned char *)malloc(bits);
    context c;
    uint32_t i, k;
    int way;
    c.asked =
        (uint32_t *)malloc(2 * d * sizeof *c.asked); /* more than d if one is asked for twice */
    if (!row || !known || !c.asked) return 1;
    for (r = 0; r < n_rows; r++) {
        c.row = rows + r * d;
        for (way = -1; way < 3; way++) {
            uint64_t learners = 0;
            if (way >= 0 && !mcb_has_early(m, way)) continue;
            c.n = 0;
            memset(known, 0, bits);
            if (way < 0) {
                mcb_scores_lazy(m, feature, &c, row, known, scores);
            } else {
                if (mcb_predict_early_lazy(m, way, feature, &c, row, known, scores, &k, &learners))
                    return 1;
                printf("%u %u:", k, (unsigned)learners);
            }
            for (i = 0; i < c.n; i++) printf(" %u", c.asked[i]);
            printf(" |");
            print_scores(m, scores);
        }
        i = c.n; /* what is known already is not asked for */
        mcb_scores_lazy(m, feature, &c, row, known, scores);
        if (sparse_row(m, c.row, scores)) return 1;
        for (way = 0; way < 3; way++) i = mcb_has_early(m, way) ? c.n : i;
        if (c.n != i) return 1;
    }
    if (mcb_predict_early_lazy(m, 3, feature, &c, row, known, scores, &k, 0) != MCB_E_EARLY)
        return 1;
    free(row);
    free(known);
    free(c.asked);
    return 0;
}

int main(int argc, char **argv) {
    mcb_model m;
    unsigned char *bytes = (unsigned char *)malloc(ROOM);
    void *rows = malloc(ROOM), *memory;
    double *scores;
    size_t size, n_rows, r, stride, i;
    int values, status;
    if ((argc != 3 && argc != 5) || !bytes || !rows) return 1;
    if (mcb_open(&m, bytes, read_file(argv[1], bytes, ROOM))) return 1;
    size = read_file(argv[2], rows, ROOM);
    memory = malloc(mcb_prepared_size(&m) + 1);
    values = argc == 5 ? atoi(argv[3]) : MCB_VALUES_F32;
    stride = argc == 5 ? (size_t)atoi(argv[4]) : m.n_features;
    size /= values == MCB_VALUES_U8 ? 1 : values == MCB_VALUES_I16 ? 2 : 4;
    n_rows = (size - m.n_features) / stride + 1;
    scores = (double *)malloc(n_rows * m.n_classes * sizeof *scores);
    if (!memory || !scores) return 1;
    for (i = 0; i < 2; i++) {
        if (argc == 3 && lazy_rows(&m, (const float *)rows, n_rows, scores)) return 2;
        if (argc == 5) {
            status = mcb_scores_values(&m, values, rows, n_rows, stride, scores);
            printf("%d\n", status);
            for (r = 0; r < n_rows && !status; r++) print_scores(&m, scores + r * m.n_classes);
        }
        if (mcb_prepare(&m, memory, mcb_prepared_size(&m)))
            return 3; /* the second time with prepared trees */
    }
    free(scores);
    free(memory);
    free(rows);
    free(bytes);
    return 0;
}
