"""Metrics of held-out rows: values, weights, missing classes, and what scorers see."""

import re
import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse
import sklearn.metrics
from contract.variants import as_published
from sklearn.datasets import load_iris
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import KFold

from pymcboost import (
    AdaBoostMLClassifier,
    AdaBoostMOClassifier,
    Checkpoint,
    HingeBoostOCClassifier,
    MartClassifier,
    PIBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.callbacks import TrainingLoss
from pymcboost.model.builders import EnsembleBuilder
from pymcboost.model.model import Model
from pymcboost.model.temperature import fit_temperature
from pymcboost.training.callbacks import Patience
from pymcboost.training.metrics import (
    LEAST,
    METRICS,
    CalibratedLogLoss,
    Metric,
    ValidationSet,
    log_loss,
    log_probabilities,
    probabilities,
)
from pymcboost.training.validation import Validation

(MartClassifier,) = as_published(MartClassifier)

CLASSES = np.array(["ape", "bee", "cat", "dog", "elk"])


def held_of(codes, weight=None, name="val", K=5):
    codes = np.asarray(codes)
    y = np.where(codes < 0, "unseen", CLASSES[codes])
    weight = np.ones(len(codes)) if weight is None else np.asarray(weight, dtype=float)
    return ValidationSet.of(name, np.zeros((len(codes), 1)), y, codes, weight)


def some_rows(K=4, n=300, seed=0, weighted=True, spread=2.0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, K, n)
    scores = rng.normal(size=(n, K)) * spread
    scores[np.arange(n), codes] += 1
    return scores, held_of(codes, rng.integers(0, 4, n) if weighted else None)


def softmax(scores, link):
    scores = scores * {"softmax": 1, "softmax2": 2}[link]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("link", ["softmax", "softmax2"])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_values_are_scikit_learns(K, link, weighted):
    scores, held = some_rows(K, weighted=weighted)
    p = softmax(scores, link)
    labels = CLASSES[:K]
    w = held.weight
    values = {name: Metric(name, labels, link)(scores, held) for name in METRICS}
    said = labels[scores.argmax(axis=1)]
    area = {"y_score": p[:, 1]} if K == 2 else {"y_score": p, "multi_class": "ovr"}
    assert values == pytest.approx(
        {
            "log_loss": sklearn.metrics.log_loss(held.y, p, sample_weight=w, labels=labels),
            "error": 1 - sklearn.metrics.accuracy_score(held.y, said, sample_weight=w),
            "balanced_error": 1
            - sklearn.metrics.balanced_accuracy_score(held.y, said, sample_weight=w),
            "auc_ovr": sklearn.metrics.roc_auc_score(held.y, **area, sample_weight=w),
        },
        rel=1e-12,
    )


def test_rows_that_tie_count_half_in_the_area():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (200, 3)).astype(float)
    codes = rng.integers(0, 3, 200)
    weight = rng.integers(1, 4, 200)
    held = held_of(codes, weight)
    areas = [
        sklearn.metrics.roc_auc_score(codes == k, scores[:, k], sample_weight=weight)
        for k in range(3)
    ]
    assert Metric("auc_ovr", CLASSES[:3], "none")(scores, held) == pytest.approx(
        np.mean(areas), rel=1e-12
    )


def test_log_loss_of_impossible_rows_is_bounded_as_in_scikit_learn():
    scores = np.array([[1e6, 0.0, -1e300], [0.0, 5.0, -1e300], [0.0, 0.0, 0.0]])
    metric = Metric("log_loss", CLASSES[:3], "softmax")
    bound = -np.log(LEAST)
    assert metric(scores, held_of([1, 2, 0])) == pytest.approx(
        (2 * bound + np.log(3)) / 3, rel=1e-14
    )
    assert metric(scores[:1], held_of([0])) == 0.0
    p = softmax(scores, "softmax")
    labels = CLASSES[:3]
    expected = sklearn.metrics.log_loss(["bee", "cat", "ape"], p, labels=labels)
    assert metric(scores, held_of([1, 2, 0])) == pytest.approx(expected, rel=1e-12)


