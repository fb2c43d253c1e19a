"""JointBoost on categories: the best of all sets of levels for the classes that share a stump."""

import numpy as np
import pytest
from reference import classic as twin
from reference.modelreader import File

from pymcboost import JointBoostClassifier
from pymcboost._kernels import splits as kernel
from pymcboost._kernels.aligned import aligned_zeros

TIE = 1 + 1e-10


def random_sums(K, levels, rng, how):
    """First cells of the features, and by class and cell the sums of w z and of w; sample weights of the cells."""
    start = np.concatenate(([0], np.cumsum(np.array(levels) + 1)))
    shape = K, start[-1]
    w = rng.exponential(size=shape)
    if how == "huge":
        w *= 10.0 ** rng.integers(-150, 150, shape)
    z = w * rng.uniform(-1, 1, shape)
    if how == "ties":
        w, z = np.ones(shape), rng.integers(-1, 2, shape).astype(float)
    weight = rng.integers(1, 9, start[-1]).astype(float)
    if how == "zeros":
        w[:, rng.random(start[-1]) < 0.4] = 0
        w[K // 2] = 0
        z[w == 0] = 0
    missing = start[1:] - 1
    none = missing[rng.random(len(missing)) < 0.5]
    weight[none], w[:, none], z[:, none] = 0, 0, 0
    return start, np.ascontiguousarray(np.stack((z, w), axis=1)), weight


@pytest.mark.parametrize("how", ["plain", "huge", "ties", "zeros"])
@pytest.mark.parametrize("K", [2, 5, 20])
@pytest.mark.parametrize("rare", [0.0, 0.5, 1.0])
@pytest.mark.part(5)
def test_the_kernel_is_its_twin(how, K, rare):
    rng = np.random.default_rng(K)
    start, sums, weight = random_sums(K, [1, 2, 8, 70, 300], rng, how)
    is_rare = (rng.random(len(weight)) < rare).astype(np.uint8)
    chosen = sums[0] + sums[1] if K > 2 else np.zeros_like(sums[0])
    is_open = (np.arange(K) != 1).astype(np.uint8)
    least = 0.0 if how == "plain" else 20.0
    found = []
    for n_threads in (1, 3):
        levels = kernel.Levels(start, weight, is_rare, least, TIE, n_threads)
        gain = np.full((K, len(start) - 1), -7.0)
        levels.gains(chosen, sums, is_open, gain, n_threads)
        found.append(gain.tobytes())
    assert found[0] == found[1] and (gain[1] == -7).all()
    for k in {0, K // 2, K - 1} - {1}:
        together = chosen + sums[k]
        for f in range(len(start) - 1):
            its = slice(start[f], start[f + 1])
            (z, w), by = together[:, its], weight[its]
            splits = twin.joint_levels(z, w, by, is_rare[its][:-1] > 0, least)
            left = np.full(len(z), 9, dtype=np.uint8)
            value, of_z, of_w = levels.split(f, together, left)
            assert value == gain[k, f]
            if not splits:
                assert value == -1
                continue
            top = max(one[0] for one in splits)
            assert value == pytest.approx(top, rel=1e-9)
            near = [one[1:] for one in splits if one[0] >= top * (1 - 1e-9)]
            assert (left[:-1].astype(bool).tolist(), bool(left[-1])) in near
            part = left.astype(bool)
            assert by[~part].sum() >= by[part].sum() >= least
            for side, rows in enumerate((part, ~part)):
                np.testing.assert_allclose(of_z[side], z[rows].sum(), rtol=1e-9, atol=1e-12 * abs(z).sum())
                np.testing.assert_allclose(of_w[side], w[rows].sum(), rtol=1e-9, atol=1e-12 * w.sum())


@pytest.mark.parametrize("how", ["plain", "huge", "ties", "zeros"])
def test_no_set_of_levels_is_better(how):
    rng = np.random.default_rng(3)
    for n in range(1, 9):
        for _ in range(6):
            start, sums, weight = random_sums(3, [n], rng, how)
            z, w = sums.sum(axis=0)
            best = -1.0
            for bits in range(1, 1 << n):  # the last cell, of missing rows, is on the right, or all are turned
                left = bits >> np.arange(n + 1) & 1 > 0
                if weight[left].any() and weight[~left].any():
                    best = max(best, sum(z[side].sum() ** 2 / max(w[side].sum(), 1e-300) for side in (left, ~left)))
            levels = kernel.Levels(start, weight, np.zeros(n + 1, dtype=np.uint8), 0.0, TIE, 1)
            found, *_ = levels.split(0, np.stack((z, w)), np.zeros(n + 1, dtype=np.uint8))
            assert found == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_sums_by_level(real):
    rng = np.random.default_rng(0)
    A = aligned_zeros((2, 1000, 4), real)
    A[...] = rng.normal(size=A.shape)
    codes = np.stack((rng.integers(0, 4, 1000), rng.integers(0, 301, 1000))).astype(np.uint16)
    start = np.array([0, 4, 305])
    found = []
    for n_threads in (1, 3):
        out = np.full((2, 305, 4), np.nan)
        kernel.level_sums(A, codes, start, out, n_threads)
        found.append(out.tobytes())
    assert found[0] == found[1]
    expected = np.zeros_like(out)
    for f in (0, 1):
        for block in (0, 1):
            np.add.at(expected[block], start[f] + codes[f].astype(int), A[block].astype(np.float64))
    assert out.tobytes() == expected.tobytes()


def some(m, K, rng, levels=5):
    """Two columns of categories, one with missing values, around a number; and classes that depend on all."""
    X = np.column_stack((rng.integers(0, levels, m), rng.integers(0, 6, m) / 2, rng.integers(0, levels, m))) * 1.0
    y = (X[:, 0] * 7 + X[:, 2] + (X[:, 1] > 1) + rng.integers(0, 2, m)).astype(int) % K
    X[rng.random(m) < 0.1, 0] = np.nan
    return X, y


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_rounds_have_the_best_of_all_sets(K, seed):
    """Every subset of the greedy growth with every set of levels, and stumps on the number."""
    X, y = some(100, K, np.random.default_rng(seed))
    X[:2, 2], y[:K] = np.nan, np.arange(K)
    chosen, F = twin.jointboost(X, y, K, 6, twin.AllSets(X, (0, 2)))
    options = {"n_estimators": 6, "min_samples_category": 0, "categorical_features": [0, 2]}
    model = JointBoostClassifier(**options).fit(X, y)
    assert model.history_["feature"].tolist() == [split[0] for split, _ in chosen]
    assert model.history_["n_shared"].tolist() == [len(subset) for _, subset in chosen]
    np.testing.assert_allclose(model.model_.raw_scores(X), F, atol=1e-4)


CASES = {
    "small": (some, 300, 4),
    "large": (some, 9000, 4),
    "two classes": (some, 400, 2),
    "twenty classes": (some, 800, 20),
}


@pytest.mark.parametrize("case", CASES)
def test_threads_weights_stages_and_the_slow_reader(case, monkeypatch):
    monkeypatch.setattr("pymcboost.threads.SMALL_WORK", 0)
    make, m, K = CASES[case]
    X, y = make(m, K, np.random.default_rng(1), levels=12)
    weight = np.random.default_rng(2).integers(1, 4, m).astype(float)
    options = {"categorical_features": [0, 2], "min_weight_fraction_leaf": 0.02}
    one = JointBoostClassifier(n_estimators=8, n_jobs=1, **options).fit(X, y, weight)
    for n_jobs in (2, 5):
        other = JointBoostClassifier(n_estimators=8, n_jobs=n_jobs, **options).fit(X, y, weight)
        assert other.model_.to_bytes() == one.model_.to_bytes()
    trees = one.model_.ensemble
    assert trees.subset.any() and (np.diff(trees.offset) == 1).all()
    scores = one.model_.raw_scores(X)
    reader = File(one.model_.to_bytes())
    rows = np.vstack([X[:40], [[99.0, 1, 3.5], [-1, 2, 1e9], [np.nan] * 3, [0.5, 0, -0.0]]])
    assert one.model_.raw_scores(rows).tobytes() == np.array([reader.scores(row) for row in rows.tolist()]).tobytes()
    *_, before_last, last = one.staged_decision_function(X)
    assert last.tobytes() == one.decision_function(X).tobytes()
    assert before_last.tobytes() == one.model_.truncate(7).decision_function(X).tobytes()
    for tree in range(len(trees.offset) - 1):  # either side has its share, and the heavier one is the right one
        side = (one.model_.truncate(tree + 1).raw_scores(X) - one.model_.truncate(tree).raw_scores(X)).round(5)
        kinds = np.unique(side, axis=0, return_inverse=True)[1].ravel()
        assert np.bincount(kinds, weight).min() >= 0.02 * weight.sum() * (1 - 1e-9)
    part = JointBoostClassifier(n_estimators=4, warm_start=True, **options).fit(X, y, weight)
    part.set_params(n_estimators=8).fit(X, y, weight)
    np.testing.assert_allclose(part.model_.raw_scores(X), scores, rtol=1e-4, atol=1e-4)
    if m * K <= 2000:  # weights in float64: repeated rows are weights
        many = JointBoostClassifier(n_estimators=8, **options).fit(
            np.repeat(X, weight.astype(int), 0), np.repeat(y, weight.astype(int))
        )
        np.testing.assert_allclose(many.model_.raw_scores(X), scores, rtol=1e-7, atol=1e-7)


def test_nasty_columns():
    """One level, none but missing values beside it, levels that are all rare, codes with gaps, constants, one row."""
    rng = np.random.default_rng(2)
    m = 400
    y = rng.integers(0, 3, m)
    X = np.column_stack(
        [np.full(m, 7.0), np.where(y == 1, np.nan, 4.0), np.arange(m), rng.integers(0, 5, m) * 200.0, np.full(m, 2.5)]
    )
    options = {"n_estimators": 4, "categorical_features": [0, 1, 2, 3]}
    one = JointBoostClassifier(**options).fit(X, y)
    assert one.history_["feature"][0] == 1  # missing values alone tell class 1
    assert (one.predict(X) == 1).tolist() == (y == 1).tolist()
    all_apart = JointBoostClassifier(**{**options, "min_samples_category": 0}).fit(X, y)
    assert all_apart.history_["feature"][0] == 2 and all_apart.score(X, y) == 1
    with pytest.raises(ValueError, match="column 0 is missing in all rows"):
        JointBoostClassifier(categorical_features=[0]).fit(np.full((4, 1), np.nan), [0, 1, 0, 1])
    with pytest.warns(UserWarning, match="no weak learner separates the classes at all"):
        JointBoostClassifier(**options).fit(np.zeros((6, 4)), [0, 1, 1, 0, 1, 1])
    pair = JointBoostClassifier(n_estimators=3, categorical_features=[0], min_samples_category=0)
    assert pair.fit([[0.0], [1.0]], ["a", "b"]).predict([[0.0], [1.0]]).tolist() == ["a", "b"]
    weight = np.where(np.arange(m) % 2, 1e280, 1e-280)
    for given in (weight, np.where(y == 2, 0, 1.0)):
        model = JointBoostClassifier(**options).fit(X, y, given)
        assert np.isfinite(model.decision_function(X)).all()


def test_levels_of_weight_zero_go_to_the_heavier_side():
    X, y = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2.0])[:, None], np.array([0, 0, 0, 1, 1, 1, 1, 0, 0])
    model = JointBoostClassifier(n_estimators=1, categorical_features=[0], min_samples_category=0)
    model.fit(X, y, np.where(X[:, 0] == 2, 0.0, 1.0))
    assert model.predict([[2.0], [np.nan], [77.0]]).tolist() == [1, 1, 1]
