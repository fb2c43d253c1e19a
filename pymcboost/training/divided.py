"""Trainings whose rows are divided among workers: checks, and what the workers agree on before the first round."""

import json
from hashlib import sha256
from numbers import Integral

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
from pymcboost.threads import available_cpus, resolve_n_jobs, startable
from pymcboost.training.inputs import check_classes, weights_of_classes, weights_of_rows
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


def refuse(booster, workers, sets, groups, **arguments):
    """Refuse options that do not work with a communicator or with several workers."""
    name = booster.name
    p = booster.params
    if workers is not ALONE and (
        groups is not None or (needs_folds(p) and not isinstance(p.cv, Integral))
    ):
        subject = "groups are" if groups is not None else f"cv={p.cv!r} is"
        raise ValueError(
            f"{name}: {subject} not supported with a communicator, because folds are drawn by row "
            "number; give cv as a number, and no groups"
        )
    if workers is not ALONE and not booster.takes_workers:
        raise TypeError(
            f"{name} trains with one worker and does not support comm; "
            "VectorTreeBoostClassifier, MCBoostClassifier, LogitBoostClassifier, "
            "MartClassifier, ABCLogitBoostClassifier and ABCMartClassifier do"
        )
    if workers.size == 1:
        return
    for subject, value in arguments.items():
        if value is not None and value is not False:
            raise ValueError(f"{name}: {subject} works only with one worker")


def check_alike(workers, booster, params, callbacks, initial):
    """Refuse parameters, an ``init_model`` and callbacks that differ between the workers."""
    if workers.size == 1:
        return
    shared = [callback for callback in callbacks if callback.shared]
    metrics = sorted(name for callback in shared for name in callback._measured(booster.params))
    params = {**params, "scoring of callbacks": metrics}
    if initial is not None:
        params["init_model"] = (
            f"a model with SHA-256 {sha256(initial.model.to_bytes()).hexdigest()}"
        )
    every = workers.exchange(
        (params, initial is None, [type(callback).__name__ for callback in shared])
    )
    first, first_has_none, first_shared = every[0]
    for rank, (worker_params, has_none, has) in enumerate(every):
        if has_none != first_has_none:
            raise ValueError(
                f"{booster.name}: init_model is given on some workers only; give it on all, or on none"
            )
        for callback_name in dict.fromkeys(has + first_shared):
            if has.count(callback_name) != first_shared.count(callback_name):
                raise ValueError(
                    f"{booster.name}: worker {rank} has {has.count(callback_name)} {callback_name}, but worker 0 "
                    f"has {first_shared.count(callback_name)}; give all workers the same"
                )
        for callback in sorted({*worker_params, *first}):
            here, default_worker_value = (
                worker_params.get(callback, "the default"),
                first.get(callback, "the default"),
            )
            if json.dumps(here, sort_keys=True) != json.dumps(
                default_worker_value, sort_keys=True
            ):  # as the file has them
                raise ValueError(
                    f"{booster.name}: {callback} is {here!r} on worker {rank}, but {default_worker_value!r} on "
                    "worker 0; give all workers the same"
                )


def missing_columns(workers, dataset):
    """Columns with missing values in training rows of any worker: int64, increasing."""
    rows = None if dataset.weight.all() else np.flatnonzero(dataset.weight)
    X = dataset.X
    columns = X.columns_with_missing(rows) if is_coded(X) else with_missing(X, rows)
    return np.unique(workers.concatenate(columns))


def check_models(workers, name, model):
    """Check that all workers have the same model; ``model`` is a function that returns it."""
    if workers.size == 1:
        return
    digests = workers.exchange(sha256(model().to_bytes()).hexdigest())
    if len({*digests}) > 1:
        rank = next(i for i, digest in enumerate(digests) if digest != digests[0])
        raise WorkerError(
            f"{name}: worker {rank} has a different model than worker 0; use the same "
            "functions (learning-rate schedules, losses, metrics) and the same version of "
            "pymcboost on all workers"
        )


def categorical_columns(workers, categorical_features, X):
    """Return ``categorical_features``, where "from_dtype" selects the same columns on all workers.

    Text may be missing in all rows of one worker, or read as numbers there.
    """
    if (
        workers.size == 1
        or not isinstance(categorical_features, str)
        or categorical_features != "from_dtype"
    ):
        return categorical_features
    columns = [column_of(X, j) for j in range(X.shape[1])] if is_frame(X) else []
    every = workers.exchange([(is_category(column), *words_in(column)) for column in columns])
    if (
        len({len(columns_of_worker) for columns_of_worker in every}) > 1 or not columns
    ):  # the first is refused later
        return categorical_features
    category, words, others = np.any(every, axis=0).T
    return np.flatnonzero(category | (words & ~others))


