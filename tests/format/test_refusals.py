"""Every reason to refuse a model file, one after the other."""

import importlib.util
import itertools
import json
import re
import struct
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference.packedreader import Pack
from reference.scoring import (
    random_entries,
    random_kernel,
    random_linear,
    random_right,
    random_sets,
    random_stumps,
    random_trees,
)

import pymcboost
from pymcboost.cli.info import main
from pymcboost.model.file import ModelFormatError
from pymcboost.model.model import Model, load_model
from pymcboost.model.trees import MOST_DECODED

_spec = importlib.util.spec_from_file_location(
    "tampering", Path(__file__).with_name("tampering.py")
)
tampering = importlib.util.module_from_spec(_spec)
import sys  # noqa: E402

sys.modules["tampering"] = tampering
_spec.loader.exec_module(tampering)
parse = tampering.parse
patch = tampering.patch

HEADER = Path(pymcboost.get_include(), "mcb.h").read_text()
STATUSES = {
    name: (int(number), text)
    for name, number, text in re.findall(r'X\((MCB_\w+), (\d+), "([^"]*)"\)', HEADER)
}

LIST = Model.from_ensemble(
    random_stumps(5, 7, 3), [1, 2, 9], link="softmax", meta={"a": "\u00e9"}
).to_bytes()
TEXT = Model.from_ensemble(random_stumps(5, 7, 3, two_sided=True), ["a", "bb", "c"]).to_bytes()
TABLE = Model.from_ensemble(random_stumps(30, 4, 3), [1, 2, 9], layout="interval").to_bytes()
TREES = Model.from_ensemble(
    random_trees(5, 7, 3, mode="base", splits=(2, 9)), [1, 2, 9], link="softmax"
).to_bytes()
VECTOR = Model.from_ensemble(
    random_trees(5, 7, 3, mode="vector", splits=(2, 9)), [1, 2, 9], leaves="float16"
).to_bytes()
CODED = Model.from_ensemble(
    random_trees(5, 7, 4, mode="code", splits=(2, 9)), [1, 2, 9, 11], link="softmax"
).to_bytes()
LINEAR = Model.from_ensemble(random_linear(7, 3), [1, 2, 9], link="softmax").to_bytes()
KERNEL = Model.from_ensemble(
    random_kernel(5, 7, 3, kernel="poly", scaled=True), [1, 2, 9]
).to_bytes()
CODE = np.ones((MOST_DECODED + 1, 3))
MANY_COLUMNS = Model.from_ensemble(
    replace(random_trees(5, 7, 3, splits=(2, 9)), code=CODE), [1, 2, 9]
).to_bytes()
SIGMOIDS = Model.from_ensemble(
    random_trees(5, 7, 3, mode="vector", splits=(2, 9)), [1, 2, 9], link="sigmoid"
)
LABELS = SIGMOIDS.with_thresholds([0.5, -1.0, 0.0]).to_bytes()
CALIBRATED = Model.from_bytes(TREES)._with_link_temperature(0.5).with_temperature(2.5).to_bytes()
SETS = Model.from_ensemble(random_sets(4, 5, 3), [1, 2, 9]).to_bytes()
SHARED = Model.from_ensemble(
    random_entries(5, 7, 3, share=0.7, shared=True, splits=(2, 9)), [1, 2, 9], link="sigmoid"
).to_bytes()
ENTRIES = Model.from_ensemble(
    random_entries(5, 7, 3, share=0.7, splits=(2, 9)), [1, 2, 9]
).to_bytes()
FEW = random_trees(5, 7, 3, mode="vector", splits=(2, 9))
FEW = replace(
    FEW,
    nan_left=np.zeros(len(FEW.feature), bool),
    leaf=np.rint(FEW.leaf),
    rounds=np.array([0, 2, len(FEW)]),
)
PACK = Model.from_ensemble(FEW, [1, 2, 9], layout="packed").to_bytes()
OWN = replace(FEW, leaf=FEW.leaf[:, 0], cls=np.arange(len(FEW)) % 3)
OWN = Model.from_ensemble(OWN, [1, 2, 9], layout="packed").to_bytes()
EXITS = (
    Model.from_bytes(VECTOR)
    ._changed(
        exit=np.array([1, 2, 4], dtype="u1"),
        pair=np.arange(12, dtype="<f2"),
        marg=np.array([0.1, 29, 0, 1, 2, np.inf]),
        rjct=np.array([0.1, 29, 2, 1, -2, np.inf]),
    )
    .to_bytes()
)
RBF = Model.from_ensemble(random_kernel(5, 7, 3, kernel="rbf"), ["a", "bb", "c"]).to_bytes()


def entry(data, tag):
    """Offset of a section's entry in the table."""
    return next(at for at in range(64, len(data), 32) if data[at : at + 4] == tag)


def in_entry(data, tag, at, code, value):
    """One field of a section's entry changed."""
    return patch(data, entry(data, tag) + at, code, value)


def edited(data, tag, code, change):
    """Items of one section changed."""
    file = parse(data)
    values = file.items(tag, code)
    result = change(values)
    file.set_items(tag, code, values if result is None else result)
    return file.to_bytes()


def without(data, tag):
    file = parse(data)
    file.remove(tag)
    return file.to_bytes()


def with_section(data, tag, dtype=1, content=b"xyz", **header):
    file = parse(data)
    file.sections.append([tag, dtype, content])
    return file.to_bytes()


def put(index, value):
    def change(values):
        values[index] = value

    return change


def add(index, value):
    def change(values):
        values[index] += value

    return change


def one_tree(right):
    """A file with a single tree whose right children are these; the writer would refuse wrong ones."""
    s = len(right)
    file = parse(TREES)
    for tag, code, values in (
        (b"TSIZ", "B", [s]),
        (b"FEAT", "B", [0] * s),
        (b"THRS", "f", [0.0] * s),
        (b"RGHT", "B", right),
        (b"LEAF", "f", [0.0] * (s + 1)),
        (b"TCLS", "B", [0]),
        (b"TBAS", "B", [3]),
        (b"RNDS", "B", [1]),
    ):
        file.set_items(tag, code, values)
    return file.to_bytes()


