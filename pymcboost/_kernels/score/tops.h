/* ------------------------------------------------------------------------------- the highest scores of few entries */

/* The highest scores of very many classes, where leaves have numbers of few classes: the others keep their bias. */

/* What a row finds and leaves behind: the scores are the biases. */
typedef struct {
    double *score;         /* n_classes */
    uint32_t *order;       /* classes by bias, the highest first, of equal ones the lowest class */
    uint32_t *touched;     /* n_classes + 1: classes whose scores the row changes */
    unsigned char *marked; /* n_classes: 1 for these */
} mcb__tops;

/* Bytes that mcb_top_begin needs; 0 where the model is not prepared, or the leaves of its trees have numbers for all
 * classes: then mcb_scores and mcb_top are the way. */
MCB_API size_t mcb_top_size(const mcb_model *m) {
    size_t K = m->n_classes;
    if (m->kind != MCB_KIND_TREES || !m->prepared || !m->section[MCB_S_LOFF].data) return 0;
    return mcb__room(1, sizeof(mcb__tops)) + mcb__room(K, sizeof(double)) +
           mcb__room(K, sizeof(uint32_t)) + mcb__room(K + 1, sizeof(uint32_t)) + mcb__room(K, 1);
}

/* Get memory ready for mcb_top_scores: aligned to 8 bytes, mcb_top_size(model) of them or more, for one thread at a time.
 * MCB_E_ARGUMENT if it is too small or misaligned, or if that size is 0. */
MCB_API int mcb_top_begin(const mcb_model *m, void *memory, size_t size) {
    size_t K = m->n_classes, needed = mcb_top_size(m);
    unsigned char *at = (unsigned char *)memory;
    mcb__tops *tops;
    if (!needed || !memory || size < needed || (uintptr_t)memory % 8) return MCB_E_ARGUMENT;
    MCB__TAKE(tops, mcb__tops, 1);
    MCB__TAKE(tops->score, double, K);
    MCB__TAKE(tops->order, uint32_t, K);
    MCB__TAKE(tops->touched, uint32_t, K + 1);
    tops->marked = at;
    memset(at, 0, K);
    mcb_start_scores(m, 1, tops->score);
    mcb_top(m, tops->score, m->n_classes, tops->order);
    return MCB_OK;
}

/* Add the entries of the leaves of a row; returns how many classes they touch, and to `all` what all classes get. */
static inline uint32_t mcb__touch(const mcb_model *m, const mcb__tops *tops, const float *x,
                                  double *all) {
    const mcb__prepared *p = (const mcb__prepared *)m->prepared;
    float v[MCB__COLUMNS];
    uint32_t count = 0, e;
    uint64_t b, t, end;
    size_t i, n;
    for (b = 0; b < p->n_blocks; b++) {
        const mcb__block *block = p->block + b;
        t = block->tree;
        end = m->n_learners < block[1].tree ? m->n_learners : block[1].tree;
        if (t >= end) continue;
        mcb__copy_columns(p, block, x, MCB_VALUES_F32, 1, 0, 1, v);
        for (; t < end; t += n) {
            float found[MCB__SORTED];
            n = mcb__find_leaves(p, block, t, end, v, found);
            for (i = 0; i < n; i++) {
                size_t leaf = mcb__leaf_of(p, t + i, found[i]);
                mcb__fetch_entries(p, t + i, found + i, n - i);
                for (e = p->first[leaf]; e < p->first[leaf + 1]; e++) {
                    uint32_t k = p->entry[e];
                    tops->touched[count] = k;
                    count += !tops->marked[k];
                    tops->marked[k] = 1;
                    tops->score[k] += (double)p->leaf[e];
                }
                if (p->all) *all += (double)p->all[leaf];
            }
        }
    }
    return count;
}

/* The n classes with the highest scores of one row, from the highest on, and these scores: the classes of mcb_top and the
 * bits of mcb_scores. The time does not depend on the number of classes, but on the entries of the leaves that the row
 * comes to. memory: of mcb_top_begin; n is from 1 to n_classes; top and scores have room for n. */
MCB_API void mcb_top_scores(const mcb_model *m, void *memory, const float *x, uint32_t n,
                            uint32_t *top, double *scores) {
    const mcb__tops *tops = (const mcb__tops *)memory;
    double all = 0;
    uint32_t count = mcb__touch(m, tops, x, &all), kept = 0, j, others = 0;
    for (j = 0; j < count; j++) mcb__keep(tops->score, tops->touched[j], n, &kept, top);
    for (j = 0; j < m->n_classes && others < n; j++) {
        if (tops->marked[tops->order[j]]) continue;
        mcb__keep(tops->score, tops->order[j], n, &kept, top);
        others++;
    }
    mcb__in_order(tops->score, kept, top);
    for (j = 0; j < n; j++) {
        scores[j] = tops->score[top[j]];
        mcb__add_to_all(all, 1, scores + j);
    }
    for (j = 0; j < count; j++) {
        uint32_t k = tops->touched[j];
        tops->score[k] = (double)mcb__f32(m->section[MCB_S_BIAS].data + 4 * (size_t)k);
        tops->marked[k] = 0;
    }
}
