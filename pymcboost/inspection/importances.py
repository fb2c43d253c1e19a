"""Feature importances of four kinds."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pymcboost.inspection.shapley import contributions
from pymcboost.inspection.subject import model_of, sum_of_learners
from pymcboost.model import covers
from pymcboost.model.model import Model
from pymcboost.model.temperature import codes_of
from pymcboost.threads import available_memory, in_words

Sense = Literal["gain", "split", "permutation", "shap"]
# Default number of rows of X in the background of Shapley values.
BACKGROUND = 100
# Number of bytes of Shapley values that are computed at once.
BLOCK_BYTES = 1 << 26


def importance(
    model: Any,
    kind: Sense = "gain",
    per_class: bool = False,
    X: Any = None,
    y: Any = None,
    *,
    background: Any = None,
    n_repeats: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """Compute feature importances, for the whole model or for each class.

    Parameters
    ----------
    model : Model or fitted estimator
        A model without its estimator does not store the gains of training.
    kind : {"gain", "split", "permutation", "shap"}, default="gain"
        Kind of importance:

        - "gain": with X, or if the model has covers, the fraction of the variance of the scores on these rows that the
          splits on the feature explain, summed over splits and classes. Otherwise, for a fitted estimator, the fraction
          of the gains in training (``feature_importances_``), which are not available per class.
        - "split": fraction of the splits. A split of a tree for all classes counts for each class.
        - "permutation": decrease of the accuracy on X and y if the column is shuffled, averaged over ``n_repeats``
          shuffles. With ``per_class``, decrease of the recall of the class.
        - "shap": mean absolute contribution on X (see `contributions`), summed over the classes.
    per_class : bool, default=False
        Whether to compute one importance per feature and class.
    X : array-like of shape (m, d), default=None
        Rows. Required for "permutation" and "shap".
    y : array-like of shape (m,), default=None
        Class labels of the rows. Required for "permutation".
    background : array-like of shape (b, d), default=None
        Background rows for "shap". None uses the covers of the model if it has any, and otherwise up to 100 rows from
        all parts of X.
    n_repeats : int, default=5
        Number of shuffles for "permutation".
    random_state : int, default=0
        Seed of the shuffles.
    n_jobs : int, default=None
        Number of threads. None uses all available CPUs.

    Returns
    -------
    ndarray of float64 of shape (d,) or (d, K)
        Importances, with one column per class if ``per_class``. "gain" and "split" sum to 1, or are all 0.

    Raises
    ------
    ValueError
        If X or y is missing, or the model does not support this kind.
    MemoryError
        If a dense copy of the columns that the model uses does not fit into the available memory.

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> y = np.digitize(X[:, 1], [-1, 1])
    >>> estimator = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> [int(importance(estimator, kind, X=X, y=y).argmax()) for kind in ("gain", "permutation", "shap")]
    [1, 1, 1]
    """
    if kind == "gain":
        return _gain(model, per_class, X)
    model = model_of(model)
    if kind == "split":
        return _split(model, per_class)
    if kind == "permutation":
        return _permutation(model, per_class, X, y, n_repeats, random_state, n_jobs)
    if kind == "shap":
        return _shap(model, per_class, X, background, n_jobs)
    raise ValueError(f"kind must be 'gain', 'split', 'permutation' or 'shap', not {kind!r}")


def _shares(importances, per_class):
    """Normalize importances (d, K) to a sum of 1, by class or summed over the classes."""
    if not per_class:
        importances = importances.sum(axis=1)
    total = importances.sum()
    return importances / total if total > 0 else importances


def _gain(subject, per_class, X):
    """Importances of the kind "gain"."""
    model = model_of(subject)
    has_rows = X is not None or model.has_covers
    is_estimator = subject is not model
    if not has_rows and is_estimator and not per_class and model.ensemble.share_of is not None:
        return subject.feature_importances_
    ensemble = sum_of_learners(model, "gains", "; kind='permutation' works for these models, too")
    if ensemble.no_stages is not None:
        raise ValueError(
            "an interval table does not store its splits; give the model with layout='list'"
        )
    if not has_rows:
        obstacle = "a model file does not store the gains of its splits"
        if is_estimator:
            obstacle = "an estimator stores only the gains summed over all classes"
        remedy = "give rows X, or a model that holds covers (model.with_covers(X_train))"
        if not per_class:
            remedy += ", or the fitted estimator"
        raise ValueError(f"{obstacle}: {remedy}")
    if X is not None:
        ensemble = replace(ensemble, cover=covers.count(ensemble, covers.covering(model, X)))
    return _shares(explained(ensemble), per_class)


def explained(ensemble):
    """What the splits on each feature explain of the scores, (d, K): float64.

    A split contributes, for each of its sides, the number of rows times the squared difference of the mean leaf value
    from the mean of the node.
    """
    gains = np.zeros((ensemble.n_features, ensemble.n_classes))
    if not len(ensemble):
        return gains
    rows_of_trees = np.split(ensemble.cover, covers.first_leaves(ensemble)[1:-1])
    for tree, rows in zip(ensemble.each_tree(), rows_of_trees, strict=True):
        feature, _, _, right, leaf, cls, base = tree
        leaf = np.asarray(leaf, dtype=np.float64).reshape(len(rows), -1)
        counts = np.concatenate([[0], np.cumsum(rows)])
        sums = np.concatenate(
            [np.zeros((1, leaf.shape[1])), np.cumsum(leaf * rows[:, None], axis=0)]
        )
        begin, middle, end = covers.spans(right)
        n_left = counts[middle] - counts[begin]
        n_right = counts[end] - counts[middle]
        difference = (sums[middle] - sums[begin]) / np.maximum(n_left, 1)[:, None]
        difference -= (sums[end] - sums[middle]) / np.maximum(n_right, 1)[:, None]
        weight = n_left * (n_right / np.maximum(n_left + n_right, 1))
        gain = weight[:, None] * difference**2
        if cls >= 0:
            gain = gain * _class_factors(ensemble, cls, base) ** 2
        np.add.at(gains, np.asarray(feature), gain)
    return gains


def _class_factors(ensemble, cls, base):
    """Factors, up to their signs, by which the scores of the classes get the leaf values of a tree: (K,)."""
    if cls < 0:
        return np.ones(ensemble.n_classes)
    if ensemble.code is not None:
        return ensemble.code[cls].astype(np.float64)
    factors = np.zeros(ensemble.n_classes)
    factors[cls] = 1
    if base >= 0:
        factors[base] = 1
    return factors


def _split(model, per_class):
    """Importances of the kind "split"."""
    ensemble = model.ensemble
    if ensemble.no_stages is not None:
        raise ValueError(
            "split importance counts the splits of weak learners, but this model has none "
            f"({ensemble.NAME})"
        )
    counts = np.zeros((model.n_features_in_, model.n_classes_))
    for feature, *_, cls, base in ensemble.each_tree():
        if per_class:
            is_changed = (_class_factors(ensemble, cls, base) != 0).astype(np.float64)
            np.add.at(counts, np.asarray(feature), is_changed)
        else:
            np.add.at(counts[:, 0], np.asarray(feature), 1.0)
    return _shares(counts, per_class)


def _permutation(model, per_class, X, y, n_repeats, random_state, n_jobs):
    """Importances of the kind "permutation"."""
    if X is None or y is None:
        raise ValueError("permutation importance needs labelled rows; give X and y")
    model._refuse_labels("permutation importance")
    X = model._rows.checked(X)
    codes = codes_of(y, model.classes_, "give")
    if len(codes) != X.shape[0] or not len(codes):
        raise ValueError(
            f"X has {X.shape[0]} rows and y has {len(codes)} labels; give one label per row, "
            "and at least one row"
        )
    if n_repeats < 1:
        raise ValueError(f"n_repeats must be 1 or more, not {n_repeats}")
    # A model of only the used features, and a dense copy of these.
    used = np.arange(model.n_features_in_)
    compact_model = model
    if not model.is_machine:
        used, compact = model.ensemble.compact()
        compact_model = Model.from_ensemble(compact, model.classes_, layout=model.layout)
    size = 4 * len(used) * len(codes)
    available = available_memory()
    if available is not None and size > available:
        raise MemoryError(
            f"a dense copy of the {len(used)} columns that the model uses takes "
            f"{in_words(size)}, but {in_words(available)} are free; give fewer rows"
        )
    dense = np.empty((len(codes), len(used)), dtype=np.float32)
    for rows, xt in covers.blocks(X, used):
        dense[rows] = xt.T
    is_right = (compact_model.predict_codes(dense, n_jobs) == codes).astype(np.int64)
    rng = np.random.default_rng(random_state)
    importances = np.zeros((model.n_features_in_, model.n_classes_))
    weight = np.full(model.n_classes_, 1 / len(codes))
    if per_class:
        weight = 1 / np.maximum(np.bincount(codes, minlength=model.n_classes_), 1)
    for column, j in enumerate(used):
        original = dense[:, column].copy()
        for _ in range(n_repeats):
            dense[:, column] = rng.permutation(original)
            lost = is_right - (compact_model.predict_codes(dense, n_jobs) == codes)
            importances[j] += np.bincount(codes, lost, model.n_classes_) * weight / n_repeats
        dense[:, column] = original
    return importances if per_class else importances.sum(axis=1)


def _shap(model, per_class, X, background, n_jobs):
    """Importances of the kind "shap"."""
    if X is None:
        raise ValueError("shap importance is an average over rows; give X")
    X = model._rows.checked(X)
    m = X.shape[0]
    if not m:
        raise ValueError("shap importance is an average over rows; give at least one")
    if background is None and not model.has_covers:
        background = X[:: -(-m // BACKGROUND)]
    used, _ = sum_of_learners(model, "contributions").compact()
    step = max(256, BLOCK_BYTES // (8 * len(used) * model.n_classes_))
    total = np.zeros((len(used), model.n_classes_))
    for begin in range(0, m, step):
        rows = X[begin : begin + step]
        values = contributions(model, rows, background, only_used=True, n_jobs=n_jobs).values
        total += np.abs(values).sum(axis=0)
    importances = np.zeros((model.n_features_in_, model.n_classes_))
    importances[used] = total / m
    return importances if per_class else importances.sum(axis=1)
