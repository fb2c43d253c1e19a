"""Contributions of the features to the scores of rows: Shapley values for all classes."""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymcboost.inspection.subject import model_of, sum_of_learners
from pymcboost.model import covers
from pymcboost.threads import available_memory, counted, in_words, resolve_n_jobs

MISSING = (
    "{what} need a background: give rows to compare with (background=X_train, or a few "
    "hundred of its rows), or a model with covers (model.with_covers(X_train))"
)


class Contributions(NamedTuple):
    """Contributions of the features to the scores of rows; see `contributions`.

    ``base + values.sum(axis=1)`` equals the raw scores.

    Attributes
    ----------
    values : ndarray of float64 of shape (m, n, K)
        Contribution for each row, feature and class.
    base : ndarray of float64 of shape (K,)
        Mean scores of the background.
    features : ndarray of int64 of shape (n,)
        Column numbers of the features.
    """

    values: NDArray[np.float64]
    base: NDArray[np.float64]
    features: NDArray[np.int64]


def contributions(
    model: Any,
    X: Any,
    background: Any = None,
    *,
    only_used: bool = False,
    n_jobs: int | None = None,
) -> Contributions:
    """Compute exact Shapley values (SHAP values) of the raw scores of all classes.

    They say how much each feature of a row contributes to the scores, compared with a background.

    With background rows (interventional SHAP), a feature that is left out takes its value from a background row, and
    the result is the mean over these rows. Without them (path-dependent SHAP), a row follows both sides of a split on
    such a feature, weighted by the covers of the model; see `Model.with_covers`. If no row has reached the node, both
    sides have the same weight.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps or trees. Linear and kernel machines and codes with a decoder are not supported.
    X : array-like, data frame or CSR matrix of shape (m, d)
        Rows to explain. NaN means missing. Sparse rows are converted to dense rows part by part, and only the columns
        that the model uses.
    background : array-like, data frame or CSR matrix of shape (b, d), default=None
        Background rows. None requires a model with covers.
    only_used : bool, default=False
        Whether to leave out the columns that the model does not use. Their contributions are 0.
    n_jobs : int, default=None
        Number of threads. None uses all available CPUs. The values do not depend on it.

    Returns
    -------
    Contributions
        Contributions, base scores and column numbers.

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
    >>> y = np.digitize(X[:, 0] + X[:, 1], [-1, 1])
    >>> model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y).model_
    >>> found = contributions(model, X[:10], background=X[:100])
    >>> found.values.shape
    (10, 4, 3)
    >>> bool(np.allclose(found.base + found.values.sum(axis=1), model.raw_scores(X[:10]), rtol=0, atol=1e-9))
    True
    """
    model = model_of(model)
    return of_rows(
        model,
        checked(model, X, background, task="contributions"),
        background,
        only_used=only_used,
        n_threads=resolve_n_jobs(n_jobs),
    )


def checked(model, X, background, task):
    """Check that the model has what is needed, and check the rows."""
    if sum_of_learners(model, task).cover is None and background is None:
        raise ValueError(MISSING.format(what=task))
    return model._rows.checked(X)


def of_rows(model, X, background, only_used, n_threads):
    """Compute `Contributions` for checked rows."""
    ensemble = model.ensemble
    used, compact = ensemble.compact()
    features, column = features_and_columns(model, used, only_used)
    check_memory("contributions", (X.shape[0], len(features), model.n_classes_))
    values = np.empty((X.shape[0], len(features), model.n_classes_))
    if background is not None and ensemble.additive:
        background, base = _checked_background(model, background, n_threads)
        values[:] = 0.0
        _add_curves(compact, used, X, background, column, values)
        return Contributions(values, base, features)
    trees, base = explained(model, used, compact, background, n_threads)
    for rows, xt in covers.blocks(X, used, compact):
        trees.add(xt, column, values[rows], n_threads, fresh=True)
    return Contributions(values, base, features)


def features_and_columns(model, used, only_used):
    """Features of the result, and the positions of the used features among them."""
    if only_used:
        return used, np.arange(len(used))
    return np.arange(model.n_features_in_), used


def _checked_background(model, background, n_threads):
    """Check the background rows; return them and their mean scores."""
    background = model._rows.checked(background)
    if not background.shape[0]:
        raise ValueError("background has no rows; give at least one")
    return background, model.raw_scores(background, n_threads).mean(axis=0)


def explained(model, used, compact, background, n_threads):
    """Create the kernel's trees with their background; return them and the background's scores (K,)."""
    trees = covers.explainer(compact)
    if background is None:
        return trees, _set_covers(compact, trees)
    background, base = _checked_background(model, background, n_threads)
    blocks = [xt for _, xt in covers.blocks(background, used, compact)]
    trees.by_rows(np.concatenate(blocks, axis=1))
    return trees, base


def check_memory(task, shape):
    """Refuse values for rows, features (once or twice) and classes that do not fit into free memory."""
    size = 8 * math.prod(shape)
    available = available_memory()
    if available is not None and size > available:
        raise MemoryError(
            f"the {task} of {counted(shape[0], 'row')}, {counted(shape[1], 'feature')} and "
            f"{shape[-1]} classes take {in_words(size)}, but {in_words(available)} are free; give "
            "fewer rows at once, or only_used=True"
        )


def _add_curves(ensemble, used, X, background, column, values):
    """Set the contributions of stumps: the value of a curve minus its mean over the background."""
    table = ensemble.canonical().merge()
    mean = np.zeros((len(table.feature), table.n_classes))
    for _, xt in covers.blocks(background, used):
        for i, j in enumerate(table.feature):
            table_rows, counts = np.unique(table.rows_of(i, xt[j]), return_counts=True)
            shares = counts / background.shape[0]
            mean[i] += (table.table[table_rows] * shares[:, None]).sum(axis=0)
    for rows, xt in covers.blocks(X, used):
        for i, j in enumerate(table.feature):
            values[rows, column[j]] = table.table[table.rows_of(i, xt[j])] - mean[i]


@cache
def _quadratures():
    """Gauss-Legendre nodes and weights on [0, 1], for 1, 2, ... nodes in sequence."""
    nodes = []
    weights = []
    for n in range(1, covers.MOST_FEATURES // 2 + 1):
        node, weight = np.polynomial.legendre.leggauss(n)  # on [-1, 1]
        nodes.append((1 + node) / 2)
        weights.append(weight / 2)
    return np.concatenate(nodes), np.concatenate(weights)


def _set_covers(ensemble, trees):
    """Set the covers as the kernel's background; return its scores (K,)."""
    cover = ensemble.cover
    leaf = ensemble.leaves().astype(np.float64)
    begin = covers.first_leaves(ensemble)
    ends = covers.running_sums(cover)
    rows = np.diff(ends[begin])  # of every tree
    if len(ensemble) and (rows.min() < 1 or rows.max() != rows.min()):
        raise ValueError(
            "the covers of this model do not come from the same rows for every tree; compute "
            "them again with with_covers"
        )
    trees.by_covers(ends, *_quadratures())
    base = ensemble.bias.astype(np.float64)
    if not len(ensemble):
        return base
    share = cover / rows[0]
    if leaf.ndim == 2:
        return base + np.einsum("l,lk->k", share, leaf)
    means = np.add.reduceat(share * leaf, begin[:-1])
    if ensemble.code is not None:
        return base + np.einsum("t,tk->k", means, ensemble.code[ensemble.cls].astype(np.float64))
    np.add.at(base, ensemble.cls, means)
    if ensemble.base is not None:
        has_base = ensemble.base >= 0
        np.subtract.at(base, ensemble.base[has_base], means[has_base])
    return base
