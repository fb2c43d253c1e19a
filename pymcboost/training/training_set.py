"""Training rows as every algorithm reads them: checked and encoded, with classes and weights."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymcboost.comm import ALONE
from pymcboost.data.coded import is_coded
from pymcboost.data.merging import warn_of_merged_values
from pymcboost.data.shared_bins import SharedBins
from pymcboost.model.categories import find as find_categories
from pymcboost.model.categories import is_frame
from pymcboost.model.columns import names_of, refuse_repeated_names
from pymcboost.model.init_scores import init_scores
from pymcboost.model.rows import check_sparse, lists_of
from pymcboost.threads import threads_for
from pymcboost.training import continuing, divided
from pymcboost.training.inputs import encoded, groups_given, refuse_categories, validated
from pymcboost.training.labels import check_order, labels_given, labels_of_all, refuse_labels
from pymcboost.training.metrics import as_given, looks_at_rows

# Maximum number of bins of a column if the algorithm has no parameter for it.
MOST_BINS = 256


@dataclass(frozen=True)
class TrainingSet:
    """The rows of a training. They never change; `reweighted`, `only` and `without` return sets with other weights.

    Attributes
    ----------
    X : ndarray, CSR matrix or CodedRows (n, d)
        Features; of categories their codes.
    classes : ndarray (K,)
        Labels, sorted.
    codes : ndarray of int (n,)
        Positions of the rows' labels in ``classes``; an indicator (n, K) for multi-label data.
    weight : ndarray of float64 (n,)
        0 for rows that are not trained on.
    groups : ndarray (n,) or None
        Rows of one group are in one fold.
    categories : Categories or None
        Names of the columns of X.
    feature_names : list of str or None
    comm : Alone or another communicator
        The workers among which the rows are divided.
    bins : SharedBins, optional
        Bins of dense X, shared by all trainings on these rows or a part of them.
    user_X : array, frame or sparse matrix, optional
        X as the user gave it, if it differs from X; None for rows that came in blocks or are divided among workers.
    subset : ndarray of int, optional
        The rows that a `Dataset` was restricted to; all others have the weight 0.
    init_score : ndarray (n, K), optional
        Initial scores, to which the model's scores are added.
    """

    X: Any
    classes: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None = None
    categories: Any = None
    feature_names: list[str] | None = None
    comm: Any = ALONE
    bins: Any = None
    user_X: Any = None
    subset: np.ndarray | None = None
    init_score: np.ndarray | None = None

    @property
    def n_rows(self):
        """Number of rows of this worker."""
        return self.X.shape[0]

    @property
    def n_classes(self):
        """Number of classes, or of labels."""
        return len(self.classes)

    @property
    def is_multilabel(self):
        """Whether the rows are multi-label."""
        return self.codes.ndim == 2

    def y(self, rows=slice(None)):
        """Labels of rows, or their indicator matrix."""
        codes = self.codes[rows]
        return codes.astype(int) if self.is_multilabel else self.classes[codes]

    def user_rows(self, scoring, rows=None):
        """Return X, or rows of it, as the user gave it, if ``scoring`` has a function that may read it; else None."""
        if self.user_X is None or not looks_at_rows(scoring):
            return None
        return as_given(self.user_X, rows)

    def init_score_of(self, rows):
        """``init_score`` of rows; None if there is none."""
        return None if self.init_score is None else self.init_score[rows]

    def reweighted(self, weight):
        """Give the rows these training weights (n,)."""
        return replace(self, weight=weight)

    def only(self, rows):
        """Give all rows except ``rows`` the weight 0."""
        weight = np.zeros(len(self.weight))
        weight[rows] = self.weight[rows]
        return self.reweighted(weight)

    def without(self, rows):
        """Give ``rows`` the weight 0."""
        weight = self.weight.copy()
        weight[rows] = 0
        return self.reweighted(weight)

    @classmethod
    def read(
        cls,
        estimator,
        booster,
        X,
        y,
        sample_weight=None,
        *,
        init_score=None,
        groups=None,
        warm_start=False,
        initial=None,
    ):
        """Check and encode the rows that a user gives to ``estimator.fit``.

        Parameters
        ----------
        estimator : BoostingClassifier
            Gets ``n_features_in_`` and ``feature_names_in_``; with ``warm_start`` the rows must have those.
        booster : Booster
            Says what the algorithm takes: missing values, categories, any number of labels, several workers.
        X, y, sample_weight, init_score, groups
            See `fit`.
        warm_start : bool, default=False
            Whether the training continues ``estimator.model_``.
        initial : Previous, optional
            ``init_model``. Its columns, categories and classes are kept.
        """
        model = continuing.model_to_continue(estimator, warm_start, initial)
        comm = booster.workers
        refuse_repeated_names(X)
        check_sparse(X)
        categories = _categories(estimator, booster, X, model)
        numbers = _encoded(estimator, categories, X, warm_start=warm_start, initial=initial)
        values, classes, codes = _labelled(
            estimator, booster, numbers, y, reset=not warm_start, initial=initial
        )
        _check_columns(estimator, booster, values, codes, init_score)
        names = names_of(numbers)
        if initial is not None:
            continuing.check_columns(values.shape[1], names, model)
        if categories is not None and model is not None:
            values = categories.bounded(values)
        weight = divided.sample_weights(comm, sample_weight, values.shape[0])
        if warm_start:
            check_same_classes(classes, estimator.classes_)
        if initial is not None and codes.ndim == 1:
            classes, codes = continuing.codes_in(initial, classes, codes)
        init_score = _init_scores(init_score, classes, codes)
        was_rounded = values.dtype == np.float32 and hasattr(numbers, "__getitem__")
        warn_of_merged_values(numbers if was_rounded else values, names)
        is_same = type(X) is np.ndarray and X.dtype == values.dtype and categories is None
        return cls(
            values,
            classes,
            codes,
            weight,
            groups=groups_given(groups, values.shape[0], booster.params),
            categories=categories,
            feature_names=_feature_names(estimator, model),
            comm=comm,
            bins=_bins(booster, values, codes, weight, categories),
            user_X=None if is_same or comm is not ALONE else X,
            init_score=init_score,
        )

    @classmethod
    def of_blocks(cls, reader, rows):
        """Check rows that were read in blocks.

        Parameters
        ----------
        reader : object
            Takes the place of estimator and booster, see `read`.
        rows : JoinedRows
            Their bins are shared if the values were not kept.
        """
        comm = reader.workers
        X, classes, codes = _labelled(reader, reader, rows.X, rows.y, head=rows.head)
        _check_columns(reader, reader, X, codes, rows.init_score)
        weight = divided.sample_weights(comm, rows.weight, X.shape[0])
        warn_of_merged_values(rows.sample, names_of(rows.head))
        if is_coded(X):
            bins = SharedBins.of_coded_rows(rows.bins, comm)
        else:
            bins = _bins(reader, X, codes, weight, rows.categories)
        return cls(
            X,
            classes,
            codes,
            weight,
            categories=rows.categories,
            feature_names=_feature_names(reader),
            comm=comm,
            bins=bins,
            init_score=_init_scores(rows.init_score, classes, codes),
        )


def check_same_classes(classes, model_classes):
    """Refuse a warm start whose classes differ from those of the model so far."""
    if not np.array_equal(classes, model_classes):
        raise ValueError(
            f"warm_start: y has the classes {classes!r}, but the existing model has {model_classes!r}; "
            "give the same classes, or set warm_start=False"
        )


def _categories(estimator, booster, X, model):
    """Find the categories of the columns of X; a training that continues a model uses the model's."""
    name = type(estimator).__name__
    takes_categories = hasattr(booster.params, "categorical_features")
    if not takes_categories:
        refuse_categories(name, X)
    if model is not None:
        return model.categories
    comm = booster.workers
    categorical_features = booster.params.categorical_features if takes_categories else None
    categorical_features = divided.categorical_columns(comm, categorical_features, X)
    categories = find_categories(categorical_features, X, partial=comm.size > 1)
    return divided.categories_of(comm, name, categories)


