"""mart, robust logitboost, abc-mart and abc-logitboost: one tree per class and round under the softmax loss.

Problem
    minimise the sum over samples i of -log p_{y_i}(x_i), p = softmax(F), F_k(x) = sum of regression trees.
Round (no base class)
    for every class k, a tree on g = r_k - p_k and h = p_k (1 - p_k), grown best-first by
    G_L^2/H_L + G_R^2/H_R - G_T^2/H_T (logitboost, eq. 7; mart, eq. 8, has counts in place of H);
    F_k += learning_rate (K-1)/K (sum g / sum h) of the leaf.
Round (base class b)
    for every class k != b, a tree on g = (r_k - p_k) - (r_b - p_b) and h = p_b (1 - p_b) + p_k (1 - p_k) + 2 p_b p_k;
    v = learning_rate (sum g / sum h); F_k += v and F_b -= v. Every ``gap`` rounds all base classes (or the worst
    ``n_candidates``) are tried, and the one with the smallest training loss is kept. The trees of (k, b) and (b, k) are
    each other's negative, so that K (K-1) / 2 trees serve all of them.

Papers: P. Li, ABC-LogitBoost for multi-class classification / Robust LogitBoost and adaptive base class (ABC)
LogitBoost; P. Li and W. Zhao, Fast ABC-Boost: a unified framework for selecting the base class in multi-class
classification.
"""

import numpy as np

from pymcboost.base import BoostingClassifier
from pymcboost.class_trees import ClassTrees
from pymcboost.model.builders import TreesBuilder
from pymcboost.tree_data import TreeData

PARAMETERS = """
    n_estimators : int, default=200
        Number of boosting rounds, at least 1; every round adds a tree for each class. Training stops earlier when the
        training loss has reached machine accuracy.
    learning_rate : float, default=0.1
        Shrinkage of the leaf values, in (0, 1].
    max_leaf_nodes : int, default=20
        Most leaves of a tree, 2 to 65536. Trees grow best-first: the split with the largest gain comes next.
    max_depth : int or None, default=None
        Most splits on the way to a leaf; None for no bound.
    min_samples_leaf : float, default=1
        Least sum of sample weights in a leaf, at least 0; the number of samples when they all weigh 1. Weights with a
        mean below 1 are first divided by it. With fewer than some thousand samples 10 is better.
    max_features : float, default=1.0
        Share of the features that the trees of a round may split on, in (0, 1]; drawn anew every round.
    subsample : float, default=1.0
        Share of the rows that the trees of a round are grown on, in (0, 1]; drawn anew every round.
    max_bins : int, default=256
        Most bins per feature, 2 to 256, missing values included. Features with no more distinct values, and small data,
        are searched exactly.
    early_stopping : bool, default=False
        Stop when the validation error has not improved for ``n_iter_no_change`` rounds, and keep the best round.
    validation_fraction : float, default=0.1
        Share of the training rows set aside for early stopping when no validation set is given.
    n_iter_no_change : int, default=20
        Patience of early stopping, in rounds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    warm_start : bool, default=False
        Let `fit` add rounds to the model already there.
    random_state : int, RandomState instance or None, default=None
        Seed of the validation split and of the samples of rows and features.
    n_jobs : int or None, default=None
        Threads; None and -1 mean all CPUs available. The model does not depend on it.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), where X had string column names
    model_ : Model
        What is saved and scored.
    n_estimators_ : int
        Rounds fitted.
    gain_ : ndarray of shape (n_features_in_,)
        Total gain of the splits on each feature; `feature_importances_` are its shares.
    history_ : dict of ndarray
        Per round: "missing" (probability missing from the true classes before the round, on average), "base" (code of
        the base class, -1 for none) and, with a validation set, "val_error".
"""


class ClassTreesClassifier(BoostingClassifier):
    """What the four algorithms share."""

    counts = False
    data_class = TreeData

    def __init__(
        self,
        n_estimators=200,
        learning_rate=0.1,
        max_leaf_nodes=20,
        max_depth=None,
        min_samples_leaf=1,
        max_features=1.0,
        subsample=1.0,
        max_bins=256,
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
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.subsample = subsample
        self.max_bins = max_bins
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _new_builder(self, n_classes, n_features):
        return TreesBuilder(n_classes, n_features)

    def _start(self, data, n_threads):
        self._state = ClassTrees(
            data,
            max_leaves=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            counts=self.counts,
            n_threads=n_threads,
        )

    def _restart(self, scores):
        self._state.restart(scores)

    def _why_ended(self):
        if self._state.finished:
            return "the training loss has reached machine accuracy"
        return "no tree lowers the training loss any more"

    def _link(self):
        return "softmax"

    def _round(self, builder):
        trees = self._state
        if trees.finished:
            return None
        missing = trees.missing / trees.total
        sample, active = self._draw(builder.n_rounds)
        base, kept = self._grow(trees, builder, sample, active)
        tree, cls, lost, sign = kept
        n_splits, column, *splits, leaf, gain = trees.trees(tree)
        if not leaf.any():
            return None
        trees.add(tree, np.where(sign > 0, cls, lost), np.where(sign > 0, lost, cls))
        builder.add_trees(n_splits, column, *splits, leaf * np.repeat(sign, n_splits + 1), cls, lost)
        self.gain_ += np.bincount(column, gain, len(self.gain_))
        builder.end_round()
        trees.refresh()
        return {"missing": missing, "base": base}

    def _draw(self, t):
        """Rows and features of round t: empty arrays for all."""
        data = self._state.data
        sample, active = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8)
        if self.subsample < 1 or self.max_features < 1:
            rng = np.random.default_rng([self._seed, t])
            if self.subsample < 1:
                n = max(1, round(self.subsample * data.n_rows))
                sample = np.sort(rng.choice(data.n_rows, n, replace=False, shuffle=False)).astype(np.int32)
            if self.max_features < 1:
                d = len(data.column)
                active = np.zeros(d, dtype=np.uint8)
                active[rng.choice(d, max(1, round(self.max_features * d)) if d else 0, replace=False)] = 1
        return sample, active

    def _grow(self, trees, builder, sample, active):
        """Grow the trees of a round: the base class, and trees, classes, base classes and signs of those to keep."""
        K = trees.data.n_classes
        if K == 2:  # the tree of class 0 is minus that of class 1
            trees.grow([(1, -1)], self.learning_rate, sample, active)
            return -1, np.array([[0], [1], [0], [1]], dtype=np.int32)
        classes = np.arange(K, dtype=np.int32)
        none = np.full(K, -1, dtype=np.int32)
        trees.grow(np.stack((classes, none), axis=1), self.learning_rate, sample, active)
        return -1, np.stack((classes, classes, none, -none))


