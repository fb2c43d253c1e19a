"""Training data, checked, sorted by class and presorted or binned once per training."""

from dataclasses import dataclass

import numpy as np

from pymcboost._kernels import bins as _bins
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.threads import available_memory, in_words

# Gradients of up to this many numbers are small data: they are kept in float64, and searched exactly in presorted
# order, so that weights and repeated rows give the same model. Larger ones are float32, and searched by histogram.
SMALL_DATA = 1 << 15
# Columns with at least this share of rows in one bin are listed without them.
SKEWED = 0.6
# Columns share a byte only where the histogram work saved outweighs the summing down.
BUNDLE_ROWS = 512
LARGEST_THRESHOLD = np.finfo(np.float32).max


def layout(n_columns):
    """How the columns of a gradient are held: lanes of a block (4, 8 or 16), and number of blocks."""
    lanes = 4 if n_columns <= 4 else 8 if n_columns <= 8 else 16
    return lanes, -(-n_columns // lanes)


@dataclass(frozen=True)
class Tiles:
    """Bin codes in tiles of 4 bytes per row; a byte holds one or more columns (slots) in mixed radix."""

    codes: np.ndarray
    byte_cells: np.ndarray
    byte_ptr: np.ndarray
    stride: np.ndarray
    bins: np.ndarray
    missing: np.ndarray
    feature: np.ndarray
    thresholds: list


@dataclass(frozen=True)
class Lists:
    """Skewed columns: rows outside the most frequent bin, and their codes."""

    ptr: np.ndarray
    rows: np.ndarray
    codes: np.ndarray
    mode: np.ndarray
    bins: np.ndarray
    missing: np.ndarray
    feature: np.ndarray
    thresholds: list


@dataclass(frozen=True)
class Sorted:
    """Presorted columns, dense or sparse."""

    ptr: np.ndarray
    order: np.ndarray
    n_missing: np.ndarray
    default_at: np.ndarray
    split_missing: np.ndarray
    feature: np.ndarray
    thresholds: list


class TrainingData:
    """Rows with positive weight, sorted by class, and their features in the form the weak learners scan.

    Parameters
    ----------
    X : ndarray (n, d) float32 or float64, or scipy.sparse matrix
        Features; NaN is a missing value. Values are rounded to float32 once; one that is infinite then is an error.
    y : ndarray of int (n,)
        Class codes 0..n_classes-1.
    n_classes : int
    sample_weight : ndarray of float64 (n,)
        Non-negative; rows of weight 0 are dropped before thresholds are formed. Equal weights become 1; others, where
        their mean is below 1/1024 or above 1024, are divided by the power of two next to it.
    max_bins : int, default=256
        Most bins per column (2 to 256), missing values included.
    min_weight_fraction_leaf : float, default=0
        Share of the total weight that must lie on either side of every split.
    n_threads : int, default=1

    Attributes
    ----------
    rows : ndarray of int64 (m,)
        Rows of X in use, sorted by class.
    class_start : ndarray of int64 (n_classes + 1,)
        First position of each class in ``rows``.
    weight : ndarray of float64 (m,)
    weight_unit : float
        What a sample weight of 1 has become.
    least_weight : float
        The least sum of ``weight`` on either side of a split.
    lanes, n_blocks : int
        Classes per block of the gradient (4, 8 or 16) and number of blocks.
    dtype : numpy dtype of the gradient
    stores : list of Tiles, Lists and Sorted
    """

    def __init__(self, X, y, n_classes, sample_weight, *, max_bins=256, min_weight_fraction_leaf=0.0, n_threads=1):
        keep = np.flatnonzero(sample_weight > 0)
        self.rows = keep[np.argsort(y[keep], kind="stable")].astype(np.int64)
        self.y = np.ascontiguousarray(y[self.rows], dtype=np.int32)
        self.weight, self.weight_unit = _moderate(np.ascontiguousarray(sample_weight[self.rows], dtype=np.float64))
        self.n_classes = n_classes
        self.n_rows = len(self.rows)
        self.n_features = X.shape[1]
        self.class_start = np.searchsorted(self.y, np.arange(n_classes + 1)).astype(np.int64)
        self.lanes, self.n_blocks = layout(n_classes)
        size = self.n_rows * self.lanes * self.n_blocks
        self.dtype = np.dtype(np.float64 if size <= SMALL_DATA else np.float32)
        self.X = X
        self._check_memory(X, size * self.dtype.itemsize, n_threads)
        # The tiny deduction keeps rounding of the sums from refusing a split that is just allowed.
        self.least_weight = min_weight_fraction_leaf * self.weight.sum() * (1 - 1e-9)
        self._prepare(X, max_bins, n_threads)

    def _prepare(self, X, max_bins, n_threads):
        """Bring the columns into the form that is scanned."""
        if hasattr(X, "tocsc"):
            self.stores = self._sparse_stores(X, n_threads)
        else:
            self.stores = self._dense_stores(X, max_bins, n_threads)

    def _check_memory(self, X, gradient_bytes, n_threads):
        """Refuse before anything large is taken: what the stores and two gradients need while they are made."""
        room, needed = available_memory(), self._store_bytes(X, n_threads) + 2 * gradient_bytes
        if room is not None and needed > room:
            raise MemoryError(
                f"training on {X.shape[0]} rows, {X.shape[1]} features and {self.n_classes} classes needs about "
                f"{in_words(needed)} ({in_words(2 * gradient_bytes)} of it for weights); {in_words(room)} are free. "
                "Use fewer rows or features, or a machine with more memory"
            )

    def _store_bytes(self, X, n_threads):
        """Bytes of the columns in the form that is scanned, while it is made."""
        m, d = X.shape
        if hasattr(X, "tocsc"):
            return X.nnz * 24 + 16 * d
        per_entry = 2 if self.dtype == np.float32 else 10
        return m * d * per_entry + 1100 * d + n_threads * m * 80

    def gradient_buffer(self, n_columns=None):
        """Aligned zeros (n_blocks, m, lanes) for a gradient or weights of that many columns, one per class if None."""
        lanes, n_blocks = layout(self.n_classes if n_columns is None else n_columns)
        return aligned_zeros((n_blocks, self.n_rows, lanes), self.dtype)

    @property
    def n_entries(self):
        """Numbers touched by one scan of the data for one class block: the measure of work for choosing threads."""
        return sum(store.codes.size if not isinstance(store, Sorted) else store.order.size for store in self.stores)

    def _refuse_infinite(self, bad, rows=None):
        columns = np.flatnonzero(bad >= 0)
        if len(columns):
            column = columns[0]
            row = self.rows[bad[column]]
            raise ValueError(
                f"X[{row}, {column}] is infinite or beyond the float32 range (+-{LARGEST_THRESHOLD:.4g}); features "
                "must be finite as float32. Clip or rescale the column; use NaN for a missing value"
            )

    def _split_missing(self, n_missing, missing_rows):
        """Whether the missing values of each column may be split from all others: both sides must weigh enough."""
        allowed = (n_missing > 0) & (n_missing < self.n_rows)
        if self.least_weight > 0:
            for f in np.flatnonzero(allowed):
                weight = self.weight[missing_rows(f)].sum()
                allowed[f] = min(weight, self.weight.sum() - weight) >= self.least_weight
        return allowed

    @staticmethod
    def _missing_in(columns, f):
        part = slice(columns.indptr[f], columns.indptr[f + 1])
        return columns.indices[part][np.isnan(columns.data[part])]

    def _bin_columns(self, X, max_bins, n_threads):
        """Bin all columns.

        Returns codes (d, m), cuts (d, 255) and, for every column, value bins, distinct values, missing rows, mode and
        its rows.
        """
        m, d = self.n_rows, X.shape[1]
        codes = np.empty((d, m), dtype=np.uint8)
        cuts = np.empty((d, 255), dtype=np.float32)
        n_bins, mode = np.empty(d, dtype=np.int32), np.empty(d, dtype=np.int32)
        distinct, missing, mode_rows, bad = (np.empty(d, dtype=np.int64) for _ in range(4))
        first = self.weight[0]
        uniform = bool((self.weight == first).all())
        weight, least = (self.weight[:0], self.least_weight / first) if uniform else (self.weight, self.least_weight)
        _bins.bin_columns(
            X, self.rows, weight, max_bins, least, codes, cuts, n_bins, distinct, missing, mode, mode_rows,
            bad, n_threads,
        )  # fmt: skip
        self._refuse_infinite(bad)
        return codes, cuts, n_bins, distinct, missing, mode, mode_rows

    def _dense_stores(self, X, max_bins, n_threads):
        m = self.n_rows
        codes, cuts, n_bins, distinct, missing, mode, mode_rows = self._bin_columns(X, max_bins, n_threads)
        has_missing = missing > 0
        all_bins = n_bins + has_missing
        split_missing = self._split_missing(missing, lambda f: np.isnan(X[self.rows, f]))
        useful = (n_bins > 1) | split_missing
        lossy = distinct > max_bins - has_missing
        exact = useful & lossy & (self.dtype == np.float64)
        skewed = useful & ~exact & (mode_rows >= SKEWED * m) & (m >= 64)
        tiled = useful & ~exact & ~skewed

        def thresholds_of(f):
            return _with_missing(cuts[f, : n_bins[f] - 1].copy(), has_missing[f])

        missing_code = np.where(has_missing, np.where(split_missing, 1, 2), 0).astype(np.uint8)

        stores = []
        if tiled.any():
            stores.append(self._tiles(codes, np.flatnonzero(tiled), all_bins, missing_code, thresholds_of, n_threads))
        if skewed.any():
            features = np.flatnonzero(skewed)
            ptr = np.concatenate(([0], np.cumsum(m - mode_rows[features])))
            rows, listed = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1], dtype=np.uint8)
            _bins.list_others(codes, features, mode[features], ptr, rows, listed, n_threads)
            stores.append(
                Lists(
                    ptr.astype(np.int64), rows, listed, mode[features], all_bins[features].astype(np.int32),
                    missing_code[features], features.astype(np.int32), [thresholds_of(f) for f in features],
                )
            )  # fmt: skip
        if exact.any():
            stores.append(self._presorted(X, np.flatnonzero(exact), split_missing, n_threads))
        return stores

    def _tiles(self, codes, features, all_bins, missing_code, thresholds_of, n_threads):
        byte_slots = _bundle(features, all_bins) if self.n_rows >= BUNDLE_ROWS else [[f] for f in features]
        n_tiles = -(-len(byte_slots) // 4)
        byte_slots += [[]] * (4 * n_tiles - len(byte_slots))
        order = [f for slots in byte_slots for f in slots]
        bins = all_bins[order].astype(np.int32)
        byte_ptr = np.concatenate(([0], np.cumsum([len(slots) for slots in byte_slots]))).astype(np.int32)
        stride = np.ones(len(order), dtype=np.int32)
        cells = np.ones(4 * n_tiles, dtype=np.int32)
        for byte in range(4 * n_tiles):
            for s in range(byte_ptr[byte], byte_ptr[byte + 1]):
                stride[s] = cells[byte]
                cells[byte] *= bins[s]
        tiles = np.zeros((n_tiles, self.n_rows, 4), dtype=np.uint8)
        feature = np.array(order, dtype=np.int32)
        _bins.pack_tiles(codes, feature, stride, byte_ptr, tiles, n_threads)
        return Tiles(
            tiles, cells, byte_ptr, stride, bins, missing_code[order], feature, [thresholds_of(f) for f in order]
        )

    def _presorted(self, X, features, split_missing, n_threads):
        m, c = self.n_rows, len(features)
        order = np.empty((c, m), dtype=np.int32)
        cuts = np.empty((c, m), dtype=np.float32)
        n_cuts, n_missing = np.empty(c, dtype=np.int64), np.empty(c, dtype=np.int64)
        _bins.sort_columns(
            X,
            self.rows,
            features.astype(np.int64),
            self.weight,
            self.least_weight,
            order,
            cuts,
            n_cuts,
            n_missing,
            n_threads,
        )
        thresholds = [_with_missing(cuts[s, : n_cuts[s]].copy(), n_missing[s]) for s in range(c)]
        ptr = np.arange(c + 1, dtype=np.int64) * m
        return Sorted(
            ptr, order.ravel(), n_missing, np.full(c, -1, dtype=np.int64), split_missing[features].astype(np.uint8),
            features.astype(np.int32), thresholds,
        )  # fmt: skip

    def _sort_sparse(self, X, least, n_threads):
        """The used rows as CSC without stored zeros, and what `sort_sparse_columns` finds."""
        columns = X.tocsr()[self.rows].astype(np.float32, copy=False).tocsc()
        columns.sum_duplicates()
        columns.eliminate_zeros()
        d, nnz = self.n_features, columns.nnz
        order = np.empty(nnz, dtype=np.int32)
        cuts = np.empty(nnz + d, dtype=np.float32)
        n_cuts, n_missing, default_at, bad = (np.empty(d, dtype=np.int64) for _ in range(4))
        _bins.sort_sparse_columns(
            columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False), columns.data, self.weight,
            least, order, cuts, n_cuts, n_missing, default_at, bad, n_threads,
        )  # fmt: skip
        self._refuse_infinite(bad)
        return columns, order, cuts, n_cuts, n_missing, default_at

    def _sparse_stores(self, X, n_threads):
        columns, order, cuts, n_cuts, n_missing, default_at = self._sort_sparse(X, self.least_weight, n_threads)
        d, indptr = self.n_features, columns.indptr.astype(np.int64)
        split_missing = self._split_missing(n_missing, lambda f: self._missing_in(columns, f))
        features = np.flatnonzero((n_cuts > 0) | split_missing)
        lengths = np.diff(indptr)[features]
        ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        if len(features) < d:
            used = np.zeros(d, dtype=bool)
            used[features] = True
            order = order[np.repeat(used, np.diff(indptr))]
        thresholds = [_with_missing(cuts[indptr[f] + f : indptr[f] + f + n_cuts[f]], n_missing[f]) for f in features]
        if not len(features):
            return []
        return [
            Sorted(
                ptr, order, n_missing[features], default_at[features], split_missing[features].astype(np.uint8),
                features.astype(np.int32), thresholds,
            )
        ]  # fmt: skip


