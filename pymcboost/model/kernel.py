"""Kernel machines: F(x) = intercept + sum over the support vectors z, in order, of coef(z) K(x, z)."""

from dataclasses import dataclass

import numpy as np

from pymcboost.model.arrays import finite, per_class
from pymcboost.model.kind import Machine
from pymcboost.model.scale import Scale
from pymcboost.threads import counted

KERNELS = {"linear": 0, "poly": 1, "rbf": 2, "perceptron": 5}
# Kernels of distances, which all features influence.
DISTANCES = "rbf", "perceptron"
MAX_DEGREE = 1000
FORMULAS = {
    "linear": "x . z",
    "poly": "(gamma x . z + coef0)^degree",
    "rbf": "exp(-gamma |x - z|^2)",
    "perceptron": "-|x - z|",
}


@dataclass(frozen=True, eq=False)
class KernelMachine(Machine):
    """Kernel machine whose classes share the support vectors.

    Scores are ``intercept + sum of coef[i] * K(x, support[i])``. The parameters of the kernels have the same meaning as
    in LIBSVM:

    ============  ==========================================
    "linear"      ``x . z``
    "poly"        ``(gamma x . z + coef0) ^ degree``
    "rbf"         ``exp(-gamma |x - z|^2)``
    "perceptron"  ``coef0 - |x - z|``
    ============  ==========================================

    Attributes
    ----------
    kernel : {"linear", "poly", "rbf", "perceptron"}
        Kernel function.
    gamma : float
        Positive kernel coefficient, rounded to float32. "linear" and "perceptron" do not use it.
    coef0 : float
        Constant term, rounded to float32. "linear" and "rbf" do not use it. Saving a model with "perceptron" moves it
        into the intercept; it changes no score if the coefficients of each class sum to 0.
    degree : int
        Degree of "poly", from 0 to 1000.
    support : ndarray of float32 of shape (n_sv, d)
        Support vectors, scaled if there is a ``scale``.
    coef : ndarray of float32 of shape (n_sv, K)
        Coefficients of the support vectors for each class.
    intercept : ndarray of float32 of shape (K,)
        Intercepts.
    scale : Scale or None
        Scaling that is applied to the features of a row first.
    """

    KIND = 6
    NAME = "kernel machine"
    share_of = None

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
    def n_features(self):
        """Number of features, d."""
        return np.shape(self.support)[1]

    def canonical(self):
        """Check the model and return it in the canonical form in which it is saved.

        It has contiguous float32 arrays without negative zeros. Parameters that the kernel does not use are 0. Support
        vectors whose coefficients are all 0 are left out. The constant term of "perceptron" is added to the intercept.

        Raises
        ------
        ValueError
            If the kernel or a parameter is out of range, shapes disagree, or a number is not finite in float32.
        """
        if self.kernel not in KERNELS:
            raise ValueError(
                f"kernel must be one of {', '.join(map(repr, KERNELS))}, not {self.kernel!r}"
            )
        if np.ndim(self.support) != 2:
            raise ValueError(
                f"support must have shape (support vectors, features), not {np.shape(self.support)}"
            )
        n, d = np.shape(self.support)
        gamma = 0.0
        coef0 = 0.0
        degree = 0
        if self.kernel in ("poly", "rbf"):
            gamma = float(finite("gamma", self.gamma, ()))
        if self.kernel in ("poly", "perceptron"):
            coef0 = float(finite("coef0", self.coef0, ()))
        if self.kernel == "poly":
            degree = self.degree
        if self.kernel in ("poly", "rbf") and not gamma > 0:
            raise ValueError(f"gamma must be positive and at least 1.5e-45, not {self.gamma!r}")
        if degree != int(degree) or not 0 <= degree <= MAX_DEGREE:
            raise ValueError(
                f"degree must be an integer from 0 to {MAX_DEGREE}, not {self.degree!r}"
            )
        intercept = self.intercept
        if self.kernel == "perceptron":
            shift = coef0 * np.asarray(self.coef, dtype=np.float64).sum(axis=0)
            intercept = np.asarray(intercept, dtype=np.float64) + shift
            coef0 = 0.0
        intercept = per_class("intercept", intercept)
        support = finite("support", self.support, (n, d))
        coef = finite("coef", self.coef, (n, len(intercept)))
        used = coef.any(axis=1)
        if not used.all():
            support = support[used]
            coef = coef[used]
        scale = None if self.scale is None else self.scale.canonical(d)
        return KernelMachine(
            self.kernel, gamma, coef0, int(degree), support, coef, intercept, scale
        )

    def sections(self):
        parameters = [KERNELS[self.kernel], self.gamma, self.coef0, self.degree]
        sections = [
            ("SVEC", self.support),
            ("DUAL", self.coef),
            ("KPAR", np.array(parameters, dtype=np.float32)),
        ]
        if self.scale is not None:
            sections.append(("SCAL", np.concatenate([self.scale.offset, self.scale.factor])))
        return sections

    def dump(self):
        parameters = ("kernel", "gamma", "coef0", "degree")
        yield "kernel", {name: getattr(self, name) for name in parameters}
        scale = self.scale
        yield "scale", scale and {"offset": scale.offset.tolist(), "factor": scale.factor.tolist()}
        vectors = zip(self.support, self.coef, strict=True)
        yield "support", ({"x": x.tolist(), "coef": coef.tolist()} for x, coef in vectors)

    @classmethod
    def from_sections(cls, sections, header):
        number, gamma, coef0, degree = sections["KPAR"].tolist()
        kernel = next(name for name, value in KERNELS.items() if value == number)
        support = sections["SVEC"].reshape(-1, header.n_features)
        coef = sections["DUAL"].reshape(-1, header.n_classes)
        scale = Scale(*sections["SCAL"].reshape(2, -1)) if "SCAL" in sections else None
        return cls(kernel, gamma, coef0, int(degree), support, coef, sections["BIAS"], scale)

    def used_features(self):
        """Features that can change a kernel value; no importances."""
        used = (self.support != 0).any(axis=0) | (self.kernel in DISTANCES and len(self) > 0)
        if self.scale is not None:
            used &= self.scale.factor != 0
        feature = np.flatnonzero(used)
        return feature, np.zeros(len(feature))

    def summary(self, staged):
        return f"{self.NAME} ({self.kernel}), {counted(len(self), 'support vector')}"

    def describe(self, leaves):
        return {
            "kernel": {
                "name": self.kernel,
                "gamma": self.gamma,
                "coef0": self.coef0,
                "degree": self.degree,
                "support_vectors": len(self),
                "scaled": self.scale is not None,
            }
        }

    @staticmethod
    def lines(facts):
        kernel = facts["kernel"]
        formula = FORMULAS[kernel["name"]]
        parameters = " ".join(
            f"{name}={kernel[name]:.6g}" for name in ("gamma", "coef0", "degree") if name in formula
        )
        text = f"{kernel['name']}: {formula}"
        yield "kernel", f"{text} with {parameters}" if parameters else text
        yield "vectors", counted(kernel["support_vectors"], "support vector")
        yield "scaling", "in the model" if kernel["scaled"] else "none"
