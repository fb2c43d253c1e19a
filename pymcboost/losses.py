"""Pairwise margin losses: sample weights and gradients, kept up to date by multiplication.

With margins rho_ir = F[y_i] - F[r], the weights are u_ir = exp(-rho_ir) (exponential) or 1 / (1 + exp(rho_ir))
(logistic), and the negative gradient of the loss with respect to F is a_ir = [r = y_i] sum_l u_il - u_ir
(Paisitkriangkrai, Shen and van den Hengel, eqs. 10-12).
"""

import numpy as np

from pymcboost._kernels import weights as _weights
from pymcboost._kernels.aligned import aligned_zeros

# Added to every stored weight (their mean is about 1): far below what a sum can see, far above denormal numbers.
SMALLEST = 1e-30
BLOCK_ROWS = 4096


class PairwiseLoss:
    """State shared by both losses.

    Parameters
    ----------
    data : TrainingData
    n_threads : int

    Attributes
    ----------
    gradient : ndarray (n_blocks, m, lanes)
        Negative gradient in blocks of classes, in the scale of ``mass``.
    mass : float
        Sum of the off-diagonal weights, in the scale of ``gradient``.
    """

    def __init__(self, data, n_threads):
        self.data = data
        self.n_threads = n_threads
        self.gradient = data.gradient_buffer()
        self._starts, self._classes = _weights.chunks(data.class_start)
        K = data.n_classes
        self._rows = aligned_zeros((3, K, data.n_blocks * data.lanes), data.dtype)
        self._partial = np.zeros((len(self._classes), 2, data.n_blocks, data.lanes))
        self._total_weight = float(data.weight.sum())

    def _blocks_of_scores(self, scores):
        """Yield (slice of rows, off-diagonal -rho, own-class mask) from raw scores (m, K), or from zero scores."""
        y = self.data.y
        classes = np.arange(self.data.n_classes)
        for start in range(0, len(y), BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, len(y)))
            own = y[rows, None] == classes
            if scores is None:
                yield rows, np.zeros(own.shape), own
            else:
                F = scores[rows]
                yield rows, F - F[own][:, None], own

    def _scatter(self, buffer, rows, values):
        lanes = self.data.lanes
        for b in range(self.data.n_blocks):
            part = values[:, b * lanes : (b + 1) * lanes]
            buffer[b, rows, : part.shape[1]] = part


class PairwiseExp(PairwiseLoss):
    """Exponential loss: sum over i and r of exp(-rho_ir).

    Stored weights are divided by exp(``log_scale``), so that they neither vanish nor overflow when all margins grow;
    the diagonal terms exp(0) are kept apart in ``diagonal``.
    """

    link = "softmax2"

    def restart(self, scores=None):
        """Weights of given raw scores (m, K), or of F = 0."""
        weight = self.data.weight[:, None]
        self.mass = self._total_weight * (self.data.n_classes - 1)
        top, total = -np.inf, 0.0
        for rows, minus_rho, own in self._blocks_of_scores(scores):
            minus_rho[own] = -np.inf
            here = minus_rho.max(initial=-np.inf)
            if here > top:
                total *= np.exp(top - here) if total else 0.0
                top = here
            total += float(np.sum(weight[rows] * np.exp(minus_rho - top)))
        log_mass = top + np.log(total)
        self.log_scale = log_mass - np.log(self.mass)
        for rows, minus_rho, own in self._blocks_of_scores(scores):
            u = weight[rows] * np.exp(minus_rho - self.log_scale)
            u[own] = 0.0
            a = -u
            a[own] = u.sum(axis=1)
            self._scatter(self.gradient, rows, a)

    @property
    def diagonal(self):
        """Sum of the terms exp(-rho_ir) with r = y_i, in the scale of the stored weights."""
        return self._total_weight * np.exp(min(-self.log_scale, 600.0))

    def stopping_edge(self, edge):
        """Edge with the weights normalised to sum to 1, diagonal included, as in the stopping rule."""
        return edge / (self.mass + self.diagonal)

    def side_tables(self, h):
        """K x K sums of u over the rows of each class with h = +1 and with h = -1: (2, K, K)."""
        K = self.data.n_classes
        out = np.empty((2, K, K))
        _weights.side_sums(self.gradient, h, self._starts, self._classes, self._partial, out, self.n_threads)
        return out

    def tables_at(self, h, w):
        """Tables that `update` needs when w was not fitted."""
        return self.side_tables(h)

    def update(self, h, w, tables):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: those of h before the update)."""
        factor = np.exp(w[None, :] - w[:, None])
        inverse = 1.0 / factor
        mass = float((tables[0] * factor).sum() + (tables[1] * inverse).sum())
        scale = self.mass / mass
        _weights.exp_update(
            self.gradient,
            h,
            self._starts,
            self._classes,
            factor * scale,
            inverse * scale,
            SMALLEST,
            self._rows,
            self.n_threads,
        )
        self.log_scale -= np.log(scale)


class PairwiseLog(PairwiseLoss):
    """Logistic loss: sum over i and r of log(1 + exp(-rho_ir)). The odds exp(-rho_ir) are stored, too."""

    link = "softmax"

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self.odds = data.gradient_buffer()
        self._partial = np.zeros((len(self._classes), data.n_blocks, 4, data.lanes))

    def restart(self, scores=None):
        """Weights of given raw scores (m, K), or of F = 0."""
        weight = self.data.weight[:, None]
        self.mass = 0.0
        for rows, minus_rho, own in self._blocks_of_scores(scores):
            q = np.exp(np.clip(minus_rho, -69.0, 69.0))
            q[own] = 0.0
            u = weight[rows] * (q / (1 + q))
            a = -u
            a[own] = u.sum(axis=1)
            self.mass += float(u.sum())
            self._scatter(self.odds, rows, q)
            self._scatter(self.gradient, rows, a)

    def stopping_edge(self, edge):
        """Edge in the scale of the stopping rule: the logistic weights are not normalised."""
        return edge

    def trial_tables(self, h, w):
        """First and second derivatives per class pair and side of h at F + h w: (4, K, K), see `_kernels.weights`."""
        K = self.data.n_classes
        out = np.empty((4, K, K))
        factor = np.exp(w[None, :] - w[:, None])
        _weights.log_sums(
            self.odds, h, self.data.weight, self._starts, self._classes, factor, 1.0 / factor, self._rows,
            self._partial, out, self.n_threads,
        )  # fmt: skip
        return out

    tables_at = trial_tables

    def update(self, h, w, tables):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: trial tables near the new F, for the mass)."""
        factor = np.exp(w[None, :] - w[:, None])
        _weights.log_update(
            self.odds, self.gradient, h, self.data.weight, self._starts, self._classes, factor, 1.0 / factor, SMALLEST,
            self._rows, self.n_threads,
        )  # fmt: skip
        self.mass = float(tables[0].sum() + tables[1].sum())


LOSSES = {"exp": PairwiseExp, "log": PairwiseLog}
