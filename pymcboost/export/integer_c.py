"""Packed trees as C code with integer scores, for processors without floating point."""

import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pymcboost._version import __version__
from pymcboost.export.ctext import array, identifier, lines, number, string
from pymcboost.export.integers import Quantised, feature_type
from pymcboost.model.packed import streams

# Words in capitals are placeholders for what differs between models.
COMMENT = """\
/* trees: CLASSES classes, INPUTS features.
 * Written by pymcboost VERSION.
 *
 * NAME_scores: scores of the classes of one row, which has all features. NAME_predict: number of
 * the class with the highest score, the lowest of equal ones. NAME_label: its label."""

BITS = """\
/* Number of `width` bits that begins at a bit of p, the lowest bit first. */
static uint32_t NAME_bits(const uint8_t *p, uint32_t bit, uint32_t width) {
    uint32_t v = 0, n;
    p += bit >> 3;
    bit &= 7u;
    for (n = 0; n < bit + width; n += 8) v |= (uint32_t)*p++ << n;
    return v >> bit & (((uint32_t)1 << width) - 1u);
}"""

KEY = """\
/* The bits of a float32 as an integer of the same order; NaN as the largest one. */
static int32_t NAME_key(uint32_t bits) {
    uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return INT32_MAX;
    return bits >> 31 ? -(int32_t)size : (int32_t)size;
}"""

SCORES = """\
QUALIFIERvoid NAME_scores(const INPUT *x, int32_t *scores) {
    size_t k;
    uint32_t t, i = 0;
    for (k = 0; k < CLASSES; k++) scores[k] = NAME_bias[k];
    for (t = 0; t != TREES; t++) {
        uint32_t next = i + LEAST SIZES, end = next, leaf = i + t;
        while (i < end) {
            uint32_t bit = i * SPLITBITS, f = NAME_bits(NAME_split, bit, FEATUREBITS);
            uint32_t c = NAME_first[f] + NAME_bits(NAME_split, bit + FEATUREBITS, CUTBITS);
            uint32_t right = 1 + NAME_bits(NAME_split, bit + RIGHTAT, RIGHTBITS);
            VALUE v = READ;
            if (v <= NAME_threshold[c]MISSING) {
                end = i + right;
                i++;
            } else {
                leaf += right;
                i += right;
            }
        }
        i = next;
        ADD
    }
}"""

PREDICT = """\
QUALIFIERint NAME_predict(const INPUT *x) {
    int32_t scores[CLASSES];
    int k, best = 0;
    NAME_scores(x, scores);
    for (k = 1; k < CLASSES; k++) {
        if (scores[k] > scores[best]) best = k;
    }
    return best;
}"""

# What a leaf adds to: the score of the tree's class, or the scores of all classes.
ADD_ONE = "scores[CLASSOF] += NAME_value[NAME_bits(NAME_leaf, leaf * LEAFBITS, LEAFBITS)];"
ADD_ALL = (
    "for (k = 0; k < CLASSES; k++) "
    "scores[k] += NAME_value[NAME_bits(NAME_leaf, (leaf * CLASSES + (uint32_t)k) * LEAFBITS, LEAFBITS)];"
)
# Numbers with more bits may not lie within 32 bits.
MOST_BITS = 25


def to_integer_c(
    model: Any,
    name: str = "model",
    *,
    integer: str = "int8",
    rows: ArrayLike | None = None,
    header: bool = False,
) -> str:
    """Write packed trees as C source code without floating point, for microcontrollers.

    The file is valid C99. It does not allocate memory or call other functions, and it only includes stddef.h and
    stdint.h. It defines ``NAME_scores(x, scores)``, ``NAME_predict(x)``, which returns the number of the class, and
    ``NAME_label(number)``.

    Parameters
    ----------
    model : Model
        Model of packed trees (``layout="packed"``).
    name : str, default="model"
        Prefix of the names in C.
    integer : {"int8", "int16", "int32"}, default="int8"
        Type of the leaf values. They are rounded to multiples of a step, chosen so that the largest value just fits the
        type. All sums fit 32 bits; their range is computed in advance.
    rows : array-like or CSR matrix of shape (m, n_features_in_), default=None
        Rows like those that will be scored. If all of their values are integers below 2^24 in magnitude, features have
        the smallest integer type that can represent them, and thresholds are rounded down to it. Otherwise, and without
        rows, features are the bits of float32 values, which are compared as integers.
    header : bool, default=False
        Whether the functions are static, so that the file can be included as a header.

    Returns
    -------
    str
        C source code.

    Raises
    ------
    ValueError
        If the model is not a model of packed trees, or a sum could exceed 32 bits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import Model, VectorTreeBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = VectorTreeBoostClassifier(n_estimators=5, random_state=0).fit(X, y).model_
    >>> packed = Model.from_bytes(model.to_bytes(layout="packed", leaves="int8"))
    >>> "int iris_predict(" in to_integer_c(packed, name="iris")
    True
    """
    identifier(name)
    quantised = Quantised(model, integer, rows)
    return "\n\n".join(_parts(quantised, name, "static inline " if header else "", header)) + "\n"


