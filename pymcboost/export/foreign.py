"""Shared parts of the importers: trees as other libraries number them, and their conversion."""

import os
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pymcboost.data.archives import other_format
from pymcboost.model.builders import TreesBuilder
from pymcboost.model.categories import LONGEST_NAME, MOST_LEVELS, Categories, text_of
from pymcboost.model.file import ModelFormatError
from pymcboost.model.model import Model
from pymcboost.model.rows import own_labels
from pymcboost.threads import available_memory, counted, in_words

MOST_CLASSES = 65535
MOST_FEATURES = (1 << 31) - 1
# Bytes of memory per byte of a file: lists of numbers take more room than their digits.
MEMORY_A_BYTE = 6
CHUNK = 1 << 20
MARK = b"\xef\xbb\xbf"  # byte order mark, which some editors write
LARGEST = float(np.finfo(np.float32).max)
# Factor by which a tree may grow if unknown categories and missing values go different ways, and number of leaves
# that is always allowed.
MOST_COPIES = 32
FEW_LEAVES = 10_000


class Tree(NamedTuple):
    """Nodes with the numbers of their children; ``leaf`` marks leaves, and node 0 is the root.

    ``sets`` holds categorical splits, as a `Set` by node number; thresholds of these nodes are ignored. ``shared`` says
    whether subtrees may have several parents, as `with_unknown_codes_left` creates them.
    """

    left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray
    cls: int
    sets: dict[int, "Set"] = {}
    shared: bool = False


class Set(NamedTuple):
    """Codes that go left if ``left``; otherwise all other codes of the feature do.

    Unknown codes follow missing values.
    """

    codes: np.ndarray
    left: bool


def read_bytes(source):
    """Read a file; return its bytes, and its name for messages."""
    if not isinstance(source, (str, bytes, os.PathLike)):
        raise TypeError(
            f"give a file or a booster, not {type(source).__name__}; fitted estimators have "
            "one as .booster_ (LightGBM) or .get_booster() (XGBoost)"
        )
    name = os.fsdecode(source)
    with open(source, "rb") as file:
        data = _read_what_fits(file, name)
    problem = other_format(data[:8])
    if problem:
        refuse(f"{name}: {problem}")
    return data.removeprefix(MARK), name


