"""Scaling of features inside a machine."""

from dataclasses import dataclass

import numpy as np

from pymcboost.model.arrays import finite


@dataclass(frozen=True, eq=False)
class Scale:
    """Scaling of the features: feature j becomes ``(x - offset[j]) * factor[j]``.

    Both operations are done in float64 on float32 numbers, the result is rounded to float32.

    Attributes
    ----------
    offset : ndarray of float32 (d,)
    factor : ndarray of float32 (d,)
        0 makes a feature 0.
    """

    offset: np.ndarray
    factor: np.ndarray

    @classmethod
    def from_range(cls, low, high):
        """Create a scale that maps features from [low, high] to [-1, 1]; constant features become 0.

        Parameters
        ----------
        low, high : array-like (d,)
            Finite.
        """
        low = np.asarray(low, dtype=np.float64)
        high = np.asarray(high, dtype=np.float64)
        offset = ((low + high) / 2).astype(np.float32)
        with np.errstate(divide="ignore", over="ignore"):
            factor = (2 / (high - low)).astype(np.float32)
        return cls(offset, np.where(np.isfinite(factor), factor, np.float32(0)))

    def apply(self, X):
        """Scale rows: float32 (m, d), bit for bit as in a scorer.

        Parameters
        ----------
        X : array-like (m, d)
            Cast to float32 first.
        """
        X = np.asarray(X, dtype=np.float32).astype(np.float64)
        X -= self.offset
        X *= self.factor
        with np.errstate(over="ignore"):
            return X.astype(np.float32)

    def canonical(self, n_features):
        """Check the scale and return it in the canonical form in which it is saved; ValueError if it is invalid."""
        shape = (n_features,)
        return Scale(
            finite("scale.offset", self.offset, shape), finite("scale.factor", self.factor, shape)
        )
