"""Base classes of all kinds of models, and of the kinds that are machines.

A kind is a frozen class of arrays. To add one, write its class in a file here and a C header that scores it, and add a
line in `kinds`. `Model`, the file format and the command line use these members:

===========================  =====================================================================================
KIND, NAME                   its number in a file, and its name
no_stages                    why its first rounds are not a model; None if they are
own_exits                    early exits that need no section of the file
allows_missing               whether rows may hold NaN
share_of                     what the shares of `used_features` are parts of; None if there are no shares
additive                     whether each weak learner uses one feature, so that scores are sums of curves
laid_out(layout, leaves)     the same model checked, in the one form that is saved
sections()                   its sections of a file; the bias, the labels and the meta text are common to all kinds
from_sections(...)           the model over the sections of a file
layout_of, leaves_of         the form that these sections have
used_features()              the features that occur, and their shares
summary, describe, lines     a phrase, facts that JSON can hold, and lines of text
dump()                       all that scores are computed from, see `dump`
===========================  =====================================================================================

A training uses these members, and so does not depend on the kind:

===========================  =====================================================================================
scores(X)                    scores of the classes (m, K)
column_scores(X)             scores of the columns (m, P) if there is a code, else `scores`
width, add_scores_to, decode how the scores of rounds add up: ``sums = zeros((m, width))``, ``add_scores_to(sums, X)``
                             for the model of each round, then ``decode(sums)``
each_tree()                  its weak learners as trees; ValueError if they are not kept
splits()                     the arrays of all their splits, as in `Trees`; ValueError if they are not kept
===========================  =====================================================================================

A builder grows a model. A training uses these members of it:

===========================  =====================================================================================
len(builder)                 number of weak learners
freeze()                     the model so far
current()                    the model so far, which the next weak learner may invalidate
tail(start)                  the model from weak learner ``start`` on, which the next weak learner may invalidate
rounds()                     models that add up to the current one, as they were trained
truncate_rounds(n)           keeps the first n rounds
===========================  =====================================================================================
"""

from dataclasses import replace
from itertools import islice, repeat
from typing import Any

import numpy as np

from pymcboost.model.arrays import per_class
from pymcboost.model.file import LAYOUTS, LEAVES, check, encode, label_sections
from pymcboost.model.kinds import KINDS, PACKED
from pymcboost.model.rows import Rows


