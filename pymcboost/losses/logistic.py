"""Logistic loss for multi-label data: for each label k, log(1 + exp(-F_k)) if a row has it, else log(1 + exp(F_k))."""

import numpy as np

from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost.losses.loss import Loss


class Logistic(Loss):
    """A sigmoid p_k = 1 / (1 + exp(-F_k)) for every label; the negative gradient is [has k] - p_k.

    ``y`` holds the labels of the rows: ones and zeros (m, K).
    """

    link = "sigmoid"
    shift_invariant = False
    begins = True
    spare_lane = True
    keeps_curvature = False
    # Multi-label models have no temperature that would correct leaves in which all rows or none have a label. Chosen
    # on training parts of 53 sets, see docs/results/choices.md.
    least_l2 = 0.1

    def first(self, data):
        """Log-odds of every label, with half a row added with the label and half a row without it."""
        has = data.comm.sum(np.einsum("i,ij->j", data.weight, data.labels)) + 0.5
        total = data.comm.sum(data.weight.sum(keepdims=True)) + 1
        return data.comm.broadcast(np.log(has / (total - has)))

    def bound(self, n_classes):
        """Bound on the entries of gradients."""
        return 1.0

    def value(self, F, y):
        """Loss of every row (m,), the mean over the labels."""
        return np.logaddexp(0, np.where(y > 0, -F, F)).mean(axis=1)

    def follow(self, rows, value, leaf):
        """Add value[leaf] to ``rows.F`` and update ``rows.gradient``, see `Loss.follow`.

        The kernel compares scores with the score of the true class. Here that score is 0, in the weight's lane.
        """
        data = rows.data
        K = data.n_classes
        rows.F[:, K] = 0
        reference_class = np.full(data.n_rows, K, dtype=np.int32)
        _vector_loss.gradient(
            rows.F,
            value,
            leaf,
            reference_class,
            rows.weight,
            _vector_loss.LOGISTIC,
            rows.lanes,
            1.0,
            rows.gradient,
            rows.n_threads,
        )
        rows.gradient[:, K] = 0
        rows.gradient.ravel()[data.label_places(rows.width)] += 1

    def leaf_steps(self, rows, leaf_rows, leaf_start, full, l2=0.0):
        """Diagonal Newton steps (n_leaves, K)."""
        sums = rows.leaf_sums(leaf_rows, leaf_start)
        return sums[:, 0] / np.maximum(sums[:, 1] + l2, 1e-30)

    def leaf_curvature(self, rows, leaf_rows, leaf_start, l2=0.0):
        """Curvatures (n_leaves, K) for `leaf_steps`."""
        return rows.leaf_sums(leaf_rows, leaf_start)[:, 1] + l2
