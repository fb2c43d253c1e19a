"""Trainings whose rows are divided among workers: checks, and what the workers agree on before the first round."""

import json
from hashlib import sha256
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from pymcboost.comm import ALONE, WorkerError
from pymcboost.data.coded import is_coded
from pymcboost.learners.sampling import scrambled
from pymcboost.model.categories import (
    MOST_LEVELS,
    Categories,
    column_of,
    is_category,
    is_frame,
    words_in,
)
from pymcboost.model.columns import names_of
from pymcboost.model.missing import with_missing
from pymcboost.model.rows import is_lists_of_labels, joined, own_labels, positions
from pymcboost.threads import available_cpus, counted, limited, resolve_n_jobs
from pymcboost.training.inputs import weights_of_classes, weights_of_rows
from pymcboost.training.labels import joined_labels

# The kernels of one worker number its rows in 32 bits. The total over all workers is limited because the sums, in
# fixed-point units, must not overflow.
OWN_ROWS = 2**31 - 1
MOST_ROWS = 10**10


def needs_folds(params):
    """Whether models of folds may be trained: for the number of rounds, a temperature or the thresholds of labels."""
    return (
        params.n_estimators == "auto"
        or params.calibrate
        or getattr(params, "decision_threshold", None) == "f1"
    )


def refuse(booster, workers, groups):
    """Refuse options that do not work with a communicator or with several workers."""
    name = booster.name
    params = booster.params
    if workers is not ALONE:
        unsupported = None
        if groups is not None:
            unsupported = "groups are"
        elif needs_folds(params) and not isinstance(params.cv, Integral):
            unsupported = f"cv={params.cv!r} is"
        if unsupported is not None:
            raise ValueError(
                f"{name}: {unsupported} not supported with a communicator, because folds are drawn by row "
                "number; give cv as a number, and no groups"
            )
        if not booster.takes_workers:
            raise TypeError(
                f"{name} trains with one worker and does not support comm; "
                "VectorTreeBoostClassifier, MCBoostClassifier, LogitBoostClassifier, "
                "MartClassifier, ABCLogitBoostClassifier and ABCMartClassifier do"
            )
    if workers.size > 1 and params.warm_start:
        raise ValueError(f"{name}: warm_start works only with one worker")


# -- agreement: what all workers must have alike -----------------------------------------------------------------------


def _stated_by_all(workers, state):
    """Return what the function ``state`` returns on each worker, to be compared.

    A single worker has nothing to compare with and gets an empty list, because hashing a model takes time.
    """
    return workers.exchange(state()) if workers.size > 1 else []


def _digest(model):
    return sha256(model.to_bytes()).hexdigest()


class _Arguments(NamedTuple):
    """What a worker states about its call of ``fit``.

    Attributes
    ----------
    params : dict
        Parameters by name; also the metrics of shared callbacks, and the checksum of ``init_model``.
    has_init_model : bool
    callbacks : list of str
        Class names of the callbacks that all workers need.
    """

    params: dict[str, Any]
    has_init_model: bool
    callbacks: list[str]


def check_alike(workers, booster, params, callbacks, initial):
    """Refuse parameters, an ``init_model`` and callbacks that differ between the workers."""

    def state():
        shared = [callback for callback in callbacks if callback.shared]
        metrics = sorted(name for callback in shared for name in callback._measured(booster.params))
        stated = {**params, "scoring of callbacks": metrics}
        if initial is not None:
            stated["init_model"] = f"a model with SHA-256 {_digest(initial.model)}"
        names = [type(callback).__name__ for callback in shared]
        return _Arguments(stated, initial is not None, names)

    statements = _stated_by_all(workers, state)
    for rank, arguments in enumerate(statements):
        _refuse_difference(booster.name, rank, arguments, of_first=statements[0])


