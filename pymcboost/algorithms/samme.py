"""SAMME: AdaBoost with weak learners that name one of K classes.

Problem
    minimise the sum over rows i of exp(-F_{y_i}(x_i)), F_k(x) = sum of the alpha of the learners that say k.
Round
    err = share of the weight w that the learner gets wrong; alpha = log((1 - err) / err) + log(K - 1);
    w_i *= exp(alpha) where it is wrong. Stop when err >= 1 - 1/K. Stumps have the fewest errors of all that say two
    different classes; trees are grown by the Gini impurity.

Paper: J. Zhu, H. Zou, S. Rosset and T. Hastie, Multi-class AdaBoost, Algorithm 2.
"""

import numpy as np

from pymcboost.classic import NO_MISTAKES, ClassicBoosting, documented
from pymcboost.coefficients import LARGEST_COEFFICIENT
from pymcboost.losses import ClassWeights
from pymcboost.vector_learner import ClassificationTrees
from pymcboost.weak_learners import ClassStump


@documented
class SAMMEClassifier(ClassicBoosting):
    """SAMME: AdaBoost with weak learners that name one of K classes.

    With two classes and stumps it is AdaBoost, its coefficients twice as large; with trees it is what scikit-learn's
    ``AdaBoostClassifier`` does with its own trees.

    Parameters
    ----------
    {shared}
    min_weight_fraction_leaf : float, default=0.0
        Share of the total sample weight that must lie on either side of every split of a stump, 0 to 0.5. Trees take
        little notice of it, and a warning says so.

    {attributes}

    References
    ----------
    J. Zhu, H. Zou, S. Rosset and T. Hastie, Multi-class AdaBoost, Statistics and Its Interface 2, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import SAMMEClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> SAMMEClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "samme"
    restart_every = None  # weights are rebuilt from their logarithms in every round

    def _start(self, data, n_threads):
        if self.weak_learner == "stump":
            learner = ClassStump(data, n_threads)
        else:
            loss = ClassWeights(data, n_threads)
            self._warn_of_least_weight()
            limits = self.max_leaf_nodes, self.max_depth, n_threads, self.min_weight_fraction_split
            learner = ClassificationTrees(data, loss, *limits)
        self._state = _State(data, learner)

    def _restart(self, scores):
        state = self._state
        state.margin = np.zeros(state.data.n_rows)  # scores of the own classes, the same sums as the model's
        if scores is not None:
            state.margin[...] = scores[np.arange(state.data.n_rows), state.data.y]

    def _why_ended(self):
        return NO_MISTAKES if self._state.finished else "no weak learner is better than chance any more"

    def _link(self):
        return "softmax"

    def _round(self, builder):
        state = self._state
        K = state.data.n_classes
        log_weight = state.log_weight - state.margin
        weight = np.exp(log_weight - log_weight.max())
        weight *= state.data.n_rows / weight.sum()
        for attempt in () if state.finished else self._tries():
            found = state.learner.fit(self._drawn(weight, attempt))
            if found is None:
                continue
            if self.weak_learner == "stump":
                stump, (left, right) = found
                said = np.where(stump.h > 0, right, left)
            else:
                said = found.value.argmax(axis=1)[found.leaf]
            wrong = said != state.data.y
            error = float(weight[wrong].sum() / weight.sum())
            if error < (1 - 1 / K) * (1 - 1e-9):
                break
        else:
            return None
        alpha = 2 * LARGEST_COEFFICIENT
        if error > 0:
            alpha = min(alpha, np.log((1 - error) / error) + np.log(K - 1))
        alpha = np.float32(alpha)
        state.finished = error == 0
        state.margin[~wrong] += float(alpha)
        votes = alpha * np.eye(K, dtype=np.float32)
        if self.weak_learner == "stump":
            return self._add_round(builder, stump, votes[right], votes[left]) | {"error": error}
        builder.add_tree(found.feature, found.threshold, found.nan_left, found.right, alpha * found.value[:, :K])
        builder.end_round()
        np.add.at(self.gain_, found.feature, found.gain)
        return {"error": error}


class _State:
    def __init__(self, data, learner):
        self.data, self.learner, self.finished = data, learner, False
        with np.errstate(divide="ignore"):  # next to huge ones, weights may have become 0
            self.log_weight = np.log(data.weight)
