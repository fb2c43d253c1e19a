"""Training data for trees: columns as bin codes, column by column and in tiles, or as sparse entries row by row."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from pymcboost._kernels import bins as _bins
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.data import BUNDLE_ROWS, LARGEST_THRESHOLD, TrainingData

LANES = 16  # columns in a tile
# Columns with at least this share of rows in one bin, and few others, may share a lane if they exclude each other.
BUNDLED, BUNDLED_BINS, BUNDLES_TRIED = 0.6, 32, 64
# A tile in which at most this share of the rows has a lane outside its mode skips the others.
COUNTED, SKIPPING_ROWS = 0.75, 4096
# Columns with at least this share of rows in one bin are put into tiles with those that leave theirs in the same rows.
ALIKE, ALIKE_SAMPLE = 0.3, 1 << 19
# Histograms of all leaves are kept, for subtraction, while they take no more than this per thread.
POOL_BYTES = 1 << 30


class TreeData(TrainingData):
    """Rows sorted by class, as in `TrainingData`, and their features as bin codes.

    A *lane* is one column of codes. Most lanes hold one feature, whose code is its bin. A lane that bundles exclusive
    features has code 0 where all of them are in their most frequent bins (modes), else the cell of the one that is not.
    A sparse feature (``lane`` -1) has entries for the rows outside its mode bin.

    Attributes
    ----------
    codes : ndarray of uint8 or uint16 (n_lanes, m)
        uint16 for small data alone, in which every distinct value is a bin.
    tiles : ndarray of the same type (n_tiles, m, 16)
        The same lanes row by row; the missing values of a tile's plain lanes share the code ``tile_rows - 1``.
    tile_lanes, tile_rows, tile_missing : ndarray of int32 (n_tiles,)
        Lanes in use, codes in use, whether the last code means missing.
    tile_skip : ndarray of int32 (n_tiles,)
        1: rows in which every lane has the code ``tile_mode`` (n_tiles, 16) are not counted one by one.
    counted : ndarray of uint8 (bytes, m) or None
        Bit t % 8 of byte t // 8 is set in the rows that tile t counts; None where no tile skips any.
    tile_cell : ndarray of int64 (n_tiles + 2,)
        First histogram cell of every tile, of the sparse features, and the number of all cells.
    column, lane, cell0, n_bins, has_missing, mode : ndarray of int32 (n_used,)
        Per usable feature, in the order of the columns of X: column, lane, first cell in the lane (or among the sparse
        cells), value bins, whether bin ``n_bins`` holds missing values, and the bin without a cell of its own (-1:
        none).
    lane_ptr, lane_feature : ndarray of int32
        Features of every lane; the sparse ones come last.
    row_ptr : ndarray of int64 (m + 1,) or None
    row_cell : ndarray of int32 or None
        Sparse cells of every row, ascending.
    threshold : ndarray of float32
    threshold_ptr : ndarray of int64 (n_used + 1,)
        Thresholds of feature f begin at ``threshold_ptr[f]``: position b sends bins up to b to the left.
    """

    def _prepare(self, X, max_bins, n_threads):
        self.stores = []
        if hasattr(X, "tocsc"):
            self._prepare_sparse(X, max_bins, n_threads)
        else:
            self._prepare_dense(X, max_bins, n_threads)

    def _store_bytes(self, X, n_threads):
        m, d = X.shape
        # Scores and gradients of every class, and per thread the rows of the tree being grown.
        rows = m * (14 * self.n_classes + 48 * n_threads)
        if hasattr(X, "tocsc"):
            return X.nnz * 60 + 40 * d + rows
        per_entry = 3 if self.dtype == np.float32 else 18
        return m * d * per_entry + 1100 * d + n_threads * m * 80 + rows

    @property
    def n_entries(self):
        """Numbers touched by one scan of all rows."""
        sparse = 0 if self.row_cell is None else len(self.row_cell)
        return self.n_rows * int(self.tile_lanes.sum()) + sparse

    def by_cell(self):
        """Sparse entries cell after cell, as trees with vector leaves take them.

        Returns
        -------
        rows : ndarray of int32 (n_entries,)
            Ascending within a cell.
        cells : ndarray of int32 (n, 2)
            Number of each cell that has entries, and how many.
        """
        if self.row_ptr is None:
            return np.zeros(0, dtype=np.int32), np.zeros((0, 2), dtype=np.int32)
        marks = np.zeros(len(self.row_cell), dtype=np.int8)
        entries = csr_array((marks, self.row_cell, self.row_ptr), shape=(self.n_rows, self.n_cells)).tocsc()
        counts = np.diff(entries.indptr)
        used = np.flatnonzero(counts)
        return entries.indices.astype(np.int32), np.column_stack((used, counts[used])).astype(np.int32)

    @property
    def n_cells(self):
        """Cells of one histogram of all features."""
        return int(self.tile_cell[-1])

    def pools(self, cell_words, max_leaves):
        """Whether the histograms of all leaves of a tree may be kept."""
        return 8 * cell_words * self.n_cells * max_leaves <= POOL_BYTES

    def _set_features(self, column, n_bins, has_missing, thresholds):
        self.column = column.astype(np.int32)
        self.n_bins, self.has_missing = n_bins.astype(np.int32), has_missing.astype(np.int32)
        self.lane = np.full(len(column), -1, dtype=np.int32)
        self.cell0 = np.zeros(len(column), dtype=np.int32)
        self.mode = np.full(len(column), -1, dtype=np.int32)
        thresholds = [
            np.append(cuts, LARGEST_THRESHOLD) if gone else cuts
            for cuts, gone in zip(thresholds, has_missing, strict=True)
        ]
        self.threshold_ptr = np.concatenate(([0], np.cumsum([len(t) for t in thresholds]))).astype(np.int64)
        self.threshold = np.concatenate([*thresholds, np.zeros(0)]).astype(np.float32)

    def _prepare_dense(self, X, max_bins, n_threads):
        m = self.n_rows
        codes, cuts, n_bins, distinct, missing, mode, mode_rows = self._bin_columns(X, max_bins, n_threads)
        has_missing = missing > 0
        cuts = [cuts[f, : n_bins[f] - 1] for f in range(len(cuts))]
        lossy = distinct > max_bins - has_missing
        self.code_bytes = 1
        if self.dtype == np.float64 and lossy.any():
            self.code_bytes = 2
            codes = codes.astype(np.uint16)
            for f in np.flatnonzero(lossy):
                codes[f], cuts[f] = self._exact_codes(X, f, n_threads)
                n_bins[f] = len(cuts[f]) + 1
        used = np.flatnonzero(((n_bins > 1) & (missing < m)) | (has_missing & (missing < m)))
        self._set_features(used, n_bins[used], has_missing[used], [cuts[f] for f in used])
        self.row_ptr = self.row_cell = None
        bundles = []
        if self.code_bytes == 1 and m >= BUNDLE_ROWS:
            bundles = self._bundles(codes, mode[used], mode_rows[used])
        self._set_lanes(codes, bundles, mode[used], mode_rows[used])

    def _exact_codes(self, X, f, n_threads):
        """Codes and cuts of one column with a bin for every distinct value."""
        m = self.n_rows
        order, cuts = np.empty((1, m), dtype=np.int32), np.empty((1, m), dtype=np.float32)
        n_cuts, n_missing = np.empty(1, dtype=np.int64), np.empty(1, dtype=np.int64)
        _bins.sort_columns(
            X, self.rows, np.array([f], dtype=np.int64), self.weight, 0.0, order, cuts, n_cuts, n_missing, n_threads
        )
        order, ends = order[0], order[0] < 0
        codes = np.empty(m, dtype=np.uint16)
        codes[np.where(ends, ~order, order)] = np.cumsum(ends) - ends
        return codes, cuts[0, : n_cuts[0]]

    def _bundles(self, codes, mode, mode_rows):
        """Lists of features (with few bins, mostly in one) of which no row has two outside their modes."""
        cells = self.n_bins + self.has_missing
        candidates = np.flatnonzero((mode_rows >= BUNDLED * self.n_rows) & (cells <= BUNDLED_BINS))
        candidates = candidates[np.argsort(mode_rows[candidates], kind="stable")]
        bundles, taken, room = [], [], []
        for f in candidates:
            rows = np.flatnonzero(codes[self.column[f]] != mode[f])
            for b in range(max(0, len(bundles) - BUNDLES_TRIED), len(bundles)):
                if room[b] >= cells[f] and not taken[b][rows].any():
                    break
            else:
                b = len(bundles)
                bundles.append([])
                taken.append(np.zeros(self.n_rows, dtype=bool))
                room.append(254)  # code 0, and one for the missing values of the tile
            bundles[b].append(int(f))
            taken[b][rows] = True
            room[b] -= cells[f]
        return [sorted(bundle) for bundle in bundles if len(bundle) > 1]

    def _alike(self, codes, features, mode):
        """The features in an order in which every 16 leave their modes in the same rows, as far as possible."""
        step = -(-self.n_rows // max(64, ALIKE_SAMPLE // max(len(features), 1)))
        outside = codes[self.column[features], ::step] != mode[features, None]
        left, order = np.ones(len(features), dtype=bool), []
        for j in range(len(features)):
            if j % LANES == 0:  # the rows that the tile need not count yet, and how many of them a feature would add
                free = np.ones(outside.shape[1], dtype=bool)
                adds = outside.sum(axis=1, dtype=np.int64)
                pick = int(np.argmax(left))
            else:
                pick = int(np.argmin(np.where(left, adds, outside.shape[1] + 1)))
            left[pick] = False
            counted = outside[pick] & free
            free &= ~counted
            adds -= outside[:, counted].sum(axis=1, dtype=np.int64)
            order.append(features[pick])
        return order

    def _set_lanes(self, codes, bundles, mode, mode_rows):
        bundled = {f for bundle in bundles for f in bundle}
        plain = [f for f in range(len(self.column)) if f not in bundled]
        skewed = [f for f in plain if mode_rows[f] >= ALIKE * self.n_rows and not self.has_missing[f]]
        if self.n_rows >= SKIPPING_ROWS and len(skewed) > LANES:
            skewed = self._alike(codes, np.array(skewed), mode)
        rest = sorted(set(plain) - set(skewed), key=lambda f: (self.has_missing[f], self.n_bins[f], f))
        lanes = [[int(f)] for f in skewed] + [[f] for f in rest if not self.has_missing[f]]
        gone = [[f] for f in rest if self.has_missing[f]]
        last = lanes[len(lanes) // LANES * LANES :]
        if gone and self.code_bytes == 1 and any(self.n_bins[f] == 256 for (f,) in last):
            lanes += [[]] * (-len(lanes) % LANES)  # no code is left for missing values in this tile
        lanes += gone + bundles
        m, n_tiles = self.n_rows, -(-len(lanes) // LANES)
        self.n_tiles, self.n_lanes = n_tiles, n_tiles * LANES
        dtype = np.uint8 if self.code_bytes == 1 else np.uint16
        self.codes = np.zeros((self.n_lanes, m), dtype=dtype)
        self.tiles = aligned_zeros((n_tiles, m, LANES), dtype)
        self.tile_lanes = np.zeros(n_tiles, dtype=np.int32)
        self.tile_rows, self.tile_missing = self.tile_lanes.copy(), self.tile_lanes.copy()
        self.tile_skip = self.tile_lanes.copy()
        self.tile_mode = np.zeros((n_tiles, LANES), dtype=np.int32)
        bits = np.zeros((-(-n_tiles // 8), m), dtype=np.uint8)
        for t in range(n_tiles):
            members = lanes[LANES * t : LANES * (t + 1)]
            self.tile_lanes[t] = sum(map(bool, members))
            rows = 1
            for k, features in enumerate(members):
                at = LANES * t + k
                if len(features) == 1:
                    f = features[0]
                    self.lane[f] = at
                    self.codes[at] = codes[self.column[f]]
                    rows = max(rows, int(self.n_bins[f]))
                    self.tile_missing[t] |= self.has_missing[f]
                    continue
                cell = 1
                for f in features:
                    self.lane[f], self.cell0[f], self.mode[f] = at, cell, mode[f]
                    column = codes[self.column[f]]
                    others = np.flatnonzero(column != mode[f])
                    self.codes[at, others] = column[others] + cell
                    cell += int(self.n_bins[f] + self.has_missing[f])
                rows = max(rows, cell)
            self.tile_rows[t] = rows + self.tile_missing[t]
            for k, features in enumerate(members):
                column = self.codes[LANES * t + k]
                if len(features) == 1:
                    f = features[0]
                    self.tile_mode[t, k] = rows if mode[f] == self.n_bins[f] else mode[f]
                    if self.has_missing[f]:
                        column = np.where(column == self.n_bins[f], dtype(rows), column)
                self.tiles[t, :, k] = column
            if m >= SKIPPING_ROWS and len(members) > LANES // 2:
                counted = (self.tiles[t] != self.tile_mode[t].astype(dtype)).any(axis=1)
                if counted.mean() <= COUNTED:
                    self.tile_skip[t] = 1
                    bits[t // 8] |= counted.astype(np.uint8) << np.uint8(t % 8)
        self.counted = bits if self.tile_skip.any() else None
        self.lane_feature = np.array([f for features in lanes for f in features], dtype=np.int32)
        lengths = [len(features) for features in lanes] + [0] * (self.n_lanes - len(lanes))
        self.lane_ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        self.lane_cells = np.zeros(self.n_lanes, dtype=np.int32)
        np.maximum.at(self.lane_cells, self.lane, self.cell0 + self.n_bins + self.has_missing)
        self._set_cells(0)

    def _set_cells(self, n_sparse):
        first = np.concatenate(([0], np.cumsum(self.tile_rows.astype(np.int64) * LANES)))
        self.tile_cell = np.append(first, first[-1] + n_sparse).astype(np.int64)

    def _prepare_sparse(self, X, max_bins, n_threads):
        columns, order, cuts, n_cuts, n_missing, default_at = self._sort_sparse(X, 0.0, n_threads)
        indptr = columns.indptr.astype(np.int64)
        m, d = self.n_rows, self.n_features
        ends = order < 0
        column = np.repeat(np.arange(d), np.diff(indptr))
        place = np.arange(len(order)) - indptr[column]
        runs = np.concatenate(([0], np.cumsum(ends)))
        bins = runs[:-1] - runs[indptr[column]]
        bins += (default_at[column] >= 0) & (place >= default_at[column])
        lengths = np.diff(indptr)
        missing_entry = place >= (lengths - n_missing)[column]
        n_bins = n_cuts + 1
        cuts = [cuts[indptr[f] + f : indptr[f] + f + n_cuts[f]] for f in range(d)]
        before = np.where(default_at >= 0, indptr[:-1] + np.maximum(default_at, 0), indptr[:-1])
        mode = np.where(default_at >= 0, runs[before] - runs[indptr[:-1]], 0)
        lossy = n_bins > max_bins if self.dtype == np.float32 else np.zeros(d, dtype=bool)
        for f in np.flatnonzero(lossy):
            part = slice(indptr[f], indptr[f + 1])
            values = ~missing_entry[part]
            bins[part], cuts[f], mode[f] = _merge_bins(bins[part], values, cuts[f], mode[f], max_bins)
            n_bins[f] = len(cuts[f]) + 1
        bins[missing_entry] = n_bins[column[missing_entry]]
        has_missing = n_missing > 0
        used = np.flatnonzero(((n_bins > 1) | has_missing) & (n_missing < m))
        self._set_features(used, n_bins[used], has_missing[used], [cuts[f] for f in used])
        self.mode = mode[used].astype(np.int32)
        sizes = (self.n_bins + self.has_missing).astype(np.int64)
        ends_at = np.cumsum(sizes)
        if len(ends_at) and ends_at[-1] > np.iinfo(np.int32).max:
            raise ValueError(f"X has {ends_at[-1]} bins in all, beyond 2^31; give a smaller max_bins or fewer columns")
        self.cell0 = (ends_at - sizes).astype(np.int32)
        place_of = np.full(d, -1)
        place_of[used] = np.arange(len(used))
        kept = (place_of[column] >= 0) & (bins != mode[column])
        rows = np.where(ends, ~order, order)[kept]
        cells = self.cell0[place_of[column[kept]]] + bins[kept]
        by_row = np.argsort(rows, kind="stable")
        self.row_ptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=m)))).astype(np.int64)
        self.row_cell = cells[by_row].astype(np.int32)
        # Stable: within a row, cells ascend because columns do.
        self.code_bytes = 1
        self.codes, self.tiles = np.zeros((0, m), dtype=np.uint8), np.zeros((0, m, LANES), dtype=np.uint8)
        self.n_tiles = self.n_lanes = 0
        self.tile_lanes = self.tile_rows = self.tile_missing = self.tile_skip = np.zeros(0, dtype=np.int32)
        self.tile_mode, self.counted = np.zeros((0, LANES), dtype=np.int32), None
        self.lane_feature = np.arange(len(used), dtype=np.int32)
        self.lane_ptr = np.zeros(1, dtype=np.int32)
        self.lane_cells = np.zeros(0, dtype=np.int32)
        self._set_cells(int(sizes.sum()))


def _merge_bins(bins, values, cuts, mode, max_bins):
    """Bins of one sparse column, merged to at most ``max_bins`` with about equal numbers of entries.

    The mode stays alone.
    """
    n = len(cuts) + 1
    count = np.bincount(bins[values], minlength=n)
    count[mode] = 0
    share = np.minimum((np.cumsum(count) - count) * (max_bins - 3) // max(count.sum(), 1), max_bins - 4)
    step = np.zeros(n, dtype=np.int64)
    step[1:] = share[1:] != share[:-1]
    step[mode] = mode > 0
    if mode + 1 < n:
        step[mode + 1] = 1
    new = np.cumsum(step)
    result = bins.copy()
    result[values] = new[bins[values]]
    return result, cuts[step[1:] > 0], int(new[mode])


@dataclass
class Grown:
    """Trees of one round: n arrays of up to J leaves. ``leaf`` has one byte for each row, or two if J > 256."""

    feature: np.ndarray
    pos: np.ndarray
    right: np.ndarray
    n_splits: np.ndarray
    nan_left: np.ndarray
    gain: np.ndarray
    value: np.ndarray
    leaf: np.ndarray

    @staticmethod
    def bytes_of(n, max_leaves, n_rows):
        """Memory of ``n`` trees."""
        return n * ((1 if max_leaves <= 256 else 2) * n_rows + 29 * max_leaves)

    @classmethod
    def empty(cls, n, max_leaves, n_rows):
        """Room for ``n`` trees."""
        ints = (np.zeros((n, max_leaves), dtype=np.int32) for _ in range(3))
        floats = (np.zeros((n, max_leaves)) for _ in range(2))
        return cls(
            *ints,
            np.zeros(n, dtype=np.int32),
            np.zeros((n, max_leaves), dtype=np.uint8),
            *floats,
            np.zeros((n, n_rows), dtype=np.uint8 if max_leaves <= 256 else np.uint16),
        )

    def tree(self, j, data):
        """Tree j as (column, threshold, nan_left, right, value, gain), its splits in preorder."""
        s = int(self.n_splits[j])
        feature, pos = self.feature[j, :s], self.pos[j, :s]
        threshold = data.threshold[data.threshold_ptr[feature] + pos]
        value, gain = self.value[j, : s + 1], self.gain[j, :s]
        return data.column[feature], threshold, self.nan_left[j, :s], self.right[j, :s], value, gain

    def trees(self, chosen, data):
        """`tree` of several, one after the other, and before them the numbers of their splits."""
        s = self.n_splits[chosen, None]
        place = np.arange(self.feature.shape[1])
        splits, leaves = place < s, place <= s
        feature, pos, nan_left, right, gain = (
            array[chosen][splits] for array in (self.feature, self.pos, self.nan_left, self.right, self.gain)
        )
        threshold = data.threshold[data.threshold_ptr[feature] + pos]
        return s[:, 0], data.column[feature], threshold, nan_left, right, self.value[chosen][leaves], gain


class Units:
    """How gradients and weights become integers.

    Parameters
    ----------
    data : TreeData
    cell_words : 1 or 2
        See `_kernels.trees.Grower`.
    min_samples_leaf : float
        Least sum of sample weights in a leaf; weights with a mean below 1 are first divided by it.
    least_weight : float, default=0
        The same in the data's own weights.

    Attributes
    ----------
    weight : ndarray (m,), empty where all weights are equal (and then taken as 1)
    per_count : float
        Units of a weight of 1.
    least : int
        The larger of the two bounds in units.
    limit_g, limit_h : float
        What the absolute gradients and the second derivatives of all rows may sum to, in units.
    """

    def __init__(self, data, cell_words, min_samples_leaf, least_weight=0.0):
        self.cell_words = cell_words
        weight, m = data.weight, data.n_rows
        uniform = bool((weight == weight[0]).all())
        self.weight = np.ones(0) if uniform else weight
        # Rounding adds at most one unit a row.
        room = 2.0**31 - 2 * m - 4096
        self.limit_g, self.limit_h = (room, room) if cell_words == 1 else (2.0**46, 2.0**38)
        counts = room if cell_words == 1 else 2.0**24 - 2 * m
        if counts <= 0:
            raise ValueError(
                f"{m} rows are too many for trees with a bound on the weight of their leaves (min_samples_leaf, "
                "min_weight_fraction_leaf); at most 8 million"
            )
        # A power of two: whole weights stay whole, and a row of weight 1 may fill a leaf of least weight 1.
        self.per_count = 1.0 if uniform else math.ldexp(0.5, math.frexp(counts / weight.sum())[1])
        one = weight[0] if uniform else 1.0
        least = max(min_samples_leaf * min(data.weight_unit, one if uniform else weight.mean()), least_weight) / one
        self.least = max(1, math.ceil(min(least * self.per_count * (1 - 1e-9), np.iinfo(np.int32).max)))
