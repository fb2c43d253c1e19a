"""Packed trees, and the options of the training that keep them small."""

from dataclasses import replace

import numpy as np
import pytest
from reference.scoring import random_rows, random_sets, random_stumps, random_trees
from sklearn.datasets import load_digits

from pymcboost import LogitBoostClassifier, VectorTreeBoostClassifier
from pymcboost.callbacks import LearningRateSchedule
from pymcboost.learners.reuse import on_grid
from pymcboost.model import packed
from pymcboost.model.model import Model
from pymcboost.model.packed import rounded

X, y = load_digits(return_X_y=True)


def classifier(n_estimators=6, **params):
    fixed = {"max_leaf_nodes": 5, "learning_rate": 0.5, "random_state": 0, "calibrate": None}
    return VectorTreeBoostClassifier(n_estimators=n_estimators, **{**fixed, **params})


@pytest.fixture(scope="module")
def model():
    return classifier(leaf_levels=3).fit(X, y).model_


def test_leaves_that_rounding_takes_beyond_float32_are_refused(tmp_path):
    trees = random_trees(5, 4, 3, mode="vector")
    model = Model.from_ensemble(
        replace(trees, leaf=np.where(trees.leaf > 0, np.float32(3.4e38), trees.leaf)), range(3)
    )
    model.save(tmp_path / "m.mcb")
    with pytest.raises(ValueError, match="leaves='int8' cannot store a leaf of 3.4e\\+38"):
        model.save(tmp_path / "m.mcb", layout="packed", leaves="int8")
    assert (tmp_path / "m.mcb").read_bytes() == model.to_bytes()


