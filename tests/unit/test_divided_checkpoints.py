"""Checkpoints of rows that are divided among workers, and of rows in files: the bytes of a training without a stop."""

import os

import numpy as np
import pytest
from divided.threads import numbered, run
from unit.test_workers import parts_of, rows

from pymcboost import (
    ABCLogitBoostClassifier,
    ABCMartClassifier,
    Checkpoint,
    Dataset,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    ModelFormatError,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.comm import Alone, WorkerError

ALL = [
    VectorTreeBoostClassifier,
    LogitBoostClassifier,
    MartClassifier,
    ABCLogitBoostClassifier,
    ABCMartClassifier,
]
ROUNDS = 9
PLAIN = {"n_estimators": ROUNDS, "random_state": 0, "calibrate": None, "n_jobs": 1}


class Killer:
    """Ends a training after some rounds with an error, at which no checkpoint is written."""

    def __init__(self, rounds):
        self.rounds = rounds

    def after_round(self, state):
        if state.n_rounds == self.rounds:
            raise ZeroDivisionError("killed")


def divided(path, cls, X, y, parts, kill=None, held=None, weight=None, alone=(), **params):
    """Bytes and rounds that were found, of each worker; or its error. ``kill``: (rank, rounds)."""

    def task(workers):
        part = parts[workers.rank]
        kept = Checkpoint(path, 0)
        callbacks = [] if alone and workers.rank not in alone else [kept]
        if kill and kill[0] == workers.rank:
            callbacks.append(Killer(kill[1]))
        its = None if weight is None else weight[part]
        options = held if held and workers.rank == 0 else {}
        model = cls(**{**PLAIN, **params})
        model.fit(
            X[part], y[part], its, comm=numbered(workers, part), callbacks=callbacks, **options
        )
        return model.model_.to_bytes(), kept.resumed

    return run(len(parts), task)


def killed(path, cls, X, y, parts, rank=1, rounds=4, **options):
    """Leave the checkpoint of a training that was killed."""
    resumed = divided(path, cls, X, y=y, parts=parts, kill=(rank, rounds), **options)
    assert all("killed" in str(one) for one in resumed), resumed
    assert 1 <= load_model(path).meta["checkpoint"]["rounds"] <= rounds


@pytest.mark.parametrize("loss", ["exp", "log"])
def test_stumps_go_on_with_other_workers(loss, tmp_path, monkeypatch):
    cls = MCBoostClassifier
    monkeypatch.setattr(cls.booster, "restart_every", 4)
    X, y = rows(400)
    path = tmp_path / "m.part"
    rng = np.random.default_rng(0)
    options = {"loss": loss}
    uninterrupted_bytes = (
        cls(**PLAIN, **options).fit(X, y, comm=numbered(Alone(), np.arange(400))).model_.to_bytes()
    )
    killed(
        path, cls, X, y=y, parts=parts_of(400, 2, "random", rng=rng), rank=1, rounds=5, **options
    )
    seen = load_model(path).meta["checkpoint"]["rounds"]
    for resumed in divided(
        path, cls, X, y=y, parts=parts_of(400, 3, "one row", rng=rng), **options
    ):
        assert resumed == (uninterrupted_bytes, seen)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(7)
def test_killed_and_resumed_with_other_workers(cls, rank, tmp_path):
    X, y = rows(400)
    path = tmp_path / "m.part"
    rng = np.random.default_rng(0)
    uninterrupted_bytes = cls(**PLAIN, subsample=0.6).fit(X, y).model_.to_bytes()
    seen = 0
    for size, how, rounds in ((2, "even", 3), (3, "random", 5), (4, "empty", 7)):
        killed(
            path,
            cls,
            X,
            y=y,
            parts=parts_of(len(y), size, how, rng=rng),
            rank=rank,
            rounds=rounds,
            subsample=0.6,
        )
        assert load_model(path).meta["checkpoint"]["rounds"] > seen
        seen = load_model(path).meta["checkpoint"]["rounds"]
    for resumed in divided(
        path, cls, X, y=y, parts=parts_of(len(y), 3, "one row", rng=rng), subsample=0.6
    ):
        assert resumed == (uninterrupted_bytes, seen)


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, ABCMartClassifier])
def test_one_worker_and_several_go_on_from_each_other(cls, tmp_path):
    X, y = rows(400)
    path = tmp_path / "m.part"
    weight = np.random.default_rng(3).random(400) + 0.1
    uninterrupted_bytes = cls(**PLAIN).fit(X, y, weight).model_.to_bytes()
    killed(
        path,
        cls,
        X,
        y=y,
        parts=parts_of(400, 2, "random", rng=np.random.default_rng(1)),
        weight=weight,
    )
    second_checkpoint = Checkpoint(path)
    assert (
        second_checkpoint.fit(cls(**PLAIN), X, y, weight).model_.to_bytes() == uninterrupted_bytes
    )
    assert second_checkpoint.resumed
    os.unlink(path)
    with pytest.raises(ZeroDivisionError):
        cls(**PLAIN).fit(X, y, weight, callbacks=[Checkpoint(path, 0), Killer(5)])
    parts = parts_of(400, 3, "even", rng=np.random.default_rng(1))
    assert [one[0] for one in divided(path, cls, X, y=y, parts=parts, weight=weight)] == [
        uninterrupted_bytes
    ] * 3


