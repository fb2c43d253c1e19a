"""Rows that come in blocks, more of them than the memory holds: read twice, and kept in a file."""

import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pymcboost.data.mapped import PIECE, mapped
from pymcboost.model.categories import find, is_frame
from pymcboost.model.columns import in_order, names_of, refuse_dates, refuse_no_rows, refuse_repeated_names, wrong_value
from pymcboost.model.rows import joined, names_labels, own, own_labels

# The kernels number rows in 32 bits.
MOST_ROWS = 2**31 - 1


class Chunks:
    """Rows in blocks, for data that do not fit in memory: what ``fit`` takes in place of X and y.

    The blocks are read twice. Their features are written to a file without a name in ``folder``, as float32, and what
    training makes of them to others: about 6 bytes for every row and feature. The files go with the training, however
    it ends. The model is that of the same rows in memory, byte for byte, however they are divided.

    Parameters
    ----------
    source : iterable or callable
        Blocks (X, y) or (X, y, sample_weight): arrays, memory maps or data frames; X without categories of type
        category, y in any form that ``fit`` takes, the same in all blocks. A list, or another object that can be gone
        through twice; or a function without arguments that begins anew whenever it is called, such as a generator
        function.
    folder : path, default=None
        Where the files are, best on a fast disk; by default that of temporary files.

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.data import Chunks
    >>> def blocks():
    ...     for part in range(4):
    ...         X = np.random.default_rng(part).normal(size=(500, 3))
    ...         yield X, X.sum(axis=1) > 0
    >>> VectorTreeBoostClassifier(n_estimators=10, random_state=0).fit(Chunks(blocks)).n_features_in_
    3
    """

    def __init__(
        self, source: Iterable[Any] | Callable[[], Iterable[Any]], folder: str | os.PathLike[str] | None = None
    ) -> None:
        if isinstance(source, Iterator):
            raise TypeError("Chunks: an iterator can be read once; give a list, or the function that makes it")
        if not callable(source) and not isinstance(source, Iterable):
            raise TypeError(f"Chunks: the source must be an iterable or a function, not {type(source).__name__}")
        self.source, self.folder = source, tempfile.gettempdir() if folder is None else os.fspath(folder)
        if not os.path.isdir(self.folder):
            raise NotADirectoryError(f"Chunks: the folder {self.folder!r} does not exist; make it, or give another one")

    def gathered(self, several: bool = False) -> tuple[Any, Any, Any, Any]:
        """X in a file, y, the weights or None, and the first row as it came: a tuple.

        One of ``several`` workers may have no rows, in blocks that tell its columns.
        """
        first = _Reading(self)
        labels, weights = [], []
        for _, y, weight in first:
            labels.append(y.copy())  # it may be a column of its block, which goes
            weights += [] if weight is None else [weight.copy()]
        if not first.n_rows:
            if several and first.n_features is not None:
                weight = np.zeros(0) if first.weighted else None
                return np.zeros((0, first.n_features), dtype=np.float32), first.no_labels, weight, first.head
            remedy = "; a worker without rows gives a block of none, with its columns" if several else ""
            raise ValueError(f"Chunks: the blocks have no rows{remedy}")
        y = joined(labels)
        weight = np.concatenate(weights) if weights else None
        again, at = _Reading(self), 0
        X = mapped((first.n_rows, first.n_features), np.float32, self.folder, order="F")
        for part, _, _ in again:
            if at + len(part) <= len(X) and part.shape[1] == X.shape[1]:
                X[at : at + len(part)] = part
            at += len(part)
        if again.sums() != first.sums():
            raise ValueError(
                f"Chunks: the second reading gave other rows than the first ({again.n_rows} rows after "
                f"{first.n_rows}); the source must give the same ones in the same order. A generator gives none the "
                "second time: give the function that makes it"
            )
        return X, y, weight, first.head


