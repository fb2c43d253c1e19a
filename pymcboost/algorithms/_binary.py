"""Boosting with weak learners of outputs -1 and +1, stumps or trees: what its algorithms do in the same way.

A booster makes its weak learner with `BinaryBooster.new_learner` and hands what that finds to `add_round`. Neither asks
whether it is a stump or a tree.
"""

from typing import Any, Literal

import numpy as np

from pymcboost.comm import ALONE
from pymcboost.data.mapped import ScoresInPieces
from pymcboost.data.stump_data import DividedData, TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import EdgeStumps, EdgeTrees, SharedStump, SharedTree, add_stumps
from pymcboost.learners.class_trees import together
from pymcboost.learners.edge_trees import counts_for
from pymcboost.losses import PAIRWISE, CodedExp
from pymcboost.losses.pairwise import is_large
from pymcboost.losses.summed import SUMMED
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.training import memory
from pymcboost.training.booster import Booster
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import estimator

# An edge below this share of the weights is rounding, not learning; edges this close to a bound have reached it.
SMALLEST_EDGE = 1e-7
# Rounds after which multiplied weights are rebuilt from the scores, against rounding drift and lost small weights.
RESTART_EVERY = 512
# What `BinaryBooster.add_round` says of a learner, for the history.
FIRST_SPLIT = {
    "feature": "of the first split",
    "threshold": "of the first split, NaN if it asks about levels of a category",
}
# Of those that have both of stumps alone: a round of trees has none, nor one where features are categories.
FIRST_STUMP = dict.fromkeys(FIRST_SPLIT, "of the stump; not with trees or categories")


@estimator
class BinaryClassifier(EnsembleClassifier):
    """Parameters of algorithms whose weak learners are stumps or trees with outputs -1 and +1."""

    weak_learner: Literal["stump", "tree"] = "stump"
    max_leaf_nodes: int = 20
    max_depth: int | None = None
    min_weight_fraction_leaf: float = 0.0
    categorical_features: Any | None = "from_dtype"
    min_samples_category: float = 15.0


