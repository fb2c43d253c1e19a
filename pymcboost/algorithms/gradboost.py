"""GradBoost with a mixed norm: softmax boosting whose rows of coefficients are bounded steps, shrunk as a whole.

Problem
    minimise the mean of -log p_{y_i}(x_i), p = softmax(F), F = sum_j h_j w_j, plus l1 times the sum of |w_j|_2.
Round
    e_j = the mean of (Y - P) h_j, a K-vector; of all weak learners the one with the largest |e_j|_2, which must exceed
    l1. With u = w_j + e_j / L, L = 1/2 the bound of the curvature, w_j becomes u times max(0, 1 - l1 / (L |u|_2)).

Paper: J. Duchi and Y. Singer, Boosting with structural sparsity, section 5.
"""

import numpy as np

from pymcboost.binary_boosting import SMALLEST_EDGE
from pymcboost.classic import ClassicBoosting, documented
from pymcboost.losses import ColumnSums, RowLoss
from pymcboost.params import Param
from pymcboost.weak_learners import TotalStump

CURVATURE = 0.5


@documented
class GradBoostClassifier(ClassicBoosting):
    """GradBoost: bounded steps on the softmax loss with an l1/l2 penalty, one weak learner per round for all classes.

    Parameters
    ----------
    n_estimators : int, default=1000
        Number of boosting rounds, at least 1. Training stops earlier when no weak learner has a gradient above ``l1``.
    l1 : float, default=1e-6
        Weight of the sum of the Euclidean norms of the weak learners' coefficients; at least 0.
    {shared}

    {attributes}

    References
    ----------
    J. Duchi and Y. Singer, Boosting with structural sparsity, ICML 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import GradBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> GradBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "gradboost"
    ends_when = "no weak learner has a gradient above l1"
    restart_every = None  # the gradient comes from the scores in every round
    own_params = {"l1": Param(float, low=0)}

    def __init__(
        self,
        n_estimators=1000,
        l1=1e-6,
        weak_learner="stump",
        max_leaf_nodes=20,
        max_depth=None,
        min_weight_fraction_split=0.0,
        max_bins=256,
        min_weight_fraction_leaf=0.0,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        class_weight=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        super().__init__(
            n_estimators, weak_learner, max_leaf_nodes, max_depth, min_weight_fraction_split, 1.0, max_bins,
            min_weight_fraction_leaf, early_stopping, validation_fraction, n_iter_no_change, class_weight,
            warm_start, random_state, n_jobs, verbose,
        )  # fmt: skip
        self.l1 = l1

    def _start(self, data, n_threads):
        if self.weak_learner == "stump":
            learner = TotalStump(data, n_threads, squares=True)
        else:
            learner = self._new_learner(data, n_threads, data.n_classes)
        self._state = _State(data, learner, n_threads)
        if self.n_estimators_ and self.weak_learner == "stump":
            for feature, threshold, nan_left, right, _ in self.model_.ensemble.each():
                self._state.add((feature, float(threshold), nan_left), right.astype(np.float64))

    def _restart(self, scores):
        self._state.loss.restart(scores)

    def _link(self):
        return "softmax"

    def _round(self, builder):
        state = self._state
        found = state.learner.fit(state.gradient())
        if self.weak_learner == "stump":
            found = [found] if found is not None else []
        edges = [state.edges(one.h) for one in found]
        if not edges:
            return None
        best = int(np.argmax([np.linalg.norm(e) for e in edges]))
        found, e = found[best], edges[best]
        if np.linalg.norm(e) <= max(self.l1, SMALLEST_EDGE):
            return None
        feature, threshold = found.first_split()
        key = (feature, threshold, bool(np.ravel(found.nan_left)[0])) if self.weak_learner == "stump" else None
        sign = found.polarity if key else 1
        before = sign * state.rows.get(key, np.zeros(len(e)))
        u = before + e / CURVATURE
        size = np.linalg.norm(u)
        after = u * max(0.0, 1 - self.l1 / (CURVATURE * size)) if size > 0 else u
        step = (after - before).astype(np.float32)
        if not step.any():
            return None
        if key:
            state.add(key, sign * step.astype(np.float64))
        state.advance(found.h, step.astype(np.float64))
        return self._add_round(builder, found, step) | {"gradient": float(np.linalg.norm(e))}


class _State:
    """Softmax loss, and the rows of coefficients of the stumps so far, for h = +1 on the right."""

    def __init__(self, data, learner, n_threads):
        self.data, self.learner, self.rows = data, learner, {}
        self.loss = RowLoss("softmax", data, n_threads)
        self._gradient = data.gradient_buffer()
        self._sums = ColumnSums(data, data.n_classes, n_threads)
        self._total = data.weight.sum()

    def add(self, key, step):
        self.rows[key] = self.rows.get(key, 0.0) + step

    def gradient(self):
        """The loss's, times the weights, in blocks of classes."""
        lanes, K = self._gradient.shape[2], self.data.n_classes
        for b, block in enumerate(self._gradient):
            part = self.loss.gradient[:, b * lanes : min(K, (b + 1) * lanes)]
            np.multiply(part, self.data.weight[:, None], out=block[:, : part.shape[1]], casting="same_kind")
        return self._gradient

    def edges(self, h):
        """Means of the gradients times the outputs h: (K,)."""
        return np.subtract(*self._sums(self._gradient, h[None, :])).sum(axis=0) / self._total

    def advance(self, h, step):
        """F += h step."""
        value = np.zeros((2, self.loss.width))
        value[0, : len(step)], value[1, : len(step)] = -step, step
        self.loss.add(value, (h > 0).astype(np.int32))
