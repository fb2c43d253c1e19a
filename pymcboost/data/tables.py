"""CSV and Parquet files, read by pandas: numeric features, and one column of labels."""

import csv
import io
import re
import warnings
from typing import NamedTuple

import numpy as np

from pymcboost.data import archives
from pymcboost.data.svmlight import SvmlightError, intact
from pymcboost.threads import available_memory, in_words

# Whole numbers as labels; with leading zeros they are text. No more digits than int() accepts in any Python.
WHOLE = re.compile(r"\s*([+-]?(?:0|[1-9]\d{0,599}))(?:\.0*)?\s*")
# If several separators occur equally often in the first line, the first in this list is used.
SEPARATORS = ("\t", ";", "|", ",")
# Maximum number of bytes of a line.
LONGEST = 1 << 24
# Memory for a value of a CSV file besides its text, in bytes: its position, which pandas stores twice, and X.
MEMORY_A_VALUE = 18
# After reading this share of a file, but at least this many bytes, its total memory is estimated.
SEEN = 1 / 16
LEAST_SEEN = 1 << 20
# Number of bytes of a Parquet file that are read at once.
PIECE = 1 << 24


class TableError(SvmlightError):
    """A CSV or Parquet file that cannot be read; the message names file, row, column and remedy."""


class TableMemoryError(TableError, MemoryError):
    """A file that does not fit into free memory; raised before the memory is allocated."""


class TableData(NamedTuple):
    """Result of `read_table`.

    Attributes
    ----------
    X : float32 ndarray (m, d)
        Float64 if requested.
    y : ndarray of str objects (m,)
        Labels as they are written, or "" for a missing label.
    labelled : bool ndarray (m,)
    names : list of str
        Of the features.
    label : str or None
        Name of the column of labels.
    texts : dict of int to list
        Values of the features that are read as text; they are 0 in X.
    """

    X: np.ndarray
    y: np.ndarray
    labelled: np.ndarray
    names: list
    label: str | None
    texts: dict


class Layout(NamedTuple):
    """Layout of a CSV file.

    Attributes
    ----------
    header : bool or None
        Whether the first line names the columns. None: it does, and names that are numbers are refused.
    separator : str or None
        What parts the columns. None: the most frequent of `SEPARATORS` in the first line.
    expected : sequence of str
        Names of columns that may be numbers, because the training file or the model has them.
    """

    header: bool | None = None
    separator: str | None = None
    expected: tuple = ()


def read_table(path, kind, choose, as_text=None, layout=None):
    """Read a file as `TableData`.

    Parameters
    ----------
    path : str
        As for `load_svmlight`.
    kind : {"csv", "parquet"}
    choose : callable
        Gets the column names; returns the names of the features, in order, and that of the label column or None.
    as_text : callable, optional
        Takes the names of the features; returns the places of those to read as text.
    layout : Layout, optional
    """
    name = "<stdin>" if path == "-" else path
    try:
        import pandas

        if kind == "parquet":
            import pyarrow  # noqa: F401  pandas reads Parquet with it
    except ImportError as error:
        needed = "pandas" if kind == "csv" else "pandas and pyarrow"
        shown_kind = {"csv": "CSV", "parquet": "Parquet"}[kind]
        raise TableError(
            f"{name}: {shown_kind} files need {needed} ({error}): "
            f'python -m pip install "pymcboost[{kind}]", or write LIBSVM text'
        ) from None
    stream, name, size, ours = archives.open_text(path)
    room = _Room(name, size)
    as_text = as_text or (lambda names: ())
    try:
        with archives.buffered(stream) as file, intact(name):
            read = _parquet if kind == "parquet" else _csv
            frame, (names, label), texts = read(
                pandas, file, room=room, choose=choose, as_text=as_text, layout=layout
            )
    finally:
        if ours:
            stream.close()
    if not len(frame):
        raise TableError(f"{name}: the file has no row of data")
    X = np.empty((len(frame), len(names)), dtype=np.float32)
    for j, column in enumerate(names):
        X[:, j] = 0 if j in texts else _numbers(pandas, frame[column], f"{name}: column {column!r}")
    y = np.full(len(frame), "", dtype=object)
    if label is not None:
        y[:] = list(map(_label, _plain(frame[label], name)))
    text_columns = {j: [_stripped(value) for value in _plain(frame[names[j]], name)] for j in texts}
    return TableData(X, y, y != "", names=names, label=label, texts=text_columns)


