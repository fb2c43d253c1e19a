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

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from pymcboost._kernels import vtrees as _vtrees
from pymcboost.data.tree_data import TreeData
from pymcboost.learners.constraints import Ordered, group_bits, signs_of
from pymcboost.learners.vector_trees import VectorTrees, columns_for, drawn_of, leaves_for
from pymcboost.losses import LOSSES, LossName
from pymcboost.model.builders import TreesBuilder
from pymcboost.training import memory
from pymcboost.training.booster import Booster
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import Leaves, Parameter, Rounds, Share, estimator

# Learning rate up to which fewer rounds at a higher rate have the same temperature; see docs/reproduction.md.
HASTY_RATE = 0.2


class VectorTreeBoost(Booster):
    """Rounds of one tree for all classes."""

    ends_when = "no tree lowers the training loss any more"
    columns = {"n_leaves": "leaves of the tree"}
    refits = True

    def rows(self, X, codes, n_classes, weight, n_threads, previous):
        """Columns for trees."""
        return TreeData(X, codes, n_classes, weight, max_bins=self.params.max_bins, n_threads=n_threads)

    def new_builder(self):
        """Trees with a vector in each leaf."""
        return TreesBuilder(self.data.n_classes, self.data.n_features, vector=True)

    def hasten(self, n_rounds):
        """Up to twice the learning rate."""
        times = min(max(HASTY_RATE / self.params.learning_rate, 1.0), 2.0)
        self.params.learning_rate *= times
        return math.ceil(n_rounds / times)

    def memory(self):
        """Scores and gradients, a tree, and the Newton steps of its leaves where they have tables."""
        data, p, K = self.data, self.params, self.data.n_classes
        leaves = leaves_for(data.n_rows) if p.max_leaf_nodes == "auto" else p.max_leaf_nodes
        pool = max(1, round(p.max_features_tree * len(data.columns.column)))
        fewer = columns_for(p.split_columns, K)
        drawn = drawn_of(p.max_features, pool)
        grower = memory.vectors(data, fewer or K, min(leaves, data.n_rows), drawn, self.n_threads)
        newton = 7.5 if p.loss != "softmax" else 3 if p.leaf_step == "full" else 0
        found = [memory.rows(data, integers=fewer is None), grower, memory.tables(data, K, 0, newton)]
        return found if fewer is None else [*found, memory.directions(data, fewer)]

    def prepare(self, previous):
        """Loss and grower."""
        p = self.params
        self.link = LOSSES[p.loss].link
        self.loss = LOSSES[p.loss].rows(self.data, self.n_threads)
        d, pairs, signs = self.data.n_features, p.interaction_cst, p.monotonic_cst
        self.learner = VectorTrees(
            self.data,
            self.loss,
            max_leaves=p.max_leaf_nodes,
            max_depth=p.max_depth,
            min_samples_leaf=p.min_samples_leaf,
            max_features=p.max_features,
            leaf_step=p.leaf_step,
            learning_rate=p.learning_rate,
            l2=p.l2_regularization,
            min_gain=p.min_gain,
            min_relative_gain=p.min_relative_gain,
            subsample=p.subsample,
            max_features_tree=p.max_features_tree,
            split_columns=p.split_columns,
            groups=None if pairs is None else group_bits(pairs, d),
            ordered=None if signs is None else Ordered(signs_of(signs, self.classes, d)),
            n_threads=self.n_threads,
        )

    def restart(self, scores):
        """Take over these scores."""
        self.loss.start(scores)

    def round(self):
        """The next tree."""
        self.learner.learning_rate = self.params.learning_rate  # which a callback may change
        tree = self.learner.fit(_vtrees.round_key(self.seed, self.n_rounds))
        if tree is None:
            return None
        vectors = tree.value[:, : self.data.n_classes].astype(np.float32)
        if not vectors.any():
            return None
        self.builder.add_tree(tree.feature, tree.threshold, tree.nan_left, tree.right, vectors)
        self.builder.end_round()
        np.add.at(self.gain, tree.feature, tree.gain)
        self.loss.add(tree.value, tree.leaf)
        return {"n_leaves": len(vectors)}

    def refit_round(self, at, leaves, cls, base, decay):
        """See `Booster`; the leaves that have rows."""
        if self.learner.ordered is not None:
            raise ValueError("refit_leaves does not keep monotonic_cst; train anew")
        leaf = np.ascontiguousarray(at[:, 0], dtype=np.int32)
        count = np.bincount(leaf, minlength=len(leaves[0]))
        used = np.flatnonzero(count)
        start = np.concatenate(([0], np.cumsum(count[used])))
        step = self.learner.leaf_vectors(np.argsort(leaf, kind="stable").astype(np.int32), start)
        K = self.data.n_classes
        new = np.zeros((len(count), step.shape[1]))
        new[:, :K] = leaves[0]
        new[used] = decay * new[used] + (1 - decay) * step
        new[:, :K] = vectors = new[:, :K].astype(np.float32)
        self.loss.add(new, leaf)
        return [vectors]


@estimator
class VectorTreeBoostClassifier(EnsembleClassifier):
    """Boosted trees with vector leaves: one tree per round for all classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "vector-tree"
    booster = VectorTreeBoost
    own_parameters = {
        "leaf_step": Parameter(
            "With the softmax loss: whether leaf vectors are Newton steps with the diagonal of the Hessian or all of "
            "it. The pairwise losses use all of it."
        ),
        "interaction_cst": Parameter(
            "Groups of columns, by number, that may be used together, as [[0, 1], [2, 3, 4]]: all columns on a path "
            "from the root to a leaf are in one group. Columns in no group are a group of their own. At most 64.",
            python_only=True,
        ),
        "monotonic_cst": Parameter(
            "Columns, by number, in which the probability of a class may only rise or only fall: "
            "{column: (label, +1 or -1)}. The score of the class less that of any other is monotone then, missing "
            "values aside. With two classes +1 or -1 alone stands for the second.",
            python_only=True,
        ),
    }
    own_help = {
        "loss": "Multinomial log-likelihood, or the exponential or logistic loss of the pairwise margins.",
        "n_estimators": "Number of boosting rounds, that is of trees. Training stops earlier when the training loss "
        "has reached machine accuracy.",
        "max_leaf_nodes": 'Most leaves of a tree; "auto": one for every 25 rows, from 31 to 500. Trees grow '
        "best-first: the split with the largest gain comes next.",
        "max_features": "Share of the features that a node may be split on, drawn anew at every node, at least one; "
        '"auto": twice their number to the power of 0.4.',
        "subsample": "Share of the rows that the splits of a tree are found on, drawn anew for every tree by row "
        "number. Leaf vectors are those of all rows.",
        "l2_regularization": "Added to the curvature of every class in a leaf. Splits count rows, so it changes leaf "
        "vectors alone.",
    }

    loss: LossName = "softmax"
    n_estimators: Rounds = 300
    learning_rate: float = 0.1
    max_leaf_nodes: Leaves = "auto"
    max_depth: int | None = None
    min_samples_leaf: float = 1
    max_features: Share = "auto"
    max_features_tree: float = 1.0
    subsample: float = 0.5
    l2_regularization: float = 0.0
    min_gain: float = 0.0
    min_relative_gain: float = 0.25
    leaf_step: Literal["diagonal", "full"] = "diagonal"
    split_columns: int | Literal["auto"] | None = "auto"
    calibrate: Literal["temperature"] | None = "temperature"
    interaction_cst: Any | None = None
    monotonic_cst: Mapping[int, Any] | None = None
