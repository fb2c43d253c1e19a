"""Columns of data frames by name, and errors that name column and value. Does not import frame libraries."""

from collections.abc import Mapping, Sequence

import numpy as np

from pymcboost.threads import counted

# Maximum numbers of names and of characters that a message shows.
SHOWN_NAMES = 5
SHOWN_CHARACTERS = 40
ENCODE = (
    "encode it as numbers (sklearn.preprocessing.OneHotEncoder, OrdinalEncoder or TargetEncoder)"
)
# Advice for text columns: in training with categorical features, without them, and in prediction.
TEXT = (
    "name the column in categorical_features, which accepts text columns of a data frame, or "
    f"{ENCODE}"
)
ALL_NUMBERS = (
    f"{ENCODE}, or use VectorTreeBoostClassifier or MCBoostClassifier, which accept text "
    "columns as categories"
)
NOT_TRAINED = (
    "if this column held categories in training, give a data frame with the columns of the "
    "training; otherwise give the numbers that the training had in this column, or train with the "
    "column in categorical_features"
)
DATES = (
    "give the time since a reference date, in a suitable unit, such as (date - first_date) / "
    "np.timedelta64(1, 'h'), and parts such as hour and weekday if they matter"
)


def _columns_of(X):
    """Column names of a frame (pandas, polars, pyarrow), text or not; an empty list if X is not a frame."""
    names = getattr(X, "column_names", None)
    names = getattr(X, "columns", None) if names is None else names
    return [] if names is None or callable(names) else list(names)


def names_of(X):
    """Column names of a frame (pandas, polars, pyarrow); None if not all are text, or if X is not a frame."""
    names = _columns_of(X)
    return names if names and all(isinstance(name, str) for name in names) else None


def refuse_repeated_names(X, shown="X"):
    """Refuse a frame in which several columns have the same name."""
    names = _columns_of(X)
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"{shown} has {names.count(name)} columns named {name!r}, but columns of data "
            "frames are identified by name; rename all but one of them, or drop them"
        )


def in_order(X, names_of_model):
    """Put the columns of a frame into the order of the model's names; unchanged if either has no names."""
    names_of_rows = names_of(X)
    names = None if names_of_rows is None else names_of_model()
    if names is None or names_of_rows == names:
        return X
    names_present, names_of_training = set(names_of_rows), set(names)
    missing, unknown = (
        [n for n in names if n not in names_present],
        [n for n in names_of_rows if n not in names_of_training],
    )
    if (
        missing
        or unknown
        or len(names_of_rows) != len(names)
        or len(names_of_training) < len(names)
    ):
        parts = [
            f"{kind} {_listed(them)}"
            for kind, them in (("missing:", missing), ("unknown:", unknown))
            if them
        ]
        parts = parts or ["some names occur more than once"]
        raise ValueError(
            f"the columns of X are not those the model was trained on ({'; '.join(parts)}). "
            "Data frames are matched by name: give the columns in feature_names, or "
            "X.to_numpy() to match them by position"
        )
    return X.select(names) if hasattr(X, "column_names") else X[names]


def refuse_no_rows(X):
    """Refuse inputs that cannot be a table of numbers: a single row or column of a frame, text, a dictionary, None."""
    name = type(X).__name__
    if hasattr(X, "to_frame") and len(getattr(X, "shape", ())) == 1:  # a Series of pandas or polars
        remedy = (
            "frame.iloc[[i]] is one row, frame[[name]] one column"
            if hasattr(X, "iloc")
            else "or X.to_frame()"
        )
        raise ValueError(
            f"X is a {name} of {len(X)} values, not a table of rows; give a data frame: {remedy}"
        )
    table = any(
        hasattr(X, name) for name in ("shape", "__array__", "column_names", "collect_schema")
    )
    if not table and (isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Sequence)):
        raise TypeError(
            f"X is {'None' if X is None else f'of type {name}'}; give rows of numbers: a NumPy "
            "array, a pandas, polars or pyarrow data frame, or a SciPy sparse matrix"
        )


def refuse_dates(X):
    """Refuse date columns, which NumPy and some frames would convert to numbers in arbitrary units."""
    types = getattr(X, "dtypes", None)  # pandas, polars
    types = getattr(getattr(X, "schema", None), "types", []) if types is None else types
    types = [str(dtype).lower() for dtype in (types if np.iterable(types) else [types])]
    dates = any(dtype.startswith(("date", "time", "duration")) for dtype in types)
    if dates or (isinstance(X, np.ndarray) and X.dtype.kind in "mM"):
        raise ValueError(wrong_value(X) or "X must hold numbers, not dates")


