"""Rows drawn by their weights, and weak learners that are fitted to them."""

import numpy as np

from pymcboost.data.scrambling import scrambled
from pymcboost.learners.edge_trees import constant_tree


class Resampled:
    """Fits weak learners to rows drawn by their weights, see `draw`; edges are those on all rows.

    Parameters
    ----------
    learner : EdgeStumps, EdgeTrees or TotalStump
    share : float
        How many rows are drawn for a column, of all: on average, where one learner serves all columns.
    constants : bool, default=False
        A column whose drawn rows all have the same sign, so that no tree can be grown on them, gets that sign as a tree
        without splits. This brings back the rows of the other sign, which had too little weight to be drawn.
    """

    def __init__(self, learner, share, constants=False):
        self._learner, self._share, self._drawn, self._constants = learner, share, None, constants

    @property
    def outputs(self):
        """Those of the learner, on all rows."""
        return self._learner.outputs

    def fit(self, gradient, generator):
        """As the learner's ``fit``."""
        learner, lanes, P = self._learner, gradient.shape[2], self._learner.n_columns
        if self._drawn is None:
            self._drawn = learner.data.zeros(gradient.shape, gradient.dtype)
        columns = [gradient[j // lanes, :, j % lanes] for j in range(P)]
        for j, counts in enumerate(self._draws(columns, generator)):
            self._drawn[j // lanes, :, j % lanes] = counts * np.sign(columns[j])
        found = learner.fit(self._drawn)
        if learner.shared:
            return found
        if self._constants and len(found) < P:
            there = {one.cls for one in found}
            signs = self._drawn.sum(axis=1, dtype=np.float64).ravel() > 0
            missing = [(j, 1 if signs[j] else -1) for j in range(P) if j not in there]
            made = [constant_tree(j, sign, 0.0, learner.outputs[j]) for j, sign in missing]
            found = sorted([*found, *made], key=lambda one: one.cls)
        return [
            one._replace(edge=float(np.sum(columns[one.cls] * one.h, dtype=np.float64)))
            for one in found
        ]

    def _draws(self, columns, generator):
        """How often each column draws each row."""
        n = np.full(len(columns), self._share * len(columns[0]))
        if self._learner.shared:
            mass = np.array([np.abs(column).sum(dtype=np.float64) for column in columns])
            n *= mass / mass.mean()
        for j, column in enumerate(columns):
            yield draw(np.abs(column), max(1, round(n[j])), generator)


def draw(weight, n, generator):
    """How often each row comes among n that are drawn by their weights: (m,).

    Systematic sampling: n points at equal distances, from a random one on, on the weights laid end to end. A row comes
    n w / sum w times, rounded up or down; independent draws would have the same mean and more variance.
    """
    ends = np.cumsum(weight, dtype=np.float64)
    at = np.searchsorted(ends, (generator.random() + np.arange(n)) * (ends[-1] / n), side="right")
    last = np.searchsorted(ends, ends[-1])  # of the rows with any weight
    return np.bincount(np.minimum(at, last), minlength=len(weight))


def drawn_rows(data, n, key):
    """Rows of this worker among n that are drawn by their numbers, int32, ascending.

    They are those with the n smallest of their numbers scrambled by the key, which all differ.
    """
    z = scrambled(data.row_number, key)
    mine, first, before = (
        z,
        np.uint64(0),
        0,
    )  # those that begin as the n-th smallest does; numbers before these
    for shift in range(56, -8, -8):
        counts = data.comm.sum(
            np.bincount((mine >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
        )
        ends = before + np.cumsum(counts)
        digit = int(np.searchsorted(ends, n))
        before = int(ends[digit] - counts[digit])
        first |= np.uint64(digit) << np.uint64(shift)
        mine = mine[(mine >> np.uint64(shift)) & np.uint64(255) == digit]
    return np.flatnonzero(z <= first).astype(np.int32)


def draw_distinct(weight, n, generator):
    """Which n rows are drawn one after the other by their weights, without replacement: (m,) 0 or 1.

    Fewer where fewer have a weight above 0. The n smallest of exponential numbers with the weights as rates (Efraimidis
    and Spirakis).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.where(weight > 0, generator.exponential(size=len(weight)) / weight, np.inf)
    drawn = np.zeros(len(weight))
    drawn[np.argpartition(key, min(n, len(key)) - 1)[:n]] = 1.0
    return drawn * (weight > 0)
