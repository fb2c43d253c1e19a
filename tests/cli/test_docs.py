"""Pages name all that there is, and docs/options.md shows the options as the programs' own help does.

After a change of a parameter or an option, write the table of the command line and the page again::

    PYTHONPATH=.:tests python tests/cli/test_docs.py
"""

import argparse
import importlib
import os
import re
import textwrap
from pathlib import Path
from unittest import mock

from cli.programs import call

from pymcboost.cli.console import EXIT_CODES, Formatter
from pymcboost.cli.option_names import TABLE
from pymcboost.cli.options import add_algorithm_options, get_algorithm, option_of, table_text
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import PUBLIC

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "commandline.md"
OPTIONS = ROOT / "docs" / "options.md"
BLOCK = re.compile(r"<!-- help: (.*?) -->\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
LIST = re.compile(r"<!-- options of the algorithms -->\n.*?<!-- end -->\n", re.DOTALL)
SHOWN = ["train", "tune", "predict", "info", "convert"]


def help_text(program):
    """The help of a program without the options of the algorithms."""
    with mock.patch.dict(os.environ, COLUMNS="112"):
        completed = call(program, "--help")
    assert completed.returncode == 0, completed.stderr
    text = completed.stdout.replace(EXIT_CODES, "")
    if program in ("train", "tune"):
        after = {"train": "data, validation", "tune": "search and data"}[program]
        text = text[: text.index("options of ")] + text[text.index(after) :]
    return text.rstrip() + "\n"


def options_of(name):
    """(names, what may be given, text, default) of each option of an algorithm, by its long option."""
    parser = argparse.ArgumentParser(formatter_class=Formatter, add_help=False)
    add_algorithm_options(parser, get_algorithm(name))
    options = {}
    for action in parser._actions:
        text, _, details = action.help.replace("%%", "%").rstrip(")").rpartition(" (")
        before, _, default = details.partition("default: ")
        if not default:  # --libsvm-c has none
            text = action.help
            before = ""
        default, _, remark = default.partition("; ")
        shown = Formatter(prog="")._format_action_invocation(action)
        details = "; ".join(part for part in (before.strip("; "), remark) if part)
        options[action.option_strings[-1]] = shown, details, text.rstrip("."), default
    return options


def entry(shown, details, text, defaults, for_whom):
    """The line about an option: names, algorithms, help, what may be given, and defaults."""
    usual = max(defaults, key=lambda default: len(defaults[default]))
    values = [
        f"{default} for {listed(names)}" for default, names in defaults.items() if default != usual
    ]
    default = f" Default: {'; '.join([usual, *values])}." if usual else ""
    if details and "{" in shown:  # the choices stand there
        details = f" {details[0].upper()}{details[1:]}."
    elif details:
        allowed, _, remark = details.partition("; ")
        details = f" Allowed: {allowed}." + (remark and f" {remark[0].upper()}{remark[1:]}.")
    line = f"- `{shown}`{for_whom}: {text}.{details}{default}"
    kept = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\0"), line)  # code is not broken
    wrapped = textwrap.fill(
        kept, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return wrapped.replace("\0", " ") + "\n"


def listed(names):
    return ", ".join(f"`{name}`" for name in names)


def options_page():
    """An entry for each option of the algorithms, and a table of the options that each algorithm has."""
    entries = {}
    parts = []
    for name in sorted(REGISTRY):
        for option, (shown, details, text, default) in options_of(name).items():
            texts = entries.setdefault(option.replace("--no-", "--"), {})
            texts.setdefault((shown, details, text), {}).setdefault(default, []).append(name)
    for option in sorted(entries):
        groups = [
            (sum(map(len, defaults.values())), words, defaults)
            for words, defaults in entries[option].items()
        ]
        for number, (count, words, defaults) in enumerate(sorted(groups, key=lambda x: x[0])):
            for_whom = (
                "" if len(groups) == 1 else f" ({listed(sorted(sum(defaults.values(), [])))})"
            )
            if count > 5 and number == len(groups) - 1 > 0:
                for_whom = " (all other algorithms that have it)"
            parts.append(entry(*words, defaults, for_whom))
    options = {name: [*option_of(get_algorithm(name)).values()] for name in sorted(REGISTRY)}
    common = [
        option
        for option in options["mcboost"]
        if all(option in options_there for options_there in options.values())
    ]
    table = [f"\nAll algorithms have {listed(common)}. In addition:\n\n"]
    table += ["| algorithm | class | options |\n", "|---|---|---|\n"]
    for name, own in options.items():
        own = listed(option for option in own if option not in common)
        table.append(f"| `-a {name}` | `{get_algorithm(name).title}` | {own} |\n")
    return "".join(["\n", *parts, *table])


def pages():
    """The text of docs/options.md as it must be."""
    text = BLOCK.sub(
        lambda match: f"<!-- help: {match[1]} -->\n\n```text\n{help_text(match[1])}```\n",
        OPTIONS.read_text(),
    )
    made = f"<!-- options of the algorithms -->\n{options_page()}\n<!-- end -->\n"
    return LIST.sub(lambda _: made, text)


def test_page_shows_the_options():
    assert OPTIONS.read_text() == pages(), "the top of this file says how to rewrite it"


def test_page_has_these_blocks():
    text = OPTIONS.read_text()
    assert [what for what, _ in BLOCK.findall(text)] == SHOWN and len(LIST.findall(text)) == 1


def test_page_lists_every_exit_status():
    table = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert table == re.findall(r"(?:^|[;:] |\n)(\d+) ", EXIT_CODES)


def test_guide_names_every_algorithm():
    guide = (ROOT / "docs" / "guide" / "choosing.md").read_text()
    named = []
    for names, flags in re.findall(r"^\| (.*?Classifier`) \| (.*?) \|", guide, re.M):
        named += zip(re.findall("`(.*?)`", names), re.findall("`(.*?)`", flags), strict=True)
    assert sorted(named) == sorted((entry.name, entry.algorithm) for entry in REGISTRY.values())


def test_reference_has_every_public_name():
    documented = re.findall(
        r"^   ~pymcboost\.(\w+)$", (ROOT / "docs" / "reference.md").read_text(), re.M
    )
    assert sorted(documented) == sorted([*(entry.name for entry in PUBLIC), "get_include"])


def test_reference_has_only_what_there_is():
    """The page would otherwise fail in Sphinx alone, which these tests do not run."""
    for name in re.findall(
        r"^   ~(pymcboost\S+)$", (ROOT / "docs" / "reference.md").read_text(), re.M
    ):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_before_a_commit_the_same_tools_run_as_in_ci():
    hooks = re.findall(
        r"- id: (\S+)\n(?: .*\n)*? +entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text()
    )
    makefile = (ROOT / "Makefile").read_text()
    programs = {
        "ruff": "ruff check",
        "ruff-format": "ruff format",
        "clang-format": "clang-format",
        "cython-lint": "cython-lint",
        "codespell": "codespell",
        "docstrings": "tools/docstrings.py",
        "mypy": "mypy",
        "import-linter": "lint-imports",
    }
    assert [name for name, _ in hooks] == list(programs)
    for name, entry in hooks:
        assert programs[name] in entry and programs[name] in makefile


def rewrite():
    Path(TABLE).write_text(table_text())
    get_algorithm.cache_clear()
    OPTIONS.write_text(pages())


if __name__ == "__main__":
    rewrite()
