"""Text files that may be compressed, by their suffix: .gz, .bz2 or .xz. Damaged or trailing data is an error."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import sys
import zlib
from functools import partial
from pathlib import Path

FORMATS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz"}
# First bytes of formats that cannot be read.
OTHER = {
    b"(\xb5/\xfd": "a zstd archive; decompress it, as zstd -d does",
    b"PK\x03\x04": "a zip archive; extract the file first",
    b"]\0\0": "a .lzma archive; decompress it, as xz -d does",
    b"7z\xbc\xaf": "a 7z archive; extract the file first",
    b"\xff\xfe": "UTF-16 text; convert it, as iconv -f UTF-16 -t UTF-8 does",
    b"\xfe\xff": "UTF-16 text; convert it, as iconv -f UTF-16 -t UTF-8 does",
    b"PAR1": "a Parquet file; its name must end in .parquet, or give --format parquet",
}
DAMAGES = EOFError, zlib.error, lzma.LZMAError
BLOCK = 1 << 16
# Number of bytes of a line that are read at once.
PART = 1 << 24


class _Streams(io.RawIOBase):
    """Concatenated content of all compressed streams of a file.

    `bz2.open` and `lzma.open` take damage at the start of a later stream for the end of the file, and lose the rest.
    """

    def __init__(self, path, decompressor):
        self._file = open(path, "rb", buffering=0)
        self._new = decompressor
        self._stream = decompressor()
        self._rest = b""

    def readable(self):
        return True

    def readinto(self, view):
        """Fill a part of a buffer; return the number of bytes, 0 at the end."""
        while len(view) and (not self._stream.eof or self._next_stream()):
            if self._stream.needs_input and not self._rest:
                self._rest = self._file.read(BLOCK)
                if not self._rest:
                    raise EOFError("it ends in the middle of a stream")
            data = self._stream.decompress(self._rest, len(view))
            self._rest = b""
            if data:
                view[: len(data)] = data
                return len(data)
        return 0

    def _next_stream(self):
        """Start the next stream, after padding of zeros; return whether there is one."""
        rest = self._stream.unused_data.lstrip(b"\0")
        while not rest:
            block = self._file.read(BLOCK)
            if not block:
                return False
            rest = block.lstrip(b"\0")
        self._stream = self._new()
        self._rest = rest
        return True

    def close(self):
        self._file.close()
        super().close()


def suffix_of(path):
    """Compression suffix of a file name: .gz, .bz2 or .xz; otherwise an empty string."""
    suffix = Path(os.fsdecode(path)).suffix.lower()
    return suffix if suffix in MAGIC.values() else ""


def other_format(start, name=None):
    """Describe a file that is not text by its first bytes, and say what to do; None if it may be text.

    ``name`` is the file's name, if the reader decompresses files by their suffix.
    """
    for magic, suffix in MAGIC.items():
        if start.startswith(magic):
            remedy = f"its name must end with {suffix}"
            if name in (None, "<stdin>"):
                remedy = "unpack it first, as with gzip -dc"
            return f"this is compressed data; {remedy}"
    for magic, description in OTHER.items():
        if start.startswith(magic):
            return f"this is {description}"
    return None


def open_text(path):
    """Open text: (binary stream, name for messages, number of bytes or 0 if unknown, whether to close it)."""
    name = os.fsdecode(path)
    if name == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise OSError(
                9, "standard input is closed or not a byte stream; name a file instead", "<stdin>"
            )
        return stream, "<stdin>", 0, False
    suffix = suffix_of(name)
    if suffix == ".gz":
        return gzip.open(name, "rb"), name, 0, True
    if suffix == ".bz2":
        return _Streams(name, bz2.BZ2Decompressor), name, 0, True
    if suffix == ".xz":
        return _Streams(name, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)), name, 0, True
    stream = open(name, "rb", buffering=0)
    return stream, name, os.fstat(stream.fileno()).st_size, True


@contextlib.contextmanager
def buffered(stream):
    """Buffered reader of a stream from `open_text`.

    It is detached at the end, because closing it would close the stream.
    """
    if not isinstance(stream, io.RawIOBase):
        yield stream
        return
    reader = io.BufferedReader(stream)
    try:
        yield reader
    finally:
        reader.detach()


def next_line(lines, check):
    """Read the next line of `buffered`; ``check`` gets the length of a long line so far, and may raise an error."""
    parts = [lines.readline(PART)]
    while len(parts[-1]) == PART and not parts[-1].endswith(b"\n"):
        check(PART * len(parts))
        parts.append(lines.readline(PART))
    return b"".join(parts) if len(parts) > 1 else parts[0]


def is_other_data(path):
    """Whether the first bytes of a file are not those of its compression suffix."""
    suffix = suffix_of(path)
    if not suffix or not os.path.isfile(path):
        return False
    magic = next(magic for magic, suffix_of_magic in MAGIC.items() if suffix_of_magic == suffix)
    with open(path, "rb") as file:
        start = file.read(len(magic))
    return not magic.startswith(start)


def damage(path, error):
    """Reason why reading a file failed, if the error means a damaged archive; otherwise None."""
    if isinstance(error, DAMAGES):
        return str(error)
    # Errors of the system have a number; errors of gzip and bz2 have none.
    if isinstance(error, OSError) and error.errno is None and suffix_of(path):
        return str(error)
    return None


@contextlib.contextmanager
def packed_text(file, path):
    """Open a text stream into a descriptor, compressed by the suffix of the name; equal text gives equal bytes."""
    suffix = suffix_of(path)
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(open(file, "wb", closefd=False))
        if suffix == ".gz":  # no name or time in the header
            raw = stack.enter_context(gzip.GzipFile("", "wb", 9, raw, mtime=0))
        elif suffix == ".bz2":
            raw = stack.enter_context(bz2.BZ2File(raw, "wb"))
        elif suffix == ".xz":
            raw = stack.enter_context(lzma.LZMAFile(raw, "wb"))
        yield stack.enter_context(io.TextIOWrapper(raw, "ascii", newline="\n"))
