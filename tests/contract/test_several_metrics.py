"""Several metrics in one training: the first decides, and the history has all."""

import json
import pickle
import re

import numpy as np
import pandas
import pytest
from contract.variants import ALGORITHMS, all_rows
from divided.threads import run
from sklearn.base import clone
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV

from pymcboost import (
    AdaBoostMHClassifier,
    Checkpoint,
    HingeBoostOCClassifier,
    MartClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.callbacks import TrainingLoss
from pymcboost.training import metrics

THREE = ["log_loss", "balanced_error", "auc_ovr"]


def some_data(m=240, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, m)
    return rng.normal(size=(m, 5)) + y[:, None] * np.random.default_rng(9).normal(size=5), y


X, Y = some_data()
X_VAL, Y_VAL = some_data(120, seed=1)
VALIDATION = {"X_val": X_VAL, "y_val": Y_VAL, "validation_sets": {"seen": (X[:50], Y[:50])}}


def scripted(*values):
    """A scorer that says these values, one after the other, and then the last for ever."""
    left = list(values)
    return lambda model, X, y: left.pop(0) if len(left) > 1 else left[0]


def same_history(one, other):
    of_sets = [
        [name for name in history if name.startswith(("val", "seen"))] for history in (one, other)
    ]
    assert of_sets[0] == of_sets[1] and one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])


# -- the history -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.part(2)
@pytest.mark.families("name")
def test_each_metric_has_the_values_that_it_has_alone_and_the_first_decides(name):
    cls = ALGORITHMS[name]
    first = "log_loss" if cls.booster.link != "none" else "auc_ovr"
    names = [first, "error", "accuracy"]
    how = {
        "n_estimators": 8,
        "early_stopping": True,
        "n_iter_no_change": 3,
        "random_state": 0,
        **all_rows(cls),
    }
    model = cls(**how, scoring=names).fit(X, Y, **VALIDATION)
    alone = cls(**how, scoring=first).fit(X, Y, **VALIDATION)
    assert model.n_estimators_ == alone.n_estimators_
    np.testing.assert_array_equal(model.decision_function(X), alone.decision_function(X))
    np.testing.assert_array_equal(model.history_[f"val_{first}"], alone.history_[f"val_{first}"])
    assert {f"{of}_{metric}" for of in ("val", "seen") for metric in names} <= model.history_.keys()
    for metric in names[1:]:
        rounds = {"n_estimators": model.n_estimators_, "random_state": 0, **all_rows(cls)}
        other = cls(**rounds, scoring=metric).fit(X, Y, **VALIDATION)
        for of in "val", "seen":
            column = f"{of}_{metric}"
            np.testing.assert_array_equal(
                model.history_[column], other.history_[column], err_msg=column
            )
    np.testing.assert_allclose(model.history_["val_accuracy"], 1 - model.history_["val_error"])


@pytest.mark.parametrize("given", [("error",), ["error"], {"error": "error"}])
def test_one_metric_in_a_list_is_that_metric(given):
    alone = MartClassifier(random_state=0, n_estimators=3, scoring="error").fit(X, Y, **VALIDATION)
    model = MartClassifier(random_state=0, n_estimators=3, scoring=given).fit(X, Y, **VALIDATION)
    same_history(model.history_, alone.history_)


def test_the_first_metric_ends_the_training_whatever_the_others_say():
    up = range(1, 30)
    down = [0.5, 0.4, 0.3, 0.2]
    how = {"n_estimators": 20, "early_stopping": True, "n_iter_no_change": 2}
    model = MartClassifier(**how, scoring={"down": scripted(*down), "up": scripted(*up)})
    model.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert (
        model.n_estimators_ == 1
        and model._ended == "the validation down did not improve for 2 rounds"
    )
    model = MartClassifier(**how, scoring={"up": scripted(*up), "down": scripted(*down)})
    model.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert model.n_estimators_ == 20
    assert model.history_["val_up"].tolist() == [*range(1, 21)]
    assert model.history_["val_down"].tolist() == [0.5, 0.4, 0.3] + [0.2] * 17


