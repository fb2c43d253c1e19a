"""Base classes for weak learners with outputs -1 and +1 (stumps or trees), for MCBoost and the papers' algorithms."""

from typing import Literal

from pymcboost.data.coded import ScoresInPieces
from pymcboost.losses import PAIRWISE
from pymcboost.losses.pairwise import is_large
from pymcboost.training.booster import Booster
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import estimator

# Edges below this share of the weights are rounding errors, and edges this close to a bound have reached it.
SMALLEST_EDGE = 1e-7
# Number of rounds after which multiplied weights are rebuilt from the scores, against rounding drift and lost small
# weights.
RESTART_EVERY = 512
# Descriptions of what `BinaryBooster.add_round` adds to the history.
FIRST_SPLIT = {
    "feature": "feature of the first split",
    "threshold": "threshold of the first split",
}
# The same for algorithms whose rounds of trees have no such values.
FIRST_STUMP = {
    "feature": "feature of the stump; not recorded for trees",
    "threshold": "threshold of the stump; not recorded for trees",
}


class _PiecesPlusInitial:
    """Scores in pieces, with the initial scores added."""

    def __init__(self, scores, init_score, rows):
        self._scores = scores
        self._init_score = init_score
        self._rows = rows

    def __getitem__(self, piece):
        return self._scores[piece] + self._init_score[self._rows[piece]]


@estimator
class BinaryClassifier(EnsembleClassifier):
    """Parameters of algorithms whose weak learners are stumps or trees with outputs -1 and +1."""

    weak_learner: Literal["stump", "tree"] = "stump"
    max_leaf_nodes: int = 20
    max_depth: int | None = None
    min_weight_fraction_leaf: float = 0.0


class BinaryBooster(Booster):
    """Base class of boosters whose weak learners are stumps or trees with outputs -1 and +1."""

    corrects_few = True
    restart_every: int | None = RESTART_EVERY

    @property
    def stumps(self):
        """Whether the weak learners are stumps."""
        return self.params.weak_learner == "stump"

    @property
    def reads_scores(self):
        """Whether weights are ever computed from scores: from earlier rounds, or after `restart_every` rounds."""
        if self.has_rounds or self.init_score is not None:
            return True
        return bool(self.restart_every) and self.n_estimators > self.restart_every

    def layouts(self):
        """Layouts that the model file can have; stumps can be merged into interval tables."""
        return ("list", "interval") if self.stumps else ("list",)

    def rows_for(self, data_class, dataset, n_threads, **options):
        """Create training data of this class: `TrainingData`, `DividedData` or `TreeData`."""
        p = self.params
        return data_class(
            dataset.X,
            dataset.codes,
            dataset.n_classes,
            dataset.weight,
            max_bins=p.max_bins,
            min_weight_fraction_leaf=p.min_weight_fraction_leaf,
            n_threads=n_threads,
            bins=dataset.bins,
            **options,
        )

    def blocks(self, loss):
        """Apply the pairwise loss with this name to the data."""
        return PAIRWISE[loss].blocks(self.data, self.n_threads)

    def pairwise_scores(self):
        """Scores for `blocks`, which reads them a few times; with very many classes, in pieces."""
        if not is_large(self.data.n_classes):
            return super().scores()
        scores = ScoresInPieces(self.builder.current().column_scores, self.data.X, self.data.rows)
        if self.init_score is None:
            return scores
        return _PiecesPlusInitial(scores, self.init_score, self.data.rows)

    def restart(self, scores):
        """Compute the weights for these scores, by class or by column of a code."""
        self.loss.start(scores)

    def add_round(self, weak_learner, plus, minus=None):
        """Add a round with a single weak learner.

        Parameters
        ----------
        weak_learner : StumpFit or TreeFit
        plus, minus : ndarray (K,)
            Values of the classes where its output is +1 and -1; ``minus`` is ``-plus`` if None.

        Returns
        -------
        dict
            The "feature" and "threshold" of the (first) split, for the history.
        """
        weak_learner.add_to(self.builder, plus, minus)
        self.builder.end_round()
        self.add_gain(weak_learner)
        feature, threshold = weak_learner.first_split()
        return {"feature": feature, "threshold": threshold}

    def add_gain(self, weak_learner):
        """Record the gains of a tree's splits; for stumps, importances come from the values in the model."""
        if weak_learner.gain is not None:
            self.gain.add(weak_learner.feature, weak_learner.gain)
