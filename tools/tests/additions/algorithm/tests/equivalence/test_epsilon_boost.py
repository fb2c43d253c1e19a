"""Epsilon-boosting against its slow twin."""

import numpy as np
import pytest
from reference.epsilon_boost import epsilon_boost

from pymcboost import EpsilonBoostClassifier


@pytest.mark.parametrize("K", [3, 5])
def test_epsilon_boost(K):
    rng = np.random.default_rng(K)
    y = np.concatenate([np.arange(K), rng.integers(0, K, 120 - K)])
    X = (rng.normal(size=(120, 4)) + 2 * rng.normal(size=(K, 4))[y]).astype(np.float32)
    splits, F = epsilon_boost(X, y, K, 25, 0.25)
    model = EpsilonBoostClassifier(n_estimators=25, learning_rate=0.25).fit(X, y)
    e = model.model_.ensemble
    assert [(f, float(t)) for f, t, _ in splits] == list(zip(e.feature.tolist(), e.threshold.tolist(), strict=True))
    np.testing.assert_allclose(model.model_.raw_scores(X), F, atol=1e-4)
