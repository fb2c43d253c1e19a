"""Training data of decision stumps: columns binned or sorted once per training, in layouts for scans."""

from typing import Any

import numpy as np

from pymcboost.data.binning import bin_dense, sort_dense, sort_sparse
from pymcboost.data.divided import bin_divided
from pymcboost.data.divided_sparse import list_bins
from pymcboost.data.rows import SMALL_DATA, TrainingRows, layout, with_missing_threshold
from pymcboost.data.stump_layouts import Lists, Sorted, Tiles
from pymcboost.data.stump_scans import Scan, SummedScan

__all__ = ["SMALL_DATA", "DividedData", "TrainingData", "layout"]

# If a bin has at least this share of the rows, only the other rows of the column are stored.
SKEWED = 0.6


class TrainingData(TrainingRows):
    """`TrainingRows` with their features in the layouts in which stumps are searched.

    Attributes
    ----------
    stores : list of StumpLayout

    Parameters
    ----------
    bins : SharedBins, optional
        Bins of all rows of dense X, which include these rows. Small data get their own bins.
    """

    # The class that scans the stores, and whether sums of weights are exact in any order.
    scan: Any = Scan
    exact = False
    # Whether columns of small data with more values than bins are searched exactly.
    sorts = True

    def __init__(
        self, X, y, n_classes, sample_weight, *, max_bins=256, n_threads=1, bins=None, **options
    ):
        super().__init__(
            X, y, n_classes, sample_weight, n_threads=n_threads, exact=self.exact, **options
        )
        if self.is_sparse:
            self.stores = self._sparse_stores(max_bins, n_threads)
        else:
            self.stores = self._dense_stores(
                self._bins(bins, max_bins, n_threads), max_bins, n_threads
            )

    def store_bytes(self, X, n_threads):
        """Bytes of the columns in their layout, while it is made."""
        m, d = X.shape
        if self.is_sparse:
            return X.nnz * 24 + 16 * min(d, X.nnz)
        per_entry = 2 if self.dtype == np.float32 else 13
        return m * d * per_entry + 1100 * d + m * (60 + 50 * n_threads)

    @property
    def n_entries(self):
        """Numbers read by one scan of the data for one block of classes; it determines the number of threads."""
        return sum(store.n_entries for store in self.stores)

    def _split_missing(self, n_missing, weight_of):
        """Whether each column's missing values may be split from all others; both sides must be heavy enough."""
        allowed = (n_missing > 0) & (n_missing < self.total_rows)
        if self.least_weight > 0:
            for f in np.flatnonzero(allowed):
                weight = weight_of(f)
                allowed[f] = min(weight, self.total_weight - weight) >= self.least_weight
        return allowed

    def _weight_of(self, rows):
        """Total weight of rows over all workers."""
        return self.comm.sum(self.weight[rows].sum(keepdims=True))[0]

    def _bins(self, shared, max_bins, n_threads):
        """`Bins` of dense columns: those of all rows, if they are shared and the data are not small."""
        if shared is None or (self.dtype == np.float64 and shared.keeps_values):
            return bin_dense(self, max_bins, n_threads)
        bins = shared.of(self, n_threads)
        if self.least_weight > 0:
            return bins.bounded(self.weight, self.least_weight, self.comm)
        return bins

    def _dense_stores(self, bins, max_bins, n_threads):
        """Put each useful column into the layout that is fastest for it."""
        m = self.total_rows
        has_missing = bins.missing > 0
        all_bins = bins.n_bins + has_missing
        split_missing = self._split_missing(
            bins.missing, lambda f: self._weight_of(bins.codes[f] == bins.n_bins[f])
        )
        useful = (bins.n_bins > 1) | split_missing
        exact = useful & bins.lossy(max_bins) & (self.dtype == np.float64) & self.sorts
        skewed = useful & ~exact & (bins.mode_rows >= SKEWED * m) & (m >= 64)
        tiled = useful & ~exact & ~skewed
        missing_code = _missing_code(has_missing, split_missing)

        def thresholds_of(f):
            return with_missing_threshold(bins.cuts[f].copy(), has_missing[f])

        stores = []
        if tiled.any():
            features = np.flatnonzero(tiled)
            stores.append(
                Tiles.of(
                    bins.codes,
                    features,
                    all_bins,
                    missing_code=missing_code,
                    thresholds_of=thresholds_of,
                    n_threads=n_threads,
                    total_rows=m,
                )
            )
        if skewed.any():
            features = np.flatnonzero(skewed)
            stores.append(
                Lists.of(
                    bins.codes,
                    features,
                    bins.mode,
                    others=self._others(bins),
                    all_bins=all_bins,
                    missing_code=missing_code,
                    thresholds_of=thresholds_of,
                    n_threads=n_threads,
                )
            )
        if exact.any():
            features = np.flatnonzero(exact)
            presorted = sort_dense(self, features, self.least_weight, n_threads)
            stores.append(_sorted(presorted, features, split_missing[features]))
        return stores

    def _others(self, bins):
        """Number of this worker's rows outside the most frequent bin of every column."""
        return self.n_rows - bins.mode_rows

    def _sparse_stores(self, max_bins, n_threads):
        features, presorted = sort_sparse(self, self.least_weight, n_threads)
        split_missing = self._split_missing(
            presorted.n_missing, lambda f: self._weight_of(presorted.missing_rows(f))
        )
        useful = np.flatnonzero((presorted.cuts.count > 0) | split_missing)
        if not len(useful):
            return []
        return [_sorted(presorted.of(useful), features[useful], split_missing[useful])]


