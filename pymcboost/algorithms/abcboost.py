"""mart, robust logitboost, abc-mart and abc-logitboost: one tree per class and round under the softmax loss.

Problem
    minimise the sum over samples i of -log p_{y_i}(x_i), p = softmax(F), F_k(x) = sum of regression trees.
Round (no base class)
    for every class k, a tree on g = r_k - p_k and h = p_k (1 - p_k), grown best-first by
    G_L^2/H_L + G_R^2/H_R - G_T^2/H_T (logitboost, eq. 7; mart, eq. 8, has counts in place of H);
    F_k += learning_rate (K-1)/K (sum g / sum h) of the leaf.
    l2_regularization is added to every H (except counts) and to every sum h of a leaf.
Round (base class b)
    for every class k != b, a tree on g = (r_k - p_k) - (r_b - p_b) and h = p_b (1 - p_b) + p_k (1 - p_k) + 2 p_b p_k;
    v = learning_rate (sum g / sum h); F_k += v and F_b -= v. Every ``gap`` rounds all base classes (or the worst
    ``n_candidates``) are tried, and the one with the smallest training loss is kept. The tree of (b, k) is the negative
    of that of (k, b), so K (K-1) / 2 trees serve all pairs.

Papers: P. Li, ABC-LogitBoost for multi-class classification / Robust LogitBoost and adaptive base class (ABC)
LogitBoost; P. Li and W. Zhao, Fast ABC-Boost: a unified framework for selecting the base class in multi-class
classification.
"""

from typing import Any, Literal

import numpy as np

from pymcboost._kernels.exact import PARTS
from pymcboost.data.tree_data import Grown, TreeData
from pymcboost.learners.class_trees import LARGEST_STEP, ClassTrees, bounds_for, n_trees_together
from pymcboost.learners.draws import AUTO_FEATURES, leaves_of, share_of, share_of_features
from pymcboost.learners.sampling import drawn_rows
from pymcboost.model.builders import TreesBuilder
from pymcboost.threads import SMALL_TREE_WORK
from pymcboost.training import memory
from pymcboost.training.booster import Booster
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import PARTED_CATEGORY, Leaves, Parameter, Share, estimator

# "auto": number of rows per leaf, and bounds on the number of leaves; see docs/results/choices.md.
ROWS_PER_LEAF = 200
FEWEST_LEAVES = 10
MOST_LEAVES = 100


