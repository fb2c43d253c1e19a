"""Gains of splits, summed by column."""

import numpy as np

# Gains of this many rounds are added together. Adding each by itself would take longer than finding a small tree's
# splits.
TOGETHER = 64


class Gains:
    """Sparse sums for d columns: only columns that occur are stored, so copies are cheap with millions of columns.

    Attributes
    ----------
    column : ndarray of int64
        Columns that occur, ascending.
    value : ndarray of float64
        Their sums.
    """

    def __init__(self, n_columns, column=None, value=None):
        self.n_columns = n_columns
        self._sums = (
            np.zeros(0, dtype=np.int64) if column is None else column,
            np.zeros(0) if value is None else value,
        )
        # Rounds that are not added up yet: a linked list (previous, columns, gains), and its length.
        self._waiting = None
        self._n_waiting = 0

    @classmethod
    def of(cls, sums):
        """Create the sums from an array (d,)."""
        column = np.flatnonzero(sums)
        return cls(len(sums), column, np.asarray(sums, dtype=np.float64)[column])

    @property
    def column(self):
        """Columns that occur, in ascending order."""
        return self._added_up()[0]

    @property
    def value(self):
        """Sum of each of these columns."""
        return self._added_up()[1]

    def add(self, columns, gains):
        """Add gains to columns one by one; a column may occur several times."""
        arrays = np.array(columns), np.array(gains)  # copies, because learners reuse their arrays
        self._waiting = (self._waiting, *arrays)
        self._n_waiting += 1
        if self._n_waiting == TOGETHER:
            self._added_up()

    def copy(self):
        """Return a copy that later additions do not change."""
        new = Gains(self.n_columns, *self._sums)
        new._waiting = self._waiting
        new._n_waiting = self._n_waiting
        return new

    def dense(self):
        """The sums as an array (d,)."""
        column, value = self._added_up()
        dense = np.zeros(self.n_columns)
        dense[column] = value
        return dense

    def _added_up(self):
        """Add the waiting rounds to the sums, and return these: columns and values."""
        if self._n_waiting == 0:
            return self._sums
        rounds = []
        waiting = self._waiting
        while waiting is not None:
            waiting, columns, gains = waiting
            rounds.append((columns, np.broadcast_to(gains, len(columns))))
        rounds.reverse()
        columns, gains = (np.concatenate(arrays) for arrays in zip(*rounds, strict=True))
        old_column, old_value = self._sums
        column = np.union1d(old_column, columns)
        value = np.zeros(len(column))
        value[column.searchsorted(old_column)] = old_value
        np.add.at(value, column.searchsorted(columns), gains)
        self._sums = (column, value)
        self._waiting = None
        self._n_waiting = 0
        return self._sums
