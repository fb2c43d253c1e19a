"""Bins shared by several trainings: made once for all rows; each training takes the bins of its own rows."""

import threading

import numpy as np

from pymcboost.data.binning import bin_dense, bin_exactly
from pymcboost.data.divided import bin_divided
from pymcboost.data.rows import WeightedRows, by_class


def bin_rows(data, max_bins, n_threads, *, small=False, categorical=()):
    """Compute `Bins` of the dense columns of ``data`` (`WeightedRows`), for trees.

    Columns of ``categorical`` codes have a bin for every code; in ``small`` data, every column has a bin for every
    distinct value.
    """
    if data.comm.size > 1:
        bins = bin_divided(data, max_bins, n_threads, small, categorical)
    else:
        bins = bin_dense(data, max_bins, n_threads)
        is_categorical = np.isin(np.arange(data.n_features), categorical)
        exact = (bins.lossy(max_bins) & small) | (is_categorical & (bins.n_bins < bins.distinct))
        if exact.any():
            bins = bin_exactly(data, bins, np.flatnonzero(exact), n_threads)
    return bins.with_levels({int(f): _levels(data, f) for f in categorical})


def _levels(data, f):
    """Codes that occur in a categorical column on any worker."""
    codes = np.unique(data.comm.concatenate(np.unique(data.X[data.rows, f]).astype(np.float64)))
    return codes[~np.isnan(codes)].astype(np.int64)


class SharedBins:
    """Bins of dense columns over all rows with positive sample weight.

    They are made when a training first asks for them. Class weights and rows that are held out do not move their cuts.

    Parameters
    ----------
    X : ndarray (n, d)
    codes : ndarray of int (n,) or (n, K)
        Classes of the rows, or an indicator of their labels.
    weight : ndarray of float64 (n,)
        Sample weights. Bins of columns with more distinct values than ``max_bins`` have about equal sums of these.
    max_bins : int
        Most bins of a column, missing values included.
    n_threads : int
    categorical : sequence of int
        Columns of X that hold codes of categories.
    comm : object
        Communicator of the workers among which the rows are divided.
    """

    # Whether the feature values of the rows are available, too.
    keeps_values = True

    def __init__(self, X, codes, weight, *, max_bins, n_threads, categorical, comm):
        self._X = X
        self._weight = weight
        self._comm = comm
        self._y = codes if codes.ndim == 1 else np.zeros(len(codes), dtype=np.int8)
        self._max_bins = max_bins
        self._n_threads = n_threads
        self._categorical = categorical
        self._lock = threading.Lock()
        self._bins = None

    @classmethod
    def of_coded_rows(cls, bins, comm):
        """Create the object for rows of which only the bins are stored, in the order of the rows."""
        shared = object.__new__(cls)
        shared.keeps_values = False
        shared._comm = comm
        shared._bins = bins
        shared._lock = threading.Lock()
        shared._position = np.arange(bins.codes.shape[1])
        shared._rows = None
        shared._total_rows = None
        return shared

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state):
        vars(self).update(state, _lock=threading.Lock())

    def of(self, data, n_threads):
        """`Bins` of the rows of ``data`` (`TrainingRows`), all of which have a positive sample weight."""
        self.make(data.rows)
        if data.total_rows == self._total_rows and np.array_equal(data.rows, self._rows):
            return self._bins
        return self._bins.taken(self._position[data.rows], self._comm, n_threads)

    def make(self, known_rows=None):
        """Bin all rows, unless already done. If they are the rows ``known_rows``, that array is stored."""
        with self._lock:
            if self._bins is None:
                self._make(known_rows)

    def _make(self, known_rows):
        """Bin all rows with positive weight; see `make`."""
        rows = by_class(self._y, self._weight)
        if np.array_equal(rows, known_rows):  # one array instead of two
            rows = known_rows
        data = WeightedRows(self._X, rows, self._weight[rows], comm=self._comm, exact=True)
        m, d = self._X.shape
        data.refuse_large(
            binning_bytes(m, d, self._n_threads), f"a data set of {m} rows and {d} features"
        )
        self._bins = bin_rows(data, self._max_bins, self._n_threads, categorical=self._categorical)
        self._rows = rows
        self._total_rows = data.total_rows
        self._position = np.empty(len(self._weight), dtype=np.int64)
        self._position[rows] = np.arange(len(rows))


def binning_bytes(m, d, n_threads):
    """Temporary memory for binning m rows of d columns, in bytes."""
    return m * d + 2200 * d + m * (20 + 50 * n_threads)
