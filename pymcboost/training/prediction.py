"""Predictions of fitted estimators by their models, and saving a model."""

import functools
from collections.abc import Callable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost.model.init_scores import refuse_init_score
from pymcboost.model.missing import Missing, check_how
from pymcboost.model.model import Model
from pymcboost.model.rows import check_sparse
from pymcboost.training.dataset import Dataset
from pymcboost.training.inputs import encoded, validated

Features = Any  # arrays, data frames and sparse matrices, which have no common type


Method = TypeVar("Method", bound=Callable[..., Any])


def check_is_fitted(estimator):
    """Raise scikit-learn's error if the estimator is not fitted."""
    if not hasattr(estimator, "model_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
            "using this estimator."
        )


def explains_arguments(method: Method) -> Method:
    """Decorate a prediction method: unknown arguments of other libraries get an error that says what to write."""

    @functools.wraps(method)
    def call(self, X, *, init_score=None, missing="allow", **unknown):
        if unknown:
            # A table that only errors need.
            from pymcboost.training.other_names import hint_of_predict, unexpected

            hints = {name: hint_of_predict(name, method.__name__) for name in unknown}
            raise TypeError(unexpected(f"{type(self).__name__}.{method.__name__}", hints))
        return method(self, X, init_score=init_score, missing=missing)

    return cast(Method, call)


class Predicts:
    """Scores, labels and files of fitted estimators."""

    booster: ClassVar[Any]
    classes_: ClassVar[NDArray[Any]]
    model_: ClassVar[Model]
    n_jobs: int | None

    if not TYPE_CHECKING:  # otherwise a type checker would accept any name

        def __getattr__(self, name):
            if not name.startswith("_"):
                # A table that only errors need.
                from pymcboost.training.other_names import hint_of_fitted

                remedy = hint_of_fitted(name)
                if remedy:
                    raise AttributeError(
                        f"{type(self).__name__!r} object has no attribute {name!r}{remedy}"
                    )
            return object.__getattribute__(self, name)  # raises the standard error

    def _check_X(self, X, with_init_score=False):
        """Check rows, and convert them to what the model scores."""
        check_is_fitted(self)
        if isinstance(X, Dataset):
            if X._set.init_score is not None and not with_init_score:
                raise ValueError(
                    "the Dataset has an init_score, which only decision_function, predict, "
                    "predict_proba, predict_log_proba and score use; give the rows as an array"
                )
            return X._features_for(self.model_)
        if getattr(X, "format", "csr") != "csr":  # the scorer checks CSR matrices itself
            check_sparse(X)
        X = encoded(self, self.model_.categories, X)
        return validated(
            self, X, accept_sparse="csr", reset=False, allow_nan=self.booster.allows_missing
        )

    def _checked(self, X, init_score, missing="allow"):
        """Check rows and initial scores; return the rows, and the arguments for the model's methods."""
        check_how(missing)
        checked = self._check_X(X, with_init_score=True)
        name = type(self).__name__
        if self.booster.allows_missing:
            checked = self.model_._accepted(checked, missing)
        if isinstance(X, Dataset):
            if init_score is not None:
                raise TypeError(
                    f"{name}: give init_score to the Dataset instead: Dataset(X, y, init_score=...)"
                )
            init_score = X._init_score_for(self.classes_)
        refuse_init_score(init_score, name, self.booster.takes_init_score)
        return checked, {} if init_score is None else {"init_score": init_score}

    def decision_function(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Compute the scores of the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.
        init_score : array-like of shape (n_samples, n_classes) or (n_samples,), default=None
            Scores to which the scores of the model are added, as in `fit`.
        missing : {"allow", "error"}, default="allow"
            "error" raises an error if a value is missing in a column that had no missing values in training.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            Scores, with the columns in the order of ``classes_``. With two classes, the score of class 1 minus that of
            class 0.
        """
        X, first = self._checked(X, init_score, missing)
        return self.model_.decision_function(X, n_jobs=self.n_jobs, **first)

    @explains_arguments
    def predict(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[Any]:
        """Predict class labels.

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
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            The label with the largest score; ties go to the first class. For multi-label data, an indicator matrix.
        """
        X, first = self._checked(X, init_score, missing)
        if self.model_.link == "sigmoid":
            return self.model_.predict(X, n_jobs=self.n_jobs, **first)
        return self.classes_[self.model_.predict_codes(X, n_jobs=self.n_jobs, **first)]

    def predict_top(self, X: Features, k: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Predict the k labels with the largest scores.

        The scores of all classes are in memory for only some thousand rows at a time.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to predict.
        k : int
            Number of labels per row, from 1 to the number of classes.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Labels in the order of decreasing scores.
        scores : ndarray of shape (n_samples, k)
            Scores of these labels.
        """
        X = self._check_X(X)
        best, scores = self.model_._top(X, k, self.n_jobs)
        return self.classes_[best], scores

    def staged_decision_function(self, X: Features) -> Iterator[NDArray[np.float64]]:
        """Yield the scores of the classes after each boosting round.

        The last ones equal `decision_function` bit for bit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.

        Yields
        ------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            Scores after one more round.
        """
        X = self._check_X(X)
        return self.model_.staged_decision_function(X)

    def staged_predict(self, X: Features) -> Iterator[NDArray[Any]]:
        """Yield the predicted labels after each boosting round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to predict.

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            Labels after one more round.
        """
        check_is_fitted(self)
        if self.model_.link == "sigmoid":
            return map(self.model_._indicator_of, self.staged_decision_function(X))
        return map(self._labels_of_scores, self.staged_decision_function(X))

    def _labels_of_scores(self, scores):
        """Labels with the largest scores (n, K); or of the sign of the scores (n,) of two classes."""
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]

    def save(
        self,
        path: str | PathLike[str],
        layout: Literal["list", "interval", "packed"] = "list",
        leaves: Literal["float32", "float16", "int8"] = "float32",
    ) -> None:
        """Save the model to a file, which `load_model`, ``mcboost-predict`` and ``mcb.h`` can read.

        Parameters
        ----------
        path : str or path-like
            Path of the file. An existing file is replaced, whatever it contains. The new file is written next to it and
            then renamed, so a failure leaves the old file intact. The folder must exist.
        layout : {"list", "interval", "packed"}, default="list"
            "interval" merges the stumps of each feature into a table of float32 values. It scores single rows faster
            and is smaller for many stumps. Scores agree to 1e-7 of the sum of their parts. "packed" stores trees with a
            few bits per split and leaf; scores are the same. It allows up to 256 different leaf values, so set
            ``leaf_levels`` in training or use ``leaves="int8"``.
        leaves : {"float32", "float16", "int8"}, default="float32"
            Type of the leaf values of trees. "float16" halves their size and keeps 11 bits of each value. "int8" rounds
            them to 255 different values.
        """
        check_is_fitted(self)
        self.model_.save(path, layout=layout, leaves=None if leaves == "float32" else leaves)