class _Room:
    """Memory that is free before a file is read.

    Parameters
    ----------
    name : str
        That of the file, for messages.
    size : int
        Bytes of the file, or 0 if unknown.
    """

    def __init__(self, name, size):
        self.name = name
        self.size = size
        self._free = available_memory()

    def check(self, needed):
        """Refuse a file that needs more bytes than are free."""
        if self._free is not None and needed > self._free:
            raise TableMemoryError(
                f"{self.name}: reading the file takes at least {in_words(needed)} of memory, "
                f"and {in_words(self._free)} are free. Give fewer rows or columns, train on "
                "blocks of rows (Dataset.from_blocks in Python), or use a machine with more "
                "memory"
            )

    def check_part(self, needed, read):
        """Check the memory for ``read`` bytes, or for the whole file once enough of it has been read."""
        if self.size and read >= max(LEAST_SEEN, SEEN * self.size):
            needed *= max(self.size / read, 1)
        self.check(int(needed))


def _csv(pandas, file, *, room, choose, as_text, layout):
    """Read a CSV file: the frame, the columns of features and labels, and the positions of text columns."""
    layout = layout or Layout()
    name = room.name
    first = file.readline(LONGEST)
    other_format = archives.other_format(first, name)
    if other_format:
        raise TableError(f"{name}: {other_format}")
    if len(first) == LONGEST:
        raise TableError(
            f"{name}: the first line has more than {LONGEST >> 20} MiB; check that the file "
            "has line breaks"
        )
    try:
        line = first.decode("utf-8-sig")
        separator = layout.separator or max(SEPARATORS, key=re.sub(r'"[^"]*"', "", line).count)
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
        head = [cell.strip() for cell in cells]
        line = b""
        if layout.header is False:
            head = [str(number) for number in range(1, len(cells) + 1)]
            line = first.removeprefix(b"\xef\xbb\xbf")
        rest = _Lines(line, file, room, n_columns=len(head))
        _check_head(head, name, layout)
        remedy = "" if len(head) > 1 else "; set the column separator with --separator"
        names, label = _chosen(head, choose, f"{name}:1", remedy)
        texts = _chosen(names, as_text, f"{name}:1")
        as_written = [names[j] for j in texts] + ([] if label is None else [label])
        # From pandas 3.1 on, the nearest float is the default.
        exactly = {"float_precision": "round_trip"} if _version(pandas) < (3, 1) else {}
        with warnings.catch_warnings():
            # Otherwise, values of long rows would be dropped.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                rest,
                sep=separator,
                header=None,
                names=head,
                index_col=False,
                dtype=dict.fromkeys(as_written, str),
                skipinitialspace=True,
                low_memory=False,
                **exactly,
            )
    except pandas.errors.EmptyDataError:
        raise TableError(f"{name}: there is no row of data after the column names") from None
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, csv.Error) as error:
        words = " ".join(str(error).split())
        raise TableError(
            f"{name}: {words}; a quote may be unclosed, or a row may have more values than "
            "there are names"
        ) from None
    except UnicodeDecodeError as error:
        raise TableError(f"{name}: {error}; expected comma-separated values in UTF-8") from None
    return frame, (names, label), texts


def _version(pandas):
    return tuple(map(int, pandas.__version__.split(".")[:2]))


class _Lines(io.RawIOBase):
    """A line that was already read, if any, followed by the rest of its file.

    Lines must have an end, and the memory must suffice for the text and for ``n_columns`` values of each line.
    """

    def __init__(self, line, file, room, n_columns):
        self._line = line
        self._file = file
        self._room = room
        self._memory_a_row = MEMORY_A_VALUE * n_columns
        self._since_line_end = 0
        self._size = 0
        self._n_rows = 0

    def readable(self):
        """Whether it can be read."""
        return True

    def readinto(self, view):
        """Fill a part of a buffer; return the number of bytes."""
        if not self._line:
            return self._read_on(view)
        part = self._line[: len(view)]
        self._line = self._line[len(view) :]
        view[: len(part)] = part
        return len(part)

    def _read_on(self, view):
        """Read from the file; refuse lines that are too long, and files that do not fit into memory."""
        size = self._file.readinto(view)
        text = bytes(view[:size])
        last = text.rfind(b"\n")
        self._since_line_end = size - last - 1 if last >= 0 else self._since_line_end + size
        if self._since_line_end > LONGEST:
            problem = f"a line has more than {LONGEST >> 20} MiB"
            raise TableError(f"{self._room.name}: {problem}; check that the file has line breaks")
        self._size += size
        self._n_rows += text.count(b"\n")
        self._room.check_part(self._size + self._memory_a_row * self._n_rows, self._size)
        return size


def _check_head(head, name, layout):
    """Refuse a first line of a CSV file that does not name the columns."""
    if not any(head):
        raise TableError(f"{name}:1: the line with the column names is missing")
    _refuse_repeated_names(head, f"{name}:1")
    numbers = [column for column in head if is_number(column) and column not in layout.expected]
    if numbers and layout.header is None:
        raise TableError(
            f"{name}:1: the column name {numbers[0]!r} is a number; if the first line is a row "
            "of data, give --no-header, and if it names the columns, give --header"
        )


