"""Programs from the C sources of tests."""

import re
import shutil
import subprocess

import pytest

import pymcboost

STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
STRICTEST = [*STRICT, "-Wconversion", "-Wsign-conversion", "-Wshadow"]


def build(source, folder, command):
    """The program that a compiler with its options makes of a source; a skip where there is no such one."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    program = folder / source.stem
    full = [*command, f"-I{pymcboost.get_include()}", str(source), "-o", str(program)]
    run = subprocess.run(full, capture_output=True, text=True)
    if run.returncode and re.search(r"unrecognized|unknown argument|not support", run.stderr):
        pytest.skip(f"this compiler or processor lacks an option: {run.stderr[:200]}")
    assert run.returncode == 0, run.stderr
    return program
