"""Rows in blocks, for out-of-core training: reads labels, and values or bins."""

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymcboost._kernels import bins as _bins
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.comm import row_numbers
from pymcboost.data.binning import MOST_CODES, Bins, cuts_between
from pymcboost.data.coded import CodedRows
from pymcboost.data.rows import WeightedRows
from pymcboost.data.scrambling import scrambled
from pymcboost.data.shared_bins import bin_rows
from pymcboost.model.categories import MOST_LEVELS, columns_of, is_frame
from pymcboost.model.categories import find as find_categories
from pymcboost.model.columns import (
    in_order,
    names_of,
    refuse_dates,
    refuse_no_rows,
    refuse_repeated_names,
    wrong_value,
)
from pymcboost.model.rows import as_numpy, is_lists_of_labels, joined, own_labels
from pymcboost.threads import available_memory, in_words, share_of_memory

# Number of bytes of a block that are processed at once.
PIECE = 1 << 24
# Limits of the sample from which bins are computed: its numbers, and its rows.
MOST_NUMBERS = 1 << 26
FEWEST_SAMPLED = 1 << 14
MOST_SAMPLED = 1 << 18
# Key that scrambles row numbers to draw the sample.
SEED = 1
# The kernels number rows in 32 bits.
MOST_ROWS = 2**31 - 1


class Blocks:
    """Rows in blocks, which can be read several times; for parameters see `Dataset.from_blocks`."""

    def __init__(self, source, categorical_features=None):
        if isinstance(source, Iterator):
            raise TypeError(
                "from_blocks: an iterator can be read only once; give a list, or the function "
                "that creates the iterator"
            )
        if not callable(source) and not isinstance(source, Iterable):
            raise TypeError(
                "from_blocks: the source must be an iterable or a function, not "
                f"{type(source).__name__}"
            )
        self.source = source
        self.categorical_features = categorical_features

    def read(self):
        """Start one pass over the blocks."""
        source = self.source() if callable(self.source) else self.source
        return _Reading(source, self.categorical_features)

    def read_again(self, first):
        """Make another pass; raise an error at its end if the rows differ from the ``first`` pass."""
        again = self.read()
        yield from again
        if again.sums() != first.sums():
            raise ValueError(
                f"the blocks changed between two passes ({again.n_rows} rows after "
                f"{first.n_rows}); the source must give the same rows in the same order every "
                "time. A generator is empty on the second pass: give the function that "
                "creates it"
            )


@dataclass(frozen=True)
class JoinedRows:
    """The rows of all blocks of a worker.

    Attributes
    ----------
    X : ndarray of float32 (n, d), or CodedRows
    y : ndarray (n,) or (n, K)
    weight : ndarray of float64 (n,), or None
    init_score : ndarray (n,) or (n, K), or None
    head : array or frame
        The first row as it came.
    categories : Categories or None
    sample : ndarray of float32 (m, d)
        Rows that the bins come from.
    bins : Bins, optional
        Bins of X, if it is `CodedRows`.
    """

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    init_score: np.ndarray | None
    head: Any
    categories: Any
    sample: np.ndarray
    bins: Bins | None = None


