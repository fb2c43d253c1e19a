"""Logistic loss of the pairwise margins: the sum over r of log(1 + exp(-rho_ir))."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost.losses.blocks import SMALLEST
from pymcboost.losses.pairwise import Pairwise, PairwiseBlocks

exp = elementary.exp
log = elementary.log

# Bound on the logarithms of odds.
LARGEST_EXPONENT = 69.0
# Number of rows processed together with very many classes, so that a block of columns stays in the cache.
PASS_ROWS = 1024


def _logs(q):
    """Sums of log(1 + q) over columns, reduced to two columns; the same bits on every CPU, unlike NumPy's log1p.

    q : at most 16 columns up to 10^38, so that no product of eight overflows
    """
    # Two columns a and b become one: (1 + a) (1 + b) = 1 + ((1 + a) b + a).
    while q.shape[1] > 2:
        n = q.shape[1] // 2
        a = q[:, :n]
        combined = 1 + a
        combined *= q[:, n:]
        combined += a
        q = combined
    # log(1 + q), plus what is lost by rounding 1 + q.
    one_plus_q = 1 + q
    logs = q - (one_plus_q - 1)
    logs /= one_plus_q
    logs += log(one_plus_q)
    return logs


class PairwiseLog(Pairwise):
    """Logistic loss: sum over r other than y of log(1 + exp(-rho_r))."""

    def terms(self, minus, weight, limit, smallest, out=None):
        """Replace margins -rho by their losses, and write weights u to ``out``; see `Pairwise.terms`."""
        value = np.logaddexp(0.0, minus)
        if out is not None:
            np.multiply(weight, np.exp(minus - value), out=out, casting="same_kind")
        np.multiply(weight, value, out=minus)

    def blocks(self, data, n_threads=1):
        """Apply the loss in blocks of classes."""
        return LogBlocks(data, n_threads)


class LogBlocks(PairwiseBlocks):
    """Weights u, and the odds exp(-rho_ir) from which they are computed.

    The weight of a true class is always 1/2; their sum is stored separately in ``diagonal``.
    """

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self.odds = data.gradient_buffer()
        self._partial = None
        if self.large:
            self.rows_together = PASS_ROWS
        else:
            self._partial = np.zeros((len(self._classes), data.n_blocks, 4, data.lanes))
        # Positions of every row's true class in the flattened gradient.
        rows = np.arange(data.n_rows)
        block, lane = np.divmod(data.y.astype(np.int64), data.lanes)
        self._own_places = (block * data.n_rows + rows) * data.lanes + lane
        self.diagonal = data.total_weight / 2

    def start(self, scores=None):
        """Compute the weights for raw scores (m, K), or for F = 0."""
        weight = self.data.weight[:, None]
        for rows, q, is_own_class in self._margins(scores):
            exp(np.clip(q, -LARGEST_EXPONENT, LARGEST_EXPONENT, out=q), out=q)
            q[is_own_class] = 0.0
            u = 1 + q
            np.divide(q, u, out=u)
            u *= weight[rows]
            self._scatter(self.odds, rows, q)
            self._store(rows, u, is_own_class)
            del q, u, is_own_class
        self.mass = self._mass()

    def _mass(self):
        """Sum of all weights: the gradient of a row at its true class is the sum of its off-diagonal weights."""
        return float(self.gradient.reshape(-1).take(self._own_places).sum(dtype=np.float64))

    def trial_tables(self, h, w):
        """First and second derivatives for each class pair and side of h at F + h w: (4, K, K), see the kernel."""
        out = np.empty((4, len(w), len(w)))
        factor = exp(w[None, :] - w[:, None])
        _weights.log_sums(
            self.odds,
            h,
            self.data.weight,
            self._starts,
            self._classes,
            factor,
            1.0 / factor,
            self._factors,
            self._partial,
            out,
            self.n_threads,
        )
        return out

    def tables_at(self, h, w):
        """Return None, because `update` needs no tables."""
        return None

    def value_and_slopes(self, h, w):
        """Loss at F + h w, and its derivatives with respect to w (K,), from one pass without a table of pairs."""
        value = 0.0
        slopes = 0.0
        # Factors of the odds where h = -1 and where h = +1. Columns of padding may have any factor, because their odds
        # are 0.
        factors = np.zeros((2, self.odds.shape[0] * self.odds.shape[2]))
        factors[0, : len(w)] = exp(-w)
        factors[1, : len(w)] = exp(w)
        with ThreadPoolExecutor(self.n_threads) as pool:
            # `map` yields in the order of the slices, so the sums do not depend on the number of threads.
            parts = pool.map(partial(self._value_of_rows, h, factors), self.row_slices())
            for part_value, part_slopes in parts:
                value += part_value
                slopes = slopes + part_slopes
        return value, slopes[: len(w)]

    def _value_of_rows(self, h, factors, rows):
        """`value_and_slopes` for some rows, by whole blocks of columns."""
        y = self.data.y[rows]
        weight = self.data.weight[rows]
        _, _, lanes = self.odds.shape
        side = (h[rows] > 0).astype(np.intp)
        value = 0.0
        slopes = np.empty(factors.shape[1])
        signed = weight * h[rows]
        sum_of_row = np.zeros(len(y))
        own_factor = factors[1 - side, y][:, None]
        for b in range(len(self.odds)):
            columns = slice(b * lanes, (b + 1) * lanes)
            q = np.take(factors[:, columns], side, axis=0)
            q *= own_factor
            q *= self.odds[b, rows]
            value += float(np.einsum("i,ir->", weight, _logs(q)))
            q /= 1 + q
            slopes[columns] = np.einsum("i,ir->r", signed, q)
            sum_of_row += q.sum(axis=1)
        return value, slopes - np.bincount(y, signed * sum_of_row, minlength=len(slopes))

    def update(self, h, w, tables):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: not used)."""
        if self.large:
            plus = None
            minus = None
            self._fill_factors(w, -w, scale=1.0, added=SMALLEST)
        else:
            plus = exp(w[None, :] - w[:, None])
            minus = 1.0 / plus
        _weights.log_update(
            self.odds,
            self.gradient,
            h,
            self.data.weight,
            self._starts,
            self._classes,
            plus,
            minus,
            SMALLEST,
            self._factors,
            self.n_threads,
        )
        self.mass = self._mass()
