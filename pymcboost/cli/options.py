"""Command-line options of an algorithm, generated from the table of its parameters.

The table is stored in ``options.json``, as `table` generates it from the estimator classes: reading it takes no time,
while importing the classes takes a second. A test compares both.
"""

import argparse
import functools
import json
import re
from typing import Any, NamedTuple

from pymcboost.cli.console import UsageError, bounded, importing
from pymcboost.cli.option_names import ALIASES, read_table
from pymcboost.training.ranges import Parameter

KINDS = {kind.__name__: kind for kind in (int, float, bool, str, object)}

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

# Options of single algorithms, by name: LIBSVM's letters and their meaning there.
SHORT_OF = {"hingeboost": {"kernel": "-t", "gamma": "-g", "degree": "-d", "coef0": "-r"}}
# LIBSVM's numbers of the kernels, which -t takes as well as their names.
NUMBERED = {"kernel": {"0": "linear", "1": "poly", "2": "rbf", "5": "perceptron"}}

# Defaults that differ between the command line and Python.
DEFAULTS = {"verbose": 1, "random_state": 0}


class Algorithm(NamedTuple):
    """An algorithm for the command line: its names, and the parameters that have an option."""

    name: str
    title: str
    resumable: bool
    workers: bool
    rows: dict[str, Parameter]
    defaults: dict[str, Any]


def table():
    """Build the table from the estimator classes. Rows that several algorithms share occur once."""
    from dataclasses import fields

    from pymcboost.registry import ALGORITHMS, get_class
    from pymcboost.training.parameters import parameters

    rows = []
    algorithms = {}
    for name in sorted(ALGORITHMS):
        cls = get_class(name)
        row_indices = []
        defaults = {field.name: field.default for field in fields(cls)}
        for parameter, row in parameters(cls).items():
            if not row.python_only:
                entry = {"name": parameter, "default": defaults[parameter], **_plain(row)}
                if entry not in rows:
                    rows.append(entry)
                row_indices.append(rows.index(entry))
        booster = cls.booster
        algorithms[name] = {
            "title": cls.__name__, "resumable": booster.resumable, "workers": booster.takes_workers, "rows": row_indices
        }  # fmt: skip
    return {"rows": rows, "algorithms": algorithms}


def _plain(row):
    """The fields of a row that differ from the defaults, and the first paragraph of its help."""
    defaults = Parameter._field_defaults
    values = {name: value for name, value in row._asdict().items() if value != defaults.get(name)}
    values |= {"help": row.help.partition("\n\n")[0], "kind": row.kind.__name__}
    if "choices" in values:
        values["choices"] = list(row.choices)
    return values


def table_text():
    """The text of ``options.json``: one row of the table per line."""
    new_table = table()
    rows = ",\n".join(json.dumps(row) for row in new_table["rows"])
    algorithms = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(about)}"
        for name, about in new_table["algorithms"].items()
    )
    return f'{{"rows": [\n{rows}\n],\n"algorithms": {{\n{algorithms}\n}}}}\n'


@functools.cache
def get_algorithm(name):
    """Read an algorithm from the table."""
    about = read_table()["algorithms"][name]
    rows = {}
    defaults = {}
    for number in about["rows"]:
        entry = dict(read_table()["rows"][number])
        option = entry.pop("name")
        defaults[option] = entry.pop("default")
        kind = KINDS[entry.pop("kind")]
        choices = tuple(entry.pop("choices", ()))
        rows[option] = Parameter(kind=kind, choices=choices, **entry)
    return Algorithm(
        name,
        about["title"],
        about["resumable"],
        workers=about["workers"],
        rows=rows,
        defaults=defaults,
    )


_positive = bounded(float, "a finite number > 0", lambda value: 0 < value < float("inf"))


def _converter(name, row):
    """Make the argparse type of the option of a parameter."""

    def parse(text):
        text = NUMBERED.get(name, {}).get(text, text)
        if row.none and text.lower() == "none":
            return None
        return text if text in row.choices else row.kind(text)

    def convert(text):
        if row.several and "," in text:
            values = [convert(part) for part in text.split(",")]
            if not row.allows(values):
                raise argparse.ArgumentTypeError(row.refusal(name, values))
            return values
        try:
            value = parse(text)
            with importing():  # names of scorers are scikit-learn's
                allowed = row.allows(value)
        except ValueError:
            allowed = False
        if not allowed:
            raise argparse.ArgumentTypeError(f"{text!r} is not {row.describe(text=True)}")
        return value

    return convert


