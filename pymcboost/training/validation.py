"""Validation rows: those that users give, those that early stopping sets aside, and their scores round by round."""

import itertools
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from pymcboost._warn import warn
from pymcboost.comm import ALONE, row_numbers
from pymcboost.model.columns import refuse_repeated_names
from pymcboost.model.init_scores import init_scores
from pymcboost.model.rows import check_sparse, positions
from pymcboost.threads import counted
from pymcboost.training import divided
from pymcboost.training.callbacks import CalibratedCurve, EarlyStopping, ValidationCurves
from pymcboost.training.divided_folds import n_weighted
from pymcboost.training.inputs import check_random_state, encoded, validated, weights_of_rows
from pymcboost.training.labels import check_order, labels_given
from pymcboost.training.metrics import (
    ValidationSet,
    as_given,
    calibrated_of,
    looks_at_rows,
    measured,
    metrics_by,
)
from pymcboost.training.ranges import LONGEST_NAME, is_name

SET_OF = "(X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score)"
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
        # Classes, or indicator matrices.
        self.codes = np.concatenate([validation_set.codes for validation_set in sets])
        self.scores = np.zeros((self.X.shape[0], n_classes))
        init_scores_of_sets = [validation_set.init_score for validation_set in sets]
        self._init_score = None
        if all(scores is not None for scores in init_scores_of_sets):
            self._init_score = np.concatenate(init_scores_of_sets)
            self.scores += self._init_score
        self.n_learners = 0
        self.outputs = WeakKeyDictionary()  # of learners, if all coefficients change
        self._sums = None

    def add(self, learners):
        """Add the scores of more weak learners, or of a kernel machine."""
        if self._sums is None and self._init_score is None:
            self._sums = np.zeros((self.X.shape[0], learners.width))
        elif self._sums is None:
            self._sums = self.scores.copy()
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


def given_sets(X_val, y_val, sample_weight_val, validation_sets, init_score_val=None):
    """Collect the user's validation sets by name: X, y, weights or None, and initial scores or None."""
    if (X_val is None) != (y_val is None):
        pair = "X_val is given without y_val"
        if y_val is not None:
            pair = "y_val is given without X_val"
        raise ValueError(
            f"{pair}; give both, or neither, and by name: fit(X, y, X_val=X_val, y_val=y_val)"
        )
    if X_val is None and sample_weight_val is not None:
        raise ValueError("sample_weight_val weights the rows of X_val; give X_val and y_val, too")
    is_list = isinstance(X_val, (list, tuple))
    if is_list and any(len(getattr(item, "shape", ())) == 2 for item in X_val):
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
    is_multilabel = dataset.is_multilabel
    user_X = X
    _check_init_score(name, init_score, dataset)
    try:
        check_sparse(X)
        X = encoded(estimator, dataset.categories, X, names="X.columns")
        options = {
            "accept_sparse": "csc",
            "allow_nan": allow_nan,
            "reset": False,
            "names": "X.columns",
        }
        if is_multilabel:
            X = validated(estimator, X, **options)
            _, codes = labels_given(y, X.shape[0], dataset.classes)
            y = codes.astype(int)
        else:
            X, y = validated(estimator, X, y, **options)
            check_order(y)
        weight = weights_of_rows(weight, X.shape[0])
        if init_score is not None:
            pairs = not is_multilabel
            init_score = init_scores(init_score, X.shape[0], dataset.n_classes, pairs=pairs)
    except ValueError as error:
        raise ValueError(f"validation set {name!r}: {error}") from error
    values = X.data if hasattr(X, "indptr") else X
    with np.errstate(over="ignore"):
        is_too_large = np.isinf(values.astype(np.float32, copy=False)).any()
    if is_too_large:
        raise ValueError(
            f"{_shown(name, 'X')} contains a value beyond the float32 range (3.4e38), but "
            "features are rounded to float32; scale them"
        )
    user_X = as_given(user_X) if looks_at_rows(estimator.scoring) else None
    if not is_multilabel:
        codes = _encode(name, y, dataset.classes)
        if estimator.checks_rows:
            _note_unknown(name, np.asarray(y)[codes < 0], len(codes))
        with np.errstate(over="ignore"):
            weight = weight * np.where(codes < 0, 1.0, class_weight[codes])
    return ValidationSet.of(
        name, X, y, codes=codes, weight=weight, user_X=user_X, init_score=init_score
    )