class ClassTreesBooster(Booster):
    """Rounds of LogitBoost: a tree for each class."""

    # Whether gains are divided by weights instead of second derivatives.
    h_is_weight = False
    refits = True
    takes_workers = True
    takes_init_score = True
    small_work = SMALL_TREE_WORK
    columns = {
        "missing": "mean over the rows of 1 minus the probability of the true class, before the round",
        "base": "position in ``classes_`` of the base class, or -1 for none",
    }

    def rows(self, dataset, n_threads, previous):
        """Create tree columns."""
        return TreeData(
            dataset.X,
            dataset.codes,
            dataset.n_classes,
            sample_weight=dataset.weight,
            max_bins=self.params.max_bins,
            n_threads=n_threads,
            categorical=() if self.categories is None else self.categories.feature,
            comm=self.workers,
            bins=dataset.bins,
            exact=True,
        )

    def new_builder(self):
        """Return a builder of trees with one number in each leaf."""
        return TreesBuilder(self.data.n_classes, self.data.n_features, categories=self.categories)

    @property
    def max_leaves(self):
        """Maximum number of leaves of a tree."""
        if self.params.max_leaf_nodes != "auto":
            return self.params.max_leaf_nodes
        return leaves_of(self.data.total_rows, ROWS_PER_LEAF, FEWEST_LEAVES, most=MOST_LEAVES)

    def memory(self):
        """Memory of the rounds: scores and probabilities, and a tree for every class."""
        return self._memory_of(self.data.n_classes if self.data.n_classes > 2 else 1)

    def _memory_of(self, n_trees, n_sums=4):
        """Memory for this number of trees, and for ``n_sums`` tables (chunks, K) of sums over chunks of rows."""
        data = self.data
        K = data.n_classes
        size = (8 + data.dtype.itemsize) * data.n_rows * K
        scores = memory.Part(
            f"the scores of {data.n_rows} rows and {K} classes", size, memory.FEWER
        )
        tables = memory.tables(data, K, n_sums * memory.chunks(data) / K)
        counted, _ = bounds_for(data, self.params.min_samples_leaf, self.h_is_weight)
        if data.comm.size == 1:
            n_grown = self.n_threads
        else:
            n_grown = n_trees_together(data, counted, self.max_leaves)
        trees = memory.trees(data, n_trees, self.max_leaves, n_grown=n_grown, counted=counted)
        return [scores, tables, *trees]

    def auto_values(self):
        """Values that this training uses for parameters set to "auto", by name."""
        p = self.params
        return {
            **super().auto_values(),
            "max_leaf_nodes": self.max_leaves,
            "max_features": share_of_features(p.max_features, p.max_features_tree, self.data),
            "subsample": share_of(p.subsample, self.data.total_rows),
        }

    def prepare(self, previous):
        """Create the scores, the probabilities and the grower."""
        p = self.params
        values = self.auto_values()
        self.trees = ClassTrees(
            self.data,
            max_leaves=self.max_leaves,
            max_depth=p.max_depth,
            min_samples_leaf=p.min_samples_leaf,
            h_is_weight=self.h_is_weight,
            n_threads=self.n_threads,
            max_features=values["max_features"],
            l2=p.l2_regularization,
            min_gain=p.min_gain,
            min_hessian_leaf=p.min_hessian_leaf,
            subsample=values["subsample"],
            min_samples_category=p.min_samples_category,
        )

    def release(self):
        """Release the scores and the grower, which only the rounds need."""
        self.trees = None

    def restart(self, scores):
        """Set these scores."""
        self.trees.restart(scores)

    def why_ended(self):
        """Say why there is no further round: nothing is left to learn, or nothing can be learned."""
        if self.trees.finished:
            return "the training loss has reached machine precision"
        if self.params.min_gain > 0:
            return "no split gains more than min_gain"
        return "no tree reduces the training loss"

    def has_learnt(self):
        """Whether any tree has a split; trees with a single leaf learn only the class shares."""
        return self.builder.n_splits > 0

    def round(self):
        """Train a tree for each class, or for each class except the base class."""
        trees = self.trees
        builder = self.builder
        if trees.finished:
            return None
        missing = trees.missing / trees.total
        base, kept = self.grow(self.draw())
        tree, cls, base_of_tree, sign = kept
        n_splits, column, threshold, nan_left, right, leaf, gain = trees.trees(tree)
        if not leaf.any() or (self.params.min_gain > 0 and not n_splits.any()):
            return None
        trees.add(
            tree, np.where(sign > 0, cls, base_of_tree), np.where(sign > 0, base_of_tree, cls)
        )
        sets = builder.packed(column, nan_left, trees.codes(tree))
        leaf = leaf * np.repeat(sign, n_splits + 1)
        builder.add_trees(
            n_splits, column, threshold, nan_left, right, leaf, cls, base_of_tree, sets
        )
        used, index_of_used = np.unique(column, return_inverse=True)
        self.gain.add(used, np.bincount(index_of_used, gain))
        builder.end_round()
        trees.refresh()
        return {"missing": missing, "base": base}

    def refit_round(self, leaf_of_row, leaves, cls, base, decay):
        """Compute new leaves of the trees of a round and add them to the scores; leaves without rows stay."""
        p = self.params
        K = self.data.n_classes
        new_leaves = []
        for leaf, old, k, b in zip(leaf_of_row.T, leaves, cls, base, strict=True):
            # With two classes, the "base class" only has the negative of the other class's tree.
            has_base = b >= 0 and K > 2
            g, h = self.trees.sums(leaf, len(old), k, b if has_base else -1)
            rate = p.learning_rate * (1.0 if has_base else (K - 1) / K)
            step = np.clip(
                g / np.maximum(h + p.l2_regularization, 1e-300), -LARGEST_STEP, LARGEST_STEP
            )
            has_rows = np.bincount(leaf, minlength=len(old)) > 0
            new = np.where(has_rows, decay * old + (1 - decay) * rate * step, old)
            new_leaves.append(new.astype(np.float32))
        for leaf, new, k, b in zip(leaf_of_row.T, new_leaves, cls, base, strict=True):
            self.trees.F[k] += new[leaf]
            if b >= 0:
                self.trees.F[b] -= new[leaf]
        self.trees.refresh()
        return new_leaves

    def draw(self):
        """Draw the rows of a round (None: all), its features (empty: all), and a key for the draws in its nodes."""
        p = self.params
        data = self.data
        share = share_of(p.subsample, data.total_rows)
        sample = None
        active = np.zeros(0, dtype=np.uint8)
        if share == p.max_features_tree == p.max_features == 1:
            return sample, active, 0
        rng = np.random.default_rng([self.seed, self.n_rounds])
        d = len(data.column)
        # Without columns, only class shares are learned, from all rows.
        if share < 1 and d:
            n = max(1, round(share * data.total_rows))
            sample = drawn_rows(data, n, int(rng.integers(2**64, dtype=np.uint64)))
        if p.max_features_tree < 1:
            active = np.zeros(d, dtype=np.uint8)
            n_active = max(1, round(p.max_features_tree * d)) if d else 0
            active[rng.choice(d, n_active, replace=False)] = 1
        return sample, active, int(rng.integers(2**64, dtype=np.uint64))

    def grow(self, drawn):
        """Grow the trees of a round.

        Return the base class (-1: none), and an array of trees, classes, base classes and signs to keep.
        """
        K = self.data.n_classes
        rate = self.params.learning_rate
        if K == 2:  # the tree of class 0 is the negative of that of class 1
            self.trees.grow([(1, -1)], rate, *drawn)
            return -1, np.array([[0], [1], [0], [1]], dtype=np.int32)
        classes = np.arange(K, dtype=np.int32)
        no_base = np.full(K, -1, dtype=np.int32)
        signs = np.ones(K, dtype=np.int32)
        self.trees.grow(np.stack((classes, no_base), axis=1), rate, *drawn)
        return -1, np.stack((classes, classes, no_base, signs))


