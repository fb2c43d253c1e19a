"""Callbacks around the rounds of a training: validation, early stopping, progress, and custom ones."""

import contextlib
import copy
import sys
import time
from collections.abc import Iterable

import numpy as np

from pymcboost._warn import warn
from pymcboost.threads import counted


class Callback:
    """Base class of callbacks, which observe and control the rounds of a training.

    Subclass it to run code before and after the training as well. No method has to be overridden. A callback that only
    needs ``after_round(state)`` can be any object with this method. ``state`` is a `TrainingState`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.callbacks import Callback
    >>> class StopAtTen(Callback):
    ...     def after_round(self, state):
    ...         return state.n_rounds == 10
    >>> model = VectorTreeBoostClassifier(n_estimators=100, random_state=0)
    >>> model.fit(*load_iris(return_X_y=True), callbacks=[StopAtTen()]).n_estimators_
    10
    """

    # The seed that replaces ``random_state=None``, or None to draw one.
    seed: int | None = None
    # Whether all workers need this callback, because it communicates between them or changes the model.
    shared = False

    def begin(self, booster):
        """Run before the training data are read.

        Parameters
        ----------
        booster : Booster
            The algorithm and its parameters.
        """

    def take_in(self, dataset):
        """Receive the training rows.

        Parameters
        ----------
        dataset : TrainingSet
            Rows, labels and weights of the training.
        """

    def resume(self, plan):
        """Provide rounds to continue from.

        Parameters
        ----------
        plan : Plan
            The training that is about to start.

        Returns
        -------
        Previous or None
            The rounds that exist already.
        """
        return None

    def before_training(self, state):
        """Run once before the first round.

        Parameters
        ----------
        state : TrainingState
            State with the rounds that exist already.

        Returns
        -------
        bool or None
            A true value ends the training before its first round.
        """

    def measure(self, state):
        """Compute values of the current round for the history.

        Numbers are displayed as metrics. A checkpoint stores columns of numbers and of text.

        Parameters
        ----------
        state : TrainingState
            State before the round is counted.

        Returns
        -------
        dict of str to object, or None
            Values by name.
        """
        return {}

    def _measured(self, params):
        """Names of its metrics, which must be the same on all workers if the callback is shared."""
        return ()

    def after_round(self, state):
        """Run after each round.

        Parameters
        ----------
        state : TrainingState
            State after the round.

        Returns
        -------
        bool or None
            A true value ends the training.
        """

    def after_training(self, state):
        """Run once after training and after `close` of all callbacks, even if one of these fails.

        It does not run if the rounds fail or are interrupted.

        Parameters
        ----------
        state : TrainingState
            State after the last round.
        """

    def close(self, state):
        """Run once at the end in any case.

        Parameters
        ----------
        state : TrainingState or None
            State after the last round, or None if the training failed before its first round.
        """


class _UserCallback(Callback):
    """Callback made of a user's object that has only ``after_round``."""

    def __init__(self, after_round):
        self.after_round = after_round


def as_callback(callback):
    """Turn an object into a callback with all methods; only ``after_round`` is required.

    A built-in callback that stores the state of one training is copied, so that trainings can run side by side.
    """
    if isinstance(callback, Callback):
        return copy.copy(callback) if vars(type(callback)).get("of_one_training") else callback
    if isinstance(callback, type):
        raise TypeError(
            f"callbacks: {callback.__name__} is a class; give an instance, {callback.__name__}(...)"
        )
    after_round = getattr(callback, "after_round", None)
    if not callable(after_round):
        remedy = ""
        if callable(callback):
            remedy = (
                "; instead of LightGBM's early_stopping and log_evaluation, set early_stopping, "
                "n_iter_no_change and verbose"
            )
        raise TypeError(
            f"callbacks: {callback!r} has no method after_round(state); give objects that have "
            f"one{remedy}"
        )
    return _UserCallback(after_round)


