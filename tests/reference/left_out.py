"""Twin of leave-one-out and out-of-bag scores: every leaf without each of its rows, one after the other, in NumPy."""

import numpy as np

from reference import vtrees

LARGEST_STEP = 4.0


def vector(gradient, weight, l2):
    """Leaf vector (K,) of rows with these negative gradients (n, K) of softmax."""
    K = gradient.shape[1]
    size = np.abs(gradient)
    G = weight @ gradient
    H = weight @ (size * (1 - size))
    step = np.clip((K - 1) / K * G / np.maximum(H + l2, 1e-30), -LARGEST_STEP, LARGEST_STEP)
    return step - step.mean()


def of_tree(gradient, weight, leaf, number, key, share, l2, rate):
    """What the leaves of a tree add to leave-one-out and to out-of-bag scores, (m, K) each."""
    alone, outside = np.zeros((2, *gradient.shape))
    drawn = np.zeros(len(leaf), dtype=bool)
    drawn[vtrees.drawn_rows(key, share, number)] = True
    for i in range(len(leaf)):
        others = np.flatnonzero((leaf == leaf[i]) & (np.arange(len(leaf)) != i))
        if len(others):
            alone[i] = rate * vector(gradient[others], weight[others], l2)
            outside[i] = 0 if drawn[i] else alone[i] / (1 - share)
    return alone, outside
