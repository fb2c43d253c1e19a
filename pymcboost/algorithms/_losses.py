"""Probabilities of estimators with a custom loss, whose link a model file cannot store."""

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
    """Method that does not exist if the loss is a function, so that scikit-learn uses another one."""

    def __init__(self, method):
        self._method = method
        update_wrapper(self, method)

    def __get__(self, estimator, owner=None):
        if estimator is not None:
            estimator._refuse_function()
        return self._method.__get__(estimator, owner)


def with_link(method: Method) -> Method:
    """Decorate a method that needs probabilities."""
    return cast(Method, _WithLink(method))


@estimator
class EstimatorOfLosses(EnsembleClassifier):
    """Base class of estimators that accept a custom ``loss``."""

    loss: Any

    def _custom_loss(self):
        """The custom loss of the model, or of the next model; None if the loss is built in."""
        loss = self.loss
        model = getattr(self, "model_", None)
        if model is not None:
            if model.has_probabilities:
                return None
            kept = getattr(self, "_kept", None) or {}
            loss = kept.get("loss", loss)
        return loss_of(loss) if callable(loss) or hasattr(loss, "gradient_hessian") else None

    def _refuse_function(self):
        """Refuse a custom loss that is a plain function, which has no link."""
        loss = self._custom_loss()
        if loss is not None and not loss.gives_probabilities:
            raise AttributeError(
                f"the loss {loss.name} is a plain function, so there are no probabilities; use "
                "decision_function or predict, or give an object with the method link(scores)"
            )

    @with_link
    @explains_arguments
    def predict_proba(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Predict class probabilities; a custom loss has them if it is an object with a method ``link``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to predict.
        init_score : array-like of shape (n_samples, n_classes) or (n_samples,), default=None
            Scores to which the scores of the model are added, as in `fit`.
        missing : {"allow", "error"}, default="allow"
            "error" raises an error if a value is missing in a column that had no missing values in training.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, with the columns in the order of ``classes_``. For multi-label data, the probability of each
            label.
        """
        custom_loss = self._custom_loss()
        if custom_loss is None:
            return super().predict_proba(X, init_score=init_score, missing=missing)
        X, initial = self._checked(X, init_score, missing)
        return custom_loss.probabilities(self.model_.raw_scores(X, n_jobs=self.n_jobs, **initial))

    @with_link
    def predict_log_proba(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Predict the logarithms of the class probabilities.

        They are finite even if a probability is rounded to 0.

        Parameters
        ----------
        X, init_score, missing
            See `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of the probabilities.
        """
        custom_loss = self._custom_loss()
        if custom_loss is None:
            return super().predict_log_proba(X, init_score=init_score, missing=missing)
        X, initial = self._checked(X, init_score, missing)
        scores = self.model_.raw_scores(X, n_jobs=self.n_jobs, **initial)
        return custom_loss.log_probabilities(scores)

    @with_link
    def staged_predict_proba(self, X: Features) -> Iterator[NDArray[np.float64]]:
        """Yield class probabilities after each boosting round.

        The last ones equal `predict_proba` up to rounding. A calibrated model uses the temperature of all rounds after
        every round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to predict.

        Yields
        ------
        ndarray of shape (n_samples, n_classes)
            Probabilities after one more round.
        """
        custom_loss = self._custom_loss()
        if custom_loss is None:
            return super().staged_predict_proba(X)
        X = self._check_X(X)
        return map(custom_loss.probabilities, self.model_.staged_raw_scores(X))

    def calibrate_on(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
    ) -> Self:
        """Calibrate the probabilities of the fitted model on rows that it has not been trained on.

        The temperature with the smallest log loss on these rows replaces the one of the model until the next `fit`.
        Scores and predictions do not change.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows that the model has not been trained on.
        y : array-like of shape (n_samples,)
            Class labels of these rows. Some classes may be absent.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sample weights.
        init_score : array-like, default=None
            Scores to which the scores of the model are added, as in `fit`.

        Returns
        -------
        self : VectorTreeBoostClassifier
            The calibrated estimator.

        Raises
        ------
        ValueError
            If the model has a custom loss or is for multi-label data: such models have no temperature.
        """
        if self._custom_loss() is not None:
            raise ValueError(
                "calibrate_on: a custom loss has its own link, so there is no temperature to fit"
            )
        return super().calibrate_on(X, y, sample_weight, init_score=init_score)
