"""Gains of splits, summed by column."""

import numpy as np


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
        self.column = np.zeros(0, dtype=np.int64) if column is None else column
        self.value = np.zeros(0) if value is None else value

    @classmethod
    def of(cls, sums):
        """Those of an array (d,)."""
        column = np.flatnonzero(sums)
        return cls(len(sums), column, np.asarray(sums, dtype=np.float64)[column])

    def add(self, columns, gains):
        """Add to these columns, one after the other; a column may occur again."""
        place = self.column.searchsorted(columns)
        if not len(self.column) or (self.column.take(place, mode="clip") != columns).any():
            column = np.union1d(self.column, columns)
            value = np.zeros(len(column))
            value[column.searchsorted(self.column)] = self.value
            self.column, self.value = column, value
            place = column.searchsorted(columns)
        np.add.at(self.value, place, gains)

    def copy(self):
        """Sums that stay as they are now."""
        return Gains(self.n_columns, self.column, self.value.copy())

    def dense(self):
        """An array (d,)."""
        found = np.zeros(self.n_columns)
        found[self.column] = self.value
        return found
