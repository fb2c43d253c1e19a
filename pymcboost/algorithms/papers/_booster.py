"""Base class of the papers' boosters whose weak learners are stumps or trees with outputs -1 and +1.

A booster creates its weak learner with `PaperBooster.new_learner` and passes the results to `add_round`. Neither
depends on whether it is a stump or a tree.
"""

from pymcboost.algorithms._binary import BinaryBooster
from pymcboost.data.stump_data import TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import EdgeStumps, EdgeTrees, SharedStump, SharedTree
from pymcboost.learners.edge_trees import counts_for
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.training import memory


class PaperBooster(BinaryBooster):
    """Base class of the papers' boosters: one weak learner for all classes, or one for each."""

    fixed = {"min_weight_fraction_split": 0.0, "subsample": 1.0}
    # Whether a learner serves all classes, with a value for each; otherwise it belongs to one class.
    shared = True
    # Whether trees of single columns are split by the Gini impurity instead of by their edges.
    gini = False

    def rows(self, dataset, n_threads, previous):
        """Create columns for stumps or trees."""
        return self.rows_for(TrainingData if self.stumps else TreeData, dataset, n_threads)

    def new_builder(self):
        """Return an empty ensemble: stumps if a round adds one stump for all classes, else trees."""
        return self.builder_of(self.data.n_classes)

    def builder_of(self, n_scores):
        """Return an empty ensemble with this number of scores, see `new_builder`."""
        d = self.data.n_features
        if self.shared and self.stumps:
            return EnsembleBuilder(n_scores, d)
        return TreesBuilder(n_scores, d, vector=self.shared)

    def new_learner(self, n_columns=None, code=None):
        """Create a weak learner.

        If it is shared, its ``fit(gradient)`` returns the best fit, or None. Otherwise, or with ``n_columns``, it
        returns a list with the best fit for every class, or for every column of the gradient.

        ``code``: see `EdgeTrees`.
        """
        p = self.params
        is_single = self.shared and n_columns is None
        if self.stumps and is_single:
            return SharedStump(self.data, self.n_threads)
        if self.stumps:
            return EdgeStumps(self.data, self.n_threads, n_columns)
        limits = self.data, p.max_leaf_nodes, p.max_depth, self.n_threads
        if is_single:
            return SharedTree(*limits)
        return EdgeTrees(
            *limits,
            n_columns=n_columns,
            gini=self.gini,
            min_share=p.min_weight_fraction_split,
            drawn=p.subsample,
            code=code,
        )

    def learner_memory(self, n_columns=None):
        """Memory of the learner of `new_learner`, and of the rows that `subsample` draws for it."""
        p = self.params
        data = self.data
        is_single = self.shared and n_columns is None
        P = data.n_classes if n_columns is None else n_columns
        drawn = [memory.weights(data, P)] if p.subsample < 1 else []
        if self.stumps and is_single:
            return [*drawn, memory.outputs(data, 1)]
        if self.stumps:
            return [*drawn, *memory.stumps(data, P)]
        trees = memory.trees(
            data, P, p.max_leaf_nodes, n_grown=self.n_threads, counted=counts_for(data)
        )
        return [*drawn, *trees, memory.outputs(data, 1 if is_single else P)]
