"""Checks of the input of a training: rows, labels, weights and validation rows."""

from collections.abc import Mapping
from numbers import Integral, Real
from weakref import WeakKeyDictionary

import numpy as np

from pymcboost._warn import warn
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
from pymcboost.model.init_scores import init_scores
from pymcboost.model.model import Model
from pymcboost.model.rows import as_numpy, check_sparse, own_labels, positions
from pymcboost.threads import counted
from pymcboost.training.labels import check_order, labels_given, rows_in
from pymcboost.training.metrics import ValidationSet, as_given, looks_at_rows, measured
from pymcboost.training.ranges import LONGEST_NAME, is_name

SET_OF = "(X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score)"
# Types that rows may have. Rows of other types are converted to the first.
TYPES = [np.float32, np.float64]
# What early stopping holds out by default: chosen on parts of training sets, see docs/results/choices.md.
SET_ASIDE = 0.1
MOST_SET_ASIDE = 500
OF_EACH_CLASS = 5


class Validation:
    """Scores of the rows of all validation sets, kept up to date round by round.

    Parameters
    ----------
    sets : list of ValidationSet
    n_classes : int
    """

    def __init__(self, sets, n_classes):
        self.sets = sets
        self.X = _stacked([validation_set.X for validation_set in sets])
        self.codes = np.concatenate(
            [validation_set.codes for validation_set in sets]
        )  # or indicator matrices
        self.scores = np.zeros((self.X.shape[0], n_classes))
        first = [validation_set.init_score for validation_set in sets]
        self._first = None if any(scores is None for scores in first) else np.concatenate(first)
        if self._first is not None:
            self.scores += self._first
        self.n_learners = 0
        self.outputs = WeakKeyDictionary()  # of learners, if all coefficients change
        self._sums = None

    def add(self, learners):
        """Add the scores of more weak learners, or of a kernel machine."""
        if self._sums is None:
            self._sums = (
                np.zeros((self.X.shape[0], learners.width))
                if self._first is None
                else self.scores.copy()
            )
        learners.add_scores_to(self._sums, self.X)
        self.scores = learners.decode(self._sums)

    def add_rounds(self, builder):
        """Add all rounds of a builder, with the same sums as during training."""
        self.n_learners = len(builder)
        for part in builder.rounds():
            self.add(part)

    def named(self, name):
        """Find the validation set with this name; None if there is none."""
        return next(
            (validation_set for validation_set in self.sets if validation_set.name == name), None
        )

    def measure(self, *metrics):
        """Compute the metrics of every set, by the names of their history columns."""
        return {
            f"{validation_set.name}_{name}": value
            for validation_set, scores in self._parts()
            for name, value in measured(metrics, scores, validation_set).items()
        }

    def of(self, name, metric):
        """Compute a metric of the set with this name."""
        return next(
            metric(scores, validation_set)
            for validation_set, scores in self._parts()
            if validation_set.name == name
        )

    def _parts(self):
        ends = np.cumsum([len(validation_set.codes) for validation_set in self.sets])
        return zip(self.sets, np.split(self.scores, ends[:-1]), strict=True)


def _stacked(parts):
    """Stack the rows of several sets; sparse if any of them is."""
    if len(parts) == 1:
        return parts[0]
    if any(hasattr(X, "indptr") for X in parts):
        import scipy.sparse

        return scipy.sparse.vstack([scipy.sparse.csc_array(X) for X in parts], format="csc")
    return np.concatenate(parts)


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
        row = missing_label(y[0]) if message is None and y and y[0] is not None else None
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
        names_of_fit = getattr(estimator, "feature_names_in_", None)
        if not str(error).startswith("The feature names should match") or not {*names_of_fit} <= {
            *(names_of(X) or ())
        }:
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


