"""What fitted estimators say of rows, by their models; and how a model is saved."""

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

Features = Any  # arrays, data frames and sparse matrices, for which there is no common type


Method = TypeVar("Method", bound=Callable[..., Any])


def check_is_fitted(estimator):
    """Raise scikit-learn's error of an estimator that is not fitted."""
    if not hasattr(estimator, "model_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
            "using this estimator."
        )


def explains_arguments(method: Method) -> Method:
    """Decorator of a method of X: it says what is written here in place of other libraries' arguments."""

    @functools.wraps(method)
    def call(self, X, *, init_score=None, missing="allow", **unknown):
        for name in unknown:
            from pymcboost.training.other_names import (
                hint_of_predict,
            )  # a table that only errors need

            remedy = hint_of_predict(name, method.__name__)
            raise TypeError(
                f"{type(self).__name__}.{method.__name__}() got an unexpected keyword argument {name!r}{remedy}"
            )
        return method(self, X, init_score=init_score, missing=missing)

    return cast(Method, call)


class Predicts:
    """Scores, labels and files of fitted estimators."""

    booster: ClassVar[Any]
    classes_: ClassVar[NDArray[Any]]
    model_: ClassVar[Model]
    n_jobs: int | None

    if not TYPE_CHECKING:  # with it, a checker would take any name

        def __getattr__(self, name):
            if not name.startswith("_"):
                from pymcboost.training.other_names import (
                    hint_of_fitted,
                )  # a table that only errors need

                if remedy := hint_of_fitted(name):
                    raise AttributeError(
                        f"{type(self).__name__!r} object has no attribute {name!r}{remedy}"
                    )
            return object.__getattribute__(self, name)  # the error with its own words

    def _check_X(self, X, with_init_score=False):
        check_is_fitted(self)
        if isinstance(X, Dataset):
            if X._set.init_score is not None and not with_init_score:
                raise ValueError(
                    "the Dataset has an init_score, which counts in decision_function, predict, predict_proba, "
                    "predict_log_proba and score only; give the rows as an array"
                )
            return X._features_for(self.model_)
        if getattr(X, "format", "csr") != "csr":  # the scorer checks those that it reads
            check_sparse(X)
        X = encoded(self, self.model_.categories, X)
        return validated(
            self, X, accept_sparse="csr", reset=False, allow_nan=self.booster.allows_missing
        )

    def _checked(self, X, init_score, missing="allow"):
        """Checked rows, and the scores at which they begin as an argument of the model's methods."""
        check_how(missing)
        checked, name = self._check_X(X, with_init_score=True), type(self).__name__
        if self.booster.allows_missing:
            checked = self.model_._accepted(checked, missing)
        if isinstance(X, Dataset):
            if init_score is not None:
                raise TypeError(
                    f"{name}: init_score belongs to the Dataset; give Dataset(X, y, init_score=...)"
                )
            init_score = X._init_score_for(self.classes_)
        refuse_init_score(init_score, name, self.booster.takes_init_score)
        return checked, {} if init_score is None else {"init_score": init_score}

    def decision_function(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Scores: (n_samples, n_classes), or (n_samples,) of class 1 minus class 0 when there are two classes.

        They are added to ``init_score``, where it is given; see `fit`. ``missing="error"`` refuses a missing value in a
        column that had none in training.
        """
        X, first = self._checked(X, init_score, missing)
        return self.model_.decision_function(X, n_jobs=self.n_jobs, **first)

    @explains_arguments
    def predict(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[Any]:
        """Labels of the classes with the largest scores (the first one where they tie): (n_samples,).

        Of rows with any number of labels: their indicator, (n_samples, n_labels). Scores are added to ``init_score``,
        where it is given; see `fit`. ``missing="error"`` refuses a missing value in a column that had none in training.
        """
        X, first = self._checked(X, init_score, missing)
        if self.model_.link == "sigmoid":
            return self.model_.predict(X, n_jobs=self.n_jobs, **first)
        return self.classes_[self.model_.predict_codes(X, n_jobs=self.n_jobs, **first)]

    def predict_top(self, X: Features, k: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The labels of the k highest scores and these scores, from the highest on: (n_samples, k) each.

        The scores of all classes are held for some thousand rows at once.
        """
        X = self._check_X(X)
        best, scores = self.model_._top(X, k, self.n_jobs)
        return self.classes_[best], scores

    def staged_decision_function(self, X: Features) -> Iterator[NDArray[np.float64]]:
        """Yield `decision_function` after every round; the last equals it bit for bit."""
        X = self._check_X(X)
        return self.model_.staged_decision_function(X)

    def staged_predict(self, X: Features) -> Iterator[NDArray[Any]]:
        """Yield `predict` after every round."""
        check_is_fitted(self)
        if self.model_.link == "sigmoid":
            return map(self.model_._given, self.staged_decision_function(X))
        return (
            self.classes_[
                (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
            ]
            for scores in self.staged_decision_function(X)
        )

    def save(
        self,
        path: str | PathLike[str],
        layout: Literal["list", "interval", "packed"] = "list",
        leaves: Literal["float32", "float16", "int8"] = "float32",
    ) -> None:
        """Write the model file that `load_model`, ``mcboost-predict`` and ``mcb.h`` read.

        Parameters
        ----------
        path : str or path-like
            A file that is there already is replaced, whatever it holds. The new one is written beside it first and
            then renamed: a failure leaves the old one whole. Its folder must exist.
        layout : {"list", "interval", "packed"}, default="list"
            "interval" merges the stumps of each feature into a table of float32: faster for single rows, smaller
            where stumps are many, scores equal within 1e-7 of the sum of their parts. "packed", of trees, takes a few
            bits for each split and leaf; scores are equal. It has room for 256 values of leaves: see ``leaf_levels``,
            or give ``leaves="int8"``.
        leaves : {"float32", "float16", "int8"}, default="float32"
            "float16" halves the leaves of trees in size; their values keep 11 bits. "int8" rounds them to 255 values.
        """
        check_is_fitted(self)
        self.model_.save(path, layout=layout, leaves=None if leaves == "float32" else leaves)


class PredictsProbabilities(Predicts):
    """Probabilities of fitted estimators, and the leaves that rows fall into."""

    @property
    def temperature_(self) -> float | None:
        """By what scores are divided for probabilities, float; None where these are not calibrated."""
        check_is_fitted(self)
        return self.model_.temperature

    @explains_arguments
    def predict_proba(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Class probabilities by the loss's link, (n_samples, n_classes); calibrated where there is a temperature.

        Scores are added to ``init_score`` before, where it is given; see `fit`. ``missing="error"`` refuses a missing
        value in a column that had none in training.
        """
        X, first = self._checked(X, init_score, missing)
        return self.model_.predict_proba(X, n_jobs=self.n_jobs, **first)

    def predict_log_proba(
        self, X: Features, *, init_score: ArrayLike | None = None, missing: Missing = "allow"
    ) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`, finite where that rounds to 0: (n_samples, n_classes)."""
        X, first = self._checked(X, init_score, missing)
        return self.model_.predict_log_proba(X, n_jobs=self.n_jobs, **first)

    def staged_predict_proba(self, X: Features) -> Iterator[NDArray[np.float64]]:
        """Yield class probabilities after every round; the last are those of `predict_proba`, but for rounding.

        A calibrated model has its temperature, which is one of all rounds, after every round.
        """
        X = self._check_X(X)
        return self.model_.staged_predict_proba(X)

    def apply(self, X: Features) -> NDArray[np.int32]:
        """Leaf of every row in every weak learner: (n_samples, n_learners).

        Leaves of a tree count from left to right, from 0. A stump has the leaves 0 and 1.
        """
        X = self._check_X(X)
        return self.model_.apply(X)

    def decision_path(self, X: Features) -> tuple[Any, NDArray[np.int64]]:
        """Nodes that rows pass in all weak learners, as scikit-learn's forests have them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        indicator : CSR array of shape (n_samples, n_nodes)
            1 where a row passes a node. Nodes of a tree, leaves among them, are in preorder, as in
            ``mcboost-info --dump``; a stump has three.
        n_nodes_ptr : ndarray of shape (n_learners + 1,)
            The nodes of learner t are the columns from ``n_nodes_ptr[t]`` to ``n_nodes_ptr[t + 1]``.
        """
        import scipy.sparse

        X = self._check_X(X)
        row, node, first = self.model_.paths(X)
        indicator = scipy.sparse.csr_array(
            (np.ones(len(row), dtype=np.int8), (row, node)), (X.shape[0], first[-1])
        )
        return indicator, first
