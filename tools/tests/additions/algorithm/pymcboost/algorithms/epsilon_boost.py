"""Epsilon-boosting: stumps that name one of K classes, all with the same small vote.

Problem
    minimise the sum over rows i of exp(-F_{y_i}(x_i)), F_k(x) = epsilon times the number of stumps that name k.
Round
    err = share of the weight w_i = exp(-F_{y_i}) that the stump gets wrong; the one with the fewest errors is taken.
    Stop when err >= 1 - 1/K.

Paper: S. Rosset, J. Zhu and T. Hastie, Boosting as a regularized path to a maximum margin classifier, Section 3.
"""

import numpy as np

from pymcboost.algorithms._binary import FIRST_SPLIT
from pymcboost.algorithms._classic import ClassicBooster
from pymcboost.learners import ClassStump
from pymcboost.training import memory
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import Rounds, estimator


class EpsilonBoost(ClassicBooster):
    """Rounds of epsilon-boosting."""

    fixed = {"weak_learner": "stump"}
    link = "softmax"
    restart_every = None  # weights follow from the scores in every round
    columns = {**FIRST_SPLIT, "error": "share of the weight that the stump gets wrong"}
    ends_when = "no stump is better than chance any more"

    def memory(self):
        """The classes' weights and the edges of all splits."""
        data, K = self.data, self.data.n_classes
        parts = memory.weights(data, K), memory.edges(data, K, 1), memory.tables(data, K, 0, 2.2)
        return [memory.outputs(data, 1, 50), *parts]

    def prepare(self, previous):
        """A learner that names a class."""
        self.learner = ClassStump(self.data, self.n_threads)

    def restart(self, scores):
        """Margins: scores of the own classes."""
        self.margin = np.zeros(self.data.n_rows)
        if scores is not None:
            self.margin[...] = scores[np.arange(self.data.n_rows), self.data.y]

    def round(self):
        """A stump that names a class, with a vote of epsilon."""
        weight = self.data.weight * np.exp(self.margin.min() - self.margin)
        weight *= self.data.n_rows / weight.sum()
        found = self.learner.fit(weight)
        if found is None:
            return None
        stump, (left, right) = found
        wrong = np.where(stump.h > 0, right, left) != self.data.y
        error = float(weight[wrong].sum() / weight.sum())
        if error >= (1 - 1 / self.data.n_classes) * (1 - 1e-9):
            return None
        votes = np.float32(self.params.learning_rate) * np.eye(self.data.n_classes, dtype=np.float32)
        self.margin[~wrong] += float(votes[0, 0])
        return self.add_round(stump, votes[right], votes[left]) | {"error": error}


@estimator
class EpsilonBoostClassifier(EnsembleClassifier):
    """Epsilon-boosting: stumps that name one of K classes, all with the same small vote.

    References
    ----------
    S. Rosset, J. Zhu and T. Hastie, Boosting as a regularized path to a maximum margin classifier, Journal of Machine
    Learning Research 5, 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import EpsilonBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> EpsilonBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "epsilon-boost"
    booster = EpsilonBoost
    own_help = {"learning_rate": "The vote of every stump."}

    n_estimators: Rounds = 500
    learning_rate: float = 0.1
    min_weight_fraction_leaf: float = 0.0
