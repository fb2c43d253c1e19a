"""Estimators for the workers of Dask."""

import copy
import inspect
import os
import pickle
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from unit.test_workers import rows

from pymcboost import ABCLogitBoostClassifier, MCBoostClassifier, VectorTreeBoostClassifier
from pymcboost.comm import Alone

pytest.importorskip("distributed")
pytest.importorskip("xgboost")
da = pytest.importorskip("dask.array")

from pymcboost.dask import (  # noqa: E402
    DaskABCLogitBoostClassifier,
    DaskMCBoostClassifier,
    DaskVectorTreeBoostClassifier,
)

PARAMS = {"n_estimators": 4, "random_state": 0, "calibrate": None}


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client
        for nanny in cluster.workers.values():  # a training that was cancelled would be waited for
            nanny.auto_restart = False
            with suppress(
                TimeoutError
            ):  # it is told to end, and the end of the cluster waits for it
                cluster.sync(nanny.kill, timeout=0.1)


def divided(*arrays, size=400):
    return [da.from_array(a, chunks=(size, *a.shape[1:])) for a in arrays]


def test_model_is_that_of_the_rows_in_memory(client):
    X, y = rows()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    in_one_process = VectorTreeBoostClassifier(**PARAMS).fit(X, y, weight)
    dX, dy, dw = divided(X, y, weight)
    model = DaskVectorTreeBoostClassifier(client=client, **PARAMS).fit(dX, dy, dw)
    assert model.model_.to_bytes() == in_one_process.model_.to_bytes()
    local = model.to_local()
    assert type(local) is VectorTreeBoostClassifier
    assert np.array_equal(local.predict(X), in_one_process.predict(X))
    # Lazy answers are those of the rows, in their order.
    for method in ("predict", "predict_proba", "decision_function"):
        lazy = getattr(model, method)(dX)
        want = getattr(in_one_process, method)(X)
        assert lazy.chunks[0] == dX.chunks[0]
        assert lazy.dtype == want.dtype
        assert np.array_equal(lazy.compute(), want)


def test_class_wise_trees(client):
    """With the temperature of folds, as by default."""
    X, y = rows()
    params = {"n_estimators": 3, "subsample": 0.5, "gap": 2, "cv": 2, "random_state": 0}
    in_one_process = ABCLogitBoostClassifier(**params).fit(X, y, comm=Alone())
    assert in_one_process.model_.temperature is not None
    model = DaskABCLogitBoostClassifier(client=client, **params).fit(*divided(X, y))
    assert model.model_.to_bytes() == in_one_process.model_.to_bytes()
    assert type(model.to_local()) is ABCLogitBoostClassifier


@pytest.mark.parametrize("params", [{}, {"weak_learner": "tree", "max_leaf_nodes": 5}])
@pytest.mark.part(2)
def test_stumps_and_trees(client, params):
    X, y = rows()
    in_one_process = MCBoostClassifier(n_estimators=5, **params).fit(X, y, comm=Alone())
    model = DaskMCBoostClassifier(client=client, n_estimators=5, **params).fit(*divided(X, y))
    assert model.model_.to_bytes() == in_one_process.model_.to_bytes()
    assert type(model.to_local()) is MCBoostClassifier


@pytest.mark.slow
@pytest.mark.parametrize("cls", [DaskVectorTreeBoostClassifier, DaskMCBoostClassifier])
def test_sparse_blocks(client, cls):
    from dask import delayed
    from unit.test_sparse_workers import sparse_rows

    X, y = sparse_rows(900)
    starts = range(0, 900, 300)
    none = X[:0]
    blocks = [
        da.from_delayed(delayed(X[i : i + 300]), (300, 12), X.dtype, meta=none) for i in starts
    ]
    params = {"n_estimators": 5, "random_state": 0, "calibrate": None}
    model = cls(client=client, **params).fit(da.concatenate(blocks), da.from_array(y, chunks=300))
    single_model = cls._of(**params).fit(X, y, comm=Alone())
    assert model.model_.to_bytes() == single_model.model_.to_bytes()
    labels = model.predict(da.concatenate(blocks)).compute()
    assert (labels == single_model.predict(X)).all()


