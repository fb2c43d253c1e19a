"""Exponential loss of the pairwise margins: the sum over r of exp(-rho_ir)."""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost.losses.blocks import SMALLEST
from pymcboost.losses.pairwise import Pairwise, PairwiseBlocks

exp = elementary.exp
log = elementary.log


class PairwiseExp(Pairwise):
    """Exponential loss: sum over r other than y of exp(-rho_r)."""

    link = "softmax2"

    def terms(self, minus, weight, limit, smallest, out=None):
        """Replace margins -rho by their losses, and write weights u to ``out``; see `Pairwise.terms`."""
        exp(np.minimum(minus, limit, out=minus), out=minus)
        minus *= weight
        if out is not None:
            np.add(minus, smallest, out=out, casting="same_kind")

    def blocks(self, data, n_threads=1):
        """Apply the loss in blocks of classes."""
        return ExpBlocks(data, n_threads)


class ExpBlocks(PairwiseBlocks):
    """Weights divided by exp(``log_scale``), so that they neither vanish nor overflow when all margins grow.

    The sum of the terms exp(0) of the true classes is stored separately in ``diagonal``, in the scale of the weights.
    """

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self._total_weight = float(data.weight.sum())

    def start(self, scores=None):
        """Compute the weights for raw scores (m, K), or for F = 0."""
        weight = self.data.weight[:, None]
        self.mass = self._total_weight * (self.data.n_classes - 1)
        top, total = self._total(scores)
        self._rescale(top + log(total) - log(self.mass))
        for rows, minus_rho, is_own_class in self._margins(scores):
            minus_rho[is_own_class] = -np.inf
            minus_rho -= self.log_scale
            exp(minus_rho, out=minus_rho)
            minus_rho *= weight[rows]
            self._store(rows, minus_rho, is_own_class)
            del minus_rho, is_own_class

    def _total(self, scores):
        """Largest -rho, and the sum of the weights divided by its exponential."""
        weight = self.data.weight[:, None]
        top = -np.inf
        total = 0.0
        for rows, minus_rho, is_own_class in self._margins(scores):
            minus_rho[is_own_class] = -np.inf
            largest = minus_rho.max(initial=-np.inf)
            if largest > top:
                total *= exp(top - largest) if total else 0.0
                top = largest
            minus_rho -= top
            exp(minus_rho, out=minus_rho)
            minus_rho *= weight[rows]
            total += float(np.sum(minus_rho))
            del minus_rho, is_own_class
        return top, total

    def _sum(self, table):
        """Sum of all entries of a table."""
        return float(np.add.reduce(table, axis=None))  # what the method sum calls

    def _rescale(self, log_scale):
        """Set the scale of the weights, and the sum of the terms of the true classes in it."""
        self.log_scale = log_scale
        self.diagonal = self._total_weight * exp(min(-log_scale, 600.0))

    def side_tables(self, h):
        """K x K sums of u over the rows of each class with h = +1 and with h = -1: (2, K, K)."""
        out = self.column_sums(self.gradient, h[None, :])
        np.negative(out, out=out)
        out.reshape(2, -1)[:, :: self.data.n_classes + 1] = 0.0  # the diagonals
        return out

    def tables_at(self, h, w):
        """Tables for `update` when w was not fitted."""
        return self.side_tables(h)

    def update(self, h, w, tables, minus=None):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: those of h before the update).

        If ``minus`` (K,) is given, it is added where h = -1 instead of -w.
        """
        if self.large:
            self._update_in_blocks(h, w, tables, minus=-w if minus is None else minus)
            return
        factor = exp(w[None, :] - w[:, None])
        inverse = 1.0 / factor if minus is None else exp(minus[None, :] - minus[:, None])
        mass = self._sum(tables[0] * factor) + self._sum(tables[1] * inverse)
        scale = self.mass / mass
        _weights.exp_update(
            self.gradient,
            h,
            self._starts,
            self._classes,
            factor * scale,
            inverse * scale,
            SMALLEST,
            self._factors,
            self.n_threads,
        )
        self._rescale(self.log_scale - log(scale))

    def _update_in_blocks(self, h, w, tables, minus):
        """Version of `update` without further tables: a factor is exp(w_r) exp(-w_c).

        ``tables`` may be a folded table, see `solvers.large`.
        """
        mass_by_class = np.zeros(len(w))
        # A folded table has both sides in one.
        for table, step in zip(tables, (w, minus), strict=False):
            mass_by_class += exp(-step) * np.einsum("cr,r->c", table, exp(step))
        scale = self.mass / self._sum(mass_by_class)
        self._fill_factors(w, minus, scale, added=-SMALLEST)
        _weights.exp_update(
            self.gradient,
            h,
            self._starts,
            self._classes,
            None,
            None,
            SMALLEST,
            self._factors,
            self.n_threads,
        )
        self._rescale(self.log_scale - log(scale))
