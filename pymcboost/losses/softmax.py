"""Softmax: -log p[y], p = softmax(F)."""

import numpy as np

from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import magic_of
from pymcboost.losses.loss import Loss
from pymcboost.losses.rows import UNUSED, row_layout


class Softmax(Loss):
    """Multinomial log-likelihood; its negative gradient is [r = y] - p_r, its curvature p_r (1 - p_r)."""

    steps_of_sums = True
    keeps_curvature = False

    def value(self, F, y):
        """Loss of every row (m,), without weights."""
        top = F.max(axis=1)
        return top + np.log(np.exp(F - top[:, None]).sum(axis=1)) - F[np.arange(len(y)), y]

    def gradient(self, F, y):
        """Negative gradients of the rows (m, K), computed by the kernel of the training."""
        m, K = F.shape
        lanes, _, width = row_layout(K)
        padded = aligned_zeros((m, width), np.float64)
        padded[:, :K] = F
        padded[:, K:] = UNUSED
        gradient = aligned_zeros((m, width), np.float32)
        no_leaves = np.zeros(0, dtype=np.int32)
        no_weights = np.zeros(0)
        y = np.ascontiguousarray(y, dtype=np.int32)
        _vector_loss.gradient(
            padded, None, no_leaves, y, no_weights, _vector_loss.SOFTMAX, lanes, 1.0, gradient, 1
        )
        return gradient[:, :K]

    def follow(self, rows, value, leaf):
        """Add value[leaf] to ``rows.F`` and update ``rows.gradient``, in one pass; see `Loss.follow`."""
        return _vector_loss.gradient(
            rows.F,
            value,
            leaf,
            rows.data.y,
            rows.weight,
            _vector_loss.SOFTMAX,
            rows.lanes,
            magic_of(rows.unit()),
            rows.gradient,
            rows.n_threads,
            rows.summed,
        )

    def curvature(self, F, y):
        """Diagonal second derivatives (m, K), from the magnitudes of the gradient."""
        size = np.abs(self.gradient(F, y))
        return size * (1 - size)

    def leaf_steps(self, rows, leaf_rows, leaf_start, full, l2=0.0):
        """Newton steps (n_leaves, K): diagonal ones, or with the whole Hessian if ``full``."""
        if full:
            return rows.newton_steps(leaf_rows, leaf_start, l2)
        return self.steps_of(rows.leaf_sums(leaf_rows, leaf_start), l2)

    def steps_of(self, sums, l2):
        """Diagonal steps (n_leaves, K) from the result of `Rows.leaf_sums`, which is overwritten."""
        K = sums.shape[2]
        step = sums[:, 0]
        size = sums[:, 1]
        size += l2
        np.maximum(size, 1e-30, out=size)
        step *= (K - 1) / K
        return np.divide(step, size)

    def bound(self, n_classes):
        """Bound on the entries of gradients."""
        return 1.0
