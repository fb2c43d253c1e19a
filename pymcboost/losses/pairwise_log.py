"""Logistic loss of the pairwise margins: the sum over r of log(1 + exp(-rho_ir))."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost.losses.blocks import SMALLEST
from pymcboost.losses.pairwise import Pairwise, PairwiseBlocks

exp, log = elementary.exp, elementary.log

# Bound on the logarithms of odds.
LARGEST_EXPONENT = 69.0
# Number of rows processed together with very many classes, so that a block of columns stays in the cache.
PASS_ROWS = 1024


def _logs(q):
    """Sums of log(1 + q) over columns, reduced to two columns; the same bits on every CPU, unlike NumPy's log1p.

    q : at most 16 columns up to 10^38, so that no product of eight overflows
    """
    while q.shape[1] > 2:
        n = q.shape[1] // 2
        both = 1 + q[:, :n]
        both *= q[:, n:]
        both += q[:, :n]
        q = both
    whole = 1 + q
    rounded = q - (whole - 1)
    rounded /= whole
    rounded += log(whole)
    return rounded


class PairwiseLog(Pairwise):
    """Logistic loss: sum over r other than y of log(1 + exp(-rho_r))."""

    def terms(self, minus, weight, limit, smallest, out=None):
        """See `Pairwise.terms`."""
        value = np.logaddexp(0.0, minus)
        if out is not None:
            np.multiply(weight, np.exp(minus - value), out=out, casting="same_kind")
        np.multiply(weight, value, out=minus)

    def blocks(self, data, n_threads=1):
        """See `Pairwise.blocks`."""
        return LogBlocks(data, n_threads)


class LogBlocks(PairwiseBlocks):
    """Weights u, and the odds exp(-rho_ir) from which they are computed.

    The weight of a true class is always 1/2; their sum is stored separately in ``diagonal``.
    """

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self.odds = data.gradient_buffer()
        self.rows_together = PASS_ROWS if self.large else self.rows_together
        self._partial = (
            None if self.large else np.zeros((len(self._classes), data.n_blocks, 4, data.lanes))
        )
        # Positions of every row's true class in the flattened gradient.
        rows, (block, lane) = np.arange(data.n_rows), np.divmod(data.y.astype(np.int64), data.lanes)
        self._own = (block * data.n_rows + rows) * data.lanes + lane
        self.diagonal = data.total_weight / 2

    def start(self, scores=None):
        """Compute the weights for raw scores (m, K), or for F = 0."""
        weight = self.data.weight[:, None]
        for rows, q, own in self._margins(scores):
            exp(np.clip(q, -LARGEST_EXPONENT, LARGEST_EXPONENT, out=q), out=q)
            q[own] = 0.0
            u = 1 + q
            np.divide(q, u, out=u)
            u *= weight[rows]
            self._scatter(self.odds, rows, q)
            self._store(rows, u, own)
            del q, u, own
        self.mass = self._mass()

    def _mass(self):
        """Sum of all weights: the gradient of a row at its true class is the sum of its off-diagonal weights."""
        return float(self.gradient.reshape(-1).take(self._own).sum(dtype=np.float64))

    def trial_tables(self, h, w):
        """First and second derivatives for each class pair and side of h at F + h w: (4, K, K), see the kernel."""
        out = np.empty((4, len(w), len(w)))
        factor = exp(w[None, :] - w[:, None])
        _weights.log_sums(
            self.odds, h, self.data.weight, self._starts, self._classes, factor, 1.0 / factor, self._factors,
            self._partial, out, self.n_threads,
        )  # fmt: skip
        return out

    def tables_at(self, h, w):
        """`update` needs no tables."""
        return None

    def value_and_slopes(self, h, w):
        """Loss at F + h w, and its derivatives with respect to w (K,), from one pass without a table of pairs."""
        found, sides = (
            (0.0, 0.0),
            np.zeros((2, self.odds.shape[0] * self.odds.shape[2])),
        )  # odds are 0 in the padding
        sides[:, : len(w)] = exp(-w), exp(w)
        with ThreadPoolExecutor(self.n_threads) as pool:
            for part in pool.map(partial(self._of_rows, h, sides), self.row_slices()):  # in order
                found = found[0] + part[0], found[1] + part[1]
        return found[0], found[1][: len(w)]

    def _of_rows(self, h, sides, rows):
        """`value_and_slopes` for some rows, by whole blocks of columns."""
        y, weight, (_, _, lanes) = self.data.y[rows], self.data.weight[rows], self.odds.shape
        to, value, slopes = (h[rows] > 0).astype(np.intp), 0.0, np.empty(sides.shape[1])
        signed, by_row = weight * h[rows], np.zeros(len(y))
        own = sides[1 - to, y][:, None]
        for b in range(len(self.odds)):
            of = slice(b * lanes, (b + 1) * lanes)
            q = np.take(sides[:, of], to, axis=0)
            q *= own
            q *= self.odds[b, rows]
            value += float(np.einsum("i,ir->", weight, _logs(q)))
            q /= 1 + q
            slopes[of] = np.einsum("i,ir->r", signed, q)
            by_row += q.sum(axis=1)
        return value, slopes - np.bincount(y, signed * by_row, minlength=len(slopes))

    def update(self, h, w, tables):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: not used)."""
        plus = minus = None
        if self.large:
            self._lay_out((w, -w), 1.0, SMALLEST)
        else:
            plus = exp(w[None, :] - w[:, None])
            minus = 1.0 / plus
        _weights.log_update(
            self.odds, self.gradient, h, self.data.weight, self._starts, self._classes, plus, minus, SMALLEST,
            self._factors, self.n_threads,
        )  # fmt: skip
        self.mass = self._mass()
