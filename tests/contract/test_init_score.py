"""``init_score``: rows begin at scores of their own, and the model adds what it has learnt."""

import numpy as np
import pytest
import scipy.sparse
from divided.threads import run
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

import pymcboost
from pymcboost import (
    Checkpoint,
    Dataset,
    MCBoostClassifier,
)
from pymcboost.algorithms import vector_tree
from pymcboost.callbacks import TrainingLoss
from pymcboost.export import from_sklearn
from pymcboost.model.init_scores import init_scores

TAKERS = [
    "VectorTreeBoostClassifier",
    "LogitBoostClassifier",
    "MartClassifier",
    "ABCLogitBoostClassifier",
    "ABCMartClassifier",
    "MCBoostClassifier",
]
# Nothing is drawn, and every round of trees with a base class searches for it: rounds do not depend on their numbers.
ALL = {"max_features": 1.0, "subsample": 1.0, "gap": 1, "warmup_rounds": 0}


def rows(m=300, K=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, m)
    X = rng.normal(size=(m, 5)) + 0.7 * np.stack([y, -y, y % 2, 0 * y, 0 * y], axis=1)
    return X, y, rng.normal(size=(m, K))


def made(name, **options):
    cls = getattr(pymcboost, name)
    wanted = {"n_estimators": 8, "random_state": 0, "calibrate": None, "n_jobs": 1, **options}
    return cls(**{key: value for key, value in wanted.items() if key in cls().get_params()})


def log_loss(probability, y):
    return -np.log(probability[np.arange(len(y)), y]).mean()


