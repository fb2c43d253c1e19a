"""Models of LightGBM, from the text that it saves."""

import os
from typing import Any

import numpy as np

from pymcboost.export.foreign import (
    LARGEST,
    MOST_CLASSES,
    MOST_FEATURES,
    Tree,
    count,
    floats_below,
    model_of,
    read_bytes,
    refuse,
)
from pymcboost.model.model import Model

OBJECTIVES = ("binary", "multiclass", "multiclassova")
VERSIONS = ("v3", "v4")
# Every line that LightGBM 3 and 4 write into models that can be imported. A file with another one is refused, since it
# may change what the model computes.
HEAD_KEYS = {
    "tree", "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective",
    "feature_names", "monotone_constraints", "feature_infos", "tree_sizes",
}  # fmt: skip
TREE_KEYS = {
    "number", "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child",
    "right_child", "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count",
    "is_linear", "shrinkage",
}  # fmt: skip
OBJECTIVE_WORDS = {"num_class", "sigmoid"}
# Values as near to 0 as this float32 are 0 to LightGBM.
ZERO = np.float32(1e-35)
NONE, ZEROS = 0, 1


def from_lightgbm(source: "str | os.PathLike[str] | Any") -> Model:
    """A classifier of LightGBM as a `Model`.

    Finite rows of float32 fall into the same leaves: thresholds are rounded down to float32, and missing values go to
    their default side. Leaves are rounded to float32. ``meta["score_error"]`` bounds what that does to a score: classes
    whose scores differ by more than twice as much keep their order.

    Parameters
    ----------
    source : str, path-like or Booster
        File of ``save_model``, or what has ``model_to_string``. The objective is "binary", "multiclass" or
        "multiclassova". Categorical features, linear trees, random forests and missing zeros are refused.

    Returns
    -------
    Model
        With the labels 0 to K - 1, which is what LightGBM keeps.

    Raises
    ------
    ModelFormatError
        If the file is damaged or holds what a `Model` cannot.
    TypeError
        If the source is neither a file nor a booster, as an estimator of scikit-learn's kind.
    """
    if hasattr(source, "model_to_string"):
        return parsed(source.model_to_string(), "the booster")
    data, where = read_bytes(source)
    try:
        return parsed(data.decode(), where)
    except UnicodeDecodeError as error:
        refuse(f"{where}: byte {error.start} is not UTF-8; give the text that LightGBM's save_model writes")


