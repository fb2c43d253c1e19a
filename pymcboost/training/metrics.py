"""Metrics for early stopping and the history, computed from the scores of held-out rows."""

import copy
import inspect
import numbers
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from pymcboost._kernels import elementary, score
from pymcboost._kernels.exact import on_grid, total
from pymcboost._text import column_of, metrics_of
from pymcboost._warn import warn
from pymcboost.losses.own import takes_positions
from pymcboost.model.file import factor_of
from pymcboost.model.rows import as_numpy
from pymcboost.model.temperature import (
    below_top,
    fit_temperature,
    log_softmax,
    sums_of_exponentials,
)
from pymcboost.training import labels

# Lower limit of probabilities, as in scikit-learn's log_loss; also the probability of labels that do not occur in
# training.
LEAST = np.finfo(np.float64).eps
# Number of scores that are processed at once, so that they stay in the cache.
CHUNK = 1 << 15
# Scores that differ by at most this, relative to the largest, are equal up to rounding.
ROUNDING = 64 * np.finfo(np.float64).eps
# Factors of the scores before the softmax.
FACTORS = {"softmax": 1.0, "softmax2": 2.0}


@dataclass(frozen=True)
class ValidationSet:
    """Rows on which a metric is measured.

    Attributes
    ----------
    name : str
    X : ndarray or CSC matrix (n, d)
        As the training has them.
    y : ndarray (n,)
        Labels.
    codes : ndarray of int (n,)
        Their positions in the classes; -1 for labels that training has not seen. Or an indicator (n, K) of labels.
    weight : ndarray of float64 (n,) or None
        None if all rows have the same weight.
    user_X : array, frame or sparse matrix (n, d), optional
        The rows as the user gave them, for metrics that are functions; see `as_given`. By default X.
    init_score : ndarray (n, K), optional
        Initial scores, to which the model's scores are added.
    """

    name: str
    X: Any
    y: np.ndarray
    codes: np.ndarray
    weight: np.ndarray | None
    user_X: Any = None
    init_score: Any = None

    @classmethod
    def of(cls, name, X, y, codes, weight, user_X=None, init_score=None):
        """Create the set with weights scaled to a maximum of 1; an error if no row has positive weight."""
        largest = weight.max(initial=0)
        if not 0 < largest < np.inf:
            problem = "no row of positive weight" if largest == 0 else "weights that overflow"
            raise ValueError(
                f"the validation set {name!r} has {problem}, so its metric has no value"
            )
        weight = None if (weight == largest).all() else weight / largest
        if weight is not None:
            weight[weight > 0] = on_grid(weight[weight > 0], 1.0, len(weight))
        return cls(name, X, y, codes=codes, weight=weight, user_X=user_X, init_score=init_score)

    @property
    def row_weight(self):
        """Weight of every row, ones if all are the same: float64 (n,)."""
        return np.ones(len(self.codes)) if self.weight is None else self.weight

    def raw_scores(self, model):
        """Raw scores (n, K) of the rows by a model."""
        scores = model.raw_scores(self.X)
        return scores if self.init_score is None else scores + self.init_score

    def mean(self, values):
        """Weighted mean over the rows, independent of their order."""
        if self.weight is None:
            return total(values) / len(values)
        return total(values * self.weight) / float(self.weight.sum())

    def totals(self, values=1.0):
        """Sums of the weighted values by class, with unseen labels first: (K' + 1,)."""
        return np.bincount(self.codes + 1, self.row_weight * values)


