"""Base classes of the classic multi-class boosters: parameters, draws of rows, and colourings of the classes."""

import numpy as np

from pymcboost._kernels import pairwise_weights as _weights
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._warn import warn
from pymcboost.algorithms._binary import FIRST_SPLIT, SMALLEST_EDGE, BinaryClassifier
from pymcboost.algorithms.papers._booster import PaperBooster
from pymcboost.learners import Resampled, add_stumps, draw
from pymcboost.losses import ClassWeights, CodedExp
from pymcboost.losses.codes import random_half
from pymcboost.training import memory
from pymcboost.training.parameters import Rounds, estimator

# Number of random colourings that are tried before training ends because no weak learner has an edge.
COLOURINGS = 10
# Number of samples of the rows that are tried before training ends for the same reason.
SAMPLES = 10
# Share of the total weight that is added to each of the four sums behind a learner's two coefficients.
SMOOTHING = 1 / 4000
# Reason for ending if the next round would repeat the last one.
NO_MISTAKES = "the last weak learner makes no mistakes, so there is nothing left to learn"
FOR_STUMPS = (
    "Minimum fraction of the total sample weight on each side of the split of a stump. It has little effect on trees "
    "and on rows sampled separately for each class, and a warning says so."
)


@estimator
class ClassicClassifier(BinaryClassifier):
    """Parameters of the classic boosters: rounds of stumps or trees without shrinkage."""

    n_estimators: Rounds = 500
    min_weight_fraction_split: float = 0.0


@estimator
class DrawingClassifier(ClassicClassifier):
    """Parameters of boosters that can learn from drawn rows, as in the experiments of the PIBoost paper."""

    subsample: float = 1.0


def one_vs_rest_temperature(n_classes):
    """Temperature of scores whose loss is minimal at F_k = log(p_k / (1 - p_k)) / 2, for the softmax of 2 F.

    Near equal probabilities, and always with two classes, log p_k is 2 (K - 1) / K F_k up to a common constant.
    """
    return n_classes / (n_classes - 1)


class ClassicBooster(PaperBooster):
    """Base class of the classic boosters."""

    gini = True
    link = "softmax2"
    # Whether the last weak learner made no mistakes, in algorithms that end then.
    finished = False

    def why_ended(self):
        """Say why there is no further round; without mistakes, it would repeat the last one."""
        return NO_MISTAKES if self.finished else super().why_ended()

    def resampled(self, learner, constants=False):
        """Return the learner or, with ``subsample``, a wrapper that draws its rows."""
        subsample = self.params.subsample
        if subsample == 1:
            return learner
        return Resampled(learner, subsample, constants and not self.stumps)

    def generator(self, purpose=0):
        """Random generator of a round, which draws the same numbers if training continues from a model."""
        return np.random.default_rng([self.seed, self.n_rounds, purpose])

    def tries(self):
        """Numbers of the attempts at a round, so that an unlucky sample of the rows does not end the training."""
        return range(1, 1 + (SAMPLES if self.params.subsample < 1 else 1))

    def warn_of_least_weight(self):
        """Warn that bounds on leaf weights are not meant for trees."""
        if self.params.min_weight_fraction_leaf:
            warn(
                f"min_weight_fraction_leaf={self.params.min_weight_fraction_leaf!r} is meant "
                "for stumps trained on all rows and has little effect on the trees of "
                f"{self.name}; use max_leaf_nodes, max_depth or min_weight_fraction_split"
            )

    def coded(self, code, **options):
        """Apply the exponential loss of a code to the data, see `CodedExp`."""
        return CodedExp(self.data, code, self.n_threads, **options)

    def add_columns(self, weak_learners, steps):
        """Add a round with one weak learner for every column, and the step of each column (P,)."""
        if self.stumps:
            column = np.array([stump.cls for stump in weak_learners])
            polarity = np.array([stump.polarity for stump in weak_learners])
            right = polarity * steps[column]
            add_stumps(self.builder, weak_learners, np.stack((-right, right), axis=1), cls=column)
        else:
            for tree in weak_learners:
                *splits, sign = tree.as_tree()
                self.builder.add_tree(*splits, sign * steps[tree.cls], cls=tree.cls)
                self.add_gain(tree)
        self.builder.end_round()

    def vector_trees(self, learner_class):
        """Create a learner of trees with a class vector in every leaf: `ClassificationTrees` or a subclass."""
        p = self.params
        self.warn_of_least_weight()
        weights = ClassWeights(self.data, self.n_threads, p.subsample)
        return learner_class(
            self.data,
            weights,
            p.max_leaf_nodes,
            p.max_depth,
            n_threads=self.n_threads,
            min_share=p.min_weight_fraction_split,
        )

    def vector_trees_memory(self):
        """Memory of the learner of `vector_trees`: the weights of the rows, and a tree."""
        data = self.data
        tree = memory.vectors(
            data,
            data.n_classes,
            self.params.max_leaf_nodes,
            n_drawn=len(data.columns.column),
            n_threads=self.n_threads,
        )
        return [memory.rows(data, scores=False), tree]

    def add_vector_tree(self, tree, value):
        """Add a round with one tree of `vector_trees` and the values of the classes in its leaves (n_leaves, K)."""
        self.builder.add_tree(
            tree.feature, tree.threshold, tree.nan_left, right=tree.right, leaf=value
        )
        self.builder.end_round()
        self.add_gain(tree)

    @staticmethod
    def last(previous, column):
        """History value of the last round; None if there is none, or if it may be about other rows."""
        if previous is None or previous.source == "init_model":
            return None
        values = previous.history.get(column, ())
        return values[-1] if len(values) else None

    def fit_learner(self, learner, gradient, attempt=1):
        """Fit the learner of `resampled`."""
        if self.params.subsample < 1:
            return learner.fit(gradient, self.generator(attempt))
        return learner.fit(gradient)

    def drawn(self, weight, attempt=1):
        """Weights (m,) for a learner: unchanged, or how often ``subsample`` draws each row."""
        if self.params.subsample == 1:
            return weight
        n = max(1, round(self.params.subsample * len(weight)))
        return draw(weight, n, self.generator(attempt)).astype(np.float64)


