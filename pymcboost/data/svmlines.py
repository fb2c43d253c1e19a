"""LIBSVM text line by line, for rows that are answered as they arrive."""

import numpy as np

from pymcboost._kernels import svmtext
from pymcboost.data import archives
from pymcboost.data.svmlight import CompressedRows, SvmlightMemoryError, intact, refusal
from pymcboost.threads import available_memory, in_words

# Maximum number of features of dense rows; wider ones are compressed.
DENSE = 1 << 12
# Bytes of memory for each byte of a long line: its copies, and the arrays of `_room`.
MEMORY_A_BYTE = 25


class Lines:
    """Rows of a file, each available as soon as its line is.

    Parameters
    ----------
    path : str
        As for `load_svmlight`.
    n_features : int
        Features beyond are left out.
    base : {0, 1}
        Number of the first feature.

    Attributes
    ----------
    name : str
        Name of the file, for messages.
    number : int
        Number of the last line read.
    beyond : bool
        Whether a row had features beyond.
    """

    def __init__(self, path, n_features, base):
        self._stream, self.name, _, self._ours = archives.open_text(path)
        self._n_features = n_features
        self._base = base
        self.number = 0
        self.beyond = False
        self._room(1 << 12)

    def _room(self, length):
        """Allocate the arrays of a row, enough for a line of this length."""
        self._length = length
        n = length // 2 + 1
        self._parts = [np.empty(length // 4 + 1, dtype) for dtype in (np.int32, np.float32)]
        self._parts += [np.zeros(n + 1, np.int64), np.empty(n), np.empty(n, np.uint8)]

    def __iter__(self):
        """Yield each row (1, n_features), an array or `CompressedRows`, and its label or None."""
        try:
            with archives.buffered(self._stream) as lines, intact(self.name):
                while line := archives.next_line(lines, self._check):
                    self.number += 1
                    row = self._row(line)
                    if row is not None:
                        yield row
        finally:
            if self._ours:
                self._stream.close()

    def _check(self, size):
        """Refuse a line of which ``size`` bytes are read if there is not enough memory for it."""
        room = available_memory()
        needed = MEMORY_A_BYTE * size
        if room is not None and needed > room:
            raise SvmlightMemoryError(
                f"{self.name}:{self.number + 1}: a line of {in_words(size)} or more needs "
                f"about {in_words(needed)} of memory and this machine has {in_words(room)}; "
                "check that the file has line breaks"
            )

    def _row(self, line):
        """Read a line: a row and its label or None; None for a line without data."""
        if self.number == 1 and line.startswith(b"\xef\xbb\xbf"):
            line = b"   " + line[3:]
        line += b"" if line.endswith(b"\n") else b"\n"
        if len(line) > self._length:
            self._room(2 * len(line))
        scanner = svmtext.Scanner(self._base, self._base)
        text = line + bytes(svmtext.PADDING)
        code = scanner.feed(text, len(line), *self._parts)
        if code != "ok":
            raise refusal(self.name, code, scanner, buffer=text, lines=self.number - 1)
        if not scanner.rows:
            return None
        indices, values, _, labels, labelled = self._parts
        n = scanner.nnz
        d = self._n_features
        if n and indices[n - 1] >= d:
            n = int(np.searchsorted(indices[:n], d))
            self.beyond = True
        label = labels[0].item() if labelled[0] else None
        if d > DENSE:
            return CompressedRows(
                values[:n], indices[:n], np.array([0, n], np.int32), shape=(1, d)
            ), label
        row = np.zeros((1, d), np.float32)
        row[0, indices[:n]] = values[:n]
        return row, label
