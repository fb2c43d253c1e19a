"""Code columns, which colour the classes by the residuals: random columns, pairs, and max-cut.

They are chosen by the pair weights W (K, K), symmetric with a zero diagonal: W[a, b] is the sum of the residuals of the
rows of class a for b, and of the rows of class b for a. A column with a and b on different sides cuts W[a, b]. The best
column cuts the largest total weight (HingeBoost.OC, eq. 11 and 12). Weights may be negative. Sums use einsum, because
sums of BLAS depend on the CPU.
"""

import numpy as np

from pymcboost._kernels import output_codes

# Low-rank max-cut: maximum number of sweeps over the classes, minimum relative gain per sweep, and number of
# roundings.
SWEEPS = 100
LEAST_GAIN = 1e-6
ROUNDINGS = 100


def pair_weights(rho, y):
    """Pair weights from residuals.

    Parameters
    ----------
    rho : ndarray of float64 (m, K)
    y : ndarray of int32 (m,)

    Returns
    -------
    ndarray of float64 (K, K)
    """
    sums = np.empty((rho.shape[1], rho.shape[1]))
    output_codes.class_sums(rho, y, sums)
    weights = sums + sums.T
    np.fill_diagonal(weights, 0.0)
    return weights


def cut(weights, columns):
    """Weight that each column cuts.

    Parameters
    ----------
    weights : ndarray (K, K)
    columns : ndarray of +-1 (n, K)

    Returns
    -------
    ndarray (n,)
    """
    columns = np.asarray(columns, dtype=np.float64)
    not_cut = np.einsum("nk,nk->n", np.einsum("na,ab->nb", columns, weights), columns)
    return (weights.sum() - not_cut) / 4


def one_vs_all(k, n_classes):
    """Column with +1 for class k and -1 for all others: int8 (K,)."""
    return np.where(np.arange(n_classes) == k, 1, -1).astype(np.int8)


def best_random(weights, n_columns, rng):
    """The best cut of ``n_columns`` random columns with two colours; the first one wins ties.

    Parameters
    ----------
    weights : ndarray (K, K)
    n_columns : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int8 (K,)
    """
    K = len(weights)
    column = np.empty(K, dtype=np.int8)
    draws = rng.random((n_columns, K))
    output_codes.best_column(
        draws, rng.integers(K, size=n_columns), np.ascontiguousarray(weights), column
    )
    return column


def best_pair(weights):
    """Column with +1 and -1 for the two classes with the largest weight, and 0 for the others: int8 (K,)."""
    upper = np.where(np.triu(np.ones_like(weights, dtype=bool), 1), weights, -np.inf)
    a, b = np.unravel_index(upper.argmax(), upper.shape)
    column = np.zeros(len(weights), dtype=np.int8)
    column[a] = 1
    column[b] = -1
    return column


def max_cut(weights, rng):
    """A column with a large cut: the low-rank semidefinite relaxation, and the best of its random roundings.

    Each class has a unit vector. One vector after the other turns against the weighted sum of the others, which solves
    the relaxation for ranks above sqrt(2 K). A random hyperplane divides the vectors into two colours, which single
    flips improve.

    Parameters
    ----------
    weights : ndarray (K, K)
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int8 (K,)

    References
    ----------
    M. X. Goemans and D. P. Williamson, Improved approximation algorithms for maximum cut and satisfiability problems
    using semidefinite programming, 1995. S. Burer and R. D. C. Monteiro, A nonlinear programming algorithm for solving
    semidefinite programs via low-rank factorization, 2003.
    """
    K = len(weights)
    rank = int(np.ceil(np.sqrt(2 * K))) + 1
    vectors = rng.normal(size=(K, rank))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    last_value = np.inf
    for _ in range(SWEEPS):
        value = 0.0
        for k in range(K):
            weighted_sum = np.einsum("a,ar->r", weights[k], vectors)
            size = np.sqrt(np.einsum("r,r->", weighted_sum, weighted_sum))
            if size > 0:
                vectors[k] = -weighted_sum / size
            value -= size
        if last_value - value <= LEAST_GAIN * abs(value):
            break
        last_value = value
    hyperplanes = rng.normal(size=(ROUNDINGS, rank))
    is_negative = np.einsum("nr,kr->nk", hyperplanes, vectors) < 0
    columns = np.where(is_negative, -1, 1).astype(np.int8)
    for column in columns:
        _flip(weights, column)
    return np.ascontiguousarray(columns[cut(weights, columns).argmax()])


def _flip(weights, column):
    """Flip single classes, the best first, as long as the cut grows; both colours stay in use."""
    while True:
        # Flipping k adds sum_b W[k, b] mu_k mu_b to the cut.
        gain = column * np.einsum("ab,b->a", weights, column)
        n_minus = np.count_nonzero(column == -1)
        n_plus = np.count_nonzero(column == 1)
        has_both = n_minus > 0 and n_plus > 0
        if has_both and n_minus == 1:
            gain[column == -1] = -np.inf
        if has_both and n_plus == 1:
            gain[column == 1] = -np.inf
        k = gain.argmax()
        if has_both and gain[k] <= LEAST_GAIN * np.abs(weights).max():
            return
        column[k] = -column[k]
