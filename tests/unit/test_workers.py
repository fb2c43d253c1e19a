"""Trainings whose rows are divided among workers have the model of one worker, byte for byte."""

import numpy as np
import pytest
from divided.threads import ThreadWorkers, numbered, one_model, run
from scipy.sparse import csr_array

from pymcboost import (
    LogitBoostClassifier,
    MCBoostClassifier,
    Model,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.callbacks import Callback, LearningRateSchedule, TrainingLoss
from pymcboost.comm import Alone, WorkerError, shares
from pymcboost.comm.several import Several
from pymcboost.data import tree_data, tree_layouts
from pymcboost.model.rows import positions
from pymcboost.registry import ALGORITHMS, get_class
from pymcboost.training import divided, divided_folds


def rows(m=1500, d=6, K=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1])
    X[rng.random((m, d)) < 0.05] = np.nan
    y = (np.nan_to_num(X[:, 0]) > 0).astype(int) + 2 * (np.nan_to_num(X[:, 1]) > 0.5)
    y[:K] = np.arange(K)
    return X, y


def parts_of(m, size, how, rng):
    if how == "even":
        return np.array_split(np.arange(m), size)
    if how == "random":
        return np.split(rng.permutation(m), np.sort(rng.integers(0, m, size - 1)))
    if how == "empty":
        return [np.arange(m), *(np.arange(0) for _ in range(size - 1))]
    return [np.arange(1), *np.array_split(np.arange(1, m), size - 1)]


def check_workers_agree(X, y, parts, weight=None, held=None, **params):
    """The workers' models are those of one worker."""
    params = {"n_estimators": 6, "random_state": 0, "calibrate": None, **params}
    one_model(VectorTreeBoostClassifier, X, y, parts=parts, weight=weight, held=held, **params)


