"""Work that is shared among threads."""

from libc.stdint cimport int64_t

cdef extern from "team.h" nogil:
    ctypedef void (*pmb_piece)(void *what, int64_t piece, int thread) noexcept nogil
    ctypedef struct pmb_pool_calls:
        void (*run)(int n_threads, int64_t n, pmb_piece do_it, void *what) noexcept nogil

cdef const pmb_pool_calls *the_pool() noexcept nogil
cdef void run(int n_threads, int64_t n, pmb_piece do_it, void *what) noexcept nogil
