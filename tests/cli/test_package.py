"""python -m pymcboost: versions, what a bug report needs, folders of the headers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli.programs import environment

import pymcboost
from pymcboost import __version__, versions
from pymcboost.cli.package import main


def test_version_and_show(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pymcboost {__version__}\n"
    completed = subprocess.run(
        [sys.executable, "-m", "pymcboost", "--version", "--show"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in completed.stdout.splitlines())
    assert (
        shown["pymcboost"].startswith(__version__)
        and shown["Python"].split()[1][:-1] == sys.version.split()[0]
    )
    assert set(versions.PACKAGES) < set(shown)
    import numpy

    assert shown["numpy"] == numpy.__version__
    assert re.match(r"(GCC|Clang|MSVC) \d+.*, for [\w-]+$", shown["kernels"])
    assert re.match(r"\d+ of \d+ CPUs may be used$", shown["threads"])
    assert re.search(r"\d threads?$", shown["BLAS"])
    assert {"system", "processor", "features", "OpenMP", "memory", "variables"} < set(shown)


@pytest.mark.parametrize(
    ("option", "file"),
    [("--include", "mcb.hpp"), ("--cmake", "mcb-config.cmake"), ("--pkgconfig", "mcb.pc")],
)
def test_folders_of_the_headers(option, file, capsys):
    assert main([option]) == 0
    assert Path(capsys.readouterr().out.rstrip("\n"), file).is_file()


def shown_versions(capsys):
    pymcboost.show_versions()
    return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())


def test_show_versions_prints_what_the_program_does(capsys):
    shown = shown_versions(capsys)
    assert main(["--show"]) == 0
    program = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    moving = {"memory", "BLAS", "OpenMP", "variables"}
    assert shown.keys() == program.keys()
    assert {name for name in shown if shown[name] != program[name]} <= moving


def test_show_versions_names_the_variables_of_the_caller_alone(capsys, monkeypatch):
    for name in list(os.environ):
        if name.startswith(versions.VARIABLES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shown = shown_versions(capsys)
    assert shown["variables"] == "OMP_NUM_THREADS=1"
    assert shown["threads"].startswith("1 of ")


def test_show_versions_says_what_it_does_not_know(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setattr(versions, "PACKAGES", ("no-such-package",))
    shown = shown_versions(capsys)
    assert shown["BLAS"].startswith("unknown: ")
    assert shown["no-such-package"] == "not installed"


def test_the_form_for_bugs_asks_for_it(project_root):
    form = (project_root / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8")
    assert "pymcboost.show_versions()" in form


def test_show_says_where_kernels_cannot_be_imported():
    start = "import sys; sys.modules['pymcboost._kernels'] = None\n"
    code = start + "from pymcboost.cli.package import main; main(['--show'])"
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert re.search(r"^kernels +cannot be imported: ", completed.stdout, re.M), completed.stderr


@pytest.mark.parametrize("arguments", [[], ["more"]])
def test_bad_usage(capsys, arguments):
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("python -m pymcboost: error: ")
