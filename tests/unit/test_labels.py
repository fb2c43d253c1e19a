"""Rows with any number of labels: trees against a twin, metrics, thresholds, going on, and wrong indicators."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from reference import vtrees as twin
from sklearn import metrics
from sklearn.datasets import make_multilabel_classification
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import check_classifier_multioutput

from pymcboost import (
    AdaBoostMHClassifier,
    Checkpoint,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.callbacks import TrainingLoss
from pymcboost.export import integer_labels, to_onnx
from pymcboost.losses import LOSSES
from pymcboost.losses.rows import row_layout
from pymcboost.training import labels
from pymcboost.training.metrics import Metric, ValidationSet
from pymcboost.training.training_set import TrainingSet

BARE = {"subsample": 1.0, "max_features": 1.0, "min_relative_gain": 0.0, "split_columns": None}


def data(m=400, K=5, d=8, seed=0):
    X, Y = make_multilabel_classification(m, d, n_classes=K, random_state=seed)
    return X + 0.01 * np.random.default_rng(seed).normal(size=X.shape), Y


def model(n=8, **params):
    return VectorTreeBoostClassifier(loss="logistic", n_estimators=n, random_state=0, **params)


def sigmoid(F):
    return 1 / (1 + np.exp(-F))


def cross_entropy(Y, P):
    return -np.log(np.where(Y > 0, P, 1 - P)).mean()


def one_vs_rest(X, Y, weight, rounds, rate, max_leaves, l2):
    """Twin: logistic trees of all labels with shared splits; the scores after all rounds."""
    m, K = Y.shape
    lanes, _, width = row_layout(K)
    bins = np.array([np.unique(x, return_inverse=True)[1] for x in X.T.astype(np.float32)])
    n_bins = bins.max(axis=1) + 1
    missing = np.zeros(len(bins), dtype=bool)
    has = weight @ Y + 0.5
    F = np.tile(np.log(has / (weight.sum() + 1 - has)).astype(np.float32).astype(float), (m, 1))
    for _ in range(rounds):
        g = Y - sigmoid(F)
        p = sigmoid(F)
        A = np.zeros((m, width), dtype=np.int64)
        A[:, :K] = np.rint(g * weight[:, None] * 2.0**16)
        A[:, K] = np.rint(weight * 2.0**10)
        _, leaf = twin.grow(
            bins,
            n_bins,
            missing,
            A=A,
            lanes=lanes,
            n_classes=K,
            key=0,
            take=len(bins),
            max_leaves=max_leaves,
            max_depth=None,
            least=1,
        )
        for j in range(leaf.max() + 1):
            w = weight[leaf == j, None]
            step = (w * g[leaf == j]).sum(axis=0) / (
                (w * (p * (1 - p))[leaf == j]).sum(axis=0) + l2
            )
            F[leaf == j] += (rate * np.clip(step, -4, 4)).astype(np.float32)
    return F


@pytest.mark.parametrize("one_label", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_are_those_of_one_against_the_rest_with_shared_splits(one_label, weighted):
    rng = np.random.default_rng(0)
    X, Y = data(150)
    if one_label:
        Y = np.eye(5, dtype=int)[rng.integers(0, 5, len(X))]
    weight = np.round(rng.random(len(X)) * 8 + 1) / 8 if weighted else np.ones(len(X))
    estimator = model(5, l2_regularization=0.3, max_leaf_nodes=6, learning_rate=0.3, **BARE)
    estimator.fit(X, Y, sample_weight=weight if weighted else None)
    expected = one_vs_rest(X, Y, weight, rounds=5, rate=0.3, max_leaves=6, l2=0.3)
    np.testing.assert_allclose(estimator.decision_function(X), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(estimator.predict_proba(X), sigmoid(expected), atol=1e-5)
    np.testing.assert_array_equal(
        estimator.predict(X), (estimator.decision_function(X) > 0).astype(int)
    )


@pytest.mark.parametrize("K", [2, 15, 16, 40])
def test_gradients_are_derivatives_of_the_value(K):
    loss = LOSSES["logistic"]
    rng = np.random.default_rng(K)
    step = 1e-5
    F = 3 * rng.normal(size=(20, K))
    Y = rng.integers(0, 2, (20, K))
    X = rng.normal(size=(20, 2))
    labels_of = Y.astype(np.uint8)
    booster = model()._booster(lambda: 0)
    rows = loss.rows(
        booster.rows(TrainingSet(X, np.arange(K), labels_of, weight=np.ones(20)), 1, None), 1
    )
    rows.start(F)
    for k in range(K):
        up, down = F.copy(), F.copy()
        up[:, k] += step
        down[:, k] -= step
        slope = -K * (loss.value(up, Y) - loss.value(down, Y)) / (2 * step)
        np.testing.assert_allclose(rows.gradient[:, k], slope, atol=1e-6)
    assert not rows.gradient[:, K:].any()


def test_large_data_are_trained_like_small_ones():
    """Above a million scores other losses are held without unused lanes, one of which this loss needs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70_000, 3))
    Y = (X[:, np.arange(9) % 3] + rng.normal(size=(70_000, 9)) > 0.5).astype(int)
    estimator = model(1, max_leaf_nodes=2, learning_rate=1.0, **BARE).fit(X, Y)
    F = estimator.decision_function(X)
    share = (Y.sum(axis=0) + 0.5) / (len(Y) + 1)
    left = (
        X[:, estimator.model_.ensemble.feature[0]].astype(np.float32)
        <= estimator.model_.ensemble.threshold[0]
    )
    for rows in (left, ~left):
        step = (Y[rows] - share).mean(axis=0) / (share * (1 - share))
        np.testing.assert_allclose(
            F[rows][0], np.log(share / (1 - share)) + step, rtol=1e-4, atol=1e-5
        )


