"""Growing, freezing and merging ensembles."""

import numpy as np
import pytest
from reference.scoring import random_rows, random_stumps, raw_scores

from pymcboost.ensemble import EnsembleBuilder, Stumps
from pymcboost.scoring import Model


def test_builder_grows_truncates_and_freezes():
    builder = EnsembleBuilder(3, 5)
    rows = np.random.default_rng(0).normal(size=(100, 3))
    for j in range(100):
        builder.add_stump(j % 5, j / 7, j % 2 == 0, rows[j])
    frozen = builder.freeze()
    assert len(builder) == len(frozen) == 100
    assert frozen.left is None
    assert frozen.right.dtype == np.float32
    assert (frozen.right == rows.astype(np.float32)).all()
    builder.truncate(40)
    builder.add_stump(1, 0.5, True, [1, 2, 3], [4, 5, 6])
    second = builder.freeze()
    assert len(frozen) == 100
    assert len(second) == 41
    assert (second.left[:40] == -second.right[:40]).all()
    assert second.left[40].tolist() == [4, 5, 6]
    with pytest.raises(ValueError, match="read-only"):
        frozen.right[0] = 0
    with pytest.raises(ValueError, match="cannot keep 42 of 41"):
        builder.truncate(42)


def test_equal_models_give_equal_bytes():
    plain = random_stumps(10, 4, 3)
    zeros = plain.right.copy()
    zeros[2] = 0
    a = Stumps(plain.feature, plain.threshold, plain.nan_left, zeros, None, plain.bias, 4)
    minus = np.where(zeros == 0, np.float32(-0.0), zeros)
    b = Stumps(
        plain.feature.astype(np.uint8),
        plain.threshold.astype(np.float64),
        plain.nan_left.astype(int),
        minus,
        -zeros,
        plain.bias,
        4,
    )
    assert Model.from_ensemble(a, range(3)).to_bytes() == Model.from_ensemble(b, range(3)).to_bytes()
    assert Model.from_ensemble(a, range(3), layout="interval").to_bytes() == (
        Model.from_ensemble(b, range(3), layout="interval").to_bytes()
    )


def test_minus_zero_threshold():
    stumps = Stumps(
        np.array([0, 0]), np.array([-0.0, 0.0]), np.array([False, False]), np.ones((2, 2)), None, np.zeros(2), 1
    )
    X = np.array([[-0.0], [0.0], [1e-45], [-1e-45]], dtype=np.float32)
    for layout in ("list", "interval"):
        assert Model.from_ensemble(stumps, range(2), layout=layout).raw_scores(X)[:, 0].tolist() == [-2, -2, 2, -2]
    assert len(stumps.merge().threshold) == 1


@pytest.mark.parametrize(
    ("largest", "n_features", "width"),
    [(127, 128, 1), (127, 40_000, 1), (128, 129, 2), (32767, 32768, 2), (32768, 40_000, 4), (2**31 - 2, 2**31 - 1, 4)],
)
def test_feature_indices_take_the_narrowest_type(largest, n_features, width):
    for nan_left in (False, True):
        stumps = Stumps(
            np.array([largest, 0]),
            np.zeros(2),
            np.array([nan_left, True]),
            np.ones((2, 2)),
            None,
            np.zeros(2),
            n_features,
        )
        data = Model.from_ensemble(stumps, range(2)).to_bytes()
        assert data[64:68] == b"FEAT"
        assert data[68] == {1: 1, 2: 2, 4: 3}[width]
        again = Model.from_bytes(data).ensemble
        assert again.feature.tolist() == [largest, 0]
        assert again.nan_left.tolist() == [nan_left, True]


def test_merging_sums_exactly():
    stumps = random_stumps(300, 3, 4, two_sided=True, few_thresholds=True)
    table = stumps.merge()
    assert (np.diff(table.offset) <= 5).all()
    # huge values that cancel leave the small ones exact
    big = np.full((1, 4), 2.0**60, dtype=np.float32)
    right = np.concatenate([big, stumps.right, -big])
    left = np.concatenate([big, stumps.left, -big])
    feature = np.concatenate([[0], stumps.feature, [0]])
    threshold = np.concatenate([[0], stumps.threshold, [0]])
    nan_left = np.concatenate([[True], stumps.nan_left, [True]])
    merged = Stumps(feature, threshold, nan_left, right, left, stumps.bias, 3).merge()
    np.testing.assert_allclose(merged.table, table.table, rtol=1e-12, atol=1e-13)
    X = random_rows(100, 3)
    np.testing.assert_allclose(
        Model.from_ensemble(stumps, range(4), layout="interval").raw_scores(X),
        raw_scores(stumps, X),
        rtol=1e-12,
        atol=1e-11,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature": np.array([0, 5])}, "feature indices"),
        ({"feature": np.array([0, -1])}, "feature indices"),
        ({"feature": np.array([0.0, 1.0])}, "feature indices"),
        ({"threshold": np.array([0, np.inf])}, "threshold holds"),
        ({"right": np.array([[1, 2], [3, 1e39]])}, "right holds"),
        ({"right": np.ones((2, 3))}, "right has shape"),
        ({"left": np.ones((1, 2))}, "left has shape"),
        ({"bias": np.array([np.nan, 0])}, "bias holds"),
        ({"bias": np.zeros(1), "right": np.ones((2, 1))}, "ensemble has 1 classes"),
        ({"nan_left": np.zeros(1)}, "nan_left must"),
    ],
)
def test_wrong_ensembles_are_refused(change, message):
    fields = {
        "feature": np.array([0, 1]),
        "threshold": np.zeros(2),
        "nan_left": np.zeros(2, bool),
        "right": np.ones((2, 2)),
        "left": None,
        "bias": np.zeros(2),
        "n_features": 5,
    }
    with pytest.raises(ValueError, match=message):
        Model.from_ensemble(Stumps(**(fields | change)), range(2))
