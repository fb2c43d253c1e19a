"""Folds of rows that are divided among workers: one temperature, whatever the division."""

import numpy as np
import pytest
from divided.threads import numbered, run
from scipy.sparse import csr_array

from pymcboost import (
    LogitBoostClassifier,
    MCBoostClassifier,
    Model,
    VectorTreeBoostClassifier,
)
from pymcboost.comm import Alone, WorkerError
from pymcboost.training import divided_folds
from pymcboost.training.divided_folds import parts_of
from pymcboost.training.training_set import TrainingSet


def rows(m, noise=0.3, K=4, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(m, 6)), 2).astype(np.float32)
    y = (X[:, 0] + noise * rng.normal(size=m) > 0).astype(int) + 2 * (
        X[:, 1] + noise * rng.normal(size=m) > 0.5
    )
    y[: K + 1] = np.arange(K + 1)  # a class of one row
    return X, y


def divisions(m, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "even": np.array_split(np.arange(m), 2),
        "random": np.split(rng.permutation(m), [m // 5, m // 2]),
        "empty": [np.arange(m), np.arange(0)],
        "one row": [np.arange(1), np.arange(1, m)],
    }


def check_divisions_agree(model, X, y, weight=None, parts=None, **options):
    """All divisions give the model of one worker; it is calibrated."""

    def fit(part, comm):
        its = None if weight is None else weight[part]
        labels = [y[i] for i in part] if isinstance(y, list) else y[part]
        estimator = model().fit(X[part], labels, its, comm=numbered(comm, part), **options)
        return estimator.model_.to_bytes()

    single_model = fit(np.arange(X.shape[0]), Alone())
    for own in divisions(X.shape[0]).values() if parts is None else parts:
        assert run(len(own), lambda workers, own=own: fit(own[workers.rank], workers)) == [
            single_model
        ] * len(own)
    return Model.from_bytes(single_model)


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, LogitBoostClassifier])
def test_defaults_are_calibrated(cls):
    """With 900 rows there are several folds, and a second model."""
    X, y = rows(900)
    parts = [divisions(900)[how] for how in ("random", "empty")]
    model = check_divisions_agree(
        lambda: cls(n_estimators=4, random_state=3, n_jobs=1), X, y, parts=parts
    )
    assert model.temperature not in (None, 1.0)


def test_weights_sparse_rows_and_stumps():
    X, y = rows(700)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    params = {"n_estimators": 8, "random_state": 0, "calibrate": "temperature", "n_jobs": 1}
    parts = [divisions(len(y))["random"]]
    assert (
        check_divisions_agree(
            lambda: MCBoostClassifier(**params), csr_array(X), y, weight=weight, parts=parts
        ).temperature
        is not None
    )
    assert (
        check_divisions_agree(
            lambda: VectorTreeBoostClassifier(**params), csr_array(X), y, weight=weight, parts=parts
        ).temperature
        is not None
    )


def test_few_rows_for_early_stopping_are_not_those_of_the_temperature():
    X, y = rows(800)
    params = {
        "n_estimators": 30,
        "early_stopping": True,
        "random_state": 0,
        "n_jobs": 1,
        "calibrate": "temperature",
    }
    assert check_divisions_agree(
        lambda: VectorTreeBoostClassifier(**params), X, y, parts=[divisions(800)["even"]]
    ).temperature


def test_thresholds_of_labels():
    X, y = rows(500, K=3)
    labels = np.stack([y & 1, y >> 1, y == 0], axis=1).astype(int)
    params = {
        "loss": "logistic",
        "n_estimators": 20,
        "decision_threshold": "f1",
        "random_state": 0,
        "n_jobs": 1,
    }
    model = check_divisions_agree(
        lambda: VectorTreeBoostClassifier(**params), X, labels, parts=[divisions(500)["random"]]
    )
    assert len(set(np.asarray(model.thresholds).tolist())) > 1


def test_rows_beyond_a_bound_are_drawn(monkeypatch):
    monkeypatch.setattr(divided_folds, "MOST_SCORES", 0)
    X, y = rows(9000, K=3)
    seen = []
    old = divided_folds.smallest
    monkeypatch.setattr(
        divided_folds,
        "smallest",
        lambda *args, take: seen.append(take.tolist()) or old(*args, take=take),
    )
    model = check_divisions_agree(
        lambda: LogitBoostClassifier(n_estimators=3, random_state=0, n_jobs=1),
        X,
        y,
        parts=[divisions(9000)["random"]],
    )
    assert [1024] in seen
    assert model.temperature is not None


def test_rows_of_all_come_in_the_order_of_their_numbers():
    order = np.random.default_rng(0).permutation(50)

    def task(workers):
        own = np.array_split(order, 3)[workers.rank]
        dataset = TrainingSet(
            None, np.arange(2), own % 2, weight=np.ones(len(own)), comm=numbered(workers, own)
        )
        return divided_folds.of_all(dataset, own % 5 > 0, own, 2.0 * own)

    for number, twice in run(3, task):
        assert number.tolist() == [i for i in range(50) if i % 5]
        assert (twice == 2 * number).all()