@pytest.mark.parametrize(
    ("scoring", "follows"),
    [(["log_loss", "error"], True), ({"nll": "log_loss"}, True), (["error", "log_loss"], False)],
)
def test_the_calibrated_log_loss_follows_where_the_log_loss_decides(scoring, follows):
    model = VectorTreeBoostClassifier(
        n_estimators=4, early_stopping=True, scoring=scoring, random_state=0
    )
    assert (
        "val_calibrated_log_loss" in model.fit(X, Y, X_val=X_VAL, y_val=Y_VAL).history_
    ) is follows


def test_rows_with_any_number_of_labels():
    several = (X[:, :3] > 0).astype(int)
    for cls, options in (
        (VectorTreeBoostClassifier, {"loss": "logistic"}),
        (AdaBoostMHClassifier, {}),
    ):
        names = ["hamming_loss", "f1_micro", "precision_at_1"]
        model = cls(n_estimators=4, scoring=names, random_state=0, **options)
        model.fit(X, several, X_val=X, y_val=several)
        for name in names:
            alone = cls(n_estimators=4, scoring=name, random_state=0, **options)
            alone.fit(X, several, X_val=X, y_val=several)
            np.testing.assert_array_equal(
                model.history_[f"val_{name}"], alone.history_[f"val_{name}"]
            )


def test_functions_of_a_list_see_the_rows_as_they_were_given():
    frame = pandas.DataFrame(X, columns=list("abcde"))
    seen = []

    def look(model, rows, y):
        seen.append(list(rows.columns))
        return 0.5

    scoring = ["log_loss", make_scorer(accuracy_score), look]
    with pytest.raises(ValueError, match=r"scoring\[1\] and scoring\[2\] would both be 'score'"):
        MartClassifier(scoring=scoring).fit(frame, Y)
    named = {"nll": "log_loss", "right": scoring[1], "look": look}
    for options in {"X_val": frame, "y_val": Y}, {"callbacks": [TrainingLoss()]}:
        MartClassifier(random_state=0, n_estimators=1, scoring=named).fit(frame, Y, **options)
    MartClassifier(random_state=0, n_estimators=1, scoring=named, early_stopping=True).fit(frame, Y)
    assert seen == [list("abcde")] * 3


def test_metrics_share_one_softmax(monkeypatch):
    count = []
    original = metrics.probabilities
    monkeypatch.setattr(
        metrics, "probabilities", lambda *given: count.append(1) or original(*given)
    )

    def spoils(model, X, y):
        probabilities = model.predict_proba(X)
        probabilities[:] = 1.0
        return 0.0

    scoring = {
        "spoils": spoils,
        "auc_ovr": "auc_ovr",
        "brier": "neg_brier_score",
        "nll": "neg_log_loss",
    }
    model = MartClassifier(random_state=0, n_estimators=3, scoring=scoring).fit(X, Y, **VALIDATION)
    assert len(count) == 2 * 3  # sets and rounds
    for name in "auc_ovr", "neg_brier_score", "neg_log_loss":
        alone = MartClassifier(random_state=0, n_estimators=3, scoring=name).fit(X, Y, **VALIDATION)
        column = {"neg_brier_score": "val_brier", "neg_log_loss": "val_nll"}.get(
            name, f"val_{name}"
        )
        np.testing.assert_array_equal(model.history_[column], alone.history_[f"val_{name}"])


# -- folds, callbacks, trainings that go on ----------------------------------------------------------------------------


@pytest.mark.parametrize("calibrate", [None, "temperature"])
def test_the_first_metric_finds_the_rounds_and_folds_have_the_curves_of_all(calibrate):
    how = {"n_estimators": "auto", "n_iter_no_change": 3, "random_state": 0, "calibrate": calibrate}
    how["max_leaf_nodes"] = 4
    model = MartClassifier(**how, scoring=THREE).fit(X, Y)
    alone = [MartClassifier(**how, scoring=name).fit(X, Y) for name in THREE]
    cv_results = model.cv_results_
    assert model.n_estimators_ == alone[0].n_estimators_
    for name, value in alone[0].cv_results_.items():
        np.testing.assert_array_equal(cv_results[name], value)
    assert cv_results.keys() - alone[0].cv_results_.keys() == {
        f"{of}_{name}" for of in ("mean", "folds") for name in THREE[1:]
    }
    for name, other in zip(THREE[1:], alone[1:], strict=True):
        T = min(len(cv_results["rounds"]), len(other.cv_results_["rounds"]))
        assert T > 5 and cv_results[f"folds_{name}"].shape == (3, len(cv_results["rounds"]))
        np.testing.assert_array_equal(
            cv_results[f"folds_{name}"][:, :T], other.cv_results_["folds"][:, :T]
        )
        np.testing.assert_array_equal(
            cv_results[f"mean_{name}"], cv_results[f"folds_{name}"].mean(axis=0)
        )


