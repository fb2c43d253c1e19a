"""Reading of training and validation files."""

import os
from typing import Any, NamedTuple

from pymcboost.cli.console import shown_path, table_kind
from pymcboost.threads import counted

CLASSES_SHOWN = 20


class Rows(NamedTuple):
    """Rows, labels and, for CSV and Parquet files, column names."""

    X: Any
    y: Any
    base: int = 1
    names: list | None = None
    label: str | None = None
    categories: Any = None
    labels: Any = None  # label names of multi-label rows, whose y is an indicator
    header: bool = True  # whether the names come from a header
    entries: int = 0  # number of entries of LIBSVM text, including zeros


def read_lists(path, note, allows_missing, workers, like=None, **options):
    """Read a LIBSVM file with lists of labels; the labels are those of ``like``, rows read earlier.

    Without ``like``, they are the labels of all ``workers``; see `read`.
    """
    import numpy as np

    from pymcboost.data.svmlabels import distinct_labels, indicator

    data, entries, path = _load(path, note, workers, multilabel=True, **options)
    if like is None:
        labels = np.unique(np.concatenate(workers.exchange(distinct_labels(data.y))))
    else:
        labels = like.labels
    Y = indicator(data.y, labels)
    if len(labels) < 2:
        raise ValueError(
            f"{path}: the rows have fewer than 2 labels; lists of labels look like 3,17,201 1:0.5 ..."
        )
    dropped = sum(map(len, data.y)) - np.count_nonzero(Y)
    if dropped:
        note(
            f"{path}: {counted(int(dropped), 'label')} that the training file does not have, left out"
        )
    rows = Rows(data.X, Y, data.base, labels=labels, entries=entries)
    check_values(path, rows, allows_missing)
    m, d = data.X.shape
    note(
        f"{path}: {counted(m, 'row')}, {counted(d, 'feature')}, {len(labels)} labels, {Y.sum() / max(1, m):.4g} a row"
    )
    return rows


def _load(path, note, workers, **options):
    """Load a LIBSVM file. Return its contents, its number of entries, and its name in messages; print the notices."""
    from pymcboost.comm import ALONE
    from pymcboost.data.svmlight import load_and_count

    # With --mpi, the file of one process may have no rows.
    lines = None if workers is ALONE else 0
    data, _, entries = load_and_count(path, lines=lines, **options)
    path = shown_path(path)
    rows_of_all(workers, path, data, note)
    return data, entries, path


def rows_of_all(workers, path, data, note):
    """Return the number of rows of each worker. Print the notices of all readers, once for each file and kind."""
    from pymcboost.comm import lengths

    rows = lengths(workers, data.X.shape[0])
    kinds = {}
    if not rows.sum():
        raise ValueError(f"{path}: no row of data; expected rows like 1 3:0.5 7:2")
    for name, notices in workers.exchange((path, data.notices)):
        for notice in notices:
            kinds.setdefault((name, kind_of(notice, name)), notice)
    for notice in kinds.values():
        note(notice)
    return rows


def kind_of(notice, name):
    """The text of a notice about this file, without the file name."""
    return notice.removeprefix(name).partition(" (")[0]


def read(path, note, allows_missing, workers, **options):
    """Read rows and integer labels of a LIBSVM file; every row must have a label. Print what was read.

    ``workers``: each reads its own file, which may have no rows.
    """
    data, entries, name = _load(path, note, workers, **options)
    check_row_labels(name, data)
    return checked(name, Rows(data.X, data.y, data.base, entries=entries), note, allows_missing)


def place_of_row(path, row, names=None):
    """Where row ``row`` (from 1) is: its line in LIBSVM text that can be read again, otherwise the row itself.

    ``names``: of the columns of a CSV or Parquet file.
    """
    if names is None and os.path.isfile(path):
        from pymcboost.data import archives

        stream, *_ = archives.open_text(path)
        with stream, archives.buffered(stream) as lines:
            for number, line in enumerate(lines, 1):
                row -= bool(line.partition(b"#")[0].strip())
                if row == 0:
                    return f"line {number}"
    return f"row {row}"


