"""GentleBoost for many classes: a regression tree per class and round on the classes' margin vectors.

Problem
    minimise the sum over rows i of exp(-F_{y_i}(x_i)) over F with sum_k F_k = 0.
Round
    w_i the terms, z_ij = [y_i = j] - 1/K; for every class j a regression tree on the target 1 / z_ij with the weights
    w_i z_ij^2, so that a leaf has the value sum w z / sum w z^2; F_j += tree_j, then F less its mean over the classes.

Paper: H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent
losses, Algorithm 2.
"""

import numpy as np

from pymcboost.class_trees import MarginTrees
from pymcboost.classic import ClassicBoosting, documented
from pymcboost.ensemble import TreesBuilder
from pymcboost.tree_data import TreeData


@documented
class GentleBoostClassifier(ClassicBoosting):
    """GentleBoost: regression stumps or trees for the classes, under the exponential loss of margin vectors.

    Parameters
    ----------
    {shared}

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
    data_class = TreeData
    restart_every = None  # weights come from the scores in every round

    def _training_data(self):
        return TreeData

    def _new_builder(self, n_classes, n_features):
        return TreesBuilder(n_classes, n_features)

    def _start(self, data, n_threads):
        leaves, depth = (2, None) if self.weak_learner == "stump" else (self.max_leaf_nodes, self.max_depth)
        self._state = (np.zeros((data.n_classes, data.n_rows)), MarginTrees(data, leaves, depth, n_threads))

    def _restart(self, scores):
        self._state[0][...] = 0.0 if scores is None else scores.T

    def _link(self):
        return "softmax"

    def _round(self, builder):
        F, learner = self._state
        data = learner.data
        margin = F[data.y, np.arange(data.n_rows)] - F.mean(axis=0)
        weight = data.weight * np.exp(margin.min() - margin)
        trees = learner.fit(self._drawn(weight / weight.mean()))
        if not any(leaf.any() and len(feature) for feature, *_, leaf, _ in trees):
            return None
        for k, (column, threshold, nan_left, right, leaf, gain) in enumerate(trees):
            builder.add_tree(column, threshold, nan_left, right, leaf, cls=k)
            np.add.at(self.gain_, column, gain)
        builder.end_round()
        learner.add_to(F)
        return {}