class AdaptiveBaseBooster(ClassTreesBooster):
    """Rounds with a base class that is searched at intervals."""

    def memory(self):
        """Memory of the rounds: as without a base class, plus the trees that are grown in a search for it."""
        p = self.params
        data = self.data
        K = data.n_classes
        if K == 2 or p.warmup_rounds >= self.n_estimators:
            return super().memory()
        n_tried = K if p.n_candidates is None else min(p.n_candidates, K)
        n_trees = K * (K - 1) // 2 - (K - n_tried) * (K - n_tried - 1) // 2
        # The leaf of each row, the leaves of the tree, their factors, and data about the pair of classes.
        tree_bytes = Grown.bytes_of(1, self.max_leaves, data.n_rows, data.set_words)
        tree_bytes += 8 * self.max_leaves + 1000
        remedy = "a smaller n_candidates, fewer rows, or an algorithm without base class"
        purpose = (
            f"{n_trees:,} trees, which a search of {n_tried} of {K} classes for the base class grows "
            "at once"
        )
        return [*self._memory_of(0, 4 + PARTS), memory.Part(purpose, n_trees * tree_bytes, remedy)]

    def grow(self, drawn):
        """Grow trees without a base class first, and later with the last base class or with a new one."""
        p = self.params
        t = self.n_rounds
        K = self.data.n_classes
        if t < p.warmup_rounds or K == 2:
            return super().grow(drawn)
        if (t - p.warmup_rounds) % p.gap:
            last_tree = self.builder.tail(len(self.builder) - 1)
            if last_tree.base is not None:
                return self._grow_with_base(int(last_tree.base[0]), drawn)
        return self._grow_with_new_base(drawn)

    def _grow_with_base(self, base, drawn):
        """Grow a tree for every class except this base class."""
        K = self.data.n_classes
        classes = np.delete(np.arange(K, dtype=np.int32), base)
        bases = np.full(K - 1, base, dtype=np.int32)
        self.trees.grow(np.stack((classes, bases), axis=1), self.params.learning_rate, *drawn)
        trees = np.arange(K - 1, dtype=np.int32)
        return base, np.stack((trees, classes, bases, np.ones_like(bases)))

    def _grow_with_new_base(self, drawn):
        """Grow the trees of all candidates for the base class, and keep those of the one with the smallest loss."""
        p = self.params
        trees = self.trees
        K = self.data.n_classes
        candidates = np.arange(K)
        if p.n_candidates is not None and p.n_candidates < K:
            worst = np.argsort(-trees.class_losses(), kind="stable")
            candidates = np.sort(worst[: p.n_candidates])
        pairs, kept = trees.pairs_with(candidates)
        trees.grow(pairs, p.learning_rate, *drawn)
        base = int(candidates[np.argmin(trees.base_losses(candidates, pairs))])
        return base, kept[base]


class Mart(ClassTreesBooster):
    """Rounds of MART."""

    h_is_weight = True
    fixed = {"min_hessian_leaf": 0.0}


class ABCMart(AdaptiveBaseBooster):
    """Rounds of ABC-MART."""

    h_is_weight = True
    fixed = {"min_hessian_leaf": 0.0}


