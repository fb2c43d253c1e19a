"""Arrays in files of their own, which the system writes to the disk and reads again as memory gets short."""

import errno
import mmap
import os
import shutil
import tempfile

import numpy as np

from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.files import write_all
from pymcboost.threads import in_words

# Bytes that are written or copied at once.
PIECE = 1 << 24


class NoRoom(OSError):
    """A folder has no room for a file."""


class Mapped(np.ndarray):
    """An array in a file that has no name: it goes with the array, whatever ends the process."""

    folder: str | None = None

    def __array_finalize__(self, obj):
        self.folder = getattr(obj, "folder", None)


def mapped(shape, dtype, folder, order="C"):
    """Zeros in a file in this folder; an error where it has no room for them."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile(prefix="pymcboost-", dir=folder) as file:
            reserve(file.fileno(), size)
            memory = mmap.mmap(file.fileno(), max(size, 1))
    except OSError as error:
        what = f"a file of {in_words(size)} for the columns"
        raise no_room(error, what, "give Chunks another folder", folder, folder) from error
    found = np.ndarray(shape, dtype, memory, order=order).view(Mapped)
    found.folder = folder
    return found


def no_room(error, what, remedy, folder, name):
    """The error of a file for which a folder has no room."""
    free = shutil.disk_usage(folder).free if os.path.isdir(folder) else 0
    words = f"{what} cannot be written ({error.strerror}); {in_words(free)} are free. Make room, or {remedy}"
    return NoRoom(error.errno or errno.ENOSPC, words, os.fspath(name))


def reserve(file, size):
    """Take room for a file, a descriptor: a full disk is an error here, and would end the process later."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, max(size, 1))
            return
        except OSError as error:  # musl leaves it to the file system, and some cannot
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    zeros = memoryview(bytes(PIECE))
    for begin in range(0, max(size, 1), PIECE):
        write_all(file, zeros[: max(size, 1) - begin])


def zeros_beside(array, shape, dtype):
    """Zeros that start on a cache line: in a file where ``array`` is in one, else in memory."""
    return mapped(shape, dtype, array.folder) if isinstance(array, Mapped) else aligned_zeros(shape, dtype)


def rows_of(X, rows):
    """``X[rows]``, in a file where X is in one."""
    if not isinstance(X, Mapped):
        return X[rows]
    found = mapped((len(rows), X.shape[1]), X.dtype, X.folder)
    step = max(1, PIECE // max(1, X.itemsize * X.shape[1]))
    for begin in range(0, len(rows), step):
        found[begin : begin + step] = X[rows[begin : begin + step]]
    return found


def scores_of(score, X, rows):
    """``score(X)[rows]``, floats; in pieces, and in a file where X is in one."""
    if not isinstance(X, Mapped):
        return score(X)[rows]
    step, found = max(1, PIECE // max(1, X.itemsize * X.shape[1])), None
    pieces = ScoresInPieces(score, X, rows)
    for begin in range(0, len(rows), step):
        part = pieces[begin : begin + step]
        found = mapped((len(rows), part.shape[1]), np.float64, X.folder) if found is None else found
        found[begin : begin + step] = part
    return found


class ScoresInPieces:
    """What `scores_of` gives, computed for slices of the rows as they are asked for: all of them may be gigabytes."""

    def __init__(self, score, X, rows):
        self._score, self._X, self._rows = score, X, rows

    def __getitem__(self, piece):
        part = self._X[self._rows[piece]]
        return self._score(part if hasattr(part, "tocsr") else np.ascontiguousarray(part))
