"""AdaBoost.MH: multi-class boosting by the Hamming loss, one weak learner a round that every class takes with a sign.

Problem
    minimise the sum over rows i and classes l of exp(-Y_il F_l(x_i)), Y_il = 1 for l = y_i and -1 for the others.
Round
    D_il in proportion to the terms, e_l = sum_i D_il Y_il h(x_i); the stump with the largest gamma = sum_l |e_l|,
    alpha = 1/2 log((1 + gamma) / (1 - gamma)), F_l += alpha sign(e_l) h.
    Trees: one for every class, all with the same alpha, gamma being the sum of their edges.

Paper: R. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, section 9.1.
"""

import numpy as np

from pymcboost.binary_boosting import SMALLEST_EDGE
from pymcboost.classic import NO_MISTAKES, ClassicBoosting, documented
from pymcboost.coding import one_vs_all
from pymcboost.coefficients import common_step
from pymcboost.losses import CodedExp
from pymcboost.weak_learners import TotalStump


@documented
class AdaBoostMHClassifier(ClassicBoosting):
    """AdaBoost.MH: the Hamming loss, one stump per round for all classes, or one tree for each.

    Parameters
    ----------
    {shared}

    {attributes}

    References
    ----------
    R. E. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, Machine Learning 37,
    1999.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostMHClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostMHClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-mh"

    @property
    def shared(self):
        """Whether a weak learner serves all classes."""
        return self.weak_learner == "stump"

    def _start(self, data, n_threads):
        loss = CodedExp(data, one_vs_all(data.n_classes), n_threads)
        learner = TotalStump(data, n_threads) if self.shared else self._new_learner(data, n_threads)
        self._state = _State(loss, self._resampled(learner))

    def _restart(self, scores):
        self._state.loss.restart(scores)

    def _why_ended(self):
        return NO_MISTAKES if self._state.finished else super()._why_ended()

    def _round(self, builder):
        state = self._state
        loss, learner = state.loss, state.learner
        for attempt in () if state.finished else self._tries():
            found = self._fit_learner(learner, loss.gradient, attempt)
            if not found:
                continue
            h = found.h[None, :] if self.shared else learner.outputs
            tables = loss.tables(h)
            edges = loss.edges(tables)
            if not self.shared:
                edges[np.setdiff1d(np.arange(len(edges)), [tree.cls for tree in found])] = 0.0
            gamma = np.abs(edges).sum() / loss.mass.sum()
            if gamma > SMALLEST_EDGE:
                break
        else:
            return None
        state.finished = gamma >= 1 - SMALLEST_EDGE**2  # no weight would change against another
        steps = (common_step(gamma) * np.sign(edges)).astype(np.float32)
        loss.update(h, steps.astype(np.float64), tables)
        if self.shared:
            return self._add_round(builder, found, steps) | {"edge": gamma}
        self._add_columns(builder, found, steps)
        return {"edge": gamma}


class _State:
    def __init__(self, loss, learner):
        self.loss, self.learner, self.finished = loss, learner, False
