"""Import of XGBoost models from JSON or UBJSON."""

import json
import math
import os
from typing import Any

import numpy as np

from pymcboost.export import ubjson
from pymcboost.export.foreign import (
    MOST_CLASSES,
    MOST_FEATURES,
    Set,
    Tree,
    count,
    floats_before,
    model_of,
    read_bytes,
    refuse,
    with_unknown_codes_left,
)
from pymcboost.model.model import Model

BINARY = "binary:logistic"
OBJECTIVES = (BINARY, "multi:softprob", "multi:softmax")
# Relative error per term of XGBoost's float32 sums.
PRECISION = 2.0**-23
# From this version on, names of categories are complete: before, names that are not ASCII took the ends of others.
WHOLE_NAMES = [3, 4]

# All keys that XGBoost 1.0 to 3.4 write. A key of a later version may change what a model computes, so files with
# other keys are refused. Values that only training reads are listed, but not read.
KEYS = {
    "the file": {"learner", "version"},
    "learner": {
        "attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective",
    },
    "learner_model_param": {"base_score", "boost_from_average", "num_class", "num_feature", "num_target"},
    "objective": {"name", "reg_loss_param", "softmax_multiclass_param"},
    "reg_loss_param": {"scale_pos_weight"},
    "softmax_multiclass_param": {"num_class"},
    "gradient_booster": {"gbtree", "model", "name", "weight_drop"},
    "gbtree": {"model", "name"},
    "model": {"cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees", "weight_drop"},
    "cats": {"enc", "feature_segments", "sorted_idx"},
    "enc": {"offsets", "type", "values"},
    "gbtree_model_param": {"num_parallel_tree", "num_trees", "size_leaf_vector"},
    "trees": {
        "base_weights", "categories", "categories_nodes", "categories_segments", "categories_sizes", "default_left",
        "id", "leaf_weights", "left_children", "loss_changes", "parents", "right_children", "split_conditions",
        "split_indices", "split_type", "sum_hessian", "tree_param",
    },
    "tree_param": {"num_deleted", "num_feature", "num_nodes", "size_leaf_vector"},
}  # fmt: skip


def from_xgboost(source: "str | os.PathLike[str] | Any", labels: Any = None) -> Model:
    """Import a classifier of XGBoost.

    Parameters
    ----------
    source : str, path-like or Booster
        JSON or UBJSON file of ``save_model``, or an object with a method ``save_raw``. The objective must be
        "multi:softprob", "multi:softmax" or "binary:logistic". Leaves may hold one number, or one number per class
        (``multi_strategy="multi_output_tree"``). The weights of DART trees are included in the leaf values. gblinear,
        categories above 65534, and keys that XGBoost 3.4 does not write are not supported.
    labels : array-like of shape (K,), default=None
        Distinct labels, integers or strings, of the classes 0 to K - 1. XGBoost only stores the numbers. The labels
        need not be sorted; the classes of the model are.

    Returns
    -------
    Model
        The imported model. If early stopping has found a best round (``best_iteration``), the model has the rounds up
        to it, as in the predictions of XGBClassifier, and ``meta["rounds_left_out"]`` is the number of other rounds.
        ``booster.set_attr(best_iteration=None)`` keeps all rounds.

    Raises
    ------
    ModelFormatError
        If the file is damaged, or contains something that a `Model` cannot represent.
    ValueError
        If the labels do not match the model.
    TypeError
        If the source is neither a file nor a booster, for example an estimator.

    Notes
    -----
    Rows reach the same leaves: ``x < t`` becomes ``x <=`` the float32 before t, and missing values go to their default
    side. There are two exceptions. Features between -2^-126 (-1.2e-38) and 0 may reach another leaf if t is 0 or as
    close to it; some processes treat them as 0 in XGBoost, too. A split at minus infinity, which XGBoost 3.4 uses for
    missing values only, sends the lowest number, -3.4e38, to the side of missing values.

    Leaf values do not change. Scores are added in float64, while XGBoost adds them in float32. ``meta["score_error"]``
    is a bound on the difference. Classes whose scores differ by more than twice this bound keep their order.

    XGBoost stores the categories of a data frame since version 3.1. They are matched by name in any order;
    `Model.categories` has them sorted. A category that did not occur in training is treated as missing, while XGBoost
    3.4 raises an error. In arrays, categories are codes: positions in the sorted names, or the codes of XGBoost if
    there are no names. In the latter case, a code that occurs in no set goes left, as in XGBoost. Negative numbers and
    numbers with a fraction are not codes; XGBoost drops the fraction.

    Examples
    --------
    >>> import xgboost  # doctest: +SKIP
    >>> estimator = xgboost.XGBClassifier().fit(X, y)  # doctest: +SKIP
    >>> model = from_xgboost(estimator.get_booster(), labels=estimator.classes_)  # doctest: +SKIP
    """
    data, where = (
        (source.save_raw("ubj"), "the booster")
        if hasattr(source, "save_raw")
        else read_bytes(source)
    )
    data = bytes(data)
    start = data.lstrip()[:2]
    text = start[:1] == b"{" and start[1:] in (b"", b'"', b"}", b" ", b"\n", b"\r", b"\t")
    try:
        contents = json.loads(data) if text else ubjson.loads(data)
    except (ValueError, RecursionError) as error:
        problem = "values are nested too deep" if isinstance(error, RecursionError) else error
        refuse(f"{where}: this is neither JSON nor UBJSON written by XGBoost: {problem}")
    return _Reader(contents, where).model(labels)


