"""Multi-label LIBSVM text: `3,17,201 1:0.5 ...`. A row without labels begins with a space."""

import numpy as np

from pymcboost.data import archives

# Number of bytes of lines that are read at once.
STEP = 1 << 16
LARGEST = 2**53


class LabelLists:
    """Stream that stores the lists of labels, and puts a 0 in place of each.

    The text after the labels keeps its column numbers, for messages.

    Parameters
    ----------
    lines : binary stream
        One of `archives.buffered`.
    refuse : callable
        Makes the error of a line, a column and a reason.
    check : callable
        Gets the number of bytes read of a long line; raises an error if there is no memory for more.

    Attributes
    ----------
    lists : list of tuple of int
        Labels of the rows so far, increasing.
    """

    def __init__(self, lines, refuse, check):
        self._lines = lines
        self._refuse = refuse
        self._check = check
        self._rest = b""
        self._number = 0
        self.lists = []

    def readinto(self, buffer):
        """Fill a buffer as far as there is text; return the number of bytes."""
        if not self._rest:
            self._rest = b"".join(map(self._row, self._next_lines(min(STEP, len(buffer)))))
        part = self._rest[: len(buffer)]
        buffer[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)

    def _next_lines(self, size):
        """Yield lines of at least ``size`` bytes in total; fewer at the end."""
        while size > 0 and (line := archives.next_line(self._lines, self._check)):
            size -= len(line)
            yield line

    def _row(self, line):
        """Store the labels of a line; return the line with a 0 in their place."""
        self._number += 1
        if self._number == 1 and line.startswith(b"\xef\xbb\xbf"):
            line = b"   " + line[3:]
        first = line.partition(b"#")[0].split(None, 1)[:1]
        if not first:
            return line
        if b":" in first[0]:
            self.lists.append(())
            return line
        begin = line.index(first[0])
        size = len(first[0])
        self.lists.append(self._labels(first[0], begin + 1))
        return line[:begin] + b"0".ljust(size) + line[begin + size :]

    def _labels(self, text, column):
        """Labels in a list such as 3,17,201, which begins in this column of the line."""
        labels = []
        for part in text.split(b","):
            digits = part[1:] if part[:1] == b"-" else part
            shown = part.decode("utf-8", "backslashreplace")[:40]
            if not digits.isdigit() or len(digits) > 16 or int(digits) > LARGEST:
                reason = (
                    f"label {shown!r} is not a whole number within +-2^53; lists of labels look "
                    "like 3,17,201"
                )
                raise self._refuse(self._number, column, reason)
            if int(part) in labels:
                raise self._refuse(
                    self._number,
                    column,
                    f"label {shown} occurs twice in the list; list each label once",
                )
            labels.append(int(part))
            column += len(part) + 1
        return tuple(sorted(labels))

    def y(self):
        """The lists, as an object array (m,)."""
        y = np.empty(len(self.lists), dtype=object)
        y[:] = self.lists
        return y


def distinct_labels(lists):
    """The labels that occur in lists, ascending: int64 (K,)."""
    return np.unique(_flat(lists))


def indicator(lists, labels):
    """Indicator uint8 (m, K) of the given labels (K,), which are sorted, in lists. Other labels are ignored."""
    listed = _flat(lists)
    row = np.repeat(np.arange(len(lists)), [len(labels_of_row) for labels_of_row in lists])
    Y = np.zeros((len(lists), len(labels)), dtype=np.uint8)
    if len(labels):
        label_index = np.searchsorted(labels, listed).clip(0, len(labels) - 1)
        is_known = labels[label_index] == listed
        Y[row[is_known], label_index[is_known]] = 1
    return Y


def _flat(lists):
    return np.array([label for labels_of_row in lists for label in labels_of_row], dtype=np.int64)


def lists_of(y, n_rows):
    """Labels of every row, ascending: from lists, or from an indicator, whose columns are numbered from 0."""
    if hasattr(y, "toarray"):
        y = y.toarray()
    if not (isinstance(y, np.ndarray) and y.ndim == 2):
        try:
            label_lists = [sorted({int(label) for label in labels_of_row}) for labels_of_row in y]
            are_distinct = list(map(len, label_lists)) == list(map(len, y))
        except (TypeError, ValueError):
            label_lists = []
            are_distinct = False
        largest = max((abs(label) for row in label_lists for label in row), default=0)
        if not are_distinct or len(label_lists) != n_rows or largest > LARGEST:
            raise ValueError(
                "y must be an indicator matrix, or contain a list of labels for each of the "
                f"{n_rows} rows; labels are distinct whole numbers within +-2^53"
            )
        return label_lists
    if len(y) != n_rows or y.dtype.kind not in "buif" or not ((y == 0) | (y == 1)).all():
        raise ValueError(
            f"the indicator matrix y has shape {y.shape}; it must have {n_rows} rows and hold "
            "only 0 and 1"
        )
    return [np.flatnonzero(row).tolist() for row in y]
