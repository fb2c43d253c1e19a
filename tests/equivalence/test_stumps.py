"""The compiled stump search against its NumPy twin."""

import numpy as np
import pytest
import scipy.sparse
from reference.stumps import (
    best_stump,
    candidates,
    gradient_of,
    outputs,
    side_of_missing,
    whole_weights,
)

from pymcboost.comm import Alone
from pymcboost.data import stump_scans
from pymcboost.data.stump_data import DividedData, TrainingData
from pymcboost.data.stump_layouts import Lists, Sorted, Tiles
from pymcboost.learners import SharedStump


def column(kind, rng, m):
    if kind == "few":
        return rng.integers(0, 3, m)
    if kind == "ties":
        return rng.integers(0, 40, m)
    if kind == "continuous":
        return rng.normal(size=m)
    if kind == "skewed":
        return np.where(rng.random(m) < 0.85, 7.0, rng.integers(0, 30, m))
    if kind == "constant":
        return np.full(m, 3.5)
    if kind == "missing":
        return np.where(rng.random(m) < 0.3, np.nan, rng.integers(0, 20, m))
    if kind == "all missing":
        return np.full(m, np.nan)
    if kind == "mostly missing":
        return np.where(rng.random(m) < 0.9, np.nan, rng.normal(size=m))
    if kind == "huge":
        return rng.choice([-3.4e38, -1.0, 0.0, 3.4e38], m)
    if kind == "signed zero":
        return rng.choice([-0.0, 0.0, 1e-45, -1e-45], m)
    raise AssertionError(kind)


KINDS = [
    "few",
    "ties",
    "continuous",
    "skewed",
    "constant",
    "missing",
    "all missing",
    "mostly missing",
    "huge",
    "signed zero",
]


