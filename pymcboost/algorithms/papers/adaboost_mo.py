"""AdaBoost.MO: output codes. Every column of a code matrix is a binary problem; all share one coefficient per round.

Problem
    minimise the sum over rows i and columns j of exp(-lambda_j(y_i) f_j(x_i)), lambda the code of the classes.
Round
    D_ij in proportion to the terms; for every column the weak learner h_j with the largest edge, sum_i D_ij
    lambda_j(y_i) h_j; r the sum of the edges, alpha = 1/2 log((1 + r) / (1 - r)), f_j += alpha h_j.
    The prediction is the class with the least sum over j of exp(-lambda_j f_j).

Paper: R. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, section 9.2.
"""

from typing import Literal

import numpy as np

from pymcboost.algorithms._binary import SMALLEST_EDGE
from pymcboost.algorithms.papers._classic import ClassicBooster, ClassicClassifier
from pymcboost.losses.codes import code_matrix, n_columns
from pymcboost.model.builders import TreesBuilder
from pymcboost.solvers.roots import common_step
from pymcboost.training import memory
from pymcboost.training.parameters import Parameter, Rounds, estimator


class AdaBoostMO(ClassicBooster):
    """Rounds of AdaBoost.MO."""

    shared = False
    link = "softmax"
    columns = {"edge": "sum of the edges of the columns as a fraction of the weights"}

    @property
    def link_temperature(self):
        """Temperature for sums of code times score near equal probabilities; None for the other decoders."""
        temperature = self.code.shape[1] / (self.data.n_classes - 1)
        return None if temperature == 1 or self.params.decoder != "linear" else temperature

    def layouts(self):
        """Layouts that the model file can have; scores of columns can be merged only if they are summed."""
        return super().layouts() if self.params.decoder == "linear" else ("list",)

    def new_builder(self):
        """Create an ensemble with a code matrix, which may be random."""
        p = self.params
        K = self.data.n_classes
        self.code = code_matrix(p.code, K, np.random.default_rng(self.draw_seed()))
        return TreesBuilder(K, self.data.n_features, code=self.code.T, decoder=p.decoder)

    def memory(self):
        """Memory of the rounds: the code, the weights of its columns, and a learner for each."""
        data = self.data
        K = data.n_classes
        P = n_columns(self.params.code, K)
        parts = [*memory.coded(data, P, self.reads_scores), *self.learner_memory(P)]
        distances_of_classes = memory.tables(data, K, 0, passing=1.1)
        return [memory.earlier(distances_of_classes, parts), *parts]

    def go_on(self, previous):
        """Take over the rounds of a model, also its random code, and return the raw scores of the training rows."""
        scores = super().go_on(previous)
        self.code = self.builder.code.T.astype(np.float64)
        return scores

    def prepare(self, previous):
        """Create the loss, and a learner for all columns."""
        self.loss = self.coded(self.code)
        self.learner = self.new_learner(self.code.shape[1], self.code)

    def round(self):
        """Find a weak learner for every column; all share one coefficient."""
        loss = self.loss
        learner = self.learner
        weak_learners = learner.fit(loss.gradient)
        columns = [weak_learner.cls for weak_learner in weak_learners]
        tables = loss.tables(learner.outputs)
        edge = loss.edges(tables)[columns].sum() / loss.mass.sum()
        if edge <= SMALLEST_EDGE:
            return None
        steps = np.zeros(self.code.shape[1], dtype=np.float32)
        steps[columns] = common_step(edge)
        loss.update(learner.outputs, steps.astype(np.float64), tables)
        self.add_columns(weak_learners, steps)
        return {"edge": edge}


@estimator
class AdaBoostMOClassifier(ClassicClassifier):
    """AdaBoost.MO: boosting of an output code with one weak learner per column and round.

    Use it to reproduce or compare with published results. Every column of the code matrix is a binary problem, and all
    columns share one coefficient per round.

    References
    ----------
    R. E. Schapire and Y. Singer, Improved boosting algorithms using confidence-rated predictions, Machine Learning 37,
    1999, section 9.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import AdaBoostMOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> AdaBoostMOClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "adaboost-mo"
    booster = AdaBoostMO
    own_parameters = {
        "code": Parameter(
            'Code matrix. "auto" is "exhaustive" up to 7 classes and "dense" above.\n\n'
            '- "one-vs-all": a column for each class against the rest.\n'
            '- "all-pairs": a column for each pair of classes.\n'
            '- "exhaustive": a column for each partition of the classes into two groups, for at most 12 classes.\n'
            '- "dense": 10 log2 K random columns.'
        ),
        "decoder": Parameter(
            'How the scores of the columns are decoded into class scores. "exp" is minus the logarithm of the '
            'exponential loss, "linear" the sum of code times score, and "hamming" minus the number of columns that '
            "disagree with the class."
        ),
    }
    own_help = {
        "n_estimators": "Maximum number of boosting rounds. Each round adds one weak learner per column.\n\n"
        '"auto" chooses the number by cross-validation, see ``cv``.'
    }

    n_estimators: Rounds = 100
    code: Literal["auto", "one-vs-all", "all-pairs", "exhaustive", "dense"] = "auto"
    decoder: Literal["exp", "linear", "hamming"] = "exp"
