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
# Number of bytes of Shapley values that are held at once.
HELD = 1 << 26


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
    importances = importances if per_class else importances.sum(axis=1)
    total = importances.sum()
    return importances / total if total > 0 else importances


def _gain(subject, per_class, X):
    model = model_of(subject)
    unknown = X is None and not model.has_covers
    if unknown and subject is not model and not per_class and model.ensemble.share_of is not None:
        return subject.feature_importances_
    ensemble = sum_of_learners(model, "gains", "; kind='permutation' works for these models, too")
    if ensemble.no_stages is not None:
        raise ValueError(
            "an interval table does not store its splits; give the model with layout='list'"
        )
    if unknown:
        bare = "a model file does not store the gains of its splits"
        obstacle = (
            bare
            if subject is model
            else "an estimator stores only the gains summed over all classes"
        )
        raise ValueError(
            f"{obstacle}: give rows X, or a model that holds covers (model.with_covers(X_train))"
            + ("" if per_class else ", or the fitted estimator")
        )
    if X is not None:
        ensemble = replace(ensemble, cover=covers.count(ensemble, covers.covering(model, X)))
    return _shares(explained(ensemble), per_class)


def explained(ensemble):
    """What the splits on each feature explain of the scores, (d, K): float64.

    A split contributes, for each of its sides, the number of rows times the squared difference of the mean leaf value
    from the mean of the node.
    """
    gains = np.zeros((ensemble.n_features, ensemble.n_classes))
    ends = np.split(ensemble.cover, covers.first_leaves(ensemble)[1:-1]) if len(ensemble) else []
    for tree, rows in zip(ensemble.each_tree(), ends, strict=True):
        feature, _, _, right, leaf, cls, base = tree
        leaf = np.asarray(leaf, dtype=np.float64).reshape(len(rows), -1)
        counts = np.concatenate([[0], np.cumsum(rows)])
        sums = np.concatenate(
            [np.zeros((1, leaf.shape[1])), np.cumsum(leaf * rows[:, None], axis=0)]
        )
        begin, middle, end = covers.spans(right)
        left, other = counts[middle] - counts[begin], counts[end] - counts[middle]
        apart = (sums[middle] - sums[begin]) / np.maximum(left, 1)[:, None]
        apart -= (sums[end] - sums[middle]) / np.maximum(other, 1)[:, None]
        gain = (left * (other / np.maximum(left + other, 1)))[:, None] * apart**2
        if cls >= 0:  # credit the classes that receive the leaf's value
            share = (
                np.zeros(ensemble.n_classes)
                if ensemble.code is None
                else ensemble.code[cls].astype(np.float64)
            )
            if ensemble.code is None:
                share[[cls] if base < 0 else [cls, base]] = 1
            gain = gain * share**2
        np.add.at(gains, np.asarray(feature), gain)
    return gains


def _split(model, per_class):
    ensemble = model.ensemble
    if ensemble.no_stages is not None:
        raise ValueError(
            "split importance counts the splits of weak learners, but this model has none "
            f"({ensemble.NAME})"
        )
    counts = np.zeros((model.n_features_in_, model.n_classes_))
    for tree in ensemble.each_tree():
        feature = np.asarray(tree[0])
        cls = tree[5]
        base = tree[6]
        if cls < 0:
            touched = np.ones(model.n_classes_)
        elif ensemble.code is not None:
            touched = (ensemble.code[cls] != 0).astype(np.float64)
        else:
            touched = np.zeros(model.n_classes_)
            touched[[cls] if base < 0 else [cls, base]] = 1
        if per_class:
            np.add.at(counts, feature, touched)
        else:
            np.add.at(counts[:, 0], feature, 1.0)
    return _shares(counts, per_class)


def _permutation(model, per_class, X, y, n_repeats, random_state, n_jobs):
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
    used = np.arange(model.n_features_in_)
    scored = model
    if not model.is_machine:
        used, compact = model.ensemble.compact()
        scored = Model.from_ensemble(compact, model.classes_, layout=model.layout)
    size = 4 * len(used) * len(codes)
    room = available_memory()
    if room is not None and size > room:
        raise MemoryError(
            f"a dense copy of the {len(used)} columns that the model uses takes "
            f"{in_words(size)}, but {in_words(room)} are free; give fewer rows"
        )
    dense = np.empty((len(codes), len(used)), dtype=np.float32)
    for rows, xt in covers.blocks(X, used):
        dense[rows] = xt.T
    right = scored.predict_codes(dense, n_jobs) == codes
    rng = np.random.default_rng(random_state)
    importances = np.zeros((model.n_features_in_, model.n_classes_))
    weight = np.full(model.n_classes_, 1 / len(codes))
    if per_class:
        weight = 1 / np.maximum(np.bincount(codes, minlength=model.n_classes_), 1)
    for place, j in enumerate(used):
        kept = dense[:, place].copy()
        for _ in range(n_repeats):
            dense[:, place] = rng.permutation(kept)
            lost = right.astype(np.int64) - (scored.predict_codes(dense, n_jobs) == codes)
            importances[j] += np.bincount(codes, lost, model.n_classes_) * weight / n_repeats
        dense[:, place] = kept
    return importances if per_class else importances.sum(axis=1)


def _shap(model, per_class, X, background, n_jobs):
    if X is None:
        raise ValueError("shap importance is an average over rows; give X")
    X = model._rows.checked(X)
    m = X.shape[0]
    if not m:
        raise ValueError("shap importance is an average over rows; give at least one")
    if background is None and not model.has_covers:
        background = X[:: -(-m // BACKGROUND)]
    used, _ = sum_of_learners(model, "contributions").compact()
    step = max(256, HELD // (8 * len(used) * model.n_classes_))
    total = np.zeros((len(used), model.n_classes_))
    for begin in range(0, m, step):
        part = contributions(
            model, X[begin : begin + step], background, only_used=True, n_jobs=n_jobs
        )
        total += np.abs(part.values).sum(axis=0)
    importances = np.zeros((model.n_features_in_, model.n_classes_))
    importances[used] = total / m
    return importances if per_class else importances.sum(axis=1)
