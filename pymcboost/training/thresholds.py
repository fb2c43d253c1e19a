"""Thresholds of labels, from rows that the model has not seen: validation rows or folds."""

import numpy as np

from pymcboost._warn import warn
from pymcboost.training.divided_folds import NO_FOLDS, of_all, pass_on, reason
from pymcboost.training.folds import OutOfFoldScores, held_scores, splits
from pymcboost.training.labels import best_thresholds


def of_rows(model, held):
    """Thresholds (K,) with the largest F1 on validation rows (`Held`)."""
    weight = np.ones(len(held.codes)) if held.weight is None else held.weight
    return best_thresholds(held.raw_scores(model), held.codes, weight)


def of_folds(estimator, dataset, seed, rounds, found=None, previous=None):
    """Thresholds (K,) from models of the folds of ``cv``; arguments as for `calibration.temperature_of_folds`.

    Returns
    -------
    thresholds : ndarray of float64 (K,) or None
        None, with a warning, where rows, memory or disk are too small for folds: the model is there already.
    kept : OutOfFoldScores or None
        Where the folds were trained here.
    """
    kept = None
    try:
        if found is None:
            parts = splits(estimator.cv, dataset, seed)
            scores, _ = held_scores(estimator, dataset, seed, rounds, parts, previous)
            kept = OutOfFoldScores.of(scores, parts)
        else:
            scores = found.scores
    except NO_FOLDS as error:
        pass_on(dataset, error)
        warn(f"all labels keep the threshold 0.5: {reason(error)}")
        return None, None
    used = np.isfinite(scores[:, 0])
    found = best_thresholds(*of_all(dataset, used, scores, dataset.codes, dataset.weight))
    return dataset.comm.broadcast(found), kept
