"""Slow twin of epsilon-boosting: every stump and every pair of classes tried, weights in full."""

import numpy as np

from .classic import AllStumps, fewest_errors, rounded


def epsilon_boost(X, y, K, rounds, epsilon):
    """(List of splits, F)."""
    stumps = AllStumps(X)
    F, splits = np.zeros((len(y), K)), []
    for _ in range(rounds):
        w = np.exp(-F[np.arange(len(y)), y])
        j, left, right = fewest_errors(stumps, y, K, w)
        named = np.where(stumps.h[j] > 0, right, left)
        if w[named != y].sum() >= (1 - 1 / K) * w.sum():
            break
        F[np.arange(len(y)), named] += rounded(epsilon)
        splits.append(stumps.splits[j])
    return splits, F
