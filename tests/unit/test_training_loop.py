"""The loop of rounds, its state and its callbacks, on a booster that only counts."""

import numpy as np
import pytest

from pymcboost.comm import ALONE
from pymcboost.training.callbacks import (
    CalibratedCurve,
    Callback,
    EarlyStopping,
    ValidationCurves,
    as_callback,
)
from pymcboost.training.gains import Gains
from pymcboost.training.loop import TrainingState, train


class Counting:
    """A booster whose rounds add 1 to the gain, and end by themselves after ``left``."""

    restart_every = None
    cuts_give_models = True
    workers = ALONE

    def __init__(self, done=0, left=10**9):
        self.n_rounds = done
        self.gain = Gains.of(np.full(1, float(done)))
        self.left = left
        self.added = done
        self.restarts = []
        self.builder = range(done)

    def round(self):
        if self.left == 0:
            return None
        self.left -= 1
        self.added += 1
        self.gain.add(np.zeros(1, dtype=np.int64), 1.0)
        return {"number": self.added}

    def why_ended(self):
        return "none is left"

    def scores(self):
        return self.n_rounds

    def restart(self, scores):
        self.restarts.append(scores)

    def cut(self, n_rounds, gain):
        self.added = self.n_rounds = n_rounds
        self.gain = gain

    def follow(self, validation):
        validation.followed += 1


class Named:
    """A metric by its name and sign alone."""

    def __init__(self, name, sign):
        self.name = name
        self.sign = sign


ERROR = Named("error", 1)


class Errors:
    """Validation rows whose error after every round is given."""

    def __init__(self, errors, before=None):
        self.errors = errors
        self.before = before
        self.followed = 0
        self.sets = [Named("val", None)]

    def add_rounds(self, builder):
        self.taken_in = len(builder)

    def measure(self, metric):
        return {
            f"val_{metric.name}": self.errors[self.followed - 1] if self.followed else self.before
        }


def state_of(booster=None, n=10, **words):
    booster = booster or Counting()
    return TrainingState(booster, n, lambda booster, n_rounds, meta: (n_rounds, meta), **words)


def test_all_rounds():
    state = state_of(n=4)
    train(state)
    assert state.n_rounds == state.booster.n_rounds == 4
    assert state.history == {"number": [1, 2, 3, 4]}
    assert state.gain == [4.0]
    assert state.ended is None
    assert state.model(more=1) == (4, {"more": 1})


def test_a_booster_that_ends_by_itself_says_why():
    state = state_of(Counting(left=3))
    train(state)
    assert (state.n_rounds, state.ended) == (3, "none is left")


@pytest.mark.parametrize("done", [0, 3])
def test_a_callback_ends_the_training_after_the_round_it_says_so(done):
    seen = []

    class Ends:
        def after_round(self, state):
            seen.append(state.n_rounds)
            return state.n_rounds == done + 2

    class Counts(Callback):
        def __init__(self):
            self.closed = self.ended = 0

        def after_training(self, state):
            self.ended += 1

        def close(self, state):
            self.closed += 1

    counts = Counts()
    state = state_of(Counting(done), history={"number": list(range(1, done + 1))})
    train(state, [Ends(), counts])
    assert seen == [done + 1, done + 2]
    assert (counts.ended, counts.closed) == (1, 1)


def test_an_interrupt_while_callbacks_are_closed_leaves_the_best_rounds():
    class Interrupts(Callback):
        def close(self, state):
            assert state.complete
            assert state.n_rounds == 5
            raise KeyboardInterrupt

    state = state_of(n=5, validation=Errors([0.5, 0.2, 0.3, 0.3, 0.3]))
    with pytest.raises(KeyboardInterrupt):
        train(state, [ValidationCurves(ERROR), EarlyStopping(ERROR, 3), Interrupts()])
    assert state.n_rounds == state.booster.added == 2


def test_every_callback_hears_of_the_last_round():
    heard = []

    class Ends:
        def after_round(self, state):
            return True

    class Hears:
        def after_round(self, state):
            heard.append(state.n_rounds)

    train(state_of(), [Ends(), Hears()])
    assert heard == [1]


def test_callbacks_without_the_method_are_refused_by_name():
    for bad in (3, object(), print):
        with pytest.raises(TypeError, match=r"has no method after_round\(state\)"):
            as_callback(bad)