def test_conventions_of_scikit_learn():
    check_classifier_multioutput("VectorTreeBoostClassifier", model(5))
    assert model().__sklearn_tags__().classifier_tags.multi_label
    assert not VectorTreeBoostClassifier().__sklearn_tags__().classifier_tags.multi_label
    X, Y = data()
    estimator = model().fit(X, Y)
    assert estimator.classes_.tolist() == list(range(5)) and estimator.predict(X).dtype.kind == "i"
    assert estimator.score(X, Y) == metrics.accuracy_score(Y, estimator.predict(X))
    for form in (
        scipy.sparse.csr_matrix(Y),
        scipy.sparse.csc_array(Y),
        Y.astype(bool),
        Y.astype(float),
        Y.tolist(),
    ):
        assert model().fit(X, form).model_.to_bytes() == estimator.model_.to_bytes()
    sparse = model().fit(scipy.sparse.csr_matrix(np.round(X)), Y)
    assert sparse.predict_proba(scipy.sparse.csr_matrix(np.round(X))).shape == (400, 5)


def test_no_worse_than_a_model_for_each_label():
    X, Y = data(1200, 6, 12, seed=3)
    params = {"random_state": 0, "calibrate": None, "n_estimators": 60, "learning_rate": 0.1}
    ours = model(60, learning_rate=0.1).fit(X[:800], Y[:800]).predict_proba(X[800:])
    each = (
        OneVsRestClassifier(VectorTreeBoostClassifier(**params))
        .fit(X[:800], Y[:800])
        .predict_proba(X[800:])
    )
    losses = [-np.log(np.where(Y[800:] > 0, P, 1 - P)).mean(axis=1) for P in (ours, each)]
    difference = losses[0] - losses[1]
    assert difference.mean() < 2 * difference.std() / np.sqrt(len(difference))


def test_metrics_are_scikit_learns():
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (60, 6))
    F = rng.normal(size=(60, 6))
    weight = rng.random(60) + 0.1
    Y[:, 4] = 0
    Y[:, 5] = 1
    F[:, 5] = 5.0
    given = (F > 0).astype(int)
    P = sigmoid(F)
    for w in (None, weight):
        held = ValidationSet("val", None, Y, codes=Y, weight=w)
        actual = {
            name: Metric(name, np.arange(6), "sigmoid")(F, held)
            for name in (*labels.METRICS, "auc_ovr")
        }
        per_row = -np.log(np.where(Y > 0, P, 1 - P)).mean(axis=1)
        expected = {
            "log_loss": np.average(per_row, weights=w),
            "error": 1 - metrics.accuracy_score(Y, given, sample_weight=w),
            "hamming_loss": metrics.hamming_loss(Y, given, sample_weight=w),
            "f1_micro": metrics.f1_score(Y, given, average="micro", sample_weight=w),
            "f1_macro": metrics.f1_score(
                Y, given, average="macro", sample_weight=w, zero_division=0
            ),
            "auc_ovr": np.mean(
                [metrics.roc_auc_score(Y[:, k], F[:, k], sample_weight=w) for k in range(4)]
            ),
        }
        for k in (1, 3, 5):
            best = np.argsort(-F, axis=1)[:, :k]
            share = np.array([row[at].mean() for row, at in zip(Y, best, strict=True)])
            expected[f"precision_at_{k}"] = np.average(share, weights=w)
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(actual[name], value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    "scoring", [*labels.METRICS, "auc_ovr", "roc_auc_ovr", "average_precision"]
)
@pytest.mark.part(2)
def test_curves(scoring):
    X, Y = data()
    estimator = model(scoring=scoring).fit(
        X[:300], Y[:300], X_val=X[300:], y_val=Y[300:], callbacks=[TrainingLoss()]
    )
    assert (
        len(estimator.history_[f"val_{scoring}"])
        == len(estimator.history_[f"train_{scoring}"])
        == 8
    )
    if scoring == "log_loss":
        last = cross_entropy(Y[300:], estimator.predict_proba(X[300:]))
        np.testing.assert_allclose(estimator.history_["val_log_loss"][-1], last, rtol=1e-12)