class Kind:
    """Base class of the kinds of models; see the module."""

    KIND: int
    NAME: str
    no_stages: str | None = None
    own_exits: tuple[str, ...] = ()
    allows_missing = True
    share_of: str | None = "what moves the scores"
    additive = False
    # For models that decode sums of columns: the name of the decoder, and the code.
    decoder: str = "linear"
    code: np.ndarray | None = None
    # Number of rows in each leaf, if known.
    cover: np.ndarray | None = None
    # Categorical features, if there are any.
    categories: Any = None

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.bias)

    def canonical(self):
        """Check the model and return it in the canonical form in which it is saved."""
        return self

    def merge(self):
        """Convert to a table of intervals per feature, with the same scores, if possible."""
        raise ValueError(
            f"an interval table is for stumps; a {self.NAME} supports only layout='list'"
        )

    def half(self):
        """Convert the leaves to float16, if there are any."""
        raise ValueError("leaves='float16' is for trees; this model has none")

    def laid_out(self, layout="list", leaves="float32"):
        """Check the model and convert it to the form in which it is saved; see `Model.from_ensemble`."""
        if layout not in LAYOUTS:
            raise ValueError(
                f"layout must be one of {', '.join(map(repr, LAYOUTS))}, not {layout!r}"
            )
        if leaves not in LEAVES:
            raise ValueError(f"leaves must be 'float32', 'float16' or 'int8', not {leaves!r}")
        if layout == "packed":
            return KINDS[PACKED].of(self.canonical(), leaves)
        if leaves == "int8":
            raise ValueError(f"leaves='int8' needs layout='packed', not layout={layout!r}")
        model = self.canonical() if layout == "list" else self.merge().single()
        return model if leaves == "float32" else model.half()

    def sections(self):
        """Sections of a file, as (tag, array), for a model in the form in which it is saved."""
        raise NotImplementedError

    @classmethod
    def from_sections(cls, sections, header):
        """Create the model from the sections (tag -> array) and the `file.header` of a checked file."""
        raise NotImplementedError

    @classmethod
    def layout_of(cls, sections):
        """Layout of a file with these sections."""
        return "list"

    @classmethod
    def leaves_of(cls, sections):
        """Type of the leaves in a file with these sections; "float32" if there are none."""
        return "float32"

    def used_features(self):
        """Features that occur, ascending, and their importances: int64 and float64 (n_used,)."""
        raise NotImplementedError

    def summary(self, staged):
        """Short description of the model; ``staged``: whether its first rounds are a model, too."""
        return self.NAME

    def describe(self, leaves):
        """Facts about this kind of model, for JSON; ``leaves`` is the type of leaves in the file."""
        return {}

    @staticmethod
    def lines(facts):
        """Yield (name, text) of the lines in ``mcboost-info`` that are specific to this kind, given all facts."""
        learners = "merged" if facts["n_learners"] is None else facts["n_learners"]
        if facts["totally_corrective"]:
            learners = f"{learners}, totally corrective"
        yield "learners", learners

    def dump(self):
        """Yield (name, value) of everything except the bias that scores depend on: a value for JSON, or an iterator.

        Weak learners are trees, whatever their form in the file.
        """
        yield "code", None if self.code is None else self.code.tolist()
        yield "rounds", np.diff(self.round_ends()).tolist()
        if self.categories is not None:
            yield "categories", self.categories.dump()
        yield "trees", map(_tree, self.each_tree(), self._covers(), self._shown_sets())

    def sets(self):
        """Sets of categories in splits as (number, start, bits), see `Trees`; None if all splits have thresholds."""
        return None

    def need_thresholds(self, task, remedy=""):
        """Refuse splits on sets of categories; ``task`` names the operation that needs thresholds."""
        sets = self.sets()
        if sets is not None and sets[0].any():
            raise ValueError(
                f"{task} need a threshold in every split, but this model has categories; train "
                "it with categorical_features=None on numerical columns (OrdinalEncoder, "
                f"TargetEncoder){remedy}"
            )

    def _shown_sets(self):
        """Yield, for every tree, the levels that its splits send left; None endlessly without categories."""
        if self.categories is None:
            return repeat(None)
        return map(self._shown_of, self.each_tree(), self.each_sets())

    def _shown_of(self, tree, sets):
        """Levels that each split of a tree sends left; None for a threshold."""
        return [
            self.categories.shown(f, sets[j]) if j in sets else None
            for j, f in enumerate(tree[0].tolist())
        ]

    def each_sets(self):
        """Yield, for every tree, the bit sets of codes that its splits send left, by split number."""
        return repeat({})

    def _covers(self):
        """Rows in the leaves of every tree, from left to right; None endlessly if the model does not store them."""
        if self.cover is None:
            return repeat(None)
        if not len(self):
            return []
        offset = self.splits()[0]
        first_leaf = offset + np.arange(len(offset))
        return np.split(self.cover, first_leaf[1:-1])

    def shifted(self, shift):
        """Add numbers (K,) to the scores of all rows; the bias is rounded to float32."""
        return replace(self, bias=per_class("bias", self.bias.astype(np.float64) + shift))

    def form(self):
        """Properties that two models must share so that rounds of one can be added to the other."""
        return type(self), self.n_classes, self.n_features

    def about(self, feature):
        """A model with at least the weak learners that use a feature."""
        return self

    def round_ends(self):
        """0, followed by the number of weak learners after every round, if there are rounds."""
        raise NotImplementedError

    def compact(self):
        """The features that occur, at least one, and the same model with only these."""
        used, feature = np.unique(self.feature, return_inverse=True)
        if not len(used):
            used = np.zeros(1, dtype=np.int64)
        compact = replace(self, feature=feature, n_features=len(used))
        if self.categories is not None:
            compact = replace(compact, categories=self.categories.of(used))
        return used, compact

    # -- what a training asks --------------------------------------------------------------------------------------

    @property
    def width(self):
        """Number of sums per row to which rounds are added."""
        return self.n_classes

    def scores(self, X):
        """Scores of the classes: float64 (m, K)."""
        return self._rows().scores(X)

    def column_scores(self, X):
        """Scores of the columns of the code, (m, P), or of the classes if there is no code."""
        return self.scores(X)

    def add_scores_to(self, sums, X):
        """Add the scores of this part of a model to sums (m, width)."""
        sums += self.scores(X)

    def decode(self, sums):
        """Compute the scores of the classes (m, K) from sums (m, width)."""
        return sums

    def each_tree(self):
        """Yield (feature, threshold, nan_left, right, leaf, cls, base) of every weak learner, see `Trees.each_tree`."""
        raise ValueError(
            f"the weak learners of this model are merged ({self.NAME}), so there is none to extract"
        )

    def splits(self):
        """Arrays (offset, feature, threshold, nan_left, right) of all weak learners, see `Trees`."""
        self.each_tree()  # raises the error that says why there are none
        raise NotImplementedError

    def _rows(self):
        data = encode(self.laid_out(), label_sections(np.arange(self.n_classes), self.n_classes))
        return Rows(check(data), self.allows_missing)