# -- The rounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.parametrize("K", [2, 4])
def test_scores_of_a_model_are_that_model_as_a_beginning(name, K):
    X, y, _ = rows(K=K)
    first = made(name, **ALL).fit(X, y)
    scores = first.model_.raw_scores(X)
    refitted = made(name, **ALL).fit(X, y, init_model=first)
    begun = made(name, **ALL).fit(X, y, init_score=scores)
    assert np.abs(begun.decision_function(X)).max() > 0.05
    assert np.abs(refitted.decision_function(X) - first.decision_function(X)).max() > 0.05
    np.testing.assert_allclose(
        begun.decision_function(X, init_score=scores), refitted.decision_function(X), atol=1e-6
    )
    np.testing.assert_allclose(
        begun.predict_proba(X, init_score=scores), refitted.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_many_labels_of_a_row(sparse):
    X, _, _ = rows(K=4)
    y = (X[:, :4] > 0.5).astype(int)
    X = scipy.sparse.csr_array(X) if sparse else X
    first = made("VectorTreeBoostClassifier", loss="logistic", **ALL).fit(X, y)
    scores = first.model_.raw_scores(X)
    assert first.model_.ensemble.bias.any()
    refitted = made("VectorTreeBoostClassifier", loss="logistic", **ALL).fit(X, y, init_model=first)
    begun = made("VectorTreeBoostClassifier", loss="logistic", **ALL).fit(X, y, init_score=scores)
    assert not begun.model_.ensemble.bias.any()  # in place of where the loss would begin
    np.testing.assert_allclose(
        begun.decision_function(X, init_score=scores), refitted.decision_function(X), atol=1e-6
    )
    assert np.array_equal(
        begun.predict(X, init_score=scores), begun.decision_function(X, init_score=scores) > 0
    )


def test_many_classes_whose_scores_are_held_in_single_precision(monkeypatch):
    X, y, scores = rows(m=900, K=120)
    wide = made("VectorTreeBoostClassifier", split_columns=16).fit(X, y, init_score=scores)
    monkeypatch.setattr(vector_tree, "MOST_WIDE_SCORES", 0)
    narrow = made("VectorTreeBoostClassifier", split_columns=16).fit(X, y, init_score=scores)
    assert narrow.model_.to_bytes() != wide.model_.to_bytes()
    np.testing.assert_allclose(narrow.decision_function(X), wide.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("name", TAKERS)
def test_zeros_are_as_none(name):
    X, y, _ = rows()
    plain = made(name).fit(X, y)
    begun = made(name).fit(X, y, init_score=np.zeros((300, 3)))
    assert begun.model_.to_bytes() == plain.model_.to_bytes()


def one_step(name, y, left, scores, rate):
    """What the first tree with the split ``left`` adds to the scores by hand: (K,) on its left and on its right."""
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    g = np.eye(p.shape[1])[y] - p
    h = p * (1 - p)
    K = p.shape[1]
    steps = []
    for side in left, ~left:
        step = (K - 1) / K * g[side].sum(axis=0) / h[side].sum(axis=0)
        steps.append(rate * (step - step.mean() if name == "VectorTreeBoostClassifier" else step))
    return steps


@pytest.mark.parametrize(
    "name", ["VectorTreeBoostClassifier", "LogitBoostClassifier", "MartClassifier"]
)
def test_the_first_round_is_the_step_from_these_scores(name):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 400)
    X = ((y == 1) ^ (rng.random(400) < 0.2)).astype(float)[:, None]
    scores = 0.5 * rng.normal(size=(400, 3))
    model = made(name, **ALL, n_estimators=1, learning_rate=0.5, min_samples_leaf=1).fit(
        X, y, init_score=scores
    )
    expected = one_step(name, y, X[:, 0] == 0, scores=scores, rate=0.5)
    np.testing.assert_allclose(model.model_.raw_scores([[0.0], [1.0]]), expected, rtol=1e-4)
    without = one_step(name, y, X[:, 0] == 0, scores=0 * scores, rate=0.5)
    assert np.abs(np.subtract(expected, without)).max() > 0.01


class Begins:
    """A logistic loss for each of two classes, whose scores begin at 3 and 0."""

    def start(self, y, weight, n_classes):
        return np.array([3.0, 0.0])

    def gradient_hessian(self, y, F):
        p = 1 / (1 + np.exp(-F))
        return p - np.eye(2)[y], p * (1 - p)

    def link(self, F):
        return 1 / (1 + np.exp(-F))

    def value(self, F, y):
        return -np.log(self.link(F))[np.arange(len(y)), y]


def test_own_losses_begin_there_too():
    X, y, scores = rows(K=2)
    first = made("VectorTreeBoostClassifier", loss=Begins(), **ALL).fit(X, y)
    assert first.model_.ensemble.bias.tolist() == [3, 0]
    scores = first.model_.raw_scores(X)
    begun = made("VectorTreeBoostClassifier", loss=Begins(), **ALL).fit(X, y, init_score=scores)
    refitted = made("VectorTreeBoostClassifier", loss=Begins(), **ALL).fit(X, y, init_model=first)
    assert not begun.model_.ensemble.bias.any()
    np.testing.assert_allclose(
        begun.decision_function(X, init_score=scores), refitted.decision_function(X), atol=1e-6
    )


@pytest.mark.parametrize("name", TAKERS)
def test_a_model_without_rounds_adds_nothing(name):
    """On constant columns trees find no split. Without `init_score` the model has the frequencies of the classes."""
    X, y, scores = rows()
    constant_X = np.zeros_like(X)
    with pytest.warns(UserWarning):
        continued = made(name).fit(constant_X, y, init_score=9 * np.eye(3)[y])
        plain = made(name).fit(constant_X, y)
    if continued.n_estimators_ == 0:
        assert not continued.model_.raw_scores(X).any()
        assert np.array_equal(continued.decision_function(X, init_score=scores), scores)
    assert np.abs(plain.model_.raw_scores(X)).max() > 0.01


def test_rows_of_weight_0_and_class_weights():
    X, y, scores = rows()
    weight = (np.arange(300) % 3 > 0).astype(float)
    used = weight > 0
    some = made("LogitBoostClassifier", class_weight="balanced", **ALL).fit(
        X[used], y[used], init_score=scores[used]
    )
    scores[~used] = 1e9
    uninterrupted = made("LogitBoostClassifier", class_weight="balanced", **ALL).fit(
        X, y, weight, init_score=scores
    )
    np.testing.assert_array_equal(uninterrupted.decision_function(X), some.decision_function(X))


# -- Rows that are not trained on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKERS)
def test_validation_sets_begin_at_theirs(name):
    X, y, scores = rows()
    X_val, y_val, scores_val = rows(seed=1)
    how = {"early_stopping": True, "n_iter_no_change": 3, "scoring": ["error", "log_loss"]}
    own = [TrainingLoss()]
    model = made(name, n_estimators=20, **how).fit(
        X,
        y,
        init_score=scores,
        X_val=X_val,
        y_val=y_val,
        init_score_val=scores_val,
        callbacks=own,
        validation_sets={"other": (X, y, None, scores)},
    )
    t = model.n_estimators_
    history = model.history_
    scored = (
        model.decision_function(X_val, init_score=scores_val),
        model.predict_proba(X_val, init_score=scores_val),
    )
    assert history["val_error"][t - 1] == pytest.approx(np.mean(scored[0].argmax(axis=1) != y_val))
    assert history["val_log_loss"][t - 1] == pytest.approx(log_loss(scored[1], y_val))
    expected = log_loss(model.predict_proba(X, init_score=scores), y)
    for column in "other_log_loss", "train_log_loss":
        assert history[column][t - 1] == pytest.approx(expected)


@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.part(2)
def test_rows_that_a_training_holds_out_itself_begin_at_theirs(name):
    """With scores that tell everything, nothing can be learnt: early stopping, folds and temperature must see it."""
    X, y, noise = rows()
    told = 9 * np.eye(3)[y] + 0.1 * noise
    model = made(name, n_estimators=60, early_stopping=True, n_iter_no_change=2).fit(
        X, y, init_score=told
    )
    assert model.history_["val_log_loss"].max() < 0.1
    fitted = made(name, n_estimators="auto", n_iter_no_change=2, cv=2).fit(X, y, init_score=told)
    assert fitted.cv_results_["mean"].max() < 0.1
    warm = made(name, calibrate="temperature").fit(X, y, init_score=0.2 * told + noise)
    cold = made(name, calibrate="temperature").fit(X, y)
    assert warm.model_.temperature != cold.model_.temperature
    probability = warm.predict_proba(X, init_score=0.2 * told + noise)
    raw = warm.model_.raw_scores(X) + 0.2 * told + noise
    z = np.exp((2 if warm.model_.link == "softmax2" else 1) * raw / warm.model_.temperature)
    np.testing.assert_allclose(probability, z / z.sum(axis=1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("name", TAKERS)
def test_the_temperature_of_a_validation_set_is_that_of_both_scores(name):
    X, y, scores = rows()
    X_val, y_val, scores_val = rows(seed=1)
    held = {"X_val": X_val, "y_val": y_val, "init_score_val": scores_val}
    model = made(name, calibrate="temperature").fit(X, y, init_score=scores, **held)
    other = (
        made(name).fit(X, y, init_score=scores).calibrate_on(X_val, y_val, init_score=scores_val)
    )
    assert model.model_.temperature == other.model_.temperature
    assert model.model_.temperature != other.model_.calibrated(X_val, y_val).temperature


def test_thresholds_of_labels_are_those_of_both_scores():
    X, _, scores = rows()
    y = (X[:, :3] + scores > 1).astype(int)
    params = {"loss": "logistic", "decision_threshold": "f1", "n_estimators": 12}
    model = made("VectorTreeBoostClassifier", **params).fit(X, y, init_score=scores - 5)
    right = np.mean(model.predict(X, init_score=scores - 5) == y)
    assert right > 0.8 and np.mean(model.predict(X) == y) < right


# -- Going on ----------------------------------------------------------------------------------------------------------


class StopAfter:
    def __init__(self, n_rounds):
        self.n_rounds = n_rounds

    def after_round(self, state):
        if state.n_rounds == self.n_rounds:
            raise KeyboardInterrupt


class Watch:
    """Compares the scores of a training after each round with those that it would go on from."""

    def __init__(self):
        self.n_rounds = 0

    def after_round(self, state):
        booster = state.booster
        K = state.booster.data.n_classes
        held = booster.loss.F[:, :K] if hasattr(booster, "loss") else booster.trees.F.T
        assert np.array_equal(booster.scores(), held)
        self.n_rounds += 1


@pytest.mark.parametrize("name", TAKERS[:5])
def test_scores_to_go_on_from_have_the_same_bits(name):
    X, y, scores = rows()
    watch = Watch()
    made(name, n_estimators=12).fit(X, y, init_score=scores, callbacks=[watch])
    assert watch.n_rounds == 12


@pytest.mark.parametrize("name", [*TAKERS[:4], "labels", "narrow"])
def test_checkpoints_go_on_to_the_same_bytes(name, tmp_path):
    X, y, scores = rows()
    options = {"early_stopping": True, "validation_fraction": 0.2}
    if name == "labels":
        name = "VectorTreeBoostClassifier"
        options = {"loss": "logistic"}
        y = (X[:, :3] > 0.3).astype(int)
    if name == "narrow":
        name = "VectorTreeBoostClassifier"
        options = {"max_leaf_entries": 2, "split_columns": 2}
    uninterrupted = made(name, **options).fit(
        X, y, init_score=scores, callbacks=[Checkpoint(tmp_path / "other")]
    )
    file = tmp_path / "half"
    with pytest.raises(KeyboardInterrupt):
        made(name, **options).fit(
            X, y, init_score=scores, callbacks=[Checkpoint(file, every=0), StopAfter(5)]
        )
    if not options.get("early_stopping"):
        for other, what in (
            (scores + 1e-9, "the init_score differ"),
            (None, "the init_score differ"),
        ):
            with pytest.raises(ValueError, match=what):
                made(name, **options).fit(X, y, init_score=other, callbacks=[Checkpoint(file)])
    going_on = Checkpoint(file)
    half = made(name, **options).fit(X, y, init_score=scores, callbacks=[going_on])
    assert going_on.resumed == 5
    assert half.model_.to_bytes() == uninterrupted.model_.to_bytes()


def test_a_checkpoint_knows_the_scores_of_the_validation_set(tmp_path):
    X, y, scores = rows()
    file = tmp_path / "file"
    held = {"X_val": X, "y_val": y}
    with pytest.raises(KeyboardInterrupt):
        made("MartClassifier").fit(
            X,
            y,
            init_score=scores,
            **held,
            init_score_val=scores,
            callbacks=[Checkpoint(file, every=0), StopAfter(5)],
        )
    with pytest.raises(ValueError, match="the validation set differ"):
        made("MartClassifier").fit(
            X, y, init_score=scores, **held, init_score_val=scores + 1, callbacks=[Checkpoint(file)]
        )


@pytest.mark.parametrize("name", TAKERS)
def test_warm_starts_need_the_scores_again(name):
    X, y, scores = rows()
    uninterrupted = made(name, warm_start=True).fit(X, y, init_score=scores)
    half = made(name, warm_start=True, n_estimators=3).fit(X, y, init_score=scores)
    half.set_params(n_estimators=8)
    with pytest.raises(
        ValueError, match="warm_start: the existing rounds were fitted with init_score"
    ):
        half.fit(X, y)
    assert half.fit(X, y, init_score=scores).model_.to_bytes() == uninterrupted.model_.to_bytes()
    plain = made(name, warm_start=True, n_estimators=3).fit(X, y)
    with pytest.raises(
        ValueError, match="warm_start: the existing rounds were fitted without init_score"
    ):
        plain.set_params(n_estimators=8).fit(X, y, init_score=scores)


@pytest.mark.parametrize(
    "name", ["VectorTreeBoostClassifier", "MCBoostClassifier", "ABCMartClassifier"]
)
def test_scores_come_on_top_of_those_of_init_model(name):
    X, y, scores = rows()
    first = made(name, **ALL).fit(X, y, init_score=scores)
    twice = made(name, **ALL).fit(X, y, init_model=first, init_score=scores)
    begun = made(name, **ALL).fit(X, y, init_score=scores + first.model_.raw_scores(X))
    np.testing.assert_allclose(
        twice.decision_function(X),
        begun.decision_function(X) + first.decision_function(X),
        atol=1e-6,
    )


def test_mcboost_rebuilds_its_weights_from_both_scores(monkeypatch):
    X, y, scores = rows()
    uninterrupted = made("MCBoostClassifier", n_estimators=12).fit(X, y, init_score=scores)
    monkeypatch.setattr(MCBoostClassifier.booster, "restart_every", 4)
    refitted = made("MCBoostClassifier", n_estimators=12).fit(X, y, init_score=scores)
    np.testing.assert_allclose(
        refitted.decision_function(X), uninterrupted.decision_function(X), atol=1e-5
    )
    monkeypatch.setattr("pymcboost.algorithms._binary.is_large", lambda n_classes: True)
    pieces = made("MCBoostClassifier", n_estimators=12).fit(X, y, init_score=scores)
    assert pieces.model_.to_bytes() == refitted.model_.to_bytes()


def test_refit_leaves_and_calibrate_on():
    X, y, scores = rows()
    for name in "VectorTreeBoostClassifier", "LogitBoostClassifier":
        model = made(name, **ALL, n_estimators=1, min_samples_leaf=5, learning_rate=0.1).fit(
            X, y, init_score=scores
        )
        before = model.decision_function(X)
        with pytest.raises(ValueError, match="refit_leaves: the model was fitted with init_score"):
            model.refit_leaves(X, y)
        model.refit_leaves(X, y, decay=0, init_score=scores)
        np.testing.assert_allclose(model.decision_function(X), before, atol=1e-5)
        with pytest.raises(ValueError, match="calibrate_on: the model was fitted with init_score"):
            model.calibrate_on(X, y)
        model.calibrate_on(X, y, init_score=scores)
        both = model.model_.raw_scores(X, init_score=scores)
        assert np.array_equal(both, model.model_.raw_scores(X) + scores)
        tried = {t: np.exp(both / t) for t in np.arange(0.5, 9, 0.01)}
        best = min(tried, key=lambda t: log_loss(tried[t] / tried[t].sum(axis=1, keepdims=True), y))
        assert model.model_.temperature == pytest.approx(best, abs=0.1)


# -- Predictions, data sets and workers --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKERS)
def test_two_classes_may_have_one_number(name):
    X, y, scores = rows(K=2)
    difference = scores[:, 1] - scores[:, 0]
    pair = made(name).fit(X, y, init_score=np.stack((-difference / 2, difference / 2), axis=1))
    model = made(name).fit(X, y, init_score=difference)
    assert model.model_.to_bytes() == pair.model_.to_bytes()
    expected = difference + model.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X, init_score=difference), expected)
    probability = model.predict_proba(X, init_score=difference)
    np.testing.assert_allclose(model.predict_proba(X, init_score=scores), probability)
    assert np.array_equal(model.predict(X, init_score=difference), probability.argmax(axis=1))
    np.testing.assert_allclose(
        model.predict_log_proba(X, init_score=difference), np.log(probability), atol=1e-9
    )
    loaded = model.model_
    assert np.array_equal(loaded.predict(X, init_score=difference), probability.argmax(axis=1))
    np.testing.assert_array_equal(loaded.predict_proba(X, init_score=difference), probability)
    with pytest.raises(ValueError, match="leave out early or init_score"):
        loaded.predict(X, early="certified", init_score=difference)


@pytest.mark.parametrize("name", TAKERS)
def test_datasets_hold_them(name):
    X, y, scores = rows()
    data = Dataset(X, y, init_score=scores)
    model = made(name, calibrate="temperature").fit(X, y, init_score=scores)
    of_data = made(name, calibrate="temperature").fit(data)
    assert of_data.model_.to_bytes() == model.model_.to_bytes()
    part = slice(20, 90)
    for method in "decision_function", "predict", "predict_proba", "predict_log_proba":
        expected = getattr(model, method)(X[part], init_score=scores[part])
        assert np.array_equal(getattr(of_data, method)(data[part]), expected)
        with pytest.raises(
            TypeError, match=r"give init_score to the Dataset instead: Dataset\(X, y, init_score="
        ):
            getattr(of_data, method)(data, init_score=scores)
    assert of_data.score(data, y) == np.mean(model.predict(X, init_score=scores) == y)
    with pytest.raises(TypeError, match="give init_score to the Dataset"):
        made(name).fit(data, init_score=scores)
    with pytest.raises(
        ValueError, match="the Dataset has an init_score, which only decision_function"
    ):
        of_data.predict_top(data, 1)


def test_folds_of_a_dataset_are_scored_with_theirs():
    X, y, noise = rows()
    data = Dataset(X, y, init_score=9 * np.eye(3)[y] + 0.1 * noise)
    fold_scores = cross_val_score(made("VectorTreeBoostClassifier", n_estimators=2), data, y, cv=3)
    assert fold_scores.min() > 0.98
    two = data.subset(np.flatnonzero(y != 1))
    model = made("LogitBoostClassifier", **ALL).fit(two)
    own = data._set.init_score[y != 1][:, [0, 2]]
    expected = model.decision_function(X[y != 1]) + own[:, 1] - own[:, 0]
    np.testing.assert_allclose(model.decision_function(two), expected)
    twin = made("LogitBoostClassifier", **ALL).fit(X[y != 1], y[y != 1], init_score=own)
    np.testing.assert_allclose(twin.decision_function(X), model.decision_function(X), atol=1e-6)


WAYS = {"calibrate": "temperature"}, {"early_stopping": True}, {"scoring": "error"}


@pytest.mark.parametrize("params", WAYS, ids=str)
@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.part(7)
def test_workers_have_those_of_their_rows(name, params):
    X, y, scores = rows(600)
    X_val, y_val, scores_val = rows(120, seed=1)
    parts = [np.arange(200), np.arange(0), np.arange(200, 600)]
    of_val = [slice(0, 50), slice(50, 50), slice(50, 120)]

    def fit(workers, part, val):
        held = {"X_val": X_val[val], "y_val": y_val[val], "init_score_val": scores_val[val]}
        options = held if "scoring" in params else {}
        model = made(name, n_estimators=5, **params)
        model.fit(X[part], y[part], init_score=scores[part], comm=workers, **options)
        return model.model_.to_bytes(), {
            column: values.tolist() for column, values in model.history_.items()
        }

    def fit_data(workers, part):
        data = Dataset(X[part], y[part], init_score=scores[part], comm=workers)
        return made(name, n_estimators=5, **params).fit(data).model_.to_bytes()

    one = run(1, lambda workers: fit(workers, slice(None), slice(None)))
    assert (
        run(3, lambda workers: fit(workers, parts[workers.rank], of_val[workers.rank])) == one * 3
    )
    if "scoring" not in params:
        assert run(3, lambda workers: fit_data(workers, parts[workers.rank])) == [one[0][0]] * 3


@pytest.mark.parametrize(
    "name", ["VectorTreeBoostClassifier", "LogitBoostClassifier", "MCBoostClassifier"]
)
def test_all_workers_give_them_or_none(name):
    X, y, scores = rows()

    def some(workers):
        first = scores if workers.rank else None
        return made(name).fit(X, y, init_score=first, comm=workers)

    assert "init_score is given on some workers only; give it on all, or on none" in str(
        run(2, some)
    )


# -- Errors ------------------------------------------------------------------------------------------------------------


def infinite(scores):
    scores[4, 2] = np.inf
    return scores


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s: s[:, :2],
            r"init_score has shape \(300, 2\); give one score per row and class, \(300, 3\)$",
        ),
        (lambda s: s[:9], r"init_score has shape \(9, 3\); give"),
        (lambda s: s[:, 0], r"init_score has shape \(300,\); give"),
        (lambda s: s.ravel(), r"init_score has shape \(900,\); give"),
        (
            infinite,
            "init_score contains inf in row 4, column 2; scores must be finite, with magnitude at most 1e.15",
        ),
        (lambda s: s * np.nan, "init_score contains nan in row 0, column 0; scores must be finite"),
        (lambda s: "nothing", "init_score must hold numbers"),
    ],
)
def test_wrong_scores_are_named(change, words):
    X, y, scores = rows()
    model = made("MartClassifier").fit(X, y)
    wrong = change(scores.copy())
    for attempt in (
        lambda: made("MartClassifier").fit(X, y, init_score=wrong),
        lambda: made("MartClassifier").fit(
            X, y, init_score=scores, X_val=X, y_val=y, init_score_val=wrong
        ),
        lambda: Dataset(X, y, init_score=wrong),
        lambda: model.predict(X, init_score=wrong),
        lambda: model.model_.predict_proba(X, init_score=wrong),
    ):
        with pytest.raises(ValueError, match=words):
            attempt()