@pytest.mark.parametrize("how", ["even", "random", "empty", "one row"])
@pytest.mark.parametrize("size", [2, 3])
def test_division_of_the_rows_does_not_change_the_model(how, size):
    X, y = rows()
    check_workers_agree(X, y, parts_of(len(y), size, how, rng=np.random.default_rng(0)))


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, LogitBoostClassifier])
def test_exclusive_columns(cls, monkeypatch):
    """Some exclude each other on one worker alone: they share no lane. Those that always do share one."""
    rng = np.random.default_rng(8)
    m = 12_000
    X = np.zeros((m, 13), dtype=np.float32)
    X[np.arange(m), rng.integers(0, 6, m)] = rng.integers(1, 3, m)
    X[:, 6] = rng.normal(size=m)
    X[np.arange(m), 7 + rng.integers(0, 6, m)] = 1
    X[m // 2 :, 9] = (X[m // 2 :, 8] > 0) | (rng.random(m // 2) < 0.1)
    X[5, 0] = np.nan
    X[5, 1:6] = 0
    y = (X[:, 6] > 0).astype(int) + 2 * (X[:, 0] + X[:, 8] + X[:, 9] > 1)
    lanes = []
    params = {"n_estimators": 6, "calibrate": None, "random_state": 0}
    plan = tree_layouts._plan
    monkeypatch.setattr(
        tree_layouts,
        "_plan",
        lambda *args, **named: lanes.append(plan(*args, **named)) or lanes[-1],
    )
    parts = [np.arange(m // 2), np.arange(m // 2, m)]

    def task(workers):
        part = parts[workers.rank]
        return cls(**params).fit(X[part], y[part], comm=workers).model_.to_bytes()

    if cls is VectorTreeBoostClassifier:
        params["calibrate"] = None
    single_model = cls(**params).fit(X, y)
    lanes.clear()
    by_worker = run(2, task)
    assert set(by_worker) == {single_model.model_.to_bytes()}, by_worker
    assert lanes[0] == lanes[1]
    shared = [lane for lane in lanes[0] if len(lane) > 1]
    assert any(len(lane) > 3 for lane in shared), lanes
    assert not any({8, 9} <= set(lane) for lane in shared)


def more_classes(y, K, seed=3):
    y = np.random.default_rng(seed).integers(0, K, len(y))
    y[:K] = np.arange(K)
    return y


def gradient_hessian(y, scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    g = p.copy()
    g[np.arange(len(y)), y] -= 1
    return g, p * (1 - p)


OPTIONS = {
    "logistic": {"loss": "logistic"},
    "own loss": {"loss": gradient_hessian},
    "full leaf step": {"leaf_step": "full"},
    "all rows": {"subsample": 1.0},
    "balanced": {"class_weight": "balanced"},
    "leaves": {"min_samples_leaf": 20, "max_leaf_nodes": 12, "max_depth": 3},
    "all features": {"max_features": 1.0},
    "monotone": {"monotonic_cst": {0: (3, 1)}},
    "groups": {"interaction_cst": [[0, 1], [2, 3]]},
    "few bins": {"max_bins": 8},
    "small files": {"feature_penalty": 0.3, "threshold_penalty": 0.1, "leaf_levels": 15},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    X, y = rows(500)
    if name == "logistic":
        y = np.stack([y & 1, y >> 1, np.nan_to_num(X[:, 2]) > 0], axis=1).astype(int)
    check_workers_agree(
        X, y, parts_of(len(y), 3, "random", rng=np.random.default_rng(1)), **OPTIONS[name]
    )


@pytest.mark.parametrize(
    ("K", "params"),
    [
        (2, {}),
        (20, {}),
        (40, {}),
        (40, {"split_columns": None}),
        (40, {"max_leaf_entries": 5}),
    ],
)
def test_numbers_of_classes(K, params):
    X, y = rows(800)
    check_workers_agree(
        X, more_classes(y, K), parts_of(len(y), 3, "random", rng=np.random.default_rng(2)), **params
    )


@pytest.mark.parametrize("kind", ["with zeros", "huge"])
def test_weights(kind):
    X, y = rows(800)
    rng = np.random.default_rng(4)
    weight = (
        rng.uniform(0, 5, len(y)) * (rng.random(len(y)) < 0.8)
        if kind == "with zeros"
        else np.exp(rng.normal(0, 8, len(y)))
    )
    parts = parts_of(len(y), 3, "random", rng=rng)
    weight[parts[2]] *= kind == "huge"  # or one worker has no row in use
    check_workers_agree(X, y, parts, weight=weight)


def test_large_and_tiny_data():
    X, y = rows(8000, 8, 12)
    check_workers_agree(X, y, parts_of(len(y), 4, "random", rng=np.random.default_rng(5)))
    X, y = rows(2000)
    check_workers_agree(X, y, parts_of(len(y), 8, "one row", rng=np.random.default_rng(5)))
    X, y = rows(9)
    check_workers_agree(
        X, y, parts_of(9, 4, "random", rng=np.random.default_rng(5)), max_leaf_nodes=5
    )


def test_categories_labels_of_text_and_classes_of_one_worker():
    X, y = rows(900)
    X[:, 4] = np.random.default_rng(6).integers(0, 30, len(y))
    check_workers_agree(
        X, y, parts_of(len(y), 3, "random", rng=np.random.default_rng(6)), categorical_features=[4]
    )
    labels = np.array(["a", "bb", "ccc", "dddd"])[y]
    order = np.argsort(y, kind="stable")
    check_workers_agree(
        X, labels, [order[y[order] < 2], order[y[order] == 2], order[y[order] == 3]]
    )


def test_validation_rows_of_one_worker():
    X, y = rows(900)
    held = {"X_val": X[:200], "y_val": y[:200]}
    params = {"early_stopping": True, "calibrate": "temperature", "n_estimators": 15}
    check_workers_agree(
        X[200:],
        y[200:],
        parts_of(700, 3, "random", rng=np.random.default_rng(7)),
        held=held,
        **params,
    )


@pytest.mark.parametrize("scattered", [np.inf, 0])
def test_sums_are_those_of_the_formulas(scattered, monkeypatch):
    """See docs/scaling.md."""
    monkeypatch.setattr(ThreadWorkers, "scattered", scattered)
    X, y = rows(12_000)
    X[np.isnan(X)] = 0
    y = more_classes(y, 4)  # every tree has all leaves
    params = {
        "n_estimators": 4,
        "calibrate": None,
        "random_state": 0,
        "max_leaf_nodes": 32,
        "subsample": 1.0,
    }
    params["min_relative_gain"] = 0.0

    def task(workers):
        part = np.array_split(np.arange(len(y)), 2)[workers.rank]
        counts = []

        class Count:
            def after_round(self, state):
                counts.append((workers.n_sums, workers.n_bytes, state.history["n_leaves"][-1]))

        VectorTreeBoostClassifier(**params, n_jobs=1).fit(
            X[part], y[part], comm=workers, callbacks=[Count()]
        )
        return np.array(counts)

    counts = run(2, task)[0]
    sums, sent = np.diff(counts[:, 0]), np.diff(counts[:, 1])
    J = counts[1:, 2]
    L = 8
    t = round(3 * 6**0.4)
    B = 256
    K = 4
    messages = 1 if scattered else 2
    assert (sums <= messages * ((J - 1) / 16 + 2 * np.log2(J) + 1) + 11).all()
    assert (sums >= messages * (J - 1) / 16).all()
    splits = (
        (4 * L * t * B + 8 * L * t * B * J)
        if scattered
        else (2 * L * t * B + (4 * L * B + 32) * t * J)
    )
    assert (sent <= 1.5 * (splits + 16 * J * (K + 4)) + 1000).all()
    assert (sent >= 0.8 * splits).all()


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize(
    "how", ["plain", "categories", "costs", "many classes", "bundles", "categories of many classes"]
)
@pytest.mark.part(4)
def test_shares_of_the_features_do_not_change_the_model(how, size, monkeypatch):
    """Equal columns are a tie, also where two workers scan them."""
    monkeypatch.setattr(ThreadWorkers, "scattered", 0)
    X, y = rows(1000)
    X = np.hstack([X, X, X[:, :4]])
    params = {"max_features": 1.0, "n_estimators": 3}
    if "categories" in how:
        X[:, 12:] = np.random.default_rng(1).integers(0, [3, 70, 200, 9], (len(y), 4))
        params = {"categorical_features": [12, 13, 14, 15], "n_estimators": 3}
    elif how == "costs":
        params |= {"feature_penalty": 0.5, "threshold_penalty": 0.5}
    if "many classes" in how:
        y = more_classes(y, 40)
        params["split_columns"] = None
    if how == "bundles":
        X = np.hstack([X, np.arange(30) == np.random.default_rng(1).integers(0, 40, (len(y), 1))])
    check_workers_agree(
        X, y, parts_of(len(y), size, "random", rng=np.random.default_rng(2)), **params
    )


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_shares_are_about_equal(n):
    for sizes in ([7], [256] * 50, np.random.default_rng(0).integers(1, 257, 100)):
        ends = shares(sizes, n)
        assert len(ends) == n + 1
        assert ends[0] == 0
        assert ends[-1] == len(sizes)
        parts = [int(np.sum(sizes[a:b])) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        assert max(parts) <= np.sum(sizes) / n + max(sizes)


@pytest.mark.parametrize("shape", [(7,), (50, 3)])
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_scattered_sums(kind, shape):
    """Of communicators that have nothing but sums of all."""

    def task(workers):
        scattered = []
        for of in (workers, Summing(workers)):
            own = np.random.default_rng(workers.rank).integers(-9, 9, shape).astype(kind)
            lengths = np.array([2, 0, shape[0] - 2])
            found = of.sum_scatter(own, lengths, sure=True)
            assert np.array_equal(found, own[: lengths[workers.rank]])
            scattered.append(found.copy())
        assert np.array_equal(*scattered)
        assert workers.n_sums == 2
        return scattered[0]

    every = [np.random.default_rng(rank).integers(-9, 9, shape) for rank in range(3)]
    assert np.array_equal(np.concatenate(run(3, task)), sum(every))


class Summing(Several):
    def __init__(self, workers):
        self.workers = workers
        self.rank = workers.rank

    def sum(self, array, sure=False):
        return self.workers.sum(array, sure)


def refused(**options):
    params = {"calibrate": None, **options.pop("params", {})}

    def task(workers):
        X, y = rows(200)
        VectorTreeBoostClassifier(**params).fit(X, y, comm=workers, **options)

    return error_of(task)


def error_of(task):
    """The error that two workers have."""
    return min(run(2, task), key=lambda error: isinstance(error, WorkerError))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"params": {"warm_start": True}}, "warm_start works only with one worker"),
        ({"groups": np.zeros(200)}, "groups are not supported with a communicator"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        raise refused(**options)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_communicators_without_an_effect_are_refused(name):
    cls = get_class(name)
    X, y = rows(60)
    booster = cls.booster
    model = cls(n_estimators=1, calibrate=None)
    if name == "hingeboost":
        with pytest.raises(
            TypeError,
            match="unexpected keyword argument 'comm'; VectorTreeBoostClassifier",
        ):
            model.fit(X, y, comm=Alone())
        return
    if not booster.takes_workers:
        with pytest.raises(TypeError, match="trains with one worker and does not support comm"):
            model.fit(X, y, comm=Alone())


def test_integers_of_several_types():
    X, y = rows(200)
    labels = 2**53 + y

    def fit(X, y, **how):
        model = VectorTreeBoostClassifier(n_estimators=2, calibrate=None, random_state=0)
        return model.fit(X, y, **how).model_.to_bytes()

    def task(workers):
        own = slice(workers.rank, None, 2)
        its = labels[own].astype(np.uint64 if workers.rank else np.int64)
        return fit(X[own], its, comm=numbered(workers, np.arange(200)[own]))

    assert run(2, task) == [fit(X, labels, comm=Alone())] * 2


def test_validation_labels_of_several_types_of_integers():
    """Signed and unsigned ones on different workers, or unsigned ones of one: float64 does not tell them apart."""
    X, y = rows(200)
    labels = 2**53 + y

    def curve(workers, unsigned):
        own = np.array_split(np.arange(200), workers.size)[workers.rank]
        held = {"X_val": X[own], "y_val": labels[own].astype(np.uint64 if unsigned else np.int64)}
        model = VectorTreeBoostClassifier(n_estimators=2, calibrate=None, random_state=0)
        return (
            model.fit(X[own], labels[own], **held, comm=workers).history_["val_log_loss"].tolist()
        )

    want = curve(Alone(), False)
    assert curve(Alone(), True) == want
    assert run(2, lambda workers: curve(workers, workers.rank)) == [want] * 2


def test_labels_of_parts_stay_integers():
    parts = np.array([5, 2**53], np.int64), np.array([2**53 + 1], np.uint64), np.zeros(0)
    assert divided.labels_of_parts(parts).tolist() == [5, 2**53, 2**53 + 1]
    drawn = divided.drawn_set(
        Alone(), (np.zeros((1, 1)), parts[1], np.zeros(1), np.ones(1)), np.zeros(1, int)
    )
    assert drawn[1].dtype.kind == "u"


def test_positions_of_labels():
    signed = np.array([-1, 5, 2**53, 2**53 + 1])
    unsigned = np.array([2**53 + 1, 2**53 + 2, 2**64 - 1], np.uint64)
    assert positions(signed, unsigned).tolist() == [3, -1, -1]
    assert positions(unsigned, signed).tolist() == [-1, -1, -1, 0]
    assert positions(np.array(["a", "b"]), np.array([1, "b", None], object)).tolist() == [-1, 1, -1]
    lists = np.array(["b", None, None], object)
    lists[1] = ["a"]
    lists[2] = ("a", ["b"])
    assert positions(np.array(["a", "b"]), lists).tolist() == [1, -1, -1]


def test_unequal_workers_are_refused():
    X, y = rows(200)
    with pytest.raises(ValueError, match="X has 5 columns on worker 1, but 6 on worker 0"):
        raise error_of(
            lambda w: VectorTreeBoostClassifier(calibrate=None).fit(X[:, w.rank :], y, comm=w)
        )
    with pytest.raises(ValueError, match="text labels on some workers and numbers on others"):
        raise error_of(
            lambda w: VectorTreeBoostClassifier(calibrate=None).fit(
                X, y.astype("iU"[w.rank]), comm=w
            )
        )
    S = csr_array(np.nan_to_num(X))
    with pytest.raises(ValueError, match="X is sparse on some workers and dense on others"):
        raise error_of(
            lambda w: VectorTreeBoostClassifier(calibrate=None).fit(S if w.rank else X, y, comm=w)
        )
    with pytest.raises(
        TypeError, match="SAMMEClassifier trains with one worker .* support comm; VectorTreeBoost"
    ):
        raise error_of(lambda w: SAMMEClassifier().fit(X, y, comm=w))
    with pytest.raises(TypeError, match="comm must be an mpi4py communicator"):
        VectorTreeBoostClassifier().fit(X, y, comm=3)


def test_error_of_one_worker_is_one_of_all():
    X, y = rows(200)

    def task(workers):
        own = X.copy()
        own[3, 2] = np.inf if workers.rank else 0
        VectorTreeBoostClassifier(calibrate=None).fit(own, y, comm=workers)

    first, second = run(2, task)
    assert isinstance(first, WorkerError)
    assert "column 2: inf is infinite" in str(first)
    assert isinstance(second, ValueError)


class Ends(Callback):
    def before_training(self, state):
        return True


def test_a_training_that_one_worker_ends_before_it_begins_ends_in_all():
    for error in errors_of(callbacks=[[], [Ends()]]):
        assert getattr(error, "n_estimators_", error) == 0


@pytest.mark.parametrize("most", [divided_folds.MOST_HELD, 50])
@pytest.mark.parametrize(
    "cls", [VectorTreeBoostClassifier, LogitBoostClassifier, MCBoostClassifier]
)
@pytest.mark.part(5)
def test_training_loss_is_that_of_the_rows_of_all(cls, most, monkeypatch):
    """Each worker has the numbers of one, or those of some rows that are drawn, the same however they are divided."""
    monkeypatch.setattr(divided_folds, "MOST_HELD", most)
    X, y = rows(300)
    weight = np.arange(300) % 3 / 2
    number = np.random.default_rng(2).permutation(300)
    loss = ["log_loss", "error"]

    def curves(part, workers):
        model = cls(n_estimators=3, calibrate=None, random_state=0)
        options = {"comm": numbered(workers, number[part]), "callbacks": [TrainingLoss(loss)]}
        history = model.fit(X[part], y[part], weight[part], **options).history_
        return [history[f"train_{name}"].tolist() for name in loss]

    divisions = [
        parts_of(300, 2, how, rng=np.random.default_rng(0)) for how in ("even", "random", "empty")
    ]
    found = [
        one
        for parts in divisions
        for one in run(2, lambda w, parts=parts: curves(parts[w.rank], w))
    ]
    assert found == [found[0]] * 6
    assert (found[0] == curves(np.arange(300), Alone())) is (most > 300)


def test_training_loss_of_several_workers_takes_no_functions():
    for error in errors_of(callbacks=[[TrainingLoss("accuracy")], [TrainingLoss("accuracy")]]):
        assert "TrainingLoss: scoring='accuracy' needs all rows in one place" in str(error)
        assert "use 'log_loss', 'error', 'balanced_error' or 'auc_ovr'" in str(error)


@pytest.mark.parametrize("one", [TrainingLoss(), LearningRateSchedule(lambda t: 0.5)])
@pytest.mark.parametrize("rank", [0, 1])
def test_callbacks_that_all_workers_need(one, rank):
    for error in errors_of(callbacks=[[one], []][:: 1 - 2 * rank]):
        message = f"worker 1 has {rank} {type(one).__name__}, but worker 0 has {1 - rank}; give all workers the same"
        assert message in str(error)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            ["error"],
            ["log_loss"],
            "scoring of callbacks is ['log_loss'] on worker 1, but ['error'] on worker 0",
        ),
        (
            ["error"],
            ["log_loss", "error"],
            "worker 1 has 2 TrainingLoss, but worker 0 has 1; give all workers the same",
        ),
        (
            [["error", "log_loss"]],
            ["error"],
            "['error'] on worker 1, but ['error', 'log_loss'] on worker 0",
        ),
    ],
)
def test_training_losses_that_differ_are_refused(first, second, words):
    for error in errors_of(callbacks=[list(map(TrainingLoss, its)) for its in (first, second)]):
        assert words in str(error)


def test_training_losses_of_the_same_metrics():
    """Whatever names them, and in any order."""
    for given in ((None, "log_loss"), (["error", "log_loss"], ["log_loss", "error"])):
        first, second = errors_of(callbacks=[[TrainingLoss(one)] for one in given])
        assert (
            first.history_["train_log_loss"].tolist() == second.history_["train_log_loss"].tolist()
        )


def test_models_that_differ_are_refused():
    rates = [[LearningRateSchedule(lambda t, rate=rate: rate)] for rate in (0.5, 0.25)]
    for error in errors_of(callbacks=rates):
        assert isinstance(error, WorkerError)
        assert "worker 1 has a different model than worker 0" in str(error)


@pytest.mark.parametrize("where", ["data.rows", "training.memory"])
def test_workers_of_one_machine_share_its_memory(where, monkeypatch):
    (X, y), room = rows(200), [2000]
    monkeypatch.setattr(tree_data.TreeData, "store_bytes", lambda *_: 1000)
    monkeypatch.setattr("pymcboost.training.memory.needed", lambda parts: 1000)
    monkeypatch.setattr(f"pymcboost.{where}.available_memory", lambda: room[0])

    def fit(workers):
        return VectorTreeBoostClassifier(n_estimators=1, calibrate=None).fit(X, y, comm=workers)

    assert [type(one) for one in run(2, fit)] == [VectorTreeBoostClassifier] * 2
    room[0] = 1998
    for found in run(2, fit):
        assert "needs about 1000 bytes" in str(found), found
        assert "999 bytes are free for each of the 2 workers on this machine" in str(found)
    fit(Alone())


FITS = "init_model", "X_val", "y_val", "callbacks"


def errors_of(y=None, size=2, **given):
    """What workers raise whose parameters, or arguments of fit, are these, one for each."""
    X, labels = rows(300)
    y = labels if y is None else y

    def task(workers):
        its = {name: values[workers.rank] for name, values in given.items()}
        options = {name: its.pop(name) for name in FITS if name in its}
        model = VectorTreeBoostClassifier(**{"n_estimators": 2, "calibrate": None, **its})
        return model.fit(X, y, comm=workers, **options)

    return run(size, task)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n_estimators", [2, 3]),
        ("max_bins", [16, 32]),
        ("leaf_step", ["diagonal", "full"]),
        ("leaf_levels", [None, 3]),
        ("interaction_cst", [[np.arange(3), np.arange(3, 6)], [np.arange(2), np.arange(2, 6)]]),
        ("learning_rate", [1, 1.0]),
    ],
)
def test_parameters_that_differ_are_refused_by_name(name, values):
    for error in errors_of(**{name: values}):
        assert isinstance(error, ValueError | WorkerError), error
        assert f"{name} is" in str(error) and "give all workers the same" in str(error)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("class_weight", [dict.fromkeys(range(4), 1), dict.fromkeys((2, 0, 1, 3), 1)]),
        ("interaction_cst", [[np.arange(3), np.arange(3, 6)]] * 2),
    ],
)
def test_parameters_are_compared_by_their_values(name, values):
    first, other = (model.model_.to_bytes() for model in errors_of(**{name: values}))
    assert first == other


