"""GradBoost with a mixed norm: softmax boosting whose rows of coefficients are bounded steps, shrunk as a whole.

Problem
    minimise the mean of -log p_{y_i}(x_i), p = softmax(F), F = sum_j h_j w_j, plus l1 times the sum of |w_j|_2.
Round
    e_j = the mean of (Y - P) h_j, a K-vector. The weak learner with the largest |e_j|_2 is taken; stop when that is at
    most l1. With u = w_j + e_j / L, L = 1/2 the bound of the curvature, w_j becomes u times max(0, 1 - l1 / (L |u|_2)).

Paper: J. Duchi and Y. Singer, Boosting with structural sparsity, section 5.
"""

import numpy as np

from pymcboost.algorithms._binary import FIRST_SPLIT, SMALLEST_EDGE, BinaryClassifier
from pymcboost.algorithms.papers._booster import PaperBooster
from pymcboost.learners import TotalStump
from pymcboost.losses import LOSSES, ColumnSums
from pymcboost.training import memory
from pymcboost.training.parameters import Parameter, Rounds, estimator

CURVATURE = 0.5


class GradBoost(PaperBooster):
    """Rounds of GradBoost."""

    gini = True
    ends_when = "no weak learner has a gradient above l1"
    restart_every = None  # the gradient is computed from the scores in every round
    columns = {
        **FIRST_SPLIT,
        "gradient": "Euclidean norm of the gradient for the weak learner",
    }

    def memory(self):
        """Memory of the rounds: scores and gradients, these also in blocks, and the learner."""
        data = self.data
        K = data.n_classes
        learner = [memory.edges(data, 0, 1)] if self.stumps else self.learner_memory(K)
        return [
            memory.rows(data, integers=False),
            memory.weights(data, K),
            memory.sums(data, K),
            memory.tables(data, K, 0, passing=3),
            *learner,
        ]

    def prepare(self, previous):
        """Create the softmax loss, and the coefficients of the stumps so far, for h = +1 on the right."""
        data = self.data
        self.loss = LOSSES["softmax"].rows(data, self.n_threads)
        self._gradient = data.gradient_buffer()
        self._column_sums = ColumnSums(data, data.n_classes, self.n_threads)
        self._total_weight = data.weight.sum()
        self._coefficients = {}  # w_j (K,) by (feature, threshold, nan_left)
        if not self.stumps:
            self.learner = self.new_learner(data.n_classes)
            return
        self.learner = TotalStump(data, self.n_threads, squares=True)
        if previous is not None:
            for feature, threshold, nan_left, right, _ in previous.model.ensemble.each():
                self._add((feature, float(threshold), nan_left), right.astype(np.float64))

    def round(self):
        """Find the weak learner with the largest gradient, and take a bounded step of its coefficients."""
        weak_learners = self.learner.fit(self._weighted_gradient())
        if self.stumps:
            weak_learners = [weak_learners] if weak_learners is not None else []
        edges = [self._edges(weak_learner.h) for weak_learner in weak_learners]
        if not edges:
            return None
        best = int(np.argmax([np.linalg.norm(e) for e in edges]))
        weak_learner = weak_learners[best]
        e = edges[best]
        l1 = self.params.l1
        if np.linalg.norm(e) <= max(l1, SMALLEST_EDGE):
            return None
        # A stump may occur again, with either sign; every tree is new.
        key = None
        sign = 1
        if self.stumps:
            feature, threshold = weak_learner.first_split()
            key = feature, threshold, bool(np.ravel(weak_learner.nan_left)[0])
            sign = weak_learner.polarity
        old_w = sign * self._coefficients.get(key, np.zeros(len(e)))
        u = old_w + e / CURVATURE
        size = np.linalg.norm(u)
        new_w = u * max(0.0, 1 - l1 / (CURVATURE * size)) if size > 0 else u
        step = (new_w - old_w).astype(np.float32)
        if not step.any():
            return None
        if self.stumps:
            self._add(key, sign * step.astype(np.float64))
        self._advance(weak_learner.h, step.astype(np.float64))
        return self.add_round(weak_learner, step) | {"gradient": float(np.linalg.norm(e))}

    def _add(self, key, step):
        """Add a step to the coefficients of a stump."""
        self._coefficients[key] = self._coefficients.get(key, 0.0) + step

    def _weighted_gradient(self):
        """Gradient of the loss times the weights, in blocks of classes."""
        lanes = self._gradient.shape[2]
        K = self.data.n_classes
        for b, block in enumerate(self._gradient):
            part = self.loss.gradient[:, b * lanes : min(K, (b + 1) * lanes)]
            np.multiply(
                part, self.data.weight[:, None], out=block[:, : part.shape[1]], casting="same_kind"
            )
        return self._gradient

    def _edges(self, h):
        """Means of the gradients times the outputs h: (K,)."""
        plus, minus = self._column_sums(self._gradient, h[None, :])
        return (plus - minus).sum(axis=0) / self._total_weight

    def _advance(self, h, step):
        """Add h step to F."""
        value = np.zeros((2, self.loss.width))
        value[0, : len(step)] = -step
        value[1, : len(step)] = step
        self.loss.add(value, (h > 0).astype(np.int32))


@estimator
class GradBoostClassifier(BinaryClassifier):
    """GradBoost: boosting of the softmax loss with a mixed l1/l2 penalty on the coefficients.

    Use it to reproduce or compare with published results on structural sparsity. Each round selects one weak learner
    for all classes and changes its row of coefficients by a bounded step, which may set the whole row to 0.

    References
    ----------
    J. Duchi and Y. Singer, Boosting with structural sparsity, ICML 2009, section 5.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import GradBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> GradBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "gradboost"
    booster = GradBoost
    own_parameters = {
        "l1": Parameter(
            "Weight of the penalty: the sum of the Euclidean norms of the coefficients of each weak learner.",
            low=0,
        )
    }

    n_estimators: Rounds = 1000
    l1: float = 1e-6
    min_weight_fraction_split: float = 0.0