def test_data_frames_and_validation_sets(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    params = {**PARAMS, "calibrate": "temperature", "early_stopping": True}
    held = frame[1000:], y[1000:]
    in_one_process = VectorTreeBoostClassifier(**params).fit(
        frame[:1000], y[:1000], X_val=held[0], y_val=held[1]
    )
    parts = [
        dd.from_pandas(part, npartitions=3)
        for part in (frame[:1000], pd.Series(y[:1000]), *map(_series, held))
    ]
    model = DaskVectorTreeBoostClassifier(client=client, **params).fit(
        *parts[:2], X_val=parts[2], y_val=parts[3]
    )
    assert model.model_.to_bytes() == in_one_process.model_.to_bytes()
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert np.array_equal(model.predict(parts[0]).compute(), in_one_process.predict(frame[:1000]))


METHODS = "predict", "predict_proba", "decision_function"


@pytest.mark.parametrize("levels", [["p", "q", "r", "s"], [10, 20, 30, 40]])
@pytest.mark.part(2)
def test_lazy_answers_of_frames(client, levels):
    """Categories by their names, missing values of nullable columns, columns by name; those of the frame in memory."""
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = rows(400)
    code = np.random.default_rng(0).integers(0, 4, 400)
    frame = pd.DataFrame(
        {"c": pd.Categorical(np.array(levels)[code]), "x": X[:, 0], "n": pd.array(code, "Int64")}
    )
    frame.loc[::7, "n"] = pd.NA
    parts = dd.from_pandas(frame, npartitions=4)
    dy = dd.from_pandas(pd.Series(y ^ code % 2), npartitions=4)
    model = DaskVectorTreeBoostClassifier(client=client, **PARAMS).fit(parts, dy)
    for method in METHODS:
        want = getattr(model.to_local(), method)(frame)
        lazy = getattr(model, method)(parts[["x", "n", "c"]])
        assert lazy.dtype == want.dtype
        assert lazy.ndim == want.ndim
        assert np.array_equal(lazy.compute(), want)
    assert model.predict_proba(parts).shape == (400, 4)
    some = parts[parts.x < np.sort(X[300:, 0])[0]]  # none of the last partition
    assert np.array_equal(model.predict(some).compute(), model.to_local().predict(some.compute()))
    with pytest.raises(ValueError, match="missing:\n- c"):
        model.predict(parts[["x", "n"]]).compute()
    one = dd.from_pandas(frame, npartitions=1)
    for method in METHODS:
        assert np.array_equal(
            getattr(model, method)(one).compute(), getattr(model.to_local(), method)(frame)
        )


@pytest.mark.parametrize("size", [2, 1])
@pytest.mark.parametrize("levels", [["p", "q", "r", "s"], [10, 20, 30, 40]])
@pytest.mark.part(4)
def test_categories_that_differ_between_partitions(client, levels, size):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    from dask import delayed
    from distributed import wait

    X, y = rows(400)
    code = np.random.default_rng(0).integers(0, 3, 400) + np.repeat([0, 1], 200)
    y ^= code % 2
    frame = pd.DataFrame({"c": np.array(levels)[code], "x": X[:, 0]})
    parts = [delayed(frame[i : i + 100].astype({"c": "category"})) for i in range(0, 400, 100)]
    parts = dd.from_delayed(parts, meta=frame[:0].astype({"c": "category"}), verify_meta=False)
    own = sorted(client.scheduler_info()["workers"])[:size]
    parts, dy = client.persist([parts, dd.from_pandas(pd.Series(y), npartitions=4)], workers=own)
    wait([parts, dy])
    in_one_process = VectorTreeBoostClassifier(**PARAMS).fit(parts.compute(), y)
    model = DaskVectorTreeBoostClassifier(client=client, **PARAMS).fit(parts, dy)
    assert model.model_.categories.names == (sorted(map(str, levels)),)
    assert model.model_.to_bytes() == in_one_process.model_.to_bytes()


def test_a_second_fit_keeps_nothing_of_the_first(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = rows()
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=2)
    model = DaskVectorTreeBoostClassifier(
        client=client,
        **PARAMS | {"n_estimators": "auto", "n_iter_no_change": 1, "cv": 2, "learning_rate": 1.0},
    )
    model.fit(frame, dd.from_pandas(pd.Series(y), npartitions=2))
    assert {"cv_results_", "feature_names_in_"} <= vars(model).keys()
    assert (
        not {"oof_decision_function_", "oof_fold_"} & vars(model).keys()
    )  # a worker has only those of its rows
    model.set_params(n_estimators=2).fit(*divided(X, y))
    assert not {"cv_results_", "feature_names_in_"} & vars(model).keys()
    assert (model.client, model.n_estimators, model.n_estimators_) == (client, 2, 2)
    swapped = dd.from_pandas(pd.DataFrame(X, columns=list("fedcba")), npartitions=2)
    assert (model.predict(swapped).compute() == model.predict(X)).all()


def test_labels_of_several_types_of_integers(client):
    """Partitions of signed and of unsigned ones on a worker, which float64 does not tell apart."""
    from dask import delayed
    from distributed import wait

    X, y = rows(400)
    labels = 2**53 + y
    types = np.int64, np.uint64
    parts = [delayed(labels[100 * i : 100 * i + 100].astype(types[i % 2])) for i in range(4)]
    dy = da.concatenate([da.from_delayed(part, (100,), np.int64) for part in parts])
    in_one_process = VectorTreeBoostClassifier(**PARAMS).fit(X, labels)
    given = client.persist(
        [*divided(X, size=100), dy], workers=sorted(client.scheduler_info()["workers"])[:1]
    )
    wait(given)
    model = DaskVectorTreeBoostClassifier(client=client, **PARAMS).fit(*given)
    assert model.model_.to_bytes() == in_one_process.model_.to_bytes()


def test_a_loss_that_is_a_function_has_no_probabilities(client):
    model = DaskVectorTreeBoostClassifier(
        loss=gradient_hessian, client=client, **PARAMS | {"n_estimators": 1}
    )
    for one in model, model.fit(*divided(*rows(200))):
        assert not hasattr(one, "predict_proba")
        assert hasattr(one, "decision_function")


def gradient_hessian(y, scores):
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return p - np.eye(scores.shape[1])[y], p * (1 - p)


def _series(what):
    import pandas as pd

    return what if hasattr(what, "columns") else pd.Series(what)


@pytest.mark.slow
def test_error_of_one_worker_is_raised(client):
    X, y = rows()
    X[-1, 2] = np.inf
    with pytest.raises(ValueError, match="column 2: inf is infinite"):
        DaskVectorTreeBoostClassifier(client=client, **PARAMS).fit(*divided(X, y))


def test_what_is_refused(client):
    X, y = rows()
    dX, dy = divided(X, y)
    model = DaskVectorTreeBoostClassifier(client=client, **PARAMS)
    for method in METHODS:
        with pytest.raises(
            NotFittedError, match="This DaskVectorTreeBoostClassifier instance is not fitted yet"
        ):
            getattr(model, method)(dX)
    with pytest.raises(
        TypeError, match="X must be a Dask array, data frame or series, not ndarray"
    ):
        model.fit(X, y)
    with pytest.raises(
        ValueError, match=r"X is split into 2 chunks of columns; keep rows whole with X.rechunk"
    ):
        model.fit(dX.rechunk((400, 3)), dy)
    with pytest.raises(ValueError, match="y has 3 partitions, but X has 4"):
        model.fit(dX, divided(y, size=500)[0])
    other = da.from_array(y, chunks=((300, 500, 300, 400),))
    with pytest.raises(ValueError, match="^partition 0: X has 400 rows, but y has 300"):
        model.fit(dX, other)
    with pytest.raises(ValueError, match="^partition 0: X has 400 rows, but sample_weight has 300"):
        model.fit(dX, dy, other)
    with pytest.raises(ValueError, match="^partition 0: X_val has 400 rows, but y_val has 500"):
        model.fit(dX, dy, X_val=dX[400:].rechunk((400, 6)), y_val=other[300:])
    with pytest.raises(
        ValueError, match="^DaskVectorTreeBoostClassifier: warm_start .* one worker"
    ):
        DaskVectorTreeBoostClassifier(client=client, warm_start=True).fit(*divided(X, y, size=1500))
    with pytest.raises(TypeError, match="y must be a Dask array, .*, not NoneType"):
        model.fit(dX, None)
    for given, message in (
        ({"y_val": dy}, "y_val is given without X_val"),
        ({"X_val": dX}, "X_val is given without y_val"),
        ({"sample_weight_val": dy}, "sample_weight_val weights the rows of X_val"),
        (
            {"X_val": X, "y_val": dy},
            "^X_val must be a Dask array, data frame or series, not ndarray",
        ),
        ({"X_val": dX, "y_val": y}, "^y_val must be a Dask array"),
        (
            {"X_val": dX, "y_val": dy, "sample_weight_val": y},
            "^sample_weight_val must be a Dask array",
        ),
        (
            {"X_val": dX, "y_val": divided(y, size=500)[0]},
            "^y_val has 3 partitions, but X_val has 4",
        ),
        ({"X_val": dX.rechunk((400, 3)), "y_val": dy}, "^X_val is split into 2 .* X_val.rechunk"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            model.fit(dX, dy, **given)
    with pytest.raises(ValueError, match="timeout=0 is not allowed"):
        DaskVectorTreeBoostClassifier(client=client, timeout=0).fit(dX, dy)
    model.set_params(timeout=0.5).fit(dX, dy)
    for method in METHODS:
        with pytest.raises(
            ValueError,
            match=r"^X is split into 2 chunks of columns; keep rows whole with X.rechunk",
        ):
            getattr(model, method)(dX.rechunk((400, 3)))


def test_copies_have_the_client_and_pickles_have_not(client):
    X, y = rows(200)
    model = DaskVectorTreeBoostClassifier(client=client, class_weight={0: 2.0}, **PARAMS).fit(
        *divided(X, y)
    )
    for one in (
        copy.copy(model),
        copy.deepcopy(model),
        clone(model),
        pickle.loads(pickle.dumps(model)),
    ):
        assert one.get_params() | {"client": client} == model.get_params()
        if hasattr(one, "model_"):
            assert np.array_equal(one.predict(X), model.predict(X))
    assert one.client is None and one.timeout == 300
    assert copy.copy(model).client is copy.deepcopy(model).client is clone(model).client is client
    assert copy.deepcopy(model).class_weight is not model.class_weight
    assert not hasattr(clone(model), "model_")
    assert clone(model).fit(*divided(X, y)).model_.to_bytes() == model.model_.to_bytes()


def test_parameters_are_those_of_the_estimator():
    own = set(inspect.signature(VectorTreeBoostClassifier).parameters)
    assert set(inspect.signature(DaskVectorTreeBoostClassifier).parameters) == own | {
        "client",
        "timeout",
    }
    assert "client :" in DaskVectorTreeBoostClassifier.__doc__


@contextmanager
def ctrl_c(client, before=lambda: None):
    """Ctrl-C once both workers are in a round, after ``before``."""
    main = threading.get_ident()
    seen = []
    ended = threading.Event()

    def watch():
        while not ended.wait(0.05):
            if sum("in one_round" in str(stack) for stack in client.call_stack().values()) == 2:
                seen.append(True)
                before()
                signal.pthread_kill(main, signal.SIGALRM)
                return

    thread = threading.Thread(target=watch)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGALRM, old)
    assert seen


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")


@needs_signals
def test_ctrl_c_ends_the_training_on_the_workers(client):
    """They are free for other tasks soon, also in folds, before the first round that counts."""
    X, y = rows(4000)
    given = divided(X, y, size=1000)
    for params in ({"n_estimators": 100_000}, {"n_estimators": "auto", "learning_rate": 1e-4}):
        model = DaskVectorTreeBoostClassifier(client=client, random_state=0, **params)
        with ctrl_c(client):
            model.fit(*given)
        small = [
            client.submit(int, 1, workers=[one], pure=False)
            for one in client.scheduler_info()["workers"]
        ]
        assert [one.result(timeout=60) for one in small] == [1, 1]
    assert not hasattr(model, "model_")


@pytest.mark.slow
@needs_signals
def test_ctrl_c_does_not_wait_for_a_silent_worker(client, monkeypatch):
    worker = [*client.run(os.getpid).values()][1]
    silent = []
    wakes = threading.Timer(20, os.kill, (worker, signal.SIGCONT))
    monkeypatch.setattr("pymcboost.dask.STOPPING", 1)

    def stop():
        os.kill(worker, signal.SIGSTOP)
        silent.append(time.monotonic())
        wakes.start()

    try:
        with ctrl_c(client, stop):
            DaskVectorTreeBoostClassifier(client=client, n_estimators=100_000).fit(
                *divided(*rows(4000), size=1000)
            )
        assert time.monotonic() - silent[0] < 15
    finally:
        wakes.cancel()
        os.kill(worker, signal.SIGCONT)
        client.restart()  # its tasks look for XGBoost's tracker, which is gone, for half a minute


@needs_signals
def test_a_second_ctrl_c_cancels_the_tasks(client, monkeypatch):
    cancelled = []
    cancel = client.cancel
    run = client.run

    def interrupted(*args, **keywords):
        run(*args, **keywords)
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "run", interrupted)
    monkeypatch.setattr(client, "cancel", lambda tasks: cancelled.extend(tasks) or cancel(tasks))
    with ctrl_c(client):
        DaskVectorTreeBoostClassifier(client=client, n_estimators=100_000).fit(
            *divided(*rows(4000), size=1000)
        )
    assert len(cancelled) == 2
