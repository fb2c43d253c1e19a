"""What the programs take, for their man pages: read off their own parsers."""

from typing import Any, NamedTuple

from pymcboost.cli import convert, info, predict, train, tune
from pymcboost.cli.options import get_algorithm
from pymcboost.registry import ALGORITHMS

PROGRAMS = {module.PROGRAM: module for module in (train, tune, predict, info, convert)}
SUMMARIES = {
    "mcboost-train": "train a multi-class boosting model, or cross-validate",
    "mcboost-tune": "search for options of mcboost-train",
    "mcboost-predict": "predict rows with a model",
    "mcboost-info": "show what a model holds",
    "mcboost-convert": "write a model in another form, or read one of another library",
}


class Entry(NamedTuple):
    """One option or argument; ``algorithms`` are those that have it, none where all have."""

    flags: tuple[str, ...]
    value: str | None
    help: str
    group: str
    algorithms: tuple[str, ...]


def entries(program):
    """The options and arguments of a program, each once; those of all algorithms."""
    module, found = PROGRAMS[program], {}
    if module in (predict, info, convert):
        return [_entry(action, group, ()) for group, action in _actions(module.make_parser())]
    names = sorted(ALGORITHMS)
    for name in names:
        for group, action in _actions(module.make_parser(get_algorithm(name))):
            key = _entry(action, "" if group.startswith("options of ") else group, ())
            found.setdefault(key, []).append(name)
    return [key._replace(algorithms=() if owners == names else tuple(owners)) for key, owners in found.items()]


def _actions(parser):
    for group in parser._action_groups:
        for action in group._group_actions:
            yield group.title, action


def _entry(action: Any, group, algorithms):
    metavar = action.metavar or (None if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}")
    value = None if action.nargs == 0 else metavar or action.dest
    flags = tuple(action.option_strings)
    return Entry(flags, value, (action.help or "").replace("%%", "%"), group, algorithms)
