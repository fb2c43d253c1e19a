"""SAMME: AdaBoost with weak learners that predict one of K classes.

Problem
    minimise the sum over rows i of exp(-F_{y_i}(x_i)), F_k(x) = sum of the alpha of the learners that predict k.
Round
    err = share of the weight w that the learner gets wrong; alpha = log((1 - err) / err) + log(K - 1);
    w_i *= exp(alpha) where it is wrong. Stop when err >= 1 - 1/K. A stump names two different classes; the one with
    the fewest errors is taken. Trees are grown by the Gini impurity.

Paper: J. Zhu, H. Zou, S. Rosset and T. Hastie, Multi-class AdaBoost, Algorithm 2.
"""

import numpy as np

from pymcboost.algorithms._binary import FIRST_STUMP
from pymcboost.algorithms.papers._classic import FOR_STUMPS, ClassicBooster, DrawingClassifier
from pymcboost.learners import ClassStump
from pymcboost.learners.vector_trees import ClassificationTrees
from pymcboost.solvers.roots import LARGEST_COEFFICIENT
from pymcboost.training import memory
from pymcboost.training.parameters import estimator


class SAMME(ClassicBooster):
    """Rounds of SAMME."""

    link = "softmax"
    restart_every = None  # weights are rebuilt from their logarithms in every round
    columns = {**FIRST_STUMP, "error": "weighted error of the weak learner"}
    ends_when = "no weak learner is better than chance"

    def memory(self):
        """Memory of the rounds. Stumps: class weights and the edges of all splits. Trees: the weights of the rows."""
        data = self.data
        K = data.n_classes
        predicted = memory.outputs(data, 1, 50)
        if self.stumps:
            return [
                predicted,
                memory.weights(data, K),
                memory.edges(data, K, 1),
                memory.tables(data, K, 0, passing=2.2),
            ]
        return [
            predicted,
            *self.vector_trees_memory(),
            memory.tables(data, K, 0, passing=1.5),
        ]

    def prepare(self, previous):
        """Create a learner that predicts a class."""
        data = self.data
        self.finished = self.last(previous, "error") == 0
        with np.errstate(divide="ignore"):  # weights may have become 0 beside huge ones
            self.log_weight = np.log(data.weight)
        if self.stumps:
            self.learner = ClassStump(data, self.n_threads)
        else:
            self.learner = self.vector_trees(ClassificationTrees)

    def restart(self, scores):
        """Set the margins to the scores of the true classes, with the same sums as in the model."""
        self.margin = np.zeros(self.data.n_rows)
        if scores is not None:
            self.margin[...] = scores[np.arange(self.data.n_rows), self.data.y]

    @property
    def highest_error(self):
        """Error of random guessing, at which the training ends."""
        return 1 - 1 / self.data.n_classes

    def weights(self):
        """Weights (m,) of the rows, up to a factor."""
        log_weight = self.log_weight - self.margin
        return np.exp(log_weight - log_weight.max())

    def votes(self, error, wrong):
        """Values of all classes if a learner with this error predicts a class (K, K)."""
        K = self.data.n_classes
        alpha = 2 * LARGEST_COEFFICIENT
        if error > 0:
            alpha = min(alpha, np.log((1 - error) / error) + np.log(K - 1))
        return np.float32(alpha) * np.eye(K, dtype=np.float32)

    def move(self, values):
        """Add the values (m,) of the true classes to the margins."""
        self.margin += values

    def round(self):
        """Find a learner that predicts a class, and its vote."""
        y = self.data.y
        weight = self.weights()
        weight *= self.data.n_rows / weight.sum()
        for attempt in () if self.finished else self.tries():
            weak_learner = self.learner.fit(self.drawn(weight, attempt))
            if weak_learner is None:
                continue
            if self.stumps:
                stump, (left, right) = weak_learner
                predicted = np.where(stump.h > 0, right, left)
            else:
                tree = weak_learner
                class_of_leaf = tree.value[:, : self.data.n_classes].argmax(axis=1)
                predicted = class_of_leaf[tree.leaf]
            wrong = predicted != y
            error = float(weight[wrong].sum() / weight.sum())
            if error < self.highest_error * (1 - 1e-9):
                break
        else:
            return None
        votes = self.votes(error, wrong)
        self.finished = error == 0
        self.move(votes[predicted, y])
        if self.stumps:
            return self.add_round(stump, votes[right], votes[left]) | {"error": error}
        self.add_vector_tree(tree, votes[class_of_leaf])
        return {"error": error}


@estimator
class SAMMEClassifier(DrawingClassifier):
    """SAMME: AdaBoost with multi-class weak learners, which predict one of K classes.

    Use it to reproduce or compare with published results. With three or more classes, set ``weak_learner="tree"``: a
    stump predicts only two classes. With trees, this is the algorithm of scikit-learn's ``AdaBoostClassifier``. With
    stumps and two classes, it is AdaBoost with coefficients twice as large.

    References
    ----------
    J. Zhu, H. Zou, S. Rosset and T. Hastie, Multi-class AdaBoost, Statistics and Its Interface 2, 2009, Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import SAMMEClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> SAMMEClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "samme"
    booster = SAMME
    own_help = {"min_weight_fraction_leaf": FOR_STUMPS}
