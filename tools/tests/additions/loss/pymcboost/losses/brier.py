"""Brier score: the squares of p - e_y, p = softmax(F)."""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.losses.loss import Loss


def difference(F, y):
    """p, and p - e_y."""
    p = elementary.exp(F - F.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p, p - np.eye(F.shape[1])[y]


class Brier(Loss):
    """Sum over the classes r of (p_r - [r = y])^2. It is bounded, so that rows with wrong labels count little."""

    def value(self, F, y):
        """See `Loss.value`."""
        return np.square(difference(F, y)[1]).sum(axis=1)

    def gradient(self, F, y):
        """See `Loss.gradient`."""
        p, a = difference(F, y)
        return -2 * p * (a - (p * a).sum(axis=1, keepdims=True))
