"""Workers without rows: the model of one worker on all of them, whatever else fit does."""

import numpy as np
import pytest
import scipy.sparse
from divided.threads import ThreadWorkers, numbered, run

from pymcboost import (
    ABCLogitBoostClassifier,
    ABCMartClassifier,
    Checkpoint,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.callbacks import Callback
from pymcboost.comm import Alone, WorkerError

WORKHORSES = (
    VectorTreeBoostClassifier,
    MCBoostClassifier,
    LogitBoostClassifier,
    MartClassifier,
    ABCLogitBoostClassifier,
    ABCMartClassifier,
)
# Trees of vectors, of outputs and of classes; the others share their code, and wait for the long run.
QUICK = VectorTreeBoostClassifier, MCBoostClassifier, ABCMartClassifier
of_workhorses = pytest.mark.parametrize(
    "cls",
    [cls if cls in QUICK else pytest.param(cls, marks=pytest.mark.slow) for cls in WORKHORSES],
)
# What may follow the rounds, or choose them: each takes sums of its own.
PATHS = {
    "plain": {"calibrate": None},
    "temperature": {"calibrate": "temperature"},
    "early stopping": {"early_stopping": True},
    "rounds of folds": {"n_estimators": "auto", "cv": 2, "n_iter_no_change": 2},
    "weights of classes": {"class_weight": "balanced"},
    "priors": {"class_weight": "balanced", "restore_priors": True},
}
SIZES = ([0, 40], [40, 0], [0, 20, 20], [20, 0, 20])
y = np.random.default_rng(0).permutation([0] * 28 + [1] * 8 + [2] * 4)
ROWS = {
    "constant": np.ones((40, 2)),
    "constant sparse": scipy.sparse.csr_matrix((40, 2)),
    "random": np.random.default_rng(1).normal(size=(40, 2)),
}


def parts_of(sizes):
    ends = np.cumsum([0, *sizes])
    return [np.arange(begin, end) for begin, end in zip(ends[:-1], ends[1:], strict=True)]


def nothing(rank=0):
    return {}


def check_workers_agree(cls, X, fit=nothing, **params):
    """All workers have the model of one; ``fit`` gives more arguments of fit, by the rank."""
    params = {"n_estimators": 3, "random_state": 0, "n_jobs": 1, **params}
    one = cls(**params).fit(X, y, comm=Alone(), **fit()).model_
    assert one.predict_proba(np.ones((1, 2))).shape == (1, 3)
    for sizes in SIZES:
        parts = parts_of(sizes)

        def task(workers, parts=parts):
            part = parts[workers.rank]
            model = cls(**params).fit(
                X[part], y[part], comm=numbered(workers, part), **fit(workers.rank)
            )
            return model.model_.to_bytes()

        assert run(len(parts), task) == [one.to_bytes()] * len(parts), sizes


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("cls", WORKHORSES)
@pytest.mark.part(13)
def test_a_worker_without_rows(cls, path, rows):
    check_workers_agree(cls, ROWS[rows], **PATHS[path])


@of_workhorses
def test_a_worker_whose_weights_are_0(cls):
    parts = parts_of([20, 20])
    X = ROWS["constant"]
    weight = np.repeat([0.0, 1.0], 20)
    one = cls(n_estimators=3, calibrate=None).fit(X, y, weight, comm=Alone()).model_
    if not one.n_learners:
        np.testing.assert_allclose(one.predict_proba(X[:1])[0], np.bincount(y[20:]) / 20, rtol=1e-6)

    def task(workers):
        part = parts[workers.rank]
        model = cls(n_estimators=3, calibrate=None).fit(
            X[part], y[part], weight[part], comm=workers
        )
        return model.model_.to_bytes()

    assert run(2, task) == [one.to_bytes()] * 2


class Ends(Callback):
    """Ends a training before its first round."""

    def before_training(self, state):
        return True


@of_workhorses
def test_models_without_rounds(cls):
    check_workers_agree(
        cls, ROWS["random"], fit=lambda rank=0: {"callbacks": [Ends()]}, calibrate=None
    )


@of_workhorses
def test_a_constant_model_with_rows_to_validate_on(cls):
    X = ROWS["constant"]
    check_workers_agree(
        cls, X, fit=lambda rank=0: {} if rank else {"X_val": X, "y_val": y}, calibrate="temperature"
    )


@of_workhorses
def test_a_constant_model_of_a_checkpoint_and_one_to_go_on_from(cls, tmp_path):
    X = ROWS["constant"]
    path = tmp_path / "model.mcb"
    cls(n_estimators=2, calibrate=None).fit(ROWS["random"], y).model_.save(path)
    check_workers_agree(
        cls,
        X,
        fit=lambda rank=0: {"callbacks": [Checkpoint(tmp_path / "rounds", every=1)]},
        calibrate=None,
    )
    check_workers_agree(cls, X, fit=lambda rank=0: {"init_model": load_model(path)}, calibrate=None)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("what", ["dtype", "shape", "operation"])
def test_operations_that_differ_are_refused_by_name(what, size):
    others = {
        "dtype": "sum of int64 (3,)",
        "shape": "sum of float64 (4,)",
        "operation": "maximum of float64 (3,)",
    }

    def task(workers):
        if not workers.rank:
            return workers.sum(np.zeros(3))
        if what == "operation":
            return workers.maximum(np.zeros(3))
        return workers.sum(np.zeros(4) if what == "shape" else np.zeros(3, dtype=np.int64))

    for error in run(size, task):
        assert isinstance(error, WorkerError)
        assert f"worker 0 has the sum of float64 (3,), worker 1 the {others[what]}" in str(error)


def test_models_that_differ_after_the_rounds_are_refused(monkeypatch):
    """What follows the rounds counts as well: here the shares of the classes of a constant model."""
    add = ThreadWorkers.sum
    X = ROWS["constant"]

    def wrong(self, array, sure=False):
        found = add(self, array, sure)
        if self.rank and array.dtype == np.float64 and array.shape == (3,):
            found += [0, 0, 5]
        return found

    monkeypatch.setattr(ThreadWorkers, "sum", wrong)

    def task(workers):
        part = np.array_split(np.arange(40), 2)[workers.rank]
        return VectorTreeBoostClassifier(n_estimators=2, calibrate=None).fit(
            X[part], y[part], comm=workers
        )

    for error in run(2, task):
        assert isinstance(error, WorkerError)
        assert "worker 1 has a different model than worker 0" in str(error)
