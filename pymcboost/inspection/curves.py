"""Curves of models of stumps: such a model is the sum of a function for every feature."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymcboost.inspection.subject import feature_number, model_of, sum_of_learners
from pymcboost.model.arrays import running_sums
from pymcboost.model.categories import factors


class Curve(NamedTuple):
    """Contribution of one feature to the scores of all classes, as a function of its value; see `curve`.

    It is a step function of a numeric feature, or one value per category.

    Attributes
    ----------
    feature : int
        Column number.
    thresholds : ndarray of float32 of shape (n,)
        Thresholds in increasing order. The number of thresholds below a value is the number of its interval. Empty for
        a categorical feature.
    values : ndarray of float64 of shape (n + 1, K) or (n_categories, K)
        Contributions in the intervals from low to high, or of the categories by code.
    missing : ndarray of float64 of shape (K,)
        Contribution of NaN, and of categories that the model does not know.
    levels : list of str, list of int or None
        Names of the categories, or their codes if they have no names. None for a numeric feature.
    """

    feature: int
    thresholds: NDArray[np.float32]
    values: NDArray[np.float64]
    missing: NDArray[np.float64]
    levels: list[str] | list[int] | None = None

    def at(self, x: Any) -> NDArray[np.float64]:
        """Evaluate the curve.

        Parameters
        ----------
        x : array-like of shape (m,)
            Values of the feature, which are rounded to float32. For a categorical feature: names of categories, a
            column of a data frame, or codes.

        Returns
        -------
        ndarray of float64 of shape (m, K)
            Contributions to the scores.
        """
        table = np.vstack([self.values, self.missing])
        if self.levels is not None:
            return table[_codes(self.levels, x)]
        with np.errstate(over="ignore"):
            x = np.asarray(x).astype(np.float32)
        interval = np.searchsorted(self.thresholds, x, side="left")
        return table[np.where(np.isnan(x), len(self.values), interval)]


def curve(model: Any, feature: int | str) -> Curve:
    """Compute the exact contribution of a feature to the scores in a model of stumps.

    The bias and the curves of all features add up to the scores, up to rounding. Trees without a split count in the
    curve of the first feature.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps, interval table, or model of trees with at most one split.
    feature : int or str
        Column number, or name if the model has feature names.

    Returns
    -------
    Curve
        The curve. If the model does not use the feature, it has no thresholds and is 0 everywhere.

    Raises
    ------
    ValueError
        If a tree has two or more splits, because the contribution of a feature then depends on other features. Use
        `contributions` instead.

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import MCBoostClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.digitize(X[:, 0] + X[:, 1], [-1, 1])
    >>> model = MCBoostClassifier(n_estimators=30).fit(X, y).model_
    >>> parts = [curve(model, j) for j in range(3)]
    >>> scores = sum(part.at(X[:, part.feature]) for part in parts)  # this loss has no bias
    >>> bool(np.allclose(scores, model.raw_scores(X), rtol=0, atol=1e-12))
    True
    """
    model = model_of(model)
    ensemble = sum_of_learners(model, "curves")
    j = feature_number(model, feature)
    if not ensemble.additive and (ensemble.depths() > 1).any():
        raise ValueError(
            "curves are available only for stumps; in the trees of this model, the effect of "
            "a feature depends on the other features of the row. Use contributions instead"
        )
    result = _curve_of(model, ensemble, j)
    if ensemble.additive or j:
        return result
    has_no_split = np.diff(ensemble.offset) == 0
    if not has_no_split.any():
        return result
    constant = ensemble.as_stumps().right[has_no_split].sum(axis=0, dtype=np.float64)
    return result._replace(values=result.values + constant, missing=result.missing + constant)


def _curve_of(model, ensemble, j):
    """The curve of the weak learners that use a feature."""
    # Only these are merged, because merging all stumps would take long.
    ensemble = ensemble.about(j) if ensemble.additive else _trees_about(ensemble, j)
    categories = model.categories
    if categories is not None:
        if j in categories.feature:
            return _curve_of_levels(ensemble, j, categories)
        ensemble = replace(ensemble, subset=None, categories=None)
    table = ensemble.merge()
    if j not in table.feature:
        no_values = np.zeros((1, table.n_classes))
        return Curve(j, np.zeros(0, dtype=np.float32), no_values, missing=no_values[0])
    i = int(np.flatnonzero(table.feature == j)[0])
    begin = int(table.offset[i])
    end = int(table.offset[i + 1])
    values = table.table[begin + 2 * i : end + 2 * i + 2].astype(np.float64)
    return Curve(j, np.array(table.threshold[begin:end]), values[:-1], missing=values[-1])


def _trees_about(ensemble, j):
    """The trees with a single split that use a feature, in one round."""
    splits = np.asarray(ensemble.feature) == j
    trees = np.zeros(len(ensemble), dtype=bool)
    trees[np.diff(ensemble.offset) == 1] = splits
    n = int(splits.sum())
    sets = {}
    if ensemble.subset is not None:
        number = ensemble.subset[splits]
        start = ensemble.subset_start
        bits = [ensemble.subset_bits[start[q - 1] : start[q]] for q in number if q]
        sets = {
            "subset": np.where(number > 0, np.cumsum(number > 0), 0),
            "subset_start": running_sums([len(set_bits) for set_bits in bits]),
            "subset_bits": np.concatenate([np.zeros(0, dtype=np.uint8), *bits]),
        }
    return replace(
        ensemble,
        offset=np.arange(n + 1),
        feature=ensemble.feature[splits],
        threshold=ensemble.threshold[splits],
        nan_left=ensemble.nan_left[splits],
        right=ensemble.right[splits],
        leaf=ensemble.leaf[np.repeat(trees, np.diff(ensemble.offset) + 1)],
        cls=None if ensemble.cls is None else ensemble.cls[trees],
        base=None if ensemble.base is None else ensemble.base[trees],
        rounds=np.array([0, n]),
        cover=None,
        **sets,
    )


def _curve_of_levels(ensemble, j, categories):
    """The curve of a categorical feature, from the trees that use it."""
    index = int(np.searchsorted(categories.feature, j))
    n = int(categories.levels[index])
    names = categories.names[index]
    stumps = ensemble.as_stumps()
    values = np.zeros((n, ensemble.n_classes))
    missing = np.zeros(ensemble.n_classes)
    for t, (sets, nan_left) in enumerate(zip(ensemble.each_sets(), ensemble.nan_left, strict=True)):
        sides = np.stack((stumps.right[t], stumps.left[t])).astype(np.float64)
        if 0 in sets:
            goes_left = np.unpackbits(sets[0], bitorder="little")[:n]
        else:
            goes_left = np.arange(n) <= ensemble.threshold[t]
        # Levels beyond the set follow missing values.
        goes_left = np.append(goes_left, np.full(n - len(goes_left), nan_left)).astype(np.int64)
        values += sides[goes_left]
        missing += sides[int(nan_left)]
    no_thresholds = np.zeros(0, dtype=np.float32)
    levels = list(range(n)) if names is None else list(names)
    return Curve(j, no_thresholds, values, missing=missing, levels=levels)


def _codes(levels, x):
    """Codes of category values; the number of levels for unknown ones."""
    n = len(levels)
    has_names = bool(levels) and isinstance(levels[0], str)
    if not isinstance(x, list) and not hasattr(x, "to_list") and not hasattr(x, "to_pylist"):
        x = np.asarray(x)
    if has_names and not (isinstance(x, np.ndarray) and x.dtype.kind in "biuf"):
        text_of_value, texts = factors(x.tolist() if isinstance(x, np.ndarray) else x)
        code_of_name = {name: code for code, name in enumerate(levels)}
        return np.array([*(code_of_name.get(text, n) for text in texts), n])[text_of_value]
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        is_code = (x >= 0) & (x < n) & (x == np.floor(x))
    return np.where(is_code, x, n).astype(np.int64)
