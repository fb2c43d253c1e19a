"""Figure 1 of MCBoost's paper: coefficient paths with a fixed step against the exact l1-constrained solution (17)."""

import time
from pathlib import Path

import numpy as np
from shared import datasets
from shared.internals import stumps_of
from shared.tables import picture

from reproduce.experiment import Experiment
from reproduce.mcboost import LOSSES, classifier

STEP = 0.01
ROUNDS = 1000
DIGITS = (3, 6, 9)
STUMPS = 8


def figure_data(seed=0):
    """Evaluate eight stumps on 20 samples each of the USPS digits 3, 6 and 9: H (60 x 8, -1 and +1) and y in 0..2.

    The stumps are the first eight different (feature, threshold) pairs that MCBoost itself picks on these samples.
    """
    X, y, _, _ = datasets.load("usps")
    generator = np.random.default_rng(seed)
    # Labels of the file are digit + 1.
    rows = np.concatenate(
        [generator.choice(np.flatnonzero(y == digit + 1), 20, replace=False) for digit in DIGITS]
    )
    X = X[rows]
    y = np.repeat(np.arange(3), 20)
    history = classifier("log", 200, max_bins=256).fit(X, y).history_
    pairs = list(
        dict.fromkeys(zip(history["feature"].tolist(), history["threshold"].tolist(), strict=True))
    )
    H = np.stack([np.where(X[:, f] <= np.float32(t), -1.0, 1.0) for f, t in pairs], axis=1)
    # Two pairs may cut the samples alike; such copies have no path of their own.
    keep = []
    for j in range(H.shape[1]):
        if not any(abs(H[:, j] @ H[:, k]) == len(H) for k in keep):
            keep.append(j)
    if len(keep) < STUMPS:
        raise SystemExit(
            f"figure1: only {len(keep)} different stumps on this sample; try another seed"
        )
    return H[:, keep[:STUMPS]], y


def pair_loss(loss, W, H, y):
    """Loss of (17) and its gradient in W (stumps x classes)."""
    F = H @ W
    rho = F[np.arange(len(y)), y][:, None] - F
    if loss == "exp":
        u = np.exp(-rho)
        value = u.sum()
    else:
        value = np.logaddexp(0.0, -rho).sum()
        u = 1.0 / (1.0 + np.exp(rho))
    A = -u
    A[np.arange(len(y)), y] += u.sum(axis=1)
    return value, -(H.T @ A)


def exact_paths(loss, H, y, gammas):
    """Minimisers of the loss subject to W >= 0, |W|_1 <= gamma, over all stumps and their negations.

    The stumps come with both signs, as the weak learner's search does, so a signed W stands for both coefficients.

    Returns
    -------
    W : ndarray, shape (gammas, stumps, classes)
    residual : float
        Largest relative violation of the optimality condition over the grid.
    """
    from scipy.optimize import minimize

    K = int(y.max()) + 1
    n = H.shape[1] * K
    both = np.ones(2 * n)
    path = []
    residual = 0.0
    w = np.zeros(2 * n)

    def objective(w):
        value, gradient = pair_loss(loss, (w[:n] - w[n:]).reshape(-1, K), H, y=y)
        return np.log(value), np.concatenate([gradient.ravel(), -gradient.ravel()]) / value

    for gamma in gammas:
        optimum = minimize(
            objective,
            w,
            jac=True,
            method="SLSQP",
            bounds=[(0.0, None)] * (2 * n),
            constraints={
                "type": "ineq",
                "fun": lambda w, gamma=gamma: gamma - w.sum(),
                "jac": lambda w: -both,
            },
            options={"maxiter": 1000, "ftol": 1e-14},
        )
        w = np.clip(optimum.x, 0.0, None)
        _, gradient = objective(w)
        # At the optimum every coefficient in use has the steepest slope: gap = <gradient, w> - gamma * min(gradient).
        gap = gradient @ w - gamma * min(gradient.min(), 0.0)
        residual = max(residual, float(gap) / max(gamma * abs(gradient.min()), 1e-12))
        path.append((w[:n] - w[n:]).reshape(-1, K))
    return np.array(path), residual