class BinaryBooster(Booster):
    """Base of boosters whose weak learners are stumps or trees with outputs -1 and +1."""

    fixed = {"min_weight_fraction_split": 0.0, "subsample": 1.0}
    corrects_few = True
    # A learner serves all classes, with a value for each; otherwise it belongs to one class.
    shared = True
    # Trees of single columns are split by the Gini impurity rather than by their edges.
    gini = False
    restart_every: int | None = RESTART_EVERY

    @property
    def stumps(self):
        """Whether the weak learners are stumps. Those on categories are trees of two leaves."""
        return self.params.weak_learner == "stump" and self.categories is None

    @property
    def again(self):
        """Whether weights are computed from scores: of the rounds before, or after each `restart_every` rounds."""
        n = self.params.n_estimators
        return self.has_rounds or n > (self.restart_every or n)

    @property
    def divided(self):
        """Whether the rows are divided among workers, one or more: sums over rows are then exact."""
        return self.takes_workers and self.workers is not ALONE

    @property
    def max_leaves(self):
        """Leaves of the trees."""
        return 2 if self.params.weak_learner == "stump" else self.params.max_leaf_nodes

    def layouts(self):
        """Stumps can be merged into tables."""
        return ("list", "interval") if self.stumps else ("list",)

    def rows(self, X, codes, n_classes, weight, n_threads, previous):
        """Columns for stumps or for trees."""
        kind = TreeData if not self.stumps else DividedData if self.divided else TrainingData
        return self.rows_for(kind, X, codes, n_classes, weight, n_threads)

    def rows_for(self, kind, X, codes, n_classes, weight, n_threads):
        """Training data of this kind."""
        p = self.params
        how = {"max_bins": p.max_bins, "min_weight_fraction_leaf": p.min_weight_fraction_leaf, "n_threads": n_threads}
        if self.categories is not None:
            how["categorical"] = self.categories.feature
        if kind is TreeData:
            how["exact"] = self.divided
        return kind(X, codes, n_classes, weight, comm=self.workers, **how)

    def blocks(self, loss):
        """A pairwise loss at work, by its name."""
        return (SUMMED[loss] if self.data.exact else PAIRWISE[loss].blocks)(self.data, self.n_threads)

    def pairwise_scores(self):
        """`scores` for `blocks`, which go through them a few times: of very many classes, in pieces."""
        if is_large(self.data.n_classes):
            return ScoresInPieces(self.builder.current().column_scores, self.data.X, self.data.rows)
        return super().scores()

    def restart(self, scores):
        """Weights of these scores, of the classes or of the columns of a code."""
        self.loss.start(scores)

    def coded(self, code, **options):
        """The exponential loss of a code at work: see `CodedExp`."""
        return CodedExp(self.data, code, self.n_threads, **options)

    def new_builder(self):
        """Stumps for all classes are rounds by themselves; rounds of several learners need trees, which stumps are."""
        return self.builder_of(self.data.n_classes)

    def builder_of(self, n_classes):
        """The same, of so many scores."""
        shape = n_classes, self.data.n_features
        if self.shared and self.stumps:
            return EnsembleBuilder(*shape)
        return TreesBuilder(*shape, vector=self.shared, categories=self.categories)

    def new_learner(self, n_columns=None, code=None):
        """A weak learner: its ``fit(gradient)`` gives the best fit (or None) if shared, else a list, one per class.

        With ``n_columns``, a list of the best fit for every column of the gradient; ``code``: see `EdgeTrees`.
        """
        p, one = self.params, self.shared and n_columns is None
        if self.stumps:
            return SharedStump(self.data, self.n_threads) if one else EdgeStumps(self.data, self.n_threads, n_columns)
        limits, few = (self.data, self.max_leaves, p.max_depth, self.n_threads), p.min_samples_category
        if one:
            return SharedTree(*limits, few)
        return EdgeTrees(*limits, n_columns, self.gini, p.min_weight_fraction_split, p.subsample, few, code)

    def learner_memory(self, n_columns=None):
        """What the learner of `new_learner` takes, and the rows that `subsample` draws for it."""
        p, data, one = self.params, self.data, self.shared and n_columns is None
        P = data.n_classes if n_columns is None else n_columns
        drawn = [memory.weights(data, P)] if p.subsample < 1 else []
        if self.stumps:
            held = [memory.outputs(data, 1)] if one else memory.stumps(data, P)
            return [*drawn, *held, *([memory.summed(data, P)] if data.exact else [])]
        counted = counts_for(data)
        n_grown = self.n_threads if data.comm.size == 1 else min(P, together(data, counted, self.max_leaves))
        grown = memory.trees(data, P, self.max_leaves, n_grown, counted)
        return [*drawn, *grown, memory.outputs(data, 1 if one else P)]

    def add_round(self, found, plus, minus=None):
        """Add a round of one weak learner.

        Parameters
        ----------
        found : StumpFit or TreeFit
        plus, minus : ndarray (K,)
            Values of the classes where its output is +1 and -1; ``minus`` is ``-plus`` if None.

        Returns
        -------
        dict
            The "feature" and "threshold" of the (first) split, for the history.
        """
        found.add_to(self.builder, plus, minus)
        self.builder.end_round()
        self.add_gain(found)
        feature, threshold = found.first_split()
        return {"feature": feature, "threshold": threshold}

    def add_gain(self, found):
        """Count the gains of a tree's splits; the importance of stumps is that of their values in the model."""
        if found.gain is not None:
            self.gain.add(found.feature, found.gain)

    def add_columns(self, found, steps):
        """Add a round of one weak learner for every column, with the step of its column (P,)."""
        if self.stumps:
            of_column = np.array([one.cls for one in found])
            right = np.array([one.polarity for one in found]) * steps[of_column]
            add_stumps(self.builder, found, np.stack((-right, right), axis=1), of_column)
        else:
            for one in found:
                *splits, sign = one.as_tree()
                sets = self.builder.packed(one.feature, one.nan_left, one.codes)
                self.builder.add_tree(*splits, sign * steps[one.cls], cls=one.cls, sets=sets)
                self.add_gain(one)
        self.builder.end_round()
