"""LIBSVM text line by line: rows that are answered as they come, and some of the many that pass."""

import io
import random

import numpy as np

from pymcboost._kernels import svmtext
from pymcboost.data import archives
from pymcboost.data.svmlight import CompressedRows, intact, load_stream, refusal

# Most features of rows that are filled up; wider ones are compressed.
DENSE = 1 << 12
# Lines of a sample: from so many to twice as many, where there are; fewer where they have more bytes than the first
# number, and one where it must be for the second. Values of their rows.
SAMPLED, FEWEST_SAMPLED, SAMPLED_BYTES, MOST_BYTES, SAMPLED_VALUES = 256, 16, 1 << 22, 1 << 26, 1 << 23


class Lines:
    """Rows of a file, each as soon as its line is there.

    Parameters
    ----------
    path : str
        As for `load_svmlight`.
    n_features : int
        Features beyond are left out.
    base : {0, 1}
        Number of the first feature.
    wide : bool, default=False
        Rows are float64 and dense.

    Attributes
    ----------
    name : str
        Of the file, for messages.
    number : int
        Of the line that was read last.
    beyond : bool
        Whether a row had features beyond.
    """

    def __init__(self, path, n_features, base, wide=False):
        self._wide = wide
        self._stream, self.name, _, self._ours = archives.open_text(path)
        self._n_features, self._base = n_features, base
        self.number, self.beyond = 0, False
        self._room(1 << 12)

    def _room(self, length):
        self._length, n = length, length // 2 + 1
        self._parts = [np.empty(length // 4 + 1, dtype) for dtype in (np.int32, np.float32)]
        self._parts += [np.zeros(n + 1, np.int64), np.empty(n), np.empty(n, np.uint8)]
        self._parts.append(np.empty(length // 4 + 1) if self._wide else None)

    def __iter__(self):
        """Yield each row (1, n_features), an array or `CompressedRows`, and its label or None."""
        try:
            with archives.buffered(self._stream) as lines, intact(self.name):
                for line in iter(lines.readline, b""):
                    self.number += 1
                    found = self._row(line)
                    if found is not None:
                        yield found
        finally:
            if self._ours:
                self._stream.close()

    def _row(self, line):
        if self.number == 1 and line.startswith(b"\xef\xbb\xbf"):
            line = b"   " + line[3:]
        line += b"" if line.endswith(b"\n") else b"\n"
        if len(line) > self._length:
            self._room(2 * len(line))
        scanner = svmtext.Scanner(self._base, self._base)
        text = line + bytes(svmtext.PADDING)
        code = scanner.feed(text, len(line), *self._parts)
        if code != "ok":
            raise refusal(self.name, code, scanner, text, self.number - 1)
        if not scanner.rows:
            return None
        indices, values, _, labels, labelled, wide = self._parts
        values = values if wide is None else wide
        n, d = scanner.nnz, self._n_features
        if n and indices[n - 1] >= d:
            n, self.beyond = int(np.searchsorted(indices[:n], d)), True
        label = labels[0].item() if labelled[0] else None
        if d > DENSE and wide is None:
            return CompressedRows(values[:n], indices[:n], np.array([0, n], np.int32), (1, d)), label
        row = np.zeros((1, d), values.dtype)
        row[0, indices[:n]] = values[:n]
        return row, label


class LineSample:
    """Lines of a text, spread over what has passed of it."""

    def __init__(self):
        self._lines, self._gap, self._random = [], 0, random.Random(0)
        self._done = self._next = 0  # bytes that have passed, and the place of the next line to take
        self._size = 0  # bytes of the lines

    def take(self, text, length):
        """Let bytes pass that are whole lines."""
        while self._next < self._done + length:
            at = self._next - self._done
            begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at) + 1
            self._lines.append(bytes(text[begin:end]))
            self._size += end - begin
            while len(self._lines) >= 2 * self._fewest():
                self._lines = self._lines[::2]
                self._size, self._gap = sum(map(len, self._lines)), (self._done + end) / len(self._lines)
            # At no fixed distance, which data may have, too.
            self._next = self._done + end + int(2 * self._gap * self._random.random())
        self._done += length

    def _fewest(self):
        if self._size > MOST_BYTES:
            return 1
        return SAMPLED if self._size <= SAMPLED_BYTES else FEWEST_SAMPLED

    def rows(self, n_features, base):
        """The rows of the lines, dense and not rounded (n, n_features)."""
        text = b"".join(self._lines[:: 1 + len(self._lines) * n_features // SAMPLED_VALUES])
        return load_stream(io.BytesIO(text), "", len(text), n_features, base, wide=True, lines=0)[0].X