def _check_init_score(name, init_score, dataset):
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
    if not few:
        return SET_ASIDE
    enough = max(MOST_SET_ASIDE, OF_EACH_CLASS * n_classes)
    return min(SET_ASIDE, enough / max(n_rows, 1))


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
    rows_to_split = used[counts[codes[used]] > 1]
    try:
        _, rows = train_test_split(
            rows_to_split,
            test_size=fraction,
            stratify=codes[rows_to_split],
            random_state=random_state,
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
    has_rows = class_count > 0
    target_count = fraction * class_count
    order = check_random_state(random_state).permutation(len(size))

    def count_with(rows):
        return taken_count + np.bincount(codes[rows], minlength=len(class_count))

    def leaves_all_classes(count):
        return (count[has_rows] < class_count[has_rows]).all()

    # First take groups that bring the classes closer to their shares.
    taken_count = np.zeros(len(class_count))
    taken_rows = []
    for g in order:
        count = count_with(rows_of_group[g])
        distance = np.abs(count - target_count).sum()
        is_closer = distance < np.abs(taken_count - target_count).sum()
        if is_closer and leaves_all_classes(count):
            taken_count = count
            taken_rows.append(rows_of_group[g])
        if taken_rows and taken_count.sum() >= target_count.sum():
            break
    # If there are none, take the smallest possible group.
    if not taken_rows:
        by_size = order[np.argsort(size[order], kind="stable")]
        possible = (g for g in by_size if leaves_all_classes(count_with(rows_of_group[g])))
        taken_rows = [rows_of_group[g] for g in itertools.islice(possible, 1)]
    if not taken_rows:
        raise ValueError(
            f"early_stopping: cannot set aside one of {counted(len(size), 'group')} and keep "
            "rows of every class for training; use smaller groups, give X_val and y_val, or "
            "set early_stopping=False"
        )
    return np.sort(np.concatenate(taken_rows))


def _shown(name, argument):
    """Name of X or y of a validation set in messages."""
    return f"{argument}_val" if name == "val" else f"{argument} of the validation set {name!r}"


def _encode(name, y, classes):
    """Class codes of y; -1 for labels that do not occur in training."""
    y_is_text = np.asarray(y).dtype.kind in "OSU"
    classes_are_text = classes.dtype.kind in "OSU"
    class_index = positions(classes, y) if y_is_text == classes_are_text else None
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


def set_aside(booster, dataset, random_state):
    """Hold out rows for early stopping.

    Parameters
    ----------
    booster : Booster
    dataset : TrainingSet
        The rows of this worker.
    random_state : int, RandomState or None

    Returns
    -------
    rows : ndarray of int
        Rows of this worker that are held out.
    validation_set : ValidationSet
        The rows of all workers that are held out.
    share : float
        Their share of all rows.
    """
    params = booster.params
    workers = booster.workers
    codes = dataset.codes
    n_classes = int(workers.maximum(np.array([codes.max(initial=0)], dtype=np.int64))[0]) + 1
    few = bool(calibrated_of(params, booster.link))
    n_rows = n_weighted(workers, dataset.weight)
    share = share_held(params.validation_fraction, n_rows, n_classes, few)
    if workers is ALONE:
        rows = held_out(codes, dataset.weight, share, random_state, dataset.groups)
        parts = dataset.X[rows], dataset.y(rows), codes[rows], dataset.weight[rows]
        init_score = dataset.init_score_of(rows)
    else:
        rows, parts, init_score = _set_aside_by_workers(workers, dataset, share, random_state)
    X_held, y, codes, weight = parts
    X_held = X_held.tocsc() if hasattr(X_held, "tocsc") else X_held
    validation_set = ValidationSet.of(
        "val",
        X_held,
        y,
        codes=codes,
        weight=weight,
        user_X=dataset.user_rows(params.scoring, rows),
        init_score=init_score,
    )
    return rows, validation_set, share


def _set_aside_by_workers(workers, dataset, share, random_state):
    """Rows of this worker that are held out; X, labels, codes and weights of those of all workers; initial scores."""
    codes = dataset.codes
    number = row_numbers(workers, dataset.n_rows)
    seed = workers.broadcast(int(check_random_state(random_state).randint(2**31)))
    rows = divided.held_out(
        workers, codes, dataset.weight, fraction=share, number=number, seed=seed
    )
    X_held = dataset.X[rows] if hasattr(dataset.X, "tocsc") else np.asarray(dataset.X[rows])
    parts = X_held, dataset.y(rows), codes[rows], dataset.weight[rows]
    if dataset.init_score is None:
        return rows, divided.drawn_set(workers, parts, number[rows]), None
    *parts, init_score = divided.drawn_set(
        workers, (*parts, dataset.init_score_of(rows)), number[rows]
    )
    return rows, parts, init_score


def following(validation, booster, classes):
    """Callbacks that measure the validation sets after each round, and stop the training early."""
    params = booster.params
    metrics = metrics_by(params.scoring, classes, booster.probabilities, loss=booster.loss_value)
    for validation_set in validation.sets:
        for metric in metrics:
            metric.check(validation_set)
    calibrated = calibrated_of(params, booster.link) if params.early_stopping else []
    taken = [*booster.columns, *(f"val_{metric.name}" for metric in calibrated)]
    _refuse_equal_curves(validation, metrics, taken)
    callbacks = [ValidationCurves(*metrics)]
    if params.early_stopping:
        callbacks += [CalibratedCurve(metric) for metric in calibrated]
        callbacks.append(
            EarlyStopping(
                metrics[0],
                params.n_iter_no_change,
                params.min_delta,
                further_metrics=calibrated,
            )
        )
    return callbacks


def _refuse_equal_curves(validation, metrics, taken):
    """Refuse names of validation sets and metrics that would give two curves of the history the same name."""
    for validation_set in validation.sets:
        for metric in metrics:
            column = f"{validation_set.name}_{metric.name}"
            if column in taken:
                raise ValueError(
                    f"the metric {metric.name!r} of the validation set {validation_set.name!r} would "
                    f"be {column!r} in the history, where another curve has this name; "
                    "rename the set in validation_sets, or give scoring as a dict with "
                    "another name for the metric"
                )
            taken.append(column)
