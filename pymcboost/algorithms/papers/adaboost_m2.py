"""AdaBoost.M2: weak learners that predict a set of plausible classes for every row, chosen by their pseudo-loss.

Problem
    minimise the sum over rows i and wrong classes y of exp((F_y(x_i) - F_{y_i}(x_i)) / 2).
Round
    w_iy the terms; W_i = sum_y w_iy, q(i, y) = w_iy / W_i, D(i) = W_i / sum_i W_i.
    h(x, y) in {0, 1} with the smallest pseudo-loss
        eps = 1/2 sum_i D(i) (1 - h(x_i, y_i) + sum_{y != y_i} q(i, y) h(x_i, y)) = 1/2 (1 - sum_iy a_iy h(x_i, y)),
        a_iy = D(i) ([y = y_i] - q(i, y)).
    Stop when eps >= 1/2. beta = eps / (1 - eps); F_y += log(1 / beta) h(x, y); w_iy *= beta^((1 + h(x_i, y_i) -
    h(x_i, y)) / 2): up to a factor for all, these are the terms again. The model has F / 2.
Weak learners
    In a leaf with the sums A_y of a_iy the set {y: A_y > 0} is the best one. Since sum_y a_iy = 0, it contributes
    sum_y |A_y| / 2. A stump with the sums R_y on its right and L_y on its left is the better, the larger
    sum_y (|R_y| + |L_y|) = sum_y max(|R_y - L_y|, |R_y + L_y|). AdaBoost.MH maximises sum_y |R_y - L_y|: the same where
    no class has a sum R_y + L_y over all rows that exceeds its edge. Trees are grown as regression trees of a_iy / D(i)
    under the weights D(i): by the Gini impurity while all wrong classes weigh the same, as in the first round.

Paper: Y. Freund and R. Schapire, A decision-theoretic generalization of on-line learning and an application to
boosting, section 5.2.
"""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.algorithms._binary import FIRST_STUMP, SMALLEST_EDGE
from pymcboost.algorithms.papers._classic import FOR_STUMPS, ClassicBooster, DrawingClassifier
from pymcboost.learners import EveryStump
from pymcboost.learners.vector_trees import ClassificationTrees
from pymcboost.solvers.roots import common_step
from pymcboost.training import memory
from pymcboost.training.parameters import estimator


def plausible(sums, mass):
    """Mark with 1 the classes that are plausible in each leaf, for sums (n_leaves, K) of a and ``mass``, that of D."""
    return (sums > SMALLEST_EDGE * mass).astype(np.float64)


