"""The worked examples of docs/development.md.

The algorithm is one of the package. A loss and a kind of model are added to a copy of the repository and tested there:
`additions` has a folder for each, with its new files where they stand in the repository, and a patch for all that is
changed by hand besides. docs/development.md says how many places that is.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path(__file__).with_name("additions")
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", "build", "_build", "__pycache__", "additions"
)
PAGE = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")


def new_files(example):
    paths = [path.relative_to(EXAMPLES / example) for path in (EXAMPLES / example).rglob("*.[hp]*")]
    return sorted(path.as_posix() for path in paths if path.suffix != ".pyc")


def changed_lines(example):
    """Lines that are changed by hand, by file."""
    patch = (EXAMPLES / f"{example}.diff").read_text(encoding="utf-8")
    parts = re.findall(r"^\+\+\+ b/(\S+)\n((?:[^d].*\n)*)", patch, re.M)
    return {path: len(re.findall(r"^\+.", body, re.M)) for path, body in parts}


def run(folder, *arguments):
    paths = os.pathsep.join([str(folder), str(folder / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    completed = subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def passes(folder, *arguments):
    assert " passed" in run(
        folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments
    )


def added(example, folder):
    """A copy of the repository with the example in it."""
    shutil.copytree(ROOT, folder, ignore=NOT_COPIED, symlinks=True)
    assert not [path for path in new_files(example) if (folder / path).exists()]
    shutil.copytree(EXAMPLES / example, folder, dirs_exist_ok=True)
    run(folder, "git", "apply", str(EXAMPLES / f"{example}.diff"))
    return folder


@pytest.mark.parametrize("example", ["loss", "kind"])
def test_page_says_what_is_touched(example):
    """And the patch still fits."""
    run(ROOT, "git", "apply", "--check", str(EXAMPLES / f"{example}.diff"))
    counts = re.search(rf"^\| \[.*\]\(#add-an?-{example}.*?\) \|.*\n", PAGE, re.M)[0]
    lines = changed_lines(example)
    of_package = {path: n for path, n in lines.items() if path.startswith("pymcboost")}
    elsewhere = sum(lines.values()) - sum(of_package.values())
    new = [path for path in new_files(example) if path.startswith("pymcboost")]
    words = [f"`{path}`" for path in new], sum(of_package.values()), len(of_package), elsewhere
    assert re.findall(r"`[^`]*`|\b\d+\b", counts.partition(")")[2]) == [
        *words[0],
        *map(str, words[1:]),
    ]


def test_an_algorithm():
    """The places of AdaBoost.M1 are those of the page."""
    section = PAGE.partition("## Add an algorithm\n")[2].partition("\n1. ")[0]
    rows = re.findall(r"^\| [\d to]+ \| (.*?) \|", section, re.M)
    places = [path for row in rows for path in re.findall(r"`(\S+)`", row)]
    assert len(places) == 8
    for path in places:
        assert re.search(
            r"AdaBoostM1|adaboost-m1|\bm1\(", (ROOT / path).read_text(encoding="utf-8")
        ), path


def test_a_loss(tmp_path):
    folder = added("loss", tmp_path / "copy")
    run(folder, sys.executable, "tests/cli/test_docs.py")
    passes(folder, "tests/unit/test_brier.py", "tests/cli", "-k", "brier or vector-tree or page_")


def test_a_kind(tmp_path):
    folder = added("kind", tmp_path / "copy")
    run(folder, sys.executable, "tools/amalgamate.py")
    kernels = folder / "pymcboost" / "_kernels"
    run(folder, sys.executable, "-m", "cython", "-3", str(kernels / "score.pyx"))
    include = [
        folder / "pymcboost" / "include",
        kernels,
        sysconfig.get_path("include"),
        np.get_include(),
    ]
    command = [*(os.environ.get("CC") or "cc").split(), "-O1", "-pthread", "-shared", "-fPIC", "-w"]
    built = kernels / f"score{sysconfig.get_config_var('EXT_SUFFIX')}"
    run(
        folder,
        *command,
        *(f"-I{path}" for path in include),
        str(kernels / "score.c"),
        "-o",
        str(built),
    )
    passes(
        folder,
        "tests/unit/test_prototypes.py",
        "tests/unit/test_kinds.py",
        "tests/format/test_refusals.py",
    )
