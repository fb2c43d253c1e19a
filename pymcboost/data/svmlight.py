"""Reader of LIBSVM text, to dense float32 or compressed sparse rows."""

from contextlib import contextmanager, nullcontext
from os import PathLike
from typing import Literal, NamedTuple

import numpy as np

from pymcboost._kernels import svmtext
from pymcboost.data import archives
from pymcboost.data.svmlabels import LabelLists
from pymcboost.data.svmwords import MAX_INDEX, explain, is_a_table, token
from pymcboost.threads import available_memory, counted, in_words

CHUNK = 1 << 19
# Up to this size, rows are always dense by default, because dense rows are easier to use.
SMALL_DENSE = 32 << 20
# "auto" uses dense rows up to this multiple of the compressed size (with more than about 17% of the entries present).
DENSE_RATIO = 3

# Number of labels that a representation shows.
LABELS_SHOWN = 5


class SvmlightError(ValueError):
    """Error for a LIBSVM file that cannot be read.

    The message names the file, the line, the column (in bytes, from 1), the value, and what to do about it.
    """


class SvmlightMemoryError(SvmlightError, MemoryError):
    """Error for a LIBSVM file whose matrix would not fit into memory. Raised before the memory is allocated."""


class SvmlightData(NamedTuple):
    """Rows and labels of a LIBSVM file, which `load_svmlight` returns.

    Attributes
    ----------
    X : ndarray, scipy.sparse.csr_matrix or CompressedRows of shape (m, d)
        Features of dtype float32. Dense rows are C-contiguous.
    y : ndarray of shape (m,)
        Labels: int64 if all labels are integers, otherwise float64. 0 if the row has no label. For multi-label data, an
        array of tuples, which MultiLabelBinarizer of scikit-learn accepts.
    labelled : ndarray of bool of shape (m,)
        Whether the row has a label.
    base : int
        Index of the first feature in the file, 0 or 1.
    notices : list of str
        Messages for the user, such as that qid was ignored, zero-based indices were detected, or features were dropped.
    """

    X: object
    y: np.ndarray
    labelled: np.ndarray
    base: int
    notices: list

    def __repr__(self):
        if self.y.dtype == object:
            labels = sorted({label for labels_of_row in self.y for label in labels_of_row})
        else:
            labels = np.unique(self.y[self.labelled]).tolist()
        shown = ", ".join(map(str, labels[:LABELS_SHOWN]))
        if len(labels) > LABELS_SHOWN:
            shown += ", ..."
        storage = "CSR" if hasattr(self.X, "indptr") else "dense"
        parts = [
            counted(self.X.shape[0], "row"),
            f"{counted(self.X.shape[1], 'feature')} ({storage})",
            counted(len(labels), "label") + (f" ({shown})" if labels else ""),
        ]
        if not self.labelled.all():
            parts.append(f"{counted(np.count_nonzero(~self.labelled), 'row')} without a label")
        return f"<SvmlightData: {', '.join(parts)}, base {self.base}>"


