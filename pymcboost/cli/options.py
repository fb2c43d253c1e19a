"""Command-line options of an algorithm, made from the table of its parameters."""

import argparse
import re
from dataclasses import fields

from pymcboost.cli.console import UsageError, bounded
from pymcboost.model.kernel import KERNELS
from pymcboost.training.parameters import parameters

# LIBSVM-style short names. Long names are derived; these are chosen by hand and never change their meaning.
SHORT = {
    "loss": "-l",
    "n_estimators": "-n",
    "learning_rate": "-r",
    "C": "-c",
    "n_iter_no_change": "-E",
    "n_jobs": "-j",
    "random_state": "-S",
}

# Parameters with another long name here, beside their own.
ALIASES = {"scoring": "--metric"}

# Those of single algorithms, by name: LIBSVM's own letters and their meaning there.
SHORT_OF = {"hingeboost": {"kernel": "-t", "gamma": "-g", "degree": "-d", "coef0": "-r"}}
# LIBSVM's numbers of the kernels, which -t takes as well as their names.
NUMBERED = {"kernel": {str(number): name for name, number in KERNELS.items()}}

# Where a program at a terminal wants another default than a function called from Python.
DEFAULTS = {"verbose": 1, "random_state": 0}


def _converter(name, row):
    def parse(text):
        text = NUMBERED.get(name, {}).get(text, text)
        if row.none and text.lower() == "none":
            return None
        return text if text in row.choices else row.kind(text)

    def convert(text):
        try:
            value = parse(text)
            allowed = row.allows(value)
        except ValueError:
            allowed = False
        if not allowed:
            raise argparse.ArgumentTypeError(f"{text!r} is not {row.describe(text=True)}")
        return value

    return convert


def _shown(value):
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)


def _flags(cls, name):
    """The short option of a parameter, where it has one, and the long ones."""
    short = {**SHORT, **SHORT_OF.get(cls.algorithm, {})}
    return [flag for flag in (short.get(name), ALIASES.get(name), "--" + name.replace("_", "-")) if flag]


def option_flags(cls):
    """All options that `add_algorithm_options` adds for a class, those that turn something off among them."""
    flags = []
    for name, row in parameters(cls).items():
        if not row.python_only:
            flags += _flags(cls, name)
            if row.kind is bool:
                flags.append("--no-" + name.replace("_", "-"))
    return flags


def add_algorithm_options(parser, cls):
    """Add one option for each parameter of an estimator class; options that are not given stay out of the namespace.

    Parameters
    ----------
    parser : argparse.ArgumentParser or argument group
        Receives the options.
    cls : type
        Estimator class.

    Returns
    -------
    list of str
        Names of the parameters that have an option.
    """
    defaults = {field.name: field.default for field in fields(cls)} | DEFAULTS
    names = []
    for name, row in parameters(cls).items():
        if row.python_only:
            continue
        flags = _flags(cls, name)
        default = defaults[name]
        text = row.help.partition("\n\n")[0].replace("``", "").rstrip(".")
        if row.kind is bool:
            details = f"default: {'on' if default else 'off'}"
            extra = {"action": argparse.BooleanOptionalAction}
        elif row.kind is str:
            choices = (*row.choices, "none") if row.none else row.choices
            details = "or the name of a scorer of scikit-learn; " * row.scorers + f"default: {_shown(default)}"
            if name in NUMBERED:
                details = f"or LIBSVM's number: {', '.join(NUMBERED[name])}; {details}"
            extra = {"type": _converter(name, row), "metavar": "{" + ",".join(choices) + "}"}
        else:
            details = f"{row.describe(text=True).replace('None', 'none')}; default: {_shown(default)}"
            extra = {"type": _converter(name, row), "metavar": "n" if row.kind is int else "x"}
        if name == "n_iter_no_change":
            details += "; giving it turns --early-stopping on"
        if name == "random_state":
            details += "; none draws one, and every run differs"
        help_text = f"{text} ({details})".strip().replace("%", "%%")
        parser.add_argument(*flags, dest=name, default=argparse.SUPPRESS, help=help_text, **extra)
        names.append(name)
    return names


_positive = bounded(float, "a finite number > 0", lambda value: 0 < value < float("inf"))


def take_class_weights(argv):
    """Take LIBSVM's ``-w<label> x`` out of the arguments: argparse has no options whose names are open.

    Returns
    -------
    rest : list of str
        The other arguments.
    weights : dict of int to float
        The last weight given for each label.
    """
    rest, weights = [], {}
    arguments = iter(argv)
    for argument in arguments:
        if argument == "--":
            return [*rest, argument, *arguments], weights
        if not argument.startswith("-w"):
            rest.append(argument)
            continue
        if not re.fullmatch(r"-w[+-]?\d+", argument):
            raise UsageError(f"argument {argument}: a class weight is -w<label> x, the label an integer: -w3 2.5")
        try:
            weights[int(argument[2:])] = _positive(next(arguments))
        except StopIteration:
            raise UsageError(f"argument {argument}: expected the weight of class {argument[2:]}") from None
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"argument {argument}: {error}") from None
    return rest, weights
