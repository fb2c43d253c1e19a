"""Classic boosters on weights and scores of extreme sizes."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

import pymcboost
from pymcboost import (
    AdaBoostECCClassifier,
    AdaBoostM1Classifier,
    AdaBoostM2Classifier,
    AdaBoostMHClassifier,
    AdaBoostMLClassifier,
    GentleBoostClassifier,
    PIBoostClassifier,
    SAMMEClassifier,
)
from pymcboost.losses.codes import separators


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5, 1e30])
@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
def test_gentleboost_learns_whatever_the_scale_of_the_weights(weak_learner, scale):
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(1).random(len(y)) * scale
    model = GentleBoostClassifier(n_estimators=10, weak_learner=weak_learner).fit(
        X, y, sample_weight=weight
    )
    assert model.n_estimators_ == 10
    assert model.score(X, y, sample_weight=weight) > 0.95


def test_gentleboost_learns_where_a_class_has_no_weight():
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(1).random(len(y)) * (y != 0)
    model = GentleBoostClassifier(n_estimators=10).fit(X, y, sample_weight=weight)
    assert model.score(X, y, sample_weight=weight) > 0.95


@pytest.mark.filterwarnings("error")
def test_large_scores_are_restarted_from_without_a_warning():
    y = np.repeat(np.arange(3), 30)
    noise = np.random.default_rng(0).normal(size=(len(y), 2))
    X = np.column_stack((y, noise))
    scores = AdaBoostECCClassifier(n_estimators=1100, random_state=3).fit(X, y).decision_function(X)
    assert np.isfinite(scores).all()
    assert (scores.argmax(axis=1) == y).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize("cls", [SAMMEClassifier, AdaBoostM1Classifier, AdaBoostM2Classifier])
def test_weights_may_vanish_next_to_others(cls, weak_learner):
    X, y = load_iris(return_X_y=True)
    weight = np.where(np.arange(len(y)) % 2, 1e300, 1e-300)
    model = cls(n_estimators=10, weak_learner=weak_learner).fit(X, y, sample_weight=weight)
    assert model.score(X[1::2], y[1::2]) > 0.9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
def test_denormal_weights_are_those_a_power_of_two_larger(weak_learner):
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(np.float64)
    models = [
        AdaBoostECCClassifier(n_estimators=10, weak_learner=weak_learner, random_state=0).fit(
            X, y, sample_weight=w
        )
        for w in (np.ldexp(weight, 40), np.ldexp(weight, -1074))
    ]
    np.testing.assert_array_equal(*(model.decision_function(X) for model in models))


def test_the_refusal_of_too_many_class_subsets_is_short():
    with pytest.raises(ValueError, match="more than 4096") as refusal:
        separators([[a, b] for a in range(100) for b in range(a)], 100)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    "cls",
    [
        SAMMEClassifier, AdaBoostMHClassifier, GentleBoostClassifier, PIBoostClassifier, AdaBoostM2Classifier,
    ],
)  # fmt: skip
@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.part(4)
def test_an_unlucky_sample_of_the_rows_does_not_end_a_training(cls, weak_learner):
    X, y = load_iris(return_X_y=True)
    for subsample in (0.02, 0.1, 0.7):
        for seed in range(2):
            words = {
                "n_estimators": 40,
                "subsample": subsample,
                "weak_learner": weak_learner,
                "random_state": seed,
            }
            model = cls(**words).fit(X, y)
            # Learners without errors are the last ones of SAMME, AdaBoost.M2 and AdaBoost.MH.
            kept = model.history_
            errors = kept.get("error", kept.get("pseudo_loss"))
            perfect = (
                errors[-1] == 0
                if errors is not None
                else "edge" in kept and kept["edge"][-1] > 1 - 1e-9
            )
            assert model.n_estimators_ == 40 or perfect


@pytest.mark.parametrize(
    "name",
    ["PIBoostClassifier", "SAMMEClassifier", "GentleBoostClassifier", "AdaBoostMHClassifier"],
)
def test_small_nodes_are_not_split(name):
    """A share next to 1 splits the root alone; 1/K leaves smaller trees."""
    X, y = make_blobs(400, centers=8, n_features=4, cluster_std=4.0, random_state=0)
    sizes = []
    for share in (0.0, 0.125, 0.999):
        model = getattr(pymcboost, name)(
            n_estimators=3,
            weak_learner="tree",
            max_leaf_nodes=64,
            min_weight_fraction_split=share,
            random_state=0,
        ).fit(X, y)
        sizes.append(np.diff(model.model_.ensemble.offset).max())
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] <= 3


@pytest.mark.parametrize("subsample", [1.0, 0.3])
@pytest.mark.parametrize("name", ["AdaBoostMHClassifier", "PIBoostClassifier"])
def test_a_bound_on_leaves_is_about_the_rows_that_are_drawn(name, subsample):
    X, y = make_blobs(400, centers=4, n_features=4, cluster_std=2.0, random_state=0)
    words = {"n_estimators": 5, "weak_learner": "tree", "subsample": subsample, "random_state": 0}
    free, bounded = (
        getattr(pymcboost, name)(**words, min_weight_fraction_leaf=share).fit(X, y)
        for share in (0.0, 0.1)
    )
    assert bounded.n_estimators_ == 5
    sizes = [np.diff(model.model_.ensemble.offset).mean() for model in (free, bounded)]
    assert sizes[0] > sizes[1] >= 1


@pytest.mark.parametrize(
    "cls, words",
    [
        (SAMMEClassifier, {"weak_learner": "tree"}),
        (AdaBoostMLClassifier, {"weak_learner": "tree"}),
        (AdaBoostM1Classifier, {}),
        (AdaBoostM2Classifier, {"weak_learner": "tree"}),
        (GentleBoostClassifier, {"weak_learner": "tree"}),
        (GentleBoostClassifier, {"subsample": 0.5}),
    ],
)
def test_a_bound_on_leaves_that_trees_take_little_notice_of_warns(cls, words):
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match=f"little effect on the trees of {cls.__name__}") as caught:
        cls(n_estimators=5, min_weight_fraction_leaf=0.1, **words).fit(X, y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("repeat", [1, 10_000])
def test_gentleboost_goes_on_where_no_split_says_anything_of_one_class(repeat):
    """Class 1 has a third of the weight on both sides of the only split."""
    X = np.repeat([[0.0], [0], [0], [1], [1], [1]], repeat, axis=0)
    y = np.repeat([0, 1, 1, 0, 2, 2], repeat)
    model = GentleBoostClassifier(n_estimators=5).fit(X, y)
    assert model.score(X, y) == pytest.approx(2 / 3)


def test_leaves_of_gentleboost_are_means_of_their_target():
    """1 / z of the rows of a leaf, z = [own class] - 1/K: between -K and K / (K - 1), however light the leaf."""
    K = 26
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 4000)
    X = np.round(rng.normal(size=(K, 6))[y] * 3 + rng.standard_t(2, size=(len(y), 6)), 1)
    leaf = GentleBoostClassifier(n_estimators=200).fit(X, y).model_.ensemble.leaf
    assert -K * (1 + 1e-6) <= leaf.min() < 0
    assert 1 < leaf.max() <= K / (K - 1) * (1 + 1e-6)


def test_shares_may_be_fractions():
    X, y = load_iris(return_X_y=True)
    words = {"n_estimators": 3, "weak_learner": "tree", "random_state": 0}
    models = [
        SAMMEClassifier(**words, subsample=share, min_weight_fraction_split=share).fit(X, y)
        for share in (Fraction(1, 2), 0.5)
    ]
    assert models[0].model_.meta["params"]["subsample"] == 0.5
    np.testing.assert_array_equal(*(model.decision_function(X) for model in models))
