"""What classification trees are grown on: no loss, but held as one."""

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
    units : float
        Of a weight of 1, where the weights of all rows that have one are 1 on average.
    """

    def __init__(self, data, n_threads, drawn=1.0):
        super().__init__(data, n_threads)
        self.units = scale_of(data.total_rows, max(1, round(drawn * data.n_rows)), 1.0)
        # Bounds of weights are about weights that are 1 on average, as those of every tree are.
        self.weight, self.bound_scale = data.weight / (data.total_weight / data.total_rows), 1.0
        self.gradient[np.arange(data.n_rows), data.y] = 1.0

    def least(self, weight):
        """No bound: a leaf needs one row."""
        return 1

    def integers(self, key=None):
        """Weights as integers (blocks, m, lanes), in the column of each row's class and in that of the sums."""
        integers = self._quantise(self.weight, self.weight.sum(), None)
        # Rows of weight 0 take no part: a leaf of them alone would name a class that nothing speaks for.
        lane, K = self.lanes, self.data.n_classes
        integers[K // lane, self.weight == 0, K % lane] = 0
        return integers
