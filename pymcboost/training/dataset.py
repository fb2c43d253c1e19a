"""Training rows that are checked and binned once, for many trainings."""

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost.comm import as_workers, hearing
from pymcboost.data.blocks import Blocks, joined_rows
from pymcboost.data.coded import is_coded
from pymcboost.model.categories import columns_of
from pymcboost.model.init_scores import refuse_init_score
from pymcboost.model.rows import lists_of, own_labels, positions
from pymcboost.training import continuing
from pymcboost.training.divided import threads_of
from pymcboost.training.labels import is_indicator, labels_given, refuse_labels
from pymcboost.training.training_set import MOST_BINS, TrainingSet, check_same_classes


class Dataset:
    """Checked and binned training rows, which several fits can share.

    Use it to train several models on the same rows, or on data larger than memory (`from_blocks`). ``fit(dataset)``
    takes a Dataset in place of X and y, so rows are binned once instead of in every fit. The model selection tools of
    scikit-learn (`GridSearchCV`, `cross_validate`, `cross_val_predict`) accept a Dataset as X, together with y. Their
    folds are subsets that share the bins. Transformers and pipelines need arrays.

    A Dataset stores everything the bins depend on: ``sample_weight``, ``categorical_features`` and ``max_bins``. The
    estimator must have the same ``max_bins``, and the same ``categorical_features`` unless it is "from_dtype". The
    class weights of an estimator, and the rows that it holds out, do not change the bins.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
        Features. NaN means missing.
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Class labels: integers or strings. For multi-label data, an indicator matrix, or a list with a tuple of labels
        for each row.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative sample weights. Rows with weight 0 are not used in training.
    init_score : array-like of shape (n_samples, n_classes) or (n_samples,), default=None
        Initial scores of the rows, as in `fit`. Predictions for rows of the Dataset use them, too.
    groups : array-like of shape (n_samples,), default=None
        Group labels. The rows of a group are held out together.
    categorical_features : "from_dtype", array-like of int or str, or None, default="from_dtype"
        Columns that hold categories; see `VectorTreeBoostClassifier`.
    max_bins : int, default=256
        Maximum number of bins per feature, from 2 to 256, including the one for missing values.
    comm : communicator, default=None
        Communicator of distributed training; see ``fit``. All workers create the Dataset and call ``fit`` with it.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and features. A subset counts its own rows.
    classes : ndarray of shape (n_classes,)
        Class labels of all rows in sorted order.
    feature_names : list of str or None
        Names of the columns of a data frame.
    max_bins : int
        Maximum number of bins per feature.

    Raises
    ------
    ValueError
        If features are infinite, labels cannot be sorted, or weights are negative.

    Notes
    -----
    Small data sets (up to 32,768 numbers in the gradient, such as 8,192 rows with 4 classes) are searched exactly,
    without shared bins. Fitting a subset differs from fitting the same rows as arrays: the bins are those of all rows,
    and rows are sampled by their numbers in the whole Dataset.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from pymcboost import Dataset, VectorTreeBoostClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> data = Dataset(X, y)
    >>> data
    Dataset(1797 rows, 64 features, 10 classes)
    >>> rates = {"learning_rate": [0.1, 0.3]}
    >>> search = GridSearchCV(VectorTreeBoostClassifier(n_estimators=20, random_state=0), rates, cv=2)
    >>> search.fit(data, y).best_params_
    {'learning_rate': 0.3}
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        categorical_features: Any = "from_dtype",
        max_bins: int = MOST_BINS,
        comm: Any = None,
    ) -> None:
        reader = self._begin(max_bins, categorical_features, comm)
        with reader.together():
            self._set = TrainingSet.read(
                reader, reader, X, y, sample_weight, init_score=init_score, groups=groups
            )
            if self._set.bins is not None:
                self._set.bins.make()

    @classmethod
    def from_blocks(
        cls,
        source: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        categorical_features: ArrayLike | None = None,
        max_bins: int = MOST_BINS,
        comm: Any = None,
    ) -> "Dataset":
        """Read rows in blocks, for out-of-core training on data larger than memory.

        Memory holds one byte per value, not the values themselves. The blocks are read once for the labels and the
        bins, and once more for the bin of each value. Several workers read them a third time to number their rows.

        Up to 262,144 rows and 67 million values, the bins are computed from all rows, and the model is byte-identical
        to the one trained on the same rows in memory. With more rows, the bins are computed from a sample of that size.

        Parameters
        ----------
        source : iterable or callable
            Source of the blocks: a list or another object that can be iterated several times, or a function without
            arguments that starts again on each call, such as a generator function. A block is a tuple (X, y),
            (X, y, sample_weight) or (X, y, sample_weight, init_score), in which sample_weight may be None. X is an
            array, a memory map or a data frame without categorical columns. y may have any form that ``fit`` accepts,
            but the same in all blocks.
        categorical_features : array-like of int or str, default=None
            Columns that hold codes of categories.
        max_bins : int, default=256
            Maximum number of bins per feature; see `Dataset`.
        comm : communicator, default=None
            Communicator of distributed training; see `Dataset`.

        Returns
        -------
        Dataset
            Training rows for all estimators except `HingeBoostOCClassifier`, which needs the values. To predict the
            rows, predict block by block.

        Raises
        ------
        ValueError
            If blocks differ in their columns or in the form of their labels, or if reading again gives other rows.
        MemoryError
            If the bins need more memory than is available. Raised before the memory is allocated.

        Examples
        --------
        >>> import numpy as np
        >>> from pymcboost import Dataset, VectorTreeBoostClassifier
        >>> def blocks():
        ...     for part in range(4):
        ...         X = np.random.default_rng(part).normal(size=(500, 3))
        ...         yield X, X.sum(axis=1) > 0
        >>> data = Dataset.from_blocks(blocks)
        >>> data
        Dataset(2000 rows, 3 features, 2 classes)
        >>> VectorTreeBoostClassifier(n_estimators=10, random_state=0).fit(data).n_features_in_
        3
        """
        dataset = object.__new__(cls)
        reader = dataset._begin(max_bins, categorical_features, comm)
        with reader.together():
            n_threads = threads_of(None, reader.workers)
            blocks = Blocks(source, categorical_features)
            rows = joined_rows(
                blocks, max_bins=dataset.max_bins, comm=reader.workers, n_threads=n_threads
            )
            dataset._set = TrainingSet.of_blocks(reader, rows)
            if not is_coded(rows.X):
                dataset._set.bins.make()
        return dataset

    def _begin(self, max_bins, categorical_features, comm):
        """Check the number of bins, and return the reader of the rows."""
        is_integer = isinstance(max_bins, Integral) and not isinstance(max_bins, bool)
        if not is_integer or not 2 <= max_bins <= MOST_BINS:
            raise ValueError(
                f"Dataset: max_bins={max_bins!r} is not allowed; it must be an integer from 2 to {MOST_BINS}"
            )
        self.max_bins = int(max_bins)
        self._comm = comm
        return _Reader(categorical_features, self.max_bins, as_workers(comm))

    def __repr__(self) -> str:
        noun = "labels" if self._set.is_multilabel else "classes"
        return (
            f"Dataset({self.shape[0]} rows, {self.shape[1]} features, {self._set.n_classes} {noun})"
        )

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels of all rows in sorted order."""
        return self._set.classes

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of a data frame, or None."""
        return self._set.feature_names

    # -- as model selection reads it -----------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return len(self), self._set.X.shape[1]

    def __len__(self) -> int:
        return self._set.n_rows if self._set.subset is None else len(self._set.subset)

    def __getitem__(self, key: Any) -> "Dataset":
        if not isinstance(key, tuple):
            return self.subset(key)
        if len(key) != 2 or key[1] is not Ellipsis:
            raise IndexError("a Dataset can be indexed only by rows; select columns in X")
        return self.subset(key[0])

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "a Dataset works with fit of pymcboost's estimators and with model selection; "
            "give transformers, pipelines and validation sets arrays or data frames"
        )

    def subset(self, rows: ArrayLike | slice) -> "Dataset":
        """Select some of the rows; the subset shares the bins of all rows.

        Parameters
        ----------
        rows : array-like of int, mask of bool of shape (n_samples,), or slice
            Rows to select, each at most once. To count a row several times, use a sample weight.

        Returns
        -------
        Dataset
            The selected rows.

        Raises
        ------
        IndexError
            If there is no row of this number.
        ValueError
            If a row is selected more than once.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from pymcboost import Dataset
        >>> Dataset(*load_digits(return_X_y=True)).subset(slice(1000))
        Dataset(1000 rows, 64 features, 10 classes)
        """
        all_rows = np.arange(self._set.n_rows) if self._set.subset is None else self._set.subset
        try:
            chosen = all_rows[rows if isinstance(rows, slice) else np.asarray(rows)]
        except IndexError as error:
            raise IndexError(
                f"Dataset.subset: {error}; it has {len(all_rows)} rows, numbered from 0"
            ) from error
        if chosen.ndim != 1:
            raise IndexError(
                "Dataset.subset: rows must be a vector of row numbers, a mask or a slice"
            )
        if len(np.unique(chosen)) < len(chosen):
            raise ValueError(
                "Dataset.subset: a row is listed more than once; give it a larger "
                "sample_weight in the Dataset instead"
            )
        part = object.__new__(Dataset)
        part.max_bins = self.max_bins
        part._comm = self._comm
        part._set = replace(self._set.only(chosen), subset=chosen)
        return part

    # -- as estimators read it -----------------------------------------------------------------------------------------

    def _workers(self, comm):
        """Return the communicator of the Dataset; a user may pass the same one again."""
        if comm is not None and comm is not self._comm:
            raise ValueError(
                "comm differs from that of the Dataset; leave it out, or give Dataset(X, y, "
                "comm=...)"
            )
        return self._set.comm

    def _training_set(
        self, estimator, booster, y, sample_weight, groups, *, init_score, warm_start, initial
    ):
        """Check that the rows suit a training, and return them as it reads them. Parameters: see `TrainingSet.read`."""
        name = booster.name
        rows = self._set
        for argument, value in {
            "sample_weight": sample_weight,
            "groups": groups,
            "init_score": init_score,
        }.items():
            if value is not None:
                raise TypeError(
                    f"{name}: give {argument} to the Dataset instead: Dataset(X, y, {argument}=...)"
                )
        max_bins = getattr(booster.params, "max_bins", self.max_bins)
        if max_bins != self.max_bins:
            raise ValueError(
                f"{name}: max_bins={max_bins}, but the Dataset has max_bins={self.max_bins}; "
                f"features are binned by the Dataset: give Dataset(X, y, max_bins={max_bins})"
            )
        _check_features(rows, booster)
        _check_labels(self, booster, y)
        model = continuing.model_to_continue(estimator, warm_start, initial)
        if model is not None:
            continuing.check_columns(rows.X.shape[1], rows.feature_names, model)
            _check_categories(rows, model)
        if not rows.is_multilabel:
            if initial is not None:
                classes, codes = continuing.codes_in(initial, rows.classes, rows.codes)
            else:
                classes, codes = _classes_of_subset(rows)
            init_score = _scores_for(rows, classes)
            rows = replace(rows, classes=classes, codes=codes, init_score=init_score)
        if warm_start:
            check_same_classes(rows.classes, estimator.classes_)
        estimator.n_features_in_ = rows.X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        if rows.feature_names is not None:
            estimator.feature_names_in_ = np.array(rows.feature_names, dtype=object)
        return rows

    def _init_score_for(self, classes):
        """Initial scores of the rows for these classes, (n_samples, K), or None."""
        init_score = _scores_for(self._set, classes)
        subset = self._set.subset
        return init_score if init_score is None or subset is None else init_score[subset]

    def _features_for(self, model):
        """Return the rows as a model with these columns scores them, in the order of the subset."""
        rows = self._set
        names = model.feature_names
        if is_coded(rows.X):
            raise TypeError(
                "a Dataset of blocks keeps no feature values, so it cannot be predicted; "
                "predict the blocks one by one"
            )
        both_named = names is not None and rows.feature_names is not None
        if both_named and list(names) != list(rows.feature_names):
            raise ValueError(
                "the columns of the Dataset have other names than those of the training data"
            )
        _check_categories(rows, model)
        return rows.X if rows.subset is None else rows.X[rows.subset]


def _check_features(rows, booster):
    """Refuse missing values, weights and categories that the algorithm does not support or was not asked to use."""
    name = booster.name
    refuse_init_score(rows.init_score, name, booster.takes_init_score)
    if is_coded(rows.X) and not booster.takes_coded:
        raise TypeError(
            f"{name} needs feature values, but a Dataset of blocks keeps only their bins; give "
            "arrays"
        )
    values = rows.X.data if hasattr(rows.X, "indptr") else rows.X
    if not booster.allows_missing and np.isnan(values).any():
        raise ValueError(
            f"{name} does not support missing values, but the Dataset has some; impute them first"
        )
    weight = rows.weight[rows.weight > 0]
    if not booster.takes_weights and len(weight) and (weight != weight[0]).any():
        raise ValueError(
            f"{name} does not support sample weights, but the Dataset has some; leave them out"
        )
    if not hasattr(booster.params, "categorical_features"):
        if rows.categories is not None:
            raise ValueError(
                f"{name} does not support categories; encode them as numbers, and give "
                "Dataset(X, y, categorical_features=None)"
            )
        return
    categorical_features = booster.params.categorical_features
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return
    columns = [] if rows.categories is None else rows.categories.feature.tolist()
    if _columns_named(categorical_features, rows) != columns:
        raise ValueError(
            f"{name}: categorical_features={categorical_features!r}, but the Dataset has categories in the "
            f"columns {columns}; give categorical_features to the Dataset: Dataset(X, y, "
            "categorical_features=...)"
        )


def _columns_named(categorical_features, rows):
    """Column numbers that ``categorical_features`` selects: list of int."""
    if categorical_features is None:
        return []
    categorical_features = np.asarray(categorical_features)
    names = rows.feature_names
    if names is not None and categorical_features.dtype.kind in "OU":
        unknown = [name for name in categorical_features.tolist() if name not in names]
        if unknown:
            raise ValueError(
                f"categorical_features: there is no column {unknown[0]!r} in the Dataset"
            )
        categorical_features = np.array(
            [names.index(name) for name in categorical_features.tolist()], dtype=np.int64
        )
    return columns_of(categorical_features, None, rows.X.shape[1], frame=False).tolist()


def _check_labels(dataset, booster, y):
    """Refuse labels in a form that the algorithm does not support, and a y that differs from the Dataset's."""
    name = booster.name
    rows = dataset._set
    if rows.is_multilabel and not booster.takes_labels(rows.codes):
        refuse_labels(name, rows.codes)
    if not rows.is_multilabel and booster.takes_labels(rows.codes):
        raise ValueError(
            f"{name}: this training is multi-label, but the Dataset has one class per row; "
            "give its y as an indicator matrix or as lists of labels"
        )
    if y is None:
        return
    if rows.is_multilabel:
        _, labels = labels_given(y, len(dataset), rows.classes)
    else:
        labels = own_labels(lists_of(y))
    labels_of_dataset = rows.y() if rows.subset is None else rows.y(rows.subset)
    if not np.array_equal(np.ravel(labels), np.ravel(labels_of_dataset)):
        raise ValueError(f"{name}: y has other labels than the Dataset; leave y out")