def _refuse_difference(name, rank, arguments, of_first):
    """Refuse `_Arguments` of a worker that differ from those of worker 0."""
    if arguments.has_init_model != of_first.has_init_model:
        raise ValueError(
            f"{name}: init_model is given on some workers only; give it on all, or on none"
        )
    for callback in dict.fromkeys(arguments.callbacks + of_first.callbacks):
        n_here = arguments.callbacks.count(callback)
        n_first = of_first.callbacks.count(callback)
        if n_here != n_first:
            raise ValueError(
                f"{name}: worker {rank} has {n_here} {callback}, but worker 0 "
                f"has {n_first}; give all workers the same"
            )
    for parameter in sorted({*arguments.params, *of_first.params}):
        here = arguments.params.get(parameter, "the default")
        first = of_first.params.get(parameter, "the default")
        # As JSON, in which a model file stores them.
        if json.dumps(here, sort_keys=True) != json.dumps(first, sort_keys=True):
            raise ValueError(
                f"{name}: {parameter} is {here!r} on worker {rank}, but {first!r} on "
                "worker 0; give all workers the same"
            )


def check_models(workers, name, make_model):
    """Check after the training that all workers have the same model, byte by byte."""
    digests = _stated_by_all(workers, lambda: _digest(make_model()))
    for rank, digest in enumerate(digests):
        if digest != digests[0]:
            raise WorkerError(
                f"{name}: worker {rank} has a different model than worker 0; use the same "
                "functions (learning-rate schedules, losses, metrics) and the same version of "
                "pymcboost on all workers"
            )


class _Form(NamedTuple):
    """What a worker states about its rows."""

    shape: tuple[int, int]
    names: list[str] | None
    label_shape: tuple[int, ...]
    is_sparse: bool
    has_init_score: bool


def check_columns(workers, booster, X, names, labels, has_init_score):
    """Refuse too many rows, and rows whose columns, form or labels differ from those of the other workers."""
    name = booster.name
    names = None if names is None else list(names)
    forms = workers.exchange(_Form(X.shape, names, labels, hasattr(X, "tocsr"), has_init_score))
    first = forms[0]
    if len({form.has_init_score for form in forms}) > 1:
        raise ValueError(
            f"{name}: init_score is given on some workers only; give it on all, or on none"
        )
    for rank, form in enumerate(forms):
        n_rows, n_columns = form.shape
        if n_columns != first.shape[1]:
            raise ValueError(
                f"X has {n_columns} columns on worker {rank}, but {first.shape[1]} on worker 0; "
                "give all workers the same columns"
            )
        if form.is_sparse != first.is_sparse:
            raise ValueError(
                f"{name}: X is sparse on some workers and dense on others; use one type on all"
            )
        if form.names != first.names:
            raise ValueError(
                f"X has the columns {form.names} on worker {rank}, but {first.names} on worker 0; "
                "give all workers the same columns"
            )
        if form.label_shape != first.label_shape:
            raise ValueError(
                f"the rows of y have shape {form.label_shape} on worker {rank}, but {first.label_shape} on "
                "worker 0; give all workers the same kind of labels"
            )
        if n_rows > OWN_ROWS and workers.size == 1:
            raise ValueError(
                f"X has {n_rows} rows, more than the {OWN_ROWS} that one worker supports; "
                "divide them among workers"
            )
        if n_rows > OWN_ROWS:
            raise ValueError(
                f"worker {rank} has {n_rows} rows, more than {OWN_ROWS}; divide them among "
                "more workers"
            )
    total = sum(form.shape[0] for form in forms)
    if total > MOST_ROWS:
        raise ValueError(
            f"the workers have {total} rows, but training supports at most {MOST_ROWS}"
        )


# -- columns -----------------------------------------------------------------------------------------------------------


def missing_columns(workers, dataset):
    """Columns with missing values in training rows of any worker: int64, increasing."""
    rows = None if dataset.weight.all() else np.flatnonzero(dataset.weight)
    X = dataset.X
    columns = X.columns_with_missing(rows) if is_coded(X) else with_missing(X, rows)
    return np.unique(workers.concatenate(columns))


