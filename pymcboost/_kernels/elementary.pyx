# cython: language_level=3
"""exp and log whose bits do not depend on the CPU, as NumPy's and the C library's do; and float32 from checked numbers.

Buffers
    values : float64, any shape and order; out : float64, contiguous, of that shape and order; may be values.
Complexity O(n), some 25 operations on lanes an entry; errors below 0.7 (exp) and 1 (log) units in the last place.
"""

import numpy as np

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #if defined(__clang__)
    #define PMB_COMPILER "Clang " __clang_version__
    #elif defined(__GNUC__)
    #define PMB_COMPILER "GCC " __VERSION__
    #elif defined(_MSC_VER)
    #define PMB_TEXT(x) #x
    #define PMB_NUMBER(x) PMB_TEXT(x)
    #define PMB_COMPILER "MSVC " PMB_NUMBER(_MSC_VER)
    #else
    #define PMB_COMPILER "unknown"
    #endif
    #define PMB_INSTRUCTIONS (PMB_HAS_512 ? "AVX-512" : PMB_HAS_256 ? "AVX2" : "baseline")
    """
    const char *PMB_COMPILER
    const char *PMB_INSTRUCTIONS

cdef extern from "elementary.h" nogil:
    void pmb_exp_all(const double *x, double *to, int64_t n)
    void pmb_log_all(const double *x, double *to, int64_t n)
    int64_t pmb_store_all(const double *x, int64_t rows, int64_t K, double sign, double least, double end, float *to,
                          int64_t stride)


cdef apply(void (*function)(const double *, double *, int64_t) noexcept nogil, values, out):
    cdef const double[::1] x
    cdef double[::1] to
    cdef double one
    if out is None and isinstance(values, float):  # a third of the time of an array's
        one = values
        function(&one, &one, 1)
        return np.float64(one)
    values = np.asarray(values, dtype=np.float64)
    if not values.flags.forc:
        values = values.copy()
    if out is None:
        out = np.empty_like(values, subok=False)
    elif out.shape != values.shape or out.strides != values.strides:
        raise ValueError("out must be contiguous and have the shape and order of the values")
    if values.size:
        x, to = values.ravel(order="K"), out.ravel(order="K")
        with nogil:
            function(&x[0], &to[0], x.shape[0])
    return out if out.ndim else out[()]


def build():
    """The compiler of the kernels."""
    return PMB_COMPILER.decode("ascii", "replace")


def instructions():
    """Which clone of each kernel runs here: AVX-512, AVX2, or the baseline of this architecture."""
    return PMB_INSTRUCTIONS.decode("ascii")


def exp(values, out=None):
    """e to the power of every value."""
    return apply(pmb_exp_all, values, out)


def log(values, out=None):
    """Natural logarithm of every value; NaN below 0."""
    return apply(pmb_log_all, values, out)


def store(const double[:, ::1] values, double sign, double least, double end, float[:, :] out):
    """out = sign * values, in one pass. Returns how many values are not from ``least`` on and below ``end``.

    values : IN (m, K); out : OUT (m, K), whose rows are contiguous
    """
    cdef int64_t m = values.shape[0], K = values.shape[1], outside = 0
    if out.shape[0] != m or out.shape[1] != K or K > 1 and out.strides[1] != sizeof(float):
        raise ValueError("out must have the shape of the values, and contiguous rows")
    if m and K:
        with nogil:
            outside = pmb_store_all(&values[0, 0], m, K, sign, least, end, &out[0, 0],
                                    out.strides[0] // <Py_ssize_t> sizeof(float))
    return outside
