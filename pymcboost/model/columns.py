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
    if names is None:
        names = getattr(X, "columns", None)
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
    problems = _differences(names_of_rows, names)
    if problems:
        raise ValueError(
            f"the columns of X are not those the model was trained on ({'; '.join(problems)}). "
            "Data frames are matched by name: give the columns in feature_names, or "
            "X.to_numpy() to match them by position"
        )
    return X.select(names) if hasattr(X, "column_names") else X[names]


def _differences(names_of_rows, names):
    """Why the columns of rows cannot be put into the order of ``names``; empty if they can."""
    present = set(names_of_rows)
    expected = set(names)
    missing = [name for name in names if name not in present]
    unknown = [name for name in names_of_rows if name not in expected]
    problems = []
    if missing:
        problems.append(f"missing: {_listed(missing)}")
    if unknown:
        problems.append(f"unknown: {_listed(unknown)}")
    has_repeated = len(names_of_rows) != len(names) or len(expected) < len(names)
    if has_repeated and not problems:
        problems.append("some names occur more than once")
    return problems


def refuse_no_rows(X):
    """Refuse inputs that cannot be a table of numbers: a single row or column of a frame, text, a dictionary, None."""
    type_name = type(X).__name__
    if hasattr(X, "to_frame") and len(getattr(X, "shape", ())) == 1:  # a Series of pandas or polars
        remedy = "or X.to_frame()"
        if hasattr(X, "iloc"):
            remedy = "frame.iloc[[i]] is one row, frame[[name]] one column"
        raise ValueError(
            f"X is a {type_name} of {len(X)} values, not a table of rows; give a data frame: {remedy}"
        )
    is_table = any(
        hasattr(X, name) for name in ("shape", "__array__", "column_names", "collect_schema")
    )
    is_sequence = isinstance(X, Sequence) and not isinstance(X, (str, bytes, Mapping))
    if not is_table and not is_sequence:
        raise TypeError(
            f"X is {'None' if X is None else f'of type {type_name}'}; give rows of numbers: a NumPy "
            "array, a pandas, polars or pyarrow data frame, or a SciPy sparse matrix"
        )


def refuse_dates(X):
    """Refuse date columns, which NumPy and some frames would convert to numbers in arbitrary units."""
    types = getattr(X, "dtypes", None)  # pandas, polars
    if types is None:
        types = getattr(getattr(X, "schema", None), "types", [])  # pyarrow
    if not np.iterable(types):
        types = [types]
    has_dates = any(str(dtype).lower().startswith(("date", "time", "duration")) for dtype in types)
    if has_dates or (isinstance(X, np.ndarray) and X.dtype.kind in "mM"):
        raise ValueError(wrong_value(X) or "X must hold numbers, not dates")


def wrong_value(X, allow_nan=True, text=TEXT):
    """Describe the first value that is not a number, with column and row, and say what to do; None if all are numbers.

    ``text``: advice if it is text.
    """
    if hasattr(X, "tocoo"):
        return _wrong_entry(X.tocoo(), allow_nan)
    names = names_of(X)
    is_frame = hasattr(X, "shape") and hasattr(X, "columns") and not callable(X.columns)
    try:
        if not is_frame and not hasattr(X, "column_names"):
            X = np.asarray(X)
        shape = X.shape
    except (ValueError, OverflowError):
        return _wrong_length(X)
    if len(shape) == 1 and shape[0] and X.dtype.kind == "O":
        other = f"X[0] is of type {type(X[0]).__name__}, not a row of numbers; give a table"
        return _wrong_length(X) or other
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
    """Describe the first value of a sparse matrix (COO) that is not a number; None if all are numbers."""
    if X.data.dtype.kind != "f":
        return None
    entries = np.flatnonzero(np.isinf(X.data) if allow_nan else ~np.isfinite(X.data))
    if not len(entries):
        return None
    first = entries[np.lexsort((X.col[entries], X.row[entries]))[0]]
    value = X.data[first]
    problem, remedy = _problem_of(value, allow_nan)
    return f"column {X.col[first]}: {value} {problem} (row {X.row[first]}); {remedy}"


def _wrong_length(X):
    """Describe the first row whose length differs from that of row 0; None if all lengths are equal."""
    lengths = [len(row) if hasattr(row, "__len__") else None for row in X]
    for row, length in enumerate(lengths):
        if length != lengths[0]:
            return (
                f"X[{row}] has {_shown_length(length)}, but X[0] has {_shown_length(lengths[0])}; "
                "give all rows the same number of values"
            )
    return None


def _shown_length(length):
    return "no length" if length is None else counted(length, "value")


def _wrong_in(column, allow_nan, text):
    """Describe what is wrong with a column; None if it holds numbers."""
    kind = column.dtype.kind
    if kind in "biuc":
        return None
    rows = np.flatnonzero(~np.isfinite(column)) if kind == "f" else range(len(column))
    for row in rows:
        value = column[row] if kind in "mM" else column[row : row + 1].tolist()[0]
        problem_and_remedy = _problem_of(value, allow_nan, text)
        if problem_and_remedy:
            problem, remedy = problem_and_remedy
            shown = repr(value) if isinstance(value, (str, bytes)) else str(value)
            if len(shown) > SHOWN_CHARACTERS:
                shown = shown[:SHOWN_CHARACTERS] + "..."
            return f"{shown} {problem} (row {row}); {remedy}"
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
    if np.isnan(value) and not allow_nan:
        return "is missing", "fill it in first (impute)"
    return None


def _listed(names):
    """The first names, and how many more there are."""
    shown = ", ".join(map(repr, names[:SHOWN_NAMES]))
    n_more = len(names) - SHOWN_NAMES
    return f"{shown} and {n_more} more" if n_more > 0 else shown


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
