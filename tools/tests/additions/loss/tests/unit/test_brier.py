"""The Brier score: its gradient, and trees that lower it."""

import numpy as np
import pytest

from pymcboost import VectorTreeBoostClassifier
from pymcboost.losses import LOSSES


@pytest.mark.parametrize("K", [2, 5, 20])
def test_gradient_is_the_derivative_of_the_value(K):
    loss = LOSSES["brier"]
    rng = np.random.default_rng(K)
    e = 1e-5
    F = rng.normal(size=(30, K))
    y = rng.integers(0, K, 30)
    for r in range(K):
        step = e * np.eye(K)[r]
        slope = (loss.value(F - step, y) - loss.value(F + step, y)) / (2 * e)
        np.testing.assert_allclose(loss.gradient(F, y)[:, r], slope, rtol=1e-5, atol=1e-8)


def test_trees_lower_it():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    X = rng.normal(size=(400, 5)) + rng.normal(size=(4, 5))[y]
    params = {"loss": "brier", "learning_rate": 0.1, "calibrate": None, "random_state": 0}
    values = []
    for n in (1, 10, 40):
        model = VectorTreeBoostClassifier(n_estimators=n, **params).fit(X, y)
        values.append(LOSSES["brier"].value(model.decision_function(X), y).sum())
    assert values[0] > values[1] > values[2]
    assert values[2] < 0.7 * values[0]
    assert np.mean(model.predict(X) == y) > 0.8
