"""The arithmetic of docs/format.md in plain Python: sums, rounding, exponential function, logarithm."""

import decimal
import math
import struct


def single(value):
    """Rounded to float32."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def eight(terms):
    """The sum of products, in eight partial sums."""
    s = [0.0] * 8
    for j, term in enumerate(terms):
        s[j % 8] += term
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))


def shortened(value):
    """29 significant bits, halves away from 0."""
    if not math.isfinite(value):
        return math.nan
    if abs(value) < 2.0**-700:
        return 0.0
    mantissa, exponent = math.frexp(abs(value))
    try:
        return math.copysign(math.ldexp(math.floor(mantissa * 2**29 + 0.5), exponent - 29), value)
    except OverflowError:
        return math.copysign(math.inf, value)


def power(base, degree):
    """Powers as kernels of degree ``degree`` take them."""
    result = 1.0
    while degree:
        if degree & 1:
            result *= base
        base = base * base
        degree = degree >> 1
    return result


decimal.getcontext().prec = 60
_LN2 = decimal.Decimal(2).ln()
_PER_LN2 = round(2**63 / _LN2)
_LN2_64 = round(2**64 * _LN2)
_POWERS = [round(2**63 * (_LN2 * i / 16).exp()) for i in range(16)]
_TERMS = [round(decimal.Decimal(2**62) / math.factorial(n)) for n in range(9, -1, -1)]


def exp(x):
    """The exponential function in integers."""
    if math.isnan(x):
        return x
    if abs(x) >= 1024:
        return 0.0 if x < 0 else math.inf
    if abs(x) < 2.0**-54:
        return 1.0
    mantissa, exponent = math.frexp(abs(x))
    q = int(mantissa * 2**53) * _PER_LN2 >> (52 - exponent)
    whole, fraction = divmod(-q if x < 0 else q, 2**64)
    z = ((fraction << 4) % 2**64 * _LN2_64 >> 64) >> 4
    p = _TERMS[0]
    for term in _TERMS[1:]:
        p = term + (p * z >> 64)
    p = p * _POWERS[fraction >> 60] >> 64
    if p >> 62:
        p = p >> 1
        whole = whole + 1
    if whole > 1023:
        return math.inf
    if whole >= -1022:
        number = p + 256 >> 9
        return math.inf if number == 2**53 and whole == 1023 else math.ldexp(number, whole - 52)
    shift = 9 - 1022 - whole
    return 0.0 if shift > 63 else math.ldexp(p + (1 << (shift - 1)) >> shift, -1074)


def log(x):
    """The natural logarithm in float64."""
    mantissa, exponent = math.frexp(x)
    mantissa = 2 * mantissa
    exponent = exponent - 1
    if mantissa >= float.fromhex("0x1.6a09e667f3bcdp0"):
        mantissa = mantissa / 2
        exponent = exponent + 1
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    total = 0.0
    for i in range(21, 1, -2):
        total = (total + 1 / i) * square
    return exponent * 0.693147180559945286 + 2 * (s + total * s)