def parts(data):
    """Where the parts of PACK begin: features, offsets, thresholds, values, sizes, classes, splits, leaves."""
    head = struct.unpack_from("<IIIIIH10B", parse(data).find(b"PACK")[2])
    n, s, cuts, used, _, values, flags, size, *split, leaf, cls, feature, first, _ = head
    lengths = [used << (feature - 1), used + 1 << (first - 1)]
    lengths += [cuts * (2 if flags & 4 else 4)]
    lengths += [
        values * (2 if flags & 8 else 4),
        -(-n * size // 8),
        -(-n * cls // 8),
        -(-s * sum(split) // 8),
    ]
    return [32, *(32 + np.cumsum(lengths)).tolist()]


def fill(begin, end, value):
    """Bytes of a section become this one."""

    def change(values):
        values[begin:end] = [value] * len(values[begin:end])

    return change


def nan_at(values, at, width):
    """A number of that many bytes becomes NaN."""
    values[at : at + width] = [255] * width


def all_right(values):
    """The bits of the right child of the first split, after those of its feature and threshold, become ones."""
    begin = 8 * parts(PACK)[6] + values[24] + values[25]
    for bit in range(begin, begin + values[26]):
        values[bit // 8] |= 1 << bit % 8


def one_past(values):
    """A split asks for the threshold after the last one of its feature."""
    pack = Pack(bytes(values), 3)
    counts = [pack.first[f + 1] - pack.first[f] for f, *_ in pack.split]
    i = next(i for i, count in enumerate(counts) if count < 1 << values[25])
    begin = 8 * parts(PACK)[6] + i * sum(values[24:27]) + values[24]
    for bit in range(values[25]):
        at = begin + bit
        on = counts[i] >> bit & 1
        values[at // 8] = values[at // 8] & ~(1 << at % 8) | on << at % 8


def in_part(data, part, at, value):
    """A byte of a part of PACK changed."""
    return edited(data, b"PACK", "B", change=put(parts(data)[part] + at, value))


def shifted(data):
    """The last section moved 64 bytes up: a gap too wide."""
    at = entry(data, b"meta")
    offset, count = struct.unpack_from("<QQ", data, at + 8)
    data = data[:offset] + bytes(64) + data[offset:]
    return patch(patch(data, at + 8, "Q", offset + 64), 16, "Q", len(data))


def with_byte_in_gap(data):
    offset, count = struct.unpack_from("<QQ", data, entry(data, b"FEAT") + 8)
    return data[: offset + count] + b"\1" + data[offset + count + 1 :]


def with_tail(data):
    return patch(data + bytes(8), 16, "Q", len(data) + 8)


def overlapping(data):
    offset = struct.unpack_from("<Q", data, entry(data, b"THRS") + 8)[0]
    return in_entry(data, b"THRS", 8, code="Q", value=offset - 64)


CASES = [
    ("MCB_E_SHORT", lambda: b""),
    ("MCB_E_SHORT", lambda: LIST[:63]),
    ("MCB_E_MAGIC", lambda: b"PK" + LIST[2:]),
    ("MCB_E_MAGIC", lambda: LIST.replace(b"\r\n", b"\n", 1) + b"\0"),
    ("MCB_E_MAJOR", lambda: patch(LIST, 8, "H", 2)),
    ("MCB_E_MAJOR", lambda: patch(LIST, 8, "H", 0)),
    ("MCB_E_FLAGS", lambda: patch(LIST, 12, "I", 1)),
    ("MCB_E_FLAGS", lambda: patch(LIST, 12, "I", 0x8000)),
    ("MCB_E_FILE_SIZE", lambda: LIST[:-1]),
    ("MCB_E_FILE_SIZE", lambda: LIST + b"\0"),
    ("MCB_E_FILE_SIZE", lambda: LIST[:64]),
    ("MCB_E_SECTION_COUNT", lambda: patch(LIST, 24, "I", 65)),
    ("MCB_E_SECTION_COUNT", lambda: patch(LIST, 24, "I", 0)),
    ("MCB_E_SECTION_COUNT", lambda: patch(LIST, 24, "I", 0xFFFFFFFF)),
    ("MCB_E_HEADER_CRC", lambda: patch(LIST, 56, "I", 1)),
    ("MCB_E_HEADER_CRC", lambda: LIST[:32] + b"\4" + LIST[33:]),
    ("MCB_E_HEADER_CRC", lambda: LIST[:70] + b"\4" + LIST[71:]),
    *[("MCB_E_HEADER_RESERVED", lambda at=at: patch(LIST, at, "I", 1)) for at in (28, 52, 60)],
    ("MCB_E_CLASSES", lambda: patch(LIST, 32, "I", 1)),
    ("MCB_E_CLASSES", lambda: patch(LIST, 32, "I", 65536)),
    ("MCB_E_FEATURES", lambda: patch(LIST, 36, "I", 0)),
    ("MCB_E_FEATURES", lambda: patch(LIST, 36, "I", 1 << 31)),
    *[
        ("MCB_E_KIND", lambda kind=kind: patch(LIST, 40, "I", kind))
        for kind in (0, 4, 31, 33, 0xFFFFFFFF)
    ],
    ("MCB_E_LINK", lambda: patch(LIST, 44, "I", 5)),
    ("MCB_E_DECODER", lambda: patch(LIST, 48, "I", 1)),
    ("MCB_E_DECODER", lambda: patch(TREES, 48, "I", 1)),
    ("MCB_E_DECODER", lambda: patch(CODED, 48, "I", 3)),
    ("MCB_E_CODE_COLUMNS", lambda: patch(MANY_COLUMNS, 48, "I", 2)),
    ("MCB_E_TAG", lambda: in_entry(LIST, b"meta", 0, code="4s", value=b"1eta")),
    ("MCB_E_TAG", lambda: in_entry(LIST, b"meta", 0, code="4s", value=b"me a")),
    ("MCB_E_DTYPE", lambda: in_entry(LIST, b"meta", 4, code="B", value=0)),
    ("MCB_E_DTYPE", lambda: in_entry(LIST, b"meta", 4, code="B", value=8)),
    ("MCB_E_DTYPE", lambda: in_entry(LIST, b"COEF", 4, code="B", value=7)),
    ("MCB_E_DTYPE", lambda: in_entry(TREES, b"LEAF", 4, code="B", value=3)),
    ("MCB_E_DTYPE", lambda: in_entry(LIST, b"COEF", 4, code="B", value=3)),
    *[
        ("MCB_E_SECTION_RESERVED", lambda at=at: in_entry(LIST, b"THRS", at, code="B", value=1))
        for at in (5, 6, 7, 28, 31)
    ],
    (
        "MCB_E_ALIGNMENT",
        lambda: in_entry(
            LIST,
            b"FEAT",
            8,
            code="Q",
            value=struct.unpack_from("<Q", LIST, entry(LIST, b"FEAT") + 8)[0] + 32,
        ),
    ),
    ("MCB_E_ORDER", lambda: overlapping(LIST)),
    ("MCB_E_ORDER", lambda: in_entry(LIST, b"FEAT", 8, code="Q", value=0)),
    ("MCB_E_GAP", lambda: shifted(LIST)),
    ("MCB_E_GAP", lambda: in_entry(LIST, b"FEAT", 8, code="Q", value=1 << 63)),
    ("MCB_E_COUNT", lambda: in_entry(LIST, b"meta", 16, code="Q", value=1 << 40)),
    ("MCB_E_COUNT", lambda: in_entry(LIST, b"COEF", 16, code="Q", value=(1 << 62) + 15)),
    ("MCB_E_PADDING", lambda: with_byte_in_gap(LIST)),
    ("MCB_E_DUPLICATE", lambda: with_section(LIST, b"meta")),
    ("MCB_E_DUPLICATE", lambda: with_section(with_section(LIST, b"note"), b"note")),
    ("MCB_E_UNKNOWN", lambda: with_section(LIST, b"NEWS")),
    ("MCB_E_MISPLACED", lambda: with_section(LIST, b"TABL", 6, content=bytes(8))),
    ("MCB_E_MISPLACED", lambda: with_section(TABLE, b"COEF", 5, content=bytes(8))),
    *[
        ("MCB_E_MISPLACED", lambda tag=tag: with_section(LIST, tag, 1, content=b""))
        for tag in (b"TSIZ", b"RGHT", b"TCLS", b"TBAS", b"RNDS")
    ],
    ("MCB_E_MISPLACED", lambda: with_section(LIST, b"LEAF", 5, content=b"")),
    ("MCB_E_MISPLACED", lambda: with_section(TREES, b"COEF", 5, content=b"")),
    *[
        ("MCB_E_MISPLACED", lambda data=data, tag=tag: with_section(data, tag, 5, content=bytes(4)))
        for data, tag in (
            (LIST, b"WMAT"),
            (LIST, b"SVEC"),
            (TREES, b"DUAL"),
            (TABLE, b"KPAR"),
            (LIST, b"SCAL"),
            (LINEAR, b"SCAL"),
            (LINEAR, b"COEF"),
            (LINEAR, b"SVEC"),
            (KERNEL, b"WMAT"),
            (KERNEL, b"THRS"),
        )
    ],
    *[
        ("MCB_E_DTYPE", lambda tag=tag: in_entry(KERNEL, tag, 4, code="B", value=7))
        for tag in (b"SVEC", b"DUAL", b"KPAR", b"SCAL")
    ],
    ("MCB_E_DTYPE", lambda: in_entry(LINEAR, b"WMAT", 4, code="B", value=6)),
    *[("MCB_E_MISSING", lambda tag=tag: without(LINEAR, tag)) for tag in (b"WMAT", b"BIAS")],
    *[
        ("MCB_E_MISSING", lambda tag=tag: without(KERNEL, tag))
        for tag in (b"SVEC", b"DUAL", b"KPAR", b"BIAS")
    ],
    *[
        ("MCB_E_SHAPE", lambda tag=tag: edited(KERNEL, tag, "f", change=lambda values: values[:-1]))
        for tag in (b"SVEC", b"DUAL", b"KPAR", b"SCAL", b"BIAS")
    ],
    *[
        ("MCB_E_SHAPE", lambda tag=tag: edited(KERNEL, tag, "f", change=lambda values: []))
        for tag in (b"SVEC", b"DUAL", b"KPAR", b"SCAL")
    ],
    ("MCB_E_SHAPE", lambda: edited(KERNEL, b"KPAR", "f", change=lambda values: [*values, 0.0])),
    ("MCB_E_SHAPE", lambda: edited(KERNEL, b"DUAL", "f", change=lambda values: values[:-3])),
    (
        "MCB_E_SHAPE",
        lambda: edited(KERNEL, b"SVEC", "f", change=lambda values: [*values, *values[:7]]),
    ),
    *[
        ("MCB_E_SHAPE", lambda n=n: edited(LINEAR, b"WMAT", "f", change=lambda values: values[:n]))
        for n in (0, -1, -3, -7)
    ],
    ("MCB_E_SHAPE", lambda: edited(LINEAR, b"WMAT", "f", change=lambda values: values * 2)),
    ("MCB_E_SHAPE", lambda: patch(LINEAR, 36, "I", 8)),
    ("MCB_E_SHAPE", lambda: patch(LINEAR, 36, "I", 0x7FFFFFFF)),
    ("MCB_E_SHAPE", lambda: patch(KERNEL, 36, "I", 0x7FFFFFFF)),
    ("MCB_E_SHAPE", lambda: patch(KERNEL, 32, "I", 65535)),
    *[
        (
            "MCB_E_COEFFICIENT",
            lambda data=data, tag=tag, value=value: edited(data, tag, "f", change=put(-1, value)),
        )
        for data, tag in ((LINEAR, b"WMAT"), (KERNEL, b"DUAL"))
        for value in (np.inf, -np.inf, np.nan)
    ],
    *[
        ("MCB_E_SUPPORT", lambda value=value: edited(RBF, b"SVEC", "f", change=put(3, value)))
        for value in (np.inf, np.nan)
    ],
    *[
        (
            "MCB_E_SCALE",
            lambda at=at, value=value: edited(KERNEL, b"SCAL", "f", change=put(at, value)),
        )
        for at in (0, -1)
        for value in (np.inf, np.nan)
    ],
    *[
        ("MCB_E_KERNEL", lambda value=value: edited(KERNEL, b"KPAR", "f", change=put(0, value)))
        for value in (-1.0, 0.5, 3.0, 4.0, 6.0, 1e30, np.nan, np.inf)
    ],
    *[
        (
            "MCB_E_KERNEL_PARAMETER",
            lambda data=data, at=at, value=value: edited(data, b"KPAR", "f", change=put(at, value)),
        )
        for data, at, wrong in (
            (KERNEL, 1, (0.0, -1.0, np.inf, np.nan)),
            (KERNEL, 2, (np.inf, -np.inf, np.nan)),
            (KERNEL, 3, (-1.0, 2.5, 1001.0, 1e30, np.inf, np.nan)),
            (RBF, 1, (0.0, -1.0, np.inf, np.nan)),
            (RBF, 2, (1.0, np.nan)),
            (RBF, 3, (1.0, np.nan)),
        )
        for value in wrong
    ],
    *[
        (
            "MCB_E_KERNEL_PARAMETER",
            lambda kernel=kernel: edited(RBF, b"KPAR", "f", change=put(0, kernel)),
        )
        for kernel in (0.0, 5.0)
    ],
    ("MCB_E_BIAS", lambda: edited(LINEAR, b"BIAS", "f", change=put(0, np.nan))),
    ("MCB_E_BIAS", lambda: edited(KERNEL, b"BIAS", "f", change=put(2, np.inf))),
    ("MCB_E_LABEL_ORDER", lambda: edited(KERNEL, b"LABI", "q", change=put(1, 1))),
    ("MCB_E_CODE_ALONE", lambda: with_section(TREES, b"CODE", 5, content=bytes(36))),
    ("MCB_E_CODE_ALONE", lambda: with_section(VECTOR, b"CODE", 5, content=bytes(36))),
    (
        "MCB_E_CODE",
        lambda: with_section(
            without(TREES, b"TBAS"), b"CODE", 5, content=struct.pack("<9f", *[np.nan] * 9)
        ),
    ),
    *[
        (
            "MCB_E_CALIBRATION",
            lambda tag=tag, value=value: edited(CALIBRATED, tag, "d", change=put(0, value)),
        )
        for tag in (b"CALB", b"calb")
        for value in (0.0, -0.0, -1.0, -5e-324, np.nan, np.inf, -np.inf)
    ],
    *[
        ("MCB_E_SHAPE", lambda tag=tag, change=change: edited(CALIBRATED, tag, "d", change=change))
        for tag in (b"CALB", b"calb")
        for change in (lambda values: [], lambda values: [1.0, 1.0])
    ],
    *[
        case
        for tag in (b"CALB", b"calb")
        for case in (
            (
                "MCB_E_DUPLICATE",
                lambda tag=tag: with_section(CALIBRATED, tag, 6, content=struct.pack("<d", 1.0)),
            ),
            (
                "MCB_E_DTYPE",
                lambda tag=tag: with_section(LIST, tag, 5, content=struct.pack("<f", 1.0)),
            ),
        )
    ],
    *[
        (
            "MCB_E_CALIBRATION",
            lambda tag=tag: with_section(
                patch(VECTOR, 44, "I", 4), tag, 6, content=struct.pack("<d", 1.0)
            ),
        )
        for tag in (b"CALB", b"calb")
    ],
    *[
        (
            "MCB_E_CALIBRATION",
            lambda tag=tag, data=data: with_section(data, tag, 6, content=bytes(8)),
        )
        for tag in (b"CALB", b"calb")
        for data in (LIST, TABLE, VECTOR, CODED, LINEAR, KERNEL)
    ],
    *[
        ("MCB_E_CATEGORIES", lambda tag=tag: without(SETS, tag))
        for tag in (b"CSET", b"COFF", b"CBIT", b"CATF", b"CATN", b"CATO", b"CATS")
    ],
    ("MCB_E_CATEGORIES", lambda: with_section(VECTOR, b"CSET", 1, content=bytes(9))),
    ("MCB_E_MISPLACED", lambda: with_section(LIST, b"CSET", 1, content=bytes(5))),
    ("MCB_E_DTYPE", lambda: with_section(without(SETS, b"CBIT"), b"CBIT", 2, content=bytes(8))),
    ("MCB_E_SHAPE", lambda: edited(SETS, b"CSET", "B", change=lambda values: values[:-1])),
    ("MCB_E_SHAPE", lambda: edited(SETS, b"CATN", "H", change=lambda values: values[:-1])),
    ("MCB_E_SET", lambda: edited(SETS, b"CSET", "B", change=put(0, 200))),
    ("MCB_E_SET", lambda: edited(SETS, b"COFF", "H", change=put(0, 1))),
    ("MCB_E_SET", lambda: edited(SETS, b"COFF", "H", change=put(1, 0))),
    ("MCB_E_SET", lambda: edited(SETS, b"COFF", "H", change=put(-1, 1))),
    ("MCB_E_SET", lambda: edited(SETS, b"COFF", "H", change=lambda values: [])),
    ("MCB_E_SET", lambda: edited(SETS, b"CBIT", "B", change=lambda values: [*values, 0])),
    ("MCB_E_FEATURE_INDEX", lambda: edited(SETS, b"CATF", "B", change=put(0, 3))),
    ("MCB_E_FEATURE_INDEX", lambda: edited(SETS, b"CATF", "B", change=put(1, 0x85))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATN", "H", change=put(0, 0))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATN", "H", change=put(1, 10))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATN", "H", change=put(1, 12))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATO", "B", change=put(0, 1))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATO", "B", change=put(2, 1))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATO", "B", change=put(11, 255))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATS", "B", change=lambda values: [*values, 65])),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATS", "B", change=put(1, 0))),
    ("MCB_E_LEVELS", lambda: edited(SETS, b"CATS", "B", change=put(6, 90))),
    ("MCB_E_UTF8", lambda: edited(SETS, b"CATS", "B", change=put(-1, 65))),
    *[
        ("MCB_E_EXIT", lambda tag=tag: without(without(EXITS, b"exit"), tag))
        for tag in (b"pair", b"marg", b"rjct")
    ],
    ("MCB_E_EXIT", lambda: with_section(patch(CODED, 48, "I", 1), b"exit", 1, content=b"\1")),
    *[
        (
            "MCB_E_SHAPE",
            lambda tag=tag, code=code, n=n: edited(
                EXITS, tag, code, change=lambda values: values[:n]
            ),
        )
        for tag, code, n in (
            (b"pair", "e", -1),
            (b"pair", "e", 7),
            (b"marg", "d", -1),
            (b"rjct", "d", 0),
        )
    ],
    ("MCB_E_SHAPE", lambda: edited(EXITS, b"exit", "B", change=lambda values: values[:2])),
    ("MCB_E_SHAPE", lambda: edited(EXITS, b"pair", "e", change=lambda values: values + values[:6])),
    *[
        (
            "MCB_E_CHECKPOINT",
            lambda at=at, value=value: edited(EXITS, b"exit", "B", change=put(at, value)),
        )
        for at, value in (
            (0, 0),
            (1, 1),
            (1, 4),
            (2, 2),
            (2, Model.from_bytes(EXITS).n_learners),
            (2, 255),
        )
    ],
    *[
        ("MCB_E_BOUND", lambda half=half: edited(EXITS, b"pair", "H", change=put(7, half)))
        for half in (0xFC00, 0x7C01, 0x7E00, 0xFFFF)
    ],
    *[
        (
            "MCB_E_BOUND",
            lambda value=value: edited(single_bounds(), b"pair", "f", change=put(-1, value)),
        )
        for value in (-np.inf, np.nan)
    ],
    *[
        (
            "MCB_E_EXIT_NUMBER",
            lambda tag=tag, at=at, value=value: edited(EXITS, tag, "d", change=put(at, value)),
        )
        for tag, third in ((b"marg", 2.0**32), (b"rjct", 3))
        for at, wrong in (
            (0, (0.0, 1.0, -0.1, np.nan, np.inf)),
            (1, (0.0, 0.5, 29.5, -1.0, 2.0**32, np.nan, np.inf)),
            (2, (-1.0, 0.5, third, np.nan, -np.inf)),
            (3, (np.nan, -np.inf)),
            (5, (np.nan, -np.inf)),
        )
        for value in wrong
    ],
    *[
        (
            "MCB_E_MISPLACED",
            lambda data=data, tag=tag: with_section(
                data, tag, 6 if tag == b"marg" else 1, content=b""
            ),
        )
        for data in (TABLE, LINEAR, KERNEL)
        for tag in (b"exit", b"marg")
    ],
    *[
        ("MCB_E_ABOVE", lambda value=value: edited(LABELS, b"ABOV", "d", change=put(1, value)))
        for value in (np.nan, np.inf, -np.inf)
    ],
    ("MCB_E_ABOVE", lambda: with_section(VECTOR, b"ABOV", 6, content=struct.pack("<3d", 0, 0, 0))),
    ("MCB_E_SHAPE", lambda: edited(LABELS, b"ABOV", "d", change=lambda values: [1.0, 1.0])),
    ("MCB_E_DTYPE", lambda: with_section(VECTOR, b"ABOV", 5, content=struct.pack("<3f", 0, 0, 0))),
    ("MCB_E_META_SIZE", lambda: big_meta()),
    ("MCB_E_END", lambda: with_tail(LIST)),
    *[
        ("MCB_E_MISSING", lambda tag=tag: without(LIST, tag))
        for tag in (b"FEAT", b"THRS", b"COEF", b"BIAS")
    ],
    *[
        ("MCB_E_MISSING", lambda tag=tag: without(TABLE, tag))
        for tag in (b"FIDX", b"IOFF", b"THRS", b"TABL", b"BIAS")
    ],
    *[
        ("MCB_E_MISSING", lambda tag=tag: without(TREES, tag))
        for tag in (b"TSIZ", b"FEAT", b"THRS", b"RGHT", b"LEAF", b"RNDS", b"BIAS")
    ],
    ("MCB_E_LABEL_KIND", lambda: without(LIST, b"LABI")),
    ("MCB_E_LABEL_KIND", lambda: without(TEXT, b"LABO")),
    ("MCB_E_LABEL_KIND", lambda: without(TEXT, b"LABS")),
    ("MCB_E_LABEL_KIND", lambda: with_section(TEXT, b"LABI", 4, content=bytes(24))),
    *[
        (
            "MCB_E_SHAPE",
            lambda tag=tag, code=code: edited(LIST, tag, code, change=lambda values: values[:-1]),
        )
        for tag, code in (
            (b"FEAT", "B"),
            (b"THRS", "f"),
            (b"COEF", "f"),
            (b"BIAS", "f"),
            (b"LABI", "q"),
        )
    ],
    ("MCB_E_SHAPE", lambda: edited(TEXT, b"COEL", "f", change=lambda values: values[:-3])),
    (
        "MCB_E_SHAPE",
        lambda: edited(TEXT, b"LABO", "B", change=lambda values: [*values, values[-1]]),
    ),
    ("MCB_E_SHAPE", lambda: edited(TABLE, b"IOFF", "B", change=lambda values: values[:-1])),
    ("MCB_E_SHAPE", lambda: edited(TABLE, b"TABL", "f", change=lambda values: values[:-3])),
    ("MCB_E_DTYPE", lambda: with_section(without(TABLE, b"TABL"), b"TABL", 6, content=bytes(8))),
    *[
        (
            "MCB_E_SHAPE",
            lambda tag=tag, code=code: edited(TREES, tag, code, change=lambda values: values[:-1]),
        )
        for tag, code in zip(
            (b"FEAT", b"THRS", b"RGHT", b"LEAF", b"TCLS", b"TBAS"), "BfBfBB", strict=True
        )
    ],
    ("MCB_E_SHAPE", lambda: edited(TREES, b"TSIZ", "B", change=lambda values: values[:-1])),
    ("MCB_E_SHAPE", lambda: edited(VECTOR, b"LEAF", "e", change=lambda values: values[:-1])),
    ("MCB_E_SHAPE", lambda: without(without(TREES, b"TCLS"), b"TBAS")),
    ("MCB_E_SECTION_CRC", lambda: LIST[:-1] + b" "),
    ("MCB_E_SECTION_CRC", lambda: in_entry(LIST, b"THRS", 24, code="I", value=5)),
    ("MCB_E_FEATURE_INDEX", lambda: edited(LIST, b"FEAT", "B", change=put(2, 7))),
    ("MCB_E_FEATURE_INDEX", lambda: edited(LIST, b"FEAT", "B", change=put(2, 0x80 | 7))),
    ("MCB_E_FEATURE_INDEX", lambda: edited(TREES, b"FEAT", "B", change=put(-1, 7))),
    ("MCB_E_FEATURE_INDEX", lambda: edited(TREES, b"FEAT", "B", change=put(0, 0x80 | 7))),
    ("MCB_E_FEATURE_INDEX", lambda: edited(TABLE, b"FIDX", "B", change=put(3, 4))),
    ("MCB_E_FEATURE_INDEX", lambda: edited(TABLE, b"FIDX", "B", change=put(1, 0))),
    ("MCB_E_OFFSETS", lambda: edited(TABLE, b"IOFF", "B", change=put(0, 1))),
    ("MCB_E_OFFSETS", lambda: edited(TABLE, b"IOFF", "B", change=put(1, 0))),
    ("MCB_E_OFFSETS", lambda: edited(TABLE, b"IOFF", "B", change=put(1, 200))),
    ("MCB_E_OFFSETS", lambda: edited(TABLE, b"IOFF", "B", change=put(-1, 29))),
    *[
        ("MCB_E_THRESHOLD", lambda value=value: edited(LIST, b"THRS", "f", change=put(4, value)))
        for value in (np.inf, -np.inf, np.nan)
    ],
    ("MCB_E_THRESHOLD", lambda: edited(TABLE, b"THRS", "f", change=put(4, np.nan))),
    ("MCB_E_THRESHOLD", lambda: edited(TREES, b"THRS", "f", change=put(-1, np.inf))),
    ("MCB_E_TREE_SIZES", lambda: edited(TREES, b"TSIZ", "B", change=add(2, 1))),
    ("MCB_E_TREE_SIZES", lambda: edited(TREES, b"TSIZ", "B", change=add(-1, -1))),
    ("MCB_E_TREE_SIZES", lambda: edited(TREES, b"TSIZ", "B", change=put(0, 255))),
    ("MCB_E_ROUNDS", lambda: edited(TREES, b"RNDS", "B", change=add(0, 1))),
    ("MCB_E_ROUNDS", lambda: edited(TREES, b"RNDS", "B", change=add(-1, -1))),
    ("MCB_E_ROUNDS", lambda: edited(TREES, b"RNDS", "B", change=lambda values: values[:-1])),
    ("MCB_E_RIGHT", lambda: edited(TREES, b"RGHT", "B", change=put(0, 0))),
    ("MCB_E_RIGHT", lambda: edited(TREES, b"RGHT", "B", change=put(-1, 0))),
    ("MCB_E_RIGHT", lambda: edited(TREES, b"RGHT", "B", change=put(-1, 2))),
    ("MCB_E_RIGHT", lambda: edited(TREES, b"RGHT", "B", change=put(0, 255))),
    *[
        ("MCB_E_RIGHT", lambda right=right: one_tree(right))
        for right in (
            [2, 2, 1],
            [3, 1, 2, 1],
            [4, 3, 2, 2, 1],
            [1, 3, 2, 2, 1],
            [1, 1, 1, 1, 2],
            [0, 1, 1],
            [3, 0, 1],
        )
    ],
    ("MCB_E_TREE_CLASS", lambda: edited(TREES, b"TCLS", "B", change=put(-1, 3))),
    ("MCB_E_TREE_CLASS", lambda: edited(TREES, b"TCLS", "B", change=put(0, 255))),
    ("MCB_E_TREE_BASE", lambda: edited(TREES, b"TBAS", "B", change=put(-1, 4))),
    (
        "MCB_E_TREE_BASE",
        lambda: edited(TREES, b"TBAS", "B", change=put(1, parse(TREES).items(b"TCLS", "B")[1])),
    ),
    ("MCB_E_BASE_ALONE", lambda: without(TREES, b"TCLS")),
    ("MCB_E_BASE_ALONE", lambda: with_section(VECTOR, b"TBAS", 1, content=b"")),
    *[
        ("MCB_E_LEAF", lambda value=value: edited(TREES, b"LEAF", "f", change=put(-1, value)))
        for value in (np.inf, np.nan)
    ],
    *[
        ("MCB_E_LEAF", lambda half=half: edited(VECTOR, b"LEAF", "H", change=put(0, half)))
        for half in (0x7C00, 0xFC00, 0x7E01)
    ],
    ("MCB_E_BIAS", lambda: edited(TREES, b"BIAS", "f", change=put(1, np.nan))),
    *[("MCB_E_ENTRIES", lambda tag=tag: without(ENTRIES, tag)) for tag in (b"LOFF", b"LCLS")],
    (
        "MCB_E_ENTRIES",
        lambda: with_section(with_section(TREES, b"LOFF", 1, content=b""), b"LCLS", 1, content=b""),
    ),
    ("MCB_E_MISPLACED", lambda: with_section(LIST, b"LOFF", 1, content=bytes(5))),
    ("MCB_E_DTYPE", lambda: with_section(without(ENTRIES, b"LCLS"), b"LCLS", 5, content=bytes(8))),
    *[
        (
            "MCB_E_SHAPE",
            lambda tag=tag, code=code: edited(
                ENTRIES, tag, code, change=lambda values: values[:-1]
            ),
        )
        for tag, code in ((b"LOFF", "B"), (b"LCLS", "B"), (b"LEAF", "f"))
    ],
    *[
        (
            "MCB_E_ENTRY_OFFSETS",
            lambda at=at, value=value: edited(ENTRIES, b"LOFF", "B", change=put(at, value)),
        )
        for at, value in ((0, 1), (3, 0), (2, 255), (-1, 3), (-1, 255))
    ],
    ("MCB_E_ENTRY_OFFSETS", lambda: edited(ENTRIES, b"LOFF", "B", change=add(-1, -1))),
    *[
        ("MCB_E_ENTRY_CLASS", lambda k=k: edited(ENTRIES, b"LCLS", "B", change=put(0, k)))
        for k in (3, 255)
    ],
    (
        "MCB_E_ENTRY_CLASS",
        lambda: edited(ENTRIES, b"LCLS", "B", change=lambda values: [0] * len(values)),
    ),
    ("MCB_E_LEAF", lambda: edited(ENTRIES, b"LEAF", "f", change=put(-1, np.inf))),
    ("MCB_E_SHARED", lambda: with_section(SHARED, b"exit", 1, content=b"\1")),
    ("MCB_E_SHARED", lambda: with_section(without(SHARED, b"LALL"), b"LALL", 7, content=bytes(2))),
    ("MCB_E_MISPLACED", lambda: with_section(LIST, b"LALL", 5, content=bytes(4))),
    ("MCB_E_DTYPE", lambda: with_section(without(SHARED, b"LALL"), b"LALL", 6, content=bytes(8))),
    ("MCB_E_SHAPE", lambda: edited(SHARED, b"LALL", "f", change=lambda values: values[:-1])),
    *[
        (
            "MCB_E_SHARED",
            lambda tag=tag, value=value: edited(SHARED, tag, "f", change=put(1, value)),
        )
        for tag in (b"LALL", b"LEAF", b"BIAS")
        for value in (np.inf, np.nan, -np.inf, 0.1, 2.0**-21, 3e6, -0.0)
    ],
    *[
        ("MCB_E_SHARED", lambda tag=tag: edited(SHARED, tag, "f", change=put(0, -8.5)))
        for tag in (b"LALL", b"LEAF")
    ],
    ("MCB_E_MISSING", lambda: without(PACK, b"PACK")),
    ("MCB_E_MISPLACED", lambda: with_section(TREES, b"PACK", 1, content=bytes(32))),
    ("MCB_E_MISPLACED", lambda: with_section(PACK, b"exit", 1, content=b"\1")),
    ("MCB_E_ROUNDS", lambda: edited(PACK, b"RNDS", "B", change=put(0, 1))),
    ("MCB_E_DECODER", lambda: patch(PACK, 48, "I", 1)),
    ("MCB_E_PACK", lambda: edited(PACK, b"PACK", "B", change=lambda values: values[:31])),
    *[
        ("MCB_E_PACK", lambda at=at, value=value: edited(PACK, b"PACK", "B", change=put(at, value)))
        for at, value in (
            (22, 16),
            (22, 128),
            (31, 1),
            (23, 33),
            (26, 33),
            (27, 0),
            (27, 9),
            (28, 1),
            (29, 0),
            (29, 4),
            (30, 5),
        )
    ],
    *[
        (
            "MCB_E_PACK_SIZE",
            lambda at=at, value=value: edited(PACK, b"PACK", "B", change=put(at, value)),
        )
        for at, value in (
            (0, 4),
            (4, 200),
            (7, 255),
            (8, 0),
            (12, 0),
            (15, 255),
            (21, 1),
            (22, 14),
            (24, 9),
            (27, 8),
        )
    ],
    ("MCB_E_PACK_SIZE", lambda: edited(PACK, b"PACK", "B", change=lambda values: [*values, 0])),
    ("MCB_E_FEATURE_INDEX", lambda: in_part(PACK, 0, 0, value=7)),
    ("MCB_E_FEATURE_INDEX", lambda: in_part(PACK, 0, 0, value=6)),
    *[
        ("MCB_E_OFFSETS", lambda at=at, value=value: in_part(PACK, 1, at, value=value))
        for at, value in ((0, 1), (1, 0), (1, 255))
    ],
    ("MCB_E_OFFSETS", lambda: in_part(PACK, 2, -1, value=200)),
    ("MCB_E_OFFSETS", lambda: edited(PACK, b"PACK", "B", change=add(parts(PACK)[2] - 1, -1))),
    (
        "MCB_E_THRESHOLD",
        lambda: edited(PACK, b"PACK", "B", change=lambda v: nan_at(v, parts(PACK)[2], 4)),
    ),
    (
        "MCB_E_LEAF",
        lambda: edited(PACK, b"PACK", "B", change=lambda v: nan_at(v, parts(PACK)[3], 2)),
    ),
    ("MCB_E_TREE_SIZES", lambda: edited(PACK, b"PACK", "B", change=add(16, 1))),
    ("MCB_E_TREE_SIZES", lambda: edited(PACK, b"PACK", "B", change=add(16, -1))),
    (
        "MCB_E_PACK_SPLIT",
        lambda: edited(PACK, b"PACK", "B", change=fill(parts(PACK)[6], parts(PACK)[7], 255)),
    ),
    ("MCB_E_PACK_SPLIT", lambda: edited(PACK, b"PACK", "B", change=one_past)),
    ("MCB_E_RIGHT", lambda: edited(PACK, b"PACK", "B", change=all_right)),
    (
        "MCB_E_TREE_CLASS",
        lambda: edited(OWN, b"PACK", "B", change=fill(parts(OWN)[5], parts(OWN)[6], 255)),
    ),
    ("MCB_E_PACK_LEAF", lambda: edited(PACK, b"PACK", "B", change=fill(parts(PACK)[7], None, 255))),
    *[
        ("MCB_E_CODE", lambda value=value: edited(CODED, b"CODE", "f", change=put(-1, value)))
        for value in (np.inf, np.nan)
    ],
    ("MCB_E_CODE_ALONE", lambda: without(CODED, b"TCLS")),
    ("MCB_E_CODE_ALONE", lambda: with_section(VECTOR, b"CODE", 5, content=bytes(24))),
    ("MCB_E_CODE_ALONE", lambda: with_section(TREES, b"CODE", 5, content=bytes(36))),
    (
        "MCB_E_CODE_ALONE",
        lambda: with_section(
            CODED, b"TBAS", 1, content=bytes(len(parse(CODED).items(b"TCLS", "B")))
        ),
    ),
    *[
        ("MCB_E_SHAPE", lambda n=n: edited(CODED, b"CODE", "f", change=lambda values: values[:-n]))
        for n in (1, 2, 3)
    ],
    ("MCB_E_SHAPE", lambda: edited(CODED, b"CODE", "f", change=lambda values: [*values, 1.0])),
    ("MCB_E_TREE_CLASS", lambda: edited(CODED, b"CODE", "f", change=lambda values: values[:4])),
    ("MCB_E_CODE_COLUMNS", lambda: edited(CODED, b"CODE", "f", change=lambda values: [])),
    *[("MCB_E_CODE_COLUMNS", lambda decoder=decoder: no_columns(decoder)) for decoder in (0, 1, 2)],
    ("MCB_E_TREE_CLASS", lambda: edited(CODED, b"TCLS", "B", change=put(0, 5))),
    ("MCB_E_TREE_CLASS", lambda: edited(CODED, b"TCLS", "B", change=put(-1, 255))),
    ("MCB_E_MISPLACED", lambda: with_section(LIST, b"CODE", 5, content=bytes(12))),
    (
        "MCB_E_THRESHOLD_ORDER",
        lambda: edited(TABLE, b"THRS", "f", change=lambda values: put(1, values[0])(values)),
    ),
    ("MCB_E_COEFFICIENT", lambda: edited(LIST, b"COEF", "f", change=put(7, np.inf))),
    ("MCB_E_COEFFICIENT", lambda: edited(TEXT, b"COEL", "f", change=put(14, np.nan))),
    *[
        ("MCB_E_TABLE", lambda value=value: edited(TABLE, b"TABL", "f", change=put(7, value)))
        for value in (np.inf, np.nan, -np.inf)
    ],
    ("MCB_E_BIAS", lambda: edited(LIST, b"BIAS", "f", change=put(1, -np.inf))),
    ("MCB_E_BIAS", lambda: edited(TABLE, b"BIAS", "f", change=put(1, np.nan))),
    ("MCB_E_LABEL_OFFSETS", lambda: edited(TEXT, b"LABO", "B", change=put(0, 1))),
    ("MCB_E_LABEL_OFFSETS", lambda: edited(TEXT, b"LABO", "B", change=put(1, 4))),
    ("MCB_E_LABEL_OFFSETS", lambda: edited(TEXT, b"LABO", "B", change=put(3, 3))),
    ("MCB_E_LABEL_OFFSETS", lambda: edited(TEXT, b"LABO", "B", change=put(2, 0))),
    ("MCB_E_LABEL_TEXT", lambda: edited(TEXT, b"LABS", "B", change=put(1, 0))),
    ("MCB_E_LABEL_TEXT", lambda: long_label()),
    *[
        (
            "MCB_E_UTF8",
            lambda pair=pair: edited(
                TEXT, b"LABS", "B", change=lambda values: [values[0], *pair, values[3]]
            ),
        )
        for pair in ((0xC0, 0x80), (0xC3, 0x28), (0xFF, 0x61), (0xE2, 0x82), (0x62, 0xC3))
    ],
    ("MCB_E_UTF8", lambda: surrogate_meta(b"\xed\xa0\x80")),
    ("MCB_E_UTF8", lambda: surrogate_meta(b"\xf4\x90\x80\x80")),
    ("MCB_E_UTF8", lambda: surrogate_meta(b"\xe0\x80\x80")),
    ("MCB_E_LABEL_ORDER", lambda: edited(LIST, b"LABI", "q", change=put(1, 1))),
    ("MCB_E_LABEL_ORDER", lambda: edited(LIST, b"LABI", "q", change=put(2, -1))),
    ("MCB_E_LABEL_ORDER", lambda: edited(TEXT, b"LABS", "B", change=put(0, ord("z")))),
    (
        "MCB_E_LABEL_ORDER",
        lambda: edited(
            edited(TEXT, b"LABS", "B", change=lambda values: list(b"aab")),
            b"LABO",
            "B",
            change=lambda values: [0, 1, 2, 3],
        ),
    ),
]


def single_bounds():
    """Bounds in single precision."""
    file = parse(EXITS)
    file.find(b"pair")[1:] = [5, bytes(48)]
    return file.to_bytes()


def no_columns(decoder):
    """A code without columns, and no trees that would need one: the counts agree with each other."""
    items = {
        b"TSIZ": 1,
        b"FEAT": 1,
        b"THRS": 5,
        b"RGHT": 1,
        b"LEAF": 5,
        b"TCLS": 1,
        b"CODE": 5,
        b"RNDS": 1,
    }
    sections = [[tag, dtype, b""] for tag, dtype in items.items()]
    sections += [[b"BIAS", 5, bytes(8)], [b"LABI", 4, struct.pack("<2q", 0, 1)]]
    return tampering.File(2, 1, 3, 0, decoder, sections).to_bytes()


def surrogate_meta(content):
    file = parse(LIST)
    file.find(b"meta")[2] = b'"' + content + b'"'
    return file.to_bytes()


def long_label():
    file = parse(TEXT)
    file.find(b"LABS")[2] = b"a" * 4097 + b"bc"
    file.find(b"LABO")[1] = 2
    file.set_items(b"LABO", "H", [0, 4097, 4098, 4099])
    return file.to_bytes()


def big_meta():
    """meta one byte too long; the table is checked before the checksum of the section, which is left wrong."""
    data = bytearray(LIST)
    at = entry(LIST, b"meta")
    offset = struct.unpack_from("<Q", LIST, at + 8)[0]
    data = bytes(data[:offset]) + b" " * ((16 << 20) + 1)
    return patch(patch(data, at + 16, "Q", (16 << 20) + 1), 16, "Q", len(data))


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in CASES))
def test_refused(name, tmp_path):
    number, text = STATUSES[name]
    path = tmp_path / "broken.mcb"
    for case, (status, make) in enumerate(CASES):
        if status != name:
            continue
        data = make()
        with pytest.raises(ModelFormatError) as refusal:
            Model.from_bytes(data)
        message = str(refusal.value)
        assert refusal.value.status == number, (case, message)
        assert text in message and "byte" in message, (case, message)
        path.write_bytes(data)
        with pytest.raises(ModelFormatError) as refusal:
            load_model(path)
        assert refusal.value.status == number, case
        assert str(path) in str(refusal.value)


