"""What `vector_loss` and `float32_loss` share: leaf vectors, and directions of signs."""

from libc.stdint cimport int32_t, int64_t

cdef extern from "leaf_vectors.h" nogil:
    ctypedef struct pmb_leaf_step:
        int64_t n_classes, width
        int bits
        double unit, l2, rate, share, largest
    double pmb_sum(const double *v, int64_t n)
    int pmb_leaf_steps(const pmb_leaf_step *s, const int64_t *sums, int64_t n, double *step)
    void pmb_leaf_values(const pmb_leaf_step *s, const double *step, double *wide, float *narrow)

cdef extern from "sign_directions.h" nogil:
    ctypedef struct pmb_signs:
        const float *sign
        const float *size
        const int32_t *classes
        const int64_t *start
    int pmb_signs_of(const float *P, int blocks, const int32_t *classes, const int64_t *start, float *sign, float *size)


cdef inline const double *or_null(const double[::1] weight) noexcept:
    return &weight[0] if weight.shape[0] else NULL


cdef inline pmb_leaf_step leaf_step_of(how, int64_t width, double magic):
    """How sums with this magic number become vectors; how: (n_classes, bits, l2, largest, rate)."""
    n_classes, bits, l2, largest, rate = how
    return pmb_leaf_step(n_classes, width, bits, magic / 6755399441055744.0, l2, rate, (n_classes - 1) / n_classes,
                         largest)  # 1.5 * 2^52