class PredictsProbabilities(Predicts):
    """Probabilities of fitted estimators, and the leaves that rows reach."""

    @property
    def temperature_(self) -> float | None:
        """Temperature by which scores are divided to compute probabilities, or None without calibration."""
        check_is_fitted(self)
        return self.model_.temperature

    @explains_arguments
    def predict_proba(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Predict class probabilities.

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
            Probabilities, with the columns in the order of ``classes_``. They follow from the scores by the link of the
            loss, and are calibrated if the model has a temperature. For multi-label data, the probability of each
            label.
        """
        X, first = self._checked(X, init_score, missing)
        return self.model_.predict_proba(X, n_jobs=self.n_jobs, **first)

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
        X, first = self._checked(X, init_score, missing)
        return self.model_.predict_log_proba(X, n_jobs=self.n_jobs, **first)

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
        X = self._check_X(X)
        return self.model_.staged_predict_proba(X)

    def apply(self, X: Features) -> NDArray[np.int32]:
        """Find the leaf that each row reaches in each weak learner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to look up.

        Returns
        -------
        ndarray of int32 of shape (n_samples, n_learners)
            Leaf numbers. The leaves of a tree are numbered from left to right, starting at 0. A stump has the leaves 0
            and 1.
        """
        X = self._check_X(X)
        return self.model_.apply(X)

    def decision_path(self, X: Features) -> tuple[Any, NDArray[np.int64]]:
        """Find the nodes that each row passes in all weak learners.

        The result has the form that forests of scikit-learn return.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to look up.

        Returns
        -------
        indicator : CSR array of shape (n_samples, n_nodes)
            1 if the row passes the node. The nodes of a tree, including its leaves, are in preorder, as in
            ``mcboost-info --dump``. A stump has three nodes.
        n_nodes_ptr : ndarray of shape (n_learners + 1,)
            The nodes of learner t are the columns from ``n_nodes_ptr[t]`` to ``n_nodes_ptr[t + 1]``, exclusive.
        """
        import scipy.sparse

        X = self._check_X(X)
        row, node, first = self.model_.paths(X)
        indicator = scipy.sparse.csr_array(
            (np.ones(len(row), dtype=np.int8), (row, node)), (X.shape[0], first[-1])
        )
        return indicator, first