def test_a_parameter_that_one_worker_refuses_ends_all():
    errors = errors_of(leaf_levels=[3, 999])
    assert isinstance(errors[1], ValueError) and isinstance(errors[0], WorkerError), errors
    assert "leaf_levels=999" in str(errors[0])


def test_other_numbers_of_labels_are_refused():
    X, y = rows(300)
    y = np.stack([y & 1, y >> 1, y == 0], axis=1).astype(int)

    def task(workers):
        model = VectorTreeBoostClassifier(loss="logistic", n_estimators=2, calibrate=None)
        return model.fit(X, y[:, : 2 + workers.rank], comm=workers)

    for found in run(2, task):
        assert "the rows of y have shape (3,) on worker 1, but (2,) on worker 0" in str(found)


def test_arguments_that_one_worker_refuses_end_all():
    for error in errors_of(callbacks=[[], [3]]):
        assert "callback" in str(error)


def test_models_of_some_workers_are_refused():
    X, y = rows(300)
    for error in errors_of(init_model=[VectorTreeBoostClassifier(n_estimators=1).fit(X, y), None]):
        assert "init_model is given on some workers only" in str(error)


def test_other_models_to_go_on_from_are_refused_before_the_rounds():
    X, y = rows(300)
    models = [VectorTreeBoostClassifier(n_estimators=n, calibrate=None).fit(X, y) for n in (1, 2)]
    for error in errors_of(init_model=models):
        assert "init_model is 'a model with SHA-256 " in str(
            error
        ) and "on worker 1, but 'a model with" in str(error)


