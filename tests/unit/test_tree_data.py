"""Binned data for trees: codes, tiles, bundles, sparse cells and thresholds agree with each other and the features."""

import numpy as np
import pytest
import scipy.sparse
from reference.stumps import candidates

from pymcboost import ABCMartClassifier
from pymcboost._kernels import bins as _bins
from pymcboost.data import tree_data, tree_layouts
from pymcboost.data.rows import LARGEST_THRESHOLD
from pymcboost.data.tree_data import Quantiser, TreeData
from pymcboost.data.tree_layouts import LANES, SKIPPING_ROWS


def random_columns(m, rng):
    """Columns of all kinds, one-hot blocks among them."""
    code = rng.integers(-2, 12, m)
    return np.column_stack(
        [
            rng.integers(0, 3, m),
            rng.normal(size=m).round(1),
            np.where(rng.random(m) < 0.85, 7, rng.integers(0, 30, m)),
            np.full(m, 3.5),
            np.where(rng.random(m) < 0.3, np.nan, rng.integers(0, 20, m)),
            np.full(m, np.nan),
            np.where(rng.random(m) < 0.9, np.nan, rng.integers(0, 5, m)),
            np.where(rng.random(m) < 0.2, np.nan, 1.0),
            rng.choice([-3.4e38, -1.0, 0.0, 3.4e38], m),
            rng.choice([-0.0, 0.0, 1e-45, -1e-45], m),
            np.where(code[:, None] == np.arange(12), rng.integers(1, 4, (m, 1)), 0),
            np.where(code[:, None] == np.arange(-2, 3), np.nan, 4.0),
            np.where(code[:, None] == np.arange(6), 0, rng.choice([5.0], (m, 1))),
        ]
    )


def skipping_columns(m, rng):
    away = rng.random(m) < 0.3
    skewed = np.where(away[:, None], rng.integers(0, 60, (m, 50)), rng.integers(3, 50, 50))
    return np.hstack(
        [
            random_columns(m, rng),
            skewed,
            np.where(away[:, None], rng.integers(0, 9, (m, 12)), np.nan),
        ]
    )


def make(X, K=3, weight=None, **options):
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(K), rng.integers(0, K, X.shape[0] - K)])
    return TreeData(
        X, y, K, sample_weight=np.ones(X.shape[0]) if weight is None else weight, **options
    )


def bins_by_threshold(data, X):
    """Bins of all features (n_used, m) by counting thresholds below the values; n_bins for missing ones."""
    result = np.empty((len(data.column), data.n_rows), dtype=int)
    for f, column in enumerate(data.column):
        values = X[data.rows, column].astype(np.float32)
        cuts = data.columns.threshold[
            data.columns.threshold_ptr[f] : data.columns.threshold_ptr[f + 1]
        ]
        result[f] = np.where(
            np.isnan(values), data.columns.n_bins[f], (values[:, None] > cuts).sum(axis=1)
        )
    return result


def bins_by_code(data):
    """The same, from the lanes and the sparse cells."""
    result = np.empty((len(data.column), data.n_rows), dtype=int)
    for f in range(len(data.column)):
        cells = data.columns.n_bins[f] + data.columns.has_missing[f]
        if data.columns.lane[f] >= 0:
            code = data.columns.codes[data.columns.lane[f]].astype(int) - data.columns.cell0[f]
            inside = (code >= 0) & (code < cells)
            assert data.columns.mode[f] >= 0 or inside.all()
            assert data.columns.mode[f] < 0 or not (code[inside] == data.columns.mode[f]).any()
            result[f] = np.where(inside, code, data.columns.mode[f])
            continue
        result[f] = data.columns.mode[f]
        row = np.repeat(np.arange(data.n_rows), np.diff(data.columns.row_ptr))
        cell = data.columns.row_cell - data.columns.cell0[f]
        inside = (cell >= 0) & (cell < cells)
        assert len(np.unique(row[inside])) == inside.sum()
        assert not (cell[inside] == data.columns.mode[f]).any()
        result[f, row[inside]] = cell[inside]
    return result


DATA = {
    "small": lambda rng: random_columns(60, rng),
    "bundled": lambda rng: random_columns(1500, rng),
    "two bytes": lambda rng: np.column_stack(
        [random_columns(1200, rng), rng.normal(size=(1200, 2))]
    ),
    "lossy": lambda rng: np.column_stack([random_columns(9000, rng), rng.normal(size=(9000, 2))]),
    "skipping": lambda rng: skipping_columns(SKIPPING_ROWS + 10, rng),
}