def tree_of(ensemble, number):
    """Tree ``number`` of an ensemble, in the form of a dump."""
    trees = map(_tree, ensemble.each_tree(), ensemble._covers(), ensemble._shown_sets())
    return next(islice(trees, number, None))


def _tree(tree, cover, sets):
    """Convert a tree (see `Trees.each_tree`) to a dictionary with nodes in preorder and children by number."""
    feature, threshold, nan_left, right, leaf, cls, base = tree
    rows_before = None if cover is None else [0, *np.cumsum(cover).tolist()]
    nodes = []
    # Subtrees that are still to be converted: splits from i to end, first leaf, and where the parent names them.
    waiting = [(0, len(feature), 0, None, None)]
    while waiting:
        i, end, first_leaf, parent, side = waiting.pop()
        if parent is not None:
            nodes[parent][side] = len(nodes)
        if i == end:
            node = {"value": (leaf[first_leaf] + np.float32(0)).tolist()}  # without -0
        else:
            middle_leaf = first_leaf + int(right[i])
            middle = i + int(right[i])
            node = {"feature": int(feature[i])}
            if sets is None or sets[i] is None:
                node["threshold"] = float(threshold[i])
            else:
                node["levels"] = sets[i]
            node["missing"] = "left" if nan_left[i] else "right"
            waiting.append((middle, end, middle_leaf, len(nodes), "right"))
            waiting.append((i + 1, middle, first_leaf, len(nodes), "left"))
        if rows_before is not None:
            end_leaf = first_leaf + end - i + 1
            node["cover"] = rows_before[end_leaf] - rows_before[first_leaf]
        nodes.append(node)
    return {"class": None if cls < 0 else cls, "base": None if base < 0 else base, "nodes": nodes}


class Machine(Kind):
    """Base class of linear and kernel machines, whose ``intercept`` is the bias."""

    no_stages = (
        "this model is a linear or kernel machine that merges all rounds, so it has no "
        "stages; train one with fewer rounds"
    )
    allows_missing = False

    @property
    def bias(self):
        """Initial scores of the classes: the intercepts."""
        return self.intercept

    def shifted(self, shift):
        """Add numbers (K,) to the scores of all rows; the intercept is rounded to float32."""
        intercept = self.intercept.astype(np.float64) + shift
        return replace(self, intercept=per_class("intercept", intercept))

    @staticmethod
    def lines(facts):
        """No additional lines."""
        return ()