@pytest.mark.parametrize("where", ["round", "measure", "after_round"])
def test_an_interrupt_leaves_whole_rounds(where):
    class Interrupts(Callback):
        def measure(self, state):
            if where == "measure" and state.n_rounds == 3:
                raise KeyboardInterrupt
            return {"measured": state.n_rounds}

        def after_round(self, state):
            if where == "after_round" and state.n_rounds == 3:
                raise KeyboardInterrupt

    class Interrupted(Counting):
        def round(self):
            step = super().round()
            if where == "round" and self.n_rounds == 3:
                raise KeyboardInterrupt
            return step

    callback = Interrupts()
    closed = []
    callback.close = lambda state: closed.append((state.n_rounds, state.interrupted))
    state = state_of(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        train(state, [callback])
    assert state.n_rounds == state.booster.n_rounds == state.booster.added == 3
    assert state.history == {"number": [1, 2, 3], "measured": [0, 1, 2]}
    assert state.gain == state.booster.gain.dense() == [3.0]
    assert closed == [(3, True)]


def test_what_is_measured_late_is_padded():
    class Late(Callback):
        def measure(self, state):
            return {"late": 7}

    state = state_of(Counting(2), n=4, history={"number": [1, 2]})
    train(state, [Late()])
    np.testing.assert_array_equal(state.history["late"], [np.nan, np.nan, 7, 7])


@pytest.mark.parametrize(("done", "restarts"), [(0, [4, 8]), (4, [8]), (5, [8]), (8, [])])
def test_drifting_states_are_rebuilt_at_multiples(done, restarts):
    booster = Counting(done)
    booster.restart_every = 4
    train(state_of(booster, n=10))
    assert booster.restarts == restarts


@pytest.mark.parametrize("patience", [1, 2, 3, 5])
def test_patience_is_exactly_as_long_as_asked(patience):
    errors = [0.5, 0.4, 0.3] + [0.3] * 40
    state = state_of(n=40, validation=Errors(errors))
    rounds = []

    class Counts:
        def after_round(self, state):
            rounds.append(state.n_rounds)

    train(state, [ValidationCurves(ERROR), EarlyStopping(ERROR, patience), Counts()])
    assert rounds[-1] == 3 + patience
    assert state.n_rounds == 3
    assert state.gain == [3.0]
    assert state.history["val_error"] == [0.5, 0.4, 0.3]
    assert (
        state.ended
        == f"the validation error did not improve for {patience} round{'s' * (patience > 1)}"
    )


def test_a_training_that_ends_first_goes_back_to_the_best_round_as_well():
    state = state_of(n=5, validation=Errors([0.5, 0.2, 0.3, 0.3, 0.3]))
    train(state, [ValidationCurves(ERROR), EarlyStopping(ERROR, 3)])
    assert state.n_rounds == 2
    assert state.ended == "the validation error was best after these"


def test_of_two_metrics_the_later_best_round_counts():
    class Two(Errors):
        """The second metric improves for longer."""

        def of(self, name, metric):
            return [0.9, 0.8, 0.7, 0.6, 0.65, 0.65, 0.65, 0.65][self.followed - 1]

    class Other:
        name = "other"
        sign = 1

    state = state_of(n=40, validation=Two([0.5, 0.2] + [0.3] * 40))
    train(
        state,
        [
            ValidationCurves(ERROR),
            CalibratedCurve(Other),
            EarlyStopping(ERROR, 3, further_metrics=[Other]),
        ],
    )
    assert state.n_rounds == 4
    assert state.gain == [4.0]
    assert state.ended == "the validation error did not improve for 3 rounds"


def test_a_warm_start_must_beat_the_model_it_goes_on_from():
    state = state_of(
        Counting(4),
        n=20,
        validation=Errors([0.3] * 20, before=0.2),
        history={"number": [1, 2, 3, 4]},
    )
    train(state, [ValidationCurves(ERROR), EarlyStopping(ERROR, 5)])
    assert state.validation.taken_in == 4
    assert state.n_rounds == 4
    assert state.validation.followed == 5


def test_a_checkpoint_whose_patience_is_at_its_end_adds_no_round():
    history = {"number": [1, 2, 3, 4], "val_error": [0.3, 0.1, 0.2, 0.2]}
    state = state_of(
        Counting(4), validation=Errors([]), history=history, best_gain=Gains.of(np.full(1, 2.0))
    )
    train(state, [ValidationCurves(ERROR), EarlyStopping(ERROR, 2)])
    assert state.validation.followed == 0
    assert (state.n_rounds, state.gain.tolist()) == (2, [2.0])


def test_a_checkpoint_keeps_the_later_best_round_of_two_metrics():
    class Other:
        name = "other"
        sign = 1

    history = {
        "number": [1, 2, 3, 4],
        "val_error": [0.3, 0.1, 0.2, 0.2],
        "val_other": [0.9, 0.8, 0.7, 0.75],
    }
    state = state_of(
        Counting(4), validation=Errors([]), history=history, best_gain=Gains.of(np.full(1, 3.0))
    )
    train(
        state,
        [
            ValidationCurves(ERROR),
            CalibratedCurve(Other),
            EarlyStopping(ERROR, 1, further_metrics=[Other]),
        ],
    )
    assert state.validation.followed == 0
    assert (state.n_rounds, state.gain.tolist()) == (3, [3.0])


def test_a_second_curve_without_its_first_values_is_not_followed():
    class Other:
        name = "other"
        sign = 1

    curves = {"val_error": [0.3, 0.1, 0.2, 0.2], "val_other": [np.nan, np.nan, 0.5, 0.4]}
    history = {"number": [1, 2, 3, 4], **curves}
    state = state_of(
        Counting(4), validation=Errors([]), history=history, best_gain=Gains.of(np.full(1, 2.0))
    )
    train(
        state,
        [
            ValidationCurves(ERROR),
            CalibratedCurve(Other),
            EarlyStopping(ERROR, 2, further_metrics=[Other]),
        ],
    )
    assert state.validation.followed == 0
    assert (state.n_rounds, state.gain.tolist()) == (2, [2.0])


def test_an_interrupt_while_rounds_are_taken_back_leaves_that_to_be_done_again():
    class Interrupted(Counting):
        cuts = 0

        def cut(self, n_rounds, gain):
            self.cuts += 1
            if self.cuts == 1:
                raise KeyboardInterrupt
            super().cut(n_rounds, gain)

    state = state_of(Interrupted(), n=5, validation=Errors([0.5, 0.2, 0.3, 0.3, 0.3]))
    with pytest.raises(KeyboardInterrupt):
        train(state, [ValidationCurves(ERROR), EarlyStopping(ERROR, 3)])
    state.roll_back()
    assert state.n_rounds == state.booster.n_rounds == state.booster.added == 2
    assert {len(values) for values in state.history.values()} == {2}
