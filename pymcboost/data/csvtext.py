"""Comma-separated values with a header: numbers as features, one column of labels."""

import contextlib
import csv
import io
import re
from typing import NamedTuple

import numpy as np

from pymcboost.data import archives
from pymcboost.data.svmlight import SvmlightError, intact
from pymcboost.model.categories import MISSING

# As many digits as int() takes in any Python.
WHOLE = re.compile(r"\s*([+-]?\d{1,600})(?:\.0*)?\s*")


class CsvError(SvmlightError):
    """A CSV file that cannot be read; the message names file, line, column and remedy."""


class CsvData(NamedTuple):
    """What `csv_blocks` yields.

    Attributes
    ----------
    X : float32 ndarray (m, d)
        Float64 where that was asked for.
    y : ndarray of str objects (m,)
        Labels as they are written, "" where there is none.
    labelled : bool ndarray (m,)
    names : list of str
        Of the features.
    label : str or None
        Name of the column of labels.
    texts : dict of int to list
        Values of the features that are read as text, as they are written; they are 0 in X.
    """

    X: np.ndarray
    y: np.ndarray
    labelled: np.ndarray
    names: list
    label: str | None
    texts: dict


def csv_blocks(path, choose, as_text=None, wide=False, size=None):
    """Yield the rows of a file as `CsvData`.

    Parameters
    ----------
    path : str
        As for `load_svmlight`.
    choose : callable
        Takes the names of the columns; returns those of the features, in their order, and that of the labels or None.
    as_text : callable, optional
        Takes the names of the features; returns the places of those to read as text.
    wide : bool, default=False
        Do not round to float32.
    size : int, optional
        Rows at once; None: all.
    """
    stream, name, _, ours = archives.open_text(path)
    try:
        with archives.buffered(stream) as lines, _text(lines) as text, intact(name):
            yield from _blocks(csv.reader(text, skipinitialspace=True, strict=True), name, choose, as_text, wide, size)
    except csv.Error as error:
        raise CsvError(
            f"{name}: {error}; a quote may not be closed, or be followed by text: write it twice inside of quotes"
        ) from None
    except UnicodeDecodeError as error:
        raise CsvError(f"{name}: {error}; expected comma-separated values in UTF-8") from None
    finally:
        if ours:
            stream.close()


@contextlib.contextmanager
def _text(lines):
    text = io.TextIOWrapper(lines, encoding="utf-8-sig", newline="")
    try:
        yield text
    finally:
        text.detach()


def _blocks(lines, name, choose, as_text, wide, size):
    head = [column.strip() for column in next(lines, [])]
    if not any(head) or len(set(head)) < len(head):
        twice = next((column for column in head if head.count(column) > 1), None)
        what = f"the column name {twice!r} occurs twice"
        what = what if any(head) else "there is no line with the names of the columns"
        raise CsvError(f"{name}:1: {what}; the first line must name each column once")
    try:
        names, label = choose(head)
        as_text = as_text(names) if as_text else ()
    except ValueError as error:
        remedy = "" if len(head) > 1 else "; commas part columns"
        raise CsvError(f"{name}:1: {error}{remedy}") from None
    at = [head.index(own) for own in names], None if label is None else head.index(label)
    before = 0
    while found := _block(lines, name, head, at, as_text, wide, size):
        values, labels, texts = found
        before += len(values)
        y = np.array(labels, dtype=object)
        yield CsvData(np.stack(values), y, y != "", names, label, texts)
    if not before:
        raise CsvError(f"{name}: no row of data after the names of the columns")


def _block(lines, name, head, at, as_text, wide, size):
    """Values, labels and texts of the next rows; None where there are none."""
    values, labels, texts = [], [], {j: [] for j in as_text}
    (at, to_label), names = at, [head[j] for j in at[0]]
    for row in lines:
        if not row:
            continue
        if len(row) != len(head):
            raise CsvError(f"{name}:{lines.line_num}: {len(row)} values for {len(head)} columns")
        cells = [row[j] for j in at]
        for j, column in texts.items():
            column.append(cells[j].strip())
            cells[j] = "0"
        values.append(_numbers(cells, names, f"{name}:{lines.line_num}", wide))
        labels.append("" if to_label is None else row[to_label].strip())
        if len(values) == size:
            break
    return (values, labels, texts) if values else None


def _numbers(cells, names, where, wide):
    """One row of features: float32 or, where that is ``wide``, float64 (d,)."""
    try:
        numbers = np.array([float(cell.replace("_", "text")) for cell in cells])  # Python allows _ in numbers
    except ValueError:
        numbers = np.array([_number(*pair, where) for pair in zip(cells, names, strict=True)])
    with np.errstate(over="ignore"):
        row = numbers.astype(np.float32)
    beyond = np.isinf(row)
    if beyond.any():  # 1e400 is infinite as float64, too
        beyond &= ["inf" not in cell.lower() for cell in cells]
    if beyond.any():
        j = beyond.argmax()
        raise CsvError(f"{where}: column {names[j]!r}: {cells[j]} is too large for float32 (about 3.4e38); scale it")
    return numbers if wide else row


def _number(cell, column, where):
    if cell.strip().lower() in MISSING:
        return np.nan
    try:
        return float(cell.replace("_", "text"))
    except ValueError:
        raise CsvError(
            f"{where}: column {column!r} has the text {cell[:40]!r}; features must be numbers, or empty where missing. "
            f"To train, name the column in --label {column} if it has the labels, or in --categorical-features "
            f"{column} (not with hingeboost), number the values, or leave it out"
        ) from None


def whole(label):
    """The integer that a label is, else None."""
    found = WHOLE.fullmatch(label)
    return int(found[1]) if found else None