@pytest.mark.parametrize("mode", ["vector", "scalar"])
@pytest.mark.parametrize("leaves", ["int8", "float16"])
def test_scores_are_those_of_the_list(mode, leaves):
    trees = random_trees(9, 300, 4, mode=mode, splits=(0, 12), seed=1)
    trees = replace(trees, leaf=np.rint(4 * trees.leaf)) if leaves == "float16" else trees
    packed = Model.from_ensemble(
        trees, [1, 2, 5, 9], link="softmax", layout="packed", leaves=leaves
    )
    plain = Model.from_bytes(packed.to_bytes("list"))
    rows = random_rows(40, 300)
    assert (packed.kind, packed.layout, plain.kind, plain.layout) == (7, "packed", 3, "list")
    assert packed.raw_scores(rows).tobytes() == plain.raw_scores(rows).tobytes()
    assert packed.predict_proba(rows[:1]).tobytes() == plain.predict_proba(rows[:1]).tobytes()
    stages = zip(packed.staged_raw_scores(rows), plain.staged_raw_scores(rows), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in stages)
    assert packed.apply(rows).tolist() == plain.apply(rows).tolist()
    half = packed.truncate(packed.n_rounds // 2)
    assert half.layout == "packed"
    assert (
        half.raw_scores(rows).tobytes()
        == plain.truncate(packed.n_rounds // 2).raw_scores(rows).tobytes()
    )
    assert Model.from_bytes(plain.to_bytes("packed")).to_bytes() == packed.to_bytes(
        "packed", "float32"
    )


def test_empty_trees_and_no_trees():
    for trees in (
        random_trees(4, 3, 2, mode="vector", splits=(0, 1)),
        random_trees(4, 3, 2, mode="vector").truncate_rounds(0),
    ):
        packed = Model.from_ensemble(trees, [0, 1], layout="packed", leaves="int8")
        assert packed.raw_scores(random_rows(5, 3)).shape == (5, 2)
        assert len(packed.ensemble) == len(trees)


def test_the_file_is_small(model):
    assert len(model.with_meta({}).to_bytes("packed")) < 0.32 * len(model.with_meta({}).to_bytes())


def test_leaves_are_rounded_to_exact_steps():
    leaf = np.random.default_rng(0).normal(size=900).astype(np.float32)
    values = rounded(leaf)
    step = np.diff(np.unique(values)).min()
    assert len(np.unique(values)) <= 255
    assert (values.astype(np.float16) == values).all()
    assert np.abs(values / step).max() <= 127.001
    assert np.abs(values - leaf).max() <= step / 2 * (1 + 1e-6)
    assert rounded(values).tolist() == values.tolist()
    assert rounded(np.zeros(3, np.float32)).tolist() == [0, 0, 0]


def test_what_cannot_be_packed(model, tmp_path):
    exact = classifier(20, max_leaf_nodes=9).fit(X, y)
    with pytest.raises(ValueError, match=r"\d+ different values.* 256; use leaves='int8'"):
        exact.save(tmp_path / "m.mcb", layout="packed")
    rates = LearningRateSchedule(lambda t: 0.5 * 0.99**t)
    with pytest.raises(ValueError, match="or train with leaf_levels and a constant learning_rate"):
        classifier(40, leaf_levels=7).fit(X, y, callbacks=[rates]).save(
            tmp_path / "m.mcb", layout="packed"
        )
    exact.save(tmp_path / "m.mcb", layout="packed", leaves="int8")
    with pytest.raises(ValueError, match="leaves='int8' needs layout='packed'.*not layout='list'"):
        model.to_bytes("list", "int8")
    for ensemble, message in (
        (random_stumps(3, 4, 3), "layout='packed' is for trees, not for a list of stumps"),
        (random_trees(3, 4, 3, mode="base"), "without base classes"),
        (random_trees(3, 4, 3, mode="code"), "without a code"),
        (random_sets(3, 5, 3), "without categories"),
    ):
        with pytest.raises(ValueError, match=message):
            Model.from_ensemble(ensemble, range(3), layout="packed", leaves="int8")
    packed = Model.from_bytes(model.to_bytes("packed"))
    with pytest.raises(
        ValueError, match=r"without covers \(remove them with with_covers\(None\)\)"
    ):
        model.with_covers(X).to_bytes("packed")
    with pytest.raises(ValueError, match="a packed model .* covers; save it with layout='list'"):
        packed.with_covers(X)
    with pytest.raises(
        ValueError, match="a packed model .* early exits; save it with layout='list'"
    ):
        packed.with_early_exit("certified")


def test_leaves_lie_on_the_grid(model):
    value = np.random.default_rng(0).normal(size=(50, 3))
    on_grid(value, 7, 0.3)
    assert np.array_equal(value, value.astype(np.float32))
    assert {*np.rint(value / 0.075).ravel().tolist()} == {*range(-7, 8)}
    assert {*(model.ensemble.leaf * 4).ravel().tolist()} == {-2, -1, 0, 1, 2, 3}
    coarse = classifier(30, leaf_levels=1, max_leaf_nodes=16).fit(X[::2], y[::2])
    assert {*coarse.model_.ensemble.leaf.ravel().tolist()} == {-0.5, 0.0, 0.5}
    assert coarse.score(X[1::2], y[1::2]) > 0.93
    entries = classifier(leaf_levels=2, max_leaf_entries=3).fit(X, y).model_
    packed = Model.from_bytes(entries.to_bytes("packed"))
    assert packed.raw_scores(X).tobytes() == entries.raw_scores(X).tobytes()


def used(model):
    trees = model.ensemble
    return len(np.unique(trees.feature)), len(
        {*zip(trees.feature.tolist(), trees.threshold.tolist(), strict=True)}
    )


def test_penalties_lower_what_is_used():
    rows = np.random.default_rng(0).normal(size=X.shape) * 0.3 + X
    plain = classifier(30).fit(rows, y)
    features = classifier(30, feature_penalty=0.4).fit(rows, y)
    thresholds = classifier(30, threshold_penalty=0.6).fit(rows, y)
    assert used(features.model_)[0] < 0.8 * used(plain.model_)[0]
    assert used(thresholds.model_)[1] < 0.7 * used(plain.model_)[1]
    assert thresholds.score(rows, y) > 0.9
    refitted = classifier(30, n_jobs=2, threshold_penalty=0.6).fit(rows, y)
    assert refitted.model_.to_bytes() == thresholds.model_.to_bytes()


def test_a_training_that_goes_on_knows_what_is_used():
    params = {"feature_penalty": 0.3, "threshold_penalty": 0.3, "leaf_levels": 3}
    at_once = classifier(8, **params).fit(X, y)
    later = classifier(4, warm_start=True, **params).fit(X, y).set_params(n_estimators=8).fit(X, y)
    assert later.model_.to_bytes() == at_once.model_.to_bytes()


def test_marks_follow_the_rounds():
    from pymcboost.data.tree_data import TreeData
    from pymcboost.learners.reuse import Reuse

    columns = TreeData(X[:200], y[:200], 10, sample_weight=np.ones(200), max_bins=256).columns
    kept, anew = (Reuse(columns, 0.25, 0.5) for _ in range(2))
    first = columns.threshold_ptr
    feature = columns.column[[3, 5, 5]]
    threshold = np.array(
        [columns.threshold[first[f] + b] for f, b in ((3, 1), (5, 0), (5, 2))], dtype=np.float32
    )
    kept.mark(feature[:2], threshold[:2])
    kept.mark(feature, threshold)
    anew.mark(feature, threshold)
    assert kept._used.tolist() == anew._used.tolist()
    assert np.flatnonzero(kept._used).tolist() == [first[3] + 1, first[5], first[5] + 2]
    assert np.flatnonzero(kept._worth == 1).tolist() == [3, 5]
    assert {*kept._worth.tolist()} == {0.75, 1.0}
    kept.mark(
        np.array([10**6, feature[0]]), np.array([0.0, 1e9], dtype=np.float32)
    )  # rounds of other data
    assert not kept._used.any()
    assert np.flatnonzero(kept._worth == 1).tolist() == [3]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"leaf_levels": 0}, "leaf_levels"),
        ({"leaf_levels": 128}, "leaf_levels"),
        ({"feature_penalty": 1.0}, "feature_penalty"),
        ({"threshold_penalty": -0.1}, "threshold_penalty"),
        (
            {"leaf_levels": 3, "monotonic_cst": {0: (0, 1)}},
            "monotonic_cst needs unrounded leaf values",
        ),
    ],
)
def test_wrong_options(params, message):
    with pytest.raises(ValueError, match=message):
        classifier(**params).fit(X, y)