def test_labels_that_training_has_not_seen_are_wrong_and_impossible():
    scores = np.array([[2.0, 0.0], [0.0, 2.0], [5.0, 0.0], [1.0, 0.0]])
    held = held_of([0, 0, -1, 1], weight=[1, 2, 3, 4])
    own = np.log1p(np.exp(-2)), 2 + np.log1p(np.exp(-2)), -np.log(LEAST), 1 + np.log1p(np.exp(-1))
    labels = CLASSES[:2]
    assert Metric("log_loss", labels, "softmax")(scores, held) == pytest.approx(
        np.average(own, weights=[1, 2, 3, 4])
    )
    assert Metric("error", labels, "softmax")(scores, held) == pytest.approx(0.9)
    assert Metric("balanced_error", labels, "softmax")(scores, held) == pytest.approx(
        (2 / 3 + 1 + 1) / 3
    )


@pytest.mark.parametrize("weight", [None, [1, 1, 1, 1, 1, 1, 0]])
def test_classes_without_rows_do_not_count(weight):
    scores = np.random.default_rng(0).normal(size=(7, 4))
    held = held_of([0, 2, 0, 2, 2, 0, 2 if weight is None else 1], weight=weight)
    labels = CLASSES[:4]
    p = softmax(scores, "softmax")
    w = held.weight
    areas = [
        sklearn.metrics.roc_auc_score(held.codes == k, p[:, k], sample_weight=w) for k in (0, 2)
    ]
    assert Metric("auc_ovr", labels, "softmax")(scores, held) == pytest.approx(np.mean(areas))
    expected = sklearn.metrics.log_loss(held.y, p, labels=labels, sample_weight=w)
    assert Metric("log_loss", labels, "softmax")(scores, held) == pytest.approx(expected)
    wrong = [np.average(scores[held.codes == k].argmax(axis=1) != k) for k in (0, 2)]
    assert Metric("balanced_error", labels, "softmax")(scores, held) == pytest.approx(
        np.mean(wrong)
    )


@pytest.mark.parametrize("weight", [None, [0, 0, 3]])
def test_one_class_has_no_area(weight):
    metric = Metric("auc_ovr", CLASSES[:3], "softmax")
    with pytest.raises(ValueError, match="'val' has rows of one class only, .*auc_ovr"):
        metric.check(held_of([1, 1, 1] if weight is None else [0, 1, 2], weight))


@pytest.mark.parametrize(
    ("weight", "how"), [([0, 0], "no row of positive weight"), ([1, np.inf], "that overflow")]
)
def test_weights_without_a_mean_are_refused(weight, how):
    with pytest.raises(ValueError, match=how):
        held_of([0, 1], weight)


@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_the_scale_of_the_weights_does_not_matter(factor):
    scores, held = some_rows()
    scaled = ValidationSet.of("val", held.X, held.y, held.codes, held.weight * factor)
    for name in METRICS:
        metric = Metric(name, CLASSES[:4], "softmax")
        assert metric(scores, scaled) == pytest.approx(metric(scores, held), rel=1e-12)


SCORERS = (
    "accuracy",
    "neg_log_loss",
    "roc_auc_ovr",
    "f1_macro",
    "matthews_corrcoef",
    "balanced_accuracy",
)


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.part(2)
def test_scorers_see_what_the_model_of_the_round_would_say(name, K):
    rng = np.random.default_rng(1)
    y = rng.integers(0, K, 400)
    X = rng.normal(size=(400, 3)) + y[:, None]
    weight = rng.integers(0, 3, 200).astype(float)
    model = MartClassifier(n_estimators=8, scoring=name)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:], sample_weight_val=weight)
    expected = get_scorer(name)(model, X[200:], y[200:], sample_weight=weight)
    assert model.history_[f"val_{name}"][-1] == pytest.approx(expected, rel=1e-9)


def test_callables_get_the_rows_and_labels_as_given_and_predict_nothing_again():
    rng = np.random.default_rng(1)
    y = CLASSES[rng.integers(0, 3, 200)]
    X = rng.normal(size=(200, 3))
    seen = []

    def depth(estimator, X_val, y_val):
        seen.append((X_val, y_val))
        labels = estimator.predict(None)  # it looks at no X
        assert np.array_equal(
            labels, estimator.classes_[estimator.decision_function(None).argmax(axis=1)]
        )
        assert np.array_equal(
            labels, estimator.classes_[estimator.predict_proba(None).argmax(axis=1)]
        )
        return len(seen)

    model = VectorTreeBoostClassifier(
        n_estimators=6, scoring=depth, early_stopping=True, n_iter_no_change=2
    )
    model.fit(X, y, X_val=X[:50], y_val=y[:50])
    assert model.history_["val_score"].tolist() == [1, 2, 3, 4, 5, 6]
    assert len(seen) == 6
    assert all(
        np.array_equal(X_val, X[:50]) and np.array_equal(y_val, y[:50]) for X_val, y_val in seen
    )


