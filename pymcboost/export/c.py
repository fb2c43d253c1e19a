"""A model as one file of C: constant arrays and a loop over them."""

import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pymcboost._version import __version__
from pymcboost.export.ctext import array, identifier, lines, number, string, type_of
from pymcboost.export.forest import of_one_label
from pymcboost.export.integers import Quantised
from pymcboost.export.packedc import packed_trees
from pymcboost.model.arrays import narrow

OTHERS = "C is written of stumps, trees, interval tables and linear machines, not of a {}; mcb.h scores it"
EXP = "C is not written of decoder='exp', which needs exp and log; mcb.h scores it"

SIDE = """\
static int NAME_left(uint32_t f, THRESHOLD t, const INPUT *x) {
    VALUE v = READ;
    return v <= t || (MISSING && f >> FLAG);
}"""

LEAF = """\
/* Leaf of a tree whose splits are those from i to end, in preorder. */
static size_t NAME_leaf_of(const INPUT *x, size_t i, size_t end, size_t leaf) {
    while (i < end) {
        size_t right = NAME_right[i];
        if (NAME_left(NAME_feature[i], NAME_threshold[i], x)) {
            end = i + right;
            i++;
        } else {
            leaf += right;
            i += right;
        }
    }
    return leaf;
}"""

TREES = """\
    for (t = 0; t != TREES; t++) {
        size_t leaf = NAME_leaf_of(x, i, i + NAME_size[t], i + t);
        i += NAME_size[t];
        ADD
    }"""

STUMPS = """\
    for (i = 0; i != STUMPS; i++) {
        int left = NAME_left(NAME_feature[i], NAME_threshold[i], x);
        ADD
    }"""

INTERVALS = """\
    for (i = 0; i != FEATURES; i++) {
        VALUE v = x[NAME_feature[i]];
        size_t begin = NAME_offset[i], low = begin, high = NAME_offset[i + 1], row = 2 * i;
        if (v != v) {
            row += high + 1;
        } else {
            while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (NAME_threshold[middle] < v) low = middle + 1;
                else high = middle;
            }
            row += low;
        }
        for (k = 0; k < CLASSES; k++) scores[k] += NAME_table[row * CLASSES + k];
    }"""

LINEAR = """\
    double bad = 0;
    for (j = 0; j < INPUTS; j++) bad += x[j] - x[j];
    for (k = 0; k < CLASSES; k++) {
        double s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (j = 0; j < INPUTS; j++) s[j % 8] += (double)x[j] * NAME_coef[k * INPUTS + j];
        scores[k] = NAME_bias[k] + (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
        if (bad != bad) scores[k] = bad;
    }"""

HAMMING = """\
    for (k = 0; k < CLASSES; k++) {
        double wrong = 0;
        for (i = 0; i < COLUMNS; i++) {
            double margin = NAME_code[i * CLASSES + k] * column[i];
            wrong += margin < 0 ? 1 : margin > 0 ? 0 : 0.5;
        }
        scores[k] = NAME_bias[k] - wrong;
    }"""

PREDICT = """\
QUALIFIERint NAME_predict(const INPUT *x) {
    SUM scores[CLASSES];
    int k, best = 0;
    NAME_scores(x, scores);
    for (k = 1; k < CLASSES; k++) {
        if (scores[k] > scores[best]) best = k;
    }
    return best;
}"""

KEY = """\
/* The bits of a float32 as an integer of the same order; NaN as the largest one. */
static int32_t NAME_key(uint32_t bits) {
    uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return INT32_MAX;
    return bits >> 31 ? -(int32_t)size : (int32_t)size;
}"""


