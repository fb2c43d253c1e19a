"""HingeBoost.OC the slow way: NumPy and float64 throughout, formula by formula."""

import itertools

import numpy as np


def solve_dual(K, sign, d, c, tol=1e-10, max_steps=1_000_000, start=0.0):
    """Dual (16) by steps of the maximal violating pair on the given kernel: signed multipliers beta, which sum to 0."""
    lo = np.where(sign < 0, -c, 0.0)
    hi = np.where(sign > 0, c, 0.0)
    beta = np.clip(np.zeros(len(d)) + start, lo, hi)
    E = sign * d.astype(float) - K @ beta
    for _ in range(max_steps):
        up = np.where(beta < hi, E, -np.inf)
        down = np.where(beta > lo, E, np.inf)
        i = up.argmax()
        j = down.argmin()
        if up[i] - down[j] <= tol:
            return beta
        # Second order, as LIBSVM: the partner of the largest gain.
        curve = np.maximum(K[i, i] + K.diagonal() - 2 * K[i], 1e-12)
        j = np.where(down < up[i], (up[i] - E) ** 2 / curve, -1.0).argmax()
        step = min((E[i] - E[j]) / curve[j], hi[i] - beta[i], beta[j] - lo[j])
        beta[i] += step
        beta[j] -= step
        # What is within rounding of a bound is at it.
        for k in (i, j):
            beta[k] = (
                lo[k]
                if beta[k] - lo[k] < 1e-14 * c
                else hi[k]
                if hi[k] - beta[k] < 1e-14 * c
                else beta[k]
            )
        E -= step * (K[i] - K[j])
    raise AssertionError("the reference has not converged")


def free_step(X, target, lo, hi, beta, most, ridge):
    """A step on all free variables of the linear kernel's dual up to the first bound, see `Rows.free_step`.

    Returns beta, the number of free variables, whether they moved, whether by the whole step, and then the bias.
    """
    free = np.flatnonzero((beta > lo) & (beta < hi))
    beta = beta.copy()
    n = len(free)
    Z = X[free].astype(float)
    if not 2 <= n <= most:
        return beta, n, False, False, 0.0
    K = Z @ Z.T
    system = np.ones((n + 1, n + 1))
    system[:-1, :-1] = K + ridge * K.diagonal().mean() * np.eye(n)
    system[-1, -1] = 0.0
    step = np.linalg.solve(system, np.append(target[free] - Z @ (X.T.astype(float) @ beta), 0.0))
    step, bias = step[:-1], step[-1]
    room = np.where(step > 0, hi[free] - beta[free], beta[free] - lo[free])
    share_to_bound = room / np.abs(step)
    nearest = np.argmin(share_to_bound)
    is_whole = share_to_bound[nearest] >= 1
    beta[free] += min(1.0, share_to_bound[nearest]) * step
    if not is_whole:
        bounds = hi if step[nearest] > 0 else lo
        beta[free[nearest]] = bounds[free[nearest]]
    return beta, n, True, is_whole, bias if is_whole else 0.0


def dual_objective(K, sign, d, beta):
    return (sign * d) @ beta - beta @ K @ beta / 2


def primal_objective(norm2, f, sign, d, c):
    return norm2 / 2 + c * np.maximum(0, d - sign * f)[sign != 0].sum()


def best_bias(sums, sign, d, c):
    """A bias that minimises the primal objective for given sums, by trying every kink."""
    candidates = sign * d - sums
    losses = [primal_objective(0.0, sums + b, sign, d=d, c=c) for b in candidates]
    return candidates[int(np.argmin(losses))]


def margins(rho, y, column):
    d = np.zeros(len(y))
    for i, own in enumerate(column[y]):
        if own:
            d[i] = rho[i, column == -own].max() - rho[i, column == own].max()
    return d


def cost(rho, y, column, g):
    return (rho + column * g[:, None] - (column[y] * g)[:, None]).max(axis=1).sum()


def best_single_change(rho, y, column, g, colours=(-1, 1)):
    """Lowest cost that changing one colour reaches, both signs staying in use."""
    best = np.inf
    for k, new in itertools.product(range(len(column)), colours):
        changed = column.copy()
        changed[k] = new
        if (changed == 1).any() and (changed == -1).any():
            best = min(best, cost(rho, y, changed, g=g))
    return best


def update(rho, y, column, g):
    return rho + column * g[:, None] - (column[y] * g)[:, None]


def cut(rho, y, column):
    """(11) as printed: residuals towards classes of the other colour, over all rows."""
    return sum(
        rho[i, k] for i in range(len(y)) for k in range(len(column)) if column[k] != column[y[i]]
    )
