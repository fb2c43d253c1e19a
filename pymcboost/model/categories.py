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
TYPES = ("category", "categorical", "enum", "dictionary")
# Whole numbers written with a decimal point.
WHOLE = re.compile(r"([+-]?\d+)\.0+")
TEXTS = ("object", "str", "string", "utf8", "large_string", "string_view")


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
        place = int(np.searchsorted(self.feature, feature))
        names = self.names[place]
        codes = np.flatnonzero(np.unpackbits(bits, bitorder="little")[: self.levels[place]])
        return codes.tolist() if names is None else [names[code] for code in codes]

    def dump(self):
        """Description of each feature for JSON: the names of its levels, or their number."""
        parts = zip(self.feature.tolist(), self.levels.tolist(), self.names, strict=True)
        return [{"feature": j, "levels": n if names is None else names} for j, n, names in parts]

    def encoded(self, X):
        """Replace named categories in a data frame by codes (NaN for unknown ones); other inputs are unchanged."""
        if not is_frame(X):
            return X
        places = enumerate(self.feature.tolist())
        codes = {
            j: self.codes_of(place, column_of(X, j))
            for place, j in places
            if self.names[place] is not None
        }
        return with_columns(X, codes) if codes else X

    def bounded(self, X):
        """Replace invalid codes by NaN in an array."""
        if hasattr(X, "tocsr"):
            raise ValueError(DENSE)
        for j, n in zip(self.feature.tolist(), self.levels.tolist(), strict=True):
            other = ~((X[:, j] >= 0) & (X[:, j] < n) & (X[:, j] == np.floor(X[:, j]))) & ~np.isnan(
                X[:, j]
            )
            if other.any():
                X = X.copy()
                X[other, j] = np.nan
        return X

    def of(self, used):
        """Keep only these features, numbered by their positions in ``used``."""
        places = [i for i, j in enumerate(self.feature.tolist()) if j in used]
        names = tuple(self.names[i] for i in places)
        return Categories(
            np.searchsorted(used, self.feature[places]).astype(np.int64), self.levels[places], names
        )

    def codes_of(self, place, column):
        """Codes of the values in a column, for categorical feature number ``place``: float32."""
        if place not in self._codes:
            self._codes[place] = {name: code for code, name in enumerate(self.names[place])}
        place_of_value, texts = factors(column)
        code_of_level = self._codes[place]
        return np.array(
            [*(code_of_level.get(text, np.nan) for text in texts), np.nan], dtype=np.float32
        )[place_of_value]

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
            place = int(np.searchsorted(self.feature, j))
            names = set(self.names[place] or ())
            X[:, j] = self.codes_of(
                place, [text if text in names else level_of(text) for text in column]
            )

    def sections(self):
        """Sections of a model file."""
        named = [names for names in self.names if names is not None]
        texts = [name.encode() for names in named for name in names]
        return [
            ("CATF", narrow(self.feature, np.array([names is not None for names in self.names]))),
            ("CATN", narrow(self.levels)),
            ("CATO", narrow(running_sums([len(text) for text in texts]))),
            ("CATS", np.frombuffer(b"".join(texts), dtype="u1")),
        ]

    @classmethod
    def from_sections(cls, sections):
        """Read the categories from a file's sections; None if it has none."""
        if "CATF" not in sections:
            return None
        feature, named = without_flags(sections["CATF"])
        levels = sections["CATN"].astype(np.int64)
        ends = sections["CATO"].tolist()
        text = sections["CATS"].tobytes()
        texts = [text[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)]
        last = np.cumsum(levels * named)
        names = [
            texts[end - n : end] if has_names else None
            for end, n, has_names in zip(last, levels, named, strict=True)
        ]
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
        new = type(X)(dict(enumerate(columns)), index=X.index)
        new.columns = X.columns
        return new
    if hasattr(X, "column_names"):
        for j, column in values.items():
            new = column.tolist()  # a pyarrow table needs a list of chunks, a batch a single array
            X = X.set_column(j, X.column_names[j], [new] if hasattr(X, "to_batches") else new)
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
    words = others = False
    for value in _values_of(column) if is_text(column) else ():
        if isinstance(value, str):
            words = words or not _is_number(value)
        else:
            others = others or text_of(value) is not None
    return words, others


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
    if (
        value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
    ):  # pandas' NA has no truth value
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
    place_of_text = {None: -1}  # text_of gives None for missing values
    places = []
    for value in _values_of(column):
        text = text_of(value)
        places.append(place_of_text.setdefault(text, len(place_of_text) - 1))
    del place_of_text[None]
    return np.array(places, dtype=np.int64), list(place_of_text)