def test_labels_have_no_pairs():
    X, _, scores = rows()
    y = (X[:, :2] > 0).astype(int)
    with pytest.raises(
        ValueError,
        match=r"has shape \(300,\); give one score per row and class, \(300, 2\)$",
    ):
        made("VectorTreeBoostClassifier", loss="logistic").fit(X, y, init_score=scores[:, 0])
    kept = init_scores(scores.astype(np.float32), 300, 3)
    assert kept.dtype == np.float32 and init_scores([[1], [2]], 2, 1).dtype == np.float64


def test_models_of_forests_refuse_them():
    X, y, scores = rows()
    model = from_sklearn(RandomForestClassifier(3, random_state=0).fit(X, y))
    with pytest.raises(ValueError, match="init_score needs scores that go through a softmax"):
        model.predict_proba(X, init_score=scores)


def test_sets_need_what_the_training_has():
    X, y, scores = rows()
    options = {"X_val": X, "y_val": y}
    with pytest.raises(ValueError, match="'val' does not; give it as init_score_val"):
        made("MartClassifier").fit(X, y, init_score=scores, **options)
    with pytest.raises(
        ValueError, match=r"'a' does not; give it as a fourth member of validation_sets\['a'\]"
    ):
        made("MartClassifier").fit(X, y, init_score=scores, validation_sets={"a": (X, y)})
    with pytest.raises(
        ValueError,
        match="the validation set 'val' has an init_score, but the training rows do not",
    ):
        made("MartClassifier").fit(X, y, **options, init_score_val=scores)
    with pytest.raises(
        ValueError,
        match="init_score_val belongs to the rows of X_val; give X_val and y_val",
    ):
        made("MartClassifier").fit(X, y, init_score=scores, init_score_val=scores)
    with pytest.raises(
        ValueError, match=r"must be \(X, y\), .* or \(X, y, sample_weight, init_score\)"
    ):
        made("MartClassifier").fit(X, y, validation_sets={"a": (X, y, None, scores, 1)})


@pytest.mark.parametrize("name", sorted({*pymcboost.__all__} - {*TAKERS}))
def test_others_refuse_them_by_name(name):
    cls = getattr(pymcboost, name)
    if not name.endswith("Classifier"):
        return
    X, y, scores = rows(60)
    X, y = (X, (X[:, :3] > 0).astype(int)) if "AdaBoostMH" in name else (X, y)
    words = f"{name}.*init_score.* VectorTreeBoostClassifier, MCBoostClassifier"
    with pytest.raises(TypeError, match=words):
        cls(n_estimators=2).fit(X, y, init_score=scores)
    fitted = cls(n_estimators=2).fit(X, y)
    with pytest.raises(TypeError, match=words):
        fitted.predict(X, init_score=scores)
    with pytest.raises(TypeError, match=words):
        cls(n_estimators=2).fit(Dataset(X, y, init_score=scores))


def test_other_names():
    X, y, scores = rows()
    for other in "base_margin", "baseline":
        with pytest.raises(TypeError, match="use init_score"):
            made("MartClassifier").fit(X, y, **{other: scores})
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'base_margin'; use init_score"
    ):
        made("MartClassifier").fit(X, y).predict(X, base_margin=scores)
