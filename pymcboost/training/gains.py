"""Gains of splits, summed by column."""

import numpy as np

# Rounds whose gains are added up together: alone they would take longer than the search of a small tree's split.
TOGETHER = 64


class Gains:
    """Sums of d columns, of which those alone are held that occur: a copy of millions of columns takes little.

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
        self._waiting, self._n = None, 0  # (those before, columns, gains), and how many

    @classmethod
    def of(cls, sums):
        """Those of an array (d,)."""
        column = np.flatnonzero(sums)
        return cls(len(sums), column, np.asarray(sums, dtype=np.float64)[column])

    @property
    def column(self):
        """See the class."""
        return self._added_up()[0]

    @property
    def value(self):
        """See the class."""
        return self._added_up()[1]

    def add(self, columns, gains):
        """Add to these columns, one after the other; a column may occur again."""
        own = np.array(columns), np.array(gains)  # learners use theirs again
        self._waiting, self._n = (self._waiting, *own), self._n + 1
        if self._n == TOGETHER:
            self._added_up()

    def copy(self):
        """Sums that stay as they are now."""
        new = Gains(self.n_columns, *self._sums)
        new._waiting, new._n = self._waiting, self._n
        return new

    def dense(self):
        """An array (d,)."""
        column, value = self._added_up()
        found = np.zeros(self.n_columns)
        found[column] = value
        return found

    def _added_up(self):
        if self._n == 0:
            return self._sums
        rounds, one = [], self._waiting
        while one is not None:
            one, columns, gains = one
            rounds.append((columns, np.broadcast_to(gains, len(columns))))
        columns, gains = (np.concatenate(parts) for parts in zip(*rounds[::-1], strict=True))
        before, sums = self._sums
        column = np.union1d(before, columns)
        value = np.zeros(len(column))
        value[column.searchsorted(before)] = sums
        np.add.at(value, column.searchsorted(columns), gains)
        self._sums, self._waiting, self._n = (column, value), None, 0
        return self._sums
