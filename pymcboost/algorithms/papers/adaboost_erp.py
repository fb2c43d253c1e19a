"""AdaBoost.ERP: AdaBoost.ECC that repartitions the classes for each weak learner.

Problem
    minimise the sum over rows i and classes l of exp(F_l(x_i) - F_{y_i}(x_i)).
Round
    as AdaBoost.ECC finds a learner h. Then the colouring becomes mu_k = sign e_k, e_k the edge of h for class k, and h
    is learnt again for it. Of all colourings this one makes the weighted edge of h, 1/2 sum_k mu_k e_k, largest. It
    does not always make the loss after the coefficients smallest.

Paper: L. Li, Multiclass boosting with repartitioning.
"""

import numpy as np

from pymcboost.algorithms.papers._classic import ClassicClassifier, ColouredBooster
from pymcboost.training import memory
from pymcboost.training.parameters import Parameter, estimator


class AdaBoostERP(ColouredBooster):
    """Rounds of AdaBoost.ERP."""

    def memory(self):
        """Memory of the rounds: adds the table for repartitioning."""
        return [*super().memory(), memory.tables(self.data, self.data.n_classes, 1)]

    def round(self):
        """Alternate between colourings and learners, and fit a coefficient for each output of the last learner."""
        mu, weak_learner = self.colour()
        if weak_learner is None:
            return None
        for _ in range(self.params.n_repartitions):
            across = np.subtract(*self.loss.side_tables(weak_learner.h))
            edges = across.sum(axis=1) - across.sum(axis=0)
            new_mu = np.where(edges == 0, mu, np.sign(edges))
            if np.array_equal(new_mu, mu) or np.ptp(new_mu) == 0:
                break
            new_learner = self.learn(new_mu)
            if new_learner is None:
                # A tree is grown greedily, so the new one may be worse than the previous one, whose outputs were
                # overwritten.
                weak_learner = self.learn(mu)
                break
            mu = new_mu
            weak_learner = new_learner
        return self.two_sided(mu, weak_learner)


@estimator
class AdaBoostERPClassifier(ClassicClassifier):
    """AdaBoost.ERP: AdaBoost.ECC with repartitioning of the classes.

    Use it to reproduce or compare with published results. A round first finds a weak learner for a random split of the
    classes into two halves. Then it assigns each class to the side that suits the weak learner best, and trains the
    weak learner again.

    References
    ----------
    L. Li, Multiclass boosting with repartitioning, ICML 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostERPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostERPClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-erp"
    booster = AdaBoostERP
    own_parameters = {
        "n_repartitions": Parameter(
            "Maximum number of times that a round partitions the classes again and trains a new weak learner. It stops "
            "as soon as the partition does not change. 0 is AdaBoost.ECC.",
            low=0,
        )
    }

    n_repartitions: int = 1