def check_row_labels(path, data, begin=0, column=None):
    """Refuse rows without a label, and labels of LIBSVM text that are not integers.

    ``begin``: number of earlier rows in ``path``; ``column``: label column of a table.
    """
    import numpy as np

    if not data.labelled.all():
        row = begin + np.argmin(data.labelled) + 1
        if column is not None:
            raise ValueError(
                f"{path}: row {row} has no label in the column {column!r}; training needs one in each"
            )
        raise ValueError(
            f"{path}: {place_of_row(path, row)} has no label; training and validation need "
            "one in every row, an integer before the first index:value pair"
        )
    if data.y.dtype.kind == "f":
        row = np.argmax(data.y != np.floor(data.y))
        place = place_of_row(path, begin + row + 1, None if column is None else [column])
        raise ValueError(
            f"{path}: {place} has the label {data.y[row].item()!r}; class labels must be integers"
        )


def read_training(arguments, note, allows_missing, lists, workers):
    """Read the training file in its format; ``lists``: whether rows have lists of labels.

    ``workers``: see `read`.
    """
    path = arguments.training_file
    if not lists and table_kind(path, arguments.format):
        return read_table(path, arguments, note, allows_missing)
    base = arguments.base if arguments.base == "auto" else int(arguments.base)
    read_text = read_lists if lists else read
    return read_text(
        path, note, allows_missing, workers, base=base, n_features=arguments.n_features
    )


def read_like(arguments, note, allows_missing, data, labels, workers):
    """Read the validation file in the same form as the training file, ``data``; ``workers``: see `read`.

    ``labels``: labels of the training rows; a notice reports others.
    """
    path = arguments.validation_file
    layout = "csr" if hasattr(data.X, "indptr") else "dense"
    options = {"base": data.base, "n_features": data.X.shape[1], "layout": layout}
    if data.labels is not None:
        return read_lists(path, note, allows_missing, workers, like=data, **options)
    if data.names:
        validation = read_table(path, arguments, note, allows_missing, like=data)
    else:
        validation = read(path, note, allows_missing, workers, **options)
    _note_unknown(shown_path(path), validation.y, labels, note, workers)
    return validation


def _note_unknown(path, y, labels, note, workers):
    """Print how many rows of all ``workers`` have labels that do not occur in the training."""
    import numpy as np

    from pymcboost.cli.answers import label_text, unknown_labels

    labels_and_counts = workers.exchange(np.unique(y, return_counts=True))
    all_labels, counts = map(np.concatenate, zip(*labels_and_counts, strict=True))
    is_new = ~np.isin(all_labels, labels)
    if is_new.any():
        names = list(map(label_text, np.unique(all_labels[is_new]).tolist()))
        note(f"{path}: {unknown_labels(counts[is_new].sum(), counts.sum(), names)}")


def refuse_one_class(labels, path):
    """Refuse data with only one class, given the distinct labels."""
    if len(labels) < 2:
        raise ValueError(
            f"{path}: all rows have the label {labels[0]}; a training needs rows of at least 2 classes"
        )


def set_weights(estimator, weights, y, note):
    """Give the estimator the weights of -w, with a notice about labels that no row has."""
    if not weights:
        return
    import numpy as np

    kind = str if y.dtype.kind == "U" else int
    weights = {kind(label): weight for label, weight in weights.items()}
    present = set(np.unique(y).tolist())
    absent = sorted(set(weights) - present)
    if absent:
        note(f"no row has the label {', '.join(map(str, absent))}; its weight is not used")
    if weights.keys() & present:
        estimator.class_weight = {label: weights.get(label, 1.0) for label in present}