@pytest.fixture(params=DATA)
def dense(request):
    X = DATA[request.param](np.random.default_rng(1))
    return request.param, X, make(X)


def test_thresholds_reproduce_the_codes(dense):
    _, X, data = dense
    np.testing.assert_array_equal(bins_by_code(data), bins_by_threshold(data, X))


def test_the_examples_are_what_they_are_called(dense):
    name, _, data = dense
    assert (data.columns.code_bytes == 2) == (name == "two bytes")
    assert (np.diff(data.columns.lane_ptr).max() > 1) == (name in ("bundled", "lossy", "skipping"))
    assert (data.tiles.counted is not None) == (name == "skipping")
    assert (data.dtype == np.float32) == (name == "lossy")


def test_thresholds_are_midpoints(dense):
    """All of them where nothing is lost; bins are never empty and never more than a byte holds."""
    name, X, data = dense
    for f, column in enumerate(data.column):
        cuts = data.columns.threshold[
            data.columns.threshold_ptr[f] : data.columns.threshold_ptr[f + 1]
        ]
        every = [
            threshold for threshold, nan_left in candidates(X[data.rows, column]) if not nan_left
        ]
        if name == "lossy" and len(every) > 254:
            assert 200 < data.columns.n_bins[f] <= 256 - data.columns.has_missing[f]
            assert set(cuts) <= set(every)
            # bins of about equal size
            assert (
                np.bincount(bins_by_code(data)[f]).max() < 3 * data.n_rows / data.columns.n_bins[f]
            )
        else:
            np.testing.assert_array_equal(cuts, np.array(every, dtype=np.float32))
        assert (np.diff(cuts) > 0).all()
        assert len(cuts) == data.columns.n_bins[f] - 1 + data.columns.has_missing[f]
        assert (cuts[-1] == LARGEST_THRESHOLD) == data.columns.has_missing[f]


def test_columns_in_use(dense):
    _, X, data = dense
    used = [f for f in range(X.shape[1]) if len(candidates(X[:, f]))]
    np.testing.assert_array_equal(data.column, used)
    np.testing.assert_array_equal(data.columns.has_missing, np.isnan(X[:, used]).any(axis=0))


def test_tiles_are_the_lanes_row_by_row(dense):
    _, _, data = dense
    assert data.tiles.tiles.shape == (data.tiles.n_tiles, data.n_rows, LANES)
    assert data.tiles.tiles.ctypes.data % 64 == 0
    assert data.columns.codes.shape == (data.columns.n_lanes, data.n_rows)
    dtype = np.uint8 if data.columns.code_bytes == 1 else np.uint16
    assert data.tiles.tiles.dtype == data.columns.codes.dtype == dtype
    for lane in range(data.columns.n_lanes):
        t, k = divmod(lane, LANES)
        features = data.columns.lane_feature[
            data.columns.lane_ptr[lane] : data.columns.lane_ptr[lane + 1]
        ]
        tile = data.tiles.tiles[t, :, k].astype(int)
        code = data.columns.codes[lane].astype(int)
        assert (len(features) > 0) == (k < data.tiles.tile_lanes[t])
        assert (data.columns.lane[features] == lane).all()
        if len(features) == 1 and data.columns.has_missing[features[0]]:
            missing = code == data.columns.n_bins[features[0]]
            assert data.tiles.tile_missing[t]
            assert (tile[missing] == data.tiles.tile_rows[t] - 1).all()
            tile, code = tile[~missing], code[~missing]
        np.testing.assert_array_equal(tile, code)
        assert code.max(initial=0) < data.tiles.tile_rows[t] - data.tiles.tile_missing[
            t
        ] or not len(features)
    sizes = np.diff(data.tiles.tile_cell)
    np.testing.assert_array_equal(sizes[:-1], data.tiles.tile_rows * LANES)
    assert sizes[-1] == 0
    assert data.tiles.n_cells == data.tiles.tile_cell[-1]


def test_every_feature_has_one_place(dense):
    _, _, data = dense
    assert sorted(data.columns.lane_feature) == list(range(len(data.column)))
    for lane in range(data.columns.n_lanes):
        features = data.columns.lane_feature[
            data.columns.lane_ptr[lane] : data.columns.lane_ptr[lane + 1]
        ]
        if len(features) == 1:
            assert data.columns.mode[features[0]] == -1
            assert data.columns.cell0[features[0]] == 0
        if len(features) < 2:
            continue
        c = data.columns
        cells = [range(c.cell0[f], c.cell0[f] + c.n_bins[f] + c.has_missing[f]) for f in features]
        together = [c for part in cells for c in part]
        assert len(together) == len(set(together))
        assert min(together) == 1
        assert max(together) <= 255


