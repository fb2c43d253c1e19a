"""Interface of losses of the scores of all classes."""

import numpy as np

from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.losses.rows import CHUNK, Rows


class Loss:
    """Base class of losses of the scores F (m, K) of all classes.

    To add a loss, write a subclass with `value` and `gradient`, and `curvature` if it has one; all take and return
    arrays. Trees with vector leaves can then be grown on it; compiled losses are faster.

    Attributes
    ----------
    link : {"softmax", "sigmoid", "none"}
        How scores become probabilities: softmax(F), a sigmoid of each score, or in no way that a file knows.
    shift_invariant : bool
        Whether the loss does not change if all scores of a row are shifted. The gradients of a row then have the sum 0.
    begins : bool
        Whether the loss defines initial scores, see `first`.
    least_l2 : float
        At least this is added to the curvature of every class in a leaf.
    """

    link = "softmax"
    shift_invariant = True
    begins = False
    least_l2 = 0.0
    gives_probabilities = False
    # Whether leaf steps follow from the sums that a kernel computes for softmax, see `Softmax.steps_of`.
    steps_of_sums = False
    # Whether scores also have a lane for the weights.
    spare_lane = False
    # Whether second derivatives of all rows are stored, besides the gradients.
    keeps_curvature = True

    def bound(self, n_classes):
        """Bound on the entries of gradients; None means that the actual gradients are inspected."""
        return None

    def first(self, data):
        """Initial scores (K,), if ``begins``."""
        raise NotImplementedError

    def value(self, F, y):
        """Loss of every row (m,), without weights."""
        raise NotImplementedError

    def gradient(self, F, y):
        """Negative gradients of the rows (m, K)."""
        raise NotImplementedError

    def curvature(self, F, y):
        """Diagonal second derivatives (m, K); None means 1, so that leaf values are mean gradients."""
        return None

    def put(self, F, y, gradient, curvature):
        """Write `gradient` and `curvature` of rows into these arrays; the scores F (m, K) may be overwritten."""
        g = self.gradient(F, y)
        h = self.curvature(F, y)
        gradient[:] = g
        curvature[:] = 1 if h is None else h

    def rows(self, data, n_threads=1):
        """Apply the loss to training data, stored row by row."""
        return Rows(self, data, n_threads)

    def follow(self, rows, value, leaf):
        """Add value[leaf] to ``rows.F``, unless it is None, and update ``rows.gradient``.

        Returns the sums of w |g| by lane in units, or None if they should be computed when needed.
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
        """Diagonal Newton steps (n_leaves, K), times (K - 1) / K if the loss is invariant to a shift of all scores."""
        K = rows.data.n_classes
        g = rows.leaf_sums(leaf_rows, leaf_start)[:, 0]
        h = rows.curvature_sums(leaf_rows, leaf_start)
        factor = (K - 1) / K if self.shift_invariant else 1.0
        return factor * g / np.maximum(h + l2, 1e-30)

    def leaf_curvature(self, rows, leaf_rows, leaf_start, l2=0.0):
        """Curvatures (n_leaves, K) for `leaf_steps`."""
        return rows.curvature_sums(leaf_rows, leaf_start) + l2