class _Reading:
    """One pass over the blocks: checks them, and yields (X, y, sample_weight or None) in pieces."""

    def __init__(self, chunks):
        self.source = source = chunks.source() if callable(chunks.source) else chunks.source
        if not isinstance(source, Iterable) and not hasattr(source, "__getitem__"):
            raise TypeError(f"Chunks: the function must return or yield blocks, not {type(source).__name__}")
        self.n_rows, self.n_features, self.head, self.names = 0, None, None, None
        self.weighted, self.no_labels, self.crc, self.kinds = None, None, [0, 0, 0], {}

    def sums(self):
        """What tells other rows."""
        return self.n_rows, self.n_features, self.names, self.crc

    def __iter__(self):
        for number, block in enumerate(self.source):
            try:
                yield from self._pieces(block)
            except ValueError as error:
                raise ValueError(f"Chunks: block {number}: {error}") from error

    def _pieces(self, block):
        X, y, weight = self._parts(block)
        step = max(1, len(y)) if names_of(X) else max(1, PIECE // max(1, 8 * X.shape[1]))
        for begin in range(0, len(y), step):
            rows = slice(begin, begin + step)
            values = self._values(X if step == len(y) else X[rows])
            given = values, y[rows], None if weight is None else weight[rows]
            for i, array in enumerate(given):
                if array is not None:
                    self.crc[i] = zlib.crc32(_bytes(array), self.crc[i])
            self.n_rows += len(values)
            if self.n_rows > MOST_ROWS:
                raise ValueError(f"there are more than {MOST_ROWS} rows, the most that a training takes")
            yield given

    def _parts(self, block):
        """X, y and weights of a block, of the shapes and names of the others."""
        if not isinstance(block, (tuple, list)) or len(block) not in (2, 3):
            raise ValueError(f"it must be (X, y) or (X, y, sample_weight), not {type(block).__name__}")
        X, y, weight = (*block, None)[:3]
        if hasattr(X, "tocsr"):
            raise ValueError("X is sparse; give X.toarray(), or all rows as one sparse matrix to fit")
        refuse_dates(X)
        X = self._columns(X)
        y, kind = _labels(y)
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        if y.ndim not in (1, 2) or len(y) != len(X) or (weight is not None and weight.shape != (len(X),)):
            sizes = [len(X), *(part.shape for part in (y, weight) if part is not None)]
            raise ValueError(f"X has {sizes[0]} rows, y and the weights have the shapes {sizes[1:]}")
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("y holds NaN or an infinite value; leave these rows out")
        self.weighted, self.no_labels = weight is not None, y[:0].copy()
        self._alike("weights", "sample_weight" if self.weighted else "no sample_weight")
        if len(y):
            self._alike("y", kind)
        return X, y, weight

    def _alike(self, what, kind):
        first = self.kinds.setdefault(what, kind)
        if first != kind:
            raise ValueError(f"it has {kind}, the first block has {first}; all must be alike")

    def _columns(self, X):
        """X as an array, or as a frame with its columns in the order of the first block's."""
        refuse_no_rows(X)
        refuse_repeated_names(X)
        names = names_of(X)
        if is_frame(X) and find("from_dtype", X) is not None:
            raise ValueError(
                "X has columns of categories or text; give their codes, and their numbers as categorical_features"
            )
        if names is None and not isinstance(X, np.ndarray):
            array = np.asarray(own(X))
            nullable = array.dtype.kind == "O" and hasattr(X, "iloc")
            X = X.to_numpy(object, na_value=np.nan) if nullable else array
        if len(X.shape) != 2:
            raise ValueError(f"X must be two-dimensional, but has shape {X.shape}")
        if self.n_features is None:
            self.n_features, self.names = X.shape[1], names
        if (names is None) != (self.names is None):
            raise ValueError("X is a data frame in some blocks and an array in others; give one of them")
        X = X if names is None else in_order(X, lambda: self.names)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} columns, the first block has {self.n_features}")
        if self.head is None or not len(self.head):
            self.head = X.iloc[:1].copy() if hasattr(X, "iloc") else np.array(X[:1]) if names is None else X[:1]
        return X

    def _values(self, X):
        """Float32 of a block, refusing what is no number."""
        try:
            values = np.asarray(X)
            if values.dtype.kind not in "biufO":
                raise ValueError(f"X must hold numbers, not {values.dtype}")
            if values.dtype.kind == "O":
                values = X.to_numpy(np.float64, na_value=np.nan) if hasattr(X, "iloc") else values.astype(np.float64)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(wrong_value(X) or error) from error
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(values, dtype=np.float32)
        bad = np.isinf(values)
        if bad.any():
            row, column = np.unravel_index(int(bad.argmax()), bad.shape)
            shown = column if self.names is None else repr(self.names[column])
            raise ValueError(
                f"row {self.n_rows + row} (from 0, of all blocks), column {shown}: the value is infinite or beyond the "
                "float32 range; clip or rescale the column, use NaN for a missing value"
            )
        return values


def _labels(y):
    """Labels of a block as an array with a row for each of its rows, and what they are."""
    if names_labels(y):
        return np.fromiter(map(tuple, y), dtype=object, count=len(y)), "lists of labels"
    y = np.asarray(y.toarray() if hasattr(y, "toarray") else own_labels(y))
    if y.ndim == 2 and y.shape[1] != 1:
        return y, f"an indicator of {y.shape[1]} columns"
    y = y.ravel() if y.ndim == 2 else y
    text = y.dtype.kind in "SU" or (y.dtype.kind == "O" and any(isinstance(label, str) for label in y.flat))
    return y, "labels of text" if text else "labels that are numbers"


def _bytes(array):
    """What a checksum is taken of."""
    return repr(array.tolist()).encode() if array.dtype.kind == "O" else np.ascontiguousarray(array)
