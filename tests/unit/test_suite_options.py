"""Which tests the suite itself leaves out, and that it says so."""

import os
import shutil
import subprocess
import sys
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
"""

INI = "[pytest]\nmarkers =\n    slow\n    needs_data\n"


@pytest.fixture
def run(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "pytest.ini").write_text(INI)

    def call(*arguments, data=""):
        environment = {**os.environ, "PYMCBOOST_DATA": str(data), "PYTEST_ADDOPTS": "", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.stdout.splitlines()

    return call


@pytest.mark.parametrize(
    ("arguments", "with_data", "closing", "waiting"),
    [
        ([], False, "1 passed, 2 skipped, 2 deselected", 2),
        (["--long"], False, "2 passed, 3 skipped", 3),
        (["-m", "slow"], False, "1 passed, 1 skipped, 3 deselected", 1),
        ([], True, "3 passed, 2 deselected", 0),
        (["--long"], True, "5 passed", 0),
    ],
)
def test_slow_and_data_tests(run, tmp_path, arguments, with_data, closing, waiting):
    lines = run(*arguments, data=tmp_path if with_data else "")
    assert closing in lines[-1]
    notice = [line for line in lines if "need data sets and were skipped" in line]
    assert len(notice) == (waiting > 0)
    # With -m, unwanted tests are still among those that were counted when collected.
    if notice and "-m" not in arguments:
        assert notice[0].startswith(f"{waiting} tests")


def test_folder_that_does_not_exist_counts_as_none(run, tmp_path):
    assert "1 passed, 2 skipped" in run(data=tmp_path / "missing")[-1]
