"""Machines whose kernel is a Python function: they predict like others, but cannot be saved or pickled."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymcboost.hinge.kernels import kernel_block
from pymcboost.model.kind import Machine
from pymcboost.model.labels import number_of
from pymcboost.model.rows import check_shape
from pymcboost.model.scale import Scale
from pymcboost.model.temperature import Calibration

SCORED_AT_ONCE = 512
REFUSED = (
    "a model with a callable kernel cannot be saved or pickled, because a file stores "
    "numbers, not functions. Use one of the built-in kernels, or fit again where you need the "
    "model"
)


@dataclass(frozen=True, eq=False)
class CallableMachine(Machine):
    """Support vectors and coefficients of a machine with a callable kernel."""

    kernel: Callable[..., Any]
    support: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    scale: Scale | None

    def scores(self, X):
        """Scores of the classes: (m, K)."""
        scores = np.tile(self.intercept, (len(X), 1))
        if not len(self.support):
            return scores
        for begin in range(0, len(X), SCORED_AT_ONCE):
            rows = np.asarray(X[begin : begin + SCORED_AT_ONCE], dtype=np.float32)
            if self.scale is not None:
                rows = self.scale.apply(rows)
            values = kernel_block(rows, self.support, self.kernel, gamma=1.0, coef0=0.0, degree=1)
            scores[begin : begin + len(rows)] += values @ self.coef
        return scores


class CallableKernelModel(Calibration):
    """Model with a callable kernel: predicts like a `Model`, but cannot be saved."""

    has_stages = False
    is_machine = True
    n_rounds = None
    link = "none"
    categories = None

    def __init__(self, machine, classes, meta, calibration=None):
        self.ensemble = machine
        self.classes_ = classes
        self.meta = meta
        self._calibration = calibration
        self.information = meta

    def _sections(self):
        return {"CALB": self._calibration}

    def _changed(self, ensemble=None, **changed):
        ensemble = self.ensemble if ensemble is None else ensemble
        return CallableKernelModel(
            ensemble, self.classes_, self.meta, calibration=changed.get("CALB", self._calibration)
        )

    def raw_scores(self, X, n_jobs=None):
        """Scores of the classes: (m, K)."""
        if hasattr(X, "tocsr"):
            raise ValueError("a model with a callable kernel needs dense X; use X.toarray()")
        X = np.asarray(X)
        check_shape(X, self.ensemble.support.shape[1])
        return self.ensemble.scores(X)

    def decision_function(self, X, n_jobs=None):
        """Scores of the classes; for two classes, the score of the second minus that of the first."""
        scores = self.raw_scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_codes(self, X, n_jobs=None):
        """Positions of the predicted labels: (m,)."""
        return self.raw_scores(X).argmax(axis=1)

    def predict(self, X, n_jobs=None):
        """Predicted labels: (m,)."""
        return self.classes_[self.predict_codes(X)]

    def _top(self, X, k, n_jobs):
        """Positions of the k classes with the largest scores (m, k), and these scores."""
        k = number_of(k, len(self.classes_))
        scores = self.raw_scores(X)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(scores, best, axis=1)

    def predict_proba(self, X, n_jobs=None):
        """Softmax of the scores divided by the temperature: (m, K)."""
        self._need_probabilities()
        scores = self.raw_scores(X)
        exponentials = np.exp((scores - scores.max(axis=1, keepdims=True)) * self._calibration)
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def staged_decision_function(self, X):
        """Not available: there are no stages."""
        raise ValueError(
            "this model is a kernel machine that merges all rounds, so it has no stages"
        )

    def to_bytes(self, layout=None, leaves=None):
        """Not available: a file cannot store a function."""
        raise ValueError(REFUSED)

    def save(self, path, layout=None, leaves=None):
        """Not available: a file cannot store a function."""
        raise ValueError(REFUSED)

    def __getstate__(self):
        raise pickle.PicklingError(REFUSED)
