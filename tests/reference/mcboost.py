"""Twins of MCBoost's parts and of the whole of Algorithm 1, and discrete AdaBoost (float64, no shortcuts)."""

import numpy as np
from scipy.optimize import minimize

from .stumps import best_stump, candidates, gradient_of, outputs


def margins(F, y):
    """rho_ir = F[y_i] - F[r]."""
    return F[np.arange(len(y)), y][:, None] - F


def weights(F, y, loss, sample_weight):
    """u_ir, unnormalised, diagonal 0."""
    rho = margins(F, y)
    u = np.exp(-rho) if loss == "exp" else 1 / (1 + np.exp(rho))
    u = u * sample_weight[:, None]
    u[np.arange(len(y)), y] = 0
    return u


def sum_of_weights(u, loss, sample_weight):
    """Over all i and r: u has no diagonal, where rho = 0 and a weight is 1 (exponential) or 1/2 (logistic)."""
    return u.sum() + sample_weight.sum() * (1.0 if loss == "exp" else 0.5)


def objective(w, F, y, h, loss, nu, sample_weight):
    """Equation (13) or (14) with the diagonal terms: value at F + h w."""
    rho = margins(F + h[:, None] * w, y)
    if loss == "exp":
        return np.log((sample_weight[:, None] * np.exp(-rho)).sum()) + nu * w.sum()
    return (sample_weight[:, None] * np.log1p(np.exp(-rho))).sum() + nu * w.sum()


def gradient(w, F, y, h, loss, nu, sample_weight):
    """Derivative of `objective` by w."""
    after = F + h[:, None] * w
    u = weights(after, y, loss, sample_weight=sample_weight)
    slope = -(gradient_of(u, y) * h[:, None]).sum(axis=0)
    if loss == "exp":
        slope /= (sample_weight[:, None] * np.exp(-margins(after, y))).sum()
    return slope + nu


def coefficients(F, y, h, loss, nu, sample_weight, cap):
    """The minimiser over 0 <= w <= cap with min(w) = 0, by L-BFGS-B."""
    K = F.shape[1]
    optimum = minimize(
        objective,
        np.zeros(K),
        args=(F, y, h, loss, nu, sample_weight),
        jac=gradient,
        method="L-BFGS-B",
        bounds=[(0, cap)] * K,
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-12, "maxcor": 30},
    )
    return optimum.x - optimum.x.min()


def mcboost(X, y, K, loss, rounds, learning_rate=0.5, nu=1e-9, cap=10.0):
    """Algorithm 1. Returns the list of (feature, threshold, nan_left, right side coefficients).

    The rule that ends it sees weights whose sum is 1 (equations 6 and 8). The penalty of (14) is that of a sum over
    samples.
    """
    X = np.asarray(X, dtype=np.float32)
    F = np.zeros((len(y), K))
    one = np.ones(len(y))
    model = []
    for _ in range(rounds):
        u = weights(F, y, loss, sample_weight=one)
        a = gradient_of(u, y)
        edge, f, threshold, nan_left, _, signed = best_stump(X, a)
        if edge / sum_of_weights(u, loss, one) <= nu:
            break
        h = outputs(X[:, f], threshold, nan_left) * np.sign(signed)
        w = learning_rate * coefficients(F, y, h, loss=loss, nu=nu, sample_weight=one, cap=cap)
        w = w.astype(np.float32).astype(np.float64)
        F += h[:, None] * w
        model.append((f, threshold, nan_left, np.sign(signed) * w))
    return model


def adaboost(X, y, rounds):
    """Discrete AdaBoost with decision stumps: list of (feature, threshold, polarity, alpha) for labels 0 and 1."""
    X = np.asarray(X, dtype=np.float32)
    sign = np.where(y == 0, 1.0, -1.0)
    D = np.full(len(y), 1 / len(y))
    model = []
    for _ in range(rounds):
        best = None
        for f in range(X.shape[1]):
            for threshold, _ in candidates(X[:, f]):
                h = outputs(X[:, f], threshold, False)
                edge = (D * sign * h).sum()
                if best is None or abs(edge) > abs(best[0]) * (1 + 1e-9):
                    best = (edge, f, threshold, h * np.sign(edge))
        edge, f, threshold, h = best
        error = D[h != sign].sum()
        alpha = 0.5 * np.log((1 - error) / error)
        D = D * np.exp(-alpha * sign * h)
        D /= D.sum()
        model.append((f, threshold, np.sign(edge), alpha))
    return model
