"""Losses in blocks, for rows divided among workers: sums over rows are sums of integers over all workers.

Each term is a number of units; the unit is a power of two that follows from a bound of the sum of all terms. Values
that depend on a single row are computed as without workers.
"""

import math

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost._kernels.exact import total, unit_of
from pymcboost.losses.pairwise_exp import ExpBlocks
from pymcboost.losses.pairwise_log import LogBlocks

exp = elementary.exp
log = elementary.log

# Number of bits of the sum of all terms.
SUM_BITS = 61


class Units:
    """Sums of terms whose magnitudes add up to at most ``bound``.

    Parameters
    ----------
    loss : Blocks
    bound : float
    n_columns : int
    n : int, default=2
        Tables that are summed at once.
    """

    def __init__(self, loss, bound, n_columns, n=2):
        self._loss = loss
        self._comm = loss.data.comm
        self._units_per_one = math.ldexp(1.0, SUM_BITS - math.frexp(bound)[1])
        n_blocks, _, lanes = loss.gradient.shape
        self._partial = np.zeros(
            (len(loss.column_sums.classes), n_blocks, n, lanes), dtype=np.int64
        )
        self._sums = np.zeros((n, loss.data.n_classes, n_columns), dtype=np.int64)

    def of_columns(self, h):
        """Sums of the gradient's columns: see `losses.blocks.ColumnSums`."""
        loss = self._loss
        chunks = loss.column_sums
        _weights.column_units(
            loss.gradient,
            h,
            chunks.starts,
            chunks.classes,
            self._units_per_one,
            self._partial,
            self._sums,
            loss.n_threads,
        )
        return self._sum_over_workers()

    def of_trial(self, h, factor, scratch):
        """Result of `_kernels.pairwise_weights.log_sums`: (4, K, K)."""
        loss = self._loss
        chunks = loss.column_sums
        _weights.log_units(
            loss.odds,
            h,
            loss.data.weight,
            chunks.starts,
            chunks.classes,
            factor,
            1.0 / factor,
            scratch,
            self._units_per_one,
            self._partial,
            self._sums,
            loss.n_threads,
        )
        return _without_own(self._sum_over_workers())

    def of_weights(self, h):
        """K x K sums of u over the rows of each class with h = +1 and with h = -1: (2, K, K)."""
        return _without_own(0.0 - self.of_columns(h[None, :]))

    def _sum_over_workers(self):
        return self._comm.sum(self._sums).astype(np.float64) / self._units_per_one


def _without_own(tables):
    """Set the entries of the true classes in tables (n, K, K) to 0."""
    tables.reshape(len(tables), -1)[:, :: tables.shape[1] + 1] = 0.0
    return tables


class SummedExp(ExpBlocks):
    """`ExpBlocks` for rows that are divided among workers."""

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self._total_weight = data.total_weight
        self.mass = self._total_weight * (data.n_classes - 1)
        # The stored weights add up to the mass, except for rounding in single precision.
        self._units = Units(self, 1.01 * self.mass, data.n_classes)

    def side_tables(self, h):
        """K x K sums of u over the rows of each class with h = +1 and with h = -1: (2, K, K)."""
        return self._units.of_weights(h)

    def _total(self, scores):
        """Largest -rho, and the sum of the weights divided by its exponential."""
        comm = self.data.comm
        largest = self.data.weight_ends[1]
        K = self.data.n_classes
        top = -np.inf
        for _, minus_rho, is_own_class in self._margins(scores):
            minus_rho[is_own_class] = -np.inf
            top = max(top, minus_rho.max())
            del minus_rho, is_own_class
        top = float(comm.maximum(np.array([top]))[0])
        unit = unit_of(largest, self.data.total_rows * K)
        sums = np.zeros(1, dtype=np.int64)
        for rows, minus_rho, is_own_class in self._margins(scores):
            minus_rho[is_own_class] = -np.inf
            minus_rho -= top
            exp(minus_rho, out=minus_rho)
            minus_rho *= self.data.weight[rows, None]
            minus_rho /= unit
            sums += np.rint(minus_rho, out=minus_rho).astype(np.int64).sum()
            del minus_rho, is_own_class
        return top, int(comm.sum(sums)[0]) * unit

    def _sum(self, table):
        return total(table)


class SummedLog(LogBlocks):
    """`LogBlocks` for rows that are divided among workers."""

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        weight = 1.01 * data.total_weight  # 1%: a pass over the rows adds up in floating point
        K = data.n_classes
        self.large = False
        self._units = Units(self, weight * (K - 1), K)
        self._trials = Units(self, weight, K, n=4)
        self._every_row = np.ones(data.n_rows, dtype=np.int8)

    def trial_tables(self, h, w):
        """First and second derivatives for each class pair and side of h at F + h w: (4, K, K)."""
        return self._trials.of_trial(h, exp(w[None, :] - w[:, None]), self._factors)

    def _mass(self):
        return total(self._units.of_weights(self._every_row))


SUMMED = {"exp": SummedExp, "log": SummedLog}
