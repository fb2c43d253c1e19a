"""What an estimator says of rows where its loss has no link in a model file: probabilities by the loss itself."""

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost.losses import loss_of
from pymcboost.model.missing import Missing
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import estimator
from pymcboost.training.prediction import explains_arguments

Features = Any
Method = TypeVar("Method", bound=Callable[..., Any])


class _WithLink:
    """A method that an estimator has not where its loss is a function: so scikit-learn asks for another one."""

    def __init__(self, method):
        self._method = method
        update_wrapper(self, method)

    def __get__(self, one, owner=None):
        if one is not None:
            one._refuse_function()
        return self._method.__get__(one, owner)


def with_link(method: Method) -> Method:
    """Decorator of methods that need probabilities."""
    return cast(Method, _WithLink(method))


@estimator
class EstimatorOfLosses(EnsembleClassifier):
    """Estimators whose ``loss`` may be given."""

    loss: Any

    def _given(self):
        """The loss of the model, or of the next one, where it is one that is given; else None."""
        model = getattr(self, "model_", None)
        if model is not None and model.has_probabilities:
            return None
        loss = (
            (getattr(self, "_kept", None) or {}).get("loss", self.loss)
            if model is not None
            else self.loss
        )
        return loss_of(loss) if callable(loss) or hasattr(loss, "gradient_hessian") else None

    def _refuse_function(self):
        loss = self._given()
        if loss is not None and not loss.gives_probabilities:
            raise AttributeError(
                f"the loss {loss.name} is a function, and has no probabilities; use decision_function or predict, or "
                "give an object with the method link(scores)"
            )

    @with_link
    @explains_arguments
    def predict_proba(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Class probabilities by the loss's link, (n_samples, n_classes); calibrated where there is a temperature.

        Scores are added to ``init_score`` before, where it is given; see `fit`. ``missing="error"`` refuses a missing
        value in a column that had none in training.
        """
        given = self._given()
        if given is None:
            return super().predict_proba(X, init_score=init_score, missing=missing)
        X, first = self._checked(X, init_score, missing)
        return given.probabilities(self.model_.raw_scores(X, n_jobs=self.n_jobs, **first))

    @with_link
    def predict_log_proba(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`, finite where that rounds to 0: (n_samples, n_classes)."""
        given = self._given()
        if given is None:
            return super().predict_log_proba(X, init_score=init_score, missing=missing)
        X, first = self._checked(X, init_score, missing)
        return given.log_probabilities(self.model_.raw_scores(X, n_jobs=self.n_jobs, **first))

    @with_link
    def staged_predict_proba(self, X: Features) -> Iterator[NDArray[np.float64]]:
        """Yield class probabilities after every round; the last are those of `predict_proba`, but for rounding.

        A calibrated model has its temperature, which is one of all rounds, after every round.
        """
        given = self._given()
        if given is None:
            return super().staged_predict_proba(X)
        X = self._check_X(X)
        return map(given.probabilities, self.model_.staged_raw_scores(X))

    def calibrate_on(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
    ) -> Self:
        """Give the model the temperature at which `predict_proba` has the least log loss on these rows.

        See `MCBoostClassifier.calibrate_on`. A loss that is given has a link of its own, and no temperature.
        """
        if self._given() is not None:
            raise ValueError(
                "calibrate_on: a loss that is given has a link of its own, and no temperature"
            )
        return super().calibrate_on(X, y, sample_weight, init_score=init_score)
