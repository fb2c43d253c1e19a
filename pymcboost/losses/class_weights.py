"""Weights on which classification trees are grown. They are not a loss, but have the same interface."""

import math

import numpy as np

from pymcboost.losses.rows import Integers, scale_of


class ClassWeights(Integers):
    """Weights of the rows, as a gradient in the column of each row's class.

    Parameters
    ----------
    data : TreeData
    n_threads : int
    drawn : float, default=1.0
        Share of the rows that have a weight.

    Attributes
    ----------
    weight : ndarray (m,)
        To be set before every tree.
    counts : ndarray of int32 (m,)
        The weights of the last `integers`.
    units : float
        Integer units of a weight of 1, if the mean of all positive weights is 1.
    """

    def __init__(self, data, n_threads, drawn=1.0):
        super().__init__(data, n_threads)
        self.units = scale_of(data.total_rows, max(1, round(drawn * data.n_rows)), 1.0)
        # Bounds on weights refer to weights with mean 1, as for every tree.
        self.weight = data.weight / (data.total_weight / data.total_rows)
        self.bound_scale = 1.0
        self.gradient[np.arange(data.n_rows), data.y] = 1.0

    def least(self, weight):
        """Smallest count of a leaf: one row, whatever its weight."""
        return 1

    def integers(self, key=None):
        """Weights as integers (blocks, m, lanes), in the column of each row's class and in the column of the sums.

        Integer sample weights keep their ratios as integers, if the weights are the sample weights, so ties stay
        ties. A row's class has the integer of its weight, so that no split of a pure node has a gain.
        """
        data = self.data
        K = data.n_classes
        mean = data.total_weight / data.total_rows
        scale = mean * scale_of(data.total_rows, mean * self.weight.sum(), mean * self.weight.max())
        integers = self._quantise(
            self.weight, scale, scale, size=math.sqrt(2.0), total=self.weight.sum()
        )
        counts = integers[K // self.lanes, :, K % self.lanes]
        # Rows with weight 0 are excluded: a leaf with only such rows would predict a class without evidence.
        counts[self.weight == 0] = 0
        rows = np.flatnonzero(self.gradient[np.arange(data.n_rows), data.y] == 1.0)
        integers[data.y[rows] // self.lanes, rows, data.y[rows] % self.lanes] = counts[rows]
        self.counts = counts
        return integers