def test_validation_sets_without_rows_or_labels_are_refused_in_words():
    X, y = rows(20)
    for error in errors_of(X_val=[X[:0]] * 2, y_val=[y[:0]] * 2):
        assert "validation set" in str(error), error
    for error in errors_of(X_val=[X, X], y_val=[y, None]):
        assert "labels on some workers only" in str(error) or "y_val" in str(error), error


@pytest.mark.parametrize("codes", [True, False])
def test_categories_that_only_some_workers_have(codes):
    X, y = rows(600)
    parts = [np.arange(300), np.arange(300, 600)]
    X[:, 4] = np.concatenate([np.arange(300) % 5, 3 + np.arange(300) % 9])
    if codes:
        check_workers_agree(X, y, parts, categorical_features=[4])
        return
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    frame["e"] = pandas.Categorical([f"level {int(code)}" for code in X[:, 4]])
    params = {"n_estimators": 4, "calibrate": None, "random_state": 0}
    single_model = VectorTreeBoostClassifier(**params).fit(frame, y)

    def task(workers):
        part = parts[workers.rank]
        return (
            VectorTreeBoostClassifier(**params)
            .fit(frame.iloc[part], y[part], comm=workers)
            .model_.to_bytes()
        )

    by_worker = run(2, task)
    assert [its == single_model.model_.to_bytes() for its in by_worker] == [True, True], by_worker


