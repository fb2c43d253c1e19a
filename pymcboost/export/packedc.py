"""Packed trees as C: their tables and bits as constant arrays."""

import math

import numpy as np

from pymcboost.export.ctext import number
from pymcboost.export.integers import features
from pymcboost.model.arrays import narrow
from pymcboost.model.packed import streams

BITS = """\
/* Number of `width` bits that begins at a bit of p, the lowest bit first. */
static uint32_t NAME_bits(const uint8_t *p, uint32_t bit, uint32_t width) {
    uint32_t v = 0, n;
    p += bit >> 3;
    bit &= 7u;
    for (n = 0; n < bit + width; n += 8) v |= (uint32_t)*p++ << n;
    return v >> bit & (((uint32_t)1 << width) - 1u);
}"""

LOOP = """\
    uint32_t t, i = 0;
    for (k = 0; k < CLASSES; k++) scores[k] = NAME_bias[k];
    for (t = 0; t != TREES; t++) {
        uint32_t next = i + LEAST SIZES, ENDING, leaf = i + t;
        while (GOING) {
            uint32_t bit = i * SPLITBITS, f = OFFEATURE;
            uint32_t c = OFCUT;
            uint32_t right = RIGHT;
            VALUE v = READ;
            if (v <= NAME_threshold[c]CUTSCALE MISSING) {
                LEFT
                i++;
            } else {
                TURNleaf += right;
                i += right;
            }
        }
        i = next;
        ADD
    }"""
SKIP = """\
for (more = shape & 1u; more; right++) {
                    uint32_t below = BELOW;
                    more += (below & 1u) + (below >> 1) - 1;
                }
                more = shape >> 1;
                """
# Where a split says how far its right child is, and where it says which children are splits.
FAR = {"ENDING": "end = next", "GOING": "i < end", "RIGHT": "1 + SIDE", "LEFT": "end = i + right;", "TURN": ""}
SHAPE = {"ENDING": "more = next != i", "GOING": "more", "RIGHT": "1, shape = SIDE", "LEFT": "more = shape & 1u;"}
BELOW = "NAME_bits(NAME_split, (i + right) * SPLITBITS + RIGHTAT, RIGHTBITS)"
# The feature of a threshold.
CELL = """\
static uint32_t NAME_feature_of(uint32_t c) {
    uint32_t low = 0, high = FEATURES;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (NAME_first[middle] <= c) low = middle;
        else high = middle;
    }
    return low;
}"""

LEAF = "NAME_value[NAME_bits(NAME_leaf, (AT) * LEAFBITS, LEAFBITS)]VALUESCALE"
# A number that stands for the values of some classes, or of all.
SOME = """\
number = NAME_bits(NAME_leaf, leaf * LEAFBITS, LEAFBITS);
        for (k = 0; k < ENTRIES; k++) {
            for (item[k] = 0; number >= NAME_unit[k]; item[k]++) number -= NAME_unit[k];
        }
        for (k = n = 0; n < ENTRIES; k++) {
            uint32_t having = NAME_having[n * CLASSES + k];
            if (number < having) scores[k] += NAME_value[item[n++]]VALUESCALE;
            else number -= having;
        }"""
EVERY = """\
number = NAME_bits(NAME_leaf, leaf * LEAFBITS, LEAFBITS);
        for (k = 0; k < CLASSES; k++) {
            for (n = 0; number >= NAME_unit[k]; n++) number -= NAME_unit[k];
            scores[k] += NAME_value[n]VALUESCALE;
        }"""
# A number of more bits may not lie in 32 of them.
MOST_BITS = 25
# Multiplying doubles takes processors without them more code than a table of so few floats.
FEW_VALUES = 170


