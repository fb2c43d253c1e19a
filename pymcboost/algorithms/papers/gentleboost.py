"""GentleBoost for many classes: a regression tree per class and round on the classes' margin vectors.

Problem
    minimise the sum over rows i of exp(-F_{y_i}(x_i)) over F with sum_k F_k = 0.
Round
    w_i the terms, z_ij = [y_i = j] - 1/K; for every class j a regression tree on the target 1 / z_ij with the weights
    w_i z_ij^2, so that a leaf has the value sum w z / sum w z^2; F_j += tree_j, then F less its mean over the classes.
    The model keeps the trees as they are: its scores are those up to a number for each row.
    Stumps of all classes come from one scan of the classes' weights.
    Rows may have any number of labels: then each label k is a problem of its own, with the sum of exp(-z_ik F_k(x_i)),
    z_ik = 1 where row i has k and -1 elsewhere. A leaf has the value sum w z / sum w, and 1 / (1 + exp(-2 F_k)) is the
    probability of k.

Paper: H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent
losses, Algorithm 1. Labels: J. Friedman, T. Hastie and R. Tibshirani, Additive logistic regression: a statistical view
of boosting, Algorithm 4.
"""

from typing import Literal

import numpy as np

from pymcboost.algorithms._labels import LABEL_PARAMETERS, LabelsByForm, LabelScoring, sets_of
from pymcboost.algorithms.papers._classic import FOR_STUMPS, ClassicBooster, ClassicClassifier
from pymcboost.data.stump_data import TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners.label_regression import LabelStumps, LabelTrees
from pymcboost.learners.margin import MarginStumps, MarginTrees, counts_for
from pymcboost.training import memory
from pymcboost.training.parameters import estimator


class GentleBoost(LabelsByForm, ClassicBooster):
    """Rounds of GentleBoost."""

    shared = False

    @property
    def link(self):
        """A sigmoid for each of the labels of which a row may have any number."""
        return "sigmoid" if self.multilabel else "softmax"

    @property
    def max_leaves(self):
        """Leaves of the trees, which stumps on drawn rows are, too."""
        return 2 if self.stumps else self.params.max_leaf_nodes

    @property
    def scans(self):
        """Whether stumps of all classes are found in one scan; of rows drawn for each class they are not."""
        return self.stumps and self.params.subsample == 1

    def rows(self, X, codes, n_classes, weight, n_threads, previous):
        """Columns for the scan, or for trees."""
        self.multilabel, self.n_scores = codes.ndim == 2, n_classes
        if self.multilabel:
            if self.params.subsample < 1:
                raise ValueError(f"{self.name}: subsample is for a class for each row; set it to 1.0")
            self.code, codes = sets_of(codes)
            n_classes = len(self.code)
        return self.rows_for(TrainingData if self.scans else TreeData, X, codes, n_classes, weight, n_threads)

    def memory(self):
        """Stumps: the classes' weights and the edges of all splits. Trees: one for every class."""
        data, p, K = self.data, self.params, self.n_scores
        if self.multilabel:
            held = memory.outputs(data, K, 40)
            if self.scans:
                return [held, memory.weights(data, 2 * K), memory.edges(data, 2 * K, 4 * K), memory.outputs(data, K)]
            return [held, *memory.trees(data, K, self.max_leaves, self.n_threads, counts_for(data))]
        if self.scans:
            signed = memory.tables(data, K, 1 + memory.chunks(data) / K)
            margins = memory.outputs(data, 1, 40)
            return [memory.weights(data, K), memory.edges(data, K), signed, memory.outputs(data, K), margins]
        grown = memory.trees(data, K, self.max_leaves, self.n_threads, counts_for(data))
        values = memory.outputs(data, K + 5, 16 if p.subsample < 1 else 8)
        return [*grown, values, memory.tables(data, K, 1, 3 if p.subsample == 1 else 5)]

    def prepare(self, previous):
        """The margins: scores of the own classes, less the mean of all. Of labels, the learner has their scores."""
        p, data, n_threads = self.params, self.data, self.n_threads
        self.margin = None if self.multilabel else np.zeros(data.n_rows)
        if not self.scans:
            self.warn_of_least_weight()
        limits, least = (self.max_leaves, p.max_depth, n_threads), p.min_weight_fraction_split
        if self.scans and self.multilabel:
            self.learner = LabelStumps(data, self.code, n_threads)
        elif self.scans:
            self.learner = MarginStumps(data, n_threads)
        elif self.multilabel:
            self.learner = LabelTrees(data, self.code, *limits, least)
        else:
            self.learner = MarginTrees(data, *limits, p.subsample, least)

    def restart(self, scores):
        """Margins of these scores."""
        if self.multilabel:
            self.learner.start(scores)
            return
        self.margin[...] = 0.0
        if scores is not None:
            self.margin[...] = scores[np.arange(len(self.margin)), self.data.y] - scores.mean(axis=1)

    def round(self):
        """A regression stump or tree for every class or label."""
        margin, learner = self.margin, self.learner
        if not self.multilabel:
            weight = self.data.weight * np.exp(margin.min() - margin)
            weight /= weight.mean()
        for attempt in self.tries():
            found = learner.fit() if self.multilabel else self.fit_learner(learner, weight, attempt)
            if found is not None:
                break
        else:
            return None
        learner.add_round(self.builder, found, self.gain)
        self.builder.end_round()
        if self.multilabel:
            learner.add_to_scores()
        else:
            learner.add_to(margin)
        return {}


@estimator
class GentleBoostClassifier(ClassicClassifier):
    """GentleBoost: regression stumps or trees for the classes, under the exponential loss of margin vectors.

    Rows may have any number of labels: ``y`` is then an indicator, or a list of tuples of labels.

    With ``subsample`` below 1 the rows of a tree are drawn by its own weights and without replacement.

    With stumps errors may rise with the rounds, as the loss does not bound them: use ``weak_learner="tree"``.

    References
    ----------
    H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent losses,
    Annals of Applied Statistics 2, 2008.
    J. Friedman, T. Hastie and R. Tibshirani, Additive logistic regression: a statistical view of boosting, Annals of
    Statistics 28, 2000.

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
    own_parameters = LABEL_PARAMETERS
    own_help = {"min_weight_fraction_leaf": FOR_STUMPS}

    scoring: LabelScoring = "log_loss"
    decision_threshold: float | Literal["f1"] = 0.5