@pytest.mark.parametrize("scoring", [THREE, {"nll": "log_loss", "right": "accuracy"}])
@pytest.mark.parametrize("rounds", [12, "auto"])
@pytest.mark.part(3)
def test_a_checkpoint_gives_the_history_of_a_training_without_a_stop(rounds, scoring, tmp_path):
    def model(scoring=scoring):
        how = {"early_stopping": True} if rounds == 12 else {"n_iter_no_change": 2, "cv": 2}
        how |= {"max_leaf_nodes": 4, "learning_rate": 0.3}
        return MartClassifier(n_estimators=rounds, scoring=scoring, random_state=3, **how)

    class Stops:
        def after_round(self, state):
            if state.n_rounds == 3:
                raise KeyboardInterrupt

    uninterrupted = model().fit(X, Y, **VALIDATION)
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, Y, **VALIDATION, callbacks=[Checkpoint(tmp_path / "m", 0), Stops()])
    for other in (
        "log_loss",
        scoring[::-1] if isinstance(scoring, list) else dict(reversed([*scoring.items()])),
    ):
        with pytest.raises(
            ValueError, match="is the checkpoint of a different training: scoring was"
        ):
            Checkpoint(tmp_path / "m", 0).fit(model(other), X, Y, **VALIDATION)
    checkpoint = Checkpoint(tmp_path / "m", 0)
    refitted = checkpoint.fit(model(), X, Y, **VALIDATION)
    assert checkpoint.resumed == 3
    same_history(refitted.history_, uninterrupted.history_)
    assert refitted.model_.to_bytes() == uninterrupted.model_.to_bytes()
    if rounds == "auto":
        same_history(refitted.cv_results_, uninterrupted.cv_results_)


def test_warm_start_with_other_metrics():
    model = MartClassifier(
        random_state=0, n_estimators=2, warm_start=True, scoring=["log_loss", "error"]
    ).fit(X, Y, **VALIDATION)
    model.set_params(n_estimators=4, scoring=["auc_ovr", "error"]).fit(X, Y, **VALIDATION)
    uninterrupted = MartClassifier(
        random_state=0, n_estimators=4, scoring=["error", "auc_ovr"]
    ).fit(X, Y, **VALIDATION)
    assert np.isnan(model.history_["val_log_loss"]).tolist() == [False] * 2 + [True] * 2
    assert np.isnan(model.history_["val_auc_ovr"]).tolist() == [True] * 2 + [False] * 2
    np.testing.assert_array_equal(model.history_["val_error"], uninterrupted.history_["val_error"])
    np.testing.assert_array_equal(
        model.history_["seen_auc_ovr"][2:], uninterrupted.history_["seen_auc_ovr"][2:]
    )


def test_callbacks_and_lines_of_progress_have_all_metrics(capsys, monkeypatch):
    seen = []

    class Prints:
        def after_round(self, state):
            seen.append(state.metrics())

    model = MCBoostClassifier(random_state=0, n_estimators=2, scoring=THREE, verbose=1).fit(
        X, Y, **VALIDATION, callbacks=[Prints()]
    )
    order = [f"{of}_{name}" for of in ("val", "seen") for name in THREE]
    assert [[*one] for one in seen] == [order] * 2
    assert seen[1] == {name: model.history_[name][1] for name in order}
    said = ", ".join(f"{name} {value:.6g}" for name, value in seen[0].items())
    assert f"MCBoostClassifier: round 1 of 2, {said}, " in capsys.readouterr().err
    MCBoostClassifier(
        random_state=0, n_estimators="auto", scoring=THREE, verbose=1, n_iter_no_change=1
    ).fit(X, Y)
    assert re.search(
        r"3 folds: round 1 of at most 2000, mean log_loss \S+, mean balanced_error \S+, mean auc_ovr \S+, at",
        capsys.readouterr().err,
    )


