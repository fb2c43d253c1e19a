"""Slow twin of the scorer."""

import numpy as np

from pymcboost.ensemble import EnsembleBuilder


def raw_scores(stumps, X):
    """Scores (m, K): the bias, then one stump after the other, in float64."""
    X = np.asarray(X, dtype=np.float32)
    F = np.tile(stumps.bias.astype(np.float64), (len(X), 1))
    left = -stumps.right if stumps.left is None else stumps.left
    for j in range(len(stumps)):
        x = X[:, stumps.feature[j]]
        goes_left = (x <= stumps.threshold[j]) | (np.isnan(x) & stumps.nan_left[j])
        F += np.where(goes_left[:, None], left[j], stumps.right[j]).astype(np.float64)
    return F


def random_stumps(n_stumps, n_features, n_classes, two_sided=False, seed=0, few_thresholds=False):
    """An ensemble of random stumps."""
    rng = np.random.default_rng(seed)
    builder = EnsembleBuilder(n_classes, n_features)
    builder.bias[:] = rng.normal(size=n_classes)
    for _ in range(n_stumps):
        threshold = rng.integers(-2, 3) / 2 if few_thresholds else rng.normal()
        left = rng.normal(size=n_classes) if two_sided else None
        builder.add_stump(rng.integers(n_features), threshold, rng.random() < 0.5, rng.normal(size=n_classes), left)
    return builder.freeze()


def random_rows(n_rows, n_features, seed=1):
    """Rows of float32 with missing and infinite values, and ties with the thresholds of ``few_thresholds``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = 0.5
    for value in (np.nan, np.inf, -np.inf, -0.0):
        X[rng.random(X.shape) < 0.05] = value
    return X
