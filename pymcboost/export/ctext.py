"""Pieces of C: names, numbers and arrays."""

import re

import numpy as np

WIDTH = 116
# The longest string that every C99 compiler takes.
LONGEST = 4095


def identifier(name):
    """Return the name if names of C can begin with it, else refuse it."""
    if not re.fullmatch(r"[A-Za-z]\w{0,39}", name, re.ASCII):
        raise ValueError(
            f"name={name!r} must be a name in C: a letter, then at most 39 letters, digits and underscores"
        )
    return name


def number(value):
    """A number of an array as a constant with the same bits."""
    if isinstance(value, np.float32):
        return f"{value!s}f"
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, int) and value == -(1 << 63):
        return "(-INT64_C(9223372036854775807) - 1)"
    if isinstance(value, int) and not -(1 << 31) < value < 1 << 31:
        return f"INT64_C({value})"
    return repr(value)


def type_of(array):
    """C's name of the type of an array's numbers."""
    dtype = array.dtype.newbyteorder("=")
    return {"float32": "float", "float64": "double"}.get(str(dtype), f"{dtype}_t")


def array(name, values):
    """Lines that define a constant array; one without numbers gets a 0, as C has no empty ones."""
    values = np.ravel(values)
    values = values if len(values) else np.zeros(1, values.dtype)
    return lines(f"static const {type_of(values)} {name}[{len(values)}] = {{", map(number, values), "};")


def lines(head, items, tail):
    """Lines with items between commas."""
    out, line = [head], "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            out.append(line)
            line = "   "
        line += f" {item},"
    return [*out, line.rstrip(","), tail]


def string(text):
    """A string of UTF-8 as a constant."""
    data = text.encode()
    if len(data) > LONGEST:
        raise ValueError(f"C holds labels of at most {LONGEST} bytes; one has {len(data)}")
    plain = {*range(32, 127)} - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in data) + '"'
