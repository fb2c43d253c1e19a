"""Losses that are given: what they mean for trees and leaves, where they go on, and what is said of wrong ones."""

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression

from pymcboost import Checkpoint, VectorTreeBoostClassifier, load_model
from pymcboost.callbacks import TrainingLoss
from pymcboost.inspection import plot_reliability

EXAMPLES = Path(__file__).parents[2] / "docs" / "gallery" / "plot_custom_loss.py"


@pytest.fixture(scope="module")
def examples():
    pytest.importorskip("matplotlib").use("Agg")
    spec = importlib.util.spec_from_file_location("losses_example", EXAMPLES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Softmax:
    """The softmax loss as a user writes it, with any start."""

    shift_invariant = True

    def __init__(self, first=0.0):
        self.first = first

    def start(self, y, weight, n_classes):
        return np.full(n_classes, self.first)

    def link(self, scores):
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def value(self, y, scores):
        return -np.log(self.link(scores)[np.arange(len(y)), y])

    def gradient_hessian(self, y, scores):
        p = self.link(scores)
        return p - np.eye(scores.shape[1])[y], p * (1 - p)


class Sigmoids(Softmax):
    """One logistic loss for every class against the others: not invariant."""

    shift_invariant = False

    def start(self, y, weight, n_classes):
        share = np.bincount(y, weight, n_classes) / weight.sum()
        return np.log(share / (1 - share))

    def link(self, scores):
        return 1 / (1 + np.exp(-scores))

    def value(self, y, scores):
        own = np.eye(scores.shape[1])[y]
        return np.logaddexp(0, np.where(own > 0, -scores, scores)).sum(axis=1)


def softmax_function(y, scores):
    return Softmax().gradient_hessian(y, scores)


softmax_function.shift_invariant = True


def blobs(m=400, K=4, seed=0, d=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, m)
    return rng.normal(size=(m, d)) + 1.3 * rng.normal(size=(K, d))[y], y


def model(loss, n=8, **params):
    return VectorTreeBoostClassifier(loss=loss, n_estimators=n, random_state=0, **params)


@pytest.mark.parametrize("K", [2, 4, 12])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_in_numpy_gives_the_trees_of_softmax(K, weighted):
    X, y = blobs(K=K)
    weight = np.random.default_rng(1).random(len(y)) + 0.1 if weighted else None
    ours, given, function = (
        model(loss, calibrate=None).fit(X, y, sample_weight=weight)
        for loss in ("softmax", Softmax(), softmax_function)
    )
    for other in (given, function):
        one = ours.model_.ensemble
        two = other.model_.ensemble
        np.testing.assert_array_equal(one.feature, two.feature)
        np.testing.assert_array_equal(one.threshold, two.threshold)
        np.testing.assert_allclose(one.leaf, two.leaf, rtol=2e-5, atol=1e-6)
        assert other.model_.link == "none"
    np.testing.assert_allclose(given.predict_proba(X), ours.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(given.predict_log_proba(X), ours.predict_log_proba(X), atol=1e-4)
    np.testing.assert_array_equal(given.predict(X), ours.predict(X))


@pytest.mark.parametrize("name", ["FocalLoss", "RankedProbability"])
def test_examples_have_the_derivatives_of_their_value(examples, name):
    loss = getattr(examples, name)()
    rng = np.random.default_rng(0)
    step = 1e-5
    y = rng.integers(0, 5, 40)
    scores = rng.normal(size=(40, 5))
    gradient, hessian = loss.gradient_hessian(y, scores.copy())
    for k in range(5):
        up, down = scores.copy(), scores.copy()
        up[:, k] += step
        down[:, k] -= step
        slope = (loss.value(y, up) - loss.value(y, down)) / (2 * step)
        np.testing.assert_allclose(gradient[:, k], slope, rtol=1e-5, atol=1e-8)
    assert (hessian > 0).all()


def test_the_loss_of_ordered_classes_is_lower_when_it_is_the_one_that_is_learnt(examples):
    score = examples.main()
    assert score["ranked"] < min(score["softmax"], score["focal"]) - 0.001


def test_one_leaf_is_a_newton_step_from_the_start():
    """Without a shift of the leaves' mean and (K - 1) / K where the loss is not invariant, with both elsewhere."""
    X, y = blobs()
    X[:, 1:] = 0
    for loss in (Sigmoids(), Softmax(0.5)):
        estimator = model(
            loss, 1, max_leaf_nodes=2, subsample=1.0, l2_regularization=3.0, learning_rate=0.5
        ).fit(X, y)
        trees = estimator.model_.ensemble
        start = loss.start(y, np.ones(len(y)), 4).astype(np.float32)
        np.testing.assert_array_equal(trees.bias, start)
        for side, rows in enumerate((X[:, 0] <= trees.threshold[0], X[:, 0] > trees.threshold[0])):
            g, h = loss.gradient_hessian(y[rows], np.tile(start.astype(float), (rows.sum(), 1)))
            step = -g.sum(axis=0) / (h.sum(axis=0) + 3)
            step = 0.75 * step - (0.75 * step).mean() if loss.shift_invariant else step
            np.testing.assert_allclose(trees.leaf[side], 0.5 * step, rtol=1e-5)


def test_the_leaves_of_a_loss_that_is_not_invariant_have_any_sum():
    """Also above 9 classes, where splits are found in random directions: signs in pairs would miss the sum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = np.concatenate([np.arange(12), rng.integers(0, 12, 488)])

    class Total(Softmax):
        shift_invariant = False

        def gradient_hessian(self, y, scores):  # all scores go where the row's number says
            return scores - self.target[: len(y), None], np.ones_like(scores)

    loss = Total()
    loss.target = np.where(X[np.argsort(y, kind="stable"), 0] > 0, 1.0, -1.0)
    estimator = model(
        loss, 1, subsample=1.0, max_features=1.0, max_leaf_nodes=2, learning_rate=0.1
    ).fit(X, y)
    assert (
        estimator.model_.ensemble.feature.tolist() == [0]
        and abs(estimator.model_.ensemble.threshold[0]) < 0.05
    )
    assert estimator.n_estimators_ == 1 and (
        estimator.model_.ensemble.leaf.sum(axis=1) > 1
    ).tolist() == [
        False,
        True,
    ]


def test_scores_of_the_file_are_those_of_the_training(tmp_path):
    X, y = blobs()
    estimator = model(Sigmoids()).fit(X, y)
    estimator.save(tmp_path / "m.mcb")
    file = load_model(tmp_path / "m.mcb")
    np.testing.assert_array_equal(file.raw_scores(X), estimator.decision_function(X))
    np.testing.assert_array_equal(file.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(estimator.predict_proba(X), Sigmoids().link(file.raw_scores(X)))
    *_, last = estimator.staged_predict_proba(X)
    np.testing.assert_array_equal(last, estimator.predict_proba(X))
    with pytest.raises(ValueError, match="no link from scores to probabilities"):
        file.predict_proba(X)
    assert file.meta["params"]["loss"].startswith("Sigmoids with the checksum ")


def test_reliability_is_of_the_probabilities_of_the_estimator():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = blobs()
    estimator = model(Softmax()).fit(X, y)
    ax = plot_reliability(estimator, X, y, bins=1)
    said, _ = ax.containers[0].lines[0].get_data()
    assert said[0] == pytest.approx(estimator.predict_proba(X).max(axis=1).mean())
    ax.figure.clear()
    with pytest.raises(ValueError, match="no link from scores to probabilities"):
        plot_reliability(estimator.model_, X, y)
    with pytest.raises(ValueError, match="no link from scores to probabilities"):
        plot_reliability(model(softmax_function).fit(X, y), X, y)


def test_metrics_and_curves():
    """The mean of `value` on validation rows, log loss by the loss's link, and the curves of training rows."""
    X, y = blobs()
    loss = Sigmoids()
    for scoring in ("loss", "log_loss", "auc_ovr", "error", "accuracy", "neg_log_loss"):
        estimator = model(loss, scoring=scoring)
        estimator.fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2], callbacks=[TrainingLoss()])
        name = (
            "score"
            if scoring not in estimator.history_ and f"val_{scoring}" not in estimator.history_
            else scoring
        )
        last = estimator.history_[f"val_{name}"][-1]
        scores = estimator.decision_function(X[1::2])
        own = estimator.predict_proba(X[1::2])[np.arange(200), y[1::2]]
        if scoring == "loss":
            np.testing.assert_allclose(last, loss.value(y[1::2], scores).mean(), rtol=1e-12)
        if scoring == "log_loss":
            np.testing.assert_allclose(last, -np.log(own).mean(), rtol=1e-12)
        assert np.isfinite(last) and len(estimator.history_[f"train_{name}"]) == 8
    with pytest.raises(ValueError, match="scoring='loss' works only with a custom loss"):
        model("softmax", scoring="loss").fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="needs probabilities"):
        model(softmax_function).fit(X, y, X_val=X, y_val=y)
    with pytest.raises(
        ValueError, match="rows with the label 4, which does not occur in the training"
    ):
        model(loss, scoring="loss").fit(X, y, X_val=X, y_val=y + 1)


