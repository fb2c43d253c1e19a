"""Linear and kernel machines: the frozen arrays that are saved and scored.

Linear:  F(x) = intercept + coef x
Kernel:  F(x) = intercept + sum over the support vectors z, in order, of  coef(z) K(x, z)
"""

from dataclasses import dataclass

import numpy as np

KERNELS = {"linear": 0, "poly": 1, "rbf": 2, "perceptron": 5}
MAX_DEGREE = 1000


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
        """Scale that takes features from [low, high] to [-1, 1]; those that do not vary become 0.

        Parameters
        ----------
        low, high : array-like (d,)
            Finite.
        """
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        with np.errstate(divide="ignore", over="ignore"):
            factor = (2 / (high - low)).astype(np.float32)
        return cls(((low + high) / 2).astype(np.float32), np.where(np.isfinite(factor), factor, np.float32(0)))

    def apply(self, X):
        """Scaled rows: float32 (m, d), with the bits that a scorer computes with.

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
        """The same in the one form that is saved, after checking it; ValueError if it cannot be."""
        shape = (n_features,)
        return Scale(_finite("scale.offset", self.offset, shape), _finite("scale.factor", self.factor, shape))


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
        intercept = _intercept(intercept)
        return LinearMachine(_finite("coef", coef, (len(intercept), self.n_features)), intercept)


@dataclass(frozen=True, eq=False)
class KernelMachine:
    """Scores ``intercept + sum of coef[i] * K(x, support[i])``; all classes share the support vectors.

    Kernels, with LIBSVM's meanings of the parameters:

    ============  ==========================================
    "linear"      x . z
    "poly"        (gamma x . z + coef0) ^ degree
    "rbf"         exp(-gamma |x - z|^2)
    "perceptron"  coef0 - |x - z|
    ============  ==========================================

    Attributes
    ----------
    kernel : {"linear", "poly", "rbf", "perceptron"}
    gamma : float
        Positive; rounded to float32. Not used by "linear" and "perceptron".
    coef0 : float
        Rounded to float32. Not used by "linear" and "rbf". The shift of "perceptron" moves into the intercept when the
        model is saved; it changes no score where the coefficients of a class sum to 0.
    degree : int
        0 to 1000, for "poly".
    support : ndarray of float32 (n_sv, d)
        Scaled if there is a scale.
    coef : ndarray of float32 (n_sv, K)
    intercept : ndarray of float32 (K,)
    scale : Scale or None
        What is done to the features of a row first.
    """

    kernel: str
    gamma: float
    coef0: float
    degree: int
    support: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    scale: Scale | None = None

    def __len__(self):
        return len(self.support)

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.intercept)

    @property
    def n_features(self):
        """Number of features, d."""
        return np.shape(self.support)[1]

    @property
    def bias(self):
        """The same as ``intercept``."""
        return self.intercept

    def canonical(self):
        """The same model in the one form that is saved, after checking it.

        Contiguous float32 arrays without negative zeros; parameters that the kernel does not use are 0; support vectors
        whose coefficients are all 0 are left out; the shift of "perceptron" is added to the intercept.

        Raises
        ------
        ValueError
            If the kernel or a parameter is out of range, shapes disagree, or a number is not finite in float32.
        """
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(map(repr, KERNELS))}, not {self.kernel!r}")
        if np.ndim(self.support) != 2:
            raise ValueError(f"support must have shape (support vectors, features), not {np.shape(self.support)}")
        n, d = np.shape(self.support)
        gamma = float(_finite("gamma", self.gamma, ())) if self.kernel in ("poly", "rbf") else 0.0
        coef0 = float(_finite("coef0", self.coef0, ())) if self.kernel in ("poly", "perceptron") else 0.0
        degree = self.degree if self.kernel == "poly" else 0
        if self.kernel in ("poly", "rbf") and not gamma > 0:
            raise ValueError(f"gamma must be positive and at least 1.5e-45, not {self.gamma!r}")
        if degree != int(degree) or not 0 <= degree <= MAX_DEGREE:
            raise ValueError(f"degree must be an integer from 0 to {MAX_DEGREE}, not {self.degree!r}")
        intercept = self.intercept
        if self.kernel == "perceptron":
            shift = coef0 * np.asarray(self.coef, dtype=np.float64).sum(axis=0)
            intercept, coef0 = np.asarray(intercept, dtype=np.float64) + shift, 0.0
        intercept = _intercept(intercept)
        support = _finite("support", self.support, (n, d))
        coef = _finite("coef", self.coef, (n, len(intercept)))
        used = coef.any(axis=1)
        if not used.all():
            support, coef = support[used], coef[used]
        scale = None if self.scale is None else self.scale.canonical(d)
        return KernelMachine(self.kernel, gamma, coef0, int(degree), support, coef, intercept, scale)


def _intercept(values):
    intercept = _finite("intercept", values, (np.size(values),))
    if len(intercept) < 2:
        raise ValueError(f"a machine needs 2 classes or more, its intercept has {len(intercept)}")
    return intercept


def _finite(name, values, shape):
    values = np.asarray(values)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, but must have {shape}")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float32).reshape(shape)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds a number that is not finite in float32 (magnitude up to 3.4e38)")
    return values + np.float32(0)  # turns -0 into +0