def _read_what_fits(file, name):
    """Read a file or a pipe, if the free memory suffices for the results."""
    available = available_memory()
    largest = None if available is None else available // MEMORY_A_BYTE
    size = os.fstat(file.fileno()).st_size  # 0 for a pipe
    chunks = []
    while largest is None or size <= largest:
        chunk = file.read(CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        size = max(size, len(chunks) * CHUNK)
    raise MemoryError(
        f"{name}: the file has {in_words(size)} or more, and reading it takes about "
        f"{MEMORY_A_BYTE} times as much memory, but {in_words(available)} are free"
    )


def refuse(message: str) -> NoReturn:
    """Refuse a file."""
    raise ModelFormatError(message)


def preorder(tree, where):
    """Splits and leaves of a tree from left to right, and the offsets from splits to their right children.

    A shared subtree occurs once for each of its parents.
    """
    left = tree.left.tolist()
    right = tree.right.tolist()
    is_leaf = tree.leaf.tolist()
    splits = []
    leaves = []
    steps = []
    is_reached = bytearray(len(left))
    # Nodes that are still to be visited; right children with the number of their parent among the splits.
    waiting = [(0, -1)]
    while waiting:
        node, parent = waiting.pop()
        if not 0 <= node < len(left):
            refuse(f"{where}: a split refers to node {node}, but there are only {len(left)} nodes")
        if is_reached[node] and not tree.shared:
            refuse(f"{where}: node {node} is reached by two paths, so this is not a tree")
        is_reached[node] = 1
        if parent >= 0:
            steps[parent] = len(splits) - parent
        if is_leaf[node]:
            leaves.append(node)
            continue
        waiting.append((right[node], len(splits)))
        waiting.append((left[node], -1))
        splits.append(node)
        steps.append(0)
    return splits, leaves, steps


def with_unknown_codes_left(tree, nodes, where):
    """Send unknown codes left at these splits, while missing values go right.

    A set of a `Model` sends both the same way. So such a split becomes two splits that share a subtree: a set,
    followed by numbers against missing values; or codes beyond the set, followed by the set. The smaller subtree is
    the shared one. Negative numbers may go either way.
    """
    if not nodes:
        return tree
    splits, _, _ = preorder(tree, where)
    # Leaves of the subtree of every node, counting shared leaves repeatedly.
    n_leaves = np.ones(len(tree.left), dtype=np.float64)
    left = tree.left.tolist()
    right = tree.right.tolist()
    is_leaf = tree.leaf.tolist()
    feature = tree.feature.tolist()
    threshold = tree.threshold.tolist()
    missing_left = tree.missing_left.tolist()
    value = list(tree.value)
    sets = dict(tree.sets)
    nodes = set(nodes)
    for node in reversed(splits):
        left_child = left[node]
        right_child = right[node]
        n_leaves[node] = n_leaves[left_child] + n_leaves[right_child]
        if node not in nodes:
            continue
        n_leaves[node] += min(n_leaves[left_child], n_leaves[right_child])
        # The second split becomes the left child of the first one. Missing values go left at the first split, and
        # right at the second.
        second = len(left)
        left[node] = second
        missing_left[node] = True
        if n_leaves[right_child] <= n_leaves[left_child]:
            # The set, then all numbers against missing values.
            second_threshold = LARGEST
        else:
            # Codes up to the largest one of the set, then the set.
            second_threshold = 0.0
            sets[second] = sets.pop(node)
            threshold[node] = float(sets[second].codes.max(initial=0))
            right[node] = left_child
        left.append(left_child)
        right.append(right_child)
        is_leaf.append(False)
        feature.append(feature[node])
        threshold.append(second_threshold)
        missing_left.append(False)
        value.append(value[node])
    if n_leaves[0] > max(MOST_COPIES * len(tree.left), FEW_LEAVES):
        refuse(
            f"{where}: its categorical splits send unknown codes and missing values to "
            f"different sides; converting them would take {n_leaves[0]:.3g} leaves instead of "
            f"{len(splits) + 1}"
        )
    return Tree(
        left=np.array(left),
        right=np.array(right),
        leaf=np.array(is_leaf),
        feature=np.array(feature),
        threshold=np.array(threshold),
        missing_left=np.array(missing_left),
        value=np.array(value),
        cls=tree.cls,
        sets=sets,
        shared=True,
    )


class Levels:
    """Levels of categorical features: their names, and their codes in this model and in the other library.

    Parameters
    ----------
    trees : list of Tree
    names : dict of int to list
        Levels by their codes in the other library, for every feature that was a column of named levels.
    n_features : int
    where : str
        For messages.
    """

    def __init__(self, trees, names, n_features, where):
        self._n_levels = _n_levels(trees, n_features, where)
        self._new_codes = {}  # by feature with names: the codes in this model, by those of the other library
        sorted_names = {}
        for j, level_names in names.items():
            if not 0 <= j < n_features:
                refuse(
                    f"{where}: feature {j} has named categories, but there are only "
                    f"{n_features} features"
                )
            shown = f"{where}: the categories of feature {j}"
            texts = [text_of(level) for level in level_names]
            if self._n_levels.get(j, 1) > len(texts):
                refuse(
                    f"{shown}: a split uses the code {self._n_levels[j] - 1}, but there are only "
                    f"{counted(len(texts), 'name')}"
                )
            if not texts:  # a column without values
                continue
            self._check(texts, shown)
            order = sorted(range(len(texts)), key=texts.__getitem__)
            sorted_names[j] = [texts[code] for code in order]
            self._n_levels[j] = len(texts)
            self._new_codes[j] = np.argsort(order)
        self.categories = None
        features = sorted(self._n_levels)
        if features:
            self.categories = Categories(
                np.array(features, dtype=np.int64),
                np.array([self._n_levels[j] for j in features], dtype=np.int64),
                tuple(sorted_names.get(j) for j in features),
            )

    @staticmethod
    def _check(names, shown):
        """Refuse names that a model file cannot store."""
        if len(names) > MOST_LEVELS:
            refuse(f"{shown}: there are {len(names)}, but a model supports at most {MOST_LEVELS}")
        seen_names = set()
        for name in names:
            if name is None:
                refuse(f"{shown}: one is missing")
            if name in seen_names:
                refuse(f"{shown}: {name!r} occurs twice, as text")
            seen_names.add(name)
            try:
                n_bytes = len(name.encode())
            except UnicodeEncodeError as error:
                refuse(f"{shown}: a name is not valid Unicode text: {error}")
            if "\0" in name or n_bytes > LONGEST_NAME:
                refuse(
                    f"{shown}: {name[:40]!r} has a zero character, or is longer than "
                    f"{LONGEST_NAME} bytes"
                )

    def sets(self, tree, splits):
        """Bit sets of a tree by split number, as `TreesBuilder.add_tree` needs them.

        Thresholds on named levels become sets, too, because codes are sorted differently there.
        """
        bits = {}
        if self.categories is None:
            return bits
        for i, node in enumerate(splits):
            j = int(tree.feature[node])
            split = tree.sets.get(node)
            new_codes = self._new_codes.get(j)
            if split is None and new_codes is None:
                continue
            if split is None:
                goes_left = np.arange(self._n_levels[j]) <= tree.threshold[node]
            else:
                goes_left = np.full(self._n_levels[j], not split.left)
                goes_left[split.codes] = split.left
            codes = np.flatnonzero(goes_left)
            if new_codes is not None:
                codes = new_codes[codes]
            bits[i] = self.categories.packed(j, codes, bool(tree.missing_left[node]))
        return bits


def _n_levels(trees, n_features, where):
    """Number of codes that splits on sets need, by feature number."""
    n_levels = {}
    for t, tree in enumerate(trees):
        for node, split in tree.sets.items():
            j = int(tree.feature[node])
            largest_code = int(split.codes.max(initial=0))
            if not 0 <= j < n_features:
                refuse(f"{where}: tree {t}: feature numbers must be from 0 to {n_features - 1}")
            if largest_code >= MOST_LEVELS:
                refuse(
                    f"{where}: tree {t} has a split on category {largest_code}, but a model stores "
                    f"categories up to {MOST_LEVELS - 1}"
                )
            n_levels[j] = max(n_levels.get(j, 1), largest_code + 1)
    return n_levels


def model_of(trees, rounds, bias, n_features, meta, link, where, labels=None, names=None):
    """Create a model from trees; ``rounds`` holds the number of trees of each round.

    Its meta has ``score_error``, a bound on the difference between a score and the exact sum of the float64 leaves.

    Parameters
    ----------
    labels : array-like, optional
        Class labels; None for 0 to K - 1.
    names : dict of int to list, optional
        See `Levels`.
    """
    classes, position_of_class = sorted_labels(labels, len(bias))
    has_vectors = bool(trees) and trees[0].value.ndim == 2
    levels = Levels(trees, names or {}, n_features, where)
    builder = TreesBuilder(len(bias), n_features, has_vectors, categories=levels.categories)
    builder.bias[position_of_class] = bias
    # Rounding errors, magnitudes and numbers of the terms of each score.
    error = np.abs(bias - rounded(bias, "a base score", where))
    size = np.abs(bias)
    terms = np.ones(len(bias))
    ends_of_rounds = set(np.cumsum(rounds).tolist())
    for t, tree in enumerate(trees):
        here = f"{where}: tree {t}"
        splits, leaves, steps = preorder(tree, here)
        feature = tree.feature[splits]
        value = tree.value[leaves].astype(np.float64)
        if ((feature < 0) | (feature >= n_features)).any():
            refuse(f"{here}: feature numbers must be from 0 to {n_features - 1}")
        threshold = tree.threshold[splits]
        sets = levels.sets(tree, splits)
        threshold[list(sets)] = 0
        if not np.isfinite(threshold).all():
            refuse(f"{here}: a threshold is not finite as float32")
        changed = slice(None) if has_vectors else slice(tree.cls, tree.cls + 1)
        error[changed] += np.abs(value - rounded(value, "a leaf", here)).max(axis=0)
        size[changed] += np.abs(value).max(axis=0)
        terms[changed] += 1
        if has_vectors:
            value = value[:, np.argsort(position_of_class)]
        builder.add_tree(
            feature,
            threshold,
            tree.missing_left[splits],
            right=steps,
            leaf=value,
            cls=-1 if has_vectors else int(position_of_class[tree.cls]),
            sets=sets,
        )
        if t + 1 in ends_of_rounds:
            builder.end_round()
    error += terms * meta.pop("precision") * size
    meta["score_error"] = float(error.max())
    return Model.from_ensemble(builder.freeze(), classes, link=link, meta=meta)


def sorted_labels(labels, n_classes):
    """Class labels in the order of a model file, and the position of every class among them.

    Parameters
    ----------
    labels : array-like (n_classes,) or None
        Distinct integers or strings, in the order of the classes; None for 0 to n_classes - 1.

    Raises
    ------
    ValueError
        If they are not.
    """
    if labels is None:
        return np.arange(n_classes), np.arange(n_classes)
    label_array: Any = np.asarray(own_labels(labels))
    if label_array.shape != (n_classes,):
        raise ValueError(
            f"labels must hold {n_classes} labels, one per class in the order of the other "
            f"library, but it has shape {label_array.shape}"
        )
    label_list = label_array.tolist()
    if label_array.dtype.kind == "f" and all(label.is_integer() for label in label_list):
        label_list = [int(label) for label in label_list]
    are_integers = all(isinstance(label, int) and -(2**63) <= label < 2**63 for label in label_list)
    if not are_integers and not all(isinstance(label, str) for label in label_list):
        raise ValueError(
            f"labels must be 64-bit integers or strings; these are {label_list[:5]!r} of type "
            f"{label_array.dtype}"
        )
    if len(set(label_list)) < n_classes:
        repeated = next(label for label in label_list if label_list.count(label) > 1)
        raise ValueError(f"labels must be distinct; {repeated!r} occurs twice")
    order = sorted(range(n_classes), key=label_list.__getitem__)
    classes = np.array([label_list[k] for k in order], dtype=None if are_integers else object)
    return classes, np.argsort(order)


def rounded(values, name, where):
    """Round numbers to float32; refuse those that are not finite in float32."""
    if not (np.abs(values) <= LARGEST).all():
        refuse(f"{where}: {name} is not finite as float32 (magnitude up to 3.4e38)")
    return values.astype(np.float32).astype(np.float64)


def floats_below(values):
    """The largest float32 not above each number: float32 rows are on the same side of both."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = values.astype(np.float32)
        is_above = nearest.astype(np.float64) > values
        return np.where(is_above, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def floats_before(values):
    """Float32 thresholds t for which ``x <= t`` means ``x < value``, for every float32 number x that is not subnormal.

    They are the preceding numbers, except that -2^-126 replaces negative subnormal numbers: some processes treat
    these as 0, so 0 would count as negative. Bits are compared, because floats do not distinguish subnormal numbers
    there. No x is below minus infinity: t is then the lowest number, the only x for which the result is wrong.
    """
    preceding = np.nextafter(values, np.float32(-np.inf))
    bits = preceding.view(np.uint32)
    is_negative_subnormal = (bits > 0x80000000) & (bits < 0x80800000)
    preceding = np.where(is_negative_subnormal, -np.finfo(np.float32).tiny, preceding)
    return np.where(values == -np.inf, np.float32(-LARGEST), preceding)


def count(value, name, low, high, where):
    """Check an integer in a range."""
    try:
        number = None if isinstance(value, float) else int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not low <= number <= high:
        shown = str(value)[:40]
        refuse(f"{where}: {name} is {shown!r}; it must be an integer from {low} to {high}")
    return number
