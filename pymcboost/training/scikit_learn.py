"""The scikit-learn estimators: classes of `pymcboost.algorithms` combined with scikit-learn's bases.

The command-line programs use those classes directly, on rows that they have checked. So they need not load
scikit-learn, which takes a second.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import NDArray

from pymcboost._version import __version__
from pymcboost._warn import warn
from pymcboost.model.model import Model
from pymcboost.model.rows import own_labels
from pymcboost.training.docs import Link
from pymcboost.training.labels import is_indicator, labels_given, rows_in
from pymcboost.training.parameters import document, hints_for
from pymcboost.training.prediction import check_is_fitted

if TYPE_CHECKING:
    # scikit-learn has no type hints. With its bases, a checker would miss wrong parameters.

    class ClassifierMixin:
        """Methods that scikit-learn adds to a classifier."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """Accuracy."""
            raise NotImplementedError

    class BaseEstimator:
        """Methods that scikit-learn adds to an estimator."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Parameters by name."""
            raise NotImplementedError

        def set_params(self, **params: Any) -> Self:
            """Change parameters."""
            raise NotImplementedError

        def __getstate__(self) -> dict[str, Any]:
            raise NotImplementedError

        def __setstate__(self, state: dict[str, Any]) -> None:
            raise NotImplementedError

        def __sklearn_tags__(self) -> Any:
            raise NotImplementedError
else:
    from sklearn.base import BaseEstimator, ClassifierMixin


class ScikitLearnClassifier(Link, ClassifierMixin, BaseEstimator):
    """What scikit-learn requires of a classifier; the other base class is one of `pymcboost.algorithms`."""

    # scikit-learn checks rows and labels.
    checks_rows: ClassVar[bool] = True
    classes_: ClassVar[NDArray[Any]]
    model_: ClassVar[Model]

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator.

        Parameters
        ----------
        **params : dict
            Values by the names of the constructor's parameters.

        Returns
        -------
        self : estimator
            The same estimator.

        Raises
        ------
        ValueError
            If the estimator has no parameter of this name. The message suggests the right one.
        """
        current = self.get_params(deep=False)
        unknown = [name for name in params if name not in current and "__" not in name]
        if unknown:
            from pymcboost.training.other_names import listed  # a table that only errors need

            hints = hints_for(type(self), unknown, "constructor")
            name = type(self).__name__
            if len(hints) == 1:
                raise ValueError(
                    f"Invalid parameter {unknown[0]!r} for estimator {name}{hints[unknown[0]]}"
                )
            raise ValueError(f"Invalid parameters for estimator {name}:{listed(hints)}")
        return super().set_params(**params)

    @classmethod
    @cache  # scikit-learn inspects the constructor, which takes half a millisecond
    def _get_param_names(cls):
        return super()._get_param_names()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy; for multi-label data, the fraction of rows with all labels right.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test rows.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            True labels, as in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            Accuracy, from 0 to 1.
        """
        check_is_fitted(self)
        if self.model_.link == "sigmoid" and is_indicator(y):
            _, y = labels_given(y, rows_in(y), self.classes_)
        return float(super().score(X, own_labels(y), sample_weight))

    def __getstate__(self):
        if hasattr(self, "model_"):
            self.model_.__getstate__()  # raises a clear error if the model cannot be pickled
        return {**super().__getstate__(), "_pymcboost_version": __version__}

    def __setstate__(self, state):
        state = dict(state)
        version = state.pop("_pymcboost_version", "an unknown version")
        if version != __version__:
            warn(
                f"this {type(self).__name__} was pickled by pymcboost {version}, but this is "
                f"{__version__}: it may fail or behave differently. Save models with save and "
                "load_model, whose files every later version can read"
            )
        super().__setstate__(state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        booster = self.booster(self.get_params(deep=False))
        tags.input_tags.sparse = booster.takes_sparse()
        tags.input_tags.allow_nan = booster.allows_missing
        tags.classifier_tags.multi_label = booster.multilabel or booster.labels_by_form
        return tags


@cache
def classifier(algorithm):
    """Create the public class of an algorithm class, with the same name."""
    space = {"__doc__": document(algorithm), "__module__": "pymcboost"}
    return type(algorithm.__name__, (ScikitLearnClassifier, algorithm), space)
