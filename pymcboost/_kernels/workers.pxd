"""The workers that the rows of a grower are divided among; described in workers.h."""

from libc.stdint cimport int32_t, int64_t

cdef extern from "workers.h" nogil:
    ctypedef struct pmb_workers:
        int (*add_up)(void *communicator, void *numbers, int64_t n, int n_bytes, const int64_t *lengths) noexcept nogil
        void *communicator
        int32_t n_workers, rank, failed
        int64_t scattered

cdef class Workers:
    cdef pmb_workers calls
    cdef object comm, error
    cdef bint is_begun
    cdef void begin(self) noexcept
    cdef int check(self) except -1
    cdef int add_up(self, void *numbers, int64_t n, int n_bytes, const int64_t *lengths) noexcept
