"""Cross-validation: ``mcboost-train -v``."""

import warnings

import numpy as np

from pymcboost.cli.answers import mean_log_loss
from pymcboost.cli.lists import TITLES, measures
from pymcboost.threads import counted
from pymcboost.training import labels
from pymcboost.training.metrics import error, log_loss
from pymcboost.training.parameters import values_of


class Curve:
    """Callback that measures held-out rows after every round: error and log loss, or the multi-label equivalents."""

    def __init__(self):
        self.rows = []

    def after_round(self, state):
        """Measure the validation set named "held", which comes last."""
        validation_set = state.validation.named("held")
        link = state.booster.probabilities
        scores = state.validation.scores[-len(validation_set.codes) :]
        if validation_set.codes.ndim == 2:
            errors = labels.hamming_loss(scores, validation_set, link)
            loss = labels.cross_entropy(scores, validation_set, link)
        else:
            errors = error(scores, validation_set, link)
            loss = np.nan if link == "none" else log_loss(scores, validation_set, link)
        self.rows.append((errors, loss))


def folds_of(y, folds, seed):
    """The training rows and held-out rows of every fold; ``y`` holds labels or a multi-label indicator matrix."""
    from pymcboost.training.divided_folds import few_rows
    from pymcboost.training.strata import stratified

    if y.ndim == 2:
        if folds > len(y):
            raise ValueError(
                f"-v {folds}: there are only {counted(len(y), 'row')}; use at most that many folds"
            )
        return stratified(np.zeros(len(y)), folds, seed or 0)
    labels, counts = np.unique(y, return_counts=True)
    if folds > counts.max():
        raise ValueError(f"-v {folds}: {few_rows(counts.max())}")
    if folds > counts.min():
        rare = labels[counts.argmin()]
        rows = counted(counts.min(), "row")
        warnings.warn(
            f"-v {folds}: class {rare} has only {rows}, so some folds hold out no row of it",
            stacklevel=2,
        )
    return stratified(y, folds, seed or 0)


def measure(estimator, X, y, train, held_out, libsvm_c=None, **options):
    """Train on some rows, and return the number of correct predictions for others, and error and log loss by name.

    For multi-label data, a row is correct if all its labels are, and the metrics are the multi-label ones.
    """
    if libsvm_c is not None:
        estimator.C = libsvm_c * len(train)
    model = estimator.fit(X[train], y[train], **options).model_
    if y.ndim == 2:
        scores = model.raw_scores(X[held_out])
        n_exact = ((scores > model.thresholds) == y[held_out]).all(axis=1).sum()
        return n_exact, measures(scores, model.thresholds, y[held_out])
    loss = mean_log_loss(model, X[held_out], y[held_out]) if model.has_probabilities else np.nan
    right = model.predict(X[held_out]) == y[held_out]
    return right.sum(), {"error": 1 - right.mean(), "log_loss": loss}


def cross_validate(estimator, X, y, arguments):
    """Print LIBSVM's accuracy line over all folds, then mean and deviation over folds, and curves.

    For multi-label data, print the share of rows with all labels correct, then the lines of ``mcboost-predict``.
    """
    folds = arguments.cross_validation
    params = values_of(estimator)
    hits = 0
    fold_metrics = []
    curves = []
    for train, held_out in folds_of(y, folds, params.get("random_state")):
        options = {}
        curve = Curve()
        if arguments.curve:
            options = {
                "validation_sets": {"held": (X[held_out], y[held_out])},
                "callbacks": [curve],
            }
        new = type(estimator)(**params)
        right, metrics = measure(new, X, y, train, held_out, arguments.libsvm_c, **options)
        hits += right
        fold_metrics.append(list(metrics.values()))
        curves.append(curve.rows)
    if y.ndim == 1:
        share_title = "Accuracy"
        titles = {"error": "Error", "log_loss": "Log Loss"}
        curve_names = "error", "log_loss"
    else:
        share_title = "Exact Match"
        titles = {**TITLES, "hamming_loss": "Hamming Loss"}
        curve_names = "hamming_loss", "cross_entropy"
    print(f"Cross Validation {share_title} = {100 * hits / len(y):g}%")
    means = np.mean(fold_metrics, axis=0)
    spreads = np.std(fold_metrics, axis=0, ddof=1)
    for name, mean, spread in zip(metrics, means, spreads, strict=True):
        of_folds = f"(mean and deviation of {folds} folds)"
        if name == "error":
            print(
                f"Cross Validation {titles[name]} = {100 * mean:.4g}% +- {100 * spread:.3g}% {of_folds}"
            )
        elif not np.isnan(mean):
            print(f"Cross Validation {titles[name]} = {mean:.4g} +- {spread:.3g} {of_folds}")
    if arguments.curve:
        print_curve(curves, curve_names)


def print_curve(curves, names):
    """Print one line per round that all folds have: means and deviations of two metrics."""
    n_rounds = min(map(len, curves))
    values = np.array([rows[:n_rounds] for rows in curves]).reshape(len(curves), n_rounds, 2)
    mean = values.mean(axis=0)
    spread = values.std(axis=0, ddof=1)
    n_metrics = 1 if np.isnan(values[..., 1]).any() else 2  # not all models have probabilities
    print("rounds", *(f"{name} deviation" for name in names[:n_metrics]))
    for t in range(n_rounds):
        print(t + 1, *(f"{mean[t, k]:.6g} {spread[t, k]:.6g}" for k in range(n_metrics)))
