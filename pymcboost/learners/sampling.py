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
        Share of the rows that is drawn for a column. If one learner serves all columns, this is an average.
    constants : bool, default=False
        A column whose drawn rows all have the same sign, so that no tree can be grown on them, gets that sign as a tree
        without splits. This brings back the rows of the other sign, which had too little weight to be drawn.
    """

    def __init__(self, learner, share, constants=False):
        self._learner = learner
        self._share = share
        self._drawn = None
        self._constants = constants

    @property
    def outputs(self):
        """Outputs of the learner on all rows."""
        return self._learner.outputs

    def fit(self, gradient, generator):
        """Fit the learner to drawn rows, and compute the edges on all rows; see the learner's ``fit``."""
        learner = self._learner
        lanes = gradient.shape[2]
        P = learner.n_columns
        if self._drawn is None:
            self._drawn = learner.data.zeros(gradient.shape, gradient.dtype)
        columns = [gradient[j // lanes, :, j % lanes] for j in range(P)]
        for j, counts in enumerate(self._draws(columns, generator)):
            self._drawn[j // lanes, :, j % lanes] = counts * np.sign(columns[j])
        weak_learners = learner.fit(self._drawn)
        if learner.shared:
            return weak_learners
        if self._constants and len(weak_learners) < P:
            columns_with_learner = {weak_learner.cls for weak_learner in weak_learners}
            signs = self._drawn.sum(axis=1, dtype=np.float64).ravel() > 0
            constant_trees = [
                constant_tree(j, 1 if signs[j] else -1, 0.0, h=learner.outputs[j])
                for j in range(P)
                if j not in columns_with_learner
            ]
            weak_learners = sorted(
                [*weak_learners, *constant_trees], key=lambda weak_learner: weak_learner.cls
            )
        return [
            weak_learner._replace(edge=_edge(columns[weak_learner.cls], weak_learner.h))
            for weak_learner in weak_learners
        ]

    def _draws(self, columns, generator):
        """Yield, for each column, how often each row is drawn."""
        n = np.full(len(columns), self._share * len(columns[0]))
        if self._learner.shared:
            mass = np.array([np.abs(column).sum(dtype=np.float64) for column in columns])
            n *= mass / mass.mean()
        for j, column in enumerate(columns):
            yield draw(np.abs(column), max(1, round(n[j])), generator)


def _edge(column, h):
    """Edge of outputs h for a column of the gradient."""
    return float(np.sum(column * h, dtype=np.float64))


def draw(weight, n, generator):
    """Draw n rows by their weights with replacement; return how often each row is drawn: (m,).

    Systematic sampling: n equally spaced points, with a random start, on the weights laid end to end. A row is drawn
    n w / sum w times, rounded up or down; independent draws would have the same mean, but more variance.
    """
    ends = np.cumsum(weight, dtype=np.float64)
    points = (generator.random() + np.arange(n)) * (ends[-1] / n)
    drawn_row = np.searchsorted(ends, points, side="right")
    last_row_with_weight = np.searchsorted(ends, ends[-1])
    return np.bincount(np.minimum(drawn_row, last_row_with_weight), minlength=len(weight))


def drawn_rows(data, n, key):
    """Rows of this worker among n rows drawn by row number, int32, ascending.

    The row numbers are scrambled with the key, and the rows with the n smallest results are drawn. All results
    differ.
    """
    scrambled_numbers = scrambled(data.row_number, key)
    # A radix search for the n-th smallest number of all workers, byte by byte from the highest: `candidates` are this
    # worker's numbers that share the bytes found so far, `n_below` counts the numbers of all workers below them.
    candidates = scrambled_numbers
    nth_smallest = np.uint64(0)
    n_below = 0
    for shift in range(56, -8, -8):
        digits = (candidates >> np.uint64(shift)) & np.uint64(255)
        counts = data.comm.sum(np.bincount(digits.astype(np.int64), minlength=256))
        ends = n_below + np.cumsum(counts)
        digit = int(np.searchsorted(ends, n))
        n_below = int(ends[digit] - counts[digit])
        nth_smallest |= np.uint64(digit) << np.uint64(shift)
        candidates = candidates[digits == digit]
    return np.flatnonzero(scrambled_numbers <= nth_smallest).astype(np.int32)


def draw_distinct(weight, n, generator):
    """Draw n rows one by one by their weights, without replacement: (m,) 0 or 1.

    If fewer rows have positive weight, all of these are drawn. Each row gets an exponential random number with its
    weight as the rate, and the n smallest numbers win (Efraimidis and Spirakis).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.where(weight > 0, generator.exponential(size=len(weight)) / weight, np.inf)
    drawn = np.zeros(len(weight))
    drawn[np.argpartition(key, min(n, len(key)) - 1)[:n]] = 1.0
    return drawn * (weight > 0)
