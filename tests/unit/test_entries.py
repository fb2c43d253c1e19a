"""Leaves that keep the numbers of few classes: which ones, files, warm starts, everything that reads leaves."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from reference import vtrees as twin
from reference.scoring import random_entries, random_rows, random_trees
from sklearn.datasets import make_multilabel_classification

from pymcboost import Checkpoint, VectorTreeBoostClassifier, load_model
from pymcboost.inspection import contributions, importance
from pymcboost.learners.vector_trees import shared_leaves, sparse_leaves
from pymcboost.model import rows
from pymcboost.model.entries import LeafEntries, on_grid
from pymcboost.model.model import Model


def data(m=600, K=12, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(m) % K)
    return (2 * rng.normal(size=(K, d))[y] + rng.normal(size=(m, d))).astype(np.float32), y


def classifier(n=6, **params):
    return VectorTreeBoostClassifier(
        **{"n_estimators": n, "random_state": 0, "calibrate": None, **params}
    )


def dense(model):
    return Model.from_ensemble(model.ensemble.dense(), model.classes_, link=model.link)


@pytest.mark.parametrize("invariant", [True, False])
@pytest.mark.parametrize("K", [2, 5, 40])
def test_the_twin_keeps_the_same_numbers(K, invariant):
    rng = np.random.default_rng(K)
    value = rng.choice([-1.0, -0.9, 0.0, 2.0, 4.0], (50, K)) + (
        rng.random((50, K)) < 0.5
    ) * rng.normal(size=(50, K))
    value[0] = 0
    value[1] = 1
    for most in {1, K // 2, K - 1, K, K + 3}:
        found = value.copy()
        sparse_leaves(found, most, invariant)
        np.testing.assert_allclose(
            found, [twin.sparse_leaf(v, most, invariant) for v in value], rtol=1e-6, atol=1e-12
        )
        assert (np.count_nonzero(found, axis=1) <= most).all()
        np.testing.assert_array_equal(found, found.astype(np.float32) if most < K else found)


@pytest.mark.parametrize("params", [{}, {"leaf_step": "full"}, {"split_columns": None}])
def test_all_entries_are_the_dense_model_and_few_are_at_most_so_many(params):
    X, y = data()
    full = classifier(**params).fit(X, y).model_
    same = classifier(**params, max_leaf_entries=12, n_jobs=2).fit(X, y).model_
    few = classifier(**params, max_leaf_entries=3).fit(X, y)
    assert isinstance(same.ensemble.leaf, LeafEntries)
    np.testing.assert_allclose(same.raw_scores(X), full.raw_scores(X), rtol=1e-4, atol=1e-5)
    leaf = few.model_.ensemble.leaf
    assert np.diff(leaf.start).max() == 3
    assert few.score(X, y) > 0.8
    assert few.model_.raw_scores(X).tobytes() == dense(few.model_).raw_scores(X).tobytes()


def labels(m=600, K=30, seed=0):
    X, Y = make_multilabel_classification(m, 10, n_classes=K, n_labels=3, random_state=seed)
    return X.astype(np.float32), Y


@pytest.mark.parametrize("K", [2, 5, 40])
def test_the_twin_shares_the_same_numbers(K):
    rng = np.random.default_rng(K)
    value = rng.choice([-1.0, -0.9, 0.0, 2.0, 9.0], (50, K)) + (
        rng.random((50, K)) < 0.5
    ) * rng.normal(size=(50, K))
    curvature = 10.0 ** rng.uniform(-5, 2, (50, K))
    value[0] = 0
    value[1] = 1
    curvature[2] = 0
    for most in {1, K // 2, K - 1, K, K + 3}:
        found = value.copy()
        shared = shared_leaves(found, most, curvature)
        rows = [twin.shared_leaf(v, h, most) for v, h in zip(value, curvature, strict=True)]
        np.testing.assert_array_equal(shared, [row[1] for row in rows])
        np.testing.assert_array_equal(found, [row[0] for row in rows])
        leaf = LeafEntries.of(found, shared)
        assert np.diff(leaf.start).max() <= most and on_grid(leaf.value) and on_grid(leaf.shared)
        np.testing.assert_array_equal(np.asarray(leaf), found)


def test_labels_share_a_number_of_a_leaf(tmp_path):
    X, Y = labels()
    params = {"loss": "logistic", "l2_regularization": 1.0}
    full = classifier(20, **params).fit(X, Y)
    model = classifier(20, **params, max_leaf_entries=4).fit(X, Y)
    leaf = model.model_.ensemble.leaf
    assert np.diff(leaf.start).max() <= 4 and (leaf.shared < 0).mean() > 0.9
    loss = [
        -np.log(np.where(Y > 0, P, 1 - P)).mean()
        for P in (one.predict_proba(X) for one in (full, model))
    ]
    assert loss[1] < 1.1 * loss[0]
    F = model.decision_function(X)
    # Sums of such numbers are exact: one row or many, all rounds or one after the other, dense or not.
    np.testing.assert_array_equal(dense(model.model_).raw_scores(X), F)
    *_, last = model.staged_decision_function(X)
    np.testing.assert_array_equal(last, F)
    np.testing.assert_array_equal(
        np.concatenate([model.decision_function(X[i : i + 1]) for i in range(9)]), F[:9]
    )
    model.save(tmp_path / "m.mcb")
    file = load_model(tmp_path / "m.mcb")
    assert file.to_bytes()[10] == 10 and file.to_bytes() == model.model_.to_bytes()
    np.testing.assert_array_equal(file.raw_scores(X), F)
    half = Model.from_bytes(model.model_.to_bytes(leaves="float16"))
    np.testing.assert_allclose(half.raw_scores(X), F, atol=0.02)
    assert full.model_.to_bytes()[10] == 5  # without entries nothing has changed


@pytest.mark.parametrize("options", [{}, {"split_columns": None}, {"leaf_levels": 7}])
def test_labels_go_on_to_the_same_bytes(tmp_path, options):
    X, Y = labels(300, 12)
    params = {"loss": "logistic", "max_leaf_entries": 3, **options}
    uninterrupted_bytes = classifier(9, **params).fit(X, Y).model_.to_bytes()
    assert classifier(9, **params, n_jobs=3).fit(X, Y).model_.to_bytes() == uninterrupted_bytes
    warm = classifier(4, **params, warm_start=True).fit(X, Y).set_params(n_estimators=9).fit(X, Y)
    assert warm.model_.to_bytes() == uninterrupted_bytes
    path = tmp_path / "c"
    classifier(4, **params).fit(X, Y, callbacks=[Checkpoint(path, every=1)])
    assert (
        classifier(9, **params).fit(X, Y, callbacks=[Checkpoint(path, every=1)]).model_.to_bytes()
        == uninterrupted_bytes
    )


def test_what_shared_numbers_ask_for():
    X, Y = labels(300, 12)
    params = {"loss": "logistic", "max_leaf_entries": 3}
    full = classifier(2, loss="logistic").fit(X, Y)
    with pytest.raises(
        ValueError, match="init_model: the existing model has a value for every class in its leaves"
    ):
        classifier(2, **params).fit(X, Y, init_model=full)
    few = classifier(2, **params).fit(X, Y)
    more = classifier(3, loss="logistic").fit(X, Y, init_model=few)  # from few numbers to all
    assert more.n_estimators_ == 5 and more.model_.to_bytes()[10] == 5
    leaf = few.model_.ensemble.leaf
    for value, shared in (
        (leaf.value + np.float32(0.3), leaf.shared),
        (leaf.value, leaf.shared + np.float32(9)),
    ):
        with pytest.raises(
            ValueError, match=r"must be multiples of 2\^-20 with magnitude at most 8"
        ):
            wrong = LeafEntries(leaf.start, leaf.cls, value, n_classes=12, shared=shared)
            Model.from_ensemble(replace(few.model_.ensemble, leaf=wrong), range(12), link="sigmoid")
    with pytest.raises(ValueError, match="the bias must be a multiple of"):
        wrong = replace(few.model_.ensemble, bias=np.full(12, 0.1, dtype=np.float32))
        Model.from_ensemble(wrong, range(12), link="sigmoid")


def test_threads_warm_starts_checkpoints_and_pickles(tmp_path):
    X, y = data()
    params = {"max_leaf_entries": 4}
    model = classifier(8, **params).fit(X, y)
    assert classifier(8, **params, n_jobs=3).fit(X, y).model_.to_bytes() == model.model_.to_bytes()
    warm = classifier(3, **params, warm_start=True).fit(X, y).set_params(n_estimators=8).fit(X, y)
    assert warm.model_.to_bytes() == model.model_.to_bytes()
    path = tmp_path / "c"
    classifier(3, **params).fit(X, y, callbacks=[Checkpoint(path, every=1)])
    gone_on = classifier(8, **params).fit(X, y, callbacks=[Checkpoint(path, every=1)])
    assert gone_on.model_.to_bytes() == model.model_.to_bytes()
    assert pickle.loads(pickle.dumps(model)).model_.to_bytes() == model.model_.to_bytes()
    model.save(tmp_path / "m.mcb")
    assert load_model(tmp_path / "m.mcb").to_bytes() == model.model_.to_bytes()
    first = classifier(3, **params).fit(X, y).model_
    assert model.model_.truncate(3).with_meta({}).to_bytes() == first.with_meta({}).to_bytes()
    more = classifier(2).fit(X, y, init_model=model)  # from sparse leaves to full ones
    assert more.model_.n_rounds == 10


def test_all_that_reads_leaves():
    """The same as of the model with all numbers."""
    model = Model.from_ensemble(random_entries(6, 5, 4, splits=(1, 9)), range(4), link="softmax")
    full = dense(model)
    X = random_rows(40, 5)
    trees = [list(dict(one.ensemble.dump())["trees"]) for one in (model, full)]
    assert trees[0] == trees[1]
    some = np.nan_to_num(X, nan=np.nan, posinf=9, neginf=-9)
    for actual, expected in zip(
        *(contributions(one, some, background=some) for one in (model, full)), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)
    model, full = model.with_covers(some), full.with_covers(some)
    np.testing.assert_array_equal(importance(model), importance(full))
    assert model.with_early_exit("certified").predict(X).tolist() == full.predict(X).tolist()
    half = Model.from_bytes(model.to_bytes(leaves="float16"))
    assert half.leaves == "float16"
    np.testing.assert_allclose(half.raw_scores(X), full.raw_scores(X), atol=0.02)
    assert model.ensemble.describe("float32")["trees"]["entries"] == len(model.ensemble.leaf.cls)


def test_the_first_labels(monkeypatch):
    X, y = data(K=9)
    monkeypatch.setattr(rows, "TOP_NUMBERS", 900)  # some rows at once
    names = np.array(list("ihgfedcba"))[y]
    model = classifier(max_leaf_entries=3).fit(X, names)
    F = model.decision_function(X)
    order = np.argsort(-F, axis=1, kind="stable")
    for k in (1, 4, 9):
        found, scores = model.predict_top(X, k)
        np.testing.assert_array_equal(found, model.classes_[order[:, :k]])
        np.testing.assert_array_equal(scores, np.take_along_axis(F, order[:, :k], axis=1))
        np.testing.assert_array_equal(model.model_.predict_top(X, k)[0], found)
    np.testing.assert_array_equal(model.predict_top(X, 1)[0][:, 0], model.predict(X))
    for k in (0, 10):
        with pytest.raises(
            ValueError, match=f"k must be from 1 to 9, the number of classes, not {k}"
        ):
            model.predict_top(X, k)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("K", [3, 90, 700])
def test_the_first_of_many_labels_are_those_of_all_scores(K, shared):
    """Also where a row touches few classes or none, and where biases tie."""
    rng = np.random.default_rng(K)
    trees = random_entries(20, 80, K, share=4 / K, shared=shared)
    X = random_rows(70, 80)
    X[~np.isfinite(X)] = 0
    tied = replace(trees, bias=rng.integers(-2, 3, K).astype(np.float32))
    for ensemble in (trees, tied, tied.truncate_rounds(1), tied.truncate_rounds(0)):
        model = Model.from_ensemble(ensemble, range(K))
        F = model.raw_scores(X)
        order = np.argsort(-F, axis=1, kind="stable")
        for k in {1, 2, K // 2, K}:
            for part, jobs in (
                (X, 1),
                (np.asfortranarray(X, dtype=np.float64), 3),
                (scipy.sparse.csr_matrix(X), 2),
            ):
                found, scores = model.predict_top(part, k, n_jobs=jobs)
                np.testing.assert_array_equal(found, order[:, :k])
                np.testing.assert_array_equal(scores, np.take_along_axis(F, order[:, :k], axis=1))


@pytest.mark.parametrize("K", [2, 3, 17])
def test_ties_go_to_the_class_that_comes_first(K):
    F = np.random.default_rng(K).integers(0, 4, (60, K)).astype(float)
    scorer = Model.from_ensemble(random_trees(1, 3, K, mode="vector"), range(K))._scorer
    for n in {1, K // 2, K}:
        best = np.empty((60, n), dtype=np.int64)
        scores = np.empty((60, n))
        scorer.top(F, best, scores)
        np.testing.assert_array_equal(best, np.argsort(-F, axis=1, kind="stable")[:, :n])


def test_wrong_use():
    X, y = data()
    for wrong in (0, -1, 2.5, "auto"):
        with pytest.raises(ValueError, match="max_leaf_entries"):
            classifier(max_leaf_entries=wrong).fit(X, y)
    with pytest.raises(ValueError, match="monotonic_cst .* set max_leaf_entries=None"):
        classifier(max_leaf_entries=3, monotonic_cst={0: (0, 1)}).fit(X, y)
    with pytest.raises(
        ValueError, match="refit_leaves does not support max_leaf_entries; train a new model"
    ):
        classifier(max_leaf_entries=3).fit(X, y).refit_leaves(X, y)
    trees = random_entries(2, 3, 4)
    leaf = trees.leaf
    for wrong in (
        LeafEntries(leaf.start, leaf.cls[::-1] + 3, leaf.value, n_classes=4),
        LeafEntries(leaf.start[:-1], leaf.cls, leaf.value, n_classes=4),
        LeafEntries(leaf.start, leaf.cls, leaf.value, n_classes=5),
    ):
        with pytest.raises(ValueError, match="entr"):
            Model.from_ensemble(replace(trees, leaf=wrong), range(4))
