"""What the classic multi-class boosters share: their parameters and their documentation."""

import inspect
import warnings

import numpy as np

from pymcboost._kernels import weights as _weights
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.binary_boosting import SMALLEST_EDGE, BinaryBoosting
from pymcboost.coding import random_half
from pymcboost.losses import PairwiseExp
from pymcboost.weak_learners import Resampled, draw

# Random colourings that are tried before a training ends because no weak learner has an edge.
COLOURINGS = 10
# Samples of the rows that are tried before it ends for the same reason.
SAMPLES = 10
# Of all weights, what is added to each of the four sums behind the coefficients of a learner with two.
SMOOTHING = 1 / 4000
# Why a training ends whose next round would be the last one again.
NO_MISTAKES = "the last weak learner makes no mistakes, so that no other is looked for"

TEXTS = {
    "n_estimators": """int, default={default}
        Number of boosting rounds, at least 1. Training stops earlier when no weak learner has an edge.""",
    "weak_learner": """{"stump", "tree"}, default="stump"
        Weak learners: decision stumps, or classification trees.""",
    "max_leaf_nodes": """int, default=20
        Most leaves of a tree, 2 to 65536.""",
    "max_depth": """int or None, default=None
        Most splits on the way to a leaf of a tree; None for no bound.""",
    "min_weight_fraction_split": """float, default=0.0
        Only nodes of a tree with more than this share of the weight of its rows are split, in [0, 1).""",
    "subsample": """float, default=1.0
        Share of the rows that a weak learner is learnt from, in (0, 1]. Below 1 they are drawn by their weights, anew
        for every weak learner (systematic sampling: rows of large weight may count more than once).""",
    "max_bins": """int, default=256
        Most bins per feature, 2 to 256, missing values included. Features with no more distinct values, and small data,
        are searched exactly.""",
    "min_weight_fraction_leaf": """float, default=0.0
        Share of the sample weight that must lie on either side of every split, 0 to 0.5: of all rows, or of the part
        that ``subsample`` draws.""",
    "early_stopping": """bool, default=False
        Stop when the validation error has not improved for ``n_iter_no_change`` rounds, and keep the best round.""",
    "validation_fraction": """float, default=0.1
        Share of the training rows set aside for early stopping when no validation set is given.""",
    "n_iter_no_change": """int, default=20
        Patience of early stopping, in rounds.""",
    "class_weight": """dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.""",
    "warm_start": """bool, default=False
        Let `fit` add rounds to the model already there.""",
    "random_state": """int, RandomState instance or None, default=None
        Seed of the validation split, and of what else is random.""",
    "n_jobs": """int or None, default=None
        Threads; None and -1 mean all CPUs available. The model does not depend on it.""",
    "verbose": """int, default=0
        1 shows a progress bar on a terminal.""",
}
ATTRIBUTES = """Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), where X had string column names
    model_ : Model
        What is saved and scored.
    n_estimators_ : int
        Rounds fitted.
    history_ : dict of ndarray
        Per round, with a validation set: "val_error"; and what the algorithm keeps of it."""


def documented(cls):
    """Class decorator: put the texts of the shared parameters and attributes where the docstring says so.

    A line ``{shared}`` becomes the entries of all parameters of the signature that the docstring does not describe,
    ``{attributes}`` the section of attributes.
    """
    shared = [
        f"{name} : {TEXTS[name].replace('{default}', repr(parameter.default))}"
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if name != "self" and f"\n    {name} : " not in cls.__doc__
    ]
    cls.__doc__ = cls.__doc__.replace("{shared}", "\n    ".join(shared)).replace("{attributes}", ATTRIBUTES)
    return cls


