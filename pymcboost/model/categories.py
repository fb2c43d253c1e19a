"""Categorical features of a model: their levels, and the sets of levels in splits."""

import re
from dataclasses import dataclass, field

import numpy as np

from pymcboost._warn import warn
from pymcboost.model.arrays import narrow, running_sums, without_flags
from pymcboost.model.columns import names_of

# Maximum number of levels of a feature, and of bytes of a level's name in UTF-8.
MOST_LEVELS = 65535
LONGEST_NAME = 4096
DENSE = "categorical features must be columns of dense arrays or data frames; give X.toarray()"
# How the types of categorical columns and of text columns start, in pandas, polars and pyarrow.
TYPES = ("category", "categorical", "enum", "dictionary")
TEXTS = ("object", "str", "string", "utf8", "large_string", "string_view")
# Whole numbers written with a decimal point.
WHOLE = re.compile(r"([+-]?\d+)\.0+")


@dataclass(frozen=True, eq=False)
class Categories:
    """Categorical features of a model.

    Attributes
    ----------
    feature : ndarray of int64 of shape (n,)
        Column numbers in increasing order.
    levels : ndarray of int64 of shape (n,)
        Number of categories of each column. Its values are the codes 0, 1, ...; any other value is treated as missing.
    names : tuple of (list of str or None)
        Sorted names of the categories of each column. The position of a name is its code. None if the training column
        held the codes themselves.
    """

    feature: np.ndarray
    levels: np.ndarray
    names: tuple
    _codes: dict = field(default_factory=dict, repr=False)

    def packed(self, feature, codes, nan_left):
        """Pack the codes of a set into bits; codes beyond the last level follow the missing values."""
        n = int(self.levels[np.searchsorted(self.feature, feature)])
        bits = np.zeros(-(-n // 8) * 8, dtype=bool)
        bits[n:] = nan_left
        bits[codes] = True
        return np.packbits(bits, bitorder="little")

    def shown(self, feature, bits):
        """Levels of a set: their names, or their codes if they have no names."""
        index = int(np.searchsorted(self.feature, feature))
        names = self.names[index]
        codes = np.flatnonzero(np.unpackbits(bits, bitorder="little")[: self.levels[index]])
        return codes.tolist() if names is None else [names[code] for code in codes]

    def dump(self):
        """Description of each feature for JSON: the names of its levels, or their number."""
        features = zip(self.feature.tolist(), self.levels.tolist(), self.names, strict=True)
        return [{"feature": j, "levels": n if names is None else names} for j, n, names in features]

    def encoded(self, X):
        """Replace named categories in a data frame by codes (NaN for unknown ones); other inputs are unchanged."""
        if not is_frame(X):
            return X
        codes = {
            j: self.codes_of(index, column_of(X, j))
            for index, j in enumerate(self.feature.tolist())
            if self.names[index] is not None
        }
        return with_columns(X, codes) if codes else X

    def bounded(self, X):
        """Replace invalid codes by NaN in an array."""
        if hasattr(X, "tocsr"):
            raise ValueError(DENSE)
        for j, n in zip(self.feature.tolist(), self.levels.tolist(), strict=True):
            column = X[:, j]
            is_code = (column >= 0) & (column < n) & (column == np.floor(column))
            is_invalid = ~is_code & ~np.isnan(column)
            if is_invalid.any():
                X = X.copy()
                X[is_invalid, j] = np.nan
        return X

    def of(self, used):
        """Keep only these features, numbered by their positions in ``used``."""
        indices = [i for i, j in enumerate(self.feature.tolist()) if j in used]
        feature = np.searchsorted(used, self.feature[indices]).astype(np.int64)
        names = tuple(self.names[i] for i in indices)
        return Categories(feature, self.levels[indices], names)

    def codes_of(self, index, column):
        """Codes of the values in a column, for categorical feature number ``index``: float32."""
        if index not in self._codes:
            self._codes[index] = {name: code for code, name in enumerate(self.names[index])}
        code_of_name = self._codes[index]
        text_of_value, texts = factors(column)
        # The last code is for missing values, whose index is -1.
        codes = [*(code_of_name.get(text, np.nan) for text in texts), np.nan]
        return np.array(codes, dtype=np.float32)[text_of_value]

    def named(self):
        """Features whose levels have names."""
        return [
            j
            for j, names in zip(self.feature.tolist(), self.names, strict=True)
            if names is not None
        ]

    def fill(self, X, texts):
        """Fill the codes of text columns, given as lists by feature number, into an array."""
        for j, column in texts.items():
            index = int(np.searchsorted(self.feature, j))
            names = set(self.names[index] or ())
            levels = [text if text in names else level_of(text) for text in column]
            X[:, j] = self.codes_of(index, levels)

    def sections(self):
        """Sections of a model file."""
        has_names = np.array([names is not None for names in self.names])
        texts = [name.encode() for names in self.names for name in names or ()]
        return [
            ("CATF", narrow(self.feature, has_names)),
            ("CATN", narrow(self.levels)),
            ("CATO", narrow(running_sums([len(text) for text in texts]))),
            ("CATS", np.frombuffer(b"".join(texts), dtype="u1")),
        ]

    @classmethod
    def from_sections(cls, sections):
        """Read the categories from a file's sections; None if it has none."""
        if "CATF" not in sections:
            return None
        feature, has_names = without_flags(sections["CATF"])
        levels = sections["CATN"].astype(np.int64)
        offsets = sections["CATO"].tolist()
        text = sections["CATS"].tobytes()
        texts = [text[a:b].decode() for a, b in zip(offsets, offsets[1:], strict=False)]
        names = []
        end = 0
        for n, is_named in zip(levels.tolist(), has_names, strict=True):
            begin = end
            end += n if is_named else 0
            names.append(texts[begin:end] if is_named else None)
        return cls(feature, levels, tuple(names))


def is_frame(X):
    """Whether X is a frame with typed columns: pandas, polars or pyarrow."""
    return hasattr(X, "column_names") or (
        hasattr(X, "columns") and not callable(X.columns) and hasattr(X, "dtypes")
    )


def column_of(X, j):
    """Return column j of a frame."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    return X.column(j) if hasattr(X, "column_names") else X[X.columns[j]]


def with_columns(X, values):
    """Replace columns of a frame; ``values``: arrays by column number."""
    if hasattr(X, "iloc"):
        columns = [values[j] if j in values else X.iloc[:, j] for j in range(X.shape[1])]
        frame = type(X)(dict(enumerate(columns)), index=X.index)
        frame.columns = X.columns
        return frame
    if hasattr(X, "column_names"):
        for j, column in values.items():
            # A pyarrow table needs a list of chunks, a batch a single array.
            array = [column.tolist()] if hasattr(X, "to_batches") else column.tolist()
            X = X.set_column(j, X.column_names[j], array)
        return X
    return X.with_columns(
        [type(X[X.columns[j]])(X.columns[j], column) for j, column in values.items()]
    )


def type_of(column):
    """Lower-case name of a column's type."""
    return str(getattr(column, "dtype", getattr(column, "type", ""))).lower()


def is_category(column):
    """Whether a column has a categorical type."""
    return type_of(column).startswith(TYPES)


def is_text(column):
    """Whether a column holds text, or objects that may be text."""
    return type_of(column).partition("[")[0] in TEXTS


def words_in(column):
    """Whether a text column has values that are not numbers, and whether it has values that are not text."""
    has_words = False
    has_others = False
    for value in _values_of(column) if is_text(column) else ():
        if isinstance(value, str):
            has_words = has_words or not _is_number(value)
        else:
            has_others = has_others or text_of(value) is not None
    return has_words, has_others


def holds_categories(column):
    """Whether a column must be categorical: it has a categorical type, or holds only text that is not all numbers."""
    return is_category(column) or words_in(column) == (True, False)


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def text_of(value):
    """Name of a value: whole numbers are written without a decimal point; None for a missing value."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    # NaN. pandas' NA is excluded above, because it has no truth value.
    if value != value:
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def level_of(text):
    """Level of a text cell: whole numbers lose their decimal point. Values that are not text are unchanged."""
    integer = WHOLE.fullmatch(text) if isinstance(text, str) else None
    return integer[1] if integer else text


def _values_of(column):
    """Values of a column as a list."""
    if isinstance(column, list):
        return column
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()


def factors(column):
    """Index of each value among the distinct values, -1 if it is missing; and the distinct values as text."""
    if hasattr(column, "cat") and hasattr(column, "iloc"):  # pandas
        texts = [text_of(value) for value in column.cat.categories.tolist()]
        return column.cat.codes.to_numpy().astype(np.int64), texts
    index_of_text = {None: -1}  # text_of gives None for missing values
    indices = []
    for value in _values_of(column):
        text = text_of(value)
        indices.append(index_of_text.setdefault(text, len(index_of_text) - 1))
    del index_of_text[None]
    return np.array(indices, dtype=np.int64), list(index_of_text)


def find(categorical_features, X, partial=False):
    """Find the `Categories` of training rows according to ``categorical_features``; None if there are none.

    ``partial``: whether other workers have more rows. Then a column may be missing in all of these rows.

    Raises
    ------
    ValueError
        If ``categorical_features`` fits no columns of X, or a column has too many levels, or is no category at all.
    """
    if isinstance(categorical_features, Categories):
        return categorical_features
    frame = is_frame(X)
    is_automatic = isinstance(categorical_features, str) and categorical_features == "from_dtype"
    if categorical_features is None or (is_automatic and not frame):
        return None
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    shape = X.shape
    if len(shape) != 2:
        return None
    features = columns_of(categorical_features, X, shape[1], frame)
    if not len(features):
        return None
    if hasattr(X, "tocsr"):
        raise ValueError(DENSE)
    names = []
    levels = []
    column_names = names_of(X) if frame else None
    for j in features.tolist():
        column = column_of(X, j) if frame else np.asarray(X)[:, j]
        shown = f"column {j if column_names is None else repr(column_names[j])}"
        if frame and (is_category(column) or is_text(column)):
            names.append(_names(column, shown, partial))
            levels.append(len(names[-1]))
            if isinstance(categorical_features, str) and not is_category(column):
                warn_of_numbers(names[-1], shown)
        else:
            names.append(None)
            levels.append(_n_codes(column, shown, partial))
    return Categories(features, np.array(levels, dtype=np.int64), tuple(names))


def warn_of_numbers(levels, shown):
    """Warn if a text column became categorical although nearly all of its values are numbers."""
    words = [text for text in levels if not _is_number(text)]
    n_numbers = len(levels) - len(words)
    if n_numbers >= 10 and n_numbers >= 0.9 * len(levels):
        examples = ", ".join(map(repr, words[:3]))
        warn(
            f"{shown} is text, so it is used as a category, but {n_numbers} of its "
            f"{len(levels)} different values are numbers; if it is numeric, replace {examples} by NaN "
            "and convert the column to float"
        )


def of_texts(texts, names):
    """`Categories` of the text columns of a file, given as lists by feature number; None if there are none."""
    if not texts:
        return None
    levels = [_names(texts[j], f"column {names[j]!r}") for j in sorted(texts)]
    return Categories(
        np.array(sorted(texts)),
        np.array([len(column_levels) for column_levels in levels]),
        tuple(levels),
    )


def columns_of(categorical_features, X, d, frame):
    """Columns that ``categorical_features`` selects, ascending: int64."""
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return np.array([j for j in range(d) if holds_categories(column_of(X, j))], dtype=np.int64)
    selection = np.asarray(categorical_features)
    items = selection.ravel().tolist()
    if selection.dtype.kind in "OU" and all(isinstance(name, str) for name in items):
        return _columns_by_name(items, names_of(X) if frame else None)
    if selection.dtype.kind == "b" and selection.shape == (d,):
        return np.flatnonzero(selection)
    if selection.ndim == 1 and (selection.dtype.kind in "iu" or not len(selection)):
        outside = [j for j in items if not -d <= j < d]
        if outside:
            unknown = min(outside) if min(outside) < -d else max(outside)
            raise ValueError(
                f"categorical_features: there is no column {unknown}; X has {d} columns, "
                "numbered from 0"
            )
        return np.unique(selection % d).astype(np.int64)
    raise ValueError(
        f"categorical_features must be 'from_dtype', None, a mask of {d} columns, or a list of "
        "column numbers or names"
    )


def _columns_by_name(selected_names, names):
    """Numbers of columns given by name, ascending: int64; ``names`` are those of all columns, or None."""
    unknown = [name for name in selected_names if names is None or name not in names]
    if unknown:
        if names is not None:
            remedy = f"the columns are {', '.join(map(repr, names[:10]))}"
        else:
            remedy = (
                "X has no column names; give column numbers, from 0, or 'from_dtype' for "
                "the categorical columns of a data frame"
            )
        raise ValueError(f"categorical_features: there is no column {unknown[0]!r}; {remedy}")
    return np.unique([names.index(name) for name in selected_names]).astype(np.int64)


def _names(column, shown, partial=False):
    """Sorted names of the levels that occur in a column."""
    indices, texts = factors(column)
    names = sorted({texts[index] for index in np.unique(indices[indices >= 0]).tolist()})
    if not names and not partial:
        raise ValueError(f"{shown} is missing in all rows; leave it out")
    if len(names) > MOST_LEVELS:
        raise ValueError(
            f"{shown} has {len(names)} levels, but at most {MOST_LEVELS} are supported; leave it "
            "out, or merge rare levels"
        )
    for name in names:
        try:
            n_bytes = len(name.encode())
        except UnicodeEncodeError as error:
            raise ValueError(f"{shown}: a level is not valid Unicode text: {error}") from None
        if "\0" in name or n_bytes > LONGEST_NAME:
            raise ValueError(
                f"{shown}: {name[:40]!r} has a zero character, or is longer than "
                f"{LONGEST_NAME} bytes; shorten it"
            )
    return names


def _n_codes(column, shown, partial):
    """Number of codes of a numeric column: the largest code plus 1."""
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{shown}: its categories are text in an array; give X as a data frame"
        ) from None
    values = values[~np.isnan(values)]
    wrong = values[(values < 0) | (values >= MOST_LEVELS) | (values != np.floor(values))]
    if partial and not len(values):
        return 0
    if len(wrong) or not len(values):
        problem = f"holds {wrong[0]:g}" if len(wrong) else "is missing in all rows"
        raise ValueError(
            f"{shown} {problem}; numerical categories must be integer codes from 0 to "
            f"{MOST_LEVELS - 1}. For other values, convert the column of the data frame: "
            "astype('category')"
        )
    return int(values.max()) + 1


def in_sets(number, start, bits, x, nan_left):
    """Whether values x go left by the sets with these numbers, which count from 1: bool, one per value."""
    begin = start[number - 1]
    n = start[number] - start[number - 1]
    inside = (x >= 0) & (x < 8 * n) & (x == np.floor(x))
    code = np.where(inside, x, 0).astype(np.int64)
    return np.where(inside, bits[begin + (code >> 3)] >> (code & 7) & 1, nan_left).astype(bool)
