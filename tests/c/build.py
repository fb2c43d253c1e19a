"""Programs from the C sources of tests."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

import pymcboost

STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
STRICTEST = [*STRICT, "-Wconversion", "-Wsign-conversion", "-Wshadow"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build(source, command):
    """The program that a compiler with its options makes of a source; a skip where there is no such one.

    All processes of a test run share the programs: each source is compiled once per command.
    """
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    key = hashlib.sha256(repr((command, source.stem)).encode() + source.read_bytes()).hexdigest()
    program = shared_folder() / key[:16] / source.stem
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        # Two processes may compile the same program at once: a whole one takes its name in one step.
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            made = Path(folder, source.stem)
            full = [*command, f"-I{pymcboost.get_include()}", str(source)]
            run = subprocess.run([*full, "-o", str(made)], capture_output=True, text=True)
            if run.returncode and re.search(
                r"unrecognized|unknown argument|not support", run.stderr
            ):
                pytest.skip(f"this compiler or processor lacks an option: {run.stderr[:200]}")
            assert run.returncode == 0, run.stderr
            os.replace(made, program)
    return program


@cache
def shared_folder():
    """The folder of the programs, which conftest.py makes and removes."""
    return Path(os.environ["PYMCBOOST_TEST_PROGRAMS"])


@cache
def c_compiler(*options):
    """clang, which takes half as long without optimisation, where it makes programs with these options; else gcc."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }\n")
        command = ["clang", *options, str(source), "-o", str(source.with_suffix(""))]
        works = (
            shutil.which("clang") and not subprocess.run(command, capture_output=True).returncode
        )
    return "clang" if works else "gcc"


def cpp_compiler(*options):
    """The same for C++."""
    return {"clang": "clang++", "gcc": "g++"}[c_compiler(*options)]
