"""Rows and labels that a training reads."""

from pymcboost.threads import counted

CLASSES_SHOWN = 20


def read(path, note, allows_missing, **how):
    """Rows and integer labels of a LIBSVM file, in which every row must have a label; reports what it read."""
    import numpy as np

    from pymcboost.data.svmlight import load_svmlight

    data = load_svmlight(path, **how)
    path = "<stdin>" if path == "-" else path
    for notice in data.notices:
        note(notice)
    if not data.labelled.all():
        raise ValueError(
            f"{path}: row {np.argmin(data.labelled) + 1} has no label; training and validation need "
            "one in every row, an integer before the first index:value pair"
        )
    if data.y.dtype.kind == "f":
        row = np.argmax(data.y != np.floor(data.y))
        raise ValueError(f"{path}: row {row + 1} has the label {data.y[row]:g}; class labels must be integers")
    check_values(path, data, allows_missing)
    classes, counts = np.unique(data.y, return_counts=True)
    shown = ", ".join(f"{label}: {count}" for label, count in zip(classes, counts, strict=True))
    storage = "sparse" if hasattr(data.X, "indptr") else "dense"
    note(
        f"{path}: {counted(data.X.shape[0], 'row')}, {counted(data.X.shape[1], 'feature')} ({storage}), "
        + counted(classes.size, "class", "classes")
        + (f" ({shown})" if classes.size <= CLASSES_SHOWN else "")
    )
    return data


def check_values(path, data, allows_missing):
    """Refuse infinite values, and missing ones where there may be none, by row and feature."""
    import numpy as np

    sparse = hasattr(data.X, "indptr")
    values = data.X.data if sparse else data.X
    with np.errstate(invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.isinf(values) if allows_missing else ~np.isfinite(values)
    if not bad.any():
        return
    at = bad.ravel().argmax()
    row = data.X.indptr.searchsorted(at, "right") - 1 if sparse else at // data.X.shape[1]
    column = data.X.indices[at] if sparse else at % data.X.shape[1]
    value = values.ravel()[at]
    remedy = "write nan for a missing value" if allows_missing else "this algorithm needs finite values; fill it in"
    raise ValueError(f"{path}: row {row + 1} has {value} for the feature {column + data.base}; {remedy}")
