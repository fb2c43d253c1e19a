"""Figures of predictions of several labels."""

import numpy as np
import pytest
from bench import labels


def test_figures_of_labels():
    Y = np.array([[1, 0, 1], [0, 0, 1]])
    P = np.array([[0.5, 0.25, 0.9], [0.5, 0.75, 0.1]])
    actual = labels.figures(Y, P, (1, 3))
    expected = -np.log([0.5, 0.75, 0.9, 0.5, 0.25, 0.1]).mean()
    assert actual == {
        "cross_entropy": pytest.approx(expected),
        "precision_at_1": 0.5,
        "precision_at_3": 0.5,
    }
