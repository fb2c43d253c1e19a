"""Gradient boosting with one tree per round for all classes, with a vector in each leaf.

Problem
    minimise the sum over samples i of a loss of F(x_i), by default softmax, -log p_{y_i} with p = softmax(F);
    F(x) = sum of trees whose leaves are K-vectors.
Round
    G = negative gradient (m, K). The tree grows best-first by the split with the largest
    sum_k (G_Lk^2 / n_L + G_Rk^2 / n_R - G_Tk^2 / n_T), over a fresh random share of the features at every node.
    Leaf vectors are damped Newton steps; with only the diagonal of softmax's Hessian, they are
    (K-1)/K sum g_k / sum p_k (1 - p_k) minus their mean. F += learning_rate * vector.

MCBoost shares one weak learner among all classes and gives it one coefficient per class; this is the same for trees.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pymcboost._kernels import vector_trees as _vector_trees
from pymcboost.algorithms._labels import LABEL_PARAMETERS, LabelMetrics, ManyLabels
from pymcboost.algorithms._losses import EstimatorOfLosses
from pymcboost.comm import ALONE
from pymcboost.data.coded import scores_of
from pymcboost.data.tree_data import TreeData
from pymcboost.learners.constraints import Ordered, OrderedLabels, group_bits, signs_of
from pymcboost.learners.draws import AUTO_FEATURES, drawn_of, share_of, share_of_features
from pymcboost.learners.left_out import LeftOutScores
from pymcboost.learners.reuse import Reuse
from pymcboost.learners.vector_trees import VectorTrees, columns_for, leaves_for
from pymcboost.losses import LossName, check_own, loss_of
from pymcboost.losses.narrow import NarrowRows
from pymcboost.losses.rows import Rows
from pymcboost.model.builders import TreesBuilder
from pymcboost.model.entries import LeafEntries, rounded
from pymcboost.model.model import Model
from pymcboost.threads import SMALL_TREE_WORK
from pymcboost.training import memory
from pymcboost.training.booster import Booster
from pymcboost.training.parameters import (
    PARAMETERS,
    PARTED_CATEGORY,
    ClassMetrics,
    Leaves,
    LossFunction,
    Parameter,
    Rate,
    Rounds,
    Scorer,
    SeveralScorers,
    Share,
    estimator,
)

LossScoring = Literal[ClassMetrics, "loss", LabelMetrics] | Scorer | SeveralScorers
# Maximum learning rate at which fewer rounds with a higher rate give the same temperature; see
# docs/results/choices.md.
FAST_RATE = 0.2
# "auto": learning rates for few and for many rows. The rate doubles between these numbers of rows.
LOW_RATE = 0.05
HIGH_RATE = 0.1
FEW_ROWS = 2_000
MANY_ROWS = 13_000
# After this number of rounds, or more with a lower learning rate, the minimum relative gain increases with this power
# of the number of rounds, because later trees would fit noise.
LATE_ROUNDS = 300
LATE_STEPS = 30.0
LATE_POWER = 4
# With more classes than this, an error about too little memory recommends sparse leaves.
MANY_CLASSES = 100
# Maximum number of rows times classes for scores and gradients in double precision. More do not fit into the caches.
MOST_WIDE_SCORES = 1 << 24
# Number of trees whose leaves are looked up together for all rows. Rows stored as bins are decoded for each such
# pass.
TREES_AT_ONCE = 16


def _advise_sparse_leaves(part):
    """Add sparse leaves to what an error about this part of the memory recommends."""
    return replace(part, remedy=f"max_leaf_entries=100 (more errors), {part.remedy}")


def rate_for(n_rows):
    """Learning rate for "auto"."""
    doublings = math.log(n_rows / FEW_ROWS) / math.log(MANY_ROWS / FEW_ROWS)
    return min(max(LOW_RATE * 2**doublings, LOW_RATE), HIGH_RATE)


class VectorTreeBoost(ManyLabels, Booster):
    """Rounds of one tree for all classes."""

    labels_are_for = "loss='logistic'"
    ends_when = "no tree reduces the training loss"
    columns = {"n_leaves": "number of leaves of the tree"}
    refits = True
    takes_workers = True
    takes_init_score = True
    small_work = SMALL_TREE_WORK
    left_out: LeftOutScores | None = None

    def __init__(self, params, draw_seed=None, name="", comm=ALONE):
        super().__init__(params, draw_seed, name, comm)
        self._speed_up_factor = 1.0

    def check(self):
        """Check a custom loss, which has no temperature and no priors, and other parameters."""
        p = self.params
        self.check_labels()
        if p.max_leaf_entries is not None and p.monotonic_cst is not None:
            raise ValueError(
                f"{self.name}: monotonic_cst needs leaves with a value for every class; set "
                "max_leaf_entries=None"
            )
        if p.leaf_levels is not None and p.monotonic_cst is not None:
            raise ValueError(
                f"{self.name}: monotonic_cst needs unrounded leaf values; set leaf_levels=None"
            )
        if isinstance(p.loss, str):
            return
        check_own(self.name, p.loss)
        if p.restore_priors:
            raise ValueError(
                f"{self.name}: restore_priors works only with the built-in losses; set it to False"
            )
        p.calibrate = None

    @property
    def link(self):
        """The link of the loss."""
        return self._loss.link

    @property
    def multilabel(self):
        """Whether rows may have any number of labels."""
        return isinstance(self.params.loss, str) and self.params.loss == "logistic"

    @property
    def probabilities(self):
        """How metrics get probabilities: the name of a link, or a function of a custom loss."""
        loss = self._loss
        return loss.log_probabilities if loss.gives_probabilities else loss.link

    @property
    def loss_value(self):
        """For the metric "loss": computes a custom loss (m,) of rows from their scores and classes."""
        return None if isinstance(self.params.loss, str) else self._loss.value

    @cached_property
    def _loss(self):
        return loss_of(self.params.loss)

    def kept(self):
        """The state that a warm start needs besides the model: a custom loss, which no file can store."""
        return {} if isinstance(self.params.loss, str) else {"loss": self.params.loss}

    def rows(self, dataset, n_threads, previous):
        """Create tree columns. Multi-label rows are all of class 0, and their labels are stored besides."""
        classes = dataset.codes
        if dataset.is_multilabel:
            classes = np.zeros(dataset.n_rows, dtype=np.int64)
        data = TreeData(
            dataset.X,
            classes,
            dataset.n_classes,
            sample_weight=dataset.weight,
            max_bins=self.params.max_bins,
            n_threads=n_threads,
            categorical=() if self.categories is None else self.categories.feature,
            exact=True,
            comm=self.workers,
            bins=dataset.bins,
        )
        if dataset.is_multilabel:
            data.labels = np.ascontiguousarray(dataset.codes[data.rows])
        return data

    def new_builder(self):
        """Return a builder of trees with a vector in each leaf."""
        builder = TreesBuilder(
            self.data.n_classes,
            self.data.n_features,
            vector=True,
            categories=self.categories,
            entries=self.params.max_leaf_entries is not None,
            shared=self.leaves_share_value,
        )
        if self.narrow:
            builder.reserve(self.n_estimators * self.max_leaves)
        return builder

    @property
    def max_leaves(self):
        """Maximum number of leaves of a tree."""
        m = self.data.total_rows
        max_leaf_nodes = self.params.max_leaf_nodes
        return min(m, leaves_for(m) if max_leaf_nodes == "auto" else max_leaf_nodes)

    @property
    def leaves_share_value(self):
        """Whether each leaf stores a value for all classes without an entry.

        This is necessary if a shift of all scores changes the loss.
        """
        p = self.params
        return (
            p.max_leaf_entries is not None
            and p.leaf_levels is None
            and not self._loss.shift_invariant
        )

    @property
    def n_directions(self):
        """Number of directions in which splits are searched; None for all classes."""
        return columns_for(self.params.split_columns, self.data.n_classes, self.data.is_sparse)

    def layouts(self):
        """Layouts that the model file can have; also packed, if leaves have few distinct values."""
        return ("list",) if self.params.leaf_levels is None else ("list", "packed")

    @property
    def narrow(self):
        """Whether only scores are stored, in single precision (`NarrowRows`)."""
        m = self.data.total_rows
        K = self.data.n_classes
        has_many_scores = K > MANY_CLASSES and m * K > MOST_WIDE_SCORES
        has_sparse_leaves = self.params.max_leaf_entries is not None
        return (has_many_scores or has_sparse_leaves) and self.could_be_narrow

    @property
    def could_be_narrow(self):
        """Whether scores could be stored in single precision, if leaves are sparse."""
        p = self.params
        has_kernel = isinstance(p.loss, str) and p.loss == "softmax" and p.leaf_step == "diagonal"
        return has_kernel and self.n_directions is not None

    def speed_up(self, n_rounds):
        """Double the learning rate if this hardly changes the scores; return how many rounds then do."""
        rate = self.params.learning_rate
        self._speed_up_factor = 2.0 if rate == "auto" else min(max(FAST_RATE / rate, 1.0), 2.0)
        return math.ceil(n_rounds / self._speed_up_factor)

    @property
    def learning_rate(self):
        """The learning rate, as a number also for "auto"; a callback may change it."""
        rate = self.params.learning_rate
        return self._speed_up_factor * (rate_for(self.data.total_rows) if rate == "auto" else rate)

    def auto_values(self):
        """Values that this training uses for parameters set to "auto", by name."""
        p = self.params
        data = self.data
        return {
            **super().auto_values(),
            "learning_rate": self.learning_rate,
            "max_leaf_nodes": self.max_leaves,
            "max_features": share_of_features(p.max_features, p.max_features_tree, data),
            "subsample": share_of(p.subsample, data.total_rows),
            "split_columns": self.n_directions,
        }

    def memory(self):
        """Memory of the rounds: scores and gradients, a tree, and the tables of full Newton steps."""
        data = self.data
        p = self.params
        K = data.n_classes
        n_directions = self.n_directions
        pool = max(1, round(p.max_features_tree * len(data.columns.column)))
        grower = memory.vectors(
            data,
            n_directions or K,
            self.max_leaves,
            n_drawn=drawn_of(p.max_features, pool, data.total_rows),
            n_threads=self.n_threads,
        )
        if self.narrow:
            scores = memory.narrow(data, self.max_leaves)
            directions = memory.directions(data, n_directions)
            if p.max_leaf_entries is not None:
                return [scores, grower, directions]
            leaves = memory.leaves(data, self.n_estimators, self.max_leaves, scores=scores)
            return [_advise_sparse_leaves(scores), grower, directions, leaves]
        scores = memory.rows(
            data, integers=n_directions is None, curvature=self._loss.keeps_curvature
        )
        if K > MANY_CLASSES and self.could_be_narrow:
            scores = _advise_sparse_leaves(scores)
        n_tables = 3 if p.leaf_step == "full" and p.loss == "softmax" else 0
        parts = [scores, grower, memory.tables(data, K, 0, passing=n_tables)]
        if self.calibrates:
            parts.append(memory.left_out(data))
        if n_directions is not None:
            parts.append(memory.directions(data, n_directions))
        return parts

    def prepare(self, previous):
        """Create the loss and the grower."""
        p = self.params
        self._first_rate = self.learning_rate / self._speed_up_factor
        layout = NarrowRows if self.narrow else Rows
        self.loss = layout(self._loss, self.data, self.n_threads)
        groups = None
        if p.interaction_cst is not None:
            groups = group_bits(p.interaction_cst, self.data.n_features, self.feature_names)
        reuse = None
        if p.feature_penalty or p.threshold_penalty:
            reuse = Reuse(self.data.columns, p.feature_penalty, p.threshold_penalty)
        self.learner = VectorTrees(
            self.data,
            self.loss,
            max_leaves=p.max_leaf_nodes,
            max_depth=p.max_depth,
            min_samples_leaf=self.data.bound_scale * p.min_samples_leaf,
            max_features=p.max_features,
            leaf_step=p.leaf_step,
            learning_rate=self.learning_rate,
            l2=max(p.l2_regularization, self._loss.least_l2),
            min_gain=p.min_gain,
            min_relative_gain=p.min_relative_gain,
            subsample=p.subsample,
            max_features_tree=p.max_features_tree,
            split_columns=p.split_columns,
            min_samples_category=p.min_samples_category,
            groups=groups,
            max_entries=p.max_leaf_entries,
            reuse=reuse,
            leaf_levels=p.leaf_levels,
            ordered=self._monotonic_order(),
            n_threads=self.n_threads,
        )

    def _monotonic_order(self):
        """Return what moves leaf vectors so that the monotonic constraints hold; None without constraints."""
        monotonic_cst = self.params.monotonic_cst
        if monotonic_cst is None:
            return None
        categorical = [] if self.categories is None else self.categories.feature.tolist()
        signs = signs_of(
            monotonic_cst, self.classes, self.data.n_features, categorical, self.feature_names
        )
        order = OrderedLabels if self.multilabel else Ordered
        return order(signs, self._loss.shift_invariant)

    def release(self):
        """Release what only the rounds need: scores of many classes take gigabytes."""
        self.loss = None
        self.learner = None
        self.left_out = None

    @property
    def leaves_rows_out(self):
        """Whether each tree leaves rows out, and leaf vectors without a row have a closed form."""
        p = self.params
        has_closed_form = (
            isinstance(p.loss, str) and p.loss == "softmax" and p.leaf_step == "diagonal"
        )
        is_unrestricted = (
            p.max_leaf_entries is None and p.leaf_levels is None and p.monotonic_cst is None
        )
        return p.subsample != 1 and has_closed_form and is_unrestricted and not self.narrow

    def follow_left_out(self):
        """Start to collect the scores of left-out rows, before the first round."""
        self.left_out = LeftOutScores(
            self.loss,
            share=self.learner.subsample,
            l2=self.params.l2_regularization,
            n_threads=self.n_threads,
            init_score=self.first_scores(),
        )
        self.learner.keeps_sums = True

    def left_out_scores(self):
        """Return the scores of left-out rows; evaluate the trees again if the training has not followed all of them."""
        if self.left_out.n_trees != self.n_rounds:
            self.follow_left_out()
            loss = Rows(self._loss, self.data, self.n_threads)
            loss.start(self.first_scores())
            for value, leaf in self._trees_so_far(loss.width):
                rows = np.argsort(leaf, kind="stable").astype(np.int32)
                leaf_start = np.searchsorted(leaf[rows], np.arange(len(value) + 1))
                self._add_left_out(loss, rows, leaf_start, leaf, value)
                loss.add(value, leaf)
        return self.left_out

    def _add_left_out(self, loss, rows, leaf_start, leaf, value, sums=None):
        """Add the next tree to the scores of left-out rows, see `LeftOutScores.add`."""
        key = _vector_trees.round_key(self.seed, self.left_out.n_trees)
        self.left_out.add(loss, rows, leaf_start, leaf, key, value, sums)

    def restart(self, scores):
        """Set these scores, or the initial scores of the loss."""
        if self.narrow:
            self.loss.start(self.first_scores())
            self.replay()
        elif scores is None and self._loss.begins:
            self.begin_at(self._loss.first(self.data))
        else:
            self.loss.start(scores)

    def replay(self):
        """Add the trees so far to the scores one by one, as in training."""
        for value, leaf in self._trees_so_far(self.loss.width):
            self.loss.add(value, leaf)

    def _trees_so_far(self, width):
        """Yield the leaf vectors (n_leaves, width) of each tree, and the leaf of every training row."""
        K = self.data.n_classes
        for first_tree in range(0, len(self.builder), TREES_AT_ONCE):
            trees = self.builder.tail(first_tree)
            trees = trees.truncate_rounds(min(TREES_AT_ONCE, trees.n_rounds))
            leaf_of_row = scores_of(
                Model.from_ensemble(trees, range(K)).apply, self.data.X, self.data.rows
            )
            begin = trees.offset + np.arange(len(trees) + 1)
            for t, leaf in enumerate(leaf_of_row.T):
                value = np.zeros((begin[t + 1] - begin[t], width))
                value[:, :K] = trees.leaf[begin[t] : begin[t + 1]]
                yield value, np.ascontiguousarray(leaf)

    def begin_at(self, bias):
        """Start from the bias (K,) of a model, if the loss has initial scores."""
        if not self._loss.begins:
            return
        bias = rounded(bias) if self.leaves_share_value else bias.astype(np.float32)
        self.builder.bias = bias
        scores = self.first_scores()
        self.loss.start(bias if scores is None else scores + bias)

    def go_on(self, previous):
        """Take over the rounds of a model and return the raw scores of the training rows, or None if narrow."""
        has_shared_values = getattr(previous.model.ensemble.leaf, "shared", None) is not None
        if self.leaves_share_value and not has_shared_values:
            raise ValueError(
                f"{previous.source}: the existing model has a value for every class in its "
                f"leaves, but max_leaf_entries={self.params.max_leaf_entries} keeps only some; "
                "set it to None, or train a new model"
            )
        if self._loss.begins:
            self.builder.bias = previous.model.ensemble.bias.copy()
        if self.narrow:
            self.builder.extend(previous.model.ensemble)
            return None
        return super().go_on(previous)

    def round(self):
        """Grow the next tree."""
        self.learner.learning_rate = self.learning_rate  # a callback may have changed it
        self.learner.min_relative_gain = self._min_relative_gain()
        if self.learner.reuse is not None:
            trees_so_far = self.builder.tail(0)
            self.learner.reuse.mark(trees_so_far.feature, trees_so_far.threshold)
        tree = self.learner.next(self.seed, self.n_rounds)
        if tree is None:
            return None
        vectors = tree.value[:, : self.data.n_classes].astype(np.float32, copy=False)
        sets = self.builder.packed(tree.feature, tree.nan_left, tree.sets)
        leaves = vectors if tree.shared is None else LeafEntries.of(vectors, tree.shared)
        self.builder.add_tree(
            tree.feature, tree.threshold, tree.nan_left, right=tree.right, leaf=leaves, sets=sets
        )
        self.builder.end_round()
        self.gain.add(tree.feature, tree.gain)
        if self.left_out is not None and self.left_out.n_trees == self.n_rounds:
            self._add_left_out(
                self.loss, tree.rows, tree.leaf_start, tree.leaf, tree.value, self.learner.sums
            )
        self.loss.add(tree.value, tree.leaf)
        return {"n_leaves": len(vectors)}

    def _min_relative_gain(self):
        """Minimum relative gain of the next tree, which increases in late rounds."""
        late_from = max(LATE_ROUNDS, LATE_STEPS / self._first_rate) / self._speed_up_factor
        factor = max(1, self.n_rounds / late_from) ** LATE_POWER
        return self.params.min_relative_gain * factor

    def why_constant(self):
        """The warning for a constant model; the drawn rows may be too few."""
        text = super().why_constant()
        subsample = self.params.subsample
        if subsample != 1:
            text = (
                f"{text} Perhaps too few rows are drawn (subsample={subsample!r}): set subsample=1"
            )
        return text

    def refit_round(self, leaf_of_row, leaves, cls, base, decay):
        """Compute new leaves of the tree of a round and add them to the scores; only leaves with rows change."""
        for name in ("monotonic_cst", "max_leaf_entries", "leaf_levels"):
            if getattr(self.params, name):
                raise ValueError(f"refit_leaves does not support {name}; train a new model")
        leaf = np.ascontiguousarray(leaf_of_row[:, 0], dtype=np.int32)
        count = np.bincount(leaf, minlength=len(leaves[0]))
        used = np.flatnonzero(count)
        rows = np.argsort(leaf, kind="stable").astype(np.int32)
        leaf_start = np.concatenate(([0], np.cumsum(count[used])))
        step = self.learner.leaf_vectors(rows, leaf_start).astype(np.float64)
        K = self.data.n_classes
        value = np.zeros((len(count), step.shape[1]))
        value[:, :K] = leaves[0]
        value[used] = decay * value[used] + (1 - decay) * step
        vectors = value[:, :K].astype(np.float32)
        value[:, :K] = vectors  # the scores get what the model stores
        self.loss.add(value, leaf)
        return [vectors]


@estimator
class VectorTreeBoostClassifier(EstimatorOfLosses):
    """Gradient-boosted trees with one tree per round for all classes.

    This is the estimator to try first. Each leaf holds a vector with one value per class, so a model of T rounds has T
    trees, not T per class. It is also the estimator for multi-label data (``loss="logistic"``), custom losses,
    monotonic and interaction constraints, and thousands of classes.

    Notes
    -----
    Each round fits a tree to the negative gradients of the loss for all classes. Splits maximize the sum over the
    classes of the decrease of the squared error; leaf vectors are damped Newton steps. This carries the shared weak
    learners of MCBoost over to trees.

    References
    ----------
    S. Paisitkriangkrai, C. Shen and A. van den Hengel, A scalable stage-wise approach to large-margin multi-class loss
    based boosting: the idea of weak learners that all classes share.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "vector-tree"
    booster = VectorTreeBoost
    own_parameters = {
        **LABEL_PARAMETERS,
        "leaf_step": Parameter(
            "Whether the Newton steps of the leaf vectors use the diagonal of the Hessian or the full Hessian. Only "
            "with the softmax loss."
        ),
        "leaf_levels": Parameter(
            "Rounds leaf values to multiples of a step, with this many levels below 0 and as many above 0. The model "
            'can then be saved in a small file with the layout "packed". The step is 2 learning_rate / '
            "(leaf_levels + 1). None does not round. Values from 1 to 15 cost little accuracy with a learning_rate of "
            "0.3 to 0.5 and some more trees.",
            low=1,
            high=127,
        ),
        "feature_penalty": Parameter(
            "Fraction of the gain that a split loses if its feature does not occur in earlier trees. Models then use "
            "fewer features.\n\n"
            "If this or ``threshold_penalty`` is above 0, a split takes a threshold that is already in use if it "
            "separates the rows of the node in the same way.",
            low=0,
            high=1,
            open_high=True,
        ),
        "threshold_penalty": Parameter(
            "Fraction of the gain that a split loses if its threshold does not occur in earlier trees. Packed model "
            "files then become smaller, because they store each threshold once.",
            low=0,
            high=1,
            open_high=True,
        ),
        "interaction_cst": Parameter(
            "Interaction constraints: groups of columns, by number or name, such as [[0, 1], [2, 3, 4]]. All splits on "
            "a path from the root to a leaf use columns of one group. The columns in no group form one more group. At "
            "most 64 groups.",
            python_only=True,
            type_text="list of lists of int or str",
        ),
        "monotonic_cst": Parameter(
            "Monotonic constraints: {column: (label, sign)}, with columns by number or name. As the column increases, "
            "the probability of the class may only increase (+1) or only decrease (-1). With two classes, the sign by "
            "itself refers to the second class.\n\n"
            "The difference between the score of this class and that of any other class is monotonic; with the "
            "logistic loss, the score of the label itself is. Missing values are not constrained.",
            python_only=True,
            type_text="dict",
        ),
    }
    own_help = {
        "loss": '"softmax" is the multinomial log loss. "logistic" is for multi-label data: each label has a sigmoid '
        "of its own, and y is an indicator matrix.\n\n"
        "A custom loss can be given as a function or as an object. The function ``loss(y, scores)`` receives y of "
        "shape (m,), positions in ``classes_``, and scores of shape (m, K). It returns the first and second "
        "derivatives of the loss of each row with respect to its scores: two arrays of shape (m, K), the second one "
        "non-negative.\n\n"
        "The object has some of these methods and attributes:\n\n"
        "- ``gradient_hessian(y, scores)``: the same as the function. Required.\n"
        "- ``start(y, weight, n_classes)``: the initial scores of all rows, of shape (K,).\n"
        "- ``link(scores)``: the probabilities, of shape (m, K).\n"
        "- ``value(y, scores)``: the loss of each row, of shape (m,).\n"
        "- ``shift_invariant``: True if the loss does not change when the same number is added to all scores of a "
        "row.\n\n"
        "Rows are passed in parts, in an order chosen by the training, and without their weights. A model file does "
        "not store a custom loss, so a loaded model has scores and predictions but no probabilities. Custom losses "
        "are not calibrated.",
        "n_estimators": "Maximum number of boosting rounds, which is the number of trees. Training stops earlier if "
        'the training loss has reached machine precision.\n\n"auto" chooses the number by cross-validation, see '
        "``cv``.",
        "max_leaf_nodes": 'Maximum number of leaves per tree. "auto" uses one leaf for every 25 training rows, between '
        "31 and 500. Trees grow best-first: the split with the largest gain is made next.",
        "max_features": "Fraction of the features considered for a split. Features are sampled separately for each "
        f"node; at least one is considered. {AUTO_FEATURES}",
        "subsample": "Fraction of the rows sampled for each tree to find its splits. Rows are sampled separately for "
        'each tree, regardless of their weights. Leaf vectors are computed from all rows. "auto" is 0.5, or 0.7 with '
        "more than 10,000 rows.",
        "learning_rate": PARAMETERS["learning_rate"].help
        + ' "auto" is 0.05 up to 2,000 rows and 0.1 from 13,000 rows. In between, it grows with a power of the number '
        "of rows.",
        "validation_fraction": PARAMETERS["validation_fraction"].help
        + ' "auto" is 0.1. With ``calibrate`` and ``scoring="log_loss"``, it is at most 500 rows, or 5 per class if '
        "that is more.",
        "scoring": PARAMETERS["scoring"].help
        + '\n\n"loss" is the mean of ``value`` of a custom loss.\n\n'
        "With the logistic loss, metrics are those of multi-label data. A label counts as predicted if its probability "
        "is above 0.5.\n\n"
        '- "log_loss": mean over rows and labels of -log p, or of -log(1 - p) for labels that the row does not have.\n'
        '- "error": fraction of rows with any label wrong.\n'
        '- "hamming_loss", "f1_micro", "f1_macro", "precision_at_1", "precision_at_3", "precision_at_5": only with '
        "this loss.",
        "min_samples_category": PARTED_CATEGORY,
        "l2_regularization": "L2 regularization: added to the second derivative of every class in a leaf. The logistic "
        "loss uses at least 0.1. It changes leaf vectors only, because splits count rows.",
    }

    loss: LossName | LossFunction | Callable[..., Any] = "softmax"
    n_estimators: Rounds = 300
    scoring: LossScoring = "log_loss"
    learning_rate: Rate = "auto"
    max_leaf_nodes: Leaves = "auto"
    max_depth: int | None = None
    min_samples_leaf: float = 1
    max_features: Share = "auto"
    max_features_tree: float = 1.0
    subsample: Share = "auto"
    l2_regularization: float = 0.0
    min_gain: float = 0.0
    min_relative_gain: float = 2.5
    leaf_step: Literal["diagonal", "full"] = "diagonal"
    split_columns: int | Literal["auto"] | None = "auto"
    max_leaf_entries: int | None = None
    leaf_levels: int | None = None
    feature_penalty: float = 0.0
    threshold_penalty: float = 0.0
    categorical_features: Any | None = "from_dtype"
    min_samples_category: float = 15.0
    calibrate: Literal["temperature"] | None = "temperature"
    n_iter_no_change: int = 50
    validation_fraction: Share = "auto"  # type: ignore[assignment]
    interaction_cst: Any | None = None
    monotonic_cst: Mapping[Any, Any] | None = None
    decision_threshold: float | Literal["f1"] = 0.5
