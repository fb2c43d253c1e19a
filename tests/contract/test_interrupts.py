"""Whatever stops a fit, the estimator has its old model or the rounds done, whole and usable."""

import pickle
import signal
import sys

import numpy as np
import pytest

from pymcboost.registry import get_class

CONFIGURATIONS = [
    ("mcboost", {}),
    ("mcboost", {"loss": "log", "weak_learner": "tree"}),
    ("abc-logitboost", {"subsample": 0.7}),
    ("vector-tree", {"early_stopping": True}),
    ("multiboost", {}),
    ("multiboost-cw", {"max_passes": 1}),
    ("hingeboost", {}),
    ("hingeboost", {"kernel": "rbf", "scale": True}),
    ("samme", {"weak_learner": "tree"}),
    ("adaboost-mo", {"early_stopping": True}),
]


def some_data(m=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, m)
    return rng.normal(size=(m, 6)) + 0.8 * y[:, None] * rng.normal(size=6), y


@pytest.mark.parametrize("where", ["rows", "start", "new_builder", "prepare", "restart", "model"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize(("name", "more"), CONFIGURATIONS)
def test_a_refit_that_is_stopped_while_it_prepares_changes_nothing(name, more, where, error, monkeypatch):
    X, y = some_data()
    model = get_class(name)(n_estimators=4, random_state=0, **more).fit(X, y)
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
    if not more.get("early_stopping"):
        whole = get_class(name)(n_estimators=7, random_state=0, **more).fit(X, y)
        model.set_params(n_estimators=7, warm_start=True).fit(X, y)
        assert np.mean(model.predict(X) == whole.predict(X)) > 0.95


def test_an_interrupt_before_the_first_round_leaves_an_unfitted_estimator_unfitted(monkeypatch):
    X, y = some_data()
    for name, more in CONFIGURATIONS:
        model = get_class(name)(**more)
        before = vars(model).copy()
        with monkeypatch.context() as patch:
            patch.setattr(type(model).booster, "round", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
        assert vars(model) == before


def interrupted_fits(name, more, times, rng):
    """Fits that a signal interrupts at random moments; how many were, and how many of those kept new rounds."""
    X, y = some_data(seed=1)
    other_X, other_y = some_data(seed=2)
    model = get_class(name)(n_estimators=30, random_state=0, **more).fit(other_X, other_y)
    old, lost, new = pickle.dumps(vars(model)), 0, 0
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        model.fit(X, y)  # what is loaded once is loaded
        longest = 0.002
        for _ in range(times):
            vars(model).clear()
            vars(model).update(pickle.loads(old))
            scores = model.decision_function(other_X)
            interrupted = False
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, longest))
                model.fit(X, y)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted = True
            lost += not interrupted
            longest = longest * 0.8 if not interrupted else longest * 1.1
            assert model.predict(X).shape == y.shape
            assert len({len(values) for values in model.history_.values()}) <= 1
            assert all(len(values) == model.n_estimators_ for values in model.history_.values())
            if np.array_equal(model.decision_function(other_X), scores):
                continue
            new += interrupted
            assert model.n_estimators_ == 30 or interrupted or model._ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    return times - lost, new


@pytest.mark.skipif(sys.platform == "win32", reason="needs interval timers")
@pytest.mark.parametrize("times", [4, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "more"), CONFIGURATIONS)
@pytest.mark.filterwarnings("ignore")
def test_signals_at_random_moments(name, more, times):
    hit, _ = interrupted_fits(name, more, times, np.random.default_rng(times))
    assert hit >= times // 4
