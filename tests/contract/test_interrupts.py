"""Whatever stops a fit, the estimator has its old model or the rounds done, whole and usable."""

import contextlib
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.programs import environment

import pymcboost
import pymcboost.callbacks
from pymcboost.hinge import coordinate

CONFIGURATIONS = [
    ("MCBoostClassifier", {"loss": "log", "weak_learner": "tree"}),
    ("MCBoostClassifier", {}),
    ("VectorTreeBoostClassifier", {"early_stopping": True}),
    ("ABCLogitBoostClassifier", {"subsample": 0.7}),
    ("MultiBoostCWClassifier", {"max_passes": 1}),
    ("MultiBoostClassifier", {}),
    ("HingeBoostOCClassifier", {"kernel": "rbf", "scale": True}),
    ("HingeBoostOCClassifier", {}),
    ("SAMMEClassifier", {"weak_learner": "tree"}),
    ("AdaBoostMOClassifier", {"early_stopping": True}),
]
of_configurations = pytest.mark.parametrize(("name", "options"), CONFIGURATIONS)
PACKAGE = str(Path(pymcboost.__file__).parent)


def some_data(m=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, m)
    return rng.normal(size=(m, 6)) + 0.8 * y[:, None] * rng.normal(size=6), y


def new(name, **parameters):
    return getattr(pymcboost, name)(**{"random_state": 0, **parameters})


TRAINED = {}


def trained(name, n_estimators, options):
    """A copy of a training that several tests begin with."""
    key = name, n_estimators, repr(options)
    if key not in TRAINED:
        TRAINED[key] = pickle.dumps(
            new(name, n_estimators=n_estimators, **options).fit(*some_data())
        )
    return pickle.loads(TRAINED[key])


def state_of(model):
    """All attributes, such that equal ones are equal."""
    return {attribute: pickle.dumps(value) for attribute, value in vars(model).items()}


