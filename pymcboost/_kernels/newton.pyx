# cython: language_level=3
"""Coefficients of one shared weak learner from K x K tables, by a box-bounded Newton method."""

from libc.stdint cimport int64_t

import numpy as np

cdef extern from "newton.h" nogil:
    long long pmb_newton_work(int K)
    void pmb_newton(int K, int logistic, const double *plus, const double *minus, const double *n_plus,
                    const double *n_minus, double diagonal, double nu, double cap, double tol, int max_iter, double *w,
                    double *work)
    double pmb_log_step(int K, const double *tables, const double *w, double nu, double cap, double tol, int max_iter,
                        double *v, double *work)
    double pmb_coded_step(int K, const double *code, const double *plus, const double *minus, int64_t stride,
                          double cap, int max_iter, double *work)


def new_work(int K):
    """Work space for `solve_exp` and `log_step`."""
    return np.empty(pmb_newton_work(K))


def solve_exp(const double[:, ::1] plus, const double[:, ::1] minus, double diagonal, double nu, double cap, double tol,
              int max_iter, double[::1] w, double[::1] work):
    """Minimize log(diagonal + sum plus e^{-(w_c - w_r)} + minus e^{w_c - w_r}) + nu sum w over 0 <= w <= cap.

    Parameters
    ----------
    plus, minus : IN (K, K), diagonals ignored
    w : INOUT (K,) start and solution
    tol : largest projected gradient, relative to the off-diagonal mass
    """
    with nogil:
        pmb_newton(<int> w.shape[0], 0, &plus[0, 0], &minus[0, 0], NULL, NULL, diagonal, nu, cap, tol, max_iter, &w[0],
                   &work[0])


def log_step(const double[:, :, ::1] tables, const double[::1] w, double nu, double cap, double tol, int max_iter,
             double[::1] v, double[::1] work):
    """One outer step of the logistic problem (eq. 14): minimise a sum of logistic terms that matches the data at w.

    Parameters
    ----------
    tables : IN (4, K, K) from ``weights.log_sums`` at w
    w : IN (K,)
    v : OUT (K,) the minimiser, untouched when w is already within ``tol``

    Returns
    -------
    float
        Largest projected gradient at w, relative to the mass.
    """
    cdef double violation
    with nogil:
        violation = pmb_log_step(<int> w.shape[0], &tables[0, 0, 0], &w[0], nu, cap, tol, max_iter, &v[0], &work[0])
    return violation


def coded_steps(const double[:, ::1] code, const double[:, :, ::1] tables, double cap, int max_iter, double[::1] out):
    """For every column the t that minimises the sum over the classes of W+ exp(-C t) + W- exp(C t).

    Parameters
    ----------
    code : IN (K, P)
    tables : IN (2, K, P) W+ and W-
    cap : largest |C t| of a column
    out : OUT (P,)
    """
    cdef int64_t j, P = code.shape[1]
    cdef double[::1] work = np.empty(3 * code.shape[0])
    with nogil:
        for j in range(P):
            out[j] = pmb_coded_step(<int> code.shape[0], &code[0, j], &tables[0, 0, j], &tables[1, 0, j], P, cap,
                                    max_iter, &work[0])
