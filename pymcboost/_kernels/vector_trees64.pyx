# cython: language_level=3
"""`vector_trees` with 64-bit sums, for more rows than 32-bit sums can hold."""

cdef extern from *:
    """
    #define PMB_WIDE
    """

include "vector_trees.pyx"
