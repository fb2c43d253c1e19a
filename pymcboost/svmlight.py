"""LIBSVM text: reading to dense float32 or compressed sparse rows, and writing."""

import bz2
import gzip
import io
import lzma
import os
import sys
import tempfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pymcboost._kernels import svmtext
from pymcboost.modelfile import check_folder
from pymcboost.threads import available_memory, counted, in_words

MAX_INDEX = 2**31 - 1
CHUNK = 1 << 19
# Dense rows are easier for everybody; this much of them is never worth a sparse matrix.
SMALL_DENSE = 32 << 20
# "auto" takes dense rows up to this many times the size of the compressed ones (about 17% of the entries present).
DENSE_RATIO = 3

# In a representation.
LABELS_SHOWN = 5

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz"}


class SvmlightError(ValueError):
    """A LIBSVM file that cannot be read; the message names file, line, column (in bytes, from 1), value and remedy."""


class SvmlightMemoryError(SvmlightError, MemoryError):
    """A LIBSVM file whose matrix would not fit in memory; raised before the memory is taken."""


class SvmlightData(NamedTuple):
    """What `load_svmlight` returns.

    Attributes
    ----------
    X : float32 ndarray (m, d), C-contiguous, or scipy.sparse.csr_matrix or CompressedRows of float32
    y : int64 ndarray (m,) if every label is an integer, else float64 ndarray (m,)
        0 where the row has no label.
    labelled : bool ndarray (m,)
        False where the row has no label.
    base : int
        Index of the first feature in the file, 0 or 1.
    notices : list of str
        What a reader should know (qid ignored, zero-based indices chosen, features dropped), ready to print.
    """

    X: object
    y: np.ndarray
    labelled: np.ndarray
    base: int
    notices: list

    def __repr__(self):
        labels = np.unique(self.y[self.labelled]).tolist()
        shown = ", ".join(map(str, labels[:LABELS_SHOWN])) + (", ..." if labels[LABELS_SHOWN:] else "")
        parts = [
            counted(self.X.shape[0], "row"),
            f"{counted(self.X.shape[1], 'feature')} ({'CSR' if hasattr(self.X, 'indptr') else 'dense'})",
            counted(len(labels), "label") + (f" ({shown})" if labels else ""),
        ]
        if not self.labelled.all():
            parts.append(f"{counted(np.count_nonzero(~self.labelled), 'row')} without a label")
        return f"<SvmlightData: {', '.join(parts)}, base {self.base}>"


