"""Trees, tables and sums of contributions.h and contributions_sums.h, and what a thread needs for them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc

cdef extern from "contributions_sums.h" nogil:
    enum:
        PMB_SHAP_FEATURES
        PMB_SHAP_SHORT
        PMB_SHAP_ROWS
        PMB_SHAP_STRIDE
        PMB_SHAP_WIDE
    ctypedef struct pmb_shap_subtree:
        pass
    ctypedef struct pmb_shap_cache:
        pass
    ctypedef struct pmb_shap_trees:
        const int64_t *offset
        const int64_t *feature
        const int64_t *right
        const int64_t *asked
        const float *threshold
        const uint8_t *nan_left
        uint8_t *slot
        const int64_t *begin
        const int64_t *path
        const int64_t *table
        const int64_t *groups
        const int64_t *group
        const int64_t *start
        const int64_t *leaf
        const int64_t *place
        const int64_t *value
    ctypedef struct pmb_shap_tables:
        double *patterns
        double *rows
        uint8_t *at
        int made
    ctypedef struct pmb_shap_background:
        const int64_t *first
        const uint64_t *pattern
        const double *share
        const double *factorial
        const double *ratio
        const double *node
        const double *weight
    ctypedef struct pmb_shap_untouched:
        const int64_t *columns
        int64_t n
    int32_t pmb_shap_count_paths(const pmb_shap_trees *m, int64_t tree, pmb_shap_subtree *stack, int64_t *count)
    void pmb_shap_fill_paths(const pmb_shap_trees *m, int64_t tree, pmb_shap_subtree *stack, const int64_t *cover,
                             double *to_left, double *levels, int64_t *path, int64_t *heaviest, double *ratio)
    void pmb_shap_row_patterns(const pmb_shap_trees *m, int64_t tree, const float *xt, int64_t stride, int64_t n,
                               pmb_shap_subtree *stack, uint64_t *levels, uint64_t *pattern)
    int64_t pmb_shap_table_size(int64_t d)
    uint64_t pmb_shap_all_bits(int64_t d)
    void pmb_shap_by_covers(const pmb_shap_trees *m, int64_t tree, const pmb_shap_background *b,
                            const uint64_t *pattern, int64_t n, int64_t fixed, int64_t before,
                            const pmb_shap_tables *to)
    void pmb_shap_make_tables(const pmb_shap_trees *m, int64_t tree, const pmb_shap_background *b, int64_t fixed,
                              double *patterns)
    void pmb_shap_by_rows(const pmb_shap_trees *m, int64_t tree, const pmb_shap_background *b, const uint64_t *pattern,
                          int64_t n, int64_t fixed, int64_t before, const pmb_shap_tables *to, pmb_shap_cache *s)
    void pmb_shap_put_values(const float *leaf, const float *less, const float *code, int64_t step, int64_t to,
                             int64_t all, int64_t K, double *value)
    int64_t pmb_shap_in_tiles(int64_t K)
    void pmb_shap_add_batch(const pmb_shap_trees *m, int64_t batch, const double *value, int64_t all, int64_t K,
                            const pmb_shap_tables *at, int64_t n, const int64_t *column, int64_t classes,
                            int64_t stride, double *to, double *base, const pmb_shap_untouched *rest, double *c)


cdef struct Scratch:
    # What a thread needs for a batch of trees.
    pmb_shap_subtree *stack
    uint64_t *levels
    uint64_t *pattern
    pmb_shap_cache *kept
    pmb_shap_tables tables
    double *taken  # room of the tables and of the next two, which begin with a line of the cache
    double *coefficients
    double *value
    Py_ssize_t valued  # the batch whose values these are, -1: none


cdef inline void free_scratch(Scratch *s) noexcept nogil:
    if s == NULL:
        return
    free(s.stack)
    free(s.levels)
    free(s.pattern)
    free(s.kept)
    free(s.tables.at)
    free(s.taken)
    free(s)


cdef inline Scratch *make_scratch(Py_ssize_t leaves, Py_ssize_t levels, Py_ssize_t in_batch, Py_ssize_t coefficients,
                                  Py_ssize_t patterns, Py_ssize_t rows, Py_ssize_t values) noexcept nogil:
    # For trees of so many leaves and levels and batches of so many leaves; then numbers. NULL without memory.
    cdef:
        Scratch *s = <Scratch *> malloc(sizeof(Scratch))
        Py_ssize_t own = coefficients + patterns + rows
    if s == NULL:
        return NULL
    s.stack = <pmb_shap_subtree *> malloc((levels + 1) * sizeof(pmb_shap_subtree))
    s.levels = <uint64_t *> malloc(levels * PMB_SHAP_ROWS * sizeof(uint64_t))
    s.pattern = <uint64_t *> malloc(leaves * PMB_SHAP_ROWS * sizeof(uint64_t))
    s.kept = <pmb_shap_cache *> malloc(sizeof(pmb_shap_cache))
    s.tables.at = <uint8_t *> malloc(in_batch * PMB_SHAP_ROWS + 1)
    s.taken = <double *> calloc(own + values + 2 * PMB_SHAP_WIDE, sizeof(double))
    s.coefficients = s.taken + PMB_SHAP_WIDE - (<uintptr_t> s.taken // sizeof(double)) % PMB_SHAP_WIDE
    s.tables.patterns = s.coefficients + coefficients
    s.tables.rows = s.tables.patterns + patterns
    s.value, s.valued = s.coefficients + own, -1
    if s.stack == NULL or s.levels == NULL or s.pattern == NULL or s.kept == NULL or s.tables.at == NULL or (
            s.taken == NULL):
        free_scratch(s)
        return NULL
    return s
