"""AdaBoost.OC: in every round, a random half of the classes against the others; the learner votes for one half.

Problem
    minimise the sum over rows i and classes l of exp(F_l(x_i) - F_{y_i}(x_i)).
Round
    mu in {-1, +1}^K, half of it +1; h for the signs mu_{y_i} and the weights D_i = sum_l u_il [mu_l != mu_{y_i}];
    pseudo-loss e = 1/2 sum u_il ([h(x_i) != mu_{y_i}] + [h(x_i) = mu_l]), u normalised; alpha = 1/2 log((1 - e) / e);
    F_l += alpha h mu_l / 2. That is alpha [h = mu_l] up to a constant.

Paper: R. Schapire, Using output codes to boost multiclass learning problems.
"""

import numpy as np

from pymcboost.algorithms.papers._classic import ClassicClassifier, ColouredBooster
from pymcboost.solvers.roots import common_step
from pymcboost.training.parameters import estimator


class AdaBoostOC(ColouredBooster):
    """Rounds of AdaBoost.OC."""

    def round(self):
        """Draw a colouring, and find a learner that votes for one half of the classes."""
        mu, weak_learner = self.colour()
        if weak_learner is None:
            return None
        loss = self.loss
        edge = weak_learner.edge / (2 * loss.mass)  # 1 - 2 e
        step = (0.5 * common_step(edge) * mu).astype(np.float32)
        loss.update(weak_learner.h, step.astype(np.float64), loss.side_tables(weak_learner.h))
        return self.add_round(weak_learner, step) | {"edge": edge}


@estimator
class AdaBoostOCClassifier(ClassicClassifier):
    """AdaBoost.OC: boosting of a random output code, with one coefficient per weak learner.

    Use it to reproduce or compare with published results. Each round trains one binary weak learner to separate a
    random half of the classes from the other half, and adds its vote to the scores of one half.

    References
    ----------
    R. E. Schapire, Using output codes to boost multiclass learning problems, ICML 1997.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostOCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostOCClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-oc"
    booster = AdaBoostOC
