"""Interactions of pairs of features in the scores of rows: Shapley interaction values, for all classes at once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymcboost.inspection import shapley
from pymcboost.inspection.subject import model_of
from pymcboost.model import covers
from pymcboost.threads import resolve_n_jobs


class Interactions(NamedTuple):
    """What pairs of features add to the scores: ``values.sum(axis=2)`` are the contributions.

    Attributes
    ----------
    values : ndarray of float64 (m, n, n, K)
        Of every row, pair of features and class. A pair's interaction is halved between (i, j) and (j, i). On the
        diagonal is what a feature contributes by itself.
    base : ndarray of float64 (K,)
        Scores of the background.
    features : ndarray of int64 (n,)
        The columns that ``values`` is of.
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
    """Exact Shapley interaction values of the raw scores of all classes.

    The interaction of two features is the change of one's contribution when the other is taken from the row and no
    longer from the background. See `contributions` for the two forms, and for what is refused.

    Time is at most that of `contributions` times one more than the number of features that the model uses, and memory
    8 m n n K bytes. Stumps have no interactions.

    Parameters
    ----------
    model : Model or fitted estimator
        Of stumps or trees.
    X : array-like, data frame or CSR matrix (m, d)
    background : array-like, data frame or CSR matrix (b, d), optional
        Without it the model must hold covers.
    only_used : bool, default=False
        Leave out the columns that the model does not use: all their interactions are 0.
    n_jobs : int, optional
        Number of threads; None: all CPUs available. The values are the same.

    Returns
    -------
    Interactions

    Raises
    ------
    ValueError
        If there is no background, or a path of a tree splits on more than 64 features.
    MemoryError
        If the values do not fit into the free memory.

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
    model, n_threads = model_of(model), resolve_n_jobs(n_jobs)
    X = shapley.checked(model, X, background, "interactions")
    used, compact = model.ensemble.compact()
    n = len(used) if only_used else model.n_features_in_
    shapley.check_memory("interactions", (X.shape[0], n, n, model.n_classes_))
    values = np.zeros((X.shape[0], n, n, model.n_classes_))
    column, features = (np.arange(n), used) if only_used else (used, np.arange(n))
    if model.ensemble.additive:
        alone, base, _ = shapley.of_rows(model, X, background, only_used, n_threads)
    else:
        alone = np.zeros((X.shape[0], n, model.n_classes_))
        trees, base = shapley.explained(model, used, compact, background, n_threads)
        for rows, xt in covers.blocks(X, used, compact):
            trees.add(xt, column, alone[rows], n_threads)
            for fixed, i in enumerate(column):
                pairs = np.zeros((xt.shape[1], n, model.n_classes_))
                trees.add(xt, column, pairs, n_threads, fixed)
                values[rows, i] = pairs / 2
    diagonal = np.arange(n)
    values[:, diagonal, diagonal] = alone - values.sum(axis=2)
    return Interactions(values, base, features)
