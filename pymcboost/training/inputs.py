"""What a training is given, checked: rows, labels, weights and the validation rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import validate_data

from pymcboost.model.builders import EnsembleBuilder
from pymcboost.model.model import Model
from pymcboost.model.rows import check_sparse
from pymcboost.threads import counted

TYPES = [np.float32, np.float64]


@dataclass
class Inputs:
    """The rows of a training.

    Attributes
    ----------
    X : ndarray or CSR matrix (n, d)
    classes : ndarray (K,)
        Labels, sorted.
    codes : ndarray of int (n,)
        Positions of the rows' labels in ``classes``.
    weight : ndarray of float64 (n,)
        0 for rows that are not trained on.
    validation : Validation or None
    meta : dict
        What the model file will say of the training.
    n_estimators : int
    continued : bool
        Whether it goes on from the estimator's own model.
    """

    X: Any
    classes: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    validation: Any
    meta: dict[str, Any]
    n_estimators: int
    continued: bool


class Validation:
    """Scores of the validation rows, kept up to date round by round.

    Parameters
    ----------
    X : ndarray or CSC matrix (n, d)
    codes : ndarray of int (n,)
    n_classes : int
    """

    def __init__(self, X, codes, n_classes):
        self.X, self.codes = X, codes
        self.scores = np.zeros((X.shape[0], n_classes))
        self.n_learners = 0
        self._sums = None

    def add(self, learners):
        """Add the scores of more weak learners, or of a machine."""
        if self._sums is None:
            self._sums = np.zeros((self.X.shape[0], learners.width))
        learners.add_scores_to(self._sums, self.X)
        self.scores = learners.decode(self._sums)

    def add_rounds(self, builder):
        """All rounds of a builder: the same sums as while they were trained."""
        self.n_learners = len(builder)
        for part in builder.rounds():
            self.add(part)

    def error(self):
        """Share of the rows that are predicted wrong."""
        return float(np.mean(self.scores.argmax(axis=1) != self.codes))


def given_validation(estimator, X_val, y_val, classes, all_finite):
    """Rows and class codes of a validation set that the user gives."""
    if X_val is None or y_val is None:
        raise ValueError("X_val and y_val go together: give both, or neither")
    check_sparse(X_val)
    X_val, y_val = validate_data(
        estimator, X_val, y_val, accept_sparse="csc", dtype=TYPES, ensure_all_finite=all_finite, reset=False
    )
    values = X_val.data if hasattr(X_val, "indptr") else X_val
    with np.errstate(over="ignore"):
        beyond = np.isinf(values.astype(np.float32, copy=False)).any()
    if beyond:
        raise ValueError(
            "X_val holds a value beyond the float32 range, up to 3.4e38: features are rounded to float32; scale them"
        )
    return X_val, _encode(y_val, classes)


def held_out(codes, weight, fraction, random_state):
    """Rows for validation, split off from those with positive weight; a class of one row stays in the training part."""
    used = np.flatnonzero(weight > 0)
    counts = np.bincount(codes[used])
    lone = counts[codes[used]] == 1
    try:
        _, rows = train_test_split(
            used[~lone], test_size=fraction, stratify=codes[used[~lone]], random_state=random_state
        )
    except ValueError as error:
        raise ValueError(
            f"early_stopping: cannot set aside validation_fraction={fraction} of {counted(len(used), 'row')} with "
            "rows of every class; raise it, give X_val and y_val, or set early_stopping=False"
        ) from error
    return rows


def labels_of_file(classes):
    """Labels as a model file holds them: integers or strings."""
    if classes.dtype.kind in "bf":
        return classes.astype(np.int64)
    return classes if classes.dtype.kind in "iuU" else np.array([str(label) for label in classes])


def check_file(classes, meta):
    """Refuse labels and names that a model file cannot hold, before a training is lost by them."""
    Model.from_ensemble(EnsembleBuilder(len(classes), 1).freeze(), labels_of_file(classes), meta=meta)


def _encode(y, classes):
    """Class codes, -1 for labels that the training set does not have."""
    text = {kind in "OSU" for kind in (np.asarray(y).dtype.kind, classes.dtype.kind)}
    if len(text) > 1 or not np.isin(y, classes).any():
        raise ValueError(
            f"none of the labels in y_val occurs in y (y_val begins {list(y[:3])!r}, the classes are "
            f"{list(classes[:3])!r}...); both must name the classes in the same way"
        )
    at = np.searchsorted(classes, y).clip(0, len(classes) - 1)
    return np.where(classes[at] == y, at, -1)
