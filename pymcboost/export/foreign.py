"""What the readers of other libraries' models share: trees as the others number them, and as ours are."""

import os
from typing import NamedTuple, NoReturn

import numpy as np

from pymcboost.model.builders import TreesBuilder
from pymcboost.model.file import ModelFormatError
from pymcboost.model.model import Model
from pymcboost.threads import available_memory, in_words

MOST_CLASSES, MOST_FEATURES = 65535, (1 << 31) - 1
# Bytes of memory for each byte of a file: lists of numbers are larger than their digits.
MEMORY_A_BYTE = 6
CHUNK = 1 << 20
LARGEST = float(np.finfo(np.float32).max)


class Tree(NamedTuple):
    """Nodes with the numbers of their children; ``leaf`` says which are leaves, and node 0 is the root."""

    left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray
    cls: int


def read_bytes(source):
    """The bytes of a file, and its name for messages."""
    if not isinstance(source, (str, bytes, os.PathLike)):
        raise TypeError(
            f"give a file or a booster, not {type(source).__name__}; a fitted estimator has one: .booster_ (LightGBM), "
            ".get_booster() (XGBoost)"
        )
    with open(source, "rb") as file:
        return _read_what_fits(file, os.fsdecode(source)), os.fspath(source)


def _read_what_fits(file, name):
    """All bytes of a file or a pipe, if the free memory has room for what is made of them."""
    room = available_memory()
    most = None if room is None else room // MEMORY_A_BYTE
    size = os.fstat(file.fileno()).st_size  # 0 of a pipe
    parts = []
    while most is None or size <= most:
        part = file.read(CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size = max(size, len(parts) * CHUNK)
    raise MemoryError(
        f"{name}: the file has {in_words(size)} or more, and reading it takes some {MEMORY_A_BYTE} times as much "
        f"memory; {in_words(room)} are free"
    )


def refuse(what: str) -> NoReturn:
    """Refuse a file."""
    raise ModelFormatError(what)


def preorder(tree, where):
    """Splits and leaves of a tree from left to right, and the steps from splits to their right children."""
    left, right, is_leaf = tree.left.tolist(), tree.right.tolist(), tree.leaf.tolist()
    splits, leaves, steps, seen = [], [], [], bytearray(len(left))
    todo = [(0, -1)]
    while todo:
        node, parent = todo.pop()
        if not 0 <= node < len(left):
            refuse(f"{where}: there is no node {node}, the child of a split; there are {len(left)}")
        if seen[node]:
            refuse(f"{where}: node {node} is reached in two ways; these are no trees")
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


def model_of(trees, rounds, bias, n_features, meta, link, where):
    """Model of trees; ``rounds`` has the number of trees of each.

    Its meta has ``score_error``: no score differs by more from the true one, which leaves of float64 add up to.
    """
    vector = bool(trees) and trees[0].value.ndim == 2
    builder = TreesBuilder(len(bias), n_features, vector)
    error, size, terms = np.abs(bias - rounded(bias, "a base score", where)), np.abs(bias), np.ones(len(bias))
    builder.bias[:] = bias
    ends = set(np.cumsum(rounds).tolist())
    for t, tree in enumerate(trees):
        here = f"{where}: tree {t}"
        splits, leaves, steps = preorder(tree, here)
        feature, value = tree.feature[splits], tree.value[leaves].astype(np.float64)
        if ((feature < 0) | (feature >= n_features)).any():
            refuse(f"{here}: features must be from 0 to {n_features - 1}")
        threshold = tree.threshold[splits]
        if not np.isfinite(threshold).all():
            refuse(f"{here}: a threshold is not finite in float32")
        to = slice(None) if vector else slice(tree.cls, tree.cls + 1)
        error[to] += np.abs(value - rounded(value, "a leaf", here)).max(axis=0)
        size[to] += np.abs(value).max(axis=0)
        terms[to] += 1
        builder.add_tree(feature, threshold, tree.missing_left[splits], steps, value, -1 if vector else tree.cls)
        if t + 1 in ends:
            builder.end_round()
    error += terms * meta.pop("precision") * size
    classes = np.arange(len(bias))
    meta["score_error"] = float(error.max())
    return Model.from_ensemble(builder.freeze(), classes, link=link, meta=meta)


def rounded(values, what, where):
    """Numbers rounded to float32; refused where they are not finite in it."""
    if not (np.abs(values) <= LARGEST).all():
        refuse(f"{where}: {what} is not finite in float32 (magnitude up to 3.4e38)")
    return values.astype(np.float32).astype(np.float64)


def floats_below(values):
    """The largest float32 that is not above each number: rows of float32 are on the same side of both."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        return np.where(near.astype(np.float64) > values, np.nextafter(near, np.float32(-np.inf)), near)


def floats_before(values):
    """Numbers t of float32 for which ``x <= t`` is ``x < value``, for every x of float32 that is not subnormal.

    They are the numbers just before, but -2^-126 in place of the subnormal ones below 0: some processes take these for
    0, so that 0 would count as below 0. Bits are compared, since floats say nothing of subnormal numbers there. No x is
    below minus infinity: there t is the lowest number, the only one that counts as below although it is not.
    """
    before = np.nextafter(values, np.float32(-np.inf))
    bits = before.view(np.uint32)
    before = np.where((bits > 0x80000000) & (bits < 0x80800000), -np.finfo(np.float32).tiny, before)
    return np.where(values == -np.inf, np.float32(-LARGEST), before)


def count(value, what, low, high, where):
    """An integer in a range."""
    try:
        number = None if isinstance(value, float) else int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not low <= number <= high:
        shown = str(value)[:40]
        refuse(f"{where}: {what} is {shown!r}; it must be an integer from {low} to {high}")
    return number