def weights_of_rows(weight, X):
    """Check the given weights, which must not be negative; ones if None. float64 (m,)."""
    n_rows = X.shape[0]
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
    wrong = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if len(wrong):
        value = values[wrong[0]]
        raise ValueError(
            f"sample_weight[{wrong[0]}] is {value:g}; weights must be finite numbers >= 0, "
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
    group_of_row = group_of_row.ravel() if group_of_row.shape[1:] == (1,) else group_of_row
    if group_of_row.ndim != 1 or len(group_of_row) != n_rows:
        raise ValueError(
            f"groups must be one number or text for each of {n_rows} rows, but has shape "
            f"{group_of_row.shape}"
        )
    ours = params.early_stopping or isinstance(params.cv, Integral)
    try:
        if ours and group_of_row.dtype.kind in "OV":  # all other types can be sorted
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


def given_sets(X_val, y_val, sample_weight_val, validation_sets, init_score_val=None):
    """Collect the user's validation sets by name: X, y, weights or None, and initial scores or None."""
    if (X_val is None) != (y_val is None):
        raise ValueError(
            f"{'X_val' if y_val is None else 'y_val'} is given without "
            f"{'y_val' if y_val is None else 'X_val'}; give both, or neither, and by name: "
            "fit(X, y, X_val=X_val, y_val=y_val)"
        )
    if X_val is None and sample_weight_val is not None:
        raise ValueError("sample_weight_val weights the rows of X_val; give X_val and y_val, too")
    if isinstance(X_val, (list, tuple)) and any(
        len(getattr(part, "shape", ())) == 2 for part in X_val
    ):
        raise ValueError(
            "X_val is a list; give one validation set as X_val and y_val, and others as "
            "validation_sets={name: (X, y)}"
        )
    if X_val is None and init_score_val is not None:
        raise ValueError("init_score_val belongs to the rows of X_val; give X_val and y_val, too")
    refuse_repeated_names(X_val, "X_val")
    sets = {} if X_val is None else {"val": (X_val, y_val, sample_weight_val, init_score_val)}
    if validation_sets is not None and not isinstance(validation_sets, Mapping):
        raise ValueError(
            f"validation_sets must be a dict from names to {SET_OF}, as in {{'test': (X, y)}}, "
            f"not {type(validation_sets).__name__}"
        )
    for name, parts in (validation_sets or {}).items():
        if not is_name(name) or name == "val":
            raise ValueError(
                f"validation_sets: {str(name)[:LONGEST_NAME]!r} is not a valid name; use a "
                f"string of up to {LONGEST_NAME} printable characters other than 'val', which "
                "stands for X_val"
            )
        if not isinstance(parts, (tuple, list)) or len(parts) not in (2, 3, 4):
            raise ValueError(f"validation_sets[{name!r}] must be {SET_OF}")
        refuse_repeated_names(parts[0], f"the X of validation_sets[{name!r}]")
        sets[name] = (*parts, None, None)[:4]
    return sets


def held_set(estimator, name, X, y, weight, init_score, dataset, class_weight, allow_nan):
    """Check a validation set and return it; class weights count as in training."""
    several = dataset.is_multilabel
    came = X
    _check_first_scores(name, init_score, dataset)
    try:
        check_sparse(X)
        X = encoded(estimator, dataset.categories, X, names="X.columns")
        options = {
            "accept_sparse": "csc",
            "allow_nan": allow_nan,
            "reset": False,
            "names": "X.columns",
        }
        if several:
            X = validated(estimator, X, **options)
            _, codes = labels_given(y, X.shape[0], dataset.classes)
            y = codes.astype(int)
        else:
            X, y = validated(estimator, X, y, **options)
            check_order(y)
        weight = weights_of_rows(weight, X)
        if init_score is not None:
            init_score = init_scores(init_score, X.shape[0], dataset.n_classes, pairs=not several)
    except ValueError as error:
        raise ValueError(f"validation set {name!r}: {error}") from error
    values = X.data if hasattr(X, "indptr") else X
    with np.errstate(over="ignore"):
        beyond = np.isinf(values.astype(np.float32, copy=False)).any()
    if beyond:
        raise ValueError(
            f"{_shown(name, 'X')} contains a value beyond the float32 range (3.4e38), but "
            "features are rounded to float32; scale them"
        )
    given_rows = as_given(came) if looks_at_rows(estimator.scoring) else None
    if several:
        return ValidationSet.of(name, X, y, codes, weight, given_rows, init_score)
    codes = _encode(name, y, dataset.classes)
    if estimator.checks_rows:
        _note_unknown(name, np.asarray(y)[codes < 0], len(codes))
    with np.errstate(over="ignore"):
        weight = weight * np.where(codes < 0, 1.0, class_weight[codes])
    return ValidationSet.of(name, X, y, codes, weight, given_rows, init_score)


def _check_first_scores(name, init_score, dataset):
    """Refuse a validation set if only one of it and the training rows has initial scores."""
    if (init_score is None) == (dataset.init_score is None):
        return
    argument = (
        "init_score_val" if name == "val" else f"a fourth member of validation_sets[{name!r}]"
    )
    if init_score is None:
        raise ValueError(
            f"the training rows have an init_score, but the validation set {name!r} does not; "
            f"give it as {argument}"
        )
    raise ValueError(
        f"the validation set {name!r} has an init_score, but the training rows do not; give "
        "init_score to fit, too"
    )


def share_held(fraction, n_rows, n_classes, few):
    """Share of the rows to hold out; computed from the data if ``validation_fraction`` is "auto".

    Parameters
    ----------
    fraction : float or "auto"
    n_rows, n_classes : int
    few : bool
        Whether few rows do, as the temperature comes from folds.
    """
    if fraction != "auto":
        return fraction
    return (
        min(SET_ASIDE, max(MOST_SET_ASIDE, OF_EACH_CLASS * n_classes) / max(n_rows, 1))
        if few
        else SET_ASIDE
    )


def held_out(codes, weight, fraction, random_state, groups=None):
    """Draw validation rows from those with positive weight; a class with one row stays in the training part.

    With ``groups``, whole groups are drawn.
    """
    from sklearn.model_selection import train_test_split

    used = np.flatnonzero(weight > 0)
    codes = codes if codes.ndim == 1 else np.zeros(len(codes), dtype=np.int64)
    if groups is not None:
        return used[_whole_groups(codes[used], groups[used], fraction, random_state)]
    counts = np.bincount(codes[used])
    lone = counts[codes[used]] == 1
    try:
        _, rows = train_test_split(
            used[~lone], test_size=fraction, stratify=codes[used[~lone]], random_state=random_state
        )
    except ValueError as error:
        raise ValueError(
            f"early_stopping: cannot set aside validation_fraction={fraction} of "
            f"{counted(len(used), 'row')} with rows of every class; increase it, give X_val "
            "and y_val, or set early_stopping=False"
        ) from error
    return rows


def _whole_groups(codes, groups, fraction, random_state):
    """Draw random groups with about this share of the rows of every class; each class keeps a row outside."""
    _, group, size = np.unique(groups, return_inverse=True, return_counts=True)
    rows_of_group = np.split(np.argsort(group, kind="stable"), np.cumsum(size)[:-1])
    class_count = np.bincount(codes)
    target_count = fraction * class_count
    taken_count = np.zeros(len(class_count))
    taken_rows = []
    order = check_random_state(random_state).permutation(len(size))
    # First take groups that bring the classes closer to their shares. If there are none, take the smallest possible
    # group.
    for nearer in True, False:
        for rows in (
            rows_of_group[g]
            for g in (order if nearer else order[np.argsort(size[order], kind="stable")])
        ):
            now = taken_count + np.bincount(codes[rows], minlength=len(class_count))
            if (now[class_count > 0] < class_count[class_count > 0]).all() and (
                not nearer
                or np.abs(now - target_count).sum() < np.abs(taken_count - target_count).sum()
            ):
                taken_count = now
                taken_rows.append(rows)
            if taken_rows and (not nearer or taken_count.sum() >= target_count.sum()):
                break
        if taken_rows:
            break
    if not taken_rows:
        raise ValueError(
            f"early_stopping: cannot set aside one of {counted(len(size), 'group')} and keep "
            "rows of every class for training; use smaller groups, give X_val and y_val, or "
            "set early_stopping=False"
        )
    return np.sort(np.concatenate(taken_rows))


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


def _shown(name, argument):
    return f"{argument}_val" if name == "val" else f"{argument} of the validation set {name!r}"


def _encode(name, y, classes):
    """Class codes of y; -1 for labels that do not occur in training."""
    text = {kind in "OSU" for kind in (np.asarray(y).dtype.kind, classes.dtype.kind)}
    class_index = positions(classes, y) if len(text) == 1 else None
    if class_index is None or (class_index < 0).all():
        shown = _shown(name, "y")
        y = np.asarray(y)
        raise ValueError(
            f"none of the labels in {shown} occurs in y ({shown} begins with {y[:3].tolist()} "
            f"of type {y.dtype}, the classes are {classes[:3].tolist()}... of type "
            f"{classes.dtype}); use the same labels in both"
        )
    return class_index


def _note_unknown(name, unknown, n_rows):
    """Warn about the labels of a validation set that do not occur in training."""
    if not len(unknown):
        return
    labels = np.unique(unknown).tolist()
    shown = ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
    rows = f"{len(unknown)} of {counted(n_rows, 'row')}"
    warn(
        f"{_shown(name, 'y')}: {rows} {'has' if len(unknown) == 1 else 'have'} a label that does not occur "
        f"in y ({shown}); such rows always count as errors. Leave them out, or add rows of these classes to X and y"
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
    labels = (
        classes.tolist()
    )  # a list, because scikit-learn's function would treat the text "3" as the number
    absent = [label for label in labels if label not in class_weight]
    if absent and len(labels) - len(absent) < len(class_weight):
        raise ValueError(
            f"class_weight has labels that are not in y, and none of the classes {absent}; use "
            "the labels of y"
        )
    return np.array([class_weight.get(label, 1.0) for label in labels], dtype=np.float64)


def check_classes(cls, codes, weight):
    """Refuse rows with fewer than two classes, or without positive weight."""
    n_present = (
        len(np.unique(codes[weight > 0])) if codes.ndim == 1 else 2 * bool((weight > 0).any())
    )
    if n_present < 2:
        raise ValueError(
            f"{cls.__name__} needs rows of at least 2 classes with positive weight; the data "
            f"has {counted(n_present, 'class', 'classes')}"
        )


def check_class_weight(cls, class_weight):
    """Refuse class weights that are not finite numbers >= 0."""
    if isinstance(class_weight, dict):
        for label, value in class_weight.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < np.inf:
                raise ValueError(
                    f"{cls.__name__}: class_weight[{label!r}]={value!r} is not allowed; it must be a finite number >= 0"
                )