@estimator
class ClassTreesClassifier(EnsembleClassifier):
    """Base class of the four estimators with one tree per class and round."""

    own_help = {
        "n_estimators": "Maximum number of boosting rounds. Each round adds one tree per class. Training stops earlier "
        'if the training loss has reached machine precision.\n\n"auto" chooses the number by cross-validation, see '
        "``cv``.",
        "min_samples_leaf": "Minimum sum of sample weights in a leaf. With weights of 1, this is the minimum number of "
        "samples. Weights with a mean below 1 are first divided by their mean.",
        "subsample": "Fraction of the rows used to grow the trees of a round. Rows are sampled separately for each "
        'round. "auto" is 0.5, or 0.7 with more than 10,000 rows.',
        "max_leaf_nodes": 'Maximum number of leaves per tree. "auto" uses one leaf for every 200 training rows, '
        "between 10 and 100. Trees grow best-first: the split with the largest gain is made next.",
        "max_features": "Fraction of the features of the tree considered for a split. Features are sampled "
        f"separately for each node; at least one is considered. {AUTO_FEATURES}",
        "max_features_tree": "Fraction of the features that the trees of a round may use. Features are sampled "
        "separately for each round; at least one is used.",
        "l2_regularization": "L2 regularization: added to the sum of second derivatives of every node, in gains and in "
        "leaf values. MART computes gains with sample weights, so there it changes leaf values only.",
        "min_gain": "A split must gain more than this. The gain is G_L^2/H_L + G_R^2/H_R - G^2/H, with G the sums of "
        "gradients and H the sums of second derivatives (for MART, of sample weights).\n\n"
        "If this is above 0, training stops when no tree of a round has a split. If it is 0, trees with one leaf "
        "continue to learn the class frequencies.",
        "min_samples_category": PARTED_CATEGORY,
    }

    learning_rate: float = 0.1
    max_leaf_nodes: Leaves = "auto"
    max_depth: int | None = None
    min_samples_leaf: float = 1
    max_features: Share = "auto"
    max_features_tree: float = 1.0
    subsample: Share = "auto"
    l2_regularization: float = 0.0
    min_gain: float = 0.0
    categorical_features: Any | None = "from_dtype"
    min_samples_category: float = 15.0
    calibrate: Literal["temperature"] | None = "temperature"


@estimator
class AdaptiveBaseClassifier(ClassTreesClassifier):
    """Base class of the two estimators with a base class."""

    own_parameters = {
        "gap": Parameter(
            "Number of rounds between two searches for the base class. 1 searches in every round.",
            low=1,
        ),
        "n_candidates": Parameter(
            "Number of classes that a search tries as the base class: those with the largest training loss. None tries "
            "all classes.",
            low=1,
        ),
        "warmup_rounds": Parameter("Number of rounds at the start that have no base class.", low=0),
    }

    gap: int = 10
    n_candidates: int | None = None
    warmup_rounds: int = 0


@estimator
class LogitBoostClassifier(ClassTreesClassifier):
    """Robust LogitBoost: gradient-boosted trees with one tree per class and round and second-order gains.

    These are the usual boosted trees under the softmax loss, as in LightGBM and XGBoost. Use them as a reference for
    the other estimators.

    References
    ----------
    P. Li, Robust LogitBoost and adaptive base class (ABC) LogitBoost, UAI 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import LogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> LogitBoostClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "logitboost"
    booster = ClassTreesBooster

    min_hessian_leaf: float = 0.0


@estimator
class MartClassifier(ClassTreesClassifier):
    """MART: gradient-boosted trees with one tree per class and round and first-order gains.

    Use it to compare with published results of MART. Unlike in `LogitBoostClassifier`, the gain of a split is computed
    with sample weights instead of second derivatives.

    References
    ----------
    P. Li, Robust LogitBoost and adaptive base class (ABC) LogitBoost, UAI 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import MartClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> MartClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "mart"
    booster = Mart


@estimator
class ABCLogitBoostClassifier(AdaptiveBaseClassifier):
    """ABC-LogitBoost: Robust LogitBoost with an adaptive base class.

    Use it if the labels follow exact rules without noise, there are very many rows, and training may take hours. A
    round trains one tree for each class except the base class, whose score changes by minus the sum of the others. The
    base class is chosen by the training loss.

    References
    ----------
    P. Li, Robust LogitBoost and adaptive base class (ABC) LogitBoost, UAI 2010.

    P. Li and W. Zhao, Fast ABC-Boost: a unified framework for selecting the base class in multi-class classification,
    2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import ABCLogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> ABCLogitBoostClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "abc-logitboost"
    booster = AdaptiveBaseBooster

    min_hessian_leaf: float = 0.0


@estimator
class ABCMartClassifier(AdaptiveBaseClassifier):
    """ABC-MART: MART with an adaptive base class.

    Use it to compare with published results of ABC-MART. Unlike in `ABCLogitBoostClassifier`, the gain of a split is
    computed with sample weights instead of second derivatives.

    References
    ----------
    P. Li, Robust LogitBoost and adaptive base class (ABC) LogitBoost, UAI 2010.

    P. Li and W. Zhao, Fast ABC-Boost: a unified framework for selecting the base class in multi-class classification,
    2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import ABCMartClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> ABCMartClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "abc-mart"
    booster = ABCMart
