"""Cross-validation: ``mcboost-train -v``."""

import warnings

import numpy as np

from pymcboost.cli.answers import mean_log_loss
from pymcboost.threads import counted
from pymcboost.training.metrics import error, log_loss


class Curve:
    """Error and log loss of the rows held out after every round; a callback."""

    def __init__(self):
        self.rows = []

    def after_round(self, state):
        """Measure the rows of the validation set named "held", the last of all."""
        held, link = state.validation.named("held"), state.booster.link
        scores = state.validation.scores[-len(held.codes) :]
        loss = np.nan if link == "none" else log_loss(scores, held, link)
        self.rows.append((error(scores, held, link), loss))


def folds_of(y, folds, seed):
    """The rows to train on and those held out of every fold."""
    from pymcboost.training.folds import few_rows
    from pymcboost.training.strata import stratified

    labels, counts = np.unique(y, return_counts=True)
    if folds > counts.max():
        raise ValueError(f"-v {folds}: {few_rows(counts.max())}")
    if folds > counts.min():
        rare, rows = labels[counts.argmin()], counted(counts.min(), "row")
        warnings.warn(f"-v {folds}: class {rare} has only {rows}, and some folds hold out none of it", stacklevel=2)
    return stratified(y, folds, seed or 0)


def measure(estimator, X, y, train, held, libsvm_c=None, **more):
    """Train on some rows; whether others are predicted right (n,), and their log loss or NaN."""
    if libsvm_c is not None:
        estimator.set_params(C=libsvm_c * len(train))
    model = estimator.fit(X[train], y[train], **more).model_
    loss = mean_log_loss(model, X[held], y[held]) if model.has_probabilities else np.nan
    return model.predict(X[held]) == y[held], loss


def cross_validate(estimator, X, y, arguments):
    """Print LIBSVM's line about the accuracy over all folds, then mean and deviation of the folds, and curves."""
    folds, params = arguments.cross_validation, estimator.get_params()
    hits, found, curves = 0, [], []
    for train, held in folds_of(y, folds, params.get("random_state")):
        more, curve = {}, Curve()
        if arguments.curve:
            more = {"validation_sets": {"held": (X[held], y[held])}, "callbacks": [curve]}
        new = type(estimator)(**params)
        right, loss = measure(new, X, y, train, held, arguments.libsvm_c, **more)
        hits += right.sum()
        found.append((1 - right.mean(), loss))
        curves.append(curve.rows)
    print(f"Cross Validation Accuracy = {100 * hits / len(y):g}%")
    (wrong, loss), (spread, loss_spread) = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    print(f"Cross Validation Error = {100 * wrong:.4g}% +- {100 * spread:.3g}% (mean and deviation of {folds} folds)")
    if not np.isnan(loss):
        print(f"Cross Validation Log Loss = {loss:.4g} +- {loss_spread:.3g} (mean and deviation of {folds} folds)")
    if arguments.curve:
        print_curve(curves)


def print_curve(curves):
    """One line per round that all folds have: the means and deviations of error and log loss."""
    n_rounds = min(map(len, curves))
    values = np.array([rows[:n_rounds] for rows in curves]).reshape(len(curves), n_rounds, 2)
    columns = [part[:, k] for k in range(2) for part in (values.mean(axis=0), values.std(axis=0, ddof=1))]
    shown = 2 if np.isnan(values[..., 1]).any() else 4
    print(*["rounds", "error", "deviation", "log_loss", "deviation"][: 1 + shown])
    for t in range(n_rounds):
        print(t + 1, *(f"{column[t]:.6g}" for column in columns[:shown]))