def packed_trees(model, form):
    """(arrays, helpers, counters, loop, words) of a packed model, see `pymcboost.export.c`.

    ``form`` is None, or what rounds it to integers.
    """
    its = streams(model._sections()["PACK"], model.n_classes_)
    widths = {**its.widths, "split": sum(its.split_widths)}
    alone = (widths[name] for name in ("size", "class", "leaf"))
    if max(*alone, *its.split_widths) > MOST_BITS or 8 * its.n_bytes >= 1 << 32:
        raise ValueError("packed trees are too large for C with numbers of 32 bits; save the model with layout='list'")
    tables, scales = _real(its) if form is None else _integer(its, form)
    arrays = {"feature": its.feature, "first": its.first, **tables}
    arrays |= {name: np.asarray(part) for name, part in its.bits.items() if len(part) and widths[name]}
    for name in ("split", "leaf"):
        arrays.setdefault(name, np.zeros(1, dtype=np.uint8))
    feature_bits, cut_bits, right_bits, *missing = its.split_widths
    key = form is not None and form.input == "uint32_t"
    nan = "v != v" if form is None else "v == INT32_MAX" if key else ""
    cut = "NAME_bits(NAME_split, bit + FEATUREBITS, CUTBITS)"
    words = (SHAPE | {"TURN": SKIP} if its.shape else FAR) | {
        "BELOW": BELOW,
        "SIDE": "NAME_bits(NAME_split, bit + RIGHTAT, RIGHTBITS)",
        "OFFEATURE": f"NAME_feature_of({cut})" if its.cells else "NAME_bits(NAME_split, bit, FEATUREBITS)",
        "OFCUT": cut if its.cells else f"NAME_first[f] + {cut}",
        "ADD": _added(its, widths, model.n_classes_),
        "SIZES": "+ NAME_bits(NAME_size, t * SIZEBITS, SIZEBITS)" if widths["size"] else "",
        "MISSING": f"|| ({nan} && NAME_bits(NAME_split, bit + SPLITBITS - 1, 1))" if missing and nan else "",
        "READ": "NAME_key(x[NAME_feature[f]])" if key else "x[NAME_feature[f]]",
    }
    loop = LOOP
    for word, text in words.items():
        loop = loop.replace(word, text)
    words = {
        "TREES": its.n_trees, "LEAST": its.least, "SIZEBITS": widths["size"], "SPLITBITS": widths["split"],
        "FEATUREBITS": feature_bits, "CUTBITS": cut_bits, "RIGHTAT": feature_bits + cut_bits, "RIGHTBITS": right_bits,
        "LEAFBITS": widths["leaf"], "ENTRIES": its.entries, "CLASSBITS": widths["class"],
        "FEATURES": len(its.feature), **scales,
    }  # fmt: skip
    loop = loop.replace(" )", ")").replace(" ,", ",")
    if its.entries:
        some = f", item[{its.entries}]" if its.entries < model.n_classes_ else ""
        loop = f"    uint32_t number, n{some};\n" + loop
        arrays |= _entry_tables(its, model.n_classes_)
    return arrays, [BITS, *[CELL] * its.cells], "k", loop, words


def _entry_tables(its, k):
    """What digits of leaves are worth, and how many sets have a class after so many others."""
    n = its.entries
    units = [math.comb(k, n) * len(its.value) ** (n - 1 - j) for j in range(n)]
    having = [math.comb(k - 1 - c, n - 1 - j) for j in range(n) for c in range(k)]
    return {"unit": narrow(np.array(units))} | ({"having": narrow(np.array(having))} if n < k else {})


def _added(its, widths, n_classes):
    """What adds a leaf to the scores."""
    if its.entries:
        return SOME if its.entries < n_classes else EVERY
    if its.own:
        cls = "NAME_bits(NAME_class, t * CLASSBITS, CLASSBITS)" if widths["class"] else "0"
        return f"scores[{cls}] += {LEAF.replace('(AT)', 'leaf')};"
    return f"for (k = 0; k < CLASSES; k++) scores[k] += {LEAF.replace('AT', 'leaf * CLASSES + (uint32_t)k')};"


def _real(its):
    """Tables of thresholds and values, and the factors that they are times of."""
    threshold, cut_scale = _scaled(its.threshold)
    few = len(its.value) < FEW_VALUES
    value, value_scale = (its.value.astype(np.float32), "") if few else _scaled(its.value, np.float64)
    scales = {"CUTSCALE": cut_scale, "VALUESCALE": value_scale}
    return {"threshold": threshold, "value": value}, scales


def _integer(its, form):
    """The same in integers."""
    tables = {"threshold": features(its.threshold.astype(np.float32), form.rows)[1], "value": form.leaves(its.value)}
    return tables, {"CUTSCALE": "", "VALUESCALE": ""}


def _scaled(values, kind=np.float32):
    """Numbers as integers of 8 or 16 bits where they are those times a power of two; and the factor, in C.

    ``kind`` is the type of the factor. The fewest digits that say a float32 are another number as a double.
    """
    values = values.astype(np.float32)
    mantissa, exponent = np.frexp(values[values != 0].astype(np.float64))
    whole = np.ldexp(mantissa, 24).astype(np.int64)
    least = int((exponent - 24 + np.log2(whole & -whole).astype(np.int64)).min(initial=127)) if len(whole) else 0
    integers = np.ldexp(values.astype(np.float64), -least)
    for name in ("uint8", "int8", "uint16", "int16"):
        info = np.iinfo(name)
        if -64 <= least and info.min <= integers.min(initial=0) and integers.max(initial=0) <= info.max:
            return integers.astype(name), f" * {number(kind(2.0**least))}" if least else ""
    return values, ""
