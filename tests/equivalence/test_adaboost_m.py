"""AdaBoost.M1 and AdaBoost.M2 against twins straight from the paper, its bounds, and what they are with two classes."""

import warnings

import numpy as np
import pytest
from equivalence.test_classic import as_float, blobs, several, splits_of, two_classes
from reference import classic as twin

from pymcboost import AdaBoostM1Classifier, AdaBoostM2Classifier, SAMMEClassifier

STUMPS = {"weak_learner": "stump"}
TREES = {"weak_learner": "tree", "max_leaf_nodes": 6}


def m1_learners(X, K, options):
    return (
        twin.FewestErrors(X, K)
        if options is STUMPS
        else twin.GiniNames(X, options["max_leaf_nodes"])
    )


def m2_learners(X, K, options):
    return (
        twin.PlausibleStumps(X)
        if options is STUMPS
        else twin.PlausibleTrees(X, options["max_leaf_nodes"])
    )


M1 = AdaBoostM1Classifier, twin.m1, m1_learners, 1, "error"
M2 = AdaBoostM2Classifier, twin.m2, m2_learners, 2, "pseudo_loss"
BOTH = pytest.mark.parametrize("algorithm", [M1, M2], ids=["m1", "m2"])
LEARNERS = pytest.mark.parametrize("options", [STUMPS, TREES], ids=["stumps", "trees"])


def compare(algorithm, X, y, rounds, options, weight=None):
    """Train both; same splits of stumps, same (pseudo-)losses and scores. The model."""
    cls, slow, learners, times, column = algorithm
    K = int(y.max()) + 1
    expected, losses, F = slow(y, K, rounds, learners(X, K, options), weight)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "every weak learner misclassifies half of the weight: the model is constant"
        )
        model = cls(n_estimators=rounds, **options).fit(X, y, weight)
    assert model.n_estimators_ == len(expected)
    if not expected:
        return model
    np.testing.assert_allclose(model.history_[column], losses, atol=2e-5)
    np.testing.assert_allclose(times * model.model_.raw_scores(X), F, atol=1e-3)
    if options is STUMPS:
        assert splits_of(model) == as_float(expected)
    return model


@BOTH
@LEARNERS
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.part(3)
def test_twins(algorithm, options, K, seed):
    X, y = several(K, seed) if options is STUMPS else blobs(60 * K, 4, K, seed=seed)
    model = compare(algorithm, X, y, rounds=25, options=options)
    assert model.n_estimators_ > 1 or (
        algorithm is M1 and K == 5
    )  # no stump is right on half of five classes


def nasty(K, rng):
    """Few different values, ties, missing ones, a constant column, a class of one row, and weights far apart."""
    X, y = blobs(90, 4, K, seed=int(rng.integers(99)))
    X = np.round(X / 2).astype(np.float32)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[:, 3] = 1
    y[y == K - 1] = 0
    y[7] = K - 1
    weight = 2.0 ** rng.integers(-8, 8, len(y))
    weight[7] = 1
    return X, y, weight


@BOTH
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nasty_rows(algorithm, K, seed):
    X, y, weight = nasty(K, np.random.default_rng([K, seed]))
    compare(algorithm, X, y, rounds=20, options=STUMPS)
    compare(algorithm, X, y, rounds=20, options=STUMPS, weight=weight)


@BOTH
@LEARNERS
def test_weights_are_repeated_rows(algorithm, options):
    X, y = blobs(150, 4, 3, seed=4)
    count = np.random.default_rng(0).integers(1, 4, len(y))
    cls = algorithm[0]
    weighted = cls(n_estimators=15, **options).fit(X, y, count)
    repeated = cls(n_estimators=15, **options).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_allclose(
        weighted.model_.raw_scores(X), repeated.model_.raw_scores(X), atol=1e-4
    )


