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
# Codes of unsigned integers, by their bytes.
INTEGER_CODES = {1: 1, 2: 2, 4: 3}
INTEGERS = {1: "u1", 2: "<u2", 3: "<u4"}
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
        """Sections of a file: the packed trees, and the rounds if some have several trees."""
        rounds = [] if self.rounds is None else [("RNDS", self.rounds)]
        return [("PACK", self.data), *rounds]

    @classmethod
    def from_sections(cls, sections, header):
        """Unpack to `Trees`."""
        return unpacked(sections, header)

    @classmethod
    def layout_of(cls, sections):
        """Layout of a file with these sections."""
        return "packed"

    @classmethod
    def leaves_of(cls, sections):
        """Type of the leaves in a file with these sections."""
        return "float16" if sections["PACK"][22] & HALF_LEAVES else "float32"

    @staticmethod
    def lines(facts):
        """Lines in ``mcboost-info``, as for trees."""
        return Trees.lines(facts)


def packed(ensemble, leaves):
    """Pack checked trees; ``leaves`` is the type to which their leaves are rounded."""
    if ensemble.KIND != Trees.KIND:
        raise ValueError(f"layout='packed' is for trees, not for a {ensemble.NAME}")
    unsupported = {
        "categories": ensemble.subset,
        "base classes": ensemble.base,
        "a code": ensemble.code,
        "covers (remove them with with_covers(None))": ensemble.cover,
    }
    for name, array in unsupported.items():
        if array is not None:
            raise ValueError(ONLY.format(name))
    ensemble = ensemble.dense()
    if leaves == "float16":
        ensemble = ensemble.half()
    elif leaves == "int8":
        ensemble = replace(ensemble, leaf=rounded(ensemble.leaf))
    value, leaf = np.unique(ensemble.leaf.astype(np.float32), return_inverse=True)
    if len(value) > MOST_VALUES:
        raise ValueError(
            f"the leaves have {len(value)} different values, but layout='packed' has room for "
            f"{MOST_VALUES}; use leaves='int8', which rounds them, or train with leaf_levels "
            "and a constant learning_rate"
        )
    trees_per_round = np.diff(ensemble.rounds)
    rounds = None if (trees_per_round == 1).all() else narrow(trees_per_round)
    data = np.frombuffer(_bytes(ensemble, value, leaf.ravel()), dtype=np.uint8)
    return PackedTrees(data, rounds, ensemble.bias, ensemble.n_features)


