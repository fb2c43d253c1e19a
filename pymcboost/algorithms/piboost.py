"""PIBoost: every subset S of the classes in a list has its own boosting against the rest, with asymmetric costs.

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

import warnings

import numpy as np

from pymcboost.binary_boosting import SMALLEST_EDGE
from pymcboost.classic import ClassicBoosting, documented
from pymcboost.coding import not_told_apart, separators
from pymcboost.coefficients import coded_steps
from pymcboost.losses import CodedExp
from pymcboost.model.builders import TreesBuilder
from pymcboost.params import Param


@documented
class PIBoostClassifier(ClassicBoosting):
    """PIBoost: boosted separators of class subsets, with asymmetric margins.

    Parameters
    ----------
    separators : {"singles", "pairs"} or list of lists of int, default="singles"
        Class subsets that are set against the rest: every class; every class and every pair of classes; or the given
        subsets of class codes (positions in ``classes_``). A subset and its complement are one separator. At most 4096.

        Two classes that no separator tells apart always have equal scores; `fit` warns of the first such pair.
    cost_sensitive : bool, default=True
        Learn separators for the gradient of the loss, which weighs the classes of a subset of s among K by K - s and
        the others by s. False learns them for the plain weights, as the paper does; stumps then soon find nothing.
    {shared}

    {attributes}

    Notes
    -----
    A separator without mistakes would get an infinite step; ``max(s, K - s) t`` is at most 10.

    References
    ----------
    A. Fernandez-Baldera and L. Baumela, Multi-class boosting with asymmetric binary weak-learners, Pattern Recognition
    47, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import PIBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> PIBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "piboost"
    shared = False
    own_params = {"separators": Param(str, choices=("singles", "pairs"), lists=True)}

    def __init__(
        self,
        n_estimators=200,
        separators="singles",
        cost_sensitive=True,
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
        self.separators = separators
        self.cost_sensitive = cost_sensitive

    def _new_builder(self, n_classes, n_features):
        return TreesBuilder(n_classes, n_features, code=separators(self.separators, n_classes).T)

    def _check_kept(self):
        super()._check_kept()
        if not np.array_equal(self.model_.ensemble.code, separators(self.separators, self.model_.n_classes_).T):
            raise ValueError(
                f"warm_start: the model so far has other class subsets than separators={self.separators!r}; keep to "
                "them, or begin anew"
            )

    def _start(self, data, n_threads):
        code = separators(self.separators, data.n_classes)
        pair = not_told_apart(code)
        if pair is not None:
            x, y = self.classes_[list(pair)].tolist()
            warnings.warn(
                f"{type(self).__name__}: no separator tells class {x!r} from class {y!r}: their scores are always "
                f"equal; add one with only one of the codes {pair[0]} and {pair[1]}, or use separators='singles'",
                stacklevel=4,
            )
        loss = CodedExp(data, code, n_threads, apart=True, unit=None if self.cost_sensitive else np.sign(code))
        learner = self._new_learner(data, n_threads, code.shape[1])
        self._state = (loss, self._resampled(learner, constants=True))

    def _restart(self, scores):
        self._state[0].restart(scores)

    def _round(self, builder):
        loss, learner = self._state
        for attempt in self._tries():
            found = self._fit_learner(learner, loss.gradient, attempt)
            tables = loss.tables(learner.outputs)
            steps = np.zeros(loss.code.shape[1])
            there = [one.cls for one in found]
            steps[there] = coded_steps(tables[:, :, there], loss.code[:, there])
            steps[np.abs(steps) * np.abs(loss.code).max(axis=0) <= SMALLEST_EDGE] = 0.0
            steps = steps.astype(np.float32)
            if steps.any():
                break
        else:
            return None
        loss.update(learner.outputs, steps.astype(np.float64), tables)
        self._add_columns(builder, [one for one in found if steps[one.cls]], steps)
        return {"n_separators": int(np.count_nonzero(steps))}
