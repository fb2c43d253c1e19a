"""Import of LightGBM models from their text format."""

import json
import os
import re
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from pymcboost.export.foreign import (
    LARGEST,
    MOST_CLASSES,
    MOST_FEATURES,
    Set,
    Tree,
    count,
    floats_below,
    model_of,
    read_bytes,
    refuse,
)
from pymcboost.model.model import Model
from pymcboost.threads import counted

OBJECTIVES = ("binary", "multiclass", "multiclassova")
VERSIONS = ("v3", "v4")
# All keys that LightGBM 3 and 4 write into models that can be imported. Files with other keys are refused, because
# these may change what the model computes.
HEAD_KEYS = {
    "tree",
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "feature_names",
    "monotone_constraints",
    "feature_infos",
    "tree_sizes",
}
TREE_KEYS = {
    "number",
    "num_leaves",
    "num_cat",
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_value",
    "leaf_weight",
    "leaf_count",
    "internal_value",
    "internal_weight",
    "internal_count",
    "is_linear",
    "shrinkage",
}
SET_KEYS = {"cat_boundaries", "cat_threshold"}
OBJECTIVE_WORDS = {"num_class", "sigmoid"}
# Maximum number of words of all sets of a tree.
MOST_WORDS = 1 << 31
# LightGBM treats values up to this magnitude as 0.
ZERO = np.float32(1e-35)
# Types of missing values in decision_type: there are none, or zeros.
NONE = 0
ZEROS = 1
# The parameter with the columns of codes, and the line with the categories of the frame.
CODED = re.compile(r"^\[categorical_feature: ([0-9,]+)\]$", re.MULTILINE)
CATEGORIES = re.compile(r"^pandas_categorical:(.*)$", re.MULTILINE)


def from_lightgbm(
    source: "str | os.PathLike[str] | Any",
    labels: Any = None,
    category_columns: "Sequence[int | str] | None" = None,
) -> Model:
    """Import a classifier of LightGBM.

    Parameters
    ----------
    source : str, path-like or Booster
        File of ``save_model``, or an object with a method ``model_to_string``. The objective must be "binary",
        "multiclass" or "multiclassova". Linear trees, random forests, models that treat zeros as missing, and
        categories above 65534 are not supported.
    labels : array-like of shape (K,), default=None
        Distinct labels, integers or strings, of the classes 0 to K - 1: ``classes_`` of a LightGBM estimator. LightGBM
        only stores the numbers. The labels need not be sorted; the classes of the model are.
    category_columns : list of int or str, default=None
        Numbers or names of the categorical columns of the pandas data frame. LightGBM stores their categories, but not
        which columns they belong to. This is needed if they are not just the categorical features, because of ordered
        categories or because of integer columns named in ``categorical_feature``. None assigns the categories to the
        categorical features, if their numbers agree. An empty list leaves out the categories, so that values are the
        codes of LightGBM.

    Returns
    -------
    Model
        The imported model.

    Raises
    ------
    ModelFormatError
        If the file is damaged, or contains something that a `Model` cannot represent.
    ValueError
        If the labels or the columns do not match the model.
    TypeError
        If the source is neither a file nor a booster, for example an estimator.

    Notes
    -----
    Finite float32 rows reach the same leaves: thresholds are rounded down to float32, and missing values go to their
    default side. Leaf values are rounded to float32. ``meta["score_error"]`` bounds the resulting error of a score.
    Classes whose scores differ by more than twice this bound keep their order.

    Categories of a data frame are matched by name in any order; `Model.categories` has them sorted. A category that did
    not occur in training is treated as missing, as in LightGBM. In arrays, categories are codes: positions in the
    sorted names, or the codes of LightGBM if there are no names. Numbers with a fraction are not codes; LightGBM drops
    the fraction.

    Examples
    --------
    >>> import lightgbm  # doctest: +SKIP
    >>> estimator = lightgbm.LGBMClassifier().fit(X, y)  # doctest: +SKIP
    >>> model = from_lightgbm(estimator.booster_, labels=estimator.classes_)  # doctest: +SKIP
    """
    if hasattr(source, "model_to_string"):
        return parsed(source.model_to_string(), "the booster", labels, category_columns)
    data, where = read_bytes(source)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        refuse(
            f"{where}: byte {error.start} is not UTF-8; give the text file that LightGBM's "
            "save_model writes"
        )
    return parsed(text, where, labels, category_columns)