def interrupted_at(n, call):
    """Call with a Ctrl-C at the start of the n-th function of the package, None for none; how many were started."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        code = (
            frame.f_code
        )  # a generator that is dropped starts again, to end: no signal is looked for then
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<genexpr>":
            count += 1
            if count == n:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


@of_configurations
@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.part(2)
@pytest.mark.filterwarnings("ignore")
def test_ctrl_c_in_any_function_of_a_refit_leaves_the_old_model_or_whole_rounds(
    name, options, first, monkeypatch
):
    monkeypatch.setattr("pymcboost.threads.FRESH", -1)  # every fit calls the same functions
    X, y = some_data(m=80)
    old_X, old_y = some_data(m=80, seed=2)
    model = new(name, n_estimators=3, **options).fit(old_X, old_y)
    before, kept = state_of(model), pickle.dumps(vars(model))
    model.fit(X, y)  # what is computed once is computed
    many = interrupted_at(None, lambda: model.fit(X, y))
    whole = [
        new(name, **{**options, "n_estimators": n, "early_stopping": False}).fit(X, y)
        for n in range(1, 4)
    ]
    seen = set()
    step = max(2, many // (60 if first else 38))  # the shortest rounds make a 35th of the calls
    for n in sorted({*range(1 + first * step // 2, many + 1, step), *range(many - 3, many + 1)}):
        vars(model).clear()
        vars(model).update(pickle.loads(kept))
        with pytest.raises(KeyboardInterrupt):
            interrupted_at(n, lambda: model.fit(X, y))
        if state_of(model) == before:
            seen.add(0)
            assert n < many, "the last call finds all rounds done"
            continue
        assert model.n_features_in_ == model.model_.n_features_in_ == 6
        assert {len(values) for values in model.history_.values()} == {model.n_estimators_}
        if not options.get("early_stopping"):  # which sets rows aside
            expected = whole[model.n_estimators_ - 1]
            np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(X))
            np.testing.assert_array_equal(model.gain_, expected.gain_)
        if model.n_estimators_ not in seen:
            seen.add(model.n_estimators_)
            model.set_params(warm_start=True, n_estimators=model.n_estimators_ + 1).fit(X, y)
            assert model.decision_function(X).shape == y.shape + model.classes_.shape
    assert {0, 1, 2} <= seen


@pytest.mark.filterwarnings("ignore")
def test_ctrl_c_in_a_refit_leaves_the_scale_and_the_kernel_of_the_old_model():
    """A warm start after it goes on from the old rounds, with the numbers that these have been trained with."""
    X, y = some_data(m=100)
    words = {"kernel": "rbf", "scale": True, "C": 10.0}
    old = new("HingeBoostOCClassifier", n_estimators=3, **words).fit(X, y)
    kept, copies = pickle.dumps(old), [pickle.loads(pickle.dumps(old)) for _ in range(2)]
    uninterrupted_bytes = (
        copies[0].set_params(n_estimators=6, warm_start=True).fit(X, y).model_.to_bytes()
    )
    many, found = interrupted_at(None, lambda: copies[1].fit(1000 * X, y)), []
    for n in range(1, many, max(1, many // 16)):
        model = pickle.loads(kept)
        with contextlib.suppress(KeyboardInterrupt):
            interrupted_at(n, lambda model=model: model.fit(1000 * X, y))
        if model.model_.to_bytes() == old.model_.to_bytes():
            model.set_params(n_estimators=6, warm_start=True).fit(X, y)
            found.append(model.model_.to_bytes() == uninterrupted_bytes)
    assert len(found) > 3
    assert all(found)


def test_a_close_that_fails_keeps_no_other_from_closing(tmp_path):
    class Fails(pymcboost.callbacks.Callback):
        def after_round(self, state):
            if state.n_rounds == 3:
                raise KeyboardInterrupt

        def close(self, state):
            raise ValueError("no window")

    path = tmp_path / "part"
    with pytest.raises(ValueError, match="no window") as caught:
        new("MartClassifier").fit(
            *some_data(), callbacks=[Fails(), pymcboost.Checkpoint(path, every=1000)]
        )
    assert isinstance(caught.value.__context__, KeyboardInterrupt)
    assert pymcboost.load_model(path).n_rounds == 2


@pytest.mark.parametrize("where", ["rows", "start", "new_builder", "prepare", "restart", "model"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@of_configurations
@pytest.mark.part(7)
def test_a_refit_that_is_stopped_while_it_prepares_changes_nothing(
    name, options, where, error, monkeypatch
):
    X, y = some_data()
    model = trained(name, 4, options)
    before, words = vars(model).copy(), model.decision_function(X)

    def stop(self, *args):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(type(model).booster, where, stop)
        with pytest.raises(error):
            model.fit(X[:, :3] * 5, y)
    assert vars(model) == before
    np.testing.assert_array_equal(model.decision_function(X), words)
    # The kernel, its gamma and the scaling are still those of the model.
    if not options.get("early_stopping"):
        whole = trained(name, 7, options)
        model.set_params(n_estimators=7, warm_start=True).fit(X, y)
        assert np.mean(model.predict(X) == whole.predict(X)) > 0.95


def test_an_interrupt_before_the_first_round_leaves_an_unfitted_estimator_unfitted(monkeypatch):
    X, y = some_data()
    for name, options in CONFIGURATIONS:
        model = new(name, **options)
        before = vars(model).copy()
        with monkeypatch.context() as patch:
            patch.setattr(
                type(model).booster, "round", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
            )
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
        assert vars(model) == before


def test_an_interrupt_before_the_first_new_round_changes_nothing(monkeypatch):
    X, y = some_data()
    warm = new("MartClassifier", n_estimators=3, warm_start=True, calibrate="temperature").fit(X, y)
    first, before = warm.model_, state_of(warm)
    fresh = new("MartClassifier", n_estimators=3)
    monkeypatch.setattr(
        type(warm).booster, "round", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    for model, options in (warm.set_params(n_estimators=6), {}), (fresh, {"init_model": first}):
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y, **options)
    assert state_of(warm.set_params(n_estimators=3)) == before
    assert not hasattr(fresh, "model_")


def interrupted_fits(name, options, times, rng):
    """Fits that a signal interrupts at random moments; how many were, and how many of those kept new rounds."""
    X, y = some_data(seed=1)
    other_X, other_y = some_data(seed=2)
    model = new(name, n_estimators=30, **options).fit(other_X, other_y)
    old, before, lost, changed = pickle.dumps(vars(model)), state_of(model), 0, 0
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        all_rounds = model.fit(X, y).n_estimators_  # what is loaded once is loaded
        longest = 0.002
        for _ in range(times):
            vars(model).clear()
            vars(model).update(pickle.loads(old))
            interrupted = False
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, longest))
                model.fit(X, y)
                assert signal.setitimer(signal.ITIMER_REAL, 0)[0] > 0, "a signal came, and was lost"
            except KeyboardInterrupt:
                interrupted = True
            lost += not interrupted
            longest = longest * 0.8 if not interrupted else longest * 1.1
            assert model.predict(X).shape == y.shape
            if state_of(model) == before:
                continue
            changed += interrupted
            assert {len(values) for values in model.history_.values()} == {model.n_estimators_}
            assert model.n_estimators_ == all_rounds or interrupted
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    return times - lost, changed


@pytest.mark.skipif(sys.platform == "win32", reason="needs interval timers")
@pytest.mark.parametrize("times", [4, pytest.param(50, marks=pytest.mark.slow)])
@of_configurations
@pytest.mark.part(4)
@pytest.mark.filterwarnings("ignore")
def test_signals_at_random_moments(name, options, times):
    hit, _ = interrupted_fits(name, options, times, rng=np.random.default_rng(times))
    assert hit >= times // 4


@pytest.mark.skipif(sys.platform == "win32", reason="needs interval timers")
@pytest.mark.parametrize("solver", ["pairwise", "coordinate"])
def test_ctrl_c_ends_a_solve_that_does_not_converge(solver, monkeypatch):
    """Signals are heard again and again: those that come while a kernel does not listen count as one."""
    monkeypatch.setattr(coordinate, "MAX_STEPS", 20_000_000)
    monkeypatch.setattr(coordinate, "EPOCHS", 3_000_000)
    rng = np.random.default_rng(0)
    X, sign, d = (
        rng.normal(size=(300, 4)).astype(np.float32),
        np.where(np.arange(300) % 2, 1.0, -1.0),
        rng.random(300),
    )
    K = 1e6 * (X @ X.T)
    make = {"pairwise": lambda: coordinate.DenseKernel(300, lambda b, e: K[b:e])}
    machine = make.get(solver, lambda: coordinate.LinearRows(1000 * X))()
    heard = []

    def hear(number, frame):
        heard.append(number)
        if len(heard) == 5:
            raise KeyboardInterrupt

    handler = signal.signal(signal.SIGVTALRM, hear)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.03, 0.03)
        with pytest.raises(KeyboardInterrupt):
            machine.solve(sign, d, 1e9, 1e-12)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


# LIBSVM takes all its 10 million steps in the second round, and ten of their seconds at least.
LIBSVM = """
import gc, os, signal, sys, threading, time, warnings
import numpy as np
from pymcboost import HingeBoostOCClassifier
from pymcboost._kernels import svmdual

warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
solve, begun, ended = svmdual.libsvm_train, [], []


def watched(*arguments):
    begun.append(True)
    if interrupting:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        return solve(*arguments)
    finally:
        ended.append(True)


class Harder:
    def after_round(self, state):
        global interrupting
        if state.n_rounds == 1 and C:
            interrupting = True
            state.booster.code_rounds.c *= C
            state.booster.code_rounds.tol = 1e-9


def fit(m):
    global interrupting
    interrupting = False
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(m, 4)), np.arange(m) % 3
    model = HingeBoostOCClassifier(n_estimators=2, kernel="rbf", solver="libsvm", random_state=0)
    try:
        model.fit(X, y, callbacks=[Harder()])
    except KeyboardInterrupt:
        print("interrupted after", model.n_estimators_, "rounds;", len(begun) - len(ended), "solve goes on", flush=True)
    return model


C = 0
whole = fit(400).model_.to_bytes()  # what is imported is imported
svmdual.libsvm_train = watched
C = 1e6
one = fit(200)
C = 0
assert fit(400).model_.to_bytes() == whole, "while another solve goes on"
del one
gc.collect()
while len(ended) < len(begun):  # it ends by itself, on memory that it holds
    rubbish = [np.full(400 * 404, np.nan) for _ in range(20)]
    time.sleep(0.01)
time.sleep(0.1)
assert fit(400).model_.to_bytes() == whole
C = 1e6
fit(1000)
print("out", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_ctrl_c_leaves_a_solve_of_libsvm():
    """The fit ends while the solve goes on, and so does the process."""
    command = [sys.executable, "-c", LIBSVM]
    completed = subprocess.run(
        command, env=environment(OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=300
    )
    left = "interrupted after 1 rounds; 1 solve goes on\n"
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout == left + left + "out\n"
