/* Ways to score rows that must agree with each other, for fuzz.c. */
enum { ROWS = 21 };

/* Early exits are the same for trees that are prepared; the sums are those of the first learners. */
static int use_early(const mcb_model *plain, const float *x, size_t stride) {
    size_t K = plain->n_classes, need = mcb_prepared_size(plain), r, j, entries;
    double *one = (double *)malloc(K * sizeof *one), *two = (double *)malloc(K * sizeof *two);
    void *memory = malloc(need ? need : 1);
    mcb_model m = *plain;
    uint64_t n = 0, other = 0;
    uint32_t label = 0, same = 0, *index = (uint32_t *)malloc(stride * sizeof *index);
    float *value = (float *)malloc(stride * sizeof *value);
    int way;
    if (!one || !two || !memory || !index || !value) abort();
    NEED(mcb_prepare(&m, memory, need) == MCB_OK);
    NEED(!mcb_has_early(&m, -1) && !mcb_has_early(&m, 3));
    NEED(mcb_predict_early(&m, 3, x, one, &label, &n) == MCB_E_EARLY);
    for (way = 0; way < 3; way++) {
        for (r = 0; r < ROWS && mcb_has_early(&m, way); r++) {
            NEED(mcb_predict_early(plain, way, x + r * stride, one, &label, &n) == MCB_OK);
            NEED(mcb_predict_early(&m, way, x + r * stride, two, &same, &other) == MCB_OK);
            NEED(label == same && n == other && label < K && n <= m.n_learners);
            NEED(memcmp(one, two, K * sizeof *one) == 0);
            mcb_start_scores(&m, 1, two);
            NEED(mcb_add_learners(plain, x + r * stride, 1, stride, 0, n, two) == MCB_OK);
            NEED(memcmp(one, two, K * sizeof *one) == 0);
            if (way != MCB_EARLY_CERTIFIED) continue;
            for (j = entries = 0; j < stride; j++) {
                if (x[r * stride + j] == 0) continue;
                index[entries] = (uint32_t)j;
                value[entries++] = x[r * stride + j];
            }
            NEED(mcb_predict_early_sparse(&m, entries, index, value, two, &same, &other) == MCB_OK);
            NEED(label == same && n == other && memcmp(one, two, K * sizeof *one) == 0);
        }
    }
    free(index);
    free(value);
    free(one);
    free(two);
    free(memory);
    return 0;
}

static int is_machine(const mcb_model *m) {
    return m->kind == MCB_KIND_LINEAR || m->kind == MCB_KIND_KERNEL;
}

/* The same bits without the features that are 0; wrong indices are refused, and kernel machines. */
static int use_sparse(const mcb_model *plain, const float *x, size_t stride, const double *scores) {
    size_t K = plain->n_classes, d = stride, need = mcb_prepared_size(plain), j, n = 0, r;
    const int linear = plain->kind == MCB_KIND_LINEAR;
    double *one = (double *)malloc(K * sizeof *one);
    uint32_t *index = (uint32_t *)malloc((d + 2) * sizeof *index);
    float *value = (float *)malloc((d + 2) * sizeof *value);
    void *memory = malloc(linear ? need : 1);
    mcb_model m = *plain;
    if (!one || !index || !value || !memory) abort();
    if (linear || m.kind == MCB_KIND_KERNEL)
        NEED(mcb_scores_sparse(&m, 0, 0, 0, one) == MCB_E_ARGUMENT);
    NEED(!linear || mcb_prepare(&m, memory, need) == MCB_OK);
    for (r = 0; r < ROWS && m.kind != MCB_KIND_KERNEL; r++, n = 0) {
        for (j = 0; j < d; j++) {
            if (x[r * stride + j] == 0) continue;
            index[n] = (uint32_t)j;
            value[n++] = x[r * stride + j];
        }
        NEED(mcb_scores_sparse(&m, n, index, value, one) == MCB_OK);
        NEED(memcmp(one, scores + r * K, K * sizeof *one) == 0);
        mcb_scores(&m, x + r * stride, one);
        NEED(memcmp(one, scores + r * K, K * sizeof *one) == 0);
    }
    index[0] = m.n_features;
    NEED(mcb_scores_sparse(&m, 1, index, value, one) == MCB_E_ARGUMENT);
    index[0] = index[1] = 0;
    NEED(mcb_scores_sparse(&m, 2, index, value, one) == MCB_E_ARGUMENT);
    free(one);
    free(index);
    free(value);
    free(memory);
    return 0;
}

/* Certified exits of a linear machine: the label of all hyperplanes, with their bits where they are evaluated, and the
 * same for sparse rows. */
