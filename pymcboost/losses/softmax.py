"""Softmax: -log p[y], p = softmax(F)."""

import numpy as np

from pymcboost._kernels import vrows as _vrows
from pymcboost.losses.loss import CompiledLoss


class Softmax(CompiledLoss):
    """Multinomial log-likelihood; its negative gradient is [r = y] - p_r, its curvature p_r (1 - p_r)."""

    kernel = _vrows.LOSS_CODES["softmax"]
    steps_of_sums = True

    def value(self, F, y):
        """See `Loss.value`."""
        top = F.max(axis=1)
        return top + np.log(np.exp(F - top[:, None]).sum(axis=1)) - F[np.arange(len(y)), y]

    def curvature(self, F, y):
        """See `Loss.curvature`."""
        size = np.abs(self.gradient(F, y))
        return size * (1 - size)

    def leaf_steps(self, rows, leaf_rows, leaf_start, full, l2=0.0):
        """See `Loss.leaf_steps`; ``full``: with the whole Hessian."""
        if full:
            return super().leaf_steps(rows, leaf_rows, leaf_start, full, l2)
        return self.steps_of(rows.leaf_sums(leaf_rows, leaf_start), l2)

    def steps_of(self, sums, l2):
        """Steps (n_leaves, K) along each score alone from what `Rows.leaf_sums` gives, which is overwritten."""
        K, step, size = sums.shape[2], sums[:, 0], sums[:, 1]
        size += l2
        np.maximum(size, 1e-30, out=size)
        step *= (K - 1) / K
        return np.divide(step, size)

    def row_curvatures(self, rows):
        """See `Loss.row_curvatures`."""
        return rows.curvatures("softmax")

    def bound(self, n_classes):
        """See `Loss.bound`."""
        return 1.0

    def tables(self, n_classes, width):
        """See `CompiledLoss`."""
        return n_classes + 1, width

    def leaf_tables(self, rows, magic, leaf_rows, start, stop, out):
        """See `CompiledLoss`."""
        _vrows.leaf_hessian(rows.gradient, rows.weight, rows.data.y, rows.lanes, magic, leaf_rows, start, stop, out)

    def newton_of(self, tables, n_classes):
        """See `CompiledLoss`."""
        return tables[n_classes, :n_classes], tables[:n_classes, :n_classes]
