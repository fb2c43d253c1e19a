"""Pages name all that there is, and docs/commandline.md shows the programs' own help.

A block after ``<!-- help: train -->`` is all of it, one after ``<!-- help: train -a name -->`` the algorithm's options.

After a change of a parameter or an option, write the table of the command line and the help in the page again::

    PYTHONPATH=.:tests python tests/cli/test_docs.py
"""

import importlib
import os
import re
from pathlib import Path
from unittest import mock

import pytest
from cli.programs import call

from pymcboost.cli.console import EXIT_CODES
from pymcboost.cli.options import TABLE, get_algorithm, option_of, table_text
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import PUBLIC

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "commandline.md"
BLOCK = re.compile(r"<!-- help: (.*?) -->\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
# What follows is a table of the boosters whose options are those of this one, but for some.
TABLES = re.compile(r"<!-- differences: (\S+) -->\n(?:\n((?:\|.*\n)+))?")
OTHERS = ("multiboost", "piboost", "abc-logitboost", "hingeboost", "vector-tree")
LIKE_OTHERS = ("mcboost", "multiboost-cw", "abc-mart", "logitboost", "mart")
CLASSIC = [name for name in sorted(REGISTRY) if name not in (*OTHERS, *LIKE_OTHERS)]
SHOWN = [f"train{more}" for more in ("", *(f" -a {name}" for name in OTHERS))] + [
    "tune",
    "predict",
    "info",
    "convert",
]


def help_text(what):
    program, *arguments = what.split()
    with mock.patch.dict(os.environ, COLUMNS="112"):
        done = call(program, *arguments, "--help")
    assert done.returncode == 0, done.stderr
    text = done.stdout.replace(EXIT_CODES, "")
    if program == "tune":  # the options of the algorithms are those of mcboost-train
        text = text[: text.index("options of ")] + text[text.index("search and data") :]
    if arguments:
        text = text[text.index("options of ") : text.index("data, validation and output")]
    return text.rstrip() + "\n"


@pytest.mark.parametrize("what", SHOWN)
def test_page_shows_the_help(what):
    assert dict(BLOCK.findall(PAGE.read_text()))[what] == help_text(what), (
        "the top of this file says how to rewrite it"
    )


def differences(base):
    """A table of the classic boosters: rounds, and options that they have beside those of ``base``, or have not."""
    first, rows = get_algorithm(base), []
    missing = {name: {*first.rows} - {*get_algorithm(name).rows} for name in CLASSIC}
    always = set.intersection(*missing.values())
    for name in CLASSIC:
        its = get_algorithm(name)
        options, there = (
            option_of(its) | option_of(first),
            [row for row in its.rows if row not in first.rows],
        )
        gone = [row for row in first.rows if row in missing[name] - always]
        shown = [", ".join(f"`{options[row]}`" for row in part) for part in (there, gone)]
        rows.append(
            f"| {' | '.join([f'`-a {name}`', str(its.defaults['n_estimators']), *shown])} |\n".replace(
                "  ", " "
            )
        )
    return "".join(
        ["| algorithm | default of `-n` | has also | has not |\n", "|---|---|---|---|\n", *rows]
    )


def test_page_shows_what_other_boosters_have():
    [(base, table)] = TABLES.findall(PAGE.read_text())
    assert table == differences(base), "the top of this file says how to rewrite it"
    abc = {"gap", "n_candidates", "warmup_rounds"}
    newton = {"min_hessian_leaf"}
    families = (
        ("multiboost", "multiboost-cw", {"loss", "solver"}),
        ("abc-logitboost", "logitboost", abc),
    )
    for first, other, missing in (
        *families,
        ("logitboost", "mart", newton),
        ("abc-logitboost", "abc-mart", newton),
    ):
        assert {*get_algorithm(first).rows} - missing == {*get_algorithm(other).rows}


def test_page_has_these_blocks():
    assert [what for what, _ in BLOCK.findall(PAGE.read_text())] == SHOWN


def test_page_names_every_algorithm():
    assert sorted(re.findall(r"^\| `(\S+)` \|", PAGE.read_text(), re.MULTILINE)) == sorted(REGISTRY)


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
    TABLE.write_text(table_text())
    get_algorithm.cache_clear()
    text = BLOCK.sub(
        lambda found: f"<!-- help: {found[1]} -->\n\n```text\n{help_text(found[1])}```\n",
        PAGE.read_text(),
    )
    PAGE.write_text(
        TABLES.sub(
            lambda found: f"<!-- differences: {found[1]} -->\n\n{differences(found[1])}", text
        )
    )


if __name__ == "__main__":
    rewrite()