def test_the_training_loss_has_the_metrics_of_the_estimator_or_its_own():
    model = MartClassifier(random_state=0, n_estimators=2, scoring=THREE, calibrate=None)
    model.fit(X, Y, validation_sets={"same": (X, Y)}, callbacks=[TrainingLoss()])
    for name in THREE:
        np.testing.assert_allclose(model.history_[f"train_{name}"], model.history_[f"same_{name}"])
    model.fit(X, Y, callbacks=[TrainingLoss({"right": "accuracy", "wrong": "error"})])
    np.testing.assert_allclose(model.history_["train_right"], 1 - model.history_["train_wrong"])
    for empty in [], {}:
        with pytest.raises(
            ValueError, match="TrainingLoss: scoring is empty; give one metric or more, as in"
        ):
            TrainingLoss(empty)


def test_workers_have_the_history_of_one(monkeypatch):
    how = {
        "n_estimators": "auto",
        "n_iter_no_change": 2,
        "cv": 2,
        "random_state": 0,
        "calibrate": None,
        "max_leaf_nodes": 4,
        "learning_rate": 0.5,
    }

    def fit(workers, scoring=THREE):
        part = slice(workers.rank, None, workers.size)
        model = VectorTreeBoostClassifier(**how, scoring=scoring)
        return model.fit(X[part], Y[part], comm=workers)

    one, first, second = (part for size in (1, 2) for part in run(size, fit))
    for model in first, second:
        assert (
            model.cv_results_.keys()
            == one.cv_results_.keys()
            >= {"mean_auc_ovr", "folds_balanced_error"}
        )
        same_history(model.cv_results_, first.cv_results_)
    for error in run(2, lambda workers: fit(workers, ["log_loss", "accuracy"])):
        assert "does not support scoring=['log_loss', 'accuracy'], which needs all rows" in str(
            error
        )


# -- refusals ----------------------------------------------------------------------------------------------------------

ALLOWED = r" is not allowed; it must be one of 'log_loss', 'error', 'balanced_error', 'auc_ovr', .*or a callable"


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ([], r"scoring=\[\] is empty; give at least one value, as in \['log_loss', 'error'\]$"),
        ({}, r"scoring=\{\} is empty; give at least one value, as in \['log_loss', 'error'\]$"),
        (
            ["error", "auc_ovr", "error"],
            r"scoring=\['error', 'auc_ovr', 'error'\] has 'error' twice; give each name once",
        ),
        (["log_loss", "logloss"], r"scoring\[1\]='logloss'" + ALLOWED),
        (["log_loss", 3], r"scoring\[1\]=3" + ALLOWED),
        ((None,), r"scoring\[0\]=None" + ALLOWED),
        (["log_loss", ["error"]], r"scoring\[1\]=\['error'\]" + ALLOWED),
        ({"nll": "logloss"}, r"scoring\['nll'\]='logloss'" + ALLOWED),
        ({"nll": {"a": "error"}}, r"scoring\['nll'\]=\{'a': 'error'\}" + ALLOWED),
        (
            {1: "error"},
            "scoring has the key 1, which is not a valid name; use a string of up to 200 printable characters",
        ),
        ({"": "error"}, "scoring has the key '', which is not a valid name"),
        ({"a\n": "error"}, r"scoring has the key 'a\\n', which is not a valid name"),
        (
            [accuracy_score, make_scorer(accuracy_score)],
            r"scoring\[0\] and scoring\[1\] would both be 'score' in the history; give them names in a dict, as in",
        ),
        ({"error", "log_loss"}, "scoring={.*}" + ALLOWED + ", or a list or dict of these"),
        (np.array(["error"]), "scoring=array.*" + ALLOWED + ", or a list or dict of these"),
    ],
)
def test_what_names_no_metrics_is_refused(scoring, message):
    with pytest.raises(ValueError, match="MartClassifier: " + message):
        MartClassifier(scoring=scoring).fit(X, Y)


