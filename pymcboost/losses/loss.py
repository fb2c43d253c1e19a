"""What a loss of the scores of all classes must say."""

import numpy as np

from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.losses.rows import CHUNK, Rows


class Loss:
    """Base of losses of the scores F (m, K) of all classes.

    A loss of your own is a subclass with `value` and `gradient`, and `curvature` where it has one: arrays in, arrays
    out. Trees with vector leaves then grow on it; compiled losses are faster.

    Attributes
    ----------
    link : {"softmax", "sigmoid", "none"}
        How scores become probabilities: softmax(F), a sigmoid of each score, or in no way that a file knows.
    shift_invariant : bool
        The loss stays the same when all scores of a row are shifted: its gradients have the sum 0.
    begins : bool
        Scores begin with numbers of the loss, see `first`.
    least_l2 : float
        At least this is added to the curvature of every class in a leaf.
    """

    link = "softmax"
    shift_invariant = True
    begins = False
    least_l2 = 0.0
    gives_probabilities = False
    steps_of_sums = False  # whether steps follow from the sums that a kernel takes for softmax, see `Softmax.steps_of`
    spare_lane = False  # whether scores have the lane of the weights, too

    def bound(self, n_classes):
        """No entry of a gradient is larger; None: what there is, is looked at."""
        return None

    def first(self, data):
        """Where scores begin (K,), with ``begins``."""
        raise NotImplementedError

    def value(self, F, y):
        """Loss of every row (m,), without its weight."""
        raise NotImplementedError

    def gradient(self, F, y):
        """Negative gradients of the rows (m, K)."""
        raise NotImplementedError

    def curvature(self, F, y):
        """Second derivatives by each score alone (m, K); None: 1 for all, so that leaves have mean gradients."""
        return None

    def put(self, F, y, gradient, curvature):
        """Write what `gradient` and `curvature` say of rows, whose scores (m, K) may be overwritten."""
        gradient[:], h = self.gradient(F, y), self.curvature(F, y)
        curvature[:] = 1 if h is None else h

    def rows(self, data, n_threads=1):
        """The loss at work on training data, row after row."""
        return Rows(self, data, n_threads)

    # Whether second derivatives of all rows are kept beside the gradients.
    keeps_curvature = True

    def follow(self, rows, value, leaf):
        """``rows.F`` += value[leaf], where there is any, and ``rows.gradient``.

        Returns the sums of w |g| by lane in units, or None where they are to be computed when they are needed.
        """
        if value is not None:
            _vector_loss.add_leaves(rows.F, value, leaf, rows.lanes, rows.n_threads)
        K = rows.data.n_classes
        if rows.curvature is None:
            rows.curvature = aligned_zeros(rows.gradient.shape, np.float32)
        for part in rows.parts(CHUNK):
            self.put(
                rows.F[part, :K].copy(),
                rows.data.y[part],
                rows.gradient[part, :K],
                rows.curvature[part, :K],
            )

    def leaf_steps(self, rows, leaf_rows, leaf_start, full, l2=0.0):
        """Steps (n_leaves, K) along each score alone, times (K - 1) / K where K scores share the move."""
        K = rows.data.n_classes
        sums = rows.leaf_sums(leaf_rows, leaf_start)
        curvature = rows.curvature_sums(leaf_rows, leaf_start)
        return (
            ((K - 1) / K if self.shift_invariant else 1.0)
            * sums[:, 0]
            / np.maximum(curvature + l2, 1e-30)
        )

    def leaf_curvature(self, rows, leaf_rows, leaf_start, l2=0.0):
        """Curvatures (n_leaves, K) of `leaf_steps`."""
        return rows.curvature_sums(leaf_rows, leaf_start) + l2
