"""Man pages, made from the programs' own options."""

import textwrap

from pymcboost._version import __version__
from pymcboost.cli.console import EXIT_CODES
from pymcboost.cli.programs import PROGRAMS, SUMMARIES, entries

TITLES = {"positional arguments": "ARGUMENTS", "options": "OPTIONS", "": "OPTIONS OF THE ALGORITHMS"}


def man_page(program):
    """The text of a page for ``man -l``."""
    module = PROGRAMS[program]
    lines = [f'.TH {program.upper()} 1 "" "pymcboost {__version__}" "pymcboost"', ".SH NAME"]
    lines += [f"{_text(program)} \\- {_text(SUMMARIES[program])}", ".SH SYNOPSIS"]
    lines += [f".B {_text(program)}", _text(module.USAGE.partition(" ")[2]), ".SH DESCRIPTION"]
    lines += [_text(line) for line in textwrap.wrap(" ".join(module.DESCRIPTION.split()))]
    group = None
    for entry in sorted(entries(program), key=_place):
        if entry.group != group:
            group = entry.group
            lines.append(f".SH {TITLES.get(group, group.upper())}")
        lines += [".TP", _head(entry)]
        lines += [_text(line) for line in textwrap.wrap(entry.help[:1].upper() + entry.help[1:] + ".")]
        if entry.algorithms:
            lines += [".br", f"Of: {_text(', '.join(entry.algorithms))}."]
    lines.append(".SH EXIT STATUS")
    for part in " ".join(EXIT_CODES.split()).removeprefix("exit status: ").split("; "):
        number, _, meaning = part.partition(" ")
        lines += [".TP", f".B {number}", _text(meaning)]
    others = [other for other in PROGRAMS if other != program]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_text(other)}\\fR(1)" for other in others)]
    return "\n".join(lines) + "\n"


def _place(entry):
    order = ["positional arguments", "options", "", entry.group]
    return order.index(entry.group), entry.flags[-1] if entry.group == "" else ""


def _head(entry):
    shown = _text(entry.value or "").replace(",", ",\\:")  # where a line may break
    value = "" if entry.value is None else f"\\fI{shown}\\fR"
    if not entry.flags:
        return value
    return ", ".join(f"\\fB{_text(flag)}\\fR" for flag in entry.flags) + (f" {value}" if value else "")


def _text(text):
    """Text that troff takes as it is: hyphens of options, backslashes, and no commands at the start of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text
