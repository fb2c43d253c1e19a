/* Early exits of linear machines, for fuzz.c and the builds that it compares. */
#include <stdlib.h>

/* Scores, class and number of hyperplanes of each row by the certified exit of a linear machine: K + 2 numbers. The
 * memory that mcb_prepare_early took; null for other models, which have zeros. */
static void *exits_of(mcb_model *m, const float *x, size_t n_rows, size_t stride, double *exits) {
    size_t K = m->n_classes, need = mcb_early_size(m), r, i;
    void *memory = need ? malloc(need) : 0;
    for (i = 0; i < n_rows * (K + 2); i++) exits[i] = 0;
    if (!need) return 0;
    if (!memory) abort();
    if (mcb_prepare_early(m, memory, need) != MCB_OK) abort();
    for (r = 0; r < n_rows; r++) {
        double *mine = exits + r * (K + 2);
        uint64_t planes = 0;
        uint32_t label = 0;
        if (mcb_predict_early(m, MCB_EARLY_CERTIFIED, x + r * stride, mine, &label, &planes) !=
            MCB_OK)
            abort();
        mine[K] = label;
        mine[K + 1] = (double)planes;
    }
    return memory;
}
