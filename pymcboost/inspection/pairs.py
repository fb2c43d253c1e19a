"""Interactions of pairs of features in the scores of rows: Shapley interaction values for all classes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymcboost.inspection import shapley
from pymcboost.inspection.subject import model_of
from pymcboost.model import covers
from pymcboost.threads import resolve_n_jobs


class Interactions(NamedTuple):
    """Shapley interaction values of pairs of features; see `interactions`.

    ``values.sum(axis=2)`` equals the contributions.

    Attributes
    ----------
    values : ndarray of float64 of shape (m, n, n, K)
        Interaction values for each row, pair of features and class. The interaction of a pair is divided equally
        between (i, j) and (j, i). The diagonal is the contribution of the feature by itself.
    base : ndarray of float64 of shape (K,)
        Mean scores of the background.
    features : ndarray of int64 of shape (n,)
        Column numbers of the features.
    """

    values: NDArray[np.float64]
    base: NDArray[np.float64]
    features: NDArray[np.int64]


def interactions(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    only_used: bool = False,
    n_jobs: int | None = None,
) -> Interactions:
    """Compute exact Shapley interaction values (SHAP interactions) of the raw scores of all classes.

    The interaction of two features is the change in the contribution of one feature when the value of the other is
    taken from the row instead of the background. `contributions` describes the two forms, with and without background
    rows.

    The time is at most that of `contributions`, multiplied by the number of features used plus 1. Memory is 8 m n n K
    bytes. Stumps have no interactions.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps or trees.
    X : array-like, data frame or CSR matrix of shape (m, d)
        Rows to explain.
    background : array-like, data frame or CSR matrix of shape (b, d), default=None
        Background rows. None requires a model with covers; see `Model.with_covers`.
    only_used : bool, default=False
        Whether to leave out the columns that the model does not use. Their interactions are 0.
    n_jobs : int, default=None
        Number of threads. None uses all available CPUs. The values do not depend on it.

    Returns
    -------
    Interactions
        Interaction values, base scores and column numbers.

    Raises
    ------
    ValueError
        If there is neither a background nor covers, or if a path of a tree splits on more than 64 features.
    MemoryError
        If the values do not fit into the available memory.

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5])
    >>> model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y).model_.with_covers(X)
    >>> found = interactions(model, X[:100])
    >>> found.values.shape
    (100, 4, 4, 3)
    >>> size = abs(found.values).mean(axis=(0, 3))
    >>> bool(size[0, 1] > 2 * size[2, 3])
    True
    """
    model = model_of(model)
    n_threads = resolve_n_jobs(n_jobs)
    X = shapley.checked(model, X, background, task="interactions")
    used, compact = model.ensemble.compact()
    features, column = shapley.features_and_columns(model, used, only_used)
    n = len(features)
    shapley.check_memory("interactions", (X.shape[0], n, n, model.n_classes_))
    values = np.zeros((X.shape[0], n, n, model.n_classes_))
    if model.ensemble.additive:
        contributions, base, _ = shapley.of_rows(model, X, background, only_used, n_threads)
    else:
        contributions = np.zeros((X.shape[0], n, model.n_classes_))
        trees, base = shapley.explained(model, used, compact, background, n_threads)
        for rows, xt in covers.blocks(X, used, compact):
            trees.add(xt, column, contributions[rows], n_threads)
            for fixed, i in enumerate(column):
                pairs = np.zeros((xt.shape[1], n, model.n_classes_))
                trees.add(xt, column, pairs, n_threads, fixed)
                values[rows, i] = pairs / 2
    diagonal = np.arange(n)
    values[:, diagonal, diagonal] = contributions - values.sum(axis=2)
    return Interactions(values, base, features)