def _check_categories(rows, model):
    """Refuse a model that has other categories than the rows."""
    categories = None if rows.categories is None else rows.categories.dump()
    categories_of_model = None if model.categories is None else model.categories.dump()
    if categories != categories_of_model:
        raise ValueError(
            "the Dataset has other categories than the model, so its codes would mean other "
            "levels; give arrays or data frames"
        )


def _scores_for(rows, classes):
    """Columns of ``init_score`` for these classes, which may be a part of the rows' classes."""
    if rows.init_score is None or np.array_equal(rows.classes, classes):
        return rows.init_score
    column = positions(rows.classes, classes)
    if (column < 0).any():
        raise ValueError(
            f"the Dataset has an init_score for the classes {rows.classes!r}, not for the "
            f"classes of the model, {classes!r}; give arrays"
        )
    return rows.init_score[:, column]


def _classes_of_subset(rows):
    """Classes that occur in a subset, and the codes of all rows among them; rows outside have code 0, but no weight."""
    if rows.subset is None:
        return rows.classes, rows.codes
    present = np.unique(rows.codes[rows.subset])
    new_code = np.zeros(rows.n_classes, dtype=rows.codes.dtype)
    new_code[present] = np.arange(len(present))
    return rows.classes[present], new_code[rows.codes]


class _Reader:
    """Reads rows for a `Dataset`, in the form that every estimator can use."""

    name = "Dataset"
    allows_missing = True
    checks_rows = True

    def __init__(self, categorical_features, max_bins, workers):
        self.workers = workers
        self.params = SimpleNamespace(
            categorical_features=categorical_features,
            max_bins=max_bins,
            n_jobs=None,
            early_stopping=False,
            cv=2,
        )

    @contextmanager
    def together(self):
        """Context in which all workers act together: if one fails, the others do not wait for it."""
        with hearing(self.workers):
            try:
                yield
            except BaseException as error:
                self.workers.fail(error)
                raise

    def takes_labels(self, y):
        """Whether this y is multi-label."""
        return is_indicator(y)

    def __sklearn_tags__(self):
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()