def test_every_refusal_is_tested():
    refusals = {name for name, (number, _) in STATUSES.items() if 0 < number < 100}
    assert len(refusals) == 72
    assert {name for name, _ in CASES} == refusals


def test_where_is_said():
    with pytest.raises(
        ModelFormatError, match=r"threshold is not finite \(section THRS, byte \d+\)"
    ):
        Model.from_bytes(edited(LIST, b"THRS", "f", change=put(4, np.inf)))
    with pytest.raises(
        ModelFormatError, match="section BIAS.*found 2, the limit or expected number is 3"
    ):
        Model.from_bytes(edited(LIST, b"BIAS", "f", change=lambda values: values[:-1]))


def test_tampering_twin_writes_the_same_bytes():
    every = (
        LIST,
        TEXT,
        TABLE,
        TREES,
        VECTOR,
        LINEAR,
        KERNEL,
        RBF,
        CODED,
        CALIBRATED,
        EXITS,
        LABELS,
        SETS,
    )
    for data in every:
        assert parse(data).to_bytes() == data


def test_what_may_be_skipped():
    for data in (
        with_section(LIST, b"note"),
        with_section(LIST, b"newS", 6, content=bytes(16)),
        patch(LIST, 12, "I", 0x10000),
        patch(LIST, 10, "H", 7),
    ):
        assert Model.from_bytes(data).n_learners == 5
    Model.from_bytes(with_section(KERNEL, b"note"))


