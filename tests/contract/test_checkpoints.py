"""Trainings that were stopped and go on from a checkpoint give the same bytes as those without a stop."""

import base64
import io
import os
import pickle
import signal
import time
import tracemalloc
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import KFold

from pymcboost import Checkpoint, Dataset, ModelFormatError, VectorTreeBoostClassifier, load_model
from pymcboost.callbacks import LearningRateSchedule
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_class
from pymcboost.training import fitting
from pymcboost.training.callbacks import Callback
from pymcboost.training.meta import WHERE_SET
from pymcboost.training.parameters import parameters

# Every algorithm, and what else has a part in its state.
TRAININGS = [
    pytest.param(get_class(name), {"random_state": 3, "cv": 2, **more}, id="-".join([name, *more]))
    for name in sorted(REGISTRY)
    if get_class(name).booster.resumable
    for more in (
        {},
        {"early_stopping": True, "n_iter_no_change": 9},
        {"early_stopping": True, "n_iter_no_change": 7, "scoring": "auc_ovr", "min_delta": 1e-4},
        {"subsample": 0.5},
        {"max_features": 0.5},
        {"max_features_tree": 0.5},
        {"weak_learner": "tree"},
        {"loss": "log"},
        {"max_passes": 1},
        {"class_weight": {"bee": 2.0}},
    )
    if set(more) <= set(get_class(name)().get_params())
    and (name, more) != ("vector-tree", {"loss": "log"})
]


def some_data(K=4, m=240, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, m)
    return rng.normal(size=(m, d)) + 0.4 * y[:, None], np.array(["ape", "bee", "cat", "dog"])[y]


def stop_after(monkeypatch, cls, rounds):
    """Make Ctrl-C come inside a round, after its trees have been added."""
    original = cls.booster.round
    count = [0]

    def interrupted(self):
        result = original(self)
        count[0] += 1
        if count[0] > rounds:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(cls.booster, "round", interrupted)


def agree(one, other):
    assert one.model_.to_bytes() == other.model_.to_bytes()
    assert one.n_estimators_ == other.n_estimators_
    np.testing.assert_array_equal(one.gain_, other.gain_)
    assert one.history_.keys() == other.history_.keys()
    for name, values in other.history_.items():
        np.testing.assert_array_equal(one.history_[name], values)
        assert one.history_[name].dtype == values.dtype


WHOLE = {}


def whole(cls, rounds, options):
    """The training without a stop, which several tests compare with."""
    key = cls, rounds, repr(options)
    if key not in WHOLE:
        WHOLE[key] = cls(n_estimators=rounds, **options).fit(*some_data())
    return WHOLE[key]


@pytest.mark.parametrize("every", [0, 1000])
@pytest.mark.parametrize(("cls", "options"), TRAININGS)
@pytest.mark.part(29)
def test_same_as_without_a_stop(cls, options, every, tmp_path, monkeypatch):
    if cls(**options)._booster().restart_every:
        monkeypatch.setattr(cls.booster, "restart_every", 4)
    X, y = some_data()
    path = tmp_path / "m.part"
    seen = 0
    for rounds in (5, 4, 6, 1):
        with monkeypatch.context() as patch:
            stop_after(patch, cls, rounds)
            try:
                Checkpoint(path, every).fit(cls(n_estimators=18, **options), X, y)
            except KeyboardInterrupt:
                model = load_model(path)  # a model like any other
                done = model.meta["checkpoint"]["rounds"]
                assert done >= seen
                assert model.predict(X).shape == y.shape
                seen = done
    assert seen >= 4
    checkpoint = Checkpoint(path, every)
    agree(checkpoint.fit(cls(n_estimators=18, **options), X, y), whole(cls, 18, options))
    assert checkpoint.resumed >= seen
    # Asked again, the end of the training is found in the file, or near.
    agree(
        Checkpoint(path, every).fit(cls(n_estimators=18, **options), X, y), whole(cls, 18, options)
    )
    if not options.get("early_stopping"):
        agree(
            Checkpoint(path, every).fit(cls(n_estimators=22, **options), X, y),
            whole(cls, 22, options),
        )
    checkpoint.remove()
    assert list(tmp_path.iterdir()) == []
    checkpoint.remove()


