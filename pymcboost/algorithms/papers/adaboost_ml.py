"""AdaBoost.ML: weak learners that predict one of K classes, under the logistic loss of margin vectors.

Problem
    minimise the sum over rows i of log(1 + exp(-F_{y_i}(x_i))) over F with sum_k F_k = 0.
Round
    w_i = 1 / (1 + exp(F_{y_i}(x_i))); a classifier T with the fewest errors under these weights, as a margin vector
    g: g_k = 1 for k = T(x), else -1 / (K - 1); gamma minimises the loss of F + gamma g; F += gamma g. Stop when the
    error is at least 1 - 1/K, where gamma would be 0. The model has F / 2.

Paper: H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent
losses, Algorithm 2.
"""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.algorithms.papers._classic import FOR_STUMPS, ClassicClassifier
from pymcboost.algorithms.papers.samme import SAMME
from pymcboost.solvers.roots import LARGEST_COEFFICIENT, MAX_ITERATIONS
from pymcboost.training.parameters import estimator

# Smaller steps do not change a model, whose values are float32.
TOLERANCE = 1e-10


def own_slopes(margin):
    """Compute 1 / (1 + exp(margin)) (m,) up to a factor, which keeps them above 0 if all margins are large."""
    return elementary.exp(max(margin.min(), 0) - np.maximum(margin, 0)) / (
        1 + elementary.exp(-np.abs(margin))
    )


def logistic_step(margin, weight, wrong, K, cap):
    """Find gamma in [0, cap] with the smallest loss, for weights (m,) and the ``wrong`` rows, by safeguarded Newton."""
    g = np.where(wrong, -1 / (K - 1), 1.0)  # of the true classes
    low = 0.0
    high = cap
    step = 0.0
    for _ in range(MAX_ITERATIONS):
        moved = margin + step * g
        down = weight * own_slopes(moved) * g
        slope = -down.sum()
        curvature = (down * g / (1 + elementary.exp(-moved))).sum()
        if slope < 0:
            low = step
        else:
            high = step
        last_step = step
        step = step - slope / curvature if curvature > 0 else high
        if not low < step < high:
            step = (low + high) / 2
        if abs(step - last_step) <= TOLERANCE * cap:
            break
    return step


class AdaBoostML(SAMME):
    """Rounds of AdaBoost.ML: SAMME's learners with other weights and steps."""

    def restart(self, scores):
        """Set the margins to twice the scores of the true classes."""
        super().restart(scores)
        self.margin *= 2

    def weights(self):
        """Slopes of the loss."""
        return self.data.weight * own_slopes(self.margin)

    def votes(self, error, wrong):
        """Half of gamma g for each class (K, K)."""
        K = self.data.n_classes
        step = 2 * LARGEST_COEFFICIENT
        if error > 0:
            step = logistic_step(self.margin, self.data.weight, wrong, K=K, cap=step)
        return (step / 2 / (K - 1) * (K * np.eye(K) - 1)).astype(np.float32)

    def move(self, values):
        """Add the values (m,) of the true classes to the margins."""
        self.margin += 2 * values.astype(np.float64)


@estimator
class AdaBoostMLClassifier(ClassicClassifier):
    """AdaBoost.ML: boosting of multi-class weak learners under the logistic loss of margin vectors.

    Use it to reproduce or compare with published results. Rows with large negative margins have weights of at most 1,
    while the weights of `SAMMEClassifier` grow without bound.

    Notes
    -----
    The paper defines the loss and the margin vectors, and each round adds one classifier with a step. Its listing was
    not available, so the weights and the step are derived from the loss. Other choices of this implementation: the
    default classifiers are stumps, which predict two different classes; steps are at most 20; and ``sample_weight``
    multiplies the loss. The length of a margin vector does not matter, because the step scales it.

    The loss is minimal if the probability of class k is proportional to 1 + exp(F_k). The model stores F / 2, and
    ``predict_proba`` is its softmax. The two agree for two classes, and approximately for small F. Set
    ``calibrate`` for better probabilities.

    References
    ----------
    H. Zou, J. Zhu and T. Hastie, New multicategory boosting algorithms based on multicategory Fisher-consistent losses,
    Annals of Applied Statistics 2, 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostMLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostMLClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-ml"
    booster = AdaBoostML
    own_help = {"min_weight_fraction_leaf": FOR_STUMPS}
