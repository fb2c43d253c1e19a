# cython: language_level=3
"""Products of matrices and systems of equations that have the same bits on every CPU.

A BLAS adds in an order that depends on the CPU. Here each entry is one sum, in the order of its terms.
Complexity O(n m d) and O(n^3), on lanes of eight numbers.
"""

from libc.stdint cimport int64_t

cdef extern from "products.h" nogil:
    void pmb_products(const double *A, const double *B, int64_t n, int64_t m, int64_t d, double *out)
    int pmb_solve(double *A, double *b, int64_t n)


def products(const double[:, ::1] A, const double[:, ::1] B, double[:, ::1] out):
    """Write A B' to out.

    A : IN (n, d); B : IN (m, d); out : OUT (n, m).
    """
    cdef int64_t n = A.shape[0], m = B.shape[0], d = A.shape[1]
    if B.shape[1] != d or out.shape[0] != n or out.shape[1] != m:
        raise ValueError("A, B and out do not fit each other")
    if not n or not m:
        return
    if not d:
        out[:] = 0
        return
    with nogil:
        pmb_products(&A[0, 0], &B[0, 0], n, m, d, &out[0, 0])


def solve(double[:, ::1] A, double[::1] b):
    """Solve A x = b by Gaussian elimination with row pivots.

    A : IN (n, n), overwritten; b : IN/OUT (n,), x on return.
    Returns whether A is not singular; otherwise b holds nothing of use.
    """
    cdef int64_t n = A.shape[0]
    cdef int found
    if not n or A.shape[1] != n or b.shape[0] != n:
        raise ValueError("A must be square and fit b")
    with nogil:
        found = pmb_solve(&A[0, 0], &b[0], n)
    return found != 0