def _encoded(estimator, categories, X, *, warm_start, initial):
    """Replace categories by their codes; refuse a frame whose columns are not those of the model to continue."""
    if initial is not None and is_frame(X):
        continuing.check_columns(X.shape[1], names_of(X), initial.model)
    if warm_start:
        return encoded(estimator, categories, X)
    return X if categories is None else categories.encoded(X)


def _check_columns(estimator, booster, X, codes, init_score):
    """Refuse too many rows, and rows of another form than those of the other workers."""
    divided.check_columns(
        booster.workers,
        booster,
        X,
        names=getattr(estimator, "feature_names_in_", None),
        labels=codes.shape[1:],
        has_init_score=init_score is not None,
    )


def _init_scores(init_score, classes, codes):
    """Check the initial scores: (n, K), or None."""
    if init_score is None:
        return None
    return init_scores(init_score, len(codes), len(classes), pairs=codes.ndim == 1)


def _bins(booster, X, codes, weight, categories):
    """Bins of dense X, to be made when a training asks for them; None if X is sparse."""
    if hasattr(X, "tocsr"):
        return None
    comm = booster.workers
    n_threads = divided.threads_of(booster.params.n_jobs, comm)
    return SharedBins(
        X,
        codes,
        weight,
        max_bins=getattr(booster.params, "max_bins", MOST_BINS),
        n_threads=threads_for(X.shape[0] * X.shape[1], n_threads),
        categorical=() if categories is None else categories.feature,
        comm=comm,
    )


def _labelled(estimator, booster, X, y, *, head=None, reset=True, initial=None):
    """Check rows and labels; return the rows, the classes, and the rows' codes or indicator."""
    comm = booster.workers
    options = {
        "accept_sparse": "csr",
        "allow_nan": booster.allows_missing,
        "reset": reset,
        "head": head,
    }
    if comm.size > 1:  # a worker may have no rows
        options["ensure_min_samples"] = 0
    y = lists_of(y)
    if booster.takes_labels(y):
        X = validated(estimator, X, **options)
        labels = labels_of_all(comm, y)
        classes, codes = labels_given(y, X.shape[0], labels if initial is None else initial.classes)
        return X, classes, codes
    refuse_labels(type(estimator).__name__, y)
    X, y = validated(estimator, X, y, **options)
    if len(y):
        check_order(y)
        if estimator.checks_rows:
            from sklearn.utils.multiclass import check_classification_targets

            check_classification_targets(y)
    classes, codes = divided.classes_of(comm, y)
    return X, classes, codes


def _feature_names(estimator, model=None):
    """Names of the columns: those of the rows, or else of the model that the training continues."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    if model is None or model.feature_names is None:
        return None
    return list(model.feature_names)
