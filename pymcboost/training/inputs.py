"""Checks of the input of a training: rows, labels, weights and validation rows."""

from numbers import Integral, Real

import numpy as np

from pymcboost.model.builders import EnsembleBuilder
from pymcboost.model.categories import column_of, is_category, is_frame
from pymcboost.model.columns import (
    ALL_NUMBERS,
    NOT_TRAINED,
    TEXT,
    missing_label,
    names_of,
    refuse_dates,
    refuse_no_rows,
    refuse_repeated_names,
    wrong_value,
)
from pymcboost.model.model import Model
from pymcboost.model.rows import as_numpy, own_labels
from pymcboost.threads import counted
from pymcboost.training.labels import rows_in

# Types that rows may have. Rows of other types are converted to the first.
TYPES = [np.float32, np.float64]


def validated(estimator, X, *y, allow_nan, head=None, names="model.feature_names_in_", **options):
    """Run scikit-learn's `validate_data` with error messages that name the column and the value.

    For rows in blocks, only ``head`` is checked. ``names``: where the message finds the names of the columns in
    order.
    """
    options |= {"dtype": TYPES, "ensure_all_finite": "allow-nan" if allow_nan else True}
    if head is not None:
        from sklearn.utils import column_or_1d

        _validated(estimator, head, names=names, **options)
        return (X, *map(column_or_1d, y)) if y else X
    refuse_no_rows(X)
    refuse_dates(X)
    X = as_numpy(X)
    y = [own_labels(labels) for labels in y]
    try:
        return _validated(estimator, X, *y, names=names, **options)
    except (ValueError, TypeError, OverflowError) as error:
        message = wrong_value(X, allow_nan, _remedy_of_text(estimator, options))
        if message is None and str(error).startswith("Found input variables"):
            n_rows = rows_in(X)
            n_labels = rows_in(y[0])
            message = (
                f"X has {counted(n_rows, 'row')}, but y has {counted(n_labels, 'label')}; give "
                "each row a label"
            )
        row = None
        if message is None and y and y[0] is not None:
            row = missing_label(y[0])
        if row is not None:
            raise ValueError(
                f"y has no label in row {row}; leave out rows without a label ({str(error)[:80]})"
            ) from error
        if message is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{message} ({str(error)[:80].partition(chr(10))[0]})") from error


def _validated(estimator, X, *y, names, **options):
    """Run `validate_data` without overflow warnings; the error for wrong columns or their order says what to do."""
    if not estimator.checks_rows:
        if options.get("reset", True):
            estimator.n_features_in_ = X.shape[1]
        return (X, *y) if y else X
    from sklearn.utils.validation import validate_data

    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return validate_data(estimator, X, *y, **options)
    except ValueError as error:
        if str(error).startswith("X has ") and "features" in str(error):
            raise ValueError(
                f"{str(error).rstrip('.')}; give the columns of the training data, in the same "
                "order"
            ) from error
        if not str(error).startswith("The feature names should match"):
            raise
        names_of_fit = getattr(estimator, "feature_names_in_", None)
        if not set(names_of_fit) <= set(names_of(X) or ()):
            raise
        selection = f"X[{names}]" if hasattr(X, "iloc") else f"X.select(list({names}))"
        raise ValueError(f"{error}\nGive {selection}, with the columns in that order") from error


def _remedy_of_text(estimator, options):
    """Advice for a text column in X."""
    if hasattr(estimator, "model_") and not options.get("reset", True):
        return NOT_TRAINED
    return TEXT if hasattr(estimator, "categorical_features") else ALL_NUMBERS


def encoded(estimator, categories, X, names="model.feature_names_in_"):
    """Replace categories in X by their codes; first refuse a frame whose columns differ from those of `fit`."""
    refuse_repeated_names(X)
    if categories is None:
        return X
    if is_frame(X):
        _validated(estimator, X, names=names, reset=False, skip_check_array=True)
    return categories.encoded(X)


def check_consistent_length(X, y):
    """Refuse labels whose number differs from that of the rows."""
    if X.shape[0] != len(y):
        n_rows = counted(X.shape[0], "row")
        n_labels = counted(len(y), "label")
        raise ValueError(f"X has {n_rows}, but y has {n_labels}; give each row a label")


def check_random_state(seed):
    """Return the random generator for a ``random_state``; None gives NumPy's global one."""
    if isinstance(seed, np.random.RandomState):
        return seed
    return np.random.mtrand._rand if seed is None else np.random.RandomState(seed)