class ColouredBooster(ClassicBooster):
    """Base class of algorithms that set half of the classes against the others in every round.

    The weights come from the pairwise exponential loss: u_il = exp(F_l - F_{y_i}). With a colouring mu of the
    classes, row i has the weight sum_l u_il [mu_l != mu_{y_i}] and the sign mu_{y_i}.
    """

    columns = {
        **FIRST_SPLIT,
        "edge": "edge of the weak learner as a fraction of the weights",
    }

    def memory(self):
        """Memory of the rounds: pairwise weights, and a learner of one column."""
        return [
            *memory.pairwise(self.data, "exp", 0, self.reads_scores),
            memory.weights(self.data, 1, passing=24),
            *self.learner_memory(1),
        ]

    def prepare(self, previous):
        """Create the loss, and a learner of one column."""
        data = self.data
        self.loss = self.blocks("exp")
        self.learner = self.new_learner(1)
        # Twice the signed weights of the rows.
        self.column = data.gradient_buffer(1)
        self._mu = aligned_zeros(data.n_blocks * data.lanes, data.dtype)

    scores = PaperBooster.pairwise_scores

    def learn(self, mu):
        """Find the best weak learner for a colouring, or None."""
        self._mu[: len(mu)] = mu
        _weights.combine(self.loss.gradient, self._mu, self.column, self.n_threads)
        weak_learners = self.learner.fit(self.column)
        if weak_learners and weak_learners[0].edge > SMALLEST_EDGE * self.loss.mass:
            return weak_learners[0]
        return None

    def colour(self):
        """Draw a random half of the classes and find the best learner for it, as (mu, learner).

        If no learner has an edge, try other colourings, and finally return (None, None).
        """
        generator = self.generator()
        for _ in range(COLOURINGS):
            mu = random_half(self.data.n_classes, generator)
            weak_learner = self.learn(mu)
            if weak_learner is not None:
                return mu, weak_learner
        return None, None

    def two_sided(self, mu, weak_learner):
        """Add a learner with one coefficient for each output: domain-partitioning AdaBoost on the colouring."""
        loss = self.loss
        tables = loss.side_tables(weak_learner.h)
        signed_weight = self.column[0, :, 0].astype(np.float64)  # times 2
        smoothing = SMOOTHING * np.abs(signed_weight).sum()
        is_right = weak_learner.h > 0
        steps = []
        for side in (signed_weight[is_right], signed_weight[~is_right]):
            up = side[side > 0].sum()
            down = -side[side < 0].sum()
            step = 0.25 * np.log((up + smoothing) / (down + smoothing)) * mu
            steps.append(step.astype(np.float32))
        plus, minus = steps
        loss.update(weak_learner.h, plus.astype(np.float64), tables, minus.astype(np.float64))
        edge = weak_learner.edge / (2 * loss.mass)
        return self.add_round(weak_learner, plus, minus) | {"edge": edge}
