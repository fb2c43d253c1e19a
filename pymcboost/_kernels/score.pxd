# What score.pyx uses of mcb.h and narrow.h.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from *:
    """
    #define MCB_SIMD 1
    #include "narrow.h"
    """

cdef extern from "mcb.h" nogil:
    enum:
        MCB_KIND_LINEAR
        MCB_KIND_PACKED
        MCB_N_SLOTS
        MCB_E_FILE_SIZE

    ctypedef struct mcb_section:
        const unsigned char *data
        uint64_t count
        uint32_t dtype

    ctypedef struct mcb_model:
        const unsigned char *data
        uint64_t size
        uint32_t n_classes
        uint32_t n_features
        uint32_t kind
        uint32_t link
        uint32_t decoder
        uint32_t format_minor
        uint64_t n_learners
        uint64_t n_rounds
        mcb_section section[36]
        int error
        int error_has_numbers
        char error_tag[5]
        uint64_t error_offset
        uint64_t error_found
        uint64_t error_expected

    ctypedef struct mcb__rule:
        unsigned char tag[5]

    const mcb__rule mcb__rules[36]

    int mcb_open(mcb_model *model, const void *bytes, size_t size)
    size_t mcb_prepared_size(const mcb_model *m)
    int mcb_prepare(mcb_model *m, void *memory, size_t size)
    const char *mcb_strerror(int status)
    uint32_t mcb_crc32c(uint32_t crc, const void *bytes, size_t n)
    int mcb_add_learners(const mcb_model *m, const float *x, size_t n_rows, size_t stride, uint64_t begin, uint64_t end,
                         double *scores)
    int mcb_scores_sparse(const mcb_model *m, size_t n, const uint32_t *index, const float *value, double *scores)
    void mcb_start_scores(const mcb_model *m, size_t n_rows, double *scores)
    void mcb_scores_batch(const mcb_model *m, const float *x, size_t n_rows, size_t stride, double *scores)
    void mcb_top(const mcb_model *m, const double *scores, uint32_t n, uint32_t *top)
    size_t mcb_top_size(const mcb_model *m)
    int mcb_top_begin(const mcb_model *m, void *memory, size_t size)
    void mcb_top_scores(const mcb_model *m, void *memory, const float *x, uint32_t n, uint32_t *top, double *scores)
    uint32_t mcb_argmax(const mcb_model *m, const double *scores)
    int mcb_predict_early(const mcb_model *m, int way, const float *x, double *scores, uint32_t *label,
                          uint64_t *n_learners)
    int mcb_predict_early_sparse(const mcb_model *m, size_t n, const uint32_t *index, const float *value,
                                 double *scores, uint32_t *label, uint64_t *n_learners)
    size_t mcb_early_size(const mcb_model *m)
    int mcb_prepare_early(mcb_model *m, void *memory, size_t size)
    int mcb_probabilities(const mcb_model *m, double *scores)
    uint32_t mcb_score_width(const mcb_model *m)
    void mcb_decode(const mcb_model *m, const double *columns, double *scores)
    void mcb__softmax(double *scores, uint32_t K, int doubled, double factor)
    double mcb_log(double x)
    double mcb_exp(double x)
    double mcb_sqrt(double x)

cdef extern from "narrow.h" nogil:
    ctypedef struct narrow_model:
        mcb_model model

    int narrow_can(const mcb_model *wide)
    narrow_model *narrow_new(const mcb_model *wide)
    void narrow_free(narrow_model *narrow)
    uint32_t narrow_column(const narrow_model *narrow, uint32_t feature)

cdef enum:
    MODE_SCORES = 0
    MODE_PROBABILITIES = 1
    MODE_EARLY = 2  # and more: the number of an early exit is added

ctypedef fused index:
    int32_t
    int64_t

# Rows to score. A block of them is a piece of the work; each thread has room of its own.
cdef struct Batch:
    const mcb_model *model
    const narrow_model *narrow  # NULL: rows have all features of the model
    Py_ssize_t m, block, n_blocks  # rows, of a block, and blocks
    const char *data  # dense rows, or the entries of sparse ones
    Py_ssize_t row_step, column_step  # bytes between rows and between columns
    const void *indices
    const void *indptr
    bint is_double, is_long  # numbers and indices of 8 bytes, otherwise of 4
    bint direct  # rows lie as mcb.h reads them
    bint by_entry  # sparse rows are scored from their entries, not filled with zeros
    float *features
    uint32_t *places
    double *spare  # scores that are thrown away again
    Py_ssize_t features_room, places_room, spare_room  # items of a thread; 0 where it needs none
    double *scores  # results, one of the two
    int64_t *classes
    int mode

cdef class Scorer:
    cdef mcb_model model
    cdef const unsigned char[::1] view
    cdef readonly int status
    cdef void *memory
    cdef void *basis
    cdef bint asked
    cdef narrow_model *narrow
    cdef void prepare(self, bint sparse=*)
    cdef prepare_early(self)
    cdef check(self, Py_ssize_t m, Py_ssize_t d, double[:, ::1] out, int64_t[::1] best)
    cdef Py_ssize_t block_rows(self, Py_ssize_t m, Py_ssize_t d, bint predicting)
    cdef int start(self, Batch *batch, Py_ssize_t m, Py_ssize_t d, double[:, ::1] out, int64_t[::1] best, int mode,
                   int n_threads)

cdef inline void finish_block(const mcb_model *model, const float *x, Py_ssize_t begin, Py_ssize_t end,
                              Py_ssize_t stride, double *spare, double *scores, int64_t *classes,
                              int mode) noexcept nogil:
    cdef:
        Py_ssize_t K = model.n_classes, r
        double *out = scores + begin * K if scores != NULL else spare
        double *best
        uint32_t label = 0
        uint64_t learners = 0
    if mode >= MODE_EARLY:
        for r in range(begin, end):
            mcb_predict_early(model, mode - MODE_EARLY, x + (r - begin) * stride, out, &label, &learners)
            classes[r] = <int64_t>(learners << 16 | label) if out[0] == out[0] else -1
        return
    mcb_scores_batch(model, x, end - begin, stride, out)
    if classes != NULL:
        for r in range(begin, end):
            # A machine's scores are all NaN where a row cannot be scored.
            best = out + (r - begin) * K
            classes[r] = mcb_argmax(model, best) if best[0] == best[0] else -1
    elif mode == MODE_PROBABILITIES:
        for r in range(end - begin):
            mcb_probabilities(model, out + r * K)


cdef inline bint misaligned(const void *p, Py_ssize_t step, size_t size) noexcept nogil:
    return (<size_t>p | <size_t>step) % size != 0

cdef inline bint valid_csr(const index[::1] indices, const index[::1] indptr, Py_ssize_t nnz, Py_ssize_t d,
                           bint look_at_order, Py_ssize_t *most, bint *increasing) noexcept nogil:
    """Whether the parts of a CSR matrix fit together; its longest row, and whether indices increase in all rows."""
    cdef:
        Py_ssize_t m = indptr.shape[0] - 1, i, r
        bint good = indptr[0] == 0 and indptr[m] <= nnz
    for i in range(m):
        good = good and indptr[i] <= indptr[i + 1]
    if not good:
        return False
    for i in range(indptr[m]):
        good = good and 0 <= indices[i] < d
    if good and look_at_order:
        for r in range(m):
            most[0] = max(most[0], indptr[r + 1] - indptr[r])
            for i in range(indptr[r] + 1, indptr[r + 1]):
                increasing[0] = increasing[0] and indices[i - 1] < indices[i]
    return good
