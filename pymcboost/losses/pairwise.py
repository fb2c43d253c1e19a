"""Base classes of losses of pairwise margins.

With margins rho_ir = F[y_i] - F[r], the weights are u_ir = exp(-rho_ir) (exponential) or 1 / (1 + exp(rho_ir))
(logistic), and the negative gradient of the loss with respect to F is a_ir = [r = y_i] sum_l u_il - u_ir
(Paisitkriangkrai, Shen and van den Hengel, eqs. 10-12).
"""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.data.rows import MANY_COLUMNS
from pymcboost.losses.blocks import Blocks

exp = elementary.exp


def is_large(n_classes):
    """Whether there are so many classes that tables of all pairs are avoided if possible."""
    return n_classes > MANY_COLUMNS


class Pairwise:
    """Loss that sums L(rho_ir) over all classes r except y_i, for weak learners shared by all classes.

    Attributes
    ----------
    link : {"softmax", "softmax2"}
        How scores become probabilities: softmax(F), or softmax(2 F).
    """

    link = "softmax"

    def terms(self, minus, weight, limit, smallest, out=None):
        """Replace margins -rho by their losses, and write weights u to ``out`` if given, both times ``weight``.

        Exponents above ``limit`` are clipped. ``smallest`` is added to weights, so that none becomes 0.
        """
        raise NotImplementedError

    def blocks(self, data, n_threads=1):
        """Apply the loss in blocks of classes."""
        raise NotImplementedError


class PairwiseBlocks(Blocks):
    """Pairwise loss in blocks of classes.

    Parameters
    ----------
    data : TrainingData
    n_threads : int

    Attributes
    ----------
    mass : float
        Sum of the off-diagonal weights, in the scale of ``gradient``.
    diagonal : float
        Sum of the weights of the own classes, where rho_ir = 0, in the same scale.
    large : bool
        Whether there are so many classes that coefficients are found with fewer tables of all pairs, or without any.
    """

    def __init__(self, data, n_threads):
        super().__init__(data, data.n_classes, n_threads)
        self.large = is_large(data.n_classes)
        self._class_numbers = np.arange(data.n_classes)

    def stopping_edge(self, edge):
        """Edge for weights that are normalized to a sum of 1, including the diagonal, as in the stopping rule."""
        return edge / (self.mass + self.diagonal)

    def _margins(self, scores):
        """Yield (slice of rows, -rho, mask of true classes) for raw scores (m, K), or for zero scores.

        The arrays may be overwritten. Drop them before the next iteration: with very many classes, they are large.
        """
        for rows in self.row_slices():
            yield rows, *self._margin(scores, rows)

    def _margin(self, scores, rows):
        is_own_class = self.data.y[rows, None] == self._class_numbers
        if scores is None:
            return np.zeros(is_own_class.shape), is_own_class
        F = scores[rows]
        own_score = F[is_own_class][:, None]
        # Without a copy if F is not a view of the scores.
        return np.subtract(F, own_score, out=F if F.base is None else None), is_own_class

    def _store(self, rows, u, is_own_class):
        """Store the gradient of rows, given their weights, which are 0 for the true class and are overwritten."""
        sums = u.sum(axis=1)
        np.negative(u, out=u)
        u[is_own_class] = sums
        self._scatter(self.gradient, rows, u)

    def _fill_factors(self, plus, minus, scale, added):
        """Fill in factors exp(w_r - w_c) of an update without another table; w is ``plus`` or ``minus`` (K,)."""
        K = self.data.n_classes
        for side, w in enumerate((plus, minus)):
            out = self._factors[side, :, :K]
            np.multiply.outer(exp(-w), exp(w) * scale, out=out, casting="same_kind")
        self._factors[2, :, :K] = added
        self._factors[:, self._class_numbers, self._class_numbers] = 0
