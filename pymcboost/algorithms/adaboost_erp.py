"""AdaBoost.ERP: AdaBoost.ECC that colours the classes anew after having seen the learner.

Problem
    minimise the sum over rows i and classes l of exp(F_l(x_i) - F_{y_i}(x_i)).
Round
    as AdaBoost.ECC, but with the learner h at hand the colouring becomes mu_k = sign e_k, e_k the edge of h for class
    k: of all colourings it makes the weighted edge of h, 1/2 sum_k mu_k e_k, largest (not always the loss after the
    coefficients smallest). Then h is learnt again for it.

Paper: L. Li, Multiclass boosting with repartitioning.
"""

import numpy as np

from pymcboost.classic import ColouredBoosting, documented
from pymcboost.params import Param


@documented
class AdaBoostERPClassifier(ColouredBoosting):
    """AdaBoost.ERP: AdaBoost.ECC with colourings that follow the weak learners.

    Parameters
    ----------
    n_repartitions : int, default=1
        How often a round colours the classes anew and learns again; at least 0, which is AdaBoost.ECC. It ends as soon
        as the colouring stays as it is.
    {shared}

    {attributes}

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
    own_params = {"n_repartitions": Param(int, low=0)}

    def __init__(
        self,
        n_estimators=500,
        n_repartitions=1,
        weak_learner="stump",
        max_leaf_nodes=20,
        max_depth=None,
        min_weight_fraction_split=0.0,
        subsample=1.0,
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
        super().__init__(
            n_estimators, weak_learner, max_leaf_nodes, max_depth, min_weight_fraction_split, subsample, max_bins,
            min_weight_fraction_leaf, early_stopping, validation_fraction, n_iter_no_change, class_weight,
            warm_start, random_state, n_jobs, verbose,
        )  # fmt: skip
        self.n_repartitions = n_repartitions

    def _round(self, builder):
        mu, found = self._colour(builder)
        if found is None:
            return None
        for _ in range(self.n_repartitions):
            across = np.subtract(*self._state[0].side_tables(found.h))
            edges = across.sum(axis=1) - across.sum(axis=0)
            new = np.where(edges == 0, mu, np.sign(edges))
            if np.array_equal(new, mu) or np.ptp(new) == 0:
                break
            again = self._learn(new)
            if again is None:  # may be where rows are drawn; the last learner's outputs are gone
                found = self._learn(mu)
                break
            mu, found = new, again
        return self._two_sided(builder, mu, found)