def test_early_stopping_and_rounds_that_are_found():
    X, y = blobs(K=3)
    estimator = model(
        Sigmoids(), 200, early_stopping=True, scoring="loss", n_iter_no_change=5, learning_rate=0.3
    )
    assert estimator.fit(X, y).n_estimators_ < 200
    auto = model(Sigmoids(), "auto", n_iter_no_change=3, learning_rate=0.5, cv=2).fit(X, y)
    assert 0 < auto.n_estimators_ == auto.cv_results_["n_estimators"]
    assert auto.model_.temperature is None


def test_pickles_clones_and_going_on(tmp_path):
    X, y = blobs()
    uninterrupted = model(Sigmoids()).fit(X, y)
    restored = pickle.loads(pickle.dumps(uninterrupted))
    np.testing.assert_array_equal(restored.predict_proba(X), uninterrupted.predict_proba(X))
    assert clone(uninterrupted).fit(X, y).model_.to_bytes() == uninterrupted.model_.to_bytes()
    warm = model(Sigmoids(), 3, warm_start=True).fit(X, y).set_params(n_estimators=8).fit(X, y)
    assert warm.model_.to_bytes() == uninterrupted.model_.to_bytes()
    half = model(Sigmoids(), 3).fit(X, y)
    more = model(Sigmoids(), 5).fit(X, y, init_model=half.model_)
    np.testing.assert_array_equal(more.decision_function(X), uninterrupted.decision_function(X))
    same = pickle.loads(pickle.dumps(uninterrupted)).refit_leaves(X, y, decay=1.0)
    assert same.model_.to_bytes() == uninterrupted.model_.to_bytes()
    new = pickle.loads(pickle.dumps(uninterrupted)).refit_leaves(X, y, decay=0.0)
    np.testing.assert_allclose(
        new.decision_function(X), uninterrupted.decision_function(X), rtol=1e-6
    )
    with pytest.raises(
        ValueError, match="the existing model has loss='Sigmoids with .*, but now it is 'softmax"
    ):
        model("softmax", 5).fit(X, y, init_model=half.model_)
    with pytest.raises(ValueError, match="the existing model has loss="):
        model(Softmax(0.1), 5).fit(X, y, init_model=model(Softmax(0.2), 3).fit(X, y))