def _shown(value):
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if value is None else str(value)


def _flags(algorithm, name):
    """The short option of a parameter, if any, and its long options."""
    short = {**SHORT, **SHORT_OF.get(algorithm.name, {})}
    flags = [short.get(name), ALIASES.get(name), "--" + name.replace("_", "-")]
    return [flag for flag in flags if flag is not None]


def option_flags(algorithm):
    """All options that `add_algorithm_options` adds for an algorithm, including --no-... options."""
    flags = ["--libsvm-c"] if algorithm.name in SHORT_OF else []
    for name, row in algorithm.rows.items():
        flags += _flags(algorithm, name)
        if row.kind is bool:
            flags.append("--no-" + name.replace("_", "-"))
    return flags


def option_of(algorithm):
    """The long option of each parameter."""
    return {name: ALIASES.get(name, _flags(algorithm, name)[-1]) for name in algorithm.rows}


def add_algorithm_options(parser, algorithm, wrap=lambda kind: kind, plain=()):
    """Add one option for each parameter of an algorithm; options that are not given stay out of the namespace.

    Parameters
    ----------
    parser : argparse.ArgumentParser or argument group
        Receives the options.
    algorithm : Algorithm
    wrap : callable
        Function that makes the argparse type of an option from the type of a single value.
    plain : sequence of str
        Parameters whose options keep theirs.
    """
    defaults = algorithm.defaults | DEFAULTS
    for name, row in algorithm.rows.items():
        default = defaults[name]
        kind = _converter(name, row)
        kind = kind if name in plain else wrap(kind)
        text = row.help.replace("``", "").replace("None", "none").rstrip(".")
        if row.kind is bool:
            details = f"default: {'on' if default else 'off'}"
            extra = {"action": argparse.BooleanOptionalAction}
        elif row.kind is str:
            choices = (*row.choices, "none") if row.none else row.choices
            details = f"default: {_shown(default)}"
            if row.scorers:
                details = f"or the name of a scikit-learn scorer; {details}"
            # mcboost-tune tries the values between commas one after the other.
            if row.several and not plain:
                details = f"several, separated by commas, of which the first decides; {details}"
            if name in NUMBERED:
                details = f"or LIBSVM's number: {', '.join(NUMBERED[name])}; {details}"
            extra = {"type": kind, "metavar": "{" + ",".join(choices) + "}"}
        else:
            details = f"{row.describe(text=True)}; default: {_shown(default)}"
            extra = {"type": kind, "metavar": "n" if row.kind is int else "x"}
        if name == "n_iter_no_change":
            details += "; setting it turns --early-stopping on"
        if name == "verbose":
            details += " on a terminal, elsewhere 0"
        if name == "random_state":
            details += "; none draws a different seed in every run"
        help_text = f"{text} ({details})".strip().replace("%", "%%")
        parser.add_argument(
            *_flags(algorithm, name), dest=name, default=argparse.SUPPRESS, help=help_text, **extra
        )
        if name == "C" and algorithm.name in SHORT_OF:
            text = "LIBSVM's C; equivalent to -c with this value times the number of rows"
            parser.add_argument("--libsvm-c", type=wrap(_positive), metavar="x", help=text)


def take_class_weights(argv):
    """Remove LIBSVM's ``-w<label> x`` from the arguments, because argparse does not support such options.

    Returns
    -------
    rest : list of str
        The other arguments.
    weights : dict of str to float
        The last weight given for each label, which is as it was written; the last of all comes last.
    """
    rest = []
    weights = {}
    arguments = iter(argv)
    for argument in arguments:
        if argument == "--":
            return [*rest, argument, *arguments], weights
        if not argument.startswith("-w"):
            rest.append(argument)
            continue
        if not re.fullmatch(r"-w[+-]?\d+", argument):
            raise UsageError(
                f"argument {argument}: give class weights as -w<label> x, with an integer "
                "label, as in -w3 2.5"
            )
        try:
            weights.pop(argument[2:], None)
            weights[argument[2:]] = _positive(next(arguments))
        except StopIteration:
            raise UsageError(
                f"argument {argument}: expected the weight of class {argument[2:]}"
            ) from None
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"argument {argument}: {error}") from None
    return rest, weights
