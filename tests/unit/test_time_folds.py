"""Folds in which some rows are never held out, such as those in the order of time."""

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit, TimeSeriesSplit

from pymcboost import (
    AdaBoostMHClassifier,
    Dataset,
    MartClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.model.temperature import fit_temperature
from pymcboost.registry import get_class
from pymcboost.training import calibration, folds, thresholds
from pymcboost.training.folds import held_scores, out_of_fold, splits
from pymcboost.training.labels import best_thresholds
from pymcboost.training.training_set import TrainingSet


def some_rows(n=180, K=3, d=4, seed=0):
    """Rows whose centres move with their number."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    centre, drift = rng.normal(size=(2, K, d))
    return rng.normal(size=(n, d)) + centre[y] + np.linspace(0, 1.5, n)[:, None] * drift[y], y


def dataset_of(X, y, weight=None):
    classes, codes = np.unique(y, return_inverse=True)
    return TrainingSet(X, classes, codes, weight=np.ones(len(y)) if weight is None else weight)


@pytest.fixture
def trained(monkeypatch):
    """Rows that each model of a fold is trained on, and those that it scores, in the order of the models."""
    seen = []
    original = folds._Model

    def model(estimator, dataset, fold, **options):
        seen.append(fold)
        return original(estimator, dataset, fold, **options)

    monkeypatch.setattr(folds, "_Model", model)
    return seen


GAPS = [(np.arange(60), np.arange(70, 100)), (np.arange(20, 100), np.arange(110, 150))]
SOME = PredefinedSplit(np.where(np.arange(180) % 4, np.arange(180) % 4 - 1, -1))


@pytest.mark.parametrize(
    "cv", [TimeSeriesSplit(4), TimeSeriesSplit(3, gap=7, max_train_size=40), SOME, GAPS]
)
def test_rows_may_never_be_held_out(cv):
    X, y = some_rows()
    expected = GAPS if cv is GAPS else list(cv.split(X))
    for actual, one in zip(splits(cv, dataset_of(X, y), 0), expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(actual, one, strict=True))
    auto = out_of_fold(
        MartClassifier(cv=cv, n_iter_no_change=2, calibrate=None), dataset_of(X, y), seed=0
    )
    never = np.setdiff1d(np.arange(180), np.concatenate([held for _, held in expected]))
    assert len(never) and (auto.fold[never] == -1).all() and np.isnan(auto.scores[never]).all()
    for i, (train, held) in enumerate(expected):
        assert (auto.fold[held] == i).all() and np.isfinite(auto.scores[held]).all()
        assert np.array_equal(np.flatnonzero(auto.trained[i]), train)
    for part, one in zip(auto.parts(), expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(part, one, strict=True))
    # The metric is that of the rows held out.
    index = list(auto.rounds).index(auto.best_round)
    for i, (_, held) in enumerate(expected):
        z = np.exp(auto.scores[held] - auto.scores[held].max(axis=1, keepdims=True))
        of_fold = log_loss(y[held], z / z.sum(axis=1, keepdims=True), labels=[0, 1, 2])
        np.testing.assert_allclose(auto.curves[i, index], of_fold, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["vector-tree", "mcboost", "mart", "multiboost", "adaboost-mo", "hingeboost"]
)
def test_models_of_folds_do_not_see_later_labels(name):
    X, y = some_rows()
    estimator = get_class(name)(n_jobs=1)
    parts = list(TimeSeriesSplit(4).split(X))
    found, _ = held_scores(estimator, dataset_of(X, y), 3, rounds=5, parts=parts)
    for i, (_, held) in enumerate(parts):
        others = y.copy()
        others[held[0] :] = (y[held[0] :] + 1) % 3
        poisoned, _ = held_scores(estimator, dataset_of(X, others), 3, rounds=5, parts=parts)
        np.testing.assert_array_equal(poisoned[: held[-1] + 1], found[: held[-1] + 1])
        if i < 3:
            assert not np.array_equal(poisoned[held[-1] + 1 :], found[held[-1] + 1 :])


@pytest.mark.parametrize("gap", [0, 5])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {"n_estimators": "auto"},
        {"n_estimators": "auto", "calibrate": "temperature"},
        {"calibrate": "temperature"},
    ],
)
@pytest.mark.part(5)
def test_every_model_is_trained_on_earlier_rows(params, reverse, gap, trained):
    """Also the one more model, of few rows, from which the temperature of all rows follows."""
    X, y = some_rows(600)
    cv = list(TimeSeriesSplit(4, gap=gap).split(X))[:: -1 if reverse else 1]
    given = {
        "n_estimators": 4,
        "calibrate": None,
        "max_leaf_nodes": 4,
        "n_iter_no_change": 2,
        **params,
    }
    model = VectorTreeBoostClassifier(cv=cv, random_state=0, n_jobs=1, **given).fit(X, y)
    assert all(train.max() < test.min() - gap for train, test in trained)
    if given["calibrate"]:
        assert model.model_.is_calibrated
        assert min(len(train) for train, _ in trained) == 120 - gap, "there is a model of few rows"


def test_labels_take_their_thresholds_from_rows_held_out(trained, monkeypatch):
    X, y = some_rows()
    Y = np.stack([y > 0, X[:, 0] > 0.5, np.random.default_rng(0).random(180) < 0.3], axis=1).astype(
        int
    )
    seen = []

    def kept(*given):
        seen.append(given)
        return best_thresholds(*given)

    monkeypatch.setattr(thresholds, "best_thresholds", kept)
    for n_estimators in 3, "auto":
        given = {"n_estimators": n_estimators, "decision_threshold": "f1", "cv": TimeSeriesSplit(3)}
        model = AdaBoostMHClassifier(**given, random_state=0).fit(X, Y)
        scores, labels, _ = seen.pop()
        assert np.isfinite(scores).all()
        np.testing.assert_array_equal(labels, Y[45:])
        assert model.model_.thresholds.any()
    assert all(train.max() < test.min() for train, test in trained)


# -- rounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cv", "more"),
    [
        (TimeSeriesSplit(4), 2.0),  # whose mean training is half of the rows
        (TimeSeriesSplit(2), 2.0),
        (SOME, 1.5),  # three folds of a quarter each
        (TimeSeriesSplit(8, max_train_size=20), 4.0),  # nine times, which is too far to go
    ],
)
def test_rounds_grow_with_the_root_of_the_rows(cv, more):
    X, y = some_rows()
    model = MartClassifier(n_estimators="auto", cv=cv, n_iter_no_change=3, random_state=0).fit(X, y)
    best = model.cv_results_["best_round"]
    assert model.cv_results_["n_estimators"] == model.n_estimators_ == round(best * more**0.5)


def test_rows_without_weight_are_not_among_all_rows():
    X, y = some_rows()
    weight = np.repeat([1.0, 0.0], [120, 60])
    cv = TimeSeriesSplit(2, test_size=30)
    out_of_fold_scores = out_of_fold(
        MartClassifier(cv=[*cv.split(X[:120])]), dataset_of(X, y, weight), seed=0
    )
    assert out_of_fold_scores.n_estimators == round(
        out_of_fold_scores.best_round * (120 / 75) ** 0.5
    )


# -- temperature -------------------------------------------------------------------------------------------------------


def temperature_by_hand(parts, X, y, n_rounds):
    scores = []
    codes = []
    for train, test in parts:
        model = MCBoostClassifier(n_estimators=n_rounds).fit(X[train], y[train]).model_
        scores.append(model.raw_scores(X[test]))
        codes.append(y[test])
    return fit_temperature(np.concatenate(scores), np.concatenate(codes), None, link="softmax2")


@pytest.mark.parametrize("gap", [0, 6])
def test_the_temperature_comes_from_the_last_folds(gap):
    """The slow twin: the folds with the most rows, and one model of the rows that the one before the last holds out."""
    X, y = some_rows()
    parts = list(TimeSeriesSplit(5, gap=gap).split(X))
    model = MCBoostClassifier(
        n_estimators=30, calibrate="temperature", cv=TimeSeriesSplit(5, gap=gap)
    ).fit(X, y)
    last = parts[:1:-1]  # three of five hold out 55%
    big = np.mean([len(train) for train, _ in last])
    small = 30 - gap
    first = temperature_by_hand(last, X, y, n_rounds=30)
    second = temperature_by_hand([(parts[3][1][: 30 - gap], parts[4][1])], X, y, n_rounds=30)
    assert second > first
    power = np.log(180 / big) / np.log(big / small)
    expected = first * max(first / second, 1 / 4) ** power
    assert 0.1 < power < 1
    assert model.model_.temperature == pytest.approx(expected, rel=2**-11)


@pytest.mark.parametrize(("second", "least"), [(1.0, 1.0), (2.0, 0.5), (64.0, 0.25)])
def test_no_temperature_is_far_from_those_found(second, least, monkeypatch):
    """Few rows in the folds, and many in all: the step from one to the other is the longest that is believed."""
    X, y = some_rows(600)
    found = iter([1.0, second])
    monkeypatch.setattr(calibration, "_temperature", lambda *given: next(found))
    cv = list(TimeSeriesSplit(20, max_train_size=60).split(X))
    warm = VectorTreeBoostClassifier(
        n_estimators=3, calibrate="temperature", cv=cv, random_state=0
    ).fit(X, y)
    assert warm.model_.temperature == pytest.approx(least, rel=1e-3)


def test_under_drift_probabilities_are_calibrated_for_the_future():
    """Folds at random hold out rows like those trained on: their temperature is that of another task."""
    X, y = some_rows(1200, seed=3)
    past = slice(0, 900)
    future = slice(900, None)
    losses = {}
    for cv in 3, TimeSeriesSplit(4):
        model = MartClassifier(n_estimators=60, calibrate="temperature", cv=cv, random_state=0).fit(
            X[past], y[past]
        )
        losses[cv if cv == 3 else "time"] = log_loss(y[future], model.predict_proba(X[future]))
    assert losses["time"] < 0.95 * losses[3], losses


def test_a_class_that_appears_late_has_a_bounded_loss_and_no_say_in_the_temperature():
    X, y = some_rows(240)
    y[:200][y[:200] == 2] = 0
    cv = TimeSeriesSplit(3)
    dataset = dataset_of(X, y)
    for calibrate in None, "temperature":
        model = MartClassifier(
            n_estimators="auto", cv=cv, calibrate=calibrate, n_iter_no_change=2, random_state=0
        )
        cv_results = model.fit(X, y).cv_results_
        assert np.isfinite(cv_results["folds"]).all() and cv_results["folds"].max() < 37
    assert model.classes_.tolist() == [0, 1, 2] and model.model_.is_calibrated
    parts = splits(cv, dataset, 0)
    weight = calibration._weights(dataset, parts)
    assert not weight[:60].any() and (weight[60:] == (y[60:] != 2)).all()


@pytest.mark.parametrize(
    "one", [[(np.arange(120), np.arange(120, 180))], PredefinedSplit([-1] * 120 + [0] * 60)]
)
def test_one_fold_is_enough(one):
    X, y = some_rows()
    auto = MCBoostClassifier(
        n_estimators="auto", cv=one, n_iter_no_change=2, calibrate="temperature"
    ).fit(X, y)
    assert auto.cv_results_["folds"].shape[0] == 1 and auto.model_.is_calibrated
    fixed = MCBoostClassifier(n_estimators=5, cv=one, calibrate="temperature").fit(X, y)
    by_hand = temperature_by_hand([(np.arange(120), np.arange(120, 180))], X, y, n_rounds=5)
    assert fixed.model_.temperature == pytest.approx(by_hand, rel=2**-11)


# -- Dataset -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params", [{"n_estimators": "auto"}, {"n_estimators": 4, "calibrate": "temperature"}]
)
def test_a_subset_is_split_by_its_own_rows(params, trained):
    X, y = some_rows(300)
    rows = np.arange(40, 240)
    new = {"cv": TimeSeriesSplit(4), "random_state": 0, "n_jobs": 1, **params}
    part = MCBoostClassifier(**new).fit(Dataset(X, y).subset(rows))
    of_part = list(trained)
    trained[:] = []
    alone = MCBoostClassifier(**new).fit(X[rows], y[rows])
    assert part.model_.to_bytes() == alone.model_.to_bytes()
    for (train, test), (its_train, its_held) in zip(of_part, trained, strict=True):
        assert np.array_equal(train, rows[its_train]) and np.array_equal(test, rows[its_held])
    with pytest.raises(ValueError, match="row 40 is held out 2 times"):
        twice = [(np.arange(50, 200), np.arange(50))] * 2
        MCBoostClassifier(n_estimators="auto", cv=twice).fit(Dataset(X, y).subset(rows))