def test_header_limits():
    assert Model.from_bytes(patch(LIST, 36, "I", 2**31 - 1)).n_features_in_ == 2**31 - 1


def test_meta_need_not_be_json(tmp_path):
    model = Model.from_bytes(surrogate_meta(b"x\\q"))
    model.predict(np.zeros((1, 7)))
    with pytest.raises(ModelFormatError, match="not valid JSON"):
        model.meta  # noqa: B018
    assert model.information == {}
    assert model.has_stages
    assert model.index_base is None
    assert (
        model.truncate(3).n_rounds
        == len(list(model.truncate(3).staged_decision_function(np.zeros((1, 7)))))
        == 3
    )
    # It stays as it is in another layout.
    other = saved_as(model, tmp_path / "m.mcb", "interval")
    assert parse(other.to_bytes()).find(b"meta") == parse(model.to_bytes()).find(b"meta")
    assert main([str(tmp_path / "m.mcb")]) == 0


def saved_as(model, path, layout):
    model.save(path, layout=layout)
    return load_model(path)


@pytest.mark.parametrize(
    ("meta", "base"), [({}, None), ({"index_base": 0}, 0), ({"index_base": 1}, 1)]
    + [({"index_base": odd}, None) for odd in (True, False, 0.0, 1.0, 2, -1, "1", None, [1])],
)  # fmt: skip
def test_index_base_is_0_or_1(meta, base, tmp_path, capsys):
    model = Model.from_ensemble(random_stumps(5, 7, 3), range(3), meta=meta)
    assert model.index_base == base
    assert type(model.index_base) is type(base)
    model.save(tmp_path / "m.mcb")
    assert main([str(tmp_path / "m.mcb"), "--json"]) == 0
    top = json.loads(capsys.readouterr().out)["top_features"]
    assert top[0]["name"] == str(top[0]["column"] + (base if base is not None else 1))


