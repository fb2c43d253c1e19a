"""What classification trees are grown on: no loss, but held as one."""

import numpy as np

from pymcboost.losses.rows import Integers


class ClassWeights(Integers):
    """The rows' weights, as a gradient of each row's own class.

    Parameters
    ----------
    data : TreeData
    n_threads : int

    Attributes
    ----------
    weight : ndarray (m,)
        To be set before every tree.
    """

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self.weight = data.weight
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
