/* ------------------------------------------------------------------------------------------------------- early exit */

/* Predictions that stop early, by certified, calibrated or rejection exits. */

/* Ways to leave learners out, for models whose file has what they need.
 *   certified   the label is that of all learners
 *   calibrated  with 95% confidence, fewer than a stated share of the labels differ, on rows like the held-out ones
 *   rejection   rows of one class, the background, are left early; others get all learners */
enum mcb_early { MCB_EARLY_CERTIFIED = 0, MCB_EARLY_CALIBRATED = 1, MCB_EARLY_REJECTION = 2 };

/* Whether mcb_predict_early can leave learners out in this way. Not after mcb_truncate: what the file has is for all of
 * them. Linear machines have certified exits after mcb_prepare_early. */
MCB_API int mcb_has_early(const mcb_model *m, int way) {
    const mcb_section *s = m->section;
    if (m->kind == MCB_KIND_LINEAR) return way == MCB_EARLY_CERTIFIED && m->basis;
    if (way < MCB_EARLY_CERTIFIED || way > MCB_EARLY_REJECTION || !s[MCB_S_PAIR + way].data)
        return 0;
    return m->n_learners == mcb__all_learners(m);
}

/* A row on its way through the learners. */
typedef struct {
    const void *x;
    double *scores;
    uint64_t learner, split; /* the next ones */
    uint32_t top, rival;     /* the class that leads, and one that has kept it from being certain */
    int width;               /* of vectors */
    int values, certified;
    const mcb__walk *walk; /* null if the trees are not prepared */
    const mcb__block *block;
    size_t copied;         /* columns of the block */
    uint64_t begin, found; /* trees whose leaves are known, in ranks */
    size_t row[MCB__SORTED];
    uint16_t rank[MCB__R_COLUMNS];
    double sums[48]; /* where scores are whole vectors, so that they need no copies */
} mcb__passage;

/* Leaves of 8 trees for one row, where there are no 16. */
MCB__INLINE void mcb__descend_8(const mcb__node **node, uint32_t depth, const float *v) {
#define MCB__HALF(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define MCB__BEGIN(i) const mcb__node *p##i = node[i];
#define MCB__PLACE(i, column) column
    const int sets = 0;
    MCB__HALF(MCB__BEGIN)
    for (; depth; depth--) {
        MCB__HALF(MCB__STEP)
        if (!(MCB__HALF(MCB__MORE) 0)) break;
    }
    MCB__HALF(MCB__KEEP)
#undef MCB__BEGIN
#undef MCB__PLACE
#undef MCB__HALF
}

/* What the leaves of n trees have for a threshold: as mcb__find_leaves, of trees that were sorted together. */
MCB__INLINE void mcb__find_sorted(const mcb__prepared *p, const mcb__walk *walk, size_t n,
                                  const float *v, float *found) {
    size_t i, j, most;
    for (i = 0; i < n; i += most) {
        const mcb__node *node[MCB__GROUP];
        size_t lanes = n - i > MCB__GROUP / 2 ? MCB__GROUP : MCB__GROUP / 2;
        most = n - i < lanes ? n - i : lanes;
        for (j = 0; j < lanes; j++) node[j] = p->node + walk[i + (j < most ? j : 0)].root;
        if (lanes == MCB__GROUP)
            mcb__descend_trees(node, walk[i + most - 1].depth, v, 0);
        else
            mcb__descend_8(node, walk[i + most - 1].depth, v);
        for (j = 0; j < most; j++) found[walk[i + j].number] = node[j]->threshold;
    }
}

/* Add prepared trees up to `end`, where those of the passage's walk were sorted apart. Columns are copied when a tree
 * asks for them: they are numbered in the order of the trees. */
#define MCB__DEFINE_PASS(W, ATTRIBUTE)                                                             \
    ATTRIBUTE MCB__APART void mcb__pass_##W(const mcb_model *m, mcb__passage *s, uint64_t end,     \
                                            float *v) {                                            \
        const mcb__prepared *p = (const mcb__prepared *)m->prepared;                               \
        const float *x = (const float *)s->x;                                                      \
        size_t K = m->n_classes, i, n;                                                             \
        for (; s->learner < end; s->learner += n) {                                                \
            uint64_t t = s->learner, stop;                                                         \
            float found[MCB__SORTED];                                                              \
            const mcb__column *column;                                                             \
            if (t == s->block[1].tree) {                                                           \
                s->block++;                                                                        \
                s->copied = 0;                                                                     \
            }                                                                                      \
            column = p->column + s->block->column;                                                 \
            stop = end < s->block[1].tree ? end : s->block[1].tree;                                \
            n = stop - t < MCB__SORTED ? (size_t)(stop - t) : (size_t)MCB__SORTED;                 \
            for (i = s->copied; i < p->used[t + n - 1]; i++) {                                     \
                float value = x[column[i].feature];                                                \
                v[i] = value != value ? column[i].missing : value;                                 \
            }                                                                                      \
            s->copied = i;                                                                         \
            mcb__find_sorted(p, s->walk + t, n, v, found);                                         \
            if (m->section[MCB_S_TCLS].data) {                                                     \
                mcb__add_values(p, t, found, n, K, s->scores);                                     \
                continue;                                                                          \
            }                                                                                      \
            for (i = 0; i < n; i++) {                                                              \
                size_t leaf = mcb__leaf_of(p, t + i, found[i]);                                    \
                if (p->first)                                                                      \
                    mcb__add_entries(p, leaf, s->scores);                                          \
                else                                                                               \
                    mcb__add_vector_##W(p->leaf + leaf * p->step, K, s->scores);                   \
            }                                                                                      \
        }                                                                                          \
    }