def test_the_checksum_of_a_loss_does_not_depend_on_the_order_of_sets():
    code = (
        "from pymcboost.algorithms.vector_tree import VectorTreeBoostClassifier\n"  # without scikit-learn
        "from pymcboost.training.meta import meta_of\n"
        "class Mine:\n"
        "    def __init__(self, *words):\n"
        "        self.words, self.pairs = set(words), {frozenset(words), frozenset(words[:2])}\n"
        "for words in (('setosa', 'virginica', 'other'), ('setosa', 'virginica', 'more')):\n"
        "    print(meta_of(VectorTreeBoostClassifier(loss=Mine(*words)))['params']['loss'])\n"
    )
    one, other = (
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for seed in "12"
    )
    assert one == other
    assert one[0].startswith("Mine with the checksum ")
    assert one[0] != one[1]


def test_probabilities_are_by_the_loss_of_the_fit():
    X, y = blobs()
    for loss in (Sigmoids(), "softmax"):
        estimator = model(loss, 3, calibrate=None).fit(X, y)
        expected = estimator.predict_proba(X)
        for other in (Softmax(1.0), softmax_function, "softmax"):
            changed = pickle.loads(pickle.dumps(estimator)).set_params(loss=other)
            np.testing.assert_array_equal(changed.predict_proba(X), expected)
            np.testing.assert_allclose([*changed.staged_predict_proba(X)][-1], expected, rtol=1e-12)
    assert estimator.set_params(loss=Sigmoids()).calibrate_on(X, y).model_.temperature
    assert not hasattr(
        model(softmax_function, 3).fit(X, y).set_params(loss=Sigmoids()), "predict_proba"
    )


def test_checkpoints(tmp_path):
    X, y = blobs()

    class Stop:
        def after_round(self, state):
            if state.n_rounds == 3:
                raise KeyboardInterrupt

    uninterrupted = model(Sigmoids()).fit(X, y)
    path = tmp_path / "part.mcb"
    with pytest.raises(KeyboardInterrupt):
        model(Sigmoids()).fit(X, y, callbacks=[Checkpoint(path, every=0), Stop()])
    with pytest.raises(
        ValueError, match="loss was 'Sigmoids with the checksum .*', now it is 'Softmax with"
    ):
        Checkpoint(path).fit(model(Softmax()), X, y)
    fitted = Checkpoint(path).fit(model(Sigmoids()), X, y)
    assert fitted.model_.to_bytes() == uninterrupted.model_.to_bytes()