class _Reader:
    """A model as dictionaries and lists, none of which is trusted."""

    def __init__(self, contents, where):
        self.where = where
        check_keys(contents, "the file", where)
        self.version = np.ravel(contents.get("version", ())).tolist()
        self.learner = self.get(contents, "learner", dict)
        self.about = self.get(self.learner, "learner_model_param", dict)

    def get(self, dictionary, key, kind):
        """Get an entry of a dictionary, and check its type."""
        value = dictionary.get(key) if isinstance(dictionary, dict) else None
        if not isinstance(value, kind):
            refuse(f"{self.where}: {key} is missing, or not what XGBoost writes")
        return value

    def model(self, labels):
        """Build the model."""
        name = self.get(self.get(self.learner, "objective", dict), "name", str)
        if name not in OBJECTIVES:
            refuse(
                f"{self.where}: the objective {name[:40]!r} is not supported; supported are "
                f"{', '.join(OBJECTIVES)}"
            )
        booster = self.get(self.learner, "gradient_booster", dict)
        kind = self.get(booster, "name", str)
        if kind not in ("gbtree", "dart"):
            refuse(
                f"{self.where}: the booster {kind[:40]!r} cannot be imported, only 'gbtree' "
                "and 'dart' can"
            )
        binary = name == BINARY
        classes = count(
            self.about.get("num_class", "0"), "num_class", 0, high=MOST_CLASSES, where=self.where
        )
        count(self.about.get("num_target", "1"), "num_target", 1, high=1, where=self.where)
        if binary != (classes < 2):
            refuse(f"{self.where}: num_class is {classes}, which does not fit {name}")
        k = 2 if binary else classes
        d = count(
            self.about.get("num_feature"), "num_feature", 1, high=MOST_FEATURES, where=self.where
        )
        # Before XGBoost 3.4, the booster "dart" stored the trees in a nested booster, with the weights beside it.
        nested = kind == "dart" and "gbtree" in booster
        inner = self.get(self.get(booster, "gbtree", dict) if nested else booster, "model", dict)
        tree_parts = self.get(inner, "trees", list)
        weights = self.weights(booster if nested else inner, len(tree_parts))
        info = self.numbers(inner, "tree_info", len(tree_parts), "iu").astype(np.int64)
        if len(tree_parts) and not 0 <= info.min() <= info.max() < (1 if binary else k):
            refuse(f"{self.where}: tree_info must hold classes below {k}")
        classes = info.tolist() if not binary else [1] * len(tree_parts)
        meta = {"imported": "XGBoost", "objective": name, "precision": PRECISION}
        rounds = self.best(self.rounds(inner, len(tree_parts), 1 if binary else k), meta)
        levels = self.levels(inner, d)
        trees = [
            self.tree(tree, t, classes[t], k, weights[t], levels)
            for t, tree in enumerate(tree_parts[: sum(rounds)])
        ]
        if len({tree.value.ndim for tree in trees}) > 1:
            refuse(f"{self.where}: some trees have one number per leaf, and others one per class")
        names = self.learner.get("feature_names")
        if (
            isinstance(names, list)
            and len(names) == d
            and all(isinstance(word, str) for word in names)
        ):
            meta["feature_names"] = names
        bias = self.bias(name, k, bool(tree_parts))
        return model_of(
            trees,
            rounds,
            bias,
            n_features=d,
            meta=meta,
            link="softmax",
            where=self.where,
            labels=labels,
            names=levels,
        )

    def levels(self, inner, d):
        """Levels of categorical columns of a frame, by feature number: dict of int to list."""
        cats = inner.get("cats")
        if cats is None:
            return {}
        parts = self.get(inner, "cats", dict).get("enc")
        if not isinstance(parts, list) or len(parts) not in (0, d):
            refuse(f"{self.where}: cats must have an item in enc for each of the {d} features")
        levels = {j: self.levels_of(part) for j, part in enumerate(parts)}
        return {j: names for j, names in levels.items() if len(names)}

    def levels_of(self, part):
        """Levels of a feature, text or integers; empty if it is not categorical."""
        size = size_of(part.get("values")) if isinstance(part, dict) else 0
        if not size:
            return []
        values = self.numbers(part, "values", size, "iu").astype(np.int64)
        if "offsets" not in part:
            return values.tolist()
        ends = (
            self.numbers(part, "offsets", size_of(part["offsets"]), "iu").astype(np.int64).tolist()
        )
        if (
            not ends
            or ends[0] != 0
            or ends[-1] != size
            or any(a > b for a, b in zip(ends, ends[1:], strict=False))
        ):
            refuse(
                f"{self.where}: the offsets of the category names must increase from 0 to the "
                "number of their bytes"
            )
        text = (values & 255).astype(np.uint8).tobytes()
        if not text.isascii() and self.version < WHOLE_NAMES:
            refuse(
                f"{self.where}: a category name is not ASCII, and XGBoost before 3.4 cuts such "
                "names off; train the model with XGBoost 3.4"
            )
        try:
            return [text[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)]
        except UnicodeDecodeError as error:
            refuse(f"{self.where}: the category names are not UTF-8: {error}")

    def best(self, rounds, meta):
        """The rounds that XGBClassifier uses to predict: with early stopping, up to the best one."""
        attributes = (
            self.get(self.learner, "attributes", dict) if "attributes" in self.learner else {}
        )
        if "best_iteration" not in attributes or not rounds:
            return rounds
        best = 1 + count(
            attributes["best_iteration"],
            "best_iteration",
            0,
            high=len(rounds) - 1,
            where=self.where,
        )
        if best < len(rounds):
            meta["rounds_left_out"] = len(rounds) - best
        return rounds[:best]

    def weights(self, part, n):
        """Factors of the leaves of every tree, which DART changes after a tree is grown."""
        if "weight_drop" not in part:
            return np.ones(n)
        weights = self.numbers(part, "weight_drop", n, "iuf").astype(np.float64)
        if not np.isfinite(weights).all():
            refuse(f"{self.where}: weight_drop must hold finite numbers")
        return weights

    def rounds(self, inner, n, groups):
        """Number of trees of every round."""
        if "iteration_indptr" not in inner:  # before XGBoost 2, without vector leaves
            about = self.get(inner, "gbtree_model_param", dict)
            size = groups * count(
                about.get("num_parallel_tree", "1"),
                "num_parallel_tree",
                1,
                high=max(n, 1),
                where=self.where,
            )
            if n % size:
                refuse(
                    f"{self.where}: there are {n} trees, which is not a multiple of the {size} of "
                    "a round"
                )
            return [size] * (n // size)
        size = size_of(inner["iteration_indptr"])
        ends = self.numbers(inner, "iteration_indptr", size, "iu").astype(np.int64)
        steps = np.diff(ends)
        if not len(ends) or ends[0] != 0 or ends[-1] != n or (steps < 1).any():
            refuse(
                f"{self.where}: iteration_indptr must increase from 0 to the number of trees, {n}"
            )
        return steps.tolist()

    def bias(self, name, k, trained):
        """Initial scores."""
        text = self.get(self.about, "base_score", str)
        try:
            values = np.array([float(word) for word in text.strip("[]").split(",")])
        except ValueError:
            values = np.zeros(0)
        if len(values) not in ((1,) if name == BINARY else (1, k)) or not np.isfinite(values).all():
            refuse(
                f"{self.where}: base_score is {text[:40]!r}; it must be a number, or one for "
                "each class"
            )
        if name != BINARY:
            return values * np.ones(k)
        if not 0 <= values[0] <= 1:
            refuse(
                f"{self.where}: base_score is {text[:40]!r}; it must be a probability between 0 and 1"
            )
        if not trained and self.about.get("boost_from_average", "0") != "0":
            # base_score is not yet estimated from the labels; until then, XGBoost treats it as a margin.
            return np.array([0.0, values[0]])
        # As in XGBoost: in float32, and at least a millionth away from 0 and 1.
        float32_one = np.float32(1)
        least = np.float32(1e-6)
        p = np.clip(np.float32(values[0]), least, float32_one - least)
        return np.array([0.0, 0.0 - np.float32(math.log(float32_one / p - float32_one))])

    def numbers(self, dictionary, key, n, kinds):
        """Get an array of n numbers."""
        try:
            values = np.asarray(dictionary.get(key))
        except (ValueError, OverflowError, AttributeError):
            values = np.zeros((0, 0))
        if values.shape == (0,) and n == 0:
            return np.zeros(0, dtype=np.int64)
        if values.shape != (n,) or values.dtype.kind not in kinds:
            refuse(f"{self.where}: {key} must hold {n} numbers")
        return values

    def tree(self, part, t, cls, k, weight, levels):
        """Convert a tree whose leaves hold a number, or one for each class."""
        where, self.where = self.where, f"{self.where}: tree {t}"
        about = self.get(part, "tree_param", dict)
        n = count(
            about.get("num_nodes"),
            "num_nodes",
            1,
            high=max(size_of(part.get("left_children")), 1),
            where=self.where,
        )
        width = count(
            about.get("size_leaf_vector", "1"),
            "size_leaf_vector",
            0,
            high=MOST_CLASSES,
            where=self.where,
        )
        left, right = (
            self.numbers(part, f"{side}_children", n, "iu").astype(np.int64)
            for side in ("left", "right")
        )
        sets = self.sets(part, n, left < 0)
        feature = self.numbers(part, "split_indices", n, "iu").astype(np.int64)
        default_left = self.numbers(part, "default_left", n, "iub") != 0
        condition = self.numbers(part, "split_conditions", n, "iuf")
        with np.errstate(over="ignore", under="ignore"):
            condition = condition.astype(np.float32)
            threshold = floats_before(condition)
        leaf = left < 0
        value = condition
        if width > 1:
            if width != k:
                refuse(f"{self.where}: the leaves have {width} numbers, but there are {k} classes")
            if "leaf_weights" not in part:
                refuse(
                    f"{self.where}: leaf_weights is missing; save the model with XGBoost 3.4 "
                    "or newer"
                )
            size = size_of(part["leaf_weights"])
            weights = (
                self.numbers(part, "leaf_weights", size - size % k, "iuf")
                .astype(np.float32)
                .reshape(-1, k)
            )
            if (leaf & ((right < 0) | (right >= len(weights)))).any():
                refuse(f"{self.where}: right_children must hold indices of leaf_weights")
            value = weights[np.where(leaf, right, 0)]
        tree = Tree(
            left,
            right,
            leaf,
            feature=feature,
            threshold=threshold,
            missing_left=default_left,
            value=value.astype(np.float64) * weight,
            cls=cls,
            sets=sets,
        )
        # Unknown levels have no code there, nor in a frame here.
        apart = [
            node for node in sets if not default_left[node] and int(feature[node]) not in levels
        ]
        tree = with_unknown_codes_left(tree, apart, self.where)
        self.where = where
        return tree

    def sets(self, tree, n, leaf):
        """Codes that do not go left at categorical splits, by node number."""
        kind = (
            self.numbers(tree, "split_type", n, "iu")
            if "split_type" in tree
            else np.zeros(n, dtype=np.int64)
        )
        if ((kind != 0) & (kind != 1)).any():
            refuse(
                f"{self.where}: split_type is {int(kind.max())}; supported are 0 (numerical) "
                "and 1 (categorical)"
            )
        splits = np.flatnonzero((kind == 1) & ~leaf).tolist()
        if not splits:
            return {}
        keys = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
        parts = {key: tree.get(key, []) for key in keys}
        size = size_of(parts["categories_nodes"])
        nodes, begins, sizes = (
            self.numbers(parts, key, size, "iu").astype(np.int64).tolist() for key in keys[:3]
        )
        codes = self.numbers(parts, "categories", size_of(parts["categories"]), "iu").astype(
            np.int64
        )
        if (codes < 0).any():
            refuse(f"{self.where}: categories must not be negative")
        sets = {}
        for node, begin, count_of in zip(nodes, begins, sizes, strict=True):
            if not 0 <= begin <= begin + count_of <= len(codes):
                refuse(
                    f"{self.where}: categories_segments and categories_sizes must lie within "
                    f"the {len(codes)} categories"
                )
            sets[node] = Set(codes[begin : begin + count_of], False)
        for node in splits:
            if node not in sets:
                refuse(
                    f"{self.where}: node {node} is a categorical split that is missing from "
                    "categories_nodes"
                )
        return {node: sets[node] for node in splits}


def check_keys(part, name, where):
    """Refuse a file if any part of it has an unknown key."""
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        if key not in KEYS[name]:
            refuse(
                f"{where}: {name} has the unknown key {key[:40]!r}, which may affect the "
                "scores; XGBoost 1.0 to 3.4 do not write it. Save the model with XGBoost 3.4"
            )
        if key in KEYS:
            for inner in value if isinstance(value, list) else [value]:
                check_keys(inner, key, where)


def size_of(values):
    """Number of items of a list; 0 if it is not a list."""
    return len(values) if hasattr(values, "__len__") else 0
