/* ------------------------------------------------------------------------------- prepared trees: sets of categories */

/* Prepares splits on sets of categories. */

/* Whether splits ask for sets. */
static inline int mcb__has_sets(const mcb_model *m) {
    return m->section[MCB_S_COFF].count > 1;
}

/* What the splits of a block ask for, found by feature and kind. */
typedef struct {
    mcb__question question[MCB__WORDS];
    uint32_t n, words;
    uint16_t slot[MCB__KEYS]; /* hash table: number of a question plus 1 */
} mcb__questions;

/* What is asked of a feature; null if there is no room for another one. */
static inline mcb__question *mcb__question_of(mcb__questions *u, uint32_t feature, uint32_t kind) {
    uint32_t at = (feature * 0x9e3779b1u + kind * 0x85ebca6bu) >> 21;
    mcb__question *question;
    for (; u->slot[at]; at = (at + 1) & (MCB__KEYS - 1)) {
        question = u->question + u->slot[at] - 1;
        if (question->feature == feature && question->kind == kind) return question;
    }
    if (u->n == MCB__WORDS) return 0;
    question = u->question + u->n;
    question->feature = feature;
    question->kind = kind;
    u->slot[at] = (uint16_t)++u->n;
    return question;
}

/* What split i asks; of a set, its number and the codes that it covers. */
static inline mcb__question *mcb__question_of_split(const mcb_model *m, uint64_t i,
                                                    mcb__questions *u, uint32_t *set,
                                                    uint32_t *codes) {
    const mcb_section *feat = &m->section[MCB_S_FEAT], *offset = &m->section[MCB_S_COFF];
    uint32_t top = feat->dtype == MCB_U8    ? 7
                   : feat->dtype == MCB_U16 ? 15
                                            : 31,
             f = mcb__uint(feat, i);
    *set = mcb__uint(&m->section[MCB_S_CSET], i);
    *codes = *set ? 8 * (mcb__uint(offset, *set) - mcb__uint(offset, *set - 1)) : 0;
    return mcb__question_of(u, f & ((1u << top) - 1), *set ? (uint32_t)MCB__SETS : f >> top);
}

/* Words of a question. */
MCB__INLINE uint32_t mcb__words_of(const mcb__question *question) {
    return question->kind == MCB__SETS ? question->count / 32 + (question->count % 32 != 0) : 1;
}

/* Count split i; false if the words of a block do not do. */
static inline int mcb__count_split(const mcb_model *m, uint64_t i, mcb__questions *u) {
    uint32_t set, codes, before;
    mcb__question *question = mcb__question_of_split(m, i, u, &set, &codes);
    if (!question) return 0;
    before = question->count ? mcb__words_of(question) : 0;
    question->count++;
    if (codes > question->codes) question->codes = codes;
    u->words += mcb__words_of(question) - before;
    return u->words <= MCB__WORDS;
}

/* Divide trees with sets into blocks. With block and question, write both; without, count: also the words of the table. False
 * if a tree has too many words or splits, or the table would take much more room than the sets. */
MCB__APART int mcb__plan_sets(const mcb_model *m, uint64_t *n_blocks, uint64_t *n_questions,
                              uint64_t *n_words, mcb__block *block, mcb__question *question) {
    const mcb_section *size = &m->section[MCB_S_TSIZ];
    uint64_t t = 0, i = 0, first, begin, n;
    uint32_t j, word;
    mcb__questions u;
    *n_blocks = *n_questions = *n_words = 0;
    while (t < size->count) {
        first = t;
        begin = i;
        memset(&u, 0, sizeof u);
        for (; t < size->count; t++, i += n) {
            uint64_t end = i + (n = mcb__uint(size, t)), k = i;
            if (n > MCB__SPLITS) return 0;
            while (k < end && mcb__count_split(m, k, &u)) k++;
            if (k < end) break;
        }
        if (t == first) return 0;
        if (t < size->count) { /* without the splits of the tree that does not fit */
            uint64_t k;
            memset(&u, 0, sizeof u);
            for (k = begin; k < i; k++) mcb__count_split(m, k, &u);
        }
        if (block) {
            block[*n_blocks].tree = first;
            block[*n_blocks].column = *n_questions;
        }
        for (j = word = 0; j < u.n; j++) {
            u.question[j].word = word;
            u.question[j].table = *n_words;
            word += mcb__words_of(u.question + j);
            if (u.question[j].kind == MCB__SETS)
                *n_words += ((uint64_t)u.question[j].codes + 1) * mcb__words_of(u.question + j);
            if (question) question[*n_questions + j] = u.question[j];
        }
        *n_questions += u.n;
        ++*n_blocks;
    }
    if (block) {
        block[*n_blocks].tree = t;
        block[*n_blocks].column = *n_questions;
    }
    return *n_words / 8 <= m->section[MCB_S_CBIT].count + 65536;
}

/* A number as an integer of the same order; -0 is 0. */
MCB__INLINE uint32_t mcb__ordered(float value) {
    uint32_t bits;
    value += 0.0f;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 31 ? bits ^ 0x7fffffffu : bits;
}

