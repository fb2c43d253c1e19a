"""What losses of pairwise margins share.

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
    """Whether there are so many classes that tables of all pairs are done without, as far as possible."""
    return n_classes > MANY_COLUMNS


class Pairwise:
    """A loss that is a sum of L(rho_ir) over the classes r other than y_i, for weak learners that all classes share.

    Attributes
    ----------
    link : {"softmax", "softmax2"}
        How scores become probabilities: softmax(F), or softmax(2 F).
    """

    link = "softmax"

    def terms(self, minus, weight, limit, smallest, out=None):
        """Losses, in place of margins -rho, and weights u (to ``out``, if given), both times ``weight``.

        limit : exponents above it are not formed; smallest : what is added to weights that may vanish.
        """
        raise NotImplementedError

    def blocks(self, data, n_threads=1):
        """The loss at work in blocks of classes."""
        raise NotImplementedError


class PairwiseBlocks(Blocks):
    """A pairwise loss at work in blocks of classes.

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
        Whether there are so many classes that coefficients are found with fewer tables of all pairs, or none.
    """

    def __init__(self, data, n_threads):
        super().__init__(data, data.n_classes, n_threads)
        self.large = is_large(data.n_classes)
        self._all = np.arange(data.n_classes)

    def stopping_edge(self, edge):
        """Edge with the weights normalised to sum to 1, diagonal included, as in the stopping rule."""
        return edge / (self.mass + self.diagonal)

    def _margins(self, scores):
        """Yield (slice of rows, -rho, own-class mask) from raw scores (m, K), or from zero scores.

        What is made for the rows may be written to. Drop it before the next: of very many classes it is large.
        """
        for rows in self.row_slices():
            yield rows, *self._margin(scores, rows)

    def _margin(self, scores, rows):
        is_own_class = self.data.y[rows, None] == self._all
        if scores is None:
            return np.zeros(is_own_class.shape), is_own_class
        F = scores[rows]
        return np.subtract(
            F, F[is_own_class][:, None], out=F if F.base is None else None
        ), is_own_class

    def _store(self, rows, u, is_own_class):
        """Gradient of rows from their weights, which are 0 for the own class; they are written over."""
        sums = u.sum(axis=1)
        np.negative(u, out=u)
        u[is_own_class] = sums
        self._scatter(self.gradient, rows, u)

    def _lay_out(self, sides, scale, added):
        """Factors exp(w_r - w_c) of an update without another table, for the two ``sides`` (K,) of a weak learner."""
        K = len(self._all)
        for to, w in zip(self._factors, sides, strict=False):
            np.multiply.outer(exp(-w), exp(w) * scale, out=to[:, :K], casting="same_kind")
        self._factors[2, :, :K] = added
        self._factors[:, self._all, self._all] = 0
