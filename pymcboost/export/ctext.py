"""Building blocks of C source code: names, numbers and arrays."""

import re

import numpy as np

WIDTH = 116
# Maximum length of a string that every C99 compiler accepts.
LONGEST = 4095


def identifier(name):
    """Return the name if C identifiers can start with it; otherwise raise an error."""
    if not re.fullmatch(r"[A-Za-z]\w{0,39}", name, re.ASCII):
        raise ValueError(
            f"name={name!r} must be a C identifier: a letter, then at most 39 letters, digits "
            "and underscores"
        )
    return name


def number(value):
    """Format an integer of an array as a C constant."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, int) and value == -(1 << 63):
        return "(-INT64_C(9223372036854775807) - 1)"
    if isinstance(value, int) and not -(1 << 31) < value < 1 << 31:
        return f"INT64_C({value})"
    return repr(value)


def array(name, values, type_name=None):
    """Lines that define a constant array of integers; an empty array gets a 0, because C has no empty arrays."""
    values = np.ravel(values)
    if not len(values):
        values = np.zeros(1, values.dtype)
    type_name = type_name or f"{values.dtype.newbyteorder('=')}_t"
    return lines(f"static const {type_name} {name}[{len(values)}] = {{", map(number, values), "};")


def lines(head, items, tail):
    """Format items, separated by commas, in lines."""
    out = [head]
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            out.append(line)
            line = "   "
        line += f" {item},"
    return [*out, line.rstrip(","), tail]


def string(text):
    """Format a UTF-8 string as a C constant."""
    data = text.encode()
    if len(data) > LONGEST:
        raise ValueError(
            f"labels in C may have at most {LONGEST} bytes, but one has {len(data)}; use shorter "
            "labels"
        )
    plain = {*range(32, 127)} - set(b'"\\?')
    escaped = "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in data)
    return f'"{escaped}"'
