"""A row of the parameter table: the allowed values, in words and as a check. Standard library only."""

import numbers
from collections.abc import Mapping
from typing import NamedTuple

from pymcboost._text import column_of

# Maximum length of the name of a validation set or metric: checkpoints use these names for files in an archive.
LONGEST_NAME = 200


class Parameter(NamedTuple):
    """Allowed values and purpose of a parameter.

    ``low`` and ``high`` are inclusive unless ``open_low`` or ``open_high`` is set. ``python_only`` keeps the parameter
    off the command line. The rest follows from the type of the field: ``kind`` is int, float, bool, str or object
    (checked by the algorithm), and ``choices`` are the allowed strings. Further flags allow a function, a list of lists
    of class codes, a dictionary of class weights, a generator, or True and False for an integer. With ``several``, a
    list of such values or a dictionary of them by name is allowed, too. ``type_text`` is the type in docstrings, if the
    type of the field is not clear enough.
    """

    help: str
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False
    python_only: bool = False
    kind: type = object
    none: bool = False
    choices: tuple[str, ...] = ()
    scorers: bool = False
    callables: bool = False
    lists: bool = False
    dicts: bool = False
    generators: bool = False
    splitters: bool = False
    bools: bool = False
    losses: bool = False
    several: bool = False
    type_text: str = ""

    def describe(self, text=False):
        """Describe the allowed values; with ``text``, those on the command line."""
        if self.kind is str:
            words = "one of " + ", ".join(repr(choice) for choice in self.choices)
            if self.scorers:
                words += ", a name that sklearn.metrics.get_scorer_names() lists"
            if self.callables and not text:
                words += " or a callable"
            if self.several and not text:
                words += ", or a list or dict of these"
            if self.losses and not text:
                words += ", or an object with the methods of a loss"
        elif self.kind is bool:
            words = "True or False"
        else:
            words = {int: "an integer", float: "a number"}[self.kind] + self._range_in_words()
            words += "".join(f" or {choice!r}" for choice in self.choices)
        if not text:
            words += self._objects_in_words()
        if self.none:
            words += " or none" if text else " or None"
        return words

    def _objects_in_words(self):
        """Allowed values that only Python code can give."""
        words = ""
        if self.bools:
            words += ", True or False"
        if self.lists:
            words += (
                ", or a list of lists of class codes: integers from 0 to K - 1, in the order of "
                "classes_"
            )
        if self.splitters:
            words += ", a splitter of scikit-learn or an iterable of (train, held) rows"
        if self.dicts:
            words += ", a dict with the weight of each class label"
        if self.generators:
            words += ", a numpy.random.RandomState"
        return words

    def type_in_words(self):
        """The type, as written in a docstring."""
        if self.type_text:
            words = self.type_text
        elif self.dicts and self.kind is object:
            words = "dict"
        elif self.kind is str:
            words = "{" + ", ".join(f'"{choice}"' for choice in self.choices) + "}"
            words += ", str" if self.scorers else ""
        else:
            words = "array-like" if self.kind is object else self.kind.__name__ + self._interval()
            words += "".join(f' or "{choice}"' for choice in self.choices)
            words += ", splitter or iterable of (train, test) pairs" if self.splitters else ""
        if self.dicts and self.kind is not object:
            words += ", dict"
        if self.generators:
            words += ", RandomState instance"
        if self.losses:
            words += ", loss object"
        if self.callables:
            words += " or callable"
        if self.several:
            words += ", or list or dict of these"
        if self.lists:
            words += " or list of lists of int"
        if self.none:
            words += " or None"
        return words

    def _interval(self):
        """The range in a docstring, such as `` in (0, 1]``."""
        if self.low is None or self.high is None:
            return self._bounds(str(self.low), str(self.high))
        low = _short_exponent(self.low)
        high = _short_exponent(self.high)
        return f" in {'(' if self.open_low else '['}{low}, {high}{')' if self.open_high else ']'}"

    def _range_in_words(self):
        """The range in a message, such as `` from 1 to 9`` or `` > 0``."""
        low = _in_digits(self.low)
        high = _in_digits(self.high)
        if self.low is None or self.high is None or self.open_low or self.open_high:
            return self._bounds(low, high)
        return f" from {low} to {high}"

    def _bounds(self, low, high):
        """The bounds that there are, as comparisons with these texts."""
        comparisons = []
        if self.low is not None:
            comparisons.append(f"{'>' if self.open_low else '>='} {low}")
        if self.high is not None:
            comparisons.append(f"{'<' if self.open_high else '<='} {high}")
        return f" {' and '.join(comparisons)}" if comparisons else ""

    def allows(self, value):
        """Whether ``value`` is allowed."""
        if self.several and isinstance(value, (list, tuple, Mapping)):
            return not self._fault_of_several("", value)
        return self._allows_one(value)

    def refusal(self, name, value):
        """Explain why the parameter ``name`` cannot be ``value``, and what is allowed."""
        fault = (
            self.several
            and isinstance(value, (list, tuple, Mapping))
            and self._fault_of_several(name, value)
        )
        if fault:
            return fault
        words = f"{name}={value!r} is not allowed; it must be {self.describe()}"
        from pymcboost.training.other_names import hint_of_value  # a table that only errors need

        return words + hint_of_value(name.partition("[")[0], value, self.allows)

    def _fault_of_several(self, name, values):
        """Describe what is wrong with a list or dictionary of values; empty if nothing is."""
        if not values:
            return (
                f"{name}={values!r} is empty; give at least one value, as in "
                f"{list(self.choices[:2])}"
            )
        own_names = isinstance(values, Mapping)
        single = self._replace(several=False)
        for place, value in values.items() if own_names else enumerate(values):
            if own_names and not is_name(place):
                return (
                    f"{name} has the key {place!r}, which is not a valid name; use a string of "
                    f"up to {LONGEST_NAME} printable characters"
                )
            if not single.allows(value):
                return single.refusal(f"{name}[{place!r}]", value)
        columns = [*values] if own_names else [column_of(value) for value in values]
        for place, column in enumerate(columns):
            if column in columns[:place] and isinstance(values[place], str):
                return f"{name}={values!r} has {column!r} twice; give each name once"
            if column in columns[:place]:
                return (
                    f"{name}[{columns.index(column)}] and {name}[{place}] would both be "
                    f"{column!r} in the history; give them names in a dict, as in {{'cost': "
                    "function, 'profit': other_function}"
                )
        return ""

    def _allows_one(self, value):
        """Whether a single value is allowed, which is no list or dictionary of several."""
        if value is None:
            return self.none
        if self.lists and isinstance(value, (list, tuple)):
            return bool(value) and all(
                isinstance(part, (list, tuple)) and all(map(_is_whole, part)) for part in value
            )
        if self.choices and isinstance(value, str):
            return value in self.choices or (self.scorers and value in _scorers())
        if self.losses and not isinstance(value, (str, numbers.Number)):
            return True  # checked by the algorithm
        if self.splitters and not isinstance(value, str):
            if hasattr(value, "split") or hasattr(value, "__iter__"):
                return True
        if self.kind is object:
            return True
        if self.callables and callable(value):
            return True
        if self.dicts and isinstance(value, dict):
            return True
        if self.generators and type(value).__name__ == "RandomState":
            return True
        if self.kind is bool:
            return isinstance(value, bool)
        if self.bools and isinstance(value, bool):
            return True
        return self._allows_number(value)

    def _allows_number(self, value):
        number = {int: numbers.Integral, float: numbers.Real}.get(self.kind)
        if number is None or not isinstance(value, number) or isinstance(value, bool):
            return False
        if value != value or value in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value < self.high or (value == self.high and not self.open_high)


def _in_digits(bound):
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _short_exponent(bound):
    """Text of a bound, where 1e+06 becomes 1e6."""
    text = _in_digits(bound)
    return text.replace("e+0", "e").replace("e+", "e") if isinstance(bound, float) else text


def is_name(name):
    """Whether a validation set or a metric may have this name."""
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _is_whole(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _scorers():
    from sklearn.metrics import get_scorer_names  # a second to load, and rarely needed

    return get_scorer_names()