def categorical_columns(workers, categorical_features, X):
    """Return ``categorical_features``, where "from_dtype" selects the same columns on all workers.

    Text may be missing in all rows of one worker, or read as numbers there. One worker leaves the choice to
    `categories.find`, which reads text only once.
    """
    from_dtype = isinstance(categorical_features, str) and categorical_features == "from_dtype"
    if workers.size == 1 or not from_dtype:
        return categorical_features
    columns = [column_of(X, j) for j in range(X.shape[1])] if is_frame(X) else []
    columns_of_workers = workers.exchange(
        [(is_category(column), *words_in(column)) for column in columns]
    )
    n_columns = {len(columns_of_worker) for columns_of_worker in columns_of_workers}
    if not columns or len(n_columns) > 1:  # `check_columns` refuses different numbers of columns
        return categorical_features
    category, words, others = np.any(columns_of_workers, axis=0).T
    return np.flatnonzero(category | (words & ~others))


def categories_of(workers, name, categories):
    """Categories of the rows of all workers, the same as one worker with all rows would find."""
    categories_of_workers = workers.exchange(categories)
    columns_of_workers = {
        None if of_worker is None else tuple(of_worker.feature.tolist())
        for of_worker in categories_of_workers
    }
    if len(columns_of_workers) > 1:
        raise ValueError(
            f"{name}: the categorical columns of X differ between the workers; use the same on all"
        )
    if categories is None:
        return None
    names = []
    n_levels = []
    for j, column in enumerate(categories.feature.tolist()):
        with_levels = [of_worker for of_worker in categories_of_workers if of_worker.levels[j]]
        if not with_levels:
            raise ValueError(
                f"{name}: column {column} of X is missing in all rows of all workers; leave it out"
            )
        names_of_workers = [of_worker.names[j] for of_worker in with_levels]
        if len({level_names is None for level_names in names_of_workers}) > 1:
            raise ValueError(
                f"{name}: column {column} of X is text on some workers and numbers on others; "
                "convert it to one type"
            )
        if names_of_workers[0] is None:  # the column holds codes
            names.append(None)
            n_levels.append(max(of_worker.levels[j] for of_worker in with_levels))
        else:
            names.append(sorted(set().union(*names_of_workers)))
            n_levels.append(len(names[-1]))
    if max(n_levels) > MOST_LEVELS:
        raise ValueError(
            f"{name}: a column of X has {max(n_levels)} categories over all workers, but at most "
            f"{MOST_LEVELS} are supported; leave it out, or merge rare levels"
        )
    return Categories(categories.feature, np.array(n_levels, dtype=np.int64), tuple(names))


