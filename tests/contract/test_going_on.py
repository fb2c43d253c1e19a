"""Trainings that go on from a model: ``init_model`` of `fit`."""

import copy
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse
from contract.variants import ALGORITHMS, as_published
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import log_loss

from pymcboost import (
    Checkpoint,
    HingeBoostOCClassifier,
    MartClassifier,
    MCBoostClassifier,
    MultiBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.algorithms.abcboost import AdaptiveBaseBooster
from pymcboost.model.file import ModelFormatError
from pymcboost.model.model import Model

(MartClassifier,) = as_published(MartClassifier)

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
OLD_X = X[:500]
OLD_Y = y[:500]
NEW_X = X[500:1000]
NEW_Y = y[500:1000]
TEST_X = X[1000:]
TEST_Y = y[1000:]


def can(name):
    """Whether rounds of an algorithm, with these defaults, are a model of their own."""
    cls = ALGORITHMS[name]
    return cls.booster.resumable and (not name.startswith("multiboost") or cls().max_passes == 1)


CAN = [name for name in ALGORITHMS if can(name)]


@pytest.mark.parametrize("name", CAN)
@pytest.mark.part(2)
@pytest.mark.families("name")
def test_rounds_are_added_for_new_rows(name, tmp_path):
    cls = ALGORITHMS[name]
    first = cls(n_estimators=6).fit(OLD_X, OLD_Y)
    first.save(tmp_path / "first.mcb")
    forms = [first, first.model_, tmp_path / "first.mcb", str(tmp_path / "first.mcb")]
    models = [cls(n_estimators=5).fit(NEW_X, NEW_Y, init_model=form) for form in forms]
    for model in models:
        assert model.n_estimators_ == model.model_.n_rounds == 11
        np.testing.assert_array_equal(
            model.model_.raw_scores(TEST_X), models[0].model_.raw_scores(TEST_X)
        )
        assert model.classes_.tolist() == list(range(10))
        assert {len(values) for values in model.history_.values()} <= {11}
    begin = models[2].model_.truncate(6)
    np.testing.assert_array_equal(begin.raw_scores(TEST_X), first.model_.raw_scores(TEST_X))
    assert np.isnan([values[0] for values in models[2].history_.values()]).all()
    assert models[0].score(NEW_X, NEW_Y) > first.score(NEW_X, NEW_Y)
    with pytest.raises(ValueError, match="n_estimators=10 is less than the 11"):
        models[0].set_params(n_estimators=10, warm_start=True).fit(NEW_X, NEW_Y)


@pytest.mark.parametrize("name", CAN)
@pytest.mark.families("name")
def test_the_same_rows_give_what_a_warm_start_gives(name):
    cls = ALGORITHMS[name]
    warm = cls(n_estimators=4, warm_start=True).fit(OLD_X, OLD_Y)
    first = warm.model_
    warm.set_params(n_estimators=7).fit(OLD_X, OLD_Y)
    model = cls(n_estimators=3).fit(OLD_X, OLD_Y, init_model=first)
    np.testing.assert_array_equal(model.model_.raw_scores(TEST_X), warm.model_.raw_scores(TEST_X))


@pytest.mark.parametrize("name", CAN)
@pytest.mark.families("name")
def test_new_rows_may_lack_classes_and_be_sparse(name):
    cls = ALGORITHMS[name]
    n = 24 if name == "adaboost-ml" else 8  # its first stumps name few classes
    words = np.array([f"digit {label}" for label in range(10)])
    first = cls(n_estimators=n).fit(OLD_X, words[OLD_Y])
    part = (NEW_Y != 0) & (NEW_Y != 7)
    rows = scipy.sparse.csr_array(NEW_X[part])
    model = cls(n_estimators=n, calibrate=None).fit(
        rows, words[NEW_Y[part]], init_model=first.model_
    )
    assert model.classes_.tolist() == words.tolist()
    assert model.n_estimators_ > n
    assert model.score(TEST_X, words[TEST_Y]) > 0.3
    assert model.predict_proba(TEST_X).shape == (len(TEST_X), 10)


def test_labels_of_other_types_are_those_of_the_model():
    first = MartClassifier(n_estimators=3).fit(OLD_X, OLD_Y > 4)
    model = MartClassifier(n_estimators=3).fit(NEW_X, NEW_Y > 4, init_model=first)
    assert model.predict(TEST_X).dtype == bool
    model = MartClassifier(n_estimators=3).fit(NEW_X, NEW_Y > 4, init_model=first.model_)
    assert model.classes_.tolist() == [0, 1]
    assert model.score(TEST_X, (TEST_Y > 4).astype(int)) > 0.8


def test_balanced_weights_are_those_of_the_classes_there_are():
    part = NEW_Y < 8
    first = MartClassifier(n_estimators=3).fit(OLD_X, OLD_Y)
    balanced = MartClassifier(n_estimators=3, class_weight="balanced")
    model = balanced.fit(NEW_X[part], NEW_Y[part], init_model=first)
    rows = NEW_Y[part]
    weight = (len(rows) / (8 * np.bincount(rows)))[rows]
    same = MartClassifier(n_estimators=3).fit(
        NEW_X[part], rows, sample_weight=weight, init_model=first
    )
    np.testing.assert_allclose(
        model.model_.raw_scores(TEST_X), same.model_.raw_scores(TEST_X), rtol=1e-6
    )


def test_early_stopping_goes_back_to_the_model_given_at_most():
    first = MartClassifier(n_estimators=40).fit(OLD_X, OLD_Y)
    noise = np.random.default_rng(0).permutation(NEW_Y)
    model = MartClassifier(n_estimators=50, early_stopping=True, n_iter_no_change=3)
    model.fit(NEW_X, noise, X_val=TEST_X, y_val=TEST_Y, init_model=first)
    assert model.n_estimators_ == 40
    np.testing.assert_array_equal(model.decision_function(TEST_X), first.decision_function(TEST_X))


def test_the_temperature_comes_from_folds_that_go_on_too():
    old, new, test = np.split(np.random.default_rng(0).permutation(len(y)), [500, 1000])
    first = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X[old], y[old])
    model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(
        X[new], y[new], init_model=first
    )
    plain = model.model_.with_temperature(None)
    best = model.model_.calibrated(X[test], y[test])
    losses = [log_loss(y[test], one.predict_proba(X[test])) for one in (plain, model.model_, best)]
    assert losses[1] < losses[0]
    assert abs(np.log(model.model_.temperature / best.temperature)) < 0.2