class AdaptiveBaseClassifier(ClassTreesClassifier):
    """What the two algorithms with a base class share."""

    def __init__(
        self,
        n_estimators=200,
        learning_rate=0.1,
        max_leaf_nodes=20,
        gap=10,
        n_candidates=None,
        warmup_rounds=0,
        max_depth=None,
        min_samples_leaf=1,
        max_features=1.0,
        subsample=1.0,
        max_bins=256,
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
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            max_leaf_nodes=max_leaf_nodes,
            max_depth=max_depth,
            min_samples_leaf=min_samples_leaf,
            max_features=max_features,
            subsample=subsample,
            max_bins=max_bins,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            class_weight=class_weight,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.gap = gap
        self.n_candidates = n_candidates
        self.warmup_rounds = warmup_rounds

    def _start(self, data, n_threads):
        super()._start(data, n_threads)
        K = data.n_classes
        if K > 2 and self.warmup_rounds < self.n_estimators:
            self._state.refuse_search(K if self.n_candidates is None else min(self.n_candidates, K))

    def _grow(self, trees, builder, sample, active):
        t, K = builder.n_rounds, trees.data.n_classes
        if t < self.warmup_rounds or K == 2:
            return super()._grow(trees, builder, sample, active)
        if (t - self.warmup_rounds) % self.gap:
            base = int(builder.tail(len(builder) - 1).base[0])  # as kept until the next search
            classes = np.delete(np.arange(K, dtype=np.int32), base)
            bases = np.full(K - 1, base, dtype=np.int32)
            trees.grow(np.stack((classes, bases), axis=1), self.learning_rate, sample, active)
            return base, np.stack((np.arange(K - 1, dtype=np.int32), classes, bases, np.ones_like(bases)))
        candidates = np.arange(K)
        if self.n_candidates is not None and self.n_candidates < K:
            worst = np.argsort(-trees.class_losses(), kind="stable")
            candidates = np.sort(worst[: self.n_candidates])
        pairs, kept = trees.pairs_with(candidates)
        trees.grow(pairs, self.learning_rate, sample, active)
        base = int(candidates[np.argmin(trees.base_losses(candidates, pairs))])
        return base, kept[base]


REFERENCES = """
    References
    ----------
    P. Li, Robust LogitBoost and adaptive base class (ABC) LogitBoost, UAI 2010.

    P. Li and W. Zhao, Fast ABC-Boost: a unified framework for selecting the base class in multi-class classification,
    2022.
"""
BASE_PARAMETERS = """
    gap : int, default=10
        Rounds between searches for the base class; 1 searches in every round.
    n_candidates : int or None, default=None
        How many classes a search tries as the base class: those with the largest training losses. None tries all.
    warmup_rounds : int, default=0
        Rounds without base class at the start; at least 0.
"""


_AFTER_LEAVES = "    max_depth : int or None"
_WITH_BASE = PARAMETERS.replace(_AFTER_LEAVES, BASE_PARAMETERS.lstrip("\n") + _AFTER_LEAVES, 1)


def _documented(parameters):
    """Class decorator: parameters and references after the summary."""

    def document(cls):
        cls.__doc__ = f"{cls.__doc__}\n\n    Parameters\n    ----------{parameters}{REFERENCES}"
        return cls

    return document


@_documented(PARAMETERS)
class LogitBoostClassifier(ClassTreesClassifier):
    """Robust logitboost: a regression tree per class and round, split by second-order gains."""

    algorithm = "logitboost"


@_documented(PARAMETERS)
class MartClassifier(ClassTreesClassifier):
    """mart: a regression tree per class and round, split by first-order gains."""

    algorithm = "mart"
    counts = True


@_documented(_WITH_BASE)
class ABCLogitBoostClassifier(AdaptiveBaseClassifier):
    """Robust logitboost with an adaptive base class, chosen by the training loss."""

    algorithm = "abc-logitboost"


@_documented(_WITH_BASE)
class ABCMartClassifier(AdaptiveBaseClassifier):
    """mart with an adaptive base class, chosen by the training loss."""

    algorithm = "abc-mart"
    counts = True