static int use_planes(const mcb_model *plain, const float *x, size_t stride, const double *scores) {
    size_t K = plain->n_classes, d = plain->n_features, need = mcb_early_size(plain), j, k, n, r;
    double *exits = (double *)malloc(ROWS * (K + 2) * sizeof *exits),
           *one = (double *)malloc(K * sizeof *one);
    uint32_t *index = (uint32_t *)malloc(d * sizeof *index), label = 0;
    float *value = (float *)malloc(d * sizeof *value);
    mcb_model m = *plain;
    uint64_t planes = 0;
    void *memory = malloc(need);
    if (!exits || !one || !index || !value || !memory) abort();
    NEED(!mcb_has_early(&m, 0) && mcb_predict_early(&m, 0, x, one, &label, &planes) == MCB_E_EARLY);
    NEED(mcb_predict_early_sparse(&m, 0, 0, 0, one, &label, &planes) == MCB_E_EARLY);
    NEED(mcb_prepare_early(&m, memory, need - 1) == MCB_E_ARGUMENT && !m.basis);
    NEED(mcb_prepare_early(&m, (char *)memory + 1, need) == MCB_E_ARGUMENT);
    NEED(mcb_prepare_early(&m, 0, need) == MCB_E_ARGUMENT);
    free(memory);
    memory = exits_of(&m, x, ROWS, stride, exits);
    NEED(mcb_has_early(&m, 0) && !mcb_has_early(&m, 1) && !mcb_has_early(&m, 2));
    for (r = 0; r < ROWS; r++) {
        const double *mine = exits + r * (K + 2);
        size_t same = 0;
        label = mcb_argmax(&m, scores + r * K);
        NEED(mine[K] == label && mcb_argmax(&m, mine) == label && mine[K + 1] >= 1 &&
             mine[K + 1] <= (double)K);
        for (k = 0; k < K; k++) same += memcmp(mine + k, scores + r * K + k, sizeof *mine) == 0;
        NEED((double)same >= mine[K + 1]);
        for (j = n = 0; j < d; j++) {
            if (x[r * stride + j] == 0) continue;
            index[n] = (uint32_t)j;
            value[n++] = x[r * stride + j];
        }
        NEED(mcb_predict_early_sparse(&m, n, index, value, one, &label, &planes) == MCB_OK);
        NEED(memcmp(one, mine, K * sizeof *one) == 0 && mine[K] == label &&
             mine[K + 1] == (double)planes);
    }
    index[0] = (uint32_t)d;
    NEED(mcb_predict_early_sparse(&m, 1, index, value, one, &label, &planes) == MCB_E_ARGUMENT);
    free(exits);
    free(one);
    free(index);
    free(value);
    free(memory);
    return 0;
}

/* The highest scores without all of them: the classes of mcb_top, and their bits. */
static int use_top(const mcb_model *plain, const float *x, size_t stride, const double *scores) {
    size_t K = plain->n_classes, need = mcb_prepared_size(plain), size, j, r;
    uint32_t *one = (uint32_t *)malloc(K * sizeof *one), *two = (uint32_t *)malloc(K * sizeof *two),
             n;
    double *its = (double *)malloc(K * sizeof *its);
    void *memory = malloc(need + 1), *room;
    mcb_model m = *plain;
    if (!one || !two || !its || !memory) abort();
    NEED(!mcb_top_size(&m) && mcb_top_begin(&m, memory, need) == MCB_E_ARGUMENT);
    NEED(mcb_prepare(&m, memory, need) == MCB_OK);
    size = mcb_top_size(&m);
    room = malloc(size + 1);
    if (!room) abort();
    NEED((size > 0) == (need > 0 && m.section[MCB_S_LOFF].data));
    NEED(!size || mcb_top_begin(&m, room, size - 1) == MCB_E_ARGUMENT);
    NEED(!size || mcb_top_begin(&m, (char *)room + 1, size) == MCB_E_ARGUMENT);
    NEED(mcb_top_begin(&m, 0, size) == MCB_E_ARGUMENT);
    NEED((mcb_top_begin(&m, room, size) == MCB_OK) == (size > 0));
    for (r = 0; r < ROWS && size; r++) {
        n = 1 + (uint32_t)below(K);
        mcb_top(&m, scores + r * K, n, one);
        mcb_top_scores(&m, room, x + r * stride, n, two, its);
        NEED(memcmp(one, two, n * sizeof *one) == 0);
        for (j = 0; j < n; j++) NEED(memcmp(its + j, scores + r * K + one[j], sizeof *its) == 0);
    }
    free(one);
    free(two);
    free(its);
    free(memory);
    free(room);
    return 0;
}

/* Whether every bit of one array is set in another. */
static int are_within(const unsigned char *some, const unsigned char *all, size_t n) {
    size_t i;
    for (i = 0; i < n; i++)
        if ((some[i] | all[i]) != all[i]) return 0;
    return 1;
}

/* A row whose features are asked for, each at most once, and how many were. */
typedef struct {
    const float *row;
    size_t stride, n;
    int again; /* a feature was asked for twice, or is not there */
    unsigned char *asked;
} lazy_row;