def parsed(text, where, labels=None, category_columns=None):
    """Parse a text model."""
    text = text.replace("\r\n", "\n")
    blocks = text.split("\nTree=")
    head = fields(blocks[0])
    trees = blocks[1:]
    if not blocks[0].startswith("tree\n"):
        refuse(f"{where}: not a LightGBM text model: it does not begin with the line 'tree'")
    if head.get("version") not in VERSIONS:
        refuse(
            f"{where}: the text has version {head.get('version')!r}; supported are "
            f"{' and '.join(VERSIONS)}"
        )
    if "end of trees" not in (trees[-1] if trees else blocks[0]):
        refuse(f"{where}: the file was cut short: there is no line 'end of trees'")
    name, *objective_words = head.get("objective", "none").split() or ["none"]
    if name not in OBJECTIVES:
        refuse(
            f"{where}: the objective {name!r} is not one of a classifier; supported are "
            f"{', '.join(OBJECTIVES)}"
        )
    if "average_output" in head:
        refuse(
            f"{where}: this is a random forest (average_output), whose scores are means; only "
            "models that sum their trees can be imported"
        )
    check_keys(head, HEAD_KEYS, "the head", where)
    check_keys(
        [word.partition(":")[0] for word in objective_words],
        OBJECTIVE_WORDS,
        "the objective",
        where,
    )

    def integer(key, low, high):
        return count(head.get(key, "absent"), key, low, high, where)

    is_binary = name == "binary"
    if is_binary:
        trees_per_round = integer("num_class", 1, 1)
        classes = [1]
    else:
        trees_per_round = integer("num_class", 2, MOST_CLASSES)
        classes = range(trees_per_round)
    integer("num_tree_per_iteration", trees_per_round, trees_per_round)
    n_features = integer("max_feature_idx", 0, MOST_FEATURES - 1) + 1
    if len(trees) % trees_per_round:
        refuse(
            f"{where}: there are {len(trees)} trees, which is not a multiple of the "
            f"{trees_per_round} of an iteration"
        )
    meta = {"imported": f"LightGBM {head['version']}", "objective": name, "precision": 2.0**-50}
    names = head.get("feature_names", "").split(" ")
    if len(names) == n_features and names != [f"Column_{j}" for j in range(n_features)]:
        meta["feature_names"] = names
    model = model_of(
        [
            tree_of(block, f"{where}: tree {t}", classes[t % trees_per_round])
            for t, block in enumerate(trees)
        ],
        rounds=[trees_per_round] * (len(trees) // trees_per_round),
        bias=np.zeros(2 if is_binary else trees_per_round),
        n_features=n_features,
        meta=meta,
        link="none" if name == "multiclassova" else "softmax",
        where=where,
        labels=labels,
        names=named_levels(text, head, names, columns=category_columns, where=where),
    )
    slopes = [word.partition(":")[2] for word in objective_words if word.startswith("sigmoid:")]
    if not is_binary or not slopes:
        return model
    slope = numbers(slopes[0], "sigmoid", 1, where)[0]
    if not 1e-30 < slope < 1e30:
        refuse(f"{where}: sigmoid is {slope:g}; it must be above 0")
    return model if slope == 1 else model._with_link_temperature(1 / float(slope))


def named_levels(text, head, names, columns, where):
    """Levels of categorical columns of a frame, by feature number: dict of int to list."""
    levels = levels_of_frame(text, where)
    if columns is not None:
        columns = sorted({column_number(column, names) for column in columns})
        if columns and len(columns) != len(levels):
            raise ValueError(
                f"category_columns names {counted(len(columns), 'column')}, but the data frame "
                f"had {len(levels)} of categories"
            )
        return dict(zip(columns, levels, strict=False))
    if not levels:
        return {}
    code_columns = CODED.findall(text)
    largest_codes = codes_trained_on(head)
    if code_columns:
        columns = [int(number) for number in code_columns[-1].split(",") if number]
    else:
        columns = sorted(largest_codes)
    remedy = (
        "so the levels may belong to other columns; name the columns that were categories in "
        "category_columns"
    )
    if len(columns) != len(levels):
        refuse(
            f"{where}: the data frame had {len(levels)} columns of categories, but the model "
            f"has {len(columns)} categorical features, {remedy}"
        )
    for j, column_levels in zip(columns, levels, strict=True):
        if largest_codes.get(j, -1) >= len(column_levels):
            refuse(
                f"{where}: feature {j} had the code {largest_codes[j]}, but the column of categories "
                f"at its position has {counted(len(column_levels), 'level')}, {remedy}"
            )
    return dict(zip(columns, levels, strict=True))


def codes_trained_on(head):
    """Largest code of every categorical feature, by feature number, from feature_infos."""
    largest_codes = {}
    for j, info in enumerate(head.get("feature_infos", "").split(" ")):
        # A numeric feature has an interval in brackets, a categorical one its codes.
        if info and info != "none" and not info.startswith("["):
            codes = [int(code) for code in info.split(":") if code.isdecimal()]
            largest_codes[j] = max(codes, default=-1)
    return largest_codes


def levels_of_frame(text, where):
    """Levels of the categorical columns, in the order of the columns: list of lists."""
    lines = CATEGORIES.findall(text)
    if not lines:
        return []
    try:
        levels = json.loads(lines[-1]) or []
    except (ValueError, RecursionError) as error:
        refuse(f"{where}: pandas_categorical is not valid JSON: {error}")
    if not isinstance(levels, list) or not all(_is_list_of_levels(column) for column in levels):
        refuse(f"{where}: pandas_categorical must hold lists of text and numbers")
    return levels


def _is_list_of_levels(value):
    """Whether a value is a list of text and numbers."""
    return isinstance(value, list) and all(isinstance(level, (str, int, float)) for level in value)


def column_number(column, names):
    """Number of a column given by the user."""
    if isinstance(column, str):
        if column not in names:
            raise ValueError(
                f"category_columns: there is no column {column!r}; there are {names[:10]}"
            )
        return names.index(column)
    if not 0 <= index(column) < len(names):
        raise ValueError(
            f"category_columns: there is no column {column}; there are {len(names)}, numbered "
            "from 0"
        )
    return index(column)


def check_keys(keys, known_keys, name, where):
    """Refuse a part of the file that has an unknown key."""
    for key in keys:
        if key and key not in known_keys:
            refuse(
                f"{where}: {name} has the unknown key {key[:40]!r}, which may affect the "
                "scores; LightGBM 3 and 4 do not write it"
            )


def fields(block):
    """Parse the lines of a block into a dictionary of keys and values."""
    lines = block.split("\nend of trees")[0].split("\n")
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def tree_of(block, where, cls):
    """Parse a tree; its leaves come after its splits."""
    lines = fields("number=" + block)
    n = count(lines.get("num_leaves", "absent"), "num_leaves", 1, high=len(block), where=where)
    n_sets = count(lines.get("num_cat", "0"), "num_cat", 0, high=n - 1, where=where)
    if lines.get("is_linear", "0") != "0":
        refuse(
            f"{where}: this is a linear tree, with linear functions in its leaves; only "
            "constant leaves can be imported"
        )
    check_keys(lines, TREE_KEYS | SET_KEYS if n_sets else TREE_KEYS, "the tree", where)

    def integers(key, low, high):
        return whole_numbers(lines, key, n - 1, low, high, where)

    left = integers("left_child", -n, n - 2)
    right = integers("right_child", -n, n - 2)
    feature = integers("split_feature", 0, MOST_FEATURES - 1)
    decision = integers("decision_type", 0, 255)
    threshold = numbers(lines.get("threshold", ""), "threshold", n - 1, where)
    value = numbers(lines.get("leaf_value", ""), "leaf_value", n, where)
    is_categorical = (decision & 1) > 0
    sets = sets_of(lines, np.flatnonzero(is_categorical), threshold, n_sets, where)
    threshold = np.where(is_categorical, 0.0, threshold)
    # Missing values, and codes that are in no set, go right.
    decision = np.where(is_categorical, 0, decision)
    missing_type = decision >> 2 & 3
    default_left = (decision & 2) > 0
    zero_left = threshold >= 0
    if ((missing_type == ZEROS) & (default_left != zero_left)).any():
        refuse(
            f"{where}: zeros are treated as missing (zero_as_missing) and do not follow the "
            "threshold, which cannot be imported"
        )
    # If training had no missing values, NaN counts as 0.
    nan_left = np.where(missing_type == NONE, zero_left & ~is_categorical, default_left)
    # All values that count as 0 go where 0 goes.
    beside_zero = np.where(zero_left, ZERO, np.nextafter(-ZERO, -LARGEST, dtype=np.float32))
    threshold = np.where(np.abs(threshold) <= ZERO, beside_zero, np.minimum(threshold, LARGEST))
    return Tree(
        left=_children(left),
        right=_children(right),
        leaf=np.arange(2 * n - 1) >= n - 1,
        feature=feature,
        threshold=floats_below(threshold),
        missing_left=nan_left,
        value=np.append(np.zeros(n - 1), value),
        cls=cls,
        sets=sets,
    )


def _children(child):
    """Children by node, given those of the s splits: a leaf, ~number in the file, comes after the splits."""
    s = len(child)
    children = np.zeros(2 * s + 1, dtype=np.int64)
    children[:s] = np.where(child < 0, s - 1 - child, child)
    return children


def sets_of(lines, nodes, threshold, n_sets, where):
    """Codes that categorical splits send left, by split number: bits of words, lowest first."""
    if not n_sets:
        if len(nodes):
            refuse(f"{where}: decision_type marks a categorical split, but num_cat is 0")
        return {}
    ends = whole_numbers(lines, "cat_boundaries", n_sets + 1, low=0, high=MOST_WORDS, where=where)
    if ends[0] != 0 or (np.diff(ends) < 1).any():
        refuse(f"{where}: cat_boundaries must increase, starting from 0")
    n_words = int(ends[-1])
    words = whole_numbers(lines, "cat_threshold", n_words, low=0, high=2**32 - 1, where=where)
    words = words.astype("<u4")
    set_of_split = {}
    for node in nodes.tolist():
        number = threshold[node]
        if not (0 <= number < n_sets and number == np.floor(number)):
            refuse(
                f"{where}: the threshold of a categorical split must be the number of a set, "
                f"below {n_sets}"
            )
        words_of_set = words[ends[int(number)] : ends[int(number) + 1]]
        bits = np.unpackbits(words_of_set.view(np.uint8), bitorder="little")
        set_of_split[node] = Set(np.flatnonzero(bits), left=True)
    return set_of_split


def whole_numbers(lines, key, n, low, high, where):
    """Parse ``n`` integers in a range."""
    values = numbers(lines.get(key, ""), key, n, where)
    if ((values < low) | (values > high) | (values != np.floor(values))).any():
        refuse(f"{where}: {key} must hold integers from {low} to {high}")
    return values.astype(np.int64)


def numbers(text, key, n, where):
    """Parse ``n`` numbers, none of which may be NaN."""
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        refuse(f"{where}: {key} holds {text[:40]!r}, which is not a list of numbers")
    if len(values) != n:
        refuse(f"{where}: {key} must hold {n} numbers, but has {len(values)}")
    if np.isnan(values).any():
        refuse(f"{where}: {key} holds NaN")
    return values
