"""GentleBoost for many classes: a regression tree per class and round on the classes' margin vectors.

Problem
    minimise the sum over rows i of exp(-F_{y_i}(x_i)) over F with sum_k F_k = 0.
Round
    w_i the terms, z_ij = [y_i = j] - 1/K; for every class j a regression tree on the target 1 / z_ij with the weights
    w_i z_ij^2, so that a leaf has the value sum w z / sum w z^2; F_j += tree_j, then F less its mean over the classes.
    Stumps of all classes come from one scan of the classes' weights.

Paper: H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent
losses, Algorithm 2.
"""

import numpy as np

from pymcboost.classic import ClassicBoosting, documented
from pymcboost.data import TrainingData
from pymcboost.margin_learners import MarginStumps, MarginTrees
from pymcboost.model.builders import TreesBuilder
from pymcboost.tree_data import TreeData


@documented
class GentleBoostClassifier(ClassicBoosting):
    """GentleBoost: regression stumps or trees for the classes, under the exponential loss of margin vectors.

    With ``subsample`` below 1 the rows of a tree are drawn by its own weights and without replacement.

    Parameters
    ----------
    {shared}
    min_weight_fraction_leaf : float, default=0.0
        Share of the total sample weight that must lie on either side of every split of a stump, 0 to 0.5. Trees,
        and stumps with ``subsample`` below 1, take little notice of it, and a warning says so.

    {attributes}

    References
    ----------
    H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent losses,
    Annals of Applied Statistics 2, 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import GentleBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> GentleBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "gentleboost"

    def _training_data(self):
        return TrainingData if self._scans() else TreeData

    def _scans(self):
        """Whether stumps of all classes are found in one scan; of rows drawn for each class they are not."""
        return self.weak_learner == "stump" and self.subsample == 1

    def _new_builder(self, n_classes, n_features):
        return TreesBuilder(n_classes, n_features)

    def _start(self, data, n_threads):
        if self._scans():
            learner = MarginStumps(data, n_threads)
        else:
            self._warn_of_least_weight()
            limits = (2, None) if self.weak_learner == "stump" else (self.max_leaf_nodes, self.max_depth)
            learner = MarginTrees(data, *limits, n_threads, self.subsample, self.min_weight_fraction_split)
        self._state = (np.zeros(data.n_rows), learner)  # F of the own classes, less the mean of all

    def _restart(self, scores):
        margin, learner = self._state
        margin[...] = 0.0
        if scores is not None:
            margin[...] = scores[np.arange(len(margin)), learner.data.y] - scores.mean(axis=1)

    def _link(self):
        return "softmax"

    def _round(self, builder):
        margin, learner = self._state
        weight = learner.data.weight * np.exp(margin.min() - margin)
        weight /= weight.mean()
        for attempt in self._tries():
            found = self._fit_learner(learner, weight, attempt)
            if found is not None:
                break
        else:
            return None
        learner.add_round(builder, found, self.gain_)
        builder.end_round()
        learner.add_to(margin)
        return {}
