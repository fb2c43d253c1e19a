"""Curves of models of stumps: such a model is the sum of a step function for every feature."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymcboost.inspection.subject import feature_number, model_of, sum_of_learners


class Curve(NamedTuple):
    """What a feature adds to the scores of all classes, as a step function.

    Attributes
    ----------
    feature : int
        Its column.
    thresholds : ndarray of float32 (n,)
        Increasing. A value is in the interval whose number is that of the thresholds below it.
    values : ndarray of float64 (n + 1, K)
        Of the intervals, from low to high.
    missing : ndarray of float64 (K,)
        Of NaN.
    """

    feature: int
    thresholds: NDArray[np.float32]
    values: NDArray[np.float64]
    missing: NDArray[np.float64]

    def at(self, x: Any) -> NDArray[np.float64]:
        """Values (m, K) at x (m,), which is rounded to float32."""
        with np.errstate(over="ignore"):
            x = np.asarray(x).astype(np.float32)
        table = np.vstack([self.values, self.missing])
        inside = np.searchsorted(self.thresholds, x, side="left")
        return table[np.where(np.isnan(x), len(self.values), inside)]


def curve(model: Any, feature: int | str) -> Curve:
    """Exact curve of a feature in a model of stumps.

    The bias and the curves of all features add up to the scores, to rounding.

    Parameters
    ----------
    model : Model or fitted estimator
        Of stumps, of an interval table, or of trees with one split at most.
    feature : int or str
        Column, or its name where the model has names.

    Returns
    -------
    Curve
        Without thresholds, and 0 everywhere, if the model does not use the feature.

    Raises
    ------
    ValueError
        If a tree has two splits or more: what a feature adds then depends on the others. See `contributions`.

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
    ensemble, j = sum_of_learners(model, "curves"), feature_number(model, feature)
    if not ensemble.additive and (ensemble.depths() > 1).any():
        raise ValueError(
            "curves are for stumps: this model has trees of two splits or more, so that what a feature adds depends on "
            "the other features of the row; see contributions"
        )
    ensemble.need_thresholds("curves")
    table = ensemble.about(j).merge()  # merging all stumps takes long where there are many
    at = np.flatnonzero(table.feature == j)
    if not len(at):
        nothing = np.zeros((1, table.n_classes))
        return Curve(j, np.zeros(0, dtype=np.float32), nothing, nothing[0])
    begin, end = (int(table.offset[at[0] + i]) for i in range(2))
    values = table.table[begin + 2 * at[0] : end + 2 * at[0] + 2].astype(np.float64)
    return Curve(j, np.array(table.threshold[begin:end]), values[:-1], values[-1])
