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
            words += (
                ", a name that sklearn.metrics.get_scorer_names() lists" if self.scorers else ""
            )
            words += " or a callable" if self.callables and not text else ""
            words += ", or a list or dict of these" if self.several and not text else ""
            words += ", or an object with the methods of a loss" if self.losses and not text else ""
        elif self.kind is bool:
            words = "True or False"
        else:
            words = {int: "an integer", float: "a number"}[self.kind] + self._range_in_words()
            words += "".join(f" or {choice!r}" for choice in self.choices)
        if not text:
            words += ", True or False" * self.bools
            codes = (
                "a list of lists of class codes: integers from 0 to K - 1, in the order of classes_"
            )
            words += f", or {codes}" if self.lists else ""
            words += (
                ", a splitter of scikit-learn or an iterable of (train, held) rows"
                if self.splitters
                else ""
            )
            words += ", a dict with the weight of each class label" if self.dicts else ""
            words += ", a numpy.random.RandomState" if self.generators else ""
        return words + (f" or {'none' if text else None}" if self.none else "")

    def type_in_words(self):
        """The type, as written in a docstring."""
        if self.type_text:
            words = self.type_text
        elif self.kind is str:
            words = (
                "{"
                + ", ".join(f'"{choice}"' for choice in self.choices)
                + "}"
                + ", str" * self.scorers
            )
        else:
            words = "array-like" if self.kind is object else self.kind.__name__ + self._interval()
            words += "".join(f' or "{choice}"' for choice in self.choices)
            words += ", splitter or iterable of (train, test) pairs" if self.splitters else ""
        words = "dict" if self.dicts and self.kind is object else words + ", dict" * self.dicts
        words += ", RandomState instance" if self.generators else ""
        words += ", loss object" if self.losses else ""
        words += " or callable" if self.callables else ""
        words += ", or list or dict of these" if self.several else ""
        words += " or list of lists of int" if self.lists else ""
        return words + (" or None" if self.none else "")

    def _interval(self):
        if self.low is None or self.high is None:
            return self._range()
        low, high = (
            f"{bound:g}".replace("e+0", "e").replace("e+", "e")
            if isinstance(bound, float)
            else str(bound)
            for bound in (self.low, self.high)
        )
        return f" in {'[('[self.open_low]}{low}, {high}{'])'[self.open_high]}"

    def _range(self):
        low = self.low
        high = self.high
        words = "" if low is None else f" {'>' if self.open_low else '>='} {low}"
        if high is not None:
            words += f"{' and' if low is not None else ''} {'<' if self.open_high else '<='} {high}"
        return words

    def _range_in_words(self):
        low, high = (
            f"{bound:g}" if isinstance(bound, float) else bound for bound in (self.low, self.high)
        )
        if low is None or high is None or self.open_low or self.open_high:
            words = "" if low is None else f" {'>' if self.open_low else '>='} {low}"
            if high is not None:
                words += f"{' and' * bool(words)} {'<' if self.open_high else '<='} {high}"
            return words
        return f" from {low} to {high}"

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
        if value is None:
            return self.none
        if self.lists and isinstance(value, (list, tuple)):
            return all(
                isinstance(part, (list, tuple)) and all(map(_is_whole, part)) for part in value
            ) and bool(value)
        if self.choices and isinstance(value, str):
            return value in self.choices or (self.scorers and value in _scorers())
        if self.losses and not isinstance(value, (str, numbers.Number)):
            return True  # checked by the algorithm
        if (
            self.splitters
            and not isinstance(value, str)
            and (hasattr(value, "split") or hasattr(value, "__iter__"))
        ):
            return True
        others = (self.callables and callable(value)) or (self.dicts and isinstance(value, dict))
        if (
            self.kind is object
            or others
            or (self.generators and type(value).__name__ == "RandomState")
        ):
            return True
        if self.kind is bool:
            return isinstance(value, bool)
        if self.bools and isinstance(value, bool):
            return True
        number = {int: numbers.Integral, float: numbers.Real}.get(self.kind)
        if number is None or not isinstance(value, number) or isinstance(value, bool):
            return False
        if value != value or value in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value < self.high or (value == self.high and not self.open_high)


def is_name(name):
    """Whether a validation set or a metric may have this name."""
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _is_whole(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _scorers():
    from sklearn.metrics import get_scorer_names  # a second to load, and rarely needed

    return get_scorer_names()
