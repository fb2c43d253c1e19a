"""Fewer columns than classes: splits are found on sums and differences of the classes' gradients.

A direction has a sign for each class, + for a random half of them; the gradient of a row in it is the signed sum over
the classes. Every tree has directions of its own, and its leaf vectors are those of all classes. See Iosipoi and
Vakhrushev, "SketchBoost: fast gradient boosted decision tree for multioutput problems", NeurIPS 2022. Signs in equal
numbers, as gradients of a row have the sum 0: a direction of one sign would be empty.
"""

from pymcboost._kernels import vrows as _vrows
from pymcboost.losses.rows import SMALLEST_GRADIENT, Integers


class Directions(Integers):
    """The gradients of a loss in a few directions, drawn anew for every tree.

    Parameters
    ----------
    loss : losses.rows.Rows
    n_columns : int
    """

    def __init__(self, loss, n_columns):
        super().__init__(loss.data, loss.n_threads, n_columns)
        self.loss = loss

    def integers(self, key):
        """As `Rows.integers`, in the directions of this key."""
        loss, signs = self.loss, self.draw(key)
        sums = _vrows.project(loss.gradient, signs, loss.weight, self.lanes, self.gradient, self.n_threads)
        top = float(sums.max())
        if not top > SMALLEST_GRADIENT * loss.total and not loss.loss.scaled:
            return None
        return self._quantise(loss.weight, top, loss.units)

    def draw(self, key):
        """Directions (K, width), 0 in unused lanes."""
        return _vrows.half_signs(key, self.data.n_classes, self.n_columns, self.width)
