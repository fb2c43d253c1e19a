"""AdaBoost.MH: multi-class boosting of the Hamming loss, with one weak learner per round, for or against each class.

Problem
    minimise the sum over rows i and classes l of exp(-Y_il F_l(x_i)), Y_il = 1 for l = y_i and -1 for the others.
    Rows may have any number of labels: then Y_il = 1 for each l that row i has, and 1 / (1 + exp(-2 F_l)) is the
    probability that it has l. Rows with the same labels are a class of the data, with these signs in the code.
Round
    D_il in proportion to the terms, e_l = sum_i D_il Y_il h(x_i); the stump with the largest gamma = sum_l |e_l|,
    alpha = 1/2 log((1 + gamma) / (1 - gamma)), F_l += alpha sign(e_l) h.
    Trees: one for every class, all with the same alpha, gamma being the sum of their edges.

Paper: R. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, section 9.1.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from pymcboost.algorithms._binary import FIRST_STUMP, SMALLEST_EDGE
from pymcboost.algorithms._labels import LABEL_PARAMETERS, LabelScoring, ManyLabels
from pymcboost.algorithms.papers._classic import (
    ClassicBooster,
    DrawingClassifier,
    one_vs_rest_temperature,
)
from pymcboost.learners import TotalStump
from pymcboost.losses.codes import one_vs_all
from pymcboost.solvers.roots import common_step
from pymcboost.training import memory
from pymcboost.training.labels import is_indicator
from pymcboost.training.parameters import estimator


def _has_no_mistakes(edge):
    """Whether a weak learner with this edge makes no mistakes."""
    return edge >= 1 - SMALLEST_EDGE**2


def distinct_sets(labels):
    """Distinct rows (S, K) of an indicator as signs, and the index of each row among them (n,)."""
    sets, set_of_row = np.unique(np.packbits(labels, axis=1), axis=0, return_inverse=True)
    signs = 2.0 * np.unpackbits(sets, axis=1, count=labels.shape[1]) - 1.0
    return signs, set_of_row.reshape(-1).astype(np.int64)


class AdaBoostMH(ManyLabels, ClassicBooster):
    """Rounds of AdaBoost.MH. It is multi-label if y is an indicator or lists of labels."""

    labels_by_form = True
    multilabel = False
    columns = {
        **FIRST_STUMP,
        "edge": "sum of the edges of the classes as a fraction of the weights",
    }

    @property
    def link(self):
        """Link of the loss; for multi-label data, one sigmoid per label."""
        return "sigmoid" if self.multilabel else "softmax2"

    @property
    def link_temperature(self):
        """Temperature of one-vs-rest scores; None for multi-label data."""
        return None if self.multilabel else one_vs_rest_temperature(self.data.n_classes)

    @property
    def score_scale(self):
        """Ratio of the model's scores to those of the loss, whose sigmoid is of 2 F."""
        return 2.0 if self.multilabel else 1.0

    def takes_labels(self, y):
        """Whether this y makes the training multi-label: an indicator or lists of labels."""
        self.multilabel = is_indicator(y)
        if self.multilabel and self.params.calibrate == "temperature":
            raise ValueError(
                f"{self.name}: there is no temperature for multi-label rows; set "
                'calibrate=None, or decision_threshold="f1"'
            )
        self.check_labels()
        return self.multilabel

    def new_builder(self):
        """Return an empty ensemble with one score per class or label."""
        return self.builder_of(self.n_scores)

    def check_previous(self, previous):
        """Refuse a model with other weak learners or another loss, also multi-class instead of multi-label."""
        super().check_previous(previous)
        if previous.model.link != self.link:
            labels = "one class per row" if self.multilabel else self.labels_are_for
            raise ValueError(
                f"{previous.source}: the existing model is for {labels}, but y is not; give y in "
                "the same form, or train a new model"
            )

    def rows(self, dataset, n_threads, previous):
        """Create columns for stumps or trees."""
        self.multilabel = dataset.is_multilabel
        self.n_scores = dataset.n_classes
        if not self.multilabel:
            return super().rows(dataset, n_threads, previous)
        # Every distinct set of labels becomes a class.
        self.code, codes = distinct_sets(dataset.codes)
        dataset_of_sets = replace(dataset, codes=codes, classes=np.arange(len(self.code)))
        return super().rows(dataset_of_sets, n_threads, previous)

    @property
    def shared(self):
        """Whether a weak learner serves all classes."""
        return self.stumps

    def memory(self):
        """Memory of the rounds: the weights of all classes, and a stump for all classes or a tree for each."""
        data = self.data
        K = self.n_scores
        parts = memory.coded(data, K, self.reads_scores)
        if not self.shared:
            return [*parts, *self.learner_memory(K)]
        return [*parts, memory.edges(data, 0, 1)]

    def prepare(self, previous):
        """Create a loss with one column per class, and a stump for all classes or a tree for each."""
        K = self.n_scores
        code = self.code if self.multilabel else one_vs_all(K)
        self.loss = self.coded(code)
        if self.shared:
            learner = TotalStump(self.data, self.n_threads, K)
        else:
            learner = self.new_learner(K, code)
        self.learner = self.resampled(learner)
        self.finished = _has_no_mistakes(self.last(previous, "edge") or 0.0)

    def restart(self, scores):
        """Compute the weights for these scores."""
        if scores is not None and self.score_scale != 1:
            scores = scores / self.score_scale
        self.loss.start(scores)

    def round(self):
        """Find one stump, for or against each class, or a tree for each class; all share one coefficient."""
        loss = self.loss
        learner = self.learner
        for attempt in () if self.finished else self.tries():
            fitted = self.fit_learner(learner, loss.gradient, attempt)
            if not fitted:
                continue
            h = fitted.h[None, :] if self.shared else learner.outputs
            tables = loss.tables(h)
            edges = loss.edges(tables)
            if not self.shared:
                has_no_tree = np.setdiff1d(np.arange(len(edges)), [tree.cls for tree in fitted])
                edges[has_no_tree] = 0.0
            gamma = np.abs(edges).sum() / loss.mass.sum()
            if gamma > SMALLEST_EDGE:
                break
        else:
            return None
        self.finished = _has_no_mistakes(gamma)
        steps = (common_step(gamma) * np.sign(edges)).astype(np.float32)
        loss.update(h, steps.astype(np.float64), tables)
        steps = steps * np.float32(self.score_scale)
        if self.shared:
            return self.add_round(fitted, steps) | {"edge": gamma}
        self.add_columns(fitted, steps)
        return {"edge": gamma}


@estimator
class AdaBoostMHClassifier(DrawingClassifier):
    """AdaBoost.MH: boosting of the Hamming loss, for multi-class and multi-label data.

    Use it for published comparisons, and with ``weak_learner="tree"`` and ``subsample=0.1`` to train weak learners on a
    tenth of the rows. Each round adds one stump for all classes, or one tree per class. For multi-label data, ``y`` is
    an indicator matrix or a list of tuples of labels.

    References
    ----------
    R. E. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, Machine Learning 37,
    1999, section 9.1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostMHClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostMHClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-mh"
    booster = AdaBoostMH
    own_parameters = LABEL_PARAMETERS

    scoring: LabelScoring = "log_loss"
    decision_threshold: float | Literal["f1"] = 0.5