def test_every_metric_must_suit_the_model():
    with pytest.raises(ValueError, match="scoring='log_loss' needs probabilities, .* use 'error'"):
        HingeBoostOCClassifier(scoring=["error", "log_loss"]).fit(X, Y, X_val=X, y_val=Y)
    with pytest.raises(ValueError, match="scoring='hamming_loss' works only with multi-label rows"):
        VectorTreeBoostClassifier(scoring=["error", "hamming_loss"]).fit(X, Y, X_val=X, y_val=Y)
    one = Y == 1
    with pytest.raises(
        ValueError, match="'val' has rows of one class only, so auc_ovr has no value"
    ):
        MartClassifier(scoring={"loss": "log_loss", "area": "auc_ovr"}).fit(
            X, Y, X_val=X[one], y_val=Y[one]
        )


@pytest.mark.parametrize(
    ("sets", "scoring", "metric", "curve"),
    [
        ({"val_balanced": (X, Y)}, ["balanced_error", "error"], "error", "val_balanced_error"),
        ({"n": (X, Y)}, {"leaves": "error"}, "leaves", "n_leaves"),
    ],
)
def test_two_curves_of_one_name_are_refused(sets, scoring, metric, curve):
    name = next(iter(sets))
    message = f"metric '{metric}' of the validation set '{name}' would be '{curve}' in the history, .* rename the set"
    with pytest.raises(ValueError, match=message):
        VectorTreeBoostClassifier(scoring=scoring).fit(X, Y, X_val=X, y_val=Y, validation_sets=sets)


def test_curves_of_training_rows_must_not_have_the_names_of_others():
    model = MartClassifier(random_state=0, n_estimators=1, scoring="error")
    with pytest.raises(
        ValueError,
        match="TrainingLoss: 'train_a_error' is already a curve of the validation set 'train_a'",
    ):
        model.fit(
            X,
            Y,
            validation_sets={"train_a": (X, Y)},
            callbacks=[TrainingLoss({"a_error": "log_loss"})],
        )


# -- what scikit-learn, files and pictures make of it ------------------------------------------------------------------


@pytest.mark.parametrize(
    "scoring", [THREE, tuple(THREE), {"nll": "log_loss", "right": make_scorer(accuracy_score)}]
)
def test_estimators_are_cloned_pickled_and_searched(scoring):
    model = MartClassifier(random_state=0, n_estimators=2, scoring=scoring)
    assert model.get_params()["scoring"] is scoring
    same = clone(model)
    assert type(same.scoring) is type(scoring) and list(same.scoring) == list(scoring)
    first = pickle.loads(pickle.dumps(same.fit(X, Y, **VALIDATION)))
    same_history(first.history_, same.history_)
    search = GridSearchCV(model, {"scoring": ["error", scoring], "n_estimators": [1, 2]}, cv=2).fit(
        X, Y
    )
    assert len(search.cv_results_["params"]) == 4 and "scoring=" in repr(model)


@pytest.mark.parametrize(
    ("scoring", "says"),
    [
        (("log_loss", "error"), ["log_loss", "error"]),
        ({"nll": "log_loss", "right": "accuracy"}, [["nll", "log_loss"], ["right", "accuracy"]]),
    ],
)
def test_the_model_file_says_which_metrics_there_were(scoring, says, tmp_path):
    model = MartClassifier(random_state=0, n_estimators=2, scoring=scoring).fit(X, Y)
    model.model_.save(tmp_path / "m.mcb")
    assert json.loads(json.dumps(load_model(tmp_path / "m.mcb").meta))["params"]["scoring"] == says


def test_plots_draw_the_metric_that_is_asked_for():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from pymcboost.inspection import plot_history

    model = MartClassifier(
        random_state=0, n_estimators=2, scoring=["error", "balanced_error", "auc_ovr"]
    ).fit(X, Y, **VALIDATION)

    def labels(**how):
        ax = plot_history(model, **how)
        pyplot.close(ax.figure)
        return [line.get_label() for line in ax.lines]

    assert labels() == ["val error", "seen error"]
    assert labels(metric="balanced_error") == ["val balanced error", "seen balanced error"]
    assert labels(curves=["val_error", "val_auc_ovr"]) == ["val error", "val auc ovr"]
    with pytest.raises(
        ValueError,
        match="no metric 'f1' in this training; the metrics are 'error', 'balanced_error', 'auc_ovr'",
    ):
        plot_history(model, metric="f1")
    with pytest.raises(ValueError, match="cannot be used together"):
        plot_history(model, metric="error", curves=["val_error"])