def test_memory_of_loading(tmp_path):
    """At most the size of the file and 1 MB, whatever the header says."""
    path = tmp_path / "model.mcb"
    Model.from_ensemble(random_stumps(2000, 30, 300), range(300)).save(path)
    good = path.read_bytes()
    # 65,535 labels of which one is long: they must not become a table of 65,535 long strings
    k = 65535
    labels = [f"{i:05}" for i in range(k - 1)] + ["z" * 4096]
    wide = Model.from_ensemble(random_stumps(1, 1, k), np.array(labels, dtype=object)).to_bytes()
    hostile = [
        good,
        wide,
        in_entry(good, b"COEF", 16, code="Q", value=1 << 61),
        patch(good, 16, "Q", 1 << 62),
    ]
    for data in hostile:
        path.write_bytes(data)
        tracemalloc.start()
        try:
            load_model(path)
        except ModelFormatError:
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= len(data) + (1 << 20)
    path.write_bytes(wide)
    classes = load_model(path).classes_
    assert classes.dtype == object
    assert list(classes) == labels
    # No C memory that Python does not see.
    assert not re.search(
        r"\b(m|c|re)alloc\s*\(|\balloca\s*\(", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    )


def test_scores_cannot_overflow():
    """Sums of float32 numbers stay far inside float64, so finite coefficients give finite scores."""
    file = parse(LIST)
    top = float(np.finfo(np.float32).max)
    file.set_items(b"COEF", "f", [top] * 15)
    file.set_items(b"BIAS", "f", [top, -top, top])
    model = Model.from_bytes(file.to_bytes())
    X = np.array([[np.inf] * 7, [-np.inf] * 7, [np.nan] * 7])
    assert np.isfinite(model.raw_scores(X)).all()
    assert np.isfinite(model.predict_proba(X)).all()


