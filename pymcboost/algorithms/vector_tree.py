"""One tree per round for all classes, with a vector in each leaf.

Problem
    minimise the sum over samples i of a loss of F(x_i): softmax, -log p_{y_i} with p = softmax(F), or the exponential
    or logistic loss of the pairwise margins F[y_i] - F[r]; F(x) = sum of trees whose leaves are K-vectors.
Round
    G = negative gradient (m, K). The tree grows best-first by the split with the largest
    sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T), over a fresh random share of the features at every node.
    Leaf vectors are damped Newton steps; with the diagonal of softmax's Hessian alone, they are
    (K-1)/K sum g_k / sum p_k (1 - p_k) less their mean. F += learning_rate * vector.

MCBoost shares one weak learner among all classes and gives it one coefficient per class; this is the same for trees.
"""

import numpy as np

from pymcboost.base import BoostingClassifier
from pymcboost.losses import ROW_LINKS, RowLoss
from pymcboost.model.builders import TreesBuilder
from pymcboost.params import Param
from pymcboost.tree_data import TreeData
from pymcboost.vector_learner import VectorTrees


class VectorTreeBoostClassifier(BoostingClassifier):
    """Boosted trees with vector leaves: one tree per round for all classes.

    Parameters
    ----------
    loss : {"softmax", "exp", "log"}, default="softmax"
        Multinomial log-likelihood, or the exponential or logistic loss of the pairwise margins.
    n_estimators : int, default=200
        Number of boosting rounds, that is of trees, at least 1. Training stops earlier when the training loss has
        reached machine accuracy.
    learning_rate : float, default=0.2
        Shrinkage of the leaf vectors, in (0, 1].
    max_leaf_nodes : int, default=100
        Most leaves of a tree, 2 to 65536. Trees grow best-first: the split with the largest gain comes next.
    max_depth : int or None, default=None
        Most splits on the way to a leaf; None for no bound.
    min_samples_leaf : float, default=2
        Least sum of sample weights in a leaf, at least 0; the number of samples when they all weigh the same.
    max_features : float, default=0.2
        Share of the features that a node may be split on, in (0, 1]; drawn anew at every node, at least one.
    leaf_step : {"diagonal", "full"}, default="diagonal"
        With the softmax loss: whether leaf vectors are Newton steps with the diagonal of the Hessian or all of it. The
        pairwise losses use all of it.
    max_bins : int, default=256
        Most bins per feature, 2 to 256, missing values included. Features with no more distinct values, and small data,
        are searched exactly.
    early_stopping : bool, default=False
        Stop when the validation error has not improved for ``n_iter_no_change`` rounds, and keep the best round.
    validation_fraction : float, default=0.1
        Share of the training rows set aside for early stopping when no validation set is given.
    n_iter_no_change : int, default=20
        Patience of early stopping, in rounds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    warm_start : bool, default=False
        Let `fit` add rounds to the model already there.
    random_state : int, RandomState instance or None, default=None
        Seed of the validation split and of the features drawn at the nodes.
    n_jobs : int or None, default=None
        Threads; None and -1 mean all CPUs available. The model does not depend on it.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), where X had string column names
    model_ : Model
        What is saved and scored.
    n_estimators_ : int
        Rounds fitted.
    gain_ : ndarray of shape (n_features_in_,)
        Total gain of the splits on each feature; `feature_importances_` are its shares.
    history_ : dict of ndarray
        Per round: "n_leaves" and, with a validation set, "val_error".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost.algorithms.vector_tree import VectorTreeBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "vector-tree"
    ends_when = "no tree lowers the training loss any more"
    data_class = TreeData
    own_params = {
        "loss": Param(str, choices=("softmax", "exp", "log")),
        "leaf_step": Param(str, choices=("diagonal", "full")),
    }

    def __init__(
        self,
        loss="softmax",
        n_estimators=200,
        learning_rate=0.2,
        max_leaf_nodes=100,
        max_depth=None,
        min_samples_leaf=2,
        max_features=0.2,
        leaf_step="diagonal",
        max_bins=256,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        class_weight=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.leaf_step = leaf_step
        self.max_bins = max_bins
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _new_builder(self, n_classes, n_features):
        return TreesBuilder(n_classes, n_features, vector=True)

    def _start(self, data, n_threads):
        loss = RowLoss(self.loss, data, n_threads)
        learner = VectorTrees(
            data,
            loss,
            max_leaves=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            leaf_step=self.leaf_step,
            learning_rate=self.learning_rate,
            n_threads=n_threads,
        )
        self._state = (loss, learner)

    def _restart(self, scores):
        self._state[0].restart(scores)

    def _link(self):
        return ROW_LINKS[self.loss]

    def _round(self, builder):
        loss, learner = self._state
        rng = np.random.default_rng([self._seed, builder.n_rounds])
        tree = learner.fit(int(rng.integers(2**64, dtype=np.uint64)))
        if tree is None:
            return None
        vectors = tree.value[:, : loss.data.n_classes].astype(np.float32)
        if not vectors.any():
            return None
        builder.add_tree(tree.feature, tree.threshold, tree.nan_left, tree.right, vectors)
        builder.end_round()
        np.add.at(self.gain_, tree.feature, tree.gain)
        loss.add(tree.value, tree.leaf)
        return {"n_leaves": len(vectors)}
