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
    if hasattr(source, "save_raw"):
        data = bytes(source.save_raw("ubj"))
        where = "the booster"
    else:
        data, where = read_bytes(source)
    start = data.lstrip()[:2]
    is_json = start[:1] == b"{" and start[1:] in (b"", b'"', b"}", b" ", b"\n", b"\r", b"\t")
    try:
        contents = json.loads(data) if is_json else ubjson.loads(data)
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
        self.params = self.get(self.learner, "learner_model_param", dict)

    def get(self, dictionary, key, value_type):
        """Get an entry of a dictionary, and check its type."""
        value = dictionary.get(key) if isinstance(dictionary, dict) else None
        if not isinstance(value, value_type):
            refuse(f"{self.where}: {key} is missing, or not what XGBoost writes")
        return value

    def count(self, params, key, low, high, default=None):
        """Get an integer in a range from parameters, which are stored as text."""
        return count(params.get(key, default), key, low, high=high, where=self.where)

    def model(self, labels):
        """Build the model."""
        name = self.get(self.get(self.learner, "objective", dict), "name", str)
        if name not in OBJECTIVES:
            refuse(
                f"{self.where}: the objective {name[:40]!r} is not supported; supported are "
                f"{', '.join(OBJECTIVES)}"
            )
        booster = self.get(self.learner, "gradient_booster", dict)
        booster_name = self.get(booster, "name", str)
        if booster_name not in ("gbtree", "dart"):
            refuse(
                f"{self.where}: the booster {booster_name[:40]!r} cannot be imported, only 'gbtree' "
                "and 'dart' can"
            )
        is_binary = name == BINARY
        num_class = self.count(self.params, "num_class", 0, MOST_CLASSES, default="0")
        self.count(self.params, "num_target", 1, 1, default="1")
        if is_binary != (num_class < 2):
            refuse(f"{self.where}: num_class is {num_class}, which does not fit {name}")
        k = 2 if is_binary else num_class
        d = self.count(self.params, "num_feature", 1, MOST_FEATURES)
        # Before XGBoost 3.4, the booster "dart" stored the trees in a nested booster, with the weights beside it.
        is_nested = booster_name == "dart" and "gbtree" in booster
        inner_booster = self.get(booster, "gbtree", dict) if is_nested else booster
        inner = self.get(inner_booster, "model", dict)
        stored_trees = self.get(inner, "trees", list)
        n_trees = len(stored_trees)
        weights = self.weights(booster if is_nested else inner, n_trees)
        groups = 1 if is_binary else k
        classes = self.integers(inner, "tree_info", n_trees)
        if n_trees and not 0 <= classes.min() <= classes.max() < groups:
            refuse(f"{self.where}: tree_info must hold classes below {k}")
        if is_binary:
            classes = np.ones(n_trees, dtype=np.int64)
        meta = {"imported": "XGBoost", "objective": name, "precision": PRECISION}
        rounds = self.best(self.rounds(inner, n_trees, groups), meta)
        levels = self.levels(inner, d)
        trees = [
            self.tree(tree, t, int(classes[t]), k, weights[t], levels)
            for t, tree in enumerate(stored_trees[: sum(rounds)])
        ]
        if len({tree.value.ndim for tree in trees}) > 1:
            refuse(f"{self.where}: some trees have one number per leaf, and others one per class")
        names = self.learner.get("feature_names")
        has_names = isinstance(names, list) and all(isinstance(column, str) for column in names)
        if has_names and len(names) == d:
            meta["feature_names"] = names
        return model_of(
            trees,
            rounds=rounds,
            bias=self.bias(name, k, bool(stored_trees)),
            n_features=d,
            meta=meta,
            link="softmax",
            where=self.where,
            labels=labels,
            names=levels,
        )

    def levels(self, inner, d):
        """Levels of categorical columns of a frame, by feature number: dict of int to list."""
        if inner.get("cats") is None:
            return {}
        encodings = self.get(inner, "cats", dict).get("enc")
        if not isinstance(encodings, list) or len(encodings) not in (0, d):
            refuse(f"{self.where}: cats must have an item in enc for each of the {d} features")
        levels = {j: self.levels_of(encoding) for j, encoding in enumerate(encodings)}
        return {j: names for j, names in levels.items() if len(names)}

    def levels_of(self, encoding):
        """Levels of a feature, text or integers; empty if it is not categorical."""
        size = size_of(encoding.get("values")) if isinstance(encoding, dict) else 0
        if not size:
            return []
        values = self.integers(encoding, "values", size)
        if "offsets" not in encoding:
            return values.tolist()
        ends = self.integers(encoding, "offsets", size_of(encoding["offsets"])).tolist()
        increase = all(a <= b for a, b in zip(ends, ends[1:], strict=False))
        if not ends or ends[0] != 0 or ends[-1] != size or not increase:
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
        attributes = {}
        if "attributes" in self.learner:
            attributes = self.get(self.learner, "attributes", dict)
        if "best_iteration" not in attributes or not rounds:
            return rounds
        n_rounds = 1 + self.count(attributes, "best_iteration", 0, len(rounds) - 1)
        if n_rounds < len(rounds):
            meta["rounds_left_out"] = len(rounds) - n_rounds
        return rounds[:n_rounds]

    def weights(self, booster, n):
        """Factors of the leaves of every tree, which DART changes after a tree is grown."""
        if "weight_drop" not in booster:
            return np.ones(n)
        weights = self.numbers(booster, "weight_drop", n, "iuf").astype(np.float64)
        if not np.isfinite(weights).all():
            refuse(f"{self.where}: weight_drop must hold finite numbers")
        return weights

    def rounds(self, inner, n, groups):
        """Number of trees of every round."""
        if "iteration_indptr" not in inner:  # before XGBoost 2, without vector leaves
            params = self.get(inner, "gbtree_model_param", dict)
            size = groups * self.count(params, "num_parallel_tree", 1, max(n, 1), default="1")
            if n % size:
                refuse(
                    f"{self.where}: there are {n} trees, which is not a multiple of the {size} of "
                    "a round"
                )
            return [size] * (n // size)
        ends = self.integers(inner, "iteration_indptr", size_of(inner["iteration_indptr"]))
        trees_per_round = np.diff(ends)
        if not len(ends) or ends[0] != 0 or ends[-1] != n or (trees_per_round < 1).any():
            refuse(
                f"{self.where}: iteration_indptr must increase from 0 to the number of trees, {n}"
            )
        return trees_per_round.tolist()

    def bias(self, name, k, trained):
        """Initial scores."""
        text = self.get(self.params, "base_score", str)
        try:
            values = np.array([float(word) for word in text.strip("[]").split(",")])
        except ValueError:
            values = np.zeros(0)
        allowed_lengths = (1,) if name == BINARY else (1, k)
        if len(values) not in allowed_lengths or not np.isfinite(values).all():
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
        if not trained and self.params.get("boost_from_average", "0") != "0":
            # base_score is not yet estimated from the labels; until then, XGBoost treats it as a margin.
            return np.array([0.0, values[0]])
        # As in XGBoost: in float32, and at least a millionth away from 0 and 1.
        one = np.float32(1)
        smallest = np.float32(1e-6)
        p = np.clip(np.float32(values[0]), smallest, one - smallest)
        return np.array([0.0, 0.0 - np.float32(math.log(one / p - one))])

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

    def integers(self, dictionary, key, n):
        """Get an array of n integers: int64."""
        return self.numbers(dictionary, key, n, "iu").astype(np.int64)

    def tree(self, stored, t, cls, k, weight, levels):
        """Convert a tree whose leaves hold a number, or one for each class."""
        where_of_file = self.where
        self.where = f"{where_of_file}: tree {t}"
        params = self.get(stored, "tree_param", dict)
        n = self.count(params, "num_nodes", 1, max(size_of(stored.get("left_children")), 1))
        width = self.count(params, "size_leaf_vector", 0, MOST_CLASSES, default="1")
        left = self.integers(stored, "left_children", n)
        right = self.integers(stored, "right_children", n)
        is_leaf = left < 0
        sets = self.sets(stored, n, is_leaf)
        feature = self.integers(stored, "split_indices", n)
        default_left = self.numbers(stored, "default_left", n, "iub") != 0
        condition = self.numbers(stored, "split_conditions", n, "iuf")
        with np.errstate(over="ignore", under="ignore"):
            condition = condition.astype(np.float32)
            threshold = floats_before(condition)
        value = condition
        if width > 1:
            value = self.leaf_vectors(stored, width, k, is_leaf, right)
        tree = Tree(
            left=left,
            right=right,
            leaf=is_leaf,
            feature=feature,
            threshold=threshold,
            missing_left=default_left,
            value=value.astype(np.float64) * weight,
            cls=cls,
            sets=sets,
        )
        # Named levels are excluded: unknown ones have no code in XGBoost, nor in a frame for this model.
        unknown_go_left = [
            node for node in sets if not default_left[node] and int(feature[node]) not in levels
        ]
        tree = with_unknown_codes_left(tree, unknown_go_left, self.where)
        self.where = where_of_file
        return tree

    def leaf_vectors(self, stored, width, k, is_leaf, index):
        """Values of the classes by node, of leaves with these indices of their vectors: (n, K)."""
        if width != k:
            refuse(f"{self.where}: the leaves have {width} numbers, but there are {k} classes")
        if "leaf_weights" not in stored:
            refuse(
                f"{self.where}: leaf_weights is missing; save the model with XGBoost 3.4 or newer"
            )
        size = size_of(stored["leaf_weights"])
        values = self.numbers(stored, "leaf_weights", size - size % k, "iuf")
        vectors = values.astype(np.float32).reshape(-1, k)
        if (is_leaf & ((index < 0) | (index >= len(vectors)))).any():
            refuse(f"{self.where}: right_children must hold indices of leaf_weights")
        return vectors[np.where(is_leaf, index, 0)]

    def sets(self, stored, n, is_leaf):
        """Codes that do not go left at categorical splits, by node number."""
        split_type = np.zeros(n, dtype=np.int64)
        if "split_type" in stored:
            split_type = self.numbers(stored, "split_type", n, "iu")
        if ((split_type != 0) & (split_type != 1)).any():
            refuse(
                f"{self.where}: split_type is {int(split_type.max())}; supported are 0 (numerical) "
                "and 1 (categorical)"
            )
        splits = np.flatnonzero((split_type == 1) & ~is_leaf).tolist()
        if not splits:
            return {}
        keys = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
        arrays = {key: stored.get(key, []) for key in keys}
        n_sets = size_of(arrays["categories_nodes"])
        nodes = self.integers(arrays, "categories_nodes", n_sets).tolist()
        begins = self.integers(arrays, "categories_segments", n_sets).tolist()
        sizes = self.integers(arrays, "categories_sizes", n_sets).tolist()
        codes = self.integers(arrays, "categories", size_of(arrays["categories"]))
        if (codes < 0).any():
            refuse(f"{self.where}: categories must not be negative")
        sets = {}
        for node, begin, size in zip(nodes, begins, sizes, strict=True):
            if not 0 <= begin <= begin + size <= len(codes):
                refuse(
                    f"{self.where}: categories_segments and categories_sizes must lie within "
                    f"the {len(codes)} categories"
                )
            sets[node] = Set(codes[begin : begin + size], left=False)
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