def find(categorical_features, X, partial=False):
    """Find the `Categories` of training rows according to ``categorical_features``; None if there are none.

    ``partial``: other workers have more rows; a column that is missing in these has no levels.

    Raises
    ------
    ValueError
        If ``categorical_features`` fits no columns of X, or a column has too many levels, or is no category at all.
    """
    if isinstance(categorical_features, Categories):
        return categorical_features
    frame = is_frame(X)
    if categorical_features is None or (
        not frame and isinstance(categorical_features, str) and categorical_features == "from_dtype"
    ):
        return None
    X = X if hasattr(X, "shape") else np.asarray(X)
    shape = X.shape
    if len(shape) != 2:
        return None
    chosen = columns_of(categorical_features, X, shape[1], frame)
    if not len(chosen):
        return None
    if hasattr(X, "tocsr"):
        raise ValueError(DENSE)
    detected = isinstance(categorical_features, str)
    names = []
    levels = []
    column_names = names_of(X) if frame else None
    for j in chosen.tolist():
        column = column_of(X, j) if frame else np.asarray(X)[:, j]
        shown = f"column {j if column_names is None else repr(column_names[j])}"
        named = frame and (is_category(column) or is_text(column))
        names.append(_names(column, shown, partial) if named else None)
        if named and detected and not is_category(column):
            warn_of_numbers(names[-1], shown)
        levels.append(len(names[-1]) if named else _n_codes(column, shown, partial))
    return Categories(chosen, np.array(levels, dtype=np.int64), tuple(names))


def warn_of_numbers(levels, shown):
    """Warn if a text column became categorical although nearly all of its values are numbers."""
    others = [text for text in levels if not _is_number(text)]
    n_numbers = len(levels) - len(others)
    if n_numbers >= 10 and n_numbers >= 0.9 * len(levels):
        examples = ", ".join(map(repr, others[:3]))
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
    categorical_features = np.asarray(categorical_features)
    if categorical_features.dtype.kind in "OU" and all(
        isinstance(name, str) for name in categorical_features.ravel().tolist()
    ):
        names = names_of(X) if frame else None
        unknown = [
            name
            for name in categorical_features.ravel().tolist()
            if names is None or name not in names
        ]
        if unknown:
            remedy = (
                f"the columns are {', '.join(map(repr, names[:10]))}"
                if names is not None
                else (
                    "X has no column names; give column numbers, from 0, or 'from_dtype' for "
                    "the categorical columns of a data frame"
                )
            )
            raise ValueError(f"categorical_features: there is no column {unknown[0]!r}; {remedy}")
        return np.unique(
            [names.index(name) for name in categorical_features.ravel().tolist()]
        ).astype(np.int64)
    if categorical_features.dtype.kind == "b" and categorical_features.shape == (d,):
        return np.flatnonzero(categorical_features)
    if categorical_features.ndim == 1 and (
        categorical_features.dtype.kind in "iu" or not len(categorical_features)
    ):
        if (
            len(categorical_features)
            and not -d <= categorical_features.min() <= categorical_features.max() < d
        ):
            unknown = (
                categorical_features.min()
                if categorical_features.min() < -d
                else categorical_features.max()
            )
            raise ValueError(
                f"categorical_features: there is no column {unknown}; X has {d} columns, "
                "numbered from 0"
            )
        return np.unique(categorical_features % d).astype(np.int64)
    raise ValueError(
        f"categorical_features must be 'from_dtype', None, a mask of {d} columns, or a list of "
        "column numbers or names"
    )


def _names(column, shown, partial=False):
    """Sorted names of the levels that occur in a column."""
    places, texts = factors(column)
    names = sorted({texts[place] for place in np.unique(places[places >= 0]).tolist()})
    if not (0 if partial else 1) <= len(names) <= MOST_LEVELS:
        problem = (
            "is missing in all rows"
            if not names
            else f"has {len(names)} levels, but at most {MOST_LEVELS} are supported"
        )
        raise ValueError(
            f"{shown} {problem}; leave it out" + (", or merge rare levels" if names else "")
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
