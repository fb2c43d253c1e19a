"""Boosting with weak learners of outputs -1 and +1, stumps or trees: what its algorithms do in the same way.

A subclass has the parameters ``weak_learner``, ``max_leaf_nodes`` and ``max_depth``. Its ``_start`` makes the weak
learner with `_new_learner`, its ``_round`` hands what that finds to `_add_round`, and neither asks whether it is a
stump or a tree.
"""

import numpy as np

from pymcboost.base import BoostingClassifier
from pymcboost.data import TrainingData
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.tree_data import TreeData
from pymcboost.weak_learners import EdgeStumps, EdgeTrees, SharedStump, SharedTree, add_stumps

# An edge below this share of the weights is rounding, not learning; edges this close to a bound have reached it.
SMALLEST_EDGE = 1e-7
# Rounds after which multiplied weights are rebuilt from the scores, against rounding drift and lost small weights.
RESTART_EVERY = 512


class BinaryBoosting(BoostingClassifier):
    """Base of algorithms whose weak learners are stumps or trees with outputs -1 and +1."""

    # A learner serves all classes, with a value for each; otherwise it belongs to one class.
    shared = True
    # Trees of single columns are split by the Gini impurity rather than by their edges.
    gini = False
    min_weight_fraction_split = 0.0
    subsample = 1.0
    restart_every: int | None = RESTART_EVERY

    def _training_data(self):
        return TrainingData if self.weak_learner == "stump" else TreeData

    def _new_builder(self, n_classes, n_features):
        # A stump in an EnsembleBuilder is a round: rounds of several learners need a TreesBuilder, which takes stumps.
        if self.shared and self.weak_learner == "stump":
            return EnsembleBuilder(n_classes, n_features)
        return TreesBuilder(n_classes, n_features, vector=self.shared)

    def _new_learner(self, data, n_threads, n_columns=None):
        """A weak learner: its ``fit(gradient)`` gives the best fit (or None) if shared, else a list, one per class.

        With ``n_columns``, a list of the best fit for every column of the gradient.
        """
        if self.weak_learner == "stump":
            if self.shared and n_columns is None:
                return SharedStump(data, n_threads)
            return EdgeStumps(data, n_threads, n_columns)
        if self.shared and n_columns is None:
            return SharedTree(data, self.max_leaf_nodes, self.max_depth, n_threads)
        return EdgeTrees(
            data, self.max_leaf_nodes, self.max_depth, n_threads, n_columns, self.gini, self.min_weight_fraction_split,
            self.subsample,
        )  # fmt: skip

    def _add_round(self, builder, found, plus, minus=None):
        """Add a round of one weak learner.

        Parameters
        ----------
        builder : EnsembleBuilder or TreesBuilder
        found : StumpFit or TreeFit
        plus, minus : ndarray (K,)
            Values of the classes where its output is +1 and -1; ``minus`` is ``-plus`` if None.

        Returns
        -------
        dict
            The "feature" and "threshold" of the (first) split, for `history_`.
        """
        found.add_to(builder, plus, minus)
        builder.end_round()
        self._add_gain(found)
        feature, threshold = found.first_split()
        return {"feature": feature, "threshold": threshold}

    def _add_gain(self, found):
        """Count the gains of a tree's splits; the importance of stumps is that of their values in the model."""
        if found.gain is not None:
            np.add.at(self.gain_, found.feature, found.gain)

    def _add_columns(self, builder, found, steps):
        """Add a round of one weak learner for every column, with the step of its column (P,), to a TreesBuilder."""
        if self.weak_learner == "stump":
            of_column = np.array([one.cls for one in found])
            right = np.array([one.polarity for one in found]) * steps[of_column]
            add_stumps(builder, found, np.stack((-right, right), axis=1), of_column)
        else:
            for one in found:
                *splits, sign = one.as_tree()
                builder.add_tree(*splits, sign * steps[one.cls], cls=one.cls)
                self._add_gain(one)
        builder.end_round()
