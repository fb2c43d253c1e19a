"""Weights in blocks of columns, one column for each class or coded problem, which are updated by multiplication.

Outputs h of weak learners are +-1, so an update multiplies the weights of a class's rows by one of two factors in
each column.
"""

import numpy as np

from pymcboost._kernels import pairwise_weights as _weights
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.data.rows import MANY_COLUMNS
from pymcboost.data.stump_data import layout

# Added to every stored weight (mean about 1): too small to affect sums, but large enough to avoid denormal numbers.
SMALLEST = 1e-30
BLOCK_ROWS = 4096


class ColumnSums:
    """Sums of a gradient's columns over the rows of each class, on each side of weak learners.

    Parameters
    ----------
    data : TrainingData
    n_columns : int
    n_threads : int
    """

    def __init__(self, data, n_columns, n_threads):
        lanes, blocks = layout(n_columns)
        self.starts, self.classes = _weights.chunks(data.class_start)
        self._shape = (2, data.n_classes, n_columns)
        self._n_threads = n_threads
        # With very many columns, the blocks are summed one after the other.
        self._block_by_block = n_columns > MANY_COLUMNS
        n_blocks = 1 if self._block_by_block else blocks
        self._partial = np.zeros((len(self.classes), 2, n_blocks, lanes))

    def __call__(self, gradient, h):
        """Sums (2, K, P) over rows with h = +1 and with h = -1; h: int8 (1, m), or one row for every column."""
        out = np.empty(self._shape)
        if not self._block_by_block:
            self._sum(gradient, h, out)
            return out
        lanes = gradient.shape[2]
        P = out.shape[2]
        for b in range(len(gradient)):
            columns = slice(b * lanes, min((b + 1) * lanes, P))
            block_sums = np.empty((*out.shape[:2], columns.stop - columns.start))
            self._sum(gradient[b : b + 1], h if len(h) == 1 else h[columns], block_sums)
            out[:, :, columns] = block_sums
        return out

    def _sum(self, gradient, h, out):
        _weights.column_sums(
            gradient, h, self.starts, self.classes, self._partial, out, self._n_threads
        )


class Blocks:
    """Base class of losses in blocks of columns.

    Parameters
    ----------
    data : TrainingData
    n_columns : int
    n_threads : int

    Attributes
    ----------
    gradient : ndarray (n_blocks, m, lanes)
        Negative gradient in blocks of columns, in the scale of the ``mass`` of the weights.
    """

    rows_together = BLOCK_ROWS

    def __init__(self, data, n_columns, n_threads):
        self.data = data
        self.n_threads = n_threads
        self.gradient = data.gradient_buffer(n_columns)
        self.column_sums = ColumnSums(data, n_columns, n_threads)
        self._starts = self.column_sums.starts
        self._classes = self.column_sums.classes
        n_blocks, _, lanes = self.gradient.shape
        self._factors = aligned_zeros((3, data.n_classes, n_blocks * lanes), data.dtype)

    def row_slices(self):
        """Slices of a few thousand rows each."""
        m = self.data.n_rows
        step = self.rows_together
        return (slice(start, min(start + step, m)) for start in range(0, m, step))

    def _scatter(self, buffer, rows, values):
        """Write values (n, P) of rows into a buffer in blocks."""
        lanes = buffer.shape[2]
        for b in range(len(buffer)):
            columns = values[:, b * lanes : (b + 1) * lanes]
            buffer[b, rows, : columns.shape[1]] = columns
