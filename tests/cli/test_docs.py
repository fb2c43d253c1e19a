"""docs/commandline.md shows the programs' own help.

After a change of an option, write the help into the page again::

    PYTHONPATH=.:tests python tests/cli/test_docs.py
"""

import re
from pathlib import Path

import pytest
from cli.programs import run

from pymcboost.cli.console import EXIT_CODES

PAGE = Path(__file__).parents[2] / "docs" / "commandline.md"
MARK = r"(<!-- help: {} -->\n)(?:\n```text\n(.*?)```\n)?"


def help_text(program):
    done = run(program, "--help", COLUMNS="112")
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(EXIT_CODES, "").rstrip() + "\n"


@pytest.mark.parametrize("program", ["train", "predict", "info"])
def test_page_shows_the_help(program):
    found = re.search(MARK.format(program), PAGE.read_text(), re.DOTALL)
    assert found[2] == help_text(program), "see the top of this file for how to write it again"


def test_page_lists_every_exit_status():
    table = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert table == re.findall(r"(?:^|[;:] |\n)(\d+) ", EXIT_CODES)


def rewrite():
    page = PAGE.read_text()
    for program in ("train", "predict", "info"):
        text = help_text(program)
        block = f"\n```text\n{text}```\n"
        page = re.sub(MARK.format(program), lambda found, block=block: found[1] + block, page, flags=re.DOTALL)
    PAGE.write_text(page)


if __name__ == "__main__":
    rewrite()
