"""Slow, obvious reader of LIBSVM text: the twin of pymcboost/_kernels/svmtext.h."""

import math
import re

import numpy as np

NUMBER = re.compile(rb"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
INTEGER = re.compile(rb"-?\d+")


class TextError(Exception):
    """First error of a text: line and column from 1, and the scanner's word for it."""

    def __init__(self, line, column, code):
        super().__init__(f"{line}:{column}: {code}")
        self.line = line
        self.column = column
        self.code = code


def to_float32(text):
    """Nearest double, rounded to float32; None when that is infinite although the text is not."""
    value = float(text)
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    return None if np.isinf(rounded) and b"inf" not in text.lower() else rounded


def parse_label(token):
    if not NUMBER.fullmatch(token):
        return None, "multi label" if b"," in token else "label not number"
    value = float(token)
    if not math.isfinite(value) or abs(value) > 2**53:
        return None, "label range"
    if value == math.floor(value):
        whole = whole_number(token)
        if whole is None:
            return None, "label digits"
        if abs(whole) > 2**53:
            return None, "label range"
    return value, "ok"


def whole_number(token):
    """The integer that a decimal text of at most 2^53 in size stands for, None when it has a fraction."""
    mantissa, _, exponent = token.lower().partition(b"e")
    left, _, right = mantissa.partition(b".")
    digits = (left + right).lstrip(b"+-").lstrip(b"0")
    places = int(exponent or b"0") - len(right)
    while digits.endswith(b"0"):
        digits = digits[:-1]
        places = places + 1
    if not digits:
        return 0
    return int(digits) * 10**places if places >= 0 else None


def parse_entry(token, previous, min_index):
    """(index, value, code, offset of the error in the token)."""
    left, colon, right = token.partition(b":")
    if not colon:
        return 0, 0, "no colon", 0
    if not INTEGER.fullmatch(left):
        return 0, 0, "index not number", 0
    if left.startswith(b"-"):
        return 0, 0, "index negative", 0
    index = int(left) if len(left) < 4000 else int(left.lstrip(b"0")[:20] or b"0")
    if index > 2**31 - 1:
        return 0, 0, "index huge", 0
    if index < min_index:
        return 0, 0, "index zero", 0
    if index <= previous:
        return 0, 0, "index order", 0
    start = len(left) + 1
    if not right:
        return 0, 0, "no value", start
    if not NUMBER.fullmatch(right):
        return 0, 0, "value not number", start
    value = to_float32(right)
    if value is None:
        return 0, 0, "value overflow", start
    return index, value, "ok", 0


def parse(text, base="auto"):
    """(rows, labels, labelled): rows as lists of (index as written, float32); raises TextError."""
    min_index = 1 if base == 1 else 0
    rows = []
    labels = []
    labelled = []
    lines = text.split(b"\n")
    for number, line in enumerate(lines, 1):
        line, lone, _ = line.rstrip(b"\r").partition(b"\r")
        error = TextError(number, len(line) + 1, "lone CR")
        line = line.partition(b"#")[0]
        tokens = [(match.start() + 1, match.group()) for match in re.finditer(rb"[^ \t]+", line)]
        if lone and not tokens:
            raise error
        if not tokens:
            continue
        label = 0.0
        has_label = b":" not in tokens[0][1]
        if has_label:
            column, token = tokens.pop(0)
            label, code = parse_label(token)
            if code != "ok":
                raise TextError(number, column, code)
        if tokens and tokens[0][1].startswith(b"qid:"):
            column, token = tokens.pop(0)
            if not INTEGER.fullmatch(token[4:]):
                raise TextError(number, column + 4, "qid not number")
        row = []
        previous = -1
        for column, token in tokens:
            if token.startswith(b"qid:"):
                raise TextError(number, column, "qid place")
            index, value, code, offset = parse_entry(token, previous, min_index)
            if code != "ok":
                raise TextError(number, column + offset, code)
            row.append((index, value))
            previous = index
        if lone:
            raise error
        rows.append(row)
        labels.append(label)
        labelled.append(has_label)
    return rows, labels, labelled
