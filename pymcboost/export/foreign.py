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

    ``sets`` holds categorical splits, as a `Set` by node number; thresholds of these nodes are ignored. ``shared``:
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
    if other := other_format(data[:8]):
        refuse(f"{name}: {other}")
    return data.removeprefix(MARK), name


def _read_what_fits(file, name):
    """Read a file or a pipe, if the free memory suffices for the results."""
    room = available_memory()
    most = None if room is None else room // MEMORY_A_BYTE
    size = os.fstat(file.fileno()).st_size  # 0 for a pipe
    parts = []
    while most is None or size <= most:
        part = file.read(CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size = max(size, len(parts) * CHUNK)
    raise MemoryError(
        f"{name}: the file has {in_words(size)} or more, and reading it takes about "
        f"{MEMORY_A_BYTE} times as much memory, but {in_words(room)} are free"
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
    seen = bytearray(len(left))
    todo = [(0, -1)]
    while todo:
        node, parent = todo.pop()
        if not 0 <= node < len(left):
            refuse(f"{where}: a split refers to node {node}, but there are only {len(left)} nodes")
        if seen[node] and not tree.shared:
            refuse(f"{where}: node {node} is reached by two paths, so this is not a tree")
        seen[node] = 1
        if parent >= 0:
            steps[parent] = len(splits) - parent
        if is_leaf[node]:
            leaves.append(node)
            continue
        todo += [(right[node], len(splits)), (left[node], -1)]
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
    leaves = np.ones(
        len(tree.left), dtype=np.float64
    )  # of the subtree of every node, counting shared leaves repeatedly
    left, right, leaf, feature = (
        array.tolist() for array in (tree.left, tree.right, tree.leaf, tree.feature)
    )
    threshold = tree.threshold.tolist()
    missing_left = tree.missing_left.tolist()
    value = list(tree.value)
    sets = dict(tree.sets)
    nodes = set(nodes)
    for node in reversed(splits):
        low, high = left[node], right[node]
        leaves[node] = leaves[low] + leaves[high]
        if node not in nodes:
            continue
        leaves[node] += min(leaves[low], leaves[high])
        new = len(left)
        left[node] = new
        missing_left[node] = True
        if leaves[high] <= leaves[low]:
            second = LARGEST
            missing = False
        else:
            second = 0.0
            missing = False
            sets[new] = sets.pop(node)
            threshold[node] = float(sets[new].codes.max(initial=0))
            right[node] = low
        for array, entry in zip(
            (left, right, leaf, feature, threshold, missing_left, value),
            (low, high, False, feature[node], second, missing, value[node]),
            strict=True,
        ):
            array.append(entry)
    if leaves[0] > max(MOST_COPIES * len(tree.left), FEW_LEAVES):
        refuse(
            f"{where}: its categorical splits send unknown codes and missing values to "
            f"different sides; converting them would take {leaves[0]:.3g} leaves instead of "
            f"{len(splits) + 1}"
        )
    return Tree(
        np.array(left),
        np.array(right),
        np.array(leaf),
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
        Levels by their codes there, for every feature that was a column of named levels.
    n_features : int
    where : str
        For messages.
    """

    def __init__(self, trees, names, n_features, where):
        self._order = {}
        levels = {}
        texts = {}
        for t, tree in enumerate(trees):
            for node, split in tree.sets.items():
                j = int(tree.feature[node])
                top = int(split.codes.max(initial=0))
                if not 0 <= j < n_features:
                    refuse(f"{where}: tree {t}: feature numbers must be from 0 to {n_features - 1}")
                if top >= MOST_LEVELS:
                    refuse(
                        f"{where}: tree {t} has a split on category {top}, but a model stores "
                        f"categories up to {MOST_LEVELS - 1}"
                    )
                levels[j] = max(levels.get(j, 1), top + 1)
        for j, level_names in names.items():
            if not 0 <= j < n_features:
                refuse(
                    f"{where}: feature {j} has named categories, but there are only "
                    f"{n_features} features"
                )
            shown = f"{where}: the categories of feature {j}"
            texts_of_levels = [text_of(level) for level in level_names]
            if levels.get(j, 1) > len(texts_of_levels):
                refuse(
                    f"{shown}: a split uses the code {levels[j] - 1}, but there are only "
                    f"{counted(len(texts_of_levels), 'name')}"
                )
            if not texts_of_levels:  # a column without values
                continue
            self._check(texts_of_levels, shown)
            order = sorted(range(len(texts_of_levels)), key=texts_of_levels.__getitem__)
            texts[j], levels[j] = [texts_of_levels[code] for code in order], len(texts_of_levels)
            self._order[j] = np.argsort(order)
        feature = np.array(sorted(levels), dtype=np.int64)
        all_names = tuple(texts.get(j) for j in feature.tolist())
        categories = Categories(
            feature, np.array([levels[j] for j in feature.tolist()], dtype=np.int64), all_names
        )
        self.categories = categories if len(feature) else None
        self._levels = levels

    @staticmethod
    def _check(names, shown):
        """Refuse names that a model file cannot store."""
        if len(names) > MOST_LEVELS:
            refuse(f"{shown}: there are {len(names)}, but a model supports at most {MOST_LEVELS}")
        seen_names = set()
        for name in names:
            if name is None or name in seen_names:
                refuse(
                    f"{shown}: "
                    f"{'one is missing' if name is None else f'{name!r} occurs twice, as text'}"
                )
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
            order = self._order.get(j)
            if split is None and order is None:
                continue
            goes_left = np.arange(self._levels[j]) <= tree.threshold[node]
            if split is not None:
                goes_left[:] = not split.left
                goes_left[split.codes] = split.left
            codes = np.flatnonzero(goes_left)
            codes = codes if order is None else order[codes]
            bits[i] = self.categories.packed(j, codes, bool(tree.missing_left[node]))
        return bits


def model_of(trees, rounds, bias, n_features, meta, link, where, labels=None, names=None):
    """Create a model from trees; ``rounds`` holds the number of trees of each round.

    Its meta has ``score_error``: no score differs by more from the true one, which leaves of float64 add up to.

    Parameters
    ----------
    labels : array-like, optional
        Class labels; None for 0 to K - 1.
    names : dict of int to list, optional
        See `Levels`.
    """
    classes, place = sorted_labels(labels, len(bias))
    vector = bool(trees) and trees[0].value.ndim == 2
    levels = Levels(trees, names or {}, n_features, where)
    builder = TreesBuilder(len(bias), n_features, vector, categories=levels.categories)
    error = np.abs(bias - rounded(bias, "a base score", where))
    size = np.abs(bias)
    terms = np.ones(len(bias))
    builder.bias[place] = bias
    ends = set(np.cumsum(rounds).tolist())
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
        to = slice(None) if vector else slice(tree.cls, tree.cls + 1)
        error[to] += np.abs(value - rounded(value, "a leaf", here)).max(axis=0)
        size[to] += np.abs(value).max(axis=0)
        terms[to] += 1
        value = value[:, np.argsort(place)] if vector else value
        cls = -1 if vector else int(place[tree.cls])
        builder.add_tree(
            feature,
            threshold,
            tree.missing_left[splits],
            right=steps,
            leaf=value,
            cls=cls,
            sets=sets,
        )
        if t + 1 in ends:
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
    integers = all(isinstance(label, int) and -(2**63) <= label < 2**63 for label in label_list)
    if not integers and not all(isinstance(label, str) for label in label_list):
        raise ValueError(
            f"labels must be 64-bit integers or strings; these are {label_list[:5]!r} of type "
            f"{label_array.dtype}"
        )
    if len(set(label_list)) < n_classes:
        twice = next(label for label in label_list if label_list.count(label) > 1)
        raise ValueError(f"labels must be distinct; {twice!r} occurs twice")
    order = sorted(range(n_classes), key=label_list.__getitem__)
    classes = np.array([label_list[k] for k in order], dtype=None if integers else object)
    return classes, np.argsort(order)


def rounded(values, name, where):
    """Round numbers to float32; refuse those that are not finite in float32."""
    if not (np.abs(values) <= LARGEST).all():
        refuse(f"{where}: {name} is not finite as float32 (magnitude up to 3.4e38)")
    return values.astype(np.float32).astype(np.float64)


def floats_below(values):
    """The largest float32 not above each number: float32 rows are on the same side of both."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        return np.where(
            near.astype(np.float64) > values, np.nextafter(near, np.float32(-np.inf)), near
        )


def floats_before(values):
    """Float32 thresholds t for which ``x <= t`` means ``x < value``, for every float32 number x that is not subnormal.

    They are the preceding numbers, except that -2^-126 replaces negative subnormal numbers: some processes treat
    these as 0, so 0 would count as negative. Bits are compared, because floats do not distinguish subnormal numbers
    there. No x is below minus infinity: t is then the lowest number, the only x for which the result is wrong.
    """
    before = np.nextafter(values, np.float32(-np.inf))
    bits = before.view(np.uint32)
    before = np.where((bits > 0x80000000) & (bits < 0x80800000), -np.finfo(np.float32).tiny, before)
    return np.where(values == -np.inf, np.float32(-LARGEST), before)


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
