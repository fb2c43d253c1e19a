"""Training rows: checked, weighted and sorted by class, before they are put into a layout."""

from functools import cached_property

import numpy as np

from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import on_grid
from pymcboost.comm import ALONE, row_numbers
from pymcboost.threads import available_memory, in_words, share_of_memory

# Gradients with up to this many numbers count as small data: they are float64, and columns are sorted and searched
# exactly, so that weights and repeated rows give the same model. Larger ones are float32, and searched by histograms.
SMALL_DATA = 1 << 15
# With more weight columns than this, tables of classes and columns are processed in parts.
MANY_COLUMNS = 2048
LARGEST_THRESHOLD = np.finfo(np.float32).max
# Number of bits of the sum of all weights in integer units. So partial sums are exact in float64, too.
WHOLE_BITS = 52
# Edges with a smaller relative difference than this are ties, so that rounding does not decide between equal splits.
TIE = {np.dtype(np.float32): 1 + 2e-6, np.dtype(np.float64): 1 + 1e-10}


def layout(n_columns):
    """Layout of the columns of a gradient: lanes of a block (4, 8 or 16), and number of blocks."""
    if n_columns <= 4:
        lanes = 4
    else:
        lanes = 8 if n_columns <= 8 else 16
    return lanes, -(-n_columns // lanes)


def with_missing_threshold(cuts, has_missing):
    """Cuts of a column; with missing values, also the largest threshold, which splits them from all others."""
    return np.append(cuts, LARGEST_THRESHOLD) if has_missing else cuts


def by_class(y, weight):
    """Rows with positive weight, in the order of their class codes: int64 (m,)."""
    rows = np.flatnonzero(weight > 0)
    classes = y[rows]
    if classes.max(initial=0) < 1 << 16:
        # NumPy sorts 16-bit integers by digits, several times as fast.
        classes = classes.astype(np.uint16)
    return rows[np.argsort(classes, kind="stable")].astype(np.int64, copy=False)


class WeightedRows:
    """Some rows of X and their positive weights.

    Parameters
    ----------
    X : ndarray (n, d) float32 or float64, or scipy.sparse matrix
    rows : ndarray of int64 (m,)
    weight : ndarray of float64 (m,)
        Positive. Equal weights become 1; others, where their mean is below 1/2048, or at least 1024, are divided by
        the power of two next to it.
    comm : object, default=ALONE
        Communicator of the workers among which the rows are divided.
    exact : bool, default=False
        Weights are rounded to multiples of a power of two, so that their sums are exact in any order.
    """

    # The minimum sum of weights on each side of a cut.
    least_weight = 0.0

    def __init__(self, X, rows, weight, *, comm=ALONE, exact=False):
        self.X = X
        self.rows = rows
        self.comm = comm
        self.exact = exact
        self.n_rows = len(rows)
        self.n_features = X.shape[1]
        self.total_rows = int(comm.sum(np.array([self.n_rows]))[0])
        if exact:
            self.weight, self.weight_unit = _moderate_all(weight, comm, self.total_rows)
        else:
            self.weight, self.weight_unit = _moderate(weight)

    def refuse_large(self, needed, task):
        """Raise an error, before anything large is allocated, if the columns would temporarily need too many bytes."""
        room, free = share_of_memory(available_memory(), self.comm.beside)
        if room is not None and needed > room:
            raise MemoryError(
                f"{task} needs about {in_words(needed)} for the columns; {free}. Use fewer rows or features, or a "
                "machine with more memory"
            )

    def refuse_infinite(self, bad, features=None):
        """Refuse columns with infinite values.

        ``bad`` has, for each column (of ``features``, if given), a training row with an infinite value, or -1.
        """
        columns = np.flatnonzero(bad >= 0)
        if len(columns):
            column = columns[0] if features is None else features[columns[0]]
            row = self.rows[bad[columns[0]]]
            raise ValueError(
                f"X[{row}, {column}] is infinite or beyond the float32 range "
                f"(+-{LARGEST_THRESHOLD:.4g}); features must be finite as float32. Clip or "
                "rescale the column; use NaN for a missing value"
            )


class TrainingRows(WeightedRows):
    """Rows with positive weight, sorted by class.

    Parameters
    ----------
    X : ndarray (n, d) float32 or float64, or scipy.sparse matrix
        Features; NaN is a missing value. Values are rounded to float32 once; one that is infinite then is an error.
    y : ndarray of int (n,)
        Class codes 0..n_classes-1.
    n_classes : int
    sample_weight : ndarray of float64 (n,)
        Non-negative; rows of weight 0 are dropped before thresholds are formed. Equal weights become 1; others, where
        their mean is below 1/2048, or at least 1024, are divided by the power of two next to it.
    exact : bool, default=False
        Weights are rounded to multiples of a power of two, so that their sums are exact in any order.
    min_weight_fraction_leaf : float, default=0
        Share of the total weight that must lie on either side of every split.
    n_threads : int, default=1
    comm : object, default=ALONE
        Communicator of the workers among which the rows are divided.

    Attributes
    ----------
    rows : ndarray of int64 (m,)
        Rows of X in use, sorted by class.
    class_start : ndarray of int64 (n_classes + 1,)
        First position of each class in ``rows``.
    total_rows : int
        Rows in use of all workers.
    row_number : ndarray of int64 (m,)
        Global numbers of these rows, on which draws of rows depend.
    weight : ndarray of float64 (m,)
    weight_unit : float
        What a sample weight of 1 has become.
    total_weight : float
        Sum of the weights of all workers.
    weight_ends : tuple of float
        Least and largest weight of all workers.
    least_weight : float
        The least sum of ``weight`` on either side of a split.
    lanes, n_blocks : int
        Classes per block of the gradient (4, 8 or 16) and number of blocks.
    dtype : numpy dtype of the gradient
    """

    def __init__(
        self,
        X,
        y,
        n_classes,
        sample_weight,
        *,
        min_weight_fraction_leaf=0.0,
        n_threads=1,
        comm=ALONE,
        exact=False,
    ):
        rows = by_class(y, sample_weight)
        super().__init__(
            X, rows, sample_weight[rows].astype(np.float64, copy=False), comm=comm, exact=exact
        )
        self.y = np.ascontiguousarray(y[rows], dtype=np.int32)
        self.n_classes = n_classes
        self.row_number = rows if comm is ALONE else row_numbers(comm, len(y))[rows]
        self.class_start = np.searchsorted(self.y, np.arange(n_classes + 1)).astype(np.int64)
        self.lanes, self.n_blocks = layout(n_classes)
        size = self.total_rows * self.lanes * self.n_blocks
        self.dtype = np.dtype(np.float64 if size <= SMALL_DATA else np.float32)
        task = f"training on {X.shape[0]} rows, {X.shape[1]} features and {n_classes} classes"
        self.refuse_large(self.store_bytes(X, n_threads), task)
        self.total_weight = float(comm.sum(self.weight.sum(keepdims=True))[0])
        self.weight_ends = _least_and_largest(self.weight, comm)
        # The tiny deduction prevents rounding of the sums from refusing a split that is just allowed.
        self.least_weight = min_weight_fraction_leaf * self.total_weight * (1 - 1e-9)

    def store_bytes(self, X, n_threads):
        """Bytes of the columns in their layout, while it is made."""
        raise NotImplementedError

    @property
    def bound_scale(self):
        """Factor for bounds on weights: below 1 if the mean weight is, so that the scale of weights has no effect.

        It is 1 for equal weights, which are counted.
        """
        if self.weight_ends[0] == self.weight_ends[1]:
            return 1.0
        return min(self.weight_unit, self.total_weight / self.total_rows)

    @cached_property
    def whole_weight(self):
        """Weights in integer units, int64 (m,), whose sums are exact in any order; None if all workers' are equal."""
        least, largest = self.weight_ends
        if least == largest:
            return None
        bits = WHOLE_BITS - self.total_rows.bit_length()
        return np.rint(np.ldexp(self.weight, bits - int(np.frexp(largest)[1]))).astype(np.int64)

    @property
    def is_sparse(self):
        """Whether the features are a sparse matrix."""
        return hasattr(self.X, "tocsr")

    def gradient_buffer(self, n_columns=None):
        """`zeros` (n_blocks, m, lanes) for a gradient or weights of ``n_columns`` columns; None means one per class."""
        lanes, n_blocks = layout(self.n_classes if n_columns is None else n_columns)
        return self.zeros((n_blocks, self.n_rows, lanes), self.dtype)

    def zeros(self, shape, dtype):
        """Zeros that start on a cache line."""
        return aligned_zeros(shape, dtype)


def _moderate(weight):
    """Scale weights to about 1, and return the factor: equal weights become 1, others are scaled by a power of two.

    A power of two changes no bit of their ratios. Weights near 1 are unchanged.
    """
    if (weight == weight[0]).all() and np.isfinite(weight[0]):
        return np.ones(len(weight)), _inverse(weight[0])
    mean = _finite((weight / len(weight)).sum())
    if mean < np.finfo(np.float64).tiny:  # the mean has lost digits, or all of them
        exponent = np.frexp(np.ldexp(weight, 1074).mean())[1] - 1074
    else:
        exponent = np.frexp(mean)[1]
    if -10 <= exponent <= 10:
        return weight, 1.0
    return np.ldexp(weight, -exponent), _inverse(1.0, exponent)


def _moderate_all(weight, comm, n):
    """Apply `_moderate` to the n weights of all workers, on a grid that makes their sums exact."""
    least, largest = _least_and_largest(weight, comm)
    if least == largest and np.isfinite(least):
        return np.ones(len(weight)), _inverse(least)
    first = int(np.frexp(_finite(largest))[1])
    weight = on_grid(np.ldexp(weight, -first), 1.0, n)
    mean = float(comm.sum(weight.sum(keepdims=True))[0]) / n
    exponent = int(np.frexp(mean)[1]) + first
    moved = 0 if -10 <= exponent <= 10 else exponent
    return np.ldexp(weight, first - moved), _inverse(1.0, moved)


def _least_and_largest(weight, comm):
    """Least and largest weight of all workers."""
    ends = np.array([(-weight).max(initial=-np.inf), weight.max(initial=-np.inf)])
    ends = comm.maximum(ends)
    return -float(ends[0]), float(ends[1])


def _finite(size):
    """Return a mean or sum of weights; an error if it is not finite."""
    if not np.isfinite(size):
        raise ValueError(
            "the sum of the sample weights times the class weights overflows; divide the "
            "weights by a constant"
        )
    return float(size)


def _inverse(number, exponent=0):
    """Compute 1 / (number 2^exponent), up to the largest number."""
    with np.errstate(over="ignore"):
        return float(np.minimum(np.ldexp(1 / number, -exponent), np.finfo(np.float64).max))
