"""The boosting loop, and the state that callbacks see."""

from contextlib import ExitStack
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pymcboost.training.callbacks import as_callbacks
from pymcboost.training.gains import Gains


def as_column(values):
    """Convert the values of the rounds to an array; an object array if they do not fit another type."""
    try:
        return np.asarray(values)
    except ValueError:  # arrays of different shapes
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column


class TrainingState:
    """State of a training between two rounds, which callbacks receive.

    Attributes
    ----------
    booster : Booster
        The algorithm and its parameters.
    n_rounds : int
        Number of rounds done.
    n_estimators : int
        Number of rounds requested.
    begun_with : int
        Number of rounds of the model that the training continues from.
    history : dict of str to list
        Values of each round; see ``history_`` of the estimators.
    validation : Validation or None
        Validation rows and their scores.
    ended : str or None
        Explains why training ends before the last round.
    stopped : bool
        Whether a callback stopped the training.
    interrupted : bool
        Whether Ctrl-C interrupted the training.
    complete : bool
        Whether the rounds have ended without Ctrl-C or an error. All rounds are still present when callbacks are
        closed. Early stopping returns to the best round after that.
    folds_follow : bool
        Whether cross-validation models are trained after the rounds, for a temperature or for thresholds of labels.
    best_round : int or None
        Best round on the validation set so far, with early stopping.
    best_gain : Gains
        Gains of the splits up to the best round.
    cv_results : dict of str to ndarray, or None
        Cross-validation that chose the number of rounds; see ``cv_results_`` of the estimators.
    """

    def __init__(
        self, booster, n_estimators, make_model, history=None, validation=None, best_gain=None
    ):
        self.booster = booster
        self.n_estimators = n_estimators
        self.validation = validation
        self.history = history or {}
        self.begun_with = booster.n_rounds
        self.ended = None
        self.stopped = False
        self.interrupted = False
        self.complete = False
        self.best_round = None
        # A checkpoint stores which round was the best, a warm start does not.
        self.resumed = best_gain is not None
        self.cv_results = None
        self.folds_follow = False
        self._make_model = make_model
        self._kept = booster.n_rounds, booster.gain.copy()
        self.best_gain = best_gain if self.resumed else self._kept[1]

    @property
    def n_rounds(self) -> int:
        """Number of rounds done."""
        return self._kept[0]

    @property
    def gains(self) -> Gains:
        """Total gain of the splits so far, only for the features that have splits."""
        return self._kept[1]

    @property
    def gain(self) -> NDArray[np.float64]:
        """Total gain of the splits on each feature so far: ndarray of shape (n_features,)."""
        return self._kept[1].dense()

    def mark_best(self) -> None:
        """Mark the latest round as the best one."""
        self.best_round, self.best_gain = self._kept

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the last round.

        Returns
        -------
        dict of str to float
            Numbers in the history by name, except those that the algorithm itself records.
        """
        columns_of_booster = self.booster.columns
        last_values = {
            name: values[-1]
            for name, values in self.history.items()
            if name not in columns_of_booster and len(values)
        }
        return {name: value for name, value in last_values.items() if _is_number(value)}

    def model(self, **meta: Any) -> Any:
        """Return the model of the rounds done so far.

        Parameters
        ----------
        **meta : dict
            Values added to the information that the model file stores.

        Returns
        -------
        Model
            The model of ``n_rounds`` rounds.
        """
        return self._make_model(self.booster, self.n_rounds, meta)

    def bytes_of_best(self) -> bytes | None:
        """The model of the latest round, if it cannot be recovered by cutting later rounds; otherwise None."""
        return None if self.booster.cuts_give_models else self.model().to_bytes()

    def record(self, values: dict[str, Any]) -> None:
        """Count a round and add its values to the history."""
        n = self.n_rounds
        history = self.history
        for name in values:
            history.setdefault(name, [np.nan] * n)
        for name, column in history.items():
            column.append(values.get(name, np.nan))
        # In one assignment, so that an interrupt finds the round counted completely or not at all.
        self._kept = n + 1, self.booster.gain.copy()
        self.booster.n_rounds = n + 1

    def cut(self, n_rounds: int, gain: Gains) -> None:
        """Go back to the first rounds."""
        # First, so that `roll_back` can finish the rest after an interrupt.
        self._kept = n_rounds, gain
        self.booster.cut(n_rounds, gain)
        for values in self.history.values():
            del values[n_rounds:]

    def roll_back(self) -> None:
        """Discard a round that was interrupted."""
        self.cut(*self._kept)


def train(state, callbacks=()):
    """Add rounds until the requested number is reached, nothing is left to learn, or a callback stops the training.

    Parameters
    ----------
    state : TrainingState
    callbacks : sequence of objects with ``after_round(state)``
        A true return value ends the training. See `Callback` for optional methods.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; ``state`` then holds the rounds that were done in full.
    """
    callbacks = as_callbacks(callbacks)
    # If one callback fails to close, the others still do, and the model is complete.
    with ExitStack() as ends:
        ends.callback(_after_training, state, callbacks)
        for callback in reversed(callbacks):
            ends.callback(callback.close, state)
        try:
            stop = False
            for callback in callbacks:
                stop = bool(callback.before_training(state)) or stop
            stop = state.booster.workers.check(stop)
            state.stopped = stop
            while not stop and state.n_rounds < state.n_estimators:
                stop = one_round(state, callbacks)
            state.complete = True
        except KeyboardInterrupt:
            state.roll_back()
            state.interrupted = True
            raise


def _after_training(state, callbacks):
    if state.complete:
        for callback in callbacks:
            callback.after_training(state)


def one_round(state, callbacks=()):
    """Train one round; return whether it was the last."""
    booster = state.booster
    t = state.n_rounds
    if booster.restart_every and t > state.begun_with and t % booster.restart_every == 0:
        booster.restart(booster.scores())
    values = booster.round()
    if values is None:
        state.ended = booster.why_ended()
        return True
    for callback in callbacks:
        values.update(callback.measure(state) or {})
    state.record(values)
    stop = False
    for callback in callbacks:
        stop = bool(callback.after_round(state)) or stop
    state.stopped = booster.workers.check(stop)
    return state.stopped


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not np.isnan(float(value))
