"""Exponential loss of coded problems; each problem is a column that separates some classes from others."""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost.losses.blocks import SMALLEST, Blocks

exp = elementary.exp
log = elementary.log


class CodedExp(Blocks):
    """Exponential loss of coded problems: the sum over rows i and columns j of w_ij = exp(-C[y_i, j] f_j(x_i)).

    Parameters
    ----------
    data : TrainingData
    code : ndarray (K, P)
        C; rows of classes with 0 take no part in a column.
    n_threads : int
    apart : bool, default=False
        Keep the sum of the weights of every column constant, instead of only the total sum.
    unit : ndarray (K, P), optional
        What the weights are multiplied with in ``gradient``: C, which makes it the negative gradient, if None.

    Attributes
    ----------
    mass : ndarray (P,)
        Sums of the weights of the columns, in the scale of ``gradient``.
    """

    def __init__(self, data, code, n_threads, *, apart=False, unit=None):
        self.code = np.ascontiguousarray(code, dtype=np.float64)
        K, P = self.code.shape
        super().__init__(data, P, n_threads)
        self.apart = apart
        self._unit = self.code if unit is None else np.asarray(unit, dtype=np.float64)
        self._inverse = np.divide(1.0, self._unit, out=np.zeros((K, P)), where=self._unit != 0)
        # Factors for h = +1 and for h = -1, and the number added; without the columns of padding.
        self._used_factors = self._factors[:, :, :P]
        self._used_factors[2] = SMALLEST * np.sign(self._unit)
        weights_by_class = np.split(data.weight, data.class_start[1:-1])
        class_weight = np.array([weights.sum() for weights in weights_by_class])
        self._start_mass = np.einsum("kp,k->p", np.abs(np.sign(self.code)), class_weight)

    def start(self, scores=None):
        """Compute the weights for scores (m, P) of the columns, or for f = 0."""
        weight = self.data.weight
        y = self.data.y
        if scores is None:
            self.mass = self._start_mass.copy()
            for rows in self.row_slices():
                self._scatter(self.gradient, rows, weight[rows, None] * self._unit[y[rows]])
            return
        shift = self._shift(scores)
        self.mass = np.zeros(self.code.shape[1])
        for rows in self.row_slices():
            w = weight[rows, None] * exp(self._exponents(scores, rows, shift))
            self.mass += w.sum(axis=0)
            self._scatter(self.gradient, rows, w * self._unit[y[rows]])

    def _exponents(self, scores, rows, shift):
        code = self.code[self.data.y[rows]]
        P = self.code.shape[1]
        return np.where(code != 0, -code * scores[rows, :P] - shift, -np.inf)

    def _shift(self, scores):
        """Offsets of the columns' exponents (P,) that give the weights their initial sums."""
        shift = np.full(self.code.shape[1], -np.inf)
        for rows in self.row_slices():
            shift = np.maximum(shift, self._exponents(scores, rows, 0.0).max(axis=0))
        # First make the largest exponents 0, so that nothing overflows. Columns whose classes have no rows have no
        # exponents.
        has_mass = self._start_mass > 0
        shift[~has_mass] = shift[has_mass].min()
        mass = np.zeros_like(shift)
        for rows in self.row_slices():
            mass += np.einsum(
                "i,ip->p", self.data.weight[rows], exp(self._exponents(scores, rows, shift))
            )
        if self.apart:
            ratio = np.divide(mass, self._start_mass, out=np.ones_like(mass), where=has_mass)
            return shift + log(ratio)
        # All columns share one sum and one shift.
        top = shift.max()
        total = (mass * exp(shift - top)).sum()
        return np.full_like(shift, top + log(total / self._start_mass.sum()))

    def tables(self, h):
        """Sums of the weights over the rows of each class with h = +1 and with h = -1: (2, K, P).

        Parameters
        ----------
        h : ndarray of int8 (1, m) or (P, m)
            Shared by the columns, or one row for each.
        """
        out = self.column_sums(self.gradient, h)
        out *= self._inverse
        return np.maximum(out, 0.0, out=out)

    def edges(self, tables):
        """Sums over the rows of w sign(C) h by column: (P,)."""
        return (np.sign(self.code) * (tables[0] - tables[1])).sum(axis=0)

    def update(self, h, plus, tables, minus=None):
        """Add ``plus`` (P,) to f where h = +1, and ``minus`` (``-plus`` if None) where h = -1; tables: those of h."""
        if minus is None:
            minus = -plus
        factors = [exp(-self.code * plus), exp(-self.code * minus)]
        mass = (tables[0] * factors[0] + tables[1] * factors[1]).sum(axis=0)
        if self.apart:
            scale = np.divide(self._start_mass, mass, out=np.ones_like(mass), where=mass > 0)
        else:
            scale = np.full(len(mass), self._start_mass.sum() / mass.sum())
        np.multiply(factors[0], scale, out=self._used_factors[0], casting="same_kind")
        np.multiply(factors[1], scale, out=self._used_factors[1], casting="same_kind")
        _weights.column_update(
            self.gradient, h, self._starts, self._classes, self._factors, self.n_threads
        )
        self.mass = mass * scale