@BOTH
@LEARNERS
def test_separable_rows_take_one_round(algorithm, options):
    K = 2 if options is STUMPS else 5
    y = np.repeat(np.arange(K), 8)
    X = y[:, None] + np.linspace(0, 0.5, len(y))[:, None]
    model = algorithm[0](n_estimators=9, **options).fit(X, y)
    assert model.n_estimators_ == 1
    assert model.history_[algorithm[4]][0] == 0
    assert model.score(X, y) == 1
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.set_params(warm_start=True, n_estimators=12).fit(X, y).n_estimators_ == 1


@LEARNERS
@pytest.mark.parametrize("gaps", [False, True])
def test_m1_with_two_classes_is_samme(options, gaps):
    X, y = two_classes(1, gaps)
    model = AdaBoostM1Classifier(n_estimators=30, **options).fit(X, y)
    theirs = SAMMEClassifier(n_estimators=30, **options).fit(X, y)
    np.testing.assert_array_equal(model.model_.raw_scores(X), theirs.model_.raw_scores(X))
    assert model.n_estimators_ == theirs.n_estimators_ > 1


@pytest.mark.parametrize(("seed", "share"), [(0, 0.5), (1, 0.1), (2, 0.05), (3, 0.03)])
def test_m2_with_two_classes_is_adaboost_with_constants(seed, share):
    """Constants are weak learners with the same plausible class on both sides; they win where one class is rare."""
    X, y = blobs(400, 2, 2, seed=seed, spread=8.0)
    X = np.round(X / 8)
    keep = (y == 0) | (np.random.default_rng(0).random(400) < share / (1 - share))
    X, y = X[keep], y[keep]
    expected, F = twin.adaboost(X, y, 30, kind=twin.StumpsAndConstants)
    assert share == 0.5 or None in [split for split, _ in expected]
    model = AdaBoostM2Classifier(n_estimators=30).fit(X, y)
    scores = model.model_.raw_scores(X)
    np.testing.assert_allclose(scores[:, 0] - scores[:, 1], F, atol=2e-4)


@pytest.mark.parametrize("K", [3, 6])
def test_stumps_of_m2_differ_from_those_of_mh_by_the_sums_of_all_rows(K):
    """sum |R| + |L| = sum max(|R - L|, |R + L|), and more than the sum of |R - L| where a class has many rows."""
    X, y = blobs(200, 3, K, seed=K)
    stumps = twin.AllStumps(X)
    q = (1 - np.eye(K)[y]) / (K - 1)
    A = np.eye(K)[y] - q
    right = (stumps.h > 0) @ A
    left = (stumps.h < 0) @ A
    edge = right - left
    total = right + left
    reached = twin.plausible_sets(right)[1] + twin.plausible_sets(left)[1]
    np.testing.assert_allclose(2 * reached, np.maximum(np.abs(edge), np.abs(total)).sum(axis=1))
    assert (2 * reached >= np.abs(edge).sum(axis=1) - 1e-9).all()


@BOTH
@LEARNERS
def test_bounds_of_the_training_error(algorithm, options):
    """Theorems 10 and 11: the product of 2 sqrt(eps (1 - eps)); times K - 1 for M2."""
    cls, _, _, _, column = algorithm
    X, y = blobs(400, 4, 3, seed=8, spread=1.5)
    model = cls(n_estimators=40, **options).fit(X, y)
    eps = model.history_[column]
    bound = (2 if cls is AdaBoostM2Classifier else 1) * np.cumprod(2 * np.sqrt(eps * (1 - eps)))
    errors = np.array([np.mean(named != y) for named in model.staged_predict(X)])
    assert (errors <= bound + 1e-9).all()
    assert errors[-1] < errors[0]


def test_m1_ends_where_no_stump_is_right_on_half_of_the_weight():
    X, y = blobs(400, 4, 10, seed=2)
    with pytest.warns(
        UserWarning,
        match="half of the weight: the model is constant. Use trees with more leaves",
    ):
        model = AdaBoostM1Classifier(n_estimators=9, **STUMPS).fit(X, y)
    assert model.n_estimators_ == 0
    assert AdaBoostM2Classifier(n_estimators=9).fit(X, y).score(X, y) > 0.3
