"""Callbacks for ``fit(..., callbacks=[...])``: time limit, learning rate schedule, training metrics, live plot.

Any object with a method ``after_round(state)`` is a callback. `Callback` documents further methods.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pymcboost._text import column_of, drawn, metrics_of
from pymcboost._warn import warn
from pymcboost.model.arrays import is_number
from pymcboost.training.callbacks import Callback
from pymcboost.training.checkpoint import Checkpoint
from pymcboost.training.divided_folds import OfAll
from pymcboost.training.loop import TrainingState
from pymcboost.training.metrics import ValidationSet, measured, metrics_by
from pymcboost.training.training_set import TrainingSet
from pymcboost.training.validation import Validation

__all__ = [
    "Callback",
    "Checkpoint",
    "LearningRateSchedule",
    "LivePlot",
    "TimeLimit",
    "TrainingLoss",
    "TrainingState",
]


class TimeLimit(Callback):
    """Stop training at a time limit, after the current round.

    At least one round is trained. Time is measured from the start of `fit`, also if `fit` continues from a checkpoint
    or a warm start. Cross-validation models are not stopped. Those of ``n_estimators="auto"`` are trained before the
    rounds, and their time counts. Those of ``calibrate`` are trained after the rounds, with no more rounds than the
    model.

    Parameters
    ----------
    seconds : float
        Time limit in seconds, 0 or more.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.callbacks import TimeLimit
    >>> model = VectorTreeBoostClassifier(random_state=0)
    >>> model.fit(*load_iris(return_X_y=True), callbacks=[TimeLimit(0)]).n_estimators_
    1
    """

    of_one_training = True

    def __init__(self, seconds: float):
        if not is_number(seconds) or not seconds >= 0:
            raise ValueError(
                f"TimeLimit: seconds={seconds!r} is not allowed; it must be a number >= 0"
            )
        self.seconds = seconds

    def begin(self, booster):
        """Start the clock."""
        self._end = time.monotonic() + self.seconds

    def after_round(self, state):
        """Return whether the time is over."""
        if time.monotonic() < self._end:
            return False
        state.ended = state.ended or f"the time limit of {self.seconds:g} s was reached"
        return True


class LearningRateSchedule(Callback):
    """Set the learning rate of each round.

    The schedule replaces the parameter ``learning_rate`` of the estimator; estimators without this parameter raise an
    error. Rounds of a checkpoint or a warm start are counted, so a continued training uses the same rates as an
    uninterrupted one. The model file still stores the parameter ``learning_rate``.

    Cross-validation models use the parameter ``learning_rate`` in all rounds. Therefore ``n_estimators="auto"`` raises
    an error, and ``calibrate`` warns if the temperature comes from folds. In that case pass ``X_val`` and ``y_val`` or
    set ``calibrate=None``; for thresholds of labels, set ``decision_threshold=0.5``.

    Parameters
    ----------
    rate : callable
        Function that takes the number of the round, from 0, and returns its learning rate, above 0 and at most 1. All
        workers of a distributed training need the same rates.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.callbacks import LearningRateSchedule
    >>> schedule = LearningRateSchedule(lambda t: 0.2 * 0.95**t)
    >>> model = VectorTreeBoostClassifier(n_estimators=30, random_state=0)
    >>> model.fit(*load_iris(return_X_y=True), callbacks=[schedule]).n_estimators_
    30
    """

    shared = True

    def __init__(self, rate: Callable[[int], float]):
        if not callable(rate):
            raise TypeError(
                f"LearningRateSchedule: {rate!r} is not callable; give a function of the round "
                "number"
            )
        self.rate = rate

    def begin(self, booster):
        """Refuse trainings without a learning rate."""
        if getattr(booster.params, "learning_rate", None) is None:
            raise ValueError(
                f"LearningRateSchedule: {booster.name} has no learning rate; remove the schedule"
            )
        if getattr(booster.params, "fixed_step", None) is not None:
            raise ValueError(
                "LearningRateSchedule: training with fixed_step has no learning rate; use "
                "only one of them"
            )
        if booster.params.n_estimators == "auto":
            raise ValueError(
                'LearningRateSchedule: n_estimators="auto" finds the number of rounds at one '
                "constant learning rate; set n_estimators to a number, and "
                "early_stopping=True if that may be too large"
            )

    def before_training(self, state):
        """Set the rate of the first round."""
        if state.folds_follow:
            conflict = "the temperature comes"
            remedy = "calibrate=None"
            if state.booster.params.calibrate == "thresholds":
                conflict = "the thresholds of labels come"
                remedy = "decision_threshold=0.5"
            warn(
                f"LearningRateSchedule: {conflict} from cross-validation models, which use one "
                f"constant learning rate; give X_val and y_val, or set {remedy}"
            )
        self._set(state)

    def after_round(self, state):
        """Set the rate of the next round."""
        self._set(state)

    def _set(self, state):
        """Set the rate of the next round."""
        if state.n_rounds >= state.n_estimators:
            return
        rate = self.rate(state.n_rounds)
        if not is_number(rate) or not 0 < rate <= 1:
            raise ValueError(
                f"LearningRateSchedule: the rate of round {state.n_rounds} is {rate!r}; it "
                "must be above 0 and at most 1"
            )
        state.booster.params.learning_rate = float(rate)


class TrainingLoss(Callback):
    """Record metrics of the training rows in the history, such as "train_log_loss".

    Rows set aside for early stopping are not included. Metrics use the sample weights and class weights. Each round is
    scored for all rows once more, which takes about as long as this part of `predict`.

    In a distributed training, all workers need the callback. The metrics are those of the rows of all workers, or of a
    random sample of up to 65,536 rows. The scores of these rows are sent after every round.

    Parameters
    ----------
    scoring : str, callable, or list or dict of these, default=None
        Metrics, as in the parameter ``scoring`` of the estimators. None uses the metrics of the estimator. In a
        distributed training, scorers of scikit-learn and callables are not available.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.callbacks import TrainingLoss
    >>> model = VectorTreeBoostClassifier(n_estimators=30, random_state=0)
    >>> model = model.fit(*load_iris(return_X_y=True), callbacks=[TrainingLoss()])
    >>> loss = model.history_["train_log_loss"]
    >>> bool(loss[-1] < loss[0])
    True
    """

    of_one_training = True
    shared = True

    def __init__(
        self, scoring: str | Callable[..., float] | Sequence[Any] | Mapping[str, Any] | None = None
    ):
        if isinstance(scoring, (list, tuple, Mapping)) and not scoring:
            raise ValueError(
                "TrainingLoss: scoring is empty; give one metric or more, as in ['log_loss', "
                "'error']"
            )
        names = []
        if isinstance(scoring, (list, tuple)):
            names = [column_of(metric) for metric in scoring]
        if len(set(names)) < len(names):
            raise ValueError(
                f"TrainingLoss: two metrics would share the column {names}; give each metric "
                "once and at most one function (its column is train_score), or name them in a "
                "dict"
            )
        self.scoring = scoring
        self._release()

    def take_in(self, dataset):
        """Store the training rows."""
        self._rows = dataset

    def before_training(self, state):
        """Add the existing rounds."""
        if state.validation is not None and state.validation.named("train") is not None:
            raise ValueError(
                "TrainingLoss: validation_sets has a set named 'train', a name that "
                "TrainingLoss uses for its curves; rename the set"
            )
        dataset = self._rows
        self._rows = None
        booster = state.booster
        scoring = self._scoring_of(booster.params)
        self._metrics = metrics_by(
            scoring, dataset.classes, booster.probabilities, loss=booster.loss_value
        )
        self._refuse_equal_curves(state)
        if dataset.comm.size > 1 and any(metric.takes_rows for metric in self._metrics):
            raise ValueError(
                f"TrainingLoss: scoring={scoring!r} needs all rows in one place, but they are "
                "spread over several workers; use 'log_loss', 'error', 'balanced_error' or "
                "'auc_ovr'"
            )
        training_set, self._training_set, self._collect = _training_rows(dataset, scoring)
        for metric in self._metrics:
            metric.check(self._training_set)
            done = state.history.setdefault(f"train_{metric.name}", [])
            done += [np.nan] * (state.n_rounds - len(done))
        self._validation = Validation([training_set], len(dataset.classes))
        self._validation.add_rounds(booster.builder)

    def _scoring_of(self, params):
        return params.scoring if self.scoring is None else self.scoring

    def _refuse_equal_curves(self, state):
        """Refuse metrics whose curves would have the names of validation curves."""
        if state.validation is None:
            return
        names = metrics_of(state.booster.params.scoring)
        taken = {
            f"{validation_set.name}_{name}": validation_set.name
            for validation_set in state.validation.sets
            for name in names
        }
        for metric in self._metrics:
            column = f"train_{metric.name}"
            if column in taken:
                raise ValueError(
                    f"TrainingLoss: {column!r} is already a curve of the validation set "
                    f"{taken[column]!r}; rename the set in validation_sets"
                )

    def _measured(self, params):
        return metrics_of(self._scoring_of(params))

    def measure(self, state):
        """Compute the metrics after the round."""
        state.booster.follow(self._validation)
        scores = self._collect(self._validation.scores)
        values = measured(self._metrics, scores, self._training_set)
        metrics = {f"train_{name}": value for name, value in values.items()}
        return state.booster.workers.broadcast(metrics)

    def close(self, state):
        """Release the rows."""
        self._release()

    def _release(self):
        self._rows = None
        self._validation = None
        self._training_set = None
        self._collect = None


def _training_rows(dataset: TrainingSet, scoring):
    """The rows with positive weight as a set "train", for the metrics of ``scoring``.

    Returns the set of this worker, the set of all workers, and a function that collects the scores of all workers.
    """
    is_used = dataset.weight > 0
    rows = slice(None) if is_used.all() else np.flatnonzero(is_used)  # a slice copies nothing
    X = dataset.X if is_used.all() else dataset.X[rows]
    X = X.tocsc() if hasattr(X, "tocsc") else X
    y = dataset.y(rows)
    codes = dataset.codes[rows]
    weight = dataset.weight[rows]
    init_score = dataset.init_score_of(rows)
    if dataset.comm.size == 1:
        user_X = dataset.user_rows(scoring, None if is_used.all() else rows)
        training_set = ValidationSet.of(
            "train", X, y, codes=codes, weight=weight, user_X=user_X, init_score=init_score
        )
        return training_set, training_set, lambda scores: scores
    collect = OfAll(dataset, np.flatnonzero(is_used))
    training_set = ValidationSet("train", X, y, codes, weight, init_score=init_score)
    set_of_all = ValidationSet.of(
        "train", X=None, y=None, codes=collect(codes), weight=collect(weight)
    )
    return training_set, set_of_all, collect


class LivePlot(Callback):
    """Plot the history during training; needs matplotlib.

    In a notebook, the plot is shown below the cell and updated. Elsewhere it is drawn on ``axes``. For a window, call
    ``matplotlib.pyplot.ion()`` first.

    Parameters
    ----------
    columns : str or sequence of str, default=None
        Names in the history to plot. None plots all metrics. A warning lists the names that the history does not have.
    every : float, default=1.0
        Seconds between two updates. The last round is plotted in any case.
    axes : matplotlib Axes, default=None
        Axes to draw on. None creates a figure.

    Attributes
    ----------
    axes_ : matplotlib Axes
        The axes that were drawn on.

    Raises
    ------
    ImportError
        If matplotlib is not installed. Raised at the start of training.
    """

    def __init__(
        self, columns: str | Sequence[str] | None = None, every: float = 1.0, axes: Any = None
    ):
        self.columns = [columns] if isinstance(columns, str) else columns
        self.every = every
        self.axes = axes

    def begin(self, booster):
        """Import matplotlib."""
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("LivePlot needs matplotlib: pip install matplotlib") from error
        self._pyplot = pyplot
        self.axes_ = self.axes
        self._next = -np.inf
        self._shown = None
        self._drawn = 0

    def after_round(self, state):
        """Draw if it is time."""
        if time.monotonic() >= self._next:
            self._draw(state)
            self._next = time.monotonic() + self.every

    def close(self, state):
        """Draw the last round."""
        if state is not None and self._drawn != state.n_rounds:
            self._draw(state)
        if state is not None and state.n_rounds:
            self._warn_of_unknown(state.history)
        # Otherwise, the notebook would show the figure again.
        if self._shown is not None and self.axes is None:
            self._pyplot.close(self.axes_.figure)

    def _warn_of_unknown(self, history):
        """Warn about columns to plot that the history does not have."""
        unknown = [name for name in self.columns or () if name not in history]
        if unknown:
            shown = ", ".join(map(repr, history)) or "none"
            warn(
                f"LivePlot: the history has no curve {', '.join(map(repr, unknown))}; it has "
                f"{shown}"
            )

    def _draw(self, state):
        """Draw the curves, and show the figure in a notebook."""
        if self.axes_ is None:
            self.axes_ = self._pyplot.figure().add_subplot()
        axes = self.axes_
        self._drawn = state.n_rounds
        axes.clear()
        rounds = np.arange(1, state.n_rounds + 1)
        marker = "o" if state.n_rounds == 1 else None
        for name in self.columns or state.metrics():
            if name in state.history:
                axes.plot(
                    rounds, state.history[name][: state.n_rounds], marker=marker, label=drawn(name)
                )
        axes.set_xlabel("round")
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.lines:
            axes.legend(frameon=False)
        canvas = axes.figure.canvas
        canvas.draw()
        canvas.flush_events()
        notebook = _notebook()
        if notebook is not None and self._shown is None:
            self._shown = notebook(axes.figure, display_id=True)
        elif self._shown is not None:
            self._shown.update(axes.figure)


def _notebook():
    """IPython's display function in a notebook; None elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display
