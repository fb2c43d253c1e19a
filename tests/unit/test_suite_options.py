"""Which tests the suite itself leaves out, and that it says so."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

SAMPLE = """
import pytest


def test_plain():
    pass

@pytest.mark.slow
def test_slow():
    pass

def test_with_fixture(data_folder):
    assert data_folder.is_dir()

@pytest.mark.needs_data
def test_with_marker():
    pass

@pytest.mark.needs_data
@pytest.mark.slow
def test_slow_with_marker():
    pass

@pytest.mark.parametrize("case", range(7))
@pytest.mark.part(3)
def test_in_part(case):
    pass
"""

INI = "[pytest]\nmarkers =\n    slow\n    part(n)\n    needs_data\n"


@pytest.fixture
def run(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "pytest.ini").write_text(INI)

    def call(*arguments, data=""):
        environment = {
            **os.environ,
            "PYMCBOOST_DATA": str(data),
            "PYTEST_ADDOPTS": "",
            "NO_COLOR": "1",
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        completed = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return completed.stdout.splitlines()

    return call


@pytest.mark.parametrize(
    ("arguments", "with_data", "closing", "waiting"),
    [
        ([], False, "4 passed, 2 skipped, 6 deselected", 2),
        (["--long"], False, "9 passed, 3 skipped", 3),
        (["-m", "slow"], False, "1 passed, 1 skipped, 10 deselected", 1),
        ([], True, "6 passed, 6 deselected", 0),
        (["--long"], True, "12 passed", 0),
    ],
)
def test_slow_and_data_tests(run, tmp_path, arguments, with_data, closing, waiting):
    lines = run(*arguments, data=tmp_path if with_data else "")
    assert closing in lines[-1]
    notice = [line for line in lines if "need data sets and were skipped" in line]
    assert len(notice) == (waiting > 0)
    assert all(line.startswith(f"{waiting} tests") for line in notice)
    notice = [line for line in lines if "were left out; --long" in line]
    assert notice == (
        ["6 tests were left out; --long (make test-long) runs them"] if not arguments else []
    )


def test_tests_in_two_processes_are_counted_like_those_in_one(run):
    pytest.importorskip("xdist")
    lines = run("-n", "2")
    assert "4 passed, 2 skipped in" in lines[-1]
    assert [
        line.partition(";")[0].partition(":")[0] for line in lines if re.match(r"\d+ tests", line)
    ] == [
        "6 tests were left out",
        "2 tests need data sets and were skipped",
    ]


def test_folder_that_does_not_exist_counts_as_none(run, tmp_path):
    assert "4 passed, 2 skipped" in run(data=tmp_path / "missing")[-1]


def marked_tests(path, marks):
    """Names of the tests of a file that have one of the marks, or cases that have ``slow``."""
    text = path.read_text()
    body = ast.parse(text).body
    lines = text.splitlines()
    plain = [node for node in body if not getattr(node, "decorator_list", ())]
    marked = [
        node for node in plain if "mark.slow" in "\n".join(lines[node.lineno - 1 : node.end_lineno])
    ]
    shared = {getattr(node, "name", None) or ast.unparse(node.targets[0]) for node in marked}
    for node in body:
        decorators = " ".join(map(ast.unparse, getattr(node, "decorator_list", ())))
        if re.search(rf"mark\.({marks})", decorators) or shared & set(
            re.findall(r"\w+", decorators)
        ):
            yield node.name


def test_the_readme_lists_the_slow_tests():
    tests = Path(__file__).parents[1]
    page = (tests / "README.md").read_text()
    section = re.search(r"## What only `make test-long` runs\n(.*?)\n##", page, re.DOTALL)[1]
    rows = re.findall(r"^\| `(\w+/\w+\.py)` \| (.*?) \|", section, re.MULTILINE)
    listed = defaultdict(set)
    for file, names in rows:
        listed[file] |= set(re.findall(r"`(test_\w+)`", names))
    for path in tests.glob("*/test_*.py"):
        there = listed.pop(path.relative_to(tests).as_posix(), set())
        assert set(marked_tests(path, "slow")) <= there, path
        assert there <= set(marked_tests(path, "slow|part|families")), path
    assert not listed
