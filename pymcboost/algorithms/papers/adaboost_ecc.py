"""AdaBoost.ECC: a random half of the classes against the others in every round, one coefficient for each output.

Problem
    minimise the sum over rows i and classes l of exp(F_l(x_i) - F_{y_i}(x_i)).
Round
    mu in {-1, +1}^K, half of it +1; D_i = sum_l u_il [mu_l != mu_{y_i}]; h for the signs mu_{y_i} and the weights D;
    alpha = 1/2 log(D[h = +, mu = +] / D[h = +, mu = -]) where h = +1, and likewise where h = -1, after 1/4000 of the
    sum of D has been added to each; F_l += mu_l alpha / 2.

Paper: V. Guruswami and A. Sahai, Multiclass learning, boosting, and error-correcting codes (whose F is twice ours).
"""

from pymcboost.algorithms.papers._classic import ClassicClassifier, ColouredBooster
from pymcboost.training.parameters import estimator


class AdaBoostECC(ColouredBooster):
    """Rounds of AdaBoost.ECC."""

    def round(self):
        """Draw a colouring, and find a learner with a coefficient for each output."""
        mu, weak_learner = self.colour()
        return None if weak_learner is None else self.two_sided(mu, weak_learner)


@estimator
class AdaBoostECCClassifier(ClassicClassifier):
    """AdaBoost.ECC: boosting of a random output code, with two coefficients per weak learner.

    Use it to reproduce or compare with published results. Each round trains one binary weak learner to separate a
    random half of the classes from the other half, and gives each of its two outputs a coefficient. With two classes,
    this is AdaBoost with the confidence-rated predictions of Schapire and Singer.

    References
    ----------
    V. Guruswami and A. Sahai, Multiclass learning, boosting, and error-correcting codes, COLT 1999.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostECCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostECCClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-ecc"
    booster = AdaBoostECC