def test_threads_change_nothing():
    X, y = load_digits(return_X_y=True)
    models = [model(Sigmoids(), 3, n_jobs=n).fit(X, y).model_.to_bytes() for n in (1, 2, 5)]
    assert models[0] == models[1] == models[2]


def broken(**methods):
    return type("Broken", (Softmax,), methods)()


WRONG = [
    (lambda y, F: F, r"loss: <lambda> must return \(gradient, hessian\), not ndarray"),
    (
        lambda y, F: (F[:, :2], F),
        r"the gradient of <lambda> has shape \(\d+, 2\); it must be \(\d+, 4\)",
    ),
    (lambda y, F: (F, F[0]), r"the hessian of <lambda> has shape \(4,\)"),
    (
        lambda y, F: (F * np.nan, F),
        "the gradient of <lambda> contains nan; it must hold finite numbers",
    ),
    (lambda y, F: (F, F + np.inf), "the hessian of <lambda> contains inf"),
    (
        lambda y, F: (F, F - 1),
        "the hessian of <lambda> contains the negative number -1; bound it from below",
    ),
    (lambda y, F: ("no", F), "the gradient of <lambda> must be an array of numbers, not str"),
    (
        broken(gradient_hessian=lambda self, y, F: (F + 1, F)),
        "shift_invariant, but the gradients .* do not add up to 0",
    ),
    (
        broken(start=lambda self, y, weight, K: 0.0),
        r"Broken.start has shape \(\); it must be \(4,\)",
    ),
    (broken(link=None), "lacks link; a loss is a function of"),
    (broken(start=None, value=3), "lacks start, value; a loss is"),
    (Softmax, r"loss=Softmax is a class; give an instance, Softmax\(\)"),
    (object(), "lacks start, gradient_hessian, link, value"),
    (3, "loss=3 is not allowed; .*'softmax', .*or a callable"),
    (None, "loss=None is not allowed"),
    ("hinge", "loss='hinge' is not allowed"),
]


@pytest.mark.parametrize(("loss", "message"), WRONG)
def test_wrong_losses(loss, message):
    X, y = blobs()
    with pytest.raises(ValueError, match=message):
        model(loss).fit(X, y)


def test_what_a_loss_of_ones_own_does_not_have():
    X, y = blobs()
    function = model(softmax_function).fit(X, y)
    for name in ("predict_proba", "predict_log_proba", "staged_predict_proba"):
        with pytest.raises(
            AttributeError, match="softmax_function is a plain function, .* no probabilities"
        ):
            getattr(function, name)
        assert hasattr(model(Softmax()), name)
        assert not hasattr(model(softmax_function), name)
    stack = StackingClassifier([("one", function)], LogisticRegression(), cv=2).fit(X, y)
    assert stack.stack_method_ == ["decision_function"]
    with pytest.raises(ValueError, match="restore_priors works only with the built-in losses"):
        model(Softmax(), restore_priors=True, class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="no temperature"):
        model(Softmax()).fit(X, y).calibrate_on(X, y)
    estimator = model(Softmax()).fit(X, y)
    for link, match in (
        (lambda F: F[0], "has shape"),
        (lambda F: 3 + 0 * F, "outside of .0, 1."),
    ):
        estimator.loss.link = link
        with pytest.raises(ValueError, match=match):
            estimator.predict_proba(X)


@pytest.mark.parametrize("times", [2.0**30, 2.0**-10])
def test_the_size_of_gradients_does_not_matter(times):
    def scaled(y, scores):
        return [times * one for one in softmax_function(y, scores)]

    scaled.shift_invariant = True
    X, y = blobs()
    one, other = (
        VectorTreeBoostClassifier(loss=loss, n_estimators=3, random_state=0, calibrate=None).fit(
            X, y
        )
        for loss in (softmax_function, scaled)
    )
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=1e-5, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:.*the model is constant")
def test_a_model_without_rounds_is_where_its_loss_begins():
    """Scores of a loss with a link of its own are no logarithms of shares."""
    X = np.ones((20, 3))
    y = np.repeat([0, 1, 2], [2, 6, 12])
    for loss, expected in ((Softmax(), [1 / 3] * 3), ("softmax", [0.1, 0.3, 0.6])):
        model = VectorTreeBoostClassifier(n_estimators=2, loss=loss).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X[:1]), [expected])