def test_early_stopping_and_rounds_that_are_found():
    X, Y = data()
    estimator = model(300, early_stopping=True, n_iter_no_change=5, learning_rate=0.4).fit(X, Y)
    assert 0 < estimator.n_estimators_ < 300
    auto = model("auto", cv=2, n_iter_no_change=3, learning_rate=0.4, decision_threshold="f1").fit(
        X, Y
    )
    assert auto.n_estimators_ == auto.cv_results_["n_estimators"] and auto.model_.thresholds.any()


def test_thresholds():
    """Of every label the one with the largest F1 on rows that are given, or on folds; or one for all."""
    X, Y = data(600, seed=2)
    at = model(30, decision_threshold="f1").fit(X[:300], Y[:300], X_val=X[300:], y_val=Y[300:])
    F = at.decision_function(X[300:])
    for k in range(5):
        given = F[:, k] > np.append(F[:, k] - 1e-9, F[:, k].max() + 1)[:, None]
        has = Y[300:, k] > 0
        best = (2 * (given & has).sum(axis=1) / (given.sum(axis=1) + has.sum())).max()
        np.testing.assert_allclose(
            metrics.f1_score(Y[300:, k], F[:, k] > at.model_.thresholds[k]), best
        )
    np.testing.assert_array_equal(
        at.predict(X), (at.decision_function(X) > at.model_.thresholds).astype(int)
    )
    folds = model(30, decision_threshold="f1").fit(X[:300], Y[:300])
    plain = model(30).fit(X[:300], Y[:300])
    new = [
        metrics.f1_score(Y[300:], one.predict(X[300:]), average="macro") for one in (plain, folds)
    ]
    assert new[1] > new[0] and not plain.model_.thresholds.any()
    third = model(30, decision_threshold=0.3).fit(X[:300], Y[:300])
    np.testing.assert_array_equal(third.predict(X), (third.predict_proba(X) > 0.3).astype(int))
    np.testing.assert_array_equal(list(third.staged_predict(X))[-1], third.predict(X))
    assert (
        plain.model_.with_thresholds(third.model_.thresholds).predict(X).tolist()
        == third.predict(X).tolist()
    )


def test_thresholds_of_labels_that_no_row_has():
    scores = np.array([[1.0, 2.0, 0.3], [0.0, 1.0, 0.3], [-1.0, 0.0, 0.3]])
    has = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 1]])
    found = labels.best_thresholds(scores, has, np.ones(3))
    np.testing.assert_allclose(found, [0.0, -1.0, -0.7])


def test_labels_that_no_row_or_every_row_has_and_rows_without_any():
    X, Y = data()
    Y[:, 1] = 0
    Y[:, 2] = 1
    Y[:50] = 0
    Y[:, 2] = 1
    estimator = model(20).fit(X, Y)
    P = estimator.predict_proba(X)
    assert (
        (P[:, 1] < 0.01).all()
        and (P[:, 2] > 0.99).all()
        and np.isfinite(estimator.decision_function(X)).all()
    )
    with pytest.warns(UserWarning, match="the model is constant"):
        none = model(3).fit(X, np.zeros_like(Y))
    assert not none.predict(X).any()


