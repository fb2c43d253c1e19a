"""Certified early exits of linear machines: labels of all hyperplanes, and what is left out of them."""

import numpy as np
import pytest
import scipy.sparse
from reference.planes import Planes
from reference.scoring import random_linear, random_rows

from pymcboost import HingeBoostOCClassifier
from pymcboost.model.linear import LinearMachine
from pymcboost.model.model import Model, load_model


def model_of(coef, bias):
    return Model.from_ensemble(
        LinearMachine(np.asarray(coef, np.float32), np.asarray(bias, np.float32)), range(len(bias))
    )


def machines(k, d, seed=0):
    """Hyperplanes of all ranks, copies, zeros, integers with ties, and large and tiny ones."""
    rng = np.random.default_rng(seed)
    for rank in sorted({1, 2, max(1, k // 2), k}):
        code = rng.integers(-1, 2, (k, rank))
        yield model_of(code @ rng.normal(size=(rank, d)), rng.normal(size=k))
        yield model_of(code @ rng.integers(-2, 3, (rank, d)), rng.integers(0, 2, k))
    part = np.exp(rng.normal(0, 20, d)) * rng.normal(size=(2, d))
    for scale in (1e-44, 1e-30, 1e25):
        yield model_of(
            scale * (rng.integers(-1, 2, (k, 2)) @ part).clip(-1e13, 1e13),
            scale * rng.normal(size=k),
        )
    yield model_of(np.zeros((k, d)), rng.integers(0, 2, k))
    yield model_of(rng.normal(size=(k, d)), np.zeros(k))


def rows_for(d, seed=0):
    """Rows with zeros, ties, and values of all sizes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, d)).astype(np.float32)
    X[rng.random(X.shape) < 0.5] = 0
    X[::4] = rng.integers(-1, 2, X[::4].shape)
    X[1], X[2], X[3] = 0, 3e38, X[3] * 1e-40
    return X


@pytest.mark.parametrize("k", [2, 3, 26, 200])
@pytest.mark.parametrize("d", [1, 7, 40])
def test_labels_are_those_of_all_hyperplanes(k, d):
    X = rows_for(d, k)
    for model in machines(k, d, seed=k + d):
        labels, planes = model.predict_early(X)
        assert (labels == model.predict(X)).all()
        assert (labels == model.predict(X, early="certified")).all()
        assert 1 <= planes.min() and planes.max() <= k == model.n_early_learners
        for rows in (scipy.sparse.csr_array(X), X.astype(np.float64), np.asfortranarray(X)):
            again = model.predict_early(rows, n_jobs=2)
            assert (again[0] == labels).all() and (again[1] == planes).all()


@pytest.mark.parametrize(("k", "d"), [(2, 3), (5, 20), (30, 9), (40, 600), (12, 1500)])
def test_the_slow_twin_leaves_out_the_same(k, d):
    X = rows_for(d, k)[:6]
    for model in machines(k, d, seed=k):
        machine = model.ensemble
        twin = Planes(machine.coef, machine.intercept)
        wanted = [twin.early(row) for row in X]
        labels, planes = model.predict_early(X)
        assert labels.tolist() == [label for label, _, _ in wanted]
        assert planes.tolist() == [n for _, n, _ in wanted]


def test_few_rounds_take_few_hyperplanes():
    """As many as there are rounds, or features; and where there are as many rounds as classes, all of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 50))
    code = rng.choice([-1, 0, 1], (40, 8))
    model = model_of(code @ rng.normal(size=(8, 50)), code @ rng.normal(size=8))
    assert (model.predict_early(X)[1] == 8).all()
    narrow = model_of(rng.normal(size=(40, 6)), rng.normal(size=40))
    assert (narrow.predict_early(X[:, :6])[1] == 6).all()
    whole = model_of(rng.normal(size=(40, 50)), rng.normal(size=40))
    assert (whole.predict_early(X)[1] == 40).all()


def test_hyperplanes_that_are_nearly_others_are_evaluated_where_it_matters():
    """Classes that differ by the last bits alone: the first products cannot tell them apart."""
    rng = np.random.default_rng(1)
    base = rng.normal(size=(3, 30))
    coef = np.repeat(base, 8, axis=0).astype(np.float32)
    coef *= (1 + 2.0**-23 * rng.integers(-2, 3, coef.shape)).astype(np.float32)
    model = model_of(coef, np.zeros(24))
    X = rng.normal(size=(300, 30)).astype(np.float32)
    labels, planes = model.predict_early(X)
    twin = Planes(model.ensemble.coef, model.ensemble.intercept)
    assert planes[:40].tolist() == [twin.early(row)[1] for row in X[:40]]
    assert (labels == model.predict(X)).all()
    assert 3 < planes.mean() < 24


def test_twins_are_one_class():
    rng = np.random.default_rng(2)
    coef = rng.normal(size=(4, 30))[[0, 1, 2, 3, 3, 0, 3, 3, 3, 3]]
    model = model_of(coef, np.zeros(10))
    X = rng.normal(size=(100, 30))
    labels, planes = model.predict_early(X)
    assert (labels == model.predict(X)).all() and (planes == 4).all()
    assert set(labels.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_not_finite_are_refused(sparse):
    model = model_of(np.ones((3, 2)), np.zeros(3))
    X = np.ones((4, 2))
    for value in (np.nan, np.inf, 1e39):
        X[2, 1] = value
        with pytest.raises(ValueError, match="row 2 of X"), np.errstate(over="ignore"):
            model.predict_early(scipy.sparse.csr_array(X) if sparse else X)


def test_sparse_rows_whose_indices_do_not_increase():
    model = next(machines(9, 6))
    X = scipy.sparse.csr_array(random_rows(5, 6).astype(np.float32).round(1))
    X.data[~np.isfinite(X.data)] = 1
    mixed = scipy.sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    for r in range(X.shape[0]):
        part = slice(*X.indptr[r : r + 2])
        mixed.data[part], mixed.indices[part] = (
            mixed.data[part][::-1].copy(),
            mixed.indices[part][::-1].copy(),
        )
    assert (model.predict_early(mixed)[0] == model.predict(X)).all()


def test_what_a_linear_machine_has_without_asking(tmp_path):
    model = model_of(*[random_linear(5, 3).coef, np.zeros(3)])
    before = model.to_bytes()
    assert model.early_exits == ("certified",)
    assert model.with_early_exit("certified") is model
    assert model.n_learners is None and model.n_early_learners == 3
    model.predict_early(np.ones((1, 5)))
    assert model.to_bytes() == before
    model.save(tmp_path / "m.mcb")
    assert load_model(tmp_path / "m.mcb").early_exits == ("certified",)
    with pytest.raises(
        ValueError, match="this kind of model has no early exit .*; it has .certified"
    ):
        model.with_early_exit("calibrated", np.ones((5, 5)))
    with pytest.raises(ValueError, match="no early exit 'calibrated'"):
        model.predict(np.ones((1, 5)), early="calibrated")


def test_trained_with_zeros_in_few_rounds():
    rng = np.random.default_rng(3)
    y = np.arange(400) % 20
    X = rng.normal(size=(20, 30))[y] + 0.3 * rng.normal(size=(400, 30))
    for zero in (False, True):
        model = HingeBoostOCClassifier(
            n_estimators=8, allow_zero=zero, init="max-cut", C=10.0, random_state=0
        )
        model = model.fit(X, y).model_
        labels, planes = model.predict_early(X)
        assert (labels == model.predict(X)).all()
        assert planes.min() == 8 and planes.mean() < 9