def threads_of(n_jobs, workers):
    """Number of threads of this worker; the default is an equal share of the machine's cores."""
    if n_jobs is None:
        return limited(max(1, available_cpus() // workers.beside))
    return resolve_n_jobs(n_jobs)


# -- classes and weights -----------------------------------------------------------------------------------------------


def classes_of(workers, y):
    """Classes of the rows of all workers, and the positions of y among them."""
    labels = np.unique(y)
    classes = joined_labels(workers.exchange(labels))
    if classes is None:  # no worker has rows, which is refused later
        classes = labels
    return classes, positions(classes, y)


def sample_weights(workers, weight, n_rows):
    """Check the weights of the rows. With several workers, one may have no rows or only weights of 0."""
    if workers.size > 1 and (not n_rows or (weight is not None and not np.any(weight))):
        return np.zeros(n_rows)
    return weights_of_rows(weight, n_rows)


def _rows_of_classes(workers, classes, codes, weight):
    """Number of rows with positive weight in each class over all workers: int64 (K,)."""
    count = np.bincount(codes[weight > 0], minlength=len(classes))
    return workers.sum(count.astype(np.int64))


def class_weights(workers, params, classes, codes, weight):
    """Class weights from the counts over all workers, see `inputs.weights_of_classes`; 1 for multi-label data."""
    if codes.ndim == 2:
        return np.ones(len(classes))
    return weights_of_classes(params, classes, _rows_of_classes(workers, classes, codes, weight))


def check_all_classes(workers, cls, classes, codes, weight):
    """Refuse rows of all workers with fewer than two classes, or without positive weight."""
    if codes.ndim == 2:
        has_rows = workers.maximum(np.array([int((weight > 0).any())]))[0]
        n_present = 2 * has_rows
    else:
        n_present = np.count_nonzero(_rows_of_classes(workers, classes, codes, weight))
    if n_present < 2:
        raise ValueError(
            f"{cls.__name__} needs rows of at least 2 classes with positive weight; the data "
            f"has {counted(n_present, 'class', 'classes')}"
        )


# -- validation rows ---------------------------------------------------------------------------------------------------


def held_out(workers, codes, weight, fraction, number, seed):
    """Rows of this worker for validation: in each class, the rows whose scrambled row numbers are the smallest.

    Rows of weight 0 do not count; a row of each class stays in the training part.
    """
    used = np.flatnonzero(weight > 0)
    group = codes[used] if codes.ndim == 1 else np.zeros(len(used), dtype=np.int64)
    n_groups = int(workers.maximum(np.array([group.max(initial=0)]))[0]) + 1
    count = workers.sum(np.bincount(group, minlength=n_groups).astype(np.int64))
    take = np.minimum(np.rint(fraction * count).astype(np.int64), np.maximum(count - 1, 0))
    if not take.any():
        raise ValueError(
            f"early_stopping: validation_fraction={fraction} selects none of {count.sum()} "
            f"rows in {n_groups} classes; increase it, give X_val and y_val, or set "
            "early_stopping=False"
        )
    return used[smallest(workers, scrambled(number[used], np.uint64(seed)), group, take)]


def smallest(workers, z, group, take):
    """Mark the ``take`` smallest numbers of each group over all workers. All numbers must be distinct.

    The largest number that is taken is found byte by byte, from counts of the next byte over all workers.
    """
    n_groups = len(take)
    each_group = np.arange(n_groups)
    largest_taken = np.zeros(n_groups, dtype=np.uint64)
    n_below = np.zeros(n_groups, dtype=np.int64)  # numbers below the leading bytes found so far
    candidates = np.arange(len(z))  # numbers that begin with these bytes
    for shift in range(56, -8, -8):
        byte = (z[candidates] >> np.uint64(shift)).astype(np.int64) & 255
        count = np.bincount(256 * group[candidates] + byte, minlength=256 * n_groups)
        count = workers.sum(count.astype(np.int64).reshape(n_groups, 256))
        n_up_to = n_below[:, None] + count.cumsum(axis=1)
        last = np.minimum((n_up_to < take[:, None]).sum(axis=1), 255)
        n_below = np.where(last > 0, n_up_to[each_group, last - 1], n_below)
        largest_taken |= last.astype(np.uint64) << np.uint64(shift)
        candidates = candidates[byte == last[group[candidates]]]
    return (z <= largest_taken[group]) & (take[group] > 0)


def drawn_set(workers, parts, number):
    """Validation set (X, y, codes, weight) of all workers, in the order of the row numbers."""
    parts_of_workers = workers.exchange((number, *parts))
    numbers, X, y, *arrays = zip(*parts_of_workers, strict=True)
    order = np.argsort(np.concatenate(numbers))
    joined_parts = [rows_of_all(X), labels_of_parts(y), *map(np.concatenate, arrays)]
    return [part[order] for part in joined_parts]


def whole_sets(workers, sets):
    """Join the validation sets of all workers, for each worker. A single one keeps its sets, without a copy."""
    if workers.size == 1:
        return sets
    sets_of_workers = workers.exchange(
        {name: tuple(map(_as_sent, parts)) for name, parts in sets.items()}
    )
    names = dict.fromkeys(name for sets_of_worker in sets_of_workers for name in sets_of_worker)
    return {
        name: _joined(
            [sets_of_worker[name] for sets_of_worker in sets_of_workers if name in sets_of_worker]
        )
        for name in names
    }


def _as_sent(part):
    """Convert a part of a set to an array, except for frames, sparse matrices and lists of labels."""
    is_sent_unchanged = (
        part is None
        or hasattr(part, "iloc")
        or is_frame(part)
        or hasattr(part, "tocsr")
        or is_lists_of_labels(part)
    )
    return part if is_sent_unchanged else np.asarray(part)


def _joined(parts):
    """Join X, y, weights and initial scores of the parts of a set; missing weights are 1 if others are given."""
    with_rows = [part for part in parts if part[1] is None or len(part[1])] or parts[:1]
    if any(y is None for _, y, _, _ in with_rows):
        raise ValueError(
            "a validation set has labels on some workers only; give each X_val with its y_val"
        )
    if len({init_score is None for *_, init_score in with_rows}) > 1:
        raise ValueError(
            "a validation set has an init_score on some workers only; give it on all of them, "
            "or on none"
        )
    X, y, _, init_scores = zip(*with_rows, strict=True)
    weight = None
    init_score = None
    if init_scores[0] is not None:
        init_score = np.concatenate(list(map(np.asarray, init_scores)))
    if any(part[2] is not None for part in parts):
        weight = np.concatenate(
            [np.ones(len(part[1])) if part[2] is None else part[2] for part in parts]
        )
    return rows_of_all(X), labels_of_parts(y), weight, init_score


def rows_of_all(parts):
    """Concatenate rows of several parts."""
    if any(is_frame(part) for part in parts):
        return _frame_of_all(parts)
    if all(hasattr(part, "iloc") for part in parts):
        import pandas

        return pandas.concat(parts, ignore_index=True)
    if any(hasattr(part, "tocsr") for part in parts):
        import scipy.sparse

        return scipy.sparse.vstack([scipy.sparse.csr_array(part) for part in parts], format="csr")
    if any(is_lists_of_labels(part) for part in parts):
        return [row for part in parts for row in part]
    return np.concatenate([np.asarray(part) for part in parts])


def labels_of_parts(parts):
    """Concatenate labels of several parts, in any form; integers stay integers."""
    if any(hasattr(part, "tocsr") or is_frame(part) or is_lists_of_labels(part) for part in parts):
        return rows_of_all(parts)
    arrays = [np.asarray(own_labels(part)) for part in parts]
    nonempty = [labels for labels in arrays if len(labels)]
    if nonempty and all(labels.dtype.kind in "bui" for labels in nonempty):
        return joined(nonempty)
    return rows_of_all(parts)


def _frame_of_all(parts):
    """Concatenate frames of one library, with columns matched by name."""
    kinds = {_library(part) for part in parts}
    if len(kinds) > 1:
        shown = dict.fromkeys(
            f"{type(part).__module__.partition('.')[0]}.{type(part).__name__}" for part in parts
        )
        raise ValueError(
            f"rows of one set are {' and '.join(shown)} on different workers; use data frames "
            "of one library on all"
        )
    names = [names_of(part) for part in parts]
    for column_names in names:
        if set(column_names or ()) != set(names[0] or ()):
            raise ValueError(
                f"data frames of one set have the columns {names[0]} and {column_names}; use the same "
                "columns on all workers"
            )
    if "pandas" in kinds:
        import pandas

        return pandas.concat(_with_levels_of_all(parts), ignore_index=True)
    if "polars" in kinds:
        import polars

        return polars.concat(parts, how="diagonal_relaxed")
    import pyarrow

    tables = [
        part if hasattr(part, "to_batches") else pyarrow.Table.from_batches([part])
        for part in parts
    ]
    return pyarrow.concat_tables(tables, promote_options="permissive")


def _library(part):
    """Name of the library of a frame; None if the part is not a frame."""
    if not is_frame(part):
        return None
    if hasattr(part, "iloc"):
        return "pandas"
    return "pyarrow" if hasattr(part, "column_names") else "polars"


def _with_levels_of_all(frames):
    """Give pandas frames the category levels of all frames; otherwise `concat` would drop differing categories."""
    import pandas

    types = [dict(zip(part.columns, part.dtypes, strict=True)) for part in frames]
    new = {}
    for name in types[0]:
        dtypes = [types_of_frame.get(name) for types_of_frame in types]
        all_categorical = all(isinstance(dtype, pandas.CategoricalDtype) for dtype in dtypes)
        if all_categorical and len(set(dtypes)) > 1:
            levels = dict.fromkeys(level for dtype in dtypes for level in dtype.categories)
            new[name] = pandas.CategoricalDtype(list(levels))
    return [part.astype(new) for part in frames] if new else frames
