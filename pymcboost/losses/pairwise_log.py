"""Logistic loss of the pairwise margins: the sum over r of log(1 + exp(-rho_ir))."""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import vrows as _vrows
from pymcboost._kernels import weights as _weights
from pymcboost.losses.blocks import SMALLEST
from pymcboost.losses.pairwise import Pairwise, PairwiseBlocks

exp = elementary.exp

# Odds stay within exp of this.
LARGEST_EXPONENT = 69.0


class PairwiseLog(Pairwise):
    """Logistic loss: sum over r other than y of log(1 + exp(-rho_r))."""

    kernel = _vrows.LOSS_CODES["log"]
    curved = 1

    def terms(self, minus, weight, limit, smallest, out=None):
        """See `Pairwise.terms`."""
        value = np.logaddexp(0.0, minus)
        return weight * value, np.multiply(weight, np.exp(minus - value), out=out, casting="same_kind")

    def blocks(self, data, n_threads=1):
        """See `Pairwise.blocks`."""
        return LogBlocks(data, n_threads)


class LogBlocks(PairwiseBlocks):
    """Weights u, and the odds exp(-rho_ir) that they come from."""

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self.odds = data.gradient_buffer()
        self._partial = np.zeros((len(self._classes), data.n_blocks, 4, data.lanes))

    def start(self, scores=None):
        """Weights of given raw scores (m, K), or of F = 0."""
        weight = self.data.weight[:, None]
        self.mass = 0.0
        for rows, minus_rho, own in self._margins(scores):
            q = exp(np.clip(minus_rho, -LARGEST_EXPONENT, LARGEST_EXPONENT))
            q[own] = 0.0
            u = weight[rows] * (q / (1 + q))
            self.mass += float(u.sum())
            self._scatter(self.odds, rows, q)
            self._store(rows, u, own)

    def stopping_edge(self, edge):
        """Edge in the scale of the stopping rule: the logistic weights are not normalised."""
        return edge

    def trial_tables(self, h, w):
        """First and second derivatives per class pair and side of h at F + h w: (4, K, K), see `_kernels.weights`."""
        out = np.empty((4, len(w), len(w)))
        factor = exp(w[None, :] - w[:, None])
        _weights.log_sums(
            self.odds, h, self.data.weight, self._starts, self._classes, factor, 1.0 / factor, self._factors,
            self._partial, out, self.n_threads,
        )  # fmt: skip
        return out

    tables_at = trial_tables

    def update(self, h, w, tables):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: trial tables near the new F, for the mass)."""
        factor = exp(w[None, :] - w[:, None])
        _weights.log_update(
            self.odds, self.gradient, h, self.data.weight, self._starts, self._classes, factor, 1.0 / factor, SMALLEST,
            self._factors, self.n_threads,
        )  # fmt: skip
        self.mass = float(tables[0].sum() + tables[1].sum())
