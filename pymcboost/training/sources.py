"""Sources of the temperature of a model, and of the thresholds of its labels.

`source_of` chooses a source before the first round, and refuses rows that give no temperature. After the last round,
the source calibrates.
"""

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from pymcboost.training import calibration, thresholds


@dataclass(frozen=True)
class Calibration:
    """Result of a source.

    Attributes
    ----------
    temperature : float or None
    thresholds : ndarray (K,) or None
        Of the labels of multi-label data.
    out_of_fold : tuple of ndarray, or None
        Scores and folds of the rows that the user gave, if all folds were trained for the calibration.
    """

    temperature: float | None = None
    thresholds: np.ndarray | None = None
    out_of_fold: tuple[np.ndarray, np.ndarray] | None = None


class Uncalibrated:
    """No source: ``calibrate=None``."""

    # Whether the booster follows the scores of left-out rows while it trains, and whether folds are trained afterwards.
    follows_rounds = False
    trains_folds = False

    def calibrate(self, state):
        """Release the booster and calibrate the model of a `TrainingState`, whose rounds are done."""
        state.booster.release()
        return Calibration()


class ValidationRows(Uncalibrated):
    """Validation rows (`ValidationSet`) that the user gave or early stopping set aside."""

    def __init__(self, validation_set):
        self.validation_set = validation_set

    def calibrate(self, state):
        """Fit the temperature, or the thresholds, to the validation rows."""
        state.booster.release()
        model = state.model()
        if state.booster.multilabel:
            return Calibration(thresholds=thresholds.of_rows(model, self.validation_set))
        return Calibration(calibration.temperature_of_rows(model, self.validation_set))


class LeftOutRows(Uncalibrated):
    """Training rows that trees leave out."""

    follows_rounds = True

    def calibrate(self, state):
        """Fit the temperature to the scores of the rows that were left out."""
        booster = state.booster
        scores = booster.left_out_scores()
        temperature = calibration.temperature_of_left_out(scores, booster.data, booster.link)
        booster.release()
        return Calibration(temperature)


class Folds(Uncalibrated):
    """Models of folds, with exactly as many rounds as the final model.

    More would be too many: if the final model ended by itself, models of fewer rows could go on for long.

    Parameters
    ----------
    estimator : BoostingClassifier
    dataset : TrainingSet
    parts : list or None
        What `calibration.check_rows` found.
    folds_of_rounds : OutOfFold or None
        Folds that were trained to choose the number of rounds. They are used again.
    initial : Previous or None
        ``init_model``.
    """

    trains_folds = True

    def __init__(self, estimator, dataset, parts, folds_of_rounds, initial):
        self.estimator = estimator
        self.dataset = dataset
        self.parts = parts
        self.folds_of_rounds = folds_of_rounds
        self.initial = initial

    def calibrate(self, state):
        """Train the models of the folds, and fit the temperature, or the thresholds, to the rows they hold out."""
        booster = state.booster
        booster.release()
        options = {
            "rounds": state.n_rounds,
            "folds": self.folds_of_rounds,
            "previous": self.initial,
        }
        rows = self.estimator, self.dataset, booster.draw_seed()
        if booster.multilabel:
            label_thresholds, folds = thresholds.of_folds(*rows, **options)
            return Calibration(None, label_thresholds, given_rows_of(folds, self.dataset))
        temperature, folds = calibration.temperature_of_folds(*rows, parts=self.parts, **options)
        return Calibration(temperature, None, given_rows_of(folds, self.dataset))


def source_of(estimator, booster, dataset, validation_set, previous, *, initial, folds_of_rounds):
    """Choose the source: validation rows, else rows that trees leave out, else folds.

    Parameters
    ----------
    estimator : BoostingClassifier
    booster : Booster
        Its rows are laid out.
    dataset : TrainingSet
    validation_set : ValidationSet or None
        Enough rows for a temperature.
    previous : Previous or None
        Rounds that the training goes on from.
    initial, folds_of_rounds
        See `Folds`.
    """
    if not booster.params.calibrate:
        return Uncalibrated()
    if validation_set is None and _leaves_rows_out(estimator, booster, dataset, previous):
        return LeftOutRows()
    parts = None
    if not booster.multilabel:
        parts = calibration.check_rows(estimator, dataset, validation_set)
    if validation_set is not None:
        return ValidationRows(validation_set)
    return Folds(estimator, dataset, parts, folds_of_rounds, initial)


def _leaves_rows_out(estimator, booster, dataset, previous):
    """Whether trees leave out rows that give a temperature."""
    if not booster.leaves_rows_out or estimator.n_estimators == "auto":
        return False
    # With groups or a given splitter, rows may depend on each other.
    if dataset.groups is not None or not isinstance(booster.params.cv, Integral):
        return False
    if previous is None:
        return True
    # The existing rounds are evaluated again, which needs the random draws that they were trained with.
    same_draws = previous.best_gain is not None or isinstance(booster.params.random_state, Integral)
    return same_draws and previous.source != "init_model"


def given_rows_of(folds, dataset):
    """Scores and folds of the rows that the user gave; None if there are no folds."""
    if folds is None:
        return None
    rows = slice(None) if dataset.subset is None else dataset.subset
    return folds.scores[rows], folds.fold[rows]