def setting(X, y, K, rng, weights=None, integers=False, kind=TrainingData):
    """Training data and a random gradient in both layouts."""
    data = kind(X, y, K, np.ones(len(y)) if weights is None else weights, comm=Alone())
    u = (
        rng.integers(0, 50, (data.n_rows, K)).astype(float)
        if integers
        else rng.exponential(size=(data.n_rows, K))
    )
    a = gradient_of(u, data.y)
    blocks = data.gradient_buffer()
    for r in range(K):
        blocks[r // data.lanes, :, r % data.lanes] = a[:, r]
    # what the kernel sees, after rounding
    seen = np.stack([blocks[r // data.lanes, :, r % data.lanes] for r in range(K)], axis=1).astype(
        np.float64
    )
    return data, blocks, seen


def check_against_twin(X, data, blocks, a, exactly=False, n_threads=1):
    used = (X.toarray() if scipy.sparse.issparse(X) else np.asarray(X))[data.rows].astype(
        np.float32
    )
    allowed = {
        f: set(t)
        for store in data.stores
        for f, t in zip(store.feature, store.thresholds, strict=True)
    }
    for f in range(used.shape[1]):
        every = {threshold for threshold, _ in candidates(used[:, f])}
        # Lossless unless the data are large and the column has more values than bins.
        if (data.dtype == np.float64 and data.sorts) or len(np.unique(used[:, f])) <= 255:
            assert allowed.get(f, set()) == every
        else:
            assert 100 < len(allowed[f]) < 256
    edge, feature, threshold, nan_left, cls, signed = best_stump(
        used, a, allowed, weight=data.weight
    )
    fit = SharedStump(data, n_threads).fit(blocks)
    if edge == 0:
        assert fit is None
        return
    h = outputs(used[:, fit.feature], fit.threshold, fit.nan_left)
    np.testing.assert_array_equal(fit.h, h * fit.polarity)
    missing = np.isnan(used[:, fit.feature])
    assert fit.nan_left == side_of_missing(
        whole_weights(data.weight), h < 0, missing, nan_left=fit.nan_left
    )
    true_edge = float(fit.h @ a[:, fit.cls])
    np.testing.assert_allclose(fit.edge, true_edge, rtol=1e-5)
    assert true_edge >= edge * (1 - 1e-5)
    if exactly:
        assert (fit.feature, fit.threshold, fit.nan_left, fit.cls, fit.polarity) == (
            feature,
            threshold,
            nan_left,
            cls,
            np.sign(signed),
        )


@pytest.mark.parametrize("K", [2, 3, 4, 5, 8, 10, 17, 40])
@pytest.mark.parametrize("m", [20, 700, 3000])
@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.part(5)
def test_mixed_columns(K, m, integers):
    rng = np.random.default_rng(K * m)
    X = np.column_stack([column(kind, rng, m) for kind in KINDS])
    data, blocks, a = setting(X, rng.integers(0, K, m), K, rng=rng, integers=integers)
    check_against_twin(X, data, blocks, a=a, exactly=integers)


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize(
    ("K", "m"), [(2, 20), (3, 700), (5, 3000), (8, 9000), (10, 700), (17, 3000), (40, 1000)]
)
def test_sums_of_workers(K, m, narrow, monkeypatch):
    """The histograms are the integers of the twin, all of them, and the stump is the best."""
    if not narrow:
        monkeypatch.setattr(stump_scans, "NARROW_ROWS", 0)
    rng = np.random.default_rng(K * m)
    X = np.column_stack([column(kind, rng, m) for kind in KINDS])
    data, blocks, a = setting(X, rng.integers(0, K, m), K, rng=rng, kind=DividedData)
    check_against_twin(X, data, blocks, a=a, n_threads=2)
    scan = data.scan(data, K, 2)
    unit = scan._unit(blocks)
    size = np.abs(a).sum(axis=0).max() / unit
    assert 2.0 ** (scan.bits - 1.01) < size < 2.0 ** (scan.bits + 0.01)
    scan(blocks, SharedStump(data, 2)._targets)
    whole = np.rint(a / unit)
    used = np.asarray(X)[data.rows].astype(np.float32)
    rows = 0
    for store, at in zip(data.stores, scan.cell_rows, strict=True):
        for f, thresholds, bins, first in zip(
            store.feature, store.thresholds, store.bins, at, strict=True
        ):
            missing = np.isnan(used[:, f])
            values = thresholds[: len(thresholds) - missing.any()]
            bin_ = np.where(missing, bins - 1, np.searchsorted(values, used[:, f]))
            want = np.zeros((bins, K))
            np.add.at(want, bin_, whole)
            np.testing.assert_array_equal(scan.cells[first : first + bins], want)
            rows += bins
    assert rows == len(scan.cells)
    assert scan.cells.dtype == (np.int32 if narrow else np.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_kind_of_column(kind, dtype):
    rng = np.random.default_rng(1)
    for m in (2, 3, 65, 1500, 9000):
        X = column(kind, rng, m).astype(dtype)[:, None]
        data, blocks, a = setting(X, rng.integers(0, 6, m), 6, rng=rng, integers=True)
        check_against_twin(X, data, blocks, a=a, exactly=True)


def test_every_store_is_met():
    rng = np.random.default_rng(0)
    X = np.column_stack([column(kind, rng, 3000) for kind in KINDS])
    data, _, _ = setting(X, rng.integers(0, 6, 3000), 6, rng=rng)
    assert {type(store) for store in data.stores} == {Tiles, Lists, Sorted}
    assert {np.dtype(np.float64), np.dtype(np.float32)} == {
        data.dtype,
        setting(np.repeat(X, 20, axis=0), rng.integers(0, 6, 60000), 6, rng=rng)[0].dtype,
    }


def test_bundled_bytes():
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [
            rng.integers(0, b, 2000)
            for b in (2, 2, 2, 2, 2, 2, 2, 2, 3, 5, 16, 16, 100, 2, 2, 255, 256)
        ]
    )
    X = X.astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    data, blocks, a = setting(X, rng.integers(0, 7, 2000), 7, rng=rng, integers=True)
    (tiles,) = [store for store in data.stores if isinstance(store, Tiles)]
    assert len(tiles.feature) > 4 * len(tiles.codes)
    check_against_twin(X, data, blocks, a=a, exactly=True)
    for f in range(X.shape[1]):
        only = np.full_like(X, 0.0)
        only[:, f] = X[:, f]
        data, blocks, a = setting(only, rng.integers(0, 7, 2000), 7, rng=rng, integers=True)
        check_against_twin(only, data, blocks, a=a, exactly=True)


@pytest.mark.parametrize("density", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("with_nan", [False, True])
def test_sparse(density, with_nan):
    rng = np.random.default_rng(int(density * 100))
    X = scipy.sparse.random(
        300,
        40,
        density=density,
        format="csr",
        rng=rng,
        data_rvs=lambda n: rng.integers(-5, 5, n).astype(float),
    )
    if with_nan:
        X.data[rng.random(len(X.data)) < 0.2] = np.nan
    data, blocks, a = setting(X, rng.integers(0, 5, 300), 5, rng=rng, integers=True)
    check_against_twin(X, data, blocks, a=a, exactly=True)


def test_sparse_equals_dense():
    rng = np.random.default_rng(5)
    X = scipy.sparse.random(400, 30, density=0.2, format="csr", rng=rng)
    y = rng.integers(0, 4, 400)
    data, blocks, a = setting(X, y, 4, rng=rng)
    dense = TrainingData(X.toarray(), y, 4, sample_weight=np.ones(400))
    one, other = SharedStump(data, 1).fit(blocks), SharedStump(dense, 1).fit(blocks)
    assert (one.feature, one.threshold, one.cls, one.polarity) == (
        other.feature,
        other.threshold,
        other.cls,
        other.polarity,
    )


@pytest.mark.parametrize("m", [60, 5000])
def test_nasty_weights(m):
    rng = np.random.default_rng(8)
    X = np.column_stack([column(kind, rng, m) for kind in KINDS])
    weights = np.where(rng.random(m) < 0.3, 0.0, 10.0 ** rng.integers(-6, 6, m))
    y = rng.choice([0, 2, 3], m)  # class 1 is missing
    data, blocks, a = setting(X, y, 4, rng=rng, weights=weights)
    assert data.n_rows == (weights > 0).sum()
    check_against_twin(X, data, blocks, a=a)


def test_many_classes():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(200, 3))
    data, blocks, a = setting(X, rng.integers(0, 1000, 200), 1000, rng=rng, integers=True)
    check_against_twin(X, data, blocks, a=a, exactly=True)


def test_lossy_bins_contain_their_threshold():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(40000, 2))
    data, blocks, a = setting(X, rng.integers(0, 5, 40000), 5, rng=rng)
    assert all(isinstance(store, Tiles) for store in data.stores)
    fit = SharedStump(data, 1).fit(blocks)
    np.testing.assert_array_equal(
        fit.h, fit.polarity * outputs(X[data.rows, fit.feature], fit.threshold, fit.nan_left)
    )


def test_any_number_of_threads_gives_the_same():
    rng = np.random.default_rng(11)
    X = np.column_stack([column(kind, rng, 6000) for kind in KINDS * 3])
    data, blocks, _ = setting(X, rng.integers(0, 20, 6000), 20, rng=rng)
    fits = [SharedStump(data, n).fit(blocks) for n in (1, 2, 8)]
    assert len({(f.feature, f.threshold, f.cls, f.edge) for f in fits}) == 1


def test_infinite_value_is_refused_by_place():
    X = np.zeros((5, 3))
    X[4, 2] = 1e39
    with pytest.raises(ValueError, match=r"X\[4, 2\] is infinite or beyond the float32 range.*NaN"):
        TrainingData(X, np.array([0, 1, 0, 1, 0]), 2, sample_weight=np.ones(5))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("m", [40, 900, 4200])
@pytest.mark.part(2)
def test_either_side_of_a_split_has_its_share_of_the_weight(m, sparse):
    rng = np.random.default_rng(m)
    X = np.column_stack([column(kind, rng, m) for kind in KINDS[:8]])
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0
        X = scipy.sparse.csr_matrix(X)
    weights = rng.exponential(size=m) ** 3
    y = rng.integers(0, 3, m)
    for share in (0.01, 0.1, 0.3, 0.5) if m < 4096 else (0.1,):
        data = TrainingData(X, y, 3, sample_weight=weights, min_weight_fraction_leaf=share)
        least = share * data.weight.sum() * (1 - 1e-9)
        used = (X.toarray() if sparse else X)[data.rows].astype(np.float32)
        a = gradient_of(rng.integers(0, 50, (m, 3)).astype(float), data.y)
        blocks = data.gradient_buffer()
        blocks[0, :, :3] = a
        allowed = [
            (f, t, n)
            for f in range(X.shape[1])
            for t, n in candidates(used[:, f])
            if values_weigh_enough(used[:, f], t, data.weight, least=least)
        ]
        edges = [np.abs(outputs(used[:, f], t, n) @ a).max() for f, t, n in allowed]
        fit = SharedStump(data, 1).fit(blocks)
        if not allowed:
            assert fit is None
        elif all(store_is_exact(data, f) for f in range(X.shape[1])):
            np.testing.assert_allclose(fit.edge, max(edges), rtol=1e-9)
        else:
            assert values_weigh_enough(
                used[:, fit.feature], fit.threshold, data.weight, least=least
            )


def values_weigh_enough(x, threshold, weight, least):
    """Of the values alone, or of missing values against all others."""
    missing = np.isnan(x)
    if threshold == np.finfo(np.float32).max:
        return min(weight[missing].sum(), weight[~missing].sum()) >= least
    return min(weight[x <= threshold].sum(), weight[x > threshold].sum()) >= least


def store_is_exact(data, f):
    return data.n_rows < 6000 or not any(
        isinstance(store, Tiles) and f in store.feature for store in data.stores
    )
