"""Prototypes to try, and a slow scorer of them."""

import numpy as np
from pymcboost.model.prototypes import Prototypes


def random_prototypes(n_features, n_classes):
    """A model of random numbers."""
    rng = np.random.default_rng(n_features)
    return Prototypes(
        rng.normal(size=(n_classes, n_features)).astype("f"), rng.normal(size=n_classes).astype("f")
    )


def prototype_scores(ensemble, X):
    """Scores (m, K)."""
    F = np.tile(ensemble.bias.astype(np.float64), (len(X), 1))
    for i, k in np.ndindex(*F.shape):
        distance = 0.0
        for x, p in zip(
            X[i].astype(np.float64), ensemble.prototype[k].astype(np.float64), strict=True
        ):
            distance += abs(x - p) if np.isfinite(x) else 0.0
        F[i, k] -= distance
    return F