def wrong_value(X, allow_nan=True, text=TEXT):
    """Describe the first value that is not a number, with column and row, and say what to do; None if all are numbers.

    ``text``: advice if it is text.
    """
    if hasattr(X, "tocoo"):
        return _wrong_entry(X.tocoo(), allow_nan)
    names = names_of(X)
    frame = hasattr(X, "shape") and hasattr(X, "columns") and not callable(X.columns)
    try:
        X = X if frame or hasattr(X, "column_names") else np.asarray(X)
        shape = X.shape
    except (ValueError, OverflowError):
        return _wrong_length(X)
    if len(shape) == 1 and shape[0] and X.dtype.kind == "O":
        return (
            _wrong_length(X)
            or f"X[0] is of type {type(X[0]).__name__}, not a row of numbers; give a table"
        )
    for j in range(shape[1] if len(shape) == 2 else 0):
        if hasattr(X, "iloc"):
            column = X.iloc[:, j]
        else:
            column = X[:, j] if names is None else X[names[j]]
        problem = _wrong_in(np.asarray(column), allow_nan, text)
        if problem:
            return f"column {j if names is None else repr(names[j])}: {problem}"
    return None


def _wrong_entry(X, allow_nan):
    """See `wrong_value`; for a sparse matrix (COO)."""
    if X.data.dtype.kind != "f":
        return None
    wrong = np.flatnonzero(np.isinf(X.data) if allow_nan else ~np.isfinite(X.data))
    if not len(wrong):
        return None
    first = wrong[np.lexsort((X.col[wrong], X.row[wrong]))[0]]
    value = X.data[first]
    problem = _problem_of(value, allow_nan)
    return f"column {X.col[first]}: {value} {problem[0]} (row {X.row[first]}); {problem[1]}"


def _wrong_length(X):
    """Describe the first row whose length differs from that of row 0; None if all lengths are equal."""
    lengths = [len(row) if hasattr(row, "__len__") else None for row in X]
    for row, length in enumerate(lengths):
        if length != lengths[0]:
            first, other = (
                "no length" if n is None else counted(n, "value") for n in (lengths[0], length)
            )
            return (
                f"X[{row}] has {other}, but X[0] has {first}; give all rows the same number of "
                "values"
            )
    return None


def _wrong_in(column, allow_nan, text):
    """Describe what is wrong with a column; None if it holds numbers."""
    kind = column.dtype.kind
    if kind in "biuc":
        return None
    rows = np.flatnonzero(~np.isfinite(column)) if kind == "f" else range(len(column))
    for row in rows:
        value = column[row] if kind in "mM" else column[row : row + 1].tolist()[0]
        problem = _problem_of(value, allow_nan, text)
        if problem:
            shown = repr(value) if isinstance(value, (str, bytes)) else str(value)
            shown = shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + "..."
            return f"{shown} {problem[0]} (row {row}); {problem[1]}"
    return None


def _problem_of(value, allow_nan, text=TEXT):
    """Why a value is not a usable number, and what to do; None if it is one."""
    if hasattr(value, "isoformat") or isinstance(value, (np.datetime64, np.timedelta64)):
        return "is a date or a time", DATES
    try:
        value = np.nan if value is None else float(value)
    except OverflowError:
        return (
            "is beyond float64 (+-1.8e308)",
            "divide the column by a constant, or take its logarithm",
        )
    except (TypeError, ValueError):
        if isinstance(value, (str, bytes)):
            return "is text", text
        return "is not a number", "use NaN for a missing value"
    if np.isinf(value):
        return "is infinite", "clip it, or use NaN for a missing value" if allow_nan else "clip it"
    return (
        ("is missing", "fill it in first (impute)") if np.isnan(value) and not allow_nan else None
    )


def _listed(names):
    shown = ", ".join(map(repr, names[:SHOWN_NAMES]))
    return shown + (f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else "")


def missing_label(y):
    """First row without a label (None, NaN or pandas' NA), or None."""
    if isinstance(y, np.ndarray) and y.dtype.kind == "f" and y.ndim:
        missing = np.isnan(y).ravel()  # without a loop over the rows
        return int(missing.argmax()) if len(missing) == len(y) and missing.any() else None
    y = np.asarray(y, dtype=object)
    for row, label in enumerate(y.ravel() if y.ndim and y.size == len(y) else ()):
        try:
            has_label = label is not None and bool(label == label)
        except TypeError:  # the truth of NA == NA is undefined
            has_label = False
        if not has_label:
            return row
    return None
