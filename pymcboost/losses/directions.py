"""Fewer columns than classes: splits are found on the gradients of all classes in a few directions.

A direction is a vector of the classes (K,); the gradient of a row in it is their product. Leaf vectors stay those of
all classes. See Iosipoi and Vakhrushev, "SketchBoost: Fast gradient boosted decision tree for multioutput problems",
NeurIPS 2022.
"""

import numpy as np

from pymcboost._kernels import vtrees as _vtrees
from pymcboost.losses.rows import SMALLEST_GRADIENT, Integers

# "auto": splits are found in so many directions where there are more than MANY classes.
MANY, FEW = 32, 15
# Rows whose gradients tell which directions matter.
SAMPLE = 4096


def directions_for(split_columns, n_classes):
    """Number of directions, or None where splits are found on the classes themselves."""
    if split_columns == "auto":
        split_columns = FEW if n_classes > MANY else None
    return None if split_columns is None or split_columns > n_classes else split_columns


def signs(gradient, n, rng):
    """Random signs, as many of one as of the other: products keep their lengths on average."""
    K = gradient.shape[1]
    halves = np.where(np.arange(K) < K // 2, 1.0, -1.0)
    return rng.permuted(np.tile(halves[:, None], (1, n)), axis=0) / np.sqrt(n)


def largest(gradient, n, rng):
    """The classes with the longest columns."""
    return np.eye(len(gradient.T))[:, np.argsort(-_lengths(gradient), kind="stable")[:n]]


def sampled(gradient, n, rng):
    """Classes drawn by the squared lengths of their columns, scaled so that products keep theirs on average."""
    share = _lengths(gradient)
    share = share / share.sum()
    drawn = rng.choice(len(share), n, p=share)
    return np.eye(len(share))[:, drawn] / np.sqrt(n * share[drawn])


def leading(gradient, n, rng):
    """The directions in which the gradients vary most."""
    rows = gradient[:: max(1, len(gradient) // SAMPLE)][:SAMPLE].astype(np.float64)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    return vectors[:, ::-1][:, :n]


def _lengths(gradient):
    rows = gradient[:: max(1, len(gradient) // SAMPLE)][:SAMPLE].astype(np.float64)
    return (rows * rows).sum(axis=0)


class Directions(Integers):
    """The gradients of a loss in a few directions, drawn anew for every tree.

    Parameters
    ----------
    loss : losses.rows.Rows
    n_columns : int
    """

    draw = staticmethod(signs)

    def __init__(self, loss, n_columns):
        super().__init__(loss.data, loss.n_threads, n_columns)
        self.loss = loss

    def integers(self, key):
        """As `Rows.integers`, in the directions of this key."""
        loss, K = self.loss, self.data.n_classes
        rng = np.random.Generator(np.random.PCG64(int(key)))
        P = np.zeros((K, self.width), dtype=np.float32)
        P[:, : self.n_columns] = self.draw(loss.gradient[:, :K], self.n_columns, rng)
        sums = _vtrees.project(loss.gradient, P, loss.weight, self.lanes, self.gradient, self.n_threads)
        top = float(sums.max())
        if not top > SMALLEST_GRADIENT * loss.total and not loss.loss.scaled:
            return None
        return self._quantise(loss.weight, top, loss.units)
