"""Thresholds of labels, from rows that the model has not seen: validation rows or folds."""

import numpy as np

from pymcboost._warn import warn
from pymcboost.training.divided_folds import NO_FOLDS, of_all, pass_on, reason
from pymcboost.training.folds import OutOfFoldScores, held_scores, splits
from pymcboost.training.labels import best_thresholds


def of_rows(model, validation_set):
    """Thresholds (K,) with the largest F1 on validation rows (`ValidationSet`)."""
    scores = validation_set.raw_scores(model)
    return best_thresholds(scores, validation_set.codes, validation_set.row_weight)


def of_folds(estimator, dataset, seed, rounds, folds=None, previous=None):
    """Thresholds (K,) from models of the folds of ``cv``; arguments as for `calibration.temperature_of_folds`.

    Returns
    -------
    thresholds : ndarray of float64 (K,) or None
        None, with a warning, if rows, memory or disk are insufficient for folds, because the model is already trained.
    trained_folds : OutOfFoldScores or None
        Scores of the folds, if they were trained here.
    """
    trained_folds = None
    try:
        if folds is None:
            parts = splits(estimator.cv, dataset, seed)
            scores, _ = held_scores(estimator, dataset, seed, rounds, parts, previous)
            trained_folds = OutOfFoldScores.of(scores, parts)
        else:
            scores = folds.scores
    except NO_FOLDS as error:
        pass_on(dataset, error)
        warn(f"all labels keep the threshold 0.5: {reason(error)}")
        return None, None
    is_scored = np.isfinite(scores[:, 0])
    scored_rows = of_all(dataset, is_scored, scores, dataset.codes, dataset.weight)
    return dataset.comm.broadcast(best_thresholds(*scored_rows)), trained_folds