static float lazy_feature(void *context, uint32_t f) {
    lazy_row *row = (lazy_row *)context;
    if (f >= row->stride || row->asked[f]++) row->again = 1;
    row->n++;
    return row->again ? 0 : row->row[f];
}

/* Lazy features give the bits of the whole row, and the early exits those of mcb_predict_early, with no more features. */
static int use_lazy(const mcb_model *m, const float *x, size_t stride, const double *scores) {
    size_t K = m->n_classes, bits = (stride + 7) / 8, r, most = 0;
    double *one = (double *)malloc(K * sizeof *one), *two = (double *)malloc(K * sizeof *two);
    float *row = (float *)malloc(stride * sizeof *row);
    size_t width = m->n_features,
           all =
               width >> 20 ? 0 : (width + 7) / 8; /* of rows that are too wide for a bit each: 0 */
    unsigned char *known = (unsigned char *)malloc(bits), *used = (unsigned char *)malloc(all + 1);
    lazy_row lazy;
    int way;
    lazy.stride = stride;
    lazy.asked = (unsigned char *)malloc(stride);
    if (!one || !two || !row || !known || !used || !lazy.asked) abort();
    if (all) NEED(mcb_used_features(m, used) <= m->n_features);
    for (r = 0; r < ROWS; r += 4) {
        for (way = -1; way < 3; way++) {
            uint64_t n, other;
            uint32_t label, same;
            if (way >= 0 && !mcb_has_early(m, way)) continue;
            memset(known, 0, bits);
            memset(lazy.asked, 0, stride);
            lazy.row = x + r * stride;
            lazy.n = 0;
            lazy.again = 0;
            if (way < 0) {
                mcb_scores_lazy(m, lazy_feature, &lazy, row, known, two);
                NEED(memcmp(scores + r * K, two, K * sizeof *two) == 0 ||
                     (is_machine(m) && isnan(two[0])));
                most = lazy.n;
                NEED(is_machine(m) || !all || are_within(known, used, bits));
            } else {
                NEED(mcb_predict_early(m, way, lazy.row, one, &label, &n) == MCB_OK);
                NEED(mcb_predict_early_lazy(m, way, lazy_feature, &lazy, row, known, two, &same,
                                            &other) == MCB_OK);
                NEED(label == same && n == other && memcmp(one, two, K * sizeof *one) == 0);
                NEED(lazy.n <= most);
            }
            NEED(!lazy.again);
        }
    }
    free(one);
    free(two);
    free(row);
    free(known);
    free(used);
    free(lazy.asked);
    return 0;
}

/* Rows of integers, some of which overlap, give the bits of the same numbers in float32, prepared or not. */
static int use_integers(const mcb_model *plain, size_t stride) {
    size_t K = plain->n_classes, need = mcb_prepared_size(plain), numbers = stride + 2 * (ROWS - 1),
           i, step = 1 + below(2);
    double *one = (double *)malloc(ROWS * K * sizeof *one),
           *two = (double *)malloc(ROWS * K * sizeof *two);
    uint8_t *bytes = (uint8_t *)malloc(numbers);
    int16_t *shorts = (int16_t *)malloc(numbers * sizeof *shorts);
    float *floats = (float *)malloc(2 * numbers * sizeof *floats);
    void *memory = malloc(need + 1);
    mcb_model m = *plain;
    if (!one || !two || !bytes || !shorts || !floats || !memory) abort();
    for (i = 0; i < numbers; i++) {
        bytes[i] = (uint8_t)draw();
        shorts[i] = (int16_t)(below(2) ? draw() : draw() % 5);
        floats[i] = bytes[i];
        floats[numbers + i] = shorts[i];
    }
    for (i = 0; i < 2 && !is_machine(&m); i++) {
        mcb_scores_batch(&m, floats, ROWS, step, one);
        NEED(mcb_scores_values(&m, MCB_VALUES_U8, bytes, ROWS, step, two) == MCB_OK);
        NEED(memcmp(one, two, ROWS * K * sizeof *one) == 0);
        mcb_scores_batch(&m, floats + numbers, ROWS, step, one);
        NEED(mcb_scores_values(&m, MCB_VALUES_I16, shorts, ROWS, step, two) == MCB_OK);
        NEED(memcmp(one, two, ROWS * K * sizeof *one) == 0);
        NEED(mcb_prepare(&m, memory, need) == MCB_OK || m.kind == MCB_KIND_LINEAR);
    }
    NEED(mcb_scores_values(&m, 3, bytes, ROWS, step, two) == MCB_E_ARGUMENT);
    NEED(!is_machine(&m) ||
         mcb_scores_values(&m, MCB_VALUES_U8, bytes, ROWS, step, two) == MCB_E_ARGUMENT);
    free(one);
    free(two);
    free(bytes);
    free(shorts);
    free(floats);
    free(memory);
    return 0;
}
