"""Training data of trees: columns as bins, and the trees grown on them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymcboost._kernels.exact import WIDE_ROWS, is_wide
from pymcboost.data.binning import bin_sparse
from pymcboost.data.divided_sparse import bin_sparse_divided
from pymcboost.data.rows import TrainingRows
from pymcboost.data.shared_bins import bin_rows
from pymcboost.data.tree_layouts import LANES, entries_of, lanes_of, tiles_of

# Histograms of all leaves are kept for subtraction, if they take no more than this per thread.
POOL_BYTES = 1 << 30
# In two-word cells with a count of weights, the count has 24 bits and h 38 with fewer rows; otherwise both have 31.
MANY_ROWS = 1 << 23
# If h and the count share a word, g stays below this. Changing it would change models.
ROOM_BESIDE = 2.0**46


class TreeData(TrainingRows):
    """`TrainingRows` with their features as bins.

    Attributes
    ----------
    columns : Columns
        What trees with vector leaves are grown on.

    Parameters
    ----------
    categorical : sequence of int
        Columns of X with category codes. Every code gets a bin.
    bins : SharedBins, optional
        Bins of all rows of dense X, which include these rows. Small data get their own bins.
    """

    def __init__(
        self,
        X,
        y,
        n_classes,
        sample_weight,
        *,
        max_bins=256,
        n_threads=1,
        categorical=(),
        bins=None,
        **options,
    ):
        super().__init__(X, y, n_classes, sample_weight, n_threads=n_threads, **options)
        comm = self.comm
        if comm.size > 1 and self.is_sparse:
            feature, bins = bin_sparse_divided(self, max_bins)
            self.columns = lanes_of(bins, self.total_rows, feature, comm)
        elif self.is_sparse:
            self.columns = entries_of(bin_sparse(self, max_bins, n_threads), self.n_rows)
        else:
            small = self.dtype == np.float64
            if bins is not None and not (small and bins.keeps_values):
                bins = bins.of(self, n_threads)
            else:
                bins = bin_rows(self, max_bins, n_threads, small=small, categorical=categorical)
            self.columns = lanes_of(bins, self.total_rows, comm=comm)

    @cached_property
    def tiles(self):
        """The columns as `Tiled`, for growing trees of one class."""
        return tiles_of(self.columns)

    # Multi-label data: ones and zeros (m, K); ``y`` is then 0.
    labels = None
    _label_places = None

    def label_places(self, width):
        """Positions of the rows' labels in a flattened matrix (m, width)."""
        if self._label_places is None:
            row, label = np.nonzero(self.labels)
            self._label_places = row * width + label
        return self._label_places

    def store_bytes(self, X, n_threads):
        """Bytes of the columns, while they are made."""
        m, d = X.shape
        if self.is_sparse:
            used = min(d, X.nnz)
            return X.nnz * 60 + 40 * used + (2 * m * used if self.comm.size > 1 else 0)
        per_entry = 2 if self.dtype == np.float32 else 18
        return m * d * per_entry + 1100 * d + m * (60 + 50 * n_threads)

    @property
    def n_entries(self):
        """Numbers read by one scan of all rows."""
        return self.columns.n_entries

    @property
    def column(self):
        """Columns of X to which the features belong."""
        return self.columns.column

    def threshold_of(self, feature, pos):
        """Thresholds of the splits of these features at these positions; 0 for categorical features."""
        threshold = self.columns.threshold[self.columns.threshold_ptr[feature] + pos]
        if self.columns.levels:
            threshold[np.isin(feature, list(self.columns.levels))] = 0
        return threshold

    @property
    def set_words(self):
        """Number of 64-bit words of the largest set of categories."""
        return max((-(-len(levels) // 64) for levels in self.columns.levels.values()), default=0)

    def histogram_bytes(self, cell_words):
        """Bytes of the histograms of all features in a node, for a tree of one class."""
        lane_cells = self.columns.lane_cells
        first_lanes = range(0, self.columns.n_lanes, LANES)
        cells = sum(int(lane_cells[lane : lane + LANES].max()) for lane in first_lanes)
        return 8 * cell_words * (LANES * cells + self.columns.n_sparse)

    def pools(self, cell_words, max_leaves):
        """Whether the histograms of all leaves of a tree fit into the pool."""
        return 8 * cell_words * self.tiles.n_cells * max_leaves <= POOL_BYTES


@dataclass
class Grown:
    """Trees of one round: n arrays of up to J leaves. ``leaf`` has one byte for each row, or two if J > 256.

    ``sets`` (n, J, words) has bits of the bins on the left of splits of categorical features.
    """

    feature: np.ndarray
    pos: np.ndarray
    right: np.ndarray
    n_splits: np.ndarray
    nan_left: np.ndarray
    gain: np.ndarray
    value: np.ndarray
    leaf: np.ndarray
    sets: np.ndarray

    @staticmethod
    def bytes_of(n, max_leaves, n_rows, set_words=0):
        """Memory of ``n`` trees."""
        return n * ((1 if max_leaves <= 256 else 2) * n_rows + (29 + 8 * set_words) * max_leaves)

    @classmethod
    def empty(cls, n, max_leaves, n_rows, set_words=0, zeros=np.zeros):
        """Allocate ``n`` trees; arrays over rows are made by ``zeros``, such as `TrainingRows.zeros`."""
        ints = (np.zeros((n, max_leaves), dtype=np.int32) for _ in range(3))
        floats = (np.zeros((n, max_leaves)) for _ in range(2))
        return cls(
            *ints,
            np.zeros(n, dtype=np.int32),
            np.zeros((n, max_leaves), dtype=np.uint8),
            *floats,
            zeros((n, n_rows), np.uint8 if max_leaves <= 256 else np.uint16),
            np.zeros((n, max_leaves, set_words), dtype=np.uint64),
        )

    def tree(self, j, data):
        """Tree j as (column, threshold, nan_left, right, value, gain), with splits in preorder."""
        s = int(self.n_splits[j])
        feature = self.feature[j, :s]
        threshold = data.threshold_of(feature, self.pos[j, :s])
        value = self.value[j, : s + 1]
        gain = self.gain[j, :s]
        return data.column[feature], threshold, self.nan_left[j, :s], self.right[j, :s], value, gain

    def trees(self, chosen, data):
        """The arrays of `tree` for several trees, concatenated, after their numbers of splits."""
        s = self.n_splits[chosen, None]
        place = np.arange(self.feature.shape[1])
        splits = place < s
        leaves = place <= s
        feature, pos, nan_left, right, gain = (
            array[chosen][splits]
            for array in (self.feature, self.pos, self.nan_left, self.right, self.gain)
        )
        threshold = data.threshold_of(feature, pos)
        return (
            s[:, 0],
            data.column[feature],
            threshold,
            nan_left,
            right,
            self.value[chosen][leaves],
            gain,
        )

    def codes(self, chosen, data):
        """Codes that go left at categorical splits of these trees, by the index of the split in `trees`."""
        levels = data.columns.levels
        if not levels:
            return {}
        splits = np.arange(self.feature.shape[1]) < self.n_splits[chosen, None]
        feature = self.feature[chosen][splits]
        sets = self.sets[chosen][splits]
        codes_left = {}
        for j in np.flatnonzero(np.isin(feature, list(levels))).tolist():
            bits = np.unpackbits(sets[j].astype("<u8").view(np.uint8), bitorder="little")
            level_codes = levels[int(feature[j])]
            codes_left[j] = level_codes[bits[: len(level_codes)].astype(bool)]
        return codes_left


def cell_words_of(counted):
    """Number of words of a histogram cell; ``counted``: whether it stores a count of weights besides g and h."""
    return 2 if counted else 1


class Quantiser:
    """Conversion of gradients and weights to integers.

    Parameters
    ----------
    data : TreeData
    counted : bool
        Whether cells have a count of weights beside g and h. Double precision, categories and bounds on the weight of a
        leaf need one.
    min_samples_leaf : float, default=0
        Least sum of sample weights in a leaf; weights with a mean below 1 are first divided by it.
    least_weight : float, default=0
        The same in the data's own weights.

    Attributes
    ----------
    cell_words, count_bits : int
        See `_kernels.classwise_trees.Grower`.
    uniform : bool
        Whether the weights of the rows of all workers are equal, and then taken as 1.
    weight : ndarray (m,), empty where they are, and on a worker without rows
    per_count : float
        Units of a weight of 1.
    least : int
        The larger of the two bounds in units.
    limit_g, limit_h : float
        What the absolute gradients and the second derivatives of all rows may sum to, in units.
    """

    def __init__(self, data, counted, min_samples_leaf=0.0, least_weight=0.0):
        m = data.total_rows
        lightest, heaviest = data.weight_ends
        if is_wide(m):
            raise ValueError(
                f"X has {m} rows; class-wise trees support at most {WIDE_ROWS} rows, over all "
                "workers. Use VectorTreeBoostClassifier for more"
            )
        self.cell_words = cell_words_of(counted)
        self.count_bits = 0
        if self.cell_words == 1:
            largest_sum = 2.0**31 - 2 * m - 4096  # rounding adds at most one unit per row
            self.limit_g = largest_sum
            self.limit_h = largest_sum
        else:
            self.count_bits = 24 if m < MANY_ROWS else 31
            largest_sum = 2.0**self.count_bits - 2 * m
            self.limit_g = ROOM_BESIDE
            self.limit_h = 2.0 ** (62 - self.count_bits)
        self.uniform = lightest == heaviest
        if self.uniform:
            self.weight = np.ones(0)
            self.per_count = 1.0
            mean = heaviest
            unit = heaviest
        else:
            self.weight = data.weight
            # A power of two: integer weights stay integers, and a row of weight 1 can fill a leaf with minimum
            # weight 1.
            self.per_count = math.ldexp(0.5, math.frexp(largest_sum / data.total_weight)[1])
            mean = data.total_weight / m
            unit = 1.0
        least = max(min_samples_leaf * min(data.weight_unit, mean), least_weight) / unit
        largest = np.iinfo(np.int32).max
        self.least = max(1, math.ceil(min(least * self.per_count * (1 - 1e-9), largest)))
