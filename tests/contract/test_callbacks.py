"""Public callbacks, and what a training says while it runs."""

import inspect
import io
import re
import sys
import types
import warnings

import numpy as np
import pytest
import scipy.sparse
from contract.variants import as_published
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_class_weight

import pymcboost.callbacks
from pymcboost import MartClassifier, MCBoostClassifier, VectorTreeBoostClassifier
from pymcboost.callbacks import (
    Callback,
    Checkpoint,
    LearningRateSchedule,
    LivePlot,
    TimeLimit,
    TrainingLoss,
)
from pymcboost.registry import ALGORITHMS, get_class
from pymcboost.training import callbacks as own
from pymcboost.training import estimator as estimators

(MartClassifier,) = as_published(MartClassifier)

X, y = load_digits(return_X_y=True)
X = X[:400].astype(np.float32)
y = y[:400]
X_TRAIN = X[:300]
Y_TRAIN = y[:300]
X_VAL = X[300:]
Y_VAL = y[300:]
VALIDATION = {"X_val": X_VAL, "y_val": Y_VAL}
WITH_RATE = [
    name for name in ALGORITHMS if "learning_rate" in inspect.signature(get_class(name)).parameters
]


class Clock:
    """Time that goes on by a second whenever it is read."""

    def __init__(self, step=1.0):
        self.now = 0.0
        self.step = step

    def monotonic(self):
        self.now += self.step
        return self.now


# -- what is shown ---------------------------------------------------------------------------------------------------


def shown(capsys, estimator, **given):
    estimator.fit(X_TRAIN, Y_TRAIN, **given)
    return capsys.readouterr().err.splitlines()


def test_lines_every_n_rounds_and_after_the_last(capsys):
    model = MCBoostClassifier(n_estimators=25, verbose=10)
    lines = shown(capsys, model, **VALIDATION)
    curve = model.history_["val_log_loss"]
    assert len(lines) == 3
    for line, rounds in zip(lines, (10, 20, 25), strict=True):
        words = f"MCBoostClassifier: round {rounds} of 25, val_log_loss {curve[rounds - 1]:.6g}, "
        assert re.fullmatch(re.escape(words) + r"\d+(\.\d)? s left", line)


def test_true_is_every_round_and_false_none(capsys):
    assert len(shown(capsys, MCBoostClassifier(n_estimators=4, verbose=True))) == 4
    assert not shown(capsys, MCBoostClassifier(n_estimators=4, verbose=False))
    assert not shown(capsys, MCBoostClassifier(n_estimators=4))