/* The table, and the columns of the splits of a block: the word, and from bit 16 on the shift. */
MCB__APART void mcb__fill_sets(const mcb_model *m, const mcb__question *question,
                               uint64_t n_questions, uint64_t begin, uint64_t end,
                               mcb__split *split, uint32_t *table) {
    const mcb_section *feat = &m->section[MCB_S_FEAT];
    uint32_t top = feat->dtype == MCB_U8 ? 7 : feat->dtype == MCB_U16 ? 15 : 31, set, all, c;
    uint64_t i, j;
    mcb__questions u;
    memset(&u, 0, sizeof u);
    for (j = 0; j < n_questions; j++) { /* counted anew */
        mcb__question *one = mcb__question_of(&u, question[j].feature, question[j].kind);
        *one = question[j];
        one->count = 0;
    }
    for (i = begin; i < end; i++) {
        mcb__question *one = mcb__question_of_split(m, i, &u, &set, &all);
        const mcb__question *its = question + (one - u.question);
        uint32_t n = mcb__words_of(its), number = one->count++, missing = mcb__uint(feat, i) >> top;
        uint32_t *word = table + its->table + number / 32;
        float codes;
        const unsigned char *bits;
        split[i].column = its->word;
        if (!set) continue;
        split[i].column += number / 32 + (number % 32 << 16);
        bits = mcb__set(&m->section[MCB_S_COFF], m->section[MCB_S_CBIT].data, set, &codes);
        for (c = 0; c <= its->codes; c++, word += n)
            *word |= (uint32_t)mcb__goes_left(bits, codes, c < its->codes ? (float)c : -1.0f,
                                              (int)missing)
                     << (31 - number % 32);
    }
}

/* Blocks, questions and the table, and the columns of all splits. */
static inline void mcb__prepare_sets(const mcb_model *m, mcb__split *split, mcb__question *question,
                                     mcb__block *block, uint32_t *table) {
    uint64_t n_blocks, n_questions, n_words, b, t = 0, begin = 0, end = 0;
    mcb__plan_sets(m, &n_blocks, &n_questions, &n_words, block, question);
    memset(table, 0, (size_t)n_words * sizeof *table);
    for (b = 0; b < n_blocks; b++, begin = end) {
        for (; t < block[b + 1].tree; t++) end += mcb__uint(&m->section[MCB_S_TSIZ], t);
        mcb__fill_sets(m, question + block[b].column, block[b + 1].column - block[b].column, begin,
                       end, split, table);
    }
}

/* What the nodes and splits of a tree compare. */
static inline void mcb__set_nodes(const mcb_model *m, uint64_t begin, uint32_t n, mcb__split *split,
                                  mcb__node *node) {
    uint32_t i, o, order;
    for (i = o = 0; o <= 2 * n; o++) {
        if (!node[o].jump[0]) continue;
        order = mcb__uint(&m->section[MCB_S_CSET], begin + i) ? 0xffffffffu
                                                              : mcb__ordered(split[i].threshold);
        memcpy(&split[i].threshold, &order, sizeof order);
        node[o].threshold = split[i].threshold;
        node[o].shift = (uint16_t)(split[i].column >> 20);
        i++;
    }
}

/* Words of n_rows rows, `step` apart in v. */
MCB__INLINE void mcb__copy_words(const mcb__prepared *p, const mcb__block *block, const void *x,
                                 int values, size_t n_rows, size_t stride, size_t step, float *v) {
    const mcb__question *question = p->question + block->column,
                        *end = p->question + block[1].column;
    const uint32_t *from[MCB__GROUP] = {0};
    uint32_t word[MCB__GROUP] = {0};
    size_t r, w, n;
    for (; question < end; question++) {
        n = mcb__words_of(question);
        for (r = 0; r < step; r++) {
            const void *row = mcb__later(x, values, (r < n_rows ? r : n_rows - 1) * stride);
            float value = mcb__value(row, values, question->feature);
            if (question->kind != MCB__SETS) {
                word[r] = mcb__ordered(
                    value != value ? (question->kind ? -FLT_MAX * 2 : FLT_MAX * 2) : value);
            } else {
                uint32_t code = value >= 0 && value < (float)question->codes ? (uint32_t)value
                                                                             : question->codes;
                from[r] = p->table + question->table +
                          ((float)code == value ? code : question->codes) * n;
            }
        }
        for (w = 0; w < n; w++) {
            float *to = v + (question->word + w) * step;
            if (question->kind == MCB__SETS) {
                for (r = 0; r < step; r++) word[r] = from[r][w];
            }
            memcpy(to, word, step * sizeof *to);
        }
    }
}

/* The bits of a float. */
MCB__INLINE int32_t mcb__order_of(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Whether a row goes left at a node; v: its column. `sets` is a constant: whether columns are words. */
MCB__INLINE int mcb__left(const float *v, const mcb__node *node, int sets) {
    if (!sets) return *v <= node->threshold;
    return (int32_t)((uint32_t)mcb__order_of(*v) << node->shift) <= mcb__order_of(node->threshold);
}