MCB__DEFINE_PASS(2, )
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
MCB__DEFINE_PASS(4, MCB__AVX2)
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
MCB__DEFINE_PASS(8, MCB__AVX512)
#endif

#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
/* The same for trees in ranks. More of them are descended at a time than lie between two checkpoints. */
MCB__AVX512 MCB__APART void mcb__pass_ranked(const mcb_model *m, mcb__passage *s, uint64_t end) {
    const mcb__prepared *p = (const mcb__prepared *)m->prepared;
    size_t K = m->n_classes, i, n;
    if (!s->found) mcb__rank_row(p->ranks, s->x, s->values, s->rank);
    for (; s->learner < end; s->learner += n) {
        const size_t *row;
        float value[MCB__SORTED];
        if (s->learner == s->found) {
            uint64_t rest = m->n_learners - s->found, ahead = mcb__ahead(s->found);
            if (s->certified)
                ahead = end - s->found < MCB__SORTED ? end - s->found : (uint64_t)MCB__SORTED;
            n = (size_t)(rest < ahead ? rest : ahead);
            mcb__find_ranked(p->ranks, &p->ranks->early[s->certified], s->found, n, s->rank,
                             s->row);
            s->begin = s->found;
            s->found += n;
        }
        row = s->row + (s->learner - s->begin);
        n = (size_t)((end < s->found ? end : s->found) - s->learner);
        if (s->scores == s->sums) {
            const size_t first = 0;
            double *all = s->sums;
            switch (p->step / 4) { MCB__CASES12(MCB__SUM_CASE_4) }
        } else if (!m->section[MCB_S_TCLS].data) {
            mcb__add_rows_8(p, row, n, K, s->scores);
        } else {
            for (i = 0; i < n; i++) value[i] = p->leaf[row[i]];
            mcb__add_values(p, s->learner, value, n, K, s->scores);
        }
    }
}
#endif

/* Add the learners up to `end`. v: room for the columns of a block. */
static inline void mcb__pass(const mcb_model *m, mcb__passage *s, uint64_t end, float *v) {
    if (m->kind == MCB_KIND_STUMPS) {
        if (s->values == MCB_VALUES_F32)
            mcb__add_stumps_row(m, (const float *)s->x, s->learner, end, s->scores);
        else
            mcb__add_stumps_plain(m, s->x, s->values, s->learner, end, s->scores);
    } else if (!s->walk) {
        mcb__add_trees_row(m, s->x, s->values, s->learner, end, s->split, s->scores);
        for (; s->learner < end; s->learner++)
            s->split += mcb__uint(&m->section[MCB_S_TSIZ], s->learner);
    } else {
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX512F__))
        if (s->width == 8) {
            if (((const mcb__prepared *)m->prepared)->ranks)
                mcb__pass_ranked(m, s, end);
            else
                mcb__pass_8(m, s, end, v);
            return;
        }
#endif
#if MCB__VECTOR && (MCB__CHOOSE || defined(__AVX2__) || defined(__AVX512F__))
        if (s->width == 4) {
            mcb__pass_4(m, s, end, v);
            return;
        }
#endif
        mcb__pass_2(m, s, end, v);
    }
    s->learner = end;
}

/* The largest of the scores, and the largest but one. */
static inline double mcb__two_largest(const double *scores, size_t K, double *second) {
    double first = scores[0], next = scores[1];
    size_t k;
    if (next > first) {
        next = scores[0];
        first = scores[1];
    }
    for (k = 2; k < K; k++) {
        double v = scores[k], low = v < first ? v : first;
        first = v > first ? v : first;
        next = low > next ? low : next;
    }
    *second = next;
    return first;
}

/* Whether class s->top leads every other by more than bounds number c say that the other learners take away. The rival
 * that was too near before is asked first. */
