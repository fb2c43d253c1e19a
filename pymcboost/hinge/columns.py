"""Code columns, which colour the classes by the residuals: random columns, pairs, and max-cut.

They are chosen by the pair weights W (K, K), symmetric with a zero diagonal: W[a, b] is the sum of the residuals of the
rows of class a for b, and of the rows of class b for a. A column with a and b on different sides cuts W[a, b]; the best
column cuts most (HingeBoost.OC, eq. 11 and 12). Weights may be negative. Sums use einsum, because sums of BLAS depend
on the CPU.
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
    return (
        weights.sum() - np.einsum("nk,nk->n", np.einsum("na,ab->nb", columns, weights), columns)
    ) / 4


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

    Each class has a unit vector; they turn, one at a time, against the weighted sum of the others, which solves the
    relaxation for ranks above sqrt(2 K). A random hyperplane makes two colours of them, which single flips improve.

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
    before = np.inf
    for _ in range(SWEEPS):
        value = 0.0
        for k in range(K):
            pull = np.einsum("a,ar->r", weights[k], vectors)
            size = np.sqrt(np.einsum("r,r->", pull, pull))
            if size > 0:
                vectors[k] = -pull / size
            value -= size
        if before - value <= LEAST_GAIN * abs(value):
            break
        before = value
    columns = np.where(
        np.einsum("nr,kr->nk", rng.normal(size=(ROUNDINGS, rank)), vectors) < 0, -1, 1
    ).astype(np.int8)
    for column in columns:
        _flip(weights, column)
    return np.ascontiguousarray(columns[cut(weights, columns).argmax()])


def _flip(weights, column):
    """Flip single classes, the best first, as long as the cut grows; both colours stay in use."""
    while True:
        # Flipping k adds sum_b W[k, b] mu_k mu_b to the cut.
        gain = column * np.einsum("ab,b->a", weights, column)
        sides = np.bincount(column + 1, minlength=3)
        if sides[0] and sides[2]:
            gain[column == -1] = -np.inf if sides[0] == 1 else gain[column == -1]
            gain[column == 1] = -np.inf if sides[2] == 1 else gain[column == 1]
            k = gain.argmax()
            if gain[k] <= LEAST_GAIN * np.abs(weights).max():
                return
        else:
            k = gain.argmax()
        column[k] = -column[k]
