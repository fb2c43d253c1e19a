# cython: language_level=3
"""`vector_trees` with sums of 64 bits, for more rows than sums of 32 bits have room for."""

cdef extern from *:
    """
    #define PMB_WIDE
    """

include "vector_trees.pyx"
