"""Training data for trees: columns as bin codes, column by column and in tiles, or as sparse entries row by row."""

import numpy as np

from pymcboost._kernels import bins as _bins
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.data import BUNDLE_ROWS, LARGEST_THRESHOLD, TrainingData

LANES = 16  # columns in a tile
# Columns with at least this share of rows in one bin, and few others, may share a lane if they exclude each other.
BUNDLED, BUNDLED_BINS, BUNDLES_TRIED = 0.6, 32, 64


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
    tile_cell : ndarray of int64 (n_tiles + 2,)
        First histogram cell of every tile, of the sparse features, and the number of all cells.
    column, lane, cell0, n_bins, has_missing, mode : ndarray of int32 (n_used,)
        Per usable feature, in the order of the columns of X: column, lane, first cell in the lane (or among the sparse
        cells), value bins, whether bin ``n_bins`` holds missing values, and the bin without a cell of its own (-1: none).
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

    @property
    def n_entries(self):
        """Numbers touched by one scan of all rows."""
        sparse = 0 if self.row_cell is None else len(self.row_cell)
        return self.n_rows * int(self.tile_lanes.sum()) + sparse

    @property
    def n_cells(self):
        """Cells of one histogram of all features."""
        return int(self.tile_cell[-1])

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
        self._set_lanes(codes, bundles, mode[used])

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
                room.append(255)
            bundles[b].append(int(f))
            taken[b][rows] = True
            room[b] -= cells[f]
        return [sorted(bundle) for bundle in bundles if len(bundle) > 1]

    def _set_lanes(self, codes, bundles, mode):
        bundled = {f for bundle in bundles for f in bundle}
        plain = [f for f in range(len(self.column)) if f not in bundled]
        plain.sort(key=lambda f: (self.has_missing[f], self.n_bins[f], f))
        lanes = [[f] for f in plain] + bundles
        m, n_tiles = self.n_rows, -(-len(lanes) // LANES)
        self.n_tiles, self.n_lanes = n_tiles, n_tiles * LANES
        dtype = np.uint8 if self.code_bytes == 1 else np.uint16
        self.codes = np.zeros((self.n_lanes, m), dtype=dtype)
        self.tiles = aligned_zeros((n_tiles, m, LANES), dtype)
        self.tile_lanes = np.zeros(n_tiles, dtype=np.int32)
        self.tile_rows, self.tile_missing = self.tile_lanes.copy(), self.tile_lanes.copy()
        for t in range(n_tiles):
            members = lanes[LANES * t : LANES * (t + 1)]
            self.tile_lanes[t] = len(members)
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
                if len(features) == 1 and self.has_missing[features[0]]:
                    column = np.where(column == self.n_bins[features[0]], dtype(rows), column)
                self.tiles[t, :, k] = column
        self.lane_feature = np.array([f for features in lanes for f in features], dtype=np.int32)
        lengths = [len(features) for features in lanes] + [0] * (self.n_lanes - len(lanes))
        self.lane_ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
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
        for f in np.flatnonzero(n_bins > max_bins):
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
        self.tile_lanes = self.tile_rows = self.tile_missing = np.zeros(0, dtype=np.int32)
        self.lane_feature = np.arange(len(used), dtype=np.int32)
        self.lane_ptr = np.zeros(1, dtype=np.int32)
        self._set_cells(int(sizes.sum()))


def _merge_bins(bins, values, cuts, mode, max_bins):
    """Bins of one sparse column, merged to at most ``max_bins`` with about equal numbers of entries; the mode stays
    alone."""
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