class DividedData(TrainingData):
    """`TrainingData` for rows divided among workers: stumps are found by exact sums over all of them.

    Columns are binned, also in small data. Sparse columns have the same bins as in dense form, computed only from the
    rows of this training. Rows that are stored as bins keep their bins.
    """

    scan = SummedScan
    exact = True
    sorts = False

    def store_bytes(self, X, n_threads):
        """Bytes of the columns in their layout, while it is made."""
        if self.is_sparse:
            return X.nnz * 96 + 1100 * min(X.shape[1], X.nnz)
        return super().store_bytes(X, n_threads)

    def _bins(self, shared, max_bins, n_threads):
        if shared is not None and not shared.keeps_values:
            return super()._bins(shared, max_bins, n_threads)
        if self.comm.size == 1:
            return super()._bins(None, max_bins, n_threads)
        return bin_divided(self, max_bins, n_threads)

    def _others(self, bins):
        columns = zip(bins.codes, bins.mode, strict=True)
        return np.array([np.count_nonzero(codes != mode) for codes, mode in columns])

    def _sparse_stores(self, max_bins, n_threads):
        bins = list_bins(self, max_bins)
        n_bins = np.array([len(column_cuts) + 1 for column_cuts in bins.cuts], dtype=np.int32)
        has_missing = bins.missing > 0
        split_missing = self._split_missing(bins.missing, lambda f: bins.missing_weight[f])
        useful = (n_bins > 1) | split_missing
        skewed = bins.usual_rows >= SKEWED * self.total_rows
        thresholds = list(map(with_missing_threshold, bins.cuts, has_missing))
        by_column = {
            "all_bins": n_bins + has_missing,
            "missing_code": _missing_code(has_missing, split_missing),
            "thresholds": thresholds,
        }
        tiled = np.flatnonzero(useful & ~skewed)
        listed = np.flatnonzero(useful & skewed)
        stores = []
        if len(tiled):
            stores.append(
                Tiles.of_entries(
                    bins,
                    tiled,
                    **by_column,
                    n_threads=n_threads,
                    n_rows=self.n_rows,
                    total_rows=self.total_rows,
                )
            )
        if len(listed):
            stores.append(Lists.of_entries(bins, listed, **by_column))
        return stores


def _missing_code(has_missing, split_missing):
    """Codes for the ``missing`` field of `Tiles`."""
    return np.where(has_missing, np.where(split_missing, 1, 2), 0).astype(np.uint8)


def _sorted(presorted, features, split_missing):
    """Layout of sorted columns, only for ``features``."""
    thresholds = list(map(with_missing_threshold, presorted.cuts, presorted.n_missing))
    return Sorted(
        feature=features.astype(np.int32),
        thresholds=thresholds,
        ptr=presorted.ptr,
        order=presorted.order,
        n_missing=presorted.n_missing,
        default_at=presorted.default_at,
        split_missing=split_missing.astype(np.uint8),
    )
