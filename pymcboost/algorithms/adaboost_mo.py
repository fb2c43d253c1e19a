"""AdaBoost.MO: output codes; every column of a code matrix is boosted as a binary problem, all with one coefficient.

Problem
    minimise the sum over rows i and columns j of exp(-lambda_j(y_i) f_j(x_i)), lambda the code of the classes.
Round
    D_ij in proportion to the terms; for every column the weak learner h_j with the largest edge, sum_i D_ij
    lambda_j(y_i) h_j; r the sum of the edges, alpha = 1/2 log((1 + r) / (1 - r)), f_j += alpha h_j.
    Of the classes, that with the least sum over j of exp(-lambda_j f_j) is predicted.

Paper: R. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, section 9.2.
"""

import numpy as np
from sklearn.utils import check_random_state

from pymcboost.binary_boosting import SMALLEST_EDGE
from pymcboost.classic import ClassicBoosting, documented
from pymcboost.coding import code_matrix
from pymcboost.coefficients import common_step
from pymcboost.losses import CodedExp
from pymcboost.model.builders import TreesBuilder
from pymcboost.params import Param


@documented
class AdaBoostMOClassifier(ClassicBoosting):
    """AdaBoost.MO: boosting of an output code, one weak learner per column and round.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of boosting rounds, at least 1; every round adds a weak learner for each column.
    code : {"auto", "one-vs-all", "all-pairs", "exhaustive", "dense"}, default="auto"
        Code matrix: every class against the rest; every pair of classes; all ways to part the classes in two, for at
        most 12 classes; or 10 log2 K random ones. "auto" is "exhaustive" up to 7 classes, then "dense".
    decoder : {"exp", "linear", "hamming"}, default="exp"
        How the columns' scores become those of the classes: minus the logarithm of the exponential loss, the sum of
        code times score, or minus the number of columns that say otherwise.
    {shared}

    {attributes}

    References
    ----------
    R. E. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, Machine Learning 37,
    1999.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostMOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostMOClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-mo"
    shared = False
    own_params = {
        "code": Param(str, choices=("auto", "one-vs-all", "all-pairs", "exhaustive", "dense")),
        "decoder": Param(str, choices=("exp", "linear", "hamming")),
    }

    def __init__(
        self,
        n_estimators=100,
        code="auto",
        decoder="exp",
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
        self.code = code
        self.decoder = decoder

    def _new_builder(self, n_classes, n_features):
        seed = int(check_random_state(self._random_state()).randint(2**31))
        self._matrix = code_matrix(self.code, n_classes, np.random.default_rng(seed))
        return TreesBuilder(n_classes, n_features, code=self._matrix.T, decoder=self.decoder)

    def _continue(self, data):
        builder, scores = super()._continue(data)
        self._matrix = builder.code.T.astype(np.float64)  # a random one stays what it was
        return builder, scores

    def _start(self, data, n_threads):
        learner = self._resampled(self._new_learner(data, n_threads, self._matrix.shape[1]))
        self._state = (CodedExp(data, self._matrix, n_threads), learner)

    def _stop(self):
        super()._stop()
        self.__dict__.pop("_matrix", None)

    def _restart(self, scores):
        self._state[0].restart(scores)

    def _link(self):
        return "softmax"

    def _round(self, builder):
        loss, learner = self._state
        for attempt in self._tries():
            found = self._fit_learner(learner, loss.gradient, attempt)
            there = [one.cls for one in found]
            tables = loss.tables(learner.outputs)
            edge = loss.edges(tables)[there].sum() / loss.mass.sum()
            if edge > SMALLEST_EDGE:
                break
        else:
            return None
        steps = np.zeros(self._matrix.shape[1], dtype=np.float32)
        steps[there] = common_step(edge)
        loss.update(learner.outputs, steps.astype(np.float64), tables)
        self._add_columns(builder, found, steps)
        return {"edge": edge}
