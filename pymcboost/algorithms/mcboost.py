"""MCBoost: stage-wise multi-class boosting of the pairwise margins with shared weak learners.

Problem
    minimise over W >= 0 the sum over samples i and classes r of L(F[y_i](x_i) - F[r](x_i)) + nu |W|_1,
    F(x) = sum_j h_j(x) w_j, with L the exponential or the logistic loss.
Round (Algorithm 1)
    h, r = argmax of the edge sum_i a_ir h(x_i) (eq. 10); stop when it is at most nu, with the weights u_ir
    normalised to sum to 1 over all i and r (eqs. 6 and 8);
    w = argmin of the loss of F + h w (eq. 13 or 14); F += learning_rate * h * w.

Paper: S. Paisitkriangkrai, C. Shen and A. van den Hengel, A scalable stage-wise approach to large-margin multi-class
loss based boosting.
"""

from typing import Any, Literal

import numpy as np

from pymcboost.algorithms._binary import SMALLEST_EDGE, BinaryBooster, BinaryClassifier
from pymcboost.comm import ALONE
from pymcboost.data.stump_data import DividedData, TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import SharedStump, SharedTree
from pymcboost.learners.class_trees import n_trees_together
from pymcboost.learners.edge_trees import counts_for
from pymcboost.losses import PAIRWISE
from pymcboost.losses.summed import SUMMED
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.solvers.large import solver_of
from pymcboost.training import memory
from pymcboost.training.parameters import Parameter, Rounds, estimator


class MCBoost(BinaryBooster):
    """Rounds of MCBoost."""

    takes_workers = True
    takes_init_score = True
    columns = {
        "feature": "feature of the first split",
        "threshold": "threshold of the first split, or NaN if it splits on categories",
        "cls": "position in ``classes_`` of the class with the largest edge",
        "edge": "edge of the weak learner for this class",
    }

    def why_ended(self):
        """Say why there is no further round: the limit of the edges is a parameter."""
        return f"no weak learner has an edge above nu={self.params.nu:g}"

    def why_constant(self):
        """The warning for a constant model: a large ``nu`` can refuse every weak learner."""
        text = super().why_constant()
        if self.params.nu > 0.01:
            text = f"{text}, as nu={self.params.nu:g} may be"
        return text

    @property
    def stumps(self):
        """Whether the weak learners are stumps. Stumps on categorical features are trees with two leaves."""
        return self.params.weak_learner == "stump" and self.categories is None

    @property
    def max_leaves(self):
        """Maximum number of leaves of a tree."""
        return 2 if self.params.weak_learner == "stump" else self.params.max_leaf_nodes

    def rows(self, dataset, n_threads, previous):
        """Create columns for stumps or trees; with a communicator, sums over rows are exact."""
        has_workers = self.workers is not ALONE
        options = {"comm": self.workers}
        if self.stumps:
            data_class = DividedData if has_workers else TrainingData
        else:
            data_class = TreeData
            options["exact"] = has_workers
        if self.categories is not None:
            options["categorical"] = self.categories.feature
        return self.rows_for(data_class, dataset, n_threads, **options)

    def new_builder(self):
        """Return a builder of stumps, or of trees if there are categorical features."""
        K = self.data.n_classes
        d = self.data.n_features
        if self.stumps:
            return EnsembleBuilder(K, d)
        return TreesBuilder(K, d, vector=True, categories=self.categories)

    def memory(self):
        """Memory of the rounds: pairwise weights and tables, and the learner."""
        data = self.data
        K = data.n_classes
        parts = [
            *memory.pairwise(data, self.params.loss, 1, self.reads_scores),
            memory.outputs(data, 1),
        ]
        if self.stumps:
            return [*parts, memory.summed(data, K)] if data.exact else parts
        counted = counts_for(data)
        if data.comm.size == 1:
            n_grown = self.n_threads
        else:
            n_grown = min(K, n_trees_together(data, counted, self.max_leaves))
        return [*parts, *memory.trees(data, K, self.max_leaves, n_grown, counted)]

    def prepare(self, previous):
        """Create the loss, the learner and the solver."""
        p = self.params
        self.link = PAIRWISE[p.loss].link
        if self.data.exact:
            self.loss = SUMMED[p.loss](self.data, self.n_threads)
        else:
            self.loss = self.blocks(p.loss)
        if self.stumps:
            self.learner = SharedStump(self.data, self.n_threads)
        else:
            self.learner = SharedTree(
                self.data,
                self.max_leaves,
                p.max_depth,
                n_threads=self.n_threads,
                min_samples_category=p.min_samples_category,
            )
        # Problem (14) is a sum over samples, not its logarithm, so a sample with the mean weight counts as one.
        nu = p.nu if p.loss == "exp" else p.nu * self.data.total_weight / self.data.total_rows
        self.solver = solver_of(p.loss, self.data.n_classes, nu, self.loss.large)

    scores = BinaryBooster.pairwise_scores

    def round(self):
        """Find the weak learner with the largest edge, and its coefficients in all classes."""
        p = self.params
        loss = self.loss
        solver = self.solver
        weak_learner = self.learner.fit(loss.gradient)
        if weak_learner is None:
            return None
        edge = loss.stopping_edge(weak_learner.edge)
        if edge <= p.nu * (1 + SMALLEST_EDGE) or weak_learner.edge <= SMALLEST_EDGE * loss.mass:
            return None
        if p.fixed_step is not None:
            w = np.where(np.arange(self.data.n_classes) == weak_learner.cls, p.fixed_step, 0.0)
            tables = loss.tables_at(weak_learner.h, w)
        else:
            w, tables = solver.fit(loss, weak_learner.h)
            if p.max_step is not None:
                w = np.minimum(w, p.max_step)
            w = w * p.learning_rate
        w = w.astype(np.float32)
        if not w.any():
            return None
        loss.update(weak_learner.h, w.astype(np.float64), tables)
        return self.add_round(weak_learner, w) | {"cls": weak_learner.cls, "edge": edge}


