"""Scores of rows that trees leave out, and the temperature from them."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from pymcboost._kernels.vector_trees import round_key
from reference import left_out as twin
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split

from pymcboost import Checkpoint, VectorTreeBoostClassifier, load_model
from pymcboost.algorithms import vector_tree
from pymcboost.algorithms.vector_tree import VectorTreeBoost
from pymcboost.callbacks import LearningRateSchedule
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import left_out
from pymcboost.learners.left_out import LeftOutScores
from pymcboost.learners.vector_trees import VectorTrees
from pymcboost.losses.rows import Rows
from pymcboost.losses.softmax import Softmax
from pymcboost.model.temperature import fit_temperature, rounded
from pymcboost.training import calibration


def rows_of(m, K, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 4))
    y = rng.integers(0, K, m)
    X[np.arange(m), y % 4] += 1
    return X, y


def trees_of(data, share, n_threads=1, **params):
    loss = Rows(Softmax(), data, n_threads)
    how = {
        "max_leaves": 12,
        "max_depth": None,
        "min_samples_leaf": 0,
        "max_features": 0.5,
        "leaf_step": "diagonal",
    }
    return loss, VectorTrees(
        data, loss, learning_rate=0.3, n_threads=n_threads, subsample=share, **how, **params
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("m", "K"), [(60, 2), (90, 3), (200, 7), (150, 8), (120, 17), (300, 40)])
@pytest.mark.parametrize(("share", "l2"), [(0.5, 0.0), (0.7, 0.5), (0.1, 0.0)])
@pytest.mark.part(7)
def test_against_the_twin(m, K, share, l2, weighted):
    X, y = rows_of(m, K)
    weight = np.random.default_rng(1).uniform(0.1, 3, m) if weighted else np.ones(m)
    data = TreeData(X, y, K, sample_weight=weight)
    loss, trees = trees_of(data, share, l2=l2)
    loss.start(None)
    trees.keeps_sums = True
    scores = [LeftOutScores(loss, share, l2, n_threads=n_threads) for n_threads in (1, 3)]
    again = LeftOutScores(loss, share, l2, n_threads=1)
    alone, outside = np.zeros((2, m, K))
    for t in range(6):
        tree = trees.next(0, t)
        gradient = loss.gradient[:, :K].astype(np.float64)
        how = tree.rows, tree.leaf_start, tree.leaf, round_key(0, t), tree.value
        for one in scores:
            one.add(loss, *how, trees.sums)
        again.add(loss, *how)
        more = twin.of_tree(
            gradient,
            data.weight,
            tree.leaf,
            number=data.row_number.tolist(),
            key=round_key(0, t),
            share=share,
            l2=l2,
            rate=0.3,
        )
        alone, outside = alone + more[0], outside + more[1]
        loss.add(tree.value, tree.leaf)
    for one in (*scores, again):
        np.testing.assert_allclose(one.alone, alone, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(one.outside, outside, rtol=2e-4, atol=1e-3)
        assert (one.outside != 0).any()
    np.testing.assert_array_equal(scores[0].alone, again.alone)
    np.testing.assert_array_equal(scores[0].alone, scores[1].alone)
    np.testing.assert_array_equal(scores[0].outside, scores[1].outside)


def test_rows_that_are_alone_or_nearly_certain():
    """A leaf of one row tells nothing of it; rows whose gradients are next to nothing give no absurd steps."""
    gradient = np.zeros((5, 4), dtype=np.float32)
    gradient[0, :3] = 0.9, -0.5, -0.4
    gradient[1:, :3] = 1e-7, -5e-8, -5e-8
    leaf = np.array([0, 1, 1, 1, 1], dtype=np.int32)
    for leaves in (leaf, np.zeros(5, dtype=np.int32)):
        data = TreeData(
            np.arange(5.0)[:, None], np.array([0, 0, 1, 2, 2]), 3, sample_weight=np.ones(5)
        )
        loss = Rows(Softmax(), data, 1)
        loss.gradient[:] = gradient[:, [0, 1, 2, 3]]
        rows = np.argsort(leaves, kind="stable").astype(np.int32)
        start = np.searchsorted(leaves[rows], np.arange(leaves.max() + 2))
        scores = LeftOutScores(loss, 0.5, 0.0, n_threads=1)
        scores.add(
            loss,
            rows,
            start,
            leaves,
            1,
            loss.leaf_values(rows, start, False, 0.0, twin.LARGEST_STEP, 0.5),
        )
        assert np.isfinite(scores.alone).all()
        assert (np.abs(scores.alone) <= 0.5 * 2 * twin.LARGEST_STEP).all()
        assert (np.abs(scores.alone[0]) < 1e-30).all()


def test_rows_that_are_followed_are_drawn_by_their_numbers(monkeypatch):
    monkeypatch.setattr(left_out, "MOST_ROWS", 100)
    X, y = rows_of(1000, 3)
    data = TreeData(X, y, 3, sample_weight=np.ones(1000))
    scores = LeftOutScores(Rows(Softmax(), data, 1), 0.5, 0.0, n_threads=1)
    assert 60 < len(scores.rows) < 140
    order = np.random.default_rng(0).permutation(1000)
    other = TreeData(X[order], y[order], 3, sample_weight=np.ones(1000))
    other.row_number = order[other.rows]
    numbers = other.row_number[LeftOutScores(Rows(Softmax(), other, 1), 0.5, 0.0, n_threads=1).rows]
    assert {*numbers.tolist()} == {*data.row_number[scores.rows].tolist()}


def test_how_the_temperature_follows():
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, 3, 400))
    data = TreeData(rng.normal(size=(400, 2)), y, 3, sample_weight=np.ones(400))
    scores = LeftOutScores(Rows(Softmax(), data, 1), 0.5, 0.0, n_threads=1)
    for stretch, most in ((2.0, 2.0), (90.0, 30.0)):
        noise = rng.normal(size=(400, 3)) + 1.5 * np.eye(3)[data.y]
        scores.alone[:] = noise
        scores.outside[:] = stretch * noise
        alone, outside = (fit_temperature(one, data.y) for one in (scores.alone, scores.outside))
        expected = 0.905 * alone**0.2 * min(outside, 30 * alone) ** 0.8
        assert calibration.temperature_of_left_out(scores, data, "softmax") == rounded(expected)
        assert outside / alone == pytest.approx(stretch, rel=0.01)
        assert most == min(stretch, 30.0)


X, Y = make_classification(
    900, 12, n_informative=6, n_classes=3, flip_y=0.2, class_sep=0.7, random_state=1
)
PARAMS = {"n_estimators": 40, "random_state": 0}


def test_no_folds_are_trained(monkeypatch):
    monkeypatch.setattr(calibration, "held_scores", None)
    assert VectorTreeBoostClassifier(**PARAMS).fit(X, Y).model_.is_calibrated


@pytest.mark.parametrize("load", [load_digits, None])
def test_probabilities_gain(load):
    rows = load(return_X_y=True) if load else (X, Y)
    A, B, a, b = train_test_split(*rows, test_size=0.4, random_state=0, stratify=rows[1])
    model = VectorTreeBoostClassifier(random_state=0).fit(A, a).model_
    scores = model.raw_scores(B)
    best = fit_temperature(scores, np.searchsorted(model.classes_, b))
    assert 1 < model.temperature < 1.5 * best
    assert model.temperature > best / 1.5


def test_trees_are_those_of_a_training_without_a_temperature():
    """Nor do they depend on validation rows, early stopping by given rows, or the number of rounds."""
    watched = {"X_val": X[:100], "y_val": Y[:100]}
    variants = [
        ({"calibrate": None}, {}),
        ({}, watched),
        ({"early_stopping": True, "n_iter_no_change": 40}, watched),
        ({"calibrate": None, "early_stopping": True, "n_iter_no_change": 40}, watched),
        ({"n_estimators": 55}, {}),
        ({"n_estimators": 310, "calibrate": None}, {}),
    ]
    trees = VectorTreeBoostClassifier(**PARAMS).fit(X, Y).model_.truncate(10).raw_scores(X)
    for params, given in variants:
        model = VectorTreeBoostClassifier(**{**PARAMS, **params}).fit(X, Y, **given).model_
        np.testing.assert_array_equal(model.truncate(10).raw_scores(X), trees)


@pytest.mark.parametrize("sparse", [False, True])
def test_added_rounds_have_the_temperature_of_one_training(sparse):
    from scipy.sparse import csr_matrix

    rows = csr_matrix(np.where(np.abs(X) < 0.5, 0, X)) if sparse else X
    uninterrupted = VectorTreeBoostClassifier(**PARAMS).fit(rows, Y)
    model = VectorTreeBoostClassifier(**{**PARAMS, "n_estimators": 15}, warm_start=True).fit(
        rows, Y
    )
    model.set_params(n_estimators=40).fit(rows, Y)
    assert model.model_.to_bytes() == uninterrupted.model_.to_bytes()


@pytest.mark.parametrize(
    "schedule", [[], [LearningRateSchedule(lambda t: np.where(t < 20, 0.3, 0.02))]]
)
def test_a_killed_training_has_the_temperature_of_one_that_was_not(schedule, tmp_path):
    class Killed(Exception):
        pass

    def kill(state):
        if state.n_rounds == 25:
            raise Killed

    uninterrupted = VectorTreeBoostClassifier(**PARAMS).fit(X, Y, callbacks=schedule)
    checkpoint = Checkpoint(tmp_path / "kept.mcc", 0)
    stop = SimpleNamespace(after_round=kill)
    with pytest.raises(Killed):
        checkpoint.fit(VectorTreeBoostClassifier(**PARAMS), X, Y, callbacks=[*schedule, stop])
    refitted = checkpoint.fit(VectorTreeBoostClassifier(**PARAMS), X, Y, callbacks=schedule)
    assert checkpoint.resumed
    assert refitted.model_.to_bytes() == uninterrupted.model_.to_bytes()


def test_early_stopping_by_few_rows_has_the_temperature_of_the_rounds_that_stay(monkeypatch):
    model = VectorTreeBoostClassifier(random_state=0, early_stopping=True, n_iter_no_change=5).fit(
        X, Y
    )
    seen = []
    original = LeftOutScores.add
    monkeypatch.setattr(
        LeftOutScores, "add", lambda self, *how: seen.append(self) or original(self, *how)
    )
    with_fewer_rows = VectorTreeBoostClassifier(
        random_state=0, early_stopping=True, n_iter_no_change=5
    ).fit(X, Y)
    assert with_fewer_rows.model_.to_bytes() == model.model_.to_bytes()
    assert seen[-1].n_trees == model.n_estimators_ < 300


def test_where_rows_depend_on_each_other_folds_decide(monkeypatch):
    asked = []
    monkeypatch.setattr(VectorTreeBoost, "left_out_scores", lambda self: asked.append(self))
    groups = np.repeat(np.arange(90), 10)
    params = {**PARAMS, "n_estimators": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VectorTreeBoostClassifier(**params).fit(X, Y, groups=groups)
        VectorTreeBoostClassifier(**params, subsample=1.0).fit(X, Y)
        VectorTreeBoostClassifier(**params, leaf_step="full").fit(X, Y)
        VectorTreeBoostClassifier(**params, max_leaf_entries=2).fit(X, Y)
        VectorTreeBoostClassifier(**params, cv=[(np.arange(450), np.arange(450, 900))]).fit(X, Y)
    assert not asked


def test_very_many_classes_have_folds(monkeypatch):
    """Only their scores are held, in single precision."""
    monkeypatch.setattr(vector_tree, "MANY_CLASSES", 10)
    monkeypatch.setattr(vector_tree, "MOST_WIDE_SCORES", 0)
    A, b = make_classification(300, 12, n_informative=10, n_classes=12, random_state=0)
    monkeypatch.setattr(VectorTreeBoost, "left_out_scores", None)
    assert VectorTreeBoostClassifier(n_estimators=5, random_state=0).fit(A, b).model_.is_calibrated


def test_the_temperature_is_in_the_file(tmp_path):
    model = VectorTreeBoostClassifier(**PARAMS).fit(X, Y)
    model.model_.save(tmp_path / "model.mcb")
    assert load_model(tmp_path / "model.mcb").temperature == model.temperature_
