"""Sparse rows divided among workers have the model of one worker, byte for byte; stumps also that of dense rows."""

import numpy as np
import pytest
from divided.threads import one_model, run
from scipy.sparse import csr_array
from scipy.sparse import random as sparse_random
from unit.test_divided_checkpoints import divided, killed
from unit.test_stump_workers import ALL as STUMPS
from unit.test_workers import parts_of

from pymcboost import (
    ABCLogitBoostClassifier,
    ABCMartClassifier,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.comm import Alone
from pymcboost.data import divided_sparse
from pymcboost.registry import ALGORITHMS, get_class

CLASS_WISE = [LogitBoostClassifier, MartClassifier, ABCLogitBoostClassifier, ABCMartClassifier]
PLAIN = {"n_estimators": 5, "random_state": 0, "calibrate": None}


def sparse_rows(m=900, K=4, dtype=np.float64, seed=0):
    """Columns: full, without zeros, one row alone, empty, of zeros that are stored, missing, with many values."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((m, 12)) < 0.2, rng.normal(size=(m, 12)), 0)
    X[:, 1] = rng.normal(size=m)
    X[:, 2] = 0
    X[7, 2] = 3.5
    X[:, 3] = 0
    X[:, 4] = np.nan
    X[:, 5] = np.where(rng.random(m) < 0.3, np.nan, np.round(X[:, 5], 1))
    X[: m // 3, 6] = 0
    X[:, 7] = np.where(rng.random(m) < 0.5, rng.normal(size=m), 0)
    y = (np.nan_to_num(X[:, 1]) > 0) + 2 * (np.nan_to_num(X[:, 7]) > 0.3)
    y[np.nan_to_num(X[:, 8]) > 2] = K
    S = csr_array(X.astype(dtype))
    S.data[:9] *= [0, 1, 1, 1, 0, 1, 1, 1, 1]
    return S, y.astype(int)


def check_workers_agree(X, y, parts, n_jobs=1, cls=VectorTreeBoostClassifier, **params):
    one_model(cls, X, y, parts=parts, threads=n_jobs, comm=Alone(), **{**PLAIN, **params})


def divisions(y, size, how):
    if how == "by class":
        return np.array_split(np.argsort(y, kind="stable"), size)
    return parts_of(len(y), size, how, rng=np.random.default_rng(1))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("how", ["even", "random", "by class", "empty", "one row"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.part(3)
def test_division_of_sparse_rows_does_not_change_the_model(size, how, n_jobs):
    X, y = sparse_rows()
    check_workers_agree(X, y, divisions(y, size, how), n_jobs=n_jobs)


@pytest.mark.parametrize(
    "params",
    [
        {"max_bins": 8},
        {"subsample": 0.6},
        {"max_features": 1.0},
        {"split_columns": None},
        {"min_samples_leaf": 3},
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.part(2)
def test_options_and_many_rows(params, dtype):
    """More rows than small data has: bins are merged."""
    X, y = sparse_rows(6000, dtype=dtype)
    check_workers_agree(X, y, divisions(y, 3, "random"), **params)


def test_columns_in_several_messages(monkeypatch):
    monkeypatch.setattr(divided_sparse, "BLOCK_VALUES", 100)
    X, y = sparse_rows()
    check_workers_agree(X, y, divisions(y, 4, "random"))


def test_missing_beside_all_bins():
    """256 bins and the missing ones take codes of two bytes."""
    X, y = sparse_rows(8000)
    X.data[np.random.default_rng(0).random(X.nnz) < 0.05] = np.nan
    check_workers_agree(X, y, divisions(y, 2, "by class"))


def test_infinite_values_are_refused():
    X, y = sparse_rows(300)
    X.data[20] = 1e300
    by_worker = run(2, lambda workers: VectorTreeBoostClassifier(**PLAIN).fit(X, y, comm=workers))
    assert all("float32" in str(one) for one in by_worker), by_worker


@pytest.mark.parametrize("name", ALGORITHMS)
def test_all_others_refuse(name):
    cls = get_class(name)
    X, y = sparse_rows(300)
    if cls.booster.takes_workers or name == "hingeboost":  # this one has no comm
        return
    by_worker = run(2, lambda workers: cls(n_estimators=2).fit(X, y, comm=workers))
    assert all("trains with one worker" in str(one) for one in by_worker), by_worker


@pytest.mark.parametrize("cls", CLASS_WISE)
@pytest.mark.part(3)
def test_class_wise_trees(cls):
    X, y = sparse_rows()
    check_workers_agree(X, y, divisions(y, 3, "random"), cls=cls)
    check_workers_agree(X, y, divisions(y, 2, "by class"), cls=cls, n_jobs=2)


def test_who_takes_them():
    taken = {get_class(name) for name in ALGORITHMS if get_class(name).booster.takes_workers}
    assert taken == {VectorTreeBoostClassifier, *CLASS_WISE, *(cls for cls, _ in STUMPS.values())}


@pytest.mark.parametrize("how", ["even", "random", "by class", "empty", "one row"])
@pytest.mark.parametrize("name", STUMPS)
@pytest.mark.part(4)
def test_stumps(name, how):
    """Few rows, and more than small data has; dense rows have the same model."""
    (cls, params), rng = STUMPS[name], np.random.default_rng(2)
    params = {"n_estimators": 8, "random_state": 0, **params}
    for m, size in ((300, 2), (9000, 3)):
        X, y = sparse_rows(m)
        weight = rng.uniform(0, 5, m) * (rng.random(m) < 0.8) if how == "random" else None
        options = {"min_weight_fraction_leaf": 0.05, "max_bins": 40} if how == "by class" else {}
        parts = divisions(y, size, how)

        def fit(X, comm, part, options=options, y=y, weight=weight):
            model = cls(**params, **options, n_jobs=comm.size - 1)
            return model.fit(
                X, y[part], None if weight is None else weight[part], comm=comm
            ).model_.to_bytes()

        by_worker = run(
            size,
            lambda workers, X=X, parts=parts: fit(
                X[parts[workers.rank]], workers, parts[workers.rank]
            ),
        )
        assert [type(its) for its in by_worker] == [bytes] * size, by_worker
        alone = Alone()
        its = (cls(**params, **options), y, weight)
        one, dense = (
            its[0].fit(data, *its[1:], comm=alone).model_.to_bytes() for data in (X, X.toarray())
        )
        assert set(by_worker) == {one}
        assert one == dense


def test_stumps_in_several_messages_and_from_scores(monkeypatch):
    monkeypatch.setattr(divided_sparse, "BLOCK_VALUES", 100)
    monkeypatch.setattr(MCBoostClassifier.booster, "restart_every", 3)
    X, y = sparse_rows()
    parts = divisions(y, 4, "random")

    def fit(X, y, comm):
        return MCBoostClassifier(n_estimators=10).fit(X, y, comm=comm).model_.to_bytes()

    by_worker = run(4, lambda workers: fit(X[parts[workers.rank]], y[parts[workers.rank]], workers))
    assert set(by_worker) == {fit(X, y, Alone())}


@pytest.mark.parametrize("weighted", [False, True])
def test_stumps_on_columns_that_all_rows_have(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)
    weight = rng.random(700) if weighted else None

    def fit(rows):
        return (
            MCBoostClassifier(n_estimators=5).fit(rows, y, weight, comm=Alone()).model_.to_bytes()
        )

    assert fit(csr_array(X)) == fit(X)


def test_stumps_on_columns_that_one_worker_has():
    """Wide rows: most columns have entries on one worker alone, or on none."""
    rng = np.random.default_rng(3)
    X = sparse_random(500, 1200, density=0.005, format="csr", random_state=3)
    X.data[:] = rng.integers(1, 4, X.nnz)
    y = rng.integers(0, 3, 500)
    X = X.tolil()
    X[y == 1, 17] = 2
    X = X.tocsr()

    def fit(X, y, comm):
        return MCBoostClassifier(n_estimators=4).fit(X, y, comm=comm).model_.to_bytes()

    by_worker = run(3, lambda workers: fit(X[workers.rank :: 3], y[workers.rank :: 3], workers))
    assert set(by_worker) == {fit(X, y, Alone())} == {fit(X.toarray(), y, Alone())}


def test_validation_rows_of_one_worker():
    X, y = sparse_rows()
    held = {"X_val": X[:50], "y_val": y[:50]}

    def task(workers):
        part = np.array_split(np.arange(50, 900), 3)[workers.rank]
        options = held if workers.rank < 2 else {}
        if options:
            options = {"X_val": X[25 * workers.rank :][:25], "y_val": y[25 * workers.rank :][:25]}
        model = VectorTreeBoostClassifier(**{**PLAIN, "calibrate": "temperature"})
        return model.fit(X[part], y[part], comm=workers, **options).model_.to_bytes()

    single_model = VectorTreeBoostClassifier(**{**PLAIN, "calibrate": "temperature"}).fit(
        X[50:], y[50:], **held
    )
    assert set(run(3, task)) == {single_model.model_.to_bytes()}


@pytest.mark.parametrize(
    "cls", [VectorTreeBoostClassifier, LogitBoostClassifier, MCBoostClassifier]
)
def test_checkpoints_go_on_with_other_workers(cls, tmp_path, monkeypatch):
    if cls is MCBoostClassifier:
        monkeypatch.setattr(cls.booster, "restart_every", 1)  # its checkpoints are written there
    X, y = sparse_rows(400)
    path = tmp_path / "m.part"
    uninterrupted_bytes = cls(**PLAIN).fit(X, y, comm=Alone()).model_.to_bytes()
    killed(path, cls, X, y=y, parts=divisions(y, 2, "random"), rounds=2, n_estimators=5)
    resumed = divided(path, cls, X, y=y, parts=divisions(y, 3, "by class"), n_estimators=5)
    assert [one[0] for one in resumed] == [uninterrupted_bytes] * 3, resumed
    assert resumed[0][1] > 0
    path.unlink()
    killed(path, cls, X, y=y, parts=divisions(y, 2, "random"), rounds=2, n_estimators=5)
    X.data[3] += 1
    for one in divided(path, cls, X, y=y, parts=divisions(y, 2, "even"), n_estimators=5):
        assert "the features differ" in str(one)