def to_c(
    model: Any, name: str = "model", *, header: bool = False, integer: str | None = None, rows: ArrayLike | None = None
) -> str:
    """The model as one file of C99, which allocates nothing, calls nothing and includes stddef.h and stdint.h alone.

    Its scores have the bits of ``raw_scores``, where double is IEEE's and -ffast-math is not used. The file defines
    ``NAME_scores(x, scores)``, ``NAME_predict(x)``, the number of the class, and ``NAME_label(number)``.

    Parameters
    ----------
    model : Model or fitted estimator
        Of stumps, trees or an interval table, or a linear machine. Packed trees stay packed. Kernel machines and
        ``decoder="exp"`` are refused.
    name : str, default="model"
        What the names in C begin with.
    header : bool, default=False
        The functions are static, so that the file can be included.
    integer : {"int8", "int16", "int32"}, optional
        Scores are sums of integers, for processors without floating point: the leaves are rounded to multiples of one
        step, so that the largest just fits this type. The range of every sum is computed beforehand and lies within
        32 bits. Linear machines and decoders are refused.
    rows : array-like or CSR matrix (m, n_features_in_), optional
        Rows for ``integer``. Where they hold integers below 2^24 in magnitude alone, features are the narrowest type
        that holds those, and thresholds are rounded down to it. Elsewhere features are the bits of float32, which are
        compared as integers.

    Returns
    -------
    str
    """
    model = of_one_label(model)
    identifier(name)
    ensemble, form = model.ensemble, None
    if ensemble.KIND == 3:
        ensemble = ensemble.dense()
    if ensemble.KIND not in (1, 2, 3, 5):
        raise ValueError(OTHERS.format(ensemble.NAME))
    if ensemble.decoder == "exp":
        raise ValueError(EXP)
    if integer is None and rows is not None:
        raise ValueError("rows are for scores in integers; give integer='int8', 'int16' or 'int32', too")
    if integer is not None:
        form = Quantised(model, integer, rows)
        ensemble = form.ensemble
    return "\n".join(_File(model, ensemble, form, name, header).lines()) + "\n"