def as_given(X, rows=None):
    """Return X, or rows of it, in the user's type. Lists become arrays; rows of sparse matrices become CSR."""
    X = as_numpy(X) if hasattr(X, "shape") else np.asarray(X)
    if rows is None:
        return X
    if hasattr(X, "column_names"):  # pyarrow
        return X.take(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.tocsr()[rows] if hasattr(X, "tocsr") else X[rows]


def log_probabilities(scores, link):
    """Log-probabilities (n, K), with the same bits on every CPU."""
    if callable(link):
        return link(scores)
    if link == "sigmoid":
        return labels.log_sigmoids(scores)
    return log_softmax(below_top(scores, link))


def probabilities(scores, link):
    """Probabilities (n, K); for softmaxes, with the same bits as `predict_proba`."""
    if isinstance(link, LinkAtTemperature):
        return link.probabilities(scores)
    if link in FACTORS:
        return score.softmax(scores, link == "softmax2")
    exponentials = elementary.exp(log_probabilities(scores, link))
    return exponentials if link == "sigmoid" else exponentials / sums_of_exponentials(exponentials)


@dataclass(frozen=True)
class LinkAtTemperature:
    """A softmax with a temperature that the loss requires; calling it returns log-probabilities."""

    link: str
    temperature: float

    def __call__(self, scores):
        """Log-probabilities (n, K)."""
        return log_softmax(below_top(scores, self.link) * self._factor)

    def probabilities(self, scores):
        """Probabilities (n, K), with the same bits as `predict_proba`."""
        return score.softmax(scores, self.link == "softmax2", self._factor)

    @property
    def _factor(self):
        return float(factor_of(self.temperature)[0])


def log_loss(scores, validation_set, link):
    """Mean of -log p of the true classes, where 1 / p is the sum of exp(F_k - F_true), and p is at least ``LEAST``."""
    lost = np.empty(len(scores))
    rows = np.arange(len(scores))
    if callable(link):
        lost = np.where(validation_set.codes < 0, np.inf, -link(scores)[rows, validation_set.codes])
        return validation_set.mean(np.minimum(lost, -np.log(LEAST)))
    step = 1 + CHUNK // scores.shape[1]
    for begin in range(0, len(scores), step):
        part = slice(begin, begin + step)
        above = scores[part] - scores[rows[part], validation_set.codes[part]][:, None]
        if link == "softmax2":
            above *= FACTORS[link]
        np.einsum("ij->i", elementary.exp(above, out=above), out=lost[part])
    lost = elementary.log(lost, out=lost)
    lost[validation_set.codes < 0] = np.inf
    return validation_set.mean(np.minimum(lost, -np.log(LEAST)))


class CalibratedLogLoss:
    """Log loss at the temperature that is best for the measured rows: what a calibrated model can reach.

    Parameters
    ----------
    link : {"softmax", "softmax2"}
        That of the model.
    """

    name = "calibrated_log_loss"
    sign = 1

    def __init__(self, link):
        self.link = link
        self._temperature = 1.0

    def of_sets(self, scores, sets, has_known_label):
        """Compute the metric of every set at a common temperature, fitted to the rows with ``has_known_label``."""
        codes = np.concatenate([validation_set.codes for validation_set in sets]).clip(0)
        weight = np.concatenate(
            [
                is_known * validation_set.row_weight
                for is_known, validation_set in zip(has_known_label, sets, strict=True)
            ]
        )
        if weight.any():
            self._temperature = fit_temperature(
                np.concatenate(scores), codes, weight, self.link, self._temperature
            )
            scores = [scores_of_set / self._temperature for scores_of_set in scores]
        return [
            log_loss(scores_of_set, validation_set, self.link)
            for scores_of_set, validation_set in zip(scores, sets, strict=True)
        ]

    def __call__(self, scores, validation_set):
        """Compute the metric of these scores (n, K), independent of earlier calls."""
        self._temperature = 1.0
        return self.of_sets([scores], [validation_set], [validation_set.codes >= 0])[0]


def calibrated_of(params, link):
    """List with the calibrated log loss if it decides and a calibration follows; otherwise empty."""
    deciding = next(iter(metrics_of(params.scoring).values()))
    will_calibrate = (
        deciding == "log_loss" and params.calibrate == "temperature" and link in FACTORS
    )
    return [CalibratedLogLoss(link)] if will_calibrate else []


def error(scores, validation_set, link):
    """Weighted share of wrong predictions."""
    return validation_set.mean(scores.argmax(axis=1) != validation_set.codes)


def balanced_error(scores, validation_set, link):
    """Mean over the classes of their weighted share of wrong predictions.

    Labels that do not occur in training form one more class, which is always wrong.
    """
    total_weight = validation_set.totals()
    wrong_weight = validation_set.totals(scores.argmax(axis=1) != validation_set.codes)
    has_rows = total_weight > 0
    return float(np.mean(wrong_weight[has_rows] / total_weight[has_rows]))


def auc_ovr(scores, validation_set, link, of_scores=probabilities):
    """Mean over the classes of the one-vs-rest area under the ROC curve, for classes with rows inside and outside.

    Rows are ordered by the probability of the class, or by its score if there are no probabilities. Rows whose scores
    differ by no more than the rounding of float sums are tied. ``of_scores``: computes the probabilities.
    """
    top = np.abs(scores).max(initial=0)
    if link in ("none", "sigmoid"):
        columns = scores
        rounding = _rounding_of_scores
    elif isinstance(link, LinkAtTemperature) or link in FACTORS:
        columns = of_scores(scores, link)
        rounding = _rounding_of_probabilities
    else:
        # log-probabilities of a custom loss, which give the same order
        columns = link(scores)
        rounding = _rounding_of_scores
        top = max(top, np.abs(columns).max(initial=0))
    if validation_set.codes.ndim == 2:
        inside = validation_set.codes.T == 1
    else:
        inside = validation_set.codes == np.arange(scores.shape[1])[:, None]
    areas = [
        _area(columns[:, k], inside[k], validation_set.weight, rounding=partial(rounding, top=top))
        for k in _two_sided(validation_set)
    ]
    return float(np.mean(areas))


def _rounding_of_scores(column, top):
    """Possible difference of equal sums: the terms of a class are added in the order of its rounds."""
    return ROUNDING * top


def _rounding_of_probabilities(column, top):
    """Possible difference of equal probabilities: the derivative of p is p (1 - p), and p is rounded by a few units."""
    return column * (ROUNDING * top * (1 - column) + 4 * np.finfo(np.float64).eps)


def _area(column, inside, weight, rounding):
    """Share of the pairs (row inside, row outside) that are ordered correctly; ties count half."""
    order = np.argsort(column, kind="stable")
    column = column[order]
    inside = inside[order]
    weight = np.ones(len(order)) if weight is None else weight[order]
    is_larger = column[1:] - column[:-1] > rounding(column[1:])
    begin_of_ties = np.flatnonzero(np.concatenate(([True], is_larger)))
    within = np.add.reduceat(weight * inside, begin_of_ties)
    outside = np.add.reduceat(weight * ~inside, begin_of_ties)
    return ((np.cumsum(outside) - outside / 2) * within).sum() / (within.sum() * outside.sum())


def _two_sided(validation_set):
    """Classes (or labels) that some rows of positive weight have, and others do not."""
    if validation_set.codes.ndim == 2:
        has = validation_set.codes[validation_set.row_weight > 0] > 0
        return np.flatnonzero(has.any(axis=0) & ~has.all(axis=0))
    total = validation_set.totals()
    return np.flatnonzero((total[1:] > 0) & (total.sum() - total[1:] > 0))


METRICS = {
    "log_loss": log_loss,
    "error": error,
    "balanced_error": balanced_error,
    "auc_ovr": auc_ovr,
}
# Metrics for multi-label data.
LABEL_METRICS = {**labels.METRICS, "auc_ovr": auc_ovr}
ERRORS = ("log_loss", "error", "balanced_error", "loss", "hamming_loss")


class Metric:
    """Metric, given by its name or as a function.

    Parameters
    ----------
    scoring : str or callable
        One metric of the parameter ``scoring`` of the estimators.
    classes : ndarray (K,)
    link : {"none", "softmax", "softmax2"} or callable
        That of the model, or a function of the scores that gives the logarithms of the probabilities.
    loss : callable, optional
        Losses (n,) from scores and class codes, for the metric "loss".
    name : str, optional
        Name in the history, if the user gives one.

    Attributes
    ----------
    name : str
        Name of its columns in the history, after the name of the set; by default "score" for a callable.
    sign : {1, -1}
        1 where smaller is better.
    """

    def __init__(self, scoring, classes, link, loss=None, name=None):
        self.classes = classes
        self.link = link
        name_of_scoring = column_of(scoring)
        self.name = name_of_scoring if name is None else name
        self.sign = 1 if scoring in ERRORS else -1
        is_multilabel = link == "sigmoid"
        self._function = (LABEL_METRICS if is_multilabel else METRICS).get(name_of_scoring)
        if self._function is None:
            _refuse_other_rows(name_of_scoring, is_multilabel)
        if name_of_scoring == "loss":
            if loss is None:
                raise ValueError(
                    "scoring='loss' works only with a custom loss given as an object; use "
                    "'log_loss' or another metric"
                )

            def mean_loss(scores, validation_set, link):
                return validation_set.mean(loss(scores, validation_set.codes))

            self._function = mean_loss
        if callable(scoring) and not _is_scorer(scoring):
            raise ValueError(
                f"scoring: {scoring!r} cannot be called with (estimator, X, y); give a "
                "function that takes these and returns a number, larger for better. "
                "sklearn.metrics.make_scorer converts a metric of (y_true, y_pred)"
            )
        self._scorer = None if self._function else _scorer(scoring)
        self._measure = self._scorer if is_multilabel else _with_classes(self._scorer, classes)
        self._needs_loss = name_of_scoring == "loss"
        self._needs_two_sides = name_of_scoring == "auc_ovr"
        if link == "none" and (name_of_scoring == "log_loss" or _needs_probabilities(self._scorer)):
            raise ValueError(
                f"scoring={scoring!r} needs probabilities, which this algorithm does not "
                "provide; use 'error', 'balanced_error' or 'auc_ovr'"
            )

    @property
    def takes_rows(self):
        """Whether it is a scorer, which also gets the rows."""
        return self._function is None

    def check(self, validation_set):
        """Refuse rows for which the metric is undefined; warn if it ignores weights."""
        if self._needs_loss and (validation_set.codes < 0).any():
            raise ValueError(
                f"the validation set {validation_set.name!r} has rows with the label "
                f"{validation_set.y[validation_set.codes < 0][0]!s}, which does not occur in the training "
                "labels, so they have no loss; leave out these rows, or use another scoring"
            )
        if self._needs_two_sides and not len(_two_sided(validation_set)):
            raise ValueError(
                f"the validation set {validation_set.name!r} has rows of one class only, so auc_ovr has "
                "no value; give rows of at least two classes, or use another scoring"
            )
        if self._function is None and validation_set.weight is not None and not self._weighted():
            warn(
                f"scoring: {self._scorer!r} does not accept sample_weight, so it ignores the "
                f"weights of the validation set {validation_set.name!r}"
            )

    def _weighted(self):
        return _takes(getattr(self._scorer, "_score_func", self._scorer), "sample_weight")

    def __call__(self, scores, validation_set, of_scores=probabilities):
        """Compute the metric of these scores (n, K).

        ``of_scores``: a function of scores and link that gives probabilities, which metrics may share.
        """
        if self._function is auc_ovr:
            return auc_ovr(scores, validation_set, self.link, of_scores)
        if self._function is not None:
            return self._function(scores, validation_set, self.link)
        return self._score_of_scorer(scores, validation_set, of_scores)

    def _score_of_scorer(self, scores, validation_set, of_scores):
        """Call the scorer with a classifier that returns these scores; refuse what is not a number."""
        from pymcboost.training.round_view import RoundView

        probabilities_of = None
        if self.link != "none":
            probabilities_of = partial(_own_probabilities, link=self.link, of_scores=of_scores)
        view = RoundView(scores, self.classes, probabilities_of, labels=self.link == "sigmoid")
        average = _average_of_classes(self._scorer)
        present = _two_sided(validation_set)
        is_multiclass = validation_set.codes.ndim == 1 and len(self.classes) > 2
        if average and is_multiclass and 0 < len(present) < len(self.classes):
            return self._mean_of_classes(average, view, validation_set, present)
        X = validation_set.X if validation_set.user_X is None else validation_set.user_X
        weights = {}
        if validation_set.weight is not None and self._weighted():
            weights["sample_weight"] = validation_set.weight
        try:
            value = self._measure(view, X, validation_set.y, **weights)
        except (ValueError, AttributeError) as error:
            raise ValueError(
                f"scoring: {self._scorer!r} fails on the validation set {validation_set.name!r}: "
                f"{error}{self._remedy(validation_set)}"
            ) from error
        if not isinstance(value, numbers.Real) or np.isnan(value):
            remedy = (
                self._remedy(validation_set)
                or ". Probabilities can be 0 or 1: clip them before taking their logarithm"
            )
            if isinstance(value, (tuple, list)):  # as functions for LightGBM do
                remedy = ", larger for better, without a name; to name a metric, use scoring={name: function}"
            raise ValueError(
                f"scoring: {self._scorer!r} returns {value!r} for the validation set "
                f"{validation_set.name!r}; it must return a number{remedy}"
            )
        return float(value)

    def _mean_of_classes(self, average, view, validation_set, present):
        """Mean of scikit-learn's one-vs-rest metric over the classes that have rows.

        scikit-learn's own mean is NaN or an error if a class has no rows.
        """
        if _needs_probabilities(self._scorer):
            columns = view.predict_proba(None)
        else:
            columns = view.decision_function(None)
        values = [
            self._scorer._score_func(
                validation_set.codes == k, columns[:, k], sample_weight=validation_set.weight
            )
            for k in present
        ]
        weight = validation_set.totals()[1 + present] if average == "weighted" else None
        return float(self._scorer._sign * np.average(values, weights=weight))

    def _remedy(self, validation_set):
        """Advice if a metric is undefined because a class has no rows; empty if all classes have some."""
        if validation_set.codes.ndim == 2:
            return ""
        absent = np.setdiff1d(np.arange(len(self.classes)), validation_set.codes)
        if not len(absent):
            return ""
        return (
            f"; the set has no row of the class {self.classes[absent[0]].item()!r}: give rows "
            "of all classes, or use a metric that does not need them, such as 'balanced_error'"
        )


def _refuse_other_rows(name, is_multilabel):
    """Refuse the name of a metric that is only for multi-label rows, or only for one class per row."""
    rows = None
    if is_multilabel and name in METRICS:
        rows = "one class per row"
    elif not is_multilabel and name in labels.ONLY:
        rows = "multi-label rows and loss='logistic'"
    if rows is not None:
        raise ValueError(
            f"scoring={name!r} works only with {rows}; use 'log_loss' or another metric"
        )


def metrics_by(scoring, classes, link, loss=None):
    """The metrics of a parameter ``scoring`` in its order, of which the first decides; see `Metric`."""
    return [
        Metric(metric, classes, link, loss, name) for name, metric in metrics_of(scoring).items()
    ]


def looks_at_rows(scoring):
    """Whether ``scoring`` has a function that may read the rows; scikit-learn's scorers do not."""
    return any(
        callable(metric) and not hasattr(metric, "_score_func")
        for metric in metrics_of(scoring).values()
    )


def measured(metrics, scores, validation_set):
    """Compute several metrics of the same scores, by name. They share one softmax."""
    if len(metrics) == 1:
        return {metrics[0].name: metrics[0](scores, validation_set)}
    shared = cache(partial(probabilities, scores))

    def of_scores(_, link):
        return shared(link)

    return {metric.name: metric(scores, validation_set, of_scores) for metric in metrics}


def _own_probabilities(scores, link, of_scores):
    """Probabilities in an array that a scorer may overwrite."""
    probabilities_of_rows = of_scores(scores, link)
    return probabilities_of_rows if of_scores is probabilities else probabilities_of_rows.copy()


def _scorer(scoring):
    from sklearn.metrics import get_scorer  # here, as no other metric needs scikit-learn

    return get_scorer(scoring)


def _is_scorer(function):
    """Whether a function can be called with (estimator, X, y), and perhaps with weights."""
    return takes_positions(function, 3) or takes_positions(function, 3, "sample_weight")


def _takes(function, name):
    """Whether a function has an argument of this name, according to its signature."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _with_classes(scorer, classes):
    """Tell a scorer's metric the classes, if it would otherwise infer them from the rows.

    Metrics of predicted labels do not need them, and a mean that included absent labels would be a different one.
    """
    options = getattr(scorer, "_kwargs", {})
    predicts_labels = getattr(scorer, "_response_method", "predict") == "predict"
    takes_labels = _takes(getattr(scorer, "_score_func", None), "labels")
    if predicts_labels or "labels" in options or not takes_labels:
        return scorer
    named = copy.copy(scorer)
    named._kwargs = {**options, "labels": classes}
    return named


def _average_of_classes(scorer):
    """How a scikit-learn scorer averages one-vs-rest curves.

    None if its metric does not, or if it handles classes without rows itself.
    """
    options = getattr(scorer, "_kwargs", {})
    name = getattr(getattr(scorer, "_score_func", None), "__name__", None)
    average = options.get("average", "macro")
    by_class = name == "average_precision_score" or (
        name == "roc_auc_score" and options.get("multi_class") == "ovr"
    )
    return average if by_class and average in ("macro", "weighted") else None


def _needs_probabilities(scorer):
    """Whether it is a scikit-learn scorer that needs probabilities."""
    return getattr(scorer, "_response_method", None) in (
        "predict_proba",
        ("predict_proba",),
        ["predict_proba"],
    )
