"""Sampling of rows by their weights, and weak learners fitted to samples."""

import numpy as np

from pymcboost.data.scrambling import scrambled
from pymcboost.learners.edge_trees import constant_tree


class Resampled:
    """Fits weak learners to rows drawn by their weights, see `draw`; edges are computed on all rows.

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
        """Outputs of the learner on all rows."""
        return self._learner.outputs

    def fit(self, gradient, generator):
        """See the learner's ``fit``."""
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
        """Yield, for each column, how often each row is drawn."""
        n = np.full(len(columns), self._share * len(columns[0]))
        if self._learner.shared:
            mass = np.array([np.abs(column).sum(dtype=np.float64) for column in columns])
            n *= mass / mass.mean()
        for j, column in enumerate(columns):
            yield draw(np.abs(column), max(1, round(n[j])), generator)


def draw(weight, n, generator):
    """Draw n rows by their weights with replacement; return how often each row is drawn: (m,).

    Systematic sampling: n equally spaced points, with a random start, on the weights laid end to end. A row is drawn
    n w / sum w times, rounded up or down; independent draws would have the same mean, but more variance.
    """
    ends = np.cumsum(weight, dtype=np.float64)
    at = np.searchsorted(ends, (generator.random() + np.arange(n)) * (ends[-1] / n), side="right")
    last = np.searchsorted(ends, ends[-1])  # the last row with positive weight
    return np.bincount(np.minimum(at, last), minlength=len(weight))


def drawn_rows(data, n, key):
    """Rows of this worker among n rows drawn by row number, int32, ascending.

    The row numbers are scrambled with the key, and the rows with the n smallest results are drawn. All results
    differ.
    """
    z = scrambled(data.row_number, key)
    mine, first, before = (
        z,
        np.uint64(0),
        0,
    )  # numbers with the same leading digits as the n-th smallest, and how many numbers come before these
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
    """Draw n rows one by one by their weights, without replacement: (m,) 0 or 1.

    Fewer if fewer have positive weight. It takes the n smallest of exponential numbers with the weights as rates
    (Efraimidis and Spirakis).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.where(weight > 0, generator.exponential(size=len(weight)) / weight, np.inf)
    drawn = np.zeros(len(weight))
    drawn[np.argpartition(key, min(n, len(key)) - 1)[:n]] = 1.0
    return drawn * (weight > 0)