def weights_of_rows(weight, n_rows):
    """Check the given weights, which must not be negative; ones if None. float64 (m,)."""
    allowed = f"give one number >= 0 for each of {n_rows} rows"
    if weight is None:
        return np.ones(n_rows)
    if isinstance(weight, (str, dict)):
        kind = ValueError if isinstance(weight, str) else TypeError
        problem = f"sample_weight is a {type(weight).__name__}"
        raise kind(
            f"{problem}; {allowed}. To weight classes, use the parameter class_weight of the "
            "constructor"
        )
    try:
        values = np.array(as_numpy(weight), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise type(error)(
            f"sample_weight contains values that are not numbers; {allowed} ({str(error)[:80]})"
        ) from error
    if values.ndim == 0:
        values = np.full(n_rows, values)
    if values.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {values.shape}; {allowed}")
    refused = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if len(refused):
        value = values[refused[0]]
        raise ValueError(
            f"sample_weight[{refused[0]}] is {value:g}; weights must be finite numbers >= 0, "
            "where 0 leaves a row out"
        )
    if not values.any():
        raise ValueError(
            "all sample weights are zero; give a positive weight to the rows that count"
        )
    return values


def groups_given(groups, n_rows, params):
    """Check the groups of the rows (n,); None if there are none.

    They must be sortable if the rows are held out here. A custom splitter gets them unchanged.
    """
    if groups is None:
        return None
    try:
        group_of_row = np.asarray(groups)
    except ValueError:  # rows of different lengths
        group_of_row = np.asarray(None)
    if group_of_row.shape[1:] == (1,):
        group_of_row = group_of_row.ravel()
    if group_of_row.ndim != 1 or len(group_of_row) != n_rows:
        raise ValueError(
            f"groups must be one number or text for each of {n_rows} rows, but has shape "
            f"{group_of_row.shape}"
        )
    are_sorted = params.early_stopping or isinstance(params.cv, Integral)
    try:
        if are_sorted and group_of_row.dtype.kind in "OV":  # all other types can be sorted
            np.unique(group_of_row)
    except TypeError as error:
        raise ValueError(
            f"groups: {error}; use numbers for all rows, or text for all rows"
        ) from error
    return group_of_row


def refuse_categories(name, X):
    """Refuse a frame with categorical columns if the algorithm does not support them.

    Their codes would pass as numbers.
    """
    if not is_frame(X):
        return
    columns = [j for j in range(X.shape[1]) if is_category(column_of(X, j))]
    if columns:
        raise ValueError(
            f"{name}: column {names_of(X)[columns[0]]!r} holds categories, which {name} does "
            "not support. Encode it as numbers (sklearn.preprocessing.OneHotEncoder, "
            "OrdinalEncoder or TargetEncoder), or use VectorTreeBoostClassifier or "
            "MCBoostClassifier"
        )


def refuse_rows_as_weights(sample_weight):
    """Refuse rows in the place of the weights: a validation set that was given without its names."""
    shape = getattr(sample_weight, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"sample_weight, the third argument of fit, has shape {tuple(shape)}, as rows have; give a "
            "validation set by name: fit(X, y, X_val=X_val, y_val=y_val)"
        )


def labels_of_file(classes):
    """Convert labels to integers or strings, as a model file stores them."""
    if classes.dtype.kind in "bf":
        return classes.astype(np.int64)
    return classes if classes.dtype.kind in "iuU" else np.array([str(label) for label in classes])


def check_file(classes, meta):
    """Refuse labels and names that a model file cannot store, before time is spent on training."""
    Model.from_ensemble(
        EnsembleBuilder(len(classes), 1).freeze(), labels_of_file(classes), meta=meta
    )


def weights_of_classes(params, classes, count):
    """Weights of the classes for the parameter ``class_weight``: float64 (K,).

    ``count``: rows of positive weight (K,); "balanced" is 1 for classes without any.
    """
    class_weight = getattr(params, "class_weight", None)
    weights = np.ones(len(classes))
    if class_weight == "balanced":
        present = count > 0
        weights[present] = count.sum() / (
            np.count_nonzero(present) * count[present].astype(np.float64)
        )
        return weights
    if class_weight is None:
        return weights
    labels = classes.tolist()
    absent = [label for label in labels if label not in class_weight]
    if absent and len(labels) - len(absent) < len(class_weight):
        raise ValueError(
            f"class_weight has labels that are not in y, and none of the classes {absent}; use "
            "the labels of y"
        )
    return np.array([class_weight.get(label, 1.0) for label in labels], dtype=np.float64)


def check_class_weight(cls, class_weight):
    """Refuse class weights that are not finite numbers >= 0."""
    if isinstance(class_weight, dict):
        for label, value in class_weight.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < np.inf:
                raise ValueError(
                    f"{cls.__name__}: class_weight[{label!r}]={value!r} is not allowed; it must be a finite number >= 0"
                )