def test_files_pickles_and_going_on(tmp_path):
    X, Y = data()
    uninterrupted = model(decision_threshold=0.3).fit(X, Y)
    uninterrupted.save(tmp_path / "m.mcb")
    file = load_model(tmp_path / "m.mcb")
    assert file.link == "sigmoid" and file.to_bytes()[10] == 5
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(file, name)(X), getattr(uninterrupted, name)(X))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(uninterrupted)).predict(X), uninterrupted.predict(X)
    )
    np.testing.assert_allclose(file.predict_log_proba(X), np.log(file.predict_proba(X)), rtol=1e-12)
    np.testing.assert_allclose(file.predict_proba(X), sigmoid(file.raw_scores(X)), rtol=1e-14)
    *_, last = uninterrupted.staged_predict_proba(X)
    np.testing.assert_allclose(last, uninterrupted.predict_proba(X), rtol=1e-14)
    warm = (
        model(3, warm_start=True, decision_threshold=0.3)
        .fit(X, Y)
        .set_params(n_estimators=8)
        .fit(X, Y)
    )
    assert warm.model_.to_bytes() == uninterrupted.model_.to_bytes()
    more = model(5).fit(X, Y, init_model=model(3).fit(X, Y))
    np.testing.assert_array_equal(more.decision_function(X), uninterrupted.decision_function(X))
    assert (
        model(decision_threshold=0.3, n_jobs=3).fit(X, Y).model_.to_bytes()
        == uninterrupted.model_.to_bytes()
    )
    new = pickle.loads(pickle.dumps(uninterrupted)).refit_leaves(X, Y, decay=0.0)
    np.testing.assert_allclose(
        new.decision_function(X), uninterrupted.decision_function(X), rtol=1e-5, atol=1e-6
    )

    class Stop:
        def after_round(self, state):
            if state.n_rounds == 3:
                raise KeyboardInterrupt

    path = tmp_path / "part.mcb"
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, Y, callbacks=[Checkpoint(path, every=0), Stop()])
    with pytest.raises(ValueError, match="the labels differ"):
        Checkpoint(path).fit(model(), X, 1 - Y)
    assert (
        Checkpoint(path).fit(model(), X, Y).model_.to_bytes() == model().fit(X, Y).model_.to_bytes()
    )


def test_what_a_model_of_labels_does_not_have():
    X, Y = data()
    estimator = model(2).fit(X, Y)
    with pytest.raises(ValueError, match="needs one class per row"):
        estimator.calibrate_on(X, Y)
    for call in (
        lambda: estimator.model_.with_temperature(2.0),
        lambda: estimator.model_.reweighted(np.ones(5)),
    ):
        with pytest.raises(ValueError, match="needs a model with one class per row"):
            call()
    other = VectorTreeBoostClassifier(n_estimators=2).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="thresholds are only for multi-label models"):
        other.model_.with_thresholds(0.5)
    for params, match in (
        ({"class_weight": "balanced"}, "class_weight needs one class per row"),
        ({"restore_priors": True}, "restore_priors needs one class per row"),
        (
            {"scoring": "balanced_error"},
            "scoring='balanced_error' works only with one class per row",
        ),
        ({"decision_threshold": 1.0}, "decision_threshold=1.0 is not allowed"),
        ({"decision_threshold": "f2"}, "decision_threshold='f2' is not allowed"),
    ):
        with pytest.raises(ValueError, match=match):
            model(**params).fit(X, Y, X_val=X, y_val=Y)
    for params, match in (
        ({"decision_threshold": 0.3}, "decision_threshold applies only to loss='logistic'"),
        (
            {"scoring": "hamming_loss"},
            "scoring='hamming_loss' works only with multi-label rows",
        ),
    ):
        with pytest.raises(ValueError, match=match):
            VectorTreeBoostClassifier(**params).fit(X, Y[:, 0], X_val=X, y_val=Y[:, 0])


WRONG = [
    (lambda Y: Y[:, 0], "y must be an indicator matrix of shape .*, not int64 of shape"),
    (lambda Y: [["a"], "b"] * 200, "y must be an indicator matrix .*MultiLabelBinarizer converts"),
    (lambda Y: Y + 1, r"y\[\d+, \d+\] is 2, but an indicator matrix contains only 0 and 1"),
    (lambda Y: Y * 0.5, r"y\[\d+, \d+\] is 0.5, but an indicator"),
    (lambda Y: np.where(Y, np.nan, 0), r"y\[\d+, \d+\] is nan, but an indicator"),
    (lambda Y: -Y, r"y\[\d+, \d+\] is -1, but an indicator"),
    (lambda Y: Y[:7], "X has 400 rows, but the indicator matrix y has 7"),
    (lambda Y: Y[:, :1], "the indicator matrix y has fewer than 2 columns"),
    (lambda Y: Y.astype(str), "y must be an indicator matrix"),
    (
        lambda Y: Y.astype(str).astype(object),
        "y must be an indicator matrix .* not object of shape",
    ),
]


@pytest.mark.parametrize(("change", "match"), WRONG)
def test_wrong_indicators(change, match):
    X, Y = data()
    with pytest.raises(ValueError, match=match):
        model().fit(X, change(Y))


