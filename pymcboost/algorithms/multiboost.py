"""MultiBoost and MultiBoost-cw: totally corrective multi-class boosting of the pairwise margins by column generation.

Problem
    minimise over w >= 0  |w|_1 + C/p sum over samples i and classes y != y_i of L(F[y_i](x_i) - F[y](x_i)),
    p the number of pairs (i, y), L the exponential or the logistic loss.
Round (Algorithm 1)
    the weak learners of the most violated dual constraints: for MultiBoost the one with the largest edge
    sum_i a_ic h(x_i) of all classes c (eq. 6), given a coefficient in each; for MultiBoost-cw one for every class
    (eq. 4), given one in its own; stop when no edge exceeds p/C. Then all coefficients are optimised again.

Papers: G. Lin, C. Shen, A. van den Hengel and D. Suter, Fast training of effective multi-class boosting using
coordinate descent optimization; C. Shen and Z. Hao, A direct formulation for totally-corrective multi-class boosting.
"""

from pymcboost.column_generation import ColumnGeneration
from pymcboost.params import Param


class MultiBoostClassifier(ColumnGeneration):
    """Totally corrective multi-class boosting: one weak learner per round, shared by all classes.

    After every round the coefficients of all learners in all classes are optimised again, which most of them leave as
    zeros: a model has few learners, and each serves few classes.

    Parameters
    ----------
    loss : {"exp", "log"}, default="exp"
        Exponential or logistic loss of the pairwise margins.
    n_estimators : int, default=200
        Number of boosting rounds, at least 1. Training stops earlier when no learner has an edge above p/C.
    C : float, default=1e6
        Weight of the loss against the sum of the coefficients, above 0: the mean loss of all pairs is multiplied by it.
    solver : {"auto", "fcd", "lbfgs", "lbfgs-cold"}, default="auto"
        How coefficients are optimised: fast coordinate descent, which is for the exponential loss, or L-BFGS-B with at
        most 100 iterations a round, "lbfgs-cold" from 0 in every round and stopped early. "auto" is "fcd" for "exp"
        and "lbfgs" for "log".

        With a large C on small data "lbfgs-cold", the way of the published experiments, has more coefficients and lower
        errors; it is slower, and the objective may rise: tol=0 makes all rounds. Learners may then stand in a model
        several times; going on with another solver merges them.
    max_passes : int, default=2
        Most passes of fast coordinate descent in a round: the first over the new coefficients, the others over all that
        can be improved. 1 makes training stage-wise: only the new coefficients are fitted. L-BFGS-B takes no notice.
    tol : float, default=1e-6
        Training stops when a round changes the objective by no more than this, relatively; at least 0.
    weak_learner : {"stump", "tree"}, default="stump"
        Weak learners: decision stumps, or classification trees with leaves +1 and -1.
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
        Stop when the validation error has not improved for ``n_iter_no_change`` rounds, and go back to the learners
        and coefficients of the best round.
    validation_fraction : float, default=0.1
        Share of the training rows set aside for early stopping when no validation set is given.
    n_iter_no_change : int, default=20
        Patience of early stopping, in rounds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    warm_start : bool, default=False
        Let `fit` add rounds to the model already there.
    random_state : int, RandomState instance or None, default=None
        Seed of the validation split and of the order of the updates, on which a model depends unless max_passes=1.
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
    sparsity_ : dict
        "generated" and kept "learners", their "coefficients" and how many of those are "zero".
    history_ : dict of ndarray
        Per round: "objective" (loss and penalty after it, the sum over all pairs, equal sample weights taken as 1),
        "change" (relative, of the objective), "edge" (largest one before it), "n_found" (learners generated),
        "n_learners" (in the model) and, with a validation set, "val_error".

    References
    ----------
    C. Shen and Z. Hao, A direct formulation for totally-corrective multi-class boosting.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import MultiBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> MultiBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "multiboost"
    shared = True
    own_params = {"loss": Param(str, choices=("exp", "log"))}

    def __init__(
        self,
        loss="exp",
        n_estimators=200,
        C=1e6,
        solver="auto",
        max_passes=2,
        tol=1e-6,
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
        self.C = C
        self.solver = solver
        self.max_passes = max_passes
        self.tol = tol
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

    def _check_params(self):
        super()._check_params()
        if self.loss == "log" and self.solver == "fcd":
            raise ValueError(
                "MultiBoostClassifier: solver='fcd' has its closed form for loss='exp' alone; "
                "use solver='lbfgs' or 'auto' with loss='log'"
            )

    def _solver(self):
        return self.solver if self.solver != "auto" else "fcd" if self.loss == "exp" else "lbfgs"


class MultiBoostCWClassifier(ColumnGeneration):
    """Totally corrective multi-class boosting with class-wise weak learners: every round adds one for each class.

    Needs fewer rounds than `MultiBoostClassifier`, and about as many weak learners. The loss is exponential, the solver
    fast coordinate descent.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of boosting rounds, at least 1, each of one learner for every class. Training stops earlier when no
        learner has an edge above p/C.
    C : float, default=1e6
        Weight of the loss against the sum of the coefficients, above 0: the mean loss of all pairs is multiplied by it.
        The paper's MultiBoost-cw-1 has 1e8.
    max_passes : int, default=2
        Most passes of fast coordinate descent in a round: the first over the new coefficients, the others over all that
        can be improved. 1 is MultiBoost-cw-1: training is stage-wise, only the new coefficients are fitted.
    tol : float, default=1e-6
        Training stops when a round changes the objective by no more than this, relatively; at least 0.
    weak_learner : {"stump", "tree"}, default="stump"
        Weak learners: decision stumps, or classification trees with leaves +1 and -1.
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
        Stop when the validation error has not improved for ``n_iter_no_change`` rounds, and go back to the learners
        and coefficients of the best round.
    validation_fraction : float, default=0.1
        Share of the training rows set aside for early stopping when no validation set is given.
    n_iter_no_change : int, default=20
        Patience of early stopping, in rounds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    warm_start : bool, default=False
        Let `fit` add rounds to the model already there.
    random_state : int, RandomState instance or None, default=None
        Seed of the validation split and of the order of the updates, on which a model depends unless max_passes=1.
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
    sparsity_ : dict
        "generated" and kept "learners", their "coefficients" and how many of those are "zero".
    history_ : dict of ndarray
        Per round: "objective" (loss and penalty after it, the sum over all pairs, equal sample weights taken as 1),
        "change" (relative, of the objective), "edge" (largest one before it), "n_found" (learners generated),
        "n_learners" (in the model) and, with a validation set, "val_error".

    References
    ----------
    G. Lin, C. Shen, A. van den Hengel and D. Suter, Fast training of effective multi-class boosting using coordinate
    descent optimization, Algorithms 1 and 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import MultiBoostCWClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> MultiBoostCWClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "multiboost-cw"
    shared = False

    def __init__(
        self,
        n_estimators=100,
        C=1e6,
        max_passes=2,
        tol=1e-6,
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
        self.n_estimators = n_estimators
        self.C = C
        self.max_passes = max_passes
        self.tol = tol
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