@pytest.mark.parametrize("series", [False, True])
def test_parts_of_a_validation_frame_keep_names_and_types(series):
    """Each worker gives a part of it, with the categories of its own rows."""
    X, y = rows()
    X[:, 4] = np.random.default_rng(0).integers(0, 12, len(y))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    frame["e"] = [f"level {int(code)}" for code in X[:, 4]]
    labels = pandas.Series(y) if series else y

    def part_of(part):
        own = frame.iloc[part].copy()
        own["e"] = pandas.Categorical(own["e"])
        return own, labels.iloc[part] if series else labels[part]

    params = {"n_estimators": 6, "random_state": 0, "n_jobs": 1, "early_stopping": True}
    whole = np.arange(len(y) - 90)
    held = np.arange(len(y) - 90, len(y))
    X_val, y_val = part_of(held)
    single_model = VectorTreeBoostClassifier(**params).fit(
        *part_of(whole), X_val=X_val, y_val=y_val
    )
    parts, held_parts = np.array_split(whole, 3), np.array_split(held, 3)

    def task(workers):
        X_own, y_own = part_of(held_parts[workers.rank])
        model = VectorTreeBoostClassifier(**params)
        return model.fit(
            *part_of(parts[workers.rank]), X_val=X_own, y_val=y_own, comm=workers
        ).model_.to_bytes()

    by_worker = run(3, task)
    assert [type(its) for its in by_worker] == [bytes] * 3, by_worker
    assert set(by_worker) == {single_model.model_.to_bytes()}


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_parts_of_a_validation_set_go_by_name_in_every_library(library):
    """Columns in another order are refused as with one worker; categories are known by their names."""
    frames = pytest.importorskip(library)
    X, y = rows(300)
    level = np.array(["u", "v", "w"])[np.random.default_rng(0).integers(0, 3, 300)]
    # each worker has other levels
    level[:100] = "u"
    level[200:] = "w"
    columns = {"a": X[:, 0], "b": X[:, 2], "c": level.tolist()}
    whole = frames.DataFrame(columns) if library == "polars" else frames.table(columns)
    if library == "polars":
        whole = whole.with_columns(frames.col("c").cast(frames.Categorical))
    else:
        whole = whole.set_column(2, "c", whole["c"].dictionary_encode())
    params = {"n_estimators": 5, "random_state": 0, "n_jobs": 1, "early_stopping": True}

    def fit(part, comm, names="abc"):
        own = (
            whole[part.start : part.stop]
            if library == "polars"
            else whole.slice(part.start, len(part))
        )
        model = VectorTreeBoostClassifier(**params)
        model.fit(own, y[part], X_val=own.select(list(names)), y_val=y[part], comm=comm)
        return model.model_.to_bytes(), model.history_["val_log_loss"].tolist()

    single_model = fit(range(300), Alone())
    halves = [range(150), range(150, 300)]
    assert run(2, lambda w: fit(halves[w.rank], w)) == [single_model, single_model]
    for found in run(2, lambda w: fit(halves[w.rank], w, "cba")):
        assert "must be in the same order as they were in fit" in str(found)