def _moderate(weight):
    """Weights brought near 1, and the factor: equal ones to 1, others that are far from it by a power of two.

    A power of two changes no bit of their ratios.
    """
    if (weight == weight[0]).all() and np.isfinite(weight[0]):
        with np.errstate(over="ignore"):
            return np.ones(len(weight)), float(np.minimum(1 / weight[0], np.finfo(np.float64).max))
    mean = float((weight / len(weight)).sum())
    if not np.isfinite(mean):
        raise ValueError("the sample weights, times the class weights, sum to infinity; divide them by a constant")
    if mean < np.finfo(np.float64).tiny:  # it has lost digits, or all of them
        exponent = np.frexp(np.ldexp(weight, 1074).mean())[1] - 1074
    else:
        exponent = np.frexp(mean)[1]
    if -10 <= exponent <= 10:
        return weight, 1.0
    with np.errstate(over="ignore"):
        unit = float(np.minimum(np.ldexp(1.0, -exponent), np.finfo(np.float64).max))
    return np.ldexp(weight, -exponent), unit


def _with_missing(thresholds, n_missing):
    """Missing values can also be split from all others: by the largest threshold there is."""
    return np.append(thresholds, LARGEST_THRESHOLD) if n_missing else thresholds


def _bundle(features, n_bins):
    """Groups of columns whose bins multiply to at most 256 cells, largest first."""
    bytes_, cells = [], []
    start = 0
    for f in sorted(features, key=lambda f: (-n_bins[f], f)):
        size = int(n_bins[f])
        while start < len(bytes_) and cells[start] * 2 > 256:
            start += 1
        for b in range(start, len(bytes_)):
            if cells[b] * size <= 256:
                bytes_[b].append(f)
                cells[b] *= size
                break
        else:
            bytes_.append([f])
            cells.append(size)
    return bytes_