LETTERS = np.array(["a", "b", "c"])[np.arange(120) % 3]
FORMS = {
    "array": lambda X: X,
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pandas.DataFrame({"time": X[:, 0], "letter": pandas.Categorical(LETTERS)}),
    "polars": lambda X: pytest.importorskip("polars").DataFrame({"time": X[:, 0], "b": X[:, 1]}),
    "pyarrow": lambda X: pytest.importorskip("pyarrow").table({"time": X[:, 0], "b": X[:, 1]}),
    "csr": lambda X: scipy.sparse.csr_array(X - [1.7e9, 0]),
    "coo": lambda X: scipy.sparse.coo_array(X - [1.7e9, 0]),
}


def shown(X):
    """Rows of any kind as text, one for each."""
    if hasattr(X, "column_names"):
        X = X.to_pandas()
    return list(
        map(
            str,
            (
                X.toarray()
                if hasattr(X, "toarray")
                else X.to_numpy()
                if hasattr(X, "columns")
                else X
            )[:],
        )
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["X_val", "split", "folds", "all"])
@pytest.mark.part(4)
def test_functions_see_rows_as_they_were_given(how, form):
    """Time stamps whole, categories by name, frames as frames and sparse rows by rows."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1.7e9 + np.arange(120), rng.normal(size=120)])
    y = rng.integers(0, 2, 120)
    seen = []
    X = FORMS[form](X)

    class Splits(KFold):
        def split(self, X, y=None, groups=None):
            seen.append(X)
            return super().split(X, y, groups)

    def scorer(estimator, X, y):
        seen.append(X)
        return 0.0

    params = {"n_estimators": 2, "scoring": scorer, "calibrate": None}
    given = {}
    if how == "X_val":
        given = {"X_val": X, "y_val": y, "validation_sets": {"more": (X, y)}}
    elif how == "split":
        params["early_stopping"] = True
    elif how == "folds":
        params |= {"n_estimators": "auto", "n_iter_no_change": 1, "cv": Splits(2)}
    else:
        given = {"callbacks": [TrainingLoss()]}
    MartClassifier(**params).fit(X, y, **given)
    kinds = {"list": np.ndarray, "coo": (scipy.sparse.coo_array, scipy.sparse.csr_array)}
    assert seen and all(isinstance(one, kinds.get(form, type(X))) for one in seen)
    rows = shown(np.asarray(X) if form == "list" else X)
    assert {row for one in seen for row in shown(one)} <= {*rows}
    assert how == "split" or {row for one in seen for row in shown(one)} == {*rows}


def test_two_classes_have_one_decision():
    scores, held = some_rows(2)

    def difference(estimator, X, y):
        assert estimator.decision_function(X).shape == y.shape
        return (estimator.decision_function(X) - (scores[:, 1] - scores[:, 0])).sum()

    assert (
        Metric(difference, CLASSES[:2], "none")(
            scores, ValidationSet.of("val", None, held.y, held.codes, np.ones(300))
        )
        == 0
    )


def test_weights_go_to_scorers_that_take_them():
    scores, held = some_rows()
    labels = CLASSES[:4]
    plain = Metric(lambda estimator, X, y: np.mean(estimator.predict(X) == y), labels, "softmax")
    with pytest.warns(UserWarning, match="does not accept sample_weight, .* 'val'"):
        plain.check(held)
    assert plain(scores, held) == pytest.approx(np.mean(scores.argmax(axis=1) == held.codes))
    made = Metric(make_scorer(sklearn.metrics.accuracy_score), labels, "softmax")
    made.check(held)
    assert made(scores, held) == pytest.approx(1 - Metric("error", labels, "softmax")(scores, held))


@pytest.mark.parametrize("value", [np.nan, None, "0.3", 1j, np.array([1.0, 2.0])])
def test_what_is_no_number_is_refused_with_the_set(value):
    scores, held = some_rows()
    with pytest.raises(ValueError, match="for the validation set 'val'; it must return a number"):
        Metric(lambda estimator, X, y: value, CLASSES[:4], "softmax")(scores, held)


def test_scorers_that_refuse_a_set_name_it():
    scores, _ = some_rows(2)
    unseen = held_of(np.resize([0, 1, -1], 300))
    with pytest.raises(
        ValueError, match="log_loss.* fails on the validation set 'val': y_true contains"
    ):
        Metric("neg_log_loss", CLASSES[:2], "softmax")(scores, unseen)
    one = held_of(np.zeros(300, dtype=int))
    message = "roc_auc_score.* the validation set 'val'.*; the set has no row of the class 'bee': give rows of all"
    with (
        pytest.warns(sklearn.exceptions.UndefinedMetricWarning),
        pytest.raises(ValueError, match=message),
    ):
        Metric("roc_auc", CLASSES[:2], "softmax")(scores, one)


# Scorers that take a column for each class.
BY_CLASS = [
    "neg_log_loss",
    "roc_auc_ovr",
    "roc_auc_ovr_weighted",
    "roc_auc_ovo",
    "roc_auc_ovo_weighted",
    "top_k_accuracy",
    "average_precision",
    "d2_log_loss_score",
]


@pytest.mark.parametrize(
    "scoring", [*BY_CLASS, make_scorer(sklearn.metrics.log_loss, response_method="predict_proba")]
)
@pytest.mark.parametrize("how", ["X_val", "split", "folds", "two classes"])
@pytest.mark.part(7)
def test_scorers_measure_rows_that_lack_a_class(scoring, how):
    """A class of one row, which is in no part that is held out of the training, or in one of the folds."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 3)) + y[:, None]
    params = {
        "X_val": {},
        "split": {"early_stopping": True, "validation_fraction": 0.3},
        "two classes": {},
    }
    params["folds"] = {"n_estimators": "auto", "n_iter_no_change": 2}
    keep = np.ones(120, dtype=bool)
    options = {}
    if how == "X_val":
        options = {"X_val": X[y != 1], "y_val": y[y != 1]}
    elif how == "two classes":
        keep = y != 2
        options = {"X_val": X[y == 0], "y_val": y[y == 0]}
        if scoring in ("average_precision",) or str(scoring).startswith("roc"):
            pytest.skip("no area of one class alone")
    else:
        keep[np.flatnonzero(y == 1)[1:]] = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "'k' .* greater than or equal to 'n_classes'")
        model = VectorTreeBoostClassifier(
            **{"n_estimators": 2, "scoring": scoring, "random_state": 0, **params[how]}
        )
        model.fit(X[keep], y[keep], **options)
    name = scoring if isinstance(scoring, str) else "score"
    measured = model.cv_results_["folds"] if how == "folds" else model.history_[f"val_{name}"]
    assert np.isfinite(measured).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_values_of_scorers_where_a_class_has_no_row(weighted):
    scores, _ = some_rows(3, n=200)
    codes = np.resize([0, 2], 200)
    held = held_of(codes, 1 + np.arange(200) % 3 if weighted else None)
    p = softmax(scores, "softmax")
    weight = held.weight
    labels = CLASSES[:3]
    areas = [
        sklearn.metrics.roc_auc_score(codes == k, p[:, k], sample_weight=weight) for k in (0, 2)
    ]
    expected = {
        "neg_log_loss": -sklearn.metrics.log_loss(held.y, p, labels=labels, sample_weight=weight),
        "top_k_accuracy": sklearn.metrics.top_k_accuracy_score(
            held.y, p, labels=labels, sample_weight=weight
        ),
        "roc_auc_ovr": np.mean(areas),
        "roc_auc_ovr_weighted": np.average(areas, weights=[held.totals()[1], held.totals()[3]]),
    }
    for name, value in expected.items():
        assert Metric(name, labels, "softmax")(scores, held) == pytest.approx(value, rel=1e-12)


