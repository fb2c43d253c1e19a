"""docs/commandline.md shows the programs' own help.

A block after ``<!-- help: train -->`` is all of it, one after ``<!-- help: train -a name -->`` the algorithm's options.

After a change of an option, write the help into the page again::

    PYTHONPATH=.:tests python tests/cli/test_docs.py
"""

import re
from pathlib import Path

import pytest
from cli.programs import run

from pymcboost.cli.console import EXIT_CODES
from pymcboost.registry import ALGORITHMS as REGISTRY

PAGE = Path(__file__).parents[2] / "docs" / "commandline.md"
BLOCK = re.compile(r"<!-- help: (.*?) -->\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
OTHERS = ("multiboost", "piboost", "abc-logitboost", "hingeboost", "vector-tree")
SHOWN = [f"train{more}" for more in ("", *(f" -a {name}" for name in OTHERS))] + ["predict", "info"]


def help_text(what):
    program, *arguments = what.split()
    done = run(program, *arguments, "--help", COLUMNS="112")
    assert done.returncode == 0, done.stderr
    text = done.stdout.replace(EXIT_CODES, "")
    if arguments:
        text = text[text.index("options of ") : text.index("data, validation and output")]
    return text.rstrip() + "\n"


@pytest.mark.parametrize("what", SHOWN)
def test_page_shows_the_help(what):
    assert dict(BLOCK.findall(PAGE.read_text()))[what] == help_text(what), "the top of this file says how to rewrite it"


def test_page_has_these_blocks():
    assert [what for what, _ in BLOCK.findall(PAGE.read_text())] == SHOWN


def test_page_names_every_algorithm():
    assert sorted(re.findall(r"^\| `(\S+)` \|", PAGE.read_text(), re.MULTILINE)) == sorted(REGISTRY)


def test_page_lists_every_exit_status():
    table = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert table == re.findall(r"(?:^|[;:] |\n)(\d+) ", EXIT_CODES)


def rewrite():
    PAGE.write_text(
        BLOCK.sub(lambda found: f"<!-- help: {found[1]} -->\n\n```text\n{help_text(found[1])}```\n", PAGE.read_text())
    )


if __name__ == "__main__":
    rewrite()
