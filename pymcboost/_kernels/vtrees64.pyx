# cython: language_level=3
"""`vtrees` whose sums over rows have 64 bits, for more rows than 32 bits have room for."""

cdef extern from *:
    """
    #define PMB_WIDE
    """

include "vtrees.pyx"
