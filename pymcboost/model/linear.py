"""Linear machines: F(x) = intercept + coef x."""

from dataclasses import dataclass

import numpy as np

from pymcboost.model.arrays import finite, per_class
from pymcboost.model.kind import Machine
from pymcboost.model.scale import Scale


@dataclass(frozen=True, eq=False)
class LinearMachine(Machine):
    """Linear machine with one hyperplane per class: scores are ``intercept + coef x``.

    Attributes
    ----------
    coef : ndarray of float32 of shape (K, d)
        Coefficients of the features.
    intercept : ndarray of float32 of shape (K,)
        Intercepts.
    scale : Scale or None
        Scaling of the features that the coefficients refer to. Saving a model merges it into ``coef`` and
        ``intercept``, so a model never has one.
    """

    KIND = 5
    NAME = "linear machine"
    own_exits = ("certified",)
    share_of = "the sum of the absolute coefficients"

    coef: np.ndarray
    intercept: np.ndarray
    scale: Scale | None = None

    @property
    def n_features(self):
        """Number of features, d."""
        return np.shape(self.coef)[1]

    def canonical(self):
        """Check the model and return it in the canonical form in which it is saved.

        It has contiguous float32 arrays without negative zeros. A scale is merged: ``coef * factor`` is rounded to
        float32, and the rounded coefficients times the offsets are subtracted from the intercept, which is rounded
        once.

        Raises
        ------
        ValueError
            If shapes disagree or a number is not finite in float32.
        """
        coef = self.coef
        intercept = self.intercept
        if np.ndim(coef) != 2:
            raise ValueError(f"coef must have shape (classes, features), not {np.shape(coef)}")
        if self.scale is not None:
            scale = self.scale.canonical(self.n_features)
            with np.errstate(over="ignore"):
                coef = (np.asarray(coef, dtype=np.float64) * scale.factor).astype(np.float32)
            # Summed without BLAS, to get the same bits everywhere.
            shift = (coef.astype(np.float64) * scale.offset).sum(axis=1)
            intercept = np.asarray(intercept, dtype=np.float64) - shift
        intercept = per_class("intercept", intercept)
        return LinearMachine(finite("coef", coef, (len(intercept), self.n_features)), intercept)

    def sections(self):
        return [("WMAT", self.coef)]

    def dump(self):
        yield "coef", (row.tolist() for row in self.coef)

    @classmethod
    def from_sections(cls, sections, header):
        return cls(sections["WMAT"].reshape(header.n_classes, -1), sections["BIAS"])

    def used_features(self):
        """Features, and the sum of each one's absolute coefficients."""
        size = np.abs(self.coef.astype(np.float64)).sum(axis=0)
        feature = np.flatnonzero(size)
        return feature, size[feature]