def categories_of(workers, name, categories):
    """Categories of the rows of all workers, the same as one worker with all rows would find."""
    if workers.size == 1:
        return categories
    every = workers.exchange(categories)
    if (
        len(
            {
                None if worker_categories is None else tuple(worker_categories.feature.tolist())
                for worker_categories in every
            }
        )
        > 1
    ):
        raise ValueError(
            f"{name}: the categorical columns of X differ between the workers; use the same on all"
        )
    if categories is None:
        return None
    names = []
    levels = np.max([worker_categories.levels for worker_categories in every], axis=0).tolist()
    for j, column in enumerate(categories.feature.tolist()):
        names_of_workers = [
            worker_categories.names[j] for worker_categories in every if worker_categories.levels[j]
        ]
        if not names_of_workers:
            raise ValueError(
                f"{name}: column {column} of X is missing in all rows of all workers; leave it out"
            )
        if len({worker_categories is None for worker_categories in names_of_workers}) > 1:
            raise ValueError(
                f"{name}: column {column} of X is text on some workers and numbers on others; "
                "convert it to one type"
            )
        names.append(
            None if names_of_workers[0] is None else sorted(set().union(*names_of_workers))
        )
        levels[j] = levels[j] if names[-1] is None else len(names[-1])
    if max(levels) > MOST_LEVELS:
        raise ValueError(
            f"{name}: a column of X has {max(levels)} categories over all workers, but at most "
            f"{MOST_LEVELS} are supported; leave it out, or merge rare levels"
        )
    return Categories(categories.feature, np.array(levels, dtype=np.int64), tuple(names))