def test_negative_zero_threshold_of_another_writer():
    stumps = random_stumps(3, 1, 2)
    stumps = type(stumps)(
        stumps.feature,
        np.array([-1.0, 0.0, 1.0]),
        stumps.nan_left,
        right=stumps.right,
        left=None,
        bias=stumps.bias,
        n_features=1,
    )
    X = np.array([[0.0], [-0.0], [1e-45], [-1e-45]], dtype=np.float32)
    for layout in ("list", "interval"):
        data = Model.from_ensemble(stumps, range(2), layout=layout).to_bytes()
        changed = edited(data, b"THRS", "f", change=put(1, -0.0))
        assert changed != data
        assert (
            Model.from_bytes(changed).raw_scores(X).tobytes()
            == Model.from_bytes(data).raw_scores(X).tobytes()
        )


def test_scores_of_extreme_machines():
    """Finite rows of a linear machine have finite scores; a row of a machine has NaN for all classes, or for none."""
    top = float(np.finfo(np.float32).max)
    X = (
        np.random.default_rng(0)
        .choice([top, -top, 1e-45, 0.0, 1.0], size=(300, 7))
        .astype(np.float32)
    )
    for coef in (top, -top, 1e-45):
        file = parse(LINEAR)
        file.set_items(b"WMAT", "f", [coef] * 21)
        file.set_items(b"BIAS", "f", [top, -top, top])
        assert np.isfinite(Model.from_bytes(file.to_bytes()).raw_scores(X)).all()
        for kernel, parameters in (
            (0, (0, 0, 0)),
            (1, (1e-45, 0, 1000)),
            (1, (top, top, 3)),
            (1, (top, -top, 0)),
            (2, (1e-45, 0, 0)),
            (2, (top, 0, 0)),
            (5, (0, 0, 0)),
        ):
            for data in (KERNEL, RBF):
                file = parse(data)
                file.set_items(b"KPAR", "f", [kernel, *parameters])
                file.set_items(b"DUAL", "f", [coef, 0.0, top] * 5)
                scores = np.empty((len(X), 3))
                model = Model.from_bytes(file.to_bytes())
                model._scorer.dense(X, scores, None, 0, 1)
                bad = np.isnan(scores)
                assert (bad.all(axis=1) | np.isfinite(scores).all(axis=1)).all()
                for i in range(0, len(X), 7):
                    one = np.empty((1, 3))
                    model._scorer.dense(X[i : i + 1], one, None, 0, 1)
                    assert one.tobytes() == scores[i].tobytes()