class CompressedRows(NamedTuple):
    """Compressed sparse rows without SciPy, which `Model` can score. It has the attributes of a ``csr_matrix``.

    Attributes
    ----------
    data : ndarray of float32 of shape (nnz,)
        Values of the entries.
    indices : ndarray of int32 or int64 of shape (nnz,)
        Column of each entry, increasing within a row.
    indptr : ndarray of shape (m + 1,)
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1] - 1``. The dtype is that of ``indices``.
    shape : tuple of int
        Numbers of rows and columns.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple


class _Rows:
    """Compressed sparse rows in growing arrays, which the scanner fills."""

    def __init__(self, name, memory_limit):
        self.name = name
        self.memory_limit = memory_limit
        self.indices = np.empty(0, np.int32)
        self.values = np.empty(0, np.float32)
        self.indptr = np.zeros(1, np.int64)
        self.labels = np.empty(0, np.float64)
        self.labelled = np.empty(0, np.uint8)
        self.empty_line = 0  # the first one, or 0

    def check_memory(self, size, purpose, remedy):
        """Raise an error if ``size`` more bytes for ``purpose`` are not available."""
        if self.memory_limit is not None:
            room = self.memory_limit - self.bytes_held()
            where = f"memory_limit={self.memory_limit} leaves"
        else:
            room = available_memory()
            where = "this machine has"
        if room is not None and size > room:
            raise SvmlightMemoryError(
                f"{self.name}: {purpose} needs about {in_words(size)} and {where} {in_words(max(room, 0))}; {remedy}"
            )

    def bytes_held(self):
        """Allocated bytes, used or not."""
        return sum(
            getattr(self, name).nbytes
            for name in ("indices", "values", "indptr", "labels", "labelled")
        )

    def reserve(self, scanner, length, expected):
        """Make room for the rows in ``length`` more bytes of text; ``expected`` guesses the final (entries, rows)."""
        n_entries, n_rows = expected
        of_entries = ("indices", "values")
        of_rows = ("indptr", "labels", "labelled")
        self._reserve(of_entries, "entries", scanner.nnz, n_more=length // 4, guess=n_entries)
        self._reserve(of_rows, "rows", scanner.rows, n_more=length // 2, guess=n_rows)

    def _reserve(self, names, purpose, used, n_more, guess):
        """Make room for ``n_more`` entries or rows in these arrays, or for all that are expected."""
        arrays = [getattr(self, name) for name in names]
        if len(arrays[-1]) >= used + n_more:
            return
        width = sum(array.itemsize for array in arrays)
        remedy = "raise memory_limit or free memory, or read fewer rows"
        sizes = used + n_more, max(used + n_more, guess, len(arrays[-1]) * 3 // 2)
        for size in reversed(sizes):
            try:
                self.check_memory(width * size, f"reading {size} {purpose}", remedy)
                break
            except SvmlightMemoryError:
                # The guess may be too high; only the certain need of these lines is a reason to give up.
                if size == sizes[0]:
                    raise
        for name, array in zip(names, arrays, strict=True):
            extra = name == "indptr"
            new = np.empty(size + extra, array.dtype)
            new[: used + extra] = array[: used + extra]
            setattr(self, name, new)

    def trim(self, rows, entries):
        """Free the unused parts of the arrays."""
        sizes = {
            "indices": entries,
            "values": entries,
            "indptr": rows + 1,
            "labels": rows,
            "labelled": rows,
        }
        for name, size in sizes.items():
            getattr(self, name).resize(size, refcheck=False)


def refusal(name, code, scanner, buffer, lines=0):
    """Create the error for the text at which the scanner stopped, ``lines`` lines after the start of the file."""
    lines += scanner.line + 1
    if code == "conversion failed":
        return MemoryError(f"{name}:{lines}: no memory to convert a number")
    offset, column, previous = scanner.error
    reason = explain(code, *token(buffer, offset), previous)
    begin = buffer.rfind(b"\n", 0, offset) + 1
    if scanner.nnz == 0 and is_a_table(buffer[begin : buffer.find(b"\n", offset)]):
        reason = (
            f"{token(buffer, begin)[0]} looks like comma-separated values; expected LIBSVM "
            "text: label index:value index:value ..., as written by scikit-learn's "
            "dump_svmlight_file or pymcboost's dump_svmlight"
        )
    if lines == 1:
        reason = archives.other_format(bytes(buffer[:8]), name) or reason
    return SvmlightError(f"{name}:{lines}:{column}: {reason}")


@contextmanager
def intact(name):
    """Turn errors of a damaged archive into one that says so."""
    try:
        yield
    except (OSError, *archives.DAMAGES) as error:
        reason = archives.damage(name, error)
        if reason is None:
            raise
        if archives.is_other_data(name):
            suffix = archives.suffix_of(name)
            raise SvmlightError(
                f"{name}: the file ends in {suffix}, but is not {archives.FORMATS[suffix]} data; "
                "rename it"
            ) from error
        raise SvmlightError(
            f"{name}: the archive is truncated or damaged ({reason}); download or create it again"
        ) from error


class _Lines:
    """Whole lines of a stream, read into one buffer. The last line gets a line break if it has none.

    Parameters
    ----------
    stream : binary file
    name : str
        For error messages.
    size : int
        Of the file; 0 if it is unknown.

    Attributes
    ----------
    buffer : bytearray
        Begins with the lines of the last `read`.
    total : int
        Bytes read from the stream so far.
    """

    def __init__(self, stream, name, size):
        self._stream = stream
        self._name = name
        # One byte more than the file, so that its end is noticed without another read.
        self._room = min(CHUNK, size + 1) if size else CHUNK
        self._filled = 0
        self._begun = False
        self.buffer = bytearray(self._room + 1 + svmtext.PADDING)
        self.total = 0
        self.ended = False

    def read(self, check_memory):
        """Read on. Return the length of the whole lines in the buffer; 0 if there is none yet."""
        if self._filled == self._room:
            check_memory(
                3 * self._room,
                "a line longer than the read buffer",
                "check that the file has line breaks",
            )
            self.buffer.extend(bytes(self._room))
            self._room *= 2
        with memoryview(self.buffer) as view:
            n_read = self._stream.readinto(view[self._filled : self._room])
        if n_read is None:
            raise BlockingIOError(
                f"{self._name}: no data on a non-blocking stream; use a blocking one"
            )
        self._filled += n_read
        self.total += n_read
        self.ended = n_read == 0
        if not self._begun and (self._filled >= 3 or self.ended):
            self._begun = True
            self._blank_byte_order_mark()
        if self.ended and self._filled and self.buffer[self._filled - 1] != 10:
            self.buffer[self._filled] = 10
            self._filled += 1
        return self.buffer.rfind(b"\n", 0, self._filled) + 1

    def _blank_byte_order_mark(self):
        if self.buffer[:3] == b"\xef\xbb\xbf":
            self.buffer[:3] = b"   "

    def drop(self, length):
        """Remove lines of this length from the buffer."""
        self.buffer[: self._filled - length] = self.buffer[length : self._filled]
        self._filled -= length

    def done(self, length):
        """Bytes of the stream up to the end of the lines of this length."""
        return self.total - self._filled + length


def _scan(stream, name, size, base, rows, lines=None):
    """Read ``stream`` to its end into ``rows``; return the scanner with its totals."""
    scanner = svmtext.Scanner(1 if base == 1 else 0, 0 if base == 0 else 1)
    text = _Lines(stream, name, size)
    while not text.ended:
        length = text.read(rows.check_memory)
        if length == 0:
            continue
        rows.reserve(scanner, length, _expected(scanner, size, text.done(length), length))
        arrays = rows.indices, rows.values, rows.indptr, rows.labels, rows.labelled
        lines_before = scanner.line
        skipped_before = scanner.line - scanner.rows
        code = scanner.feed(text.buffer, length, *arrays)
        if code != "ok":
            raise refusal(name, code, scanner, buffer=text.buffer, lines=lines or 0)
        if not rows.empty_line and scanner.line - scanner.rows > skipped_before:
            rows.empty_line = first_empty(text.buffer, length, lines_before)
        text.drop(length)
    if lines is None:
        _refuse_empty(name, scanner, text.total)
    return scanner


def _expected(scanner, size, done, length):
    """Entries and rows to expect in the whole file, by those before the last ``length`` of ``done`` bytes."""
    if not scanner.rows or not size or size <= done:
        return 0, 0
    share = 1.05 * size / (done - length) if done > length else 1
    return int(scanner.nnz * share), int(scanner.rows * share)


def _refuse_empty(name, scanner, n_bytes):
    """Refuse a file without rows."""
    if n_bytes == 0:
        raise SvmlightError(f"{name}: the file is empty; expected rows like 1 3:0.5 7:2")
    if scanner.rows == 0:
        raise SvmlightError(
            f"{name}: no row of data in {scanner.line} lines; expected rows like 1 3:0.5 7:2"
        )


def first_empty(buffer, length, before):
    """Number of the first line without text, or 0; ``before`` lines precede the buffer."""
    for number, line in enumerate(bytes(buffer[:length]).split(b"\n")[:-1], before + 1):
        if not line.strip():
            return number
    return 0


def _is_integer(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_options(n_features, base, layout, memory_limit):
    """Refuse arguments of `load_svmlight` that are not allowed."""
    if n_features is not None and not (_is_integer(n_features) and 1 <= n_features <= MAX_INDEX):
        raise ValueError(
            f"n_features={n_features!r}: expected None or an integer from 1 to {MAX_INDEX}"
        )
    if not ((isinstance(base, str) and base == "auto") or (_is_integer(base) and base in (0, 1))):
        raise ValueError(f"base={base!r}: expected 'auto', 0 or 1")
    if layout not in ("auto", "dense", "csr", "plain"):
        raise ValueError(f"layout={layout!r}: expected 'auto', 'dense', 'csr' or 'plain'")
    if memory_limit is not None and not memory_limit > 0:
        raise ValueError(
            f"memory_limit={memory_limit!r}: expected None or a positive number of bytes"
        )


def load_svmlight(
    path: str | bytes | PathLike[str],
    *,
    n_features: int | None = None,
    base: Literal["auto", 0, 1] = "auto",
    layout: Literal["auto", "dense", "csr", "plain"] = "auto",
    memory_limit: int | None = None,
    multilabel: bool = False,
) -> "SvmlightData":
    r"""Read rows and labels from a file in LIBSVM format.

    Each line is a row: ``label index:value index:value ...`` with increasing indices.

    Parameters
    ----------
    path : str, bytes or path-like
        File name, or ``-`` for standard input. A file whose name ends with .gz, .bz2 or .xz is decompressed.
    n_features : int, default=None
        Number of columns. None uses the largest index in the file. Entries with a larger index are dropped with a
        notice.
    base : {"auto", 0, 1}, default="auto"
        Index of the first feature. "auto" is 0, with a notice, if index 0 occurs in the file, and otherwise 1.
    layout : {"auto", "dense", "csr", "plain"}, default="auto"
        Type of X. "dense" is an array, and "csr" a sparse matrix. "auto" is dense if the array needs at most 32 MiB or
        3 times the size of the sparse matrix, and fits into memory. "plain" is the same with `CompressedRows` as the
        sparse matrix, and needs no SciPy.
    memory_limit : int, default=None
        Maximum memory in bytes for the result and for reading it. None uses the memory that is available.
    multilabel : bool, default=False
        Whether rows start with a list of integer labels, such as ``3,17,201 1:0.5``, or with a space if they have no
        labels. ``y`` is then an array of tuples.

    Returns
    -------
    SvmlightData
        Named tuple (X, y, labelled, base, notices). The index arrays of a sparse X are int32, as in SciPy, or int64
        from 2^31 entries.

    Raises
    ------
    SvmlightError
        If the text or the archive is not valid. The message starts with ``file:line:column:``.
    SvmlightMemoryError
        If the matrix does not fit into memory. It is also a MemoryError.
    OSError
        If the file cannot be read.

    Notes
    -----
    Separators are spaces and tabs, and a line may end with a carriage return. A byte order mark, blank lines, and text
    from ``#`` to the end of the line are skipped. ``qid:n`` after the label is checked and ignored. A row may have no
    label. Labels are numbers of at most 2^53 in magnitude, up to which float64 represents every integer. Values are
    rounded to float64 and then to float32. ``nan`` means missing, and ``inf`` is infinity.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.libsvm")
    >>> _ = path.write_text("1 1:0.5 3:2\n2 2:nan\n")
    >>> data = load_svmlight(path)
    >>> data.X.shape, data.y
    ((2, 3), array([1, 2]))
    """
    data, _, _ = load_and_count(
        path,
        n_features=n_features,
        base=base,
        layout=layout,
        memory_limit=memory_limit,
        multilabel=multilabel,
    )
    return data


def load_and_count(
    path,
    n_features=None,
    base="auto",
    layout="auto",
    memory_limit=None,
    multilabel=False,
    lines=None,
):
    """Result of `load_svmlight`, number of features needed for the largest index, and number of entries.

    ``lines``: see `load_stream`. The number of entries counts those in the text, including zeros and dropped
    features.
    """
    _check_options(n_features, base, layout, memory_limit)
    stream, name, size, ours = archives.open_text(path)
    try:
        return load_stream(
            stream,
            name,
            size,
            n_features=n_features,
            base=base,
            layout=layout,
            memory_limit=memory_limit,
            multilabel=multilabel,
            lines=lines,
        )
    finally:
        if ours:
            stream.close()


def load_stream(
    stream,
    name,
    size=0,
    n_features=None,
    base="auto",
    layout="auto",
    memory_limit=None,
    multilabel=False,
    lines=None,
):
    """Read rows from a binary stream of about ``size`` bytes; see `load_and_count`.

    ``lines``: the stream is a part of a file, which starts after this many lines; it may have no rows.
    """
    rows = _Rows(name, memory_limit)
    with archives.buffered(stream) if multilabel else nullcontext(stream) as text, intact(name):
        text = _label_lists(text, name, rows) if multilabel else text
        scanner = _scan(text, name, size, base, rows, lines)
    rows.trim(scanner.rows, scanner.nnz)
    notices = []
    before = lines or 0
    if scanner.qid_line:
        notices.append(f"{name}: ignoring qid (first at line {before + scanner.qid_line})")
    base = _settle_base(name, base, scanner, rows, notices, before)
    largest, line, column = scanner.largest
    line += before
    n_found = largest + 1 - base if largest >= 0 else 0
    if rows.empty_line and not multilabel and not rows.labelled.any():
        skipped = scanner.line - scanner.rows
        notices.append(
            f"{name}: skipped {counted(skipped, 'line')} without data, the first empty one at line "
            f"{before + rows.empty_line}; write a row of zeros as {base}:0"
        )
    if n_features is None:
        if largest < 0 and lines is None:
            raise SvmlightError(
                f"{name}: no row has a feature; if that is intended, give n_features"
            )
        n_features = n_found
    elif n_found > n_features:
        # Other parts of the file may have a larger one.
        which = "largest index" if lines is None else "index"
        notices.append(
            f"{name}: ignoring features beyond n_features={n_features} ({which} {largest} at "
            f"line {line})"
        )
    where = f"largest index {largest} at line {line}, column {column}"
    X = _matrix(
        rows, scanner, int(n_features), layout=layout, where=where, drop=n_found > n_features
    )
    if multilabel:
        y = text.y()
    else:
        y = rows.labels if scanner.fractions else rows.labels.astype(np.int64)
    return (
        SvmlightData(X, y, rows.labelled.view(np.bool_), base=int(base), notices=notices),
        n_found,
        scanner.nnz,
    )


def _label_lists(text, name, rows):
    """Wrap the stream to extract its lists of labels. A long line takes six times its size before it is scanned."""

    def refuse(*place_and_message):
        return SvmlightError("{}:{}:{}: {}".format(name, *place_and_message))

    def check(size):
        rows.check_memory(
            6 * size, f"a line of {in_words(size)} or more", "check that the file has line breaks"
        )

    return LabelLists(text, refuse, check)


def _settle_base(name, base, scanner, rows, notices, before):
    """Decide between zero- and one-based indices, which change the rows; return the base."""
    if base == "auto":
        base = 0 if scanner.zero_line else 1
        if base == 0:
            rows.indices += 1
            line = before + scanner.zero_line
            notices.append(
                f"{name}: found index 0 (line {line}), so indices are read as zero-based; set "
                "base=0 to confirm"
            )
    largest, line, column = scanner.largest
    if base == 0 and largest == MAX_INDEX:
        raise SvmlightError(
            f"{name}:{before + line}:{column}: feature index {largest} is above 2^31-2, the "
            "largest in a zero-based file; renumber the features"
        )
    return base


def better_dense(m, n_features, entries):
    """Whether rows with this many entries are dense by default."""
    return 4 * m * n_features <= max(SMALL_DENSE, DENSE_RATIO * (8 * entries + 8 * (m + 1)))


def _matrix(rows, scanner, n_features, layout, where, drop):
    """Make X from the rows; ``drop``: some entries are beyond the last feature; ``where``: of the largest index."""
    m = scanner.rows
    entries = scanner.nnz
    dense_size = 4 * scanner.rows * n_features
    plain = layout == "plain"
    if layout in ("auto", "plain"):
        layout = "dense" if better_dense(m, n_features, entries) else "csr"
        try:
            rows.check_memory(dense_size, "", "")
        except SvmlightMemoryError:
            layout = "csr"
    if layout == "dense":
        purpose = f"a dense float32 matrix of {m} rows and {n_features} features ({where})"
        rows.check_memory(dense_size, purpose, "use layout='csr' or a smaller n_features")
        X = np.zeros((m, n_features), np.float32)
        svmtext.fill_dense(rows.indptr, rows.indices, rows.values, X)
        return X
    if drop:
        entries = svmtext.drop_beyond(rows.indptr, rows.indices, rows.values, n_features)
        rows.trim(m, entries)
    # Both index arrays have one type, as SciPy makes them and compiled readers of CSR expect.
    if entries <= MAX_INDEX:
        index_type = np.int32
    else:
        index_type = np.int64
        rows.check_memory(8 * entries, f"64-bit indices of {entries} entries", "read fewer rows")
    data = rows.values
    indices = rows.indices.astype(index_type, copy=False)
    indptr = rows.indptr.astype(index_type)
    if plain:
        return CompressedRows(data, indices, indptr, shape=(m, n_features))
    import scipy.sparse

    X = scipy.sparse.csr_matrix((data, indices, indptr), shape=(m, n_features), copy=False)
    X.has_sorted_indices = X.has_canonical_format = True
    return X