@estimator
class MCBoostClassifier(BinaryClassifier):
    """MCBoost: boosting of the pairwise margins with one weak learner per round for all classes.

    Use it for small models that are evaluated with little memory, or for models of stumps that can be drawn as one
    curve per feature. Each round selects the stump (or tree) and the class with the largest edge, and gives the weak
    learner one coefficient per class. A model of T rounds therefore has T weak learners, not T per class.

    References
    ----------
    S. Paisitkriangkrai, C. Shen and A. van den Hengel, A scalable stage-wise approach to large-margin multi-class loss
    based boosting, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import MCBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> MCBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "mcboost"
    booster = MCBoost
    own_parameters = {
        "nu": Parameter(
            "Weight of the L1 penalty on the coefficients. Training stops when no weak learner has an edge above this "
            "value. Edges are computed from weights of all samples and classes that sum to 1, so large values stop "
            "training early.",
            low=0,
        ),
        "max_step": Parameter(
            "Upper bound on each coefficient before shrinkage. None means no bound.", low=0, open_low=True, high=1e6
        ),
        "fixed_step": Parameter(
            "If set, each round adds this step to the coefficient of the selected class only, without optimization or "
            "shrinkage. This traces the coefficient paths of Fig. 1 of the MCBoost paper.",
            low=0, open_low=True, high=1e6,
        ),
    }  # fmt: skip
    own_help = {
        "loss": 'Loss of the pairwise margins: exponential or logistic. "exp" trains faster; "log" is more robust to '
        "label noise.",
        "weak_learner": "Type of the weak learners: decision stumps or trees. The leaves of a tree are +1 and -1. A "
        "round grows one tree per class and keeps only the one with the largest edge. With categorical features, "
        "stumps are trees with two leaves.",
    }

    categorical_features: Any | None = "from_dtype"
    min_samples_category: float = 15.0
    loss: Literal["exp", "log"] = "exp"
    n_estimators: Rounds = 500
    learning_rate: float = 0.5
    nu: float = 1e-9
    max_step: float | None = None
    fixed_step: float | None = None