class CompressedRows(NamedTuple):
    """Compressed sparse rows without SciPy, as `scoring.Model` reads them: the attributes of a ``csr_matrix``.

    Attributes
    ----------
    data : float32 ndarray (nnz,)
    indices : int32 or int64 ndarray (nnz,)
        Column of each entry, increasing within a row.
    indptr : ndarray (m + 1,), of the type of indices
        Row i holds the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    shape : (int, int)
        Rows and columns.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple


class _Rows:
    """Growing compressed sparse rows, filled by the scanner."""

    def __init__(self, name, memory_limit):
        self.name = name
        self.memory_limit = memory_limit
        self.indices, self.values = np.empty(0, np.int32), np.empty(0, np.float32)
        self.indptr = np.zeros(1, np.int64)
        self.labels, self.labelled = np.empty(0, np.float64), np.empty(0, np.uint8)

    def check_memory(self, size, what, remedy):
        """Refuse ``size`` more bytes for ``what`` where they are not there."""
        if self.memory_limit is not None:
            room, where = self.memory_limit - self.held(), f"memory_limit={self.memory_limit} leaves"
        else:
            room, where = available_memory(), "this machine has"
        if room is not None and size > room:
            raise SvmlightMemoryError(
                f"{self.name}: {what} needs about {in_words(size)} and {where} {in_words(max(room, 0))}; {remedy}"
            )

    def held(self):
        """Bytes held, whether or not they are in use."""
        return sum(array.nbytes for array in (self.indices, self.values, self.indptr, self.labels, self.labelled))

    def reserve(self, scanner, length, expected):
        """Make room for the rows of ``length`` more bytes; ``expected`` guesses the final (entries, rows)."""
        self._reserve(("indices", "values"), "entries", scanner.nnz, length // 4, expected[0])
        self._reserve(("indptr", "labels", "labelled"), "rows", scanner.rows, length // 2, expected[1])

    def _reserve(self, names, what, used, more, guess):
        arrays = [getattr(self, name) for name in names]
        if len(arrays[-1]) >= used + more:
            return
        width = sum(array.itemsize for array in arrays)
        remedy = "raise memory_limit or free memory, or read fewer rows"
        sizes = used + more, max(used + more, guess, len(arrays[-1]) * 3 // 2)
        for size in reversed(sizes):
            try:
                self.check_memory(width * size, f"reading {size} {what}", remedy)
                break
            except SvmlightMemoryError:
                # The guess may be too high; only what these lines can need is a reason to give up.
                if size == sizes[0]:
                    raise
        for name, array in zip(names, arrays, strict=True):
            extra = name == "indptr"
            new = np.empty(size + extra, array.dtype)
            new[: used + extra] = array[: used + extra]
            setattr(self, name, new)

    def trim(self, rows, entries):
        """Give back what is not in use."""
        for name, size in (("indices", entries), ("values", entries), ("indptr", rows + 1), ("labels", rows),
                           ("labelled", rows)):  # fmt: skip
            getattr(self, name).resize(size, refcheck=False)


def _open(path):
    """(binary stream, name for messages, bytes of text to come or 0 when unknown, whether to close it)."""
    if os.fspath(path) == "-":
        return sys.stdin.buffer, "<stdin>", 0, False
    name = os.fspath(path)
    opener = _OPENERS.get(Path(name).suffix.lower())
    if opener:
        return opener(name, "rb"), name, 0, True
    stream = open(name, "rb", buffering=0)
    return stream, name, os.fstat(stream.fileno()).st_size, True


def _token(buffer, offset):
    """The offending token as quoted text, cut to a readable length."""
    end = offset
    while end < offset + 60 and buffer[end] not in b" \t\r\n#":
        end += 1
    text = bytes(buffer[offset:end]).decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "..."), text


def _explain(code, token, text, previous):
    """Words for an error code of the scanner."""
    index = text.partition(":")[0]
    if code == "label not number":
        return f"label {token} is not a number; map class names to numbers first"
    if code == "label range":
        return f"label {token} is out of range; labels must be finite and within +-2^53"
    if code == "multi label":
        return f"label {token} lists several labels; multi-label files are not supported, keep one label per row"
    if code == "no colon":
        return f"expected index:value but found {token}; entries look like 7:0.5 and comments start with #"
    if code == "index not number":
        return f"feature index {index!r} is not a whole number; entries look like 7:0.5"
    if code == "index negative":
        return f"feature index {index} is negative; indices start at 1, or at 0 with base=0"
    if code == "index zero":
        return "feature index 0 in a one-based file; use base=0 or base='auto' if its indices start at 0"
    if code == "index huge":
        return f"feature index {index} is above 2^31-1 = {MAX_INDEX}; renumber the features"
    if code == "index order":
        same = "occurs twice" if int(index) == previous else f"follows {previous}"
        return f"feature index {int(index)} {same}; indices must increase"
    if code == "no value":
        return "no value after the colon; write index:value without spaces, nan for a missing value"
    if code == "value not number":
        return f"value {token} is not a number; write nan for a missing value"
    if code == "value overflow":
        return f"value {token} is too large for float32 (about 3.4e38); scale the feature"
    if code == "qid not number":
        return f"qid {token} is not an integer"
    return "qid must come right after the label"


def _is_a_table(line):
    """Whether a line that is no row in LIBSVM format looks like comma-separated values or the like."""
    text = line.partition(b"#")[0].strip()
    return b":" not in text and any(separator in text for separator in (b",", b";", b"\t"))


def _scan(stream, name, size, base, rows):
    """Read ``stream`` to its end into ``rows``; the scanner with its totals."""
    scanner = svmtext.Scanner(1 if base == 1 else 0, 0 if base == 0 else 1)
    # One byte more than the file, so that its end shows without another round.
    room = min(CHUNK, size + 1) if size else CHUNK
    buffer = bytearray(room + 1 + svmtext.PADDING)
    have = total = 0
    ended = first = False
    while not ended:
        if have == room:
            rows.check_memory(3 * room, "a line longer than the read buffer", "check that the file has line ends")
            buffer.extend(bytes(room))
            room *= 2
        with memoryview(buffer) as view:
            got = stream.readinto(view[have:room])
        if got is None:
            raise BlockingIOError(f"{name}: no data on a non-blocking stream")
        have += got
        total += got
        ended = got == 0
        if not first and (have >= 3 or ended):
            first = True
            if buffer[:3] == b"\xef\xbb\xbf":
                buffer[:3] = b"   "
        if ended and have and buffer[have - 1] != 10:
            buffer[have] = 10
            have += 1
        length = buffer.rfind(b"\n", 0, have) + 1
        if length == 0:
            continue
        done = total - have + length
        expected = (0, 0)
        if scanner.rows and size > done:
            share = 1.05 * size / (done - length) if done > length else 1
            expected = (int(scanner.nnz * share), int(scanner.rows * share))
        rows.reserve(scanner, length, expected)
        code = scanner.feed(buffer, length, rows.indices, rows.values, rows.indptr, rows.labels, rows.labelled)
        if code != "ok":
            if code == "conversion failed":
                raise MemoryError(f"{name}:{scanner.line + 1}: no memory to convert a number")
            offset, column, previous = scanner.error
            reason = _explain(code, *_token(buffer, offset), previous)
            begin = buffer.rfind(b"\n", 0, offset) + 1
            if scanner.nnz == 0 and _is_a_table(buffer[begin : buffer.find(b"\n", offset)]):
                reason = (
                    f"{_token(buffer, begin)[0]} looks like comma-separated values; expected LIBSVM text: label "
                    "index:value index:value ..., as scikit-learn's dump_svmlight_file or pymcboost's dump_svmlight "
                    "writes it"
                )
            for magic, suffix in _MAGIC.items():
                if scanner.line == 0 and buffer.startswith(magic):
                    reason = f"this is compressed data; its name must end with {suffix}"
            raise SvmlightError(f"{name}:{scanner.line + 1}:{column}: {reason}")
        buffer[: have - length] = buffer[length:have]
        have -= length
    if total == 0:
        raise SvmlightError(f"{name}: the file is empty; expected rows like 1 3:0.5 7:2")
    if scanner.rows == 0:
        raise SvmlightError(f"{name}: no row of data in {scanner.line} lines; expected rows like 1 3:0.5 7:2")
    return scanner


def _checked(n_features, base, layout, memory_limit):
    if n_features is not None and not (
        isinstance(n_features, (int, np.integer)) and not isinstance(n_features, bool) and 1 <= n_features <= MAX_INDEX
    ):
        raise ValueError(f"n_features={n_features!r}: expected None or an integer from 1 to {MAX_INDEX}")
    if base not in ("auto", 0, 1) or isinstance(base, bool):
        raise ValueError(f"base={base!r}: expected 'auto', 0 or 1")
    if layout not in ("auto", "dense", "csr", "plain"):
        raise ValueError(f"layout={layout!r}: expected 'auto', 'dense', 'csr' or 'plain'")
    if memory_limit is not None and not memory_limit > 0:
        raise ValueError(f"memory_limit={memory_limit!r}: expected None or a positive number of bytes")


def load_svmlight(path, *, n_features=None, base="auto", layout="auto", memory_limit=None):
    r"""Read a file in LIBSVM format.

    One row per line, ``label index:value index:value ...``, the indices increasing; separators are spaces, tabs and
    carriage returns. Text from ``#`` on and blank lines are skipped, ``qid:n`` after the label is checked and
    ignored, and a row may lack its label. Values are rounded to the nearest double and then to float32; ``nan``
    (missing) and ``inf`` are read as such. Labels are numbers, at most 2^53 in size. A byte order mark is skipped.

    Parameters
    ----------
    path : str or path-like
        File name; ``-`` is standard input. A name that ends with .gz, .bz2 or .xz is decompressed.
    n_features : int, default=None
        Number of columns. None: as many as the largest index in the file asks for. Entries beyond it are dropped
        with a notice.
    base : {"auto", 0, 1}, default="auto"
        Index of the first feature. "auto" takes 0, with a notice, if index 0 occurs in the file, else 1.
    layout : {"auto", "dense", "csr", "plain"}, default="auto"
        "auto" makes dense rows up to 32 MiB or 3 times the size of compressed sparse rows, if they fit in memory.
        "plain" does the same with `CompressedRows` in place of a csr_matrix and needs no SciPy.
    memory_limit : int, default=None
        Bytes that the result and its making may take. None: what the system has available.

    Returns
    -------
    SvmlightData
        Named tuple (X, y, labelled, base, notices). The index arrays of a sparse X are int32, as SciPy makes them,
        or int64 from 2^31 entries on.

    Raises
    ------
    SvmlightError
        The text or the archive is not valid; the message begins with ``file:line:column:``.
    SvmlightMemoryError
        The matrix would not fit in memory; also a MemoryError.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.libsvm")
    >>> _ = path.write_text("1 1:0.5 3:2\n2 2:nan\n")
    >>> data = load_svmlight(path)
    >>> data.X.shape, data.y
    ((2, 3), array([1, 2]))
    """
    return load_and_count(path, n_features, base, layout, memory_limit)[0]


def load_and_count(path, n_features=None, base="auto", layout="auto", memory_limit=None):
    """What `load_svmlight` returns, and as how many features the largest index in the file asks for (0: none)."""
    _checked(n_features, base, layout, memory_limit)
    stream, name, size, ours = _open(path)
    rows = _Rows(name, memory_limit)
    try:
        scanner = _scan(stream, name, size, base, rows)
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise SvmlightError(f"{name}: the archive is truncated or damaged ({error}); fetch it again") from error
    except OSError as error:
        if error.errno is None and Path(name).suffix.lower() in _OPENERS:
            raise SvmlightError(f"{name}: the archive is truncated or damaged ({error}); fetch it again") from error
        raise
    finally:
        if ours:
            stream.close()
    rows.trim(scanner.rows, scanner.nnz)
    notices = []
    if scanner.qid_line:
        notices.append(f"{name}: qid ignored (first at line {scanner.qid_line})")
    base = _settle_base(name, base, scanner, rows, notices)
    largest, line, column = scanner.largest
    found = largest + 1 - base if largest >= 0 else 0
    if n_features is None:
        if largest < 0:
            raise SvmlightError(f"{name}: no row has a feature; give n_features if that is meant")
        n_features = found
    elif found > n_features:
        notices.append(
            f"{name}: features beyond n_features={n_features} dropped (largest index {largest} at line {line})"
        )
    where = f"largest index {largest} at line {line}, column {column}"
    X = _matrix(rows, scanner, int(n_features), layout, where, found > n_features)
    y = rows.labels if scanner.fractions else rows.labels.astype(np.int64)
    return SvmlightData(X, y, rows.labelled.view(np.bool_), base, notices), found


def _settle_base(name, base, scanner, rows, notices):
    if base == "auto":
        base = 0 if scanner.zero_line else 1
        if base == 0:
            rows.indices += 1
            notices.append(f"{name}: index 0 found (line {scanner.zero_line}), indices read as zero-based; set base=0")
    largest, line, column = scanner.largest
    if base == 0 and largest == MAX_INDEX:
        raise SvmlightError(
            f"{name}:{line}:{column}: feature index {largest} is above 2^31-2, the largest of a zero-based file; "
            "renumber the features"
        )
    return base


def _matrix(rows, scanner, n_features, layout, where, drop):
    m, entries = scanner.rows, scanner.nnz
    dense_size, csr_size = 4 * m * n_features, 8 * entries + 8 * (m + 1)
    plain = layout == "plain"
    if layout in ("auto", "plain"):
        layout = "dense" if dense_size <= max(SMALL_DENSE, DENSE_RATIO * csr_size) else "csr"
        try:
            rows.check_memory(dense_size, "", "")
        except SvmlightMemoryError:
            layout = "csr"
    if layout == "dense":
        what = f"a dense float32 matrix of {m} rows and {n_features} features ({where})"
        rows.check_memory(dense_size, what, "use layout='csr' or a smaller n_features")
        X = np.zeros((m, n_features), np.float32)
        svmtext.fill_dense(rows.indptr, rows.indices, rows.values, X)
        return X
    if drop:
        entries = svmtext.drop_beyond(rows.indptr, rows.indices, rows.values, n_features)
        rows.trim(m, entries)
    # Both index arrays of one type: what SciPy itself makes and compiled readers of CSR expect.
    if entries <= MAX_INDEX:
        index_type = np.int32
    else:
        index_type = np.int64
        rows.check_memory(8 * entries, f"64-bit indices of {entries} entries", "read fewer rows")
    data, indices = rows.values, rows.indices.astype(index_type, copy=False)
    indptr = rows.indptr.astype(index_type)
    if plain:
        return CompressedRows(data, indices, indptr, (m, n_features))
    import scipy.sparse

    X = scipy.sparse.csr_matrix((data, indices, indptr), shape=(m, n_features), copy=False)
    X.has_sorted_indices = X.has_canonical_format = True
    return X


def dump_svmlight(path, X, y, *, base=1):
    r"""Write a file in LIBSVM format.

    Values are cast to float32 and written with the fewest digits, at most 9, that `load_svmlight` reads back exactly;
    zeros are left out, NaN is written as ``nan``. A file is replaced only when the new one is complete.

    Parameters
    ----------
    path : str or path-like
        File name; ``-`` is standard output. A name that ends with .gz, .bz2 or .xz is compressed.
    X : array-like (m, d) or SciPy sparse matrix (m, d)
        Features.
    y : array-like (m,)
        Numeric labels.
    base : {0, 1}, default=1
        Index of the first feature.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.libsvm")
    >>> dump_svmlight(path, [[0.5, 0, 2]], [1])
    >>> path.read_text()
    '1 1:0.5 3:2\n'
    """
    if base not in (0, 1) or isinstance(base, bool):
        raise ValueError(f"base={base!r}: expected 0 or 1")
    y = np.asarray(y)
    if y.dtype.kind not in "buif":
        raise ValueError(f"y has type {y.dtype}; LIBSVM labels are numbers, encode them first")
    if not np.isfinite(y).all() or (y.size and np.abs(y.astype(np.float64)).max() > 2**53):
        raise ValueError("y has a label that is not finite or beyond +-2^53, which no reader keeps")
    sparse = hasattr(X, "tocsr")
    X = X.tocsr().astype(np.float32) if sparse else np.asarray(X)
    if X.ndim != 2 or y.shape != (X.shape[0],):
        raise ValueError(f"X of shape {X.shape} and y of shape {y.shape}: expected (m, d) and (m,)")
    if sparse:
        X.sum_duplicates()
    write = _write_lines(X, y, base, sparse)
    if os.fspath(path) == "-":
        sys.stdout.writelines(write)
        return
    check_folder(path)
    path = Path(path)
    opener = _OPENERS.get(path.suffix.lower(), open)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".tmp", suffix=path.suffix)
    try:
        os.close(handle)
        if opener is gzip.open:
            # No name and no time in the header: equal data give equal bytes.
            with (
                open(temporary, "wb") as raw,
                gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
                io.TextIOWrapper(packed, "ascii", newline="\n") as out,
            ):
                out.writelines(write)
        else:
            with opener(temporary, "wt", encoding="ascii", newline="\n") as out:
                out.writelines(write)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _decimals(values):
    """Shortest decimal text of each float32 that reads back as the same float32 (by way of double)."""
    texts = values.astype("U32")
    wrong = np.flatnonzero((texts.astype(np.float64).astype(np.float32) != values) & ~np.isnan(values))
    texts[wrong] = np.char.mod("%.9g", values[wrong])
    return [text.removesuffix(".0") for text in texts.tolist()]


def _write_lines(X, y, base, sparse, block=1024):
    """The file's lines; values are turned into text by blocks of rows, which is where the time goes."""
    for first in range(0, X.shape[0], block):
        rows = min(block, X.shape[0] - first)
        if sparse:
            span = slice(X.indptr[first], X.indptr[first + rows])
            row = np.repeat(np.arange(rows), np.diff(X.indptr[first : first + rows + 1]))
            column, values = X.indices[span], X.data[span]
            present = np.flatnonzero(values)
            row, column, values = row[present], column[present], values[present]
        else:
            part = np.asarray(X[first : first + rows], np.float32)
            row, column = np.nonzero(part)
            values = part[row, column]
        pairs = zip((column + base).tolist(), _decimals(values), strict=True)
        entries = [f" {index}:{value}" for index, value in pairs]
        stops = np.searchsorted(row, np.arange(rows + 1)).tolist()
        for i in range(rows):
            label = y[first + i]
            label = int(label) if y.dtype.kind in "bui" else format(float(label), ".17g")
            yield f"{label}{''.join(entries[stops[i] : stops[i + 1]])}\n"