def test_frames_that_differ_in_kind_or_columns_are_refused():
    pandas = pytest.importorskip("pandas")
    X, y = rows(300)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    for error in errors_of(X_val=[frame, X], y_val=[y, y]):
        assert "rows of one set are pandas.DataFrame and numpy.ndarray" in str(error)
    for error in errors_of(X_val=[frame, frame.drop(columns="b")], y_val=[y, y]):
        assert "frames of one set have the columns ['a', 'b'" in str(error)


@pytest.mark.parametrize("levels", [["p", "q", "r"], [10, 20, 30]])
def test_rows_of_all_keep_categories(levels):
    """A part may have other levels, none, or the same in another order; names of columns may be numbers."""
    pandas = pytest.importorskip("pandas")
    its = [levels[:2], levels[1:], [None], levels[:2][::-1]]
    frames = [pandas.DataFrame({"c": pandas.Categorical(one), 5: range(len(one))}) for one in its]
    found = divided.rows_of_all(frames)
    assert sorted(found["c"].cat.categories) == levels
    assert found["c"].astype(object).where(found["c"].notna(), None).tolist() == [
        one for part in its for one in part
    ]
    assert found[5].tolist() == [0, 1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize("wanted", [["e"], "from_dtype"])
@pytest.mark.parametrize("rest", [0, 40])
def test_a_worker_without_values_of_a_category(rest, wanted):
    """It has no rows, or a column of missing values; all workers without any are refused."""
    X, y = rows(600)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    frame["e"] = [f"level {code}" for code in np.random.default_rng(0).integers(0, 12, 600)]
    frame.loc[600 - rest :, "e"] = None
    params = {
        "n_estimators": 4,
        "calibrate": None,
        "random_state": 0,
        "categorical_features": wanted,
    }
    one = VectorTreeBoostClassifier(**params).fit(frame, y).model_.to_bytes()
    parts = [np.arange(600 - rest), np.arange(600 - rest, 600)]

    def task(workers, part):
        return (
            VectorTreeBoostClassifier(**params)
            .fit(frame.iloc[part], y[part], comm=workers)
            .model_.to_bytes()
        )

    by_worker = run(2, lambda workers: task(workers, parts[workers.rank]))
    assert [its == one for its in by_worker] == [True, True], by_worker
    if wanted == ["e"]:
        frame["e"] = None
        by_worker = run(2, lambda workers: task(workers, np.arange(600)[workers.rank :: 2]))
        assert "column 4 of X is missing in all rows of all workers" in str(by_worker)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_text_that_reads_as_numbers_on_one_worker(library):
    frames = pytest.importorskip(library)
    X, y = rows(600)
    level = np.where(np.arange(600) < 300, "1", "blue")
    level[::7] = "2"
    columns = {"a": X[:, 0], "b": X[:, 2], "c": level.tolist()}
    whole = frames.table(columns) if library == "pyarrow" else frames.DataFrame(columns)
    params = {"n_estimators": 4, "calibrate": None, "random_state": 0}

    def fit(part, comm):
        own = (
            whole.slice(part.start, len(part))
            if library == "pyarrow"
            else whole[part.start : part.stop]
        )
        return VectorTreeBoostClassifier(**params).fit(own, y[part], comm=comm).model_.to_bytes()

    halves = [range(300), range(300, 600)]
    assert run(2, lambda w: fit(halves[w.rank], w)) == [fit(range(600), Alone())] * 2


def test_a_word_among_the_numbers_of_one_worker_is_refused():
    pandas = pytest.importorskip("pandas")
    X, y = rows(300)
    frame = pandas.DataFrame(X, columns=list("abcdef")).astype({"e": object})
    mixed = frame.assign(e=["low", *frame["e"][1:]])
    text = frame.assign(e="high")
    parts = [text, mixed]

    def task(workers):
        return VectorTreeBoostClassifier(n_estimators=2).fit(parts[workers.rank], y, comm=workers)

    assert "column 'e': 'high' is text (row 0); name the column" in str(run(2, task)[0])


@pytest.mark.parametrize("how", ["even", "random", "empty", "one row"])
@pytest.mark.parametrize(
    "cls", [VectorTreeBoostClassifier, LogitBoostClassifier, MCBoostClassifier]
)
@pytest.mark.part(3)
def test_rows_for_early_stopping_are_drawn_by_their_numbers(cls, how):
    """Model, history and temperature are those of one worker; with sparse rows, weights, and a set that is watched."""
    X, y = rows(900)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    params = {
        "n_estimators": 10,
        "early_stopping": True,
        "n_iter_no_change": 2,
        "random_state": 3,
        "n_jobs": 1,
    }
    params |= {"calibrate": "temperature", "cv": 2, "validation_fraction": 0.4}
    if how == "random":
        X = csr_array(np.nan_to_num(X))

    def fit(part, comm):
        options = {"validation_sets": {"few": (X[:50], y[:50])}, "comm": numbered(comm, part)}
        model = cls(**params).fit(X[part], y[part], weight[part], **options)
        return model.model_.to_bytes(), model.history_["val_log_loss"].tolist()

    single_model = fit(np.arange(len(y)), Alone())
    assert Model.from_bytes(single_model[0]).temperature is not None
    parts = parts_of(len(y), 3, how, rng=np.random.default_rng(0))
    assert run(3, lambda workers: fit(parts[workers.rank], workers)) == [single_model] * 3


def test_few_rows_are_set_aside_where_folds_calibrate():
    """At most 500 where all workers have more than 5,000."""
    X, y = rows(7000)
    params = {
        "n_estimators": 4,
        "early_stopping": True,
        "random_state": 3,
        "max_leaf_nodes": 8,
        "n_jobs": 1,
    }

    def fit(part, comm, **options):
        model = VectorTreeBoostClassifier(**params, **options).fit(
            X[part], y[part], comm=numbered(comm, part)
        )
        return model.model_.with_meta({}).to_bytes()  # which names the parameters

    single_model = fit(np.arange(len(y)), Alone())
    parts = parts_of(len(y), 3, "one row", rng=np.random.default_rng(0))
    assert run(3, lambda workers: fit(parts[workers.rank], workers)) == [single_model] * 3
    assert fit(np.arange(len(y)), Alone(), validation_fraction=500 / len(y)) == single_model
    assert fit(np.arange(len(y)), Alone(), validation_fraction=0.1) != single_model


def test_metrics_of_the_user_see_the_drawn_rows_in_the_order_of_their_numbers():
    X, y = rows(600)
    parts = parts_of(600, 3, "random", rng=np.random.default_rng(0))
    seen = []

    def fit(part, comm):
        def first(model, X, y, weight=None):
            seen.append((np.nan_to_num(X[:5]).tolist(), y[:5].tolist()))
            return 1.0

        params = {
            "n_estimators": 2,
            "early_stopping": True,
            "scoring": first,
            "random_state": 3,
            "calibrate": None,
        }
        VectorTreeBoostClassifier(**params).fit(X[part], y[part], comm=numbered(comm, part))

    run(3, lambda workers: fit(parts[workers.rank], workers))
    fit(np.arange(600), Alone())
    assert len(seen) == 8
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize("several", [False, True])
def test_share_of_each_class_that_is_held_out(several):
    """A class of one row keeps it; other seeds and numbers draw other rows."""
    rng = np.random.default_rng(0)
    codes = np.concatenate((rng.integers(0, 3, 3000), [3], [4] * 10, [5] * 3))
    weight = (rng.random(len(codes)) < 0.9).astype(float)
    weight[3000:] = 1
    if several:
        codes = np.stack((codes, codes), axis=1) % 2
    parts = parts_of(len(codes), 3, "random", rng=rng)

    def held(seed=7, begin=0):
        def task(workers):
            part = parts[workers.rank]
            return part[
                divided.held_out(
                    workers, codes[part], weight[part], fraction=0.1, number=part + begin, seed=seed
                )
            ]

        return np.sort(np.concatenate(run(3, task)))

    held_out = held()
    number = np.arange(len(codes))
    assert np.array_equal(
        held_out, divided.held_out(Alone(), codes, weight, fraction=0.1, number=number, seed=7)
    )
    assert not np.array_equal(held_out, held(8)) and not np.array_equal(held_out, held(7, 1))
    assert (weight[held_out] > 0).all()
    used = np.bincount(codes[weight > 0]) if not several else np.array([(weight > 0).sum()])
    drawn = np.bincount(codes[held_out], minlength=6) if not several else np.array([len(held_out)])
    assert np.array_equal(drawn, np.rint(0.1 * used))
    if not several:
        assert drawn[3:].tolist() == [0, 1, 0]
        most = divided.held_out(Alone(), codes, weight, fraction=0.95, number=number, seed=7)
        assert np.bincount(codes[most], minlength=6)[3:].tolist() == [0, 9, 2]


def test_too_few_rows_for_validation():
    X, y = rows(40)
    params = {
        "early_stopping": True,
        "n_estimators": 5,
        "random_state": 0,
        "validation_fraction": 0.001,
    }
    by_worker = run(
        2, lambda w: VectorTreeBoostClassifier(**params).fit(X[w.rank :: 2], y[w.rank :: 2], comm=w)
    )
    assert all(
        "validation_fraction=0.001 selects none of 40 rows" in str(one) for one in by_worker
    ), by_worker