def test_more_labels_than_a_file_holds_are_refused():
    K = 65536
    few = "there must be from 2 to 65535 classes, not 65536"
    X = np.arange(K, dtype=np.float64)[:, None]
    with pytest.raises(ValueError, match=few):
        VectorTreeBoostClassifier(n_estimators=1).fit(X, np.arange(K))
    Y = np.zeros((40, K), dtype=np.uint8)
    Y[::2] = 1
    with pytest.raises(ValueError, match=few):
        model().fit(X[:40], Y)


def test_other_rows_must_have_the_same_labels():
    X, Y = data()
    with pytest.raises(
        ValueError, match="validation set 'val': the indicator matrix y has 3 columns"
    ):
        model().fit(X, Y, X_val=X, y_val=Y[:, :3])
    with pytest.raises(
        ValueError, match="the indicator matrix y has 3 columns, but the training had 5 labels"
    ):
        model(2).fit(X, Y[:, :3], init_model=model(2).fit(X, Y))
    with pytest.raises(ValueError, match="the indicator matrix y has 3 columns"):
        model(2).fit(X, Y).refit_leaves(X, Y[:, :3])
    with pytest.raises(ValueError, match="all sample weights are zero"):
        model().fit(X, Y, sample_weight=np.zeros(len(X)))


def test_one_answer_a_row_is_refused():
    X, Y = make_multilabel_classification(60, 4, n_classes=3, random_state=0)
    model = (
        VectorTreeBoostClassifier(loss="logistic", n_estimators=2, random_state=0).fit(X, Y).model_
    )
    with pytest.raises(ValueError, match="multi-label"):
        model.with_early_exit("certified")
    with pytest.raises(ValueError, match="multi-label"):
        to_onnx(model)
    with pytest.raises(ValueError, match="multi-label"):
        integer_labels(model, "int8", X)


@pytest.mark.parametrize(
    ("labels", "kinds"),
    [(["u", None], "NoneType, str"), (["u", 1], "int, str"), ([None], "NoneType")],
)
def test_labels_without_an_order_are_refused(labels, kinds):
    y = np.array(labels * 4, dtype=object)
    with pytest.raises(ValueError, match=f"y has labels of the types {kinds}, .*leave out"):
        VectorTreeBoostClassifier(n_estimators=2).fit(np.zeros((len(y), 1)), y)


@pytest.mark.parametrize("kind", ["boolean", "Int64", "bool[pyarrow]", "mixed", object])
def test_indicators_in_frames_of_any_type(kind):
    pandas = pytest.importorskip("pandas")
    if kind == "bool[pyarrow]":
        pytest.importorskip("pyarrow")
    X, Y = data(60)
    frame = pandas.DataFrame(Y == 1)
    given = (
        frame.assign(**{"0": Y[:, 0]})[["0", 1, 2, 3, 4]] if kind == "mixed" else frame.astype(kind)
    )
    fitted = model(3).fit(X, Y)
    assert model(3).fit(X, given).model_.to_bytes() == fitted.model_.to_bytes()
    expected = (fitted.predict(X) == Y).all(axis=1).mean()
    AdaBoostMHClassifier(n_estimators=2).fit(X, given).score(X, given)
    assert (
        fitted.score(X, given)
        == fitted.score(X, Y)
        == fitted.score(X, scipy.sparse.csr_matrix(Y))
        == expected
    )
    if kind != "mixed":
        given.iloc[7, 2] = None
        for use in model(3).fit, fitted.score:
            with pytest.raises(
                ValueError, match=r"y\[7, 2\] is nan, but an indicator matrix contains only 0 and 1"
            ):
                use(X, given)


def test_an_indicator_of_huge_integers_is_refused():
    X, Y = data(60)
    Y = Y.astype(object)
    Y[7, 2] = 10**400
    with pytest.raises(ValueError, match=r"y must be an indicator .*, not object .*\(60, 5\)"):
        model(3).fit(X, Y)


def polars_series(values):
    """A series of polars, which cannot be imported under ThreadSanitizer."""
    return pytest.importorskip("polars").Series(values)


@pytest.mark.parametrize("make", [pd.Series, polars_series, pa.array])
def test_series_of_lists_of_labels(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    rows = [[name for name, value in zip("abc", row, strict=True) if value > 0] for row in X]
    one, two = (
        AdaBoostMHClassifier(n_estimators=5).fit(X, y, X_val=X, y_val=y)
        for y in ([tuple(row) for row in rows], make(rows))
    )
    assert one.model_.to_bytes() == two.model_.to_bytes()
    assert two.score(X, make(rows)) == one.score(X, rows)
    with pytest.raises(ValueError, match="y has lists of labels; for multi-label"):
        MCBoostClassifier(n_estimators=1).fit(X, make(rows))
