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

from typing import ClassVar, Literal

from pymcboost.algorithms._binary import BinaryClassifier
from pymcboost.algorithms.papers._column_generation import ColumnGeneration, sparsity
from pymcboost.training.parameters import Parameter, Rounds, estimator
from pymcboost.training.prediction import check_is_fitted

MAX_PASSES = (
    "Maximum number of passes of fast coordinate descent per round. The first pass updates the new coefficients, and "
    "the others update all coefficients that can be improved. 1 makes training stage-wise: only the new coefficients "
    "are fitted."
)


class MultiBoost(ColumnGeneration):
    """Rounds of MultiBoost: one learner for all classes."""

    def check(self):
        """Refuse coordinate descent for the logistic loss, which has no closed form."""
        if self.params.loss == "log" and self.params.solver == "fcd":
            raise ValueError(
                f"{self.name}: solver='fcd' supports only loss='exp'; use solver='lbfgs' or "
                "'auto' with loss='log'"
            )

    @property
    def solver_name(self):
        """Name of the solver, also for "auto"."""
        p = self.params
        if p.solver != "auto":
            return p.solver
        return "fcd" if p.loss == "exp" else "lbfgs"


class MultiBoostCW(ColumnGeneration):
    """Rounds of MultiBoost-cw: one learner for every class."""

    fixed = {**ColumnGeneration.fixed, "loss": "exp", "solver": "fcd"}
    shared = False


@estimator
class TotallyCorrectiveClassifier(BinaryClassifier):
    """Base class of both estimators."""

    booster: ClassVar[type[ColumnGeneration]]
    own_parameters = {"max_passes": Parameter(MAX_PASSES, low=1)}

    C: float = 1e6
    max_passes: int = 2
    tol: float = 1e-6

    @property
    def sparsity_(self) -> dict[str, int]:
        """Numbers of weak learners "generated" and kept ("learners"), of "coefficients", and of "zero" coefficients."""
        check_is_fitted(self)
        n_coefficients = len(self.classes_) if self.booster.shared else 1
        return sparsity(self.model_.ensemble, self.history_, n_coefficients)


@estimator
class MultiBoostClassifier(TotallyCorrectiveClassifier):
    """MultiBoost: totally corrective boosting with one weak learner per round for all classes.

    Use it for models with very few stumps. After each round, the coefficients of all weak learners for all classes are
    optimized again, and most of them become 0. The model therefore has few weak learners, and each one serves few
    classes.

    Notes
    -----
    The first pass of coordinate descent visits the classes in the order of their labels, and later passes visit them
    in a random order. Coordinate descent stops after ``max_passes`` passes, before it reaches the minimum. Renaming the
    classes or changing ``random_state`` therefore changes the coefficients, and in later rounds the weak learners.

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
    booster = MultiBoost
    own_parameters = {
        "solver": Parameter(
            'Optimizer of the coefficients. "fcd" is fast coordinate descent, for the exponential loss only. "lbfgs" '
            'is L-BFGS-B with at most 100 iterations per round. "lbfgs-cold" starts it from 0 in every round and '
            'stops it early. "auto" is "fcd" for the loss "exp" and "lbfgs" for "log".\n\n'
            'The published experiments use "lbfgs-cold". With a large C on small data it gives more coefficients and '
            "lower errors. It is slower, and the objective may increase from one round to the next, so set ``tol=0`` "
            "to train all rounds. The same weak learner may then occur several times in a model. Continuing with "
            "another solver merges these."
        )
    }
    own_help = {"max_passes": f"{MAX_PASSES} L-BFGS-B ignores it."}

    loss: Literal["exp", "log"] = "exp"
    solver: Literal["auto", "fcd", "lbfgs", "lbfgs-cold"] = "auto"


@estimator
class MultiBoostCWClassifier(TotallyCorrectiveClassifier):
    """MultiBoost-cw: totally corrective boosting with one weak learner per class and round.

    It needs fewer rounds than `MultiBoostClassifier`, and about as many weak learners. The loss is exponential, and the
    coefficients are optimized by fast coordinate descent. MultiBoost-cw-1 of the paper has ``C=1e8`` and
    ``max_passes=1``.

    Notes
    -----
    The first pass of coordinate descent visits the classes in the order of their labels, and later passes visit them
    in a random order. Coordinate descent stops after ``max_passes`` passes, before it reaches the minimum. Renaming the
    classes or changing ``random_state`` therefore changes the coefficients, and in later rounds the weak learners.

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
    booster = MultiBoostCW
    own_help = {
        "n_estimators": "Maximum number of boosting rounds. Each round adds one weak learner per class.\n\n"
        '"auto" chooses the number by cross-validation, see ``cv``.'
    }

    n_estimators: Rounds = 100
