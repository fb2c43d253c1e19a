"""Packed trees: thresholds and leaves are stored as indices of a few bits into shared tables."""

import struct
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from pymcboost.model.arrays import narrow, running_sums
from pymcboost.model.kind import Kind
from pymcboost.model.trees import Trees

# Maximum number of values in the table of leaves, and largest multiple of the step to which leaves are rounded.
MOST_VALUES = 256
LARGEST = 127
# Bits of the step, few enough that its multiples are exact in half precision.
STEP_BITS = 4
# Number of items whose bits are unpacked at once: a multiple of 8, so that each part ends at a byte.
BLOCK = 1 << 16
# Flags of the header: trees of one class, missing values that go left, half-precision thresholds, half-precision
# leaves.
CLASSES = 1
MISSING = 2
HALF = 4
HALF_LEAVES = 8
HEADER = "<IIIIIH10B"
ITEMS = {1: 1, 2: 2, 4: 3}
ONLY = (
    "layout='packed' is for trees whose leaf values are summed, without {}; save the model with "
    "layout='list'"
)


@dataclass(frozen=True, eq=False)
class PackedTrees(Kind):
    """Packed trees: the bytes of the section, and the common properties of all kinds."""

    KIND = 7
    NAME = "packed trees"
    share_of = Trees.share_of

    data: np.ndarray
    rounds: np.ndarray | None
    bias: np.ndarray
    n_features: int

    @classmethod
    def of(cls, ensemble, leaves):
        """Pack a checked model; ``leaves`` is the type to which its leaves are rounded."""
        return packed(ensemble, leaves)

    def sections(self):
        """See `Kind`."""
        rounds = [] if self.rounds is None else [("RNDS", self.rounds)]
        return [("PACK", self.data), *rounds]

    @classmethod
    def from_sections(cls, sections, header):
        """Unpack to `Trees`."""
        return unpacked(sections, header)

    @classmethod
    def layout_of(cls, sections):
        """See `Kind`."""
        return "packed"

    @classmethod
    def leaves_of(cls, sections):
        """See `Kind`."""
        return "float16" if sections["PACK"][22] & HALF_LEAVES else "float32"

    @staticmethod
    def lines(facts):
        """The same lines as for trees."""
        return Trees.lines(facts)


def packed(ensemble, leaves):
    """See `PackedTrees.of`."""
    if ensemble.KIND != Trees.KIND:
        raise ValueError(f"layout='packed' is for trees, not for a {ensemble.NAME}")
    without = {
        "categories": ensemble.subset,
        "base classes": ensemble.base,
        "a code": ensemble.code,
    }
    without["covers (remove them with with_covers(None))"] = ensemble.cover
    for name, part in without.items():
        if part is not None:
            raise ValueError(ONLY.format(name))
    ensemble = ensemble.dense()
    if leaves != "float32":
        ensemble = (
            ensemble.half()
            if leaves == "float16"
            else replace(ensemble, leaf=rounded(ensemble.leaf))
        )
    value, leaf = np.unique(ensemble.leaf.astype(np.float32), return_inverse=True)
    if len(value) > MOST_VALUES:
        raise ValueError(
            f"the leaves have {len(value)} different values, but layout='packed' has room for "
            f"{MOST_VALUES}; use leaves='int8', which rounds them, or train with leaf_levels "
            "and a constant learning_rate"
        )
    rounds = None if (np.diff(ensemble.rounds) == 1).all() else narrow(np.diff(ensemble.rounds))
    leaf = leaf.reshape(ensemble.leaf.shape)
    data = np.frombuffer(_bytes(ensemble, value, leaf), dtype=np.uint8)
    return PackedTrees(data, rounds, ensemble.bias, ensemble.n_features)


