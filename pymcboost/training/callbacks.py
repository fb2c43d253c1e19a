"""What happens around the rounds of a training: validation, early stopping, progress, and the users' own."""

import sys
import warnings

import numpy as np

from pymcboost.threads import counted


class Callback:
    """Base of callbacks. All methods may be left as they are.

    A user's callback needs no base: an object with ``after_round(state)`` will do. ``state`` is a `TrainingState`.
    """

    # The seed that stands for ``random_state=None``; None where one is drawn.
    seed: int | None = None

    def begin(self, booster):
        """Called first, before the data are looked at."""

    def resume(self, inputs):
        """Rounds to go on from (`Previous`) for these `Inputs`, or None."""
        return None

    def before_training(self, state):
        """Called once, with the rounds there are. Something true ends the training before it begins."""

    def measure(self, state):
        """What the history keeps of the round just done, before it counts: a dict."""
        return {}

    def after_round(self, state):
        """Something true ends the training."""

    def after_training(self, state):
        """Called once, unless the training fails or is interrupted."""

    def close(self, state):
        """Called once in any case."""


class _UserCallback(Callback):
    def __init__(self, after_round):
        self.after_round = after_round


def as_callback(one):
    """A callback with all methods from an object that may have only ``after_round``."""
    if isinstance(one, Callback):
        return one
    after_round = getattr(one, "after_round", None)
    if not callable(after_round):
        raise TypeError(f"callbacks: {one!r} has no method after_round(state); give objects that have one")
    return _UserCallback(after_round)


class ValidationError(Callback):
    """Follows the error on the validation rows, as "val_error" in the history."""

    def before_training(self, state):
        """Take in the rounds there are."""
        done = state.history.setdefault("val_error", [])
        done += [np.nan] * (state.n_rounds - len(done))
        state.validation.add_rounds(state.booster.builder)

    def measure(self, state):
        """The error after the round."""
        state.booster.follow(state.validation)
        return {"val_error": state.validation.error()}


class EarlyStopping(Callback):
    """Ends a training whose validation error no longer improves, and goes back to the best round.

    Parameters
    ----------
    patience : int
        Rounds without improvement that are waited for.
    """

    def __init__(self, patience):
        self.patience = patience

    def before_training(self, state):
        """Begin with the best of the rounds there are."""
        errors = state.history["val_error"]
        state.best_round, self.best_error = state.n_rounds, np.inf
        if state.resumed:
            state.best_round = int(np.argmin(errors)) + 1
            self.best_error = errors[state.best_round - 1]
        elif state.n_rounds:
            self.best_error = state.validation.error()
        return self._enough(state)

    def after_round(self, state):
        """Whether the patience is at its end."""
        error = state.history["val_error"][-1]
        if error < self.best_error:
            self.best_error, state.best_round, state.best_gain = error, state.n_rounds, state.gain
        return self._enough(state)

    def _enough(self, state):
        if state.n_rounds - state.best_round < self.patience or state.n_rounds >= state.n_estimators:
            return False
        state.ended = f"the validation error did not improve in {counted(self.patience, 'round')} more"
        return True

    def after_training(self, state):
        """Go back to the best round."""
        if state.best_round < state.n_rounds:
            state.cut(state.best_round, state.best_gain)
            state.ended = state.ended or "the validation error was least after these"


class Progress(Callback):
    """A progress bar, where standard error is a terminal."""

    def __init__(self, name):
        self._name, self._bar = name, None

    def before_training(self, state):
        """Show the bar."""
        if sys.stderr.isatty():
            from tqdm import tqdm

            left = state.n_estimators - state.n_rounds
            self._bar = tqdm(total=left, desc=self._name, unit="round", file=sys.stderr, leave=False)

    def after_round(self, state):
        """Count the round."""
        if self._bar is not None:
            self._bar.update()

    def close(self, state):
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


class WarnOfNothingToAdd(Callback):
    """Warns where a warm start finds all rounds done."""

    def before_training(self, state):
        """Compare what is there with what is wanted."""
        if state.n_rounds == state.n_estimators and not state.resumed:
            warnings.warn(
                f"warm_start: the model already has n_estimators={state.n_rounds} rounds; nothing to add", stacklevel=6
            )