def joined_rows(blocks, *, max_bins, comm, n_threads):
    """Read the rows of `Blocks`: their values if there are few, otherwise their bins.

    The first pass gives labels, weights and a sample of the rows, from which bins are computed; the second pass gives
    the codes. Several workers first read only the labels, because the sample depends on the global row numbers.
    """
    first = blocks.read()
    y, weight, init_score, sample = _read_first(first, comm)
    if _is_numbered(comm):
        sample = Sample(row_numbers(comm, first.n_rows))
        for X, *_ in blocks.read_again(first):
            sample.add(X)
    values = sample.of_all(first.n_features, comm)
    levels = first.levels_of_all(comm)
    categories = _categories(levels, first)
    rows = JoinedRows(
        values,
        y,
        weight,
        init_score=init_score,
        head=first.head,
        categories=categories,
        sample=values,
    )
    if sample.has_all:
        return rows
    weight = np.ones(len(values)) if weight is None else weight[sample.places]
    if not comm.maximum(np.array([weight.max(initial=0.0)]))[0]:
        raise ValueError(
            "from_blocks: all rows that were sampled to determine the bins have a sample_weight of 0; "
            "leave out the rows of weight 0"
        )
    bins = _bins_of_sample(values, weight, max_bins, levels, comm, n_threads)
    has_missing = comm.maximum(first.has_missing.astype(np.int64))
    dtype = np.uint8 if (bins.n_bins + has_missing).max(initial=0) <= MOST_CODES else np.uint16
    _check_memory(first, dtype, comm)
    codes = aligned_zeros((first.n_features, first.n_rows), dtype)
    bins = _coded(blocks.read_again(first), bins, codes, comm, n_threads)
    return replace(rows, X=CodedRows(bins), bins=bins)


def _read_first(first, comm):
    """Labels, weights, initial scores and, for a single worker, a sample from the first pass."""
    labels = []
    weights = []
    scores = []
    sample = Sample()
    for X, y, weight, init_score in first:
        labels.append(y.copy())  # a copy, because it may be a column of its block, which is freed
        weights += [] if weight is None else [weight.copy()]
        scores += [] if init_score is None else [init_score.copy()]
        if not _is_numbered(comm):
            sample.add(X)
    if first.n_features is None or (comm.size == 1 and not first.n_rows):
        remedy = ""
        if comm.size > 1:
            remedy = (
                "; a worker without rows must give an empty block with the columns of the others"
            )
        raise ValueError(f"from_blocks: the blocks have no rows{remedy}")
    y = joined(labels) if labels else first.no_labels
    weight = None
    if first.weighted:
        weight = np.concatenate([np.zeros(0), *weights])
    init_score = None
    if first.no_scores is not None:
        init_score = np.concatenate([first.no_scores, *scores])
    return y, weight, init_score, sample


def _is_numbered(comm):
    """Whether row numbers depend on more than this worker's rows."""
    return comm.size > 1 or comm.row_number is not None


class Sample:
    """Sample of the rows, for the bins: all rows, or those with the smallest scrambled numbers.

    Parameters
    ----------
    number : ndarray of int, optional
        Global row numbers, if they differ from the positions of the rows.

    Attributes
    ----------
    has_all : bool
        Whether these are all rows.
    places : ndarray of int (m,)
        Positions of the rows among the rows of this worker.
    """

    def __init__(self, number=None):
        self.has_all = True
        self._number = number
        self._n_rows = 0
        self._halvings = 0
        self._parts = []
        self._places = []

    def add(self, X):
        """Consider more rows for the sample. Selected rows are copied."""
        self._parts.append(X)
        self._places.append(np.arange(self._n_rows, self._n_rows + len(X)))
        self._n_rows += len(X)
        self._drop([len(self._parts) - 1])
        while self._size() > most_rows(X.shape[1]):
            self._halve()

    def of_all(self, n_features, comm):
        """Finish the sample: all workers reduce it equally. Return the rows of this worker, (m, d) float32."""
        halvings = int(comm.maximum(np.array([self._halvings]))[0])
        while self._halvings < halvings:
            self._halve()
        while comm.sum(np.array([self._size()]))[0] > most_rows(n_features):
            self._halve()
        self.has_all = not self._halvings
        values = np.concatenate([np.zeros((0, n_features), dtype=np.float32), *self._parts])
        self.places = np.concatenate([np.zeros(0, dtype=np.int64), *self._places])
        self._parts = []
        self._places = []
        return values

    def _size(self):
        return sum(map(len, self._places))

    def _halve(self):
        self._halvings += 1
        self._drop(range(len(self._parts)))

    def _drop(self, parts):
        """Keep the rows of these parts whose scrambled numbers are small enough."""
        for part in parts:
            X = self._parts[part]
            places = self._places[part]
            if self._halvings:
                number = places if self._number is None else self._number[places]
                limit = np.uint64(1) << np.uint64(64 - self._halvings)
                is_taken = scrambled(number, SEED) < limit
                X = X[is_taken]
                places = places[is_taken]
            self._parts[part] = X.copy()
            self._places[part] = places


