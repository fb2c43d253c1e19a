# cython: language_level=3
"""The threads of the kernels, one pool for all, see pool.h; other kernels get at it by `cimport`."""

cdef extern from "pool.h" nogil:
    const pmb_pool_calls pmb_the_pool


cdef const pmb_pool_calls *the_pool() noexcept nogil:
    """Interface of the pool."""
    return &pmb_the_pool


cdef void run(int n_threads, int64_t n, pmb_piece do_it, void *what) noexcept nogil:
    """Call ``do_it`` for n pieces."""
    pmb_the_pool.run(n_threads, n, do_it, what)