def read_table(path, arguments, note, allows_missing, like=None):
    """Read a CSV or Parquet file; with ``like``, use its columns and kind of labels."""
    from pymcboost.data import tables
    from pymcboost.model.categories import level_of, of_texts

    kind = table_kind(path, arguments.format)
    categorical = arguments.categorical_features

    def choose(head):
        if like:
            features = [tables.column_named(head, name) for name in like.names]
            return features, tables.column_named(head, like.label)
        label_column = head[0]
        if arguments.label is not None:
            label_column = tables.column_named(head, arguments.label)
        features = [name for name in head if name != label_column]
        if not features:
            raise ValueError("there is no column besides that of the labels")
        return features, label_column

    def as_text(names):
        if like:
            return [] if like.categories is None else like.categories.feature.tolist()
        return sorted(names.index(tables.column_named(names, name)) for name in categorical)

    expected_columns = (*like.names, like.label) if like else ()
    layout = tables.Layout(arguments.header, arguments.separator, expected_columns)
    data = tables.read_table(path, kind, choose, as_text, layout)
    if like:
        categories = like.categories
    else:
        texts = data.texts
        if kind == "csv":
            texts = {j: list(map(level_of, column)) for j, column in texts.items()}
        categories = of_texts(texts, data.names)
    if categories is not None:
        categories.fill(data.X, data.texts)
    path = shown_path(path)
    check_row_labels(path, data, column=data.label)
    try:
        y = labels_as(data.y, None if like is None else like.y.dtype.kind != "i")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    rows = Rows(
        data.X,
        y,
        names=data.names,
        label=data.label,
        categories=categories,
        header=arguments.header is not False,
    )
    rows = checked(path, rows, note, allows_missing)
    if not like and arguments.label is None:
        note(f"{path}: labels from the first column, {data.label!r} (--label names another)")
    return rows


def labels_as(labels, text=None):
    """Labels of a table as integers or text, (n,). With None, as integers if all of them are integers."""
    import numpy as np

    from pymcboost.data.svmwords import WORDS, shortened
    from pymcboost.data.tables import whole

    numbers = [whole(label) for label in labels.tolist()]
    if None not in numbers and not text:
        for label, number in zip(labels, numbers, strict=True):
            if abs(number) > 2**53:
                raise ValueError(WORDS["label range"].format(token=shortened(label)))
        return np.array(numbers)
    if text is False:
        label = labels[numbers.index(None)]
        raise ValueError(
            f"the label {label!r} is not an integer, but the labels of the training file are"
        )
    return labels.astype(str)


def checked(path, data, note, allows_missing):
    """Check the values, print a line about the rows, and return them."""
    check_values(path, data, allows_missing)
    note_rows(path, data, note)
    return data


def note_rows(path, data, note):
    """Print the numbers of rows, features and classes."""
    import numpy as np

    classes, counts = np.unique(data.y, return_counts=True)
    n_rows, n_features = data.X.shape
    storage = "sparse" if hasattr(data.X, "indptr") else "dense"
    text = f"{path}: {counted(n_rows, 'row')}, {counted(n_features, 'feature')} ({storage}), "
    text += counted(classes.size, "class", "classes")
    if 0 < classes.size <= CLASSES_SHOWN:
        pairs = zip(classes, counts, strict=True)
        text += f" ({', '.join(f'{label}: {count}' for label, count in pairs)})"
    note(text)


def check_values(path, data, allows_missing, begin=0):
    """Refuse infinite values, and missing ones if not allowed; the error names row (after ``begin``) and feature."""
    import numpy as np

    sparse = hasattr(data.X, "indptr")
    values = data.X.data if sparse else data.X
    with np.errstate(invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.isinf(values) if allows_missing else ~np.isfinite(values)
    if not bad.any():
        return
    place = bad.ravel().argmax()
    row = data.X.indptr.searchsorted(place, "right") - 1 if sparse else place // data.X.shape[1]
    column = data.X.indices[place] if sparse else place % data.X.shape[1]
    value = values.ravel()[place]
    remedy = "this algorithm needs finite values; fill it in"
    if allows_missing:
        remedy = "write nan for a missing value"
    feature = repr(data.names[column]) if data.names else column + data.base
    names = data.names if data.labels is None else []
    place = place_of_row(path, begin + row + 1, names)
    raise ValueError(f"{path}: {place} has {value} for the feature {feature}; {remedy}")