class _File:
    """What the file is put together from."""

    def __init__(self, model, ensemble, form, name, header):
        self.model, self.ensemble, self.form, self.name, self.header = model, ensemble, form, name, header
        self.input = "float" if form is None else form.input
        self.sum = "double" if form is None else "int32_t"
        self.flags = getattr(ensemble, "nan_left", np.zeros(0, bool)).any()
        qualifier = "static inline " if header else ""
        self.words = {
            "NAME": name,
            "INPUTS": str(model.n_features_in_),
            "CLASSES": str(model.n_classes_),
            "INPUT": self.input,
            "VALUE": {"uint32_t": "int32_t"}.get(self.input, self.input),
            "SUM": self.sum,
            "QUALIFIER": qualifier,
        }

    def lines(self):
        """Yield the lines of the file."""
        ensemble, q = self.ensemble, self.words["QUALIFIER"]
        signatures = [
            f"{q}void {self.name}_scores(const {self.input} *x, {self.sum} *scores);",
            f"{q}int {self.name}_predict(const {self.input} *x);",
            f"{q}{self.label_type}{self.name}_label(int number);",
        ]
        yield from self.comment()
        guard = f"{self.name}_INCLUDED"
        yield from [f"#ifndef {guard}", f"#define {guard}", ""] if self.header else []
        yield from ["#include <stddef.h>", "#include <stdint.h>", "", *signatures, ""]
        body = {1: self.stumps, 2: self.intervals, 3: self.trees, 5: self.linear}[ensemble.KIND]
        arrays, helpers, declared, loop = self.packed() if self.model.layout in ("packed", "tight") else body()
        for name, values in {"bias": ensemble.bias, **arrays}.items():
            yield from [*array(f"{self.name}_{name}", values), ""]
        if self.input == "uint32_t":
            yield self.fill(KEY) + "\n"
        for helper in helpers:
            yield self.fill(helper) + "\n"
        yield self.fill("QUALIFIERvoid NAME_scores(const INPUT *x, SUM *scores) {")
        yield f"    size_t {declared};"
        yield from [self.fill(loop), "}", "", self.fill(PREDICT), ""]
        yield from self.labels()
        yield from ["", "#endif"] if self.header else []

    def fill(self, text):
        """The text with this model's words in place of those in capitals; once, as the name may be one of them."""
        words = self.words
        return re.sub("|".join(sorted(words, key=len, reverse=True)), lambda found: str(words[found[0]]), text)

    def comment(self):
        """Yield what the file begins with."""
        model, name = self.model, self.name
        yield f"/* {model.ensemble.NAME}: {model.n_classes_} classes, {model.n_features_in_} features."
        yield f" * Written by pymcboost {__version__}."
        yield " *"
        yield f" * {name}_scores: scores of the classes of one row, which has all features. {name}_predict: number of"
        yield f" * the class with the highest score, the lowest of equal ones. {name}_label: its label."
        about = ["Do not compile with -ffast-math."] if self.form is None else self.form.comment()
        yield from (f" * {line}" for line in about)
        yield " */"

    @property
    def label_type(self):
        """Type of the class labels in C."""
        return "int64_t " if self.model.classes_.dtype.kind in "iu" else "const char *"

    def labels(self):
        """Yield the function that knows the labels."""
        kind, values = self.label_type, self.model.classes_.tolist()
        items = map(number, values) if kind == "int64_t " else map(string, values)
        item = "int64_t " if kind == "int64_t " else "char *const "
        table = lines(f"static const {item}labels[{len(values)}] = {{", items, "};")
        yield f"{self.words['QUALIFIER']}{kind}{self.name}_label(int number) {{"
        yield from (f"    {line}" for line in table)
        yield from ["    return labels[number];", "}"]

    def splits(self, thresholds):
        """The arrays and the function that every split needs."""
        ensemble = self.ensemble
        feature = narrow(ensemble.feature, ensemble.nan_left if self.flags else None)
        bits = 8 * feature.itemsize - 1
        index = f"f & {(1 << bits) - 1}u" if self.flags else "f"
        read = f"NAME_key(x[{index}])" if self.input == "uint32_t" else f"x[{index}]"
        missing = "v == INT32_MAX" if self.input == "uint32_t" else "v != v"
        side = SIDE if self.flags else SIDE.replace(" || (MISSING && f >> FLAG)", "")
        words = {"READ": read, "MISSING": missing, "FLAG": str(bits), "THRESHOLD": type_of(thresholds)}
        for word, text in words.items():
            side = side.replace(word, text)
        return {"feature": feature, "threshold": thresholds}, side

    def start(self, loop):
        """The loop after the scores have got the bias."""
        return f"    for (k = 0; k < CLASSES; k++) scores[k] = NAME_bias[k];\n{loop}"

    def packed(self):
        """The same of packed trees."""
        arrays, helpers, declared, loop, words = packed_trees(self.model, self.form)
        self.words |= words
        return arrays, helpers, declared, loop

    def stumps(self):
        """Arrays, functions, counters and the loop of a list of stumps."""
        ensemble = self.ensemble
        arrays, side = self.splits(ensemble.threshold)
        arrays["value"] = ensemble.right
        add = "for (k = 0; k < CLASSES; k++) scores[k] += {};"
        value = "NAME_value[i * CLASSES + k]"
        if ensemble.left is None:
            value = f"left ? -{value} : {value}"
        else:
            arrays["other"] = ensemble.left
            value = f"left ? NAME_other[i * CLASSES + k] : {value}"
        loop = STUMPS.replace("ADD", add.format(value)).replace("STUMPS", str(len(ensemble)))
        return arrays, [side], "i, k", self.start(loop)

    def intervals(self):
        """The same of an interval table."""
        ensemble = self.ensemble
        names = ("feature", "offset", "threshold", "table")
        arrays = {name: getattr(ensemble, name) for name in names}
        arrays |= {name: narrow(arrays[name]) for name in names[:2]}
        return arrays, [], "i, k", self.start(INTERVALS.replace("FEATURES", str(len(ensemble.feature))))

    def linear(self):
        """The same of a linear machine."""
        return {"coef": self.ensemble.coef}, [], "j, k", LINEAR

    def trees(self):
        """The same of trees."""
        ensemble = self.ensemble
        arrays, side = self.splits(ensemble.threshold)
        arrays |= {"size": narrow(np.diff(ensemble.offset)), "right": narrow(ensemble.right), "value": ensemble.leaf}
        own, value = "NAME_class[t]", "NAME_value[leaf]"
        arrays |= {} if ensemble.cls is None else {"class": narrow(ensemble.cls)}
        before, after = "", ""
        if ensemble.cls is None:
            add = "for (k = 0; k < CLASSES; k++) scores[k] += NAME_value[leaf * CLASSES + k];"
        elif ensemble.decoder == "hamming":
            arrays["code"] = ensemble.code
            add, after = f"column[{own}] += {value};", "\n" + HAMMING.replace("COLUMNS", str(len(ensemble.code)))
            before = f"    double column[{len(ensemble.code)}] = {{0}};\n"
        elif ensemble.code is not None:
            arrays["code"] = ensemble.code
            product = f"({self.sum}){value} * NAME_code[{own} * CLASSES + k]"
            add = f"for (k = 0; k < CLASSES; k++) scores[k] += {product};"
        else:
            add = f"scores[{own}] += {value};"
        if ensemble.base is not None:
            arrays["base"] = narrow(np.where(ensemble.base < 0, ensemble.n_classes, ensemble.base))
            add += f"\n        if (NAME_base[t] < CLASSES) scores[NAME_base[t]] -= {value};"
        loop = TREES.replace("ADD", add).replace("TREES", str(len(ensemble)))
        bias = self.start("") if ensemble.decoder == "linear" else ""
        k = ", k" if "k" in {*add.split(), *bias.split(), *(["k"] if after else [])} or bias else ""
        return arrays, [side, LEAF], f"t, i = 0{k}", before + bias + loop + after
