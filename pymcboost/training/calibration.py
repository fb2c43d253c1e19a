"""Probabilities after a training: the temperature, and the priors of the classes.

The temperature comes from validation rows, from rows that the trees leave out, or from folds. `sources.source_of`
decides between them.

Models of folds are trained on fewer rows than the final model. If more rows help much, they are wrong more often than
it will be, and their temperature is too high. So another model, trained on the rows that one fold holds out, shows how
the temperature falls with the number of rows. With T as a power of this number,

    log T(n) = log T(b) - log(n / b) / log(b / s) (log T(s) - log T(b)),

where n is the number of all training rows, b that of the model of a fold, and s that of the additional model. If T(s)
is below T(b), T(b) is used instead; T(s) is also limited to a multiple of T(b), because models of few rows that have
learned almost nothing give no information about many rows. The power of T(b) / T(s) is at most 1, so that T does not
change more from b to n than from s to b. If one fold holds out enough rows for a temperature, T(b) is used without the
correction: it is then closer to the best temperature than a result computed from two inexact numbers.

If some rows are never held out, such as the first rows in time-series folds, the folds with the most training rows come
first: they are the last in time, and the most similar to the final model. The additional model is trained only on rows
on which the fold that it is scored on is trained, too; with time-series folds, on earlier rows.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from pymcboost._warn import warn
from pymcboost.model.init_scores import need_init_score
from pymcboost.model.temperature import codes_of, fit_temperature, rounded
from pymcboost.training.divided_folds import (
    NO_FOLDS,
    FoldError,
    n_weighted,
    of_all,
    pass_on,
    present,
    reason,
    sizes,
)
from pymcboost.training.folds import OutOfFoldScores, held_scores, splits
from pymcboost.training.inputs import check_consistent_length, weights_of_rows

# If the second model has at least this share of the rows of the others, it adds no information.
ALIKE = 0.8
# This many held-out rows are enough for a temperature, or this share of all rows; no further folds are then trained.
ENOUGH = 600
ENOUGH_SHARE = 0.55
# With fewer rows, only boosters with `corrects_few` train a second model: with others, its noise would outweigh its
# information.
FEW = 500
# Upper limit of the ratio T(s) / T(b).
MOST_RISE = 4.0
# The log temperature from left-out rows is a weighted mean: SHARE_OUTSIDE is the weight of the out-of-bag
# temperature, which is at most MOST_SOFT times the leave-one-out temperature. The result is too high by a factor that
# hardly differs between data sets; BIAS corrects it. All three were chosen on training parts of 40 sets, see
# docs/results/choices.md.
SHARE_OUTSIDE = 0.8
MOST_SOFT = 30.0
BIAS = 0.905

UNSEEN = (
    "cv: no fold trains on a class that it holds out, so there is no temperature; use "
    "stratified folds, or set calibrate=None"
)


def check_rows(estimator, dataset, validation_set):
    """Refuse, before the first round, rows from which no temperature comes.

    Returns
    -------
    list of (rows to train on, rows held out), or None
        The folds of a ``cv`` that is no number.
    """
    if validation_set is not None:
        if not _known_weights(validation_set).any():
            raise ValueError(
                f"the validation set {validation_set.name!r} has no row with positive weight and a label "
                "that the training knows, so there is no temperature; give such rows, or set "
                "calibrate=None"
            )
        return None
    # With "auto", the folds have been checked already.
    if isinstance(estimator.cv, Integral) or estimator.n_estimators == "auto":
        return None
    parts = splits(estimator.cv, dataset, None)
    if not any(np.isin(dataset.codes[rows], dataset.codes[train]).any() for train, rows in parts):
        raise ValueError(UNSEEN)
    return parts


def too_few(validation_set):
    """Whether the validation rows (`ValidationSet`) that were split off are too few for a temperature."""
    return np.count_nonzero(_known_weights(validation_set)) < ENOUGH


def temperature_of_rows(model, validation_set):
    """Temperature of a model on a `ValidationSet`, without rows whose labels do not occur in training."""
    return fit_temperature(
        validation_set.raw_scores(model),
        validation_set.codes.clip(0),
        _known_weights(validation_set),
        model.link,
    )


def _known_weights(validation_set):
    """Weights of the rows; 0 for rows whose labels do not occur in training."""
    return (validation_set.codes >= 0) * validation_set.row_weight


def temperature_of_left_out(left_out, data, link):
    """Temperature from the scores of training rows without their own contribution to the leaves (`LeftOutScores`).

    Leave-one-out scores are too sharp, out-of-bag scores too soft: see `SHARE_OUTSIDE`.
    """
    comm = data.comm
    rows = left_out.rows
    alone = np.concatenate(comm.exchange(left_out.alone))
    outside = np.concatenate(comm.exchange(left_out.outside))
    codes = np.concatenate(comm.exchange(data.y[rows]))
    weight = np.concatenate(comm.exchange(data.weight[rows]))
    sharp = fit_temperature(alone, codes, weight, link)
    soft = min(fit_temperature(outside, codes, weight, link=link, start=sharp), MOST_SOFT * sharp)
    return comm.broadcast(rounded(BIAS * sharp ** (1 - SHARE_OUTSIDE) * soft**SHARE_OUTSIDE))


def temperature_of_folds(estimator, dataset, seed, rounds, folds=None, parts=None, previous=None):
    """Temperature of a model of all rows, from models of folds.

    Parameters
    ----------
    estimator, dataset, seed, rounds
        See `folds.held_scores`.
    folds : OutOfFold, optional
        Folds that there are already, with rounds that fit their rows.
    parts : list, optional
        What `check_rows` has found.
    previous : Previous, optional
        See `folds.held_scores`.

    Returns
    -------
    temperature : float or None
        None, with a warning, if rows, memory or disk are insufficient for folds, because the model is already trained.
    trained_folds : OutOfFoldScores or None
        Scores of the folds, if all were trained here.
    """
    try:
        options = {"rounds": rounds, "folds": folds, "previous": previous}
        scored = _scored(estimator, dataset, seed, parts=parts, **options)
        return _of_folds(estimator, dataset, seed, scored=scored, **options), scored.trained_folds
    except NO_FOLDS as error:
        pass_on(dataset, error)
        warn(f"the probabilities are not calibrated: {reason(error)}")
        return None, None


@dataclass(frozen=True)
class _Scored:
    """Folds in the order of use, those that are trained, and the scores and link of their models."""

    parts: list
    used: list
    scores: np.ndarray
    link: str
    trained_folds: OutOfFoldScores | None = None


def _scored(estimator, dataset, seed, *, rounds, folds, parts, previous):
    """Score the rows that folds hold out; train as few folds as give a temperature, if there are none yet."""
    if folds is not None:
        parts = _largest_first(dataset, folds.parts())
        return _Scored(parts, used=parts, scores=folds.scores, link=folds.link)
    all_parts = parts or splits(estimator.cv, dataset, seed)
    parts = _largest_first(dataset, all_parts)
    used = parts[: _enough(dataset, parts)]
    scores, link = held_scores(
        estimator, dataset, seed, rounds=rounds, parts=used, previous=previous
    )
    trained_folds = None
    if len(used) == len(parts):
        trained_folds = OutOfFoldScores.of(scores, all_parts)
    return _Scored(parts, used, scores, link=link, trained_folds=trained_folds)


def _of_folds(estimator, dataset, seed, *, rounds, folds, previous, scored):
    """Compute the temperature; train another model on few rows if it shows how more rows change it."""
    parts = scored.parts
    used = scored.used
    link = scored.link
    first = _temperature(scored.scores, dataset, used, link)
    n = n_weighted(dataset.comm, dataset.weight)
    b, s = np.mean(sizes(dataset, used), axis=0)
    is_noisy = n < FEW and not estimator.booster.corrects_few
    if is_noisy or _enough(dataset, parts) == 1 or s >= ALIKE * b:
        return first
    second, share = _of_few_rows(dataset, parts)
    if second is None:
        return first
    s *= share
    rounds = rounds if folds is None else max(1, round(folds.best_round * float(np.sqrt(s / b))))
    scores, _ = held_scores(
        estimator, dataset, seed, rounds=rounds, parts=[second], previous=previous
    )
    try:
        higher = _temperature(scores, dataset, [second], link)
    except FoldError:  # none of its classes are held out
        return first
    higher = min(max(first, higher), MOST_RISE * first)
    power = min(1.0, np.log(n / b) / np.log(b / s))
    return rounded(first * (first / higher) ** power)


def _largest_first(dataset, parts):
    """The folds in their order, or the folds with the most training rows first if some rows are never held out."""
    n_train, n_held = sizes(dataset, parts).T
    if n_held.sum() == n_weighted(dataset.comm, dataset.weight):
        return parts
    return [parts[i] for i in np.argsort(-n_train, kind="stable")]


def _of_few_rows(dataset, parts):
    """Small training set from one of the first two folds, and the held-out rows of the other.

    The training rows are held-out rows of one fold that the other fold trains on; the second value is their share of
    the held-out rows. None if they have fewer than two classes.
    """
    (first_train, first_held), (second_train, second_held) = parts[:2]
    for candidates, train, scored in (
        (first_held, second_train, second_held),
        (second_held, first_train, first_held),
    ):
        few = candidates[np.isin(candidates, train)]
        if np.count_nonzero(present(dataset, few)) >= 2:
            n_few, n_candidates = sizes(dataset, [(few, candidates)])[0]
            return (few, scored), n_few / n_candidates
    return None, 0.0


def _enough(dataset, parts):
    """How many of the first folds are needed to hold out enough rows."""
    n_held_out = np.cumsum(sizes(dataset, parts)[:, 1])
    return int(np.searchsorted(n_held_out, min(ENOUGH, ENOUGH_SHARE * n_held_out[-1]))) + 1


def _temperature(scores, dataset, parts, link):
    """Fit the temperature to the held-out rows."""
    weight = _weights(dataset, parts)
    rows_of_all = of_all(dataset, weight > 0, scores, dataset.codes, weight)
    try:
        return dataset.comm.broadcast(fit_temperature(*rows_of_all, link))
    except ValueError as error:
        raise FoldError(str(error)) from error


def _weights(dataset, parts):
    """Weights of the held-out rows; 0 for other rows and for classes that the model of the fold has not seen."""
    weight = np.zeros(len(dataset.weight))
    for train, held_out in parts:
        weight[held_out] = (
            dataset.weight[held_out] * present(dataset, train)[dataset.codes[held_out]]
        )
    if not dataset.comm.maximum(np.array([int(weight.any())]))[0]:
        raise FoldError(UNSEEN)
    return weight


def shares(state, data, workers):
    """Shares (K,) of the classes in the total weight: the probabilities of a model without rounds.

    None if the model has rounds or initial scores, is multi-label, or has a custom loss, which sets its own initial
    scores.
    """
    booster = state.booster
    has_scores = state.n_rounds or booster.init_score is not None
    has_custom_loss = booster.link == "none" and callable(booster.probabilities)
    if has_scores or booster.multilabel or has_custom_loss:
        return None
    # Without rows, bincount returns int64.
    class_weights = np.bincount(data.y, data.weight, data.n_classes).astype(np.float64)
    class_weights = workers.sum(class_weights)
    return np.maximum(class_weights / class_weights.sum(), np.finfo(np.float32).tiny)


def with_shares(model, factors):
    """Set the initial scores of a model so that it predicts these probabilities."""
    if model.has_probabilities:
        return model.reweighted(factors)
    return model.with_temperature(1.0).reweighted(factors).with_temperature(None)


def priors(estimator, classes, weight):
    """Factors that undo the class weights if `restore_priors` is set, or None."""
    if not getattr(estimator, "restore_priors", False) or (weight == weight[0]).all():
        return None
    with np.errstate(divide="ignore", over="ignore"):
        inverse_weights = 1 / weight
    if np.isinf(inverse_weights).any():
        class_index = inverse_weights.argmax()
        raise ValueError(
            f"{type(estimator).__name__}: restore_priors divides by the class weights, and the "
            f"weight of {classes.tolist()[class_index]!r} is {weight[class_index]:g}; leave out the rows of this "
            "class, or set restore_priors=False"
        )
    return inverse_weights


class CalibratesOnRows:
    """Calibration of fitted estimators on given rows."""

    model_: ClassVar[Any]
    classes_: ClassVar[Any]
    n_jobs: int | None
    _checked: Any

    def calibrate_on(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
    ) -> Self:
        """Calibrate the probabilities of the fitted model on rows that it has not been trained on.

        The temperature with the smallest log loss on these rows replaces the one of the model until the next `fit`.
        Scores and predictions do not change.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows that the model has not been trained on.
        y : array-like of shape (n_samples,)
            Class labels of these rows. Some classes may be absent.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sample weights. They are not multiplied by the class weights.
        init_score : array-like, default=None
            Scores to which the scores of the model are added, as in `fit`.

        Returns
        -------
        self : estimator
            The calibrated estimator.

        Notes
        -----
        ``restore_priors`` changes the bias of the model in proportion to the temperature of the training. The bias does
        not change here, so another temperature undoes the class weights only in part. Leave ``restore_priors`` at False
        and use `Model.reweighted` after this method.
        """
        X, first = self._checked(X, init_score)
        need_init_score(self, "calibrate_on", first)
        if self.model_.link == "sigmoid":
            raise ValueError(
                "calibrate_on: a temperature needs one class per row; multi-label models have none"
            )
        weight = weights_of_rows(sample_weight, X.shape[0])
        codes = codes_of(y, self.classes_)
        check_consistent_length(X, codes)
        labels = self.model_.classes_[codes]
        vars(self)["model_"] = self.model_.calibrated(
            X, labels, weight, n_jobs=self.n_jobs, **first
        )
        return self
