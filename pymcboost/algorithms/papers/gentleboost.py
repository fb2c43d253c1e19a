"""GentleBoost for many classes: a regression tree per class and round on the classes' margin vectors.

Problem
    minimise the sum over rows i of exp(-F_{y_i}(x_i)) over F with sum_k F_k = 0.
Round
    w_i the terms, z_ij = [y_i = j] - 1/K; for every class j a regression tree on the target 1 / z_ij with the weights
    w_i z_ij^2, so that a leaf has the value sum w z / sum w z^2; F_j += tree_j, then F -= its mean over the classes.
    The model keeps the trees as they are, so its scores differ from F by a number for each row.
    Stumps of all classes come from one scan of the classes' weights.

Paper: H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent
losses, Algorithm 1.
"""

import numpy as np

from pymcboost._kernels.exact import total
from pymcboost.algorithms.papers._classic import FOR_STUMPS, ClassicBooster, DrawingClassifier
from pymcboost.data.stump_data import TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners.margin import MarginStumps, MarginTrees, counts_for
from pymcboost.training import memory
from pymcboost.training.parameters import estimator


class GentleBoost(ClassicBooster):
    """Rounds of GentleBoost."""

    shared = False
    link = "softmax"

    @property
    def max_leaves(self):
        """Number of leaves of the trees; stumps on drawn rows are trees, too."""
        return 2 if self.stumps else self.params.max_leaf_nodes

    @property
    def scans(self):
        """Whether stumps of all classes are found in one scan; not if rows are drawn for each class."""
        return self.stumps and self.params.subsample == 1

    def rows(self, dataset, n_threads, previous):
        """Create columns for the scan, or for trees."""
        return self.rows_for(TrainingData if self.scans else TreeData, dataset, n_threads)

    def memory(self):
        """Memory of the rounds. Stumps: class weights and the edges of all splits. Trees: one for every class."""
        data = self.data
        K = data.n_classes
        if self.scans:
            signed_weights = memory.tables(data, K, 1 + memory.chunks(data) / K)
            margins = memory.outputs(data, 1, 40)
            return [
                memory.weights(data, K),
                memory.edges(data, K),
                signed_weights,
                memory.outputs(data, K),
                margins,
            ]
        trees = memory.trees(
            data, K, self.max_leaves, n_grown=self.n_threads, counted=counts_for(data)
        )
        draws_rows = self.params.subsample < 1
        values = memory.outputs(data, K + 5, 16 if draws_rows else 8)
        tables = memory.tables(data, K, 1, passing=5 if draws_rows else 3)
        return [*trees, values, tables]

    def prepare(self, previous):
        """Initialize the margins, which are scores of the true classes minus the mean of all, and the learner."""
        p = self.params
        self.margin = np.zeros(self.data.n_rows)
        if self.scans:
            self.learner = MarginStumps(self.data, self.n_threads)
            return
        self.warn_of_least_weight()
        self.learner = MarginTrees(
            self.data,
            self.max_leaves,
            p.max_depth,
            n_threads=self.n_threads,
            subsample=p.subsample,
            min_share=p.min_weight_fraction_split,
        )

    def restart(self, scores):
        """Compute the margins for these scores."""
        self.margin[...] = 0.0
        if scores is not None:
            own_scores = scores[np.arange(len(self.margin)), self.data.y]
            self.margin[...] = own_scores - scores.mean(axis=1)

    def round(self):
        """Fit a regression stump or tree for every class."""
        margin = self.margin
        learner = self.learner
        weight = self.data.weight * np.exp(margin.min() - margin)
        weight /= total(weight) / len(weight)
        for attempt in self.tries():
            weak_learners = self.fit_learner(learner, weight, attempt)
            if weak_learners is not None:
                break
        else:
            return None
        learner.add_round(self.builder, weak_learners, self.gain)
        self.builder.end_round()
        learner.add_to(margin)
        return {}


@estimator
class GentleBoostClassifier(DrawingClassifier):
    """GentleBoost: boosting of regression stumps or trees under the exponential loss of margin vectors.

    Use it to reproduce or compare with published results, and set ``weak_learner="tree"``: with stumps, the error may
    increase with the number of rounds, because the loss does not bound it. Each round fits one regression stump or tree
    per class. If ``subsample`` is below 1, the rows of each tree are drawn by the weights of its class, without
    replacement.

    References
    ----------
    H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent losses,
    Annals of Applied Statistics 2, 2008, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import GentleBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> GentleBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "gentleboost"
    booster = GentleBoost
    own_help = {"min_weight_fraction_leaf": FOR_STUMPS}
