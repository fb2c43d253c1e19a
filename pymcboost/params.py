"""One row per option: type, closed range, choices. Estimators check against it and the command line is derived from it.

Defaults live in the estimators' signatures and help texts in their numpydoc entries.
"""

import numbers
from dataclasses import dataclass


@dataclass(frozen=True)
class Param:
    """What values an option may take.

    ``kind`` is one of int, float, bool, str; ``low`` and ``high`` are inclusive unless ``open_low`` or ``open_high``;
    ``none`` says whether None is allowed; ``choices`` lists the allowed strings; ``python_only`` keeps it off the
    command line; ``callables`` says whether a function will do, too, ``lists`` whether a list of lists of class codes,
    ``dicts`` whether a dictionary of numbers. ``kind`` object stands for what the estimator checks itself.
    """

    kind: type
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False
    none: bool = False
    choices: tuple[str, ...] = ()
    python_only: bool = False
    callables: bool = False
    lists: bool = False
    dicts: bool = False

    def describe(self, text=False):
        """Allowed values in words; with ``text`` those that the command line takes."""
        if self.choices:
            words = "one of " + ", ".join(repr(choice) for choice in self.choices)
            words += " or a callable" if self.callables and not text else ""
        elif self.kind is bool:
            words = "True or False"
        else:
            words = {int: "an integer", float: "a number", str: "a string"}[self.kind]
            if self.low is not None:
                words += f" {'>' if self.open_low else '>='} {self.low}"
            if self.high is not None:
                words += f"{' and' if self.low is not None else ''} {'<' if self.open_high else '<='} {self.high}"
        if not text:
            codes = "a list of lists of class codes: integers from 0 to K - 1, in the order of classes_"
            words += f", or {codes}" if self.lists else ""
            words += ", a dict with the weight of each class label" if self.dicts else ""
        return words + (" or None" if self.none else "")

    def allows(self, value):
        """Whether ``value`` is in range."""
        if value is None:
            return self.none
        if self.kind is object or (self.callables and callable(value)):
            return True
        if self.lists and isinstance(value, (list, tuple)):
            return all(isinstance(part, (list, tuple)) and all(map(_is_whole, part)) for part in value) and bool(value)
        if self.dicts and isinstance(value, dict):
            return True  # the estimator looks at what is in it
        if self.kind is bool:
            return isinstance(value, (bool,)) or type(value).__name__ == "bool"
        if self.kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        number = numbers.Integral if self.kind is int else numbers.Real
        if not isinstance(value, number) or isinstance(value, bool):
            return False
        if value != value or value in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value < self.high or (value == self.high and not self.open_high)


def _is_whole(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def param(cls, name):
    """Row of a parameter of an estimator class, which may narrow those of `PARAMS` in its ``own_params``.

    Parameters
    ----------
    cls : type
    name : str

    Returns
    -------
    Param or None
    """
    return cls.own_params.get(name, PARAMS.get(name))


PARAMS = {
    "loss": Param(str, choices=("softmax", "exp", "log")),
    "n_estimators": Param(int, low=1),
    "learning_rate": Param(float, low=0, open_low=True, high=1),
    "nu": Param(float, low=0),
    "C": Param(float, low=0, open_low=True, high=1e12),
    "max_passes": Param(int, low=1),
    "solver": Param(str, choices=("auto", "fcd", "lbfgs", "lbfgs-cold")),
    "kernel": Param(str, choices=("linear", "poly", "rbf", "perceptron")),
    "gamma": Param(float, low=0, open_low=True, high=1e12, none=True),
    "coef0": Param(float, low=-1e12, high=1e12),
    "degree": Param(int, low=1),
    "cost_matrix": Param(object, none=True, python_only=True),
    "init": Param(str, choices=("one-vs-all", "random", "max-cut", "pairs")),
    "n_colourings": Param(int, low=1),
    "max_alternations": Param(int, low=1),
    "allow_zero": Param(bool),
    "scale": Param(bool),
    "max_step": Param(float, low=0, open_low=True, high=1e6, none=True),
    "fixed_step": Param(float, low=0, open_low=True, high=1e6, none=True),
    "tol": Param(float, low=0),
    "max_bins": Param(int, low=2, high=256),
    "weak_learner": Param(str, choices=("stump", "tree")),
    "max_leaf_nodes": Param(int, low=2, high=65536),
    "max_depth": Param(int, low=1, high=500, none=True),
    "min_samples_leaf": Param(float, low=0),
    "max_features": Param(float, low=0, open_low=True, high=1),
    "subsample": Param(float, low=0, open_low=True, high=1),
    "cost_sensitive": Param(bool),
    "gap": Param(int, low=1),
    "n_candidates": Param(int, low=1, none=True),
    "warmup_rounds": Param(int, low=0),
    "min_weight_fraction_leaf": Param(float, low=0, high=0.5),
    "min_weight_fraction_split": Param(float, low=0, high=1, open_high=True),
    "early_stopping": Param(bool),
    "validation_fraction": Param(float, low=0, open_low=True, high=0.9),
    "n_iter_no_change": Param(int, low=1),
    "class_weight": Param(str, none=True, choices=("balanced",), dicts=True),
    "warm_start": Param(bool, python_only=True),
    "random_state": Param(int, low=0, high=2**32 - 1, none=True),
    "n_jobs": Param(int, none=True),
    "verbose": Param(int, low=0),
}
