"""PIBoost: class subsets S are boosted against the rest, each separately, with asymmetric costs.

Problem
    for every S, s = |S|: minimise the sum over rows i of exp(-C_S(y_i) f_S(x_i)), C_S = K - s on S and -s off it. Then
    F_k(x) = sum over S of C_S(k) f_S(x), which is the paper's F divided by K - 1.
Round
    for every S, with w_i the terms, normalised: a separator h; eps1, eps2 the weights of the failures on S and off it,
    A1, A2 the weights of both. t = log R is the root of
    (K-s) eps1 e^{(K-s)t} + s eps2 e^{st} - s (A2-eps2) e^{-st} - (K-s) (A1-eps1) e^{-(K-s)t} = 0
    (eq. 8 in a form that rises with t for all s); f_S += t h. It may be negative.
    The separator is learnt for the weights w (K-s) on S and w s off it, the gradient of the loss; or for w.

Paper: A. Fernandez-Baldera and L. Baumela, Multi-class boosting with asymmetric binary weak-learners, Algorithm 2.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from pymcboost._warn import warn
from pymcboost.algorithms._binary import SMALLEST_EDGE
from pymcboost.algorithms.papers._classic import ClassicBooster, DrawingClassifier
from pymcboost.losses.codes import not_told_apart, separators
from pymcboost.model.builders import TreesBuilder
from pymcboost.solvers.roots import coded_steps
from pymcboost.training import memory
from pymcboost.training.parameters import Parameter, Rounds, estimator


class PIBoost(ClassicBooster):
    """Rounds of PIBoost."""

    shared = False
    columns = {"n_separators": "number of class subsets that got a separator"}

    @property
    def link_temperature(self):
        """Temperature of the code's scores.

        The loss is minimal at f_S = log(P_S (K - s) / ((1 - P_S) s)) / K for the subset S of s classes. Near equal
        probabilities, log p is then (K - 1) / P times the score, where P is the number of subsets.
        """
        return 2 * self.code.shape[1] / (self.data.n_classes - 1)

    def new_builder(self):
        """Create an ensemble whose code is the class subsets."""
        self.code = separators(self.params.separators, self.data.n_classes)
        return TreesBuilder(self.data.n_classes, self.data.n_features, code=self.code.T)

    def check_previous(self, previous):
        """Refuse other class subsets."""
        super().check_previous(previous)
        spec = self.params.separators
        code = separators(spec, previous.model.n_classes_)
        if not np.array_equal(previous.model.ensemble.code, code.T):
            raise ValueError(
                f"{previous.source}: the existing model has other class subsets than "
                f"separators={spec!r}; use the same separators, or train a new model"
            )

    def memory(self):
        """Memory of the rounds: the weights of all class subsets, and a learner for each."""
        P = separators(self.params.separators, self.data.n_classes).shape[1]
        weights = memory.coded(self.data, P, self.reads_scores, kept=1, passing=3)
        return [*weights, *self.learner_memory(P)]

    def prepare(self, previous):
        """Create the loss, and a learner for all class subsets."""
        pair = not_told_apart(self.code)
        if pair is not None:
            x, y = self.classes[list(pair)].tolist()
            warn(
                f"{self.name}: no separator tells class {x!r} from class {y!r}, so their "
                "scores are always equal; add a separator with only one of the codes "
                f"{pair[0]} and {pair[1]}, or use separators='singles'"
            )
        unit = None if self.params.cost_sensitive else np.sign(self.code)
        self.loss = self.coded(self.code, apart=True, unit=unit)
        learner = self.new_learner(self.code.shape[1], self.code)
        self.learner = self.resampled(learner, constants=True)

    def round(self):
        """Find a separator for every class subset, each with its own step."""
        loss = self.loss
        learner = self.learner
        for attempt in self.tries():
            weak_learners = self.fit_learner(learner, loss.gradient, attempt)
            tables = loss.tables(learner.outputs)
            steps = np.zeros(loss.code.shape[1])
            columns = [weak_learner.cls for weak_learner in weak_learners]
            steps[columns] = coded_steps(tables[:, :, columns], loss.code[:, columns])
            steps[np.abs(steps) * np.abs(loss.code).max(axis=0) <= SMALLEST_EDGE] = 0.0
            steps = steps.astype(np.float32)
            if steps.any():
                break
        else:
            return None
        loss.update(learner.outputs, steps.astype(np.float64), tables)
        used_learners = [weak_learner for weak_learner in weak_learners if steps[weak_learner.cls]]
        self.add_columns(used_learners, steps)
        return {"n_separators": int(np.count_nonzero(steps))}


@estimator
class PIBoostClassifier(DrawingClassifier):
    """PIBoost: boosting of binary separators of class subsets, with asymmetric margins.

    Use it for published comparisons, and with ``separators="pairs"``, ``weak_learner="tree"`` and ``subsample=0.1`` to
    train weak learners on a tenth of the rows. Each round adds one weak learner, a separator, for each class subset.

    Notes
    -----
    A separator without errors would get an infinite step t. For a subset of s of K classes, ``max(s, K - s) * t`` is at
    most 10.

    References
    ----------
    A. Fernandez-Baldera and L. Baumela, Multi-class boosting with asymmetric binary weak-learners, Pattern Recognition
    47, 2014, Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import PIBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> PIBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "piboost"
    booster = PIBoost
    own_parameters = {
        "separators": Parameter(
            'Class subsets that are separated from the other classes: "singles" takes each class, "pairs" each class '
            "and each pair of classes. A subset and its complement are the same separator. At most 4096 separators.\n\n"
            "A list gives the subsets by positions in ``classes_``.\n\n"
            "Two classes that no separator distinguishes always have equal scores. `fit` warns about the first such "
            "pair."
        ),
        "cost_sensitive": Parameter(
            "Whether separators are trained for the gradient of the loss, which weights the classes of a subset of s "
            "out of K classes by K - s and the other classes by s. False trains them for the weights without these "
            "factors, as the paper does; training with stumps then stops early."
        ),
    }

    n_estimators: Rounds = 200
    separators: Literal["singles", "pairs"] | Sequence[Sequence[int]] = "singles"
    cost_sensitive: bool = True