def as_callbacks(callbacks):
    """Turn a sequence of objects into callbacks with all methods."""
    if not isinstance(callbacks, Iterable):
        raise TypeError(
            f"callbacks must be a sequence of callbacks, not {callbacks!r}; give [callback], or ()"
        )
    callbacks = list(callbacks)
    for number, callback in enumerate(callbacks):
        if any(callback is other for other in callbacks[:number]):
            raise ValueError(
                f"callbacks: one {type(callback).__name__} is listed twice; give each object once"
            )
    return [as_callback(callback) for callback in callbacks]


class ValidationCurves(Callback):
    """Records metrics of all validation sets, as "NAME_metric" in the history."""

    def __init__(self, *metrics):
        self.metrics = metrics

    def before_training(self, state):
        """Add the existing rounds.

        The curves come first in the history, so the order is the same after a checkpoint.
        """
        validation = state.validation
        others = dict(state.history)
        state.history.clear()
        for validation_set in validation.sets:
            for metric in self.metrics:
                column = f"{validation_set.name}_{metric.name}"
                done = others.pop(column, [])
                state.history[column] = done + [np.nan] * (state.n_rounds - len(done))
        state.history.update(others)
        validation.add_rounds(state.booster.builder)

    def measure(self, state):
        """Compute the metrics after the round."""
        state.booster.follow(state.validation)
        return state.validation.measure(*self.metrics)


class CalibratedCurve(Callback):
    """Records the log loss at the temperature that is best for the rows "val", as "val_calibrated_log_loss"."""

    def __init__(self, metric):
        self.metric = metric

    def measure(self, state):
        """Compute the metric after the round from the scores that `ValidationCurves` has updated."""
        return {f"val_{self.metric.name}": state.validation.of("val", self.metric)}


class Patience:
    """Tracks the best round of a curve, and how long the curve has not improved.

    Parameters
    ----------
    sign : {1, -1}
        1 where smaller is better.
    patience : int
        Rounds that are waited for.
    min_delta : float
        Only an improvement by more than this restarts the wait.
    n_rounds : int
        Rounds there are.
    share : float
        As a share of the rounds so far, the least wait.
    tolerance : float
        The same as ``min_delta``, as a share of the value.
    """

    def __init__(self, sign, patience, min_delta=0.0, n_rounds=0, share=0.0, tolerance=0.0):
        self.sign = sign
        self.patience = patience
        self.min_delta = min_delta
        self.share = share
        self.tolerance = tolerance
        self.best_round = n_rounds
        self._best = None
        # The value that an improvement must beat, and the round since which none has.
        self._bar = None
        self._since = n_rounds

    def see(self, value, n_rounds):
        """Add the value after ``n_rounds`` rounds; return whether it is the best so far."""
        value *= self.sign
        if self._bar is None or value < self._bar - self._least_improvement():
            self._bar = value
            self._since = n_rounds
        is_best = self._best is None or value < self._best
        if is_best:
            self._best = value
            self.best_round = n_rounds
        return is_best

    def _least_improvement(self):
        if not self.tolerance:  # the value may be infinite
            return self.min_delta
        return self.min_delta + self.tolerance * abs(self._bar)

    def over(self, n_rounds):
        """Whether the patience has run out after ``n_rounds`` rounds."""
        return n_rounds - self._since >= max(self.patience, self.share * n_rounds)


class EarlyStopping(Callback):
    """Ends a training when the metrics on the rows "val" stop improving.

    With several metrics, it goes back to the latest of their best rounds.

    Parameters
    ----------
    metric : Metric
    patience : int
        Rounds without improvement that are waited for.
    min_delta : float, default=0
        See `Patience`.
    further_metrics : sequence of metrics
        Metrics that the history has as well.
    """

    def __init__(self, metric, patience, min_delta=0.0, further_metrics=()):
        self.metrics = [metric, *further_metrics]
        self.patience = patience
        self.min_delta = min_delta

    def before_training(self, state):
        """Find the best of the existing rounds."""
        self._curves = {}
        for metric in self.metrics:
            column = f"val_{metric.name}"
            curve = Patience(metric.sign, self.patience, self.min_delta, state.n_rounds)
            if state.resumed:
                for t, value in enumerate(state.history[column], 1):
                    curve.see(value, t)
            elif state.n_rounds:
                curve.see(state.validation.measure(metric)[column], state.n_rounds)
            self._curves[column] = curve
        state.best_round = max(curve.best_round for curve in self._curves.values())
        return self._enough(state)

    def after_round(self, state):
        """Return whether the patience has run out."""
        for column, curve in self._curves.items():
            if curve.see(state.history[column][-1], state.n_rounds):
                state.mark_best()
        return self._enough(state)

    def _enough(self, state):
        """Whether all curves have stopped improving; then say so in the state."""
        is_over = all(curve.over(state.n_rounds) for curve in self._curves.values())
        if not is_over or state.n_rounds >= state.n_estimators:
            return False
        name = self.metrics[0].name
        state.ended = f"the validation {name} did not improve for {counted(self.patience, 'round')}"
        return True

    def after_training(self, state):
        """Cut the training back to the best round."""
        if state.best_round < state.n_rounds:
            state.cut(state.best_round, state.best_gain)
            if not state.ended:
                state.ended = f"the validation {self.metrics[0].name} was best after these"


