"""Measures of probabilities, and the search that tunes everyone."""

import numpy as np
import pytest
from reproduce import quality
from shared import classifiers


def test_measures():
    P = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.0, 1.0]])
    found = quality.measures_of(P, np.array([0, 1, 1, 0]))
    own = np.array([0.9, 0.4, 0.8, np.finfo(float).eps])
    assert found["log_loss"] == pytest.approx(-np.log(own).mean(), abs=1e-5)
    assert found["error"] == 50
    assert found["balanced_error"] == 50
    # Every row is a bin: confidence less whether it is right.
    assert found["calibration_error"] == pytest.approx(100 * (0.1 + 0.6 + 0.2 + 1.0) / 4)


def test_rows_of_classes_that_were_not_trained_on_have_probability_0():
    found = quality.measures_of(np.array([[1.0, 0.0]]), np.array([-1]))
    assert found["log_loss"] == pytest.approx(36.0437, abs=1e-3)
    assert found["error"] == 100


@pytest.mark.parametrize("method", quality.TUNED)
def test_configurations_are_drawn_by_number(method):
    drawn = [classifiers.drawn(method, j) for j in range(3)]
    assert drawn[0] == classifiers.drawn(method, 0)
    assert drawn[0] != drawn[1]
    assert drawn[0].keys() == classifiers.SPACES[method].keys()


def test_our_configurations_can_be_fitted():
    X = np.random.default_rng(0).normal(size=(60, 4))
    for j in range(3):
        model = classifiers.make("vector", **{**classifiers.drawn("vector", j), "n_estimators": 2})
        model.fit(X, np.arange(60) % 3)
        assert classifiers.size_of(model) > 100
