"""Work that is shared among threads."""

from libc.stdint cimport int64_t

cdef extern from "team.h" nogil:
    ctypedef void (*pmb_piece)(void *what, int64_t piece, int thread) noexcept nogil
    ctypedef struct pmb_pool_calls:
        void (*run)(int n_threads, int64_t n, pmb_piece do_it, void *what) noexcept nogil

cdef const pmb_pool_calls *the_pool() noexcept nogil
cdef void run(int n_threads, int64_t n, pmb_piece do_it, void *what) noexcept nogil


cdef inline int64_t pieces_of(int64_t n, int64_t size) noexcept nogil:
    """Number of pieces that n items make, the last of which may be smaller."""
    return (n + size - 1) // size


cdef inline int threads_for(int n_threads, int64_t work, int64_t few) noexcept nogil:
    """n_threads; 1 where there is so little work that sharing it takes longer."""
    return n_threads if work > few else 1
