"""The file in which rows are kept from one training to the next: their features by column, and their labels.

The first 4096 bytes begin with ``HEAD``: a mark, the bytes of the rows and of the notes, and the checksums of both.
Then come the rows, float32 (n, d) column after column and int32 (n,), and the notes, JSON.
"""

import json
import mmap
import os
import struct
import weakref
import zlib

import numpy as np

from pymcboost import files
from pymcboost._kernels import shield as _shield
from pymcboost.data.chunks import Chunks
from pymcboost.data.mapped import PIECE, Mapped, check_unchanged, no_room, reserve
from pymcboost.threads import in_words

MARK = b"MCBROWS1"
HEAD = struct.Struct("<8sQQII")
START = 4096


class DamagedCache(ValueError):
    """A cache that is not what was written."""


class ChangedCache(ValueError):
    """A cache that others have changed while it was in use."""


class _Watch:
    """Whether a file in memory is still what was opened; others may make it shorter, see `_kernels.shield`."""

    def __init__(self, path, file, memory):
        self._path, self._file, self._shield = os.fspath(path), os.dup(file.fileno()), _shield.Shield(memory)
        weakref.finalize(self, os.close, self._file)
        self._was = self._now()

    def _now(self):
        found = os.fstat(self._file)
        return found.st_size, found.st_mtime_ns

    def check(self):
        """Raise where it has changed."""
        if self._shield.lost or self._now() != self._was:
            raise ChangedCache(
                f"the cache {self._path} was changed while it was in use: its rows are not those that the training "
                "began with; run the command again, which finds out what is wrong with it"
            )


class CachedRows(Chunks):
    """Rows of a cache as `Chunks`: nothing is read a second time."""

    def __init__(self, X, y):
        super().__init__([], X.folder)
        self._rows = X, y, None, np.array(X[:1]) if len(X) else np.zeros((1, X.shape[1]), np.float32), None

    def gathered(self, several=False, offsets=None):
        """See `Chunks`; what merges is told when the rows are read."""
        check_unchanged(self._rows[0])
        return self._rows


def write(path, n_rows, n_features, fill, notes):
    """Replace a cache: ``fill`` puts features and codes of labels into two arrays, then ``notes`` says what to note."""
    size = 4 * n_rows * (n_features + 1)
    with files.replacing(path, "cache") as file:
        try:
            reserve(file, START + size)
        except OSError as error:
            what, folder = f"the cache takes {in_words(START + size)} and", os.path.dirname(os.path.abspath(path))
            raise no_room(error, what, "name a file on another disk", folder, path) from error
        with mmap.mmap(file, START + size) as memory:
            X, codes = _arrays(memory, n_rows, n_features)
            fill(X, codes)
            del X, codes
            text = json.dumps({"rows": n_rows, "features": n_features, **notes()}).encode()
            head = HEAD.pack(MARK, size, len(text), _crc(memory, START, START + size), zlib.crc32(text))
            memory[: len(head)] = head
            memory.flush()
        os.lseek(file, START + size, os.SEEK_SET)
        files.write_all(file, text)


def opened(path):
    """Features and codes of a cache, and its notes; a `DamagedCache` where it is not as it was written."""
    with open(path, "rb") as file:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size or not head.startswith(MARK):
            raise DamagedCache("it is cut off" if MARK.startswith(head[:8]) else "it is no cache")
        _, size, length, crc, crc_of_notes = HEAD.unpack(head)
        if os.fstat(file.fileno()).st_size != START + size + length:
            raise DamagedCache("its size is not that which it names")
        # Private pages: the kernels take arrays that can be written, and the file stays.
        try:
            memory = mmap.mmap(file.fileno(), START + size + length, access=mmap.ACCESS_COPY)
        except ValueError:  # shorter than a moment ago
            raise DamagedCache("it was cut off while it was opened") from None
        watch = _Watch(path, file, memory)
    text = memory[START + size :]
    if zlib.crc32(text) != crc_of_notes:
        raise DamagedCache("the checksum of its notes differs")
    notes = json.loads(text)
    if 4 * notes["rows"] * (notes["features"] + 1) != size:
        raise DamagedCache("its size is not that of its rows")
    if _crc(memory, START, START + size) != crc:
        raise DamagedCache("the checksum of its rows differs")
    X, codes = _arrays(memory, notes["rows"], notes["features"])
    X = X.view(Mapped)
    X.folder, X.watch = os.path.dirname(os.path.abspath(path)), watch
    watch.check()
    return X, codes, notes


def is_cache(path):
    """Whether a file is there that begins as a cache does."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MARK)) == MARK
    except FileNotFoundError:
        return False


def crc_of(path):
    """Checksum of a file."""
    crc = 0
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            crc = zlib.crc32(piece, crc)
    return crc


def _arrays(memory, n, d):
    X = np.ndarray((n, d), np.float32, memory, START, order="F")
    return X, np.ndarray((n,), np.int32, memory, START + X.nbytes)


def _crc(memory, begin, end):
    crc = 0
    with memoryview(memory) as view:
        for at in range(begin, end, PIECE):
            with view[at : min(at + PIECE, end)] as piece:
                crc = zlib.crc32(piece, crc)
    return crc