def stagewise_paths(loss, H, y, rounds=ROUNDS, step=STEP):
    """Coefficients (rounds x stumps x classes) of MCBoost with a fixed step on the selected class alone.

    The estimator sees the stumps' outputs as features of two values, so it can pick these eight stumps and no other.
    """
    model = classifier(loss, rounds, learning_rate=1.0, nu=0.0, fixed_step=step).fit(
        H.astype(np.float32), y
    )
    stumps = stumps_of(model)
    W = np.zeros((stumps.feature.size, H.shape[1], int(y.max()) + 1))
    W[np.arange(stumps.feature.size), stumps.feature] = stumps.right
    return W.cumsum(axis=0)


class Paths:
    """Both kinds of paths for one loss, and where they are compared."""

    def __init__(self, loss, H, y, gammas):
        from threadpoolctl import threadpool_limits

        self.loss = loss
        self.gammas = gammas
        self.problem = (H, y)
        start = time.perf_counter()
        # The matrices are tiny: more BLAS threads than one only wait for each other.
        with threadpool_limits(1):
            self.exact, self.residual = exact_paths(loss, H, y, gammas=gammas)
        between = time.perf_counter()
        self.stage = stagewise_paths(loss, H, y)
        self.seconds = between - start, time.perf_counter() - between
        # The row of round t has norm (t + 1) * STEP unless a coefficient went back.
        self.norms = np.abs(self.stage).sum(axis=(1, 2))
        index = np.searchsorted(self.norms, gammas - STEP / 2)
        self.used = np.minimum(index, len(self.norms) - 1)

    def lines(self):
        """Rows of figure1.csv."""
        for exact, used, gamma in zip(self.exact, self.used, self.gammas, strict=True):
            stage = self.stage[used]
            difference = np.abs(exact - stage)
            values = (pair_loss(self.loss, W, *self.problem)[0] for W in (exact, stage))
            yield (
                f"{self.loss},{gamma:.2f},{difference.max():.5f},{difference.mean():.5f},{self.norms[used]:.3f},"
                + ",".join(f"{value:.6f}" for value in values)
            )

    def describe(self):
        """The largest difference, in words."""
        reached = self.gammas <= self.norms[-1] + STEP
        worst = np.abs(self.exact - self.stage[self.used])[reached].max()
        last = self.gammas[reached][-1]
        return (
            f"{self.loss}: largest difference of a coefficient {worst:.3f} over gamma 0.1..{last:g}; "
            f"optimality gap of the exact path {self.residual:.1e}; "
            f"{self.seconds[0]:.1f} s exact, {self.seconds[1]:.2f} s stage-wise"
        )

    def plot(self, axes):
        """Exact paths in the first row of axes, those with a fixed step in the second."""
        for k, digit in enumerate(DIGITS):
            axes[0, k].plot(self.gammas, self.exact[:, :, k])
            axes[0, k].set_title(f"exact, {self.loss}, digit {digit}", fontsize=9)
            axes[1, k].plot(self.norms, self.stage[:, :, k])
            axes[1, k].set_title(f"fixed step, {self.loss}, digit {digit}", fontsize=9)
            axes[1, k].sharey(axes[0, k])


class Figure1(Experiment):
    """It has no units: both losses are done anew."""

    def run(self, options):
        H, y = figure_data()
        gammas = np.arange(0.1, ROUNDS * STEP + 1e-9, 0.1)
        lines = ["loss,gamma,largest_difference,mean_difference,norm,loss_exact,loss_stagewise"]
        with picture(
            Path(options.results, "figure1.png"), 4, 3, figsize=(9, 10), sharex=True
        ) as axes:
            for block, loss in enumerate(LOSSES):
                paths = Paths(loss, H, y, gammas=gammas)
                print(paths.describe())
                lines += paths.lines()
                paths.plot(axes[2 * block : 2 * block + 2])
            for axis in axes[-1]:
                axis.set_xlabel("l1 norm of the coefficients")
        Path(options.results, "figure1.csv").write_text("\n".join(lines) + "\n")

    def markdown(self, folder):
        return None


EXPERIMENTS = (
    Figure1("figure1", "Figure 1: coefficient paths", (), plan=None, text=None, weigh=None),
)