def is_tree(right, begin, end):
    """Right children, by the definition."""
    if begin == end:
        return True
    middle = begin + right[begin]
    return (
        begin < middle <= end and is_tree(right, begin + 1, middle) and is_tree(right, middle, end)
    )


def test_right_children_of_every_small_tree():
    """Catalan numbers of accepted trees, and each as the definition says."""
    accepted = {}
    for s in range(6):
        for right in itertools.product(range(1, s + 1), repeat=s):
            try:
                Model.from_bytes(one_tree(right))
                good = True
            except ModelFormatError as refusal:
                assert refusal.status == STATUSES["MCB_E_RIGHT"][0]
                good = False
            assert good == is_tree(right, 0, s), right
            accepted[s] = accepted.get(s, 0) + good
    assert accepted == {0: 1, 1: 1, 2: 2, 3: 5, 4: 14, 5: 42}


@pytest.mark.parametrize("skew", [pytest.param(None, marks=pytest.mark.slow), 0, 1])
def test_large_trees_are_checked_in_linear_time(skew):
    """Deep and wide alike; a quadratic check of 200,000 splits would take minutes."""
    s = 200_000
    right = random_right(s, np.random.default_rng(0), skew)
    file = parse(TREES)
    for tag, dtype, code, values in (
        (b"TSIZ", 3, "I", [s]),
        (b"FEAT", 1, "B", [0] * s),
        (b"THRS", 5, "f", [0.0] * s),
        (b"RGHT", 3, "I", right.tolist()),
        (b"LEAF", 5, "f", [0.0] * (s + 1)),
        (b"TCLS", 1, "B", [0]),
        (b"TBAS", 1, "B", [3]),
        (b"RNDS", 1, "B", [1]),
    ):
        file.find(tag)[1] = dtype
        file.set_items(tag, code, values)
    begin = time.process_time()
    Model.from_bytes(file.to_bytes()).predict(np.zeros((1, 7)))
    assert time.process_time() - begin < 20  # most of it is the checksum of the twin


