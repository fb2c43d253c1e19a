"""Rules of one line that larger tests do not see: each test fails when its line is changed."""

import os
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.utils.validation import check_is_fitted

from pymcboost import (
    ABCMartClassifier,
    AdaBoostMOClassifier,
    HingeBoostOCClassifier,
    JointBoostClassifier,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    MultiBoostCWClassifier,
    SvmlightError,
    files,
    load_svmlight,
    threads,
)
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.cli import train
from pymcboost.cli.answers import codes_of
from pymcboost.comm import Alone
from pymcboost.data import rows
from pymcboost.data.merging import merged_columns
from pymcboost.data.stump_data import DividedData, TrainingData
from pymcboost.data.svmlight import CHUNK
from pymcboost.hinge import columns
from pymcboost.hinge import data as machine_data
from pymcboost.hinge.columns import max_cut, pair_weights
from pymcboost.hinge.rounds import CodeRounds
from pymcboost.learners import class_trees
from pymcboost.learners.sampling import Resampled
from pymcboost.losses.summed import SUMMED
from pymcboost.model.builders import EnsembleBuilder
from pymcboost.model.entries import LeafEntries
from pymcboost.solvers.newton import NewtonExp
from pymcboost.training.calibration import priors
from pymcboost.training.fitting import Training
from pymcboost.training.meta import meta_of
from pymcboost.training.parameters import PARAMETERS, of_type, parameters


def test_validation_scores_of_stumps_are_the_scorers_bits():
    rng = np.random.default_rng(0)
    builder = EnsembleBuilder(3, 4)
    for t in range(40):
        left = rng.normal(size=3) if t % 3 == 0 else None
        builder.add_stump(t % 4, rng.normal(), bool(t % 2), right=rng.normal(size=3), left=left)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.4] = np.nan
    stumps = builder.freeze()
    sums = np.zeros((200, 3))
    stumps.add_scores_to(sums, X)
    np.testing.assert_array_equal(sums, stumps.scores(X))


@pytest.mark.parametrize(
    ("name", "before", "after"), [("decoder", "linear", "exp"), ("code", "one-vs-all", "all-pairs")]
)
def test_a_warm_start_keeps_code_and_decoder(name, before, after):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + y[:, None]
    model = AdaBoostMOClassifier(n_estimators=3, warm_start=True, **{name: before}).fit(X, y)
    with pytest.raises(
        ValueError, match=f"the existing model has {name}='{before}', but now it is '{after}'"
    ):
        model.set_params(n_estimators=5, **{name: after}).fit(X, y)


@pytest.mark.parametrize(
    ("n_jobs", "cpus", "meant"),
    [(None, 4, 4), (-1, 4, 4), (-2, 4, 3), (-4, 4, 1), (-9, 4, 1), (1, 4, 1), (3, 2, 3)],
)
def test_threads_meant_by_n_jobs(n_jobs, cpus, meant, monkeypatch):
    monkeypatch.setattr(threads, "available_cpus", lambda: cpus)
    assert threads.resolve_n_jobs(n_jobs) == meant


def test_one_thread_asks_for_no_limit(monkeypatch):
    """Counting the CPUs takes longer than scoring one row."""
    monkeypatch.delattr(os, "cpu_count")
    monkeypatch.delattr(threads, "_threadpool_limit")
    assert threads.resolve_n_jobs(1) == 1


TRAINING = '''
import os, resource, sys, time
import numpy as np
from threadpoolctl import threadpool_limits
from pymcboost.registry import get_plain_class  # without scikit-learn, which takes a second to load
MartClassifier = get_plain_class("mart")
X = np.random.default_rng(0).normal(size=(40_000, 40)).astype(np.float32)
y = np.digitize(X[:, 0], [-1, 1])
new = MartClassifier(n_estimators=2, n_jobs=4, calibrate=None)

def begun_by(fit, most=0):
    """Threads that fits begin, up to ``most``: beside busy processes, a fit may work alone for a while."""
    before, until = len(os.listdir("/proc/self/task")), time.monotonic() + 30
    while True:
        fit(X, y).predict(X)
        begun = len(os.listdir("/proc/self/task")) - before
        if begun >= most or time.monotonic() > until:
            return begun
'''