class ClassicBoosting(BinaryBoosting):
    """Base of the classic boosters: rounds of stumps or trees without shrinkage."""

    gini = True

    def __init__(
        self,
        n_estimators=500,
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
        self.n_estimators = n_estimators
        self.weak_learner = weak_learner
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_weight_fraction_split = min_weight_fraction_split
        self.subsample = subsample
        self.max_bins = max_bins
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _link(self):
        return "softmax2"

    def _resampled(self, learner, constants=False):
        """The learner, or with ``subsample`` one that draws its rows."""
        constants = constants and self.weak_learner == "tree"
        return Resampled(learner, self.subsample, constants) if self.subsample < 1 else learner

    def _generator(self, purpose=0):
        """Random numbers of a round, which a training that goes on from a model draws again."""
        return np.random.default_rng([self._seed, self.n_estimators_, purpose])

    def _tries(self):
        """Numbers of the attempts at a round: an unlucky sample of the rows does not end a training."""
        return range(1, 1 + (SAMPLES if self.subsample < 1 else 1))

    def _warn_of_least_weight(self):
        """For trees that no bound on the weight of their leaves is meant for."""
        if self.min_weight_fraction_leaf:
            warnings.warn(
                f"min_weight_fraction_leaf={self.min_weight_fraction_leaf!r} is for stumps on all rows here, the trees "
                f"of {type(self).__name__} take little notice of it; use max_leaf_nodes, max_depth or "
                "min_weight_fraction_split",
                stacklevel=5,
            )

    def _fit_learner(self, learner, gradient, attempt=1):
        """What the learner of `_resampled` finds."""
        return learner.fit(gradient, self._generator(attempt)) if self.subsample < 1 else learner.fit(gradient)

    def _drawn(self, weight, attempt=1):
        """Weights (m,) for a learner: these, or how often ``subsample`` draws each row."""
        if self.subsample == 1:
            return weight
        n = max(1, round(self.subsample * len(weight)))
        return draw(weight, n, self._generator(attempt)).astype(np.float64)


class ColouredBoosting(ClassicBoosting):
    """Base of algorithms that set one half of the classes against the other in every round.

    The pairwise exponential loss gives the weights: u_il = exp(F_l - F_{y_i}), and with a colouring mu of the classes
    row i has the weight sum_l u_il [mu_l != mu_{y_i}] and the sign mu_{y_i}.
    """

    def _start(self, data, n_threads):
        loss = PairwiseExp(data, n_threads)
        self._state = (loss, self._resampled(self._new_learner(data, n_threads, 1)))
        self._column = data.gradient_buffer(1)
        self._mu = aligned_zeros(data.n_blocks * data.lanes, data.dtype)

    def _restart(self, scores):
        self._state[0].restart(scores)

    def _stop(self):
        super()._stop()
        for name in ("_column", "_mu", "_attempt"):
            self.__dict__.pop(name, None)

    def _learn(self, mu):
        """Best weak learner for a colouring, or None; ``_column`` holds twice the signed weights of the rows."""
        loss, learner = self._state
        self._mu[: len(mu)] = mu
        _weights.combine(loss.gradient, self._mu, self._column, loss.n_threads)
        found = self._fit_learner(learner, self._column, self._attempt)
        return found[0] if found and found[0].edge > SMALLEST_EDGE * loss.mass else None

    def _colour(self, builder):
        """A random half of the classes, and the best learner for it; other colourings where that has no edge."""
        generator = self._generator()
        for self._attempt in range(1, COLOURINGS + 1):
            mu = random_half(self._state[0].data.n_classes, generator)
            found = self._learn(mu)
            if found is not None:
                return mu, found
        return None, None

    def _two_sided(self, builder, mu, found):
        """Add a learner with one coefficient for each of its outputs: domain-partitioning AdaBoost on the colouring."""
        loss = self._state[0]
        d, h = self._column[0, :, 0].astype(np.float64), found.h > 0
        smoothing = SMOOTHING * np.abs(d).sum()
        steps = []
        for side in (d[h], d[~h]):
            up, down = side[side > 0].sum(), -side[side < 0].sum()
            steps.append((0.25 * np.log((up + smoothing) / (down + smoothing)) * mu).astype(np.float32))
        tables = loss.side_tables(found.h)
        loss.update(found.h, steps[0].astype(np.float64), tables, steps[1].astype(np.float64))
        return self._add_round(builder, found, *steps) | {"edge": found.edge / (2 * loss.mass)}
