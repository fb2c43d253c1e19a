"""Margin-rescaled support vector machines: the weak learners of HingeBoost.OC.

Problem (eq. 15)
    minimise over w, b: 1/2 |w|^2 + c sum_i max(0, d_i - s_i f(x_i)),  f(x) = w.phi(x) + b,  s_i = +-1, any d_i.
Dual (eq. 16), in beta_i = s_i alpha_i
    maximise sum_i s_i d_i beta_i - 1/2 sum_ij beta_i beta_j K_ij with beta_i between 0 and s_i c, sum_i beta_i = 0.
Solvers
    `libsvm`: LIBSVM's C-SVC on a precomputed kernel with two more points, the anchors, that turn its linear term
    from 1 into d_i; `coordinate`: pairwise steps on a kernel in memory, or coordinate steps on the rows.
    All stop by LIBSVM's criterion: no beta that may rise has a gradient more than ``tol`` above one that may fall.
    Rows with s_i = 0 take no part.

Sources: T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding; C.-C. Chang and C.-J. Lin,
LIBSVM: a library for support vector machines.
"""

from dataclasses import dataclass, replace

import numpy as np

# Number of kernel rows that are computed at once.
BLOCK = 256
# Possible violation due to rounding to float32, in LIBSVM's cache and in kernels in memory, relative to the sums.
ROUNDING = 1e-5


@dataclass
class Solution:
    """An optimum: signed dual variables ``beta`` (m,), ``bias``, scores ``f`` (m,) of the rows, and ``norm2`` = |w|^2.

    ``weights`` (d,) is w if the solver works on rows instead of a kernel, else None. ``violation`` is the violation of
    the optimality conditions. ``n_iter`` counts pairwise steps, or rows visited by coordinate steps. ``short`` says
    whether the solver stopped before it reached its tolerance.
    """

    beta: np.ndarray
    bias: float
    f: np.ndarray
    norm2: float
    weights: np.ndarray | None
    violation: float
    n_iter: int
    short: bool = False

    def times(self, step):
        """Return the solution whose function is multiplied by a number."""
        if step == 1:
            return self
        weights = None if self.weights is None else step * self.weights
        return replace(
            self,
            beta=step * self.beta,
            bias=step * self.bias,
            f=step * self.f,
            norm2=step**2 * self.norm2,
            weights=weights,
        )


def dot(a, b):
    """Inner product without BLAS, whose sums depend on the CPU."""
    return float(np.einsum("i,i->", a, b))


def violation_of(beta, E, lo, hi):
    """Violation of the optimality conditions by a feasible beta with gradient E, and the interval of the bias."""
    low = E[beta < hi].max(initial=-np.inf)
    high = E[beta > lo].min(initial=np.inf)
    return max(0.0, float(low - high)), float(low), float(high)


def bias_of(beta, E, lo, hi):
    """LIBSVM's bias: the mean gradient of the free variables, or else the middle of the allowed interval."""
    free = (beta > lo) & (beta < hi)
    if free.any():
        return float(E[free].mean())
    _, low, high = violation_of(beta, E, lo, hi)
    if np.isinf(low) and np.isinf(high):
        return 0.0
    if np.isinf(low):
        return high
    if np.isinf(high):
        return low
    return (low + high) / 2


def bounds(sign, c):
    """Lower and upper bounds of beta: (m,) each."""
    return np.where(sign < 0, -c, 0.0), np.where(sign > 0, c, 0.0)


def restart(start, lo, hi):
    """Fit the multipliers of another problem on the same rows to these bounds, and balance them; None if impossible."""
    alpha = np.minimum(np.abs(start), hi - lo)
    beta = np.where(hi > 0, alpha, -alpha)
    up = beta[beta > 0].sum()
    down = -beta[beta < 0].sum()
    if not up or not down:
        return None
    beta[beta > 0] *= min(1.0, down / up)
    beta[beta < 0] *= min(1.0, up / down)
    return beta


def is_short(violation, tol, f):
    """Whether a solver has missed tol by more than rounding."""
    return bool(violation > tol + ROUNDING * (1 + np.abs(f).max(initial=0)))