def _parquet(pandas, file, *, room, choose, as_text, layout):
    """Read a Parquet file: the frame, the columns of features and labels, and the positions of text columns."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    content = _content(file, room)
    name = room.name
    try:
        parquet = ParquetFile(pyarrow.BufferReader(content))
        schema = parquet.schema_arrow
        _refuse_repeated_names(schema.names, name)
        memory_of_row = sum(map(_memory_of_value, schema.types))
        room.check(len(content) + parquet.metadata.num_rows * memory_of_row)
        frame = pandas.read_parquet(
            pyarrow.BufferReader(content), engine="pyarrow", dtype_backend="numpy_nullable"
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{name}: {str(error).rstrip('.')}; expected a Parquet file") from None
    head = [str(column) for column in frame.columns]
    frame.columns = head
    names, label = _chosen(head, choose, name)
    return frame, (names, label), _chosen(names, as_text, name)


def _content(file, room):
    """Read all bytes of a file, if they fit into memory."""
    room.check(room.size)
    content = bytearray()
    while piece := file.read(PIECE):
        content += piece
        room.check(len(content))
    return content


def _memory_of_value(kind):
    """Bytes for a value of an Arrow type: in Arrow, in a pandas column with its mask, and in X."""
    try:
        width = max(1, kind.bit_width // 8)
    except ValueError:  # text, which takes at least an offset
        width = 8
    return 2 * width + 1 + np.dtype(np.float32).itemsize


def _refuse_repeated_names(head, where):
    if len(set(head)) < len(head):
        repeated = next(column for column in head if head.count(column) > 1)
        raise TableError(
            f"{where}: the column name {repeated!r} occurs twice; give every column a different name"
        )


def _chosen(head, choose, where, remedy=""):
    """Call a function that chooses columns by name; its errors say where the names are."""
    try:
        return choose(head)
    except ValueError as error:
        raise TableError(f"{where}: {error}{remedy}") from None


def _numbers(pandas, column, where):
    """Convert a column to float32, with missing values as NaN."""
    types = pandas.api.types
    kind = column.dtype
    if types.is_numeric_dtype(kind) or types.is_bool_dtype(kind):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        numbers = np.full(len(column), np.nan)
        if types.is_object_dtype(kind) or types.is_string_dtype(kind):
            numbers = pandas.to_numeric(column.astype(object), errors="coerce").to_numpy(
                np.float64, na_value=np.nan
            )
        other = np.isnan(numbers) & column.notna().to_numpy()
        if other.any():
            row = int(other.argmax())
            name = column.name
            raise TableError(
                f"{where} has {str(column.iloc[row])[:40]!r} in row {row + 1}; features must "
                "be numbers, or empty if missing. If this column holds the labels, give "
                f"--label {name}. If it holds categories, train with --categorical-features "
                f"{name} (not with hingeboost), encode it as numbers, or leave it out"
            )
    with np.errstate(over="ignore"):
        values = numbers.astype(np.float32)
    beyond = np.isinf(values) & np.isfinite(numbers)
    if beyond.any():
        row = int(beyond.argmax())
        raise TableError(
            f"{where}, row {row + 1}: {numbers[row]:g} is too large for float32 (about 3.4e38); scale it"
        )
    return values


def _plain(column, name):
    """Labels or categories as a list of integers, text and so on; missing values are None or NaN."""
    values = column.astype(object).tolist()
    plain = [None if type(value).__name__ == "NAType" else value for value in values]
    for value in plain:
        if not isinstance(value, (str, int, float, type(None))):
            problem = f"{name}: column {column.name!r} has {type(value).__name__} values"
            raise TableError(f"{problem}; labels and categories must be integers or text")
    return plain


def _stripped(value):
    return value.strip() if isinstance(value, str) else value


def _label(value):
    """A label as text, or "" if it is missing; whole numbers are written without an exponent."""
    if value is None or value != value:
        return ""
    return f"{value:.0f}" if isinstance(value, float) and abs(value) >= 1e16 else str(value).strip()


def is_number(text):
    """Whether a text is a single number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def whole(label):
    """The integer that a label represents, or None."""
    match = WHOLE.fullmatch(label)
    return int(match[1]) if match else None


def column_named(head, name):
    """Name of the column with this name or, if there is none, with this number, counted from 1; otherwise an error."""
    if name in head:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(head):
        return head[int(name) - 1]
    shown = ", ".join(map(repr, head[:10])) + (", ..." if len(head) > 10 else "")
    raise ValueError(f"there is no column {name!r}; the columns are {shown}")