def most_rows(n_features):
    """Maximum number of rows in the sample."""
    return max(FEWEST_SAMPLED, min(MOST_SAMPLED, MOST_NUMBERS // max(1, n_features)))


def _categories(levels, first):
    """`Categories` of the requested columns, from the codes that occur in the blocks."""
    if not levels:
        return None
    most_levels = max([1, *map(len, levels.values())])
    example = np.full((most_levels, first.n_features), np.nan, dtype=np.float32)
    for f, codes in levels.items():
        example[: len(codes), f] = codes
    return find_categories(sorted(levels), example)


def _bins_of_sample(values, weight, max_bins, levels, comm, n_threads):
    """`Bins` of the sampled rows; categorical columns have a bin for every level."""
    rows = np.flatnonzero(weight > 0)
    sample = WeightedRows(values, rows, weight[rows], comm=comm, exact=True)
    bins = bin_rows(sample, max_bins, n_threads)
    low = [*bins.low]
    high = [*bins.high]
    n_bins = np.maximum(bins.n_bins, 1)
    for f in np.flatnonzero(bins.n_bins == 0).tolist():  # all values in the sample are missing
        low[f] = np.zeros(1, dtype=np.float32)
        high[f] = low[f]
    for f, codes in levels.items():
        low[f] = codes.astype(np.float32)
        high[f] = low[f]
        n_bins[f] = max(1, len(codes))
    cuts = [cuts_between(*ends) for ends in zip(low, high, strict=True)]
    levels = {f: codes.astype(np.int64) for f, codes in levels.items()}
    return replace(
        bins,
        cuts=cuts,
        low=low,
        high=high,
        n_bins=n_bins,
        distinct=n_bins.astype(np.int64),
        levels=levels,
    )


def _check_memory(first, dtype, comm):
    """Refuse codes that would not fit into memory together with their copies for a training."""
    needed = 3 * first.n_rows * first.n_features * np.dtype(dtype).itemsize
    room, free = share_of_memory(available_memory(), comm.beside)
    if room is not None and needed > room:
        raise MemoryError(
            f"the bins of {first.n_rows} rows and {first.n_features} features take about {in_words(needed)}; {free}. "
            "Use fewer rows or features, or a machine with more memory"
        )


def _coded(reading, bins, codes, comm, n_threads):
    """Fill ``codes`` (d, n) with the codes of all rows of a pass; return ``bins`` with them, and with new counts."""
    d, n_rows = codes.shape
    counts = np.zeros((d, int(bins.n_bins.max(initial=0)) + 1), dtype=np.int64)
    cuts = np.concatenate([*bins.cuts, np.zeros(1, dtype=np.float32)])
    start = np.concatenate(([0], np.cumsum([len(column) for column in bins.cuts]))).astype(np.int64)
    begin = 0
    for X, *_ in reading:
        part = np.empty((d, len(X)), dtype=codes.dtype)
        _bins.code_columns(X, np.arange(len(X)), cuts, start, part, counts, n_threads)
        codes[:, begin : begin + len(X)] = part[:, : max(0, n_rows - begin)]
        begin += len(X)
    comm.sum(counts)
    missing = counts[np.arange(d), bins.n_bins]
    mode = counts.argmax(axis=1).astype(np.int32)
    mode_rows = counts.max(axis=1)
    return replace(bins, codes=codes, missing=missing, mode=mode, mode_rows=mode_rows)


class _Reading:
    """One pass over the blocks: checks them, and yields (X, y, sample_weight or None, init_score or None) in pieces."""

    def __init__(self, source, categorical_features):
        self.source = source
        self.categorical_features = categorical_features
        self.levels = {}
        if not isinstance(source, Iterable) and not hasattr(source, "__getitem__"):
            raise TypeError(
                "from_blocks: the function must return or yield blocks, not "
                f"{type(source).__name__}"
            )
        self.n_rows = 0
        self.n_features = None
        self.head = None
        self.names = None
        self.weighted = None
        self.no_labels = None
        self.no_scores = None
        self.crc = [0, 0, 0, 0]
        self.kinds = {}

    def levels_of_all(self, comm):
        """Codes that occur in categorical columns on any worker: float64, by column."""
        return {
            f: np.unique(comm.concatenate(codes.astype(np.float64)))
            for f, codes in self.levels.items()
        }

    def sums(self):
        """Values that differ if the rows differ: sizes, names and a checksum."""
        return self.n_rows, self.n_features, self.names, self.crc

    def __iter__(self):
        for number, block in enumerate(self.source):
            try:
                yield from self._pieces(block)
            except ValueError as error:
                raise ValueError(f"block {number}: {error}") from error

    def _pieces(self, block):
        """Check a block, and yield it in pieces."""
        X, y, weight, init_score = self._parts(block)
        step = max(1, len(y)) if names_of(X) else max(1, PIECE // max(1, 8 * X.shape[1]))
        for begin in range(0, len(y), step):
            rows = slice(begin, begin + step)
            values = self._values(X if step == len(y) else X[rows])
            arrays = (
                values,
                y[rows],
                None if weight is None else weight[rows],
                None if init_score is None else init_score[rows],
            )
            for i, array in enumerate(arrays):
                if array is not None:
                    self.crc[i] = zlib.crc32(_bytes(array), self.crc[i])
            self.has_missing |= np.isnan(values).any(axis=0)
            for f, levels_so_far in self.levels.items():
                column = values[:, f]
                self.levels[f] = np.union1d(levels_so_far, column[~np.isnan(column)])
                if len(self.levels[f]) > MOST_LEVELS:
                    raise ValueError(
                        f"column {f} has more than {MOST_LEVELS} levels; leave it out, or merge rare levels"
                    )
            self.n_rows += len(values)
            if self.n_rows > MOST_ROWS:
                raise ValueError(
                    f"there are more than {MOST_ROWS:,} rows, the limit of one worker; give fewer, or divide "
                    "them among workers (comm)"
                )
            yield arrays

    def _parts(self, block):
        """Unpack X, y, weights and initial scores of a block, and check that shapes and names match other blocks."""
        if not isinstance(block, (tuple, list)) or len(block) not in (2, 3, 4):
            raise ValueError(
                "it must be (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
                f"init_score), not {type(block).__name__}"
            )
        X, y, weight, init_score = (*block, None, None)[:4]
        if hasattr(X, "tocsr"):
            raise ValueError(
                "X is sparse; give X.toarray(), or pass all rows to fit as one sparse matrix"
            )
        refuse_dates(X)
        X = self._columns(X)
        y, y_kind = _labels(y)
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        init_score = None if init_score is None else _init_scores(init_score, len(X))
        y_fits = y.ndim in (1, 2) and len(y) == len(X)
        if not y_fits or (weight is not None and weight.shape != (len(X),)):
            shapes = [y.shape] if weight is None else [y.shape, weight.shape]
            raise ValueError(f"X has {len(X)} rows, but y and the weights have shapes {shapes}")
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("y holds NaN or an infinite value; leave out these rows")
        self.weighted = weight is not None
        self.no_labels = y[:0].copy()
        self.no_scores = None if init_score is None else init_score[:0].copy()
        scores_kind = "no init_score"
        if init_score is not None:
            per_row = math.prod(init_score.shape[1:])
            scores_kind = f"an init_score of {per_row} numbers a row"
        self._alike("scores", scores_kind)
        self._alike("weights", "sample_weight" if self.weighted else "no sample_weight")
        if len(y):
            self._alike("y", y_kind)
        return X, y, weight, init_score

    def _alike(self, part_name, kind):
        """Refuse a part of a block that is of another kind than in the first block."""
        first = self.kinds.setdefault(part_name, kind)
        if first != kind:
            raise ValueError(
                f"it has {kind}, but the first block has {first}; all blocks must be alike"
            )

    def _columns(self, X):
        """X as an array, or as a frame with its columns in the order of the first block."""
        refuse_no_rows(X)
        refuse_repeated_names(X)
        names = names_of(X)
        if is_frame(X) and find_categories("from_dtype", X) is not None:
            raise ValueError(
                "X has columns of categories or text; replace them by integer codes, and give "
                "the column numbers as categorical_features"
            )
        if names is None and not isinstance(X, np.ndarray):
            array = np.asarray(as_numpy(X))
            nullable = array.dtype.kind == "O" and hasattr(X, "iloc")
            X = X.to_numpy(object, na_value=np.nan) if nullable else array
        if len(X.shape) != 2:
            raise ValueError(f"X must be two-dimensional, but has shape {X.shape}")
        if self.n_features is None:
            self._begin_with(X, names)
        if (names is None) != (self.names is None):
            raise ValueError(
                "X is a data frame in some blocks and an array in others; use one type for all"
            )
        X = X if names is None else in_order(X, lambda: self.names)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the first block has {self.n_features}"
            )
        if self.head is None or not len(self.head):
            if hasattr(X, "iloc"):
                self.head = X.iloc[:1].copy()
            elif names is None:
                self.head = np.array(X[:1])
            else:
                self.head = X[:1]
        return X

    def _begin_with(self, X, names):
        """Take the number and names of the columns, and the categorical ones, from the first block."""
        self.n_features = X.shape[1]
        self.names = names
        self.has_missing = np.zeros(X.shape[1], dtype=bool)
        if self.categorical_features is not None:
            columns = columns_of(self.categorical_features, X, X.shape[1], frame=is_frame(X))
            self.levels = {f: np.zeros(0, dtype=np.float32) for f in columns.tolist()}

    def _values(self, X):
        """Convert a block to float32; refuse anything that is not a number."""
        try:
            values = np.asarray(X)
            if values.dtype.kind not in "biufO":
                raise ValueError(f"X must hold numbers, not {values.dtype}")
            if values.dtype.kind == "O" and hasattr(X, "iloc"):
                values = X.to_numpy(np.float64, na_value=np.nan)
            elif values.dtype.kind == "O":
                values = values.astype(np.float64)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(wrong_value(X) or error) from error
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(values, dtype=np.float32)
        bad = np.isinf(values)
        if bad.any():
            row, column = np.unravel_index(int(bad.argmax()), bad.shape)
            shown = column if self.names is None else repr(self.names[column])
            raise ValueError(
                f"row {self.n_rows + row} (from 0, over all blocks), column {shown}: the value "
                "is infinite or beyond the float32 range; clip or rescale the column, and use "
                "NaN for missing values"
            )
        return values


def _init_scores(init_score, n_rows):
    """Initial scores of a block as float32 or float64, (n,) or (n, K)."""
    scores = np.asarray(init_score)
    if scores.dtype != np.float32:
        scores = scores.astype(np.float64)
    if scores.ndim not in (1, 2) or len(scores) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but init_score has shape {scores.shape}")
    return scores


def _labels(y):
    """Labels of a block as an array with one element per row, and their kind in words."""
    if is_lists_of_labels(y):
        return np.fromiter(map(tuple, y), dtype=object, count=len(y)), "lists of labels"
    y = np.asarray(y.toarray() if hasattr(y, "toarray") else own_labels(y))
    if y.ndim == 2 and y.shape[1] != 1:
        return y, f"an indicator of {y.shape[1]} columns"
    y = y.ravel() if y.ndim == 2 else y
    is_text = y.dtype.kind in "SU"
    if y.dtype.kind == "O":
        is_text = any(isinstance(label, str) for label in y.flat)
    return y, "labels of text" if is_text else "labels that are numbers"


def _bytes(array):
    """Bytes of an array, for a checksum."""
    return repr(array.tolist()).encode() if array.dtype.kind == "O" else np.ascontiguousarray(array)