def threads_of(n_jobs, workers):
    """Number of threads of this worker; the default is an equal share of the machine's cores."""
    if workers.size > 1 and n_jobs is None:
        return startable(max(1, available_cpus() // workers.beside))
    return resolve_n_jobs(n_jobs)


def check_columns(workers, booster, X, names, labels, has_init_score):
    """Refuse too many rows, and rows whose columns, form or labels differ from those of the other workers."""
    if workers.size == 1:
        if X.shape[0] > OWN_ROWS:
            raise ValueError(
                f"X has {X.shape[0]} rows, more than the {OWN_ROWS} that one worker supports; "
                "divide them among workers"
            )
        return
    name = booster.name
    is_sparse = hasattr(X, "tocsr")
    every = workers.exchange(
        (X.shape, None if names is None else list(names), labels, is_sparse, has_init_score)
    )
    if len({facts[-1] for facts in every}) > 1:
        raise ValueError(
            f"{name}: init_score is given on some workers only; give it on all, or on none"
        )
    for rank, (shape, column_names, label_shape, sparse, _) in enumerate(every):
        if shape[1] != every[0][0][1]:
            raise ValueError(
                f"X has {shape[1]} columns on worker {rank}, but {every[0][0][1]} on worker 0; "
                "give all workers the same columns"
            )
        if sparse != every[0][3]:
            raise ValueError(
                f"{name}: X is sparse on some workers and dense on others; use one type on all"
            )
        if column_names != every[0][1]:
            raise ValueError(
                f"X has the columns {column_names} on worker {rank}, but {every[0][1]} on worker 0; "
                "give all workers the same columns"
            )
        if label_shape != every[0][2]:
            raise ValueError(
                f"the rows of y have shape {label_shape} on worker {rank}, but {every[0][2]} on "
                "worker 0; give all workers the same kind of labels"
            )
        if shape[0] > OWN_ROWS:
            raise ValueError(
                f"worker {rank} has {shape[0]} rows, more than {OWN_ROWS}; divide them among "
                "more workers"
            )
    total = sum(shape[0] for shape, *_ in every)
    if total > MOST_ROWS:
        raise ValueError(
            f"the workers have {total} rows, but training supports at most {MOST_ROWS}"
        )


def classes_of(workers, y):
    """Classes of the rows of all workers, and the positions of y among them."""
    if workers.size == 1:
        return np.unique(y, return_inverse=True)
    classes = joined_labels(workers.exchange(np.unique(y)))
    classes = np.unique(y) if classes is None else classes
    return classes, positions(classes, y)


def sample_weights(workers, weight, n_rows):
    """Check the weights of the rows. With several workers, one may have no rows or only weights of 0."""
    if workers.size > 1 and (not n_rows or (weight is not None and not np.any(weight))):
        return np.zeros(n_rows)
    return weights_of_rows(weight, n_rows)


def class_weights(workers, params, classes, codes, weight):
    """Class weights from the counts over all workers, see `inputs.weights_of_classes`; 1 for multi-label data."""
    if codes.ndim == 2:
        return np.ones(len(classes))
    count = workers.sum(np.bincount(codes[weight > 0], minlength=len(classes)).astype(np.int64))
    return weights_of_classes(params, classes, count)


def check_all_classes(workers, cls, classes, codes, weight):
    """Check the classes over the rows of all workers, see `inputs.check_classes`."""
    if workers.size == 1:
        return check_classes(cls, codes, weight)
    if codes.ndim == 2:
        has_rows = workers.maximum(np.array([int((weight > 0).any())]))
        return check_classes(cls, np.ones((1, 2)), has_rows.astype(float))
    present = np.bincount(codes[weight > 0], minlength=len(classes)).astype(np.int64)
    return check_classes(cls, np.arange(len(classes)), workers.sum(present).astype(float))


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
    """Mark the ``take`` smallest numbers of each group over all workers. All numbers must be distinct."""
    first, before = np.zeros(len(take), dtype=np.uint64), np.zeros(len(take), dtype=np.int64)
    candidates, each = (
        np.arange(len(z)),
        np.arange(len(take)),
    )  # numbers whose leading digits equal those of the last one taken
    for shift in range(56, -8, -8):
        digit = (z[candidates] >> np.uint64(shift)).astype(np.int64) & 255
        counts = np.bincount(256 * group[candidates] + digit, minlength=256 * len(take)).reshape(
            -1, 256
        )
        ends = before[:, None] + workers.sum(counts.astype(np.int64)).cumsum(axis=1)
        last = np.minimum((ends < take[:, None]).sum(axis=1), 255)
        before = np.where(last > 0, ends[each, last - 1], before)
        first |= last.astype(np.uint64) << np.uint64(shift)
        candidates = candidates[digit == last[group[candidates]]]
    return (z <= first[group]) & (take[group] > 0)


def drawn_set(workers, parts, number):
    """Validation set (X, y, codes, weight) of all workers, in the order of the row numbers."""
    every = workers.exchange((number, *parts))
    number, X, y, *columns = zip(*every, strict=True)
    order = np.argsort(np.concatenate(number))
    return [
        part[order] for part in (rows_of_all(X), labels_of_parts(y), *map(np.concatenate, columns))
    ]


def whole_sets(workers, sets):
    """Join the validation sets of all workers, for each worker."""
    if workers.size == 1:
        return sets
    every = workers.exchange({name: tuple(map(_as_sent, parts)) for name, parts in sets.items()})
    return {
        name: _joined([sets_of_worker[name] for sets_of_worker in every if name in sets_of_worker])
        for name in dict.fromkeys(name for sets_of_worker in every for name in sets_of_worker)
    }


def _as_sent(part):
    """Convert a part of a set to an array, except for frames, sparse matrices and lists of labels."""
    kept = (
        part is None
        or hasattr(part, "iloc")
        or is_frame(part)
        or hasattr(part, "tocsr")
        or is_lists_of_labels(part)
    )
    return part if kept else np.asarray(part)


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
    nonempty = [
        labels for labels in (np.asarray(own_labels(part)) for part in parts) if len(labels)
    ]
    return (
        joined(nonempty)
        if nonempty and all(labels.dtype.kind in "bui" for labels in nonempty)
        else rows_of_all(parts)
    )


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
        dtypes = [dtype.get(name) for dtype in types]
        if len(set(dtypes)) > 1 and all(
            isinstance(dtype, pandas.CategoricalDtype) for dtype in dtypes
        ):
            new[name] = pandas.CategoricalDtype(
                list(dict.fromkeys(level for dtype in dtypes for level in dtype.categories))
            )
    return [part.astype(new) for part in frames] if new else frames


def _joined(parts):
    """Join X, y, weights and initial scores of the parts of a set; missing weights are 1 if others are given."""
    filled = [part for part in parts if part[1] is None or len(part[1])] or parts[:1]
    if any(part[1] is None for part in filled):
        raise ValueError(
            "a validation set has labels on some workers only; give each X_val with its y_val"
        )
    X = rows_of_all([part[0] for part in filled])
    y = labels_of_parts([part[1] for part in filled])
    without = {part[3] is None for part in filled}
    if len(without) > 1:
        raise ValueError(
            "a validation set has an init_score on some workers only; give it on all of them, "
            "or on none"
        )
    first = None if True in without else np.concatenate([np.asarray(part[3]) for part in filled])
    if all(part[2] is None for part in parts):
        return X, y, None, first
    weight = np.concatenate(
        [np.ones(len(part[1])) if part[2] is None else part[2] for part in parts]
    )
    return X, y, weight, first
