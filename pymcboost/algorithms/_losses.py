"""What an estimator says of rows where its loss has no link in a model file: probabilities by the loss itself."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost.losses import loss_of
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import estimator

Features = Any


@estimator
class EstimatorOfLosses(EnsembleClassifier):
    """Estimators whose ``loss`` may be given."""

    loss: Any

    def _given(self):
        """The loss that is given, which must have probabilities."""
        loss = loss_of(self.loss)
        if not loss.gives_probabilities:
            raise ValueError(
                f"the loss {loss.name} is a function, and has no probabilities; use decision_function or predict, or "
                "give an object with the method link(scores)"
            )
        return loss

    def predict_proba(self, X: Features) -> NDArray[np.float64]:
        """Class probabilities by the loss's link, (n_samples, n_classes); calibrated where there is a temperature."""
        if isinstance(self.loss, str):
            return super().predict_proba(X)
        X = self._check_X(X)
        return self._given().probabilities(self.model_.raw_scores(X, n_jobs=self.n_jobs))

    def predict_log_proba(self, X: Features) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`, finite where that rounds to 0: (n_samples, n_classes)."""
        if isinstance(self.loss, str):
            return super().predict_log_proba(X)
        X = self._check_X(X)
        return self._given().log_probabilities(self.model_.raw_scores(X, n_jobs=self.n_jobs))

    def staged_predict_proba(self, X: Features) -> Iterator[NDArray[np.float64]]:
        """Yield class probabilities after every round; the last are those of `predict_proba`, but for rounding.

        A calibrated model has its temperature, which is one of all rounds, after every round.
        """
        if isinstance(self.loss, str):
            return super().staged_predict_proba(X)
        X = self._check_X(X)
        return map(self._given().probabilities, self.model_.staged_raw_scores(X))

    def calibrate_on(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Give the model the temperature at which `predict_proba` has the least log loss on these rows.

        See `MCBoostClassifier.calibrate_on`. A loss that is given has a link of its own, and no temperature.
        """
        if not isinstance(self.loss, str):
            raise ValueError("calibrate_on: a loss that is given has a link of its own, and no temperature")
        return super().calibrate_on(X, y, sample_weight)
