"""Scores of training rows by models of folds that have not seen them, as attributes of fitted estimators."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold, TimeSeriesSplit, cross_val_predict
from sklearn.utils.validation import check_is_fitted

from pymcboost import (
    AdaBoostMHClassifier,
    Dataset,
    HingeBoostOCClassifier,
    MartClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.model.temperature import fit_temperature

AUTO = {"n_estimators": "auto", "n_iter_no_change": 2, "random_state": 0, "n_jobs": 1}
TEMPERATURE = {"n_estimators": 5, "calibrate": "temperature", "random_state": 0, "n_jobs": 1}


def some_rows(n=150, K=3, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return rng.normal(size=(n, d)) + 0.8 * y[:, None] * rng.normal(size=d), y


def has_scores(model):
    return [name in vars(model) for name in ("oof_decision_function_", "oof_fold_")]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("shuffled", [False, True])
def test_scores_are_those_of_models_trained_by_hand(K, shuffled):
    X, y = some_rows(K=K)
    cv = KFold(3, shuffle=shuffled, random_state=1 if shuffled else None)
    model = MCBoostClassifier(cv=cv, **AUTO).fit(X, y)
    best = MCBoostClassifier(n_estimators=model.cv_results_["best_round"])
    expected = cross_val_predict(best, X, y, cv=cv, method="decision_function")
    assert (
        model.oof_decision_function_.shape
        == model.decision_function(X).shape
        == ((150,) if K == 2 else (150, 3))
    )
    np.testing.assert_allclose(model.oof_decision_function_, expected, rtol=1e-12)
    for i, (_, held) in enumerate(cv.split(X)):
        assert (model.oof_fold_[held] == i).all()


@pytest.mark.parametrize("cv", [2, StratifiedKFold(2), [(np.arange(90), np.arange(90, 150))]])
def test_scores_of_a_temperature_that_needs_all_folds(cv):
    X, y = some_rows()
    model = MCBoostClassifier(cv=cv, **TEMPERATURE).fit(X, y)
    fold = model.oof_fold_
    assert np.array_equal(np.unique(fold), [0, 1] if not isinstance(cv, list) else [-1, 0])
    for i in range(max(fold) + 1):
        train = (fold != i) if fold.min() == 0 else fold < 0
        by_hand = MCBoostClassifier(n_estimators=5).fit(X[train], y[train])
        np.testing.assert_allclose(
            model.oof_decision_function_[fold == i],
            by_hand.decision_function(X[fold == i]),
            rtol=1e-12,
        )
    # They are raw: the temperature follows from them.
    used = fold >= 0
    first = fit_temperature(model.oof_decision_function_[used], y[used], None, link="softmax2")
    assert first != 1 and model.model_.temperature == pytest.approx(first, rel=1e-12)


def test_folds_have_the_numbers_that_cv_gives_them():
    """The temperature goes through them from the last one in time on."""
    X, y = some_rows()
    cv = TimeSeriesSplit(2)
    model = MCBoostClassifier(cv=cv, **TEMPERATURE).fit(X, y)
    assert model.oof_fold_.tolist() == [-1] * 50 + [0] * 50 + [1] * 50
    for train, test in cv.split(X):
        by_hand = (
            MCBoostClassifier(n_estimators=5).fit(X[train], y[train]).decision_function(X[test])
        )
        np.testing.assert_allclose(model.oof_decision_function_[test], by_hand, rtol=1e-12)


@pytest.mark.parametrize("calibrate", [None, "temperature"])
def test_their_log_loss_is_that_of_the_curve(calibrate):
    X, y = some_rows()
    model = VectorTreeBoostClassifier(**AUTO, calibrate=calibrate).fit(X, y)
    scores = model.oof_decision_function_
    fold = model.oof_fold_
    cv_results = model.cv_results_
    index = list(cv_results["rounds"]).index(cv_results["best_round"])
    z = scores / (fit_temperature(scores, y, None, link="softmax") if calibrate else 1)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    losses = [log_loss(y[fold == i], p[fold == i]) for i in range(3)]
    np.testing.assert_allclose(
        losses, cv_results["folds"][:, index], rtol=1e-3 if calibrate else 1e-12
    )
    np.testing.assert_allclose(
        np.mean(losses), cv_results["mean"][index], rtol=1e-3 if calibrate else 1e-12
    )


@pytest.mark.parametrize("params", [AUTO, {**TEMPERATURE, "cv": 2}])
def test_rows_that_are_not_held_out_have_none(params):
    X, y = some_rows()
    weight = np.random.default_rng(1).integers(0, 3, 150).astype(float)
    model = MCBoostClassifier(**params).fit(X, y, weight)
    assert np.array_equal(model.oof_fold_ >= 0, weight > 0)
    assert np.array_equal(np.isfinite(model.oof_decision_function_).all(axis=1), weight > 0)
    ordered = MCBoostClassifier(**params | {"cv": TimeSeriesSplit(2)}).fit(X, y)
    assert (ordered.oof_fold_[:50] == -1).all() and np.isnan(
        ordered.oof_decision_function_[:50]
    ).all()
    assert (ordered.oof_fold_[50:] >= 0).all() and np.isfinite(
        ordered.oof_decision_function_[50:]
    ).all()


def test_rows_set_aside_for_early_stopping_have_none():
    X, y = some_rows()
    model = MCBoostClassifier(
        **{**TEMPERATURE, "n_estimators": 20, "cv": 2}, early_stopping=True
    ).fit(X, y)
    assert np.count_nonzero(model.oof_fold_ < 0) == 15
    assert np.array_equal(model.oof_fold_ < 0, np.isnan(model.oof_decision_function_).all(axis=1))


@pytest.mark.parametrize("n_estimators", [3, "auto"])
def test_scores_of_labels(n_estimators):
    X, y = some_rows()
    Y = np.stack([y > 0, X[:, 0] > 0.5], axis=1).astype(int)
    cv = KFold(3)
    model = AdaBoostMHClassifier(n_estimators=n_estimators, decision_threshold="f1", cv=cv).fit(
        X, Y
    )
    assert model.oof_decision_function_.shape == (150, 2)
    rounds = n_estimators if n_estimators == 3 else model.cv_results_["best_round"]
    expected = cross_val_predict(
        AdaBoostMHClassifier(n_estimators=rounds), X, Y, cv=cv, method="decision_function"
    )
    np.testing.assert_allclose(
        model.oof_decision_function_, np.asarray(expected).reshape(150, 2), rtol=1e-12
    )


def test_rows_of_a_subset():
    X, y = some_rows(300)
    rows = np.random.default_rng(0).permutation(300)[:200]
    for params in AUTO, {**TEMPERATURE, "cv": KFold(2)}:
        part = MCBoostClassifier(**params).fit(Dataset(X, y).subset(rows))
        assert part.oof_fold_.shape == (200,) and part.oof_decision_function_.shape == (200, 3)
        assert (part.oof_fold_ >= 0).all()
        if "cv" in params:
            alone = MCBoostClassifier(**params).fit(X[rows], y[rows])
            assert np.array_equal(part.oof_fold_, alone.oof_fold_)
            np.testing.assert_allclose(
                part.oof_decision_function_, alone.oof_decision_function_, rtol=1e-9
            )


def test_without_all_folds_there_are_none():
    X, y = some_rows()
    assert not any(has_scores(MCBoostClassifier(n_estimators=3).fit(X, y)))
    assert not any(
        has_scores(MCBoostClassifier(**TEMPERATURE).fit(X, y))
    )  # two of three folds suffice
    assert not any(has_scores(MCBoostClassifier(**TEMPERATURE).fit(X, y, X_val=X, y_val=y)))
    machine = HingeBoostOCClassifier(**AUTO, calibrate=None).fit(X, y)
    assert all(has_scores(machine)) and machine.oof_decision_function_.shape == (150, 3)


@pytest.mark.parametrize("again", ["fit", "warm_start", "refit_leaves"])
def test_what_no_longer_fits_the_model_goes(again):
    X, y = some_rows()
    model = MartClassifier(**{**TEMPERATURE, "cv": 2}).fit(X, y)
    assert all(has_scores(model))
    before = model.oof_decision_function_.copy()
    if again == "refit_leaves":
        assert not any(has_scores(model.refit_leaves(X, y)))
        return
    model.set_params(n_estimators=8, warm_start=again == "warm_start")
    model.fit(X, y)
    assert all(has_scores(model)) and not np.array_equal(model.oof_decision_function_, before)
    model.set_params(n_estimators=9, calibrate=None).fit(X, y)
    assert not any(has_scores(model))


def test_an_error_leaves_those_of_the_model():
    X, y = some_rows()
    model = MCBoostClassifier(**AUTO).fit(X, y)
    before = model.oof_decision_function_
    with pytest.raises(ValueError, match="cv=200"):
        model.set_params(cv=200).fit(X, y)
    assert model.oof_decision_function_ is before


def test_pickles_keep_them_and_clones_and_files_do_not(tmp_path):
    X, y = some_rows()
    model = MCBoostClassifier(**AUTO).fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.oof_decision_function_, model.oof_decision_function_)
    np.testing.assert_array_equal(restored.oof_fold_, model.oof_fold_)
    assert not any(has_scores(clone(model)))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(model))
    fixed = MCBoostClassifier(n_estimators=model.n_estimators_, random_state=0).fit(X, y)
    sizes = []
    for i, one in enumerate((model, fixed)):
        one.save(tmp_path / str(i))
        sizes.append((tmp_path / str(i)).stat().st_size)
    assert sizes[0] - sizes[1] < 100, "the file has the parameters that differ"


def test_scores_begin_at_those_given():
    X, y = some_rows()
    first = np.random.default_rng(1).normal(size=(150, 3))
    cv = KFold(3)
    same = {"calibrate": None, "subsample": 1.0, "max_features": 1.0, "random_state": 0}
    model = VectorTreeBoostClassifier(cv=cv, n_estimators="auto", **same).fit(
        X, y, init_score=first
    )
    by_hand = VectorTreeBoostClassifier(n_estimators=model.cv_results_["best_round"], **same)
    for train, test in cv.split(X):
        by_hand.fit(X[train], y[train], init_score=first[train])
        expected = by_hand.decision_function(X[test], init_score=first[test])
        np.testing.assert_allclose(model.oof_decision_function_[test], expected, rtol=1e-9)