# -- leaves anew -----------------------------------------------------------------------------------------------------

REFITS = [name for name, cls in ALGORITHMS.items() if cls.booster.refits]


def test_which_algorithms_have_leaves_of_the_loss_alone():
    assert sorted(REFITS) == ["abc-logitboost", "abc-mart", "logitboost", "mart", "vector-tree"]
    others = [cls for name, cls in ALGORITHMS.items() if name not in REFITS]
    X, y = OLD_X[:100], OLD_Y[:100]
    for cls in others:
        with pytest.raises(ValueError, match=f"{cls.__name__} cannot refit leaves"):
            cls(n_estimators=1).fit(X, y).refit_leaves(X, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        *((name, {}) for name in REFITS),
        ("vector-tree", {"leaf_step": "full", "l2_regularization": 0.5}),
        ("abc-mart", {"gap": 2, "l2_regularization": 3.0, "class_weight": "balanced"}),
    ],
)
@pytest.mark.part(3)
def test_the_training_rows_give_the_leaves_of_the_training(name, params, classes, weighted):
    labels = OLD_Y if classes == 10 else (OLD_Y > 4).astype(int)
    weight = np.arange(len(OLD_Y)) % 3 + 0.5 * weighted if weighted else None
    drawn = (
        {} if name == "vector-tree" else {"subsample": 1.0}
    )  # whose leaf vectors are those of all rows
    model = ALGORITHMS[name](n_estimators=5, calibrate=None, **drawn, **params)
    model.fit(OLD_X, labels, sample_weight=weight)
    before = model.model_
    assert model.refit_leaves(OLD_X, labels, 0.0, sample_weight=weight) is model
    after = model.model_
    np.testing.assert_allclose(after.ensemble.leaf, before.ensemble.leaf, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(after.ensemble.threshold, before.ensemble.threshold)
    sparse = scipy.sparse.csr_array(OLD_X)
    again = model.refit_leaves(sparse, labels, 0.0, sample_weight=weight).model_
    np.testing.assert_allclose(again.ensemble.leaf, before.ensemble.leaf, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", REFITS)
def test_new_rows_move_the_leaves_by_the_decay(name):
    cls = ALGORITHMS[name]
    first = cls(n_estimators=1, calibrate=None).fit(OLD_X, OLD_Y).model_

    def refitted(decay, rows=slice(None)):
        model = cls(n_estimators=1, calibrate=None).fit(OLD_X, OLD_Y)
        return model.refit_leaves(NEW_X[rows], NEW_Y[rows], decay).model_.ensemble.leaf

    old, new = first.ensemble.leaf, refitted(0.0)
    np.testing.assert_array_equal(refitted(1.0), old)
    np.testing.assert_allclose(refitted(0.25), 0.25 * old + 0.75 * new, rtol=1e-5, atol=1e-7)
    assert np.abs(new - old).max() > 0.01
    # Leaves without rows stay, and there may be classes without rows.
    few = refitted(0.0, np.flatnonzero(NEW_Y < 2)[:5])
    leaves = first.apply(NEW_X[np.flatnonzero(NEW_Y < 2)[:5]])
    begins = first.ensemble.offset + np.arange(len(first.ensemble.offset))
    met = np.unique(begins[np.arange(leaves.shape[1])] + leaves)
    stay = np.setdiff1d(np.arange(len(few)), met)
    np.testing.assert_array_equal(few[stay], old[stay])
    assert (few[met] != old[met]).any()


def test_refitted_leaves_fit_rows_of_another_time():
    rng = np.random.default_rng(0)
    mixed = rng.permutation(10)
    model = VectorTreeBoostClassifier(n_estimators=40, calibrate=None, random_state=0).fit(
        OLD_X, OLD_Y
    )
    assert model.score(NEW_X, mixed[NEW_Y]) < 0.3
    model.model_ = model.model_.with_temperature(2.0)
    model.refit_leaves(NEW_X, mixed[NEW_Y], 0.0)
    assert model.score(NEW_X, mixed[NEW_Y]) > 0.9
    assert model.model_.temperature == 2.0


@pytest.mark.parametrize("name", REFITS)
def test_leaves_anew_where_folds_have_found_the_rounds(name, monkeypatch):
    model = ALGORITHMS[name](n_estimators=3, calibrate=None, random_state=0).fit(OLD_X, OLD_Y)
    again = copy.deepcopy(model).set_params(n_estimators="auto")
    monkeypatch.setattr(AdaptiveBaseBooster, "_memory_of", counted := Mock(return_value=[]))
    again.refit_leaves(NEW_X, NEW_Y)
    assert again.n_estimators == "auto"
    assert all(
        len(call.args) == 1 for call in counted.mock_calls
    )  # the trees of a search are not among them
    assert again.model_.to_bytes() == model.refit_leaves(NEW_X, NEW_Y).model_.to_bytes()


def test_odd_arguments_of_refit_leaves_are_refused():
    model = MartClassifier(n_estimators=2).fit(OLD_X, OLD_Y)
    for n in (100, len(NEW_Y) - 1):
        with pytest.raises(ValueError, match=f"X has {len(NEW_Y)} rows, but y has {n} labels"):
            model.refit_leaves(NEW_X, NEW_Y[:n])
    with pytest.raises(ValueError, match=f"X has {len(NEW_Y)} rows, but y has 100 labels"):
        model.calibrate_on(NEW_X, NEW_Y[:100])
    for decay in (-0.1, 1.1, float("nan"), None, "all"):
        with pytest.raises(
            ValueError, match="decay=.* is not allowed; it must be a number from 0 to 1"
        ):
            model.refit_leaves(NEW_X, NEW_Y, decay)
    with pytest.raises(ValueError, match="is 10 of type int64, .* not a class of the model"):
        model.refit_leaves(NEW_X, NEW_Y + 1)
    model.set_params(class_weight={label: float(label > 0) for label in range(10)})
    with pytest.raises(ValueError, match="needs rows with positive weight"):
        model.refit_leaves(NEW_X[NEW_Y == 0], NEW_Y[NEW_Y == 0])


def test_named_columns_and_weights_of_classes_without_new_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(OLD_X[:, 8:14], columns=list("abcdef"))
    cst = {"interaction_cst": [["a", "b"], ["c", "d"]], "calibrate": None}
    model = VectorTreeBoostClassifier(n_estimators=3, random_state=0, **cst).fit(frame, OLD_Y)
    assert model.refit_leaves(frame[::2], OLD_Y[::2]).n_estimators_ == 3
    costs = {"class_weight": {label: 1.0 + label for label in range(10)}}
    part = NEW_Y < 7
    first = MartClassifier(n_estimators=2, random_state=0, **costs).fit(OLD_X, OLD_Y)
    weight = 1.0 + NEW_Y[part]
    plain = [MartClassifier(n_estimators=2, random_state=0) for _ in range(2)]
    weighted = MartClassifier(n_estimators=2, random_state=0, **costs).fit(
        NEW_X[part], NEW_Y[part], init_model=first
    )
    same = plain[0].fit(NEW_X[part], NEW_Y[part], init_model=first, sample_weight=weight)
    np.testing.assert_array_equal(
        weighted.decision_function(TEST_X), same.decision_function(TEST_X)
    )
    same = (
        plain[1]
        .fit(OLD_X, OLD_Y, sample_weight=1.0 + OLD_Y)
        .refit_leaves(NEW_X[part], NEW_Y[part], 0.5, weight)
    )
    first.refit_leaves(NEW_X[part], NEW_Y[part], 0.5)
    np.testing.assert_array_equal(first.decision_function(TEST_X), same.decision_function(TEST_X))


def test_unsigned_labels_are_those_of_a_model_of_signed_ones():
    """float64 does not tell them apart."""
    part = OLD_Y < 3
    X = OLD_X[part]
    labels = np.array([5, 2**53, 2**53 + 1])[OLD_Y[part]]
    first = MartClassifier(n_estimators=2, calibrate=None).fit(X, labels)
    unsigned = labels.astype(np.uint64)
    one, other = (
        MartClassifier(n_estimators=2).fit(X, its, init_model=first).model_
        for its in (labels, unsigned)
    )
    assert np.array_equal(one.raw_scores(X), other.raw_scores(X))
    one, other = (copy.deepcopy(first).calibrate_on(X, its).model_ for its in (labels, unsigned))
    assert one.temperature == other.temperature
    refused(
        first,
        f"the label {2**53 + 2}, which is not a class of the model",
        X,
        y=unsigned + (labels > 2**53),
    )


@pytest.mark.parametrize("warm", [False, True])
def test_names_of_columns_stay_where_new_rows_have_none(warm):
    """Models put the columns of frames in order by them."""
    frame = pytest.importorskip("pandas").DataFrame(OLD_X).add_prefix("p")
    first = MartClassifier(n_estimators=2, calibrate=None).fit(frame, OLD_Y)
    model = MartClassifier(n_estimators=2, calibrate=None).fit(NEW_X, NEW_Y, init_model=first)
    if warm:
        model.set_params(warm_start=True, n_estimators=5).fit(NEW_X, NEW_Y)
    assert model.model_.feature_names == list(frame.columns)
    assert np.array_equal(model.model_.predict(frame[frame.columns[::-1]]), model.predict(OLD_X))


def refused(
    init_model,
    message,
    X=NEW_X,
    y=NEW_Y,
    error=ValueError,
    cls=MartClassifier,
    given=None,
    **params,
):
    estimator = cls(n_estimators=2).set_params(**params)
    with pytest.raises(error, match=message):
        estimator.fit(X, y, init_model=init_model, **(given or {}))
    assert not hasattr(estimator, "model_")


def test_what_cannot_be_gone_on_from_is_refused(tmp_path):
    first = MartClassifier(n_estimators=2).fit(OLD_X, OLD_Y)
    refused(
        first,
        "its algorithm is mart, but MCBoostClassifier can only continue mcboost models",
        cls=MCBoostClassifier,
    )
    refused(first.model_.with_meta({}), "its algorithm is unknown")
    refused(first.model_.reweighted(np.arange(1, 11)), r"its bias comes from reweighted\(\)")
    refused(3, "must be a Model, a model file or a fitted estimator, not 3", error=TypeError)
    refused(MartClassifier(), "must be a Model, a model file", error=TypeError)
    (tmp_path / "text").write_text("no model at all")
    refused(tmp_path / "text", "model", error=ModelFormatError)
    refused(tmp_path / "none", "none", error=FileNotFoundError)
    refused(first, "it has 64 features, but X has 63", X=NEW_X[:, :63])
    refused(first, "the label 10, which is not a class of the model", y=NEW_Y + 1)
    refused(first, "the label '0', which is not a class", y=NEW_Y.astype(str))
    refused(first, "at least 2 classes", y=np.zeros(len(NEW_Y), int))
    refused(first, "warm_start adds rounds to the estimator's own model", warm_start=True)
    refused(first, 'n_estimators="auto" trains new models', n_estimators="auto")
    checkpoint = {"callbacks": [Checkpoint(tmp_path / "part")]}
    refused(
        first,
        "init_model adds rounds to a given model, a checkpoint to the model in its file",
        given=checkpoint,
    )
    forged = (
        MCBoostClassifier(n_estimators=2).fit(OLD_X, OLD_Y).model_.with_meta({"algorithm": "mart"})
    )
    refused(forged, "the rounds in init_model do not belong to a MartClassifier")


def test_models_whose_rounds_are_merged_are_refused_by_name(tmp_path):
    total = MultiBoostClassifier(n_estimators=3).fit(OLD_X, OLD_Y)
    refused(
        total, "no rounds can be added to <Model: .* totally corrective", cls=MultiBoostClassifier
    )
    MCBoostClassifier(n_estimators=3).fit(OLD_X, OLD_Y).save(
        tmp_path / "table.mcb", layout="interval"
    )
    refused(
        load_model(tmp_path / "table.mcb"),
        "no rounds can be added to <Model: ",
        cls=MCBoostClassifier,
    )
    with pytest.raises(TypeError, match="argument 'init_model'; its rounds are merged"):
        HingeBoostOCClassifier(n_estimators=3).fit(OLD_X, OLD_Y, init_model=total)


def test_other_losses_are_refused():
    first = MCBoostClassifier(n_estimators=3).fit(OLD_X, OLD_Y)
    refused(
        first,
        "init_model: the existing model has loss='exp', but now it is 'log'",
        cls=MCBoostClassifier,
        loss="log",
    )
    stages = MultiBoostClassifier(n_estimators=3, max_passes=1).fit(OLD_X, OLD_Y)
    refused(stages, r"init_model: the existing model is stage-wise", cls=MultiBoostClassifier)


def test_columns_of_frames_must_be_those_of_the_model():
    pandas = pytest.importorskip("pandas")
    rows, labels = load_wine(return_X_y=True, as_frame=True)
    first = MartClassifier(n_estimators=2).fit(rows, labels).model_
    assert MartClassifier(n_estimators=2).fit(rows, labels, init_model=first).n_estimators_ == 4
    assert (
        MartClassifier(n_estimators=2).fit(rows.to_numpy(), labels, init_model=first).n_estimators_
        == 4
    )
    other = pandas.DataFrame(rows[rows.columns[::-1]])
    refused(first, "column 0 is 'proline' here, but 'alcohol' in the model", X=other, y=labels)


def test_weights_undone_in_the_probabilities_are_no_bias_that_is_lost():
    costs = {"class_weight": "balanced", "restore_priors": True}
    part = OLD_Y < 3
    weighted = (
        np.flatnonzero(part)[: np.count_nonzero(part) // 2].tolist()
        + np.flatnonzero(OLD_Y == 1).tolist()
    )
    first = MartClassifier(n_estimators=5, **costs).fit(OLD_X[weighted], OLD_Y[weighted])
    assert first.model_.ensemble.bias.any()
    model = MartClassifier(n_estimators=5, **costs).fit(
        OLD_X[weighted], OLD_Y[weighted], init_model=first.model_
    )
    same = MartClassifier(n_estimators=10, **costs).fit(OLD_X[weighted], OLD_Y[weighted])
    np.testing.assert_allclose(
        model.predict_proba(TEST_X), same.predict_proba(TEST_X), rtol=1e-4, atol=1e-7
    )


@pytest.mark.parametrize("call", ["predict", "calibrate_on", "X_val", "warm_start", "init_model"])
def test_frames_with_categories_and_other_columns_are_refused_by_their_columns(call):
    """Not by the categories, which lie in another place then."""
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(
        {
            "a": np.arange(60.0),
            "b": np.arange(60) % 7,
            "c": np.array(["x", "y", "z"])[np.arange(60) % 3],
        }
    )
    y = np.arange(60) % 3
    params = {"n_estimators": 2, "calibrate": None, "categorical_features": ["c"]}
    model = VectorTreeBoostClassifier(**params).fit(X, y)
    calls = {
        "predict": model.predict,
        "calibrate_on": lambda other: model.calibrate_on(other, y),
        "X_val": lambda other: VectorTreeBoostClassifier(**params).fit(X, y, X_val=other, y_val=y),
        "warm_start": lambda other: model.set_params(warm_start=True, n_estimators=3).fit(other, y),
        "init_model": lambda other: VectorTreeBoostClassifier(n_estimators=2).fit(
            other, y, init_model=model
        ),
    }
    for other in (X[["b", "c"]], X[["c", "b", "a"]], X.assign(more="text")):
        with pytest.raises(ValueError, match="feature names should match|give the same columns"):
            calls[call](other)
    with pytest.raises(ValueError, match=r"3 features, but X has 2|expecting 3 features"):
        calls[call](np.ones((60, 2)))


@pytest.mark.parametrize("name", ["vector-tree", "mcboost", "logitboost", "samme"])
def test_a_warm_start_needs_the_model_of_the_last_fit(name):
    X, y = load_wine(return_X_y=True)
    cls = ALGORITHMS[name]
    changes = {
        "truncated, merged or replaced": lambda model: model.truncate(4),
        "reweighted": lambda model: model.reweighted([1, 2, 3]),
    }
    if name in ("mcboost", "samme"):
        changes["train a new model"] = lambda model: Model.from_bytes(
            model.to_bytes(layout="interval")
        )
    for words, change in changes.items():
        model = cls(n_estimators=8).fit(X, y)
        model.model_ = change(model.model_)
        with pytest.raises(ValueError, match=f"warm_start: .*{words}"):
            model.set_params(warm_start=True, n_estimators=10).fit(X, y)
    if "restore_priors" in cls().get_params():
        model = cls(n_estimators=4, restore_priors=True, class_weight="balanced").fit(X, y)
        model.set_params(warm_start=True, n_estimators=5).fit(X, y)
        model.model_ = model.model_.reweighted([1, 2, 9])
        with pytest.raises(ValueError, match="warm_start: .*reweighted"):
            model.set_params(n_estimators=6).fit(X, y)
    model = cls(n_estimators=8).fit(X, y)
    model.model_ = Model.from_bytes(model.model_.to_bytes())
    assert model.set_params(warm_start=True, n_estimators=10).fit(X, y).model_.n_rounds == 10
