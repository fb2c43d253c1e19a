"""The journal of mcboost-tune: a CSV file with a line for every model that was measured."""

import csv
import io
import os
from typing import NamedTuple

from pymcboost import files
from pymcboost.cli.console import UsageError


class Measured(NamedTuple):
    """What is known of the model of one fold."""

    error: float
    log_loss: float
    rounds: int
    seconds: float


class MeasuredLists(NamedTuple):
    """The same where rows have lists of labels: Hamming loss, cross-entropy by label, micro and macro F1."""

    error: float
    log_loss: float
    f1_micro: float
    f1_macro: float
    rounds: int
    seconds: float


class Journal:
    """Lines are added as models are done; a search that is repeated reads them again.

    Parameters
    ----------
    path : str
    options : list of str
        Options that are searched, a column each.
    measured : type, default=Measured
        Its fields are the last columns.
    """

    def __init__(self, path, options, measured=Measured):
        self.path, self.measured = path, measured
        self.head = ["setting", "fold", *options, *measured._fields]
        files.check_target(path, "journal")
        self._check()

    def _check(self):
        if not os.path.isfile(self.path) or not os.path.getsize(self.path):
            return
        with open(self.path, encoding="utf-8", errors="replace", newline="") as stream:
            try:
                head = next(csv.reader(stream), [])
            except csv.Error:
                head = []
        last = len(self.measured._fields)
        if head[:2] != self.head[:2]:
            raise UsageError(f"journal {self.path} exists and is none; name another file, or remove it")
        if head[-last:] != list(self.measured._fields):
            raise UsageError(
                f"journal {self.path} is of a search that measured other things, of one label a row or of lists of "
                "labels; name another file"
            )
        if head != self.head:
            shown = " ".join(head[2:-last])
            raise UsageError(f"journal {self.path} is of a search over {shown}; name another file")

    def open(self, setting):
        """Read what is there: a dict of (values as text, fold) to what was measured; a line cut off is dropped."""
        self.setting, done, last = setting, {}, len(self.measured._fields)
        self._stream = open(self.path, "a+b")
        self._stream.seek(0)
        data = self._stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._stream.truncate(len(whole))
        if not whole:
            self._write(self.head)
        lines = csv.reader(io.StringIO(whole.decode(errors="replace")))
        next(lines, None)
        try:
            for row in filter(None, lines):
                if row[0] != setting:
                    break
                if len(row) != len(self.head):
                    raise ValueError(f"it has {len(row)} cells and not {len(self.head)}")
                *values, rounds, seconds = row[-last:]
                found = self.measured(*map(float, values), int(rounds), float(seconds))
                done.setdefault((tuple(row[2:-last]), int(row[1])), found)
            else:
                return done
        except (ValueError, csv.Error) as error:
            raise ValueError(
                f"{self.path}:{lines.line_num}: this line is damaged ({error}); remove it, or name another file"
            ) from None
        raise ValueError(
            f"{self.path}:{lines.line_num}: this line is of another search, {row[0]!r} and not {setting!r}; "
            "name another file"
        )

    def add(self, values, fold, found):
        """Write a line, at once."""
        self._write([self.setting, fold, *values, *map(repr, found)])

    def _write(self, row):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        files.write_all(self._stream.fileno(), text.getvalue().encode())