def test_early_stopping_and_calibration_go_on(tmp_path):
    X, y = rows(500)
    options = {
        "early_stopping": True,
        "n_iter_no_change": 3,
        "calibrate": "temperature",
        "n_estimators": 15,
    }
    held = {"X_val": X[400:], "y_val": y[400:]}
    X = X[:400]
    y = y[:400]
    path = tmp_path / "m.part"
    uninterrupted_bytes = (
        VectorTreeBoostClassifier(**{**PLAIN, **options}).fit(X, y, **held).model_.to_bytes()
    )
    parts = parts_of(400, 2, "even", rng=None)
    killed(path, VectorTreeBoostClassifier, X, y=y, parts=parts, held=held, **options)
    resumed = divided(
        path, VectorTreeBoostClassifier, X, y=y, parts=parts[::-1], held=held, **options
    )
    assert [one[0] for one in resumed] == [uninterrupted_bytes] * 2


def test_rows_that_were_drawn_for_early_stopping_are_drawn_again(tmp_path):
    X, y = rows(500)
    options = {
        "early_stopping": True,
        "n_iter_no_change": 3,
        "n_estimators": 15,
        "random_state": 0,
        "subsample": 0.5,
    }
    parts = parts_of(500, 3, "random", rng=np.random.default_rng(0))
    path = tmp_path / "m.part"
    uninterrupted_bytes = (
        VectorTreeBoostClassifier(**{**PLAIN, **options}).fit(X, y, comm=Alone()).model_.to_bytes()
    )
    killed(path, VectorTreeBoostClassifier, X, y=y, parts=parts, **options)
    resumed = divided(
        path, VectorTreeBoostClassifier, X, y=y, parts=parts[:0:-1] + [parts[0]], **options
    )
    assert [one[0] for one in resumed] == [uninterrupted_bytes] * 3


def test_a_seed_that_was_drawn_goes_on(tmp_path):
    X, y = rows(300)
    parts = parts_of(300, 2, "even", rng=None)
    path = tmp_path / "m.part"
    options = {"random_state": None, "subsample": 0.5}
    killed(path, VectorTreeBoostClassifier, X, y=y, parts=parts, **options)
    text = path.read_bytes()
    first = divided(path, VectorTreeBoostClassifier, X, y=y, parts=parts, **options)
    path.write_bytes(text)
    again = divided(
        path, VectorTreeBoostClassifier, X, y=y, parts=parts_of(300, 3, "even", rng=None), **options
    )
    assert {one[0] for one in first} == {one[0] for one in again}


def other_value(X, y, number):
    X[250, 2] += 1


def other_label(X, y, number):
    y[250] = 3 - y[250]


def other_numbers(X, y, number):
    number[[7, 250]] = number[[250, 7]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_value, "the features differ"),
        (other_label, "the labels differ"),
        (other_numbers, "the features differ"),
    ],
)
def test_other_data_are_refused_on_every_worker(change, words, tmp_path):
    X, y = rows(300)
    parts = parts_of(300, 3, "even", rng=None)
    path = tmp_path / "m.part"
    number = np.arange(300)
    killed(path, VectorTreeBoostClassifier, X, y=y, parts=parts)
    change(X, y, number)

    def task(workers):
        part = parts[workers.rank]
        model = VectorTreeBoostClassifier(**PLAIN)
        model.fit(
            X[part], y[part], comm=numbered(workers, number[part]), callbacks=[Checkpoint(path, 0)]
        )

    for found in run(3, task):
        assert isinstance(found, (ValueError, WorkerError)), found
        assert "m.part is the checkpoint of a different training" in str(found)
        assert words in str(found)


