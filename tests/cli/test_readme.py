"""The README's examples are run as they stand, in order, and print what it says."""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {"mcboost-train": "train", "mcboost-predict": "predict", "mcboost-info": "info"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data/, and the programs on the PATH as the package under test has them."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "data").symlink_to(ROOT / "data")
    (folder / "bin").mkdir()
    for name, module in PROGRAMS.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pymcboost.cli.{module} "$@"\n')
        script.chmod(0o755)
    (folder / "bin" / "python").symlink_to(shutil.which(sys.executable))
    return folder


def blocks():
    text = (ROOT / "README.md").read_text()
    return re.findall(r"^```(python|console|c)\n(.*?)^```$", text, flags=re.M | re.S)


def run(command, folder):
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path), LC_ALL="C")
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_examples(folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {}
    seen = set()
    for kind, text in blocks():
        seen.add(kind)
        if kind == "c":
            (folder / "score.c").write_text(text)
        elif kind == "python":
            test = doctest.DocTestParser().get_doctest(text, names, "README", "README.md", 0)
            failures = []
            doctest.DocTestRunner().run(test, out=failures.append, clear_globs=False)
            assert not failures, "".join(failures)
            names = test.globs
        else:
            for step in re.split(r"^\$ ", text, flags=re.M)[1:]:
                command, _, expected = step.partition("\n")
                assert run(command, folder) == expected, command
    assert seen == {"python", "console", "c"}