def test_refitted_leaves_would_leave_the_grid():
    with pytest.raises(
        ValueError, match="refit_leaves does not support leaf_levels; train a new model"
    ):
        classifier(leaf_levels=3).fit(X, y).refit_leaves(X, y)


def test_bits_are_spread_out_in_parts(model, monkeypatch):
    whole = model.ensemble
    data = packed.PackedTrees.of(whole, "int8").data
    monkeypatch.setattr(packed, "BLOCK", 8)
    assert np.array_equal(packed.PackedTrees.of(whole, "int8").data, data)
    again = Model.from_bytes(model.to_bytes(layout="packed", leaves="int8")).ensemble
    assert np.array_equal(again.leaf, rounded(whole.leaf)) and np.array_equal(
        again.right, whole.right
    )


def test_leaves_that_are_rounded_already_stay():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = rng.integers(0, 3, 300)
    grown = {
        "n_estimators": 8,
        "calibrate": None,
        "random_state": 29,
        "max_leaf_nodes": 12,
        "learning_rate": 0.34,
    }
    once = Model.from_bytes(
        LogitBoostClassifier(**grown).fit(X, y).model_.to_bytes("packed", "int8")
    )
    assert once.to_bytes("packed", "int8") == once.to_bytes()
    assert np.array_equal(
        Model.from_bytes(once.to_bytes("packed", "int8")).raw_scores(X), once.raw_scores(X)
    )
    for largest in rng.uniform(0.01, 50, 200):
        leaf = rounded((largest * np.append(rng.uniform(-1, 1, 20), 1)).astype(np.float32))
        assert np.array_equal(rounded(leaf), leaf)