def test_other_weights_and_validation_rows_are_refused_on_every_worker(tmp_path):
    X, y = rows(300)
    parts = parts_of(300, 2, "even", rng=None)
    path = tmp_path / "m.part"
    weight = np.ones(300)
    held = {"X_val": X[:50], "y_val": y[:50]}
    killed(path, VectorTreeBoostClassifier, X, y=y, parts=parts, weight=weight, held=held)
    weight[200] = 2
    for resumed in divided(
        path, VectorTreeBoostClassifier, X, y=y, parts=parts, weight=weight, held=held
    ):
        assert "the sample weights differ" in str(resumed)
    held["X_val"] = X[1:51]
    for resumed in divided(path, VectorTreeBoostClassifier, X, y=y, parts=parts, held=held):
        assert "the validation set differ" in str(resumed)


def test_numbers_of_rows_and_parameters_are_told_on_every_worker(tmp_path):
    X, y = rows(300)
    parts = parts_of(300, 2, "even", rng=None)
    path = tmp_path / "m.part"
    killed(path, VectorTreeBoostClassifier, X, y=y, parts=parts)
    for resumed in divided(
        path, VectorTreeBoostClassifier, X, y=y, parts=parts[:1] + [parts[1][1:]]
    ):
        assert "the data had 300 rows, now they have 299" in str(resumed)
    for resumed in divided(path, VectorTreeBoostClassifier, X, y=y, parts=parts, max_depth=2):
        assert "max_depth was None, now it is 2" in str(resumed)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (b"nothing of ours", ModelFormatError, "shorter than the 64-byte header"),
        (None, OSError, "is a folder"),
    ],
)
def test_a_broken_file_is_an_error_on_every_worker(text, kind, words, tmp_path):
    X, y = rows(300)
    path = tmp_path / "m.part"
    path.mkdir() if text is None else path.write_bytes(text)
    for resumed in divided(
        path, VectorTreeBoostClassifier, X, y=y, parts=parts_of(300, 3, "even", rng=None)
    ):
        assert isinstance(resumed, (kind, WorkerError)), resumed
        assert words in str(resumed)


def test_a_checkpoint_on_some_workers_is_refused(tmp_path):
    X, y = rows(300)
    resumed = divided(
        tmp_path / "m",
        VectorTreeBoostClassifier,
        X,
        y=y,
        parts=parts_of(300, 2, "even", rng=None),
        alone=(0,),
    )
    assert all("Checkpoint, but worker 0 has " in str(one) for one in resumed), resumed


def test_only_the_first_worker_writes(tmp_path):
    X, y = rows(300)

    def task(workers):
        part = np.array_split(np.arange(300), 2)[workers.rank]
        callbacks = [Checkpoint(tmp_path / f"{workers.rank}.part", 0)]
        VectorTreeBoostClassifier(**PLAIN).fit(X[part], y[part], comm=workers, callbacks=callbacks)

    assert run(2, task) == [None, None]
    assert [path.name for path in tmp_path.iterdir()] == ["0.part"]


@pytest.mark.parametrize(
    ("cls", "params"),
    [
        (VectorTreeBoostClassifier, {}),
        (ABCLogitBoostClassifier, {}),
        (MCBoostClassifier, {"loss": "log"}),
        (MCBoostClassifier, {"weak_learner": "tree", "max_leaf_nodes": 4}),
    ],
)
def test_blocks_go_on(cls, params, tmp_path, monkeypatch):
    monkeypatch.setattr(cls.booster, "restart_every", cls.booster.restart_every and 3)
    X, y = rows(400)
    params = {**PLAIN, **params}
    path = tmp_path / "m.part"
    uninterrupted_bytes = cls(**params).fit(X, y).model_.to_bytes()

    def blocks(step):
        return Dataset.from_blocks(
            [(X[at : at + step], y[at : at + step]) for at in range(0, 400, step)]
        )

    for rounds, step in ((3, 100), (6, 37)):
        with pytest.raises(ZeroDivisionError):
            cls(**params).fit(blocks(step), callbacks=[Checkpoint(path, 0), Killer(rounds)])
        assert load_model(path).meta["checkpoint"]["rounds"] == rounds
    second_checkpoint = Checkpoint(path, 0)
    assert (
        second_checkpoint.fit(cls(**params), blocks(200), None).model_.to_bytes()
        == uninterrupted_bytes
    )
    assert second_checkpoint.resumed == 6
    X[3, 3] = 5
    with pytest.raises(ValueError, match="the features differ"):
        cls(**params).fit(blocks(200), callbacks=[Checkpoint(path, 0)])
