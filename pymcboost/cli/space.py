"""What mcboost-tune searches: several values or a range for an option, and the combinations of them."""

import argparse
import itertools
import math
import random
from typing import Any, NamedTuple

# Options that have one value in a search: the folds follow from the seed, and the others change no result.
SINGLE = ("random_state", "n_jobs", "verbose")
# Draws for one that is wanted, after which small spaces count as used up.
TRIES = 50


class Choices(NamedTuple):
    """Values to try, without repeats."""

    values: tuple[Any, ...]

    def at(self, u):
        """The value at this share of the way, from 0 to below 1."""
        return self.values[int(u * len(self.values))]


class Range(NamedTuple):
    """Numbers to draw from, both ends included."""

    low: float
    high: float
    log: bool

    def at(self, u):
        """The number at this share of the way, with four digits; whole where the ends are."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if isinstance(self.low, int) and isinstance(self.high, int):
            found = round(math.exp(low + u * (high - low))) if self.log else self.low + int(u * (high - low + 1))
        else:
            found = low + u * (high - low)
            found = float(f"{math.exp(found) if self.log else found:.4g}")
        return min(max(found, self.low), self.high)


def several(convert):
    """Make an argparse type of ``a,b,c``, ``low:high`` and ``low:high:log`` from that of one value."""

    def parse(text):
        if ":" not in text:
            return Choices(tuple(dict.fromkeys(map(convert, text.split(",")))))
        parts = text.split(":")
        if len(parts) > 3 or (len(parts) == 3 and parts[2] != "log"):
            raise argparse.ArgumentTypeError(f"{text!r}: a range is low:high or low:high:log")
        low, high = map(convert, parts[:2])
        if not all(isinstance(value, (int, float)) for value in (low, high)):
            raise argparse.ArgumentTypeError(f"{text!r}: a range is of numbers; give the values, as in a,b,c")
        if not low < high:
            raise argparse.ArgumentTypeError(f"{text!r}: the low end of a range must be below the high end")
        if len(parts) == 3 and low <= 0:
            raise argparse.ArgumentTypeError(f"{text!r}: a range of logarithms begins above 0")
        return Range(low, high, len(parts) == 3)

    return parse


def grid(space):
    """All combinations, the last option changing fastest; a dict each."""
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*(c.values for c in space.values()))]


def draws(space, wanted, seed):
    """So many different combinations, fewer where there are no more; the first ones do not depend on their number."""
    found = {}
    for trial in range(TRIES * wanted):
        if len(found) == wanted:
            break
        made = {name: part.at(random.Random(f"{seed} {trial} {name}").random()) for name, part in space.items()}
        found.setdefault(tuple(made.values()), made)
    return list(found.values())