def dealt(codes, cv, size=1, weight=None, seed=7):
    weight = np.ones(len(codes)) if weight is None else weight
    K = int(codes.max()) + 1
    order = np.random.default_rng(0).permutation(len(codes))
    fold = np.full(len(codes), -1)

    def task(workers):
        own = np.array_split(order, size)[workers.rank]
        X = np.zeros((len(own), 1))
        dataset = TrainingSet(
            X, np.arange(K), codes[own], weight=weight[own], comm=numbered(workers, own)
        )
        for i, (train, test) in enumerate(parts_of(dataset, cv, seed)):
            assert not set(train) & set(test)
            assert (weight[own[np.append(train, test)]] > 0).all()
            fold[own[test]] = i

    for error in sorted(
        filter(None, run(size, task)), key=lambda error: isinstance(error, WorkerError)
    ):
        raise error
    return fold


def test_classes_have_equal_shares_of_the_folds():
    rng = np.random.default_rng(0)
    codes = np.append(rng.integers(0, 5, 400), [5, 6, 7])
    weight = np.append(rng.integers(0, 2, 400), [1, 1, 1]).astype(float)
    fold = dealt(codes, 5, weight=weight)
    assert ((fold >= 0) == (weight > 0)).all()
    for k in range(8):
        share = np.bincount(fold[(codes == k) & (fold >= 0)], minlength=5)
        assert share.max() - share.min() <= 1
    assert len({int(fold[i]) for i in (400, 401, 402)}) == 3  # not all held out together
    for size in (2, 3):
        assert (dealt(codes, 5, size, weight=weight) == fold).all()
    assert (dealt(codes, 5, weight=weight, seed=8) != fold).any()


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (
            np.arange(4),
            "the largest class has only 1 row; folds need a class with at least two rows",
        ),
        (
            np.repeat([0, 1], [20, 1]),
            "trains on rows of 1 class, but needs at least 2; use fewer folds",
        ),
    ],
)
def test_rows_of_which_no_folds_can_be_made(codes, words):
    with pytest.raises(ValueError, match=words):
        dealt(codes, 5, 2)
    X = np.random.default_rng(0).normal(size=(len(codes), 2))
    with pytest.warns(UserWarning, match=f"not calibrated: cv=3: .*{words}"):
        model = LogitBoostClassifier(n_estimators=2).fit(X, codes, comm=Alone())
    assert model.model_.temperature is None


def test_an_error_in_a_fold_is_one_on_all_workers(monkeypatch):
    from pymcboost.training import folds

    X, y = rows(400)
    usual = folds._Model.finished

    def broken(self, stop):
        if self.booster.workers.rank == 1:
            raise ValueError("a fault of one worker")
        return usual(self, stop)

    monkeypatch.setattr(folds._Model, "finished", broken)
    own = divisions(400)["even"]
    errors = run(
        2,
        lambda workers: LogitBoostClassifier(n_estimators=5).fit(
            X[own[workers.rank]], y[own[workers.rank]], comm=workers
        ),
    )
    assert isinstance(errors[0], WorkerError)
    assert "a fault of one worker" in str(errors[1])


def test_folds_of_several_workers_are_a_number():
    X, y = rows(300)
    from sklearn.model_selection import KFold

    for options, cv in (({"groups": np.arange(300) % 9}, 3), ({}, KFold(3))):
        with pytest.raises(ValueError, match="give cv as a number, and no groups"):
            VectorTreeBoostClassifier(n_estimators=2, cv=cv).fit(X, y, comm=Alone(), **options)
        with pytest.raises(ValueError, match="give cv as a number, and no groups"):
            labels = VectorTreeBoostClassifier(
                n_estimators=2, loss="logistic", cv=cv, decision_threshold="f1"
            )
            labels.fit(X, np.eye(5, dtype=int)[y], comm=Alone(), **options)


@pytest.mark.parametrize("scoring", ["log_loss", "error"])
@pytest.mark.parametrize(
    "cls", [VectorTreeBoostClassifier, LogitBoostClassifier, MCBoostClassifier]
)
@pytest.mark.part(5)
def test_rounds_that_folds_find(cls, scoring):
    X, y = rows(200)
    if cls is MCBoostClassifier and scoring == "log_loss":
        scoring = "auc_ovr"
    params = {
        "n_estimators": "auto",
        "scoring": scoring,
        "cv": 3,
        "n_iter_no_change": 3,
        "random_state": 0,
    }
    params |= {"max_leaf_nodes": 4} if cls is not MCBoostClassifier else {}
    own = {name: part for name, part in divisions(200).items() if name in ("random", "empty")}
    model = check_divisions_agree(lambda: cls(**params, n_jobs=1), X, y, parts=own.values())
    assert model.n_rounds > 1


def test_rounds_of_rows_with_labels():
    X, y = rows(200, K=3)
    labels = np.stack([y & 1, y >> 1], axis=1).astype(int)
    params = {
        "loss": "logistic",
        "n_estimators": "auto",
        "cv": 2,
        "n_iter_no_change": 1,
        "learning_rate": 0.5,
        "decision_threshold": "f1",
    }
    check_divisions_agree(
        lambda: VectorTreeBoostClassifier(**params, random_state=0, n_jobs=1),
        X,
        labels,
        parts=[divisions(200)["random"]],
    )


def test_scorers_that_ask_for_rows_find_no_rounds():
    X, y = rows(300)
    for scoring in ("f1_macro", lambda model, X, y: 0.0):
        with pytest.raises(ValueError, match="use 'log_loss' or another built-in metric"):
            VectorTreeBoostClassifier(n_estimators="auto", scoring=scoring).fit(X, y, comm=Alone())
