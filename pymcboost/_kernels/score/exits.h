/* Where rows may exit early: checkpoints of the file. */

/* The first checkpoint with bounds, which every other one up to the last has; of thresholds, all have one. */
static inline uint64_t mcb__first_exit(const mcb_model *m, int certified) {
    uint64_t K = m->n_classes;
    return certified ? m->section[MCB_S_EXIT].count + 1 -
                           2 * (m->section[MCB_S_PAIR].count / (K * (K - 1)))
                     : 0;
}

/* The first checkpoint from number c on, of those of a way, at which a row may exit; their count if there is none. Where
 * a bound is infinite no row exits, or only one in a thousand would: such a checkpoint is passed by. */
static inline uint64_t mcb__next_exit(const mcb_model *m, int certified, uint64_t c) {
    uint64_t count = m->section[MCB_S_EXIT].count, first = mcb__first_exit(m, certified),
             K = m->n_classes;
    if (certified)
        for (; c < count; c += 2)
            if (mcb__bound(&m->section[MCB_S_PAIR], (c - first) / 2 * K * (K - 1)) <= DBL_MAX)
                break;
    return c < count ? c : count;
}

/* The learners before the first of these checkpoints that comes after t learners, or all. c: where to begin to look,
 * moved on. */
static inline uint64_t mcb__part_end(const mcb_model *m, int certified, uint64_t t, uint64_t *c) {
    const mcb_section *checkpoint = &m->section[MCB_S_EXIT];
    *c = mcb__next_exit(m, certified, *c);
    while (*c < checkpoint->count && mcb__uint(checkpoint, *c) <= t)
        *c = mcb__next_exit(m, certified, *c + 1 + (uint64_t)certified);
    return *c < checkpoint->count ? mcb__uint(checkpoint, *c) : m->section[MCB_S_TSIZ].count;
}
