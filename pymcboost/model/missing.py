"""Columns that had missing values in training, and the check for missing values in other columns."""

from typing import Any, Literal, Protocol

import numpy as np

from pymcboost.model.columns import names_of

Missing = Literal["allow", "error"]

# Entry of the metadata: a list of column numbers, or ALL. It is absent if no column had missing values.
ENTRY = "missing_columns"
ALL = "all"
# More columns than this are stored as ALL, to keep the list small.
MOST_LISTED = 100_000
# Number of values that are checked at once.
PIECE = 1 << 20
REMEDY = (
    "fill it in (impute), correct it, train on rows with missing values in this column, or "
    "use missing='allow', which sends it to one side of each split"
)
UNKNOWN = (
    "this model does not record which columns had missing values in training; only models "
    "that pymcboost trained, with their original meta, do"
)


class _Model(Protocol):
    """Interface that these methods need from a model."""

    information: Any
    n_features_in_: int
    feature_names: Any
    categories: Any
    is_machine: bool
    _rows: Any


class MissingColumns:
    """What a model knows about missing values in its training data."""

    @property
    def missing_columns(self: _Model) -> list[int] | None:
        """Columns that had missing values in training, or None if unknown.

        Unknown for models of other libraries and models whose ``meta`` was replaced.
        """
        columns = columns_in(self.information, self.n_features_in_)
        return None if columns is None else columns.tolist()

    def _accepted(self: Any, X: Any, missing: str) -> Any:
        """Return X; with ``missing="error"``, check it first, and return it in the form for the scorer."""
        check_how(missing)
        if missing == "allow" or self.is_machine:  # machines refuse all missing values
            return X
        names = self.feature_names or names_of(X)
        X = self._rows.checked(X)
        entry = self._first_new_missing(X)
        if entry is not None:
            row, column = entry
            name = column if names is None else repr(names[column])
            raise ValueError(f"row {row} of X: {self._missing_in(column, name)}; {REMEDY}")
        return X

    def _first_new_missing(self: Any, X: Any) -> tuple[int, int] | None:
        """First row and column with a missing value in a column that had none in training; None if there is none."""
        columns = columns_in(self.information, self.n_features_in_)
        if columns is None:
            raise ValueError(f"missing='error': {UNKNOWN}; use missing='allow'")
        if hasattr(X, "indptr"):
            return _first_in_sparse(X, columns)
        complete_columns = np.setdiff1d(np.arange(X.shape[1]), columns)
        if not len(complete_columns):
            return None
        categories = self.categories
        has_categories = categories is not None and bool(
            np.isin(categories.feature, complete_columns).any()
        )
        step = max(1, PIECE // X.shape[1])
        for begin in range(0, X.shape[0], step):
            rows = X[begin : begin + step]
            if has_categories:
                # Codes that are not among the levels also count as missing.
                rows = categories.bounded(rows)
            is_missing = np.isnan(rows)
            if is_missing.any():
                is_missing = is_missing[:, complete_columns]
                row = int(is_missing.any(axis=1).argmax())
                if is_missing[row].any():
                    return begin + row, int(complete_columns[is_missing[row].argmax()])
        return None

    def _missing_in(self: _Model, column: int, name: Any) -> str:
        """Describe a missing value in this column; ``name`` is the column's name in the message."""
        problem = "a value is missing"
        if self.categories is not None and column in self.categories.feature:
            problem += " or not one of the categories"
        return f"{problem} in column {name}, which had no missing values in training"


def check_how(missing: Any) -> None:
    """Check the value of ``missing``."""
    if missing not in ("allow", "error"):
        raise ValueError(f"missing={missing!r} is not allowed; it must be 'allow' or 'error'")


def columns_in(meta: Any, n_features: int) -> Any:
    """Columns with missing values in training, from a model's metadata: int64, ascending; None if unknown."""
    if "algorithm" not in meta:
        return None
    columns = meta.get(ENTRY, [])
    if columns == ALL:
        return np.arange(n_features)
    if not isinstance(columns, list):
        return None
    if not all(type(j) is int and 0 <= j < n_features for j in columns):
        return None
    return np.unique(np.array(columns, dtype=np.int64))


def entry_of(columns: Any, n_features: int) -> dict[str, Any]:
    """Entry of the metadata for columns with missing values; empty if there are none."""
    if not len(columns):
        return {}
    is_listed = len(columns) <= min(MOST_LISTED, n_features - 1)
    return {ENTRY: columns.tolist() if is_listed else ALL}


def with_missing(X: Any, rows: Any = None) -> Any:
    """Columns of an array or CSR matrix with missing values in ``rows`` (int64), or anywhere: int64, ascending."""
    if hasattr(X, "indptr"):
        missing, row = _missing_in_sparse(X)
        if rows is not None:
            missing = missing[np.isin(row, rows)]
        return np.unique(X.indices[missing]).astype(np.int64)
    n_rows = X.shape[0] if rows is None else len(rows)
    has_missing = np.zeros(X.shape[1], dtype=bool)
    step = max(1, PIECE // max(1, X.shape[1]))
    for begin in range(0, n_rows, step):
        piece = slice(begin, begin + step)
        has_missing |= np.isnan(X[piece if rows is None else rows[piece]]).any(axis=0)
    return np.flatnonzero(has_missing)


def _first_in_sparse(X, columns):
    """First row and column of a CSR matrix with a missing value that is not in these columns; None if there is none."""
    missing, row = _missing_in_sparse(X)
    column = X.indices[missing]
    is_new = ~np.isin(column, columns)
    row = row[is_new]
    column = column[is_new]
    if not len(row):
        return None
    first = np.lexsort((column, row))[0]
    return int(row[first]), int(column[first])


def _missing_in_sparse(X):
    """Positions of the missing values among the stored values of a CSR matrix, and their rows: two int64 arrays."""
    missing = np.zeros(0, dtype=np.int64)
    if X.data.dtype.kind == "f":
        missing = np.flatnonzero(np.isnan(X.data))
    return missing, X.indptr.searchsorted(missing, "right") - 1