@pytest.mark.parametrize(
    ("name", "options", "rounds", "of"),
    [
        ("mart", {}, 18, "calibration.temperature_of_folds"),
        (
            "abc-mart",
            {"early_stopping": True, "n_iter_no_change": 3},
            None,
            "calibration.temperature_of_folds",
        ),
        ("mcboost", {"calibrate": "temperature"}, 16, "calibration.temperature_of_folds"),
        (
            "vector-tree",
            {"loss": "logistic", "decision_threshold": "f1"},
            18,
            "thresholds.of_folds",
        ),
    ],
)
def test_ctrl_c_after_the_rounds_leaves_them(name, options, rounds, of, tmp_path, monkeypatch):
    cls = get_class(name)
    if cls(**options)._booster().restart_every:
        monkeypatch.setattr(cls.booster, "restart_every", 4)
    X, y = some_data()
    y = (y[:, None] == np.unique(y)).astype(int) if "decision_threshold" in options else y
    params = {"n_estimators": 18, "random_state": 3, **options}
    done = []
    counts = SimpleNamespace(after_round=lambda state: done.append(state.n_rounds))
    with monkeypatch.context() as patch:
        patch.setattr(f"pymcboost.training.{of}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Checkpoint(tmp_path / "m").fit(model := cls(**params), X, y, callbacks=[counts])
    second_checkpoint = Checkpoint(tmp_path / "m")
    agree(second_checkpoint.fit(cls(**params), X, y), cls(**params).fit(X, y))
    assert second_checkpoint.resumed == (rounds or done[-1])
    assert rounds or model.n_estimators_ < done[-1] < 18  # of early stopping, which goes back


def interrupt(*given, **named):
    raise KeyboardInterrupt


def test_ctrl_c_while_the_last_file_is_written_leaves_the_best_rounds(tmp_path, monkeypatch):
    options = {"early_stopping": True, "n_iter_no_change": 5, "random_state": 3}
    model = get_class("mart")(n_estimators=40, **options)
    best = whole(get_class("mart"), 40, options)
    monkeypatch.setattr("pymcboost.files.write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Checkpoint(tmp_path / "m").fit(model, *some_data())
    assert model.n_estimators_ == best.n_estimators_ < 40 - 5
    np.testing.assert_array_equal(
        model.decision_function(some_data()[0]), best.decision_function(some_data()[0])
    )


def test_no_last_file_where_no_folds_follow(tmp_path):
    X, y = some_data()
    checkpoint = Checkpoint(tmp_path / "m")
    model = checkpoint.fit(
        get_class("mart")(n_estimators=3, calibrate="temperature"), X, y, X_val=X, y_val=y
    )
    assert model.model_.temperature
    assert not (tmp_path / "m").exists()


def kinked(y, scores):
    """Derivatives of a loss that jump where scores are sums of some of the numbers of leaves."""
    right = np.eye(scores.shape[1])[y] > 0
    gradient = np.where(
        right, np.where(scores < 0.6, -1.0, -0.01), np.where(scores > -0.6, 1.0, 0.01)
    )
    return gradient, np.ones_like(scores)


@pytest.mark.parametrize(("loss", "levels"), [("softmax", 2), (kinked, 1)])
def test_numbers_of_leaves_are_trained_on_as_the_file_has_them(loss, levels, tmp_path):
    params = {
        "loss": loss,
        "leaf_levels": levels,
        "learning_rate": 0.3,
        "random_state": 0,
        "calibrate": None,
    }
    for rounds in (4, 20):
        model = VectorTreeBoostClassifier(n_estimators=rounds, **params)
        Checkpoint(tmp_path / "m.part", 0).fit(model, *some_data())
    agree(model, VectorTreeBoostClassifier(n_estimators=20, **params).fit(*some_data()))


@pytest.mark.parametrize("options", [{}, {"max_passes": 1}, {"loss": "log"}])
@pytest.mark.parametrize("name", ["multiboost", "multiboost-cw"])
def test_a_training_that_has_converged_stays_so(name, options, tmp_path):
    cls = get_class(name)
    if not set(options) <= set(cls().get_params()):
        pytest.skip("no such parameter")
    X, y = some_data()
    estimator = {"n_estimators": 200, "C": 50.0, "tol": 1e-2, "random_state": 0, **options}
    path = tmp_path / "m.part"
    first = Checkpoint(path, 0).fit(cls(**estimator), X, y)
    assert 1 < first.n_estimators_ < 200
    agree(Checkpoint(path, 0).fit(cls(**estimator), X, y), first)


@pytest.mark.filterwarnings("ignore:warm_start")
@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize(
    "name", [name for name in sorted(REGISTRY) if get_class(name).booster.resumable]
)
@pytest.mark.part(5)
def test_a_training_that_has_ended_stays_so(name, weak_learner, tmp_path):
    """On rows without mistakes: the same with a checkpoint that is run again, and with a repeated warm start."""
    cls = get_class(name)
    if weak_learner == "tree" and "weak_learner" not in cls().get_params():
        pytest.skip("no such parameter")
    X = np.arange(60.0)[:, None]
    y = (X[:, 0] // 20).astype(int)
    options = {"weak_learner": "tree"} if weak_learner == "tree" else {}
    first = cls(n_estimators=5, random_state=0, **options).fit(X, y)
    for _ in range(3):
        agree(
            Checkpoint(tmp_path / "m", 0).fit(cls(n_estimators=5, random_state=0, **options), X, y),
            first,
        )
    again = cls(n_estimators=5, random_state=0, warm_start=True, **options)
    rounds = first.n_estimators_
    assert [again.fit(X, y).n_estimators_ for _ in range(3)] == [rounds] * 3


def test_draws_without_a_seed_go_on(tmp_path, monkeypatch):
    """random_state=None draws one seed for the whole training, in the first process."""
    cls = get_class("mart")
    X, y = some_data()
    parts = []
    ends = []
    draw = cls.booster.draw
    monkeypatch.setattr(cls.booster, "draw", lambda self: parts.append(self.seed) or draw(self))
    for stop in (3, 3, 99):
        with monkeypatch.context() as patch:
            stop_after(patch, cls, stop)
            checkpoint = Checkpoint(tmp_path / "m.part")
            try:
                ends.append(
                    checkpoint.fit(cls(n_estimators=8, early_stopping=True, calibrate=None), X, y)
                )
            except KeyboardInterrupt:
                ends.append(checkpoint.seed)
    assert len(set(parts)) == 1
    assert ends[0] == ends[1] == checkpoint.seed
    other = Checkpoint(tmp_path / "other.part")
    other.fit(cls(n_estimators=1), X, y)
    assert other.seed != checkpoint.seed


def test_validation_set_of_ones_own(tmp_path, monkeypatch):
    cls = get_class("abc-mart")
    X, y = some_data()
    X_val, y_val = some_data(seed=1)
    kwargs = {"n_estimators": 40, "early_stopping": True, "n_iter_no_change": 6, "random_state": 0}
    weight = np.random.default_rng(0).integers(0, 3, len(y_val)).astype(float)
    options = {
        "sample_weight_val": weight,
        "validation_sets": {"half": (X_val[::2], y_val[::2], weight[::2])},
    }
    uninterrupted = cls(**kwargs).fit(X, y, X_val=X_val, y_val=y_val, **options)
    with monkeypatch.context() as patch:
        stop_after(patch, cls, 7)
        with pytest.raises(KeyboardInterrupt):
            Checkpoint(tmp_path / "m").fit(cls(**kwargs), X, y, X_val=X_val, y_val=y_val, **options)
    for other in {**options, "sample_weight_val": None}, {"sample_weight_val": weight}:
        with pytest.raises(
            ValueError, match="checkpoint of a different training: the validation set"
        ):
            Checkpoint(tmp_path / "m").fit(cls(**kwargs), X, y, X_val=X_val, y_val=y_val, **other)
    for changed in {"scoring": "error"}, {"min_delta": 0.5}:
        with pytest.raises(ValueError, match=f"{next(iter(changed))} was the default, now it is"):
            Checkpoint(tmp_path / "m").fit(
                cls(**kwargs, **changed), X, y, X_val=X_val, y_val=y_val, **options
            )
    agree(
        Checkpoint(tmp_path / "m").fit(cls(**kwargs), X, y, X_val=X_val, y_val=y_val, **options),
        uninterrupted,
    )


@pytest.mark.parametrize("name", ["abc-mart", "vector-tree", "multiboost"])
@pytest.mark.parametrize("random_state", [3, None])
@pytest.mark.part(4)
def test_rounds_found_by_cross_validation_are_kept(name, random_state, tmp_path, monkeypatch):
    cls = get_class(name)
    X, y = some_data()
    monkeypatch.setattr(
        os, "urandom", lambda count: bytes(range(count))
    )  # what a checkpoint's seed is drawn from
    kwargs = {
        "n_estimators": "auto",
        "n_iter_no_change": 4,
        "random_state": random_state,
        "calibrate": None,
    }
    groups = np.arange(len(y)) // 2
    actual = []
    original = fitting.out_of_fold
    monkeypatch.setattr(
        fitting, "out_of_fold", lambda *args: actual.append(original(*args)) or actual[-1]
    )

    class Stops:
        def after_round(self, state):
            if state.n_rounds == 3:
                raise KeyboardInterrupt

    first = Checkpoint(tmp_path / "m", 0)
    with pytest.raises(KeyboardInterrupt):
        cls(**kwargs).fit(X, y, groups=groups, callbacks=[first, Stops()])
    assert len(actual) == 1
    with pytest.raises(
        ValueError, match="is the checkpoint of a different training: the groups differ"
    ):
        Checkpoint(tmp_path / "m").fit(cls(**kwargs), X, y, groups=groups // 2)
    with pytest.raises(ValueError, match="cv was the default, now it is 4"):
        Checkpoint(tmp_path / "m").fit(cls(**kwargs, cv=4), X, y, groups=groups)
    refitted = Checkpoint(tmp_path / "m").fit(cls(**kwargs), X, y, groups=groups)
    assert len(actual) == 1
    assert refitted.cv_results_["best_round"] == actual[0].best_round > 3
    np.testing.assert_array_equal(refitted.cv_results_["folds"], actual[0].curves)
    uninterrupted = cls(
        **{**kwargs, "random_state": first.seed if random_state is None else 3}
    ).fit(X, y, groups=groups)
    np.testing.assert_array_equal(refitted.decision_function(X), uninterrupted.decision_function(X))
    np.testing.assert_array_equal(refitted.cv_results_["folds"], uninterrupted.cv_results_["folds"])
    agree(Checkpoint(tmp_path / "m").fit(cls(**kwargs), X, y, groups=groups), refitted)


def test_a_checkpoint_with_more_rounds_than_are_found_is_refused(tmp_path):
    cls = get_class("vector-tree")
    X, y = some_data()
    params = {"random_state": 3, "learning_rate": 0.5, "n_iter_no_change": 2, "calibrate": None}
    Checkpoint(tmp_path / "m", 0).fit(cls(n_estimators=40, **params), X, y)
    with pytest.raises(ValueError, match=r"the checkpoint has 40 rounds, more than the \d+ that"):
        Checkpoint(tmp_path / "m", 0).fit(cls(n_estimators="auto", **params), X, y)


@pytest.fixture
def stopped(tmp_path):
    """Path of a checkpoint of 5 rounds, and how to go on."""
    X, y = some_data()
    weight = np.ones(len(y))
    first = get_class("mart")(n_estimators=5, calibrate=None)
    Checkpoint(tmp_path / "m.part", 0).fit(first, X, y, weight, X[:50], y[:50])

    def go_on(
        name="mart", X=X, y=y, weight=weight, X_val=X[:50], y_val=y[:50], n_estimators=8, **options
    ):
        estimator = get_class(name)(n_estimators=n_estimators, calibrate=None, **options)
        return Checkpoint(tmp_path / "m.part").fit(estimator, X, y, weight, X_val, y_val)

    before = (tmp_path / "m.part").read_bytes()
    go_on()
    yield go_on
    assert (tmp_path / "m.part").read_bytes() == before


def changed(array):
    array = array.copy()
    array[7] = array[8]
    return array


def test_another_training_is_refused_by_what_differs(stopped):
    X, y = some_data()
    y = np.roll(y, 1)
    cases = [
        ({"name": "logitboost"}, "the algorithm was mart, now it is logitboost"),
        ({"learning_rate": 0.2}, "learning_rate was 0.1, now it is 0.2"),
        (
            {"learning_rate": 0.2, "class_weight": {"bee": 3}},
            "class_weight was None, now it is {'bee': 3}; learning_rate was",
        ),
        ({"X": X[:-1], "y": y[:-1], "weight": None}, "the data had 240 rows, now they have 239"),
        ({"X": X[:, :-1], "X_val": X[:50, :-1]}, "the data had 6 features, now they have 5"),
        ({"X": changed(X)}, "training: the features differ. Use the same"),
        ({"y": y}, "training: the labels differ. Use the same"),
        (
            {"weight": changed(np.arange(240.0))},
            "training: the sample weights differ. Use the same",
        ),
        ({"X_val": X[50:100]}, "training: the validation set differ. Use the same"),
        ({"X_val": None, "y_val": None}, "training: the validation set differ. Use the same"),
        ({"X": scipy.sparse.csr_matrix(X)}, "the features were dense, now they are sparse"),
        ({"n_estimators": 4}, "has 5 rounds, more than n_estimators=4"),
        ({"warm_start": True}, "use only one"),
    ]
    for change, message in cases:
        with pytest.raises(ValueError) as error:
            stopped(**change)
        assert message in str(error.value)
        assert "m.part" in str(error.value) or "warm_start" in change
    # What leaves the model as it is may differ.
    stopped(X=np.asfortranarray(X.astype(np.float32)), n_jobs=2, verbose=1)


NONE_OR_DEFAULT = [
    pytest.param(cls, field.name, id=f"{name}-{field.name}")
    for name, cls in ((name, get_class(name)) for name in sorted(REGISTRY))
    for field in fields(cls)
    if cls.booster.resumable
    and field.default is not None
    and parameters(cls)[field.name].allows(None)
]


@pytest.mark.parametrize("none_first", [False, True])
@pytest.mark.parametrize(("cls", "name"), NONE_OR_DEFAULT)
@pytest.mark.part(3)
def test_none_is_another_value_than_the_default(cls, name, none_first, tmp_path, monkeypatch):
    if cls()._booster().restart_every:
        monkeypatch.setattr(cls.booster, "restart_every", 1)
    first, then = ({name: None}, {}) if none_first else ({}, {name: None})
    Checkpoint(tmp_path / "m", 0).fit(
        cls(n_estimators=1, random_state=0, **first), *some_data(m=60)
    )
    with pytest.raises(ValueError, match=f"is the checkpoint of a different training: {name} was"):
        Checkpoint(tmp_path / "m", 0).fit(
            cls(n_estimators=2, random_state=0, **then), *some_data(m=60)
        )


@pytest.mark.parametrize("name", ["mart", "vector-tree", "mcboost"])
def test_defaults_that_the_file_spells_out_are_no_difference(name, tmp_path, monkeypatch):
    """As other versions may, which write more parameters out, or fewer."""
    cls = get_class(name)
    if cls()._booster().restart_every:
        monkeypatch.setattr(cls.booster, "restart_every", 1)
    Checkpoint(tmp_path / "m", 0).fit(cls(n_estimators=1, random_state=0), *some_data(m=60))
    model = load_model(tmp_path / "m")
    defaults = cls().get_params()
    meta = model.meta
    meta["params"] |= {name: defaults[name] for name in WHERE_SET & {*defaults}}
    del meta["params"]["early_stopping"]
    model.with_meta(meta).save(tmp_path / "m")
    second_checkpoint = Checkpoint(tmp_path / "m")
    second_checkpoint.fit(cls(n_estimators=2, random_state=0), *some_data(m=60))
    assert second_checkpoint.resumed == 1


@pytest.mark.parametrize("of", [np.array, pandas.Index, pandas.Series, lambda them: range(*them)])
def test_columns_in_any_form_are_compared(of, tmp_path):
    X, y = some_data()
    X = np.abs(X).round()
    for name, value in {
        "categorical_features": of,
        "interaction_cst": lambda them: [{*them}, of([4, 5])],
    }.items():
        new = [
            get_class("vector-tree")(n_estimators=2, calibrate=None, **{name: value(c)})
            for c in ([0, 2], [1, 3])
        ]
        Checkpoint(tmp_path / name, 0).fit(new[0], X, y)
        Checkpoint(tmp_path / name, 0).fit(new[0], X, y)
        with pytest.raises(ValueError, match=f"{name} was"):
            Checkpoint(tmp_path / name, 0).fit(new[1], X, y)


class Halves:
    def split(self, X, y, groups=None):
        rows = np.arange(len(y))
        return [(rows[rows % 2 != i], rows[rows % 2 == i]) for i in (0, 1)]


@pytest.mark.parametrize(
    "make", [Halves, lambda: KFold(2, shuffle=True, random_state=np.random.RandomState(0))]
)
def test_splitters_have_no_address_in_the_file(make, tmp_path):
    for cv in [make(), make()]:  # at two addresses
        new = get_class("vector-tree")(n_estimators=2, cv=cv)
        checkpoint = Checkpoint(tmp_path / "m", 0)
        assert " at 0x" not in checkpoint.fit(new, *some_data()).model_.meta["params"]["cv"]
    assert checkpoint.resumed == 2


MICRO, MACRO = (make_scorer(f1_score, average=average) for average in ("micro", "macro"))


@pytest.mark.parametrize(
    ("first", "other"), [(MICRO, MACRO), (changed, agree), (changed, lambda *_: 1.0)]
)
def test_another_function_as_scoring_is_refused(first, other, tmp_path):
    for _ in range(2):
        Checkpoint(tmp_path / "m", 0).fit(
            get_class("mart")(n_estimators=2, scoring=first), *some_data()
        )
    with pytest.raises(ValueError, match="is the checkpoint of a different training: scoring was"):
        Checkpoint(tmp_path / "m", 0).fit(
            get_class("mart")(n_estimators=2, scoring=other), *some_data()
        )


def test_files_that_are_no_checkpoint(tmp_path):
    X, y = some_data()
    cls = get_class("mart")
    path = tmp_path / "m"
    cls(n_estimators=2).fit(X, y).save(path)
    with pytest.raises(ValueError, match="is a model, but not a checkpoint; remove the file"):
        Checkpoint(path).fit(cls(n_estimators=2), X, y)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFormatError):
        Checkpoint(path).fit(cls(n_estimators=2), X, y)
    path.write_bytes(b"")
    Checkpoint(path, 0).fit(cls(n_estimators=2), X, y)
    model = load_model(path)
    model.truncate(1).save(path)
    with pytest.raises(ValueError, match="is not a checkpoint that pymcboost"):
        Checkpoint(path).fit(cls(n_estimators=2), X, y)


def forged(path, change):
    """Change what a checkpoint keeps beside its model."""
    model = load_model(path)
    meta = model.meta
    change(meta["checkpoint"])
    model.with_meta(meta).save(path)


def refused(path, cls=VectorTreeBoostClassifier):
    with pytest.raises(
        ValueError, match="m is not a checkpoint that pymcboost .* can read; remove the file"
    ):
        Checkpoint(path).fit(cls(n_estimators=4, random_state=0), *some_data())


def test_a_checkpoint_takes_no_more_memory_than_its_file(tmp_path):
    """An archive in it of 60 kB that unpacks to 64 MB is neither unpacked nor taken."""
    path = tmp_path / "m"
    Checkpoint(path, 0).fit(VectorTreeBoostClassifier(n_estimators=3, random_state=0), *some_data())

    def add_archive(meta):
        known = io.BytesIO(base64.b64decode(meta["state"])) if "state" in meta else None
        arrays = {} if known is None else dict(np.load(known))
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays, zeros=np.zeros(1 << 23))
        meta["state"] = base64.b64encode(packed.getvalue()).decode()

    forged(path, add_archive)
    size = path.stat().st_size
    assert size < 200_000
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 20 * size
    finally:
        tracemalloc.stop()


NUMBERS = {"dtype": "<f8", "shape": [3], "data": base64.b64encode(bytes(24)).decode()}
FORGERIES = {
    "an array nobody asked for": lambda meta: meta["arrays"].update(other=NUMBERS),
    "a curve nobody asked for": lambda meta: meta["arrays"].update({"cv.other": NUMBERS}),
    "a key nobody asked for": lambda meta: meta.update(other=1),
    "a curve without the others": lambda meta: meta["arrays"].update({"cv.mean": NUMBERS}),
    "objects": lambda meta: meta["arrays"].update({"history.other": {**NUMBERS, "dtype": "|O"}}),
    "items without bytes": lambda meta: meta["arrays"].update(
        {"history.other": {"dtype": "<U0", "shape": [3, 1 << 40], "data": ""}}
    ),
    "more than the bytes": lambda meta: meta["arrays"].update(
        {"history.other": {**NUMBERS, "shape": [3, 1 << 40]}}
    ),
    "fewer than the bytes": lambda meta: meta["arrays"].update(
        {"history.other": {**NUMBERS, "shape": [2]}}
    ),
    "a negative shape": lambda meta: meta["arrays"].update(
        {"history.other": {**NUMBERS, "shape": [-3, -1]}}
    ),
    "other rounds": lambda meta: meta["arrays"].update(
        {"history.other": {**NUMBERS, "shape": [1, 3]}}
    ),
    "no rounds": lambda meta: meta["arrays"].update(
        {
            "history.other": {
                "dtype": "<f8",
                "shape": [],
                "data": base64.b64encode(bytes(8)).decode(),
            }
        }
    ),
    "other columns": lambda meta: meta["data"].update(features=7),
    "gains of columns beyond the last": lambda meta: meta["arrays"]["gain.column"].update(
        data=base64.b64encode(
            np.arange(10**6, 10**6 + meta["arrays"]["gain.value"]["shape"][0], dtype="i4")
        ).decode()
    ),
    "gains of another type": lambda meta: meta["arrays"]["gain.value"].update(dtype="<i8"),
    "no gains": lambda meta: meta["arrays"].pop("gain.value"),
    "no table": lambda meta: meta.update(arrays=[]),
    "no array": lambda meta: meta["arrays"].update({"history.other": 3}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_arrays_are_refused(forgery, tmp_path):
    Checkpoint(tmp_path / "m", 0).fit(
        VectorTreeBoostClassifier(n_estimators=3, random_state=0), *some_data()
    )
    forged(tmp_path / "m", FORGERIES[forgery])
    refused(tmp_path / "m")


@pytest.mark.parametrize(
    "column", [[True, False], [1, 2], ["a", "bcd"], [b"", b"x"], [[1.5, 2.5], [3.5, 4.5]]]
)
def test_columns_of_the_history_are_kept_as_they_are(column, tmp_path):
    values = iter(column)
    new = Callback()
    new.measure = lambda state: {"new": next(values)}
    kwargs = {"n_estimators": 2, "random_state": 0, "calibrate": None}
    first = VectorTreeBoostClassifier(**kwargs).fit(
        *some_data(), callbacks=[new, Checkpoint(tmp_path / "m", 0)]
    )
    refitted = Checkpoint(tmp_path / "m").fit(VectorTreeBoostClassifier(**kwargs), *some_data())
    np.testing.assert_array_equal(refitted.history_["new"], first.history_["new"])
    assert refitted.history_["new"].dtype == np.asarray(column).dtype


def test_a_file_that_cannot_be_made_is_an_error_at_once(tmp_path):
    X, y = some_data()
    with pytest.raises(FileNotFoundError, match="the folder for the checkpoint"):
        Checkpoint(tmp_path / "none" / "m").fit(get_class("mart")(n_estimators=2), X, y)


def test_a_file_that_cannot_be_written_later_costs_a_warning(tmp_path):
    X, y = some_data()
    cls = get_class("mart")
    folder = tmp_path / "gone"
    folder.mkdir()
    remover = SimpleNamespace(
        after_round=lambda state: folder.rmdir() if state.n_rounds == 1 else None
    )
    with pytest.warns(
        UserWarning, match="could not write a checkpoint after round 1: .*does not exist"
    ) as caught:
        model = cls(n_estimators=2).fit(X, y, callbacks=[remover, Checkpoint(folder / "m", 0)])
    assert {one.filename for one in caught} == {__file__}
    assert model.n_estimators_ == 2


def test_another_version_is_told(tmp_path, monkeypatch):
    X, y = some_data()
    cls = get_class("mart")
    Checkpoint(tmp_path / "m", 0).fit(cls(n_estimators=2), X, y)
    monkeypatch.setattr("pymcboost.training.checkpoint.__version__", "99")
    with pytest.warns(UserWarning, match="was written by pymcboost .*, but this is 99") as caught:
        Checkpoint(tmp_path / "m", 1000).fit(cls(n_estimators=3), X, y)
    assert caught[0].filename == __file__


def test_writing_waits_for_its_time(tmp_path, monkeypatch):
    X, y = some_data()
    written = []
    monkeypatch.setattr("pymcboost.files.write", lambda path, data, what: written.append(len(data)))
    Checkpoint(tmp_path / "m", 1000).fit(get_class("mart")(n_estimators=9, calibrate=None), X, y)
    assert len(written) == 0
    Checkpoint(tmp_path / "m", 1000).fit(get_class("mart")(n_estimators=9), X, y)
    assert len(written) == 1  # before the temperature is found
    written.clear()
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("pymcboost.training.checkpoint.time.monotonic", lambda: next(clock))
    Checkpoint(tmp_path / "m", 25).fit(get_class("mart")(n_estimators=9), X, y)
    assert 2 <= len(written) <= 4


def test_the_estimator_keeps_nothing_of_it(tmp_path):
    X, y = some_data()
    plain = get_class("mart")(n_estimators=2).fit(X, y)
    model = Checkpoint(tmp_path / "m", 0).fit(get_class("mart")(n_estimators=2), X, y)
    assert vars(model).keys() == vars(plain).keys()
    pickle.dumps(model)


@pytest.mark.posix
@pytest.mark.parametrize("name", ["abc-mart", "mcboost"])
def test_killed_again_and_again(name, tmp_path, monkeypatch):
    """The process dies at random moments; whatever it was doing, the next one goes on."""
    cls = get_class(name)
    path = tmp_path / "m.part"
    if cls()._booster().restart_every:
        monkeypatch.setattr(cls.booster, "restart_every", 4)
    seed = time.time_ns()
    rng = np.random.default_rng(seed)
    X, y = some_data(m=1200, d=10)
    uninterrupted_bytes = cls(n_estimators=24, random_state=0).fit(X, y).model_.to_bytes()
    rounds = [0]
    killed = 0
    longest = 0.1
    while rounds[-1] < 20 or not killed:
        if rounds[-1] >= 20:  # done before it could be killed: anew, with less time
            path.unlink()
            rounds = [0]
            longest = longest / 2
        child = os.fork()
        if not child:
            Checkpoint(path, 0).fit(cls(n_estimators=24, random_state=0), X, y)
            os._exit(0)
        time.sleep(rng.uniform(longest / 15, longest))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if path.exists():
            rounds.append(load_model(path).n_rounds)
        if rounds[-1] == rounds[max(0, len(rounds) - 2)]:  # the machine is busy
            longest *= 1.2
    assert rounds == sorted(rounds), f"seed {seed}"
    checkpoint = Checkpoint(path)
    assert (
        checkpoint.fit(cls(n_estimators=24, random_state=0), X, y).model_.to_bytes()
        == uninterrupted_bytes
    ), f"seed {seed}"
    assert checkpoint.resumed == rounds[-1]
    checkpoint.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_of_a_finished_checkpoint_is_not_asked_again(tmp_path):
    X, y = some_data()
    model = VectorTreeBoostClassifier(n_estimators=2, calibrate=None)
    given = [LearningRateSchedule([0.1, 0.2].__getitem__), Checkpoint(tmp_path / "part", every=0)]
    first, again = (model.fit(X, y, callbacks=given).model_.to_bytes() for _ in range(2))
    assert again == first


def test_a_checkpoint_takes_chunks_and_other_callbacks(tmp_path):
    X, y = some_data()
    new = get_class("vector-tree")(n_estimators=2, calibrate=None)
    rounds = []
    seen = SimpleNamespace(after_round=lambda state: rounds.append(state.n_rounds))
    Checkpoint(tmp_path / "m").fit(new, Dataset.from_blocks(lambda: [(X, y)]), callbacks=[seen])
    assert rounds == [1, 2]


def test_a_checkpoint_is_a_callback_as_well(tmp_path):
    X, y = some_data()
    cls = get_class("mcboost")
    cls(n_estimators=3).fit(X, y, callbacks=[Checkpoint(tmp_path / "m", 0)])
    uninterrupted = cls(n_estimators=6).fit(X, y)
    checkpoint = Checkpoint(tmp_path / "m", 0)
    agree(cls(n_estimators=6).fit(X, y, callbacks=[checkpoint]), uninterrupted)
