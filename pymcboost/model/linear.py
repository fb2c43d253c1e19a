"""Linear machines: F(x) = intercept + coef x."""

from dataclasses import dataclass

import numpy as np

from pymcboost.model.checks import finite, intercept_of
from pymcboost.model.scale import Scale


@dataclass(frozen=True, eq=False)
class LinearMachine:
    """Scores ``intercept + coef x``.

    Attributes
    ----------
    coef : ndarray of float32 (K, d)
    intercept : ndarray of float32 (K,)
    scale : Scale or None
        Coefficients are those of scaled features. It is folded into ``coef`` and ``intercept`` when the model is saved,
        so that a model has none.
    """

    coef: np.ndarray
    intercept: np.ndarray
    scale: Scale | None = None

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.intercept)

    @property
    def n_features(self):
        """Number of features, d."""
        return np.shape(self.coef)[1]

    @property
    def bias(self):
        """The same as ``intercept``."""
        return self.intercept

    def canonical(self):
        """The same model in the one form that is saved, after checking it.

        Contiguous float32 arrays without negative zeros; a scale is folded: ``coef * factor`` is rounded to float32,
        and the intercept takes off the rounded coefficients times the offsets, rounded once.

        Raises
        ------
        ValueError
            If shapes disagree or a number is not finite in float32.
        """
        coef, intercept = self.coef, self.intercept
        if np.ndim(coef) != 2:
            raise ValueError(f"coef must have shape (classes, features), not {np.shape(coef)}")
        if self.scale is not None:
            scale = self.scale.canonical(self.n_features)
            with np.errstate(over="ignore"):
                coef = (np.asarray(coef, dtype=np.float64) * scale.factor).astype(np.float32)
            # Summed without BLAS, so that the same bits come out everywhere.
            shift = (coef.astype(np.float64) * scale.offset).sum(axis=1)
            intercept = np.asarray(intercept, dtype=np.float64) - shift
        intercept = intercept_of(intercept)
        return LinearMachine(finite("coef", coef, (len(intercept), self.n_features)), intercept)