static inline int mcb__certain(const mcb_model *m, mcb__passage *s, uint64_t c) {
    const mcb_section *pair = &m->section[MCB_S_PAIR];
    size_t K = m->n_classes, k, j;
    double largest = s->scores[0], lead;
    const double *scores = s->scores;
    uint64_t row;
    for (k = 1; k < K; k++) largest = scores[k] > largest ? scores[k] : largest;
    if (scores[s->top] < largest) s->top = mcb_argmax(m, scores);
    lead = scores[s->top];
    row = (c * K + s->top) * (K - 1);
#define MCB__BOUND(j) mcb__bound(pair, row + (j) - ((j) > s->top))
    if (s->rival != s->top && !(lead - scores[s->rival] > MCB__BOUND(s->rival))) return 0;
    for (j = 0; j < K; j++) {
        if (j == s->top || lead - scores[j] > MCB__BOUND(j)) continue;
        s->rival = (uint32_t)j;
        return 0;
    }
#undef MCB__BOUND
    return 1;
}

/* Whether the learners after checkpoint c can be left out. s->top becomes the label. */
static inline int mcb__may_exit(const mcb_model *m, mcb__passage *s, int way, uint64_t c) {
    const unsigned char *number = m->section[MCB_S_PAIR + way].data;
    size_t K = m->n_classes, k;
    double threshold, other;
    if (way == MCB_EARLY_CERTIFIED) return mcb__certain(m, s, (c - mcb__first_exit(m, 1)) / 2);
    threshold = mcb__f64(number + 8 * (3 + c));
    if (!(threshold <= DBL_MAX)) return 0;
    if (way == MCB_EARLY_CALIBRATED) {
        double first = mcb__two_largest(s->scores, K, &other);
        if (!(first - other > threshold)) return 0;
        s->top = mcb_argmax(m, s->scores);
        return 1;
    }
    s->top = (uint32_t)mcb__f64(number + 16);
    other = s->scores[s->top ? 0 : 1];
    for (k = 0; k < K; k++) other = k != s->top && s->scores[k] > other ? s->scores[k] : other;
    return s->scores[s->top] - other > threshold;
}

static inline int mcb__predict_early(const mcb_model *m, int way, const void *x, int values,
                                     double *scores, uint32_t *label, uint64_t *n_learners) {
    const mcb_section *checkpoint = &m->section[MCB_S_EXIT];
    const mcb__prepared *p = (const mcb__prepared *)m->prepared;
    const int certified = way == MCB_EARLY_CERTIFIED;
    float v[MCB__COLUMNS];
    mcb__passage s;
    uint64_t c;
    if (!mcb_has_early(m, way)) return MCB_E_EARLY;
    c = mcb__next_exit(m, certified, mcb__first_exit(m, certified));
    if (c >= checkpoint->count && values == MCB_VALUES_F32) { /* nowhere to exit */
        *label = mcb_predict(m, (const float *)x, scores);
        *n_learners = m->n_learners;
        return MCB_OK;
    }
    memset(&s, 0, offsetof(mcb__passage, row));
    s.x = x;
    s.values = values;
    s.certified = certified;
    s.scores = scores;
    if (p && values == MCB_VALUES_F32 && p->ranks && p->step % 4 == 0 && p->step <= 48)
        s.scores = s.sums;
#if MCB__VECTOR
    s.width = mcb__width();
#endif
    if (p && values == MCB_VALUES_F32 && !p->question) {
        s.block = p->block;
        s.walk = p->early[certified];
    }
    mcb_start_scores(m, 1, s.scores);
    for (; c < checkpoint->count; c = mcb__next_exit(m, certified, c + 1 + (uint64_t)certified)) {
        mcb__pass(m, &s, mcb__uint(checkpoint, c), v);
        if (mcb__may_exit(m, &s, way, c)) break;
    }
    if (c >= checkpoint->count) {
        mcb__pass(m, &s, m->n_learners, v);
        s.top = mcb_argmax(m, s.scores);
    }
    if (s.scores != scores) memcpy(scores, s.scores, m->n_classes * sizeof *scores);
    *label = s.top;
    *n_learners = s.learner;
    return MCB_OK;
}

/* Class of one row, for which the last learners may be skipped (enum mcb_early). scores (room for n_classes doubles)
 * receives the sums of the first n_learners learners: do not pass them to mcb_probabilities. After mcb_prepare it is
 * faster, unless splits ask for sets of categories. MCB_E_EARLY, and nothing is written, unless mcb_has_early.
 *
 * The learners of a linear machine are the hyperplanes of its n_classes classes. Classes without theirs have scores that
 * are nearly right, and below the largest, unless it is the only one that is left. */
MCB_API int mcb_predict_early(const mcb_model *m, int way, const float *x, double *scores,
                              uint32_t *label, uint64_t *n_learners) {
    if (m->kind == MCB_KIND_LINEAR && mcb_has_early(m, way)) {
        mcb__row row;
        row.x = x;
        row.index = 0;
        row.n = m->n_features;
        return mcb__predict_linear(m, &row, scores, label, n_learners);
    }
    return mcb__predict_early(m, way, x, MCB_VALUES_F32, scores, label, n_learners);
}
