"""AdaBoost.M1: AdaBoost with weak learners that predict one of K classes and have an error below 1/2.

Problem
    bound the share of wrong rows by the product of 2 sqrt(eps (1 - eps)) over the rounds.
Round
    h names a class; eps = share of the weight w that h gets wrong. Stop when eps >= 1/2.
    beta = eps / (1 - eps); w_i *= beta where h is right; F_k += log(1 / beta) where h names k.
    Stumps and trees are those of SAMME, which adds log(K - 1) to the vote and stops at 1 - 1/K.

Paper: Y. Freund and R. Schapire, A decision-theoretic generalization of on-line learning and an application to
boosting, section 5.1.
"""

from typing import Literal

import numpy as np

from pymcboost.algorithms.papers._classic import FOR_STUMPS, DrawingClassifier
from pymcboost.algorithms.papers.samme import SAMME
from pymcboost.solvers.roots import LARGEST_COEFFICIENT
from pymcboost.training.parameters import estimator


class AdaBoostM1(SAMME):
    """Rounds of AdaBoost.M1: SAMME's learners and weights, with another vote and stopping rule."""

    highest_error = 1 / 2
    ends_when = "every weak learner misclassifies half of the weight"

    def votes(self, error, wrong):
        """Values of all classes if a learner with this error predicts a class (K, K): log(1 / beta) for that class."""
        K = self.data.n_classes
        vote = 2 * LARGEST_COEFFICIENT
        if error > 0:
            vote = min(vote, np.log((1 - error) / error))
        return np.float32(vote) * np.eye(K, dtype=np.float32)

    def why_constant(self):
        """The warning for a constant model: there was not even a first round."""
        return (
            f"{self.ends_when}: the model is constant. Use trees with more leaves, or "
            "adaboost-m2 or samme, which accept weaker learners"
        )


@estimator
class AdaBoostM1Classifier(DrawingClassifier):
    """AdaBoost.M1: boosting of multi-class weak learners with an error below 1/2.

    Use it to reproduce or compare with published results. Each weak learner predicts one of K classes. Training stops
    as soon as a weak learner has a weighted error of 1/2 or more; if trees are too small, this happens in the first
    round. A stump predicts only two classes, which is not enough for more than three classes of about the same size, so
    the default weak learner is a tree. `SAMMEClassifier` is the same for two classes, and with more classes only needs
    an error below 1 - 1/K.

    References
    ----------
    Y. Freund and R. E. Schapire, A decision-theoretic generalization of on-line learning and an application to
    boosting, Journal of Computer and System Sciences 55, 1997, section 5.1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostM1Classifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostM1Classifier(n_estimators=20, max_leaf_nodes=4).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-m1"
    booster = AdaBoostM1
    own_help = {"min_weight_fraction_leaf": FOR_STUMPS}

    weak_learner: Literal["stump", "tree"] = "tree"
