"""What classification trees are grown on: no loss, but held as one."""

import math

import numpy as np

from pymcboost.losses.rows import Integers, scale_of


class ClassWeights(Integers):
    """The rows' weights, as a gradient of each row's own class.

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
        Of a weight of 1, where the weights of all rows that have one are 1 on average.
    """

    def __init__(self, data, n_threads, drawn=1.0):
        super().__init__(data, n_threads)
        self.units = scale_of(data.total_rows, max(1, round(drawn * data.n_rows)), 1.0)
        # Bounds of weights are about weights that are 1 on average, as those of every tree are.
        self.weight = data.weight / (data.total_weight / data.total_rows)
        self.bound_scale = 1.0
        self.gradient[np.arange(data.n_rows), data.y] = 1.0

    def least(self, weight):
        """No bound: a leaf needs one row."""
        return 1

    def integers(self, key=None):
        """Weights as integers (blocks, m, lanes), in the column of each row's class and in that of the sums.

        Whole sample weights are whole multiples of each other as integers, too, as long as the weights are theirs:
        ties are ties. A row's class has the integer of its weight: in a pure node nothing gains.
        """
        data = self.data
        K = self.data.n_classes
        mean = data.total_weight / data.total_rows
        scale = mean * scale_of(data.total_rows, mean * self.weight.sum(), mean * self.weight.max())
        integers = self._quantise(
            self.weight, scale, scale, size=math.sqrt(2.0), total=self.weight.sum()
        )
        counts = integers[K // self.lanes, :, K % self.lanes]
        # Rows of weight 0 take no part: a leaf of them alone would name a class that nothing speaks for.
        counts[self.weight == 0] = 0
        rows = np.flatnonzero(self.gradient[np.arange(data.n_rows), data.y] == 1.0)
        integers[data.y[rows] // self.lanes, rows, data.y[rows] % self.lanes] = counts[rows]
        self.counts = counts
        return integers