def run_training(code):
    settings = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "4"}
    command = [sys.executable, "-c", TRAINING + code]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings})


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are counted in /proc")
def test_limits_of_threadpoolctl_hold():
    code = """
import importlib.util, joblib, types
# The module by which the limits are read, without the rest of scikit-learn.
(folder,) = importlib.util.find_spec("sklearn").submodule_search_locations
for name, path in {"sklearn": folder, "sklearn.utils": os.path.join(folder, "utils")}.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
import sklearn.utils._openmp_helpers
for limit, most in (1, 0), (2, 1), (None, 2):
    with threadpool_limits(limit):
        print(begun_by(new.fit, most))
"""
    done = run_training(code)
    # The threads of one training stay for the next.
    assert done.stdout.split() == ["0", "1", "2"], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux counts threads")
def test_a_process_that_may_start_no_thread_trains_alone():
    """Root may start any number, and becomes another user first."""
    code = """
MartClassifier(n_estimators=1, n_jobs=1).fit(X[:100], y[:100])  # imports what it needs: another user may not read it
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
if os.geteuid() == 0:
    os.setuid(54321)
for _ in range(2):
    print(begun_by(new.fit))
"""
    done = run_training(code)
    assert done.stdout.split() == ["0", "0"], done.stderr


def test_small_work_has_one_thread():
    assert threads.threads_for(threads.SMALL_WORK - 1, 8) == 1
    assert threads.threads_for(threads.SMALL_WORK, 8) == 8


@pytest.mark.parametrize("seed", range(20))
def test_no_single_change_makes_a_maximum_cut_larger(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 30))
    rho = rng.exponential(size=(200, K)) ** 3
    weights = pair_weights(rho, rng.integers(0, K, 200).astype(np.int32))
    column = max_cut(weights, rng).astype(float)

    def cut(column):
        return float((weights * (column[:, None] != column[None, :])).sum())

    largest_cut = cut(column)
    for k in range(K):
        other = column.copy()
        other[k] *= -1
        assert cut(other) <= largest_cut * (1 + 1e-12)


def test_the_relaxation_of_a_cut_is_solved_and_not_only_begun(monkeypatch):
    def total():
        found = 0.0
        for seed in range(5):
            rng = np.random.default_rng(seed)
            weights = rng.exponential(size=(60, 60)) ** 4
            weights = weights + weights.T
            np.fill_diagonal(weights, 0.0)
            found += float(columns.cut(weights, columns.max_cut(weights, rng)[None, :])[0])
        return found

    solved = total()
    monkeypatch.setattr(columns, "SWEEPS", 1)
    assert solved > total()