def rounded(leaf):
    """Round leaves to multiples, up to 127, of a 4-bit step that just fits the largest."""
    largest = np.abs(leaf).max(initial=0)
    if not largest:
        return leaf
    # Leaves that are already multiples of such a step stay.
    for n in range(LARGEST, LARGEST // 2, -1):
        step = float(largest) / n
        has_few_bits = np.ldexp(np.frexp(step)[0], STEP_BITS) % 1 == 0
        if has_few_bits and not np.fmod(leaf.astype(np.float64), step).any():
            return leaf
    mantissa, exponent = np.frexp(float(largest) / LARGEST)
    step = np.ldexp(np.ceil(np.ldexp(mantissa, STEP_BITS)), int(exponent) - STEP_BITS)
    if np.rint(largest / step) * step > np.finfo(np.float32).max:
        raise ValueError(
            f"leaves='int8' cannot store a leaf of {largest:g}: its rounded value is beyond float32"
        )
    return (np.rint(leaf.astype(np.float64) / step) * step).astype(np.float32) + np.float32(0)


def _bytes(trees, value, leaf):
    """Bytes of the section PACK. ``value``: table of leaf values; ``leaf``: indices into it, tree after tree."""
    # Tables of the used features, and of their thresholds, feature after feature.
    used, feature = np.unique(trees.feature, return_inverse=True)
    feature_and_threshold = np.stack((feature, _ordered(trees.threshold)))
    cells = np.unique(feature_and_threshold, axis=1)
    first = np.searchsorted(cells[0], np.arange(len(used) + 1))
    cell = _place(cells, feature_and_threshold)
    used = narrow(used)
    first = narrow(first)
    threshold = _unordered(cells[1])
    # Numbers of the bit streams.
    sizes = np.diff(trees.offset)
    smallest_size = int(sizes.min(initial=1 << 31)) if len(sizes) else 0
    size = sizes - smallest_size
    cls = np.zeros(len(trees), dtype=np.int64) if trees.cls is None else trees.cls
    threshold_number = cell - first[feature].astype(np.int64)
    right = trees.right - 1
    nan_left = trees.nan_left.astype(np.int64)
    # Widths in bits, and flags.
    width_of_size = _width(size)
    split_widths = [_width(feature), _width(threshold_number), _width(right)]
    width_of_leaf = max(1, _width(leaf))
    width_of_class = _width(cls)
    flags = CLASSES * (trees.cls is not None) + MISSING * bool(trees.nan_left.any())
    flags += HALF * _is_half(threshold) + HALF_LEAVES * _is_half(value)
    threshold = threshold.astype("<f2" if flags & HALF else "<f4")
    value = value.astype("<f2" if flags & HALF_LEAVES else "<f4")
    header = struct.pack(
        HEADER,
        len(trees),
        len(feature),
        len(cells[0]),
        len(used),
        smallest_size,
        len(value),
        flags,
        width_of_size,
        *split_widths,
        width_of_leaf,
        width_of_class,
        INTEGER_CODES[used.itemsize],
        INTEGER_CODES[first.itemsize],
        0,
    )
    splits = [feature, threshold_number, right]
    if flags & MISSING:
        splits.append(nan_left)
        split_widths.append(1)
    parts = [
        header,
        used.tobytes(),
        first.tobytes(),
        threshold.tobytes(),
        value.tobytes(),
        _stream([size], [width_of_size]),
        _stream([cls], [width_of_class]),
        _stream(splits, split_widths),
        _stream([leaf], [width_of_leaf]),
    ]
    return b"".join(parts)


def streams(data, n_classes):
    """Split PACK into tables and bit streams with their widths."""
    head = struct.unpack(HEADER, data[:32].tobytes())
    n, s, n_thresholds, n_features, smallest_size, n_values, flags = head[:7]
    size, feature, threshold, right, leaf, cls, feature_code, first_code, _ = head[7:]
    split_widths = [feature, threshold, right]
    if flags & MISSING:
        split_widths.append(1)
    n_leaf_values = (s + n) * (1 if flags & CLASSES else n_classes)
    offset = 32
    tables = []
    for count, dtype in (
        (n_features, INTEGERS[feature_code]),
        (n_features + 1, INTEGERS[first_code]),
        (n_thresholds, "<f2" if flags & HALF else "<f4"),
        (n_values, "<f2" if flags & HALF_LEAVES else "<f4"),
    ):
        end = offset + count * np.dtype(dtype).itemsize
        tables.append(data[offset:end].view(dtype))
        offset = end
    feature_table, first_table, threshold_table, value_table = tables
    counts = {"size": n, "class": n, "split": s, "leaf": n_leaf_values}
    widths = {"size": size, "class": cls, "split": sum(split_widths), "leaf": leaf}
    bits = {}
    for name, count in counts.items():
        end = offset + (count * widths[name] + 7) // 8
        bits[name] = data[offset:end]
        offset = end
    return SimpleNamespace(
        n_trees=n,
        n_splits=s,
        smallest_size=smallest_size,
        has_classes=bool(flags & CLASSES),
        n_bytes=offset,
        counts=counts,
        widths=widths,
        split_widths=split_widths,
        bits=bits,
        feature=feature_table,
        first=first_table,
        threshold=threshold_table,
        value=value_table,
    )


def unpacked(sections, header):
    """Unpack a file to `Trees`."""
    k = header.n_classes
    pack = streams(sections["PACK"], k)
    size = _numbers_of(pack, "size")
    cls = _numbers_of(pack, "class")
    # uint8 is enough, because at most `MOST_VALUES` leaves differ.
    leaf = pack.value.astype(np.float32)[_numbers_of(pack, "leaf", dtype=np.uint8)]
    feature, threshold_number, right, *nan_left = _numbers(
        pack.bits["split"], pack.n_splits, pack.split_widths
    )
    cell = threshold_number + pack.first.astype(np.int64)[feature]
    trees_per_round = sections.get("RNDS", np.ones(pack.n_trees, dtype=np.int64))
    return Trees(
        running_sums(size + pack.smallest_size),
        pack.feature.astype(np.int64)[feature],
        threshold=pack.threshold.astype(np.float32)[cell],
        nan_left=nan_left[0].astype(bool) if nan_left else np.zeros(pack.n_splits, dtype=bool),
        right=1 + right,
        leaf=leaf if pack.has_classes else leaf.reshape(-1, k),
        cls=cls if pack.has_classes else None,
        base=None,
        rounds=running_sums(trees_per_round),
        bias=sections["BIAS"],
        n_features=header.n_features,
    )


def _numbers_of(pack, name, dtype=None):
    """Numbers of a bit stream that has one number in every item."""
    (numbers,) = _numbers(pack.bits[name], pack.counts[name], [pack.widths[name]], dtype)
    return numbers


def _ordered(threshold):
    """Convert float32 to integers with the same order."""
    bits = threshold.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _unordered(number):
    """Convert the integers of `_ordered` to float32."""
    return np.where(number < 0, -number | 1 << 31, number).astype(np.uint32).view(np.float32)


def _place(cells, cells_to_find):
    """Positions of the columns of ``cells_to_find`` among the sorted columns of ``cells``."""
    keys, keys_to_find = (
        feature * (1 << 33) + threshold + (1 << 32) for feature, threshold in (cells, cells_to_find)
    )
    return np.searchsorted(keys, keys_to_find)


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
            for values, width in zip(numbers, widths, strict=True)
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
