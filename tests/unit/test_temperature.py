"""The temperature of given scores."""

import numpy as np
import pytest
from reference.temperature import best_temperature, log_loss
from sklearn import metrics

from pymcboost import (
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    JointBoostClassifier,
    MCBoostClassifier,
    PIBoostClassifier,
    SAMMEClassifier,
    load_model,
)
from pymcboost.model.temperature import codes_of, fit_temperature


def draw(n, k, true, seed=0):
    """Scores, and classes drawn from softmax(scores / true)."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k)) * 3
    return scores, (scores / true + rng.gumbel(size=(n, k))).argmax(axis=1), rng.random(n)


@pytest.mark.parametrize("link", ["none", "softmax", "softmax2"])
@pytest.mark.parametrize(
    ("n", "k", "true", "scale"),
    [(60, 2, 1.0, 1.0), (80, 3, 3.0, 40.0), (50, 7, 0.5, 0.05), (90, 4, 30.0, 1.0)],
)
def test_twin(n, k, true, scale, link):
    scores, codes, weight = draw(n, k, true)
    scores *= scale
    temperature = fit_temperature(scores, codes, weight, link=link)
    wanted = best_temperature(scores.tolist(), codes.tolist(), weight.tolist(), link=link)
    assert temperature == pytest.approx(wanted, rel=2**-12)
    least = log_loss(scores, codes, weight, link=link, temperature=wanted)
    assert log_loss(scores, codes, weight, link=link, temperature=temperature) <= least * (1 + 1e-6)


def test_a_known_temperature_is_found_in_many_rows():
    scores, codes, _ = draw(200_000, 5, 2.5)
    assert fit_temperature(scores, codes) == pytest.approx(2.5, rel=0.01)
    assert fit_temperature(scores, codes, link="softmax2") == pytest.approx(5.0, rel=0.01)


def test_two_classes():
    """Scores (0, f) and (-f / 2, f / 2) are the same."""
    scores, codes, weight = draw(300, 2, 0.7)
    f = scores[:, 1] - scores[:, 0]
    first = fit_temperature(np.column_stack([np.zeros(300), f]), codes, weight)
    assert first == fit_temperature(np.column_stack([-f / 2, f / 2]), codes, weight)


def test_where_all_rows_are_right_one_in_as_many_may_be_wrong():
    """One class, scores (1, 0): the minimum is where the other one has half a row in n + 1."""
    for n in (9, 99, 999):
        scores = np.tile([[5.0, 0.0]], (n, 1))
        p = 1 / (1 + np.exp(-5 / fit_temperature(scores, np.zeros(n, dtype=int))))
        assert 1 - p == pytest.approx(0.5 / (n + 1), rel=0.01)


def test_what_has_no_minimum_inside_the_bounds():
    scores = np.random.default_rng(0).normal(size=(50, 3)) * 1e-6
    assert fit_temperature(scores, scores.argmax(axis=1)) == 2**-16
    assert fit_temperature(scores, scores.argmin(axis=1)) == 2**16
    assert fit_temperature(np.full((50, 3), 7.0), np.arange(50) % 3) == 1


def test_a_row_of_equal_scores_has_no_say():
    scores, codes, weight = draw(100, 3, 2.0)
    more = np.vstack([scores, np.ones((3, 3))])
    temperature = fit_temperature(more, [*codes, 0, 1, 2], [*weight, 1, 1, 1])
    assert temperature == pytest.approx(fit_temperature(scores, codes, weight), rel=0.01)


def test_weights_are_counts_and_0_is_none():
    scores, codes, _ = draw(100, 3, 2.0)
    counts = np.arange(100) % 3
    temperature = fit_temperature(scores, codes, counts)
    for scale in (1e-200, 1e-300, 8e307):
        assert temperature == fit_temperature(scores, codes, counts * scale)
    assert temperature == fit_temperature(scores[counts > 0], codes[counts > 0], counts[counts > 0])
    assert temperature == pytest.approx(
        fit_temperature(scores.repeat(counts, axis=0), codes.repeat(counts)), rel=0.02
    )


def test_last_bits_of_the_scores_do_not_show():
    for seed in range(20):
        scores, codes, weight = draw(200, 4, 1.5, seed=seed)
        noise = 1 + 1e-13 * np.random.default_rng(seed).choice([-1, 1], size=scores.shape)
        temperature = fit_temperature(scores, codes, weight)
        assert temperature == fit_temperature(scores * noise, codes, weight)
        assert (temperature * 2.0**12 / 2 ** np.floor(np.log2(temperature) + 1)) % 1 == 0


@pytest.mark.parametrize(
    ("scores", "codes", "weight", "words"),
    [
        (np.eye(3), [0, 1, 2], [0, 0, 0], "all weights are 0"),
        (np.empty((0, 3)), np.empty(0, dtype=int), None, "there are no rows"),
        (np.eye(3), [0, 1, 2], [1, -1, 1], "weights of a calibration must be finite numbers >= 0"),
        (np.eye(3), [0, 1, 2], [1, np.nan, 1], "must be finite"),
        (np.full((3, 3), np.inf), [0, 1, 2], None, "needs finite scores"),
        (np.eye(3), [0, 1], None, "do not match"),
        (np.ones(3), [0, 1, 1], None, "do not match"),
    ],
)
def test_refused(scores, codes, weight, words):
    with pytest.raises(ValueError, match=words):
        fit_temperature(scores, codes, weight)


def test_labels_that_a_model_does_not_know():
    assert codes_of(["b", "a", "b"], np.array(["a", "b"])).tolist() == [1, 0, 1]
    pandas = pytest.importorskip("pandas")
    nothing = pandas.array(["a", "b", None], dtype="string")
    for y in (nothing, nothing.astype(object), ["a", "b", None], [1.0, 2.0, np.nan]):
        with pytest.raises(
            ValueError, match="y has no label in row 2; leave out rows without a label"
        ):
            codes_of(y, np.array(["a", "b"]))
    for y, classes in (([1, 5], [1, 2, 3]), (["1", "2"], [1, 2]), ([1, 2], ["1", "2"])):
        with pytest.raises(ValueError, match="not a class of the model"):
            codes_of(y, np.array(classes))


# -- Numbers that losses ask for ---------------------------------------------------------------------------------------

BY_LOSS = [
    (AdaBoostMHClassifier, {}, 5 / 4), (JointBoostClassifier, {}, 5 / 4), (PIBoostClassifier, {}, 10 / 4),
    (PIBoostClassifier, {"separators": "pairs"}, 30 / 4), (AdaBoostMOClassifier, {"decoder": "linear"}, 15 / 4),
    (AdaBoostMOClassifier, {"decoder": "linear", "code": "one-vs-all"}, 5 / 4), (AdaBoostMOClassifier, {}, None),
    (AdaBoostMOClassifier, {"decoder": "linear", "code": "dense"}, 15 / 4),
]  # fmt: skip


def drawn(K, m, seed):
    """Rows whose classes have the probabilities softmax(X W / 2), and these."""
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(1).normal(size=(3, K))
    X = np.round(rng.normal(size=(m, 3)) * 1.5)
    P = np.exp(X @ W / 2)
    P /= P.sum(axis=1, keepdims=True)
    return X, (rng.random((m, 1)) > P.cumsum(axis=1)).sum(axis=1), P


@pytest.mark.parametrize(("cls", "options", "temperature"), BY_LOSS)
def test_the_least_loss_gives_the_probabilities(cls, options, temperature, tmp_path):
    K = 5
    (X, y, _), (X_test, truth, P) = drawn(K, 1500, 0), drawn(K, 3000, 2)
    model = cls(n_estimators=40, random_state=0, **options).fit(X, y).model_
    assert model.temperature == (None if temperature is None else pytest.approx(temperature))
    if temperature is None:
        return
    plain = model.with_temperature(1.0)  # up to 4.4 above the best
    every = model.predict_proba(X_test), P, plain.predict_proba(X_test)
    found, best, was = (metrics.log_loss(truth, one) for one in every)
    assert best < found < min(best + 0.08, was - 0.01)
    assert not model.is_calibrated and plain.is_calibrated
    model.save(tmp_path / "model.mcb")
    loaded = load_model(tmp_path / "model.mcb")
    other = loaded.with_temperature(7.0)
    for same in (loaded, other.with_temperature(None), other.truncate(20), loaded.truncate(20)):
        assert same.temperature == model.temperature
    assert other.with_temperature(None).to_bytes() == model.to_bytes()
    stage = list(model.staged_predict_proba(X_test))[19]
    np.testing.assert_allclose(loaded.truncate(20).predict_proba(X_test), stage, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes_have_the_probabilities_of_adaboost(weighted):
    """Where the scores are the same, so are the probabilities, and what `restore_priors` makes of them."""
    X, y, _ = drawn(2, 300, 3)
    priors = {"class_weight": {0: 1.0, 1: 3.0}, "restore_priors": True} if weighted else {}
    found = [
        cls(n_estimators=15, random_state=0, **options, **priors).fit(X, y)
        for cls, options in (
            (SAMMEClassifier, {}),
            (AdaBoostMHClassifier, {}),
            (PIBoostClassifier, {}),
            (AdaBoostMOClassifier, {}),
            (AdaBoostMOClassifier, {"decoder": "linear"}),
            (MCBoostClassifier, {"learning_rate": 1.0, "nu": 0.0}),
        )
    ]
    for one in found[1:]:
        np.testing.assert_allclose(one.predict_proba(X), found[0].predict_proba(X), atol=1e-6)
    if weighted:
        cuts = [one.model_.truncate(10).predict_proba(X) for one in found[:3]]
        np.testing.assert_allclose(cuts[1:], [cuts[0]] * 2, atol=1e-6)


def test_early_stopping_measures_the_probabilities_of_the_loss():
    (X, y, _), (X_val, y_val, _) = drawn(4, 600, 0), drawn(4, 400, 2)
    model = PIBoostClassifier(n_estimators=12, random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    found = [metrics.log_loss(y_val, P) for P in model.model_.staged_predict_proba(X_val)]
    np.testing.assert_allclose(model.history_["val_log_loss"], found, rtol=1e-9)