def test_minus_infinity_is_the_worst_value():
    """log of a probability of 0, say: the first round is kept, and the training ends with its patience."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = rng.integers(0, 3, 200)
    worst = {"scoring": lambda *_: -np.inf, "early_stopping": True, "n_iter_no_change": 4}
    model = MartClassifier(n_estimators=20, **worst).fit(X, y)
    assert model.n_estimators_ == 1
    seen = []
    better = {
        **worst,
        "scoring": lambda *_: seen.append(0) or (-np.inf if len(seen) != 3 else -5.0),
    }
    assert MartClassifier(n_estimators=20, **better).fit(X, y).n_estimators_ == 3
    assert len(seen) == 7


@pytest.mark.parametrize("scoring", ["logloss", "", 3, None, {"error"}])
def test_unknown_metrics_are_refused_with_those_there_are(scoring):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.arange(30) % 3
    message = (
        re.escape(f"scoring={scoring!r} is not allowed; ")
        + ".*'log_loss', 'error', .*get_scorer_names"
    )
    with pytest.raises(ValueError, match=message):
        MartClassifier(scoring=scoring).fit(X, y)


def test_no_log_loss_without_probabilities():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.arange(30) % 3
    with pytest.raises(ValueError, match="scoring='log_loss' needs probabilities"):
        HingeBoostOCClassifier(scoring="log_loss").fit(X, y, X_val=X, y_val=y)
    for scoring in (
        "roc_auc_ovr",
        make_scorer(sklearn.metrics.log_loss, response_method="predict_proba"),
    ):
        with pytest.raises(ValueError, match="scoring=.*(ovr|proba).* needs probabilities"):
            HingeBoostOCClassifier(scoring=scoring).fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="fails on .* 'val': .* no attribute 'predict_proba'"):
        HingeBoostOCClassifier(scoring=lambda model, X, y: model.predict_proba(X)[0, 0]).fit(
            X, y, X_val=X, y_val=y
        )
    model = HingeBoostOCClassifier(n_estimators=2, scoring="roc_auc").fit(
        X, y > 0, X_val=X, y_val=y > 0
    )
    assert np.isfinite(model.history_["val_roc_auc"]).all()  # it takes scores as well
    model = HingeBoostOCClassifier(n_estimators=3, scoring="auc_ovr").fit(X, y, X_val=X, y_val=y)
    expected = np.mean(
        [sklearn.metrics.roc_auc_score(y == k, model.decision_function(X)[:, k]) for k in range(3)]
    )
    assert model.history_["val_auc_ovr"][-1] == pytest.approx(expected)


def test_several_sets_have_the_scores_that_each_alone_has():
    rng = np.random.default_rng(0)
    parts = [
        rng.normal(size=(n, 4)).astype(dtype) for n, dtype in ((30, "f4"), (20, "f8"), (25, "f4"))
    ]
    parts[2][rng.random(parts[2].shape) < 0.5] = 0
    parts[1][2, 3] = np.nan
    mixed = [parts[0], parts[1], scipy.sparse.csc_matrix(parts[2])]
    for sets in parts, mixed:
        held = [
            ValidationSet.of(
                f"s{i}",
                X,
                np.zeros(X.shape[0]),
                np.zeros(X.shape[0], dtype=int),
                np.ones(X.shape[0]),
            )
            for i, X in enumerate(sets)
        ]
        validation = Validation(held, 3)
        X = validation.X.toarray() if hasattr(validation.X, "toarray") else validation.X
        np.testing.assert_array_equal(X, np.concatenate(parts))
        validation.scores = np.arange(75.0)[:, None] * [1, 0, 0]
        first = lambda estimator, X, y: estimator.decision_function(X)[0, 0]  # noqa: E731
        measured = validation.measure(Metric(first, np.arange(3), "softmax"))
        assert measured == {"s0_score": 0, "s1_score": 30, "s2_score": 50}


@pytest.mark.parametrize(
    ("curve", "min_delta", "ends", "best"),
    [
        ([5, 4, 3, 2, 1, 1, 1, 1], 0, 8, 5),
        ([5, 4.5, 4, 3.5, 3, 2.5, 2, 1.5], 0.9, None, 8),  # slow, but in two rounds enough
        ([5, 4.8, 4.7, 4.6, 4.6, 4.6], 1, 4, 4),  # the best is kept though it is little better
        ([5, 5, 5, 4, 4, 4], 0, None, 4),
        ([5, 5, 5, 5, 4, 4], 0, 4, 1),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_patience_of_three_rounds(curve, min_delta, ends, best, sign):
    patience = Patience(sign, 3, min_delta)
    over = None
    for t, value in enumerate(curve, 1):
        patience.see(sign * value, t)
        if patience.over(t):
            over = t
            break
    assert over == ends
    assert patience.best_round == best


@pytest.mark.parametrize("link", ["softmax", "softmax2"])
def test_the_calibrated_log_loss_is_that_at_the_best_temperature(link):
    """Labels that training has not seen have no say in the temperature, and count in the loss."""
    rng = np.random.default_rng(3)
    scores = 5 * rng.normal(size=(60, 3))
    codes = rng.integers(0, 3, 60)
    codes[:4] = -1
    held = ValidationSet.of("val", None, codes, codes, rng.uniform(0.5, 1, 60))
    metric = CalibratedLogLoss(link)
    found = metric(scores, held)
    temperature = fit_temperature(scores[4:], codes[4:], held.weight[4:], link=link)
    assert found == log_loss(scores / temperature, held, link)
    metric.of_sets([scores * 9], [held], [codes >= 0])
    assert metric(scores, held) == found  # whatever was measured before
    unseen = ValidationSet.of("val", None, codes[:4], codes[:4], np.ones(4))
    assert metric(scores[:4], unseen) == log_loss(scores[:4], unseen, link)


def test_one_temperature_for_all_sets():
    rng = np.random.default_rng(4)
    scores = 5 * rng.normal(size=(60, 3))
    codes = rng.integers(0, 3, 60)
    parts = [slice(0, 25), slice(25, 60)]
    sets = [
        ValidationSet.of("fold", None, codes[part], codes[part], np.ones(len(codes[part])))
        for part in parts
    ]
    found = CalibratedLogLoss("softmax").of_sets(
        [scores[part] for part in parts], sets, [np.ones(25), np.ones(35)]
    )
    whole = CalibratedLogLoss("softmax")(
        scores, ValidationSet.of("all", None, codes, codes, np.ones(60))
    )
    assert np.average(found, weights=[25, 35]) == pytest.approx(whole, rel=1e-12)


class Recorder:
    """A function as scoring that keeps what it has measured."""

    def __init__(self):
        self.seen = []

    def __call__(self, estimator, X, y):
        self.seen.append(float(np.mean(estimator.predict(X) == y)))
        return self.seen[-1]


def test_checkpoint_with_a_scoring_function_that_has_a_state_goes_on(tmp_path):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "c.part"
    models = []
    for rounds in 3, 5:
        model = VectorTreeBoostClassifier(
            n_estimators=rounds, scoring=Recorder(), random_state=0, calibrate=None
        )
        models.append(Checkpoint(path, every=0).fit(model, X, y, X_val=X, y_val=y))
    assert len(models[1].history_["val_score"]) == 5 and len(models[1].scoring.seen) < 5


def constant_model(scores, link):
    """A model whose raw scores are these, of any row."""
    builder = EnsembleBuilder(len(scores), 1)
    builder.bias[:] = scores
    return Model.from_ensemble(builder.freeze(), np.arange(len(scores)), link=link)


@pytest.mark.parametrize("link", ["softmax", "softmax2"])
@pytest.mark.parametrize("K", [3, 4, 9, 40, 1500])
def test_probabilities_do_not_depend_on_the_order_of_the_classes(K, link):
    rng = np.random.default_rng(K)
    F = (rng.normal(size=(6, K)) * 3).astype(np.float32)
    F[0] = 0  # the largest sum
    order = rng.permutation(K)
    row = np.zeros((1, 1))
    found = np.concatenate([constant_model(scores, link).predict_proba(row) for scores in F])
    turned = np.concatenate(
        [constant_model(scores[order], link).predict_proba(row) for scores in F]
    )
    assert np.array_equal(found[:, order], turned)
    np.testing.assert_allclose(found, softmax(F.astype(float), link), rtol=1e-12)
    assert np.array_equal(probabilities(F.astype(float), link), found)
    np.testing.assert_allclose(np.exp(log_probabilities(F.astype(float), link)), found, rtol=1e-13)


@pytest.mark.parametrize("cls", [AdaBoostMLClassifier, SAMMEClassifier, VectorTreeBoostClassifier])
def test_rows_with_the_same_scores_in_another_order_tie_in_the_area(cls):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, (150, 4)).astype(float)
        y = (X.sum(axis=1).astype(int) + rng.integers(0, 7, 150)) % 7
        params = {"n_estimators": 12, "max_depth": 1, "calibrate": None}
        params |= {"min_relative_gain": 0.0} if cls is VectorTreeBoostClassifier else {}
        model = cls(**params, scoring="auc_ovr", n_jobs=1).fit(X, y, X_val=X, y_val=y)
        given = model.predict_proba(X)
        F = model.decision_function(X)
        exponentials = np.exp(F - F.max(axis=1, keepdims=True))
        exact = exponentials / np.sort(exponentials, axis=1).sum(axis=1, keepdims=True)
        for p in (given,) if cls is VectorTreeBoostClassifier else (given, exact.round(13)):
            areas = [sklearn.metrics.roc_auc_score(y == k, p[:, k]) for k in range(7)]
            assert model.history_["val_auc_ovr"][-1] == pytest.approx(np.mean(areas), abs=1e-12)


@pytest.mark.parametrize(
    "link", ["none", "softmax", "softmax2", "sigmoid", lambda F: log_probabilities(F, "softmax")]
)
def test_sums_of_the_same_terms_in_another_order_tie_in_the_area(link):
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(40, 30, 3)) / 8
    F = np.concatenate([terms.sum(axis=1), rng.permuted(terms, axis=1).cumsum(axis=1)[:, -1]])
    codes = rng.integers(0, 3, len(F))
    held = ValidationSet.of(
        "val",
        F,
        codes,
        np.eye(3, dtype=int)[codes] if link == "sigmoid" else codes,
        np.ones(len(F)),
    )
    exact = np.tile(terms.sum(axis=1), (2, 1))
    metric = Metric("auc_ovr", np.arange(3), link)
    assert 0 < np.abs(F - exact).max() < 1e-13
    assert metric(F, held) == pytest.approx(metric(exact, held), abs=1e-14)
    apart = F + np.outer(np.arange(len(F)), [1e-11, -2e-11, 3e-11])  # more than rounding
    expected = exact + np.outer(np.arange(len(F)), [1e-8, -2e-8, 3e-8])
    assert (
        metric(apart, held) == pytest.approx(metric(expected, held), abs=1e-14) != metric(F, held)
    )


@pytest.mark.parametrize("link", ["softmax", "softmax2"])
def test_probabilities_next_to_0_and_1_rank_in_the_area(link):
    F = np.zeros((8, 3))
    F[:, 0] = [*np.linspace(-300, -290, 4), *np.linspace(14, 14.5, 4)]
    codes = np.array([1, 2, 1, 0, 2, 0, 0, 0])
    falls = -F[:, 0].clip(0)  # the others' probabilities, which are 1/2 in the first four rows
    held = ValidationSet.of("val", F, codes, codes, np.ones(8))
    areas = [
        sklearn.metrics.roc_auc_score(codes == k, column)
        for k, column in enumerate((F[:, 0], falls, falls))
    ]
    assert Metric("auc_ovr", np.arange(3), link)(F, held) == pytest.approx(np.mean(areas))


@pytest.mark.parametrize(
    ("cls", "seed", "rounds", "K", "levels", "shape"),
    [(PIBoostClassifier, 162, 26, 6, 5, (12, 2)), (AdaBoostMOClassifier, 220, 1, 7, 4, (300, 1))],
)
def test_scores_that_differ_by_rounding_tie_in_the_area(cls, seed, rounds, K, levels, shape):
    rng = np.random.default_rng(seed)
    rng.integers(9, size=4)
    X = rng.integers(0, levels, shape).astype(float)
    y = (X.sum(axis=1).astype(int) + rng.integers(0, 2, len(X)) * rng.integers(0, K, len(X))) % K
    model = cls(n_estimators=rounds, max_depth=1, calibrate=None, scoring="auc_ovr", n_jobs=1)
    model.fit(X, y, X_val=X, y_val=y)
    p = model.predict_proba(X)
    areas, bits = (
        [
            sklearn.metrics.roc_auc_score(y == label, column)
            for label, column in zip(model.classes_, q.T, strict=True)
        ]
        for q in (p.round(13), p)
    )
    assert areas != bits, "no scores that differ by rounding"
    assert model.history_["val_auc_ovr"][-1] == pytest.approx(np.mean(areas), abs=1e-12)