def test_joint_boosting_ends_where_nothing_is_explained_and_not_before():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    with pytest.warns(UserWarning, match="the model is constant"):
        model = JointBoostClassifier(n_estimators=5).fit(np.ones((240, 2)), y)
    check_is_fitted(model)
    assert model.n_estimators_ == 0
    # A share of the squares as small as this is still worth a round.
    faint = (rng.random((240, 1)) + 0.02 * (y == 1)[:, None]).astype(np.float32)
    assert JointBoostClassifier(n_estimators=60).fit(faint, y).n_estimators_ == 60


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
def test_class_trees_without_a_split_say_so(cls):
    X = np.arange(60.0)[:, None]
    y = np.repeat([0, 1, 2], [10, 20, 30])
    options = {"n_estimators": 3, "calibrate": None}
    for bound, X_fit, done in (
        ({}, np.ones_like(X), 3),
        ({"min_samples_leaf": 1000}, X, 3),
        ({"min_gain": 1e9}, X, 0),
    ):
        with pytest.warns(UserWarning, match="no weak learner .*: the model is constant"):
            model = cls(**options, **bound).fit(X_fit, y)
        assert model.n_estimators_ == done and len(np.unique(model.predict_proba(X), axis=0)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = cls(**options).fit(X, y)
        # Rounds without a split, after some that have one: the model is not constant.
        cls(**options, min_samples_leaf=1000).fit(X, y, init_model=first)


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_ends_of_the_ranges(name):
    row = of_type(PARAMETERS[name], float)
    if row.low is not None:
        assert row.allows(row.low) != row.open_low
        assert row.allows(np.nextafter(row.low, np.inf))
        assert not row.allows(np.nextafter(row.low, -np.inf))
    if row.high is not None:
        assert row.allows(row.high) != row.open_high
        assert row.allows(np.nextafter(row.high, -np.inf))
        assert not row.allows(np.nextafter(row.high, np.inf))


def test_which_ends_are_open():
    ends = {name for name, row in PARAMETERS.items() if row.open_high}
    assert ends == {"min_weight_fraction_split"}
    assert parameters(MartClassifier)["learning_rate"].open_low


@pytest.mark.parametrize("line", [1, 2, 3, 7, 40_000, 60_000])
@pytest.mark.parametrize("between", ["", "# a comment\n", "\n", "\r\n"])
def test_the_line_of_an_error_is_the_right_one(line, between, tmp_path):
    """In the first chunk of a file and in later ones, with lines between that hold no row."""
    rows = [f"{i % 3} 1:0.5 2:{i}\n" for i in range(line - 1)]
    text = between.join([*rows, "1 1:0.5 x:2\n", "2 1:1\n"])
    if line >= 40_000:
        assert len(text) > CHUNK
    path = tmp_path / "bad.svm"
    path.write_bytes(text.encode())
    expected = line if not between else 2 * line - 1
    with pytest.raises(SvmlightError, match=rf"bad\.svm:{expected}:"):
        load_svmlight(path)


@pytest.mark.parametrize(("tol", "goes_on"), [(1.0, False), (np.nextafter(1.0, 0), True)])
def test_margins_as_large_as_the_tolerance_ask_for_no_machine(tol, goes_on):
    data = SimpleNamespace(
        features=np.array([[0.0], [1]]),
        sparse=False,
        y=np.array([0, 1], dtype=np.int32),
        n_rows=2,
        n_classes=2,
    )
    asked = []

    def solve(*given):
        asked.append(given)
        raise StopIteration

    rounds = CodeRounds(
        data,
        SimpleNamespace(solve=solve),
        1 - np.eye(2),
        C=1.0,
        init="one-vs-all",
        n_colourings=1,
        max_alternations=1,
        allow_zero=False,
        tol=tol,
        seed=0,
    )
    rounds.restart(None)
    if goes_on:
        with pytest.raises(StopIteration):
            rounds.round(0)
    else:
        assert rounds.round(0) is None
    assert bool(asked) == goes_on


@pytest.mark.parametrize("sign", [-1, 1])
def test_one_row_that_is_drawn_gives_a_column_its_sign(sign):
    outputs = np.zeros((1, 6), dtype=np.int8)
    data = SimpleNamespace(zeros=np.zeros)
    learner = SimpleNamespace(
        shared=False, n_columns=1, outputs=outputs, data=data, fit=lambda gradient: [], n_threads=1
    )
    gradient = aligned_zeros((1, 6, 4), np.float64)
    gradient[0, 2, 0] = 0.3 * sign
    (found,) = Resampled(learner, 1 / 6, constants=True).fit(gradient, np.random.default_rng(0))
    assert (found.h == sign).all() and found.edge == pytest.approx(0.3)


def test_leaves_of_trainings_that_draw_no_rows_weigh_what_was_asked():
    X = (np.arange(200) < 30).astype(float)[:, None]
    options = {"weak_learner": "tree", "min_weight_fraction_leaf": 0.1, "n_estimators": 1}
    model = MultiBoostCWClassifier(**options).fit(X, X[:, 0].astype(int))
    np.testing.assert_array_equal(model.predict(X), X[:, 0])


def test_steps_of_a_fixed_size_end_at_the_penalty_too():
    X = np.arange(60.0).reshape(-1, 1)
    options = {"n_estimators": 8, "fixed_step": 0.1}
    assert MCBoostClassifier(**options).fit(X, X[:, 0] // 20).n_estimators_ == 8
    with pytest.warns(UserWarning, match="no weak learner separates the classes"):
        assert MCBoostClassifier(**options, nu=1.0).fit(X, X[:, 0] // 20).n_estimators_ == 0


@pytest.mark.parametrize(("more", "dtype"), [(0, np.float64), (-1, np.float32)])
def test_small_data_are_those_up_to_the_bound(more, dtype, monkeypatch):
    def data():
        return TrainingData(
            np.arange(40.0)[:, None], np.arange(40) % 3, 3, sample_weight=np.ones(40)
        )

    monkeypatch.setattr(rows, "SMALL_DATA", 40 * data().lanes * data().n_blocks + more)
    assert data().dtype == dtype


def test_memory_of_linear_rounds_of_sparse_rows(monkeypatch):
    asked = []
    monkeypatch.setattr(machine_data, "_refuse", lambda size, *words: asked.append(size))
    for entries in (None, 5, 10**6):
        machine_data.LinearBuilder(3, 100, None, n_rounds=7, entries=entries)
    assert asked == [7 * 800, 7 * 80, 7 * 800]


def test_sums_of_workers_have_room_where_one_class_is_large():
    """Nearly all rows are of a class that is nowhere near the largest score."""
    y = np.where(np.arange(300) < 30, np.arange(300) % 20, 0)
    X = np.arange(300.0)[:, None]
    F = np.zeros((300, 20))
    F[np.arange(300), y] = -40
    data = DividedData(X, y, 20, sample_weight=np.ones(300), comm=Alone())
    loss = SUMMED["log"](data, 1)
    loss.start(F[data.rows])
    assert loss.mass == pytest.approx(300 * 19, rel=1e-6)


@pytest.mark.parametrize(("n", "shown"), [(38, "'{}' is text"), (39, "'{}... is text")])
def test_texts_of_more_than_40_characters_are_cut(n, shown):
    X = np.array([["x" * n], ["y"]], dtype=object)
    with pytest.raises(ValueError, match=re.escape(shown.format("x" * n))):
        MartClassifier().fit(X, [0, 1])


def test_without_a_penalty_the_diagonal_does_not_blur_the_minimum():
    tables = np.random.default_rng(0).exponential(size=(2, 3, 3))
    for table in tables:
        np.fill_diagonal(table, 0.0)

    def fit(diagonal):
        loss = SimpleNamespace(
            side_tables=lambda h: tables.copy(),
            diagonal=diagonal,
            data=SimpleNamespace(comm=Alone()),
        )
        return NewtonExp(3, 0.0).fit(loss, None)[0]

    assert fit(0.0).any()
    np.testing.assert_array_equal(fit(1e12), fit(0.0))


def test_temporary_names_where_the_longest_is_not_known(monkeypatch):
    def unknown(*given):
        raise OSError

    monkeypatch.setattr(os, "pathconf", unknown)
    assert len(files._stem("", "x" * 300)) + len(files.MARK) + files.DIGITS == 255


def test_no_entry_of_a_leaf_is_minus_zero():
    entries = LeafEntries(
        np.array([0, 2]), np.array([0, 1], dtype=np.uint8), np.array([-0.0, -1.5]), n_classes=3
    )
    assert np.signbit(entries.of_type(np.float32).value).tolist() == [False, True]


def test_meta_has_the_parameters_as_they_are():
    params = meta_of(HingeBoostOCClassifier(init="pairs", allow_zero=True, n_estimators=3))[
        "params"
    ]
    assert (params["init"], params["allow_zero"], params["n_estimators"]) == ("pairs", True, 3)


def test_training_has_reached_machine_accuracy_at_the_bound_itself():
    finished = class_trees.ClassTrees.finished.fget
    bound = class_trees.MACHINE_ACCURACY * 3.0
    assert finished(SimpleNamespace(missing=bound, total=3.0))
    assert not finished(SimpleNamespace(missing=np.nextafter(bound, 1), total=3.0))


def test_only_the_first_of_several_processes_says_how_it_goes(monkeypatch):
    said = []
    monkeypatch.setattr(train, "notifier", lambda program, quiet: said.append(quiet) or str)
    monkeypatch.setattr(train, "run_training", lambda *given: 0)
    for rank in range(3):
        monkeypatch.setattr(train, "begin", lambda arguments, rank=rank: SimpleNamespace(rank=rank))
        assert train.train(["rows.svm", "m.mcb"]) == 0
    assert said == [False, True, True]


@pytest.mark.parametrize(
    ("begin", "constant"),
    [(1.7e9, 1.7e9), (1.7e9 + 5, 1.7e9), (-1.7e9, -1.7e9), (1.2345678e12, 1.2345678e12)],
)
def test_the_constant_to_subtract_has_few_digits(begin, constant):
    X = np.column_stack([np.arange(600.0), begin + np.arange(600)])
    (found,) = merged_columns(X)
    assert (found.column, found.n_distinct, found.constant) == (
        1,
        600,
        constant,
    ) and found.n_left < 10
    assert not merged_columns(X - [0, found.constant])


def test_zeros_among_merged_values_do_not_hide_the_constant():
    X = np.where(np.arange(600) % 3, 1.7e9 + np.arange(600), 0.0)[:, None]
    assert [found.constant for found in merged_columns(X)] == [1.7e9]


def test_priors_are_restored_only_where_it_is_asked_for():
    of_classes = np.arange(2), np.array([1.0, 4.0])
    assert priors(SimpleNamespace(), *of_classes) is None
    assert priors(SimpleNamespace(restore_priors=True), *of_classes) is not None


def test_labels_that_are_no_integers_are_compared_with_all_digits():
    model = SimpleNamespace(classes_=np.array(["0.1234567", "2", "2.5"]))
    assert codes_of(model, np.array([2.5, 0.1234567, 2, 0.123457])).tolist() == [2, 0, 1, -1]


def test_seeds_of_trainings_are_of_31_bits():
    def seed_of(random_state):
        draft = SimpleNamespace(
            random_state=random_state,
            _booster=lambda seed, comm: SimpleNamespace(params=None, seed=seed()),
        )
        return Training(draft, [], Alone()).booster.seed

    seeds = [seed_of(i) for i in range(50)]
    assert len(set(seeds)) == 50 and 2**30 < max(seeds) < 2**31


def test_steps_of_class_wise_trees_are_at_most_50():
    """Labels that are turned over after thirty rounds ask for more."""
    X = np.arange(100.0)[:, None]
    y = np.arange(100) // 50
    options = {"max_leaf_nodes": 2, "learning_rate": 0.5, "min_samples_leaf": 1, "calibrate": None}
    model = MartClassifier(n_estimators=30, warm_start=True, **options).fit(X, y)
    model.set_params(n_estimators=31).fit(X, 1 - y)
    assert np.abs(model.model_.ensemble.leaf).max() == 0.5 * 50 * (2 - 1) / 2


def test_rows_that_are_held_out_come_before_other_validation_sets():
    X = np.arange(120.0)[:, None]
    y = np.arange(120) // 40
    model = MartClassifier(n_estimators=2, early_stopping=True, random_state=0, calibrate=None)
    model.fit(X, y, validation_sets={"more": (X, y)})
    names = [name for name in model.history_ if name.endswith("log_loss")]
    assert names == ["val_log_loss", "more_log_loss"]


@pytest.mark.parametrize(("apart", "found"), [(0.8, 1), (1.2, 0)])
def test_steps_of_a_thousandth_are_looked_at_for_values_that_merge(apart, found):
    """Two groups of whole numbers, so far apart in units of 2^-10 that a first look takes them for close or not."""
    i = np.arange(64)
    X = 1e9 * (1 + apart * 2.0**-10 * (i % 2)) + i
    assert len(merged_columns(X[:, None])) == found