def test_seconds_left_follow_the_clock_and_count_the_rounds_of_this_fit(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(own, "time", clock)
    bar = own.progress("P", 40, 10, done=20)
    for _ in range(19):
        clock.now += 2.0
        bar.update()
    # At the 10th round 20 s and the reading's own have passed.
    assert capsys.readouterr().err == "P: round 30 of 40, 21 s left\n"
    bar = own.progress("P", 8, 1, at_most=True)
    clock.now += 0.5
    bar.update(6, {"a": 0.123456789, "b": 2})
    assert (
        capsys.readouterr().err == "P: round 6 of at most 8, a 0.123457, b 2, at most 0.5 s left\n"
    )


def test_trainings_that_may_end_before_say_at_most(capsys):
    model = MCBoostClassifier(n_estimators=3, verbose=1, early_stopping=True)
    assert "round 1 of at most 3, val_log_loss" in shown(capsys, model, **VALIDATION)[0]
    lines = shown(capsys, MCBoostClassifier(n_estimators="auto", n_iter_no_change=5, verbose=5))
    assert lines[0].startswith(
        "MCBoostClassifier, 3 folds: round 5 of at most 2000, mean log_loss "
    )
    assert lines[-1].startswith("MCBoostClassifier: round ")


def test_a_bar_and_no_lines_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    MCBoostClassifier(n_estimators=3, verbose=1).fit(X_TRAIN, Y_TRAIN)
    assert "/3 [" in sys.stderr.getvalue()
    assert "round 1 of" not in sys.stderr.getvalue()


@pytest.mark.parametrize("error", [OSError(32, "Broken pipe"), ValueError("closed")])
def test_a_stream_that_fails_costs_no_training(monkeypatch, error):
    class Broken(io.StringIO):
        def write(self, text):
            raise error

    for stream in (Broken(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        assert MCBoostClassifier(n_estimators=3, verbose=1).fit(X_TRAIN, Y_TRAIN).n_estimators_ == 3


def test_whatever_a_callback_measures_is_kept(tmp_path, pyplot):
    notes = [
        None,
        {"note": np.zeros(2)},
        {"note": "text", "n": 1},
        {"note": None},
        {"note": np.zeros(3)},
    ]

    class Notes(Callback):
        def measure(self, state):
            return notes[state.n_rounds]

    given = {"callbacks": [Notes(), LivePlot(every=0)]}
    model = Checkpoint(tmp_path / "m", 0).fit(
        MartClassifier(n_estimators=5, verbose=1), X_TRAIN, Y_TRAIN, **given
    )
    assert model.history_["note"].shape == (5,)
    np.testing.assert_array_equal(model.history_["note"][4], np.zeros(3))
    np.testing.assert_array_equal(model.history_["n"], [np.nan, np.nan, 1, np.nan, np.nan])
    refitted = Checkpoint(tmp_path / "m", 0).fit(MartClassifier(n_estimators=5), X_TRAIN, Y_TRAIN)
    assert refitted.model_.to_bytes() == model.model_.to_bytes()
    assert {*refitted.history_} == {*model.history_} - {"note"}


def test_callbacks_are_closed_where_a_training_fails_before_its_rounds(tmp_path, pyplot):
    closed = []

    class Hears(Callback):
        def close(self, state):
            closed.append(state)
            assert state.n_rounds == 0, (
                "None has no rounds, and this error does not hide the first one"
            )

    callbacks = [Hears(), TrainingLoss(), LivePlot(), Checkpoint(tmp_path / "m")]
    for options in (
        {"y": Y_TRAIN[1:]},
        {"validation_sets": {"train": (X_VAL, Y_VAL)}},
        {"X_val": X_VAL, "y_val": Y_VAL},
    ):
        estimator = MartClassifier(
            n_estimators=2, scoring="roc_auc" if "X_val" in options else "error"
        )
        with pytest.raises(ValueError):
            estimator.fit(**{"X": X_TRAIN, "y": Y_TRAIN, **options}, callbacks=callbacks)
        assert callbacks[1]._rows is None
    assert len(closed) == 3


def test_callbacks_that_are_no_sequence_are_refused():
    for callbacks in None, Callback():
        with pytest.raises(TypeError, match="callbacks must be a sequence of callbacks, not"):
            MartClassifier(n_estimators=1).fit(X_TRAIN, Y_TRAIN, callbacks=callbacks)


def test_a_callback_that_is_given_twice_is_refused():
    for one in TrainingLoss(), types.SimpleNamespace(after_round=lambda state: None):
        name = type(one).__name__
        with pytest.raises(
            ValueError, match=f"callbacks: one {name} is listed twice; give each object once"
        ):
            MartClassifier(n_estimators=1).fit(
                X_TRAIN, Y_TRAIN, callbacks=iter([one, TimeLimit(9), one])
            )


def test_a_class_of_callbacks_is_refused():
    with pytest.raises(TypeError, match=r"callbacks: TimeLimit is a class; .*TimeLimit\(...\)"):
        MartClassifier(n_estimators=3).fit(X, y, callbacks=[TimeLimit])


def test_a_callback_that_ends_a_training_before_its_first_round_is_named():
    class Never(Callback):
        def before_training(self, state):
            return True

    with pytest.warns(
        UserWarning, match="a callback ended the training before its first round"
    ) as caught:
        model = MartClassifier(n_estimators=3).fit(X, y, callbacks=[Never()])
    assert (model.n_estimators_, len(caught)) == (0, 1)


def test_validation_sets_record_curves_silently(capsys):
    model = MCBoostClassifier(n_estimators=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X_TRAIN, Y_TRAIN, **VALIDATION)
    assert len(model.history_["val_log_loss"]) == model.n_estimators_ == 5
    assert capsys.readouterr() == ("", "")


def test_a_patience_without_early_stopping_warns():
    with pytest.warns(
        UserWarning, match="n_iter_no_change=5 has no effect .* early_stopping=True"
    ) as caught:
        MCBoostClassifier(n_estimators=2, n_iter_no_change=5).fit(X_TRAIN, Y_TRAIN)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MCBoostClassifier(n_estimators=2, n_iter_no_change=20).fit(X_TRAIN, Y_TRAIN)
        MCBoostClassifier(n_estimators=2, n_iter_no_change=5, early_stopping=True).fit(
            X_TRAIN, Y_TRAIN
        )
        MCBoostClassifier(n_estimators="auto", n_iter_no_change=2).fit(X_TRAIN[:90], Y_TRAIN[:90])


# -- the training rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.part(2)
@pytest.mark.families("name")
def test_curves_of_the_training_rows_are_those_of_the_model(name):
    estimator = get_class(name)(n_estimators=12, random_state=0)
    plain = get_class(name)(n_estimators=12, random_state=0).fit(X_TRAIN, Y_TRAIN)
    model = estimator.fit(X_TRAIN, Y_TRAIN, callbacks=[TrainingLoss(["error"])])
    assert model.model_.to_bytes() == plain.model_.to_bytes()
    assert "train_error" not in plain.history_
    curve = model.history_["train_error"]
    assert len(curve) == model.n_estimators_
    assert curve[-1] == pytest.approx(np.mean(model.predict(X_TRAIN) != Y_TRAIN))


@pytest.mark.parametrize("name", ["multiboost", "multiboost-cw"])
def test_curves_of_the_training_rows_beside_a_validation_set(name):
    curves = []
    for n_val in (0, 20, len(X_TRAIN)):
        model = get_class(name)(n_estimators=4, random_state=0)
        held = {"X_val": X[-n_val:], "y_val": y[-n_val:]} if n_val else {}
        model.fit(X_TRAIN, Y_TRAIN, **held, callbacks=[TrainingLoss()])
        assert not held or len(model.history_["val_log_loss"]) == model.n_estimators_
        curves.append(model.history_["train_log_loss"].tolist())
    assert curves[0] == curves[1] == curves[2]


def test_the_training_loss_counts_weights_and_not_the_rows_held_out():
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = MartClassifier(n_estimators=5, class_weight="balanced", random_state=0)
    model.fit(X, y, sample_weight=weight, callbacks=[TrainingLoss()])
    full = weight * compute_class_weight("balanced", classes=model.classes_, y=y[weight > 0])[y]
    loss = log_loss(y, model.predict_proba(X), sample_weight=full)
    assert model.history_["train_log_loss"][-1] == pytest.approx(loss)
    assert loss != pytest.approx(log_loss(y, model.predict_proba(X)))
    seen = []

    class Looks(Callback):
        def take_in(self, dataset):
            seen.append(dataset.weight > 0)

    model = MartClassifier(n_estimators=4, early_stopping=True, n_iter_no_change=4, random_state=0)
    model.fit(X, y, callbacks=[Looks(), TrainingLoss("log_loss")])
    assert 0.8 < seen[0].mean() < 0.95
    expected = log_loss(y[seen[0]], model.predict_proba(X[seen[0]]))
    assert model.history_["train_log_loss"][-1] == pytest.approx(expected)

    def count(estimator, rows, labels):
        return float(len(labels))

    model.fit(X, y, callbacks=[TrainingLoss(count)])
    assert model.history_["train_score"][-1] == seen[0].sum()


def test_the_training_loss_of_sparse_rows_and_of_scorers():
    model = MartClassifier(n_estimators=4)
    model.fit(scipy.sparse.csr_array(X), y, callbacks=[TrainingLoss(["log_loss", "accuracy"])])
    assert model.history_["train_log_loss"][-1] == pytest.approx(
        log_loss(y, model.predict_proba(X))
    )
    assert model.history_["train_accuracy"][-1] == pytest.approx(model.score(X, y))


def test_rows_go_when_a_training_ends():
    tracker = TrainingLoss()
    MartClassifier(n_estimators=2).fit(X, y, callbacks=[tracker])
    assert not any(
        isinstance(value, np.ndarray) or hasattr(value, "X") for value in vars(tracker).values()
    )


def test_a_set_of_the_same_name_is_refused():
    sets = {"validation_sets": {"val_calibrated": (X, y)}, **VALIDATION}
    with pytest.raises(
        ValueError,
        match="set 'val_calibrated' would be 'val_calibrated_log_loss' in the .* rename the set",
    ):
        MartClassifier(n_estimators=2, early_stopping=True, calibrate="temperature").fit(
            X, y, **sets
        )
    assert MartClassifier(n_estimators=2).fit(X, y, **sets).n_estimators_ == 2
    with pytest.raises(ValueError, match="two metrics would .*'score', 'error', 'score'"):
        TrainingLoss([lambda *_: 0.0, "error", lambda *_: 1.0])
    with pytest.raises(ValueError, match="validation_sets has a set named 'train'"):
        MartClassifier(n_estimators=2).fit(
            X, y, validation_sets={"train": (X, y)}, callbacks=[TrainingLoss()]
        )


def test_rounds_that_were_not_tracked_are_nan(tmp_path):
    model = MartClassifier(n_estimators=3, warm_start=True).fit(X, y)
    model.set_params(n_estimators=5).fit(X, y, callbacks=[TrainingLoss("error")])
    assert np.isnan(model.history_["train_error"]).tolist() == [True] * 3 + [False] * 2
    model.set_params(n_estimators=6).fit(X, y)
    assert np.isnan(model.history_["train_error"]).tolist() == [True] * 3 + [False] * 2 + [True]
    seen = []

    class Looks:
        def after_round(self, state):
            seen.append(state.metrics())

    model.set_params(n_estimators=7).fit(X, y, callbacks=[Looks()])
    assert seen == [{}]
    # A checkpoint of such rounds can be gone on from once more.
    path = tmp_path / "part"
    for rounds, more in ((2, [TrainingLoss()]), (4, []), (6, [])):
        MartClassifier(n_estimators=rounds, random_state=0).fit(
            X, y, callbacks=[Checkpoint(path, 0), *more]
        )
    same = MartClassifier(n_estimators=7, random_state=0).fit(X, y, callbacks=[Checkpoint(path, 0)])
    assert np.isnan(same.history_["train_log_loss"]).tolist() == [False] * 2 + [True] * 5


def test_weights_that_a_scorer_leaves_out_are_named_where_fit_is_called():
    given = {
        "scoring": lambda estimator, X, y: 0.5,
        "class_weight": "balanced",
        "calibrate": None,
        "cv": 2,
    }
    for params, options in (
        ({"n_estimators": 2}, VALIDATION),
        ({"n_estimators": 2}, {"callbacks": [TrainingLoss()]}),
        ({"n_estimators": 2, "early_stopping": True}, {}),
        ({"n_estimators": "auto", "n_iter_no_change": 1}, {}),
    ):
        with pytest.warns(UserWarning, match="does not accept sample_weight") as caught:
            MartClassifier(**given, **params).fit(X_TRAIN, Y_TRAIN, **options)
        assert {one.filename for one in caught} == {__file__}


# -- time and rates --------------------------------------------------------------------------------------------------


def test_a_time_limit_ends_the_training_after_the_round(monkeypatch):
    monkeypatch.setattr(pymcboost.callbacks, "time", Clock())
    model = MCBoostClassifier(n_estimators=50).fit(X, y, callbacks=[TimeLimit(3.5)])
    assert (model.n_estimators_, model._ended) == (4, "the time limit of 3.5 s was reached")
    limit = TimeLimit(0)
    assert MCBoostClassifier(n_estimators=50).fit(X, y, callbacks=[limit]).n_estimators_ == 1
    for wrong in (-1, float("nan"), None, "9", [1.0, 2.0]):
        with pytest.raises(ValueError, match="TimeLimit: seconds=.* is not allowed"):
            TimeLimit(wrong)


def test_folds_of_the_calibration_have_the_rounds_of_the_model(monkeypatch):
    asked = []

    def of_folds(estimator, inputs, seed, rounds, **named):
        asked.append(rounds)
        return 1.0, None

    monkeypatch.setattr(estimators.calibration, "temperature_of_folds", of_folds)
    monkeypatch.setattr(pymcboost.callbacks, "time", Clock())
    MartClassifier(n_estimators=90, calibrate="temperature").fit(X, y, callbacks=[TimeLimit(2.5)])
    MartClassifier(n_estimators=9, calibrate="temperature").fit(X, y)
    assert asked == [3, 9]


@pytest.mark.parametrize("name", WITH_RATE)
def test_a_schedule_sets_the_rate_of_every_round(name):
    make = get_class(name)

    def fit(rounds, rate=None, more=(), **params):
        estimator = make(n_estimators=rounds, random_state=0, calibrate=None, **params)
        return estimator.fit(
            X, y, callbacks=[*more, *([] if rate is None else [LearningRateSchedule(rate)])]
        )

    constant = fit(4, lambda t: np.where(t < 9, 0.3, 0.1)).model_
    same = fit(4, learning_rate=0.3).model_
    np.testing.assert_array_equal(constant.raw_scores(X), same.raw_scores(X))
    two = fit(4, lambda t: (0.3, 0.3, 0.05, 0.05)[t]).model_
    np.testing.assert_array_equal(two.truncate(2).raw_scores(X), same.truncate(2).raw_scores(X))
    assert np.abs(two.raw_scores(X) - same.raw_scores(X)).max() > 1e-3
    assert two.meta["params"]["learning_rate"] == make().learning_rate


@pytest.mark.parametrize("name", ["vector-tree", "mart"])
def test_a_schedule_goes_on_where_a_training_was_stopped(name, tmp_path):
    schedule = LearningRateSchedule(lambda t: 0.4 / (1 + t))
    make = get_class(name)
    whole = (
        make(n_estimators=6, random_state=0, calibrate=None).fit(X, y, callbacks=[schedule]).model_
    )
    for rounds in (3, 6):
        model = make(n_estimators=rounds, random_state=0, calibrate=None)
        model.fit(X, y, callbacks=[Checkpoint(tmp_path / "part", 0), schedule])
    assert model.model_.to_bytes() == whole.to_bytes()
    warm = make(n_estimators=3, random_state=0, calibrate=None, warm_start=True).fit(
        X, y, callbacks=[schedule]
    )
    warm.set_params(n_estimators=6).fit(X, y, callbacks=[schedule])
    np.testing.assert_allclose(warm.model_.raw_scores(X), whole.raw_scores(X), rtol=1e-5, atol=1e-6)


def test_a_schedule_is_not_asked_for_rounds_that_are_not_trained():
    schedule = LearningRateSchedule([0.1, 0.2].__getitem__)
    warm = MartClassifier(n_estimators=2, calibrate=None, warm_start=True).fit(
        X, y, callbacks=[schedule]
    )
    with pytest.warns(UserWarning, match="nothing to add"):
        warm.fit(X, y, callbacks=[schedule])


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - set(WITH_RATE)))
def test_algorithms_without_a_rate_are_refused_by_name(name):
    cls = get_class(name)
    with pytest.raises(ValueError, match=f"{cls.__name__} has no learning rate"):
        cls(n_estimators=2).fit(X, y, callbacks=[LearningRateSchedule(lambda t: 0.1)])


def test_what_does_not_go_with_a_schedule_is_refused():
    schedule = [LearningRateSchedule(lambda t: 0.1)]
    with pytest.raises(
        ValueError, match='"auto" finds the number of rounds at one constant learning rate'
    ):
        MartClassifier(n_estimators="auto").fit(X, y, callbacks=schedule)
    with pytest.raises(ValueError, match="training with fixed_step has no learning rate"):
        MCBoostClassifier(fixed_step=0.1).fit(X, y, callbacks=schedule)
    with pytest.warns(
        UserWarning, match="the temperature comes from cross-validation models"
    ) as caught:
        MartClassifier(n_estimators=2, calibrate="temperature").fit(X, y, callbacks=schedule)
    assert caught[0].filename == __file__
    with pytest.warns(
        UserWarning, match="the temperature comes from cross-validation models"
    ):  # too few rows are held out
        MartClassifier(n_estimators=2, early_stopping=True, calibrate="temperature").fit(
            X, y, callbacks=schedule
        )
    labels = {"n_estimators": 2, "loss": "logistic", "random_state": 0}
    Y = np.eye(10, dtype=int)[y]
    message = "the thresholds of labels .* give X_val and y_val, or set decision_threshold=0.5"
    with pytest.warns(UserWarning, match=message):
        VectorTreeBoostClassifier(decision_threshold="f1", calibrate=None, **labels).fit(
            X, Y, callbacks=schedule
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VectorTreeBoostClassifier(**labels).fit(X, Y, callbacks=schedule)
        VectorTreeBoostClassifier(n_estimators=2).fit(
            X_TRAIN, Y_TRAIN, **VALIDATION, callbacks=schedule
        )
    for wrong in (0, 1.5, float("nan"), None, "0.1", np.full(3, 0.1)):
        with pytest.raises(
            ValueError, match=r"the rate of round 1 is .*; it must be above 0 and at most 1"
        ):
            MartClassifier(n_estimators=3).fit(
                X, y, callbacks=[LearningRateSchedule([0.5, wrong].__getitem__)]
            )
    with pytest.raises(TypeError, match="is not callable"):
        LearningRateSchedule(0.1)


# -- plots -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pyplot(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")


def test_a_live_plot_has_the_whole_curves(pyplot):
    plot = LivePlot(every=1e9)
    model = MartClassifier(n_estimators=7).fit(X_TRAIN, Y_TRAIN, **VALIDATION, callbacks=[plot])
    (line,) = plot.axes_.lines
    assert line.get_label() == "val_log_loss"
    np.testing.assert_array_equal(
        line.get_xydata(), np.column_stack([range(1, 8), model.history_["val_log_loss"]])
    )
    axes = pyplot.figure().add_subplot()
    MartClassifier(n_estimators=2).fit(X, y, callbacks=[LivePlot(["missing"], axes=axes)])
    assert [line.get_label() for line in axes.lines] == ["missing"]
    MartClassifier(n_estimators=1).fit(
        X_TRAIN, Y_TRAIN, **VALIDATION, callbacks=[LivePlot(axes=axes)]
    )
    assert axes.lines[0].get_marker() == "o"  # a line of one point is not seen
    names = dict.fromkeys(("$a^$", "_b"), (X_VAL, Y_VAL))
    MartClassifier(n_estimators=1).fit(
        X_TRAIN, Y_TRAIN, validation_sets=names, callbacks=[LivePlot(axes=axes)]
    )
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        r"\$a^\$_log_loss",
        " _b_log_loss",
    ]
    assert all(float(round).is_integer() for round in axes.get_xticks())


def test_a_live_plot_is_drawn_when_it_is_time(pyplot, monkeypatch):
    monkeypatch.setattr(pymcboost.callbacks, "time", Clock())
    drawn = []

    def draw(self, state):
        drawn.append(state.n_rounds)
        self._drawn = state.n_rounds

    monkeypatch.setattr(LivePlot, "_draw", draw)
    MartClassifier(n_estimators=10).fit(X, y, callbacks=[LivePlot(every=5.5)])
    assert drawn == [1, 7, 10]


def test_a_live_plot_warns_of_columns_that_never_come(pyplot):
    plots = (
        LivePlot(["val_log_loss", "train_error", "other"], every=0),
        LivePlot("missing", every=0),
    )
    message = "LivePlot: the history has no curve 'val_log_loss', 'other'; it has "
    with pytest.warns(UserWarning, match=message) as caught:
        MartClassifier(n_estimators=2).fit(X, y, callbacks=[*plots, TrainingLoss("error")])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [[line.get_label() for line in plot.axes_.lines] for plot in plots] == [
        ["train_error"],
        ["missing"],
    ]


def test_a_notebook_shows_one_picture_and_replaces_it(pyplot, monkeypatch):
    shown = []

    class Handle:
        def update(self, figure):
            shown.append("update")

    def display(figure, display_id):
        shown.append("display")
        return Handle()

    ipython, of_ipython = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=None)
    ipython.version_info = (8, 24)  # the first canvas of a process asks for it
    of_ipython.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", of_ipython)
    MartClassifier(n_estimators=3).fit(
        X_TRAIN, Y_TRAIN, **VALIDATION, callbacks=[LivePlot(every=0)]
    )
    assert shown == ["display", "update", "update"]
    assert not pyplot.get_fignums()


def test_a_live_plot_without_matplotlib_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="LivePlot needs matplotlib"):
        MartClassifier(n_estimators=3).fit(X, y, callbacks=[LivePlot()])


def test_callbacks_of_several_trainings_at_a_time():
    """What a search gives to all its fits is one object."""
    shared = TrainingLoss()
    time_limit = TimeLimit(1e6)
    expected = (
        MCBoostClassifier(n_estimators=3).fit(X_TRAIN, Y_TRAIN, callbacks=[TrainingLoss()]).history_
    )

    class Trains:
        def after_round(self, state):
            if state.n_rounds == 2:
                MCBoostClassifier(n_estimators=1).fit(
                    X_TRAIN[::2], Y_TRAIN[::2], callbacks=[shared, time_limit]
                )

    actual = (
        MCBoostClassifier(n_estimators=3)
        .fit(X_TRAIN, Y_TRAIN, callbacks=[shared, time_limit, Trains()])
        .history_
    )
    np.testing.assert_array_equal(actual["train_log_loss"], expected["train_log_loss"])
    assert not hasattr(time_limit, "_end")

    class Mine(TrainingLoss):
        pass

    one = Mine()
    assert own.as_callback(one) is one