def _parts(quantised, name, qualifier, header):
    """Yield the parts of the file, which are separated by empty lines."""
    model = quantised.model
    packed = streams(model._sections()["PACK"], model.n_classes_)
    widths = {**packed.widths, "split": sum(packed.split_widths)}
    largest = max(widths["size"], widths["class"], widths["leaf"], *packed.split_widths)
    if largest > MOST_BITS or 8 * packed.n_bytes >= 1 << 32:
        raise ValueError(
            "the packed trees are too large for C code with 32-bit numbers; use mcb.h to score them"
        )
    bits_of_floats = quantised.input == "uint32_t"
    words = _words(packed, widths, bits_of_floats) | {
        "NAME": name,
        "INPUTS": model.n_features_in_,
        "CLASSES": model.n_classes_,
        "INPUT": quantised.input,
        "VALUE": "int32_t" if bits_of_floats else quantised.input,
        "QUALIFIER": qualifier,
        "VERSION": __version__,
    }
    label = "int64_t " if model.classes_.dtype.kind in "iu" else "const char *"
    about = "".join(f"\n * {line}" for line in quantised.comment())
    guard = f"#ifndef {name}_INCLUDED\n#define {name}_INCLUDED\n\n" if header else ""
    yield f"{_filled(COMMENT, words)}{about}\n */\n{guard}#include <stddef.h>\n#include <stdint.h>"
    yield (
        f"{qualifier}void {name}_scores(const {quantised.input} *x, int32_t *scores);\n"
        f"{qualifier}int {name}_predict(const {quantised.input} *x);\n"
        f"{qualifier}{label}{name}_label(int number);"
    )
    for array_name, values in _arrays(quantised, packed, widths).items():
        yield "\n".join(array(f"{name}_{array_name}", values))
    if bits_of_floats:
        yield _filled(KEY, words)
    for text in (BITS, SCORES, PREDICT):
        yield _filled(text, words)
    yield "\n".join(_label_function(model, name, qualifier + label))
    if header:
        yield "#endif"


def _arrays(quantised, packed, widths):
    """Constant arrays of the file, by name."""
    _, threshold = feature_type(packed.threshold, quantised.rows)
    arrays = {
        "bias": quantised.bias,
        "feature": packed.feature,
        "first": packed.first,
        "threshold": threshold,
        "value": quantised.leaves(packed.value),
    }
    for stream, bits in packed.bits.items():
        if len(bits) and widths[stream]:
            arrays[stream] = np.asarray(bits)
    for stream in ("split", "leaf"):
        arrays.setdefault(stream, np.zeros(1, dtype=np.uint8))
    return arrays


def _words(packed, widths, bits_of_floats):
    """Replacements of the placeholders in the loop."""
    feature_bits, cut_bits, right_bits, *missing = packed.split_widths
    class_of = "NAME_bits(NAME_class, t * CLASSBITS, CLASSBITS)" if widths["class"] else "0"
    goes_left = " || (v == INT32_MAX && NAME_bits(NAME_split, bit + SPLITBITS - 1, 1))"
    return {
        "TREES": packed.n_trees,
        "LEAST": packed.smallest_size,
        " SIZES": " + NAME_bits(NAME_size, t * SIZEBITS, SIZEBITS)" if widths["size"] else "",
        "SIZEBITS": widths["size"],
        "SPLITBITS": widths["split"],
        "FEATUREBITS": feature_bits,
        "CUTBITS": cut_bits,
        "RIGHTAT": feature_bits + cut_bits,
        "RIGHTBITS": right_bits,
        "LEAFBITS": widths["leaf"],
        "CLASSBITS": widths["class"],
        "MISSING": goes_left if missing and bits_of_floats else "",
        "READ": "NAME_key(x[NAME_feature[f]])" if bits_of_floats else "x[NAME_feature[f]]",
        "ADD": ADD_ONE.replace("CLASSOF", class_of) if packed.has_classes else ADD_ALL,
    }


def _filled(text, words):
    """Replace the placeholders in a text, also those in inserted text."""
    for word in ("ADD", "READ", "MISSING", " SIZES"):
        text = text.replace(word, words[word])
    # In one pass, because the name may be equal to a placeholder.
    pattern = "|".join(sorted(words, key=len, reverse=True))
    return re.sub(pattern, lambda match: str(words[match[0]]), text)


def _label_function(model, name, head):
    """Lines of the function that returns labels."""
    values = model.classes_.tolist()
    are_integers = model.classes_.dtype.kind in "iu"
    items = map(number if are_integers else string, values)
    item = "int64_t " if are_integers else "char *const "
    table = lines(f"static const {item}labels[{len(values)}] = {{", items, "};")
    return [
        f"{head}{name}_label(int number) {{",
        *(f"    {line}" for line in table),
        "    return labels[number];",
        "}",
    ]