class _Silence:
    """Progress display that shows nothing."""

    def update(self, n=1, metrics=None):
        """Count ``n`` more rounds as done, and show the latest metrics."""

    def close(self):
        """Remove the display."""


class _Bar(_Silence):
    """Progress bar on a terminal."""

    def __init__(self, name, n_rounds):
        from tqdm import tqdm

        self._bar = tqdm(total=n_rounds, desc=name, unit="round", file=sys.stderr, leave=False)

    def update(self, n=1, metrics=None):
        self._bar.update(n)

    def close(self):
        self._bar.close()


class _Lines(_Silence):
    """Prints a line at regular numbers of rounds and after the last one; ``done`` rounds were done before."""

    def __init__(self, name, n_rounds, every, done, at_most):
        self._name = name
        self._n_rounds = n_rounds
        self._every = every
        self._at_most = "at most " if at_most else ""
        self._first = done
        self._done = done
        self._begin = time.monotonic()

    def update(self, n=1, metrics=None):
        before = self._done
        self._done += n
        if self._done // self._every == before // self._every and self._done < self._n_rounds:
            return
        seconds_per_round = (time.monotonic() - self._begin) / (self._done - self._first)
        seconds = seconds_per_round * (self._n_rounds - self._done)
        left = f"{seconds:.1f} s left" if seconds < 10 else f"{seconds:.0f} s left"
        values = "".join(f", {name} {value:.6g}" for name, value in (metrics or {}).items())
        line = f"{self._name}: round {self._done} of {self._at_most}{self._n_rounds}{values}, {self._at_most}{left}"
        # A stream that is full or closed must not end the training.
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


def progress(name, n_rounds, every, done=0, at_most=False):
    """Return a progress display with ``update(n, metrics)`` and ``close()``.

    Parameters
    ----------
    name : str
    n_rounds : int
        Rounds wanted.
    every : int
        Rounds from one line to the next, where standard error is no terminal; 0 shows nothing anywhere.
    done : int, default=0
        Rounds that are there already.
    at_most : bool, default=False
        Whether the training may end before.
    """
    if not every or sys.stderr is None:
        return _Silence()
    if sys.stderr.isatty():
        return _Bar(name, n_rounds - done)
    return _Lines(name, n_rounds, every, done, at_most)


class Progress(Callback):
    """Shows a progress bar on a terminal; otherwise prints lines with the metrics."""

    def __init__(self, name, every, at_most=False):
        self._name = name
        self._every = every
        self._at_most = at_most
        self._shown = _Silence()

    def before_training(self, state):
        """Show the bar."""
        self._shown = progress(
            self._name, state.n_estimators, self._every, done=state.n_rounds, at_most=self._at_most
        )

    def after_round(self, state):
        """Count the round."""
        self._shown.update(1, state.metrics())

    def close(self, state):
        """Remove the bar."""
        self._shown.close()


class WarnOfNothingToAdd(Callback):
    """Warns if a warm start has no rounds left to add."""

    def before_training(self, state):
        """Compare the existing with the requested number of rounds."""
        if state.n_rounds == state.n_estimators and not state.resumed:
            warn(
                f"warm_start: the model already has n_estimators={state.n_rounds} rounds, so "
                "there is nothing to add"
            )
