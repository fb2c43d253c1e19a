"""Categorical features of a model: their levels, and the sets of levels that splits ask for."""

import re
from dataclasses import dataclass, field

import numpy as np

from pymcboost._warn import warn
from pymcboost.model.arrays import narrow, running_sums, without_flags
from pymcboost.model.columns import names_of

# Levels of a feature, and bytes of a name in UTF-8.
MOST_LEVELS, LONGEST_NAME = 65535, 4096
DENSE = "categorical features must be columns of dense arrays or data frames; give X.toarray()"
TYPES = ("category", "categorical", "enum", "dictionary")
# Whole numbers with a point.
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
        """Bits of the codes of a set; those beyond the last level go where missing values go."""
        n = int(self.levels[np.searchsorted(self.feature, feature)])
        bits = np.zeros(-(-n // 8) * 8, dtype=bool)
        bits[n:] = nan_left
        bits[codes] = True
        return np.packbits(bits, bitorder="little")

    def shown(self, feature, bits):
        """The levels of a set by their names, or by their codes where they have none."""
        at = int(np.searchsorted(self.feature, feature))
        names, codes = (
            self.names[at],
            np.flatnonzero(np.unpackbits(bits, bitorder="little")[: self.levels[at]]),
        )
        return codes.tolist() if names is None else [names[code] for code in codes]

    def dump(self):
        """What JSON holds: of every feature the names of its levels, or how many there are."""
        parts = zip(self.feature.tolist(), self.levels.tolist(), self.names, strict=True)
        return [{"feature": j, "levels": n if names is None else names} for j, n, names in parts]

    def encoded(self, X):
        """A data frame with the codes of named levels in place of these, NaN for others; what is no frame as it is."""
        if not is_frame(X):
            return X
        places = enumerate(self.feature.tolist())
        codes = {
            j: self.codes_of(at, column_of(X, j)) for at, j in places if self.names[at] is not None
        }
        return with_columns(X, codes) if codes else X

    def bounded(self, X):
        """Rows of numbers in which codes that are none of the levels are missing."""
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
        """Those of these features alone, by their places in ``used``."""
        at = [i for i, j in enumerate(self.feature.tolist()) if j in used]
        names = tuple(self.names[i] for i in at)
        return Categories(
            np.searchsorted(used, self.feature[at]).astype(np.int64), self.levels[at], names
        )

    def codes_of(self, at, column):
        """Codes of the values of a column, of the categorical feature number ``at``: float32."""
        if at not in self._codes:
            self._codes[at] = {name: code for code, name in enumerate(self.names[at])}
        found, texts = factors(column)
        known = self._codes[at]
        return np.array([*(known.get(text, np.nan) for text in texts), np.nan], dtype=np.float32)[
            found
        ]

    def named(self):
        """Features whose levels have names."""
        return [
            j
            for j, names in zip(self.feature.tolist(), self.names, strict=True)
            if names is not None
        ]

    def fill(self, X, texts):
        """Put the codes of text columns, lists by the number of the feature, into rows of numbers."""
        for j, column in texts.items():
            at = int(np.searchsorted(self.feature, j))
            known = set(self.names[at] or ())
            X[:, j] = self.codes_of(at, [one if one in known else level_of(one) for one in column])

    def sections(self):
        """Sections of a file."""
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
        """Those of a file; None where it has none."""
        if "CATF" not in sections:
            return None
        feature, named = without_flags(sections["CATF"])
        levels, ends, text = (
            sections["CATN"].astype(np.int64),
            sections["CATO"].tolist(),
            sections["CATS"].tobytes(),
        )
        texts = [text[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)]
        last = np.cumsum(levels * named)
        names = [
            texts[end - n : end] if own else None
            for end, n, own in zip(last, levels, named, strict=True)
        ]
        return cls(feature, levels, tuple(names))


def is_frame(X):
    """Whether X has columns of their own types: pandas, polars or pyarrow."""
    return hasattr(X, "column_names") or (
        hasattr(X, "columns") and not callable(X.columns) and hasattr(X, "dtypes")
    )


def column_of(X, j):
    """Column j of a frame."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    return X.column(j) if hasattr(X, "column_names") else X[X.columns[j]]


def with_columns(X, values):
    """A frame with other values in some columns; ``values``: arrays by the numbers of the columns."""
    if hasattr(X, "iloc"):
        columns = [values[j] if j in values else X.iloc[:, j] for j in range(X.shape[1])]
        new = type(X)(dict(enumerate(columns)), index=X.index)
        new.columns = X.columns
        return new
    if hasattr(X, "column_names"):
        for j, column in values.items():
            new = column.tolist()  # of a table in chunks, of a batch in one
            X = X.set_column(j, X.column_names[j], [new] if hasattr(X, "to_batches") else new)
        return X
    return X.with_columns(
        [type(X[X.columns[j]])(X.columns[j], column) for j, column in values.items()]
    )


def type_of(column):
    """Name of a column's type in lower case."""
    return str(getattr(column, "dtype", getattr(column, "type", ""))).lower()


def is_category(column):
    """Whether a column has the type of a category."""
    return type_of(column).startswith(TYPES)


def is_text(column):
    """Whether a column holds text, or objects that may be text."""
    return type_of(column).partition("[")[0] in TEXTS


def words_in(column):
    """Whether a column of text has values that are no numbers, and whether it has values that are no text."""
    words = others = False
    for value in _values_of(column) if is_text(column) else ():
        if isinstance(value, str):
            words = words or not _is_number(value)
        else:
            others = others or text_of(value) is not None
    return words, others


def holds_categories(column):
    """Whether a column can be nothing but a category: it has the type of one, or holds text that is no number."""
    return is_category(column) or words_in(column) == (True, False)


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def text_of(value):
    """What a value is called: whole numbers without a point; None for a missing value."""
    if isinstance(value, str):
        return value
    if (
        value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
    ):  # the first has no truth
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def level_of(text):
    """The level that a cell of text is: whole numbers without a point. Values that are no text are as they are."""
    whole = WHOLE.fullmatch(text) if isinstance(text, str) else None
    return whole[1] if whole else text


def _values_of(column):
    """The values of a column as a list."""
    if isinstance(column, list):
        return column
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()


def factors(column):
    """Place of every value of a column among those that occur, -1 where it is missing; and these as text."""
    if hasattr(column, "cat") and hasattr(column, "iloc"):  # pandas
        return column.cat.codes.to_numpy().astype(np.int64), [
            text_of(one) for one in column.cat.categories.tolist()
        ]
    known = {}
    values = _values_of(column)
    places = [
        -1 if (text := text_of(one)) is None else known.setdefault(text, len(known))
        for one in values
    ]
    return np.array(places, dtype=np.int64), list(known)


def find(wanted, X, partial=False):
    """`Categories` of the rows of a training, None without any; as ``categorical_features`` of the estimators says.

    ``partial``: other workers have more rows; a column that is missing in these has no levels.

    Raises
    ------
    ValueError
        If ``wanted`` fits no columns of X, or a column has too many levels, or is no category at all.
    """
    if isinstance(wanted, Categories):
        return wanted
    frame = is_frame(X)
    if wanted is None or (not frame and isinstance(wanted, str) and wanted == "from_dtype"):
        return None
    X = X if hasattr(X, "shape") else np.asarray(X)
    shape = X.shape
    if len(shape) != 2:
        return None
    chosen = columns_of(wanted, X, shape[1], frame)
    if not len(chosen):
        return None
    if hasattr(X, "tocsr"):
        raise ValueError(DENSE)
    detected = isinstance(wanted, str)
    names, levels, known = [], [], names_of(X) if frame else None
    for j in chosen.tolist():
        column = column_of(X, j) if frame else np.asarray(X)[:, j]
        shown = f"column {j if known is None else repr(known[j])}"
        named = frame and (is_category(column) or is_text(column))
        names.append(_names(column, shown, partial) if named else None)
        if named and detected and not is_category(column):
            warn_of_numbers(names[-1], shown)
        levels.append(len(names[-1]) if named else _n_codes(column, shown, partial))
    return Categories(chosen, np.array(levels, dtype=np.int64), tuple(names))


def warn_of_numbers(levels, shown):
    """Warn of a text column that became a category although nearly all of its values are numbers."""
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
    """`Categories` of the text columns of a file, lists by the number of the feature; None without any."""
    if not texts:
        return None
    levels = [_names(texts[j], f"column {names[j]!r}") for j in sorted(texts)]
    return Categories(
        np.array(sorted(texts)), np.array([len(one) for one in levels]), tuple(levels)
    )


def columns_of(wanted, X, d, frame):
    """The columns that ``categorical_features`` asks for, increasing: int64."""
    if isinstance(wanted, str) and wanted == "from_dtype":
        return np.array([j for j in range(d) if holds_categories(column_of(X, j))], dtype=np.int64)
    wanted = np.asarray(wanted)
    if wanted.dtype.kind in "OU" and all(isinstance(name, str) for name in wanted.ravel().tolist()):
        names = names_of(X) if frame else None
        unknown = [name for name in wanted.ravel().tolist() if names is None or name not in names]
        if unknown:
            there = (
                f"the columns are {', '.join(map(repr, names[:10]))}"
                if names is not None
                else (
                    "X has no column names; give column numbers, from 0, or 'from_dtype' for "
                    "the categorical columns of a data frame"
                )
            )
            raise ValueError(f"categorical_features: there is no column {unknown[0]!r}; {there}")
        return np.unique([names.index(name) for name in wanted.ravel().tolist()]).astype(np.int64)
    if wanted.dtype.kind == "b" and wanted.shape == (d,):
        return np.flatnonzero(wanted)
    if wanted.ndim == 1 and (wanted.dtype.kind in "iu" or not len(wanted)):
        if len(wanted) and not -d <= wanted.min() <= wanted.max() < d:
            unknown = wanted.min() if wanted.min() < -d else wanted.max()
            raise ValueError(
                f"categorical_features: there is no column {unknown}; X has {d} columns, "
                "numbered from 0"
            )
        return np.unique(wanted % d).astype(np.int64)
    raise ValueError(
        f"categorical_features must be 'from_dtype', None, a mask of {d} columns, or a list of "
        "column numbers or names"
    )


def _names(column, shown, partial=False):
    """Sorted names of the levels that occur in a column."""
    places, texts = factors(column)
    names = sorted({texts[place] for place in np.unique(places[places >= 0]).tolist()})
    if not (0 if partial else 1) <= len(names) <= MOST_LEVELS:
        what = (
            "is missing in all rows"
            if not names
            else f"has {len(names)} levels, but at most {MOST_LEVELS} are supported"
        )
        raise ValueError(
            f"{shown} {what}; leave it out" + (", or merge rare levels" if names else "")
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
    """One more than the largest code in a column of numbers."""
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
        what = f"holds {wrong[0]:g}" if len(wrong) else "is missing in all rows"
        raise ValueError(
            f"{shown} {what}; numerical categories must be integer codes from 0 to "
            f"{MOST_LEVELS - 1}. For other values, convert the column of the data frame: "
            "astype('category')"
        )
    return int(values.max()) + 1


def in_sets(number, start, bits, x, nan_left):
    """Whether values x go left by the sets of these numbers, from 1 on: bool, one for each."""
    begin, n = start[number - 1], start[number] - start[number - 1]
    inside = (x >= 0) & (x < 8 * n) & (x == np.floor(x))
    code = np.where(inside, x, 0).astype(np.int64)
    return np.where(inside, bits[begin + (code >> 3)] >> (code & 7) & 1, nan_left).astype(bool)
