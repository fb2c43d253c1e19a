"""MCBoost: stage-wise multi-class boosting of the pairwise margins with shared weak learners.

Problem
    minimise over W >= 0 the sum over samples i and classes r of L(F[y_i](x_i) - F[r](x_i)) + nu |W|_1,
    F(x) = sum_j h_j(x) w_j, with L the exponential or the logistic loss.
Round (Algorithm 1)
    h, r = argmax of the edge sum_i a_ir h(x_i) (eq. 10); stop when it is at most nu;
    w = argmin of the loss of F + h w (eq. 13 or 14); F += learning_rate * h * w.

Paper: S. Paisitkriangkrai, C. Shen and A. van den Hengel, A scalable stage-wise approach to large-margin multi-class
loss based boosting.
"""

import numpy as np

from pymcboost.binary_boosting import SMALLEST_EDGE, BinaryBoosting
from pymcboost.coefficients import SOLVERS
from pymcboost.losses import LOSSES
from pymcboost.params import Param


class MCBoostClassifier(BinaryBoosting):
    """Multi-class boosting that maximises the pairwise margins directly, one shared weak learner per round.

    Every round picks the stump (or tree) and class with the largest edge and gives it one coefficient per class, so
    that a model of T rounds is T weak learners, not T per class.

    Parameters
    ----------
    loss : {"exp", "log"}, default="exp"
        Exponential or logistic loss of the pairwise margins. "exp" is the faster to train; "log" bears label noise
        better.
    n_estimators : int, default=500
        Number of boosting rounds, at least 1. Training stops earlier when no stump has an edge above ``nu``.
    learning_rate : float, default=0.5
        Shrinkage of the coefficients, in (0, 1].
    nu : float, default=1e-9
        Weight of the L1 penalty on the coefficients, and the edge at which training stops; at least 0.
    max_step : float or None, default=None
        Bound on every coefficient before shrinkage; None for no bound.
    fixed_step : float or None, default=None
        If set, every round adds this step to the selected class alone, with no optimisation and no shrinkage: traces
        the coefficient paths of Fig. 1.
    weak_learner : {"stump", "tree"}, default="stump"
        What every round adds. A tree has leaves +1 and -1; one is grown for each class, and the one with the largest
        edge kept.
    max_leaf_nodes : int, default=20
        Most leaves of a tree, 2 to 65536.
    max_depth : int or None, default=None
        Most splits on the way to a leaf of a tree; None for no bound.
    max_bins : int, default=256
        Most bins per feature, 2 to 256, missing values included. Features with no more distinct values, and small data,
        are searched exactly.
    min_weight_fraction_leaf : float, default=0.0
        Share of the total sample weight that must lie on either side of every split, 0 to 0.5.
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
        Seed of the validation split; nothing else is random.
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
    history_ : dict of ndarray
        Per round: "feature", "threshold", "cls" (code of the class with the largest edge), "edge" and, with a
        validation set, "val_error".

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
    ends_when = "no weak learner has an edge above nu"
    own_params = {"loss": Param(str, choices=("exp", "log"))}

    def __init__(
        self,
        loss="exp",
        n_estimators=500,
        learning_rate=0.5,
        nu=1e-9,
        max_step=None,
        fixed_step=None,
        weak_learner="stump",
        max_leaf_nodes=20,
        max_depth=None,
        max_bins=256,
        min_weight_fraction_leaf=0.0,
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
        self.nu = nu
        self.max_step = max_step
        self.fixed_step = fixed_step
        self.weak_learner = weak_learner
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _start(self, data, n_threads):
        # The logistic weights are not normalised: the penalty changes its scale with them.
        nu = self.nu if self.loss == "exp" else self.nu * data.weight_unit
        solver = SOLVERS[self.loss](data.n_classes, nu)
        self._state = (LOSSES[self.loss](data, n_threads), self._new_learner(data, n_threads), solver)

    def _restart(self, scores):
        self._state[0].restart(scores)

    def _link(self):
        return LOSSES[self.loss].link

    def _round(self, builder):
        loss, learner, solver = self._state
        found = learner.fit(loss.gradient)
        if found is None:
            return None
        edge = loss.stopping_edge(found.edge)
        if edge <= solver.nu * (1 + SMALLEST_EDGE) or found.edge <= SMALLEST_EDGE * loss.mass:
            return None
        if self.fixed_step is not None:
            w = np.where(np.arange(loss.data.n_classes) == found.cls, self.fixed_step, 0.0)
            tables = loss.tables_at(found.h, w)
        else:
            w, tables = solver.fit(loss, found.h)
            if self.max_step is not None:
                w = np.minimum(w, self.max_step)
            w = w * self.learning_rate
        w = w.astype(np.float32)
        if not w.any():
            return None
        loss.update(found.h, w.astype(np.float64), tables)
        return self._add_round(builder, found, w) | {"cls": found.cls, "edge": edge}