class PlausibleStump(EveryStump):
    """The stump with the smallest pseudo-loss."""

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self._gradient = data.gradient_buffer()

    def fit(self, D, a):
        """Return the stump, the leaf (m,) of each row and h (2, K), for D (m,) and a / D (m, K), or None."""
        lanes = self._gradient.shape[2]
        K = self.n_columns
        for y in range(K):
            self._gradient[y // lanes, :, y % lanes] = D * a[:, y]
        edge, splits, total = self.edges(self._gradient)
        if not len(splits):
            return None
        edge = edge[splits, :K]
        gain = np.maximum(np.abs(edge), np.abs(total)).sum(axis=1)
        best = int(np.argmax(gain * self.tie >= gain.max()))
        stump = self.stump(best)
        sums = np.stack([total - edge[best], total + edge[best]]) / 2
        return stump, (stump.h > 0).astype(np.intp), plausible(sums, D.sum())


class PlausibleTrees(ClassificationTrees):
    """Grows regression trees of a / D with weights D; each leaf has a set of plausible classes."""

    def fit(self, D, a):
        """Return the tree, the leaf (m,) of each row and h (n_leaves, K); None if there is no split."""
        K = self.data.n_classes
        self.loss.gradient[:, :K] = a
        tree = super().fit(D)
        return None if tree is None else (tree, tree.leaf, tree.value[:, :K])

    def leaf_vectors(self, rows, leaf_start):
        """Sets of plausible classes as vectors of 0 and 1."""
        D = self.loss.weight
        sums = np.add.reduceat(D[rows, None] * self.loss.gradient[rows], leaf_start[:-1], axis=0)
        return plausible(sums, D.sum())


class AdaBoostM2(ClassicBooster):
    """Rounds of AdaBoost.M2."""

    restart_every = None  # weights are computed from the scores in every round
    columns = {**FIRST_STUMP, "pseudo_loss": "pseudo-loss of the weak learner"}
    ends_when = "no weak learner has a pseudo-loss below 1/2"

    def memory(self):
        """Memory of the rounds: scores, weights and a for all classes, and the learner."""
        data = self.data
        K = data.n_classes
        scores = memory.outputs(data, K, 5 * 8)
        if self.stumps:
            return [scores, memory.weights(data, K), memory.edges(data, K, of_splits=3 * K)]
        return [scores, *self.vector_trees_memory()]

    def prepare(self, previous):
        """Create a learner of sets of plausible classes."""
        self.finished = self.last(previous, "pseudo_loss") == 0
        # Index of the entries of the true classes in arrays (m, K).
        self.own_class = np.arange(self.data.n_rows), self.data.y
        with np.errstate(divide="ignore"):  # weights may have become 0 beside huge ones
            self.log_weight = np.log(self.data.weight)
        if self.stumps:
            self.learner = PlausibleStump(self.data, self.n_threads)
        else:
            self.learner = self.vector_trees(PlausibleTrees)

    def restart(self, scores):
        """Set the scores of the model (m, K), which are F / 2."""
        self.F = np.zeros((self.data.n_rows, self.data.n_classes))
        if scores is not None:
            self.F[...] = scores

    def mislabel_weights(self):
        """Weights w (m, K) up to a factor, 0 for the true classes."""
        log_w = self.F - self.F[self.own_class][:, None] + self.log_weight[:, None]
        log_w[self.own_class] = -np.inf
        return elementary.exp(log_w - log_w.max())

    def round(self):
        """Find a weak learner with a small pseudo-loss, and vote for the classes that it considers plausible."""
        own_class = self.own_class
        m = self.data.n_rows
        w = self.mislabel_weights()
        W = w.sum(axis=1)
        q = w / np.maximum(W, np.finfo(float).tiny)[:, None]
        D = W * (m / W.sum())  # m times the paper's, so that the mean is 1
        a = -q
        a[own_class] = 1.0
        for attempt in () if self.finished else self.tries():
            fitted = self.learner.fit(self.drawn(D, attempt), a)
            if fitted is None:
                continue
            learner, leaf, h_of_leaf = fitted
            h = h_of_leaf[leaf]
            pseudo_loss = float((D * (1 - h[own_class] + (q * h).sum(axis=1))).sum() / (2 * m))
            if pseudo_loss < (1 - SMALLEST_EDGE) / 2:
                break
        else:
            return None
        self.finished = pseudo_loss == 0
        half_vote = common_step(1 - 2 * pseudo_loss)  # log(1 / beta) / 2
        values = (half_vote * h_of_leaf).astype(np.float32)
        self.F += values[leaf]
        if self.stumps:
            return self.add_round(learner, values[1], values[0]) | {"pseudo_loss": pseudo_loss}
        self.add_vector_tree(learner, values)
        return {"pseudo_loss": pseudo_loss}


@estimator
class AdaBoostM2Classifier(DrawingClassifier):
    """AdaBoost.M2: boosting of weak learners that predict a set of plausible classes, by their pseudo-loss.

    Use it to reproduce or compare with published results. Each wrong class of each row has a weight of its own. A weak
    learner only needs to be better than chance at telling the true class from the wrong ones. With two classes, this is
    AdaBoost whose weak learners may also be constant.

    References
    ----------
    Y. Freund and R. E. Schapire, A decision-theoretic generalization of on-line learning and an application to
    boosting, Journal of Computer and System Sciences 55, 1997, section 5.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostM2Classifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostM2Classifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-m2"
    booster = AdaBoostM2
    own_help = {"min_weight_fraction_leaf": FOR_STUMPS}
