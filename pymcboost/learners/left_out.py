"""Scores of training rows without their own contribution to the trees, which show how well calibrated a model is.

Two estimates are kept while a model is trained. *Leave-one-out*: in every leaf, a row's vector is computed without the
row itself, in closed form. The structure of half of the trees was found with the row, so these scores are too sharp.
*Out-of-bag*: the same, only from trees whose structure was found on other rows, divided by the share of these trees.
The neighbours of a row correct in later trees what it did in earlier ones, so these scores are too soft.
"""

import numpy as np

from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost.data.scrambling import scrambled
from pymcboost.learners.vector_trees import LARGEST_STEP

# Number of rows whose scores are tracked: enough to estimate a single number.
MOST_ROWS = 2_000


class LeftOutScores:
    """Leave-one-out and out-of-bag scores of all training rows, or of `MOST_ROWS` drawn by row number.

    Parameters
    ----------
    loss : Rows
    share : float
        Share of the rows that each tree is grown on, below 1.
    l2 : float
        Added to the curvature of every class in a leaf.
    n_threads : int
    init_score : ndarray (m, K), optional
        Initial scores of all rows.

    Attributes
    ----------
    rows : ndarray of int32 (r,)
    n_trees : int
    """

    def __init__(self, loss, share, l2, n_threads, init_score=None):
        data = loss.data
        self._data = data
        self._share = share
        self._l2 = l2
        self._n_threads = n_threads
        rows = np.arange(data.n_rows)
        if data.total_rows > MOST_ROWS:
            upper_bound = np.uint64(int(2.0**64 * (MOST_ROWS / data.total_rows)))
            rows = np.flatnonzero(scrambled(data.row_number, np.uint64(1)) < upper_bound)
        self.rows = rows.astype(np.int32)
        self._row_number = data.row_number[rows].astype(np.int64)
        self._leave_one_out = data.zeros((len(rows), loss.width), np.float32)
        if init_score is not None:
            self._leave_one_out[:, : data.n_classes] = init_score[rows]
        self._out_of_bag = self._leave_one_out.copy()
        self.n_trees = 0

    def add(self, loss, rows, leaf_start, leaf, key, value, sums=None):
        """Add a tree, before its leaves are added to the scores.

        Parameters
        ----------
        loss : Rows
            At the gradients that the tree was grown on.
        rows, leaf_start, leaf
            Rows of the leaves and leaf of every row, see `VectorTrees`.
        key : int
            Key of the tree's draw of rows.
        value : ndarray (n_leaves, width)
            Vectors of the leaves. The learning rate is computed from them, because a callback may have changed it.
        sums : ndarray of float32 (n_leaves, 2, width), optional
            Sums of the leaves, see `Rows.leaf_sums`, if they are known.
        """
        data = self._data
        if sums is None:
            class_sums = loss.leaf_sums(rows, leaf_start)
            sums = np.zeros((len(class_sums), 2, loss.width), dtype=np.float32)
            sums[:, :, : data.n_classes] = class_sums
        count = data.comm.sum(leaf_start[1:] - leaf_start[:-1])
        step_options = data.n_classes, 0, self._l2, LARGEST_STEP, self._rate(value, sums)
        _vector_loss.add_left_out(
            loss.gradient,
            loss.weight,
            sums,
            count,
            leaf,
            self.rows,
            self._row_number,
            step_options,
            key,
            self._share,
            self._leave_one_out,
            self._out_of_bag,
            self._n_threads,
        )
        self.n_trees += 1

    def _rate(self, value, sums):
        """The learning rate of a tree, computed from its largest leaf value."""
        K = self._data.n_classes
        leaf, k = np.unravel_index(np.abs(value[:, :K]).argmax(), (len(value), K))
        g, h = sums[leaf, :, :K].astype(np.float64)
        step = np.clip(
            (K - 1) / K * g / np.maximum(h + self._l2, 1e-30), -LARGEST_STEP, LARGEST_STEP
        )
        return float(value[leaf, k] / (step[k] - step.mean()))

    @property
    def alone(self):
        """Leave-one-out scores: (r, K)."""
        return self._leave_one_out[:, : self._data.n_classes]

    @property
    def outside(self):
        """Out-of-bag scores: (r, K)."""
        return self._out_of_bag[:, : self._data.n_classes]