def parsed(text, where):
    """The model of a text."""
    blocks = text.replace("\r\n", "\n").split("\nTree=")
    head, trees = fields(blocks[0]), blocks[1:]
    if not blocks[0].startswith("tree\n"):
        refuse(f"{where}: not a text model of LightGBM: it does not begin with the line 'tree'")
    if head.get("version") not in VERSIONS:
        refuse(f"{where}: version {head.get('version')!r} of LightGBM's text; known are {' and '.join(VERSIONS)}")
    if "end of trees" not in (trees[-1] if trees else blocks[0]):
        refuse(f"{where}: cut off: there is no line 'end of trees'")
    name, *more = head.get("objective", "none").split() or ["none"]
    if name not in OBJECTIVES:
        refuse(f"{where}: the objective {name!r} is not that of a classifier; known are {', '.join(OBJECTIVES)}")
    if "average_output" in head:
        refuse(f"{where}: a random forest (average_output), whose scores are means; only sums can be imported")
    check_keys(head, HEAD_KEYS, "the head", where)
    check_keys([word.partition(":")[0] for word in more], OBJECTIVE_WORDS, "the objective", where)
    binary, need = name == "binary", lambda key, low, high: count(head.get(key, "absent"), key, low, high, where)
    n_classes = need("num_class", 1 if binary else 2, 1 if binary else MOST_CLASSES)
    need("num_tree_per_iteration", n_classes, n_classes)
    n_features = need("max_feature_idx", 0, MOST_FEATURES - 1) + 1
    if len(trees) % n_classes:
        refuse(f"{where}: there are {len(trees)} trees, no multiple of the {n_classes} of an iteration")
    classes = [1] if binary else range(n_classes)
    made = [tree_of(block, f"{where}: tree {t}", classes[t % n_classes]) for t, block in enumerate(trees)]
    bias, rounds = np.zeros(2 if binary else n_classes), [n_classes] * (len(trees) // n_classes)
    meta = {"imported": f"LightGBM {head['version']}", "objective": name, "precision": 2.0**-50}
    names = head.get("feature_names", "").split(" ")
    if len(names) == n_features and names != [f"Column_{j}" for j in range(n_features)]:
        meta["feature_names"] = names
    link = "none" if name == "multiclassova" else "softmax"
    model = model_of(made, rounds, bias, n_features, meta, link, where)
    slope = [word.removeprefix("sigmoid:") for word in more if word.startswith("sigmoid:")] if binary else []
    factor = numbers(slope[0], "sigmoid", 1, where)[0] if slope else 1.0
    if not 1e-30 < factor < 1e30:
        refuse(f"{where}: sigmoid is {factor:g}; it must be above 0")
    return model if factor == 1 else model._with_link_temperature(1 / float(factor))


def check_keys(keys, known, name, where):
    """Refuse a part of the file that has a key whose meaning is not known here."""
    for key in keys:
        if key and key not in known:
            refuse(
                f"{where}: {name} has the key {key[:40]!r}, which LightGBM 3 and 4 do not write, and which may change "
                "scores"
            )


def fields(block):
    """The lines of a block as key -> value."""
    lines = block.split("\nend of trees")[0].split("\n")
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def tree_of(block, where, cls):
    """A tree, whose leaves come after its splits."""
    has = fields("number=" + block)
    n = count(has.get("num_leaves", "absent"), "num_leaves", 1, len(block), where)
    if has.get("num_cat", "0") != "0":
        refuse(f"{where}: a categorical split (num_cat={has['num_cat'][:20]}); only numerical ones can be imported")
    if has.get("is_linear", "0") != "0":
        refuse(f"{where}: a linear tree, which has linear functions in its leaves; only numbers can be imported")
    check_keys(has, TREE_KEYS, "the tree", where)

    def whole(key, low, high):
        values = numbers(has.get(key, ""), key, n - 1, where)
        if ((values < low) | (values > high) | (values != np.floor(values))).any():
            refuse(f"{where}: {key} must hold integers from {low} to {high}")
        return values.astype(np.int64)

    left, right = (whole(f"{side}_child", -n, n - 2) for side in ("left", "right"))
    # A leaf is ~number there, and comes after the n - 1 splits here.
    left, right = (np.where(child < 0, n - 2 - child, child) for child in (left, right))
    feature, decision = whole("split_feature", 0, MOST_FEATURES - 1), whole("decision_type", 0, 255)
    threshold = numbers(has.get("threshold", ""), "threshold", n - 1, where)
    value = numbers(has.get("leaf_value", ""), "leaf_value", n, where)
    if (decision & 1).any():
        refuse(f"{where}: a categorical split (decision_type); only numerical ones can be imported")
    missing, default_left = decision >> 2 & 3, (decision & 2) > 0
    zero_left = threshold >= 0
    if ((missing == ZEROS) & (default_left != zero_left)).any():
        refuse(f"{where}: zeros are missing values (zero_as_missing) and go another way than the threshold says")
    # Where no value was missing in the training, NaN counts as 0.
    nan_left = np.where(missing == NONE, zero_left, default_left)
    # All that is 0 goes where 0 goes.
    around = np.where(zero_left, ZERO, np.nextafter(-ZERO, -LARGEST, dtype=np.float32))
    threshold = np.where(np.abs(threshold) <= ZERO, around, np.minimum(threshold, LARGEST))
    rest = np.zeros(n)
    return Tree(
        np.append(left, rest).astype(np.int64),
        np.append(right, rest).astype(np.int64),
        np.arange(2 * n - 1) >= n - 1,
        feature,
        floats_below(threshold),
        nan_left,
        np.append(np.zeros(n - 1), value),
        cls,
    )


def numbers(text, key, n, where):
    """So many numbers, of which none is NaN."""
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        refuse(f"{where}: {key} holds {text[:40]!r}, which is no list of numbers")
    if len(values) != n:
        refuse(f"{where}: {key} must hold {n} numbers; there are {len(values)}")
    if np.isnan(values).any():
        refuse(f"{where}: {key} holds NaN")
    return values
