# cython: language_level=3
"""`vector_trees` with 64-bit sums, for more rows than 32-bit sums can hold."""

cdef extern from *:
    """
    #define PMB_WIDE
    #ifndef PMB_CLONES  /* few have so many rows: one version is enough */
    #define PMB_CLONES
    #endif
    """

include "vector_trees.pyx"
