"""Layouts of binned columns for growing trees: lanes of codes or sparse entries, and tiles of lanes."""

from dataclasses import dataclass, field

import numpy as np

from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.comm import ALONE
from pymcboost.data.rows import with_missing_threshold
from pymcboost.threads import available_memory

LANES = 16  # columns in a tile
# Minimum number of rows for bundling columns.
BUNDLE_ROWS = 512
# Columns with at least this share of rows in one bin, and few other bins, can share a lane if they exclude each
# other.
BUNDLED = 0.6
BUNDLED_BINS = 32
BUNDLES_TRIED = 64
# With several workers, at most this many columns are considered: the results for all pairs fit into one message.
BUNDLED_APART = 256
# If at most this share of a tile's rows have a lane outside its mode, the tile skips the other rows.
COUNTED = 0.75
SKIPPING_ROWS = 4096
# Columns with at least this share of rows in one bin are put into tiles with columns that leave theirs in the same
# rows.
ALIKE = 0.3
ALIKE_SAMPLE = 1 << 19

# Rows of small nodes are copied to be adjacent if the codes take at least MOVED_BYTES, more than most caches; if a
# node draws at least one in MOVED_LANES lanes; if trees have at least MOVED_LEAVES leaves; and if the copy takes at
# most one part in MOVED_ROOM of the free memory.
MOVED_BYTES = 1 << 24
MOVED_LANES = 8
MOVED_LEAVES = 32
MOVED_ROOM = 4


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Usable columns: in lanes of codes, or as sparse entries.

    A *lane* is one column of codes. Most lanes hold one feature, whose code is its bin. A lane that bundles exclusive
    features has code 0 if all of them are in their most frequent bins (modes), otherwise the cell of the feature that
    is not. A sparse feature (``lane`` -1) has entries for the rows outside its mode bin.

    Attributes
    ----------
    n_rows : int
    codes : ndarray of uint8 or uint16 (n_lanes, m)
        uint16 only for small data, in which every distinct value is a bin.
    column, lane, cell0, n_bins, has_missing, mode, usual : ndarray of int32 (n_used,)
        Per usable feature, in the order of the columns of X: column, lane, first cell in the lane (or among the sparse
        cells), value bins, whether bin ``n_bins`` holds missing values, the bin without a cell of its own (-1: none),
        and the most frequent bin.
    lane_ptr, lane_feature : ndarray of int32
        Features of every lane; the sparse ones come last.
    lane_cells : ndarray of int32 (n_lanes,)
        Codes of every lane.
    row_ptr : ndarray of int64 (m + 1,) or None
    row_cell : ndarray of int32 or None
        Sparse cells of every row, ascending.
    n_sparse : int
        Sparse cells.
    levels : dict of int to ndarray of int64
        For the categorical features among the usable ones: the codes of their bins, ascending.
    threshold : ndarray of float32
    threshold_ptr : ndarray of int64 (n_used + 1,)
        Thresholds of feature f begin at ``threshold_ptr[f]``: position b sends bins up to b to the left.
    """

    n_rows: int
    codes: np.ndarray
    column: np.ndarray
    lane: np.ndarray
    cell0: np.ndarray
    n_bins: np.ndarray
    has_missing: np.ndarray
    mode: np.ndarray
    usual: np.ndarray
    lane_ptr: np.ndarray
    lane_feature: np.ndarray
    lane_cells: np.ndarray
    row_ptr: np.ndarray | None = None
    row_cell: np.ndarray | None = None
    n_sparse: int = 0
    threshold: np.ndarray
    threshold_ptr: np.ndarray
    levels: dict = field(default_factory=dict)

    @property
    def n_lanes(self):
        """Number of lanes, including empty ones."""
        return len(self.codes)

    @property
    def code_bytes(self):
        """Bytes of a code."""
        return self.codes.itemsize

    @property
    def n_entries(self):
        """Numbers read by one scan of all rows."""
        sparse = 0 if self.row_cell is None else len(self.row_cell)
        return self.n_rows * int((self.lane_cells > 0).sum()) + sparse

    def zeros(self, shape, dtype):
        """Zeros that start on a cache line."""
        return aligned_zeros(shape, dtype)

    def places(self, n_drawn, max_leaves, n_numbers):
        """Allocate room in which the rows of small nodes are adjacent; None if that would not save time.

        A row has a code in each lane, ``n_numbers`` numbers of its gradient, and its row number. It does not affect
        models.
        """
        draws_few = n_drawn * MOVED_LANES < self.n_lanes
        if draws_few or max_leaves < MOVED_LEAVES or self.codes.nbytes < MOVED_BYTES:
            return None
        size = self.codes.nbytes + 4 * self.n_rows * (n_numbers + 1)
        room = available_memory()
        if room is not None and size * MOVED_ROOM > room:
            return None
        codes = self.zeros(self.codes.shape, self.codes.dtype)
        numbers = self.zeros((self.n_rows, n_numbers), np.int32)
        row_numbers = self.zeros(self.n_rows, np.int32)
        return codes, numbers, row_numbers

    def sets(self, least_levels):
        """Positions of sets of levels in kernels, with the weights of `learners.levels.least_levels`, by feature.

        Returns
        -------
        set_at : ndarray of int32 (n_used,) or None
            Words of 64 bits before the feature's own, -1 for ordered ones; None if all are.
        set_words, most_words, most_levels : int
            Words of all features, of the one with most, and its levels.
        least : ndarray of int64 (2, n) or None
            Weights of the levels, from 64 ``set_at`` on.
        """
        if not self.levels:
            return None, 0, 0, 0, None
        sizes = np.array([len(self.levels.get(f, ())) for f in range(len(self.column))])
        words = -(-sizes // 64)
        set_at = np.where(words > 0, np.cumsum(words) - words, -1).astype(np.int32)
        least = np.zeros((2, 64 * words.sum()), dtype=np.int64)
        for f, weights in least_levels.items():
            least[:, 64 * set_at[f] : 64 * set_at[f] + weights.shape[1]] = weights
        return set_at, int(words.sum()), int(words.max()), int(sizes.max()), least

    def most_level_cells(self, n_lanes):
        """Maximum number of cells of the levels in ``n_lanes`` lanes, including cells of missing values."""
        cells = np.zeros(max(self.n_lanes, 1), dtype=np.int64)
        for f in self.levels:
            cells[self.lane[f]] += self.n_bins[f] + 1
        return int(np.sort(cells)[-n_lanes:].sum())

    def by_cell(self):
        """Sparse entries ordered by cell.

        Returns
        -------
        cell_ptr : ndarray of int64 (n_sparse + 1,)
        rows : ndarray of int32 (n_entries,)
            Ascending within a cell.
        """
        if self.row_ptr is None:
            return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32)
        from scipy.sparse import csr_array

        marks = np.zeros(len(self.row_cell), dtype=np.int8)
        shape = self.n_rows, self.n_sparse
        entries = csr_array((marks, self.row_cell, self.row_ptr), shape=shape).tocsc()
        cell_ptr = entries.indptr.astype(np.int64, copy=False)
        rows = entries.indices.astype(np.int32, copy=False)
        return cell_ptr, rows


@dataclass(frozen=True, kw_only=True)
class Tiled(Columns):
    """Columns with their lanes row by row, 16 in a tile, for growing trees of one class.

    Attributes
    ----------
    tiles : ndarray of the type of the codes (n_tiles, m, 16)
        The missing values of a tile's plain lanes share the code ``tile_rows - 1``.
    tile_lanes, tile_rows, tile_missing : ndarray of int32 (n_tiles,)
        Lanes in use, codes in use, whether the last code means missing.
    tile_skip : ndarray of int32 (n_tiles,)
        1: rows in which every lane has the code ``tile_mode`` (n_tiles, 16) are not counted one by one.
    counted : ndarray of uint8 (bytes, m) or None
        Bit t % 8 of byte t // 8 is set in the rows that tile t counts; None where no tile skips any.
    tile_cell : ndarray of int64 (n_tiles + 2,)
        First histogram cell of every tile, of the sparse features, and the number of all cells.
    """

    tiles: np.ndarray
    tile_lanes: np.ndarray
    tile_rows: np.ndarray
    tile_missing: np.ndarray
    tile_skip: np.ndarray
    tile_mode: np.ndarray
    counted: np.ndarray | None
    tile_cell: np.ndarray

    @property
    def n_tiles(self):
        """Number of tiles."""
        return len(self.tiles)

    @property
    def n_cells(self):
        """Cells of one histogram of all features."""
        return int(self.tile_cell[-1])


def _features(column, n_bins, has_missing, usual, cuts):
    """Fields of `Columns` that do not depend on where codes are stored."""
    cuts = list(map(with_missing_threshold, cuts, has_missing))
    return {
        "column": column.astype(np.int32),
        "n_bins": n_bins.astype(np.int32),
        "has_missing": has_missing.astype(np.int32),
        "usual": usual.astype(np.int32),
        "threshold": np.concatenate([*cuts, np.zeros(0)]).astype(np.float32),
        "threshold_ptr": np.concatenate(([0], np.cumsum([len(t) for t in cuts]))).astype(np.int64),
    }


def lanes_of(bins, total_rows, feature=None, comm=ALONE):
    """Create `Columns` in lanes from dense `Bins`.

    All workers of ``comm``, with ``total_rows`` rows in total, have the same lanes in the same order. ``feature``:
    the columns of X to which the bins belong, if not all.
    """
    m = bins.codes.shape[1]
    levels = bins.levels
    used = np.flatnonzero(((bins.n_bins > 1) | (bins.missing > 0)) & (bins.missing < total_rows))
    column = used if feature is None else feature[used]
    fields = _features(
        column,
        bins.n_bins[used],
        bins.missing[used] > 0,
        usual=bins.mode[used],
        cuts=[bins.cuts[f] for f in used],
    )
    n = len(used)
    cells = fields["n_bins"] + fields["has_missing"]
    lanes = _plan(bins.codes, fields, bins.mode_rows[used], levels=levels, m=total_rows, comm=comm)
    lane = np.zeros(n, dtype=np.int32)
    cell0 = np.zeros(n, dtype=np.int32)
    mode = np.full(n, -1, dtype=np.int32)
    codes = aligned_zeros((len(lanes), m), bins.codes.dtype)
    for lane_index, features in enumerate(lanes):
        if len(features) == 1:
            lane[features[0]] = lane_index
            codes[lane_index] = bins.codes[used[features[0]]]
            continue
        cell = 1
        for f in features:
            lane[f] = lane_index
            cell0[f] = cell
            mode[f] = fields["usual"][f]
            column = bins.codes[used[f]]
            others = np.flatnonzero(column != mode[f])
            codes[lane_index, others] = column[others] + cell
            cell += int(cells[f])
    lane_cells = np.zeros(len(lanes), dtype=np.int32)
    np.maximum.at(lane_cells, lane, cell0 + cells)
    lane_ptr = np.concatenate(([0], np.cumsum([len(features) for features in lanes])))
    return Columns(
        n_rows=m,
        codes=codes,
        lane=lane,
        cell0=cell0,
        mode=mode,
        lane_cells=lane_cells,
        lane_ptr=lane_ptr.astype(np.int32),
        lane_feature=np.array([f for features in lanes for f in features], dtype=np.int32),
        **fields,
        levels={f: levels[column] for f, column in enumerate(used.tolist()) if column in levels},
    )


def _plan(codes, fields, mode_rows, levels, m, comm):
    """Plan the features of every lane. Lanes of one tile are chosen so that it can skip rows."""
    has_missing = fields["has_missing"]
    n_bins = fields["n_bins"]
    has_byte_codes = codes.itemsize == 1
    bundles = []
    if has_byte_codes and m >= BUNDLE_ROWS:
        bundles = _bundles(codes, fields, mode_rows, levels, m, comm)
    plain = np.ones(len(n_bins), dtype=bool)
    plain[[f for bundle in bundles for f in bundle]] = False
    is_skewed = plain & (mode_rows >= ALIKE * m) & (has_missing == 0)
    rest = np.flatnonzero(plain & ~is_skewed)
    rest = rest[np.lexsort((rest, n_bins[rest], has_missing[rest]))]
    skewed = np.flatnonzero(is_skewed)
    if comm.size == 1 and m >= SKIPPING_ROWS and len(skewed) > LANES:
        skewed = _alike(codes, fields, skewed)
    lanes = [[int(f)] for f in skewed] + [[f] for f in rest[has_missing[rest] == 0].tolist()]
    missing = [[f] for f in rest[has_missing[rest] != 0].tolist()]
    last = lanes[len(lanes) // LANES * LANES :]
    if missing and has_byte_codes and any(n_bins[f] == 256 for (f,) in last):
        lanes += [[]] * (-len(lanes) % LANES)  # no code is left for missing values in this tile
    return lanes + missing + bundles


def _bundles(codes, fields, mode_rows, levels, m, comm):
    """Bundle features with few bins so that no row, of all m, has two features of a bundle outside their modes."""
    cells = fields["n_bins"] + fields["has_missing"]
    ordered = ~np.isin(fields["column"], list(levels))
    candidates = np.flatnonzero((mode_rows >= BUNDLED * m) & (cells <= BUNDLED_BINS) & ordered)
    candidates = candidates[np.argsort(mode_rows[candidates], kind="stable")]
    bundles = []
    room = []
    if comm.size == 1:
        apart = _Apart(codes, fields, candidates)
    else:
        apart = _ApartForAll(codes, fields, candidates, comm)
    for f in candidates[: apart.most].tolist():
        apart.look_at(f)
        for b in range(max(0, len(bundles) - BUNDLES_TRIED), len(bundles)):
            if room[b] >= cells[f] and apart.excludes(bundles[b], b):
                break
        else:
            b = len(bundles)
            bundles.append([])
            room.append(254)  # code 0, and one for the missing values of the tile
        bundles[b].append(f)
        apart.put_into(b)
        room[b] -= cells[f]
    return [sorted(bundle) for bundle in bundles if len(bundle) > 1]


class _Apart:
    """Checks whether a feature is in its mode wherever a feature of a bundle is not."""

    most = None

    def __init__(self, codes, fields, candidates):
        self._codes = codes
        self._fields = fields
        self._taken = np.zeros((len(candidates), codes.shape[1]), dtype=bool)

    def look_at(self, f):
        """Select the feature for the following questions."""
        self._rows = np.flatnonzero(
            self._codes[self._fields["column"][f]] != self._fields["usual"][f]
        )

    def excludes(self, bundle, b):
        """Whether no feature of bundle ``b`` leaves its mode in a row where the selected feature does."""
        return not self._taken[b][self._rows].any()

    def put_into(self, b):
        """Add the selected feature to a bundle."""
        self._taken[b][self._rows] = True


class _ApartForAll:
    """`_Apart` for the rows of all workers: one message covers all pairs of features."""

    most = BUNDLED_APART

    def __init__(self, codes, fields, candidates, comm):
        candidates = candidates[: self.most]
        self._place = {f: j for j, f in enumerate(candidates.tolist())}
        n = len(candidates)
        bits = np.array(
            [np.packbits(codes[fields["column"][f]] != fields["usual"][f]) for f in candidates],
            dtype=np.uint8,
        )
        both = np.zeros((n, n), dtype=np.int64)
        for j in range(n):
            both[j, j + 1 :] = (bits[j + 1 :] & bits[j]).any(axis=1)
        self._both = comm.maximum(both) if n else both
        self._both += self._both.T

    def look_at(self, f):
        """Select the feature for the following questions."""
        self._f = self._place[f]

    def excludes(self, bundle, b):
        """Whether no feature of the bundle leaves its mode in a row where the selected feature does."""
        return not self._both[self._f, [self._place[f] for f in bundle]].any()

    def put_into(self, b):
        """Do nothing: all pairs of features have been compared."""


def _alike(codes, fields, features):
    """Order features so that, as far as possible, every 16 leave their modes in the same rows."""
    step = -(-codes.shape[1] // max(64, ALIKE_SAMPLE // max(len(features), 1)))
    outside = codes[fields["column"][features], ::step] != fields["usual"][features, None]
    left = np.ones(len(features), dtype=bool)
    order = []
    for j in range(len(features)):
        if j % LANES == 0:  # a new tile
            is_free = np.ones(outside.shape[1], dtype=bool)  # rows that the tile need not count
            n_added = outside.sum(axis=1, dtype=np.int64)  # how many of them a feature would add
            pick = int(np.argmax(left))
        else:
            pick = int(np.argmin(np.where(left, n_added, outside.shape[1] + 1)))
        left[pick] = False
        counted = outside[pick] & is_free
        is_free &= ~counted
        n_added -= outside[:, counted].sum(axis=1, dtype=np.int64)
        order.append(features[pick])
    return order


def tiles_of(columns):
    """Create `Tiled`, with lanes stored row by row."""
    m = columns.n_rows
    n_tiles = -(-columns.n_lanes // LANES)
    dtype = columns.codes.dtype.type
    tiles = columns.zeros((n_tiles, m, LANES), dtype)
    n_lanes, n_codes, missing, skip = np.zeros((4, n_tiles), dtype=np.int32)
    mode = np.zeros((n_tiles, LANES), dtype=np.int32)
    bits = np.zeros((-(-n_tiles // 8), m), dtype=np.uint8)
    lanes = np.split(columns.lane_feature, columns.lane_ptr[1:-1]) if n_tiles else []
    for t in range(n_tiles):
        members = lanes[LANES * t : LANES * (t + 1)]
        single = [features[0] if len(features) == 1 else -1 for features in members]
        plain = [f for f in single if f >= 0]
        n_lanes[t] = sum(len(features) > 0 for features in members)
        missing[t] = max((columns.has_missing[f] for f in plain), default=0)
        bins_of_plain = [int(columns.n_bins[f]) for f in plain]
        cells_of_bundles = [
            int(columns.lane_cells[LANES * t + k]) for k, f in enumerate(single) if f < 0
        ]
        rows = max([1, *bins_of_plain, *cells_of_bundles])
        n_codes[t] = rows + missing[t]
        for k, f in enumerate(single):
            column = columns.codes[LANES * t + k]
            if f >= 0:
                mode[t, k] = rows if columns.usual[f] == columns.n_bins[f] else columns.usual[f]
                if columns.has_missing[f]:
                    column = np.where(column == columns.n_bins[f], dtype(rows), column)
            tiles[t, :, k] = column
        if m >= SKIPPING_ROWS and len(members) > LANES // 2:
            counted = (tiles[t] != mode[t].astype(dtype)).any(axis=1)
            if counted.mean() <= COUNTED:
                skip[t] = 1
                bits[t // 8] |= counted.astype(np.uint8) << np.uint8(t % 8)
    first = np.concatenate(([0], np.cumsum(n_codes.astype(np.int64) * LANES)))
    return Tiled(
        **vars(columns),
        tiles=tiles,
        tile_lanes=n_lanes,
        tile_rows=n_codes,
        tile_missing=missing,
        tile_skip=skip,
        tile_mode=mode,
        counted=bits if skip.any() else None,
        tile_cell=np.append(first, first[-1] + columns.n_sparse),
    )


def entries_of(bins, m):
    """Create `Columns` as sparse entries, from `SparseBins` of m rows."""
    has_missing = bins.n_missing > 0
    used = np.flatnonzero(((bins.n_bins > 1) | has_missing) & (bins.n_missing < m))
    cuts = [bins.cuts[f] for f in used]
    fields = _features(
        bins.feature[used], bins.n_bins[used], has_missing[used], usual=bins.mode[used], cuts=cuts
    )
    sizes = (fields["n_bins"] + fields["has_missing"]).astype(np.int64)
    n_cells = int(sizes.sum())
    if n_cells > np.iinfo(np.int32).max:
        raise ValueError(
            f"X has {n_cells} bins in total, but the limit is 2^31; use a smaller max_bins "
            "or fewer columns"
        )
    cell0 = (np.cumsum(sizes) - sizes).astype(np.int32)
    place_of = np.full(len(bins.n_bins), -1)
    place_of[used] = np.arange(len(used))
    place = place_of[bins.column]
    kept = slice(None) if len(used) == len(place_of) else place >= 0
    rows = bins.row[kept]
    cells = cell0[place[kept]] + bins.bin[kept]
    by_row = np.argsort(rows, kind="stable")  # within a row, cells ascend because columns do
    return Columns(
        n_rows=m,
        codes=np.zeros((0, m), dtype=np.uint8),
        lane=np.full(len(used), -1, dtype=np.int32),
        cell0=cell0,
        mode=fields["usual"],
        lane_ptr=np.zeros(1, dtype=np.int32),
        lane_feature=np.arange(len(used), dtype=np.int32),
        lane_cells=np.zeros(0, dtype=np.int32),
        row_cell=cells[by_row].astype(np.int32),
        n_sparse=n_cells,
        row_ptr=np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=m)))).astype(np.int64),
        **fields,
    )