def test_bundled_features_exclude_each_other(dense):
    name, X, data = dense
    bins = bins_by_threshold(data, X)
    for lane in range(data.columns.n_lanes):
        features = data.columns.lane_feature[
            data.columns.lane_ptr[lane] : data.columns.lane_ptr[lane + 1]
        ]
        if len(features) < 2:
            continue
        away = bins[features] != data.columns.mode[features, None]
        assert away.sum(axis=0).max() == 1
        np.testing.assert_array_equal(data.columns.codes[lane] == 0, ~away.any(axis=0))
        assert (away.mean(axis=1) <= 1 - tree_layouts.BUNDLED).all()


def test_columns_that_meet_do_not_share_a_lane():
    """One row in which two columns leave their modes keeps them apart."""
    m = 1000
    X = np.zeros((m, 2))
    X[:100, 0] = 1
    X[100:200, 1] = 1
    assert (make(X).columns.lane == 0).all()
    X[100, 0] = 1
    data = make(X)
    assert len(set(data.columns.lane)) == 2
    assert (data.columns.mode == -1).all()
    assert len(set(make(X[:400]).columns.lane)) == 2  # few rows


def test_rows_that_tiles_skip(dense):
    """A tile that skips rows counts those in which some lane is not in its mode; other tiles have no marks."""
    name, _, data = dense
    tiles = data.tiles
    for t in range(tiles.n_tiles):
        is_counted = None
        if tiles.counted is not None:
            is_counted = np.unpackbits(
                tiles.counted[t // 8 : t // 8 + 1], axis=0, bitorder="little"
            )[t % 8]
        outside_mode = (tiles.tiles[t] != tiles.tile_mode[t]).any(axis=1)
        if tiles.tile_skip[t]:
            np.testing.assert_array_equal(is_counted, outside_mode)
            assert outside_mode.mean() <= tree_layouts.COUNTED
            assert tiles.tile_lanes[t] > LANES // 2
        elif is_counted is not None:
            assert not is_counted.any()
    if name == "skipping":
        assert 0 < tiles.tile_skip.sum() < tiles.n_tiles


def test_missing_values_may_be_what_a_tile_skips():
    rng = np.random.default_rng(11)
    m = SKIPPING_ROWS
    data = make(
        np.where(rng.random((m, 1)) < 0.3, rng.integers(0, 5 + np.arange(16), (m, 16)), np.nan)
    )
    assert data.tiles.tile_skip.tolist() == [1]
    assert (data.tiles.tile_mode[0] == data.tiles.tile_rows[0] - 1).all()


def test_more_tiles_than_bits_in_a_byte():
    rng = np.random.default_rng(3)
    m = SKIPPING_ROWS
    d = 16 * 66
    X = np.where(rng.random((m, 1)) < 0.3, rng.integers(0, 5, (m, d)), 2).astype(np.float32)
    data = make(X)
    assert data.tiles.counted.shape == (9, m)
    assert data.tiles.tile_skip.sum() > 64
    for t in (0, 7, 8, 63, 64, 65):
        away = (data.tiles.tiles[t] != data.tiles.tile_mode[t]).any(axis=1)
        bit = data.tiles.counted[t // 8] >> np.uint8(t % 8) & np.uint8(1)
        np.testing.assert_array_equal(bit.astype(bool), away)


@pytest.mark.parametrize("m", [60, 1500, 9000])
def test_sparse_cells(m):
    """The bins of dense columns, in cells of the rows outside the mode; entries of a row ascend."""
    rng = np.random.default_rng(4)
    X = random_columns(m, rng)
    X = np.where(rng.random(X.shape) < 0.5, 0.0, X)
    expected = make(X)
    for store in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        data = make(store(X))
        assert (data.columns.lane == -1).all()
        assert (data.columns.mode >= 0).all()
        assert data.tiles.n_tiles == 0
        np.testing.assert_array_equal(data.column, expected.column)
        np.testing.assert_array_equal(data.columns.threshold, expected.columns.threshold)
        np.testing.assert_array_equal(bins_by_code(data), bins_by_threshold(data, X))
        sizes = data.columns.n_bins + data.columns.has_missing
        np.testing.assert_array_equal(data.columns.cell0, np.cumsum(sizes) - sizes)
        assert data.tiles.n_cells == sizes.sum()
        for i in range(0, m, 7):
            cells = data.columns.row_cell[data.columns.row_ptr[i] : data.columns.row_ptr[i + 1]]
            assert (np.diff(cells) > 0).all()
        assert data.columns.row_ptr[-1] == len(data.columns.row_cell)


@pytest.mark.parametrize("repeats", [1, 20])
def test_sparse_columns_with_many_values(repeats):
    """Small data keep every value; in large data bins are merged, the zeros alone in theirs."""
    rng = np.random.default_rng(5)
    X = np.where(rng.random((1500, 2)) < 0.4, 0.0, rng.normal(size=(1500, 2)))
    X[rng.random(1500) < 0.1, 1] = np.nan
    X = np.concatenate([X] * repeats)
    data = make(scipy.sparse.csr_matrix(X))
    np.testing.assert_array_equal(bins_by_code(data), bins_by_threshold(data, X))
    if repeats == 1:
        np.testing.assert_array_equal(data.columns.threshold, make(X).columns.threshold)
        assert data.columns.n_bins.min() > 700
        return
    for max_bins in (2, 3, 4, 5, 16, 255, 256):
        data = make(scipy.sparse.csr_matrix(X), max_bins=max_bins)
        bins = bins_by_threshold(data, X)
        np.testing.assert_array_equal(bins_by_code(data), bins)
        assert (data.columns.n_bins <= max(max_bins, 3)).all()
        assert (data.columns.n_bins >= min(max_bins, 250) - 3).all()
        for f in range(2):
            zero = X[data.rows, f] == 0
            assert (bins[f][zero] == data.columns.mode[f]).all()
            assert (bins[f][~zero] != data.columns.mode[f]).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_over_many_magnitudes_lose_no_threshold(sparse):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.permutation(60)[:, None] + 1.0
        weight = 10.0 ** rng.uniform(-16, 16, 60)
        assert make(
            scipy.sparse.csr_matrix(X) if sparse else X, weight=weight
        ).columns.n_bins.tolist() == [60]


def test_rows_without_weight_make_no_thresholds():
    X = np.arange(40.0)[:, None] % 10
    weight = (np.arange(40) % 10 < 4).astype(float)
    data = make(X, weight=weight)
    np.testing.assert_array_equal(data.columns.threshold, [0.5, 1.5, 2.5])
    assert data.n_rows == 16
    assert (data.weight == 1).all()


def test_max_bins_is_met():
    X = np.random.default_rng(7).normal(size=(9000, 2))
    X[::9, 1] = np.nan
    for max_bins in (2, 3, 17, 255, 256):
        data = make(X, max_bins=max_bins)
        assert data.columns.n_bins.tolist() == [max_bins, max_bins - 1]
        np.testing.assert_array_equal(bins_by_code(data), bins_by_threshold(data, X))


def test_no_column_at_all():
    data = make(np.full((30, 3), 2.0))
    assert len(data.column) == data.tiles.n_tiles == data.tiles.n_cells == 0
    data = make(scipy.sparse.csr_matrix((30, 3)))
    assert len(data.column) == data.tiles.n_cells == 0


def test_any_number_of_threads_gives_the_same_data():
    X = DATA["skipping"](np.random.default_rng(8))
    one = make(X)
    two = make(X, n_threads=3)
    for name in (
        "codes",
        "tiles",
        "counted",
        "threshold",
        "lane",
        "cell0",
        "mode",
        "tile_mode",
        "lane_feature",
    ):
        np.testing.assert_array_equal(getattr(one.tiles, name), getattr(two.tiles, name))


def test_infinite_features_are_refused():
    X = np.zeros((20, 3))
    X[7, 1] = np.inf
    for made in (X, scipy.sparse.csr_matrix(X)):
        with pytest.raises(ValueError, match=r"X\[7, 1\] is infinite"):
            make(made)


def test_too_little_memory_is_said_before_any_is_taken(monkeypatch):
    X = np.random.default_rng(9).normal(size=(3000, 40))
    y = np.arange(3000) % 3
    monkeypatch.setattr("pymcboost.data.rows.available_memory", lambda: 100_000)
    for made in (X, scipy.sparse.csr_matrix(X)):
        with pytest.raises(MemoryError, match="3000 rows, 40 features and 3 classes"):
            make(made)
        with pytest.raises(MemoryError):
            ABCMartClassifier().fit(made, y)
    monkeypatch.setattr("pymcboost.data.rows.available_memory", lambda: None)
    assert make(X).n_rows == 3000


def test_histograms_are_pooled_while_they_fit(monkeypatch):
    data = make(random_columns(60, np.random.default_rng(0)))
    monkeypatch.setattr(tree_data, "POOL_BYTES", 8 * data.tiles.n_cells * 20)
    assert data.pools(1, 20)
    assert not data.pools(1, 21)
    assert not data.pools(2, 20)


@pytest.mark.parametrize(
    ("counted", "cell_words", "g", "h", "n"), [(False, 1, 31, 31, 31), (True, 2, 46, 38, 24)]
)
def test_units(counted, cell_words, g, h, n):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(500, 1))
    same = Quantiser(make(X, weight=np.full(500, 0.5)), counted, 2.0)
    assert (len(same.weight), same.per_count, same.least) == (0, 1.0, 2)
    weight = rng.uniform(0.1, 3, 500)
    data = make(X, weight=weight)
    units = Quantiser(data, counted, 2.0)
    assert (units.cell_words, units.count_bits) == (cell_words, 24 if counted else 0)
    assert 2.0**n / 4 < units.per_count * weight.sum() < 2.0**n - 500
    assert units.least == pytest.approx(2 * units.per_count, rel=1e-3)
    assert Quantiser(data, counted).least == 1
    assert 2.0**g * 0.99 < units.limit_g <= 2.0**g - (1500 if g == 31 else 0)
    assert 2.0**h * 0.99 < units.limit_h <= 2.0**h


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("m", [1 << 20, (1 << 23) - 1, 1 << 23, 12_345_678, 1 << 26, 1 << 27])
def test_counts_of_many_rows(m, same):
    """A cell holds the sums of h and of the counts of all rows, rounded by a unit each."""

    class Rows:
        total_rows = m
        total_weight = 1.5 * m
        weight_ends = (1.5 if same else 1.0, 1.5)
        weight_unit = 1.0
        weight = np.ones(1)

    alone = Quantiser(Rows, False, 5.0)
    assert alone.cell_words == 1
    assert alone.limit_g + 2 * m <= 2**31
    units = Quantiser(Rows, True, 5.0)
    assert units.count_bits == (24 if m < 1 << 23 else 31)
    n = m if same else units.per_count * 1.5 * m + m
    assert 2 * m <= n + m <= 2**units.count_bits
    assert (units.limit_h + m) * 2**units.count_bits + n < 2.0**63
    assert units.limit_h >= m


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("m", [0, 1, 3000])
def test_known_cuts(m, order, dtype):
    """Codes are the cuts below a value, whatever the type and order of X; missing values come last."""
    rng = np.random.default_rng(0)
    d = 21
    X = np.asarray(
        rng.integers(-9, 9, (m + 5, d)) + rng.random((m + 5, d)), order=order, dtype=dtype
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    rows = rng.permutation(m + 5)[:m]
    n_cuts = rng.integers(0, 300, d)
    n_cuts[:2] = 0, 255
    values = X.astype(np.float32)
    values = np.append(values[~np.isnan(values)], np.arange(20, 2000, dtype=np.float32))
    cuts = [np.sort(rng.choice(values, n, replace=False)) for n in n_cuts]
    start = np.concatenate(([0], np.cumsum(n_cuts)))
    flat = np.concatenate([*cuts, np.zeros(1, np.float32)])
    for threads in (1, 3):
        codes = np.empty((d, m), dtype=np.uint16)
        counts = np.zeros((d, 302), dtype=np.int64)
        _bins.code_columns(
            X, rows, flat, start=start, codes=codes, counts=counts, n_threads=threads
        )
        read = np.empty((d - 4, m), dtype=np.float32)
        _bins.read_columns(X, rows, 4, out=read)
        np.testing.assert_array_equal(read, X[rows, 4:].T.astype(np.float32))
        for f in range(d):
            column = X[rows, f].astype(np.float32)
            expected = np.where(np.isnan(column), n_cuts[f] + 1, np.searchsorted(cuts[f], column))
            np.testing.assert_array_equal(codes[f], expected)
            np.testing.assert_array_equal(counts[f], np.bincount(expected, minlength=302))