def rounded(leaf):
    """Round leaves to multiples, up to 127, of a 4-bit step that just fits the largest."""
    largest = np.abs(leaf).max(initial=0)
    if not largest:
        return leaf
    for n in range(LARGEST, LARGEST // 2, -1):  # keep leaves that are already rounded
        step = float(largest) / n
        if (
            np.ldexp(np.frexp(step)[0], STEP_BITS) % 1 == 0
            and not (np.fmod(leaf.astype(np.float64), step)).any()
        ):
            return leaf
    mantissa, exponent = np.frexp(float(largest) / LARGEST)
    step = np.ldexp(np.ceil(np.ldexp(mantissa, STEP_BITS)), int(exponent) - STEP_BITS)
    if np.rint(largest / step) * step > np.finfo(np.float32).max:
        raise ValueError(
            f"leaves='int8' cannot store a leaf of {largest:g}: its rounded value is beyond float32"
        )
    return (np.rint(leaf.astype(np.float64) / step) * step).astype(np.float32) + np.float32(0)


def _bytes(trees, value, leaf):
    """Bytes of the section PACK. ``value``: table of leaf values; ``leaf``: indices into it, by leaf of the trees."""
    used, feature = np.unique(trees.feature, return_inverse=True)
    cells = np.unique(np.stack((feature, _ordered(trees.threshold))), axis=1)
    first = np.searchsorted(cells[0], np.arange(len(used) + 1))
    cell = _place(cells, np.stack((feature, _ordered(trees.threshold))))
    sizes = np.diff(trees.offset)
    least = int(sizes.min(initial=1 << 31)) if len(sizes) else 0
    flags = CLASSES * (trees.cls is not None) + MISSING * bool(trees.nan_left.any())
    threshold = _unordered(cells[1])
    used, first = narrow(used), narrow(first)
    splits = [feature, cell - first[feature].astype(np.int64), trees.right - 1]
    cls = np.zeros(len(trees), dtype=np.int64) if trees.cls is None else trees.cls
    item = leaf.ravel()
    bits = [_width(numbers) for numbers in (sizes - least, *splits)]
    bits += [max(1, _width(item)), _width(cls)]
    flags += HALF * _is_half(threshold) + HALF_LEAVES * _is_half(value)
    threshold = threshold.astype("<f2" if flags & HALF else "<f4")
    value = value.astype("<f2" if flags & HALF_LEAVES else "<f4")
    header = struct.pack(
        HEADER,
        len(trees),
        len(feature),
        len(cells[0]),
        len(used),
        least,
        len(value),
        flags,
        *bits,
        ITEMS[used.itemsize],
        ITEMS[first.itemsize],
        0,
    )
    splits += [trees.nan_left.astype(np.int64)] if flags & MISSING else []
    streams = [[sizes - least], [cls], splits, [item]]
    widths = [bits[:1], bits[5:], [*bits[1:4], 1], bits[4:5]]
    parts = [header, used.tobytes(), first.tobytes(), threshold.tobytes(), value.tobytes()]
    return b"".join([*parts, *(_stream(*both) for both in zip(streams, widths, strict=True))])


def streams(data, n_classes):
    """Split PACK into tables and bit streams with their widths."""
    head = struct.unpack(HEADER, data[:32].tobytes())
    n, s, n_thresholds, n_features, least, n_values, flags = head[:7]
    size, feature, threshold, right, leaf, cls, of_feature, of_first, _ = head[7:]
    split = [feature, threshold, right] + [1] * bool(flags & MISSING)
    each = 1 if flags & CLASSES else n_classes
    counts = {"size": n, "class": n, "split": s, "leaf": (s + n) * each}
    widths = {"size": size, "class": cls, "split": sum(split), "leaf": leaf}
    offset = 32
    tables = []
    bits = {}
    unsigned = {1: "u1", 2: "<u2", 3: "<u4"}
    for count, dtype in (
        (n_features, unsigned[of_feature]),
        (n_features + 1, unsigned[of_first]),
        (n_thresholds, "<f2" if flags & HALF else "<f4"),
        (n_values, "<f2" if flags & HALF_LEAVES else "<f4"),
    ):
        end = offset + count * np.dtype(dtype).itemsize
        tables.append(data[offset:end].view(dtype))
        offset = end
    for name, count in counts.items():
        end = offset + (count * widths[name] + 7) // 8
        bits[name] = data[offset:end]
        offset = end
    of_feature, of_first, threshold, value = tables
    return SimpleNamespace(
        n_trees=n,
        n_splits=s,
        least=least,
        own=bool(flags & CLASSES),
        n_bytes=offset,
        counts=counts,
        widths=widths,
        split_widths=split,
        bits=bits,
        feature=of_feature,
        first=of_first,
        threshold=threshold,
        value=value,
    )


def unpacked(sections, header):
    """Unpack a file to `Trees`."""
    k = header.n_classes
    streams_of_model = streams(sections["PACK"], k)
    size, cls = (
        _numbers(
            streams_of_model.bits[name],
            streams_of_model.counts[name],
            [streams_of_model.widths[name]],
        )[0]
        for name in ("size", "class")
    )
    feature, cell, right, *nan_left = _numbers(
        streams_of_model.bits["split"], streams_of_model.n_splits, streams_of_model.split_widths
    )
    cell = cell + streams_of_model.first.astype(np.int64)[feature]
    return Trees(
        running_sums(size + streams_of_model.least),
        streams_of_model.feature.astype(np.int64)[feature],
        streams_of_model.threshold.astype(np.float32)[cell],
        nan_left[0].astype(bool) if nan_left else np.zeros(streams_of_model.n_splits, dtype=bool),
        1 + right,
        _leaves(streams_of_model, k),
        cls if streams_of_model.own else None,
        None,
        running_sums(sections.get("RNDS", np.ones(streams_of_model.n_trees, dtype=np.int64))),
        sections["BIAS"],
        header.n_features,
    )


def _leaves(streams_of_model, k):
    """Leaves of all trees: one number each, or one for each class."""
    # uint8 is enough, because at most `MOST_VALUES` leaves differ.
    (number,) = _numbers(
        streams_of_model.bits["leaf"],
        streams_of_model.counts["leaf"],
        [streams_of_model.widths["leaf"]],
        dtype=np.uint8,
    )
    leaf = streams_of_model.value.astype(np.float32)[number]
    return leaf if streams_of_model.own else leaf.reshape(-1, k)


def _ordered(threshold):
    """Convert float32 to integers with the same order."""
    bits = threshold.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _unordered(number):
    return np.where(number < 0, -number | 1 << 31, number).astype(np.uint32).view(np.float32)


def _place(cells, cells_to_find):
    """Positions of the columns of ``cells_to_find`` among the sorted columns of ``cells``."""
    keys = [pair[0] * (1 << 33) + pair[1] + (1 << 32) for pair in (cells, cells_to_find)]
    return np.searchsorted(*keys)


def _is_half(values):
    """Whether numbers are exact in half precision."""
    with np.errstate(over="ignore"):
        return bool((values.astype(np.float16).astype(np.float32) == values).all())


def _width(numbers):
    """Number of bits of the largest number."""
    return int(numbers.max(initial=0)).bit_length()


def _stream(numbers, widths):
    """Pack items, each with one number from every array, into bytes, lowest bit first."""
    parts = []
    for begin in range(0, len(numbers[0]), BLOCK):
        columns = [
            values[begin : begin + BLOCK] >> bit & 1
            for values, width in zip(numbers, widths, strict=False)
            for bit in range(width)
        ]
        parts.append(np.packbits(np.array(columns, dtype=np.uint8).T, bitorder="little").tobytes())
    return b"".join(parts)


def _numbers(data, count, widths, dtype=None):
    """Unpack the arrays of `_stream`; int64 by default."""
    dtype = dtype or np.int64
    size = sum(widths)
    ends = np.cumsum(widths)
    arrays = [np.zeros(count, dtype=dtype) for _ in widths]
    for begin in range(0, count if size else 0, BLOCK):
        n = min(BLOCK, count - begin)
        first_byte = begin * size // 8
        bits = np.unpackbits(
            data[first_byte : first_byte + BLOCK * size // 8], count=n * size, bitorder="little"
        ).reshape(n, size)
        for numbers, end, width in zip(arrays, ends, widths, strict=True):
            for bit in range(width):
                numbers[begin : begin + n] |= bits[:, end - width + bit].astype(dtype) << bit
    return arrays