def test_leaves_cannot_overflow_a_score():
    file = parse(TREES)
    top = float(np.finfo(np.float32).max)
    for bound in (top, -top):
        file.set_items(b"LEAF", "f", [bound] * len(file.items(b"LEAF", "f")))
        X = np.array([[np.inf] * 7, [-np.inf] * 7, [np.nan] * 7])
        assert np.isfinite(Model.from_bytes(file.to_bytes()).raw_scores(X)).all()


def test_wider_numbers_of_another_writer():
    """u32 wherever the writer takes u8, and no base class written as the number of classes."""
    file = parse(TREES)
    for tag in (b"TSIZ", b"RGHT", b"TCLS", b"TBAS", b"RNDS", b"FEAT"):
        values = file.items(tag, "B")
        if tag == b"FEAT":
            values = [value & 0x7F | (value >> 7) << 31 for value in values]
        file.find(tag)[1] = 3
        file.set_items(tag, "I", values)
    X = np.random.default_rng(0).normal(size=(30, 7))
    wide = Model.from_bytes(file.to_bytes())
    narrow = Model.from_bytes(TREES)
    assert wide.raw_scores(X).tobytes() == narrow.raw_scores(X).tobytes()
    assert Model.from_ensemble(wide.ensemble, [1, 2, 9], link="softmax").to_bytes() == TREES
