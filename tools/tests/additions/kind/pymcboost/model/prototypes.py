"""Prototypes: F_k(x) = bias_k - sum over the features j of |x_j - prototype_kj|."""

from dataclasses import dataclass

import numpy as np

from pymcboost.model.arrays import finite, per_class
from pymcboost.model.kind import Kind


@dataclass(frozen=True, eq=False)
class Prototypes(Kind):
    """A point for each class; scores are minus the distances to them. Missing features count nothing.

    Attributes
    ----------
    prototype : ndarray of float32 (K, d)
    bias : ndarray of float32 (K,)
    """

    KIND = 8
    NAME = "prototypes"
    no_stages = "this model has one prototype for each class: it has no stages"
    share_of = "the spread of the prototypes"

    prototype: np.ndarray
    bias: np.ndarray

    @property
    def n_features(self):
        """Number of features, d."""
        return np.shape(self.prototype)[1]

    def canonical(self):
        """The same model, after checking it."""
        bias = per_class("bias", self.bias)
        return Prototypes(finite("prototype", self.prototype, (len(bias), self.n_features)), bias)

    def sections(self):
        return [("PROT", self.prototype)]

    @classmethod
    def from_sections(cls, sections, header):
        return cls(sections["PROT"].reshape(header.n_classes, -1), sections["BIAS"])

    def used_features(self):
        """Features in which the prototypes differ, and by how much."""
        spread = np.ptp(self.prototype.astype(np.float64), axis=0)
        return np.flatnonzero(spread), spread[spread > 0]

    @staticmethod
    def lines(facts):
        """Nothing."""
        return ()

    def dump(self):
        yield "prototypes", self.prototype.tolist()
