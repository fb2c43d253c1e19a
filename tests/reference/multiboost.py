"""Twins of MultiBoost's parts: FCD with all weights in one table, objectives by L-BFGS-B, Algorithm 1 (float64)."""

import numpy as np
from scipy.optimize import minimize

from .mcboost import margins, weights
from .stumps import best_stump, gradient_of, outputs


def delta(h, y, c, K):
    """delta_(i,r) = h(x_i) ([y_i = c] - [r = c]) for r != y_i, else 0: (m, K)."""
    d = h[:, None] * ((y == c)[:, None] * 1.0 - (np.arange(K) == c))
    d[np.arange(len(y)), y] = 0
    return d


def scores(w, H, owner, K):
    """F of coordinates: H (n, m) outputs, owner (n,) classes, w (n,)."""
    F = np.zeros((H.shape[1], K))
    for h, c, weight in zip(H, owner, w, strict=True):
        F[:, c] += weight * h
    return F


def objective(w, H, y, owner, K, s, nu, loss="exp"):
    """Loss of all pairs (i, r != y_i) plus nu |w|."""
    rho = margins(scores(w, H, owner, K=K), y)
    values = np.exp(-rho) if loss == "exp" else np.log1p(np.exp(-rho))
    values[np.arange(len(y)), y] = 0
    return float((s[:, None] * values).sum() + nu * np.sum(w))


def slopes(w, H, y, owner, K, s, nu, loss="exp"):
    """Derivatives of `objective`."""
    u = weights(scores(w, H, owner, K=K), y, loss, s)
    return np.array([nu - (u * delta(h, y, c, K=K)).sum() for h, c in zip(H, owner, strict=True)])


def dual(u, H, y, owner, K, s, nu):
    """Dual of the exponential loss at the weights u (m, K), scaled down until they are feasible for H."""
    edge = max((u * delta(h, y, c, K=K)).sum() for h, c in zip(H, owner, strict=True))
    u = u * min(1.0, nu / edge)
    return float((u - u * np.log(np.where(u > 0, u / s[:, None], 1.0))).sum())


def violations(w, slope, cap):
    """Equation (16), with the bound at cap."""
    return np.where(
        w <= 0, np.maximum(-slope, 0), np.where(w >= cap, np.maximum(slope, 0), np.abs(slope))
    )


def minimiser(H, y, owner, K, s, nu, cap, loss="exp"):
    """All coefficients by L-BFGS-B."""
    optimum = minimize(
        objective,
        np.zeros(len(H)),
        args=(H, y, owner, K, s, nu, loss),
        jac=slopes,
        method="L-BFGS-B",
        bounds=[(0, cap)] * len(H),
        options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-9},
    )
    return optimum.x


def cold_start(H, y, owner, K, nu, cap, loss):
    """All coefficients by L-BFGS-B from 0 on the mean over all pairs, stopped early; equal sample weights."""
    p = len(y) * (K - 1)
    s = np.ones(len(y))
    optimum = minimize(
        lambda w: objective(w, H, y, owner=owner, K=K, s=s, nu=nu, loss=loss) / p,
        np.zeros(len(H)),
        jac=lambda w: slopes(w, H, y, owner=owner, K=K, s=s, nu=nu, loss=loss) / p,
        method="L-BFGS-B",
        bounds=[(0, cap)] * len(H),
        options={"maxiter": 100, "maxcor": 10, "ftol": 1e-9, "gtol": 1e-5, "maxls": 50},
    )
    return optimum.x


def multiboost_cold(X, y, K, rounds, C, cap, loss):
    """Scores (m, K) of MultiBoost with one stump a round for all classes, each round solved by `cold_start`."""
    X = np.asarray(X, dtype=np.float32)
    nu = len(y) * (K - 1) / C
    F = np.zeros((len(y), K))
    H = np.zeros((0, len(y)))
    owner = np.zeros(0, dtype=int)
    for _ in range(rounds):
        _, f, threshold, nan_left, _, signed = best_stump(
            X, gradient_of(weights(F, y, loss, np.ones(len(y))), y)
        )
        h = outputs(X[:, f], threshold, nan_left) * np.sign(signed)
        H = np.concatenate([H, [h] * K])
        owner = np.concatenate([owner, np.arange(K)])
        F = scores(cold_start(H, y, owner, K=K, nu=nu, cap=cap, loss=loss), H, owner, K=K)
    return F


def step(plus, minus, nu, cap):
    """Equation (12): minimiser over [0, cap] of plus e^-w + minus e^w + nu w; (13) where nu is 0."""
    if plus == 0:
        return 0.0
    if minus == 0:
        return cap if nu == 0 else float(np.clip(np.log(plus / nu), 0, cap))
    if nu == 0:
        return float(np.clip(0.5 * (np.log(plus) - np.log(minus)), 0, cap))
    root = np.sqrt(plus * minus + nu**2 / 4) - nu / 2
    return float(np.clip(np.log(root) - np.log(minus), 0, cap)) if root > 0 else 0.0


def sweep(w, H, y, owner, K, s, nu, cap, order):
    """Algorithm 2's inner loop over the coordinates in ``order``; returns w and the objective after each update."""
    w = np.array(w, dtype=float)
    trace = []
    for j in order:
        without = w.copy()
        without[j] = 0
        u = weights(scores(without, H, owner, K=K), y, "exp", s)
        d = delta(H[j], y, owner[j], K=K)
        w[j] = np.float32(step(u[d > 0].sum(), u[d < 0].sum(), nu, cap=cap))
        trace.append(objective(w, H, y, owner=owner, K=K, s=s, nu=nu))
    return w, trace


def multiboost(X, y, K, rounds, C, cap, shared):
    """Stage-wise: Algorithm 1 with one pass of Algorithm 2 a round. Yields (feature, threshold, polarity, class, w).

    ``shared``: one stump for all classes, as in MultiBoost; otherwise one for every class.
    """
    X = np.asarray(X, dtype=np.float32)
    s = np.ones(len(y))
    nu = len(y) * (K - 1) / C
    H = np.zeros((0, len(y)))
    owner = np.zeros(0, dtype=int)
    w = np.zeros(0)
    model = []
    for _ in range(rounds):
        a = gradient_of(weights(scores(w, H, owner, K=K), y, "exp", s), y)
        picks = [best_stump(X, a)] if shared else [best_stump(X, a[:, [c]]) for c in range(K)]
        if max(edge for edge, *_ in picks) <= nu:
            break
        new = []
        for c, (_, f, threshold, nan_left, _, signed) in enumerate(picks):
            if f is None:
                continue
            h = outputs(X[:, f], threshold, nan_left) * np.sign(signed)
            for owned in range(K) if shared else [c]:
                new.append((h, owned, (f, threshold, np.sign(signed))))
        n = len(w)
        H = np.concatenate([H, [h for h, _, _ in new]])
        owner = np.concatenate([owner, [c for _, c, _ in new]]).astype(int)
        w, _ = sweep(
            np.concatenate([w, np.zeros(len(new))]),
            H,
            y,
            owner=owner,
            K=K,
            s=s,
            nu=nu,
            cap=cap,
            order=range(n, len(owner)),
        )
        model.append(
            [(*stump, c, weight) for (_, c, stump), weight in zip(new, w[n:], strict=True)]
        )
    return model
